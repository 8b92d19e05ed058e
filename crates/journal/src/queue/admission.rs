//! Incoming messages: admission, commit and withdrawal; and the credit of producers.

use super::Queue;
use super::consumers::Refused;
use super::effect::{Admission, Effect, Refusal, Stored};
use super::entry::{Mark, RecordLocation, Seq, State, Step};
use super::head::{Head, Record};
use super::settings::{Full, Grouping};

impl Queue {
    /// Offers a received message. A message to store gets its position in the order now, and is
    /// available once it is [`committed`](Queue::committed).
    #[inline]
    pub fn offer(&mut self, now: u64, head: &Head) -> Admission {
        if let Some(refusal) = self.oversize(head) {
            self.stats.refused += 1;
            return Admission::Refuse(refusal);
        }
        // Before the bounds, because a duplicate needs no space.
        if let Some(admission) = self.check_duplicate(now, head) {
            return admission;
        }
        if let Some(refusal) = self.fullness(head) {
            self.stats.refused += 1;
            return Admission::Refuse(refusal);
        }
        Admission::Store(self.admit(now, head))
    }

    /// Stores a message that another queue diverts here, as after [`Queue::offer`]. It has no
    /// sender that a refusal could reach, so neither the bounds nor its id are checked.
    pub fn admit(&mut self, now: u64, head: &Head) -> Stored {
        let record = Record {
            size_bytes: head.size_bytes,
            priority: head.priority,
            durable: head.durable,
            enqueued: now,
            expires: self.settings.ttl.expires(now, head.ttl_ms, head.absolute_expiry),
            due: head.due.filter(|due| *due > now),
            failures: head.delivery_count,
            group: head.group,
            key: head.key.filter(|_| self.settings.last_value),
        };
        let at = self.next;
        self.next += 1;
        self.insert(at, &record);
        Stored { seq: Seq(at), record, markers: self.duplicate_history.add(now, at, head) }
    }

    #[inline]
    pub(super) fn insert(&mut self, at: u64, record: &Record) {
        let mut entry = record.entry();
        entry.set(Mark::Keyed, record.key.is_some());
        entry.set(Mark::Timed, record.due.is_some());
        entry.set(Mark::NeverAvailable, record.due.is_some());
        if let Some(group) = record.group.filter(|_| self.settings.grouping != Grouping::Off) {
            entry.group = self.groups.join(group.digest, record.priority.get(), at);
        }
        self.index.push(at, entry);
        if let Some(key) = record.key {
            self.values.insert(at, key);
        }
        if let Some(due) = record.due {
            self.timers.push(due, at);
        }
        self.bytes += u64::from(record.size_bytes);
        self.uncommitted_bytes += u64::from(record.size_bytes);
        self.depths[State::Offered as usize] += 1;
    }

    /// Why [`Queue::offer`] would refuse a message that is no duplicate.
    #[must_use]
    pub fn refusal(&self, head: &Head) -> Option<Refusal> {
        self.oversize(head).or_else(|| self.fullness(head))
    }

    fn oversize(&self, head: &Head) -> Option<Refusal> {
        let most = self.settings.limits.message_bytes;
        (head.size_bytes > most).then_some(Refusal::MessageSize(most))
    }

    fn fullness(&self, head: &Head) -> Option<Refusal> {
        let bytes = self.settings.limits.bytes;
        let is_larger = u64::from(head.size_bytes) > bytes;
        match self.settings.full {
            Full::Block => None,
            Full::Reject | Full::DropOldest if is_larger => Some(Refusal::LargerThanQueue(bytes)),
            Full::DropOldest => None,
            Full::Reject | Full::Strict => match self.replaced_bytes(head) {
                Some(freed) => self.excess_bytes(head.size_bytes, freed),
                None => self.excess(head.size_bytes),
            },
        }
    }

    /// The bound that one more message of `size_bytes` would exceed. A message that is alone
    /// exceeds no bound in bytes.
    #[inline]
    pub(super) fn excess(&self, size_bytes: u32) -> Option<Refusal> {
        let limits = &self.settings.limits;
        if self.len() as u64 >= limits.messages {
            return Some(Refusal::Messages(limits.messages));
        }
        self.excess_bytes(size_bytes, 0)
    }

