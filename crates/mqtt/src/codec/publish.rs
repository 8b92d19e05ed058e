//! PUBLISH (3.3): the hot packet, decoded and encoded without allocation.

use super::fixed::Frame;
use super::properties::{Allowed, Property, PropertyId};
use super::reader::{Reader, contains_any, text_of};
use super::writer::{field_size, put_field, put_header, put_u16, put_variable, variable_size};
use super::{DecodeError, EncodeError, PacketId, Properties, QoS, UserProperties, Version};

/// A PUBLISH packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// it may have been sent before (3.3.1.1)
    pub dup: bool,
    /// how it is acknowledged
    pub qos: QoS,
    /// keep it as the retained message of its topic; to a client: it was retained
    pub retain: bool,
    /// without wildcards; empty only together with a topic alias
    pub topic: &'a str,
    /// with QoS 1 and 2 only [5: 2.2.1-2]
    pub packet_id: Option<PacketId>,
    /// of 5.0
    pub properties: PublishProperties<'a>,
    /// any bytes
    pub payload: &'a [u8],
}

/// Properties of a PUBLISH or a will (3.3.2.3, 3.1.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishProperties<'a> {
    /// the payload is UTF-8 text, as its sender states
    pub payload_is_text: bool,
    /// seconds from its publication, or seconds left
    pub message_expiry_s: Option<u32>,
    /// instead of the topic or to establish it; never 0
    pub topic_alias: Option<u16>,
    /// where to send a response: a topic name
    pub response_topic: Option<&'a str>,
    /// to match a response with its request
    pub correlation_data: Option<&'a [u8]>,
    /// of the payload
    pub content_type: Option<&'a str>,
    /// in their order [5: 3.3.2-18]
    pub user: UserProperties<'a>,
    /// of the subscriptions that match; from servers only
    pub subscription_ids: SubscriptionIds<'a>,
}

/// Subscription identifiers of a PUBLISH to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubscriptionIds<'a> {
    /// none
    #[default]
    None,
    /// to encode
    List(&'a [u32]),
    /// as received
    Encoded(Properties<'a>),
}

impl SubscriptionIds<'_> {
    /// All of them.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u32> {
        match self {
            Self::None => Vec::new(),
            Self::List(ids) => ids.to_vec(),
            Self::Encoded(properties) => properties
                .iter()
                .filter_map(|property| match property {
                    Property::Number(PropertyId::SubscriptionIdentifier, id) => Some(id),
                    _ => None,
                })
                .collect(),
        }
    }
}

const DUP: u8 = 0x08;
const RETAIN: u8 = 0x01;

const ALLOWED: Allowed = Allowed::once(&[
    PropertyId::PayloadFormatIndicator,
    PropertyId::MessageExpiryInterval,
    PropertyId::TopicAlias,
    PropertyId::ResponseTopic,
    PropertyId::CorrelationData,
    PropertyId::ContentType,
])
.and_repeated(PropertyId::SubscriptionIdentifier);

impl<'a> Publish<'a> {
    /// From its frame, of type 3.
    ///
    /// # Errors
    /// Malformed Packet or Protocol Error, by the statement named at each check.
    #[inline]
    pub fn decode(frame: &Frame<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(frame.body);
        let Some(qos) = QoS::from_bits(frame.first >> 1 & 3) else {
            // [5: 3.3.1-4]
            return Err(DecodeError::malformed("PUBLISH: QoS 3 does not exist"));
        };
        let dup = frame.first & DUP != 0;
        if dup && qos == QoS::AtMostOnce {
            // [5: 3.3.1-2]
            return Err(DecodeError::malformed("PUBLISH: DUP is set with QoS 0"));
        }
        let topic = topic(reader.binary()?)?;
        let packet_id = match qos {
            QoS::AtMostOnce => None,
            _ => Some(reader.packet_id()?),
        };
        let properties = match version {
            Version::V5 => PublishProperties::read(&mut reader)?,
            _ => PublishProperties::default(),
        };
        if topic.is_empty() && properties.topic_alias.is_none() {
            // [5: 4.7.3-1] and 3.3.2.1
            return Err(DecodeError::protocol("PUBLISH: the topic name is empty and there is no topic alias"));
        }
        let retain = frame.first & RETAIN != 0;
        Ok(Self { dup, qos, retain, topic, packet_id, properties, payload: reader.rest() })
    }
}

