//! The guarantees of a stream, case by case.

use std::sync::Arc;

use enmasse_amqp::codec::decode_message;
use enmasse_amqp::selector::{Dialect, Selector};
use enmasse_amqp::types::{Body, Error, Message, MessageId, Outcome, Properties, Symbol, Value, condition};
use enmasse_journal::log::Refused;
use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::queue::{Duplicates, Limits};
use enmasse_journal::stream::{Retention, Settings};
use enmasse_router::core::{AttachmentId, AttachmentRole, Consuming, Delivery, Start};

use super::{PRODUCER, STREAM, Site, declared, keeping, lines, producer};

fn on_partition(partition: u32, start: Start) -> Consuming {
    Consuming { start, partition: Some(partition), ..Consuming::default() }
}

#[test]
fn message_is_accepted_once_on_disk_and_delivered_to_every_reader() {
    let mut site = Site::new(1, Settings::default());
    let (one, two) = (site.reader(Start::Next, 10), site.reader(Start::First, 10));
    site.slow = true;
    site.send("a");
    site.turn();
    assert!(site.recorded.settled.is_empty() && site.recorded.got.is_empty(), "it is not on disk");
    // Messages that arrive in the meantime go to the log together.
    site.send("b");
    site.send("c");
    assert!(site.turn() && site.held.len() == 1, "one batch of a partition is in flight");
    site.answer();
    assert_eq!(site.accepted(), [0]);
    site.turn();
    assert_eq!(site.held.len(), 1);
    assert_eq!(site.held[0].batch.messages(), 1, "two messages are one block");
    site.slow = false;
    site.answer();
    assert_eq!(site.accepted(), [0, 1, 2]);
    site.pump();
    let got = site.got();
    for attachment in [one, two] {
        let texts: Vec<_> =
            got.iter().filter(|got| got.attachment == attachment).map(|got| (got.offset, &*got.text)).collect();
        assert_eq!(texts, [(0, "a"), (1, "b"), (2, "c")]);
    }
    assert_eq!(site.recorded.taken, 3, "the producer window advances");
    assert!(site.read.is_empty(), "readers that keep up never read the disk");
}

#[test]
fn outcomes_of_readers_do_not_change_a_stream() {
    let mut site = Site::new(1, Settings::default());
    site.send("a");
    site.pump();
    let reader = site.reader(Start::First, 10);
    let got = site.got();
    let token = got[0].token.expect("an unsettled delivery");
    site.router.outcome(token, &Outcome::Rejected(None), &mut site.recorded);
    site.pump();
    assert!(site.recorded.got.is_empty());
    site.router.detach(reader, &mut site.recorded);
    assert_eq!(site.all()[0], lines(&[(0, "a")]));
    site.reader_that(Consuming { start: Start::First, settled: true, ..Consuming::default() }, 1);
    assert_eq!(site.got()[0].token, None, "a settled delivery has no token");
}

#[test]
fn readers_start_at_the_requested_position() {
    let mut site = Site::new(1, Settings::default());
    for (n, text) in ["a", "b", "c", "d"].into_iter().enumerate() {
        site.pass(1000);
        site.send(text);
        assert_eq!(site.sent as usize, n + 1);
    }
    site.pump();
    let third_ms = site.now_ms - 1000;
    let cases = [
        (Start::First, &[(0, "a"), (1, "b"), (2, "c"), (3, "d")][..]),
        (Start::Last, &[(3, "d")]),
        (Start::Next, &[]),
        (Start::Offset(1), &[(1, "b"), (2, "c"), (3, "d")]),
        (Start::Offset(4), &[]),
        (Start::Time(third_ms), &[(2, "c"), (3, "d")]),
        (Start::Time(third_ms + 1), &[(3, "d")]),
        (Start::Time(site.now_ms + 1), &[]),
        (Start::Time(0), &[(0, "a"), (1, "b"), (2, "c"), (3, "d")]),
    ];
    for (start, expected) in cases {
        let reader = site.reader(start, 10);
        site.pump();
        assert_eq!(site.texts(), lines(expected), "{start:?}");
        site.router.detach(reader, &mut site.recorded);
    }
    // A reader waits for an offset that is not written yet.
    site.reader(Start::Offset(5), 10);
    site.send("e");
    site.send("f");
    site.pump();
    assert_eq!(site.texts(), lines(&[(5, "f")]));
}

