//! The hot path: transfers, dispositions and flows, read in place and written from a fixed shape.
//! Nothing is allocated but for an error; every legal encoding is understood and every bound
//! checked.

use super::code;
use super::descriptor;
use super::error::{DecodeError, FieldError};
use super::fields::{no_payload, read_delivery_tag, read_rcv_settle_mode, read_role};
use super::list::ListReader;
use super::reader::Reader;
use super::state::put_state;
use super::{MAX_DELIVERY_TAG, frame::HEADER_SIZE};
use crate::types::{DeliveryState, Flow, Outcome, ReceiverSettleMode, Role, condition};

/// A transfer (2.7.5) over the bytes of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferView<'a> {
    /// link handle
    pub handle: u32,
    /// on the first frame of a delivery
    pub delivery_id: Option<u32>,
    /// on the first frame of a delivery; at most 32 bytes
    pub delivery_tag: Option<&'a [u8]>,
    /// on the first frame of a delivery
    pub message_format: Option<u32>,
    /// `None` is false, or the value of earlier frames of the delivery
    pub settled: Option<bool>,
    /// more frames of the delivery follow
    pub more: bool,
    /// overrides the link's
    pub rcv_settle_mode: Option<ReceiverSettleMode>,
    /// state at the sender, still encoded: for `decode_state`
    pub state: Option<&'a [u8]>,
    /// resumes a delivery of an earlier attachment
    pub resume: bool,
    /// the delivery is aborted
    pub aborted: bool,
    /// a hint
    pub batchable: bool,
    /// the message, or this frame's part of it
    pub payload: &'a [u8],
}

/// Whether the body of a frame is a transfer in the encoding that senders use; for `false`, use
/// `decode_performative`.
#[inline]
#[must_use]
pub fn is_transfer(body: &[u8]) -> bool {
    is(body, descriptor::TRANSFER)
}

/// As [`is_transfer`], for a disposition.
#[inline]
#[must_use]
pub fn is_disposition(body: &[u8]) -> bool {
    is(body, descriptor::DISPOSITION)
}

/// As [`is_transfer`], for a flow.
#[inline]
#[must_use]
pub fn is_flow(body: &[u8]) -> bool {
    is(body, descriptor::FLOW)
}

#[inline]
fn is(body: &[u8], descriptor: u64) -> bool {
    body.starts_with(&[code::DESCRIBED, code::SMALL_ULONG, descriptor as u8])
}

/// Reads past the descriptor, which must be `descriptor`.
#[inline]
fn open<'a>(body: &'a [u8], descriptor: u64, owner: &'static str) -> Result<Reader<'a>, DecodeError> {
    if is(body, descriptor) {
        return Ok(Reader::new(&body[3..]));
    }
    let mut reader = Reader::new(body);
    let found = reader.descriptor().map_err(|fault| fault.on(owner, ""))?;
    if found.number() == Some(descriptor) {
        return Ok(reader);
    }
    Err(DecodeError::new(condition::DECODE_ERROR, format!("{owner}: found the type {found} in its place")))
}

/// Reads the body of a frame as a transfer.
///
/// # Errors
/// As `decode_performative`, except that the state is not decoded: see `decode_state`.
#[inline]
pub fn transfer(body: &[u8]) -> Result<TransferView<'_>, DecodeError> {
    read_transfer(&mut open(body, descriptor::TRANSFER, "transfer")?)
}

/// The fields of a transfer in the encoding that senders use, for [`transfer_of`].
#[inline]
pub(crate) fn transfer_fields(body: &[u8]) -> Option<&[u8]> {
    body.strip_prefix(&[code::DESCRIBED, code::SMALL_ULONG, descriptor::TRANSFER as u8])
}

/// As [`transfer`], for a body without its descriptor.
pub(crate) fn transfer_of(fields: &[u8]) -> Result<TransferView<'_>, DecodeError> {
    read_transfer(&mut Reader::new(fields))
}

