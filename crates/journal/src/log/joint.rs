//! Joint groups: one group of records from several workers.
//!
//! What passes between addresses with different homes, and a transaction at several homes, is on
//! disk as a whole or not at all. Each home contributes its records as a batch with the same
//! [`JointId`], its *part*. The owner of the log gathers the parts, writes them as one group, and
//! answers each worker with its part. A part does not wait for other batches of its lane, nor these
//! for it: a home waits for one of its joint groups only where it needs the order. So two groups
//! whose parts arrive in different orders never wait for each other.
//!
//! A home that cannot contribute declines. Then no part is written, and all are refused with its
//! reason.

use std::collections::HashMap;

use super::batch::{Run, WriteBatch};
use super::commit_schedule::{Committed, Lane};
use super::config::Refused;

/// Identifies a joint group among those of a node since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JointId {
    /// The worker that has chosen the number.
    pub worker: u16,
    /// Its number, never reused.
    pub number: u64,
}

/// The part of a worker in a joint group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JointPart {
    /// The group.
    pub id: JointId,
    /// The number of its parts, the same in all of them.
    pub parts: u16,
    /// Why the worker declines; its batch is empty then.
    pub declined: Option<String>,
}

/// A part and its lane.
type Part = (Lane, WriteBatch);

/// Joint groups until they are written.
#[derive(Debug, Default)]
pub(super) struct Joints {
    /// Groups with missing parts.
    gathering: HashMap<JointId, Vec<Part>>,
    /// Complete groups, whose records wait for their commit as one batch.
    complete: HashMap<JointId, Vec<Part>>,
}

/// What follows from one more part.
pub(super) enum Gathered {
    /// More parts are to come.
    Incomplete,
    /// A worker has declined: the answers.
    Declined(Vec<Committed>),
    /// The records of all parts, as one group.
    Complete(WriteBatch),
}

impl Joints {
    /// Adds a part.
    pub(super) fn add(&mut self, lane: Lane, batch: WriteBatch, part: &JointPart) -> Gathered {
        let parts = self.gathering.entry(part.id).or_default();
        parts.push((lane, batch));
        if parts.len() < usize::from(part.parts) {
            return Gathered::Incomplete;
        }
        let parts = self.gathering.remove(&part.id).unwrap_or_default();
        let declined = parts.iter().find_map(|(_, batch)| batch.joint()?.declined.clone());
        if let Some(reason) = declined {
            let refused = |(lane, batch)| Committed { lane, batch, result: Err(Refused::Declined(reason.clone())) };
            return Gathered::Declined(parts.into_iter().map(refused).collect());
        }
        let mut whole = WriteBatch::one_group(parts.iter().map(|(_, batch)| batch));
        whole.set_joint(JointPart { id: part.id, parts: 0, declined: None });
        self.complete.insert(part.id, parts);
        Gathered::Complete(whole)
    }

    /// Divides the answer for a group among its parts. Any other batch is its own answer.
    pub(super) fn divide(&mut self, committed: Committed, done: &mut Vec<Committed>) {
        let Committed { lane, batch: whole, result } = committed;
        let Some(parts) = whole.joint().and_then(|joint| self.complete.remove(&joint.id)) else {
            return done.push(Committed { lane, batch: whole, result });
        };
        let mut at = 0;
        for (lane, mut batch) in parts {
            // A group is not divided among segments, so it has one run.
            batch.runs.clear();
            if let Some(run) = whole.runs.first().filter(|_| !batch.frames.is_empty()) {
                batch.runs.push(Run { first: 0, segment: run.segment, offset: run.offset + at });
            }
            at += batch.bytes.len() as u32;
            done.push(Committed { lane, batch, result: result.clone() });
        }
    }
}
