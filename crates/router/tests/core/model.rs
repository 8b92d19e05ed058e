//! Random calls against a model of the router's surroundings: the knowledge of its links, producers
//! and consumers.
//!
//! The model holds every message by the text of its first part and checks each notification of the
//! router: no transfer beyond credit, parts in order and complete, one outcome for each unsettled
//! delivery, equal to that of its consumers, and none to attachments that left. At the end
//! every link gets credit and room, and no message may remain.

use std::collections::{HashMap, HashSet, VecDeque};

use enmasse_amqp::types::{Error, Outcome, condition};
use enmasse_router::core::{
    AddressKey, AddressKind, Arrival, AttachmentId, AttachmentRole, Consuming, Declared, Delivery, Filter, Handover,
    Links, Replacement, Router, ToLink,
};
use proptest::prelude::*;

use crate::bench::{modified, rejected};

const CAPACITY: u32 = 6;
const NAMES: [&str; 2] = ["x", "y"];

#[derive(Clone, Debug)]
enum Op {
    Producer { name: u8, anonymous: bool },
    Consumer { filter: Option<u8>, remote: bool },
    ProducerLeaves(u8),
    ConsumerLeaves(u8),
    Credit { at: u8, credit: u8, drain: bool },
    Room { at: u8, room: bool },
    Send { at: u8, settled: bool, more: bool },
    Part { at: u8, last: bool },
    Abort(u8),
    Answer { at: u8, which: u8, outcome: u8 },
    Wire { at: u8, count: u8, refuse: bool },
    Turn,
    Retire,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let at = || any::<u8>();
    let flag = |odds| prop::bool::weighted(odds);
    let op = prop_oneof![
        3 => (0..3u8, flag(0.2)).prop_map(|(name, anonymous)| Op::Producer { name, anonymous }),
        4 => (prop::option::weighted(0.3, 0..2u8), flag(0.3)).prop_map(|(filter, remote)| Op::Consumer { filter, remote }),
        1 => at().prop_map(Op::ProducerLeaves),
        2 => at().prop_map(Op::ConsumerLeaves),
        12 => (at(), 0..6u8, flag(0.1)).prop_map(|(at, credit, drain)| Op::Credit { at, credit, drain }),
        4 => (at(), flag(0.7)).prop_map(|(at, room)| Op::Room { at, room }),
        24 => (at(), flag(0.4), flag(0.2)).prop_map(|(at, settled, more)| Op::Send { at, settled, more }),
        8 => (at(), flag(0.4)).prop_map(|(at, last)| Op::Part { at, last }),
        1 => at().prop_map(Op::Abort),
        12 => (at(), at(), 0..5u8).prop_map(|(at, which, outcome)| Op::Answer { at, which, outcome }),
        8 => (at(), 1..5u8, flag(0.3)).prop_map(|(at, count, refuse)| Op::Wire { at, count, refuse }),
        4 => Just(Op::Turn),
    ];
    let retire = prop_oneof![200 => op, 1 => Just(Op::Retire)];
    prop::collection::vec(retire, 0..300)
}

/// One message as its producer knows it.
#[derive(Debug)]
struct Message {
    producer: AttachmentId,
    delivery_id: u32,
    settled: bool,
    parts: u32,
    complete: bool,
    aborted: bool,
    outcome: Option<Outcome>,
    /// the outcomes that consumers gave their copies
    answers: Vec<Outcome>,
    /// the address was deleted, or a refused part cut it short: its outcome need not be a
    /// consumer's
    cut: bool,
}

#[derive(Debug)]
struct Producer {
    attachment: AttachmentId,
    anonymous: bool,
    name: Option<&'static str>,
    next: u32,
    received: u32,
    taken: u32,
    /// the message of which more parts will follow
    sending: Option<usize>,
}

