//! Incoming messages of stored addresses: collects the parts of a message, then passes the whole
//! message to the treatment of the address. A refusal answers the producer.

use enmasse_amqp::codec::envelope::Envelope;
use enmasse_amqp::types::{Error, Outcome, condition};
use enmasse_journal::log::AssembledBody;
use enmasse_journal::queue::{Group, Head, Priority, Refusal, Seq};

use super::arena::Key;
use super::arriving::{Arriving, Assembly, PendingDuplicate, WholeBody, address_deleted, refused};
use super::message::SettlementTarget;
use super::outcome::Join;
use super::producer::Incoming;
use super::received::{Account, share_used_up};
use super::treatment::Treatment;
use super::{Arrival, AttachmentId, Links, Router, TransactionId};

impl Router {
    /// Like [`Router::deliver`], for a delivery within a transaction (4.4.1). Any of its transfers
    /// may name the transaction. The message is held until the discharge. Direct addresses refuse
    /// postings. Every refusal makes the transaction rollback-only.
    pub fn post_delivery(
        &mut self,
        attachment: AttachmentId,
        transaction: TransactionId,
        arrival: Arrival<'_>,
        links: &mut impl Links,
    ) {
        let Some(from) = self.attachments.producer(attachment) else {
            return self.post_deleted(attachment, transaction, &arrival, links);
        };
        let producer = &mut self.producers[from];
        let stores = self.addresses[producer.address].declared.kind.stores();
        if arrival.first && !arrival.aborted {
            if !stores {
                return self.refuse_direct(from, transaction, &arrival, links);
            }
            producer.transaction = Some(transaction);
            self.note_posting(from, true, links);
        } else if let Some(assembly) = producer.assembly.as_mut() {
            assembly.arriving.transaction.get_or_insert(transaction);
        } else if !arrival.aborted {
            match producer.incoming {
                Incoming::Message(message) => {
                    return self.reject_late_posting(from, message, transaction, &arrival, links);
                }
                Incoming::Discarded => {
                    let what = "a message of the transaction was refused before its last transfer";
                    self.mark_rollback_only(Some(transaction), &Error::new(condition::PRECONDITION_FAILED, what));
                }
                Incoming::Nothing | Incoming::Assembly => {}
            }
        }
        self.deliver(attachment, arrival, links);
    }

    /// Releases a posting whose address was deleted.
    #[cold]
    fn post_deleted(
        &mut self,
        attachment: AttachmentId,
        transaction: TransactionId,
        arrival: &Arrival<'_>,
        links: &mut impl Links,
    ) {
        if !arrival.aborted {
            self.mark_rollback_only(Some(transaction), &address_deleted());
        }
        self.release_arrival(attachment, arrival, Some(transaction), links);
    }

    /// Rejects a delivery to a direct address that a later transfer assigns to a transaction, after
    /// consumers have received its first parts.
    fn reject_late_posting(
        &mut self,
        from: Key,
        message: Key,
        transaction: TransactionId,
        arrival: &Arrival<'_>,
        links: &mut impl Links,
    ) {
        let settlement = self.settlement_of(message);
        self.abort_incoming(from, links);
        if arrival.more {
            self.producers[from].incoming = Incoming::Discarded;
        }
        let at = self.producers[from].address;
        let rejected = Outcome::Rejected(Some(Box::new(not_transactional())));
        self.answer_posting(settlement, at, Some(transaction), &rejected, links);
    }

    /// The producer's delivery of a message, unless it was sent settled.
    pub(super) fn settlement_of(&self, message: Key) -> SettlementTarget {
        match self.direct.messages[message].settlement {
            SettlementTarget::Join(join) | SettlementTarget::Optional(join) => {
                self.direct.joins.get(join).map_or(SettlementTarget::Nothing, Join::settlement)
            }
            settlement => settlement,
        }
    }

    fn refuse_direct(&mut self, from: Key, transaction: TransactionId, arrival: &Arrival<'_>, links: &mut impl Links) {
        self.abort_incoming(from, links);
        if arrival.more {
            self.producers[from].incoming = Incoming::Discarded;
        }
        let arriving = Arriving { transaction: Some(transaction), ..self.arriving(from, arrival) };
        self.refuse(from, &arriving, not_transactional(), links);
    }

    fn arriving(&self, from: Key, arrival: &Arrival<'_>) -> Arriving {
        let (attachment, delivery_id, message_format) =
            (self.producers[from].attachment, arrival.delivery_id, arrival.message_format);
        let settlement = if arrival.settled {
            SettlementTarget::Nothing
        } else {
            SettlementTarget::Producer { attachment, delivery_id }
        };
        Arriving { settlement, message_format, transaction: None }
    }

