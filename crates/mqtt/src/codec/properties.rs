//! Properties (5.0, 2.2.2).

use super::reader::Reader;
use super::writer::{field_size, put_field, put_u16, put_variable};
use super::{DecodeError, EncodeError};

/// Defines the identifiers once, with their numbers.
macro_rules! property_ids {
    ($($(#[$doc:meta])* $name:ident = $id:literal,)*) => {
        /// A property identifier (2.2.2.2).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum PropertyId {
            $($(#[$doc])* $name = $id,)*
        }

        impl PropertyId {
            /// All identifiers in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            const fn from_number(id: u32) -> Option<Self> {
                Some(match id {
                    $($id => Self::$name,)*
                    _ => return None,
                })
            }
        }
    };
}

property_ids! {
    /// byte: 1 if the payload is UTF-8
    PayloadFormatIndicator = 0x01,
    /// four byte integer: seconds
    MessageExpiryInterval = 0x02,
    /// text: of the payload
    ContentType = 0x03,
    /// text: a topic name
    ResponseTopic = 0x08,
    /// binary: of a request
    CorrelationData = 0x09,
    /// variable byte integer: not 0
    SubscriptionIdentifier = 0x0B,
    /// four byte integer: seconds
    SessionExpiryInterval = 0x11,
    /// text: chosen by the server
    AssignedClientIdentifier = 0x12,
    /// two byte integer: seconds
    ServerKeepAlive = 0x13,
    /// text: of a SASL mechanism or the like
    AuthenticationMethod = 0x15,
    /// binary: as the method says
    AuthenticationData = 0x16,
    /// byte: 0 or 1
    RequestProblemInformation = 0x17,
    /// four byte integer: seconds
    WillDelayInterval = 0x18,
    /// byte: 0 or 1
    RequestResponseInformation = 0x19,
    /// text: the base of response topics
    ResponseInformation = 0x1A,
    /// text: other servers
    ServerReference = 0x1C,
    /// text: for diagnosis
    ReasonString = 0x1F,
    /// two byte integer: not 0
    ReceiveMaximum = 0x21,
    /// two byte integer
    TopicAliasMaximum = 0x22,
    /// two byte integer: not 0
    TopicAlias = 0x23,
    /// byte: 0 or 1
    MaximumQoS = 0x24,
    /// byte: 0 or 1
    RetainAvailable = 0x25,
    /// two texts; may occur more than once
    UserProperty = 0x26,
    /// four byte integer: bytes, not 0
    MaximumPacketSize = 0x27,
    /// byte: 0 or 1
    WildcardSubscriptionAvailable = 0x28,
    /// byte: 0 or 1
    SubscriptionIdentifierAvailable = 0x29,
    /// byte: 0 or 1
    SharedSubscriptionAvailable = 0x2A,
}

impl PropertyId {
    /// Its bit in a set of identifiers; all are below 64.
    pub(crate) const fn bit(self) -> u64 {
        1 << self as u8
    }
}

/// A value of a property, by the type of its identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property<'a> {
    /// byte, two byte, four byte or variable byte integer
    Number(PropertyId, u32),
    /// UTF-8 encoded string
    Text(PropertyId, &'a str),
    /// binary data
    Binary(PropertyId, &'a [u8]),
    /// user property: name and value
    User(&'a str, &'a str),
}

impl Property<'_> {
    /// The identifier.
    #[must_use]
    pub const fn id(&self) -> PropertyId {
        match self {
            Self::Number(id, _) | Self::Text(id, _) | Self::Binary(id, _) => *id,
            Self::User(..) => PropertyId::UserProperty,
        }
    }
}

/// Properties of a packet in their encoding, without the length in front. Those of a decoded packet
/// are checked: each is allowed in its packet, occurs once unless it may be repeated, and has a
/// value in its range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties<'a> {
    bytes: &'a [u8],
}

impl<'a> Properties<'a> {
    /// No properties.
    pub const NONE: Self = Self { bytes: &[] };

    /// Reads the length and the properties of a packet.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>, allowed: Allowed) -> Result<Self, DecodeError> {
        Self::read_with(reader, allowed, |_| {})
    }

    /// As `read`, and calls `each` with every property in order.
    #[inline]
    pub(crate) fn read_with(
        reader: &mut Reader<'a>,
        allowed: Allowed,
        mut each: impl FnMut(Property<'a>),
    ) -> Result<Self, DecodeError> {
        let length = reader.variable()?;
        let bytes = reader.bytes(length as usize)?;
        let mut reader = Reader::new(bytes);
        let mut seen = 0;
        while !reader.is_empty() {
            let property = read_property(&mut reader)?;
            let bit = property.id().bit();
            if (allowed.once | allowed.repeated) & bit == 0 {
                return Err(DecodeError::protocol("a property is not allowed in this packet"));
            }
            if seen & bit & !allowed.repeated != 0 {
                return Err(DecodeError::protocol("a property occurs more than once"));
            }
            seen |= bit;
            each(property);
        }
        Ok(Self { bytes })
    }

    pub(crate) const fn from_bytes(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// All properties in order.
    pub fn iter(&self) -> impl Iterator<Item = Property<'a>> + use<'a> {
        let mut reader = Reader::new(self.bytes);
        std::iter::from_fn(move || if reader.is_empty() { None } else { read_property(&mut reader).ok() })
    }

    /// The user properties in order.
    #[must_use]
    pub const fn user(&self) -> UserProperties<'a> {
        UserProperties { bytes: self.bytes }
    }

    /// The number of a property.
    #[must_use]
    pub fn number(&self, id: PropertyId) -> Option<u32> {
        self.iter().find_map(|property| match property {
            Property::Number(found, value) if found == id => Some(value),
            _ => None,
        })
    }

    /// The text of a property.
    #[must_use]
    pub fn text(&self, id: PropertyId) -> Option<&'a str> {
        self.iter().find_map(|property| match property {
            Property::Text(found, value) if found == id => Some(value),
            _ => None,
        })
    }

    /// The bytes of a property.
    #[must_use]
    pub fn binary(&self, id: PropertyId) -> Option<&'a [u8]> {
        self.iter().find_map(|property| match property {
            Property::Binary(found, value) if found == id => Some(value),
            _ => None,
        })
    }

    /// The encoding, without the length in front.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// User properties in their encoding, in order; other properties may lie between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserProperties<'a> {
    bytes: &'a [u8],
}

