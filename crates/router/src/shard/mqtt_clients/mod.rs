//! Clients of MQTT: their packets as links, deliveries and outcomes of the shard
//! (`docs/decisions/0074-mqtt-connections.md`). `mqtt` has the state of each connection.
//!
//! `input` handles packets and continues what they have begun, `login` CONNECT, `publishing`
//! messages, `subscribing` filters, `system` those of `$SYS`, `retained` retained messages,
//! `sessions` what outlives a connection, `creating` addresses on demand, `packet_ids` the progress
//! of QoS 2, `absent` those whose connection has ended. `agents` have the wills of AMQP clients,
//! `subscription_agents` their subscriptions, and `administration` lists and ends sessions for
//! management.

mod absent;
mod administration;
mod agents;
mod creating;
mod input;
mod login;
mod packet_ids;
mod publishing;
mod retained;
mod sessions;
mod subscribing;
mod subscription_agents;
mod system;

pub(super) use absent::AbsentSessions;
pub use administration::{ConnectedSession, RecordedSession};
pub use agents::SessionOwner;
