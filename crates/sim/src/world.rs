//! The simulated world of one seed: a node, clients, a clock. In each step a random one of them
//! runs a turn; faults are injected in between. Then no new work starts until all work is complete,
//! and the final state is checked. A run of the stored profile has several such phases, with a
//! restart after each.

use enmasse_amqp::time::Time;
use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_router::core::AddressKind;
use enmasse_router::plan::Plan;

use crate::client::Client;
use crate::devices;
use crate::faults::Fault;
use crate::ledger::{Ledger, covers};
use crate::node::Node;
use crate::random::Random;
use crate::report::Report;
use crate::scenario::{Profile, Scenario};

/// The most steps until a run is quiet, plus a number for each message sent, because a slow
/// consumer of a stream may have tens of thousands to read.
const QUIESCE_STEPS: u64 = 3_000_000;
const QUIESCE_STEPS_PER_MESSAGE: u64 = 1_000;
/// Steps without input to any client after which a run may be quiet: about half a second, and
/// hundreds of turns for each.
const QUIET_STEPS: u32 = 6_000;
/// Interval of checks after that: a single one may fail because a heartbeat is in flight.
const CHECK_INTERVAL_STEPS: u32 = 100;
/// Steps after which the power fails if the journal has written too little to reach the failing
/// disk call.
const POWER_STEPS: u32 = 2_000;

struct World {
    now: Time,
    random: Random,
    scenario: Scenario,
    node: Node,
    clients: Vec<Client>,
    ledger: Ledger,
    version: u64,
    /// per space and address: its present or next generation, and whether it exists
    generations: Vec<Vec<(u32, bool)>>,
    /// steps until the power fails, unless the disk fails before, and disk calls until the disk
    /// fails
    power: Option<(u32, u64)>,
}

/// Names the run that a failed assertion ends.
struct OnPanic(Profile, u64);

impl Drop for OnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {} of the profile {:?} failed", self.1, self.0);
        }
    }
}

/// Runs one seed.
///
/// # Errors
/// The first violation of the contract, after the history that led to it.
pub fn run(profile: Profile, seed: u64) -> Result<Report, String> {
    let _on_panic = OnPanic(profile, seed);
    if profile == Profile::Devices {
        return devices::run(seed);
    }
    let mut world = World::new(profile, seed)?;
    for _ in 0..world.scenario.phases {
        for _ in 0..world.scenario.steps {
            world.step(true)?;
            world.inject_faults()?;
        }
        world.quiesce()?;
        world.check_final_state()?;
        if profile == Profile::Stored {
            world.ledger.barrier();
            let fault = if world.random.chance(500) { Fault::Kill } else { Fault::Power };
            world.restart(fault)?;
        }
    }
    if profile == Profile::Stored {
        world.quiesce()?;
        world.check_final_state()?;
    }
    Ok(Report { stats: world.ledger.stats, faults: world.ledger.faults, digest: world.ledger.digest() })
}

fn plan(scenario: &Scenario, version: u64, generations: &[Vec<(u32, bool)>]) -> Plan {
    let existing = |space: &Vec<(u32, bool)>| space.iter().map(|(number, exists)| exists.then_some(*number)).collect();
    let generations: Vec<Vec<Option<u32>>> = generations.iter().map(existing).collect();
    scenario.plan(version, &generations)
}

impl World {
    fn new(profile: Profile, seed: u64) -> Result<Self, String> {
        let mut random = Random::new(seed);
        let scenario = Scenario::draw(profile, &mut random);
        let generations = vec![vec![(0, true); scenario.addresses.len()]; scenario.spaces];
        let plan = plan(&scenario, 1, &generations);
        let node = Node::start(&scenario, SimulatedDisk::new(512, seed), &plan, &mut random)?;
        let mut clients: Vec<Client> =
            (0..scenario.clients).map(|number| Client::new(number, &scenario, random.fork())).collect();
        let terms = scenario.addresses.iter().map(|declared| (declared.name.to_owned(), declared.terms));
        let mut ledger = Ledger::new(terms);
        if profile == Profile::Stored {
            ledger.declare(scenario.spaces);
            for space in 0..scenario.spaces {
                clients.push(Client::collector(clients.len(), space, &scenario, random.fork()));
            }
        }
        ledger.log(&format!("seed {seed}: {scenario:?}"));
        let (now, version, power) = (Time::ZERO, 1, None);
        Ok(Self { now, random, scenario, node, clients, ledger, version, generations, power })
    }

