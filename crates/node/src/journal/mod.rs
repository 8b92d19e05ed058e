//! The log's threads: one owns it and commits what workers have passed on; one reads.
//!
//! No timer: while a sync runs, the next batches come together, and [`Commits`] says which are
//! written next. Requests are bounded by the producers' windows; a worker passes one batch of each
//! kind a turn, and more only for large messages.

mod backoff;
mod owner;
mod reading;
mod reports;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use enmasse_journal::log::{Config, Lane, Log, LogStats, OpenError, RecordLocation, Recovered, Refused, WriteBatch};
use enmasse_router::core::Digests;

use crate::disk::{FolderDisk, PRIVATE};
use crate::events::EventQueue;
use crate::mailbox::Mailbox;
use crate::threads;
use crate::worker::Command;
use owner::Owner;
use reading::Reading;
use reports::ReadReports;

/// Name of the file with the key of digests, next to the segments.
const KEY_FILE: &str = "digests.key";

type Mailboxes = Vec<Arc<Mailbox<Command>>>;

/// To the owner of the log.
pub(crate) enum JournalRequest {
    /// append a worker's batch, and send it back once it is on disk; the order counts within a lane
    Append(Lane, WriteBatch),
    /// append a batch for a caller that waits
    Commit(WriteBatch, Sender<Result<(), Refused>>),
    /// end, with everything on disk
    Stop,
}

/// To the reader.
pub(crate) enum Wanted {
    /// bodies for a worker
    Bodies(u16, Vec<RecordLocation>),
    /// end
    Stop,
}

/// The handle of a running journal, shared by the workers.
///
/// [`Opened::at`] recovers the log and [`Opened::start`] starts its threads. Then there are three
/// kinds of calls, from any thread:
///
/// - Asynchronous: [`append`](Self::append) passes a worker's batch on, [`read`](Self::read)
///   requests bodies. Both return at once; the answers reach the worker's mailbox, those of
///   `append` in the order of the batches of a lane.
/// - Synchronous: [`commit`](Self::commit) waits until its batch is on disk. Workers never call it.
/// - Observation: [`stats`](Self::stats), [`note_damaged`](Self::note_damaged).
///
/// [`stop`](Self::stop) comes last, after the workers: later batches are not written.
#[derive(Debug)]
pub(crate) struct Journal {
    requests: Sender<JournalRequest>,
    wanted: Sender<Wanted>,
    stats: Arc<Mutex<JournalStats>>,
}

/// Statistics of the journal.
#[derive(Clone, Debug, Default)]
pub(crate) struct JournalStats {
    /// the log's own
    pub(crate) log: LogStats,
    /// why it takes nothing any more, if so
    pub(crate) stopped: Option<String>,
    /// reads that failed
    pub(crate) read_errors: u64,
    /// a segment that cannot be read now, and why
    pub(crate) unreadable: Option<String>,
    /// messages that the disk has lost since the start, by the uid of their address
    pub(crate) damaged: BTreeMap<String, u64>,
}

/// An open journal whose threads have not started.
pub(crate) struct Opened {
    log: Log<FolderDisk>,
    /// its recovered state
    pub(crate) recovered: Recovered,
    /// the key of digests, drawn when the journal was new
    pub(crate) digests: Digests,
}

impl Opened {
    /// Opens the journal in a folder, which is made if it is missing. `segment_bytes` is the size
    /// of new files.
    ///
    /// # Errors
    /// In words: the folder cannot be used, or was written by another version.
    pub(crate) fn at(folder: &Path, segment_bytes: u32, secret: [u8; 20]) -> Result<Self, String> {
        let in_folder = |error: io::Error| format!("{}: {error}", folder.display());
        let disk = FolderDisk::open(folder).map_err(in_folder)?;
        let (key, seed) = secret.split_at(16);
        let key = key_in(folder, key).map_err(in_folder)?;
        let secret = seed.iter().fold(0, |number, byte| (number << 8) | u32::from(*byte));
        let opened = Log::open(Arc::new(disk), Config { segment_bytes, secret, ..Config::default() });
        let (mut log, recovered) = opened.map_err(|error: OpenError| format!("{}: {error}", folder.display()))?;
        if let Err(Refused::NoRoom(fault)) = log.begin() {
            let needed = (u64::from(segment_bytes) * (Config::default().reserve_segments as u64 + 1)) >> 20;
            let folder = folder.display();
            return Err(format!(
                "{folder}: {fault}: a new journal needs {needed} MiB; make room, or choose another disk"
            ));
        }
        Ok(Self { log, recovered, digests: Digests::new(key) })
    }

