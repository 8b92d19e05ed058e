//! The journal's threads: the owner commits the batches of the workers, the reader reads bodies.
//!
//! Group commit needs no timer: the next batches are collected while an fsync runs, and [`CommitSchedule`]
//! chooses those to write next. The producers' windows bound the requests; a worker passes one
//! batch of each kind per turn, and more only for large messages.

mod backoff;
mod owner;
mod reading;
mod reports;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use enmasse_journal::log::{Config, Lane, Log, OpenError, RecordLocation, Recovered, Refused, Unnamed, WriteBatch};
use enmasse_router::core::Digests;

use crate::command::Command;
use crate::disk::{FolderDisk, PRIVATE};
use crate::events::EventQueue;
use crate::mailbox::Mailbox;
use crate::stats::JournalStats;
use crate::threads;
use owner::Owner;
use reading::Reading;
use reports::ReadReports;

/// Name of the file with the key of digests, next to the segments.
const KEY_FILE: &str = "digests.key";

type Mailboxes = Vec<Arc<Mailbox<Command>>>;

/// Requests to the owner of the log.
pub(crate) enum JournalRequest {
    /// append a worker's batch, and send it back once it is on disk; the order counts within a lane
    Append(Lane, WriteBatch),
    /// append a batch for a waiting caller
    Commit(WriteBatch, Sender<Result<(), Refused>>),
    /// stop once everything is on disk
    Stop,
}

/// Requests to the reader.
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
/// Call [`stop`](Self::stop) after the workers have ended: later batches are not written.
#[derive(Debug)]
pub(crate) struct Journal {
    requests: Sender<JournalRequest>,
    wanted: Sender<Wanted>,
    stats: Arc<Mutex<JournalStats>>,
}

/// An open journal whose threads have not started.
pub(crate) struct Opened {
    log: Log<FolderDisk>,
    /// its recovered state
    pub(crate) recovered: Recovered,
    /// messages without a declared address that stay
    unnamed: Unnamed,
    /// the key of digests, generated when the journal was created
    pub(crate) digests: Digests,
}

impl Opened {
    /// Opens the journal in a folder, which is made if it is missing. `segment_bytes` is the size
    /// of new files.
    ///
    /// # Errors
    /// The reason as text: the folder cannot be used, or was written by another version.
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
        let unnamed = recovered.unnamed();
        Ok(Self { log, recovered, unnamed, digests: Digests::new(key) })
    }

    /// Deletes the messages without a declared address.
    ///
    /// # Errors
    /// The reason as text: the disk is full or fails.
    pub(crate) fn without_unnamed(mut self) -> Result<Self, String> {
        let discarded = self.log.discard_unnamed(&self.recovered);
        discarded.map_err(|refused| format!("messages without a declared address cannot be discarded: {refused}"))?;
        Ok(Self { unnamed: Unnamed::default(), ..self })
    }

    /// Starts the threads.
    pub(crate) fn start(
        self,
        mailboxes: &Mailboxes,
        events: &Arc<EventQueue>,
    ) -> io::Result<(Journal, Vec<JoinHandle<()>>)> {
        let (requests, post) = channel();
        let (wanted, orders) = channel();
        let stats = Arc::new(Mutex::new(JournalStats { unnamed: self.unnamed, ..JournalStats::default() }));
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

/// The key in the folder, or `fresh`, which is then stored there. It is written atomically, because
/// a truncated key would make the journal unusable.
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
    /// Passes a batch to the owner. After `stop` there is no receiver and no answer.
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

    /// Counts lost messages of an address.
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
    fn digest_key_persists_and_a_partially_written_one_is_replaced() {
        let folder = Folder::new("digests");
        std::fs::write(folder.path("digests.key.new"), [7; 3]).unwrap();
        assert_eq!(key_in(&folder.path(""), &[1; 16]).unwrap(), [1; 16]);
        assert_eq!(key_in(&folder.path(""), &[2; 16]).unwrap(), [1; 16]);
        assert!(!folder.path("digests.key.new").exists());
    }

    #[test]
    fn truncated_digest_key_is_refused_with_its_file_name() {
        let folder = Folder::new("digests-damaged");
        std::fs::write(folder.path("digests.key"), [7; 15]).unwrap();
        let reported = key_in(&folder.path(""), &[1; 16]).unwrap_err().to_string();
        assert!(reported.contains("digests.key"), "{reported}");
    }
}
