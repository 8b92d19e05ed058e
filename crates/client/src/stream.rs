//! A blocking reader of offset ranges of a stream, for threads that only wait for the server.
//!
//! A range has a fixed end, so it contains the same messages each time. Messages that the server no
//! longer retains are an error or are counted, never skipped silently.

use enmasse_amqp::codec::scan::{Elements, Scalar, head};

use crate::ErrorKind;
use crate::blocking::{PREFETCH_INITIAL, SourceOptions, ahead, applies_selector, closing_error, connect, wait};
use crate::client::{
    Client, Event, Handle, LinkOptions, OFFSET_FILTERS, Outcome, PartitionState, StreamFilter, StreamOffset,
    StreamState,
};
use crate::error::Error;

/// The range to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// the partition; 0 for a server without partitions
    pub partition: u32,
    /// offset of the first message
    pub from: u64,
    /// offset after the last
    pub to: u64,
    /// the expected uid of the stream, checked if the server reports one
    pub uid: Option<String>,
    /// messages of the range that are no longer retained are counted instead of being an error
    pub tolerant: bool,
}

/// A range that is being read.
struct Reading {
    range: Range,
    link: Handle,
    /// offset of the next message
    next: u64,
    /// messages that the server may still send
    ahead: u32,
    messages: u64,
    size: u64,
    /// consecutive reports of the server that it has no more messages
    empty_drains: u32,
}

/// One connection that reads one stream, a range after the other.
pub struct Stream {
    client: Client,
    options: SourceOptions,
    space: Option<String>,
    reading: Option<Reading>,
    missing: u64,
}

impl Stream {
    /// Connects to the first server that answers.
    ///
    /// # Errors
    /// That of the last server that was tried; `Invalid` if none is named.
    pub fn connect(options: SourceOptions) -> Result<Self, Error> {
        let (client, server) = connect(&options.servers)?;
        Ok(Self { client, options, space: server.space, reading: None, missing: 0 })
    }

    /// The address space that the server announced.
    #[must_use]
    pub fn space(&self) -> Option<&str> {
        self.space.as_deref()
    }

    /// The current contents of the stream. If the server does not report partitions, one is
    /// assumed.
    ///
    /// # Errors
    /// The server's error, or `Unavailable` if it is silent; `Invalid` if the address is not a
    /// stream.
    pub fn state(&mut self) -> Result<StreamState, Error> {
        self.end();
        let (link, state) = self.attach(StreamOffset::Next, None)?;
        self.client.detach(link);
        if let Some(state) = state {
            return Ok(state);
        }
        let first = self.offset_of(StreamOffset::First, None, false)?;
        let last = if first.is_some() { self.offset_of(StreamOffset::Last, None, true)? } else { None };
        let (first, next) = (first.unwrap_or(0), last.map_or(first.unwrap_or(0), |last| last.saturating_add(1)));
        Ok(StreamState { uid: None, partitions: vec![PartitionState { partition: 0, first, next }] })
    }

    /// The offset of the first message of a partition from a time on (milliseconds since 1970);
    /// `None`: there is none yet.
    ///
    /// # Errors
    /// As `state`.
    pub fn offset_at(&mut self, partition: u32, time_ms: i64) -> Result<Option<u64>, Error> {
        self.end();
        self.offset_of(StreamOffset::Time(time_ms), Some(partition), false)
    }

    /// Begins to read a range.
    ///
    /// # Errors
    /// The server's error; `Conflict` if the stream differs from the range's, or no longer retains
    /// its beginning.
    pub fn begin(&mut self, range: Range) -> Result<(), Error> {
        self.end();
        self.missing = 0;
        let attached = match self.attach(StreamOffset::Offset(range.from), Some(range.partition)) {
            // the beginning of the range is not retained: reading starts at the first message
            Err(error) if range.tolerant && error.kind == ErrorKind::Conflict => {
                self.attach(StreamOffset::First, Some(range.partition))
            }
            attached => attached,
        };
        let (link, state) = attached?;
        let mut reading = Reading { next: range.from, range, link, ahead: 0, messages: 0, size: 0, empty_drains: 0 };
        match state.map_or(Ok(0), |state| reading.compare(&state, &self.options.address)) {
            Ok(missing) => self.missing = missing,
            Err(error) => {
                self.client.detach(link);
                return Err(error);
            }
        }
        self.reading = Some(reading);
        self.replenish_credit();
        Ok(())
    }

