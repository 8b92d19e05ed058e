//! Outcomes both ways (2.6.12, 2.7.6, 3.4), and the states of transactions (4.5).

use super::fault::Fault;
use super::receive::Received;
use super::{Connection, Event, LinkId, SessionId};
use crate::codec::decode_state;
use crate::codec::fast::{DispositionView, StateView};
use crate::link::OutcomeCounts;
use crate::link::state::State as LinkState;
use crate::types::{DeliveryState, Error, Outcome, ReceiverSettleMode, Role, TransactionalState, condition};

impl Connection {
    /// A disposition of the peer. A disposition of the sender needs no answer: its settlement
    /// settles our end too, and the driver is notified.
    #[inline]
    pub(super) fn on_disposition(&mut self, channel: u16, view: &DispositionView<'_>) -> Received {
        let Some(index) = self.session_of(channel, "disposition")? else { return Ok(None) };
        let DispositionView { first, last, settled, .. } = *view;
        if last.wrapping_sub(first) > i32::MAX as u32 {
            let description = format!("disposition.last: {last} is before first, {first}");
            return Err(Fault::session(index, condition::INVALID_FIELD, description));
        }
        if view.role == Role::Sender {
            let session = SessionId(index);
            if settled {
                self.free_tags(index, first, last);
            }
            return Ok(settled.then_some(Event::SenderSettled { session, first, last }));
        }
        let outcome = match view.state {
            StateView::Accepted => Outcome::Accepted,
            StateView::Released => Outcome::Released,
            StateView::None => return Ok(self.settled_by_default(index, view, None)),
            StateView::Other(bytes) => match decode_state(bytes)? {
                DeliveryState::Outcome(outcome) => outcome,
                DeliveryState::Received(_) => return Ok(self.settled_by_default(index, view, None)),
                DeliveryState::Declared(declared) => {
                    let (session, txn_id) = (SessionId(index), declared.txn_id);
                    return Ok(Some(Event::Declared { session, first, last, settled, txn_id }));
                }
                DeliveryState::Transactional(state) => {
                    let TransactionalState { txn_id, outcome } = *state;
                    let Some(outcome) = outcome else {
                        return Ok(self.settled_by_default(index, view, Some(&txn_id)));
                    };
                    let session = SessionId(index);
                    return Ok(Some(Event::Provisional { session, first, last, settled, txn_id, outcome }));
                }
            },
        };
        Ok(Some(Event::Disposition { session: SessionId(index), first, last, settled, outcome }))
    }

