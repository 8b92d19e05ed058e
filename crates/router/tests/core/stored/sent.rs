//! Messages that were sent to a client of MQTT do not expire any more (MQTT 5.0, 4.3.3).

use enmasse_amqp::types::{Body, Header, Message, Outcome};
use enmasse_journal::queue::{Redelivery, Settings};
use enmasse_router::core::{AttachmentId, Consuming, Ending, Guarantee};

use super::{DEAD, Got, House, QUEUE, failed, states_on};

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
        self.consumer_that(QUEUE, credit, Consuming { guarantee: Guarantee::Kept, ..Consuming::default() })
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
fn sent_message_becomes_a_dead_letter_without_state() {
    let redelivery = Redelivery { attempts_max: 1, ..Redelivery::default() };
    let mut house = House::new(Settings { redelivery, dead_letter: true, ..Settings::default() });
    house.send_brief("one");
    house.client(1);
    house.pump();
    let got = house.got();
    house.answer(&got[0], &failed());
    house.consumer(DEAD, 1);
    house.pump();
    assert_eq!(house.texts(), ["one"]);
    assert_eq!(states_on(&house.disk, SENT), 0);
}
