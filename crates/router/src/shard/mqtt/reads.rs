//! Reads of retained messages: one at a time, for the filters that were subscribed since the last.

use std::collections::VecDeque;
use std::sync::Arc;

use enmasse_amqp::codec::scan;
use enmasse_mqtt::codec::{QoS, RetainHandling};
use enmasse_mqtt::connection::{Outgoing, SendError};

use super::links::Fate;
use super::steps::Step;
use super::{Mqtt, message};
use crate::core::{AddressKind, Delivery};

/// Messages requested at once.
pub(in crate::shard) const BATCH: u32 = 256;

/// The reads of retained messages of one client.
#[derive(Default)]
pub(in crate::shard) struct Reads {
    /// filters that wait, each with its turn
    pub(in crate::shard) waiting: VecDeque<Arc<str>>,
    /// filters of the read in progress
    pub(in crate::shard) current: Vec<Arc<str>>,
    pub(in crate::shard) state: ReadState,
    /// messages of the batch so far
    pub(in crate::shard) delivered: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::shard) enum ReadState {
    #[default]
    Idle,
    /// the link attaches
    Attaching,
    /// the next batch is due
    Attached,
    /// a batch was requested
    Reading,
    /// all messages are read
    Ended,
}

impl Reads {
    /// A filter is subscribed: reads the retained messages that it wants.
    pub(in crate::shard) fn subscribed(&mut self, filter: &Arc<str>, handling: RetainHandling, is_new: bool) {
        let wants = match handling {
            RetainHandling::Send => true,
            RetainHandling::SendIfNew => is_new,
            RetainHandling::DoNotSend => false,
        };
        // Not for shared subscriptions (4.8.2).
        if wants && !filter.starts_with("$share/") {
            self.waiting.push_back(Arc::clone(filter));
        }
    }

    pub(in crate::shard) fn next_step(&mut self) -> Option<Step> {
        match self.state {
            ReadState::Idle if !self.waiting.is_empty() => {
                self.current = self.waiting.drain(..).collect();
                self.state = ReadState::Attaching;
                Some(Step::BeginRetained)
            }
            ReadState::Attached => {
                (self.state, self.delivered) = (ReadState::Reading, 0);
                Some(Step::ReadRetained)
            }
            ReadState::Ended => {
                (self.state, self.current) = (ReadState::Idle, Vec::new());
                Some(Step::EndRetained)
            }
            ReadState::Idle | ReadState::Attaching | ReadState::Reading => None,
        }
    }

    pub(in crate::shard) fn has_step(&self) -> bool {
        match self.state {
            ReadState::Idle => !self.waiting.is_empty(),
            ReadState::Attached | ReadState::Ended => true,
            ReadState::Attaching | ReadState::Reading => false,
        }
    }

    pub(in crate::shard) fn accepted(&mut self) {
        self.state = ReadState::Attached;
    }

    pub(in crate::shard) fn refused(&mut self) {
        (self.state, self.current) = (ReadState::Idle, Vec::new());
    }

    /// All messages that waited for the credit have come.
    pub(in crate::shard) fn drained(&mut self) {
        if self.state == ReadState::Reading {
            self.state = if self.delivered >= BATCH { ReadState::Attached } else { ReadState::Ended };
        }
    }

    pub(in crate::shard) fn credit(&self) -> u32 {
        if self.state == ReadState::Reading { BATCH.saturating_sub(self.delivered) } else { 0 }
    }
}

/// Whether the retained messages of a kind of address are stored apart from their publications. The
/// home of a topic stores both or neither; a queue or anycast address, where each message has one
/// consumer, keeps none.
pub(in crate::shard) const fn keeps_apart(kind: AddressKind) -> bool {
    matches!(kind, AddressKind::Multicast | AddressKind::Stream)
}

impl Mqtt {
    /// Sends a retained message to the client, if one of its new filters matches it.
    pub(in crate::shard) fn send_retained(&mut self, delivery: &Delivery<'_>) -> Fate {
        if delivery.first {
            self.reads.delivered += 1;
            self.retained_parts.clear();
        }
        if delivery.aborted {
            return Fate::Pending;
        }
        if delivery.more || !self.retained_parts.is_empty() {
            self.retained_parts.extend_from_slice(delivery.payload);
            if delivery.more {
                return Fate::Pending;
            }
        }
        let parts = std::mem::take(&mut self.retained_parts);
        let sections = if parts.is_empty() { delivery.payload } else { &parts[..] };
        let Some(topic) = scan::to(sections) else { return Fate::Done };
        let matching: Vec<Arc<str>> =
            self.reads.current.iter().filter(|filter| enmasse_mqtt::topic::matches(filter, topic)).cloned().collect();
        if matching.is_empty() {
            return Fate::Done;
        }
        let message = message::decode(sections);
        if message.payload.iter().all(|part| part.is_empty()) {
            return Fate::Done;
        }
        let payload: Vec<&[u8]> = message.payload.iter().map(|part| &**part).collect();
        let wanted = matching.iter().filter_map(|filter| self.filters.get(filter));
        let wanted: Vec<(QoS, Option<u32>)> = wanted.map(|state| (state.options.qos, state.id)).collect();
        let counted = wanted.iter().filter(|(granted, _)| message.qos.min(*granted) != QoS::AtMostOnce).count();
        // A copy for each filter, or one for all if the window has no room for them [5: 3.3.4-2, 3.3.4-3].
        let copies: Vec<(QoS, Vec<u32>)> = if counted <= usize::from(self.room()) {
            wanted.iter().map(|(granted, id)| (*granted, id.iter().copied().collect())).collect()
        } else {
            let mut ids: Vec<u32> = wanted.iter().filter_map(|(_, id)| *id).collect();
            ids.sort_unstable();
            ids.dedup();
            wanted.iter().map(|(granted, _)| *granted).max().map(|granted| (granted, ids)).into_iter().collect()
        };
        for (granted, ids) in copies {
            let qos = message.qos.min(granted);
            let properties = message.properties(&ids);
            let outgoing = Outgoing { topic, qos, retain: true, dup: false, properties, payload: &payload };
            // A message that does not fit is handled as if it were delivered [5: 3.1.2-25]. The
            // client's acknowledgement changes nothing: the message stays.
            let sent = match qos {
                QoS::AtMostOnce => self.machine.send_at_most_once(&outgoing),
                _ => self.machine.send_publish(&outgoing, 0).map(|_| ()),
            };
            debug_assert_ne!(sent, Err(SendError::WindowFull), "the window was checked");
        }
        Fate::Done
    }
}
