//! Operations of administrators on messages that no consumer holds: remove, peek, move, copy,
//! redrive.
//!
//! An operation runs over several turns, a bounded number of messages in each, and waits for the
//! disk in between. It is answered when the messages that it stored elsewhere are on disk. It begins
//! when this home has applied the joint groups in flight: another home may have answered for one of
//! them already, and its client expects to find the messages here.

use std::collections::HashMap;

use enmasse_amqp::codec::envelope::{Changes, envelope, put_changed};
use enmasse_amqp::codec::scan::{self, Elements, Scalar};
use enmasse_amqp::selector::{Selector, Subject};
use enmasse_amqp::types::{Fields, Outcome};
use enmasse_journal::log::JointId;
use enmasse_journal::queue::{self, Effect, Item, RecordLocation, Seq, Slice, State, Verdict};

use super::super::arena::Key;
use super::super::handover::HandoverReason;
use super::super::message::SettlementTarget;
use super::super::storage::{Completion, LaneId, Notice};
use super::super::{AddressKey, Destination, Filter, Links, Router};
use super::super::{Bodies, Queue};
use super::diversion::{DEAD_LETTER, ORIGIN};
use super::handover::Departing;

/// Messages examined in one turn.
const TURN_MESSAGES: usize = 1000;
/// Messages examined for one slice of an operation.
const ANSWER_MESSAGES: usize = 20_000;
/// Bytes of messages stored elsewhere in one turn.
const TURN_BYTES: u64 = 1 << 20;
/// Bytes of messages returned by one slice.
const ANSWER_BYTES: u64 = 1 << 20;
/// Messages of one operation that may be in flight to the log.
const COMMITS: usize = 1024;
/// Messages read ahead from the disk.
const READ_AHEAD: usize = 256;
/// Bytes read ahead; at least one message.
const READ_AHEAD_BYTES: u64 = 1 << 20;
/// Time after which a slice ends and reports its progress.
const ANSWER_MS: u64 = 3000;

/// The kind of an operation: what happens to matching messages.
#[derive(Clone, Debug)]
pub enum Work {
    /// removed
    Purge,
    /// returned; messages larger than this many bytes without their body
    Peek(u32),
    /// stored in another address and removed
    Move(Destination),
    /// stored in another address
    Copy(Destination),
    /// stored in the address where they failed, looked up by its name, and removed
    Redrive(HashMap<Box<str>, Destination>),
}

/// A slice of an operation.
#[derive(Clone, Debug)]
pub struct Operation {
    /// identifies its result
    pub id: u32,
    /// the address whose messages it applies to
    pub address: AddressKey,
    /// what it does
    pub work: Work,
    /// applies to matching messages only
    pub selector: Option<Selector>,
    /// applies to messages only whose `to` it accepts
    pub names: Option<Filter>,
    /// only counts the matching messages
    pub dry_run: bool,
    /// most messages that it applies to
    pub limit: usize,
    /// first number and end number of the slice: the continuation of the slice before
    pub rest: Option<(u64, u64)>,
    /// of a redrive of a single message: the encoded message that takes its place
    pub edited: Option<Vec<u8>>,
}

/// The result of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operated {
    /// messages that matched
    pub messages: u64,
    /// bytes of these messages
    pub bytes: u64,
    /// first number and end number of the next slice; `None`: the operation is complete
    pub rest: Option<(u64, u64)>,
    /// messages of [`Work::Peek`]
    pub found: Vec<ExaminedMessage>,
    /// why it ended early
    pub failed: Option<Failed>,
}

/// A message that an operation returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExaminedMessage {
    /// the queue's view of it
    pub item: Item,
    /// scheduled delivery time, milliseconds since 1970
    pub due: Option<u64>,
    /// the encoded message; `None`: it is larger than requested, or damaged
    pub message: Option<Vec<u8>>,
}

/// Why an operation ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// the address does not exist or does not store messages one by one
    Missing,
    /// the target address does not exist or does not store messages one by one
    NoTarget,
    /// the target address accepts no more messages
    Full(String),
    /// the log accepts no more records, or a read failed
    Log(String),
}

