//! Messages a second, or latency at a fixed rate, through any number of links.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::machine::{Snapshot, resident_kib};
use super::receiver::{Received, Receiver};
use super::report::Json;
use super::schedule::SendSchedule;
use super::sender::{Sender, Sent};
use super::worker::{TURN_MAX, Worker};
use super::{Phase, Plan, Progress, SETUP_TIMEOUT, latency_histogram, latency_report};
use enmasse_client::Error;

/// After the measured time: how long without progress until missing messages count as lost.
const QUIET_MAX: Duration = Duration::from_secs(2);
/// The same if a number of messages is awaited, because a server may have to search for them first.
const AWAIT_MAX: Duration = Duration::from_secs(30);
/// How long the server may take to answer the closes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How often progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Counters that the threads publish once a turn.
#[derive(Default)]
struct SharedCounters {
    senders_up: AtomicBool,
    receivers_up: AtomicBool,
    sent: AtomicU64,
    settled: AtomicU64,
    refused: AtomicU64,
    received: AtomicU64,
    bytes: AtomicU64,
    /// sending has ended
    quiet: AtomicBool,
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
}

/// The counters at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Count {
    sent: u64,
    settled: u64,
    refused: u64,
    received: u64,
    bytes: u64,
}

impl SharedCounters {
    fn count(&self) -> Count {
        let read = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        Count {
            sent: read(&self.sent),
            settled: read(&self.settled),
            refused: read(&self.refused),
            received: read(&self.received),
            bytes: read(&self.bytes),
        }
    }

    fn fail(&self, error: Error) {
        let mut failure = self.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        failure.get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }

    fn check(&self) -> Result<(), Error> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let failure = self.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        Err(failure.unwrap_or_else(|| Error::misuse("a thread of the load failed without an error")))
    }
}

/// Runs senders and receivers through all phases and puts the result into `json`.
pub(super) fn run(plan: &Arc<Plan>, progress: &mut dyn FnMut(Progress) -> bool, json: &mut Json) -> Result<(), Error> {
    let counters = SharedCounters::default();
    let (senders, receivers) = distribute_links(plan);
    // without senders, a receiver may get its first message before the last receiver is attached
    let begun = (Snapshot::take(&plan.options.pids), counters.count());
    thread::scope(|scope| {
        let receiving = scope.spawn(|| guard(&counters, || receive(plan, &counters, receivers)));
        let outcome = (|| {
            let mut controller = PhaseController { plan, counters: &counters, progress };
            // receivers first, so that an address has consumers before it has producers
            controller.wait_up(&counters.receivers_up)?;
            let sending = scope.spawn(|| guard(&counters, || send(plan, &counters, senders)));
            controller.wait_up(&counters.senders_up)?;
            let measured = controller.measure(begun);
            plan.enter(Phase::Close);
            let measured = measured?;
            Ok((measured, sending.join().unwrap_or(None)))
        })();
        plan.enter(Phase::Close);
        let received = receiving.join().unwrap_or(None);
        let (measured, sent) = outcome?;
        counters.check()?;
        match (sent, received) {
            (Some(sent), Some(received)) => {
                measured.report(plan, &sent, &received, json);
                Ok(())
            }
            _ => Err(Error::misuse("a thread of the load panicked")),
        }
    })
}

/// Deals the links to connections: numbers of the senders' links, and of the receivers'.
fn distribute_links(plan: &Plan) -> (Vec<Vec<u32>>, Vec<Vec<u32>>) {
    let options = &plan.options;
    let (senders, receivers) = (options.senders, options.receivers);
    let (left, right) = match options.connections {
        0 => (senders, receivers),
        all if receivers == 0 => (all, 0),
        all if senders == 0 => (0, all),
        all => {
            let left = (all / 2).clamp(1, senders);
            (left, (all - left).min(receivers))
        }
    };
    let share = |links: u32, connections: u32| -> Vec<Vec<u32>> {
        (0..connections).map(|first| (first..links).step_by(connections as usize).collect()).collect()
    };
    (share(senders, left), share(receivers, right))
}

