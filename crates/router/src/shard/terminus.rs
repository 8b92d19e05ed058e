//! Our half of a link (2.6.3): the termini with the effective settings, not the requested ones
//! (3.5.3, 3.5.4). `terms` has those of stored addresses.

use enmasse_amqp::connection::AttachReply;
use enmasse_amqp::types::{
    Attach, Error, Fields, Lifetime, Open, ReceiverSettleMode, Role, Source, Symbol, Target, TerminusDurability,
    TerminusExpiryPolicy, Value, condition,
};

use super::terms::Terms;
use crate::core::AddressKind;
use crate::plan::AddressType;

/// Capability of a dynamic node without storage.
const DIRECT: &str = "direct";

/// The effective settings of a link.
pub(super) struct Terminus<'a> {
    /// the address; `None`: the anonymous terminus
    pub(super) name: Option<&'a str>,
    /// how it treats messages; `None`: the anonymous terminus
    pub(super) kind: Option<AddressKind>,
    /// a dynamic node
    pub(super) dynamic: bool,
    /// the link's request to a stored address
    pub(super) terms: Option<&'a Terms>,
}

impl Terminus<'_> {
    /// Whether this capability of a terminus (the mapping of JMS to AMQP, 3.2) holds here.
    fn has(&self, capability: &Symbol) -> bool {
        let topic = matches!(self.kind, Some(AddressKind::Multicast | AddressKind::Topic | AddressKind::Stream));
        match capability.as_str() {
            "queue" => self.kind.is_some() && !topic,
            "topic" => topic,
            "temporary-queue" => self.dynamic && !topic,
            "temporary-topic" => self.dynamic && topic,
            DIRECT => self.dynamic && matches!(self.kind, Some(AddressKind::Anycast | AddressKind::Multicast)),
            _ => false,
        }
    }
}

/// Whether the terminus at our end requests one of these capabilities.
fn asks(attach: &Attach, names: &[&str]) -> bool {
    let capabilities = match (attach.role, attach.source.as_deref(), attach.target.as_deref()) {
        (Role::Receiver, Some(source), _) => &source.capabilities[..],
        (Role::Sender, _, Some(Target::Node { capabilities, .. })) => capabilities,
        _ => &[],
    };
    capabilities.iter().any(|requested| names.contains(&requested.as_str()))
}

/// The type of address that the capabilities of a link request, if any.
pub(super) fn requested_type(attach: &Attach) -> Option<AddressType> {
    match (asks(attach, &["queue"]), asks(attach, &["topic"]), asks(attach, &[DIRECT])) {
        (_, true, true) => Some(AddressType::Multicast),
        (_, false, true) => Some(AddressType::Anycast),
        (_, true, false) => Some(AddressType::Topic),
        (true, false, false) => Some(AddressType::Queue),
        (false, false, false) => None,
    }
}

/// The kind of dynamic node that a link requests.
pub(super) fn requested_kind(attach: &Attach) -> AddressKind {
    match (asks(attach, &["temporary-topic", "topic"]), asks(attach, &[DIRECT])) {
        (false, false) => AddressKind::Queue,
        (true, false) => AddressKind::Topic,
        (false, true) => AddressKind::Anycast,
        (true, true) => AddressKind::Multicast,
    }
}

/// Checks the attach's properties of the node at our end.
///
/// # Errors
/// `amqp:decode-error` for an address together with `dynamic` (3.5.3, 3.5.4) and for node
/// properties of another type than 3.5.9 gives them.
pub(super) fn check(attach: &Attach) -> Result<(), Error> {
    let (end, address, dynamic, properties) = match (attach.role, attach.source.as_deref(), attach.target.as_deref()) {
        (Role::Receiver, Some(source), _) => {
            ("source", &source.address, source.dynamic, &source.dynamic_node_properties)
        }
        (Role::Sender, _, Some(Target::Node { address, dynamic, dynamic_node_properties, .. })) => {
            ("target", address, *dynamic, dynamic_node_properties)
        }
        _ => return Ok(()),
    };
    let wrong = |what: String| Err(Error::new(condition::DECODE_ERROR, what));
    if let Some(address) = address.as_ref().filter(|address| dynamic && !address.is_empty()) {
        return wrong(format!(
            "attach.{end}.address: \"{address}\" with dynamic=true: omit the address to create a node, or omit dynamic \
             to use that address"
        ));
    }
    for (name, value) in properties {
        let wanted = match name.as_str() {
            "lifetime-policy" if Lifetime::from_value(value).is_none() => "a delete-on-... type (3.5.10 to 3.5.13)",
            "supported-dist-modes" if !are_symbols(value) => "a symbol or an array of symbols",
            _ => continue,
        };
        return wrong(format!("attach.{end}.dynamic-node-properties: {name} must be {wanted}"));
    }
    Ok(())
}

