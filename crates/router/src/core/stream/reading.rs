//! Dispatch of messages to readers: each reader has a position in each partition that it reads.
//!
//! Blocks are read from the recent part of the log in memory, or from disk. Two blocks are read
//! ahead of a reader with room, shared with other readers of these blocks, and kept as idle
//! afterwards. A reader without room keeps no block.

use std::borrow::Cow;
use std::sync::Arc;

use enmasse_amqp::codec::stamp::Stamp;
use enmasse_amqp::types::{Error, condition};
use enmasse_journal::queue::Seq;
use enmasse_journal::stream::{Partition, block};

use super::super::Bodies;
use super::super::arena::Key;
use super::super::consumer::{BlockPosition, Position, Reading};
use super::super::delivery::Part;
use super::super::message::SettlementTarget;
use super::super::{Consuming, Filter, Links, Router, Start, ToLink};
use super::{Stream, exceeded};

/// Messages that one reader examines in a turn.
const SHARE_MESSAGES: u32 = 4096;
/// Bytes dispatched to one reader in a turn; at least one message.
const SHARE_BYTES: usize = 512 << 10;
/// Blocks read ahead of a reader.
const AHEAD_BLOCKS: usize = 2;

/// Why a reader stops reading a partition.
enum Step {
    /// no message is left
    End,
    /// the block is read
    Block,
    /// the block is being fetched
    Waits,
    /// there is no memory for blocks now
    Starves,
    /// the reader has no room
    NoRoom,
    /// it used up its share of the turn
    Share,
    /// retention removed its next message: the offset of that message, and the first retained one
    Overtaken(u64, u64),
    /// the block cannot be read
    Damaged,
}

/// The remaining share of a reader in a turn.
struct Share {
    messages: u32,
    bytes: usize,
}

impl Share {
    /// Counts an examined message and its dispatched bytes. Returns whether some of the share is
    /// left.
    #[inline]
    fn take(&mut self, bytes: usize) -> bool {
        self.messages -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.messages > 0 && self.bytes > 0
    }
}

impl Stream {
    /// Whether there are messages that a reader has not read.
    pub(in crate::core) fn has_unread(&self, reading: &Reading) -> bool {
        reading
            .positions
            .iter()
            .any(|position| position.next < self.parts[position.partition as usize].partition.next())
    }

    /// The initial positions of a reader that attaches.
    ///
    /// # Errors
    /// `amqp:resource-limit-exceeded` at the bound of consumers, `amqp:invalid-field` for filters
    /// that name no partition or several at once, `amqp:precondition-failed` for an offset that is
    /// not retained any more.
    pub(in crate::core) fn attach(
        &self,
        consuming: &Consuming,
        filter: Option<Filter>,
        others: usize,
    ) -> Result<Reading, Error> {
        let most = self.settings.limits.consumers;
        if others >= most as usize {
            return Err(exceeded(&format!("the address has {most} receivers, its limit")));
        }
        if consuming.exclusive {
            let what = "readers of a stream do not compete: attach without \"exclusive\"";
            return Err(Error::new(condition::NOT_IMPLEMENTED, what));
        }
        let count = self.parts.len() as u32;
        let wanted = match consuming.partition {
            None => 0..count,
            Some(number) if number < count => number..number + 1,
            Some(number) => {
                let last = count.saturating_sub(1);
                let what = format!("filter \"enmasse:stream-partition\" is {number}: use 0 to {last}");
                return Err(Error::new(condition::INVALID_FIELD, what));
            }
        };
        if let (Start::Offset(_), 2..) = (consuming.start, wanted.len()) {
            let what = "filter \"rabbitmq:stream-offset-spec\" is an offset and the stream has several partitions: \
                        select one by filter \"enmasse:stream-partition\", or begin with first, last, next or a time";
            return Err(Error::new(condition::INVALID_FIELD, what));
        }
        let positions = wanted.map(|number| position(number, &self.parts[number as usize].partition, consuming.start));
        Ok(Reading {
            selector: consuming.selector.clone(),
            matches_own_name: filter.as_ref().is_none_or(|filter| filter.matches(&self.name)),
            filter,
            settled: consuming.settled,
            positions: positions.collect::<Result<_, _>>()?,
            turn: 0,
        })
    }
}

fn position(number: u32, partition: &Partition, start: Start) -> Result<Position, Error> {
    let (first, next) = (partition.first(), partition.next());
    let mut position =
        Position { partition: number, next, since_ms: 0, from_oldest: false, within: None, held: Vec::new() };
    match start {
        Start::Next => {}
        Start::First => (position.next, position.from_oldest) = (first, true),
        Start::Last => position.next = next.saturating_sub(1).max(first),
        Start::Offset(offset) if offset < first => return Err(overtaken(number, offset, first)),
        Start::Offset(offset) => position.next = offset,
        Start::Time(at_ms) => {
            (position.next, position.since_ms, position.from_oldest) = (partition.since(at_ms), at_ms, true);
        }
    }
    Ok(position)
}

fn overtaken(partition: u32, offset: u64, first: u64) -> Error {
    let what = format!(
        "offset {offset} of partition {partition} is no longer kept, the first is {first}: begin there or at \"first\""
    );
    Error::new(condition::PRECONDITION_FAILED, what)
}

