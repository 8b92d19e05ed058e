//! Clients of MQTT and of AMQP at one node (`docs/contracts.md` 10, decision 74), as bytes.

use enmasse_amqp::codec::encode_message;
use enmasse_amqp::types::{Body, Header, Message};
use enmasse_mqtt::codec::{
    Ack, Connect, Packet, PacketId, Properties, Property, PropertyBuffer, PropertyId, Publish, PublishProperties, QoS,
    ReasonCode, Subscription, SubscriptionOptions, Version, decode, encode_connect, encode_publish, encode_subscribe,
    encode_unsubscribe, fixed,
};

use crate::net::{Net, message_to};
use crate::retained::{self, with_retained};
use crate::topics::with_topics;
use crate::{LAYOUTS, OPEN_SPACE, accepted, pinned};

/// A connected client of MQTT 5.0.
fn device(net: &mut Net, shard: usize, client_id: &str) -> usize {
    let device = net.device(shard);
    let connect = Connect {
        version: Version::V5,
        clean_start: true,
        keep_alive_s: 0,
        client_id,
        will: None,
        user: None,
        password: None,
        properties: Properties::NONE,
    };
    let mut bytes = Vec::new();
    encode_connect(&mut bytes, &connect).expect("it has an encoding");
    net.tell(device, &bytes);
    let (code, _) = answers(net, device);
    assert_eq!(code, [("connack", ReasonCode::Success.as_u8())]);
    device
}

/// Kind and code of an answer.
type AnswerCode = (&'static str, u8);

/// The packets that a client has received since the last call: answers, and the topics and payloads
/// of messages.
fn answers(net: &mut Net, device: usize) -> (Vec<AnswerCode>, Vec<(String, Vec<u8>)>) {
    let bytes = std::mem::take(&mut net.devices[device].received);
    let (mut answers, mut messages) = (Vec::new(), Vec::new());
    let mut rest = &bytes[..];
    while let Some((frame, length)) = fixed::split(rest, u32::MAX).expect("the node sends packets") {
        match decode(&frame, Version::V5).expect("the node sends packets of the standard") {
            Packet::ConnAck(connack) => answers.push(("connack", connack.code)),
            Packet::Ack(Ack { code, .. }) => answers.push(("puback", code.as_u8())),
            Packet::SubAck(suback) => answers.extend(suback.codes().map(|code| ("suback", code.as_u8()))),
            Packet::Disconnect(disconnect) => answers.push(("disconnect", disconnect.code.as_u8())),
            Packet::Publish(publish) => messages.push((publish.topic.to_owned(), publish.payload.to_vec())),
            other => panic!("unexpected: {other:?}"),
        }
        rest = &rest[length..];
    }
    assert_eq!(rest, b"");
    (answers, messages)
}

fn publish(net: &mut Net, device: usize, topic: &str, payload: &[u8], packet_id: u16) {
    let publish = Publish {
        dup: false,
        qos: if packet_id == 0 { QoS::AtMostOnce } else { QoS::AtLeastOnce },
        retain: false,
        topic,
        packet_id: PacketId::new(packet_id),
        properties: PublishProperties::default(),
        payload,
    };
    let mut bytes = Vec::new();
    encode_publish(&mut bytes, &publish, &[], Version::V5, u32::MAX).expect("it has an encoding");
    net.tell(device, &bytes);
}

fn subscribe(net: &mut Net, device: usize, filter: &str) -> u8 {
    subscribe_with(net, device, filter, SubscriptionOptions { qos: QoS::AtLeastOnce, ..SubscriptionOptions::default() })
}

fn subscribe_unanswered(net: &mut Net, device: usize, filter: &str, options: SubscriptionOptions) {
    let id = PacketId::new(1).expect("not 0");
    let mut bytes = Vec::new();
    let filters = std::iter::once(Subscription { filter, options });
    encode_subscribe(&mut bytes, id, Properties::NONE, filters, Version::V5).expect("it has an encoding");
    net.tell(device, &bytes);
}

fn subscribe_with(net: &mut Net, device: usize, filter: &str, options: SubscriptionOptions) -> u8 {
    subscribe_unanswered(net, device, filter, options);
    match answers(net, device).0[..] {
        [("suback", code)] => code,
        ref other => panic!("unexpected: {other:?}"),
    }
}

#[test]
fn message_crosses_between_protocols_and_shards_and_its_outcome_returns() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (device(&mut net, producer, "one"), pinned(&mut net, consumer));
        let into = net.receiver(receiver, "anycast", 10);
        publish(&mut net, sender, "anycast", b"hello", 7);
        let (id, message) = net.messages(receiver).remove(0);
        assert!(message.ends_with(b"hello"));
        assert_eq!(answers(&mut net, sender).0, [], "the consumer has not answered");
        net.settle(receiver, into, id, &accepted());
        assert_eq!(answers(&mut net, sender).0, [("puback", ReasonCode::Success.as_u8())]);
    }
}

