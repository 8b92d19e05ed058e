//! Attach: the request of a link, its rights, and its address.

use std::sync::Arc;

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Attach, Error, Role, Target, condition};
use smallvec::SmallVec;

use super::conn::{Anonymous, Attaching, Conn, DynamicNode, Link, Service, Wildcard};
use super::credit_window::CreditWindow;
use super::errors::{not_found, not_open, short_subscription_name};
use super::links::full_name;
use super::management::MANAGEMENT;
use super::mqtt::MQTT_PREFIX;
use super::subscribing::{filter, names};
use super::subscription_service::{SUBSCRIPTION_SERVICES, is_control_name, is_of_gateway};
use super::terminus::{Terminus, check, reply, requested_kind, settle_first};
use super::terms::{Terms, producer_name};
use super::wills::WILL_SERVICES;
use super::{ConnId, DYNAMIC_PREFIX, Fact, LINKS_MAX, Request, Shard, placement, resuming};
use crate::core::{
    AddressKey, AddressKind, AttachmentId, AttachmentRole, Budget, Consuming, Declared, Ending, Filter, OpenQueue,
    OpenTopic, ToHome,
};
use crate::plan::{Operation, Protocol};
use crate::table::pattern::is_wildcard;
use crate::table::{AddressEntry, MESSAGE_BYTES_MAX, Resolved, Space};

/// The terminus that a link requests.
enum LinkRequest {
    /// send to the anonymous terminus
    Anonymous,
    /// control transactions
    Coordinator,
    /// a new dynamic node
    Dynamic,
    /// this address
    Address(String),
    /// the durable subscription that the link's name stands for
    Recall,
}

impl Shard {
    /// The peer requests a link.
    pub(super) fn attach(&mut self, id: ConnId, link: LinkId, attach: Box<Attach>) {
        if self.fabric.conns.get(id.key()).is_some_and(|conn| conn.machine.is_mqtt()) {
            return self.attach_mqtt(id, link, attach);
        }
        let outcome = self.try_attach(id, link, attach);
        if let Err((address, error)) = outcome {
            self.refuse_attach(id, link, address.unwrap_or_default(), error);
        }
        self.refuse_attaches();
        self.fabric.mark(id.key);
    }

    /// Refuses the attaches that the homes of their addresses have refused.
    pub(super) fn refuse_attaches(&mut self) {
        while let Some(key) = self.fabric.refused.pop() {
            let Some(conn) = self.fabric.conns.get_mut(key as usize) else { continue };
            let refused = conn.attaching.take_if(|it| it.refusal.is_some() && it.waits_for == 0);
            let Some(Attaching { link, name, refusal: Some(error), .. }) = refused.map(|it| *it) else { continue };
            if let Link::Consumer { attachments, .. } = conn.take_link(link) {
                attachments.iter().for_each(|attachment| self.detach_attachment(*attachment, Ending::ByNode, false));
            }
            self.refuse_attach(self.id(key), link, name.into(), error);
            self.fabric.mark(key);
        }
    }

    pub(super) fn refuse_attach(&mut self, id: ConnId, link: LinkId, address: String, error: Error) {
        self.release_name(id, link);
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let space = conn.access.as_ref().and_then(|(space, _)| self.table.space(*space));
        let fact = Fact::AttachRefused {
            address,
            condition: error.condition.as_str().to_owned(),
            reason: error.description.clone().unwrap_or_default(),
            space: space.map(|space| space.name().to_owned()).unwrap_or_default(),
            user: conn.user().map(str::to_owned),
        };
        conn.release_count(link);
        // The node's own links, such as that to the record of a session, are no links of the client.
        let is_own = conn.machine.mqtt().is_some_and(|mqtt| mqtt.is_own(link));
        conn.machine.refuse(link, error);
        if !is_own {
            self.requests.push_back(Request::Fact { conn: id, fact });
        }
    }

