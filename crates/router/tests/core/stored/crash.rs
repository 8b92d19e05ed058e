//! Seeded lives of a queue, of a topic with subscriptions and of their dead letter with losses of
//! power: an accepted message exists once, in one place, until a consumer accepts it; the same
//! holds for every subscription. A transaction takes effect as a whole or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use enmasse_amqp::types::{Outcome, condition};
use enmasse_journal::log::simulated::{Dice, SimulatedDisk};
use enmasse_journal::queue::{Redelivery, Settings};
use enmasse_router::core::TransactionId;

use crate::seeds::each_seed;

use super::subscriptions::shared;
use super::{AttachmentId, DEAD, DECLARED, Got, House, PRODUCER, PUBLISHER, QUEUE, Value, failed};

const RUNS: u64 = 200;

/// The original address of a message, as its dead letter names it.
const LANES: [&str; 4] = ["orders", "news::all", "news::client/s", "news::client/s2"];

/// A message in one lane.
type Copy = (usize, u32);

/// The outcomes that clients received, by the number that is a message's text.
#[derive(Default)]
struct History {
    sent: u32,
    /// by delivery of this run: the number of its message, and whether it was for the topic
    deliveries: Vec<(u32, bool)>,
    /// lanes of consumers of this life
    lanes: BTreeMap<AttachmentId, usize>,
    accepted: BTreeSet<Copy>,
    /// refused permanently
    rejected: BTreeSet<Copy>,
    /// accepted by consumers; their removal may not be on disk yet
    done: BTreeSet<Copy>,
    /// their removal is on disk
    gone: BTreeSet<Copy>,
    /// was rolled back, or never committed
    never: BTreeSet<Copy>,
    declared: u64,
    /// the transaction that is open in this life
    open: Option<Work>,
    /// discharged, with an unknown result
    doubtful: Vec<Work>,
}

/// The operations of a transaction.
struct Work {
    id: TransactionId,
    posted: BTreeSet<Copy>,
    retired: BTreeSet<Copy>,
}

/// The lanes of a message for the topic, or for the queue.
fn lanes(published: bool) -> std::ops::Range<usize> {
    if published { 1..LANES.len() } else { 0..1 }
}

impl History {
    fn collect(&mut self, house: &mut House) {
        for (delivery, outcome) in house.recorded.settled.drain(..) {
            let (number, published) = self.deliveries[delivery as usize];
            let copies = lanes(published).map(|lane| (lane, number));
            match outcome {
                Outcome::Accepted => self.accepted.extend(copies),
                // After an internal error it may or may not be stored.
                Outcome::Rejected(Some(error)) if error.condition != condition::INTERNAL_ERROR => {
                    self.rejected.extend(copies);
                }
                _ => {}
            }
        }
        if !house.refused {
            self.gone.append(&mut self.done);
        }
    }

    /// The outcome of commits. Writes to a failing disk may or may not be stored.
    fn collect_discharges(&mut self, house: &mut House) {
        for (id, result) in house.recorded.discharged.drain(..) {
            let Some(at) = self.doubtful.iter().position(|work| work.id == id) else { continue };
            if result.is_ok() {
                let work = self.doubtful.remove(at);
                self.happened(work);
            } else if result
                .is_err_and(|error| !error.description.unwrap_or_default().contains("may or may not be stored"))
            {
                self.never.append(&mut self.doubtful.remove(at).posted);
            }
        }
    }

    fn happened(&mut self, mut work: Work) {
        self.accepted.append(&mut work.posted);
        self.gone.append(&mut work.retired);
    }

    /// After a crash a transaction took effect or it did not.
    fn settle_doubts(&mut self, set: &BTreeSet<Copy>) {
        if let Some(mut open) = self.open.take() {
            self.never.append(&mut open.posted);
        }
        for mut work in std::mem::take(&mut self.doubtful) {
            // An earlier transaction that retired the same message may have taken effect.
            work.retired.retain(|copy| !self.gone.contains(copy));
            let there = work.posted.is_subset(set) && work.retired.is_disjoint(set);
            let not_there = work.posted.is_disjoint(set) && work.retired.is_subset(set);
            let (posted, retired) = (&work.posted, &work.retired);
            assert!(there || not_there, "posted {posted:?}, retired {retired:?}: it took effect in part");
            if there {
                self.happened(work);
            } else {
                self.never.append(&mut work.posted);
            }
        }
        let back: Vec<&Copy> = self.never.intersection(set).collect();
        assert!(back.is_empty(), "was never committed: {back:?}");
    }

    fn check(&mut self, found: &[Copy]) {
        let set: BTreeSet<Copy> = found.iter().copied().collect();
        assert_eq!(set.len(), found.len(), "a message is there twice: {found:?}");
        self.settle_doubts(&set);
        let settlement: BTreeSet<Copy> = self.accepted.iter().copied().filter(|n| !self.is_done(*n)).collect();
        let lost: Vec<&Copy> = settlement.difference(&set).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        let refused: Vec<&Copy> = self.rejected.intersection(&set).collect();
        assert!(refused.is_empty(), "stored although their producer got a refusal: {refused:?}");
        let back: Vec<&Copy> = self.gone.intersection(&set).collect();
        assert!(back.is_empty(), "removed messages returned: {back:?}");
        // The disk has lost unconfirmed operations: they are repeated.
        self.gone.extend(std::mem::take(&mut self.done).difference(&set));
    }

    fn is_done(&self, copy: Copy) -> bool {
        self.done.contains(&copy) || self.gone.contains(&copy)
    }

