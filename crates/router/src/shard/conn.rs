//! One connection of a shard: the protocol machine, the peer's identity, and its links.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use enmasse_amqp::connection::{AttachReply, Connection, LinkId};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Attach, Error};
use smallvec::SmallVec;

use super::coordinator::{Coordinator, Transaction};
use super::creating::Creating;
use super::management::Question;
use super::names::{LinkName, Stealing};
use super::pacing::Pacing;
use super::renewing::Renewal;
use super::resuming::Resuming;
use super::window::Window;
use crate::core::{AttachmentId, Budget, Consuming};
use crate::table::{AddressEntry, Authenticated, CountGuard, Handshake, Rights, SpaceKey};

/// The facts about a peer before its first bytes.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// TLS: the server name the client requested
    pub server_name: Option<String>,
    /// TLS: the subject of a client certificate that was verified
    pub certificate_subject: Option<String>,
    /// the bytes travel encrypted
    pub encrypted: bool,
    /// the peer is on this machine
    pub loopback: bool,
    /// where it connects from, as far as attempts to log in are counted by that; `None`: from
    /// within this process
    pub source: Option<IpAddr>,
    /// an in-process session: space name and user, already vouched for
    pub vouched: Option<(String, Option<String>)>,
}

/// The kinds of links.
pub(super) enum Link {
    /// no such link, or one that was refused
    Vacant,
    /// we send to it: one attachment, or more where its name has wildcards that reach several
    /// addresses
    Consumer { attachments: SmallVec<[AttachmentId; 1]>, wildcard: Option<Box<Wildcard>> },
    /// it sends to us, always to one address
    Producer { attachment: AttachmentId, home: u16, window: Window },
    /// a sender to the anonymous terminus
    Anonymous(Box<Anonymous>),
    /// a sender to the coordinator
    Coordinator(Box<Coordinator>),
}

/// The request of a link with wildcards to every address that it reaches.
#[derive(Clone)]
pub(super) struct Wildcard {
    pub(super) name: Box<str>,
    pub(super) consuming: Consuming,
}

/// A link to the anonymous terminus: one attachment an address it has used. A link to the
/// management node is one, too, by which the node sends answers.
pub(super) struct Anonymous {
    pub(super) window: Window,
    pub(super) routes: HashMap<Box<str>, Route>,
    /// its name, if its messages are numbered
    pub(super) producer_name: Option<Arc<str>>,
    /// attachments that are no routes any more, until the last word of their homes
    pub(super) past: Vec<AttachmentId>,
    /// where the delivery in progress goes; `None` while its rest is discarded
    pub(super) current: Option<(AttachmentId, u16)>,
    /// the beginning of a delivery whose `to` is in a later frame
    pub(super) beginning: Option<Beginning>,
    /// attachments that are held back
    pub(super) held: u32,
    /// of a link to the management node: the received parts of a request
    pub(super) requests: Option<Vec<u8>>,
}

pub(super) struct Beginning {
    pub(super) bytes: Vec<u8>,
    /// from how many bytes on to look for `to` again: twice as many each time, so that small frames
    /// cost no more
    pub(super) look_at: usize,
    /// the sender's state, encoded, if a frame had one
    pub(super) state: Option<Box<[u8]>>,
    pub(super) tag: Box<[u8]>,
}

impl Anonymous {
    pub(super) fn new(window: Window) -> Self {
        Self {
            window,
            routes: HashMap::new(),
            producer_name: None,
            past: Vec::new(),
            current: None,
            beginning: None,
            held: 0,
            requests: None,
        }
    }

    /// Forgets where some names lead. Their attachments stay for now.
    pub(super) fn give_up(&mut self, which: impl Fn(&str, &Route) -> bool) {
        self.routes.retain(|name, route| {
            let goes = which(name, route);
            if goes {
                self.past.push(route.attachment);
            }
            !goes
        });
    }
}

#[derive(Clone, Copy)]
pub(super) struct Route {
    pub(super) attachment: AttachmentId,
    pub(super) home: u16,
}

/// A node made for a link.
pub(super) struct DynamicNode {
    pub(super) link: LinkId,
    pub(super) entry: Arc<AddressEntry>,
    /// of a receiver of the management node: what requests call it
    pub(super) called: Option<Box<str>>,
}

