//! Starts the node's threads, and ends the process if one of them panics.
//!
//! No other thread may use a worker's connections: without their worker they would stay open
//! without service. So a panic in any thread of the node writes one line to stderr and ends the
//! process.

use std::io;
use std::panic;
use std::sync::Once;
use std::thread::{self, JoinHandle};

use rustix::time::{ClockId, clock_gettime};

/// Prefix of the names of the node's threads.
const PREFIX: &str = "enmasse-";

/// Starts the thread `enmasse-{name}`.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    static HOOK: Once = Once::new();
    HOOK.call_once(install_hook);
    thread::Builder::new().name(format!("{PREFIX}{name}")).spawn(body)
}

/// Processor time of the calling thread.
pub(crate) fn cpu_micros() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    (time.tv_sec as u64) * 1_000_000 + (time.tv_nsec as u64) / 1000
}

/// A panic in a thread of the node ends the process; other panics go to the previous hook.
fn install_hook() {
    let former = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let thread = thread::current();
        let Some(name) = thread.name().filter(|name| name.starts_with(PREFIX)) else {
            return former(info);
        };
        let payload = info.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let what = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        eprintln!("enmasse: a bug stopped thread {name} at {place}: {what}; the process ends, start it again");
        std::process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    const CHILD: &str = "ENMASSE_TEST_PANIC_CHILD";

    /// Runs itself in a child process, where a thread of the node panics.
    #[test]
    fn a_panic_ends_the_process_with_one_line_that_says_where() {
        if std::env::var_os(CHILD).is_some() {
            let thread = super::spawn("worker-7", || panic!("seven is wrong")).unwrap();
            let _ = thread.join();
            unreachable!("the process outlived its worker");
        }
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "threads::tests::a_panic_ends_the_process_with_one_line_that_says_where", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let reported = String::from_utf8_lossy(&child.stderr);
        let lines: Vec<&str> = reported.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(lines.len(), 1, "{reported}");
        assert!(lines[0].contains("enmasse-worker-7") && lines[0].contains("seven is wrong"), "{reported}");
        assert!(lines[0].contains("threads.rs:"), "{reported}");
        assert_eq!(child.status.signal(), Some(6), "{:?}", child.status);
    }

    #[test]
    fn panic_on_a_foreign_thread_leaves_the_process_running() {
        super::spawn("quiet", || ()).unwrap().join().unwrap();
        let other = std::thread::Builder::new().name("a-test".to_owned()).spawn(|| panic!("expected by the test"));
        assert!(other.unwrap().join().is_err());
    }
}
