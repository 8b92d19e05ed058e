//! The load tool: raw frames over non-blocking sockets, so that it measures the server and not
//! itself.
//!
//! Two threads, one for senders and one for receivers; each owns its connections. The setup of a
//! connection goes through the ordinary codec; transfers, dispositions and flows go straight from
//! and to the buffers. The main thread only switches the phases (warm up, measure, drain, close)
//! and reads counters. Each body has a stamp, which identifies lost, late, reordered and foreign
//! messages.

mod connection;
mod hold;
mod machine;
mod mqtt;
mod options;
mod receiver;
mod report;
mod schedule;
mod sender;
mod stamp;
mod throughput;
mod worker;

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;

pub use mqtt::{MqttOptions, run as run_mqtt};
pub use options::{BODY_MIN, Link, Mode, Options};

use enmasse_client::Error;
use enmasse_client::login::Credentials;
use enmasse_client::transport::{Route, Transport, resolve};
use enmasse_client::url::Url;
use machine::Calibration;
use report::Json;
use sender::Template;
use stamp::Clock;

/// Upper bound of the latency histogram, in nanoseconds.
const LATENCY_MAX: u64 = 600_000_000_000;
/// At full speed one in this many messages is timed, because the latency then only reflects the
/// length of the queue.
const SAMPLE: u64 = 16;
/// How long to try each address of the server before the load begins.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time-out for opening all connections.
const SETUP_TIMEOUT: Duration = Duration::from_secs(60);

/// The progress of a run; reported a few times a second.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// `connect`, `warm up`, `measure`, `drain` or `close`
    pub phase: &'static str,
    /// of the phase, from 0 to 1
    pub fraction: f64,
    /// messages received (or settled, without receivers), or connections up, so far
    pub count: u64,
}

/// Runs a load to its end and returns the result as a JSON object. `progress` may end the run early
/// by returning false; the result is then an error.
///
/// # Errors
/// `Invalid` for options that conflict, `Unavailable` if the server cannot be reached or ends a
/// connection, `Denied` and others as the server reports.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress) -> bool) -> Result<String, Error> {
    options.check()?;
    let calibration = Calibration::measure();
    let plan = Arc::new(Plan::new(options.clone())?);
    let mut json = Json::new();
    json.text("server", &plan.server).text("label", &options.label);
    match options.mode {
        Mode::Load => throughput::run(&plan, progress, &mut json)?,
        Mode::Idle => hold::idle(&plan, progress, &mut json)?,
        Mode::Connect => hold::connect(&plan, progress, &mut json)?,
    }
    json.object("machine", calibration.report());
    Ok(json.finish())
}

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Phase {
    Connect,
    Warm,
    Measure,
    Drain,
    Close,
}

/// State shared by all threads of a run.
struct Plan {
    options: Options,
    /// distinguishes this run's messages from others
    run: u32,
    clock: Clock,
    route: Route,
    address: SocketAddr,
    /// the server, for messages
    server: String,
    /// of sasl-init and open
    hostname: String,
    /// `None`: no SASL layer
    credentials: Option<Credentials>,
    template: Template,
    phase: AtomicU8,
    /// messages due before this time do not count
    measured_from: AtomicU64,
}

impl Plan {
    fn new(options: Options) -> Result<Self, Error> {
        let url = &options.url;
        let route = Route::new(url, &options.tls)?;
        let address = reachable(url)?;
        let hostname = options.hostname.clone().unwrap_or_else(|| url.host.clone());
        let mechanism = options.mechanism.as_ref().map(std::slice::from_ref);
        let credentials = match options.mechanism.as_deref() {
            Some("none") => None,
            _ => Some(Credentials::new(url, &options.tls, mechanism, Some(hostname.clone()), None)?),
        };
        Ok(Self {
            run: run_number(),
            clock: Clock::start(),
            server: url.server(),
            template: Template::new(&options),
            route,
            address,
            hostname,
            credentials,
            phase: AtomicU8::new(Phase::Connect as u8),
            measured_from: AtomicU64::new(u64::MAX),
            options,
        })
    }

    fn connect(&self) -> Result<Transport, Error> {
        self.route.connect(self.address).map_err(|error| Error::io(&self.server, &error))
    }

    fn is_in(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u8
    }

    fn has_reached(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) >= phase as u8
    }

    fn enter(&self, phase: Phase) {
        if phase == Phase::Measure {
            self.measured_from.store(self.clock.now(), Ordering::Relaxed);
        }
        self.phase.store(phase as u8, Ordering::Release);
    }

    fn is_measuring(&self) -> bool {
        self.is_in(Phase::Measure)
    }

    /// Whether a message is timed.
    #[inline]
    fn is_sample(&self, number: u64, due: u64) -> bool {
        (self.options.rate > 0.0 || number.is_multiple_of(SAMPLE))
            && due >= self.measured_from.load(Ordering::Relaxed)
            && self.is_measuring()
    }
}

/// The first address that answers; found before the threads start, so that a wrong port is one
/// clear error.
fn reachable(url: &Url) -> Result<SocketAddr, Error> {
    let mut failure = Error::unavailable(url.server());
    for address in resolve(url)? {
        match TcpStream::connect_timeout(&address, PROBE_TIMEOUT) {
            Ok(_) => return Ok(address),
            Err(error) => failure = Error::io(&url.server(), &error),
        }
    }
    Err(failure)
}

/// A number that distinguishes this run from others.
fn run_number() -> u32 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    std::process::id().rotate_left(16) ^ since.as_nanos() as u32
}

fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX, 3).expect("constant bounds")
}

/// Percentiles in microseconds.
fn latency_report(histogram: &Histogram<u64>) -> Json {
    let mut json = Json::new();
    json.count("count", histogram.len());
    for (name, quantile) in [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p99_9_us", 0.999), ("max_us", 1.0)] {
        json.decimal(name, histogram.value_at_quantile(quantile) as f64 / 1e3);
    }
    json
}

#[cfg(test)]
mod tests;
