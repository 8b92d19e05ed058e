//! Shards and real client machines, joined by byte strings: `contracts.md` 4 to 7 from the view of
//! a client. Each case of routing runs on one shard and on three, with producers and consumers on
//! shards of their own.

mod agreements;
mod cordoned;
mod creating;
mod departing;
mod guessing;
mod homes;
mod large;
mod management;
mod mqtt;
mod mqtt_logins;
mod net;
mod outcomes;
mod pacing;
mod plans;
mod receiving;
mod resuming;
mod retained;
mod revoking;
mod several;
mod stealing;
mod stored;
mod subscription_service;
mod temporary;
mod termini;
mod topic_homes;
mod topics;
mod transactions;
mod transactions_temporary;
mod work;

use enmasse_amqp::types::{Error, Modified, Open, Outcome, condition};
use enmasse_router::shard::{DYNAMIC_PREFIX, Fact, Peer};

use net::{ClientEvent, Net, dynamic_receiver, message_to, plain_init};

pub(crate) const OPEN_SPACE: &str = include_str!("../../../../vectors/plans/open.json");

/// Shards, the shard of the producer, the shard of the consumer. A connection whose first link is
/// elsewhere moves to its address; one that has a link already (`pin`) stays, and its messages
/// cross.
pub(crate) const LAYOUTS: [(u16, usize, usize); 3] = [(1, 0, 0), (3, 1, 2), (3, 0, 1)];

pub(crate) fn pinned(net: &mut Net, shard: usize) -> usize {
    let client = net.simple(shard);
    net.sender(client, None);
    client
}

fn accepted() -> Outcome {
    Outcome::Accepted
}

fn rejected() -> Outcome {
    Outcome::Rejected(Some(Box::new(Error::new(condition::NOT_ALLOWED, "no thanks"))))
}

#[test]
fn a_producer_has_credit_only_while_there_is_a_consumer() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let sender = pinned(&mut net, producer);
        let receiver = pinned(&mut net, consumer);
        let out = net.sender(sender, Some("anycast"));
        assert_eq!(net.sendable(sender, out), 0);
        let into = net.receiver(receiver, "anycast", 0);
        assert_eq!(net.sendable(sender, out), 1000, "credit comes with the consumer, before the consumer's own");
        net.detach(receiver, into);
        assert_eq!(net.sendable(sender, out), 0);
    }
}

#[test]
fn consumer_outcome_reaches_the_producer() {
    let modified = Outcome::Modified(Box::new(Modified { undeliverable_here: true, ..Modified::default() }));
    for (shards, producer, consumer) in LAYOUTS {
        for outcome in [accepted(), rejected(), Outcome::Released, modified.clone()] {
            let mut net = Net::new(shards, OPEN_SPACE);
            let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
            let into = net.receiver(receiver, "anycast", 10);
            let out = net.sender(sender, Some("anycast"));
            net.send(sender, out, b"hello", false);
            let messages = net.messages(receiver);
            assert_eq!(messages.iter().map(|(_, body)| &body[..]).collect::<Vec<_>>(), [b"hello"]);
            assert_eq!(net.outcomes(sender), [], "no outcome before the consumer's");
            net.settle(receiver, into, messages[0].0, &outcome);
            assert_eq!(net.outcomes(sender).into_iter().map(|(_, outcome)| outcome).collect::<Vec<_>>(), [outcome]);
        }
    }
}

#[test]
fn messages_wait_for_credit_and_arrive_in_order() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let into = net.receiver(receiver, "anycast", 0);
        let out = net.sender(sender, Some("anycast"));
        for number in 0..20u8 {
            net.send(sender, out, &[number], true);
        }
        assert_eq!(net.messages(receiver), []);
        net.grant(receiver, into, 7);
        assert_eq!(
            net.messages(receiver).into_iter().map(|(_, body)| body[0]).collect::<Vec<_>>(),
            (0..7).collect::<Vec<_>>()
        );
        net.grant(receiver, into, 100);
        assert_eq!(
            net.messages(receiver).into_iter().map(|(_, body)| body[0]).collect::<Vec<_>>(),
            (7..20).collect::<Vec<_>>()
        );
    }
}

#[test]
fn producer_window_is_replenished_as_consumers_take_messages() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        net.receiver(receiver, "anycast", 100_000);
        let out = net.sender(sender, Some("anycast"));
        for _ in 0..5000 {
            net.send(sender, out, b"x", true);
        }
        assert_eq!(net.messages(receiver).len(), 5000);
    }
}

