//! Resumable links (2.6.5, 2.6.13): their conditions, the answers to their attaches, and their
//! additional commands to and from the home of the address.
//!
//! A link requests it by the terminus at our end (3.5.3, 3.5.4): durable `unsettled-state`, and an
//! expiry-policy `never` or a timeout. A sender must also use rcv-settle-mode `second`: with
//! `first` its deliveries are settled at once.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use enmasse_amqp::connection::{AttachReply, Incoming, LinkId, OutcomeCounts, SessionId};
use enmasse_amqp::types::{
    Attach, Outcome, ReceiverSettleMode, Role, SenderSettleMode, Source, Target, TerminusDurability,
    TerminusExpiryPolicy,
};

use super::conn::{Conn, Link};
use super::fabric::Fabric;
use super::resumable::Reported;
use super::work::SETTLED_NANOS;
use super::{ConnId, Shard};
use crate::core::{AddressKind, AttachmentId, Resume, ToHome};
use crate::table::AddressEntry;

/// Seconds for which messages are kept for a detached receiver that requests no time.
const HOLD_S: u32 = 300;
/// Seconds for which tags of a detached sender are kept that requests no time. The maximum that any
/// link may request.
const KEEP_S: u32 = 7 * 24 * 3600;

/// The request of a link to be resumable at one address; `link` is the digest of its name.
pub(super) fn requested(attach: &Attach, entries: &[Arc<AddressEntry>], link: u64) -> Option<Box<Resume>> {
    let [entry] = entries else { return None };
    let on_disk = entry.storage.as_ref().is_some_and(|storage| storage.on_disk);
    if entry.kind != AddressKind::Queue || !on_disk {
        return None;
    }
    let (durable, expiry, timeout_s, default_s) =
        match (attach.role, attach.source.as_deref(), attach.target.as_deref()) {
            (Role::Receiver, Some(source), _) if !browses(source) => {
                (source.durable, source.expiry_policy, source.timeout_s, HOLD_S)
            }
            (Role::Sender, _, Some(Target::Node { durable, expiry_policy, timeout_s, .. }))
                if attach.rcv_settle_mode == ReceiverSettleMode::Second =>
            {
                (*durable, *expiry_policy, *timeout_s, KEEP_S)
            }
            _ => return None,
        };
    let keep_s = if expiry == TerminusExpiryPolicy::Never { default_s } else { timeout_s.min(KEEP_S) };
    let asks = durable == TerminusDurability::UnsettledState && attach.snd_settle_mode != SenderSettleMode::Settled;
    let (unsettled, incomplete) = (attach.unsettled.clone(), attach.incomplete_unsettled);
    (asks && keep_s > 0).then(|| Box::new(Resume { link, keep_s, unsettled, incomplete }))
}

fn browses(source: &Source) -> bool {
    source.distribution_mode.as_ref().is_some_and(|mode| mode.as_str() == "copy")
}

/// Writes the effective settings into our half of a link.
pub(super) fn answer(reply: &mut AttachReply, role: Role, resume: &Resume) {
    let in_force = (TerminusDurability::UnsettledState, TerminusExpiryPolicy::LinkDetach, resume.keep_s);
    match (role, reply.source.as_deref_mut(), reply.target.as_deref_mut()) {
        (Role::Receiver, Some(source), _) => {
            (source.durable, source.expiry_policy, source.timeout_s) = in_force;
        }
        (Role::Sender, _, Some(Target::Node { durable, expiry_policy, timeout_s, .. })) => {
            (*durable, *expiry_policy, *timeout_s) = in_force;
        }
        _ => {}
    }
}

impl Conn {
    /// Marks a link as resumable, or not resumable.
    pub(super) fn set_resumable(&mut self, link: LinkId, resumable: bool) {
        if resumable {
            self.resuming.get_or_insert_default().links.insert(link.0);
        } else if let Some(resuming) = self.resuming.as_mut() {
            resuming.forget(link.0);
        }
    }

    pub(super) fn is_resumable(&self, link: LinkId) -> bool {
        self.resuming.as_ref().is_some_and(|resuming| resuming.links.contains(&link.0))
    }
}

impl Shard {
    /// Processes a frame of a delivery if its link is resumable. `false`: it is not, and the caller
    /// delivers the frame.
    #[cold]
    pub(super) fn incoming_resumable(
        &mut self,
        id: ConnId,
        attachment: AttachmentId,
        home: u16,
        incoming: &Incoming<'_>,
    ) -> bool {
        let Some(conn) = self.fabric.conns.get_mut(id.key()).filter(|conn| conn.is_resumable(incoming.link)) else {
            return false;
        };
        let (link, session) = (incoming.link, conn.machine.link_session(incoming.link));
        let (Some(session), Some(resuming)) = (session, conn.resuming.as_mut()) else { return false };
        let first = incoming.first && !incoming.settled && !conn.machine.settles_at_once(link, incoming.delivery_id);
        if first {
            resuming.note(session, incoming.delivery_id, link.0, incoming.tag);
        }
        if !incoming.resume {
            if first {
                self.name_delivery(attachment, home, (incoming.delivery_id, incoming.tag));
            }
            self.deliver(attachment, home, incoming);
            if incoming.aborted || incoming.settled && !incoming.more {
                self.sender_settled(id, session, incoming.delivery_id, incoming.delivery_id);
            }
            return true;
        }
        // A resumed delivery is stored already: its payload is discarded.
        if incoming.first && incoming.settled {
            self.forget_tag(attachment, home, incoming.tag);
        }
        if incoming.more && !incoming.aborted {
            return true;
        }
        if !incoming.aborted && !incoming.settled {
            conn_of(&mut self.fabric, id).machine.settle(link, incoming.delivery_id, &Outcome::Accepted);
        } else {
            self.sender_settled(id, session, incoming.delivery_id, incoming.delivery_id);
        }
        self.fabric.link_taken(id.key, link.0, 1);
        self.fabric.mark(id.key);
        true
    }

