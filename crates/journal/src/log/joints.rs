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
    gathering: HashMap<JointId, Gathering>,
    /// Groups that are written as a part of another one.
    joined: HashMap<JointId, JointId>,
    /// Complete groups, whose records wait for their commit as one batch.
    complete: HashMap<JointId, Vec<Part>>,
}

/// A group with missing parts.
#[derive(Debug, Default)]
struct Gathering {
    parts: Vec<Part>,
    /// The number of its parts; 0: none of them has come.
    own: usize,
    /// The parts of the groups that are written with it, except for those that join them.
    others: usize,
    /// These groups.
    joins: Vec<JointId>,
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
    /// Adds a part. The parts of a group that another one joins are those of that one, whether they
    /// come before the part that joins the two or after it.
    pub(super) fn add(&mut self, lane: Lane, batch: WriteBatch, part: &JointPart) -> Gathered {
        let into = self.joined.get(&part.id).copied();
        let id = into.unwrap_or(part.id);
        let mut gathering = self.gathering.remove(&id).unwrap_or_default();
        if into.is_none() {
            gathering.own = usize::from(part.parts);
        }
        gathering.parts.push((lane, batch));
        debug_assert!(into.is_none() || part.joins.is_empty(), "a joined group joins no others");
        for (joined, parts) in &part.joins {
            let earlier = self.joined.insert(*joined, id);
            debug_assert!(earlier.is_none(), "a group is written with one other");
            gathering.others += usize::from(*parts) - 1;
            gathering.joins.push(*joined);
            gathering.parts.extend(self.gathering.remove(joined).into_iter().flat_map(|joined| joined.parts));
        }
        if gathering.parts.len() < gathering.own + gathering.others {
            self.gathering.insert(id, gathering);
            return Gathered::Incomplete;
        }
        for joined in gathering.joins {
            self.joined.remove(&joined);
        }
        let parts = gathering.parts;
        let declined = parts.iter().find_map(|(_, batch)| batch.joint()?.declined.clone());
        if let Some(reason) = declined {
            let refused = |(lane, batch)| Committed { lane, batch, result: Err(Refused::Declined(reason.clone())) };
            return Gathered::Declined(parts.into_iter().map(refused).collect());
        }
        let mut whole = WriteBatch::one_group(parts.iter().map(|(_, batch)| batch));
        whole.set_joint(JointPart { id, parts: 0, declined: None, joins: Vec::new() });
        self.complete.insert(id, parts);
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