#[test]
fn start_time_is_found_within_a_block() {
    let mut site = Site::new(1, Settings::default());
    site.slow = true;
    site.send("first");
    site.turn();
    let mut times = Vec::new();
    for text in ["a", "b", "c"] {
        site.now_ms += 10;
        site.router.set_time(site.now_ms);
        site.send(text);
        times.push(site.now_ms);
    }
    site.slow = false;
    site.answer();
    site.pump();
    site.reader(Start::Time(times[1]), 10);
    site.pump();
    let got = site.got();
    assert_eq!(got.iter().map(|got| &*got.text).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(got[0].at_ms, times[1].cast_signed());
}

#[test]
fn partition_is_chosen_explicitly_else_by_group_else_in_turn() {
    let mut site = Site::new(3, Settings::default());
    let grouped = |group: &str| Message {
        properties: Some(Properties { group_id: Some(group.into()), ..Properties::default() }),
        body: Body::Data(vec![group.into()]),
        ..Message::default()
    };
    site.send_to(2, "said");
    for _ in 0..3 {
        site.send_message(&grouped("g"));
        site.send_message(&grouped("h"));
    }
    site.pump();
    for n in 0..3 {
        site.send(&format!("turn {n}"));
    }
    site.pump();
    let all = site.all();
    assert_eq!(all[2][0], (0, "said".to_owned()));
    let has = |text: &str| all.iter().filter(|partition| partition.iter().any(|(_, found)| found == text)).count();
    assert_eq!((has("g"), has("h")), (1, 1), "a group is in one partition");
    let turns = all.iter().map(|partition| partition.iter().filter(|(_, text)| text.starts_with("turn")).count());
    assert_eq!(turns.collect::<Vec<_>>(), [1, 1, 1]);
    let refused = site.send_to(3, "nowhere");
    let Some((id, Outcome::Rejected(Some(error)))) = site.recorded.settled.last() else { panic!("no answer") };
    assert_eq!((*id, error.condition.clone()), (refused, condition::INVALID_FIELD));
    assert!(error.description.as_deref().is_some_and(|text| text.contains("use 0 to 2")), "{error:?}");
}

#[test]
fn reader_may_select_one_partition_and_needs_one_for_an_offset() {
    let mut site = Site::new(2, Settings::default());
    site.send_to(0, "a");
    site.send_to(1, "b");
    site.pump();
    site.reader_that(on_partition(1, Start::Offset(0)), 10);
    site.pump();
    assert_eq!(site.texts(), lines(&[(0, "b")]));
    for (consuming, expected) in [
        (Consuming { start: Start::Offset(0), ..Consuming::default() }, condition::INVALID_FIELD),
        (on_partition(2, Start::First), condition::INVALID_FIELD),
        (Consuming { exclusive: true, ..Consuming::default() }, condition::NOT_IMPLEMENTED),
    ] {
        let attachment = site.reader_that(consuming, 10);
        assert_eq!(site.recorded.closed[&attachment].condition, expected);
    }
}

#[test]
fn offset_removed_by_retention_is_refused_with_the_first_kept_one() {
    let mut site = Site::new(1, keeping(40_000));
    let late = site.reader(Start::Next, 1);
    for n in 0..40 {
        site.send(&format!("{n:>2000}"));
        site.pump();
    }
    let (first, next) = site.bounds(0);
    assert!(first > 10 && next == 40, "{first} to {next}");
    let attachment = site.reader(Start::Offset(first - 1), 10);
    let error = &site.recorded.closed[&attachment];
    assert_eq!(error.condition, condition::PRECONDITION_FAILED);
    let text = error.description.clone().unwrap_or_default();
    assert!(text.contains(&format!("offset {} ", first - 1)) && text.contains(&format!("first is {first}")), "{text}");
    // A reader that had no credit for too long gets the same error.
    site.got();
    site.router.credit(late, 10, false, &mut site.recorded);
    assert_eq!(site.recorded.closed[&late].condition, condition::PRECONDITION_FAILED);
    assert!(site.recorded.got.is_empty());
    let all = site.all();
    assert_eq!(all[0].first().map(|(offset, _)| *offset), Some(first));
    assert_eq!(all[0].len() as u64, next - first);
}

#[test]
fn reader_from_first_starts_at_the_first_kept_offset_once_it_has_credit() {
    let mut site = Site::new(1, keeping(40_000));
    site.send("gone");
    site.pump();
    let reader = site.reader(Start::First, 0);
    for n in 0..40 {
        site.send(&format!("{n:>2000}"));
        site.pump();
    }
    site.router.credit(reader, 1000, false, &mut site.recorded);
    site.pump();
    let got = site.texts();
    assert_eq!((got[0].0, got.len() as u64), (site.bounds(0).0, site.bounds(0).1 - site.bounds(0).0));
    assert!(site.recorded.closed.is_empty());
}

#[test]
fn offsets_continue_after_retention_removed_every_message_and_a_restart() {
    let retention = Retention { bytes: None, age_ms: Some(1000) };
    let mut site = Site::new(1, Settings { retention, ..Settings::default() });
    for text in ["a", "b", "c"] {
        site.send(text);
        site.pump();
    }
    site.pass(999);
    assert_eq!(site.bounds(0), (0, 3));
    site.pass(1);
    assert_eq!(site.bounds(0), (3, 3));
    let mut site = site.restarted();
    assert_eq!(site.bounds(0), (3, 3));
    site.send("d");
    site.pump();
    assert_eq!(site.all()[0], lines(&[(3, "d")]));
    assert!(site.router.queue_stats().all(|(key, _)| key != STREAM));
    let (key, stats) = site.router.stream_stats().next().expect("figures");
    assert_eq!((key, stats.ready, stats.enqueued), (STREAM, 1, 1));
}

#[test]
fn enqueued_times_never_go_back() {
    let mut site = Site::new(1, Settings::default());
    site.pass(5000);
    site.send("a");
    site.pump();
    let before_ms = site.now_ms.cast_signed();
    // The clock of the machine is earlier after the restart.
    let mut site = Site::on(Arc::new(site.disk.as_seen()), 1, Settings::default(), true);
    assert!(site.now_ms.cast_signed() < before_ms);
    site.send("b");
    site.pump();
    site.reader(Start::First, 10);
    site.pump();
    let times: Vec<i64> = site.got().iter().map(|got| got.at_ms).collect();
    assert_eq!(times, [before_ms, before_ms]);
}

#[test]
fn refused_message_gets_no_offset() {
    let mut site = Site::new(1, Settings::default());
    site.send("a");
    site.pump();
    let used = site.disk.used_bytes();
    site.disk.set_capacity_bytes(used);
    site.send(&"x".repeat(200_000));
    site.pump();
    let Some((1, Outcome::Rejected(Some(error)))) = site.recorded.settled.last() else {
        panic!("{:?}", site.recorded.settled)
    };
    assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED);
    site.disk.set_capacity_bytes(used + (64 << 20));
    site.send("b");
    site.pump();
    assert_eq!(site.all()[0], lines(&[(0, "a"), (1, "b")]));
    let mut site = site.restarted();
    assert_eq!(site.all()[0], lines(&[(0, "a"), (1, "b")]));
}

