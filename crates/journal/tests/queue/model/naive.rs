//! A queue as one would write it without a thought for speed: a list of messages, searched from the
//! start each time.

use std::collections::HashMap;

use enmasse_journal::queue::{
    Cause, Consume, ConsumerOutcome, Full, Grouping, Head, Record, Settings, Sharing, State, Target,
};

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) seq: u64,
    pub(crate) id: u64,
    pub(crate) record: Record,
    pub(crate) state: State,
    /// when it is available, while scheduled or delayed
    pub(crate) due: u64,
    pub(crate) holder: usize,
    unseen: bool,
    undeliverable_here: Vec<u64>,
    key: Option<u128>,
    group: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Consumer {
    pub(crate) consume: Consume,
    pub(crate) attached: bool,
    pub(crate) credit: bool,
    cursor: [u64; 10],
    /// committed after the cursor had passed
    late: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reported {
    Removed(u64, u8),
    Diverted(u64, u8, u8),
    Retried(u64, u16, Option<u64>),
}

#[derive(Debug, Default)]
pub(crate) struct Naive {
    pub(crate) settings: Settings,
    pub(crate) next: u64,
    pub(crate) messages: Vec<Message>,
    /// never shortened: a consumer is named by its place
    pub(crate) consumers: Vec<Consumer>,
    pub(crate) active: Option<usize>,
    holders: HashMap<u64, usize>,
    newest: HashMap<u128, u64>,
    pub(crate) reported: Vec<Reported>,
    pub(crate) removed: [u64; Cause::COUNT],
    pub(crate) diverted: [u64; Cause::COUNT],
}

/// Whether a selecting consumer wants a message: each its own third.
pub(crate) fn wants(key: u64, id: u64) -> bool {
    id % 3 == key % 3
}

impl Naive {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    pub(crate) fn get(&mut self, seq: u64) -> Option<&mut Message> {
        self.messages.iter_mut().find(|message| message.seq == seq)
    }

    pub(crate) fn in_state(&self, state: State) -> Vec<u64> {
        self.messages.iter().filter(|message| message.state == state).map(|message| message.seq).collect()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.messages.iter().map(|message| u64::from(message.record.size_bytes)).sum()
    }

    pub(crate) fn is_full(&self, head: &Head) -> bool {
        let limits = &self.settings.limits;
        let size_bytes = u64::from(head.size_bytes);
        let replaced = self.replaced(head).map(|message| u64::from(message.record.size_bytes));
        let too_many = replaced.is_none() && self.messages.len() as u64 >= limits.messages;
        let over = self.bytes() + size_bytes - replaced.unwrap_or(0) > limits.bytes;
        match self.settings.full {
            Full::Block => false,
            Full::DropOldest => size_bytes > limits.bytes,
            Full::Reject => too_many || over || size_bytes > limits.bytes,
            // One that is alone may be larger.
            Full::Strict => too_many || over && !self.messages.is_empty(),
        }
    }

    /// The message that leaves a last-value queue when a new one arrives.
    fn replaced(&self, head: &Head) -> Option<&Message> {
        let key = head.key.filter(|_| self.settings.last_value && head.due.is_none())?;
        let newest = self.newest.get(&key)?;
        let waits = |message: &&Message| matches!(message.state, State::Waiting | State::Delayed);
        self.messages.iter().find(|message| message.seq == *newest).filter(waits)
    }

    pub(crate) fn offered(&mut self, record: Record) {
        let seq = self.next;
        self.next += 1;
        self.add(seq, record);
    }

    fn add(&mut self, seq: u64, record: Record) {
        let group = record.group.map(|group| group.digest);
        self.messages.push(Message {
            seq,
            id: seq,
            record,
            state: State::Offered,
            due: record.due.unwrap_or(0),
            holder: usize::MAX,
            unseen: record.due.is_some(),
            undeliverable_here: Vec::new(),
            key: record.key,
            group: group.filter(|_| self.settings.grouping != Grouping::Off),
        });
    }

    pub(crate) fn commit(&mut self, seq: u64) {
        let message = self.get(seq).expect("an offered message");
        message.unseen = message.due != 0;
        if message.unseen {
            message.state = State::Scheduled;
        } else {
            message.state = State::Waiting;
            let priority = message.record.priority.get() as usize;
            for one in self.consumers.iter_mut().filter(|one| seq < one.cursor[priority]) {
                one.late.push(seq);
            }
            self.make_room(seq);
        }
    }

    pub(crate) fn stay(&mut self, seq: u64) {
        let message = self.get(seq).expect("it was leaving");
        message.state = match (message.due, message.unseen) {
            (0, _) => State::Waiting,
            (_, true) => State::Scheduled,
            _ => State::Delayed,
        };
    }

    pub(crate) fn forget(&mut self, seq: u64) {
        self.messages.retain(|message| message.seq != seq);
        self.newest.retain(|_, newest| *newest != seq);
        let used: Vec<u64> = self.messages.iter().filter_map(|message| message.group).collect();
        let sticky = self.settings.grouping == Grouping::Sticky;
        let consumers = &self.consumers;
        self.holders.retain(|group, holder| used.contains(group) || sticky && consumers[*holder].attached);
    }

    fn remove(&mut self, seq: u64, cause: Cause) {
        let id = self.get(seq).expect("it is here").id;
        self.forget(seq);
        self.reported.push(Reported::Removed(id, cause as u8));
        self.removed[cause as usize] += 1;
    }

    pub(crate) fn divert(&mut self, seq: u64, to: Target, cause: Cause) {
        let message = self.get(seq).expect("it is here");
        message.state = State::Leaving;
        let id = message.id;
        self.reported.push(Reported::Diverted(id, to as u8, cause as u8));
        self.diverted[cause as usize] += 1;
    }

    fn is_outdated(&mut self, seq: u64) -> bool {
        let Some(message) = self.get(seq).cloned() else { return false };
        let newest = message.key.and_then(|key| self.newest.get(&key));
        newest.is_some_and(|newest| *newest != seq)
    }

    fn make_room(&mut self, seq: u64) {
        if let Some(key) = self.get(seq).and_then(|message| message.key).filter(|_| self.settings.last_value) {
            let newest = *self.newest.get(&key).unwrap_or(&seq);
            self.newest.insert(key, newest.max(seq));
            let older = newest.min(seq);
            let waits = |message: &mut Message| matches!(message.state, State::Waiting | State::Delayed);
            if newest != seq && self.get(older).is_some_and(waits) {
                self.remove(older, Cause::Replaced);
            }
        }
        while self.settings.full == Full::DropOldest && self.is_overrun() {
            let waiting = self.in_state(State::Waiting);
            let Some(oldest) = waiting.iter().min().filter(|_| waiting.len() > 1) else { return };
            self.remove(*oldest, Cause::Overrun);
        }
    }

    fn is_overrun(&self) -> bool {
        let stored: Vec<u64> = self
            .messages
            .iter()
            .filter(|message| message.state != State::Offered)
            .map(|message| u64::from(message.record.size_bytes))
            .collect();
        let limits = &self.settings.limits;
        stored.len() as u64 > limits.messages || stored.iter().sum::<u64>() > limits.bytes
    }

    fn expire(&mut self, seq: u64) {
        if self.settings.expiry {
            self.divert(seq, Target::Expiry, Cause::Expired);
        } else {
            self.remove(seq, Cause::Expired);
        }
    }

    fn is_expired(message: &Message, now: u64) -> bool {
        message.record.expires.is_some_and(|at| at <= now)
    }

    pub(crate) fn timeout(&mut self, now: u64) {
        let mortal = [State::Waiting, State::Scheduled, State::Delayed];
        let expired: Vec<u64> = self
            .messages
            .iter()
            .filter(|message| mortal.contains(&message.state) && Self::is_expired(message, now))
            .map(|message| message.seq)
            .collect();
        expired.into_iter().for_each(|seq| self.expire(seq));
        let mut due: Vec<(u64, u64)> = self
            .messages
            .iter()
            .filter(|message| message.due != 0 && message.due <= now)
            .map(|message| (message.due, message.seq))
            .collect();
        due.sort_unstable();
        for (_, seq) in due {
            let next = self.next;
            let Some(message) = self.get(seq) else { continue };
            if message.state == State::Leaving {
                continue;
            }
            message.due = 0;
            match message.state {
                State::Scheduled => {
                    message.unseen = false;
                    message.state = State::Waiting;
                    if message.seq + 1 != next {
                        message.seq = next;
                        self.next += 1;
                        self.make_room(next);
                    } else {
                        self.make_room(seq);
                    }
                }
                State::Delayed => message.state = State::Waiting,
                _ => {}
            }
        }
    }

    pub(crate) fn attach(&mut self, consume: Consume) {
        self.consumers.push(Consumer { consume, attached: true, credit: false, cursor: [0; 10], late: Vec::new() });
        self.choose_active();
    }

    pub(crate) fn detach(&mut self, consumer: usize) {
        self.consumers[consumer].attached = false;
        self.consumers[consumer].credit = false;
        self.choose_active();
    }

    pub(crate) fn held_by(&self, consumer: usize) -> Vec<u64> {
        let held = |message: &&Message| matches!(message.state, State::Acquired | State::Retiring);
        let mine = self.messages.iter().filter(held).filter(|message| message.holder == consumer);
        mine.map(|message| message.seq).collect()
    }

    fn yields_when_idle(&self, consumer: usize) -> bool {
        let priority = self.consumers[consumer].consume.priority;
        self.consumers.iter().any(|one| one.attached && !one.consume.browses && one.consume.priority > priority)
    }

    fn choose_active(&mut self) {
        if let Some(active) = self.active.filter(|active| self.consumers[*active].attached)
            && (!self.held_by(active).is_empty() || !self.yields_when_idle(active))
        {
            return;
        }
        let held = |message: &&Message| matches!(message.state, State::Acquired | State::Retiring);
        if self.messages.iter().filter(held).any(|message| !self.consumers[message.holder].attached) {
            self.active = self.active.filter(|active| self.consumers[*active].attached);
            return;
        }
        let takers = self.consumers.iter().enumerate().filter(|(_, one)| one.attached && !one.consume.browses);
        let rank = |at: usize, one: &Consumer| (!self.held_by(at).is_empty(), one.consume.priority, usize::MAX - at);
        self.active = takers.max_by_key(|(at, one)| rank(*at, one)).map(|(at, _)| at);
    }

    /// Whether a consumer may have anything at all, as far as the rule of the single active one
    /// goes.
    pub(crate) fn is_let(&self, consumer: usize) -> bool {
        self.settings.sharing == Sharing::Competing
            || self.consumers[consumer].consume.browses
            || self.active == Some(consumer) && !self.yields_when_idle(consumer)
    }

    fn may_have(&self, consumer: usize, message: &Message) -> bool {
        let consume = &self.consumers[consumer].consume;
        if consume.selects && !wants(consume.key, message.id) {
            return false;
        }
        consume.browses || !message.undeliverable_here.contains(&consume.name) && self.group_lets(consumer, message)
    }

    fn group_lets(&self, consumer: usize, message: &Message) -> bool {
        let Some(group) = message.group else { return true };
        let per_key = self.settings.grouping == Grouping::PerKey;
        let of_group = |state: State| {
            self.messages.iter().filter(move |other| other.group == Some(group) && other.state == state).count()
        };
        if per_key && of_group(State::Delayed) > 0 {
            return false;
        }
        match self.holders.get(&group) {
            None => true,
            Some(holder) if *holder == consumer => true,
            Some(holder) if self.consumers[*holder].attached => false,
            Some(_) => of_group(State::Acquired) + of_group(State::Retiring) == 0,
        }
    }

    /// The message a consumer gets next.
    pub(crate) fn best(&self, now: u64, consumer: usize) -> Option<u64> {
        let one = &self.consumers[consumer];
        let candidates = self.messages.iter().filter(|message| {
            message.state == State::Waiting
                && !Self::is_expired(message, now)
                && self.may_have(consumer, message)
                && (!one.consume.browses
                    || one.late.contains(&message.seq)
                    || message.seq >= one.cursor[message.record.priority.get() as usize])
        });
        let first = candidates.min_by_key(|message| (9 - message.record.priority.get(), message.seq))?;
        Some(first.seq)
    }

    /// A consumer got that message, or examined it; a browser that received nothing has seen all.
    pub(crate) fn give(&mut self, consumer: usize, seq: Option<u64>) {
        if self.consumers[consumer].consume.browses {
            return self.browse(consumer, seq);
        }
        let per_key = self.settings.grouping == Grouping::PerKey;
        let Some(message) = seq.and_then(|seq| self.get(seq)) else { return };
        message.state = State::Acquired;
        message.holder = consumer;
        let closes = message.record.group.is_some_and(|group| group.sequence == u32::MAX);
        if let Some(group) = message.group {
            if closes && !per_key {
                self.holders.remove(&group);
            } else {
                self.holders.insert(group, consumer);
            }
        }
    }

    fn browse(&mut self, consumer: usize, seq: Option<u64>) {
        let order = |message: &Message| (9 - message.record.priority.get(), message.seq);
        let got = seq.and_then(|seq| self.get(seq)).map(|message| order(message));
        let passed: Vec<(u8, u64, bool)> = self
            .messages
            .iter()
            .filter(|message| got.is_none_or(|got| order(message) <= got))
            .map(|message| (message.record.priority.get(), message.seq, message.state == State::Waiting))
            .collect();
        let one = &mut self.consumers[consumer];
        for (priority, at, shown) in passed {
            one.late.retain(|late| *late != at);
            let cursor = &mut one.cursor[priority as usize];
            *cursor = if shown { (at + 1).max(*cursor) } else { *cursor };
        }
    }

    pub(crate) fn settle(&mut self, now: u64, seq: u64, outcome: ConsumerOutcome) {
        let message = self.get(seq).expect("it is held");
        let (holder, group) = (message.holder, message.group);
        // Whatever its outcome, its delivery ends first.
        message.state = State::Waiting;
        if let Some(group) = group.filter(|_| self.settings.grouping == Grouping::PerKey) {
            let held = |other: &Message| {
                other.group == Some(group) && matches!(other.state, State::Acquired | State::Retiring)
            };
            if !self.messages.iter().any(held) {
                self.holders.remove(&group);
            }
        }
        self.choose_active();
        match outcome {
            ConsumerOutcome::Accepted => self.remove(seq, Cause::Accepted),
            ConsumerOutcome::Released => self.put_back(now, seq),
            ConsumerOutcome::Modified { failed, undeliverable_here } => {
                let consumer = &self.consumers[holder];
                if undeliverable_here && consumer.attached {
                    let name = consumer.consume.name;
                    self.get(seq).expect("it is here").undeliverable_here.push(name);
                }
                if failed { self.fail(now, seq) } else { self.put_back(now, seq) }
            }
            ConsumerOutcome::Rejected if self.settings.dead_letter && !self.settings.reject_is_failure => {
                self.divert(seq, Target::DeadLetter, Cause::Rejected);
            }
            ConsumerOutcome::Rejected => self.fail(now, seq),
        }
    }

    fn put_back(&mut self, now: u64, seq: u64) {
        if self.get(seq).is_some_and(|message| Self::is_expired(message, now)) {
            self.expire(seq);
        } else if self.is_outdated(seq) {
            self.remove(seq, Cause::Replaced);
        }
    }

    fn fail(&mut self, now: u64, seq: u64) {
        let redelivery = self.settings.redelivery;
        let message = self.get(seq).expect("it is here");
        message.record.failures += 1;
        let failures = message.record.failures;
        if redelivery.is_exhausted(failures) {
            if self.settings.dead_letter {
                self.divert(seq, Target::DeadLetter, Cause::Attempts);
            } else {
                self.remove(seq, Cause::Attempts);
            }
            return;
        }
        self.put_back(now, seq);
        let delay = redelivery.delay_after(failures);
        let Some(message) = self.get(seq).filter(|message| message.state == State::Waiting) else { return };
        let due = (delay > 0).then(|| now + delay);
        if let Some(due) = due {
            message.state = State::Delayed;
            message.due = due;
        }
        let id = message.id;
        self.reported.push(Reported::Retried(id, failures, due));
    }

    pub(crate) fn administer(&mut self, moves: bool, matches: impl Fn(u64) -> bool) {
        let free = [State::Waiting, State::Scheduled, State::Delayed];
        let meant: Vec<u64> = self
            .messages
            .iter()
            .filter(|message| free.contains(&message.state) && matches(message.id))
            .map(|message| message.seq)
            .collect();
        for seq in meant {
            if moves {
                self.divert(seq, Target::Elsewhere, Cause::Moved);
            } else {
                self.remove(seq, Cause::Purged);
            }
        }
    }

    /// Everything that was committed waits again, under the number that it was offered under.
    pub(crate) fn restart(&mut self) {
        (self.removed, self.diverted) = Default::default();
        let mut kept = std::mem::take(&mut self.messages);
        kept.retain(|message| message.state != State::Offered);
        kept.sort_by_key(|message| message.id);
        self.consumers.iter_mut().for_each(|one| (one.attached, one.credit) = (false, false));
        self.holders.clear();
        self.newest.clear();
        self.active = None;
        for message in kept {
            self.add(message.id, message.record);
            self.commit(message.id);
        }
    }
}
