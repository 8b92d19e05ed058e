//! What identifies a delivery (2.6.12, 2.7.5), and outcomes that its source does not offer (3.5.3).

use enmasse_amqp::connection::{Config, Event, LinkId};
use enmasse_amqp::types::{
    Attach, DeliveryState, Disposition, Error, Outcome, Performative, Role, Source, Symbol, Transfer, Value, condition,
};

use crate::pair::attach;
use crate::raw::{Raw, transfer};

/// A server with a link of handle 0 on which it receives, and credit for ten.
fn receiving() -> (Raw, LinkId) {
    let (mut raw, link) = Raw::attached(Config::default(), Role::Sender);
    raw.side.machine.grant(link, 10);
    raw.bytes(&[]);
    raw.clear();
    (raw, link)
}

fn tagged(id: u32, tag: &[u8]) -> Transfer {
    Transfer { delivery_tag: Some(tag.to_vec()), ..transfer(0, id) }
}

fn send(raw: &mut Raw, transfer: Transfer) {
    raw.send_with(0, Performative::Transfer(Box::new(transfer)), b"x");
}

fn settle(raw: &mut Raw, link: LinkId, id: u32, outcome: &Outcome) {
    raw.side.machine.settle(link, id, outcome);
    raw.bytes(&[]);
}

#[test]
fn section_2_7_5_continuation_may_repeat_but_not_change_the_first_frame() {
    let first = Transfer { more: true, message_format: Some(7), ..tagged(0, b"tag") };
    let later = || Transfer { handle: 0, more: true, ..Transfer::default() };
    let (mut raw, _) = receiving();
    send(&mut raw, first.clone());
    for same in [
        later(),
        Transfer { delivery_tag: Some(b"tag".to_vec()), ..later() },
        Transfer { message_format: Some(7), ..later() },
        Transfer { delivery_id: Some(0), ..later() },
    ] {
        send(&mut raw, same);
    }
    assert!(raw.written().is_empty());

    for (field, other, condition) in [
        ("delivery-tag", Transfer { delivery_tag: Some(b"other".to_vec()), ..later() }, condition::DECODE_ERROR),
        ("message-format", Transfer { message_format: Some(0), ..later() }, condition::DECODE_ERROR),
        ("delivery-id", Transfer { delivery_id: Some(1), ..later() }, condition::INVALID_FIELD),
    ] {
        let (mut raw, _) = receiving();
        send(&mut raw, first.clone());
        raw.clear();
        send(&mut raw, other);
        raw.assert_detached(&condition, field);
    }
}

#[test]
fn section_2_6_12_duplicate_tag_of_an_unsettled_delivery_detaches_the_link() {
    let (mut raw, _) = receiving();
    send(&mut raw, tagged(0, b"b"));
    send(&mut raw, tagged(1, b"a"));
    send(&mut raw, tagged(2, b"c"));
    raw.clear();
    send(&mut raw, tagged(3, b"a"));
    raw.assert_detached(&condition::DECODE_ERROR, "delivery-tag");
}

#[test]
fn section_2_6_12_a_tag_is_free_again_once_its_delivery_is_settled() {
    let (mut raw, link) = receiving();
    send(&mut raw, tagged(0, b"a"));
    settle(&mut raw, link, 0, &Outcome::Accepted);
    send(&mut raw, tagged(1, b"a"));
    settle(&mut raw, link, 1, &Outcome::Accepted);
    // Settled by its sender, and aborted: neither is unsettled.
    send(&mut raw, Transfer { settled: Some(true), ..tagged(2, b"a") });
    send(&mut raw, Transfer { more: true, ..tagged(3, b"a") });
    send(&mut raw, Transfer { aborted: true, ..Transfer::default() });
    send(&mut raw, Transfer { more: true, ..tagged(4, b"a") });
    send(&mut raw, Transfer { settled: Some(true), ..Transfer::default() });
    send(&mut raw, tagged(5, b"a"));
    let written = raw.written();
    assert!(!written.iter().any(|(_, frame)| matches!(frame, Performative::Detach(_))), "{written:?}");
}

