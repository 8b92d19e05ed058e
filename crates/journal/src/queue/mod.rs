//! The queue of one address: the order of its messages, their assignment to consumers, and the
//! handling of returned ones.
//!
//! A state machine without I/O. It has the [`Head`] of a message and the location of its body, not
//! the body. Time is an argument, in milliseconds since 1970, and never decreases. The owner (the
//! router, on the address's home shard) calls it and carries out its [`Effect`]s.
//!
//! # A message
//!
//! 1. [`Queue::offer`] returns an [`Admission`]: store the message under a [`Seq`], accept it as a
//!    duplicate, or refuse it.
//! 2. [`Queue::committed`] makes it available: once the journal has written it, or at once if it
//!    need not be durable. [`Queue::withdraw`] if the journal failed or the transaction was rolled
//!    back.
//! 3. [`Queue::candidates`] lists the consumers that may receive. The caller chooses one and calls
//!    [`Queue::next`], until the list is empty. A candidate that gets no message leaves the list.
//! 4. [`Queue::settle`] applies the consumer's [`ConsumerOutcome`]; effects state the actions to
//!    take. In a transaction, [`Queue::retire`] comes first, and [`Queue::unretire`] at a rollback.
//! 5. A message for another address ([`Effect::Divert`]) stays until [`Queue::left`] or
//!    [`Queue::stay`].
//!
//! Plain messages have a fast path through the same states: [`Plain`].
//!
//! # Others
//!
//! - consumers: [`Queue::attach`], [`Queue::set_credit`], [`Queue::detach`]; producers:
//!   [`Queue::attach_producer`], [`Queue::room`], [`Queue::detach_producer`]
//! - time: [`Queue::next_timeout`], [`Queue::timeout`]
//! - a restart: [`Queue::restore`] with the state that the log recovered: [`Record::decode`],
//!   [`Marker::decode`]
//! - administrators: [`Queue::administer`] in slices, [`Queue::reconfigure`], [`Queue::stats`]
//! - compaction of the log: [`Queue::iter`] finds the messages of a segment, [`Queue::moved`] sets
//!   their new locations
//!
//! # Order
//!
//! Messages are ordered by priority, and within a priority by number. A message that a consumer
//! returns, or that waited for its next attempt, keeps its position. A scheduled message moves to
//! the end when it is due. Selectors and groups choose messages within this order.
//!
//! # Bounds
//!
//! `settings.limits`. The index takes 42 bytes a message. Every call is O(log n) in messages, and
//! its work is bounded; an incomplete call is reported ([`Next::Later`], [`Queue::next_timeout`]).

mod admission;
mod consumer_id;
mod consumers;
mod cursor;
mod delivery;
mod diversion;
mod duplicate_history;
mod effect;
mod entry;
mod groups;
mod head;
mod index;
mod manage;
mod outcome;
mod plain;
mod restore;
mod settings;
mod state;
mod stats;
mod timer;
mod undeliverable_here;
mod values;

use std::collections::HashMap;

use consumers::Consumers;
use entry::{Entry, Mark, Step};
use groups::Groups;
use index::{Class, Index};
use timer::Timers;
use undeliverable_here::UndeliverableHere;
use values::LastValues;

pub use consumer_id::ConsumerId;
pub use consumers::{Candidates, Consume, Refused};
pub(crate) use duplicate_history::DuplicateHistory;
pub use duplicate_history::NUMBERED_PRODUCERS_MAX;
pub use effect::{Admission, Cause, ConsumerOutcome, Effect, Item, Next, Refusal, Stored, Target, Verdict};
pub use entry::{RecordLocation, Seq, State};
pub use head::{Group, Head, Priority, RECORD_BYTES, Record};
pub use manage::{Operation, Progress, Slice};
pub use plain::Plain;
pub use restore::{OutOfOrder, Restored};
pub use settings::{Duplicates, Full, Grouping, Limits, Redelivery, Settings, Sharing, Ttl};
pub use state::{MARKER_KEY_BYTES, MARKER_VALUE_BYTES, Marker};
pub use stats::QueueStats;

/// The messages of one address.
#[derive(Debug)]
pub struct Queue {
    settings: Settings,
    /// derived from the settings: new messages may be plain
    accepts_plain: bool,
    index: Index,
    /// the number of the next message
    next: u64,
    bytes: u64,
    /// bytes of messages that are offered and not committed
    uncommitted_bytes: u64,
    /// messages by state
    depths: [u64; 8],
    timers: Timers,
    consumers: Consumers,
    producers: u32,
    undeliverable_here: UndeliverableHere,
    /// numbers in the log of the messages that were renamed
    log_seqs: HashMap<u64, u64>,
    values: LastValues,
    groups: Groups,
    duplicate_history: DuplicateHistory,
    stats: QueueStats,
}

