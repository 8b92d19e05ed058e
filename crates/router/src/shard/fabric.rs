//! All state of a shard except its router: connections, attachments, and batches for other shards.
//! The router's commands to links are handled here, or encoded into the batch for the shard of the
//! link.

use std::collections::{BTreeSet, HashMap};

use enmasse_amqp::connection::{LinkId, Outgoing, SendError, Tag};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Error, Fields, Outcome};
use slab::Slab;

use super::OUTPUT_HIGH_BYTES;
use super::attachments::{Attachment, Attachments};
use super::batch::CommandBatch;
use super::conn::{Attaching, Conn, Link};
use super::credit_window::CreditWindow;
use super::discharging::HomeAnswer;
use super::link_names::{LeftName, LinkHolder, LinkName};
use super::mqtt::{Fate, Mqtt};
use super::partial_deliveries::{PIECE_BYTES, PartialDeliveries};
use super::subscribing::Description;
use super::transactions::transactional;
use super::work::{DELIVERY_NANOS, LINK_CHECK_NANOS, Work};
use crate::core::{
    AddressDescription, AddressKind, AttachmentId, Delivery, Ending, Handover, Hold, Links, QuestionId, Replacement,
    ToHome, ToLink, TransactionId, Unsettled,
};
use crate::plan::Operation;

pub(super) struct Fabric {
    pub(super) index: u16,
    /// how long the publications of a client of MQTT are not read while an address holds them back
    mqtt_hold_ms: u64,
    /// boxed: the slab grows by doubling, which would cost idle connections their size again
    pub(super) conns: Slab<Box<Conn>>,
    pub(super) attachments: Attachments,
    pub(super) outboxes: Vec<CommandBatch>,
    pub(super) partial_deliveries: PartialDeliveries,
    /// keys of connections with work for the driver
    pub(super) dirty: Vec<u32>,
    /// keys of connections of MQTT with work for the next turn
    pub(super) unfinished: Vec<u32>,
    /// deliveries sent settled, because their links require it, whose producers wait for an outcome
    pub(super) sent_settled: Vec<u64>,
    /// deliveries larger than their receivers allow
    pub(super) too_large: Vec<u64>,
    /// connections with a link that the home of its address refused
    pub(super) refused: Vec<u32>,
    /// connections and links where a long delivery of one address has ended and those of others may
    /// continue
    pub(super) freed: Vec<(u32, u32)>,
    /// connections with a link that attaches to the queue of retained messages now
    pub(super) greeting: Vec<u32>,
    /// attachments that have answered a read of retained messages, and whether none is left
    pub(super) greeted: Vec<(AttachmentId, bool)>,
    /// results of discharges of transactions of connections here
    pub(super) discharged: Vec<(TransactionId, Result<HomeAnswer, Error>)>,
    /// attachments that returned a delivery and may state their credit again
    pub(super) halted: Vec<AttachmentId>,
    /// answers to questions of connections here
    pub(super) described: Vec<(QuestionId, Option<AddressDescription>)>,
    /// connections of spaces over their rate limit, by the time when they may continue
    pub(super) paced: BTreeSet<(Time, u32)>,
    /// connections that are not read because of the receive budget
    pub(super) stopped: usize,
    /// the cost of reading the current connection
    pub(super) work: Work,
    /// names of clients of MQTT whose connections have ended, by the links to the records of their
    /// sessions, until the homes of these have taken their last commands
    pub(super) leaving_names: HashMap<AttachmentId, (LinkName, LinkHolder)>,
    /// names whose homes have done that
    pub(super) left_names: Vec<(LinkName, LinkHolder)>,
    /// those that wait for confirmations of all shards, by number
    pub(super) confirmed_names: HashMap<u64, LeftName>,
    /// when the driver last called
    pub(super) now: Time,
}

impl Fabric {
    pub(super) fn new(index: u16, count: u16, mqtt_hold_ms: u64) -> Self {
        Self {
            index,
            mqtt_hold_ms,
            conns: Slab::new(),
            attachments: Attachments::new(index),
            outboxes: (0..count).map(|_| CommandBatch::default()).collect(),
            partial_deliveries: PartialDeliveries::default(),
            dirty: Vec::new(),
            unfinished: Vec::new(),
            sent_settled: Vec::new(),
            too_large: Vec::new(),
            refused: Vec::new(),
            freed: Vec::new(),
            greeting: Vec::new(),
            greeted: Vec::new(),
            discharged: Vec::new(),
            halted: Vec::new(),
            described: Vec::new(),
            paced: BTreeSet::new(),
            stopped: 0,
            work: Work::default(),
            leaving_names: HashMap::new(),
            left_names: Vec::new(),
            confirmed_names: HashMap::new(),
            now: Time::ZERO,
        }
    }