#[test]
fn subscription_gets_what_amqp_and_mqtt_clients_send_below_its_filter() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (one, other) = (device(&mut net, consumer, "one"), device(&mut net, producer, "other"));
        assert_eq!(subscribe(&mut net, one, "multicast/+/a"), ReasonCode::GrantedQoS1.as_u8());
        publish(&mut net, other, "multicast/1/a", b"mqtt", 0);
        publish(&mut net, other, "multicast/1/b", b"not", 0);
        let sender = pinned(&mut net, producer);
        let out = net.sender(sender, Some("multicast/2/a"));
        net.send(sender, out, &message_to("multicast/2/a", None, b"amqp"), true);
        let expected = [("multicast/1/a".to_owned(), b"mqtt".to_vec()), ("multicast/2/a".to_owned(), b"amqp".to_vec())];
        assert_eq!(answers(&mut net, one).1, expected);
    }
}

#[test]
fn client_id_is_taken_over_on_every_layout_of_shards() {
    for (shards, first, second) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let one = device(&mut net, first, "same");
        device(&mut net, second, "same");
        assert_eq!(answers(&mut net, one).0, [("disconnect", ReasonCode::SessionTakenOver.as_u8())]);
        assert!(net.devices[one].finished);
    }
}

#[test]
fn unknown_topics_and_filters_are_answered_with_the_codes_of_the_contracts() {
    let mut net = Net::new(1, OPEN_SPACE);
    let one = device(&mut net, 0, "one");
    for (topic, code) in [
        ("nowhere", ReasonCode::TopicNameInvalid),
        ("$SYS/x", ReasonCode::TopicNameInvalid),
        ("multicast", ReasonCode::NoMatchingSubscribers),
    ] {
        publish(&mut net, one, topic, b"x", 1);
        assert_eq!(answers(&mut net, one).0, [("puback", code.as_u8())], "{topic}");
    }
    assert_eq!(subscribe(&mut net, one, "nowhere/#"), ReasonCode::TopicFilterInvalid.as_u8());
    assert_eq!(subscribe(&mut net, one, "anycast"), ReasonCode::GrantedQoS1.as_u8());
}

#[test]
fn publication_waits_for_a_consumer_of_its_anycast_address() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let one = device(&mut net, producer, "one");
        publish(&mut net, one, "anycast", b"first", 1);
        publish(&mut net, one, "anycast", b"second", 2);
        net.pass(1_000);
        assert_eq!(answers(&mut net, one).0, []);
        let receiver = pinned(&mut net, consumer);
        let into = net.receiver(receiver, "anycast", 10);
        net.pass(1_000);
        let messages = net.messages(receiver);
        assert_eq!(messages.len(), 2);
        net.settle(receiver, into, messages[0].0, &accepted());
        assert_eq!(answers(&mut net, one).0, [("puback", ReasonCode::Success.as_u8())]);
        net.settle(receiver, into, messages[1].0, &accepted());
        net.detach(receiver, into);
        publish(&mut net, one, "anycast", b"third", 3);
        answers(&mut net, one);
        for _ in 0..200 {
            net.pass(100);
        }
        assert_eq!(answers(&mut net, one).0, [("puback", ReasonCode::QuotaExceeded.as_u8())]);
    }
}

