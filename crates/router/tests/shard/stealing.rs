//! Links that are attached again over another connection of their container (2.6.1,
//! `docs/decisions/0051-link-stealing.md`).

use enmasse_amqp::codec::envelope::envelope;
use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Attach, Open, Role, Source, Symbol, Target, Value, condition};
use enmasse_journal::queue::Settings;
use enmasse_router::core::OpenQueue;
use enmasse_router::shard::{Peer, StoredAddressChange};

use crate::OPEN_SPACE;
use crate::net::{ClientEvent, Net, blank, message_to, plain_init};

/// Shards, the shard of the older connection and that of the newer one; the queue lives on shard 0.
const LAYOUTS: [(u16, usize, usize); 5] = [(1, 0, 0), (3, 2, 2), (3, 2, 1), (3, 0, 1), (3, 1, 0)];

fn with_queue(shards: u16) -> Net {
    let queue = "{\"uid\": \"q\", \"name\": \"orders\", \"type\": \"queue\", \"durability\": \"memory\"}";
    let plan = OPEN_SPACE.replacen("\"addresses\": [", &format!("\"addresses\": [{queue},"), 1);
    let mut net = Net::new(shards, &plan);
    let entry = net.entry("orders");
    assert_eq!((entry.home.claim(0), net.entry("anycast").home.claim(0)), (0, 0));
    let opened = OpenQueue::new("orders".into(), Settings::default(), None);
    net.shards[0].change_stored_addresses(vec![StoredAddressChange::Open(entry.declared(), Box::new(opened))]);
    net
}

/// A client that stays on its shard.
fn client_as(net: &mut Net, shard: usize, container: &str, user: Option<&str>) -> usize {
    let open = Open { container_id: container.to_owned(), ..Open::default() };
    let sasl = user.map(|user| plain_init(user, "any"));
    let client = net.client(shard, Peer { loopback: true, ..Peer::default() }, sasl, open);
    net.begin(client);
    net.sender(client, None);
    client
}

fn client(net: &mut Net, shard: usize, container: &str) -> usize {
    client_as(net, shard, container, None)
}

fn receiver(name: &str, address: &str) -> Attach {
    let source = Source { address: Some(address.to_owned()), ..Source::default() };
    Attach { source: Some(Box::new(source)), ..blank(Role::Receiver, name.to_owned()) }
}

fn exclusive(name: &str) -> Attach {
    Attach { properties: vec![(Symbol::from("exclusive"), Value::Bool(true))], ..receiver(name, "orders") }
}

fn sender(name: &str, address: &str) -> Attach {
    Attach { target: Some(Box::new(Target::node(Some(address.to_owned())))), ..blank(Role::Sender, name.to_owned()) }
}

fn fill(net: &mut Net, count: usize) {
    let producer = client(net, 0, "producer");
    let out = net.attach(producer, sender("out", "orders"));
    for _ in 0..count {
        net.send(producer, out, &message_to("orders", None, b"x"), false);
    }
}

/// Whether a client has been notified that a link of its was stolen.
fn is_stolen(net: &Net, client: usize, link: LinkId) -> bool {
    net.clients[client].received.iter().any(|received| match received {
        ClientEvent::Detach { link: of, error: Some(error) } => {
            *of == link && error.condition == condition::LINK_STOLEN
        }
        _ => false,
    })
}

fn is_attached(net: &Net, client: usize, link: LinkId) -> bool {
    let received = &net.clients[client].received;
    let answered =
        received.iter().any(|received| matches!(received, ClientEvent::Attached { link: of, .. } if *of == link));
    answered && !received.iter().any(|received| matches!(received, ClientEvent::Detach { link: of, .. } if *of == link))
}

#[test]
fn the_newer_link_has_the_messages_and_the_older_one_is_stolen() {
    for (shards, older, newer) in LAYOUTS {
        let mut net = with_queue(shards);
        fill(&mut net, 3);
        let first = client(&mut net, older, "me");
        let old = net.attach(first, exclusive("in"));
        let other = net.attach(first, receiver("other", "anycast"));
        net.grant(first, old, 10);
        assert_eq!(net.messages(first).len(), 3);
        let second = client(&mut net, newer, "me");
        let new = net.attach(second, exclusive("in"));
        assert!(is_stolen(&net, first, old), "{shards} shards, {older} to {newer}");
        assert!(is_attached(&net, first, other), "the connection and its other links continue");
        assert!(is_attached(&net, second, new), "the home has detached the older one");
        net.grant(second, new, 10);
        let counts: Vec<u32> = net.messages(second).iter().map(|(_, body)| failures(body)).collect();
        assert_eq!(counts, [0; 3]);
        // and back again; the client uses the number of its link once more
        net.clients[first].received.clear();
        let back = net.attach(first, exclusive("in"));
        assert!(is_stolen(&net, second, new) && is_attached(&net, first, back));
    }
}

