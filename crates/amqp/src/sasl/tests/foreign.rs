//! The server against the client of an independent library (rsasl).

use std::io::Cursor;

use rsasl::mechname::Mechname;
use rsasl::prelude::{SASLClient, SASLConfig, State};

use super::{NONCE, Users};
use crate::sasl::{Mechanism, Server, Step};
use crate::types::{SaslCode, SaslInit};

/// Runs an exchange; returns the user, or the reason of the refusal.
fn meet(mechanism: Mechanism, user: &str, password: &str, users: &Users) -> Result<Option<String>, SaslCode> {
    let config = SASLConfig::with_credentials(None, user.into(), password.into()).unwrap();
    let name = Mechname::parse(mechanism.name().as_bytes()).unwrap();
    let mut client = SASLClient::new(config).start_suggested(&[name]).unwrap();
    let mut server = Server::new(vec![mechanism], NONCE);
    let mut say = |received: Option<&[u8]>| {
        let mut reported = Cursor::new(Vec::new());
        let state = client.step(received, &mut reported);
        state.map(|state| (state, reported.into_inner()))
    };
    let (_, message) = say(None).unwrap();
    let init = SaslInit { mechanism: mechanism.symbol(), initial_response: Some(message), hostname: None };
    let mut step = server.init(&init, users);
    loop {
        step = match step {
            Step::Challenge(challenge) => server.response(&say(Some(&challenge)).unwrap().1, users),
            Step::CheckPlain(check) => server.plain_checked(Some(check.verify())),
            Step::Ask(claim) => panic!("unexpected external login {claim:?}"),
            Step::Refused { code, .. } => return Err(code),
            Step::Accepted { identity, data } => {
                if let Some(data) = data {
                    let (state, _) = say(Some(&data)).expect("the server has proved itself");
                    assert!(matches!(state, State::Finished(_)));
                }
                return Ok(identity.user);
            }
        };
    }
}

#[test]
fn rsasl_client_logs_in_and_verifies_the_server() {
    let users = Users::alice();
    for name in ["PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let mechanism = Mechanism::from_name(name).unwrap();
        assert_eq!(meet(mechanism, "alice", "pencil", &users), Ok(Some("alice".into())), "{name}");
        assert_eq!(meet(mechanism, "böb, =c", "grün", &users), Ok(Some("böb, =c".into())), "{name}");
        assert_eq!(meet(mechanism, "alice", "crayon", &users), Err(SaslCode::Auth), "{name}");
        assert_eq!(meet(mechanism, "mallory", "pencil", &users), Err(SaslCode::Auth), "{name}");
    }
}