#[test]
fn broken_packet_ends_its_connection_and_no_other() {
    let mut net = Net::new(1, OPEN_SPACE);
    let (one, other) = (device(&mut net, 0, "one"), device(&mut net, 0, "other"));
    net.tell(one, &[0x36, 2, 0, 0]);
    assert_eq!(answers(&mut net, one).0, [("disconnect", ReasonCode::MalformedPacket.as_u8())]);
    assert!(net.devices[one].finished && !net.devices[other].finished);
    net.cut_device(one);
    assert_eq!(subscribe(&mut net, other, "multicast"), ReasonCode::GrantedQoS1.as_u8());
}

#[test]
fn pubcomp_makes_room_for_the_next_delivery() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let one = net.device(consumer);
        // CONNECT with receive maximum 2, and SUBSCRIBE of multicast with QoS 2
        net.tell(one, b"\x10\x13\0\x04MQTT\x05\x02\0\0\x03\x21\0\x02\0\x03one");
        net.tell(one, b"\x82\x0f\0\x01\0\0\x09multicast\x02");
        answers(&mut net, one);
        let other = device(&mut net, producer, "other");
        for number in 1..=5 {
            net.tell(other, &[b"\x34\x0f\0\x09multicast\0".as_slice(), &[number, 0, number]].concat());
        }
        let mut received = Vec::new();
        for _ in 0..3 {
            let bytes = std::mem::take(&mut net.devices[one].received);
            let mut ids = Vec::new();
            for packet in bytes.chunks_exact(17) {
                let [0x34, 15, 0, 9, topic @ .., high, low, 0, payload] = packet else { panic!("{packet:?}") };
                assert_eq!((topic, *high), (&b"multicast"[..], 0));
                received.push(*payload);
                ids.push(*low);
            }
            assert!(ids.len() <= 2, "the receive maximum is 2");
            for id in &ids {
                net.tell(one, &[0x50, 2, 0, *id]);
                assert_eq!(std::mem::take(&mut net.devices[one].received), [0x62, 2, 0, *id], "PUBREL only");
            }
            for id in &ids {
                net.tell(one, &[0x70, 2, 0, *id]);
            }
        }
        assert_eq!(received, [1, 2, 3, 4, 5]);
    }
}

/// Sends a SUBSCRIBE with one filter and a subscription identifier.
fn subscribe_as(net: &mut Net, device: usize, filter: &str, qos: QoS, subscription_id: u32) {
    let options = SubscriptionOptions { qos, ..SubscriptionOptions::default() };
    let mut properties = PropertyBuffer::default();
    properties.push(Property::Number(PropertyId::SubscriptionIdentifier, subscription_id)).expect("it has an encoding");
    let id = PacketId::new(1).expect("not 0");
    let mut bytes = Vec::new();
    let filters = std::iter::once(Subscription { filter, options });
    encode_subscribe(&mut bytes, id, properties.as_properties(), filters, Version::V5).expect("it has an encoding");
    net.tell(device, &bytes);
    let granted = if qos == QoS::AtMostOnce { ReasonCode::Success } else { ReasonCode::GrantedQoS1 };
    assert_eq!(answers(net, device).0, [("suback", granted.as_u8())]);
}

/// QoS and subscription identifiers of the messages that a client has received since the last call.
fn deliveries(net: &mut Net, device: usize) -> Vec<(QoS, Vec<u32>)> {
    let bytes = std::mem::take(&mut net.devices[device].received);
    let (mut found, mut rest) = (Vec::new(), &bytes[..]);
    while let Some((frame, length)) = fixed::split(rest, u32::MAX).expect("the node sends packets") {
        match decode(&frame, Version::V5).expect("the node sends packets of the standard") {
            Packet::Publish(publish) => found.push((publish.qos, publish.properties.subscription_ids.to_vec())),
            other => panic!("unexpected: {other:?}"),
        }
        rest = &rest[length..];
    }
    found
}