#[test]
fn message_size_and_link_limits_of_a_stream_are_enforced() {
    let limits = Limits { message_bytes: 100, consumers: 1, producers: 2, ..Limits::default() };
    let mut site = Site::new(1, Settings { limits, ..Settings::default() });
    site.send(&"x".repeat(100));
    let Some((_, Outcome::Rejected(Some(error)))) = site.recorded.settled.last() else { panic!("no answer") };
    assert_eq!(error.condition, condition::MESSAGE_SIZE_EXCEEDED);
    site.reader(Start::First, 1);
    let second = site.reader(Start::First, 1);
    assert_eq!(site.recorded.closed[&second].condition, condition::RESOURCE_LIMIT_EXCEEDED);
    for (index, refused) in [(800, false), (801, true)] {
        let attachment = AttachmentId { index, ..PRODUCER };
        site.router.attach(attachment, declared(), producer(None), &mut site.recorded);
        assert_eq!(site.recorded.closed.contains_key(&attachment), refused);
    }
    site.router.detach(PRODUCER, &mut site.recorded);
    let attachment = AttachmentId { index: 802, ..PRODUCER };
    site.router.attach(attachment, declared(), producer(None), &mut site.recorded);
    assert!(!site.recorded.closed.contains_key(&attachment));
}

pub(super) fn with_id(text: &str) -> Message {
    let properties = Properties { message_id: Some(MessageId::String(text.into())), ..Properties::default() };
    Message { properties: Some(properties), body: Body::Data(vec![text.into()]), ..Message::default() }
}

