//! Successive plans: how deleted and declared addresses affect links.

use enmasse_amqp::types::{Error, Open, Outcome, condition};
use enmasse_router::shard::Peer;

use crate::net::{ClientEvent, Net, message_to, plain_init};
use crate::{LAYOUTS, OPEN_SPACE, accepted, pinned};

/// The open space with one more multicast address.
pub(crate) fn with_other(uid: &str) -> String {
    let limits = "\"limits\": {\"linkCapacity\": 1000, \"messageSize\": null}";
    let other = format!("{{\"uid\": \"{uid}\", \"name\": \"other\", \"type\": \"multicast\", {limits}}}");
    OPEN_SPACE.replacen("\"addresses\": [", &format!("\"addresses\": [{other},"), 1)
}

/// The open space with one more anycast address, of this name.
fn with_anycast(name: &str) -> String {
    with_other("1").replacen("\"other\", \"type\": \"multicast\"", &format!("\"{name}\", \"type\": \"anycast\""), 1)
}

fn bodies(net: &mut Net, client: usize) -> Vec<Vec<u8>> {
    net.messages(client).into_iter().map(|(_, body)| body).collect()
}

#[test]
fn links_at_an_address_that_is_deleted_are_closed() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, &with_other("1"));
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        net.receiver(receiver, "other", 10);
        net.sender(sender, Some("other"));
        net.apply(OPEN_SPACE);
        for client in [sender, receiver] {
            assert_eq!(net.detached(client).map(|error| error.condition), Some(condition::RESOURCE_DELETED));
        }
    }
}

#[test]
fn wildcard_receiver_keeps_its_other_addresses_when_one_is_deleted() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, &with_other("1"));
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        net.receiver(receiver, "+", 10);
        let (doomed, out) = (net.sender(sender, Some("other")), net.sender(sender, Some("multicast")));
        net.piece(sender, doomed, b"not to be ended", true, true, true);
        net.apply(OPEN_SPACE);
        assert_eq!(net.detached(receiver), None);
        assert_eq!(bodies(&mut net, receiver), [b"not to be ended"], "its delivery is aborted");
        net.send(sender, out, b"rest", true);
        assert_eq!(bodies(&mut net, receiver), [b"rest"], "once");
    }
}

#[test]
fn a_receiver_with_wildcards_loses_its_link_with_the_last_address() {
    let mut net = Net::new(1, &with_other("1"));
    let receiver = pinned(&mut net, 0);
    net.receiver(receiver, "oth/#", 10);
    assert_eq!(net.detached(receiver).map(|error| error.condition), Some(condition::NOT_FOUND));
    let receiver = pinned(&mut net, 0);
    net.receiver(receiver, "other/#", 10);
    net.apply(OPEN_SPACE);
    assert_eq!(net.detached(receiver).map(|error| error.condition), Some(condition::RESOURCE_DELETED));
}

#[test]
fn wildcard_receiver_gets_messages_of_addresses_declared_later() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let into = net.receiver(receiver, "#", 1);
        net.apply(&with_other("1"));
        let out = net.sender(sender, Some("other"));
        net.send(sender, out, b"one", true);
        assert_eq!(bodies(&mut net, receiver), [b"one"], "with the credit it has");
        net.apply(OPEN_SPACE);
        net.apply(&with_other("2"));
        net.grant(receiver, into, 5);
        let again = net.sender(sender, Some("other/x"));
        net.send(sender, again, b"another", true);
        assert_eq!(bodies(&mut net, receiver), [b"another"]);
        assert!(!net.clients[receiver].received.iter().any(|received| matches!(received, ClientEvent::Detach { .. })));
    }
}

#[test]
fn link_attached_by_a_shard_with_the_older_plan_is_detached_too() {
    for deleted_first in [0, 1] {
        let mut net = Net::new(2, &with_other("1"));
        let (here, there) = (pinned(&mut net, 0), pinned(&mut net, 1));
        net.receiver(here, "other", 10);
        net.plan(OPEN_SPACE);
        net.take_over(deleted_first);
        net.receiver(there, "other", 10);
        net.take_over(1 - deleted_first);
        net.run();
        let error = net.detached(there).expect("the link is detached");
        assert!([condition::RESOURCE_DELETED, condition::NOT_FOUND].contains(&error.condition), "{error:?}");
    }
}

#[test]
fn message_of_an_anonymous_link_to_a_deleted_address_is_settled() {
    let mut net = Net::new(2, &with_other("1"));
    let (receiver, sender) = (pinned(&mut net, 0), pinned(&mut net, 1));
    net.receiver(receiver, "other", 10);
    let out = net.sender(sender, None);
    net.send(sender, out, &message_to("other", None, b"opens the way"), true);
    net.at_once(|net| {
        net.plan(OPEN_SPACE);
        net.take_over(0);
        net.send(sender, out, &message_to("other", None, b"too late"), false);
    });
    assert_eq!(net.outcomes(sender).len(), 1);
}

#[test]
fn anonymous_link_uses_addresses_declared_later() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let above = net.receiver(receiver, "multicast/+", 10);
        let out = net.sender(sender, None);
        net.send(sender, out, &message_to("multicast/x", None, b"above"), false);
        let first = net.messages(receiver)[0].0;
        net.apply(&with_anycast("multicast/x"));
        let there = net.receiver(receiver, "multicast/x", 10);
        net.send(sender, out, &message_to("multicast/x", None, b"there"), true);
        let got = |received: &ClientEvent| matches!(received, ClientEvent::Message { link, .. } if *link == there);
        assert!(net.clients[receiver].received.iter().any(got), "at the address of that name");
        net.settle(receiver, above, first, &accepted());
        assert_eq!(net.outcomes(sender).len(), 1, "the earlier message is settled");
    }
}

#[test]
fn a_right_that_is_withdrawn_ends_at_an_anonymous_link_too() {
    let before = include_str!("../../../../vectors/plans/closed.json");
    let mut net = Net::new(1, before);
    let peer = Peer { encrypted: true, ..Peer::default() };
    let open = Open { container_id: "c".into(), ..Open::default() };
    let alice = net.client(0, peer, Some(plain_init("alice", "pencil")), open);
    net.begin(alice);
    let out = net.sender(alice, None);
    net.send(alice, out, &message_to("orders", None, b""), false);
    assert_eq!(net.outcomes(alice)[0].1, Outcome::Released, "no consumer");
    net.apply(&before.replace("\"send\"", "\"view\""));
    net.send(alice, out, &message_to("orders", None, b""), false);
    let recorded = net.outcomes(alice);
    let why = |error: &Error| error.condition == condition::UNAUTHORIZED_ACCESS;
    assert!(matches!(&recorded[..], [(_, Outcome::Rejected(Some(error)))] if why(error)), "{recorded:?}");
}