/// [5: 3.8.4-3] [3: 3.8.4-3]
#[test]
fn filter_that_is_subscribed_again_has_the_new_options_and_no_second_copy() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (one, other) = (device(&mut net, consumer, "one"), device(&mut net, producer, "other"));
        subscribe_as(&mut net, one, "multicast/+", QoS::AtLeastOnce, 7);
        subscribe_as(&mut net, one, "multicast/+", QoS::AtMostOnce, 8);
        publish(&mut net, other, "multicast/a", b"x", 1);
        assert_eq!(deliveries(&mut net, one), [(QoS::AtMostOnce, vec![8])]);
        subscribe_as(&mut net, one, "multicast/+", QoS::AtMostOnce, 9);
        publish(&mut net, other, "multicast/a", b"x", 2);
        assert_eq!(deliveries(&mut net, one), [(QoS::AtMostOnce, vec![9])]);
    }
}

/// [5: 3.8.4-4] [5: 4.6.0-6]
#[test]
fn slow_client_gets_all_messages_of_qos_0_in_order_whatever_it_subscribes_meanwhile() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = with_topics(shards);
        let (one, other) = (device(&mut net, consumer, "one"), device(&mut net, producer, "other"));
        let qos = |qos| SubscriptionOptions { qos, ..SubscriptionOptions::default() };
        subscribe_with(&mut net, one, "news", qos(QoS::AtMostOnce));
        let mut sent = Vec::new();
        for (round, granted) in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::AtMostOnce].into_iter().enumerate() {
            net.devices[one].deaf = true;
            net.at_once(|net| {
                for number in 0..600 {
                    // Some are too large to be kept by the shard of their receiver.
                    let size = if number % 10 == 0 { 6000 } else { 1000 };
                    let payload = format!("{:>size$}", round * 1000 + number).into_bytes();
                    publish(net, other, "news", &payload, 0);
                    sent.push(payload);
                }
            });
            let options = qos(granted);
            subscribe_unanswered(&mut net, one, "news", options);
            net.hear(one);
        }
        let (_, messages) = answers(&mut net, one);
        assert_eq!(messages.len(), sent.len());
        assert!(messages.iter().map(|(_, payload)| payload).eq(&sent), "in order");
    }
}

/// [5: 3.8.3-3]
#[test]
fn multicast_returns_none_of_its_own_messages_to_a_client_that_wants_none() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (one, other) = (device(&mut net, consumer, "one"), device(&mut net, producer, "other"));
        // Its link for publications is attached before the filter, and after it.
        publish(&mut net, one, "multicast/a", b"early", 1);
        let none = ("puback", ReasonCode::NoMatchingSubscribers.as_u8());
        assert_eq!(answers(&mut net, one), (vec![none], vec![]));
        let options = SubscriptionOptions { qos: QoS::AtLeastOnce, no_local: true, ..SubscriptionOptions::default() };
        assert_eq!(subscribe_with(&mut net, one, "multicast/+", options), ReasonCode::GrantedQoS1.as_u8());
        for topic in ["multicast/a", "multicast/b"] {
            publish(&mut net, one, topic, b"own", 1);
            assert_eq!(answers(&mut net, one), (vec![none], vec![]), "{topic}");
            publish(&mut net, other, topic, b"other", 0);
            assert_eq!(answers(&mut net, one), (vec![], vec![(topic.to_owned(), b"other".to_vec())]));
        }
        assert_eq!(subscribe(&mut net, other, "multicast/+"), ReasonCode::GrantedQoS1.as_u8());
        publish(&mut net, one, "multicast/a", b"own", 0);
        assert_eq!(answers(&mut net, one), (vec![], vec![]));
        assert_eq!(answers(&mut net, other), (vec![], vec![("multicast/a".to_owned(), b"own".to_vec())]));
    }
}

