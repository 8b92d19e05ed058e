//! The log's threads: one owns it and commits what all workers have handed over with one sync; one reads.
//!
//! No timer: while a sync runs, the next batches come together. Letters are as bounded as what producers may have on
//! the way; a worker hands over one batch of each kind a turn, and more only of what is large.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use enmasse_journal::log::{Batch, Config, Figures, Log, OpenError, Place, ReadError, Reader, Recovered, Refused};
use enmasse_router::core::{Answer, Digests};

use crate::disk::FolderDisk;
use crate::mailbox::Mailbox;
use crate::threads;
use crate::worker::Command;

/// Name of the file beside the segments with the key of digests.
const KEY_FILE: &str = "digests.key";

/// How long nothing has come when the log writes down how far it is durable, and until a failed read is tried again.
const REST: Duration = Duration::from_secs(1);

/// How long workers have for a share of a segment that is to be written again; when none has come by then they have none.
const COPYING: Duration = Duration::from_secs(60);

type Mailboxes = Vec<Arc<Mailbox<Command>>>;

/// What lies at places of the log; `None` where it is damaged.
type Bodies = Vec<(Place, Option<Vec<u8>>)>;

/// To the owner of the log.
pub(crate) enum Letter {
    /// append a worker's batch, and send it back once it is on disk
    Append(u16, Batch),
    /// append a batch for somebody who waits
    Commit(Batch, Sender<Result<(), Refused>>),
    /// end, with everything on disk
    Stop,
}

/// To the reader.
pub(crate) enum Wanted {
    /// bodies for a worker
    Bodies(u16, Vec<Place>),
    /// end
    Stop,
}

/// A journal that runs.
#[derive(Debug)]
pub(crate) struct Journal {
    letters: Sender<Letter>,
    wanted: Sender<Wanted>,
    figures: Arc<Mutex<JournalFigures>>,
}

/// What the journal says of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct JournalFigures {
    /// the log's own
    pub(crate) log: Figures,
    /// why it takes nothing any more, if so
    pub(crate) stopped: Option<String>,
}

/// A journal that was opened and whose threads have not started.
pub(crate) struct Opened {
    log: Log<FolderDisk>,
    /// what it knew
    pub(crate) recovered: Recovered,
    /// the key of digests, drawn when the journal was new
    pub(crate) digests: Digests,
}

impl Opened {
    /// Opens the journal in a folder, which is made if it is missing. `segment_bytes` is the size of new files.
    ///
    /// # Errors
    /// In words: the folder cannot be used, or was written by another version.
    pub(crate) fn at(folder: &Path, segment_bytes: u32, secret: [u8; 20]) -> Result<Self, String> {
        let in_folder = |error: io::Error| format!("{}: {error}", folder.display());
        let disk = FolderDisk::open(folder).map_err(in_folder)?;
        let (key, seed) = secret.split_at(16);
        let key = key_in(folder, key).map_err(in_folder)?;
        let secret = seed.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
        let opened = Log::open(Arc::new(disk), Config { segment_bytes, secret, ..Config::default() });
        let (log, recovered) = opened.map_err(|error: OpenError| format!("{}: {error}", folder.display()))?;
        Ok(Self { log, recovered, digests: Digests::new(key) })
    }

    /// Starts the threads.
    pub(crate) fn start(self, mailboxes: &Mailboxes) -> io::Result<(Journal, Vec<JoinHandle<()>>)> {
        let (letters, post) = channel();
        let (wanted, orders) = channel();
        let figures = Arc::new(Mutex::default());
        let reader = self.log.reader();
        let owner = Owner { log: self.log, mailboxes: mailboxes.clone(), figures: Arc::clone(&figures), asked: None };
        let boxes = mailboxes.clone();
        let handles = vec![
            threads::spawn("journal", move || owner.run(&post))?,
            threads::spawn("reader", move || read(&reader, &boxes, &orders))?,
        ];
        Ok((Journal { letters, wanted, figures }, handles))
    }
}

/// The key in the folder; `fresh`, kept there, if there is none. It is there whole or not at all: half a key would keep
/// the journal shut for ever.
fn key_in(folder: &Path, fresh: &[u8]) -> io::Result<[u8; 16]> {
    let path = folder.join(KEY_FILE);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let draft = folder.join(format!("{KEY_FILE}.new"));
            let mut file = File::create(&draft)?;
            file.write_all(fresh)?;
            file.sync_all()?;
            std::fs::rename(&draft, &path)?;
            File::open(folder)?.sync_all()?;
            fresh.to_vec()
        }
        Err(error) => return Err(error),
    };
    let damaged = || {
        let reason = format!("{KEY_FILE} has not 16 bytes: bring it back from a backup");
        io::Error::new(io::ErrorKind::InvalidData, reason)
    };
    bytes.try_into().map_err(|_| damaged())
}

impl Journal {
    /// Hands a batch over. Nobody listens any more once the node stops: then nothing is answered.
    pub(crate) fn append(&self, worker: u16, batch: Batch) {
        let _ = self.letters.send(Letter::Append(worker, batch));
    }

    /// Asks for bodies.
    pub(crate) fn read(&self, worker: u16, places: Vec<Place>) {
        let _ = self.wanted.send(Wanted::Bodies(worker, places));
    }

    /// Appends a batch and waits until it is on disk.
    pub(crate) fn commit(&self, batch: Batch) -> Result<(), Refused> {
        let (answer, answered) = channel();
        let gone = || Refused::Stopped("the node is going down".to_owned());
        self.letters.send(Letter::Commit(batch, answer)).map_err(|_| gone())?;
        answered.recv().unwrap_or_else(|_| Err(gone()))
    }

