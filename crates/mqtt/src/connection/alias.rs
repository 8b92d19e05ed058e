//! Topic aliases (3.3.2.3.4), which live as long as the network connection [5: 3.3.2-7].

use std::sync::Arc;

/// The highest alias that this machine uses for its own messages.
const OUTGOING_MAX: u16 = 64;

/// An alias and the name of its topic together are not shorter than a topic of so many bytes.
const WORTH_BYTES: usize = 4;

/// Aliases of the client.
#[derive(Debug, Default)]
pub(super) struct IncomingAliases {
    topics: Vec<Option<Arc<str>>>,
}

impl IncomingAliases {
    /// Sets the topic of an alias that is in range.
    pub(super) fn set(&mut self, alias: u16, topic: &str) {
        let place = usize::from(alias) - 1;
        if self.topics.len() <= place {
            self.topics.resize(place + 1, None);
        }
        // A client may send name and alias together each time.
        if self.topics[place].as_deref() != Some(topic) {
            self.topics[place] = Some(Arc::from(topic));
        }
    }

    /// The topic of an alias.
    pub(super) fn get(&self, alias: u16) -> Option<Arc<str>> {
        self.topics.get(usize::from(alias).checked_sub(1)?)?.clone()
    }
}

/// How to send a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutgoingTopic {
    /// the name alone
    Name,
    /// name and alias; `commit` after it was sent
    NameAndAlias(u16),
    /// the alias alone
    Alias(u16),
}

#[derive(Debug)]
struct Named {
    topic: String,
    used: u64,
}

/// Aliases of the server: the least recently used topic gives up its own.
#[derive(Debug, Default)]
pub(super) struct OutgoingAliases {
    /// by alias
    named: Vec<Named>,
    max: u16,
    sent: u64,
}

impl OutgoingAliases {
    /// At most `max` aliases.
    pub(super) fn begin(&mut self, max: u16) {
        *self = Self { max: max.min(OUTGOING_MAX), ..Self::default() };
    }

    /// How to send a topic now.
    #[inline]
    pub(super) fn choose(&mut self, topic: &str) -> OutgoingTopic {
        if self.max == 0 || topic.len() < WORTH_BYTES {
            return OutgoingTopic::Name;
        }
        self.sent += 1;
        if let Some(place) = self.named.iter().position(|named| named.topic == topic) {
            self.named[place].used = self.sent;
            return OutgoingTopic::Alias(place as u16 + 1);
        }
        if self.named.len() < usize::from(self.max) {
            return OutgoingTopic::NameAndAlias(self.named.len() as u16 + 1);
        }
        let oldest = (0..self.named.len()).min_by_key(|place| self.named[*place].used).unwrap_or_default();
        OutgoingTopic::NameAndAlias(oldest as u16 + 1)
    }

    /// Records that the client has learned an alias that `choose` named.
    pub(super) fn commit(&mut self, alias: u16, topic: &str) {
        let place = usize::from(alias) - 1;
        match self.named.get_mut(place) {
            Some(named) => {
                named.topic.clear();
                named.topic.push_str(topic);
                named.used = self.sent;
            }
            None => self.named.push(Named { topic: topic.to_owned(), used: self.sent }),
        }
    }
}