impl Router {
    /// Attaches a reader, or refuses it.
    pub(in crate::core) fn attach_to_stream(
        &mut self,
        at: Key,
        to: Key,
        consuming: &Consuming,
        filter: Option<Filter>,
        links: &mut impl Links,
    ) {
        let (attachment, others) = (self.consumers[to].attachment, self.addresses[at].consumers.len() - 1);
        let stream = self.addresses.stream(at);
        match stream.attach(consuming, filter, others) {
            Ok(reading) => {
                self.consumers[to].reading = Some(Box::new(reading));
                links.send(ToLink::Attached { attachment, answer: Ok(stream.properties()) });
            }
            Err(refused) => self.refuse_attachment(attachment, refused, links),
        }
    }

    /// Dispatches messages to every reader of a stream, within room and share.
    pub(super) fn serve_readers(&mut self, at: Key, links: &mut impl Links) {
        let mut readers = std::mem::take(&mut self.scratch.readers);
        readers.clone_from(&self.addresses[at].consumers);
        for to in readers.drain(..) {
            if self.consumers.get(to).is_some() {
                self.dispatch_to_reader(to, links);
            }
            if self.consumers.get(to).is_some_and(|consumer| consumer.drain) {
                self.finish_drain(to, links);
            }
        }
        self.scratch.readers = readers;
    }

    /// Dispatches messages to a reader that may have room, or releases its blocks if it has none.
    pub(in crate::core) fn dispatch_to_reader(&mut self, to: Key, links: &mut impl Links) {
        let consumer = &mut self.consumers[to];
        let (at, attachment) = (consumer.address, consumer.attachment);
        // The stream has refused its attach.
        let Some(mut reading) = consumer.reading.take() else { return };
        let has_room = self.consumers[to].has_room();
        let step = if has_room { self.read(at, to, &mut reading, links) } else { Step::NoRoom };
        if !matches!(step, Step::Share | Step::Waits | Step::Starves) {
            reading.release_blocks(&mut self.storage.bodies);
        }
        self.consumers[to].reading = Some(reading);
        match step {
            Step::Waits => self.await_bodies(at),
            Step::Starves => self.schedule.starving.push(at),
            Step::Share => self.schedule.continue_later(at),
            Step::Overtaken(offset, first) => {
                let partition = self.consumers[to].reading.as_ref().map_or(0, |reading| reading.overtaken());
                self.detach(attachment, links);
                links.send(ToLink::Close { attachment, error: Cow::Borrowed(&overtaken(partition, offset, first)) });
            }
            _ => {}
        }
    }

    /// Reads one block of each partition in turn, until no message is left or the reader used up
    /// its share.
    fn read(&mut self, at: Key, to: Key, reading: &mut Reading, links: &mut impl Links) -> Step {
        let mut share = Share { messages: SHARE_MESSAGES, bytes: SHARE_BYTES };
        let (mut idle, mut stops) = (0, Step::End);
        while idle < reading.positions.len() {
            let turn = reading.turn % reading.positions.len();
            let step = self.read_block(at, to, reading, turn, &mut share, links);
            match step {
                Step::Block => idle = 0,
                Step::Damaged => self.skip_damaged(at, &mut reading.positions[turn]),
                Step::End => idle += 1,
                Step::Waits | Step::Starves => {
                    idle += 1;
                    stops = step;
                }
                // The reader continues with this partition.
                Step::NoRoom | Step::Share | Step::Overtaken(..) => {
                    reading.turn = turn;
                    return step;
                }
            }
            reading.turn = turn + 1;
        }
        stops
    }

    fn read_block(
        &mut self,
        at: Key,
        to: Key,
        reading: &mut Reading,
        turn: usize,
        share: &mut Share,
        links: &mut impl Links,
    ) -> Step {
        let position = &mut reading.positions[turn];
        let part = &self.addresses.stream(at).parts[position.partition as usize];
        let on_disk = part.log.is_some();
        if let Err(step) = position.locate(&part.partition, on_disk, &mut self.storage.bodies) {
            return step;
        }
        // `locate` has found a block, or nothing to read.
        let Some(within) = position.within else { return Step::End };
        let bodies = std::mem::take(&mut self.storage.bodies);
        let body = bodies.get(within.place, on_disk).unwrap_or_default();
        let step = self.dispatch_block(to, reading, turn, body, share, links);
        self.storage.bodies = bodies;
        if matches!(step, Step::Block) {
            let position = &mut reading.positions[turn];
            position.within = None;
            if let Some(held) = position.held.iter().position(|place| *place == within.place) {
                position.held.swap_remove(held);
                self.storage.bodies.release(within.place);
            }
        }
        step
    }