    /// Offsets of the current range, or of the last one, whose messages the server no longer
    /// retained.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Waits for messages of the range, and passes them to `take` with their offsets. Returns
    /// whether more may follow.
    ///
    /// # Errors
    /// As `state`; `Conflict` where messages are missing, if the range does not tolerate that.
    pub fn receive(&mut self, take: &mut dyn FnMut(u64, &[u8])) -> Result<bool, Error> {
        if self.is_done() {
            return Ok(false);
        }
        let mut accepted = None;
        for event in self.wait()? {
            let Some(reading) = &mut self.reading else { break };
            match event {
                Event::Message { link, delivery, settled, payload } if link == reading.link => {
                    let Some(offset) = offset(&payload) else {
                        if !settled {
                            self.client.settle(link, delivery, delivery, Outcome::Released);
                        }
                        self.end();
                        return Err(no_stream(&self.options.address));
                    };
                    if !settled {
                        accepted = Some((accepted.map_or(delivery, |(first, _)| first), delivery));
                    }
                    reading.ahead = reading.ahead.saturating_sub(1);
                    reading.messages += 1;
                    reading.size += payload.len() as u64;
                    self.missing += reading.step(offset, self.options.selector.is_some())?;
                    if (reading.range.from..reading.range.to).contains(&offset) {
                        take(offset, &payload);
                    }
                }
                Event::Drained { link, .. } if link == reading.link && self.options.selector.is_some() => {
                    reading.on_drained()
                }
                event => self.check(&event)?,
            }
        }
        if let (Some((first, last)), Some(reading)) = (accepted, &self.reading) {
            self.client.settle(reading.link, first, last, Outcome::Accepted);
        }
        if self.is_done() {
            self.end();
            return Ok(false);
        }
        self.replenish_credit();
        Ok(true)
    }

    fn is_done(&mut self) -> bool {
        self.reading.as_ref().is_none_or(|reading| reading.next >= reading.range.to)
    }

    /// Ends the current read. Later events of its link are dropped.
    fn end(&mut self) {
        if let Some(reading) = self.reading.take() {
            self.client.detach(reading.link);
        }
    }

    /// Grants more credit once half of the prefetched messages have arrived.
    fn replenish_credit(&mut self) {
        let selects = self.options.selector.is_some();
        let Some(reading) = &mut self.reading else { return };
        let window = ahead(reading.messages, reading.size);
        // without a selector the last prefetched message is the last of the range
        let left = if selects { u64::MAX } else { reading.range.to.saturating_sub(reading.next) };
        let wanted = window.min(u32::try_from(left).unwrap_or(u32::MAX));
        let low = if selects { 0 } else { wanted / 2 };
        if reading.ahead <= low && reading.ahead < wanted {
            self.client.credit(reading.link, wanted - reading.ahead);
            reading.ahead = wanted;
            if selects {
                // only the server knows that the rest of the range does not match
                self.client.drain(reading.link);
            }
        }
    }

    /// The offset of the first message from `offset` on, or of the last retained one.
    fn offset_of(&mut self, offset: StreamOffset, partition: Option<u32>, last: bool) -> Result<Option<u64>, Error> {
        let selector = self.options.selector.take();
        let attached = self.attach(offset, partition);
        self.options.selector = selector;
        let (link, _) = attached?;
        let mut found = None;
        let mut credit = 0;
        let mut drained = false;
        while !drained {
            if credit == 0 {
                credit = if last { PREFETCH_INITIAL } else { 1 };
                self.client.credit(link, credit);
                self.client.drain(link);
            }
            for event in self.wait()? {
                match event {
                    Event::Message { link: of, payload, delivery, settled } if of == link => {
                        let at = self::offset(&payload);
                        if !settled {
                            let outcome = if at.is_some() { Outcome::Accepted } else { Outcome::Released };
                            self.client.settle(link, delivery, delivery, outcome);
                        }
                        if at.is_none() {
                            self.client.detach(link);
                            return Err(no_stream(&self.options.address));
                        }
                        found = at;
                        credit = credit.saturating_sub(1);
                    }
                    Event::Drained { link: of, .. } if of == link => drained = true,
                    event => self.check(&event)?,
                }
            }
            drained |= !last && found.is_some();
        }
        self.client.detach(link);
        Ok(found)
    }

