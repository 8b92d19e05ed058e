//! The traffic of one connection, and its part in the rate limit of its space.

use std::collections::BTreeSet;
use std::sync::Arc;

use enmasse_amqp::time::Time;

use crate::table::{Allowance, Pace, Space, Traffic, TrafficCounts};

/// One connection's part in the traffic of its space.
#[derive(Debug)]
pub(super) struct Pacing {
    /// its traffic since the last count
    pub(super) carried: TrafficCounts,
    /// its traffic up to the last count
    pub(super) counted: TrafficCounts,
    pub(super) traffic: Option<Arc<Traffic>>,
    pub(super) pace: Option<Arc<Pace>>,
    pub(super) allowance: Allowance,
    /// its links that need credit and got none, because the share was 0
    pub(super) starved: BTreeSet<u32>,
    /// the time of its entry in `Fabric::paced`
    pub(super) waits: Option<Time>,
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
    pub(super) fn is_inactive(&self) -> bool {
        self.pace.is_none() && self.carried.is_nothing() && self.allowance == UNBOUND
    }

    /// Counts and charges traffic.
    pub(super) fn settle(&mut self, now: Time) {
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
    pub(super) fn refresh(&mut self, now: Time) -> bool {
        let before = self.share();
        self.allowance = match (&self.pace, &self.traffic) {
            (Some(pace), Some(traffic)) => pace.allowance(now, traffic.mean_bytes()),
            _ => UNBOUND,
        };
        before != self.share()
    }
}
