//! The management node `$management` (AMQP Management, working draft 11; `docs/contracts.md` 9):
//! clients query the addresses of their space.
//!
//! A request arrives over a link to the node and names the destination of its answer: a dynamic
//! node, an address that the client may send to, or the target of a receiver of its own on
//! `$management`. The answer is sent there as if the client had sent it, and the request is settled
//! with it. A request occupies the link's window until a consumer has received the answer.
//!
//! - `READ` of an `enmasse.address` by `name`: the router's state of it, requested from its home
//! - `QUERY`: the addresses that the client may receive from, or all with the right to view, in the
//!   order of their names

use std::sync::Arc;

use enmasse_amqp::codec::{decode_message, decode_state, encode_message, encode_value};
use enmasse_amqp::connection::{Incoming, LinkId};
use enmasse_amqp::types::{Attach, Body, DeliveryState, Error, Message, Outcome, Properties, Target, Value, condition};

use super::conn::{Anonymous, Beginning, Conn, DynamicNode, Link, ManagementRequest, Question, Requests, Service};
use super::credit_window::CreditWindow;
use super::terminus::{Terminus, reply};
use super::terms::whole;
use super::{ConnId, Shard};
use crate::core::{AddressDescription, AddressKind, QuestionId, ToHome};
use crate::plan::Operation;
use crate::table::{AddressEntry, Space};

/// The name of the node.
pub(super) const MANAGEMENT: &str = "$management";

/// Requests of one link whose answers no consumer has received yet.
const REQUESTS_MAX: u32 = 16;
/// Bytes of a request.
const REQUEST_BYTES: u64 = 16 * 1024;
/// Most bytes of the results of one `QUERY`; results that do not fit are cut.
const RESULTS_BYTES: usize = 128 * 1024;
const ENTITY_TYPE: &str = "enmasse.address";
/// The attributes of an address in a `QUERY`.
const ATTRIBUTES: [&str; 5] = ["name", "identity", "type", "uid", "addressType"];

/// Status codes, which are those of HTTP (working draft, 3.2).
const OK: i32 = 200;
const BAD_REQUEST: i32 = 400;
const UNAUTHORIZED: i32 = 401;
const FORBIDDEN: i32 = 403;
const NOT_FOUND: i32 = 404;
const NOT_IMPLEMENTED: i32 = 501;
const UNAVAILABLE: i32 = 503;

/// The response to a request.
struct Answer {
    status: i32,
    text: String,
    body: Value,
}

impl Answer {
    fn found(body: Vec<(Value, Value)>) -> Self {
        Self { status: OK, text: "OK".to_owned(), body: Value::Map(body) }
    }

    fn failed(status: i32, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), body: Value::Map(Vec::new()) }
    }

    fn encode(self, request: &ManagementRequest) -> Vec<u8> {
        let properties = Properties {
            to: Some(request.reply_to.clone()),
            correlation_id: request.correlation_id.clone(),
            ..Properties::default()
        };
        let status = [("statusCode", Value::Int(self.status)), ("statusDescription", Value::String(self.text))];
        let message = Message {
            properties: Some(properties),
            application_properties: status.map(|(name, value)| (name.to_owned(), value)).into(),
            body: Body::Value(self.body),
            ..Message::default()
        };
        let mut bytes = Vec::new();
        encode_message(&mut bytes, &message);
        bytes
    }
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

/// An application property that is a string and not empty.
fn named<'a>(message: &'a Message, name: &str) -> Result<&'a str, Answer> {
    match property(message, name) {
        Some(Value::String(value)) if !value.is_empty() => Ok(value),
        Some(_) => Err(Answer::failed(BAD_REQUEST, format!("application-property \"{name}\" must be a string"))),
        None => Err(Answer::failed(BAD_REQUEST, format!("application-property \"{name}\" is missing"))),
    }
}

/// An application property that is a number and not negative.
fn number(message: &Message, name: &str) -> Result<Option<usize>, Answer> {
    let Some(value) = property(message, name) else { return Ok(None) };
    let wrong = || Answer::failed(BAD_REQUEST, format!("application-property \"{name}\" must be a number from 0 on"));
    whole(value).and_then(|number| usize::try_from(number).ok()).map(Some).ok_or_else(wrong)
}

fn property<'a>(message: &'a Message, name: &str) -> Option<&'a Value> {
    let found = message.application_properties.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value).filter(|value| **value != Value::Null)
}

/// Checks that a property names the only entity type.
fn check_type(message: &Message, name: &str) -> Result<(), Answer> {
    let entity = named(message, name)?;
    if entity == ENTITY_TYPE {
        return Ok(());
    }
    let what =
        format!("application-property \"{name}\" is \"{entity}\": use \"{ENTITY_TYPE}\", the only type there is");
    Err(Answer::failed(BAD_REQUEST, what))
}