/// The operations of a shard.
#[derive(Debug, Default)]
pub(in crate::core) struct Operations {
    running: Vec<Running>,
    ended: Vec<(u32, Operated)>,
}

impl Operations {
    /// Whether one of them reads this address or may store messages in it.
    pub(in crate::core) fn involves(&self, key: AddressKey) -> bool {
        self.running.iter().any(|running| {
            let operation = &running.operation;
            operation.address == key
                || match &operation.work {
                    Work::Purge | Work::Peek(_) => false,
                    Work::Move(to) | Work::Copy(to) => to.key == key,
                    Work::Redrive(origins) => origins.values().any(|origin| origin.key == key),
                }
        })
    }

    /// Whether one of them has work in the next turn.
    pub(in crate::core) fn is_due(&self, compacting: bool) -> bool {
        self.running.iter().any(|running| running.is_due(compacting))
    }
}

#[derive(Debug)]
struct Running {
    operation: Operation,
    at: Key,
    from: Seq,
    until: Seq,
    done: Operated,
    looked: usize,
    /// joint groups of the space that were in flight when it was requested
    awaited: Vec<JointId>,
    /// messages in flight to the log
    open: usize,
    /// waits for bodies from the disk
    reading: bool,
    /// locations of the bodies that were read ahead
    ahead: Vec<RecordLocation>,
    /// messages were removed since the last fence
    removed: bool,
    /// the slice ends: no further message is examined
    over: bool,
    end_ms: u64,
}

impl Running {
    /// Whether it can continue. No message is moved during compaction: the record that stores it
    /// elsewhere also names the location where it is removed.
    fn is_due(&self, compacting: bool) -> bool {
        let waits = compacting && self.operation.removes_elsewhere();
        let begins = self.awaited.is_empty();
        if self.over { self.open == 0 } else { begins && !self.reading && !waits && self.open < COMMITS }
    }

    fn fail(&mut self, failed: Failed) {
        self.over = true;
        self.done.failed.get_or_insert(failed);
    }

    /// Whether a message matches. `budget` bounds the bytes stored elsewhere in this turn.
    fn verdict_on(&self, item: &Item, bodies: &Bodies, on_disk: bool, budget: &mut u64) -> Verdict {
        let operation = &self.operation;
        if operation.needs_body(item) {
            let Some(body) = bodies.get(item.place, on_disk) else {
                let damaged = on_disk && bodies.is_damaged(item.place);
                let wants_none = !operation.stores() && !operation.selects();
                return match damaged {
                    true if wants_none => Verdict::Yes,
                    true => Verdict::No,
                    false => Verdict::Unread,
                };
            };
            let subject = Subject::new(body).delivery_count(u32::from(item.failures));
            if operation.selector.as_ref().is_some_and(|selector| !selector.selects(&subject)) {
                return Verdict::No;
            }
            let is_named = |names: &Filter| scan::to(body).is_some_and(|to| names.matches(to));
            if operation.names.as_ref().is_some_and(|names| !is_named(names)) {
                return Verdict::No;
            }
            if operation.stores() && operation.target(body).is_none() {
                return Verdict::No;
            }
        }
        if operation.stores() && !operation.dry_run {
            if *budget == 0 {
                return Verdict::Unread;
            }
            *budget = budget.saturating_sub(u64::from(item.size_bytes));
        }
        Verdict::Yes
    }
}

impl Operation {
    const fn stores(&self) -> bool {
        matches!(self.work, Work::Move(_) | Work::Copy(_) | Work::Redrive(_))
    }

    /// Whether it removes messages with the records that store them elsewhere.
    const fn removes_elsewhere(&self) -> bool {
        matches!(self.work, Work::Move(_) | Work::Redrive(_)) && !self.dry_run
    }

    /// Whether it applies to some messages only, by what they contain.
    const fn selects(&self) -> bool {
        self.selector.is_some() || self.names.is_some()
    }

    fn needs_body(&self, item: &Item) -> bool {
        self.selects()
            || match self.work {
                Work::Purge => false,
                Work::Peek(bytes_max) => item.size_bytes <= bytes_max || item.state == State::Scheduled,
                Work::Move(_) | Work::Copy(_) => !self.dry_run,
                Work::Redrive(_) => true,
            }
    }

