//! Several transactions at once, among deliveries outside of them, compared with a naive model.

use std::collections::{BTreeMap, BTreeSet};

use enmasse_amqp::types::{Body, Message, Outcome};
use enmasse_journal::log::simulated::Dice;
use enmasse_journal::queue::Settings;
use enmasse_router::core::AttachmentId;

use super::transactions::{MEMORY, house, transaction};
use super::{DEAD, Got, House, PRODUCER, QUEUE, failed};

/// A transaction of the model.
#[derive(Default)]
struct Work {
    posted: Vec<u32>,
    /// number, delivery, whether the commit removes it, whether its consumer has detached
    retired: Vec<(Got, bool, bool)>,
}

/// Several transactions at once among deliveries outside of them, and the expected messages.
struct Model {
    house: House,
    dice: Dice,
    next: u32,
    declared: u64,
    visible: BTreeSet<u32>,
    open: BTreeMap<u64, Work>,
    held: Vec<Got>,
    attachments: [AttachmentId; 3],
    /// sent to the queue that is in memory only
    in_memory: BTreeSet<u32>,
}

impl Model {
    fn number(got: &Got) -> u32 {
        got.text().parse().expect("a number")
    }

    fn receive(&mut self) {
        self.house.pump();
        for got in self.house.got() {
            let number = Self::number(&got);
            assert!(self.visible.contains(&number), "{number} is not visible");
            let known = self.held.iter().chain(self.open.values().flat_map(|work| work.retired.iter().map(|it| &it.0)));
            assert!(known.into_iter().all(|held| Self::number(held) != number), "{number} is held already");
            self.held.push(got);
        }
    }

    fn pick(&mut self) -> Option<u64> {
        let at = self.dice.below(self.open.len().max(1) as u64) as usize;
        self.open.keys().copied().nth(at)
    }

    fn step(&mut self) {
        let to = self.dice.below(3) as usize;
        let attachment = self.attachments[to];
        if to == 2 {
            self.in_memory.insert(self.next);
        } else {
            self.in_memory.remove(&self.next);
        }
        match self.dice.below(10) {
            0 => {
                let message =
                    Message { body: Body::Data(vec![self.next.to_string().into_bytes()]), ..Message::default() };
                self.house.send_from(attachment, &message);
                self.visible.insert(self.next);
                self.next += 1;
            }
            1 if self.open.len() < 3 => {
                self.declared += 1;
                self.house.declare(self.declared);
                self.open.insert(self.declared, Work::default());
            }
            2..5 => {
                let Some(id) = self.pick() else { return };
                self.house.post(transaction(id), attachment, &self.next.to_string());
                self.open.entry(id).or_default().posted.push(self.next);
                self.next += 1;
            }
            5..7 => self.retire(),
            7 if !self.held.is_empty() => {
                let at = self.dice.below(self.held.len() as u64) as usize;
                let got = self.held.swap_remove(at);
                self.visible.remove(&Self::number(&got));
                self.house.answer(&got, &Outcome::Accepted);
            }
            8 => self.discharge(),
            _ => {}
        }
        self.receive();
    }

    fn retire(&mut self) {
        let Some(id) = self.pick().filter(|_| !self.held.is_empty()) else { return };
        let at = self.dice.below(self.held.len() as u64) as usize;
        let got = self.held.swap_remove(at);
        let outcomes = [Outcome::Accepted, Outcome::Accepted, Outcome::Released, failed()];
        let outcome = &outcomes[self.dice.below(4) as usize];
        let settled = self.dice.percent(50);
        self.house.retire(transaction(id), &got, outcome, settled);
        self.open.entry(id).or_default().retired.push((got, *outcome == Outcome::Accepted, settled));
    }

    fn discharge(&mut self) {
        let Some(id) = self.pick() else { return };
        let work = self.open.remove(&id).unwrap_or_default();
        if self.dice.percent(60) {
            self.visible.extend(work.posted);
            let gone = work.retired.iter().filter(|(_, gone, _)| *gone);
            gone.for_each(|(got, ..)| _ = self.visible.remove(&Self::number(got)));
            assert_eq!(self.house.commit(transaction(id)), Ok(()));
        } else {
            self.held.extend(work.retired.into_iter().filter(|(.., settled)| !settled).map(|(got, ..)| got));
            self.house.roll_back(transaction(id));
        }
    }
}

#[test]
fn several_transactions_at_once_agree_with_a_model() {
    for seed in 1..=60 {
        let mut house = house(Settings::default());
        let attachments = [PRODUCER, house.producer(DEAD), house.producer(MEMORY)];
        for address in [QUEUE, DEAD, MEMORY] {
            house.consumer(address, 1_000_000);
        }
        let (dice, open, visible, held) = (Dice::new(seed), BTreeMap::new(), BTreeSet::new(), Vec::new());
        let in_memory = BTreeSet::new();
        let mut model = Model { house, dice, next: 0, declared: 0, visible, open, held, attachments, in_memory };
        for _ in 0..300 {
            model.step();
        }
        while let Some((id, work)) = model.open.pop_first() {
            model.held.extend(work.retired.into_iter().filter(|(.., settled)| !settled).map(|(got, ..)| got));
            model.house.roll_back(transaction(id));
        }
        model.receive();
        let held: BTreeSet<u32> = model.held.iter().map(Model::number).collect();
        assert_eq!(held, model.visible, "seed {seed}");
        let mut house = model.house.restarted();
        let mut after: BTreeSet<u32> = BTreeSet::new();
        for address in [QUEUE, DEAD] {
            after.extend(house.seen(address).iter().map(|text| text.parse::<u32>().expect("a number")));
        }
        assert_eq!(after, held.difference(&model.in_memory).copied().collect(), "seed {seed}");
    }
}
