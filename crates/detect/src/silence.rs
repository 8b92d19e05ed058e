//! Heartbeats: detects silent devices.

use crate::rules::{Detector, Rule};
use crate::state::{Change, NEVER_US, State, Verdict};
use crate::text::seconds;

/// Follows the arrivals of messages of a device, in order, and then its silence up to a time;
/// returns what changed.
///
/// `now_us` is [`NEVER_US`] if it is unknown up to which time all messages have arrived. Other
/// rules ignore silence.
pub fn follow_silence(detector: &Detector, state: &mut State, arrivals: &[i64], now_us: i64) -> Vec<Change> {
    let mut changes = Vec::new();
    let Rule::Heartbeat { timeout_us } = detector.rule else { return changes };
    for &time_us in arrivals {
        check_timeout(detector, state, timeout_us, time_us, &mut changes);
        state.apply(detector, Verdict::Back, time_us, None, &mut changes);
        state.time_us = state.time_us.max(time_us);
        state.count += 1;
    }
    check_timeout(detector, state, timeout_us, now_us, &mut changes);
    changes
}

/// Opens an incident if a device was silent for too long before a time.
fn check_timeout(detector: &Detector, state: &mut State, timeout_us: i64, time_us: i64, changes: &mut Vec<Change>) {
    if state.count == 0 || time_us - state.time_us <= timeout_us {
        return;
    }
    let mut due_us = state.time_us + timeout_us;
    if state.began_us != NEVER_US {
        // silence that outlasts the cool-down is an incident from its end on
        due_us = due_us.max(state.began_us + detector.cooldown_us);
    }
    if time_us > due_us {
        let reason = format!("nothing for more than {} s", seconds(timeout_us));
        state.apply(detector, Verdict::Beyond(reason), due_us, None, changes);
    }
}
