//! Names of links across connections (2.6.1; `docs/decisions/0051-link-stealing.md`).
//!
//! A link is identified by its container, its name and its direction. If another connection of the
//! same container attaches the link, it takes the link over, and the older link is detached with
//! `amqp:link:stolen`. The space and the user are part of the identity: a link of another user is
//! another link.
//!
//! All shards share the registry. It is used when a link attaches and when it ends, never per
//! message. If the older link is on another shard, the attach waits until each shard has confirmed
//! that it has processed all earlier commands of that shard. Then all homes have removed the older
//! link, and an exclusive consumer or a durable subscription can be taken over.

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Attach, Error, condition};

use super::departing::Departure;
use super::link_names::{LeftName, LinkHolder, LinkName, LinkTakeover, LinkTheft, Stealing};
use super::mqtt::SESSION;
use super::{ConnId, Shard};
use crate::core::Ending;

/// The error of a link that is attached elsewhere.
pub(super) fn stolen() -> Error {
    Error::new(condition::LINK_STOLEN, "the link was attached again on another connection of its container")
}

impl Shard {
    /// Registers the name of a link. `None`: it takes over a link of another shard, and the attach
    /// continues when that link has ended.
    pub(super) fn register_name(&mut self, id: ConnId, link: LinkId, attach: Box<Attach>) -> Option<Box<Attach>> {
        let holder = LinkHolder { shard: self.fabric.index, conn: id, link };
        let conn = self.fabric.conns.get_mut(id.key())?;
        // A container without an id is not identified (2.4.1), and neither are its links.
        let Some((space, _)) = conn.access.as_ref().filter(|_| !conn.container.is_empty()) else { return Some(attach) };
        let name = self.shared.link_names.digest(space.0, conn.user(), &conn.container, &attach);
        self.register(holder, name, attach)
    }

    /// As above, under a name that is not the link's own.
    pub(super) fn register(&mut self, holder: LinkHolder, name: LinkName, attach: Box<Attach>) -> Option<Box<Attach>> {
        let LinkHolder { conn: id, link, .. } = holder;
        let conn = self.fabric.conns.get_mut(id.key())?;
        if let Some(before) = conn.set_name(link, Some(name)).filter(|before| *before != name) {
            self.shared.link_names.unregister(before, holder);
        }
        let before = self.shared.link_names.take(name, holder).filter(|before| *before != holder);
        let before = match before {
            Some(before) if before.shard == self.fabric.index => self.end_stolen_link(before, name),
            before => before,
        };
        let Some(from) = before else { return Some(attach) };
        self.thefts += 1;
        let (number, waits_for) = (self.thefts, self.fabric.outboxes.len());
        let conn = &mut self.fabric.conns[id.key()];
        conn.settled_here = true;
        conn.stealing = Some(Box::new(Stealing { link, number, attach, from, waits_for }));
        let theft = LinkTheft { holder, number };
        self.fabric.outboxes[from.shard as usize].push_takeover(&LinkTakeover::Steal { name, from, theft });
        None
    }

    /// Removes the name of a link that has ended or ends now.
    pub(super) fn release_name(&mut self, id: ConnId, link: LinkId) {
        let conn = self.fabric.conns.get_mut(id.key());
        let Some(name) = conn.and_then(|conn| conn.set_name(link, None)) else { return };
        let holder = LinkHolder { shard: self.fabric.index, conn: id, link };
        // The next connection of the client must not ask for the session before its homes have taken
        // the last commands of this one.
        match self.leaving_record(id).filter(|_| link == SESSION) {
            Some(record) => drop(self.fabric.leaving_names.insert(record, (name, holder))),
            None => self.shared.link_names.unregister(name, holder),
        }
    }

    /// Removes the names of clients whose records have left their homes, once every shard confirms that
    /// it has processed the earlier commands from here: subscriptions may have other homes.
    pub(super) fn release_left_names(&mut self) {
        for (name, holder) in std::mem::take(&mut self.fabric.left_names) {
            self.thefts += 1;
            let theft = LinkTheft { holder, number: self.thefts };
            let waits_for = self.fabric.outboxes.len();
            self.fabric.confirmed_names.insert(theft.number, LeftName { name, holder, waits_for });
            for shard in (0..waits_for as u16).filter(|shard| *shard != self.fabric.index) {
                self.fabric.outboxes[shard as usize].push_takeover(&LinkTakeover::Confirm { theft });
            }
            self.confirm_taken(theft);
        }
    }

