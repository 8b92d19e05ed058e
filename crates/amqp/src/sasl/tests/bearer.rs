//! Tokens: the examples of RFC 7628, malformed messages, and both sides against each other.

use super::{NONCE, Users, admitted, challenge, init, server};
use crate::sasl::bearer::BearerMessage;
use crate::sasl::{Claim, Client, ClientError, Login, Mechanism, Secret, Step, Verdict};
use crate::types::{SaslCode, SaslOutcome};

const TOKEN: &str = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==";

fn asked(step: Step) -> Claim {
    match step {
        Step::Ask(claim) => claim,
        other => panic!("expected an external login, not {other:?}"),
    }
}

fn knowing() -> Users {
    Users { bearer: true, ..Users::default() }
}

fn parsed(mechanism: Mechanism, message: &str) -> Result<(Option<String>, String), &'static str> {
    let message = BearerMessage::parse(mechanism, message.replace("^A", "\u{1}").as_bytes())?;
    Ok((message.user, message.token.reveal().to_owned()))
}

#[test]
fn examples_of_rfc_7628_are_parsed() {
    // RFC 7628, section 4.1
    let imap = format!("n,a=user@example.com,^Ahost=server.example.com^Aport=143^Aauth=Bearer {TOKEN}^A^A");
    let user = Some("user@example.com".to_owned());
    assert_eq!(parsed(Mechanism::OAuthBearer, &imap), Ok((user.clone(), TOKEN.to_owned())));
    let bare = format!("n,,^Aauth=Bearer {TOKEN}^A^A");
    assert_eq!(parsed(Mechanism::OAuthBearer, &bare), Ok((None, TOKEN.to_owned())));
    let older = format!("user=user@example.com^Aauth=bearer {TOKEN}^A^A");
    assert_eq!(parsed(Mechanism::XOAuth2, &older), Ok((user, TOKEN.to_owned())));
}

#[test]
fn user_name_round_trips_through_a_bearer_message() {
    for user in [None, Some("alice"), Some("a=b,c"), Some("=2C"), Some("b\u{f6}b")] {
        for mechanism in [Mechanism::OAuthBearer, Mechanism::XOAuth2] {
            let message = BearerMessage::write(mechanism, user, TOKEN);
            let read = BearerMessage::parse(mechanism, &message).unwrap();
            assert_eq!((read.user.as_deref(), read.token.reveal()), (user, TOKEN));
        }
    }
}

