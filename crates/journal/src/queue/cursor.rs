//! Consumers that do not accept any message: selectors, browsers, and consumers barred from a
//! message.
//!
//! Each has one cursor per priority, so that a message that does not match is examined once and
//! never again. A message that appears before the cursor is reported to it by number. Only a group
//! that becomes free is examined again from its first message on: the cursor had passed it as
//! another consumer's.

use std::collections::BTreeMap;

use super::Queue;
use super::consumers::ConsumerId;
use super::effect::{Item, Next, Verdict};
use super::entry::{Entry, Mark, Seq, Step};
use super::head::Priority;
use super::index::Class;

/// Messages examined in one call.
const SHARE: usize = 256;
/// Returns that are remembered one by one; beyond, the cursor returns to the first of them.
const RETURNS_MAX: usize = 4096;

/// How far a consumer has examined the queue.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// a priority: nothing before it is new to this consumer, but for `returned`
    cursor: [u64; Priority::COUNT],
    /// messages that arrived or returned before the cursor after it had passed: 9 - priority and
    /// number; and the group of which all later messages are to be examined too, or
    /// [`Entry::NO_GROUP`]
    returned: BTreeMap<(u8, u64), u32>,
}

impl Cursor {
    /// A message becomes available; if a group is named, that message and the later ones of the
    /// group.
    pub(super) fn notify(&mut self, priority: u8, at: u64, group: u32) {
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

    /// It has examined this one. The group in which it is to continue.
    fn pass(&mut self, priority: u8, at: u64) -> u32 {
        self.returned.remove(&(9 - priority, at)).unwrap_or_else(|| {
            self.cursor[priority as usize] = at + 1;
            Entry::NO_GROUP
        })
    }
}

/// The action for a message that a cursor has reached.
enum CursorStep {
    Skip,
    Give,
    Unread,
    HideExpired,
}

impl Queue {
    /// The next message that the cursor has not examined.
    fn ahead(&self, cursor: &Cursor) -> Option<(u8, u64)> {
        let mut priorities = self.index.priorities(Class::Loose) | self.index.priorities(Class::Grouped);
        let returned = cursor.returned.first_key_value().map(|((inverse, at), _)| (9 - inverse, *at));
        while let Some(priority) = priorities.checked_ilog2() {
            let priority = priority as u8;
            if returned.is_some_and(|(of, _)| of >= priority) {
                break;
            }
            let from = cursor.cursor[priority as usize];
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
    pub(super) fn next_by_cursor(
        &mut self,
        now: u64,
        id: ConsumerId,
        accepts: &mut dyn FnMut(&Item) -> Verdict,
    ) -> Next {
        let Some(mut cursor) = self.consumers.get_mut(id).and_then(|consumer| consumer.cursor.take()) else {
            return Next::Nothing;
        };
        let next = self.advance_cursor(now, id, &mut cursor, accepts);
        if let Some(consumer) = self.consumers.get_mut(id) {
            consumer.cursor = Some(cursor);
        }
        if next == Next::Nothing {
            self.consumers.sleep(id);
        }
        next
    }

    fn advance_cursor(
        &mut self,
        now: u64,
        id: ConsumerId,
        cursor: &mut Cursor,
        accepts: &mut dyn FnMut(&Item) -> Verdict,
    ) -> Next {
        for _ in 0..SHARE {
            let Some((priority, at)) = self.ahead(cursor) else { return Next::Nothing };
            let browses = self.consumers.get(id).is_some_and(|consumer| consumer.browses);
            let look = if self.index.is_shown(at) { self.examine(now, id, at, accepts) } else { CursorStep::Skip };
            if matches!(look, CursorStep::Unread) {
                return self.item(at).map_or(Next::Nothing, Next::Unread);
            }
            let group = cursor.pass(priority, at);
            if group != Entry::NO_GROUP
                && self.groups.admits(group, id)
                && let Some(after) = self.after_in_group(group, priority, at)
            {
                cursor.notify(priority, after, group);
            }
            match look {
                CursorStep::HideExpired if !browses => self.hide_expired(at),
                CursorStep::Give if browses => return self.item(at).map_or(Next::Nothing, Next::Message),
                CursorStep::Give => return self.acquire(at, id),
                _ => {}
            }
        }
        Next::Later
    }

    fn examine(&self, now: u64, id: ConsumerId, at: u64, accepts: &mut dyn FnMut(&Item) -> Verdict) -> CursorStep {
        let (Some(entry), Some(consumer)) = (self.index.get(at), self.consumers.get(id)) else {
            return CursorStep::Skip;
        };
        if entry.is_expired(now) {
            return CursorStep::HideExpired;
        }
        let barred = entry.has(Mark::Barred) && self.barred.is_barred(at, consumer.name);
        let elsewhere = entry.grouped() && !self.groups.admits(entry.group, id);
        if !consumer.browses && (barred || elsewhere) {
            return CursorStep::Skip;
        }
        if !consumer.selects {
            return CursorStep::Give;
        }
        match self.item(at).map(|item| accepts(&item)) {
            Some(Verdict::Yes) => CursorStep::Give,
            Some(Verdict::Unread) => CursorStep::Unread,
            _ => CursorStep::Skip,
        }
    }

    /// A message for a browser could not be shown to it: the cursor returns to it.
    pub fn revisit(&mut self, id: ConsumerId, seq: Seq) {
        let Some(priority) = self.index.get(seq.0).map(|entry| entry.priority()) else { return };
        let browser = self.consumers.get_mut(id).filter(|consumer| consumer.browses);
        if let Some(cursor) = browser.and_then(|browser| browser.cursor.as_mut()) {
            cursor.notify(priority, seq.0, Entry::NO_GROUP);
            self.consumers.wake(id);
        }
    }

    /// A message was committed after others that were offered later: browsers that have seen those
    /// have not seen it.
    #[inline]
    pub(super) fn notify_browsers(&mut self, at: u64) {
        if self.consumers.cursors.is_empty() {
            return;
        }
        let Some(priority) = self.index.get(at).map(|entry| entry.priority()) else { return };
        for index in 0..self.consumers.cursors.len() {
            let id = self.consumers.cursors[index];
            let browser = self.consumers.get_mut(id).filter(|consumer| consumer.browses);
            if let Some(cursor) = browser.and_then(|browser| browser.cursor.as_mut()) {
                cursor.notify(priority, at, Entry::NO_GROUP);
            }
        }
    }

    /// Takes an expired message out of reach; the next timeout deals with it.
    pub(super) fn hide_expired(&mut self, at: u64) {
        if self.step(at, Step::HideExpired) {
            self.make_unavailable(at);
        }
    }
}
