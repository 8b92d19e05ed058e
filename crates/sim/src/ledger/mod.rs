//! The ledger: records every sent message with its receivers and outcomes, and checks them against
//! the contract. It has only the view of clients, and shares no code with the node.
//!
//! `direct` checks anycast and multicast addresses (`docs/contracts.md` 7), `stored` queues,
//! subscriptions and dead letters (8), `transactions` postings and retirements, `streams` offsets
//! (9).

mod direct;
mod names;
mod outcome;
mod stored;
mod streams;
#[cfg(test)]
mod tests;
mod transactions;

use std::collections::{HashMap, VecDeque};

use enmasse_amqp::time::Time;
use enmasse_router::core::AddressKind;

pub(crate) use names::covers;
pub(crate) use outcome::OutcomeKind;
pub(crate) use stored::{Source, source_of};
pub(crate) use transactions::TransactionNumber;

use crate::address::Terms;
use crate::faults::{Fault, FaultCounts};
use crate::message::{Content, MessageNumber};
use direct::Copy;
use stored::{Delivery, Queue, QueuedMessage};
use streams::Stream;
use transactions::Transaction;

/// Identifies a link permanently; every attach gets a new number.
pub(crate) type LinkNumber = usize;

/// Names a queue, a subscription, or the dead letters of one address.
type QueueNumber = usize;

/// Lines kept to explain a violation.
const HISTORY: usize = 100_000;

/// The progress of a message at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// part of the message is not yet passed to the machine
    Sending,
    /// all of the message is passed to the machine
    Sent,
    /// the message was aborted
    Aborted,
}

/// The address of a message or link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// address space
    pub(crate) space: usize,
    /// the name sent to, or received from (which may have wildcards)
    pub(crate) name: String,
    /// its treatment of messages; `None`: no such address
    pub(crate) kind: Option<AddressKind>,
    /// the address was, or may have been, deleted while the message was in flight
    pub(crate) may_be_deleted: bool,
    /// of a temporary queue: the link that created it
    pub(crate) temporary: Option<LinkNumber>,
}

impl Route {
    /// Whether messages sent to it are stored.
    fn is_stored(&self) -> bool {
        matches!(self.kind, Some(AddressKind::Queue | AddressKind::Topic | AddressKind::Stream))
    }
}

/// A client's view of a link's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    Attached,
    /// the client has detached it, and the answer is pending
    Detaching,
    /// ended by the detach handshake: everything sent on it before has arrived
    Detached,
    /// its connection was lost: messages on it may have arrived or not
    Lost,
}

#[derive(Debug)]
struct Link {
    client: usize,
    route: Route,
    state: LinkState,
    /// direct: the last message it received from each sending link and name
    last: HashMap<(LinkNumber, String), MessageNumber>,
    /// its stored source
    source: Option<Source>,
    /// stored: messages delivered to it, in order
    deliveries: Vec<Delivery>,
    /// stream: the next offset of each partition
    offsets: HashMap<u32, u64>,
}

impl Link {
    fn is_attached(&self) -> bool {
        self.state == LinkState::Attached
    }

    fn is_over(&self) -> bool {
        matches!(self.state, LinkState::Detached | LinkState::Lost)
    }
}

#[derive(Debug)]
struct Message {
    from: LinkNumber,
    route: Route,
    settled: bool,
    bytes: Vec<u8>,
    progress: Progress,
    /// the outcome for its sender
    outcome: Option<OutcomeKind>,
    /// direct: its receivers
    copies: Vec<Copy>,
    transaction: Option<TransactionNumber>,
    sent_at: Time,
}

/// The combined view of all clients.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    now: Time,
    links: Vec<Link>,
    messages: Vec<Message>,
    /// settings of addresses for stored messages, by name
    terms: HashMap<String, Terms>,
    queues: Vec<Queue>,
    queue_numbers: HashMap<(usize, String), QueueNumber>,
    queued: HashMap<(MessageNumber, QueueNumber), QueuedMessage>,
    /// the message without sections that is in a queue
    empty: HashMap<QueueNumber, MessageNumber>,
    streams: HashMap<(usize, String), Stream>,
    transactions: Vec<Transaction>,
    history: VecDeque<String>,
    digest: u64,
    events: u64,
    violations: Vec<String>,
    /// addresses (of a space) that are deleted, or whose settings not all shards have applied
    changing: Vec<(usize, String)>,
    /// statistics of the run
    pub(crate) stats: RunStats,
    /// faults of the run
    pub(crate) faults: FaultCounts,
    /// temporary queues, with the links that created them
    temporary: HashMap<String, LinkNumber>,
}

