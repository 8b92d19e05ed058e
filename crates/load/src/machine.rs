//! The machine under a load: its current speed, and the use of its processors.

use std::fs;
use std::hint::black_box;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use super::report::Json;

/// The speed of processor and memory before a run. On a shared host both vary, and with them all
/// other statistics.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calibration {
    /// milliseconds of CPU for ten million dependent multiplications
    spin_ms: f64,
    /// nanoseconds of CPU for one dependent load from 4 MiB
    memory_ns: f64,
}

impl Calibration {
    pub(super) fn measure() -> Self {
        Self { spin_ms: spin() * 1e3, memory_ns: chase() * 1e9 }
    }

    pub(super) fn report(self) -> Json {
        let mut json = Json::new();
        json.decimal("spin_ms", self.spin_ms).decimal("memory_ns", self.memory_ns);
        json.count("cores", std::thread::available_parallelism().map_or(0, |count| count.get() as i128));
        json
    }
}

fn cpu_seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn spin() -> f64 {
    let start = cpu_seconds(ClockId::ThreadCPUTime);
    let mut value = 1_u64;
    for _ in 0..10_000_000 {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    cpu_seconds(ClockId::ThreadCPUTime) - start
}

/// Follows one random cycle through 65,536 cache lines; the second round is timed.
fn chase() -> f64 {
    const LINES: usize = 65_536;
    const WORDS: usize = 8;
    let mut order: Vec<usize> = (0..LINES).collect();
    let mut random = 88_172_645_463_325_252_u64;
    for last in (1..LINES).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        order.swap(last, random as usize % (last + 1));
    }
    let mut next = vec![0_usize; LINES * WORDS];
    for (at, line) in order.iter().enumerate() {
        next[line * WORDS] = order[(at + 1) % LINES] * WORDS;
    }
    let mut at = 0;
    for _ in 0..LINES {
        at = next[at];
    }
    let start = cpu_seconds(ClockId::ThreadCPUTime);
    for _ in 0..LINES {
        at = next[at];
    }
    black_box(at);
    (cpu_seconds(ClockId::ThreadCPUTime) - start) / LINES as f64
}

/// CPU used so far, in seconds.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    at: Instant,
    own: f64,
    server: f64,
    /// of all processes of the machine
    busy: f64,
    /// stolen from this machine by its host
    stolen: f64,
}

impl Snapshot {
    pub(super) fn take(pids: &[u32]) -> Self {
        let (busy, stolen) = machine_cpu().unwrap_or_default();
        Self {
            at: Instant::now(),
            own: cpu_seconds(ClockId::ProcessCPUTime),
            server: pids.iter().filter_map(|pid| process_cpu(*pid)).sum(),
            busy,
            stolen,
        }
    }

    /// Seconds from this one to a later one.
    pub(super) fn seconds_to(&self, later: &Self) -> f64 {
        later.at.duration_since(self.at).as_secs_f64().max(1e-9)
    }

    /// CPU of server, tool and all others until a later snapshot: percent of one core, and per
    /// message.
    pub(super) fn report(&self, later: &Self, messages: u64, pids: &[u32]) -> Json {
        let seconds = self.seconds_to(later);
        let (own, server) = (later.own - self.own, later.server - self.server);
        let other = (later.busy - self.busy - own - server).max(0.0);
        let mut json = Json::new();
        json.decimal("server_percent", 100.0 * server / seconds);
        json.decimal("tool_percent", 100.0 * own / seconds);
        json.decimal("other_percent", 100.0 * other / seconds);
        json.decimal("stolen_percent", 100.0 * (later.stolen - self.stolen) / seconds);
        if !pids.is_empty() {
            json.decimal("server_us_per_message", 1e6 * server / messages as f64);
        }
        json.decimal("tool_us_per_message", 1e6 * own / messages as f64);
        json
    }
}

/// Resident memory of processes in KiB: the present value and the maximum so far.
pub(super) fn resident_kib(pids: &[u32]) -> (u64, u64) {
    let of = |pid: &u32, key: &str| -> u64 {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    };
    (pids.iter().map(|pid| of(pid, "VmRSS:")).sum(), pids.iter().map(|pid| of(pid, "VmHWM:")).sum())
}

fn ticks_to_seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// User and system time of a process with all of its threads.
fn process_cpu(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // the name in brackets may contain brackets: the fields begin after the last one
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(ticks_to_seconds(ticks()? + ticks()?))
}

/// Busy and stolen time of the whole machine.
fn machine_cpu() -> Option<(f64, f64)> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [user, nice, system, _idle, _io_wait, irq, soft_irq, stolen, ..] = fields[..] else { return None };
    Some((ticks_to_seconds(user + nice + system + irq + soft_irq), ticks_to_seconds(stolen)))
}

#[cfg(test)]
mod tests {
    use super::{Calibration, Snapshot, resident_kib, spin};

    #[test]
    fn calibration_reports_nonzero_values() {
        let report = Calibration::measure().report().finish();
        assert!(!report.contains("null") && !report.contains(": 0.000"), "{report}");
    }

    #[test]
    fn cpu_time_of_a_busy_process_is_measured() {
        let pids = [std::process::id()];
        let before = Snapshot::take(&pids);
        let mut spent = 0.0;
        while spent < 0.1 {
            spent += spin();
        }
        let after = Snapshot::take(&pids);
        assert!(after.own - before.own >= 0.1);
        assert!(after.server - before.server >= 0.05);
        assert!(before.seconds_to(&after) > 0.0);
    }

    #[test]
    fn resident_memory_is_read_and_zero_for_unknown_processes() {
        let (now, most) = resident_kib(&[std::process::id()]);
        assert!(now > 0 && most >= now);
        assert_eq!(resident_kib(&[]), (0, 0));
        assert_eq!(resident_kib(&[u32::MAX]), (0, 0));
    }
}
