//! One connection of a shard: the protocol machine, the peer's identity, and its links.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use enmasse_amqp::connection::{AttachReply, LinkId};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Attach, Error, MessageId, condition};
use smallvec::SmallVec;

use super::credit_window::CreditWindow;
use super::errors::not_found;
use super::greeting::GreetingAttach;
use super::link_names::{LinkName, Stealing};
use super::machine::Machine;
use super::mqtt::Mqtt;
use super::renewing::Renewal;
use super::resumable::Resuming;
use super::traffic::Pacing;
use super::transactions::{Coordinator, HeldOutcomes, Transaction};
use super::{ConnId, DYNAMIC_PREFIX};
use crate::core::{AttachmentId, Budget, Consuming};
use crate::plan::{Operation, Protocol};
use crate::table::{AddressEntry, Authenticated, CountGuard, Handshake, Rights, SpaceKey};

/// Links of a connection up to which its list grows by what is needed only: most have a few.
const FEW_LINKS: usize = 8;

/// The properties of a peer before its first bytes.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// that of its listener, or the one its WebSocket selected
    pub protocol: Protocol,
    /// TLS: the server name the client requested
    pub server_name: Option<String>,
    /// TLS: the subject of a client certificate that was verified
    pub certificate_subject: Option<String>,
    /// the connection is encrypted
    pub encrypted: bool,
    /// the peer is on this machine
    pub loopback: bool,
    /// its source address, by which login attempts are counted; `None`: from within this process
    pub source: Option<IpAddr>,
    /// an in-process session: space name and user, authenticated by this process
    pub vouched: Option<(String, Option<String>)>,
}

/// The kinds of links.
pub(super) enum Link {
    /// no such link, or one that was refused
    Vacant,
    /// we send to it: one attachment, or several if its name has wildcards that match several
    /// addresses
    Consumer { attachments: SmallVec<[AttachmentId; 1]>, wildcard: Option<Box<Wildcard>> },
    /// it sends to us, always to one address
    Producer { attachment: AttachmentId, home: u16, window: CreditWindow },
    /// a sender to the anonymous terminus
    Anonymous(Box<Anonymous>),
    /// a sender to the coordinator
    Coordinator(Box<Coordinator>),
    /// a sender to the last-will service
    Will(Box<WillLink>),
}

/// The request of a link with wildcards to each address that it matches.
#[derive(Clone)]
pub(super) struct Wildcard {
    pub(super) name: Box<str>,
    pub(super) consuming: Consuming,
}

/// A link to the anonymous terminus, with one attachment for each address that it has used. A link
/// to the management node is one too: the node sends its answers through it.
pub(super) struct Anonymous {
    pub(super) window: CreditWindow,
    pub(super) routes: HashMap<Box<str>, Route>,
    /// its name, if its messages are numbered
    pub(super) producer_name: Option<Arc<str>>,
    /// former routes, until the last commands of their homes
    pub(super) past: Vec<AttachmentId>,
    /// the route of the delivery in progress; `None` while its rest is discarded
    pub(super) current: Option<(AttachmentId, u16)>,
    /// the beginning of a delivery whose `to` is in a later frame
    pub(super) beginning: Option<Beginning>,
    /// attachments that are held back
    pub(super) held: u32,
    /// of a link to a service of the node
    pub(super) requests: Option<Requests>,
}

/// The requests of a link to a service of the node.
pub(super) struct Requests {
    pub(super) service: Service,
    /// the received parts of a request
    pub(super) bytes: Vec<u8>,
}

/// A service of the node that takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    Management,
    Subscriptions,
}

/// A subscription of the subscription service that a connection uses.
pub(super) struct UsedSubscription {
    pub(super) name: Box<str>,
    /// the agent that has its session
    pub(super) agent: ConnId,
    /// the link that receives its messages
    pub(super) receiver: Option<LinkId>,
}