impl Queue {
    /// An empty queue whose first message gets the number `next`, which is above all numbers this
    /// address ever used.
    #[must_use]
    pub fn new(settings: Settings, next: Seq) -> Self {
        let mut queue = Self {
            consumers: Consumers::default(),
            settings: Settings::default(),
            accepts_plain: true,
            index: Index::default(),
            next: next.0,
            bytes: 0,
            uncommitted_bytes: 0,
            depths: [0; 8],
            timers: Timers::default(),
            producers: 0,
            undeliverable_here: UndeliverableHere::default(),
            log_seqs: HashMap::new(),
            values: LastValues::default(),
            groups: Groups::default(),
            duplicate_history: DuplicateHistory::default(),
            stats: QueueStats::default(),
        };
        queue.reconfigure(settings);
        queue
    }

    /// The declared settings.
    #[must_use]
    #[inline]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The number of the next message; a restart must not assign a lower one.
    #[must_use]
    pub fn next_seq(&self) -> Seq {
        Seq(self.next)
    }

    /// The number of messages in any state.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Bytes of all messages.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of messages that no consumer holds.
    #[must_use]
    pub fn at_rest(&self) -> u64 {
        self.len() as u64 - self.depth_in(State::Acquired) - self.depth_in(State::Retiring)
    }

    /// Whether the queue has no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The message with a number, if it is stored.
    #[must_use]
    pub fn get(&self, seq: Seq) -> Option<Item> {
        self.item(seq.0)
    }

    /// The current statistics.
    #[must_use]
    pub fn stats(&self) -> QueueStats {
        QueueStats {
            ready: self.depth_in(State::Waiting),
            scheduled: self.depth_in(State::Scheduled) + self.depth_in(State::Delayed),
            acquired: self.depth_in(State::Acquired) + self.depth_in(State::Retiring),
            leaving: self.depth_in(State::Leaving) + self.depth_in(State::Expired),
            uncommitted: self.depth_in(State::Offered),
            bytes: self.bytes,
            oldest: self.oldest().and_then(|at| self.index.get(at)).map(Entry::enqueued),
            groups: self.groups.len() as u64,
            consumers: self.consumers.len(),
            producers: self.producers,
            ..self.stats
        }
    }

