//! A whole node over real loopback sockets: threads, listeners, transports, bounds. Protocol and
//! routing have their own tests; these check that bytes, time and threads reach them.

mod bounds;
mod control;
mod handshakes;
mod harness;
mod login_floods;
mod messages;
mod pacing;
mod proxies;
mod resuming;
mod stopping;
mod stored;
mod streams;
#[path = "../../src/testing.rs"]
mod testing;
mod topics;
mod transactions;
mod unix_socket;

use enmasse_node::{ServerCertificate, TlsFiles};