/// Runs a thread's work; records its error in the shared counters.
fn guard<R>(counters: &SharedCounters, work: impl FnOnce() -> Result<R, Error>) -> Option<R> {
    work().map_err(|error| counters.fail(error)).ok()
}

struct SendResult {
    counts: Sent,
    settlement: hdrhistogram::Histogram<u64>,
}

fn send(plan: &Arc<Plan>, counters: &SharedCounters, links: Vec<Vec<u32>>) -> Result<SendResult, Error> {
    // lets sleeps end on time instead of up to 50 us later; the default suffices if this fails
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let senders = links.into_iter().map(|numbers| Sender::new(plan, numbers)).collect();
    let mut worker = Worker::start(plan, senders)?;
    let mut schedule = None;
    let mut wait = TURN_MAX;
    loop {
        worker.turn(wait)?;
        if !counters.senders_up.load(Ordering::Relaxed) {
            counters.senders_up.store(worker.are_up(), Ordering::Release);
        }
        let sending = plan.is_in(Phase::Warm) || plan.is_measuring();
        wait = if !sending {
            TURN_MAX
        } else if plan.options.rate > 0.0 {
            send_scheduled(&mut worker, &mut schedule)?
        } else {
            send_freely(&mut worker)?
        };
        let counts = total_sent(&worker);
        counters.settled.store(counts.settled(), Ordering::Relaxed);
        counters.refused.store(counts.refused(), Ordering::Relaxed);
        counters.sent.store(counts.sent, Ordering::Release);
        if plan.has_reached(Phase::Drain) {
            counters.quiet.store(true, Ordering::Release);
        }
        if plan.has_reached(Phase::Close) || counters.failed.load(Ordering::Relaxed) {
            worker.close(CLOSE_TIMEOUT)?;
            let mut settlement = latency_histogram();
            for connection in &worker.connections {
                let _ = settlement.add(&connection.traffic.settlement);
            }
            return Ok(SendResult { counts: total_sent(&worker), settlement });
        }
    }
}

fn total_sent(worker: &Worker<Sender>) -> Sent {
    let mut total = Sent::default();
    for connection in &worker.connections {
        total += &connection.traffic.counts;
    }
    total
}

/// Sends as much as credit and sockets allow. Returns how long to wait.
fn send_freely(worker: &mut Worker<Sender>) -> Result<Duration, Error> {
    let mut again = false;
    for connection in &mut worker.connections {
        if !connection.is_blocked() {
            again |= connection.traffic.send_all(&mut connection.session, &mut connection.wire.output);
        }
    }
    worker.flush(worker.plan.clock.now())?;
    Ok(if again { Duration::ZERO } else { TURN_MAX })
}

/// Distributes the messages due by now to the connections in turn. Returns the time until more is
/// due.
fn send_scheduled(worker: &mut Worker<Sender>, schedule: &mut Option<SendSchedule>) -> Result<Duration, Error> {
    let now = worker.plan.clock.now();
    let schedule = schedule.get_or_insert_with(|| SendSchedule::new(worker.plan.options.rate, now));
    let count = worker.connections.len();
    let mut turn = 0;
    let mut idle = 0;
    while idle < count
        && let Some(due) = schedule.due(now)
    {
        let connection = &mut worker.connections[turn];
        turn = (turn + 1) % count;
        let pending = connection.wire.pending();
        if connection.is_blocked() || !connection.traffic.can_send(&connection.session, pending) {
            idle += 1;
            continue;
        }
        idle = 0;
        connection.traffic.send_one(&mut connection.session, &mut connection.wire.output, due);
        schedule.take();
    }
    worker.flush(now)?;
    Ok(schedule.wait(worker.plan.clock.now()).min(TURN_MAX))
}

struct ReceiveResult {
    counts: Received,
    latency: hdrhistogram::Histogram<u64>,
}

