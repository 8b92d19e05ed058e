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
