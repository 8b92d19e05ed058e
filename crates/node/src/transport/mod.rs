//! From the bytes of a socket to the bytes of AMQP and back, without I/O.
//!
//! A plain connection needs none of this: the worker reads into its scratch buffer, passes that to
//! the machine, and writes the machine's output directly. Other connections use a `Wrapping`: TLS,
//! WebSocket, or WebSocket in TLS. Each layer converts outer bytes to inner bytes and back.

mod subject;
mod tls;
mod websocket;

use std::sync::Arc;

use enmasse_router::shard::Protocol;
use rustls::ServerConfig;

use self::tls::Tls;
use self::websocket::WebSocket;
use crate::proxy_header::ProxyHeaderError;
use crate::web_access::WebAccess;

/// Why a transport failed. Pending output for the peer is in `Wrapping::wire`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransportError {
    /// The peer violated TLS, or requires a feature that we do not offer.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The handshake is larger than the bound.
    #[error("TLS: {0}")]
    Oversize(std::io::Error),
    /// The peer is a proxy and sent no header that can be used.
    #[error("PROXY protocol: {0}")]
    Proxy(#[from] ProxyHeaderError),
    /// The peer violated RFC 6455, or its request is not for our WebSocket.
    #[error("WebSocket: {0}")]
    WebSocket(String),
}

/// The properties of the peer that the handshakes determined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HandshakeResult {
    /// the connection uses TLS
    pub(crate) secure: bool,
    /// server name requested by TLS (SNI)
    pub(crate) server_name: Option<String>,
    /// common name of the client certificate that was checked
    pub(crate) subject: Option<String>,
    /// the subprotocol of its WebSocket is MQTT
    pub(crate) mqtt: bool,
}

/// The layers around one connection's bytes.
#[derive(Debug)]
pub(crate) struct Wrapping {
    tls: Option<Box<Tls>>,
    web_socket: Option<Box<WebSocket>>,
    /// output for the socket
    pub(crate) wire: Vec<u8>,
}

impl Wrapping {
    /// The server's side; at least one of the two layers. With `web_access` it is a WebSocket for
    /// the origins that it admits.
    ///
    /// # Errors
    /// `Tls` if the configuration cannot serve (never for one that `tls_files` made).
    pub(crate) fn server(
        tls: Option<Arc<ServerConfig>>,
        web_access: Option<Arc<WebAccess>>,
    ) -> Result<Self, TransportError> {
        let tls = tls.map(Tls::server).transpose()?.map(Box::new);
        let web_socket = web_access.map(|access| Box::new(WebSocket::server(access, tls.is_some())));
        Ok(Self { tls, web_socket, wire: Vec::new() })
    }

    /// Takes bytes of the socket; appends bytes of AMQP to `inner`. `stage` is scratch, left empty.
    ///
    /// # Errors
    /// The connection has ended; `wire` holds the last output of the layer.
    pub(crate) fn receive(
        &mut self,
        outer: &[u8],
        stage: &mut Vec<u8>,
        inner: &mut Vec<u8>,
    ) -> Result<(), TransportError> {
        match (&mut self.tls, &mut self.web_socket) {
            (Some(tls), None) => tls.receive(outer, inner, &mut self.wire),
            (None, Some(web_socket)) => web_socket.receive(outer, inner, &mut self.wire),
            (Some(tls), Some(web_socket)) => {
                let opened = tls.receive(outer, stage, &mut self.wire);
                let mut reply = Vec::new();
                let unframed = web_socket.receive(stage, inner, &mut reply);
                stage.clear();
                tls.send(&reply, &mut self.wire);
                opened.and(unframed)
            }
            (None, None) => {
                inner.extend_from_slice(outer);
                Ok(())
            }
        }
    }

    /// Takes AMQP bytes and appends their wire form to `wire`. `stage` is scratch, left empty.
    pub(crate) fn send(&mut self, inner: &[u8], stage: &mut Vec<u8>) {
        match (&mut self.tls, &mut self.web_socket) {
            (Some(tls), None) => tls.send(inner, &mut self.wire),
            (None, Some(web_socket)) => web_socket.send(inner, &mut self.wire),
            (Some(tls), Some(web_socket)) => {
                web_socket.send(inner, stage);
                tls.send(stage, &mut self.wire);
                stage.clear();
            }
            (None, None) => self.wire.extend_from_slice(inner),
        }
    }

    /// Closes each layer, the inner one first. Nothing may be sent after it.
    pub(crate) fn finish(&mut self) {
        let mut words = Vec::new();
        if let Some(web_socket) = &mut self.web_socket {
            web_socket.finish(&mut words);
        }
        match &mut self.tls {
            Some(tls) => {
                tls.send(&words, &mut self.wire);
                tls.finish(&mut self.wire);
            }
            None => self.wire.append(&mut words),
        }
    }

    /// The properties of the peer, once every handshake is done.
    pub(crate) fn handshake_result(&self) -> Option<HandshakeResult> {
        if self.web_socket.as_ref().is_some_and(|web_socket| !web_socket.is_open()) {
            return None;
        }
        let mqtt = self.web_socket.as_ref().is_some_and(|web_socket| web_socket.carries_mqtt());
        let result = match &self.tls {
            Some(tls) => tls.handshake_result()?,
            None => HandshakeResult::default(),
        };
        Some(HandshakeResult { mqtt, ..result })
    }

    /// Whether the peer has ended its direction in the protocol of a layer (close-notify, close
    /// frame).
    pub(crate) fn is_ended(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_ended())
            || self.web_socket.as_ref().is_some_and(|web_socket| web_socket.is_ended())
    }

    /// Its name in listings and events: `amqp`, `amqps`, `mqtt`, `mqtts`, `ws` or `wss`.
    pub(crate) fn name(&self, protocol: Protocol) -> &'static str {
        match (&self.tls, &self.web_socket) {
            (Some(_), None) if protocol == Protocol::Mqtt => "mqtts",
            (Some(_), None) => "amqps",
            (None, Some(_)) => "ws",
            (Some(_), Some(_)) => "wss",
            (None, None) if protocol == Protocol::Mqtt => "mqtt",
            (None, None) => "amqp",
        }
    }
}

#[cfg(test)]
mod tests;
