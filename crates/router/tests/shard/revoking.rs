//! Rights and logins that end while they are used (`contracts.md` 5).

use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Open, Outcome, SaslInit, Symbol, condition};
use enmasse_router::plan::{Operation, Right};
use enmasse_router::shard::{Fact, LoginSubject, Peer};
use enmasse_router::table::{Judged, Rights};

use crate::net::{ClientEvent, Net, message_to};
use crate::{LAYOUTS, OPEN_SPACE, pinned};

/// The open space, closed: these users, and a service for tokens.
pub(crate) fn space(service: &str, users: &str) -> String {
    let open = "\"type\": \"none\", \"anonymous\": true, \"mechanisms\": [\"PLAIN\"]";
    let closed = format!(
        "\"type\": \"standard\", \"anonymous\": false, \"mechanisms\": [\"OAUTHBEARER\"], \"service\": \"{service}\""
    );
    let plan = OPEN_SPACE.replace(open, &closed).replace("\"users\": []", &format!("\"users\": [{users}]"));
    assert!(plan.contains(&closed) && plan.contains(users));
    plan
}

fn alice(rights: &str) -> String {
    format!("{{\"name\": \"alice\", \"rights\": [{rights}]}}")
}

const BOTH: &str = "{\"pattern\": \"anycast\", \"operations\": [\"send\", \"recv\"]},
                    {\"pattern\": \"multicast/#\", \"operations\": [\"send\", \"recv\"]}";
const ONE: &str = "{\"pattern\": \"anycast\", \"operations\": [\"send\"]}";

fn judged(until: Option<u64>) -> Judged {
    let until = until.map(|millis| Time::ZERO.plus_millis(millis));
    Judged::Right { user: "alice".into(), rights: Rights::nothing(), until, renewable: false }
}

/// A repeated acceptance, with these rights.
fn renewed(until: u64, rights: &[Right]) -> Judged {
    let rights = Rights::compile(rights).unwrap();
    let until = Some(Time::ZERO.plus_millis(until));
    Judged::Right { user: "alice".into(), rights, until, renewable: true }
}

fn right(pattern: &str) -> Right {
    Right { pattern: pattern.into(), operations: vec![Operation::Send, Operation::Recv] }
}

/// A client that logged in with a token.
pub(crate) fn logged_in(net: &mut Net, shard: usize) -> usize {
    let init = SaslInit {
        mechanism: Symbol::constant("OAUTHBEARER"),
        initial_response: Some(b"n,,\x01auth=Bearer abc\x01\x01".to_vec()),
        hostname: None,
    };
    let open = Open { container_id: format!("c{}", net.clients.len()), ..Open::default() };
    let client = net.client(shard, Peer { loopback: true, ..Peer::default() }, Some(init), open);
    assert!(net.closed(client).is_none(), "{:?}", net.facts);
    net.begin(client);
    client
}

fn net(shards: u16) -> Net {
    let mut net = Net::new(shards, &space("idp/1", &alice(BOTH)));
    net.judge = judged(None);
    net
}

fn closed_as(net: &Net, client: usize) -> Option<Symbol> {
    net.closed(client).flatten().map(|error| error.condition)
}

#[test]
fn links_that_lose_their_right_are_detached_and_others_stay() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = net(shards);
        let (sender, receiver) = (logged_in(&mut net, producer), logged_in(&mut net, consumer));
        net.sender(sender, None);
        net.sender(receiver, None);
        let (kept, lost) = (net.sender(sender, Some("anycast")), net.sender(sender, Some("multicast/a")));
        let taken = net.receiver(receiver, "anycast", 10);
        let wild = net.receiver(receiver, "multicast/+", 10);
        net.apply(&space("idp/1", &alice(ONE)));
        let ended = |net: &Net, client: usize| -> Vec<_> {
            let received = net.clients[client].received.iter();
            received
                .filter_map(|received| match received {
                    ClientEvent::Detach { link, error } => Some((*link, error.clone().map(|error| error.condition))),
                    _ => None,
                })
                .collect()
        };
        let why = Some(condition::UNAUTHORIZED_ACCESS);
        assert_eq!(ended(&net, sender), [(lost, why.clone())]);
        let mut gone = ended(&net, receiver);
        gone.sort_by_key(|(link, _)| link.0);
        assert_eq!(gone, [(taken, why.clone()), (wild, why)]);
        assert!(net.closed(sender).is_none() && net.closed(receiver).is_none());
        // the rest works: the right to send remains, and there is no consumer
        assert_eq!(net.sendable(sender, kept), 0);
        net.apply(&space("idp/1", &alice(BOTH)));
        net.receiver(receiver, "anycast", 10);
        net.send(sender, kept, b"again", false);
        assert_eq!(net.messages(receiver).len(), 1);
    }
}

