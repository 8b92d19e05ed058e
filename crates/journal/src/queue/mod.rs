//! The queue of one address: the order of its messages, their assignment to consumers, and the
//! handling of returned ones.
//!
//! A machine without I/O. It knows of a message the [`Head`] and the location of its body, never
//! the body. Time is an argument, in milliseconds since 1970, and never runs backwards. The owner
//! (the router, on the address's home shard) calls it and carries out its [`Effect`]s.
//!
//! # A message
//!
//! 1. [`Queue::offer`] answers [`Admission`]: store it under a [`Seq`], accept it as a duplicate,
//!    or refuse it.
//! 2. [`Queue::committed`] when the journal has it, or at once if nothing was promised: now it is
//!    available. [`Queue::withdraw`] if the journal failed or its transaction was rolled back.
//! 3. [`Queue::candidates`] lists the consumers that may receive; the caller chooses among them and
//!    calls [`Queue::next`], until there are none. A candidate that gets nothing is none any more.
//! 4. [`Queue::settle`] with the consumer's [`ConsumerOutcome`]; effects state the actions to take.
//!    A transaction puts [`Queue::retire`] before it, and [`Queue::unretire`] at a rollback.
//! 5. A message for another address ([`Effect::Divert`]) is here until [`Queue::left`] or
//!    [`Queue::stay`].
//!
//! Plain messages have a short way through the same states: [`Plain`].
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
//! The higher priority first, within one the lower number. A message that returns, from a consumer
//! or from the wait before its next attempt, stands at its very place. A scheduled one goes to the
//! end when it is due. Selectors and groups take their messages out of this order and leave the
//! rest in it.
//!
//! # Bounds
//!
//! `settings.limits`. The index takes 42 bytes a message. Every call is O(log n) in messages and
//! does a bounded share of work; one that had to stop returns so ([`Next::Later`],
//! [`Queue::next_timeout`]).

mod admission;
mod barred;
mod consumers;
mod cursor;
mod delivery;
mod effect;
mod entry;
mod groups;
mod head;
mod index;
mod manage;
mod outcome;
mod plain;
mod restore;
mod seen;
mod settings;
mod state;
mod stats;
mod timer;
mod values;

use std::collections::HashMap;

use barred::Barred;
use consumers::Consumers;
use entry::{Entry, Mark, Step};
use groups::Groups;
use index::{Class, Index};
use timer::Timers;
use values::Values;

pub use consumers::{Candidates, Consume, ConsumerId, Refused};
pub use effect::{Admission, Cause, ConsumerOutcome, Effect, Item, Next, Refusal, Stored, Target, Verdict};
pub use entry::{RecordLocation, Seq, State};
pub use head::{Group, Head, Priority, RECORD_BYTES, Record};
pub use manage::{Operation, Progress, Slice};
pub use plain::Plain;
pub use restore::{OutOfOrder, Restored};
pub use seen::NUMBERED_PRODUCERS_MAX;
pub(crate) use seen::Seen;
pub use settings::{Duplicates, Full, Grouping, Limits, Redelivery, Settings, Sharing, Ttl};
pub use state::{MARKER_KEY_BYTES, MARKER_VALUE_BYTES, Marker};
pub use stats::QueueStats;

/// The messages of one address.
#[derive(Debug)]
pub struct Queue {
    settings: Settings,
    /// of the settings: messages that come may be plain
    accepts_plain: bool,
    index: Index,
    /// the number of the next message
    next: u64,
    bytes: u64,
    /// of those that are offered and not committed
    uncommitted_bytes: u64,
    /// messages by state
    depths: [u64; 8],
    timers: Timers,
    consumers: Consumers,
    producers: u32,
    barred: Barred,
    /// under which number the log knows those that were renamed
    names: HashMap<u64, u64>,
    values: Values,
    groups: Groups,
    seen: Seen,
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
            barred: Barred::default(),
            names: HashMap::new(),
            values: Values::default(),
            groups: Groups::default(),
            seen: Seen::default(),
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

    /// The number the next message gets: a restart must not give out a lower one.
    #[must_use]
    pub fn next_seq(&self) -> Seq {
        Seq(self.next)
    }

    /// Messages here, in any state.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Bytes of all messages here.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Messages here that no consumer holds.
    #[must_use]
    pub fn at_rest(&self) -> u64 {
        self.len() as u64 - self.depth_in(State::Acquired) - self.depth_in(State::Retiring)
    }

    /// Nothing is here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The message of that name, if it is here.
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

