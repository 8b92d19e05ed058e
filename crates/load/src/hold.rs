//! The cost of connections: memory of idle ones, time of new ones.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use enmasse_amqp::codec::fast::{DispositionView, TransferView};
use enmasse_amqp::types::{Attach, Flow, Role};
use hdrhistogram::Histogram;
use rustix::process::{Resource, getrlimit, setrlimit};

use super::connection::{Connection, Session, Traffic};
use super::machine::{Snapshot, resident_kib};
use super::options::Link;
use super::report::Json;
use super::{Plan, Progress, SETUP_TIMEOUT, latency_histogram, latency_report};
use enmasse_client::Error;
use enmasse_client::poller::{Poller, Ready};
use enmasse_client::wire::read_buffer;

/// The longest wait for sockets.
const TURN_MAX: Duration = Duration::from_millis(50);
/// How long the server may take to answer the closes of idle connections.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A link without traffic, or no link at all.
struct Idle {
    role: Role,
    numbers: Vec<u32>,
    credit: u32,
}

impl Idle {
    fn new(plan: &Plan, number: u32) -> Self {
        let (role, numbers) = match plan.options.link {
            Link::None => (Role::Receiver, Vec::new()),
            Link::Receiver => (Role::Receiver, vec![number]),
            Link::Sender => (Role::Sender, vec![number]),
        };
        Self { role, numbers, credit: plan.options.credit }
    }
}

impl Traffic for Idle {
    fn role(&self) -> Role {
        self.role
    }

    fn links(&self) -> &[u32] {
        &self.numbers
    }

    fn attached(&mut self, link: usize, attach: &Attach, session: &Session, output: &mut Vec<u8>) {
        if self.role == Role::Receiver {
            let delivery_count = attach.initial_delivery_count.unwrap_or(0);
            session.write_flow(output, Some((link as u32, delivery_count, self.credit)));
        }
    }

