//! The node's budget of received bytes that are not stored: on one shard and on three, with a disk
//! that answers late.

use std::sync::Arc;

use enmasse_amqp::connection::LinkId;
use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_router::core::SPACE_BYTES_MIN;

use crate::net::{Net, message_to};
use crate::pinned;
use crate::resuming::on_disk_within;

const MIB: usize = 1 << 20;
const BUDGET: usize = 8 * MIB;
const BODY: usize = 64 << 10;
/// Shards, and the shard of the producers; the queue lives on shard 0.
const LAYOUTS: [(u16, usize); 3] = [(1, 0), (3, 0), (3, 2)];

fn stopped(net: &Net) -> usize {
    net.shards.iter().map(|shard| shard.stopped_count()).sum()
}

/// Sends until the link has no credit; returns the number of bytes.
fn send_all(net: &mut Net, client: usize, link: LinkId) -> usize {
    let payload = message_to("orders", None, &[7; BODY]);
    let mut bytes = 0;
    while net.sendable(client, link) > 0 && bytes < 2 * BUDGET {
        net.send(client, link, &payload, false);
        bytes += payload.len();
    }
    bytes
}

fn producers(net: &mut Net, shard: usize, count: usize) -> Vec<(usize, LinkId)> {
    let attach = |_| {
        let client = pinned(net, shard);
        (client, net.sender(client, Some("orders")))
    };
    (0..count).map(attach).collect()
}

#[test]
fn producers_are_not_read_while_their_space_exceeds_the_receive_budget() {
    for (shards, shard) in LAYOUTS {
        let mut net = on_disk_within(shards, Arc::new(SimulatedDisk::new(512, 7)), BUDGET as u64);
        let receiver = pinned(&mut net, shard);
        let senders = producers(&mut net, shard, 20);
        let stalled = net.log.take();
        let sent: usize = senders.iter().map(|(client, link)| send_all(&mut net, *client, *link)).sum();
        assert!((BUDGET / 2..BUDGET / 2 + 20 * 2 * BODY).contains(&sent), "{sent} bytes");
        assert!(stopped(&net) > 0);
        assert_eq!(senders.iter().filter(|(client, _)| !net.clients[*client].wanted).count(), stopped(&net));
        assert!(net.clients[receiver].wanted, "an idle connection is read");
        net.log = stalled;
        net.run();
        assert_eq!(stopped(&net), 0);
        assert!(senders.iter().all(|(client, link)| net.clients[*client].wanted && net.sendable(*client, *link) > 0));
    }
}

#[test]
fn paused_connection_is_not_closed_by_its_idle_timeout() {
    let mut net = on_disk_within(1, Arc::new(SimulatedDisk::new(512, 7)), BUDGET as u64);
    let senders = producers(&mut net, 0, 20);
    let stalled = net.log.take();
    for (client, link) in &senders {
        send_all(&mut net, *client, *link);
    }
    let unread: Vec<usize> =
        senders.iter().map(|(client, _)| *client).filter(|client| !net.clients[*client].wanted).collect();
    assert!(!unread.is_empty());
    (0..10).for_each(|_| net.pass(60_000));
    assert!(unread.iter().all(|client| net.closed(*client).is_none()), "for ten minutes");
    net.log = stalled;
    net.run();
    assert!(unread.iter().all(|client| net.clients[*client].wanted && net.closed(*client).is_none()));
}

#[test]
fn direct_addresses_continue_while_stored_producers_are_paused() {
    let mut net = on_disk_within(1, Arc::new(SimulatedDisk::new(512, 7)), BUDGET as u64);
    let (sender, receiver) = (pinned(&mut net, 0), pinned(&mut net, 0));
    let out = net.sender(sender, Some("anycast"));
    net.receiver(receiver, "anycast", 1000);
    let senders = producers(&mut net, 0, 20);
    net.log = None;
    for (client, link) in &senders {
        send_all(&mut net, *client, *link);
    }
    let before = stopped(&net);
    assert!(before > 0);
    for _ in 0..200 {
        net.send(sender, out, &[1; BODY], true);
    }
    assert_eq!(net.messages(receiver).len(), 200);
    for (client, _) in &senders {
        net.cut(*client);
    }
    assert_eq!(stopped(&net), 0, "closed connections do not count as stopped");
}

#[test]
fn space_below_its_minimum_is_read_when_the_budget_is_full() {
    let mut net = on_disk_within(1, Arc::new(SimulatedDisk::new(512, 7)), 1);
    let senders = producers(&mut net, 0, 4);
    net.log = None;
    let sent: usize = senders.iter().map(|(client, link)| send_all(&mut net, *client, *link)).sum();
    assert!((SPACE_BYTES_MIN as usize..SPACE_BYTES_MIN as usize + 5 * BODY).contains(&sent), "{sent} bytes");
}
