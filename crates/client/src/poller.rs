//! Readiness of sockets: level-triggered epoll, with timeouts to the nanosecond.
//!
//! Level-triggered needs no further state, because unread or unwritten bytes are reported again in
//! the next turn. Time-outs are exact, because load at a fixed rate is measured in microseconds.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Events taken at once.
const EVENTS_MAX: usize = 256;

/// A set of watched file descriptors.
pub struct Poller {
    epoll: OwnedFd,
}

/// The readiness of a watched descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// as given to `watch`
    pub key: u64,
    /// bytes, the end of the stream, or an error wait to be read
    pub readable: bool,
}

impl Poller {
    /// A set without descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)? })
    }

    /// Watches for readability, and for writability if `write`. Closing the descriptor ends the
    /// watch.
    pub fn watch(&self, source: impl AsFd, key: u64, write: bool) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(key), flags(write))?)
    }

    /// Changes whether it watches for writability.
    pub fn rewatch(&self, source: impl AsFd, key: u64, write: bool) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, source, EventData::new_u64(key), flags(write))?)
    }

    /// Waits until something is ready or `timeout` is over (`None`: forever), and appends it to
    /// `ready`.
    pub fn wait(&self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        // epoll counts milliseconds: for exact time-outs its descriptor is polled first
        let mut left = timeout.map(timespec);
        if timeout.is_some_and(|timeout| timeout.subsec_nanos() % 1_000_000 != 0) {
            match poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], left.as_ref()) {
                Ok(_) | Err(Errno::INTR) => left = Some(timespec(Duration::ZERO)),
                Err(error) => return Err(error.into()),
            }
        }
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS_MAX];
        let events = match epoll::wait(&self.epoll, &mut events, left.as_ref()) {
            Ok((events, _)) => events,
            // an interrupted wait counts as a time-out
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        ready.extend(events.iter().map(|event| {
            let flags = event.flags;
            Ready {
                key: event.data.u64(),
                readable: flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR),
            }
        }));
        Ok(())
    }
}

fn flags(write: bool) -> EventFlags {
    if write { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use super::{Poller, Ready};

    #[test]
    fn bytes_are_reported_until_they_are_read() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let poller = Poller::new().unwrap();
        poller.watch(&ours, 7, false).unwrap();
        theirs.write_all(b"x").unwrap();
        for _ in 0..2 {
            let mut ready = Vec::new();
            poller.wait(None, &mut ready).unwrap();
            assert_eq!(ready, [Ready { key: 7, readable: true }]);
        }
        ours.read_exact(&mut [0; 1]).unwrap();
        let mut ready = Vec::new();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert_eq!(ready, []);
        poller.rewatch(&ours, 8, true).unwrap();
        poller.wait(None, &mut ready).unwrap();
        assert_eq!(ready, [Ready { key: 8, readable: false }]);
        drop(theirs);
        ready.clear();
        poller.wait(None, &mut ready).unwrap();
        assert_eq!(ready, [Ready { key: 8, readable: true }]);
    }

    #[test]
    fn timeout_with_a_fraction_of_a_millisecond_is_not_shortened() {
        let poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        let start = Instant::now();
        poller.wait(Some(Duration::from_micros(1500)), &mut ready).unwrap();
        assert!(start.elapsed() >= Duration::from_micros(1500));
        assert_eq!(ready, []);
    }
}
