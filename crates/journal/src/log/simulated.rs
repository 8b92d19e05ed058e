//! A disk in memory with injected faults, for tests and simulations: seeded, without a clock.
//!
//! It keeps written and durable bytes apart. [`SimulatedDisk::crashed`] returns the disk after a
//! power failure: each sector written since the last fsync has any of its versions, old or new, and
//! any prefix of the folder changes since the last folder fsync has happened.
//! [`SimulatedDisk::as_seen`] returns the disk after only the process was killed, with all writes.
//!
//! Faults are scheduled in advance: a failing call, a power failure after a number of calls, a
//! capacity, flipped bits, and slow fsyncs (counted, for a virtual clock).

use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::disk::{Disk, Fault};

/// Numbers from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// A generator with a fixed sequence.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, or 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.any().checked_rem(bound).unwrap_or(0)
    }

    /// True with a probability of `chance` percent.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// The kind of a call to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// `create`
    Create,
    /// `write`
    Write,
    /// `read`
    Read,
    /// `sync`
    Sync,
    /// `sync_folder`
    SyncFolder,
    /// `remove` and `recycle`
    Rename,
}

#[derive(Clone, Debug, Default)]
struct Bytes {
    written: Vec<u8>,
    durable: Vec<u8>,
    /// The contents of each sector since the last fsync, without the durable version.
    versions: BTreeMap<usize, Vec<Vec<u8>>>,
}

#[derive(Clone, Debug)]
enum Change {
    Create { segment: u32, file: usize },
    Remove { segment: u32 },
    Rename { from: u32, to: u32 },
}

#[derive(Clone, Debug)]
struct State {
    files: Vec<Bytes>,
    folder: BTreeMap<u32, usize>,
    durable_folder: BTreeMap<u32, usize>,
    changes: Vec<Change>,
    sector_bytes: usize,
    capacity_bytes: u64,
    /// For each kind, the calls that succeed before one fails.
    failing: BTreeMap<Call, u64>,
    /// Segments that cannot be read.
    unreadable: BTreeSet<u32>,
    calls_left: Option<u64>,
    calls: u64,
    sync_us: u64,
    busy_us: u64,
    dice: Dice,
}

/// The disk; see the module.
#[derive(Debug)]
pub struct SimulatedDisk {
    state: Mutex<State>,
}

impl SimulatedDisk {
    /// An empty disk of unlimited size with atomic sectors of this size.
    #[must_use]
    pub fn new(sector_bytes: usize, seed: u64) -> Self {
        Self::of(State {
            files: Vec::new(),
            folder: BTreeMap::new(),
            durable_folder: BTreeMap::new(),
            changes: Vec::new(),
            sector_bytes,
            capacity_bytes: u64::MAX,
            failing: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            calls_left: None,
            calls: 0,
            sync_us: 0,
            busy_us: 0,
            dice: Dice::new(seed),
        })
    }

