//! The terms that both ends of a link agree on at attach, and the outcome of a message without a
//! destination on an anonymous link.

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{
    Attach, Error, Lifetime, Open, Outcome, ReceiverSettleMode, Role, Source, Symbol, Target, TerminusDurability,
    TerminusExpiryPolicy, Value, condition,
};

use crate::OPEN_SPACE;
use crate::net::{ClientEvent, Net, blank, message_to};

fn answered(net: &Net, client: usize, of: LinkId) -> Attach {
    let answers = net.clients[client].received.iter().find_map(|received| match received {
        ClientEvent::Attached { link, attach } if *link == of => Some((**attach).clone()),
        _ => None,
    });
    answers.expect("the attach is answered")
}

fn sender(name: &str, target: Target) -> Attach {
    let mut attach = blank(Role::Sender, name.to_owned());
    attach.target = Some(Box::new(target));
    attach
}

/// A client whose open has these properties.
fn client(net: &mut Net, container_id: &str, product: Option<&str>) -> usize {
    let properties = product.map(|product| (Symbol::constant("product"), Value::String(product.to_owned())));
    let properties = properties.into_iter().collect();
    let client = net.plain(0, Open { container_id: container_id.to_owned(), properties, ..Open::default() });
    net.begin(client);
    client
}

/// The settlement mode granted to a sender that requests `second`.
fn mode_of(net: &mut Net, client: usize, target: Target) -> ReceiverSettleMode {
    let asking = Attach { rcv_settle_mode: ReceiverSettleMode::Second, ..sender("asks for second", target) };
    let link = net.attach(client, asking);
    answered(net, client, link).rcv_settle_mode
}

#[test]
fn sender_gets_settle_mode_first_unless_its_library_requires_second() {
    let mut net = Net::new(1, OPEN_SPACE);
    let random = "QpKzFSaJfRjDeKJNtkUTZXBRMVYCBUWKnwpUYxQj";
    for (container, product, mode) in [
        ("2d3a3c8e-7b7e-4b6f-9a9f-0d8f5b6a1c11", Some("azsdk-python-servicebus"), ReceiverSettleMode::First),
        ("a client", Some("QpidJMS"), ReceiverSettleMode::First),
        (random, Some("QpidJMS"), ReceiverSettleMode::First),
        (random, None, ReceiverSettleMode::Second),
        ("a go program", Some("azsdk-go-azservicebus/v1.9.0"), ReceiverSettleMode::Second),
    ] {
        let client = client(&mut net, container, product);
        for target in [Target::node(Some("anycast".to_owned())), Target::node(None)] {
            assert_eq!(mode_of(&mut net, client, target), mode, "{container} {product:?}");
        }
    }
}

#[test]
fn a_receiver_keeps_the_settlement_mode_it_requests() {
    let mut net = Net::new(1, OPEN_SPACE);
    let client = client(&mut net, "receiver", Some("test"));
    let mut attach = blank(Role::Receiver, "receiver".to_owned());
    attach.rcv_settle_mode = ReceiverSettleMode::Second;
    attach.source = Some(Box::new(Source { address: Some("anycast".to_owned()), ..Source::default() }));
    let link = net.attach(client, attach);
    assert_eq!(answered(&net, client, link).rcv_settle_mode, ReceiverSettleMode::Second);
}

#[test]
fn attach_with_an_unsettled_map_is_answered_with_an_empty_one() {
    let mut net = Net::new(1, OPEN_SPACE);
    for unsettled in [None, Some(Vec::new()), Some(vec![(b"tag".to_vec(), None)])] {
        let client = net.simple(0);
        let asks = unsettled.is_some();
        let attach = Attach { unsettled, ..sender("s", Target::node(Some("anycast".to_owned()))) };
        let link = net.attach(client, attach);
        assert_eq!(answered(&net, client, link).unsettled, asks.then(Vec::new));
    }
}

fn dynamic(address: Option<&str>, properties: Vec<(Symbol, Value)>) -> Target {
    Target::Node {
        address: address.map(str::to_owned),
        durable: TerminusDurability::None,
        expiry_policy: TerminusExpiryPolicy::LinkDetach,
        timeout_s: 0,
        dynamic: true,
        dynamic_node_properties: properties,
        capabilities: Vec::new(),
    }
}

