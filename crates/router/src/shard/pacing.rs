//! The traffic of connections, and rate limits. Once a turn the traffic is counted and charged to
//! the space; the windows of the links follow the remaining budget of the space.

use enmasse_amqp::time::Time;

use super::credit_window::CreditWindow;
use super::fabric::Fabric;
use super::{ConnId, Shard};
use crate::table::Allowance;

impl Shard {
    /// The latest time of the next turn, so that connections over their limit continue, and sessions
    /// of MQTT without a connection end.
    #[must_use]
    pub fn next_share(&self) -> Option<Time> {
        let paced = self.fabric.paced.first().map(|(due, _)| *due);
        [paced, self.absent.next()].into_iter().flatten().min()
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
        if let Some(mqtt) = state.machine.mqtt_mut() {
            // Its publications need no credit: they were not read.
            mqtt.resume_publications();
            return self.mark(conn);
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
        if let Some(credit) =
            self.conns.get_mut(conn as usize).and_then(|state| state.credit(link, CreditWindow::widen))
        {
            self.grant(conn, link, credit);
        }
    }
}
