//! Arbitrary bytes: neither a parser nor a whole server panics on them.

use bolero::check;

use super::{Users, init};
use crate::sasl::bearer::BearerMessage;
use crate::sasl::plain::PlainMessage;
use crate::sasl::scram::{ClientExchange, ClientFinal, ClientFirst, ServerFinal, ServerFirst};
use crate::sasl::{Hash, Mechanism, Server, Step, Verdict, derive};

#[test]
fn plain_messages() {
    check!().for_each(|input: &[u8]| {
        if let Ok(message) = PlainMessage::parse(input) {
            assert!(!message.user.is_empty() && !message.user.contains('\0') && !message.password.contains('\0'));
        }
    });
}

#[test]
fn bearer_messages() {
    check!().for_each(|input: &[u8]| {
        for mechanism in [Mechanism::OAuthBearer, Mechanism::XOAuth2] {
            if let Ok(message) = BearerMessage::parse(mechanism, input) {
                assert!(!message.token.reveal().is_empty() && message.user.as_deref() != Some(""));
            }
        }
    });
}

#[test]
fn scram_messages() {
    check!().for_each(|input: &[u8]| {
        if let Ok(first) = ClientFirst::parse(input) {
            assert_eq!([first.gs2_header, first.bare].concat().as_bytes(), input);
            assert!(!first.user.is_empty() && !first.nonce.contains(','));
        }
        if let Ok(last) = ClientFinal::parse(input) {
            assert!(input.starts_with(last.without_proof.as_bytes()));
        }
        if let Ok(first) = ServerFirst::parse(input) {
            assert_eq!(ServerFirst::parse(first.write().as_bytes()), Ok(first));
        }
        if let Ok(last @ ServerFinal::Signature(_)) = ServerFinal::parse(input) {
            assert_eq!(ServerFinal::parse(last.write().as_bytes()), Ok(last));
        }
    });
}

/// A message with a valid beginning and a random rest gets further into the parsers than random
/// bytes.
#[test]
fn scram_messages_that_begin_well() {
    check!().for_each(|input: &[u8]| {
        for beginning in [&b"n,,n="[..], b"y,a=x,n=x,r=", b"n,,n=user,r="] {
            let message = [beginning, input].concat();
            if let Ok(first) = ClientFirst::parse(&message) {
                assert!(message.ends_with(first.bare.as_bytes()));
            }
        }
        for beginning in [&b"c=biws,r="[..], b"c=", b"c=biws,r=x,p="] {
            let _ = ClientFinal::parse(&[beginning, input].concat());
        }
        for beginning in [&b"r="[..], b"r=x,s=AAAA,i="] {
            let (exchange, _) = ClientExchange::begin_with(Hash::Sha256, "user", "pencil".into(), "y".into());
            assert!(exchange.prove(&[beginning, input].concat()).is_err(), "a foreign nonce is never answered");
        }
    });
}

/// No client logs in without a password, whatever it sends, and each exchange ends.
#[test]
fn servers() {
    check!().with_type::<(u8, Option<Vec<u8>>, Vec<Vec<u8>>)>().for_each(|(mechanism, first, responses)| {
        let mechanism = Mechanism::ALL[usize::from(*mechanism) % Mechanism::ALL.len()];
        let users = Users::default();
        let mut server = Server::new(Mechanism::ALL.to_vec(), super::NONCE);
        let mut step = server.init(&init(mechanism.name(), first.as_deref()), &users);
        for response in responses {
            step = match step {
                Step::Challenge(_) => server.response(response, &users),
                Step::CheckPlain(_) => server.plain_checked(Some(false)),
                Step::Ask(_) => server.judged(Verdict::Wrong),
                Step::Accepted { identity, .. } => panic!("{identity:?} logged in"),
                Step::Refused { .. } => break,
            };
        }
        assert!(!matches!(step, Step::Accepted { .. }));
    });
}

#[test]
fn passwords() {
    check!().with_type::<(String, Vec<u8>)>().with_iterations(200).for_each(|(password, salt)| {
        let few = std::num::NonZeroU32::MIN;
        if let Ok(verifier) = derive(Hash::Sha256, password, salt, few) {
            assert!(verifier.check(password));
            assert!(!verifier.check(&format!("{password}x")));
        }
    });
}
