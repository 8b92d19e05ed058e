//! A connection of MQTT as a connection of the shard (`docs/decisions/0074-mqtt-connections.md`).
//!
//! The client's packets become links, deliveries and outcomes, so that rights, limits, take-over,
//! back-pressure and the homes of addresses handle it like any other client:
//!
//! - PUBLISH: a delivery on [`PUBLISHER`], a link to the anonymous terminus, which has one
//!   attachment for each address used lately. Its outcome is the PUBACK or PUBREC
//! - SUBSCRIBE: a link for each filter and each address that it covers. Deliveries become PUBLISH,
//!   and the client's acknowledgement is the outcome
//! - the client id: the name of [`SESSION`], a link without an address, which another connection
//!   of the client takes over
//!
//! This folder has the state of one connection and what it decides alone: `message` maps messages
//! (`plain` those that have nothing special), `codes` errors and outcomes, `filters` and `reads`
//! what a client subscribes, `record` its session, `sending` deliveries. `mqtt_clients` connects it
//! with the links and addresses of the shard.

pub(in crate::shard) mod codes;
pub(in crate::shard) mod enhanced;
pub(in crate::shard) mod filters;
pub(in crate::shard) mod links;
pub(in crate::shard) mod login;
pub(in crate::shard) mod message;
mod outbound;
mod plain;
pub(in crate::shard) mod reads;
pub(in crate::shard) mod record;
mod sending;
pub(in crate::shard) mod serving;
pub(in crate::shard) mod steps;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use enmasse_amqp::connection::{LinkId, LinkSummary, SendError as LinkError};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Error, Outcome, SaslCode, condition};
use enmasse_mqtt::codec::{PacketId, QoS, ReasonCode, UserProperties, Version};
use enmasse_mqtt::connection::{Accept, Closed, Config, Connection};

use crate::core::{AddressKind, Guarantee};
use crate::shard::ConnId;
use crate::table::AddressEntry;
use codes::Answer;
use enhanced::Enhanced;
use filters::{Answering, Filters};
use links::FIRST_SUBSCRIPTION;
use login::Login;
use reads::Reads;
use record::{After, SessionState};
use serving::Serving;
use steps::Step;

pub(in crate::shard) use links::{CREATION, Fate, MQTT_PREFIX, PUBLISHER, RECORD, RETAINED, SESSION};

/// Deliveries that an address may have on their way to one subscription.
pub(in crate::shard) const CREDIT: u32 = 256;
/// Interval of passing a publication to an anycast address without a consumer, in milliseconds.
const RETRY_MS: u64 = 100;
/// How long a publication waits for a consumer of its anycast address (`docs/contracts.md` 10), in
/// milliseconds.
pub(in crate::shard) const CONSUMER_WAIT_MS: u64 = 10_000;
/// Bytes of publications that may wait for consumers, of one client.
pub(in crate::shard) const WAITING_BYTES_MAX: usize = 1 << 20;