    /// The same for the bound in bytes alone, of which `freed` leave with the message's arrival.
    fn excess_bytes(&self, size_bytes: u32, freed: u32) -> Option<Refusal> {
        let most = self.settings.limits.bytes;
        let bytes = self.bytes.saturating_add(u64::from(size_bytes)).saturating_sub(u64::from(freed));
        (bytes > most && !self.is_empty()).then_some(Refusal::Bytes(most))
    }

    /// Commits an offered message, whose body is at `place`, for the journal or a transaction. It
    /// becomes available at the position that it got when it was offered. `false`: it was not
    /// offered, or is committed already.
    #[inline]
    pub fn committed(&mut self, seq: Seq, place: RecordLocation, sink: &mut impl FnMut(Effect)) -> bool {
        let at = seq.0;
        let Some(entry) = self.index.get_mut(at).filter(|entry| entry.state() == State::Offered) else {
            return false;
        };
        entry.place = place;
        self.uncommitted_bytes -= u64::from(entry.size);
        let timed = entry.has(Mark::Timed);
        entry.set(Mark::NeverAvailable, timed);
        self.stats.enqueued += 1;
        self.duplicate_history.commit(at);
        if timed {
            self.await_time(at, Step::Schedule);
            return true;
        }
        self.step(at, Step::Commit);
        self.make_available(at);
        self.notify_browsers(at);
        self.make_room(at, sink);
        true
    }

    /// Sets the new location of a body that compaction has copied. `false`: the message is no
    /// longer stored.
    pub fn moved(&mut self, seq: Seq, place: RecordLocation) -> bool {
        self.index.get_mut(seq.0).map(|entry| entry.place = place).is_some()
    }

    /// Withdraws an offered message, because the journal failed or its transaction is rolled back.
    pub fn withdraw(&mut self, seq: Seq) -> bool {
        if self.index.get(seq.0).is_none_or(|entry| entry.state() != State::Offered) {
            return false;
        }
        self.take_out(seq.0);
        self.duplicate_history.withdraw(seq.0);
        true
    }

    /// Whether an offered message must be withdrawn instead of committed: the log refused an
    /// earlier message of its numbered producer, which could not be sent again after this one.
    #[inline]
    #[must_use]
    pub fn is_behind_gap(&self, seq: Seq) -> bool {
        self.duplicate_history.is_behind_gap(seq.0)
    }

    /// Attaches a producer.
    ///
    /// # Errors
    ///
    /// [`Refused::Producers`] at `limits.producers`.
    pub fn attach_producer(&mut self) -> Result<(), Refused> {
        if self.producers >= self.settings.limits.producers {
            return Err(Refused::Producers(self.settings.limits.producers));
        }
        self.producers += 1;
        Ok(())
    }

    /// Detaches a producer.
    pub fn detach_producer(&mut self) {
        self.producers = self.producers.saturating_sub(1);
    }

    /// Whether the messages of a blocking queue, offered ones included, exceed its bounds, so that
    /// the messages of a transaction do not fit. A single message may exceed the bound in bytes.
    /// `leaving`, a number of messages and their bytes, is not counted.
    #[must_use]
    pub fn is_overfull(&self, leaving: (u64, u64)) -> bool {
        let limits = &self.settings.limits;
        let messages = (self.len() as u64).saturating_sub(leaving.0);
        let bytes = if messages > 1 { self.bytes.saturating_sub(leaving.1) } else { 0 };
        self.settings.full == Full::Block && (messages > limits.messages || bytes > limits.bytes)
    }

    /// The credit that producers may be granted in addition to `granted`, their unused credit.
    ///
    /// A bound in bytes is converted by the mean size of the stored messages, or 1 KiB if there are
    /// none.
    #[must_use]
    #[inline]
    pub fn room(&self, granted: u64) -> u64 {
        if !matches!(self.settings.full, Full::Block | Full::Strict) {
            return u64::MAX;
        }
        const FIRST_GUESS_BYTES: u64 = 1024;
        let limits = &self.settings.limits;
        let messages = limits.messages.saturating_sub(self.len() as u64);
        if limits.bytes == u64::MAX {
            return messages.saturating_sub(granted);
        }
        let mean = self.bytes.checked_div(self.len() as u64).unwrap_or(FIRST_GUESS_BYTES).max(1);
        let by_bytes = limits.bytes.saturating_sub(self.bytes) / mean;
        messages.min(by_bytes).saturating_sub(granted)
    }
}