/// A link to the last-will service.
pub(super) struct WillLink {
    /// one will at a time
    pub(super) window: CreditWindow,
    /// its name
    pub(super) name: Box<str>,
    /// the received parts of a will
    pub(super) bytes: Vec<u8>,
    /// the will is part of a transaction
    pub(super) in_transaction: bool,
    /// the agent that has its will
    pub(super) agent: Option<ConnId>,
    /// it ends with an error
    pub(super) fails: bool,
}

pub(super) struct Beginning {
    pub(super) bytes: Vec<u8>,
    /// the number of bytes at which the search for `to` is repeated; it doubles each time, so that
    /// many small frames do not repeat the search
    pub(super) next_scan: usize,
    /// the sender's state, encoded, if a frame had one
    pub(super) state: Option<Box<[u8]>>,
    pub(super) tag: Box<[u8]>,
}

impl Anonymous {
    pub(super) fn new(window: CreditWindow) -> Self {
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

    /// Drops the routes that `which` selects. Their attachments stay for now.
    pub(super) fn drop_routes(&mut self, which: impl Fn(&str, &Route) -> bool) {
        self.routes.retain(|name, route| {
            let dropped = which(name, route);
            if dropped {
                self.past.push(route.attachment);
            }
            !dropped
        });
    }
}

#[derive(Clone, Copy)]
pub(super) struct Route {
    pub(super) attachment: AttachmentId,
    pub(super) home: u16,
}

/// A dynamic node of a link.
pub(super) struct DynamicNode {
    pub(super) link: LinkId,
    pub(super) entry: Arc<AddressEntry>,
    /// of a receiver at the management node: the name that requests use as reply-to
    pub(super) called: Option<Box<str>>,
}

/// A link whose attach is answered once the homes of its addresses have answered.
pub(super) struct Attaching {
    pub(super) link: LinkId,
    /// the name in the peer's attach, for a refusal
    pub(super) name: Box<str>,
    pub(super) reply: AttachReply,
    /// attachments whose homes have not answered
    pub(super) waits_for: usize,
    /// the error of a home that refused
    pub(super) refusal: Option<Error>,
    /// the attach to the queue of retained messages, which follows the others
    pub(super) greeting: Option<Box<GreetingAttach>>,
}

/// An attach that waits for its address.
pub(super) struct Creating {
    pub(super) link: LinkId,
    /// distinguishes it from earlier ones
    pub(super) number: u64,
    pub(super) name: Box<str>,
    pub(super) attach: Box<Attach>,
    pub(super) until: Time,
}

/// A request that waits for the home of an address.
pub(super) struct Question {
    pub(super) number: u64,
    pub(super) link: LinkId,
    pub(super) request: ManagementRequest,
    pub(super) entry: Arc<AddressEntry>,
}

/// The parts of a request that its answer needs.
pub(super) struct ManagementRequest {
    /// `None`: it was sent settled
    pub(super) delivery_id: Option<u32>,
    pub(super) reply_to: String,
    pub(super) correlation_id: Option<MessageId>,
}

/// A space, and the rights there.
pub(super) type Access = (SpaceKey, Rights);

pub(super) struct Conn {
    pub(super) machine: Machine,
    /// the SASL exchange, until its outcome
    pub(super) handshake: Option<Box<Handshake>>,
    /// the user; none without SASL
    pub(super) authenticated: Authenticated,
    /// the SASL mechanism by which it was admitted
    pub(super) mechanism: Option<&'static str>,
    /// its container id
    pub(super) container: Box<str>,
    /// name and version of its software, as its open states them
    pub(super) product: Option<Box<str>>,
    /// it supports only the settlement mode that its sending links request
    pub(super) insists_on_settle_mode: bool,
    /// its space and rights, once it is open
    pub(super) access: Option<Access>,
    pub(super) links: Vec<Link>,
    /// the numbers of all links that may be held back
    pub(super) held_links: BTreeSet<u32>,
    /// the dynamic nodes of its links, deleted with the link or the connection
    pub(super) dynamic: Vec<DynamicNode>,
    /// the budget of its temporary queues, once it has one
    pub(super) temporary: Option<Arc<Budget>>,
    /// its management requests that wait for homes of addresses
    pub(super) questions: Vec<Question>,
    /// its subscriptions of the subscription service, while it uses them
    pub(super) subscriptions: Vec<UsedSubscription>,
    /// the attach that waits for the connection to arrive on another shard
    pub(super) moving: Option<(LinkId, Box<Attach>)>,
    /// the attach that waits for the end of the link that it takes over
    pub(super) stealing: Option<Box<Stealing>>,
    /// the attach that waits for its address to be created
    pub(super) creating: Option<Box<Creating>>,
    /// the attach that waits for homes; later input of the peer waits, too
    pub(super) attaching: Option<Box<Attaching>>,
    /// when its login expires, if it does
    pub(super) expires: Option<Time>,
    /// the renewal that is due before that
    pub(super) renewal: Option<Box<Renewal>>,
    /// the names whose rights its links use, by link number; unused if it has all rights
    pub(super) claimed: Vec<Option<Box<str>>>,
    /// the registered names of its links, by link number
    names: Vec<Option<LinkName>>,
    /// its links that can be resumed
    pub(super) resuming: Option<Box<Resuming>>,
    /// it has had a link, and no longer moves to another shard
    pub(super) settled_here: bool,
    /// the count guards of the connection, and of its links by link number
    pub(super) count_guard: Option<CountGuard>,
    pub(super) link_guards: Vec<Option<CountGuard>>,
    /// links with a count guard
    pub(super) link_count: usize,
    /// work done for it outside of its own input, in nanoseconds
    pub(super) work_nanos: u64,
    /// its traffic, and its rate limit
    pub(super) pacing: Pacing,
    /// its transactions, by their numbers
    pub(super) transactions: BTreeMap<u64, Transaction>,
    /// outcomes within them, once it has had one
    pub(super) held_outcomes: Option<Box<HeldOutcomes>>,
    /// it is in the list of dirty connections
    pub(super) dirty: bool,
    /// its output was over the high-water mark: its consumers get no deliveries
    pub(super) congested: bool,
    /// a session had the most unsettled deliveries when one was dispatched: it waits for outcomes
    pub(super) starved: bool,
    /// consumer attachments that found no room for either reason, in the order in which they
    /// continue
    pub(super) waiting_for_room: VecDeque<AttachmentId>,
    /// the number of its held-back producer attachments
    pub(super) holds: u32,
    /// the number of those that pause its input
    pub(super) stops: u32,
    /// the number of those that pause its input if it does not receive
    pub(super) send_only_stops: u32,
    /// its input is paused because of the receive budget
    pub(super) stopped: bool,
    /// bytes received while it was held back
    pub(super) held_bytes: u64,
    /// its idle time-out is suspended, because its input is paused
    pub(super) unread: bool,
    /// the machine has ended
    pub(super) finished: bool,
}

impl Conn {
    pub(super) fn new(machine: Machine, handshake: Box<Handshake>, authenticated: Authenticated) -> Self {
        Self {
            machine,
            handshake: Some(handshake),
            authenticated,
            mechanism: None,
            container: Box::default(),
            product: None,
            insists_on_settle_mode: false,
            access: None,
            links: Vec::new(),
            held_links: BTreeSet::new(),
            dynamic: Vec::new(),
            temporary: None,
            questions: Vec::new(),
            subscriptions: Vec::new(),
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
            count_guard: None,
            link_guards: Vec::new(),
            link_count: 0,
            work_nanos: 0,
            pacing: Pacing::default(),
            transactions: BTreeMap::new(),
            held_outcomes: None,
            dirty: false,
            congested: false,
            starved: false,
            waiting_for_room: VecDeque::new(),
            holds: 0,
            stops: 0,
            send_only_stops: 0,
            stopped: false,
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
        if let Some(held) = &mut self.held_outcomes {
            held.forget_link(id);
        }
        if self.links.len() <= index {
            if index < FEW_LINKS {
                self.links.reserve_exact(index + 1 - self.links.len());
            }
            self.links.resize_with(index + 1, || Link::Vacant);
        }
        self.links[index] = link;
    }

    /// Changes the window of a link that sends to us. `change` gets the share, the most credit of
    /// one grant, and returns the credit to grant, if any. A link that gets none because the share
    /// is 0 waits for the next share of its space.
    #[inline]
    pub(super) fn credit(
        &mut self,
        id: u32,
        change: impl FnOnce(&mut CreditWindow, u32) -> Option<u32>,
    ) -> Option<u32> {
        let share = self.pacing.share();
        let (window, share) = match self.links.get_mut(id as usize)? {
            Link::Producer { window, .. } => (window, share),
            Link::Anonymous(anonymous) if anonymous.requests.is_none() => (&mut anonymous.window, share),
            Link::Anonymous(anonymous) => (&mut anonymous.window, u32::MAX),
            Link::Coordinator(coordinator) => (&mut coordinator.window, u32::MAX),
            Link::Will(will) => (&mut will.window, u32::MAX),
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

    /// Records the name whose right a link uses, so that the link ends with the right.
    pub(super) fn claim(&mut self, link: LinkId, name: &str) {
        if self.access.as_ref().is_none_or(|(_, rights)| rights.is_everything()) {
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

    /// The upper bound of its link numbers, exclusive.
    pub(super) fn link_numbers(&self) -> u32 {
        self.links.len().max(self.names.len()) as u32
    }

    /// Sets or removes the name of a link; returns the previous one.
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

    /// Checks that the peer may do `operation` on `name`. A client that knows the name of a dynamic
    /// node may send to it.
    pub(super) fn check_right(&self, operation: Operation, name: &str) -> Result<(), Error> {
        let Some((_, rights)) = &self.access else { return Err(not_found(name)) };
        if name.starts_with(DYNAMIC_PREFIX) || rights.may(operation, name) {
            return Ok(());
        }
        let who = self.user().unwrap_or("anonymous");
        let verb = match operation {
            Operation::Send => "send to",
            Operation::Create => "create the address",
            Operation::Recv | Operation::View | Operation::Manage => "receive from",
        };
        let what = format!("user \"{who}\" may not {verb} \"{name}\"");
        Err(Error::new(condition::UNAUTHORIZED_ACCESS, what))
    }

    /// Counts a link among those of the space and of the connection.
    pub(super) fn count_link(&mut self, link: LinkId, guard: CountGuard) {
        let index = link.0 as usize;
        if self.link_guards.len() <= index {
            self.link_guards.resize_with(index + 1, || None);
        }
        self.link_count += usize::from(self.link_guards[index].replace(guard).is_none());
    }

    /// The subscription of the subscription service whose messages a link receives.
    pub(super) fn subscription_of(&mut self, link: LinkId) -> Option<&mut UsedSubscription> {
        self.subscriptions.iter_mut().find(|subscription| subscription.receiver == Some(link))
    }

    /// Stops counting a link.
    pub(super) fn release_count(&mut self, link: LinkId) {
        if let Some(guard) = self.link_guards.get_mut(link.0 as usize) {
            self.link_count -= usize::from(guard.take().is_some());
        }
    }

    /// Whether a link that we send to has several addresses.
    pub(super) fn is_shared(&self, id: u32) -> bool {
        matches!(self.links.get(id as usize), Some(Link::Consumer { attachments, .. }) if attachments.len() > 1)
    }

    /// Whether an attach of it waits for an answer, and later input with it.
    pub(super) fn waits(&self) -> bool {
        self.moving.is_some() || self.stealing.is_some() || self.creating.is_some() || self.attaching.is_some()
    }

    /// Whether more bytes may be read from it now.
    pub(super) fn wants_read(&self) -> bool {
        let waits = self.waits() || self.machine.mqtt().is_some_and(Mqtt::waits);
        !self.finished && !waits && !self.stopped && self.held_bytes < super::HELD_BYTES_MAX
    }
}
