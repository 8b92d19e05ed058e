//! Addresses created on attach (`contracts.md` 6).

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Attach, Outcome, Role, Source, Symbol, Target, condition};
use enmasse_router::plan::AddressType;
use enmasse_router::shard::{CREATE_TIMEOUT_MS, WantedAddress};

use crate::net::{ClientEvent, Net, blank, message_to};
use crate::revoking::{logged_in, space};
use crate::stored::with_queue;
use crate::topics::{ask, client_of, durable, subscriber, with_topics};
use crate::transactions::{Controller, post};
use crate::{LAYOUTS, OPEN_SPACE, accepted, pinned};

/// The open space, which creates addresses `jobs/*` on attach.
fn creating() -> String {
    OPEN_SPACE.replacen("\"addresses\": [", "\"autoCreate\": [\"jobs/*\"], \"addresses\": [", 1)
}

/// The same space after the creation of `jobs/1`.
fn created() -> String {
    let address = "\"addresses\": [{\"uid\": \"made\", \"name\": \"jobs/1\", \"type\": \"anycast\"},";
    creating().replacen("\"addresses\": [", address, 1)
}

fn sender_of(capabilities: &[&str]) -> Attach {
    let mut target = Target::node(Some("jobs/1".to_owned()));
    if let Target::Node { capabilities: requested, .. } = &mut target {
        *requested = capabilities.iter().map(|name| Symbol::from(*name)).collect();
    }
    Attach { target: Some(Box::new(target)), ..blank(Role::Sender, "s".to_owned()) }
}

fn receiver_of(capabilities: &[&str]) -> Attach {
    let capabilities = capabilities.iter().map(|name| Symbol::from(*name)).collect();
    let source = Source { address: Some("jobs/1".to_owned()), capabilities, ..Source::default() };
    Attach { source: Some(Box::new(source)), ..blank(Role::Receiver, "r".to_owned()) }
}

fn is_attached(net: &Net, client: usize, link: LinkId) -> bool {
    let received = net.clients[client].received.iter();
    received.filter(|received| matches!(received, ClientEvent::Attached { link: of, .. } if *of == link)).count() == 1
        && !net.clients[client].received.iter().any(|received| matches!(received, ClientEvent::Detach { .. }))
}

#[test]
fn attach_waits_until_its_address_is_created() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, &creating());
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let into = net.attach(receiver, receiver_of(&[]));
        let out = net.attach(sender, sender_of(&[]));
        assert!(!is_attached(&net, receiver, into) && !is_attached(&net, sender, out));
        let wanted = WantedAddress {
            space: "default.default".to_owned(),
            address: "jobs/1".to_owned(),
            kind: None,
            patterns: vec!["jobs/*".to_owned()],
        };
        assert_eq!(net.wanted.iter().map(|(_, _, _, wanted, _)| wanted).collect::<Vec<_>>(), [&wanted, &wanted]);
        // another plan without the address changes nothing
        net.apply(&creating());
        assert!(!is_attached(&net, receiver, into));
        net.apply(&created());
        assert!(is_attached(&net, receiver, into) && is_attached(&net, sender, out));
        net.grant(receiver, into, 1);
        net.send(sender, out, b"job", false);
        let messages = net.messages(receiver);
        assert_eq!(messages.len(), 1);
        net.settle(receiver, into, messages[0].0, &accepted());
        assert_eq!(net.outcomes(sender).pop().map(|(_, outcome)| outcome), Some(Outcome::Accepted));
        net.pass(2 * CREATE_TIMEOUT_MS);
        assert!(is_attached(&net, sender, out), "no attach has timed out");
    }
}

#[test]
fn terminus_capabilities_select_the_type_of_a_created_address() {
    let mut net = Net::new(1, &creating());
    let requested = [
        (&[][..], None),
        (&["queue"], Some(AddressType::Queue)),
        (&["topic", "shared"], Some(AddressType::Topic)),
        (&["direct"], Some(AddressType::Anycast)),
        (&["direct", "topic"], Some(AddressType::Multicast)),
    ];
    for (capabilities, kind) in requested {
        for attach in [sender_of(capabilities), receiver_of(capabilities)] {
            let client = net.simple(0);
            net.attach(client, attach);
            assert_eq!(net.wanted.pop().map(|(_, _, _, wanted, _)| wanted.kind), Some(kind), "{capabilities:?}");
        }
    }
}

