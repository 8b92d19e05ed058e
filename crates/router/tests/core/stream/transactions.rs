//! Streams in transactions: offsets are assigned at the discharge, atomically with a queue.

use std::sync::Arc;

use enmasse_amqp::types::{Body, Error, Message, Outcome, Symbol, Value, condition};
use enmasse_journal::queue::Duplicates;
use enmasse_journal::stream::Settings;
use enmasse_router::core::{Arrival, AttachmentId, AttachmentRole, Consuming, Declared, Start, TransactionId};

use super::life::with_id;
use super::{
    AddressKey, AddressKind, Got, OpenQueue, PRODUCER, QUEUE, Site, WriteBatch, declared, encode_message, lines,
    producer, queue,
};
use crate::whole;

const TO_QUEUE: AttachmentId = AttachmentId { index: 901, ..PRODUCER };
const FROM_QUEUE: AttachmentId = AttachmentId { index: 902, ..PRODUCER };

fn text(text: &str) -> Message {
    Message { body: Body::Data(vec![text.into()]), ..Message::default() }
}

pub(super) fn to(partition: u32, body: &str) -> Message {
    let message_annotations = vec![(Symbol::from("x-opt-partition"), Value::Uint(partition))];
    Message { message_annotations, ..text(body) }
}

impl Site {
    pub(super) fn begin(&mut self, number: u64) -> TransactionId {
        let id = TransactionId { shard: 0, conn: 0, number };
        self.router.declare(id);
        id
    }

    pub(super) fn post(&mut self, id: TransactionId, attachment: AttachmentId, message: &Message) -> u32 {
        self.post_as(id, attachment, message, false)
    }

    fn post_as(&mut self, id: TransactionId, attachment: AttachmentId, message: &Message, settled: bool) -> u32 {
        let mut payload = Vec::new();
        encode_message(&mut payload, message);
        let delivery_id = self.sent;
        self.sent += 1;
        let arrival = Arrival { settled, ..whole(delivery_id, &payload) };
        self.router.post_delivery(attachment, id, arrival, &mut self.recorded);
        delivery_id
    }

    fn retire(&mut self, id: TransactionId, token: u64, outcome: Outcome, settled: bool) {
        self.router.retire_delivery(id, token, &Arc::new(outcome), settled, &mut self.recorded);
    }

    fn discharge(&mut self, id: TransactionId, fail: bool) -> Result<(), Error> {
        self.router.discharge(id, fail, 1, &mut self.recorded);
        self.pump();
        self.result(id)
    }

    fn result(&mut self, id: TransactionId) -> Result<(), Error> {
        let (of, result) = self.recorded.discharged.pop().expect("an answer");
        assert_eq!((of, self.recorded.discharged.len()), (id, 0));
        result
    }

    fn with_queue_attachments(mut self) -> Self {
        let queue = Declared { key: QUEUE, kind: AddressKind::Queue, ..declared() };
        self.router.attach(TO_QUEUE, queue, producer(None), &mut self.recorded);
        let role = AttachmentRole::Consumer { filter: None, consuming: Consuming::default() };
        self.router.attach(FROM_QUEUE, queue, role, &mut self.recorded);
        self
    }

    fn depth(&self) -> u64 {
        self.router.describe(QUEUE).expect("a queue").depth
    }
}

fn rolled_back(result: Result<(), Error>, words: &str) {
    let error = result.expect_err("a roll-back");
    assert_eq!(error.condition, condition::TRANSACTION_ROLLBACK);
    assert!(error.description.as_deref().unwrap_or_default().contains(words), "{error:?}");
}

fn sites(partitions: u32) -> [Site; 2] {
    let in_memory = Arc::new(super::SimulatedDisk::new(512, 7));
    [Site::new(partitions, Settings::default()), Site::on(in_memory, partitions, Settings::default(), false)]
}

#[test]
fn posting_to_a_stream_gets_its_offset_at_the_commit() {
    for mut site in sites(2) {
        let reader = site.reader(Start::First, 100);
        let id = site.begin(1);
        for message in [to(0, "a"), to(1, "b"), to(0, "c")] {
            let delivery = site.post(id, PRODUCER, &message);
            assert_eq!(site.recorded.provisional.pop(), Some(delivery));
        }
        site.send_to(0, "plain");
        site.pump();
        assert_eq!(site.texts(), lines(&[(0, "plain")]), "uncommitted messages are invisible");
        assert_eq!(site.discharge(id, false), Ok(()));
        let got: Vec<(u32, u64, String)> =
            site.got().into_iter().map(|got| (got.partition, got.offset, got.text)).collect();
        let mut sorted = got.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [(0, 1, "a".to_owned()), (0, 2, "c".to_owned()), (1, 0, "b".to_owned())]);
        site.router.detach(reader, &mut site.recorded);
        let stats = site.router.stats().find(|(key, _)| *key == super::STREAM).expect("the stream").1;
        assert_eq!(stats.accepted, 4);
        if site.on_disk {
            let mut site = site.restarted();
            assert_eq!(site.all(), [lines(&[(0, "plain"), (1, "a"), (2, "c")]), lines(&[(0, "b")])]);
        }
    }
}

