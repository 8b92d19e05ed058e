//! Links with several attachments: receivers with wildcards, and links to the anonymous terminus.

use enmasse_amqp::types::condition;

use crate::net::{ClientEvent, Net, message_to};
use crate::plans::with_other;
use crate::stored::{with_queue, with_stream};
use crate::topics::with_topics;
use crate::{LAYOUTS, OPEN_SPACE, pinned};

#[test]
fn drain_of_a_wildcard_link_completes_after_every_address() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, &with_other("1"));
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let there = net.sender(sender, Some("other"));
        let into = net.receiver(receiver, "+", 0);
        let here = net.sender(sender, Some("multicast"));
        net.send(sender, there, b"there", true);
        net.send(sender, here, b"here", true);
        net.at_once(|net| {
            net.grant(receiver, into, 5);
            net.drain(receiver, into);
        });
        assert_eq!(net.messages(receiver).len(), 2);
        let answers = net.clients[receiver]
            .received
            .iter()
            .filter(|received| matches!(received, ClientEvent::Flow { drain: true, .. }));
        assert_eq!(answers.count(), 1);
        net.grant(receiver, into, 5);
        net.send(sender, there, b"there", true);
        assert_eq!(net.messages(receiver).len(), 1, "credit granted after the answer stays");
    }
}

#[test]
fn a_link_is_answered_when_the_homes_of_its_addresses_have_it() {
    for (name, homes) in [("multicast", 1), ("+", 2)] {
        let mut net = Net::new(3, &with_other("1"));
        let receiver = pinned(&mut net, 1);
        for (shard, address) in [(0, "multicast"), (2, "other")] {
            let producer = pinned(&mut net, shard);
            net.sender(producer, Some(address));
        }
        net.clients[receiver].received.clear();
        let answered = net.reaches_its_shard(receiver, |net| {
            net.receiver(receiver, name, 1);
        });
        assert!(!answered, "{homes} homes on other shards do not have it yet");
        net.run();
        let received: Vec<_> = net.clients[receiver].received.iter().collect();
        assert!(matches!(received[..], [ClientEvent::Attached { .. }]), "{received:?}");
    }
}

#[test]
fn links_of_every_kind_are_answered_when_the_home_of_their_address_has_them() {
    for address in ["anycast", "multicast", "orders", "news", "events"] {
        for sends in [false, true] {
            let mut net = match address {
                "orders" => with_queue(3),
                "news" => with_topics(3),
                "events" => with_stream(3),
                _ => Net::new(3, OPEN_SPACE),
            };
            let home = pinned(&mut net, 0);
            net.sender(home, Some(address));
            let client = pinned(&mut net, 1);
            net.clients[client].received.clear();
            let answered = net.reaches_its_shard(client, |net| {
                if sends {
                    net.sender(client, Some(address));
                } else {
                    net.receiver(client, address, 1);
                }
            });
            assert!(!answered, "{address}: its home does not have it yet");
            net.run();
            let first = net.clients[client].received.front();
            assert!(matches!(first, Some(ClientEvent::Attached { .. })), "{address}: {first:?}");
        }
    }
}

#[test]
fn attach_to_an_address_deleted_meanwhile_is_refused() {
    let mut net = Net::new(3, &with_other("1"));
    let (producer, receiver) = (pinned(&mut net, 0), pinned(&mut net, 1));
    net.sender(producer, Some("other"));
    net.clients[receiver].received.clear();
    let answered = net.reaches_its_shard(receiver, |net| {
        net.receiver(receiver, "other", 1);
    });
    assert!(!answered);
    net.apply(OPEN_SPACE);
    assert_eq!(net.detached(receiver).map(|error| error.condition), Some(condition::RESOURCE_DELETED));
    net.receiver(receiver, "multicast", 1);
    assert!(net.clients[receiver].received.iter().any(|received| matches!(received, ClientEvent::Attached { .. })));
}

#[test]
fn an_anonymous_link_is_held_until_all_its_addresses_may_continue() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let one = net.receiver(receiver, "anycast", 0);
        let other = net.receiver(receiver, "multicast", 0);
        let out = net.sender(sender, None);
        let body = vec![7; 1_200_000];
        net.at_once(|net| {
            for to in ["anycast", "multicast"] {
                net.send(sender, out, &message_to(to, None, &body), true);
            }
        });
        assert_eq!(net.sendable(sender, out), 0, "both hold it");
        net.grant(receiver, one, 1);
        assert_eq!(net.messages(receiver).len(), 1);
        assert_eq!(net.sendable(sender, out), 0, "the other still does");
        net.grant(receiver, other, 1);
        assert_eq!(net.messages(receiver).len(), 1);
        assert!(net.sendable(sender, out) > 0);
    }
}

#[test]
fn an_anonymous_link_that_names_many_addresses_keeps_its_window() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        net.receiver(receiver, "multicast/#", 10_000);
        let out = net.sender(sender, None);
        for round in 0..4 {
            net.at_once(|net| {
                for number in 0..400 {
                    let to = format!("multicast/{round}-{number}");
                    net.send(sender, out, &message_to(&to, None, b""), true);
                }
            });
            assert_eq!(net.messages(receiver).len(), 400, "in round {round}");
        }
    }
}

#[test]
fn partial_delivery_completes_although_messages_behind_it_are_held() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let into = net.receiver(receiver, "anycast", 1);
        let (long, behind) = (net.sender(sender, Some("anycast")), net.sender(sender, Some("anycast")));
        net.piece(sender, long, b"begins and ", true, true, true);
        net.send(sender, behind, &vec![1; 1_200_000], true);
        net.piece(sender, long, b"goes on", true, false, true);
        net.piece(sender, long, b"ends", true, false, false);
        assert_eq!(net.messages(receiver).len(), 1);
        assert_eq!(net.sendable(sender, long), 0, "then it is held");
        net.grant(receiver, into, 5);
        assert_eq!(net.messages(receiver).len(), 1);
        assert!(net.sendable(sender, long) > 0);
    }
}

/// Its home keeps an address until its last link has left, also one that was cut with deliveries.
#[test]
fn direct_address_without_links_follows_its_next_client() {
    for address in ["anycast", "multicast"] {
        let mut net = Net::new(3, OPEN_SPACE);
        for round in 0..6 {
            let (first, second) = (round % 3, (round + 1) % 3);
            let (receiver, sender) = (pinned(&mut net, first), pinned(&mut net, second));
            let into = net.receiver(receiver, address, 10);
            let out = net.sender(sender, Some(address));
            assert_eq!(net.entry(address).home.get(), Some(first as u16), "the shard of its first link");
            for text in ["settled", "unsettled"] {
                net.send(sender, out, text.as_bytes(), false);
            }
            let [(id, _), _] = net.messages(receiver)[..] else { panic!("two messages in round {round}") };
            net.settle(receiver, into, id, &crate::accepted());
            net.cut(receiver);
            assert_eq!(net.outcomes(sender).len(), 2, "the cut answers for the other delivery");
            assert_eq!(net.entry(address).home.get(), Some(first as u16), "a link is left");
            let other = pinned(&mut net, second);
            net.receiver(other, address, 10);
            net.send(sender, out, b"again", false);
            assert_eq!(net.messages(other).len(), 1);
            net.detach(sender, out);
            net.cut(other);
            assert_eq!(net.entry(address).home.get(), None);
        }
        let counted =
            net.shards.iter().flat_map(|shard| shard.address_stats()).filter(|(key, _)| *key == net.entry(address).key);
        assert_eq!(counted.map(|(_, stats)| stats.delivered).sum::<u64>(), 18);
    }
}