#[test]
fn a_duplicate_is_accepted_with_its_original_and_takes_no_offset() {
    let duplicates = Some(Duplicates { ids: 100, window_ms: 0 });
    let mut site = Site::new(2, Settings { duplicates, ..Settings::default() });
    for text in ["a", "a", "b"] {
        site.send_message(&with_id(text));
    }
    assert!(site.recorded.settled.is_empty());
    site.pump();
    let mut accepted = site.accepted();
    accepted.sort_unstable();
    assert_eq!(accepted, [0, 1, 2]);
    let mut site = site.restarted();
    for text in ["b", "a", "c"] {
        site.send_message(&with_id(text));
    }
    site.pump();
    assert_eq!(site.accepted().len(), 3);
    let mut texts: Vec<String> = site.all().concat().into_iter().map(|(_, text)| text).collect();
    texts.sort_unstable();
    assert_eq!(texts, ["a", "b", "c"]);
    let total: u64 = (0..2).map(|number| site.bounds(number).1).sum();
    assert_eq!(total, 3, "offsets are dense");
}

#[test]
fn duplicate_of_a_refused_message_can_be_sent_again() {
    let duplicates = Some(Duplicates { ids: 100, window_ms: 0 });
    let mut site = Site::new(1, Settings { duplicates, ..Settings::default() });
    let used = site.disk.used_bytes();
    site.disk.set_capacity_bytes(used);
    let text = "x".repeat(200_000);
    site.send_message(&with_id(&text));
    site.send_message(&with_id(&text));
    site.pump();
    assert_eq!((site.recorded.settled.len(), site.accepted().len()), (2, 0));
    site.disk.set_capacity_bytes(used + (64 << 20));
    site.send_message(&with_id(&text));
    site.pump();
    assert_eq!(site.accepted(), [2]);
    assert_eq!(site.bounds(0), (0, 1));
}

#[test]
fn numbered_messages_are_stored_once_across_restarts() {
    let numbered = |number: u64| Message {
        message_annotations: vec![(Symbol::from("x-opt-producer-sequence"), Value::Ulong(number))],
        body: Body::Data(vec![number.to_string().into_bytes()]),
        ..Message::default()
    };
    let attachment = AttachmentId { index: 900, ..PRODUCER };
    let mut site = Site::new(3, Settings::default());
    site.router.attach(attachment, declared(), producer(Some("p")), &mut site.recorded);
    for number in [1, 2, 2, 5, 3] {
        site.send_from(attachment, &numbered(number));
    }
    site.pump();
    assert_eq!(site.accepted().len(), 5);
    let mut site = site.restarted();
    site.router.attach(attachment, declared(), producer(Some("p")), &mut site.recorded);
    for number in [5, 6] {
        site.send_from(attachment, &numbered(number));
    }
    site.pump();
    let texts: Vec<String> = site.all().concat().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["1", "2", "5", "6"]);
}