/// The state of one connection.
pub(in crate::shard) struct Mqtt {
    pub(in crate::shard) machine: Connection,
    /// until the connection is open
    pub(in crate::shard) login: Option<Box<Login>>,
    /// set if CONNECT named an authentication method
    pub(in crate::shard) enhanced: Option<Box<Enhanced>>,
    pub(in crate::shard) session: SessionState,
    /// set if it visits a session without a client
    pub(in crate::shard) visit: Option<Visit>,
    /// set if it has the will of an AMQP client
    pub(in crate::shard) owner: Option<WillOwner>,
    /// set if it has a subscription of the subscription service
    pub(in crate::shard) serving: Option<Box<Serving>>,
    /// that will is stored, or (`false`) refused, which its client does not know
    pub(in crate::shard) will_stored: Option<bool>,
    pub(in crate::shard) filters: Filters,
    /// subscription links by number, from [`FIRST_SUBSCRIPTION`] on
    pub(in crate::shard) links: Vec<Option<SubscriptionLink>>,
    /// places in `links` that are not in use
    pub(in crate::shard) free_links: Vec<usize>,
    /// links to attach, in order
    pub(in crate::shard) attaches: VecDeque<LinkId>,
    /// links that are attached and have no credit yet
    pub(in crate::shard) grants: VecDeque<LinkId>,
    /// SUBSCRIBE packets without an answer, the first one in progress
    pub(in crate::shard) answering: VecDeque<Answering>,
    /// reads of retained messages
    pub(in crate::shard) reads: Reads,
    /// the received parts of a retained message
    pub(in crate::shard) retained_parts: Vec<u8>,
    /// publications without an outcome, by half of their delivery ids
    pub(in crate::shard) publications: HashMap<u32, Publication>,
    /// delivery id of the last publication, an even number; the next one is that of its copy among
    /// the retained messages
    pub(in crate::shard) publication: u32,
    /// deliveries that the client has not acknowledged: link, token, and their order
    pub(in crate::shard) unacknowledged: HashMap<PacketId, (LinkId, u64, u64)>,
    /// counter of deliveries
    pub(in crate::shard) sent: u64,
    /// places of the client's window for deliveries in parts that have begun
    pub(in crate::shard) reserved: u16,
    /// the beginning of a packet that is larger than what the driver keeps
    pub(in crate::shard) partial: Vec<u8>,
    /// packet identifiers of answered publications to keep (`true`) or to forget in the session
    pub(in crate::shard) packet_ids: Vec<(PacketId, bool)>,
    /// when the values of `$SYS` are due that it has subscribed
    pub(in crate::shard) system_due: Option<Time>,
    /// publications to be passed to their address again, by time
    pub(in crate::shard) retries: VecDeque<(Time, u32)>,
    /// bytes of publications that may wait for a consumer
    pub(in crate::shard) waiting_bytes: usize,
    /// an address holds the publications back: until when they are not read
    pub(in crate::shard) held_until: Option<Time>,
    /// the address for the next packet was requested, and not created
    pub(in crate::shard) not_created: bool,
    /// publications are refused while they are held back
    pub(in crate::shard) sheds: bool,
    /// the next packet is a publication that has to wait
    pub(in crate::shard) is_paused: bool,
    /// a whole packet is not read: answers or output have to leave first
    pub(in crate::shard) is_blocked: bool,
    /// the connection ends: its machine has an event to report
    pub(in crate::shard) closes: bool,
    pub(in crate::shard) now: Time,
    /// the last event of the machine was handled
    pub(in crate::shard) ended: bool,
}

/// A visit to a session without a client.
#[derive(Clone, Copy, Debug)]
pub(in crate::shard) struct Visit {
    /// when its connection ended, or the node started
    pub(in crate::shard) since: Time,
    /// that connection; `None`: any
    pub(in crate::shard) connection: Option<u128>,
    /// the session ends now, whatever its expiry
    pub(in crate::shard) ends: bool,
}

/// The link of an AMQP client whose will an agent has.
#[derive(Clone, Copy, Debug)]
pub(in crate::shard) struct WillOwner {
    /// its connection
    pub(in crate::shard) conn: ConnId,
    /// the link
    pub(in crate::shard) link: LinkId,
    /// set until the will is answered: the delivery with it, unless it was sent settled
    pub(in crate::shard) unanswered: Option<Option<u32>>,
    /// the link has ended while its will was being stored: whether to publish it
    pub(in crate::shard) left: Option<bool>,
}

/// A publication with QoS 1 or 2 that waits for its outcomes.
pub(in crate::shard) struct Publication {
    pub(in crate::shard) completion: Completion,
    pub(in crate::shard) kind: AddressKind,
    /// outcomes that have not come: of the message, and of its copy among the retained ones
    pub(in crate::shard) left: u8,
    /// the answer so far
    pub(in crate::shard) answer: Answer,
    /// set if it may wait for a consumer
    pub(in crate::shard) waiting: Option<Box<Waiting>>,
}

/// A publication to an anycast address, kept until a consumer takes it.
pub(in crate::shard) struct Waiting {
    pub(in crate::shard) topic: Box<str>,
    pub(in crate::shard) sections: Vec<u8>,
    /// when it is refused
    pub(in crate::shard) until: Time,
}

