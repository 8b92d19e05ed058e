//! Compiles a Plan into a Table, with all checks beyond the shape of the JSON.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use enmasse_amqp::sasl::{Mechanism, Verifier};

use super::address::check_name;
use super::dummy_credentials::DummyCredentials;
use super::pace::Pace;
use super::pattern::Pattern;
use super::rights::Rights;
use super::space::{Authentication, MqttStore, Space};
use super::storage::{MESSAGE_BYTES_MAX, Storage};
use super::usage::Usage;
use super::user::User;
use super::{AddressEntry, AddressKey, AddressKind, Home, NextKeys, SpaceKey, Table};
use crate::core::LAST_VALUE_OF_TO;
use crate::plan::{self, AddressLimits, AddressType, AuthenticationType, OnFull, Plan};

/// Most credit that an address may give to one link.
pub const LINK_CAPACITY_MAX: u32 = 100_000;
/// RFC 5802, section 5.1 requests at least 4,096; the upper bound keeps one PLAIN login within
/// about a second.
const ITERATIONS: std::ops::RangeInclusive<u32> = 4_096..=1_000_000;
const SALT_BYTES: std::ops::RangeInclusive<usize> = 8..=128;
/// Partitions of a stream.
const PARTITIONS: std::ops::RangeInclusive<u32> = 1..=1_024;

/// Why a plan is invalid. An invalid plan is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("plan: {path}: {problem}")]
pub struct PlanError {
    /// the member, such as `spaces[0].addresses[3].name`
    pub path: String,
    /// the error and its remedy
    pub problem: String,
}

type Checked<T> = Result<T, PlanError>;

fn wrong<T>(path: impl Into<String>, problem: impl Into<String>) -> Checked<T> {
    Err(PlanError { path: path.into(), problem: problem.into() })
}

impl Table {
    /// Compiles a plan into the table that follows `previous`. A space or an address that
    /// `previous` has under the same uid keeps its key and its home; keys are never reused.
    ///
    /// # Errors
    /// Names the first invalid member; `previous` then stays in force.
    pub fn compile(plan: &Plan, previous: &Self) -> Result<Self, PlanError> {
        if plan.version < previous.version {
            let problem = format!("{} is older than the plan in force, {}", plan.version, previous.version);
            return wrong("version", problem);
        }
        let mut next = previous.next;
        let known: HashMap<&str, &Space> = previous.spaces().map(|space| (space.uid(), space)).collect();
        let mut spaces = HashMap::with_capacity(plan.spaces.len());
        let mut uids = HashSet::new();
        for (place, space) in plan.spaces.iter().enumerate() {
            let path = format!("spaces[{place}]");
            if space.uid.is_empty() || !uids.insert(&*space.uid) {
                return wrong(format!("{path}.uid"), "is empty or used by another space; it must be unique");
            }
            let compiled = compile_space(space, &path, known.get(&*space.uid).copied(), &mut next)?;
            spaces.insert(compiled.key, compiled);
        }
        let names = spaces_by_name(plan, spaces.values())?;
        let default = match &plan.default_space {
            Some(name) => names.get(&lower(name)).copied().filter(|key| spaces[key].name().eq_ignore_ascii_case(name)),
            None => only_space(&spaces),
        };
        let hosts = plan.hosts.iter().map(|host| lower(host)).collect();
        let mechanisms = strongest_first(spaces.values().flat_map(Space::mechanisms).copied());
        let certified = |space: &&Space| !space.is_open() && space.mechanisms().contains(&Mechanism::External);
        let certificates_name_space = spaces.values().filter(certified).nth(1).is_some();
        let (version, secret) = (plan.version, previous.secret);
        Ok(Self { version, spaces, names, default, hosts, mechanisms, certificates_name_space, next, secret })
    }
}

