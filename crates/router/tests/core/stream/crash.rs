//! Seeded lives with losses of power: accepted messages exist, offsets are dense, and an offset
//! that a reader has seen is never used again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use enmasse_amqp::types::Outcome;
use enmasse_journal::log::simulated::{Dice, SimulatedDisk};
use enmasse_journal::stream::{Retention, Settings};
use enmasse_router::core::Start;

use crate::seeds::each_seed;

use super::transactions::to;
use super::{PRODUCER, Site};

const RUNS: u64 = 200;

/// The outcomes that clients received; a message is a number, which is its text.
#[derive(Default)]
struct History {
    sent: u64,
    /// by delivery of this run: the number of its message
    deliveries: Vec<u64>,
    accepted: BTreeSet<u64>,
    /// by partition and offset: the message that readers saw
    seen: BTreeMap<(u32, u64), u64>,
    /// the first offset of each partition that was known to be kept
    first: Vec<u64>,
    /// messages of transactions that were to be committed, by the number of the transaction
    commits: BTreeMap<u64, Vec<u64>>,
    /// messages of rolled back transactions
    never: BTreeSet<u64>,
}

impl History {
    fn collect(&mut self, site: &mut Site) {
        for (delivery, outcome) in site.recorded.settled.drain(..) {
            if outcome == Outcome::Accepted {
                self.accepted.insert(self.deliveries[delivery as usize]);
            }
        }
        for (transaction, result) in site.recorded.discharged.drain(..) {
            if result.is_ok()
                && let Some(numbers) = self.commits.get(&transaction.number)
            {
                self.accepted.extend(numbers);
            }
        }
        for got in site.got() {
            let number = got.text.trim().parse().expect("a number");
            let before = self.seen.insert((got.partition, got.offset), number);
            assert!(before.is_none_or(|before| before == number), "offset {} is used again", got.offset);
        }
        site.recorded.closed.clear();
    }

    /// Checks the invariants after a restart.
    fn check(&mut self, site: &mut Site) {
        let all = site.all();
        let mut found = BTreeSet::new();
        for (partition, list) in (0..).zip(&all) {
            let (first, next) = site.bounds(partition);
            let offsets: Vec<u64> = list.iter().map(|(offset, _)| *offset).collect();
            assert_eq!(offsets, (first..next).collect::<Vec<_>>(), "partition {partition} has gaps");
            assert!(first >= self.first[partition as usize], "a message removed by retention returned");
            self.first[partition as usize] = first;
            for (offset, text) in list {
                let number: u64 = text.trim().parse().expect("a number");
                assert!(found.insert(number), "message {number} is there twice");
                let seen = self.seen.insert((partition, *offset), number);
                assert!(seen.is_none_or(|seen| seen == number), "offset {offset} is used again");
            }
            let last_seen = self.seen.range((partition, 0)..(partition + 1, 0)).next_back();
            assert!(last_seen.is_none_or(|((_, offset), _)| *offset < next), "a message that a reader saw is lost");
        }
        assert!(found.is_disjoint(&self.never), "a rolled back message is stored");
        // Messages that retention removed may never have been read.
        let whole =
            |numbers: &Vec<u64>| [0, numbers.len()].contains(&numbers.iter().filter(|n| found.contains(n)).count());
        let torn = self.commits.iter().find(|(_, numbers)| !whole(numbers));
        assert!(torn.is_none() || self.first.iter().any(|first| *first > 0), "a partial transaction: {torn:?}");
        let taken: BTreeSet<u64> =
            self.seen.iter().filter(|((p, at), _)| *at < self.first[*p as usize]).map(|(_, n)| *n).collect();
        let lost: Vec<&u64> = self.accepted.iter().filter(|n| !found.contains(n) && !taken.contains(n)).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
    }
}

#[test]
fn accepted_message_keeps_its_offset_after_any_crash() {
    each_seed(RUNS, live);
}

fn live(seed: u64) {
    let mut dice = Dice::new(seed);
    let partitions = 1 + dice.below(3) as u32;
    let bytes = dice.percent(60).then(|| 30_000 + dice.below(150_000));
    let settings = Settings { retention: Retention { bytes, age_ms: Some(200_000) }, ..Settings::default() };
    let sector_bytes = if dice.percent(50) { 512 } else { 4096 };
    let mut site = Site::on(Arc::new(SimulatedDisk::new(sector_bytes, seed)), partitions, settings, true);
    let mut history = History { first: vec![0; partitions as usize], ..History::default() };
    for _ in 0..2 + dice.below(4) {
        // This reader sees every message, so that those removed by retention are known.
        site.reader(Start::First, 1_000_000);
        if dice.percent(70) {
            site.disk.cut_after(dice.below(160));
        }
        for _ in 0..dice.below(150) {
            step(&mut site, &mut history, &mut dice);
            history.collect(&mut site);
        }
        let disk = if dice.percent(70) { site.disk.crashed(dice.any()) } else { site.disk.as_seen() };
        let now_ms = site.now_ms;
        site = Site::on(Arc::new(disk), partitions, site.settings, true);
        site.now_ms = now_ms;
        site.router.set_time(now_ms);
        history.deliveries.clear();
        history.check(&mut site);
        site.sent = 0;
    }
}

fn step(site: &mut Site, history: &mut History, dice: &mut Dice) {
    match dice.below(9) {
        8 => transact(site, history, dice),
        0..4 => {
            for _ in 0..1 + dice.below(8) {
                history.deliveries.push(history.sent);
                let width = dice.below(1200) as usize;
                let text = format!("{:>width$}", history.sent);
                if dice.percent(50) {
                    site.send_to(dice.below(site.partitions.into()) as u32, &text);
                } else {
                    site.send(&text);
                }
                history.sent += 1;
            }
        }
        4 => {
            site.turn();
        }
        5 => site.slow = dice.percent(40),
        6 => site.answer(),
        _ => {
            site.now_ms += dice.below(3000);
            site.router.set_time(site.now_ms);
            site.turn();
        }
    }
}

/// A transaction with messages for any partitions, and its end.
fn transact(site: &mut Site, history: &mut History, dice: &mut Dice) {
    let id = site.begin(1 + history.commits.len() as u64 + history.never.len() as u64);
    let numbers: Vec<u64> = (history.sent..=history.sent + dice.below(6)).collect();
    for number in &numbers {
        history.deliveries.push(*number);
        let width = dice.below(1200) as usize;
        site.post(id, PRODUCER, &to(dice.below(site.partitions.into()) as u32, &format!("{number:>width$}")));
    }
    history.sent += numbers.len() as u64;
    let fail = dice.percent(20);
    site.router.discharge(id, fail, 1, &mut site.recorded);
    if fail {
        history.never.extend(&numbers);
    } else {
        history.commits.insert(id.number, numbers);
    }
}