    /// Heap size in bytes, as requested from the allocator; ordered sets are estimated.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.index.heap_bytes()
            + self.timers.heap_bytes()
            + self.values.heap_bytes()
            + self.groups.heap_bytes()
            + self.duplicate_history.heap_bytes()
            + self.log_seqs.capacity() * 16
    }

    /// The waiting message with the lowest number.
    fn oldest(&self) -> Option<u64> {
        let first = |class: Class| {
            let priorities = self.index.priorities(class);
            (0..Priority::COUNT as u8)
                .filter(move |priority| priorities >> priority & 1 != 0)
                .filter_map(move |priority| self.index.next(class, priority, 0))
                .min()
        };
        [first(Class::Ungrouped), first(Class::Grouped)].into_iter().flatten().min()
    }

    #[inline]
    fn depth_in(&self, state: State) -> u64 {
        self.depths[state as usize]
    }

    /// Applies a state transition to a message.
    #[inline]
    fn step(&mut self, at: u64, step: Step) -> bool {
        let Some(entry) = self.index.get_mut(at) else { return false };
        let before = entry.state();
        if !entry.step(step) {
            return false;
        }
        let (after, group) = (entry.state(), entry.group);
        self.depths[before as usize] -= 1;
        self.depths[after as usize] += 1;
        if group != Entry::NO_GROUP && (before == State::Delayed || after == State::Delayed) {
            self.groups.count_delayed(group, if after == State::Delayed { 1 } else { -1 });
            if before == State::Delayed {
                self.clear_unreadable(at);
            }
        }
        true
    }

    /// Ends the wait of a group for a message that could not be read.
    #[cold]
    fn clear_unreadable(&mut self, at: u64) {
        let Some(entry) = self.index.get_mut(at).filter(|entry| entry.has(Mark::Unreadable)) else { return };
        entry.set(Mark::Unreadable, false);
        let group = entry.group;
        self.groups.count_unreadable(group, -1);
    }

    /// Makes a waiting message available to its consumers.
    #[inline]
    fn make_available(&mut self, at: u64) {
        let Some(entry) = self.index.get(at) else { return };
        let (expires, priority, group) = (entry.expires(), entry.priority(), entry.group);
        let grouped = entry.grouped();
        if expires != 0 {
            self.index.note_expiry(at, expires);
        }
        self.index.show(at, if grouped { Class::Grouped } else { Class::Ungrouped });
        if grouped {
            self.notify_group(group, priority, at);
        }
        for index in 0..self.consumers.cursors.len() {
            self.notify_cursor(self.consumers.cursors[index], priority, at, Entry::NO_GROUP);
        }
    }

    /// Makes a message unavailable; it remains in the queue.
    fn make_unavailable(&mut self, at: u64) {
        self.index.hide(at);
        if let Some(group) = self.index.get(at).map(|entry| entry.group).filter(|group| *group != Entry::NO_GROUP) {
            self.refresh_group(group);
        }
    }

    /// Reports a message to a cursor that may have passed its position.
    fn notify_cursor(&mut self, id: ConsumerId, priority: u8, at: u64, group: u32) {
        let Some(consumer) = self.consumers.get_mut(id) else { return };
        let browses = consumer.browses;
        let Some(cursor) = consumer.cursor.as_mut() else { return };
        if !browses {
            cursor.notify(priority, at, group);
        }
        self.consumers.join_own(id);
    }

    #[inline]
    fn item(&self, at: u64) -> Option<Item> {
        self.index.get(at).map(|entry| self.show(at, entry))
    }

    #[inline]
    fn show(&self, at: u64, entry: &Entry) -> Item {
        let id = if entry.has(Mark::Renamed) { self.log_seqs.get(&at).copied().unwrap_or(at) } else { at };
        Item {
            seq: Seq(at),
            id: Seq(id),
            place: entry.place,
            size_bytes: entry.size,
            priority: Priority::new(entry.priority()),
            durable: entry.has(Mark::Durable),
            enqueued: entry.enqueued(),
            expires: Some(entry.expires()).filter(|at| *at != 0),
            failures: entry.failures(),
            undeliverable_here: entry.has(Mark::UndeliverableHere),
            group: if entry.grouped() { self.groups.digest(entry.group) } else { None },
            state: entry.state(),
        }
    }

    /// Removes a message in any state, and returns it.
    #[inline]
    fn take_out(&mut self, at: u64) -> Option<Item> {
        let entry = self.index.remove(at)?;
        let item = self.show(at, &entry);
        self.depths[entry.state() as usize] -= 1;
        if entry.grouped() {
            if entry.state() == State::Delayed {
                self.groups.count_delayed(entry.group, -1);
                self.groups.count_unreadable(entry.group, if entry.has(Mark::Unreadable) { -1 } else { 0 });
            }
            self.leave_group(entry.group);
        }
        self.bytes -= u64::from(entry.size);
        if entry.state() == State::Offered {
            self.uncommitted_bytes -= u64::from(entry.size);
        }
        if entry.has(Mark::Renamed) {
            self.log_seqs.remove(&at);
        }
        if entry.has(Mark::UndeliverableHere) {
            self.undeliverable_here.forget(at);
        }
        if entry.has(Mark::Keyed) {
            self.values.forget(at);
        }
        Some(item)
    }

    /// The current number of a message that was scheduled under `id` and became due, if it is still
    /// stored. Scans all such messages.
    #[must_use]
    pub fn renamed(&self, id: Seq) -> Option<Seq> {
        self.log_seqs.iter().find(|(_, first)| **first == id.0).map(|(at, _)| Seq(*at))
    }

    /// Moves a scheduled message that is due to the end, under a new number; the log continues to
    /// use the old one.
    fn move_to_end(&mut self, at: u64) -> u64 {
        if at + 1 == self.next {
            return at;
        }
        let Some(mut entry) = self.index.remove(at) else { return at };
        let id = self.log_seqs.remove(&at).unwrap_or(at);
        entry.set(Mark::Renamed, true);
        let new = self.next;
        self.next += 1;
        self.log_seqs.insert(new, id);
        self.index.push(new, entry);
        self.values.rename(at, new);
        if entry.grouped() {
            self.groups.append_to_lane(entry.group, entry.priority(), new);
        }
        new
    }
}
