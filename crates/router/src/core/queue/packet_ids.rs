//! Packet identifiers of a session of MQTT whose QoS 2 flows are not complete (MQTT 5.0, 4.1 and
//! 4.3.3). They are state of the queue that has the record of the session.
//!
//! An identifier of the client is on disk in the group of its message, so that both exist or
//! neither does. One of the node is on disk in the group that removes the message which the client
//! has received. If the message has another home than the record, that group is a joint one of both
//! homes. A link that recalls the record is answered once everything before it is on disk, messages
//! that a stream has gathered included, so that it learns of each identifier whose message is stored,
//! and of no other one.

use std::collections::{BTreeMap, BTreeSet};

use enmasse_amqp::types::Outcome;
use enmasse_journal::log::{JointId, RecoveredQueue, Refused};
use enmasse_journal::queue::Seq;

use super::super::arena::Key;
use super::super::ids::{Flow, Joint, PacketFlow};
use super::super::message::SettlementTarget;
use super::super::outcome::Retiring;
use super::super::storage::{KeptPacketId, LaneId, Notice, RECEIVED_FROM_CLIENT, RECEIVED_FROM_NODE, Received};
use super::super::{Arrival, AttachmentId, Links, Router, ToLink, home_of_token};

/// The packet identifiers of a session, by the side that has sent the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::core) struct PacketIds {
    /// of messages that the client has sent and not released
    from_client: BTreeSet<u16>,
    /// of messages that the client has received and not completed
    from_node: BTreeSet<u16>,
    /// identifiers whose joint group is in flight, by their state keys: their last group; set: the
    /// record whose flow is complete in the meantime
    joint: BTreeMap<[u8; 3], (JointId, Option<AttachmentId>)>,
    /// number of identifiers whose messages streams have gathered and not given to the log
    gathered: u32,
    /// links that have recalled the record, and wait for these
    recalling: Vec<AttachmentId>,
}

/// How the packet identifier of the message that is being delivered is kept.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) enum PacketIdOf {
    /// its record lives here
    Here(KeptPacketId),
    /// its record has another home, which contributes it to this joint group
    Elsewhere(Joint, LaneId),
}

impl PacketIds {
    /// The identifiers in the logged state of a queue.
    pub(in crate::core) fn restored(recovered: &RecoveredQueue) -> Self {
        let mut ids = Self::default();
        for key in recovered.states.keys() {
            let (kind, id) = match **key {
                [kind, low, high] => (kind, u16::from_le_bytes([low, high])),
                _ => continue,
            };
            match kind {
                RECEIVED_FROM_CLIENT => ids.of(Flow::FromClient).insert(id),
                RECEIVED_FROM_NODE => ids.of(Flow::FromNode).insert(id),
                _ => false,
            };
        }
        ids
    }

    fn of(&mut self, flow: Flow) -> &mut BTreeSet<u16> {
        match flow {
            Flow::FromClient => &mut self.from_client,
            Flow::FromNode => &mut self.from_node,
        }
    }
}

impl Router {
    /// As [`Router::deliver`], for a whole message with QoS 2 of a session whose record the link
    /// `record` receives: its packet identifier is stored with the message, and removed if the
    /// message is refused. A message that is not on disk has an identifier that is stored for
    /// itself.
    pub fn deliver_once(
        &mut self,
        attachment: AttachmentId,
        arrival: Arrival<'_>,
        (record, packet): (AttachmentId, PacketFlow),
        links: &mut impl Links,
    ) {
        debug_assert!(arrival.first && !arrival.more, "packets of MQTT arrive whole");
        self.packet_id = self.kept_packet_id(record, packet).map(PacketIdOf::Here);
        self.deliver(attachment, arrival, links);
        self.packet_id = None;
    }

