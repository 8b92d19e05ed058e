//! Behaviour at the bounds: too many connections, peers that do not read, and silent peers.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use enmasse_amqp::codec::encode_performative;
use enmasse_amqp::types::{Begin, End, Open, Performative, condition};
use enmasse_node::ListenerKind::{Amqp, Amqps};
use enmasse_node::{EventKind, Limits, NodeConfig};

use crate::harness::{Client, PATIENCE, Site, send_until_stuck, workers};

#[test]
fn new_connection_waits_at_the_bound_until_another_closes() {
    let limits = Limits { connections: Some(2), ..Limits::default() };
    let site = Site::open(&NodeConfig { workers: 2, limits, ..NodeConfig::default() });
    let (first, mut second) = (site.client(Amqp), site.client(Amqp));
    let third = site.socket(Amqp);
    let reason = site.event(|event| match &event.what {
        EventKind::AcceptPaused { reason } => Some(reason.clone()),
        _ => None,
    });
    assert!(reason.contains('2'), "{reason}");
    // Open connections are still served.
    second.receiver("anycast", 1);
    let full = site.node.connect_in_process("default", None).unwrap_err();
    assert_eq!(full.code(), "E5000");
    drop(first);
    let mut third = Client::start(Box::new(third), None);
    third.receiver("anycast", 1);
    let stats = site.stats();
    assert_eq!((stats.connections, stats.connections_max, stats.accept_pauses), (2, 2, 1));
}

#[test]
fn consumer_that_does_not_read_causes_back_pressure_with_bounded_memory() {
    let site = Site::open(&workers(1));
    for kind in [Amqp, Amqps] {
        let mut to = site.client(kind);
        to.receiver("anycast", 1_000_000);
        let payload = vec![5; 60_000];
        let (sent, from) = send_until_stuck(&site, &payload);
        assert!(sent >= 100, "held back at once: {sent}");
        for number in 0..sent {
            assert_eq!(to.receive().2.len(), payload.len(), "message {number} of {sent}");
        }
        drop(from);
        to.close();
    }
    assert_eq!(site.stats().workers[0].cut_off, 0);
}

#[test]
fn peer_that_sends_requests_and_never_reads_is_disconnected() {
    let limits = Limits { output_hard_bytes: 2 << 20, ..Limits::default() };
    let site = Site::open(&NodeConfig { workers: 1, limits, ..NodeConfig::default() });
    let mut socket = site.socket(Amqp);
    let mut words = b"AMQP\x00\x01\x00\x00".to_vec();
    let open = Open { container_id: "a-talker".to_owned(), ..Open::default() };
    encode_performative(&mut words, 0, &Performative::Open(Box::new(open)));
    let begin = Begin {
        remote_channel: None,
        next_outgoing_id: 0,
        incoming_window: 100,
        outgoing_window: 100,
        handle_max: u32::MAX,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: Vec::new(),
    };
    // Each session begun and ended requests two frames in answer.
    let mut question = Vec::new();
    for _ in 0..1000 {
        encode_performative(&mut question, 0, &Performative::Begin(Box::new(begin.clone())));
        encode_performative(&mut question, 0, &Performative::End(End { error: None }));
    }
    socket.write_all(&words).unwrap();
    let mut requested = 0usize;
    while socket.write_all(&question).is_ok() {
        requested += question.len();
        assert!(requested < 1 << 30, "the peer is not disconnected");
    }
    let waiting = site.event(|event| match event.what {
        EventKind::CutOff { waiting_bytes } => Some(waiting_bytes),
        _ => None,
    });
    assert!(waiting > 2 << 20 && waiting < 8 << 20, "{waiting}");
    let stats = site.stats();
    assert_eq!((stats.workers[0].cut_off, stats.connections), (1, 0));
}

