//! Temporary queues and topics: dynamic nodes that hold messages (`docs/contracts.md` 6).

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Attach, Error, Outcome, Role, Source, Symbol, Target, condition};

use crate::net::{ClientEvent, Net, blank, message_to};
use crate::{LAYOUTS, OPEN_SPACE, accepted, pinned};

/// How a node is made: by JMS clients through a sender, by most others through a receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Making {
    Sender,
    Receiver,
}

fn symbols(names: &[&str]) -> Vec<Symbol> {
    names.iter().map(|name| Symbol::from(*name)).collect()
}

/// A dynamic node with these capabilities; its link, and its name.
pub(crate) fn made(net: &mut Net, client: usize, making: Making, capabilities: &[&str]) -> (LinkId, String) {
    let name = format!("node{}", net.clients[client].received.len());
    let requested = symbols(capabilities);
    let attach = match making {
        Making::Sender => {
            let mut target = Target::node(None);
            if let Target::Node { dynamic, capabilities, .. } = &mut target {
                (*dynamic, *capabilities) = (true, requested.clone());
            }
            Attach { target: Some(Box::new(target)), ..blank(Role::Sender, name) }
        }
        Making::Receiver => {
            let source = Source { dynamic: true, capabilities: requested.clone(), ..Source::default() };
            Attach { source: Some(Box::new(source)), ..blank(Role::Receiver, name) }
        }
    };
    let link = net.attach(client, attach);
    let answer = net.clients[client].received.iter().rev().find_map(|received| match received {
        ClientEvent::Attached { link: of, attach } if *of == link => Some(attach),
        _ => None,
    });
    let answer = answer.expect("an answer");
    let (name, held) = match (making, answer.source.as_deref(), answer.target.as_deref()) {
        (Making::Receiver, Some(source), _) => (source.address.clone(), source.capabilities.clone()),
        (Making::Sender, _, Some(Target::Node { address, capabilities, .. })) => {
            (address.clone(), capabilities.clone())
        }
        _ => panic!("{answer:?}"),
    };
    assert_eq!(held, requested, "every requested capability is granted");
    (link, name.expect("a name"))
}

fn queue(net: &mut Net, client: usize) -> String {
    made(net, client, Making::Sender, &["temporary-queue"]).1
}

fn rejection(outcome: &Outcome) -> Option<&Error> {
    if let Outcome::Rejected(Some(error)) = outcome { Some(error) } else { None }
}

/// The outcomes of a client, each by its condition.
fn outcomes(net: &mut Net, client: usize) -> Vec<String> {
    let named = |(_, outcome): (u32, Outcome)| match rejection(&outcome) {
        Some(error) => error.condition.as_str().to_owned(),
        None => format!("{outcome:?}"),
    };
    net.outcomes(client).into_iter().map(named).collect()
}

fn bodies(net: &mut Net, client: usize) -> Vec<Vec<u8>> {
    net.messages(client).into_iter().map(|(_, body)| body).collect()
}

#[test]
fn a_temporary_queue_keeps_messages_before_there_is_a_consumer() {
    for (shards, producer, consumer) in LAYOUTS {
        for making in [Making::Sender, Making::Receiver] {
            for capabilities in [&[][..], &["queue"], &["temporary-queue"], &["temporary-queue", "queue"]] {
                let mut net = Net::new(shards, OPEN_SPACE);
                let (maker, sender) = (pinned(&mut net, consumer), pinned(&mut net, producer));
                let (_, name) = made(&mut net, maker, making, capabilities);
                let bodies_sent: Vec<Vec<u8>> = (0..4).map(|number| message_to(&name, None, &[number])).collect();
                let links = [net.sender(sender, Some(&name)), net.sender(sender, None)];
                for (number, body) in bodies_sent.iter().enumerate() {
                    net.send(sender, links[number % 2], body, false);
                }
                assert_eq!(outcomes(&mut net, sender), ["Accepted"; 4], "no consumer is needed");
                let into = net.receiver(maker, &name, 10);
                let messages = net.messages(maker);
                assert_eq!(messages.iter().map(|(_, body)| body.clone()).collect::<Vec<_>>(), bodies_sent);
                net.settle(maker, into, messages[0].0, &Outcome::Released);
                assert_eq!(bodies(&mut net, maker), bodies_sent[..1], "it is redelivered");
            }
        }
    }
}