/// A consumer's link. One of another shard learns of deliveries only when the wire is read.
#[derive(Debug)]
struct Consumer {
    attachment: AttachmentId,
    remote: bool,
    filter: Option<&'static str>,
    room: bool,
    limit: u32,
    dispatched: u32,
    /// as counted by its home
    dispatched_at_home: u32,
    draining: bool,
    /// the partially received message, and the number of its parts so far
    reading: Option<(usize, u32)>,
    /// it refuses every delivery until its home has halted
    refusing: bool,
    held: Vec<(usize, u64)>,
    wire: VecDeque<Wire>,
    last_begun: HashMap<AttachmentId, usize>,
}

/// Commands on their way to a consumer's shard.
#[derive(Debug)]
enum Wire {
    Delivery(Wired),
    Halted,
}

#[derive(Clone, Debug)]
struct Wired {
    token: Option<u64>,
    first: bool,
    more: bool,
    aborted: bool,
    payload: Vec<u8>,
}

impl Wired {
    fn delivery(&self) -> Delivery<'_> {
        let Self { token, first, more, aborted, ref payload } = *self;
        Delivery { token, message_format: 0, first, more, aborted, payload, shared: None }
    }
}

#[derive(Default)]
struct World {
    multicast: bool,
    /// an order is promised only while nothing is refused
    ordered: bool,
    retired: bool,
    messages: Vec<Message>,
    producers: Vec<Producer>,
    consumers: Vec<Consumer>,
    /// links that the router must not notify any more
    gone: Vec<AttachmentId>,
    attached: HashSet<AttachmentId>,
}

/// The message and the number of each part in a payload like `[3.0][3.1]`.
fn parts_of(payload: &[u8]) -> Vec<(usize, u32)> {
    let text = std::str::from_utf8(payload).expect("text");
    let parts = text.split_terminator(']').map(|part| part.trim_start_matches('['));
    parts.filter_map(|part| part.split_once('.')).map(|(m, n)| (m.parse().unwrap(), n.parse().unwrap())).collect()
}

const fn weight(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Rejected(_) => 3,
        Outcome::Accepted => 2,
        Outcome::Modified(_) => 1,
        Outcome::Released => 0,
    }
}

impl World {
    fn consumer(&mut self, attachment: AttachmentId) -> &mut Consumer {
        self.consumers
            .iter_mut()
            .find(|consumer| consumer.attachment == attachment)
            .expect("a consumer that is attached")
    }

    fn producer(&mut self, attachment: AttachmentId) -> Option<&mut Producer> {
        assert!(!self.gone.contains(&attachment), "{attachment:?} has left");
        self.producers.iter_mut().find(|producer| producer.attachment == attachment)
    }

    /// A part has reached the consumer's link.
    fn reach(&mut self, attachment: AttachmentId, delivery: &Delivery<'_>) {
        let multicast = self.multicast;
        let ordered = self.ordered;
        let parts = parts_of(delivery.payload);
        if delivery.aborted {
            let consumer = self.consumer(attachment);
            let reading = consumer.reading.take();
            assert!(reading.is_some() || consumer.remote, "only a partial delivery is aborted");
            consumer.held.retain(|held| Some(held.0) != reading.map(|reading| reading.0));
            return;
        }
        let mut read = if delivery.first {
            let message = parts.first().expect("a first part names its message").0;
            let from = self.messages[message].producer;
            let settled = self.messages[message].settled;
            let name =
                self.producers.iter().find(|producer| producer.attachment == from).and_then(|producer| producer.name);
            let consumer = self.consumer(attachment);
            assert!(consumer.reading.is_none(), "one at a time");
            assert!(consumer.limit.wrapping_sub(consumer.dispatched).cast_signed() > 0, "no transfer beyond credit");
            if let (true, Some(filter), Some(name)) = (multicast, consumer.filter, name) {
                assert_eq!(name, filter, "only messages that pass its filter");
            }
            assert_eq!(delivery.token.is_none(), settled);
            consumer.dispatched = consumer.dispatched.wrapping_add(1);
            if let Some(token) = delivery.token {
                consumer.held.push((message, token));
            }
            let last = consumer.last_begun.insert(from, message);
            assert!(!(ordered || multicast) || last.is_none_or(|last| last < message), "{last:?} before {message}");
            (message, 0)
        } else {
            self.consumer(attachment).reading.expect("a later part follows a first one")
        };
        for part in parts {
            assert_eq!(part, read, "parts in order");
            read.1 += 1;
        }
        let (message, count) = read;
        let remote = self.consumer(attachment).remote;
        assert!(remote || !self.messages[message].aborted);
        if !delivery.more {
            assert!(self.messages[message].complete && self.messages[message].parts == count, "all parts");
        }
        self.consumer(attachment).reading = delivery.more.then_some(read);
    }
}