    /// Starts the threads.
    pub(crate) fn start(
        self,
        mailboxes: &Mailboxes,
        events: &Arc<EventQueue>,
    ) -> io::Result<(Journal, Vec<JoinHandle<()>>)> {
        let (requests, post) = channel();
        let (wanted, orders) = channel();
        let stats = Arc::new(Mutex::default());
        let reports = Arc::new(ReadReports::new(Arc::clone(&stats), Arc::clone(events)));
        let reading =
            Reading { reader: self.log.reader(), mailboxes: mailboxes.clone(), reports: Arc::clone(&reports) };
        let owner = Owner::new(self.log, mailboxes.clone(), Arc::clone(&stats), reports);
        let handles = vec![
            threads::spawn("journal", move || owner.run(&post))?,
            threads::spawn("reader", move || reading.run(&orders))?,
        ];
        Ok((Journal { requests, wanted, stats }, handles))
    }
}

/// The key in the folder; without one, `fresh`, which is stored there. It is there whole or not at
/// all: half a key would keep the journal shut for ever.
fn key_in(folder: &Path, fresh: &[u8]) -> io::Result<[u8; 16]> {
    let path = folder.join(KEY_FILE);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let draft = folder.join(format!("{KEY_FILE}.new"));
            let mut file = File::options().write(true).create(true).truncate(true).mode(PRIVATE).open(&draft)?;
            file.write_all(fresh)?;
            file.sync_all()?;
            std::fs::rename(&draft, &path)?;
            File::open(folder)?.sync_all()?;
            fresh.to_vec()
        }
        Err(error) => return Err(error),
    };
    let damaged = || {
        let reason = format!("{KEY_FILE} does not have 16 bytes: restore it from a backup");
        io::Error::new(io::ErrorKind::InvalidData, reason)
    };
    bytes.try_into().map_err(|_| damaged())
}

impl Journal {
    /// Passes a batch to the owner. Once the node stops there is no receiver: then nothing is
    /// answered.
    pub(crate) fn append(&self, lane: Lane, batch: WriteBatch) {
        let _ = self.requests.send(JournalRequest::Append(lane, batch));
    }

    /// Requests bodies.
    pub(crate) fn read(&self, worker: u16, places: Vec<RecordLocation>) {
        let _ = self.wanted.send(Wanted::Bodies(worker, places));
    }

    /// Appends a batch and waits until it is on disk.
    pub(crate) fn commit(&self, batch: WriteBatch) -> Result<(), Refused> {
        let (answer, answered) = channel();
        let gone = || Refused::Stopped("the node is shutting down".to_owned());
        self.requests.send(JournalRequest::Commit(batch, answer)).map_err(|_| gone())?;
        answered.recv().unwrap_or_else(|_| Err(gone()))
    }

    /// Statistics of the journal.
    pub(crate) fn stats(&self) -> JournalStats {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An address has lost messages.
    pub(crate) fn note_damaged(&self, uid: String, count: u64) {
        let mut stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        *stats.damaged.entry(uid).or_default() += count;
    }

    /// Ends the threads after everything that was passed to them is on disk.
    pub(crate) fn stop(&self) {
        let _ = self.requests.send(JournalRequest::Stop);
        let _ = self.wanted.send(Wanted::Stop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;

    #[test]
    fn the_key_of_digests_stays_and_half_a_key_that_a_crash_left_is_drawn_anew() {
        let folder = Folder::new("digests");
        std::fs::write(folder.path("digests.key.new"), [7; 3]).unwrap();
        assert_eq!(key_in(&folder.path(""), &[1; 16]).unwrap(), [1; 16]);
        assert_eq!(key_in(&folder.path(""), &[2; 16]).unwrap(), [1; 16]);
        assert!(!folder.path("digests.key.new").exists());
    }

    #[test]
    fn a_key_that_is_not_whole_is_refused_by_its_name() {
        let folder = Folder::new("digests-damaged");
        std::fs::write(folder.path("digests.key"), [7; 15]).unwrap();
        let reported = key_in(&folder.path(""), &[1; 16]).unwrap_err().to_string();
        assert!(reported.contains("digests.key"), "{reported}");
    }
}