    #[inline]
    pub(super) fn mark(&mut self, conn: u32) {
        if let Some(state) = self.conns.get_mut(conn as usize)
            && !state.dirty
        {
            state.dirty = true;
            self.dirty.push(conn);
        }
    }

    /// Adds work done on behalf of the connection that is being read, if one is.
    #[inline]
    pub(super) fn charge(&mut self, nanos: u64) {
        self.work.nanos += nanos;
    }

    /// Grants `credit` on a link of `conn`.
    #[inline]
    pub(super) fn grant(&mut self, conn: u32, link: u32, credit: u32) {
        if let Some(state) = self.conns.get_mut(conn as usize) {
            state.machine.grant(LinkId(link), credit);
            self.mark(conn);
        }
    }

    /// `count` deliveries of a link that sends to us have left its window.
    #[inline]
    pub(super) fn link_taken(&mut self, conn: u32, link: u32, count: u32) {
        let Some(state) = self.conns.get_mut(conn as usize) else { return };
        let count = state.resuming.as_mut().map_or(count, |resuming| resuming.credited(link, count));
        if let Some(credit) = state.credit(link, |window, share| window.taken(count, share)) {
            self.grant(conn, link, credit);
        }
    }

    /// Whether deferred work must be done before the turn ends.
    pub(super) fn has_deferred_work(&self) -> bool {
        let has_answers = !(self.sent_settled.is_empty() && self.too_large.is_empty());
        let has_commands = !(self.discharged.is_empty() && self.halted.is_empty() && self.described.is_empty());
        let has_links = !(self.freed.is_empty() && self.greeted.is_empty() && self.refused.is_empty());
        has_answers || has_commands || has_links || !self.greeting.is_empty()
    }

    /// A home has answered an attach. The one to the queue of retained messages is the last, and does
    /// not follow a refusal.
    fn continue_attach(&mut self, conn: u32) {
        let attaching = self.conns.get_mut(conn as usize).and_then(|conn| conn.attaching.as_mut());
        if let Some(attaching) = attaching.filter(|attaching| attaching.waits_for == 1 && attaching.greeting.is_some())
        {
            if attaching.refusal.is_none() {
                return self.greeting.push(conn);
            }
            (attaching.waits_for, attaching.greeting) = (0, None);
        }
        self.answer_attach(conn);
    }

    /// Answers an attach once the homes of all its addresses have answered. The shard reports a
    /// refusal.
    pub(super) fn answer_attach(&mut self, conn: u32) {
        let Some(state) = self.conns.get_mut(conn as usize) else { return };
        if state.attaching.as_ref().is_none_or(|attaching| attaching.waits_for > 0) {
            return;
        }
        if state.attaching.as_ref().is_some_and(|attaching| attaching.refusal.is_some()) {
            return self.refused.push(conn);
        }
        if let Some(Attaching { link, reply, .. }) = state.attaching.take().map(|attaching| *attaching) {
            state.machine.accept(link, reply);
            self.mark(conn);
        }
    }

    /// Frees a detached attachment: its home sends no more commands for it.
    pub(super) fn finish_detach(&mut self, attachment: AttachmentId) {
        if !self.leaving_names.is_empty() {
            self.left_names.extend(self.leaving_names.remove(&attachment));
        }
        let Some(gone) = self.attachments.remove(attachment) else { return };
        if gone.held != Hold::No {
            self.link_held(gone.conn, gone.link, gone.held, Hold::No);
        }
        let state = self.conns.get_mut(gone.conn as usize);
        if let Some(Link::Anonymous(anonymous)) = state.and_then(|state| state.links.get_mut(gone.link as usize)) {
            anonymous.past.retain(|other| *other != attachment);
        }
    }

    /// Answers a drain once all addresses of the link have answered it.
    pub(super) fn finish_drain(&mut self, conn: u32, link: u32) {
        let Some(state) = self.conns.get_mut(conn as usize) else { return };
        let Some(Link::Consumer { attachments, .. }) = state.links.get(link as usize) else { return };
        let mut attachments = attachments.iter().filter_map(|attachment| self.attachments.get(*attachment));
        if !attachments.any(|attachment| attachment.drain || attachment.draining) {
            state.machine.drained(LinkId(link));
            self.mark(conn);
        }
    }

