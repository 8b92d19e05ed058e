//! Timers of sockets: a timer wheel with one entry per socket.
//!
//! Deadlines are coarse (a tick is 8 ms, always rounded up) and rarely expire, because each frame
//! of the peer postpones them. Postponing costs nothing: the entry fires at its old tick, and the
//! worker checks the deadline and arms it again. Only an earlier deadline needs a new entry; the
//! old one is skipped when its tick comes.

use enmasse_amqp::time::Time;

const TICK_MICROS: u64 = 8_192;
/// 16.8 s ahead; later deadlines sit in the last slot and are armed again from there.
const SLOTS: usize = 2_048;

/// The tick at which an entry is due; the owner keeps it to distinguish live entries from stale
/// ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Tick(u64);

impl Tick {
    /// Not armed.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    fn at(time: Time) -> u64 {
        time.as_micros().div_ceil(TICK_MICROS)
    }
}

/// A wheel of keys.
#[derive(Debug)]
pub(crate) struct Wheel {
    slots: Box<[Vec<u32>]>,
    /// one bit per slot that is not empty
    occupied: Box<[u64]>,
    /// the first tick that has not fired
    next: u64,
}

impl Wheel {
    /// A wheel that starts at `now`.
    pub(crate) fn new(now: Time) -> Self {
        Self {
            slots: vec![Vec::new(); SLOTS].into_boxed_slice(),
            occupied: vec![0; SLOTS / 64].into_boxed_slice(),
            next: Tick::at(now),
        }
    }

    /// Arms `key` for `deadline`; `armed` is the tick of its present entry. Returns the tick to
    /// store.
    pub(crate) fn arm(&mut self, key: u32, armed: Tick, deadline: Time) -> Tick {
        let due = Tick::at(deadline).clamp(self.next, self.next + SLOTS as u64 - 1);
        // An entry that fires too early is armed again then; one that would fire too late is
        // entered again.
        if armed != Tick::NEVER && armed.0 <= due {
            return armed;
        }
        let slot = due as usize % SLOTS;
        self.slots[slot].push(key);
        self.occupied[slot / 64] |= 1 << (slot % 64);
        Tick(due)
    }

    /// When the next non-empty slot is due.
    pub(crate) fn next_due(&self) -> Option<Time> {
        (0..SLOTS as u64)
            .step_by(64)
            .find_map(|ahead| self.occupied_from(self.next + ahead))
            .map(|tick| Time::from_micros(tick * TICK_MICROS))
    }

    /// The first occupied tick of the 64 that begin with `from`.
    fn occupied_from(&self, from: u64) -> Option<u64> {
        let slot = from as usize % SLOTS;
        let (word, bit) = (slot / 64, slot % 64);
        let low = self.occupied[word] >> bit;
        let high = if bit == 0 { 0 } else { self.occupied[(word + 1) % self.occupied.len()] << (64 - bit) };
        let bits = low | high;
        (bits != 0).then(|| from + u64::from(bits.trailing_zeros()))
    }

    /// Turns the wheel to `now`: appends each due key with the tick it was armed for.
    pub(crate) fn turn(&mut self, now: Time, due: &mut Vec<(u32, Tick)>) {
        let end = now.as_micros() / TICK_MICROS;
        let last = end.min(self.next + SLOTS as u64 - 1);
        while let Some(tick) = self.first_occupied(last) {
            let slot = tick as usize % SLOTS;
            due.extend(self.slots[slot].drain(..).map(|key| (key, Tick(tick))));
            self.slots[slot].shrink_to(64);
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
        self.next = self.next.max(end + 1);
    }

    fn first_occupied(&self, last: u64) -> Option<u64> {
        let mut from = self.next;
        while from <= last {
            if let Some(tick) = self.occupied_from(from) {
                return (tick <= last).then_some(tick);
            }
            from += 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Time {
        Time::ZERO.plus_millis(millis)
    }

    fn fired(wheel: &mut Wheel, now: Time) -> Vec<u32> {
        let mut due = Vec::new();
        wheel.turn(now, &mut due);
        due.into_iter().map(|(key, _)| key).collect()
    }

    #[test]
    fn key_fires_once_within_one_tick_after_its_deadline() {
        for start in [0, 5_000, 1_000_000] {
            for delay in [1, 7, 100, 2_000, 16_000] {
                let mut wheel = Wheel::new(ms(start));
                wheel.arm(3, Tick::NEVER, ms(start + delay));
                let due = wheel.next_due().unwrap();
                assert!(due >= ms(start + delay) && due <= ms(start + delay + 9), "{start} {delay} {due:?}");
                assert!(fired(&mut wheel, ms(start + delay - 1)).is_empty());
                assert_eq!(fired(&mut wheel, due), [3]);
                assert!(fired(&mut wheel, ms(start + delay + 60_000)).is_empty());
                assert_eq!(wheel.next_due(), None);
            }
        }
    }

    #[test]
    fn later_deadline_reuses_the_entry_and_an_earlier_one_makes_it_stale() {
        let mut wheel = Wheel::new(ms(0));
        let first = wheel.arm(1, Tick::NEVER, ms(1_000));
        assert_eq!(wheel.arm(1, first, ms(5_000)), first);
        let earlier = wheel.arm(1, first, ms(500));
        assert_ne!(earlier, first);
        let mut due = Vec::new();
        wheel.turn(ms(2_000), &mut due);
        assert_eq!(due, [(1, earlier), (1, first)]);
    }

    #[test]
    fn a_deadline_past_the_horizon_fires_early_to_be_armed_again() {
        let mut wheel = Wheel::new(ms(0));
        wheel.arm(1, Tick::NEVER, ms(600_000));
        let due = wheel.next_due().unwrap();
        assert!(due > ms(16_000) && due < ms(17_000));
        assert_eq!(fired(&mut wheel, due), [1]);
    }

    #[test]
    fn a_past_deadline_fires_at_the_next_turn() {
        let mut wheel = Wheel::new(ms(100));
        fired(&mut wheel, ms(100));
        wheel.arm(1, Tick::NEVER, ms(50));
        assert_eq!(fired(&mut wheel, ms(120)), [1]);
    }

    #[test]
    fn a_long_sleep_fires_everything_that_was_due() {
        let mut wheel = Wheel::new(ms(0));
        for key in 0..100 {
            wheel.arm(key, Tick::NEVER, ms(u64::from(key) * 150));
        }
        assert_eq!(fired(&mut wheel, ms(3_600_000)).len(), 100);
        wheel.arm(7, Tick::NEVER, ms(3_600_100));
        assert_eq!(fired(&mut wheel, ms(3_600_120)), [7]);
    }
}
