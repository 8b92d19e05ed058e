//! Commands for another shard: encoded during a turn, sent whole at its end and decoded in order by
//! the other side, so everything between two shards arrives in order.

use super::link_names::LinkTakeover;
use crate::core::wire::{Decoder, Encoder, Malformed, Wire};
use crate::core::{ToHome, ToLink};

/// A command as it is received.
#[derive(Debug)]
pub(super) enum Command<'a> {
    ToHome(ToHome<'a>),
    ToLink(ToLink<'a>),
    LinkTakeover(LinkTakeover),
}

const TO_HOME: u8 = 0;
const TO_LINK: u8 = 1;
const LINK_TAKEOVER: u8 = 2;

/// Commands for one other shard, in order.
#[derive(Debug, Default)]
pub struct CommandBatch {
    encoded: Encoder,
}

impl CommandBatch {
    /// Whether it has no commands.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.encoded.is_empty()
    }

    /// Its size in bytes with that of memory it refers to, by which a driver bounds what is in
    /// flight.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.encoded.size()
    }

    #[inline(always)]
    pub(super) fn push_to_home(&mut self, command: &ToHome<'_>) {
        TO_HOME.encode(&mut self.encoded);
        command.encode(&mut self.encoded);
    }

    #[inline(always)]
    pub(super) fn push_to_link(&mut self, command: &ToLink<'_>) {
        TO_LINK.encode(&mut self.encoded);
        command.encode(&mut self.encoded);
    }

    pub(super) fn push_takeover(&mut self, command: &LinkTakeover) {
        LINK_TAKEOVER.encode(&mut self.encoded);
        command.encode(&mut self.encoded);
    }

    pub(super) fn commands(&self) -> Commands<'_> {
        Commands(self.encoded.decoder())
    }
}

/// The commands of a batch, in order, up to one that is malformed.
pub(super) struct Commands<'a>(Decoder<'a>);

impl<'a> Iterator for Commands<'a> {
    type Item = Result<Command<'a>, Malformed>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_empty()).then(|| match u8::decode(&mut self.0)? {
            TO_HOME => Wire::decode(&mut self.0).map(Command::ToHome),
            TO_LINK => Wire::decode(&mut self.0).map(Command::ToLink),
            LINK_TAKEOVER => Wire::decode(&mut self.0).map(Command::LinkTakeover),
            _ => Err(Malformed("its receiver is unknown")),
        })
    }
}
