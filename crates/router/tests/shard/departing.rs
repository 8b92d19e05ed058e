//! The outcome of deliveries when links end, by the table of
//! `docs/decisions/0047-delivery-attempts.md`: on one shard, and with the client on another shard
//! than the address.

use enmasse_amqp::codec::envelope::envelope;
use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Attach, Modified, Outcome, Role, Source};
use enmasse_journal::queue::{Redelivery, Settings};
use enmasse_router::core::OpenQueue;
use enmasse_router::plan::{Operation, Right};
use enmasse_router::shard::StoredAddressChange;
use enmasse_router::table::{Judged, Rights};

use crate::net::{Net, blank, message_to};
use crate::revoking::{logged_in, space};
use crate::{OPEN_SPACE, pinned};

/// Shards, and the shard of the client; the queue and the anycast address live on shard 0.
const LAYOUTS: [(u16, usize); 2] = [(1, 0), (3, 2)];
const LINKS: usize = 10;
const CREDIT: u32 = 100;
const MESSAGES: usize = 30;

/// How links end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Detach,
    EndSession,
    Close,
    Revoke,
    ShutDown,
    Cut,
    Silence,
    Violation,
}

use How::*;

const CLEAN: [How; 5] = [Detach, EndSession, Close, Revoke, ShutDown];
const LOST: [How; 3] = [Cut, Silence, Violation];

const OPEN_ORDERS: &str = "{\"uid\": \"q\", \"name\": \"orders\", \"type\": \"queue\", \"durability\": \"memory\"}";

fn right(pattern: &str, operations: &[Operation]) -> Right {
    Right { pattern: pattern.into(), operations: operations.to_vec() }
}

fn with_queue(plan: &str) -> String {
    plan.replacen("\"addresses\": [", &format!("\"addresses\": [{OPEN_ORDERS},"), 1)
}

/// A login of alice, who may send and receive everywhere.
fn everything() -> Judged {
    let rights = Rights::compile(&[right("#", &[Operation::Send, Operation::Recv])]).expect("rights");
    Judged::Right { user: "alice".into(), rights, until: None, renewable: false }
}

/// A closed space with a queue of three attempts and no dead letter, in memory.
fn queue(shards: u16) -> Net {
    let mut net = Net::new(shards, &with_queue(&space("idp/1", "")));
    net.judge = everything();
    for name in ["orders", "anycast"] {
        assert_eq!(net.entry(name).home.claim(0), 0);
    }
    let redelivery = Redelivery { attempts_max: 3, ..Redelivery::default() };
    let opened = OpenQueue::new("orders".into(), Settings { redelivery, ..Settings::default() }, None);
    let entry = net.entry("orders");
    net.shards[0].change_stored_addresses(vec![StoredAddressChange::Open(entry.declared(), Box::new(opened))]);
    net
}

/// A client that stays on its shard.
fn client(net: &mut Net, shard: usize) -> usize {
    let client = logged_in(net, shard);
    net.sender(client, None);
    client
}

/// Receivers whose source sets the default outcome of deliveries that are settled without one.
fn receivers(net: &mut Net, client: usize, address: &str, count: usize) -> Vec<LinkId> {
    let failed = Outcome::Modified(Box::new(Modified { delivery_failed: true, ..Modified::default() }));
    let attach = |name: usize| {
        let address = Some(address.to_owned());
        let source = Source { address, default_outcome: Some(failed.clone()), ..Source::default() };
        Attach { source: Some(Box::new(source)), ..blank(Role::Receiver, format!("r{name}")) }
    };
    let links: Vec<LinkId> = (0..count).map(|name| net.attach(client, attach(name))).collect();
    net.at_once(|net| links.iter().for_each(|link| net.grant(client, *link, CREDIT)));
    links
}

