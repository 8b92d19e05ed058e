//! Client and server, joined: each mechanism from the first frame to the last.

use proptest::prelude::*;

use super::{NONCE, Users};
use crate::sasl::{Client, ClientError, Identity, Login, Mechanism, Server, Step};
use crate::types::{SaslCode, SaslOutcome};

/// Runs an exchange to its end; returns the server's result and the client's result.
fn meet(mechanism: Mechanism, login: Login, users: &Users) -> (Result<Identity, SaslCode>, Result<(), ClientError>) {
    let mut server = Server::new(vec![mechanism], NONCE);
    let mut client = Client::new(login, NONCE);
    let init = client.start(&server.mechanisms(), None).unwrap();
    let mut step = server.init(&init, users);
    for _ in 0..4 {
        step = match step {
            Step::Challenge(challenge) => server.response(&client.challenge(&challenge).unwrap(), users),
            Step::CheckPlain(check) => server.plain_checked(Some(check.verify())),
            Step::Ask(claim) => panic!("unexpected external login {claim:?}"),
            Step::Accepted { identity, data } => {
                let outcome = SaslOutcome { code: SaslCode::Ok, additional_data: data };
                return (Ok(identity), client.outcome(&outcome));
            }
            Step::Refused { code, .. } => {
                return (Err(code), client.outcome(&SaslOutcome { code, additional_data: None }));
            }
        };
    }
    panic!("the exchange does not end");
}

fn with_password(user: &str, password: &str) -> Login {
    Login { password: Some((user.into(), password.into())), ..Login::default() }
}

const PASSWORD_MECHANISMS: [&str; 4] = ["PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512"];

#[test]
fn correct_password_is_accepted_by_every_mechanism() {
    for name in PASSWORD_MECHANISMS {
        let mechanism = Mechanism::from_name(name).unwrap();
        for (user, password) in [("alice", "pencil"), ("böb, =c", "grün"), ("b\u{f6}b, =c", "gru\u{308}n")] {
            let (server, client) = meet(mechanism, with_password(user, password), &Users::alice());
            assert_eq!(server, Ok(Identity { mechanism, user: Some(user.into()) }), "{name}");
            assert_eq!(client, Ok(()), "{name}");
        }
    }
}

#[test]
fn wrong_password_or_user_is_refused_by_every_mechanism() {
    for name in PASSWORD_MECHANISMS {
        let mechanism = Mechanism::from_name(name).unwrap();
        for (user, password) in [("alice", "crayon"), ("alice", "Pencil"), ("mallory", "pencil"), ("Alice", "pencil")] {
            let (server, client) = meet(mechanism, with_password(user, password), &Users::alice());
            assert_eq!(server, Err(SaslCode::Auth), "{name} {user} {password}");
            assert_eq!(client, Err(ClientError::Refused(SaslCode::Auth)));
        }
    }
}

#[test]
fn anonymous_and_external_are_accepted_where_allowed() {
    let open = Users { anonymous: true, ..Users::default() };
    let (server, client) = meet(Mechanism::Anonymous, Login::default(), &open);
    assert_eq!((server.unwrap().user, client), (None, Ok(())));
    let shown = Users { certificate: Some("alice"), ..Users::default() };
    let login = Login { certificate: true, ..Login::default() };
    let (server, client) = meet(Mechanism::External, login, &shown);
    assert_eq!((server.unwrap().user.as_deref(), client), (Some("alice"), Ok(())));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// The server refuses the last message of a client if any bit of it is flipped.
    #[test]
    fn client_final_with_a_flipped_bit_is_refused(at: prop::sample::Index, bit in 0u8..8) {
        let users = Users::alice();
        let mut server = Server::new(vec![Mechanism::Scram(crate::sasl::Hash::Sha256)], NONCE);
        let mut client = Client::new(with_password("alice", "pencil"), NONCE);
        let init = client.start(&server.mechanisms(), None).unwrap();
        let mut last = client.challenge(&super::challenge(server.init(&init, &users))).unwrap();
        let place = at.index(last.len());
        last[place] ^= 1 << bit;
        let refused = matches!(server.response(&last, &users), Step::Refused { code: SaslCode::Auth, .. });
        prop_assert!(refused);
    }
}
