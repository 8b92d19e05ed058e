//! Messages that were sent to a client of MQTT do not expire any more (MQTT 5.0, 4.3.3).

use enmasse_amqp::types::{Body, Error, Header, Message, Modified, Outcome, Value, condition};
use enmasse_journal::queue::{Full, Limits, Redelivery, Settings};
use enmasse_router::core::{AttachmentId, Consuming, Ending, Flow, Guarantee, Joint, PacketFlow, Work};

use super::manage::operation;
use super::subscriptions::durable;
use super::{DEAD, Got, House, KEY, QUEUE, failed, here, states_on};

/// The kind of state that names a sent message in the log.
const SENT: u8 = 0x88;
const TTL_MS: u32 = 1000;

impl House {
    fn send_brief(&mut self, text: &str) {
        let header = Some(Header { ttl: Some(TTL_MS), ..Header::default() });
        self.send_message(&Message { header, body: Body::Data(vec![text.into()]), ..Message::default() });
        self.pump();
    }

    /// A consumer whose messages do not expire once they were sent to it.
    fn client(&mut self, credit: u32) -> AttachmentId {
        let name = u64::from(self.attachments);
        self.consumer_that(QUEUE, credit, Consuming { name, guarantee: Guarantee::Kept, ..Consuming::default() })
    }

    /// The connection of a consumer breaks off.
    fn break_off(&mut self, consumer: AttachmentId, unsettled: &[Got]) {
        let tokens: Vec<u64> = unsettled.iter().map(|got| got.token).collect();
        self.router.stall(consumer);
        self.router.relinquish(&tokens, Ending::Lost, true, &mut self.recorded);
        self.router.depart(consumer, Ending::Lost, &mut self.recorded);
        self.pump();
    }
}

/// Two messages, the first of which was sent to a client.
fn with_one_sent() -> (House, AttachmentId, Vec<Got>) {
    let mut house = House::new(Settings::default());
    house.send_brief("sent");
    house.send_brief("not sent");
    let client = house.client(1);
    house.pump();
    let got = house.got();
    assert_eq!(got.iter().map(Got::text).collect::<Vec<_>>(), ["sent"]);
    (house, client, got)
}

/// Lets another consumer receive what is left, and returns the texts and the times to live.
fn rest(house: &mut House) -> Vec<(String, Option<u32>)> {
    house.client(10);
    house.pump();
    let ttl_of = |got: &Got| got.message.header.as_ref().and_then(|header| header.ttl);
    house.got().iter().map(|got| (got.text(), ttl_of(got))).collect()
}

#[test]
fn sent_message_does_not_expire_when_its_connection_breaks_off() {
    let (mut house, client, got) = with_one_sent();
    house.pass(u64::from(TTL_MS / 2));
    house.break_off(client, &got);
    house.pass(u64::from(TTL_MS));
    assert_eq!(rest(&mut house), [("sent".to_owned(), Some(0))]);
}

#[test]
fn sent_message_whose_time_is_over_returns_when_its_connection_breaks_off() {
    let (mut house, client, got) = with_one_sent();
    house.pass(u64::from(2 * TTL_MS));
    house.break_off(client, &got);
    assert_eq!(rest(&mut house), [("sent".to_owned(), Some(0))]);
}

#[test]
fn sent_message_does_not_expire_over_a_restart() {
    let (house, ..) = with_one_sent();
    let mut house = house.restarted();
    house.pass(u64::from(TTL_MS));
    let mut house = house.restarted();
    house.pass(u64::from(TTL_MS));
    assert_eq!(rest(&mut house), [("sent".to_owned(), Some(0))]);
}

#[test]
fn message_is_sent_once_its_state_is_on_disk() {
    let mut house = House::new(Settings::default());
    house.send_brief("one");
    house.client(1);
    let answers = house.written();
    assert!(house.got().is_empty());
    assert_eq!(states_on(&house.disk, SENT), 1);
    house.answered(answers);
    assert_eq!(house.texts(), ["one"]);
}

#[test]
fn acknowledged_message_leaves_no_state() {
    let (mut house, _, got) = with_one_sent();
    assert_eq!(states_on(&house.disk, SENT), 1);
    house.answer(&got[0], &Outcome::Accepted);
    house.pump();
    assert_eq!(states_on(&house.disk, SENT), 0);
}

