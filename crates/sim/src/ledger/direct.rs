//! Anycast and multicast addresses (`docs/contracts.md` 7): the outcome of a message is that of its
//! consumers.

use enmasse_router::core::AddressKind;

use super::{Ledger, LinkNumber, Message, MessageNumber, OutcomeKind, Progress, covers};

/// The copy of a message at one consumer.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) to: LinkNumber,
    pub(super) outcome: Option<OutcomeKind>,
}

impl Ledger {
    pub(super) fn received_direct(&mut self, to: LinkNumber, number: MessageNumber, settled: bool, bytes: &[u8]) {
        let message = &mut self.messages[number];
        let link = &mut self.links[to];
        let mut found = Vec::new();
        let mut expect = |right: bool, what: &str| {
            if !right {
                found.push(format!("message {number} at link {to}: {what}"));
            }
        };
        expect(message.bytes == bytes, "not the bytes that were sent");
        expect(message.settled == settled, "not settled as it was sent");
        expect(message.progress != Progress::Sending, "it is not sent in full yet");
        expect(link.route.space == message.route.space, "crossed into another address space");
        expect(covers(&link.route.name, &message.route.name), "its name is not the one asked for");
        expect(!message.copies.iter().any(|copy| copy.to == to), "received twice");
        let single = message.route.kind == Some(AddressKind::Anycast);
        expect(!single || message.copies.is_empty(), "anycast reached two consumers");
        let last = link.last.insert((message.from, message.route.name.clone()), number);
        expect(single || last.is_none_or(|last| last < number), "out of order");
        message.copies.push(Copy { to, outcome: None });
        for violation in found {
            self.violation(violation);
        }
    }

    /// Checks whether the outcome of a message is valid for its address.
    pub(super) fn check_outcome(&self, number: MessageNumber, outcome: OutcomeKind) -> Result<(), String> {
        let message = &self.messages[number];
        match message.route.temporary {
            Some(creator) => self.check_temporary_queue_outcome(creator, outcome),
            None if message.route.is_stored() => match outcome {
                OutcomeKind::Accepted => Ok(()),
                OutcomeKind::Refused if message.bytes.is_empty() => Ok(()),
                _ => Err("the address stores messages".to_owned()),
            },
            None => self.check_consumer_outcomes(message, outcome),
        }
    }

    /// A temporary queue stores messages, with or without consumers, as long as the link that
    /// created it is attached.
    fn check_temporary_queue_outcome(&self, creator: LinkNumber, outcome: OutcomeKind) -> Result<(), String> {
        match outcome {
            OutcomeKind::Accepted | OutcomeKind::Full => Ok(()),
            _ if self.links[creator].is_attached() => Err("the temporary queue is there".to_owned()),
            _ => Ok(()),
        }
    }

