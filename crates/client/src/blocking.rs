//! A blocking client, for threads that only wait for the server.

use std::time::{Duration, Instant};

use enmasse_amqp::types::{Fields, Value};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::ErrorKind;
use crate::client::{Client, ClientOptions, Event, Reason, SELECTOR_FILTER};
use crate::error::Error;

/// Events taken at once.
const EVENTS: usize = 1024;

/// The most messages to prefetch.
const PREFETCH_MAX: u32 = 8192;
/// Messages to prefetch before their size is known.
pub(crate) const PREFETCH_INITIAL: u32 = 256;
/// The most bytes to prefetch, by the average size of the received messages.
const PREFETCH_SIZE_MAX: u64 = 16 << 20;

/// The address to read, and how to read it.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// the servers to try, in this order
    pub servers: Vec<ClientOptions>,
    /// the stream, queue or subscription
    pub address: String,
    /// read only messages that match it
    pub selector: Option<String>,
    /// how long the server may stay silent
    pub silence: Duration,
}

/// How many messages to prefetch, by the average size of the received ones.
pub(crate) fn ahead(messages: u64, size: u64) -> u32 {
    let mean = size.checked_div(messages);
    mean.map_or(PREFETCH_INITIAL, |mean| (PREFETCH_SIZE_MAX / mean.max(1)).clamp(1, PREFETCH_MAX.into()) as u32)
}

/// Whether the server applies the selector, by the filters of its answer.
///
/// # Errors
/// `Invalid` if it does not.
pub(crate) fn applies_selector(options: &SourceOptions, filters: &[String]) -> Result<(), Error> {
    if options.selector.is_none() || filters.iter().any(|name| name == SELECTOR_FILTER) {
        return Ok(());
    }
    Err(Error::invalid("selector: the server does not apply it; filter the result instead"))
}

/// What a server's `open` says about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// the name of the software
    pub(crate) product: Option<String>,
    /// the address space of the connection, which EnMasse announces
    pub(crate) space: Option<String>,
}

impl Identity {
    fn of(properties: &Fields) -> Self {
        let text = |wanted: &str| {
            properties.iter().find_map(|(name, value)| match value {
                Value::String(text) if name.as_str() == wanted => Some(text.clone()),
                _ => None,
            })
        };
        Self { product: text("product"), space: text("enmasse:space") }
    }
}

/// Connects to the first server that answers; returns also its identity.
///
/// # Errors
/// That of the last server that was tried; `Invalid` if none is named.
pub(crate) fn connect(servers: &[ClientOptions]) -> Result<(Client, Identity), Error> {
    let mut last = Error::invalid("servers: the list is empty");
    for server in servers {
        match open(server) {
            Ok(opened) => return Ok(opened),
            // a login refused by one server is refused by the next
            Err(error) if error.kind == ErrorKind::Denied => return Err(error),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn open(server: &ClientOptions) -> Result<(Client, Identity), Error> {
    let client = Client::connect(server)?;
    // the client reports its own time-out before this one
    let time_limit = server.connect_time_out + Duration::from_secs(5);
    let mut identity = Identity::default();
    for event in wait(&client, time_limit)? {
        match event {
            Event::Closed { reason } => return Err(closing_error(&server.url.server(), reason)),
            Event::Opened { properties } => identity = Identity::of(&properties),
            _ => {}
        }
    }
    Ok((client, identity))
}

/// The next events, at least one.
///
/// # Errors
/// `Unavailable` if there is none within the time limit.
pub(crate) fn wait(client: &Client, time_limit: Duration) -> Result<Vec<Event>, Error> {
    let deadline = Instant::now() + time_limit;
    loop {
        let events = client.poll(EVENTS);
        if !events.is_empty() {
            return Ok(events);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let what = format!("no answer from the server for {} s", time_limit.as_secs());
            return Err(Error::unavailable(what));
        }
        let time =
            Timespec { tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::from_borrowed_fd(client.event_fd(), PollFlags::IN)], Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::io("poll", &error.into())),
        }
    }
}

/// Converts a server's reason into an error.
pub(crate) fn closing_error(what: &str, reason: Option<Reason>) -> Error {
    let Some(Reason { condition, description }) = reason else {
        return Error::unavailable(format!("{what}: closed by the server without a reason"));
    };
    Error { kind: ErrorKind::of(&condition), message: format!("{what}: {condition}: {description}") }
}
