//! Consumers that do not take whatever comes: selectors, browsers, and those that were barred from a message.
//!
//! Each walks by a cursor of its own a priority, so that what does not match is looked at once and never again,
//! however much of it there is. What comes to stand before the cursor is told to the walker by number. Only a group
//! that becomes free is looked at again from its first message on: the walker had passed it as another's.

use std::collections::BTreeMap;

use super::Queue;
use super::consumers::ConsumerId;
use super::effect::{Item, Next, Verdict};
use super::entry::{Entry, Mark, Seq, Step};
use super::head::Priority;
use super::index::Class;

/// Messages looked at in one call.
const SHARE: usize = 256;
/// Returns that are remembered one by one; beyond, the cursor goes back to the first of them.
const RETURNS_MAX: usize = 4096;

/// How far a consumer has looked.
#[derive(Debug, Default)]
pub(super) struct Walker {
    /// a priority: nothing before it is new to this consumer, but for `returned`
    cursor: [u64; Priority::COUNT],
    /// messages before the cursor that came, or came back, after it had passed: 9 - priority and number; and the group
    /// of which all that follow are to be looked at too, or [`Entry::NO_GROUP`]
    returned: BTreeMap<(u8, u64), u32>,
}

impl Walker {
    /// A message can be had; if a group is named, that and what follows it there.
    pub(super) fn tell(&mut self, priority: u8, at: u64, group: u32) {
        let cursor = &mut self.cursor[priority as usize];
        if at >= *cursor {
            return;
        }
        let known = self.returned.entry((9 - priority, at)).or_insert(group);
        if group != Entry::NO_GROUP {
            *known = group;
        }
        if self.returned.len() > RETURNS_MAX {
            for ((inverse, at), _) in std::mem::take(&mut self.returned) {
                let cursor = &mut self.cursor[9 - inverse as usize];
                *cursor = at.min(*cursor);
            }
        }
    }

    /// It has looked at this one. The group in which it is to go on.
    fn pass(&mut self, priority: u8, at: u64) -> u32 {
        self.returned.remove(&(9 - priority, at)).unwrap_or_else(|| {
            self.cursor[priority as usize] = at + 1;
            Entry::NO_GROUP
        })
    }
}

/// What is to be done with a message that a walker has come to.
enum Look {
    Skip,
    Give,
    Unread,
    Lapse,
}

impl Queue {
    /// The next message that the walker has not looked at.
    fn ahead(&self, walker: &Walker) -> Option<(u8, u64)> {
        let mut priorities = self.index.priorities(Class::Loose) | self.index.priorities(Class::Grouped);
        let returned = walker.returned.first_key_value().map(|((inverse, at), _)| (9 - inverse, *at));
        while let Some(priority) = priorities.checked_ilog2() {
            let priority = priority as u8;
            if returned.is_some_and(|(of, _)| of >= priority) {
                break;
            }
            let from = walker.cursor[priority as usize];
            let loose = self.index.next(Class::Loose, priority, from);
            let grouped = self.index.next(Class::Grouped, priority, from);
            if let Some(at) = [loose, grouped].into_iter().flatten().min() {
                return Some((priority, at));
            }
            priorities &= !(1 << priority);
        }
        returned
    }

    /// [`Queue::next`] for a consumer that walks.
    pub(super) fn walk(&mut self, now: u64, id: ConsumerId, accepts: &mut dyn FnMut(&Item) -> Verdict) -> Next {
        let Some(mut walker) = self.consumers.get_mut(id).and_then(|consumer| consumer.walker.take()) else {
            return Next::Nothing;
        };
        let next = self.walk_on(now, id, &mut walker, accepts);
        if let Some(consumer) = self.consumers.get_mut(id) {
            consumer.walker = Some(walker);
        }
        if next == Next::Nothing {
            self.consumers.sleep(id);
        }
        next
    }

    fn walk_on(
        &mut self,
        now: u64,
        id: ConsumerId,
        walker: &mut Walker,
        accepts: &mut dyn FnMut(&Item) -> Verdict,
    ) -> Next {
        for _ in 0..SHARE {
            let Some((priority, at)) = self.ahead(walker) else { return Next::Nothing };
            let browses = self.consumers.get(id).is_some_and(|consumer| consumer.browses);
            let look = if self.index.is_shown(at) { self.look(now, id, at, accepts) } else { Look::Skip };
            if matches!(look, Look::Unread) {
                return self.item(at).map_or(Next::Nothing, Next::Unread);
            }
            let group = walker.pass(priority, at);
            if group != Entry::NO_GROUP
                && self.groups.lets(group, id)
                && let Some(after) = self.after_in_group(group, priority, at)
            {
                walker.tell(priority, after, group);
            }
            match look {
                Look::Lapse if !browses => self.lapse(at),
                Look::Give if browses => return self.item(at).map_or(Next::Nothing, Next::Message),
                Look::Give => return self.acquire(at, id),
                _ => {}
            }
        }
        Next::Later
    }

    fn look(&self, now: u64, id: ConsumerId, at: u64, accepts: &mut dyn FnMut(&Item) -> Verdict) -> Look {
        let (Some(entry), Some(consumer)) = (self.index.get(at), self.consumers.get(id)) else { return Look::Skip };
        if entry.is_expired(now) {
            return Look::Lapse;
        }
        let barred = entry.has(Mark::Barred) && self.barred.is_barred(at, consumer.name);
        let elsewhere = entry.grouped() && !self.groups.lets(entry.group, id);
        if !consumer.browses && (barred || elsewhere) {
            return Look::Skip;
        }
        if !consumer.selects {
            return Look::Give;
        }
        match self.item(at).map(|item| accepts(&item)) {
            Some(Verdict::Yes) => Look::Give,
            Some(Verdict::Unread) => Look::Unread,
            _ => Look::Skip,
        }
    }

    /// A browser was given a message and could not be shown it: it comes to it again.
    pub fn look_again(&mut self, id: ConsumerId, seq: Seq) {
        let Some(priority) = self.index.get(seq.0).map(|entry| entry.priority()) else { return };
        let browser = self.consumers.get_mut(id).filter(|consumer| consumer.browses);
        if let Some(walker) = browser.and_then(|browser| browser.walker.as_mut()) {
            walker.tell(priority, seq.0, Entry::NO_GROUP);
            self.consumers.wake(id);
        }
    }

    /// A message was committed after others that were offered later: browsers that have seen those have not seen it.
    #[inline]
    pub(super) fn tell_browsers(&mut self, at: u64) {
        if self.consumers.walkers.is_empty() {
            return;
        }
        let Some(priority) = self.index.get(at).map(|entry| entry.priority()) else { return };
        for index in 0..self.consumers.walkers.len() {
            let id = self.consumers.walkers[index];
            let browser = self.consumers.get_mut(id).filter(|consumer| consumer.browses);
            if let Some(walker) = browser.and_then(|browser| browser.walker.as_mut()) {
                walker.tell(priority, at, Entry::NO_GROUP);
            }
        }
    }

    /// Takes an expired message out of reach; the next timeout deals with it.
    pub(super) fn lapse(&mut self, at: u64) {
        if self.step(at, Step::Lapse) {
            self.disappear(at);
        }
    }
}
