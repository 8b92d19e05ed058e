//! SQL filters: where AMQP Filter Expressions 1.0 extends JMS selectors or differs from them.

use enmasse_amqp::selector::{Dialect, Selector, Subject};
use enmasse_amqp::types::{Body, Header, Message, MessageId, Properties, Symbol, Value};

use super::Outcome::{self, Error, No, Unknown, Yes};
use super::{check, encoded, with_properties};

fn message() -> Message {
    let properties = Properties {
        message_id: Some(MessageId::Binary(b"Bob".to_vec())),
        user_id: Some(b"Bob".to_vec()),
        to: Some("orders".to_owned()),
        subject: Some("Order 1".to_owned()),
        reply_to: Some("/queues/q1".to_owned()),
        correlation_id: Some(MessageId::Ulong(12)),
        content_type: Some(Symbol::from("application/json")),
        content_encoding: Some(Symbol::from("gzip")),
        absolute_expiry_time: Some(2000),
        creation_time: Some(1000),
        group_id: Some("Group A".to_owned()),
        group_sequence: Some(6),
        reply_to_group_id: Some("Group B".to_owned()),
    };
    let application = [
        ("color", Value::String("blue".to_owned())),
        ("order status", Value::String("new".to_owned())),
        ("a.b", Value::Int(1)),
        ("odd]name[", Value::Int(2)),
        ("in", Value::Int(3)),
        ("weight", Value::Int(5)),
        ("blob", Value::Binary(vec![0x41, 0x42])),
        ("nothing", Value::Null),
        ("header", Value::Int(9)),
    ];
    Message {
        header: Some(Header { durable: true, priority: 7, ttl: Some(60_000), first_acquirer: true, delivery_count: 2 }),
        message_annotations: vec![(Symbol::from("x-opt-key"), Value::Long(8))],
        properties: Some(properties),
        body: Body::Value(Value::Null),
        ..with_properties(&application)
    }
}

fn check_all(cases: &[(&str, Outcome)]) {
    let message = encoded(&message());
    for (filter, expected) in cases {
        check(filter, Dialect::AmqpSql, &message, *expected);
    }
}

#[test]
fn header_fields_can_be_filtered() {
    check_all(&[
        ("header.priority = 7 AND h.priority > 6", Yes),
        ("h.durable AND h.first_acquirer", Yes),
        ("h.ttl = 60000", Yes),
        ("h.delivery_count = 2", Yes),
        ("h.prio = 1", Error),
    ]);
    for filter in ["h.priority = 4", "NOT h.durable", "h.ttl IS NULL", "h.delivery_count = 0", "NOT h.first_acquirer"] {
        check(filter, Dialect::AmqpSql, &[], Yes);
    }
}

#[test]
fn properties_fields_can_be_filtered() {
    check_all(&[
        ("p.message_id = 0x426F62", Yes),
        ("properties.user_id = 0x426f62", Yes),
        ("p.to = 'orders' AND p.subject LIKE 'Order%' AND p.reply_to = '/queues/q1'", Yes),
        ("p.correlation_id = 12 AND p.content_type = 'application/json'", Yes),
        ("p.content_encoding IN ('gzip', 'zstd', 'deflate')", Yes),
        ("p.absolute_expiry_time = 2000 AND p.creation_time < 1753365622460", Yes),
        ("p.group_id = 'Group A' AND p.group_sequence % 3 = 0 AND p.reply_to_group_id = 'Group B'", Yes),
        ("p.group-id = 1", Error),
        ("p.group = 1", Error),
    ]);
}

