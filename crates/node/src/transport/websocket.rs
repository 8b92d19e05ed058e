//! AMQP and MQTT over WebSocket (RFC 6455; the OASIS binding draft of AMQP, 2.1; MQTT 5.0, 6): the
//! server's side.
//!
//! tungstenite parses and writes the request, its response and the frame headers. Payloads are
//! passed on as they arrive and never collected into messages, so a connection buffers at most one
//! header and one control frame, whatever length the peer announces. Any path is served; only the
//! subprotocol matters.
//!
//! ```text
//! frame: fin(1) rsv(3) opcode(4) | mask(1) length(7) | [length 16 or 64] | [mask 32] | payload
//! ```

use std::io::Cursor;
use std::sync::Arc;

use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::{Request, Response, create_response, write_response};
use tungstenite::http::HeaderValue;
use tungstenite::http::header::SEC_WEBSOCKET_PROTOCOL;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

use super::TransportError;
use crate::web_access::WebAccess;

/// Most bytes of a request. Requests of browsers with large cookies are smaller; tungstenite itself
/// allows 64 KiB.
const REQUEST_BYTES_MAX: usize = 8 * 1024;
/// Payload of the frames we send: below 65,535 bytes, the limit of several clients.
const FRAME_BYTES_MAX: usize = 32 * 1024;
/// Most payload bytes of a frame that a peer may announce. AMQP frames have at most 1 MiB, and
/// clients put a few into one WebSocket frame.
const ANNOUNCED_BYTES_MAX: u64 = 16 << 20;
/// RFC 6455, 5.5
const CONTROL_BYTES_MAX: usize = 125;
/// The longest frame header.
const HEADER_BYTES_MAX: usize = 14;
/// Subprotocols that carry AMQP 1.0: the binding's, its first draft's, and the one of generic
/// clients.
const SUBPROTOCOLS: [&str; 3] = ["amqp", "AMQPWSB10", "binary"];
/// The subprotocols of MQTT: that of the standard (MQTT 5.0, 6), and the one of clients of MQTT 3.1.
const MQTT_SUBPROTOCOLS: [&str; 2] = ["mqtt", "mqttv3.1"];

/// The kind of the next bytes.
#[derive(Debug)]
enum State {
    /// the request; its bytes so far
    Upgrade(Vec<u8>),
    /// a frame's header, or a control frame; its bytes so far
    Frame(Vec<u8>),
    /// payload of a data frame
    Payload { left: u64, mask: [u8; 4], turn: usize },
    /// none: the peer has closed, or violated the protocol
    Ended,
}

/// The server's side of one WebSocket.
#[derive(Debug)]
pub(super) struct WebSocket {
    /// until the upgrade: the admitted origins, and whether TLS is in use
    access: Option<(Arc<WebAccess>, bool)>,
    state: State,
    /// the upgrade was granted
    open: bool,
    /// the subprotocol in use is MQTT
    mqtt: bool,
    /// a message of several frames is in progress
    fragmented: bool,
    /// our close frame was sent
    closed: bool,
}

