//! Queues, subscriptions and dead letters (`docs/contracts.md` 8): an accepted message is delivered
//! until a consumer accepts it, becomes a dead letter only after the failed attempts that its
//! address allows, and is never seen again after that.
//!
//! A client does not know when its frames have arrived. So the ledger bounds: of each message the
//! *most* attempts that may have failed by the contract's table of attempts, and whether a
//! consumer's outcome has *certainly* arrived, and is certainly on disk. A delivery beyond those
//! bounds is a violation.

use std::collections::BTreeSet;

use enmasse_router::core::AddressKind;

use super::{
    DeliveryReference, Ledger, LinkNumber, LinkState, MessageNumber, OutcomeKind, Progress, QueueNumber, Received,
    TransactionNumber,
};
use crate::address::{DEAD_LETTERS, Terms};
use crate::message::Content;

/// The stored source of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// a queue or a declared subscription
    Queue(String),
    /// a dead-letter or expiry address
    DeadLetters(String),
    /// a subscription that the link created; `outlives`: later messages are kept for it after the
    /// link has ended
    Subscription { name: String, outlives: bool },
    /// a stream, from its first offset
    Stream(String),
}

/// The view that clients have of a queue.
#[derive(Debug)]
pub(super) struct Queue {
    space: usize,
    name: String,
    terms: Terms,
    /// of a subscription: messages from this one on are kept for it
    since: Option<MessageNumber>,
    /// links that were lost while their oldest unsettled delivery was in flight, which may have
    /// been any message sent before this one
    unknown_attempts: Vec<MessageNumber>,
    /// links that were ever attached to it
    consumers: u32,
    /// messages may have returned from a consumer, so the order is no longer checked
    disturbed: bool,
}

/// The view that clients have of a message in a queue.
#[derive(Debug, Default)]
pub(super) struct QueuedMessage {
    /// the most attempts that may have failed, but for those of unknown messages
    failures: u32,
    delivered: bool,
    holder: Option<LinkNumber>,
    settled: Option<Settled>,
    rejected: bool,
    /// the removal is certainly on disk
    removed: bool,
    /// the queue in which it was received as a dead letter
    dead: Option<QueueNumber>,
}

/// The last outcome of a consumer.
#[derive(Clone, Copy, Debug)]
struct Settled {
    link: LinkNumber,
    outcome: OutcomeKind,
    transaction: Option<TransactionNumber>,
    /// the node was killed since, so the outcome may be lost
    may_be_forgotten: bool,
}

/// A delivery to a consumer of a queue.
#[derive(Debug)]
pub(super) struct Delivery {
    message: MessageNumber,
    queue: QueueNumber,
    outcome: Option<OutcomeKind>,
}

impl Ledger {
    /// The number of a queue, which is created at its first use.
    fn queue(&mut self, space: usize, name: &str) -> QueueNumber {
        if let Some(number) = self.queue_numbers.get(&(space, name.to_owned())) {
            return *number;
        }
        let of = name.split_once("::").map_or(name, |(topic, _)| topic);
        let terms = self.terms.get(of).copied().unwrap_or_default();
        let declared = self.terms.contains_key(name);
        let queue = Queue {
            space,
            name: name.to_owned(),
            terms,
            since: declared.then_some(0),
            unknown_attempts: Vec::new(),
            consumers: 0,
            disturbed: false,
        };
        self.queues.push(queue);
        self.queue_numbers.insert((space, name.to_owned()), self.queues.len() - 1);
        self.queues.len() - 1
    }

    /// Adds the declared queues and subscriptions.
    pub(crate) fn declare(&mut self, spaces: usize) {
        let names: Vec<String> = self.terms.keys().cloned().collect();
        for space in 0..spaces {
            for name in &names {
                self.queue(space, name);
            }
        }
    }

    /// Records a link attached to a queue or subscription. With several consumers, one may receive
    /// a message that another has returned.
    pub(super) fn consumes_from(&mut self, space: usize, name: &str) {
        let queue = self.queue(space, name);
        self.queues[queue].consumers += 1;
        self.queues[queue].disturbed |= self.queues[queue].consumers > 1;
    }

