//! The subscription service for AMQP clients (`$subctrl`; `docs/guide/mqtt.md`).
//!
//! A request is a message to the service. Its subject is the operation, and its correlation-id names
//! the subscription of the user:
//!
//! - `subscribe`: the body maps filters of MQTT to QoS; it adds them, all or none
//! - `unsubscribe`: the body lists filters to remove
//! - `close`: ends the subscription
//! - `list`: the answer to reply-to has the subject `subscriptions` and a map as in `subscribe`
//!
//! A receiver on the name gets the messages. A subscription is a session of MQTT without a client:
//! an agent has it while requests or a receiver need it (`mqtt_clients::subscription_agents`). So
//! its filters and messages are on disk, and each filter needs the right to receive.

use enmasse_amqp::codec::encode_message;
use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Attach, Body, Error, Message, MessageId, Properties, Role, Value, condition};
use enmasse_mqtt::codec::QoS;
use enmasse_mqtt::topic::Filter;
use smallvec::SmallVec;

use super::conn::{Attaching, Link, ManagementRequest, UsedSubscription};
use super::link_names::LinkHolder;
use super::management::MANAGEMENT;
use super::mqtt::links::request;
use super::mqtt::serving::{ReceiverState, ServiceOperation, ServiceReceiver, ServiceRequest, Serving};
use super::mqtt_clients::SessionOwner;
use super::terminus::{Terminus, reply};
use super::terms::whole;
use super::{ConnId, DYNAMIC_PREFIX, Shard};
use crate::core::AddressKind;
use crate::plan::Operation;
use crate::table::pattern::is_wildcard;

/// The names of the service: the last one of the original, and the first.
pub(super) const SUBSCRIPTION_SERVICES: [&str; 2] = ["$subctrl", "$mqtt.subscriptionservice"];
/// The subject of the answer to `list`.
const ANSWER: &str = "subscriptions";
/// Bytes of the name of a subscription.
const NAME_BYTES_MAX: usize = 900;
/// The name of the link that stands for the receiver of a subscription in the registry.
const RECEIVER: &str = "receiver";

/// Whether a name is one of those that gateways of the original use. No address is declared with it,
/// and none that opens all names covers it.
pub(super) fn is_of_gateway(name: &str) -> bool {
    name.starts_with("$mqtt.to.")
}

/// Whether it is one on which they receive answers: a node of the connection that attaches to it.
pub(super) fn is_control_name(name: &str) -> bool {
    is_of_gateway(name) && name.ends_with(".control")
}

/// Whether a subscription may have a name: one to which a receiver attaches as to an address.
fn is_subscription_name(name: &str) -> bool {
    let is_plain = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(char::is_control);
    let is_of_node = name == MANAGEMENT || name.starts_with(DYNAMIC_PREFIX) || is_control_name(name);
    is_plain && !is_wildcard(name) && !is_of_node
}

fn invalid(what: impl Into<String>) -> Error {
    Error::new(condition::INVALID_FIELD, what.into())
}

/// The name and the operation of a request.
///
/// # Errors
/// `amqp:invalid-field` for what is missing or wrong; `amqp:not-implemented` for filters that AMQP
/// receivers do not have.
fn request_of(message: &Message) -> Result<(String, ServiceOperation), Error> {
    let Some(Properties { subject, correlation_id, reply_to, .. }) = &message.properties else {
        return Err(invalid("properties are missing: set subject and correlation-id"));
    };
    let Some(MessageId::String(name)) = correlation_id.as_ref().filter(|_| subject.is_some()) else {
        let missing = if subject.is_none() { "subject" } else { "correlation-id" };
        return Err(invalid(match missing {
            "subject" => "properties.subject is missing: set it to subscribe, unsubscribe, close or list",
            _ => "properties.correlation-id must be a string: the name of the subscription",
        }));
    };
    if !is_subscription_name(name) {
        return Err(invalid(format!(
            "properties.correlation-id must name the subscription: 1 to {NAME_BYTES_MAX} bytes without wildcards and \
             control characters, and no node of the container"
        )));
    }
    let operation = match subject.as_deref().unwrap_or_default() {
        "subscribe" => ServiceOperation::Subscribe(filters_to_add(&message.body)?),
        "unsubscribe" => ServiceOperation::Unsubscribe(filters_to_remove(&message.body)?),
        "close" => ServiceOperation::Close,
        "list" => {
            let Some(reply_to) = reply_to.clone() else {
                return Err(invalid("properties.reply-to is missing: name the address for the answer"));
            };
            ServiceOperation::List { reply_to, correlation_id: correlation_id.clone() }
        }
        other => {
            let what = format!("properties.subject is \"{other}\": use subscribe, unsubscribe, close or list");
            return Err(invalid(what));
        }
    };
    Ok((name.clone(), operation))
}

