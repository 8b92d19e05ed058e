//! A shard and the log's owner in one: performs random operations, records the completions, and
//! follows the rules of the API.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use enmasse_journal::log::simulated::{Dice, SimulatedDisk};
use enmasse_journal::log::{Freed, Log, RecordLocation, Refused, Removal, Target, WriteBatch};

use crate::history::{Content, Contents, Group, Reported, name_of};

/// A message as its queue knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) place: RecordLocation,
    pub(crate) content: Content,
}

/// A message in a batch: its number there, its targets, its content.
type Put = (usize, Vec<(u32, u64)>, Content);

/// A message that is being copied: its number in the batch, where it lay, its targets.
type Moving = (usize, RecordLocation, Vec<(u32, u64)>);

/// A message that is written in chunks; it is no part of the history until it is complete.
#[derive(Clone)]
pub(crate) struct Staged {
    pub(crate) group: Group,
    messages: Vec<Put>,
}

impl Staged {
    fn is_for(&self, queue: u32) -> bool {
        self.messages.iter().any(|(_, targets, _)| targets.iter().any(|(target, _)| *target == queue))
    }
}

pub(crate) struct Shard {
    pub(crate) log: Log<SimulatedDisk>,
    pub(crate) dice: Dice,
    /// The content after all acknowledged operations.
    pub(crate) acknowledged: Contents,
    /// The operations since then, in order.
    pub(crate) pending: Vec<Group>,
    /// The content after all operations.
    pub(crate) contents: Contents,
    pub(crate) staged: Option<Staged>,
    pub(crate) known: BTreeMap<(u32, u64), Known>,
    /// Messages whose body was lost to a flipped bit.
    pub(crate) broken: BTreeSet<(u32, u64)>,
    /// Messages whose removal is not acknowledged yet: a crash may restore them.
    pub(crate) contents_of_gone: BTreeMap<(u32, u64), Content>,
    pub(crate) next_queue: u32,
    pub(crate) next_seq: u64,
    pub(crate) next_content: u64,
}

impl Shard {
    pub(crate) fn new(disk: Arc<SimulatedDisk>, seed: u64) -> Self {
        let (log, _) = Log::open(disk, crate::crash::config()).expect("an empty disk can be opened");
        Self {
            log,
            dice: Dice::new(seed),
            acknowledged: Contents::default(),
            pending: Vec::new(),
            contents: Contents::default(),
            staged: None,
            known: BTreeMap::new(),
            broken: BTreeSet::new(),
            contents_of_gone: BTreeMap::new(),
            next_queue: 1,
            next_seq: 0,
            next_content: 0,
        }
    }

    /// One random operation. False if the log has stopped.
    pub(crate) fn step(&mut self) -> bool {
        let done = match self.dice.below(100) {
            0..44 => self.say(),
            44..46 => self.stage(),
            46..50 => self.write_chunk(),
            50..75 => self.sync(),
            75..88 => self.log.turn().map(drop),
            88..90 => self.log.rest(),
            90..96 => self.compact(),
            _ => self.read_some(),
        };
        match done {
            Ok(()) | Err(Refused::NoRoom(_)) => true,
            Err(Refused::TooLarge { bytes }) => panic!("{bytes} bytes are not too large"),
            Err(Refused::Unsure(_) | Refused::Stopped(_)) => false,
            Err(Refused::Declined(reason)) => panic!("no part of a joint group was declined: {reason}"),
        }
    }

    pub(crate) fn sync(&mut self) -> Result<(), Refused> {
        self.log.sync()?;
        for group in self.pending.drain(..) {
            self.acknowledged.apply(&group);
        }
        assert_eq!(self.acknowledged, self.contents);
        self.contents_of_gone.clear();
        Ok(())
    }

    /// Closes the log, as an orderly stop does.
    pub(crate) fn close(&mut self) -> Result<(), Refused> {
        self.sync()?;
        self.log.close()
    }

