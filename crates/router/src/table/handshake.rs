//! Authentication and the choice of the space (contracts 4 and 5), from the first byte to the
//! answer to open.
//!
//! A [`Handshake`] lasts from the SASL header to the SASL outcome. The space is determined when the
//! client names its user (in sasl-init, or in the response that follows): by server name, host name
//! of SASL, `@space` or as the default. From then on only the users, rules and mechanisms of that
//! space apply. With ANONYMOUS and without SASL, [`Table::open`] may determine the space. If one of
//! these names is unknown, the exchange is refused before any password or token is checked. If no
//! space is named and there is no default, it continues with dummy credentials.
//!
//! A handshake keeps the table with which it began, so that a plan that is applied in between
//! cannot combine the password of one space with the name of another.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;

use enmasse_amqp::sasl::{
    Claim, Credentials, Hash, Identity, Mechanism, Nonce, PlainRule, Server, Step, Verdict, Verifier,
};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Error, SaslCode, SaslInit, Symbol, condition};

use super::authenticated::{Authenticated, Granted, Proof};
use super::dummy_credentials::DummyCredentials;
use super::lookup::Meaning;
use super::space::Space;
use super::user::User;
use super::{NoSpace, Rights, SpaceHints, SpaceKey, Table};

/// The properties of a peer that the transport knows.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// the server name of the TLS handshake
    pub sni: Option<String>,
    /// the user name in a verified client certificate: its common name
    pub subject: Option<String>,
    /// whether a password may be sent in plain text: with TLS, on loopback, or if the operator
    /// allows it
    pub confidential: bool,
    /// its source address; `None`: from within this process
    pub source: Option<IpAddr>,
}

/// The question to a service about a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// full name of the space of the login
    pub space: String,
    /// the service, as the plan names it
    pub service: String,
    /// the peer's claim; the user without `@space`
    pub claim: Claim,
}

/// The answer of a service to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// the claim is right
    Right {
        /// the authenticated user
        user: String,
        /// its rights
        rights: Rights,
        /// when the login expires
        until: Option<Time>,
        /// the question may be repeated before that, and the connection stays if the login is still
        /// valid
        renewable: bool,
    },
    /// the claim is wrong; the reason, for operators only
    Wrong(String),
    /// no decision is possible at present; the reason, for operators only
    Unknown(String),
}

impl Authenticated {
    /// A peer without SASL.
    #[must_use]
    pub fn without_sasl(table: &Table, peer: &Peer) -> Self {
        Self::nameless(table, peer, None)
    }

    /// A peer without a user name. If its host names name no space, open decides.
    fn nameless(table: &Table, peer: &Peer, hostname: Option<&str>) -> Self {
        match table.space_of_hosts(peer.sni.as_deref(), hostname) {
            Ok(space) => Self { space, ..Self::default() },
            Err(NoSpace::Unknown(name)) => Self { unknown_host: Some(name.into()), ..Self::default() },
            Err(_) => Self::default(),
        }
    }

    /// A session within this process, authenticated as `user` (`None`: anonymous) of the space
    /// `space`. If that space does not exist, no other is selected.
    #[must_use]
    pub fn vouched(table: &Table, space: &str, user: Option<String>) -> Self {
        let found = table.space_within(space);
        let unknown_space = found.is_none().then(|| space.into());
        Self { space: found, user, unknown_space, unknown_host: None, proof: Proof::Vouched }
    }

    /// When the login expires; `None`: never.
    #[must_use]
    pub fn until(&self) -> Option<Time> {
        match &self.proof {
            Proof::Granted(granted) => granted.until,
            _ => None,
        }
    }
}

/// Why a login was refused, for operators only: the peer gets less detail. It never contains a
/// password.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// the real reason
    pub reason: String,
    /// the claimed user name, if one was sent
    pub user: Option<String>,
    /// the full name of the space of the login, if one was found
    pub space: Option<String>,
    /// the SASL mechanism; `None`: without SASL, or an unknown mechanism
    pub mechanism: Option<&'static str>,
}

