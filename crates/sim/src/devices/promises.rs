//! What the node has promised to clients of MQTT, and whether it has kept it (`docs/guide/mqtt.md`).

use std::collections::BTreeMap;

use enmasse_mqtt::codec::QoS;

use crate::address::{QUEUE, STREAM, TOPICS};

/// The progress of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// the node has not promised anything yet
    Open,
    /// it has acknowledged the message, or must publish the will
    Promised,
    /// the connection has ended by DISCONNECT: the will may have been published before
    Optional,
}

/// One message of a client.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) topic: String,
    pub(super) qos: QoS,
    pub(super) retain: bool,
    pub(super) progress: Progress,
    /// how often each client has received it
    received: BTreeMap<usize, u32>,
}

/// The messages and subscriptions of a run.
#[derive(Debug, Default)]
pub(super) struct Promises {
    pub(super) sent: Vec<Sent>,
    /// by client with a subscription: messages from this number on are for it
    topics: BTreeMap<usize, usize>,
    pub(super) log: Vec<String>,
    violation: Option<String>,
    /// complete deliveries
    pub(super) received: u64,
    /// deliveries beyond the first, where these are allowed
    pub(super) repeated: u64,
    /// messages with QoS 2 that were acknowledged
    pub(super) once: u64,
}

/// Lines of the history that a violation shows.
const HISTORY: usize = 80;

impl Promises {
    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        if self.log.len() == 2 * HISTORY {
            self.log.drain(..HISTORY);
        }
        self.log.push(line());
    }

    pub(super) fn violation(&mut self, what: impl Into<String>) {
        if self.violation.is_none() {
            self.violation = Some(format!("{}\n{}", self.log.join("\n"), what.into()));
        }
    }

    /// The first violation.
    pub(super) fn check(&mut self) -> Result<(), String> {
        self.violation.take().map_or(Ok(()), Err)
    }

    /// A client begins to send a message; returns its number.
    pub(super) fn send(&mut self, topic: String, qos: QoS, retain: bool) -> usize {
        self.sent.push(Sent { topic, qos, retain, progress: Progress::Open, received: BTreeMap::new() });
        self.sent.len() - 1
    }

    /// The subscription of a client to the topics is confirmed.
    pub(super) fn subscribed(&mut self, device: usize) {
        self.topics.entry(device).or_insert(self.sent.len());
    }

    /// The node has acknowledged a message.
    pub(super) fn acknowledged(&mut self, number: usize) {
        let sent = &mut self.sent[number];
        self.once += u64::from(sent.qos == QoS::ExactlyOnce && sent.progress == Progress::Open);
        sent.progress = Progress::Promised;
    }

    /// A client has received a message: with QoS 2, once it is released.
    pub(super) fn receive(&mut self, device: usize, payload: &[u8], qos: QoS) {
        self.received += 1;
        let number = payload.try_into().map(|number| u64::from_be_bytes(number) as usize);
        let Some(sent) = number.ok().and_then(|number| self.sent.get_mut(number)) else {
            return self.violation(format!("client {device} received an unknown message: {payload:?}"));
        };
        *sent.received.entry(device).or_default() += 1;
        let (count, times) = (sent.received[&device], sent.received.values().sum::<u32>());
        let is_once = qos == QoS::ExactlyOnce && sent.qos == QoS::ExactlyOnce;
        if is_once && (count > 1 || sent.topic == QUEUE && times > 1) {
            let what = format!("client {device} received message {number:?} again, with QoS 2: {sent:?}");
            return self.violation(what);
        }
        self.repeated += u64::from(count > 1);
    }

    /// All is quiet: whatever was promised must have arrived. `logged`: messages in the stream.
    pub(super) fn check_arrived(&mut self, logged: u64) {
        let mut missing = Vec::new();
        for (number, sent) in self.sent.iter().enumerate().filter(|(_, sent)| sent.progress == Progress::Promised) {
            if sent.topic == QUEUE && sent.received.is_empty() {
                missing.push(format!("message {number} of the queue: {sent:?}"));
            }
            if TOPICS.iter().any(|topic| sent.topic.starts_with(topic)) {
                let wants = |(_, since): &(&usize, &usize)| **since <= number;
                let without = self.topics.iter().filter(wants).find(|(device, _)| !sent.received.contains_key(device));
                missing.extend(without.map(|(device, _)| format!("message {number} for client {device}: {sent:?}")));
            }
        }
        if let Some(first) = missing.first() {
            let what = format!("{} messages never arrived, the first: {first}", missing.len());
            self.violation(what);
        }
        let promised = self.sent.iter().filter(|sent| sent.topic == STREAM).count() as u64;
        if logged != promised {
            self.violation(format!("the stream has {logged} messages, and {promised} were sent with QoS 2"));
        }
    }

    /// The retained messages that a new subscription has received, by topic.
    pub(super) fn check_retained(&mut self, found: &BTreeMap<String, usize>) {
        let mut expected = BTreeMap::new();
        for (number, sent) in self.sent.iter().enumerate().filter(|(_, sent)| sent.retain) {
            expected.insert(sent.topic.clone(), number);
        }
        if *found != expected {
            self.violation(format!("retained messages are {found:?}, and the last ones sent {expected:?}"));
        }
    }
}