    /// The target address of a message.
    fn target(&self, body: &[u8]) -> Option<Destination> {
        match &self.work {
            Work::Purge | Work::Peek(_) => None,
            Work::Move(to) | Work::Copy(to) => Some(*to),
            Work::Redrive(origins) => origins.get(annotation_text(body, ORIGIN)?).copied(),
        }
    }

    fn slice(&self, from: Seq, until: Seq, share: usize) -> Slice {
        let operation = match self.work {
            _ if self.dry_run => queue::Operation::Look,
            Work::Purge => queue::Operation::Purge,
            Work::Move(_) | Work::Redrive(_) => queue::Operation::Move,
            Work::Peek(_) | Work::Copy(_) => queue::Operation::Look,
        };
        Slice { operation, from, until, share }
    }
}

impl Router {
    /// Starts a slice of an operation. [`Router::take_operated`] returns its result some turns
    /// later.
    pub fn operate(&mut self, operation: Operation) {
        let at = self.by_key.get(&operation.address).copied();
        let queue = at.and_then(|at| Some((at, self.addresses.find_queue(at)?)));
        let Some((at, queue)) = queue else {
            let done = Operated { failed: Some(Failed::Missing), ..Operated::default() };
            return self.operations.ended.push((operation.id, done));
        };
        let (from, until) = operation.rest.unwrap_or((0, queue.opened.messages.next_seq().0));
        let lane = LaneId::of_space(self.addresses[at].declared.space);
        self.operations.running.push(Running {
            at,
            awaited: self.storage.journal.lanes.ordered_parts(lane),
            from: Seq(from),
            until: Seq(until),
            done: Operated::default(),
            looked: 0,
            open: 0,
            reading: false,
            ahead: Vec::new(),
            removed: false,
            over: false,
            end_ms: self.now_ms.saturating_add(ANSWER_MS),
            operation,
        });
    }

    /// The results of ended slices, with their ids.
    pub fn take_operated(&mut self) -> Vec<(u32, Operated)> {
        std::mem::take(&mut self.operations.ended)
    }

    /// The answer of a joint group was applied: operations that wait for it begin.
    pub(in crate::core) fn joint_group_applied(&mut self, id: JointId) {
        self.operations.running.iter_mut().for_each(|running| running.awaited.retain(|awaited| *awaited != id));
    }

    /// Bodies were read: operations that wait for them continue.
    pub(in crate::core) fn operations_read(&mut self) {
        self.operations.running.iter_mut().for_each(|running| running.reading = false);
    }

    /// Runs every operation for its share of a turn.
    pub(in crate::core) fn run_operations(&mut self, links: &mut impl Links) {
        if self.operations.running.is_empty() {
            return;
        }
        let compacting = self.storage.journal.is_compacting();
        for mut running in std::mem::take(&mut self.operations.running) {
            if self.addresses.find_queue(running.at).is_none() {
                running.fail(Failed::Missing);
                running.open = 0;
            } else if !running.over && running.is_due(compacting) {
                self.continue_slice(&mut running, links);
            }
            if self.now_ms > running.end_ms && !running.over {
                running.over = true;
                running.done.rest = Some((running.from.0, running.until.0));
            }
            if running.over {
                self.release_read_ahead(&mut running);
                self.await_removals(&mut running);
            }
            if self.now_ms > running.end_ms.saturating_add(ANSWER_MS) && running.open > 0 {
                // The disk is slow or full, or a target address was deleted before its messages
                // were on disk.
                running.open = 0;
                if matches!(running.operation.work, Work::Purge) {
                    running.fail(Failed::Log("the disk has not confirmed the removals: purge again".to_owned()));
                }
            }
            if running.over && running.open == 0 {
                self.operations.ended.push((running.operation.id, running.done));
            } else {
                self.operations.running.push(running);
            }
        }
    }

    fn continue_slice(&mut self, running: &mut Running, links: &mut impl Links) {
        let (mut budget, mut looked) = (TURN_BYTES, 0);
        while !running.over && !running.reading && looked < TURN_MESSAGES && budget > 0 {
            let left = running.operation.limit.saturating_sub(running.done.messages as usize);
            let full = left == 0 || running.looked >= ANSWER_MESSAGES || found_bytes(&running.done) >= ANSWER_BYTES;
            if full {
                running.over = true;
                running.done.rest = Some((running.from.0, running.until.0));
                return;
            }
            let share = left.min(TURN_MESSAGES - looked);
            looked += self.examine(running, share, &mut budget, links);
        }
    }

