//! The nine performatives (part 2, 2.7).

use super::code;
use super::descriptor::{self, Descriptor};
use super::error::{DecodeError, Fault, FieldError};
use super::fast;
use super::fields::{no_payload, read_delivery_tag, read_rcv_settle_mode, read_role};
use super::frame::{self, FrameKind};
use super::list::ListReader;
use super::list::ListWriter;
use super::reader::Reader;
use super::state::{put_error, put_state, read_error, read_state};
use super::terminus::{put_source, put_target, read_source, read_target};
use super::writer::{
    put_binary, put_bool, put_compound, put_null, put_string, put_ubyte, put_uint, put_ulong, put_ushort,
};
use crate::types::{
    Attach, Begin, Close, DeliveryState, Detach, Disposition, End, Error, Flow, Open, Performative, ReceiverSettleMode,
    Role, SenderSettleMode, Transfer, condition,
};

/// Decodes the body of an AMQP frame: the performative, and the payload that follows a transfer.
///
/// # Errors
/// `amqp:decode-error` for malformed bytes, fields of the wrong type, another type than a
/// performative, and bytes after a performative that has no payload; `amqp:invalid-field` for a
/// mandatory field omitted or a value that the field does not have; `amqp:not-implemented` for a
/// described type unknown here.
pub fn decode_performative(body: &[u8]) -> Result<(Performative, &[u8]), DecodeError> {
    let mut reader = Reader::new(body);
    let descriptor = reader.descriptor().map_err(|fault| fault.on("performative", ""))?;
    let reader = &mut reader;
    let performative = match descriptor.number() {
        Some(descriptor::OPEN) => Performative::Open(Box::new(read_open(reader)?)),
        Some(descriptor::BEGIN) => Performative::Begin(Box::new(read_begin(reader)?)),
        Some(descriptor::ATTACH) => Performative::Attach(Box::new(read_attach(reader)?)),
        Some(descriptor::FLOW) => Performative::Flow(fast::read_flow(reader)?),
        Some(descriptor::TRANSFER) => {
            let view = fast::read_transfer(reader)?;
            return Ok((Performative::Transfer(Box::new(owned_transfer(&view)?)), view.payload));
        }
        Some(descriptor::DISPOSITION) => {
            Performative::Disposition(owned_disposition(&fast::read_disposition(reader)?)?)
        }
        Some(descriptor::DETACH) => Performative::Detach(read_detach(reader)?),
        Some(descriptor::END) => Performative::End(End { error: read_only_error(reader, "end")? }),
        Some(descriptor::CLOSE) => Performative::Close(Close { error: read_only_error(reader, "close")? }),
        _ => return Err(not_a_performative(descriptor)),
    };
    no_payload(reader, descriptor)?;
    Ok((performative, &[]))
}

#[cold]
fn not_a_performative(descriptor: Descriptor<'_>) -> DecodeError {
    DecodeError::new(condition::DECODE_ERROR, format!("performative: the type {descriptor} is not a performative"))
}

/// Appends a whole frame with any performative. It has no payload: a transfer with a payload starts
/// with [`fast::encode_transfer`].
pub fn encode_performative(out: &mut Vec<u8>, channel: u16, performative: &Performative) {
    match performative {
        Performative::Open(open) => encode_open(out, channel, open),
        Performative::Begin(begin) => encode_begin(out, channel, begin),
        Performative::Attach(attach) => encode_attach(out, channel, attach),
        Performative::Flow(flow) => encode_flow(out, channel, flow),
        Performative::Transfer(transfer) => frame(out, channel, |out| put_transfer(out, transfer)),
        Performative::Disposition(disposition) => frame(out, channel, |out| put_disposition(out, disposition)),
        Performative::Detach(detach) => encode_detach(out, channel, detach),
        Performative::End(end) => encode_end(out, channel, end.error.as_ref()),
        Performative::Close(close) => encode_close(out, channel, close.error.as_ref()),
    }
}

fn frame(out: &mut Vec<u8>, channel: u16, body: impl FnOnce(&mut Vec<u8>)) {
    frame::encode(out, FrameKind::Amqp, channel, body);
}