fn fill(net: &mut Net, address: &str, count: usize) -> usize {
    let producer = client(net, 0);
    let out = net.sender(producer, Some(address));
    for _ in 0..count {
        net.send(producer, out, &message_to(address, None, b"x"), false);
    }
    producer
}

fn end(net: &mut Net, client: usize, links: &[LinkId], how: How) {
    match how {
        Detach => net.at_once(|net| links.iter().for_each(|link| net.detach(client, *link))),
        EndSession => net.end(client),
        Close => net.close(client),
        // The service differs, so that all its logins are invalid.
        Revoke => net.apply(&with_queue(&space("idp/2", ""))),
        ShutDown => net.shut_down(),
        Cut => net.cut(client),
        Silence => net.pass(3_600_000),
        Violation => net.say(client, b"\0\0\0\x07nonsense"),
    }
}

/// Deliveries of an address, without those that were refused within the node.
fn delivered(net: &Net, name: &str) -> u64 {
    let key = net.entry(name).key;
    let stats = net.shards.iter().flat_map(|shard| shard.address_stats());
    stats.filter(|(of, _)| *of == key).map(|(_, stats)| stats.delivered).sum()
}

/// The failed deliveries of each message that is left.
fn failures(net: &mut Net, shard: usize) -> Vec<u32> {
    net.apply(&with_queue(&space("idp/1", "")));
    net.judge = everything();
    let other = client(net, shard);
    receivers(net, other, "orders", 1);
    let messages = net.messages(other);
    messages.iter().map(|(_, body)| envelope(body).expect("a message").header.delivery_count).collect()
}

#[test]
fn links_ending_together_get_no_deliveries_released_by_each_other() {
    for (shards, shard) in LAYOUTS {
        for how in CLEAN.into_iter().chain(LOST).filter(|how| *how != Detach) {
            let mut net = queue(shards);
            let consumer = client(&mut net, shard);
            let links = receivers(&mut net, consumer, "orders", LINKS);
            fill(&mut net, "orders", MESSAGES);
            assert_eq!(delivered(&net, "orders"), MESSAGES as u64);
            end(&mut net, consumer, &links, how);
            assert_eq!(delivered(&net, "orders"), MESSAGES as u64, "{how:?} on {shards} shards");
        }
    }
}

#[test]
fn connections_ending_together_get_no_deliveries_released_by_each_other() {
    for (shards, shard) in LAYOUTS {
        for how in [Revoke, ShutDown] {
            let mut net = queue(shards);
            for _ in 0..3 {
                let consumer = client(&mut net, shard);
                receivers(&mut net, consumer, "orders", 3);
            }
            fill(&mut net, "orders", MESSAGES);
            end(&mut net, 0, &[], how);
            assert_eq!(delivered(&net, "orders"), MESSAGES as u64, "{how:?} on {shards} shards");
        }
    }
}

#[test]
fn links_revoked_together_get_no_deliveries_released_by_each_other() {
    for (shards, shard) in LAYOUTS {
        let both =
            "{\"name\": \"alice\", \"rights\": [{\"pattern\": \"orders\", \"operations\": [\"send\", \"recv\"]}]}";
        let one = "{\"name\": \"alice\", \"rights\": [{\"pattern\": \"orders\", \"operations\": [\"send\"]}]}";
        let mut net = queue(shards);
        net.apply(&with_queue(&space("idp/1", both)));
        net.judge = Judged::Right { user: "alice".into(), rights: Rights::nothing(), until: None, renewable: false };
        for _ in 0..2 {
            let consumer = client(&mut net, shard);
            receivers(&mut net, consumer, "orders", 3);
        }
        fill(&mut net, "orders", MESSAGES);
        net.apply(&with_queue(&space("idp/1", one)));
        assert_eq!(delivered(&net, "orders"), MESSAGES as u64);
        net.apply(&with_queue(&space("idp/1", both)));
        assert_eq!(failures(&mut net, shard), [0; MESSAGES]);
    }
}

