//! Outgoing messages: consumers, their turns, and the next message.

use super::Queue;
use super::consumers::{Candidates, Consume, ConsumerId, Refused};
use super::effect::{Item, Next, Verdict};
use super::entry::{Entry, Mark, Seq, Step};
use super::index::Class;

/// Expired messages that are skipped in one call.
const SHARE: usize = 256;

impl Queue {
    /// A consumer attaches; it has no credit yet.
    ///
    /// # Errors
    ///
    /// [`Refused::Consumers`] at `limits.consumers` (262,143 at most), [`Refused::Exclusive`].
    pub fn attach(&mut self, consume: &Consume) -> Result<ConsumerId, Refused> {
        let walks = consume.selects || consume.browses || self.barred.knows(consume.name);
        self.consumers.attach(consume, walks, self.settings.limits.consumers)
    }

    /// A consumer has detached. Settle the messages it held first, with its own outcomes or as
    /// failed.
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

    /// Whether messages can be dispatched to a consumer.
    pub fn set_credit(&mut self, id: ConsumerId, has_credit: bool) {
        self.consumers.set_credit(id, has_credit);
        if has_credit && self.groups.any_of(id) {
            self.consumers.wake(id);
        }
    }

    /// The consumers that may receive a message now: all of one priority, the highest that has any.
    #[must_use]
    #[inline]
    pub fn candidates(&self) -> Candidates<'_> {
        self.consumers.candidates(self.has_loose())
    }

    /// Whether there may be a message for a consumer: [`next`](Queue::next) has not returned
    /// [`Next::Nothing`] since.
    #[must_use]
    pub fn has_for(&self, id: ConsumerId) -> bool {
        let loose = self.has_loose();
        self.consumers.is_eligible(id, loose) && self.consumers.is_listed(id, loose)
    }

    #[inline]
    fn has_loose(&self) -> bool {
        self.index.priorities(Class::Loose) != 0 || self.groups.any_free()
    }

    /// The next message for a consumer, which holds it from now on. `accepts` is its selector; only
    /// one that attached as selecting is asked, about each message once. For unavailable ones the
    /// answer is [`Next::Nothing`].
    #[inline]
    pub fn next(&mut self, now: u64, id: ConsumerId, mut accepts: impl FnMut(&Item) -> Verdict) -> Next {
        let Some(consumer) = self.consumers.get(id) else { return Next::Nothing };
        if !self.consumers.is_eligible(id, self.has_loose()) {
            if self.consumers.is_single() {
                self.consumers.sleep(id);
            }
            return Next::Nothing;
        }
        if consumer.cursor.is_some() {
            return self.next_by_cursor(now, id, &mut accepts);
        }
        for _ in 0..SHARE {
            let Some(at) = self.best(id) else {
                self.consumers.sleep(id);
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

    /// The first message that a consumer may have, by 9 - priority and number.
    #[inline]
    fn best(&self, id: ConsumerId) -> Option<u64> {
        let loose = self.index.first(Class::Loose).map(|(priority, at)| (9 - priority, at));
        match (loose, self.groups.first_for(id)) {
            (Some(loose), Some(grouped)) => Some(loose.min(grouped).1),
            (loose, grouped) => loose.or(grouped).map(|(_, at)| at),
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

    /// A consumer holds one message less; its name, unless it has gone.
    #[inline]
    pub(super) fn release_hold(&mut self, id: ConsumerId, group: u32) -> Option<u64> {
        if group != Entry::NO_GROUP {
            self.loosen_group(group);
        }
        self.consumers.count_held(id, -1);
        let consumer = self.consumers.get(id);
        let (name, idle) = (consumer.map(|consumer| consumer.name), consumer.is_none_or(|it| it.outstanding == 0));
        if idle && self.consumers.is_single() {
            self.consumers.choose_active();
        }
        name
    }

    /// The names of consumers that a message is kept from, 64 at most: those that have sent it away
    /// last.
    #[must_use]
    pub fn barred_from(&self, seq: Seq) -> &[u64] {
        self.barred.names_of(seq.0)
    }

    /// After a restart: a message is kept from consumers of these names. `false`: it is not here.
    pub fn bar_again(&mut self, seq: Seq, names: impl IntoIterator<Item = u64>) -> bool {
        names.into_iter().for_each(|name| self.bar(seq.0, name));
        self.index.get(seq.0).is_some()
    }

    /// Consumers of that name do not get the message again: from now on they look before they take.
    pub(super) fn bar(&mut self, at: u64, name: u64) {
        let Some(entry) = self.index.get_mut(at) else { return };
        entry.set(Mark::Barred, true);
        let is_new = !self.barred.knows(name);
        self.barred.bar(at, name);
        if is_new {
            self.consumers.make_cursors(name);
        }
    }
}
