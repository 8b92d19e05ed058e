//! Records of sessions: written records are read back, and changes in order yield the session.

use enmasse_mqtt::codec::{PacketId, Property, PropertyBuffer, PublishProperties, QoS, SubscriptionOptions, Will};
use enmasse_mqtt::connection::{InFlight, OutgoingDelivery, Stage};
use enmasse_mqtt::session::{Change, Session, StoredSubscription, StoredWill};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn ids() -> impl Strategy<Value = PacketId> {
    (1..12_u16).prop_map(|id| PacketId::new(id).unwrap())
}

fn subscriptions() -> impl Strategy<Value = StoredSubscription> {
    ("[a-c/+]{1,3}", 0..48_u8, option::of(1..=268_435_455_u32)).prop_map(|(filter, bits, subscription_id)| {
        let options = SubscriptionOptions::from_bits(bits).unwrap_or_default();
        StoredSubscription { filter, options, subscription_id }
    })
}

fn wills() -> impl Strategy<Value = StoredWill> {
    ("[a-z/]{1,9}", vec(any::<u8>(), 0..40), 0..3_u8, any::<bool>(), any::<u32>(), option::of("[a-z]{0,9}")).prop_map(
        |(topic, payload, qos, retain, delay_s, content_type)| {
            let properties =
                PublishProperties { content_type: content_type.as_deref(), ..PublishProperties::default() };
            let qos = QoS::from_bits(qos).unwrap();
            StoredWill::from_connect(&Will { topic: &topic, payload: &payload, qos, retain, delay_s, properties })
        },
    )
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        any::<u32>().prop_map(Change::Expiry),
        subscriptions().prop_map(Change::Subscribed),
        "[a-c/+]{1,3}".prop_map(Change::Unsubscribed),
        wills().prop_map(|will| Change::WillSet(Box::new(will))),
        Just(Change::WillCleared),
        (ids(), any::<u64>()).prop_map(|(packet_id, token)| Change::Reserved { packet_id, token }),
        ids().prop_map(Change::DeliveryReceived),
        ids().prop_map(Change::DeliveryEnded),
        ids().prop_map(Change::Received),
        ids().prop_map(Change::Released),
    ]
}

proptest! {
    #[test]
    fn changes_and_sessions_survive_their_encoding(changes in vec(changes(), 0..40)) {
        let mut session = Session::default();
        for change in &changes {
            let mut bytes = Vec::new();
            change.encode(&mut bytes);
            prop_assert_eq!(&Change::decode(&bytes).unwrap(), change);
            for end in 0..bytes.len() {
                prop_assert!(Change::decode(&bytes[..end]).is_err());
            }
            bytes.push(0);
            prop_assert!(Change::decode(&bytes).is_err());
            session.apply(change);
        }
        let mut bytes = Vec::new();
        session.encode(&mut bytes);
        prop_assert_eq!(&Session::decode(&bytes).unwrap(), &session);
        for end in 0..bytes.len() {
            prop_assert!(Session::decode(&bytes[..end]).is_err());
        }
    }
}

fn id(id: u16) -> PacketId {
    PacketId::new(id).unwrap()
}

/// [5: 3.8.4-3] [3: 3.8.4-3] [5: 3.10.4-1] [3: 3.10.4-1]
#[test]
fn a_subscription_replaces_that_of_the_same_filter() {
    let mut session = Session::default();
    let subscribe = |filter: &str, qos| {
        let options = SubscriptionOptions { qos, ..SubscriptionOptions::default() };
        Change::Subscribed(StoredSubscription { filter: filter.to_owned(), options, subscription_id: None })
    };
    session.apply(&subscribe("a/+", QoS::AtMostOnce));
    session.apply(&subscribe("a/#", QoS::AtMostOnce));
    session.apply(&subscribe("a/+", QoS::ExactlyOnce));
    let filters = |session: &Session| -> Vec<_> {
        session.subscriptions.iter().map(|one| (one.filter.clone(), one.options.qos)).collect()
    };
    let expected = [("a/+".to_owned(), QoS::ExactlyOnce), ("a/#".to_owned(), QoS::AtMostOnce)];
    assert_eq!(filters(&session), expected);
    // Filters are compared as they are, whatever they match.
    session.apply(&Change::Unsubscribed("a/b".to_owned()));
    assert_eq!(session.subscriptions.len(), 2);
    session.apply(&Change::Unsubscribed("a/+".to_owned()));
    assert_eq!(filters(&session), expected[1..]);
}

#[test]
fn deliveries_keep_their_order_and_progress() {
    let mut session = Session::default();
    let reserved = |packet_id, token| Change::Reserved { packet_id: id(packet_id), token };
    for change in [
        reserved(1, 10),
        reserved(2, 20),
        Change::DeliveryEnded(id(1)),
        reserved(1, 30),
        Change::DeliveryReceived(id(2)),
        Change::Received(id(7)),
        Change::Received(id(7)),
        Change::Received(id(8)),
        Change::Released(id(8)),
    ] {
        session.apply(&change);
    }
    let outgoing = vec![
        OutgoingDelivery { packet_id: id(2), token: 20, stage: Stage::Received },
        OutgoingDelivery { packet_id: id(1), token: 30, stage: Stage::Published },
    ];
    assert_eq!(session.in_flight, InFlight { outgoing, received: vec![id(7)] });
}

#[test]
fn a_will_keeps_its_properties() {
    let mut user = PropertyBuffer::default();
    user.push(Property::User("k", "v")).unwrap();
    let properties = PublishProperties {
        payload_is_text: true,
        message_expiry_s: Some(9),
        response_topic: Some("re"),
        correlation_data: Some(b"c"),
        content_type: Some("t"),
        user: user.as_user(),
        ..PublishProperties::default()
    };
    let will = Will { topic: "gone", payload: b"x", qos: QoS::AtLeastOnce, retain: true, delay_s: 5, properties };
    let stored = StoredWill::from_connect(&will);
    let read = stored.publish_properties();
    assert!(read.payload_is_text);
    assert_eq!((read.message_expiry_s, read.response_topic), (Some(9), Some("re")));
    assert_eq!((read.correlation_data, read.content_type), (Some(&b"c"[..]), Some("t")));
    assert_eq!(read.user.iter().collect::<Vec<_>>(), [("k", "v")]);
}
