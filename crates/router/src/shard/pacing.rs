//! The traffic of connections, and rate limits: once a turn it is counted and charged to their
//! space, and the windows of their links follow the rest of the space's budget.

use std::collections::BTreeSet;
use std::sync::Arc;

use enmasse_amqp::time::Time;

use super::fabric::Fabric;
use super::window::Window;
use super::{ConnId, Shard};
use crate::table::{Allowance, Carried, Pace, Space, Traffic};

/// One connection's part in the traffic of its space.
#[derive(Debug)]
pub(super) struct Pacing {
    /// its traffic since the last count
    pub(super) carried: Carried,
    /// its traffic until then
    counted: Carried,
    traffic: Option<Arc<Traffic>>,
    pace: Option<Arc<Pace>>,
    allowance: Allowance,
    /// its links whose windows changed while there was no share
    pub(super) starved: BTreeSet<u32>,
    /// its entry among those that wait
    waits: Option<Time>,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            carried: Carried::default(),
            counted: Carried::default(),
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
    /// The connection belongs to a space, or that has other bounds. Whether its links have to be
    /// checked before the turn ends; they have no credit until then, unless they had some before.
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

    /// Deliveries that each of its links may be granted at a time.
    pub(super) fn share(&self) -> u32 {
        match self.allowance {
            Allowance::Share(share) => share,
            Allowance::After(_) | Allowance::Nothing => 0,
        }
    }

    /// Nothing was carried and there is nothing to keep to.
    #[inline]
    fn must_wait(&self) -> bool {
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

    /// All that it has carried, but for the turn that is under way.
    pub(super) const fn counted(&self) -> Carried {
        self.counted
    }

    /// Its allowance now. Whether its links have another share by that.
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
    /// When the next turn has to be at the latest, so that connections over their limit continue.
    #[must_use]
    pub fn next_share(&self) -> Option<Time> {
        self.fabric.paced.first().map(|(due, _)| *due)
    }

    /// A connection goes: its traffic counts.
    pub(super) fn settle_last(&mut self, id: ConnId) {
        let now = self.fabric.now;
        if let Some(conn) = self.fabric.conns.get_mut(id.key()) {
            conn.pacing.settle(now);
        }
        self.fabric.stop_waiting(id.key);
    }
}

impl Fabric {
    /// Connections that waited for a share of what their space may send have it, or wait on.
    pub(super) fn resume_paced(&mut self, now: Time) {
        while let Some((due, conn)) = self.paced.first().copied()
            && due <= now
        {
            self.paced.pop_first();
            if let Some(state) = self.conns.get_mut(conn as usize) {
                state.pacing.waits = None;
            }
            self.keep_pace(now, conn);
        }
    }

    /// A connection does not wait for a share any more: it goes, or has other bounds.
    pub(super) fn stop_waiting(&mut self, conn: u32) {
        if let Some(state) = self.conns.get_mut(conn as usize)
            && let Some(due) = state.pacing.waits.take()
        {
            self.paced.remove(&(due, conn));
        }
    }

    /// A connection's traffic of this turn is counted, and its links get the rest of the allowance.
    #[inline]
    pub(super) fn keep_pace(&mut self, now: Time, conn: u32) {
        if let Some(state) = self.conns.get_mut(conn as usize)
            && !state.pacing.must_wait()
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
            // There is no bound any more: all of every window may be granted.
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
