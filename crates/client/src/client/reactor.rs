//! The one I/O thread of all clients of a process.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use enmasse_amqp::time::Time;
use rustix::event::{EventfdFlags, eventfd};

use super::driver::Driver;
use super::waker::{Notice, Waker};
use crate::error::Error;
use crate::poller::{Poller, Ready};
use crate::wire::read_buffer;

/// Key of the eventfd that ends a wait.
const WAKE: u64 = u64::MAX;

/// The process's I/O thread, started when it is first needed.
///
/// # Errors
/// `Exhausted` if the system has no free thread or file descriptor.
pub(super) fn global() -> Result<Waker, Error> {
    static GLOBAL: OnceLock<Waker> = OnceLock::new();
    static START: Mutex<()> = Mutex::new(());
    let _one_at_a_time = START.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(waker) = GLOBAL.get() {
        return Ok(waker.clone());
    }
    let waker = start().map_err(|error| Error::io("the client's I/O thread", &error))?;
    Ok(GLOBAL.get_or_init(|| waker).clone())
}

fn start() -> io::Result<Waker> {
    let signal = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let poller = Poller::new()?;
    poller.watch(&signal, WAKE, false)?;
    let waker = Waker::new(signal);
    let reactor = Reactor {
        waker: waker.clone(),
        poller,
        buffer: read_buffer(),
        origin: Instant::now(),
        drivers: HashMap::new(),
        deadlines: BTreeSet::new(),
    };
    std::thread::Builder::new().name("enmasse-client".to_owned()).spawn(move || reactor.run())?;
    Ok(waker)
}

struct Member {
    driver: Driver,
    /// its entry in `deadlines`
    deadline: Option<Time>,
}

struct Reactor {
    waker: Waker,
    poller: Poller,
    buffer: Box<[u8]>,
    origin: Instant,
    drivers: HashMap<u64, Member>,
    deadlines: BTreeSet<(Time, u64)>,
}

impl Reactor {
    fn now(&self) -> Time {
        Time::from_micros(self.origin.elapsed().as_micros() as u64)
    }

    fn run(mut self) {
        let mut ready = Vec::new();
        loop {
            ready.clear();
            let now = self.now();
            let next = self.deadlines.first().map(|(time, _)| Duration::from_micros(time.micros_since(now)));
            // epoll fails only in a broken process, whose clients then see no progress
            if self.poller.wait(next, &mut ready).is_err() {
                return;
            }
            self.turn(&ready);
        }
    }

    fn turn(&mut self, ready: &[Ready]) {
        let now = self.now();
        for Ready { key, readable } in ready {
            if *key == WAKE {
                self.notices(now);
            } else if *readable {
                self.serve(*key, |driver, buffer, poller| driver.read(buffer, poller, now));
            } else {
                self.serve(*key, |driver, _, poller| driver.write(poller, now));
            }
        }
        while let Some((time, key)) = self.deadlines.first().copied()
            && time <= now
        {
            self.deadlines.remove(&(time, key));
            if let Some(member) = self.drivers.get_mut(&key) {
                member.deadline = None;
            }
            self.serve(key, |driver, _, poller| driver.expire(poller, now));
        }
    }

    fn notices(&mut self, now: Time) {
        for notice in self.waker.take() {
            match notice {
                Notice::New { key, setup, mailbox, transport } => {
                    let driver = Driver::new(key, setup, mailbox, self.waker.clone(), now);
                    self.drivers.insert(key, Member { driver, deadline: None });
                    self.serve(key, |driver, _, poller| {
                        if let Some(transport) = transport {
                            driver.connected(transport, poller, now);
                        }
                    });
                }
                Notice::Work(key) => self.serve(key, |driver, _, poller| driver.command(poller, now)),
            }
        }
    }

    /// Lets a driver act, then updates its deadlines and interests.
    fn serve(&mut self, key: u64, work: impl FnOnce(&mut Driver, &mut [u8], &Poller)) {
        let Some(member) = self.drivers.get_mut(&key) else { return };
        work(&mut member.driver, &mut self.buffer, &self.poller);
        let deadline = member.driver.timeout();
        if deadline != member.deadline {
            if let Some(time) = member.deadline {
                self.deadlines.remove(&(time, key));
            }
            if let Some(time) = deadline {
                self.deadlines.insert((time, key));
            }
            member.deadline = deadline;
        }
        if member.driver.is_ended() {
            self.drivers.remove(&key);
        }
    }
}
