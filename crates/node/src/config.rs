//! The start configuration of a node. All other settings are in the Plan.

use std::fmt;
use std::path::PathBuf;

use aws_lc_rs::digest;
use enmasse_journal::log::{self, GROUP_BYTES_MAX};
use enmasse_router::core::SETTLE_TIMEOUT_MS;
use enmasse_router::shard::{OUTPUT_HIGH_BYTES, Protocol};
use enmasse_router::table::LINK_CAPACITY_MAX;
use ipnet::IpNet;
use serde::Deserialize;

use crate::error::NodeError;

/// Descriptors of the limit of open files that are reserved for listeners, poll sets, wakers and
/// files.
const RESERVED_DESCRIPTORS: u64 = 64;
/// Minimum length of a secret: it cannot be guessed even if each character has only four bits.
const DUMMY_CREDENTIAL_SECRET_LENGTH_MIN: usize = 32;
/// The minimum of the log: four blocks.
const JOURNAL_SEGMENT_BYTES_MIN: u32 = 16 << 10;
/// The bound of one worker for partial deliveries.
const RECEIVE_BUDGET_BYTES_MIN: u64 = 64 << 20;
/// More workers than this gain nothing, and an attachment names its shard in 16 bits.
const WORKERS_MAX: u16 = 256;

/// How a node is started.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NodeConfig {
    /// Worker threads; 0: one per core.
    pub workers: u16,
    /// `container-id` sent to every peer.
    pub container_id: String,
    /// Allows passwords without TLS from other machines too. Default: only on loopback.
    pub insecure: bool,
    /// The secret from which the salts of unknown users are derived. They must survive a restart
    /// like those of known users. `None`: a random one at each start.
    pub decoy_secret: Option<DummyCredentialSecret>,
    /// Folder of the journal; without one only in-memory addresses can be stored.
    pub journal: Option<PathBuf>,
    /// Bytes of a journal segment; the journal creates three at its start and keeps up to six empty
    /// ones. 64 MiB by default, at least 16 KiB; small ones for a small disk.
    pub journal_segment_bytes: u32,
    /// Deletes messages whose address is unknown because all its declarations are damaged.
    pub discard_unnamed: bool,
    /// Networks of the proxies whose TCP connections begin with a header of the PROXY protocol,
    /// version 2, on every listener. Connections of other peers have none. Default: no proxies.
    pub proxies: Vec<IpNet>,
    /// Bounds; the defaults suit a laptop and a server.
    pub limits: Limits,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            workers: 0,
            container_id: "enmasse".to_owned(),
            insecure: false,
            decoy_secret: None,
            journal: None,
            journal_segment_bytes: log::Config::default().segment_bytes,
            discard_unnamed: false,
            proxies: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// A random secret, kept by the operator.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct DummyCredentialSecret(pub String);

impl DummyCredentialSecret {
    pub(crate) fn bytes(&self) -> [u8; 32] {
        let digest = digest::digest(&digest::SHA256, self.0.as_bytes());
        std::array::from_fn(|place| digest.as_ref()[place])
    }
}

impl fmt::Debug for DummyCredentialSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DecoySecret")
    }
}

