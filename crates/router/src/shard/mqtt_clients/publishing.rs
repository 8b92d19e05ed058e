//! PUBLISH of a client as a delivery of its link to the anonymous terminus, and its will.

use enmasse_amqp::connection;
use enmasse_amqp::types::{Error, Outcome, condition};
use enmasse_mqtt::codec::{PacketId, QoS};
use enmasse_mqtt::connection::{Incoming, TopicName};
use enmasse_mqtt::session::StoredWill;

use crate::core::{AddressKind, Arrival, AttachmentId, PacketFlow, ToHome};
use crate::shard::mqtt::codes::{self, Answer};
use crate::shard::mqtt::{CONSUMER_WAIT_MS, PUBLISHER, Publication, WAITING_BYTES_MAX, Waiting, message, reads};
use crate::shard::{ConnId, DYNAMIC_PREFIX, Shard};

impl Shard {
    /// Publishes the will of a client whose connection ends otherwise than by its own DISCONNECT
    /// [5: 3.1.2-8]. A delayed one stays in the session, whose end it does not outlive.
    pub(in crate::shard) fn publish_will(&mut self, id: ConnId) {
        let Some(mqtt) = self.mqtt(id) else { return };
        let is_delayed = |will: &StoredWill| will.delay_s > 0 && mqtt.session.persists() && mqtt.visit.is_none();
        if mqtt.session.will.as_deref().is_some_and(is_delayed) {
            return;
        }
        let Some(will) = mqtt.session.will.take() else { return };
        // Its acknowledgement has no receiver: it is published like a message of QoS 0 or 1.
        let publish = Incoming {
            topic: TopicName::Named(&will.topic),
            dup: false,
            qos: will.qos,
            retain: will.retain,
            packet_id: None,
            properties: will.publish_properties(),
            payload: &will.payload,
        };
        let now_ms = self.router.now_ms();
        self.publish_as(id, &publish, |sections| match will.is_message {
            true => sections.extend_from_slice(&will.payload),
            false => message::encode(sections, &publish, now_ms),
        });
    }

    /// Passes a message to its address, as a delivery of the link to the anonymous terminus.
    pub(super) fn publish_mqtt(&mut self, id: ConnId, publish: &Incoming<'_>) {
        let now_ms = self.router.now_ms();
        self.publish_as(id, publish, |sections| message::encode(sections, publish, now_ms));
    }

