//! Several consumers: priority, exclusive, single active, selectors, browsers.

use enmasse_journal::queue::{Consume, ConsumerOutcome, Limits, Next, Refused, Seq, Settings, Sharing, Verdict};

use crate::world::{FAILED, World, of_priority, plain};

fn named(key: u64) -> Consume {
    Consume { key, name: key, ..Consume::default() }
}

#[test]
fn consumers_of_a_higher_priority_go_first_while_they_have_credit() {
    let mut world = World::new(Settings::default());
    world.fill(4);
    let low = world.consumer(named(1));
    let high = world.consumer(Consume { priority: 5, ..named(2) });
    assert_eq!(world.queue.candidates().common, [high]);
    assert_eq!((world.take(low), world.take(high)), (None, Some(0)));
    world.queue.set_credit(high, false);
    assert_eq!(world.queue.candidates().common, [low]);
    assert_eq!(world.take(low), Some(1));
    world.queue.set_credit(high, true);
    assert_eq!((world.take(low), world.take(high)), (None, Some(2)));
    world.queue.detach(high);
    assert_eq!(world.take(low), Some(3));
}

#[test]
fn message_not_selected_at_higher_priority_goes_to_other_consumers() {
    let mut world = World::new(Settings::default());
    world.fill(4);
    let low = world.consumer(named(1));
    let odd = world.consumer(Consume { priority: 5, selects: true, ..named(2) });
    assert_eq!(world.queue.candidates().own, [odd]);
    assert_eq!(world.take(low), None, "the selector has not examined them yet");
    let wanted = |world: &mut World| world.next_if(odd, |item| item.seq.0 % 2 == 1).map(|item| item.seq.0);
    assert_eq!([wanted(&mut world), wanted(&mut world), wanted(&mut world)], [Some(1), Some(3), None]);
    assert_eq!(world.queue.candidates().common, [low]);
    assert_eq!(world.take_all(low), [0, 2]);
    world.settle(0, ConsumerOutcome::Released);
    assert_eq!(world.take(low), None, "the selector must examine it again");
    assert_eq!(wanted(&mut world), None);
    assert_eq!(world.take(low), Some(0));
}

#[test]
fn exclusive_consumer_excludes_all_other_consumers() {
    let mut world = World::new(Settings::default());
    let first = world.consumer(named(1));
    let exclusive = Consume { exclusive: true, ..named(2) };
    assert_eq!(world.queue.attach(&exclusive), Err(Refused::Exclusive));
    world.queue.detach(first);
    let only = world.consumer(exclusive);
    assert_eq!(world.queue.attach(&named(3)), Err(Refused::Exclusive));
    world.queue.detach(only);
    assert!(world.queue.attach(&named(3)).is_ok());
}

#[test]
fn consumer_or_producer_above_the_limit_is_refused_with_the_limit() {
    let limits = Limits { consumers: 1, producers: 1, ..Limits::default() };
    let mut world = World::new(Settings { limits, ..Settings::default() });
    let one = world.consumer(named(1));
    assert_eq!(world.queue.attach(&named(2)), Err(Refused::Consumers(1)));
    world.queue.detach(one);
    assert!(world.queue.attach(&named(2)).is_ok());
    assert_eq!((world.queue.attach_producer(), world.queue.attach_producer()), (Ok(()), Err(Refused::Producers(1))));
    world.queue.detach_producer();
    assert_eq!(world.queue.attach_producer(), Ok(()));
    assert_eq!((world.queue.stats().consumers, world.queue.stats().producers), (1, 1));
}

#[test]
fn single_active_consumer_is_replaced_when_it_detaches() {
    let mut world = World::new(Settings { sharing: Sharing::SingleActive, ..Settings::default() });
    world.fill(3);
    let [one, two, three] = [1, 2, 3].map(|key| world.consumer(named(key)));
    assert_eq!(world.queue.candidates().common, [one]);
    assert_eq!((world.take(two), world.take(one)), (None, Some(0)));
    world.queue.set_credit(one, false);
    assert!(world.queue.candidates().is_empty(), "the others wait all the same");
    world.settle(0, FAILED);
    world.queue.detach(one);
    assert_eq!(world.queue.candidates().common, [two]);
    assert_eq!((world.take(three), world.take_all(two)), (None, vec![0, 1, 2]));
}

#[test]
fn active_consumer_yields_to_a_higher_priority_once_it_holds_nothing() {
    let mut world = World::new(Settings { sharing: Sharing::SingleActive, ..Settings::default() });
    world.fill(3);
    let one = world.consumer(named(1));
    assert_eq!(world.take(one), Some(0));
    let high = world.consumer(Consume { priority: 1, ..named(2) });
    assert!(world.queue.candidates().is_empty(), "0 could still come back");
    assert_eq!((world.take(one), world.take(high)), (None, None));
    world.settle(0, ConsumerOutcome::Released);
    assert_eq!(world.queue.candidates().common, [high]);
    assert_eq!(world.take_all(high), [0, 1, 2]);
}