/// The bounds of one node.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// Connections open at once; `None`: the limit of open files less 64. At the bound accepting
    /// pauses: new connections wait in the listener's backlog.
    pub connections: Option<usize>,
    /// Milliseconds from accept to the end of the TLS and WebSocket handshakes, and again to the
    /// AMQP open. Others choose 10 s (Artemis) to 60 s.
    pub handshake_timeout_ms: u64,
    /// Idle time-out of peers in milliseconds; announced at open. `None`: never.
    pub idle_timeout_ms: Option<u32>,
    /// Largest frame accepted, in bytes; announced at open.
    pub max_frame_size_bytes: u32,
    /// Link credit of a sender whose address sets none.
    pub link_capacity: u32,
    /// Pending output of a connection, in bytes, above which it is closed at once. Its consumers
    /// lose their credit long before (`OUTPUT_HIGH_BYTES`), so only a peer that causes output
    /// without reading reaches this bound.
    pub output_hard_bytes: usize,
    /// Milliseconds that the publications of a client of MQTT are not read while an address holds
    /// them back; then they are refused.
    pub mqtt_hold_ms: u64,
    /// Milliseconds that an unsettled multicast message waits for the outcome of a consumer after
    /// another consumer has settled; then the late consumer's copy counts as released.
    pub multicast_settle_timeout_ms: u64,
    /// Received bytes that are not yet stored. Above this bound the spaces with the most of them
    /// are not read.
    pub receive_budget_bytes: u64,
    /// Milliseconds that the peer of a closing connection has to read our last bytes.
    pub linger_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: None,
            handshake_timeout_ms: 10_000,
            idle_timeout_ms: Some(60_000),
            max_frame_size_bytes: 131_072,
            link_capacity: 1000,
            output_hard_bytes: 8 * 1024 * 1024,
            mqtt_hold_ms: 10_000,
            multicast_settle_timeout_ms: SETTLE_TIMEOUT_MS,
            receive_budget_bytes: 1 << 30,
            linger_ms: 1_000,
        }
    }
}

impl NodeConfig {
    /// Reads a configuration from JSON.
    ///
    /// # Errors
    /// `Config` for JSON that is no configuration, or a value out of its bounds.
    pub fn from_json(json: &str) -> Result<Self, NodeError> {
        let config: Self = serde_json::from_str(json)
            .map_err(|error| NodeError::Config { field: "configuration", reason: error.to_string() })?;
        config.check()?;
        Ok(config)
    }

    /// How many workers to start.
    #[must_use]
    pub(crate) fn worker_count(&self) -> u16 {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, |cores| cores.get().min(WORKERS_MAX.into()) as u16),
            given => given,
        }
    }

    pub(crate) fn check(&self) -> Result<(), NodeError> {
        let limits = &self.limits;
        let wrong = |field, reason: &str| Err(NodeError::Config { field, reason: reason.to_owned() });
        if self.workers > WORKERS_MAX {
            return wrong("workers", "must be at most 256; 0 means one for each core");
        }
        if self.container_id.is_empty() {
            return wrong("containerId", "is empty; give the node a name");
        }
        if self.decoy_secret.as_ref().is_some_and(|secret| secret.0.len() < DUMMY_CREDENTIAL_SECRET_LENGTH_MIN) {
            return wrong("decoySecret", "is shorter than 32 characters, so that it could be guessed; make it random");
        }
        if !(JOURNAL_SEGMENT_BYTES_MIN..=GROUP_BYTES_MAX).contains(&self.journal_segment_bytes) {
            return wrong("journalSegmentBytes", "must be 16384 to 1073741824");
        }
        if limits.connections == Some(0) {
            return wrong("limits.connections", "is 0: no client could connect; omit it for the system's limit");
        }
        if limits.max_frame_size_bytes < 512 || limits.max_frame_size_bytes > 1 << 20 {
            return wrong("limits.maxFrameSizeBytes", "must be 512 to 1048576");
        }
        if !(1..=LINK_CAPACITY_MAX).contains(&limits.link_capacity) {
            return wrong("limits.linkCapacity", "must be 1 to 100000");
        }
        if limits.output_hard_bytes < 2 * OUTPUT_HIGH_BYTES {
            return wrong(
                "limits.outputHardBytes",
                "must be 1048576 or more: twice the output buffer of a slow reader",
            );
        }
        if limits.receive_budget_bytes < RECEIVE_BUDGET_BYTES_MIN {
            return wrong("limits.receiveBudgetBytes", "must be 67108864 (64 MiB) or more");
        }
        if !(100..=3_600_000).contains(&limits.multicast_settle_timeout_ms) {
            return wrong("limits.multicastSettleTimeoutMs", "must be 100 to 3600000");
        }
        if !(100..=3_600_000).contains(&limits.mqtt_hold_ms) {
            return wrong("limits.mqttHoldMs", "must be 100 to 3600000");
        }
        Ok(())
    }
}

