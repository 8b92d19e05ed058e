//! The settings that the answer to an attach reports (2.6.3), and dynamic nodes that are topics.

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{
    Attach, Lifetime, Role, Source, Symbol, Target, TerminusDurability, TerminusExpiryPolicy, condition,
};

use crate::net::{ClientEvent, Net, blank, message_to};
use crate::{LAYOUTS, OPEN_SPACE, accepted, pinned};

fn answer(net: &Net, client: usize, of: LinkId) -> Attach {
    let answered = net.clients[client].received.iter().find_map(|received| match received {
        ClientEvent::Attached { link, attach } if *link == of => Some((**attach).clone()),
        _ => None,
    });
    answered.expect("the attach is answered")
}

fn symbols(names: &[&str]) -> Vec<Symbol> {
    names.iter().map(|name| Symbol::from(*name)).collect()
}

/// A receiver that requests everything.
fn demanding(address: &str, capabilities: &[&str]) -> Attach {
    let mut attach = blank(Role::Receiver, format!("r{address}"));
    attach.source = Some(Box::new(Source {
        address: Some(address.to_owned()),
        durable: TerminusDurability::UnsettledState,
        expiry_policy: TerminusExpiryPolicy::Never,
        timeout_s: 3600,
        capabilities: symbols(capabilities),
        ..Source::default()
    }));
    attach
}

#[test]
fn answered_source_reports_no_durability_at_a_direct_address() {
    let mut net = Net::new(1, OPEN_SPACE);
    let client = net.simple(0);
    let all = ["queue", "topic", "shared", "global", "temporary-queue", "temporary-topic"];
    for (address, holds) in [("anycast", "queue"), ("multicast", "topic")] {
        let link = net.attach(client, demanding(address, &all));
        let source = answer(&net, client, link).source.unwrap();
        assert_eq!((source.durable, source.timeout_s), (TerminusDurability::None, 0));
        assert_eq!(source.expiry_policy, TerminusExpiryPolicy::LinkDetach);
        assert_eq!(source.capabilities, symbols(&[holds]));
    }
}

#[test]
fn answered_target_reports_no_durability_at_a_direct_address() {
    let mut net = Net::new(1, OPEN_SPACE);
    let client = net.simple(0);
    for (address, holds) in [(Some("anycast"), &["queue"][..]), (Some("multicast"), &["topic"]), (None, &[])] {
        let mut attach = blank(Role::Sender, format!("s{address:?}"));
        attach.target = Some(Box::new(Target::Node {
            address: address.map(str::to_owned),
            durable: TerminusDurability::Configuration,
            expiry_policy: TerminusExpiryPolicy::ConnectionClose,
            timeout_s: 9,
            dynamic: false,
            dynamic_node_properties: Vec::new(),
            capabilities: symbols(&["queue", "topic", "shared"]),
        }));
        let link = net.attach(client, attach);
        let Some(Target::Node { durable, expiry_policy, timeout_s, capabilities, .. }) =
            answer(&net, client, link).target.map(|target| *target)
        else {
            panic!("a target");
        };
        assert_eq!((durable, expiry_policy), (TerminusDurability::None, TerminusExpiryPolicy::LinkDetach));
        assert_eq!((timeout_s, capabilities), (0, symbols(holds)), "{address:?}");
    }
}

