//! The result of a delivery that ends without an outcome of its consumer: the one table of
//! `docs/decisions/0047-delivery-attempts.md`.

use enmasse_amqp::types::{Modified, Outcome};

use super::AddressKind;

/// Why a delivery ended without an outcome of its consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// the client detached the link, ended its session or closed the connection
    ByClient,
    /// the node ended the link: a right was revoked, an address changed, the node shuts down
    ByNode,
    /// the connection was lost: the socket failed, the client was silent or violated the protocol
    Lost,
    /// a resumable link was not resumed in time
    NotResumed,
    /// the transaction in which the consumer had settled the delivery was rolled back
    RolledBack,
}

/// The result of a delivery that ended without an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// no attempt is counted: a stored message is available again, a producer receives `released`
    Released,
    /// an attempt is counted for a stored message; a producer receives `modified(delivery-failed)`
    Failed,
}

impl Ending {
    /// The verdict on one delivery. `oldest`: it is the oldest unsettled one of its link.
    ///
    /// A consumer that processes its messages in order was processing the oldest one, so only that
    /// one may have caused the end. The client never processed the prefetched ones. The message of
    /// a direct address is not stored, so its producer must learn that it may have been processed.
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
        // columns: oldest of a stored address, other of a stored one, oldest of a direct one, other
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
