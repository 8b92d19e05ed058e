//! Retained messages (3.3.1.3): the last message of each topic, in a queue of the space that no
//! name resolves to.
//!
//! A publication with RETAIN to a topic is stored there by the topic itself. One to a multicast or
//! a stream goes to its address and to that queue; an empty one removes the message of its topic. A
//! new subscription browses the queue once.

use std::sync::Arc;

use enmasse_amqp::types::{Source, Symbol};
use enmasse_mqtt::codec::QoS;
use enmasse_mqtt::connection::Incoming;

use crate::core::Ending;
use crate::shard::departing::Departure;
use crate::shard::mqtt::links::request;
use crate::shard::mqtt::reads::BATCH;
use crate::shard::mqtt::{PUBLISHER, RETAINED, message};
use crate::shard::{ConnId, Shard};
use crate::table::AddressEntry;

/// How long the empty message is kept that removes another, in milliseconds.
const REMOVAL_TTL_S: u32 = 1;

impl Shard {
    /// The queue of retained messages of a client's space.
    pub(in crate::shard) fn retained_entry(&self, id: ConnId) -> Option<Arc<AddressEntry>> {
        let (space, _) = self.fabric.conns.get(id.key())?.access.as_ref()?;
        self.table.space(*space)?.mqtt().map(|store| Arc::clone(&store.retained))
    }

    /// Keeps a publication to a multicast or a stream as the retained message of its topic.
    /// `delivery_id`: that of the publication itself.
    pub(super) fn retain(&mut self, id: ConnId, publish: &Incoming<'_>, entry: &Arc<AddressEntry>, delivery_id: u32) {
        let route = self.route_at(id, PUBLISHER, &entry.name, entry);
        let settled = publish.qos == QoS::AtMostOnce;
        if let Some(attachment) = self.fabric.attachments.get_mut(route.attachment) {
            attachment.unanswered += u32::from(!settled);
        }
        let mut sections = std::mem::take(&mut self.sections);
        if publish.payload.is_empty() {
            let mut removal = publish.clone();
            removal.properties.message_expiry_s = Some(REMOVAL_TTL_S);
            sections.clear();
            message::encode(&mut sections, &removal, self.router.now_ms());
        }
        self.pass_publication(id, (route.attachment, route.home), (delivery_id + 1, None), settled, &sections);
        self.sections = sections;
    }

    /// Attaches the link that reads retained messages.
    pub(super) fn begin_retained(&mut self, id: ConnId) {
        let Some(entry) = self.retained_entry(id) else {
            if let Some(mqtt) = self.mqtt(id) {
                mqtt.reads.refused();
            }
            return;
        };
        let source = Source {
            address: Some(entry.name.to_string()),
            distribution_mode: Some(Symbol::constant("copy")),
            ..Source::default()
        };
        let mut attach = request("retained".to_owned());
        attach.source = Some(Box::new(source));
        let entries = [entry];
        match self.terms(id, &attach, &entries) {
            Ok(terms) => self.attach_at(id, RETAINED, &attach, &entries, &entries[0].name, &terms),
            Err(error) => self.refuse_attach(id, RETAINED, String::new(), error),
        }
        self.refuse_attaches();
        self.fabric.mark(id.key);
    }

    pub(super) fn read_retained(&mut self, id: ConnId) {
        self.granted(id, RETAINED, BATCH, true);
    }

    pub(super) fn end_retained(&mut self, id: ConnId) {
        self.release(id, &[RETAINED], &Departure::silent(Ending::ByClient, true));
    }
}
