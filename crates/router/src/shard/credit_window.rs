//! The window of one link that sends to us (`contracts.md` 7): pure arithmetic.

use enmasse_amqp::time::Time;

/// A peer that has sent nothing for this time has no deliveries in flight, in microseconds.
const IDLE_US: u64 = 5_000_000;

/// The number of deliveries that the peer may send, and of those received that wait in the node.
///
/// Credit is not revoked while deliveries may be in flight: some clients (Qpid Proton) send without
/// limit once they have sent more deliveries than the reduced credit allows (2.6.7).
#[derive(Clone, Copy, Debug)]
pub(super) struct CreditWindow {
    capacity: u32,
    /// deliveries that the peer may still send by the last flow
    granted: u32,
    /// received, and neither dispatched to a consumer nor answered
    waiting: u32,
    open: bool,
    /// deliveries that the address has room for, in addition to those it has
    room: u32,
    /// when the peer last began a delivery
    used: Option<Time>,
}

impl CreditWindow {
    pub(super) fn new(capacity: u32) -> Self {
        Self { capacity, granted: 0, waiting: 0, open: false, room: u32::MAX, used: None }
    }

    /// A delivery has begun to arrive.
    #[inline]
    pub(super) fn received(&mut self, now: Time) {
        self.granted = self.granted.saturating_sub(1);
        self.waiting += 1;
        self.used = Some(now);
    }

    /// `count` deliveries were dispatched to a consumer, or answered without one. Returns the
    /// credit to grant if a flow is due: when half of the window is used up, so that the cost of
    /// flows per message is small.
    ///
    /// `share`, here and below: the most credit of one grant, by the rate limit of the space; 0:
    /// none for now.
    #[inline]
    pub(super) fn taken(&mut self, count: u32, share: u32) -> Option<u32> {
        self.waiting = self.waiting.saturating_sub(count);
        self.replenish(share)
    }

    fn replenish(&mut self, share: u32) -> Option<u32> {
        let target = self.target(share);
        let most = self.capacity.min(share).min(self.room);
        let due = target.saturating_sub(self.granted) >= most.div_ceil(2).max(1);
        due.then(|| self.grant(target))
    }

    /// The address has room for `room` deliveries of this peer. Returns the credit to grant if a
    /// flow is due; earlier grants are not revoked.
    pub(super) fn set_room(&mut self, room: u32, share: u32) -> Option<u32> {
        self.room = room;
        self.replenish(share)
    }

    /// The share was 0 before, or the bound was removed. Returns the credit to grant if it is more
    /// than before.
    pub(super) fn widen(&mut self, share: u32) -> Option<u32> {
        let target = self.target(share);
        (target > self.granted).then(|| self.grant(target))
    }

    /// The address has a consumer now, or room. Returns the credit to grant if it is more than
    /// before.
    pub(super) fn open(&mut self, share: u32) -> Option<u32> {
        self.open = true;
        self.widen(share)
    }

    /// The address no longer has a consumer, or room: no more credit is granted. Returns 0 if the
    /// credit is to be revoked, because the peer is idle.
    pub(super) fn close(&mut self, now: Time) -> Option<u32> {
        self.open = false;
        let is_idle = self.used.is_none_or(|used| now.micros_since(used) >= IDLE_US);
        (is_idle && self.granted > 0).then(|| self.grant(0))
    }

    fn target(&self, share: u32) -> u32 {
        if self.open { self.capacity.min(self.room).saturating_sub(self.waiting).min(share) } else { 0 }
    }

