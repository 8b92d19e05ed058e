//! The receiving side of a load: counts, times and accepts messages, and replenishes credit.

use std::sync::Arc;

use enmasse_amqp::codec::fast::{self, DispositionView, TransferView};
use enmasse_amqp::types::{Attach, Flow, Outcome, Role};
use hdrhistogram::Histogram;

use super::connection::{Session, Traffic};
use super::stamp::Stamp;
use super::{Plan, latency_histogram};

/// A partial delivery.
#[derive(Clone, Copy, Default)]
struct PartialDelivery {
    delivery_id: u32,
    settled: bool,
}

struct Link {
    delivery_count: u32,
    /// messages that the server may still send
    credit: u32,
    partial: Option<PartialDelivery>,
    /// the next sequence number, by sender of the address
    next: Vec<u64>,
}

/// The messages of a receiver.
#[derive(Clone, Default, Debug)]
pub(super) struct Received {
    /// messages of this run
    pub(super) messages: u64,
    /// bytes of their payloads
    pub(super) bytes: u64,
    /// messages that arrived after a later one of the same sender, or twice
    pub(super) reordered: u64,
    /// messages of another run, or of no run
    pub(super) foreign: u64,
}

impl std::ops::AddAssign<&Self> for Received {
    fn add_assign(&mut self, other: &Self) {
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.reordered += other.reordered;
        self.foreign += other.foreign;
    }
}

/// The receiving links of one connection.
pub(super) struct Receiver {
    plan: Arc<Plan>,
    numbers: Vec<u32>,
    links: Vec<Link>,
    /// deliveries to be accepted in one disposition
    accepted: Option<(u32, u32)>,
    pub(super) counts: Received,
    /// nanoseconds from due to received
    pub(super) latency: Histogram<u64>,
}

impl Receiver {
    pub(super) fn new(plan: &Arc<Plan>, numbers: Vec<u32>) -> Self {
        // of the senders of another run only the first of each address is known
        let senders = plan.options.senders.div_ceil(plan.options.addresses).max(1) as usize;
        let link = |_| Link { delivery_count: 0, credit: 0, partial: None, next: vec![0; senders] };
        Self {
            plan: Arc::clone(plan),
            links: numbers.iter().map(link).collect(),
            numbers,
            accepted: None,
            counts: Received::default(),
            latency: latency_histogram(),
        }
    }

    /// Records a message by its first bytes.
    #[inline]
    fn message(&mut self, link: usize, payload: &[u8], now: u64) {
        let own = self.plan.options.senders > 0;
        let stamp = body(payload).and_then(Stamp::of).filter(|stamp| !own || stamp.run == self.plan.run);
        let Some(stamp) = stamp else {
            self.counts.foreign += 1;
            return;
        };
        self.counts.messages += 1;
        let slot = (stamp.sender / self.plan.options.addresses) as usize;
        if let Some(next) = self.links[link].next.get_mut(slot) {
            self.counts.reordered += u64::from(stamp.sequence < *next);
            *next = stamp.sequence + 1;
        }
        // the clock of another run has another origin
        if own && self.plan.is_sample(stamp.sequence, stamp.due) {
            self.latency.saturating_record(now.saturating_sub(stamp.due));
        }
    }

    /// Adds a delivery to the range of accepted ones; writes the range first if the delivery does
    /// not continue it.
    #[inline]
    fn accept(&mut self, delivery_id: u32, output: &mut Vec<u8>) {
        match &mut self.accepted {
            Some((_, last)) if delivery_id == last.wrapping_add(1) => *last = delivery_id,
            _ => {
                self.write_accepted(output);
                self.accepted = Some((delivery_id, delivery_id));
            }
        }
    }

    fn write_accepted(&mut self, output: &mut Vec<u8>) {
        if let Some((first, last)) = self.accepted.take() {
            fast::encode_disposition(output, 0, Role::Receiver, first, last, true, Some(&Outcome::Accepted));
        }
    }

    fn grant(&mut self, link: usize, session: &Session, output: &mut Vec<u8>) {
        let credit = self.plan.options.credit;
        self.links[link].credit = credit;
        session.write_flow(output, Some((link as u32, self.links[link].delivery_count, credit)));
    }
}

