//! Everything of a shard but its router: connections, ports, and what goes to other shards. The router speaks to
//! links through it; a port of another shard is an entry in that shard's batch.

use std::collections::BTreeSet;

use enmasse_amqp::connection::{LinkId, Outgoing, SendError, Tag};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Error, Fields, Outcome};
use slab::Slab;

use super::OUTPUT_HIGH_BYTES;
use super::attach::check_right;
use super::batch::{Batch, Entry};
use super::conn::{Attaching, Conn, Link};
use super::coordinator::within;
use super::late::{LateParts, PIECE_BYTES};
use super::ports::{Port, Ports};
use super::subscribing::Description;
use super::work::{DELIVERY_NANOS, WEIGHED_NANOS, Work};
use crate::core::{Delivery, Ending, Hold, Links, PortId, TransactionId, Unsettled};
use crate::plan::Operation;

pub(super) struct Fabric {
    pub(super) index: u16,
    pub(super) conns: Slab<Conn>,
    pub(super) ports: Ports,
    pub(super) outboxes: Vec<Batch>,
    pub(super) late: LateParts,
    /// keys of connections that the driver has to look at
    pub(super) dirty: Vec<u32>,
    /// deliveries that were sent settled to links that take no others, though their producers wait for an outcome
    pub(super) sent_settled: Vec<u64>,
    /// deliveries larger than their receivers take
    pub(super) too_large: Vec<u64>,
    /// connections whose link was refused by the home of its address
    pub(super) refused: Vec<u32>,
    /// connections and links where a long delivery of one address has ended and those of others may go on
    pub(super) freed: Vec<(u32, u32)>,
    /// transactions of connections here that were discharged, or could not be
    pub(super) discharged: Vec<(TransactionId, Result<(), Error>)>,
    /// connections whose spaces have sent too fast, by when they may go on
    pub(super) paced: BTreeSet<(Time, u32)>,
    /// connections that are not read because of the receive budget
    pub(super) stopped: usize,
    /// what the connection that is being read has cost
    pub(super) work: Work,
    /// when the driver last called
    pub(super) now: Time,
}

