//! What producers send twice, number, or send in parts.

use enmasse_amqp::types::{Body, Error, Message, MessageId, Outcome, Properties, condition};
use enmasse_journal::queue::{Duplicates, Settings};

use super::{House, QUEUE};

fn with_id(text: &str) -> Message {
    let properties = Properties { message_id: Some(MessageId::String(text.into())), ..Properties::default() };
    Message { properties: Some(properties), body: Body::Data(vec![text.into()]), ..Message::default() }
}

fn without_duplicates() -> Settings {
    Settings { duplicates: Some(Duplicates { ids: 100, window_ms: 0 }), ..Settings::default() }
}

#[test]
fn a_duplicate_is_accepted_with_its_original_and_not_before() {
    let mut house = House::new(without_duplicates());
    let (first, second) = (house.send_message(&with_id("a")), house.send_message(&with_id("a")));
    assert!(house.told.settled.is_empty(), "neither is on disk");
    house.pump();
    assert_eq!(house.told.settled, [(first, Outcome::Accepted), (second, Outcome::Accepted)]);
    let third = house.send_message(&with_id("a"));
    assert_eq!(house.told.settled.last(), Some(&(third, Outcome::Accepted)), "on disk already");
    house.consumer(QUEUE, 10);
    assert_eq!(house.texts(), ["a"]);
}

#[test]
fn a_duplicate_of_what_cannot_be_stored_is_refused_with_it_and_may_come_again() {
    let mut house = House::new(without_duplicates());
    let used = house.disk.used_bytes();
    house.disk.set_capacity_bytes(used);
    let text = "x".repeat(200_000);
    house.send_message(&with_id(&text));
    house.send_message(&with_id(&text));
    house.pump();
    for (_, outcome) in &house.told.settled {
        let Outcome::Rejected(Some(error)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED);
    }
    assert_eq!(house.told.settled.len(), 2);
    house.disk.set_capacity_bytes(used + (64 << 20));
    let again = house.send_message(&with_id(&text));
    house.pump();
    assert_eq!(house.told.settled.last(), Some(&(again, Outcome::Accepted)));
}

#[test]
fn an_address_may_be_deleted_while_the_log_writes_for_it() {
    let mut house = House::new(without_duplicates());
    house.send_message(&with_id("a"));
    house.send_message(&with_id("a"));
    house.router.retire(QUEUE, &Error::new(condition::RESOURCE_DELETED, "deleted"), &mut house.told);
    house.pump();
    assert_eq!((house.told.closed, house.told.settled.len()), (1, 0));
}
