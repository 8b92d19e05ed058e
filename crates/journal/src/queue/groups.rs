//! Message groups: the consumer of each group, and its next message.
//!
//! Each group keeps its waiting messages in one lane per priority. Only its first message, its
//! head, is in the ordered set of heads, with those of its consumer's other groups, or those of
//! groups without a consumer. A consumer therefore never examines messages of another consumer's
//! groups.
//!
//! A sticky group without messages stays with its consumer while that is attached, because
//! producers may be slower than consumers. Beyond `IDLE_MAX`, the longest idle group is forgotten.
//!
//! Memory: 4 to 8 bytes a message in its lane, about 200 a group that has messages or is
//! remembered.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::Queue;
use super::consumer_id::ConsumerId;
use super::entry::Mark;
use super::index::Index;
use super::settings::Grouping;

/// The holder of groups without a consumer; no consumer has this id.
const NO_CONSUMER: u32 = u32::MAX;

/// Maximum groups without messages that a queue remembers.
const IDLE_MAX: usize = 4_096;

/// The messages of one priority of a group, in order. Removed ones are skipped when they come to
/// the front.
#[derive(Debug)]
struct Lane {
    priority: u8,
    /// base of the numbers in `line`
    base: u64,
    line: VecDeque<u32>,
    /// all numbers below have left `line`
    passed: u64,
    /// numbers below `passed` that returned
    returned: BTreeSet<u64>,
}

impl Lane {
    fn new(priority: u8, at: u64) -> Self {
        Self { priority, base: at, line: VecDeque::new(), passed: at, returned: BTreeSet::new() }
    }

    /// Appends a message.
    fn push(&mut self, at: u64) {
        if u32::try_from(at - self.base).is_err() {
            self.rebase(at);
        }
        self.line.push_back((at - self.base) as u32);
    }

    /// Sets a new `base`, because a number is too far from the old one. Older messages move to
    /// `returned`.
    #[cold]
    fn rebase(&mut self, at: u64) {
        let line = std::mem::take(&mut self.line);
        let base = std::mem::replace(&mut self.base, at);
        self.returned.extend(line.into_iter().map(|delta| base + u64::from(delta)));
        self.passed = at;
    }

    /// Records that a message is available.
    fn notify(&mut self, at: u64) {
        if at < self.passed {
            self.returned.insert(at);
        }
    }

    /// The first available message; unavailable ones before it are skipped.
    fn first(&mut self, index: &Index) -> Option<u64> {
        while let Some(at) = self.returned.first().copied() {
            if index.is_shown(at) {
                return Some(at);
            }
            self.returned.pop_first();
        }
        while let Some(delta) = self.line.front() {
            let at = self.base + u64::from(*delta);
            if index.is_shown(at) {
                return Some(at);
            }
            self.line.pop_front();
            self.passed = at + 1;
        }
        None
    }

    /// The first available message at or after `at`.
    fn not_before(&self, index: &Index, at: u64) -> Option<u64> {
        let returned = self.returned.range(at..).copied().find(|at| index.is_shown(*at));
        let from = self.line.partition_point(|delta| self.base + u64::from(*delta) < at);
        let mut line = self.line.range(from..).map(|delta| self.base + u64::from(*delta));
        [returned, line.find(|at| index.is_shown(*at))].into_iter().flatten().min()
    }
}

#[derive(Debug)]
struct Group {
    digest: u64,
    holder: u32,
    /// messages that consumers hold
    held: u32,
    /// messages that wait for their next attempt
    delayed: u32,
    /// delayed messages that cannot be read
    unreadable: u32,
    /// messages in any state
    members: u32,
    /// its key in `heads`: holder, 9 - priority, number
    head: Option<(u32, u8, u64)>,
    /// the highest priority first
    lanes: Vec<Lane>,
    /// its key in `Groups::idle`, if it has no messages
    idle: Option<u64>,
}

/// All groups of a queue that have messages, or had some and have a consumer.
#[derive(Debug, Default)]
pub(super) struct Groups {
    slots: Vec<Option<Group>>,
    free: Vec<u32>,
    by_digest: HashMap<u64, u32>,
    /// holder, 9 - priority, number, group
    heads: BTreeSet<(u32, u8, u64, u32)>,
    /// groups without messages, the longest idle first
    idle: BTreeMap<u64, u32>,
    /// counter of groups that became idle
    turn: u64,
}

impl Groups {
    /// Adds a message to its group, and returns the slot of the group.
    pub(super) fn join(&mut self, digest: u64, priority: u8, at: u64) -> u32 {
        let slot = *self.by_digest.entry(digest).or_insert_with(|| {
            let group = Group {
                digest,
                holder: NO_CONSUMER,
                held: 0,
                delayed: 0,
                unreadable: 0,
                members: 0,
                head: None,
                lanes: Vec::new(),
                idle: None,
            };
            match self.free.pop() {
                Some(slot) => {
                    self.slots[slot as usize] = Some(group);
                    slot
                }
                None => {
                    self.slots.push(Some(group));
                    (self.slots.len() - 1) as u32
                }
            }
        });
        if let Some(group) = self.get_mut(slot) {
            group.members += 1;
            if let Some(since) = group.idle.take() {
                self.idle.remove(&since);
            }
        }
        self.append_to_lane(slot, priority, at);
        slot
    }