    /// A large message, to be written in chunks.
    fn stage(&mut self) -> Result<(), Refused> {
        let queues: Vec<u32> = self.contents.queues.keys().copied().collect();
        if self.staged.is_some() || queues.is_empty() {
            return Ok(());
        }
        let Reported::Message { targets, content } = self.draw_message(&queues) else { return Ok(()) };
        let content = Content { len: 2_000 + self.dice.below(30_000) as usize, ..content };
        let group = vec![Reported::Message { targets, content }];
        let mut batch = WriteBatch::new();
        let mut messages = Vec::new();
        self.put(&mut batch, &group[0], &mut messages, &mut Vec::new());
        self.log.stage(&mut batch)?;
        self.staged = Some(Staged { group, messages });
        Ok(())
    }

    fn write_chunk(&mut self) -> Result<(), Refused> {
        let Some((batch, result)) = self.log.write_chunk() else { return Ok(()) };
        result?;
        // Some later operations may be stored after it.
        self.sync()?;
        let Some(Staged { group, messages }) = self.staged.take() else { panic!("nothing was staged") };
        for (message, targets, content) in messages {
            let place = batch.place(message);
            self.known.extend(targets.into_iter().map(|target| (target, Known { place, content })));
        }
        self.contents.apply(&group);
        self.acknowledged.apply(&group);
        Ok(())
    }

    /// A batch of some groups.
    fn say(&mut self) -> Result<(), Refused> {
        let mut batch = WriteBatch::new();
        let mut reported = Vec::new();
        let mut after = self.contents.clone();
        let mut messages = Vec::new();
        let mut gone = Vec::new();
        for _ in 0..=self.dice.below(5) {
            let whole = self.dice.percent(40);
            let mut group = Group::new();
            if whole {
                batch.begin();
            }
            for _ in 0..if whole { 1 + self.dice.below(4) } else { 1 } {
                let Some(thing) = self.draw(&after, &gone) else { continue };
                self.put(&mut batch, &thing, &mut messages, &mut gone);
                group.push(thing);
                after.apply(&vec![group.last().cloned().expect("just put")]);
            }
            if whole {
                batch.end();
            }
            reported.push(group);
        }
        let appended = self.log.append(&mut batch);
        if matches!(appended, Err(Refused::NoRoom(_))) {
            return appended;
        }
        self.pending.append(&mut reported);
        self.contents = after;
        if appended.is_ok() {
            for (message, targets, content) in messages {
                let place = batch.place(message);
                for target in targets {
                    self.known.insert(target, Known { place, content });
                }
            }
            for target in gone {
                self.contents_of_gone.extend(self.known.remove(&target).map(|known| (target, known.content)));
            }
        }
        appended
    }

    /// An operation on the current content.
    fn draw(&mut self, after: &Contents, gone: &[(u32, u64)]) -> Option<Reported> {
        let queues: Vec<u32> = after.queues.keys().copied().collect();
        let any = queues.get(self.dice.below(queues.len() as u64) as usize).copied();
        match (self.dice.below(100), any) {
            (0..4, _) | (_, None) => {
                let queue = self.next_queue;
                self.next_queue += 1;
                Some(Reported::Declare { queue, uid: [queue as u8; 16] })
            }
            (4..6, Some(queue)) => {
                // A drop names the places of all it has, so all must have places.
                let messages = &after.queues[&queue].messages;
                let placed = messages.keys().all(|&seq| self.known.contains_key(&(queue, seq)));
                let awaited = self.staged.as_ref().is_some_and(|staged| staged.is_for(queue));
                (placed && !awaited).then_some(Reported::Drop { queue })
            }
            (6..50, Some(_)) => Some(self.draw_message(&queues)),
            (50..80, Some(queue)) => {
                let all = after.queues[&queue].messages.keys().copied();
                let alive = all.filter(|&seq| self.known.contains_key(&(queue, seq)) && !gone.contains(&(queue, seq)));
                let mut seqs: Vec<u64> = alive.collect();
                let from = self.dice.below(seqs.len() as u64 + 1) as usize;
                let rest = if self.dice.percent(70) { 0 } else { from };
                seqs.drain(..rest.min(seqs.len()));
                seqs.truncate(1 + self.dice.below(40) as usize);
                (!seqs.is_empty()).then_some(Reported::Remove { queue, seqs })
            }
            (_, Some(queue)) => {
                let key = vec![b'k', self.dice.below(12) as u8];
                let len = if self.dice.percent(30) { 0 } else { 1 + self.dice.below(60) };
                let value = (0..len).map(|_| self.dice.any() as u8).collect();
                Some(Reported::State { queue, key, value })
            }
        }
    }