    fn attach(&mut self, offset: StreamOffset, partition: Option<u32>) -> Result<(Handle, Option<StreamState>), Error> {
        let options = LinkOptions {
            selector: self.options.selector.clone(),
            stream: Some(StreamFilter { offset, partition }),
            ..LinkOptions::default()
        };
        let link = self.client.attach_receiver(Some(self.options.address.clone()), options)?;
        loop {
            for event in self.wait()? {
                match event {
                    Event::Attached { link: of, filters, stream, .. } if of == link => {
                        // credit would make a queue deliver messages reserved for others
                        let is_stream =
                            stream.is_some() || filters.iter().any(|name| OFFSET_FILTERS.contains(&&**name));
                        let fits = if is_stream {
                            applies_selector(&self.options, &filters)
                        } else {
                            Err(no_stream(&self.options.address))
                        };
                        if let Err(error) = fits {
                            self.client.detach(link);
                            return Err(error);
                        }
                        return Ok((link, stream));
                    }
                    Event::Refused { link: of, reason } if of == link => {
                        return Err(closing_error(&self.options.address, reason));
                    }
                    event => self.check(&event)?,
                }
            }
        }
    }

    /// The next events, at least one.
    fn wait(&self) -> Result<Vec<Event>, Error> {
        wait(&self.client, self.options.silence)
    }

    /// Handles an event that no call waits for: an error if the connection has ended.
    fn check(&self, event: &Event) -> Result<(), Error> {
        match event {
            Event::Closed { reason } => Err(closing_error("the connection", reason.clone())),
            Event::Detached { link, reason: Some(reason) }
                if self.reading.as_ref().is_some_and(|reading| reading.link == *link) =>
            {
                Err(closing_error(&self.options.address, Some(reason.clone())))
            }
            _ => Ok(()),
        }
    }
}

impl Reading {
    /// Advances past the message at `offset`. Returns how many messages before it are missing.
    fn step(&mut self, offset: u64, selects: bool) -> Result<u64, Error> {
        self.empty_drains = 0;
        if offset < self.next {
            // servers that keep messages in blocks may begin before the offset
            return Ok(0);
        }
        let before = std::mem::replace(&mut self.next, offset.saturating_add(1));
        let (from, to) = (before.min(self.range.to), offset.min(self.range.to));
        if selects || from == to { Ok(0) } else { self.gap(from, to) }
    }

    /// Handles a drained response: if the server has no more messages, the rest of the range does
    /// not match. A response to earlier credit may cross a new grant, so two are needed.
    fn on_drained(&mut self) {
        self.ahead = 0;
        self.empty_drains += 1;
        if self.empty_drains > 1 {
            self.next = self.range.to;
        }
    }

    /// Compares the range with the current contents of the stream. Returns how many messages of its
    /// beginning are missing.
    fn compare(&mut self, state: &StreamState, address: &str) -> Result<u64, Error> {
        let conflict = |message| Err(Error { kind: ErrorKind::Conflict, message });
        if let (Some(wanted), Some(found)) = (&self.range.uid, &state.uid)
            && wanted != found
        {
            if self.range.tolerant {
                // the stream of the range has been deleted
                let before = std::mem::replace(&mut self.next, self.range.to);
                return Ok(self.range.to.saturating_sub(before));
            }
            return conflict(format!("{address}: the stream was recreated: its uid was {wanted} and is {found}"));
        }
        let number = self.range.partition;
        let Some(part) = state.partitions.iter().find(|part| part.partition == number) else {
            return conflict(format!("{address}: there is no partition {number}"));
        };
        if part.next < self.range.to {
            let (next, to) = (part.next, self.range.to);
            return conflict(format!(
                "{address}: partition {number} ends before offset {next}, and is read up to {to}"
            ));
        }
        let first = part.first.min(self.range.to);
        if first <= self.next {
            return Ok(0);
        }
        let before = std::mem::replace(&mut self.next, first);
        self.gap(before, first)
    }

    fn gap(&self, from: u64, to: u64) -> Result<u64, Error> {
        if self.range.tolerant {
            return Ok(to - from);
        }
        let what = format!(
            "partition {}: the messages from offset {from} to {} are no longer kept; failOnDataLoss=false reads on without them",
            self.range.partition,
            to - 1
        );
        Err(Error { kind: ErrorKind::Conflict, message: what })
    }
}

fn no_stream(address: &str) -> Error {
    Error::invalid(format!(
        "{address} is not a stream: its messages have no offsets; name a stream address, or give a folder to read a \
         queue through: option spool"
    ))
}

/// The annotation `x-stream-offset` of an encoded message.
pub(crate) fn offset(message: &[u8]) -> Option<u64> {
    let mut entries = Elements::of_map(head(message).ok()?.message_annotations?).ok()?;
    while entries.left() > 1 {
        let is_offset = matches!(entries.clone().key(), Ok(b"x-stream-offset"));
        entries.skip().ok()?;
        match entries.scalar().ok()? {
            Scalar::Unsigned(offset) if is_offset => return Some(offset),
            Scalar::Signed(offset) if is_offset => return offset.try_into().ok(),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
