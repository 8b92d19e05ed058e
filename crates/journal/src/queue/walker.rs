//! Consumers that do not take whatever comes: selectors, browsers, and those that were barred from a message.
//!
//! Each walks by a cursor of its own a priority, so that what does not match is looked at once and never again,
//! however much of it there is. What comes to stand before the cursor is told to the walker by number.

use std::collections::BTreeSet;

use super::Queue;
use super::consumers::ConsumerId;
use super::effect::{Item, Next, Verdict};
use super::entry::{Entry, Mark, Step};
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
    /// messages before the cursor that came, or came back, after it had passed: 9 - priority, number
    returned: BTreeSet<(u8, u64)>,
}

impl Walker {
    /// A message can be had. Whether it is new to this walker.
    pub(super) fn tell(&mut self, priority: u8, at: u64) {
        let cursor = &mut self.cursor[priority as usize];
        if at >= *cursor {
            return;
        }
        self.returned.insert((9 - priority, at));
        if self.returned.len() > RETURNS_MAX {
            for (inverse, at) in std::mem::take(&mut self.returned) {
                let cursor = &mut self.cursor[9 - inverse as usize];
                *cursor = at.min(*cursor);
            }
        }
    }

    /// It has looked at this one. Whether it had come to it before.
    fn pass(&mut self, priority: u8, at: u64) -> bool {
        let again = self.returned.remove(&(9 - priority, at));
        if !again {
            self.cursor[priority as usize] = at + 1;
        }
        again
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
        let returned = walker.returned.first().map(|(inverse, at)| (9 - inverse, *at));
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
            if !self.index.is_shown(at) {
                walker.pass(priority, at);
                continue;
            }
            let browses = self.consumers.get(id).is_some_and(|consumer| consumer.browses);
            let look = self.look(now, id, at, accepts);
            if matches!(look, Look::Unread) {
                return self.item(at).map_or(Next::Nothing, Next::Unread);
            }
            let group = self.index.get(at).map_or(Entry::NO_GROUP, |entry| entry.group);
            if walker.pass(priority, at)
                && group != Entry::NO_GROUP
                && self.groups.lets(group, id)
                && let Some((priority, after)) = self.after_in_group(group, priority, at)
            {
                // It had passed the group when that was another's.
                walker.tell(priority, after);
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

    /// Takes an expired message out of reach; the next timeout deals with it.
    pub(super) fn lapse(&mut self, at: u64) {
        if self.step(at, Step::Lapse) {
            self.disappear(at);
        }
    }
}