    /// As [`Router::deliver_once`], for a stored address whose home is not that of the record: the
    /// message is stored in one joint group with its identifier ([`Router::keep_with`]), in this
    /// space.
    pub fn deliver_with(
        &mut self,
        attachment: AttachmentId,
        arrival: Arrival<'_>,
        (joint, space): (Joint, u32),
        links: &mut impl Links,
    ) {
        debug_assert!(arrival.first && !arrival.more, "packets of MQTT arrive whole");
        let lane = LaneId::of_space(space);
        self.packet_id = Some(PacketIdOf::Elsewhere(joint, lane));
        self.deliver(attachment, arrival, links);
        if self.take_joint().is_some() {
            // Nothing of it was stored here. A duplicate is recognised by its message-id.
            self.storage.journal.decline(joint, lane, "the message is not stored".to_owned());
        }
    }

    /// Whether the message that is being stored belongs to the joint group of its packet identifier.
    pub(in crate::core) const fn is_joint(&self) -> bool {
        matches!(self.packet_id, Some(PacketIdOf::Elsewhere(..)))
    }

    /// Takes the joint group of the message that is being stored; the caller contributes to it.
    pub(in crate::core) fn take_joint(&mut self) -> Option<(Joint, LaneId)> {
        let Some(PacketIdOf::Elsewhere(joint, lane)) = self.packet_id else { return None };
        self.packet_id = None;
        Some((joint, lane))
    }

    /// Contributes a packet identifier to the joint group of its message: the client has sent it to a
    /// stored address with another home, or has received it from one. Of the latter [`ToLink::PacketId`]
    /// confirms that it is on disk.
    pub fn keep_with(&mut self, record: AttachmentId, packet: PacketFlow, (joint, space): (Joint, u32)) {
        let kept = self.kept_packet_id(record, packet);
        self.storage.journal.begin_part(LaneId::of_space(space));
        // Otherwise the session was discarded in the meantime, and the message is stored without it.
        if let Some(kept) = kept {
            let ids = self.addresses.queue_mut(kept.at).resuming.packet_ids_mut();
            ids.of(packet.flow).insert(packet.id);
            ids.joint.insert(kept.key(), (joint.id(), None));
            self.storage.journal.add_packet_id(kept);
        }
        self.storage.journal.end_unordered_part(joint);
        if let Some(kept) = kept.filter(|kept| kept.packet.flow == Flow::FromNode) {
            self.raise_fence(kept.at, Notice::PacketId { record, packet, kept: true });
        }
    }

    /// Ends the joint group of a packet identifier. If the log has refused it, the client sends its
    /// message again; what the client has received is kept without the group.
    pub(in crate::core) fn end_joint_packet_id(
        &mut self,
        kept: &KeptPacketId,
        group: Option<JointId>,
        result: &Result<(), Refused>,
    ) {
        let Some(queue) = self.addresses.find_queue_mut(kept.at) else { return };
        let ids = queue.resuming.packet_ids_mut();
        // A client that was told of the refusal may have used the identifier again: it belongs to a
        // later group then.
        let Some((_, completed)) = ids.joint.get(&kept.key()).filter(|(last, _)| group == Some(*last)).copied() else {
            return;
        };
        ids.joint.remove(&kept.key());
        match (result, kept.packet.flow) {
            (Ok(()), _) => {}
            (Err(_), Flow::FromClient) => {
                ids.of(Flow::FromClient).remove(&kept.packet.id);
            }
            (Err(_), Flow::FromNode) => self.note_packet_id(kept),
        }
        if let Some(record) = completed {
            self.complete_packet_id(kept, record);
        }
    }

    /// Removes the message that a client has received in one joint group with the packet identifier
    /// of its delivery ([`Router::keep_with`]).
    pub fn remove_with(&mut self, token: u64, (joint, space): (Joint, u32), links: &mut impl Links) {
        // The removal must name the current location.
        if self.storage.journal.is_compacting() {
            return self.diversions.postpone_removal(token, joint, space);
        }
        self.storage.journal.begin_part(LaneId::of_space(space));
        let found = self.received_message(token);
        if let Some((received, _)) = found {
            self.storage.journal.add_received(received);
        }
        self.storage.journal.end_part(joint);
        match found {
            Some((received, seq)) => self.settle_received(token, received.at, seq),
            None => self.outcome(token, &Outcome::Accepted, links),
        }
    }

