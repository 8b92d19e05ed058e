//! The client side of EnMasse: a client of any AMQP 1.0 server, and a load tool that measures one.

mod client;
mod error;
pub mod load;
mod login;
mod poller;
#[cfg(test)]
mod testing;
mod transport;
pub mod url;
mod wire;

pub use client::{Client, ClientOptions, Event, Handle, LinkOptions, Outcome, Reason};
pub use error::{Error, ErrorKind};
pub use transport::TlsOptions;
