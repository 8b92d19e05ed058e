//! The client: the mechanism it chooses, and the server errors it detects.

use super::{NONCE, Users, init};
use crate::sasl::{Client, ClientError, Login, Mechanism, Server, Step};
use crate::types::{SaslCode, SaslOutcome, Symbol};

fn login(user: &str, password: &str) -> Login {
    Login { password: Some((user.into(), password.into())), ..Login::default() }
}

fn symbols(names: &[&str]) -> Vec<Symbol> {
    names.iter().map(|name| Symbol::from(*name)).collect()
}

fn ok(data: Option<&[u8]>) -> SaslOutcome {
    SaslOutcome { code: SaslCode::Ok, additional_data: data.map(<[u8]>::to_vec) }
}

#[test]
fn client_chooses_the_strongest_usable_mechanism() {
    let password = login("alice", "pencil");
    let both = Login { certificate: true, ..password.clone() };
    let bound = Login { mechanisms: Some(vec![Mechanism::Plain]), ..password.clone() };
    let all = ["PLAIN", "ANONYMOUS", "SCRAM-SHA-1", "GSSAPI", "SCRAM-SHA-512", "EXTERNAL", "SCRAM-SHA-256"];
    for (login, offered, chosen) in [
        (&password, &all[..], "SCRAM-SHA-512"),
        (&password, &["PLAIN", "SCRAM-SHA-256"], "SCRAM-SHA-256"),
        (&password, &["PLAIN", "ANONYMOUS"], "PLAIN"),
        (&both, &all, "EXTERNAL"),
        (&both, &["PLAIN"], "PLAIN"),
        (&bound, &all, "PLAIN"),
        (&Login::default(), &all, "ANONYMOUS"),
    ] {
        let init = Client::new(login.clone(), NONCE).start(&symbols(offered), Some("space".into())).unwrap();
        assert_eq!(init.mechanism.as_str(), chosen, "{offered:?}");
        assert_eq!(init.hostname.as_deref(), Some("space"));
    }
}

#[test]
fn no_usable_mechanism_or_credential_is_an_error() {
    let error = Client::new(Login::default(), NONCE).start(&symbols(&["PLAIN", "GSSAPI"]), None).unwrap_err();
    assert_eq!(error, ClientError::NoMechanism("PLAIN, GSSAPI".into()));
    for unusable in [login("", "pencil"), login("alice", "pen\u{7}cil"), login("a\u{7}", "pencil")] {
        for offered in ["PLAIN", "SCRAM-SHA-256"] {
            let error = Client::new(unusable.clone(), NONCE).start(&symbols(&[offered]), None).unwrap_err();
            assert!(matches!(error, ClientError::Unusable(_)), "{error}");
        }
    }
}

/// A client at its second message, and the server it talks to.
fn midway() -> (Client, Server, Vec<u8>) {
    let mut client = Client::new(login("alice", "pencil"), NONCE);
    let init = client.start(&symbols(&["SCRAM-SHA-256"]), None).unwrap();
    let mut server = super::server();
    let first = super::challenge(server.init(&init, &Users::alice()));
    let response = client.challenge(&first).unwrap();
    (client, server, response)
}

fn server_final() -> (Client, Vec<u8>) {
    let (client, mut server, response) = midway();
    let Step::Accepted { data: Some(data), .. } = server.response(&response, &Users::alice()) else { panic!() };
    (client, data)
}

#[test]
fn server_signature_is_accepted_in_the_outcome_or_a_final_challenge() {
    let (mut client, data) = server_final();
    assert_eq!(client.outcome(&ok(Some(&data))), Ok(()));
    let (mut client, data) = server_final();
    assert_eq!(client.challenge(&data), Ok(Vec::new()));
    assert_eq!(client.outcome(&ok(None)), Ok(()));
}