/// The spaces by name: by each full name, and by other names that only one space has.
fn spaces_by_name<'s>(plan: &Plan, spaces: impl Iterator<Item = &'s Space>) -> Checked<HashMap<Box<str>, SpaceKey>> {
    let keys: HashMap<&str, SpaceKey> = spaces.map(|space| (space.uid(), space.key)).collect();
    let mut full = HashMap::new();
    let mut short: HashMap<Box<str>, Option<SpaceKey>> = HashMap::new();
    for (place, space) in plan.spaces.iter().enumerate() {
        let path = format!("spaces[{place}].names");
        let key = keys[&*space.uid];
        let Some((last, others)) = space.names.split_last() else {
            return wrong(path, "is empty; a space has at least its full name, NAME.NAMESPACE");
        };
        if space.names.iter().any(|name| name.is_empty() || name.contains(['@', ' ', '/'])) {
            return wrong(path, "holds a name that is empty or contains '@', '/' or a space");
        }
        if full.insert(lower(last), key).is_some() {
            return wrong(path, format!("ends with {last:?}, the full name of another space"));
        }
        for name in others {
            let claimed = short.entry(lower(name)).or_insert(Some(key));
            *claimed = claimed.filter(|claimant| *claimant == key);
        }
    }
    for (name, key) in short {
        if let (Some(key), false) = (key, full.contains_key(&name)) {
            full.insert(name, key);
        }
    }
    Ok(full)
}

/// The only space that peers can enter, if there is exactly one.
fn only_space(spaces: &HashMap<SpaceKey, Space>) -> Option<SpaceKey> {
    let mut keys = spaces.iter().filter(|(_, space)| !space.is_internal()).map(|(key, _)| *key);
    keys.next().filter(|_| keys.next().is_none())
}

fn lower(name: &str) -> Box<str> {
    name.to_ascii_lowercase().into()
}

fn compile_space(space: &plan::Space, path: &str, known: Option<&Space>, next: &mut NextKeys) -> Checked<Space> {
    let key = known.map_or_else(|| SpaceKey(take(&mut next.space)), Space::key);
    let earlier: HashMap<&str, &Arc<AddressEntry>> =
        known.iter().flat_map(|space| space.all_addresses()).map(|entry| (&*entry.uid, entry)).collect();
    let mut addresses: BTreeMap<Arc<str>, Arc<AddressEntry>> = BTreeMap::new();
    let mut uids = HashSet::with_capacity(space.addresses.len());
    for (place, address) in space.addresses.iter().enumerate() {
        let path = || format!("{path}.addresses[{place}]");
        if address.uid.is_empty() || !uids.insert(&*address.uid) {
            return wrong(path() + ".uid", "is empty or used by another address; it must be unique");
        }
        let kind = check_address(address).map_err(|(member, problem)| PlanError { path: path() + member, problem })?;
        let entry = carry_over(address, kind, key, earlier.get(&*address.uid).copied(), next);
        if addresses.insert(Arc::clone(&entry.name), entry).is_some() {
            return wrong(path() + ".name", format!("{:?} is declared twice in this space", address.name));
        }
    }
    let covering = addresses.values().filter(|entry| entry.covers_below() && *entry.name != *"#");
    let covering: BTreeMap<_, _> = covering.map(|entry| (Arc::clone(&entry.name), Arc::clone(entry))).collect();
    let subscriptions = addresses.values().filter_map(|entry| {
        let topic = entry.storage.as_ref()?.topic.as_ref()?;
        let own = entry.name.strip_prefix(&**topic)?.strip_prefix("::")?;
        Some((own.into(), Arc::clone(entry)))
    });
    let subscriptions = subscriptions.collect();
    let levels_max = covering.keys().map(|name| name.split('/').count()).max().unwrap_or(0);
    let mqtt = space.mqtt.as_ref().map(|bounds| compile_mqtt(&space.uid, bounds, key, &earlier, next));
    let users = compile_users(&space.users, path)?;
    let pace = compile_pace(&space.limits, &format!("{path}.limits"), known)?;
    let auto_create = compile_auto_create(&space.auto_create, path)?;
    Ok(Space {
        key,
        uid: space.uid.as_str().into(),
        names: space.names.iter().map(|name| name.as_str().into()).collect(),
        authentication: compile_authentication(space, &format!("{path}.authentication"))?,
        dummy: DummyCredentials::of_users(&users),
        users,
        limits: space.limits.clone(),
        usage: known.map_or_else(Usage::default, |space| space.usage.clone()),
        pace,
        addresses,
        covering,
        subscriptions,
        levels_max,
        auto_create,
        internal: space.internal,
        mqtt,
    })
}

/// The uid of the queue with the retained messages of a space, which the node makes by itself.
#[must_use]
pub fn retained_uid(space_uid: &str) -> String {
    format!("{space_uid}/retained")
}

