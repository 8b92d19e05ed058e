//! Operations of administrators on stored messages.

use std::collections::HashMap;

use enmasse_amqp::selector::{Dialect, Selector};
use enmasse_amqp::types::Header;
use enmasse_journal::queue::{Limits, Redelivery};
use enmasse_router::core::{Failed, HandoverReason, Joint, Operated, Operation, Work};

use super::*;

impl House {
    fn begin(&mut self, operation: Operation) {
        self.router.operate(operation);
        for _ in 0..100 {
            self.pump();
        }
    }

    pub(super) fn operate(&mut self, operation: Operation) -> Operated {
        let id = operation.id;
        self.begin(operation);
        let mut answers = self.router.take_operated();
        assert_eq!(answers.len(), 1, "an answer");
        let (answered, done) = answers.remove(0);
        assert_eq!(answered, id);
        done
    }
}

pub(super) fn operation(work: Work) -> Operation {
    let (id, address) = (7, QUEUE);
    Operation { id, address, work, selector: None, names: None, dry_run: false, limit: 1000, rest: None, edited: None }
}

fn five(settings: Settings) -> House {
    let mut house = House::new(settings);
    for text in ["a", "b", "c", "d", "e"] {
        house.send(text);
    }
    house.pump();
    house
}

#[test]
fn moved_messages_are_only_at_their_target_after_a_restart() {
    let mut house = five(Settings::default());
    let done = house.operate(Operation { limit: 3, ..operation(Work::Move(here(DEAD))) });
    assert_eq!((done.messages, done.rest.is_some(), done.failed), (3, true, None));
    let mut house = house.restarted();
    house.consumer(DEAD, 10);
    house.pump();
    assert_eq!(house.texts(), ["a", "b", "c"]);
    house.consumer(QUEUE, 10);
    house.pump();
    assert_eq!(house.texts(), ["d", "e"]);
}

#[test]
fn move_to_a_full_blocking_queue_leaves_the_rest_at_its_source() {
    let mut house = five(Settings::default());
    let limits = Limits { messages: 2, ..Limits::default() };
    house.router.reconfigure_queue(
        DEAD,
        Settings { limits, ..Settings::default() },
        None,
        None,
        None,
        &mut house.recorded,
    );
    let done = house.operate(operation(Work::Move(here(DEAD))));
    assert!(matches!((done.messages, &done.failed), (2, Some(Failed::Full(_)))), "{done:?}");
    house.consumer(QUEUE, 10);
    house.pump();
    assert_eq!(house.texts(), ["c", "d", "e"]);
}

#[test]
fn purged_messages_do_not_return_after_a_restart() {
    let mut house = five(Settings::default());
    assert_eq!(house.operate(operation(Work::Purge)).messages, 5);
    let mut house = house.restarted();
    house.consumer(QUEUE, 10);
    house.pump();
    assert!(house.texts().is_empty());
}

#[test]
fn purge_excludes_messages_that_consumers_hold() {
    let mut house = five(Settings::default());
    house.consumer(QUEUE, 2);
    assert_eq!(house.texts(), ["a", "b"]);
    assert_eq!(house.operate(operation(Work::Purge)).messages, 3);
    assert_eq!(house.router.queue_stats().find(|(key, _)| *key == QUEUE).map(|(_, f)| f.acquired), Some(2));
}

#[test]
fn messages_sent_between_two_pages_of_a_peek_are_excluded() {
    let mut house = five(Settings::default());
    let first = house.operate(Operation { limit: 2, ..operation(Work::Peek(1000)) });
    house.send("f");
    house.pump();
    let second = house.operate(Operation { rest: first.rest, ..operation(Work::Peek(1000)) });
    assert_eq!((first.found.len(), second.found.len(), second.rest), (2, 3, None));
}

#[test]
fn redriven_dead_letter_returns_to_its_origin_without_failed_attempts() {
    let redelivery = Redelivery { attempts_max: 1, ..Redelivery::default() };
    let mut house = House::new(Settings { redelivery, dead_letter: true, ..Settings::default() });
    house.send("m");
    house.pump();
    house.consumer(QUEUE, 1);
    let got = house.got().remove(0);
    house.answer(&got, &failed());
    let origins = HashMap::from([("orders".into(), here(QUEUE))]);
    let done = house.operate(Operation { address: DEAD, ..operation(Work::Redrive(origins)) });
    assert_eq!((done.messages, done.failed), (1, None));
    house.consumer(QUEUE, 1);
    let again = house.got().remove(0);
    assert_eq!(again.text(), "m");
    assert_eq!(again.message.header.as_ref().map_or(0, |header| header.delivery_count), 0);
    assert_eq!(again.message.message_annotations, [], "the annotations of a dead letter are removed");
}

