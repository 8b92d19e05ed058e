//! Applying a new table.

use std::sync::Arc;

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Error, condition};

use super::conn::{Link, Wildcard};
use super::departing::Departing;
use super::errors::deleted;
use super::subscribing::filter;
use super::{ConnId, Shard};
use crate::core::{AddressKey, AttachmentRole, ToHome};
use crate::table::{AddressEntry, Table};

impl Shard {
    /// Applies a new table: closes links at deleted addresses with `amqp:resource-deleted`, and
    /// connections of deleted spaces with `amqp:connection:forced`. Receivers with wildcards lose
    /// deleted addresses and get new ones; they are closed with their last address. Other links are
    /// unaffected.
    pub fn apply(&mut self, table: Arc<Table>, removed: &[AddressKey]) {
        self.table = table;
        for key in removed {
            self.router.delete_address(*key, &deleted(), &mut self.fabric);
        }
        self.retire_at_homes(removed);
        self.find_absent();
        let conns: Vec<ConnId> = self.fabric.conns.iter().map(|(key, _)| self.id(key as u32)).collect();
        self.apply_to(&conns);
    }

    /// Notifies homes of deleted addresses again. A home may have deleted the address before it
    /// received an attach of this shard that is still in flight; this command follows that attach.
    fn retire_at_homes(&mut self, removed: &[AddressKey]) {
        let mut homes: Vec<(u16, AddressKey)> =
            self.fabric.attachments.iter().map(|attachment| (attachment.home, attachment.address)).collect();
        homes.retain(|(home, address)| *home != self.fabric.index && removed.contains(address));
        homes.sort_unstable();
        homes.dedup();
        for (home, address) in homes {
            self.send_to_home(home, ToHome::DeleteAddress { address });
        }
    }

    /// Applies the table in force to connections. Links that are deleted or lose their right end
    /// together: deliveries that one of them returns are not dispatched to the others.
    pub(super) fn apply_to(&mut self, conns: &[ConnId]) {
        let mut departing = Vec::new();
        let (stay, go): (Vec<ConnId>, Vec<ConnId>) =
            conns.iter().partition(|id| self.follow_table(**id, &mut departing));
        self.finish_departures(departing);
        go.into_iter().for_each(|id| self.finish_all(id));
        for id in stay {
            self.widen(id);
            self.widen_mqtt(id);
            self.reroute(id);
            self.continue_created_attach(id);
        }
    }

    /// Applies the table in force to one connection. `false`: it may not stay, and begins to close.
    fn follow_table(&mut self, id: ConnId, departing: &mut Vec<Departing>) -> bool {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return false };
        let Some((space, _)) = conn.access else { return true };
        let Some(found) = self.table.space(space) else {
            let deleted = Error::new(condition::CONNECTION_FORCED, "the address space was deleted");
            self.begin_close(id, deleted, departing);
            return false;
        };
        if let Err(why) = found.admits(&conn.authenticated) {
            self.begin_close(id, Error::new(condition::UNAUTHORIZED_ACCESS, why), departing);
            return false;
        }
        let rights = found.rights(&conn.authenticated);
        if conn.pacing.follow(found) {
            self.fabric.stop_waiting(id.key);
            self.fabric.mark(id.key);
        }
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return false };
        let before = conn.access.replace((space, rights.clone()));
        if before.is_some_and(|(_, before)| before != rights) {
            self.begin_revocation(id, departing);
        }
        true
    }

    /// Attaches receivers with wildcards to new addresses.
    fn widen(&mut self, id: ConnId) {
        let links = self.fabric.conns[id.key()].links.len() as u32;
        for link in (0..links).map(LinkId) {
            for (entry, wildcard) in self.unsubscribed_addresses(id, link) {
                let (attachment, home) = self.fabric.attachments.insert(id.key, link.0, &entry);
                let conn = &mut self.fabric.conns[id.key()];
                if let Some(Link::Consumer { attachments, .. }) = conn.links.get_mut(link.0 as usize) {
                    attachments.push(attachment);
                }
                if let Some(attaching) = conn.attaching.as_mut().filter(|attaching| attaching.link == link) {
                    attaching.waits_for += 1;
                }
                let credit = conn.machine.credit(link);
                let Wildcard { name, consuming } = wildcard;
                // A new stream is read from the start that the link requested.
                let role = AttachmentRole::Consumer { filter: filter(&entry, &name), consuming };
                self.attach_link(attachment, home, &entry, role);
                self.credit(id, link, credit, false);
            }
        }
    }

    /// The addresses that a link with wildcards matches and is not attached to, with its requests
    /// for them. A link with a named subscription stays at the topic of that subscription.
    fn unsubscribed_addresses(&self, id: ConnId, link: LinkId) -> Vec<(Arc<AddressEntry>, Wildcard)> {
        let conn = &self.fabric.conns[id.key()];
        let space = conn.access.as_ref().and_then(|(space, _)| self.table.space(*space));
        let (Some(Link::Consumer { attachments, wildcard: Some(wildcard) }), Some(space)) =
            (conn.links.get(link.0 as usize), space)
        else {
            return Vec::new();
        };
        let is_attached = |entry: &AddressEntry| {
            attachments.iter().any(|attachment| {
                self.fabric.attachments.get(*attachment).is_some_and(|attachment| attachment.address == entry.key)
            })
        };
        if wildcard.consuming.subscribing.is_some() {
            return Vec::new();
        }
        let reached = space.resolve_receiver(&wildcard.name).into_iter();
        reached
            .filter(|entry| entry.serves(conn.machine.protocol()) && !is_attached(entry))
            .map(|entry| (Arc::clone(entry), Wildcard::clone(wildcard)))
            .collect()
    }
}