    fn try_attach(&mut self, id: ConnId, link: LinkId, attach: Box<Attach>) -> Result<(), (Option<String>, Error)> {
        // The number may have belonged to a link that its home has closed.
        self.release_name(id, link);
        let want = check(&attach).and_then(|()| wanted(&attach)).map_err(|error| (None, error))?;
        self.count_attach(id, link).map_err(|error| (None, error))?;
        match want {
            LinkRequest::Anonymous => {
                let producer_name = producer_name(&attach).map_err(|error| (None, error))?;
                self.attach_anonymous(id, link, &attach, producer_name);
                Ok(())
            }
            LinkRequest::Coordinator => self.attach_coordinator(id, link, attach).map_err(|error| (None, error)),
            LinkRequest::Dynamic => self.attach_dynamic(id, link, &attach).map_err(|error| (None, error)),
            LinkRequest::Recall => self.recall(id, link, &attach).map_err(|error| (None, error)),
            LinkRequest::Address(name) if name == MANAGEMENT => match attach.role {
                Role::Sender => {
                    self.attach_requests(id, link, &attach, (Service::Management, MANAGEMENT));
                    Ok(())
                }
                Role::Receiver => self.attach_answers(id, link, &attach).map_err(|error| (Some(name), error)),
            },
            LinkRequest::Address(name) if attach.role == Role::Sender && WILL_SERVICES.contains(&&*name) => {
                self.attach_wills(id, link, &attach, &name).map_err(|error| (Some(name), error))
            }
            LinkRequest::Address(name) if attach.role == Role::Sender && SUBSCRIPTION_SERVICES.contains(&&*name) => {
                self.attach_requests(id, link, &attach, (Service::Subscriptions, &name));
                Ok(())
            }
            LinkRequest::Address(name) if attach.role == Role::Receiver && is_control_name(&name) => {
                self.attach_called(id, link, &attach, &name, &name).map_err(|error| (Some(name), error))
            }
            LinkRequest::Address(name) => {
                self.attach_named(id, link, attach, &name).map_err(|error| (Some(name), error))
            }
        }
    }

