//! The world of one seed: a node, clients, a clock. Each step one of them, picked at random, does what it has to do;
//! mishaps come in between. Then everybody calms down, and nothing may be left undone.

use std::sync::Arc;

use enmasse_amqp::time::Time;
use enmasse_router::core::AddressKind;
use enmasse_router::table::Table;

use crate::client::Client;
use crate::ledger::{Figures, Ledger, covers};
use crate::node::Node;
use crate::random::Random;
use crate::scenario::Scenario;

/// Steps that calming down may take.
const CALM_STEPS: u32 = 3_000_000;
/// Steps in which nobody hears anything after which it may be over: some half a second, and hundreds of turns for
/// everybody.
const QUIET_STEPS: u32 = 6_000;
/// Then it is looked into every so many steps, as a sign of life may be on its way at one time or another.
const LOOK_STEPS: u32 = 100;

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// what happened, in numbers
    pub figures: Figures,
    /// the same for every run of the seed
    pub digest: u64,
}

struct World {
    now: Time,
    random: Random,
    scenario: Scenario,
    table: Arc<Table>,
    node: Node,
    clients: Vec<Client>,
    ledger: Ledger,
    version: u64,
    /// per space and address: which life it has, or is to have next; whether it has it
    lives: Vec<Vec<(u32, bool)>>,
}

/// Lives through one seed.
///
/// # Errors
/// What went wrong, after what led to it.
pub fn run(seed: u64) -> Result<Report, String> {
    let mut world = World::new(seed);
    for _ in 0..world.scenario.steps {
        world.step(true)?;
        world.mishap();
    }
    world.calm_down()?;
    world.judge()?;
    Ok(Report { figures: world.ledger.figures, digest: world.ledger.digest() })
}