#[test]
fn messages_held_by_a_receiver_are_released_when_its_right_ends() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = net(shards);
        let (sender, receiver) = (logged_in(&mut net, producer), logged_in(&mut net, consumer));
        net.receiver(receiver, "anycast", 10);
        let out = net.sender(sender, Some("anycast"));
        net.send(sender, out, b"held", false);
        assert_eq!(net.messages(receiver).len(), 1);
        net.apply(&space("idp/1", &alice(ONE)));
        let outcomes = net.outcomes(sender);
        assert!(matches!(outcomes[..], [(_, Outcome::Released)]), "{outcomes:?}");
    }
}

#[test]
fn anonymous_terminus_checks_the_right_for_each_message() {
    let mut net = net(1);
    let (sender, receiver) = (logged_in(&mut net, 0), logged_in(&mut net, 0));
    net.receiver(receiver, "multicast", 10);
    let out = net.sender(sender, None);
    net.send(sender, out, &message_to("multicast", None, b"one"), false);
    assert_eq!(net.messages(receiver).len(), 1);
    net.apply(&space("idp/1", &alice(ONE)));
    net.outcomes(sender);
    net.send(sender, out, &message_to("multicast", None, b"two"), false);
    let outcomes = net.outcomes(sender);
    let [(_, Outcome::Rejected(Some(error)))] = &outcomes[..] else { panic!("refused, not {outcomes:?}") };
    assert_eq!(error.condition, condition::UNAUTHORIZED_ACCESS);
    assert_eq!(net.detached(sender), None);
}

#[test]
fn a_token_admits_until_it_expires() {
    let mut net = net(1);
    net.judge = judged(Some(5_000));
    let client = logged_in(&mut net, 0);
    net.receiver(client, "anycast", 10);
    assert_eq!(net.requested.len(), 1);
    net.pass(4_999);
    assert!(net.closed(client).is_none());
    net.pass(1);
    assert_eq!(closed_as(&net, client), Some(condition::UNAUTHORIZED_ACCESS));
}

#[test]
fn token_of_a_moved_connection_expires_on_its_new_shard() {
    let mut net = net(2);
    net.judge = judged(Some(5_000));
    let other = logged_in(&mut net, 1);
    net.receiver(other, "anycast", 10);
    let client = logged_in(&mut net, 0);
    net.sender(client, Some("anycast"));
    net.pass(5_000);
    assert_eq!(closed_as(&net, client), Some(condition::UNAUTHORIZED_ACCESS));
}

#[test]
fn login_is_renewed_before_it_expires_with_the_rights_of_the_new_answer() {
    for shard in [0, 1] {
        let mut net = Net::new(2, &space("idp/1", ""));
        net.judge = renewed(100_000, &[right("anycast"), right("multicast")]);
        let client = logged_in(&mut net, shard);
        let (lost, kept) = (net.receiver(client, "multicast", 10), net.receiver(client, "anycast", 10));
        net.pass(69_999);
        assert_eq!(net.requested.len(), 1);
        net.judge = renewed(200_000, &[right("anycast")]);
        net.pass(1);
        assert_eq!(net.requested.len(), 2);
        let [(LoginSubject::NewLogin, first), (LoginSubject::Member, again)] = &net.requested[..] else {
            panic!("{:?}", net.requested)
        };
        assert_eq!(first, again);
        assert_eq!(net.detached(client).map(|error| error.condition), Some(condition::UNAUTHORIZED_ACCESS));
        net.pass(31_000);
        assert!(net.closed(client).is_none(), "the first expiry has passed");
        assert_eq!(net.requested.len(), 2);
        let sender = net.sender(client, Some("anycast"));
        net.send(client, sender, b"on", false);
        assert_eq!(net.messages(client).len(), 1, "{lost:?} has gone, {kept:?} has not");
        net.judge = Judged::Wrong("disabled".to_owned());
        net.pass(69_000);
        assert_eq!(closed_as(&net, client), Some(condition::UNAUTHORIZED_ACCESS));
        let reported = |fact: &Fact| matches!(fact, Fact::LoginRefused(refusal) if refusal.reason == "disabled");
        assert!(net.facts.iter().any(reported), "operators learn why");
        net.pass(60_000);
        assert_eq!(net.requested.len(), 3, "no request for a closed connection");
    }
}

