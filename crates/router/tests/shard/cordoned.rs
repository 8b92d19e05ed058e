//! A cordoned node refuses clients that log in, and keeps the others.

use enmasse_amqp::types::{Open, condition};
use enmasse_mqtt::codec::Version;
use enmasse_router::shard::{Fact, Peer};

use crate::OPEN_SPACE;
use crate::net::Net;

fn open(container: &str) -> Open {
    Open { container_id: container.into(), ..Open::default() }
}

/// CONNECT with a clean start and without keep-alive; returns the answer of the node.
fn connect(net: &mut Net, version: Version) -> Vec<u8> {
    let device = net.device(0);
    let (level, properties): (u8, &[u8]) = match version {
        Version::V5 => (5, &[0]),
        _ => (4, &[]),
    };
    let body = [&b"\0\x04MQTT"[..], &[level, 2, 0, 0], properties, b"\0\x03one"].concat();
    net.tell(device, &[&[0x10, body.len() as u8][..], &body].concat());
    std::mem::take(&mut net.devices[device].received)
}

#[test]
fn cordoned_node_refuses_new_clients_and_keeps_the_others() {
    let mut net = Net::new(1, OPEN_SPACE);
    let before = net.simple(0);
    let receiver = net.receiver(before, "anycast", 1);
    net.cordon(true);
    net.facts.clear();
    let after = net.plain(0, open("late"));
    let error = net.closed(after).flatten().expect("it is closed with an error");
    assert_eq!(error.condition, condition::CONNECTION_FORCED);
    assert!(error.description.is_some_and(|text| text.contains("cordoned")));
    let is_told = |fact: &Fact| matches!(fact, Fact::LoginRefused(refusal) if refusal.reason.contains("cordoned"));
    assert!(net.facts.iter().any(is_told));
    // The connected client attaches, sends and receives as before.
    let sender = net.sender(before, Some("anycast"));
    net.send(before, sender, b"hello", true);
    assert_eq!(net.messages(before).len(), 1);
    net.detach(before, receiver);
    net.cordon(false);
    let again = net.plain(0, open("late"));
    assert_eq!(net.closed(again), None);
}

#[test]
fn cordoned_node_tells_mqtt_clients_to_use_another_server() {
    let mut net = Net::new(1, OPEN_SPACE);
    net.cordon(true);
    let answer = connect(&mut net, Version::V5);
    assert_eq!((answer[0], answer[3]), (0x20, 0x9c), "{answer:x?}");
    assert_eq!(connect(&mut net, Version::V311), [0x20, 2, 0, 3]);
    net.cordon(false);
    assert_eq!(connect(&mut net, Version::V311), [0x20, 2, 0, 0]);
}

#[test]
fn cordoned_node_admits_sessions_of_its_own_process() {
    let mut net = Net::new(1, OPEN_SPACE);
    net.cordon(true);
    let peer = Peer { vouched: Some(("default.default".to_owned(), None)), ..Peer::default() };
    let inside = net.client(0, peer, None, open("inside"));
    assert_eq!(net.closed(inside), None);
}