fn failures(body: &[u8]) -> u32 {
    envelope(body).expect("a message").header.delivery_count
}

#[test]
fn sender_is_stolen_regardless_of_its_address() {
    for (shards, older, newer) in LAYOUTS {
        let mut net = with_queue(shards);
        let (first, second) = (client(&mut net, older, "me"), client(&mut net, newer, "me"));
        let old = net.attach(first, sender("out", "orders"));
        let new = net.attach(second, sender("out", "anycast"));
        assert!(is_stolen(&net, first, old) && is_attached(&net, second, new));
    }
}

#[test]
fn links_of_another_user_container_name_or_role_are_not_stolen() {
    for (shards, older, newer) in LAYOUTS {
        for (container, user) in [("me", Some("bob")), ("other", Some("alice")), ("me", None)] {
            let mut net = with_queue(shards);
            let first = client_as(&mut net, older, "me", Some("alice"));
            let old = net.attach(first, receiver("link", "orders"));
            let second = client_as(&mut net, newer, container, user);
            let new = net.attach(second, receiver("link", "orders"));
            assert!(is_attached(&net, first, old) && is_attached(&net, second, new), "{container} {user:?}");
        }
        let mut net = with_queue(shards);
        let (first, second) = (client(&mut net, older, "me"), client(&mut net, newer, "me"));
        let old = net.attach(first, receiver("link", "orders"));
        for attach in [receiver("another", "orders"), sender("link", "orders")] {
            let new = net.attach(second, attach);
            assert!(is_attached(&net, first, old) && is_attached(&net, second, new));
        }
    }
}

#[test]
fn links_without_a_container_id_or_with_per_connection_termini_are_not_stolen() {
    for (shards, older, newer) in LAYOUTS {
        let mut net = with_queue(shards);
        let (first, second) = (client(&mut net, older, ""), client(&mut net, newer, ""));
        let old = net.attach(first, receiver("link", "orders"));
        let new = net.attach(second, receiver("link", "orders"));
        assert!(is_attached(&net, first, old) && is_attached(&net, second, new));
        let (first, second) = (client(&mut net, older, "me"), client(&mut net, newer, "me"));
        let dynamic = Source { dynamic: true, ..Source::default() };
        let coordinator = Target::Coordinator(enmasse_amqp::types::Coordinator { capabilities: Vec::new() });
        for attach in [
            blank(Role::Sender, "anonymous".to_owned()),
            Attach { source: Some(Box::new(dynamic)), ..blank(Role::Receiver, "reply".to_owned()) },
            Attach { target: Some(Box::new(coordinator)), ..blank(Role::Sender, "txn-ctrl".to_owned()) },
        ] {
            let (old, new) = (net.attach(first, attach.clone()), net.attach(second, attach.clone()));
            assert!(is_attached(&net, first, old) && is_attached(&net, second, new), "{}", attach.name);
        }
    }
}

#[test]
fn link_name_is_free_once_its_link_or_connection_ended() {
    for (shards, older, newer) in LAYOUTS {
        let mut net = with_queue(shards);
        let (first, second) = (client(&mut net, older, "me"), client(&mut net, newer, "me"));
        let gone = net.attach(first, receiver("link", "orders"));
        net.detach(first, gone);
        // Another link has its number now.
        let old = net.attach(first, receiver("other", "orders"));
        let new = net.attach(second, receiver("link", "orders"));
        assert!(is_attached(&net, second, new) && !is_stolen(&net, first, old));
        net.cut(second);
        let third = client(&mut net, newer, "me");
        let new = net.attach(third, receiver("link", "orders"));
        assert!(is_attached(&net, third, new) && !is_stolen(&net, first, old));
    }
}

#[test]
fn attach_that_waits_for_a_theft_may_end_or_be_stolen_itself() {
    for (shards, older, newer) in [(3, 2, 1), (3, 0, 1), (3, 1, 0)] {
        let mut net = with_queue(shards);
        let (first, second, third) =
            (client(&mut net, older, "me"), client(&mut net, newer, "me"), client(&mut net, newer, "me"));
        net.attach(first, exclusive("in"));
        let mut waiting = None;
        let answered = net.reaches_its_shard(second, |net| waiting = Some(net.attach(second, exclusive("in"))));
        assert!(!answered, "the older one is still there");
        let new = net.attach(third, exclusive("in"));
        assert!(is_attached(&net, third, new));
        assert!(is_stolen(&net, second, waiting.expect("a link")));
        net.reaches_its_shard(first, |net| waiting = Some(net.attach(first, exclusive("in"))));
        net.cut(first);
        net.cut(third);
        net.clients[second].received.clear();
        let last = net.attach(second, exclusive("in"));
        assert!(is_attached(&net, second, last));
    }
}
