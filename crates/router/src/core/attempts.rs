//! The result of a delivery whose consumer gave no outcome: the one table of
//! `docs/decisions/0047-delivery-attempts.md`.

use enmasse_amqp::types::{Modified, Outcome};

use super::AddressKind;

/// Why a delivery returns without an outcome of its consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// the client detached the link, ended its session or closed the connection
    ByClient,
    /// the node ended the link: a right was revoked, an address changed, the node shuts down
    ByNode,
    /// the connection was lost: the socket failed, the client was silent or violated the protocol
    Lost,
    /// a link that could be resumed was not, in time
    NotResumed,
    /// the transaction in which the consumer had settled the delivery was rolled back
    RolledBack,
}

/// The result of such a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// no attempt is counted: a stored message waits again, a producer receives `released`
    Released,
    /// the delivery failed: an attempt of a stored message, `modified(delivery-failed)` to a
    /// producer
    Failed,
}

impl Ending {
    /// The verdict on one delivery; `oldest`: its link holds no older one that is unsettled.
    ///
    /// A consumer that works through its messages in turn was at the oldest one, so that is the one
    /// that may have ended it. Its client never saw prefetched messages. The message of a direct
    /// address is not stored, so its producer learns that it may have been processed.
    #[must_use]
    pub const fn verdict(self, kind: AddressKind, oldest: bool) -> Verdict {
        match (self, kind.stores()) {
            (Self::ByClient | Self::ByNode, _) => Verdict::Released,
            (Self::Lost | Self::NotResumed, true) if !oldest => Verdict::Released,
            (Self::Lost | Self::NotResumed | Self::RolledBack, _) => Verdict::Failed,
        }
    }
}

impl Verdict {
    pub(super) fn outcome(self) -> Outcome {
        match self {
            Self::Released => Outcome::Released,
            Self::Failed => Outcome::Modified(Box::new(Modified { delivery_failed: true, ..Modified::default() })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Failed, Released};
    use super::*;

    #[test]
    fn every_ending_has_its_verdict_for_stored_and_for_direct_addresses() {
        // the oldest of a stored address, another one, the oldest of a direct address, another one
        let table = [
            (Ending::ByClient, [Released, Released, Released, Released]),
            (Ending::ByNode, [Released, Released, Released, Released]),
            (Ending::Lost, [Failed, Released, Failed, Failed]),
            (Ending::NotResumed, [Failed, Released, Failed, Failed]),
            (Ending::RolledBack, [Failed, Failed, Failed, Failed]),
        ];
        for (ending, expected) in table {
            for stored in [AddressKind::Queue, AddressKind::Topic, AddressKind::Stream] {
                let found = [true, false].map(|oldest| ending.verdict(stored, oldest));
                assert_eq!(found, expected[..2], "{ending:?} {stored:?}");
            }
            for direct in [AddressKind::Anycast, AddressKind::Multicast] {
                let found = [true, false].map(|oldest| ending.verdict(direct, oldest));
                assert_eq!(found, expected[2..], "{ending:?} {direct:?}");
            }
        }
    }
}
