//! One link endpoint (2.6): credit, the delivery in progress, settlement modes.

mod offered;
mod outcomes;
pub(crate) mod state;
mod tags;

use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) use offered::Offered;
pub use outcomes::OutcomeCounts;
use state::State;
use tags::Tags;

use crate::codec::fast::TransferView;
use crate::types::{Error, Flow, Outcome, ReceiverSettleMode, Role, SenderSettleMode, condition};

/// No limit.
const UNLIMITED: u64 = u64::MAX;

/// The partial delivery: more of its frames will follow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivery {
    pub(crate) in_progress: bool,
    pub(crate) settled: bool,
    /// its frames are dropped: it resumes one that we do not know (2.6.13)
    pub(crate) ignored: bool,
    /// it resumes one that we know
    pub(crate) resumed: bool,
    pub(crate) id: u32,
    pub(crate) message_format: u32,
    /// bytes received or sent so far
    pub(crate) size: u64,
}

/// One end of a link.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) state: State,
    /// ours
    pub(crate) role: Role,
    pub(crate) snd_settle_mode: SenderSettleMode,
    pub(crate) rcv_settle_mode: ReceiverSettleMode,
    /// the end of the link was reported to the driver, or the link never was
    pub(crate) notified: bool,
    /// the peer has attached its end (its delivery-count is known)
    pub(crate) remote_attached: bool,
    /// a flow is to be written; the link is in its session's list
    pub(crate) flow_due: bool,
    pub(crate) drain: bool,
    pub(crate) held: bool,
    /// place of the session in the connection
    pub(crate) session: u32,
    /// our handle
    pub(crate) handle: u32,
    /// the peer's handle
    pub(crate) remote_handle: u32,
    pub(crate) delivery_count: u32,
    /// deliveries that may still be sent
    pub(crate) credit: u32,
    /// the count in the sender's attach
    initial_count: u32,
    /// receiving: the highest delivery-count that any grant has allowed
    ceiling: u32,
    /// receiving: deliveries beyond the ceiling that were dropped since our detach
    pub(crate) uncredited: u32,
    pub(crate) delivery: Delivery,
    /// bytes of the largest message: ours if receiving, the peer's if sending
    size_max: u64,
    /// receiving: deliveries that are to be settled at once although the link settles second
    /// (2.7.5)
    pub(crate) settle_first: BTreeSet<u32>,
    /// receiving: tags of the unsettled deliveries that our attach named and that were not resumed
    /// yet
    pub(crate) resumable: BTreeSet<Box<[u8]>>,
    /// receiving: our attach named only some of them, so the sender must not send new deliveries
    /// (2.7.3)
    pub(crate) incomplete: bool,
    /// receiving: tags of unsettled deliveries
    pub(crate) tags: Tags,
    /// receiving: tag of the delivery in progress, if it has more than one frame
    tag: Vec<u8>,
    /// receiving: outcomes that its deliveries may be given
    pub(crate) offered: Offered,
    /// sending: deliveries without outcome
    pub(crate) unsettled: u32,
    /// outcomes of its deliveries: the peer's if sending, ours if receiving
    pub(crate) outcomes: OutcomeCounts,
    pub(crate) name: Arc<str>,
    /// sending: of the source, for deliveries that are settled without a state
    pub(crate) default_outcome: Option<Outcome>,
}

impl Link {
    pub(crate) fn new(role: Role, session: u32, handle: u32, name: Arc<str>) -> Self {
        Self {
            state: State::Detached,
            role,
            snd_settle_mode: SenderSettleMode::Mixed,
            rcv_settle_mode: ReceiverSettleMode::First,
            notified: false,
            remote_attached: false,
            flow_due: false,
            drain: false,
            held: false,
            session,
            handle,
            remote_handle: 0,
            delivery_count: 0,
            credit: 0,
            initial_count: 0,
            ceiling: 0,
            uncredited: 0,
            delivery: Delivery::default(),
            size_max: UNLIMITED,
            settle_first: BTreeSet::new(),
            resumable: BTreeSet::new(),
            incomplete: false,
            tags: Tags::default(),
            tag: Vec::new(),
            offered: Offered::ALL,
            unsettled: 0,
            outcomes: OutcomeCounts::default(),
            name,
            default_outcome: None,
        }
    }

