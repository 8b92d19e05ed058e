//! A router with links that record each notification as a short line:
//!
//! `c0<a` a delivery "a" for consumer 0; `c0<a..` its first part, `c0<..b..` a later one, `c0<..c`
//! the last; a `!` behind the consumer marks a settled one; `c0 void`, `c0 drained`, `c0 halted`.
//! `p0 7 accepted` the outcome of delivery 7 of producer 0; `p0 taken 3`, `p0 open`, `p0 shut`, `p0
//! hold`, `p0 go`. `p0 close` the attachment is told to close.

use std::collections::HashMap;

use enmasse_amqp::types::{Error, Fields, Modified, Outcome, condition};
use enmasse_router::core::{
    AddressKey, AddressKind, AddressStats, Arrival, AttachmentId, AttachmentRole, Consuming, Declared, Delivery,
    Filter, Handover, Hold, Links, Replacement, Router, ToLink,
};

pub(crate) const CAPACITY: u32 = 10;
/// The router's shard.
pub(crate) const HERE: u16 = 3;
/// A shard whose links are reached through batches.
pub(crate) const ELSEWHERE: u16 = 1;

/// The notifications of the links, and the consumers without room.
#[derive(Default)]
pub(crate) struct Recorder {
    reported: Vec<String>,
    names: HashMap<AttachmentId, String>,
    full: Vec<AttachmentId>,
    tokens: Vec<(AttachmentId, String, u64)>,
    transfers: Vec<Handed>,
}

/// A transfer that a consumer of another shard may send back.
#[derive(Clone)]
struct Handed {
    to: AttachmentId,
    token: Option<u64>,
    first: bool,
    more: bool,
    payload: Vec<u8>,
}

impl Recorder {
    fn say(&mut self, attachment: AttachmentId, what: &str) {
        let line = format!("{}{what}", self.names[&attachment]);
        self.reported.push(line);
    }
}

impl Links for Recorder {
    fn hand_over(&mut self, _: u16, _: Handover<'_>) {
        unreachable!("all addresses have this home");
    }

    fn replace(&mut self, _: u16, _: Replacement) {
        unreachable!("all addresses have this home");
    }

    fn transfer(&mut self, consumer: AttachmentId, delivery: &Delivery<'_>) -> bool {
        if self.full.contains(&consumer) {
            return false;
        }
        if delivery.aborted {
            self.say(consumer, " void");
            return true;
        }
        let text = String::from_utf8_lossy(delivery.payload).into_owned();
        let (before, after) = (if delivery.first { "" } else { ".." }, if delivery.more { ".." } else { "" });
        let settled = if delivery.token.is_none() { "!" } else { "" };
        self.say(consumer, &format!("{settled}<{before}{text}{after}"));
        if let (true, Some(token)) = (delivery.first, delivery.token) {
            self.tokens.push((consumer, text, token));
        }
        let Delivery { token, first, more, .. } = *delivery;
        self.transfers.push(Handed { to: consumer, token, first, more, payload: delivery.payload.to_vec() });
        true
    }

    fn send(&mut self, command: ToLink<'_>) {
        match command {
            ToLink::Attached { answer, .. } => assert_eq!(answer, Ok(Fields::new())),
            ToLink::Settle { attachment, delivery_id, outcome } => {
                self.say(attachment, &format!(" {delivery_id} {}", name_of(&outcome)));
            }
            ToLink::Taken { attachment, count } => self.say(attachment, &format!(" taken {count}")),
            ToLink::Open { attachment, open } => self.say(attachment, if open { " open" } else { " shut" }),
            ToLink::Hold { attachment, hold } => {
                let words = match hold {
                    Hold::No => " go",
                    Hold::Session => " hold",
                    Hold::SendOnly => " pause",
                    Hold::Connection => " stop",
                };
                self.say(attachment, words);
            }
            ToLink::Drained { attachment } => self.say(attachment, " drained"),
            ToLink::Halted { attachment } => self.say(attachment, " halted"),
            ToLink::Close { attachment, error } => {
                assert_eq!(error.condition, condition::RESOURCE_DELETED);
                self.say(attachment, " close");
            }
            other => panic!("unexpected command of a direct address: {other:?}"),
        }
    }
}

pub(crate) fn name_of(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Accepted => "accepted",
        Outcome::Rejected(Some(_)) => "rejected with an error",
        Outcome::Rejected(None) => "rejected",
        Outcome::Released => "released",
        Outcome::Modified(modified) if modified.delivery_failed => "failed",
        Outcome::Modified(_) => "modified",
    }
}

