//! What management sees of connections and links.

use enmasse_amqp::connection::{LinkId, OutcomeCounts};
use enmasse_amqp::types::{Open, Value};

use super::conn::{Conn, Link};
use super::{ConnId, Shard};
use crate::core::{AddressKey, AttachmentId};
use crate::table::TrafficCounts;

/// Characters of each part of a product that are kept: a client chooses them.
const PRODUCT_CHARS_MAX: usize = 64;

/// The summary of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionSummary {
    /// the connection
    pub conn: ConnId,
    /// the space it belongs to, once known
    pub space: Option<String>,
    /// the user, unless anonymous
    pub user: Option<String>,
    /// name and version of the client's software, as its open states them
    pub product: Option<String>,
    /// links it has
    pub links: usize,
    /// its traffic since its open
    pub carried: TrafficCounts,
}

/// The state of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// its name
    pub name: String,
    /// whether the client sends
    pub client_sends: bool,
    /// the addresses of its attachments
    pub addresses: Vec<AddressKey>,
    /// deliveries that its sender may begin
    pub credit: u32,
    /// deliveries since its attach
    pub deliveries: u32,
    /// deliveries without an outcome
    pub unsettled: u32,
    /// outcomes of its deliveries since its attach: the consumer's, or those sent to the producer;
    /// `None` for MQTT, which has no outcomes
    pub outcomes: Option<OutcomeCounts>,
}

/// The name and version of the client's software, if its open states a name (2.7.1).
pub(super) fn product_of(open: &Open) -> Option<Box<str>> {
    let text = |name: &str| {
        let found = open.properties.iter().find(|(key, _)| key.as_str() == name).map(|(_, value)| value);
        match found {
            Some(Value::String(text)) => Some(text.chars().take(PRODUCT_CHARS_MAX).collect::<String>()),
            _ => None,
        }
    };
    let product = text("product")?;
    Some(text("version").map_or_else(|| product.clone(), |version| format!("{product} {version}")).into())
}

impl Shard {
    /// A summary of each connection.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionSummary> + '_ {
        self.fabric.conns.iter().map(|(key, conn)| ConnectionSummary {
            conn: self.id(key as u32),
            space: conn
                .access
                .as_ref()
                .and_then(|(key, _)| self.table.space(*key))
                .map(|space| space.name().to_owned()),
            user: conn.user().map(str::to_owned),
            product: conn.product.as_deref().map(str::to_owned),
            links: conn.links.iter().filter(|link| !matches!(link, Link::Vacant)).count(),
            carried: conn.pacing.counted(),
        })
    }

    /// The state of each link of a connection.
    #[must_use]
    pub fn links_of(&self, id: ConnId) -> Vec<LinkState> {
        if !self.knows(id) {
            return Vec::new();
        }
        let Some(conn) = self.fabric.conns.get(id.key()) else { return Vec::new() };
        let links = (0..).map(LinkId).zip(&conn.links);
        links.filter_map(|(number, link)| self.link_state(conn, number, link)).collect()
    }

    fn link_state(&self, conn: &Conn, number: LinkId, link: &Link) -> Option<LinkState> {
        let (client_sends, attachments): (bool, Vec<AttachmentId>) = match link {
            Link::Vacant => return None,
            Link::Consumer { attachments, .. } => (false, attachments.to_vec()),
            Link::Producer { attachment, .. } => (true, vec![*attachment]),
            Link::Anonymous(anonymous) => (true, anonymous.routes.values().map(|route| route.attachment).collect()),
            Link::Coordinator(_) | Link::Will(_) => (true, Vec::new()),
        };
        let summary = conn.machine.link_summary(number)?;
        let attached: Vec<_> = attachments.into_iter().filter_map(|one| self.fabric.attachments.get(one)).collect();
        let unanswered = attached.iter().map(|attachment| attachment.unanswered).sum();
        Some(LinkState {
            name: summary.name.to_owned(),
            client_sends,
            addresses: attached.iter().filter(|it| it.greeting.is_none()).map(|it| it.address).collect(),
            credit: summary.credit,
            deliveries: summary.deliveries,
            unsettled: if client_sends { unanswered } else { summary.unsettled },
            outcomes: summary.outcomes,
        })
    }
}