/// A password attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempted {
    /// the space of the user; `None`: no space has the name
    pub space: Option<SpaceKey>,
    /// the user name without `@space`; the user may not exist
    pub user: String,
    /// its source address
    pub source: IpAddr,
}

/// The SASL exchange of one connection.
pub struct Handshake {
    table: Arc<Table>,
    peer: Peer,
    /// the host name in sasl-init
    hostname: Option<String>,
    /// the mechanism that the peer chose, if it is known
    mechanism: Option<Mechanism>,
    /// the user name that was last looked up
    asked: RefCell<Option<String>>,
    /// the password attempt in progress
    attempt: Option<Attempted>,
    /// the answer of a service, if one was asked
    judged: Option<Judged>,
    /// the space of the question to a service, and the question
    pending_question: Option<(SpaceKey, Question)>,
    server: Server,
}

impl Handshake {
    /// A new handshake. Send [`Handshake::mechanisms`] first.
    #[must_use]
    pub fn new(table: Arc<Table>, peer: Peer, nonce: Nonce) -> Self {
        let server = Server::new(offered(&table, &peer), nonce);
        Self {
            table,
            peer,
            hostname: None,
            mechanism: None,
            asked: RefCell::default(),
            attempt: None,
            judged: None,
            pending_question: None,
            server,
        }
    }

    /// The mechanisms of the space that the server name names, else of all spaces; strongest first.
    #[must_use]
    pub fn mechanisms(&self) -> Vec<Symbol> {
        self.server.mechanisms()
    }