pub(crate) fn rejected() -> Outcome {
    Outcome::Rejected(Some(Box::new(Error::new(condition::INTERNAL_ERROR, "no"))))
}

pub(crate) fn modified(delivery_failed: bool) -> Outcome {
    Outcome::Modified(Box::new(Modified { delivery_failed, ..Modified::default() }))
}

pub(crate) struct Bench {
    pub(crate) router: Router,
    pub(crate) links: Recorder,
    kind: AddressKind,
    limits: HashMap<AttachmentId, u32>,
    names: (usize, usize),
    now_ms: u64,
}

impl Bench {
    pub(crate) fn new(kind: AddressKind) -> Self {
        let (limits, links) = (HashMap::new(), Recorder::default());
        Self { router: Router::new(HERE, 42), links, kind, limits, names: (0, 0), now_ms: 0 }
    }

    pub(crate) fn declared(&self) -> Declared {
        Declared { key: AddressKey(1), kind: self.kind, link_capacity: CAPACITY, space: 1 }
    }

    /// An attachment of a shard; the router's own is [`HERE`]. Each counts its own, so that a
    /// mix-up of shards shows.
    pub(crate) fn attachment(&mut self, shard: u16, name: &str) -> AttachmentId {
        let index = self.links.names.keys().filter(|attachment| attachment.shard == shard).count() as u32;
        let attachment = AttachmentId { shard, generation: 5, index };
        self.rename(attachment, name);
        attachment
    }

    pub(crate) fn rename(&mut self, attachment: AttachmentId, name: &str) {
        self.links.names.insert(attachment, name.to_owned());
    }

    fn attach(&mut self, shard: u16, role: AttachmentRole) -> AttachmentId {
        let name = if let AttachmentRole::Producer { .. } = role {
            self.names.0 += 1;
            format!("p{}", self.names.0 - 1)
        } else {
            self.names.1 += 1;
            format!("c{}", self.names.1 - 1)
        };
        let attachment = self.attachment(shard, &name);
        self.router.attach(attachment, self.declared(), role, &mut self.links);
        attachment
    }

    pub(crate) fn producer(&mut self) -> AttachmentId {
        self.attach(
            ELSEWHERE,
            AttachmentRole::Producer { anonymous: false, name: None, producer_name: None, resume: None },
        )
    }

    pub(crate) fn producer_to(&mut self, name: &str) -> AttachmentId {
        self.attach(
            ELSEWHERE,
            AttachmentRole::Producer { anonymous: false, name: Some(name.into()), producer_name: None, resume: None },
        )
    }

    pub(crate) fn anonymous(&mut self) -> AttachmentId {
        self.attach(
            ELSEWHERE,
            AttachmentRole::Producer { anonymous: true, name: None, producer_name: None, resume: None },
        )
    }

    /// A consumer without credit.
    pub(crate) fn consumer(&mut self) -> AttachmentId {
        self.attach(HERE, AttachmentRole::Consumer { filter: None, consuming: Consuming::default() })
    }

    /// A consumer of another shard, which returns deliveries that exceed its room.
    pub(crate) fn consumer_elsewhere(&mut self, credit: u32) -> AttachmentId {
        let attachment =
            self.attach(ELSEWHERE, AttachmentRole::Consumer { filter: None, consuming: Consuming::default() });
        self.credit(attachment, credit);
        attachment
    }

    pub(crate) fn consumer_of(&mut self, beginning: &'static str) -> AttachmentId {
        let filter = Filter::new(move |name| name.starts_with(beginning));
        self.attach(HERE, AttachmentRole::Consumer { filter: Some(filter), consuming: Consuming::default() })
    }

    pub(crate) fn consumer_with(&mut self, credit: u32) -> AttachmentId {
        let attachment = self.consumer();
        self.credit(attachment, credit);
        attachment
    }

    /// `credit` more than it was granted so far.
    pub(crate) fn credit(&mut self, attachment: AttachmentId, credit: u32) {
        self.flow(attachment, credit, false);
    }

    pub(crate) fn drain(&mut self, attachment: AttachmentId, credit: u32) {
        self.flow(attachment, credit, true);
    }

    fn flow(&mut self, attachment: AttachmentId, credit: u32, drain: bool) {
        let limit = self.limits.entry(attachment).or_default();
        *limit = limit.wrapping_add(credit);
        let limit = *limit;
        self.router.credit(attachment, limit, drain, &mut self.links);
    }