#[test]
fn application_properties_and_annotations_can_be_filtered() {
    check_all(&[
        ("color = 'blue' AND a.color = 'blue' AND application_properties.color = 'blue'", Yes),
        ("[order status] = 'new' AND a.[order status] = 'new'", Yes),
        ("[a.b] = 1", Yes),
        ("[odd]]name[[] = 2", Yes),
        ("a.in = 3 AND [in] = 3", Yes),
        ("header = 9", Yes),
        ("m.[x-opt-key] = 8 AND message_annotations.absent IS NULL", Yes),
        ("JMSPriority IS NULL", Yes),
        ("d.x = 1", Error),
        ("footer.x = 1", Error),
        ("b.x = 1", Error),
        ("a.x.y = 1", Error),
        ("a.x[1] = 1", Error),
        ("[] = 1", Error),
        ("[a = 1", Error),
        ("[a[b] = 1", Error),
        ("a. = 1", Error),
    ]);
}

#[test]
fn sql_literals_are_evaluated() {
    check_all(&[
        ("color = \"blue\"", Yes),
        ("\"say \"\"it\"\"\" = 'say \"it\"'", Yes),
        ("blob = 0x4142", Yes),
        ("blob = 0x4", Error),
        ("blob = 0x", Error),
        ("007 = 7", Yes),
        ("weight < INF AND weight > -INF", Yes),
        ("NAN = NAN", No),
        ("NAN <> NAN", Yes),
        ("weight = 5.0E0", Yes),
    ]);
}

#[test]
fn sql_operators_are_evaluated() {
    check_all(&[
        ("color != 'red'", Yes),
        ("color > 'black' AND color < 'bluf' AND 'a' < 'b'", Yes),
        ("color BETWEEN 'black' AND 'bluf'", Yes),
        ("blob > 0x41", Yes),
        ("TRUE > FALSE", Error),
        ("101 % 3 = 2 AND 5 % 0 = 1", Unknown),
        ("7.5 % 2 = 1.5", Yes),
        ("weight IN (1, 2 + 3)", Yes),
        ("weight IN ('a', 5)", Yes),
        ("weight NOT IN (1, 2)", Yes),
        ("weight IN (1, nothing)", Unknown),
        ("weight IN (5, nothing)", Yes),
        ("nothing IN (1)", Unknown),
        ("'blue' IN (color, 'red')", Yes),
        ("weight + 1 IN (p.group_sequence) AND weight = 5", Yes),
        ("weight IN ('a' 5)", Error),
        ("weight IN (5", Error),
        ("(weight + nothing) IS NULL", Yes),
        ("weight IS NOT NULL", Yes),
        ("'abc' LIKE 'a%'", Yes),
    ]);
}

#[test]
fn utc_function_uses_the_time_of_the_subject() {
    let message = encoded(&message());
    let filter = "p.absolute_expiry_time IS NULL OR p.absolute_expiry_time > UTC()";
    let filter = Selector::compile(filter, Dialect::AmqpSql).unwrap().unwrap();
    assert!(filter.selects(&Subject::new(&message).at(1999)));
    assert!(!filter.selects(&Subject::new(&message).at(2000)));
    assert!(!filter.selects(&Subject::new(&message)), "without the time it is unknown");
    assert!(filter.varies());
    check_all(&[("UTC() IS NULL", Yes), ("LOWER(color) = 'blue'", Error), ("UTC(1) = 1", Error), ("UTC = 1", Unknown)]);
}

#[test]
fn filter_of_the_rabbitmq_documentation_is_evaluated() {
    let filter = "p.subject = 'order.created' AND p.creation_time > UTC() - 3600000 AND region IN ('AMER', 'EMEA', 'APJ') \
                  AND (h.priority > 4 OR price >= 99.99 OR premium_customer = TRUE)";
    let filter = Selector::compile(filter, Dialect::AmqpSql).unwrap().unwrap();
    let order = |created: i64, price: f64| {
        let message = Message {
            properties: Some(Properties {
                subject: Some("order.created".to_owned()),
                creation_time: Some(created),
                ..Properties::default()
            }),
            ..with_properties(&[("region", Value::String("EMEA".to_owned())), ("price", Value::Double(price))])
        };
        filter.selects(&Subject::new(&encoded(&message)).at(10_000_000))
    };
    assert!(order(9_000_000, 100.0));
    assert!(!order(9_000_000, 99.0));
    assert!(!order(6_000_000, 100.0));
}