#[test]
fn rolled_back_posting_gets_no_offset() {
    for mut site in sites(1) {
        let id = site.begin(1);
        site.post(id, PRODUCER, &text("never"));
        assert_eq!(site.discharge(id, true), Ok(()));
        site.send("a");
        site.pump();
        assert_eq!(site.all(), [lines(&[(0, "a")])]);
        // A transaction that times out is rolled back too.
        let held = site.router.in_progress();
        let id = site.begin(2);
        site.post(id, PRODUCER, &text("late"));
        site.pass(301_000);
        rolled_back_or_unknown(site.discharge(id, false));
        assert_eq!(site.bounds(0), (0, 1));
        assert_eq!(site.router.in_progress(), held);
    }
}

fn rolled_back_or_unknown(result: Result<(), Error>) {
    assert_eq!(result.map_err(|error| error.condition), Err(condition::TRANSACTION_UNKNOWN_ID));
}

#[test]
fn commits_to_a_partition_are_written_in_order_between_other_batches() {
    let mut site = Site::new(1, Settings::default());
    site.slow = true;
    site.send("a");
    site.turn();
    let (one, other) = (site.begin(1), site.begin(2));
    site.post(one, PRODUCER, &text("t"));
    site.post(other, PRODUCER, &text("u"));
    site.router.discharge(one, false, 1, &mut site.recorded);
    site.router.discharge(other, false, 1, &mut site.recorded);
    site.send("b");
    site.turn();
    assert_eq!(site.held.len(), 1, "the commits and later messages wait for the batch in flight");
    site.answer();
    site.turn();
    site.send("c");
    site.turn();
    assert_eq!((site.held.len(), site.recorded.discharged.len()), (1, 0), "one after the other");
    site.slow = false;
    site.answer();
    site.pump();
    assert_eq!(
        site.recorded.discharged.drain(..).map(|(id, result)| (id, result.is_ok())).collect::<Vec<_>>(),
        [(one, true), (other, true)]
    );
    assert_eq!(site.accepted(), [0, 3, 4], "those that were sent without a transaction");
    let texts = lines(&[(0, "a"), (1, "b"), (2, "t"), (3, "c"), (4, "u")]);
    assert_eq!(site.all()[0], texts);
    assert_eq!(site.restarted().all(), [texts]);
}

#[test]
fn waiting_commit_delays_only_commits_of_its_own_space() {
    for (space, held) in [(declared().space, 1), (declared().space + 1, 2)] {
        let mut site = Site::new(1, Settings::default());
        let queue = Declared { key: AddressKey(70), kind: AddressKind::Queue, space, ..declared() };
        let mut batch = WriteBatch::new();
        batch.declare(70, &[70; 16], "others");
        site.log.append(&mut batch).and_then(|()| site.log.sync()).expect("a disk that works");
        let opened = OpenQueue::new("others".into(), queue::Settings::default(), Some(70));
        site.router.open_queue(queue, opened, &mut site.recorded);
        site.router.attach(TO_QUEUE, queue, producer(None), &mut site.recorded);
        site.slow = true;
        site.send("a");
        site.turn();
        let (one, other) = (site.begin(1), site.begin(2));
        site.post(one, PRODUCER, &text("t"));
        site.post(other, TO_QUEUE, &text("u"));
        site.router.discharge(one, false, 1, &mut site.recorded);
        site.router.discharge(other, false, 1, &mut site.recorded);
        site.turn();
        assert_eq!(site.held.len(), held, "the first waits for its partition");
        site.slow = false;
        site.answer();
        site.pump();
        assert_eq!(site.recorded.discharged.len(), 2);
    }
}

#[test]
fn consecutive_commits_do_not_starve_messages_outside_of_them() {
    let mut site = Site::new(2, Settings::default());
    site.slow = true;
    let commit = |site: &mut Site, number| {
        let id = site.begin(number);
        site.post(id, PRODUCER, &to(0, "t"));
        site.router.discharge(id, false, 1, &mut site.recorded);
    };
    (1..3).for_each(|number| commit(&mut site, number));
    let (here, there) = (site.send_to(0, "here"), site.send_to(1, "there"));
    let mut turns = 0;
    // At any time one commit is in flight and one waits.
    while !(site.accepted().contains(&here) && site.accepted().contains(&there)) {
        turns += 1;
        assert!(turns < 10, "accepted: {:?}", site.accepted());
        site.turn();
        site.answer();
        commit(&mut site, 2 + turns);
    }
    site.slow = false;
    site.pump();
    assert_eq!(site.recorded.discharged.len(), 2 + turns as usize);
    assert_eq!(site.all()[1], lines(&[(0, "there")]));
}

