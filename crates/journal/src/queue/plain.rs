//! A fast path for plain messages: they only have to be stored, dispatched in order, and removed
//! when they are accepted. Most messages are plain.
//!
//! Each call combines several general calls. If the message or the queue is not plain, the call
//! returns `None` without a change, and the caller uses the general calls.

use super::Queue;
use super::consumer_id::ConsumerId;
use super::consumers::Candidates;
use super::effect::Cause;
use super::entry::{Entry, Mark, RecordLocation, Seq, State, Step};
use super::head::Priority;
use super::index::Class;
use super::settings::{Full, Settings, Ttl};

/// The properties of a plain message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plain {
    /// bytes of the encoded message
    pub size_bytes: u32,
    /// `header.priority`, 4 if there is none
    pub priority: Priority,
    /// `header.durable`
    pub durable: bool,
}

/// Whether a queue with these settings accepts plain messages.
pub(super) fn accepts_plain(settings: &Settings) -> bool {
    let keeps_all = matches!(settings.full, Full::Block | Full::Strict);
    let without_rules = keeps_all && settings.ttl == Ttl::default();
    without_rules && !settings.last_value && settings.duplicates.is_none()
}

impl Queue {
    /// The only consumer that may receive the next message, if nothing waits before it.
    #[must_use]
    #[inline]
    pub fn taker(&self) -> Option<ConsumerId> {
        let waits = self.index.priorities(Class::Ungrouped) != 0 || self.groups.any_free();
        match self.consumers.candidates(true) {
            Candidates { common: [id], own: [] } if !waits => Some(*id),
            _ => None,
        }
    }

    /// [`offer`](Queue::offer) and [`committed`](Queue::committed) of a plain message that need not
    /// be durable before it is available. It is available at once, or acquired at once by the
    /// [`taker`](Queue::taker) if `to` names it. `put` returns its location. `None`: the message is
    /// not plain here, and `put` was not called.
    #[inline]
    pub fn keep_plain(
        &mut self,
        now: u64,
        plain: &Plain,
        to: Option<ConsumerId>,
        put: impl FnOnce() -> RecordLocation,
    ) -> Option<Seq> {
        let fits = plain.size_bytes <= self.settings.limits.message_bytes;
        if !(self.accepts_plain && fits && self.consumers.cursors.is_empty()) {
            return None;
        }
        if self.settings.full == Full::Strict && self.excess(plain.size_bytes).is_some() {
            return None;
        }
        let mut entry = Entry::new(plain.size_bytes, plain.priority.get(), now, None, 0);
        entry.set(Mark::Durable, plain.durable);
        entry.step(Step::Commit);
        entry.place = put();
        let at = self.next;
        self.next += 1;
        self.bytes += u64::from(plain.size_bytes);
        self.stats.enqueued += 1;
        match to.and_then(|id| Some((id, self.consumers.get_mut(id)?))) {
            Some((id, consumer)) => {
                entry.step(Step::Acquire);
                entry.holder = id.0;
                consumer.outstanding += 1;
                self.index.push(at, entry);
                self.depths[State::Acquired as usize] += 1;
                self.stats.delivered += 1;
            }
            None => {
                let block = self.index.push(at, entry);
                self.index.show_in(block, at, Class::Ungrouped);
                self.depths[State::Waiting as usize] += 1;
            }
        }
        Some(Seq(at))
    }

    /// The consumer that may receive a plain message at once, without a message before it. One that
    /// accepts it at once needs no stored message: [`count_passed`](Queue::count_passed) follows.
    #[must_use]
    #[inline]
    pub fn passes_to(&self, size_bytes: u32) -> Option<ConsumerId> {
        let fits = size_bytes <= self.settings.limits.message_bytes;
        let is_plain = self.accepts_plain && self.consumers.cursors.is_empty() && !self.consumers.is_single();
        if fits && is_plain && self.is_empty() { self.taker() } else { None }
    }

    /// Counts a message that a consumer has accepted without being stored.
    #[inline]
    pub fn count_passed(&mut self) {
        self.stats.enqueued += 1;
        self.stats.delivered += 1;
        self.stats.removed[Cause::Accepted as usize] += 1;
    }

    /// [`next`](Queue::next) for the only [candidate](Queue::candidates), if it accepts any
    /// message: the message, which it now holds, and its location. `None`: there is no message, or
    /// the next one is not plain.
    #[inline]
    pub fn take_plain(&mut self, id: ConsumerId) -> Option<(Seq, RecordLocation)> {
        if self.groups.any_free() {
            return None;
        }
        let (_, at) = self.index.first(Class::Ungrouped)?;
        let entry = self.index.get_mut(at).filter(|entry| entry.is_plain())?;
        if !entry.step(Step::Acquire) {
            return None;
        }
        entry.holder = id.0;
        let place = entry.place;
        self.depths[State::Waiting as usize] -= 1;
        self.depths[State::Acquired as usize] += 1;
        self.index.hide(at);
        if let Some(consumer) = self.consumers.get_mut(id) {
            consumer.outstanding += 1;
        }
        self.stats.delivered += 1;
        Some((Seq(at), place))
    }

