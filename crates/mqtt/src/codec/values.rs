//! Small values that many packets share.

use std::num::NonZeroU16;

/// The version of the protocol that a CONNECT selects (3.1.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// MQTT 3.1: protocol name `MQIsdp`, level 3
    V31,
    /// MQTT 3.1.1: protocol name `MQTT`, level 4
    V311,
    /// MQTT 5.0: protocol name `MQTT`, level 5
    V5,
}

impl Version {
    /// The protocol level of CONNECT.
    #[must_use]
    pub const fn level(self) -> u8 {
        match self {
            Self::V31 => 3,
            Self::V311 => 4,
            Self::V5 => 5,
        }
    }

    /// The protocol name of CONNECT.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V31 => "MQIsdp",
            Self::V311 | Self::V5 => "MQTT",
        }
    }

    /// Whether packets have properties and reason codes.
    #[must_use]
    pub const fn is_v5(self) -> bool {
        matches!(self, Self::V5)
    }
}

/// Quality of service (4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QoS {
    /// QoS 0
    #[default]
    AtMostOnce = 0,
    /// QoS 1
    AtLeastOnce = 1,
    /// QoS 2
    ExactlyOnce = 2,
}

impl QoS {
    /// From its number; 3 does not exist [5: 3.3.1-4].
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::AtMostOnce,
            1 => Self::AtLeastOnce,
            2 => Self::ExactlyOnce,
            _ => return None,
        })
    }
}

/// A packet identifier; never zero [5: 2.2.1-3].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(NonZeroU16);

impl PacketId {
    /// `None` for zero.
    #[must_use]
    pub const fn new(id: u16) -> Option<Self> {
        match NonZeroU16::new(id) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }

    /// 1 to 65,535.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}
