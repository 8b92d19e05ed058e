//! One session endpoint (2.5): windows, numbers, handles, and the output of the turn.

mod held;
mod ranges;
pub(crate) mod state;
mod unsettled;

use std::collections::BTreeSet;

use held::BlockedFrames;
use ranges::Ranges;
use state::State;
use unsettled::Unsettled;

use crate::config::Config;
use crate::slots::Slots;
use crate::types::{Begin, Error, Fields, Flow, condition};

/// Our announced outgoing window: unlimited, because the peer's incoming window is the effective
/// limit.
const OUTGOING_WINDOW: u32 = i32::MAX as u32;

/// Our handles, and the indices of their links.
#[derive(Debug, Default)]
struct Handles {
    /// by handle
    places: Vec<Option<u32>>,
    /// below the highest in use
    free: BTreeSet<u32>,
}

/// One end of a session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) state: State,
    /// our channel: the place of the session in its connection
    pub(crate) channel: u16,
    /// the peer's channel, from its begin on
    pub(crate) remote_channel: Option<u16>,
    /// the peer's handle-max
    pub(crate) remote_handle_max: u32,
    /// the end of the session was reported to the driver
    pub(crate) notified: bool,
    /// the session is in the connection's list of what to flush
    pub(crate) due: bool,
    /// links whose flow is due, each once
    pub(crate) due_links: Vec<u32>,
    /// the peer's handles
    pub(crate) links: Slots,
    handles: Handles,

    // incoming (2.5.6)
    next_incoming_id: u32,
    /// frames the peer may still send within the largest window granted so far
    incoming_left: u32,
    window: u32,
    /// id of the peer's next delivery, once it has sent one
    next_delivery: Option<u32>,
    holds: u32,
    /// a flow of the session itself is due
    flow_due: bool,
    /// dispositions for deliveries we received
    pub(crate) received: Ranges,

    // outgoing (2.5.6)
    first_outgoing_id: u32,
    next_outgoing_id: u32,
    /// frames the peer accepts now
    room: u32,
    pub(crate) held: BlockedFrames,
    pub(crate) unsettled: Unsettled,
    /// dispositions for deliveries we sent
    pub(crate) sent: Ranges,
}

impl Session {
    pub(crate) fn new(channel: u16, config: &Config) -> Self {
        Self {
            state: State::Unmapped,
            channel,
            remote_channel: None,
            remote_handle_max: u32::MAX,
            notified: false,
            due: false,
            due_links: Vec::new(),
            links: Slots::default(),
            handles: Handles::default(),
            next_incoming_id: 0,
            incoming_left: config.session_window,
            window: config.session_window,
            next_delivery: None,
            holds: 0,
            flow_due: false,
            received: Ranges::default(),
            first_outgoing_id: config.first_id,
            next_outgoing_id: config.first_id,
            room: 0,
            held: BlockedFrames::default(),
            unsettled: Unsettled::new(config.first_id),
            sent: Ranges::default(),
        }
    }

    /// Our begin (2.7.2); an answer if the peer's was received.
    pub(crate) fn begin(&self, config: &Config) -> Begin {
        Begin {
            remote_channel: self.remote_channel,
            next_outgoing_id: self.first_outgoing_id,
            incoming_window: self.window,
            outgoing_window: OUTGOING_WINDOW,
            handle_max: config.handle_max,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: Fields::new(),
        }
    }

    /// Records the peer's begin.
    pub(crate) fn begun(&mut self, channel: u16, begin: &Begin) {
        self.remote_channel = Some(channel);
        self.remote_handle_max = begin.handle_max;
        self.next_incoming_id = begin.next_outgoing_id;
        self.room = begin.incoming_window;
    }

    /// Counts a transfer frame of the peer; `true` if a flow has become due, `None` if the peer had
    /// no window.
    #[inline]
    pub(crate) fn count_incoming(&mut self) -> Option<bool> {
        self.incoming_left = self.incoming_left.checked_sub(1)?;
        self.next_incoming_id = self.next_incoming_id.wrapping_add(1);
        if self.incoming_left > self.window / 2 || self.flow_due || self.holds > 0 {
            return Some(false);
        }
        self.flow_due = true;
        Some(true)
    }

    /// Records the id of a new delivery. `Err` has the expected id if it is out of sequence.
    #[inline]
    pub(crate) fn count_delivery(&mut self, id: u32) -> Result<(), u32> {
        match self.next_delivery {
            Some(expected) if expected != id => Err(expected),
            _ => {
                self.next_delivery = Some(id.wrapping_add(1));
                Ok(())
            }
        }
    }

