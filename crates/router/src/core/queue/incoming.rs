//! Incoming messages of a queue.

use enmasse_amqp::types::{Error, Outcome};
use enmasse_journal::queue::{Admission, Head, Stored as Admitted};

use smallvec::smallvec;

use super::super::arena::Key;
use super::super::arriving::{Arriving, PendingDuplicate, WholeBody, read, refused};
use super::super::message::SettlementTarget;
use super::super::posting::PostingTreatment;
use super::super::storage::{Commit, Completion};
use super::super::{Links, Router};

impl Router {
    #[inline]
    pub(in crate::core) fn receive_into_queue(
        &mut self,
        from: Key,
        arriving: &Arriving,
        whole: WholeBody<'_>,
        links: &mut impl Links,
    ) {
        let body = whole.bytes();
        if self.keep_plain(from, arriving, body, links) {
            return;
        }
        // The head is used by reference: it is too large to move.
        match &self.head_for_queue(from, arriving.message_format, body) {
            Ok(head) if arriving.transaction.is_some() => {
                self.add_posting(from, arriving, (head, PostingTreatment::Queue, body), links);
            }
            Ok(head) => self.offer(from, arriving, head, whole, links),
            Err(error) => self.refuse(from, arriving, error.clone(), links),
        }
    }

    #[inline]
    fn offer(&mut self, from: Key, arriving: &Arriving, head: &Head, body: WholeBody<'_>, links: &mut impl Links) {
        let (at, settlement, now_ms) = (self.producers[from].address, arriving.settlement, self.now_ms);
        let queue = self.addresses.queue_mut(at);
        if let Some(error) = queue.beyond_budget(body.bytes().len()) {
            return self.refuse(from, arriving, error, links);
        }
        match &queue.opened.messages.offer(now_ms, head) {
            Admission::Store(admitted) => self.keep(from, settlement, admitted, body, links),
            Admission::Duplicate { of: Some(original) } if settlement != SettlementTarget::Nothing => {
                let queue = self.addresses.queue_mut(at);
                // The original may still be refused; accepting the duplicate now could lose the
                // message.
                queue
                    .pending_duplicates
                    .entry(original.0)
                    .or_default()
                    .push(PendingDuplicate { producer: from, settlement });
                self.producers[from].waiting += 1;
            }
            Admission::Duplicate { .. } => {
                self.store_packet_id();
                self.answer(settlement, at, &Outcome::Accepted, links);
                self.taken(from, 1);
            }
            Admission::Refuse(refusal) => self.refuse(from, arriving, refused(*refusal), links),
        }
    }

    #[inline]
    fn keep(
        &mut self,
        from: Key,
        settlement: SettlementTarget,
        admitted: &Admitted,
        body: WholeBody<'_>,
        links: &mut impl Links,
    ) {
        let at = self.producers[from].address;
        let queue = self.addresses.queue_mut(at);
        let Some(log) = queue.opened.log else {
            let place = self.storage.bodies.put(body.bytes(), 1);
            let effects = &mut self.storage.effects;
            queue.opened.messages.committed(admitted.seq, place, &mut |effect| effects.push(effect));
            self.store_packet_id();
            self.answer(settlement, at, &Outcome::Accepted, links);
            self.taken(from, 1);
            self.do_effects(at, links);
            return self.mark_dirty(at);
        };
        let bytes = body.bytes().len();
        let completion = Completion {
            producer: from,
            settlement,
            address: at,
            account: self.addresses[at].account,
            bytes,
            from: None,
        };
        let commit = Commit::new(at, admitted.seq, completion).with_note(self.note_of(from, settlement, admitted.seq));
        match self.take_joint() {
            None => {
                self.storage.journal.store_one(log, admitted, commit, body);
                self.storage.journal.seal(None);
            }
            Some((joint, lane)) => {
                self.storage.journal.begin_part(lane);
                self.storage.journal.post(smallvec![(log, admitted, commit)], body.bytes());
                self.storage.journal.end_part(joint);
            }
        }
        self.take_window(from, bytes, links);
        self.update_room(at, links);
    }

    /// The properties of a message that the queue needs.
    #[inline]
    fn head_for_queue(&self, from: Key, message_format: u32, body: &[u8]) -> Result<Head, Error> {
        let envelope = &read(message_format, body)?;
        let producer = &self.producers[from];
        let mut head = self.head_of_envelope(envelope, body.len(), producer.producer_name.as_deref());
        let opened = &self.addresses.queue(producer.address).opened;
        if opened.messages.settings().duplicates.is_some() {
            head.message_id = envelope.message_id.map(|id| self.storage.digests.long(id));
        }
        if let Some(property) = opened.last_value_key.as_deref() {
            head.key = self.storage.digests.property(body, property);
        }
        Ok(head)
    }
}