/// The addresses that keep what clients of MQTT leave behind.
fn compile_mqtt(
    space_uid: &str,
    bounds: &plan::MqttStorage,
    space: SpaceKey,
    earlier: &HashMap<&str, &Arc<AddressEntry>>,
    next: &mut NextKeys,
) -> MqttStore {
    let mut entry = |name: &str, kind, address_kind, limits: AddressLimits, last_value_key: Option<&str>| {
        let address = plan::Address {
            limits: AddressLimits { on_full: Some(OnFull::Reject), ..limits },
            last_value_key: last_value_key.map(str::to_owned),
            ..plan::Address::new(format!("{space_uid}/{name}"), format!("$mqtt/{name}"), kind)
        };
        carry_over(&address, address_kind, space, earlier.get(&*address.uid).copied(), next)
    };
    let retained = AddressLimits {
        messages: Some(bounds.retained_messages),
        bytes: Some(bounds.retained_bytes),
        ..AddressLimits::default()
    };
    let sessions = AddressLimits { subscriptions: Some(bounds.sessions), ..AddressLimits::default() };
    MqttStore {
        retained: entry("retained", AddressType::Queue, AddressKind::Queue, retained, Some(LAST_VALUE_OF_TO)),
        sessions: entry("sessions", AddressType::Topic, AddressKind::Topic, sessions, None),
        session_expiry_s: bounds.session_expiry_s,
    }
}

fn compile_auto_create(patterns: &[String], path: &str) -> Checked<Vec<(Box<str>, Pattern)>> {
    let compile = |(place, text): (usize, &String)| {
        let pattern = Pattern::right(text);
        let pattern = pattern.or_else(|error| wrong(format!("{path}.autoCreate[{place}]"), error.to_string()))?;
        Ok((text.as_str().into(), pattern))
    };
    patterns.iter().enumerate().map(compile).collect()
}

/// Unchanged bounds keep their balance; changed ones start with a new one.
fn compile_pace(limits: &plan::SpaceLimits, path: &str, known: Option<&Space>) -> Checked<Option<Arc<Pace>>> {
    let bounds = [("messagesPerSecond", limits.messages_per_second), ("bytesPerSecond", limits.bytes_per_second)];
    if let Some((member, _)) = bounds.into_iter().find(|(_, bound)| *bound == Some(0)) {
        return wrong(format!("{path}.{member}"), "is 0; omit it for no bound");
    }
    let before = known.and_then(Space::pace).filter(|pace| pace.is_of(limits));
    Ok(before.cloned().or_else(|| Pace::new(limits).map(Arc::new)))
}

fn take(counter: &mut u32) -> u32 {
    let key = *counter;
    *counter += 1;
    key
}

/// Checks one address; an error is the member and its problem (the path is put together only then).
fn check_address(address: &plan::Address) -> Result<AddressKind, (&'static str, String)> {
    let kind = match address.kind {
        AddressType::Anycast => AddressKind::Anycast,
        AddressType::Multicast => AddressKind::Multicast,
        AddressType::Queue | AddressType::Subscription | AddressType::Deadletter => AddressKind::Queue,
        AddressType::Topic if address.retention.is_none() => AddressKind::Topic,
        AddressType::Topic => check_stream(address)?,
    };
    if let Err(problem) = check_name(&address.name) {
        return Err((".name", format!("{:?} {problem}", address.name)));
    }
    if !(1..=LINK_CAPACITY_MAX).contains(&address.limits.link_capacity) {
        return Err((".limits.linkCapacity", format!("is not 1 to {LINK_CAPACITY_MAX}")));
    }
    if address.protocols.as_ref().is_some_and(Vec::is_empty) {
        return Err((".protocols", "is empty; omit it for all protocols".into()));
    }
    if address.limits.message_size == Some(0) {
        return Err((".limits.messageSize", "is 0; omit it for no bound".into()));
    }
    if address.subscription.is_some() != (address.kind == AddressType::Subscription) {
        return Err((".subscription", "is required for a subscription and not allowed for other addresses".into()));
    }
    match stored_member(address).filter(|_| !kind.stores()) {
        Some(member) => Err((member, "is for stored addresses; omit it for anycast and multicast".into())),
        None => Ok(kind),
    }
}