impl World {
    fn settle(&mut self, attachment: AttachmentId, delivery_id: u32, outcome: &Outcome) {
        assert!(self.producer(attachment).is_some());
        let multicast = self.multicast;
        let mut mine = self.messages.iter_mut().filter(|message| message.producer == attachment);
        let message = mine.find(|message| message.delivery_id == delivery_id).expect("a delivery it sent");
        assert!(!message.settled && !message.aborted && message.outcome.is_none(), "one outcome: {message:?}");
        if !message.cut {
            let best = message.answers.iter().max_by_key(|answer| weight(answer));
            let expected = if multicast { best } else { message.answers.first() };
            assert_eq!(weight(outcome), expected.map_or(0, weight), "{message:?}");
        }
        message.outcome = Some(outcome.clone());
    }
}

impl Links for World {
    fn hand_over(&mut self, _: u16, _: Handover<'_>) {
        unreachable!("all addresses have this home");
    }

    fn replace(&mut self, _: u16, _: Replacement) {
        unreachable!("all addresses have this home");
    }

    fn transfer(&mut self, attachment: AttachmentId, delivery: &Delivery<'_>) -> bool {
        let consumer = self.consumer(attachment);
        if !consumer.remote {
            if consumer.room {
                self.reach(attachment, delivery);
                return true;
            }
            return false;
        }
        if delivery.first {
            let left = consumer.limit.wrapping_sub(consumer.dispatched_at_home).cast_signed();
            assert!(left > 0, "no transfer beyond credit");
            consumer.dispatched_at_home = consumer.dispatched_at_home.wrapping_add(1);
        }
        let Delivery { token, first, more, aborted, payload, .. } = *delivery;
        let wired = Wired { token, first, more, aborted, payload: payload.to_vec() };
        consumer.wire.push_back(Wire::Delivery(wired));
        true
    }

    fn send(&mut self, command: ToLink<'_>) {
        match command {
            ToLink::Settle { attachment, delivery_id, outcome } => self.settle(attachment, delivery_id, &outcome),
            ToLink::Attached { attachment, answer } => {
                assert!(answer.is_ok() && self.attached.insert(attachment), "answered once");
            }
            ToLink::Taken { attachment, count } => {
                let Some(producer) = self.producer(attachment) else { return };
                producer.taken += count;
                assert!(producer.taken <= producer.received, "taken at most what was sent");
            }
            ToLink::Drained { attachment } => {
                let consumer = self.consumer(attachment);
                assert!(consumer.draining, "a drain was requested");
                consumer.draining = false;
                if !consumer.remote {
                    consumer.limit = consumer.dispatched;
                }
            }
            ToLink::Halted { attachment } => self.consumer(attachment).wire.push_back(Wire::Halted),
            ToLink::Open { attachment, .. } | ToLink::Close { attachment, .. } => {
                assert!(!self.gone.contains(&attachment));
            }
            other => panic!("unexpected command of a direct address with little payload: {other:?}"),
        }
    }
}

struct Model {
    router: Router,
    world: World,
    attachments: u32,
}

/// Picks one of `count` by a number of any size.
fn pick(at: u8, count: usize) -> Option<usize> {
    (count > 0).then(|| at as usize % count)
}