    /// Examines up to `share` messages; returns the number examined.
    fn examine(&mut self, running: &mut Running, share: usize, budget: &mut u64, links: &mut impl Links) -> usize {
        let queue = self.addresses.queue_mut(running.at);
        let on_disk = queue.opened.log.is_some();
        let slice = running.operation.slice(running.from, running.until, share);
        let (bodies, mut matched, mut effects) = (&self.storage.bodies, Vec::new(), Vec::new());
        let matches = |item: &Item| {
            let verdict = running.verdict_on(item, bodies, on_disk, budget);
            if verdict == Verdict::Yes {
                matched.push(*item);
            }
            verdict
        };
        let progress = queue.opened.messages.administer(slice, matches, &mut |effect| effects.push(effect));
        running.looked += progress.looked;
        let unread = progress.unread.filter(|item| !bodies.is_known(item.place, on_disk));
        match progress.next {
            Some(next) => running.from = next,
            None => running.over = true,
        }
        running.done.messages += matched.len() as u64;
        running.done.bytes += matched.iter().map(|item| u64::from(item.size_bytes)).sum::<u64>();
        self.apply_to_matched(running, &matched, effects, links);
        if let Some(item) = unread.filter(|_| !running.over) {
            if self.storage.bodies.is_overdue(item.place) {
                let what = format!("message {} cannot be read from the disk: try again later", item.id.0);
                running.fail(Failed::Log(what));
            } else {
                self.read_ahead(running, item);
            }
        }
        progress.looked
    }

    fn apply_to_matched(
        &mut self,
        running: &mut Running,
        matched: &[Item],
        effects: Vec<Effect>,
        links: &mut impl Links,
    ) {
        let (at, dry_run) = (running.at, running.operation.dry_run);
        match running.operation.work {
            Work::Peek(bytes_max) => {
                let queue = self.addresses.queue(at);
                running
                    .done
                    .found
                    .extend(matched.iter().map(|item| show(queue, &self.storage.bodies, item, bytes_max)));
            }
            Work::Purge => {
                for effect in effects {
                    if let Effect::Remove { item, .. } = effect {
                        self.addresses.queue_mut(at).forget(&item, &mut self.storage);
                        running.removed = true;
                    }
                }
            }
            Work::Move(_) | Work::Copy(_) | Work::Redrive(_) if !dry_run => {
                matched.iter().for_each(|item| self.store_or_keep(running, item, links));
            }
            Work::Move(_) | Work::Copy(_) | Work::Redrive(_) => {}
        }
        self.process(at, links);
    }

    /// Stores a message in its target address. If that fails, the message remains where it is, and
    /// the slice stores no other.
    fn store_or_keep(&mut self, running: &mut Running, item: &Item, links: &mut impl Links) {
        let result = if running.done.failed.is_some() { Err(None) } else { self.store_elsewhere(running, item, links) };
        let Err(failed) = result else { return };
        if let Some(failed) = failed {
            running.fail(failed);
            running.done.rest = None;
        }
        running.done.messages -= 1;
        running.done.bytes -= u64::from(item.size_bytes);
        let queue = self.addresses.queue_mut(running.at);
        queue.opened.messages.stay(item.seq);
    }

    /// Whether producers to an address wait: it is full, or one of its subscriptions that are not
    /// link-scoped is.
    pub(in crate::core) fn blocks_producers(&self, at: Key) -> bool {
        let is_waited_for = |queue: &Queue| !queue.open && !queue.is_link_scoped();
        if let Some(topic) = self.addresses.find_topic(at) {
            let mut subscriptions = topic.subscriptions.iter();
            return !topic.is_open() && subscriptions.any(|key| is_waited_for(self.addresses.queue(*key)));
        }
        self.addresses.find_queue(at).is_some_and(is_waited_for)
    }

