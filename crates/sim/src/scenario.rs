//! The parameters of a run: shards, clients, faults and their rates. Drawn from the seed.

use std::sync::Arc;

use enmasse_amqp::connection::Config;
use enmasse_journal::log;
use enmasse_router::core::AddressKind;
use enmasse_router::plan::{self, Authentication, AuthenticationType, Plan, SpaceLimits};

use crate::address::{Declared, space_name};
use crate::random::Random;

/// A name without an address.
pub(crate) const UNKNOWN_NAME: &str = "nowhere";

/// The addresses and features of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// anycast and multicast addresses, and dynamic nodes
    Direct,
    /// queues, topics, streams, transactions, dead letters and expiry, on a journal, with restarts
    Stored,
    /// clients of MQTT with sessions on stored addresses, with restarts
    Devices,
}

/// Chances of faults, per step and out of a million.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FaultRates {
    /// the network drops a connection
    pub(crate) drop: usize,
    /// the node is killed and starts again
    pub(crate) kill: usize,
    /// the power fails, and the node starts again
    pub(crate) power: usize,
    /// a direct address is deleted, or declared again
    pub(crate) plan: usize,
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// its addresses and features
    pub(crate) profile: Profile,
    /// worker shards of the node
    pub(crate) shards: u16,
    /// client machines
    pub(crate) clients: usize,
    /// address spaces
    pub(crate) spaces: usize,
    /// addresses of every space
    pub(crate) addresses: Vec<Declared>,
    /// active phases, separated by restarts
    pub(crate) phases: u32,
    /// steps of an active phase
    pub(crate) steps: u32,
    /// how often faults are injected
    pub(crate) rates: FaultRates,
    /// whether clients also detach, abort, pause and close
    pub(crate) inject_faults: bool,
    /// the node's connection settings
    pub(crate) server: Arc<Config>,
    /// window of the anonymous terminus and of dynamic nodes
    pub(crate) link_capacity: u32,
    /// bytes between two sockets, in each direction
    pub(crate) wire_capacity: usize,
    /// the longest delay, in microseconds
    pub(crate) latency_us: u64,
    /// the journal
    pub(crate) journal: log::Config,
}

impl Scenario {
    /// The scenario of a seed.
    #[must_use]
    pub(crate) fn draw(profile: Profile, random: &mut Random) -> Self {
        match profile {
            Profile::Direct => Self::direct(random),
            Profile::Stored => Self::stored(random),
            Profile::Devices => Self::devices(random),
        }
    }

    fn direct(random: &mut Random) -> Self {
        let inject_faults = random.chance(800);
        let rates = if !inject_faults {
            FaultRates::default()
        } else {
            FaultRates {
                drop: *random.pick(&[0, 200, 1000]),
                kill: *random.pick(&[0, 0, 0, 50]),
                power: 0,
                plan: *random.pick(&[0, 0, 100]),
            }
        };
        Self {
            profile: Profile::Direct,
            shards: random.between(1, 4) as u16,
            clients: random.between(3, 20) as usize,
            spaces: random.between(1, 2) as usize,
            addresses: Declared::direct(random),
            phases: 1,
            steps: random.between(5_000, 30_000) as u32,
            rates,
            inject_faults,
            server: server(random),
            link_capacity: *random.pick(&[5, 1000]),
            wire_capacity: *random.pick(&[2_000, 20_000, 400_000]),
            latency_us: *random.pick(&[100, 2_000, 20_000]),
            journal: log::Config::default(),
        }
    }

    fn stored(random: &mut Random) -> Self {
        let inject_faults = random.chance(900);
        let rates = if inject_faults {
            FaultRates {
                drop: *random.pick(&[0, 200, 1000]),
                kill: *random.pick(&[0, 0, 100]),
                power: *random.pick(&[0, 0, 100]),
                plan: *random.pick(&[0, 0, 0, 100]),
            }
        } else {
            FaultRates::default()
        };
        Self {
            profile: Profile::Stored,
            shards: random.between(1, 3) as u16,
            clients: random.between(3, 10) as usize,
            spaces: random.between(1, 2) as usize,
            addresses: Declared::stored(random),
            phases: random.between(1, 3) as u32,
            steps: random.between(4_000, 16_000) as u32,
            rates,
            inject_faults,
            server: server(random),
            link_capacity: *random.pick(&[5, 1000]),
            wire_capacity: *random.pick(&[20_000, 400_000]),
            latency_us: *random.pick(&[100, 2_000, 20_000]),
            journal: log::Config {
                segment_bytes: *random.pick(&[16 << 10, 32 << 10, 64 << 10, 256 << 10]),
                slack_segments: random.between(1, 4) as u32,
                spare_segments_max: random.between(3, 6) as usize,
                commit_bytes: *random.pick(&[512, 2 << 10, 8 << 10, 4 << 20]),
                secret: random.number() as u32,
                ..log::Config::default()
            },
        }
    }