    /// Answers a drain whose credit was used up by one address of the link.
    pub(super) fn end_drain(&mut self, conn: u32, link: u32) {
        let links = self.conns.get(conn as usize).and_then(|state| state.links.get(link as usize));
        let Some(Link::Consumer { attachments, .. }) = links else { return };
        for attachment in attachments {
            if let Some(attachment) = self.attachments.get_mut(*attachment) {
                attachment.draining = false;
            }
        }
        self.finish_drain(conn, link);
    }

    pub(super) fn is_anonymous(&self, attachment: &Attachment) -> bool {
        let link = self.conns.get(attachment.conn as usize).and_then(|conn| conn.links.get(attachment.link as usize));
        matches!(link, Some(Link::Anonymous(_)))
    }

    /// Aborts a partial delivery on a link, so that others may continue.
    fn abort_incoming(&mut self, conn: u32, link: u32) {
        let Some(state) = self.conns.get_mut(conn as usize) else { return };
        let void = Outgoing { token: None, message_format: 0, first: false, more: false, aborted: true, payload: &[] };
        if state.machine.transfer(LinkId(link), void).is_ok() {
            self.freed.push((conn, link));
            self.mark(conn);
        }
    }

    /// Aborts the long delivery of one address of a link that stays, if there is one.
    pub(super) fn interrupt(&mut self, attachment: AttachmentId) {
        let Some(state) = self.attachments.get_mut(attachment) else { return };
        let (conn, link) = (state.conn, state.link);
        if std::mem::replace(&mut state.sending, false) {
            self.partial_deliveries.forget(attachment);
            self.abort_incoming(conn, link);
        }
    }

    /// Holds a link that sends to us back, or lets it continue.
    pub(super) fn link_held(&mut self, conn: u32, link: u32, before: Hold, after: Hold) {
        let Some(state) = self.conns.get_mut(conn as usize) else { return };
        let change = |kind: Hold| u32::from(after == kind).wrapping_sub(u32::from(before == kind));
        state.stops = state.stops.wrapping_add(change(Hold::Connection));
        state.send_only_stops = state.send_only_stops.wrapping_add(change(Hold::SendOnly));
        let hold = after != Hold::No;
        if (before != Hold::No) == hold {
            return self.update_hold_back_pressure(conn);
        }
        if hold {
            state.holds += 1;
        } else {
            state.holds = state.holds.saturating_sub(1);
            if state.holds == 0 {
                state.held_bytes = 0;
            }
        }
        if let Some(Link::Anonymous(anonymous)) = state.links.get_mut(link as usize) {
            anonymous.held = if hold { anonymous.held + 1 } else { anonymous.held.saturating_sub(1) };
        }
        self.note_hold(conn, link, hold);
        self.update_hold_back_pressure(conn);
    }

    /// An address holds a link back, or lets it continue. The link is checked again: another of its
    /// addresses may still hold it, or the call may be for an older link with this number.
    fn note_hold(&mut self, conn: u32, link: u32, hold: bool) {
        let state = self.conns.get(conn as usize).and_then(|state| state.links.get(link as usize));
        let held = hold || state.is_some_and(|link| self.is_held(link));
        let Some(state) = self.conns.get_mut(conn as usize) else { return };
        if held {
            state.held_links.insert(link);
        } else {
            state.held_links.remove(&link);
            state.machine.set_held(LinkId(link), false, self.mqtt_hold_ms);
        }
    }

    fn is_held(&self, link: &Link) -> bool {
        match link {
            Link::Producer { attachment, .. } => {
                self.attachments.get(*attachment).is_some_and(|attachment| attachment.held != Hold::No)
            }
            Link::Anonymous(anonymous) => anonymous.held > 0,
            Link::Vacant | Link::Consumer { .. } | Link::Coordinator(_) | Link::Will(_) => false,
        }
    }

    /// Counts bytes received on a link while it is held back.
    #[cold]
    pub(super) fn count_held(&mut self, conn: u32, link: u32, bytes: usize) {
        let state = self.conns.get(conn as usize).and_then(|state| state.links.get(link as usize));
        let held = state.is_some_and(|link| self.is_held(link));
        if let Some(state) = self.conns.get_mut(conn as usize).filter(|_| held) {
            state.held_bytes += bytes as u64;
        }
    }

