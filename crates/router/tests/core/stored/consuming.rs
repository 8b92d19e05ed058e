//! Modes of consumers: selectors, browsing, priorities, exclusive consumers, and messages that are
//! undeliverable to one of them.

use std::sync::Arc;

use enmasse_amqp::codec::encode_message;
use enmasse_amqp::selector::{Dialect, Selector};
use enmasse_amqp::types::{Body, Message, Modified, Outcome, Properties, Symbol, Value};
use enmasse_journal::queue::Settings;
use enmasse_router::core::{AttachmentId, AttachmentRole, Consuming, Delivery, Read};

use super::{DEAD, House, QUEUE, declared, failed};

fn selecting(text: &str) -> Consuming {
    let selector = Selector::compile(text, Dialect::Jms).expect("a selector");
    Consuming { selector: selector.map(Arc::new), ..Consuming::default() }
}

fn browsing() -> Consuming {
    Consuming { browses: true, ..Consuming::default() }
}

/// A message of some size whose property `n` is `n`.
fn message(n: u32, bytes: usize) -> Message {
    let application_properties =
        vec![("n".to_owned(), Value::Uint(n)), ("tenth".to_owned(), Value::Bool(n.is_multiple_of(10)))];
    let text = format!("{n:>bytes$}");
    Message { application_properties, body: Body::Data(vec![text.into_bytes()]), ..Message::default() }
}

fn stored(settings: Settings, count: u32, bytes: usize) -> House {
    let mut house = House::new(settings);
    for n in 0..count {
        house.send_message(&message(n, bytes));
        if n % 100 == 0 {
            house.pump();
        }
    }
    house.pump();
    house
}

fn numbers(house: &mut House) -> Vec<u32> {
    house.texts().iter().map(|text| text.trim().parse().expect("a number")).collect()
}

fn numbers_of(house: &mut House, attachment: AttachmentId) -> Vec<u32> {
    let got = house.got().into_iter().filter(|got| got.attachment == attachment);
    got.map(|got| got.text().trim().parse().expect("a number")).collect()
}

#[test]
fn selecting_consumer_leaves_other_messages_in_order() {
    let mut house = stored(Settings::default(), 30, 10);
    house.consumer_that(QUEUE, 100, selecting("tenth"));
    assert_eq!(numbers(&mut house), [0, 10, 20]);
    house.send_message(&message(40, 10));
    house.send_message(&message(41, 10));
    house.pump();
    assert_eq!(numbers(&mut house), [40]);
    house.consumer(QUEUE, 100);
    let rest: Vec<u32> = (0..30).filter(|n| n % 10 > 0).chain([41]).collect();
    assert_eq!(numbers(&mut house), rest);
}

#[test]
fn selector_over_ten_thousand_messages_on_disk_reads_in_order_within_bounds() {
    let mut house = stored(Settings::default(), 10_000, 500).restarted();
    house.consumer_that(QUEUE, 10_000, selecting("tenth"));
    house.pump();
    assert_eq!(numbers(&mut house), (0..1000).map(|n| n * 10).collect::<Vec<_>>());
    assert!(house.most_wanted <= 200, "{} at once", house.most_wanted);
    assert_eq!(house.router.fetched_bytes(), 0, "nothing is kept without a consumer");
}

#[test]
fn bodies_fetched_for_a_full_consumer_keep_their_order() {
    let mut house = stored(Settings::default(), 20, 10).restarted();
    let attachment = house.consumer(QUEUE, 20);
    house.router.turn(&mut house.recorded);
    let mut wanted = house.router.take_wanted();
    assert_eq!(wanted.len(), 20, "all are being fetched");
    let reader = house.log.reader();
    let later = wanted.split_off(5);
    let read = |place| {
        let mut buffer = Vec::new();
        (place, Read::from(reader.read(place, &mut buffer)))
    };
    // Five bodies arrive while the consumer is full, the others once it has room.
    house.recorded.full = true;
    house.router.fetched(wanted.into_iter().map(read).collect::<Vec<_>>(), &mut house.recorded);
    house.recorded.full = false;
    house.router.credit(attachment, 20, false, &mut house.recorded);
    house.router.turn(&mut house.recorded);
    assert!(house.router.take_wanted().is_empty(), "nothing is read twice");
    house.router.fetched(later.into_iter().map(read).collect::<Vec<_>>(), &mut house.recorded);
    house.pump();
    assert_eq!(numbers(&mut house), (0..20).collect::<Vec<_>>());
    assert_eq!(house.router.fetched_bytes(), 0, "nothing is kept without a consumer");
}

