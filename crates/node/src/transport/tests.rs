//! Both ends of a connection in memory: rustls and tungstenite are the clients, and the test
//! chooses where bytes are split.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::rc::Rc;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, SupportedProtocolVersion, version};
use tungstenite::client::IntoClientRequest;
use tungstenite::handshake::HandshakeError;
use tungstenite::{Bytes, Message};

use super::*;
use crate::certificates::Certificates;
use crate::testing::{Authority, Folder};
use crate::tls_files::TlsSource;

const BOTH: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];

/// The client's end of a socket that never blocks: the test takes its output and supplies its
/// input.
#[derive(Clone, Default)]
struct Wire(Rc<RefCell<(Vec<u8>, Vec<u8>)>>);

impl Wire {
    fn take_written(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.borrow_mut().0)
    }

    fn put(&self, bytes: &[u8]) {
        self.0.borrow_mut().1.extend_from_slice(bytes);
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let waiting = &mut self.0.borrow_mut().1;
        if waiting.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = waiting.len().min(into.len());
        into[..count].copy_from_slice(&waiting[..count]);
        waiting.drain(..count);
        Ok(count)
    }
}

/// Feeds bytes in pieces of `piece`; returns the plaintext.
fn ingest(wrapping: &mut Wrapping, bytes: &[u8], piece: usize) -> Result<Vec<u8>, TransportError> {
    let (mut stage, mut inner) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        wrapping.receive(piece, &mut stage, &mut inner)?;
        assert!(stage.is_empty());
    }
    Ok(inner)
}

fn take(wire: &mut Vec<u8>) -> Vec<u8> {
    std::mem::take(wire)
}

fn server_config(authority: &Authority, client_ca: bool) -> Arc<ServerConfig> {
    let folder = Folder::new("transport");
    let mut files = authority.server_files(&folder, "localhost");
    files.client_ca = client_ca.then(|| folder.path("ca.pem"));
    TlsSource::load(files, Certificates::none()).unwrap().current().0
}

/// A TLS client and our side, after the handshake, bytes cut into pieces of `piece`.
fn tls_pair(config: Arc<ServerConfig>, client: Arc<ClientConfig>, piece: usize) -> (ClientConnection, Wrapping) {
    let mut client = ClientConnection::new(client, ServerName::try_from("localhost").unwrap()).unwrap();
    let mut server = Wrapping::server(Some(config), None).unwrap();
    while client.is_handshaking() || server.handshake_result().is_none() {
        assert!(tls_exchange(&mut client, &mut server, piece).unwrap().is_empty());
    }
    (client, server)
}

fn tls_exchange(client: &mut ClientConnection, server: &mut Wrapping, piece: usize) -> Result<Vec<u8>, TransportError> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    let inner = ingest(server, &bytes, piece)?;
    let answer = take(&mut server.wire);
    let mut answer = &answer[..];
    while !answer.is_empty() {
        client.read_tls(&mut answer).unwrap();
        client.process_new_packets().unwrap();
    }
    Ok(inner)
}

#[test]
fn tls_1_2_and_1_3_carry_bytes_both_ways_at_any_read_size() {
    let authority = Authority::new();
    let config = server_config(&authority, false);
    for version in BOTH {
        for piece in [1, 7, 1460, usize::MAX] {
            let (mut client, mut server) = tls_pair(Arc::clone(&config), authority.client(None, &[version]), piece);
            let reported = server.handshake_result().unwrap();
            assert_eq!(
                reported,
                HandshakeResult { secure: true, server_name: Some("localhost".to_owned()), subject: None, mqtt: false }
            );
            let question: Vec<u8> = (0..60_000u32).map(|n| n as u8).collect();
            client.writer().write_all(&question).unwrap();
            assert_eq!(tls_exchange(&mut client, &mut server, piece).unwrap(), question);
            let answer: Vec<u8> = (0..300_000u32).map(|n| (n / 3) as u8).collect();
            server.send(&answer, &mut Vec::new());
            let mut got = Vec::new();
            let sealed = take(&mut server.wire);
            let mut sealed = &sealed[..];
            while !sealed.is_empty() {
                client.read_tls(&mut sealed).unwrap();
                client.process_new_packets().unwrap();
                let _ = client.reader().read_to_end(&mut got);
            }
            assert_eq!(got, answer);
        }
    }
}

