//! Consumers, and which of them may receive: exclusive, single active, by priority.

use smallvec::SmallVec;

use super::consumer_id::ConsumerId;
use super::cursor::Cursor;
use super::settings::{Settings, Sharing};

const SLOT_BITS: u32 = 18;
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;
const NOT_LISTED: u32 = u32::MAX;

/// A consumer as it attaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consume {
    /// the caller's own name for it
    pub key: u64,
    /// digest of container and link name: outlives the link in `modified(undeliverable-here)`
    pub name: u64,
    /// consumers of a higher priority are served first while they have credit
    pub priority: i32,
    /// has a selector, which is evaluated for each message
    pub selects: bool,
    /// reads without consuming (distribution-mode copy)
    pub browses: bool,
    /// excludes other consumers
    pub exclusive: bool,
}

/// Why a link may not attach: `amqp:resource-limit-exceeded` or `amqp:not-allowed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// `limits.consumers`
    #[error("the address has reached its maximum consumer limit of {0}")]
    Consumers(u32),
    /// `limits.producers`
    #[error("the address has reached its maximum producer limit of {0}")]
    Producers(u32),
    /// an attached consumer is exclusive, or the new one is and others are attached
    #[error("the address has an exclusive consumer, or has consumers and the new one is exclusive")]
    Exclusive,
}

/// A consumer that is attached.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) key: u64,
    pub(super) name: u64,
    pub(super) priority: i32,
    pub(super) browses: bool,
    pub(super) selects: bool,
    /// messages it holds
    pub(super) outstanding: u32,
    /// set for a selector, a browser, and a consumer that declared a message undeliverable
    pub(super) cursor: Option<Box<Cursor>>,
    arrived: u64,
    has_credit: bool,
    /// index in `common` of its class
    common_at: u32,
    /// index in `own` of its class
    own_at: u32,
}

/// The consumers of one priority that have credit.
#[derive(Debug, Default)]
struct Class {
    priority: i32,
    members: u32,
    /// members that do not only browse
    acquirers: u32,
    /// consumers that accept any message
    common: Vec<ConsumerId>,
    /// consumers with a cursor or a group that may have a message for them alone
    own: Vec<ConsumerId>,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    consumer: Option<Consumer>,
}

/// Consumers that may receive a message, in two lists: a consumer can be in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidates<'a> {
    /// each of them may get the next message
    pub common: &'a [ConsumerId],
    /// consumers that may have a message for them alone: only [`next`](super::Queue::next) decides
    pub own: &'a [ConsumerId],
}

impl Candidates<'_> {
    /// Whether no consumer can receive a message now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.common.is_empty() && self.own.is_empty()
    }
}

#[derive(Debug, Default)]
pub(super) struct Consumers {
    /// inline for a single consumer, as most subscriptions have
    slots: SmallVec<[Slot; 1]>,
    free: Vec<u32>,
    /// the highest priority first
    classes: SmallVec<[Class; 1]>,
    count: u32,
    arrivals: u64,
    exclusive: Option<ConsumerId>,
    single: bool,
    active: Option<ConsumerId>,
    /// messages held by detached consumers: their links may be resumed, or a transaction has
    /// settled the messages
    orphans: u32,
    /// consumers with a cursor, for returned messages
    pub(super) cursors: Vec<ConsumerId>,
}

impl Consumers {
    pub(super) fn configure(&mut self, settings: &Settings) {
        self.single = settings.sharing == Sharing::SingleActive;
        self.choose_active();
    }

    pub(super) fn len(&self) -> u32 {
        self.count
    }

    #[inline]
    pub(super) fn get(&self, id: ConsumerId) -> Option<&Consumer> {
        let slot = self.slots.get((id.0 & SLOT_MASK) as usize)?;
        if slot.generation == id.0 >> SLOT_BITS { slot.consumer.as_ref() } else { None }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: ConsumerId) -> Option<&mut Consumer> {
        let slot = self.slots.get_mut((id.0 & SLOT_MASK) as usize)?;
        if slot.generation == id.0 >> SLOT_BITS { slot.consumer.as_mut() } else { None }
    }

