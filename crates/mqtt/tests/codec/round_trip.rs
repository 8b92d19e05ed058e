//! Every packet survives encoding and decoding, in each version that has it.

use enmasse_mqtt::codec::fixed::split;
use enmasse_mqtt::codec::{
    Ack, AckKind, Auth, ConnAck, Connect, Disconnect, Packet, PacketId, Properties, Property, PropertyBuffer,
    PropertyId, Publish, PublishProperties, QoS, ReasonCode, RetainHandling, Subscription, SubscriptionIds,
    SubscriptionOptions, Version, Will, decode, encode_ack, encode_auth, encode_connack, encode_connect,
    encode_disconnect, encode_publish, encode_suback, encode_subscribe, encode_unsuback, encode_unsubscribe,
    publish_size,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// The only packet of these bytes.
fn packet(bytes: &[u8], version: Version) -> Packet<'_> {
    let (frame, length) = split(bytes, u32::MAX).unwrap().unwrap();
    assert_eq!(length, bytes.len());
    for end in 0..bytes.len() {
        assert_eq!(split(&bytes[..end], u32::MAX), Ok(None), "a part of a packet is no error");
    }
    decode(&frame, version).unwrap()
}

fn versions() -> impl Strategy<Value = Version> {
    prop_oneof![Just(Version::V31), Just(Version::V311), Just(Version::V5)]
}

fn qos() -> impl Strategy<Value = QoS> {
    prop_oneof![Just(QoS::AtMostOnce), Just(QoS::AtLeastOnce), Just(QoS::ExactlyOnce)]
}

fn ids() -> impl Strategy<Value = PacketId> {
    (1..=u16::MAX).prop_map(|id| PacketId::new(id).unwrap())
}

fn texts() -> impl Strategy<Value = String> {
    "[a-zé /€]{0,20}"
}

fn topics() -> impl Strategy<Value = String> {
    "[a-z/$]{1,30}"
}

fn pairs() -> impl Strategy<Value = PropertyBuffer> {
    vec((texts(), texts()), 0..3).prop_map(|pairs| {
        let mut buffer = PropertyBuffer::default();
        pairs.iter().for_each(|(name, value)| buffer.push(Property::User(name, value)).unwrap());
        buffer
    })
}

/// Properties of a message without borrowed parts.
#[derive(Clone, Debug)]
struct Owned {
    payload_is_text: bool,
    message_expiry_s: Option<u32>,
    topic_alias: Option<u16>,
    response_topic: Option<String>,
    correlation_data: Option<Vec<u8>>,
    content_type: Option<String>,
    user: PropertyBuffer,
    subscription_ids: Vec<u32>,
}

impl Owned {
    fn borrow(&self) -> PublishProperties<'_> {
        PublishProperties {
            payload_is_text: self.payload_is_text,
            message_expiry_s: self.message_expiry_s,
            topic_alias: self.topic_alias,
            response_topic: self.response_topic.as_deref(),
            correlation_data: self.correlation_data.as_deref(),
            content_type: self.content_type.as_deref(),
            user: self.user.as_user(),
            subscription_ids: match self.subscription_ids.is_empty() {
                true => SubscriptionIds::None,
                false => SubscriptionIds::List(&self.subscription_ids),
            },
        }
    }
}

fn message_properties() -> impl Strategy<Value = Owned> {
    let first = (any::<bool>(), option::of(any::<u32>()), option::of(1..=u16::MAX), option::of(topics()));
    let rest = (option::of(vec(any::<u8>(), 0..20)), option::of(texts()), pairs(), vec(1..=268_435_455_u32, 0..3));
    (first, rest).prop_map(|(first, rest)| Owned {
        payload_is_text: first.0,
        message_expiry_s: first.1,
        topic_alias: first.2,
        response_topic: first.3,
        correlation_data: rest.0,
        content_type: rest.1,
        user: rest.2,
        subscription_ids: rest.3,
    })
}

/// Equality apart from the form of lists.
fn assert_same(read: &PublishProperties<'_>, written: &PublishProperties<'_>) {
    assert_eq!(read.user.iter().collect::<Vec<_>>(), written.user.iter().collect::<Vec<_>>());
    assert_eq!(read.subscription_ids.to_vec(), written.subscription_ids.to_vec());
    let plain = |properties: &PublishProperties<'_>| {
        let mut all = format!("{:?}", properties.payload_is_text);
        all += &format!("{:?}{:?}", properties.message_expiry_s, properties.topic_alias);
        all + &format!("{:?}{:?}{:?}", properties.response_topic, properties.correlation_data, properties.content_type)
    };
    assert_eq!(plain(read), plain(written));
}

