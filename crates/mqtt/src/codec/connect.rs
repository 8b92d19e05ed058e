//! CONNECT (3.1).

use super::fixed::Frame;
use super::properties::{Allowed, Property, PropertyId};
use super::reader::{Reader, text_of};
use super::writer::{field_size, put_field, put_header, put_u16, put_variable, variable_size};
use super::{DecodeError, EncodeError, Properties, PublishProperties, QoS, ReasonCode, Version};

/// A CONNECT packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect<'a> {
    /// of all packets of this connection
    pub version: Version,
    /// discard an existing session (3.1.2.4); clean session with 3.x
    pub clean_start: bool,
    /// seconds between two packets of the client; 0: no limit
    pub keep_alive_s: u16,
    /// may be empty: then the server assigns one
    pub client_id: &'a str,
    /// published when the connection ends without a DISCONNECT
    pub will: Option<Will<'a>>,
    /// name of the user
    pub user: Option<&'a str>,
    /// password or token; without a user name with 5.0 only
    pub password: Option<&'a [u8]>,
    /// of 5.0; see the methods below
    pub properties: Properties<'a>,
}

/// The will of a CONNECT (3.1.2.5, 3.1.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Will<'a> {
    /// a topic name, checked as that of a PUBLISH
    pub topic: &'a str,
    /// any bytes
    pub payload: &'a [u8],
    /// QoS of its publication
    pub qos: QoS,
    /// publish it as a retained message
    pub retain: bool,
    /// seconds after the end of the connection, or the end of the session if that is earlier
    pub delay_s: u32,
    /// of the message
    pub properties: PublishProperties<'a>,
}

const ALLOWED: Allowed = Allowed::once(&[
    PropertyId::SessionExpiryInterval,
    PropertyId::ReceiveMaximum,
    PropertyId::MaximumPacketSize,
    PropertyId::TopicAliasMaximum,
    PropertyId::RequestResponseInformation,
    PropertyId::RequestProblemInformation,
    PropertyId::AuthenticationMethod,
    PropertyId::AuthenticationData,
]);

const WILL_ALLOWED: Allowed = Allowed::once(&[
    PropertyId::WillDelayInterval,
    PropertyId::PayloadFormatIndicator,
    PropertyId::MessageExpiryInterval,
    PropertyId::ContentType,
    PropertyId::ResponseTopic,
    PropertyId::CorrelationData,
]);

/// Flags of CONNECT (3.1.2.3).
mod flag {
    pub(super) const RESERVED: u8 = 0x01;
    pub(super) const CLEAN_START: u8 = 0x02;
    pub(super) const WILL: u8 = 0x04;
    pub(super) const WILL_QOS: u8 = 0x18;
    pub(super) const WILL_RETAIN: u8 = 0x20;
    pub(super) const PASSWORD: u8 = 0x40;
    pub(super) const USER: u8 = 0x80;
}