#[test]
fn server_without_a_valid_signature_is_refused() {
    let (mut client, _) = server_final();
    assert_eq!(client.outcome(&ok(None)), Err(ClientError::Unproven));
    let (mut client, mut data) = server_final();
    data[5] ^= 1;
    assert!(matches!(client.outcome(&ok(Some(&data))), Err(ClientError::Unproven | ClientError::Protocol(_))));
    let (mut client, _) = server_final();
    assert_eq!(client.outcome(&ok(Some(b"v=AAAA"))), Err(ClientError::Unproven));
    let (mut client, _) = server_final();
    assert_eq!(client.outcome(&ok(Some(b"e=other-error"))), Err(ClientError::Named("other-error".into())));
    let mut early = Client::new(login("alice", "pencil"), NONCE);
    early.start(&symbols(&["SCRAM-SHA-256"]), None).unwrap();
    assert_eq!(early.outcome(&ok(None)), Err(ClientError::Unproven));
}

#[test]
fn refusal_code_is_reported_unchanged() {
    for code in [SaslCode::Auth, SaslCode::Sys, SaslCode::SysPerm, SaslCode::SysTemp] {
        let (mut client, _, _) = midway();
        assert_eq!(client.outcome(&SaslOutcome { code, additional_data: None }), Err(ClientError::Refused(code)));
    }
}

#[test]
fn unsafe_scram_challenge_is_refused() {
    use base64::Engine as _;
    let nonce = base64::engine::general_purpose::STANDARD.encode(NONCE);
    for challenge in [
        format!("r={nonce},s=AAAA,i=4096"),            // adds nothing to the client's nonce
        "r=another,s=AAAA,i=4096".into(),              // of another exchange
        format!("r={nonce}x,s=AAAA,i=4095"),           // cheap to break
        format!("r={nonce}x,s=AAAA,i=1000001"),        // keeps the client busy
        format!("r={nonce}x,s=AAAA,i=99999999999999"), // no number
        String::new(),
    ] {
        let mut client = Client::new(login("alice", "pencil"), NONCE);
        client.start(&symbols(&["SCRAM-SHA-256"]), None).unwrap();
        let refused = client.challenge(challenge.as_bytes());
        assert!(matches!(refused, Err(ClientError::Protocol(_))), "{challenge}: {refused:?}");
        assert!(client.challenge(b"again").is_err(), "the exchange has ended");
    }
}

#[test]
fn scram_iterations_outside_the_bounds_are_reported() {
    use base64::Engine as _;
    let nonce = base64::engine::general_purpose::STANDARD.encode(NONCE);
    for (rounds, reported) in [
        (1, Some("fewer than 4,096 iterations")),
        (4_095, Some("fewer than 4,096 iterations")),
        (4_096, None),
        (1_000_000, None),
        (1_000_001, Some("more than 1,000,000 iterations")),
        (u32::MAX, Some("more than 1,000,000 iterations")),
    ] {
        let mut client = Client::new(login("alice", "pencil"), NONCE);
        client.start(&symbols(&["SCRAM-SHA-256"]), None).unwrap();
        let answer = client.challenge(format!("r={nonce}x,s=AAAA,i={rounds}").as_bytes());
        match reported {
            Some(reported) => assert!(answer.unwrap_err().to_string().contains(reported), "{rounds}"),
            None => assert!(answer.is_ok(), "{rounds}"),
        }
    }
}

#[test]
fn challenge_or_outcome_out_of_order_is_refused() {
    let mut fresh = Client::new(login("alice", "pencil"), NONCE);
    assert!(fresh.challenge(b"").is_err());
    assert!(Client::new(Login::default(), NONCE).outcome(&ok(None)).is_err());
    let mut plain = Client::new(login("alice", "pencil"), NONCE);
    plain.start(&symbols(&["PLAIN"]), None).unwrap();
    assert!(plain.start(&symbols(&["PLAIN"]), None).is_err());
    let mut plain = Client::new(login("alice", "pencil"), NONCE);
    plain.start(&symbols(&["PLAIN"]), None).unwrap();
    assert!(plain.challenge(b"").is_err());
}

#[test]
fn plain_sends_an_empty_password() {
    let message = Client::new(login("guest", ""), NONCE).start(&symbols(&["PLAIN"]), None).unwrap();
    assert_eq!(message, init("PLAIN", Some(b"\0guest\0")));
}

#[test]
fn password_is_absent_from_debug_output() {
    let shown = format!("{:?}", login("alice", "pencil"));
    assert!(shown.contains("alice") && !shown.contains("pencil"), "{shown}");
}
