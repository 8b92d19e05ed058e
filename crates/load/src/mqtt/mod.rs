//! The MQTT load: publishers on one thread, subscribers on another, each connection with one role.
//!
//! As with AMQP, packets go straight from and to the buffers, every body has a stamp, and the main
//! thread only switches the phases and reads counters. Without a window of acknowledgements a
//! publisher would fill the server's buffers; `ahead` bounds the publications that the subscribers
//! have not received.

mod client;
mod hold;
mod options;
mod publisher;
mod subscriber;
mod throughput;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use options::Mode;
pub use options::MqttOptions;

use super::machine::Calibration;
use super::report::Json;
use super::stamp::Clock;
use super::{Phase, SAMPLE, reachable, run_number};
use enmasse_client::Error;
use enmasse_client::transport::{Route, Transport};

/// Runs a load to its end and returns the result as a JSON object.
///
/// # Errors
/// `Invalid` for options that conflict, `Unavailable` if the server cannot be reached or ends a
/// connection, and what the server answers to CONNECT, SUBSCRIBE or PUBLISH.
pub fn run(options: &MqttOptions) -> Result<String, Error> {
    options.check()?;
    let calibration = Calibration::measure();
    let plan = Arc::new(Plan::new(options.clone())?);
    let mut json = Json::new();
    json.text("server", &plan.server).text("label", &options.label);
    match options.mode {
        Mode::Load => throughput::run(&plan, &mut json)?,
        Mode::Idle => hold::idle(&plan, &mut json)?,
        Mode::Connect => hold::connect(&plan, &mut json)?,
    }
    json.object("machine", calibration.report());
    Ok(json.finish())
}

/// State shared by all threads of a run.
struct Plan {
    options: MqttOptions,
    /// distinguishes this run's messages from others
    run: u32,
    clock: Clock,
    route: Route,
    address: SocketAddr,
    /// the server, for messages
    server: String,
    phase: AtomicU8,
    /// messages due before this time do not count
    measured_from: AtomicU64,
}

impl Plan {
    fn new(options: MqttOptions) -> Result<Self, Error> {
        Ok(Self {
            run: run_number(),
            clock: Clock::start(),
            route: Route::new(&options.url, &options.tls)?,
            address: reachable(&options.url)?,
            server: format!("{}:{}", options.url.host, options.url.port),
            phase: AtomicU8::new(Phase::Connect as u8),
            measured_from: AtomicU64::new(u64::MAX),
            options,
        })
    }

    fn connect(&self) -> Result<Transport, Error> {
        self.route.connect(self.address).map_err(|error| Error::io(&self.server, &error))
    }

    fn has_reached(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) >= phase as u8
    }

    fn is_in(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u8
    }

    fn enter(&self, phase: Phase) {
        if phase == Phase::Measure {
            self.measured_from.store(self.clock.now(), Ordering::Relaxed);
        }
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Whether a message is timed.
    #[inline]
    fn is_sample(&self, number: u64, due: u64) -> bool {
        (self.options.rate > 0.0 || number.is_multiple_of(SAMPLE))
            && due >= self.measured_from.load(Ordering::Relaxed)
            && self.is_in(Phase::Measure)
    }
}

#[cfg(test)]
mod tests;