#[test]
fn client_certificate_is_optional_and_provides_the_subject() {
    let authority = Authority::new();
    let config = server_config(&authority, true);
    for version in BOTH {
        let (_, server) = tls_pair(Arc::clone(&config), authority.client(Some("alice"), &[version]), 1460);
        assert_eq!(server.handshake_result().unwrap().subject.as_deref(), Some("alice"));
        let (_, server) = tls_pair(Arc::clone(&config), authority.client(None, &[version]), 1460);
        assert_eq!(server.handshake_result().unwrap().subject, None);
    }
}

#[test]
fn a_client_certificate_of_another_ca_is_refused_with_an_alert() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let mut server = Wrapping::server(Some(server_config(&ours, true)), None).unwrap();
    // Trusts our server, presents a certificate of the other authority.
    let mut client =
        ClientConnection::new(ours.client_presenting(&theirs, "mallory"), ServerName::try_from("localhost").unwrap())
            .unwrap();
    let refusal = loop {
        if let Err(error) = tls_exchange(&mut client, &mut server, 1460) {
            break error;
        }
        assert!(server.handshake_result().is_none(), "a foreign certificate was accepted");
    };
    assert!(refusal.to_string().starts_with("TLS: "), "{refusal}");
    let alert = take(&mut server.wire);
    client.read_tls(&mut &alert[..]).unwrap();
    assert!(client.process_new_packets().is_err(), "the client received no alert");
}

#[test]
fn plain_amqp_on_a_tls_listener_fails_at_once() {
    let authority = Authority::new();
    let mut server = Wrapping::server(Some(server_config(&authority, false)), None).unwrap();
    assert!(ingest(&mut server, b"AMQP\x00\x01\x00\x00", 8).is_err());
}

#[test]
fn close_notify_ends_both_sides() {
    let authority = Authority::new();
    let (mut client, mut server) =
        tls_pair(server_config(&authority, false), authority.client(None, &BOTH), usize::MAX);
    client.send_close_notify();
    assert!(!server.is_ended());
    tls_exchange(&mut client, &mut server, usize::MAX).unwrap();
    assert!(server.is_ended());
    server.finish();
    let goodbye = take(&mut server.wire);
    client.read_tls(&mut &goodbye[..]).unwrap();
    assert!(client.process_new_packets().unwrap().peer_has_closed());
}

type Client = tungstenite::WebSocket<Wire>;

fn access() -> Option<Arc<WebAccess>> {
    Some(Arc::new(WebAccess::new()))
}

/// tungstenite's client and our side after the upgrade.
fn web_socket_pair(subprotocols: &str, path: &str, piece: usize) -> (Client, Wire, Wrapping) {
    let wire = Wire::default();
    let mut request = format!("ws://localhost:8081{path}").into_client_request().unwrap();
    request.headers_mut().insert("Sec-WebSocket-Protocol", subprotocols.parse().unwrap());
    let Err(HandshakeError::Interrupted(waiting)) = tungstenite::client(request, wire.clone()) else {
        panic!("the handshake ended without a server");
    };
    let mut server = Wrapping::server(None, access()).unwrap();
    assert_eq!(server.handshake_result(), None);
    assert!(ingest(&mut server, &wire.take_written(), piece).unwrap().is_empty());
    let mqtt = subprotocols.starts_with("mqtt");
    assert_eq!(server.handshake_result(), Some(HandshakeResult { mqtt, ..HandshakeResult::default() }));
    wire.put(&take(&mut server.wire));
    let (client, response) = waiting.handshake().expect("the client refused our answer");
    let chosen = response.headers()["Sec-WebSocket-Protocol"].to_str().unwrap();
    let known = subprotocols.split(", ").find(|offered| *offered != "soap");
    assert_eq!(known, Some(chosen));
    (client, wire, server)
}