/// The names of attributes that the body of a `QUERY` requests; all if it requests none.
fn wanted_attributes(message: &Message) -> Result<Vec<String>, Answer> {
    let wrong = || {
        let what = "the body of a QUERY must be a map whose \"attributeNames\" is a list of strings (empty: all)";
        Answer::failed(BAD_REQUEST, what)
    };
    let names = match &message.body {
        Body::Value(Value::Map(map)) => map.iter().find(|(key, _)| *key == text("attributeNames")),
        Body::Empty | Body::Value(Value::Null) => None,
        _ => return Err(wrong()),
    };
    let requested = match names {
        None => Vec::new(),
        Some((_, Value::List(names))) => names
            .iter()
            .map(|name| if let Value::String(name) = name { Ok(name.clone()) } else { Err(wrong()) })
            .collect::<Result<_, _>>()?,
        Some(_) => return Err(wrong()),
    };
    Ok(if requested.is_empty() { ATTRIBUTES.map(str::to_owned).into() } else { requested })
}

/// The type of a declared address, as in `spec.type`.
fn address_type(entry: &AddressEntry) -> &'static str {
    let storage = entry.storage.as_ref();
    match entry.kind {
        AddressKind::Anycast => "anycast",
        AddressKind::Multicast => "multicast",
        AddressKind::Topic | AddressKind::Stream => "topic",
        AddressKind::Queue if storage.is_some_and(|storage| storage.topic.is_some()) => "subscription",
        AddressKind::Queue if storage.is_some_and(|storage| storage.read_only) => "deadletter",
        AddressKind::Queue => "queue",
    }
}

fn attribute(entry: &AddressEntry, name: &str) -> Value {
    match name {
        "name" => text(&entry.name),
        "identity" | "uid" => text(&entry.uid),
        "type" => text(ENTITY_TYPE),
        "addressType" => text(address_type(entry)),
        _ => Value::Null,
    }
}

fn description(entry: &AddressEntry, found: AddressDescription) -> Answer {
    let mut body: Vec<_> = ATTRIBUTES.iter().map(|name| (text(name), attribute(entry, name))).collect();
    body.push((text("depth"), Value::Ulong(found.depth)));
    body.push((text("consumers"), Value::Uint(found.consumers)));
    body.push((text("producers"), Value::Uint(found.producers)));
    body.extend(found.partitions.map(|partitions| (text("partitions"), partitions)));
    Answer::found(body)
}

/// Whether the peer may see an address. Without the right it cannot learn which addresses exist.
fn may_see(conn: &Conn, name: &str) -> bool {
    let Some((_, rights)) = &conn.access else { return false };
    rights.may(Operation::View, name) || rights.may(Operation::Recv, name)
}

/// The addresses that a peer may see, from `offset` on, in the order of their names.
fn query(conn: &Conn, space: &Space, message: &Message) -> Result<Answer, Answer> {
    if property(message, "entityType").is_some() {
        check_type(message, "entityType")?;
    }
    let names = wanted_attributes(message)?;
    let offset = number(message, "offset")?.unwrap_or(0);
    let count = number(message, "count")?.unwrap_or(usize::MAX);
    let seen = space.addresses().filter(|entry| may_see(conn, &entry.name));
    let (mut results, mut encoded) = (Vec::new(), Vec::new());
    for entry in seen.skip(offset).take(count) {
        let row = Value::List(names.iter().map(|name| attribute(entry, name)).collect());
        encode_value(&mut encoded, &row);
        if encoded.len() > RESULTS_BYTES {
            break;
        }
        results.push(row);
    }
    let names = Value::List(names.into_iter().map(Value::String).collect());
    Ok(Answer::found(vec![(text("attributeNames"), names), (text("results"), Value::List(results))]))
}

impl Shard {
    /// The peer attaches a link for requests to a service, whose name is `name`.
    pub(super) fn attach_requests(
        &mut self,
        id: ConnId,
        link: LinkId,
        attach: &Attach,
        (service, name): (Service, &str),
    ) {
        let conn = &mut self.fabric.conns[id.key()];
        conn.settled_here = true;
        let requests = Some(Requests { service, bytes: Vec::new() });
        let node = Anonymous { requests, ..Anonymous::new(CreditWindow::new(REQUESTS_MAX)) };
        conn.set_link(link, Link::Anonymous(Box::new(node)));
        let terminus = Terminus { name: Some(name), kind: None, dynamic: false, terms: None };
        conn.machine.accept(link, reply(attach, &terminus, Some(REQUEST_BYTES)));
        if let Some(credit) = conn.credit(link.0, CreditWindow::open) {
            self.fabric.grant(id.key, link.0, credit);
        }
    }