#[test]
fn other_consumers_continue_while_a_selecting_consumer_waits_for_the_disk() {
    let mut house = stored(Settings::default(), 1000, 500).restarted();
    let picky = house.consumer_that(QUEUE, 1000, selecting("n = 999"));
    let any = house.consumer(QUEUE, 500);
    house.pump();
    let got = house.got();
    let of =
        |attachment| got.iter().filter(move |got| got.attachment == attachment).map(|got| got.text().trim().to_owned());
    assert_eq!(of(picky).collect::<Vec<_>>(), ["999"]);
    assert_eq!(of(any).collect::<Vec<_>>(), (0..500).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn two_selecting_consumers_each_get_their_messages_from_disk() {
    let mut house = stored(Settings::default(), 1000, 500).restarted();
    let one = house.consumer_that(QUEUE, 1000, selecting("n < 300"));
    let other = house.consumer_that(QUEUE, 1000, selecting("n >= 300"));
    house.pump();
    let got = house.got();
    let of = |attachment| {
        got.iter()
            .filter(move |got| got.attachment == attachment)
            .map(|got| got.text().trim().parse().expect("a number"))
    };
    assert_eq!(of(one).collect::<Vec<u32>>(), (0..300).collect::<Vec<_>>());
    assert_eq!(of(other).collect::<Vec<u32>>(), (300..1000).collect::<Vec<_>>());
    assert_eq!(house.router.fetched_bytes(), 0);
}

#[test]
fn selector_sees_the_delivery_count_of_a_modified_message() {
    let mut house = stored(Settings::default(), 1, 10);
    let first = house.consumer(QUEUE, 1);
    let got = house.got();
    let message_annotations = vec![(Symbol::from("JMS_seen"), Value::Uint(1))];
    let modified = Modified { delivery_failed: true, message_annotations, ..Modified::default() };
    house.answer(&got[0], &Outcome::Modified(Box::new(modified)));
    house.router.detach(first, &mut house.recorded);
    house.consumer_that(QUEUE, 1, selecting("JMSXDeliveryCount = 1"));
    assert!(house.got().is_empty());
    house.consumer_that(QUEUE, 1, selecting("JMSXDeliveryCount = 2"));
    assert_eq!(house.got().len(), 1);
}

#[test]
fn sql_filter_selects_dead_letters_by_their_cause() {
    let mut house = House::new(Settings { dead_letter: true, ..Settings::default() });
    house.send("bad");
    house.pump();
    house.consumer(QUEUE, 1);
    let got = house.got();
    house.answer(&got[0], &Outcome::Rejected(None));
    let filter = |cause: &str| {
        let text = format!("m.[x-opt-dead-letter-cause] = '{cause}' AND m.[x-opt-dead-letter-origin] = 'orders'");
        let selector = Selector::compile(&text, Dialect::AmqpSql).expect("a filter");
        Consuming { selector: selector.map(Arc::new), ..Consuming::default() }
    };
    house.consumer_that(DEAD, 1, filter("expired"));
    house.pump();
    assert!(house.got().is_empty());
    house.consumer_that(DEAD, 1, filter("rejected"));
    house.pump();
    assert_eq!(house.texts(), ["bad"]);
}

#[test]
fn drain_completes_once_every_message_on_disk_was_examined() {
    let mut house = stored(Settings::default(), 500, 500).restarted();
    let attachment = house.consumer_that(QUEUE, 0, selecting("n = 499"));
    house.router.credit(attachment, 10, true, &mut house.recorded);
    assert_eq!(house.recorded.drained, 0);
    house.pump();
    assert_eq!((house.recorded.drained, numbers(&mut house)), (1, vec![499]));
    house.router.credit(attachment, 10, true, &mut house.recorded);
    assert_eq!(house.recorded.drained, 2, "no message matches");
}

#[test]
fn a_drained_consumer_gets_nothing_before_it_has_credit_again() {
    let mut house = House::new(Settings::default());
    let attachment = house.consumer(QUEUE, 5);
    house.router.credit(attachment, 5, true, &mut house.recorded);
    assert_eq!(house.recorded.drained, 1);
    house.send_message(&message(1, 1));
    house.pump();
    assert!(house.got().is_empty());
    house.router.credit(attachment, 5, false, &mut house.recorded);
    assert_eq!(numbers(&mut house), [1]);
}

#[test]
fn browser_sees_every_message_and_removes_none_with_any_outcome() {
    for restart in [false, true] {
        let mut house = stored(Settings::default(), 300, 500);
        if restart {
            house = house.restarted();
        }
        let attachment = house.consumer_that(QUEUE, 0, browsing());
        house.router.credit(attachment, 1000, true, &mut house.recorded);
        house.pump();
        let got = house.got();
        assert_eq!((got.len(), house.recorded.drained), (300, 1));
        for (got, outcome) in got.iter().zip([Outcome::Accepted, Outcome::Released, failed(), Outcome::Rejected(None)])
        {
            house.answer(got, &outcome);
        }
        house.consumer(QUEUE, 1000);
        house.pump();
        assert_eq!(numbers(&mut house), (0..300).collect::<Vec<_>>());
        assert_eq!(house.router.fetched_bytes(), 0);
    }
}

#[test]
fn a_browser_with_a_selector_sees_what_it_selects() {
    let mut house = stored(Settings::default(), 30, 10);
    house.consumer_that(QUEUE, 100, Consuming { browses: true, ..selecting("n > 27") });
    assert_eq!(numbers(&mut house), [28, 29]);
}

#[test]
fn browser_without_room_is_sent_the_same_messages_later() {
    let mut house = stored(Settings::default(), 3, 10);
    house.recorded.full = true;
    let attachment = house.consumer_that(QUEUE, 10, browsing());
    house.recorded.full = false;
    house.router.credit(attachment, 10, false, &mut house.recorded);
    assert_eq!(numbers(&mut house), [0, 1, 2]);
}

#[test]
fn message_acquired_while_a_browser_fetches_it_is_not_sent_empty() {
    let mut house = stored(Settings::default(), 10, 500).restarted();
    let taker = house.consumer(QUEUE, 10);
    house.pump();
    let held = house.got();
    house.router.detach(taker, &mut house.recorded);
    for got in &held {
        house.router.outcome(got.token, &Outcome::Released, &mut house.recorded);
    }
    let browser = house.consumer_that(QUEUE, 0, browsing());
    house.router.credit(browser, 100, false, &mut house.recorded);
    let taker = house.consumer(QUEUE, 100);
    house.pump();
    let got = house.got();
    assert_eq!(got.iter().filter(|got| got.attachment == taker).count(), 10);
    assert!(got.iter().all(|got| !got.text().is_empty()));
}

#[test]
fn consumer_of_higher_priority_is_served_first_while_it_has_credit() {
    let mut house = stored(Settings::default(), 0, 1);
    let low = house.consumer(QUEUE, 10);
    let high = house.consumer_that(QUEUE, 3, Consuming { priority: 5, ..Consuming::default() });
    for n in 0..5 {
        house.send_message(&message(n, 1));
    }
    house.pump();
    let attachments: Vec<AttachmentId> = house.got().iter().map(|got| got.attachment).collect();
    assert_eq!(attachments, [high, high, high, low, low]);
}

#[test]
fn exclusive_consumer_excludes_all_others() {
    let mut house = House::new(Settings::default());
    let exclusive = Consuming { exclusive: true, ..Consuming::default() };
    let first = house.consumer_that(QUEUE, 1, exclusive.clone());
    house.consumer(QUEUE, 1);
    assert_eq!(house.recorded.refused, 1);
    house.router.detach(first, &mut house.recorded);
    house.consumer(QUEUE, 1);
    house.consumer_that(QUEUE, 1, exclusive);
    assert_eq!(house.recorded.refused, 2);
}

#[test]
fn undeliverable_here_keeps_a_message_from_the_consumer_of_that_name() {
    let mut house = stored(Settings::default(), 2, 1);
    let named = |name| Consuming { name, ..Consuming::default() };
    let mine = house.consumer_that(QUEUE, 1, named(7));
    let got = house.got();
    let elsewhere = Modified { undeliverable_here: true, ..Modified::default() };
    house.answer(&got[0], &Outcome::Modified(Box::new(elsewhere)));
    house.router.credit(mine, 10, false, &mut house.recorded);
    house.router.detach(mine, &mut house.recorded);
    assert_eq!(numbers(&mut house), [1], "and not 0");
    let again = house.consumer_that(QUEUE, 5, named(7));
    assert!(numbers_of(&mut house, again).is_empty());
    house.consumer_that(QUEUE, 5, named(8));
    assert_eq!(numbers(&mut house), [0]);
}

#[test]
fn undeliverable_here_still_applies_after_a_restart() {
    let mut house = stored(Settings { dead_letter: true, ..Settings::default() }, 3, 1);
    let named = |name| Consuming { name, ..Consuming::default() };
    let elsewhere = Modified { undeliverable_here: true, ..Modified::default() };
    for name in [7, 8] {
        let attachment = house.consumer_that(QUEUE, 2, named(name));
        for got in house.got() {
            house.answer(&got, &Outcome::Modified(Box::new(elsewhere.clone())));
        }
        house.router.detach(attachment, &mut house.recorded);
        house.pump();
        house.got();
    }
    let mut house = house.restarted();
    for name in [7, 8] {
        let attachment = house.consumer_that(QUEUE, 1, named(name));
        house.pump();
        let got = house.got();
        assert_eq!(got.iter().map(|got| got.text()).collect::<Vec<_>>(), ["2"]);
        house.answer(&got[0], &Outcome::Released);
        house.router.detach(attachment, &mut house.recorded);
    }
    house.consumer_that(QUEUE, 9, named(9));
    house.pump();
    let got = house.got();
    assert_eq!(got.len(), 3);
    for (got, outcome) in got.iter().zip([Outcome::Accepted, Outcome::Rejected(None), Outcome::Accepted]) {
        house.answer(got, &outcome);
    }
    assert_eq!(super::states_on(&house.disk, 0x85), 0, "the states of removed messages are removed too");
}

#[test]
fn thousands_of_messages_expiring_on_disk_are_dead_lettered_within_bounds() {
    let settings = Settings { expiry: true, ttl: super::ttl(1000), ..Settings::default() };
    let mut house = stored(settings, 3000, 500).restarted();
    house.pass(5000);
    for _ in 0..100 {
        house.pass(1000);
    }
    house.consumer(DEAD, 5000);
    house.pump();
    assert_eq!(house.got().len(), 3000);
    assert_eq!(house.router.fetched_bytes(), 0);
}

#[test]
fn detached_browser_does_not_affect_the_fetches_of_a_consumer() {
    let mut house = stored(Settings::default(), 10, 500).restarted();
    let browser = house.consumer_that(QUEUE, 10, browsing());
    let taker = house.consumer(QUEUE, 20);
    house.router.detach(browser, &mut house.recorded);
    house.pump();
    assert_eq!(numbers_of(&mut house, taker), (0..10).collect::<Vec<_>>());
}

#[test]
fn deliveries_refused_by_another_shard_wait_for_its_credit_in_order() {
    for consuming in [Consuming::default(), browsing()] {
        let mut house = stored(Settings::default(), 3, 10);
        let attachment = AttachmentId { shard: 1, generation: 0, index: 1 };
        let role = AttachmentRole::Consumer { filter: None, consuming };
        house.router.attach(attachment, declared(QUEUE), role, &mut house.recorded);
        house.router.credit(attachment, 10, false, &mut house.recorded);
        let got = house.got();
        assert_eq!(got.len(), 3);
        for got in &got {
            let mut payload = Vec::new();
            encode_message(&mut payload, &got.message);
            let (token, payload) = (Some(got.token), &payload[..]);
            let back =
                Delivery { token, message_format: 0, first: true, more: false, aborted: false, payload, shared: None };
            house.router.refused(attachment, &back, &mut house.recorded);
        }
        house.pump();
        assert!(house.got().is_empty(), "it has not stated its credit");
        house.router.credit(attachment, 10, false, &mut house.recorded);
        assert_eq!(numbers(&mut house), [0, 1, 2]);
    }
}

#[test]
fn consumers_that_settle_at_once_take_turns() {
    let mut house = House::new(Settings::default());
    let attachments = [house.consumer(QUEUE, 100), house.consumer(QUEUE, 100)];
    let mut shares = [0; 2];
    for n in 0..40 {
        house.send_message(&message(n, 10));
        house.pump();
        for got in house.got() {
            shares[usize::from(got.attachment == attachments[1])] += 1;
            house.answer(&got, &Outcome::Accepted);
        }
        house.pump();
    }
    assert_eq!(shares, [20, 20]);
}

#[test]
fn groups_are_shared_by_consumers_that_settle_at_once() {
    let mut house = House::new(Settings::default());
    let attachments = [(); 3].map(|()| house.consumer(QUEUE, 100));
    let mut shares = [0; 3];
    for n in 0..60 {
        let properties = Some(Properties { group_id: Some(format!("g{}", n / 2)), ..Properties::default() });
        house.send_message(&Message { properties, ..message(n, 10) });
        house.pump();
        for got in house.got() {
            shares[attachments.iter().position(|attachment| *attachment == got.attachment).expect("one of them")] += 1;
            house.answer(&got, &Outcome::Accepted);
        }
    }
    assert_eq!(shares, [20; 3]);
}
