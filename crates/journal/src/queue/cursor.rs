//! Cursors of consumers that do not accept every message: selectors, browsers, and consumers that
//! declared a message undeliverable.
//!
//! Each has one cursor per priority, so that a message that does not match is examined only once. A
//! message that becomes available before the cursor is reported to it by number. Only a group that
//! becomes free is examined again from its first message, because the cursor passed it while
//! another consumer had it.

use std::collections::BTreeMap;

use super::Queue;
use super::consumer_id::ConsumerId;
use super::effect::{Item, Next, Verdict};
use super::entry::{Entry, Mark, Seq, Step};
use super::head::Priority;
use super::index::Class;

/// Maximum messages examined in one call.
const WORK_MAX: usize = 256;
/// Maximum remembered returns; beyond it the cursor moves back to the first of them.
const RETURNS_MAX: usize = 4096;

/// How far a consumer has examined the queue.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// by priority: all messages before it were examined, except `returned`
    cursor: [u64; Priority::COUNT],
    /// messages before the cursor that became available after it had passed: 9 - priority and
    /// number; with the group whose later messages must be examined too, or [`Entry::NO_GROUP`]
    returned: BTreeMap<(u8, u64), u32>,
}

impl Cursor {
    /// Reports an available message; with a group, also the later messages of that group.
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

    /// Records that a message was examined. Returns the group in which to continue.
    fn mark_examined(&mut self, priority: u8, at: u64) -> u32 {
        self.returned.remove(&(9 - priority, at)).unwrap_or_else(|| {
            self.cursor[priority as usize] = at + 1;
            Entry::NO_GROUP
        })
    }
}

/// The action for a message that a cursor has reached.
enum CursorStep {
    Skip,
    Deliver,
    Unread,
    HideExpired,
}

impl Queue {
    /// The next message that the cursor has not examined.
    fn next_unexamined(&self, cursor: &Cursor) -> Option<(u8, u64)> {
        let mut priorities = self.index.priorities(Class::Ungrouped) | self.index.priorities(Class::Grouped);
        let returned = cursor.returned.first_key_value().map(|((inverse, at), _)| (9 - inverse, *at));
        while let Some(priority) = priorities.checked_ilog2() {
            let priority = priority as u8;
            if returned.is_some_and(|(of, _)| of >= priority) {
                break;
            }
            let from = cursor.cursor[priority as usize];
            let ungrouped = self.index.next(Class::Ungrouped, priority, from);
            let grouped = self.index.next(Class::Grouped, priority, from);
            if let Some(at) = [ungrouped, grouped].into_iter().flatten().min() {
                return Some((priority, at));
            }
            priorities &= !(1 << priority);
        }
        returned
    }

    /// [`Queue::next`] for a consumer with a cursor.
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
            self.consumers.leave_own(id);
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
        for _ in 0..WORK_MAX {
            let Some((priority, at)) = self.next_unexamined(cursor) else { return Next::Nothing };
            let browses = self.consumers.get(id).is_some_and(|consumer| consumer.browses);
            let step = if self.index.is_shown(at) { self.examine(now, id, at, accepts) } else { CursorStep::Skip };
            if matches!(step, CursorStep::Unread) {
                return self.item(at).map_or(Next::Nothing, Next::Unread);
            }
            let group = cursor.mark_examined(priority, at);
            if group != Entry::NO_GROUP
                && self.groups.admits(group, id)
                && let Some(after) = self.after_in_group(group, priority, at)
            {
                cursor.notify(priority, after, group);
            }
            match step {
                CursorStep::HideExpired if !browses => self.hide_expired(at),
                CursorStep::Deliver if browses => return self.item(at).map_or(Next::Nothing, Next::Message),
                CursorStep::Deliver => return self.acquire(at, id),
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
        let undeliverable_here =
            entry.has(Mark::UndeliverableHere) && self.undeliverable_here.is_undeliverable(at, consumer.name);
        let of_other_consumer = entry.grouped() && !self.groups.admits(entry.group, id);
        if !consumer.browses && (undeliverable_here || of_other_consumer) {
            return CursorStep::Skip;
        }
        if !consumer.selects {
            return CursorStep::Deliver;
        }
        match self.item(at).map(|item| accepts(&item)) {
            Some(Verdict::Yes) => CursorStep::Deliver,
            Some(Verdict::Unread) => CursorStep::Unread,
            _ => CursorStep::Skip,
        }
    }

    /// Lets a browser read a message again that could not be delivered to it.
    pub fn revisit(&mut self, id: ConsumerId, seq: Seq) {
        let Some(priority) = self.index.get(seq.0).map(|entry| entry.priority()) else { return };
        let browser = self.consumers.get_mut(id).filter(|consumer| consumer.browses);
        if let Some(cursor) = browser.and_then(|browser| browser.cursor.as_mut()) {
            cursor.notify(priority, seq.0, Entry::NO_GROUP);
            self.consumers.join_own(id);
        }
    }

    /// Reports a committed message to browsers: their cursors may have passed it, at messages that
    /// were offered later and committed earlier.
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

    /// Hides an expired message until the next timeout handles it.
    pub(super) fn hide_expired(&mut self, at: u64) {
        if self.step(at, Step::HideExpired) {
            self.make_unavailable(at);
        }
    }
}