/// A dynamic node of a sender, as for JMS temporary destinations: its name and capabilities.
fn made(net: &mut Net, client: usize, capabilities: &[&str]) -> (String, Vec<Symbol>) {
    let mut attach = blank(Role::Sender, "temporary".to_owned());
    let mut target = Target::node(None);
    if let Target::Node { dynamic, capabilities: requested, .. } = &mut target {
        (*dynamic, *requested) = (true, symbols(capabilities));
    }
    attach.target = Some(Box::new(target));
    let link = net.attach(client, attach);
    match answer(net, client, link).target.map(|target| *target) {
        Some(Target::Node { address: Some(name), dynamic: true, dynamic_node_properties, capabilities, .. }) => {
            let [(key, policy)] = &dynamic_node_properties[..] else { panic!("{dynamic_node_properties:?}") };
            assert_eq!((key.as_str(), Lifetime::from_value(policy)), ("lifetime-policy", Some(Lifetime::OnClose)));
            (name, capabilities)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn temporary_topic_copies_to_each_receiver_and_temporary_queue_sends_to_one() {
    for (shards, producer, consumer) in LAYOUTS {
        for (requested, copies) in [("temporary-topic", 2), ("topic", 2), ("temporary-queue", 1), ("queue", 1)] {
            let mut net = Net::new(shards, OPEN_SPACE);
            let (maker, sender) = (pinned(&mut net, consumer), pinned(&mut net, producer));
            let (name, holds) = made(&mut net, maker, &[requested]);
            assert_eq!(holds, symbols(&[requested]));
            for number in 0..2 {
                let mut attach = demanding(&name, &[requested]);
                attach.name = format!("r{number}");
                let link = net.attach(maker, attach);
                net.grant(maker, link, 5);
            }
            let out = net.sender(sender, Some(&name));
            net.send(sender, out, &message_to(&name, None, b"x"), true);
            assert_eq!(net.messages(maker).len(), copies, "{requested}");
            let anywhere = net.sender(sender, None);
            net.send(sender, anywhere, &message_to(&name, None, b"x"), true);
            assert_eq!(net.messages(maker).len(), copies, "{requested}");
        }
    }
}

/// A message whose annotations move its `to` by `bytes`.
fn partial_to(to: &str, bytes: usize) -> Vec<u8> {
    let mut message = vec![0x00, 0x53, 0x72, 0xd1];
    message.extend_from_slice(&(bytes as u32 + 4 + 3 + 5).to_be_bytes());
    message.extend_from_slice(&2u32.to_be_bytes());
    message.extend_from_slice(b"\xa3\x01a\xb0");
    message.extend_from_slice(&(bytes as u32).to_be_bytes());
    message.resize(message.len() + bytes, 7);
    message.extend(message_to(to, None, b"body"));
    message
}

#[test]
fn a_message_whose_to_is_not_in_its_first_frame_is_routed() {
    for (shards, producer, consumer) in LAYOUTS {
        for (annotations, frame) in [(500, 100), (5_000, 512), (200_000, 4096), (120, 128)] {
            let mut net = Net::new(shards, OPEN_SPACE);
            let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
            let link = net.receiver(receiver, "anycast", 10);
            let out = net.sender(sender, None);
            let message = partial_to("anycast", annotations);
            let pieces: Vec<_> = message.chunks(frame).collect();
            for (number, piece) in pieces.iter().enumerate() {
                net.piece(sender, out, piece, false, number == 0, number + 1 < pieces.len());
            }
            let got = net.messages(receiver);
            assert_eq!(got.len(), 1);
            assert!(got[0].1 == message, "{annotations} {frame}: it is unchanged");
            net.settle(receiver, link, got[0].0, &accepted());
            assert_eq!(net.outcomes(sender), [(0, accepted())]);
        }
    }
}

#[test]
fn message_without_to_within_the_byte_limit_is_rejected() {
    let mut net = Net::new(1, OPEN_SPACE);
    let sender = net.simple(0);
    let out = net.sender(sender, None);
    let message = partial_to("anycast", 300_000);
    let pieces: Vec<_> = message.chunks(8192).collect();
    for (number, piece) in pieces.iter().enumerate() {
        net.piece(sender, out, piece, false, number == 0, number + 1 < pieces.len());
    }
    let outcomes = net.outcomes(sender);
    let [(0, enmasse_amqp::types::Outcome::Rejected(Some(error)))] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(error.condition, condition::INVALID_FIELD);
    net.receiver(sender, "anycast", 1);
    net.send(sender, out, &message_to("anycast", None, b"next"), true);
    assert_eq!(net.messages(sender).len(), 1, "the link continues");
}

#[test]
fn message_in_flight_when_credit_is_revoked_is_released() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let out = net.sender(sender, Some("anycast"));
        let into = net.receiver(receiver, "anycast", 0);
        assert_eq!(net.sendable(sender, out), 1000);
        net.at_once(|net| {
            net.detach(receiver, into);
            net.send(sender, out, b"on its way", false);
        });
        let outcomes = net.outcomes(sender);
        assert!(matches!(outcomes[..], [(_, enmasse_amqp::types::Outcome::Released)]), "{outcomes:?}");
        assert_eq!(net.detached(sender), None, "credit was revoked while the message was in flight");
    }
}

#[test]
fn used_credit_is_not_revoked_and_messages_without_a_consumer_are_released() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let out = net.sender(sender, Some("anycast"));
        let into = net.receiver(receiver, "anycast", 0);
        net.send(sender, out, b"waits", false);
        net.detach(receiver, into);
        assert_eq!(net.sendable(sender, out), 999);
        for _ in 0..999 {
            net.send(sender, out, b"no consumer", false);
        }
        let outcomes = net.outcomes(sender);
        let released = |(_, outcome): &(_, _)| *outcome == enmasse_amqp::types::Outcome::Released;
        assert!(outcomes.len() == 1000 && outcomes.iter().all(released), "{outcomes:?}");
        assert_eq!(net.sendable(sender, out), 0, "nothing more is granted");
        net.receiver(receiver, "anycast", 0);
        assert_eq!(net.sendable(sender, out), 1000);
        assert_eq!(net.detached(sender), None);
    }
}
