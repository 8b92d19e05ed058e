//! Queues of several address spaces: their records go to the log in lanes, in order within each.

use enmasse_amqp::types::condition;

use super::*;

const OTHER: AddressKey = AddressKey(50);
const OTHER_LOG: u32 = 60;
const OTHER_PRODUCER: AttachmentId = AttachmentId { shard: 0, generation: 0, index: 90 };
const OTHER_CONSUMER: AttachmentId = AttachmentId { shard: 0, generation: 0, index: 91 };
const SPACE: u32 = 1;
const OTHER_SPACE: u32 = 9;
/// More than one commit of the journal.
const LARGE: usize = 5 << 20;

fn other() -> Declared {
    Declared { space: OTHER_SPACE, ..declared(OTHER) }
}

/// The usual queues, and one of another address space.
fn two_spaces() -> House {
    let mut house = House::new(Settings::default());
    let mut batch = WriteBatch::new();
    batch.declare(OTHER_LOG, &[60; 16], "other");
    house.log.append(&mut batch).expect("room");
    house.log.sync().expect("a disk that works");
    let opened = OpenQueue::new("other".into(), Settings::default(), Some(OTHER_LOG));
    house.router.open_queue(other(), opened, &mut house.recorded);
    house.router.attach(OTHER_PRODUCER, other(), producer(), &mut house.recorded);
    house.recorded = Recorded::default();
    house
}

fn message(bytes: usize) -> Message {
    Message { body: Body::Data(vec![vec![b'x'; bytes]]), ..Message::default() }
}

impl House {
    /// Sends a message to each of the two queues; returns them as their consumers got them.
    fn one_message_each(&mut self) -> [Got; 2] {
        self.send_from(PRODUCER, &message(10));
        self.send_from(OTHER_PRODUCER, &message(10));
        self.pump();
        self.consumer(QUEUE, 1);
        let role = AttachmentRole::Consumer { filter: None, consuming: Consuming::default() };
        self.router.attach(OTHER_CONSUMER, other(), role, &mut self.recorded);
        self.router.credit(OTHER_CONSUMER, 1, false, &mut self.recorded);
        self.pump();
        self.recorded.settled.clear();
        self.got().try_into().expect("two messages")
    }
}

fn parts(answers: &[Answer]) -> Vec<u32> {
    let mut parts: Vec<u32> = answers.iter().map(|answer| answer.batch.part()).collect();
    parts.sort_unstable();
    parts
}

#[test]
fn batches_of_two_spaces_are_answered_in_any_order() {
    let mut house = two_spaces();
    let one = house.send_from(PRODUCER, &message(10));
    let other = house.send_from(OTHER_PRODUCER, &message(10));
    let mut answers = house.written();
    answers.sort_by_key(|answer| answer.batch.part());
    assert_eq!(parts(&answers), [SPACE, OTHER_SPACE], "a batch for each space");
    house.answered(vec![answers.pop().expect("two")]);
    assert_eq!(house.recorded.settled, [(other, Outcome::Accepted)], "it does not wait for the other space");
    house.answered(answers);
    assert_eq!(house.recorded.settled, [(other, Outcome::Accepted), (one, Outcome::Accepted)]);
    assert!(!house.router.is_storing());
}

#[test]
fn a_large_message_has_a_batch_of_its_own() {
    let mut house = two_spaces();
    for bytes in [10, LARGE, 10] {
        house.send_from(PRODUCER, &message(bytes));
    }
    let answers = house.written();
    let sizes: Vec<bool> = answers.iter().map(|answer| answer.batch.bytes() >= LARGE).collect();
    assert_eq!(sizes, [false, true, false], "messages sent before it need not wait for it");
    assert!(answers.iter().all(|answer| answer.batch.messages() == 1));
    house.answered(answers);
    house.consumer(QUEUE, 10);
    house.pump();
    let order: Vec<bool> = house.got().iter().map(|got| got.text().len() == LARGE).collect();
    assert_eq!(order, [false, true, false]);
}

