//! The operator's settings for every connection of one kind; shared by all of them behind an `Arc`.

use std::sync::Arc;

use crate::codec::frame::MIN_MAX_FRAME_SIZE;
use crate::types::{Fields, Open, Symbol};

/// Limits and names of a connection machine.
#[derive(Clone, Debug)]
pub struct Config {
    /// Our container id (2.4.1), for an `open` that the machine has to write by itself.
    pub container_id: Arc<str>,
    /// Largest frame we take, in bytes; at least 512 (2.7.1). The peer's own limit bounds what we
    /// write.
    pub max_frame_size: u32,
    /// Highest channel we take; sessions a connection less one (2.7.1).
    pub channel_max: u16,
    /// Highest handle we take; links a session less one (2.7.2).
    pub handle_max: u32,
    /// Milliseconds after which a silent peer must send an empty frame. We close the connection
    /// after twice that time without a frame (2.4.5). `None`: no time-out.
    pub idle_time_out_ms: Option<u32>,
    /// Milliseconds from the first byte to the end of the `open` exchange, and from our `close` to
    /// the peer's.
    pub handshake_ms: u32,
    /// Transfer frames that a session takes before it must be granted more (2.5.6).
    pub session_window: u32,
    /// Deliveries of ours that may be unsettled in one session at a time.
    pub unsettled_max: u32,
    /// Deliveries beyond its credit that a link may send after our detach, because they may have
    /// been in flight. One more ends its session.
    pub uncredited_max: u32,
    /// Number of our first transfer frame and of our first delivery in each session. Zero but in
    /// tests of the serial number arithmetic (RFC 1982) of the standard.
    pub first_id: u32,
    /// Capabilities of an `open` that the machine has to write by itself.
    pub offered_capabilities: Vec<Symbol>,
    /// Properties of an `open` that the machine has to write by itself.
    pub properties: Fields,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            container_id: Arc::from("enmasse"),
            max_frame_size: 131_072,
            channel_max: 255,
            handle_max: 65_535,
            idle_time_out_ms: Some(60_000),
            handshake_ms: 10_000,
            session_window: 4096,
            unsettled_max: 65_536,
            uncredited_max: 1000,
            first_id: 0,
            offered_capabilities: Vec::new(),
            properties: Fields::new(),
        }
    }
}

impl Config {
    /// Bytes of the largest frame we take, within what the standard allows.
    pub(crate) fn frame_limit(&self) -> u32 {
        self.max_frame_size.max(MIN_MAX_FRAME_SIZE)
    }

    /// The `open` performative for these settings.
    #[must_use]
    pub fn open(&self) -> Open {
        Open {
            container_id: self.container_id.to_string(),
            max_frame_size: self.frame_limit(),
            channel_max: self.channel_max,
            idle_time_out: self.idle_time_out_ms,
            offered_capabilities: self.offered_capabilities.clone(),
            properties: self.properties.clone(),
            ..Open::default()
        }
    }
}

/// Whether a server accepts a client without the SASL layer (5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaslPolicy {
    /// the client must speak SASL first; any other protocol header is answered with SASL's header
    /// and a closed connection
    Required,
    /// the client chooses between SASL and the plain AMQP header
    Optional,
}
