//! Statistics of one address.

/// The counters of an address since its first use on this shard, and its current links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressStats {
    /// producer attachments now
    pub producers: u32,
    /// consumer attachments now
    pub consumers: u32,
    /// copies dispatched to consumers, counted when they begin
    pub delivered: u64,
    /// bytes of payload dispatched to consumers
    pub bytes: u64,
    /// unsettled messages by the outcome for their producer
    pub accepted: u64,
    /// as above
    pub rejected: u64,
    /// as above
    pub released: u64,
    /// as above
    pub modified: u64,
    /// messages that came settled
    pub presettled: u64,
    /// copies that were dropped: settled ones without a consumer, and those of consumers past their
    /// bound
    pub dropped: u64,
    /// stored messages that the disk has lost
    pub damaged: u64,
    /// messages waiting now; with multicast, copies
    pub waiting: u64,
    /// times a producer had to wait, its window used up or held back, because consumers did not
    /// take
    pub credit_stalls: u64,
}
