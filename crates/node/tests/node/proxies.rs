//! Connections of proxies that state the address of their client (PROXY protocol, version 2).

use std::io::{Read, Write};
use std::net::TcpStream;

use enmasse_node::EventKind;
use enmasse_node::ListenerKind::{self, Amqp};
use enmasse_node::{Limits, NodeConfig, NodeEvent};

use crate::control::guarded_plan;
use crate::harness::{Client, KINDS, OPEN_SPACE, Site, workers};

/// PROXY, TCP over IPv4, from 192.0.2.7:4711 to 198.51.100.1:5672, with a TLV.
const HEADER: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x13\xc0\0\x02\x07\xc6\x33\x64\x01\x12\x67\x16\x28\x04\0\x04abcd";
/// LOCAL, with the same block.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x11\0\x0c\xc0\0\x02\x07\xc6\x33\x64\x01\x12\x67\x16\x28";
const CLIENT: &str = "192.0.2.7:4711";

fn behind(proxies: &str, plan: &str) -> Site {
    Site::new(&NodeConfig { proxies: vec![proxies.parse().unwrap()], ..workers(2) }, plan)
}

fn after(site: &Site, kind: ListenerKind, header: &[u8]) -> TcpStream {
    let mut socket = site.socket(kind);
    socket.write_all(header).unwrap();
    socket
}

fn handshake_failure(event: &NodeEvent) -> Option<String> {
    match &event.what {
        EventKind::HandshakeFailed { reason } => Some(reason.clone()),
        _ => None,
    }
}

#[test]
fn connection_is_that_of_the_client_on_each_listener() {
    let site = behind("127.0.0.0/8", OPEN_SPACE);
    for kind in KINDS {
        let mut client = Client::start(site.stream_on(after(&site, kind, HEADER), kind), None);
        client.receiver("anycast", 1);
        let line = site.node.connections().unwrap().pop().unwrap();
        assert_eq!(line.address.as_deref(), Some(CLIENT), "{kind:?}");
        let opened = |event: &NodeEvent| matches!(event.what, EventKind::Opened { .. }).then(|| event.peer.clone());
        assert_eq!(site.event(opened).as_deref(), Some(CLIENT));
    }
}

#[test]
fn bytes_of_the_client_may_come_with_the_header_or_the_header_in_pieces() {
    let site = behind("127.0.0.1/32", OPEN_SPACE);
    let answer = |pieces: &[&[u8]]| {
        let mut socket = site.socket(Amqp);
        for piece in pieces {
            socket.write_all(piece).unwrap();
        }
        let mut header = [0; 8];
        socket.read_exact(&mut header).unwrap();
        header
    };
    let bytes = [HEADER, b"AMQP\0\x01\0\0"].concat();
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(answer(&[&bytes]), *b"AMQP\0\x01\0\0");
    assert_eq!(answer(&single), *b"AMQP\0\x01\0\0");
}

#[test]
fn proxy_that_speaks_for_itself_keeps_its_own_address() {
    let site = behind("127.0.0.1/32", OPEN_SPACE);
    let socket = after(&site, Amqp, LOCAL);
    let own = socket.local_addr().unwrap().to_string();
    let _client = Client::start(site.stream_on(socket, Amqp), None);
    assert_eq!(site.node.connections().unwrap()[0].address, Some(own));
}

/// The client is on another machine: its password would cross a network in clear text.
#[test]
fn client_of_a_proxy_on_this_machine_is_not_on_this_machine() {
    let site = behind("127.0.0.1/32", &guarded_plan());
    let mechanisms = |header: &[u8]| {
        let mut socket = after(&site, Amqp, &[header, b"AMQP\x03\x01\0\0"].concat());
        let mut frame = [0; 12];
        socket.read_exact(&mut frame).unwrap();
        let mut body = vec![0; usize::from(frame[11]) - 4];
        socket.read_exact(&mut body).unwrap();
        String::from_utf8_lossy(&body).into_owned()
    };
    assert!(mechanisms(LOCAL).contains("PLAIN"));
    let remote = mechanisms(HEADER);
    assert!(remote.contains("SCRAM-SHA-256") && !remote.contains("PLAIN"), "{remote}");
}

#[test]
fn missing_or_wrong_header_closes_the_connection_and_names_the_remedy() {
    let site = behind("127.0.0.1/32", OPEN_SPACE);
    let faults: [(&[u8], &str); 3] = [
        (b"AMQP\0\x01\0\0", "--proxy-protocol"),
        (b"PROXY TCP4 192.0.2.7 192.0.2.8 4711 5672\r\n", "send-proxy-v2"),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x02ab", "needs 12"),
    ];
    for (bytes, remedy) in faults {
        let mut answer = Vec::new();
        after(&site, Amqp, bytes).read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"", "nothing is answered");
        let reason = site.event(handshake_failure);
        assert!(reason.starts_with("PROXY protocol: ") && reason.contains(remedy), "{reason}");
    }
    assert_eq!(site.stats().workers.iter().map(|worker| worker.handshakes_failed).sum::<u64>(), 3);
    assert_eq!(site.stats().connections, 0);
}

#[test]
fn header_of_a_peer_that_is_not_listed_is_not_read() {
    let site = behind("192.0.2.0/24", OPEN_SPACE);
    let mut answer = Vec::new();
    after(&site, Amqp, HEADER).read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"AMQP"), "the protocol spoken here: {answer:?}");
    let mut client = site.client(Amqp);
    client.receiver("anycast", 1);
    assert!(site.node.connections().unwrap()[0].address.as_ref().unwrap().starts_with("127.0.0.1:"));
}

#[test]
fn header_that_does_not_come_times_out() {
    let limits = Limits { handshake_timeout_ms: 200, ..Limits::default() };
    let config = NodeConfig { proxies: vec!["127.0.0.1/32".parse().unwrap()], limits, ..workers(1) };
    let site = Site::open(&config);
    for begin in [&b""[..], &HEADER[..20]] {
        let mut socket = after(&site, Amqp, begin);
        assert_eq!(socket.read(&mut [0; 8]).unwrap(), 0);
    }
    assert_eq!(site.stats().workers[0].handshakes_timed_out, 2);
}

#[test]
fn networks_that_are_none_are_refused_at_start() {
    let refused = NodeConfig::from_json(r#"{"proxies": ["10.0.0.0/33"]}"#).unwrap_err().to_string();
    assert!(refused.contains("IP address"), "{refused}");
}
