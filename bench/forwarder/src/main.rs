//! A bare AMQP 1.0 forwarder: the limit that the node is measured against.
fn main() {}