/// The filters in the body of `subscribe`.
fn filters_to_add(body: &Body) -> Result<Vec<(String, QoS)>, Error> {
    let Body::Value(Value::Map(map)) = body else {
        return Err(invalid("the body of subscribe must be a map from topic filters to QoS"));
    };
    if map.is_empty() {
        return Err(invalid("the body of subscribe is empty: name a topic filter and its QoS"));
    }
    map.iter()
        .map(|(filter, qos)| {
            let filter = filter_of(filter)?;
            let qos = whole(qos).and_then(|qos| QoS::from_bits(qos.try_into().ok()?));
            let qos = qos.ok_or_else(|| invalid(format!("body: the QoS of \"{filter}\" must be 0, 1 or 2")))?;
            check_filter(&filter)?;
            Ok((filter, qos))
        })
        .collect()
}

/// The filters in the body of `unsubscribe`.
fn filters_to_remove(body: &Body) -> Result<Vec<String>, Error> {
    let Body::Value(Value::List(filters) | Value::Array(filters)) = body else {
        return Err(invalid("the body of unsubscribe must be a list of topic filters"));
    };
    filters.iter().map(filter_of).collect()
}

fn filter_of(value: &Value) -> Result<String, Error> {
    match value {
        Value::String(filter) => Ok(filter.clone()),
        Value::Symbol(filter) => Ok(filter.as_str().to_owned()),
        _ => Err(invalid("body: a topic filter must be a string")),
    }
}

/// Receivers of AMQP have one more wildcard, `*`, and no values of the node's own topics.
fn check_filter(text: &str) -> Result<(), Error> {
    let Ok(filter) = Filter::parse(text) else {
        let what =
            format!("body: \"{text}\" is no topic filter: \"+\" stands for one level, \"#\" for all that follow");
        return Err(invalid(what));
    };
    let what = match filter.as_str() {
        filter if filter.starts_with('$') => "names of the node's own: only clients of MQTT may subscribe to them",
        filter if filter.contains('*') => "a filter with \"*\": use \"+\" for one level",
        _ => return Ok(()),
    };
    Err(Error::new(condition::NOT_IMPLEMENTED, format!("body: \"{text}\" is {what}")))
}

/// The answer to `list`.
fn encode_list(filters: Vec<(String, QoS)>, request: &ManagementRequest) -> Vec<u8> {
    let entries = filters.into_iter().map(|(filter, qos)| (Value::String(filter), Value::Ubyte(qos as u8)));
    let message = Message {
        properties: Some(Properties {
            to: Some(request.reply_to.clone()),
            subject: Some(ANSWER.to_owned()),
            correlation_id: request.correlation_id.clone(),
            ..Properties::default()
        }),
        body: Body::Value(Value::Map(entries.collect())),
        ..Message::default()
    };
    let mut bytes = Vec::new();
    encode_message(&mut bytes, &message);
    bytes
}

impl Shard {
    /// A request to the service.
    pub(super) fn ask_subscription(&mut self, id: ConnId, link: LinkId, delivery_id: Option<u32>, message: &Message) {
        let found = request_of(message).and_then(|(name, operation)| {
            self.check_free(id, &name, &operation)?;
            Ok((name, operation))
        });
        match found {
            Err(error) => self.refuse_request(id, link, delivery_id, error),
            Ok((name, operation)) => {
                let request = ServiceRequest { link: Some(link), delivery_id, operation };
                self.pass_to_agent(id, &name, |serving| serving.requests.push_back(request));
            }
        }
    }

    /// Refuses a subscription with the name of an address: a receiver on it would get the messages of
    /// the address.
    fn check_free(&self, id: ConnId, name: &str, operation: &ServiceOperation) -> Result<(), Error> {
        let conn = &self.fabric.conns[id.key()];
        let subscribes = matches!(operation, ServiceOperation::Subscribe(_)) && !is_of_gateway(name);
        if subscribes && conn.check_right(Operation::Recv, name).is_ok() && self.find(conn, name).is_some() {
            let what = format!(
                "properties.correlation-id: \"{name}\" is the name of an address: choose another one, such as \
                 \"$mqtt.to.CLIENT.publish\""
            );
            return Err(Error::new(condition::NOT_ALLOWED, what));
        }
        Ok(())
    }

