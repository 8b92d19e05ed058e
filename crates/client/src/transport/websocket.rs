//! AMQP in the binary messages of a WebSocket (AMQP WebSocket Binding, subprotocol `amqp`).

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use tungstenite::client::{ClientRequestBuilder, client_with_config};
use tungstenite::handshake::client::ClientHandshake;
use tungstenite::handshake::{HandshakeError, MidHandshake};
use tungstenite::http::Uri;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Bytes, Error, Message, WebSocket};

use super::Stream;
use crate::url::Url;

/// The most bytes of AMQP in one message.
const MESSAGE_SIZE: usize = 64 * 1024;

/// The URI of the upgrade request. The scheme is always `ws`, because TLS is a lower layer.
pub(super) fn uri(url: &Url) -> String {
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    format!("ws://{host}:{}/{}", url.port, url.path)
}

enum State {
    /// placeholder during a step of the handshake
    Between,
    Handshake(Box<MidHandshake<ClientHandshake<Stream>>>),
    Open(Box<WebSocket<Stream>>),
}

/// A byte stream inside a WebSocket.
pub struct WebSocketStream {
    state: State,
    /// the rest of the message being read
    message: Bytes,
    /// the WebSocket buffers bytes that are not yet written to the socket
    held: bool,
}

impl WebSocketStream {
    pub(super) fn start(uri: &str, stream: Stream) -> io::Result<Self> {
        let uri: Uri = uri.parse().map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        let request = ClientRequestBuilder::new(uri).with_sub_protocol("amqp");
        let config = WebSocketConfig::default().write_buffer_size(0).max_message_size(None);
        let state = match client_with_config(request, stream, Some(config)) {
            Ok((socket, _)) => State::Open(Box::new(socket)),
            Err(HandshakeError::Interrupted(middle)) => State::Handshake(Box::new(middle)),
            Err(HandshakeError::Failure(error)) => return Err(to_io(error)),
        };
        Ok(Self { state, message: Bytes::new(), held: false })
    }

    pub(super) fn holds_output(&self) -> bool {
        match &self.state {
            State::Open(socket) => self.held || socket.get_ref().holds_output(),
            // the handshake writes its small request, then waits for the response
            State::Handshake(middle) => middle.get_ref().get_ref().holds_output(),
            State::Between => false,
        }
    }

    /// The WebSocket once the upgrade is through; `WouldBlock` until then.
    fn socket(&mut self) -> io::Result<&mut WebSocket<Stream>> {
        if let State::Handshake(_) = self.state
            && let State::Handshake(middle) = std::mem::replace(&mut self.state, State::Between)
        {
            match middle.handshake() {
                Ok((socket, _)) => self.state = State::Open(Box::new(socket)),
                Err(HandshakeError::Interrupted(middle)) => self.state = State::Handshake(Box::new(middle)),
                Err(HandshakeError::Failure(error)) => return Err(to_io(error)),
            }
        }
        match &mut self.state {
            State::Open(socket) => Ok(socket),
            State::Handshake(_) => Err(ErrorKind::WouldBlock.into()),
            State::Between => Err(ErrorKind::NotConnected.into()),
        }
    }
}

impl Read for WebSocketStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.message.is_empty() {
            match self.socket()?.read() {
                Ok(Message::Binary(message)) => self.message = message,
                Ok(Message::Text(_)) => {
                    return Err(io::Error::new(ErrorKind::InvalidData, "a text message where AMQP was expected"));
                }
                // tungstenite answers pings; the end of the stream follows a close
                Ok(_) => {}
                Err(Error::ConnectionClosed | Error::AlreadyClosed) => return Ok(0),
                Err(error) => return Err(to_io(error)),
            }
        }
        let count = buffer.len().min(self.message.len());
        buffer[..count].copy_from_slice(&self.message.split_to(count));
        Ok(count)
    }
}

impl Write for WebSocketStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.held {
            self.flush()?;
        }
        let count = bytes.len().min(MESSAGE_SIZE);
        let socket = self.socket()?;
        match socket.write(Message::binary(bytes[..count].to_vec())) {
            Ok(()) => {}
            // the message was accepted, even if none of it is written yet
            Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {
                self.held = true;
                return Ok(count);
            }
            Err(error) => return Err(to_io(error)),
        }
        match self.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(count),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.held = true;
        self.socket()?.flush().map_err(to_io)?;
        self.held = false;
        Ok(())
    }
}

impl AsFd for WebSocketStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.state {
            State::Open(socket) => socket.get_ref().as_fd(),
            State::Handshake(middle) => middle.get_ref().get_ref().as_fd(),
            State::Between => unreachable!("a stream whose upgrade failed is dropped, never watched again"),
        }
    }
}

fn to_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::new(ErrorKind::InvalidData, format!("WebSocket: {other}")),
    }
}
