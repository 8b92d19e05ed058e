//! The control: only plain writes and fsyncs of the same bytes, into files like those of the log.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use crate::commits::{Commits, Failed, Segments, noise};

const FILE_BYTES: u64 = 64 << 20;
const FILES: usize = 8;
/// Bytes of the writes that fill a file before a run. The page cache keeps a file in folios of the
/// size of its first writes, and small writes into large folios cost more, so these writes are as
/// large as those that warm the log.
const WARM_BYTES: u64 = 4 << 20;

/// Writes of this many bytes, each synced.
pub(crate) struct Bare {
    files: Files,
    segments: Segments,
    source: Vec<u8>,
    bytes: usize,
    file: File,
    at: u64,
    count: usize,
}

impl Bare {
    pub(crate) fn new(folder: &Path, bytes: usize, segments: Segments) -> Result<Self, Failed> {
        let mut files = Files { folder: folder.to_owned(), made: 0, ready: VecDeque::new() };
        if segments == Segments::Recycled {
            let once = noise(WARM_BYTES as usize);
            for _ in 0..FILES {
                let file = files.make()?;
                for at in 0..FILE_BYTES / WARM_BYTES {
                    file.write_all_at(&once, at * WARM_BYTES)?;
                }
                file.sync_all()?;
                files.ready.push_back(file);
            }
        }
        let file = files.next(segments)?;
        Ok(Self { files, segments, source: noise(bytes + 4096), bytes, file, at: 0, count: 0 })
    }
}

impl Commits for Bare {
    fn commit(&mut self) -> Result<(), Failed> {
        if self.at + self.bytes as u64 > FILE_BYTES {
            let next = self.files.next(self.segments)?;
            self.files.ready.push_back(std::mem::replace(&mut self.file, next));
            self.at = 0;
        }
        let start = self.count % 4096;
        self.file.write_all_at(&self.source[start..start + self.bytes], self.at)?;
        self.file.sync_data()?;
        self.at += self.bytes as u64;
        self.count += 1;
        Ok(())
    }
}

struct Files {
    folder: PathBuf,
    made: u32,
    ready: VecDeque<File>,
}

impl Files {
    fn make(&mut self) -> std::io::Result<File> {
        self.made += 1;
        let path = self.folder.join(format!("{}.bare", self.made));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        fallocate(&file, FallocateFlags::empty(), 0, FILE_BYTES)?;
        file.sync_all()?;
        File::open(&self.folder)?.sync_all()?;
        Ok(file)
    }

    fn next(&mut self, segments: Segments) -> std::io::Result<File> {
        match segments {
            Segments::Growing => self.make(),
            Segments::Recycled => self.ready.pop_front().map_or_else(|| self.make(), Ok),
        }
    }
}