    /// The properties of the peer that the transport knows.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Whether SASL is optional: a space that admits anonymous clients needs no SASL header.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        self.server.offers(Mechanism::Anonymous)
    }

    /// Takes the client's sasl-init.
    pub fn init(&mut self, init: &SaslInit) -> Step<Authenticated> {
        self.hostname.clone_from(&init.hostname);
        self.mechanism = Mechanism::from_name(init.mechanism.as_str());
        let hosts = self.table.space_of_hosts(self.peer.sni.as_deref(), self.hostname.as_deref());
        if hosts.is_err() && self.mechanism != Some(Mechanism::Anonymous) {
            // ANONYMOUS sends no secret, and open refuses it with an explanation.
            return Step::Refused { code: SaslCode::Auth, why: "a host name of the connection is unknown" };
        }
        let known = known(&self.table, &self.peer, self.hostname.as_deref(), &self.asked);
        let step = self.server.init(init, &known);
        match step {
            Step::Refused { code, .. } if self.is_ambiguous_certificate(init) => {
                let why = "EXTERNAL: several address spaces admit certificates, so the common name must name one, as \
                           user@NAME.NAMESPACE";
                Step::Refused { code, why }
            }
            step => self.admit(step),
        }
    }

    /// Whether the peer presents a certificate that has to name its space and does not.
    fn is_ambiguous_certificate(&self, init: &SaslInit) -> bool {
        self.table.certificates_name_space
            && init.mechanism == Mechanism::External.symbol()
            && self.peer.subject.as_deref().is_some_and(|subject| self.table.space_of_certificate(subject).is_none())
    }

    /// Takes the client's sasl-response.
    pub fn response(&mut self, response: &[u8]) -> Step<Authenticated> {
        let known = known(&self.table, &self.peer, self.hostname.as_deref(), &self.asked);
        let step = self.server.response(response, &known);
        self.admit(step)
    }

    /// Takes the result of a password check; `None`: not checked, because too many were waiting.
    pub fn plain_checked(&mut self, right: Option<bool>) -> Step<Authenticated> {
        let step = self.server.plain_checked(right);
        self.admit(step)
    }

    /// The attempt that a step begins: a password, or a proof of a password, will be checked.
    pub fn begins(&mut self, step: &Step<Authenticated>) -> Option<Attempted> {
        let is_checked = match (step, self.mechanism?) {
            (Step::CheckPlain(_) | Step::Ask(_), Mechanism::Plain) | (Step::Challenge(_), Mechanism::Scram(_)) => true,
            // Every peer is admitted: there is nothing to guess.
            _ => false,
        };
        if !is_checked || self.attempt.is_some() {
            return None;
        }
        let (source, asked) = (self.peer.source?, self.asked.borrow().clone()?);
        let space = self.known().space(Some(&asked)).ok();
        let is_it = |suffix: &str| space.is_some_and(|space| self.table.space_named(suffix) == Some(space.key()));
        let user = space.map_or(&*asked, |space| space.user(&asked, is_it).0).to_owned();
        self.attempt = Some(Attempted { space: space.map(Space::key), user, source });
        self.attempt.clone()
    }

    /// Takes the attempt in progress, after its verdict.
    pub fn ends(&mut self) -> Option<Attempted> {
        self.attempt.take()
    }

    /// The question for the service: `claim` is that of [`Step::Ask`].
    pub fn question(&mut self, claim: Claim) -> Option<Question> {
        let (space, user) = match &claim.user {
            Some(user) => {
                let (space, name, _) = self.known().user(user, claim.mechanism)?;
                (space, Some(name.to_owned()))
            }
            None => (self.known().space(None).ok()?, None),
        };
        let service = space.service()?;
        let question =
            Question { space: space.name().to_owned(), service: service.to_owned(), claim: Claim { user, ..claim } };
        self.pending_question = Some((space.key(), question.clone()));
        Some(question)
    }

    /// Takes the answer to [`Handshake::question`].
    pub fn judged(&mut self, judged: Judged) -> Step<Authenticated> {
        let verdict = match &judged {
            Judged::Right { user, .. } => Verdict::Right { user: user.clone() },
            Judged::Wrong(_) => Verdict::Wrong,
            Judged::Unknown(_) => Verdict::Unknown,
        };
        self.judged = Some(judged);
        let step = self.server.judged(verdict);
        self.admit(step)
    }

    fn admit(&self, step: Step<Identity>) -> Step<Authenticated> {
        match step {
            Step::Challenge(challenge) => Step::Challenge(challenge),
            Step::CheckPlain(check) => Step::CheckPlain(check),
            Step::Ask(claim) => Step::Ask(claim),
            Step::Refused { code, why } => Step::Refused { code, why },
            Step::Accepted { identity, data } => Step::Accepted { identity: self.authenticated(identity), data },
        }
    }

    fn authenticated(&self, identity: Identity) -> Authenticated {
        match (&self.judged, &self.pending_question) {
            (Some(Judged::Right { user, rights, until, .. }), Some((space, question))) => {
                let service = question.service.as_str().into();
                let granted = Granted { service, rights: rights.clone(), until: *until };
                let proof = Proof::Granted(Arc::new(granted));
                Authenticated { space: Some(*space), user: Some(user.clone()), proof, ..Authenticated::default() }
            }
            _ => self.known().authenticated(identity),
        }
    }

    /// After [`Step::Accepted`]: the question to ask again before the login expires, if allowed.
    pub fn to_renew(&mut self) -> Option<Question> {
        let Some(Judged::Right { until: Some(_), renewable: true, .. }) = self.judged else { return None };
        self.pending_question.take().map(|(_, question)| question)
    }

    fn known(&self) -> KnownUsers<'_> {
        known(&self.table, &self.peer, self.hostname.as_deref(), &self.asked)
    }

    /// The space by the names that the peer has sent so far; `None`: they select none.
    #[must_use]
    pub fn space(&self) -> Option<SpaceKey> {
        self.known().space(self.asked.borrow().as_deref()).ok().map(Space::key)
    }

    /// The mechanism that the peer chose, if it is known.
    #[must_use]
    pub fn mechanism(&self) -> Option<Mechanism> {
        self.mechanism
    }

    /// After [`Step::Refused`]: the reason for operators. `why` is that step's, which reveals no
    /// more than the peer may know.
    #[must_use]
    pub fn refusal(&self, why: &str) -> Refusal {
        let user = self.asked.borrow().clone();
        let known = self.known();
        let space = known.space(user.as_deref());
        let judged = match &self.judged {
            Some(Judged::Wrong(why) | Judged::Unknown(why)) => Some(why.clone()),
            _ => None,
        };
        let found = match (self.mechanism.filter(|mechanism| self.server.offers(*mechanism)), &user, &space) {
            _ if judged.is_some() => judged,
            (_, _, Err(unknown @ NoSpace::Unknown(_))) => Some(unknown.to_string()),
            (Some(_), Some(_), Err(none)) => Some(none.to_string()),
            (Some(mechanism), _, Ok(space)) if !space.mechanisms().contains(&mechanism) => {
                let names: Vec<_> = space.mechanisms().iter().map(|mechanism| mechanism.name()).collect();
                let (space, name) = (space.name(), mechanism.name());
                Some(format!("address space {space} has no {name}; log in with {}", names.join(" or ")))
            }
            (Some(mechanism), Some(user), Ok(space))
                if !space.is_delegated()
                    && !mechanism.is_bearer()
                    && known.user(user, mechanism).is_some_and(|(.., user)| user.is_none()) =>
            {
                Some(format!("address space {} has no such user", space.name()))
            }
            _ => None,
        };
        Refusal {
            reason: found.unwrap_or_else(|| why.to_owned()),
            user,
            space: space.ok().map(|space| space.name().to_owned()),
            mechanism: self.mechanism.map(Mechanism::name),
        }
    }
}

