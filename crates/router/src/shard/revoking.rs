//! Rights that end while links are in use: a table that gives fewer of them, and logins that are
//! good for a time only.

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Error, condition};

use super::conn::Link;
use super::departing::{Departing, Departure};
use super::{ConnId, Shard};
use crate::core::Ending;
use crate::plan::Operation;
use crate::shard::attach::check_right;

impl Shard {
    /// Other rights are in force for a connection: its links that these would not be given for end
    /// with `amqp:unauthorized-access`. Messages held by a receiver are released, a durable
    /// subscription keeps its messages, and messages sent before are treated as if the sender were
    /// connected. The first phase of that (`departing`).
    pub(super) fn begin_revocation(&mut self, id: ConnId, departing: &mut Vec<Departing>) {
        let Some(conn) = self.fabric.conns.get(id.key()) else { return };
        let refused = |(link, claimed): (usize, &Option<Box<str>>)| {
            let operation = match conn.links.get(link)? {
                Link::Consumer { .. } => Operation::Recv,
                Link::Producer { .. } => Operation::Send,
                // These are requested each message and each request.
                Link::Vacant | Link::Anonymous(_) | Link::Coordinator(_) => return None,
            };
            let error = check_right(conn, operation, claimed.as_deref()?).err()?;
            Some((LinkId(link as u32), error))
        };
        let gone: Vec<(LinkId, Error)> = conn.claimed.iter().enumerate().filter_map(refused).collect();
        for (link, error) in gone {
            let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
            if let Some(attaching) = conn.attaching.as_deref_mut().filter(|attaching| attaching.link == link) {
                // It is not up yet: the homes of its addresses are still to answer, and then it is
                // refused.
                attaching.refusal.get_or_insert(error);
                continue;
            }
            conn.set_resumable(link, false);
            let farewell = Departure { ending: Ending::ByNode, closed: false, error: Some(error) };
            self.begin_departure(id, link, farewell, departing);
        }
    }

    /// The time for which a connection was admitted is over.
    pub(super) fn expire(&mut self, id: ConnId) {
        self.disconnect_unauthorized(
            id,
            "the credentials of this connection have expired; log in again, with a new token if it used one",
        );
    }

    /// The login of a connection is no longer valid.
    pub(super) fn disconnect_unauthorized(&mut self, id: ConnId, why: &str) {
        self.close(id, Error::new(condition::UNAUTHORIZED_ACCESS, why));
    }
}