    /// Counts a link that attaches.
    ///
    /// # Errors
    /// `amqp:resource-limit-exceeded` at the limit of the connection or of its space.
    pub(super) fn count_attach(&mut self, id: ConnId, link: LinkId) -> Result<(), Error> {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return Ok(()) };
        // The link of a moved connection was already counted on the other shard.
        conn.release_count(link);
        let space = conn.access.as_ref().and_then(|(space, _)| self.table.space(*space));
        let planned = space.and_then(|space| space.limits().links_per_connection);
        let most = planned.map_or(LINKS_MAX, |most| LINKS_MAX.min(most as usize));
        if conn.link_count >= most {
            let what = format!("this connection has {most} links, its limit: close one or open another connection");
            return Err(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what));
        }
        let guard = space.map_or(Ok(None), Space::link)?;
        if let (Some(guard), Some(conn)) = (guard, self.fabric.conns.get_mut(id.key())) {
            conn.count_link(link, guard);
        }
        Ok(())
    }

    fn attach_named(&mut self, id: ConnId, link: LinkId, attach: Box<Attach>, name: &str) -> Result<(), Error> {
        if is_of_gateway(name) && self.may_be_subscription(id, attach.role, name, &not_found(name)) {
            self.attach_subscriber(id, link, attach, name, not_found(name));
            return Ok(());
        }
        let Some(attach) = self.create_first(id, link, attach, name)? else { return Ok(()) };
        let entries = match self.permitted(&self.fabric.conns[id.key()], attach.role, name) {
            Err(error) if self.may_be_subscription(id, attach.role, name, &error) => {
                self.attach_subscriber(id, link, attach, name, error);
                return Ok(());
            }
            entries => entries?,
        };
        if let [entry] = &entries[..]
            && let Some(to) = entry.home.get().filter(|home| self.moves_to(id, *home))
        {
            self.fabric.conns[id.key()].moving = Some((link, attach));
            self.requests.push_back(Request::Move { conn: id, to });
            return Ok(());
        }
        let terms = self.terms(id, &attach, &entries)?;
        let own_node = attach.role == Role::Receiver && name.starts_with(DYNAMIC_PREFIX);
        let attach = if own_node { Some(attach) } else { self.register_name(id, link, attach) };
        let Some(attach) = attach else { return Ok(()) };
        self.attach_at(id, link, &attach, &entries, name, &terms);
        Ok(())
    }

    /// The terms of a link to stored addresses; `None`: no address is stored.
    pub(super) fn terms(
        &self,
        id: ConnId,
        attach: &Attach,
        entries: &[Arc<AddressEntry>],
    ) -> Result<Option<Terms>, Error> {
        let retained = self.retained_request(id, attach, entries)?;
        if !entries.iter().any(|entry| entry.kind.stores()) {
            return Ok(None);
        }
        let conn = &self.fabric.conns[id.key()];
        let digest = self.router.link_digest(&conn.container, &attach.name);
        let mut terms = Terms::of(attach, entries, (&conn.container, self.connection_number(id)), digest)?;
        if let (Some(subscribing), Some((_, rights))) = (terms.consuming.subscribing.as_deref_mut(), &conn.access) {
            let rights = rights.clone();
            subscribing.allowed = Some(Filter::new(move |name| rights.may(Operation::Recv, name)));
        }
        if let Some(retained) = retained {
            retained.add_to(&mut terms);
        }
        Ok(Some(terms))
    }

    /// The addresses of a name, if the peer may use them: one, or maybe several for a filter with
    /// wildcards.
    pub(super) fn permitted(&self, conn: &Conn, role: Role, name: &str) -> Result<Vec<Arc<AddressEntry>>, Error> {
        if name.starts_with(DYNAMIC_PREFIX) && role == Role::Receiver {
            if let Some(own) = conn.dynamic.iter().find(|node| *node.entry.name == *name) {
                return Ok(vec![Arc::clone(&own.entry)]);
            }
            return Err(if self.find(conn, name).is_some() { not_owner(name) } else { not_found(name) });
        }
        // Check the right first: without it a peer cannot learn which addresses exist.
        let operation = if role == Role::Sender { Operation::Send } else { Operation::Recv };
        conn.check_right(operation, name)?;
        let found = if role == Role::Receiver && is_wildcard(name) {
            let space = conn.access.as_ref().and_then(|(space, _)| self.table.space(*space));
            let protocol = conn.machine.protocol();
            let served = |entry: &&Arc<AddressEntry>| entry.serves(protocol);
            let reached = space.map(|space| space.resolve_receiver(name));
            reached.into_iter().flatten().filter(served).cloned().collect::<Vec<_>>()
        } else {
            self.find(conn, name).into_iter().collect()
        };
        match &found[..] {
            [] => Err(self.not_resolved(conn, role, name)),
            [entry] if role == Role::Sender => may_be_sent_to(entry).map(|()| found),
            _ => Ok(found),
        }
    }

    /// The refusal of a link to a name without an address. For a receiver on a subscription it
    /// contains the full name, if the peer may receive from that.
    fn not_resolved(&self, conn: &Conn, role: Role, name: &str) -> Error {
        let space = conn.access.as_ref().and_then(|(space, _)| self.table.space(*space));
        let subscription = space.filter(|_| role == Role::Receiver).and_then(|space| space.subscription(name));
        match subscription.filter(|entry| conn.check_right(Operation::Recv, &entry.name).is_ok()) {
            Some(entry) => short_subscription_name(name, &entry.name),
            None => not_found(name),
        }
    }

    /// The address of a name: a dynamic node, or the address in the table (`contracts.md` 6).
    pub(super) fn find(&self, conn: &Conn, name: &str) -> Option<Arc<AddressEntry>> {
        let (space, _) = conn.access.as_ref()?;
        if let Some(entry) = self.shared.dynamic.find(*space, name) {
            return Some(entry);
        }
        let (space, protocol) = (self.table.space(*space)?, conn.machine.protocol());
        let resolved = match protocol {
            Protocol::Amqp => space.look_up(name),
            Protocol::Mqtt => space.look_up_literally(name),
        };
        let Resolved::Address(entry) = resolved else { return None };
        entry.serves(protocol).then(|| Arc::clone(entry))
    }

    pub(super) fn moves_to(&self, id: ConnId, home: u16) -> bool {
        let conn = &self.fabric.conns[id.key()];
        let here = self.fabric.index;
        if home == here || conn.settled_here {
            return false;
        }
        placement::moves(self.shared.loads[here as usize].snapshot(), self.shared.loads[home as usize].snapshot())
    }

    pub(super) fn attach_at(
        &mut self,
        id: ConnId,
        link: LinkId,
        attach: &Attach,
        entries: &[Arc<AddressEntry>],
        name: &str,
        terms: &Option<Terms>,
    ) {
        let size = entries.iter().fold(self.shared.message_size_max, |size, entry| smaller(size, entry.message_size));
        let places: SmallVec<[(AttachmentId, u16); 1]> =
            entries.iter().map(|entry| self.fabric.attachments.insert(id.key, link.0, entry)).collect();
        let state = match (attach.role, &places[..]) {
            (Role::Sender, [(attachment, home), ..]) => Link::Producer {
                attachment: *attachment,
                home: *home,
                window: CreditWindow::new(entries[0].link_capacity),
            },
            _ => Link::Consumer {
                attachments: places.iter().map(|(attachment, _)| *attachment).collect(),
                // A filter of MQTT has a link for each address.
                wildcard: (is_wildcard(name) && !self.fabric.conns[id.key()].machine.is_mqtt()).then(|| {
                    let consuming = terms.as_ref().map(|terms| terms.consuming.clone()).unwrap_or_default();
                    Box::new(Wildcard { name: name.into(), consuming })
                }),
            },
        };
        let conn = &self.fabric.conns[id.key()];
        let digest = self.router.resume_digest(conn.user(), &conn.container, &attach.name);
        let resume = resuming::requested(attach, entries, digest);
        let conn = &mut self.fabric.conns[id.key()];
        conn.settled_here = true;
        conn.set_link(link, state);
        conn.set_resumable(link, resume.is_some());
        let dynamic = name.starts_with(DYNAMIC_PREFIX);
        if !dynamic && name != MANAGEMENT && !name.starts_with(MQTT_PREFIX) {
            conn.claim(link, name);
        }
        let kind = entries.first().map(|entry| entry.kind);
        let terminus = Terminus { name: Some(name), kind, dynamic, terms: terms.as_ref() };
        let mut reply = reply(attach, &terminus, size);
        match &resume {
            Some(resume) => resuming::answer(&mut reply, attach.role, resume),
            None => settle_first(&mut reply, attach.role, conn.insists_on_settle_mode),
        }
        let greets = terms.as_ref().is_some_and(|terms| terms.retained.is_some());
        let waits_for = places.len() + usize::from(greets);
        let (refusal, greeting) = (None, None);
        conn.attaching = Some(Box::new(Attaching { link, name: name.into(), reply, waits_for, refusal, greeting }));
        self.prepare_greeting(id, link, name, terms.as_ref());
        for (entry, (attachment, home)) in entries.iter().zip(places) {
            let role = match attach.role {
                Role::Sender => {
                    let producer_name = terms.as_ref().and_then(|terms| terms.producer_name.clone());
                    let resume = resume.clone();
                    AttachmentRole::Producer { anonymous: false, name: full_name(entry, name), producer_name, resume }
                }
                Role::Receiver => {
                    let consuming = terms.as_ref().map(|terms| terms.consuming.clone()).unwrap_or_default();
                    let consuming = Consuming { resume: resume.clone(), ..consuming };
                    AttachmentRole::Consumer { filter: filter(entry, name), consuming }
                }
            };
            self.attach_link(attachment, home, entry, role);
        }
    }

    /// Attaches a link without a source (3.5.3), which requests the durable subscription of its
    /// name. Its home finds the topic. A record of a session may be created after the look-up, so the
    /// home of the records is asked for an unknown one.
    pub(super) fn recall(&mut self, id: ConnId, link: LinkId, attach: &Attach) -> Result<(), Error> {
        let shards = self.shared.loads.len() as u16;
        let conn = &mut self.fabric.conns[id.key()];
        let space = conn.access.as_ref().map(|(space, _)| *space).ok_or_else(not_open)?;
        let names = names(space, &conn.container, &attach.name);
        let known = names.iter().find_map(|name| self.shared.subscription_names.home_of(name));
        let home = known.unwrap_or_else(|| space.stored_home(shards));
        // The topic is not known yet. No address has this key.
        let unknown =
            Declared { key: AddressKey(u32::MAX), kind: AddressKind::Topic, link_capacity: 0, space: u32::MAX };
        let attachment = self.fabric.attachments.insert_at(id.key, link.0, unknown, home);
        conn.settled_here = true;
        conn.set_link(link, Link::Consumer { attachments: std::iter::once(attachment).collect(), wildcard: None });
        let terminus = Terminus { name: None, kind: Some(AddressKind::Topic), dynamic: false, terms: None };
        conn.attaching = Some(Box::new(Attaching {
            link,
            name: attach.name.as_str().into(),
            reply: reply(attach, &terminus, self.shared.message_size_max),
            waits_for: 1,
            refusal: None,
            greeting: None,
        }));
        self.send_to_home(home, ToHome::Recall { attachment, names });
        Ok(())
    }

    /// Creates a node for a link: a temporary queue, unless its capabilities request another kind.
    fn attach_dynamic(&mut self, id: ConnId, link: LinkId, attach: &Attach) -> Result<(), Error> {
        let entry = self.make_node(id, requested_kind(attach))?;
        let entries = [Arc::clone(&entry)];
        let terms = match self.terms(id, attach, &entries) {
            Ok(terms) => terms,
            Err(error) => {
                self.end_node(&entry, &error);
                return Err(error);
            }
        };
        let name = entry.name.to_string();
        self.fabric.conns[id.key()].dynamic.push(DynamicNode { link, entry, called: None });
        self.attach_at(id, link, attach, &entries, &name, &terms);
        Ok(())
    }

    /// Creates a dynamic node of a connection. Its home is the shard of the connection.
    pub(super) fn make_node(&mut self, id: ConnId, kind: AddressKind) -> Result<Arc<AddressEntry>, Error> {
        let conn = &mut self.fabric.conns[id.key()];
        let space = conn.access.as_ref().map(|(space, _)| *space).ok_or_else(not_open)?;
        if conn.dynamic.len() >= LINKS_MAX {
            let what = format!("this connection has {LINKS_MAX} dynamic nodes, its limit: delete one first");
            return Err(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what));
        }
        let mut random = [0; 16];
        (self.entropy)(&mut random);
        let (entry, space_bytes) =
            self.shared.dynamic.create(space, self.fabric.index, random, kind, self.shared.link_capacity);
        let (declared, name) = (entry.declared(), Arc::clone(&entry.name));
        let most = self.shared.message_size_max.unwrap_or(u64::MAX).min(u64::from(MESSAGE_BYTES_MAX));
        let message_bytes = u32::try_from(most).unwrap_or(MESSAGE_BYTES_MAX);
        match kind {
            AddressKind::Topic => {
                self.router.open_topic(declared, OpenTopic::temporary(name, message_bytes), &mut self.fabric);
            }
            AddressKind::Queue => {
                let budget = conn.temporary.get_or_insert_with(|| Arc::new(Budget::new(space_bytes)));
                let opened = OpenQueue::temporary(name, message_bytes, Arc::clone(budget));
                self.router.open_queue(declared, opened, &mut self.fabric);
            }
            AddressKind::Anycast | AddressKind::Multicast | AddressKind::Stream => self.router.open_direct(declared),
        }
        Ok(entry)
    }

    /// Deletes a dynamic node, and closes its links with the error.
    pub(super) fn end_node(&mut self, entry: &AddressEntry, error: &Error) {
        self.shared.dynamic.remove(entry.space, &entry.name);
        self.router.delete_address(entry.key, error, &mut self.fabric);
    }

    fn attach_anonymous(&mut self, id: ConnId, link: LinkId, attach: &Attach, producer_name: Option<Arc<str>>) {
        let window = CreditWindow::new(self.shared.link_capacity);
        let size = self.shared.message_size_max;
        let conn = &mut self.fabric.conns[id.key()];
        conn.settled_here = true;
        let anonymous = Anonymous { producer_name, ..Anonymous::new(window) };
        conn.set_link(link, Link::Anonymous(Box::new(anonymous)));
        let terminus = Terminus { name: None, kind: None, dynamic: false, terms: None };
        let mut reply = reply(attach, &terminus, size);
        settle_first(&mut reply, attach.role, conn.insists_on_settle_mode);
        conn.machine.accept(link, reply);
        if let Some(credit) = conn.credit(link.0, CreditWindow::open) {
            self.fabric.grant(id.key, link.0, credit);
        }
    }
}