    /// Deliveries that were settled without an outcome get the default outcome of their source
    /// (3.5.3), else they are released: one event for each run of deliveries of the same link.
    /// `txn_id`: within that transaction.
    #[cold]
    fn settled_by_default(
        &mut self,
        index: u32,
        view: &DispositionView<'_>,
        txn_id: Option<&[u8]>,
    ) -> Option<Event<'static>> {
        let session = self.sessions.get(index as usize).filter(|_| view.settled)?;
        let mut runs: Vec<(u32, u32, u32)> = Vec::new();
        for (id, link, _) in session.unsettled.range(view.first, view.last) {
            match runs.last_mut() {
                Some((_, last, of)) if *of == link => *last = id,
                _ => runs.push((id, id, link)),
            }
        }
        for (first, last, place) in runs {
            let default = self.links.get(place as usize).and_then(|link| link.default_outcome.clone());
            let outcome = default.unwrap_or(Outcome::Released);
            let (session, settled) = (SessionId(index), true);
            self.queue_event(match txn_id {
                None => Event::Disposition { session, first, last, settled, outcome },
                Some(txn_id) => {
                    let txn_id = txn_id.to_vec();
                    Event::Provisional { session, first, last, settled, txn_id, outcome }
                }
            });
        }
        None
    }

    /// The sender has settled deliveries, whose tags it may use again (2.6.12).
    #[cold]
    fn free_tags(&mut self, index: u32, first: u32, last: u32) {
        let Some(session) = self.sessions.get(index as usize) else { return };
        for place in session.places() {
            if let Some(link) = self.links.get_mut(place as usize) {
                link.tags.settle_range(first, last);
            }
        }
    }

    /// Receiving link: the outcome of a delivery. Written at `flush`, in ranges; on a link that
    /// settles second, the sender's disposition settles the delivery without a further call. An
    /// outcome that the source does not offer detaches the link.
    #[inline]
    pub fn settle(&mut self, link: LinkId, delivery_id: u32, outcome: &Outcome) {
        let place = link.0;
        let Some(link) = self.links.get_mut(place as usize).filter(|link| link.state == LinkState::Attached) else {
            return;
        };
        let fitting;
        let mut outcome = outcome;
        if link.offered.is_limited() {
            let Some(offered) = link.offered.fit(outcome) else { return self.not_offered(place, delivery_id, outcome) };
            fitting = offered;
            outcome = &fitting;
        }
        let Some(session) = self.sessions.get_mut(link.session as usize) else { return };
        let settled = link.rcv_settle_mode == ReceiverSettleMode::First || link.settle_first.remove(&delivery_id);
        if settled {
            link.tags.settle(delivery_id);
        }
        link.outcomes.add(outcome);
        session.received.push(delivery_id, Some(outcome), settled);
        Self::mark_due(&mut self.due, link.session, session);
    }

    /// As `settle`, with any state, such as one of part 4. Without `settled`, or on a link that
    /// settles second, the delivery stays unsettled on our side. The outcome accepted in a
    /// transaction is provisional (4.4.1): it counts at the commit, by `count_outcomes`.
    pub fn settle_with(&mut self, link: LinkId, delivery_id: u32, state: &DeliveryState, settled: bool) {
        let place = link.0;
        let Some(link) = self.links.get_mut(place as usize).filter(|link| link.state == LinkState::Attached) else {
            return;
        };
        let outcome = match state {
            DeliveryState::Outcome(outcome) => Some(outcome),
            DeliveryState::Transactional(state) => state.outcome.as_ref(),
            DeliveryState::Declared(_) | DeliveryState::Received(_) => None,
        };
        // An equivalent outcome would differ from the one in the transaction.
        if let Some(outcome) = outcome
            && link.offered.fit(outcome).is_none_or(|fitting| fitting != *outcome)
        {
            return self.not_offered(place, delivery_id, outcome);
        }
        let Some(session) = self.sessions.get_mut(link.session as usize) else { return };
        let first = link.rcv_settle_mode == ReceiverSettleMode::First;
        let settled = settled && (first || link.settle_first.remove(&delivery_id));
        if settled {
            link.tags.settle(delivery_id);
        }
        let is_provisional = matches!((state, outcome), (DeliveryState::Transactional(_), Some(Outcome::Accepted)));
        if let Some(outcome) = outcome.filter(|_| !is_provisional) {
            link.outcomes.add(outcome);
        }
        session.received.push_state(delivery_id, state, settled);
        Self::mark_due(&mut self.due, link.session, session);
    }

    /// Detaches a link whose source does not offer the outcome of a delivery (3.5.3), with an error
    /// that names the delivery and its outcome (OASIS anonymous terminus 1.0, 2.2.2).
    #[cold]
    fn not_offered(&mut self, place: u32, delivery_id: u32, outcome: &Outcome) {
        let Some(link) = self.links.get(place as usize) else { return };
        let error = match outcome {
            Outcome::Rejected(Some(error)) => (**error).clone(),
            outcome => {
                let word = match outcome {
                    Outcome::Accepted => "accepted",
                    Outcome::Rejected(_) => "rejected",
                    Outcome::Released => "released",
                    Outcome::Modified(_) => "modified",
                };
                let description = format!(
                    "delivery {delivery_id} was {word}, which attach.source.outcomes does not list: add \
                     amqp:{word}:list"
                );
                Error::new(condition::PRECONDITION_FAILED, description)
            }
        };
        let error = match link.tags.get(delivery_id) {
            Some(tag) => error.about_delivery(&tag),
            None => error,
        };
        self.write_detach(place, true, Some(error));
    }

    /// Receiving link: whether a delivery is settled with its outcome, because the link settles
    /// first or its sender requested that (2.7.5).
    #[must_use]
    pub fn settles_at_once(&self, link: LinkId, delivery_id: u32) -> bool {
        let link = self.links.get(link.0 as usize);
        link.is_some_and(|link| {
            link.rcv_settle_mode == ReceiverSettleMode::First || link.settle_first.contains(&delivery_id)
        })
    }

    /// Each unsettled delivery of ours in `first..=last`, as id, link and token, in order of ids.
    /// They stay unsettled.
    pub fn unsettled(&self, session: SessionId, first: u32, last: u32) -> impl Iterator<Item = (u32, LinkId, u64)> {
        let session = self.sessions.get(session.0 as usize);
        let entries = session.into_iter().flat_map(move |session| session.unsettled.range(first, last));
        entries.map(|(id, link, token)| (id, LinkId(link), token))
    }

    /// Takes each delivery of ours in `first..=last` out of the unsettled ones: `f(link, token)`,
    /// in order of ids. With `settled` false the peer learns at `flush` that we settled them.
    #[inline]
    pub fn take_settled(
        &mut self,
        session: SessionId,
        first: u32,
        last: u32,
        settled: bool,
        f: impl FnMut(LinkId, u64),
    ) {
        self.take(session, (first, last, settled), None, f);
    }

    /// As `take_settled`, and counts the outcome of each delivery at its link.
    #[inline]
    pub fn take_answered(
        &mut self,
        session: SessionId,
        first: u32,
        last: u32,
        settled: bool,
        outcome: &Outcome,
        f: impl FnMut(LinkId, u64),
    ) {
        self.take(session, (first, last, settled), Some(outcome), f);
    }

    /// Counts outcomes of deliveries that are settled apart from them.
    pub fn count_outcomes(&mut self, link: LinkId, outcomes: &OutcomeCounts) {
        if let Some(link) = self.links.get_mut(link.0 as usize) {
            link.outcomes.join(outcomes);
        }
    }

    #[inline]
    fn take(
        &mut self,
        session: SessionId,
        (first, last, settled): (u32, u32, bool),
        outcome: Option<&Outcome>,
        mut f: impl FnMut(LinkId, u64),
    ) {
        let index = session.0;
        let Some(session) = self.sessions.get_mut(index as usize) else { return };
        let links = &mut self.links;
        let mut taken: Option<(u32, u32)> = None;
        session.unsettled.take(first, last, |id, place, token| {
            taken = Some((taken.map_or(id, |(first, _)| first), id));
            if let Some(link) = links.get_mut(place as usize) {
                link.unsettled -= 1;
                if let Some(outcome) = outcome {
                    link.outcomes.add(outcome);
                }
            }
            f(LinkId(place), token);
        });
        if let Some((first, last)) = taken.filter(|_| !settled) {
            session.sent.push_settled(first, last);
            Self::mark_due(&mut self.due, index, session);
        }
    }

    /// Takes all unsettled deliveries of a link: `f(token)` in order of ids.
    pub fn take_unsettled(&mut self, link: LinkId, mut f: impl FnMut(u64)) {
        self.take_unsettled_of(&[link], |_, token| f(token));
    }

    /// Takes all unsettled deliveries of links that end together: `f(link, token)`, in order of
    /// ids within a session. Each session is read once, whatever the number of links: a connection
    /// with many links must not cost links times deliveries.
    pub fn take_unsettled_of(&mut self, links: &[LinkId], mut f: impl FnMut(LinkId, u64)) {
        let mut sessions = Vec::new();
        for link in links {
            let Some(link) = self.links.get_mut(link.0 as usize).filter(|link| link.unsettled > 0) else { continue };
            // A link that counts none but has deliveries in its session is one of `links`.
            link.unsettled = 0;
            sessions.push(link.session);
        }
        sessions.sort_unstable();
        sessions.dedup();
        for session in sessions {
            let Some(session) = self.sessions.get_mut(session as usize) else { continue };
            let ends = |place: u32| self.links.get(place as usize).is_none_or(|link| link.unsettled == 0);
            session.unsettled.take_links(ends, |place, token| f(LinkId(place), token));
        }
    }
}
