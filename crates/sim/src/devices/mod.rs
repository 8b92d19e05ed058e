//! Clients of MQTT with sessions on simulated nodes: QoS 1 arrives at least once and QoS 2 exactly
//! once over broken connections, killed processes and power failures, to a queue, topics with
//! persistent subscriptions and a stream; retained messages and wills are kept.

mod device;
mod promises;

use enmasse_amqp::time::Time;
use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_mqtt::codec::QoS;
use enmasse_router::plan::Plan;

use crate::address::STREAM;
use crate::faults::{Fault, FaultCounts};
use crate::ledger::RunStats;
use crate::node::Node;
use crate::random::Random;
use crate::report::Report;
use crate::scenario::{Profile, Scenario};
use device::{Device, Role};
use promises::Promises;

/// The most steps until a run is quiet.
const QUIESCE_STEPS: u32 = 2_000_000;
/// Steps without input to any client after which a run is quiet.
const QUIET_STEPS: u32 = 6_000;

struct World {
    now: Time,
    random: Random,
    scenario: Scenario,
    plan: Plan,
    node: Node,
    devices: Vec<Device>,
    promises: Promises,
    faults: FaultCounts,
}

/// Runs one seed.
///
/// # Errors
/// The first promise that was not kept, after the history that led to it.
pub(crate) fn run(seed: u64) -> Result<Report, String> {
    let mut world = World::new(seed)?;
    for _ in 0..world.scenario.steps {
        world.step(true)?;
        world.inject_faults()?;
    }
    world.quiesce()?;
    world.restart(Fault::Kill)?;
    world.quiesce()?;
    world.check_retained()?;
    let Promises { sent, received, repeated, once, .. } = &world.promises;
    let stats = RunStats {
        sent: sent.len() as u64,
        received: *received,
        redelivered: *repeated,
        outcomes: *once,
        ..RunStats::default()
    };
    Ok(Report { stats, faults: world.faults, digest: *received })
}

impl World {
    fn new(seed: u64) -> Result<Self, String> {
        let mut random = Random::new(seed);
        let scenario = Scenario::draw(Profile::Devices, &mut random);
        let plan = scenario.plan(1, &[vec![Some(0); scenario.addresses.len()]]);
        let node = Node::start(&scenario, SimulatedDisk::new(512, seed), &plan, &mut random)?;
        let roles = [Role::Subscriber(QoS::ExactlyOnce), Role::Subscriber(QoS::AtLeastOnce), Role::Consumer];
        let others = scenario.clients.saturating_sub(roles.len());
        let roles = roles.into_iter().chain(std::iter::repeat_n(Role::Publisher, others));
        let devices = (0..).zip(roles).map(|(number, role)| Device::new(number, role, random.fork())).collect();
        let (now, promises, faults) = (Time::ZERO, Promises::default(), FaultCounts::default());
        Ok(Self { now, random, scenario, plan, node, devices, promises, faults })
    }

    fn step(&mut self, active: bool) -> Result<(), String> {
        self.now = Time::from_micros(self.now.as_micros() + self.random.between(1, 200));
        let shards = self.node.shards();
        let actor = self.random.below(shards + self.devices.len() + 1);
        if actor < shards {
            if let Some(violation) = self.node.turn(actor, self.now, &mut self.random) {
                self.promises.violation(violation);
            }
        } else if let Some(device) = self.devices.get_mut(actor - shards) {
            device.step(self.now, &mut self.node, &mut self.promises, active);
        } else {
            self.node.journal.turn(self.now, &mut self.random, &mut self.faults);
        }
        self.promises.check()
    }

    fn inject_faults(&mut self) -> Result<(), String> {
        let rates = self.scenario.rates;
        let mut happens = |chance| self.random.below(1_000_000) < chance;
        let (drop, kill, power) = (happens(rates.drop), happens(rates.kill), happens(rates.power));
        if drop {
            let device = self.random.below(self.devices.len());
            if let Some(socket) = self.devices[device].socket() {
                self.promises.note(|| format!("the network drops the connection of client {device}"));
                self.node.drop_connection(socket);
                self.faults.record(self.now, Fault::Drop);
            }
        }
        match (kill, power) {
            (true, _) => self.restart(Fault::Kill),
            (_, true) => self.restart(Fault::Power),
            _ => Ok(()),
        }
    }

    /// Restarts the node without a shutdown; all connections are lost.
    fn restart(&mut self, fault: Fault) -> Result<(), String> {
        self.promises.note(|| format!("the node restarts: {fault:?}"));
        self.faults.record(self.now, fault);
        self.devices.iter_mut().for_each(|device| device.disconnected(&mut self.promises));
        let disk = self.node.journal.disk();
        let disk = if fault == Fault::Kill { disk.as_seen() } else { disk.crashed(self.random.number()) };
        self.node = Node::start(&self.scenario, disk, &self.plan, &mut self.random)?;
        Ok(())
    }

    /// Runs without faults and new messages until nothing arrives any more.
    fn quiesce(&mut self) -> Result<(), String> {
        let mut quiet = 0;
        for _ in 0..QUIESCE_STEPS {
            self.step(false)?;
            let heard = self.devices.iter_mut().fold(false, |heard, device| heard | std::mem::take(&mut device.heard));
            quiet = if heard { 0 } else { quiet + 1 };
            if quiet >= QUIET_STEPS && self.devices.iter().all(Device::is_quiet) && self.node.journal.is_idle() {
                self.promises.check_arrived(self.node.stored_in(STREAM));
                return self.promises.check();
            }
        }
        let busy: Vec<&Device> = self.devices.iter().filter(|device| !device.is_quiet()).collect();
        let what = format!("it never ends: {busy:?}");
        self.promises.violation(what);
        self.promises.check()
    }

    fn check_retained(&mut self) -> Result<(), String> {
        let number = self.devices.len();
        self.devices.push(Device::new(number, Role::Reader, self.random.fork()));
        self.quiesce()?;
        let retained = self.devices[number].retained.clone();
        self.promises.check_retained(&retained);
        self.promises.check()
    }
}
