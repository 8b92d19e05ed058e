//! A seeded simulation of a node and many clients: real shards, real client machines, a virtual clock, and a network
//! that is late, narrow and breaks. Nothing here reads a clock or touches a socket; a seed tells all, so a run that
//! fails can be lived through again.
//!
//! `scenario` draws what a run is like, `world` lets the node (`node`) and the clients (`client`, `link`) take their
//! turns, and the `ledger` judges what clients see by `docs/contracts.md` 7.

mod client;
mod ledger;
mod link;
mod message;
mod node;
mod random;
mod scenario;
mod wire;
mod world;

pub use ledger::Figures;
pub use world::{Report, run};
