//! Incoming messages of a stream: the choice of their partition, and duplicate detection.

use enmasse_amqp::codec::envelope::Envelope;
use enmasse_amqp::codec::stamp::{STAMP_BYTES_MAX, Stamp};
use enmasse_amqp::types::{Error, Outcome, condition};
use enmasse_journal::queue::{Head, Refusal};
use enmasse_journal::stream::{Identity, Offer, Partition};

use super::super::Digests;
use super::super::arena::Key;
use super::super::arriving::{Arriving, PendingDuplicate, refused};
use super::super::message::SettlementTarget;
use super::super::posting::{PartitionIdentity, PostingTreatment};
use super::super::queue::PacketIdOf;
use super::super::{Links, Router};
use super::Stream;

/// Bytes in a block that precede each message.
const PREFIX_BYTES: usize = 12;

/// A producer that waits for a message to be on disk.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Waiting {
    /// the producer whose window it occupies
    pub(in crate::core) producer: Key,
    pub(in crate::core) settlement: SettlementTarget,
    /// payload that waits for the producer
    pub(in crate::core) bytes: u32,
}

/// The packet identifier of a message of MQTT that is gathered or in flight.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct StreamPacketId {
    pub(in crate::core) kept: PacketIdOf,
    /// that of its message
    pub(in crate::core) settlement: SettlementTarget,
    /// it is in flight with its message
    pub(in crate::core) is_written: bool,
}

impl Router {
    /// Processes a whole message for a stream.
    pub(in crate::core) fn receive_into_stream(
        &mut self,
        from: Key,
        arriving: &Arriving,
        body: &[u8],
        links: &mut impl Links,
    ) {
        match &arriving.read(body) {
            Ok(envelope) if arriving.is_posting() => self.add_stream_posting(from, arriving, envelope, body, links),
            Ok(envelope) => self.offer_new(from, arriving, envelope, body, links),
            Err(error) => self.refuse(from, arriving, error.clone(), links),
        }
    }

    /// Offers a message outside of transactions to its partition.
    fn offer_new(
        &mut self,
        from: Key,
        arriving: &Arriving,
        envelope: &Envelope<'_>,
        body: &[u8],
        links: &mut impl Links,
    ) {
        let settlement = arriving.settlement;
        let at = self.producers[from].address;
        let stream = self.addresses.stream_mut(at);
        let producer = &self.producers[from];
        if body.len() > stream.message_bytes() as usize {
            let error = refused(Refusal::MessageSize(stream.message_bytes()));
            return self.refuse(from, arriving, error, links);
        }
        let (number, identity) = match stream.place(&self.storage.digests, envelope, producer.producer_name.as_deref())
        {
            Ok(place) => place,
            Err(error) => return self.refuse(from, arriving, error, links),
        };
        let part = &mut stream.parts[number as usize];
        match part.partition.offer(self.now_ms, identity) {
            Offer::New => {}
            Offer::Duplicate { of: Some(original) } if settlement != SettlementTarget::Nothing => {
                // The original may still be refused; accepting the duplicate now could lose the
                // message.
                part.pending_duplicates
                    .entry(original)
                    .or_default()
                    .push(PendingDuplicate { producer: from, settlement });
                self.producers[from].waiting += 1;
                return;
            }
            Offer::Duplicate { .. } => {
                self.store_packet_id();
                self.answer(settlement, at, &Outcome::Accepted, links);
                return self.taken(from, 1);
            }
            Offer::TooManyProducers => return self.refuse(from, arriving, refused(Refusal::NumberedProducers), links),
        }
        let name = producer.name.as_deref().filter(|name| *name != &*stream.name);
        if gather(&mut part.partition, self.now_ms, (number, identity), name, body).is_none() {
            return self.refuse(from, arriving, no_map(), links);
        }
        part.waiting.push_back(Waiting { producer: from, settlement, bytes: body.len() as u32 });
        self.keep_packet_of_stream(at, number, settlement);
        self.list_gathered(at, number);
        let producer = &mut self.producers[from];
        producer.waiting += 1;
        let waiting = producer.waiting_bytes + body.len();
        self.received.add(self.addresses[at].account, 1, body.len());
        self.update_producer_back_pressure(from, waiting, links);
    }

    /// Keeps the packet identifier of a gathered message, which is written with its block.
    fn keep_packet_of_stream(&mut self, at: Key, number: u32, settlement: SettlementTarget) {
        if self.packet_id.is_none() {
            return;
        }
        let is_on_disk = self.addresses.stream_mut(at).parts[number as usize].log.is_some();
        if !is_on_disk {
            return self.store_packet_id();
        }
        let elsewhere = self.take_joint().map(|(joint, lane)| PacketIdOf::Elsewhere(joint, lane));
        if let Some(kept) = elsewhere.or_else(|| self.take_packet_id().map(PacketIdOf::Here)) {
            if let PacketIdOf::Here(kept) = &kept {
                self.packet_id_gathered(kept);
            }
            let packet_id = StreamPacketId { kept, settlement, is_written: false };
            self.addresses.stream_mut(at).parts[number as usize].packet_ids.push(packet_id);
        }
    }