    fn grant(&mut self, credit: u32) -> u32 {
        self.granted = credit;
        credit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share where there is no bound.
    const ANY: u32 = u32::MAX;

    #[test]
    fn a_closed_window_grants_nothing() {
        let mut window = CreditWindow::new(10);
        window.received(Time::ZERO);
        assert_eq!(window.taken(1, ANY), None);
    }

    #[test]
    fn opening_grants_the_capacity_minus_waiting_deliveries() {
        let mut window = CreditWindow::new(10);
        window.received(Time::ZERO);
        assert_eq!(window.open(ANY), Some(9));
        assert_eq!(window.open(ANY), None);
    }

    #[test]
    fn credit_is_revoked_only_from_an_idle_peer() {
        let mut window = CreditWindow::new(10);
        assert_eq!(window.open(ANY), Some(10));
        assert_eq!(window.close(Time::ZERO), Some(0), "it never sent");
        assert_eq!(window.close(Time::ZERO), None, "it has no credit");
        assert_eq!(window.open(ANY), Some(10));
        window.received(Time::from_micros(5));
        assert_eq!(window.close(Time::from_micros(4 + IDLE_US)), None, "more may be in flight");
        window.received(Time::from_micros(6));
        assert_eq!(window.taken(2, ANY), None, "no credit is granted");
        assert_eq!(window.close(Time::from_micros(6 + IDLE_US)), Some(0));
        assert_eq!(window.open(ANY), Some(10));
    }

    #[test]
    fn flow_is_due_once_half_of_the_window_is_used() {
        let mut window = CreditWindow::new(10);
        assert_eq!(window.open(ANY), Some(10));
        for _ in 0..5 {
            window.received(Time::ZERO);
        }
        assert_eq!(window.taken(4, ANY), None, "a grant would add four of ten, less than half");
        assert_eq!(window.taken(1, ANY), Some(10));
    }

    #[test]
    fn window_of_one_is_granted_again_after_each_delivery() {
        let mut window = CreditWindow::new(1);
        assert_eq!(window.open(ANY), Some(1));
        window.received(Time::ZERO);
        assert_eq!(window.taken(1, ANY), Some(1));
    }

    #[test]
    fn share_bounds_new_grants_and_revokes_no_credit() {
        let mut window = CreditWindow::new(10);
        assert_eq!(window.widen(4), None, "it is closed");
        assert_eq!(window.open(4), Some(4));
        window.received(Time::ZERO);
        assert_eq!(window.taken(1, 4), None, "less than half of the share");
        window.received(Time::ZERO);
        assert_eq!(window.taken(1, 4), Some(4));
        for _ in 0..3 {
            window.received(Time::ZERO);
        }
        assert_eq!(window.taken(3, 0), None, "granted credit stays usable, and none is added");
        assert_eq!(window.widen(2), Some(2));
        assert_eq!(window.widen(u32::MAX), Some(10), "the share is unbounded again");
        assert_eq!(window.open(4), None, "less than the granted credit");
    }

    #[test]
    fn a_window_is_no_wider_than_the_room_at_the_address() {
        let mut window = CreditWindow::new(10);
        assert_eq!(window.set_room(6, ANY), None, "it is closed");
        assert_eq!(window.open(ANY), Some(6));
        for _ in 0..4 {
            window.received(Time::ZERO);
        }
        assert_eq!(window.set_room(2, ANY), None, "four have arrived, and two more may arrive");
        assert_eq!(window.taken(4, ANY), None);
        window.received(Time::ZERO);
        window.received(Time::ZERO);
        assert_eq!((window.set_room(0, ANY), window.taken(2, ANY)), (None, None), "there is no room");
        assert_eq!(window.set_room(5, ANY), Some(5));
        assert_eq!(window.set_room(6, ANY), None, "a flow for one delivery costs too much");
        assert_eq!(window.set_room(u32::MAX, ANY), Some(10));
    }

    #[test]
    fn window_opened_without_share_gets_credit_when_its_share_widens() {
        let mut window = CreditWindow::new(10);
        assert_eq!(window.open(0), None);
        assert_eq!(window.widen(3), Some(3));
        assert_eq!(window.close(Time::ZERO), Some(0));
        assert_eq!(window.widen(3), None);
    }

    #[test]
    fn granted_plus_waiting_never_exceeds_the_capacity() {
        let mut window = CreditWindow::new(8);
        let mut peer = window.open(ANY).unwrap_or(0);
        let mut waiting = 0;
        for step in 0..1000u32 {
            if step % 3 != 0 && peer > 0 {
                window.received(Time::ZERO);
                peer -= 1;
                waiting += 1;
            } else if waiting > 0 {
                waiting -= 1;
                if let Some(credit) = window.taken(1, ANY) {
                    peer = credit;
                }
            }
            assert!(peer + waiting <= 8);
        }
    }
}
