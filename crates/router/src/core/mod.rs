//! The router proper: the addresses that live on one shard, and every decision about them.
//!
//! Links come in as ports ([`Router::attach`]), messages as arrivals ([`Router::deliver`]), the consumers' say as
//! credit and outcomes; what follows from it is said to the [`Links`]. No I/O, no clock, no threads: whoever owns
//! the router calls it, and the same calls with the same seed give the same answers. `docs/contracts.md` 7 is what it
//! keeps.

mod links;
mod port;
mod stats;

use enmasse_amqp::types::{Error, Outcome};

pub use links::{Arrival, Delivery, Links};
pub use port::{Filter, PortId, PortRole};
pub use stats::AddressStats;

/// Payload of one producer that may wait before it is held back; it goes on at half of this.
pub const HOLD_BYTES: usize = 1 << 20;

/// Stays for the same address, never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressKey(pub u32);

/// How an address treats messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressKind {
    /// each message to one of the consumers
    Anycast,
    /// each message to every consumer
    Multicast,
}

/// What the router has to know of a declared address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// identity
    pub key: AddressKey,
    /// treatment
    pub kind: AddressKind,
    /// deliveries that may wait for one producer
    pub link_capacity: u32,
}

/// The shard whose router gave out `token`.
#[must_use]
pub const fn home_of_token(token: u64) -> u16 {
    (token >> 48) as u16
}

/// The addresses that live on one shard.
#[derive(Debug)]
pub struct Router {
    shard: u16,
}

impl Router {
    /// A router without addresses for shard `shard`; `seed` decides among equals.
    #[must_use]
    pub fn new(shard: u16, seed: u64) -> Self {
        let _ = seed;
        Self { shard }
    }

    /// A link takes its place at an address, which is made on first use. A port that is attached already is
    /// detached first.
    pub fn attach(&mut self, port: PortId, address: Declared, role: PortRole, links: &mut impl Links) {
        let _ = (self.shard, port, address, role, links);
    }

    /// A link goes. A producer's delivery in progress is aborted; what it sent and waits is still delivered, and its
    /// outcome goes nowhere. For a consumer report `modified(delivery-failed)` for each unsettled token first.
    pub fn detach(&mut self, port: PortId, links: &mut impl Links) {
        let _ = (self.shard, port, links);
    }

    /// A consumer may be handed deliveries up to `limit`, counted from its attach and wrapping: those it was handed
    /// and did not refuse, plus its credit. Say it too, with an unchanged limit, when a part that found no room may be
    /// offered again. `drain`: what waits is delivered as far as credit goes, then [`Links::drained`] is said.
    pub fn credit(&mut self, port: PortId, limit: u32, drain: bool, links: &mut impl Links) {
        let _ = (self.shard, port, limit, drain, links);
    }

    /// A delivery, or a part of one, has come from a producer.
    #[inline]
    pub fn deliver(&mut self, port: PortId, arrival: Arrival<'_>, links: &mut impl Links) {
        let _ = (self.shard, port, arrival, links);
    }

    /// A consumer has said what became of a delivery. A token that is not open any more is ignored.
    #[inline]
    pub fn outcome(&mut self, token: u64, outcome: &Outcome, links: &mut impl Links) {
        let _ = (self.shard, token, outcome, links);
    }

    /// A delivery handed to a consumer of another shard found no room, or no link, there. A whole one goes back to
    /// the front of those waiting, in the order of the refusals; a long one in parts is released (`settled`: dropped)
    /// and its rest thrown away. Whoever refuses one refuses all that follow on that port until it has stated its
    /// credit again, and all parts of a delivery whose first part it refused; it never refuses a later part alone.
    pub fn refused(&mut self, port: PortId, delivery: &Delivery<'_>, links: &mut impl Links) {
        let _ = (self.shard, port, delivery, links);
    }

    /// The address is deleted: what waits is released, what consumers hold becomes `modified(delivery-failed)`, all
    /// its ports are detached and told to close with `error`. A producer's delivery that comes later is released.
    pub fn retire(&mut self, key: AddressKey, error: &Error, links: &mut impl Links) {
        let _ = (self.shard, key, error, links);
    }

    /// The end of a turn: producers are told how many of their deliveries wait no longer.
    pub fn turn(&mut self, links: &mut impl Links) {
        let _ = (self.shard, links);
    }

    /// The figures of every address used here so far.
    pub fn stats(&self) -> impl Iterator<Item = (AddressKey, AddressStats)> {
        std::iter::empty()
    }
}
