//! Messages through the node, over each transport and between workers.

use enmasse_amqp::types::Outcome;
use enmasse_node::ListenerKind::Amqp;

use crate::harness::{Client, KINDS, Site, workers};

#[test]
fn message_and_its_outcome_pass_over_each_transport() {
    for count in [1, 2] {
        let site = Site::open(&workers(count));
        for kind in KINDS {
            let (mut to, mut from) = (site.client(kind), site.client(kind));
            let into = to.receiver("anycast", 10);
            let out = from.sender(Some("anycast"));
            from.send(out, b"hello", false);
            let (_, delivery_id, payload) = to.receive();
            assert_eq!(payload, b"hello", "{kind:?}");
            to.settle(into, delivery_id, &Outcome::Accepted);
            assert_eq!(from.outcome(), Outcome::Accepted, "{kind:?}");
            from.close();
            to.close();
        }
    }
}

#[test]
fn large_message_arrives_intact_over_each_transport() {
    let site = Site::open(&workers(2));
    let payload: Vec<u8> = (0..5 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for kind in KINDS {
        let (mut to, mut from) = (site.client(kind), site.client(kind));
        to.receiver("anycast", 1);
        let out = from.sender(Some("anycast"));
        let sent = payload.clone();
        let writer = std::thread::spawn(move || {
            from.send(out, &sent, true);
            from
        });
        assert!(to.receive().2 == payload, "{kind:?}: the message was changed on its way");
        writer.join().unwrap();
    }
}

#[test]
fn large_frames_arrive_intact_and_no_read_exceeds_its_share() {
    const SHARE_BYTES: u64 = 256 * 1024;
    let mut config = workers(1);
    config.limits.max_frame_size_bytes = 1 << 20;
    let site = Site::open(&config);
    let payload: Vec<u8> = (0..6 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for kind in KINDS {
        let before = site.stats().workers[0].clone();
        let (mut to, mut from) = (site.client(kind), site.client(kind));
        to.receiver("anycast", 1);
        let out = from.sender(Some("anycast"));
        let sent = payload.clone();
        let writer = std::thread::spawn(move || {
            from.send(out, &sent, true);
            from
        });
        assert!(to.receive().2 == payload, "{kind:?}: the message was changed on its way");
        writer.join().unwrap();
        let after = &site.stats().workers[0];
        let (reads, bytes) = (after.reads - before.reads, after.bytes_in - before.bytes_in);
        assert!(bytes <= reads * SHARE_BYTES, "{kind:?}: {bytes} bytes in {reads} reads");
    }
}

#[test]
fn connection_moves_to_the_home_of_its_address_without_losing_messages() {
    let site = Site::open(&workers(3));
    let mut to = site.client(Amqp);
    to.receiver("anycast", 10_000);
    // Each writes its handshake, its attach and its messages before it reads anything: they arrive
    // while the connection moves.
    let mut senders: Vec<Client> = (0..9).map(|_| site.client(Amqp)).collect();
    for (number, from) in senders.iter_mut().enumerate() {
        let out = from.sender(Some("anycast"));
        from.wait_for_credit(out);
        for message in 0..50u8 {
            from.queue(out, &[number as u8, message], true);
        }
        from.write_pending();
    }
    let mut next = [0u8; 9];
    for _ in 0..9 * 50 {
        let (_, _, payload) = to.receive();
        assert_eq!(payload[1], next[usize::from(payload[0])], "out of order");
        next[usize::from(payload[0])] += 1;
    }
    let stats = site.stats();
    let moved: u64 = stats.workers.iter().map(|worker| worker.moved).sum();
    assert!(moved >= 6, "only {moved} of 9 connections moved to the worker of the address");
    assert_eq!(stats.connections, 10);
    assert_eq!(stats.workers.iter().map(|worker| worker.connections).sum::<u64>(), 10);
}

#[test]
fn messages_and_outcomes_cross_between_workers() {
    let site = Site::open(&workers(2));
    let mut clients: Vec<Client> = (0..4).map(|_| site.client(Amqp)).collect();
    for client in &mut clients {
        // A link that binds the connection to no address keeps it on its worker.
        client.sender(None);
    }
    let mut senders = clients.split_off(2);
    let receivers: Vec<_> = clients.iter_mut().map(|to| to.receiver("multicast", 1000)).collect();
    // The home of the address learns of a link on another worker a moment after its client did.
    while site.stats().addresses[1].receivers < 2 {}
    for from in &mut senders {
        let out = from.sender(Some("multicast"));
        for _ in 0..100 {
            from.send(out, b"to all", false);
        }
    }
    for (to, into) in clients.iter_mut().zip(receivers) {
        for _ in 0..200 {
            let (_, delivery_id, payload) = to.receive();
            assert_eq!(payload, b"to all");
            to.settle(into, delivery_id, &Outcome::Accepted);
        }
    }
    for from in &mut senders {
        for _ in 0..100 {
            assert_eq!(from.outcome(), Outcome::Accepted);
        }
    }
    let stats = site.stats();
    assert!(stats.workers.iter().all(|worker| worker.batches > 0), "{:?}", stats.workers);
    let multicast = stats.addresses.iter().find(|address| address.name == "multicast").unwrap();
    assert_eq!((multicast.delivered, multicast.accepted), (400, 200));
}

#[test]
fn messages_sent_before_a_disconnect_are_all_delivered() {
    let site = Site::open(&workers(1));
    let mut to = site.client(Amqp);
    to.receiver("anycast", 1000);
    let mut from = site.client(Amqp);
    let out = from.sender(Some("anycast"));
    from.wait_for_credit(out);
    for _ in 0..500 {
        from.queue(out, &[7; 1000], true);
    }
    from.write_pending();
    drop(from);
    for _ in 0..500 {
        assert_eq!(to.receive().2, [7; 1000]);
    }
}