    /// Bytes of memory on the heap, as asked of the allocator; ordered sets are estimated.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.index.heap_bytes()
            + self.timers.heap_bytes()
            + self.values.heap_bytes()
            + self.groups.heap_bytes()
            + self.seen.heap_bytes()
            + self.names.capacity() * 16
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
        [first(Class::Loose), first(Class::Grouped)].into_iter().flatten().min()
    }

    #[inline]
    fn depth_in(&self, state: State) -> u64 {
        self.depths[state as usize]
    }

    /// Moves a message on in its life.
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
                self.end_aside(at);
            }
        }
        true
    }

    /// A message that could not be read no longer holds its group back.
    #[cold]
    fn end_aside(&mut self, at: u64) {
        let Some(entry) = self.index.get_mut(at).filter(|entry| entry.has(Mark::Aside)) else { return };
        entry.set(Mark::Aside, false);
        let group = entry.group;
        self.groups.count_aside(group, -1);
    }

    /// A message waits: it becomes available to the consumers that may have it.
    #[inline]
    fn make_available(&mut self, at: u64) {
        let Some(entry) = self.index.get(at) else { return };
        let (expires, priority, group) = (entry.expires(), entry.priority(), entry.group);
        let grouped = entry.grouped();
        if expires != 0 {
            self.index.note_expiry(at, expires);
        }
        self.index.show(at, if grouped { Class::Grouped } else { Class::Loose });
        if grouped {
            self.notify_group(group, priority, at);
        }
        for index in 0..self.consumers.cursors.len() {
            self.notify_cursor(self.consumers.cursors[index], priority, at, Entry::NO_GROUP);
        }
    }

    /// A message becomes unavailable, and stays here.
    fn make_unavailable(&mut self, at: u64) {
        self.index.hide(at);
        if let Some(group) = self.index.get(at).map(|entry| entry.group).filter(|group| *group != Entry::NO_GROUP) {
            self.refresh_group(group);
        }
    }

    /// There is a message that a cursor may not reach by itself.
    fn notify_cursor(&mut self, id: ConsumerId, priority: u8, at: u64, group: u32) {
        let Some(consumer) = self.consumers.get_mut(id) else { return };
        let browses = consumer.browses;
        let Some(cursor) = consumer.cursor.as_mut() else { return };
        if !browses {
            cursor.notify(priority, at, group);
        }
        self.consumers.wake(id);
    }

    #[inline]
    fn item(&self, at: u64) -> Option<Item> {
        self.index.get(at).map(|entry| self.show(at, entry))
    }

    #[inline]
    fn show(&self, at: u64, entry: &Entry) -> Item {
        let id = if entry.has(Mark::Renamed) { self.names.get(&at).copied().unwrap_or(at) } else { at };
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
            barred: entry.has(Mark::Barred),
            group: if entry.grouped() { self.groups.digest(entry.group) } else { None },
            state: entry.state(),
        }
    }

    /// Forgets a message in any state, and returns its entry.
    #[inline]
    fn take_out(&mut self, at: u64) -> Option<Item> {
        let entry = self.index.remove(at)?;
        let item = self.show(at, &entry);
        self.depths[entry.state() as usize] -= 1;
        if entry.grouped() {
            if entry.state() == State::Delayed {
                self.groups.count_delayed(entry.group, -1);
                self.groups.count_aside(entry.group, if entry.has(Mark::Aside) { -1 } else { 0 });
            }
            self.leave_group(entry.group);
        }
        self.bytes -= u64::from(entry.size);
        if entry.state() == State::Offered {
            self.uncommitted_bytes -= u64::from(entry.size);
        }
        if entry.has(Mark::Renamed) {
            self.names.remove(&at);
        }
        if entry.has(Mark::Barred) {
            self.barred.forget(at);
        }
        if entry.has(Mark::Keyed) {
            self.values.forget(at);
        }
        Some(item)
    }

    /// The number that a message has which was scheduled under `id` and came due, if it is still
    /// here. Looks through all such messages.
    #[must_use]
    pub fn renamed(&self, id: Seq) -> Option<Seq> {
        self.names.iter().find(|(_, first)| **first == id.0).map(|(at, _)| Seq(*at))
    }

    /// A scheduled message is due: it moves to the end, under a new number; the log continues to
    /// use the old one.
    fn move_to_end(&mut self, at: u64) -> u64 {
        if at + 1 == self.next {
            return at;
        }
        let Some(mut entry) = self.index.remove(at) else { return at };
        let id = self.names.remove(&at).unwrap_or(at);
        entry.set(Mark::Renamed, true);
        let new = self.next;
        self.next += 1;
        self.names.insert(new, id);
        self.index.push(new, entry);
        self.values.rename(at, new);
        if entry.grouped() {
            self.groups.line_up(entry.group, entry.priority(), new);
        }
        new
    }
}