    pub(super) fn attach(&mut self, consume: &Consume, uses_cursor: bool, limit: u32) -> Result<ConsumerId, Refused> {
        if self.exclusive.is_some() || consume.exclusive && self.count > 0 {
            return Err(Refused::Exclusive);
        }
        if self.count >= limit || self.count >= SLOT_MASK {
            return Err(Refused::Consumers(limit.min(SLOT_MASK)));
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        let id = ConsumerId(slot.generation << SLOT_BITS | index);
        self.arrivals += 1;
        slot.consumer = Some(Consumer {
            key: consume.key,
            name: consume.name,
            priority: consume.priority,
            browses: consume.browses,
            selects: consume.selects,
            outstanding: 0,
            cursor: uses_cursor.then(Box::default),
            arrived: self.arrivals,
            has_credit: false,
            common_at: NOT_LISTED,
            own_at: NOT_LISTED,
        });
        self.count += 1;
        let class = self.class(consume.priority);
        self.classes[class].members += 1;
        self.classes[class].acquirers += u32::from(!consume.browses);
        if uses_cursor {
            self.cursors.push(id);
        }
        if consume.exclusive {
            self.exclusive = Some(id);
        }
        self.choose_active();
        Ok(id)
    }

    pub(super) fn detach(&mut self, id: ConsumerId) -> Option<Consumer> {
        self.set_credit(id, false);
        let slot = self.slots.get_mut((id.0 & SLOT_MASK) as usize)?;
        if slot.generation != id.0 >> SLOT_BITS {
            return None;
        }
        let consumer = slot.consumer.take()?;
        slot.generation = (slot.generation + 1) & (u32::MAX >> SLOT_BITS);
        self.free.push(id.0 & SLOT_MASK);
        self.count -= 1;
        self.orphans += consumer.outstanding;
        let class = self.class(consumer.priority);
        self.classes[class].members -= 1;
        self.classes[class].acquirers -= u32::from(!consumer.browses);
        if self.classes[class].members == 0 {
            self.classes.remove(class);
        }
        self.cursors.retain(|cursor| *cursor != id);
        self.exclusive = self.exclusive.filter(|exclusive| *exclusive != id);
        self.active = self.active.filter(|active| *active != id);
        self.choose_active();
        Some(consumer)
    }

    fn class(&mut self, priority: i32) -> usize {
        match self.classes.binary_search_by(|class| priority.cmp(&class.priority)) {
            Ok(at) => at,
            Err(at) => {
                self.classes.insert(at, Class { priority, ..Class::default() });
                at
            }
        }
    }

    /// Adds `change` to the messages that a consumer holds; it may have detached.
    #[inline]
    pub(super) fn count_held(&mut self, id: ConsumerId, change: i32) {
        match self.get_mut(id) {
            Some(consumer) => consumer.outstanding = consumer.outstanding.saturating_add_signed(change),
            None => self.orphans = self.orphans.saturating_add_signed(change),
        }
    }

    /// Chooses the active consumer: one that holds messages, else the oldest of the highest
    /// priority. The active consumer does not change while it holds messages, nor in favour of
    /// others of its priority. While a detached consumer holds messages, no other becomes active,
    /// because its client may still process them.
    pub(super) fn choose_active(&mut self) {
        if !self.single || self.orphans > 0 {
            return;
        }
        let current = self.active.and_then(|id| self.get(id));
        if current.is_some_and(|current| current.outstanding > 0 || !self.yields_when_idle(current)) {
            return;
        }
        let rank =
            |consumer: &Consumer| (consumer.outstanding > 0, consumer.priority, std::cmp::Reverse(consumer.arrived));
        let acquirers = self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let consumer = slot.consumer.as_ref().filter(|consumer| !consumer.browses)?;
            Some((rank(consumer), ConsumerId(slot.generation << SLOT_BITS | index as u32)))
        });
        self.active = acquirers.max().map(|(_, id)| id);
        if let Some(id) = self.active {
            self.join_own(id);
        }
    }

    /// Whether the active consumer is replaced once it holds no message: a consumer of a higher
    /// priority is attached.
    fn yields_when_idle(&self, active: &Consumer) -> bool {
        let mut higher = self.classes.iter().take_while(|class| class.priority > active.priority);
        higher.any(|class| class.acquirers > 0)
    }

    pub(super) fn set_credit(&mut self, id: ConsumerId, has_credit: bool) {
        let Some(consumer) = self.get_mut(id) else { return };
        if consumer.has_credit == has_credit {
            return;
        }
        consumer.has_credit = has_credit;
        let (priority, uses_cursor) = (consumer.priority, consumer.cursor.is_some());
        let class = self.class(priority);
        if !has_credit {
            self.leave_list(class, id, List::Common);
            self.leave_list(class, id, List::Own);
        } else if uses_cursor {
            self.join_list(class, id, List::Own);
        } else {
            self.join_list(class, id, List::Common);
        }
    }

    /// Gives cursors to all consumers of a name.
    pub(super) fn make_cursors(&mut self, name: u64) {
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            if slot.consumer.as_ref().is_some_and(|consumer| consumer.name == name) {
                self.make_cursor(ConsumerId(slot.generation << SLOT_BITS | index as u32));
            }
        }
    }

    /// Gives a cursor to a consumer that accepted any message.
    fn make_cursor(&mut self, id: ConsumerId) {
        let Some(consumer) = self.get_mut(id) else { return };
        if consumer.cursor.is_some() {
            return;
        }
        consumer.cursor = Some(Box::default());
        let priority = consumer.priority;
        let class = self.class(priority);
        self.leave_list(class, id, List::Common);
        self.cursors.push(id);
        self.join_own(id);
    }

    /// Lists a consumer in `own`: there may be a message for it alone.
    #[inline]
    pub(super) fn join_own(&mut self, id: ConsumerId) {
        let Some(consumer) = self.get(id) else { return };
        if consumer.has_credit && consumer.own_at == NOT_LISTED {
            let class = self.class(consumer.priority);
            self.join_list(class, id, List::Own);
        }
    }

    /// Removes a consumer from `own`: there is no message for it alone.
    pub(super) fn leave_own(&mut self, id: ConsumerId) {
        let Some(consumer) = self.get(id) else { return };
        let class = self.class(consumer.priority);
        self.leave_list(class, id, List::Own);
    }

    fn join_list(&mut self, class: usize, id: ConsumerId, list: List) {
        let at = self.classes[class].list(list).len() as u32;
        let Some(place) = self.get_mut(id).map(|consumer| consumer.place(list)) else { return };
        if *place == NOT_LISTED {
            *place = at;
            self.classes[class].list(list).push(id);
        }
    }

    fn leave_list(&mut self, class: usize, id: ConsumerId, list: List) {
        let Some(place) = self.get_mut(id).map(|consumer| consumer.place(list)) else { return };
        let at = std::mem::replace(place, NOT_LISTED);
        if at == NOT_LISTED {
            return;
        }
        let members = self.classes[class].list(list);
        members.swap_remove(at as usize);
        if let Some(moved) = members.get(at as usize).copied()
            && let Some(consumer) = self.get_mut(moved)
        {
            *consumer.place(list) = at;
        }
    }

    /// The consumers of the highest priority that may receive a message. `has_common`: there are
    /// messages for any consumer.
    #[inline]
    pub(super) fn candidates(&self, has_common: bool) -> Candidates<'_> {
        let none = Candidates { common: &[], own: &[] };
        if self.single {
            return self.active_candidate(has_common).unwrap_or(none);
        }
        let mut classes = self
            .classes
            .iter()
            .map(|class| Candidates { common: if has_common { &class.common } else { &[] }, own: &class.own });
        classes.find(|candidates| !candidates.is_empty()).unwrap_or(none)
    }

    /// The active consumer, and browsers, which consume no message.
    fn active_candidate(&self, has_common: bool) -> Option<Candidates<'_>> {
        let browsing = |class: &&Class| class.own.iter().any(|id| self.get(*id).is_some_and(|one| one.browses));
        if let Some(class) = self.classes.iter().find(browsing) {
            return Some(Candidates { common: &[], own: &class.own });
        }
        let consumer = self.get(self.active?)?;
        if self.yields_when_idle(consumer) {
            return None;
        }
        let only = self.active.as_slice();
        let common = if has_common && consumer.common_at != NOT_LISTED { only } else { &[] };
        Some(Candidates { common, own: if consumer.own_at != NOT_LISTED { only } else { &[] } })
    }

    /// Whether a consumer is in a list of candidates.
    pub(super) fn is_listed(&self, id: ConsumerId, has_common: bool) -> bool {
        self.get(id)
            .is_some_and(|consumer| consumer.own_at != NOT_LISTED || has_common && consumer.common_at != NOT_LISTED)
    }

    /// Whether only the active consumer gets messages.
    #[inline]
    pub(super) fn is_single(&self) -> bool {
        self.single
    }

    /// Whether the other consumers allow a consumer to receive messages now.
    #[inline]
    pub(super) fn is_eligible(&self, id: ConsumerId, has_common: bool) -> bool {
        let Some(consumer) = self.get(id) else { return false };
        if consumer.browses {
            return true;
        }
        if self.single {
            return self.active == Some(id) && !self.yields_when_idle(consumer);
        }
        let before = self.classes.iter().take_while(|class| class.priority > consumer.priority);
        before.into_iter().all(|class| class.own.is_empty() && (!has_common || class.common.is_empty()))
    }
}

#[derive(Clone, Copy)]
enum List {
    Common,
    Own,
}

impl Class {
    fn list(&mut self, list: List) -> &mut Vec<ConsumerId> {
        match list {
            List::Common => &mut self.common,
            List::Own => &mut self.own,
        }
    }
}

impl Consumer {
    fn place(&mut self, list: List) -> &mut u32 {
        match list {
            List::Common => &mut self.common_at,
            List::Own => &mut self.own_at,
        }
    }
}