impl Fabric {
    pub(super) fn new(index: u16, count: u16) -> Self {
        Self {
            index,
            conns: Slab::new(),
            ports: Ports::new(index),
            outboxes: (0..count).map(|_| Batch::default()).collect(),
            late: LateParts::default(),
            dirty: Vec::new(),
            sent_settled: Vec::new(),
            too_large: Vec::new(),
            refused: Vec::new(),
            freed: Vec::new(),
            discharged: Vec::new(),
            paced: BTreeSet::new(),
            stopped: 0,
            work: Work::default(),
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

    #[inline]
    fn remote(&mut self, port: PortId) -> Option<&mut Batch> {
        if port.shard == self.index { None } else { Some(&mut self.outboxes[port.shard as usize]) }
    }

    /// Grants `credit` on a link of `conn`.
    #[inline]
    pub(super) fn grant(&mut self, conn: u32, link: u32, credit: u32) {
        if let Some(state) = self.conns.get_mut(conn as usize) {
            state.machine.grant(LinkId(link), credit);
            self.mark(conn);
        }
    }

    /// `count` deliveries of a link that sends to us wait no longer.
    #[inline]
    pub(super) fn link_taken(&mut self, conn: u32, link: u32, count: u32) {
        let Some(state) = self.conns.get_mut(conn as usize) else { return };
        let count = state.resuming.as_mut().map_or(count, |resuming| resuming.credited(link, count));
        if let Some(credit) = state.window(link).and_then(|window| window.taken(count)) {
            self.grant(conn, link, credit);
        }
    }

    /// Something is to be done before the turn ends.
    pub(super) fn has_afterwork(&self) -> bool {
        let has_answers = !(self.sent_settled.is_empty() && self.too_large.is_empty());
        has_answers || !self.freed.is_empty() || !self.refused.is_empty() || !self.discharged.is_empty()
    }

    /// Answers the link of a connection whose addresses have all answered. A refusal is the shard's to say.
    fn answer_attach(&mut self, conn: u32) {
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

    /// The home of a port that was detached says nothing more.
    pub(super) fn last_word(&mut self, port: PortId) {
        let Some(gone) = self.ports.remove(port) else { return };
        if gone.held != Hold::No {
            self.link_held(gone.conn, gone.link, gone.held, Hold::No);
        }
        let state = self.conns.get_mut(gone.conn as usize);
        if let Some(Link::Anonymous(anonymous)) = state.and_then(|state| state.links.get_mut(gone.link as usize)) {
            anonymous.past.retain(|other| *other != port);
        }
    }

    /// A drain is answered once no address has anything left that the link has credit for.
    fn finish_drain(&mut self, conn: u32, link: u32) {
        let Some(state) = self.conns.get_mut(conn as usize) else { return };
        let Some(Link::Consumer { ports, .. }) = state.links.get(link as usize) else { return };
        let mut ports = ports.iter().filter_map(|port| self.ports.get(*port));
        if !ports.any(|port| port.drain || port.draining) {
            state.machine.drained(LinkId(link));
            self.mark(conn);
        }
    }

    pub(super) fn is_anonymous(&self, port: &Port) -> bool {
        let link = self.conns.get(port.conn as usize).and_then(|conn| conn.links.get(port.link as usize));
        matches!(link, Some(Link::Anonymous(_)))
    }

    /// A long delivery ends before its time on a link: others may go on.
    fn break_off(&mut self, conn: u32, link: u32) {
        let Some(state) = self.conns.get_mut(conn as usize) else { return };
        let void = Outgoing { token: None, message_format: 0, first: false, more: false, aborted: true, payload: &[] };
        if state.machine.transfer(LinkId(link), void).is_ok() {
            self.freed.push((conn, link));
            self.mark(conn);
        }
    }

    /// Holds a link that sends to us back, or lets it go on.
    pub(super) fn link_held(&mut self, conn: u32, link: u32, before: Hold, after: Hold) {
        let Some(state) = self.conns.get_mut(conn as usize) else { return };
        self.stopped -= usize::from(state.stops > 0);
        state.stops = state.stops + u32::from(after == Hold::Connection) - u32::from(before == Hold::Connection);
        self.stopped += usize::from(state.stops > 0);
        let hold = after != Hold::No;
        if (before != Hold::No) == hold {
            return self.mark(conn);
        }
        if hold {
            state.holds += 1;
        } else {
            state.holds = state.holds.saturating_sub(1);
            if state.holds == 0 {
                state.held_bytes = 0;
            }
        }
        // One of several addresses that may go on is not all of them.
        let hold = match state.links.get_mut(link as usize) {
            Some(Link::Anonymous(anonymous)) => {
                anonymous.held = if hold { anonymous.held + 1 } else { anonymous.held.saturating_sub(1) };
                anonymous.held > 0
            }
            _ => hold,
        };
        if !hold {
            state.machine.hold(LinkId(link), false);
        }
        self.weigh_holds(conn);
    }

    fn is_held(&self, link: &Link) -> bool {
        match link {
            Link::Producer { port, .. } => self.ports.get(*port).is_some_and(|port| port.held != Hold::No),
            Link::Anonymous(anonymous) => anonymous.held > 0,
            Link::Vacant | Link::Consumer { .. } | Link::Coordinator(_) => false,
        }
    }

    /// Counts what comes in on a link although it is held.
    #[cold]
    pub(super) fn count_held(&mut self, conn: u32, link: u32, bytes: usize) {
        let state = self.conns.get(conn as usize).and_then(|state| state.links.get(link as usize));
        let held = state.is_some_and(|link| self.is_held(link));
        if let Some(state) = self.conns.get_mut(conn as usize).filter(|_| held) {
            state.held_bytes += bytes as u64;
        }
    }

    /// Holds the sessions of those links that are to be held. One within a delivery of another link stays open until its
    /// end: what waits may wait for just that.
    #[cold]
    pub(super) fn weigh_holds(&mut self, conn: u32) {
        let Some(state) = self.conns.get(conn as usize) else { return };
        self.work.nanos += state.links.len() as u64 * WEIGHED_NANOS;
        let links = || state.links.iter().enumerate().map(|(link, state)| (LinkId(link as u32), self.is_held(state)));
        let goes_on = |link: LinkId| {
            let sends_to_us = !matches!(state.links[link.0 as usize], Link::Vacant | Link::Consumer { .. });
            sends_to_us && state.machine.is_receiving(link)
        };
        let going_on = links().filter(|(link, held)| !held && goes_on(*link));
        let open: Vec<_> = going_on.filter_map(|(link, _)| state.machine.link_session(link)).collect();
        let held: Vec<LinkId> = links().filter(|(_, held)| *held).map(|(link, _)| link).collect();
        let Some(state) = self.conns.get_mut(conn as usize) else { return };
        for link in held {
            let goes_on = state.machine.link_session(link).is_some_and(|session| open.contains(&session));
            state.machine.hold(link, !goes_on);
        }
        self.mark(conn);
    }
}

impl Fabric {
    /// Hands a link of this shard a part of a delivery: all of it, or the beginning of a long one, whose rest waits
    /// until the output was written. `false`: none of it.
    #[inline]
    pub(super) fn write(&mut self, consumer: PortId, delivery: &Delivery<'_>) -> bool {
        let Some(port) = self.ports.get_mut(consumer) else { return false };
        debug_assert!(!(port.leaving && delivery.first), "a link that ends is handed nothing more");
        if !delivery.first && !port.sending {
            // The rest of one that was given up.
            return true;
        }
        let conn = port.conn;
        let Some(state) = self.conns.get_mut(conn as usize) else { return false };
        if state.machine.output().len() > OUTPUT_HIGH_BYTES && !delivery.aborted {
            state.congested = true;
            self.fall_short(consumer);
            return false;
        }
        // A receiver that asked for settled deliveries says nothing about them: taking them is accepting them.
        let settles = delivery.token.is_some() && state.machine.sends_settled(LinkId(port.link));
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
        let name = if delivery.first { port.name.take() } else { None };
        let taken = match name {
            Some((number, resume)) => {
                let tag = Tag { bytes: &number.to_be_bytes(), resume };
                state.machine.transfer_named(LinkId(port.link), outgoing, tag)
            }
            None => state.machine.transfer(LinkId(port.link), outgoing),
        };
        match taken {
            Ok(()) => {}
            Err(SendError::TooLarge) => return self.give_up(consumer, delivery),
            Err(error) => {
                if error == SendError::Unsettled {
                    state.starved = true;
                    self.fall_short(consumer);
                }
                return false;
            }
        }
        port.sending = more;
        state.pacing.carried.went(delivery.first, payload.len());
        // Copying a byte takes a quarter of a nanosecond.
        let nanos = DELIVERY_NANOS + payload.len() as u64 / 4;
        let account = if self.work.reading { &mut self.work.nanos } else { &mut state.work_nanos };
        *account += nanos;
        if delivery.first {
            port.handed = port.handed.wrapping_add(1);
        } else if !more && state.is_shared(port.link) {
            self.freed.push((conn, port.link));
        }
        if settles && !more && !delivery.aborted {
            self.sent_settled.extend(delivery.token);
        }
        if !rest.is_empty() {
            state.congested = true;
            self.late.push(consumer, &Delivery { first: false, payload: rest, ..*delivery });
            self.fall_short(consumer);
        }
        self.mark(conn);
        true
    }

    /// A port found no room on its connection, which is congested or starved now.
    #[cold]
    fn fall_short(&mut self, consumer: PortId) {
        let Some(port) = self.ports.get_mut(consumer) else { return };
        if !std::mem::replace(&mut port.short, true)
            && let Some(state) = self.conns.get_mut(port.conn as usize)
        {
            state.short.push_back(consumer);
        }
    }

    /// A link cannot take a delivery, or the rest of it, now or ever: that is its answer, and its credit goes on.
    #[cold]
    fn give_up(&mut self, consumer: PortId, delivery: &Delivery<'_>) -> bool {
        let Some(port) = self.ports.get_mut(consumer) else { return false };
        let (conn, link) = (port.conn, port.link);
        if delivery.first {
            port.handed = port.handed.wrapping_add(1);
        }
        port.sending = false;
        if delivery.first {
            self.freed.push((conn, link));
        } else {
            self.break_off(conn, link);
        }
        self.too_large.extend(delivery.token);
        true
    }
}

impl Links for Fabric {
    fn recalled(&mut self, port: PortId, description: &[u8]) {
        if let Some(batch) = self.remote(port) {
            return batch.push(Entry::Recalled { port, description: description.into() });
        }
        let Some(conn) = self.ports.get(port).and_then(|port| self.conns.get_mut(port.conn as usize)) else { return };
        let Some(description) = Description::decode(description) else { return };
        let may = check_right(conn, Operation::Recv, &description.wanted);
        let Some(link) = conn.attaching.as_deref().map(|attaching| attaching.link) else { return };
        conn.claim(link, &description.wanted);
        let Some(attaching) = conn.attaching.as_deref_mut() else { return };
        attaching.reply.source = Some(Box::new(description.source()));
        attaching.refusal = may.err();
    }

    fn attached(&mut self, port: PortId, answer: Result<Fields, Error>) {
        if let Some(batch) = self.remote(port) {
            return batch.push(Entry::Attached { port, answer: answer.map_err(Box::new) });
        }
        let Some(state) = self.ports.get_mut(port) else { return };
        state.attached = answer.is_ok();
        let state = *state;
        let Some(conn) = self.conns.get_mut(state.conn as usize) else { return };
        let Some(attaching) = conn.attaching.as_deref_mut().filter(|attaching| attaching.link.0 == state.link) else {
            // One of the addresses of a link that is up.
            return answer.err().into_iter().for_each(|error| self.close(port, &error));
        };
        attaching.waits_for -= 1;
        match answer {
            Ok(properties) => attaching.reply.properties.extend(properties),
            Err(error) => {
                attaching.refusal.get_or_insert(error);
                self.last_word(port);
            }
        }
        self.answer_attach(state.conn);
    }

    fn unsettled(&mut self, port: PortId, unsettled: Unsettled) {
        if let Some(batch) = self.remote(port) {
            return batch.push(Entry::Unsettled { port, unsettled });
        }
        let conn = self.ports.get(port).map(|port| port.conn);
        let conn = conn.and_then(|conn| self.conns.get_mut(conn as usize));
        if let Some(attaching) = conn.and_then(|conn| conn.attaching.as_mut()) {
            attaching.reply.unsettled = Some(unsettled);
        }
    }

    fn name(&mut self, consumer: PortId, number: u64, again: bool) {
        if let Some(batch) = self.remote(consumer) {
            batch.push(Entry::Name { port: consumer, number, again });
        } else if let Some(port) = self.ports.get_mut(consumer) {
            port.name = Some((number, again));
        }
    }

    fn settled(&mut self, consumer: PortId, token: u64) {
        if let Some(batch) = self.remote(consumer) {
            batch.push(Entry::Settled { port: consumer, token });
        } else {
            self.confirm(consumer, token);
        }
    }

    #[inline]
    fn transfer(&mut self, consumer: PortId, delivery: &Delivery<'_>) -> bool {
        if let Some(batch) = self.remote(consumer) {
            batch.push_transfer(consumer, delivery);
            return true;
        }
        if self.late.has(consumer) {
            if !delivery.aborted {
                return false;
            }
            self.late.forget(consumer);
        }
        self.write(consumer, delivery)
    }

    #[inline]
    fn settle(&mut self, producer: PortId, delivery_id: u32, outcome: &Outcome) {
        if let Some(batch) = self.remote(producer) {
            batch.push(Entry::Settle { port: producer, delivery_id, outcome: outcome.clone() });
            return;
        }
        let Some(port) = self.ports.get_mut(producer) else { return };
        port.unanswered = port.unanswered.saturating_sub(1);
        let (conn, link) = (port.conn, port.link);
        if let Some(state) = self.conns.get_mut(conn as usize) {
            state.machine.settle(LinkId(link), delivery_id, outcome);
            self.mark(conn);
        }
    }

    #[cold]
    fn provisional(&mut self, producer: PortId, delivery_id: u32, transaction: TransactionId, outcome: &Outcome) {
        if let Some(batch) = self.remote(producer) {
            let outcome = outcome.clone();
            return batch.push(Entry::Provisional { port: producer, delivery_id, transaction, outcome });
        }
        let Some(port) = self.ports.get_mut(producer) else { return };
        port.unanswered = port.unanswered.saturating_sub(1);
        let (conn, link) = (port.conn, port.link);
        if let Some(state) = self.conns.get_mut(conn as usize) {
            let outcome = within(transaction.number, outcome.clone());
            state.machine.settle_with(LinkId(link), delivery_id, &outcome, true);
            self.mark(conn);
        }
    }

    #[cold]
    fn discharged(&mut self, transaction: TransactionId, result: Result<(), Error>) {
        if transaction.shard == self.index {
            self.discharged.push((transaction, result));
        } else if let Some(batch) = self.outboxes.get_mut(transaction.shard as usize) {
            batch.push(Entry::Discharged { transaction, error: result.err().map(Box::new) });
        }
    }

    fn taken(&mut self, producer: PortId, count: u32) {
        if let Some(batch) = self.remote(producer) {
            batch.push(Entry::Taken { port: producer, count });
        } else if let Some(port) = self.ports.get(producer) {
            let (conn, link) = (port.conn, port.link);
            self.link_taken(conn, link, count);
        }
    }

    fn open(&mut self, producer: PortId, open: bool) {
        if let Some(batch) = self.remote(producer) {
            batch.push(Entry::Open { port: producer, open });
            return;
        }
        let Some(port) = self.ports.get(producer).copied() else { return };
        let Some(state) = self.conns.get_mut(port.conn as usize) else { return };
        // The anonymous terminus has credit whatever its addresses have (`contracts.md` 7).
        if let Some(Link::Producer { window, .. }) = state.links.get_mut(port.link as usize)
            && let Some(credit) = if open { window.open() } else { window.close(self.now) }
        {
            self.grant(port.conn, port.link, credit);
        }
    }

    fn room(&mut self, producer: PortId, room: u32) {
        if let Some(batch) = self.remote(producer) {
            batch.push(Entry::Room { port: producer, room });
            return;
        }
        let Some(port) = self.ports.get(producer).copied() else { return };
        let Some(state) = self.conns.get_mut(port.conn as usize) else { return };
        if let Some(Link::Producer { window, .. }) = state.links.get_mut(port.link as usize)
            && let Some(credit) = window.set_room(room)
        {
            self.grant(port.conn, port.link, credit);
        }
    }

    fn hold(&mut self, producer: PortId, hold: Hold) {
        if let Some(batch) = self.remote(producer) {
            batch.push(Entry::Hold { port: producer, hold });
            return;
        }
        let Some(port) = self.ports.get_mut(producer) else { return };
        if port.held != hold {
            let before = std::mem::replace(&mut port.held, hold);
            let (conn, link) = (port.conn, port.link);
            self.link_held(conn, link, before, hold);
        }
    }

    fn drained(&mut self, consumer: PortId) {
        if let Some(batch) = self.remote(consumer) {
            batch.push(Entry::Drained { port: consumer });
        } else if let Some(port) = self.ports.get_mut(consumer) {
            let (conn, link) = (port.conn, port.link);
            if std::mem::take(&mut port.draining) {
                self.finish_drain(conn, link);
            } else {
                // It was called off meanwhile, and the home counts the credit as given back.
                self.freed.push((conn, link));
            }
        }
    }

    fn halted(&mut self, consumer: PortId) {
        if let Some(batch) = self.remote(consumer) {
            batch.push(Entry::Halted { port: consumer });
        }
    }

    fn close(&mut self, port: PortId, error: &Error) {
        if let Some(batch) = self.remote(port) {
            batch.push(Entry::Close { port, error: Box::new(error.clone()) });
            return;
        }
        self.late.forget(port);
        let Some(gone) = self.ports.get(port).copied() else { return };
        let attaching = self.conns.get(gone.conn as usize).and_then(|conn| conn.attaching.as_deref());
        if !gone.attached && attaching.is_some_and(|attaching| attaching.link.0 == gone.link) {
            return self.attached(port, Err(error.clone()));
        }
        // What an anonymous link has sent on is answered still, and only then the last word said.
        if gone.home == self.index || !self.is_anonymous(&gone) {
            self.last_word(port);
        } else if let Some(state) = self.ports.get_mut(port)
            && !std::mem::replace(&mut state.parting, true)
        {
            let entry = Entry::Detach { port, ending: Ending::ByNode, closed: false };
            self.outboxes[gone.home as usize].push(entry);
        }
        let Some(state) = self.conns.get_mut(gone.conn as usize) else { return };
        let id = LinkId(gone.link);
        match state.links.get_mut(gone.link as usize) {
            Some(Link::Anonymous(anonymous)) => {
                let last = self.ports.get(port).is_none();
                anonymous.give_up(|_, route| route.port == port);
                anonymous.past.retain(|other| !last || *other != port);
                return;
            }
            Some(Link::Consumer { ports, .. }) if ports.len() > 1 => {
                ports.retain(|other| *other != port);
                if gone.sending {
                    self.break_off(gone.conn, gone.link);
                }
                if gone.drain || gone.draining {
                    self.finish_drain(gone.conn, gone.link);
                }
                return;
            }
            _ => {}
        }
        // Its deliveries were answered, or forgotten, where the address lived.
        state.give_up_place(id);
        state.set_resumable(id, false);
        state.take_link(id);
        state.machine.take_unsettled(id, |_| ());
        state.machine.detach(id, true, Some(error.clone()));
        self.mark(gone.conn);
    }
}
