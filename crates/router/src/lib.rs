//! Which message goes where: the part of EnMasse that decides, without doing any I/O.
//!
//! `plan` is the control plane's input (plain data), `table` is the same compiled for fast
//! look-ups: the space of a connection, logins, names and rights. `core` forwards messages between
//! the links of an address, and `shard` joins the AMQP machine, the table and the core into all
//! that one worker thread owns. No clock, socket, file or thread is touched here (`clippy.toml`
//! bans them).

pub mod core;
pub mod plan;
pub mod shard;
pub mod table;