#[test]
fn competing_consumers_are_balanced_by_outstanding_deliveries() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let sender = pinned(&mut net, producer);
        let receivers = [pinned(&mut net, consumer), pinned(&mut net, consumer), pinned(&mut net, 0)];
        for receiver in receivers {
            net.receiver(receiver, "anycast", 100);
        }
        let out = net.sender(sender, Some("anycast"));
        for _ in 0..30 {
            net.send(sender, out, b"x", false);
        }
        assert_eq!(receivers.map(|receiver| net.messages(receiver).len()), [10, 10, 10]);
    }
}

#[test]
fn detached_consumer_releases_its_deliveries_and_a_lost_one_fails_them() {
    for (shards, producer, consumer) in LAYOUTS {
        for cut in [false, true] {
            let mut net = Net::new(shards, OPEN_SPACE);
            let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
            let into = net.receiver(receiver, "anycast", 2);
            let out = net.sender(sender, Some("anycast"));
            for _ in 0..3 {
                net.send(sender, out, b"x", false);
            }
            if cut {
                net.cut(receiver)
            } else {
                net.detach(receiver, into)
            }
            let failed = Outcome::Modified(Box::new(Modified { delivery_failed: true, ..Modified::default() }));
            let held = if cut { failed } else { Outcome::Released };
            let mut outcomes: Vec<_> = net.outcomes(sender).into_iter().collect();
            outcomes.sort_by_key(|(id, _)| *id);
            let outcomes: Vec<_> = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
            assert_eq!(outcomes, [held.clone(), held, Outcome::Released], "an unsent message is released");
        }
    }
}

#[test]
fn connection_lost_during_a_delivery_leaves_no_message_unsettled() {
    for (shards, producer, consumer) in LAYOUTS {
        for address in ["anycast", "multicast"] {
            let mut net = Net::new(shards, OPEN_SPACE);
            let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
            net.receiver(receiver, address, 10);
            let (long, short) = (net.sender(sender, Some(address)), net.sender(sender, Some(address)));
            net.piece(sender, long, b"begins and", false, true, true);
            net.send(sender, short, b"waits", false);
            net.cut(receiver);
            net.piece(sender, long, b"ends", false, false, false);
            assert_eq!(net.outcomes(sender).len(), 2, "{address}: both have an outcome");
        }
    }
}

#[test]
fn deliveries_in_flight_to_a_detached_link_go_to_the_next_link() {
    for (shards, producer, consumer) in LAYOUTS.into_iter().filter(|(shards, ..)| *shards > 1) {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let out = net.sender(sender, Some("anycast"));
        let into = net.receiver(receiver, "anycast", 2);
        let _other = net.receiver(sender, "anycast", 0);
        net.at_once(|net| {
            net.send(sender, out, b"settled", true);
            net.send(sender, out, b"unsettled", false);
            net.detach(receiver, into);
            net.receiver(receiver, "anycast", 2);
        });
        let (outcomes, messages) = (net.outcomes(sender), net.messages(receiver));
        assert_eq!((messages.len(), outcomes.len()), (2, 0), "{messages:?} {outcomes:?}");
    }
}

#[test]
fn multicast_sends_a_copy_to_each_consumer() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let sender = pinned(&mut net, producer);
        let receivers = [pinned(&mut net, consumer), pinned(&mut net, producer), pinned(&mut net, consumer)];
        let links = receivers.map(|receiver| net.receiver(receiver, "multicast", 10));
        let out = net.sender(sender, Some("multicast"));
        net.send(sender, out, b"copy", false);
        let messages = receivers.map(|receiver| net.messages(receiver));
        assert!(messages.iter().all(|got| got.len() == 1 && got[0].1 == b"copy"));
        net.settle(receivers[0], links[0], messages[0][0].0, &Outcome::Released);
        net.settle(receivers[1], links[1], messages[1][0].0, &accepted());
        assert_eq!(net.outcomes(sender), [], "the outcome is sent once all have settled");
        net.settle(receivers[2], links[2], messages[2][0].0, &Outcome::Released);
        assert_eq!(net.outcomes(sender).len(), 1);
    }
}

#[test]
fn wildcard_receiver_gets_messages_to_matching_names_below_a_multicast() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        net.receiver(receiver, "multicast/+/temp", 10);
        let out = net.sender(sender, Some("multicast/7/temp"));
        let other = net.sender(sender, Some("multicast/7/humidity"));
        net.send(sender, out, b"21", true);
        assert_eq!(net.sendable(sender, other), 0, "humidity has no consumer");
        assert_eq!(net.messages(receiver).into_iter().map(|(_, body)| body).collect::<Vec<_>>(), [b"21".to_vec()]);
    }
}