#[test]
fn an_attach_waits_two_seconds_at_most() {
    let mut net = Net::new(1, &creating());
    let client = net.simple(0);
    let link = net.attach(client, sender_of(&[]));
    net.pass(CREATE_TIMEOUT_MS - 1);
    assert_eq!(net.detached(client), None);
    net.pass(1);
    let error = net.detached(client).expect("a refusal");
    assert_eq!(error.condition, condition::NOT_FOUND);
    assert!(error.description.unwrap().contains("was not created within 2 s"));
    // a late answer does no harm, and the client may try again
    net.refuse_wanted("too late");
    net.apply(&created());
    assert!(!is_attached(&net, client, link));
    net.clients[client].received.clear();
    let again = net.attach(client, sender_of(&[]));
    assert!(is_attached(&net, client, again));
}

#[test]
fn refused_creation_detaches_with_its_reason_and_keeps_the_connection() {
    let mut net = Net::new(1, &creating());
    let client = net.simple(0);
    net.attach(client, sender_of(&[]));
    net.at_once(|net| {
        net.sender(client, Some("anycast"));
    });
    net.refuse_wanted("the quota is used up");
    let error = net.detached(client).expect("a refusal");
    assert_eq!((error.condition, error.description.as_deref()), (condition::NOT_FOUND, Some("the quota is used up")));
    let answers =
        net.clients[client].received.iter().filter(|received| matches!(received, ClientEvent::Attached { .. }));
    assert_eq!(answers.count(), 2, "the link behind it is answered");
    net.pass(2 * CREATE_TIMEOUT_MS);
    assert!(net.closed(client).is_none());
}

#[test]
fn an_answer_to_an_earlier_attach_does_not_refuse_a_later_one() {
    let mut net = Net::new(1, &creating());
    let client = net.simple(0);
    net.attach(client, sender_of(&[]));
    net.pass(CREATE_TIMEOUT_MS);
    net.clients[client].received.clear();
    let again = net.attach(client, sender_of(&[]));
    net.refuse_wanted("of the first");
    assert_eq!(net.detached(client), None);
    net.apply(&created());
    assert!(is_attached(&net, client, again));
}

#[test]
fn connection_lost_during_a_waiting_attach_leaves_no_link() {
    let mut net = Net::new(1, &creating());
    let (lost, other) = (net.simple(0), net.simple(0));
    net.attach(lost, sender_of(&[]));
    net.cut(lost);
    net.apply(&created());
    let out = net.attach(other, sender_of(&[]));
    assert!(is_attached(&net, other, out));
    assert_eq!(net.sendable(other, out), 0, "no consumer");
}

#[test]
fn address_creation_requires_the_create_right() {
    let alice = |operations: &str| {
        let users = format!(
            "{{\"name\": \"alice\", \"rights\": [{{\"pattern\": \"jobs/*\", \"operations\": [{operations}]}}]}}"
        );
        space("idp", &users).replacen("\"addresses\": [", "\"autoCreate\": [\"jobs/*\"], \"addresses\": [", 1)
    };
    for (operations, verb) in
        [("\"send\"", Some("create the address")), ("\"create\"", Some("send to")), ("\"send\", \"create\"", None)]
    {
        let mut net = Net::new(1, &alice(operations));
        net.judge = enmasse_router::table::Judged::Right {
            user: "alice".into(),
            rights: enmasse_router::table::Rights::nothing(),
            until: None,
            renewable: false,
        };
        let client = logged_in(&mut net, 0);
        net.attach(client, sender_of(&[]));
        assert_eq!(net.wanted.len(), usize::from(verb.is_none()));
        if let Some(verb) = verb {
            let error = net.detached(client).expect("a refusal");
            assert_eq!(error.condition, condition::UNAUTHORIZED_ACCESS);
            assert!(error.description.unwrap().contains(verb));
        } else {
            assert_eq!(net.wanted[0].4.as_deref(), Some("alice"));
        }
    }
}

