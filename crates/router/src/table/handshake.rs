//! Who comes into which space (contracts 4 and 5), from the first byte to the answer to open.
//!
//! A [`Handshake`] lives from the SASL header to the SASL outcome. The space becomes known when the client names its
//! user (in sasl-init, or in the response that follows), by server name, host name of SASL, `@space` or as the only one;
//! from then on only that space's users, rules and mechanisms count. With ANONYMOUS and without SASL it may stay open
//! until [`Table::open`]. Where no space is found, the exchange goes on with users that do not exist.
//!
//! The handshake holds on to the table it began with, so that a plan applied in between cannot join the password of
//! one space with the name of another.

use std::sync::Arc;

use enmasse_amqp::sasl::{Credentials, Hash, Identity, Mechanism, Nonce, PlainRule, Server, Step, Verifier};
use enmasse_amqp::types::{Error, SaslInit, Symbol, condition};

use super::decoy::Decoy;
use super::space::{Space, User};
use super::{Clues, NoSpace, SpaceKey, Table};

/// What the transport tells of a peer.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// the server name of the TLS handshake
    pub sni: Option<String>,
    /// the user name that a verified client certificate stands for: its common name
    pub subject: Option<String>,
    /// whether a password may travel as it is: TLS, loopback, or the operator allowed it
    pub confidential: bool,
}

/// Somebody who came in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// where; `None`: the host name of open decides, for whoever has no user name
    pub space: Option<SpaceKey>,
    /// the user whose rights count, without `@space`; `None`: came in without a name
    pub user: Option<String>,
    /// the space it was vouched for, where none answers to that name: it comes in nowhere
    pub astray: Option<Box<str>>,
}

impl Guest {
    /// A peer that speaks no SASL.
    #[must_use]
    pub fn without_sasl(table: &Table, peer: &Peer) -> Self {
        Self { space: peer.sni.as_deref().and_then(|name| table.space_named(name)), ..Self::default() }
    }

    /// Somebody from within this process, let in already as `user` (`None`: without a name) of the space called
    /// `space`, and of no other: where there is none, no other clue counts.
    #[must_use]
    pub fn vouched(table: &Table, space: &str, user: Option<String>) -> Self {
        let found = table.space_named(space);
        Self { space: found, user, astray: found.is_none().then(|| space.into()) }
    }
}

/// The SASL exchange of one connection.
pub struct Handshake {
    table: Arc<Table>,
    peer: Peer,
    /// of sasl-init
    hostname: Option<String>,
    server: Server,
}

impl Handshake {
    /// Begins: send [`Handshake::mechanisms`] first.
    #[must_use]
    pub fn new(table: Arc<Table>, peer: Peer, nonce: Nonce) -> Self {
        let server = Server::new(offered(&table, &peer), nonce);
        Self { table, peer, hostname: None, server }
    }

    /// The mechanisms of the space that the server name names, else of all spaces; strongest first.
    #[must_use]
    pub fn mechanisms(&self) -> Vec<Symbol> {
        self.server.mechanisms()
    }

    /// Whether the peer may do without: where one may come in without a name, no SASL header is needed either.
    #[must_use]
    pub fn may_be_left_out(&self) -> bool {
        self.server.offers(Mechanism::Anonymous)
    }

    /// Takes the client's sasl-init.
    pub fn init(&mut self, init: &SaslInit) -> Step<Guest> {
        self.hostname.clone_from(&init.hostname);
        let known = Known { table: &self.table, peer: &self.peer, hostname: self.hostname.as_deref() };
        let step = self.server.init(init, &known);
        match step {
            Step::Refused { code, .. } if self.is_vague_certificate(init) => {
                let why = "EXTERNAL: several address spaces let certificates in, so the common name has to say for \
                           which it is, as user@NAME.NAMESPACE";
                Step::Refused { code, why }
            }
            step => self.admit(step),
        }
    }

    /// Whether a certificate is shown that does not say which space it is for, although it has to.
    fn is_vague_certificate(&self, init: &SaslInit) -> bool {
        self.table.certificates_name_space
            && init.mechanism == Mechanism::External.symbol()
            && self.peer.subject.as_deref().is_some_and(|subject| self.table.space_of_certificate(subject).is_none())
    }

    /// Takes the client's sasl-response.
    pub fn response(&mut self, response: &[u8]) -> Step<Guest> {
        let known = Known { table: &self.table, peer: &self.peer, hostname: self.hostname.as_deref() };
        let step = self.server.response(response, &known);
        self.admit(step)
    }

    /// Takes the answer of a check; `None`: there was no room for it.
    pub fn plain_checked(&mut self, right: Option<bool>) -> Step<Guest> {
        let step = self.server.plain_checked(right);
        self.admit(step)
    }

    fn admit(&self, step: Step<Identity>) -> Step<Guest> {
        match step {
            Step::Challenge(challenge) => Step::Challenge(challenge),
            Step::CheckPlain(check) => Step::CheckPlain(check),
            Step::Refused { code, why } => Step::Refused { code, why },
            Step::Accepted { identity, data } => {
                let known = Known { table: &self.table, peer: &self.peer, hostname: self.hostname.as_deref() };
                Step::Accepted { identity: known.guest(identity), data }
            }
        }
    }
}

