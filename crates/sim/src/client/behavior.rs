//! The behaviour and the links of a client.

use crate::address::{DEAD_LETTERS, Declared, EXPIRED, MOVING};
use crate::link::{LinkSpec, Moving};
use crate::random::Random;
use crate::scenario::{Profile, Scenario};

/// The behaviour of a client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Behavior {
    /// bytes it reads at a time
    pub(super) reads: usize,
    /// permille of its messages that are presettled
    pub(super) presettles: u64,
    /// permille of chance that it settles a delivery at once
    pub(super) settles_at_once: u64,
    /// credit it grants
    pub(super) credit: u32,
    /// permille of its messages that are long
    pub(super) long: u64,
    /// the most bytes of long messages
    pub(super) longest: u64,
    /// permille of its messages that have no sections
    pub(super) empties: u64,
    /// it pauses between messages
    pub(super) slow: bool,
    /// it consumes only while the other clients are idle, and accepts everything
    pub(super) collects: bool,
    /// chances per step, out of a million
    pub(super) detaches: usize,
    pub(super) pauses: usize,
    pub(super) aborts: usize,
    pub(super) closes: usize,
    pub(super) ends: usize,
}

impl Behavior {
    /// The behaviour and the links of a client.
    pub(super) fn draw(number: usize, scenario: &Scenario, random: &mut Random) -> (Self, Vec<LinkSpec>) {
        match scenario.profile {
            Profile::Direct => Self::direct(scenario, random),
            Profile::Stored | Profile::Devices => Self::stored(number, scenario, random),
        }
    }

    fn direct(scenario: &Scenario, random: &mut Random) -> (Self, Vec<LinkSpec>) {
        let chance = |random: &mut Random, chance| if scenario.inject_faults { *random.pick(&[0, chance]) } else { 0 };
        let behavior = Self {
            reads: *random.pick(&[200, 5_000, 1_000_000]),
            presettles: *random.pick(&[0, 500, 1000]),
            credit: *random.pick(&[1, 10, 500]),
            long: *random.pick(&[0, 0, 20, 200]),
            detaches: chance(random, 2000),
            pauses: chance(random, 2000),
            aborts: chance(random, 50_000),
            settles_at_once: 300,
            longest: 300_000,
            ..Self::default()
        };
        let count = random.between(1, 4);
        let spec = |random: &mut Random| match random.below(10) {
            0..=3 => LinkSpec::Sender(scenario.target(random)),
            4..=7 => LinkSpec::Receiver(scenario.source(random)),
            8 => LinkSpec::AnonymousSender,
            _ => LinkSpec::DynamicReceiver,
        };
        let links = (0..count).map(|_| spec(random)).collect();
        (behavior, links)
    }

    fn stored(number: usize, scenario: &Scenario, random: &mut Random) -> (Self, Vec<LinkSpec>) {
        let chance = |random: &mut Random, chance| if scenario.inject_faults { *random.pick(&[0, chance]) } else { 0 };
        let behavior = Self {
            reads: *random.pick(&[200, 5_000, 1_000_000]),
            presettles: *random.pick(&[0, 0, 0, 300]),
            credit: *random.pick(&[1, 10, 100]),
            long: *random.pick(&[0, 20, 200]),
            detaches: chance(random, 2000),
            pauses: chance(random, 500),
            aborts: chance(random, 50_000),
            settles_at_once: *random.pick(&[20, 300, 900]),
            longest: 6_000,
            empties: *random.pick(&[0, 0, 5]),
            slow: random.chance(500),
            collects: false,
            closes: chance(random, 500),
            ends: chance(random, 500),
        };
        let links = match number % 4 {
            // Producers and consumers first, so that every run has both.
            0 => (0..random.between(1, 3)).map(|_| LinkSpec::Sender(scenario.destination(random))).collect(),
            1 => receivers(scenario, random),
            2 => transactional(scenario, random),
            _ => mixed(scenario, random),
        };
        (behavior, requesting(links))
    }

    /// The behaviour and links of the client that consumes the remaining messages.
    pub(super) fn collector(scenario: &Scenario) -> (Self, Vec<LinkSpec>) {
        let behavior = Self { reads: 1_000_000, credit: 100, collects: true, ..Self::default() };
        (behavior, scenario.stored_sources())
    }
}