fn read_snd_settle_mode(reader: &mut Reader<'_>) -> Result<SenderSettleMode, Fault> {
    match reader.ubyte()? {
        0 => Ok(SenderSettleMode::Unsettled),
        1 => Ok(SenderSettleMode::Settled),
        2 => Ok(SenderSettleMode::Mixed),
        _ => Err(Fault::Range("a snd-settle-mode is 0 (unsettled), 1 (settled) or 2 (mixed)")),
    }
}

fn read_open(reader: &mut Reader<'_>) -> Result<Open, DecodeError> {
    let mut list = ListReader::open(reader, "open")?;
    let open = Open {
        container_id: list.required("container-id", Reader::string)?.to_owned(),
        hostname: list.string("hostname")?,
        max_frame_size: list.optional("max-frame-size", Reader::uint)?.unwrap_or(u32::MAX),
        channel_max: list.optional("channel-max", Reader::ushort)?.unwrap_or(u16::MAX),
        idle_time_out: list.optional("idle-time-out", Reader::uint)?,
        outgoing_locales: list.symbols("outgoing-locales")?,
        incoming_locales: list.symbols("incoming-locales")?,
        offered_capabilities: list.symbols("offered-capabilities")?,
        desired_capabilities: list.symbols("desired-capabilities")?,
        properties: list.fields("properties")?,
    };
    list.finish()?;
    Ok(open)
}

/// Appends an open frame (2.7.1).
pub fn encode_open(out: &mut Vec<u8>, channel: u16, open: &Open) {
    frame(out, channel, |out| {
        ListWriter::new(out, descriptor::OPEN)
            .put(open.container_id.as_str(), put_string)
            .maybe(open.hostname.as_deref(), put_string)
            .maybe((open.max_frame_size != u32::MAX).then_some(open.max_frame_size), put_uint)
            .maybe((open.channel_max != u16::MAX).then_some(open.channel_max), put_ushort)
            .maybe(open.idle_time_out, put_uint)
            .symbols(&open.outgoing_locales)
            .symbols(&open.incoming_locales)
            .symbols(&open.offered_capabilities)
            .symbols(&open.desired_capabilities)
            .fields(&open.properties)
            .finish();
    });
}

fn read_begin(reader: &mut Reader<'_>) -> Result<Begin, DecodeError> {
    let mut list = ListReader::open(reader, "begin")?;
    let begin = Begin {
        remote_channel: list.optional("remote-channel", Reader::ushort)?,
        next_outgoing_id: list.required("next-outgoing-id", Reader::uint)?,
        incoming_window: list.required("incoming-window", Reader::uint)?,
        outgoing_window: list.required("outgoing-window", Reader::uint)?,
        handle_max: list.optional("handle-max", Reader::uint)?.unwrap_or(u32::MAX),
        offered_capabilities: list.symbols("offered-capabilities")?,
        desired_capabilities: list.symbols("desired-capabilities")?,
        properties: list.fields("properties")?,
    };
    list.finish()?;
    Ok(begin)
}

/// Appends a begin frame (2.7.2).
pub fn encode_begin(out: &mut Vec<u8>, channel: u16, begin: &Begin) {
    frame(out, channel, |out| {
        ListWriter::new(out, descriptor::BEGIN)
            .maybe(begin.remote_channel, put_ushort)
            .put(begin.next_outgoing_id, put_uint)
            .put(begin.incoming_window, put_uint)
            .put(begin.outgoing_window, put_uint)
            .maybe((begin.handle_max != u32::MAX).then_some(begin.handle_max), put_uint)
            .symbols(&begin.offered_capabilities)
            .symbols(&begin.desired_capabilities)
            .fields(&begin.properties)
            .finish();
    });
}