/// The error for a receiver at a dynamic node of another connection.
fn not_owner(name: &str) -> Error {
    let what =
        format!("only the connection that created \"{name}\" may receive from it: send to it, or create another node");
    Error::new(condition::RESOURCE_LOCKED, what)
}

/// Checks that clients may send to an address at all.
pub(super) fn may_be_sent_to(entry: &AddressEntry) -> Result<(), Error> {
    let Some(storage) = entry.storage.as_ref().filter(|storage| storage.read_only) else { return Ok(()) };
    let what = match &storage.topic {
        Some(topic) => format!("\"{}\" accepts messages of its topic only: send to \"{topic}\"", entry.name),
        None => format!("\"{}\" accepts dead letters only: clients may only receive from it", entry.name),
    };
    Err(Error::new(condition::NOT_ALLOWED, what))
}

/// The terminus that an attach requests.
fn wanted(attach: &Attach) -> Result<LinkRequest, Error> {
    let (address, dynamic) = match attach.role {
        Role::Sender => match attach.target.as_deref() {
            Some(Target::Node { address, dynamic, .. }) => (address.clone(), *dynamic),
            Some(Target::Coordinator(_)) => return Ok(LinkRequest::Coordinator),
            None => return Err(Error::new(condition::INVALID_FIELD, "attach.target is null: name an address")),
        },
        Role::Receiver => match attach.source.as_deref() {
            Some(source) => (source.address.clone(), source.dynamic),
            None => return Ok(LinkRequest::Recall),
        },
    };
    match (address, dynamic, attach.role) {
        (_, true, _) => Ok(LinkRequest::Dynamic),
        (Some(name), false, _) if !name.is_empty() => Ok(LinkRequest::Address(name)),
        (_, false, Role::Sender) => Ok(LinkRequest::Anonymous),
        (_, false, Role::Receiver) => {
            let what = "attach.source.address is null: name an address, or ask for a dynamic node";
            Err(Error::new(condition::INVALID_FIELD, what))
        }
    }
}

fn smaller(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