fn are_symbols(value: &Value) -> bool {
    match value {
        Value::Symbol(_) => true,
        Value::Array(items) => items.iter().all(|item| matches!(item, Value::Symbol(_))),
        _ => false,
    }
}

/// Whether a peer supports only the settlement mode that its sending links request.
///
/// go-amqp rejects an attach with another mode, and settles correctly. Its open does not name the
/// library: its properties are empty, its container id is 40 random letters and digits unless the
/// application chose one, and it has an idle time-out. azure-servicebus and uamqp request `second`
/// but never settle, and would wait without end. Their container ids are UUIDs, and they have no
/// idle time-out.
pub(super) fn insists_on_settle_mode(open: &Open) -> bool {
    let product = open.properties.iter().find(|(name, _)| name.as_str() == "product").map(|(_, value)| value);
    if let Some(Value::String(product)) = product {
        return ["go-amqp", "azsdk-go"].iter().any(|library| product.starts_with(library));
    }
    let container = open.container_id.as_bytes();
    let random = container.len() == 40 && container.iter().all(u8::is_ascii_alphanumeric);
    open.properties.is_empty() && (random || open.idle_time_out.is_some())
}

/// The answer to an admitted attach; the peer's own terminus is unchanged.
pub(super) fn reply(attach: &Attach, terminus: &Terminus<'_>, message_size: Option<u64>) -> AttachReply {
    let mut source = attach.source.clone();
    let mut target = attach.target.clone();
    match (attach.role, source.as_deref_mut(), target.as_deref_mut()) {
        (Role::Receiver, Some(source), _) => restrict_source(source, terminus),
        (Role::Sender, _, Some(target)) => restrict_target(target, terminus),
        _ => {}
    }
    AttachReply {
        source,
        target,
        snd_settle_mode: attach.snd_settle_mode,
        rcv_settle_mode: attach.rcv_settle_mode,
        // An empty map informs a peer that resumes a link that nothing is unsettled here (2.6.13).
        unsettled: attach.unsettled.as_ref().map(|_| Vec::new()),
        max_message_size: message_size,
        ..AttachReply::default()
    }
}

/// Answers `second` of a link to us with `first`: without resumption the mode has no use, and
/// clients that never settle would wait without end.
pub(super) fn settle_first(reply: &mut AttachReply, role: Role, insists: bool) {
    if role == Role::Sender && !insists {
        reply.rcv_settle_mode = ReceiverSettleMode::First;
    }
}

/// Direct addresses do not copy or filter messages. They keep nothing of a detached link: neither
/// unsettled deliveries nor the link itself.
fn restrict_source(source: &mut Source, terminus: &Terminus<'_>) {
    source.address = terminus.name.map(str::to_owned);
    source.durable = TerminusDurability::None;
    source.expiry_policy = TerminusExpiryPolicy::LinkDetach;
    source.timeout_s = 0;
    source.dynamic_node_properties = node_properties(source.dynamic);
    source.filter = Fields::new();
    if source.distribution_mode.is_some() {
        source.distribution_mode = Some(Symbol::constant("move"));
    }
    let requested = source.capabilities.clone();
    source.capabilities.retain(|requested| terminus.has(requested));
    let Some(terms) = terminus.terms else { return };
    terms.answer(source);
    if terminus.dynamic {
        let in_force = std::mem::take(&mut source.capabilities);
        source.capabilities = requested;
        source.capabilities.retain(|requested| terminus.has(requested) || in_force.contains(requested));
    }
}

fn restrict_target(target: &mut Target, terminus: &Terminus<'_>) {
    let Target::Node { address, durable, expiry_policy, timeout_s, dynamic, dynamic_node_properties, capabilities } =
        target
    else {
        return;
    };
    *address = terminus.name.map(str::to_owned);
    *durable = TerminusDurability::None;
    *expiry_policy = TerminusExpiryPolicy::LinkDetach;
    *timeout_s = 0;
    *dynamic_node_properties = node_properties(*dynamic);
    capabilities.retain(|requested| terminus.has(requested));
}

/// The properties of a dynamic node: it ends when its link or its connection is closed (3.5.10).
fn node_properties(dynamic: bool) -> Fields {
    if !dynamic {
        return Fields::new();
    }
    vec![(Symbol::constant("lifetime-policy"), Lifetime::OnClose.to_value())]
}