impl Limits {
    /// Connections open at once, resolved against the limit of open files.
    pub(crate) fn connection_count_max(&self) -> usize {
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        let system = usize::try_from(files.saturating_sub(RESERVED_DESCRIPTORS)).unwrap_or(usize::MAX).max(1);
        self.connections.map_or(system, |wanted| wanted.min(system))
    }
}

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListenerKind {
    /// AMQP over TCP
    Amqp,
    /// AMQP over TLS
    Amqps,
    /// AMQP or MQTT over WebSocket
    Ws,
    /// AMQP or MQTT over WebSocket over TLS
    Wss,
    /// MQTT over TCP
    Mqtt,
    /// MQTT over TLS
    Mqtts,
}

impl ListenerKind {
    /// The kind of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "amqp" => Some(Self::Amqp),
            "amqps" => Some(Self::Amqps),
            "ws" => Some(Self::Ws),
            "wss" => Some(Self::Wss),
            "mqtt" => Some(Self::Mqtt),
            "mqtts" => Some(Self::Mqtts),
            _ => None,
        }
    }

    /// Whether it uses TLS.
    #[must_use]
    pub fn is_secure(self) -> bool {
        matches!(self, Self::Amqps | Self::Wss | Self::Mqtts)
    }

    /// The protocol of its clients. Those of a WebSocket choose theirs by subprotocol.
    #[must_use]
    pub fn protocol(self) -> Protocol {
        if matches!(self, Self::Mqtt | Self::Mqtts) { Protocol::Mqtt } else { Protocol::Amqp }
    }

    /// Whether a WebSocket carries the bytes.
    #[must_use]
    pub fn is_web_socket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }
}

/// Where to listen, and how.
#[derive(Clone, Debug)]
pub struct Listener {
    /// protocol
    pub kind: ListenerKind,
    /// name or address to bind
    pub host: String,
    /// port; 0: a free one
    pub port: u16,
    /// needed for the secure kinds, refused for the others
    pub tls: Option<TlsFiles>,
}

/// PEM files of a secure listener. They are checked at each new connection: a changed certificate
/// serves the next handshake; unusable files leave the former ones in force.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TlsFiles {
    /// certificate chain, the server's own first
    pub certificate: PathBuf,
    /// its private key
    pub key: PathBuf,
    /// CA of client certificates, which are accepted but not required
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_may_be_empty() {
        let config = NodeConfig::from_json("{}").unwrap();
        assert!(config.worker_count() >= 1);
        assert_eq!(config.limits.handshake_timeout_ms, 10_000);
    }

    #[test]
    fn unknown_field_or_out_of_bounds_value_is_named_in_the_error() {
        let unknown = NodeConfig::from_json(r#"{"wrkers": 2}"#).unwrap_err().to_string();
        assert!(unknown.contains("wrkers"), "{unknown}");
        let small = NodeConfig::from_json(r#"{"limits": {"maxFrameSizeBytes": 100}}"#).unwrap_err().to_string();
        assert!(small.contains("maxFrameSizeBytes") && small.contains("512"), "{small}");
        let none = NodeConfig::from_json(r#"{"limits": {"linkCapacity": 0}}"#).unwrap_err().to_string();
        assert!(none.contains("linkCapacity") && none.contains("100000"), "{none}");
        let little = NodeConfig::from_json(r#"{"limits": {"receiveBudgetBytes": 1000}}"#).unwrap_err().to_string();
        assert!(little.contains("receiveBudgetBytes") && little.contains("67108864"), "{little}");
        let tiny = NodeConfig::from_json(r#"{"journalSegmentBytes": 4096}"#).unwrap_err().to_string();
        assert!(tiny.contains("journalSegmentBytes") && tiny.contains("16384"), "{tiny}");
        let short = NodeConfig::from_json(r#"{"decoySecret": "abc"}"#).unwrap_err().to_string();
        assert!(short.contains("decoySecret") && !short.contains("abc"), "{short}");
    }

    #[test]
    fn connection_bound_never_exceeds_the_open_file_limit() {
        let generous = Limits { connections: Some(usize::MAX), ..Limits::default() };
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap();
        assert!(generous.connection_count_max() as u64 <= files - RESERVED_DESCRIPTORS);
        assert_eq!(Limits { connections: Some(3), ..Limits::default() }.connection_count_max(), 3);
    }
}
