//! The publishing side of a load.

use std::collections::VecDeque;
use std::sync::Arc;

use enmasse_client::Error;
use enmasse_mqtt::codec::fixed::Frame;
use enmasse_mqtt::codec::{Ack, AckKind, PacketId, Publish, PublishProperties, QoS, Version, encode_publish};
use hdrhistogram::Histogram;

use super::Plan;
use super::client::{Role, broken};
use crate::latency_histogram;
use crate::stamp::{SIZE as STAMP_SIZE, Stamp};

/// Bytes of unwritten output at which a publisher stops.
const OUTPUT_MAX: usize = 128 * 1024;

/// The publications of a connection.
pub(super) struct Publisher {
    plan: Arc<Plan>,
    number: u32,
    /// a whole packet; identifier and stamp are replaced in each copy
    template: Vec<u8>,
    /// where its packet identifier is, with QoS 1
    id_at: Option<usize>,
    stamp_at: usize,
    /// identifiers that are not in use, in the order of their release
    free: VecDeque<u16>,
    /// due time of each identifier in use, and whether it is timed
    due: Vec<(u64, bool)>,
    pub(super) sent: u64,
    pub(super) acknowledged: u64,
    /// PUBACK with an error
    pub(super) refused: u64,
    /// nanoseconds from due to PUBACK
    pub(super) acknowledgement: Histogram<u64>,
}

impl Publisher {
    pub(super) fn new(plan: &Arc<Plan>, number: u32) -> Result<Self, Error> {
        let options = &plan.options;
        let topic = options.topic_of(number);
        let body = vec![b'.'; options.body];
        let tracked = options.qos != QoS::AtMostOnce;
        let publish = Publish {
            dup: false,
            qos: options.qos,
            retain: options.retain,
            topic: &topic,
            packet_id: PacketId::new(1).filter(|_| tracked),
            properties: PublishProperties::default(),
            payload: &body,
        };
        let mut template = Vec::new();
        encode_publish(&mut template, &publish, &[], options.version, u32::MAX)
            .map_err(|error| Error::invalid(format!("topic: {error}")))?;
        let stamp_at = template.len() - body.len();
        let properties = usize::from(options.version == Version::V5);
        let window = if tracked { options.window as u16 } else { 0 };
        Ok(Self {
            plan: Arc::clone(plan),
            number,
            id_at: tracked.then(|| stamp_at - properties - 2),
            stamp_at,
            template,
            free: (1..=window).collect(),
            due: vec![(0, false); usize::from(window) + 1],
            sent: 0,
            acknowledged: 0,
            refused: 0,
            acknowledgement: latency_histogram(),
        })
    }

    /// Whether window and buffer allow another publication.
    #[inline]
    pub(super) fn can_send(&self, pending: usize) -> bool {
        pending < OUTPUT_MAX && (self.id_at.is_none() || !self.free.is_empty())
    }

    #[inline]
    pub(super) fn send_one(&mut self, output: &mut Vec<u8>, due: u64) {
        let start = output.len();
        output.extend_from_slice(&self.template);
        if let Some(id_at) = self.id_at
            && let Some(id) = self.free.pop_front()
        {
            output[start + id_at..][..2].copy_from_slice(&id.to_be_bytes());
            self.due[usize::from(id)] = (due, self.plan.is_sample(self.sent, due));
        }
        let stamp = Stamp { run: self.plan.run, sender: self.number, sequence: self.sent, due };
        stamp.put(&mut output[start + self.stamp_at..][..STAMP_SIZE]);
        self.sent += 1;
    }

    pub(super) fn outstanding(&self) -> usize {
        self.due.len().saturating_sub(1) - self.free.len()
    }
}

impl Role for Publisher {
    fn name(&self) -> (char, u32) {
        ('p', self.number)
    }

    fn filters(&self) -> Vec<String> {
        Vec::new()
    }

    #[inline]
    fn packet(&mut self, frame: &Frame<'_>, now: u64, _output: &mut Vec<u8>) -> Result<(), Error> {
        if frame.kind() != AckKind::PubAck as u8 {
            return Err(Error::peer(format!("a publisher received a packet of type {}", frame.kind())));
        }
        let ack = Ack::decode(frame, self.plan.options.version).map_err(broken)?;
        let id = ack.packet_id.get();
        let Some((due, timed)) = self.due.get(usize::from(id)).copied().filter(|_| self.outstanding() > 0) else {
            return Err(Error::peer(format!("PUBACK of the identifier {id}, which is not in use")));
        };
        self.free.push_back(id);
        self.acknowledged += 1;
        self.refused += u64::from(ack.code.is_error());
        if timed {
            self.acknowledgement.saturating_record(now.saturating_sub(due));
        }
        Ok(())
    }
}
