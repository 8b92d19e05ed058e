//! The index entry of a message (40 bytes), and the table of its state transitions.

pub use crate::log::RecordLocation;

/// The location of a message that is not committed.
const UNPLACED: RecordLocation = RecordLocation { segment: 0, offset: 0, len: 0 };

/// Identifies a message within its queue; never reused.
///
/// It defines the order: of two messages of one priority, the smaller is delivered first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seq(pub u64);

/// The state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// offered, and not yet committed by the journal or a transaction
    Offered,
    /// available
    Waiting,
    /// waits for its delivery time
    Scheduled,
    /// failed, and waits for its next attempt
    Delayed,
    /// dispatched to a consumer
    Acquired,
    /// settled by its consumer within an open transaction
    Retiring,
    /// being moved to another address, which has not confirmed it
    Leaving,
    /// found expired; the next [`timeout`](super::Queue::timeout) removes it
    Expired,
}

/// Transitions of a message that stays in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Commit,
    Schedule,
    Due,
    Acquire,
    Return,
    Delay,
    Retire,
    Unretire,
    Divert,
    HideExpired,
}

/// The next state; combinations that are not in the table are illegal. A message can be removed
/// from every state.
pub(super) const fn follows(state: State, step: Step) -> Option<State> {
    use State::{Acquired, Delayed, Expired, Leaving, Offered, Retiring, Scheduled, Waiting};
    Some(match (state, step) {
        (Offered, Step::Commit) => Waiting,
        (Offered | Leaving, Step::Schedule) => Scheduled,
        (Scheduled | Delayed, Step::Due) => Waiting,
        (Waiting, Step::Acquire) => Acquired,
        (Acquired | Retiring | Leaving, Step::Return) => Waiting,
        (Acquired | Retiring | Leaving, Step::Delay) => Delayed,
        (Acquired, Step::Retire) => Retiring,
        (Retiring, Step::Unretire) => Acquired,
        (Waiting | Scheduled | Delayed | Acquired | Retiring | Expired, Step::Divert) => Leaving,
        (Waiting, Step::HideExpired) => Expired,
        _ => return None,
    })
}

const TIME_BITS: u32 = 48;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// The latest time that can be stored: in the year 10889.
pub(super) const TIME_MAX: u64 = TIME_MASK;

/// Marks of an entry, each a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Durable = 7,
    /// in the last-value table
    Keyed = 8,
    /// undeliverable to some consumers
    UndeliverableHere = 9,
    /// has another number in the log
    Renamed = 10,
    /// ends its group's binding
    ClosesGroup = 11,
    /// has an entry in the timers
    Timed = 12,
    /// became due while it was leaving
    DueWhileLeaving = 13,
    /// was never available: its delivery time is in the future
    NeverAvailable = 14,
    /// its body cannot be read now: while it is delayed, its group waits
    Unreadable = 15,
}

/// A plain message has no expiry, and no marks but [`Mark::Durable`].
const PLAIN_MASK: u64 = TIME_MASK | !0 << (TIME_BITS + Mark::Durable as u32 + 1);

/// The index entry of a message.
///
/// `times`: enqueued in 48 bits, failed deliveries in 16.
/// `expiry_and_marks`: expiry in 48 bits (0: never), state in 3, priority in 4, then marks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) place: RecordLocation,
    pub(super) size: u32,
    times: u64,
    expiry_and_marks: u64,
    /// slot of its group, or [`Entry::NO_GROUP`]
    pub(super) group: u32,
    /// the consumer that holds it, in states `Acquired` and `Retiring`
    pub(super) holder: u32,
}

const STATES: [State; 8] = [
    State::Offered,
    State::Waiting,
    State::Scheduled,
    State::Delayed,
    State::Acquired,
    State::Retiring,
    State::Leaving,
    State::Expired,
];

impl Entry {
    pub(super) const NO_GROUP: u32 = u32::MAX;

    #[inline]
    pub(super) fn new(size: u32, priority: u8, enqueued: u64, expires: Option<u64>, failures: u16) -> Self {
        let expires = expires.map_or(0, |at| at.clamp(1, TIME_MAX));
        Self {
            place: UNPLACED,
            size,
            times: enqueued.min(TIME_MAX) | u64::from(failures) << TIME_BITS,
            expiry_and_marks: expires | u64::from(priority) << (TIME_BITS + 3),
            group: Self::NO_GROUP,
            holder: 0,
        }
    }

    #[inline]
    pub(super) fn enqueued(&self) -> u64 {
        self.times & TIME_MASK
    }

    #[inline]
    pub(super) fn failures(&self) -> u16 {
        (self.times >> TIME_BITS) as u16
    }

