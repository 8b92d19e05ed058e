//! The thread that reads messages for the workers.
//!
//! The worker repeats a failed read, because it knows how long others may wait for it. This thread
//! reports the failure as an event and in the statistics, once per segment until it is readable
//! again.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use enmasse_journal::log::{ReadError, Reader, RecordLocation};
use enmasse_router::core::Read;

use super::reports::ReadReports;
use super::{Mailboxes, Wanted};
use crate::command::Command;
use crate::disk::FolderDisk;

pub(super) struct Reading {
    pub(super) reader: Reader<FolderDisk>,
    pub(super) mailboxes: Mailboxes,
    pub(super) reports: Arc<ReadReports>,
}

impl Reading {
    pub(super) fn run(self, orders: &Receiver<Wanted>) {
        let mut buffer = Vec::new();
        while let Ok(Wanted::Bodies(worker, mut places)) = orders.recv() {
            let mut reads = Vec::with_capacity(places.len());
            self.reader.read_all(&mut places, &mut buffer, |place, read| {
                self.note(place, read.as_ref().err());
                reads.push((place, Read::from(read)));
            });
            self.mailboxes[usize::from(worker)].post([Command::Fetched(reads)]);
        }
    }

    fn note(&self, place: RecordLocation, error: Option<&ReadError>) {
        match error {
            Some(ReadError::Disk { fault, .. }) => self.reports.failed(place.segment, fault),
            Some(ReadError::Damaged(_)) | None => self.reports.read(place.segment),
        }
    }
}
