//! The newest version of facts that are recorded repeatedly: queues, dropped queues, and their
//! state.
//!
//! Values stay on disk; here is only in which segment the newest lies, and in which one the first
//! may lie: a deletion is needed as long as something older than it can still be read.

use std::collections::HashMap;

use super::record::Record;
use super::space::Space;

/// Where the newest record about something lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fact {
    pub(super) segment: u32,
    /// No record about it lies in an older segment.
    pub(super) first: u32,
    /// The newest record is a deletion.
    pub(super) gone: bool,
}

/// One queue.
#[derive(Debug)]
struct Queue {
    fact: Fact,
    states: HashMap<Box<[u8]>, Fact>,
}

/// All queues, with the dropped ones of which something may still lie on disk.
#[derive(Debug, Default)]
pub(super) struct Facts {
    queues: HashMap<u32, Queue>,
}

impl Facts {
    /// A queue has been declared and not dropped.
    pub(super) fn exists(&self, queue: u32) -> bool {
        self.queues.get(&queue).is_some_and(|queue| !queue.fact.gone)
    }

    /// Where the newest record about a queue lies.
    pub(super) fn queue(&self, queue: u32) -> Option<Fact> {
        self.queues.get(&queue).map(|queue| queue.fact)
    }

    /// Where the newest value of a state lies.
    pub(super) fn state(&self, queue: u32, key: &[u8]) -> Option<Fact> {
        self.queues.get(&queue)?.states.get(key).copied()
    }

    /// Take in a record that lies in `segment`, the newest there is.
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
                let Some(queue) = self.queues.get_mut(&queue).filter(|queue| !queue.fact.gone) else { return };
                let gone = value.is_empty();
                match queue.states.get_mut(key) {
                    Some(fact) => {
                        space.fact_moves(Some(fact.segment), Some(segment));
                        (fact.segment, fact.gone) = (segment, gone);
                    }
                    None => {
                        space.fact_moves(None, Some(segment));
                        queue.states.insert(key.into(), Fact { segment, first: segment, gone });
                    }
                }
            }
            Record::Mark | Record::Message(_) | Record::Remove(_) => {}
        }
    }

    /// A dropped queue of which nothing lies on disk any more.
    pub(super) fn forget_queue(&mut self, queue: u32, space: &mut Space) {
        if let Some(queue) = self.queues.remove(&queue) {
            space.fact_moves(Some(queue.fact.segment), None);
        }
    }

    /// A deleted state of which nothing lies on disk any more.
    pub(super) fn forget_state(&mut self, queue: u32, key: &[u8], space: &mut Space) {
        if let Some(fact) = self.queues.get_mut(&queue).and_then(|queue| queue.states.remove(key)) {
            space.fact_moves(Some(fact.segment), None);
        }
    }

    /// Take in what recovery found out about a queue.
    pub(super) fn restore_queue(&mut self, queue: u32, fact: Fact, space: &mut Space) {
        space.fact_moves(None, Some(fact.segment));
        self.queues.insert(queue, Queue { fact, states: HashMap::new() });
    }

    /// Take in what recovery found out about a state.
    pub(super) fn restore_state(&mut self, queue: u32, key: &[u8], fact: Fact, space: &mut Space) {
        if let Some(queue) = self.queues.get_mut(&queue) {
            space.fact_moves(None, Some(fact.segment));
            queue.states.insert(key.into(), fact);
        }
    }

    fn put_queue(&mut self, queue: u32, segment: u32, gone: bool, space: &mut Space) {
        match self.queues.get_mut(&queue) {
            Some(known) => {
                space.fact_moves(Some(known.fact.segment), Some(segment));
                (known.fact.segment, known.fact.gone) = (segment, gone || known.fact.gone);
            }
            None => {
                space.fact_moves(None, Some(segment));
                self.queues
                    .insert(queue, Queue { fact: Fact { segment, first: segment, gone }, states: HashMap::new() });
            }
        }
    }
}
