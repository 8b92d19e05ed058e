//! A client for threads that have nothing else to do than to wait for it.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::client::{Client, ClientOptions, Event, Reason};
use crate::error::{Error, ErrorKind};

/// Events taken at once.
const EVENTS: usize = 1024;

/// Connects to the first server that answers.
///
/// # Errors
/// That of the last server that was tried; `Invalid` if none is named.
pub(crate) fn connect(servers: &[ClientOptions]) -> Result<Client, Error> {
    let mut last = Error::invalid("servers: none is named");
    for server in servers {
        match open(server) {
            Ok(client) => return Ok(client),
            // who is refused by one server is not let in by the next
            Err(error) if error.kind == ErrorKind::Denied => return Err(error),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn open(server: &ClientOptions) -> Result<Client, Error> {
    let client = Client::connect(server)?;
    // the client gives up by itself within its own time
    let patience = server.connect_time_out + Duration::from_secs(5);
    for event in wait(&client, patience)? {
        if let Event::Closed { reason } = event {
            return Err(said(&server.url.server(), reason));
        }
    }
    Ok(client)
}

/// The next events, at least one.
///
/// # Errors
/// `Unavailable` if there is none for so long.
pub(crate) fn wait(client: &Client, patience: Duration) -> Result<Vec<Event>, Error> {
    let deadline = Instant::now() + patience;
    loop {
        let events = client.poll(EVENTS);
        if !events.is_empty() {
            return Ok(events);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let what = format!("the server said nothing for {} s", patience.as_secs());
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

/// The error that a server's reason is.
pub(crate) fn said(what: &str, reason: Option<Reason>) -> Error {
    let Some(Reason { condition, description }) = reason else {
        return Error::unavailable(format!("{what}: closed by the server, which gave no reason"));
    };
    Error { kind: ErrorKind::of(&condition), message: format!("{what}: {condition}: {description}") }
}