const fn known<'a>(
    table: &'a Table,
    peer: &'a Peer,
    hostname: Option<&'a str>,
    asked: &'a RefCell<Option<String>>,
) -> KnownUsers<'a> {
    KnownUsers { table, peer, hostname, asked }
}

/// The mechanisms offered to a peer whose space may be undetermined.
fn offered(table: &Table, peer: &Peer) -> Vec<Mechanism> {
    let named = peer.sni.as_deref().map_or(Meaning::Neutral, |name| table.meaning(name));
    let mechanisms = match named {
        Meaning::Space(key) => table.space(key).map_or(&[][..], Space::mechanisms),
        Meaning::Neutral | Meaning::Unknown => &table.mechanisms,
    };
    let possible = |mechanism: &Mechanism| match mechanism {
        // A login under an unknown name always fails, so no secret needs to cross the wire.
        shown if shown.shows_secret() => peer.confidential && named != Meaning::Unknown,
        Mechanism::External => peer.subject.is_some(),
        _ => true,
    };
    let mut offered: Vec<_> = mechanisms.iter().copied().filter(possible).collect();
    if offered.is_empty() {
        // The list must not be empty (5.3.3.1). SCRAM without users admits no peer and reveals
        // nothing.
        offered.push(Mechanism::Scram(Hash::Sha256));
    }
    offered
}

/// The look-up of users for one peer.
struct KnownUsers<'a> {
    table: &'a Table,
    peer: &'a Peer,
    hostname: Option<&'a str>,
    /// records the user name that is looked up
    asked: &'a RefCell<Option<String>>,
}

