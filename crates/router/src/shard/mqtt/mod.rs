//! A connection of MQTT as a connection of the shard (`docs/decisions/0095-mqtt-connections.md`).
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
//! `message` maps messages, `codes` errors and outcomes; `input` handles packets, `login` CONNECT,
//! `subscribing` filters, `sending` deliveries.

mod absent;
mod codes;
mod input;
mod login;
mod message;
mod plain;
mod retained;
mod sending;
mod sessions;
mod subscribing;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use enmasse_amqp::connection::{LinkId, LinkSummary, SendError as LinkError};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Error, Outcome, SaslCode, condition};
use enmasse_mqtt::codec::{PacketId, QoS, ReasonCode, UserProperties, Version};
use enmasse_mqtt::connection::{Accept, Closed, Config, Connection};

use crate::core::AddressKind;
use crate::table::AddressEntry;
pub(super) use absent::AbsentSessions;
pub(super) use sending::Fate;

use absent::Absent;
use codes::Answer;
use login::Login;
use retained::{RETAINED, Reads};
use sessions::{After, RECORD, SessionState};
use subscribing::{Answering, FilterState};

/// Names of the addresses that keep what clients leave behind begin so; no name of a client resolves
/// to one.
pub(super) const MQTT_PREFIX: &str = "$mqtt/";
/// The link of all publications.
pub(super) const PUBLISHER: LinkId = LinkId(0);
/// The link whose name is the client id.
pub(super) const SESSION: LinkId = LinkId(1);
/// Numbers of subscription links begin here.
const FIRST_SUBSCRIPTION: usize = 4;
/// Deliveries that an address may have on their way to one subscription.
const CREDIT: u32 = 256;
/// How long the client's publications are not read while an address holds them back; then they are
/// refused, so that its acknowledgements are read again (`docs/contracts.md` 10).
const HELD_MS: u64 = 10_000;

/// The state of one connection.
pub(super) struct Mqtt {
    machine: Connection,
    /// until the connection is open
    login: Option<Box<Login>>,
    session: SessionState,
    /// set if it visits a session without a client
    visit: Option<Box<Absent>>,
    /// filters of the client, as it sent them
    filters: BTreeMap<Arc<str>, FilterState>,
    /// subscription links by number, from [`FIRST_SUBSCRIPTION`] on
    links: Vec<Option<SubscriptionLink>>,
    /// links to attach, in order
    attaches: VecDeque<LinkId>,
    /// links that are attached and have no credit yet
    grants: VecDeque<LinkId>,
    /// SUBSCRIBE packets without an answer, the first one in progress
    answering: VecDeque<Answering>,
    /// reads of retained messages
    reads: Reads,
    /// the received parts of a retained message
    retained_parts: Vec<u8>,
    /// publications without an outcome, by half of their delivery ids
    publications: HashMap<u32, Publication>,
    /// delivery id of the last publication, an even number; the next one is that of its copy among
    /// the retained messages
    publication: u32,
    /// deliveries that the client has not acknowledged: link, token, and their order
    unacknowledged: HashMap<PacketId, (LinkId, u64, u64)>,
    /// counter of deliveries
    sent: u64,
    /// the beginning of a packet that is larger than what the driver keeps
    partial: Vec<u8>,
    /// since when an address holds the publications back
    held_since: Option<Time>,
    /// publications are refused while they are held back
    sheds: bool,
    /// the next packet is a publication that has to wait
    is_paused: bool,
    /// a whole packet is not read: answers or output have to leave first
    is_blocked: bool,
    /// the connection ends: its machine has an event to report
    closes: bool,
    now: Time,
    /// the last event of the machine was handled
    ended: bool,
}

/// A publication with QoS 1 or 2 that waits for its outcomes.
struct Publication {
    completion: Completion,
    kind: AddressKind,
    /// outcomes that have not come: of the message, and of its copy among the retained ones
    left: u8,
    /// the answer so far
    answer: Answer,
}