/// How the packet identifier of a publication is kept in the session (4.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shard) enum Once {
    /// it is not: QoS 1, or a session that ends with its connection
    No,
    /// the home of the address stores it with the message
    WithMessage,
    /// it is stored after the message was accepted
    After,
}

/// What follows the outcomes of a publication.
pub(in crate::shard) enum Completion {
    /// its acknowledgement
    Answer { packet_id: PacketId, once: Once },
    /// it is the record of the session
    Record(After),
}

impl Publication {
    /// `retained`: a copy goes to the retained messages separately.
    pub(in crate::shard) fn new(packet_id: PacketId, once: Once, kind: AddressKind, retained: bool) -> Self {
        let (completion, left) = (Completion::Answer { packet_id, once }, 1 + u8::from(retained));
        Self { completion, kind, left, answer: Answer::SUCCESS, waiting: None }
    }

    pub(in crate::shard) fn of_record(after: After) -> Self {
        Self {
            completion: Completion::Record(after),
            kind: AddressKind::Topic,
            left: 1,
            answer: Answer::SUCCESS,
            waiting: None,
        }
    }
}

/// A link to one address on behalf of one filter.
pub(in crate::shard) struct SubscriptionLink {
    pub(in crate::shard) filter: Arc<str>,
    pub(in crate::shard) entry: Arc<AddressEntry>,
    /// the delivery in parts that has begun
    pub(in crate::shard) parts: Option<Box<DeliveryParts>>,
    /// deliveries since its attach, wrapping
    pub(in crate::shard) delivered: u32,
    /// those when it last stated its credit
    pub(in crate::shard) credited_at: u32,
    /// the link is attached
    pub(in crate::shard) attached: bool,
}

/// The received parts of a delivery.
pub(in crate::shard) struct DeliveryParts {
    pub(in crate::shard) bytes: Vec<u8>,
    /// its highest QoS
    pub(in crate::shard) granted: QoS,
}

impl Mqtt {
    pub(in crate::shard) fn new(config: Arc<Config>, now: Time) -> Self {
        Self {
            machine: Connection::new(config, now),
            login: None,
            enhanced: None,
            session: SessionState::default(),
            visit: None,
            owner: None,
            serving: None,
            will_stored: None,
            filters: Filters::default(),
            links: Vec::new(),
            free_links: Vec::new(),
            attaches: VecDeque::new(),
            grants: VecDeque::new(),
            answering: VecDeque::new(),
            reads: Reads::default(),
            retained_parts: Vec::new(),
            publications: HashMap::new(),
            publication: 0,
            unacknowledged: HashMap::new(),
            sent: 0,
            reserved: 0,
            partial: Vec::new(),
            packet_ids: Vec::new(),
            system_due: None,
            retries: VecDeque::new(),
            waiting_bytes: 0,
            held_until: None,
            not_created: false,
            sheds: false,
            is_paused: false,
            is_blocked: false,
            closes: false,
            now,
            ended: false,
        }
    }

    /// Whether a packet waits for an answer, and later ones with it.
    pub(in crate::shard) fn waits(&self) -> bool {
        let logs_in = self.login.as_ref().is_some_and(|login| !login.awaits_client);
        logs_in || !self.answering.is_empty() || self.is_paused || self.is_blocked
    }

    pub(in crate::shard) fn output(&mut self) -> &mut Vec<u8> {
        self.machine.output()
    }

    pub(in crate::shard) fn is_v5(&self) -> bool {
        self.machine.version().is_some_and(Version::is_v5)
    }