    /// [`settle`](Queue::settle) of a plain message that was accepted: it is removed, as by
    /// [`Effect::Remove`](super::Effect), and its location is returned. `None`: no consumer holds
    /// it, or it is not plain.
    #[inline]
    pub fn accept_plain(&mut self, seq: Seq) -> Option<RecordLocation> {
        let entry = self.index.get(seq.0).filter(|entry| entry.is_plain() && entry.state() == State::Acquired)?;
        if self.consumers.is_single() {
            return None;
        }
        let (holder, size, place) = (ConsumerId(entry.holder), entry.size, entry.place);
        self.consumers.count_held(holder, -1);
        self.index.remove(seq.0);
        self.depths[State::Acquired as usize] -= 1;
        self.bytes -= u64::from(size);
        self.stats.removed[Cause::Accepted as usize] += 1;
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Consume, ConsumerOutcome, Duplicates, Head, Next, Verdict};
    use super::*;

    const PLAIN: Plain = Plain { size_bytes: 5, priority: Priority::new(4), durable: false };

    fn place(offset: u32) -> RecordLocation {
        RecordLocation { segment: 1, offset, len: 5 }
    }

    fn keep(queue: &mut Queue, offset: u32) -> Option<Seq> {
        queue.keep_plain(1, &PLAIN, None, || place(offset))
    }

    fn with_consumer(settings: Settings) -> (Queue, ConsumerId) {
        let mut queue = Queue::new(settings, Seq(0));
        let id = queue.attach(&Consume::default()).expect("a place");
        queue.set_credit(id, true);
        (queue, id)
    }

    #[test]
    fn plain_message_is_delivered_and_accepted_as_any_other() {
        let (mut queue, id) = with_consumer(Settings::default());
        let (first, second) = (keep(&mut queue, 1), keep(&mut queue, 2));
        assert_eq!((first, second), (Some(Seq(0)), Some(Seq(1))));
        assert_eq!(queue.candidates().common, [id]);
        assert_eq!(queue.take_plain(id), Some((Seq(0), place(1))));
        let Next::Message(item) = queue.next(1, id, |_| Verdict::Yes) else { panic!("the second one") };
        assert_eq!((item.seq, item.place), (Seq(1), place(2)));
        assert_eq!((queue.stats().acquired, queue.stats().bytes), (2, 10));
        assert_eq!(queue.accept_plain(Seq(0)), Some(place(1)));
        assert_eq!(queue.accept_plain(Seq(0)), None);
        assert!(queue.settle(1, Seq(1), ConsumerOutcome::Accepted, &mut |_| {}));
        assert_eq!((queue.len(), queue.bytes(), queue.stats().removed[0]), (0, 0, 2));
    }

    #[test]
    fn sole_consumer_acquires_a_new_plain_message_at_once() {
        let (mut queue, id) = with_consumer(Settings::default());
        assert_eq!(queue.taker(), Some(id));
        let seq = queue.keep_plain(1, &PLAIN, queue.taker(), || place(1)).expect("it is plain");
        assert_eq!((queue.stats().acquired, queue.stats().delivered, queue.stats().enqueued), (1, 1, 1));
        assert_eq!((queue.candidates().is_empty(), queue.taker()), (true, Some(id)));
        assert!(queue.settle(1, seq, ConsumerOutcome::Released, &mut |_| {}));
        assert_eq!(queue.taker(), None, "an earlier message waits");
        assert_eq!(queue.take_plain(id), Some((seq, place(1))));
        assert_eq!(queue.accept_plain(seq), Some(place(1)));
        let other = queue.attach(&Consume::default()).expect("a place");
        queue.set_credit(other, true);
        assert_eq!(queue.taker(), None, "two consumers have credit");
        queue.set_credit(id, false);
        assert_eq!(queue.taker(), Some(other));
    }

    #[test]
    fn message_passes_to_a_sole_consumer_of_an_empty_queue() {
        let (mut queue, id) = with_consumer(Settings::default());
        assert_eq!(queue.passes_to(5), Some(id));
        queue.count_passed();
        let stats = queue.stats();
        assert_eq!((stats.enqueued, stats.delivered, stats.removed[Cause::Accepted as usize]), (1, 1, 1));
        let seq = keep(&mut queue, 1);
        assert_eq!(queue.passes_to(5), None, "one waits");
        assert_eq!(queue.take_plain(id).map(|(seq, _)| seq), seq);
        assert_eq!(queue.passes_to(5), None, "one is unsettled");
        assert!(queue.accept_plain(Seq(0)).is_some());
        queue.set_credit(id, false);
        assert_eq!(queue.passes_to(5), None, "there is no credit");
    }

