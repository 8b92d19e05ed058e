//! The least that can be called an AMQP 1.0 router: the limit that the node is measured against.
//!
//! One thread, one anycast address per name, credit handed through from consumers to producers,
//! transfers copied under a new head, dispositions mapped back in ranges. No rights, no management,
//! no other outcome than accepted; one session and one link a connection, one frame a delivery,
//! SASL ANONYMOUS or none, loopback only. So it is an upper bound for a router on a machine, not a
//! rival.

mod connection;
mod forwarder;
mod wire;

pub use forwarder::Forwarder;