    /// Records a link attached to a subscription, which gets later messages.
    pub(super) fn subscribed(&mut self, space: usize, name: &str) {
        let (queue, next) = (self.queue(space, name), self.messages.len());
        self.queues[queue].since.get_or_insert(next);
    }

    /// Records the end of a subscription, which gets no further messages.
    pub(crate) fn unsubscribed(&mut self, space: usize, name: &str) {
        let queue = self.queue(space, name);
        self.queues[queue].since = None;
    }

    /// Records a message without sections to an address: one per address at a time, because its
    /// content does not identify it.
    pub(crate) fn sends_empty(&mut self, space: usize, name: &str, number: MessageNumber) {
        let queue = self.queue(space, name);
        self.empty.insert(queue, number);
    }

    /// Whether a message without sections may be sent to an address.
    pub(crate) fn may_send_empty(&mut self, space: usize, name: &str) -> bool {
        let queue = self.queue(space, name);
        !self.empty.contains_key(&queue)
    }

    /// The message without sections that a link has received.
    pub(super) fn empty_message_at(&mut self, to: LinkNumber, content: &Content) -> Option<MessageNumber> {
        let space = self.links[to].route.space;
        let name = match self.links[to].source.as_ref()? {
            Source::Queue(name) | Source::Subscription { name, .. } | Source::Stream(name) => name.clone(),
            Source::DeadLetters(_) => content.dead_letter()?.0.to_owned(),
        };
        let address = name.split_once("::").map_or(name.as_str(), |(topic, _)| topic);
        let queue = self.queue(space, address);
        self.empty.get(&queue).copied()
    }

    /// The most attempts of a message that may have failed.
    pub(super) fn attempts_bound(&self, number: MessageNumber, queue: QueueNumber) -> u32 {
        let unknown = self.queues[queue].unknown_attempts.iter().filter(|sent| **sent > number).count() as u32;
        unknown + self.queued.get(&(number, queue)).map_or(0, |queued| queued.failures)
    }

    /// Records a message that a consumer received from a queue, a subscription or a dead-letter
    /// address.
    pub(super) fn received_from_queue(
        &mut self,
        to: LinkNumber,
        number: MessageNumber,
        source: &Source,
        content: &Content,
        settled: bool,
    ) {
        let space = self.links[to].route.space;
        let mut found = Vec::new();
        let (queue, origin) = match source {
            Source::Queue(name) | Source::Subscription { name, .. } | Source::Stream(name) => {
                (self.queue(space, name), name.clone())
            }
            Source::DeadLetters(name) => {
                let Some((origin, cause)) = content.dead_letter() else {
                    return self.violation(format!("message {number} at link {to}: a dead letter without a cause"));
                };
                if origin.ends_with("::") {
                    // A live subscription cannot be identified: each may dead-letter the same
                    // message.
                    let wrong =
                        self.check_content(to, number, origin, content).and_then(|()| self.check_visible(number));
                    return wrong.err().map_or((), |what| self.violation(format!("dead letter {number}: {what}")));
                }
                let (from, queue) = (self.queue(space, origin), self.queue(space, &format!("{name}<{origin}")));
                found.extend(self.check_dead_letter(number, from, cause).err());
                self.queued.entry((number, from)).or_default().dead = Some(queue);
                self.stats.dead_letters += 1;
                (queue, origin.to_owned())
            }
        };
        found.extend(self.check_content(to, number, &origin, content).err());
        if settled {
            found.push("settled, though the link asked for unsettled deliveries".to_owned());
        }
        found.extend(self.check_visible(number).err());
        found.extend(self.explain_delivery(number, queue, false).err());
        let is_dead_letter = matches!(source, Source::DeadLetters(_));
        let bound = self.attempts_bound(number, queue);
        if !is_dead_letter && content.delivery_count > bound {
            found.push(format!(
                "its header counts {} failed attempts, {bound} at most have failed",
                content.delivery_count
            ));
        }
        if !is_dead_letter {
            found.extend(self.check_order(to, number, queue).err());
        }
        let queued = self.queued.entry((number, queue)).or_default();
        self.stats.redelivered += u64::from(queued.delivered);
        (queued.delivered, queued.holder, queued.settled) = (true, Some(to), None);
        self.links[to].deliveries.push(Delivery { message: number, queue, outcome: None });
        for what in found {
            let name = &self.queues[queue].name;
            self.violation(format!("message {number} of {name} at link {to}: {what}"));
        }
    }

