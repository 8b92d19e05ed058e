//! Gathers the parts of joint groups, and divides the answers ([`JointPart`]).

use std::collections::HashMap;

use super::batch::{Run, WriteBatch};
use super::config::Refused;
use super::joint::{JointId, JointPart};
use super::lane::{Committed, Lane};

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