#[test]
fn message_that_was_not_sent_expires() {
    let mut house = House::new(Settings::default());
    house.send_brief("refused");
    house.recorded.full = true;
    let client = house.client(1);
    house.pump();
    assert_eq!(states_on(&house.disk, SENT), 0);
    house.recorded.full = false;
    house.break_off(client, &[]);
    house.pass(u64::from(TTL_MS));
    assert_eq!(rest(&mut house), []);
}

#[test]
fn sent_message_that_a_later_connection_has_no_room_for_does_not_expire() {
    let (mut house, client, got) = with_one_sent();
    house.break_off(client, &got);
    house.recorded.full = true;
    let later = house.client(1);
    house.pump();
    house.recorded.full = false;
    house.break_off(later, &[]);
    let mut house = house.restarted();
    house.pass(u64::from(TTL_MS));
    assert_eq!(rest(&mut house), [("sent".to_owned(), Some(0))]);
}

#[test]
fn message_sent_to_another_consumer_expires() {
    let mut house = House::new(Settings::default());
    house.send_brief("one");
    let consumer = house.consumer(QUEUE, 1);
    let got = house.got();
    assert_eq!(states_on(&house.disk, SENT), 0);
    house.break_off(consumer, &got);
    house.pass(u64::from(TTL_MS));
    assert_eq!(rest(&mut house), []);
}

#[test]
fn message_is_sent_after_the_log_has_stopped() {
    let mut house = House::new(Settings::default());
    house.send_brief("brief");
    house.send("lasting");
    house.pump();
    house.client(10);
    let answers = house.stopped();
    assert!(house.got().is_empty(), "it waits for the disk");
    house.answered(answers);
    assert_eq!(house.texts(), ["brief", "lasting"]);
}

fn rejected() -> Outcome {
    Outcome::Rejected(Some(Box::new(Error::new(condition::NOT_ALLOWED, "the client refuses it"))))
}

/// The outcome of a message that is larger than its consumer takes.
fn too_large() -> Outcome {
    Outcome::Modified(Box::new(Modified { undeliverable_here: true, ..Modified::default() }))
}

#[test]
fn message_that_its_client_refused_or_could_not_take_expires_as_before() {
    for outcome in [rejected(), too_large()] {
        let (mut house, _, got) = with_one_sent();
        house.answer(&got[0], &outcome);
        assert_eq!(states_on(&house.disk, SENT), 0, "{outcome:?}");
        let mut house = house.restarted();
        house.pass(u64::from(TTL_MS));
        assert_eq!(rest(&mut house), [], "{outcome:?}");
    }
}

#[test]
fn message_sent_over_a_broken_connection_and_refused_later_does_not_expire() {
    for outcome in [rejected(), too_large()] {
        let (mut house, client, got) = with_one_sent();
        house.break_off(client, &got);
        house.client(1);
        house.pump();
        let again = house.got();
        house.answer(&again[0], &outcome);
        house.pass(u64::from(TTL_MS));
        let mut house = house.restarted();
        house.pass(u64::from(TTL_MS));
        assert_eq!(rest(&mut house), [("sent".to_owned(), Some(0))], "{outcome:?}");
    }
}

/// A message with a time to live that was sent to a client of a queue with these settings.
fn sent_in(settings: Settings) -> (House, AttachmentId, Got) {
    let mut house = House::new(Settings { dead_letter: true, ..settings });
    let header = Some(Header { ttl: Some(TTL_MS), ..Header::default() });
    let application_properties = vec![(KEY.to_owned(), Value::Uint(1))];
    let body = Body::Data(vec!["one".into()]);
    house.send_message(&Message { header, application_properties, body, ..Message::default() });
    let client = house.client(1);
    house.pump();
    assert_eq!(states_on(&house.disk, SENT), 1);
    let got = house.got().remove(0);
    (house, client, got)
}

/// A message as [`sent_in`], whose connection broke off.
fn returned_in(settings: Settings) -> House {
    let (mut house, client, got) = sent_in(settings);
    house.break_off(client, &[got]);
    assert_eq!(states_on(&house.disk, SENT), 1);
    house
}