/// Several receivers of one queue on one connection.
fn receivers(scenario: &Scenario, random: &mut Random) -> Vec<LinkSpec> {
    let count = random.between(1, 10);
    match any_receiver(scenario, 0, random) {
        LinkSpec::Receiver(name) => (0..count).map(|_| LinkSpec::Receiver(name.clone())).collect(),
        other => vec![other],
    }
}

/// A client that posts and retires in transactions.
fn transactional(scenario: &Scenario, random: &mut Random) -> Vec<LinkSpec> {
    let senders = (0..random.between(1, 2)).map(|_| match random.below(4) {
        // Messages to a full queue block the session, and with it the discharge that would make
        // room.
        0 if !scenario.is_bounded() => LinkSpec::AnonymousSender,
        _ => LinkSpec::Sender(scenario.destination(random)),
    });
    let mut links: Vec<LinkSpec> = senders.collect();
    links.extend((0..random.between(1, 3)).map(|at| any_receiver(scenario, at, random)));
    links.push(LinkSpec::Coordinator);
    links
}

fn any(scenario: &Scenario, at: u64, random: &mut Random) -> LinkSpec {
    match random.below(10) {
        0..=3 => LinkSpec::Sender(scenario.destination(random)),
        4..=8 => any_receiver(scenario, at, random),
        _ => LinkSpec::AnonymousSender,
    }
}

fn any_receiver(scenario: &Scenario, at: u64, random: &mut Random) -> LinkSpec {
    let topic = || "news".to_owned();
    match random.below(20) {
        0..=10 => LinkSpec::Receiver((*random.pick(&["orders", "jobs", "brief", "plain", "news::all"])).to_owned()),
        11 => LinkSpec::Receiver(DEAD_LETTERS.to_owned()),
        12 => LinkSpec::Receiver(EXPIRED.to_owned()),
        13 => LinkSpec::Subscriber { topic: topic(), name: format!("durable{at}"), shared: false },
        14 => {
            let (topic, name) = (*random.pick(&MOVING), format!("moving{at}"));
            LinkSpec::MovingSubscriber(Moving { topic, name, exists: false, recalls: false })
        }
        15 => LinkSpec::Subscriber { topic: topic(), name: "team".to_owned(), shared: true },
        16 => LinkSpec::Receiver(topic()),
        17 => LinkSpec::Receiver((*random.pick(&["one", "all"])).to_owned()),
        _ => LinkSpec::StreamReader(scenario.stream().to_owned()),
    }
}

/// A client with any links; some request replies in a temporary queue.
fn mixed(scenario: &Scenario, random: &mut Random) -> Vec<LinkSpec> {
    let mut links: Vec<LinkSpec> = (0..random.between(1, 4)).map(|at| any(scenario, at, random)).collect();
    links.extend(random.chance(500).then_some(LinkSpec::TemporaryQueue));
    links
}

/// The owner of a temporary queue consumes from it.
fn requesting(mut links: Vec<LinkSpec>) -> Vec<LinkSpec> {
    if let Some(at) = links.iter().position(|link| *link == LinkSpec::TemporaryQueue) {
        links.push(LinkSpec::TemporaryReceiver(at));
    }
    links
}

impl Scenario {
    /// A name that a client of the stored profile might send to.
    pub(crate) fn destination(&self, random: &mut Random) -> String {
        loop {
            let declared = random.pick(&self.addresses);
            let direct = matches!(declared.name, "one" | "all");
            if declared.takes_messages() && (!direct || random.chance(200)) {
                return declared.name.to_owned();
            }
        }
    }

    /// Whether a queue may be full.
    fn is_bounded(&self) -> bool {
        self.addresses.iter().any(Declared::is_bounded)
    }

    /// The name of the stream.
    pub(crate) fn stream(&self) -> &'static str {
        "events"
    }

    /// Links to everything that is stored, shared subscriptions included.
    fn stored_sources(&self) -> Vec<LinkSpec> {
        let queues = ["orders", "jobs", "brief", "plain", "news::all", DEAD_LETTERS, EXPIRED];
        let mut links: Vec<LinkSpec> = queues.iter().map(|name| LinkSpec::Receiver((*name).to_owned())).collect();
        links.push(LinkSpec::Subscriber { topic: "news".to_owned(), name: "team".to_owned(), shared: true });
        links.push(LinkSpec::StreamReader(self.stream().to_owned()));
        links
    }
}
