//! The rate at which a space may send: senders get no credit until they have a share, for every
//! target and link type.

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Open, Outcome};

use crate::net::{ClientEvent, Net, message_to};
use crate::stored::with_queue;
use crate::{LAYOUTS, OPEN_SPACE, pinned};

const PACED: &str = include_str!("../../../../vectors/plans/paced.json");

/// The open space with these bounds and those of connections and links.
fn bounded(plan: &str, bounds: &str) -> String {
    plan.replacen("\"links\": null", &format!("\"links\": null, {bounds}"), 1)
}

fn with_rate(a_second: u64) -> String {
    bounded(OPEN_SPACE, &format!("\"messagesPerSecond\": {a_second}"))
}

/// Sends as long as there is credit; returns the number of messages.
fn send_all(net: &mut Net, client: usize, link: LinkId, payload: &[u8], settled: bool) -> u64 {
    let mut sent = 0;
    while net.sendable(client, link) > 0 {
        net.send(client, link, payload, settled);
        sent += 1;
        assert!(sent < 100_000, "the credit has no bound");
    }
    sent
}

fn refused(net: &Net, client: usize) -> bool {
    let bad = |received: &ClientEvent| match received {
        ClientEvent::Outcome { outcome, .. } => *outcome != Outcome::Accepted,
        ClientEvent::Detach { .. } | ClientEvent::Ended(_) | ClientEvent::Closed(_) => true,
        _ => false,
    };
    net.clients[client].received.iter().any(bad)
}

#[test]
fn producer_above_the_rate_waits_for_credit_and_is_not_refused() {
    for (shards, producer, consumer) in LAYOUTS {
        for (settled, anonymous) in [(true, false), (false, false), (true, true)] {
            let mut net = Net::new(shards, &with_rate(100));
            let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
            net.receiver(receiver, "anycast", 100_000);
            let out = net.sender(sender, (!anonymous).then_some("anycast"));
            let payload = if anonymous { message_to("anycast", None, b"x") } else { b"x".to_vec() };
            let mut sent = send_all(&mut net, sender, out, &payload, settled);
            assert!((100..=109).contains(&sent), "the burst of one second and the share of a link: {sent}");
            for _ in 0..100 {
                net.pass(100);
                sent += send_all(&mut net, sender, out, &payload, settled);
            }
            assert!((1090..=1109).contains(&sent), "and a hundred a second from then on: {sent}");
            assert_eq!(net.messages(receiver).len() as u64, sent, "nothing is lost");
            assert!(!refused(&net, sender) && !refused(&net, receiver));
        }
    }
}

#[test]
fn rate_of_a_space_applies_to_stored_addresses_too() {
    for shard in [0, 1] {
        let mut net = with_queue(2);
        let queue = "{\"uid\": \"q\", \"name\": \"orders\", \"type\": \"queue\", \"durability\": \"memory\"}";
        let plan = OPEN_SPACE.replacen("\"addresses\": [", &format!("\"addresses\": [{queue},"), 1);
        net.apply(&bounded(&plan, "\"messagesPerSecond\": 50"));
        let sender = pinned(&mut net, shard);
        let out = net.sender(sender, Some("orders"));
        let mut sent = send_all(&mut net, sender, out, b"x", false);
        for _ in 0..20 {
            net.pass(100);
            sent += send_all(&mut net, sender, out, b"x", false);
        }
        assert!((140..=160).contains(&sent), "{sent}");
        assert_eq!(net.outcomes(sender).len() as u64, sent, "all are accepted");
    }
}

#[test]
fn links_on_all_shards_share_the_rate_of_their_space() {
    let mut net = Net::new(3, &with_rate(200));
    let receiver = pinned(&mut net, 0);
    net.receiver(receiver, "multicast", 100_000);
    let senders: Vec<_> = (0..3)
        .map(|shard| {
            let client = pinned(&mut net, shard);
            (client, net.sender(client, Some("multicast")))
        })
        .collect();
    let mut sent = [0; 3];
    for _ in 0..=100 {
        for (count, (client, link)) in sent.iter_mut().zip(&senders) {
            *count += send_all(&mut net, *client, *link, b"x", true);
        }
        net.pass(100);
    }
    let all: u64 = sent.iter().sum();
    assert!((2150..=2200 + 3 * 17).contains(&all), "{sent:?}");
}

