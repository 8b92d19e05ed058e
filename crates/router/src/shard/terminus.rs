//! Our half of a link (2.6.3): the termini with what is really in force, not what was asked for (3.5.3, 3.5.4).
//! What stored addresses do more is in `terms`.

use enmasse_amqp::connection::AttachReply;
use enmasse_amqp::types::{
    Attach, Fields, Lifetime, Role, Source, Symbol, Target, TerminusDurability, TerminusExpiryPolicy,
};

use super::terms::Terms;
use crate::core::AddressKind;

/// Capability of a dynamic node that hands messages on and holds none.
const DIRECT: &str = "direct";

/// What a link was given.
pub(super) struct Terminus<'a> {
    /// the address; `None`: the anonymous terminus
    pub(super) name: Option<&'a str>,
    /// how it treats messages; `None`: the anonymous terminus
    pub(super) kind: Option<AddressKind>,
    /// a dynamic node
    pub(super) dynamic: bool,
    /// what the link asks of a stored address
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

/// What a link wants a dynamic node to be.
pub(super) fn asked_kind(attach: &Attach) -> AddressKind {
    let capabilities = match (attach.role, attach.source.as_deref(), attach.target.as_deref()) {
        (Role::Receiver, Some(source), _) => &source.capabilities[..],
        (Role::Sender, _, Some(Target::Node { capabilities, .. })) => capabilities,
        _ => &[],
    };
    let asks = |names: &[&str]| capabilities.iter().any(|asked| names.contains(&asked.as_str()));
    match (asks(&["temporary-topic", "topic"]), asks(&[DIRECT])) {
        (false, false) => AddressKind::Stored,
        (true, false) => AddressKind::Topic,
        (false, true) => AddressKind::Anycast,
        (true, true) => AddressKind::Multicast,
    }
}

/// The answer to an attach that is let in; the peer's own terminus is left as it is.
pub(super) fn reply(attach: &Attach, terminus: &Terminus<'_>, message_size: Option<u64>) -> AttachReply {
    let mut source = attach.source.clone();
    let mut target = attach.target.clone();
    match (attach.role, source.as_deref_mut(), target.as_deref_mut()) {
        (Role::Receiver, Some(source), _) => hold_source(source, terminus),
        (Role::Sender, _, Some(target)) => hold_target(target, terminus),
        _ => {}
    }
    AttachReply {
        source,
        target,
        snd_settle_mode: attach.snd_settle_mode,
        rcv_settle_mode: attach.rcv_settle_mode,
        max_message_size: message_size,
        ..AttachReply::default()
    }
}

/// Direct addresses move messages and filter nothing, and keep nothing of a link that is detached: neither what is
/// unsettled nor that there was a link.
fn hold_source(source: &mut Source, terminus: &Terminus<'_>) {
    source.address = terminus.name.map(str::to_owned);
    source.durable = TerminusDurability::None;
    source.expiry_policy = TerminusExpiryPolicy::LinkDetach;
    source.timeout_s = 0;
    source.dynamic_node_properties = node_properties(source.dynamic);
    source.filter = Fields::new();
    if source.distribution_mode.is_some() {
        source.distribution_mode = Some(Symbol::constant("move"));
    }
    let asked = source.capabilities.clone();
    source.capabilities.retain(|asked| terminus.has(asked));
    let Some(terms) = terminus.terms else { return };
    terms.answer(source);
    if terminus.dynamic {
        let in_force = std::mem::take(&mut source.capabilities);
        source.capabilities = asked;
        source.capabilities.retain(|asked| terminus.has(asked) || in_force.contains(asked));
    }
}

fn hold_target(target: &mut Target, terminus: &Terminus<'_>) {
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
    capabilities.retain(|asked| terminus.has(asked));
}

/// Of a node made for a link: it goes when the link is closed, or its connection (3.5.10).
fn node_properties(dynamic: bool) -> Fields {
    if !dynamic {
        return Fields::new();
    }
    vec![(Symbol::constant("lifetime-policy"), Lifetime::OnClose.to_value())]
}