    /// Removes a received message without its joint group, which the log has refused.
    pub(in crate::core) fn remove_received_alone(&mut self, received: Received) {
        if self.addresses.find_queue(received.at).is_some() {
            self.storage.journal.remove_at(received.log, received.number, received.place);
        }
    }

    /// The message of a delivery that a consumer holds, if it is on disk, and its number.
    fn received_message(&self, token: u64) -> Option<(Received, Seq)> {
        if home_of_token(token) != self.shard {
            return None;
        }
        let pending = self.pending.get(Key::unpack(token))?;
        let SettlementTarget::Queue(seq) = pending.settlement else { return None };
        let at = pending.address;
        let queue = self.addresses.find_queue(at).filter(|_| pending.retiring == Retiring::No)?;
        let (log, item) = (queue.opened.log?, queue.opened.messages.get(seq)?);
        Some((Received { at, log, number: item.id.0, place: item.place }, seq))
    }

    /// Settles a delivery whose removal is with the log.
    fn settle_received(&mut self, token: u64, at: Key, seq: Seq) {
        self.close_token(token);
        self.addresses.queue_mut(at).settle_logged(seq, &mut self.storage);
        self.mark_dirty(at);
    }

    fn kept_packet_id(&self, record: AttachmentId, packet: PacketFlow) -> Option<KeptPacketId> {
        let at = self.consumers.get(self.attachments.consumer(record)?)?.address;
        Some(KeptPacketId { at, log: self.addresses.find_queue(at)?.opened.log?, packet })
    }

    /// Takes the packet identifier of the message that is being stored; the caller writes it.
    pub(in crate::core) fn take_packet_id(&mut self) -> Option<KeptPacketId> {
        let Some(PacketIdOf::Here(kept)) = self.packet_id else { return None };
        self.packet_id = None;
        self.addresses.queue_mut(kept.at).resuming.packet_ids_mut().of(kept.packet.flow).insert(kept.packet.id);
        self.storage.journal.erase_before(kept.log, &kept.key());
        Some(kept)
    }

    /// Stores the packet identifier of the message that was accepted, which is not on disk itself.
    pub(in crate::core) fn store_packet_id(&mut self) {
        match self.packet_id.take() {
            Some(PacketIdOf::Here(kept)) => self.note_packet_id(&kept),
            Some(PacketIdOf::Elsewhere(joint, lane)) => {
                self.storage.journal.begin_part(lane);
                self.storage.journal.end_part(joint);
            }
            None => {}
        }
    }

    /// The message of a packet identifier is gathered, and is written with a later block.
    pub(in crate::core) fn packet_id_gathered(&mut self, kept: &KeptPacketId) {
        self.addresses.queue_mut(kept.at).resuming.packet_ids_mut().gathered += 1;
    }

    /// The gathered message of a packet identifier was deleted with its stream.
    pub(in crate::core) fn packet_id_abandoned(&mut self, kept: &KeptPacketId) {
        self.forget_packet_id(kept);
        self.packet_id_written(kept);
    }

    /// The gathered message of a packet identifier is with the log, or was deleted.
    pub(in crate::core) fn packet_id_written(&mut self, kept: &KeptPacketId) {
        // The session was discarded in the meantime.
        let Some(queue) = self.addresses.find_queue_mut(kept.at) else { return };
        let ids = queue.resuming.packet_ids_mut();
        debug_assert!(ids.gathered > 0, "it was gathered");
        ids.gathered -= 1;
        if ids.gathered == 0 {
            let recalling = std::mem::take(&mut ids.recalling);
            recalling.into_iter().for_each(|attachment| self.raise_fence(kept.at, Notice::Attached(attachment)));
        }
    }

    fn note_packet_id(&mut self, kept: &KeptPacketId) {
        self.addresses.queue_mut(kept.at).resuming.packet_ids_mut().of(kept.packet.flow).insert(kept.packet.id);
        self.storage.journal.note(kept.log, &kept.key(), KeptPacketId::VALUE);
    }

