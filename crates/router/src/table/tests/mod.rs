//! The table is tested against the contracts, and against the vectors that both planes read.

mod compile;
mod diff;
mod granted;
mod handshake;
mod lookup;
mod names;
mod patterns;
mod rights;
mod scale;
mod schema;

use super::Table;
use crate::plan::{Address, AddressType, Authentication, AuthenticationType, Plan, Right, Space, User};

const SECRET: [u8; 32] = [7; 32];

/// A file of the test vectors that both planes read.
#[expect(clippy::disallowed_methods, reason = "a test reads its vectors")]
fn read(name: &str) -> serde_json::Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The table of a valid plan.
fn table(plan: &Plan) -> Table {
    Table::compile(plan, &Table::empty(SECRET)).unwrap()
}

fn plan(version: u64, spaces: impl IntoIterator<Item = Space>) -> Plan {
    Plan { version, spaces: spaces.into_iter().collect(), ..Plan::default() }
}

/// A space open to every client, named `NAME` and `NAME.test`, with these addresses.
fn space(name: &str, addresses: &[(&str, AddressType)]) -> Space {
    let address = |&(address, kind): &(&str, AddressType)| Address::new(format!("{name}/{address}"), address, kind);
    Space {
        uid: format!("uid of {name}"),
        names: vec![name.into(), format!("{name}.test")],
        authentication: Authentication {
            kind: AuthenticationType::None,
            anonymous: true,
            mechanisms: vec!["PLAIN".into()],
            service: None,
        },
        users: Vec::new(),
        limits: Default::default(),
        addresses: addresses.iter().map(address).collect(),
        auto_create: Vec::new(),
        internal: false,
        mqtt: None,
    }
}

/// The same space, closed, with these users.
fn closed(mut space: Space, users: Vec<User>) -> Space {
    let mechanisms = vec!["SCRAM-SHA-512".into(), "SCRAM-SHA-256".into(), "PLAIN".into()];
    space.authentication =
        Authentication { kind: AuthenticationType::Standard, anonymous: false, mechanisms, service: None };
    space.users = users;
    space
}

fn user(name: &str, rights: &[(&str, &[crate::plan::Operation])]) -> User {
    let rights =
        rights.iter().map(|&(pattern, operations)| Right { pattern: pattern.into(), operations: operations.into() });
    User { name: name.into(), verifiers: Vec::new(), rights: rights.collect() }
}