    /// Begins a delivery to a stored address, which receives whole messages.
    pub(super) fn deliver_whole(&mut self, from: Key, arrival: &Arrival<'_>, links: &mut impl Links) {
        let transaction = self.producers[from].transaction.take();
        if transaction.is_none() {
            self.note_posting(from, false, links);
        }
        let arriving = Arriving { transaction, ..self.arriving(from, arrival) };
        if arrival.more {
            self.producers[from].incoming = Incoming::Assembly;
            return self.gather(
                from,
                Assembly { arriving, account: Account::NONE, body: AssembledBody::default() },
                arrival,
                links,
            );
        }
        self.receive_whole(from, &arriving, WholeBody::Read(arrival.payload), links);
    }

    /// Notes whether a producer sends within a transaction. Such a producer is not held back by a
    /// full queue: it could then never discharge the transaction that makes room.
    #[inline]
    fn note_posting(&mut self, from: Key, in_transaction: bool, links: &mut impl Links) {
        let producer = &mut self.producers[from];
        if std::mem::replace(&mut producer.in_transaction, in_transaction) != in_transaction {
            let bytes = producer.waiting_bytes;
            self.update_producer_back_pressure(from, bytes, links);
        }
    }

    /// Processes a later part of a message.
    pub(super) fn assemble(&mut self, from: Key, arrival: &Arrival<'_>, links: &mut impl Links) {
        let Some(assembly) = self.take_assembly(from) else { return };
        if arrival.aborted {
            return self.taken(from, 1);
        }
        self.gather(from, *assembly, arrival, links);
    }

    /// Adds a part to the received parts of a message.
    fn gather(&mut self, from: Key, mut assembly: Assembly, arrival: &Arrival<'_>, links: &mut impl Links) {
        let bytes = assembly.body.body().len() + arrival.payload.len();
        let address = &self.addresses[self.producers[from].address];
        let (account, message_bytes) = (address.account, address.treatment.message_bytes());
        let refusal = if bytes > message_bytes as usize {
            Some(refused(Refusal::MessageSize(message_bytes)))
        } else if !self.received.may_hold(account, bytes) {
            Some(share_used_up())
        } else {
            None
        };
        if let Some(error) = refusal {
            if arrival.more {
                self.producers[from].incoming = Incoming::Discarded;
            }
            return self.refuse(from, &assembly.arriving, error, links);
        }
        assembly.body.push(arrival.payload);
        if arrival.more {
            assembly.account = account;
            self.received.hold(account, bytes);
            self.producers[from].assembly = Some(Box::new(assembly));
        } else {
            let Assembly { arriving, body, .. } = &mut assembly;
            self.receive_whole(from, arriving, WholeBody::Assembled(body), links);
        }
    }

    /// Removes the received parts of an incomplete message from its producer.
    pub(super) fn take_assembly(&mut self, from: Key) -> Option<Box<Assembly>> {
        let producer = self.producers.get_mut(from)?;
        let assembly = producer.assembly.take()?;
        self.received.release(assembly.account, assembly.body.body().len());
        Some(assembly)
    }

    /// Releases an incomplete message because the address `at` is deleted.
    pub(super) fn release_assembly(&mut self, at: Key, assembly: &Assembly, links: &mut impl Links) {
        let Arriving { settlement, transaction, .. } = assembly.arriving;
        self.mark_rollback_only(transaction, &address_deleted());
        self.answer_posting(settlement, at, transaction, &Outcome::Released, links);
    }

    /// Drops the received parts of a producer whose link ended. An incomplete posting makes its
    /// transaction rollback-only.
    pub(super) fn drop_assembly(&mut self, from: Key) {
        if let Some(assembly) = self.take_assembly(from) {
            let what = "a link ended before the last transfer of a message";
            let cause = Error::new(condition::PRECONDITION_FAILED, what);
            self.mark_rollback_only(assembly.arriving.transaction, &cause);
        }
    }

    /// Removes and returns the settlement targets at an address that wait for uncommitted messages:
    /// those of pending duplicates, at a stream also those of its messages.
    pub(super) fn take_waiting_settlements(&mut self, at: Key) -> Vec<SettlementTarget> {
        let address = &mut self.addresses[at];
        match &mut address.treatment {
            Treatment::Queue(queue) => queue.take_pending_duplicates().map(|duplicate| duplicate.settlement).collect(),
            Treatment::Stream(stream) => {
                stream.release_waiting_bytes(address.account, &mut self.received);
                stream.take_settlements()
            }
            Treatment::Anycast(_) | Treatment::Multicast(_) | Treatment::Topic(_) | Treatment::Closed => Vec::new(),
        }
    }

