//! Attaching and detaching links, and deleted addresses.

use enmasse_amqp::types::Outcome;
use enmasse_router::core::{AddressKey, AddressKind, AttachmentId, AttachmentRole, Consuming, Declared};

use crate::bench::{Bench, HERE};

const KINDS: [AddressKind; 2] = [AddressKind::Anycast, AddressKind::Multicast];

#[test]
fn commands_for_a_detached_attachment_are_ignored() {
    let mut bench = Bench::new(AddressKind::Anycast);
    let (producer, consumer) = (bench.producer(), bench.consumer_with(1));
    bench.detach(consumer);
    bench.detach(consumer);
    bench.hush();
    bench.credit(consumer, 5);
    bench.credit(producer, 5);
    bench.send(consumer, 0, "from a consumer that went");
    bench.send(producer, 1, "m");
    assert_eq!(bench.reported().last().map(String::as_str), Some("p0 1 released"));
    let stranger = bench.attachment(HERE, "stranger");
    bench.send(stranger, 0, "m");
    bench.detach(stranger);
    bench.arrive(producer, 0, "no first part", "last");
    assert_eq!(bench.reported(), [""; 0]);
}

#[test]
fn new_occupant_of_a_slot_gets_nothing_of_the_previous_one() {
    let mut bench = Bench::new(AddressKind::Anycast);
    let (producer, consumer) = (bench.producer(), bench.consumer_with(2));
    bench.send(producer, 0, "m");
    let next = AttachmentId { generation: producer.generation + 1, ..producer };
    bench.detach(producer);
    bench.rename(next, "next");
    let (declared, role) = (
        bench.declared(),
        AttachmentRole::Producer { anonymous: false, name: None, producer_name: None, resume: None },
    );
    bench.router.attach(next, declared, role, &mut bench.links);
    bench.hush();
    bench.answer(consumer, "m", &Outcome::Accepted);
    bench.send(producer, 1, "late");
    bench.turn();
    assert_eq!(bench.reported(), [""; 0]);
    bench.send(next, 0, "n");
    assert_eq!(bench.reported(), ["c0<n"]);
}

#[test]
fn attach_to_an_occupied_slot_detaches_the_previous_occupant() {
    let mut bench = Bench::new(AddressKind::Anycast);
    let consumer = bench.consumer_with(1);
    let role = AttachmentRole::Consumer { filter: None, consuming: Consuming::default() };
    let declared = bench.declared();
    bench.router.attach(
        AttachmentId { generation: consumer.generation + 1, ..consumer },
        declared,
        role,
        &mut bench.links,
    );
    assert_eq!(bench.stats().consumers, 1);
}

#[test]
fn links_may_leave_in_any_order() {
    for kind in KINDS {
        let mut bench = Bench::new(kind);
        let producers = [bench.producer(), bench.producer(), bench.producer()];
        let consumers = [bench.consumer_with(9), bench.consumer_with(9), bench.consumer_with(9)];
        bench.detach(producers[0]);
        bench.detach(producers[2]);
        bench.detach(consumers[0]);
        bench.detach(consumers[1]);
        bench.hush();
        bench.send(producers[1], 0, "m");
        assert_eq!(bench.reported(), ["c2<m"]);
        assert_eq!((bench.stats().producers, bench.stats().consumers), (1, 1));
    }
}

#[test]
fn messages_do_not_cross_addresses() {
    let mut bench = Bench::new(AddressKind::Anycast);
    let (producer, _consumer) = (bench.producer(), bench.consumer_with(9));
    let other = bench.attachment(HERE, "other");
    let declared = Declared { key: AddressKey(2), ..bench.declared() };
    bench.router.attach(
        other,
        declared,
        AttachmentRole::Consumer { filter: None, consuming: Consuming::default() },
        &mut bench.links,
    );
    bench.router.credit(other, 9, false, &mut bench.links);
    bench.hush();
    for id in 0..5 {
        bench.send(producer, id, "m");
    }
    assert_eq!(bench.reported(), ["c0<m"; 5]);
    assert_eq!(bench.router.stats().count(), 2);
}

#[test]
fn deleted_address_releases_its_messages_and_closes_its_links() {
    for kind in KINDS {
        let mut bench = Bench::new(kind);
        let (producer, consumer) = (bench.producer(), bench.consumer_with(1));
        bench.send(producer, 0, "held");
        bench.send(producer, 1, "waits");
        bench.hush();
        bench.retire();
        assert_eq!(bench.reported(), ["p0 0 released", "p0 1 released", "p0 shut", "c0 close", "p0 close"]);
        assert_eq!(bench.router.stats().count(), 0);
        bench.detach(consumer);
        bench.detach(producer);
        let token = bench.token("held");
        bench.router.outcome(token, &Outcome::Accepted, &mut bench.links);
        bench.refuse(0);
        bench.retire();
        bench.turn();
        assert_eq!(bench.reported(), [""; 0]);
    }
}

#[test]
fn message_in_flight_to_a_deleted_address_is_released() {
    let mut bench = Bench::new(AddressKind::Anycast);
    let (producer, _consumer) = (bench.anonymous(), bench.consumer());
    bench.send_settled(producer, "waits for the link's window too");
    bench.hush();
    bench.retire();
    assert_eq!(bench.reported(), ["c0 close", "p0 taken 1", "p0 close"]);
    bench.send(producer, 4, "late");
    bench.send_settled(producer, "late");
    assert_eq!(bench.reported(), ["p0 taken 1", "p0 4 released", "p0 taken 1"]);
}

#[test]
fn address_deleted_during_a_delivery_leaves_no_partial_message() {
    for kind in KINDS {
        let mut bench = Bench::new(kind);
        let (long, waits) = (bench.producer(), bench.producer());
        let _consumer = bench.consumer_with(1);
        bench.arrive(long, 0, "a", "first");
        bench.arrive(waits, 0, "b", "first");
        bench.hush();
        bench.retire();
        let reported = bench.reported();
        assert!(
            reported.contains(&"p0 0 released".to_owned()) && reported.contains(&"p1 0 released".to_owned()),
            "{reported:?}"
        );
        bench.arrive(long, 0, "c", "last");
        assert_eq!(bench.reported(), [""; 0]);
    }
}

#[test]
fn anonymous_link_regains_its_window_when_an_attachment_detaches() {
    let mut bench = Bench::new(AddressKind::Anycast);
    let (producer, consumer) = (bench.anonymous(), bench.consumer_with(1));
    bench.send_settled(producer, "taken");
    bench.send_settled(producer, "waits");
    bench.hush();
    bench.detach(producer);
    assert_eq!(bench.reported(), ["p0 taken 2"]);
    bench.credit(consumer, 1);
    bench.turn();
    assert_eq!(bench.reported(), ["c0!<waits"]);
}