    /// Checks that the message is the one that was sent, to this address, and was not refused.
    pub(super) fn check_content(
        &self,
        to: LinkNumber,
        number: MessageNumber,
        origin: &str,
        content: &Content,
    ) -> Result<(), String> {
        let (message, link) = (&self.messages[number], &self.links[to]);
        let address = match message.route.kind {
            Some(AddressKind::Topic) => origin.split_once("::").map_or(origin, |(topic, _)| topic),
            _ => origin,
        };
        if link.route.space != message.route.space {
            Err("crossed into another address space".to_owned())
        } else if message.route.name != address {
            Err(format!("it was sent to {}", message.route.name))
        } else if message.progress != Progress::Sent {
            Err("it was not sent in full".to_owned())
        } else if matches!(message.outcome, Some(OutcomeKind::Refused | OutcomeKind::Full)) {
            Err("its sender was notified of a refusal".to_owned())
        } else if !content.is_same(&message.bytes) {
            Err("not the bare message that was sent".to_owned())
        } else {
            Ok(())
        }
    }

    /// Checks whether a message may be delivered, for the first time or again. `dead`: as a dead
    /// letter.
    fn explain_delivery(&mut self, number: MessageNumber, queue: QueueNumber, dead: bool) -> Result<(), String> {
        let Some(queued) = self.queued.get(&(number, queue)) else { return Ok(()) };
        if queued.removed {
            return Err("it comes again after its removal was certainly on disk".to_owned());
        }
        if queued.dead.is_some() && !dead {
            return Err("it comes again after it was seen as a dead letter".to_owned());
        }
        if let Some(holder) = queued.holder.filter(|holder| self.links[*holder].is_attached()) {
            return Err(format!("link {holder} holds it"));
        }
        let Some(settled) = queued.settled else { return Ok(()) };
        let moves = self.queues[queue].terms.dead_letter;
        let final_outcome = match settled.outcome {
            OutcomeKind::Accepted => true,
            OutcomeKind::Rejected => moves && !dead,
            _ => false,
        };
        if !final_outcome {
            return Ok(());
        }
        if let Some(transaction) = settled.transaction {
            return self.explain_return_of_retired(transaction);
        }
        let link = settled.link;
        match self.links[link].state {
            LinkState::Attached | LinkState::Detaching => {
                Err(format!("link {link} has settled it as {:?}", settled.outcome))
            }
            LinkState::Detached if !settled.may_be_forgotten => {
                Err(format!("link {link} had settled it as {:?} before it was detached", settled.outcome))
            }
            LinkState::Detached | LinkState::Lost => Ok(()),
        }
    }

    /// Checks a dead letter against the settings of its original address.
    pub(super) fn check_dead_letter(
        &mut self,
        number: MessageNumber,
        from: QueueNumber,
        cause: &str,
    ) -> Result<(), String> {
        let first = self.queued.get(&(number, from)).is_none_or(|queued| queued.dead.is_none());
        if !first {
            return Ok(());
        }
        self.explain_delivery(number, from, true)?;
        let (terms, bound) = (self.queues[from].terms, self.attempts_bound(number, from));
        let rejected = self.queued.get(&(number, from)).is_some_and(|queued| queued.rejected);
        let age_us = self.now.as_micros() - self.messages[number].sent_at.as_micros();
        match cause {
            "rejected" if terms.dead_letter && rejected => Ok(()),
            "maximum-delivery-attempts" if terms.dead_letter && bound >= terms.attempts => Ok(()),
            "expired" if terms.ttl_ms.is_some_and(|ttl| age_us + 1_000 >= ttl * 1_000) => Ok(()),
            _ => Err(format!(
                "a dead letter because of {cause}, after {age_us} us, rejected: {rejected}, and at most {bound} failed \
                 attempts of {}",
                terms.attempts
            )),
        }
    }

