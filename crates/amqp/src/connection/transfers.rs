//! Transfers in both directions (2.6.12, 2.6.14, 2.7.5): the hot path. It indexes arrays instead of
//! hashing, and allocates only for output.

use std::collections::BTreeSet;

use super::fault::Fault;
use super::state::State;
use super::{Connection, Event, Incoming, LinkId, Outgoing, SendError, Tag};
use crate::codec::fast::{self, MAX_TRANSFER_HEAD, TransferHead, TransferView};
use crate::codec::{DecodeError, decode_state, encode_state};
use crate::link::Link;
use crate::link::state::State as LinkState;
use crate::session::Session;
use crate::session::state::State as SessionState;
use crate::types::{DeliveryState, Error, ReceiverSettleMode, Role, SenderSettleMode, condition};

/// Extra bytes of the head of a list32 over that of a list8.
const WIDE_LIST_BYTES: usize = 6;

impl Connection {
    /// A transfer frame of the peer on an open connection.
    #[inline(always)]
    pub(super) fn on_transfer<'a>(
        &mut self,
        channel: u16,
        decoded: &Result<TransferView<'a>, DecodeError>,
    ) -> Result<Option<Event<'a>>, Box<Fault>> {
        let view = match decoded {
            Ok(view) => view,
            Err(error) => return Err(error.clone().into()),
        };
        let (place, first) = match self.admit(channel, view) {
            Ok(Some(admitted)) => admitted,
            Ok(None) => return Ok(posting_dropped(view)),
            Err(fault) => return Err(self.posting_failed(view, fault)),
        };
        let Some(link) = self.links.get(place as usize) else { return Ok(None) };
        let delivery = &link.delivery;
        let (delivery_id, message_format) = match view.delivery_id {
            Some(id) if first => (id, view.message_format.unwrap_or_default()),
            _ => (delivery.id, delivery.message_format),
        };
        Ok(Some(Event::Transfer(Incoming {
            link: LinkId(place),
            delivery_id,
            first,
            more: delivery.in_progress,
            aborted: view.aborted,
            settled: delivery.settled,
            message_format,
            payload: if view.aborted { &[] } else { view.payload },
            tag: if first { view.delivery_tag.unwrap_or_default() } else { &[] },
            resume: delivery.resumed,
            state: if view.state.is_none() { None } else { state_of(view) },
        })))
    }

    /// A transfer that led to a fault: a transaction must not be committed without it.
    #[cold]
    fn posting_failed(&mut self, view: &TransferView<'_>, fault: Box<Fault>) -> Box<Fault> {
        if let Some(event) = state_of(view).and_then(|state| posting_lost(state, fault.error())) {
            self.queue_event(event);
        }
        fault
    }

    /// Counts a transfer frame: its link, and whether it begins a delivery. `None`: it is not
    /// reported to the driver.
    #[inline(always)]
    fn admit(&mut self, channel: u16, view: &TransferView<'_>) -> Result<Option<(u32, bool)>, Box<Fault>> {
        let index = self.channels.get(u32::from(channel)).unwrap_or(u32::MAX);
        let Some(session) = self.sessions.get_mut(index as usize).filter(|s| s.state == SessionState::Mapped) else {
            return self.session_of(channel, "transfer").map(|_| None);
        };
        match session.count_incoming() {
            Some(false) => {}
            Some(true) => Self::mark_due(&mut self.due, index, session),
            None => return Err(window_violation(index)),
        }
        let place = session.links.get(view.handle);
        let Some((place, link)) = place.and_then(|place| Some((place, self.links.get_mut(place as usize)?))) else {
            return Err(unattached(index, view.handle));
        };
        if link.state != LinkState::Attached || link.role != Role::Receiver {
            return drop_unattached(index, session, place, link, view, self.config.uncredited_max).map(|()| None);
        }
        let first = match link.receive(view) {
            Ok(first) => first,
            Err(error) => {
                session.skip_delivery(view.delivery_id);
                return Err(Box::new(Fault::Link(place, error)));
            }
        };
        if first == link.delivery.in_progress {
            note_partial(&mut self.partial, place, first);
        }
        if first {
            if let Err(expected) = session.count_delivery(link.delivery.id) {
                return Err(out_of_sequence(index, link.delivery.id, expected));
            }
            if view.rcv_settle_mode.is_some() {
                override_mode(place, link, view)?;
            }
        }
        if view.aborted && !link.settle_first.is_empty() {
            link.settle_first.remove(&link.delivery.id);
        }
        Ok((!link.delivery.ignored).then_some((place, first)))
    }
}