/// A transfer after its descriptor.
#[inline]
pub(super) fn read_transfer<'a>(reader: &mut Reader<'a>) -> Result<TransferView<'a>, DecodeError> {
    let mut list = ListReader::open(reader, "transfer")?;
    let view = TransferView {
        handle: list.required("handle", Reader::uint)?,
        delivery_id: list.optional("delivery-id", Reader::uint)?,
        delivery_tag: list.optional("delivery-tag", read_delivery_tag)?,
        message_format: list.optional("message-format", Reader::uint)?,
        settled: list.optional("settled", Reader::bool)?,
        more: list.flag("more")?,
        rcv_settle_mode: list.optional("rcv-settle-mode", read_rcv_settle_mode)?,
        state: list.optional("state", Reader::skip)?,
        resume: list.flag("resume")?,
        aborted: list.flag("aborted")?,
        batchable: list.flag("batchable")?,
        payload: reader.rest(),
    };
    list.finish()?;
    Ok(view)
}

/// The states that most dispositions carry, and all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateView<'a> {
    /// no state
    None,
    /// 3.4.2
    Accepted,
    /// 3.4.4
    Released,
    /// still encoded: for `decode_state`
    Other(&'a [u8]),
}

impl<'a> StateView<'a> {
    /// Recognises the common states by their bytes.
    #[inline]
    #[must_use]
    pub fn of(state: Option<&'a [u8]>) -> Self {
        match state {
            None => Self::None,
            Some([code::DESCRIBED, code::SMALL_ULONG, 0x24, code::LIST_0]) => Self::Accepted,
            Some([code::DESCRIBED, code::SMALL_ULONG, 0x26, code::LIST_0]) => Self::Released,
            Some([code::DESCRIBED, code::SMALL_ULONG, 0x24, code::LIST_8, 1, 0]) => Self::Accepted,
            Some([code::DESCRIBED, code::SMALL_ULONG, 0x26, code::LIST_8, 1, 0]) => Self::Released,
            Some(other) => Self::Other(other),
        }
    }
}

/// A disposition (2.7.6) over the bytes of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispositionView<'a> {
    /// role of the sender of this frame
    pub role: Role,
    /// first delivery id
    pub first: u32,
    /// last delivery id; `first` when the frame names none
    pub last: u32,
    /// the sender of this frame has settled
    pub settled: bool,
    /// state at the sender of this frame
    pub state: StateView<'a>,
}

/// A disposition as it is on the wire.
pub(super) struct RawDisposition<'a> {
    pub(super) role: Role,
    pub(super) first: u32,
    pub(super) last: Option<u32>,
    pub(super) settled: bool,
    pub(super) state: Option<&'a [u8]>,
    pub(super) batchable: bool,
}

/// Reads the body of a frame as a disposition.
///
/// # Errors
/// As `decode_performative`, except that a state other than accepted and released is left for
/// `decode_state`.
#[inline]
pub fn disposition(body: &[u8]) -> Result<DispositionView<'_>, DecodeError> {
    let mut reader = open(body, descriptor::DISPOSITION, "disposition")?;
    let raw = read_disposition(&mut reader)?;
    no_payload(&reader, "disposition")?;
    Ok(DispositionView {
        role: raw.role,
        first: raw.first,
        last: raw.last.unwrap_or(raw.first),
        settled: raw.settled,
        state: StateView::of(raw.state),
    })
}

/// A disposition after its descriptor.
#[inline]
pub(super) fn read_disposition<'a>(reader: &mut Reader<'a>) -> Result<RawDisposition<'a>, DecodeError> {
    let mut list = ListReader::open(reader, "disposition")?;
    let raw = RawDisposition {
        role: list.required("role", read_role)?,
        first: list.required("first", Reader::uint)?,
        last: list.optional("last", Reader::uint)?,
        settled: list.flag("settled")?,
        state: list.optional("state", Reader::skip)?,
        batchable: list.flag("batchable")?,
    };
    list.finish()?;
    Ok(raw)
}

/// Reads the body of a frame as a flow. Its properties, if any, are the only thing allocated.
///
/// # Errors
/// As `decode_performative`.
#[inline]
pub fn flow(body: &[u8]) -> Result<Flow, DecodeError> {
    let mut reader = open(body, descriptor::FLOW, "flow")?;
    let flow = read_flow(&mut reader)?;
    no_payload(&reader, "flow")?;
    Ok(flow)
}