    /// Checks whether an outcome follows from those of the consumers. Outcomes of consumers whose
    /// link has ended may not have arrived.
    fn check_consumer_outcomes(&self, message: &Message, outcome: OutcomeKind) -> Result<(), String> {
        let answered = |outcome: OutcomeKind| message.copies.iter().any(|copy| copy.outcome == Some(outcome));
        // The outcome of an ended link, or for a deleted address, may have arrived too late.
        let arrived = |copy: &Copy| self.links[copy.to].is_attached() && !message.route.may_be_deleted;
        let certainly =
            |outcome: OutcomeKind| message.copies.iter().any(|copy| copy.outcome == Some(outcome) && arrived(copy));
        let someone_left = message.copies.iter().any(|copy| !self.links[copy.to].is_attached());
        let known = message.route.kind.is_some();
        let anycast = message.route.kind == Some(AddressKind::Anycast);
        match outcome {
            OutcomeKind::Refused if known && !message.route.may_be_deleted => Err("the address is there".to_owned()),
            OutcomeKind::Refused if !message.copies.is_empty() => Err("a consumer has it".to_owned()),
            OutcomeKind::Refused => Ok(()),
            OutcomeKind::Full => Err("nothing is stored".to_owned()),
            _ if !known => Err("there is no such address".to_owned()),
            OutcomeKind::Accepted if !answered(OutcomeKind::Accepted) => Err("no consumer accepted it".to_owned()),
            OutcomeKind::Rejected if !answered(OutcomeKind::Rejected) => Err("no consumer rejected it".to_owned()),
            OutcomeKind::Modified if !answered(OutcomeKind::Modified) => Err("no consumer modified it".to_owned()),
            OutcomeKind::Accepted if certainly(OutcomeKind::Rejected) => Err("a consumer rejected it".to_owned()),
            OutcomeKind::Failed | OutcomeKind::Modified | OutcomeKind::Released
                if certainly(OutcomeKind::Accepted) || certainly(OutcomeKind::Rejected) =>
            {
                Err("a consumer gave another outcome".to_owned())
            }
            OutcomeKind::Released if certainly(OutcomeKind::Modified) => Err("a consumer modified it".to_owned()),
            OutcomeKind::Failed if message.route.may_be_deleted => Ok(()),
            OutcomeKind::Failed
                if anycast && !message.copies.is_empty() && !someone_left && !answered(OutcomeKind::Failed) =>
            {
                Err("its consumer is still there".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Settled messages of a treatment that no consumer received, from links that are still
    /// attached.
    #[must_use]
    pub(crate) fn undelivered(&self, kind: AddressKind) -> Vec<MessageNumber> {
        let lost = |message: &Message| {
            // The anonymous terminus grants credit even without a consumer.
            let promised = self.links[message.from].is_attached() && self.links[message.from].route.kind == Some(kind);
            promised && message.settled && message.progress == Progress::Sent && message.copies.is_empty()
        };
        (0..self.messages.len()).filter(|number| lost(&self.messages[*number])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Route;
    use super::*;
    use crate::message::{self, Content};

    fn route(name: &str, kind: AddressKind) -> Route {
        Route { space: 0, name: name.to_owned(), kind: Some(kind), may_be_deleted: false, temporary: None }
    }

    fn bytes(number: MessageNumber) -> Vec<u8> {
        message::write(number, "a", None, 10)
    }

    fn receive(ledger: &mut Ledger, to: LinkNumber, number: MessageNumber, settled: bool, bytes: &[u8]) {
        let content = Content::read(&self::bytes(number)).expect("a message");
        ledger.received(to, &content, settled, bytes);
    }

    /// A ledger in which link 0 has sent message 0 and the links 1 to `consumers` have received it.
    fn delivered(kind: AddressKind, consumers: usize) -> Ledger {
        let mut ledger = Ledger::default();
        for client in 0..=2 {
            ledger.attached(client, route("a", kind), None);
        }
        let message = ledger.sends(0, route("a", kind), false, None);
        ledger.contains(message, bytes(message));
        ledger.progress(message, Progress::Sent);
        for to in 1..=consumers {
            receive(&mut ledger, to, message, false, &bytes(message));
        }
        ledger
    }

    #[test]
    fn an_outcome_that_no_consumer_gave_is_a_violation() {
        for (outcome, violated) in [
            (OutcomeKind::Accepted, true),
            (OutcomeKind::Rejected, true),
            (OutcomeKind::Modified, true),
            (OutcomeKind::Failed, true),
            (OutcomeKind::Released, false),
        ] {
            let mut ledger = delivered(AddressKind::Anycast, 1);
            ledger.sender_outcome(0, outcome, false);
            assert_eq!(ledger.first_violation().is_some(), violated, "{outcome:?}");
        }
    }

    #[test]
    fn sender_outcome_matches_the_consumer_and_arrives_once() {
        for outcome in [
            OutcomeKind::Accepted,
            OutcomeKind::Rejected,
            OutcomeKind::Modified,
            OutcomeKind::Released,
            OutcomeKind::Failed,
        ] {
            let mut ledger = delivered(AddressKind::Anycast, 1);
            ledger.consumer_outcome(1, 0, outcome, None);
            ledger.sender_outcome(0, outcome, false);
            assert_eq!(ledger.first_violation(), None, "{outcome:?}");
            ledger.sender_outcome(0, outcome, false);
            assert!(ledger.first_violation().is_some(), "twice");
        }
    }

    #[test]
    fn delivery_of_a_detached_consumer_may_be_reported_as_failed() {
        let mut ledger = delivered(AddressKind::Anycast, 1);
        ledger.consumer_outcome(1, 0, OutcomeKind::Accepted, None);
        ledger.detached(1);
        ledger.sender_outcome(0, OutcomeKind::Failed, false);
        assert_eq!(ledger.first_violation(), None);
    }

    #[test]
    fn multicast_sender_gets_the_worst_outcome() {
        let mut ledger = delivered(AddressKind::Multicast, 2);
        ledger.consumer_outcome(1, 0, OutcomeKind::Accepted, None);
        ledger.consumer_outcome(2, 0, OutcomeKind::Rejected, None);
        ledger.sender_outcome(0, OutcomeKind::Accepted, false);
        assert!(ledger.first_violation().is_some());
    }

    #[test]
    fn only_messages_in_flight_at_a_deletion_may_end_differently() {
        for (changed, violated) in [(None, true), (Some("b"), true), (Some("a"), false)] {
            let mut ledger = delivered(AddressKind::Anycast, 1);
            ledger.consumer_outcome(1, 0, OutcomeKind::Accepted, None);
            if let Some(address) = changed {
                ledger.changes(0, address);
            }
            ledger.sender_outcome(0, OutcomeKind::Failed, false);
            assert_eq!(ledger.first_violation().is_some(), violated, "{changed:?}");
        }
        let mut ledger = delivered(AddressKind::Anycast, 1);
        ledger.changes(0, "a");
        ledger.plan_applied(|_, _| true);
        let later = ledger.sends(0, route("a", AddressKind::Anycast), false, None);
        ledger.sender_outcome(later, OutcomeKind::Refused, false);
        assert!(ledger.first_violation().is_some(), "it is available again, as every client knows");
    }

    #[test]
    fn altered_duplicate_or_unknown_delivery_is_a_violation() {
        assert!(delivered(AddressKind::Anycast, 2).first_violation().is_some(), "two consumers");
        assert_eq!(delivered(AddressKind::Multicast, 2).first_violation(), None);
        for wrong in ["settled", "bytes", "twice", "unknown"] {
            let mut ledger = delivered(AddressKind::Multicast, 1);
            let number = if wrong == "unknown" { 7 } else { 0 };
            let to = if wrong == "twice" { 1 } else { 2 };
            let bytes = self::bytes(if wrong == "bytes" { 8 } else { number });
            receive(&mut ledger, to, number, wrong == "settled", &bytes);
            assert!(ledger.first_violation().is_some(), "{wrong}");
        }
    }

    #[test]
    fn message_without_outcome_is_unresolved_until_its_link_ends() {
        let mut ledger = delivered(AddressKind::Anycast, 1);
        assert_eq!(ledger.unresolved(), [0]);
        ledger.detached(0);
        assert_eq!(ledger.unresolved(), [0; 0]);
    }
}
