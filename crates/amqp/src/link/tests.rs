//! Credit and deliveries of one link endpoint.

use super::*;

fn link(role: Role) -> Link {
    let mut link = Link::new(role, 0, 0, Arc::from("link"));
    link.state = State::Attached;
    link
}

fn receiver(first: u32) -> Link {
    let mut link = link(Role::Receiver);
    link.start_counting(first);
    link
}

/// A receiver that has granted credit.
fn granting(credit: u32) -> Link {
    let mut link = receiver(0);
    link.grant(credit);
    link
}

const TAGS: [&[u8]; 8] = [b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7"];

fn frame(delivery_id: Option<u32>, more: bool, payload: &[u8]) -> TransferView<'_> {
    TransferView {
        handle: 0,
        delivery_id,
        delivery_tag: delivery_id.map(|id| TAGS[id as usize % TAGS.len()]),
        message_format: None,
        settled: None,
        more,
        rcv_settle_mode: None,
        state: None,
        resume: false,
        aborted: false,
        batchable: false,
        payload,
    }
}

#[test]
fn section_2_6_7_deliveries_are_accepted_up_to_the_credit() {
    for first in [0, u32::MAX - 1] {
        let mut link = receiver(first);
        assert!(link.grant(3));
        for id in 0..3 {
            assert_eq!(link.receive(&frame(Some(id), false, b"")), Ok(true));
        }
        assert_eq!((link.credit, link.delivery_count), (0, first.wrapping_add(3)));
        let error = link.receive(&frame(Some(3), false, b"")).unwrap_err();
        assert_eq!(error.condition, condition::TRANSFER_LIMIT_EXCEEDED);
    }
}

#[test]
fn section_2_6_7_withdrawn_credit_still_covers_transfers_in_flight() {
    let mut link = receiver(0);
    link.grant(2);
    assert!(link.grant(0));
    assert!(!link.grant(0), "the credit is unchanged");
    assert_eq!(link.receive(&frame(Some(0), false, b"")), Ok(true));
    assert_eq!(link.receive(&frame(Some(1), false, b"")), Ok(true));
    assert!(link.receive(&frame(Some(2), false, b"")).is_err());
}

#[test]
fn section_2_6_7_transfer_without_credit_is_refused() {
    let mut link = receiver(0);
    assert!(!link.grant(0), "no credit is no grant");
    assert_eq!(link.receive(&frame(Some(0), false, b"")).unwrap_err().condition, condition::TRANSFER_LIMIT_EXCEEDED);
    assert!(link.grant(1));
    assert_eq!(link.receive(&frame(Some(0), false, b"")), Ok(true));
    assert!(link.receive(&frame(Some(1), false, b"")).is_err(), "the credit is used up");

    let mut early = self::link(Role::Receiver);
    early.grant(5);
    early.grant(2);
    early.start_counting(7);
    assert_eq!(early.ceiling, 12, "credit granted before the sender's count is known");
}

#[test]
fn section_2_6_14_delivery_may_span_several_frames() {
    let mut link = receiver(0);
    link.grant(9);
    assert_eq!(link.receive(&frame(Some(5), true, b"abc")), Ok(true));
    assert_eq!(link.receive(&frame(None, true, b"de")), Ok(false));
    assert_eq!(link.receive(&frame(Some(5), true, b"f")), Ok(false));
    assert_eq!((link.delivery.size, link.credit), (6, 8));
    let error = link.receive(&frame(Some(6), false, b"")).unwrap_err();
    assert_eq!(error.condition, condition::INVALID_FIELD);
}

#[test]
fn section_2_7_5_first_frame_requires_delivery_id_and_tag() {
    let mut link = granting(9);
    for (view, field) in [
        (TransferView { delivery_id: None, ..frame(Some(0), false, b"") }, "delivery-id"),
        (TransferView { delivery_tag: None, ..frame(Some(0), false, b"") }, "delivery-tag"),
    ] {
        let error = link.receive(&view).unwrap_err();
        assert_eq!(error.condition, condition::INVALID_FIELD);
        assert!(error.description.is_some_and(|text| text.contains(field)));
    }
    assert_eq!(link.receive(&frame(Some(0), false, b"")), Ok(true));
}

#[test]
fn section_2_7_5_settled_on_any_frame_settles_the_delivery() {
    let mut link = granting(9);
    link.receive(&frame(Some(0), true, b"")).unwrap();
    assert!(!link.delivery.settled);
    link.receive(&TransferView { settled: Some(true), ..frame(None, true, b"") }).unwrap();
    link.receive(&TransferView { settled: Some(false), ..frame(None, false, b"") }).unwrap();
    assert!(link.delivery.settled && !link.delivery.in_progress);
    link.receive(&frame(Some(1), false, b"")).unwrap();
    assert!(!link.delivery.settled);
}

#[test]
fn section_2_7_3_max_message_size_counts_all_frames() {
    let mut link = granting(9);
    link.limit_size(Some(4));
    assert_eq!(link.receive(&frame(Some(0), false, b"abcd")), Ok(true));
    assert_eq!(link.receive(&frame(Some(1), true, b"abc")), Ok(true));
    let error = link.receive(&frame(None, true, b"de")).unwrap_err();
    assert_eq!(error.condition, condition::MESSAGE_SIZE_EXCEEDED);
    let mut unlimited = granting(9);
    unlimited.limit_size(Some(0));
    assert!(unlimited.fits(u64::MAX));
}

#[test]
fn section_2_6_7_the_sender_computes_credit_from_both_counts() {
    for initial in [0, u32::MAX - 1] {
        let mut link = link(Role::Sender);
        link.count_from(initial);
        link.receiver_flow(&Flow { link_credit: Some(10), ..Flow::default() });
        assert_eq!(link.credit, 10, "without a count the receiver means our first one");
        link.delivery_count = initial.wrapping_add(4);
        let count = Some(initial.wrapping_add(1));
        link.receiver_flow(&Flow { delivery_count: count, link_credit: Some(10), ..Flow::default() });
        assert_eq!(link.credit, 7, "three more are on the way");
        link.receiver_flow(&Flow { delivery_count: count, link_credit: Some(2), ..Flow::default() });
        assert_eq!(link.credit, 0, "less than what is on the way");
        let ahead = Some(initial.wrapping_add(6));
        link.receiver_flow(&Flow { delivery_count: ahead, link_credit: Some(u32::MAX), ..Flow::default() });
        assert_eq!(link.credit, u32::MAX);
    }
}

#[test]
fn section_2_6_7_drain_advances_the_delivery_count() {
    let mut sender = link(Role::Sender);
    sender.receiver_flow(&Flow { link_credit: Some(5), drain: true, ..Flow::default() });
    assert!(sender.drain);
    sender.return_credit();
    let mut flow = Flow::default();
    sender.fill_flow(&mut flow);
    assert_eq!((flow.delivery_count, flow.link_credit, flow.drain), (Some(5), Some(0), true));

    let mut receiver = receiver(0);
    receiver.grant(5);
    receiver.sender_flow(&flow);
    assert_eq!((receiver.delivery_count, receiver.credit), (5, 0));
    receiver.sender_flow(&Flow { delivery_count: Some(9), ..Flow::default() });
    assert_eq!(receiver.delivery_count, 5, "a count beyond the credit is ignored");
}