    #[test]
    fn queue_with_bounds_or_rules_passes_no_message() {
        let limits = super::super::Limits { message_bytes: 4, ..super::super::Limits::default() };
        let ttl = Ttl { minimum_ms: None, maximum_ms: Some(1) };
        let settings = [
            Settings { limits, ..Settings::default() },
            Settings { ttl, ..Settings::default() },
            Settings { full: Full::DropOldest, ..Settings::default() },
        ];
        for settings in settings {
            assert_eq!(with_consumer(settings).0.passes_to(5), None);
        }
    }

    #[test]
    fn returned_message_is_dispatched_first() {
        let (mut queue, id) = with_consumer(Settings::default());
        (1..=2).for_each(|offset| assert!(keep(&mut queue, offset).is_some()));
        assert_eq!(queue.take_plain(id), Some((Seq(0), place(1))));
        assert!(queue.settle(1, Seq(0), ConsumerOutcome::Released, &mut |_| {}));
        assert_eq!(queue.take_plain(id), Some((Seq(0), place(1))));
        // The next consumer must learn of the failed delivery, so the message is not plain.
        let failed = ConsumerOutcome::Modified { failed: true, undeliverable_here: false };
        assert!(queue.settle(1, Seq(0), failed, &mut |_| {}));
        assert_eq!(queue.take_plain(id), None);
        assert_eq!(queue.stats().ready, 2);
    }

    #[test]
    fn plain_path_refuses_queues_that_need_full_admission() {
        let bounded = Settings::default().limits;
        let others = [
            Settings { full: Full::DropOldest, ..Settings::default() },
            Settings { full: Full::Reject, ..Settings::default() },
            Settings { last_value: true, ..Settings::default() },
            Settings { ttl: Ttl { minimum_ms: None, maximum_ms: Some(5) }, ..Settings::default() },
            Settings { duplicates: Some(Duplicates { ids: 3, window_ms: 0 }), ..Settings::default() },
            Settings { limits: super::super::Limits { message_bytes: 4, ..bounded }, ..Settings::default() },
        ];
        for settings in others {
            let mut queue = Queue::new(settings, Seq(0));
            assert_eq!(queue.keep_plain(1, &PLAIN, None, || panic!("nothing is stored")), None);
            assert_eq!((queue.len(), queue.next_seq()), (0, Seq(0)));
        }
        let (mut queue, _) = with_consumer(Settings::default());
        let browser = Consume { browses: true, ..Consume::default() };
        queue.attach(&browser).expect("a place");
        assert_eq!(queue.keep_plain(1, &PLAIN, None, || panic!("the browser must be notified")), None);
    }

    #[test]
    fn strict_queue_exceeds_its_bounds_only_for_a_single_message() {
        let limits = super::super::Limits { messages: 3, bytes: 10, ..Settings::default().limits };
        let settings = Settings { full: Full::Strict, limits, ..Settings::default() };
        let head = |size_bytes| Head { size_bytes, ..Head::default() };
        let mut queue = Queue::new(settings, Seq(0));
        assert_eq!(queue.room(0), 0, "sizes are unknown at first, and 1 KiB does not fit");
        assert_eq!(queue.refusal(&head(11)), None);
        assert!(queue.keep_plain(1, &Plain { size_bytes: 11, ..PLAIN }, None, || place(1)).is_some());
        assert_eq!((keep(&mut queue, 2), queue.refusal(&head(1)).is_some()), (None, true));
        queue.take_out(0);
        assert!(keep(&mut queue, 3).is_some() && keep(&mut queue, 4).is_some());
        assert_eq!((queue.room(0), keep(&mut queue, 5)), (0, None));
        let small = super::super::Admission::Refuse(super::super::Refusal::Messages(3));
        assert!(queue.keep_plain(1, &Plain { size_bytes: 0, ..PLAIN }, None, || place(6)).is_some());
        assert_eq!(queue.offer(1, &head(0)), small);
    }

    #[test]
    fn message_that_is_not_plain_is_left_to_the_full_path() {
        let (mut queue, id) = with_consumer(Settings::default());
        let head = Head { size_bytes: 5, ttl_ms: Some(9), ..Head::default() };
        let super::super::Admission::Store(stored) = queue.offer(1, &head) else { panic!("a place") };
        queue.committed(stored.seq, place(1), &mut |_| {});
        assert!(keep(&mut queue, 2).is_some());
        assert_eq!(queue.take_plain(id), None, "the message with a TTL is first");
        assert!(matches!(queue.next(1, id, |_| Verdict::Yes), Next::Message(_)));
        assert_eq!(queue.accept_plain(stored.seq), None);
        assert_eq!(queue.take_plain(id), Some((Seq(1), place(2))));
        assert!(queue.retire(Seq(1)));
        assert_eq!(queue.accept_plain(Seq(1)), None, "a transaction holds it");
    }
}
