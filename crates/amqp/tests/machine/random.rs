//! Random sequences of operations on two joined machines: each message arrives once, in order and
//! whole; no side exceeds a window or a credit; both ends agree on the unsettled deliveries.

use std::collections::{BTreeMap, VecDeque};

use enmasse_amqp::connection::{Config, Event, LinkId, Outgoing, SendError};
use enmasse_amqp::types::{Flow, Outcome, Performative, Role, Transfer};
use proptest::prelude::*;

use crate::pair::{OwnedEvent, Pair, Side, attach, piece};

/// The number of links. Each carries deliveries in one direction.
const LINKS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Grant(usize, u32),
    /// whole message: link, bytes, settled
    Send(usize, usize, bool),
    /// begins a streamed message, or continues with the one in progress; the last flag ends it
    Stream(usize, usize, bool),
    Abort(usize),
    /// settles the n-th delivery that waits at the receiver
    Settle(usize, bool),
    Hold(usize, bool),
    Drain(usize),
    Run,
}

fn step() -> impl Strategy<Value = Step> {
    let link = 0..LINKS;
    prop_oneof![
        2 => (link.clone(), 0u32..20).prop_map(|(link, credit)| Step::Grant(link, credit)),
        6 => (link.clone(), 0usize..3000, any::<bool>()).prop_map(|(link, size, settled)| Step::Send(link, size, settled)),
        4 => (link.clone(), 0usize..2000, any::<bool>()).prop_map(|(link, size, last)| Step::Stream(link, size, last)),
        1 => link.clone().prop_map(Step::Abort),
        4 => (0usize..50, any::<bool>()).prop_map(|(which, accept)| Step::Settle(which, accept)),
        1 => (link.clone(), any::<bool>()).prop_map(|(link, hold)| Step::Hold(link, hold)),
        1 => link.prop_map(Step::Drain),
        5 => Just(Step::Run),
    ]
}

/// The messages that one link has sent, and their outcomes.
#[derive(Default)]
struct Channel {
    sent: VecDeque<Vec<u8>>,
    /// the message in progress at the sender, with its token
    streaming: Option<(Option<u64>, Vec<u8>)>,
    /// the message in progress at the receiver
    arriving: Option<Vec<u8>>,
}

struct World {
    pair: Pair,
    /// the client sends over the first two, the server over the third
    ours: [LinkId; LINKS],
    theirs: [LinkId; LINKS],
    channels: [Channel; LINKS],
    /// at the receiver: link, delivery id, not yet settled
    waiting: Vec<(usize, u32)>,
    /// token to its outcome
    outcomes: BTreeMap<u64, Option<Outcome>>,
    next_token: u64,
    observers: [Observer; 2],
}

impl World {
    fn new(client: Config, server: Config, chunk: usize) -> Self {
        let mut pair = Pair::open(client, server);
        let session = pair.client.machine.begin().unwrap();
        let roles = [Role::Sender, Role::Sender, Role::Receiver];
        let names = ["a", "b", "c"];
        let ours = [0, 1, 2].map(|at| pair.client.machine.attach(session, attach(names[at], roles[at])).unwrap());
        pair.run();
        let theirs: Vec<LinkId> = pair.server.machine.links().collect();
        pair.client.take();
        pair.server.take();
        pair.chunk = chunk;
        let mut world = Self {
            pair,
            ours,
            theirs: [theirs[0], theirs[1], theirs[2]],
            channels: Default::default(),
            waiting: Vec::new(),
            outcomes: BTreeMap::new(),
            next_token: 0,
            observers: Default::default(),
        };
        world.observe();
        world
    }

    fn sender(&mut self, at: usize) -> (&mut Side, LinkId) {
        if at < 2 { (&mut self.pair.client, self.ours[at]) } else { (&mut self.pair.server, self.theirs[at]) }
    }

