//! Addresses that are deleted with work in flight: pending requests are answered, and space is
//! counted once.

use std::sync::Arc;

use enmasse_amqp::types::{Body, Error, Message, MessageId, Outcome, Properties, condition};
use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::queue::{Duplicates, Settings};
use enmasse_router::core::{AddressKey, Arrival, AttachmentId, AttachmentRole, Declared};

use super::subscriptions::durable;
use super::{DEAD, House, QUEUE, TOPIC, declared, news};

/// An attachment of an anonymous link.
const ANONYMOUS: AttachmentId = AttachmentId { shard: 0, generation: 0, index: 80 };

fn anonymous(name: Option<&str>) -> AttachmentRole {
    AttachmentRole::Producer { anonymous: true, name: name.map(Into::into), producer_name: None, resume: None }
}

fn with_id(text: &str) -> Message {
    let properties = Properties { message_id: Some(MessageId::String(text.into())), ..Properties::default() };
    Message { properties: Some(properties), body: Body::Data(vec![text.into()]), ..Message::default() }
}

impl House {
    fn delete(&mut self, key: AddressKey) {
        self.router.delete_address(key, &Error::new(condition::RESOURCE_DELETED, "deleted"), &mut self.recorded);
    }
}

fn released(ids: &[u32]) -> Vec<(u32, Outcome)> {
    ids.iter().map(|id| (*id, Outcome::Released)).collect()
}

fn house_with(address: Declared, name: Option<&str>) -> House {
    let settings = Settings { duplicates: Some(Duplicates { ids: 100, window_ms: 0 }), ..Settings::default() };
    let mut house = House::new(settings);
    house.router.attach(ANONYMOUS, address, anonymous(name), &mut house.recorded);
    house
}

#[test]
fn messages_of_an_anonymous_link_are_released_when_their_queue_is_deleted() {
    for dispatched in [true, false] {
        let mut house = house_with(declared(QUEUE), None);
        let original = house.send_from(ANONYMOUS, &with_id("a"));
        let answers = if dispatched { house.written() } else { Vec::new() };
        let pending_duplicate = house.send_from(ANONYMOUS, &with_id("a"));
        let part = Arrival {
            delivery_id: 70,
            settled: false,
            message_format: 0,
            first: true,
            more: true,
            aborted: false,
            payload: b"\0\x53\x75",
        };
        house.router.deliver(ANONYMOUS, part, &mut house.recorded);
        house.delete(QUEUE);
        let mut recorded = std::mem::take(&mut house.recorded.settled);
        recorded.sort_by_key(|(id, _)| *id);
        assert_eq!(recorded, released(&[original, pending_duplicate, 70]), "handed over: {dispatched}");
        house.answered(answers);
        assert_eq!(house.recorded.settled, [], "each is settled once");
    }
}

#[test]
fn messages_of_an_anonymous_link_are_released_when_their_topic_is_deleted() {
    let mut house = house_with(news(), Some("news"));
    house.subscription(durable("sub"));
    let sent = house.send_from(ANONYMOUS, &with_id("a"));
    let answers = house.written();
    house.delete(TOPIC);
    assert_eq!(house.recorded.settled, released(&[sent]));
    house.answered(answers);
    assert_eq!(house.recorded.settled.len(), 1);
}

#[test]
fn subscription_deleted_during_compaction_leaves_no_live_record() {
    for appended_first in [true, false] {
        let mut house = House::new(Settings::default());
        let attachment = house.subscriber(Some(durable("sub")), 0);
        house.publish_all((0..30).map(|n| format!("{n} {:>1000}", "")));
        house.router.compact(1);
        let mut answers = if appended_first { house.written() } else { Vec::new() };
        house.router.unsubscribe(attachment, &mut house.recorded);
        answers.extend(house.written());
        house.answered(answers);
        let alive = house.log.stats();
        assert!(alive.copied >= 20, "{alive:?}");
        assert_eq!(alive.alive_messages, 30, "those of the declared one; appended first: {appended_first}");
        let again = house.restarted().log.stats();
        assert_eq!((again.alive_messages, again.alive_bytes), (30, alive.alive_bytes));
    }
}

#[test]
fn queue_deleted_while_a_commit_is_refused_leaves_no_live_record() {
    let mut house = House::new(Settings::default());
    house.send("a");
    house.consumer(QUEUE, 1);
    house.pump();
    let got = house.got();
    let (id, dead) = (house.declare(1), house.producer(DEAD));
    house.retire(id, &got[0], &Outcome::Accepted, true);
    house.post(id, dead, &"x".repeat(200_000));
    let used = house.disk.used_bytes();
    house.disk.set_capacity_bytes(used);
    house.router.discharge(id, false, 1, &mut house.recorded);
    let mut answers = house.written();
    assert!(answers.iter().any(|answer| answer.result.is_err()));
    house.delete(QUEUE);
    answers.extend(house.written());
    house.answered(answers);
    assert!(house.result(id).is_err());
    assert_eq!(house.log.stats().alive_messages, 0);
}

#[test]
fn queue_deleted_while_a_dead_letter_is_written_leaves_no_live_record() {
    for has_room in [true, false] {
        let mut house = House::new(Settings { dead_letter: true, ..Settings::default() });
        house.send(&"x".repeat(200_000));
        house.consumer(QUEUE, 1);
        house.pump();
        let got = house.got();
        if !has_room {
            let used = house.disk.used_bytes();
            house.disk.set_capacity_bytes(used);
        }
        house.router.outcome(got[0].token, &Outcome::Rejected(None), &mut house.recorded);
        let mut answers = house.written();
        assert_eq!(answers.iter().any(|answer| answer.result.is_err()), !has_room);
        house.disk.set_capacity_bytes(u64::MAX);
        house.delete(QUEUE);
        answers.extend(house.written());
        house.answered(answers);
        assert_eq!(house.log.stats().alive_messages, u64::from(has_room));
        assert_eq!(house.seen(DEAD).len(), usize::from(has_room));
    }
}

#[test]
fn queue_deleted_during_compaction_leaves_no_live_record() {
    for appended_first in [true, false] {
        let mut house = House::on(Arc::new(SimulatedDisk::new(512, 7)), Settings::default());
        for n in 0..30 {
            house.send(&format!("{n} {:>1000}", ""));
        }
        house.pump();
        house.router.compact(1);
        let mut answers = if appended_first { house.written() } else { Vec::new() };
        house.delete(QUEUE);
        answers.extend(house.written());
        house.answered(answers);
        assert_eq!(house.log.stats().alive_messages, 0, "appended first: {appended_first}");
    }
}
