//! The operations of callers, group by group, and the expected content if the log ends after one of
//! them.

use std::collections::BTreeMap;

use enmasse_journal::log::Recovered;
use enmasse_journal::log::simulated::Dice;

/// A message's content: its bytes follow from these two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) id: u64,
    pub(crate) len: usize,
}

impl Content {
    pub(crate) fn bytes(self) -> Vec<u8> {
        let mut dice = Dice::new(self.id);
        (0..self.len).map(|_| dice.any() as u8).collect()
    }
}

/// One operation.
#[derive(Clone, Debug)]
pub(crate) enum Reported {
    Declare { queue: u32, uid: [u8; 16] },
    Drop { queue: u32 },
    Message { targets: Vec<(u32, u64, Vec<u8>)>, content: Content },
    Remove { queue: u32, seqs: Vec<u64> },
    State { queue: u32, key: Vec<u8>, value: Vec<u8> },
}

/// Things that are there all or not at all.
pub(crate) type Group = Vec<Reported>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(crate) uid: [u8; 16],
    pub(crate) messages: BTreeMap<u64, Vec<u8>>,
    pub(crate) states: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// The content after some groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) queues: BTreeMap<u32, Queue>,
}

impl Contents {
    pub(crate) fn apply(&mut self, group: &Group) {
        for reported in group {
            match reported {
                Reported::Declare { queue, uid } => {
                    self.queues.insert(*queue, Queue { uid: *uid, ..Queue::default() });
                }
                Reported::Drop { queue } => {
                    self.queues.remove(queue);
                }
                Reported::Message { targets, .. } => {
                    for (queue, seq, head) in targets {
                        self.queue(*queue).messages.insert(*seq, head.clone());
                    }
                }
                Reported::Remove { queue, seqs } => {
                    let queue = self.queue(*queue);
                    seqs.iter().for_each(|seq| drop(queue.messages.remove(seq)));
                }
                Reported::State { queue, key, value } if value.is_empty() => {
                    self.queue(*queue).states.remove(key);
                }
                Reported::State { queue, key, value } => {
                    self.queue(*queue).states.insert(key.clone(), value.clone());
                }
            }
        }
    }

    /// The queues of a message are there.
    pub(crate) fn takes(&self, reported: &Reported) -> bool {
        let Reported::Message { targets, .. } = reported else { return false };
        targets.iter().all(|(queue, _, _)| self.queues.contains_key(queue))
    }

    fn queue(&mut self, queue: u32) -> &mut Queue {
        self.queues.get_mut(&queue).expect("only declared queues are spoken of")
    }

    /// The result of recovery.
    pub(crate) fn found(recovered: &Recovered) -> Self {
        let mut contents = Self::default();
        for queue in &recovered.queues {
            let (uid, name) = queue.declared.clone().expect("no declaration is ever lost here");
            assert_eq!(name, name_of(queue.queue));
            let messages = queue.messages().map(|message| (message.seq, message.head.to_vec())).collect();
            let states = queue.states.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
            contents.queues.insert(queue.queue, Queue { uid, messages, states });
        }
        contents
    }

    pub(crate) fn messages(&self) -> usize {
        self.queues.values().map(|queue| queue.messages.len()).sum()
    }

    /// The first difference between two contents.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let numbers = self.queues.keys().chain(other.queues.keys());
        for number in numbers {
            let (Some(one), Some(two)) = (self.queues.get(number), other.queues.get(number)) else {
                let side = if self.queues.contains_key(number) { "missing" } else { "back" };
                return Some(format!("queue {number} is {side}"));
            };
            if one == two {
                continue;
            }
            for seq in one.messages.keys().chain(two.messages.keys()) {
                match (one.messages.get(seq), two.messages.get(seq)) {
                    (Some(_), None) => return Some(format!("message {seq} of queue {number} is missing")),
                    (None, Some(_)) => return Some(format!("message {seq} of queue {number} is back")),
                    (one, two) if one != two => return Some(format!("message {seq} of queue {number} is another")),
                    _ => {}
                }
            }
            return Some(format!("queue {number}: state or uid {:?} {:?}", one.states, two.states));
        }
        None
    }
}

pub(crate) fn name_of(queue: u32) -> String {
    format!("queue-{queue}")
}
