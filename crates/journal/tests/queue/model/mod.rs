//! The queue against a naive model: the same commands give the same answers.
//!
//! The order in which several consumers are served is not prescribed. So the test checks that each
//! dispatched message is the first that its consumer may have, and that no consumer of a higher
//! priority wants one. When the queue dispatches nothing, the model must not find a message for any
//! consumer. That is the absence of starvation.

mod naive;
mod seen;

use enmasse_journal::queue::{
    Admission, Candidates, Cause, Consume, ConsumerId, ConsumerOutcome, Duplicates, Effect, Full, Group, Grouping,
    Head, Limits, Next, Operation, Plain, Priority, Queue, Record, RecordLocation, Redelivery, Restored, Seq, Settings,
    Sharing, Slice, State, Ttl, Verdict,
};
use proptest::prelude::*;

use naive::{Naive, Reported, wants};
use seen::Memory;

#[derive(Clone, Debug)]
enum Command {
    Offer(Head),
    Keep(Plain, bool),
    Commit(usize),
    Withdraw(usize),
    Attach(Consume),
    Detach(usize, bool),
    Credit(usize, bool),
    Next(usize),
    Deliver(usize),
    Hand(usize),
    Settle(usize, ConsumerOutcome),
    Retire(usize),
    Unretire(usize),
    Left(usize),
    Stay(usize),
    Pass(u64),
    PassLate(u64),
    Administer(bool, u64),
    Restart,
}

struct Pair {
    queue: Queue,
    naive: Naive,
    memory: Memory,
    ids: Vec<ConsumerId>,
    now: u64,
    effects: Vec<Effect>,
}

fn pick<T: Copy>(from: &[T], choice: usize) -> Option<T> {
    (!from.is_empty()).then(|| from[choice % from.len()])
}

fn accepts(key: u64) -> impl Fn(&enmasse_journal::queue::Item) -> Verdict {
    move |item| if wants(key, item.id.0) { Verdict::Yes } else { Verdict::No }
}

impl Pair {
    fn new(settings: &Settings) -> Self {
        Self {
            queue: Queue::new(settings.clone(), Seq(0)),
            naive: Naive::new(settings.clone()),
            memory: Memory::new(settings.duplicates),
            ids: Vec::new(),
            now: 1_000,
            effects: Vec::new(),
        }
    }

    fn run(&mut self, command: &Command) {
        // Expiry matters only to operations that could dispatch an expired message. The position of
        // a browser depends on what expired before it.
        let browsers = self.naive.consumers.iter().any(|one| one.attached && one.consume.browses);
        if browsers
            || !matches!(command, Command::Next(_) | Command::Deliver(_) | Command::Hand(_) | Command::Settle(..))
        {
            self.timeout();
        }
        match *command {
            Command::Offer(head) => self.offer(&head),
            Command::Keep(plain, at_once) => self.keep(plain, at_once),
            Command::Commit(choice) => {
                let Some(seq) = pick(&self.naive.in_state(State::Offered), choice) else { return };
                self.naive.commit(seq);
                self.memory.committed(seq);
                let place = RecordLocation { segment: 1, offset: seq as u32, len: 1 };
                assert!(self.queue.committed(Seq(seq), place, &mut |effect| self.effects.push(effect)));
            }
            Command::Withdraw(choice) => {
                let Some(seq) = pick(&self.naive.in_state(State::Offered), choice) else { return };
                self.naive.forget(seq);
                self.memory.withdrawn(seq);
                assert!(self.queue.withdraw(Seq(seq)));
            }
            Command::Attach(consume) => {
                let Ok(id) = self.queue.attach(&consume) else { return };
                self.ids.push(id);
                self.naive.attach(consume);
            }
            Command::Detach(choice, late) => self.detach(choice, late),
            Command::Credit(choice, credit) => {
                let Some(consumer) = self.attached(choice) else { return };
                self.queue.set_credit(self.ids[consumer], credit);
                self.naive.consumers[consumer].credit = credit;
            }
            Command::Next(choice) => {
                if let Some(consumer) = self.attached(choice) {
                    self.next(consumer, false);
                }
            }
            Command::Deliver(choice) => self.deliver(choice),
            Command::Hand(choice) => self.hand(choice),
            Command::Pass(ms) => {
                self.now += ms;
                self.timeout();
            }
            Command::PassLate(ms) => self.now += ms,
            _ => self.run_on_message(command),
        }
    }