    /// Adds a message to its transaction. Errors of the message itself are reported now.
    fn add_stream_posting(
        &mut self,
        from: Key,
        arriving: &Arriving,
        envelope: &Envelope<'_>,
        body: &[u8],
        links: &mut impl Links,
    ) {
        let producer = &self.producers[from];
        let stream = self.addresses.stream_mut(producer.address);
        let place = match stream.place(&self.storage.digests, envelope, producer.producer_name.as_deref()) {
            Ok(place) => place,
            Err(error) => return self.refuse(from, arriving, error, links),
        };
        self.scratch.bytes.clear();
        if (Stamp { partition: place.0, offset: 0, enqueued_ms: 0 }).put(&mut self.scratch.bytes, body).is_none() {
            return self.refuse(from, arriving, no_map(), links);
        }
        let size_bytes = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let head = &Head { size_bytes, ..Head::default() };
        self.add_posting(from, arriving, (head, PostingTreatment::Stream(place), body), links);
    }

    /// Whether a message of a transaction is new in its partition. None of its partition is in
    /// flight to the log.
    pub(in crate::core) fn offer_to_stream(
        &mut self,
        at: Key,
        (number, identity): PartitionIdentity,
    ) -> Result<bool, Error> {
        let now_ms = self.now_ms;
        let stream = self.addresses.stream_mut(at);
        match stream.parts[number as usize].partition.offer(now_ms, identity) {
            Offer::New => Ok(true),
            // The original is gathered, and is written with the transaction.
            Offer::Duplicate { .. } => Ok(false),
            Offer::TooManyProducers => Err(refused(Refusal::NumberedProducers)),
        }
    }

    /// Gathers a message of a commit behind all others of its partition.
    pub(in crate::core) fn gather_posted(
        &mut self,
        at: Key,
        place: PartitionIdentity,
        name: Option<&str>,
        body: &[u8],
    ) {
        let now_ms = self.now_ms;
        let stream = self.addresses.stream_mut(at);
        let part = &mut stream.parts[place.0 as usize];
        if matches!(part.partition.offer(now_ms, place.1), Offer::Duplicate { .. }) {
            // A duplicate within the same transaction.
            self.addresses[at].stats.accepted += 1;
            return;
        }
        let name = name.filter(|name| *name != &*stream.name);
        if gather(&mut part.partition, now_ms, place, name, body).is_some() {
            part.waiting.push_back(Waiting { producer: Key::NONE, settlement: SettlementTarget::Posted, bytes: 0 });
        }
    }

    /// Lists a partition with gathered messages. They are written at the end of the turn, unless
    /// messages of the partition are in flight.
    pub(super) fn list_gathered(&mut self, at: Key, number: u32) {
        let stream = self.addresses.stream_mut(at);
        let part = &mut stream.parts[number as usize];
        if std::mem::replace(&mut part.listed, true) {
            return;
        }
        if stream.gathered.is_empty() {
            self.schedule.gathering.push(at);
        }
        stream.gathered.push(number);
    }
}

/// Gathers a message behind those of its partition; `None` if its annotations are not a map.
fn gather(
    partition: &mut Partition,
    now_ms: u64,
    (number, identity): PartitionIdentity,
    name: Option<&str>,
    body: &[u8],
) -> Option<u64> {
    let subject = body.len() + STAMP_BYTES_MAX + PREFIX_BYTES;
    let put = |out: &mut Vec<u8>, at_ms: u64| {
        Stamp { partition: number, offset: 0, enqueued_ms: at_ms.cast_signed() }.put(out, body)
    };
    partition.gather(now_ms, identity, name, subject, put)
}

fn no_map() -> Error {
    Error::new(condition::DECODE_ERROR, "message-annotations: not a map (3.2.3)")
}

impl Stream {
    /// The partition of a message, and its identity there.
    fn place(
        &mut self,
        digests: &Digests,
        envelope: &Envelope<'_>,
        producer: Option<&str>,
    ) -> Result<PartitionIdentity, Error> {
        let identity = self.identity(digests, envelope, producer);
        self.choose(digests, envelope, producer, identity).map(|number| (number, identity))
    }

    /// The identity of a message for duplicate detection.
    fn identity(&self, digests: &Digests, envelope: &Envelope<'_>, producer: Option<&str>) -> Identity {
        let message_id = envelope.message_id.filter(|_| self.settings.duplicates.is_some());
        Identity {
            message_id: message_id.map(|id| digests.long(id)),
            producer: producer
                .zip(envelope.producer_sequence)
                .map(|(name, number)| (digests.long(name.as_bytes()), number)),
        }
    }

    /// The partition of a message: the one that it names, else that of its group, else that of its
    /// producer or its id, where a duplicate is detected, else the next in turn.
    fn choose(
        &mut self,
        digests: &Digests,
        envelope: &Envelope<'_>,
        producer: Option<&str>,
        identity: Identity,
    ) -> Result<u32, Error> {
        let count = self.parts.len() as u32;
        let by_hash = |hash: u64| (hash % u64::from(count)) as u32;
        match (envelope.partition, envelope.group_id) {
            (Some(number), _) if number < count => Ok(number),
            (Some(number), _) => {
                let last = count - 1;
                let what = format!("message-annotation \"x-opt-partition\" is {number}: use 0 to {last}, or omit it");
                Err(Error::new(condition::INVALID_FIELD, what))
            }
            _ if count == 1 => Ok(0),
            (None, Some(group)) => Ok(by_hash(digests.short(group.as_bytes()))),
            _ => Ok(match (identity.producer.and(producer), identity.message_id) {
                (Some(name), _) => by_hash(digests.short(name.as_bytes())),
                (None, Some(id)) => by_hash(id as u64),
                (None, None) => {
                    self.turn = (self.turn + 1) % count;
                    self.turn
                }
            }),
        }
    }
}