#[test]
fn messages_that_a_full_disk_refuses_stay_and_are_not_counted() {
    let mut house = House::new(Settings::default());
    let text = "x".repeat(20_000);
    for _ in 0..4 {
        house.send(&text);
    }
    house.pump();
    house.disk.set_capacity_bytes(house.disk.used_bytes());
    let mut copied = 0;
    let failed = (0..50).find_map(|_| {
        let done = house.operate(operation(Work::Copy(here(DEAD))));
        copied += done.messages;
        done.failed
    });
    assert!(matches!(failed, Some(Failed::Log(_))), "{failed:?}");
    let stats: HashMap<_, _> = house.router.queue_stats().collect();
    assert_eq!((stats[&QUEUE].ready, stats[&DEAD].ready), (4, copied));
}

#[test]
fn operation_applies_its_selector_and_reports_a_missing_address() {
    let mut house = five(Settings::default());
    let selector = Selector::compile("JMSPriority > 4", Dialect::Jms).expect("a selector");
    let header = Some(Header { priority: 7, ..Header::default() });
    house.send_message(&Message { header, body: Body::Data(vec![b"urgent".to_vec()]), ..Message::default() });
    house.pump();
    let done = house.operate(Operation { selector, dry_run: true, ..operation(Work::Purge) });
    assert_eq!(done.messages, 1);
    let missing = house.operate(Operation { address: AddressKey(99), ..operation(Work::Purge) });
    assert_eq!(missing.failed, Some(Failed::Missing));
}

#[test]
fn a_purge_is_answered_when_its_removals_are_on_disk() {
    let mut house = five(Settings::default());
    house.router.operate(operation(Work::Purge));
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.extend(house.written());
    }
    assert_eq!(house.router.take_operated(), [], "the log has not answered");
    answers.into_iter().for_each(|answer| house.router.journaled(answer, &mut house.recorded));
    house.router.turn(&mut house.recorded);
    let (_, done) = house.router.take_operated().pop().expect("an answer");
    assert_eq!((done.messages, done.failed), (5, None));
    let mut again = house.restarted();
    again.consumer(QUEUE, 10);
    again.pump();
    assert_eq!(again.texts(), [""; 0]);
}

#[test]
fn purge_unconfirmed_by_the_disk_reports_a_failure() {
    let mut house = five(Settings::default());
    house.router.operate(operation(Work::Purge));
    let answers = house.written();
    house.now_ms += 10_000;
    house.router.set_time(house.now_ms);
    house.router.turn(&mut house.recorded);
    let (_, done) = house.router.take_operated().pop().expect("an answer");
    assert!(matches!(done.failed, Some(Failed::Log(_))), "{done:?}");
    house.answered(answers);
}

/// The other home may have answered for a move already, and its client looks here at once.
#[test]
fn an_operation_begins_when_messages_from_another_home_are_stored() {
    let mut house = House::new(Settings::default());
    let opened = OpenQueue::new("other".into(), Settings::default(), None);
    house.router.open_queue(declared(OTHER), opened, &mut house.recorded);
    let mut message = Vec::new();
    encode_message(&mut message, &Message { body: Body::Data(vec![b"m".to_vec()]), ..Message::default() });
    let joint = Joint { worker: 1, number: 1, parts: 2 };
    let reason = HandoverReason::Operation { expires: None, due: None };
    let handover = Handover { joint, space: 1, to: OTHER, reason, message: &message };
    house.router.receive_handover(&handover, &mut house.recorded);
    let parts: Vec<_> = std::iter::from_fn(|| house.router.take_journal()).collect();
    assert_eq!(parts.len(), 1);

    house.begin(Operation { address: OTHER, ..operation(Work::Peek(1000)) });
    assert_eq!(house.router.take_operated(), [], "the log has not answered");
    let answers = parts.into_iter().map(|batch| Answer { batch, result: Ok(()) });
    house.answered(answers.collect());
    let (_, done) = house.router.take_operated().pop().expect("an answer");
    assert_eq!((done.messages, done.rest), (1, None));
}