    fn store_elsewhere(
        &mut self,
        running: &mut Running,
        item: &Item,
        links: &mut impl Links,
    ) -> Result<(), Option<Failed>> {
        let takes = !matches!(running.operation.work, Work::Copy(_));
        let redrives = matches!(running.operation.work, Work::Redrive(_));
        let at = running.at;
        let queue = self.addresses.queue(at);
        let from_log = queue.opened.log;
        let body = self.storage.bodies.get(item.place, from_log.is_some()).unwrap_or_default();
        let Some(target) = running.operation.target(body) else { return Err(Some(Failed::NoTarget)) };
        let message = match &running.operation.edited {
            Some(edited) => replaced(item, edited, self.now_ms),
            None => encoded(queue, item, body, self.now_ms, redrives),
        };
        let reason = HandoverReason::Operation { expires: item.expires, due: due(item, body) };
        let settlement = SettlementTarget::Operation { id: running.operation.id, bytes: item.size_bytes };
        let from = takes.then_some((at, item.seq));
        let completion = Completion { settlement, address: at, from, ..Completion::NONE };
        if target.home != self.shard {
            let departing = Departing { at, removed: takes.then_some(item), completion };
            self.hand_over(departing, target, (reason, &message), links);
            running.open += 1;
            return Ok(());
        }
        let target = self.by_key.get(&target.key).copied();
        let Some(target) = target.filter(|target| self.may_be_moved_to(*target)) else {
            return Err(Some(Failed::NoTarget));
        };
        if self.blocks_producers(target) {
            return Err(Some(Failed::Full("the address is full: producers to it wait".to_owned())));
        }
        let Ok(envelope) = envelope(&message) else { return Err(None) };
        let mut head = self.head_of_envelope(&envelope, message.len(), None);
        reason.apply(&mut head);
        let audience = self.audience_of(target);
        let posted = self.post(&audience, &head, &message, None);
        let posted = posted.map_err(|refusal| Some(Failed::Full(refusal.to_string())))?;
        if posted.is_empty() {
            return Err(Some(Failed::Full("no subscription of the topic wants it".to_owned())));
        }
        let removed = from_log.filter(|_| takes).map(|log| (log, item));
        if self.store_posted(posted, &message, completion, removed, links) {
            running.open += 1;
        } else if takes {
            self.addresses.queue_mut(at).drop_diverted(item, &mut self.storage);
        }
        Ok(())
    }

    /// Delays the result of an operation until its removals are on disk, so that a reported removal
    /// survives a crash.
    fn await_removals(&mut self, running: &mut Running) {
        let queue = self.addresses.find_queue(running.at);
        let on_disk = queue.is_some_and(|queue| queue.opened.log.is_some());
        if std::mem::take(&mut running.removed) && on_disk {
            running.open += 1;
            self.raise_fence(running.at, Notice::Removed { operation: running.operation.id });
        }
    }

    /// The removals of an operation are on disk. `failed`: why they are not.
    pub(in crate::core) fn operation_removed(&mut self, id: u32, failed: Option<&str>) {
        let Some(running) = self.operations.running.iter_mut().find(|running| running.operation.id == id) else {
            return;
        };
        running.open = running.open.saturating_sub(1);
        if let Some(why) = failed {
            running.fail(Failed::Log(why.to_owned()));
        }
    }

    /// The log has stored or refused a message of an operation.
    pub(in crate::core) fn operation_stored(&mut self, id: u32, bytes: u32, outcome: &Outcome) {
        let Some(running) = self.operations.running.iter_mut().find(|running| running.operation.id == id) else {
            return;
        };
        running.open = running.open.saturating_sub(1);
        if let Outcome::Rejected(error) = outcome {
            running.done.messages = running.done.messages.saturating_sub(1);
            running.done.bytes = running.done.bytes.saturating_sub(u64::from(bytes));
            let text = error.as_ref().and_then(|error| error.description.clone());
            running.fail(Failed::Log(text.unwrap_or_default()));
        }
    }