    /// Removes the packet identifier of a message that was refused.
    #[cold]
    pub(in crate::core) fn forget_packet_id(&mut self, kept: &KeptPacketId) {
        // The session was discarded in the meantime.
        let Some(queue) = self.addresses.find_queue_mut(kept.at) else { return };
        queue.resuming.packet_ids_mut().of(kept.packet.flow).remove(&kept.packet.id);
        self.storage.journal.erase(kept.log, &kept.key());
    }

    /// Keeps a packet identifier; [`ToLink::PacketId`] confirms that it is on disk. `token`: the
    /// delivery that the client has received, whose message is removed in the same group.
    pub fn keep_packet_id(
        &mut self,
        record: AttachmentId,
        packet: PacketFlow,
        token: Option<u64>,
        links: &mut impl Links,
    ) {
        let Some(kept) = self.kept_packet_id(record, packet) else {
            // The session was discarded in the meantime.
            return token.into_iter().for_each(|token| self.outcome(token, &Outcome::Accepted, links));
        };
        if !token.is_some_and(|token| self.remove_received(token, &kept)) {
            token.into_iter().for_each(|token| self.outcome(token, &Outcome::Accepted, links));
            self.note_packet_id(&kept);
        }
        self.raise_fence(kept.at, Notice::PacketId { record, packet, kept: true });
    }

    /// Removes the message of a delivery in one group with the packet identifier under which the
    /// client has received it. `false`: its message is not on disk.
    fn remove_received(&mut self, token: u64, kept: &KeptPacketId) -> bool {
        let Some((received, seq)) = self.received_message(token) else { return false };
        self.storage.journal.remove_and_note(&mut received.removal(), kept.log, &kept.key(), KeptPacketId::VALUE);
        self.addresses.queue_mut(kept.at).resuming.packet_ids_mut().of(kept.packet.flow).insert(kept.packet.id);
        self.settle_received(token, received.at, seq);
        true
    }

    /// Removes a packet identifier whose flow is complete; [`ToLink::PacketId`] confirms it.
    pub fn drop_packet_id(&mut self, record: AttachmentId, packet: PacketFlow, links: &mut impl Links) {
        let Some(kept) = self.kept_packet_id(record, packet) else {
            return links.send(ToLink::PacketId { record, packet, kept: false });
        };
        let ids = self.addresses.queue_mut(kept.at).resuming.packet_ids_mut();
        if let Some((_, completed)) = ids.joint.get_mut(&kept.key()) {
            // The log may write the removal before the group.
            *completed = Some(record);
            return;
        }
        self.complete_packet_id(&kept, record);
    }

    fn complete_packet_id(&mut self, kept: &KeptPacketId, record: AttachmentId) {
        let ids = self.addresses.queue_mut(kept.at).resuming.packet_ids_mut();
        // One that was never kept may be in a joint group again before its removal is on disk.
        if ids.of(kept.packet.flow).contains(&kept.packet.id) {
            self.forget_packet_id(kept);
        }
        self.raise_fence(kept.at, Notice::PacketId { record, packet: kept.packet, kept: false });
    }

    /// Answers a link that has recalled the record of a session: everything before is on disk.
    pub(in crate::core) fn answer_recalled(&mut self, key: Key, links: &mut impl Links) {
        let consumer = &self.consumers[key];
        let attachment = consumer.attachment;
        let resuming = &mut self.addresses.queue_mut(consumer.address).resuming;
        if resuming.packet_ids().is_some_and(|ids| ids.gathered > 0) {
            // Otherwise PUBREC could precede the message on disk.
            return resuming.packet_ids_mut().recalling.push(attachment);
        }
        if let Some(ids) = resuming.packet_ids() {
            let (from_client, from_node) =
                (ids.from_client.iter().copied().collect(), ids.from_node.iter().copied().collect());
            links.send(ToLink::PacketIds { attachment, from_client, from_node });
        }
        links.send(ToLink::Attached { attachment, answer: Ok(Vec::new()) });
    }
}