    /// Closes the session windows of held-back links. A session with a partial delivery of another
    /// link stays open until the end of that delivery, for which the held-back one may wait.
    #[cold]
    pub(super) fn update_hold_back_pressure(&mut self, conn: u32) {
        let Some(state) = self.conns.get(conn as usize) else { return };
        let is_held = |link: &LinkId| state.links.get(link.0 as usize).is_some_and(|link| self.is_held(link));
        let held: Vec<LinkId> = state.held_links.iter().map(|link| LinkId(*link)).filter(is_held).collect();
        let sends_to_us = |link: &LinkId| {
            let link = state.links.get(link.0 as usize);
            link.is_some_and(|link| !matches!(link, Link::Vacant | Link::Consumer { .. }))
        };
        let continuing = state.machine.receiving().filter(|link| sends_to_us(link) && !is_held(link));
        let open: BTreeSet<_> = continuing.filter_map(|link| state.machine.link_session(link)).collect();
        self.work.nanos += (held.len() + open.len()) as u64 * LINK_CHECK_NANOS;
        let Some(state) = self.conns.get_mut(conn as usize) else { return };
        for link in held {
            let continues = state.machine.link_session(link).is_some_and(|session| open.contains(&session));
            state.machine.set_held(link, !continues, self.mqtt_hold_ms);
        }
        let sends_only = || open.is_empty() && !state.links.iter().any(|link| matches!(link, Link::Consumer { .. }));
        let stopped = state.stops > 0 || state.send_only_stops > 0 && sends_only();
        self.stopped = self.stopped + usize::from(stopped) - usize::from(state.stopped);
        state.stopped = stopped;
        self.mark(conn);
    }
}

impl Fabric {
    /// Writes a part of a delivery to a link of this shard: all of it, or the beginning of a long
    /// one, whose rest waits until the output was written. `false`: nothing was written.
    #[inline]
    pub(super) fn write(&mut self, consumer: AttachmentId, delivery: &Delivery<'_>) -> bool {
        let Some(attachment) = self.attachments.get_mut(consumer) else { return false };
        debug_assert!(!(attachment.leaving && delivery.first), "a delivery was dispatched to a link that ends");
        if !delivery.first && !attachment.sending {
            // The rest of a delivery that `end_too_large` ended: discard it.
            return true;
        }
        let conn = attachment.conn;
        let Some(state) = self.conns.get_mut(conn as usize) else { return false };
        if state.machine.is_mqtt() {
            return self.write_mqtt(consumer, delivery);
        }
        if state.machine.output().len() > OUTPUT_HIGH_BYTES && !delivery.aborted {
            state.congested = true;
            self.mark_congested(consumer);
            return false;
        }
        // A receiver of settled deliveries sends no outcomes: count the delivery as accepted.
        let settles = delivery.token.is_some() && state.machine.sends_settled(LinkId(attachment.link));
        let (payload, rest) = delivery.payload.split_at(delivery.payload.len().min(PIECE_BYTES));
        let more = delivery.more || !rest.is_empty();
        let outgoing = Outgoing {
            token: if settles { None } else { delivery.token },
            message_format: delivery.message_format,
            first: delivery.first,
            more,
            aborted: delivery.aborted,
            payload,
        };
        let name = if delivery.first { attachment.name.take() } else { None };
        let taken = match name {
            Some((number, resume)) => {
                let tag = Tag { bytes: &number.to_be_bytes(), resume };
                state.machine.transfer_named(LinkId(attachment.link), outgoing, tag)
            }
            None => state.machine.transfer(LinkId(attachment.link), outgoing),
        };
        match taken {
            Ok(()) => {}
            Err(SendError::TooLarge) => return self.end_too_large(consumer, delivery),
            Err(error) => {
                if error == SendError::Unsettled {
                    state.starved = true;
                    self.mark_congested(consumer);
                }
                return false;
            }
        }
        attachment.sending = more;
        state.pacing.carried.count_sent(delivery.first, payload.len());
        // Copying a byte takes a quarter of a nanosecond.
        let nanos = DELIVERY_NANOS + payload.len() as u64 / 4;
        let account = if self.work.reading { &mut self.work.nanos } else { &mut state.work_nanos };
        *account += nanos;
        if delivery.first {
            attachment.dispatched = attachment.dispatched.wrapping_add(1);
        } else if !more && state.is_shared(attachment.link) {
            self.freed.push((conn, attachment.link));
        }
        if settles && !more && !delivery.aborted {
            self.sent_settled.extend(delivery.token);
        }
        if !rest.is_empty() {
            state.congested = true;
            self.partial_deliveries.push(consumer, &Delivery { first: false, payload: rest, ..*delivery });
            self.mark_congested(consumer);
        }
        self.mark(conn);
        true
    }