#[test]
fn connection_sends_to_and_receives_from_its_own_temporary_queue() {
    let mut net = Net::new(1, OPEN_SPACE);
    let client = net.simple(0);
    let name = queue(&mut net, client);
    let out = net.sender(client, Some(&name));
    net.send(client, out, &message_to(&name, None, b"to myself"), false);
    assert_eq!(outcomes(&mut net, client), ["Accepted"]);
    net.receiver(client, &name, 1);
    assert_eq!(bodies(&mut net, client), [message_to(&name, None, b"to myself")]);
}

#[test]
fn full_temporary_queue_stops_named_senders_and_rejects_anonymous_ones() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (maker, sender) = (pinned(&mut net, consumer), pinned(&mut net, producer));
        let (full, other) = (queue(&mut net, maker), queue(&mut net, maker));
        let (named, anywhere) = (net.sender(sender, Some(&full)), net.sender(sender, None));
        let mut sent = 0;
        while net.sendable(sender, named) > 0 {
            net.send(sender, named, b"\0\x53\x75\xa0\x01x", false);
            sent += 1;
        }
        assert_eq!(sent, 1000);
        assert!(outcomes(&mut net, sender).iter().all(|outcome| outcome == "Accepted"));
        for settled in [false, true] {
            net.send(sender, anywhere, &message_to(&full, None, b"beyond"), settled);
            net.send(sender, anywhere, &message_to(&other, None, b"goes on"), settled);
        }
        assert_eq!(outcomes(&mut net, sender), ["amqp:resource-limit-exceeded", "Accepted"]);
        let into = net.receiver(maker, &full, 600);
        for (id, _) in net.messages(maker) {
            net.settle(maker, into, id, &accepted());
        }
        assert!(net.sendable(sender, named) > 0, "there is room again");
        net.send(sender, anywhere, &message_to(&full, None, b"fits"), false);
        assert_eq!(outcomes(&mut net, sender), ["Accepted"]);
    }
}

#[test]
fn temporary_queue_is_bounded_in_bytes_except_for_one_message() {
    let mut net = Net::new(2, OPEN_SPACE);
    let (maker, sender) = (pinned(&mut net, 0), pinned(&mut net, 1));
    let (many, one) = (queue(&mut net, maker), queue(&mut net, maker));
    let out = net.sender(sender, None);
    for _ in 0..11 {
        net.send(sender, out, &message_to(&many, None, &[7; 100_000]), false);
    }
    let expected = [vec!["Accepted"; 10], vec!["amqp:resource-limit-exceeded"]].concat();
    assert_eq!(outcomes(&mut net, sender), expected);
    for _ in 0..2 {
        net.send(sender, out, &message_to(&one, None, &vec![7; 3 << 20]), false);
    }
    assert_eq!(outcomes(&mut net, sender), ["Accepted", "amqp:resource-limit-exceeded"]);
}

#[test]
fn temporary_queues_of_a_connection_share_a_byte_budget() {
    let mut net = Net::new(2, OPEN_SPACE);
    let (maker, other, sender) = (pinned(&mut net, 0), pinned(&mut net, 0), pinned(&mut net, 1));
    let out = net.sender(sender, None);
    let mut kept = 0;
    let nodes: Vec<(LinkId, String)> =
        (0..40).map(|_| made(&mut net, maker, Making::Sender, &["temporary-queue"])).collect();
    for (_, name) in &nodes {
        net.send(sender, out, &message_to(name, None, &vec![7; 1 << 19]), false);
        kept += outcomes(&mut net, sender).iter().filter(|outcome| *outcome == "Accepted").count();
    }
    assert_eq!(kept, 31, "16 MiB, with the overhead of each message");
    let elsewhere = queue(&mut net, other);
    net.send(sender, out, &message_to(&elsewhere, None, b"of another connection"), false);
    assert_eq!(outcomes(&mut net, sender), ["Accepted"]);
    net.detach(maker, nodes[0].0);
    net.send(sender, out, &message_to(&nodes[39].1, None, b"fits now"), false);
    assert_eq!(outcomes(&mut net, sender), ["Accepted"], "the bytes of a deleted queue are released");
}

