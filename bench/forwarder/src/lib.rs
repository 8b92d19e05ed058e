//! A minimal AMQP 1.0 router: the limit that the node is measured against.
//!
//! One thread, one anycast address per name, credit passed on from consumers to producers,
//! transfers copied with a new head, dispositions mapped back in ranges. No rights, no management,
//! no other outcome than accepted; one session and one link per connection, one frame per delivery,
//! SASL ANONYMOUS or none, loopback only. So it is an upper bound for a router on a machine, not a
//! complete one. `mqtt` is the same for MQTT.

mod connection;
mod forwarder;
mod mqtt;
mod wire;

pub use forwarder::Forwarder;
pub use mqtt::MqttEcho;
