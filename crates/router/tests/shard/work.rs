//! The cost of connections: reading stops once a budget is spent, and every kind of work counts.

use enmasse_amqp::types::{Outcome, Role, Source, Target, condition};
use enmasse_router::shard::Shard;

use crate::net::{ClientEvent, Net, blank};
use crate::{OPEN_SPACE, pinned};

const MILLISECOND: u64 = 1_000_000;

fn attached(net: &Net, client: usize) -> usize {
    net.clients[client].received.iter().filter(|received| matches!(received, ClientEvent::Attached { .. })).count()
}

fn consumers(net: &Net) -> u32 {
    net.shards.iter().flat_map(Shard::address_stats).map(|(_, stats)| stats.consumers).sum()
}

#[test]
fn a_burst_of_attaches_is_interrupted_and_continues_where_it_stopped() {
    let mut net = Net::new(1, OPEN_SPACE);
    let client = net.simple(0);
    let mut progress = net.feed_within(client, MILLISECOND, |net| {
        for number in 0..1000 {
            let mut attach = blank(Role::Sender, format!("s{number}"));
            attach.target = Some(Box::new(Target::node(Some("anycast".to_owned()))));
            net.attach(client, attach);
        }
    });
    let mut visits = 1;
    while progress.paused {
        assert!(progress.work_nanos < 2 * MILLISECOND, "a visit ends after its budget: {progress:?}");
        progress = net.feed_within(client, MILLISECOND, |_| ());
        visits += 1;
    }
    assert!(visits > 4, "1,000 attaches took {visits} visits of a millisecond");
    net.run();
    assert_eq!(attached(&net, client), 1000);
}

#[test]
fn closing_a_connection_with_many_links_takes_several_turns_without_redelivery() {
    for shards in [1, 2] {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (client, keeper) = (pinned(&mut net, usize::from(shards) - 1), pinned(&mut net, 0));
        let kept = net.receiver(keeper, "anycast", 0);
        net.at_once(|net| {
            for number in 0..2000 {
                let mut attach = blank(Role::Receiver, format!("r{number}"));
                attach.source = Some(Box::new(Source { address: Some("anycast".to_owned()), ..Source::default() }));
                let link = net.attach(client, attach);
                net.grant(client, link, 1);
            }
        });
        let out = net.sender(keeper, Some("anycast"));
        net.at_once(|net| (0..10).for_each(|_| net.send(keeper, out, b"m", false)));
        assert_eq!(net.messages(client).len(), 10);
        assert_eq!(consumers(&net), 2001);
        let mut turns = 0;
        net.at_once(|net| net.cut(client));
        net.grant(keeper, kept, 100);
        while net.shards.iter().any(Shard::has_departures) {
            net.run();
            turns += 1;
            assert!(turns < 20);
        }
        net.run();
        let outcomes = net.outcomes(keeper);
        assert_eq!(outcomes.len(), 10);
        assert!(outcomes.iter().all(|(_, outcome)| matches!(outcome, Outcome::Modified(it) if it.delivery_failed)));
        assert_eq!(consumers(&net), 1);
        net.send(keeper, out, b"next", false);
        assert_eq!(net.messages(keeper).len(), 1);
    }
}

