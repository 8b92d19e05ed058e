//! The newest record of each fact that is recorded repeatedly: queues, dropped queues, and their
//! state.
//!
//! Values are only on disk. A fact names the segment of its newest record and the oldest segment
//! that may hold one. A deletion is needed as long as recovery can still read an older record.

use std::collections::HashMap;

use super::record::Record;
use super::space::Space;

/// The location of the newest record of a queue or a state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fact {
    pub(super) segment: u32,
    /// The oldest segment that may hold a record of it.
    pub(super) first: u32,
    /// The newest record is a deletion.
    pub(super) deleted: bool,
}

/// One queue.
#[derive(Debug)]
struct Queue {
    fact: Fact,
    states: HashMap<Box<[u8]>, Fact>,
}

/// All queues, and the dropped ones that may still have records on disk.
#[derive(Debug, Default)]
pub(super) struct Facts {
    queues: HashMap<u32, Queue>,
}

impl Facts {
    /// Whether a queue is declared and not dropped.
    pub(super) fn exists(&self, queue: u32) -> bool {
        self.queues.get(&queue).is_some_and(|queue| !queue.fact.deleted)
    }

    /// The location of the newest record of a queue.
    pub(super) fn queue(&self, queue: u32) -> Option<Fact> {
        self.queues.get(&queue).map(|queue| queue.fact)
    }

    /// The location of the newest value of a state.
    pub(super) fn state(&self, queue: u32, key: &[u8]) -> Option<Fact> {
        self.queues.get(&queue)?.states.get(key).copied()
    }

    /// Applies the newest record, which is in `segment`.
    pub(super) fn apply(&mut self, record: &Record<'_>, segment: u32, space: &mut Space) {
        match *record {
            Record::Declare { queue, .. } => self.put_queue(queue, segment, false, space),
            Record::Drop { queue } => {
                self.put_queue(queue, segment, true, space);
                let states = self.queues.get_mut(&queue).map(|queue| std::mem::take(&mut queue.states));
                for state in states.into_iter().flat_map(HashMap::into_values) {
                    space.fact_moves(Some(state.segment), None);
                }
            }
            Record::State { queue, key, value } => {
                let Some(queue) = self.queues.get_mut(&queue).filter(|queue| !queue.fact.deleted) else { return };
                let deleted = value.is_empty();
                match queue.states.get_mut(key) {
                    Some(fact) => {
                        space.fact_moves(Some(fact.segment), Some(segment));
                        (fact.segment, fact.deleted) = (segment, deleted);
                    }
                    None => {
                        space.fact_moves(None, Some(segment));
                        queue.states.insert(key.into(), Fact { segment, first: segment, deleted });
                    }
                }
            }
            Record::Mark | Record::Message(_) | Record::Remove(_) => {}
        }
    }

    /// Forgets a dropped queue without records on disk.
    pub(super) fn forget_queue(&mut self, queue: u32, space: &mut Space) {
        if let Some(queue) = self.queues.remove(&queue) {
            space.fact_moves(Some(queue.fact.segment), None);
        }
    }

    /// Forgets a deleted state without records on disk.
    pub(super) fn forget_state(&mut self, queue: u32, key: &[u8], space: &mut Space) {
        if let Some(fact) = self.queues.get_mut(&queue).and_then(|queue| queue.states.remove(key)) {
            space.fact_moves(Some(fact.segment), None);
        }
    }

    /// Adds a queue that recovery found.
    pub(super) fn restore_queue(&mut self, queue: u32, fact: Fact, space: &mut Space) {
        space.fact_moves(None, Some(fact.segment));
        self.queues.insert(queue, Queue { fact, states: HashMap::new() });
    }

    /// Adds a state that recovery found.
    pub(super) fn restore_state(&mut self, queue: u32, key: &[u8], fact: Fact, space: &mut Space) {
        if let Some(queue) = self.queues.get_mut(&queue) {
            space.fact_moves(None, Some(fact.segment));
            queue.states.insert(key.into(), fact);
        }
    }

    fn put_queue(&mut self, queue: u32, segment: u32, deleted: bool, space: &mut Space) {
        match self.queues.get_mut(&queue) {
            Some(known) => {
                space.fact_moves(Some(known.fact.segment), Some(segment));
                (known.fact.segment, known.fact.deleted) = (segment, deleted || known.fact.deleted);
            }
            None => {
                space.fact_moves(None, Some(segment));
                self.queues
                    .insert(queue, Queue { fact: Fact { segment, first: segment, deleted }, states: HashMap::new() });
            }
        }
    }
}