    fn run_on_message(&mut self, command: &Command) {
        let held = [State::Acquired, State::Retiring].map(|state| self.naive.in_state(state));
        match *command {
            Command::Settle(choice, outcome) => {
                if let Some(seq) = pick(&held.concat(), choice) {
                    self.settle(seq, outcome);
                }
            }
            Command::Retire(choice) => {
                let Some(seq) = pick(&held[0], choice) else { return };
                assert!(self.queue.retire(Seq(seq)));
                self.naive.get(seq).expect("held").state = State::Retiring;
            }
            Command::Unretire(choice) => {
                let Some(seq) = pick(&held[1], choice) else { return };
                assert!(self.queue.unretire(Seq(seq)));
                self.naive.get(seq).expect("held").state = State::Acquired;
            }
            Command::Left(choice) => {
                let Some(seq) = pick(&self.naive.in_state(State::Leaving), choice) else { return };
                self.naive.forget(seq);
                assert!(self.queue.left(Seq(seq)).is_some());
            }
            Command::Stay(choice) => {
                let Some(seq) = pick(&self.naive.in_state(State::Leaving), choice) else { return };
                self.naive.stay(seq);
                assert!(self.queue.stay(Seq(seq)));
            }
            Command::Administer(moves, rest) => self.administer(moves, rest),
            Command::Restart => self.restart(),
            _ => {}
        }
    }

    fn offer(&mut self, head: &Head) {
        let answer = self.queue.offer(self.now, head);
        if head.size_bytes > self.naive.settings.limits.message_bytes {
            assert!(matches!(answer, Admission::Refuse(_)), "{answer:?}");
        } else if self.memory.knows(self.now, head) {
            assert!(matches!(answer, Admission::Duplicate { .. }), "{answer:?}");
        } else if self.naive.is_full(head) {
            assert!(matches!(answer, Admission::Refuse(_)), "{answer:?}");
        } else {
            let Admission::Store(stored) = answer else { panic!("{answer:?}") };
            assert_eq!(stored.seq.0, self.naive.next);
            let encoded = stored.record.encode();
            assert_eq!(Record::decode(&encoded[..stored.record.encoded_len()]), Some(stored.record));
            self.naive.offered(stored.record);
            self.memory.offered(self.now, stored.seq.0, head, &stored.markers);
        }
    }

    /// A plain message arrives, by the fast path if possible, and with `at_once` goes to the
    /// consumer that would get it.
    fn keep(&mut self, plain: Plain, at_once: bool) {
        let (now, at) = (self.now, self.naive.next);
        let Plain { size_bytes, priority, durable } = plain;
        let place = RecordLocation { segment: 1, offset: at as u32, len: 1 };
        let to = self.queue.taker().filter(|_| at_once);
        match self.queue.keep_plain(now, &plain, to, || place) {
            Some(seq) => {
                assert_eq!(seq.0, at);
                assert!(
                    size_bytes <= self.naive.settings.limits.message_bytes && self.naive.settings.ttl == Ttl::default()
                );
                self.naive.offered(Record { size_bytes, priority, durable, enqueued: now, ..Record::default() });
                self.naive.commit(at);
                let Some(consumer) = to.and_then(|to| self.ids.iter().rposition(|other| *other == to)) else { return };
                let best = self.naive.best(now, consumer).filter(|_| self.naive.is_let(consumer));
                assert_eq!(best, Some(at), "it is the next one of {consumer}");
                assert!(self.preferred(consumer).is_empty(), "others come before {consumer}");
                self.naive.give(consumer, best);
            }
            None => self.offer(&Head { size_bytes, priority, durable, ..Head::default() }),
        }
    }

    /// Dispatches one message by the fast path, if possible.
    fn hand(&mut self, choice: usize) {
        let Candidates { common: [id], own: [] } = self.queue.candidates() else { return self.deliver(choice) };
        let id = *id;
        let consumer = self.ids.iter().rposition(|other| *other == id).expect("attached");
        let best = self.naive.best(self.now, consumer).filter(|_| self.naive.is_let(consumer));
        match self.queue.take_plain(id) {
            Some((seq, _)) => {
                assert_eq!(Some(seq.0), best, "the first that {consumer} may have");
                assert!(self.preferred(consumer).is_empty(), "others come before {consumer}");
                self.naive.give(consumer, best);
            }
            None => self.deliver(choice),
        }
    }

