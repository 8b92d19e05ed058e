//! Topics of the node's own below `$SYS` (4.7.2): what it counts of the client's address space.
//!
//! No message of them is stored: each subscriber gets the present values with QoS 0 when it
//! subscribes, and every [`INTERVAL_MS`].

use std::sync::Arc;

use enmasse_amqp::types::{Error, condition};
use enmasse_mqtt::codec::{PublishProperties, QoS, ReasonCode, SubscriptionIds};
use enmasse_mqtt::connection::Outgoing;
use enmasse_mqtt::topic;

use crate::plan::Operation;
use crate::shard::mqtt::filters::{FilterState, is_of_system};
use crate::shard::{ConnId, OUTPUT_HIGH_BYTES, Shard};
use crate::table::Space;

/// Time between the values that a subscriber gets, in milliseconds.
pub(in crate::shard) const INTERVAL_MS: u64 = 10_000;

/// The topics and their values. Those that Mosquitto has too have its names.
fn values(space: &Space, uptime_s: u64) -> [(&'static str, String); 8] {
    let ((connections, links), carried) = (space.taken(), space.traffic().total());
    [
        ("$SYS/broker/version", concat!("EnMasse ", env!("CARGO_PKG_VERSION")).to_owned()),
        ("$SYS/broker/uptime", format!("{uptime_s} seconds")),
        ("$SYS/broker/clients/connected", connections.to_string()),
        ("$SYS/broker/links/attached", links.to_string()),
        ("$SYS/broker/messages/received", carried.messages_in.to_string()),
        ("$SYS/broker/messages/sent", carried.messages_out.to_string()),
        ("$SYS/broker/bytes/received", carried.bytes_in.to_string()),
        ("$SYS/broker/bytes/sent", carried.bytes_out.to_string()),
    ]
}

impl Shard {
    /// Subscribes a filter of topics of the node's own.
    ///
    /// # Errors
    /// `amqp:unauthorized-access` without the right to receive from it; `amqp:not-implemented` for a
    /// shared subscription.
    pub(super) fn subscribe_system(&mut self, id: ConnId, text: &Arc<str>, state: FilterState) -> Result<(), Error> {
        if state.group.is_some() {
            let what = "topics below $SYS have no shared subscriptions: subscribe without $share";
            return Err(Error::new(condition::NOT_IMPLEMENTED, what));
        }
        self.fabric.conns[id.key()].check_right(Operation::Recv, &state.name)?;
        self.attach_filter(id, text, state, &[]);
        let now = self.fabric.now;
        let Some(mqtt) = self.mqtt(id) else { return Ok(()) };
        if let Some(answering) = mqtt.answering.front_mut() {
            answering.accepted();
        }
        mqtt.system_due = Some(now);
        Ok(())
    }

    /// Sends the present values to a subscriber. One whose right has ended is disconnected, as with
    /// any subscription.
    pub(super) fn publish_system(&mut self, id: ConnId) {
        let now = self.fabric.now;
        let conn = &self.fabric.conns[id.key()];
        let Some(mqtt) = conn.machine.mqtt() else { return };
        let filters = mqtt.filters.iter().filter(|(text, _)| is_of_system(text));
        let filters: Vec<_> =
            filters.map(|(text, state)| (Arc::clone(text), Arc::clone(&state.name), state.id)).collect();
        let may_all = filters.iter().all(|(_, name, _)| conn.check_right(Operation::Recv, name).is_ok());
        let space = conn.access.as_ref().and_then(|(space, _)| self.table.space(*space));
        let values = space.map(|space| values(space, now.as_micros() / 1_000_000));
        let Some(mqtt) = self.mqtt(id) else { return };
        if !may_all {
            return mqtt.disconnect(ReasonCode::NotAuthorized, "the right to receive from $SYS has ended");
        }
        mqtt.system_due = (!filters.is_empty()).then(|| now.plus_millis(INTERVAL_MS));
        if mqtt.output().len() > OUTPUT_HIGH_BYTES {
            // The client does not read. QoS 0 may be lost, and the next values follow.
            return;
        }
        for (name, value) in values.iter().flatten() {
            for (_, _, subscription_id) in filters.iter().filter(|(text, ..)| topic::matches(text, name)) {
                let subscription_ids = match subscription_id {
                    Some(id) => SubscriptionIds::List(std::slice::from_ref(id)),
                    None => SubscriptionIds::None,
                };
                let properties = PublishProperties { subscription_ids, ..PublishProperties::default() };
                let payload = [value.as_bytes()];
                let qos = QoS::AtMostOnce;
                let outgoing = Outgoing { topic: name, qos, retain: true, dup: false, properties, payload: &payload };
                // One that the client cannot take is lost, as QoS 0 allows.
                let _ = mqtt.machine.send_at_most_once(&outgoing);
            }
        }
        self.fabric.mark(id.key);
    }
}