#[test]
fn malformed_bearer_message_gets_invalid_request_and_is_refused() {
    for message in [
        "x",
        "^A^A",
        "n,,^A^A",
        "n,,^Aauth=Bearer^A^A",
        "n,,^Aauth=Basic abc^A^A",
        "n,,^Aauth=Bearer a b^A^A",
        "n,,^Aauth=Bearer t\u{e4}^A^A",
        "n,,^Aauth=Bearer abc",
        "n,,^Aauth=Bearer abc^Aauth=Bearer abc^A^A",
        "n,,^A=^Aauth=Bearer abc^A^A",
        "n,b=x,^Aauth=Bearer abc^A^A",
        "p=tls-unique,,^Aauth=Bearer abc^A^A",
        "n,a=x,y,^Aauth=Bearer abc^A^A",
    ] {
        let mut server = server();
        let bytes = message.replace("^A", "\u{1}").into_bytes();
        let reported = challenge(server.init(&init("OAUTHBEARER", Some(&bytes)), &knowing()));
        assert_eq!(reported, br#"{"status":"invalid_request"}"#, "{message}");
        let step = server.response(b"\x01", &knowing());
        assert!(matches!(step, Step::Refused { code: SaslCode::Auth, .. }), "{message}: {step:?}");
    }
    let long = format!("n,,^Aauth=Bearer {}^A^A", "a".repeat(16_001));
    assert!(parsed(Mechanism::OAuthBearer, &long).is_err());
}

#[test]
fn valid_token_admits_the_user_it_names() {
    for mechanism in [Mechanism::OAuthBearer, Mechanism::XOAuth2] {
        let mut server = server();
        let message = BearerMessage::write(mechanism, None, TOKEN);
        // The mechanism may also start without an initial response.
        assert_eq!(challenge(server.init(&init(mechanism.name(), None), &knowing())), b"");
        let claim = asked(server.response(&message, &knowing()));
        assert_eq!(claim, Claim { mechanism, user: None, secret: Secret::new(TOKEN) });
        assert!(!format!("{claim:?}").contains(TOKEN), "no log shows a token");
        let step = server.judged(Verdict::Right { user: "alice".into() });
        assert_eq!(admitted(&step), Some(Some("alice")));
        assert!(matches!(server.judged(Verdict::Wrong), Step::Refused { code: SaslCode::Sys, .. }), "once");
    }
}

#[test]
fn wrong_token_gets_invalid_token_before_the_outcome() {
    let message = BearerMessage::write(Mechanism::OAuthBearer, Some("alice"), TOKEN);
    let mut first = server();
    asked(first.init(&init("OAUTHBEARER", Some(&message)), &knowing()));
    let judged = challenge(first.judged(Verdict::Wrong));
    // Without an external login the answer is the same.
    let mut other = server();
    let unasked = challenge(other.init(&init("OAUTHBEARER", Some(&message)), &Users::default()));
    let words = br#"{"status":"invalid_token"}"#;
    assert_eq!((&*judged, &*unasked), (&words[..], &words[..]));
    for server in [&mut first, &mut other] {
        let step = server.response(b"", &knowing());
        assert!(matches!(step, Step::Refused { code: SaslCode::Auth, .. }), "{step:?}");
    }
}

#[test]
fn xoauth2_refusal_is_sent_without_a_challenge() {
    let message = BearerMessage::write(Mechanism::XOAuth2, None, TOKEN);
    let mut first = server();
    asked(first.init(&init("XOAUTH2", Some(&message)), &knowing()));
    for step in [
        first.judged(Verdict::Wrong),
        server().init(&init("XOAUTH2", Some(&message)), &Users::default()),
        server().init(&init("XOAUTH2", Some(b"nonsense")), &knowing()),
    ] {
        assert!(matches!(step, Step::Refused { code: SaslCode::Auth, .. }), "{step:?}");
    }
}

#[test]
fn unavailable_external_login_is_a_temporary_failure() {
    for mechanism in [Mechanism::OAuthBearer, Mechanism::Plain] {
        let mut server = server();
        let users = Users { bearer: true, delegated: true, ..Users::default() };
        let message = match mechanism {
            Mechanism::Plain => b"\0alice\0pencil".to_vec(),
            bearer => BearerMessage::write(bearer, None, TOKEN),
        };
        asked(server.init(&init(mechanism.name(), Some(&message)), &users));
        assert!(matches!(server.judged(Verdict::Unknown), Step::Refused { code: SaslCode::SysTemp, .. }));
    }
}

#[test]
fn plain_password_can_be_delegated_to_an_external_login() {
    let users = Users { delegated: true, ..Users::default() };
    for (verdict, comes_in) in [(Verdict::Right { user: "alice".into() }, true), (Verdict::Wrong, false)] {
        let mut server = server();
        let claim = asked(server.init(&init("PLAIN", Some(b"\0alice\0pencil")), &users));
        assert_eq!((claim.user.as_deref(), claim.secret.reveal()), (Some("alice"), "pencil"));
        assert!(matches!(server.response(b"x", &users), Step::Refused { code: SaslCode::Sys, .. }), "out of turn");
        let mut server = super::server();
        asked(server.init(&init("PLAIN", Some(b"\0alice\0pencil")), &users));
        assert_eq!(admitted(&server.judged(verdict)).is_some(), comes_in);
    }
}

fn client(mechanisms: &[&str]) -> (Client, Result<crate::types::SaslInit, ClientError>) {
    let login = Login { token: Some((None, Secret::new(TOKEN))), ..Login::default() };
    let offered: Vec<_> = mechanisms.iter().map(|name| (*name).into()).collect();
    let mut client = Client::new(login, NONCE);
    let init = client.start(&offered, None);
    (client, init)
}

#[test]
fn client_with_a_token_uses_only_bearer_mechanisms() {
    let offered = ["ANONYMOUS", "PLAIN", "XOAUTH2", "OAUTHBEARER", "SCRAM-SHA-512"];
    let (mut client, init) = client(&offered);
    let init = init.unwrap();
    assert_eq!(init.mechanism.as_str(), "OAUTHBEARER");
    let mut server = server();
    assert_eq!(asked(server.init(&init, &knowing())).secret.reveal(), TOKEN);
    assert!(matches!(server.judged(Verdict::Right { user: "a".into() }), Step::Accepted { .. }));
    assert_eq!(client.outcome(&SaslOutcome { code: SaslCode::Ok, additional_data: None }), Ok(()));
    assert!(matches!(self::client(&["ANONYMOUS", "PLAIN"]).1, Err(ClientError::NoMechanism(_))));
}

#[test]
fn client_reports_the_reason_of_a_refused_token() {
    let (mut client, init) = client(&["OAUTHBEARER"]);
    let mut server = server();
    asked(server.init(&init.unwrap(), &knowing()));
    let response = client.challenge(&challenge(server.judged(Verdict::Wrong))).unwrap();
    let Step::Refused { code, .. } = server.response(&response, &knowing()) else { panic!("it is wrong") };
    let error = client.outcome(&SaslOutcome { code, additional_data: None }).unwrap_err();
    assert!(error.to_string().contains("invalid_token"), "{error}");
}