#[test]
fn request_and_reply_over_a_dynamic_node_and_the_anonymous_terminus() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (client, service) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let requests = net.receiver(service, "anycast", 10);
        let inbox = net.attach(client, dynamic_receiver());
        net.grant(client, inbox, 10);
        let name = net.clients[client].received.iter().find_map(|received| match received {
            ClientEvent::Attached { link, attach } if *link == inbox => attach.source.as_ref()?.address.clone(),
            _ => None,
        });
        let name = name.expect("the answer names the node");
        assert!(name.starts_with(DYNAMIC_PREFIX) && name.len() == DYNAMIC_PREFIX.len() + 32);
        let out = net.sender(client, None);
        net.send(client, out, &message_to("anycast", Some(&name), b"question"), false);
        let (request, _) = net.messages(service)[0].clone();
        net.settle(service, requests, request, &accepted());
        assert_eq!(net.outcomes(client).len(), 1);
        let back = net.sender(service, None);
        net.send(service, back, &message_to(&name, None, b"answer"), true);
        assert_eq!(net.messages(client).len(), 1);
        net.detach(client, inbox);
        net.send(service, back, &message_to(&name, None, b"late"), false);
        let outcomes = net.outcomes(service);
        assert!(matches!(&outcomes[..], [(_, Outcome::Released | Outcome::Rejected(_))]), "{outcomes:?}");
    }
}

#[test]
fn the_anonymous_terminus_answers_each_message() {
    let mut net = Net::new(1, OPEN_SPACE);
    let client = net.simple(0);
    let out = net.sender(client, None);
    assert_eq!(net.sendable(client, out), 1000);
    net.send(client, out, &message_to("nowhere", None, b""), false);
    net.send(client, out, &message_to("anycast", None, b""), false);
    net.send(client, out, b"", false);
    let outcomes: Vec<_> = net.outcomes(client).into_iter().map(|(_, outcome)| outcome).collect();
    let conditions: Vec<_> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Outcome::Rejected(Some(error)) => error.condition.as_str().to_owned(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(conditions, ["amqp:not-found", "Released", "amqp:invalid-field"]);
    for _ in 0..3000 {
        net.send(client, out, &message_to("anycast", None, b""), false);
    }
    assert_eq!(net.outcomes(client).len(), 3000, "the window opens again");
}

#[test]
fn an_undeclared_address_is_refused_at_attach() {
    let mut net = Net::new(1, OPEN_SPACE);
    let client = net.simple(0);
    net.sender(client, Some("nowhere"));
    let error = net.detached(client).expect("a refusal detaches with an error");
    assert_eq!(error.condition, condition::NOT_FOUND);
    assert!(error.description.is_some_and(|text| text.contains("\"nowhere\"")));
    let recorded = |fact: &Fact| {
        matches!(fact, Fact::AttachRefused { address, space, reason, user: None, .. }
            if address == "nowhere" && space == "default.default" && reason.contains("nowhere"))
    };
    assert!(net.facts.iter().any(recorded), "{:?}", net.facts);
}

#[test]
fn drain_revokes_the_remaining_credit() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let into = net.receiver(receiver, "anycast", 10);
        let out = net.sender(sender, Some("anycast"));
        net.send(sender, out, b"x", true);
        net.drain(receiver, into);
        assert_eq!(net.messages(receiver).len(), 1);
        let drained = net.clients[receiver]
            .received
            .iter()
            .any(|received| matches!(received, ClientEvent::Flow { credit: 0, .. }));
        assert!(drained, "the flow says that nothing is left of the credit");
        net.send(sender, out, b"y", true);
        assert_eq!(net.messages(receiver), [], "drained credit is not used");
    }
}

#[test]
fn partial_delivery_is_forwarded_before_its_last_transfer() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        net.receiver(receiver, "anycast", 10);
        let out = net.sender(sender, Some("anycast"));
        let piece = vec![7; 100_000];
        net.piece(sender, out, &piece, false, true, true);
        let arrived =
            net.clients[receiver].received.iter().any(|received| matches!(received, ClientEvent::Message { .. }));
        assert!(arrived, "it is forwarded before its last frame");
        for _ in 0..50 {
            net.piece(sender, out, &piece, false, false, true);
        }
        net.piece(sender, out, &piece, false, false, false);
        assert_eq!(net.messages(receiver)[0].1.len(), 52 * piece.len());
    }
}

#[test]
fn a_connection_moves_to_where_its_address_lives() {
    let mut net = Net::new(2, OPEN_SPACE);
    let (receiver, sender) = (net.simple(0), net.simple(1));
    net.receiver(receiver, "anycast", 10);
    assert_eq!(net.shards[1].connection_count(), 1);
    let out = net.sender(sender, Some("anycast"));
    assert_eq!((net.shards[0].connection_count(), net.shards[1].connection_count()), (2, 0));
    net.send(sender, out, b"x", true);
    assert_eq!(net.messages(receiver).len(), 1);
}

