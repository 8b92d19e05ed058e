//! A queue with its clock and its effects, in few words.

use enmasse_journal::queue::{
    Admission, Cause, Consume, ConsumerId, ConsumerOutcome, Effect, Head, Item, Next, Priority, Queue, RecordLocation,
    Seq, Settings, Stored, Target, Verdict,
};

/// A queue, a clock, and the effects of the queue.
pub(crate) struct World {
    pub(crate) queue: Queue,
    pub(crate) now: u64,
    pub(crate) effects: Vec<Effect>,
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { queue: Queue::new(settings, Seq(0)), now: 1_000_000, effects: Vec::new() }
    }

    /// Offers a message that must be stored.
    pub(crate) fn store(&mut self, head: &Head) -> Stored {
        match self.queue.offer(self.now, head) {
            Admission::Store(stored) => stored,
            other => panic!("not stored: {other:?}"),
        }
    }

    pub(crate) fn commit(&mut self, seq: Seq) {
        let place = RecordLocation { segment: 1, offset: seq.0 as u32, len: 100 };
        assert!(self.queue.committed(seq, place, &mut |effect| self.effects.push(effect)));
    }

    /// Offers and commits.
    pub(crate) fn put(&mut self, head: &Head) -> Seq {
        let seq = self.store(head).seq;
        self.commit(seq);
        seq
    }

    /// Plain messages.
    pub(crate) fn fill(&mut self, count: u64) -> Vec<Seq> {
        (0..count).map(|_| self.put(&plain())).collect()
    }

    /// A consumer with credit.
    pub(crate) fn consumer(&mut self, consume: Consume) -> ConsumerId {
        let id = self.queue.attach(&consume).expect("room for a consumer");
        self.queue.set_credit(id, true);
        id
    }

    pub(crate) fn next(&mut self, id: ConsumerId) -> Option<Item> {
        self.next_if(id, |_| true)
    }

    /// Asks until there is an answer.
    pub(crate) fn next_if(&mut self, id: ConsumerId, accepts: impl Fn(&Item) -> bool) -> Option<Item> {
        loop {
            match self.queue.next(self.now, id, |item| if accepts(item) { Verdict::Yes } else { Verdict::No }) {
                Next::Message(item) => return Some(item),
                Next::Nothing => return None,
                Next::Later => {}
                Next::Unread(_) => panic!("the selector always knows"),
            }
        }
    }

    pub(crate) fn take(&mut self, id: ConsumerId) -> Option<u64> {
        self.next(id).map(|item| item.seq.0)
    }

    pub(crate) fn take_all(&mut self, id: ConsumerId) -> Vec<u64> {
        std::iter::from_fn(|| self.take(id)).collect()
    }

    pub(crate) fn settle(&mut self, seq: u64, outcome: ConsumerOutcome) {
        assert!(self.queue.settle(self.now, Seq(seq), outcome, &mut |effect| self.effects.push(effect)));
    }

    /// Time passes, and the due work is done.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.now += ms;
        while self.queue.next_timeout().is_some_and(|at| at <= self.now) {
            self.queue.timeout(self.now, &mut |effect| self.effects.push(effect));
        }
    }

    /// The messages that left since the last call, by number.
    pub(crate) fn removed(&mut self, cause: Cause) -> Vec<u64> {
        let went = |effect: &Effect| match effect {
            Effect::Remove { item, cause: why } if *why == cause => Some(item.seq.0),
            _ => None,
        };
        let found = self.effects.iter().filter_map(went).collect();
        self.effects.retain(|effect| went(effect).is_none());
        found
    }

    /// The messages to move elsewhere since the last call, by number.
    pub(crate) fn diverted(&mut self, target: Target, cause: Cause) -> Vec<u64> {
        let went = |effect: &Effect| match effect {
            Effect::Divert { item, to, cause: why } if (*to, *why) == (target, cause) => Some(item.seq.0),
            _ => None,
        };
        let found = self.effects.iter().filter_map(went).collect();
        self.effects.retain(|effect| went(effect).is_none());
        found
    }
}

/// 100 bytes, nothing special.
pub(crate) fn plain() -> Head {
    Head { size_bytes: 100, durable: true, ..Head::default() }
}

pub(crate) fn of_priority(priority: u8) -> Head {
    Head { priority: Priority::new(priority), ..plain() }
}

pub(crate) const FAILED: ConsumerOutcome = ConsumerOutcome::Modified { failed: true, undeliverable_here: false };
pub(crate) const NOT_HERE: ConsumerOutcome = ConsumerOutcome::Modified { failed: false, undeliverable_here: true };