impl<'a> Connect<'a> {
    /// From its frame, of type 1.
    ///
    /// # Errors
    /// Unsupported Protocol Version, Malformed Packet or Protocol Error, by the statement named at
    /// each check.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        if frame.first != 0x10 {
            // [5: 2.1.3-1]
            return Err(DecodeError::malformed("CONNECT: the flags of the fixed header are not 0"));
        }
        let mut reader = Reader::new(frame.body);
        let version = version(&mut reader)?;
        let flags = reader.u8()?;
        check_flags(flags, version)?;
        let keep_alive_s = reader.u16()?;
        let properties = match version {
            Version::V5 => Properties::read(&mut reader, ALLOWED)?,
            _ => Properties::NONE,
        };
        if properties.binary(PropertyId::AuthenticationData).is_some()
            && properties.text(PropertyId::AuthenticationMethod).is_none()
        {
            // 3.1.2.11.10
            return Err(DecodeError::protocol("CONNECT: authentication data without a method"));
        }
        let client_id = reader.text()?;
        let will = match flags & flag::WILL {
            0 => None,
            _ => Some(Will::read(&mut reader, flags, version)?),
        };
        // 3.1 allows that the flags are set and the fields missing (3.1, 3.1).
        let missing = |reader: &Reader<'_>| version == Version::V31 && reader.is_empty();
        let user = if flags & flag::USER == 0 || missing(&reader) { None } else { Some(reader.text()?) };
        let password = if flags & flag::PASSWORD == 0 || missing(&reader) { None } else { Some(reader.binary()?) };
        if !reader.is_empty() {
            return Err(DecodeError::malformed("CONNECT: the packet is longer than its fields"));
        }
        let clean_start = flags & flag::CLEAN_START != 0;
        Ok(Self { version, clean_start, keep_alive_s, client_id, will, user, password, properties })
    }

    /// Seconds that the session outlives the connection; `u32::MAX`: no end. With 3.x a session
    /// has no end if clean session is not set, and else ends with the connection [5: 3.1.2-23].
    #[must_use]
    pub fn session_expiry_s(&self) -> u32 {
        match self.version {
            Version::V5 => self.properties.number(PropertyId::SessionExpiryInterval).unwrap_or(0),
            _ if self.clean_start => 0,
            _ => u32::MAX,
        }
    }

    /// PUBLISH packets with QoS 1 and 2 that the client takes at a time (3.1.2.11.3).
    #[must_use]
    pub fn receive_maximum(&self) -> u16 {
        self.properties.number(PropertyId::ReceiveMaximum).map_or(u16::MAX, |value| value as u16)
    }

    /// Bytes of the largest packet that the client takes (3.1.2.11.4).
    #[must_use]
    pub fn maximum_packet_size_bytes(&self) -> u32 {
        self.properties.number(PropertyId::MaximumPacketSize).unwrap_or(u32::MAX)
    }

    /// The highest topic alias that the client takes (3.1.2.11.5).
    #[must_use]
    pub fn topic_alias_maximum(&self) -> u16 {
        self.properties.number(PropertyId::TopicAliasMaximum).map_or(0, |value| value as u16)
    }

    /// Whether response information is wanted in CONNACK (3.1.2.11.6).
    #[must_use]
    pub fn wants_response_information(&self) -> bool {
        self.properties.number(PropertyId::RequestResponseInformation) == Some(1)
    }

    /// Whether reason strings and user properties are wanted beside those of PUBLISH, CONNACK and
    /// DISCONNECT (3.1.2.11.7).
    #[must_use]
    pub fn wants_problem_information(&self) -> bool {
        self.properties.number(PropertyId::RequestProblemInformation) != Some(0)
    }

    /// Method of the enhanced authentication (4.12).
    #[must_use]
    pub fn authentication_method(&self) -> Option<&'a str> {
        self.properties.text(PropertyId::AuthenticationMethod)
    }

    /// First data of the enhanced authentication.
    #[must_use]
    pub fn authentication_data(&self) -> Option<&'a [u8]> {
        self.properties.binary(PropertyId::AuthenticationData)
    }
}

/// Protocol name and level [5: 3.1.2-1, 3.1.2-2].
fn version(reader: &mut Reader<'_>) -> Result<Version, DecodeError> {
    let name = reader.text()?;
    match (name, reader.u8()?) {
        ("MQTT", 5) => Ok(Version::V5),
        ("MQTT", 4) => Ok(Version::V311),
        ("MQIsdp", 3) => Ok(Version::V31),
        ("MQTT" | "MQIsdp", _) => Err(DecodeError {
            code: ReasonCode::UnsupportedProtocolVersion,
            what: "CONNECT: the protocol level is not 3 (MQIsdp), 4 or 5 (MQTT)",
        }),
        _ => Err(DecodeError::protocol("CONNECT: the protocol name is not MQTT")),
    }
}

/// The protocol level that the body of a CONNECT states, if it is readable.
pub(crate) fn peek_level(body: &[u8]) -> Option<u8> {
    let mut reader = Reader::new(body);
    let name = reader.text().ok()?;
    matches!(name, "MQTT" | "MQIsdp").then(|| reader.u8().ok()).flatten()
}

