//! A seeded simulation of a node and many clients: real shards, a real journal on a simulated disk,
//! real client machines, a virtual clock, and a network that is late, narrow and drops connections.
//! Nothing here reads a clock or touches a socket or file; the seed determines everything, so a run
//! that fails can be repeated.
//!
//! `scenario` draws the parameters of a run, `world` lets the node (`node`, `journal`) and the
//! clients (`client`, `link`) take their turns, and the `ledger` checks the clients' view against
//! `docs/contracts.md` 7 to 9.

mod address;
mod client;
mod faults;
mod journal;
mod ledger;
mod link;
mod message;
mod node;
mod random;
mod scenario;
mod wire;
mod world;

pub use faults::{Fault, FaultCounts};
pub use ledger::RunStats;
pub use scenario::Profile;
pub use world::{Report, run};
