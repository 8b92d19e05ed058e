//! Messages that have come from a producer and are not in an address yet.

use enmasse_amqp::codec::envelope::{Envelope, envelope};
use enmasse_amqp::types::{Error, condition};
use enmasse_journal::log::AssembledBody;
use enmasse_journal::queue::Refusal;

use super::TransactionId;
use super::arena::Key;
use super::message::SettlementTarget;
use super::received::Account;

/// What is known of a message before its bytes are parsed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arriving {
    pub(super) settlement: SettlementTarget,
    pub(super) message_format: u32,
    /// its transaction
    pub(super) transaction: Option<TransactionId>,
}

impl Arriving {
    /// The same message outside of any transaction.
    pub(super) fn without_transaction(&self) -> Self {
        Self { transaction: None, ..*self }
    }

    pub(super) fn is_posting(&self) -> bool {
        self.transaction.is_some()
    }

    /// The envelope of its message.
    pub(super) fn read<'a>(&self, body: &'a [u8]) -> Result<Envelope<'a>, Error> {
        read(self.message_format, body)
    }

    /// Whether it has the AMQP message format and is part of no transaction.
    #[inline]
    pub(super) fn is_standard_and_untransacted(&self) -> bool {
        self.message_format == 0 && self.transaction.is_none()
    }
}

/// An incomplete message.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) arriving: Arriving,
    /// the account that its bytes are counted for
    pub(super) account: Account,
    pub(super) body: AssembledBody,
}

/// The bytes of a whole message.
pub(super) enum WholeBody<'a> {
    /// received in one transfer
    Read(&'a [u8]),
    /// received in parts; the buffer may be moved out
    Assembled(&'a mut AssembledBody),
}

impl WholeBody<'_> {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Assembled(body) => body.body(),
        }
    }
}

/// A duplicate of an uncommitted message: it receives the outcome of its original. The producer's
/// window bounds their number.
#[derive(Debug)]
pub(super) struct PendingDuplicate {
    pub(super) producer: Key,
    pub(super) settlement: SettlementTarget,
}

/// The error of a posting whose address was deleted.
pub(super) fn address_deleted() -> Error {
    Error::new(condition::RESOURCE_DELETED, "an address it sends to was deleted")
}

/// Reads the envelope of a message.
#[inline]
pub(super) fn read(message_format: u32, body: &[u8]) -> Result<Envelope<'_>, Error> {
    if message_format != 0 {
        let what = format!("message-format {message_format} cannot be stored: use 0, the format of AMQP (3.2)");
        return Err(Error::new(condition::NOT_IMPLEMENTED, what));
    }
    envelope(body).map_err(|error| {
        let what = error.to_string();
        Error::new(error.condition, what)
    })
}

/// The error of a message that is refused.
pub(super) fn refused(refusal: Refusal) -> Error {
    let condition = match refusal {
        Refusal::MessageSize(_) | Refusal::LargerThanQueue(_) => condition::MESSAGE_SIZE_EXCEEDED,
        _ => condition::RESOURCE_LIMIT_EXCEEDED,
    };
    Error::new(condition, refusal.to_string())
}
