//! Receivers of a topic that request its retained messages first (filter `enmasse:retained`).
//!
//! Such a link has one more attachment, which browses the queue of retained messages of the space. It
//! attaches once the homes of the topics have answered: the subscriptions exist then, and what was
//! retained before them is with the log, so no message is missed between the two. The subscriptions
//! get no credit before the read has ended: the last message that a receiver gets of a topic is the
//! newest.

use std::sync::Arc;

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Attach, Error, Symbol, Value, condition};

use super::attachments::Attachment;
use super::conn::Link;
use super::departing::Departure;
use super::errors::deleted;
use super::greeting::{Greeting, GreetingAttach};
use super::terms::{RETAINED, Terms, retained_filter};
use super::{ConnId, Shard};
use crate::core::{AddressKind, AttachmentId, AttachmentRole, Consuming, DYNAMIC_KEYS, Ending, Filter, ToHome};
use crate::table::AddressEntry;
use crate::table::pattern::Pattern;

/// The request of a receiver for retained messages.
pub(super) struct RetainedRequest {
    /// the queue that has them
    queue: Arc<AddressEntry>,
    filter: (Symbol, Value),
}

impl RetainedRequest {
    /// Adds it to the terms of the link.
    pub(super) fn add_to(self, terms: &mut Terms) {
        terms.request_retained(self.queue, self.filter);
    }
}

impl Shard {
    /// The request of a receiver for retained messages, if it has one.
    ///
    /// # Errors
    /// `amqp:invalid-field`: the filter is no boolean. `amqp:not-implemented`: the link has no topic
    /// that retains messages, or shares its subscription, of which each message has one receiver.
    pub(super) fn retained_request(
        &self,
        id: ConnId,
        attach: &Attach,
        entries: &[Arc<AddressEntry>],
    ) -> Result<Option<RetainedRequest>, Error> {
        let Some(source) = attach.source.as_deref().filter(|source| !source.filter.is_empty()) else { return Ok(None) };
        let Some(field) = retained_filter(&source.filter)? else { return Ok(None) };
        let refused =
            |why: &str| Err(Error::new(condition::NOT_IMPLEMENTED, format!("filter \"{RETAINED}\": {why}; omit it")));
        let retains =
            |entry: &Arc<AddressEntry>| entry.kind == AddressKind::Topic && !DYNAMIC_KEYS.contains(&entry.key.0);
        if !entries.iter().any(retains) {
            return refused("only declared topics have retained messages for AMQP receivers");
        }
        if source.capabilities.iter().any(|capability| capability.as_str() == "shared") {
            return refused("a shared subscription has none");
        }
        match self.retained_entry(id) {
            Some(queue) => Ok(Some(RetainedRequest { queue, filter: field.clone() })),
            None => refused("this address space keeps none"),
        }
    }

    /// Prepares the attach of a link that is attaching to the queue of retained messages.
    pub(super) fn prepare_greeting(&mut self, id: ConnId, link: LinkId, name: &str, terms: Option<&Terms>) {
        let Some((terms, entry)) = terms.and_then(|terms| Some((terms, terms.retained.clone()?))) else { return };
        let (attachment, home) = self.fabric.attachments.insert(id.key, link.0, &entry);
        if let Some(state) = self.fabric.attachments.get_mut(attachment) {
            state.greeting = Some(Greeting::default());
        }
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        if let Some(Link::Consumer { attachments, .. }) = conn.links.get_mut(link.0 as usize) {
            attachments.push(attachment);
        }
        let pattern = Pattern::filter(name).ok();
        let topics = Filter::of_name(name, move |topic| pattern.as_ref().is_some_and(|it| it.matches(topic)));
        let consuming = Consuming {
            selector: terms.consuming.selector.clone(),
            browses: true,
            settled: terms.consuming.settled,
            retained: Some(topics),
            ..Consuming::default()
        };
        if let Some(attaching) = &mut conn.attaching {
            attaching.greeting = Some(Box::new(GreetingAttach { attachment, home, queue: entry, consuming }));
        }
    }

    /// Attaches links to the queue of retained messages whose other attaches were answered.
    pub(super) fn attach_greetings(&mut self) {
        while let Some(key) = self.fabric.greeting.pop() {
            let attaching = self.fabric.conns.get_mut(key as usize).and_then(|conn| conn.attaching.as_mut());
            let attaching = attaching.filter(|attaching| attaching.waits_for == 1);
            let Some(greeting) = attaching.and_then(|attaching| attaching.greeting.take()) else { continue };
            let GreetingAttach { attachment, home, queue, consuming } = *greeting;
            if self.fabric.attachments.get(attachment).is_none() {
                // The link has ended in the meantime.
                continue;
            }
            self.attach_link(attachment, home, &queue, AttachmentRole::Consumer { filter: None, consuming });
        }
    }

    /// The attachment of a link that reads retained messages, while there is one.
    pub(super) fn greeting_of(&self, attachments: &[AttachmentId]) -> Option<AttachmentId> {
        let greets = |one: &&AttachmentId| self.fabric.attachments.get(**one).is_some_and(|it| it.greeting.is_some());
        attachments.iter().find(greets).copied()
    }

    /// Passes credit to an attachment that reads retained messages.
    pub(super) fn greeting_credit(&mut self, attachment: AttachmentId, credit: u32) {
        let Some(state) = self.fabric.attachments.get_mut(attachment) else { return };
        let (home, dispatched, draining) = (state.home, state.dispatched, state.draining);
        let request = state.greeting.as_mut().and_then(|greeting| greeting.request(dispatched, credit, draining));
        if let Some((limit, drain)) = request {
            self.send_to_home(home, ToHome::Credit { attachment, limit, drain });
        }
    }

    /// Continues links whose reads of retained messages have used their credit, or have ended.
    pub(super) fn continue_greetings(&mut self) {
        while let Some((attachment, ended)) = self.fabric.greeted.pop() {
            let Some(state) = self.fabric.attachments.get(attachment).copied() else { continue };
            let Some(conn) = self.fabric.conns.get(state.conn as usize) else { continue };
            let credit = conn.machine.credit(LinkId(state.link));
            if ended {
                self.end_greeting(attachment, &state, credit);
            } else if credit > 0 {
                self.attachment_credit(attachment, credit, false);
            } else if state.draining {
                self.fabric.end_drain(state.conn, state.link);
            }
        }
    }

    /// All retained messages were sent: the link's subscriptions get its credit.
    fn end_greeting(&mut self, attachment: AttachmentId, state: &Attachment, credit: u32) {
        let (id, link) = (self.id(state.conn), LinkId(state.link));
        self.detach_attachment(attachment, Ending::ByNode, false);
        let link_state = self.fabric.conns.get_mut(id.key()).and_then(|conn| conn.links.get_mut(link.0 as usize));
        let Some(Link::Consumer { attachments, .. }) = link_state else { return };
        attachments.retain(|other| *other != attachment);
        if attachments.is_empty() {
            // Its topics were deleted in the meantime.
            return self.release(id, &[link], &Departure::with(Ending::ByNode, deleted()));
        }
        self.credit(id, link, credit, state.draining);
    }
}
