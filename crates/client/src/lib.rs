//! The client side of EnMasse: a client of any AMQP 1.0 server. The load tool (`crates/load`) uses its
//! login, transport, poller and buffers.

mod blocking;
mod client;
mod error;
pub mod login;
pub mod poller;
mod publish;
mod queue;
mod spool;
mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod transport;
pub mod url;
pub mod wire;

pub use blocking::SourceOptions;
pub use client::{
    Client, ClientOptions, Event, Handle, LinkOptions, Outcome, PartitionState, Reason, StreamFilter, StreamOffset,
    StreamState,
};
pub use enmasse_amqp::ErrorKind;
pub use error::Error;
pub use publish::{Cause, Post, Publisher, PublisherOptions};
pub use queue::Queue;
pub use spool::{Id, Kind, Packed, Packing, RecentIds, Records, identity, was_delivered_before};
pub use stream::{Range, Stream};
pub use transport::TlsOptions;
