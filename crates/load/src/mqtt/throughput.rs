//! Messages a second, or latency at a fixed rate.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use enmasse_client::Error;
use enmasse_mqtt::codec::QoS;
use hdrhistogram::Histogram;

use super::Plan;
use super::client::{Clients, TURN_MAX};
use super::publisher::Publisher;
use super::subscriber::Subscriber;
use crate::machine::{Snapshot, resident_kib};
use crate::report::Json;
use crate::schedule::SendSchedule;
use crate::{Phase, SETUP_TIMEOUT, latency_histogram, latency_report};

/// After the measured time: how long without progress until missing messages count as lost.
const QUIET_MAX: Duration = Duration::from_secs(2);
/// How long publishers sleep when they are as far ahead as they may be: nothing wakes them.
const AHEAD_WAIT: Duration = Duration::from_micros(50);

/// Counters that the threads publish once a turn.
#[derive(Default)]
struct Counters {
    publishers_up: AtomicBool,
    subscribers_up: AtomicBool,
    sent: AtomicU64,
    acknowledged: AtomicU64,
    received: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
}

/// The counters at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Count {
    sent: u64,
    acknowledged: u64,
    received: u64,
    bytes: u64,
}

impl Counters {
    fn count(&self) -> Count {
        let read = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        Count {
            sent: read(&self.sent),
            acknowledged: read(&self.acknowledged),
            received: read(&self.received),
            bytes: read(&self.bytes),
        }
    }

    fn fail(&self, error: Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }

    fn check(&self) -> Result<(), Error> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Err(failure.unwrap_or_else(|| Error::misuse("a thread of the load failed without an error")))
    }

    fn ends(&self, plan: &Plan) -> bool {
        plan.has_reached(Phase::Close) || self.failed.load(Ordering::Relaxed)
    }
}

/// Runs publishers and subscribers through all phases and puts the result into `json`.
pub(super) fn run(plan: &Arc<Plan>, json: &mut Json) -> Result<(), Error> {
    let counters = Counters::default();
    thread::scope(|scope| {
        // Subscribers first, so that every message has them.
        let receiving = scope.spawn(|| receive(plan, &counters).map_err(|error| counters.fail(error)).ok());
        let outcome = (|| {
            wait_up(&counters, &counters.subscribers_up)?;
            let sending = scope.spawn(|| send(plan, &counters).map_err(|error| counters.fail(error)).ok());
            let measured = wait_up(&counters, &counters.publishers_up).and_then(|()| measure(plan, &counters));
            plan.enter(Phase::Close);
            Ok((measured?, sending.join().unwrap_or(None)))
        })();
        plan.enter(Phase::Close);
        let received = receiving.join().unwrap_or(None);
        let (measured, sent) = outcome?;
        counters.check()?;
        match (sent, received) {
            (Some(sent), Some(received)) => {
                report(plan, &measured, &sent, &received, json);
                Ok(())
            }
            _ => Err(Error::misuse("a thread of the load panicked")),
        }
    })
}