    /// Whether the name of a refused receiver may be that of a subscription.
    pub(super) fn may_be_subscription(&self, id: ConnId, role: Role, name: &str, refusal: &Error) -> bool {
        let space = self.fabric.conns[id.key()].access.as_ref().and_then(|(space, _)| self.table.space(*space));
        let has_store = space.is_some_and(|space| space.mqtt().is_some());
        let conditions = [condition::NOT_FOUND, condition::UNAUTHORIZED_ACCESS];
        let is_unknown = conditions.iter().any(|one| one.as_str() == refusal.condition.as_str());
        role == Role::Receiver && has_store && is_unknown && is_subscription_name(name)
    }

    /// The peer attaches a receiver to a name that is no address for it: to its subscription of that
    /// name, or it gets `refusal`. One receiver has a subscription; it takes over from another one.
    pub(super) fn attach_subscriber(
        &mut self,
        id: ConnId,
        link: LinkId,
        attach: Box<Attach>,
        name: &str,
        refusal: Error,
    ) {
        let conn = &self.fabric.conns[id.key()];
        let Some((space, _)) = &conn.access else { return };
        let holder = LinkHolder { shard: self.fabric.index, conn: id, link };
        let client_id = SessionOwner::Subscription(name.to_owned()).client_id();
        let digest = self.shared.link_names.digest(space.0, conn.user(), &client_id, &request(RECEIVER.to_owned()));
        let Some(attach) = self.register(holder, digest, attach) else { return };
        let size = self.shared.message_size_max;
        let conn = &mut self.fabric.conns[id.key()];
        conn.settled_here = true;
        conn.set_link(link, Link::Consumer { attachments: SmallVec::new(), wildcard: None });
        let terminus = Terminus { name: Some(name), kind: Some(AddressKind::Queue), dynamic: false, terms: None };
        let reply = reply(&attach, &terminus, size);
        let attaching = Attaching { link, name: name.into(), reply, waits_for: 1, refusal: None, greeting: None };
        conn.attaching = Some(Box::new(attaching));
        let receiver = ServiceReceiver { link, state: ReceiverState::Attaching, refusal };
        self.pass_to_agent(id, name, |serving| serving.receiver = Some(receiver));
        if let Some(used) = self.used_subscription(id, name) {
            used.receiver = Some(link);
        }
    }

    fn used_subscription(&mut self, id: ConnId, name: &str) -> Option<&mut UsedSubscription> {
        let conn = self.fabric.conns.get_mut(id.key())?;
        conn.subscriptions.iter_mut().find(|used| *used.name == *name)
    }

    /// Gives work to the agent of a subscription, which begins with it.
    fn pass_to_agent(&mut self, id: ConnId, name: &str, add: impl FnOnce(&mut Serving)) {
        if let Some(agent) = self.used_subscription(id, name).map(|used| used.agent)
            && let Some(serving) = self.serving(agent)
        {
            add(serving);
            return self.serve(agent);
        }
        let mut serving = Serving::new(id, name, self.fabric.now);
        add(&mut serving);
        self.begin_service_agent(serving, false);
    }

    /// Notes the agent of a subscription with its connection.
    pub(super) fn use_subscription(&mut self, id: ConnId, name: &str, agent: ConnId) {
        if let Some(used) = self.used_subscription(id, name) {
            used.agent = agent;
        } else if let Some(conn) = self.fabric.conns.get_mut(id.key()) {
            conn.subscriptions.push(UsedSubscription { name: name.into(), agent, receiver: None });
        }
    }

    /// The connection does not use a subscription any more.
    pub(super) fn leave_subscription(&mut self, id: ConnId, agent: ConnId) {
        if let Some(conn) = self.fabric.conns.get_mut(id.key()).filter(|_| self.serials[id.key()] == id.serial) {
            conn.subscriptions.retain(|used| used.agent != agent);
        }
    }

    /// Answers a request, unless its link has ended.
    pub(super) fn answer_service(&mut self, id: ConnId, request: &ServiceRequest, refusal: Option<Error>) {
        let Some(link) = request.link.filter(|_| self.knows(id)) else { return };
        if let Some(error) = refusal {
            return self.refuse_request(id, link, request.delivery_id, error);
        }
        self.accept_request(id, link, request.delivery_id);
    }