/// A separate function: copying the field as one load would stall on the two stores that just wrote
/// its halves.
#[cold]
fn state_of<'a>(view: &TransferView<'a>) -> Option<&'a [u8]> {
    view.state
}

/// A transfer that was dropped without a fault: a transaction must not be committed without it.
#[cold]
fn posting_dropped(view: &TransferView<'_>) -> Option<Event<'static>> {
    let state = state_of(view)?;
    let what = "a message was sent on a link or session that had ended";
    posting_lost(state, &Error::new(condition::PRECONDITION_FAILED, what))
}

#[cold]
fn posting_lost(state: &[u8], error: &Error) -> Option<Event<'static>> {
    match decode_state(state) {
        Ok(DeliveryState::Transactional(state)) => {
            Some(Event::PostingRefused { txn_id: state.txn_id, error: error.clone() })
        }
        _ => None,
    }
}

/// A delivery of several frames begins, or ends.
#[cold]
fn note_partial(partial: &mut BTreeSet<u32>, place: u32, begins: bool) {
    if begins {
        partial.insert(place);
    } else {
        partial.remove(&place);
    }
}

/// A frame for a detached link: dropped while the peer may not know that the link has ended.
#[cold]
fn drop_unattached(
    index: u32,
    session: &mut Session,
    place: u32,
    link: &mut Link,
    view: &TransferView<'_>,
    uncredited_max: u32,
) -> Result<(), Box<Fault>> {
    session.skip_delivery(view.delivery_id);
    if link.role == Role::Sender {
        let description = format!("transfer.handle: {} is a link on which the peer receives", view.handle);
        return Err(Fault::link(place, condition::NOT_ALLOWED, description));
    }
    // Deliveries in flight are within the granted credit or slightly beyond it. A peer that sends
    // more ignores our detach.
    match link.receive(view) {
        Err(error) if error.condition == condition::TRANSFER_LIMIT_EXCEEDED => {
            link.uncredited += 1;
            if link.uncredited <= uncredited_max {
                return Ok(());
            }
            Err(Fault::session(index, condition::ERRANT_LINK, "transfers continue after the link was detached"))
        }
        _ => Ok(()),
    }
}

#[cold]
fn window_violation(index: u32) -> Box<Fault> {
    Fault::session(index, condition::WINDOW_VIOLATION, "transfer beyond the incoming-window granted")
}

#[cold]
fn unattached(index: u32, handle: u32) -> Box<Fault> {
    Fault::session(index, condition::UNATTACHED_HANDLE, format!("transfer.handle: {handle} is not attached"))
}

#[cold]
fn out_of_sequence(index: u32, found: u32, expected: u32) -> Box<Fault> {
    let description = format!("transfer.delivery-id: {found} is out of sequence, {expected} is next");
    Fault::session(index, condition::INVALID_FIELD, description)
}

/// Applies a transfer's own receiver settle mode, which may be first on a link of second, but not
/// the reverse (2.7.5).
#[cold]
fn override_mode(place: u32, link: &mut Link, view: &TransferView<'_>) -> Result<(), Box<Fault>> {
    match (link.rcv_settle_mode, view.rcv_settle_mode) {
        (ReceiverSettleMode::First, Some(ReceiverSettleMode::Second)) => {
            let description = "transfer.rcv-settle-mode: second on a link that was attached as first";
            Err(Fault::link(place, condition::INVALID_FIELD, description))
        }
        (ReceiverSettleMode::Second, Some(ReceiverSettleMode::First)) if !link.delivery.settled => {
            link.settle_first.insert(link.delivery.id);
            Ok(())
        }
        _ => Ok(()),
    }
}

impl Link {
    /// Whether this end may send.
    #[inline]
    pub(crate) fn sends(&self) -> bool {
        self.role == Role::Sender && self.state == LinkState::Attached
    }
}

impl Connection {
    #[inline]
    fn sender(&self, link: LinkId) -> Option<(&Link, &Session)> {
        let link = self.links.get(link.0 as usize).filter(|link| link.sends())?;
        let session = self.sessions.get(link.session as usize)?;
        (self.state == State::Opened && session.state == SessionState::Mapped).then_some((link, session))
    }