#[test]
fn address_deleted_while_its_message_is_written_leaves_no_record() {
    let mut house = two_spaces();
    house.send_from(OTHER_PRODUCER, &message(LARGE));
    let large = house.written();
    house.router.delete_address(OTHER, &Error::new(condition::RESOURCE_DELETED, "deleted"), &mut house.recorded);
    // Other spaces continue, and the drop of the queue follows its message.
    house.send_from(PRODUCER, &message(10));
    let (dropped, others): (Vec<_>, Vec<_>) =
        house.written().into_iter().partition(|answer| answer.batch.part() == OTHER_SPACE);
    assert_eq!((parts(&others), parts(&dropped)), (vec![SPACE], vec![OTHER_SPACE]));
    house.answered(others);
    let alive = house.log.stats().alive_messages;
    large.into_iter().for_each(|answer| house.router.journaled(answer, &mut house.recorded));
    let freed = house.written();
    assert!(parts(&freed).is_empty(), "its record is freed after the drop, in the same lane");
    house.answered(dropped);
    assert_eq!((alive, house.log.stats().alive_messages), (2, 1));
    assert!(!house.router.is_storing());
    assert_eq!(house.restarted().log.stats().alive_messages, 1);
}

#[test]
fn a_settlement_waits_for_its_own_space_only() {
    let mut house = two_spaces();
    let [_, got] = house.one_message_each();
    house.send_from(PRODUCER, &message(LARGE));
    let large = house.written();
    house.router.outcome_unsettled(OTHER_CONSUMER, got.token, &Outcome::Accepted, &mut house.recorded);
    let removal = house.written();
    assert_eq!((parts(&large), parts(&removal)), (vec![SPACE], vec![OTHER_SPACE]));
    assert!(house.recorded.confirmed.is_empty(), "its removal is not on disk");
    house.answered(removal);
    assert_eq!(house.recorded.confirmed, [(OTHER_CONSUMER, got.token)]);
    house.answered(large);
}

#[test]
fn notice_without_pending_writes_is_sent_in_the_next_turn() {
    let mut house = two_spaces();
    house.router.outcome_unsettled(OTHER_CONSUMER, 7, &Outcome::Accepted, &mut house.recorded);
    assert!(house.router.take_journal().is_none());
    assert!(house.recorded.confirmed.is_empty());
    house.router.turn(&mut house.recorded);
    assert_eq!(house.recorded.confirmed, [(OTHER_CONSUMER, 7)]);
}

#[test]
fn freed_room_on_a_full_disk_retries_the_removals_of_all_spaces() {
    let mut house = two_spaces();
    for got in house.one_message_each() {
        house.router.outcome(got.token, &Outcome::Accepted, &mut house.recorded);
    }
    let removals = house.refused();
    assert_eq!(parts(&removals), [SPACE, OTHER_SPACE]);
    house.router.turn(&mut house.recorded);
    removals.into_iter().for_each(|answer| house.router.journaled(answer, &mut house.recorded));
    assert!(parts(&house.written()).is_empty(), "the disk is full");
    house.send_from(PRODUCER, &message(10));
    let accepted = house.written();
    assert_eq!(parts(&accepted), [SPACE]);
    accepted.into_iter().for_each(|answer| house.router.journaled(answer, &mut house.recorded));
    assert_eq!(parts(&house.written()), [SPACE, OTHER_SPACE], "no time has passed");
}

#[test]
fn refused_removals_of_all_spaces_are_offered_again_after_a_second() {
    let mut house = two_spaces();
    for got in house.one_message_each() {
        house.router.outcome(got.token, &Outcome::Accepted, &mut house.recorded);
    }
    for answer in house.refused() {
        house.router.journaled(answer, &mut house.recorded);
    }
    assert_eq!(house.router.next_timeout(), Some(house.now_ms + 1000));
    house.router.set_time(house.now_ms + 1000);
    assert_eq!(parts(&house.written()), [SPACE, OTHER_SPACE]);
}

#[test]
fn removals_of_all_spaces_wait_for_copies() {
    let mut house = two_spaces();
    let [one, other] = house.one_message_each();
    house.router.compact(1);
    let copies = house.written();
    assert_eq!(parts(&copies), [u32::MAX], "copies have a lane of their own");
    house.router.outcome(one.token, &Outcome::Accepted, &mut house.recorded);
    house.router.outcome(other.token, &Outcome::Accepted, &mut house.recorded);
    assert!(parts(&house.written()).is_empty(), "a removal must name the new location too");
    copies.into_iter().for_each(|answer| house.router.journaled(answer, &mut house.recorded));
    let removals = house.written();
    assert_eq!(parts(&removals), [SPACE, OTHER_SPACE]);
    house.answered(removals);
    assert_eq!(house.log.stats().alive_messages, 0);
    assert_eq!(house.restarted().log.stats().alive_messages, 0);
}