#[test]
fn connection_that_names_no_space_is_refused_among_several() {
    let plan = include_str!("../../../../vectors/plans/many-spaces.json");
    let mut net = Net::new(1, plan);
    let open = |host: &str| Open { container_id: "c".into(), hostname: Some(host.into()), ..Open::default() };
    let unnamed = net.plain(0, open("127.0.0.1"));
    assert!(net.closed(unnamed).is_some(), "several spaces and no match: refused, never a default");
    let lab = net.plain(0, open("lab.south"));
    assert!(net.closed(lab).is_none());
}

#[test]
fn vouched_session_enters_only_its_own_space() {
    let vouched = |space: &str, user: Option<&str>| Peer {
        vouched: Some((space.into(), user.map(str::to_owned))),
        ..Peer::default()
    };
    let open = || Open { container_id: "c".into(), hostname: Some("default".into()), ..Open::default() };
    for plan in [OPEN_SPACE, include_str!("../../../../vectors/plans/closed.json")] {
        let mut net = Net::new(1, plan);
        for user in [None, Some("alice")] {
            let lost = net.client(0, vouched("gone", user), None, open());
            let error = net.closed(lost).flatten().expect("not admitted to the only space");
            assert_eq!(error.condition, condition::NOT_FOUND);
            assert!(error.description.unwrap().contains("gone"), "the error names the requested space");
        }
        let inside = net.client(0, vouched("default", Some("alice")), None, open());
        assert_eq!(net.closed(inside), None);
    }
}

#[test]
fn user_may_only_use_addresses_that_its_rights_cover() {
    let plan = include_str!("../../../../vectors/plans/closed.json");
    let mut net = Net::new(1, plan);
    let peer = || Peer { encrypted: true, ..Peer::default() };
    let open = || Open { container_id: "c".into(), ..Open::default() };
    let wrong = net.client(0, peer(), Some(plain_init("alice", "wrong")), open());
    assert!(net.closed(wrong).is_some());
    let refused = net.facts.iter().find_map(|fact| if let Fact::LoginRefused(why) = fact { Some(why) } else { None });
    let why = refused.expect("operators are notified");
    assert_eq!((why.user.as_deref(), why.space.as_deref()), (Some("alice"), Some("default.default")));
    assert_eq!((why.mechanism, &*why.reason), (Some("PLAIN"), "unknown user or wrong password"));
    let nobody = net.plain(0, open());
    assert!(net.closed(nobody).is_some(), "a closed space does not admit anonymous clients");
    let alice = net.client(0, peer(), Some(plain_init("alice", "pencil")), open());
    assert!(net.closed(alice).is_none());
    let let_in = net.facts.iter().find_map(|fact| match fact {
        Fact::Opened { user, space, mechanism, .. } => Some((user.as_deref(), space.as_str(), *mechanism)),
        _ => None,
    });
    assert_eq!(let_in, Some((Some("alice"), "default.default", Some("PLAIN"))));
    net.begin(alice);
    net.sender(alice, Some("orders"));
    assert_eq!(net.detached(alice), None);
    net.sender(alice, Some("else"));
    assert_eq!(net.detached(alice).map(|error| error.condition), Some(condition::UNAUTHORIZED_ACCESS));
}

#[test]
fn a_space_bounds_its_connections_and_links() {
    let plan =
        OPEN_SPACE.replace("\"links\": null", "\"links\": 2").replace("\"connections\": null", "\"connections\": 2");
    let mut net = Net::new(2, &plan);
    let (one, other) = (net.simple(0), net.simple(1));
    let third = net.plain(0, Open { container_id: "c".into(), ..Open::default() });
    let error = net.closed(third).flatten().expect("the third is closed with an error");
    assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED);
    net.receiver(one, "anycast", 1);
    let link = net.sender(other, Some("anycast"));
    assert_eq!(net.detached(other), None);
    net.sender(other, None);
    assert_eq!(net.detached(other).map(|error| error.condition), Some(condition::RESOURCE_LIMIT_EXCEEDED));
    net.detach(other, link);
    net.sender(one, None);
    assert_eq!(net.detached(one), None, "a detached link makes room");
    net.cut(one);
    let fourth = net.plain(0, Open { container_id: "c".into(), ..Open::default() });
    assert_eq!(net.closed(fourth), None, "a closed connection makes room");
}

#[test]
fn receiver_of_settled_deliveries_accepts_messages_implicitly() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        net.settled_receiver(receiver, "anycast", 10);
        let out = net.sender(sender, Some("anycast"));
        net.send(sender, out, b"x", false);
        assert_eq!(net.messages(receiver).len(), 1);
        assert_eq!(net.outcomes(sender).into_iter().map(|(_, outcome)| outcome).collect::<Vec<_>>(), [accepted()]);
    }
}