/// What follows the outcomes of a publication.
enum Completion {
    /// its acknowledgement
    Answer(PacketId),
    /// it is the record of the session
    Record(After),
}

impl Publication {
    /// `retained`: a copy goes to the retained messages.
    fn new(packet_id: PacketId, kind: AddressKind, retained: bool) -> Self {
        let left = 1 + u8::from(retained);
        Self { completion: Completion::Answer(packet_id), kind, left, answer: Answer::SUCCESS }
    }

    fn of_record(after: After) -> Self {
        Self { completion: Completion::Record(after), kind: AddressKind::Topic, left: 1, answer: Answer::SUCCESS }
    }
}

/// A link to one address on behalf of one filter.
struct SubscriptionLink {
    filter: Arc<str>,
    entry: Arc<AddressEntry>,
    /// the received parts of a delivery
    parts: Vec<u8>,
    /// deliveries since it last stated its credit
    delivered: u32,
    /// the link is attached
    attached: bool,
}

/// The next step of work that an earlier packet has begun.
enum StepOf {
    /// the SASL exchange continues with this response
    Respond(Vec<u8>),
    /// the client is authenticated: find its space
    Open,
    /// it has a space: take its client id
    Register,
    /// look for its session
    Recall,
    /// read the record of the session
    ReadRecord,
    /// continue the session that was found, or discard it
    Resume,
    /// the subscriptions of a discarded session are attached: end them
    Discard,
    /// make the subscription with the record of a new session
    CreateRecord,
    /// store the record of the session
    StoreRecord,
    /// answer CONNECT
    Accept,
    /// store the record with the subscriptions of a SUBSCRIBE
    StoreSubscriptions,
    /// handle the next filter of a SUBSCRIBE
    Filter,
    /// attach this link
    Attach(LinkId),
    /// let deliveries come to this link
    Grant(LinkId),
    /// attach the link that reads retained messages
    BeginRetained,
    /// let retained messages come
    ReadRetained,
    /// detach that link
    EndRetained,
}

impl Mqtt {
    pub(super) fn new(config: Arc<Config>, now: Time) -> Self {
        Self {
            machine: Connection::new(config, now),
            login: None,
            session: SessionState::default(),
            visit: None,
            filters: BTreeMap::new(),
            links: Vec::new(),
            attaches: VecDeque::new(),
            grants: VecDeque::new(),
            answering: VecDeque::new(),
            reads: Reads::default(),
            retained_parts: Vec::new(),
            publications: HashMap::new(),
            publication: 0,
            unacknowledged: HashMap::new(),
            sent: 0,
            partial: Vec::new(),
            held_since: None,
            sheds: false,
            is_paused: false,
            is_blocked: false,
            closes: false,
            now,
            ended: false,
        }
    }

    /// Whether a packet waits for an answer, and later ones with it.
    pub(super) fn waits(&self) -> bool {
        self.login.is_some() || !self.answering.is_empty() || self.is_paused || self.is_blocked
    }

    pub(super) fn output(&mut self) -> &mut Vec<u8> {
        self.machine.output()
    }

    fn is_v5(&self) -> bool {
        self.machine.version().is_some_and(Version::is_v5)
    }

    /// The next step of earlier work.
    fn next_step(&mut self) -> Option<StepOf> {
        if self.ended {
            return None;
        }
        if let Some(link) = self.attaches.pop_front() {
            return Some(StepOf::Attach(link));
        }
        if let Some(login) = &mut self.login {
            return login.next_step();
        }
        if let Some(step) = self.next_filter() {
            return Some(step);
        }
        self.grants.pop_front().map(StepOf::Grant).or_else(|| self.reads.next_step())
    }

    /// Whether a link is the node's own, which the client does not know.
    pub(super) fn is_own(&self, link: LinkId) -> bool {
        (link.0 as usize) < FIRST_SUBSCRIPTION || self.visit.is_some()
    }

    fn link(&self, link: LinkId) -> Option<&SubscriptionLink> {
        self.links.get((link.0 as usize).checked_sub(FIRST_SUBSCRIPTION)?)?.as_ref()
    }