proptest! {
    #[test]
    fn publish(
        version in versions(),
        (qos, retain, again, id) in (qos(), any::<bool>(), any::<bool>(), ids()),
        topic in topics(),
        properties in message_properties(),
        parts in vec(vec(any::<u8>(), 0..200), 0..3),
    ) {
        let (first, more): (&[u8], Vec<&[u8]>) = match parts.split_first() {
            Some((first, more)) => (first, more.iter().map(Vec::as_slice).collect()),
            None => (&[], Vec::new()),
        };
        let written = Publish {
            dup: again && qos != QoS::AtMostOnce,
            qos,
            retain,
            topic: &topic,
            packet_id: (qos != QoS::AtMostOnce).then_some(id),
            properties: properties.borrow(),
            payload: first,
        };
        let mut bytes = Vec::new();
        encode_publish(&mut bytes, &written, &more, version, u32::MAX).unwrap();
        prop_assert_eq!(publish_size(&written, &more, version), Ok(bytes.len()));
        let Packet::Publish(read) = packet(&bytes, version) else { panic!("no PUBLISH") };
        prop_assert_eq!((read.dup, read.qos, read.retain), (written.dup, qos, retain));
        prop_assert_eq!((read.topic, read.packet_id), (written.topic, written.packet_id));
        prop_assert_eq!(read.payload, parts.concat());
        match version {
            Version::V5 => assert_same(&read.properties, &written.properties),
            _ => assert_same(&read.properties, &PublishProperties::default()),
        }
        // One byte less is too little room, and nothing is written.
        let mut none = Vec::new();
        prop_assert!(encode_publish(&mut none, &written, &more, version, bytes.len() as u32 - 1).is_err());
        prop_assert!(none.is_empty());
    }

    #[test]
    fn connect(
        version in versions(),
        (clean_start, keep_alive_s, retain, delay_s) in (any::<bool>(), any::<u16>(), any::<bool>(), any::<u32>()),
        (client_id, user, password) in (texts(), option::of(texts()), option::of(vec(any::<u8>(), 0..20))),
        will in option::of((topics(), vec(any::<u8>(), 0..30), qos(), message_properties())),
        (receive_maximum, pairs) in (1..=u16::MAX, pairs()),
    ) {
        let mut properties = PropertyBuffer::default();
        if version == Version::V5 {
            properties.push(Property::Number(PropertyId::ReceiveMaximum, receive_maximum.into())).unwrap();
            for (name, value) in pairs.as_user().iter() {
                properties.push(Property::User(name, value)).unwrap();
            }
        }
        let will_properties = will.as_ref().map(|will| PublishProperties {
            topic_alias: None,
            subscription_ids: SubscriptionIds::None,
            ..will.3.borrow()
        });
        let will = will.as_ref().zip(will_properties).map(|((topic, payload, qos, _), properties)| Will {
            topic,
            payload,
            qos: *qos,
            retain,
            delay_s: if version == Version::V5 { delay_s } else { 0 },
            properties,
        });
        let password = password.as_deref().filter(|_| user.is_some() || version == Version::V5);
        let written = Connect {
            version, clean_start, keep_alive_s, client_id: &client_id, will,
            user: user.as_deref(), password, properties: properties.as_properties(),
        };
        let mut bytes = Vec::new();
        encode_connect(&mut bytes, &written).unwrap();
        let Packet::Connect(read) = packet(&bytes, version) else { panic!("no CONNECT") };
        prop_assert_eq!((read.version, read.clean_start, read.keep_alive_s), (version, clean_start, keep_alive_s));
        prop_assert_eq!((read.client_id, read.user, read.password), (written.client_id, written.user, password));
        prop_assert_eq!(read.properties, written.properties);
        prop_assert_eq!(read.will.is_some(), will.is_some());
        if let (Some(read), Some(written)) = (read.will, will) {
            prop_assert_eq!((read.topic, read.payload), (written.topic, written.payload));
            prop_assert_eq!((read.qos, read.retain, read.delay_s), (written.qos, retain, written.delay_s));
            if version == Version::V5 {
                assert_same(&read.properties, &written.properties);
            }
        }
    }

    #[test]
    fn acknowledgements(version in versions(), id in ids(), kind in 0..4_usize, code in 0..4_usize, text in texts()) {
        let kind = [AckKind::PubAck, AckKind::PubRec, AckKind::PubRel, AckKind::PubComp][kind];
        let codes = match kind {
            AckKind::PubAck | AckKind::PubRec => {
                use ReasonCode as R;
                [R::Success, R::NoMatchingSubscribers, R::QuotaExceeded, R::NotAuthorized]
            }
            _ => [ReasonCode::Success, ReasonCode::PacketIdentifierNotFound, ReasonCode::Success, ReasonCode::Success],
        };
        let mut bytes = Vec::new();
        encode_ack(&mut bytes, kind, id, (codes[code], &text), version, u32::MAX).unwrap();
        let Packet::Ack(Ack { kind: read, packet_id, code: read_code, properties }) = packet(&bytes, version) else {
            panic!("no acknowledgement")
        };
        prop_assert_eq!((read, packet_id), (kind, id));
        if version == Version::V5 {
            prop_assert_eq!(read_code, codes[code]);
            prop_assert_eq!(properties.text(PropertyId::ReasonString).unwrap_or_default(), text);
        } else {
            prop_assert_eq!((read_code, bytes.len()), (ReasonCode::Success, 4));
        }
    }

    #[test]
    fn subscriptions(version in versions(), id in ids(), filters in vec((topics(), 0..48_u8), 1..5), text in texts()) {
        let subscription = |(filter, bits): &(String, u8)| -> (String, SubscriptionOptions) {
            let options = SubscriptionOptions::from_bits(*bits).unwrap_or_default();
            let plain = SubscriptionOptions { qos: options.qos, ..SubscriptionOptions::default() };
            let shared = filter.starts_with("$share/");
            let v5 = SubscriptionOptions { no_local: options.no_local && !shared, ..options };
            (filter.clone(), if version == Version::V5 { v5 } else { plain })
        };
        let written: Vec<_> = filters.iter().map(subscription).collect();
        let borrowed = written.iter().map(|(filter, options)| Subscription { filter, options: *options });
        let mut bytes = Vec::new();
        encode_subscribe(&mut bytes, id, Properties::NONE, borrowed.clone(), version).unwrap();
        let Packet::Subscribe(read) = packet(&bytes, version) else { panic!("no SUBSCRIBE") };
        prop_assert_eq!(read.packet_id, id);
        prop_assert!(read.subscriptions().eq(borrowed));
        let names = written.iter().map(|(filter, _)| filter.as_str());
        let mut bytes = Vec::new();
        encode_unsubscribe(&mut bytes, id, Properties::NONE, names.clone(), version).unwrap();
        let Packet::Unsubscribe(read) = packet(&bytes, version) else { panic!("no UNSUBSCRIBE") };
        prop_assert!(read.filters().eq(names));

        let codes = vec![ReasonCode::GrantedQoS1; written.len()];
        let mut bytes = Vec::new();
        encode_suback(&mut bytes, id, &codes, &text, version, u32::MAX).unwrap();
        let Packet::SubAck(read) = packet(&bytes, version) else { panic!("no SUBACK") };
        prop_assert!(read.packet_id == id && read.codes().eq(codes.iter().copied()));
        let mut bytes = Vec::new();
        encode_unsuback(&mut bytes, id, &codes, &text, version, u32::MAX).unwrap();
        let Packet::UnsubAck(read) = packet(&bytes, version) else { panic!("no UNSUBACK") };
        prop_assert_eq!(read.codes().count(), if version == Version::V5 { codes.len() } else { 0 });
    }

    #[test]
    fn answers_of_servers(version in versions(), present in any::<bool>(), text in texts(), pairs in pairs()) {
        let mut properties = PropertyBuffer::default();
        if version == Version::V5 {
            properties.push(Property::Text(PropertyId::ReasonString, &text)).unwrap();
            pairs.as_user().iter().for_each(|(name, value)| properties.push(Property::User(name, value)).unwrap());
        }
        let written = ConnAck { session_present: present, code: 0, properties: properties.as_properties() };
        let mut bytes = Vec::new();
        encode_connack(&mut bytes, &written, version).unwrap();
        prop_assert_eq!(packet(&bytes, version), Packet::ConnAck(written));
        let code = if version == Version::V5 { ReasonCode::ServerShuttingDown } else { ReasonCode::Success };
        let written = Disconnect { code, properties: properties.as_properties() };
        let mut bytes = Vec::new();
        encode_disconnect(&mut bytes, &written, version).unwrap();
        prop_assert_eq!(packet(&bytes, version), Packet::Disconnect(written));
        if version == Version::V5 {
            let written = Auth { code: ReasonCode::ContinueAuthentication, properties: properties.as_properties() };
            let mut bytes = Vec::new();
            encode_auth(&mut bytes, &written).unwrap();
            prop_assert_eq!(packet(&bytes, version), Packet::Auth(written));
        }
    }
}

#[test]
fn codes_and_options_have_their_numbers() {
    for code in ReasonCode::ALL {
        assert_eq!(ReasonCode::from_u8(code.as_u8()), Some(*code));
    }
    assert_eq!(ReasonCode::ALL.len(), (0..=u8::MAX).filter_map(ReasonCode::from_u8).count());
    assert_eq!(PropertyId::ALL.len(), 27);
    let options = SubscriptionOptions {
        qos: QoS::ExactlyOnce,
        no_local: true,
        retain_as_published: true,
        retain_handling: RetainHandling::DoNotSend,
    };
    assert_eq!(options.to_bits(), 0x2e);
    assert_eq!(SubscriptionOptions::from_bits(0x2e), Some(options));
}
