//! The options of an MQTT load.

use std::path::PathBuf;
use std::time::Duration;

use enmasse_client::Error;
use enmasse_client::transport::TlsOptions;
use enmasse_client::url::Url;
use enmasse_mqtt::codec::{QoS, Version};

use crate::options::{BODY_MIN, flag, number, seconds, text};

/// The measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// messages a second, or with `rate` the latency at a fixed rate
    Load,
    /// the cost of an idle connection, each with a subscription of its own
    Idle,
    /// new connections a second
    Connect,
}

/// The options of a run. `Default` is one publisher and one subscriber of QoS 0 messages of 100
/// bytes, at most 500 ahead.
#[derive(Clone, Debug)]
pub struct MqttOptions {
    /// the measurement
    pub mode: Mode,
    /// host, port and user; with TLS for `mqtts`
    pub url: Url,
    /// 3.1.1 or 5.0
    pub version: Version,
    /// QoS of publications and subscriptions: 0 or 1
    pub qos: QoS,
    /// topic of every client; `%d` in it becomes the client's number, modulo `topics`
    pub topic: String,
    /// filter of subscribers, instead of their topic; `%d` as in `topic`
    pub filter: Option<String>,
    /// number of topics that `%d` makes
    pub topics: u32,
    /// publishing connections
    pub publishers: u32,
    /// subscribing connections; every subscriber of a topic gets each of its messages
    pub subscribers: u32,
    /// wildcard filters of one more connection, which match no message
    pub wildcards: u32,
    /// connections of `Idle`
    pub connections: u32,
    /// bytes of a body, at least `BODY_MIN`
    pub body: usize,
    /// messages are published with RETAIN
    pub retain: bool,
    /// QoS 1: publications of each publisher without PUBACK
    pub window: u32,
    /// publications in all that the subscribers have not received; 0: no bound
    pub ahead: u32,
    /// messages a second in all; 0: as fast as the bounds allow
    pub rate: f64,
    /// measured time
    pub duration: Duration,
    /// time before that
    pub warmup: Duration,
    /// trusted certificates
    pub tls: TlsOptions,
    /// processes of the server whose CPU and memory are recorded
    pub pids: Vec<u32>,
    /// sessions outlive their connections
    pub persistent: bool,
    /// connections being opened at a time in `Idle` and `Connect`
    pub parallel: u32,
    /// copied into the report
    pub label: String,
}

impl Default for MqttOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Load,
            url: Url::parse("amqp://127.0.0.1:1883").expect("a literal"),
            version: Version::V311,
            qos: QoS::AtMostOnce,
            topic: "bench".to_owned(),
            filter: None,
            topics: 1,
            publishers: 1,
            subscribers: 1,
            wildcards: 0,
            connections: 0,
            body: 100,
            retain: false,
            window: 200,
            ahead: 500,
            rate: 0.0,
            duration: Duration::from_secs(5),
            warmup: Duration::from_secs(1),
            tls: TlsOptions::default(),
            pids: Vec::new(),
            persistent: false,
            parallel: 64,
            label: String::new(),
        }
    }
}

/// One option: its name, its help, and its parser.
struct Entry {
    name: &'static str,
    help: &'static str,
    set: fn(&mut MqttOptions, &str) -> Result<(), &'static str>,
}

const TABLE: &[Entry] = &[
    Entry { name: "mode", help: "load, idle or connect", set: set_mode },
    Entry { name: "url", help: "mqtt[s]://[user:password@]host[:port]", set: set_url },
    Entry { name: "version", help: "3 (3.1.1) or 5", set: set_version },
    Entry { name: "qos", help: "0 or 1", set: set_qos },
    Entry { name: "topic", help: "topic; %d in it becomes the client's number", set: |o, v| text(&mut o.topic, v) },
    Entry { name: "filter", help: "filter of subscribers (default: the topic)", set: set_filter },
    Entry { name: "topics", help: "number of topics that %d makes", set: |o, v| number(&mut o.topics, v, 1) },
    Entry { name: "publishers", help: "publishing connections", set: |o, v| number(&mut o.publishers, v, 0) },
    Entry { name: "subscribers", help: "subscribing connections", set: |o, v| number(&mut o.subscribers, v, 0) },
    Entry {
        name: "wildcards",
        help: "wildcard filters of one more connection",
        set: |o, v| number(&mut o.wildcards, v, 0),
    },
    Entry { name: "connections", help: "idle connections", set: |o, v| number(&mut o.connections, v, 0) },
    Entry { name: "body", help: "bytes of a body, 28 at least", set: set_body },
    Entry { name: "retain", help: "true: publish retained messages", set: |o, v| flag(&mut o.retain, v) },
    Entry { name: "window", help: "QoS 1: publications without PUBACK", set: set_window },
    Entry {
        name: "ahead",
        help: "publications not received yet (0: no bound)",
        set: |o, v| number(&mut o.ahead, v, 0),
    },
    Entry { name: "rate", help: "messages a second in total (0: as fast as possible)", set: set_rate },
    Entry { name: "duration", help: "seconds measured", set: |o, v| seconds(&mut o.duration, v) },
    Entry { name: "warmup", help: "seconds of warm-up before the measurement", set: |o, v| seconds(&mut o.warmup, v) },
    Entry { name: "ca", help: "file of trusted authorities", set: set_ca },
    Entry { name: "insecure", help: "true: accept any certificate", set: |o, v| flag(&mut o.tls.insecure, v) },
    Entry { name: "pids", help: "server processes, separated by commas", set: set_pids },
    Entry { name: "persistent", help: "true: sessions outlive connections", set: |o, v| flag(&mut o.persistent, v) },
    Entry { name: "parallel", help: "connections opened at a time", set: |o, v| number(&mut o.parallel, v, 1) },
    Entry { name: "label", help: "copied into the report", set: |o, v| text(&mut o.label, v) },
];