    /// As `write`, for a client of MQTT. A packet states its length first, so parts wait in its
    /// machine.
    fn write_mqtt(&mut self, consumer: AttachmentId, delivery: &Delivery<'_>) -> bool {
        let Some(attachment) = self.attachments.get_mut(consumer) else { return false };
        let (conn, link) = (attachment.conn, LinkId(attachment.link));
        let Some(state) = self.conns.get_mut(conn as usize) else { return false };
        let Some(mqtt) = state.machine.mqtt_mut() else { return false };
        let fate = if mqtt.output().len() > OUTPUT_HIGH_BYTES && delivery.first {
            state.congested = true;
            None
        } else {
            Some(mqtt.send(link, delivery)).filter(|fate| *fate != Fate::NoRoom).or_else(|| {
                state.starved = true;
                None
            })
        };
        let Some(fate) = fate else {
            self.mark_congested(consumer);
            return false;
        };
        attachment.sending = delivery.more && !delivery.aborted;
        if delivery.first {
            attachment.dispatched = attachment.dispatched.wrapping_add(1);
        }
        state.pacing.carried.count_sent(delivery.first, delivery.payload.len());
        let nanos = DELIVERY_NANOS + delivery.payload.len() as u64 / 4;
        let account = if self.work.reading { &mut self.work.nanos } else { &mut state.work_nanos };
        *account += nanos;
        // A delivery in parts had a place in the client's window, which others may wait for.
        let ends_parts = delivery.aborted || !(delivery.first || delivery.more);
        if ends_parts || mqtt.needs_credit(link) {
            self.freed.push((conn, link.0));
        }
        match fate {
            Fate::Done => self.sent_settled.extend(delivery.token),
            Fate::TooLarge => self.too_large.extend(delivery.token),
            Fate::Pending | Fate::NoRoom => self.sent_settled.append(&mut mqtt.take_superseded()),
        }
        self.mark(conn);
        true
    }

    /// Queues an attachment that found no room on its connection, which is congested or starved.
    #[cold]
    fn mark_congested(&mut self, consumer: AttachmentId) {
        let Some(attachment) = self.attachments.get_mut(consumer) else { return };
        if !std::mem::replace(&mut attachment.waits_for_room, true)
            && let Some(state) = self.conns.get_mut(attachment.conn as usize)
        {
            state.waiting_for_room.push_back(consumer);
        }
    }

    /// Ends a delivery that is larger than its receiver allows: it gets an outcome, and its credit
    /// is restored.
    #[cold]
    fn end_too_large(&mut self, consumer: AttachmentId, delivery: &Delivery<'_>) -> bool {
        let Some(attachment) = self.attachments.get_mut(consumer) else { return false };
        let (conn, link) = (attachment.conn, attachment.link);
        if delivery.first {
            attachment.dispatched = attachment.dispatched.wrapping_add(1);
        }
        attachment.sending = false;
        if delivery.first {
            self.freed.push((conn, link));
        } else {
            self.abort_incoming(conn, link);
        }
        self.too_large.extend(delivery.token);
        true
    }
}

impl Links for Fabric {
    fn replace(&mut self, home: u16, replacement: Replacement) {
        debug_assert_ne!(home, self.index, "a home replaces its own subscriptions itself");
        self.outboxes[usize::from(home)].push_to_home(&ToHome::Replace { replacement });
    }

    fn hand_over(&mut self, home: u16, handover: Handover<'_>) {
        self.outboxes[usize::from(home)].push_to_home(&ToHome::HandOver { handover });
    }

    #[inline]
    fn transfer(&mut self, consumer: AttachmentId, delivery: &Delivery<'_>) -> bool {
        if consumer.shard != self.index {
            let command = ToLink::Transfer { attachment: consumer, delivery: *delivery };
            self.outboxes[consumer.shard as usize].push_to_link(&command);
            return true;
        }
        if self.partial_deliveries.has(consumer) {
            if !delivery.aborted {
                return false;
            }
            self.partial_deliveries.forget(consumer);
        }
        self.write(consumer, delivery)
    }