    /// Checks that first deliveries on one link arrive in the order of their producer, unless a
    /// message may have been returned.
    fn check_order(&mut self, to: LinkNumber, number: MessageNumber, queue: QueueNumber) -> Result<(), String> {
        let again = self.queued.get(&(number, queue)).is_some_and(|queued| queued.delivered);
        let message = &self.messages[number];
        if again || self.queues[queue].disturbed || message.transaction.is_some() {
            return Ok(());
        }
        let key = (message.from, self.queues[queue].name.clone());
        match self.links[to].last.insert(key, number) {
            Some(last) if last > number => Err(format!("out of order: {last} came before it")),
            _ => Ok(()),
        }
    }

    /// Records that a consumer of a queue settles a delivery.
    pub(super) fn queue_outcome(
        &mut self,
        to: LinkNumber,
        received: Received,
        outcome: OutcomeKind,
        transaction: Option<TransactionNumber>,
    ) {
        let number = received.message;
        let deliveries = &mut self.links[to].deliveries;
        let mut open = deliveries.iter_mut().enumerate().rev();
        let is_wanted = |at: usize| match received.delivery {
            DeliveryReference::Latest => true,
            DeliveryReference::At(delivery) => delivery == at,
            DeliveryReference::None => false,
        };
        let open = open.find(|(at, one)| one.message == number && one.outcome.is_none() && is_wanted(*at));
        let Some((_, delivery)) = open else { return };
        delivery.outcome = Some(outcome);
        let queue = delivery.queue;
        let moves = self.queues[queue].terms.dead_letter;
        let queued = self.queued.entry((number, queue)).or_default();
        queued.holder = None;
        queued.settled = Some(Settled { link: to, outcome, transaction, may_be_forgotten: false });
        match outcome {
            OutcomeKind::Rejected if moves => queued.rejected = true,
            OutcomeKind::Failed | OutcomeKind::Rejected => queued.failures += 1,
            // A retirement that is rolled back counts as an attempt, and the redelivery may precede
            // the client's notification.
            _ => queued.failures += u32::from(transaction.is_some()),
        }
        if let Some(transaction) = transaction {
            self.retired(transaction, number, queue);
        }
    }

    /// Records the commit of a retirement: the message must not be delivered again.
    pub(super) fn retirement_committed(&mut self, number: MessageNumber, queue: QueueNumber) {
        if let Some(queued) = self.queued.get_mut(&(number, queue)) {
            queued.removed = true;
        }
    }

    /// Records the end of a link at a queue.
    pub(super) fn disturb(&mut self, link: LinkNumber) {
        if self.links[link].source.is_some() {
            self.queues.iter_mut().for_each(|queue| queue.disturbed = true);
        }
    }

    /// Counts the lost links of a connection: for each, the oldest unsettled delivery is a failed
    /// attempt. The client knows that delivery only as far as its outcomes have arrived, and not at
    /// all if it had settled everything. A message is in flight to at most one of the links.
    pub(super) fn count_lost_attempts(&mut self, links: &[LinkNumber]) {
        let sent = self.messages.len();
        let mut unknown = BTreeSet::new();
        for link in links {
            let mut known = false;
            for delivery in &self.links[*link].deliveries {
                let moves = self.queues[delivery.queue].terms.dead_letter;
                let counted = match delivery.outcome {
                    Some(OutcomeKind::Failed) => true,
                    Some(OutcomeKind::Rejected) => !moves,
                    _ => false,
                };
                if !counted && let Some(queued) = self.queued.get_mut(&(delivery.message, delivery.queue)) {
                    queued.failures += 1;
                }
                if delivery.outcome.is_none() {
                    known = true;
                    break;
                }
            }
            let space = self.links[*link].route.space;
            if let Some(Source::Queue(name) | Source::Subscription { name, .. }) = self.links[*link].source.clone()
                && !known
            {
                unknown.insert(self.queue(space, &name));
            }
        }
        for queue in unknown {
            self.queues[queue].unknown_attempts.push(sent);
        }
    }