fn read_attach(reader: &mut Reader<'_>) -> Result<Attach, DecodeError> {
    let mut list = ListReader::open(reader, "attach")?;
    let attach = Attach {
        name: list.required("name", Reader::string)?.to_owned(),
        handle: list.required("handle", Reader::uint)?,
        role: list.required("role", read_role)?,
        snd_settle_mode: list.optional("snd-settle-mode", read_snd_settle_mode)?.unwrap_or_default(),
        rcv_settle_mode: list.optional("rcv-settle-mode", read_rcv_settle_mode)?.unwrap_or_default(),
        source: list.optional("source", read_source)?.map(Box::new),
        target: list.optional("target", read_target)?.map(Box::new),
        unsettled: list.optional("unsettled", read_unsettled)?,
        incomplete_unsettled: list.flag("incomplete-unsettled")?,
        initial_delivery_count: list.optional("initial-delivery-count", Reader::uint)?,
        max_message_size: list.optional("max-message-size", Reader::ulong)?,
        offered_capabilities: list.symbols("offered-capabilities")?,
        desired_capabilities: list.symbols("desired-capabilities")?,
        properties: list.fields("properties")?,
    };
    list.finish()?;
    if attach.role == Role::Sender && attach.initial_delivery_count.is_none() {
        return Err(Fault::Missing.on("attach", "initial-delivery-count (role sender)"));
    }
    Ok(attach)
}

type Unsettled = Vec<(Vec<u8>, Option<DeliveryState>)>;

fn read_unsettled(reader: &mut Reader<'_>) -> Result<Unsettled, DecodeError> {
    let blame = |fault: Fault| fault.on("unsettled", "");
    let (count, mut entries) = reader.map().map_err(blame)?;
    let mut unsettled = Unsettled::new();
    for _ in 0..count / 2 {
        let tag = read_delivery_tag(&mut entries).map_err(blame)?.to_vec();
        let state = if entries.null() { None } else { Some(read_state(&mut entries)?) };
        unsettled.push((tag, state));
    }
    if entries.is_empty() { Ok(unsettled) } else { Err(blame(Fault::Leftover)) }
}

fn put_unsettled(out: &mut Vec<u8>, unsettled: &Unsettled) {
    put_compound(out, code::MAP_8, |out| {
        for (tag, state) in unsettled {
            put_binary(out, tag);
            match state {
                Some(state) => put_state(out, state),
                None => put_null(out),
            }
        }
        unsettled.len() * 2
    });
}

/// Appends an attach frame (2.7.3).
pub fn encode_attach(out: &mut Vec<u8>, channel: u16, attach: &Attach) {
    let snd_settle_mode = (attach.snd_settle_mode != SenderSettleMode::Mixed).then_some(attach.snd_settle_mode as u8);
    let rcv_settle_mode = (attach.rcv_settle_mode != ReceiverSettleMode::First).then_some(attach.rcv_settle_mode as u8);
    frame(out, channel, |out| {
        ListWriter::new(out, descriptor::ATTACH)
            .put(attach.name.as_str(), put_string)
            .put(attach.handle, put_uint)
            .put(attach.role == Role::Receiver, put_bool)
            .maybe(snd_settle_mode, put_ubyte)
            .maybe(rcv_settle_mode, put_ubyte)
            .maybe(attach.source.as_deref(), put_source)
            .maybe(attach.target.as_deref(), put_target)
            .maybe(attach.unsettled.as_ref(), put_unsettled)
            .flag(attach.incomplete_unsettled)
            .maybe(attach.initial_delivery_count, put_uint)
            .maybe(attach.max_message_size, put_ulong)
            .symbols(&attach.offered_capabilities)
            .symbols(&attach.desired_capabilities)
            .fields(&attach.properties)
            .finish();
    });
}

/// Appends a flow frame (2.7.4).
pub fn encode_flow(out: &mut Vec<u8>, channel: u16, flow: &Flow) {
    frame(out, channel, |out| {
        ListWriter::new(out, descriptor::FLOW)
            .maybe(flow.next_incoming_id, put_uint)
            .put(flow.incoming_window, put_uint)
            .put(flow.next_outgoing_id, put_uint)
            .put(flow.outgoing_window, put_uint)
            .maybe(flow.handle, put_uint)
            .maybe(flow.delivery_count, put_uint)
            .maybe(flow.link_credit, put_uint)
            .maybe(flow.available, put_uint)
            .flag(flow.drain)
            .flag(flow.echo)
            .fields(&flow.properties)
            .finish();
    });
}

