//! Recovery of a stored address from its logged state.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use enmasse_amqp::types::Fields;
use enmasse_journal::log::RecoveredQueue;
use enmasse_journal::queue::{
    Effect, MARKER_KEY_BYTES, MARKER_VALUE_BYTES, Marker, Queue, Record, Restored, Seq, Settings,
};

use super::super::Destination;
use super::super::storage::{Failures, barred_of, failures_of, message_of};
use super::changed::{Changed, annotations_of};
use super::resuming::Resuming;
use super::sent::{Sent, sent_of};
use super::subscription::Subscription;
use super::temporary::{Budget, Temporary, temporary_settings};

/// What an open stored address is and has, in addition to the state of every address.
#[derive(Debug)]
pub(in crate::core) struct Opened {
    /// the name that clients use for the address
    pub(in crate::core) name: Arc<str>,
    /// its messages
    pub(in crate::core) messages: Queue,
    /// its number in the log; `None`: its messages are in memory only
    pub(in crate::core) log: Option<u32>,
    /// the dead-letter address
    pub(in crate::core) dead_letter: Option<Destination>,
    /// the address for expired messages
    pub(in crate::core) expiry: Option<Destination>,
    /// application property whose value is the key of a last-value queue
    pub(in crate::core) last_value_key: Option<Box<str>>,
}

/// The state of a stored address when it is opened.
#[derive(Debug)]
pub struct OpenQueue {
    pub(in crate::core) opened: Opened,
    /// modified annotations of messages, by their numbers
    pub(in crate::core) changed: HashMap<u64, Changed>,
    /// messages that were sent to a client of MQTT, by their numbers
    pub(in crate::core) sent: HashMap<u64, Sent>,
    /// set if its messages come from a topic
    pub(in crate::core) subscription: Option<Box<Subscription>>,
    /// the state of resumable links
    pub(in crate::core) resuming: Resuming,
    /// set if the queue belongs to a connection
    pub(in crate::core) temporary: Option<Box<Temporary>>,
    /// effects of recovery on messages that must leave the queue
    pub(in crate::core) effects: Vec<Effect>,
    /// damaged messages, by number and location
    pub(in crate::core) damaged: Vec<(u64, enmasse_journal::log::RecordLocation)>,
    /// ranges of lost messages: first number and count
    pub(in crate::core) lost: Vec<(u64, u64)>,
    /// logged state keys of messages that do not exist
    pub(in crate::core) orphans: Vec<Box<[u8]>>,
}

impl OpenQueue {
    /// An empty temporary queue for messages of at most `message_bytes`.
    #[must_use]
    pub fn temporary(name: Arc<str>, message_bytes: u32, budget: Arc<Budget>) -> Self {
        let temporary = Temporary::new(budget);
        Self { temporary: Some(Box::new(temporary)), ..Self::new(name, temporary_settings(message_bytes), None) }
    }
}

impl OpenQueue {
    /// An address without messages. `log` is its number in the log; `None` keeps its messages in
    /// memory only.
    #[must_use]
    pub fn new(name: Arc<str>, settings: Settings, log: Option<u32>) -> Self {
        let messages = Queue::new(settings, Seq(0));
        Self {
            opened: Opened { name, messages, log, dead_letter: None, expiry: None, last_value_key: None },
            changed: HashMap::new(),
            sent: HashMap::new(),
            subscription: None,
            resuming: Resuming::default(),
            temporary: None,
            effects: Vec::new(),
            damaged: Vec::new(),
            lost: Vec::new(),
            orphans: Vec::new(),
        }
    }