#[test]
fn dynamic_node_with_an_address_or_mistyped_properties_is_refused() {
    let lifetime = || (Symbol::from("lifetime-policy"), Lifetime::OnClose.to_value());
    let modes = |value| (Symbol::from("supported-dist-modes"), value);
    let symbol = |name| Value::Symbol(Symbol::from(name));
    let right = [
        dynamic(None, vec![]),
        dynamic(Some(""), vec![lifetime()]),
        dynamic(None, vec![modes(symbol("move")), ("other".into(), Value::Uint(1))]),
        dynamic(None, vec![modes(Value::Array(vec![symbol("move"), symbol("copy")]))]),
    ];
    let wrong = [
        (dynamic(Some("anycast"), vec![]), "attach.target.address"),
        (dynamic(None, vec![("lifetime-policy".into(), Value::Uint(u32::MAX))]), "lifetime-policy"),
        (dynamic(None, vec![("lifetime-policy".into(), symbol("delete-on-close"))]), "lifetime-policy"),
        (dynamic(None, vec![modes(Value::Uint(0))]), "supported-dist-modes"),
        (dynamic(None, vec![modes(Value::Array(vec![Value::Uint(0)]))]), "supported-dist-modes"),
    ];
    let mut net = Net::new(1, OPEN_SPACE);
    let client = net.simple(0);
    for target in right {
        let link = net.attach(client, sender("right", target));
        assert!(answered(&net, client, link).target.is_some());
        net.detach(client, link);
    }
    for (target, field) in wrong {
        let client = net.simple(0);
        net.attach(client, sender("wrong", target));
        let error = net.detached(client).expect("the link is refused");
        assert_eq!(error.condition, condition::DECODE_ERROR);
        assert!(error.description.is_some_and(|text| text.contains(field)), "{field}");
    }
    let client = net.simple(0);
    let mut receiver = blank(Role::Receiver, "wrong".to_owned());
    let source = Source { address: Some("anycast".to_owned()), dynamic: true, ..Source::default() };
    receiver.source = Some(Box::new(source));
    net.attach(client, receiver);
    assert_eq!(net.detached(client).map(|error| error.condition), Some(condition::DECODE_ERROR));
}

/// Sends a message to an unknown address on an anonymous link whose source offers these outcomes.
/// Returns the outcomes, and the error of the detach.
fn astray(outcomes: &[&str], settled: bool) -> (Vec<Outcome>, Option<Error>) {
    let mut net = Net::new(1, OPEN_SPACE);
    let client = net.simple(0);
    let outcomes = outcomes.iter().map(|name| Symbol::from(*name)).collect();
    let source = Some(Box::new(Source { outcomes, ..Source::default() }));
    let link = net.attach(client, Attach { source, ..sender("anonymous", Target::node(None)) });
    net.send(client, link, &message_to("nowhere", None, b"x"), settled);
    let recorded = net.outcomes(client).into_iter().map(|(_, outcome)| outcome).collect();
    (recorded, net.detached(client))
}

fn assert_names_the_delivery(error: &Error) {
    assert_eq!(error.condition, condition::NOT_FOUND);
    // The client's tags are the numbers of its deliveries.
    assert_eq!(error.info, [("delivery-tag".into(), Value::Binary(vec![0; 4]))]);
}

#[test]
fn undeliverable_unsettled_message_is_rejected_if_the_source_offers_rejected() {
    for outcomes in [&[][..], &["amqp:accepted:list", "amqp:rejected:list"]] {
        let (recorded, detached) = astray(outcomes, false);
        let [Outcome::Rejected(Some(error))] = &recorded[..] else { panic!("{recorded:?}") };
        assert_names_the_delivery(error);
        assert_eq!(detached, None);
    }
}

#[test]
fn undeliverable_message_that_cannot_be_rejected_detaches_its_link() {
    for (outcomes, settled) in [(&["amqp:accepted:list"][..], false), (&[], true), (&["amqp:rejected:list"], true)] {
        let (recorded, detached) = astray(outcomes, settled);
        assert_eq!(recorded, []);
        assert_names_the_delivery(&detached.expect("the link is detached"));
    }
}