#[test]
fn closing_a_connection_with_many_unsettled_deliveries_takes_several_turns_in_order() {
    const MESSAGES: usize = 20_000;
    for shards in [1, 2] {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (client, keeper) = (pinned(&mut net, usize::from(shards) - 1), pinned(&mut net, 0));
        let kept = net.receiver(keeper, "anycast", 0);
        for name in ["one", "two"] {
            let mut attach = blank(Role::Receiver, name.to_owned());
            attach.source = Some(Box::new(Source { address: Some("anycast".to_owned()), ..Source::default() }));
            let link = net.attach(client, attach);
            net.grant(client, link, MESSAGES as u32 / 2);
        }
        // The window of one sender is smaller.
        for _ in 0..MESSAGES / 100 {
            let out = net.sender(keeper, Some("anycast"));
            net.at_once(|net| (0..100).for_each(|_| net.send(keeper, out, b"m", false)));
        }
        assert_eq!(net.messages(client).len(), MESSAGES);
        net.at_once(|net| {
            net.cut(client);
            if shards == 1 {
                assert!(net.shards[0].has_departures(), "one turn returns a part");
                assert_eq!(consumers(net), 3, "deliveries return before their links leave");
            }
        });
        net.grant(keeper, kept, 10);
        assert_eq!(net.outcomes(keeper).len(), MESSAGES, "each delivery is answered once");
        assert_eq!(net.messages(keeper).len(), 0, "nothing is redelivered");
        assert_eq!(consumers(&net), 1);
    }
}

#[test]
fn a_multicast_message_costs_its_sender_every_copy() {
    let mut net = Net::new(1, OPEN_SPACE);
    let sender = net.simple(0);
    for _ in 0..50 {
        let receiver = net.simple(0);
        net.receiver(receiver, "multicast", 10);
    }
    let out = net.sender(sender, Some("multicast"));
    let progress = net.feed_within(sender, MILLISECOND, |net| net.send(sender, out, b"news", true));
    assert!(progress.work_nanos > 50 * 200, "{progress:?}");
    net.run();
    assert_eq!(net.messages(1).len(), 1);
}

#[test]
fn waiting_delivery_charges_the_connection_that_receives_it() {
    let mut net = Net::new(1, OPEN_SPACE);
    let (sender, receiver) = (net.simple(0), net.simple(0));
    let into = net.receiver(receiver, "anycast", 0);
    let out = net.sender(sender, Some("anycast"));
    net.send(sender, out, b"early", true);
    let progress = net.feed_within(receiver, MILLISECOND, |net| net.grant(receiver, into, 1));
    assert!(progress.work_nanos > 0, "{progress:?}");
    net.run();
    assert_eq!((net.messages(receiver).len(), net.work(receiver)), (1, 0), "the cost is charged to the reader");
}

#[test]
fn a_disposition_costs_as_much_as_the_deliveries_it_covers() {
    let mut net = Net::new(1, OPEN_SPACE);
    let (sender, receiver) = (net.simple(0), net.simple(0));
    let into = net.receiver(receiver, "anycast", 1000);
    let out = net.sender(sender, Some("anycast"));
    let mut cost_of = |count: u32| {
        net.at_once(|net| (0..count).for_each(|_| net.send(sender, out, b"m", false)));
        let ids: Vec<u32> = net.messages(receiver).into_iter().map(|(id, _)| id).collect();
        let progress = net.feed_within(receiver, u64::MAX, |net| {
            ids.iter().for_each(|id| net.settle(receiver, into, *id, &Outcome::Accepted));
        });
        net.run();
        progress.work_nanos
    };
    let (few, many) = (cost_of(10), cost_of(900));
    assert!(many > few + 800 * 50, "{few} and {many}");
}

#[test]
fn a_plan_bounds_the_links_of_a_connection() {
    let plan = OPEN_SPACE.replace("\"links\": null", "\"links\": null, \"linksPerConnection\": 2");
    let mut net = Net::new(1, &plan);
    let (one, other) = (net.simple(0), net.simple(0));
    let first = net.sender(one, Some("anycast"));
    net.receiver(one, "multicast", 1);
    assert_eq!(net.detached(one), None);
    net.sender(one, None);
    let error = net.detached(one).expect("the third link is refused");
    assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED);
    assert!(error.description.is_some_and(|text| text.contains("2 links")));
    net.sender(other, Some("anycast"));
    assert_eq!(net.detached(other), None, "another connection has its own limit");
    net.detach(one, first);
    net.clients[one].received.clear();
    net.sender(one, None);
    assert_eq!(net.detached(one), None, "a detached link makes room");
}
