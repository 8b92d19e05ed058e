//! Both sides of SASL: against the vectors of the RFCs, against each other, against another
//! library's client, and against bytes that make no sense.

mod bearer;
mod client;
mod exchange;
mod foreign;
mod fuzz;
mod messages;
mod server;
mod vectors;

use std::collections::HashMap;
use std::num::NonZeroU32;

use super::{Credentials, Hash, Mechanism, Nonce, PlainRule, Server, Step, Verifier, derive};
use crate::types::SaslInit;

const NONCE: Nonce = *b"eighteen bytes now";
const ROUNDS: NonZeroU32 = NonZeroU32::new(4_096).unwrap();

/// The credentials that a server knows in these tests.
#[derive(Default)]
struct Users {
    passwords: HashMap<&'static str, &'static str>,
    anonymous: bool,
    open: bool,
    certificate: Option<&'static str>,
    /// passwords are for another party to check
    delegated: bool,
    /// a service checks tokens
    bearer: bool,
}

impl Users {
    fn alice() -> Self {
        Self { passwords: [("alice", "pencil"), ("böb, =c", "grün")].into(), ..Self::default() }
    }
}

impl Credentials for Users {
    fn anonymous(&self) -> bool {
        self.anonymous
    }

    fn plain(&self, user: &str) -> PlainRule {
        match (self.open, self.delegated) {
            (true, _) => PlainRule::Accept,
            (_, true) => PlainRule::Ask,
            _ => PlainRule::Check(self.scram(user, Hash::Sha256).unwrap()),
        }
    }

    fn scram(&self, user: &str, hash: Hash) -> Option<Verifier> {
        let decoy = Verifier {
            hash,
            salt: vec![1; 16],
            iterations: ROUNDS,
            stored_key: vec![2; hash.length()],
            server_key: vec![3; hash.length()],
        };
        let real = |password| derive(hash, password, &[9; 16], ROUNDS).unwrap();
        Some(self.passwords.get(user).copied().map_or(decoy, real))
    }

    fn external(&self) -> Option<String> {
        self.certificate.map(str::to_owned)
    }

    fn bearer(&self, _user: Option<&str>, _mechanism: Mechanism) -> bool {
        self.bearer
    }
}

fn server() -> Server {
    Server::new(Mechanism::ALL.to_vec(), NONCE)
}

fn init(mechanism: &str, message: Option<&[u8]>) -> SaslInit {
    SaslInit { mechanism: mechanism.into(), initial_response: message.map(<[u8]>::to_vec), hostname: None }
}

/// The challenge of a step; panics on another step.
fn challenge(step: Step) -> Vec<u8> {
    match step {
        Step::Challenge(challenge) => challenge,
        other => panic!("no challenge but {other:?}"),
    }
}

/// The user who was admitted, if the step admits.
fn admitted(step: &Step) -> Option<Option<&str>> {
    match step {
        Step::Accepted { identity, .. } => Some(identity.user.as_deref()),
        _ => None,
    }
}