    #[inline(always)]
    fn send(&mut self, command: ToLink<'_>) {
        let shard = command.shard();
        if shard == self.index {
            self.receive_link(command);
        } else {
            self.outboxes[shard as usize].push_to_link(&command);
        }
    }
}

impl Fabric {
    /// A command for a link, or for a connection, of this shard.
    #[inline(always)]
    pub(super) fn receive_link(&mut self, command: ToLink<'_>) {
        match command {
            ToLink::Attached { attachment, answer } => self.attached(attachment, answer),
            ToLink::Recalled { attachment, description } => self.recalled(attachment, description),
            ToLink::PacketIds { attachment, from_client, from_node } => {
                if let Some((mqtt, _)) = self.mqtt_of(attachment) {
                    mqtt.session.resumes(&from_client, &from_node);
                }
            }
            ToLink::PacketId { record, packet, kept } => {
                if let Some((mqtt, conn)) = self.mqtt_of(record) {
                    mqtt.packet_id_stored(packet, kept);
                    self.mark(conn);
                }
            }
            ToLink::Unsettled { attachment, unsettled } => self.unsettled(attachment, unsettled),
            ToLink::Name { attachment, number, again } => self.name(attachment, number, again),
            ToLink::Transfer { attachment, delivery } => self.dispatch_to_link(attachment, &delivery),
            ToLink::Settled { attachment, token } => self.confirm(attachment, token),
            ToLink::Settle { attachment, delivery_id, outcome } => self.settle(attachment, delivery_id, &outcome),
            ToLink::Provisional { attachment, delivery_id, transaction, outcome } => {
                self.provisional(attachment, delivery_id, transaction, &outcome);
            }
            ToLink::Prepared { transaction, result } => {
                self.discharged.push((transaction, result.map(|writes| HomeAnswer::Prepared { writes })));
            }
            ToLink::Discharged { transaction, result } => {
                self.discharged.push((transaction, result.map(|()| HomeAnswer::Done)));
            }
            ToLink::Taken { attachment, count } => self.taken(attachment, count),
            ToLink::Open { attachment, open } => self.open(attachment, open),
            ToLink::Room { attachment, room } => self.room(attachment, room),
            ToLink::Hold { attachment, hold } => self.set_held(attachment, hold),
            ToLink::Drained { attachment } => self.drained(attachment),
            ToLink::Halted { attachment } => self.halted.push(attachment),
            ToLink::Left { attachment } => self.finish_detach(attachment),
            ToLink::Close { attachment, error } => self.close(attachment, &error),
            ToLink::Described { question, found } => self.described.push((question, found)),
        }
    }

    /// Handles a delivery from the home of an address for a link of this shard. If it finds no
    /// room, it is returned, and so are all that follow until the home has halted: this keeps the
    /// order. A later part of a long delivery cannot be returned, nor one that its home counts as
    /// accepted: it waits here, and its home has to pause.
    fn dispatch_to_link(&mut self, attachment: AttachmentId, delivery: &Delivery<'_>) {
        let Some(state) = self.attachments.get_mut(attachment) else {
            // The consumer ended while the delivery was in flight.
            let Some(home) = self.attachments.left(attachment) else { return };
            return self.send_back(home, attachment, *delivery);
        };
        let home = state.home;
        // Its home counts it as accepted and has no copy.
        let is_settled = delivery.token.is_none() && matches!(state.kind, AddressKind::Topic | AddressKind::Queue);
        if !delivery.first || is_settled {
            if self.partial_deliveries.has(attachment) || !Links::transfer(self, attachment, delivery) {
                self.partial_deliveries.push(attachment, delivery);
                self.outboxes[home as usize].push_to_home(&ToHome::Stall { attachment });
            }
        } else if state.refusing || !Links::transfer(self, attachment, delivery) {
            if let Some(state) = self.attachments.get_mut(attachment) {
                state.refusing = true;
            }
            self.send_back(home, attachment, *delivery);
        } else if delivery.more {
            self.outboxes[home as usize].push_to_home(&ToHome::Begun { attachment });
        }
    }

    fn send_back(&mut self, home: u16, attachment: AttachmentId, delivery: Delivery<'_>) {
        self.outboxes[home as usize].push_to_home(&ToHome::Refused { attachment, delivery });
    }
}

