//! One direction of a connection: ordered bytes, with a delay and bounded by the buffers of the
//! sockets.

use std::collections::VecDeque;

use enmasse_amqp::time::Time;

/// Bytes in flight.
#[derive(Debug)]
pub(crate) struct Wire {
    capacity: usize,
    latency_us: u64,
    held: usize,
    chunks: VecDeque<(Time, Vec<u8>)>,
}

impl Wire {
    /// A wire with this delay and capacity in bytes.
    #[must_use]
    pub(crate) const fn new(capacity: usize, latency_us: u64) -> Self {
        Self { capacity, latency_us, held: 0, chunks: VecDeque::new() }
    }

    /// Moves as many bytes from the front of `bytes` as there is room for.
    pub(crate) fn write(&mut self, now: Time, bytes: &mut Vec<u8>) {
        let count = bytes.len().min(self.capacity - self.held);
        if count > 0 {
            self.held += count;
            let arrival = Time::from_micros(now.as_micros() + self.latency_us);
            self.chunks.push_back((arrival, bytes.drain(..count).collect()));
        }
    }

    /// Appends arrived bytes to `into`, at most about `limit`. Whether there was any.
    pub(crate) fn read(&mut self, now: Time, limit: usize, into: &mut Vec<u8>) -> bool {
        let mut left = limit;
        while let Some((arrival, chunk)) = self.chunks.front_mut()
            && *arrival <= now
            && left > 0
        {
            let count = chunk.len().min(left);
            into.extend(chunk.drain(..count));
            left -= count;
            self.held -= count;
            if chunk.is_empty() {
                self.chunks.pop_front();
            }
        }
        left < limit
    }

    /// Whether no byte is in flight.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_delays_bytes_in_order_within_its_capacity() {
        let mut wire = Wire::new(4, 10);
        let mut bytes = b"abcdef".to_vec();
        wire.write(Time::from_micros(0), &mut bytes);
        assert_eq!(bytes, b"ef");
        let mut read = Vec::new();
        assert!(!wire.read(Time::from_micros(9), 100, &mut read));
        assert!(wire.read(Time::from_micros(10), 3, &mut read));
        wire.write(Time::from_micros(10), &mut bytes);
        assert!(wire.read(Time::from_micros(20), 100, &mut read));
        assert_eq!(read, b"abcdef");
        assert!(wire.is_empty());
    }
}
