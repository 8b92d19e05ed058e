//! What a run is like: how many shards, which addresses, what clients, how much goes wrong. Drawn from the seed.

use std::sync::Arc;

use enmasse_amqp::connection::Config;
use enmasse_router::core::AddressKind;
use enmasse_router::plan::{
    self, Address, AddressLimits, AddressType, Authentication, AuthenticationType, Plan, SpaceLimits,
};

use crate::random::Random;

/// The name that no space has.
pub(crate) const NOWHERE: &str = "nowhere";

/// Chances of mishaps, per step and out of a million.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mishaps {
    /// the network cuts a connection
    pub(crate) cut: usize,
    /// the node is killed and comes back
    pub(crate) restart: usize,
    /// an address is deleted, or made again
    pub(crate) plan: usize,
}

/// One declared address.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    /// its name; the same in every space
    pub(crate) name: &'static str,
    /// its treatment
    pub(crate) kind: AddressKind,
    /// deliveries a producer's window has
    pub(crate) capacity: u32,
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// worker shards of the node
    pub(crate) shards: u16,
    /// client machines
    pub(crate) clients: usize,
    /// address spaces
    pub(crate) spaces: usize,
    /// in every space
    pub(crate) addresses: Vec<Declared>,
    /// steps until everybody calms down
    pub(crate) steps: u32,
    /// what goes wrong
    pub(crate) mishaps: Mishaps,
    /// clients detach, abort and freeze, too
    pub(crate) unruly: bool,
    /// how the node introduces itself
    pub(crate) server: Arc<Config>,
    /// window of the anonymous terminus and of dynamic nodes
    pub(crate) link_capacity: u32,
    /// bytes between two sockets, each way
    pub(crate) wire_capacity: usize,
    /// microseconds, at most
    pub(crate) latency_us: u64,
}

impl Scenario {
    /// The scenario of a seed.
    #[must_use]
    pub(crate) fn draw(random: &mut Random) -> Self {
        let unruly = random.chance(800);
        let mishaps = if !unruly {
            Mishaps::default()
        } else {
            Mishaps {
                cut: *random.pick(&[0, 200, 1000]),
                restart: *random.pick(&[0, 0, 0, 50]),
                plan: *random.pick(&[0, 0, 100]),
            }
        };
        let capacity = |random: &mut Random| *random.pick(&[1, 3, 10, 1000]);
        let address = |name, kind, capacity| Declared { name, kind, capacity };
        Self {
            shards: random.between(1, 4) as u16,
            clients: random.between(3, 20) as usize,
            spaces: random.between(1, 2) as usize,
            addresses: vec![
                address("one", AddressKind::Anycast, capacity(random)),
                address("two", AddressKind::Anycast, capacity(random)),
                address("all", AddressKind::Multicast, capacity(random)),
                address("each", AddressKind::Multicast, capacity(random)),
            ],
            steps: random.between(5_000, 30_000) as u32,
            mishaps,
            unruly,
            server: Arc::new(Config {
                max_frame_size: *random.pick(&[512, 4096, 131_072]),
                session_window: *random.pick(&[4, 64, 4096]),
                unsettled_max: *random.pick(&[8, 200, 65_536]),
                idle_time_out_ms: Some(5000),
                ..Config::default()
            }),
            link_capacity: *random.pick(&[5, 1000]),
            wire_capacity: *random.pick(&[2_000, 20_000, 400_000]),
            latency_us: *random.pick(&[100, 2_000, 20_000]),
        }
    }

    /// How the machine of one client introduces itself.
    #[must_use]
    pub(crate) fn client_config(&self, random: &mut Random) -> Arc<Config> {
        Arc::new(Config {
            max_frame_size: *random.pick(&[512, 2000, 131_072]),
            session_window: *random.pick(&[3, 50, 4096]),
            idle_time_out_ms: Some(5000),
            // The node may send nothing that it was not given credit for.
            uncredited_max: 0,
            ..Config::default()
        })
    }

    /// The name of a space.
    #[must_use]
    pub(crate) fn space_name(space: usize) -> String {
        format!("space{space}")
    }

    /// What a client might send to, below what is declared, with its treatment and window.
    #[must_use]
    pub(crate) fn target(&self, random: &mut Random) -> String {
        let declared = random.pick(&self.addresses);
        match declared.kind {
            AddressKind::Anycast | AddressKind::Stored => declared.name.to_owned(),
            AddressKind::Multicast | AddressKind::Topic | AddressKind::Stream => {
                format!("{}{}", declared.name, random.pick(&["", "", "/x", "/y", "/x/z"]))
            }
        }
    }

    /// What a client might receive from: a target, or a filter with wildcards.
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
            AddressKind::Anycast | AddressKind::Stored => declared.name == name,
            AddressKind::Multicast | AddressKind::Topic | AddressKind::Stream => {
                name.strip_prefix(declared.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        };
        self.addresses.iter().find(covers)
    }

    /// The plan with all addresses but those `gone` (space, address), whose next life is number `life`.
    #[must_use]
    pub(crate) fn plan(&self, version: u64, lives: &[Vec<Option<u32>>]) -> Plan {
        let spaces = (0..self.spaces).map(|space| self.plan_of_space(space, &lives[space]));
        Plan { version, spaces: spaces.collect(), ..Plan::default() }
    }

    fn plan_of_space(&self, space: usize, lives: &[Option<u32>]) -> plan::Space {
        let addresses = self.addresses.iter().zip(lives).filter_map(|(declared, life)| {
            let kind = match declared.kind {
                AddressKind::Anycast => AddressType::Anycast,
                AddressKind::Multicast => AddressType::Multicast,
                AddressKind::Stored => AddressType::Queue,
                AddressKind::Topic | AddressKind::Stream => AddressType::Topic,
            };
            life.map(|life| Address {
                limits: AddressLimits { link_capacity: declared.capacity, ..AddressLimits::default() },
                ..Address::new(format!("{space}-{}-{life}", declared.name), declared.name, kind)
            })
        });
        plan::Space {
            uid: format!("uid-{space}"),
            names: vec![Self::space_name(space), format!("{}.sim", Self::space_name(space))],
            authentication: Authentication {
                kind: AuthenticationType::None,
                anonymous: true,
                mechanisms: vec!["PLAIN".to_owned()],
                service: None,
            },
            users: Vec::new(),
            limits: SpaceLimits::default(),
            addresses: addresses.collect(),
            internal: false,
        }
    }
}