#[test]
fn every_subprotocol_and_any_path_is_accepted_and_the_first_known_one_is_chosen() {
    for offered in ["amqp", "AMQPWSB10", "binary", "soap, amqp", "AMQP", "mqtt", "mqttv3.1", "mqtt, amqp"] {
        for path in ["/", "/any/path?with=query"] {
            web_socket_pair(offered, path, 3);
        }
    }
}

#[test]
fn web_socket_carries_bytes_both_ways_at_any_read_size() {
    for piece in [1, 2, 5, 1460, usize::MAX] {
        let (mut client, wire, mut server) = web_socket_pair("amqp", "/", piece);
        let mut expected = Vec::new();
        for length in [0usize, 1, 3, 125, 126, 65_535, 65_536, 200_000] {
            let payload: Vec<u8> = (0..length).map(|n| (n * 7) as u8).collect();
            expected.extend_from_slice(&payload);
            client.write(Message::Binary(Bytes::from(payload))).unwrap();
        }
        client.flush().unwrap();
        assert_eq!(ingest(&mut server, &wire.take_written(), piece).unwrap(), expected);
        server.send(&expected, &mut Vec::new());
        wire.put(&take(&mut server.wire));
        let mut got = Vec::new();
        while got.len() < expected.len() {
            let Message::Binary(part) = client.read().unwrap() else { panic!("not binary") };
            assert!(part.len() <= 65_535, "{}", part.len());
            got.extend_from_slice(&part);
        }
        assert_eq!(got, expected);
    }
}

#[test]
fn fragmented_message_with_a_ping_between_is_one_stream() {
    use tungstenite::protocol::frame::Frame;
    use tungstenite::protocol::frame::coding::{Data, OpCode};
    for piece in [1, usize::MAX] {
        let (mut client, wire, mut server) = web_socket_pair("amqp", "/", piece);
        let part = |text: &'static str, kind, last| Message::Frame(Frame::message(text, OpCode::Data(kind), last));
        client.write(part("AM", Data::Binary, false)).unwrap();
        client.write(Message::Ping(Bytes::from_static(b"there?"))).unwrap();
        client.write(part("", Data::Continue, false)).unwrap();
        client.write(part("QP", Data::Continue, true)).unwrap();
        client.flush().unwrap();
        assert_eq!(ingest(&mut server, &wire.take_written(), piece).unwrap(), b"AMQP");
        wire.put(&take(&mut server.wire));
        assert_eq!(client.read().unwrap(), Message::Pong(Bytes::from_static(b"there?")));
    }
}

#[test]
fn close_frame_is_answered_and_ends_the_stream() {
    let (mut client, wire, mut server) = web_socket_pair("amqp", "/", usize::MAX);
    client.close(None).unwrap();
    ingest(&mut server, &wire.take_written(), usize::MAX).unwrap();
    assert!(server.is_ended());
    wire.put(&take(&mut server.wire));
    assert!(matches!(client.read().unwrap(), Message::Close(Some(frame)) if u16::from(frame.code) == 1000));

    let (mut client, wire, mut server) = web_socket_pair("amqp", "/", usize::MAX);
    server.finish();
    server.send(b"too late", &mut Vec::new());
    wire.put(&take(&mut server.wire));
    assert!(matches!(client.read().unwrap(), Message::Close(Some(frame)) if u16::from(frame.code) == 1000));
}

/// A hand-written masked frame of a client, which may be malformed.
fn frame(first: u8, length: &[u8], mask: Option<[u8; 4]>, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    bytes.extend_from_slice(length);
    if let Some(mask) = mask {
        bytes[1] |= 0x80;
        bytes.extend_from_slice(&mask);
        bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    } else {
        bytes.extend_from_slice(payload);
    }
    bytes
}