#[test]
fn busy_connection_does_not_starve_the_others() {
    let site = Site::open(&workers(1));
    let mut quiet = site.client(Amqp);
    quiet.receiver("multicast", 1000);
    // More than a megabyte always waits in the socket of this client.
    let mut socket = site.socket(Amqp);
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(b"AMQP\x00\x01\x00\x00").unwrap();
    let mut heartbeats = Vec::new();
    let open = Open { container_id: "busy".to_owned(), ..Open::default() };
    encode_performative(&mut heartbeats, 0, &Performative::Open(Box::new(open)));
    heartbeats.extend([0, 0, 0, 8, 2, 0, 0, 0].repeat(200_000));
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let flood = std::thread::spawn(move || {
        let mut written = 0;
        while stopped.try_recv().is_err() {
            let chunk = &heartbeats[written..heartbeats.len().min(written + 65_536)];
            match socket.write(chunk) {
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
            if written == heartbeats.len() {
                written = heartbeats.len() - 8 * 100_000;
            }
        }
        let _ = socket.read(&mut [0; 512]);
    });
    let mut from = site.client(Amqp);
    let out = from.sender(Some("multicast"));
    for _ in 0..200 {
        from.send(out, b"still here", true);
        assert_eq!(quiet.receive().2, b"still here");
    }
    stop.send(()).unwrap();
    flood.join().unwrap();
}

#[test]
fn silent_peer_is_closed_at_the_idle_timeout_and_a_heartbeating_one_is_not() {
    let limits = Limits { idle_timeout_ms: Some(100), ..Limits::default() };
    let site = Site::open(&NodeConfig { workers: 1, limits, ..NodeConfig::default() });
    let socket = site.socket(Amqp);
    let beating = socket.try_clone().unwrap();
    let mut alive = Client::start(Box::new(socket), None);
    let mut silent = site.client(Amqp);
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let heart = std::thread::spawn(move || {
        // This timeout is the heartbeat interval; the test waits for nothing here.
        while stopped.recv_timeout(Duration::from_millis(30)).is_err() {
            (&beating).write_all(&[0, 0, 0, 8, 2, 0, 0, 0]).unwrap();
        }
    });
    let error = silent.closed().expect("closed with an error");
    assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED);
    silent.read_to_end();
    // The node has half-closed the stream and drops the socket once the peer ends its direction.
    drop(silent);
    let start = Instant::now();
    while site.stats().connections > 1 {
        assert!(start.elapsed() < PATIENCE, "the silent connection is still open");
    }
    alive.receiver("anycast", 1);
    stop.send(()).unwrap();
    heart.join().unwrap();
    assert_eq!(site.stats().connections, 1);
}

#[test]
fn node_sends_heartbeats_within_the_idle_timeout_of_the_peer() {
    let site = Site::open(&workers(1));
    let mut socket = site.socket(Amqp);
    let open = Open { container_id: "listener".to_owned(), idle_time_out: Some(200), ..Open::default() };
    let mut words = b"AMQP\x00\x01\x00\x00".to_vec();
    encode_performative(&mut words, 0, &Performative::Open(Box::new(open)));
    socket.write_all(&words).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut received = Vec::new();
    while !received.ends_with(&[0, 0, 0, 8, 2, 0, 0, 0].repeat(5)) {
        let mut bytes = [0; 512];
        let count = socket.read(&mut bytes).expect("a frame at least every 200 ms");
        received.extend_from_slice(&bytes[..count]);
    }
}

/// Half-open connections on every kind of listener: some send nothing, others half of a handshake.
#[test]
fn half_open_connections_are_bounded_and_yield_to_a_client_that_logs_in() {
    const FLOOD: usize = 1_500;
    let limits = Limits { handshake_timeout_ms: 60_000, ..Limits::default() };
    let site = Site::open(&NodeConfig { workers: 2, limits, ..NodeConfig::default() });
    for kind in [Amqp, Amqps] {
        let began: &[u8] = if kind == Amqp { b"AMQP" } else { &[0x16, 3, 1, 2] };
        let mut flood = Vec::new();
        for _ in 0..FLOOD {
            let mut socket = site.socket(kind);
            socket.write_all(began).unwrap();
            flood.push(socket);
        }
        let reason = site.event(|event| match &event.what {
            EventKind::AcceptPaused { reason } => Some(reason.clone()),
            _ => None,
        });
        assert!(reason.contains("1024 connections"), "{reason}");
        assert!(site.stats().connections <= 1_024);
        // The silent ones are closed after seconds, long before their timeout.
        let begun = Instant::now();
        let mut client = site.client(kind);
        client.receiver("anycast", 1);
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        client.close();
        drop(flood);
        let deadline = Instant::now() + PATIENCE;
        while site.stats().connections > 0 {
            assert!(Instant::now() < deadline, "half-open connections remain");
            std::thread::yield_now();
        }
    }
}
