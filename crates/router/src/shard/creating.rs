//! Links to addresses that are created on demand (`contracts.md` 6).
//!
//! The attach waits in its connection, whose input is paused until then, as with every unanswered
//! attach. It continues once a table in force has an address for the name. It is refused when the
//! control plane refuses, or after [`CREATE_TIMEOUT_MS`]. No thread waits.

use std::sync::Arc;

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Attach, Error, Role, condition};

use super::conn::{Conn, Creating};
use super::errors::not_found;
use super::terminus::requested_type;
use super::{ConnId, DYNAMIC_PREFIX, Request, Shard, WantedAddress};
use crate::plan::Operation;
use crate::table::Resolved;

/// Longest wait of an attach for its address.
pub const CREATE_TIMEOUT_MS: u64 = 2_000;

impl Shard {
    /// Requests the creation of an attach's address, if it does not exist and the space creates
    /// addresses. `None`: the attach waits for the address.
    ///
    /// # Errors
    /// `amqp:unauthorized-access` without the right `create`, or without the right to use the
    /// address.
    pub(super) fn create_first(
        &mut self,
        id: ConnId,
        link: LinkId,
        attach: Box<Attach>,
        name: &str,
    ) -> Result<Option<Box<Attach>>, Error> {
        let conn = &self.fabric.conns[id.key()];
        let space = conn.access.as_ref().and_then(|(space, _)| self.table.space(*space));
        let Some(space) = space.filter(|_| !name.starts_with(DYNAMIC_PREFIX)) else { return Ok(Some(attach)) };
        if !matches!(space.look_up(name), Resolved::Creatable) {
            return Ok(Some(attach));
        }
        let operation = if attach.role == Role::Sender { Operation::Send } else { Operation::Recv };
        conn.check_right(operation, name)?;
        conn.check_right(Operation::Create, name)?;
        let wanted = WantedAddress {
            space: space.name().to_owned(),
            address: name.to_owned(),
            kind: requested_type(&attach),
            patterns: space.creating(name).map(str::to_owned).collect(),
        };
        let user = conn.user().map(str::to_owned);
        self.creations += 1;
        let number = self.creations;
        let until = self.fabric.now.plus_millis(CREATE_TIMEOUT_MS);
        self.requests.push_back(Request::Create { conn: id, number, wanted, user, until });
        let creating = Creating { link, number, name: name.into(), attach, until };
        self.fabric.conns[id.key()].creating = Some(Box::new(creating));
        Ok(None)
    }

    /// The error of a message to an unknown name. Its link does not wait for the creation of an
    /// address.
    pub(super) fn unknown(&self, conn: &Conn, name: &str) -> Error {
        let mut error = not_found(name);
        let space = conn.access.as_ref().and_then(|(space, _)| self.table.space(*space));
        if space.is_some_and(|space| matches!(space.look_up(name), Resolved::Creatable)) {
            error.description = Some(format!("{}, or attach a link to it", error.description.unwrap_or_default()));
        }
        error
    }

    /// Refuses the attach with that number, if it still waits for its address. Pass the unread
    /// bytes of the connection to `input` afterwards.
    pub fn creation_refused(&mut self, id: ConnId, number: u64, error: Error) {
        if !self.knows(id) {
            return;
        }
        let conn = &mut self.fabric.conns[id.key()];
        if let Some(creating) = conn.creating.take_if(|creating| creating.number == number) {
            self.refuse_attach(id, creating.link, creating.name.into(), error);
            self.fabric.mark(id.key);
        }
    }

    /// Refuses an attach whose wait for its address has timed out.
    pub(super) fn give_up_creation(&mut self, now: Time, id: ConnId) {
        let conn = &mut self.fabric.conns[id.key()];
        if let Some(creating) = conn.creating.take_if(|creating| creating.until <= now) {
            let error = not_created(&creating.name);
            self.refuse_attach(id, creating.link, creating.name.into(), error);
        }
    }

    /// Continues the waiting attach of a connection after a new table, if its address exists now or
    /// the space no longer creates it.
    pub(super) fn continue_created_attach(&mut self, id: ConnId) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let table = Arc::clone(&self.table);
        let space = conn.access.as_ref().and_then(|(space, _)| table.space(*space));
        let waits = |name: &str| space.is_some_and(|space| matches!(space.look_up(name), Resolved::Creatable));
        if let Some(creating) = conn.creating.take_if(|creating| !waits(&creating.name)) {
            self.attach(id, creating.link, creating.attach);
        }
    }
}

fn not_created(name: &str) -> Error {
    let shown: String = name.chars().take(200).collect();
    let seconds = CREATE_TIMEOUT_MS / 1000;
    let what = format!("the address \"{shown}\" was not created within {seconds} s; attach again later");
    Error::new(condition::NOT_FOUND, what)
}
