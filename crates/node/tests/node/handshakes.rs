//! Peers that fail the handshake, and the results that handshakes report.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use enmasse_node::ListenerKind::{self, Amqp, Amqps, Ws, Wss};
use enmasse_node::{EventKind, Limits, NodeConfig, SpaceCertificates};

use crate::harness::{Client, KINDS, OPEN_SPACE, PATIENCE, Site, tls, tls_to, workers};
use crate::testing::Authority;

const LIMIT: Duration = Duration::from_millis(200);

fn impatient() -> Site {
    let limits = Limits { handshake_timeout_ms: LIMIT.as_millis() as u64, ..Limits::default() };
    Site::open(&NodeConfig { workers: 1, limits, ..NodeConfig::default() })
}

/// Time until the node ends the stream, while `words` supplies one byte for each empty read.
fn time_to_end(site: &Site, kind: ListenerKind, mut words: impl Iterator<Item = u8>) -> Duration {
    let mut socket = site.socket(kind);
    let start = Instant::now();
    socket.set_read_timeout(Some(LIMIT / 20)).unwrap();
    loop {
        match socket.read(&mut [0; 256]) {
            Ok(0) => return start.elapsed(),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if let Some(byte) = words.next() {
                    let _ = socket.write_all(&[byte]);
                }
            }
            Err(_) => return start.elapsed(),
        }
        assert!(start.elapsed() < PATIENCE, "{kind:?}: the handshake does not time out");
    }
}

#[test]
fn silent_peer_is_dropped_at_the_handshake_timeout_on_each_listener() {
    let site = impatient();
    for kind in KINDS {
        let waited = time_to_end(&site, kind, std::iter::empty());
        assert!(waited >= LIMIT && waited < LIMIT * 20, "{kind:?}: {waited:?}");
    }
    assert_eq!(site.stats().workers[0].handshakes_timed_out, 3, "all but plain AMQP");
    assert_eq!(site.stats().connections, 0);
}

#[test]
fn slow_bytes_do_not_extend_the_handshake_timeout() {
    let site = impatient();
    let request = b"GET / HTTP/1.1\r\nX-Slow: ".iter().copied().chain(std::iter::repeat(b'x'));
    assert!(time_to_end(&site, Ws, request) < LIMIT * 20);
    let header = b"AMQP\x00\x01\x00\x00\x00\x00\x01\x00\x02\x00\x00\x00".iter().copied();
    assert!(time_to_end(&site, Amqp, header) < LIMIT * 20);
    // A TLS record of 16 KiB that never ends.
    let record = [22, 3, 1, 63, 255, 1, 0, 63, 251].into_iter().chain(std::iter::repeat(0));
    assert!(time_to_end(&site, Amqps, record) < LIMIT * 20);
    assert_eq!(site.stats().connections, 0);
}

#[test]
fn wrong_protocol_is_answered_to_the_peer_and_reported_as_an_event() {
    let site = Site::open(&workers(1));
    let failure = |event: &enmasse_node::NodeEvent| match &event.what {
        EventKind::HandshakeFailed { reason } => Some(reason.clone()),
        _ => None,
    };
    let mut answer = String::new();
    let mut socket = site.socket(Ws);
    socket.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    assert!(site.event(failure).starts_with("WebSocket: "));

    let mut socket = site.socket(Amqps);
    socket.write_all(b"AMQP\x00\x01\x00\x00").unwrap();
    let mut alert = Vec::new();
    socket.read_to_end(&mut alert).unwrap();
    assert_eq!(alert.first(), Some(&21), "a TLS alert: {alert:?}");
    assert!(site.event(failure).starts_with("TLS: "));

    let mut socket = site.socket(Amqp);
    socket.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut header = Vec::new();
    socket.read_to_end(&mut header).unwrap();
    assert!(header.starts_with(b"AMQP"), "the protocol spoken here: {header:?}");
    assert_eq!(site.stats().workers[0].handshakes_failed, 2);
}

#[test]
fn changed_certificate_applies_to_the_next_handshake() {
    let site = Site::open(&workers(1));
    let trust = site.authority.client(None, &[&rustls::version::TLS13]);
    let serial = || {
        let mut stream = tls(site.socket(Amqps), trust.clone());
        stream.flush().unwrap();
        stream.conn.complete_io(&mut stream.sock).unwrap();
        stream.conn.peer_certificates().unwrap()[0].to_vec()
    };
    let (first, again) = (serial(), serial());
    assert_eq!(first, again);
    let mut before = site.client(Amqps);
    site.authority.server_files(&site.folder, "localhost");
    let later = std::time::SystemTime::now() + Duration::from_secs(5);
    std::fs::File::options().append(true).open(&site.files.certificate).unwrap().set_modified(later).unwrap();
    assert_ne!(serial(), first);
    // Connected clients notice nothing.
    before.receiver("anycast", 1);

    std::fs::write(&site.files.certificate, "nonsense").unwrap();
    assert_ne!(serial(), first);
    let reason = site.event(|event| match &event.what {
        EventKind::CertificateUnusable { reason } => Some(reason.clone()),
        _ => None,
    });
    assert!(reason.contains("server.pem"), "{reason}");
}