    /// What the journal says of itself.
    pub(crate) fn figures(&self) -> JournalFigures {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the threads, with everything on disk that was handed over.
    pub(crate) fn stop(&self) {
        let _ = self.letters.send(Letter::Stop);
        let _ = self.wanted.send(Wanted::Stop);
    }
}

/// The thread that owns the log.
struct Owner {
    log: Log<FolderDisk>,
    mailboxes: Mailboxes,
    figures: Arc<Mutex<JournalFigures>>,
    /// the segment that was to be compacted last, the messages copied until then, and when it was asked for
    asked: Option<(u32, u64, Instant)>,
}

impl Owner {
    fn run(mut self, post: &Receiver<Letter>) {
        let mut letters = Vec::new();
        let mut wait = Duration::ZERO;
        loop {
            match post.recv_timeout(wait) {
                Ok(letter) => letters.push(letter),
                // A log that has stopped has nothing to say.
                Err(RecvTimeoutError::Timeout) if !wait.is_zero() => {
                    let _ = self.log.rest();
                    wait = Duration::MAX;
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            letters.extend(post.try_iter());
            let stop = letters.iter().any(|letter| matches!(letter, Letter::Stop));
            self.work(&mut letters);
            if stop {
                return;
            }
            // Nor has it anything to tidy.
            wait = if self.log.turn().unwrap_or(false) { Duration::ZERO } else { REST };
            self.ask_for_compaction();
            self.publish();
        }
    }

    /// Appends what has come, syncs once, answers.
    fn work(&mut self, letters: &mut Vec<Letter>) {
        if letters.is_empty() {
            return;
        }
        let mut answers: Vec<Vec<Answer>> = self.mailboxes.iter().map(|_| Vec::new()).collect();
        let mut waiting = Vec::new();
        for letter in letters.drain(..) {
            match letter {
                Letter::Append(worker, mut batch) => {
                    let result = self.log.append(&mut batch);
                    answers[usize::from(worker)].push(Answer { batch, result });
                }
                Letter::Commit(mut batch, answer) => waiting.push((self.log.append(&mut batch), answer)),
                Letter::Stop => {}
            }
        }
        let synced = self.log.sync();
        for (mailbox, mut answers) in self.mailboxes.iter().zip(answers) {
            if answers.is_empty() {
                continue;
            }
            for answer in &mut answers {
                answer.result = std::mem::replace(&mut answer.result, Ok(())).and_then(|()| synced.clone());
            }
            mailbox.post([Command::Journaled(answers)]);
        }
        for (result, answer) in waiting {
            // Who does not wait any more has no use for it.
            let _ = answer.send(result.and_then(|()| synced.clone()));
        }
    }

    fn ask_for_compaction(&mut self) {
        // Asked for once, and again when a share of it has been written: workers look through all their queues.
        let Some(segment) = self.log.wants_compacted() else { return self.asked = None };
        let copied = self.log.figures().copied;
        match self.asked {
            Some((before, until, at)) if (before, until) == (segment, copied) => {
                if at.elapsed() >= COPYING {
                    self.log.pass_over(segment);
                }
            }
            _ => {
                for mailbox in &self.mailboxes {
                    mailbox.post([Command::Compact(segment)]);
                }
                self.asked = Some((segment, copied, Instant::now()));
            }
        }
    }

    fn publish(&self) {
        let mut figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        figures.log = self.log.figures();
        figures.stopped = self.log.stopped().map(str::to_owned);
    }
}

/// The thread that reads. What the disk does not give is asked for again after a rest: it is not lost yet, and nobody is
/// told that it was. No more waits for that than workers may have asked for.
fn read(reader: &Reader<FolderDisk>, mailboxes: &Mailboxes, orders: &Receiver<Wanted>) {
    let mut failed: Vec<(u16, Vec<Place>)> = Vec::new();
    let mut next = Instant::now();
    let mut buffer = Vec::new();
    loop {
        let rest = next.saturating_duration_since(Instant::now());
        let order = match orders.recv_timeout(if failed.is_empty() { Duration::MAX } else { rest }) {
            Ok(Wanted::Bodies(worker, places)) => vec![(worker, places)],
            Err(RecvTimeoutError::Timeout) => std::mem::take(&mut failed),
            Ok(Wanted::Stop) | Err(RecvTimeoutError::Disconnected) => return,
        };
        for (worker, places) in order {
            let (bodies, again) = read_all(reader, places, &mut buffer);
            if !bodies.is_empty() {
                mailboxes[usize::from(worker)].post([Command::Fetched(bodies)]);
            }
            if !again.is_empty() {
                if failed.is_empty() {
                    next = Instant::now() + REST;
                }
                failed.push((worker, again));
            }
        }
    }
}

/// What lies at places, `None` where it is damaged, and the places that the disk did not give.
fn read_all(reader: &Reader<FolderDisk>, mut places: Vec<Place>, buffer: &mut Vec<u8>) -> (Bodies, Vec<Place>) {
    let (mut bodies, mut again) = (Vec::with_capacity(places.len()), Vec::new());
    reader.read_all(&mut places, buffer, |place, body| match body {
        Ok(body) => bodies.push((place, Some(body.to_vec()))),
        Err(ReadError::Damaged(place)) => bodies.push((place, None)),
        Err(ReadError::Disk { .. }) => again.push(place),
    });
    (bodies, again)
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
        let said = key_in(&folder.path(""), &[1; 16]).unwrap_err().to_string();
        assert!(said.contains("digests.key"), "{said}");
    }
}
