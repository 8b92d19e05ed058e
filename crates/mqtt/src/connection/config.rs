//! The operator's settings for every connection of one kind; shared by all of them behind an `Arc`.

/// Limits of a connection machine. They bound its memory: inbound topic aliases take at most
/// `topic_alias_maximum` names, outgoing ones `outgoing_alias_max`, of at most 65,535 bytes each;
/// deliveries 16 bytes for each of `send_window_max`, and 8 for each packet identifier that the client
/// uses, of which there are `receive_maximum` with 5.0 and 65,535 with 3.x; output is bounded by
/// `output_max_bytes` and one packet.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes of the largest packet we take after CONNECT (3.2.2.3.6).
    pub packet_size_max_bytes: u32,
    /// Bytes of the largest CONNECT and AUTH we take, before anyone has logged in.
    pub connect_size_max_bytes: u32,
    /// PUBLISH packets with QoS 1 and 2 that we take without having answered (3.2.2.3.3), one at least.
    /// A client of 5.0 that sends more is disconnected. One of 3.x, which has no such bound, is not read
    /// while so many wait for the driver.
    pub receive_maximum: u16,
    /// Deliveries with QoS 1 and 2 that may be unacknowledged by the client; its own receive
    /// maximum may be lower. At least 1.
    pub send_window_max: u16,
    /// The highest topic alias we take (3.2.2.3.8); 0: none.
    pub topic_alias_maximum: u16,
    /// The highest topic alias we use, if the client's maximum allows it; 0: none, at most 64. The
    /// least recently used topic gives up its alias.
    pub outgoing_alias_max: u16,
    /// SUBSCRIBE and UNSUBSCRIBE packets without an answer; nothing is read beyond that.
    pub requests_max: u16,
    /// Bytes of output at which nothing more is read, so that answers to a client that does not
    /// read stay bounded.
    pub output_max_bytes: usize,
    /// Milliseconds from the start to the answer of CONNECT, enhanced authentication included.
    pub handshake_ms: u32,
    /// The longest keep-alive in seconds; a client that asks for more, or for none, is told this
    /// one with 5.0 (3.2.2.3.14), and with 3.x held to its own wish. 0: no limit.
    pub keep_alive_max_s: u16,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            packet_size_max_bytes: 1024 * 1024 + 65_536,
            connect_size_max_bytes: 262_144,
            receive_maximum: 1000,
            send_window_max: 1000,
            topic_alias_maximum: 10,
            outgoing_alias_max: 10,
            requests_max: 32,
            output_max_bytes: 1024 * 1024,
            handshake_ms: 10_000,
            keep_alive_max_s: 0,
        }
    }
}