#[test]
fn client_certificate_of_a_foreign_ca_is_refused() {
    let site = Site::open(&workers(1));
    let config = site.authority.client_presenting(&Authority::new(), "mallory");
    let mut stream = tls(site.socket(Amqps), config);
    // TLS 1.3: the client considers itself connected until it reads the refusal.
    let _ = stream.write_all(b"AMQP\x00\x01\x00\x00");
    assert!(stream.read(&mut [0; 8]).is_err());
    assert_eq!(site.stats().workers[0].handshakes_failed, 1);
}

#[test]
fn client_certificate_is_optional_on_a_tls_listener() {
    let site = Site::open(&workers(1));
    for subject in [Some("alice"), None] {
        let config = site.authority.client(subject, &[&rustls::version::TLS12]);
        let mut client = Client::start(Box::new(tls(site.socket(Amqps), config)), None);
        client.receiver("anycast", 1);
        client.close();
    }
    let mut client = site.client(Wss);
    client.close();
}

/// The open space, `shop.north` and `shop.south`.
fn three_spaces() -> String {
    let mut plan: serde_json::Value = serde_json::from_str(OPEN_SPACE).unwrap();
    for (uid, names) in [("north", ["shop", "shop.north"]), ("south", ["shop", "shop.south"])] {
        let mut space = plan["spaces"][0].clone();
        (space["uid"], space["names"]) = (uid.into(), names.to_vec().into());
        for address in space["addresses"].as_array_mut().unwrap() {
            address["uid"] = format!("{uid}-{}", address["uid"].as_str().unwrap()).into();
        }
        plan["spaces"].as_array_mut().unwrap().push(space);
    }
    plan.to_string()
}

/// The result for a client that requests `name` and trusts `authority`: the certificate, or the
/// error.
fn shown(site: &Site, kind: ListenerKind, authority: &Authority, name: &'static str) -> Result<Vec<u8>, String> {
    let config = authority.client(None, &[&rustls::version::TLS13, &rustls::version::TLS12]);
    let mut stream = tls_to(name, site.socket(kind), config);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).map_err(|error| error.to_string())?;
    }
    Ok(stream.conn.peer_certificates().unwrap()[0].to_vec())
}

#[test]
fn each_space_serves_its_own_certificate_by_server_name() {
    let site = Site::new(&workers(2), &three_spaces());
    let (north, south) = (Authority::new(), Authority::new());
    let of = |uid: &str, authority: &Authority| SpaceCertificates {
        uid: uid.to_owned(),
        certificates: vec![authority.server_certificate(&["shop", &format!("shop.{uid}")])],
    };
    let unshown = site.node.show_certificates(vec![of("north", &north), of("south", &south)]).unwrap();
    assert_eq!(unshown, []);
    for kind in [Amqps, Wss] {
        let first = shown(&site, kind, &north, "shop.north").unwrap();
        assert_ne!(shown(&site, kind, &south, "shop.south").unwrap(), first);
        for (authority, name) in [(&south, "shop.north"), (&north, "shop.south"), (&north, "shop"), (&south, "shop")] {
            assert!(shown(&site, kind, authority, name).unwrap_err().contains("invalid peer certificate"), "{name}");
        }
        // A client that names no space gets the node's own certificate, as before.
        let own = shown(&site, kind, &site.authority, "localhost").unwrap();
        assert_ne!(own, first);
    }

    // A renewed certificate serves the next handshake; connected clients notice nothing, and client
    // certificates are checked as before.
    let config = north.client_presenting(&site.authority, "alice");
    let mut before = Client::start(Box::new(tls_to("shop.north", site.socket(Amqps), config)), None);
    let first = shown(&site, Amqps, &north, "shop.north").unwrap();
    let untouched = shown(&site, Amqps, &south, "shop.south").unwrap();
    let mut broken = of("south", &north);
    broken.certificates[0].key = "nonsense".to_owned();
    assert_eq!(site.node.show_certificates(vec![of("north", &north), broken]).unwrap()[0].uid, "south");
    assert_ne!(shown(&site, Amqps, &north, "shop.north").unwrap(), first);
    before.receiver("anycast", 1);
    before.close();
    assert!(shown(&site, Amqps, &north, "shop.south").is_err(), "the node's own, which does not name it");
    assert_eq!(site.node.show_certificates(vec![of("south", &south)]).unwrap(), []);
    assert_ne!(shown(&site, Amqps, &south, "shop.south").unwrap(), untouched);
}