#[test]
fn rejection_stops_a_numbered_producer_until_it_reattaches() {
    let numbered = |number: u64, partition: u32| Message {
        message_annotations: vec![
            (Symbol::from("x-opt-producer-sequence"), Value::Ulong(number)),
            (Symbol::from("x-opt-partition"), Value::Uint(partition)),
        ],
        body: Body::Data(vec![number.to_string().into_bytes()]),
        ..Message::default()
    };
    let attachment = AttachmentId { index: 900, ..PRODUCER };
    let mut site = Site::new(1, Settings::default());
    site.router.attach(attachment, declared(), producer(Some("p")), &mut site.recorded);
    site.send_from(attachment, &numbered(1, 0));
    site.send_from(attachment, &numbered(2, 7));
    site.send_from(attachment, &numbered(3, 0));
    site.pump();
    assert_eq!(site.accepted().len(), 1);
    site.router.detach(attachment, &mut site.recorded);
    site.router.attach(attachment, declared(), producer(Some("p")), &mut site.recorded);
    site.send_from(attachment, &numbered(2, 0));
    site.send_from(attachment, &numbered(3, 0));
    site.pump();
    let texts: Vec<String> = site.all().concat().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["1", "2", "3"]);
}

#[test]
fn numbered_stream_messages_behind_a_refused_write_can_be_resent() {
    let numbered = |number: u64| Message {
        message_annotations: vec![(Symbol::from("x-opt-producer-sequence"), Value::Ulong(number))],
        body: Body::Data(vec![number.to_string().into_bytes()]),
        ..Message::default()
    };
    let attachment = AttachmentId { index: 900, ..PRODUCER };
    let mut site = Site::new(1, Settings::default());
    site.router.attach(attachment, declared(), producer(Some("p")), &mut site.recorded);
    site.send_from(attachment, &numbered(1));
    site.pump();
    site.recorded.settled.clear();
    site.slow = true;
    site.send_from(attachment, &numbered(2));
    site.turn();
    site.send_from(attachment, &numbered(3));
    for answer in &mut site.held {
        answer.result = Err(Refused::TooLarge { bytes: 1 });
    }
    site.answer();
    site.slow = false;
    site.send_from(attachment, &numbered(4));
    site.pump();
    assert_eq!((site.recorded.settled.len(), site.accepted().len()), (3, 0), "{:?}", site.recorded.settled);
    site.router.detach(attachment, &mut site.recorded);
    site.router.attach(attachment, declared(), producer(Some("p")), &mut site.recorded);
    for number in [2, 3, 4] {
        site.send_from(attachment, &numbered(number));
    }
    site.pump();
    let texts: Vec<String> = site.all().concat().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["1", "2", "3", "4"]);
}

#[test]
fn selector_filters_the_messages_of_a_stream() {
    let mut site = Site::new(1, Settings::default());
    for n in 0..10_000_i32 {
        let application_properties = vec![("n".to_owned(), Value::Int(n))];
        let body = Body::Data(vec![n.to_string().into_bytes()]);
        site.send_message(&Message { application_properties, body, ..Message::default() });
    }
    site.pump();
    let selector = Selector::compile("n = 3 OR n > 9998", Dialect::Jms).expect("a selector").map(Arc::new);
    let reader = site.reader_that(Consuming { start: Start::First, selector, ..Consuming::default() }, 10);
    site.router.credit(reader, 10, true, &mut site.recorded);
    assert!(site.recorded.drained.is_empty(), "not every message was examined");
    site.pump();
    assert_eq!(site.texts(), lines(&[(3, "3"), (9999, "9999")]));
    assert_eq!(site.recorded.drained, [reader]);
}

#[test]
fn target_name_below_a_stream_is_stored_for_name_filters() {
    let mut site = Site::new(1, Settings::default());
    let below = AttachmentId { index: 700, ..PRODUCER };
    let role =
        AttachmentRole::Producer { anonymous: false, name: Some("events/a".into()), producer_name: None, resume: None };
    site.router.attach(below, declared(), role, &mut site.recorded);
    let body = |text: &str| Message { body: Body::Data(vec![text.into()]), ..Message::default() };
    site.send_from(below, &body("below"));
    site.send("own");
    site.pump();
    let mut site = site.restarted();
    for (wanted, expected) in [("events", &[(1, "own")][..]), ("events/a", &[(0, "below")])] {
        let filter = enmasse_router::core::Filter::new(move |name| name == wanted);
        let attachment = AttachmentId { index: site.attachments, ..PRODUCER };
        site.attachments += 1;
        let consuming = Consuming { start: Start::First, ..Consuming::default() };
        site.router.attach(
            attachment,
            declared(),
            AttachmentRole::Consumer { filter: Some(filter), consuming },
            &mut site.recorded,
        );
        site.router.credit(attachment, 10, false, &mut site.recorded);
        site.pump();
        assert_eq!(site.texts(), lines(expected));
    }
}