/// The counters of a run, which show whether it had enough events to be meaningful.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunStats {
    /// messages begun
    pub sent: u64,
    /// complete deliveries received
    pub received: u64,
    /// outcomes received by senders
    pub outcomes: u64,
    /// links attached
    pub links: u64,
    /// messages delivered again
    pub redelivered: u64,
    /// messages that were received as dead letters
    pub dead_letters: u64,
    /// transactions committed
    pub commits: u64,
    /// messages of streams read
    pub read: u64,
}

impl RunStats {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.outcomes += other.outcomes;
        self.links += other.links;
        self.redelivered += other.redelivered;
        self.dead_letters += other.dead_letters;
        self.commits += other.commits;
        self.read += other.read;
    }
}

/// A message that a consumer has received. Two subscriptions may dead-letter the same message:
/// `delivery` distinguishes the copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    message: MessageNumber,
    delivery: DeliveryReference,
}

/// The delivery of a link that a received message belongs to.
#[derive(Clone, Copy, Debug)]
enum DeliveryReference {
    /// the latest of the message that is not settled
    Latest,
    At(usize),
    /// none: it comes from no queue, or from one that cannot be identified
    None,
}

impl From<MessageNumber> for Received {
    fn from(message: MessageNumber) -> Self {
        Self { message, delivery: DeliveryReference::Latest }
    }
}

impl Ledger {
    /// A ledger for addresses with these terms.
    pub(crate) fn new(terms: impl Iterator<Item = (String, Terms)>) -> Self {
        Self { terms: terms.collect(), ..Self::default() }
    }

    /// Advances time.
    pub(crate) fn set_time(&mut self, now: Time) {
        self.now = now;
    }

    /// Records a violation of the contract.
    pub(crate) fn violation(&mut self, what: String) {
        self.log(&format!("VIOLATION {what}"));
        self.violations.push(what);
    }

    /// The first violation, with the history before it.
    #[must_use]
    pub(crate) fn first_violation(&self) -> Option<String> {
        let what = self.violations.first()?;
        let history: Vec<&str> = self.history.iter().map(String::as_str).collect();
        Some(format!("{}\n{what}", history.join("\n")))
    }

    /// Adds a line to the history; a repeated run logs the same lines.
    pub(crate) fn log(&mut self, line: &str) {
        for byte in line.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(format!("{:>9} {line}", self.now.as_micros()));
    }

    /// Records a fault or a disturbance.
    pub(crate) fn fault(&mut self, fault: Fault) {
        self.faults.record(self.now, fault);
    }

    /// Counts a frame received by a client.
    pub(crate) const fn count_event(&mut self) {
        self.events += 1;
    }

    /// The number of frames received by clients.
    #[must_use]
    pub(crate) const fn events(&self) -> u64 {
        self.events
    }

    /// A digest of the log.
    #[must_use]
    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    /// Records an attached link. `source`: its stored source.
    pub(crate) fn attached(&mut self, client: usize, route: Route, source: Option<Source>) -> LinkNumber {
        let number = self.links.len();
        self.log(&format!("client {client} link {number} at {}/{}", route.space, route.name));
        self.stats.links += 1;
        let space = route.space;
        if let Some(Source::Queue(name) | Source::Subscription { name, .. }) = &source {
            self.consumes_from(space, &name.clone());
        }
        if let Some(Source::Subscription { name, outlives: true }) = &source {
            self.subscribed(space, &name.clone());
        }
        self.links.push(Link {
            client,
            route,
            state: LinkState::Attached,
            last: HashMap::new(),
            source,
            deliveries: Vec::new(),
            offsets: HashMap::new(),
        });
        number
    }

    /// Records that a link has created a temporary queue.
    pub(crate) fn created(&mut self, link: LinkNumber, name: String) {
        self.temporary.insert(name, link);
    }

    /// The link that created a temporary queue; `None`: another address.
    pub(crate) fn creator_of(&self, name: &str) -> Option<LinkNumber> {
        self.temporary.get(name).copied()
    }