/// The commands to links.
impl Fabric {
    /// The client of MQTT to which a link belongs, and the key of its connection.
    fn mqtt_of(&mut self, attachment: AttachmentId) -> Option<(&mut Mqtt, u32)> {
        let conn = self.attachments.get(attachment)?.conn;
        Some((self.conns.get_mut(conn as usize)?.machine.mqtt_mut()?, conn))
    }

    fn recalled(&mut self, attachment: AttachmentId, description: &[u8]) {
        let Some(conn) =
            self.attachments.get(attachment).and_then(|attachment| self.conns.get_mut(attachment.conn as usize))
        else {
            return;
        };
        if conn.machine.is_mqtt() {
            // The record of its session, to which it has the right as its user.
            return;
        }
        let Some(description) = Description::decode(description) else { return };
        let may = conn.check_right(Operation::Recv, &description.wanted);
        let Some(link) = conn.attaching.as_deref().map(|attaching| attaching.link) else { return };
        conn.claim(link, &description.wanted);
        let Some(attaching) = conn.attaching.as_deref_mut() else { return };
        attaching.reply.source = Some(Box::new(description.source()));
        attaching.refusal = may.err();
    }

    fn attached(&mut self, attachment: AttachmentId, answer: Result<Fields, Error>) {
        let Some(state) = self.attachments.get_mut(attachment) else { return };
        state.attached = answer.is_ok();
        let state = *state;
        let Some(conn) = self.conns.get_mut(state.conn as usize) else { return };
        let Some(attaching) = conn.attaching.as_deref_mut().filter(|attaching| attaching.link.0 == state.link) else {
            // The link is attached already; this address was added later.
            return answer.err().into_iter().for_each(|error| self.close(attachment, &error));
        };
        attaching.waits_for -= 1;
        match answer {
            Ok(properties) => attaching.reply.properties.extend(properties),
            Err(error) => {
                attaching.refusal.get_or_insert(error);
                self.finish_detach(attachment);
            }
        }
        self.continue_attach(state.conn);
    }

    fn unsettled(&mut self, attachment: AttachmentId, unsettled: Unsettled) {
        let conn = self.attachments.get(attachment).map(|attachment| attachment.conn);
        let conn = conn.and_then(|conn| self.conns.get_mut(conn as usize));
        if let Some(attaching) = conn.and_then(|conn| conn.attaching.as_mut()) {
            attaching.reply.unsettled = Some(unsettled);
        }
    }

    fn name(&mut self, consumer: AttachmentId, number: u64, again: bool) {
        if let Some(attachment) = self.attachments.get_mut(consumer) {
            attachment.name = Some((number, again));
        }
    }

    #[inline]
    fn settle(&mut self, producer: AttachmentId, delivery_id: u32, outcome: &Outcome) {
        let Some(attachment) = self.attachments.get_mut(producer) else { return };
        attachment.unanswered = attachment.unanswered.saturating_sub(1);
        let (conn, link) = (attachment.conn, attachment.link);
        if let Some(state) = self.conns.get_mut(conn as usize) {
            state.machine.settle(LinkId(link), delivery_id, outcome);
            self.mark(conn);
        }
    }

    #[cold]
    fn provisional(&mut self, producer: AttachmentId, delivery_id: u32, transaction: TransactionId, outcome: &Outcome) {
        let Some(attachment) = self.attachments.get_mut(producer) else { return };
        attachment.unanswered = attachment.unanswered.saturating_sub(1);
        let (conn, link) = (attachment.conn, attachment.link);
        if let Some(state) = self.conns.get_mut(conn as usize) {
            if let Some(held) = state.held_outcomes.as_mut().filter(|_| *outcome == Outcome::Accepted) {
                held.hold(transaction.number, LinkId(link), outcome);
            }
            let outcome = transactional(transaction.number, outcome.clone());
            state.machine.settle_with(LinkId(link), delivery_id, &outcome, true);
            self.mark(conn);
        }
    }

    fn taken(&mut self, producer: AttachmentId, count: u32) {
        if let Some(attachment) = self.attachments.get(producer) {
            let (conn, link) = (attachment.conn, attachment.link);
            self.link_taken(conn, link, count);
        }
    }