/// The mechanisms to offer to a peer whose space may not be known yet.
fn offered(table: &Table, peer: &Peer) -> Vec<Mechanism> {
    let named = peer.sni.as_deref().and_then(|name| table.space_named(name));
    let mechanisms = named.and_then(|key| table.space(key)).map_or(&*table.mechanisms, Space::mechanisms);
    let possible = |mechanism: &Mechanism| match mechanism {
        Mechanism::Plain => peer.confidential,
        Mechanism::External => peer.subject.is_some(),
        Mechanism::Anonymous | Mechanism::Scram(_) => true,
    };
    let mut offered: Vec<_> = mechanisms.iter().copied().filter(possible).collect();
    if offered.is_empty() {
        // The list must not be empty (5.3.3.1); this one lets nobody in and tells nothing.
        offered.push(Mechanism::Scram(Hash::Sha256));
    }
    offered
}

/// What the table knows of the users that a peer may mean.
struct Known<'a> {
    table: &'a Table,
    peer: &'a Peer,
    hostname: Option<&'a str>,
}

impl<'a> Known<'a> {
    /// The space that a user of that name (`None`: without a name) comes into.
    fn space(&self, user: Option<&str>) -> Result<&'a Space, NoSpace> {
        let clues = Clues { sni: self.peer.sni.as_deref(), sasl_hostname: self.hostname, user, open_hostname: None };
        let key = self.table.space_for(&clues)?;
        self.table.space(key).ok_or(NoSpace::Nothing)
    }

    /// The space of a user, if it lets that mechanism be used, and the user.
    fn user<'n>(&self, name: &'n str, mechanism: Mechanism) -> Option<(&'a Space, &'n str, Option<&'a User>)> {
        let space = self.space(Some(name)).ok().filter(|space| space.mechanisms().contains(&mechanism))?;
        let (name, user) = space.user(name, |suffix| self.table.space_named(suffix) == Some(space.key()));
        Some((space, name, user))
    }

    fn guest(&self, identity: Identity) -> Guest {
        let Some(user) = identity.user else {
            return Guest { space: self.space(None).ok().map(Space::key), ..Guest::default() };
        };
        // Whoever has proved a name was looked up in its space, so it is found here too.
        match self.user(&user, identity.mechanism) {
            Some((space, name, _)) => {
                Guest { space: Some(space.key()), user: Some(name.to_owned()), ..Guest::default() }
            }
            None => Guest { user: Some(user), ..Guest::default() },
        }
    }
}

impl Credentials for Known<'_> {
    fn anonymous(&self) -> bool {
        match self.space(None) {
            Ok(space) => space.admits_anonymous(),
            // The host name of open will tell which.
            Err(_) => self.table.mechanisms.contains(&Mechanism::Anonymous),
        }
    }

    fn plain(&self, user: &str) -> PlainRule {
        let Some((space, name, found)) = self.user(user, Mechanism::Plain) else {
            return PlainRule::Check(Decoy::nowhere().strongest(&self.table.secret, user));
        };
        if space.is_open() {
            return PlainRule::Accept;
        }
        // The decoy is made up in any case, so that it takes no longer where it is needed.
        let decoy = space.decoy.strongest(&self.table.secret, name);
        PlainRule::Check(found.and_then(User::strongest).cloned().unwrap_or(decoy))
    }

    fn scram(&self, user: &str, hash: Hash) -> Verifier {
        let Some((space, name, found)) = self.user(user, Mechanism::Scram(hash)) else {
            return Decoy::nowhere().verifier(&self.table.secret, user, hash);
        };
        let decoy = space.decoy.verifier(&self.table.secret, name, hash);
        found.and_then(|user| user.verifier(hash)).cloned().unwrap_or(decoy)
    }

    /// The server name and the host name are the client's own choice, the name in the certificate is not. So where one
    /// authority signs for users of several spaces, the certificate says which space it is for, by the full name:
    /// a short one may come to stand for another space.
    fn external(&self) -> Option<String> {
        let subject = self.peer.subject.as_deref()?;
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

    /// Answers an open: the space that the guest belongs to for good.
    ///
    /// # Errors
    /// What to close the connection with: `amqp:not-found` (no space was named, or it is gone),
    /// `amqp:unauthorized-access` (the space lets nobody in without a name), `amqp:not-allowed` (the host name names another
    /// space).
    pub fn open(&self, guest: &Guest, hostname: Option<&str>) -> Result<SpaceKey, Error> {
        let key = match guest {
            Guest { space: Some(key), .. } => Ok(*key),
            Guest { astray: Some(name), .. } => Err(format!(
                "no address space answers to {name:?}, for which this session was opened; it was deleted or renamed"
            )),
            Guest { user: None, .. } => {
                let clues = Clues { open_hostname: hostname, ..Clues::default() };
                self.space_for(&clues).map_err(|why| why.to_string())
            }
            // Whoever has a name has a space before the outcome of SASL, and gets none afterwards.
            Guest { user: Some(_), .. } => Err(NoSpace::Unnamed.to_string()),
        };
        let key = key.map_err(|text| Error::new(condition::NOT_FOUND, text))?;
        let Some(space) = self.space(key) else {
            return Err(Error::new(condition::NOT_FOUND, "the address space of this connection was deleted"));
        };
        if guest.user.is_none() && !space.admits_anonymous() {
            let text =
                format!("address space {} lets nobody in without a name; log in as one of its users", space.name());
            return Err(Error::new(condition::UNAUTHORIZED_ACCESS, text));
        }
        if hostname.is_some_and(|hostname| self.names_another(key, hostname)) {
            let text =
                format!("this connection belongs to address space {}; open names another as its host", space.name());
            return Err(Error::new(condition::NOT_ALLOWED, text));
        }
        Ok(key)
    }
}
