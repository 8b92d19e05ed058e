//! The router: all decisions about messages, without I/O.
//!
//! `plan` is the control plane's input as plain data. `table` is the plan compiled for fast
//! look-ups: the space of a connection, logins, names and rights. `core` forwards messages between
//! the links of an address. `shard` combines the AMQP machine, the table and the core into the
//! state of one worker thread. The crate uses no clock, socket, file or thread (`clippy.toml` bans
//! them).

pub mod core;
pub mod plan;
pub mod shard;
pub mod table;
