//! Packet identifiers of QoS 2 in a session that outlives its connection (4.3.3, 4.4).
//!
//! They are kept with the record of the session, by its home. The identifier of a publication to a
//! stored address is in the group of the message: that of their common home, or a joint one of the
//! two homes. PUBREC is the outcome of both. The identifier of a publication to any other address is
//! stored after its outcome, and PUBREC does not wait: such a message does not survive a crash
//! either. PUBREL and PUBCOMP of both sides wait until the step before is on disk.

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::Outcome;
use enmasse_mqtt::codec::{PacketId, QoS, ReasonCode};
use enmasse_mqtt::connection::Incoming;

use crate::core::{AddressKind, AttachmentId, Flow, PacketFlow, ToHome, home_of_token};
use crate::shard::conn::Link;
use crate::shard::mqtt::{Once, RECORD};
use crate::shard::{ConnId, Shard};

impl Shard {
    /// The link with the record of a session.
    pub(in crate::shard) fn record_attachment(&self, id: ConnId) -> Option<AttachmentId> {
        let conn = self.fabric.conns.get(id.key()).filter(|conn| conn.machine.is_mqtt())?;
        let Some(Link::Consumer { attachments, .. }) = conn.links.get(RECORD.0 as usize) else { return None };
        attachments.first().copied()
    }

    /// That link, or the one of a record that was ended, until its home has taken its last command.
    pub(in crate::shard) fn leaving_record(&self, id: ConnId) -> Option<AttachmentId> {
        let ended = || self.fabric.conns.get(id.key())?.machine.mqtt()?.session.ended_record;
        let record = self.record_attachment(id).or_else(ended)?;
        let attachments = &self.fabric.attachments;
        (attachments.get(record).is_some() || attachments.left(record).is_some()).then_some(record)
    }

    /// That link and its home, if the session outlives its connection.
    fn record_link(&self, id: ConnId) -> Option<(AttachmentId, u16)> {
        let persists = self.fabric.conns.get(id.key())?.machine.mqtt()?.session.persists();
        let record = self.record_attachment(id).filter(|_| persists)?;
        Some((record, self.fabric.attachments.get(record)?.home))
    }

    /// How the packet identifier of a publication is kept.
    pub(super) fn once(
        &self,
        id: ConnId,
        publish: &Incoming<'_>,
        kind: AddressKind,
    ) -> (Once, Option<(AttachmentId, PacketFlow)>) {
        let packet_id = publish.packet_id.filter(|_| publish.qos == QoS::ExactlyOnce);
        let Some((packet_id, (record, _))) = packet_id.zip(self.record_link(id)) else {
            return (Once::No, None);
        };
        match kind.stores() {
            true => (Once::WithMessage, Some((record, PacketFlow { flow: Flow::FromClient, id: packet_id.get() }))),
            false => (Once::After, None),
        }
    }

    /// Keeps the packet identifier of an answered publication, or (`kept` is false) forgets that of
    /// one that was refused.
    pub(super) fn note_packet_id(&mut self, id: ConnId, packet_id: PacketId, kept: bool) {
        let Some((record, home)) = self.record_link(id) else { return };
        let packet = PacketFlow { flow: Flow::FromClient, id: packet_id.get() };
        let command = match kept {
            true => ToHome::KeepPacketId { record, packet, token: None },
            false => ToHome::DropPacketId { record, packet },
        };
        self.send_to_home(home, command);
    }

    /// PUBREL of the client: PUBCOMP follows once the identifier is forgotten on disk.
    pub(super) fn released_by_client(&mut self, id: ConnId, packet_id: PacketId) {
        if let Some((record, home)) = self.record_link(id) {
            let packet = PacketFlow { flow: Flow::FromClient, id: packet_id.get() };
            return self.send_to_home(home, ToHome::DropPacketId { record, packet });
        }
        if let Some(mqtt) = self.mqtt(id) {
            // An error means that the connection has ended in the meantime.
            let _ = mqtt.machine.complete(packet_id);
        }
    }

