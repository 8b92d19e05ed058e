//! Figures of one address.

/// What an address did since it was first used on this shard, and who is there now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressStats {
    /// producer ports now
    pub producers: u32,
    /// consumer ports now
    pub consumers: u32,
    /// copies handed to consumers, counted when they begin
    pub delivered: u64,
    /// bytes of payload handed to consumers
    pub bytes: u64,
    /// unsettled messages by the outcome owed to their producer
    pub accepted: u64,
    /// as above
    pub rejected: u64,
    /// as above
    pub released: u64,
    /// as above
    pub modified: u64,
    /// messages that came settled
    pub presettled: u64,
    /// copies that somebody should have had and nobody gets: settled ones without a consumer, and those of
    /// consumers past their bound
    pub dropped: u64,
    /// stored messages that the disk has lost
    pub damaged: u64,
    /// messages waiting now; with multicast, copies
    pub waiting: u64,
    /// times a producer had to wait, its window used up or held back, because consumers did not take
    pub credit_stalls: u64,
}
