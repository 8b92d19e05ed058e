//! Messages that were sent to a client of MQTT and have no outcome: they do not expire any more
//! (MQTT 5.0, 4.3.3), also if the connection breaks off or the node ends.
//!
//! Only messages with a time to live are noted. That a message on disk is about to be sent is on
//! disk before it is sent, so that a restart knows it. A message that its consumer's shard returned
//! was not sent, and one that its consumer has refused needs no further PUBLISH: both expire as
//! before.

use enmasse_journal::log::RecoveredQueue;
use enmasse_journal::queue::{Item, Record, Seq};

use super::super::Router;
use super::super::arena::Key;
use super::super::storage::{Notice, SENT, Storage, state_key};
use super::Queue;

/// The value of the state of a sent message: an empty one would delete it.
const VALUE: &[u8] = &[1];

/// A message with a time to live that was passed to a consumer.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Sent {
    /// when it would expire, milliseconds since 1970
    expires: Option<u64>,
    /// its delivery ended without an outcome: it does not expire any more
    keeps: bool,
}

/// The numbers of sent messages in the logged state of a queue.
pub(super) fn sent_of(recovered: &RecoveredQueue) -> impl Iterator<Item = u64> {
    recovered.states.keys().filter_map(|key| {
        let (&SENT, id) = key.split_first()? else { return None };
        Some(u64::from_le_bytes(id.try_into().ok()?))
    })
}

impl Sent {
    /// The state of a message that was sent before a restart; its record expires no more, and is not
    /// due again.
    pub(super) fn restored(record: &mut Record) -> Self {
        record.due = None;
        Self { expires: record.expires.take(), keeps: true }
    }
}

impl Queue {
    /// Notes that a message is about to be sent to a consumer whose messages do not expire then.
    /// Returns the number that must be on disk before, as that of a hold; 0: nothing must.
    pub(super) fn note_sending(&mut self, at: Key, item: &Item, storage: &mut Storage) -> u64 {
        if item.expires.is_none() || self.sent.contains_key(&item.seq.0) {
            return 0;
        }
        self.sent.insert(item.seq.0, Sent { expires: item.expires, keeps: false });
        let Some(log) = self.opened.log else { return 0 };
        storage.journal.note(log, &state_key(SENT, item.id.0), VALUE);
        let hold = self.resuming.next_hold();
        storage.journal.lanes.of(log).fences.raise(at, Notice::Held { at, up_to: hold });
        hold
    }

    /// The delivery of a message ends without an outcome after it was sent.
    fn keep_sent(&mut self, seq: Seq) {
        if let Some(sent) = self.sent.get_mut(&seq.0) {
            sent.keeps = true;
            self.opened.messages.clear_expiry(seq);
        }
    }

    /// A message was not sent, or its consumer has refused it: it expires, unless it was sent before
    /// over a connection that broke off.
    pub(super) fn note_unsent(&mut self, seq: Seq, storage: &mut Storage) {
        if self.sent.get(&seq.0).is_some_and(|sent| !sent.keeps)
            && let Some(item) = self.opened.messages.get(seq)
        {
            self.forget_sent(&item, storage);
        }
    }

    /// Deletes the state of a message that leaves the queue, or was not sent.
    #[inline]
    pub(super) fn forget_sent(&mut self, item: &Item, storage: &mut Storage) {
        // Fast path: mostly no message has a time to live, and a hash look-up is avoided.
        if self.sent.is_empty() || self.sent.remove(&item.seq.0).is_none() {
            return;
        }
        if let Some(log) = self.opened.log {
            storage.journal.erase(log, &state_key(SENT, item.id.0));
        }
    }

    /// A message with the time when it would expire, which its next delivery states.
    pub(super) fn with_expiry(&self, item: &Item) -> Item {
        let sent = if self.sent.is_empty() { None } else { self.sent.get(&item.seq.0) };
        Item { expires: item.expires.or_else(|| sent?.expires), ..*item }
    }
}

impl Router {
    /// The delivery of a message ends without an outcome because its link ends.
    pub(in crate::core) fn keep_sent(&mut self, at: Key, seq: Seq) {
        if let Some(queue) = self.addresses.find_queue_mut(at) {
            queue.keep_sent(seq);
        }
    }
}
