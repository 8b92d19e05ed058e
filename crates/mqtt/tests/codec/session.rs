//! Records of sessions: written records are read back.

use enmasse_mqtt::codec::{Property, PropertyBuffer, PublishProperties, QoS, SubscriptionOptions, Will};
use enmasse_mqtt::session::{Session, StoredSubscription, StoredWill};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

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

proptest! {
    #[test]
    fn session_survives_its_encoding(
        expiry_s in any::<u32>(),
        subscriptions in vec(subscriptions(), 0..40),
        will in option::of(wills()),
    ) {
        let session = Session { expiry_s, subscriptions, will };
        let mut bytes = Vec::new();
        session.encode(&mut bytes);
        prop_assert_eq!(&Session::decode(&bytes).unwrap(), &session);
        for end in 0..bytes.len() {
            prop_assert!(Session::decode(&bytes[..end]).is_err());
        }
        bytes.push(0);
        prop_assert!(Session::decode(&bytes).is_err());
    }
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
