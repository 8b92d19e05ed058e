//! The sending side of a load: transfers written as fast as credit allows, or when they are due.

use std::collections::VecDeque;
use std::sync::Arc;

use enmasse_amqp::codec::decode_state;
use enmasse_amqp::codec::fast::{self, DispositionView, StateView, TransferHead, TransferView};
use enmasse_amqp::types::{Attach, DeliveryState, Flow, Outcome, Role};
use hdrhistogram::Histogram;

use super::connection::{Session, Traffic};
use super::options::Options;
use super::stamp::{self, Stamp};
use super::{Plan, latency_histogram};

/// Bytes of pending output above which no more messages are sent.
const BATCH_SIZE: usize = 65_536;
/// Messages of one link before the next link's turn.
const BURST: u32 = 64;
/// The most bytes of a transfer frame without its payload: see `TransferHead`.
const HEAD_SIZE: usize = fast::MAX_TRANSFER_HEAD;

/// The message that is sent repeatedly; only its stamp changes.
pub(super) struct Template {
    bytes: Vec<u8>,
    stamp_at: usize,
}

impl Template {
    pub(super) fn new(options: &Options) -> Self {
        let mut bytes = Vec::with_capacity(options.body + 16);
        if options.durable {
            // header (3.2.1): durable
            bytes.extend_from_slice(&[0, 0x53, 0x70, 0xc0, 2, 1, 0x41]);
        }
        // one data section (3.2.6)
        bytes.extend_from_slice(&[0, 0x53, 0x75]);
        match u8::try_from(options.body) {
            Ok(size) => bytes.extend_from_slice(&[0xa0, size]),
            Err(_) => {
                bytes.push(0xb0);
                bytes.extend_from_slice(&(options.body as u32).to_be_bytes());
            }
        }
        let stamp_at = bytes.len();
        bytes.extend((0..options.body).map(|at| (at * 31 + (at >> 8)) as u8));
        Self { bytes, stamp_at }
    }

    /// The encoded message.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

struct Link {
    /// messages sent
    sequence: u64,
    delivery_count: u32,
    /// delivery-count up to which the server granted credit
    limit: u32,
    /// messages that it may still send, regardless of its credit
    left: u64,
    /// waits in `ready`
    queued: bool,
}

impl Link {
    fn credit(&self) -> u32 {
        let credit = (self.limit.wrapping_sub(self.delivery_count) as i32).max(0) as u32;
        if self.left == 0 { 0 } else { credit }
    }
}

/// The outcomes of a sender's messages.
#[derive(Clone, Default, Debug)]
pub(super) struct Sent {
    pub(super) sent: u64,
    pub(super) accepted: u64,
    pub(super) rejected: u64,
    pub(super) released: u64,
    pub(super) modified: u64,
}

impl Sent {
    pub(super) fn settled(&self) -> u64 {
        self.accepted + self.refused()
    }

    /// Messages that no receiver will receive.
    pub(super) fn refused(&self) -> u64 {
        self.rejected + self.released + self.modified
    }
}

impl std::ops::AddAssign<&Self> for Sent {
    fn add_assign(&mut self, other: &Self) {
        self.sent += other.sent;
        self.accepted += other.accepted;
        self.rejected += other.rejected;
        self.released += other.released;
        self.modified += other.modified;
    }
}

/// The sending links of one connection.
pub(super) struct Sender {
    plan: Arc<Plan>,
    numbers: Vec<u32>,
    links: Vec<Link>,
    /// handles of links with credit, in turn
    ready: VecDeque<u32>,
    next_delivery: u32,
    /// due times by delivery-id; 0: settled. The length is a power of two; empty if presettled
    unsettled: Box<[u64]>,
    pub(super) counts: Sent,
    /// nanoseconds from due to settled
    pub(super) settlement: Histogram<u64>,
}

impl Sender {
    pub(super) fn new(plan: &Arc<Plan>, numbers: Vec<u32>) -> Self {
        let window = (plan.options.credit as usize * numbers.len()).clamp(4096, 1 << 20).next_power_of_two();
        let slots = if plan.options.presettled { 0 } else { window };
        let left = if plan.options.messages == 0 { u64::MAX } else { u64::from(plan.options.messages) };
        let link = |_| Link { sequence: 0, delivery_count: 0, limit: 0, left, queued: false };
        let links = numbers.iter().map(link).collect();
        Self {
            plan: Arc::clone(plan),
            numbers,
            links,
            ready: VecDeque::new(),
            next_delivery: 0,
            unsettled: vec![0; slots].into_boxed_slice(),
            counts: Sent::default(),
            settlement: latency_histogram(),
        }
    }

    fn slot(&self, delivery_id: u32) -> usize {
        delivery_id as usize & (self.unsettled.len() - 1)
    }

    /// Whether another message may be sent on some link.
    #[inline]
    pub(super) fn can_send(&self, session: &Session, pending: usize) -> bool {
        !self.ready.is_empty()
            && pending < BATCH_SIZE
            && session.window >= self.frames_of_a_message(session)
            && (self.unsettled.is_empty() || self.unsettled[self.slot(self.next_delivery)] == 0)
    }

    fn frames_of_a_message(&self, session: &Session) -> u32 {
        let room = session.frame_size as usize - HEAD_SIZE;
        self.plan.template.bytes.len().div_ceil(room) as u32
    }

    /// Sends one message on the next link; `can_send` must hold.
    pub(super) fn send_one(&mut self, session: &mut Session, output: &mut Vec<u8>, due: u64) {
        let Some(handle) = self.ready.pop_front() else { return };
        self.emit(handle, session, output, due);
        self.requeue(handle);
    }

