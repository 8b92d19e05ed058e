//! Reading messages back, beside the owner and from any thread.

use std::sync::Arc;

use super::disk::{Disk, Fault};
use super::frame::{HEAD_BYTES, Salt, check, mend};
use super::place::Place;
use super::record::{Kind, Record, Targets};

/// Why a message cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// What lies there is not what was written, or something else lies there by now: a reader that works beside the
    /// owner asks again where the message is.
    #[error("the message in segment {} at {} is damaged", .0.segment, .0.offset)]
    Damaged(Place),
    /// The disk cannot be read.
    #[error("segment {} cannot be read: {fault}", place.segment)]
    Disk {
        /// What was to be read.
        place: Place,
        /// What the disk says.
        fault: Fault,
    },
}

/// Reads messages by their places. Cheap to clone; every thread may have its own.
#[derive(Debug)]
pub struct Reader<D> {
    disk: Arc<D>,
    secret: u32,
}

impl<D> Clone for Reader<D> {
    fn clone(&self) -> Self {
        Self { disk: Arc::clone(&self.disk), secret: self.secret }
    }
}

impl<D: Disk> Reader<D> {
    pub(super) fn new(disk: Arc<D>, secret: u32) -> Self {
        Self { disk, secret }
    }

    /// The body of the message at a place, checked; `buffer` is overwritten and holds it.
    ///
    /// # Errors
    /// `Damaged` where a check fails, `Disk` where the disk cannot be read.
    pub fn read<'a>(&self, place: Place, buffer: &'a mut Vec<u8>) -> Result<&'a [u8], ReadError> {
        self.message(place, buffer).map(|(_, body)| body)
    }

    /// The targets and the body of the message at a place.
    pub(super) fn message<'a>(
        &self,
        place: Place,
        buffer: &'a mut Vec<u8>,
    ) -> Result<(Targets<'a>, &'a [u8]), ReadError> {
        buffer.resize(place.len as usize, 0);
        let read = self.disk.read(place.segment, place.offset.into(), buffer);
        let read = read.map_err(|fault| match fault {
            Fault::Missing => ReadError::Damaged(place),
            fault => ReadError::Disk { place, fault },
        })?;
        buffer.truncate(read);
        let buffer = buffer.as_mut_slice();
        let salt = Salt::of(self.secret, place.segment);
        let head = check(buffer, salt, place.offset).or_else(|| mend(buffer, salt, place.offset));
        let head = head.filter(|head| head.frame_len() == Some(place.len) && head.kind == Kind::Message as u8);
        let head = head.filter(|_| read == place.len as usize).ok_or(ReadError::Damaged(place))?;
        let (meta, body) = buffer[HEAD_BYTES..].split_at(head.meta_len as usize);
        match Record::decode(head.kind, meta) {
            Some(Record::Message(targets)) if crc32c::crc32c(body) == head.body_crc => Ok((targets, body)),
            _ => Err(ReadError::Damaged(place)),
        }
    }
}