    fn step(&mut self, active: bool) -> Result<(), String> {
        self.now = Time::from_micros(self.now.as_micros() + self.random.between(1, 200));
        self.ledger.set_time(self.now);
        let shards = self.node.shards();
        let journals = usize::from(self.scenario.profile == Profile::Stored);
        let actor = self.random.below(shards + self.clients.len() + journals);
        if actor < shards {
            if let Some(violation) = self.node.turn(actor, self.now, &mut self.random) {
                self.ledger.violation(violation);
            }
            self.disconnect_clients();
        } else if let Some(client) = self.clients.get_mut(actor - shards) {
            client.step(self.now, &self.scenario, &mut self.node, &mut self.ledger, active);
        } else {
            self.node.journal.turn(self.now, &mut self.random, &mut self.ledger.faults);
        }
        if self.ledger.is_changing() && self.node.has_applied_plan() {
            let (generations, addresses) = (&self.generations, &self.scenario.addresses);
            let at = |name: &str| addresses.iter().position(|declared| declared.name == name);
            self.ledger.plan_applied(|space, name| at(name).is_some_and(|at| generations[space][at].1));
        }
        self.ledger.first_violation().map_or(Ok(()), Err)
    }

    /// Disconnects clients whose connection the node has closed.
    fn disconnect_clients(&mut self) {
        for (number, client) in self.clients.iter().enumerate() {
            if let Some(socket) = client.socket().map(|socket| &self.node.sockets[socket])
                && socket.is_over()
            {
                self.ledger.disconnected(number, socket.is_closed_cleanly());
            }
        }
    }

    fn inject_faults(&mut self) -> Result<(), String> {
        let rates = self.scenario.rates;
        let mut happens = |chance| self.random.below(1_000_000) < chance;
        let (drop, kill, plan) = (happens(rates.drop), happens(rates.kill), happens(rates.plan));
        let power = rates.power > 0 && happens(rates.power);
        if drop {
            let client = self.random.below(self.clients.len());
            if let Some(socket) = self.clients[client].socket() {
                self.node.drop_connection(socket);
                self.ledger.fault(Fault::Drop);
            }
        }
        if kill {
            self.restart(Fault::Kill)?;
        }
        if power && self.power.is_none() {
            // The disk fails in the middle of the next write.
            let (calls, disk) = (self.random.between(0, 40), self.node.journal.disk());
            disk.cut_after(calls);
            self.power = Some((POWER_STEPS, disk.calls() + calls));
        }
        self.fail_power()?;
        if plan {
            // Only direct addresses are deleted.
            let count = if self.scenario.profile == Profile::Direct { 4 } else { 2 };
            let (space, address) = (self.random.below(self.scenario.spaces), self.random.below(count));
            let (generation, exists) = &mut self.generations[space][address];
            *generation += u32::from(*exists);
            *exists = !*exists;
            self.ledger.changes(space, self.scenario.addresses[address].name);
            self.apply()?;
        }
        Ok(())
    }

    /// Cuts the power once the disk has failed, before a client can observe the failure.
    fn fail_power(&mut self) -> Result<(), String> {
        let Some((left, calls)) = self.power else { return Ok(()) };
        self.power = Some((left.saturating_sub(1), calls));
        if left == 0 || self.node.journal.disk().calls() > calls {
            self.restart(Fault::Power)?;
        }
        Ok(())
    }

    /// Restarts the node without a shutdown; all connections are lost.
    fn restart(&mut self, fault: Fault) -> Result<(), String> {
        self.ledger.log(&format!("the node restarts: {fault:?}"));
        self.ledger.fault(fault);
        self.power = None;
        self.ledger.restarted();
        for client in &mut self.clients {
            client.disconnected(self.now, false, &mut self.ledger);
        }
        let disk = self.node.journal.disk();
        let disk = if fault == Fault::Kill { disk.as_seen() } else { disk.crashed(self.random.number()) };
        let plan = plan(&self.scenario, self.version, &self.generations);
        match Node::start(&self.scenario, disk, &plan, &mut self.random) {
            Ok(node) => self.node = node,
            Err(violation) => self.ledger.violation(violation),
        }
        self.ledger.first_violation().map_or(Ok(()), Err)
    }

    fn apply(&mut self) -> Result<(), String> {
        self.version += 1;
        self.ledger.fault(Fault::Plan);
        self.ledger.log(&format!("plan {}: {:?}", self.version, self.generations));
        let plan = plan(&self.scenario, self.version, &self.generations);
        if let Err(violation) = self.node.apply(&plan) {
            // The power is about to fail.
            if self.power.is_none() {
                self.ledger.violation(violation);
            }
            return self.fail_power();
        }
        Ok(())
    }