impl<'a> UserProperties<'a> {
    /// No user properties.
    pub const NONE: Self = Self { bytes: &[] };

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        Properties { bytes: self.bytes }.iter().filter_map(|property| match property {
            Property::User(name, value) => Some((name, value)),
            _ => None,
        })
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() || self.iter().next().is_none()
    }

    /// Bytes of the encoding.
    pub(crate) fn size(&self) -> usize {
        self.iter().map(|(name, value)| 5 + name.len() + value.len()).sum()
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        for (name, value) in self.iter() {
            out.push(PropertyId::UserProperty as u8);
            put_field(out, name.as_bytes());
            put_field(out, value.as_bytes());
        }
    }
}

/// The properties of one packet type, as sets of `PropertyId::bit`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    once: u64,
    repeated: u64,
}

impl Allowed {
    /// Those that may occur once; user properties may occur more often.
    pub(crate) const fn once(ids: &[PropertyId]) -> Self {
        let (mut once, mut place) = (0, 0);
        while place < ids.len() {
            once |= ids[place].bit();
            place += 1;
        }
        Self { once, repeated: PropertyId::UserProperty.bit() }
    }

    /// And this one more often.
    pub(crate) const fn and_repeated(self, id: PropertyId) -> Self {
        Self { once: self.once, repeated: self.repeated | id.bit() }
    }
}

