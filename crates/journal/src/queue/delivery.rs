//! Outgoing messages: consumers, and the next message of each.

use super::Queue;
use super::consumer_id::ConsumerId;
use super::consumers::{Candidates, Consume, Refused};
use super::effect::{Item, Next, Verdict};
use super::entry::{Entry, Mark, Seq, Step};
use super::index::Class;

/// Maximum expired messages skipped in one call.
const WORK_MAX: usize = 256;

impl Queue {
    /// Attaches a consumer, without credit.
    ///
    /// # Errors
    ///
    /// [`Refused::Consumers`] at `limits.consumers` (262,143 at most), [`Refused::Exclusive`].
    pub fn attach(&mut self, consume: &Consume) -> Result<ConsumerId, Refused> {
        let uses_cursor = consume.selects || consume.browses || self.undeliverable_here.has_name(consume.name);
        self.consumers.attach(consume, uses_cursor, self.settings.limits.consumers)
    }

    /// Detaches a consumer. The caller first settles the messages that it holds, with its own
    /// outcomes or as failed.
    pub fn detach(&mut self, id: ConsumerId) {
        if self.consumers.detach(id).is_some() {
            self.free_groups(id);
        }
    }

    /// The key that the consumer was attached with.
    #[must_use]
    #[inline]
    pub fn key_of(&self, id: ConsumerId) -> Option<u64> {
        self.consumers.get(id).map(|consumer| consumer.key)
    }

    /// Sets whether messages can be dispatched to a consumer.
    pub fn set_credit(&mut self, id: ConsumerId, has_credit: bool) {
        self.consumers.set_credit(id, has_credit);
        if has_credit && self.groups.any_of(id) {
            self.consumers.join_own(id);
        }
    }

    /// The consumers that may receive a message now: those of the highest priority with any.
    #[must_use]
    #[inline]
    pub fn candidates(&self) -> Candidates<'_> {
        self.consumers.candidates(self.has_common())
    }

    /// Whether there may be a message for a consumer: [`next`](Queue::next) has not returned
    /// [`Next::Nothing`] since the last change.
    #[must_use]
    pub fn has_for(&self, id: ConsumerId) -> bool {
        let has_common = self.has_common();
        self.consumers.is_eligible(id, has_common) && self.consumers.is_listed(id, has_common)
    }

    #[inline]
    fn has_common(&self) -> bool {
        self.index.priorities(Class::Ungrouped) != 0 || self.groups.any_free()
    }

    /// The next message for a consumer, which then holds it. `accepts` is its selector: it is
    /// called once for each message, if the consumer attached with [`Consume::selects`]. Without an
    /// available message the result is [`Next::Nothing`].
    #[inline]
    pub fn next(&mut self, now: u64, id: ConsumerId, mut accepts: impl FnMut(&Item) -> Verdict) -> Next {
        let Some(consumer) = self.consumers.get(id) else { return Next::Nothing };
        if !self.consumers.is_eligible(id, self.has_common()) {
            if self.consumers.is_single() {
                self.consumers.leave_own(id);
            }
            return Next::Nothing;
        }
        if consumer.cursor.is_some() {
            return self.next_by_cursor(now, id, &mut accepts);
        }
        for _ in 0..WORK_MAX {
            let Some(at) = self.best(id) else {
                self.consumers.leave_own(id);
                return Next::Nothing;
            };
            if self.index.get(at).is_some_and(|entry| entry.is_expired(now)) {
                self.hide_expired(at);
                continue;
            }
            return self.acquire(at, id);
        }
        Next::Later
    }

    /// The first message that a consumer may receive, by 9 - priority and number.
    #[inline]
    fn best(&self, id: ConsumerId) -> Option<u64> {
        let ungrouped = self.index.first(Class::Ungrouped).map(|(priority, at)| (9 - priority, at));
        match (ungrouped, self.groups.first_for(id)) {
            (Some(ungrouped), Some(grouped)) => Some(ungrouped.min(grouped).1),
            (ungrouped, grouped) => ungrouped.or(grouped).map(|(_, at)| at),
        }
    }

    /// Assigns a waiting message to a consumer.
    #[inline]
    pub(super) fn acquire(&mut self, at: u64, id: ConsumerId) -> Next {
        let Some(entry) = self.index.get_mut(at) else { return Next::Nothing };
        let before = entry.state();
        if !entry.step(Step::Acquire) {
            return Next::Nothing;
        }
        entry.holder = id.0;
        let entry = *entry;
        self.depths[before as usize] -= 1;
        self.depths[entry.state() as usize] += 1;
        self.index.hide(at);
        if entry.grouped() {
            self.bind_group(entry.group, at, id);
        }
        self.consumers.count_held(id, 1);
        self.stats.delivered += 1;
        Next::Message(self.show(at, &entry))
    }

    /// Counts one held message of a consumer less. Returns its name, unless it has detached.
    #[inline]
    pub(super) fn release_hold(&mut self, id: ConsumerId, group: u32) -> Option<u64> {
        if group != Entry::NO_GROUP {
            self.count_group_release(group);
        }
        self.consumers.count_held(id, -1);
        let consumer = self.consumers.get(id);
        let (name, idle) = (consumer.map(|consumer| consumer.name), consumer.is_none_or(|it| it.outstanding == 0));
        if idle && self.consumers.is_single() {
            self.consumers.choose_active();
        }
        name
    }

    /// The names of consumers to which a message is undeliverable: the last 64 that declared it so.
    #[must_use]
    pub fn undeliverable_to(&self, seq: Seq) -> &[u64] {
        self.undeliverable_here.names_of(seq.0)
    }

    /// After a restart: marks a message as undeliverable to these names. `false`: it is not stored.
    pub fn restore_undeliverable(&mut self, seq: Seq, names: impl IntoIterator<Item = u64>) -> bool {
        names.into_iter().for_each(|name| self.mark_undeliverable(seq.0, name));
        self.index.get(seq.0).is_some()
    }

    /// Marks a message as undeliverable to consumers of a name, and gives them cursors.
    pub(super) fn mark_undeliverable(&mut self, at: u64, name: u64) {
        let Some(entry) = self.index.get_mut(at) else { return };
        entry.set(Mark::UndeliverableHere, true);
        let is_new = !self.undeliverable_here.has_name(name);
        self.undeliverable_here.mark_undeliverable(at, name);
        if is_new {
            self.consumers.make_cursors(name);
        }
    }
}
