//! The data plane's I/O: sockets, TLS, WebSocket, timers and threads around the shards of `enmasse-router`.
//!
//! `Node` is the whole of it for its owner. Inside: `accept` is the thread that takes connections in and deals them
//! out; `worker` is a thread with its own readiness loop and one shard, which owns its connections alone; `mesh` are
//! the rings by which workers hand each other batches, `mailbox` is the way for what is rare; `transport` turns bytes
//! of a socket into bytes of AMQP without doing I/O; `certificates` is what spaces show of themselves; `web_access` says
//! which web pages may connect; `timers`, `events`,
//! `stats`, `checks`, `creations`, `logins`, `tls_files` are what their names say; `places` is how a bounded room is shared. Nothing
//! here decides where a message goes or who may come in: it holds loops, not decisions.

mod accept;
mod admittance;
mod apply;
mod certificates;
mod checks;
mod config;
mod creations;
mod disk;
mod error;
mod events;
mod journal;
mod logins;
mod mailbox;
mod manage;
mod mesh;
mod node;
mod places;
mod shared;
mod stats;
mod stream;
#[cfg(test)]
mod testing;
mod threads;
mod timers;
mod tls_files;
mod transport;
mod web_access;
mod worker;

pub use apply::{Applied, Failed, Proof, Reason};
pub use certificates::{ServerCertificate, SpaceCertificates, Unshown};
pub use config::{DecoySecret, Limits, Listener, ListenerKind, NodeConfig, TlsFiles};
pub use creations::{CreationAnswer, CreationQuestion};
pub use disk::FolderDisk;
pub use error::{ErrorKind, NodeError};
pub use events::{Happening, NodeEvent};
pub use logins::{LoginAnswer, LoginQuestion};
pub use manage::{FoundLine, ManageRequest, Managed, Verb};
pub use node::Node;
pub use stats::{AddressLine, ConnectionLine, JournalLine, NodeStats, SpaceLine, WorkerStats};
pub use web_access::WebRules;