    fn devices(random: &mut Random) -> Self {
        let rates = FaultRates {
            drop: *random.pick(&[0, 200, 1000]),
            kill: *random.pick(&[0, 100, 200]),
            power: *random.pick(&[0, 0, 100]),
            plan: 0,
        };
        Self {
            profile: Profile::Devices,
            clients: random.between(4, 8) as usize,
            spaces: 1,
            addresses: Declared::devices(random),
            steps: random.between(4_000, 16_000) as u32,
            rates,
            ..Self::stored(random)
        }
    }

    /// The connection settings of one client.
    #[must_use]
    pub(crate) fn client_config(&self, random: &mut Random) -> Arc<Config> {
        Arc::new(Config {
            max_frame_size: *random.pick(&[512, 2000, 131_072]),
            session_window: *random.pick(&[3, 50, 4096]),
            idle_time_out_ms: Some(5000),
            // The node must not send beyond its credit.
            uncredited_max: 0,
            ..Config::default()
        })
    }

    /// A name that a client of the direct profile might send to, below a declared one.
    #[must_use]
    pub(crate) fn target(&self, random: &mut Random) -> String {
        let declared = random.pick(&self.addresses);
        match declared.kind {
            AddressKind::Anycast | AddressKind::Queue => declared.name.to_owned(),
            AddressKind::Multicast | AddressKind::Topic | AddressKind::Stream => {
                format!("{}{}", declared.name, random.pick(&["", "", "/x", "/y", "/x/z"]))
            }
        }
    }

    /// A name that a client of the direct profile might receive from: a target, or a filter with
    /// wildcards.
    #[must_use]
    pub(crate) fn source(&self, random: &mut Random) -> String {
        if random.chance(850) {
            return self.target(random);
        }
        (*random.pick(&["all/#", "each/+", "each/#", "+/x", "#"])).to_owned()
    }

    /// The address that a name sent to belongs to.
    #[must_use]
    pub(crate) fn resolve(&self, name: &str) -> Option<&Declared> {
        let covers = |declared: &&Declared| match declared.kind {
            AddressKind::Anycast | AddressKind::Queue => declared.name == name,
            AddressKind::Multicast | AddressKind::Topic | AddressKind::Stream => {
                name.strip_prefix(declared.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        };
        self.addresses.iter().find(covers)
    }
}

fn server(random: &mut Random) -> Arc<Config> {
    Arc::new(Config {
        max_frame_size: *random.pick(&[512, 4096, 131_072]),
        session_window: *random.pick(&[4, 64, 4096]),
        unsettled_max: *random.pick(&[8, 200, 65_536]),
        idle_time_out_ms: Some(5000),
        ..Config::default()
    })
}

impl Scenario {
    /// The plan with each address that has a generation number, by space.
    #[must_use]
    pub(crate) fn plan(&self, version: u64, generations: &[Vec<Option<u32>>]) -> Plan {
        let spaces = (0..self.spaces).map(|space| self.plan_of_space(space, &generations[space]));
        Plan { version, spaces: spaces.collect(), ..Plan::default() }
    }

    fn plan_of_space(&self, space: usize, generations: &[Option<u32>]) -> plan::Space {
        let addresses = self.addresses.iter().zip(generations).filter_map(|(declared, generation)| {
            generation.map(|generation| declared.plan(format!("{space}-{}-{generation}", declared.name)))
        });
        plan::Space {
            uid: format!("uid-{space}"),
            names: vec![space_name(space), format!("{}.sim", space_name(space))],
            authentication: Authentication {
                kind: AuthenticationType::None,
                anonymous: true,
                mechanisms: vec!["PLAIN".to_owned()],
                service: None,
            },
            users: Vec::new(),
            limits: SpaceLimits::default(),
            addresses: addresses.collect(),
            auto_create: Vec::new(),
            internal: false,
            mqtt: (self.profile == Profile::Devices).then_some(plan::MqttStorage {
                retained_messages: 1_000,
                retained_bytes: 1 << 20,
                sessions: 10_000,
                session_expiry_s: 604_800,
            }),
        }
    }
}
