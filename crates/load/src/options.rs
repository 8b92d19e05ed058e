//! The options of a load: one table of named options for the command line and the binding.

use std::path::PathBuf;
use std::time::Duration;

use enmasse_client::Error;
use enmasse_client::transport::TlsOptions;
use enmasse_client::url::Url;

/// Bytes at the front of every body: its sender, its number, and its due time.
pub const BODY_MIN: usize = super::stamp::SIZE;

/// The measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// messages a second, or with `rate` the latency at a fixed rate
    Load,
    /// the cost of an idle connection to the server
    Idle,
    /// new connections a second
    Connect,
}

/// The link of each connection in `Idle` and `Connect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// only an open connection
    None,
    /// a receiver with credit
    Receiver,
    /// a sender
    Sender,
}

/// The options of a run. `Default` is one sender and one receiver of unsettled messages of 100
/// bytes at full speed.
#[derive(Clone, Debug)]
pub struct Options {
    /// the measurement
    pub mode: Mode,
    /// the server, and the user
    pub url: Url,
    /// address of every link; `%d` in it becomes the link's number, modulo `addresses`
    pub address: String,
    /// number of addresses that `%d` makes
    pub addresses: u32,
    /// sending links
    pub senders: u32,
    /// receiving links
    pub receivers: u32,
    /// connections, half for senders and half for receivers; 0: one per link. In `Idle`: the total
    /// number
    pub connections: u32,
    /// every receiver gets every message (multicast), instead of one of them (anycast, queues)
    pub multicast: bool,
    /// bytes of a body, at least `BODY_MIN`
    pub body: usize,
    /// deliveries are sent settled
    pub presettled: bool,
    /// the header has the durable flag
    pub durable: bool,
    /// link credit of receivers, in messages
    pub credit: u32,
    /// messages a second in all; 0: as fast as credit allows
    pub rate: f64,
    /// messages of each sender; without senders, messages that each receiver waits for, from any
    /// sender. 0: limited by time only
    pub messages: u32,
    /// measured time
    pub duration: Duration,
    /// time before that
    pub warmup: Duration,
    /// capability of sources and targets (`queue` for Artemis)
    pub capability: Option<String>,
    /// start position of receivers in a stream: `first`, `last`, `next`
    pub offset: Option<String>,
    /// hostname of sasl-init and open; `None`: the URL's host
    pub hostname: Option<String>,
    /// the only allowed SASL mechanism; `none`: no SASL
    pub mechanism: Option<String>,
    /// trusted certificates
    pub tls: TlsOptions,
    /// processes of the server whose CPU and memory are recorded
    pub pids: Vec<u32>,
    /// link of each connection in `Idle` and `Connect`
    pub link: Link,
    /// connections being opened at a time in `Idle` and `Connect`
    pub parallel: u32,
    /// copied into the report
    pub label: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::Load,
            url: Url::parse("amqp://127.0.0.1:5672").expect("a literal"),
            address: "anycast".to_owned(),
            addresses: 1,
            senders: 1,
            receivers: 1,
            connections: 0,
            multicast: false,
            body: 100,
            presettled: false,
            durable: false,
            credit: 1000,
            rate: 0.0,
            messages: 0,
            duration: Duration::from_secs(5),
            warmup: Duration::from_secs(1),
            capability: None,
            offset: None,
            hostname: None,
            mechanism: None,
            tls: TlsOptions::default(),
            pids: Vec::new(),
            link: Link::Receiver,
            parallel: 64,
            label: String::new(),
        }
    }
}

/// One option: its name, its help, and its parser.
struct Entry {
    name: &'static str,
    help: &'static str,
    set: fn(&mut Options, &str) -> Result<(), &'static str>,
}