    /// Remembers a group without messages for its consumer.
    fn remember(&mut self, slot: u32) {
        self.turn += 1;
        let since = self.turn;
        let Some(group) = self.get_mut(slot) else { return };
        group.idle = Some(since);
        group.lanes = Vec::new();
        self.idle.insert(since, slot);
        if self.idle.len() > IDLE_MAX
            && let Some((_, longest)) = self.idle.pop_first()
        {
            self.forget(longest);
        }
    }

    fn forget(&mut self, slot: u32) {
        if let Some(group) = self.slots.get_mut(slot as usize).and_then(Option::take) {
            self.by_digest.remove(&group.digest);
            self.free.push(slot);
        }
    }

    /// Forgets the groups without messages for whose consumer `gone` is true.
    pub(super) fn forget_idle(&mut self, gone: impl Fn(ConsumerId) -> bool) {
        let mut idle = std::mem::take(&mut self.idle);
        idle.retain(|_, slot| {
            let is_forgotten = self.get(*slot).is_none_or(|group| gone(ConsumerId(group.holder)));
            if is_forgotten {
                self.forget(*slot);
            }
            !is_forgotten
        });
        self.idle = idle;
    }

    /// Appends a message to the lane of its priority.
    pub(super) fn append_to_lane(&mut self, slot: u32, priority: u8, at: u64) {
        let Some(group) = self.get_mut(slot) else { return };
        let place = group.lanes.binary_search_by(|lane| priority.cmp(&lane.priority));
        let place = place.unwrap_or_else(|place| {
            group.lanes.insert(place, Lane::new(priority, at));
            place
        });
        group.lanes[place].push(at);
    }

    fn get_mut(&mut self, slot: u32) -> Option<&mut Group> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    fn get(&self, slot: u32) -> Option<&Group> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(super) fn digest(&self, slot: u32) -> Option<u64> {
        self.get(slot).map(|group| group.digest)
    }

    /// Groups that have messages.
    pub(super) fn len(&self) -> usize {
        self.by_digest.len() - self.idle.len()
    }

    /// Adds `change` to the messages that wait for their next attempt.
    pub(super) fn count_delayed(&mut self, slot: u32, change: i32) {
        if let Some(group) = self.get_mut(slot) {
            group.delayed = group.delayed.saturating_add_signed(change);
        }
    }

    /// Adds `change` to the unreadable messages, which hold back their group.
    pub(super) fn count_unreadable(&mut self, slot: u32, change: i32) {
        if let Some(group) = self.get_mut(slot) {
            group.unreadable = group.unreadable.saturating_add_signed(change);
        }
    }

    /// Whether a group without a consumer has an available message.
    #[inline]
    pub(super) fn any_free(&self) -> bool {
        self.heads.last().is_some_and(|(holder, ..)| *holder == NO_CONSUMER)
    }

    /// The first message of the groups of a holder: 9 - priority, number.
    fn first_of(&self, holder: u32) -> Option<(u8, u64)> {
        let (found, inverse, at, _) = *self.heads.range((holder, 0, 0, 0)..).next()?;
        (found == holder).then_some((inverse, at))
    }

    /// The first message that a consumer may have: 9 - priority, number.
    #[inline]
    pub(super) fn first_for(&self, id: ConsumerId) -> Option<(u8, u64)> {
        if self.heads.is_empty() {
            return None;
        }
        [self.first_of(id.0), self.first_of(NO_CONSUMER)].into_iter().flatten().min()
    }

    /// Whether a group of this consumer has an available message.
    pub(super) fn any_of(&self, id: ConsumerId) -> bool {
        !self.heads.is_empty() && self.first_of(id.0).is_some()
    }

    /// Whether a consumer may receive messages of a group now.
    pub(super) fn admits(&self, slot: u32, id: ConsumerId) -> bool {
        let head = self.get(slot).and_then(|group| group.head);
        head.is_some_and(|(holder, ..)| holder == NO_CONSUMER || holder == id.0)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let lanes = self.slots.iter().flatten().flat_map(|group| &group.lanes);
        let lines: usize =
            lanes.map(|lane| size_of::<Lane>() + lane.line.capacity() * 4 + lane.returned.len() * 12).sum();
        lines
            + self.slots.capacity() * size_of::<Option<Group>>()
            + self.free.capacity() * 4
            + self.by_digest.capacity() * 17
            + self.heads.len() * 32
            + self.idle.len() * 24
    }
}

impl Queue {
    /// Records that a message of a group is available, for the first time or again.
    pub(super) fn notify_group(&mut self, slot: u32, priority: u8, at: u64) {
        if let Some(group) = self.groups.get_mut(slot)
            && let Some(lane) = group.lanes.iter_mut().find(|lane| lane.priority == priority)
        {
            lane.notify(at);
        }
        self.refresh_group(slot);
    }

