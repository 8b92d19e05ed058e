//! A seeded simulation of a node and many clients: real shards, a real journal on a simulated disk,
//! real client machines, a virtual clock, and a network with latency, small buffers and dropped
//! connections. It uses no clock, socket or file; the seed determines everything, so a failed run
//! can be repeated.
//!
//! `scenario` draws the parameters of a run, `world` runs the turns of the node (`node`, `journal`)
//! and the clients (`client`, `link`; `devices` are those of MQTT), and the `ledger` checks the clients' view against
//! `docs/contracts.md` 7 to 9.

mod address;
mod client;
mod devices;
mod faults;
mod journal;
mod ledger;
mod link;
mod message;
mod node;
mod random;
mod report;
mod scenario;
mod wire;
mod world;

pub use faults::{Fault, FaultCounts};
pub use ledger::RunStats;
pub use report::Report;
pub use scenario::Profile;
pub use world::run;