    fn open(&mut self, producer: AttachmentId, open: bool) {
        let Some(attachment) = self.attachments.get(producer).copied() else { return };
        let Some(state) = self.conns.get_mut(attachment.conn as usize) else { return };
        // The anonymous terminus has credit regardless of its addresses (`contracts.md` 7).
        let now = self.now;
        let change = |window: &mut CreditWindow, share| if open { window.open(share) } else { window.close(now) };
        if let Some(Link::Producer { .. }) = state.links.get(attachment.link as usize)
            && let Some(credit) = state.credit(attachment.link, change)
        {
            self.grant(attachment.conn, attachment.link, credit);
        }
    }

    fn room(&mut self, producer: AttachmentId, room: u32) {
        let Some(attachment) = self.attachments.get(producer).copied() else { return };
        let Some(state) = self.conns.get_mut(attachment.conn as usize) else { return };
        if let Some(Link::Producer { .. }) = state.links.get(attachment.link as usize)
            && let Some(credit) = state.credit(attachment.link, |window, share| window.set_room(room, share))
        {
            self.grant(attachment.conn, attachment.link, credit);
        }
    }

    fn set_held(&mut self, producer: AttachmentId, hold: Hold) {
        let Some(attachment) = self.attachments.get_mut(producer) else { return };
        if attachment.held != hold {
            let before = std::mem::replace(&mut attachment.held, hold);
            let (conn, link) = (attachment.conn, attachment.link);
            self.link_held(conn, link, before, hold);
        }
    }

    fn drained(&mut self, consumer: AttachmentId) {
        if let Some(attachment) = self.attachments.get_mut(consumer) {
            let (conn, link) = (attachment.conn, attachment.link);
            if let Some(greeting) = &mut attachment.greeting {
                let ended = greeting.drained(attachment.dispatched, attachment.refusing);
                let has_parts = self.partial_deliveries.has(consumer);
                self.greeted.extend(ended.map(|ended| (consumer, ended && !has_parts)));
            } else if std::mem::take(&mut attachment.draining) {
                self.finish_drain(conn, link);
            } else {
                // The drain was cancelled in the meantime, but the home has given up its credit.
                self.freed.push((conn, link));
            }
        }
    }

    fn close(&mut self, attachment: AttachmentId, error: &Error) {
        self.partial_deliveries.forget(attachment);
        let Some(gone) = self.attachments.get(attachment).copied() else { return };
        let attaching = self.conns.get(gone.conn as usize).and_then(|conn| conn.attaching.as_deref());
        if !gone.attached && attaching.is_some_and(|attaching| attaching.link.0 == gone.link) {
            return self.attached(attachment, Err(error.clone()));
        }
        // Outcomes of an anonymous link are still in flight: wait for them before the detach.
        if gone.home == self.index || !self.is_anonymous(&gone) {
            self.finish_detach(attachment);
        } else if let Some(state) = self.attachments.get_mut(attachment)
            && !std::mem::replace(&mut state.detaching, true)
        {
            let command = ToHome::Detach { attachment, ending: Ending::ByNode, closed: false };
            self.outboxes[gone.home as usize].push_to_home(&command);
        }
        let Some(state) = self.conns.get_mut(gone.conn as usize) else { return };
        let id = LinkId(gone.link);
        let is_kept = state.subscription_of(id).is_some();
        match state.links.get_mut(gone.link as usize) {
            Some(Link::Anonymous(anonymous)) => {
                let last = self.attachments.get(attachment).is_none();
                anonymous.drop_routes(|_, route| route.attachment == attachment);
                anonymous.past.retain(|other| !last || *other != attachment);
                return;
            }
            Some(Link::Consumer { attachments, .. }) if attachments.len() > 1 || is_kept => {
                attachments.retain(|other| *other != attachment);
                if gone.greeting.is_some() {
                    // The others have had no credit before.
                    for other in attachments {
                        if let Some(other) = self.attachments.get_mut(*other) {
                            other.drain |= gone.draining;
                        }
                    }
                    self.freed.push((gone.conn, gone.link));
                }
                if gone.sending {
                    self.abort_incoming(gone.conn, gone.link);
                }
                if gone.drain || gone.draining {
                    self.finish_drain(gone.conn, gone.link);
                }
                return;
            }
            _ => {}
        }
        // The home of the address has already answered or dropped its deliveries.
        state.release_count(id);
        state.set_resumable(id, false);
        state.take_link(id);
        state.machine.take_unsettled(id, |_| ());
        state.machine.detach(id, true, Some(error.clone()));
        if gone.sending {
            self.freed.push((gone.conn, gone.link));
        }
        self.mark(gone.conn);
    }
}