    /// The next step of earlier work.
    pub(in crate::shard) fn next_step(&mut self) -> Option<Step> {
        if self.ended {
            return None;
        }
        if self.closes {
            // Its links have ended, and the next connection of the client expects to find none.
            self.attaches.clear();
        }
        if let Some(link) = self.attaches.pop_front() {
            return Some(Step::Attach(link));
        }
        if let Some(stored) = self.will_stored.take() {
            return Some(Step::AnswerWill(stored));
        }
        if self.has_outcome() {
            return Some(Step::AnswerRequest);
        }
        if let Some((packet_id, kept)) = self.packet_ids.pop() {
            return Some(Step::NotePacketId(packet_id, kept));
        }
        if self.is_system_due() {
            self.system_due = None;
            return Some(Step::PublishSystem);
        }
        if let Some((at, delivery_id)) = self.retries.front().copied()
            && at <= self.now
        {
            self.retries.pop_front();
            return Some(Step::Publish(delivery_id));
        }
        if let Some(login) = &mut self.login {
            return login.next_step();
        }
        if let Some(step) = self.next_filter() {
            return Some(step);
        }
        self.grants.pop_front().map(Step::Grant).or_else(|| self.reads.next_step())
    }

    /// Whether PUBLISH packets are not read now: an address holds them back, or the space is over
    /// its rate. After `mqtt_hold_ms` they are read and refused.
    pub(in crate::shard) fn pauses_publications(&mut self, paced: bool) -> bool {
        let pauses = paced || self.held_until.is_some() && !self.sheds;
        self.is_paused = pauses;
        pauses
    }

    /// Whether values of `$SYS` are to be sent: after the answer to the SUBSCRIBE that asks for them.
    fn is_system_due(&self) -> bool {
        let is_ready = self.login.is_none() && self.answering.is_empty();
        is_ready && self.system_due.is_some_and(|at| at <= self.now)
    }

    /// Whether work can continue without input.
    pub(in crate::shard) fn has_work(&self) -> bool {
        let answers = self.answering.front().is_some_and(|answering| !answering.stores);
        let steps = self.will_stored.is_some()
            || self.has_outcome()
            || !self.attaches.is_empty()
            || !self.grants.is_empty()
            || !self.packet_ids.is_empty()
            || answers;
        let steps = steps
            || self.is_system_due()
            || self.reads.has_step()
            || self.retries.front().is_some_and(|(at, _)| *at <= self.now);
        !self.ended && (steps || self.closes || self.login.as_ref().is_some_and(|login| login.has_step()))
    }

    /// Whether it is no connection of a client, but a visit to a session without one.
    pub(in crate::shard) fn is_visit(&self) -> bool {
        self.visit.is_some()
    }

    /// The connection whose agent it is, unless it is a connection of a client.
    pub(in crate::shard) fn client_of_agent(&self) -> Option<ConnId> {
        let owner = self.owner.as_ref().map(|owner| owner.conn);
        owner.or_else(|| self.serving.as_ref().map(|serving| serving.conn))
    }

    /// Whether a link is the node's own, which the client does not know.
    pub(in crate::shard) fn is_own(&self, link: LinkId) -> bool {
        (link.0 as usize) < FIRST_SUBSCRIPTION || self.visit.is_some() || self.serving.is_some()
    }

    /// Whether the request of an agent has its outcome.
    fn has_outcome(&self) -> bool {
        self.serving.as_ref().is_some_and(|serving| serving.outcome.is_some())
    }

    pub(in crate::shard) fn link(&self, link: LinkId) -> Option<&SubscriptionLink> {
        self.links.get((link.0 as usize).checked_sub(FIRST_SUBSCRIPTION)?)?.as_ref()
    }

    pub(in crate::shard) fn link_mut(&mut self, link: LinkId) -> Option<&mut SubscriptionLink> {
        self.links.get_mut((link.0 as usize).checked_sub(FIRST_SUBSCRIPTION)?)?.as_mut()
    }

    /// The state of a subscription, for management. The node's own links have none.
    pub(super) fn link_summary(&self, link: LinkId) -> Option<LinkSummary<'_>> {
        let found = self.link(link)?;
        let unsettled = self.unacknowledged.values().filter(|(of, ..)| *of == link).count() as u32;
        let (name, deliveries) = (&*found.filter, found.delivered);
        Some(LinkSummary { name, credit: CREDIT, deliveries, unsettled, outcomes: None })
    }
}