    /// Runs without faults and new messages until the clients have consumed the remaining messages.
    fn quiesce(&mut self) -> Result<(), String> {
        self.ledger.log("nothing new begins");
        if self.power.is_some() {
            self.restart(Fault::Power)?;
        }
        if self.generations.iter().flatten().any(|(_, exists)| !exists) {
            for (_, exists) in self.generations.iter_mut().flatten() {
                *exists = true;
            }
            self.apply()?;
        }
        let (mut quiet, mut events) = (0, 0);
        for _ in 0..QUIESCE_STEPS + QUIESCE_STEPS_PER_MESSAGE * self.ledger.stats.sent {
            self.step(false)?;
            quiet = if self.ledger.events() == events { quiet + 1 } else { 0 };
            events = self.ledger.events();
            if quiet >= QUIET_STEPS && quiet.is_multiple_of(CHECK_INTERVAL_STEPS) && self.is_quiet() {
                return Ok(());
            }
        }
        let violation = self.describe_remaining();
        self.ledger.violation(violation);
        self.ledger.first_violation().map_or(Ok(()), Err)
    }

    fn describe_remaining(&mut self) -> String {
        let busy = self.clients.iter_mut().filter_map(|client| (!client.is_quiet()).then(|| client.describe()));
        let busy: Vec<String> = busy.collect();
        let waiting: Vec<_> = self.node.stats().filter(|(_, stats)| stats.waiting > 0).collect();
        let unresolved = self.ledger.unresolved();
        let unresolved: Vec<String> = unresolved.iter().map(|number| self.ledger.describe(*number)).collect();
        let (busy, unresolved, stored) = (busy.join("\n"), unresolved.join("\n"), self.node.describe_stored());
        let idle = self.node.is_idle();
        format!("it never ends\n{busy}\n{unresolved}\nwaiting: {waiting:?}, stored: {stored}, node idle: {idle}")
    }

    fn is_quiet(&mut self) -> bool {
        self.node.is_idle() && self.clients.iter_mut().all(Client::is_quiet) && self.ledger.unresolved().is_empty()
    }

    /// Checks the invariants of the final state.
    fn check_final_state(&mut self) -> Result<(), String> {
        let waiting: u64 = self.node.stats().map(|(_, stats)| stats.waiting).sum();
        if waiting > 0 {
            let rest = self.describe_remaining();
            self.ledger.violation(format!("{rest}\n{waiting} messages still wait"));
        }
        if !self.scenario.inject_faults && self.scenario.profile == Profile::Direct {
            self.check_presettled();
        }
        self.ledger.check_stored();
        self.check_windows();
        self.ledger.first_violation().map_or(Ok(()), Err)
    }

    /// Checks that without faults no presettled message is lost, except copies of a multicast that
    /// are counted as dropped.
    fn check_presettled(&mut self) {
        let mut missed: u64 = self.node.stats().map(|(_, stats)| stats.dropped).sum();
        for kind in [AddressKind::Anycast, AddressKind::Multicast] {
            for number in self.ledger.undelivered(kind) {
                if kind == AddressKind::Multicast && missed > 0 {
                    missed -= 1;
                    continue;
                }
                let what = self.ledger.describe(number);
                self.ledger.violation(format!("no consumer received the presettled {what}"));
            }
        }
    }

    /// Checks that every producer has its full window again.
    fn check_windows(&mut self) {
        let sources: Vec<_> = self.clients.iter().flat_map(Client::sources).collect();
        let mut found = Vec::new();
        for (space, name, credit) in self.clients.iter().flat_map(Client::windows) {
            let Some(declared) = self.scenario.resolve(name) else { continue };
            let wanted = |source: &str| match declared.kind {
                AddressKind::Anycast => source == name,
                AddressKind::Multicast => covers(source, name),
                AddressKind::Queue | AddressKind::Topic | AddressKind::Stream => true,
            };
            let stores = !matches!(declared.kind, AddressKind::Anycast | AddressKind::Multicast);
            let open = stores || sources.iter().any(|(other, source)| *other == space && wanted(source));
            let right = if open { credit > declared.window() / 2 } else { credit == 0 };
            if !right {
                found.push(format!("credit {credit} to send to {name} ({}, open: {open})", declared.window()));
            }
        }
        for violation in found {
            self.ledger.violation(violation);
        }
    }
}