/// The first body section of a message, or the part of it in the first frame.
#[inline]
fn body(payload: &[u8]) -> Option<&[u8]> {
    let mut rest = payload;
    loop {
        match rest {
            [0, 0x53, 0x75, 0xa0, _, body @ ..] => return Some(body),
            [0, 0x53, 0x75, 0xb0, _, _, _, _, body @ ..] => return Some(body),
            // header, annotations, properties: lists and maps of two widths, or an empty list
            [0, 0x53, 0x70..=0x74, 0x45, after @ ..] => rest = after,
            [0, 0x53, 0x70..=0x74, 0xc0 | 0xc1, size, after @ ..] => rest = after.get(usize::from(*size)..)?,
            [0, 0x53, 0x70..=0x74, 0xd0 | 0xd1, s0, s1, s2, s3, after @ ..] => {
                rest = after.get(u32::from_be_bytes([*s0, *s1, *s2, *s3]) as usize..)?;
            }
            _ => return None,
        }
    }
}

impl Traffic for Receiver {
    fn role(&self) -> Role {
        Role::Receiver
    }

    fn links(&self) -> &[u32] {
        &self.numbers
    }

    fn attached(&mut self, link: usize, attach: &Attach, session: &Session, output: &mut Vec<u8>) {
        self.links[link].delivery_count = attach.initial_delivery_count.unwrap_or(0);
        self.grant(link, session, output);
    }

    #[inline]
    fn transfer(
        &mut self,
        link: usize,
        transfer: &TransferView<'_>,
        now: u64,
        session: &Session,
        output: &mut Vec<u8>,
    ) {
        self.counts.bytes += transfer.payload.len() as u64;
        let partial = match self.links[link].partial.take() {
            Some(partial) => partial,
            None => {
                if !transfer.aborted {
                    self.message(link, transfer.payload, now);
                }
                PartialDelivery { delivery_id: transfer.delivery_id.unwrap_or(0), settled: false }
            }
        };
        let settled = partial.settled || transfer.settled == Some(true);
        let state = &mut self.links[link];
        if transfer.more && !transfer.aborted {
            state.partial = Some(PartialDelivery { settled, ..partial });
            return;
        }
        state.delivery_count = state.delivery_count.wrapping_add(1);
        state.credit = state.credit.saturating_sub(1);
        let low = state.credit <= self.plan.options.credit / 2;
        if !settled && !transfer.aborted {
            self.accept(partial.delivery_id, output);
        }
        if low {
            self.write_accepted(output);
            self.grant(link, session, output);
        }
    }

    fn disposition(&mut self, _disposition: &DispositionView<'_>, _now: u64, _output: &mut Vec<u8>) {}

    fn flow(&mut self, _link: usize, _flow: &Flow, _session: &Session, _output: &mut Vec<u8>) {}

    fn end_of_input(&mut self, _session: &Session, output: &mut Vec<u8>) {
        self.write_accepted(output);
    }
}

#[cfg(test)]
mod tests {
    use super::body;
    use crate::options::Options;
    use crate::sender::Template;

    #[test]
    fn body_is_found_after_any_sections() {
        let data = b"\x00\x53\x75\xa0\x04body";
        assert_eq!(body(data), Some(&b"body"[..]));
        let wide = b"\x00\x53\x75\xb0\x00\x00\x00\x04body";
        assert_eq!(body(wide), Some(&b"body"[..]));
        let header: &[u8] = b"\x00\x53\x70\xc0\x02\x01\x41";
        let annotations: &[u8] = b"\x00\x53\x72\xd1\x00\x00\x00\x04\x00\x00\x00\x00";
        let properties: &[u8] = b"\x00\x53\x73\x45";
        assert_eq!(body(&[header, annotations, properties, data].concat()), Some(&b"body"[..]));
        assert_eq!(body(&data[..4]), None);
        assert_eq!(body(b"\x00\x53\x77\xa1\x04text"), None);
        assert_eq!(body(b"\x00\x53\x70\xc0\x09\x01\x41"), None);
    }

    #[test]
    fn body_of_a_durable_template_is_found() {
        let options = Options { durable: true, body: 300, ..Options::default() };
        let template = Template::new(&options);
        assert_eq!(body(template.bytes()).map(<[u8]>::len), Some(300));
    }
}
