//! Deliveries to a client: from the sections of an address to PUBLISH, and the client's
//! acknowledgement back to the address.

use enmasse_amqp::connection::LinkId;
use enmasse_mqtt::codec::QoS;
use enmasse_mqtt::connection::{Outgoing, SendError};
use smallvec::SmallVec;

use super::links::{FIRST_SUBSCRIPTION, Fate, RECORD, RETAINED};
use super::outbound::Outbound;
use super::{CREDIT, DeliveryParts, Mqtt, message};
use crate::core::Delivery;

impl Mqtt {
    /// Sends a delivery once it is complete.
    pub(in crate::shard) fn send(&mut self, link: LinkId, delivery: &Delivery<'_>) -> Fate {
        if link == RETAINED {
            if delivery.first && self.room() == 0 {
                return Fate::NoRoom;
            }
            return self.send_retained(delivery);
        }
        if link == RECORD {
            return self.take_record(delivery);
        }
        if delivery.aborted {
            self.end_parts(link);
            return Fate::Pending;
        }
        if delivery.first {
            if self.room() == 0 && self.granted_to(link) != QoS::AtMostOnce {
                return Fate::NoRoom;
            }
            let Some(state) = self.link_mut(link) else { return Fate::Done };
            state.delivered = state.delivered.wrapping_add(1);
            if !delivery.more {
                return self.publish(link, delivery.payload, delivery.token, None);
            }
            self.begin_parts(link);
        }
        // The rest of one that was aborted leads to nothing.
        let parts = self.link_mut(link).and_then(|state| state.parts.as_deref_mut());
        let Some(DeliveryParts { bytes, granted }) = parts else { return Fate::Done };
        bytes.extend_from_slice(delivery.payload);
        if delivery.more {
            return Fate::Pending;
        }
        let (bytes, granted) = (std::mem::take(bytes), *granted);
        self.end_parts(link);
        self.publish(link, &bytes, delivery.token, Some(granted))
    }

    /// The highest QoS of deliveries of a link.
    fn granted_to(&self, link: LinkId) -> QoS {
        self.link(link).and_then(|link| self.granted(&link.filter)).unwrap_or_default()
    }

    fn begin_parts(&mut self, link: LinkId) {
        self.end_parts(link);
        let granted = self.granted_to(link);
        if let Some(state) = self.link_mut(link) {
            state.parts = Some(Box::new(DeliveryParts { bytes: Vec::new(), granted }));
            self.reserved += u16::from(granted != QoS::AtMostOnce);
        }
    }

    /// A delivery in parts is complete or aborted: its place is free.
    pub(super) fn end_parts(&mut self, link: LinkId) {
        if let Some(parts) = self.link_mut(link).and_then(|state| state.parts.take()) {
            self.reserved -= u16::from(parts.granted != QoS::AtMostOnce);
        }
    }

    /// Deliveries with QoS 1 and 2 that may begin now: each delivery in parts that has begun has a place.
    pub(super) fn room(&self) -> u16 {
        self.machine.window().saturating_sub(self.reserved)
    }

    /// Whether the address of a link should learn its credit again.
    pub(in crate::shard) fn needs_credit(&mut self, link: LinkId) -> bool {
        if link == RECORD {
            return self.login.is_none();
        }
        let Some(state) = self.link_mut(link) else { return false };
        let due = state.delivered.wrapping_sub(state.credited_at) >= CREDIT / 2;
        if due {
            state.credited_at = state.delivered;
        }
        due
    }

    /// Deliveries that a later one has replaced.
    pub(in crate::shard) fn take_superseded(&mut self) -> Vec<u64> {
        self.session.take_superseded()
    }

    /// `granted`: the highest QoS of its filter when the delivery began, if that was earlier.
    fn publish(&mut self, link: LinkId, sections: &[u8], token: Option<u64>, granted: Option<QoS>) -> Fate {
        let message = message::decode(sections);
        let Self { machine, filters, links, sent, unacknowledged, .. } = self;
        let state = (link.0 as usize).checked_sub(FIRST_SUBSCRIPTION).and_then(|at| links.get(at)?.as_ref());
        let Some(state) = state else { return Fate::Done };
        let Some(filter) = filters.get(&state.filter) else { return Fate::Done };
        let topic = topic_of(&message, &state.entry.name, state.entry.covers_below(), &filter.name);
        if filter.is_checked && !enmasse_mqtt::topic::matches(without_share(&state.filter), topic) {
            return Fate::Done;
        }
        let qos = message.qos.min(granted.unwrap_or(filter.options.qos));
        let payload: SmallVec<[&[u8]; 1]> = message.payload.iter().map(|part| &**part).collect();
        let outgoing = Outgoing {
            topic,
            qos,
            retain: message.retain && filter.options.retain_as_published,
            dup: false,
            properties: message.properties(filter.id.as_slice()),
            payload: &payload,
        };
        let outcome = match token.filter(|_| qos != QoS::AtMostOnce) {
            None => machine.send_at_most_once(&Outgoing { qos: QoS::AtMostOnce, ..outgoing }).map(|()| None),
            Some(token) => machine.send_publish(&outgoing, token).map(|packet_id| Some((packet_id, token))),
        };
        match outcome {
            Ok(None) => Fate::Done,
            Ok(Some((packet_id, token))) => {
                *sent += 1;
                unacknowledged.insert(packet_id, (link, token, *sent));
                Fate::Pending
            }
            // Handled as if it were delivered [5: 3.1.2-25]; a queue keeps it for others.
            Err(SendError::TooLarge) => Fate::TooLarge,
            Err(error) => {
                debug_assert_ne!(error, SendError::WindowFull, "the window was checked");
                Fate::Done
            }
        }
    }
}

/// The topic of a message: its `to`, if that is a name of the address; else the exact name that the
/// client has subscribed, else the name of the address.
fn topic_of<'a>(message: &'a Outbound<'_>, address: &'a str, covers_below: bool, filter: &'a str) -> &'a str {
    let belongs = |to: &str| {
        let below = || to.strip_prefix(address).is_some_and(|rest| rest.starts_with('/'));
        to == address || covers_below && (address == "#" || below())
    };
    match message.topic.as_deref() {
        Some(to) if belongs(to) => to,
        _ if !crate::table::pattern::is_wildcard(filter) => filter,
        _ => address,
    }
}

/// The filter of a shared subscription after `$share/GROUP/`.
fn without_share(filter: &str) -> &str {
    match filter.strip_prefix("$share/").and_then(|rest| rest.split_once('/')) {
        Some((_, filter)) => filter,
        None => filter,
    }
}