    fn of(state: State) -> Self {
        Self { state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a segment unreadable, or readable again.
    pub fn set_unreadable(&self, segment: u32, unreadable: bool) {
        let mut state = self.state();
        match unreadable {
            true => state.unreadable.insert(segment),
            false => state.unreadable.remove(&segment),
        };
    }

    /// Cuts off the end of a segment.
    pub fn truncate(&self, segment: u32, bytes: u64) {
        if let Ok(file) = self.state().file(segment) {
            file.versions.clear();
            file.written.truncate(bytes as usize);
            file.durable.truncate(bytes as usize);
        }
    }

    /// The disk after a power failure, by a seed.
    #[must_use]
    pub fn crashed(&self, seed: u64) -> Self {
        let mut state = self.state().clone();
        let mut dice = Dice::new(seed);
        state.lose_folder(&mut dice);
        // Sometimes all or nothing of the writes in flight.
        let kept_percent = [0, 100, 50, 90, 10][dice.below(5) as usize];
        for file in &mut state.files {
            file.lose(state.sector_bytes, kept_percent, &mut dice);
        }
        Self::of(state.restarted(dice))
    }

    /// The disk after the process was killed.
    #[must_use]
    pub fn as_seen(&self) -> Self {
        let state = self.state().clone();
        let dice = state.dice.clone();
        Self::of(state.restarted(dice))
    }

    /// Flips one written and durable bit of a segment. Returns false if the segment is too short.
    pub fn flip(&self, segment: u32, byte: u64, bit: u8) -> bool {
        let mut state = self.state();
        let Some(&file) = state.folder.get(&segment) else { return false };
        let file = &mut state.files[file];
        let at = byte as usize;
        if at >= file.written.len() {
            return false;
        }
        file.written[at] ^= 1 << bit;
        file.durable[at] ^= 1 << bit;
        true
    }

    /// The written bytes of a segment.
    #[must_use]
    pub fn bytes(&self, segment: u32) -> Option<Vec<u8>> {
        let state = self.state();
        state.folder.get(&segment).map(|&file| state.files[file].written.clone())
    }

    /// Limits the total size of all segments.
    pub fn set_capacity_bytes(&self, bytes: u64) {
        self.state().capacity_bytes = bytes;
    }

    /// Bytes of all segments.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// Lets a call of this kind fail after `after` successful ones.
    pub fn fail(&self, call: Call, after: u64) {
        self.state().failing.insert(call, after);
    }

    /// Simulates a power failure after `calls` more writing calls: all later ones fail.
    pub fn cut_after(&self, calls: u64) {
        self.state().calls_left = Some(calls);
    }

    /// The number of writing calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// The duration of an fsync.
    pub fn set_sync_us(&self, sync_us: u64) {
        self.state().sync_us = sync_us;
    }

    /// The total duration of all fsyncs so far.
    #[must_use]
    pub fn busy_us(&self) -> u64 {
        self.state().busy_us
    }
}

impl Bytes {
    fn write(&mut self, offset: usize, bytes: &[u8], sector_bytes: usize) {
        self.written[offset..offset + bytes.len()].copy_from_slice(bytes);
        for sector in offset / sector_bytes..(offset + bytes.len()).div_ceil(sector_bytes) {
            let start = sector * sector_bytes;
            let end = (start + sector_bytes).min(self.written.len());
            self.versions.entry(sector).or_default().push(self.written[start..end].to_vec());
        }
    }

    fn sync(&mut self) {
        self.versions.clear();
        self.durable.clone_from(&self.written);
    }

    fn lose(&mut self, sector_bytes: usize, kept_percent: u64, dice: &mut Dice) {
        for (sector, versions) in std::mem::take(&mut self.versions) {
            if dice.percent(kept_percent) {
                let last = versions.len() as u64 - 1;
                let version = if dice.percent(70) { last } else { dice.below(last + 1) };
                let bytes = &versions[version as usize];
                self.durable[sector * sector_bytes..][..bytes.len()].copy_from_slice(bytes);
            }
        }
        self.written.clone_from(&self.durable);
    }
}

impl State {
    fn restarted(self, dice: Dice) -> Self {
        Self { failing: BTreeMap::new(), unreadable: BTreeSet::new(), calls_left: None, dice, ..self }
    }

    fn lose_folder(&mut self, dice: &mut Dice) {
        let kept = dice.below(self.changes.len() as u64 + 1) as usize;
        let mut folder = self.durable_folder.clone();
        for change in std::mem::take(&mut self.changes).into_iter().take(kept) {
            if let Change::Create { file, .. } = change
                && dice.percent(50)
            {
                // The length of a new file was not durable either.
                let len = dice.below(self.files[file].written.len() as u64) as usize;
                let file = &mut self.files[file];
                file.versions.clear();
                file.written.truncate(len);
                file.durable.truncate(len);
            }
            change.apply(&mut folder);
        }
        self.folder.clone_from(&folder);
        self.durable_folder = folder;
    }

    fn used_bytes(&self) -> u64 {
        self.folder.values().map(|&file| self.files[file].written.len() as u64).sum()
    }

    /// Counts a call and returns its injected fault, if any.
    fn call(&mut self, call: Call) -> Result<(), Fault> {
        if call != Call::Read {
            self.calls += 1;
            match &mut self.calls_left {
                Some(0) => return Err(Fault::Failed("simulated power failure".to_owned())),
                Some(left) => *left -= 1,
                None => {}
            }
        }
        match self.failing.get_mut(&call) {
            Some(0) => {
                self.failing.remove(&call);
                Err(Fault::Failed(format!("simulated failure of {call:?}")))
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn file(&mut self, segment: u32) -> Result<&mut Bytes, Fault> {
        let file = *self.folder.get(&segment).ok_or(Fault::Missing)?;
        Ok(&mut self.files[file])
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.folder);
        self.changes.push(change);
    }
}

impl Change {
    fn apply(&self, folder: &mut BTreeMap<u32, usize>) {
        match *self {
            Self::Create { segment, file } => {
                folder.insert(segment, file);
            }
            Self::Remove { segment } => {
                folder.remove(&segment);
            }
            Self::Rename { from, to } => {
                if let Some(file) = folder.remove(&from) {
                    folder.insert(to, file);
                }
            }
        }
    }
}

impl Disk for SimulatedDisk {
    fn list(&self) -> Result<Vec<u32>, Fault> {
        Ok(self.state().folder.keys().copied().collect())
    }

    fn length(&self, segment: u32) -> Result<u64, Fault> {
        Ok(self.state().file(segment)?.written.len() as u64)
    }

    fn create(&self, segment: u32, bytes: u64) -> Result<(), Fault> {
        let mut state = self.state();
        state.call(Call::Create)?;
        if state.used_bytes() + bytes > state.capacity_bytes {
            return Err(Fault::Full);
        }
        let file = state.files.len();
        let zeros = vec![0; bytes as usize];
        state.files.push(Bytes { written: zeros.clone(), durable: zeros, versions: BTreeMap::new() });
        state.change(Change::Create { segment, file });
        Ok(())
    }

    fn write(&self, segment: u32, offset: u64, parts: &[IoSlice<'_>]) -> Result<(), Fault> {
        let mut state = self.state();
        let works = state.call(Call::Write);
        let sector_bytes = state.sector_bytes;
        let mut bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        if works.is_err() {
            // A failed write has written any prefix of its bytes.
            let kept = state.dice.below(bytes.len() as u64 + 1) as usize;
            bytes.truncate(kept);
        }
        let file = state.file(segment)?;
        if offset as usize + bytes.len() > file.written.len() {
            return Err(Fault::Failed("a write beyond the segment's end".to_owned()));
        }
        file.write(offset as usize, &bytes, sector_bytes);
        works
    }

    fn read(&self, segment: u32, offset: u64, into: &mut [u8]) -> Result<usize, Fault> {
        let mut state = self.state();
        state.call(Call::Read)?;
        if state.unreadable.contains(&segment) {
            return Err(Fault::Failed("Input/output error".to_owned()));
        }
        let written = &state.file(segment)?.written;
        let start = (offset as usize).min(written.len());
        let len = into.len().min(written.len() - start);
        into[..len].copy_from_slice(&written[start..start + len]);
        Ok(len)
    }

    fn sync(&self, segment: u32) -> Result<(), Fault> {
        let mut state = self.state();
        let works = state.call(Call::Sync);
        state.busy_us += state.sync_us;
        let sector_bytes = state.sector_bytes;
        let mut dice = state.dice.clone();
        let file = state.file(segment)?;
        if works.is_ok() {
            file.sync();
        } else {
            // The system discards the bytes that it could not write, but readers still see them.
            let written = file.written.clone();
            file.lose(sector_bytes, 50, &mut dice);
            file.written = written;
            state.dice = dice;
        }
        works
    }

    fn sync_folder(&self) -> Result<(), Fault> {
        let mut state = self.state();
        state.call(Call::SyncFolder)?;
        state.busy_us += state.sync_us;
        state.changes.clear();
        state.durable_folder = state.folder.clone();
        Ok(())
    }

    fn remove(&self, segment: u32) -> Result<(), Fault> {
        let mut state = self.state();
        state.call(Call::Rename)?;
        state.file(segment)?;
        state.change(Change::Remove { segment });
        Ok(())
    }

    fn recycle(&self, from: u32, to: u32) -> Result<(), Fault> {
        let mut state = self.state();
        state.call(Call::Rename)?;
        state.file(from)?;
        if state.folder.contains_key(&to) {
            return Err(Fault::Failed(format!("segment {to} exists already")));
        }
        state.change(Change::Rename { from, to });
        Ok(())
    }
}
