//! The management node: requests about addresses and where their answers go.

use enmasse_amqp::codec::{decode_message, encode_message};
use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{
    Attach, Body, Message, MessageId, Open, Outcome, Properties, Role, Source, Target, Value, condition,
};
use enmasse_router::shard::{DYNAMIC_PREFIX, Peer};

use crate::net::{ClientEvent, Net, blank, dynamic_receiver, message_to, plain_init};
use crate::stored::{with_queue, with_stream};
use crate::{OPEN_SPACE, pinned};

/// Shards, and the shard of the requesting client; stored addresses live on shard 0.
const ASKERS: [(u16, usize); 3] = [(1, 0), (3, 0), (3, 2)];

type Recorded = Vec<(String, Value)>;

fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn request(reply_to: Option<&str>, id: u64, properties: &[(&str, Value)], body: Body) -> Vec<u8> {
    let message = Message {
        properties: Some(Properties {
            message_id: Some(MessageId::Ulong(id)),
            reply_to: reply_to.map(str::to_owned),
            ..Properties::default()
        }),
        application_properties: properties.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        body,
        ..Message::default()
    };
    let mut bytes = Vec::new();
    encode_message(&mut bytes, &message);
    bytes
}

fn read(reply_to: &str, id: u64, name: &str) -> Vec<u8> {
    let properties = [("operation", string("READ")), ("type", string("enmasse.address")), ("name", string(name))];
    request(Some(reply_to), id, &properties, Body::Value(Value::Map(Vec::new())))
}

/// A receiver of a dynamic node, and its name.
fn reply_node(net: &mut Net, client: usize) -> String {
    let link = net.attach(client, dynamic_receiver());
    net.grant(client, link, 1000);
    let attached = net.clients[client].received.iter().rev().find_map(|received| match received {
        ClientEvent::Attached { attach, .. } => attach.source.as_ref().and_then(|source| source.address.clone()),
        _ => None,
    });
    attached.expect("a name")
}

/// A receiver of answers whose target address is `called`.
fn answers(net: &mut Net, client: usize, called: &str, credit: u32) -> LinkId {
    let mut attach = blank(Role::Receiver, format!("answers-{called}"));
    attach.source = Some(Box::new(Source { address: Some("$management".to_owned()), ..Source::default() }));
    attach.target = Some(Box::new(Target::node(Some(called.to_owned()))));
    let link = net.attach(client, attach);
    net.grant(client, link, credit);
    link
}

struct Answer {
    status: i32,
    text: String,
    correlation_id: Option<MessageId>,
    to: Option<String>,
    body: Recorded,
}

fn recorded(net: &mut Net, client: usize) -> Vec<Answer> {
    net.messages(client).into_iter().map(|(_, bytes)| answer(&bytes)).collect()
}

fn answer(bytes: &[u8]) -> Answer {
    let message = decode_message(bytes).expect("a message");
    let properties = message.properties.expect("properties");
    let [(_, Value::Int(status)), (_, Value::String(text))] = &message.application_properties[..] else {
        panic!("{:?}", message.application_properties)
    };
    let names: Vec<_> = message.application_properties.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["statusCode", "statusDescription"]);
    let Body::Value(Value::Map(body)) = message.body else { panic!("no map") };
    let named = |(name, value)| if let Value::String(name) = name { (name, value) } else { panic!("no name") };
    Answer {
        status: *status,
        text: text.clone(),
        correlation_id: properties.correlation_id,
        to: properties.to,
        body: body.into_iter().map(named).collect(),
    }
}

fn field<'a>(answer: &'a Answer, name: &str) -> &'a Value {
    &answer.body.iter().find(|(key, _)| key == name).unwrap_or_else(|| panic!("no {name}")).1
}

