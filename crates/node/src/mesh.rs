//! Rings between workers: one producer, one consumer, one ring for each ordered pair.
//!
//! Batches sent during a turn become visible to the receiver with one wake, and only if it sleeps.
//! A full ring rejects a batch: the worker keeps adding to it and retries next turn. A ring is full
//! with [`BATCHES`] batches or with [`RING_BYTES`] or more bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};

/// The most batches in a ring; the sender keeps further ones.
const BATCHES: usize = 64;
/// The most bytes in a ring. The last batch may exceed it by the output of one turn.
pub(crate) const RING_BYTES: usize = 8 * 1024 * 1024;

/// One worker's ends of all its rings.
#[derive(Debug)]
pub(crate) struct Mesh<T> {
    to: Vec<Option<To<T>>>,
    from: Vec<From<T>>,
}

#[derive(Debug)]
struct To<T> {
    ring: Producer<(T, usize)>,
    /// bytes in the ring; only a counter, it orders no memory accesses
    bytes: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct From<T> {
    ring: Consumer<(T, usize)>,
    bytes: Arc<AtomicUsize>,
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
                let bytes = Arc::new(AtomicUsize::new(0));
                ends[sender].to.push(Some(To { ring: producer, bytes: Arc::clone(&bytes) }));
                ends[receiver].from.push(From { ring: consumer, bytes });
            }
        }
        ends
    }

    /// Whether the ring to worker `to` has room for a batch.
    pub(crate) fn has_room(&self, to: u16) -> bool {
        let room = |to: &To<T>| !to.ring.is_full() && to.bytes.load(Ordering::Relaxed) < RING_BYTES;
        self.to[usize::from(to)].as_ref().is_some_and(room)
    }

    /// Sends a batch of this many bytes. Returns it if the ring is full, or `to` is the worker
    /// itself.
    pub(crate) fn send(&mut self, to: u16, batch: T, bytes: usize) -> Result<(), T> {
        match &mut self.to[usize::from(to)] {
            Some(to) => {
                to.bytes.fetch_add(bytes, Ordering::Relaxed);
                to.ring.push((batch, bytes)).map_err(|rtrb::PushError::Full((batch, bytes))| {
                    to.bytes.fetch_sub(bytes, Ordering::Relaxed);
                    batch
                })
            }
            None => Err(batch),
        }
    }

    /// Whether a batch has arrived.
    pub(crate) fn has_incoming(&self) -> bool {
        self.from.iter().any(|from| !from.ring.is_empty())
    }

    /// Takes the batches that have arrived, from each worker in order, and only those present at
    /// first: a sender that keeps sending does not prolong our turn.
    pub(crate) fn receive(&mut self, mut take: impl FnMut(T)) {
        for From { ring, bytes } in &mut self.from {
            for _ in 0..ring.slots() {
                let Ok((batch, size)) = ring.pop() else { break };
                bytes.fetch_sub(size, Ordering::Relaxed);
                take(batch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_of_workers_has_a_ring_that_keeps_order() {
        let mut ends = Mesh::build(3);
        for batch in [10, 11] {
            ends[0].send(2, batch, 1).unwrap();
        }
        ends[1].send(2, 20, 1).unwrap();
        assert!(!ends[0].has_incoming() && !ends[1].has_incoming() && ends[2].has_incoming());
        let mut got = Vec::new();
        ends[2].receive(|batch| got.push(batch));
        assert_eq!(got, [10, 11, 20]);
    }

    #[test]
    fn full_ring_returns_the_batch_and_a_worker_has_no_ring_to_itself() {
        let mut ends = Mesh::build(2);
        for batch in 0..BATCHES {
            assert!(ends[0].has_room(1));
            ends[0].send(1, batch, 1).unwrap();
        }
        assert!(!ends[0].has_room(1));
        assert_eq!(ends[0].send(1, 99, 1), Err(99));
        assert!(!ends[0].has_room(0));
        assert_eq!(ends[0].send(0, 7, 1), Err(7));
        let mut got = Vec::new();
        ends[1].receive(|batch| got.push(batch));
        assert!(got.into_iter().eq(0..BATCHES));
        assert!(ends[0].has_room(1));
    }

    #[test]
    fn ring_has_no_room_once_its_byte_bound_is_reached() {
        let mut ends = Mesh::build(2);
        ends[0].send(1, "small", RING_BYTES - 1).unwrap();
        assert!(ends[0].has_room(1));
        ends[0].send(1, "large", 5_000_000).unwrap();
        assert!(!ends[0].has_room(1) && ends[1].has_room(0));
        ends[1].receive(|_| ());
        assert!(ends[0].has_room(1));
    }
}