/// Checks the members of a stream, and that it has no members of queues: only its retention removes
/// messages.
fn check_stream(address: &plan::Address) -> Result<AddressKind, (&'static str, String)> {
    let foreign = [
        (".ttl", address.ttl.is_some()),
        (".redelivery", address.redelivery.is_some()),
        (".deadletter", address.deadletter.is_some()),
        (".expiry", address.expiry.is_some()),
        (".lastValueKey", address.last_value_key.is_some()),
        (".singleActiveConsumer", address.single_active_consumer == Some(true)),
    ];
    if let Some((member, _)) = foreign.into_iter().find(|(_, given)| *given) {
        return Err((member, "is for queues; omit it for a topic with retention, a stream".into()));
    }
    let retention = address.retention.clone().unwrap_or_default();
    if retention.bytes.or(retention.age_ms).is_none() {
        return Err((".retention", "is empty; give bytes, ageMs or both".into()));
    }
    if !PARTITIONS.contains(&address.partitions.unwrap_or(1)) {
        return Err((".partitions", format!("is not {} to {}", PARTITIONS.start(), PARTITIONS.end())));
    }
    Ok(AddressKind::Stream)
}

/// The first member of an address that only a stored address may have.
fn stored_member(address: &plan::Address) -> Option<&'static str> {
    let given = [
        (".durability", address.durability.is_some()),
        (".ttl", address.ttl.is_some()),
        (".redelivery", address.redelivery.is_some()),
        (".deadletter", address.deadletter.is_some()),
        (".expiry", address.expiry.is_some()),
        (".retention", address.retention.is_some()),
        (".partitions", address.partitions.is_some()),
        (".duplicateDetection", address.duplicate_detection.is_some()),
    ];
    given.into_iter().find_map(|(member, given)| given.then_some(member))
}

/// The entry of an address: the earlier one if nothing changed; a new one with the same key and
/// home if only settings changed. A uid with another name or kind is another address.
fn carry_over(
    address: &plan::Address,
    kind: AddressKind,
    space: SpaceKey,
    earlier: Option<&Arc<AddressEntry>>,
    next: &mut NextKeys,
) -> Arc<AddressEntry> {
    let earlier = earlier.filter(|entry| *entry.name == *address.name && entry.kind == kind);
    let (key, home) = match earlier {
        Some(entry) => (entry.key, entry.home.clone()),
        None => (AddressKey(take(&mut next.address)), Home::none()),
    };
    let storage = kind.stores().then(|| Arc::new(Storage::of(address)));
    let entry = AddressEntry {
        key,
        space,
        uid: address.uid.as_str().into(),
        name: address.name.as_str().into(),
        kind,
        link_capacity: window(address, kind),
        message_size: address.limits.message_size.or(storage.as_ref().map(|_| u64::from(MESSAGE_BYTES_MAX))),
        storage,
        protocols: address.protocols.as_deref().map(Into::into),
        home,
    };
    match earlier.filter(|earlier| earlier.same_settings(&entry)) {
        Some(unchanged) => Arc::clone(unchanged),
        None => Arc::new(entry),
    }
}

/// Most credit of a producer's link. If a full address blocks producers, it is at most the capacity
/// of the address: messages within granted credit are stored even if the address is full.
fn window(address: &plan::Address, kind: AddressKind) -> u32 {
    let limits = &address.limits;
    let waits = kind.stores() && !matches!(limits.on_full, Some(OnFull::Reject | OnFull::DropOldest));
    let most = limits.messages.filter(|_| waits).unwrap_or(u64::MAX).max(1);
    u32::try_from(most).map_or(limits.link_capacity, |most| most.min(limits.link_capacity))
}

fn compile_authentication(space: &plan::Space, path: &str) -> Checked<Authentication> {
    let plan = &space.authentication;
    let open = plan.kind == AuthenticationType::None;
    let delegated = plan.kind == AuthenticationType::Delegated;
    if delegated && plan.service.is_none() {
        return wrong(format!("{path}.service"), "is missing: authentication of type delegated needs it");
    }
    let mut mechanisms = Vec::new();
    for (place, name) in plan.mechanisms.iter().enumerate() {
        let path = format!("{path}.mechanisms[{place}]");
        match Mechanism::from_name(name) {
            None => return wrong(path, format!("{name:?} is unknown; remove it")),
            Some(Mechanism::Anonymous) if !plan.anonymous => {
                return wrong(path, "is ANONYMOUS while `anonymous` is false; make both agree");
            }
            Some(Mechanism::Scram(_)) if open => {
                return wrong(path, "needs verifiers, which authentication of type none does not have; use PLAIN");
            }
            Some(Mechanism::Scram(_)) if delegated => {
                return wrong(path, "needs verifiers, which only authentication of type standard has; use PLAIN");
            }
            Some(bearer) if bearer.is_bearer() && (open || plan.service.is_none()) => {
                return wrong(
                    path,
                    "needs a `service` that checks tokens, and authentication of another type than none",
                );
            }
            Some(mechanism) => mechanisms.push(mechanism),
        }
    }
    mechanisms.extend(plan.anonymous.then_some(Mechanism::Anonymous));
    let mechanisms = strongest_first(mechanisms);
    if mechanisms.is_empty() && !space.internal {
        return wrong(format!("{path}.mechanisms"), "is empty and `anonymous` is false: no client could log in");
    }
    if space.internal && (open || !mechanisms.is_empty()) {
        return wrong(path, "admits peers, and the space is internal: make it standard, without mechanisms");
    }
    let service = plan.service.as_deref().map(Into::into);
    Ok(Authentication { open, anonymous: plan.anonymous, mechanisms, delegated, service })
}