    /// PUBREC of the client: its message is removed in one group with the identifier, and PUBREL
    /// follows once that is on disk.
    pub(super) fn received_by_client(&mut self, id: ConnId, packet_id: PacketId) {
        let Some((record, home)) = self.record_link(id) else {
            self.acknowledged(id, packet_id, ReasonCode::Success, "");
            if let Some(mqtt) = self.mqtt(id) {
                // An error means that the connection has ended in the meantime.
                let _ = mqtt.machine.release(packet_id);
            }
            return;
        };
        let Some(mqtt) = self.mqtt(id) else { return };
        mqtt.session.from_node.insert(packet_id);
        let packet = PacketFlow { flow: Flow::FromNode, id: packet_id.get() };
        let received = mqtt.unacknowledged.remove(&packet_id).map(|(link, token, _)| (link, token));
        let (link, token) = received.unzip();
        let stored_here = token.filter(|token| home_of_token(*token) == home);
        let elsewhere = token.filter(|_| stored_here.is_none());
        let space = self.space_of(id).map(|space| space.0);
        match (elsewhere, space) {
            (Some(token), Some(space)) if link.is_some_and(|link| self.consumes_stored(id, link)) => {
                let joint = self.router.next_joint();
                self.send_to_home(home, ToHome::KeepWith { record, packet, joint, space });
                self.send_to_home(home_of_token(token), ToHome::RemoveWith { token, joint, space });
            }
            _ => {
                if let Some(token) = elsewhere {
                    self.report_outcome(token, &Outcome::Accepted);
                }
                self.send_to_home(home, ToHome::KeepPacketId { record, packet, token: stored_here });
            }
        }
        self.resume_starved(id);
    }

    /// Whether a link consumes from a queue or a subscription.
    fn consumes_stored(&self, id: ConnId, link: LinkId) -> bool {
        let link = self.fabric.conns.get(id.key()).and_then(|conn| conn.links.get(link.0 as usize));
        let Some(Link::Consumer { attachments, .. }) = link else { return false };
        let mut known = attachments.iter().filter_map(|attachment| self.fabric.attachments.get(*attachment));
        known.any(|attachment| matches!(attachment.kind, AddressKind::Queue | AddressKind::Topic))
    }

    /// PUBCOMP of the client: the flow of a delivery is complete.
    pub(super) fn completed_by_client(&mut self, id: ConnId, packet_id: PacketId) {
        let is_kept = self.mqtt(id).is_some_and(|mqtt| mqtt.session.from_node.remove(&packet_id));
        let record = self.record_link(id).filter(|_| is_kept);
        if record.is_none()
            && let Some(mqtt) = self.mqtt(id)
        {
            // An error means that the identifier is free already.
            let _ = mqtt.machine.reuse(packet_id);
        }
        if let Some((record, home)) = record {
            let packet = PacketFlow { flow: Flow::FromNode, id: packet_id.get() };
            self.send_to_home(home, ToHome::DropPacketId { record, packet });
        }
    }

    /// Forgets the identifiers of a session that its client discards.
    pub(super) fn drop_packet_ids(&mut self, id: ConnId) {
        let Some(mqtt) = self.mqtt(id) else { return };
        let resumed = std::mem::take(&mut mqtt.session.resumed);
        let Some(record) = self.record_attachment(id) else { return };
        let Some(home) = self.fabric.attachments.get(record).map(|attachment| attachment.home) else { return };
        let from_client = resumed.received.iter().map(|id| (Flow::FromClient, id));
        let from_node = resumed.outgoing.iter().map(|delivery| (Flow::FromNode, &delivery.packet_id));
        for (flow, packet_id) in from_client.chain(from_node) {
            let packet = PacketFlow { flow, id: packet_id.get() };
            self.send_to_home(home, ToHome::DropPacketId { record, packet });
        }
    }
}