#[test]
fn a_node_ends_with_the_link_that_made_it_or_with_its_connection() {
    for (shards, producer, consumer) in LAYOUTS {
        for capability in ["temporary-queue", "temporary-topic", "direct"] {
            for cut in [false, true] {
                let mut net = Net::new(shards, OPEN_SPACE);
                let (maker, sender) = (pinned(&mut net, consumer), pinned(&mut net, producer));
                let (link, name) = made(&mut net, maker, Making::Sender, &[capability]);
                let (_, anywhere) = (net.sender(sender, Some(&name)), net.sender(sender, None));
                net.send(sender, anywhere, &message_to(&name, None, b"first"), true);
                if cut {
                    net.cut(maker);
                } else {
                    net.detach(maker, link);
                }
                assert_eq!(net.detached(sender).map(|error| error.condition), Some(condition::RESOURCE_DELETED));
                net.clients[sender].received.clear();
                net.send(sender, anywhere, &message_to(&name, None, b"late"), false);
                assert_eq!(outcomes(&mut net, sender), ["amqp:not-found"]);
                net.sender(sender, Some(&name));
                assert_eq!(net.detached(sender).map(|error| error.condition), Some(condition::NOT_FOUND));
            }
        }
    }
}

#[test]
fn message_in_flight_to_a_deleted_dynamic_node_is_refused() {
    for (shards, producer, consumer) in LAYOUTS {
        for anonymous in [false, true] {
            let mut net = Net::new(shards, OPEN_SPACE);
            let (maker, sender) = (pinned(&mut net, consumer), pinned(&mut net, producer));
            let (link, name) = made(&mut net, maker, Making::Receiver, &[]);
            let out = net.sender(sender, if anonymous { None } else { Some(&name) });
            net.at_once(|net| {
                net.detach(maker, link);
                net.send(sender, out, &message_to(&name, None, b"late"), false);
            });
            if anonymous {
                let outcomes = outcomes(&mut net, sender);
                assert!(matches!(&outcomes[..], [one] if one == "Released" || one == "amqp:not-found"), "{outcomes:?}");
            } else {
                assert_eq!(net.detached(sender).map(|error| error.condition), Some(condition::RESOURCE_DELETED));
            }
        }
    }
}

#[test]
fn only_the_connection_that_made_a_node_receives_from_it() {
    for (shards, other, maker) in LAYOUTS {
        for capability in ["temporary-queue", "temporary-topic", "direct"] {
            let mut net = Net::new(shards, OPEN_SPACE);
            let (maker, other) = (pinned(&mut net, maker), pinned(&mut net, other));
            let (_, name) = made(&mut net, maker, Making::Sender, &[capability]);
            net.receiver(other, &name, 1);
            assert_eq!(net.detached(other).map(|error| error.condition), Some(condition::RESOURCE_LOCKED));
        }
    }
}

#[test]
fn direct_dynamic_node_keeps_no_message() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (maker, sender) = (pinned(&mut net, consumer), pinned(&mut net, producer));
        let (_, name) = made(&mut net, maker, Making::Sender, &["direct"]);
        let (named, anywhere) = (net.sender(sender, Some(&name)), net.sender(sender, None));
        assert_eq!(net.sendable(sender, named), 0);
        net.send(sender, anywhere, &message_to(&name, None, b"x"), false);
        assert_eq!(outcomes(&mut net, sender), ["Released"]);
        let into = net.receiver(maker, &name, 1);
        net.send(sender, named, b"x", false);
        assert_eq!(outcomes(&mut net, sender), Vec::<String>::new(), "the consumer's outcome is the producer's");
        let (id, _) = net.messages(maker).pop().expect("a message");
        net.settle(maker, into, id, &Outcome::Released);
        assert_eq!(outcomes(&mut net, sender), ["Released"]);
    }
}

#[test]
fn a_temporary_topic_without_a_subscriber_accepts_and_drops() {
    for (shards, producer, consumer) in LAYOUTS {
        for capability in ["temporary-topic", "topic"] {
            let mut net = Net::new(shards, OPEN_SPACE);
            let (maker, sender) = (pinned(&mut net, consumer), pinned(&mut net, producer));
            let (_, name) = made(&mut net, maker, Making::Sender, &[capability]);
            let (named, anywhere) = (net.sender(sender, Some(&name)), net.sender(sender, None));
            let body = message_to(&name, None, b"x");
            net.send(sender, named, &body, false);
            net.send(sender, anywhere, &body, false);
            assert_eq!(outcomes(&mut net, sender), ["Accepted"; 2]);
            net.receiver(maker, &name, 10);
            assert_eq!(bodies(&mut net, maker), Vec::<Vec<u8>>::new());
            net.send(sender, named, &body, false);
            assert_eq!(bodies(&mut net, maker), [body]);
        }
    }
}
