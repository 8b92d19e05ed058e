//! TLS 1.2 and 1.3 around a connection: rustls between two byte buffers.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};

use super::subject::common_name;
use super::{HandshakeResult, TransportError};

/// Plaintext encrypted at once: four records of the largest size, which bounds the buffers of
/// rustls and ours.
const SEAL_BYTES: usize = 64 * 1024;

/// One side of a TLS connection.
pub(super) struct Tls {
    session: ServerConnection,
    ended: bool,
}

impl Tls {
    pub(super) fn server(config: Arc<ServerConfig>) -> Result<Self, TransportError> {
        Ok(Self { session: ServerConnection::new(config)?, ended: false })
    }

    pub(super) fn receive(
        &mut self,
        mut outer: &[u8],
        inner: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> Result<(), TransportError> {
        let result = loop {
            if outer.is_empty() || self.ended {
                break Ok(());
            }
            match self.session.read_tls(&mut outer) {
                Ok(0) => {
                    self.ended = true;
                    break Ok(());
                }
                Ok(_) => {}
                Err(error) => break Err(TransportError::Oversize(error)),
            }
            match self.session.process_new_packets() {
                Ok(state) => self.ended |= state.peer_has_closed(),
                Err(error) => break Err(TransportError::Tls(error)),
            }
            self.open(inner);
        };
        self.collect(wire);
        result
    }

    pub(super) fn send(&mut self, inner: &[u8], wire: &mut Vec<u8>) {
        for piece in inner.chunks(SEAL_BYTES) {
            // Sealing into memory cannot fail, and our pieces are no larger than the session's own
            // buffer.
            let _ = io::Write::write_all(&mut self.session.writer(), piece);
            self.collect(wire);
        }
    }

    pub(super) fn finish(&mut self, wire: &mut Vec<u8>) {
        self.session.send_close_notify();
        self.collect(wire);
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn handshake_result(&self) -> Option<HandshakeResult> {
        if self.session.is_handshaking() {
            return None;
        }
        let certificate = self.session.peer_certificates().and_then(|chain| chain.first());
        Some(HandshakeResult {
            secure: true,
            server_name: self.session.server_name().map(str::to_owned),
            subject: certificate.and_then(|certificate| common_name(certificate)),
            mqtt: false,
        })
    }

    /// Moves opened plaintext to `inner`.
    fn open(&mut self, inner: &mut Vec<u8>) {
        loop {
            let mut reader = self.session.reader();
            let taken = match io::BufRead::fill_buf(&mut reader) {
                Ok([]) | Err(_) => return,
                Ok(chunk) => {
                    inner.extend_from_slice(chunk);
                    chunk.len()
                }
            };
            io::BufRead::consume(&mut reader, taken);
        }
    }

    /// Moves sealed records to `wire`.
    fn collect(&mut self, wire: &mut Vec<u8>) {
        while self.session.wants_write() {
            // Writing into a Vec cannot fail.
            if self.session.write_tls(wire).is_err() {
                return;
            }
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("handshaking", &self.session.is_handshaking()).field("ended", &self.ended).finish()
    }
}