    /// Requests the body of a message and of those behind it.
    fn read_ahead(&mut self, running: &mut Running, first: Item) {
        let queue = self.addresses.queue(running.at);
        let on_disk = queue.opened.log.is_some();
        let (mut left, mut ahead) = (READ_AHEAD_BYTES, Vec::new());
        running.ahead.drain(..).for_each(|place| self.storage.bodies.release_body(place));
        for item in queue.opened.messages.iter(first.seq).take(READ_AHEAD) {
            let bytes = u64::from(item.size_bytes);
            let is_enough = bytes > left || item.seq >= running.until || self.storage.bodies.is_full();
            if item.seq != first.seq && is_enough {
                break;
            }
            left = left.saturating_sub(bytes);
            if running.operation.needs_body(&item) && !self.storage.bodies.is_known(item.place, on_disk) {
                self.storage.bodies.fetch(item.place);
                ahead.push(item.place);
            }
        }
        (running.reading, running.ahead) = (true, ahead);
    }

    fn release_read_ahead(&mut self, running: &mut Running) {
        running.ahead.drain(..).for_each(|place| self.storage.bodies.release_body(place));
    }
}

fn found_bytes(done: &Operated) -> u64 {
    done.found.iter().map(|found| found.message.as_ref().map_or(64, Vec::len) as u64).sum()
}

/// The encoded message as a consumer would receive it.
fn encoded(queue: &Queue, item: &Item, body: &[u8], now_ms: u64, redriven: bool) -> Vec<u8> {
    let left = item.expires.map(|at| u32::try_from(at.saturating_sub(now_ms)).unwrap_or(u32::MAX));
    let annotations: Option<&Fields> = queue.changed.get(&item.seq.0).map(|changed| &changed.annotations);
    let delivery_count = if redriven { 0 } else { u32::from(item.failures) };
    let mut changed = Vec::with_capacity(body.len() + 64);
    // A redriven message must not carry dead-letter annotations.
    let without: &[&str] = if redriven { &DEAD_LETTER } else { &[] };
    put_changed(&mut changed, body, &Changes { delivery_count, ttl_ms: left, annotations, without });
    changed
}

/// An edited message in place of a stored one, whose time to live continues.
fn replaced(item: &Item, edited: &[u8], now_ms: u64) -> Vec<u8> {
    let left = item.expires.map(|at| u32::try_from(at.saturating_sub(now_ms)).unwrap_or(u32::MAX));
    let mut changed = Vec::with_capacity(edited.len() + 64);
    let changes = Changes { delivery_count: 0, ttl_ms: left, annotations: None, without: &DEAD_LETTER };
    put_changed(&mut changed, edited, &changes);
    changed
}

fn show(queue: &Queue, bodies: &Bodies, item: &Item, bytes_max: u32) -> ExaminedMessage {
    let body = bodies.get(item.place, queue.opened.log.is_some());
    let is_shown = item.size_bytes <= bytes_max && body.is_some();
    let body = body.unwrap_or_default();
    let message = is_shown.then(|| {
        let mut shown = Vec::with_capacity(body.len() + 64);
        let delivery_count = u32::from(item.failures);
        let annotations = queue.changed.get(&item.seq.0).map(|changed| &changed.annotations);
        let ttl_ms = envelope(body).ok().and_then(|envelope| envelope.header.ttl);
        put_changed(&mut shown, body, &Changes { delivery_count, ttl_ms, annotations, without: &[] });
        shown
    });
    ExaminedMessage { item: *item, due: due(item, body), message }
}

/// The value of a message annotation, if it is a string or a symbol.
fn annotation_text<'a>(message: &'a [u8], name: &str) -> Option<&'a str> {
    let mut elements = Elements::of_map(scan::head(message).ok()?.message_annotations?).ok()?;
    while elements.left() > 0 {
        if elements.key().ok()? != name.as_bytes() {
            elements.skip().ok()?;
        } else if let Scalar::Text(text) | Scalar::Symbol(text) = elements.scalar().ok()? {
            return Some(text);
        }
    }
    None
}

/// The delivery time of a scheduled message.
fn due(item: &Item, body: &[u8]) -> Option<u64> {
    let envelope = envelope(body).ok().filter(|_| item.state == State::Scheduled)?;
    let at = envelope.delivery_time_ms.and_then(|at| u64::try_from(at).ok());
    at.or_else(|| Some(item.enqueued.saturating_add(envelope.delivery_delay_ms?)))
}