#[test]
fn frame_forbidden_by_rfc_6455_closes_with_the_matching_code() {
    let mask = Some([1, 2, 3, 4]);
    let wrong: [(&str, Vec<u8>, u16); 8] = [
        ("no mask", frame(0x82, &[1], None, b"x"), 1002),
        ("reserved bit", frame(0xc2, &[1], mask, b"x"), 1002),
        ("reserved opcode", frame(0x83, &[1], mask, b"x"), 1002),
        ("text", frame(0x81, &[1], mask, b"x"), 1003),
        ("continuation of nothing", frame(0x80, &[1], mask, b"x"), 1002),
        ("ping in parts", frame(0x09, &[1], mask, b"x"), 1002),
        ("ping of 126", frame(0x89, &[126, 0, 126], mask, &[0; 126]), 1002),
        ("length with the top bit", frame(0x82, &[127, 0x80, 0, 0, 0, 0, 0, 0, 1], mask, b"x"), 1002),
    ];
    for (what, bytes, code) in wrong {
        for piece in [1, usize::MAX] {
            let (mut client, wire, mut server) = web_socket_pair("amqp", "/", usize::MAX);
            let error = ingest(&mut server, &bytes, piece).expect_err(what);
            assert!(error.to_string().starts_with("WebSocket: "), "{error}");
            assert!(server.is_ended(), "{what}");
            wire.put(&take(&mut server.wire));
            let Message::Close(Some(close)) = client.read().unwrap() else { panic!("{what}: not closed") };
            assert_eq!(u16::from(close.code), code, "{what}");
        }
    }
}

#[test]
fn frame_with_an_excessive_length_closes_with_1009() {
    let lengths: [&[u8]; 2] = [&[127, 0, 0, 0, 0, 0x40, 0, 0, 0], &[127, 0x7f, 0xff, 0, 0, 0, 0, 0, 0]];
    for length in lengths {
        for piece in [1, usize::MAX] {
            let (mut client, wire, mut server) = web_socket_pair("amqp", "/", usize::MAX);
            let huge = frame(0x82, length, Some([0; 4]), b"first bytes");
            ingest(&mut server, &huge, piece).expect_err("more than any AMQP frame");
            wire.put(&take(&mut server.wire));
            let Message::Close(Some(close)) = client.read().unwrap() else { panic!("not closed") };
            assert_eq!(u16::from(close.code), 1009);
        }
    }
}

#[test]
fn large_frame_is_forwarded_before_it_is_complete() {
    let (_, _, mut server) = web_socket_pair("amqp", "/", usize::MAX);
    let large = frame(0x82, &[127, 0, 0, 0, 0, 1, 0, 0, 0], Some([0; 4]), b"first bytes");
    assert_eq!(ingest(&mut server, &large, 1).unwrap(), b"first bytes");
    assert_eq!(ingest(&mut server, b"and more", usize::MAX).unwrap(), b"and more");
}

#[test]
fn foreign_origin_or_host_gets_403_with_the_reason() {
    const UPGRADE: [&str; 6] = [
        "GET / HTTP/1.1",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol: amqp",
    ];
    let cases: [(&[&str], &str); 2] = [
        (&["Host: localhost:8081", "Origin: https://evil.example"], "--ws-origins"),
        (&["Host: evil.example:8081", "Origin: http://evil.example:8081"], "not called"),
    ];
    for (extra, reason) in cases {
        let mut server = Wrapping::server(None, access()).unwrap();
        let upgrade = request(&[&UPGRADE[..], extra].concat());
        ingest(&mut server, &upgrade, usize::MAX).expect_err("a page that may not connect");
        let answer = String::from_utf8(take(&mut server.wire)).unwrap();
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n") && answer.contains(reason), "{answer}");
        assert!(server.handshake_result().is_none() && server.is_ended());
    }
}

fn request(lines: &[&str]) -> Vec<u8> {
    (lines.join("\r\n") + "\r\n\r\n").into_bytes()
}

