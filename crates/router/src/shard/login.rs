//! Logins: the server side of SASL, and the space of `open` (`contracts.md` 4 and 5). `table` makes
//! the decisions.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use enmasse_amqp::connection::SaslPolicy;
use enmasse_amqp::sasl::{Mechanism, Step};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Error, Open, SaslCode, SaslInit, Symbol, Value};

use super::conn::{Access, Conn, Peer};
use super::errors::cordoned;
use super::inspection::product_of;
use super::renewing::Renewal;
use super::terminus::insists_on_settle_mode;
use super::{Attempt, ConnId, Fact, Guesses, LoginSubject, Request, Shard};
use crate::table::{self, Attempted, Authenticated, CountGuard, Handshake, Judged, Proof, Refusal};

/// Property of our `open`: the name of the connection's address space.
const SPACE: &str = "enmasse:space";

/// Records the result of a login attempt, if its password was checked.
fn record_attempt(guesses: &Mutex<Guesses>, handshake: &mut Handshake, step: &Step<Authenticated>, now: Time) {
    let is_right = match step {
        Step::Accepted { .. } => true,
        Step::Refused { code: SaslCode::Auth, .. } => false,
        _ => return,
    };
    let Some(Attempted { space, user, source }) = handshake.ends() else { return };
    let mut guesses = lock(guesses);
    if is_right {
        guesses.succeeded(space, &user, source, now);
    } else {
        guesses.failed(space, &user, source, now);
    }
}

