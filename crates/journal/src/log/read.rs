//! Reading messages, from any thread and concurrently with the owner.

use std::sync::Arc;

use super::disk::{Disk, Fault};
use super::frame::{HEAD_BYTES, Salt, check, repair};
use super::place::RecordLocation;
use super::record::{Kind, Record, Targets};

/// Maximum bytes of one read of several adjacent messages.
const RUN_BYTES: u32 = 256 << 10;
/// Maximum gap between two messages of one read, in bytes.
const GAP_BYTES: u32 = 4 << 10;

/// Why a message cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The bytes differ from what was written, or the log has deleted the segment: a reader that
    /// works concurrently with the owner looks up the location again.
    #[error("the message in segment {} at {} is damaged", .0.segment, .0.offset)]
    Damaged(RecordLocation),
    /// The disk cannot be read.
    #[error("segment {} cannot be read: {fault}", place.segment)]
    Disk {
        /// The location of the message.
        place: RecordLocation,
        /// The error of the disk.
        fault: Fault,
    },
}

/// Reads messages by their locations. It is cheap to clone, so each thread may have its own.
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

    /// The verified body of the message at a location, in `buffer`, which is overwritten.
    ///
    /// # Errors
    /// `Damaged` where a check fails, `Disk` where the disk cannot be read.
    pub fn read<'a>(&self, place: RecordLocation, buffer: &'a mut Vec<u8>) -> Result<&'a [u8], ReadError> {
        self.message(place, buffer).map(|(_, body)| body)
    }

    /// Reads many messages and passes each result to `each`. `places` is sorted, and results follow
    /// that order. Adjacent messages are read at once.
    pub fn read_all(
        &self,
        places: &mut [RecordLocation],
        buffer: &mut Vec<u8>,
        mut each: impl FnMut(RecordLocation, Result<&[u8], ReadError>),
    ) {
        places.sort_unstable_by_key(|place| (place.segment, place.offset));
        let mut rest = &places[..];
        while let Some(first) = rest.first() {
            let (count, end) = run(rest);
            let together;
            (together, rest) = rest.split_at(count);
            buffer.resize((end - first.offset) as usize, 0);
            // If a combined read fails, each message is read alone, so one fault does not fail the
            // others.
            let read = match together {
                [_] => None,
                _ => self.disk.read(first.segment, first.offset.into(), buffer).ok(),
            };
            let whole = read.is_some_and(|read| read == buffer.len());
            for place in together {
                if whole {
                    let from = (place.offset - first.offset) as usize;
                    each(*place, self.verify(*place, &mut buffer[from..][..place.len as usize]).map(|(_, body)| body));
                } else {
                    each(*place, self.read(*place, buffer));
                }
            }
        }
    }

    /// The targets and the body of the message at a location.
    pub(super) fn message<'a>(
        &self,
        place: RecordLocation,
        buffer: &'a mut Vec<u8>,
    ) -> Result<(Targets<'a>, &'a [u8]), ReadError> {
        buffer.resize(place.len as usize, 0);
        let read = self.disk.read(place.segment, place.offset.into(), buffer);
        let read = read.map_err(|fault| match fault {
            Fault::Missing => ReadError::Damaged(place),
            fault => ReadError::Disk { place, fault },
        })?;
        buffer.truncate(read);
        self.verify(place, buffer)
    }

    /// Verifies that the bytes read at a location are the message written there.
    fn verify<'a>(&self, place: RecordLocation, buffer: &'a mut [u8]) -> Result<(Targets<'a>, &'a [u8]), ReadError> {
        let salt = Salt::of(self.secret, place.segment);
        let head = check(buffer, salt, place.offset).or_else(|| repair(buffer, salt, place.offset));
        let head = head.filter(|head| head.frame_len() == Some(place.len) && head.kind == Kind::Message as u8);
        let head = head.filter(|_| buffer.len() == place.len as usize).ok_or(ReadError::Damaged(place))?;
        let (meta, body) = buffer[HEAD_BYTES..].split_at(head.meta_len as usize);
        match Record::decode(head.kind, meta) {
            Some(Record::Message(targets)) if crc32c::crc32c(body) == head.body_crc => Ok((targets, body)),
            _ => Err(ReadError::Damaged(place)),
        }
    }
}

/// The number of leading locations that one read covers, and the end of that read.
fn run(places: &[RecordLocation]) -> (usize, u32) {
    let end_of = |place: &RecordLocation| place.offset.saturating_add(place.len);
    let Some(first) = places.first() else { return (0, 0) };
    let mut end = end_of(first);
    let mut count = 1;
    for place in &places[1..] {
        let near = place.segment == first.segment && place.offset.saturating_sub(end) <= GAP_BYTES;
        if !near || end_of(place).saturating_sub(first.offset) > RUN_BYTES {
            break;
        }
        end = end.max(end_of(place));
        count += 1;
    }
    (count, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_records_are_read_in_one_run() {
        let place = |segment, offset, len| RecordLocation { segment, offset, len };
        assert_eq!(run(&[]), (0, 0));
        assert_eq!(run(&[place(1, 50, 10)]), (1, 60));
        let near = [place(1, 0, 10), place(1, 10, 20), place(1, 10, 5), place(1, 30 + GAP_BYTES, 1)];
        assert_eq!(run(&near), (4, 31 + GAP_BYTES));
        assert_eq!(run(&[near[0], place(1, 11 + GAP_BYTES, 1)]), (1, 10), "too far apart");
        assert_eq!(run(&[near[0], place(2, 10, 20)]), (1, 10), "another segment");
        assert_eq!(run(&[near[0], place(1, 10, RUN_BYTES)]), (1, 10), "too much at once");
        assert_eq!(run(&[place(1, 0, 4 * RUN_BYTES)]), (1, 4 * RUN_BYTES), "a large one is alone");
        assert_eq!(run(&[place(1, u32::MAX - 5, 10)]), (1, u32::MAX), "an invalid end is cut");
    }
}