/// Checks that the queue has neither a message nor the state of one, now and after a restart.
fn is_empty(house: House, how: &str) {
    assert_eq!(states_on(&house.disk, SENT), 0, "{how}");
    let mut house = house.restarted();
    assert_eq!((rest(&mut house), states_on(&house.disk, SENT)), (Vec::new(), 0), "{how}");
}

#[test]
fn message_that_ends_with_an_outcome_leaves_no_state() {
    let once = || Redelivery { attempts_max: 1, ..Redelivery::default() };
    let settings = Settings::default;
    let cases = [
        ("accepted", settings(), Outcome::Accepted),
        ("dead letter of a rejection", settings(), rejected()),
        ("dead letter of failed attempts", Settings { redelivery: once(), ..settings() }, failed()),
        (
            "rejection that counts as a failed attempt",
            Settings { redelivery: once(), reject_is_failure: true, ..settings() },
            rejected(),
        ),
    ];
    for (how, settings, outcome) in cases {
        let (mut house, _, got) = sent_in(settings);
        house.answer(&got, &outcome);
        is_empty(house, how);
    }
    let (mut house, _, got) = with_one_sent_and_dropped_failures();
    house.answer(&got, &failed());
    assert_eq!(states_on(&house.disk, SENT), 0, "without a dead-letter address");
}

/// A sent message of a queue without a dead-letter address that drops it after a failure.
fn with_one_sent_and_dropped_failures() -> (House, AttachmentId, Got) {
    let redelivery = Redelivery { attempts_max: 1, ..Redelivery::default() };
    let mut house = House::new(Settings { redelivery, ..Settings::default() });
    house.send_brief("one");
    let client = house.client(1);
    house.pump();
    let got = house.got().remove(0);
    (house, client, got)
}

#[test]
fn message_that_another_one_displaces_leaves_no_state() {
    let limits = Limits { messages: 1, ..Limits::default() };
    let mut house = returned_in(Settings { limits, full: Full::DropOldest, ..Settings::default() });
    house.send("other");
    house.pump();
    assert_eq!(states_on(&house.disk, SENT), 0, "it was the oldest of a full ring");

    let mut house = returned_in(Settings { last_value: true, ..Settings::default() });
    let application_properties = vec![(KEY.to_owned(), Value::Uint(1))];
    let body = Body::Data(vec!["newer".into()]);
    house.send_message(&Message { application_properties, body, ..Message::default() });
    house.pump();
    assert_eq!(states_on(&house.disk, SENT), 0, "it was not the last value any more");
}

#[test]
fn message_that_an_operation_removes_leaves_no_state() {
    for (how, work) in [("purged", Work::Purge), ("moved", Work::Move(here(DEAD)))] {
        let mut house = returned_in(Settings::default());
        assert_eq!(house.operate(operation(work)).messages, 1, "{how}");
        is_empty(house, how);
    }
}

#[test]
fn message_that_a_transaction_settles_leaves_no_state() {
    for (how, outcome) in [("accepted", Outcome::Accepted), ("rejected", rejected())] {
        let mut house = returned_in(Settings::default());
        house.consumer(QUEUE, 1);
        house.pump();
        let got = house.got().remove(0);
        let id = house.declare(1);
        house.retire(id, &got, &outcome, true);
        assert_eq!(house.commit(id), Ok(()));
        is_empty(house, how);
    }
}

#[test]
fn message_that_is_removed_with_its_packet_identifier_leaves_no_state() {
    let packet = PacketFlow { flow: Flow::FromNode, id: 7 };
    for joint in [None, Some(Joint { worker: 0, number: 9, parts: 2 })] {
        let (mut house, _, got) = sent_in(Settings::default());
        let record = house.subscriber(Some(durable("session")), 0);
        match joint {
            None => house.router.keep_packet_id(record, packet, Some(got.token), &mut house.recorded),
            Some(joint) => {
                house.router.keep_with(record, packet, (joint, 1));
                house.router.remove_with(got.token, (joint, 1), &mut house.recorded);
            }
        }
        house.pump();
        is_empty(house, "received by its client");
    }
}
