//! AMQP 1.0 (OASIS standard, 29 October 2012) as a machine without I/O.
//!
//! Bytes and time come in as arguments, events and bytes come out; no socket, clock, thread or file
//! is touched here (`clippy.toml` bans them). `types` holds the types of parts 1 to 5, `codec`
//! turns them into bytes and back, `sasl` holds both sides of the mechanisms of part 5,
//! `connection` is the sans-I/O machine; `session` and `link` are its parts. `selector` chooses
//! messages in their encoding.

pub mod codec;
mod config;
pub mod connection;
mod error_kind;
mod link;
pub mod sasl;
pub mod selector;
mod session;
mod slots;
pub mod time;
pub mod types;

pub use error_kind::ErrorKind;