    fn draw_message(&mut self, queues: &[u32]) -> Reported {
        let mut targets = Vec::new();
        let several = if self.dice.percent(20) { 3 } else { 1 };
        for &queue in queues.iter().skip(self.dice.below(queues.len() as u64) as usize).take(several) {
            let head = (0..self.dice.below(5)).map(|_| self.dice.below(3) as u8).collect();
            targets.push((queue, self.next_seq, head));
            self.next_seq += 1;
        }
        let len = match self.dice.below(100) {
            0..60 => self.dice.below(300),
            60..99 => self.dice.below(3000),
            _ => self.dice.below(40_000),
        };
        self.next_content += 1;
        Reported::Message { targets, content: Content { id: self.next_content, len: len as usize } }
    }

    fn put(&self, batch: &mut WriteBatch, reported: &Reported, messages: &mut Vec<Put>, gone: &mut Vec<(u32, u64)>) {
        match reported {
            Reported::Declare { queue, uid } => batch.declare(*queue, uid, &name_of(*queue)),
            Reported::Drop { queue } => {
                let mut freed = Freed::default();
                for (&target, known) in self.known.range((*queue, 0)..=(*queue, u64::MAX)) {
                    if !gone.contains(&target) {
                        freed.add(known.place);
                        gone.push(target);
                    }
                }
                batch.drop_queue(*queue, &freed);
            }
            Reported::Message { targets, content } => {
                let of = |(queue, seq, head): &'_ (u32, u64, Vec<u8>)| (*queue, *seq, head.clone());
                let owned: Vec<(u32, u64, Vec<u8>)> = targets.iter().map(of).collect();
                let targets: Vec<Target<'_>> =
                    owned.iter().map(|(queue, seq, head)| Target { queue: *queue, seq: *seq, head }).collect();
                let number = batch.message(&targets, &content.bytes());
                messages.push((number, owned.iter().map(|(queue, seq, _)| (*queue, *seq)).collect(), *content));
            }
            Reported::Remove { queue, seqs } => {
                let mut removal = Removal::new(*queue);
                for &seq in seqs {
                    removal.add(seq, self.known[&(*queue, seq)].place);
                    gone.push((*queue, seq));
                }
                batch.remove(&mut removal);
            }
            Reported::State { queue, key, value } => batch.state(*queue, key, value),
        }
    }

    /// Copies some live records of the segment that the log names.
    pub(crate) fn compact(&mut self) -> Result<(), Refused> {
        let Some(segment) = self.log.wants_compacted() else { return Ok(()) };
        let most = 1 + self.dice.below(30) as usize;
        let alive = self.known.iter().filter(|(_, known)| known.place.segment == segment);
        let mut by_place: BTreeMap<RecordLocation, Vec<(u32, u64)>> = BTreeMap::new();
        alive.for_each(|(&target, known)| by_place.entry(known.place).or_default().push(target));
        let mut batch = WriteBatch::new();
        let mut copies = Vec::new();
        for (place, targets) in by_place.into_iter().take(most) {
            let heads = targets.iter().map(|(queue, seq)| &self.contents.queues[queue].messages[seq]);
            let full = targets.iter().zip(heads).map(|(&(queue, seq), head)| Target { queue, seq, head });
            let copy = batch.copy(place, &full.collect::<Vec<_>>());
            copies.push((copy, place, targets));
        }
        self.log.append(&mut batch)?;
        // In the meantime some of it may be removed, by its old place.
        if self.dice.percent(50) {
            let reported = self.say();
            if !matches!(reported, Ok(()) | Err(Refused::NoRoom(_))) {
                return reported;
            }
        }
        self.sync()?;
        self.take_over(&batch, copies)
    }

