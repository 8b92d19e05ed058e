//! A message on its way from the home of one address to that of another.

use enmasse_journal::queue::Head;

use super::AddressKey;
use super::ids::Joint;

/// A message for an address with another home.
#[derive(Clone, Copy, Debug)]
pub struct Handover<'a> {
    /// the group of the two homes
    pub joint: Joint,
    /// the space of both addresses
    pub space: u32,
    /// the target
    pub to: AddressKey,
    /// why it moves
    pub reason: HandoverReason,
    /// the encoded message
    pub message: &'a [u8],
}

/// Why a message is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoverReason {
    /// It is a dead letter, or expired: it is stored in a full queue as well, and its lifetime and
    /// schedule applied to its origin only.
    Diverted,
    /// A message of a topic is to be retained: it takes the place of the one with its name, or
    /// (`removes`) removes that.
    Retained {
        /// it has no content
        removes: bool,
    },
    /// An administrator moves or copies it: it keeps its expiry and delivery times, in milliseconds
    /// since 1970, and a full address refuses it.
    Operation {
        /// when it expires
        expires: Option<u64>,
        /// when it is delivered
        due: Option<u64>,
    },
}

impl HandoverReason {
    /// The properties of the message for the queue that stores it.
    pub(in crate::core) fn apply(self, head: &mut Head) {
        match self {
            Self::Diverted => (head.ttl_ms, head.absolute_expiry, head.due) = (None, None, None),
            // It is stored as it came.
            Self::Retained { .. } => {}
            Self::Operation { expires, due } => {
                // It must not be dropped as a duplicate of itself.
                (head.ttl_ms, head.absolute_expiry, head.message_id) = (None, expires, None);
                head.due = due;
            }
        }
    }
}
