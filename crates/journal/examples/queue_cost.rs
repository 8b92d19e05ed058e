//! The cost of a message in a queue: nanoseconds of processor time, so that a busy machine disturbs
//! little.
//!
//! `cargo run --release -p enmasse-journal --example queue_cost`

use enmasse_journal::queue::{
    Admission, Consume, ConsumerId, ConsumerOutcome, Group, Head, Next, Queue, Record, RecordLocation, Restored, Seq,
    Settings, Verdict,
};

const COUNT: u64 = 1_000_000;
const NOW: u64 = 1_000_000;

fn plain() -> Head {
    Head { size_bytes: 100, durable: true, ..Head::default() }
}

fn put(queue: &mut Queue, head: &Head) {
    let Admission::Store(stored) = queue.offer(NOW, head) else { panic!("room for a message") };
    queue.committed(stored.seq, RecordLocation { segment: 1, offset: 2, len: 3 }, &mut |_| {});
}

fn take(queue: &mut Queue, consumer: ConsumerId) {
    let Next::Message(item) = queue.next(NOW, consumer, |_| Verdict::Yes) else { panic!("a message waits") };
    queue.settle(NOW, item.seq, ConsumerOutcome::Accepted, &mut |_| {});
}

fn queue_of(depth: u64, head: &Head) -> Queue {
    let mut queue = Queue::new(Settings::default(), Seq(0));
    (0..depth).for_each(|_| put(&mut queue, head));
    queue
}

fn consumer(queue: &mut Queue, consume: Consume) -> ConsumerId {
    let id = queue.attach(&consume).expect("room for a consumer");
    queue.set_credit(id, true);
    id
}

/// Nanoseconds this thread has run.
#[expect(clippy::disallowed_methods, reason = "figures are taken with a clock")]
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    stat.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("nanoseconds")
}

fn measure(name: &str, count: u64, run: impl FnOnce()) {
    let begin = cpu_ns();
    run();
    println!("{name:50} {:8.1} ns", (cpu_ns() - begin) as f64 / count as f64);
}

fn main() {
    let group = Head { group: Some(Group::default()), ..plain() };
    for (name, depth, head) in [
        ("in and out, nothing waits", 0, plain()),
        ("in and out, 1,000 wait", 1000, plain()),
        ("in and out, 1,000,000 wait", COUNT, plain()),
        ("in and out, 1,000 wait, time to live", 1000, Head { ttl_ms: Some(60_000), ..plain() }),
        ("in and out, 1,000 wait, one group", 1000, group),
    ] {
        let mut queue = queue_of(depth, &head);
        let id = consumer(&mut queue, Consume::default());
        measure(name, COUNT, || {
            for _ in 0..COUNT {
                put(&mut queue, &head);
                take(&mut queue, id);
            }
        });
    }
    let mut queue = queue_of(0, &plain());
    measure("in", COUNT, || (0..COUNT).for_each(|_| put(&mut queue, &plain())));
    println!("{:50} {:8.1} bytes", "a waiting message", queue.heap_bytes() as f64 / COUNT as f64);
    let selecting = consumer(&mut queue, Consume { selects: true, ..Consume::default() });
    measure("passed over by a selector", COUNT, || while queue.next(NOW, selecting, |_| Verdict::No) == Next::Later {});
    let id = consumer(&mut queue, Consume::default());
    measure("out", COUNT, || (0..COUNT).for_each(|_| take(&mut queue, id)));
    let record = Record { size_bytes: 100, ..Record::default() };
    let entries =
        (0..COUNT).map(|id| Restored { id: Seq(id), place: RecordLocation { segment: 0, offset: 0, len: 0 }, record });
    measure("restored", COUNT, || {
        let restored = Queue::restore(Settings::default(), Seq(0), entries, [], &mut |_| {});
        assert_eq!(restored.map(|queue| queue.len()).ok(), Some(COUNT as usize));
    });
}