    /// The number of links attached so far.
    pub(crate) const fn links(&self) -> usize {
        self.links.len()
    }

    /// Whether a link consumes from a queue.
    pub(crate) fn consumes(&self, link: LinkNumber) -> bool {
        self.links[link].source.as_ref().is_some_and(|source| !matches!(source, Source::Stream(_)))
    }

    /// Records that the client detaches a link. `closed`: a durable subscription ends with it.
    pub(crate) fn detaching(&mut self, link: LinkNumber, closed: bool) {
        if self.links[link].is_attached() {
            self.links[link].state = LinkState::Detaching;
            self.log(&format!("link {link} is detached by its client, closed: {closed}"));
            self.disturb(link);
            if closed && let Some(Source::Subscription { name, .. }) = self.links[link].source.clone() {
                self.unsubscribed(self.links[link].route.space, &name);
            }
        }
    }

    /// Records that a link has ended at both sides.
    pub(crate) fn detached(&mut self, link: LinkNumber) {
        if !self.links[link].is_over() {
            let by_client = self.links[link].state == LinkState::Detaching;
            self.links[link].state = LinkState::Detached;
            self.log(&format!("link {link} has ended"));
            self.disturb(link);
            if !by_client {
                // Its last messages may have met the node's detach.
                self.links[link].state = LinkState::Lost;
            }
        }
    }

    /// Records the end of a connection. `clean`: by the client's `close`, which the node has
    /// answered.
    pub(crate) fn disconnected(&mut self, client: usize, clean: bool) {
        let mut lost = Vec::new();
        for number in 0..self.links.len() {
            if self.links[number].client != client || self.links[number].is_over() {
                continue;
            }
            if clean {
                self.detached(number);
            } else {
                self.links[number].state = LinkState::Lost;
                self.log(&format!("link {number} is lost"));
                self.disturb(number);
                lost.push(number);
            }
        }
        self.count_lost_attempts(&lost);
        self.lose_transactions(client);
    }

    /// Records that the node was killed: its last messages may or may not have arrived, and no
    /// attempt is counted.
    pub(crate) fn restarted(&mut self) {
        for number in 0..self.links.len() {
            if !self.links[number].is_over() {
                self.links[number].state = LinkState::Lost;
                self.disturb(number);
            }
        }
        self.forget_restart();
    }

    /// Records that an address is deleted or declared again: messages in flight to it may have
    /// either outcome.
    pub(crate) fn changes(&mut self, space: usize, address: &str) {
        for message in self.messages.iter_mut().filter(|message| message.outcome.is_none()) {
            message.route.may_be_deleted |=
                message.route.space == space && names::belongs(&message.route.name, address);
        }
        self.changing.push((space, address.to_owned()));
    }

    /// Records that all shards have applied the Plan, which has the addresses in `exists`.
    pub(crate) fn plan_applied(&mut self, exists: impl Fn(usize, &str) -> bool) {
        self.changing.retain(|(space, address)| !exists(*space, address));
    }

    /// Whether a change of an address is not yet applied everywhere.
    #[must_use]
    pub(crate) const fn is_changing(&self) -> bool {
        !self.changing.is_empty()
    }

    /// Records that a link begins to send a message.
    pub(crate) fn sends(
        &mut self,
        from: LinkNumber,
        mut route: Route,
        settled: bool,
        transaction: Option<TransactionNumber>,
    ) -> MessageNumber {
        route.may_be_deleted |=
            self.changing.iter().any(|(space, address)| route.space == *space && names::belongs(&route.name, address));
        let number = self.messages.len();
        let within = transaction.map_or(String::new(), |number| format!(" in transaction {number}"));
        self.log(&format!("link {from} sends {number} to {} settled={settled}{within}", route.name));
        self.stats.sent += 1;
        if let Some(transaction) = transaction {
            self.posted(transaction, number, route.is_stored());
        }
        self.messages.push(Message {
            from,
            route,
            settled,
            bytes: Vec::new(),
            progress: Progress::Sending,
            outcome: None,
            copies: Vec::new(),
            transaction,
            sent_at: self.now,
        });
        number
    }

    /// Records the bytes of a message.
    pub(crate) fn contains(&mut self, message: MessageNumber, bytes: Vec<u8>) {
        self.messages[message].bytes = bytes;
    }