fn compile(scenario: &Scenario, version: u64, lives: &[Vec<(u32, bool)>], before: &Table) -> Arc<Table> {
    let lives: Vec<Vec<Option<u32>>> =
        lives.iter().map(|space| space.iter().map(|(life, lives)| lives.then_some(*life)).collect()).collect();
    let table = Table::compile(&scenario.plan(version, &lives), before);
    Arc::new(table.expect("a plan of the simulation is in order"))
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let scenario = Scenario::draw(&mut random);
        let lives = vec![vec![(0, true); scenario.addresses.len()]; scenario.spaces];
        let table = compile(&scenario, 1, &lives, &Table::empty([1; 32]));
        let node = Node::start(&scenario, Arc::clone(&table), &mut random);
        let clients = (0..scenario.clients).map(|number| Client::new(number, &scenario, random.fork())).collect();
        let mut ledger = Ledger::default();
        ledger.note(&format!("seed {seed}: {scenario:?}"));
        Self { now: Time::ZERO, random, scenario, table, node, clients, ledger, version: 1, lives }
    }

    fn step(&mut self, active: bool) -> Result<(), String> {
        self.now = Time::from_micros(self.now.as_micros() + self.random.between(1, 200));
        let shards = self.node.shards();
        let actor = self.random.below(shards + self.clients.len());
        if actor < shards {
            if let Some(fault) = self.node.turn(actor, self.now, &mut self.random) {
                self.ledger.blame(fault);
            }
            for (number, client) in self.clients.iter().enumerate() {
                if client.socket().is_some_and(|socket| self.node.sockets[socket].is_given_up()) {
                    self.ledger.given_up(number);
                }
            }
        } else {
            let client = &mut self.clients[actor - shards];
            client.step(self.now, &self.scenario, &mut self.node, &mut self.ledger, active);
        }
        if self.ledger.is_unsure() && self.node.knows_plan() {
            let (lives, addresses) = (&self.lives, &self.scenario.addresses);
            let at = |name: &str| addresses.iter().position(|declared| declared.name == name);
            self.ledger.know_plan(|space, name| at(name).is_some_and(|at| lives[space][at].1));
        }
        self.ledger.fault().map_or(Ok(()), Err)
    }

    fn mishap(&mut self) {
        let mishaps = self.scenario.mishaps;
        let mut happens = |chance| self.random.below(1_000_000) < chance;
        let (cut, restart, plan) = (happens(mishaps.cut), happens(mishaps.restart), happens(mishaps.plan));
        if cut {
            let client = self.random.below(self.clients.len());
            if let Some(socket) = self.clients[client].socket() {
                self.node.cut(socket);
                self.ledger.figures.cuts += 1;
            }
        }
        if restart {
            self.restart();
        }
        if plan {
            let (space, address) = (self.random.below(self.scenario.spaces), self.random.below(4));
            let (life, lives) = &mut self.lives[space][address];
            *life += u32::from(*lives);
            *lives = !*lives;
            self.ledger.changes(space, self.scenario.addresses[address].name);
            self.apply();
        }
    }

    /// The node is killed: all its connections break.
    fn restart(&mut self) {
        self.ledger.note("the node restarts");
        self.ledger.figures.restarts += 1;
        for client in &mut self.clients {
            client.lose(self.now, &mut self.ledger);
        }
        self.node = Node::start(&self.scenario, Arc::clone(&self.table), &mut self.random);
    }

    fn apply(&mut self) {
        self.version += 1;
        self.ledger.figures.plans += 1;
        self.ledger.note(&format!("plan {}: {:?}", self.version, self.lives));
        self.table = compile(&self.scenario, self.version, &self.lives, &self.table);
        self.node.apply(Arc::clone(&self.table));
    }

    /// No more mishaps, no new messages; every client wants what is left for it.
    fn calm_down(&mut self) -> Result<(), String> {
        self.ledger.note("everybody calms down");
        if self.lives.iter().flatten().any(|(_, lives)| !lives) {
            for (_, lives) in self.lives.iter_mut().flatten() {
                *lives = true;
            }
            self.apply();
        }
        let (mut quiet, mut events) = (0, 0);
        for _ in 0..CALM_STEPS {
            self.step(false)?;
            quiet = if self.ledger.events() == events { quiet + 1 } else { 0 };
            events = self.ledger.events();
            if quiet >= QUIET_STEPS && quiet.is_multiple_of(LOOK_STEPS) && self.is_quiet() {
                return Ok(());
            }
        }
        let fault = self.what_is_left();
        self.ledger.blame(fault);
        self.ledger.fault().map_or(Ok(()), Err)
    }

    fn what_is_left(&mut self) -> String {
        let busy = self.clients.iter_mut().filter_map(|client| (!client.is_quiet()).then(|| client.describe()));
        let restless: Vec<String> = busy.collect();
        let waiting: Vec<_> = self.node.figures().filter(|(_, figures)| figures.waiting > 0).collect();
        let unresolved = self.ledger.unresolved();
        let unresolved: Vec<String> = unresolved.iter().map(|number| self.ledger.describe(*number)).collect();
        let quiet = self.is_quiet();
        let (restless, unresolved) = (restless.join("\n"), unresolved.join("\n"));
        format!("it never ends\n{restless}\n{unresolved}\nwaiting: {waiting:?}, quiet: {quiet}")
    }

    fn is_quiet(&mut self) -> bool {
        self.node.is_idle() && self.clients.iter_mut().all(Client::is_quiet) && self.ledger.unresolved().is_empty()
    }

    /// What must hold when nothing happens any more.
    fn judge(&mut self) -> Result<(), String> {
        let waiting: u64 = self.node.figures().map(|(_, figures)| figures.waiting).sum();
        if waiting > 0 {
            let clients: Vec<String> = self.clients.iter().map(Client::describe).collect();
            let left = self.what_is_left();
            self.ledger.blame(format!("{}\n{left}\n{waiting} messages still wait", clients.join("\n")));
        }
        if !self.scenario.unruly {
            // A consumer past its bound misses copies of a multicast, and they are counted.
            let mut missed: u64 = self.node.figures().map(|(_, figures)| figures.dropped).sum();
            for kind in [AddressKind::Anycast, AddressKind::Multicast] {
                for number in self.ledger.unseen(kind) {
                    if kind == AddressKind::Multicast && missed > 0 {
                        missed -= 1;
                        continue;
                    }
                    let who = self.ledger.describe(number);
                    self.ledger.blame(format!("nobody received the settled {who}"));
                }
            }
        }
        let sources: Vec<_> = self.clients.iter().flat_map(Client::sources).collect();
        let mut faults = Vec::new();
        for (space, name, credit) in self.clients.iter().flat_map(Client::windows) {
            let Some(declared) = self.scenario.resolve(name) else { continue };
            let wanted = |source: &str| match declared.kind {
                AddressKind::Anycast | AddressKind::Stored => source == name,
                AddressKind::Multicast | AddressKind::Topic | AddressKind::Stream => covers(source, name),
            };
            let open = sources.iter().any(|(other, source)| *other == space && wanted(source));
            let right = if open { credit > declared.capacity / 2 } else { credit == 0 };
            if !right {
                faults.push(format!("credit {credit} to send to {name} ({}, open: {open})", declared.capacity));
            }
        }
        for fault in faults {
            self.ledger.blame(fault);
        }
        self.ledger.fault().map_or(Ok(()), Err)
    }
}