#[test]
fn small_blocks_are_merged() {
    let mut site = Site::new(1, Settings::default());
    for n in 0..500 {
        site.send(&n.to_string());
        site.pump();
    }
    let expected: Vec<(u64, String)> = (0..500).map(|n| (n, n.to_string())).collect();
    assert_eq!(site.all()[0], expected);
    assert!(site.log.stats().alive_messages < 100, "{:?}", site.log.stats());
    let mut site = site.restarted();
    assert_eq!(site.all()[0], expected);
    for n in 500..700 {
        site.send(&n.to_string());
        site.pump();
    }
    let reader = site.reader(Start::Offset(499), 3);
    site.pump();
    assert_eq!(site.texts(), lines(&[(499, "499"), (500, "500"), (501, "501")]));
    assert!(site.recorded.closed.is_empty() && site.recorded.properties.contains_key(&reader));
}

#[test]
fn damaged_block_is_skipped_counted_once_and_reported() {
    let mut site = Site::new(1, Settings::default());
    for n in 0..30 {
        site.send(&format!("{n:>3000}{}", if n == 10 { "here" } else { "" }));
        site.pump();
    }
    let found = (1..20).find_map(|segment| {
        let bytes = site.disk.bytes(segment)?;
        Some((segment, bytes.windows(4).position(|bytes| bytes == b"here")? as u64))
    });
    let (segment, byte) = found.expect("the message is on disk");
    assert!(site.disk.flip(segment, byte, 3));
    let mut site = site.restarted();
    let found = site.all()[0].clone();
    let lost: Vec<u64> = (0..30).filter(|n| !found.iter().any(|(offset, _)| offset == n)).collect();
    assert_eq!(lost, [10], "a flipped bit costs its own record");
    assert_eq!(site.all()[0], found);
    let damaged = site.router.take_damaged(|_| Some(()));
    let named: Vec<_> = damaged.iter().map(|(_, it)| (it.partition, it.message, it.count)).collect();
    assert_eq!(named, [(Some(0), lost[0], 1)]);
    let counted: u64 = site.router.stats().map(|(_, stats)| stats.damaged).sum();
    assert_eq!(counted, 1);
}

#[test]
fn stream_in_memory_applies_retention_and_is_empty_after_a_restart() {
    let mut site = Site::on(Arc::new(SimulatedDisk::new(512, 7)), 1, keeping(40_000), false);
    for n in 0..200 {
        site.send(&format!("{n:>1000}"));
        site.turn();
    }
    assert_eq!(site.accepted().len(), 200);
    let (first, next) = site.bounds(0);
    assert!(first > 100 && next == 200, "{first}");
    let offsets: Vec<u64> = site.all()[0].iter().map(|(offset, _)| *offset).collect();
    assert_eq!(offsets, (first..next).collect::<Vec<_>>());
    assert!(site.read.is_empty());
    let site = site.restarted();
    assert_eq!(site.bounds(0), (0, 0));
}