fn receive(plan: &Arc<Plan>, counters: &SharedCounters, links: Vec<Vec<u32>>) -> Result<ReceiveResult, Error> {
    let receivers = links.into_iter().map(|numbers| Receiver::new(plan, numbers)).collect();
    let mut worker = Worker::start(plan, receivers)?;
    loop {
        worker.turn(TURN_MAX)?;
        if !counters.receivers_up.load(Ordering::Relaxed) {
            counters.receivers_up.store(worker.are_up(), Ordering::Release);
        }
        let counts = total_received(&worker);
        counters.bytes.store(counts.bytes, Ordering::Relaxed);
        counters.received.store(counts.messages, Ordering::Release);
        if plan.has_reached(Phase::Close) || counters.failed.load(Ordering::Relaxed) {
            worker.close(CLOSE_TIMEOUT)?;
            let mut latency = latency_histogram();
            for connection in &worker.connections {
                let _ = latency.add(&connection.traffic.latency);
            }
            return Ok(ReceiveResult { counts: total_received(&worker), latency });
        }
    }
}

fn total_received(worker: &Worker<Receiver>) -> Received {
    let mut total = Received::default();
    for connection in &worker.connections {
        total += &connection.traffic.counts;
    }
    total
}

/// Switches the phases while the threads work.
struct PhaseController<'a> {
    plan: &'a Plan,
    counters: &'a SharedCounters,
    progress: &'a mut dyn FnMut(Progress) -> bool,
}