    fn attached(&self, choice: usize) -> Option<usize> {
        let attached: Vec<usize> = (0..self.ids.len()).filter(|at| self.naive.consumers[*at].attached).collect();
        pick(&attached, choice)
    }

    fn detach(&mut self, choice: usize, late: bool) {
        let Some(consumer) = self.attached(choice) else { return };
        if !late {
            for seq in self.naive.held_by(consumer) {
                self.settle(seq, ConsumerOutcome::Modified { failed: true, undeliverable_here: false });
            }
        }
        self.naive.detach(consumer);
        self.queue.detach(self.ids[consumer]);
    }

    /// Requests a message for one consumer. `Nothing` is right if none is available or if other
    /// consumers come first.
    fn next(&mut self, consumer: usize, is_candidate: bool) -> bool {
        let key = self.naive.consumers[consumer].consume.key;
        let best = self.naive.best(self.now, consumer).filter(|_| self.naive.is_let(consumer));
        loop {
            match self.queue.next(self.now, self.ids[consumer], accepts(key)) {
                Next::Message(item) => {
                    assert_eq!(Some(item.seq.0), best, "the first that {consumer} may have");
                    assert!(self.preferred(consumer).is_empty(), "others come before {consumer}");
                    let known = self.naive.get(item.seq.0).expect("known");
                    assert_eq!(
                        (item.id.0, item.failures, item.priority),
                        (known.id, known.record.failures, known.record.priority)
                    );
                    self.naive.give(consumer, best);
                    return true;
                }
                Next::Nothing => {
                    let outranked = is_candidate || self.outranked(consumer);
                    assert!(best.is_none() || outranked && !is_candidate, "{best:?} for {consumer} was not given");
                    if !self.outranked(consumer) {
                        self.naive.give(consumer, None);
                    }
                    return false;
                }
                Next::Later => {}
                Next::Unread(_) => panic!("the selector always knows"),
            }
        }
    }

    /// Consumers of a higher priority that have credit and an available message.
    fn preferred(&self, consumer: usize) -> Vec<usize> {
        let one = &self.naive.consumers[consumer].consume;
        let first = |at: &usize| {
            let other = &self.naive.consumers[*at];
            other.credit
                && !other.consume.browses
                && other.consume.priority > one.priority
                && self.naive.is_let(*at)
                && self.naive.best(self.now, *at).is_some()
        };
        if one.browses { Vec::new() } else { (0..self.ids.len()).filter(first).collect() }
    }

    fn outranked(&self, consumer: usize) -> bool {
        let one = &self.naive.consumers[consumer].consume;
        let before = |other: &naive::Consumer| other.credit && other.consume.priority > one.priority;
        !one.browses && self.naive.consumers.iter().any(before)
    }

    /// Dispatches one message as the router does. If none is found, no consumer can receive one.
    fn deliver(&mut self, choice: usize) {
        for round in 0.. {
            assert!(round < 10_000, "the queue names candidates without end");
            let candidates = self.queue.candidates();
            let all: Vec<ConsumerId> = candidates.common.iter().chain(candidates.own).copied().collect();
            let Some(id) = pick(&all, choice.wrapping_add(round)) else { break };
            let consumer = self.ids.iter().rposition(|other| *other == id).expect("attached");
            assert!(self.naive.consumers[consumer].credit);
            if self.next(consumer, true) {
                return;
            }
        }
        for consumer in 0..self.ids.len() {
            let one = &self.naive.consumers[consumer];
            if one.credit && self.naive.is_let(consumer) {
                assert_eq!(self.naive.best(self.now, consumer), None, "{consumer} starves");
            }
        }
    }

    fn settle(&mut self, seq: u64, outcome: ConsumerOutcome) {
        self.naive.settle(self.now, seq, outcome);
        let item = self.queue.get(Seq(seq)).filter(|_| outcome == ConsumerOutcome::Accepted);
        if let Some(item) = item
            && let Some(place) = self.queue.accept_plain(Seq(seq))
        {
            assert_eq!(place, item.place);
            return self.effects.push(Effect::Remove { item, cause: Cause::Accepted });
        }
        assert!(self.queue.settle(self.now, Seq(seq), outcome, &mut |effect| self.effects.push(effect)));
    }

    fn timeout(&mut self) {
        self.naive.timeout(self.now);
        let mut rounds = 0;
        while self.queue.next_timeout().is_some_and(|at| at <= self.now) {
            self.queue.timeout(self.now, &mut |effect| self.effects.push(effect));
            rounds += 1;
            assert!(rounds < 1000, "time does not pass");
        }
    }

