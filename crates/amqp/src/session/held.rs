//! Transfer frames that the peer's incoming window had no room for (2.5.6).

use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Frame {
    link: u32,
    length: usize,
}

/// Frames that are written, in order, once the peer opens its window. The caller bounds them: a
/// piece of a delivery starts only while the window is open, so they hold at most one piece, and
/// one aborting frame per link.
#[derive(Debug, Default)]
pub(crate) struct BlockedFrames {
    bytes: VecDeque<u8>,
    frames: VecDeque<Frame>,
}

impl BlockedFrames {
    /// Keeps a whole frame of `link`.
    pub(crate) fn push(&mut self, link: u32, frame: &[u8]) {
        self.bytes.extend(frame);
        self.frames.push_back(Frame { link, length: frame.len() });
    }

    /// Moves at most `room` frames to `out`; returns how many.
    pub(crate) fn release(&mut self, room: u32, out: &mut Vec<u8>) -> u32 {
        let mut released = 0;
        while released < room
            && let Some(frame) = self.frames.pop_front()
        {
            out.extend(self.bytes.drain(..frame.length));
            released += 1;
        }
        if self.frames.is_empty() {
            *self = Self::default();
        }
        released
    }

    /// Drops the frames of a link that has ended.
    pub(crate) fn forget(&mut self, link: u32) {
        let mut kept = Self::default();
        while let Some(frame) = self.frames.pop_front() {
            let bytes: Vec<u8> = self.bytes.drain(..frame.length).collect();
            if frame.link != link {
                kept.push(frame.link, &bytes);
            }
        }
        *self = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_frames_are_released_in_order_as_the_window_opens() {
        let mut held = BlockedFrames::default();
        let mut out = Vec::new();
        for byte in 1..=4u8 {
            held.push(0, &[byte; 3]);
        }
        assert_eq!(held.release(3, &mut out), 3);
        assert_eq!(out, [1, 1, 1, 2, 2, 2, 3, 3, 3]);
        assert_eq!(held.bytes, [4, 4, 4]);
        assert_eq!(held.release(9, &mut out), 1);
        assert!(held.frames.is_empty() && held.bytes.capacity() == 0);
    }

    #[test]
    fn held_frames_of_an_ended_link_are_dropped() {
        let mut held = BlockedFrames::default();
        let mut out = Vec::new();
        for (link, byte) in [(1, 1), (2, 2), (1, 3), (2, 4)] {
            held.push(link, &[byte]);
        }
        held.forget(1);
        assert_eq!(held.release(9, &mut out), 2);
        assert_eq!(out, [2, 4]);
    }
}
