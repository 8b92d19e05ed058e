//! Rights that end while links are in use: by a table with fewer rights, or when a login expires.

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Error, condition};

use super::conn::Link;
use super::departing::{Departing, Departure};
use super::{ConnId, Shard};
use crate::core::Ending;
use crate::plan::Operation;

impl Shard {
    /// Applies changed rights to a connection: links that they do not allow end with
    /// `amqp:unauthorized-access`. Unsettled messages of a receiver are released, a durable
    /// subscription keeps its messages, and earlier messages are processed as if the sender were
    /// connected. This is the first phase (`departing`).
    pub(super) fn begin_revocation(&mut self, id: ConnId, departing: &mut Vec<Departing>) {
        let Some(conn) = self.fabric.conns.get(id.key()) else { return };
        let refused = |(link, claimed): (usize, &Option<Box<str>>)| {
            let operation = match conn.links.get(link)? {
                Link::Consumer { .. } => Operation::Recv,
                Link::Producer { .. } => Operation::Send,
                // Their rights are checked for each message and request.
                Link::Vacant | Link::Anonymous(_) | Link::Coordinator(_) | Link::Will(_) => return None,
            };
            let error = conn.check_right(operation, claimed.as_deref()?).err()?;
            Some((LinkId(link as u32), error))
        };
        let gone: Vec<(LinkId, Error)> = conn.claimed.iter().enumerate().filter_map(refused).collect();
        for (link, error) in gone {
            let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
            if let Some(attaching) = conn.attaching.as_deref_mut().filter(|attaching| attaching.link == link) {
                // The attach is pending: it is refused when all homes of its addresses have
                // answered.
                attaching.refusal.get_or_insert(error);
                continue;
            }
            conn.set_resumable(link, false);
            let departure = Departure { ending: Ending::ByNode, closed: false, error: Some(error) };
            self.begin_departure(id, link, departure, departing);
        }
    }

    /// Closes a connection whose login has expired.
    pub(super) fn expire(&mut self, id: ConnId) {
        self.disconnect_unauthorized(
            id,
            "the credentials of this connection have expired; log in again, with a new token if it used one",
        );
    }

    /// Closes a connection whose login is no longer valid.
    pub(super) fn disconnect_unauthorized(&mut self, id: ConnId, why: &str) {
        self.close(id, Error::new(condition::UNAUTHORIZED_ACCESS, why));
    }
}
