//! The data plane's I/O: sockets, TLS, WebSocket, timers and threads around the shards of
//! `enmasse-router`.
//!
//! `Node` is its interface for the owner. Modules: `accept` is the thread that accepts connections
//! and distributes them; `worker` is a thread with its own readiness loop and one shard, which
//! alone owns its connections; `mesh` has the rings between workers, `mailbox` the channel for rare
//! commands (`command`); `transport` turns bytes of a socket into bytes of AMQP without I/O;
//! `origin` and `proxy_header` tell where a connection comes from; `unix_listener` has the file of
//! a Unix socket; `certificates` has the TLS certificates of spaces; `web_access` admits web pages
//! by origin; `timers`, `events`, `stats`, `checks`, `creations`, `logins`, `tls_files` are named
//! after their subjects; `fair_quota` shares a bounded number of slots. This crate has the event
//! loops; the router makes all decisions about routes and logins.

mod accept;
mod apply;
mod certificates;
mod checks;
mod clock;
mod command;
mod config;
mod confirmation;
mod connection_limits;
mod creations;
mod disk;
mod error;
mod events;
mod fair_quota;
mod journal;
mod logins;
mod mailbox;
mod manage;
mod mesh;
mod node;
mod origin;
mod proxy_header;
mod read_scheduler;
mod sessions;
mod shared;
mod socket;
mod stats;
mod stream;
mod survey;
#[cfg(test)]
mod testing;
mod threads;
mod timers;
mod tls_files;
mod transport;
mod unix_listener;
mod web_access;
mod worker;

pub use certificates::{ServerCertificate, SpaceCertificates, UnusableCertificate};
pub use config::{DummyCredentialSecret, Limits, Listener, ListenerKind, NodeConfig, TlsFiles};
pub use confirmation::{Applied, Failed, Proof, Reason};
pub use creations::{CreationAnswer, CreationQuestion};
pub use disk::FolderDisk;
pub use enmasse_amqp::ErrorKind;
pub use error::NodeError;
pub use events::{EventKind, NodeEvent};
pub use logins::{LoginAnswer, LoginQuestion};
pub use manage::{ExaminedMessageLine, ManageRequest, Managed, Verb};
pub use node::Node;
pub use sessions::{SessionKind, SessionLine, SessionName, SubscriptionLine, WillLine};
pub use stats::{AddressLine, ConnectionLine, JournalLine, LinkLine, NodeStats, OutcomesLine, SpaceLine, WorkerStats};
pub use web_access::WebRules;