    /// Records that the node was killed.
    pub(super) fn forget_restart(&mut self) {
        for settled in self.queued.values_mut().filter_map(|queued| queued.settled.as_mut()) {
            settled.may_be_forgotten = true;
        }
        for transaction in 0..self.transactions.len() {
            self.transaction_lost(transaction);
        }
    }

    /// Records that everything sent by clients has arrived at the node, and its consequences are on
    /// disk.
    pub(crate) fn barrier(&mut self) {
        self.log("everything has arrived and is on disk");
        let links = &self.links;
        for ((_, queue), queued) in &mut self.queued {
            let moves = self.queues[*queue].terms.dead_letter;
            let certain = queued.settled.is_some_and(|settled| {
                let last =
                    settled.outcome == OutcomeKind::Accepted || settled.outcome == OutcomeKind::Rejected && moves;
                let arrived = matches!(links[settled.link].state, LinkState::Attached | LinkState::Detached);
                last && arrived && settled.transaction.is_none() && !settled.may_be_forgotten
            });
            queued.removed |= certain;
        }
    }

    /// The final check of stored messages: each is in its expected address.
    pub(crate) fn check_stored(&mut self) {
        let mut found = Vec::new();
        for number in 0..self.messages.len() {
            let message = &self.messages[number];
            let committed = message.transaction.map(|transaction| self.transactions[transaction].has_stored(number));
            let outstanding_outcomes = committed.unwrap_or(message.outcome == Some(OutcomeKind::Accepted));
            if !outstanding_outcomes || message.progress != Progress::Sent || message.route.temporary.is_some() {
                continue;
            }
            match message.route.kind {
                Some(AddressKind::Queue | AddressKind::Topic) => {
                    for queue in self.queues_of(number) {
                        if let Err(why) = self.check_consumed(number, queue) {
                            let (who, name) = (self.describe(number), &self.queues[queue].name);
                            found.push(format!("{who} was accepted for {name}: {why}"));
                        }
                    }
                }
                Some(AddressKind::Stream) => found.extend(self.check_read(number).err()),
                _ => {}
            }
        }
        for what in found {
            self.violation(what);
        }
    }

    /// The target queues of a message.
    fn queues_of(&self, number: MessageNumber) -> Vec<QueueNumber> {
        let route = &self.messages[number].route;
        let gets = |queue: &Queue| {
            let of_topic = queue.name.split_once("::").is_some_and(|(topic, _)| *topic == route.name);
            let kept = of_topic && queue.since.is_some_and(|since| since <= number);
            queue.space == route.space && (queue.name == route.name && route.kind == Some(AddressKind::Queue) || kept)
        };
        let numbers = self.queues.iter().enumerate().filter(|(_, queue)| gets(queue) && !queue.name.contains('<'));
        numbers.map(|(number, _)| number).collect()
    }

    fn check_consumed(&self, number: MessageNumber, queue: QueueNumber) -> Result<(), String> {
        let terms = self.queues[queue].terms;
        let given_up = terms.attempts > 0 && !terms.dead_letter && self.attempts_bound(number, queue) >= terms.attempts;
        let Some(queued) = self.queued.get(&(number, queue)) else {
            return if given_up { Ok(()) } else { Err("it was never delivered".to_owned()) };
        };
        if let Some(dead) = queued.dead {
            return self.check_consumed(number, dead);
        }
        let accepted = queued.settled.is_some_and(|settled| {
            let kept = settled.transaction.is_some_and(|transaction| self.transactions[transaction].is_rolled_back());
            settled.outcome == OutcomeKind::Accepted && !kept
        });
        if accepted || given_up { Ok(()) } else { Err(format!("it was not consumed: {queued:?}")) }
    }
}

/// The source of a receiver that names an address.
pub(crate) fn source_of(name: &str, kind: Option<AddressKind>, expiry: &str) -> Option<Source> {
    match kind {
        Some(AddressKind::Queue) if name == DEAD_LETTERS || name == expiry => {
            Some(Source::DeadLetters(name.to_owned()))
        }
        Some(AddressKind::Queue) => Some(Source::Queue(name.to_owned())),
        _ => None,
    }
}