    /// The peer attaches a receiver for answers of the management node. Its target, or else its link
    /// name, is the address of answers.
    pub(super) fn attach_answers(&mut self, id: ConnId, link: LinkId, attach: &Attach) -> Result<(), Error> {
        let called = match attach.target.as_deref() {
            Some(Target::Node { address: Some(address), .. }) if !address.is_empty() => address,
            _ => &attach.name,
        };
        self.attach_called(id, link, attach, MANAGEMENT, called)
    }

    /// The peer attaches a receiver on `source` for answers to the address `called`; a dynamic node
    /// of this link holds them.
    pub(super) fn attach_called(
        &mut self,
        id: ConnId,
        link: LinkId,
        attach: &Attach,
        source: &str,
        called: &str,
    ) -> Result<(), Error> {
        let conn = &self.fabric.conns[id.key()];
        if conn.dynamic.iter().any(|node| node.called.as_deref() == Some(called)) {
            let what = format!("attach.target.address: another receiver of \"{source}\" is already named \"{called}\"");
            return Err(Error::new(condition::NOT_ALLOWED, what));
        }
        let entry = self.make_node(id, AddressKind::Anycast)?;
        let node = DynamicNode { link, entry: Arc::clone(&entry), called: Some(called.into()) };
        self.fabric.conns[id.key()].dynamic.push(node);
        self.attach_at(id, link, attach, &[entry], source, &None);
        Ok(())
    }

    /// A frame of a request.
    pub(super) fn incoming_request(&mut self, id: ConnId, incoming: &Incoming<'_>) {
        let now = self.fabric.now;
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let Some(Link::Anonymous(node)) = conn.links.get_mut(incoming.link.0 as usize) else { return };
        let Some(Requests { service, bytes }) = node.requests.as_mut() else { return };
        if incoming.first {
            node.window.received(now);
            bytes.clear();
            node.beginning = None;
        }
        if let Some(state) = incoming.state {
            let (bytes, next_scan, state) = (Vec::new(), 0, Some(state.into()));
            node.beginning.get_or_insert(Beginning { bytes, next_scan, state, tag: incoming.tag.into() });
        }
        if incoming.aborted {
            bytes.clear();
            return self.fabric.link_taken(id.key, incoming.link.0, 1);
        }
        bytes.extend_from_slice(incoming.payload);
        if incoming.more {
            return;
        }
        let (service, bytes) = (*service, std::mem::take(bytes));
        let beginning = node.beginning.take();
        if let Some(state) = beginning.as_ref().and_then(|beginning| beginning.state.as_deref())
            && matches!(decode_state(state), Ok(DeliveryState::Transactional(_)))
        {
            let what = "requests to the node take no part in transactions: send them outside of one";
            let error = Error::new(condition::NOT_IMPLEMENTED, what);
            return self.refuse_incoming(id, &Incoming { state: Some(state), ..*incoming }, error);
        }
        let delivery_id = (!incoming.settled).then_some(incoming.delivery_id);
        let message = match decode_message(&bytes) {
            Ok(message) => message,
            Err(error) => return self.refuse_request(id, incoming.link, delivery_id, error.into()),
        };
        match service {
            Service::Management => self.manage(id, incoming.link, delivery_id, &message),
            Service::Subscriptions => self.ask_subscription(id, incoming.link, delivery_id, &message),
        }
    }

    /// A request to the management node.
    fn manage(&mut self, id: ConnId, link: LinkId, delivery_id: Option<u32>, message: &Message) {
        let Some(Properties { reply_to: Some(reply_to), message_id, correlation_id, .. }) = &message.properties else {
            let what = "properties.reply-to is missing: name the dynamic node or the receiver for the answer";
            let error = Error::new(condition::INVALID_FIELD, what);
            return self.refuse_request(id, link, delivery_id, error);
        };
        let correlation_id = correlation_id.clone().or_else(|| message_id.clone());
        let request = ManagementRequest { delivery_id, reply_to: reply_to.clone(), correlation_id };
        self.ask(id, link, request, message);
    }

    /// Answers a request, or sends a question to the home of its address.
    fn ask(&mut self, id: ConnId, link: LinkId, request: ManagementRequest, message: &Message) {
        let conn = &self.fabric.conns[id.key()];
        let requested = named(message, "operation").and_then(|operation| match operation {
            "READ" => self.read_of(conn, message).map(Some),
            "QUERY" => Ok(None),
            other => {
                let what = format!("application-property \"operation\" is \"{other}\": use READ or QUERY");
                Err(Answer::failed(NOT_IMPLEMENTED, what))
            }
        });
        let space = conn.access.as_ref().and_then(|(space, _)| self.table.space(*space));
        let entry = match (requested, space) {
            (Ok(Some(entry)), _) => entry,
            (Ok(None), Some(space)) => {
                let answer = query(conn, space, message).unwrap_or_else(|failed| failed);
                return self.respond(id, link, &request, answer);
            }
            (Ok(None), None) => return,
            (Err(failed), _) => return self.respond(id, link, &request, failed),
        };
        self.questions += 1;
        let (number, address) = (self.questions, entry.key);
        let question = QuestionId { shard: self.fabric.index, conn: id.key, number };
        // One that has no home yet is not here either.
        let home = entry.home.get().unwrap_or(self.fabric.index);
        self.fabric.conns[id.key()].questions.push(Question { number, link, request, entry });
        self.send_to_home(home, ToHome::Describe { question, address });
    }

