//! Streams (`docs/contracts.md` 9): offsets are dense from 0, each belongs to one message
//! permanently, and every accepted message is read.

use std::collections::HashMap;

use super::{Ledger, LinkNumber, MessageNumber};
use crate::message::Content;

/// A stream as its readers see it.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// by partition and offset
    messages: HashMap<(u32, u64), MessageNumber>,
    offsets: HashMap<MessageNumber, (u32, u64)>,
}

impl Ledger {
    /// Records a message received by a reader of a stream, which started at its first offset.
    pub(super) fn received_from_stream(
        &mut self,
        to: LinkNumber,
        number: MessageNumber,
        name: &str,
        content: &Content,
    ) {
        self.stats.read += 1;
        let mut found = Vec::new();
        let space = self.links[to].route.space;
        found.extend(self.check_content(to, number, name, content).err());
        found.extend(self.check_visible(number).err());
        let Some((partition, offset)) = content.offset() else {
            return self.violation(format!("message {number} at link {to}: it has no offset"));
        };
        let next = self.links[to].offsets.entry(partition).or_default();
        if offset != *next {
            found.push(format!("offset {offset} of partition {partition} where {next} is next"));
        }
        *next = offset + 1;
        let stream = self.streams.entry((space, name.to_owned())).or_default();
        let before = stream.messages.insert((partition, offset), number);
        if let Some(before) = before.filter(|before| *before != number) {
            found.push(format!("offset {offset} of partition {partition} was message {before}"));
        }
        let before = stream.offsets.insert(number, (partition, offset));
        if let Some(before) = before.filter(|before| *before != (partition, offset)) {
            found.push(format!("stored twice: at {before:?} and at {:?}", (partition, offset)));
        }
        for what in found {
            self.violation(format!("message {number} of {name} at link {to}: {what}"));
        }
    }

    /// Checks that an accepted message has an offset.
    pub(super) fn check_read(&self, number: MessageNumber) -> Result<(), String> {
        let route = &self.messages[number].route;
        let stream = self.streams.get(&(route.space, route.name.clone()));
        match stream.is_some_and(|stream| stream.offsets.contains_key(&number)) {
            true => Ok(()),
            false => Err(format!("{} was accepted and is not in the stream", self.describe(number))),
        }
    }
}