/// [5: 3.3.4-2] [3: 3.3.5-1] [5: 3.3.4-5]
#[test]
fn overlapping_subscriptions_get_copies_with_their_own_qos_and_identifier() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (one, other) = (device(&mut net, consumer, "one"), device(&mut net, producer, "other"));
        subscribe_as(&mut net, one, "multicast/#", QoS::AtMostOnce, 7);
        subscribe_as(&mut net, one, "multicast/+", QoS::AtLeastOnce, 8);
        publish(&mut net, other, "multicast/a", b"x", 1);
        let mut found = deliveries(&mut net, one);
        found.sort();
        assert_eq!(found, [(QoS::AtMostOnce, vec![7]), (QoS::AtLeastOnce, vec![8])]);
    }
}

/// [5: 3.10.4-1] [3: 3.10.4-1] [5: 3.10.4-3] [3: 3.10.4-3]
#[test]
fn unsubscribe_ends_the_equal_filter_only_and_a_delivery_that_has_begun_is_completed() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (one, other) = (device(&mut net, consumer, "one"), device(&mut net, producer, "other"));
        subscribe_as(&mut net, one, "multicast/+", QoS::AtLeastOnce, 7);
        let unsubscribe = |net: &mut Net, filter: &str| {
            let mut bytes = Vec::new();
            let id = PacketId::new(2).expect("not 0");
            encode_unsubscribe(&mut bytes, id, Properties::NONE, std::iter::once(filter), Version::V5)
                .expect("it has an encoding");
            net.tell(one, &bytes);
            // UNSUBACK: type, length, identifier, no properties, code
            let [0xb0, 4, 0, 2, 0, code] = std::mem::take(&mut net.devices[one].received)[..] else {
                panic!("no UNSUBACK")
            };
            code
        };
        assert_eq!(unsubscribe(&mut net, "multicast/a"), ReasonCode::NoSubscriptionExisted.as_u8());
        publish(&mut net, other, "multicast/a", b"x", 1);
        assert_eq!(deliveries(&mut net, one), [(QoS::AtLeastOnce, vec![7])]);
        assert_eq!(unsubscribe(&mut net, "multicast/+"), ReasonCode::Success.as_u8());
        // PUBACK of the delivery, and PINGREQ
        net.tell(one, &[0x40, 2, 0, 1, 0xc0, 0]);
        assert_eq!(std::mem::take(&mut net.devices[one].received), [0xd0, 0]);
        publish(&mut net, other, "multicast/a", b"x", 2);
        assert_eq!(deliveries(&mut net, one), []);
    }
}

/// A client that takes one unacknowledged message, and subscribes these filters.
fn narrow_device(net: &mut Net, shard: usize, filters: &[(&str, QoS)]) -> usize {
    let one = net.device(shard);
    // CONNECT with receive maximum 1
    net.tell(one, b"\x10\x13\0\x04MQTT\x05\x02\0\0\x03\x21\0\x01\0\x03one");
    let subscriptions = filters.iter().map(|(filter, qos)| Subscription {
        filter,
        options: SubscriptionOptions { qos: *qos, ..SubscriptionOptions::default() },
    });
    let mut bytes = Vec::new();
    let id = PacketId::new(1).expect("not 0");
    encode_subscribe(&mut bytes, id, Properties::NONE, subscriptions, Version::V5).expect("it has an encoding");
    net.tell(one, &bytes);
    answers(net, one);
    one
}

/// A message of AMQP that counts as QoS 1.
fn durable(text: &str) -> Vec<u8> {
    let header = Some(Header { durable: true, ..Header::default() });
    let body = Body::Data(vec![text.into()]);
    let mut bytes = Vec::new();
    encode_message(&mut bytes, &Message { header, body, ..Message::default() });
    bytes
}