    /// Refuses a message, and all later ones of a numbered producer until its link attaches again.
    /// A refused posting makes its transaction rollback-only.
    pub(super) fn refuse(&mut self, from: Key, arriving: &Arriving, error: Error, links: &mut impl Links) {
        let (at, was_halted) = (self.producers[from].address, self.producers[from].halted);
        self.halt_numbered(from);
        if arriving.settlement == SettlementTarget::Nothing {
            self.addresses[at].stats.dropped += 1;
        }
        self.mark_rollback_only(arriving.transaction, &error);
        let outcome = if was_halted { Outcome::Released } else { Outcome::Rejected(Some(Box::new(error))) };
        self.answer_posting(arriving.settlement, at, arriving.transaction, &outcome, links);
        self.taken(from, 1);
    }

    /// Passes a whole message to the treatment of its address.
    fn receive_whole(&mut self, from: Key, arriving: &Arriving, whole: WholeBody<'_>, links: &mut impl Links) {
        let body = whole.bytes();
        if self.producers[from].halted {
            let what = "an earlier message of this numbered producer was rejected: attach the link again";
            return self.refuse(from, arriving, Error::new(condition::PRECONDITION_FAILED, what), links);
        }
        match self.addresses[self.producers[from].address].treatment {
            Treatment::Queue(_) => self.receive_into_queue(from, arriving, whole, links),
            Treatment::Topic(_) => self.receive_into_topic(from, arriving, body, links),
            Treatment::Stream(_) => self.receive_into_stream(from, arriving, body, links),
            Treatment::Anycast(_) | Treatment::Multicast(_) | Treatment::Closed => {
                debug_assert!(false, "only stored addresses receive whole messages");
            }
        }
    }

    /// Answers the pending duplicates of a message that is committed or refused.
    pub(super) fn answer_pending_duplicates(
        &mut self,
        at: Key,
        original: Seq,
        outcome: &Outcome,
        links: &mut impl Links,
    ) {
        let queue = self.addresses.find_queue_mut(at);
        for pending_duplicate in queue.map(|queue| queue.duplicates_of(original)).unwrap_or_default() {
            self.answer_pending_duplicate(at, &pending_duplicate, outcome, links);
        }
    }

    /// Answers one pending duplicate with the outcome of its original.
    pub(super) fn answer_pending_duplicate(
        &mut self,
        at: Key,
        pending_duplicate: &PendingDuplicate,
        outcome: &Outcome,
        links: &mut impl Links,
    ) {
        if let Some(producer) = self.producers.get_mut(pending_duplicate.producer) {
            producer.waiting -= 1;
            self.taken(pending_duplicate.producer, 1);
        }
        self.answer(pending_duplicate.settlement, at, outcome, links);
    }

    /// A message occupies its producer's window until the journal has stored it.
    pub(super) fn take_window(&mut self, from: Key, bytes: usize, links: &mut impl Links) {
        let producer = &mut self.producers[from];
        producer.waiting += 1;
        let waiting = producer.waiting_bytes + bytes;
        self.received.add(self.addresses[producer.address].account, 1, bytes);
        self.update_producer_back_pressure(from, waiting, links);
    }

    /// The properties of a message that its envelope contains, except for its id, which is read
    /// only where duplicates are detected.
    #[inline]
    pub(super) fn head_of_envelope(&self, envelope: &Envelope<'_>, bytes: usize, producer: Option<&str>) -> Head {
        let due = envelope.delivery_time_ms.and_then(|at| u64::try_from(at).ok());
        let delayed = envelope.delivery_delay_ms.map(|delay| self.now_ms.saturating_add(delay));
        let numbered = producer.zip(envelope.producer_sequence);
        Head {
            size_bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            priority: Priority::new(envelope.header.priority),
            durable: envelope.header.durable,
            ttl_ms: envelope.header.ttl.map(u64::from),
            absolute_expiry: envelope.absolute_expiry_ms.map(|at| u64::try_from(at).unwrap_or(0)),
            due: due.or(delayed),
            delivery_count: u16::try_from(envelope.header.delivery_count).unwrap_or(u16::MAX),
            group: envelope.group_id.map(|group| Group {
                digest: self.storage.digests.short(group.as_bytes()),
                sequence: envelope.group_sequence.unwrap_or(0),
            }),
            key: None,
            message_id: None,
            producer: numbered.map(|(name, number)| (self.storage.digests.long(name.as_bytes()), number)),
        }
    }
}

fn not_transactional() -> Error {
    let what = "only addresses that store messages take part in transactions: send it outside of the transaction";
    Error::new(condition::NOT_IMPLEMENTED, what)
}