const TABLE: &[Entry] = &[
    Entry { name: "mode", help: "load, idle or connect", set: set_mode },
    Entry { name: "url", help: "amqp[s]|ws[s]://[user:password@]host[:port]", set: |_, _| Ok(()) },
    Entry { name: "address", help: "address; %d in it becomes the link's number", set: |o, v| text(&mut o.address, v) },
    Entry { name: "addresses", help: "number of addresses that %d makes", set: |o, v| number(&mut o.addresses, v, 1) },
    Entry { name: "senders", help: "sending links", set: |o, v| number(&mut o.senders, v, 0) },
    Entry { name: "receivers", help: "receiving links", set: |o, v| number(&mut o.receivers, v, 0) },
    Entry {
        name: "connections",
        help: "connections in total (0: one for each link)",
        set: |o, v| number(&mut o.connections, v, 0),
    },
    Entry { name: "multicast", help: "true: every receiver gets every message", set: |o, v| flag(&mut o.multicast, v) },
    Entry { name: "body", help: "bytes of a body, 28 at least", set: set_body },
    Entry { name: "presettled", help: "true: send settled", set: |o, v| flag(&mut o.presettled, v) },
    Entry { name: "durable", help: "true: durable header", set: |o, v| flag(&mut o.durable, v) },
    Entry { name: "credit", help: "link credit of receivers", set: |o, v| number(&mut o.credit, v, 1) },
    Entry { name: "rate", help: "messages a second in total (0: as fast as possible)", set: set_rate },
    Entry {
        name: "messages",
        help: "messages of each sender, or receiver (0: by time)",
        set: |o, v| number(&mut o.messages, v, 0),
    },
    Entry { name: "duration", help: "seconds measured", set: |o, v| seconds(&mut o.duration, v) },
    Entry { name: "warmup", help: "seconds of warm-up before the measurement", set: |o, v| seconds(&mut o.warmup, v) },
    Entry { name: "capability", help: "capability of sources and targets", set: |o, v| optional(&mut o.capability, v) },
    Entry { name: "offset", help: "first, last or next of a stream", set: |o, v| optional(&mut o.offset, v) },
    Entry { name: "hostname", help: "hostname of sasl-init and open", set: |o, v| optional(&mut o.hostname, v) },
    Entry { name: "mechanism", help: "the SASL mechanism (none: no SASL)", set: |o, v| optional(&mut o.mechanism, v) },
    Entry { name: "ca", help: "file of trusted authorities", set: |o, v| file(&mut o.tls.ca, v) },
    Entry {
        name: "certificate",
        help: "file of the client's certificate",
        set: |o, v| file(&mut o.tls.certificate, v),
    },
    Entry { name: "key", help: "file of its key", set: |o, v| file(&mut o.tls.key, v) },
    Entry {
        name: "serverName",
        help: "name that TLS requests (default: the host of the URL)",
        set: |o, v| optional(&mut o.tls.server_name, v),
    },
    Entry { name: "insecure", help: "true: accept any certificate", set: |o, v| flag(&mut o.tls.insecure, v) },
    Entry { name: "pids", help: "server processes, separated by commas", set: set_pids },
    Entry { name: "link", help: "none, receiver or sender (idle, connect)", set: set_link },
    Entry { name: "parallel", help: "connections opened at a time", set: |o, v| number(&mut o.parallel, v, 1) },
    Entry { name: "label", help: "copied into the report", set: |o, v| text(&mut o.label, v) },
];

impl Options {
    /// Sets one option by its name and text, from a command line or a JSON document.
    ///
    /// # Errors
    /// `Invalid`, naming the option and its values.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        if name == "url" {
            self.url = Url::parse(value)?;
            return Ok(());
        }
        let entry = TABLE
            .iter()
            .find(|entry| entry.name == name)
            .ok_or_else(|| Error::invalid(format!("option {name:?} is unknown")))?;
        (entry.set)(self, value).map_err(|wanted| Error::invalid(format!("{name} {value:?}: it must be {wanted}")))
    }

    /// Every option with its help, a line each.
    #[must_use]
    pub fn help() -> String {
        TABLE.iter().map(|entry| format!("  --{:<12} {}\n", entry.name, entry.help)).collect()
    }

    /// Errors that concern several options.
    ///
    /// # Errors
    /// `Invalid`, naming the conflicting options.
    pub fn check(&self) -> Result<(), Error> {
        let links = self.senders + self.receivers;
        if self.mode == Mode::Load && links == 0 {
            return Err(Error::invalid("senders and receivers: at least one link is needed"));
        }
        if self.mode == Mode::Idle && self.connections == 0 {
            return Err(Error::invalid("connections: give the number of idle connections"));
        }
        let sides = u32::from(self.senders > 0) + u32::from(self.receivers > 0);
        if self.mode == Mode::Load && self.connections != 0 && !(sides..=links).contains(&self.connections) {
            return Err(Error::invalid(format!("connections: from {sides} to {links} for {links} links")));
        }
        if self.addresses > 1 && !self.address.contains("%d") {
            return Err(Error::invalid("address: it must contain %d, for the number, with addresses above 1"));
        }
        Ok(())
    }

    /// Address of a link by its number among the senders, or among the receivers.
    #[must_use]
    pub fn address_of(&self, number: u32) -> String {
        self.address.replacen("%d", &(number % self.addresses).to_string(), 1)
    }
}

pub(super) fn text(field: &mut String, value: &str) -> Result<(), &'static str> {
    value.clone_into(field);
    Ok(())
}

fn optional(field: &mut Option<String>, value: &str) -> Result<(), &'static str> {
    *field = (!value.is_empty()).then(|| value.to_owned());
    Ok(())
}

fn file(field: &mut Option<PathBuf>, value: &str) -> Result<(), &'static str> {
    *field = Some(PathBuf::from(value));
    Ok(())
}

pub(super) fn flag(field: &mut bool, value: &str) -> Result<(), &'static str> {
    *field = value.parse().map_err(|_| "true or false")?;
    Ok(())
}