/// A topic name without wildcards [5: 3.3.2-1, 3.3.2-2].
#[inline]
fn topic(bytes: &[u8]) -> Result<&str, DecodeError> {
    match contains_any(bytes, [b'+', b'#']) {
        true => Err(DecodeError::malformed("PUBLISH: the topic name contains a wildcard")),
        false => text_of(bytes),
    }
}

impl<'a> PublishProperties<'a> {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        if let [0, ..] = reader.rest() {
            reader.u8()?;
            return Ok(Self::default());
        }
        Self::read_some(reader)
    }

    fn read_some(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let mut read = Self::default();
        let (mut user, mut subscription) = (false, false);
        let all = Properties::read_with(reader, ALLOWED, |property| {
            if !read.set(&property) {
                user |= property.id() == PropertyId::UserProperty;
                subscription |= property.id() == PropertyId::SubscriptionIdentifier;
            }
        })?;
        if user {
            read.user = all.user();
        }
        if subscription {
            read.subscription_ids = SubscriptionIds::Encoded(all);
        }
        if read.topic_alias == Some(0) {
            // [5: 3.3.2-8]
            let what = "PUBLISH: topic alias 0";
            return Err(DecodeError { code: super::ReasonCode::TopicAliasInvalid, what });
        }
        read.check()?;
        Ok(read)
    }

    /// Takes a property that occurs once; `false` for others.
    pub(crate) fn set(&mut self, property: &Property<'a>) -> bool {
        match *property {
            Property::Number(PropertyId::PayloadFormatIndicator, value) => self.payload_is_text = value == 1,
            Property::Number(PropertyId::MessageExpiryInterval, value) => self.message_expiry_s = Some(value),
            Property::Number(PropertyId::TopicAlias, value) => self.topic_alias = Some(value as u16),
            Property::Text(PropertyId::ResponseTopic, value) => self.response_topic = Some(value),
            Property::Binary(PropertyId::CorrelationData, value) => self.correlation_data = Some(value),
            Property::Text(PropertyId::ContentType, value) => self.content_type = Some(value),
            _ => return false,
        }
        true
    }

    /// The encoding, without the length in front; to keep properties of a message.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.put(&mut bytes);
        bytes
    }

    /// From the encoding that `to_bytes` wrote; bytes that are no property end it.
    #[must_use]
    pub fn from_bytes(bytes: &'a [u8]) -> Self {
        let all = Properties::from_bytes(bytes);
        let mut read = Self::default();
        for property in all.iter() {
            if read.set(&property) {
                continue;
            }
            match property.id() {
                PropertyId::UserProperty => read.user = all.user(),
                PropertyId::SubscriptionIdentifier => read.subscription_ids = SubscriptionIds::Encoded(all),
                _ => {}
            }
        }
        read
    }

    /// The response topic is a topic name [5: 3.3.2-14].
    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        match self.response_topic {
            Some(topic) if topic.is_empty() || topic.contains(['+', '#']) => {
                Err(DecodeError::protocol("the response topic is empty or contains a wildcard"))
            }
            _ => Ok(()),
        }
    }

    /// Bytes of the encoding, without the length in front.
    ///
    /// # Errors
    /// A field is longer than 65,535 bytes.
    #[inline]
    pub(crate) fn size(&self) -> Result<usize, EncodeError> {
        let mut size = match self.subscription_ids {
            SubscriptionIds::None => 0,
            SubscriptionIds::List(ids) => ids.iter().map(|id| 1 + variable_size(*id as usize)).sum(),
            SubscriptionIds::Encoded(_) => {
                self.subscription_ids.to_vec().iter().map(|id| 1 + variable_size(*id as usize)).sum()
            }
        };
        size += usize::from(self.payload_is_text) * 2;
        size += usize::from(self.message_expiry_s.is_some()) * 5;
        size += usize::from(self.topic_alias.is_some()) * 3;
        for field in
            [self.response_topic.map(str::as_bytes), self.correlation_data, self.content_type.map(str::as_bytes)]
                .into_iter()
                .flatten()
        {
            size += 1 + field_size(field)?;
        }
        Ok(size + self.user.size())
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        if self.payload_is_text {
            out.extend_from_slice(&[PropertyId::PayloadFormatIndicator as u8, 1]);
        }
        if let Some(seconds) = self.message_expiry_s {
            out.push(PropertyId::MessageExpiryInterval as u8);
            out.extend_from_slice(&seconds.to_be_bytes());
        }
        if let Some(alias) = self.topic_alias {
            out.push(PropertyId::TopicAlias as u8);
            put_u16(out, alias);
        }
        for (id, field) in [
            (PropertyId::ResponseTopic, self.response_topic.map(str::as_bytes)),
            (PropertyId::CorrelationData, self.correlation_data),
            (PropertyId::ContentType, self.content_type.map(str::as_bytes)),
        ] {
            if let Some(field) = field {
                out.push(id as u8);
                put_field(out, field);
            }
        }
        let put_id = |out: &mut Vec<u8>, id: u32| {
            out.push(PropertyId::SubscriptionIdentifier as u8);
            put_variable(out, id as usize);
        };
        match self.subscription_ids {
            SubscriptionIds::None => {}
            SubscriptionIds::List(ids) => ids.iter().for_each(|id| put_id(out, *id)),
            SubscriptionIds::Encoded(_) => self.subscription_ids.to_vec().iter().for_each(|id| put_id(out, *id)),
        }
        self.user.put(out);
    }
}