    /// As above; `encode` appends the sections of the message.
    #[inline]
    fn publish_as(&mut self, id: ConnId, publish: &Incoming<'_>, encode: impl FnOnce(&mut Vec<u8>)) {
        let topic = &*publish.topic;
        let reserved = topic.starts_with('$') && !topic.starts_with(DYNAMIC_PREFIX);
        let route = match self.mqtt(id) {
            Some(mqtt) if mqtt.sheds => {
                let what = "the address is full, and its consumers are too slow: publish again later";
                Err(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what))
            }
            Some(_) if reserved => {
                Err(Error::new(condition::NOT_FOUND, "topics that begin with $ are the node's own: choose another"))
            }
            Some(_) => self.route_to(id, PUBLISHER, topic),
            None => return,
        };
        let (attachment, home) = match route {
            Ok(route) => (route.attachment, route.home),
            Err(error) => return self.refuse_publication(id, publish.packet_id, &error),
        };
        let settled = publish.qos == QoS::AtMostOnce;
        let kind = self.fabric.attachments.get_mut(attachment).map(|attachment| {
            attachment.unanswered += u32::from(!settled);
            attachment.kind
        });
        let kind = kind.unwrap_or(AddressKind::Topic);
        let is_kept_apart = publish.retain && reads::keeps_apart(kind);
        let retained = if is_kept_apart { self.retained_entry(id) } else { None };
        let mut sections = std::mem::take(&mut self.sections);
        sections.clear();
        encode(&mut sections);
        let (once, packet) = self.once(id, publish, kind);
        let publication =
            publish.packet_id.map(|packet_id| Publication::new(packet_id, once, kind, retained.is_some()));
        let delivery_id = self.note_publication(id, publication);
        if kind == AddressKind::Anycast && !settled {
            self.keep_publication(id, delivery_id, topic, &sections);
        }
        self.pass_publication(id, (attachment, home), (delivery_id, packet), settled, &sections);
        self.sections = sections;
        if let Some(entry) = retained {
            self.retain(id, publish, &entry, delivery_id);
        }
    }

    /// Keeps a publication to an anycast address, so that it can wait for a consumer.
    fn keep_publication(&mut self, id: ConnId, delivery_id: u32, topic: &str, sections: &[u8]) {
        let until = self.fabric.now.plus_millis(CONSUMER_WAIT_MS);
        let Some(mqtt) = self.mqtt(id) else { return };
        let bytes = mqtt.waiting_bytes + sections.len();
        if let Some(publication) = mqtt.publications.get_mut(&(delivery_id / 2)).filter(|_| bytes <= WAITING_BYTES_MAX)
        {
            let waiting = Waiting { topic: topic.into(), sections: sections.to_vec(), until };
            publication.waiting = Some(Box::new(waiting));
            mqtt.waiting_bytes = bytes;
        }
    }

    /// Passes a publication that waits for a consumer to its address again.
    pub(super) fn publish_again(&mut self, id: ConnId, delivery_id: u32) {
        let Some(mqtt) = self.mqtt(id) else { return };
        let publication = mqtt.publications.get(&(delivery_id / 2));
        let Some(waiting) = publication.and_then(|publication| publication.waiting.as_deref()) else { return };
        let (topic, sections) = (waiting.topic.clone(), waiting.sections.clone());
        match self.route_to(id, PUBLISHER, &topic) {
            Ok(route) => {
                if let Some(attachment) = self.fabric.attachments.get_mut(route.attachment) {
                    attachment.unanswered += 1;
                }
                self.pass_publication(id, (route.attachment, route.home), (delivery_id, None), false, &sections);
            }
            Err(error) => {
                if let Some(mqtt) = self.mqtt(id) {
                    mqtt.settle(delivery_id, &Outcome::Rejected(Some(Box::new(error))));
                }
            }
        }
    }

    /// Passes the sections of a publication to the home of its address. `packet`: the link with the
    /// record of the session, and the packet identifier to be stored with the message.
    pub(super) fn pass_publication(
        &mut self,
        id: ConnId,
        (attachment, home): (AttachmentId, u16),
        (delivery_id, packet): (u32, Option<(AttachmentId, PacketFlow)>),
        settled: bool,
        sections: &[u8],
    ) {
        let incoming = connection::Incoming {
            link: PUBLISHER,
            delivery_id,
            first: true,
            more: false,
            aborted: false,
            settled,
            message_format: 0,
            payload: sections,
            tag: &[],
            resume: false,
            state: None,
        };
        let conn = &mut self.fabric.conns[id.key()];
        conn.pacing.carried.count_received(true, sections.len());
        let held = conn.holds > 0;
        if held {
            self.fabric.count_held(id.key, PUBLISHER.0, sections.len());
        }
        match packet {
            None => self.deliver(attachment, home, &incoming),
            Some((record, packet)) => {
                let arrival = Arrival {
                    delivery_id,
                    settled,
                    message_format: 0,
                    first: true,
                    more: false,
                    aborted: false,
                    payload: sections,
                };
                let record_home = self.fabric.attachments.get(record).map_or(home, |record| record.home);
                if record_home == home {
                    self.send_to_home(home, ToHome::DeliverOnce { attachment, arrival, record, packet });
                } else if let Some(space) = self.space_of(id).map(|space| space.0) {
                    let joint = self.router.next_joint();
                    self.send_to_home(record_home, ToHome::KeepWith { record, packet, joint, space });
                    self.send_to_home(home, ToHome::DeliverWith { attachment, arrival, joint, space });
                }
            }
        }
        if held {
            self.fabric.update_hold_back_pressure(id.key);
        }
    }

    /// Numbers a publication, and remembers it until its outcome if that is its acknowledgement.
    pub(super) fn note_publication(&mut self, id: ConnId, publication: Option<Publication>) -> u32 {
        let Some(mqtt) = self.mqtt(id) else { return 0 };
        mqtt.publication = mqtt.publication.wrapping_add(2);
        if let Some(publication) = publication {
            mqtt.publications.insert(mqtt.publication / 2, publication);
        }
        mqtt.publication
    }

    /// Refuses a publication before it has reached an address.
    fn refuse_publication(&mut self, id: ConnId, packet_id: Option<PacketId>, error: &Error) {
        let answer: Answer = codes::refused_publish(error);
        if let (Some(packet_id), Some(mqtt)) = (packet_id, self.mqtt(id)) {
            mqtt.answer_publish(packet_id, &answer);
        }
    }
}
