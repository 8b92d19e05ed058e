//! The client side of EnMasse: a client of any AMQP 1.0 server, and a load tool that measures one.

mod blocking;
mod client;
mod error;
pub mod load;
mod login;
mod poller;
mod publish;
mod queue;
mod spool;
mod stream;
#[cfg(test)]
mod testing;
mod transport;
pub mod url;
mod wire;

pub use blocking::SourceOptions;
pub use client::{
    Client, ClientOptions, Event, Handle, LinkOptions, Outcome, PartitionState, Reason, StreamFilter, StreamOffset,
    StreamState,
};
pub use error::{Error, ErrorKind};
pub use publish::{Cause, Post, Publisher, PublisherOptions};
pub use queue::Queue;
pub use spool::{Id, Kind, Packed, Packing, Records, Seen, identity, was_delivered_before};
pub use stream::{Range, Stream};
pub use transport::TlsOptions;