    /// Bytes of the largest message; `None` and 0 mean no limit (2.7.3).
    pub(crate) fn limit_size(&mut self, max_message_size: Option<u64>) {
        self.size_max = max_message_size.filter(|size| *size > 0).unwrap_or(UNLIMITED);
    }

    /// Sending: begins to count at the number in our attach.
    pub(crate) fn count_from(&mut self, initial_delivery_count: u32) {
        self.initial_count = initial_delivery_count;
        self.delivery_count = initial_delivery_count;
    }

    /// Receiving: begins to count at the sender's initial delivery-count. Until then `ceiling` is
    /// the granted credit.
    pub(crate) fn start_counting(&mut self, initial_delivery_count: u32) {
        self.initial_count = initial_delivery_count;
        self.delivery_count = initial_delivery_count;
        self.ceiling = self.ceiling.wrapping_add(initial_delivery_count);
        self.remote_attached = true;
    }

    /// Deliveries since the attach.
    pub(crate) const fn counted(&self) -> u32 {
        self.delivery_count.wrapping_sub(self.initial_count)
    }

    /// Receiving: the sender may send `credit` deliveries from now on. Returns whether a flow is
    /// due.
    pub(crate) fn grant(&mut self, credit: u32) -> bool {
        let changed = self.credit != credit;
        self.credit = credit;
        if credit > 0 {
            let limit = self.delivery_count.wrapping_add(credit);
            if (limit.wrapping_sub(self.ceiling) as i32) > 0 {
                self.ceiling = limit;
            }
        }
        changed
    }

    /// Receiving: applies a frame of a delivery; returns whether it is the first one.
    #[inline(always)]
    pub(crate) fn receive(&mut self, view: &TransferView<'_>) -> Result<bool, Error> {
        let first = !self.delivery.in_progress;
        if first {
            self.begin_delivery(view)?;
        } else {
            self.continue_delivery(view)?;
        }
        let delivery = &mut self.delivery;
        delivery.settled |= view.settled == Some(true);
        delivery.size += view.payload.len() as u64;
        delivery.in_progress = view.more && !view.aborted;
        if delivery.size > self.size_max && !view.aborted {
            return Err(self.too_large());
        }
        Ok(first)
    }

    /// A later frame, which may omit but not change the fields of the first one (2.7.5).
    #[inline(never)]
    fn continue_delivery(&mut self, view: &TransferView<'_>) -> Result<(), Error> {
        if view.delivery_id.is_some_and(|id| id != self.delivery.id) {
            return Err(self.wrong_continuation(view));
        }
        let field = if view.delivery_tag.is_some_and(|tag| tag != self.tag) {
            "delivery-tag"
        } else if view.message_format.is_some_and(|format| format != self.delivery.message_format) {
            "message-format"
        } else {
            if view.aborted || view.settled == Some(true) {
                self.tags.settle(self.delivery.id);
            }
            return Ok(());
        };
        let description = format!(
            "transfer.{field}: differs from that of the first frame of delivery {} on link {}",
            self.delivery.id, self.name
        );
        Err(Error::new(condition::DECODE_ERROR, description))
    }

    #[inline(always)]
    fn begin_delivery(&mut self, view: &TransferView<'_>) -> Result<(), Error> {
        let (Some(id), Some(tag)) = (view.delivery_id, view.delivery_tag) else {
            return Err(self.missing_identity(view));
        };
        if self.incomplete && !view.resume {
            return Err(self.not_resumed());
        }
        if self.delivery_count == self.ceiling {
            return Err(self.beyond_credit());
        }
        self.delivery_count = self.delivery_count.wrapping_add(1);
        self.credit = self.credit.saturating_sub(1);
        let resumed = view.resume && self.resumable.remove(tag);
        if view.more {
            self.note_tag(tag);
        }
        let ignored = view.resume && !resumed;
        let stays_unsettled = view.settled != Some(true) && !view.aborted && !ignored;
        if stays_unsettled && !self.tags.insert(id, tag) {
            return Err(self.duplicate_tag(id));
        }
        self.delivery = Delivery {
            in_progress: true,
            settled: false,
            ignored,
            resumed,
            id,
            message_format: view.message_format.unwrap_or(0),
            size: 0,
        };
        Ok(())
    }

