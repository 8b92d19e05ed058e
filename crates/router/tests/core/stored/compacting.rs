//! Compaction races with everything that removes, moves or renames a message. After a restart a
//! message that was removed must not return, and one that was kept must still be there.

use enmasse_amqp::types::{Body, Error, Fields, Message, Outcome, Value, condition};
use enmasse_journal::queue::Settings;
use enmasse_router::core::Answer;

use super::{DEAD, Got, House, QUEUE};

/// A body of which one fits in a segment of the test log with a few small records, and two do not.
fn filler(name: &str) -> String {
    format!("{name}{:>50000}", "")
}

fn settings() -> Settings {
    Settings { dead_letter: true, ..Settings::default() }
}

fn rejected() -> Outcome {
    Outcome::Rejected(Some(Box::new(Error::new(condition::INTERNAL_ERROR, "poison"))))
}

fn named<'a>(got: &'a [Got], name: &str) -> &'a Got {
    got.iter().find(|got| got.text().starts_with(name)).expect("it was delivered")
}

impl House {
    /// Messages "m" and "a" in segment 1, "b" in segment 2, all held by a consumer; all but "m" and
    /// "b" are accepted.
    fn with_sparse_segment() -> (Self, Vec<Got>) {
        let mut house = Self::new(settings());
        house.send("m");
        house.send(&filler("a"));
        house.send(&filler("b"));
        house.consumer(QUEUE, 10);
        house.pump();
        let got = house.got();
        assert_eq!(got.len(), 3);
        let first = named(&got, "a").clone();
        house.answer(&first, &Outcome::Accepted);
        (house, got)
    }

    /// Reclaims every segment without live records.
    fn reclaim(&mut self) {
        loop {
            self.log.sync().expect("a disk that works");
            if !self.log.turn().expect("a disk that works") {
                return;
            }
        }
    }

    /// The first letters of the messages that are available at an address.
    fn letters(&mut self, address: enmasse_router::core::AddressKey) -> String {
        let attachment = self.consumer(address, 100);
        self.pump();
        let found = self.got().iter().filter_map(|got| got.text().chars().next()).collect();
        self.router.detach(attachment, &mut self.recorded);
        self.pump();
        found
    }

    /// Completes the copies and continues until the first segments are reclaimed.
    fn settle_copies(&mut self, copies: Vec<Answer>) {
        let mut answers = copies;
        answers.extend(self.written());
        self.answered(answers);
        let attachment = self.consumer(DEAD, 10);
        self.pump();
        for dead in self.got().iter().filter(|got| got.text() == "m") {
            self.answer(dead, &Outcome::Accepted);
        }
        self.router.detach(attachment, &mut self.recorded);
        self.send(&filler("d"));
        self.pump();
        self.got();
        self.reclaim();
    }
}

#[test]
fn message_dead_lettered_during_compaction_does_not_return() {
    let (mut house, got) = House::with_sparse_segment();
    house.router.compact(1);
    let copies = house.written();
    // The next segment begins between the copy and the removal.
    house.send(&filler("c"));
    house.router.outcome(named(&got, "m").token, &rejected(), &mut house.recorded);
    house.settle_copies(copies);
    for held in house.got() {
        house.answer(&held, &Outcome::Accepted);
    }
    let mut again = house.restarted();
    assert!(!again.letters(QUEUE).contains('m'), "it went to the dead letter and was accepted there");
}

#[test]
fn message_stays_if_its_dead_letter_is_refused_during_compaction() {
    let (mut house, got) = House::with_sparse_segment();
    house.router.compact(1);
    let copies = house.written();
    house.router.outcome(named(&got, "m").token, &rejected(), &mut house.recorded);
    house.disk.set_capacity_bytes(house.disk.used_bytes());
    // Nothing has room for another segment, so the dead letter cannot be written if it needs one.
    house.answered(copies);
    assert_eq!(house.log.stats().alive_messages, 2, "\"m\" once, in either queue, and \"b\"");
    let mut again = house.restarted();
    assert_eq!(again.letters(QUEUE).matches('m').count() + again.letters(DEAD).matches('m').count(), 1);
}

#[test]
fn a_message_accepted_before_its_copy_is_written_does_not_return_after_a_crash() {
    let (mut house, got) = House::with_sparse_segment();
    house.router.compact(1);
    house.router.outcome(named(&got, "m").token, &Outcome::Accepted, &mut house.recorded);
    // All records are on disk; the crash precedes their completion.
    let answers = house.written();
    assert!(!answers.is_empty());
    assert!(!house.restarted().letters(QUEUE).contains('m'));
}

#[test]
fn dead_letter_written_before_its_compaction_copy_exists_once_after_a_crash() {
    let (mut house, got) = House::with_sparse_segment();
    house.router.compact(1);
    house.router.outcome(named(&got, "m").token, &rejected(), &mut house.recorded);
    let mut answers = house.written();
    for _ in 0..4 {
        let mut crashed = House::on(std::sync::Arc::new(house.disk.as_seen()), settings());
        let found = crashed.letters(QUEUE).matches('m').count() + crashed.letters(DEAD).matches('m').count();
        assert_eq!(found, 1, "in one of the two queues after a crash at any step");
        for answer in std::mem::take(&mut answers) {
            house.router.journaled(answer, &mut house.recorded);
        }
        answers = house.written();
    }
}

#[test]
fn message_removed_while_its_compaction_copy_is_in_flight_does_not_return() {
    let (mut house, got) = House::with_sparse_segment();
    house.router.compact(1);
    let copies = house.written();
    house.send(&filler("c"));
    house.router.outcome(named(&got, "m").token, &Outcome::Accepted, &mut house.recorded);
    house.settle_copies(copies);
    assert!(!house.restarted().letters(QUEUE).contains('m'));
}

#[test]
fn scheduled_message_due_during_compaction_survives_a_restart() {
    let mut house = House::new(settings());
    let due = i64::try_from(house.now_ms).expect("a time") + 1000;
    let message_annotations: Fields = vec![("x-opt-delivery-time".into(), Value::Timestamp(due))];
    house.send_message(&Message { message_annotations, body: Body::Data(vec![b"m".to_vec()]), ..Message::default() });
    house.send(&filler("a"));
    house.send(&filler("b"));
    house.pump();
    house.router.compact(1);
    let copies = house.written();
    house.now_ms += 2000;
    house.router.set_time(house.now_ms);
    house.router.turn(&mut house.recorded);
    house.answered(copies);
    assert_eq!(house.log.stats().alive_messages, 3, "each is counted once");
    assert_eq!(house.letters(QUEUE), "abm");
    let mut again = house.restarted();
    again.pass(60_000);
    assert_eq!(again.letters(QUEUE), "abm");
}

#[test]
fn compaction_without_remaining_copies_does_not_block_settlements() {
    let (mut house, got) = House::with_sparse_segment();
    house.router.compact(1);
    house.router.outcome(named(&got, "m").token, &Outcome::Accepted, &mut house.recorded);
    house.router.outcome(named(&got, "b").token, &rejected(), &mut house.recorded);
    house.pump();
    assert_eq!(house.letters(DEAD), "b");
    assert_eq!(house.log.stats().alive_messages, 1);
}