// A poisoned lock means a thread panicked, and then the process is ending.
fn lock(guesses: &Mutex<Guesses>) -> MutexGuard<'_, Guesses> {
    guesses.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    /// Begins the handshake of a peer: its mechanisms, and whether SASL is optional.
    pub(super) fn begin_handshake(&mut self, peer: &Peer) -> (SaslPolicy, Authenticated, Box<Handshake>) {
        let mut nonce = [0; 18];
        (self.entropy)(&mut nonce);
        let known = self.known(peer);
        let authenticated = match &peer.vouched {
            Some((space, user)) => Authenticated::vouched(&self.table, space, user.clone()),
            None => Authenticated::without_sasl(&self.table, &known),
        };
        let handshake = Handshake::new(Arc::clone(&self.table), known, nonce);
        let optional = peer.vouched.is_some() || handshake.is_optional();
        let policy = if optional { SaslPolicy::Optional } else { SaslPolicy::Required };
        (policy, authenticated, Box::new(handshake))
    }

    fn known(&self, peer: &Peer) -> table::Peer {
        table::Peer {
            sni: peer.server_name.clone(),
            subject: peer.certificate_subject.clone(),
            confidential: peer.encrypted || peer.loopback || self.shared.insecure,
            source: peer.source,
        }
    }

    pub(super) fn sasl_init(&mut self, id: ConnId, init: &SaslInit) {
        self.exchange(id, |handshake| handshake.init(init));
    }

    pub(super) fn sasl_response(&mut self, id: ConnId, response: &[u8]) {
        self.exchange(id, |handshake| handshake.response(response));
    }

    /// The answer to a `CheckPlain`; `None`: not checked, because too many checks were waiting.
    /// Pass the connection's unread bytes to `input` afterwards.
    pub fn plain_checked(&mut self, id: ConnId, right: Option<bool>) {
        if self.knows(id) {
            self.exchange(id, |handshake| handshake.plain_checked(right));
        }
    }

    /// The answer to an `Ask` about `subject`. Pass the connection's unread bytes to `input` afterwards.
    pub fn judged(&mut self, id: ConnId, subject: LoginSubject, judged: Judged) {
        if !self.knows(id) {
            return;
        }
        match subject {
            // The exchange may have ended without its answer.
            LoginSubject::NewLogin if self.fabric.conns[id.key()].handshake.is_none() => {}
            LoginSubject::NewLogin => self.exchange(id, |handshake| handshake.judged(judged)),
            LoginSubject::Member => self.renewed(id, judged),
        }
    }

    fn exchange(&mut self, id: ConnId, step: impl FnOnce(&mut Handshake) -> Step<Authenticated>) {
        let now = self.fabric.now;
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let Some(handshake) = &mut conn.handshake else {
            return conn.machine.sasl_outcome(SaslCode::Sys, None);
        };
        let step = match step(handshake) {
            // No key derivation or external request for a login that would be refused anyway.
            Step::CheckPlain(_) | Step::Ask(_)
                // A connection that authenticates again counts already.
                if conn.access.is_none()
                    && handshake
                    .space()
                    .and_then(|key| self.table.space(key))
                    .is_some_and(|space| space.refuses_logins(now)) =>
            {
                let why = "the address space has reached its connection limit, and many clients try again";
                Step::Refused { code: SaslCode::SysTemp, why }
            }
            step => step,
        };
        let mut known = false;
        let step = match handshake.begins(&step) {
            Some(Attempted { space, user, source }) => {
                match lock(&self.shared.guesses).begin(space, &user, source, now) {
                    Attempt::Early => {
                        let _ = handshake.ends();
                        let why = "too many wrong passwords for this user; try again later";
                        Step::Refused { code: SaslCode::SysTemp, why }
                    }
                    attempt => {
                        known = attempt == Attempt::Known;
                        step
                    }
                }
            }
            None => step,
        };
        record_attempt(&self.shared.guesses, handshake, &step, now);
        match step {
            Step::Challenge(challenge) => conn.machine.sasl_challenge(challenge),
            Step::CheckPlain(check) => {
                let space = handshake.space();
                self.requests.push_back(Request::CheckPlain { conn: id, space, known, check });
            }
            Step::Ask(claim) => match handshake.question(claim) {
                Some(question) => {
                    self.requests.push_back(Request::Ask { conn: id, subject: LoginSubject::NewLogin, question })
                }
                None => {
                    let judged = Judged::Wrong("external logins are not supported here".to_owned());
                    return self.judged(id, LoginSubject::NewLogin, judged);
                }
            },
            Step::Accepted { identity, data } => self.accept_sasl(id, identity, data),
            Step::Refused { code, why } => {
                let refusal = handshake.refusal(why);
                self.refuse_sasl(id, code, refusal);
            }
        }
        self.fabric.mark(id.key);
    }

    /// Ends an exchange with success. On an open connection it must be that of the same user, whose
    /// rights are applied first: a connection that they end gets no success.
    fn accept_sasl(&mut self, id: ConnId, identity: Authenticated, data: Option<Vec<u8>>) {
        let now = self.fabric.now;
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let Some(mut handshake) = conn.handshake.take() else { return };
        let again = conn.access.is_some();
        if again && !conn.authenticated.is_same_user(&identity) {
            let refusal = handshake.refusal("a connection that authenticates again cannot change its user");
            return self.refuse_sasl(id, SaslCode::Auth, refusal);
        }
        conn.mechanism = handshake.mechanism().map(Mechanism::name);
        conn.expires = identity.until();
        let former = conn.renewal.take();
        let renewal = |question| Box::new(Renewal::new(question, now, conn.expires, former.as_deref()));
        conn.renewal = handshake.to_renew().map(renewal);
        conn.authenticated = identity;
        if again {
            self.apply_to(&[id]);
        }
        if let Some(conn) = self.fabric.conns.get_mut(id.key()) {
            conn.machine.sasl_outcome(SaslCode::Ok, data);
        }
    }

    /// Ends an exchange with a refusal.
    fn refuse_sasl(&mut self, id: ConnId, code: SaslCode, refusal: Refusal) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        conn.handshake = None;
        conn.machine.sasl_outcome(code, None);
        self.requests.push_back(Request::Fact { conn: id, fact: Fact::LoginRefused(refusal) });
    }

    /// Handles the peer's `open`, which determines the space at the latest, and answers it.
    pub(super) fn opened(&mut self, id: ConnId, open: &Open) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let by_sasl = conn.handshake.take().is_none();
        let answer = match self.admit(id, open) {
            Ok((access, guard)) => {
                let space = self.table.space(access.0).map(|space| space.name().to_owned()).unwrap_or_default();
                let conn = &mut self.fabric.conns[id.key()];
                if let Some(space) = self.table.space(access.0) {
                    conn.pacing.follow(space);
                }
                conn.access = Some(access);
                conn.count_guard = guard;
                conn.container = open.container_id.as_str().into();
                conn.product = product_of(open);
                conn.insists_on_settle_mode = insists_on_settle_mode(open);
                let mut answer = self.shared.connection.open();
                answer.properties.push((Symbol::constant(SPACE), Value::String(space.clone())));
                conn.machine.open(answer);
                let (user, mechanism) = (conn.user().map(str::to_owned), conn.mechanism);
                Fact::Opened { container: open.container_id.clone(), space, user, mechanism }
            }
            Err((error, mut refusal)) => {
                let conn = &mut self.fabric.conns[id.key()];
                let anonymous = by_sasl && conn.user().is_none();
                refusal.mechanism = anonymous.then(|| Mechanism::Anonymous.name());
                conn.machine.close(Some(error));
                Fact::LoginRefused(*refusal)
            }
        };
        self.requests.push_back(Request::Fact { conn: id, fact: answer });
        self.fabric.mark(id.key);
    }

    fn admit(&self, id: ConnId, open: &Open) -> Result<(Access, Option<CountGuard>), (Error, Box<Refusal>)> {
        let conn = &self.fabric.conns[id.key()];
        let space = self.table.open(&conn.authenticated, open.hostname.as_deref())?;
        // After the login, so that only clients with a right to know learn it.
        if conn.authenticated.proof != Proof::Vouched && self.shared.cordoned.load(Ordering::Relaxed) {
            let error = cordoned();
            let reason = error.description.clone().unwrap_or_default();
            let space = self.table.space(space).map(|space| space.name().to_owned());
            let user = conn.user().map(str::to_owned);
            return Err((error, Box::new(Refusal { reason, user, space, mechanism: None })));
        }
        let guard = match self.table.space(space) {
            Some(entered) => entered.enter().map_err(|error| {
                let reason = error.description.clone().unwrap_or_default();
                let (user, space) = (conn.user().map(str::to_owned), Some(entered.name().to_owned()));
                (error, Box::new(Refusal { reason, user, space, mechanism: None }))
            })?,
            None => None,
        };
        Ok(((space, self.rights(conn, space)), guard))
    }

    /// The rights of a connection in its space, by the table in force.
    pub(super) fn rights(&self, conn: &Conn, space: table::SpaceKey) -> table::Rights {
        self.table.space(space).map_or_else(table::Rights::nothing, |space| space.rights(&conn.authenticated))
    }
}