    fn name_delivery(&mut self, attachment: AttachmentId, home: u16, (delivery_id, tag): (u32, &[u8])) {
        self.send_to_home(home, ToHome::NameDelivery { attachment, delivery_id, tag });
    }

    fn forget_tag(&mut self, attachment: AttachmentId, home: u16, tag: &[u8]) {
        self.send_to_home(home, ToHome::ForgetTag { attachment, tag });
    }

    /// The peer has settled deliveries that it sent.
    pub(super) fn sender_settled(&mut self, id: ConnId, session: SessionId, first: u32, last: u32) {
        let conn = conn_of(&mut self.fabric, id);
        let Some(resuming) = conn.resuming.as_mut() else { return };
        for delivery in resuming.between(session, first, last) {
            let conn = conn_of(&mut self.fabric, id);
            let Some((link, tag, credit)) =
                conn.resuming.as_mut().and_then(|resuming| resuming.settled(session, delivery))
            else {
                continue;
            };
            if let Some(Link::Producer { attachment, home, .. }) = conn.links.get(link as usize) {
                let (attachment, home) = (*attachment, *home);
                self.forget_tag(attachment, home, &tag);
            }
            if credit > 0 {
                self.fabric.link_taken(id.key, link, credit);
            }
        }
    }

    /// Handles outcomes that the peer has not settled. On resumable links we settle only after the
    /// home has confirmed that the outcome is durable; on others at once.
    #[cold]
    pub(super) fn disposition_unsettled(
        &mut self,
        id: ConnId,
        (session, first, last): (SessionId, u32, u32),
        outcome: &Outcome,
    ) {
        let conn = conn_of(&mut self.fabric, id);
        let reported: Vec<(u32, LinkId, u64)> = conn.machine.unsettled(session, first, last).collect();
        self.fabric.charge(reported.len() as u64 * SETTLED_NANOS);
        for (delivery, link, token) in reported {
            let conn = conn_of(&mut self.fabric, id);
            let attachment = match conn.links.get(link.0 as usize) {
                Some(Link::Consumer { attachments, .. }) if conn.is_resumable(link) => attachments.first().copied(),
                _ => None,
            };
            let (Some(attachment), Some(resuming)) = (attachment, conn.resuming.as_mut()) else {
                conn.take_answered(session, (delivery, delivery), false, Some(outcome), |_| ());
                self.report_outcome(token, outcome);
                continue;
            };
            let is_held = conn.held_outcomes.as_ref().is_some_and(|held| held.has(token));
            let outcome_counts = if is_held { OutcomeCounts::default() } else { OutcomeCounts::of(outcome) };
            // A repeated outcome has no effect.
            if let Entry::Vacant(entry) = resuming.outgoing.entry(token) {
                entry.insert(Reported { link, session, delivery_id: delivery, outcome: outcome_counts });
                self.report_unsettled(attachment, token, outcome);
            }
        }
    }

    fn report_unsettled(&mut self, attachment: AttachmentId, token: u64, outcome: &Outcome) {
        let Some(home) = self.fabric.attachments.get(attachment).map(|attachment| attachment.home) else { return };
        self.send_to_home(home, ToHome::OutcomeUnsettled { attachment, token, outcome: Cow::Borrowed(outcome) });
    }
}

impl Fabric {
    /// An outcome of a consumer of this shard is durable: we settle the delivery.
    pub(super) fn confirm(&mut self, attachment: AttachmentId, token: u64) {
        let Some(key) = self.attachments.get(attachment).map(|attachment| attachment.conn) else { return };
        let Some(conn) = self.conns.get_mut(key as usize) else { return };
        let reported = conn.resuming.as_mut().and_then(|resuming| resuming.outgoing.get(&token).copied());
        // The receiver has settled it in the meantime.
        let Some(Reported { link, session, delivery_id, .. }) = reported else { return };
        conn.take_answered(session, (delivery_id, delivery_id), false, None, |_| ());
        if let Some(resuming) = conn.resuming.as_mut() {
            // Its session has ended, but not the link yet.
            resuming.outgoing.remove(&token);
        }
        if std::mem::take(&mut conn.starved) {
            self.freed.push((key, link.0));
        }
        self.mark(key);
    }
}

fn conn_of(fabric: &mut Fabric, id: ConnId) -> &mut Conn {
    &mut fabric.conns[id.key()]
}