    fn link_mut(&mut self, link: LinkId) -> Option<&mut SubscriptionLink> {
        self.links.get_mut((link.0 as usize).checked_sub(FIRST_SUBSCRIPTION)?)?.as_mut()
    }

    /// The state of a subscription, for management. The node's own links have none.
    pub(super) fn link_summary(&self, link: LinkId) -> Option<LinkSummary<'_>> {
        let found = self.link(link)?;
        Some(LinkSummary { name: &found.filter, credit: CREDIT, deliveries: 0, unsettled: 0 })
    }

    /// Forgets a link; its number may be used again.
    fn take_link(&mut self, link: LinkId) -> Option<SubscriptionLink> {
        self.links.get_mut((link.0 as usize).checked_sub(FIRST_SUBSCRIPTION)?)?.take()
    }
}

/// The calls of [`super::machine::Machine`].
impl Mqtt {
    /// A link is attached.
    pub(super) fn accept(&mut self, link: LinkId) {
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
    pub(super) fn refuse(&mut self, link: LinkId, error: &Error) {
        if link == SESSION {
            return self.close(Some(error.clone()));
        }
        match link {
            RETAINED => return self.reads.refused(),
            RECORD => return self.record_refused(error),
            _ => {}
        }
        self.take_link(link);
        if let Some(answering) = self.answering.front_mut() {
            answering.refused(error);
        }
    }

    /// A link has ended: its address is deleted, or its right is gone. MQTT has no word for the
    /// first; the filter stays, and covers the address again when it returns.
    pub(super) fn detach(&mut self, link: LinkId, error: Option<Error>) {
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

    pub(super) fn drained(&mut self, link: LinkId) {
        match link {
            RETAINED => self.reads.drained(),
            RECORD => self.record_drained(),
            _ => {}
        }
    }

    /// The credit of a subscription is constant: output and unacknowledged deliveries bound what is
    /// on its way.
    pub(super) fn credit(&self, link: LinkId) -> u32 {
        match self.link(link) {
            Some(link) if link.attached => CREDIT,
            None if link == RETAINED => self.reads.credit(),
            None if link == RECORD => self.session.credit(),
            _ => 0,
        }
    }

    /// A piece that is not a delivery: only an aborted one.
    pub(super) fn transfer(
        &mut self,
        link: LinkId,
        _piece: enmasse_amqp::connection::Outgoing<'_>,
    ) -> Result<(), LinkError> {
        match self.link_mut(link) {
            Some(state) => {
                state.parts = Vec::new();
                Ok(())
            }
            None => Err(LinkError::NotAttached),
        }
    }

    /// The outcome of a publication.
    pub(super) fn settle(&mut self, delivery_id: u32, outcome: &Outcome) {
        self.is_blocked = false;
        let is_copy = delivery_id % 2 == 1;
        let Some(publication) = self.publications.get_mut(&(delivery_id / 2)) else { return };
        let answer = codes::settled_publish(outcome, if is_copy { AddressKind::Queue } else { publication.kind });
        if !publication.answer.code.is_error() && answer != Answer::SUCCESS {
            publication.answer = answer;
        }
        publication.left -= 1;
        if publication.left == 0
            && let Some(Publication { completion, answer, .. }) = self.publications.remove(&(delivery_id / 2))
        {
            match completion {
                Completion::Answer(packet_id) => self.answer_publish(packet_id, &answer),
                Completion::Record(after) => self.recorded(after, answer == Answer::SUCCESS),
            }
        }
    }

    fn answer_publish(&mut self, packet_id: PacketId, answer: &Answer) {
        let text = answer.text.as_deref().unwrap_or_default();
        if !self.is_v5() && answer.closes_3x() {
            return self.disconnect(answer.code, text);
        }
        let code = if self.is_v5() { answer.code } else { ReasonCode::Success };
        // An error means that the connection has ended in the meantime.
        let _ = self.machine.answer_publish(packet_id, code, text);
    }

    /// An address holds the publications back, or lets them continue.
    pub(super) fn set_held(&mut self, held: bool) {
        if !held {
            (self.held_since, self.sheds, self.is_paused) = (None, false, false);
        } else if self.held_since.is_none() {
            self.held_since = Some(self.now);
        }
    }

    pub(super) fn set_reading(&mut self, now: Time, reading: bool) {
        self.now = now;
        self.machine.set_reading(now, reading);
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let shed = self.held_since.filter(|_| !self.sheds).map(|since| since.plus_millis(HELD_MS));
        [self.machine.poll_timeout(), shed].into_iter().flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        (self.is_paused, self.is_blocked) = (false, false);
        self.sheds |= self.held_since.is_some_and(|since| since.plus_millis(HELD_MS) <= now);
        self.machine.handle_timeout(now);
    }

    /// Output was written.
    pub(super) fn written(&mut self) {
        self.is_blocked = false;
    }

    /// Takes the unacknowledged deliveries of links that end.
    pub(super) fn take_unsettled_of(&mut self, links: &[LinkId], mut f: impl FnMut(LinkId, u64)) {
        let ended = self.unacknowledged.extract_if(|_, (link, ..)| links.contains(link));
        let mut ended: Vec<(LinkId, u64, u64)> = ended.map(|(_, delivery)| delivery).collect();
        ended.sort_unstable_by_key(|(.., order)| *order);
        ended.into_iter().for_each(|(link, token, _)| f(link, token));
        if links.contains(&RECORD) {
            self.session.take_tokens().into_iter().for_each(|token| f(RECORD, token));
        }
    }

    /// Ends the connection; its machine reports the end.
    pub(super) fn close(&mut self, error: Option<Error>) {
        let (code, text) = match &error {
            Some(error) => (codes::closed(error), error.description.as_deref().unwrap_or_default()),
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

    fn disconnect(&mut self, code: ReasonCode, text: &str) {
        (self.closes, self.is_paused, self.is_blocked) = (true, false, false);
        self.machine.disconnect(code, text, None, UserProperties::NONE);
    }

    pub(super) fn sasl_challenge(&mut self, challenge: Vec<u8>) {
        let Some(login) = &mut self.login else { return };
        if login.is_enhanced() {
            // An error means that the connection has ended in the meantime.
            let _ = self.machine.auth_continue(&challenge);
        } else {
            // Of a password or a token the only challenge is the news of its failure (RFC 7628,
            // 3.2.3), which has to be answered.
            login.respond(vec![1]);
        }
    }

    pub(super) fn sasl_outcome(&mut self, code: SaslCode, data: Option<Vec<u8>>) {
        let Some(login) = &mut self.login else { return };
        if code == SaslCode::Ok {
            return login.authenticated(data);
        }
        self.refuse_login(codes::refused_login(code));
    }

    fn refuse_login(&mut self, code: ReasonCode) {
        (self.login, self.closes) = (None, true);
        // An error means that the connection has ended in the meantime.
        let _ = self.machine.refuse(code, "", None);
    }

    /// The client has a space.
    pub(super) fn open(&mut self) {
        if let Some(login) = &mut self.login {
            login.opened();
        }
    }

    /// The client id is this connection's: answers CONNECT.
    fn ready(&mut self, now: Time) {
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
        for delivery in resumed.outgoing {
            let _ = self.machine.release(delivery.packet_id);
        }
    }

    /// The error of the end of a connection, for its last fact.
    fn error_of(closed: &Closed) -> Option<Error> {
        let name = format!("{:?}", closed.code);
        let what = if closed.text.is_empty() { name } else { format!("{name}: {}", closed.text) };
        closed.code.is_error().then(|| Error::new(condition::CONNECTION_FORCED, what))
    }

    /// The highest QoS of deliveries of a filter.
    fn granted(&self, filter: &str) -> Option<QoS> {
        self.filters.get(filter).map(|filter| filter.options.qos)
    }
}

/// The space of a client keeps no sessions.
fn no_session() -> Error {
    Error::new(condition::NOT_FOUND, "the address space keeps no such session")
}