    fn receiver(&mut self, at: usize) -> (&mut Side, LinkId) {
        if at < 2 { (&mut self.pair.server, self.theirs[at]) } else { (&mut self.pair.client, self.ours[at]) }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Grant(at, credit) => {
                let (side, link) = self.receiver(at);
                side.machine.grant(link, credit);
            }
            Step::Send(at, size, settled) => self.send(at, size, settled),
            Step::Stream(at, size, last) => self.stream(at, size, last),
            Step::Abort(at) => self.abort(at),
            Step::Settle(which, accept) => {
                if !self.waiting.is_empty() {
                    let (at, id) = self.waiting.remove(which % self.waiting.len());
                    let (side, link) = self.receiver(at);
                    let outcome = if accept { Outcome::Accepted } else { Outcome::Released };
                    side.machine.settle(link, id, &outcome);
                }
            }
            Step::Hold(at, hold) => {
                let (side, link) = self.receiver(at);
                side.machine.set_held(link, hold);
            }
            Step::Drain(at) => {
                let (side, link) = self.receiver(at);
                side.machine.drain(link);
            }
            Step::Run => self.run(),
        }
    }

    fn token(&mut self, settled: bool) -> Option<u64> {
        (!settled).then(|| {
            self.next_token += 1;
            self.outcomes.insert(self.next_token, None);
            self.next_token
        })
    }

    fn send(&mut self, at: usize, size: usize, settled: bool) {
        let payload: Vec<u8> = (0..size).map(|byte| (byte + at) as u8).collect();
        let (side, link) = self.sender(at);
        let sendable = side.machine.sendable(link);
        let token = self.token(settled);
        let (side, link) = self.sender(at);
        let result = side.machine.transfer(link, piece(token, &payload));
        assert_eq!(result.is_ok(), sendable > 0, "{result:?} with {sendable}");
        match result {
            Ok(()) => self.channels[at].sent.push_back(payload),
            Err(_) => self.forget(token),
        }
    }

    fn forget(&mut self, token: Option<u64>) {
        if let Some(token) = token {
            self.outcomes.remove(&token);
        }
    }

    fn stream(&mut self, at: usize, size: usize, last: bool) {
        let payload = vec![size as u8; size];
        let first = self.channels[at].streaming.is_none();
        let token = if first { self.token(false) } else { None };
        let (side, link) = self.sender(at);
        let ready = if first { side.machine.sendable(link) > 0 } else { side.machine.continuable(link) };
        let part = Outgoing { first, more: !last, ..piece(token, &payload) };
        let result = side.machine.transfer(link, part);
        assert_eq!(result.is_ok(), ready, "{result:?}");
        if let Err(error) = result {
            assert!(matches!(error, SendError::NoCredit | SendError::WindowClosed));
            return self.forget(token);
        }
        let channel = &mut self.channels[at];
        channel.streaming.get_or_insert((token, Vec::new())).1.extend(payload);
        if last {
            channel.sent.extend(channel.streaming.take().map(|(_, message)| message));
        }
    }

    fn abort(&mut self, at: usize) {
        if let Some((token, _)) = self.channels[at].streaming.take() {
            let (side, link) = self.sender(at);
            side.machine.transfer(link, Outgoing { first: false, aborted: true, ..piece(None, b"") }).unwrap();
            self.forget(token);
        }
    }

    fn run(&mut self) {
        self.pair.run();
        self.observe();
        for client in [true, false] {
            let side = if client { &mut self.pair.client } else { &mut self.pair.server };
            for seen in side.take() {
                self.see(client, seen);
            }
        }
    }

    fn see(&mut self, client: bool, seen: OwnedEvent) {
        let side = if client { &mut self.pair.client } else { &mut self.pair.server };
        match seen {
            OwnedEvent::Piece(piece) => {
                let links = if client { self.ours } else { self.theirs };
                let at = links.iter().position(|link| *link == piece.link).expect("a link of ours");
                let channel = &mut self.channels[at];
                assert_eq!(piece.first, channel.arriving.is_none());
                channel.arriving.get_or_insert_default().extend(&piece.payload);
                if piece.aborted {
                    channel.arriving = None;
                } else if !piece.more {
                    assert_eq!(channel.arriving.take(), channel.sent.pop_front());
                    if !piece.settled {
                        self.waiting.push((at, piece.id));
                    }
                }
            }
            OwnedEvent::Event(Event::Disposition { session, first, last, settled, outcome }) => {
                let outcomes = &mut self.outcomes;
                side.machine.take_settled(session, first, last, settled, |_, token| {
                    let slot = outcomes.get_mut(&token).expect("a token of ours");
                    assert_eq!(slot.replace(outcome.clone()), None, "settled once");
                });
            }
            OwnedEvent::Event(Event::Credit { link, drain, .. }) => {
                if drain {
                    side.machine.drained(link);
                }
            }
            OwnedEvent::Event(Event::Flow { .. }) => {}
            OwnedEvent::Event(other) => panic!("{other:?}"),
        }
    }

    fn observe(&mut self) {
        for (client, _, performative, _) in self.pair.wire.drain(..) {
            let [forth, back] = &mut self.observers;
            let (sending, receiving) = if client { (forth, back) } else { (back, forth) };
            match performative {
                Performative::Transfer(transfer) => sending.transfer(&transfer),
                Performative::Flow(flow) => receiving.grant(&flow),
                Performative::Begin(begin) => receiving.window = begin.incoming_window,
                _ => {}
            }
        }
    }

    /// Opens windows and credit, and settles all deliveries.
    fn finish(&mut self) {
        for at in 0..LINKS {
            self.abort(at);
            let (side, link) = self.receiver(at);
            side.machine.set_held(link, false);
            side.machine.grant(link, 5);
        }
        self.run();
        self.run();
        while let Some((at, id)) = self.waiting.pop() {
            let (side, link) = self.receiver(at);
            side.machine.settle(link, id, &Outcome::Accepted);
        }
        self.run();
        self.run();
        assert!(self.channels.iter().all(|channel| channel.sent.is_empty() && channel.arriving.is_none()));
        assert!(self.outcomes.values().all(Option::is_some), "an outcome for each: {:?}", self.outcomes);
        for at in 0..LINKS {
            let (side, link) = self.sender(at);
            side.machine.take_unsettled(link, |token| panic!("{token} is still unsettled"));
        }
    }
}