#[test]
fn read_of_a_stream_returns_its_offsets() {
    for (shards, shard) in ASKERS {
        let mut net = with_stream(shards);
        let client = pinned(&mut net, shard);
        let out = net.sender(client, Some("events"));
        for _ in 0..5 {
            net.send(client, out, &message_to("events", None, b"x"), false);
        }
        let requests = net.sender(client, Some("$management"));
        let name = reply_node(&mut net, client);
        net.outcomes(client);
        net.send(client, requests, &read(&name, 7, "events"), false);
        let [answer] = &recorded(&mut net, client)[..] else { panic!("one answer") };
        assert_eq!((answer.status, &*answer.text), (200, "OK"));
        assert_eq!(answer.correlation_id, Some(MessageId::Ulong(7)));
        assert_eq!(answer.to.as_deref(), Some(&*name));
        assert_eq!(*field(answer, "uid"), string("s"));
        assert_eq!(*field(answer, "addressType"), string("topic"));
        assert_eq!(*field(answer, "depth"), Value::Ulong(5));
        assert_eq!(*field(answer, "producers"), Value::Uint(1));
        let Value::List(partitions) = field(answer, "partitions") else { panic!("no list") };
        let bounds: Vec<_> = partitions
            .iter()
            .map(|partition| match partition {
                Value::Map(fields) => match &fields[..] {
                    [(_, Value::Uint(number)), (_, Value::Ulong(first)), (_, Value::Ulong(next))] => {
                        (*number, *first, *next)
                    }
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(bounds.iter().map(|(number, first, _)| (*number, *first)).collect::<Vec<_>>(), [(0, 0), (1, 0)]);
        assert_eq!(bounds.iter().map(|(.., next)| next).sum::<u64>(), 5);
        assert_eq!(
            net.outcomes(client).into_iter().map(|(_, outcome)| outcome).collect::<Vec<_>>(),
            [Outcome::Accepted]
        );
    }
}

#[test]
fn answers_go_to_the_receiver_whose_target_address_is_the_reply_to() {
    for (shards, shard) in ASKERS {
        let mut net = with_queue(shards);
        let client = pinned(&mut net, shard);
        let (one, _) = (answers(&mut net, client, "one", 10), answers(&mut net, client, "two", 10));
        let requests = net.sender(client, Some("$management"));
        net.send(client, requests, &read("one", 1, "orders"), true);
        net.send(client, requests, &read("two", 2, "anycast"), true);
        let links: Vec<LinkId> = net.clients[client]
            .received
            .iter()
            .filter_map(|received| if let ClientEvent::Message { link, .. } = received { Some(*link) } else { None })
            .collect();
        assert_eq!(links.len(), 2);
        assert_ne!(links[0], links[1]);
        let recorded = recorded(&mut net, client);
        let queue = recorded.iter().find(|it| it.to.as_deref() == Some("one")).expect("an answer");
        let other = recorded.iter().find(|it| it.to.as_deref() == Some("two")).expect("an answer");
        assert_eq!((queue.status, field(queue, "addressType")), (200, &string("queue")));
        assert_eq!((other.status, field(other, "addressType")), (200, &string("anycast")));
        assert_eq!(*field(other, "depth"), Value::Ulong(0), "it is unused");
        // A second receiver of that name is refused: it would get answers of the first.
        let attach = Attach { name: "again".to_owned(), ..called("one") };
        net.attach(client, attach);
        assert_eq!(net.detached(client).map(|error| error.condition), Some(condition::NOT_ALLOWED));
        net.clients[client].received.clear();
        net.leave(client, one);
        net.send(client, requests, &read("one", 3, "orders"), false);
        let refused = net.outcomes(client);
        assert!(
            matches!(&refused[..], [(_, Outcome::Rejected(Some(error)))] if error.condition == condition::NOT_FOUND),
            "{refused:?}"
        );
        answers(&mut net, client, "one", 10);
        net.send(client, requests, &read("one", 4, "orders"), false);
        assert_eq!(recorded_ids(&mut net, client), [Some(MessageId::Ulong(4))]);
    }
}

fn called(name: &str) -> Attach {
    let mut attach = blank(Role::Receiver, String::new());
    attach.source = Some(Box::new(Source { address: Some("$management".to_owned()), ..Source::default() }));
    attach.target = Some(Box::new(Target::node(Some(name.to_owned()))));
    attach
}

fn recorded_ids(net: &mut Net, client: usize) -> Vec<Option<MessageId>> {
    recorded(net, client).into_iter().map(|answer| answer.correlation_id).collect()
}

/// Application properties of a request, and the status and text of its answer.
type Case<'a> = (&'a [(&'a str, Value)], i32, &'a str);

#[test]
fn invalid_request_is_answered_with_the_field_and_the_problem() {
    let address = ("type", string("enmasse.address"));
    let cases: &[Case<'_>] = &[
        (&[], 400, "application-property \"operation\" is missing"),
        (&[("operation", Value::Int(3))], 400, "application-property \"operation\" must be a string"),
        (
            &[("operation", string("DELETE"))],
            501,
            "application-property \"operation\" is \"DELETE\": use READ or QUERY",
        ),
        (
            &[("operation", string("READ")), ("name", string("anycast"))],
            400,
            "application-property \"type\" is missing",
        ),
        (
            &[("operation", string("READ")), ("type", string("queue")), ("name", string("anycast"))],
            400,
            "application-property \"type\" is \"queue\": use \"enmasse.address\", the only type there is",
        ),
        (&[("operation", string("READ")), address.clone()], 400, "application-property \"name\" is missing"),
        (
            &[("operation", string("READ")), address.clone(), ("name", string("nothing"))],
            404,
            "application-property \"name\": no address \"nothing\" in this address space",
        ),
        (
            &[("operation", string("READ")), address, ("name", string("multicast/below"))],
            404,
            "application-property \"name\": no address \"multicast/below\" in this address space",
        ),
        (
            &[("operation", string("QUERY")), ("offset", Value::Int(-1))],
            400,
            "application-property \"offset\" must be a number from 0 on",
        ),
        (
            &[("operation", string("QUERY")), ("entityType", string("queue"))],
            400,
            "application-property \"entityType\" is \"queue\": use \"enmasse.address\", the only type there is",
        ),
    ];
    let mut net = Net::new(1, OPEN_SPACE);
    let client = net.simple(0);
    let requests = net.sender(client, Some("$management"));
    let name = reply_node(&mut net, client);
    for (properties, status, text) in cases {
        net.send(client, requests, &request(Some(&name), 1, properties, Body::Value(Value::Null)), false);
        let [answer] = &recorded(&mut net, client)[..] else { panic!("one answer") };
        assert_eq!((answer.status, &*answer.text), (*status, *text));
    }
    let body = Body::Value(string("attributeNames"));
    net.send(client, requests, &request(Some(&name), 1, &[("operation", string("QUERY"))], body), false);
    assert_eq!(recorded(&mut net, client)[0].status, 400);
}

#[test]
fn request_without_a_usable_reply_to_is_rejected() {
    let mut net = Net::new(1, OPEN_SPACE);
    let client = net.simple(0);
    let requests = net.sender(client, Some("$management"));
    let operation = [("operation", string("QUERY"))];
    let cases = [
        (request(None, 1, &operation, Body::Empty), condition::INVALID_FIELD),
        (request(Some("nowhere"), 1, &operation, Body::Empty), condition::NOT_FOUND),
        (request(Some("$management"), 1, &operation, Body::Empty), condition::NOT_IMPLEMENTED),
        (b"\x00\x53".to_vec(), condition::DECODE_ERROR),
    ];
    for _ in 0..10 {
        for (bytes, wanted) in &cases {
            net.send(client, requests, bytes, false);
            let outcomes = net.outcomes(client);
            let [(_, Outcome::Rejected(Some(error)))] = &outcomes[..] else { panic!("{outcomes:?}") };
            assert_eq!(error.condition, *wanted);
        }
    }
    let relay = net.sender(client, None);
    net.send(client, relay, &message_to("$management", None, b""), false);
    let outcomes = net.outcomes(client);
    let [(_, Outcome::Rejected(Some(error)))] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(error.condition, condition::NOT_IMPLEMENTED);
}

#[test]
fn request_credit_is_bounded_by_unsent_answers() {
    for (shards, shard) in ASKERS {
        let mut net = with_queue(shards);
        let client = pinned(&mut net, shard);
        let into = answers(&mut net, client, "me", 0);
        let requests = net.sender(client, Some("$management"));
        let window = net.sendable(client, requests);
        assert_eq!(window, 16);
        for id in 0..u64::from(window) {
            net.send(client, requests, &read("me", id, "orders"), true);
        }
        assert_eq!((net.sendable(client, requests), recorded(&mut net, client).len()), (0, 0));
        net.grant(client, into, 10);
        let ids: Vec<_> = (0..10).map(|id| Some(MessageId::Ulong(id))).collect();
        assert_eq!(recorded_ids(&mut net, client), ids);
        assert_eq!(net.sendable(client, requests), 10);
        net.detach(client, requests);
        net.grant(client, into, 10);
        assert!(recorded(&mut net, client).len() <= 6);
    }
}

#[test]
fn answers_for_a_detached_request_link_are_discarded() {
    let mut net = with_queue(2);
    let client = pinned(&mut net, 1);
    answers(&mut net, client, "me", 10);
    let requests = net.sender(client, Some("$management"));
    net.at_once(|net| {
        net.send(client, requests, &read("me", 1, "orders"), false);
        net.detach(client, requests);
    });
    assert_eq!(recorded(&mut net, client).len(), 0);
    let requests = net.sender(client, Some("$management"));
    net.send(client, requests, &read("me", 2, "orders"), false);
    assert_eq!(recorded_ids(&mut net, client), [Some(MessageId::Ulong(2))]);
}

#[test]
fn a_query_lists_addresses_in_order_and_in_pages() {
    let mut net = with_queue(1);
    let client = net.simple(0);
    let requests = net.sender(client, Some("$management"));
    let name = reply_node(&mut net, client);
    let mut names = |properties: &[(&str, Value)]| -> Vec<Value> {
        let wanted = Value::List(vec![string("name"), string("addressType"), string("colour")]);
        let body = Body::Value(Value::Map(vec![(string("attributeNames"), wanted.clone())]));
        let properties = [&[("operation", string("QUERY"))], properties].concat();
        net.send(client, requests, &request(Some(&name), 1, &properties, body), true);
        let [answer] = &recorded(&mut net, client)[..] else { panic!("one answer") };
        assert_eq!((answer.status, field(answer, "attributeNames")), (200, &wanted));
        let Value::List(rows) = field(answer, "results") else { panic!("no list") };
        rows.clone()
    };
    let row = |name: &str, kind: &str| Value::List(vec![string(name), string(kind), Value::Null]);
    let all = names(&[("entityType", string("enmasse.address"))]);
    assert!(all.contains(&row("orders", "queue")) && all.contains(&row("multicast", "multicast")), "{all:?}");
    assert!(all.is_sorted_by_key(|row| format!("{row:?}")));
    let paged = names(&[("offset", Value::Uint(1)), ("count", Value::Long(1))]);
    assert_eq!(paged, all[1..2]);
    assert_eq!(names(&[("offset", Value::Ulong(1000))]), []);
}

#[test]
fn user_sees_addresses_it_may_receive_from_or_all_with_the_view_right() {
    let plan = include_str!("../../../../vectors/plans/closed.json");
    let (view, other) = (", {\"pattern\": \"#\", \"operations\": [\"view\"]}", "\"orders\"");
    let listed = ", {\"uid\": \"a-2\", \"name\": \"secret\", \"type\": \"anycast\"}]";
    assert!(plan.contains(view) && plan.contains(other));
    for (views, status) in [(true, 200), (false, 403)] {
        let plan = if views { plan.to_owned() } else { plan.replacen(view, "", 1) };
        let end = plan.rfind(']').and_then(|spaces| plan[..spaces].rfind(']')).expect("addresses");
        let plan = format!("{}{listed}{}", &plan[..end], &plan[end + 1..]);
        let mut net = Net::new(1, &plan);
        let peer = Peer { loopback: true, ..Peer::default() };
        let client = net.client(0, peer, Some(plain_init("alice", "pencil")), Open::default());
        net.begin(client);
        let requests = net.sender(client, Some("$management"));
        let name = reply_node(&mut net, client);
        assert!(name.starts_with(DYNAMIC_PREFIX));
        net.send(client, requests, &read(&name, 1, "orders"), false);
        net.send(client, requests, &read(&name, 2, "secret"), false);
        net.send(client, requests, &read(&name, 3, "nothing"), false);
        net.send(client, requests, &request(Some(&name), 4, &[("operation", string("QUERY"))], Body::Empty), false);
        let recorded = recorded(&mut net, client);
        let codes: Vec<i32> = recorded.iter().map(|answer| answer.status).collect();
        assert_eq!(codes, [200, status, if views { 404 } else { 403 }, 200]);
        if !views {
            assert_eq!(recorded[1].text, "application-property \"name\": user \"alice\" may not see \"secret\"");
        }
        let Value::List(rows) = field(&recorded[3], "results") else { panic!("no list") };
        assert_eq!(rows.len(), if views { 4 } else { 2 });
    }
}