    /// Assigns a group to the consumer that acquired a message of it, unless the message closes the
    /// group.
    pub(super) fn bind_group(&mut self, slot: u32, at: u64, id: ConsumerId) {
        let closes = self.index.get(at).is_some_and(|entry| entry.has(Mark::ClosesGroup));
        let per_key = self.settings.grouping == Grouping::PerKey;
        let Some(group) = self.groups.get_mut(slot) else { return };
        group.held += 1;
        group.holder = if closes && !per_key { NO_CONSUMER } else { id.0 };
        self.refresh_group(slot);
    }

    /// Assigns a group of a detached consumer to the consumer that takes over a message of it.
    pub(super) fn reassign_group(&mut self, slot: u32, to: ConsumerId) {
        let Some(group) = self.groups.get_mut(slot) else { return };
        if group.holder != NO_CONSUMER && self.consumers.get(ConsumerId(group.holder)).is_none() {
            group.holder = to.0;
        }
        self.refresh_group(slot);
    }

    /// Counts one held message of a group less.
    pub(super) fn count_group_release(&mut self, slot: u32) {
        let per_key = self.settings.grouping == Grouping::PerKey;
        let Some(group) = self.groups.get_mut(slot) else { return };
        group.held = group.held.saturating_sub(1);
        if per_key && group.held == 0 {
            group.holder = NO_CONSUMER;
        }
    }

    /// Removes a message from its group. A group without messages is forgotten, unless its consumer
    /// keeps it.
    pub(super) fn leave_group(&mut self, slot: u32) {
        let Some(group) = self.groups.get_mut(slot) else { return };
        group.members -= 1;
        if group.members > 0 {
            return self.refresh_group(slot);
        }
        let consumer = ConsumerId(group.holder);
        if let Some((holder, inverse, at)) = group.head.take() {
            self.groups.heads.remove(&(holder, inverse, at, slot));
        }
        let is_remembered = self.settings.grouping == Grouping::Sticky && self.consumers.get(consumer).is_some();
        if is_remembered { self.groups.remember(slot) } else { self.groups.forget(slot) }
    }

    /// Unassigns the groups of a detached consumer.
    pub(super) fn free_groups(&mut self, id: ConsumerId) {
        self.groups.forget_idle(|holder| holder == id);
        while let Some((holder, _, _, slot)) = self.groups.heads.range((id.0, 0, 0, 0)..).next().copied() {
            if holder != id.0 {
                return;
            }
            self.refresh_group(slot);
        }
    }

    /// Updates the head of a group.
    pub(super) fn refresh_group(&mut self, slot: u32) {
        let per_key = self.settings.grouping == Grouping::PerKey;
        let index = &self.index;
        let Some(group) = self.groups.slots.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        let mut blocked = per_key && group.delayed > 0 || group.unreadable > 0;
        if group.holder != NO_CONSUMER && self.consumers.get(ConsumerId(group.holder)).is_none() {
            // Its consumer has detached. The messages that it held block the group until they are
            // settled.
            blocked |= group.held > 0;
            group.holder = if blocked { group.holder } else { NO_CONSUMER };
        }
        let first = group.lanes.iter_mut().find_map(|lane| Some((9 - lane.priority, lane.first(index)?)));
        let head = first.filter(|_| !blocked).map(|(inverse, at)| (group.holder, inverse, at));
        let before = std::mem::replace(&mut group.head, head);
        if before == head {
            return;
        }
        if let Some((holder, inverse, at)) = before {
            self.groups.heads.remove(&(holder, inverse, at, slot));
        }
        if let Some((holder, inverse, at)) = head {
            self.groups.heads.insert((holder, inverse, at, slot));
            let had = before.map(|(had, ..)| had);
            if had != Some(holder) && had != Some(NO_CONSUMER) {
                self.notify_group_cursors(slot, holder);
            }
            self.consumers.join_own(ConsumerId(holder));
        }
    }

    /// Reports a group to the cursors that may now get its messages: they may have passed them.
    fn notify_group_cursors(&mut self, slot: u32, holder: u32) {
        for lane in 0..self.groups.get(slot).map_or(0, |group| group.lanes.len()) {
            let index = &self.index;
            let lane = self.groups.get_mut(slot).map(|group| &mut group.lanes[lane]);
            let Some((priority, at)) = lane.and_then(|lane| Some((lane.priority, lane.first(index)?))) else {
                continue;
            };
            if holder != NO_CONSUMER {
                self.notify_cursor(ConsumerId(holder), priority, at, slot);
                continue;
            }
            for index in 0..self.consumers.cursors.len() {
                self.notify_cursor(self.consumers.cursors[index], priority, at, slot);
            }
        }
    }

    /// The next available message of a group after another one of its priority.
    pub(super) fn after_in_group(&self, slot: u32, priority: u8, at: u64) -> Option<u64> {
        let lane = self.groups.get(slot)?.lanes.iter().find(|lane| lane.priority == priority)?;
        lane.not_before(&self.index, at + 1)
    }
}