#[test]
fn section_2_6_12_tag_stays_in_use_until_the_sender_settles_in_mode_second() {
    let attached = || {
        let mut raw = Raw::begun(Config::default());
        let rcv_settle_mode = enmasse_amqp::types::ReceiverSettleMode::Second;
        let peer = Attach { initial_delivery_count: Some(0), rcv_settle_mode, ..attach("link", Role::Sender) };
        raw.send(0, Performative::Attach(Box::new(peer)));
        let link = raw.side.machine.links().next().unwrap();
        raw.side.machine.grant(link, 10);
        send(&mut raw, tagged(0, b"a"));
        settle(&mut raw, link, 0, &Outcome::Accepted);
        raw.clear();
        raw
    };
    let mut raw = attached();
    send(&mut raw, tagged(1, b"a"));
    raw.assert_detached(&condition::DECODE_ERROR, "delivery-tag");

    let mut raw = attached();
    let state = Some(DeliveryState::Outcome(Outcome::Accepted));
    let settled = Disposition { role: Role::Sender, first: 0, last: None, settled: true, state, batchable: false };
    raw.send(0, Performative::Disposition(settled));
    send(&mut raw, tagged(1, b"a"));
    assert!(raw.written().is_empty());
}

/// A server that receives on a link whose source offers these outcomes, with one delivery
/// unsettled.
fn offering(outcomes: &[&str]) -> (Raw, LinkId) {
    let mut raw = Raw::begun(Config::default());
    let outcomes = outcomes.iter().map(|name| Symbol::from(*name)).collect();
    let source = Some(Box::new(Source { outcomes, ..Source::default() }));
    let peer = Attach { initial_delivery_count: Some(0), source, ..attach("link", Role::Sender) };
    raw.send(0, Performative::Attach(Box::new(peer)));
    let link = raw.side.machine.links().next().unwrap();
    raw.side.machine.grant(link, 10);
    send(&mut raw, tagged(0, b"the tag"));
    raw.clear();
    (raw, link)
}

fn detached(raw: &mut Raw) -> Error {
    let written = raw.written();
    let [(0, Performative::Detach(detach))] = &written[..] else { panic!("{written:?}") };
    assert!(detach.closed);
    detach.error.clone().expect("an error")
}

#[test]
fn section_3_5_3_outcome_not_offered_by_the_source_detaches_the_link() {
    let rejected = Outcome::Rejected(Some(Box::new(Error::new(condition::NOT_FOUND, "no such address"))));
    let (mut raw, link) = offering(&["amqp:accepted:list"]);
    settle(&mut raw, link, 0, &rejected);
    let error = detached(&mut raw);
    assert_eq!((error.condition, error.description.as_deref()), (condition::NOT_FOUND, Some("no such address")));
    assert_eq!(error.info, [("delivery-tag".into(), Value::Binary(b"the tag".to_vec()))]);

    for (outcome, word) in [(Outcome::Released, "amqp:released:list"), (Outcome::Rejected(None), "amqp:rejected:list")]
    {
        let (mut raw, link) = offering(&["amqp:accepted:list"]);
        settle(&mut raw, link, 0, &outcome);
        let error = detached(&mut raw);
        assert_eq!(error.condition, condition::PRECONDITION_FAILED);
        assert!(error.description.is_some_and(|text| text.contains(word)));
    }

    let (mut raw, link) = offering(&["amqp:accepted:list"]);
    let state = DeliveryState::Outcome(rejected);
    raw.side.machine.settle_with(link, 0, &state, true);
    raw.bytes(&[]);
    assert_eq!(detached(&mut raw).condition, condition::NOT_FOUND);
    raw.send(0, crate::raw::detach(0, true));
    let notified = raw.side.take();
    assert!(
        matches!(&notified[..], [crate::pair::OwnedEvent::Event(Event::Detach { .. })]),
        "the driver is notified: {notified:?}"
    );
}

#[test]
fn section_3_5_3_offered_or_equivalent_outcomes_are_sent() {
    let bare = Outcome::Modified(Box::default());
    let cases = [
        (&["amqp:accepted:list"][..], Outcome::Accepted, Outcome::Accepted),
        (&["amqp:accepted:list", "amqp:modified:list"], Outcome::Released, bare.clone()),
        (&["amqp:accepted:list", "amqp:released:list"], bare, Outcome::Released),
        (&[], Outcome::Released, Outcome::Released),
        (&["com.example:other:list"], Outcome::Released, Outcome::Released),
    ];
    for (offered, outcome, sent) in cases {
        let (mut raw, link) = offering(offered);
        settle(&mut raw, link, 0, &outcome);
        let written = raw.written();
        let Some((0, Performative::Disposition(disposition))) = written.last() else { panic!("{written:?}") };
        assert_eq!(disposition.state, Some(DeliveryState::Outcome(sent)));
    }
}
