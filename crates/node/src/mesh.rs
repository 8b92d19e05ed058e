//! Rings between workers: one producer, one consumer, one ring for each ordered pair.
//!
//! What is put in during a turn is seen by the other side after one wake, and only if it sleeps. A full ring keeps
//! nothing: the worker leaves the batch where it grows and tries again next turn.

use rtrb::{Consumer, Producer, RingBuffer};

/// Batches under way from one worker to another before the sender keeps what more there is.
const BATCHES: usize = 64;

/// One worker's ends of all its rings.
#[derive(Debug)]
pub(crate) struct Mesh<T> {
    to: Vec<Option<Producer<T>>>,
    from: Vec<Consumer<T>>,
}

impl<T> Mesh<T> {
    /// The ends for `count` workers, in the order of their indices.
    pub(crate) fn build(count: u16) -> Vec<Self> {
        let mut ends: Vec<Self> = (0..count).map(|_| Self { to: Vec::new(), from: Vec::new() }).collect();
        for sender in 0..usize::from(count) {
            for receiver in 0..usize::from(count) {
                if sender == receiver {
                    ends[sender].to.push(None);
                    continue;
                }
                let (producer, consumer) = RingBuffer::new(BATCHES);
                ends[sender].to.push(Some(producer));
                ends[receiver].from.push(consumer);
            }
        }
        ends
    }

    /// Whether a batch for worker `to` would be taken.
    pub(crate) fn has_room(&self, to: u16) -> bool {
        self.to[usize::from(to)].as_ref().is_some_and(|ring| !ring.is_full())
    }

    /// Sends a batch; given back if the ring is full or leads to oneself.
    pub(crate) fn send(&mut self, to: u16, batch: T) -> Result<(), T> {
        match &mut self.to[usize::from(to)] {
            Some(ring) => ring.push(batch).map_err(|rtrb::PushError::Full(batch)| batch),
            None => Err(batch),
        }
    }

    /// Whether anything has come in.
    pub(crate) fn has_incoming(&self) -> bool {
        self.from.iter().any(|ring| !ring.is_empty())
    }

    /// Takes what has come in, from each worker in the order it was sent, and no more than was there at first: a
    /// sender that keeps sending does not keep us from our turn.
    pub(crate) fn receive(&mut self, mut take: impl FnMut(T)) {
        for ring in &mut self.from {
            for _ in 0..ring.slots() {
                let Ok(batch) = ring.pop() else { break };
                take(batch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_its_own_ring_and_keeps_order() {
        let mut ends = Mesh::build(3);
        for batch in [10, 11] {
            ends[0].send(2, batch).unwrap();
        }
        ends[1].send(2, 20).unwrap();
        assert!(!ends[0].has_incoming() && !ends[1].has_incoming() && ends[2].has_incoming());
        let mut got = Vec::new();
        ends[2].receive(|batch| got.push(batch));
        assert_eq!(got, [10, 11, 20]);
    }

    #[test]
    fn a_full_ring_gives_the_batch_back_and_the_way_to_oneself_is_never_open() {
        let mut ends = Mesh::build(2);
        for batch in 0..BATCHES {
            assert!(ends[0].has_room(1));
            ends[0].send(1, batch).unwrap();
        }
        assert!(!ends[0].has_room(1));
        assert_eq!(ends[0].send(1, 99), Err(99));
        assert!(!ends[0].has_room(0));
        assert_eq!(ends[0].send(0, 7), Err(7));
        let mut got = Vec::new();
        ends[1].receive(|batch| got.push(batch));
        assert!(got.into_iter().eq(0..BATCHES));
        assert!(ends[0].has_room(1));
    }
}
