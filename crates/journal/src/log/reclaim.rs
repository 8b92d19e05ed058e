//! Reclaiming space, one step at a time.

use std::collections::BTreeMap;

use super::Log;
use super::batch::WriteBatch;
use super::config::Refused;
use super::disk::{Disk, Fault};
use super::lines::{Lines, lines};
use super::record::{Kind, Line, Record, put_declare, put_drop, put_remove, put_state};
use super::scan::Extent;
use super::space::Readable;
use super::wire::Take;

impl<D: Disk> Log<D> {
    /// The segment to compact: the queues should copy its live messages (`WriteBatch::copy`), some
    /// each turn. It is the same segment until it has no live message. `None` while the log is
    /// smaller than twice its live bytes.
    pub fn wants_compacted(&mut self) -> Option<u32> {
        let alive = |number: u32| self.space.segments.get(&number).is_some_and(|segment| segment.messages > 0);
        if !self.compacting.is_some_and(alive) {
            let slack = u64::from(self.config.slack_segments) * u64::from(self.config.segment_bytes);
            self.compacting = self.space.sparsest(self.active.as_ref().map(|active| active.number), slack);
        }
        self.compacting
    }

    /// Skips a segment in compaction, because no queue can copy its remaining live messages: they
    /// cannot be read. It is skipped until its number of live messages changes.
    pub fn pass_over(&mut self, segment: u32) {
        if let Some(segment) = self.space.segments.get_mut(&segment) {
            segment.passed_over = Some(segment.messages);
        }
        self.compacting = self.compacting.filter(|compacting| *compacting != segment);
    }

    /// One step of deferred work: deletes a segment, copies live records out of a segment, or
    /// creates a spare. Call it after each `sync`, and when idle with a `sync` before each call,
    /// for as long as it returns that it did something. A step takes some milliseconds for segments
    /// of the usual size.
    ///
    /// # Errors
    /// `Unsure` when a write fails, and `Stopped` from then on. Neither a full disk nor an
    /// unreadable segment ([`Log::take_read_fault`]) is an error here: the step is postponed.
    pub fn turn(&mut self) -> Result<bool, Refused> {
        self.check()?;
        self.list_active_if_due();
        self.write_catalog();
        self.check()?;
        // A segment is deleted only once the copies of its records are durable.
        if !self.is_dirty()
            && let Some(segment) = self.space.emptied(self.active())
            && self.reclaim(segment)?
        {
            return Ok(true);
        }
        if self.lacks_spare() {
            return match self.add_spare() {
                Err(Refused::NoRoom(_)) => Ok(false),
                added => added.map(|()| true),
            };
        }
        Ok(false)
    }

    /// The segment that could not be read for its reclaim since the last call, and the error. The
    /// segment stays until [`Log::retry_reads`].
    pub fn take_read_fault(&mut self) -> Option<(u32, Fault)> {
        self.read_fault.take()
    }

    /// Segments that could not be read for their reclaim, and were not read since.
    pub fn unreadable(&self) -> impl Iterator<Item = u32> {
        let segments = self.space.segments.iter();
        segments.filter(|(_, segment)| segment.readable != Readable::Yes).map(|(&number, _)| number)
    }

    /// Lets [`Log::turn`] retry the segments that could not be read.
    pub fn retry_reads(&mut self) {
        for segment in self.space.segments.values_mut().filter(|segment| segment.readable == Readable::No) {
            segment.readable = Readable::Retry;
        }
    }

    /// Deletes a segment without live messages, or first copies its remaining live records.
    fn reclaim(&mut self, number: u32) -> Result<bool, Refused> {
        let segment = self.space.get(number);
        let needed = segment.facts > 0 || !segment.removes_from.is_empty();
        if segment.is_copied || !needed {
            return self.release(number).map(|()| true);
        }
        let lines = match lines(&*self.disk, number, self.salt(number), Extent::Whole) {
            Ok(lines) => lines,
            Err(fault) => {
                // The segment stays with its records, so nothing is lost.
                self.space.get(number).readable = Readable::No;
                self.read_fault = Some((number, fault));
                return Ok(true);
            }
        };
        self.space.get(number).readable = Readable::Yes;
        let mut batch = WriteBatch::new();
        self.copy_live(number, &lines, &mut batch);
        if !self.space.get(number).is_worth_copying((batch.bytes.len() + batch.index.len()) as u64) {
            return Ok(true);
        }
        match self.append(&mut batch) {
            Ok(()) => {}
            Err(Refused::NoRoom(_)) => return Ok(false),
            Err(refused) => return Err(refused),
        }
        self.space.get(number).is_copied = true;
        Ok(true)
    }

    /// Copies the live records of a segment into a batch.
    fn copy_live(&mut self, number: u32, lines: &Lines, batch: &mut WriteBatch) {
        let mut states: BTreeMap<(u32, &[u8]), &[u8]> = BTreeMap::new();
        let mut queues: BTreeMap<u32, Record<'_>> = BTreeMap::new();
        let mut take = Take::new(&lines.index);
        while let Some(line) = Line::take(&mut take) {
            let Line::Frame { kind, meta, .. } = line else { continue };
            match Record::decode(kind, meta) {
                Some(record @ (Record::Declare { queue, .. } | Record::Drop { queue })) => {
                    queues.insert(queue, record);
                }
                Some(Record::State { queue, key, value }) => {
                    states.insert((queue, key), value);
                }
                Some(Record::Remove(removed)) if self.facts.exists(removed.queue) => {
                    let older = |segment: &u32| *segment != number && self.space.exists(*segment);
                    let segments: Vec<u32> = removed.segments.filter(older).collect();
                    if !segments.is_empty() {
                        let ranges: Vec<_> = removed.ranges.collect();
                        let segments = segments.into_iter();
                        batch.push(Kind::Remove, 0, 0, |meta| put_remove(meta, removed.queue, &ranges, segments), &[]);
                    }
                }
                _ => {}
            }
        }
        self.copy_live_queues(number, &queues, batch);
        self.copy_live_states(number, &states, batch);
    }

    fn copy_live_queues(&mut self, number: u32, queues: &BTreeMap<u32, Record<'_>>, batch: &mut WriteBatch) {
        for (&queue, record) in queues {
            let Some(fact) = self.facts.queue(queue).filter(|fact| fact.segment == number) else { continue };
            match record {
                Record::Declare { uid, name, .. } if !fact.deleted => {
                    batch.push(Kind::Declare, 0, 0, |meta| put_declare(meta, queue, uid, name), &[]);
                }
                _ if fact.deleted && self.space.exists_in(fact.first..number) => {
                    batch.push(Kind::Drop, 0, 0, |meta| put_drop(meta, queue), &[]);
                }
                _ if fact.deleted => self.facts.forget_queue(queue, &mut self.space),
                _ => {}
            }
        }
    }

    fn copy_live_states(&mut self, number: u32, states: &BTreeMap<(u32, &[u8]), &[u8]>, batch: &mut WriteBatch) {
        for (&(queue, key), value) in states {
            let Some(fact) = self.facts.state(queue, key).filter(|fact| fact.segment == number) else { continue };
            if fact.deleted && !self.space.exists_in(fact.first..number) {
                self.facts.forget_state(queue, key, &mut self.space);
            } else {
                batch.push(Kind::State, 0, 0, |meta| put_state(meta, queue, key, value), &[]);
            }
        }
    }
}