fn wait_up(counters: &Counters, up: &AtomicBool) -> Result<(), Error> {
    let start = Instant::now();
    while !up.load(Ordering::Acquire) {
        counters.check()?;
        if start.elapsed() > SETUP_TIMEOUT {
            return Err(Error::unavailable("the server did not accept all connections in time"));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
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

fn measure(plan: &Plan, counters: &Counters) -> Result<Measured, Error> {
    let pids = &plan.options.pids;
    plan.enter(Phase::Warm);
    wait_phase(counters, plan.options.warmup)?;
    let (before, first) = (Snapshot::take(pids), counters.count());
    plan.enter(Phase::Measure);
    wait_phase(counters, plan.options.duration)?;
    let (after, last) = (Snapshot::take(pids), counters.count());
    plan.enter(Phase::Drain);
    drain(plan, counters)?;
    Ok(Measured { before, after, first, last, end: counters.count() })
}

fn wait_phase(counters: &Counters, time: Duration) -> Result<(), Error> {
    let start = Instant::now();
    while start.elapsed() < time {
        counters.check()?;
        thread::sleep((time - start.elapsed().min(time)).min(Duration::from_millis(50)));
    }
    counters.check()
}

/// Waits until all messages have arrived and are acknowledged, or there is no progress.
fn drain(plan: &Plan, counters: &Counters) -> Result<(), Error> {
    let (mut moved, mut last) = (Instant::now(), counters.count());
    let mut same = 0;
    while moved.elapsed() < QUIET_MAX {
        counters.check()?;
        thread::sleep(TURN_MAX);
        let count = counters.count();
        same = if count == last { same + 1 } else { 0 };
        let acknowledged = plan.options.qos == QoS::AtMostOnce || count.acknowledged == count.sent;
        // A few turns without a change: the publishers have noticed the phase.
        if same > 3 && acknowledged && missing(plan, &count) <= 0 {
            return Ok(());
        }
        if count != last {
            (moved, last) = (Instant::now(), count);
        }
    }
    Ok(())
}

/// Copies that did not arrive; below 0 if some arrived twice.
fn missing(plan: &Plan, count: &Count) -> i128 {
    i128::from(count.sent * plan.options.copies()) - i128::from(count.received)
}

/// What the publishers did.
struct Sent {
    sent: u64,
    acknowledged: u64,
    refused: u64,
    acknowledgement: Histogram<u64>,
}

fn send(plan: &Arc<Plan>, counters: &Counters) -> Result<Sent, Error> {
    // Lets sleeps end on time instead of up to 50 us later; the default suffices if this fails.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let publishers = (0..plan.options.publishers).map(|number| Publisher::new(plan, number));
    let mut clients = Clients::start(plan, publishers.collect::<Result<_, _>>()?)?;
    let mut schedule = None;
    let mut wait = TURN_MAX;
    loop {
        clients.turn(wait)?;
        if !counters.publishers_up.load(Ordering::Relaxed) {
            counters.publishers_up.store(clients.are_up(), Ordering::Release);
        }
        let sending = plan.is_in(Phase::Warm) || plan.is_in(Phase::Measure);
        wait = match sending {
            false => TURN_MAX,
            true if plan.options.rate > 0.0 => send_scheduled(&mut clients, &mut schedule)?,
            true => send_freely(&mut clients, counters)?,
        };
        counters.acknowledged.store(clients.all.iter().map(|one| one.role.acknowledged).sum(), Ordering::Relaxed);
        counters.sent.store(clients.all.iter().map(|one| one.role.sent).sum(), Ordering::Release);
        if counters.ends(plan) {
            clients.close();
            return Ok(sent_by(&clients));
        }
    }
}

fn sent_by(clients: &Clients<Publisher>) -> Sent {
    let mut total = Sent { sent: 0, acknowledged: 0, refused: 0, acknowledgement: latency_histogram() };
    for client in &clients.all {
        total.sent += client.role.sent;
        total.acknowledged += client.role.acknowledged;
        total.refused += client.role.refused;
        let _ = total.acknowledgement.add(&client.role.acknowledgement);
    }
    total
}

/// Sends as much as windows, sockets and `ahead` allow. Returns how long to wait.
fn send_freely(clients: &mut Clients<Publisher>, counters: &Counters) -> Result<Duration, Error> {
    let plan = Arc::clone(&clients.plan);
    let copies = plan.options.copies().max(1);
    let ahead = match plan.options.subscribers {
        0 => 0,
        _ => u64::from(plan.options.ahead),
    };
    let sent: u64 = clients.all.iter().map(|client| client.role.sent).sum();
    let mut room = match ahead {
        0 => u64::MAX,
        ahead => ahead.saturating_sub(sent.saturating_sub(counters.received.load(Ordering::Acquire) / copies)),
    };
    let portion = (room / clients.all.len().max(1) as u64).max(1);
    let mut again = false;
    for client in &mut clients.all {
        let mut left = portion.min(room);
        let due = plan.clock.now();
        while left > 0 && !client.is_blocked() && client.role.can_send(client.wire.pending()) {
            client.role.send_one(&mut client.wire.output, due);
            (left, room) = (left - 1, room.saturating_sub(1));
        }
        again |= left > 0 && !client.is_blocked() && client.wire.pending() > 0;
    }
    clients.flush()?;
    Ok(match (ahead, again) {
        (1.., _) => AHEAD_WAIT,
        (0, true) => Duration::ZERO,
        (0, false) => TURN_MAX,
    })
}

/// Gives the messages due by now to the publishers in turn. Returns the time until more is due.
fn send_scheduled(clients: &mut Clients<Publisher>, schedule: &mut Option<SendSchedule>) -> Result<Duration, Error> {
    let now = clients.plan.clock.now();
    let schedule = schedule.get_or_insert_with(|| SendSchedule::new(clients.plan.options.rate, now));
    let count = clients.all.len();
    let (mut turn, mut idle) = (0, 0);
    while idle < count
        && let Some(due) = schedule.due(now)
    {
        let client = &mut clients.all[turn];
        turn = (turn + 1) % count;
        if client.is_blocked() || !client.role.can_send(client.wire.pending()) {
            idle += 1;
            continue;
        }
        idle = 0;
        client.role.send_one(&mut client.wire.output, due);
        schedule.take();
    }
    clients.flush()?;
    Ok(schedule.wait(clients.plan.clock.now()).min(TURN_MAX))
}

/// What the subscribers got.
struct Received {
    received: u64,
    reordered: u64,
    foreign: u64,
    latency: Histogram<u64>,
}

fn receive(plan: &Arc<Plan>, counters: &Counters) -> Result<Received, Error> {
    let mut subscribers: Vec<_> = (0..plan.options.subscribers).map(|number| Subscriber::new(plan, number)).collect();
    if plan.options.wildcards > 0 {
        subscribers.push(Subscriber::with_wildcards(plan));
    }
    let mut clients = Clients::start(plan, subscribers)?;
    loop {
        clients.turn(TURN_MAX)?;
        if !counters.subscribers_up.load(Ordering::Relaxed) {
            counters.subscribers_up.store(clients.are_up(), Ordering::Release);
        }
        counters.bytes.store(clients.all.iter().map(|one| one.role.bytes).sum(), Ordering::Relaxed);
        counters.received.store(clients.all.iter().map(|one| one.role.received).sum(), Ordering::Release);
        if counters.ends(plan) {
            clients.close();
            let mut total = Received { received: 0, reordered: 0, foreign: 0, latency: latency_histogram() };
            for client in &clients.all {
                total.received += client.role.received;
                total.reordered += client.role.reordered;
                total.foreign += client.role.foreign;
                if let Some(latency) = &client.role.latency {
                    let _ = total.latency.add(latency);
                }
            }
            return Ok(total);
        }
    }
}

fn report(plan: &Plan, measured: &Measured, sent: &Sent, received: &Received, json: &mut Json) {
    let options = &plan.options;
    let Measured { before, after, first, last, end } = measured;
    let seconds = before.seconds_to(after);
    let per_second = |from: u64, to: u64| (to - from) as f64 / seconds;
    let tracked = options.qos != QoS::AtMostOnce;
    // Without subscribers the server's acknowledgements count.
    let messages = match (options.subscribers, tracked) {
        (1.., _) => last.received - first.received,
        (0, true) => last.acknowledged - first.acknowledged,
        (0, false) => last.sent - first.sent,
    };
    json.text("mode", "load").count("qos", options.qos as u8).count("version", options.version.level());
    json.count("publishers", options.publishers).count("subscribers", options.subscribers);
    json.count("body", options.body as u64).count("window", options.window).count("ahead", options.ahead);
    json.decimal("rate", options.rate).decimal("seconds", seconds).count("messages", messages);
    json.decimal("messages_per_s", messages as f64 / seconds);
    json.decimal("sent_per_s", per_second(first.sent, last.sent));
    json.decimal("acknowledged_per_s", per_second(first.acknowledged, last.acknowledged));
    json.decimal("mib_per_s", per_second(first.bytes, last.bytes) / 1_048_576.0);
    json.object("latency", latency_report(&received.latency));
    if tracked {
        json.object("acknowledgement", latency_report(&sent.acknowledgement));
    }
    let mut totals = Json::new();
    totals.count("sent", sent.sent).count("received", received.received);
    totals.count("acknowledged", sent.acknowledged).count("refused", sent.refused);
    let lost = if options.subscribers > 0 { missing(plan, end) } else { 0 };
    totals.count("missing", lost).count("reordered", received.reordered).count("foreign", received.foreign);
    json.object("totals", totals);
    json.object("cpu", before.report(after, messages, &options.pids));
    if !options.pids.is_empty() {
        let (now, most) = resident_kib(&options.pids);
        json.count("server_resident_kib", now).count("server_resident_max_kib", most);
    }
}