/// The calls of [`super::machine::Machine`].
impl Mqtt {
    /// A link is attached.
    pub(in crate::shard) fn accept(&mut self, link: LinkId) {
        match link {
            RETAINED => return self.reads.accepted(),
            RECORD => return self.record_accepted(),
            _ => {}
        }
        let Some(state) = self.link_mut(link) else { return };
        state.attached = true;
        self.grants.push_back(link);
        if let Some(answering) = self.answering.front_mut() {
            answering.accepted();
        }
    }

    /// A link is refused.
    pub(in crate::shard) fn refuse(&mut self, link: LinkId, error: &Error) {
        if link == SESSION {
            return self.close(Some(error.clone()));
        }
        match link {
            RETAINED => return self.reads.refused(),
            RECORD => return self.record_refused(error),
            CREATION => return self.not_created = true,
            _ => {}
        }
        self.take_link(link);
        if let Some(answering) = self.answering.front_mut() {
            answering.refused(error);
        }
    }

    /// A link has ended: its address is deleted, or its right is gone. MQTT has no word for the
    /// first; the filter stays, and covers the address again when it returns.
    pub(in crate::shard) fn detach(&mut self, link: LinkId, error: Option<Error>) {
        self.take_link(link);
        if link == RETAINED {
            return self.reads.refused();
        }
        match error {
            Some(error)
                if (link == SESSION || error.condition == condition::UNAUTHORIZED_ACCESS) && link != PUBLISHER =>
            {
                self.close(Some(error));
            }
            _ => {}
        }
    }

    pub(in crate::shard) fn drained(&mut self, link: LinkId) {
        match link {
            RETAINED => self.reads.drained(),
            RECORD => self.record_drained(),
            _ => {}
        }
    }

    /// The credit of a subscription is constant: output and unacknowledged deliveries bound what is
    /// on its way.
    pub(in crate::shard) fn credit(&self, link: LinkId) -> u32 {
        match self.link(link) {
            Some(link) if link.attached => CREDIT,
            None if link == RETAINED => self.reads.credit(),
            None if link == RECORD => self.session.credit(),
            _ => 0,
        }
    }

    /// A piece that is not a delivery: only an aborted one.
    pub(in crate::shard) fn transfer(
        &mut self,
        link: LinkId,
        _piece: enmasse_amqp::connection::Outgoing<'_>,
    ) -> Result<(), LinkError> {
        self.end_parts(link);
        self.link(link).map(|_| ()).ok_or(LinkError::NotAttached)
    }

    /// The outcome of a publication.
    pub(in crate::shard) fn settle(&mut self, delivery_id: u32, outcome: &Outcome) {
        self.is_blocked = false;
        let is_copy = delivery_id % 2 == 1;
        let now = self.now;
        let Some(publication) = self.publications.get_mut(&(delivery_id / 2)) else { return };
        let may_wait = publication.waiting.as_ref().is_some_and(|waiting| waiting.until > now);
        if *outcome == Outcome::Released && may_wait {
            // There is no consumer now.
            return self.retries.push_back((now.plus_millis(RETRY_MS), delivery_id));
        }
        let answer = codes::settled_publish(outcome, if is_copy { AddressKind::Queue } else { publication.kind });
        if !publication.answer.code.is_error() && answer != Answer::SUCCESS {
            publication.answer = answer;
        }
        publication.left -= 1;
        if publication.left == 0
            && let Some(gone) = self.publications.remove(&(delivery_id / 2))
        {
            let Publication { completion, answer, waiting, .. } = gone;
            self.waiting_bytes -= waiting.map_or(0, |waiting| waiting.sections.len());
            match completion {
                Completion::Answer { packet_id, once } => {
                    self.answer_publish(packet_id, &answer);
                    self.note_answered(packet_id, once, &answer);
                }
                Completion::Record(after) => self.recorded(after, answer == Answer::SUCCESS),
            }
        }
    }