impl WebSocket {
    pub(super) fn server(access: Arc<WebAccess>, secure: bool) -> Self {
        let state = State::Upgrade(Vec::new());
        Self { access: Some((access, secure)), state, open: false, mqtt: false, fragmented: false, closed: false }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    pub(super) fn carries_mqtt(&self) -> bool {
        self.mqtt
    }

    pub(super) fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    pub(super) fn receive(
        &mut self,
        mut outer: &[u8],
        inner: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> Result<(), TransportError> {
        while !outer.is_empty() {
            let taken = match &mut self.state {
                State::Upgrade(_) => self.upgrade(outer, wire)?,
                State::Frame(_) => self.frame(outer, wire)?,
                State::Payload { left, mask, turn } => {
                    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(outer.len());
                    let start = inner.len();
                    inner.extend_from_slice(&outer[..count]);
                    unmask(&mut inner[start..], *mask, *turn);
                    *turn += count;
                    *left -= count as u64;
                    if *left == 0 {
                        self.state = State::Frame(Vec::new());
                    }
                    count
                }
                State::Ended => return Ok(()),
            };
            outer = &outer[taken..];
        }
        Ok(())
    }

    pub(super) fn send(&mut self, inner: &[u8], wire: &mut Vec<u8>) {
        if self.closed {
            return;
        }
        for payload in inner.chunks(FRAME_BYTES_MAX) {
            write_frame(OpCode::Data(Data::Binary), payload, wire);
        }
    }

    pub(super) fn finish(&mut self, wire: &mut Vec<u8>) {
        if self.is_open() {
            self.close(CloseCode::Normal, wire);
        }
    }

    /// Consumes bytes of the request and returns their number. Answers the request once it is
    /// complete.
    fn upgrade(&mut self, outer: &[u8], wire: &mut Vec<u8>) -> Result<usize, TransportError> {
        let State::Upgrade(held) = &mut self.state else { return Ok(0) };
        let before = held.len();
        held.extend_from_slice(&outer[..outer.len().min(REQUEST_BYTES_MAX + 1 - before)]);
        let access = self.access.as_ref();
        let answer = match Request::try_parse(held) {
            Ok(Some((length, request))) => answer(&request, access).map(|response| Some((length, response))),
            Ok(None) if held.len() > REQUEST_BYTES_MAX => Err(Refusal::bad("the request is larger than 8 KiB")),
            Ok(None) => Ok(None),
            Err(error) => Err(Refusal::bad(error)),
        };
        match answer {
            Ok(None) => Ok(held.len() - before),
            Ok(Some((length, response))) => {
                let chosen = response.headers().get(SEC_WEBSOCKET_PROTOCOL).and_then(|name| name.to_str().ok());
                self.mqtt = chosen.is_some_and(|name| is_one_of(&MQTT_SUBPROTOCOLS, name));
                // All headers of our response are text, so writing it cannot fail.
                let _ = write_response(&mut *wire, &response);
                self.state = State::Frame(Vec::new());
                self.access = None;
                self.open = true;
                Ok(length - before)
            }
            Err(Refusal { status, reason }) => {
                refuse(status, &reason, wire);
                self.state = State::Ended;
                self.closed = true;
                Err(TransportError::WebSocket(reason))
            }
        }
    }

    /// Consumes bytes of a frame's header, or of a control frame, and returns their number.
    fn frame(&mut self, outer: &[u8], wire: &mut Vec<u8>) -> Result<usize, TransportError> {
        let State::Frame(held) = &mut self.state else { return Ok(0) };
        let before = held.len();
        held.extend_from_slice(&outer[..outer.len().min(HEADER_BYTES_MAX + CONTROL_BYTES_MAX - before)]);
        let mut cursor = Cursor::new(&held[..]);
        let Ok(parsed) = FrameHeader::parse(&mut cursor) else {
            return self.break_off(CloseCode::Protocol, "a reserved opcode", wire);
        };
        let Some((header, length)) = parsed else { return Ok(held.len() - before) };
        let start = cursor.position() as usize;
        if header.rsv1 || header.rsv2 || header.rsv3 {
            return self.break_off(CloseCode::Protocol, "a reserved bit is set and no extension was agreed", wire);
        }
        let Some(mask) = header.mask else {
            return self.break_off(CloseCode::Protocol, "a frame of a client is not masked", wire);
        };
        match header.opcode {
            OpCode::Data(kind) => {
                let expected = if self.fragmented { Data::Continue } else { Data::Binary };
                if kind == Data::Text {
                    return self.break_off(CloseCode::Unsupported, "text, where AMQP and MQTT are binary", wire);
                }
                if kind != expected || length > i64::MAX as u64 {
                    return self.break_off(CloseCode::Protocol, "an unexpected frame", wire);
                }
                if length > ANNOUNCED_BYTES_MAX {
                    return self.break_off(CloseCode::Size, "a frame of more than 16 MiB", wire);
                }
                self.fragmented = !header.is_final;
                self.state = match length {
                    0 => State::Frame(Vec::new()),
                    left => State::Payload { left, mask, turn: 0 },
                };
                Ok(start - before)
            }
            OpCode::Control(kind) => {
                if !header.is_final || length > CONTROL_BYTES_MAX as u64 {
                    return self.break_off(CloseCode::Protocol, "a control frame in parts or too long", wire);
                }
                let end = start + length as usize;
                if held.len() < end {
                    return Ok(held.len() - before);
                }
                let mut payload = held[start..end].to_vec();
                unmask(&mut payload, mask, 0);
                self.state = State::Frame(Vec::new());
                self.control(kind, &payload, wire);
                Ok(end - before)
            }
        }
    }

    fn control(&mut self, kind: Control, payload: &[u8], wire: &mut Vec<u8>) {
        match kind {
            Control::Ping if !self.closed => write_frame(OpCode::Control(Control::Pong), payload, wire),
            Control::Close => {
                self.close(CloseCode::Normal, wire);
                self.state = State::Ended;
            }
            _ => {}
        }
    }

    fn close(&mut self, code: CloseCode, wire: &mut Vec<u8>) {
        if !self.closed {
            self.closed = true;
            write_frame(OpCode::Control(Control::Close), &u16::from(code).to_be_bytes(), wire);
        }
    }

    fn break_off(&mut self, code: CloseCode, reason: &str, wire: &mut Vec<u8>) -> Result<usize, TransportError> {
        self.close(code, wire);
        self.state = State::Ended;
        Err(TransportError::WebSocket(reason.to_owned()))
    }
}

/// Why a request is refused.
struct Refusal {
    status: &'static str,
    reason: String,
}

impl Refusal {
    fn bad(reason: impl ToString) -> Self {
        Self { status: "400 Bad Request", reason: reason.to_string() }
    }
}

/// The answer to a request, or the error.
fn answer(request: &Request, access: Option<&(Arc<WebAccess>, bool)>) -> Result<Response, Refusal> {
    let mut response = create_response(request).map_err(Refusal::bad)?;
    if let Some((access, secure)) = access {
        let forbidden = |reason| Refusal { status: "403 Forbidden", reason };
        access.check(request.headers(), *secure).map_err(forbidden)?;
    }
    let offered = request.headers().get_all(SEC_WEBSOCKET_PROTOCOL);
    let chosen = offered
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .find(|name| is_one_of(&SUBPROTOCOLS, name) || is_one_of(&MQTT_SUBPROTOCOLS, name))
        .and_then(|name| HeaderValue::from_str(name).ok())
        .ok_or_else(|| Refusal::bad("none of the subprotocols amqp, AMQPWSB10, binary, mqtt, mqttv3.1 is offered"))?;
    response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, chosen);
    Ok(response)
}

fn is_one_of(subprotocols: &[&str], name: &str) -> bool {
    subprotocols.iter().any(|one| one.eq_ignore_ascii_case(name))
}

fn refuse(status: &str, reason: &str, wire: &mut Vec<u8>) {
    let length = reason.len() + 1;
    let answer = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {length}\r\n\r\n{reason}\n"
    );
    wire.extend_from_slice(answer.as_bytes());
}

fn write_frame(opcode: OpCode, payload: &[u8], wire: &mut Vec<u8>) {
    let header = FrameHeader { opcode, ..FrameHeader::default() };
    // Writing into a Vec cannot fail.
    let _ = header.format(payload.len() as u64, wire);
    wire.extend_from_slice(payload);
}

/// Undoes a client's mask (RFC 6455, 5.3), from byte `turn` of the frame's payload on.
fn unmask(payload: &mut [u8], mask: [u8; 4], turn: usize) {
    let mut turned = mask;
    turned.rotate_left(turn % 4);
    let word = u32::from_ne_bytes(turned);
    let (words, rest) = payload.as_chunks_mut::<4>();
    for bytes in words {
        *bytes = (u32::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(turned) {
        *byte ^= mask;
    }
}
