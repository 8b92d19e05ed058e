//! Stored addresses of a shard: batches to and from the journal, and time-driven work.

use enmasse_journal::log::{RecordLocation, WriteBatch};
use enmasse_journal::queue::{QueueStats, Settings};
use enmasse_journal::stream;

use super::Shard;
use crate::core::{
    AddressKey, Answer, Damaged, Declared, Destination, Digests, OpenQueue, OpenTopic, Operated, Operation, Read,
    Stream,
};
use crate::table::{AddressEntry, Space};

/// A change of a stored address whose home is this shard.
#[derive(Debug)]
pub enum StoredAddressChange {
    /// a queue that is new or recovered
    Open(Declared, Box<OpenQueue>),
    /// changed settings, dead letter address, expiry address or last-value property
    Change(AddressKey, Box<Settings>, Option<Destination>, Option<Destination>, Option<Box<str>>),
    /// a topic that is new or changed
    Topic(Declared, Box<OpenTopic>),
    /// the changed topic of a declared subscription; `None`: its topic is missing
    Move(AddressKey, Option<AddressKey>),
    /// a stream that is new or recovered
    OpenStream(Declared, Box<Stream>),
    /// changed settings of a stream, and its additional partitions, by their queue numbers
    ChangeStream(AddressKey, Box<stream::Settings>, Vec<Option<u32>>),
}

impl Shard {
    /// Opens or changes stored addresses whose home is this shard. Call it before the table that
    /// names them is applied.
    pub fn change_stored_addresses(&mut self, address_changes: Vec<StoredAddressChange>) {
        for address_change in address_changes {
            match address_change {
                StoredAddressChange::Open(declared, opened) => {
                    self.router.open_queue(declared, *opened, &mut self.fabric)
                }
                StoredAddressChange::OpenStream(declared, stream) => {
                    self.router.open_stream(declared, *stream, &mut self.fabric);
                }
                StoredAddressChange::ChangeStream(key, settings, more) => {
                    self.router.change_stream(key, *settings, more, &mut self.fabric);
                }
                StoredAddressChange::Change(key, settings, dead_letter, expiry, last_value_key) => {
                    self.router.reconfigure_queue(
                        key,
                        *settings,
                        dead_letter,
                        expiry,
                        last_value_key,
                        &mut self.fabric,
                    );
                }
                StoredAddressChange::Topic(declared, opened) => {
                    self.router.open_topic(declared, *opened, &mut self.fabric)
                }
                StoredAddressChange::Move(key, topic) => self.router.move_subscription(key, topic, &mut self.fabric),
            }
        }
    }

    /// Sets the key of digests, which the journal keeps. Call it before anything is stored.
    pub fn set_digests(&mut self, digests: Digests) {
        self.router.set_digests(digests);
    }

    /// Sets the time of day at the beginning of a turn, in milliseconds since 1970.
    pub fn set_time_of_day(&mut self, now_ms: u64) {
        self.router.set_time(now_ms);
    }

    /// The latest time of the next turn for timers of stored messages, in milliseconds since 1970.
    #[must_use]
    pub fn next_time_of_day(&self) -> Option<u64> {
        self.router.next_timeout()
    }

    /// The next batch for the journal. Call it after each turn until `None`, and keep the order.
    pub fn take_journal(&mut self) -> Option<WriteBatch> {
        self.router.take_journal()
    }

    /// Handles completed batches of the journal, in the order in which they were taken.
    pub fn journaled(&mut self, answers: Vec<Answer>) {
        for answer in answers {
            self.router.journaled(answer, &mut self.fabric);
        }
    }

    /// Whether received messages wait for the journal.
    #[must_use]
    pub fn is_storing(&self) -> bool {
        self.router.is_storing()
    }

    /// Record locations of messages to be read from the journal.
    pub fn take_wanted(&mut self) -> Vec<RecordLocation> {
        self.router.take_wanted()
    }

    /// Results of the reads of [`Shard::take_wanted`].
    pub fn fetched(&mut self, reads: Vec<(RecordLocation, Read)>) {
        self.router.fetched(reads, &mut self.fabric);
    }

    /// Begins the compaction of a segment: writes messages of this shard in it again.
    pub fn compact(&mut self, segment: u32) {
        self.router.compact(segment);
    }

    /// Begins an operation of an administrator; it continues in later turns.
    pub fn operate(&mut self, operation: Operation) {
        self.router.operate(operation);
    }

    /// Seals an address that lives here and is not in use, so that no link attaches until it is
    /// deleted. Whether it is sealed now.
    pub fn seal_unused(&mut self, entry: &AddressEntry) -> bool {
        self.router.seal_unused(entry.declared())
    }

    /// Unseals an address, because it is not deleted.
    pub fn unseal(&mut self, entry: &AddressEntry) {
        self.router.unseal(entry.key);
    }

    /// The answers of operations, by their ids.
    pub fn take_operated(&mut self) -> Vec<(u32, Operated)> {
        self.router.take_operated()
    }

    /// Damaged messages, each with the name of its address space and the uid of its address. Those
    /// of addresses that the table does not have yet are reported later.
    pub fn take_damaged(&mut self) -> Vec<((String, String), Damaged)> {
        let table = &self.table;
        let named = |key| {
            table.spaces().find_map(|space: &Space| {
                let entry = space.addresses().find(|entry| entry.key == key)?;
                Some((space.name().to_owned(), entry.uid.to_string()))
            })
        };
        self.router.take_damaged(named)
    }

    /// The statistics of the stored addresses of this shard.
    pub fn queue_stats(&self) -> impl Iterator<Item = (AddressKey, QueueStats)> {
        self.router.queue_stats().chain(self.router.stream_stats())
    }
}