    /// A consumer of one of the addresses that keep messages: the lanes, and the dead letter.
    fn consumer(&mut self, house: &mut House, place: usize, credit: u32) -> AttachmentId {
        let attachment = match place {
            0 => house.consumer(QUEUE, credit),
            1 => house.consumer(DECLARED, credit),
            2 => house.subscriber(Some(shared("s")), credit),
            3 => house.subscriber(Some(shared("s2")), credit),
            _ => house.consumer(DEAD, credit),
        };
        self.lanes.insert(attachment, place);
        attachment
    }

    fn copy(&self, got: &Got) -> Copy {
        let number = got.text().trim().parse().expect("a number");
        let lane = match (self.lanes[&got.attachment], got.annotation("x-opt-dead-letter-origin")) {
            (4, Some(Value::String(origin))) => LANES.iter().position(|lane| lane == origin).expect("a lane"),
            (lane, _) => lane,
        };
        (lane, number)
    }
}

#[test]
fn accepted_message_exists_once_until_it_is_consumed_after_any_crash() {
    each_seed(RUNS, live);
}

fn live(seed: u64) {
    let mut dice = Dice::new(seed);
    let redelivery = Redelivery { attempts_max: 3, ..Redelivery::default() };
    let settings = Settings { dead_letter: true, redelivery, ..Settings::default() };
    let sector_bytes = if dice.percent(50) { 512 } else { 4096 };
    let disk = Arc::new(SimulatedDisk::new(sector_bytes, seed));
    let mut house = House::with_topic(disk, settings.clone(), settings);
    let mut history = History::default();
    house.subscription(shared("s"));
    house.subscription(shared("s2"));
    for _ in 0..2 + dice.below(4) {
        if dice.percent(70) {
            house.disk.cut_after(dice.below(120));
        }
        let mut held = Vec::new();
        for _ in 0..dice.below(120) {
            step(&mut house, &mut history, &mut held, &mut dice);
        }
        history.collect_discharges(&mut house);
        let disk = if dice.percent(70) { house.disk.crashed(dice.any()) } else { house.disk.as_seen() };
        house = House::with_topic(Arc::new(disk), house.settings, house.topic);
        (history.deliveries, history.lanes) = (Vec::new(), BTreeMap::new());
        let found = found(&mut house, &mut history);
        history.check(&found);
    }
}

fn step(house: &mut House, history: &mut History, held: &mut Vec<Got>, dice: &mut Dice) {
    match dice.below(14) {
        10..14 => transact(house, history, held, dice),
        0..4 => {
            let published = dice.percent(50);
            for _ in 0..1 + dice.below(6) {
                history.deliveries.push((history.sent, published));
                let width = dice.below(900) as usize;
                let text = format!("{:>width$}", history.sent);
                if published {
                    house.publish(&text)
                } else {
                    house.send(&text)
                };
                history.sent += 1;
            }
        }
        4 => {
            let credit = 1 + dice.below(20) as u32;
            history.consumer(house, dice.below(LANES.len() as u64 + 1) as usize, credit);
        }
        5..7 => house.pump(),
        7 if dice.percent(20) => house.router.compact(dice.below(20) as u32),
        _ => {
            held.append(&mut house.got());
            if held.is_empty() {
                return;
            }
            let got = held.swap_remove(dice.below(held.len() as u64) as usize);
            let outcome = match dice.below(10) {
                0..6 => Outcome::Accepted,
                6 => Outcome::Released,
                7 => Outcome::Rejected(None),
                _ => failed(),
            };
            if outcome == Outcome::Accepted {
                history.done.insert(history.copy(&got));
            }
            house.answer(&got, &outcome);
        }
    }
    history.collect_discharges(house);
    // Only writes before the last sync are on disk.
    if dice.percent(60) {
        house.pump();
        history.collect(house);
    }
}

/// The next step of a transaction: it begins, posts, retires, or is discharged.
fn transact(house: &mut House, history: &mut History, held: &mut Vec<Got>, dice: &mut Dice) {
    let Some(work) = &mut history.open else {
        history.declared += 1;
        let id = house.declare(history.declared);
        history.open = Some(Work { id, posted: BTreeSet::new(), retired: BTreeSet::new() });
        return;
    };
    match dice.below(5) {
        0..2 => {
            for _ in 0..1 + dice.below(4) {
                let published = dice.percent(50);
                history.deliveries.push((history.sent, published));
                let width = dice.below(900) as usize;
                let attachment = if published { PUBLISHER } else { PRODUCER };
                house.post(work.id, attachment, &format!("{:>width$}", history.sent));
                work.posted.extend(lanes(published).map(|lane| (lane, history.sent)));
                history.sent += 1;
            }
        }
        2..4 => {
            held.append(&mut house.got());
            if !held.is_empty() {
                let got = held.swap_remove(dice.below(held.len() as u64) as usize);
                house.retire(work.id, &got, &Outcome::Accepted, true);
                let copy = history.copy(&got);
                history.open.as_mut().expect("it is open").retired.insert(copy);
            }
        }
        _ => {
            let fail = dice.percent(30);
            house.router.discharge(work.id, fail, 1, &mut house.recorded);
            let Some(mut work) = history.open.take() else { return };
            if fail {
                history.never.append(&mut work.posted);
            } else {
                history.doubtful.push(work);
            }
        }
    }
}

/// The stored messages of all addresses; none is removed.
fn found(house: &mut House, history: &mut History) -> Vec<Copy> {
    let mut copies = Vec::new();
    for place in 0..=LANES.len() {
        let consumer = history.consumer(house, place, 1_000_000);
        house.pump();
        let got = house.got();
        copies.extend(got.iter().map(|got| history.copy(got)));
        house.router.credit(consumer, got.len() as u32, false, &mut house.recorded);
        for one in got {
            house.router.outcome(one.token, &Outcome::Released, &mut house.recorded);
        }
        house.router.detach(consumer, &mut house.recorded);
        house.pump();
        house.got();
    }
    house.sent = 0;
    copies
}