#[test]
fn unsupported_upgrade_request_gets_400_with_the_reason() {
    const UPGRADE: [&str; 5] = [
        "Host: localhost",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    let with = |first: &'static str, extra: &[&'static str]| request(&[&[first][..], &UPGRADE[..], extra].concat());
    let long = format!("GET / HTTP/1.1\r\nCookie: {}\r\n", "x".repeat(10_000)).into_bytes();
    let cases: [(&str, Vec<u8>, &str); 7] = [
        ("no subprotocol", with("GET / HTTP/1.1", &[]), "subprotocols amqp, AMQPWSB10, binary"),
        ("another subprotocol", with("GET / HTTP/1.1", &["Sec-WebSocket-Protocol: chat"]), "subprotocols"),
        ("another method", with("POST / HTTP/1.1", &["Sec-WebSocket-Protocol: amqp"]), ""),
        ("old HTTP", with("GET / HTTP/1.0", &["Sec-WebSocket-Protocol: amqp"]), ""),
        ("an ordinary page", request(&["GET / HTTP/1.1", "Host: localhost"]), ""),
        ("no HTTP at all", b"AMQP\x00\x01\x00\x00".to_vec(), ""),
        ("no end of headers", long, "larger than 8 KiB"),
    ];
    for (what, bytes, reason) in cases {
        for piece in [1, usize::MAX] {
            let mut server = Wrapping::server(None, access()).unwrap();
            let error = ingest(&mut server, &bytes, piece).expect_err(what);
            let answer = String::from_utf8(take(&mut server.wire)).unwrap();
            assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{what}: {answer}");
            assert!(answer.contains(reason) && answer.contains("\r\n\r\n"), "{what}: {answer}");
            assert!(error.to_string().contains(reason), "{what}: {error}");
            assert!(server.handshake_result().is_none() && server.is_ended(), "{what}");
        }
    }
}

#[test]
fn bytes_sent_directly_after_the_upgrade_request_are_not_lost() {
    let mut bytes = request(&[
        "GET /amqp HTTP/1.1",
        "Host: localhost",
        "Connection: keep-alive, Upgrade",
        "Upgrade: WebSocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol: amqp",
    ]);
    bytes.extend_from_slice(&frame(0x82, &[8], Some([9, 8, 7, 6]), b"AMQP\x00\x01\x00\x00"));
    for piece in [1, 100, usize::MAX] {
        let mut server = Wrapping::server(None, access()).unwrap();
        assert_eq!(ingest(&mut server, &bytes, piece).unwrap(), b"AMQP\x00\x01\x00\x00");
        let answer = String::from_utf8(take(&mut server.wire)).unwrap();
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        assert!(answer.to_lowercase().contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{answer}");
    }
}

#[test]
fn web_socket_in_tls_carries_bytes_both_ways() {
    let authority = Authority::new();
    let config = server_config(&authority, false);
    let mut tls =
        ClientConnection::new(authority.client(None, &BOTH), ServerName::try_from("localhost").unwrap()).unwrap();
    let mut server = Wrapping::server(Some(config), access()).unwrap();
    while tls.is_handshaking() {
        tls_exchange(&mut tls, &mut server, 1460).unwrap();
    }
    assert!(server.handshake_result().is_none(), "the client has not requested the upgrade yet");
    let upgrade = request(&[
        "GET / HTTP/1.1",
        "Host: localhost",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol: amqp",
    ]);
    tls.writer().write_all(&upgrade).unwrap();
    tls_exchange(&mut tls, &mut server, 1460).unwrap();
    let mut answer = Vec::new();
    let _ = tls.reader().read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 101 "));
    let reported = server.handshake_result().unwrap();
    assert!(reported.secure && reported.server_name.as_deref() == Some("localhost"));

    tls.writer().write_all(&frame(0x82, &[4], Some([5, 6, 7, 8]), b"ping")).unwrap();
    assert_eq!(tls_exchange(&mut tls, &mut server, 1460).unwrap(), b"ping");
    server.send(b"pong", &mut Vec::new());
    assert!(tls_exchange(&mut tls, &mut server, 1460).unwrap().is_empty());
    let mut answer = Vec::new();
    let _ = tls.reader().read_to_end(&mut answer);
    assert_eq!(answer, b"\x82\x04pong");
}