    /// Sends until credit or the output bound is used up. Returns whether more may be sent after
    /// the output is written.
    #[inline]
    pub(super) fn send_all(&mut self, session: &mut Session, output: &mut Vec<u8>) -> bool {
        let mut due = self.plan.clock.now();
        while let Some(handle) = self.ready.front().copied() {
            for sent in 1..=BURST {
                if !self.can_send(session, output.len()) {
                    return output.len() >= BATCH_SIZE;
                }
                if self.links[handle as usize].credit() == 0 {
                    break;
                }
                self.emit(handle, session, output, due);
                if sent % 32 == 0 {
                    due = self.plan.clock.now();
                }
            }
            self.ready.pop_front();
            self.requeue(handle);
        }
        false
    }

    fn requeue(&mut self, handle: u32) {
        let link = &mut self.links[handle as usize];
        link.queued = link.credit() > 0;
        if link.queued {
            self.ready.push_back(handle);
        }
    }

    #[inline]
    fn emit(&mut self, handle: u32, session: &mut Session, output: &mut Vec<u8>, due: u64) {
        let id = self.next_delivery;
        let link = &mut self.links[handle as usize];
        let template = &self.plan.template;
        let room = session.frame_size as usize - HEAD_SIZE;
        let mut head = TransferHead {
            channel: 0,
            handle,
            delivery_id: Some(id),
            tag: &id.to_be_bytes(),
            message_format: 0,
            settled: self.unsettled.is_empty(),
            more: false,
            resume: false,
            aborted: false,
            payload_len: 0,
        };
        let mut rest = template.bytes();
        let stamp = Stamp { run: self.plan.run, sender: self.numbers[handle as usize], sequence: link.sequence, due };
        loop {
            let (piece, after) = rest.split_at(rest.len().min(room));
            head.more = !after.is_empty();
            head.payload_len = piece.len();
            fast::encode_transfer(output, &head);
            let start = output.len();
            output.extend_from_slice(piece);
            if head.delivery_id.take().is_some() {
                let at = start + template.stamp_at;
                stamp.put(&mut output[at..at + stamp::SIZE]);
            }
            session.next_outgoing = session.next_outgoing.wrapping_add(1);
            session.window -= 1;
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        link.sequence += 1;
        link.left -= 1;
        link.delivery_count = link.delivery_count.wrapping_add(1);
        self.next_delivery = id.wrapping_add(1);
        if !self.unsettled.is_empty() {
            let slot = self.slot(id);
            self.unsettled[slot] = due;
        }
        self.counts.sent += 1;
    }

    fn count(&mut self, state: StateView<'_>, settled: u64) {
        let counter = match state {
            StateView::None | StateView::Accepted => &mut self.counts.accepted,
            StateView::Released => &mut self.counts.released,
            StateView::Other(bytes) => match decode_state(bytes) {
                Ok(DeliveryState::Outcome(Outcome::Accepted)) => &mut self.counts.accepted,
                Ok(DeliveryState::Outcome(Outcome::Rejected(_))) => &mut self.counts.rejected,
                Ok(DeliveryState::Outcome(Outcome::Released)) => &mut self.counts.released,
                _ => &mut self.counts.modified,
            },
        };
        *counter += settled;
    }
}

impl Traffic for Sender {
    fn role(&self) -> Role {
        Role::Sender
    }

    fn links(&self) -> &[u32] {
        &self.numbers
    }

    fn attached(&mut self, _link: usize, _attach: &Attach, _session: &Session, _output: &mut Vec<u8>) {}

    fn transfer(&mut self, _link: usize, _transfer: &TransferView<'_>, _now: u64, _: &Session, _: &mut Vec<u8>) {}

    fn disposition(&mut self, disposition: &DispositionView<'_>, now: u64, output: &mut Vec<u8>) {
        let terminal = disposition.settled || disposition.state != StateView::None;
        if disposition.role != Role::Receiver || !terminal || self.unsettled.is_empty() {
            return;
        }
        let (first, last) = (disposition.first, disposition.last);
        let range = last.wrapping_sub(first).wrapping_add(1).min(self.unsettled.len() as u32);
        let sampled = self.plan.is_measuring();
        let mut settled = 0;
        for step in 0..range {
            let id = first.wrapping_add(step);
            let slot = self.slot(id);
            let due = std::mem::take(&mut self.unsettled[slot]);
            if due == 0 {
                continue;
            }
            settled += 1;
            if sampled && self.plan.is_sample(u64::from(id), due) {
                self.settlement.saturating_record(now.saturating_sub(due));
            }
        }
        self.count(disposition.state, settled);
        if !disposition.settled {
            fast::encode_disposition(output, 0, Role::Sender, first, last, true, None);
        }
    }

    fn flow(&mut self, link: usize, flow: &Flow, session: &Session, output: &mut Vec<u8>) {
        let Some(credit) = flow.link_credit else { return };
        let handle = link as u32;
        let link = &mut self.links[link];
        link.limit = flow.delivery_count.unwrap_or(0).wrapping_add(credit);
        if flow.drain {
            link.delivery_count = link.limit;
            session.write_flow(output, Some((handle, link.delivery_count, 0)));
        }
        if link.credit() > 0 && !link.queued {
            link.queued = true;
            self.ready.push_back(handle);
        }
    }

    fn end_of_input(&mut self, _session: &Session, _output: &mut Vec<u8>) {}
}
