//! Statistics of one address.

/// The counters of an address since its first use on this shard, and its current links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressStats {
    /// producer attachments now
    pub producers: u32,
    /// consumer attachments now
    pub consumers: u32,
    /// copies dispatched to consumers, counted at their first part
    pub delivered: u64,
    /// bytes of payload dispatched to consumers
    pub bytes: u64,
    /// messages with the outcome accepted for their producer
    pub accepted: u64,
    /// as above, rejected
    pub rejected: u64,
    /// as above, released
    pub released: u64,
    /// as above, modified
    pub modified: u64,
    /// messages that were sent settled
    pub presettled: u64,
    /// dropped copies: settled ones without a consumer, and those beyond the bound of their
    /// consumer
    pub dropped: u64,
    /// stored messages whose records are damaged or missing
    pub damaged: u64,
    /// messages waiting now; copies at multicast addresses
    pub waiting: u64,
    /// stalls of producers: their window was used up or they were held back because consumers did
    /// not take messages
    pub credit_stalls: u64,
}

impl AddressStats {
    /// Adds the counters that another home of the address has kept.
    pub fn add_home(&mut self, other: &Self) {
        self.producers += other.producers;
        self.consumers += other.consumers;
        self.delivered += other.delivered;
        self.bytes += other.bytes;
        self.accepted += other.accepted;
        self.rejected += other.rejected;
        self.released += other.released;
        self.modified += other.modified;
        self.presettled += other.presettled;
        self.dropped += other.dropped;
        self.damaged += other.damaged;
        self.waiting += other.waiting;
        self.credit_stalls += other.credit_stalls;
    }
}