    /// The links of a consumer have no room, or have room again, which they report.
    pub(crate) fn full(&mut self, attachment: AttachmentId, full: bool) {
        self.links.full.retain(|other| *other != attachment);
        if full {
            self.links.full.push(attachment);
        } else {
            self.credit(attachment, 0);
        }
    }

    /// The link of a consumer has ended, and the router does not know yet.
    pub(crate) fn links_are_gone(&mut self, attachment: AttachmentId) {
        self.links.full.push(attachment);
    }

    pub(crate) fn send(&mut self, attachment: AttachmentId, delivery_id: u32, text: &str) {
        self.arrive(attachment, delivery_id, text, "first last");
    }

    pub(crate) fn send_settled(&mut self, attachment: AttachmentId, text: &str) {
        self.arrive(attachment, 0, text, "first last settled");
    }

    /// `how`: some of `first`, `last`, `settled`, `aborted`.
    pub(crate) fn arrive(&mut self, attachment: AttachmentId, delivery_id: u32, text: &str, how: &str) {
        let is = |word| how.split(' ').any(|other| other == word);
        let arrival = Arrival {
            delivery_id,
            settled: is("settled"),
            message_format: 0,
            first: is("first"),
            more: !is("last") && !is("aborted"),
            aborted: is("aborted"),
            payload: text.as_bytes(),
        };
        self.router.deliver(attachment, arrival, &mut self.links);
    }

    /// The consumer's outcome for the delivery that began with `text`.
    pub(crate) fn answer(&mut self, attachment: AttachmentId, text: &str, outcome: &Outcome) {
        let at = self.links.tokens.iter().position(|(other, name, _)| *other == attachment && name == text);
        let (_, _, token) = self.links.tokens.remove(at.expect("a delivery that the consumer holds"));
        self.router.outcome(token, outcome, &mut self.links);
    }

    /// The token of the only delivery that began with `text`.
    pub(crate) fn token(&self, text: &str) -> u64 {
        let mut tokens = self.links.tokens.iter().filter(|held| held.1 == text);
        tokens.next().expect("a delivery that a consumer holds").2
    }

    /// The text of the first delivery that the consumer holds.
    pub(crate) fn first_held(&self, attachment: AttachmentId) -> Option<String> {
        self.links.tokens.iter().find(|held| held.0 == attachment).map(|held| held.1.clone())
    }

    /// Whether the consumer holds anything.
    pub(crate) fn is_holding(&self, attachment: AttachmentId) -> bool {
        self.links.tokens.iter().any(|held| held.0 == attachment)
    }

    /// The consumer leaves, as a shard does it: outcomes first, unless the deliveries never reached
    /// it.
    pub(crate) fn leave(&mut self, attachment: AttachmentId) {
        let held: Vec<u64> = self.links.tokens.iter().filter(|held| held.0 == attachment).map(|held| held.2).collect();
        self.links.tokens.retain(|held| held.0 != attachment);
        for token in held {
            self.router.outcome(token, &modified(true), &mut self.links);
        }
        self.detach(attachment);
    }

    pub(crate) fn detach(&mut self, attachment: AttachmentId) {
        self.router.detach(attachment, &mut self.links);
    }

    /// The consumer's shard sends back the transfer that was recorded as number `at`.
    pub(crate) fn refuse(&mut self, at: usize) {
        let Handed { to: attachment, token, first, more, payload } = self.links.transfers[at].clone();
        let delivery =
            Delivery { token, message_format: 0, first, more, aborted: false, payload: &payload, shared: None };
        self.links.tokens.retain(|held| Some(held.2) != token);
        self.router.refused(attachment, &delivery, &mut self.links);
    }

    /// The consumer's shard has taken the first part of a long delivery.
    pub(crate) fn begun(&mut self, attachment: AttachmentId) {
        self.router.begun(attachment, &mut self.links);
    }

    pub(crate) fn turn(&mut self) {
        self.router.turn(&mut self.links);
    }

    /// Time passes, and a turn ends.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        self.router.set_time(self.now_ms);
        self.turn();
    }

    pub(crate) fn retire(&mut self) {
        let error = Error::new(condition::RESOURCE_DELETED, "deleted");
        self.router.delete_address(AddressKey(1), &error, &mut self.links);
    }

    pub(crate) fn stats(&self) -> AddressStats {
        self.router.stats().next().map(|(_, stats)| stats).unwrap_or_default()
    }

    /// The notifications since the last call.
    pub(crate) fn reported(&mut self) -> Vec<String> {
        std::mem::take(&mut self.links.reported)
    }

    pub(crate) fn hush(&mut self) {
        self.links.reported.clear();
    }
}
