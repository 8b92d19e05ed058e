//! Session state that outlives a connection (4.1), as plain data with a compact encoding.
//!
//! Messages, and the packet identifiers of those with QoS 1 and 2, belong to the node's store.

mod state;
mod wire;

pub use state::{Session, StoredSubscription, StoredWill};
pub use wire::SessionDecodeError;