impl PhaseController<'_> {
    fn report_progress(&mut self, phase: &'static str, fraction: f64) -> Result<(), Error> {
        let count = self.counters.count();
        let count = if self.plan.options.receivers > 0 { count.received } else { count.settled.max(count.sent) };
        if !(self.progress)(Progress { phase, fraction, count }) {
            return Err(Error::unavailable("the load was stopped early"));
        }
        self.counters.check()
    }

    fn wait_up(&mut self, up: &AtomicBool) -> Result<(), Error> {
        let start = Instant::now();
        while !up.load(Ordering::Acquire) {
            self.report_progress("connect", 0.0)?;
            if start.elapsed() > SETUP_TIMEOUT {
                return Err(Error::unavailable(format!("{}: not all links were attached in time", self.plan.server)));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Waits for the time of a phase and reports progress.
    fn wait_phase(&mut self, phase: &'static str, time: Duration) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            let gone = start.elapsed();
            if gone >= time {
                return Ok(());
            }
            self.report_progress(phase, gone.as_secs_f64() / time.as_secs_f64())?;
            thread::sleep(PROGRESS_INTERVAL.min(time - gone));
        }
    }

    fn measure(&mut self, begun: (Snapshot, Count)) -> Result<Measured, Error> {
        let pids = &self.plan.options.pids;
        let counted = self.plan.options.messages > 0;
        if !counted {
            self.plan.enter(Phase::Warm);
            self.wait_phase("warm up", self.plan.options.warmup)?;
        }
        let (before, first) = if counted && self.plan.options.senders == 0 {
            begun
        } else {
            (Snapshot::take(pids), self.counters.count())
        };
        self.plan.enter(Phase::Measure);
        if counted {
            self.await_all()?;
        } else {
            self.wait_phase("measure", self.plan.options.duration)?;
        }
        let (after, last) = (Snapshot::take(pids), self.counters.count());
        self.plan.enter(Phase::Drain);
        self.drain()?;
        Ok(Measured { before, after, first, last, end: self.counters.count() })
    }

    /// Waits until the requested number of messages has arrived and is settled, or there is no
    /// progress.
    fn await_all(&mut self) -> Result<(), Error> {
        let all = self.plan.awaited();
        let mut moved = Instant::now();
        let mut last = self.counters.count();
        loop {
            let count = self.counters.count();
            let done = self.plan.done(&count);
            self.report_progress("measure", done as f64 / all as f64)?;
            if done == all {
                return Ok(());
            }
            if count != last {
                (moved, last) = (Instant::now(), count);
            }
            if moved.elapsed() > AWAIT_MAX {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until all sent messages have arrived and are settled, or there is no progress.
    fn drain(&mut self) -> Result<(), Error> {
        let mut moved = Instant::now();
        let mut last = self.counters.count();
        loop {
            self.report_progress("drain", 0.0)?;
            let count = self.counters.count();
            if self.counters.quiet.load(Ordering::Acquire)
                && self.plan.missing(&count) <= 0
                && self.plan.is_settled(&count)
            {
                return Ok(());
            }
            if count != last {
                (moved, last) = (Instant::now(), count);
            }
            if moved.elapsed() > QUIET_MAX {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Plan {
    /// How many receivers get each message.
    fn copies(&self) -> u64 {
        if self.options.multicast { u64::from(self.options.receivers / self.options.addresses) } else { 1 }
    }

    /// Messages sent that neither arrived nor returned; below 0 if some arrived twice.
    fn missing(&self, count: &Count) -> i128 {
        if self.options.senders == 0 {
            return i128::from(self.awaited()) - i128::from(count.received);
        }
        if self.options.receivers == 0 {
            return 0;
        }
        let refused = if self.options.multicast { 0 } else { count.refused };
        i128::from(count.sent * self.copies()) - i128::from(count.received) - i128::from(refused)
    }

    /// The requested number of messages in total, if any.
    fn awaited(&self) -> u64 {
        let links = if self.options.senders > 0 { self.options.senders } else { self.options.receivers };
        u64::from(self.options.messages) * u64::from(links)
    }

    /// How many of the requested messages are complete.
    fn done(&self, count: &Count) -> u64 {
        let taken = if self.options.presettled { count.sent } else { count.settled };
        let arrived = if self.options.receivers > 0 { count.received / self.copies() } else { u64::MAX };
        let sent = if self.options.senders > 0 { taken } else { u64::MAX };
        // refused messages never arrive, and duplicates do not count twice
        sent.min(arrived.saturating_add(count.refused)).min(self.awaited())
    }

    fn is_settled(&self, count: &Count) -> bool {
        self.options.presettled || count.settled >= count.sent
    }
}

/// The messages of the measured time.
struct Measured {
    before: Snapshot,
    after: Snapshot,
    first: Count,
    last: Count,
    /// after the drain
    end: Count,
}

impl Measured {
    fn report(&self, plan: &Plan, sent: &SendResult, received: &ReceiveResult, json: &mut Json) {
        let options = &plan.options;
        let seconds = self.before.seconds_to(&self.after);
        let per_second = |from: u64, to: u64| (to - from) as f64 / seconds;
        // without receivers the server's acceptances count
        let messages = match (options.receivers, options.presettled) {
            (1.., _) => self.last.received - self.first.received,
            (0, true) => self.last.sent - self.first.sent,
            (0, false) => self.last.settled - self.first.settled,
        };
        json.text("mode", "load");
        json.count("senders", options.senders).count("receivers", options.receivers);
        json.count("body", options.body as u64).flag("presettled", options.presettled);
        json.flag("multicast", options.multicast).decimal("rate", options.rate);
        json.decimal("seconds", seconds).count("messages", messages);
        json.decimal("messages_per_s", messages as f64 / seconds);
        json.decimal("sent_per_s", per_second(self.first.sent, self.last.sent));
        json.decimal("settled_per_s", per_second(self.first.settled, self.last.settled));
        json.decimal("mib_per_s", per_second(self.first.bytes, self.last.bytes) / 1_048_576.0);
        json.object("latency", latency_report(&received.latency));
        if !options.presettled {
            json.object("settlement", latency_report(&sent.settlement));
        }
        let mut totals = Json::new();
        totals.count("sent", sent.counts.sent).count("received", received.counts.messages);
        totals.count("accepted", sent.counts.accepted).count("rejected", sent.counts.rejected);
        totals.count("released", sent.counts.released).count("modified", sent.counts.modified);
        totals.count("missing", plan.missing(&self.end)).count("reordered", received.counts.reordered);
        totals.count("foreign", received.counts.foreign);
        json.object("totals", totals);
        json.object("cpu", self.before.report(&self.after, messages, &options.pids));
        if !options.pids.is_empty() {
            let (now, most) = resident_kib(&options.pids);
            json.count("server_resident_kib", now).count("server_resident_max_kib", most);
        }
    }
}