    fn administer(&mut self, moves: bool, rest: u64) {
        let operation = if moves { Operation::Move } else { Operation::Purge };
        let mut slice = Slice { operation, from: Seq(0), until: self.queue.next_seq(), share: 3 };
        let matches = |id: u64| id % 4 == rest;
        self.naive.administer(moves, matches);
        loop {
            let verdict =
                |item: &enmasse_journal::queue::Item| if matches(item.id.0) { Verdict::Yes } else { Verdict::No };
            let progress = self.queue.administer(slice, verdict, &mut |effect| self.effects.push(effect));
            let Some(next) = progress.next else { return };
            slice.from = next;
        }
    }

    fn restart(&mut self) {
        let next = self.queue.next_seq();
        self.naive.messages.sort_by_key(|message| message.id);
        let kept = self.naive.messages.iter().filter(|message| message.state != State::Offered);
        let entries: Vec<Restored> = kept
            .map(|message| Restored {
                id: Seq(message.id),
                place: RecordLocation { segment: 0, offset: 0, len: 0 },
                record: message.record,
            })
            .collect();
        self.naive.restart();
        let markers = self.memory.restart();
        let settings = self.naive.settings.clone();
        let restored = Queue::restore(settings, next, entries, markers, &mut |effect| self.effects.push(effect));
        self.queue = restored.expect("in order");
        self.timeout();
    }

    fn compare(&mut self) {
        let mut reported: Vec<Reported> = self.effects.drain(..).map(reported).collect();
        let mut expected = std::mem::take(&mut self.naive.reported);
        reported.sort_unstable();
        expected.sort_unstable();
        assert_eq!(reported, expected);
        let stats = self.queue.stats();
        let count = |states: &[State]| states.iter().map(|state| self.naive.in_state(*state).len() as u64).sum::<u64>();
        assert_eq!(stats.ready + stats.leaving, count(&[State::Waiting, State::Leaving]));
        assert_eq!(stats.scheduled, count(&[State::Scheduled, State::Delayed]));
        assert_eq!(stats.acquired, count(&[State::Acquired, State::Retiring]));
        assert_eq!(stats.uncommitted, count(&[State::Offered]));
        assert_eq!(stats.bytes, self.naive.bytes());
        assert_eq!((stats.removed, stats.diverted), (self.naive.removed, self.naive.diverted));
        assert_eq!(self.queue.len(), self.naive.messages.len());
        assert_eq!(self.queue.next_seq().0, self.naive.next);
    }
}

fn reported(effect: Effect) -> Reported {
    match effect {
        Effect::Remove { item, cause } => Reported::Removed(item.id.0, cause as u8),
        Effect::Divert { item, to, cause } => Reported::Diverted(item.id.0, to as u8, cause as u8),
        Effect::Retry { item, due } => Reported::Retried(item.id.0, item.failures, due),
    }
}

fn heads() -> impl Strategy<Value = Head> {
    let times = (prop::option::weighted(0.2, 1..60_u64), prop::option::weighted(0.15, 1000..1300_u64));
    let group = prop::option::weighted(0.5, (0..4_u64, prop_oneof![9 => Just(1), 1 => Just(Group::CLOSE)]));
    let marks = (
        prop::option::weighted(0.5, 0..3_u128),
        prop::option::weighted(0.3, 0..8_u128),
        prop::option::weighted(0.2, (0..2_u128, 0..12_u64)),
    );
    let priority = prop_oneof![3 => Just(4), 1 => 0..12_u8];
    (priority, 1..40_u32, times, group, marks).prop_map(|(priority, size_bytes, (ttl_ms, due), group, marks)| Head {
        size_bytes,
        priority: Priority::new(priority),
        ttl_ms,
        due,
        group: group.map(|(digest, sequence)| Group { digest, sequence }),
        key: marks.0,
        message_id: marks.1,
        producer: marks.2,
        ..Head::default()
    })
}

fn plain() -> impl Strategy<Value = Plain> {
    let priority = prop_oneof![3 => Just(4), 1 => 0..12_u8];
    (1..40_u32, priority, any::<bool>()).prop_map(|(size_bytes, priority, durable)| Plain {
        size_bytes,
        priority: Priority::new(priority),
        durable,
    })
}