    /// Dispatches the messages of a block, from the position of the reader on.
    #[inline]
    fn dispatch_block(
        &mut self,
        to: Key,
        reading: &mut Reading,
        turn: usize,
        body: &[u8],
        share: &mut Share,
        links: &mut impl Links,
    ) -> Step {
        let now_ms = self.now_ms;
        let position = &reading.positions[turn];
        let Some(BlockPosition { end, mut at, .. }) = position.within else { return Step::End };
        let (mut next, since_ms) = (position.next, position.since_ms);
        let mut step = Step::Block;
        while next < end {
            let Some((entry, after)) = block::entry(body, at) else {
                step = Step::Damaged;
                break;
            };
            let mut bytes = 0;
            if entry.enqueued_ms >= since_ms && reading.wants(&entry, now_ms) {
                let settlement =
                    if reading.settled { SettlementTarget::Nothing } else { SettlementTarget::Browsed(Seq(next)) };
                if !self.consumers[to].has_room()
                    || self.dispatch(to, settlement, Part::whole(entry.message), links).is_err()
                {
                    step = Step::NoRoom;
                    break;
                }
                bytes = entry.message.len();
            }
            (next, at) = (next + 1, after);
            if !share.take(bytes) && next < end {
                step = Step::Share;
                break;
            }
        }
        let position = &mut reading.positions[turn];
        position.from_oldest &= next == position.next;
        position.next = next;
        if let Some(within) = position.within.as_mut() {
            within.at = at;
        }
        if matches!(step, Step::Block) && (share.messages == 0 || share.bytes == 0) { Step::Share } else { step }
    }

    /// Skips a damaged block, which is counted once for all readers.
    fn skip_damaged(&mut self, at: Key, position: &mut Position) {
        let stream = self.addresses.stream_mut(at);
        let partition = &mut stream.parts[position.partition as usize].partition;
        let Some((place, end)) = partition.find(position.next).next().map(|block| (block.place, block.end())) else {
            return;
        };
        if position.within.take().is_some_and(|within| within.place != place) {
            // Compaction moved the block while it was read.
            return;
        }
        if let Some(block) = partition.damage(position.next) {
            let name = Arc::clone(&stream.name);
            self.count_lost(at, &name, Some(position.partition), block.first, block.end() - block.first);
        }
        position.next = end;
    }

    /// Releases the blocks of a reader that detaches.
    pub(in crate::core) fn leave_stream(&mut self, to: Key) {
        if let Some(mut reading) = self.consumers[to].reading.take() {
            reading.release_blocks(&mut self.storage.bodies);
        }
    }

    /// Moves a reader back to a delivery that another shard refused.
    pub(in crate::core) fn rewind_reader(&mut self, consumer: Option<Key>, payload: &[u8]) {
        let reading =
            consumer.and_then(|key| self.consumers.get_mut(key)).and_then(|consumer| consumer.reading.as_mut());
        if let (Some(reading), Some(stamp)) = (reading, Stamp::of(payload)) {
            reading.rewind(stamp);
        }
    }

    /// Continues readers that wait for memory, once some is free.
    pub(in crate::core) fn dispatch_to_memory_starved(&mut self, links: &mut impl Links) {
        if self.schedule.starving.is_empty() || self.storage.bodies.is_full() {
            return;
        }
        for at in std::mem::take(&mut self.schedule.starving) {
            if self.addresses.get(at).is_some() {
                self.process_stream(at, links);
            }
        }
    }
}

impl Position {
    /// Finds the block of the position, and requests the next ones.
    fn locate(&mut self, partition: &Partition, on_disk: bool, bodies: &mut Bodies) -> Result<(), Step> {
        let first = partition.first();
        if self.next < first {
            if !self.from_oldest {
                return Err(Step::Overtaken(self.next, first));
            }
            (self.next, self.within) = (first, None);
        }
        if let Some(within) = self.within
            && bodies.get(within.place, on_disk).is_some()
        {
            return Ok(());
        }
        self.within = None;
        let Some(block) = partition.find(self.next).next().filter(|_| self.next < partition.next()) else {
            return Err(Step::End);
        };
        // The messages before the block are lost.
        self.next = self.next.max(block.first);
        if block.damaged {
            self.next = block.end();
            return Err(Step::Block);
        }
        let requested = self.read_blocks_ahead(partition, on_disk, bodies);
        let Some(body) = bodies.get(block.place, on_disk) else {
            return Err(match on_disk && bodies.is_damaged(block.place) {
                true => Step::Damaged,
                false if requested => Step::Waits,
                false => Step::Starves,
            });
        };
        let mut byte = 0;
        for _ in block.first..self.next {
            byte = block::entry(body, byte).ok_or(Step::Damaged)?.1;
        }
        self.within = Some(BlockPosition { place: block.place, end: block.end(), at: byte });
        Ok(())
    }

    /// Requests the block of the position and those behind it. Returns whether the first of them is
    /// in memory or requested.
    fn read_blocks_ahead(&mut self, partition: &Partition, on_disk: bool, bodies: &mut Bodies) -> bool {
        for (number, block) in partition.find(self.next).take(1 + AHEAD_BLOCKS).enumerate() {
            let here = block.damaged || self.held.contains(&block.place);
            if here || bodies.is_known(block.place, on_disk) && !bodies.is_idle(block.place) {
                continue;
            }
            if bodies.is_full() {
                return number > 0;
            }
            bodies.fetch(block.place);
            self.held.push(block.place);
        }
        true
    }
}