    pub(super) fn set_failures(&mut self, failures: u16) {
        self.times = self.enqueued() | u64::from(failures) << TIME_BITS;
    }

    /// 0: never.
    #[inline]
    pub(super) fn expires(&self) -> u64 {
        self.expiry_and_marks & TIME_MASK
    }

    /// Lets it never expire. Returns when it would have; 0: never.
    pub(super) fn clear_expiry(&mut self) -> u64 {
        let expires = self.expires();
        self.expiry_and_marks &= !TIME_MASK;
        expires
    }

    #[inline]
    pub(super) fn is_expired(&self, now: u64) -> bool {
        let at = self.expires();
        at != 0 && at <= now
    }

    #[inline]
    pub(super) fn state(&self) -> State {
        STATES[(self.expiry_and_marks >> TIME_BITS & 7) as usize]
    }

    #[inline]
    pub(super) fn priority(&self) -> u8 {
        (self.expiry_and_marks >> (TIME_BITS + 3) & 15) as u8
    }

    #[inline]
    pub(super) fn has(&self, mark: Mark) -> bool {
        self.expiry_and_marks >> (TIME_BITS + mark as u32) & 1 != 0
    }

    #[inline]
    pub(super) fn set(&mut self, mark: Mark, on: bool) {
        let bit = 1 << (TIME_BITS + mark as u32);
        self.expiry_and_marks = if on { self.expiry_and_marks | bit } else { self.expiry_and_marks & !bit };
    }

    /// Whether it only has to be dispatched: it never expires, has not failed, belongs to no group,
    /// and has no mark except [`Mark::Durable`].
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.expiry_and_marks & PLAIN_MASK == 0 && self.failures() == 0 && !self.grouped()
    }

    #[inline]
    pub(super) fn grouped(&self) -> bool {
        self.group != Self::NO_GROUP
    }

    /// Applies a transition; `false`, without a change, if it is illegal.
    #[inline]
    pub(super) fn step(&mut self, step: Step) -> bool {
        let Some(next) = follows(self.state(), step) else { return false };
        self.expiry_and_marks = self.expiry_and_marks & !(7 << TIME_BITS) | (next as u64) << TIME_BITS;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_is_forty_bytes_and_keeps_its_fields() {
        assert_eq!(size_of::<Entry>(), 40);
        let mut entry = Entry::new(7, 9, 1 << 41, Some(u64::MAX), 3);
        entry.set(Mark::Durable, true);
        entry.set(Mark::Timed, true);
        assert!(entry.step(Step::Commit) && entry.step(Step::Acquire) && entry.step(Step::Delay));
        entry.set_failures(u16::MAX);
        entry.set(Mark::Timed, false);
        assert_eq!((entry.enqueued(), entry.expires(), entry.failures()), (1 << 41, TIME_MAX, u16::MAX));
        assert_eq!((entry.priority(), entry.state()), (9, State::Delayed));
        assert!(entry.has(Mark::Durable) && !entry.has(Mark::Timed));
        assert!(!entry.is_plain());
    }

    #[test]
    fn plain_entry_has_only_size_priority_and_durability() {
        let mut entry = Entry::new(7, 9, TIME_MAX, None, 0);
        entry.set(Mark::Durable, true);
        entry.step(Step::Commit);
        entry.step(Step::Acquire);
        assert!(entry.is_plain());
        let marks = [
            Mark::Keyed,
            Mark::UndeliverableHere,
            Mark::Renamed,
            Mark::ClosesGroup,
            Mark::Timed,
            Mark::DueWhileLeaving,
            Mark::NeverAvailable,
        ];
        for mark in marks {
            entry.set(mark, true);
            assert!(!entry.is_plain(), "{mark:?}");
            entry.set(mark, false);
        }
        assert!(!Entry::new(7, 4, 1, Some(1), 0).is_plain() && !Entry::new(7, 4, 1, None, 1).is_plain());
        entry.group = 3;
        assert!(!entry.is_plain());
    }

    #[test]
    fn illegal_step_leaves_the_state_of_an_entry_unchanged() {
        for (index, state) in STATES.into_iter().enumerate() {
            assert_eq!(state as usize, index);
        }
        let mut entry = Entry::new(0, 4, 0, None, 0);
        assert!(!entry.step(Step::Acquire) && !entry.step(Step::Return));
        assert_eq!(entry.state(), State::Offered);
        assert!(!entry.is_expired(u64::MAX));
    }

    #[test]
    fn offered_or_leaving_message_cannot_be_diverted() {
        assert_eq!(follows(State::Offered, Step::Divert), None);
        assert_eq!(follows(State::Leaving, Step::Divert), None);
    }
}
