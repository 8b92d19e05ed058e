//! Sources, targets (3.5.3, 3.5.4) and the coordinator (4.5.1).

use super::descriptor;
use super::error::{DecodeError, Fault, FieldError};
use super::list::ListReader;
use super::list::ListWriter;
use super::reader::Reader;
use super::state::{put_outcome, read_outcome};
use super::writer::{put_string, put_symbol, put_uint};
use crate::types::{Coordinator, Lifetime, Source, Symbol, Target, TerminusDurability, TerminusExpiryPolicy, Value};

fn read_durability(reader: &mut Reader<'_>) -> Result<TerminusDurability, Fault> {
    match reader.uint()? {
        0 => Ok(TerminusDurability::None),
        1 => Ok(TerminusDurability::Configuration),
        2 => Ok(TerminusDurability::UnsettledState),
        _ => Err(Fault::Range("a durability is 0 (none), 1 (configuration) or 2 (unsettled-state)")),
    }
}

const EXPIRY_POLICIES: [(TerminusExpiryPolicy, Symbol); 4] = [
    (TerminusExpiryPolicy::LinkDetach, Symbol::constant("link-detach")),
    (TerminusExpiryPolicy::SessionEnd, Symbol::constant("session-end")),
    (TerminusExpiryPolicy::ConnectionClose, Symbol::constant("connection-close")),
    (TerminusExpiryPolicy::Never, Symbol::constant("never")),
];

fn read_expiry_policy(reader: &mut Reader<'_>) -> Result<TerminusExpiryPolicy, Fault> {
    let name = reader.symbol()?;
    match EXPIRY_POLICIES.iter().find(|(_, symbol)| symbol.as_str() == name) {
        Some((policy, _)) => Ok(*policy),
        None => Err(Fault::Range("an expiry-policy is link-detach, session-end, connection-close or never")),
    }
}

fn put_expiry_policy(out: &mut Vec<u8>, policy: TerminusExpiryPolicy) {
    for (known, symbol) in &EXPIRY_POLICIES {
        if *known == policy {
            put_symbol(out, symbol);
        }
    }
}

/// The fields that sources and targets begin with.
struct Common {
    address: Option<String>,
    durable: TerminusDurability,
    expiry_policy: TerminusExpiryPolicy,
    timeout_s: u32,
    dynamic: bool,
    dynamic_node_properties: crate::types::Fields,
}

fn read_common(list: &mut ListReader<'_>) -> Result<Common, DecodeError> {
    Ok(Common {
        address: list.string("address")?,
        durable: list.optional("durable", read_durability)?.unwrap_or_default(),
        expiry_policy: list.optional("expiry-policy", read_expiry_policy)?.unwrap_or_default(),
        timeout_s: list.optional("timeout", Reader::uint)?.unwrap_or(0),
        dynamic: list.flag("dynamic")?,
        dynamic_node_properties: list.fields("dynamic-node-properties")?,
    })
}

/// A described source.
pub(super) fn read_source(reader: &mut Reader<'_>) -> Result<Source, DecodeError> {
    let descriptor = reader.descriptor().map_err(|fault| fault.on("source", ""))?;
    if descriptor.number() != Some(descriptor::SOURCE) {
        return Err(descriptor.unknown("source"));
    }
    let mut list = ListReader::open(reader, "source")?;
    let common = read_common(&mut list)?;
    let source = Source {
        address: common.address,
        durable: common.durable,
        expiry_policy: common.expiry_policy,
        timeout_s: common.timeout_s,
        dynamic: common.dynamic,
        dynamic_node_properties: common.dynamic_node_properties,
        distribution_mode: list.symbol("distribution-mode")?,
        filter: list.fields("filter")?,
        default_outcome: list.optional("default-outcome", read_outcome)?,
        outcomes: list.symbols("outcomes")?,
        capabilities: list.symbols("capabilities")?,
    };
    list.finish()?;
    Ok(source)
}