#[test]
fn message_moved_from_a_queue_to_a_stream_is_in_exactly_one_after_any_crash() {
    let mut moved = [0; 2];
    for seed in 0..60 {
        let mut site = Site::new(2, Settings::default()).with_queue_attachments();
        site.send_from(TO_QUEUE, &text("one"));
        site.pump();
        site.router.credit(FROM_QUEUE, 10, false, &mut site.recorded);
        site.pump();
        let [got] = &site.got()[..] else { panic!("one message") };
        let token = got.token.expect("an unsettled delivery");
        let id = site.begin(1);
        site.retire(id, token, Outcome::Accepted, true);
        site.post(id, PRODUCER, &to(0, "one"));
        site.post(id, PRODUCER, &to(1, "copy"));
        site.post(id, TO_QUEUE, &text("next"));
        site.disk.cut_after(seed % 6);
        site.router.discharge(id, false, 1, &mut site.recorded);
        site.pump();
        let answered = site.recorded.discharged.pop().map(|(_, result)| result.is_ok());
        let disk = site.disk.crashed(seed);
        let mut site = site.restarted_on(disk);
        let all = site.all();
        let committed = !all[0].is_empty();
        moved[usize::from(committed)] += 1;
        assert!(committed || answered != Some(true), "a successful commit is stored");
        let expected = if committed { [lines(&[(0, "one")]), lines(&[(0, "copy")])] } else { [vec![], vec![]] };
        assert_eq!(all, expected);
        assert_eq!(site.depth(), 1);
        let mut site = site.with_queue_attachments();
        site.router.credit(FROM_QUEUE, 10, false, &mut site.recorded);
        site.pump();
        let kept: Vec<String> = site.got().into_iter().map(|got: Got| got.text).collect();
        assert_eq!(kept, [if committed { "next" } else { "one" }]);
    }
    assert!(moved.iter().all(|times| *times > 0), "{moved:?}");
}

#[test]
fn commit_on_a_full_disk_rolls_back_and_frees_its_offsets() {
    let mut site = Site::new(1, Settings::default());
    let used = site.disk.used_bytes();
    site.disk.set_capacity_bytes(used);
    let id = site.begin(1);
    let large = "x".repeat(200_000);
    site.post(id, PRODUCER, &text(&large));
    let beside = site.send("beside");
    rolled_back(site.discharge(id, false), "cannot be stored");
    assert!(
        matches!(&site.recorded.settled[..], [(id, Outcome::Rejected(_))] if *id == beside),
        "it was written with the commit"
    );
    site.disk.set_capacity_bytes(used + (64 << 20));
    site.send("a");
    site.pump();
    assert_eq!(site.all(), [lines(&[(0, "a")])]);
    assert_eq!(site.restarted().all(), [lines(&[(0, "a")])]);
}

#[test]
fn duplicates_in_a_transaction_get_no_offset() {
    let duplicates = Some(Duplicates { ids: 100, window_ms: 0 });
    let mut site = Site::new(1, Settings { duplicates, ..Settings::default() });
    site.send_message(&with_id("a"));
    site.pump();
    let id = site.begin(1);
    for name in ["a", "b", "b", "c"] {
        site.post(id, PRODUCER, &with_id(name));
    }
    site.send_message(&with_id("c"));
    assert_eq!(site.discharge(id, false), Ok(()));
    let texts = lines(&[(0, "a"), (1, "c"), (2, "b")]);
    assert_eq!(site.all()[0], texts);
    let id = site.begin(2);
    site.post(id, PRODUCER, &with_id("b"));
    assert_eq!(site.discharge(id, false), Ok(()), "nothing but duplicates");
    let mut site = site.restarted();
    let id = site.begin(3);
    site.post(id, PRODUCER, &with_id("b"));
    assert_eq!(site.discharge(id, false), Ok(()));
    assert_eq!(site.all(), [texts]);
}

