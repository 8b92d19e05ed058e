//! Links to stored addresses that can be resumed (2.6.13, 3.5.3 to 3.5.5), on one shard and on
//! three, over broken connections and restarts.

use std::sync::Arc;

use enmasse_amqp::connection::{LinkId, OutcomeCounts, Tag};
use enmasse_amqp::types::{
    Attach, DeliveryState, Open, Outcome, ReceiverSettleMode, Role, Source, Target, TerminusDurability,
    TerminusExpiryPolicy, condition,
};
use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::log::{Config, Log, WriteBatch};
use enmasse_journal::queue::Settings;
use enmasse_router::core::{OpenQueue, Unsettled};
use enmasse_router::shard::{Peer, StoredAddressChange};

use crate::net::{ClientEvent, Net, blank, message_to, plain_init};
use crate::{OPEN_SPACE, pinned};

/// Shards, and the shard of the client; the queue lives on shard 0.
const LAYOUTS: [(u16, usize); 2] = [(1, 0), (3, 2)];

/// The open space with a queue on a disk.
pub(crate) fn on_disk(shards: u16, disk: Arc<SimulatedDisk>) -> Net {
    on_disk_within(shards, disk, 1 << 30)
}

/// As above, on a node with this budget of received bytes that are not stored.
pub(crate) fn on_disk_within(shards: u16, disk: Arc<SimulatedDisk>, budget_bytes: u64) -> Net {
    let queue = "{\"uid\": \"q\", \"name\": \"orders\", \"type\": \"queue\"}";
    let memory = "{\"uid\": \"m\", \"name\": \"memory\", \"type\": \"queue\", \"durability\": \"memory\"}";
    let plan = OPEN_SPACE.replacen("\"addresses\": [", &format!("\"addresses\": [{queue},{memory},"), 1);
    let mut net = Net::with_budget(shards, &plan, budget_bytes);
    let config = Config { segment_bytes: 64 << 10, secret: 1, ..Config::default() };
    let (mut log, recovered) = Log::open(disk, config).expect("a log");
    let opened = match recovered.queues.first() {
        Some(known) => OpenQueue::restored("orders".into(), Settings::default(), known),
        None => {
            let mut batch = WriteBatch::new();
            batch.declare(1, &[1; 16], "orders");
            log.append(&mut batch).and_then(|()| log.sync()).expect("a disk that works");
            OpenQueue::new("orders".into(), Settings::default(), Some(1))
        }
    };
    net.log = Some(log);
    for (name, opened) in [("orders", opened), ("memory", OpenQueue::new("memory".into(), Settings::default(), None))] {
        let entry = net.entry(name);
        assert_eq!(entry.home.claim(0), 0);
        net.shards[0].change_stored_addresses(vec![StoredAddressChange::Open(entry.declared(), Box::new(opened))]);
    }
    net
}

/// A client of the container `worker`, which stays on its shard.
fn worker(net: &mut Net, shard: usize) -> usize {
    let client = net.plain(shard, Open { container_id: "worker".to_owned(), ..Open::default() });
    net.begin(client);
    net.sender(client, None);
    client
}

fn receiver(address: &str, unsettled: Option<Unsettled>) -> Attach {
    let source = Source {
        address: Some(address.to_owned()),
        durable: TerminusDurability::UnsettledState,
        expiry_policy: TerminusExpiryPolicy::Never,
        ..Source::default()
    };
    let rcv_settle_mode = ReceiverSettleMode::Second;
    Attach { source: Some(Box::new(source)), rcv_settle_mode, unsettled, ..blank(Role::Receiver, "in".to_owned()) }
}

fn sender(address: &str, unsettled: Option<Unsettled>) -> Attach {
    let mut target = Target::node(Some(address.to_owned()));
    if let Target::Node { durable, timeout_s, .. } = &mut target {
        (*durable, *timeout_s) = (TerminusDurability::UnsettledState, 60);
    }
    let rcv_settle_mode = ReceiverSettleMode::Second;
    Attach { target: Some(Box::new(target)), rcv_settle_mode, unsettled, ..blank(Role::Sender, "out".to_owned()) }
}

fn attached(net: &mut Net, client: usize, attach: Attach) -> (LinkId, Attach) {
    let link = net.attach(client, attach);
    let answers = net.clients[client].received.iter().rev().find_map(|received| match received {
        ClientEvent::Attached { attach, .. } => Some((**attach).clone()),
        _ => None,
    });
    (link, answers.expect("an attach"))
}

fn in_force(attach: &Attach) -> (TerminusDurability, TerminusExpiryPolicy, u32) {
    match (attach.role, attach.source.as_deref(), attach.target.as_deref()) {
        (Role::Sender, Some(source), _) => (source.durable, source.expiry_policy, source.timeout_s),
        (_, _, Some(Target::Node { durable, expiry_policy, timeout_s, .. })) => (*durable, *expiry_policy, *timeout_s),
        other => panic!("{other:?}"),
    }
}

