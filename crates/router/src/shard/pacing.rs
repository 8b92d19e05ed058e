//! The traffic of connections, and rate limits. Once a turn the traffic is counted and charged to
//! the space; the windows of the links follow the remaining budget of the space.

use std::collections::BTreeSet;
use std::sync::Arc;

use enmasse_amqp::time::Time;

use super::fabric::Fabric;
use super::window::Window;
use super::{ConnId, Shard};
use crate::table::{Allowance, Pace, Space, Traffic, TrafficCounts};

/// One connection's part in the traffic of its space.
#[derive(Debug)]
pub(super) struct Pacing {
    /// its traffic since the last count
    pub(super) carried: TrafficCounts,
    /// its traffic up to the last count
    counted: TrafficCounts,
    traffic: Option<Arc<Traffic>>,
    pace: Option<Arc<Pace>>,
    allowance: Allowance,
    /// its links that need credit and got none, because the share was 0
    pub(super) starved: BTreeSet<u32>,
    /// the time of its entry in `Fabric::paced`
    waits: Option<Time>,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            carried: TrafficCounts::default(),
            counted: TrafficCounts::default(),
            traffic: None,
            pace: None,
            allowance: UNBOUND,
            starved: BTreeSet::new(),
            waits: None,
        }
    }
}

const UNBOUND: Allowance = Allowance::Share(u32::MAX);

impl Pacing {
    /// Follows the bounds of the space. Returns whether the links must be checked before the turn
    /// ends; a new connection gets no credit until then.
    pub(super) fn follow(&mut self, space: &Space) -> bool {
        if self.traffic.is_none() {
            self.traffic = Some(Arc::clone(space.traffic()));
            if space.pace().is_some() {
                self.allowance = Allowance::Nothing;
            }
        }
        let same = match (&self.pace, space.pace()) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (None, None) => true,
            _ => false,
        };
        if !same {
            self.pace = space.pace().cloned();
        }
        !same
    }

    /// Most deliveries that one grant may give to each of its links.
    pub(super) fn share(&self) -> u32 {
        match self.allowance {
            Allowance::Share(share) => share,
            Allowance::After(_) | Allowance::Nothing => 0,
        }
    }

    /// Whether there is neither traffic to count nor a bound.
    #[inline]
    fn is_inactive(&self) -> bool {
        self.pace.is_none() && self.carried.is_nothing() && self.allowance == UNBOUND
    }

    /// Counts and charges traffic.
    fn settle(&mut self, now: Time) {
        if self.carried.is_nothing() {
            return;
        }
        let carried = std::mem::take(&mut self.carried);
        self.counted.add(&carried);
        if let Some(traffic) = &self.traffic {
            traffic.add(&carried);
        }
        if let Some(pace) = &self.pace {
            pace.charge(now, carried.messages_in, carried.bytes_in);
        }
    }

    /// Its traffic, without that of the current turn.
    pub(super) const fn counted(&self) -> TrafficCounts {
        self.counted
    }

    /// Updates its allowance. Returns whether the share changed.
    fn refresh(&mut self, now: Time) -> bool {
        let before = self.share();
        self.allowance = match (&self.pace, &self.traffic) {
            (Some(pace), Some(traffic)) => pace.allowance(now, traffic.mean_bytes()),
            _ => UNBOUND,
        };
        before != self.share()
    }
}

impl Shard {
    /// The latest time of the next turn, so that connections over their limit continue.
    #[must_use]
    pub fn next_share(&self) -> Option<Time> {
        self.fabric.paced.first().map(|(due, _)| *due)
    }

    /// Counts the last traffic of a connection that ends.
    pub(super) fn charge_last_traffic(&mut self, id: ConnId) {
        let now = self.fabric.now;
        if let Some(conn) = self.fabric.conns.get_mut(id.key()) {
            conn.pacing.settle(now);
        }
        self.fabric.stop_waiting(id.key);
    }
}

impl Fabric {
    /// Updates the connections whose waiting time for a share is over.
    pub(super) fn resume_paced(&mut self, now: Time) {
        while let Some((due, conn)) = self.paced.first().copied()
            && due <= now
        {
            self.paced.pop_first();
            if let Some(state) = self.conns.get_mut(conn as usize) {
                state.pacing.waits = None;
            }
            self.update_pacing(now, conn);
        }
    }

    /// Removes a connection from those that wait for a share: it ends, or has other bounds.
    pub(super) fn stop_waiting(&mut self, conn: u32) {
        if let Some(state) = self.conns.get_mut(conn as usize)
            && let Some(due) = state.pacing.waits.take()
        {
            self.paced.remove(&(due, conn));
        }
    }

    /// Counts a connection's traffic of this turn, and updates the credit of its links.
    #[inline]
    pub(super) fn update_pacing(&mut self, now: Time, conn: u32) {
        if let Some(state) = self.conns.get_mut(conn as usize)
            && !state.pacing.is_inactive()
        {
            self.pace(now, conn);
        }
    }

    fn pace(&mut self, now: Time, conn: u32) {
        let Some(state) = self.conns.get_mut(conn as usize) else { return };
        state.pacing.settle(now);
        let changed = state.pacing.refresh(now);
        if let Allowance::After(due) = state.pacing.allowance
            && state.pacing.waits.is_none()
        {
            state.pacing.waits = Some(due);
            self.paced.insert((due, conn));
        }
        let share = state.pacing.share();
        if !changed || share == 0 {
            return;
        }
        let starved = std::mem::take(&mut state.pacing.starved);
        if share == u32::MAX {
            // The bound was removed: grant all of every window.
            (0..state.links.len() as u32).for_each(|link| self.widen(conn, link));
        } else {
            starved.into_iter().for_each(|link| self.widen(conn, link));
        }
    }

    fn widen(&mut self, conn: u32, link: u32) {
        if let Some(credit) = self.conns.get_mut(conn as usize).and_then(|state| state.credit(link, Window::widen)) {
            self.grant(conn, link, credit);
        }
    }
}
