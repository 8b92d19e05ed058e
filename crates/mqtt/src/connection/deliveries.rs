//! Deliveries to the client with QoS 1 and 2: packet identifiers, their states and the window.

use super::{OutgoingDelivery, Stage};
use crate::codec::PacketId;

/// A step of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// PUBLISH with QoS 1 is sent
    SendQoS1,
    /// PUBLISH with QoS 2 is sent
    SendQoS2,
    /// PUBACK came
    PubAck,
    /// PUBREC came with success
    PubRec,
    /// PUBREC came with an error
    PubRecError,
    /// PUBREL is sent
    SendPubRel,
    /// PUBCOMP came
    PubComp,
}

/// States of a packet identifier (4.3.2, 4.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// not in use
    Free,
    /// belongs to a delivery that was not sent
    Reserved,
    /// of an earlier connection, not sent on this one
    Restored,
    /// of an earlier connection, which had PUBREC
    RestoredReceived,
    /// waits for PUBACK
    PublishedQoS1,
    /// waits for PUBREC
    PublishedQoS2,
    /// PUBREC came; the driver has to release it
    Received,
    /// PUBREL was sent; waits for PUBCOMP
    Released,
    /// PUBCOMP came; the driver has to free the packet identifier
    Completed,
}

/// What a step leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// this state
    To(State),
    /// the delivery has ended and its packet identifier is free
    End,
    /// a repeated PUBREC: PUBREL is sent again
    Again,
    /// PUBREC for a packet identifier that is not in use
    Unknown,
    /// without effect
    Ignore,
    /// not allowed
    Violation,
}

impl State {
    /// The table of a sender's steps [5: 4.3.2-1 to 4.3.2-3, 4.3.3-1 to 4.3.3-7].
    pub(super) const fn after(self, step: Step) -> Next {
        match (self, step) {
            (Self::Reserved | Self::Restored, Step::SendQoS1) => Next::To(Self::PublishedQoS1),
            (Self::Reserved | Self::Restored, Step::SendQoS2) => Next::To(Self::PublishedQoS2),
            (Self::PublishedQoS1 | Self::Restored, Step::PubAck) => Next::End,
            (Self::PublishedQoS2 | Self::Restored, Step::PubRec) => Next::To(Self::Received),
            (Self::PublishedQoS2 | Self::Restored, Step::PubRecError) => Next::End,
            (Self::Received | Self::RestoredReceived, Step::SendPubRel) => Next::To(Self::Released),
            (Self::Released | Self::RestoredReceived, Step::PubComp) => Next::End,
            (Self::Released, Step::PubRec) => Next::Again,
            (Self::Received | Self::RestoredReceived, Step::PubRec) => Next::Ignore,
            (Self::Free | Self::Reserved | Self::Completed, Step::PubRec) => Next::Unknown,
            (Self::Free | Self::Reserved | Self::Completed, Step::PubAck | Step::PubRecError | Step::PubComp) => {
                Next::Ignore
            }
            _ => Next::Violation,
        }
    }
}

/// No slot.
const NONE: u16 = 0;

#[derive(Clone, Copy, Debug)]
struct Slot {
    token: u64,
    /// in the list of deliveries, or of free slots
    next: u16,
    /// in the list of deliveries
    previous: u16,
    state: State,
    /// it takes a place in the window
    counted: bool,
}

const FREE: Slot = Slot { token: 0, next: NONE, previous: NONE, state: State::Free, counted: false };

/// Slots that are kept when there are no deliveries.
const SLOTS_KEPT: usize = 256;

/// Ends of a list of slots.
#[derive(Clone, Copy, Debug, Default)]
struct List {
    first: u16,
    last: u16,
}

/// All deliveries. A slot's place plus one is its packet identifier; free ones are used again in
/// the order of their release, before new ones are created.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    slots: Vec<Slot>,
    /// in the order of their first sending [5: 4.6.0-1]
    sent: List,
    free: List,
    /// places in the window that are not taken (the send quota of 4.9)
    quota: u16,
    /// number of slots whose deliveries have ended and whose packet identifiers are not free
    completed: u16,
}

impl Deliveries {
    /// Begins a connection with the deliveries of its session.
    pub(super) fn begin(&mut self, window: u16, restored: &[OutgoingDelivery]) {
        *self = Self { quota: window, ..Self::default() };
        let highest = restored.iter().map(|delivery| delivery.packet_id.get()).max().unwrap_or(0);
        self.slots.resize(usize::from(highest), FREE);
        for delivery in restored {
            let id = delivery.packet_id.get();
            debug_assert_eq!(self.slot(id).state, State::Free, "packet identifier {id} occurs twice");
            let state = match delivery.stage {
                Stage::Published => State::Restored,
                Stage::Received => State::RestoredReceived,
            };
            let slot = self.slot_mut(id);
            (slot.token, slot.state) = (delivery.token, state);
            self.append(id);
        }
        for id in 1..=highest {
            if self.slot(id).state == State::Free {
                self.free(id);
            }
        }
    }