impl Model {
    fn new(multicast: bool, ordered: bool, seed: u64) -> Self {
        Self { router: Router::new(1, seed), world: World { multicast, ordered, ..World::default() }, attachments: 0 }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Producer { name, anonymous } => self.attach_producer(NAMES.get(name as usize).copied(), anonymous),
            Op::Consumer { filter, remote } => {
                self.attach_consumer(filter.map(|at| NAMES[at as usize]), remote && !self.world.ordered);
            }
            Op::ProducerLeaves(at) => self.producer_leaves(at),
            Op::ConsumerLeaves(at) => self.consumer_leaves(at),
            Op::Credit { at, credit, drain } => self.credit(at, credit, drain),
            Op::Room { at, room } => self.room(at, room),
            Op::Send { at, settled, more } => self.send(at, settled, more),
            Op::Part { at, last } => self.part(at, last),
            Op::Abort(at) => self.abort(at),
            Op::Answer { at, which, outcome } => self.answer(at, which, outcome),
            Op::Wire { at, count, refuse } => self.wire(at, count, refuse),
            Op::Turn => self.router.turn(&mut self.world),
            Op::Retire => self.retire(),
        }
        self.check();
    }

    fn attachment(&mut self, here: bool) -> AttachmentId {
        self.attachments += 1;
        let elsewhere = if self.attachments.is_multiple_of(2) { 0 } else { 2 };
        AttachmentId { shard: if here { 1 } else { elsewhere }, generation: 0, index: self.attachments }
    }

    fn declared(&self) -> Declared {
        let kind = if self.world.multicast { AddressKind::Multicast } else { AddressKind::Anycast };
        Declared { key: AddressKey(1), kind, link_capacity: CAPACITY, space: 1 }
    }

    fn attach_producer(&mut self, name: Option<&'static str>, anonymous: bool) {
        let attachment = self.attachment(false);
        let producer = Producer { attachment, anonymous, name, next: 0, received: 0, taken: 0, sending: None };
        self.world.producers.push(producer);
        let role =
            AttachmentRole::Producer { anonymous, name: name.map(Into::into), producer_name: None, resume: None };
        self.router.attach(attachment, self.declared(), role, &mut self.world);
    }

    fn attach_consumer(&mut self, filter: Option<&'static str>, remote: bool) {
        let attachment = self.attachment(!remote);
        self.world.consumers.push(Consumer {
            attachment,
            remote,
            filter,
            room: true,
            limit: 0,
            dispatched: 0,
            dispatched_at_home: 0,
            draining: false,
            reading: None,
            refusing: false,
            held: Vec::new(),
            wire: VecDeque::new(),
            last_begun: HashMap::new(),
        });
        let filter = filter.map(|wanted| Filter::new(move |name| name == wanted));
        self.router.attach(
            attachment,
            self.declared(),
            AttachmentRole::Consumer { filter, consuming: Consuming::default() },
            &mut self.world,
        );
    }

    fn producer_leaves(&mut self, at: u8) {
        let Some(at) = pick(at, self.world.producers.len()) else { return };
        let attachment = self.world.producers[at].attachment;
        if let Some(message) = self.world.producers[at].sending {
            self.world.messages[message].aborted = true;
        }
        self.router.detach(attachment, &mut self.world);
        self.world.producers.remove(at);
        self.world.gone.push(attachment);
    }

    fn consumer_leaves(&mut self, at: u8) {
        let Some(at) = pick(at, self.world.consumers.len()) else { return };
        let attachment = self.world.consumers[at].attachment;
        self.world.consumers[at].room = false;
        for (message, token) in std::mem::take(&mut self.world.consumers[at].held) {
            self.world.messages[message].answers.push(modified(true));
            self.router.outcome(token, &modified(true), &mut self.world);
        }
        self.router.detach(attachment, &mut self.world);
        let consumer = self.world.consumers.remove(at);
        for wire in &consumer.wire {
            if let Wire::Delivery(wired) = wire {
                self.router.refused(attachment, &wired.delivery(), &mut self.world);
            }
        }
        self.world.gone.push(attachment);
    }

    fn credit(&mut self, at: u8, credit: u8, drain: bool) {
        let Some(at) = pick(at, self.world.consumers.len()) else { return };
        let consumer = &mut self.world.consumers[at];
        consumer.limit = consumer.dispatched.wrapping_add(u32::from(credit));
        consumer.draining |= drain;
        let (attachment, limit, refusing) = (consumer.attachment, consumer.limit, consumer.refusing);
        if !refusing {
            self.router.credit(attachment, limit, drain, &mut self.world);
        }
    }

    fn room(&mut self, at: u8, room: bool) {
        let Some(at) = pick(at, self.world.consumers.len()) else { return };
        let consumer = &mut self.world.consumers[at];
        consumer.room = room;
        let (attachment, limit, refusing) = (consumer.attachment, consumer.limit, consumer.refusing);
        if room && !refusing {
            self.router.credit(attachment, limit, false, &mut self.world);
        }
    }

    fn send(&mut self, at: u8, settled: bool, more: bool) {
        let Some(at) = pick(at, self.world.producers.len()) else { return };
        let message = self.world.messages.len();
        let producer = &mut self.world.producers[at];
        if producer.sending.is_some() {
            return;
        }
        let (attachment, delivery_id) = (producer.attachment, producer.next);
        producer.next += 1;
        producer.received += 1;
        producer.sending = more.then_some(message);
        self.world.messages.push(Message {
            producer: attachment,
            delivery_id,
            settled,
            parts: 1,
            complete: !more,
            aborted: false,
            outcome: None,
            answers: Vec::new(),
            cut: false,
        });
        self.deliver(message, format!("[{message}.0]").as_bytes(), true, more, false);
    }

    fn part(&mut self, at: u8, last: bool) {
        let Some(at) = pick(at, self.world.producers.len()) else { return };
        let Some(message) = self.world.producers[at].sending else { return };
        let state = &mut self.world.messages[message];
        let payload = format!("[{message}.{}]", state.parts);
        state.parts += 1;
        state.complete = last;
        if last {
            self.world.producers[at].sending = None;
        }
        self.deliver(message, payload.as_bytes(), false, !last, false);
    }

    fn abort(&mut self, at: u8) {
        let Some(at) = pick(at, self.world.producers.len()) else { return };
        let Some(message) = self.world.producers[at].sending.take() else { return };
        self.world.messages[message].aborted = true;
        self.deliver(message, &[], false, false, true);
    }

    fn deliver(&mut self, message: usize, payload: &[u8], first: bool, more: bool, aborted: bool) {
        let Message { producer, delivery_id, settled, .. } = self.world.messages[message];
        let arrival = Arrival { delivery_id, settled, message_format: 0, first, more, aborted, payload };
        self.router.deliver(producer, arrival, &mut self.world);
    }

    fn answer(&mut self, at: u8, which: u8, outcome: u8) {
        let Some(at) = pick(at, self.world.consumers.len()) else { return };
        let consumer = &mut self.world.consumers[at];
        let Some(which) = pick(which, consumer.held.len()) else { return };
        let (message, token) = consumer.held.remove(which);
        let outcomes = [Outcome::Accepted, Outcome::Accepted, Outcome::Released, rejected(), modified(false)];
        let outcome = &outcomes[outcome as usize];
        self.world.messages[message].answers.push(outcome.clone());
        self.router.outcome(token, outcome, &mut self.world);
    }

    /// The shard of a remote consumer reads its commands.
    fn wire(&mut self, at: u8, count: u8, refuse: bool) {
        let Some(at) = pick(at, self.world.consumers.len()) else { return };
        for _ in 0..count {
            let consumer = &mut self.world.consumers[at];
            let attachment = consumer.attachment;
            match consumer.wire.pop_front() {
                None => return,
                Some(Wire::Halted) => {
                    consumer.refusing = false;
                    let limit = consumer.limit;
                    self.router.credit(attachment, limit, false, &mut self.world);
                }
                Some(Wire::Delivery(wired)) => self.arrives(at, &wired, refuse),
            }
        }
    }

    fn arrives(&mut self, at: usize, wired: &Wired, refuse: bool) {
        let consumer = &mut self.world.consumers[at];
        let attachment = consumer.attachment;
        let credit = consumer.limit.wrapping_sub(consumer.dispatched).cast_signed() > 0;
        consumer.refusing |= wired.first && (refuse || !credit);
        if wired.first && consumer.refusing {
            consumer.dispatched_at_home = consumer.dispatched_at_home.wrapping_sub(1);
            self.router.refused(attachment, &wired.delivery(), &mut self.world);
        } else {
            self.world.reach(attachment, &wired.delivery());
            if wired.first && wired.more {
                self.router.begun(attachment, &mut self.world);
            }
        }
    }

    fn retire(&mut self) {
        if self.world.retired {
            return;
        }
        self.world.retired = true;
        for message in &mut self.world.messages {
            message.cut = true;
        }
        let error = Error::new(condition::RESOURCE_DELETED, "deleted");
        self.router.delete_address(AddressKey(1), &error, &mut self.world);
        self.world.gone.extend(self.world.consumers.drain(..).map(|consumer| consumer.attachment));
        let (anonymous, gone) = self.world.producers.drain(..).partition::<Vec<_>, _>(|producer| producer.anonymous);
        self.world.producers = anonymous;
        self.world.gone.extend(gone.into_iter().map(|producer| producer.attachment));
    }

    /// The invariants between any two calls.
    fn check(&self) {
        let stats = self.router.stats().next().map(|(_, stats)| stats).unwrap_or_default();
        let idle = |consumer: &&Consumer| {
            let credit = consumer.limit.wrapping_sub(consumer.dispatched).cast_signed() > 0;
            !consumer.remote && consumer.room && credit && consumer.reading.is_none()
        };
        if self.world.multicast {
            return;
        }
        assert!(
            stats.waiting == 0 || !self.world.consumers.iter().any(|c| idle(&c)),
            "no consumer is idle while a message waits"
        );
        let windows = self.world.producers.len() + self.world.gone.len();
        assert!(!self.world.ordered || stats.waiting <= u64::from(CAPACITY) * windows as u64, "waiting is bounded");
    }

    /// Lets every message through; then no message may remain.
    fn finish(&mut self) {
        for at in 0..self.world.producers.len() {
            self.part(at as u8, true);
        }
        for _ in 0..4 {
            for at in 0..self.world.consumers.len() {
                self.world.consumers[at].room = true;
                self.wire(at as u8, u8::MAX, false);
                self.credit(at as u8, u8::MAX, false);
                self.wire(at as u8, u8::MAX, false);
            }
        }
        while self.world.consumers.iter().any(|consumer| !consumer.held.is_empty()) {
            for at in 0..self.world.consumers.len() {
                self.answer(at as u8, 0, 0);
            }
        }
        for _ in 0..self.world.consumers.len() {
            self.consumer_leaves(0);
        }
        self.router.turn(&mut self.world);
        assert_eq!(self.router.in_progress(), 0, "no message remains");
        for producer in &self.world.producers {
            assert_eq!(producer.taken, producer.received, "the window is whole again: {producer:?}");
        }
        for message in &self.world.messages {
            let live = self.world.producers.iter().any(|producer| producer.attachment == message.producer);
            let answered = message.outcome.is_some() || message.settled;
            assert!(!live || message.aborted || answered, "{message:?}");
        }
    }
}

fn run(multicast: bool, ordered: bool, seed: u64, ops: &[Op]) {
    let mut model = Model::new(multicast, ordered, seed);
    for op in ops {
        model.apply(op);
    }
    model.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anycast_matches_the_model(ops in ops(), seed: u64) {
        run(false, false, seed, &ops);
    }

    #[test]
    fn anycast_keeps_the_order_on_one_shard(ops in ops(), seed: u64) {
        run(false, true, seed, &ops);
    }

    #[test]
    fn multicast_matches_the_model(ops in ops(), seed: u64) {
        run(true, false, seed, &ops);
    }

    #[test]
    fn multicast_keeps_the_order_on_one_shard(ops in ops(), seed: u64) {
        run(true, true, seed, &ops);
    }
}