#[test]
fn a_message_to_the_anonymous_terminus_creates_nothing() {
    let open = creating().replacen("\"name\": \"anycast\"", "\"name\": \"#\"", 1);
    let mut net = Net::new(1, &open);
    let client = net.simple(0);
    let link = net.sender(client, None);
    net.send(client, link, &message_to("jobs/1", None, b"x"), false);
    let outcomes = net.outcomes(client);
    let [(_, Outcome::Rejected(Some(error)))] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(error.condition, condition::NOT_FOUND);
    assert!(error.description.as_deref().unwrap().ends_with("or attach a link to it"));
    assert!(net.wanted.is_empty());
}

#[test]
fn address_in_use_is_not_sealed_and_a_sealed_one_refuses_links() {
    for (shards, producer, _) in LAYOUTS {
        let mut net = Net::new(shards, &created());
        let client = pinned(&mut net, producer);
        let out = net.attach(client, sender_of(&[]));
        let entry = net.entry("jobs/1");
        let home = usize::from(entry.home.get().expect("a home"));
        assert!(!net.shards[home].seal_unused(&entry), "it has a link");
        net.detach(client, out);
        assert!(net.shards[home].seal_unused(&entry));
        net.clients[client].received.clear();
        net.attach(client, sender_of(&[]));
        assert_eq!(net.detached(client).map(|error| error.condition), Some(condition::RESOURCE_DELETED));
        // its deletion is cancelled
        net.shards[home].unseal(&entry);
        net.clients[client].received.clear();
        let out = net.attach(client, sender_of(&[]));
        assert!(is_attached(&net, client, out));
        net.detach(client, out);
        // it is deleted, and may be created again
        assert!(net.shards[home].seal_unused(&entry));
        net.apply(&creating());
        net.clients[client].received.clear();
        let out = net.attach(client, sender_of(&[]));
        net.apply(&created().replacen("\"made\"", "\"recreated\"", 1));
        assert!(is_attached(&net, client, out));
    }
}

#[test]
fn message_keeps_its_address_from_being_sealed() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = with_queue(shards);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let entry = net.entry("orders");
        let out = net.sender(sender, Some("orders"));
        net.send(sender, out, &message_to("orders", None, b"kept"), false);
        net.detach(sender, out);
        assert!(!net.shards[0].seal_unused(&entry));
        let into = net.receiver(receiver, "orders", 1);
        let messages = net.messages(receiver);
        net.settle(receiver, into, messages[0].0, &accepted());
        net.detach(receiver, into);
        assert!(net.shards[0].seal_unused(&entry));
    }
}

#[test]
fn posting_of_an_open_transaction_keeps_its_address_from_being_sealed() {
    let mut net = with_queue(1);
    let client = pinned(&mut net, 0);
    let entry = net.entry("orders");
    let control = Controller::new(&mut net, client);
    let txn = control.declare(&mut net);
    let out = net.sender(client, Some("orders"));
    post(&mut net, client, out, &txn, "posted");
    net.detach(client, out);
    assert!(!net.shards[0].seal_unused(&entry));
    control.discharge(&mut net, &txn, true);
    assert!(net.shards[0].seal_unused(&entry));
}

#[test]
fn durable_subscription_keeps_its_topic_from_being_sealed() {
    let mut net = with_topics(1);
    let client = client_of(&mut net, 0, "c");
    let entry = net.entry("news");
    let (link, _) = ask(&mut net, client, durable(subscriber("sub", "news", &["topic"])));
    net.leave(client, link);
    assert!(!net.shards[0].seal_unused(&entry));
    let (link, _) = ask(&mut net, client, durable(subscriber("sub", "news", &["topic"])));
    net.detach(client, link);
    assert!(net.shards[0].seal_unused(&entry));
}