#[test]
fn detached_active_consumer_is_not_replaced_while_it_holds_messages() {
    let mut world = World::new(Settings { sharing: Sharing::SingleActive, ..Settings::default() });
    world.fill(4);
    let [one, two] = [1, 2].map(|key| world.consumer(named(key)));
    assert_eq!([world.take(one), world.take(one)], [Some(0), Some(1)]);
    // The link may resume.
    world.queue.detach(one);
    assert!(world.queue.candidates().is_empty());
    world.settle(1, ConsumerOutcome::Released);
    assert!(world.queue.candidates().is_empty(), "the detached consumer still holds one");
    let again = world.consumer(named(1));
    assert!(world.queue.reassign(Seq(0), again));
    assert_eq!((world.take(two), world.take(again)), (None, Some(1)));
    world.queue.detach(again);
    for seq in [0, 1] {
        world.settle(seq, FAILED);
    }
    assert_eq!(world.take_all(two), [0, 1, 2, 3]);
}

#[test]
fn consumer_with_a_selector_can_become_active() {
    let mut world = World::new(Settings { sharing: Sharing::SingleActive, ..Settings::default() });
    world.fill(2);
    let one = world.consumer(named(1));
    let two = world.consumer(Consume { selects: true, ..named(2) });
    assert_eq!(world.take(two), None);
    world.queue.detach(one);
    assert_eq!(world.queue.candidates().own, [two]);
    assert_eq!(world.take_all(two), [0, 1]);
}

#[test]
fn selector_skips_mismatches_and_examines_each_message_once() {
    let mut world = World::new(Settings::default());
    world.fill(50_000);
    let picky = world.consumer(Consume { selects: true, ..named(1) });
    let other = world.consumer(named(2));
    let requested = std::cell::Cell::new(0);
    let wants = |at: u64| {
        let requested = &requested;
        move |item: &enmasse_journal::queue::Item| {
            requested.set(requested.get() + 1);
            item.seq.0 == at
        }
    };
    assert_eq!(world.next_if(picky, wants(49_999)).map(|item| item.seq.0), Some(49_999));
    assert_eq!(requested.get(), 50_000);
    for round in 0..1000 {
        // One message returns before the cursor: only that one is examined.
        let at = world.take(other).expect("plenty");
        world.settle(at, ConsumerOutcome::Released);
        assert_eq!(world.next_if(picky, wants(u64::MAX)), None);
        assert_eq!(requested.get(), 50_001 + round);
    }
    world.settle(49_999, ConsumerOutcome::Released);
    assert_eq!(world.next_if(picky, wants(49_999)).map(|item| item.seq.0), Some(49_999));
}

#[test]
fn selector_examines_a_bounded_number_of_messages_per_turn() {
    let mut world = World::new(Settings::default());
    world.fill(1000);
    let picky = world.consumer(Consume { selects: true, ..named(1) });
    let mut requested = 0;
    let answer = world.queue.next(world.now, picky, |_| {
        requested += 1;
        Verdict::No
    });
    assert_eq!((answer, requested), (Next::Later, 256));
    assert_eq!(world.queue.candidates().own, [picky]);
}

#[test]
fn unread_body_is_requested_and_the_cursor_keeps_its_position() {
    let mut world = World::new(Settings::default());
    world.fill(3);
    let picky = world.consumer(Consume { selects: true, ..named(1) });
    for _ in 0..2 {
        let answer = world.queue.next(world.now, picky, |item| match item.seq.0 {
            0 => Verdict::No,
            1 => Verdict::Unread,
            _ => Verdict::Yes,
        });
        assert!(matches!(answer, Next::Unread(item) if item.seq.0 == 1));
    }
    assert_eq!(world.next_if(picky, |_| true).map(|item| item.seq.0), Some(1));
}

#[test]
fn browser_receives_each_message_once_and_acquires_none() {
    let mut world = World::new(Settings::default());
    world.fill(3);
    world.put(&of_priority(9));
    let browser = world.consumer(Consume { browses: true, ..named(1) });
    let taker = world.consumer(named(2));
    assert_eq!(world.take_all(browser), [3, 0, 1, 2]);
    assert_eq!(world.take(taker), Some(3));
    world.settle(3, ConsumerOutcome::Released);
    world.put(&plain());
    assert_eq!(world.queue.candidates().own, [browser]);
    assert_eq!(world.take_all(browser), [4]);
    assert_eq!(world.take_all(taker), [3, 0, 1, 2, 4]);
    assert_eq!(world.queue.stats().acquired, 5);
}

#[test]
fn browser_receives_messages_committed_behind_its_position() {
    let mut world = World::new(Settings::default());
    let slow = world.store(&plain()).seq;
    world.fill(1);
    let browser = world.consumer(Consume { browses: true, ..named(1) });
    assert_eq!(world.take_all(browser), [1]);
    world.commit(slow);
    assert_eq!(world.take_all(browser), [0]);
}

#[test]
fn browser_with_a_selector_receives_matching_messages() {
    let mut world = World::new(Settings::default());
    world.fill(10);
    let browser = world.consumer(Consume { browses: true, selects: true, ..named(1) });
    let seen: Vec<_> = std::iter::from_fn(|| world.next_if(browser, |item| item.seq.0 % 4 == 0)).collect();
    assert_eq!(seen.iter().map(|item| item.seq.0).collect::<Vec<_>>(), [0, 4, 8]);
}