#[test]
fn posting_refused_by_a_stream_is_rejected_at_once_and_fails_the_commit() {
    let mut site = Site::new(2, Settings::default());
    let id = site.begin(1);
    let refused = site.post(id, PRODUCER, &to(2, "nowhere"));
    let [(delivery, Outcome::Rejected(Some(error)))] = &site.recorded.refused_postings[..] else {
        panic!("{:?}", site.recorded.refused_postings)
    };
    assert_eq!((*delivery, &error.condition), (refused, &condition::INVALID_FIELD));
    site.post(id, PRODUCER, &to(1, "fine"));
    rolled_back(site.discharge(id, false), "x-opt-partition");
    let id = site.begin(2);
    site.post(id, PRODUCER, &to(1, "not alone"));
    site.post_as(id, PRODUCER, &to(2, "settled"), true);
    rolled_back(site.discharge(id, false), "x-opt-partition");
    assert_eq!(site.bounds(1), (0, 0));
}

#[test]
fn deleted_stream_fails_commits_that_post_to_it() {
    let mut site = Site::new(1, Settings::default()).with_queue_attachments();
    let id = site.begin(1);
    site.post(id, TO_QUEUE, &text("with it"));
    site.post(id, PRODUCER, &text("a"));
    site.router.delete_address(super::STREAM, &Error::new(condition::RESOURCE_DELETED, "gone"), &mut site.recorded);
    rolled_back(site.discharge(id, false), "deleted");
    assert_eq!(site.depth(), 0);
    // A stream deleted during the write loses its messages, and the commit succeeds.
    let mut site = Site::new(1, Settings::default()).with_queue_attachments();
    let id = site.begin(1);
    site.post(id, TO_QUEUE, &text("stays"));
    site.post(id, PRODUCER, &text("a"));
    site.slow = true;
    site.router.discharge(id, false, 1, &mut site.recorded);
    site.turn();
    site.router.delete_address(super::STREAM, &Error::new(condition::RESOURCE_DELETED, "gone"), &mut site.recorded);
    site.slow = false;
    site.answer();
    site.pump();
    assert_eq!(site.result(id), Ok(()));
    assert_eq!(site.depth(), 1);
}

#[test]
fn stream_deliveries_retired_in_a_transaction_are_settled_at_the_discharge() {
    for mut site in sites(1) {
        for body in ["a", "b", "c"] {
            site.send(body);
        }
        let reader = site.reader(Start::First, 3);
        site.pump();
        let tokens: Vec<u64> = site.got().into_iter().filter_map(|got| got.token).collect();
        assert_eq!((tokens.len(), site.router.in_progress()), (3, 3));
        let id = site.begin(1);
        site.retire(id, tokens[0], Outcome::Accepted, false);
        site.retire(id, tokens[1], Outcome::Released, true);
        assert_eq!(site.router.in_progress(), 3, "not before");
        assert_eq!(site.discharge(id, false), Ok(()));
        assert_eq!(site.router.in_progress(), 1);
        let id = site.begin(2);
        site.retire(id, tokens[2], Outcome::Accepted, false);
        assert_eq!(site.discharge(id, true), Ok(()));
        assert_eq!(site.router.in_progress(), 1, "its reader still holds it");
        site.router.outcome(tokens[2], &Outcome::Accepted, &mut site.recorded);
        assert_eq!(site.router.in_progress(), 0);
        site.router.detach(reader, &mut site.recorded);
        assert_eq!(site.all(), [lines(&[(0, "a"), (1, "b"), (2, "c")])], "no outcome removes a message");
    }
}

#[test]
fn commit_to_a_memory_stream_waits_for_an_earlier_commit_on_disk() {
    let disk = Arc::new(super::SimulatedDisk::new(512, 7));
    let mut site = Site::on(disk, 1, Settings::default(), false).with_queue_attachments();
    site.send_from(TO_QUEUE, &text("one"));
    site.router.credit(FROM_QUEUE, 1, false, &mut site.recorded);
    site.pump();
    let token = site.got()[0].token.expect("an unsettled delivery");
    let (one, other) = (site.begin(1), site.begin(2));
    site.retire(one, token, Outcome::Accepted, true);
    site.post(one, PRODUCER, &text("moved"));
    site.post(other, PRODUCER, &text("behind"));
    site.slow = true;
    site.router.discharge(one, false, 1, &mut site.recorded);
    site.router.discharge(other, false, 1, &mut site.recorded);
    site.turn();
    assert_eq!((site.held.len(), site.recorded.discharged.len(), site.bounds(0)), (1, 0, (0, 0)));
    site.slow = false;
    site.answer();
    site.pump();
    assert_eq!(site.recorded.discharged.drain(..).filter(|(_, result)| result.is_ok()).count(), 2);
    assert_eq!((site.all(), site.depth()), (vec![lines(&[(0, "moved"), (1, "behind")])], 0));
    site.send("on");
    site.pump();
    assert_eq!(site.bounds(0), (0, 3));
}