/// One property, with its value in range.
#[inline]
fn read_property<'a>(reader: &mut Reader<'a>) -> Result<Property<'a>, DecodeError> {
    use PropertyId as P;
    let id =
        P::from_number(reader.variable()?).ok_or(DecodeError::malformed("a property identifier is not defined"))?;
    Ok(match id {
        P::UserProperty => Property::User(reader.text()?, reader.text()?),
        P::MessageExpiryInterval | P::SessionExpiryInterval | P::WillDelayInterval => {
            Property::Number(id, reader.u32()?)
        }
        P::MaximumPacketSize => Property::Number(id, not_zero(reader.u32()?)?),
        P::ReceiveMaximum => Property::Number(id, not_zero(u32::from(reader.u16()?))?),
        P::ServerKeepAlive | P::TopicAliasMaximum | P::TopicAlias => Property::Number(id, u32::from(reader.u16()?)),
        P::SubscriptionIdentifier => Property::Number(id, not_zero(reader.variable()?)?),
        P::PayloadFormatIndicator
        | P::RequestProblemInformation
        | P::RequestResponseInformation
        | P::MaximumQoS
        | P::RetainAvailable
        | P::WildcardSubscriptionAvailable
        | P::SubscriptionIdentifierAvailable
        | P::SharedSubscriptionAvailable => match reader.u8()? {
            value @ 0..=1 => Property::Number(id, u32::from(value)),
            _ => return Err(DecodeError::protocol("a property that is 0 or 1 has another value")),
        },
        P::CorrelationData | P::AuthenticationData => Property::Binary(id, reader.binary()?),
        P::ContentType
        | P::ResponseTopic
        | P::AssignedClientIdentifier
        | P::AuthenticationMethod
        | P::ResponseInformation
        | P::ServerReference
        | P::ReasonString => Property::Text(id, reader.text()?),
    })
}

const fn not_zero(value: u32) -> Result<u32, DecodeError> {
    match value {
        0 => Err(DecodeError::protocol("a property that must not be 0 is 0")),
        value => Ok(value),
    }
}

/// Properties under construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PropertyBuffer {
    bytes: Vec<u8>,
}

impl PropertyBuffer {
    /// Removes all properties; keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Appends a property; a number outside the range of its type is cut to it.
    ///
    /// # Errors
    /// A text or binary value is longer than 65,535 bytes: nothing was appended.
    pub fn push(&mut self, property: Property<'_>) -> Result<(), EncodeError> {
        match property {
            Property::Number(id, value) => self.push_number(id, value),
            Property::Text(id, text) => self.push_field(id, text.as_bytes())?,
            Property::Binary(id, bytes) => self.push_field(id, bytes)?,
            Property::User(name, value) => {
                field_size(name.as_bytes())?;
                field_size(value.as_bytes())?;
                self.bytes.push(PropertyId::UserProperty as u8);
                put_field(&mut self.bytes, name.as_bytes());
                put_field(&mut self.bytes, value.as_bytes());
            }
        }
        Ok(())
    }

    fn push_field(&mut self, id: PropertyId, field: &[u8]) -> Result<(), EncodeError> {
        field_size(field)?;
        self.bytes.push(id as u8);
        put_field(&mut self.bytes, field);
        Ok(())
    }

    fn push_number(&mut self, id: PropertyId, value: u32) {
        use PropertyId as P;
        self.bytes.push(id as u8);
        match id {
            P::MessageExpiryInterval | P::SessionExpiryInterval | P::WillDelayInterval | P::MaximumPacketSize => {
                self.bytes.extend_from_slice(&value.to_be_bytes());
            }
            P::ReceiveMaximum | P::ServerKeepAlive | P::TopicAliasMaximum | P::TopicAlias => {
                put_u16(&mut self.bytes, value.min(u32::from(u16::MAX)) as u16);
            }
            P::SubscriptionIdentifier => {
                put_variable(&mut self.bytes, (value as usize).min(super::fixed::REMAINING_LENGTH_MAX));
            }
            _ => self.bytes.push(value.min(u32::from(u8::MAX)) as u8),
        }
    }

    /// The properties so far.
    #[must_use]
    pub fn as_properties(&self) -> Properties<'_> {
        Properties { bytes: &self.bytes }
    }

    /// The user properties so far.
    #[must_use]
    pub fn as_user(&self) -> UserProperties<'_> {
        UserProperties { bytes: &self.bytes }
    }
}
