//! Addresses that are created on demand (`docs/contracts.md` 6) for clients of MQTT.
//!
//! A PUBLISH or a filter that names no address, in a space that creates it, waits in the connection
//! as an attach does: later packets wait, too. It continues once the address is there. If it is
//! refused, or not there in time, the packet is answered as any other of an undeclared name.

use enmasse_amqp::types::{Attach, Error, Role};
use enmasse_mqtt::codec::publish_topic;

use crate::shard::mqtt::CREATION;
use crate::shard::mqtt::links::request;
use crate::shard::{ConnId, Shard};
use crate::table::Resolved;

impl Shard {
    /// Requests the address of a PUBLISH that is about to be read. Whether the packet waits for it.
    pub(super) fn creates_for_publish(&mut self, id: ConnId, packet: &[u8]) -> bool {
        let conn = &self.fabric.conns[id.key()];
        let space = conn.access.as_ref().and_then(|(space, _)| self.table.space(*space));
        if space.is_none_or(|space| !space.creates_addresses()) {
            return false;
        }
        // A topic alias stands for a topic that was published before.
        let Some(topic) = publish_topic(packet).filter(|topic| !topic.is_empty()) else { return false };
        self.creates(id, Role::Sender, topic)
    }

    /// Requests the address of a name. Whether the packet that has it waits.
    pub(super) fn creates(&mut self, id: ConnId, role: Role, name: &str) -> bool {
        let Some(mqtt) = self.mqtt(id) else { return false };
        // The answer to the last request: the packet continues without an address.
        if std::mem::take(&mut mqtt.not_created) {
            return false;
        }
        let conn = &self.fabric.conns[id.key()];
        let space = conn.access.as_ref().and_then(|(space, _)| self.table.space(*space));
        if !space.is_some_and(|space| matches!(space.look_up_literally(name), Resolved::Creatable)) {
            return false;
        }
        let attach = Box::new(Attach { role, ..request("mqtt".to_owned()) });
        // Without the right to create it the name is an undeclared one.
        let waiting: Result<Option<Box<Attach>>, Error> = self.create_first(id, CREATION, attach, name);
        matches!(waiting, Ok(None))
    }
}