/// A link that is answered once the homes of its addresses have it.
pub(super) struct Attaching {
    pub(super) link: LinkId,
    /// the peer's attach
    pub(super) name: Box<str>,
    pub(super) reply: AttachReply,
    /// attachments whose homes have yet to answer
    pub(super) waits_for: usize,
    /// why one of them will not have it
    pub(super) refusal: Option<Error>,
}

/// A space, and the rights there.
pub(super) type Home = (SpaceKey, Rights);

pub(super) struct Conn {
    pub(super) machine: Connection,
    /// the SASL exchange, until its outcome
    pub(super) handshake: Option<Box<Handshake>>,
    /// the user; none without SASL
    pub(super) authenticated: Authenticated,
    /// the SASL mechanism by which it was admitted
    pub(super) mechanism: Option<&'static str>,
    /// its container id
    pub(super) container: Box<str>,
    /// it takes no other settlement mode than its sending links request
    pub(super) insists_on_settle_mode: bool,
    /// its space and rights, once it is open
    pub(super) home: Option<Home>,
    pub(super) links: Vec<Link>,
    /// the numbers of all links that may be held
    pub(super) held_links: BTreeSet<u32>,
    /// the dynamic nodes of its links: deleted with link or connection
    pub(super) dynamic: Vec<DynamicNode>,
    /// the budget of its temporary queues, once it has had one
    pub(super) temporary: Option<Arc<Budget>>,
    /// requests of its that are with homes of addresses
    pub(super) questions: Vec<Question>,
    /// the attach that waits for the connection to arrive on another shard
    pub(super) moving: Option<(LinkId, Box<Attach>)>,
    /// the attach that waits until the link it takes over has ended elsewhere
    pub(super) stealing: Option<Box<Stealing>>,
    /// the attach that waits for its address to be created
    pub(super) creating: Option<Box<Creating>>,
    /// the link that waits for its answer; later input of the peer waits, too
    pub(super) attaching: Option<Box<Attaching>>,
    /// until when it may stay, if what let it in ends
    pub(super) expires: Option<Time>,
    /// the renewal that is due before that
    pub(super) renewal: Option<Box<Renewal>>,
    /// the names its links were given for, by their numbers, where not everything is allowed
    pub(super) claimed: Vec<Option<Box<str>>>,
    /// the names of its links, by their numbers, which no other connection of its container has
    names: Vec<Option<LinkName>>,
    /// its links that can be resumed
    pub(super) resuming: Option<Box<Resuming>>,
    /// it has had a link, and moves no more
    pub(super) settled_here: bool,
    /// its place among the connections of its space, and those of its links by their numbers
    pub(super) place: Option<CountGuard>,
    pub(super) link_places: Vec<Option<CountGuard>>,
    /// links that have a place
    pub(super) link_count: usize,
    /// work done for it while it was not read, in nanoseconds
    pub(super) work_nanos: u64,
    /// its traffic, and its rate limit
    pub(super) pacing: Pacing,
    /// its transactions, by their numbers
    pub(super) transactions: BTreeMap<u64, Transaction>,
    /// in the list of connections the driver has to look at
    pub(super) dirty: bool,
    /// its output was over the high-water mark: consumers on it count as having no credit
    pub(super) congested: bool,
    /// a delivery found as many unsettled ones as a session may have: outcomes make room
    pub(super) starved: bool,
    /// consumer attachments that found no room for either reason, in the order in which they are
    /// asked again
    pub(super) short: VecDeque<AttachmentId>,
    /// producer attachments on it that are held back
    pub(super) holds: u32,
    /// those of them because of which it is not read
    pub(super) stops: u32,
    /// bytes received while it was held back
    pub(super) held_bytes: u64,
    /// its time-outs rest, because it is not read
    pub(super) unread: bool,
    /// the machine has ended
    pub(super) finished: bool,
}

impl Conn {
    pub(super) fn new(machine: Connection, handshake: Box<Handshake>, authenticated: Authenticated) -> Self {
        Self {
            machine,
            handshake: Some(handshake),
            authenticated,
            mechanism: None,
            container: Box::default(),
            insists_on_settle_mode: false,
            home: None,
            links: Vec::new(),
            held_links: BTreeSet::new(),
            dynamic: Vec::new(),
            temporary: None,
            questions: Vec::new(),
            moving: None,
            stealing: None,
            creating: None,
            attaching: None,
            expires: None,
            renewal: None,
            claimed: Vec::new(),
            names: Vec::new(),
            resuming: None,
            settled_here: false,
            place: None,
            link_places: Vec::new(),
            link_count: 0,
            work_nanos: 0,
            pacing: Pacing::default(),
            transactions: BTreeMap::new(),
            dirty: false,
            congested: false,
            starved: false,
            short: VecDeque::new(),
            holds: 0,
            stops: 0,
            held_bytes: 0,
            unread: false,
            finished: false,
        }
    }

