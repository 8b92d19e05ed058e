//! An unreadable disk: no message is lost or delivered twice, and after ten seconds other messages
//! overtake the unreadable one, unless their order is guaranteed. Also messages without any bytes.

use enmasse_amqp::selector::{Dialect, Selector};
use enmasse_amqp::types::Properties;
use enmasse_journal::queue::Sharing;
use enmasse_router::core::{Operation, Work};

use super::*;

/// The first message is in segment 1, the others after it; none of them is in memory.
fn split(settings: Settings, others: &[(&str, Option<&str>)], first_group: Option<&str>) -> House {
    let mut house = House::new(settings);
    let mut send = |text: String, group: Option<&str>| {
        let properties = group.map(|group| Properties { group_id: Some(group.into()), ..Properties::default() });
        house.send_message(&Message { properties, body: Body::Data(vec![text.into()]), ..Message::default() });
    };
    send(format!("a{:>50000}", ""), first_group);
    send(format!("z{:>50000}", ""), None);
    others.iter().for_each(|(text, group)| send((*text).to_owned(), *group));
    house.pump();
    let house = house.restarted();
    house.disk.set_unreadable(1, true);
    house
}

fn letters(house: &mut House) -> String {
    house.got().iter().filter_map(|got| got.text().chars().next()).collect()
}

#[test]
fn messages_overtake_an_unreadable_one_after_ten_seconds() {
    let mut house = split(Settings::default(), &[("b", None), ("c", None)], None);
    house.consumer(QUEUE, 10);
    house.pump();
    house.pass(9_000);
    assert_eq!(letters(&mut house), "", "they wait for it");
    house.pass(1_000);
    assert_eq!(letters(&mut house), "zbc");
    house.pass(60_000);
    assert_eq!(letters(&mut house), "");
    house.disk.set_unreadable(1, false);
    house.pass(60_000);
    assert_eq!(letters(&mut house), "a", "it was never lost");
    assert_eq!(house.router.take_damaged(|_| Some(())), []);
    assert_eq!(house.router.fetched_bytes(), 0);
}

#[test]
fn disk_that_recovers_within_ten_seconds_keeps_the_order() {
    let mut house = split(Settings::default(), &[("b", None)], None);
    house.consumer(QUEUE, 10);
    house.pump();
    house.pass(5_000);
    house.disk.set_unreadable(1, false);
    house.pass(5_000);
    assert_eq!(letters(&mut house), "azb");
}

#[test]
fn consumer_with_one_credit_gets_the_messages_behind_an_unreadable_one() {
    let mut house = split(Settings::default(), &[("b", None)], None);
    let attachment = house.consumer(QUEUE, 1);
    house.pump();
    house.pass(10_000);
    assert_eq!(letters(&mut house), "z");
    house.router.credit(attachment, 2, false, &mut house.recorded);
    house.pump();
    assert_eq!(letters(&mut house), "b");
}

#[test]
fn single_active_consumer_and_last_value_queues_wait_for_an_unreadable_message() {
    for settings in [
        Settings { sharing: Sharing::SingleActive, ..Settings::default() },
        Settings { last_value: true, ..Settings::default() },
    ] {
        let mut house = split(settings, &[("b", None)], None);
        house.consumer(QUEUE, 10);
        house.pump();
        house.pass(10_000);
        house.pass(60_000);
        assert_eq!(letters(&mut house), "");
        house.disk.set_unreadable(1, false);
        house.pass(60_000);
        assert_eq!(letters(&mut house), "azb");
    }
}

#[test]
fn messages_of_a_group_wait_for_its_unreadable_message() {
    let mut house = split(Settings::default(), &[("b", Some("g")), ("c", Some("h")), ("d", None)], Some("g"));
    house.consumer(QUEUE, 10);
    house.pump();
    house.pass(10_000);
    assert_eq!(letters(&mut house), "zcd");
    house.disk.set_unreadable(1, false);
    house.pass(60_000);
    assert_eq!(letters(&mut house), "ab");
}

#[test]
fn selecting_consumer_skips_an_unreadable_message_after_ten_seconds() {
    let mut house = split(Settings::default(), &[("b", Some("g"))], None);
    let selector = Selector::compile("JMSXGroupID = 'g' OR JMSXGroupID IS NULL", Dialect::Jms).expect("a selector");
    house.consumer_that(QUEUE, 10, Consuming { selector: selector.map(Arc::new), ..Consuming::default() });
    house.pump();
    house.pass(9_000);
    assert_eq!(letters(&mut house), "");
    house.pass(1_000);
    assert_eq!(letters(&mut house), "zb");
    house.disk.set_unreadable(1, false);
    house.pass(60_000);
    assert_eq!(letters(&mut house), "a");
}

#[test]
fn operation_reports_or_skips_an_unreadable_message() {
    let mut house = split(Settings::default(), &[("b", None)], None);
    house.consumer(QUEUE, 1);
    house.pump();
    house.pass(10_000);
    let operation = Operation {
        id: 1,
        address: QUEUE,
        work: Work::Peek(100_000),
        selector: None,
        names: None,
        dry_run: false,
        limit: 10,
        rest: None,
        edited: None,
    };
    house.router.operate(operation);
    house.pump();
    house.pass(5_000);
    let (_, operated) = house.router.take_operated().pop().expect("an answer");
    let why = format!("{:?}", operated.failed);
    assert!(why.contains("cannot be read from the disk") || operated.found.len() == 2, "{why}");
}

#[test]
fn message_without_sections_is_stored_and_delivered_unchanged() {
    for restart in [false, true] {
        let mut house = House::new(Settings::default());
        house.router.deliver(PRODUCER, whole(0, b""), &mut house.recorded);
        house.router.deliver(PUBLISHER, whole(1, b""), &mut house.recorded);
        house.sent = 2;
        house.pump();
        assert_eq!(house.recorded.settled, [(0, Outcome::Accepted), (1, Outcome::Accepted)]);
        if restart {
            house = house.restarted();
        }
        for address in [QUEUE, DECLARED] {
            house.consumer(address, 10);
            house.pump();
            let got = house.got();
            assert_eq!(got.len(), 1);
            assert_eq!(got[0].message, Message::default());
            house.answer(&got[0], &Outcome::Accepted);
        }
        assert_eq!(house.router.take_damaged(|_| Some(())), []);
        assert_eq!(house.log.stats().alive_messages, 0);
    }
}

#[test]
fn a_message_without_sections_goes_to_the_dead_letter_like_any_other() {
    let mut house = House::new(Settings { dead_letter: true, ..Settings::default() });
    house.router.deliver(PRODUCER, whole(0, b""), &mut house.recorded);
    house.consumer(QUEUE, 1);
    house.pump();
    let got = house.got();
    house.answer(&got[0], &Outcome::Rejected(None));
    house.consumer(DEAD, 1);
    house.pump();
    assert_eq!(house.got().len(), 1);
}