fn check_flags(flags: u8, version: Version) -> Result<(), DecodeError> {
    // 3.1 does not use the bit.
    if flags & flag::RESERVED != 0 && version != Version::V31 {
        // [5: 3.1.2-3]
        return Err(DecodeError::malformed("CONNECT: the reserved flag is set"));
    }
    if flags & flag::WILL == 0 && flags & (flag::WILL_QOS | flag::WILL_RETAIN) != 0 {
        // [5: 3.1.2-11, 3.1.2-13]
        return Err(DecodeError::malformed("CONNECT: will QoS or will retain without a will"));
    }
    if flags & flag::WILL_QOS == flag::WILL_QOS {
        // [5: 3.1.2-12]
        return Err(DecodeError::malformed("CONNECT: will QoS 3 does not exist"));
    }
    if flags & flag::PASSWORD != 0 && flags & flag::USER == 0 && version != Version::V5 {
        // [3: 3.1.2-22]
        return Err(DecodeError::malformed("CONNECT: a password without a user name"));
    }
    Ok(())
}

impl<'a> Will<'a> {
    fn read(reader: &mut Reader<'a>, flags: u8, version: Version) -> Result<Self, DecodeError> {
        let (mut properties, mut delay_s) = (PublishProperties::default(), 0);
        if version.is_v5() {
            let all = Properties::read_with(reader, WILL_ALLOWED, |property| match property {
                Property::Number(PropertyId::WillDelayInterval, value) => delay_s = value,
                property => {
                    properties.set(&property);
                }
            })?;
            properties.user = all.user();
            properties.check()?;
        }
        let topic = text_of(reader.binary()?)?;
        if topic.is_empty() || topic.contains(['+', '#']) {
            // [5: 3.1.3-11, 4.7.1-1, 4.7.3-1]
            return Err(DecodeError::malformed("CONNECT: the will topic is empty or contains a wildcard"));
        }
        let payload = reader.binary()?;
        let qos = QoS::from_bits((flags & flag::WILL_QOS) >> 3).unwrap_or_default();
        Ok(Self { topic, payload, qos, retain: flags & flag::WILL_RETAIN != 0, delay_s, properties })
    }

    fn size(&self, version: Version) -> Result<usize, EncodeError> {
        let fields = field_size(self.topic.as_bytes())? + field_size(self.payload)?;
        match version {
            Version::V5 => {
                let properties = self.properties_size()?;
                Ok(fields + variable_size(properties) + properties)
            }
            _ => Ok(fields),
        }
    }

    fn properties_size(&self) -> Result<usize, EncodeError> {
        Ok(self.properties.size()? + if self.delay_s > 0 { 5 } else { 0 })
    }

    fn put(&self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        if version.is_v5() {
            put_variable(out, self.properties_size()?);
            if self.delay_s > 0 {
                out.push(PropertyId::WillDelayInterval as u8);
                out.extend_from_slice(&self.delay_s.to_be_bytes());
            }
            self.properties.put(out);
        }
        put_field(out, self.topic.as_bytes());
        put_field(out, self.payload);
        Ok(())
    }
}

/// Appends a CONNECT, as clients send.
///
/// # Errors
/// A field is longer than 65,535 bytes; nothing was written.
pub fn encode_connect(out: &mut Vec<u8>, connect: &Connect<'_>) -> Result<(), EncodeError> {
    let version = connect.version;
    let mut body = 2 + version.name().len() + 4 + field_size(connect.client_id.as_bytes())?;
    let properties = connect.properties.as_bytes();
    if version.is_v5() {
        body += variable_size(properties.len()) + properties.len();
    }
    let mut flags = if connect.clean_start { flag::CLEAN_START } else { 0 };
    if let Some(will) = &connect.will {
        flags |= flag::WILL | (will.qos as u8) << 3 | if will.retain { flag::WILL_RETAIN } else { 0 };
        body += will.size(version)?;
    }
    if let Some(user) = connect.user {
        flags |= flag::USER;
        body += field_size(user.as_bytes())?;
    }
    if let Some(password) = connect.password {
        flags |= flag::PASSWORD;
        body += field_size(password)?;
    }
    put_header(out, 0x10, body)?;
    put_field(out, version.name().as_bytes());
    out.extend_from_slice(&[version.level(), flags]);
    put_u16(out, connect.keep_alive_s);
    if version.is_v5() {
        put_variable(out, properties.len());
        out.extend_from_slice(properties);
    }
    put_field(out, connect.client_id.as_bytes());
    if let Some(will) = &connect.will {
        will.put(out, version)?;
    }
    for field in [connect.user.map(str::as_bytes), connect.password].into_iter().flatten() {
        put_field(out, field);
    }
    Ok(())
}