    /// The address as recovered from the log.
    #[must_use]
    pub fn restored(name: Arc<str>, settings: Settings, recovered: &RecoveredQueue) -> Self {
        let mut open = Self::new(name, settings.clone(), Some(recovered.queue));
        let failures: HashMap<u64, Failures> =
            recovered.states.iter().filter_map(|(key, value)| failures_of(key, value)).collect();
        let was_sent: HashSet<u64> = sent_of(recovered).collect();
        let Self { damaged, effects, sent, .. } = &mut open;
        // Streamed, because a list of all records could need more memory than the queue itself.
        let entries = recovered.messages().filter_map(|message| {
            let Some(mut record) = Record::decode(message.head).filter(|_| !message.damaged) else {
                damaged.push((message.seq, message.place));
                return None;
            };
            record.failures = failures.get(&message.seq).map_or(record.failures, |failed| failed.count);
            if was_sent.contains(&message.seq) {
                sent.insert(message.seq, Sent::restored(&mut record));
            }
            Some(Restored { id: Seq(message.seq), place: message.place, record })
        });
        let markers = recovered.states.iter().filter_map(|(key, value)| marker(key, value));
        let next = Seq(recovered.next_seq);
        // Only unordered entries fail, and the log returns them in order.
        if let Ok(queue) = Queue::restore(settings, next, entries, markers, &mut |effect| effects.push(effect)) {
            open.opened.messages = queue;
        }
        open.lost = recovered.lost.iter().map(|range| (range.first, range.last - range.first + 1)).collect();
        open.restore_changed(recovered);
        open.find_orphans(recovered);
        for (id, names) in recovered.states.iter().filter_map(|(key, value)| barred_of(key, value)) {
            open.opened.messages.restore_undeliverable(Seq(id), names);
        }
        let stale;
        (open.resuming, stale) = Resuming::restored(recovered, &mut open.opened.messages);
        open.orphans.extend(stale);
        // A message held by a link is not delayed again.
        for (id, due) in failures.iter().filter_map(|(id, failed)| Some((id, failed.due?))) {
            open.opened.messages.delay(Seq(*id), due);
        }
        open
    }

    fn find_orphans(&mut self, recovered: &RecoveredQueue) {
        let of_messages = recovered.states.keys().filter_map(|key| Some((message_of(key)?, key)));
        let mut orphans: HashMap<u64, Vec<Box<[u8]>>> = HashMap::new();
        for (id, key) in of_messages {
            orphans.entry(id).or_default().push(key.clone());
        }
        if !orphans.is_empty() {
            // A damaged message is removed without its state.
            let damaged: HashSet<u64> = self.damaged.iter().map(|(seq, _)| *seq).collect();
            let here = recovered.messages().map(|message| message.seq).filter(|seq| !damaged.contains(seq));
            here.for_each(|seq| drop(orphans.remove(&seq)));
        }
        self.orphans = orphans.into_values().flatten().collect();
    }

    fn restore_changed(&mut self, recovered: &RecoveredQueue) {
        let mut known: HashMap<u64, Fields> =
            recovered.states.iter().filter_map(|(key, value)| annotations_of(key, value)).collect();
        if known.is_empty() {
            return;
        }
        for item in self.opened.messages.iter(Seq(0)) {
            if let Some(annotations) = known.remove(&item.id.0) {
                self.changed.insert(item.seq.0, Changed { annotations, on_disk: true });
            }
        }
    }

    /// Sets the application property of a last-value queue: only the last message of each value is
    /// kept.
    #[must_use]
    pub fn with_last_value_key(mut self, property: Option<Box<str>>) -> Self {
        self.opened.last_value_key = property;
        self
    }

    /// Sets the settings of its queue.
    pub(in crate::core) fn with_settings(mut self, settings: Settings) -> Self {
        self.opened.messages.reconfigure(settings);
        self
    }

    /// Sets the dead-letter and expiry addresses.
    #[must_use]
    pub fn with_targets(mut self, dead_letter: Option<Destination>, expiry: Option<Destination>) -> Self {
        (self.opened.dead_letter, self.opened.expiry) = (dead_letter, expiry);
        self
    }
}

fn marker(key: &[u8], value: &[u8]) -> Option<Marker> {
    let key: &[u8; MARKER_KEY_BYTES] = key.try_into().ok()?;
    let value: &[u8; MARKER_VALUE_BYTES] = value.try_into().ok()?;
    Marker::decode(key, value)
}