#[test]
fn byte_rate_of_a_space_is_enforced() {
    let mut net = Net::new(1, &bounded(OPEN_SPACE, "\"bytesPerSecond\": 100000"));
    let (sender, receiver) = (pinned(&mut net, 0), pinned(&mut net, 0));
    net.receiver(receiver, "anycast", 100_000);
    let out = net.sender(sender, Some("anycast"));
    let mut sent = send_all(&mut net, sender, out, &[7; 1000], true);
    assert!((100..=109).contains(&sent), "{sent}");
    for _ in 0..100 {
        net.pass(100);
        sent += send_all(&mut net, sender, out, &[7; 1000], true);
    }
    assert!((1080..=1109).contains(&sent), "{sent}");
}

#[test]
fn message_above_the_byte_rate_passes_and_delays_the_next_credit() {
    let mut net = Net::new(1, &bounded(OPEN_SPACE, "\"bytesPerSecond\": 1000"));
    let (sender, receiver) = (pinned(&mut net, 0), pinned(&mut net, 0));
    net.receiver(receiver, "anycast", 100_000);
    let out = net.sender(sender, Some("anycast"));
    net.send(sender, out, &[7; 5000], true);
    assert_eq!((net.messages(receiver).len(), net.sendable(sender, out)), (1, 0));
    net.pass(3900);
    assert_eq!(net.sendable(sender, out), 0);
    net.pass(200);
    assert_eq!(net.sendable(sender, out), 1);
}

#[test]
fn busy_space_does_not_slow_another_space() {
    let plan = PACED.replace("\"exhausted\": true", "\"exhausted\": false");
    let mut net = Net::new(1, &plan);
    let mut at = |space: &str| {
        let open = Open { container_id: space.to_owned(), hostname: Some(space.to_owned()), ..Open::default() };
        let client = net.plain(0, open);
        net.begin(client);
        net.receiver(client, "anycast", 100_000);
        let out = net.sender(client, Some("anycast"));
        (client, out)
    };
    let (busy, quiet) = (at("paced"), at("quiet"));
    assert!(send_all(&mut net, busy.0, busy.1, b"x", true) >= 100);
    assert_eq!(net.sendable(quiet.0, quiet.1), 1000);
    for _ in 0..5000 {
        net.send(quiet.0, quiet.1, b"x", true);
    }
    assert_eq!(net.messages(quiet.0).len(), 5000);
    assert_eq!(net.sendable(busy.0, busy.1), 0);
}

#[test]
fn a_changed_plan_takes_effect_on_links_that_are_open() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, &with_rate(10));
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        net.receiver(receiver, "anycast", 100_000);
        let out = net.sender(sender, Some("anycast"));
        let mut sent = send_all(&mut net, sender, out, b"x", false);
        net.apply(&with_rate(1000));
        assert!(net.sendable(sender, out) > 0, "a faster plan starts with the burst of one second");
        sent += send_all(&mut net, sender, out, b"x", false);
        assert!((1010..1110).contains(&sent), "{sent}");
        net.apply(OPEN_SPACE);
        assert_eq!(net.sendable(sender, out), 1000, "the window of the address");
        net.apply(&with_rate(100));
        sent += send_all(&mut net, sender, out, b"x", false);
        assert!(net.shards.iter().any(|shard| shard.next_share().is_some()));
        net.apply(OPEN_SPACE);
        net.send(sender, out, b"the last", false);
        assert_eq!(net.messages(receiver).len() as u64, sent + 1, "nothing is lost");
        assert!(!refused(&net, sender) && !refused(&net, receiver));
    }
}

