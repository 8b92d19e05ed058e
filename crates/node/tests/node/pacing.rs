//! Send rates of address spaces over sockets in real time, and their isolation from each other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use enmasse_node::SpaceLine;

use crate::harness::{Client, Site, workers};

const PACED: &str = include_str!("../../../../vectors/plans/paced.json");

/// Two spaces; the first has these bounds and those of connections and links.
fn site(bounds: &str) -> Site {
    let reported = "\"messagesPerSecond\": 100, \"bytesPerSecond\": 262144, \"exhausted\": true";
    let plan = PACED.replace(reported, bounds);
    assert_ne!(plan, PACED);
    Site::new(&workers(1), &plan)
}

fn client(site: &Site, space: &str) -> Client {
    Client::start(Box::new(site.node.connect_in_process(space, None).unwrap()), None)
}

#[test]
fn throttled_sender_resumes_without_another_event() {
    let site = site("\"messagesPerSecond\": 200");
    let (mut from, mut to) = (client(&site, "paced"), client(&site, "paced"));
    to.receiver("anycast", 1000);
    let out = from.sender(Some("anycast"));
    let begun = Instant::now();
    for _ in 0..500 {
        from.send(out, b"ten bytes.", true);
    }
    for _ in 0..500 {
        to.receive();
    }
    let took_s = begun.elapsed().as_secs_f64();
    assert!(took_s > 1.3, "two hundred at once, and two hundred a second: {took_s}");
    let line = site.node.usage().into_iter().find(|line| line.name == "paced.default").unwrap();
    let SpaceLine { connections, links, messages_in, bytes_in, messages_out, bytes_out, .. } = line;
    assert_eq!((connections, links), (2, 2));
    assert_eq!((messages_in, bytes_in, messages_out, bytes_out), (500, 5000, 500, 5000));
    assert_eq!(site.node.usage().len(), 1, "the other is unused");
}

#[test]
fn space_at_full_load_does_not_starve_another() {
    let site = site("\"exhausted\": false");
    let (mut from, mut to) = (client(&site, "paced"), client(&site, "paced"));
    to.receiver("anycast", 1_000_000_000);
    let (stop, passed) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let out = from.sender(Some("anycast"));
            while !stop.load(Ordering::Relaxed) {
                from.wait_for_credit(out);
                for _ in 0..100 {
                    from.queue(out, &[7; 1000], true);
                }
                from.write_pending();
                (0..100).for_each(|_| drop(to.receive()));
                passed.fetch_add(100, Ordering::Relaxed);
            }
        });
        let mut quiet = client(&site, "quiet");
        quiet.receiver("anycast", 1000);
        let out = quiet.sender(Some("anycast"));
        while passed.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        for _ in 0..500 {
            quiet.send(out, b"still here", true);
            assert_eq!(quiet.receive().2, b"still here");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(passed.load(Ordering::Relaxed) > 100, "the loaded space made progress meanwhile");
}