    /// As `count_delivery` for a frame that is dropped: counts it if it begins the next delivery.
    pub(crate) fn skip_delivery(&mut self, id: Option<u32>) {
        if let Some(id) = id
            && self.next_delivery.is_none_or(|expected| expected == id)
        {
            self.next_delivery = Some(id.wrapping_add(1));
        }
    }

    /// Adds or removes a link that keeps the incoming window closed. `true`: a flow is due.
    pub(crate) fn set_held(&mut self, hold: bool) -> bool {
        let before = self.holds;
        self.holds = if hold { before + 1 } else { before.saturating_sub(1) };
        let changed = (before == 0) != (self.holds == 0);
        self.flow_due |= changed;
        changed
    }

    /// Whether a transfer frame may be written now. Frames that are held have priority: while there
    /// are some, there is no room.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        self.room
    }

    /// Counts a transfer frame written.
    #[inline]
    pub(crate) fn count_outgoing(&mut self, frames: u32) {
        self.room -= frames;
        self.next_outgoing_id = self.next_outgoing_id.wrapping_add(frames);
    }

    /// Applies the session part of the peer's flow (2.5.6): `true` if a closed window has opened.
    pub(crate) fn flow(&mut self, flow: &Flow, out: &mut Vec<u8>) -> Result<bool, Error> {
        let base = flow.next_incoming_id.unwrap_or(self.first_outgoing_id);
        let in_flight = self.next_outgoing_id.wrapping_sub(base);
        if in_flight > i32::MAX as u32 {
            return Err(Error::new(
                condition::INVALID_FIELD,
                format!("flow.next-incoming-id: {base} was not sent yet, next is {}", self.next_outgoing_id),
            ));
        }
        let was_closed = self.room == 0;
        self.room = flow.incoming_window.saturating_sub(in_flight);
        let released = self.held.release(self.room, out);
        self.count_outgoing(released);
        Ok(was_closed && self.room > 0)
    }

    /// Makes a flow of the session itself due.
    pub(crate) fn request_flow(&mut self) {
        self.flow_due = true;
    }

    /// Whether a flow without a link is due, in addition to those of the links.
    pub(crate) fn take_flow_due(&mut self) -> bool {
        std::mem::take(&mut self.flow_due)
    }

    /// The session part of a flow of ours; grants a full window unless a link holds it closed.
    pub(crate) fn flow_state(&mut self) -> Flow {
        let incoming_window = if self.holds == 0 { self.window } else { 0 };
        self.incoming_left = self.incoming_left.max(incoming_window);
        self.flow_due = false;
        Flow {
            next_incoming_id: self.remote_channel.map(|_| self.next_incoming_id),
            incoming_window,
            next_outgoing_id: self.next_outgoing_id,
            outgoing_window: OUTGOING_WINDOW,
            ..Flow::default()
        }
    }

    /// The lowest free handle, for the link at `place`, unless the peer's handle-max is reached.
    pub(crate) fn take_handle(&mut self, place: u32) -> Option<u32> {
        let Handles { places, free } = &mut self.handles;
        if let Some(handle) = free.pop_first() {
            places[handle as usize] = Some(place);
            return Some(handle);
        }
        let handle = places.len() as u32;
        if handle > self.remote_handle_max {
            return None;
        }
        places.push(Some(place));
        Some(handle)
    }

    /// Frees a handle.
    pub(crate) fn free_handle(&mut self, handle: u32) {
        let Handles { places, free } = &mut self.handles;
        if let Some(place) = places.get_mut(handle as usize) {
            *place = None;
            free.insert(handle);
        }
        while places.last() == Some(&None) {
            places.pop();
            free.remove(&(places.len() as u32));
        }
    }

    /// The indices of all links of the session.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> {
        self.handles.places.iter().copied().flatten()
    }

    /// Drops all state but the channels of a session that waits only for the peer's end.
    pub(crate) fn forget(&mut self, config: &Config) {
        let (state, remote_channel) = (self.state, self.remote_channel);
        *self = Self { state, remote_channel, notified: true, ..Self::new(self.channel, config) };
    }

    /// Releases spare memory.
    pub(crate) fn trim(&mut self) {
        self.unsettled.trim();
        self.received.trim();
        self.sent.trim();
        self.due_links.shrink_to_fit();
        self.handles.places.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests;
