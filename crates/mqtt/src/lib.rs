//! MQTT 3.1, 3.1.1 and 5.0 as a machine without I/O.
//!
//! Bytes and time come in as arguments, events and bytes come out; no socket, clock, thread or file
//! is touched here (`clippy.toml` bans them). `codec` turns packets into bytes and back without
//! copies, `topic` has the rules of topic names and filters, `connection` is the server's end of a
//! network connection, and `session` is the state that outlives it.
//!
//! Statements of the standards are cited by their numbers: `[5: 3.1.2-4]` is `[MQTT-3.1.2-4]` of
//! MQTT 5.0, `[3: ..]` that of 3.1.1. `docs/mqtt-conformance.md` lists them with their tests.

pub mod codec;
pub mod connection;
pub mod session;
pub mod topic;

pub use enmasse_amqp::time;
