//! What a message costs a shard, with its protocol and without sockets: `cargo run --release -p enmasse-router --example
//! shard_cost -- free 1000000` prints nanoseconds a message in a space without a pace, `paced` in one that has one which is
//! never reached. One producer, one consumer, an anycast address, 100 bytes, settled; both clients are in the figure.

#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::sync::Arc;
use std::time::Instant;

use enmasse_amqp::connection::{Config, Connection, Event, LinkId, Outgoing, SessionId};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Attach, Open, ReceiverSettleMode, Role, SenderSettleMode, Source, Target};
use enmasse_router::core::{QueueNumbers, SETTLE_TIMEOUT_MS};
use enmasse_router::plan::Plan;
use enmasse_router::shard::{ConnId, DynamicNodes, LinkNames, Load, Peer, Shard, Shared};
use enmasse_router::table::Table;

const PLAN: &str = include_str!("../../../vectors/plans/open.json");
const PACE: &str = "\"links\": null, \"messagesPerSecond\": 1000000000000";
/// Messages of a turn.
const BATCH: u32 = 100;

struct Client {
    machine: Connection,
    id: ConnId,
    session: Option<SessionId>,
    unread: Vec<u8>,
    messages: u64,
}

impl Client {
    fn new(shard: &mut Shard, name: &str) -> Self {
        let id = shard.connect(Time::ZERO, &Peer { loopback: true, ..Peer::default() });
        let open = Open { container_id: name.to_owned(), ..Open::default() };
        let machine = Connection::client(Arc::new(Config::default()), Time::ZERO, false, open);
        Self { machine, id, session: None, unread: Vec::new(), messages: 0 }
    }

    /// Says what there is, and hears the answer of the shard after a turn.
    fn turn(&mut self, shard: &mut Shard) {
        self.machine.flush(Time::ZERO);
        let said = std::mem::take(self.machine.output());
        let used = shard.input(Time::ZERO, self.id, &said);
        assert_eq!(used, said.len(), "the shard takes all");
        shard.end_turn(Time::ZERO);
        while shard.poll_request().is_some() {}
    }

    fn hear(&mut self, shard: &mut Shard) {
        if let Some(output) = shard.output(self.id) {
            self.unread.append(output);
        }
        shard.written(self.id);
        let mut rest = &self.unread[..];
        while let Some(event) = self.machine.poll_event(Time::ZERO, &mut rest) {
            self.messages += u64::from(matches!(event, Event::Transfer(_)));
        }
        let left = rest.len();
        self.unread.drain(..self.unread.len() - left);
    }

    fn attach(&mut self, role: Role) -> LinkId {
        let attach = Attach {
            name: "link".to_owned(),
            handle: 0,
            role,
            snd_settle_mode: SenderSettleMode::Mixed,
            rcv_settle_mode: ReceiverSettleMode::First,
            source: Some(Box::new(Source { address: Some("anycast".to_owned()), ..Source::default() })),
            target: Some(Box::new(Target::node(Some("anycast".to_owned())))),
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: (role == Role::Sender).then_some(0),
            max_message_size: None,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: Vec::new(),
        };
        let session = self.session.expect("it has a session");
        self.machine.attach(session, attach).expect("the session is open")
    }
}

fn shard(paced: bool) -> Shard {
    let text = if paced { PLAN.replace("\"links\": null", PACE) } else { PLAN.to_owned() };
    let plan: Plan = serde_json::from_str(&text).expect("the plan is in order");
    let table = Table::compile(&plan, &Table::empty([7; 32])).expect("the plan compiles");
    let shared = Shared {
        connection: Arc::new(Config::default()),
        dynamic: DynamicNodes::default(),
        link_names: LinkNames::default(),
        loads: vec![Load::default()],
        link_capacity: 1000,
        message_size_max: None,
        multicast_settle_timeout_ms: SETTLE_TIMEOUT_MS,
        queue_numbers: QueueNumbers::new(1),
        insecure: false,
        guesses: std::sync::Mutex::new(enmasse_router::shard::Guesses::new(7)),
    };
    Shard::new(0, Arc::new(shared), Arc::new(table), Box::new(|bytes| bytes.fill(7)))
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let paced = match arguments.next().as_deref() {
        Some("free") => false,
        Some("paced") => true,
        _ => panic!("usage: shard_cost free|paced [messages]"),
    };
    let count: u64 = arguments.next().map_or(1_000_000, |text| text.parse().expect("a number of messages"));
    let mut shard = shard(paced);
    let mut both = [Client::new(&mut shard, "to"), Client::new(&mut shard, "from")];
    let mut say = |both: &mut [Client; 2]| {
        both.iter_mut().for_each(|client| client.turn(&mut shard));
        both.iter_mut().for_each(|client| client.hear(&mut shard));
    };
    say(&mut both);
    both.iter_mut().for_each(|client| client.session = client.machine.begin().ok());
    say(&mut both);
    let into = both[0].attach(Role::Receiver);
    say(&mut both);
    both[0].machine.grant(into, u32::MAX / 2);
    let out = both[1].attach(Role::Sender);
    say(&mut both);
    say(&mut both);
    let payload = [7; 100];
    let begun = Instant::now();
    while both[0].messages < count {
        assert!(both[1].machine.sendable(out) > 0, "the window opens again");
        for _ in 0..both[1].machine.sendable(out).min(BATCH) {
            let message = Outgoing {
                token: None,
                message_format: 0,
                first: true,
                more: false,
                aborted: false,
                payload: &payload,
            };
            both[1].machine.transfer(out, message).expect("there is credit");
        }
        say(&mut both);
        if both[0].machine.credit(into) < u32::MAX / 4 {
            both[0].machine.grant(into, u32::MAX / 2);
        }
    }
    println!("{:.1} ns a message", begun.elapsed().as_nanos() as f64 / both[0].messages as f64);
}
