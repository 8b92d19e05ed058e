//! Packet identifiers of a session of MQTT whose QoS 2 flows are not complete (MQTT 5.0, 4.1 and
//! 4.3.3). They are state of the queue that has the record of the session.
//!
//! An identifier of the client is on disk in the group of its message, so that both exist or
//! neither does. One of the node is on disk in the group that removes the message which the client
//! has received. A link that recalls the record is answered once everything before it is on disk,
//! so that it learns of each identifier whose message is stored.

use std::collections::BTreeSet;

use enmasse_amqp::types::Outcome;
use enmasse_journal::log::{RecoveredQueue, Removal};

use super::super::arena::Key;
use super::super::ids::{Flow, PacketFlow};
use super::super::message::SettlementTarget;
use super::super::outcome::Retiring;
use super::super::storage::{KeptPacketId, Notice, RECEIVED_FROM_CLIENT, RECEIVED_FROM_NODE};
use super::super::{Arrival, AttachmentId, Links, Router, ToLink, home_of_token};

/// The packet identifiers of a session, by the side that has sent the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::core) struct PacketIds {
    /// of messages that the client has sent and not released
    from_client: BTreeSet<u16>,
    /// of messages that the client has received and not completed
    from_node: BTreeSet<u16>,
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
        self.packet_id = self.kept_packet_id(record, packet);
        self.deliver(attachment, arrival, links);
        self.packet_id = None;
    }

    fn kept_packet_id(&self, record: AttachmentId, packet: PacketFlow) -> Option<KeptPacketId> {
        let at = self.consumers.get(self.attachments.consumer(record)?)?.address;
        Some(KeptPacketId { at, log: self.addresses.find_queue(at)?.opened.log?, packet })
    }

    /// Takes the packet identifier of the message that is being stored; the caller writes it.
    pub(in crate::core) fn take_packet_id(&mut self) -> Option<KeptPacketId> {
        let kept = self.packet_id.take()?;
        self.addresses.queue_mut(kept.at).resuming.packet_ids_mut().of(kept.packet.flow).insert(kept.packet.id);
        self.storage.journal.erase_before(kept.log, &kept.key());
        Some(kept)
    }

    /// Stores the packet identifier of the message that was accepted, which is not on disk itself.
    pub(in crate::core) fn store_packet_id(&mut self) {
        if let Some(kept) = self.packet_id.take() {
            self.note_packet_id(&kept);
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
        if home_of_token(token) != self.shard {
            return false;
        }
        let Some(pending) = self.pending.get(Key::unpack(token)) else { return false };
        let SettlementTarget::Queue(seq) = pending.settlement else { return false };
        let (at, is_held) = (pending.address, pending.retiring != Retiring::No);
        let Some(queue) = self.addresses.find_queue(at).filter(|_| !is_held) else { return false };
        let (Some(log), Some(item)) = (queue.opened.log, queue.opened.messages.get(seq)) else { return false };
        let mut removal = Removal::new(log);
        removal.add(item.id.0, item.place);
        self.storage.journal.remove_and_note(&mut removal, kept.log, &kept.key(), KeptPacketId::VALUE);
        self.close_token(token);
        self.addresses.queue_mut(kept.at).resuming.packet_ids_mut().of(kept.packet.flow).insert(kept.packet.id);
        self.addresses.queue_mut(at).settle_logged(seq, &mut self.storage);
        self.mark_dirty(at);
        true
    }

    /// Removes a packet identifier whose flow is complete; [`ToLink::PacketId`] confirms it.
    pub fn drop_packet_id(&mut self, record: AttachmentId, packet: PacketFlow, links: &mut impl Links) {
        let Some(kept) = self.kept_packet_id(record, packet) else {
            return links.send(ToLink::PacketId { record, packet, kept: false });
        };
        self.forget_packet_id(&kept);
        self.raise_fence(kept.at, Notice::PacketId { record, packet, kept: false });
    }

    /// Answers a link that has recalled the record of a session: everything before is on disk.
    pub(in crate::core) fn answer_recalled(&mut self, key: Key, links: &mut impl Links) {
        let consumer = &self.consumers[key];
        let attachment = consumer.attachment;
        if let Some(ids) = self.addresses.queue(consumer.address).resuming.packet_ids() {
            let (from_client, from_node) =
                (ids.from_client.iter().copied().collect(), ids.from_node.iter().copied().collect());
            links.send(ToLink::PacketIds { attachment, from_client, from_node });
        }
        links.send(ToLink::Attached { attachment, answer: Ok(Vec::new()) });
    }
}