    /// Notes the packet identifier of a publication that the session has to keep, or to forget.
    fn note_answered(&mut self, packet_id: PacketId, once: Once, answer: &Answer) {
        let is_received = !self.sent_code(answer).is_error();
        if once == Once::After && is_received || once == Once::WithMessage && !is_received {
            self.packet_ids.push((packet_id, is_received));
        }
    }

    /// The code of PUBACK or PUBREC; a client of MQTT 3.x gets none.
    fn sent_code(&self, answer: &Answer) -> ReasonCode {
        if self.is_v5() || answer.closes_3x() { answer.code } else { ReasonCode::Success }
    }

    pub(in crate::shard) fn answer_publish(&mut self, packet_id: PacketId, answer: &Answer) {
        let text = answer.text.as_deref().unwrap_or_default();
        if !self.is_v5() && answer.closes_3x() {
            return self.disconnect(answer.code, text);
        }
        let code = self.sent_code(answer);
        // An error means that the connection has ended in the meantime.
        let _ = self.machine.answer_publish(packet_id, code, text);
    }

    /// An address holds the publications back, or lets them continue.
    /// An address holds the publications back, or continues. They are not read for `hold_ms`; then
    /// they are refused, so that the client's acknowledgements are read again (`docs/contracts.md` 10).
    pub(in crate::shard) fn set_held(&mut self, held: bool, hold_ms: u64) {
        if !held {
            (self.held_until, self.sheds, self.is_paused) = (None, false, false);
        } else if self.held_until.is_none() {
            self.held_until = Some(self.now.plus_millis(hold_ms));
        }
    }

    pub(in crate::shard) fn set_reading(&mut self, now: Time, reading: bool) {
        self.now = now;
        self.machine.set_reading(now, reading);
    }

    pub(in crate::shard) fn poll_timeout(&self) -> Option<Time> {
        let shed = self.held_until.filter(|_| !self.sheds);
        let retry = self.retries.front().map(|(at, _)| *at);
        [self.machine.poll_timeout(), shed, retry, self.system_due].into_iter().flatten().min()
    }