    /// The address of a `READ`.
    fn read_of(&self, conn: &Conn, message: &Message) -> Result<Arc<AddressEntry>, Answer> {
        check_type(message, "type")?;
        let name = named(message, "name")?;
        if !may_see(conn, name) {
            let (status, who) = conn.user().map_or((UNAUTHORIZED, "anonymous"), |user| (FORBIDDEN, user));
            let what = format!("application-property \"name\": user \"{who}\" may not see \"{name}\"");
            return Err(Answer::failed(status, what));
        }
        let found = self.find(conn, name).filter(|entry| *entry.name == *name);
        found.ok_or_else(|| {
            let what = format!("application-property \"name\": no address \"{name}\" in this address space");
            Answer::failed(NOT_FOUND, what)
        })
    }

    /// The homes of addresses have answered.
    pub(super) fn answer_questions(&mut self) {
        for (question, found) in std::mem::take(&mut self.fabric.described) {
            self.answer_question(question, found);
        }
    }

    fn answer_question(&mut self, question: QuestionId, found: Option<AddressDescription>) {
        let Some(conn) = self.fabric.conns.get_mut(question.conn as usize) else { return };
        let Some(at) = conn.questions.iter().position(|requested| requested.number == question.number) else { return };
        let Question { link, request, entry, .. } = conn.questions.swap_remove(at);
        self.describe_to(self.id(question.conn), link, &request, &entry, found);
    }

    fn describe_to(
        &mut self,
        id: ConnId,
        link: LinkId,
        request: &ManagementRequest,
        entry: &AddressEntry,
        found: Option<AddressDescription>,
    ) {
        let answer = match found {
            Some(found) => description(entry, found),
            // A direct address has no state before its first use.
            None if !entry.kind.stores() => description(entry, AddressDescription::default()),
            None => Answer::failed(UNAVAILABLE, format!("\"{}\" is being opened or deleted: try again", entry.name)),
        };
        self.respond(id, link, request, answer);
    }

    fn respond(&mut self, id: ConnId, link: LinkId, request: &ManagementRequest, answer: Answer) {
        self.send_answer(id, link, request, &answer.encode(request));
    }

    /// Sends an answer to the destination that the request names, and settles the request.
    pub(super) fn send_answer(&mut self, id: ConnId, link: LinkId, request: &ManagementRequest, payload: &[u8]) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let own = conn.dynamic.iter().find(|node| node.called.as_deref() == Some(&request.reply_to));
        let to = own.map_or_else(|| request.reply_to.clone(), |node| node.entry.name.to_string());
        let route = match self.route_to(id, link, &to) {
            Ok(route) => route,
            Err(error) => return self.refuse_request(id, link, request.delivery_id, error),
        };
        if let (Some(delivery_id), Some(conn)) = (request.delivery_id, self.fabric.conns.get_mut(id.key())) {
            conn.machine.settle(link, delivery_id, &Outcome::Accepted);
        }
        let message = Incoming {
            link,
            delivery_id: 0,
            first: true,
            more: false,
            aborted: false,
            settled: true,
            message_format: 0,
            payload,
            tag: &[],
            resume: false,
            state: None,
        };
        self.deliver(route.attachment, route.home, &message);
        self.fabric.mark(id.key);
    }

    /// Accepts a request without an answer.
    pub(super) fn accept_request(&mut self, id: ConnId, link: LinkId, delivery_id: Option<u32>) {
        self.settle_request(id, link, delivery_id, &Outcome::Accepted);
    }

    /// Rejects a request.
    pub(super) fn refuse_request(&mut self, id: ConnId, link: LinkId, delivery_id: Option<u32>, error: Error) {
        self.settle_request(id, link, delivery_id, &Outcome::Rejected(Some(Box::new(error))));
    }

    fn settle_request(&mut self, id: ConnId, link: LinkId, delivery_id: Option<u32>, outcome: &Outcome) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        if let Some(delivery_id) = delivery_id {
            conn.machine.settle(link, delivery_id, outcome);
        }
        self.fabric.link_taken(id.key, link.0, 1);
        self.fabric.mark(id.key);
    }
}