fn consumers() -> impl Strategy<Value = Consume> {
    let flags = (prop::bool::weighted(0.4), prop::bool::weighted(0.15), prop::bool::weighted(0.03));
    (0..4_u64, 0..3_i32, flags).prop_map(|(key, priority, (selects, browses, exclusive))| Consume {
        key,
        name: key,
        priority: priority.saturating_sub(1),
        selects,
        browses,
        exclusive,
    })
}

fn outcomes() -> impl Strategy<Value = ConsumerOutcome> {
    prop_oneof![
        3 => Just(ConsumerOutcome::Accepted),
        2 => Just(ConsumerOutcome::Released),
        1 => Just(ConsumerOutcome::Rejected),
        3 => (any::<bool>(), prop::bool::weighted(0.3))
            .prop_map(|(failed, undeliverable_here)| ConsumerOutcome::Modified { failed, undeliverable_here }),
    ]
}

fn commands() -> impl Strategy<Value = Command> {
    let at = || 0..64_usize;
    prop_oneof![
        12 => heads().prop_map(Command::Offer),
        8 => (plain(), any::<bool>()).prop_map(|(plain, at_once)| Command::Keep(plain, at_once)),
        12 => at().prop_map(Command::Commit),
        1 => at().prop_map(Command::Withdraw),
        3 => consumers().prop_map(Command::Attach),
        1 => (at(), any::<bool>()).prop_map(|(at, late)| Command::Detach(at, late)),
        4 => (at(), prop::bool::weighted(0.75)).prop_map(|(at, credit)| Command::Credit(at, credit)),
        5 => at().prop_map(Command::Next),
        12 => at().prop_map(Command::Deliver),
        8 => at().prop_map(Command::Hand),
        9 => (at(), outcomes()).prop_map(|(at, outcome)| Command::Settle(at, outcome)),
        1 => at().prop_map(Command::Retire),
        1 => at().prop_map(Command::Unretire),
        2 => at().prop_map(Command::Left),
        1 => at().prop_map(Command::Stay),
        2 => (0..40_u64).prop_map(Command::Pass),
        2 => (0..40_u64).prop_map(Command::PassLate),
        1 => (any::<bool>(), 0..4_u64).prop_map(|(moves, rest)| Command::Administer(moves, rest)),
        1 => Just(Command::Restart),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    let limits = (prop_oneof![2 => Just(u64::MAX), 1 => 1..12_u64], prop_oneof![3 => Just(u64::MAX), 1 => 40..300_u64]);
    let full = prop_oneof![Just(Full::Block), Just(Full::Reject), Just(Full::DropOldest)];
    let ttl = (prop::option::weighted(0.2, 1..30_u64), prop::option::weighted(0.2, 20..80_u64));
    let redelivery = (0..4_u16, prop_oneof![1 => Just(0), 1 => 1..20_u64]);
    let flags =
        (prop::bool::weighted(0.2), any::<bool>(), any::<bool>(), prop::bool::weighted(0.3), prop::bool::weighted(0.2));
    let grouping = prop_oneof![Just(Grouping::Off), Just(Grouping::Sticky), Just(Grouping::PerKey)];
    let duplicates = prop::option::weighted(0.4, (1..5_u32, prop_oneof![Just(0), 5..60_u64]));
    (limits, full, ttl, redelivery, flags, grouping, duplicates).prop_map(
        |((messages, bytes), full, ttl, (attempts_max, delay_ms), flags, grouping, duplicates)| Settings {
            limits: Limits { messages, bytes, message_bytes: 38, consumers: 6, ..Limits::default() },
            full,
            last_value: flags.0,
            ttl: Ttl { minimum_ms: ttl.0, maximum_ms: ttl.1 },
            redelivery: Redelivery { attempts_max, delay_ms, multiplier: 2.0, delay_max_ms: 50 },
            dead_letter: flags.1,
            expiry: flags.2,
            reject_is_failure: flags.3,
            sharing: if flags.4 { Sharing::SingleActive } else { Sharing::Competing },
            grouping,
            duplicates: duplicates.map(|(ids, window_ms)| Duplicates { ids, window_ms }),
        },
    )
}

/// Thousands of cases; more by `PROPTEST_CASES`.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.max(3000), max_shrink_iters: 20_000, failure_persistence: None, ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn queue_behaves_like_the_naive_model(settings in settings(), commands in prop::collection::vec(commands(), 1..200)) {
        let mut pair = Pair::new(&settings);
        for command in &commands {
            pair.run(command);
            pair.compare();
        }
    }
}
