//! Refused postings: the commit fails with the first cause, and no outcome is outside of the
//! transaction (4.4.1).

use enmasse_amqp::types::{Error, Outcome, condition};
use enmasse_journal::queue::{Limits, Settings};
use enmasse_router::core::Arrival;

use super::transactions::{MEMORY, house, reason};
use super::{DEAD, PRODUCER, QUEUE};
use crate::whole;

#[test]
fn a_refused_message_fails_the_commit_and_its_outcome_is_a_transactional_state() {
    for settled in [true, false] {
        let mut house = house(Settings::default());
        let id = house.declare(1);
        house.post(id, PRODUCER, "good");
        let broken = Arrival { settled, ..whole(70, b"\0\x53\x75\xa0\x09x") };
        house.router.post_delivery(PRODUCER, id, broken, &mut house.recorded);
        assert_eq!(house.recorded.refused_postings.len(), usize::from(!settled));
        assert_eq!(house.recorded.settled, [], "no outcome of a posting is outside of its transaction");
        house.router.mark_rollback_only(Some(id), &Error::new(condition::NOT_FOUND, "a later cause"));
        reason(house.commit(id), "amqp:decode-error");
        assert!(house.seen(QUEUE).is_empty() && house.restarted().seen(QUEUE).is_empty());
    }
}

#[test]
fn a_message_on_its_way_to_a_deleted_address_fails_the_commit() {
    for settled in [true, false] {
        let mut house = house(Settings::default());
        let attachment = house.producer(DEAD);
        let id = house.declare(1);
        house.post(id, PRODUCER, "good");
        house.router.delete_address(DEAD, &Error::new(condition::RESOURCE_DELETED, "deleted"), &mut house.recorded);
        let late = Arrival { settled, ..whole(70, b"\0\x53\x75\xa0\x01x") };
        house.router.post_delivery(attachment, id, late, &mut house.recorded);
        let released = if settled { vec![] } else { vec![(70, Outcome::Released)] };
        assert_eq!((&house.recorded.refused_postings, &house.recorded.settled), (&released, &vec![]));
        reason(house.commit(id), "an address it sends to was deleted");
        assert!(house.seen(QUEUE).is_empty());
    }
}

#[test]
fn partial_posting_fails_the_commit_when_its_link_ends() {
    let mut house = house(Settings::default());
    let memory = house.producer(MEMORY);
    let id = house.declare(1);
    house.post(id, PRODUCER, "good");
    let begins = Arrival { more: true, ..whole(70, b"\0\x53\x75") };
    house.router.post_delivery(memory, id, begins, &mut house.recorded);
    house.router.detach(memory, &mut house.recorded);
    reason(house.commit(id), "a link ended before the last transfer");
    assert!(house.seen(QUEUE).is_empty());
}

#[test]
fn refused_delivery_fails_the_transaction_named_by_a_later_transfer() {
    let limits = Limits { message_bytes: 10, ..Limits::default() };
    let mut house = house(Settings { limits, ..Settings::default() });
    let id = house.declare(1);
    let begins = Arrival { more: true, ..whole(70, b"\0\x53\x75\xa0\x14 too large") };
    house.router.deliver(PRODUCER, begins, &mut house.recorded);
    let ends = Arrival { first: false, ..whole(70, b" by far") };
    house.router.post_delivery(PRODUCER, id, ends, &mut house.recorded);
    reason(house.commit(id), "refused before its last transfer");
}
