//! Session state that outlives a connection (4.1), as plain data with a compact encoding.
//!
//! A node stores a `Change` in the log group of the message that it belongs to, and a whole
//! `Session` where it compacts. `Session::apply` of each change in order yields the session again.

mod change;
mod state;
mod wire;

pub use change::Change;
pub use state::{Session, StoredSubscription, StoredWill};
pub use wire::SessionDecodeError;