    /// Records the progress of a message at its sender.
    pub(crate) fn progress(&mut self, message: MessageNumber, progress: Progress) {
        self.log(&format!("{message} is {progress:?}"));
        self.messages[message].progress = progress;
    }

    /// Records that a consumer has received a complete message.
    pub(crate) fn received(
        &mut self,
        to: LinkNumber,
        content: &Content,
        settled: bool,
        bytes: &[u8],
    ) -> Option<Received> {
        self.stats.received += 1;
        let number = match content.number {
            Some(number) => number,
            None => match self.empty_message_at(to, content) {
                Some(number) => number,
                None => {
                    let what =
                        format!("link {to} received a message without a body that was not sent there: {content:?}");
                    self.violation(what);
                    return None;
                }
            },
        };
        let origin =
            content.dead_letter().map_or(String::new(), |(origin, cause)| format!(" from {origin}: {cause:?}"));
        self.log(&format!("link {to} receives {number} settled={settled}{origin}"));
        if number >= self.messages.len() {
            self.violation(format!("link {to} received message {number}, which was never sent"));
            return None;
        }
        let deliveries = self.links[to].deliveries.len();
        match self.links[to].source.clone() {
            Some(Source::Stream(name)) => self.received_from_stream(to, number, &name, content),
            Some(source) => self.received_from_queue(to, number, &source, content, settled),
            None if self.messages[number].route.temporary.is_some() => {}
            None => self.received_direct(to, number, settled, bytes),
        }
        let is_noted = self.links[to].deliveries.len() > deliveries;
        let delivery = if is_noted { DeliveryReference::At(deliveries) } else { DeliveryReference::None };
        Some(Received { message: number, delivery })
    }

    /// Records that a consumer settles a delivery.
    pub(crate) fn consumer_outcome(
        &mut self,
        to: LinkNumber,
        received: impl Into<Received>,
        outcome: OutcomeKind,
        transaction: Option<TransactionNumber>,
    ) {
        let received = received.into();
        let number = received.message;
        let within = transaction.map_or(String::new(), |number| format!(" in transaction {number}"));
        self.log(&format!("link {to} settles {number} {outcome:?}{within}"));
        if outcome != OutcomeKind::Accepted {
            self.fault(Fault::Negative);
        }
        if self.links[to].source.is_some() {
            return self.queue_outcome(to, received, outcome, transaction);
        }
        let copies = self.messages.get_mut(number).map(|message| &mut message.copies);
        if let Some(copy) = copies.and_then(|copies| copies.iter_mut().find(|copy| copy.to == to)) {
            copy.outcome = Some(outcome);
        }
    }

    /// Records that a sender receives the outcome of a message. `provisional`: in its transaction.
    pub(crate) fn sender_outcome(&mut self, number: MessageNumber, outcome: OutcomeKind, provisional: bool) {
        self.log(&format!("{number} is settled as {outcome:?}, provisional: {provisional}"));
        self.stats.outcomes += 1;
        let message = &mut self.messages[number];
        let before = message.outcome.replace(outcome);
        if message.settled || before.is_some() || message.progress == Progress::Aborted {
            let progress = message.progress;
            self.violation(format!(
                "message {number} ({progress:?}) has a second outcome: {before:?}, then {outcome:?}"
            ));
        }
        if let Some(transaction) = self.messages[number].transaction {
            return self.posting_outcome(transaction, number, outcome);
        }
        if let Err(why) = self.check_outcome(number, outcome) {
            let what = self.describe(number);
            self.violation(format!("{what} was settled as {outcome:?}: {why}"));
        }
    }

    /// Messages whose outcome is pending and must still arrive.
    #[must_use]
    pub(crate) fn unresolved(&self) -> Vec<MessageNumber> {
        let outstanding_outcomes = |message: &Message| {
            let waits = !message.settled && message.outcome.is_none() && message.progress == Progress::Sent;
            waits && self.links[message.from].is_attached()
        };
        (0..self.messages.len()).filter(|number| outstanding_outcomes(&self.messages[*number])).collect()
    }

    /// The sender of a message, for reports.
    #[must_use]
    pub(crate) fn describe(&self, number: MessageNumber) -> String {
        let message = &self.messages[number];
        let link = &self.links[message.from];
        format!("message {number} from client {} link {}: {:?}", link.client, message.from, message.route)
    }
}