pub(super) fn number(field: &mut u32, value: &str, least: u32) -> Result<(), &'static str> {
    let wanted = if least == 0 { "a whole number" } else { "a whole number of at least 1" };
    *field = value.parse().ok().filter(|number| *number >= least).ok_or(wanted)?;
    Ok(())
}

pub(super) fn seconds(field: &mut Duration, value: &str) -> Result<(), &'static str> {
    let wanted = "a number of seconds, up to a day";
    let seconds: f64 = value.parse().map_err(|_| wanted)?;
    if !(0.0..=86_400.0).contains(&seconds) {
        return Err(wanted);
    }
    *field = Duration::from_secs_f64(seconds);
    Ok(())
}

fn set_mode(options: &mut Options, value: &str) -> Result<(), &'static str> {
    options.mode = match value {
        "load" => Mode::Load,
        "idle" => Mode::Idle,
        "connect" => Mode::Connect,
        _ => return Err("load, idle or connect"),
    };
    Ok(())
}

fn set_link(options: &mut Options, value: &str) -> Result<(), &'static str> {
    options.link = match value {
        "none" => Link::None,
        "receiver" => Link::Receiver,
        "sender" => Link::Sender,
        _ => return Err("none, receiver or sender"),
    };
    Ok(())
}

fn set_body(options: &mut Options, value: &str) -> Result<(), &'static str> {
    let range = BODY_MIN..=1 << 30;
    options.body =
        value.parse().ok().filter(|bytes| range.contains(bytes)).ok_or("a size in bytes from 28 to 1 GiB")?;
    Ok(())
}

fn set_rate(options: &mut Options, value: &str) -> Result<(), &'static str> {
    let wanted = "a number of messages a second, up to 10 million";
    options.rate = value.parse().ok().filter(|rate| (0.0..=1e7).contains(rate)).ok_or(wanted)?;
    Ok(())
}

fn set_pids(options: &mut Options, value: &str) -> Result<(), &'static str> {
    let pids = value.split(',').filter(|pid| !pid.is_empty()).map(str::parse).collect::<Result<_, _>>();
    options.pids = pids.map_err(|_| "process numbers, separated by commas")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Link, Mode, Options, TABLE};

    fn with(pairs: &[(&str, &str)]) -> Options {
        let mut options = Options::default();
        for (name, value) in pairs {
            options.set(name, value).unwrap();
        }
        options
    }

    #[test]
    fn options_are_set_by_name() {
        let options = with(&[
            ("mode", "idle"),
            ("url", "amqps://u:p@h:1"),
            ("body", "1024"),
            ("presettled", "true"),
            ("duration", "0.5"),
            ("pids", "1,22"),
            ("link", "sender"),
            ("ca", "ca.pem"),
        ]);
        assert_eq!((options.mode, options.link, options.body), (Mode::Idle, Link::Sender, 1024));
        assert_eq!((options.url.port, options.presettled, options.pids), (1, true, vec![1, 22]));
        assert_eq!(options.duration, Duration::from_millis(500));
        assert!(options.tls.ca.is_some());
    }

    #[test]
    fn option_error_names_the_option_and_the_remedy() {
        for (name, value, part) in [
            ("colour", "red", "colour"),
            ("mode", "x", "load, idle or connect"),
            ("body", "27", "28"),
            ("credit", "0", "at least 1"),
            ("rate", "-1", "a second"),
            ("rate", "NaN", "a second"),
            ("duration", "x", "seconds"),
            ("presettled", "yes", "true or false"),
            ("pids", "1;2", "commas"),
            ("link", "x", "receiver"),
        ] {
            let message = Options::default().set(name, value).unwrap_err().message;
            assert!(message.contains(name) && message.contains(part), "{message}");
        }
    }

    #[test]
    fn conflicting_options_are_refused() {
        for (pairs, part) in [
            (&[("senders", "0"), ("receivers", "0")][..], "senders"),
            (&[("mode", "idle")], "connections"),
            (&[("connections", "1")], "connections"),
            (&[("connections", "3")], "connections"),
            (&[("addresses", "2")], "%d"),
        ] {
            assert!(with(pairs).check().unwrap_err().message.contains(part), "{pairs:?}");
        }
        assert_eq!(with(&[("receivers", "0"), ("connections", "1")]).check(), Ok(()));
    }

    #[test]
    fn addresses_are_numbered_round_robin() {
        let options = with(&[("address", "a%d/x"), ("addresses", "3")]);
        assert_eq!(options.address_of(2), "a2/x");
        assert_eq!(options.address_of(4), "a1/x");
        assert_eq!(Options::default().address_of(7), "anycast");
    }

    #[test]
    fn help_names_every_option() {
        for entry in TABLE {
            assert!(Options::help().contains(&format!("--{}", entry.name)));
        }
    }
}