    pub(super) const fn window(&self) -> u16 {
        self.quota
    }

    /// A new packet identifier with a place in the window; `None`: the window is full.
    #[inline]
    pub(super) fn reserve(&mut self, token: u64) -> Option<PacketId> {
        self.quota = self.quota.checked_sub(1)?;
        let slot = Slot { token, next: NONE, previous: NONE, state: State::Reserved, counted: true };
        let id = match self.free.first {
            NONE => {
                if self.slots.len() >= usize::from(u16::MAX) {
                    self.quota += 1;
                    return None;
                }
                self.slots.push(slot);
                self.slots.len() as u16
            }
            id => {
                self.free.first = self.slot(id).next;
                *self.slot_mut(id) = slot;
                id
            }
        };
        self.append(id);
        PacketId::new(id)
    }

    /// A place in the window for a restored delivery; `false`: the window is full.
    pub(super) fn count(&mut self, id: PacketId) -> bool {
        if self.slot(id.get()).counted {
            return true;
        }
        let Some(quota) = self.quota.checked_sub(1) else { return false };
        self.quota = quota;
        self.slot_mut(id.get()).counted = true;
        true
    }

    #[inline]
    pub(super) fn state(&self, id: PacketId) -> State {
        self.slots.get(usize::from(id.get()) - 1).map_or(State::Free, |slot| slot.state)
    }

    pub(super) fn token(&self, id: PacketId) -> u64 {
        self.slot(id.get()).token
    }

    #[inline]
    pub(super) fn set(&mut self, id: PacketId, state: State) {
        self.slot_mut(id.get()).state = state;
    }

    /// Ends a delivery and returns its token; its packet identifier is free.
    #[inline]
    pub(super) fn end(&mut self, id: PacketId) -> u64 {
        let token = self.complete(id);
        self.completed += 1;
        self.reuse(id);
        token
    }

    /// Ends a delivery whose packet identifier stays in use until `reuse`.
    pub(super) fn retain(&mut self, id: PacketId) -> u64 {
        let token = self.complete(id);
        self.completed += 1;
        token
    }

    /// Frees the packet identifier of a delivery that was retained.
    #[inline]
    pub(super) fn reuse(&mut self, id: PacketId) {
        self.completed -= 1;
        match self.sent.first == NONE && self.completed == 0 && self.slots.len() > SLOTS_KEPT {
            true => (self.slots, self.free) = (Vec::new(), List::default()),
            false => self.free(id.get()),
        }
    }

    /// Takes a delivery out of the list.
    #[inline]
    fn complete(&mut self, id: PacketId) -> u64 {
        let id = id.get();
        let Slot { token, next, previous, counted, .. } = *self.slot(id);
        self.quota += u16::from(counted);
        match previous {
            NONE => self.sent.first = next,
            previous => self.slot_mut(previous).next = next,
        }
        match next {
            NONE => self.sent.last = previous,
            next => self.slot_mut(next).previous = previous,
        }
        let slot = self.slot_mut(id);
        (slot.state, slot.counted, slot.next, slot.previous) = (State::Completed, false, NONE, NONE);
        token
    }

    /// All deliveries in the order of their first sending; nothing is left.
    pub(super) fn take(&mut self) -> Vec<OutgoingDelivery> {
        let (mut deliveries, mut place) = (Vec::new(), self.sent.first);
        while let Some(packet_id) = PacketId::new(place) {
            let slot = self.slot(place);
            let stage = match slot.state {
                State::Received | State::RestoredReceived | State::Released => Stage::Received,
                _ => Stage::Published,
            };
            deliveries.push(OutgoingDelivery { packet_id, token: slot.token, stage });
            place = slot.next;
        }
        *self = Self::default();
        deliveries
    }

    fn slot(&self, id: u16) -> &Slot {
        &self.slots[usize::from(id) - 1]
    }

    fn slot_mut(&mut self, id: u16) -> &mut Slot {
        &mut self.slots[usize::from(id) - 1]
    }

    /// Appends a slot to the list of deliveries.
    fn append(&mut self, id: u16) {
        let last = std::mem::replace(&mut self.sent.last, id);
        let slot = self.slot_mut(id);
        (slot.previous, slot.next) = (last, NONE);
        match last {
            NONE => self.sent.first = id,
            last => self.slot_mut(last).next = id,
        }
    }

    /// Appends a slot to the list of free ones.
    fn free(&mut self, id: u16) {
        *self.slot_mut(id) = FREE;
        match self.free.first {
            NONE => self.free.first = id,
            _ => self.slot_mut(self.free.last).next = id,
        }
        self.free.last = id;
    }
}