fn strongest_first(mechanisms: impl IntoIterator<Item = Mechanism>) -> Vec<Mechanism> {
    mechanisms.into_iter().collect::<BTreeSet<_>>().into_iter().rev().collect()
}

fn compile_users(users: &[plan::User], path: &str) -> Checked<HashMap<Box<str>, User>> {
    let mut compiled = HashMap::with_capacity(users.len());
    for (place, user) in users.iter().enumerate() {
        let path = format!("{path}.users[{place}]");
        let verifiers = user.verifiers.iter().enumerate();
        let verifiers = verifiers
            .map(|(n, verifier)| compile_verifier(verifier, &format!("{path}.verifiers[{n}]")))
            .collect::<Checked<Vec<_>>>()?;
        let rights = compile_rights(&user.rights, &path)?;
        let entry = User::new(verifiers, rights);
        if user.name.is_empty() || compiled.insert(user.name.as_str().into(), entry).is_some() {
            return wrong(format!("{path}.name"), "is empty or used by another user; it must be unique");
        }
    }
    Ok(compiled)
}

impl Rights {
    /// Compiles a list of rights.
    ///
    /// # Errors
    /// Names the first invalid right.
    pub fn compile(rights: &[plan::Right]) -> Result<Self, PlanError> {
        compile_rights(rights, "answer")
    }
}

fn compile_rights(rights: &[plan::Right], path: &str) -> Checked<Rights> {
    let rights = rights.iter().enumerate();
    let rights = rights.map(|(n, right)| compile_right(right, &format!("{path}.rights[{n}]")));
    Ok(Rights::listed(rights.collect::<Checked<Vec<_>>>()?))
}

fn compile_right(right: &plan::Right, path: &str) -> Checked<(Pattern, plan::Right)> {
    if right.operations.is_empty() {
        return wrong(format!("{path}.operations"), "is empty; remove the right");
    }
    match Pattern::right(&right.pattern) {
        Ok(pattern) => Ok((pattern, right.clone())),
        Err(error) => wrong(format!("{path}.pattern"), format!("{:?}: {error}", right.pattern)),
    }
}

fn compile_verifier(verifier: &plan::Verifier, path: &str) -> Checked<Verifier> {
    let Some(Mechanism::Scram(hash)) = Mechanism::from_name(&verifier.mechanism) else {
        return wrong(format!("{path}.mechanism"), format!("{:?} is not a SCRAM mechanism", verifier.mechanism));
    };
    let iterations = NonZeroU32::new(verifier.iterations).filter(|rounds| ITERATIONS.contains(&rounds.get()));
    let Some(iterations) = iterations else {
        return wrong(format!("{path}.iterations"), "is not 4,096 to 1,000,000");
    };
    let bytes = |member: &str, text: &str, lengths: std::ops::RangeInclusive<usize>| match BASE64.decode(text) {
        Ok(bytes) if lengths.contains(&bytes.len()) => Ok(bytes),
        Ok(bytes) => wrong(format!("{path}.{member}"), format!("is {} bytes, not {lengths:?}", bytes.len())),
        Err(_) => wrong(format!("{path}.{member}"), "is not base64"),
    };
    Ok(Verifier {
        hash,
        iterations,
        salt: bytes("salt", &verifier.salt, SALT_BYTES)?,
        stored_key: bytes("storedKey", &verifier.stored_key, hash.length()..=hash.length())?,
        server_key: bytes("serverKey", &verifier.server_key, hash.length()..=hash.length())?,
    })
}
