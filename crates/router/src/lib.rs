//! Which message goes where: the part of EnMasse that decides, without doing any I/O.
//!
//! `plan` is what the control plane hands over (plain data), `table` is the same compiled for fast answers:
//! which space a connection belongs to, who may come in, what a name means, who may do what. `core` forwards
//! messages between the links of an address, and `shard` joins the AMQP machine, the table and the core into
//! all that one worker thread owns. No clock, socket, file or thread is touched here (`clippy.toml` bans them).

pub mod core;
pub mod plan;
pub mod shard;
pub mod table;
