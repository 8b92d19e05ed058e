//! One address space: its names and its authentication.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Bound;
use std::sync::Arc;

use enmasse_amqp::sasl::{Hash, Mechanism, Verifier};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Error, condition};

use super::compile::check_name;
use super::dummy_credentials::DummyCredentials;
use super::handshake::{Authenticated, Proof};
use super::pace::Pace;
use super::pattern::{Pattern, is_wildcard};
use super::rights::Rights;
use super::usage::{CountGuard, Counter, Traffic, Usage};
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
    /// the same for every table in which the space has the same bounds
    pub(super) pace: Option<Arc<Pace>>,
    pub(super) addresses: BTreeMap<Arc<str>, Arc<AddressEntry>>,
    /// those of them that cover the names below them, but for `#`
    pub(super) covering: BTreeMap<Arc<str>, Arc<AddressEntry>>,
    /// most levels of any address that covers names below it: longer prefixes need not be looked up
    pub(super) levels_max: usize,
    /// patterns of the names that links may have created, as text and compiled
    pub(super) auto_create: Vec<(Box<str>, Pattern)>,
    /// only sessions within this process come in
    pub(super) internal: bool,
}

/// What a name stands for in an address space.
#[derive(Clone, Copy, Debug)]
pub enum Resolved<'a> {
    /// this declared address
    Address(&'a Arc<AddressEntry>),
    /// none yet: the space has one created for a link
    Creatable,
    /// none
    Nothing,
}

/// The authentication of peers (contracts 5).
#[derive(Debug)]
pub(super) struct Authentication {
    /// any password will do
    pub(super) open: bool,
    /// also without a name
    pub(super) anonymous: bool,
    /// strongest first; ANONYMOUS among them if `anonymous`
    pub(super) mechanisms: Vec<Mechanism>,
    /// passwords are for the service to check
    pub(super) delegated: bool,
    /// the service that checks tokens, and passwords if `delegated`
    pub(super) service: Option<Box<str>>,
}

#[derive(Debug)]
pub(super) struct User {
    pub(super) verifiers: Vec<Verifier>,
    pub(super) rights: Rights,
    /// stands for the password: another one has another
    pub(super) stamp: u64,
}

impl User {
    /// A user with a password, if there are verifiers of it.
    pub(super) fn new(verifiers: Vec<Verifier>, rights: Rights) -> Self {
        let mut hasher = DefaultHasher::new();
        verifiers.iter().for_each(|verifier| verifier.stored_key.hash(&mut hasher));
        Self { stamp: hasher.finish(), verifiers, rights }
    }

    pub(super) fn verifier(&self, hash: Hash) -> Option<&Verifier> {
        self.verifiers.iter().find(|verifier| verifier.hash == hash)
    }

    /// The one that a password is checked with: that of the strongest hash.
    pub(super) fn strongest(&self) -> Option<&Verifier> {
        self.verifiers.iter().max_by_key(|verifier| verifier.hash)
    }
}

impl Space {
    /// Under which user the rights of those without a name are listed, in a space that also has
    /// users.
    pub const ANONYMOUS: &'static str = "anonymous";

    /// Stays for the same uid, never used again for another.
    #[must_use]
    pub const fn key(&self) -> SpaceKey {
        self.key
    }

    /// Identity given by the control plane.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Whether only sessions within this process may connect: no clue of a peer selects it, and no
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

    /// The host names of its endpoints: its names but the full one and what stands before the
    /// namespace in that.
    pub fn route_hosts(&self) -> impl Iterator<Item = &str> {
        let is_name =
            |name: &str| self.name().strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.names.iter().map(|name| &**name).filter(move |name| !is_name(name))
    }

    /// The shard where its stored addresses live, if it has any.
    #[must_use]
    pub fn storage_home(&self) -> Option<u16> {
        self.addresses.values().filter(|entry| entry.storage.is_some()).find_map(|entry| entry.home.get())
    }

    /// Counts one more connection.
    ///
    /// # Errors
    /// `amqp:resource-limit-exceeded` at the space's limit.
    pub fn enter(&self) -> Result<Option<CountGuard>, Error> {
        self.place(&self.usage.connections, self.limits.connections, "connections")
    }

    /// Whether a login is refused before it costs anything: there is no place, and other refusals
    /// have just been explained.
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

    /// Connections and links that are counted now.
    #[must_use]
    pub fn taken(&self) -> (u32, u32) {
        (self.usage.connections.taken(), self.usage.links.taken())
    }

    /// How fast its clients may send, where that has a bound.
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

    /// Whether one may come in without a name: mechanism ANONYMOUS, or no SASL header at all.
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

    /// The service that checks tokens, and passwords where the plan has none.
    #[must_use]
    pub fn service(&self) -> Option<&str> {
        self.authentication.service.as_deref()
    }

    /// The rights of `authenticated` here: those declared for a user of that name, and those
    /// granted at login. A user that does not exist any more may do nothing.
    #[must_use]
    pub fn rights(&self, authenticated: &Authenticated) -> Rights {
        if self.authentication.open {
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
    /// Why it is not valid, for the peer, which was connected.
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

    /// What a name stands for (contracts 6): the declared address of that name; else the longest
    /// address above it, by levels, that covers names below; else an address that a link may have
    /// created; else the address `#`. Nothing for a name with wildcards.
    #[must_use]
    pub fn look_up(&self, name: &str) -> Resolved<'_> {
        if is_wildcard(name) {
            return Resolved::Nothing;
        }
        match self.addresses.get(name).or_else(|| self.above(name)) {
            Some(entry) => Resolved::Address(entry),
            None if self.creates(name) => Resolved::Creatable,
            None => self.addresses.get("#").map_or(Resolved::Nothing, Resolved::Address),
        }
    }

    /// The declared address that a name stands for.
    #[must_use]
    pub fn resolve(&self, name: &str) -> Option<&Arc<AddressEntry>> {
        match self.look_up(name) {
            Resolved::Address(entry) => Some(entry),
            Resolved::Creatable | Resolved::Nothing => None,
        }
    }

    /// The patterns of `autoCreate` that stand for a name.
    pub fn creating(&self, name: &str) -> impl Iterator<Item = &str> {
        self.auto_create.iter().filter(move |(_, pattern)| pattern.matches(name)).map(|(text, _)| &**text)
    }

    /// Whether `autoCreate` covers a name that an address may have. The names of subscriptions
    /// (`topic::name`) and of the node's own addresses are none.
    fn creates(&self, name: &str) -> bool {
        self.creating(name).next().is_some()
            && check_name(name).is_ok()
            && !name.starts_with('$')
            && !name.contains("::")
    }

    /// The addresses that a receiver on `name` listens to: that of [`Space::resolve`], or for a
    /// filter with wildcards all addresses under which names are found that it stands for; never an
    /// anycast address. In the order of their keys. A name `sensors/7` under the address `sensors`
    /// is for the caller to compare with each message.
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

    /// The prefixes of `name`, shortest first, no deeper than the deepest covering address: a name
    /// of many levels costs no more than one of few.
    fn prefixes<'n>(&self, name: &'n str) -> impl Iterator<Item = &'n str> {
        name.match_indices('/').map(|(end, _)| &name[..end]).take(self.levels_max)
    }

    /// The user that `name` stands for, and the name to look the rights up with: a user of exactly
    /// that name, else without an `@space` that names this very space (`here` decides).
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
