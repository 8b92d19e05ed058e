//! Random operations compared with a list: every reader gets the elements of the list, from its
//! start, without a gap.

use std::collections::HashMap;
use std::sync::Arc;

use enmasse_amqp::types::condition;
use enmasse_journal::log::simulated::{Dice, SimulatedDisk};
use enmasse_journal::stream::{Retention, Settings};
use enmasse_router::core::{AttachmentId, Consuming, Start};

use super::Site;

const RUNS: u64 = 150;
const PARTITIONS: u32 = 3;

/// A model of a stream: a list for each partition.
#[derive(Default)]
struct Model {
    /// messages that are accepted or will be, by partition
    lists: Vec<Vec<String>>,
    readers: HashMap<AttachmentId, Reader>,
}

struct Reader {
    /// its position in each partition; `None` before its first message there
    at: Vec<Option<u64>>,
    start: Start,
    /// first and next offset of each partition when it attached
    bounds: Vec<(u64, u64)>,
    credit: u32,
    got: u32,
    partition: Option<u32>,
}

impl Model {
    fn collect(&mut self, site: &mut Site) {
        for got in site.got() {
            let list = &self.lists[got.partition as usize];
            assert_eq!(list.get(got.offset as usize), Some(&got.text), "partition {} at {}", got.partition, got.offset);
            let reader = self.readers.get_mut(&got.attachment).expect("an attached reader");
            reader.got += 1;
            assert!(reader.got <= reader.credit, "more than it has credit for");
            assert!(reader.partition.is_none_or(|partition| partition == got.partition));
            let (first, next) = reader.bounds[got.partition as usize];
            let at = &mut reader.at[got.partition as usize];
            match (*at, reader.start) {
                (Some(before), _) => assert_eq!(got.offset, before + 1, "partition {}", got.partition),
                (None, Start::First) => assert!(got.offset >= first),
                (None, Start::Last) => assert_eq!(got.offset, next.saturating_sub(1).max(first)),
                (None, Start::Next) => assert_eq!(got.offset, next),
                (None, Start::Offset(offset)) => assert_eq!(got.offset, offset),
                (None, Start::Time(_)) => unreachable!("not used in this test"),
            }
            *at = Some(got.offset);
        }
        for (attachment, error) in site.recorded.closed.drain() {
            assert_eq!(error.condition, condition::PRECONDITION_FAILED, "{error:?}");
            self.readers.remove(&attachment);
        }
    }

    /// Checks that every reader has received every message.
    fn check_end(&self, site: &Site) {
        for reader in self.readers.values() {
            for (number, at) in (0..).zip(&reader.at) {
                let (first, next) = site.bounds(number);
                if reader.partition.is_some_and(|partition| partition != number) || first == next {
                    continue;
                }
                let wanted = match reader.start {
                    Start::First => true,
                    Start::Offset(offset) => offset < next,
                    _ => reader.bounds[number as usize].1 < next,
                };
                assert!(!wanted || *at == Some(next - 1), "partition {number}: {at:?} of {next}");
            }
        }
    }
}

#[test]
fn readers_get_every_message_in_order_without_a_gap() {
    for seed in 1..=RUNS {
        if let Err(panic) = std::panic::catch_unwind(|| live(seed)) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

fn live(seed: u64) {
    let mut dice = Dice::new(seed);
    let bytes = dice.percent(50).then(|| 20_000 + dice.below(200_000));
    let age_ms = if bytes.is_none() || dice.percent(30) { Some(2_000 + dice.below(20_000)) } else { None };
    let settings = Settings { retention: Retention { bytes, age_ms }, ..Settings::default() };
    let on_disk = dice.percent(80);
    let mut site = Site::on(Arc::new(SimulatedDisk::new(512, seed)), PARTITIONS, settings, on_disk);
    let mut model = Model { lists: vec![Vec::new(); PARTITIONS as usize], ..Model::default() };
    for _ in 0..150 {
        step(&mut site, &mut model, &mut dice);
        model.collect(&mut site);
    }
    site.slow = false;
    site.answer();
    site.recorded.full.clear();
    let attachments: Vec<AttachmentId> = model.readers.keys().copied().collect();
    for attachment in attachments {
        if let Some(reader) = model.readers.get_mut(&attachment) {
            reader.credit = reader.got + 1_000_000;
            site.router.credit(attachment, reader.credit, false, &mut site.recorded);
        }
        model.collect(&mut site);
    }
    site.pump();
    model.collect(&mut site);
    model.check_end(&site);
    assert_eq!(site.accepted().len() as u32, site.sent);
}

fn step(site: &mut Site, model: &mut Model, dice: &mut Dice) {
    match dice.below(12) {
        0..5 => {
            let many = if dice.percent(10) { 200 } else { 6 };
            for _ in 0..1 + dice.below(many) {
                let partition = dice.below(PARTITIONS.into()) as u32;
                let list = &mut model.lists[partition as usize];
                let width = if dice.percent(5) { dice.below(50_000) } else { dice.below(600) } as usize;
                list.push(format!("{:>width$}", list.len()));
                let text = list[list.len() - 1].clone();
                site.send_to(partition, &text);
            }
        }
        5 => attach(site, model, dice),
        6 => {
            let Some(attachment) = any(model, dice) else { return };
            let reader = model.readers.get_mut(&attachment).expect("a reader");
            reader.credit += dice.below(300) as u32;
            site.router.credit(attachment, reader.credit, false, &mut site.recorded);
        }
        7 => {
            let Some(attachment) = any(model, dice) else { return };
            if site.recorded.full.contains(&attachment) {
                site.recorded.full.retain(|full| *full != attachment);
                let credit = model.readers[&attachment].credit;
                site.router.credit(attachment, credit, false, &mut site.recorded);
            } else {
                site.recorded.full.push(attachment);
            }
        }
        8 => {
            if let Some(attachment) = any(model, dice).filter(|_| dice.percent(30)) {
                model.readers.remove(&attachment);
                site.router.detach(attachment, &mut site.recorded);
            }
        }
        9 => site.slow = dice.percent(50),
        10 => {
            site.turn();
            site.answer();
        }
        _ if site.slow => {
            site.turn();
        }
        _ => site.pass(dice.below(1500)),
    }
}

fn any(model: &Model, dice: &mut Dice) -> Option<AttachmentId> {
    let mut attachments: Vec<AttachmentId> = model.readers.keys().copied().collect();
    attachments.sort_unstable();
    if attachments.is_empty() { None } else { Some(attachments[dice.below(attachments.len() as u64) as usize]) }
}

fn attach(site: &mut Site, model: &mut Model, dice: &mut Dice) {
    let bounds: Vec<(u64, u64)> = (0..PARTITIONS).map(|number| site.bounds(number)).collect();
    let partition = dice.percent(50).then(|| dice.below(PARTITIONS.into()) as u32);
    let start = match (dice.below(4), partition) {
        (0, Some(number)) => {
            let (first, next) = bounds[number as usize];
            Start::Offset(first + dice.below(next - first + 3))
        }
        (1, _) => Start::Last,
        (2, _) => Start::Next,
        _ => Start::First,
    };
    let credit = dice.below(100) as u32;
    let attachment = site.reader_that(Consuming { start, partition, ..Consuming::default() }, 0);
    let at = vec![None; PARTITIONS as usize];
    model.readers.insert(attachment, Reader { at, start, bounds, credit, got: 0, partition });
    site.router.credit(attachment, credit, false, &mut site.recorded);
}
