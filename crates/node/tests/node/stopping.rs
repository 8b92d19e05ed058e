//! Shutdown of a node.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use enmasse_amqp::types::condition;
use enmasse_node::ErrorKind;
use enmasse_node::ListenerKind::Amqp;

use crate::harness::{KINDS, PATIENCE, Site, send_until_stuck, workers};

#[test]
fn shutdown_closes_every_connection_and_refuses_new_ones() {
    let site = Site::open(&workers(2));
    let mut clients: Vec<_> = KINDS.iter().chain(&KINDS).map(|kind| site.client(*kind)).collect();
    let silent: Vec<_> = KINDS.iter().map(|kind| site.socket(*kind)).collect();
    for client in &mut clients {
        client.receiver("multicast", 10);
    }
    let listening = std::thread::spawn(move || {
        for mut client in clients {
            let error = client.closed().expect("closed with an error");
            assert_eq!(error.condition, condition::CONNECTION_FORCED);
            client.read_to_end();
        }
    });
    let start = Instant::now();
    site.node.stop(Duration::from_secs(5));
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    listening.join().unwrap();
    drop(silent);
    for port in site.ports {
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "port {port} is still open");
    }
    assert_eq!(site.node.stats().unwrap_err().kind(), ErrorKind::Misuse);
    site.node.stop(Duration::from_secs(5));
}

#[test]
fn messages_read_before_shutdown_are_still_delivered() {
    let site = Site::open(&workers(1));
    let (mut to, mut from) = (site.client(Amqp), site.client(Amqp));
    to.receiver("anycast", 1000);
    let out = from.sender(Some("anycast"));
    for _ in 0..100 {
        from.send(out, &[1; 10_000], true);
    }
    let (_, first, _) = to.receive();
    // Shutdown may drop bytes that the node has not read: wait until it has read all.
    let start = Instant::now();
    while site.stats().addresses[0].delivered < 100 {
        assert!(start.elapsed() < PATIENCE, "the node has not read everything");
    }
    site.node.stop(Duration::from_secs(5));
    let mut last = first;
    for _ in 1..100 {
        last = to.receive().1;
    }
    assert_eq!(last, first + 99);
    assert_eq!(to.closed().unwrap().condition, condition::CONNECTION_FORCED);
}

#[test]
fn peer_that_does_not_read_cannot_delay_shutdown() {
    let site = Site::open(&workers(1));
    let mut to = site.client(Amqp);
    to.receiver("anycast", 100_000);
    // All buffers are full now, those of the node included.
    let stuck = send_until_stuck(&site, &[1; 20_000]);
    let start = Instant::now();
    site.node.stop(Duration::from_millis(700));
    assert!(start.elapsed() < Duration::from_millis(3000), "{:?}", start.elapsed());
    drop((stuck, to));
}

#[test]
fn request_to_a_stopped_worker_fails_without_waiting() {
    for _ in 0..20 {
        let site = Site::open(&workers(2));
        let ask_until_it_ends = || {
            let mut longest = Duration::ZERO;
            loop {
                let start = Instant::now();
                let answer = site.node.stats();
                longest = longest.max(start.elapsed());
                if let Err(error) = answer {
                    return (error.kind(), longest);
                }
            }
        };
        std::thread::scope(|scope| {
            let asking: Vec<_> = (0..4).map(|_| scope.spawn(ask_until_it_ends)).collect();
            site.node.stop(Duration::from_secs(5));
            for thread in asking {
                let (kind, longest) = thread.join().unwrap();
                assert_eq!(kind, ErrorKind::Misuse);
                assert!(longest < Duration::from_secs(4), "{longest:?}");
            }
        });
    }
}
