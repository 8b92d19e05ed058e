//! The subscribing side of a load.

use std::sync::Arc;

use enmasse_client::Error;
use enmasse_mqtt::codec::fixed::Frame;
use enmasse_mqtt::codec::{AckKind, Publish, ReasonCode, encode_ack};
use hdrhistogram::Histogram;

use super::Plan;
use super::client::{Role, broken};
use crate::latency_histogram;
use crate::stamp::Stamp;

/// The subscription of a connection.
pub(super) struct Subscriber {
    plan: Arc<Plan>,
    number: u32,
    /// filters that match no message, instead of its own
    wildcards: u32,
    /// the next sequence number, by publisher
    next: Vec<u64>,
    pub(super) received: u64,
    pub(super) bytes: u64,
    /// messages that arrived after a later one of the same publisher, or twice
    pub(super) reordered: u64,
    /// messages of another run, or of no run
    pub(super) foreign: u64,
    /// nanoseconds from due to received; none for an idle subscriber
    pub(super) latency: Option<Histogram<u64>>,
}

impl Subscriber {
    pub(super) fn new(plan: &Arc<Plan>, number: u32) -> Self {
        let next = vec![0; plan.options.publishers as usize];
        Self { next, latency: Some(latency_histogram()), ..Self::idle(plan, number) }
    }

    /// One with many wildcard filters that match no message.
    pub(super) fn with_wildcards(plan: &Arc<Plan>) -> Self {
        Self { wildcards: plan.options.wildcards, ..Self::idle(plan, plan.options.subscribers) }
    }

    /// One that receives nothing.
    pub(super) fn idle(plan: &Arc<Plan>, number: u32) -> Self {
        Self {
            plan: Arc::clone(plan),
            number,
            wildcards: 0,
            next: Vec::new(),
            received: 0,
            bytes: 0,
            reordered: 0,
            foreign: 0,
            latency: None,
        }
    }
}

impl Role for Subscriber {
    fn name(&self) -> (char, u32) {
        ('s', self.number)
    }

    fn filters(&self) -> Vec<String> {
        match self.wildcards {
            0 => vec![self.plan.options.filter_of(self.number)],
            // None of them matches a topic of the load.
            count => (0..count).map(|number| format!("wild/{number}/+/x")).collect(),
        }
    }

    #[inline]
    fn packet(&mut self, frame: &Frame<'_>, now: u64, output: &mut Vec<u8>) -> Result<(), Error> {
        if frame.kind() != 3 {
            return Err(Error::peer(format!("a subscriber received a packet of type {}", frame.kind())));
        }
        let version = self.plan.options.version;
        let publish = Publish::decode(frame, version).map_err(broken)?;
        if let Some(id) = publish.packet_id {
            encode_ack(output, AckKind::PubAck, id, (ReasonCode::Success, ""), version, u32::MAX)
                .map_err(|error| Error::misuse(error.to_string()))?;
        }
        let Some(stamp) = Stamp::of(publish.payload).filter(|stamp| stamp.run == self.plan.run) else {
            self.foreign += 1;
            return Ok(());
        };
        self.received += 1;
        self.bytes += publish.payload.len() as u64;
        if let Some(next) = self.next.get_mut(stamp.sender as usize) {
            self.reordered += u64::from(stamp.sequence < *next);
            *next = stamp.sequence + 1;
        }
        if self.plan.is_sample(stamp.sequence, stamp.due)
            && let Some(latency) = &mut self.latency
        {
            latency.saturating_record(now.saturating_sub(stamp.due));
        }
        Ok(())
    }
}