#[test]
fn a_link_that_its_client_or_the_node_ends_costs_no_attempt() {
    for (shards, shard) in LAYOUTS {
        for how in CLEAN {
            let mut net = queue(shards);
            let consumer = client(&mut net, shard);
            let links = receivers(&mut net, consumer, "orders", LINKS);
            fill(&mut net, "orders", MESSAGES);
            end(&mut net, consumer, &links, how);
            if how != ShutDown {
                assert_eq!(failures(&mut net, shard), [0; MESSAGES], "{how:?} on {shards} shards");
            }
        }
    }
}

#[test]
fn a_lost_connection_costs_an_attempt_of_the_oldest_message_of_each_link() {
    for (shards, shard) in LAYOUTS {
        for how in LOST {
            let mut net = queue(shards);
            let consumer = client(&mut net, shard);
            let links = receivers(&mut net, consumer, "orders", LINKS);
            fill(&mut net, "orders", MESSAGES);
            end(&mut net, consumer, &links, how);
            let failures = failures(&mut net, shard);
            assert_eq!(failures.len(), MESSAGES, "{how:?} on {shards} shards");
            assert!(failures.iter().all(|failures| *failures <= 1), "{how:?} on {shards} shards: {failures:?}");
            assert_eq!(failures.iter().sum::<u32>(), LINKS as u32, "{how:?} on {shards} shards");
        }
    }
}

#[test]
fn message_that_always_crashes_its_consumer_exhausts_its_attempts() {
    for (shards, shard) in LAYOUTS {
        let mut net = queue(shards);
        fill(&mut net, "orders", 2);
        for attempt in 0..3 {
            let consumer = client(&mut net, shard);
            receivers(&mut net, consumer, "orders", 1);
            assert_eq!(net.messages(consumer).len(), 2, "attempt {attempt}");
            net.cut(consumer);
        }
        assert_eq!(failures(&mut net, shard), [0], "the other one was only prefetched");
    }
}

#[test]
fn direct_delivery_is_modified_if_possibly_processed_and_released_otherwise() {
    let failed = Outcome::Modified(Box::new(Modified { delivery_failed: true, ..Modified::default() }));
    let ends = CLEAN.map(|how| (how, Outcome::Released)).into_iter().chain(LOST.map(|how| (how, failed.clone())));
    for (how, expected) in ends {
        for (shards, shard) in LAYOUTS {
            let mut net = queue(shards);
            let consumer = client(&mut net, shard);
            let links = receivers(&mut net, consumer, "anycast", 2);
            // These endings close the connection of the producer as well.
            let together = matches!(how, Silence | Revoke | ShutDown);
            let producer = fill(&mut net, "anycast", 4);
            assert_eq!(net.messages(consumer).len(), 4);
            end(&mut net, consumer, &links, how);
            let outcomes: Vec<_> = net.outcomes(producer).into_iter().map(|(_, outcome)| outcome).collect();
            if !together {
                assert_eq!(outcomes, vec![expected.clone(); 4], "{how:?} on {shards} shards");
            }
        }
    }
}

#[test]
fn deleted_direct_address_releases_messages_held_by_its_consumers() {
    for (shards, shard) in LAYOUTS {
        let mut net = Net::new(shards, &with_queue(OPEN_SPACE));
        assert_eq!(net.entry("anycast").home.claim(0), 0);
        let (producer, consumer) = (pinned(&mut net, 0), pinned(&mut net, shard));
        net.receiver(consumer, "anycast", 10);
        let out = net.sender(producer, Some("anycast"));
        net.send(producer, out, b"x", false);
        assert_eq!(net.messages(consumer).len(), 1);
        net.apply(&OPEN_SPACE.replace("\"name\": \"anycast\"", "\"name\": \"other\""));
        let outcomes: Vec<_> = net.outcomes(producer).into_iter().map(|(_, outcome)| outcome).collect();
        assert_eq!(outcomes, [Outcome::Released]);
    }
}