    /// Whether a client has left that name, which is not removed yet.
    pub(super) fn is_leaving(&self, name: LinkName) -> bool {
        let leaving = self.fabric.leaving_names.values().chain(&self.fabric.left_names).map(|(leaving, _)| *leaving);
        leaving.chain(self.fabric.confirmed_names.values().map(|left| left.name)).any(|leaving| leaving == name)
    }

    /// Counts the confirmation of one shard for a name that its client has left.
    fn count_left(&mut self, number: u64) {
        let Some(left) = self.fabric.confirmed_names.get_mut(&number) else { return };
        left.waits_for -= 1;
        if left.waits_for == 0
            && let Some(LeftName { name, holder, .. }) = self.fabric.confirmed_names.remove(&number)
        {
            self.shared.link_names.unregister(name, holder);
        }
    }

    /// Another shard takes over a link of this one. Requests a confirmation of every shard: it
    /// proves that the shard has processed all earlier commands from here.
    pub(super) fn confirm_theft(&mut self, name: LinkName, from: LinkHolder, theft: LinkTheft) {
        if let Some(from) = self.end_stolen_link(from, name) {
            return self.fabric.outboxes[from.shard as usize].push_takeover(&LinkTakeover::Steal { name, from, theft });
        }
        for shard in (0..self.fabric.outboxes.len() as u16).filter(|shard| *shard != self.fabric.index) {
            self.fabric.outboxes[shard as usize].push_takeover(&LinkTakeover::Confirm { theft });
        }
        self.confirm_taken(theft);
    }

    /// Confirms that all commands for a taken-over link were processed, or counts a confirmation.
    pub(super) fn confirm_taken(&mut self, theft: LinkTheft) {
        if !self.departures.delay_confirmation(theft) {
            self.pass_confirmation(theft);
        }
    }

    /// As above; no step of a departure waits.
    pub(super) fn pass_confirmation(&mut self, theft: LinkTheft) {
        let shard = theft.holder.shard;
        if shard == self.fabric.index {
            self.count_confirmation(theft);
        } else {
            self.fabric.outboxes[shard as usize].push_takeover(&LinkTakeover::Confirm { theft });
        }
    }

    /// Counts the confirmation of one shard. After the last the attach continues, or a name is free.
    fn count_confirmation(&mut self, LinkTheft { holder, number }: LinkTheft) {
        if self.fabric.confirmed_names.contains_key(&number) {
            return self.count_left(number);
        }
        let LinkHolder { conn: id, link, .. } = holder;
        let Some(conn) = self.fabric.conns.get_mut(id.key()).filter(|_| self.serials[id.key()] == id.serial) else {
            return;
        };
        let Some(stealing) = conn.stealing.as_mut().filter(|stealing| stealing.number == number) else { return };
        stealing.waits_for -= 1;
        if stealing.waits_for == 0
            && let Some(stealing) = conn.stealing.take()
        {
            self.attach(id, link, stealing.attach);
        }
    }

    /// Ends a link of this shard that was attached elsewhere, unless it has already ended. Returns
    /// the link of another shard that its own attach was waiting for: that may still exist.
    fn end_stolen_link(&mut self, LinkHolder { conn: id, link, .. }: LinkHolder, name: LinkName) -> Option<LinkHolder> {
        let conn = self.fabric.conns.get_mut(id.key()).filter(|_| self.serials[id.key()] == id.serial)?;
        if conn.name(link) != Some(name) {
            return None;
        }
        if let Some(stealing) = conn.stealing.take_if(|stealing| stealing.link == link) {
            self.refuse_attach(id, link, String::new(), stolen());
            self.fabric.mark(id.key);
            return Some(stealing.from);
        }
        if let Some(attaching) = conn.attaching.as_deref_mut().filter(|attaching| attaching.link == link) {
            // The attach is pending: it is refused when all homes of its addresses have answered.
            attaching.refusal.get_or_insert_with(stolen);
            return None;
        }
        // The theft is the client's own action, not a failed delivery attempt.
        if conn.machine.is_mqtt() {
            // The name is the client id: all of the connection ends (MQTT 5.0, 3.1.4-3).
            self.publish_will(id);
            self.return_subscriptions(id);
            self.leave_session(id, None);
            if let Some(conn) = self.fabric.conns.get_mut(id.key()) {
                conn.machine.close(Some(stolen()));
            }
            self.release_all(id, Ending::ByClient);
            self.fabric.mark(id.key);
            return None;
        }
        let departure = Departure { ending: Ending::ByClient, closed: false, error: Some(stolen()) };
        self.release(id, &[link], &departure);
        None
    }
}