/// Checks one direction of transfers on the wire against the standard only: frames within the
/// window, deliveries within the credit, ids in sequence.
#[derive(Default)]
struct Observer {
    frames: u32,
    window: u32,
    next_delivery: u32,
    /// by handle: deliveries begun, the largest count granted, in progress
    links: BTreeMap<u32, (u32, u32, bool)>,
}

impl Observer {
    fn transfer(&mut self, transfer: &Transfer) {
        self.frames += 1;
        assert!(self.frames <= self.window, "frame {} in a window of {}", self.frames, self.window);
        let (count, limit, in_progress) = self.links.entry(transfer.handle).or_default();
        if !*in_progress {
            *count += 1;
            assert!(count <= limit, "delivery {count} with credit up to {limit}");
            assert_eq!(transfer.delivery_id, Some(self.next_delivery));
            self.next_delivery += 1;
        }
        *in_progress = transfer.more && !transfer.aborted;
    }

    fn grant(&mut self, flow: &Flow) {
        self.window = self.window.max(flow.next_incoming_id.unwrap_or(0) + flow.incoming_window);
        if let (Some(handle), Some(credit)) = (flow.handle, flow.link_credit) {
            let (_, limit, _) = self.links.entry(handle).or_default();
            *limit = (*limit).max(flow.delivery_count.unwrap_or(0) + credit);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn section_2_6_both_ends_agree_after_random_operations(
        steps in prop::collection::vec(step(), 0..120),
        window in prop_oneof![Just(1u32), Just(5), Just(1000)],
        chunk in prop_oneof![Just(1usize), Just(50), Just(usize::MAX)],
    ) {
        let client = Config { session_window: window, max_frame_size: 512, ..Config::default() };
        let server = Config { session_window: 6, max_frame_size: 700, unsettled_max: 9, ..Config::default() };
        let mut world = World::new(client, server, chunk);
        for step in &steps {
            world.take(step);
        }
        world.finish();
    }
}