    /// Answers `list`.
    pub(super) fn answer_list(&mut self, id: ConnId, request: &ServiceRequest, filters: Vec<(String, QoS)>) {
        let Some(link) = request.link.filter(|_| self.knows(id)) else { return };
        let ServiceOperation::List { reply_to, correlation_id } = &request.operation else { return };
        let (delivery_id, reply_to) = (request.delivery_id, reply_to.clone());
        let asked = ManagementRequest { delivery_id, reply_to, correlation_id: correlation_id.clone() };
        self.send_answer(id, link, &asked, &encode_list(filters, &asked));
    }

    /// A link to the service has ended: its requests are not answered.
    pub(super) fn forget_requests(&mut self, id: ConnId, link: LinkId) {
        let Some(conn) = self.fabric.conns.get(id.key()) else { return };
        let agents: Vec<ConnId> = conn.subscriptions.iter().map(|used| used.agent).collect();
        for agent in agents {
            for request in self.serving(agent).into_iter().flat_map(|serving| &mut serving.requests) {
                request.link = request.link.filter(|of| *of != link);
            }
        }
    }

    /// A link that receives has ended.
    pub(super) fn receiver_left(&mut self, id: ConnId, link: LinkId) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let has_ended = matches!(conn.links.get(link.0 as usize), Some(Link::Vacant));
        let Some(used) = conn.subscription_of(link).filter(|_| has_ended) else { return };
        used.receiver = None;
        let agent = used.agent;
        if let Some(serving) = self.serving(agent) {
            serving.receiver = None;
            self.serve(agent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(subject: Option<&str>, name: Option<&str>, body: Body) -> Message {
        let properties = Properties {
            subject: subject.map(str::to_owned),
            correlation_id: name.map(|name| MessageId::String(name.to_owned())),
            ..Properties::default()
        };
        Message { properties: Some(properties), body, ..Message::default() }
    }

    fn refusal(message: &Message) -> (String, String) {
        let error = request_of(message).err().expect("it is refused");
        (error.condition.as_str().to_owned(), error.description.unwrap_or_default())
    }

    fn subscribe(filter: &str, qos: Value) -> Message {
        let map = vec![(Value::String(filter.to_owned()), qos)];
        message(Some("subscribe"), Some("s"), Body::Value(Value::Map(map)))
    }

    #[test]
    fn request_without_a_field_is_refused_by_its_name() {
        let cases = [
            (message(None, Some("s"), Body::Empty), "properties.subject is missing"),
            (message(Some("list"), None, Body::Empty), "properties.correlation-id"),
            (message(Some("list"), Some(""), Body::Empty), "properties.correlation-id"),
            (message(Some("list"), Some("a/#"), Body::Empty), "properties.correlation-id"),
            (message(Some("list"), Some("a\0b"), Body::Empty), "properties.correlation-id"),
            (message(Some("list"), Some(MANAGEMENT), Body::Empty), "no node of the container"),
            (message(Some("list"), Some("s"), Body::Empty), "properties.reply-to"),
            (message(Some("lists"), Some("s"), Body::Empty), "properties.subject is \"lists\""),
            (message(Some("subscribe"), Some("s"), Body::Empty), "must be a map"),
            (message(Some("subscribe"), Some("s"), Body::Value(Value::Map(Vec::new()))), "is empty"),
            (message(Some("unsubscribe"), Some("s"), Body::Value(Value::Uint(1))), "must be a list"),
            (subscribe("a", Value::Uint(3)), "QoS of \"a\""),
            (subscribe("a#", Value::Uint(1)), "\"a#\" is no topic filter"),
            (Message::default(), "properties are missing"),
        ];
        for (message, part) in cases {
            let (condition, description) = refusal(&message);
            assert_eq!(condition, "amqp:invalid-field");
            assert!(description.contains(part), "{description}");
        }
    }

    #[test]
    fn filter_that_receivers_do_not_have_is_refused() {
        for filter in ["$SYS/#", "a/*"] {
            assert_eq!(refusal(&subscribe(filter, Value::Uint(1))).0, "amqp:not-implemented");
        }
    }

    #[test]
    fn qos_may_have_any_integer_type() {
        for qos in [Value::Ubyte(1), Value::Int(1), Value::Long(1), Value::Ulong(1)] {
            let (name, operation) = request_of(&subscribe("a/+", qos)).expect("it is a request");
            let ServiceOperation::Subscribe(filters) = operation else { panic!("another operation") };
            assert_eq!((&*name, &filters[..]), ("s", &[("a/+".to_owned(), QoS::AtLeastOnce)][..]));
        }
    }
}