impl<'a> KnownUsers<'a> {
    /// The space of a user of that name (`None`: without a name).
    fn space(&self, user: Option<&str>) -> Result<&'a Space, NoSpace> {
        let hints =
            SpaceHints { sni: self.peer.sni.as_deref(), sasl_hostname: self.hostname, user, open_hostname: None };
        let key = self.table.space_for(&hints)?;
        self.table.space(key).ok_or(NoSpace::Nothing)
    }

    /// Whether the names of a connection with that user contain an unknown one.
    fn is_unknown(&self, user: &str) -> bool {
        matches!(self.space(Some(user)), Err(NoSpace::Unknown(_)))
    }

    /// The space of a user, if it has that mechanism; the name without `@space`; and the user, if
    /// it exists.
    fn user<'n>(&self, name: &'n str, mechanism: Mechanism) -> Option<(&'a Space, &'n str, Option<&'a User>)> {
        let space = self.space(Some(name)).ok().filter(|space| space.mechanisms().contains(&mechanism))?;
        let (name, user) = space.user(name, |suffix| self.table.space_named(suffix) == Some(space.key()));
        Some((space, name, user))
    }

    fn authenticated(&self, identity: Identity) -> Authenticated {
        let Some(user) = identity.user else {
            return Authenticated::nameless(self.table, self.peer, self.hostname);
        };
        // An authenticated name was looked up in its space, so it is found here too.
        match self.user(&user, identity.mechanism) {
            Some((space, name, found)) => {
                let proof = match (identity.mechanism, found) {
                    _ if space.is_open() => Proof::None,
                    (Mechanism::External, _) => Proof::Certificate,
                    (_, Some(found)) => Proof::Password(found.stamp),
                    (_, None) => Proof::None,
                };
                Authenticated {
                    space: Some(space.key()),
                    user: Some(name.to_owned()),
                    proof,
                    ..Authenticated::default()
                }
            }
            None => Authenticated { user: Some(user), ..Authenticated::default() },
        }
    }
}

impl Credentials for KnownUsers<'_> {
    fn anonymous(&self) -> bool {
        // The host name of open may select the space. An unknown host name in sasl-init is refused
        // at open, like any other, so that the outcome here reveals nothing.
        true
    }

    fn plain(&self, user: &str) -> PlainRule {
        self.asked.replace(Some(user.to_owned()));
        if self.is_unknown(user) {
            return PlainRule::Refuse;
        }
        let Some((space, name, found)) = self.user(user, Mechanism::Plain) else {
            return PlainRule::Check(DummyCredentials::without_space().strongest(&self.table.secret, user));
        };
        if space.is_open() {
            return PlainRule::Accept;
        }
        if space.is_delegated() {
            return PlainRule::Ask;
        }
        // Computed in any case, so that the time does not show whether the user exists.
        let dummy = space.dummy.strongest(&self.table.secret, name);
        PlainRule::Check(found.and_then(User::strongest).cloned().unwrap_or(dummy))
    }

    fn scram(&self, user: &str, hash: Hash) -> Option<Verifier> {
        self.asked.replace(Some(user.to_owned()));
        if self.is_unknown(user) {
            return None;
        }
        let Some((space, name, found)) = self.user(user, Mechanism::Scram(hash)) else {
            return Some(DummyCredentials::without_space().verifier(&self.table.secret, user, hash));
        };
        let dummy = space.dummy.verifier(&self.table.secret, name, hash);
        Some(found.and_then(|user| user.verifier(hash)).cloned().unwrap_or(dummy))
    }

    fn bearer(&self, user: Option<&str>, mechanism: Mechanism) -> bool {
        self.asked.replace(user.map(str::to_owned));
        let space = self.space(user).ok().filter(|space| space.mechanisms().contains(&mechanism));
        space.is_some_and(|space| space.service().is_some())
    }

    /// A client chooses the server name and the host name itself, but not the name in its
    /// certificate. So if one authority signs for users of several spaces, the certificate must
    /// name its space. It uses the full name: a short one may select another space later.
    fn external(&self) -> Option<String> {
        let subject = self.peer.subject.as_deref()?;
        self.asked.replace(Some(subject.to_owned()));
        let (space, _, user) = self.user(subject, Mechanism::External)?;
        let is_for_space = || self.table.space_of_certificate(subject) == Some(space.key());
        let admitted = user.is_some() && (!self.table.certificates_name_space || is_for_space());
        (space.is_open() || admitted).then(|| subject.to_owned())
    }
}

impl Table {
    /// The space whose full name follows the last `@` of a certificate's common name.
    fn space_of_certificate(&self, subject: &str) -> Option<SpaceKey> {
        let (_, suffix) = subject.rsplit_once('@')?;
        let space = self.space(self.space_named(suffix)?)?;
        suffix.eq_ignore_ascii_case(space.name()).then(|| space.key())
    }