    /// Later frames may repeat the tag.
    #[cold]
    fn note_tag(&mut self, tag: &[u8]) {
        self.tag.clear();
        self.tag.extend_from_slice(tag);
    }

    #[cold]
    fn missing_identity(&self, view: &TransferView<'_>) -> Error {
        let field = if view.delivery_id.is_none() { "delivery-id" } else { "delivery-tag" };
        let description = format!("transfer.{field}: missing on the first frame of a delivery (link {})", self.name);
        Error::new(condition::INVALID_FIELD, description)
    }

    #[cold]
    fn duplicate_tag(&self, id: u32) -> Error {
        let description = format!(
            "transfer.delivery-tag: delivery {id} has the tag of another unsettled delivery of link {}: use a new tag",
            self.name
        );
        Error::new(condition::DECODE_ERROR, description)
    }

    #[cold]
    fn not_resumed(&self) -> Error {
        let description = format!(
            "transfer.resume: a new delivery on link {}, whose unsettled deliveries did not all fit into its attach: \
             resume and settle those that did, then attach again",
            self.name
        );
        Error::new(condition::NOT_ALLOWED, description)
    }

    #[cold]
    fn wrong_continuation(&self, view: &TransferView<'_>) -> Error {
        let found = view.delivery_id.unwrap_or_default();
        let description = format!(
            "transfer.delivery-id: {found} while delivery {} of link {} is incomplete",
            self.delivery.id, self.name
        );
        Error::new(condition::INVALID_FIELD, description)
    }

    #[cold]
    fn beyond_credit(&self) -> Error {
        let description =
            format!("delivery {} of link {} is beyond the credit granted", self.delivery_count, self.name);
        Error::new(condition::TRANSFER_LIMIT_EXCEEDED, description)
    }

    #[cold]
    fn too_large(&self) -> Error {
        let description =
            format!("delivery {} exceeds the max-message-size of {} bytes", self.delivery.id, self.size_max);
        Error::new(condition::MESSAGE_SIZE_EXCEEDED, description)
    }

    /// Receiving: applies the sender's flow; a sender that drains moves its delivery-count on
    /// (2.6.7).
    pub(crate) fn sender_flow(&mut self, flow: &Flow) {
        let Some(count) = flow.delivery_count else { return };
        let ahead = count.wrapping_sub(self.delivery_count);
        if ahead > 0 && ahead <= self.ceiling.wrapping_sub(self.delivery_count) {
            self.delivery_count = count;
            self.credit = self.credit.saturating_sub(ahead);
        }
    }

    /// Sending: applies the receiver's flow (2.6.7).
    pub(crate) fn receiver_flow(&mut self, flow: &Flow) {
        let sent = self.delivery_count.wrapping_sub(flow.delivery_count.unwrap_or(self.initial_count));
        if let Some(credit) = flow.link_credit {
            // `sent` is negative if the delivery-count of the receiver is ahead of ours; the credit
            // then grows.
            let left = i64::from(credit) - i64::from(sent as i32);
            self.credit = left.clamp(0, i64::from(u32::MAX)) as u32;
        }
        self.drain = flow.drain;
    }

    /// Sending: gives up the remaining credit.
    pub(crate) fn return_credit(&mut self) {
        self.delivery_count = self.delivery_count.wrapping_add(self.credit);
        self.credit = 0;
    }

    /// Sending: whether a message of `size` bytes, or a part of it, is within the receiver's limit.
    #[inline]
    pub(crate) fn fits(&self, size: u64) -> bool {
        size <= self.size_max
    }

    /// The link part of a flow of ours, put into `flow`.
    pub(crate) fn fill_flow(&self, flow: &mut Flow) {
        flow.handle = Some(self.handle);
        flow.delivery_count = (self.role == Role::Sender || self.remote_attached).then_some(self.delivery_count);
        flow.link_credit = Some(self.credit);
        flow.drain = self.drain;
    }
}

#[cfg(test)]
mod tests;