pub(super) fn put_source(out: &mut Vec<u8>, source: &Source) {
    let expiry_policy = (source.expiry_policy != TerminusExpiryPolicy::SessionEnd).then_some(source.expiry_policy);
    ListWriter::new(out, descriptor::SOURCE)
        .maybe(source.address.as_deref(), put_string)
        .maybe(durability(source.durable), put_uint)
        .maybe(expiry_policy, put_expiry_policy)
        .maybe((source.timeout_s != 0).then_some(source.timeout_s), put_uint)
        .flag(source.dynamic)
        .fields(&source.dynamic_node_properties)
        .maybe(source.distribution_mode.as_ref(), put_symbol)
        .fields(&source.filter)
        .maybe(source.default_outcome.as_ref(), put_outcome)
        .symbols(&source.outcomes)
        .symbols(&source.capabilities)
        .finish();
}

fn durability(durable: TerminusDurability) -> Option<u32> {
    (durable != TerminusDurability::None).then_some(durable as u32)
}

/// A described target or coordinator.
pub(super) fn read_target(reader: &mut Reader<'_>) -> Result<Target, DecodeError> {
    let descriptor = reader.descriptor().map_err(|fault| fault.on("target", ""))?;
    match descriptor.number() {
        Some(descriptor::TARGET) => {
            let mut list = ListReader::open(reader, "target")?;
            let common = read_common(&mut list)?;
            let capabilities = list.symbols("capabilities")?;
            list.finish()?;
            Ok(Target::Node {
                address: common.address,
                durable: common.durable,
                expiry_policy: common.expiry_policy,
                timeout_s: common.timeout_s,
                dynamic: common.dynamic,
                dynamic_node_properties: common.dynamic_node_properties,
                capabilities,
            })
        }
        Some(descriptor::COORDINATOR) => {
            let mut list = ListReader::open(reader, "coordinator")?;
            let capabilities = list.symbols("capabilities")?;
            list.finish()?;
            Ok(Target::Coordinator(Coordinator { capabilities }))
        }
        _ => Err(descriptor.unknown("target")),
    }
}

pub(super) fn put_target(out: &mut Vec<u8>, target: &Target) {
    match target {
        Target::Node { address, durable, expiry_policy, timeout_s, dynamic, dynamic_node_properties, capabilities } => {
            ListWriter::new(out, descriptor::TARGET)
                .maybe(address.as_deref(), put_string)
                .maybe(durability(*durable), put_uint)
                .maybe(
                    (*expiry_policy != TerminusExpiryPolicy::SessionEnd).then_some(*expiry_policy),
                    put_expiry_policy,
                )
                .maybe((*timeout_s != 0).then_some(*timeout_s), put_uint)
                .flag(*dynamic)
                .fields(dynamic_node_properties)
                .symbols(capabilities)
                .finish()
        }
        Target::Coordinator(coordinator) => {
            ListWriter::new(out, descriptor::COORDINATOR).symbols(&coordinator.capabilities).finish();
        }
    }
}

const LIFETIMES: [(Lifetime, u64, &str); 4] = [
    (Lifetime::OnClose, descriptor::DELETE_ON_CLOSE, "amqp:delete-on-close:list"),
    (Lifetime::OnNoLinks, descriptor::DELETE_ON_NO_LINKS, "amqp:delete-on-no-links:list"),
    (Lifetime::OnNoMessages, descriptor::DELETE_ON_NO_MESSAGES, "amqp:delete-on-no-messages:list"),
    (
        Lifetime::OnNoLinksOrMessages,
        descriptor::DELETE_ON_NO_LINKS_OR_MESSAGES,
        "amqp:delete-on-no-links-or-messages:list",
    ),
];

impl Lifetime {
    /// The policy that a node property `lifetime-policy` holds (3.5.10 to 3.5.13); `None` if it is
    /// no such policy.
    #[must_use]
    pub fn from_value(value: &Value) -> Option<Self> {
        let Value::Described(pair) = value else { return None };
        let known = LIFETIMES.iter().find(|(_, number, name)| match &pair.0 {
            Value::Ulong(found) => found == number,
            Value::Symbol(found) => found.as_str() == *name,
            _ => false,
        });
        known.map(|(lifetime, ..)| *lifetime)
    }

    /// The policy as the value of a node property.
    #[must_use]
    pub fn to_value(self) -> Value {
        let number = LIFETIMES.iter().find(|(lifetime, ..)| *lifetime == self).map_or(0, |(_, number, _)| *number);
        Value::Described(Box::new((Value::Ulong(number), Value::List(Vec::new()))))
    }
}