    pub(in crate::shard) fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        (self.is_paused, self.is_blocked) = (false, false);
        self.sheds |= self.held_until.is_some_and(|until| until <= now);
        self.machine.handle_timeout(now);
    }

    /// The space is below its rate again.
    pub(in crate::shard) fn resume_publications(&mut self) {
        self.is_paused = false;
    }

    /// Output was written.
    pub(in crate::shard) fn written(&mut self) {
        self.is_blocked = false;
    }

    /// Takes the unacknowledged deliveries of links that end.
    pub(in crate::shard) fn take_unsettled_of(&mut self, links: &[LinkId], mut f: impl FnMut(LinkId, u64)) {
        let ended = self.unacknowledged.extract_if(|_, (link, ..)| links.contains(link));
        let mut ended: Vec<(LinkId, u64, u64)> = ended.map(|(_, delivery)| delivery).collect();
        ended.sort_unstable_by_key(|(.., order)| *order);
        ended.into_iter().for_each(|(link, token, _)| f(link, token));
        if links.contains(&RECORD) {
            self.session.take_tokens().into_iter().for_each(|token| f(RECORD, token));
        }
    }

    /// Ends the connection; its machine reports the end.
    pub(in crate::shard) fn close(&mut self, error: Option<Error>) {
        self.note_failure(error.as_ref());
        let (code, text) = match &error {
            Some(error) if self.machine.is_open() => {
                (codes::closed(error), error.description.as_deref().unwrap_or_default())
            }
            Some(error) => (codes::refused_connect(error), error.description.as_deref().unwrap_or_default()),
            None => (ReasonCode::Success, ""),
        };
        if self.machine.is_open() {
            return self.disconnect(code, text);
        }
        self.closes = true;
        self.login = None;
        if self.machine.refuse(code, text, None).is_err() {
            // There is no CONNECT to refuse: the connection ends without an answer.
            self.machine.transport_closed();
        }
    }

    /// The connection of an agent ends for this reason.
    pub(in crate::shard) fn note_failure(&mut self, error: Option<&Error>) {
        if let Some(serving) = &mut self.serving {
            serving.failure = error.cloned();
        }
    }

    pub(in crate::shard) fn disconnect(&mut self, code: ReasonCode, text: &str) {
        (self.closes, self.is_paused, self.is_blocked) = (true, false, false);
        self.machine.disconnect(code, text, None, UserProperties::NONE);
    }

    pub(in crate::shard) fn sasl_challenge(&mut self, challenge: Vec<u8>) {
        let Some(login) = &mut self.login else {
            // Of a re-authentication (4.12.1). An error means that the connection has ended.
            let _ = self.machine.auth_continue(&challenge);
            return;
        };
        if self.enhanced.is_some() {
            login.awaits_client = true;
            // An error means that the connection has ended in the meantime.
            let _ = self.machine.auth_continue(&challenge);
        } else {
            // Of a password or a token the only challenge is the news of its failure (RFC 7628,
            // 3.2.3), which has to be answered.
            login.respond(vec![1]);
        }
    }

    pub(in crate::shard) fn sasl_outcome(&mut self, code: SaslCode, data: Option<Vec<u8>>) {
        let Some(login) = &mut self.login else { return self.reauthenticated(code, data) };
        if code == SaslCode::Ok {
            return login.authenticated(data);
        }
        self.refuse_login(codes::refused_login(code));
    }

    pub(in crate::shard) fn refuse_login(&mut self, code: ReasonCode) {
        (self.login, self.closes) = (None, true);
        if self.machine.refuse(code, "", None).is_err() {
            // The connection has ended in the meantime, or it is a visit, which has sent no CONNECT.
            self.machine.transport_closed();
        }
    }

    /// The client has a space.
    pub(in crate::shard) fn open(&mut self) {
        if let Some(login) = &mut self.login {
            login.opened();
        }
    }

    /// The client id is this connection's: answers CONNECT.
    pub(in crate::shard) fn ready(&mut self, now: Time) {
        let Some(login) = self.login.take() else { return };
        if self.session.persists() {
            self.grants.push_back(RECORD);
        }
        let expiry_s = self.session.expiry_s;
        let accept = Accept {
            session_present: login.session_present,
            assigned_client_id: login.assigned_client_id(),
            session_expiry_s: (login.session_expiry_s != expiry_s).then_some(expiry_s),
            authentication_data: login.data.as_deref(),
            ..Accept::default()
        };
        // An error means that the connection has ended in the meantime.
        let resumed = std::mem::take(&mut self.session.resumed);
        let _ = self.machine.accept(now, &accept, &resumed);
        if self.session.persists() {
            self.machine.retain_identifiers();
        }
        for delivery in resumed.outgoing {
            self.session.from_node.insert(delivery.packet_id);
            let _ = self.machine.release(delivery.packet_id);
        }
    }

    /// The error of the end of a connection, for its last fact.
    pub(in crate::shard) fn error_of(closed: &Closed) -> Option<Error> {
        let name = format!("{:?}", closed.code);
        let what = if closed.text.is_empty() { name } else { format!("{name}: {}", closed.text) };
        closed.code.is_error().then(|| Error::new(condition::CONNECTION_FORCED, what))
    }

    /// What the deliveries of a subscription are due. A queue gives each message to one consumer, and
    /// keeps it until that has it.
    pub(in crate::shard) fn guarantee(&self, link: LinkId) -> Guarantee {
        let Some(found) = self.link(link).filter(|_| self.serving.is_none()) else { return Guarantee::Outcome };
        match self.granted(&found.filter) {
            Some(QoS::AtMostOnce) if found.entry.kind == AddressKind::Topic => Guarantee::AtMostOnce,
            Some(QoS::AtMostOnce) | None => Guarantee::Outcome,
            Some(QoS::AtLeastOnce | QoS::ExactlyOnce) => Guarantee::Kept,
        }
    }

    /// The highest QoS of deliveries of a filter.
    pub(in crate::shard) fn granted(&self, filter: &str) -> Option<QoS> {
        self.filters.get(filter).map(|filter| filter.options.qos)
    }
}
