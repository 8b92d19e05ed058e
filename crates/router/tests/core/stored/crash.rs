//! Seeded lives of a queue and its dead letter with losses of power: what a producer was told is stored is there until
//! a consumer has said that it is done, in one place, once.
//!
//! `ENMASSE_CRASH_RUNS` says how many seeds, `ENMASSE_CRASH_SEED` which one first.

use std::collections::BTreeSet;
use std::sync::Arc;

use enmasse_amqp::types::Outcome;
use enmasse_journal::log::simulated::{Dice, SimulatedDisk};
use enmasse_journal::queue::{Redelivery, Settings};

use super::{DEAD, Got, House, QUEUE, failed};

const RUNS: u64 = 200;

/// What clients were told, by the number that is a message's text.
#[derive(Default)]
struct History {
    sent: u32,
    /// by delivery of this life, which message it was
    deliveries: Vec<u32>,
    accepted: BTreeSet<u32>,
    /// consumers have accepted them, and the disk may not know yet
    done: BTreeSet<u32>,
    /// the disk knows
    gone: BTreeSet<u32>,
}

impl History {
    fn hear(&mut self, house: &mut House) {
        for (delivery, outcome) in house.told.settled.drain(..) {
            if outcome == Outcome::Accepted {
                self.accepted.insert(self.deliveries[delivery as usize]);
            }
        }
        if !house.refused {
            self.gone.append(&mut self.done);
        }
    }

    fn check(&mut self, found: &[u32]) {
        let set: BTreeSet<u32> = found.iter().copied().collect();
        assert_eq!(set.len(), found.len(), "a message is there twice: {found:?}");
        let owed: BTreeSet<u32> = self.accepted.iter().copied().filter(|n| !self.is_done(*n)).collect();
        let lost: Vec<&u32> = owed.difference(&set).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        let back: Vec<&u32> = self.gone.intersection(&set).collect();
        assert!(back.is_empty(), "came back: {back:?}");
        // The disk has lost what it was not told for sure: these are to be done once more.
        self.gone.extend(std::mem::take(&mut self.done).difference(&set));
    }

    fn is_done(&self, number: u32) -> bool {
        self.done.contains(&number) || self.gone.contains(&number)
    }
}

fn number(got: &Got) -> u32 {
    got.text().trim().parse().expect("a number")
}

#[test]
fn what_was_stored_is_there_once_until_it_is_done_after_any_crash() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let runs: u64 = number("ENMASSE_CRASH_RUNS").unwrap_or(RUNS);
    let first: u64 = number("ENMASSE_CRASH_SEED").unwrap_or(1);
    for seed in first..first + runs {
        if let Err(panic) = std::panic::catch_unwind(|| live(seed)) {
            eprintln!("seed {seed}: run again with ENMASSE_CRASH_RUNS=1 ENMASSE_CRASH_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

fn live(seed: u64) {
    let mut dice = Dice::new(seed);
    let redelivery = Redelivery { attempts_max: 3, ..Redelivery::default() };
    let settings = Settings { dead_letter: true, redelivery, ..Settings::default() };
    let sector_bytes = if dice.percent(50) { 512 } else { 4096 };
    let mut house = House::on(Arc::new(SimulatedDisk::new(sector_bytes, seed)), settings);
    let mut history = History::default();
    for _ in 0..2 + dice.below(4) {
        if dice.percent(70) {
            house.disk.cut_after(dice.below(120));
        }
        let mut held = Vec::new();
        for _ in 0..dice.below(120) {
            step(&mut house, &mut history, &mut held, &mut dice);
        }
        let disk = if dice.percent(70) { house.disk.crashed(dice.any()) } else { house.disk.as_seen() };
        house = House::on(Arc::new(disk), house.settings);
        history.deliveries.clear();
        history.check(&found(&mut house));
    }
}

fn step(house: &mut House, history: &mut History, held: &mut Vec<Got>, dice: &mut Dice) {
    match dice.below(10) {
        0..4 => {
            for _ in 0..1 + dice.below(6) {
                history.deliveries.push(history.sent);
                let width = dice.below(900) as usize;
                house.send(&format!("{:>width$}", history.sent));
                history.sent += 1;
            }
        }
        4 => {
            let address = if dice.percent(80) { QUEUE } else { DEAD };
            house.consumer(address, 1 + dice.below(20) as u32);
        }
        5..7 => house.pump(),
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
                history.done.insert(number(&got));
            }
            house.answer(&got, &outcome);
        }
    }
    // Only what was written and synced before is known to the disk.
    if dice.percent(60) {
        house.pump();
        history.hear(house);
    }
}

/// Everything that is stored, in both addresses; it stays there.
fn found(house: &mut House) -> Vec<u32> {
    let mut numbers = Vec::new();
    for address in [QUEUE, DEAD] {
        let consumer = house.consumer(address, 1_000_000);
        house.pump();
        let got = house.got();
        numbers.extend(got.iter().map(number));
        house.router.credit(consumer, got.len() as u32, false, &mut house.told);
        for one in got {
            house.router.outcome(one.token, &Outcome::Released, &mut house.told);
        }
        house.router.detach(consumer, &mut house.told);
        house.pump();
        house.got();
    }
    house.sent = 0;
    numbers
}
