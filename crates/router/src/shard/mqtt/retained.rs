//! Retained messages (3.3.1.3): the last message of each topic, in a queue of the space that no
//! name resolves to.
//!
//! A publication with RETAIN goes to its address and to that queue; an empty one removes the
//! message of its topic. A new subscription browses the queue once.

use std::collections::VecDeque;
use std::sync::Arc;

use enmasse_amqp::codec::scan;
use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Source, Symbol};
use enmasse_mqtt::codec::{QoS, RetainHandling};
use enmasse_mqtt::connection::{Incoming, Outgoing};

use super::sending::Fate;
use super::{Mqtt, PUBLISHER, StepOf, message, subscribing};
use crate::core::{AddressKind, Delivery, Ending};
use crate::shard::departing::Departure;
use crate::shard::{ConnId, Shard};
use crate::table::AddressEntry;

/// The link that reads retained messages.
pub(super) const RETAINED: LinkId = LinkId(2);
/// Messages requested at once.
const BATCH: u32 = 256;
/// How long the empty message is kept that removes another, in milliseconds.
const REMOVAL_TTL_S: u32 = 1;

/// The reads of retained messages of one client.
#[derive(Default)]
pub(super) struct Reads {
    /// filters that wait, each with its turn
    waiting: VecDeque<Arc<str>>,
    /// filters of the read in progress
    current: Vec<Arc<str>>,
    state: ReadState,
    /// messages of the batch so far
    delivered: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ReadState {
    #[default]
    Idle,
    /// the link attaches
    Attaching,
    /// the next batch is due
    Attached,
    /// a batch was requested
    Reading,
    /// all messages are read
    Ended,
}

impl Reads {
    /// A filter is subscribed: reads the retained messages that it wants.
    pub(super) fn subscribed(&mut self, filter: &Arc<str>, handling: RetainHandling, is_new: bool) {
        let wants = match handling {
            RetainHandling::Send => true,
            RetainHandling::SendIfNew => is_new,
            RetainHandling::DoNotSend => false,
        };
        // Not for shared subscriptions (4.8.2).
        if wants && !filter.starts_with("$share/") {
            self.waiting.push_back(Arc::clone(filter));
        }
    }

    pub(super) fn next_step(&mut self) -> Option<StepOf> {
        match self.state {
            ReadState::Idle if !self.waiting.is_empty() => {
                self.current = self.waiting.drain(..).collect();
                self.state = ReadState::Attaching;
                Some(StepOf::BeginRetained)
            }
            ReadState::Attached => {
                (self.state, self.delivered) = (ReadState::Reading, 0);
                Some(StepOf::ReadRetained)
            }
            ReadState::Ended => {
                (self.state, self.current) = (ReadState::Idle, Vec::new());
                Some(StepOf::EndRetained)
            }
            ReadState::Idle | ReadState::Attaching | ReadState::Reading => None,
        }
    }

    pub(super) fn has_step(&self) -> bool {
        match self.state {
            ReadState::Idle => !self.waiting.is_empty(),
            ReadState::Attached | ReadState::Ended => true,
            ReadState::Attaching | ReadState::Reading => false,
        }
    }

    pub(super) fn accepted(&mut self) {
        self.state = ReadState::Attached;
    }

    pub(super) fn refused(&mut self) {
        (self.state, self.current) = (ReadState::Idle, Vec::new());
    }

    /// All messages that waited for the credit have come.
    pub(super) fn drained(&mut self) {
        if self.state == ReadState::Reading {
            self.state = if self.delivered >= BATCH { ReadState::Attached } else { ReadState::Ended };
        }
    }

    pub(super) fn credit(&self) -> u32 {
        if self.state == ReadState::Reading { BATCH.saturating_sub(self.delivered) } else { 0 }
    }
}

/// Whether addresses of a kind keep retained messages. A queue or anycast address has one consumer
/// for each message.
pub(super) const fn keeps(kind: AddressKind) -> bool {
    matches!(kind, AddressKind::Topic | AddressKind::Multicast | AddressKind::Stream)
}

impl Mqtt {
    /// Sends a retained message to the client, if one of its new filters matches it.
    pub(super) fn send_retained(&mut self, delivery: &Delivery<'_>) -> Fate {
        if delivery.first {
            self.reads.delivered += 1;
            self.retained_parts.clear();
        }
        if delivery.aborted {
            return Fate::Pending;
        }
        if delivery.more || !self.retained_parts.is_empty() {
            self.retained_parts.extend_from_slice(delivery.payload);
            if delivery.more {
                return Fate::Pending;
            }
        }
        let parts = std::mem::take(&mut self.retained_parts);
        let sections = if parts.is_empty() { delivery.payload } else { &parts[..] };
        let Some(topic) = scan::to(sections) else { return Fate::Done };
        let matching: Vec<Arc<str>> =
            self.reads.current.iter().filter(|filter| enmasse_mqtt::topic::matches(filter, topic)).cloned().collect();
        if matching.is_empty() {
            return Fate::Done;
        }
        let message = message::decode(sections);
        if message.payload.iter().all(|part| part.is_empty()) {
            return Fate::Done;
        }
        let payload: Vec<&[u8]> = message.payload.iter().map(|part| &**part).collect();
        for filter in matching {
            let Some(state) = self.filters.get(&filter) else { continue };
            let qos = message.qos.min(state.options.qos);
            let outgoing = Outgoing {
                topic,
                qos,
                retain: true,
                dup: false,
                properties: message.properties(state.id.as_slice()),
                payload: &payload,
            };
            // A message that does not fit is handled as if it were delivered [5: 3.1.2-25]. The
            // client's acknowledgement changes nothing: the message stays.
            let _ = match qos {
                QoS::AtMostOnce => self.machine.send_at_most_once(&outgoing),
                _ => self.machine.send_publish(&outgoing, 0).map(|_| ()),
            };
        }
        Fate::Done
    }
}

impl Shard {
    /// The queue of retained messages of a client's space.
    pub(super) fn retained_entry(&self, id: ConnId) -> Option<Arc<AddressEntry>> {
        let (space, _) = self.fabric.conns.get(id.key())?.access.as_ref()?;
        self.table.space(*space)?.mqtt().map(|store| Arc::clone(&store.retained))
    }

    /// Keeps a publication as the retained message of its topic. `delivery_id`: that of the
    /// publication itself.
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
            message::encode(&mut sections, &removal);
        }
        self.pass_publication(id, (route.attachment, route.home), delivery_id + 1, settled, &sections);
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
        let mut attach = subscribing::request("retained".to_owned());
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