/// Deliveries since the last call: id, tag, whether resumed.
fn deliveries(net: &mut Net, client: usize) -> Vec<(u32, Vec<u8>, bool)> {
    let mut found = Vec::new();
    net.clients[client].received.retain(|received| match received {
        ClientEvent::Message { delivery_id, tag, resume, .. } => {
            found.push((*delivery_id, tag.clone(), *resume));
            false
        }
        _ => true,
    });
    found
}

fn accepted() -> Option<DeliveryState> {
    Some(DeliveryState::Outcome(Outcome::Accepted))
}

fn number(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// The messages of the queue that another consumer receives.
fn left(net: &mut Net, shard: usize) -> usize {
    let other = pinned(net, shard);
    net.receiver(other, "orders", 10);
    let count = net.messages(other).len();
    net.cut(other);
    count
}

fn fill(net: &mut Net, count: usize) {
    let client = pinned(net, 0);
    let out = net.sender(client, Some("orders"));
    for _ in 0..count {
        net.send(client, out, &message_to("orders", None, b"x"), false);
    }
}

#[test]
fn receiver_that_returns_resumes_its_unsettled_deliveries() {
    for (shards, shard) in LAYOUTS {
        for restarts in [false, true] {
            let disk = Arc::new(SimulatedDisk::new(512, 7));
            let mut net = on_disk(shards, Arc::clone(&disk));
            fill(&mut net, 3);
            let client = worker(&mut net, shard);
            let (link, answer) = attached(&mut net, client, receiver("orders", None));
            let kept = (TerminusDurability::UnsettledState, TerminusExpiryPolicy::LinkDetach, 300);
            assert_eq!(in_force(&answer), kept);
            net.grant(client, link, 10);
            let tags: Vec<_> = deliveries(&mut net, client).into_iter().map(|(_, tag, resume)| (tag, resume)).collect();
            assert_eq!(tags, [0, 1, 2].map(|n| (number(n), false)));
            if restarts {
                net = on_disk(shards, Arc::new(disk.as_seen()));
            } else {
                net.cut(client);
            }
            assert_eq!(left(&mut net, shard), 0, "all are held");
            let client = worker(&mut net, shard);
            let map = vec![(number(0), None), (number(1), accepted())];
            let (link, answer) = attached(&mut net, client, receiver("orders", Some(map)));
            assert_eq!(answer.unsettled, Some(vec![(number(0), None)]));
            net.grant(client, link, 1);
            let again = deliveries(&mut net, client);
            assert_eq!(
                again.iter().map(|(_, tag, resume)| (tag.clone(), *resume)).collect::<Vec<_>>(),
                [(number(0), true)]
            );
            net.settle(client, link, again[0].0, &Outcome::Accepted);
            assert!(
                net.clients[client]
                    .received
                    .contains(&ClientEvent::SenderSettled { first: again[0].0, last: again[0].0 })
            );
            net.cut(client);
            assert_eq!(left(&mut net, shard), 1, "one was never received");
        }
    }
}

#[test]
fn outcome_that_a_receiver_reports_before_it_settles_counts_once() {
    for (shards, shard) in LAYOUTS {
        for settles in [false, true] {
            let mut net = on_disk(shards, Arc::new(SimulatedDisk::new(512, 7)));
            fill(&mut net, 1);
            let client = worker(&mut net, shard);
            let attach = Attach { rcv_settle_mode: ReceiverSettleMode::First, ..receiver("orders", None) };
            let (link, _) = attached(&mut net, client, attach);
            net.grant(client, link, 1);
            let (id, ..) = deliveries(&mut net, client).remove(0);
            net.at_once(|net| {
                net.settle_with(client, link, id, &DeliveryState::Outcome(Outcome::Accepted), false);
                if settles {
                    net.settle_with(client, link, id, &DeliveryState::Outcome(Outcome::Released), true);
                }
            });
            assert_eq!(net.counted(client, false), OutcomeCounts { accepted: 1, ..OutcomeCounts::default() });
            net.cut(client);
            assert_eq!(left(&mut net, shard), 0);
        }
    }
}

#[test]
fn receiver_that_closes_its_link_releases_its_deliveries() {
    for (shards, shard) in LAYOUTS {
        let mut net = on_disk(shards, Arc::new(SimulatedDisk::new(512, 7)));
        fill(&mut net, 2);
        let client = worker(&mut net, shard);
        let (link, _) = attached(&mut net, client, receiver("orders", None));
        net.grant(client, link, 10);
        assert_eq!(deliveries(&mut net, client).len(), 2);
        net.detach(client, link);
        assert_eq!(left(&mut net, shard), 2);
    }
}

#[test]
fn sender_that_returns_gets_the_outcomes_of_stored_deliveries() {
    for (shards, shard) in LAYOUTS {
        for restarts in [false, true] {
            let disk = Arc::new(SimulatedDisk::new(512, 7));
            let mut net = on_disk(shards, Arc::clone(&disk));
            let client = worker(&mut net, shard);
            net.clients[client].keeps = true;
            let (link, answer) = attached(&mut net, client, sender("orders", None));
            let kept = (TerminusDurability::UnsettledState, TerminusExpiryPolicy::LinkDetach, 60);
            assert_eq!((in_force(&answer), answer.unsettled), (kept, Some(Vec::new())));
            let body = message_to("orders", None, b"x");
            net.send_named(client, link, &body, false, Tag { bytes: b"one", resume: false });
            assert_eq!(net.outcomes(client).len(), 1);
            if restarts {
                net = on_disk(shards, Arc::new(disk.as_seen()));
            } else {
                net.cut(client);
            }
            let client = worker(&mut net, shard);
            let map = vec![(b"one".to_vec(), None), (b"two".to_vec(), None)];
            let (link, answer) = attached(&mut net, client, sender("orders", Some(map.clone())));
            assert_eq!(answer.unsettled, Some(vec![(b"one".to_vec(), accepted())]));
            net.send_named(client, link, &body, false, Tag { bytes: b"one", resume: true });
            net.send_named(client, link, &body, false, Tag { bytes: b"unknown", resume: true });
            net.send_named(client, link, &body, false, Tag { bytes: b"two", resume: false });
            assert_eq!(net.outcomes(client).len(), 2, "of the one that is stored, and of the new one");
            net.cut(client);
            let client = worker(&mut net, shard);
            let (_, answer) = attached(&mut net, client, sender("orders", Some(map)));
            assert_eq!(answer.unsettled, Some(Vec::new()), "it has settled both");
            assert_eq!(left(&mut net, shard), 2, "nothing is stored twice");
        }
    }
}

#[test]
fn link_attached_on_another_connection_is_stolen_from_the_first() {
    for (shards, shard) in LAYOUTS {
        let mut net = on_disk(shards, Arc::new(SimulatedDisk::new(512, 7)));
        fill(&mut net, 1);
        let first = worker(&mut net, shard);
        let (link, _) = attached(&mut net, first, receiver("orders", None));
        net.grant(first, link, 1);
        assert_eq!(deliveries(&mut net, first).len(), 1);
        let second = worker(&mut net, 0);
        let map = Some(vec![(number(0), None)]);
        let (link, answer) = attached(&mut net, second, receiver("orders", map.clone()));
        assert_eq!(answer.unsettled, map);
        assert_eq!(net.detached(first).map(|error| error.condition), Some(condition::LINK_STOLEN));
        net.grant(second, link, 1);
        assert_eq!(deliveries(&mut net, second).len(), 1);
    }
}

#[test]
fn a_link_of_another_user_is_another_link() {
    for (shards, shard) in LAYOUTS {
        let mut net = on_disk(shards, Arc::new(SimulatedDisk::new(512, 7)));
        fill(&mut net, 1);
        let mut clients = ["alice", "bob"].map(|user| {
            let open = Open { container_id: "worker".to_owned(), ..Open::default() };
            let peer = Peer { loopback: true, ..Peer::default() };
            let client = net.client(shard, peer, Some(plain_init(user, "any")), open);
            net.begin(client);
            net.sender(client, None);
            client
        });
        clients.reverse();
        let [bob, alice] = clients;
        let (link, _) = attached(&mut net, alice, receiver("orders", None));
        net.grant(alice, link, 1);
        assert_eq!(deliveries(&mut net, alice).len(), 1);
        let (link, answer) = attached(&mut net, bob, receiver("orders", Some(vec![(number(0), None)])));
        assert_eq!((answer.unsettled, net.detached(alice)), (Some(Vec::new()), None), "no delivery of alice");
        net.grant(bob, link, 1);
        assert!(deliveries(&mut net, bob).is_empty());
    }
}

#[test]
fn attach_of_a_link_that_cannot_be_resumed_is_answered_without_durability() {
    let first = |attach: Attach| Attach { rcv_settle_mode: ReceiverSettleMode::First, ..attach };
    let none = (TerminusDurability::None, TerminusExpiryPolicy::LinkDetach, 0);
    let mut net = on_disk(1, Arc::new(SimulatedDisk::new(512, 7)));
    let client = worker(&mut net, 0);
    let plain = |role| blank(role, "plain".to_owned());
    let named = |attach: Attach, name: &str| Attach { name: name.to_owned(), ..attach };
    let source = Source { address: Some("orders".to_owned()), ..Source::default() };
    let requests_nothing = Attach { source: Some(Box::new(source)), ..plain(Role::Receiver) };
    for attach in
        [receiver("memory", None), sender("memory", None), first(named(sender("orders", None), "f")), requests_nothing]
    {
        let (_, answer) = attached(&mut net, client, attach);
        assert_eq!((in_force(&answer), answer.unsettled), (none, None));
    }
}