#[test]
fn exhausted_space_gets_no_credit_until_a_plan_restores_it() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let into = net.receiver(receiver, "anycast", 0);
        let (out, relay) = (net.sender(sender, Some("anycast")), net.sender(sender, None));
        net.send(sender, out, b"before", false);
        net.apply(&bounded(OPEN_SPACE, "\"exhausted\": true"));
        let late = net.sender(sender, Some("anycast"));
        net.pass(10_000);
        assert!(net.shards.iter().all(|shard| shard.next_share().is_none()), "no wake-up is needed");
        assert_eq!(net.sendable(sender, late), 0);
        assert_eq!(send_all(&mut net, sender, out, b"x", true), 999, "the credit granted before");
        net.grant(receiver, into, 2000);
        let messages = net.messages(receiver);
        assert_eq!((messages.len(), &messages[0].1[..]), (1000, &b"before"[..]), "waiting messages are delivered");
        net.settle(receiver, into, messages[0].0, &Outcome::Accepted);
        assert_eq!(net.outcomes(sender).len(), 1);
        assert_eq!(send_all(&mut net, sender, relay, &message_to("anycast", None, b"x"), true), 1000);
        for link in [out, relay, late] {
            assert_eq!(net.sendable(sender, link), 0);
        }
        net.apply(OPEN_SPACE);
        for link in [out, relay, late] {
            assert_eq!(net.sendable(sender, link), 1000);
        }
    }
}

#[test]
fn granted_credit_is_not_revoked_by_a_new_plan() {
    let mut net = Net::new(1, &with_rate(100));
    let (sender, receiver) = (pinned(&mut net, 0), pinned(&mut net, 0));
    net.receiver(receiver, "anycast", 100_000);
    let (out, other) = (net.sender(sender, Some("anycast")), net.sender(sender, Some("anycast")));
    send_all(&mut net, sender, out, b"x", true);
    assert_eq!(net.sendable(sender, other), 8, "it could be used already");
    net.apply(&bounded(OPEN_SPACE, "\"exhausted\": true"));
    assert_eq!(net.sendable(sender, other), 8);
}

#[test]
fn reconnecting_does_not_reset_the_rate() {
    let mut net = Net::new(1, &with_rate(10));
    let receiver = pinned(&mut net, 0);
    net.receiver(receiver, "anycast", 100_000);
    let mut sent = 0;
    for _ in 0..20 {
        let sender = pinned(&mut net, 0);
        let out = net.sender(sender, Some("anycast"));
        net.at_once(|net| {
            while net.sendable(sender, out) > 0 {
                net.send(sender, out, b"x", true);
                sent += 1;
            }
        });
        net.cut(sender);
    }
    assert!((10..=12).contains(&sent), "{sent}");
    net.cut(receiver);
    assert_eq!(net.shards[0].next_share(), None, "no waiting link remains");
}

#[test]
fn connection_that_moves_while_waiting_gets_credit_on_its_new_shard() {
    let mut net = Net::new(2, &with_rate(10));
    let (busy, receiver) = (pinned(&mut net, 1), pinned(&mut net, 1));
    net.receiver(receiver, "anycast", 100_000);
    let out = net.sender(busy, Some("anycast"));
    send_all(&mut net, busy, out, b"x", true);
    let mover = net.simple(0);
    assert!(net.shards[0].next_share().is_some());
    let out = net.sender(mover, Some("anycast"));
    assert_eq!((net.sendable(mover, out), net.shards[0].connection_count()), (0, 0));
    net.pass(2000);
    assert_eq!(net.sendable(mover, out), 1);
}

#[test]
fn a_space_counts_what_its_clients_send_and_receive() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let other = pinned(&mut net, consumer);
        net.receiver(receiver, "multicast", 100);
        net.receiver(other, "multicast", 100);
        let out = net.sender(sender, Some("multicast"));
        net.send(sender, out, &[1; 10], true);
        net.piece(sender, out, &[2; 20], true, true, true);
        net.piece(sender, out, &[3; 30], true, false, false);
        let space = net.space();
        let total = space.traffic().total();
        assert_eq!((total.messages_in, total.bytes_in), (2, 60));
        assert_eq!((total.messages_out, total.bytes_out), (4, 120));
        assert_eq!(space.taken().0, 3);
    }
}