/// A flow after its descriptor.
#[inline]
pub(super) fn read_flow(reader: &mut Reader<'_>) -> Result<Flow, DecodeError> {
    let mut list = ListReader::open(reader, "flow")?;
    let flow = Flow {
        next_incoming_id: list.optional("next-incoming-id", Reader::uint)?,
        incoming_window: list.required("incoming-window", Reader::uint)?,
        next_outgoing_id: list.required("next-outgoing-id", Reader::uint)?,
        outgoing_window: list.required("outgoing-window", Reader::uint)?,
        handle: list.optional("handle", Reader::uint)?,
        delivery_count: list.optional("delivery-count", Reader::uint)?,
        link_credit: list.optional("link-credit", Reader::uint)?,
        available: list.optional("available", Reader::uint)?,
        drain: list.flag("drain")?,
        echo: list.flag("echo")?,
        properties: list.fields("properties")?,
    };
    list.finish()?;
    Ok(flow)
}

/// The fields that a sender sets in a transfer frame.
#[derive(Clone, Copy, Debug)]
pub struct TransferHead<'a> {
    /// channel of the session
    pub channel: u16,
    /// link handle
    pub handle: u32,
    /// `None` on every frame of a delivery but the first; tag and format are omitted with it
    pub delivery_id: Option<u32>,
    /// at most 32 bytes
    pub tag: &'a [u8],
    /// 0 for the format of part 3
    pub message_format: u32,
    /// the sender has settled
    pub settled: bool,
    /// more frames of the delivery follow
    pub more: bool,
    /// the delivery resumes one that the receiver knows
    pub resume: bool,
    /// the delivery is given up
    pub aborted: bool,
    /// bytes that the caller appends next
    pub payload_len: usize,
}

/// Bytes that a transfer frame takes at most before its payload, with [`encode_transfer`].
pub const MAX_TRANSFER_HEAD: usize = HEADER_SIZE + 6 + 5 + 5 + (2 + MAX_DELIVERY_TAG) + 5 + 2 + 4;

/// Appends a frame header and a transfer. The frame's size counts the `payload_len` bytes that the
/// caller must append next. A tag of more than 32 bytes is cut, as no peer would take it.
#[inline]
pub fn encode_transfer(out: &mut Vec<u8>, head: &TransferHead<'_>) {
    let mut bytes = HeadWriter::new(head.channel, descriptor::TRANSFER);
    bytes.uint(head.handle);
    match head.delivery_id {
        Some(delivery_id) => {
            bytes.uint(delivery_id);
            bytes.tag(head.tag);
            bytes.uint(head.message_format);
        }
        None => bytes.nulls(3),
    }
    bytes.bool(head.settled);
    let mut fields = 5;
    if head.more || head.resume || head.aborted {
        bytes.bool(head.more);
        fields = 6;
    }
    if head.resume || head.aborted {
        bytes.nulls(2);
        bytes.bool(head.resume);
        fields = 9;
    }
    if head.aborted {
        bytes.bool(true);
        fields = 10;
    }
    out.extend_from_slice(bytes.finish(fields, head.payload_len));
}

/// As [`encode_transfer`], with a state at the sender (part 4), whose bytes come on top of
/// [`MAX_TRANSFER_HEAD`].
#[cold]
pub fn encode_transfer_with(out: &mut Vec<u8>, head: &TransferHead<'_>, state: &DeliveryState) {
    use super::list::ListWriter;
    use super::writer::{put_binary, put_bool, put_null, put_uint};
    let start = out.len();
    super::frame::encode(out, super::frame::FrameKind::Amqp, head.channel, |out| {
        ListWriter::new(out, descriptor::TRANSFER)
            .put(head.handle, put_uint)
            .maybe(head.delivery_id, put_uint)
            .maybe(head.delivery_id.map(|_| &head.tag[..head.tag.len().min(MAX_DELIVERY_TAG)]), put_binary)
            .maybe(head.delivery_id.map(|_| head.message_format), put_uint)
            .put(head.settled, put_bool)
            .put(head.more, put_bool)
            .put((), |out, ()| put_null(out))
            .put(state, put_state)
            .flag(head.resume)
            .flag(head.aborted)
            .finish();
    });
    let size = (out.len() - start + head.payload_len) as u32;
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
}