    /// The final space of an authenticated peer, determined at open.
    ///
    /// # Errors
    /// The error to close the connection with, and the reason for operators.
    /// `amqp:unauthorized-access`: no space was named, or it does not admit anonymous peers; the
    /// error does not reveal which. `amqp:not-found`: there is no space, it is deleted, or the host
    /// name is unknown. `amqp:not-allowed`: the host name is that of another space.
    pub fn open(
        &self,
        authenticated: &Authenticated,
        hostname: Option<&str>,
    ) -> Result<SpaceKey, (Error, Box<Refusal>)> {
        self.find(authenticated, hostname).map_err(|(error, space, reason)| {
            let refusal = Refusal {
                reason: reason.unwrap_or_else(|| error.description.clone().unwrap_or_default()),
                user: authenticated.user.clone(),
                space: space.map(|space| space.name().to_owned()),
                mechanism: None,
            };
            (error, Box::new(refusal))
        })
    }

    fn find(&self, authenticated: &Authenticated, hostname: Option<&str>) -> Result<SpaceKey, Stopped<'_>> {
        let key = match authenticated {
            Authenticated { space: Some(key), .. } => *key,
            Authenticated { unknown_space: Some(name), .. } => {
                let text = format!(
                    "no address space is named {name:?}, for which this session was opened; it was deleted or renamed"
                );
                return Err((Error::new(condition::NOT_FOUND, text), None, None));
            }
            Authenticated { user: None, unknown_host: Some(name), .. } => {
                let why = NoSpace::Unknown(name.to_string());
                return Err((nameless(&why), None, Some(why.to_string())));
            }
            Authenticated { user: None, .. } => {
                let hints = SpaceHints { open_hostname: hostname, ..SpaceHints::default() };
                self.space_for(&hints).map_err(|why| (nameless(&why), None, Some(why.to_string())))?
            }
            // The space of a user is determined before the outcome of SASL, never later.
            Authenticated { user: Some(_), .. } => {
                return Err((nameless(&NoSpace::Unnamed), None, Some(NoSpace::Unnamed.to_string())));
            }
        };
        let Some(space) = self.space(key) else {
            let text = "the address space of this connection was deleted";
            return Err((Error::new(condition::NOT_FOUND, text), None, None));
        };
        if authenticated.user.is_none() && !space.admits_anonymous() {
            let reason = format!("address space {} does not admit anonymous clients", space.name());
            return Err((nameless(&NoSpace::Unnamed), Some(space), Some(reason)));
        }
        if let Err(why) = space.admits(authenticated) {
            return Err((Error::new(condition::UNAUTHORIZED_ACCESS, why), Some(space), None));
        }
        match hostname.map_or(Meaning::Neutral, |hostname| self.meaning(hostname)) {
            Meaning::Space(named) if named != key => {
                let text = format!(
                    "this connection belongs to address space {}; open names another as its host",
                    space.name()
                );
                Err((Error::new(condition::NOT_ALLOWED, text), Some(space), None))
            }
            // In-process sessions are exempt: their host names are set by our own code.
            Meaning::Unknown if authenticated.proof != Proof::Vouched => {
                let why = NoSpace::Unknown(hostname.unwrap_or_default().to_owned());
                Err((Error::new(condition::NOT_FOUND, why.to_string()), Some(space), None))
            }
            _ => Ok(key),
        }
    }
}

/// The error for the peer, the space that was found, and the reason for operators if it differs.
type Stopped<'a> = (Error, Option<&'a Space>, Option<String>);

/// The error of a peer without a space, and of one whose space does not admit anonymous peers. They
/// are equal, because otherwise strangers could probe which spaces exist.
fn nameless(why: &NoSpace) -> Error {
    match why {
        NoSpace::Nothing => Error::new(condition::NOT_FOUND, why.to_string()),
        NoSpace::Unnamed | NoSpace::Unknown(_) => Error::new(
            condition::UNAUTHORIZED_ACCESS,
            "no address space of that name admits anonymous clients; set the virtual host (hostname of the TLS \
             handshake, of sasl-init or of open) to the name of one that admits them, or log in as user@space",
        ),
    }
}