#[test]
fn stream_deliveries_refused_by_another_shard_are_read_again() {
    let mut site = Site::new(1, Settings::default());
    for text in ["a", "b", "c"] {
        site.send(text);
    }
    site.pump();
    let attachment = AttachmentId { shard: 5, generation: 0, index: 3 };
    let role =
        AttachmentRole::Consumer { filter: None, consuming: Consuming { start: Start::First, ..Consuming::default() } };
    site.router.attach(attachment, declared(), role, &mut site.recorded);
    site.router.credit(attachment, 10, false, &mut site.recorded);
    let got = site.got();
    assert_eq!(got.len(), 3);
    for back in &got[1..] {
        let (token, payload) = (back.token, &back.payload[..]);
        let delivery =
            Delivery { token, message_format: 0, first: true, more: false, aborted: false, payload, shared: None };
        site.router.refused(attachment, &delivery, &mut site.recorded);
    }
    site.pump();
    assert!(site.recorded.got.is_empty(), "it has reported that it has no room");
    site.router.credit(attachment, 10, false, &mut site.recorded);
    site.pump();
    assert_eq!(site.texts(), lines(&[(1, "b"), (2, "c")]));
}

#[test]
fn a_stream_may_be_deleted_while_the_log_writes_for_it() {
    let mut site = Site::new(1, Settings::default());
    for n in 0..70 {
        site.send(&n.to_string());
        site.pump();
    }
    site.slow = true;
    site.send("under way");
    site.turn();
    let deleted = Error::new(condition::RESOURCE_DELETED, "deleted");
    site.router.delete_address(STREAM, &deleted, &mut site.recorded);
    site.slow = false;
    site.answer();
    site.pump();
    assert_eq!(site.recorded.closed[&PRODUCER].condition, condition::RESOURCE_DELETED);
    assert_eq!(site.log.stats().alive_messages, 0);
}

#[test]
fn attach_answers_carry_the_properties_of_the_stream() {
    let mut site = Site::new(2, Settings::default());
    site.send_to(1, "a");
    site.pump();
    let reader = site.reader(Start::First, 0);
    let properties = &site.recorded.properties[&reader];
    assert_eq!(properties[0].0.as_str(), "enmasse:stream");
    let Value::Map(stream) = &properties[0].1 else { panic!("no map") };
    assert_eq!(stream[0], (Value::String("uid".into()), Value::String("u-1".into())));
    assert_eq!((site.bounds(0), site.bounds(1)), ((0, 0), (0, 1)));
    assert_eq!(site.recorded.properties[&PRODUCER].len(), 1, "producers, too");
}

#[test]
fn message_header_passes_a_stream_unchanged() {
    let mut site = Site::new(1, Settings::default());
    let header = enmasse_amqp::types::Header { durable: true, priority: 7, ttl: Some(9), ..Default::default() };
    site.send_message(&Message {
        header: Some(header.clone()),
        body: Body::Data(vec![b"a".to_vec()]),
        ..Message::default()
    });
    site.pump();
    site.reader(Start::First, 1);
    let message = decode_message(&site.got()[0].payload).expect("a message");
    assert_eq!(message.header, Some(header));
}

#[test]
fn messages_of_an_anonymous_link_are_released_when_their_stream_is_deleted() {
    let duplicates = Some(Duplicates { ids: 100, window_ms: 0 });
    let mut site = Site::new(1, Settings { duplicates, ..Settings::default() });
    let attachment = AttachmentId { index: 70, ..PRODUCER };
    let role = AttachmentRole::Producer { anonymous: true, name: None, producer_name: None, resume: None };
    site.router.attach(attachment, declared(), role, &mut site.recorded);
    let message = |id: &str| {
        let properties = Properties { message_id: Some(MessageId::String(id.into())), ..Properties::default() };
        Message { properties: Some(properties), body: Body::Data(vec![b"x".to_vec()]), ..Message::default() }
    };
    site.slow = true;
    let mut sent = vec![site.send_from(attachment, &message("a"))];
    site.turn();
    sent.extend(["b", "a"].map(|id| site.send_from(attachment, &message(id))));
    site.router.delete_address(STREAM, &Error::new(condition::RESOURCE_DELETED, "deleted"), &mut site.recorded);
    let mut recorded = std::mem::take(&mut site.recorded.settled);
    recorded.sort_by_key(|(id, _)| *id);
    assert_eq!(recorded, sent.into_iter().map(|id| (id, Outcome::Released)).collect::<Vec<_>>());
    site.slow = false;
    site.pump();
    assert_eq!(site.recorded.settled, []);
}