    /// Sending link: how many deliveries it may begin now. 0 without credit, while its session's
    /// window is closed or its unsettled deliveries are at their bound, and within a delivery of
    /// its own.
    #[inline]
    #[must_use]
    pub fn sendable(&self, link: LinkId) -> u32 {
        match self.sender(link) {
            Some((link, session)) if session.room() > 0 && !link.delivery.in_progress => {
                link.credit.min(self.config.unsettled_max.saturating_sub(session.unsettled.len()))
            }
            _ => 0,
        }
    }

    /// Sending link: whether all its deliveries are sent settled (snd-settle-mode settled), so that
    /// none may have a token.
    #[inline]
    #[must_use]
    pub fn sends_settled(&self, link: LinkId) -> bool {
        self.links.get(link.0 as usize).is_some_and(|link| link.snd_settle_mode == SenderSettleMode::Settled)
    }

    /// Sending link: the unused credit, even if no delivery may begin now.
    #[must_use]
    pub fn credit(&self, link: LinkId) -> u32 {
        self.sender(link).map_or(0, |(link, _)| link.credit)
    }

    /// Sending link: whether the next piece of the delivery in progress may be passed in.
    #[inline]
    #[must_use]
    pub fn continuable(&self, link: LinkId) -> bool {
        self.sender(link).is_some_and(|(link, session)| session.room() > 0 && link.delivery.in_progress)
    }

    /// Sending link: writes a piece of a delivery. It is accepted while the session's window is
    /// open; frames beyond the window are kept, and written when it opens. An aborting piece is
    /// always accepted.
    ///
    /// # Errors
    /// The reason why nothing was sent.
    #[inline]
    pub fn transfer(&mut self, link: LinkId, piece: Outgoing<'_>) -> Result<(), SendError> {
        self.put_piece(link, piece, None, None)
    }

    /// As `transfer`, for a delivery whose tag outlives its session, so that it can be resumed
    /// (2.6.13). The tag is read from the first piece only.
    ///
    /// # Errors
    /// As `transfer`.
    pub fn transfer_named(&mut self, link: LinkId, piece: Outgoing<'_>, tag: Tag<'_>) -> Result<(), SendError> {
        self.put_piece(link, piece, None, Some(tag))
    }

    /// As `transfer`, with a state on the first frame of the piece (4.4.1: the transaction that a
    /// delivery is part of).
    ///
    /// # Errors
    /// As `transfer`.
    pub fn transfer_with(&mut self, link: LinkId, piece: Outgoing<'_>, state: &DeliveryState) -> Result<(), SendError> {
        self.put_piece(link, piece, Some(state), None)
    }

    #[inline]
    fn put_piece(
        &mut self,
        link: LinkId,
        piece: Outgoing<'_>,
        state: Option<&DeliveryState>,
        tag: Option<Tag<'_>>,
    ) -> Result<(), SendError> {
        let place = link.0;
        let Some(link) = self.links.get_mut(place as usize).filter(|link| link.sends()) else {
            return Err(SendError::NotAttached);
        };
        let Some(session) = self.sessions.get_mut(link.session as usize).filter(|s| s.state == SessionState::Mapped)
        else {
            return Err(SendError::NotAttached);
        };
        if self.state != State::Opened {
            return Err(SendError::NotAttached);
        }
        if piece.first == link.delivery.in_progress || (piece.first && piece.aborted) {
            return Err(SendError::OutOfOrder);
        }
        if piece.aborted {
            abort(session, link, place, &mut self.output);
            return Ok(());
        }
        if session.room() == 0 {
            return Err(SendError::WindowClosed);
        }
        let size = if piece.first { 0 } else { link.delivery.size } + piece.payload.len() as u64;
        if !link.fits(size) {
            return Err(SendError::TooLarge);
        }
        if piece.first {
            begin_delivery(session, link, place, &piece, self.config.unsettled_max)?;
        }
        link.delivery.size = size;
        link.delivery.in_progress = piece.more;
        let number = link.delivery.id.to_be_bytes();
        let Tag { bytes: tag, resume } = tag.unwrap_or(Tag { bytes: &number, resume: false });
        let head = TransferHead {
            channel: session.channel,
            handle: link.handle,
            delivery_id: piece.first.then_some(link.delivery.id),
            tag,
            message_format: piece.message_format,
            settled: link.delivery.settled,
            more: piece.more,
            resume: resume && piece.first,
            aborted: false,
            payload_len: piece.payload.len(),
        };
        if state.is_none() && piece.payload.len() + MAX_TRANSFER_HEAD <= self.remote_max_frame_size {
            session.count_outgoing(1);
            fast::encode_transfer(&mut self.output, &head);
            self.output.extend_from_slice(piece.payload);
        } else {
            write_frames(session, place, (head, state), piece.payload, self.remote_max_frame_size, &mut self.output);
        }
        Ok(())
    }
}

