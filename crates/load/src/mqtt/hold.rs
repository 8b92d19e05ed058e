//! The cost of connections: memory of idle ones, time of new ones.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use enmasse_client::Error;
use enmasse_client::poller::{Poller, Ready};
use enmasse_client::wire::read_buffer;
use hdrhistogram::Histogram;

use super::Plan;
use super::client::Client;
use super::subscriber::Subscriber;
use crate::hold::raise_file_limit;
use crate::machine::{Snapshot, resident_kib};
use crate::report::Json;
use crate::{SETUP_TIMEOUT, latency_histogram, latency_report};

/// The longest wait for sockets.
const TURN_MAX: Duration = Duration::from_millis(50);

/// One of many connections, with the time its setup began.
struct Member {
    client: Client<Subscriber>,
    began: Instant,
    counted: bool,
}

/// Connections being opened, held and closed by one thread.
struct Pool {
    plan: Arc<Plan>,
    poller: Poller,
    ready: Vec<Ready>,
    buffer: Box<[u8]>,
    members: HashMap<u64, Member>,
    next: u64,
    /// connections that were opened so far
    up: u64,
    /// nanoseconds from connect to SUBACK
    setup: Histogram<u64>,
}

impl Pool {
    fn new(plan: &Arc<Plan>) -> Result<Self, Error> {
        raise_file_limit();
        Ok(Self {
            plan: Arc::clone(plan),
            poller: Poller::new().map_err(|error| Error::io("epoll", &error))?,
            ready: Vec::new(),
            buffer: read_buffer(),
            members: HashMap::new(),
            next: 0,
            up: 0,
            setup: latency_histogram(),
        })
    }

    fn add(&mut self) -> Result<(), Error> {
        let key = self.next;
        self.next += 1;
        let idle = Subscriber::idle(&self.plan, key as u32);
        let client = Client::start(&self.plan, idle, key, &self.poller)?;
        self.members.insert(key, Member { client, began: Instant::now(), counted: false });
        Ok(())
    }

    /// Serves all connections once; with `close`, open ones are closed. Returns how many were.
    fn turn(&mut self, close: bool) -> Result<u64, Error> {
        self.ready.clear();
        self.poller.wait(Some(TURN_MAX), &mut self.ready).map_err(|error| Error::io("epoll", &error))?;
        let now = self.plan.clock.now();
        let mut gone = 0;
        for ready in &self.ready {
            let Some(member) = self.members.get_mut(&ready.key) else { continue };
            if ready.readable {
                member.client.read(&mut self.buffer, now)?;
            }
            member.client.flush(&self.poller, now)?;
            if member.client.is_up() && !member.counted {
                member.counted = true;
                self.up += 1;
                self.setup.saturating_record(member.began.elapsed().as_nanos() as u64);
                if close {
                    member.client.close();
                    self.members.remove(&ready.key);
                    gone += 1;
                }
            }
        }
        Ok(gone)
    }

    /// Opens `count` connections, `parallel` at a time.
    fn fill(&mut self, count: u64) -> Result<(), Error> {
        let start = Instant::now();
        while self.up < count {
            while self.next < count && self.next - self.up < u64::from(self.plan.options.parallel) {
                self.add()?;
            }
            self.turn(false)?;
            if start.elapsed() > SETUP_TIMEOUT {
                let (server, up) = (&self.plan.server, self.up);
                return Err(Error::unavailable(format!("{server}: only {up} of {count} connections were opened")));
            }
        }
        Ok(())
    }

    /// Keeps all connections alive for a while.
    fn hold(&mut self, time: Duration) -> Result<(), Error> {
        let start = Instant::now();
        while start.elapsed() < time {
            self.turn(false)?;
            let now = self.plan.clock.now();
            for member in self.members.values_mut() {
                member.client.keep_alive(now);
                if member.client.wire.pending() > 0 {
                    member.client.flush(&self.poller, now)?;
                }
            }
        }
        Ok(())
    }

    /// Opens and closes connections for a while, `parallel` at a time. Returns their number.
    fn churn(&mut self, time: Duration) -> Result<u64, Error> {
        let start = Instant::now();
        let mut gone = 0;
        while start.elapsed() < time {
            while self.members.len() < self.plan.options.parallel as usize {
                self.add()?;
            }
            gone += self.turn(true)?;
        }
        Ok(gone)
    }
}

/// Opens connections, leaves them idle for the measured time, and reports their cost.
pub(super) fn idle(plan: &Arc<Plan>, json: &mut Json) -> Result<(), Error> {
    let options = &plan.options;
    let count = u64::from(options.connections);
    let mut pool = Pool::new(plan)?;
    let (empty, _) = resident_kib(&options.pids);
    let before = Snapshot::take(&options.pids);
    pool.fill(count)?;
    let full_at = Snapshot::take(&options.pids);
    let (full, _) = resident_kib(&options.pids);
    pool.hold(options.duration)?;
    let held_at = Snapshot::take(&options.pids);
    let (held, _) = resident_kib(&options.pids);
    pool.members.values_mut().for_each(|member| member.client.close());
    let seconds = before.seconds_to(&full_at);
    json.text("mode", "idle").count("connections", count);
    json.decimal("seconds", seconds).decimal("connections_per_s", count as f64 / seconds);
    json.object("setup", latency_report(&pool.setup));
    if !options.pids.is_empty() {
        let each = |kib: u64| (kib as f64 - empty as f64) / count as f64;
        json.count("resident_empty_kib", empty).count("resident_full_kib", full).count("resident_held_kib", held);
        json.decimal("kib_per_connection", each(full)).decimal("kib_per_connection_held", each(held));
    }
    json.object("cpu", before.report(&full_at, count, &options.pids));
    json.object("cpu_held", full_at.report(&held_at, count, &options.pids));
    Ok(())
}

/// Opens and closes connections as fast as they go, each with a subscription.
pub(super) fn connect(plan: &Arc<Plan>, json: &mut Json) -> Result<(), Error> {
    let options = &plan.options;
    let mut pool = Pool::new(plan)?;
    pool.churn(options.warmup)?;
    pool.setup.reset();
    let before = Snapshot::take(&options.pids);
    let count = pool.churn(options.duration)?;
    let after = Snapshot::take(&options.pids);
    let seconds = before.seconds_to(&after);
    json.text("mode", "connect").count("connections", count).decimal("seconds", seconds);
    json.decimal("connections_per_s", count as f64 / seconds);
    json.object("setup", latency_report(&pool.setup));
    json.object("cpu", before.report(&after, count, &options.pids));
    Ok(())
}
