//! One address space: its names, its addresses and its authentication.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use enmasse_amqp::sasl::Mechanism;
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Error, condition};

use super::address::check_name;
use super::authenticated::{Authenticated, Proof};
use super::dummy_credentials::DummyCredentials;
use super::pace::Pace;
use super::pattern::{Pattern, is_wildcard};
use super::rights::Rights;
use super::usage::{CountGuard, Counter, Traffic, Usage};
use super::user::User;
use super::{AddressEntry, SpaceKey};
use crate::plan::SpaceLimits;

/// An address space, compiled.
#[derive(Debug)]
pub struct Space {
    pub(super) key: SpaceKey,
    pub(super) uid: Box<str>,
    pub(super) names: Vec<Box<str>>,
    pub(super) authentication: Authentication,
    pub(super) users: HashMap<Box<str>, User>,
    /// the dummy credentials of nonexistent users
    pub(super) dummy: DummyCredentials,
    pub(super) limits: SpaceLimits,
    pub(super) usage: Usage,
    /// shared by successive tables while the bounds of the space do not change
    pub(super) pace: Option<Arc<Pace>>,
    pub(super) addresses: BTreeMap<Arc<str>, Arc<AddressEntry>>,
    /// the addresses that cover names below them, except `#`
    pub(super) covering: BTreeMap<Arc<str>, Arc<AddressEntry>>,
    /// the subscriptions, by their name without that of the topic
    pub(super) subscriptions: HashMap<Box<str>, Arc<AddressEntry>>,
    /// most levels of an address in `covering`: longer prefixes need not be looked up
    pub(super) levels_max: usize,
    /// the patterns of `autoCreate`, as text and compiled
    pub(super) auto_create: Vec<(Box<str>, Pattern)>,
    /// only sessions within this process are admitted
    pub(super) internal: bool,
    /// what it keeps for clients of MQTT
    pub(super) mqtt: Option<MqttStore>,
}

/// The addresses that keep what clients of MQTT leave behind. No name resolves to them.
#[derive(Debug)]
pub struct MqttStore {
    /// a queue of the last message of each topic
    pub retained: Arc<AddressEntry>,
    /// a topic with a durable subscription for each session
    pub sessions: Arc<AddressEntry>,
    /// longest time that a session is kept without a connection, in seconds
    pub session_expiry_s: u32,
}

/// The resolution of a name in an address space.
#[derive(Clone, Copy, Debug)]
pub enum Resolved<'a> {
    /// this declared address
    Address(&'a Arc<AddressEntry>),
    /// none yet: an attach creates it
    Creatable,
    /// none
    Nothing,
}

/// The authentication of peers (contracts 5).
#[derive(Debug)]
pub(super) struct Authentication {
    /// every password is accepted
    pub(super) open: bool,
    /// clients without a user name are admitted
    pub(super) anonymous: bool,
    /// strongest first; includes ANONYMOUS if `anonymous`
    pub(super) mechanisms: Vec<Mechanism>,
    /// the service checks passwords
    pub(super) delegated: bool,
    /// the service that checks tokens, and passwords if `delegated`
    pub(super) service: Option<Box<str>>,
}

impl Space {
    /// The user whose rights clients without a user name have, in a space with authentication.
    pub const ANONYMOUS: &'static str = "anonymous";

    /// The user of sessions within this process that act for an administrator. It has every right,
    /// and no client can be it: the process itself vouches for it.
    pub const ADMINISTRATOR: &'static str = "$administrator";

    /// The same for the same uid; never reused.
    #[must_use]
    pub const fn key(&self) -> SpaceKey {
        self.key
    }

    /// Identity given by the control plane.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Whether only sessions within this process may connect: no name of a peer selects it, and no
    /// metrics show it.
    #[must_use]
    pub const fn is_internal(&self) -> bool {
        self.internal
    }