#[test]
fn login_that_cannot_be_renewed_stays_valid_until_it_expires() {
    let mut net = net(1);
    net.judge = renewed(100_000, &[]);
    let client = logged_in(&mut net, 0);
    net.judge = Judged::Unknown("no answer".to_owned());
    for (requested, millis) in [(2, 70_000), (3, 10_000), (4, 10_000), (4, 9_999)] {
        net.pass(millis);
        assert!(net.closed(client).is_none());
        assert_eq!(net.requested.len(), requested);
    }
    net.pass(1);
    assert_eq!(closed_as(&net, client), Some(condition::UNAUTHORIZED_ACCESS));
}

#[test]
fn renewal_as_another_user_closes_the_connection() {
    let mut net = net(1);
    net.judge = renewed(10_000, &[]);
    let client = logged_in(&mut net, 0);
    net.judge = Judged::Right { user: "bob".into(), rights: Rights::nothing(), until: None, renewable: true };
    net.pass(5_000);
    assert_eq!(closed_as(&net, client), Some(condition::UNAUTHORIZED_ACCESS));
}

#[test]
fn login_of_a_very_short_lifetime_is_not_renewed_without_a_pause() {
    let mut net = net(1);
    net.judge = renewed(1, &[]);
    logged_in(&mut net, 0);
    net.judge = Judged::Unknown("no answer".to_owned());
    for _ in 0..100 {
        net.pass(0);
    }
    assert_eq!(net.requested.len(), 1);
}

#[test]
fn change_of_the_service_closes_connections_admitted_by_the_former() {
    let mut net = net(1);
    let client = logged_in(&mut net, 0);
    net.apply(&space("idp/2", &alice(BOTH)));
    assert_eq!(closed_as(&net, client), Some(condition::UNAUTHORIZED_ACCESS));
}

#[test]
fn change_from_an_open_to_a_closed_space_closes_anonymous_connections() {
    let mut net = Net::new(1, OPEN_SPACE);
    let client = pinned(&mut net, 0);
    net.apply(&space("idp/1", &alice(BOTH)));
    assert_eq!(closed_as(&net, client), Some(condition::UNAUTHORIZED_ACCESS));
}

#[test]
fn changed_password_or_deleted_user_closes_its_connections() {
    let golden = include_str!("../../../../vectors/plans/closed.json");
    for (from, to) in [
        // another password of alice, represented by bob's keys
        ("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=", "2VQbJ2dhWdLmmJxyR6bYB8mu/2lUlwc0JSLC4kBbJCA="),
        ("\"name\": \"alice\"", "\"name\": \"another-user\""),
    ] {
        let mut net = Net::new(1, golden);
        let peer = || Peer { loopback: true, ..Peer::default() };
        let open = || Open { container_id: "c".into(), ..Open::default() };
        let login = |user| Some(crate::net::plain_init(user, if user == "alice" { "pencil" } else { "crayon" }));
        let alice = net.client(0, peer(), login("alice"), open());
        assert!(net.closed(alice).is_none(), "{:?}", net.facts);
        net.apply(golden);
        assert!(net.closed(alice).is_none(), "nothing has changed");
        net.apply(&golden.replace(from, to));
        assert_eq!(closed_as(&net, alice), Some(condition::UNAUTHORIZED_ACCESS));
    }
}