    fn transfer(&mut self, _link: usize, _transfer: &TransferView<'_>, _now: u64, _: &Session, _: &mut Vec<u8>) {}
    fn disposition(&mut self, _disposition: &DispositionView<'_>, _now: u64, _output: &mut Vec<u8>) {}
    fn flow(&mut self, _link: usize, _flow: &Flow, _session: &Session, _output: &mut Vec<u8>) {}
    fn end_of_input(&mut self, _session: &Session, _output: &mut Vec<u8>) {}
}

/// One of many connections, with the time its setup began.
struct PooledConnection {
    connection: Connection<Idle>,
    began: Instant,
    counted: bool,
}

/// Connections being opened, held and closed by one thread.
struct ConnectionPool<'a> {
    plan: &'a Arc<Plan>,
    progress: &'a mut dyn FnMut(Progress) -> bool,
    poller: Poller,
    ready: Vec<Ready>,
    buffer: Box<[u8]>,
    members: HashMap<u64, PooledConnection>,
    next: u64,
    /// connections that were opened so far
    up: u64,
    /// nanoseconds from connect to the last attach
    setup: Histogram<u64>,
}

impl<'a> ConnectionPool<'a> {
    fn new(plan: &'a Arc<Plan>, progress: &'a mut dyn FnMut(Progress) -> bool) -> Result<Self, Error> {
        raise_file_limit();
        Ok(Self {
            plan,
            progress,
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
        let idle = Idle::new(self.plan, key as u32);
        let connection = Connection::start(self.plan, idle, key, &self.poller)?;
        self.members.insert(key, PooledConnection { connection, began: Instant::now(), counted: false });
        Ok(())
    }

    /// Serves all connections once; with `close`, open ones are closed. Returns how many have
    /// ended.
    fn turn(&mut self, close: bool) -> Result<u64, Error> {
        self.ready.clear();
        self.poller.wait(Some(TURN_MAX), &mut self.ready).map_err(|error| Error::io("epoll", &error))?;
        let now = self.plan.clock.now();
        let mut gone = 0;
        for ready in &self.ready {
            let Some(held) = self.members.get_mut(&ready.key) else { continue };
            if ready.readable {
                held.connection.read(&mut self.buffer, now)?;
            }
            if held.connection.is_up() && !held.counted {
                held.counted = true;
                self.up += 1;
                self.setup.saturating_record(held.began.elapsed().as_nanos() as u64);
                if close {
                    held.connection.close();
                }
            }
            if !held.connection.is_closed() {
                held.connection.flush(&self.poller, now)?;
            }
            if held.connection.is_closed() {
                self.members.remove(&ready.key);
                gone += 1;
            }
        }
        Ok(gone)
    }

    fn report_progress(&mut self, phase: &'static str, fraction: f64) -> Result<(), Error> {
        if (self.progress)(Progress { phase, fraction, count: self.up }) {
            Ok(())
        } else {
            Err(Error::unavailable("the load was stopped early"))
        }
    }

    /// Opens `count` connections, `parallel` at a time.
    fn fill(&mut self, count: u64) -> Result<(), Error> {
        let start = Instant::now();
        while self.up < count {
            while self.next < count && self.next - self.up < u64::from(self.plan.options.parallel) {
                self.add()?;
            }
            self.turn(false)?;
            self.report_progress("connect", self.up as f64 / count as f64)?;
            if start.elapsed() > SETUP_TIMEOUT {
                let up = self.up;
                return Err(Error::unavailable(format!(
                    "{}: only {up} of {count} connections were opened",
                    self.plan.server
                )));
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
            for held in self.members.values_mut() {
                held.connection.keep_alive(now);
                if held.connection.wire.pending() > 0 {
                    held.connection.flush(&self.poller, now)?;
                }
            }
            self.report_progress("measure", start.elapsed().as_secs_f64() / time.as_secs_f64())?;
        }
        Ok(())
    }

    /// Opens and closes connections for a while, `parallel` at a time. Returns their number.
    fn churn(&mut self, phase: &'static str, time: Duration) -> Result<u64, Error> {
        let start = Instant::now();
        let mut gone = 0;
        while start.elapsed() < time {
            while self.members.len() < self.plan.options.parallel as usize {
                self.add()?;
            }
            gone += self.turn(true)?;
            self.report_progress(phase, start.elapsed().as_secs_f64() / time.as_secs_f64())?;
        }
        Ok(gone)
    }

    fn close(&mut self) -> Result<(), Error> {
        let now = self.plan.clock.now();
        for held in self.members.values_mut() {
            held.connection.close();
            if !held.connection.is_closed() {
                held.connection.flush(&self.poller, now)?;
            }
        }
        self.members.retain(|_, held| !held.connection.is_closed());
        let start = Instant::now();
        while !self.members.is_empty() && start.elapsed() < CLOSE_TIMEOUT {
            self.turn(false)?;
        }
        Ok(())
    }
}

/// Opens connections, leaves them idle for the measured time, and reports their cost.
pub(super) fn idle(plan: &Arc<Plan>, progress: &mut dyn FnMut(Progress) -> bool, json: &mut Json) -> Result<(), Error> {
    let options = &plan.options;
    let count = u64::from(options.connections);
    let mut pool = ConnectionPool::new(plan, progress)?;
    let (empty, _) = resident_kib(&options.pids);
    let before = Snapshot::take(&options.pids);
    pool.fill(count)?;
    let full_at = Snapshot::take(&options.pids);
    let (full, _) = resident_kib(&options.pids);
    pool.hold(options.duration)?;
    let held_at = Snapshot::take(&options.pids);
    let (held, _) = resident_kib(&options.pids);
    pool.close()?;
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

/// Opens and closes connections as fast as they go; the statistics are per connection.
pub(super) fn connect(
    plan: &Arc<Plan>,
    progress: &mut dyn FnMut(Progress) -> bool,
    json: &mut Json,
) -> Result<(), Error> {
    let options = &plan.options;
    let mut pool = ConnectionPool::new(plan, progress)?;
    pool.churn("warm up", options.warmup)?;
    pool.setup.reset();
    let before = Snapshot::take(&options.pids);
    let count = pool.churn("measure", options.duration)?;
    let after = Snapshot::take(&options.pids);
    pool.close()?;
    let seconds = before.seconds_to(&after);
    json.text("mode", "connect").count("connections", count).decimal("seconds", seconds);
    json.decimal("connections_per_s", count as f64 / seconds);
    json.object("setup", latency_report(&pool.setup));
    json.object("cpu", before.report(&after, count, &options.pids));
    Ok(())
}

/// Raises the soft limit of open files to the hard one, because every connection needs a file. An
/// error is ignored: it shows when files run out.
pub(super) fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}