    /// The full name, `NAME.NAMESPACE`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.names.last().map_or("", |name| name)
    }

    /// The host names of its endpoints: its names, except the full name and its part before the
    /// namespace.
    pub fn route_hosts(&self) -> impl Iterator<Item = &str> {
        let is_name =
            |name: &str| self.name().strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.names.iter().map(|name| &**name).filter(move |name| !is_name(name))
    }

    /// The home of its stored addresses, if all have the same one.
    #[must_use]
    pub fn storage_home(&self) -> Option<u16> {
        let mut homes = self.all_addresses().filter(|entry| entry.storage.is_some()).filter_map(|it| it.home.get());
        let first = homes.next()?;
        homes.all(|home| home == first).then_some(first)
    }

    /// Counts one more connection.
    ///
    /// # Errors
    /// `amqp:resource-limit-exceeded` at the space's limit.
    pub fn enter(&self) -> Result<Option<CountGuard>, Error> {
        self.place(&self.usage.connections, self.limits.connections, "connections")
    }

    /// Whether to refuse a login before any costly check: the space is at its connection limit, and
    /// the rate of explained refusals is used up.
    #[must_use]
    pub fn refuses_logins(&self, now: Time) -> bool {
        let is_full = self.limits.connections.is_some_and(|limit| self.usage.connections.taken() >= limit);
        is_full && !self.usage.login_attempts.0.take(now)
    }

    /// Counts one more link.
    ///
    /// # Errors
    /// `amqp:resource-limit-exceeded` at the space's limit.
    pub fn link(&self) -> Result<Option<CountGuard>, Error> {
        self.place(&self.usage.links, self.limits.links, "links")
    }

    /// The numbers of connections and of links.
    #[must_use]
    pub fn taken(&self) -> (u32, u32) {
        (self.usage.connections.taken(), self.usage.links.taken())
    }

    /// The rate limit of its clients, if it has one.
    #[must_use]
    pub const fn pace(&self) -> Option<&Arc<Pace>> {
        self.pace.as_ref()
    }

    /// The traffic of its clients.
    #[must_use]
    pub const fn traffic(&self) -> &Arc<Traffic> {
        &self.usage.traffic
    }

    fn place(&self, counter: &Counter, limit: Option<u32>, what: &str) -> Result<Option<CountGuard>, Error> {
        // Counted without a limit too: a later limit applies to existing connections.
        let limit = limit.unwrap_or(u32::MAX);
        counter.take(limit).map(Some).ok_or_else(|| {
            let text = format!("address space {} has {limit} {what}, its limit; close one first", self.name());
            Error::new(condition::RESOURCE_LIMIT_EXCEEDED, text)
        })
    }

    /// Bounds of the whole space.
    #[must_use]
    pub const fn limits(&self) -> &SpaceLimits {
        &self.limits
    }

    /// Whether clients without a user name are admitted: by mechanism ANONYMOUS, or without a SASL
    /// header.
    #[must_use]
    pub const fn admits_anonymous(&self) -> bool {
        self.authentication.anonymous
    }

    /// Whether every peer is admitted with all rights.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.authentication.open
    }

    /// Whether an external service checks passwords.
    #[must_use]
    pub const fn is_delegated(&self) -> bool {
        self.authentication.delegated
    }

    /// The mechanisms of the space, strongest first, for any transport.
    #[must_use]
    pub fn mechanisms(&self) -> &[Mechanism] {
        &self.authentication.mechanisms
    }

    /// The declared addresses, in the order of their names.
    pub fn addresses(&self) -> impl Iterator<Item = &Arc<AddressEntry>> {
        self.addresses.values()
    }

    /// What it keeps for clients of MQTT.
    #[must_use]
    pub const fn mqtt(&self) -> Option<&MqttStore> {
        self.mqtt.as_ref()
    }

    /// The declared addresses, and those that keep what clients of MQTT leave behind.
    pub(super) fn all_addresses(&self) -> impl Iterator<Item = &Arc<AddressEntry>> {
        self.addresses.values().chain(self.mqtt.iter().flat_map(|store| [&store.retained, &store.sessions]))
    }

    /// The service that checks tokens, and passwords where the plan has none.
    #[must_use]
    pub fn service(&self) -> Option<&str> {
        self.authentication.service.as_deref()
    }

    /// The rights of `authenticated` here: those declared for the user, and those granted at login.
    /// A deleted user has none.
    #[must_use]
    pub fn rights(&self, authenticated: &Authenticated) -> Rights {
        let administers = authenticated.user.as_deref() == Some(Self::ADMINISTRATOR);
        if self.authentication.open || (administers && matches!(authenticated.proof, Proof::Vouched)) {
            return Rights::EVERYTHING;
        }
        let user = self.users.get(authenticated.user.as_deref().unwrap_or(Self::ANONYMOUS));
        match (user, &authenticated.proof) {
            (Some(user), Proof::Granted(granted)) => user.rights.together(&granted.rights),
            (None, Proof::Granted(granted)) => granted.rights.clone(),
            (Some(user), _) => user.rights.clone(),
            (None, _) => Rights::nothing(),
        }
    }

    /// Whether the credentials of `authenticated` are still accepted.
    ///
    /// # Errors
    /// Why they are not, as a text for the peer, which was connected.
    pub fn admits(&self, authenticated: &Authenticated) -> Result<(), &'static str> {
        if self.is_open() {
            return Ok(());
        }
        let user = authenticated.user.as_deref().map(|name| self.users.get(name));
        match (&authenticated.proof, user) {
            (Proof::Vouched, _) => Ok(()),
            (Proof::Granted(granted), _) if Some(&*granted.service) == self.service() => Ok(()),
            (Proof::Granted(_), _) => Err("the authentication service of the address space has changed; log in again"),
            (Proof::None, None) if self.admits_anonymous() => Ok(()),
            (Proof::None, _) => Err("the address space no longer admits anonymous clients"),
            (Proof::Password(stamp), Some(Some(user))) if user.stamp == *stamp => Ok(()),
            (Proof::Password(_), Some(Some(_))) => Err("the password of this user has changed; log in again"),
            (Proof::Certificate, Some(Some(_))) => Ok(()),
            (Proof::Password(_) | Proof::Certificate, _) => Err("this user was deleted"),
        }
    }

    /// Resolves a name (contracts 6), in this order: the declared address of that name; the longest
    /// address above it, by levels, that covers names below; an address that an attach creates; the
    /// address `#`. A name with wildcards resolves to nothing.
    #[must_use]
    pub fn look_up(&self, name: &str) -> Resolved<'_> {
        if is_wildcard(name) { Resolved::Nothing } else { self.look_up_literally(name) }
    }

    /// As [`Space::look_up`], of a name in which no level is a wildcard, such as a topic of MQTT,
    /// where `*` is a letter.
    #[must_use]
    pub fn look_up_literally(&self, name: &str) -> Resolved<'_> {
        match self.addresses.get(name).or_else(|| self.above(name)) {
            Some(entry) => Resolved::Address(entry),
            None if self.creates(name) => Resolved::Creatable,
            None => self.addresses.get("#").map_or(Resolved::Nothing, Resolved::Address),
        }
    }

    /// The declared address to which a name resolves.
    #[must_use]
    pub fn resolve(&self, name: &str) -> Option<&Arc<AddressEntry>> {
        match self.look_up(name) {
            Resolved::Address(entry) => Some(entry),
            Resolved::Creatable | Resolved::Nothing => None,
        }
    }

    /// The declared subscription whose name after `topic::` is this one.
    #[must_use]
    pub fn subscription(&self, name: &str) -> Option<&Arc<AddressEntry>> {
        self.subscriptions.get(name)
    }

    /// The patterns of `autoCreate` that match a name.
    pub fn creating(&self, name: &str) -> impl Iterator<Item = &str> {
        self.auto_create.iter().filter(move |(_, pattern)| pattern.matches(name)).map(|(text, _)| &**text)
    }

    /// Whether it creates any address on demand.
    #[must_use]
    pub const fn creates_addresses(&self) -> bool {
        !self.auto_create.is_empty()
    }

    /// Whether `autoCreate` covers a name, and it is valid for an address. Names of subscriptions
    /// (`topic::name`) and of the node's own addresses are excluded.
    fn creates(&self, name: &str) -> bool {
        self.creating(name).next().is_some()
            && check_name(name).is_ok()
            && !name.starts_with('$')
            && !name.contains("::")
    }

    /// The addresses of a receiver on `name`, in the order of their keys: that of
    /// [`Space::resolve`]; for a filter with wildcards all addresses that cover a name it matches,
    /// never an anycast address. The caller filters each message by its full name, such as
    /// `sensors/7` at the address `sensors`.
    #[must_use]
    pub fn resolve_receiver(&self, name: &str) -> Vec<&Arc<AddressEntry>> {
        if !is_wildcard(name) {
            return self.resolve(name).into_iter().collect();
        }
        let Ok(filter) = Pattern::filter(name) else { return Vec::new() };
        let reached = |address: &&Arc<AddressEntry>| filter.reaches(&address.name);
        let mut found: Vec<_> = match literal_prefix(name) {
            Some(prefix) => {
                // `0` follows `/` in ASCII: the names below the prefix and no others.
                let (from, to) = (format!("{prefix}/"), format!("{prefix}0"));
                let below = self.covering.range::<str, _>((Bound::Included(&*from), Bound::Excluded(&*to)));
                let above = self.prefixes(prefix).chain([prefix]).filter_map(|name| self.covering.get(name));
                above.chain(below.map(|(_, address)| address)).filter(reached).collect()
            }
            None => self.covering.values().filter(reached).collect(),
        };
        found.extend(self.addresses.get("#").filter(|open| open.covers_below()));
        found.sort_by_key(|address| address.key);
        found
    }

    /// The longest covering address above `name`.
    fn above(&self, name: &str) -> Option<&Arc<AddressEntry>> {
        self.prefixes(name).filter_map(|prefix| self.covering.get(prefix)).last()
    }

    /// The prefixes of `name`, shortest first, with at most the levels of the deepest covering
    /// address: this bounds the cost of a name with many levels.
    fn prefixes<'n>(&self, name: &'n str) -> impl Iterator<Item = &'n str> {
        name.match_indices('/').map(|(end, _)| &name[..end]).take(self.levels_max)
    }

    /// The user of a login name, and the name for its rights: the user of exactly that name, else
    /// of the name without an `@space` that selects this space, as `here` decides.
    pub(super) fn user<'n>(&self, name: &'n str, here: impl Fn(&str) -> bool) -> (&'n str, Option<&User>) {
        let bare = match name.rsplit_once('@') {
            Some((bare, suffix)) if here(suffix) => bare,
            _ => name,
        };
        match self.users.get(name) {
            Some(user) => (name, Some(user)),
            None => (bare, self.users.get(bare)),
        }
    }
}

/// The levels of a filter before its first wildcard; `None` if that is the first level.
fn literal_prefix(filter: &str) -> Option<&str> {
    let levels = filter.split('/').take_while(|level| !is_wildcard(level));
    let length = levels.map(|level| level.len() + 1).sum::<usize>();
    length.checked_sub(1).map(|length| &filter[..length])
}