    fn take_over(&mut self, batch: &WriteBatch, copies: Vec<Moving>) -> Result<(), Refused> {
        let mut answer = WriteBatch::new();
        let mut freed = Freed::default();
        let mut reported = Group::new();
        for (copy, from, targets) in copies {
            for target in targets {
                let to = batch.copied(copy, target.0);
                match (self.known.get_mut(&target), to) {
                    (Some(known), Some(to)) => {
                        known.place = to;
                        freed.add(from);
                    }
                    (Some(_), None) => {
                        assert!(self.broken.contains(&target), "{target:?} could not be copied");
                        let mut removal = Removal::new(target.0);
                        removal.add(target.1, from);
                        answer.remove(&mut removal);
                        reported.push(Reported::Remove { queue: target.0, seqs: vec![target.1] });
                    }
                    (None, Some(to)) if self.contents.queues.contains_key(&target.0) => {
                        let mut removal = Removal::new(target.0);
                        removal.add(target.1, to);
                        answer.remove(&mut removal);
                    }
                    (None, Some(to)) => freed.add(to),
                    (None, None) => {}
                }
            }
        }
        answer.free(&freed);
        // Each removal is a group of its own.
        let groups: Vec<Group> = reported.into_iter().map(|reported| vec![reported]).collect();
        loop {
            match self.log.append(&mut answer) {
                Err(Refused::NoRoom(_)) => self.make_room(),
                appended => {
                    for group in groups {
                        self.contents.apply(&group);
                        let Reported::Remove { queue, seqs } = &group[0] else { continue };
                        let target = (*queue, seqs[0]);
                        self.contents_of_gone.extend(self.known.remove(&target).map(|known| (target, known.content)));
                        self.pending.push(group);
                    }
                    return appended;
                }
            }
        }
    }

    fn make_room(&mut self) {
        self.disk().set_capacity_bytes(u64::MAX);
    }

    pub(crate) fn disk(&self) -> &SimulatedDisk {
        self.log.disk()
    }

    /// Some messages have the bodies that were put.
    fn read_some(&mut self) -> Result<(), Refused> {
        let skipped = self.dice.below(self.known.len() as u64 + 1) as usize;
        self.read(skipped, 5);
        Ok(())
    }

    pub(crate) fn read(&self, skipped: usize, most: usize) {
        let reader = self.log.reader();
        let mut buffer = Vec::new();
        for (target, known) in self.known.iter().skip(skipped).take(most) {
            match reader.read(known.place, &mut buffer) {
                Ok(body) => assert!(body == known.content.bytes(), "{target:?} has another body"),
                Err(error) => assert!(self.broken.contains(target), "{target:?}: {error}"),
            }
        }
    }

    /// All that can wait is done.
    pub(crate) fn settle(&mut self) -> Result<(), Refused> {
        self.disk().set_capacity_bytes(u64::MAX);
        while self.staged.is_some() {
            self.write_chunk()?;
        }
        for _ in 0..10_000 {
            self.sync()?;
            let worked = self.log.turn()?;
            if self.log.wants_compacted().is_some() {
                self.compact()?;
            } else if !worked {
                return Ok(());
            }
        }
        panic!("there is no end of work: {:?} {:?}", self.log.stats(), self.log);
    }
}