#[test]
fn delivery_in_parts_keeps_its_place_in_the_window() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let filters = [("multicast", QoS::AtLeastOnce), ("anycast", QoS::AtLeastOnce)];
        let one = narrow_device(&mut net, consumer, &filters);
        let sender = pinned(&mut net, producer);
        let [long, short] = ["multicast", "anycast"].map(|name| net.sender(sender, Some(name)));
        let message = durable("long");
        let (front, rest) = message.split_at(message.len() - 2);
        net.piece(sender, long, front, false, true, true);
        net.send(sender, short, &durable("short"), false);
        assert_eq!(answers(&mut net, one).1, [], "the window has one place");
        net.piece(sender, long, rest, false, false, false);
        assert_eq!(answers(&mut net, one).1, [("multicast".to_owned(), b"long".to_vec())]);
        net.tell(one, &[0x40, 2, 0, 1]);
        assert_eq!(answers(&mut net, one).1, [("anycast".to_owned(), b"short".to_vec())]);
    }
}

#[test]
fn delivery_in_parts_that_is_aborted_or_needs_no_place_gives_it_to_others() {
    for (shards, producer, consumer) in LAYOUTS {
        for is_aborted in [true, false] {
            let mut net = Net::new(shards, OPEN_SPACE);
            let filters = [("multicast", QoS::AtLeastOnce), ("anycast", QoS::AtLeastOnce)];
            let one = narrow_device(&mut net, consumer, &filters);
            let sender = pinned(&mut net, producer);
            let [long, short] = ["multicast", "anycast"].map(|name| net.sender(sender, Some(name)));
            let message = message_to("multicast", None, b"with QoS 0");
            let (front, rest) = message.split_at(message.len() - 2);
            net.piece(sender, long, front, false, true, true);
            net.send(sender, short, &durable("short"), false);
            assert_eq!(answers(&mut net, one).1, []);
            if is_aborted {
                net.detach(sender, long);
            } else {
                net.piece(sender, long, rest, false, false, false);
            }
            let messages = answers(&mut net, one).1;
            assert_eq!(messages.len(), if is_aborted { 1 } else { 2 }, "{messages:?}");
            assert_eq!(messages.last(), Some(&("anycast".to_owned(), b"short".to_vec())));
        }
    }
}

/// [5: 3.3.4-2] [5: 3.3.4-4]
#[test]
fn retained_message_of_overlapping_filters_comes_once_if_the_window_has_no_room_for_each() {
    for (shards, producer, consumer) in retained::layouts() {
        let mut net = with_retained(shards);
        let other = device(&mut net, producer, "other");
        // PUBLISH with QoS 2 and RETAIN, PUBREL
        net.tell(other, b"\x35\x0c\0\x06news/1\0\x01\0x");
        net.tell(other, &[0x62, 2, 0, 1]);
        let one = net.device(consumer);
        net.tell(one, b"\x10\x13\0\x04MQTT\x05\x02\0\0\x03\x21\0\x01\0\x03one");
        // SUBSCRIBE news/+ with QoS 1 and news/# with QoS 2
        net.tell(one, b"\x82\x15\0\x01\0\0\x06news/+\x01\0\x06news/#\x02");
        let received = std::mem::take(&mut net.devices[one].received);
        // PUBLISH with QoS 2 and RETAIN, after CONNACK and SUBACK
        let publish = b"\x35\x0c\0\x06news/1\0\x01\0x";
        assert!(received.ends_with(publish), "{received:?}");
    }
}

#[test]
fn client_that_does_not_read_gets_no_more_values_of_the_node_than_its_output_holds() {
    let mut net = Net::new(1, OPEN_SPACE);
    let one = device(&mut net, 0, "one");
    assert_eq!(subscribe(&mut net, one, "$SYS/#"), ReasonCode::GrantedQoS1.as_u8());
    net.devices[one].deaf = true;
    for _ in 0..4_000 {
        net.pass(10_000);
    }
    net.hear(one);
    let bytes = net.devices[one].received.len();
    assert!((500_000..600_000).contains(&bytes), "{bytes} bytes");
}