/// Assigns a delivery its id and consumes one credit.
#[inline]
fn begin_delivery(
    session: &mut Session,
    link: &mut Link,
    place: u32,
    piece: &Outgoing<'_>,
    unsettled_max: u32,
) -> Result<(), SendError> {
    if link.credit == 0 {
        return Err(SendError::NoCredit);
    }
    link.delivery.id = session.unsettled.next_id();
    match piece.token {
        Some(_) if session.unsettled.len() >= unsettled_max => return Err(SendError::Unsettled),
        Some(_) if link.snd_settle_mode == SenderSettleMode::Settled => return Err(SendError::SettledOnly),
        Some(token) => {
            session.unsettled.insert(place, token);
            link.unsettled += 1;
        }
        None => session.unsettled.pass(),
    }
    link.credit -= 1;
    link.delivery_count = link.delivery_count.wrapping_add(1);
    // 2.8.2: nothing is sent settled on such a link. With a receiver that settles second it is sent
    // settled all the same: the receiver would wait for us to settle, and we keep no record of it.
    let never_settled =
        link.snd_settle_mode == SenderSettleMode::Unsettled && link.rcv_settle_mode == ReceiverSettleMode::First;
    link.delivery.settled = piece.token.is_none() && !never_settled;
    Ok(())
}

/// Writes a piece that takes several frames; those beyond the window are held.
#[cold]
fn write_frames(
    session: &mut Session,
    place: u32,
    (mut head, mut state): (TransferHead<'_>, Option<&DeliveryState>),
    payload: &[u8],
    max_frame_size: usize,
    out: &mut Vec<u8>,
) {
    let more = head.more;
    let mut around = MAX_TRANSFER_HEAD;
    if let Some(state) = state {
        let mut encoded = Vec::new();
        encode_state(&mut encoded, state);
        around += encoded.len() + WIDE_LIST_BYTES;
    }
    let mut rest = payload;
    loop {
        let (chunk, after) = rest.split_at(rest.len().min(max_frame_size.saturating_sub(around).max(1)));
        rest = after;
        head.more = more || !rest.is_empty();
        head.payload_len = chunk.len();
        write_frame(session, place, (&head, state.take()), chunk, out);
        head.delivery_id = None;
        head.resume = false;
        if rest.is_empty() {
            return;
        }
    }
}

fn write_frame(
    session: &mut Session,
    place: u32,
    (head, state): (&TransferHead<'_>, Option<&DeliveryState>),
    payload: &[u8],
    out: &mut Vec<u8>,
) {
    let put = |out: &mut Vec<u8>| {
        match state {
            None => fast::encode_transfer(out, head),
            Some(state) => fast::encode_transfer_with(out, head, state),
        }
        out.extend_from_slice(payload);
    };
    if session.room() > 0 {
        session.count_outgoing(1);
        put(out);
    } else {
        let mut frame = Vec::with_capacity(MAX_TRANSFER_HEAD + payload.len());
        put(&mut frame);
        session.held.push(place, &frame);
    }
}

/// Aborts a delivery (2.6.14): its kept parts are not sent, and no outcome follows.
#[cold]
fn abort(session: &mut Session, link: &mut Link, place: u32, out: &mut Vec<u8>) {
    let id = link.delivery.id;
    link.delivery.in_progress = false;
    session.held.forget(place);
    session.unsettled.take(id, id, |_, _, _| link.unsettled -= 1);
    let head = TransferHead {
        channel: session.channel,
        handle: link.handle,
        delivery_id: None,
        tag: &[],
        message_format: 0,
        settled: link.delivery.settled,
        more: false,
        resume: false,
        aborted: true,
        payload_len: 0,
    };
    write_frame(session, place, (&head, None), &[], out);
}