    pub(super) fn set_link(&mut self, id: LinkId, link: Link) {
        let index = id.0 as usize;
        if let Some(claimed) = self.claimed.get_mut(index) {
            *claimed = None;
        }
        if self.links.len() <= index {
            self.links.resize_with(index + 1, || Link::Vacant);
        }
        self.links[index] = link;
    }

    /// Changes the window of a link that sends to us. `change` gets the credit that may be granted
    /// at a time, and returns the credit to grant, if any. A link that has to do without waits for
    /// the next share of its space.
    #[inline]
    pub(super) fn credit(&mut self, id: u32, change: impl FnOnce(&mut Window, u32) -> Option<u32>) -> Option<u32> {
        let share = self.pacing.share();
        let (window, share) = match self.links.get_mut(id as usize)? {
            Link::Producer { window, .. } => (window, share),
            Link::Anonymous(anonymous) if anonymous.requests.is_none() => (&mut anonymous.window, share),
            Link::Anonymous(anonymous) => (&mut anonymous.window, u32::MAX),
            Link::Coordinator(coordinator) => (&mut coordinator.window, u32::MAX),
            Link::Vacant | Link::Consumer { .. } => return None,
        };
        let credit = change(window, share);
        if share == 0 && credit.is_none() {
            self.pacing.starved.insert(id);
        }
        credit
    }

    pub(super) fn take_link(&mut self, id: LinkId) -> Link {
        self.links.get_mut(id.0 as usize).map_or(Link::Vacant, |link| std::mem::replace(link, Link::Vacant))
    }

    /// Notes the name that a link was given for, so that it goes when the right to it does.
    pub(super) fn claim(&mut self, link: LinkId, name: &str) {
        if self.home.as_ref().is_none_or(|(_, rights)| rights.is_everything()) {
            return;
        }
        let index = link.0 as usize;
        if self.claimed.len() <= index {
            self.claimed.resize(index + 1, None);
        }
        self.claimed[index] = Some(name.into());
    }

    /// The name of a link, if another connection may take the link over.
    pub(super) fn name(&self, link: LinkId) -> Option<LinkName> {
        self.names.get(link.0 as usize).copied().flatten()
    }

    /// All numbers of its links are below.
    pub(super) fn link_numbers(&self) -> u32 {
        self.links.len().max(self.names.len()) as u32
    }

    /// Gives a link a name, or takes it away; the one before.
    pub(super) fn set_name(&mut self, link: LinkId, name: Option<LinkName>) -> Option<LinkName> {
        let index = link.0 as usize;
        if self.names.len() <= index {
            name?;
            self.names.resize(index + 1, None);
        }
        std::mem::replace(&mut self.names[index], name)
    }

    pub(super) fn user(&self) -> Option<&str> {
        self.authenticated.user.as_deref()
    }

    /// The link counts among those of the space and of the connection.
    pub(super) fn take_place(&mut self, link: LinkId, place: CountGuard) {
        let index = link.0 as usize;
        if self.link_places.len() <= index {
            self.link_places.resize_with(index + 1, || None);
        }
        self.link_count += usize::from(self.link_places[index].replace(place).is_none());
    }

    /// The link counts no more among those of the space.
    pub(super) fn release_count(&mut self, link: LinkId) {
        if let Some(place) = self.link_places.get_mut(link.0 as usize) {
            self.link_count -= usize::from(place.take().is_some());
        }
    }

    /// Whether a link we send to listens to several addresses.
    pub(super) fn is_shared(&self, id: u32) -> bool {
        matches!(self.links.get(id as usize), Some(Link::Consumer { attachments, .. }) if attachments.len() > 1)
    }

    /// Whether more bytes may be read from it now.
    pub(super) fn wants_read(&self) -> bool {
        let waits =
            self.moving.is_some() || self.stealing.is_some() || self.creating.is_some() || self.attaching.is_some();
        !self.finished && !waits && self.stops == 0 && self.held_bytes < super::HELD_BYTES_MAX
    }
}