fn owned_transfer(view: &fast::TransferView<'_>) -> Result<Transfer, DecodeError> {
    Ok(Transfer {
        handle: view.handle,
        delivery_id: view.delivery_id,
        delivery_tag: view.delivery_tag.map(<[u8]>::to_vec),
        message_format: view.message_format,
        settled: view.settled,
        more: view.more,
        rcv_settle_mode: view.rcv_settle_mode,
        state: state_field(view.state, "transfer")?,
        resume: view.resume,
        aborted: view.aborted,
        batchable: view.batchable,
    })
}

fn state_field(state: Option<&[u8]>, owner: &str) -> Result<Option<DeliveryState>, DecodeError> {
    let Some(bytes) = state else { return Ok(None) };
    read_state(&mut Reader::new(bytes)).map(Some).map_err(|error| error.on(owner, "state"))
}

fn put_transfer(out: &mut Vec<u8>, transfer: &Transfer) {
    ListWriter::new(out, descriptor::TRANSFER)
        .put(transfer.handle, put_uint)
        .maybe(transfer.delivery_id, put_uint)
        .maybe(transfer.delivery_tag.as_deref(), put_binary)
        .maybe(transfer.message_format, put_uint)
        .maybe(transfer.settled, put_bool)
        .flag(transfer.more)
        .maybe(transfer.rcv_settle_mode.map(|mode| mode as u8), put_ubyte)
        .maybe(transfer.state.as_ref(), put_state)
        .flag(transfer.resume)
        .flag(transfer.aborted)
        .flag(transfer.batchable)
        .finish();
}

fn owned_disposition(view: &fast::RawDisposition<'_>) -> Result<Disposition, DecodeError> {
    Ok(Disposition {
        role: view.role,
        first: view.first,
        last: view.last,
        settled: view.settled,
        state: state_field(view.state, "disposition")?,
        batchable: view.batchable,
    })
}

fn put_disposition(out: &mut Vec<u8>, disposition: &Disposition) {
    ListWriter::new(out, descriptor::DISPOSITION)
        .put(disposition.role == Role::Receiver, put_bool)
        .put(disposition.first, put_uint)
        .maybe(disposition.last, put_uint)
        .flag(disposition.settled)
        .maybe(disposition.state.as_ref(), put_state)
        .flag(disposition.batchable)
        .finish();
}

fn read_detach(reader: &mut Reader<'_>) -> Result<Detach, DecodeError> {
    let mut list = ListReader::open(reader, "detach")?;
    let detach = Detach {
        handle: list.required("handle", Reader::uint)?,
        closed: list.flag("closed")?,
        error: list.optional("error", read_error)?,
    };
    list.finish()?;
    Ok(detach)
}

/// Appends a detach frame (2.7.7).
pub fn encode_detach(out: &mut Vec<u8>, channel: u16, detach: &Detach) {
    frame(out, channel, |out| {
        ListWriter::new(out, descriptor::DETACH)
            .put(detach.handle, put_uint)
            .flag(detach.closed)
            .maybe(detach.error.as_ref(), put_error)
            .finish();
    });
}

fn read_only_error(reader: &mut Reader<'_>, owner: &'static str) -> Result<Option<Error>, DecodeError> {
    let mut list = ListReader::open(reader, owner)?;
    let error = list.optional("error", read_error)?;
    list.finish()?;
    Ok(error)
}

/// Appends an end frame (2.7.8).
pub fn encode_end(out: &mut Vec<u8>, channel: u16, error: Option<&Error>) {
    frame(out, channel, |out| ListWriter::new(out, descriptor::END).maybe(error, put_error).finish());
}

/// Appends a close frame (2.7.9).
pub fn encode_close(out: &mut Vec<u8>, channel: u16, error: Option<&Error>) {
    frame(out, channel, |out| ListWriter::new(out, descriptor::CLOSE).maybe(error, put_error).finish());
}