impl MqttOptions {
    /// Sets one option by its name and text.
    ///
    /// # Errors
    /// `Invalid`, naming the option and its values.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let entry = TABLE.iter().find(|entry| entry.name == name);
        let entry = entry.ok_or_else(|| Error::invalid(format!("option {name:?} is unknown")))?;
        (entry.set)(self, value).map_err(|wanted| Error::invalid(format!("option {name}: {value:?} is not {wanted}")))
    }

    /// One line for each option.
    #[must_use]
    pub fn help() -> String {
        TABLE.iter().map(|entry| format!("  --{:<12} {}\n", entry.name, entry.help)).collect()
    }

    /// Errors that concern several options.
    ///
    /// # Errors
    /// `Invalid`, naming the conflicting options.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.mode == Mode::Load && self.publishers + self.subscribers == 0 {
            return Err(Error::invalid("publishers and subscribers: at least one connection is necessary"));
        }
        if self.mode == Mode::Idle && self.connections == 0 {
            return Err(Error::invalid("connections: give the number of idle connections"));
        }
        if self.topics > 1 && !self.topic.contains("%d") {
            return Err(Error::invalid("topic: it must contain %d, for the number, with topics above 1"));
        }
        Ok(())
    }

    pub(super) fn topic_of(&self, number: u32) -> String {
        self.topic.replacen("%d", &(number % self.topics).to_string(), 1)
    }

    pub(super) fn filter_of(&self, number: u32) -> String {
        match &self.filter {
            Some(filter) => filter.replacen("%d", &(number % self.topics).to_string(), 1),
            None => self.topic_of(number),
        }
    }

    /// Subscribers that get each message.
    pub(super) fn copies(&self) -> u64 {
        match &self.filter {
            Some(_) => u64::from(self.subscribers),
            None => u64::from(self.subscribers / self.topics),
        }
    }
}

fn set_mode(options: &mut MqttOptions, value: &str) -> Result<(), &'static str> {
    options.mode = match value {
        "load" => Mode::Load,
        "idle" => Mode::Idle,
        "connect" => Mode::Connect,
        _ => return Err("load, idle or connect"),
    };
    Ok(())
}

/// The client library knows the transports by the names of AMQP.
fn set_url(options: &mut MqttOptions, value: &str) -> Result<(), &'static str> {
    let wanted = "mqtt://host or mqtts://host, with user and port";
    let (scheme, rest) = value.split_once("://").ok_or(wanted)?;
    let (scheme, port) = match scheme {
        "mqtt" => ("amqp", 1883),
        "mqtts" => ("amqps", 8883),
        _ => return Err(wanted),
    };
    let mut url = Url::parse(&format!("{scheme}://{rest}")).map_err(|_| wanted)?;
    let host = rest.rsplit('@').next().unwrap_or(rest);
    if host.ends_with(']') || !host.contains(':') {
        url.port = port;
    }
    options.url = url;
    Ok(())
}

fn set_version(options: &mut MqttOptions, value: &str) -> Result<(), &'static str> {
    options.version = match value {
        "3" => Version::V311,
        "5" => Version::V5,
        _ => return Err("3 or 5"),
    };
    Ok(())
}

fn set_qos(options: &mut MqttOptions, value: &str) -> Result<(), &'static str> {
    options.qos = match value {
        "0" => QoS::AtMostOnce,
        "1" => QoS::AtLeastOnce,
        _ => return Err("0 or 1"),
    };
    Ok(())
}

fn set_filter(options: &mut MqttOptions, value: &str) -> Result<(), &'static str> {
    options.filter = (!value.is_empty()).then(|| value.to_owned());
    Ok(())
}

fn set_body(options: &mut MqttOptions, value: &str) -> Result<(), &'static str> {
    let range = BODY_MIN..=1 << 20;
    options.body =
        value.parse().ok().filter(|bytes| range.contains(bytes)).ok_or("a size in bytes from 28 to 1 MiB")?;
    Ok(())
}

fn set_window(options: &mut MqttOptions, value: &str) -> Result<(), &'static str> {
    number(&mut options.window, value, 1)?;
    options.window = options.window.min(u32::from(u16::MAX));
    Ok(())
}

fn set_rate(options: &mut MqttOptions, value: &str) -> Result<(), &'static str> {
    let wanted = "a number of messages a second, up to 10 million";
    options.rate = value.parse().ok().filter(|rate| (0.0..=1e7).contains(rate)).ok_or(wanted)?;
    Ok(())
}

fn set_ca(options: &mut MqttOptions, value: &str) -> Result<(), &'static str> {
    options.tls.ca = Some(PathBuf::from(value));
    Ok(())
}

fn set_pids(options: &mut MqttOptions, value: &str) -> Result<(), &'static str> {
    let pids = value.split(',').filter(|pid| !pid.is_empty()).map(str::parse).collect::<Result<_, _>>();
    options.pids = pids.map_err(|_| "process numbers, separated by commas")?;
    Ok(())
}
