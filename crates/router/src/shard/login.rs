//! Who comes in, and to which space: SASL on the server's side, and the first words of `open`
//! (`contracts.md` 4 and 5).

use enmasse_amqp::connection::SaslPolicy;
use enmasse_amqp::types::{Error, Open, SaslCode, SaslInit, Symbol, condition};

use super::conn::{Conn, Login, Peer};
use super::{ConnId, Fact, Request, Shard};
use crate::table::Clues;

impl Shard {
    /// Whether the SASL layer may be left out: only where somebody may come in without a name.
    pub(super) fn sasl_policy(&self, _peer: &Peer) -> SaslPolicy {
        if self.table.spaces().any(|space| space.admits_anonymous()) {
            SaslPolicy::Optional
        } else {
            SaslPolicy::Required
        }
    }

    /// What is offered to a peer: what any space it can still mean would take, and that its transport allows.
    pub(super) fn mechanisms(&self, _peer: &Peer) -> Vec<Symbol> {
        vec![Symbol::constant("ANONYMOUS")]
    }

    /// An in-process session has been vouched for by whoever opened it.
    pub(super) fn vouch(&self, conn: &mut Conn) {
        let Some((space, user)) = conn.peer.vouched.clone() else { return };
        if let Some(space) = self.table.space_named(&space).and_then(|key| self.table.space(key)) {
            conn.home = Some((space.key(), space.rights(user.as_deref())));
            conn.login = Login::Known(user.map(Into::into));
        }
    }

    pub(super) fn sasl_init(&mut self, id: ConnId, init: &SaslInit) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let ok = init.mechanism.as_str() == "ANONYMOUS";
        conn.login = Login::Known(None);
        conn.machine.sasl_outcome(if ok { SaslCode::Ok } else { SaslCode::Auth }, None);
    }

    pub(super) fn sasl_response(&mut self, id: ConnId, _response: &[u8]) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        conn.machine.sasl_outcome(SaslCode::Auth, None);
    }

    /// The peer's `open`: the last moment for the space to become known, and our answer.
    pub(super) fn opened(&mut self, id: ConnId, open: &Open) {
        let Some(conn) = self.fabric.conns.get(id.key()) else { return };
        match self.space_at_open(conn, open) {
            Ok(home) => {
                let fact = Fact::Opened {
                    container: open.container_id.clone(),
                    space: self.table.space(home.0).map(|space| space.name().to_owned()).unwrap_or_default(),
                    user: conn.user().map(str::to_owned),
                };
                self.requests.push_back(Request::Fact { conn: id, fact });
                let answer = self.shared.connection.open();
                let conn = &mut self.fabric.conns[id.key()];
                conn.home = Some(home);
                conn.machine.open(answer);
            }
            Err(error) => {
                let fact = Fact::LoginRefused { user: None, reason: error.description.clone().unwrap_or_default() };
                self.requests.push_back(Request::Fact { conn: id, fact });
                self.fabric.conns[id.key()].machine.close(Some(error));
            }
        }
    }

    fn space_at_open(&self, conn: &Conn, open: &Open) -> Result<super::conn::Home, Error> {
        if let Some((space, rights)) = &conn.home {
            if open.hostname.as_deref().is_some_and(|name| self.table.names_another(*space, name)) {
                let what = "open.hostname names another address space than the one this connection logged in to";
                return Err(Error::new(condition::NOT_ALLOWED, what));
            }
            return Ok((*space, rights.clone()));
        }
        let clues = Clues {
            sni: conn.peer.server_name.as_deref(),
            open_hostname: open.hostname.as_deref(),
            ..Clues::default()
        };
        let key = self.table.space_for(&clues).map_err(|no| Error::new(condition::NOT_FOUND, no.to_string()))?;
        let space = self.table.space(key).filter(|space| space.admits_anonymous()).ok_or_else(|| {
            Error::new(
                condition::UNAUTHORIZED_ACCESS,
                "this address space lets nobody in without a user name: log in by SASL",
            )
        })?;
        Ok((key, space.rights(None)))
    }
}