/// Appends a disposition frame (2.7.6).
#[inline]
pub fn encode_disposition(
    out: &mut Vec<u8>,
    channel: u16,
    role: Role,
    first: u32,
    last: u32,
    settled: bool,
    outcome: Option<&Outcome>,
) {
    let mut bytes = HeadWriter::new(channel, descriptor::DISPOSITION);
    bytes.bool(role == Role::Receiver);
    bytes.uint(first);
    if first == last {
        bytes.nulls(1)
    } else {
        bytes.uint(last)
    }
    bytes.bool(settled);
    let state = match outcome {
        None => return out.extend_from_slice(bytes.finish(4, 0)),
        Some(Outcome::Accepted) => descriptor::ACCEPTED as u8,
        Some(Outcome::Released) => descriptor::RELEASED as u8,
        Some(other) => {
            let state = DeliveryState::Outcome(other.clone());
            return encode_disposition_of(out, channel, (role, first, last, settled), &state);
        }
    };
    bytes.bytes(&[code::DESCRIBED, code::SMALL_ULONG, state, code::LIST_0]);
    out.extend_from_slice(bytes.finish(5, 0));
}

/// As [`encode_disposition`], with any state.
#[cold]
pub fn encode_disposition_of(
    out: &mut Vec<u8>,
    channel: u16,
    (role, first, last, settled): (Role, u32, u32, bool),
    state: &DeliveryState,
) {
    use super::list::ListWriter;
    use super::writer::{put_bool, put_uint};
    super::frame::encode(out, super::frame::FrameKind::Amqp, channel, |out| {
        ListWriter::new(out, descriptor::DISPOSITION)
            .put(role == Role::Receiver, put_bool)
            .put(first, put_uint)
            .maybe((first != last).then_some(last), put_uint)
            .put(settled, put_bool)
            .put(state, put_state)
            .finish();
    });
}

/// A frame with a small list, made on the stack so that the output grows once.
struct HeadWriter {
    bytes: [u8; MAX_TRANSFER_HEAD],
    len: usize,
}

impl HeadWriter {
    /// Place of the size and count of the list: after frame header and descriptor.
    const LIST: usize = HEADER_SIZE + 3;

    #[inline]
    fn new(channel: u16, descriptor: u64) -> Self {
        let [c0, c1] = channel.to_be_bytes();
        let mut bytes = [0; MAX_TRANSFER_HEAD];
        bytes[4..HEADER_SIZE].copy_from_slice(&[2, 0, c0, c1]);
        bytes[HEADER_SIZE..Self::LIST + 1].copy_from_slice(&[
            code::DESCRIBED,
            code::SMALL_ULONG,
            descriptor as u8,
            code::LIST_8,
        ]);
        Self { bytes, len: Self::LIST + 3 }
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    #[inline]
    fn uint(&mut self, value: u32) {
        if value == 0 {
            self.bytes(&[code::UINT_0]);
        } else if value <= 255 {
            self.bytes(&[code::SMALL_UINT, value as u8]);
        } else {
            let [b0, b1, b2, b3] = value.to_be_bytes();
            self.bytes(&[code::UINT, b0, b1, b2, b3]);
        }
    }

    #[inline]
    fn bool(&mut self, value: bool) {
        self.bytes(&[if value { code::TRUE } else { code::FALSE }]);
    }

    #[inline]
    fn nulls(&mut self, count: usize) {
        self.bytes(&[code::NULL; 3][..count]);
    }

    #[inline]
    fn tag(&mut self, tag: &[u8]) {
        let tag = &tag[..tag.len().min(MAX_DELIVERY_TAG)];
        self.bytes(&[code::BINARY_8, tag.len() as u8]);
        match *tag {
            // Our own tags: a constant length avoids the call of a copy function.
            [a, b, c, d] => self.bytes(&[a, b, c, d]),
            _ => self.bytes(tag),
        }
    }

    /// Fills in the sizes of the list and of the frame.
    #[inline]
    fn finish(&mut self, fields: u8, payload_len: usize) -> &[u8] {
        let list_size = self.len - Self::LIST - 2;
        self.bytes[Self::LIST + 1] = list_size as u8;
        self.bytes[Self::LIST + 2] = fields;
        let size = (self.len + payload_len) as u32;
        self.bytes[..4].copy_from_slice(&size.to_be_bytes());
        &self.bytes[..self.len]
    }
}
