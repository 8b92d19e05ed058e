//! The node's budget of received bytes that are not stored: on one shard and on three, with a disk
//! that answers late, and with consumers of direct addresses that take nothing.

use std::sync::Arc;

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Open, Outcome};
use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_router::core::SPACE_BYTES_MIN;

use crate::net::{Net, message_to};
use crate::resuming::on_disk_within;
use crate::{OPEN_SPACE, pinned};

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

/// The payload of one frame, and the frames that each producer sends.
const FRAME: usize = 32 << 10;
const FRAMES: u32 = 64;

/// A node with the spaces `default` and `other`.
fn two_spaces_within(shards: u16, budget_bytes: u64) -> Net {
    let mut plan: serde_json::Value = serde_json::from_str(OPEN_SPACE).expect("a plan");
    let other = OPEN_SPACE.replace("default", "other").replace("address-", "other-").replace("space-1", "space-2");
    let other: serde_json::Value = serde_json::from_str(&other).expect("a plan");
    plan["spaces"].as_array_mut().expect("spaces").push(other["spaces"][0].clone());
    Net::with_budget(shards, &plan.to_string(), budget_bytes)
}

/// A client of a space. Its first link is to the anonymous terminus, so that it stays on `shard`.
fn client_of(net: &mut Net, shard: usize, space: &str) -> usize {
    let container_id = format!("c{}", net.clients.len());
    let client = net.plain(shard, Open { container_id, hostname: Some(space.to_owned()), ..Open::default() });
    net.begin(client);
    net.sender(client, None);
    client
}

/// A client of `default` with a second link, which sends to the address; and perhaps a third one,
/// which receives from another. It then reads nothing, because its machine does not know the frames
/// of [`transfer`].
fn direct_producer(net: &mut Net, shard: usize, address: &str, receives: Option<&str>) -> usize {
    let client = client_of(net, shard, "default");
    net.sender(client, Some(address));
    if let Some(other) = receives {
        net.receiver(client, other, 10);
    }
    net.clients[client].deaf = true;
    client
}

/// A settled transfer frame of the second link of a client, which regards no window and no credit.
fn transfer(delivery: u8, more: bool) -> Vec<u8> {
    let more = if more { 0x41 } else { 0x42 };
    let fields = [0x52, 1, 0x52, delivery, 0xa0, 1, delivery, 0x43, 0x41, more];
    let mut frame = ((8 + 5 + 1 + fields.len() + FRAME) as u32).to_be_bytes().to_vec();
    frame.extend([2, 0, 0, 0, 0, 0x53, 0x14, 0xc0, fields.len() as u8 + 1, 6]);
    frame.extend(fields);
    frame.extend([7; FRAME]);
    frame
}

fn flood(net: &mut Net, client: usize) {
    for delivery in 0..FRAMES {
        net.say(client, &transfer(delivery as u8, false));
    }
}

fn dropped(net: &Net) -> usize {
    net.shards.iter().flat_map(|shard| shard.address_stats()).map(|(_, stats)| stats.dropped as usize).sum()
}

#[test]
fn direct_messages_of_a_space_are_bounded_and_another_space_continues() {
    for ((shards, shard), address) in LAYOUTS.into_iter().zip(["anycast", "anycast", "multicast"]) {
        let mut net = two_spaces_within(shards, BUDGET as u64);
        let reader = client_of(&mut net, shard, "default");
        let into = net.receiver(reader, address, 0);
        let flooding: Vec<usize> = (0..20).map(|_| direct_producer(&mut net, shard, address, None)).collect();
        let (sender, receiver) = (client_of(&mut net, shard, "other"), client_of(&mut net, shard, "other"));
        net.receiver(receiver, address, 1000);
        let out = net.sender(sender, Some(address));
        flooding.iter().for_each(|client| flood(&mut net, *client));
        let held = net.receive_budget.held() as usize;
        assert!((BUDGET / 4..=BUDGET / 2).contains(&held), "{held} bytes");
        assert!(stopped(&net) >= 15, "{} connections are not read", stopped(&net));
        assert!(net.clients[reader].wanted && net.clients[sender].wanted);
        for _ in 0..200 {
            net.send(sender, out, &[1; BODY], true);
        }
        assert_eq!(net.messages(receiver).len(), 200);
        net.grant(reader, into, 20 * FRAMES);
        assert_eq!((stopped(&net), net.receive_budget.held()), (0, 0));
        let received = net.messages(reader).len();
        assert_eq!(received + dropped(&net), 20 * FRAMES as usize);
    }
}

#[test]
fn connection_that_also_receives_is_read_and_its_excess_is_dropped_and_counted() {
    for address in ["anycast", "multicast"] {
        let mut net = two_spaces_within(1, 1);
        let reader = client_of(&mut net, 0, "default");
        let into = net.receiver(reader, address, 0);
        let other = if address == "anycast" { "multicast" } else { "anycast" };
        let both = direct_producer(&mut net, 0, address, Some(other));
        flood(&mut net, both);
        assert_eq!(stopped(&net), 0);
        let held = net.receive_budget.held();
        assert!((SPACE_BYTES_MIN / 2..=SPACE_BYTES_MIN).contains(&held), "{held} bytes");
        let dropped = dropped(&net);
        assert!(dropped >= FRAMES as usize / 2);
        net.grant(reader, into, FRAMES);
        assert_eq!(net.messages(reader).len() + dropped, FRAMES as usize);
    }
}

#[test]
fn unsettled_direct_messages_beyond_the_share_are_released() {
    let mut net = two_spaces_within(1, 1);
    let reader = client_of(&mut net, 0, "default");
    net.receiver(reader, "anycast", 0);
    let mut released = 0;
    for _ in 0..40 {
        let client = client_of(&mut net, 0, "default");
        net.receiver(client, "multicast", 1);
        let link = net.sender(client, Some("anycast"));
        net.send(client, link, &[3; FRAME], false);
        released += net.outcomes(client).iter().filter(|(_, outcome)| *outcome == Outcome::Released).count();
    }
    let held = net.receive_budget.held() as usize;
    assert!(held <= SPACE_BYTES_MIN as usize);
    assert_eq!(released, 40 - held / FRAME);
}

#[test]
fn incomplete_direct_message_beyond_the_share_is_dropped() {
    let mut net = two_spaces_within(1, 1);
    let reader = client_of(&mut net, 0, "default");
    let into = net.receiver(reader, "anycast", 0);
    let client = direct_producer(&mut net, 0, "anycast", Some("multicast"));
    for _ in 0..FRAMES {
        net.say(client, &transfer(0, true));
        assert!(net.receive_budget.held() <= SPACE_BYTES_MIN + FRAME as u64);
    }
    net.say(client, &transfer(0, false));
    assert_eq!((net.receive_budget.held(), dropped(&net)), (0, 1));
    net.say(client, &transfer(1, false));
    net.grant(reader, into, 10);
    assert_eq!(net.messages(reader).len(), 1);
}