/// Bytes of the body (variable header and payload) of a PUBLISH, and of its properties.
#[inline]
fn sizes(publish: &Publish<'_>, payload: usize, version: Version) -> Result<(usize, usize), EncodeError> {
    let properties = match version {
        Version::V5 => publish.properties.size()?,
        _ => 0,
    };
    let mut body = field_size(publish.topic.as_bytes())? + payload;
    body += usize::from(publish.qos != QoS::AtMostOnce) * 2;
    if version.is_v5() {
        body += variable_size(properties) + properties;
    }
    Ok((body, properties))
}

/// Bytes of the whole packet that `encode_publish` would write.
///
/// # Errors
/// A field is longer than 65,535 bytes.
pub fn publish_size(publish: &Publish<'_>, more: &[&[u8]], version: Version) -> Result<usize, EncodeError> {
    let payload = publish.payload.len() + more.iter().map(|part| part.len()).sum::<usize>();
    let (body, _) = sizes(publish, payload, version)?;
    Ok(1 + variable_size(body) + body)
}

/// Appends a PUBLISH, whose payload is `publish.payload` and then the parts of `more`. With 3.x its
/// properties are left out.
///
/// # Errors
/// A field is longer than 65,535 bytes, or the packet larger than `size_max_bytes`; nothing was
/// written.
#[inline]
pub fn encode_publish(
    out: &mut Vec<u8>,
    publish: &Publish<'_>,
    more: &[&[u8]],
    version: Version,
    size_max_bytes: u32,
) -> Result<(), EncodeError> {
    debug_assert_eq!(publish.packet_id.is_some(), publish.qos != QoS::AtMostOnce);
    let payload = publish.payload.len() + more.iter().map(|part| part.len()).sum::<usize>();
    let (body, properties) = sizes(publish, payload, version)?;
    if 1 + variable_size(body) + body > size_max_bytes as usize {
        return Err(EncodeError::PacketTooLarge);
    }
    let (dup, retain) = (u8::from(publish.dup) * DUP, u8::from(publish.retain) * RETAIN);
    put_header(out, 0x30 | dup | ((publish.qos as u8) << 1) | retain, body)?;
    put_field(out, publish.topic.as_bytes());
    if let Some(id) = publish.packet_id {
        put_u16(out, id.get());
    }
    if version.is_v5() {
        put_variable(out, properties);
        if properties > 0 {
            publish.properties.put(out);
        }
    }
    out.extend_from_slice(publish.payload);
    for part in more {
        out.extend_from_slice(part);
    }
    Ok(())
}
