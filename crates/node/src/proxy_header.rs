//! The header of the PROXY protocol, version 2, by which a proxy states the address of its client
//! (haproxy, `proxy-protocol.txt`, section 2.2). Without I/O.
//!
//! Only the first [`BEGIN_BYTES_MAX`] bytes are kept; the rest of a header, its TLVs, is counted
//! and discarded. A header has at most 16 + 65,535 bytes by its format.

use std::net::{IpAddr, SocketAddr};

/// Begins every header; no protocol of the listeners begins like this.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family and transport, length.
const FIXED_BYTES: usize = 16;
/// The fixed part and the addresses of TCP over IPv6, the longest that are read.
const BEGIN_BYTES_MAX: usize = FIXED_BYTES + 36;

/// Why bytes are no header; each names the remedy for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProxyHeaderError {
    #[error(
        "a proxy that is listed in --proxy-protocol began a connection without a header: let it send version 2 of the PROXY protocol, or remove it from the list"
    )]
    Missing,
    #[error("the proxy sends version 1 of the PROXY protocol: configure version 2 (haproxy: send-proxy-v2)")]
    VersionOne,
    #[error("version {0} of the PROXY protocol is not supported: configure version 2")]
    Version(u8),
    #[error("the command {0} of the header is not one of the PROXY protocol (LOCAL 0, PROXY 1)")]
    Command(u8),
    #[error("the address family and transport {0:#04x} of the header are not those of the PROXY protocol")]
    Family(u8),
    #[error("the header has {length} bytes of addresses, and its family needs {needed}")]
    Short { length: usize, needed: usize },
}

/// What the first bytes of a connection say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    /// more bytes decide
    Partial,
    /// the whole header has `length` bytes; `client` is `None` if the proxy speaks for itself, or
    /// does not know its client
    Header { length: usize, client: Option<SocketAddr> },
}

/// Parses the beginning of a connection; `BEGIN_BYTES_MAX` bytes always decide.
///
/// # Errors
/// The bytes cannot become a header. Known at the first byte that is wrong.
fn parse(bytes: &[u8]) -> Result<Begin, ProxyHeaderError> {
    let signed = bytes.len().min(SIGNATURE.len());
    if bytes[..signed] != SIGNATURE[..signed] {
        let is_version_one = bytes.starts_with(b"PROXY ") || b"PROXY ".starts_with(bytes);
        return Err(if is_version_one { ProxyHeaderError::VersionOne } else { ProxyHeaderError::Missing });
    }
    let Some(&[version_command, family, high, low]) = bytes.get(SIGNATURE.len()..FIXED_BYTES) else {
        return Ok(Begin::Partial);
    };
    if version_command >> 4 != 2 {
        return Err(ProxyHeaderError::Version(version_command >> 4));
    }
    let body = usize::from(u16::from_be_bytes([high, low]));
    let without_client = Ok(Begin::Header { length: FIXED_BYTES + body, client: None });
    let address_bytes = match (version_command & 0x0f, family) {
        // LOCAL: the proxy itself, such as a health check. The family does not count.
        (0, _) => return without_client,
        (1, 0x11) => 4,
        (1, 0x21) => 16,
        // Valid, without an address that means anything here: the same as unspecified.
        (1, 0x00 | 0x12 | 0x22 | 0x31 | 0x32) => return without_client,
        (1, family) => return Err(ProxyHeaderError::Family(family)),
        (command, _) => return Err(ProxyHeaderError::Command(command)),
    };
    // Source and destination, each an address and a port.
    let needed = 2 * address_bytes + 4;
    if body < needed {
        return Err(ProxyHeaderError::Short { length: body, needed });
    }
    let Some(addresses) = bytes.get(FIXED_BYTES..FIXED_BYTES + needed) else { return Ok(Begin::Partial) };
    let port = u16::from_be_bytes([addresses[2 * address_bytes], addresses[2 * address_bytes + 1]]);
    let address = match <[u8; 4]>::try_from(&addresses[..address_bytes]) {
        Ok(v4) => Some(IpAddr::from(v4)),
        Err(_) => <[u8; 16]>::try_from(&addresses[..address_bytes]).ok().map(IpAddr::from),
    };
    Ok(Begin::Header { length: FIXED_BYTES + body, client: address.map(|address| SocketAddr::new(address, port)) })
}

/// Reads one header in pieces.
#[derive(Debug, Default)]
pub(crate) struct ProxyHeader {
    /// its first bytes, until they decide; at most `BEGIN_BYTES_MAX`
    begin: Vec<u8>,
    /// once they decide: bytes of the header still to come
    rest: Option<usize>,
    client: Option<SocketAddr>,
}

impl ProxyHeader {
    /// Takes bytes of the socket. Returns how many of them belong to the header, which is complete
    /// unless that is all and `is_complete` denies it.
    ///
    /// # Errors
    /// The connection does not begin with a header.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<usize, ProxyHeaderError> {
        if self.rest.is_none() {
            let kept = self.begin.len();
            self.begin.extend_from_slice(&bytes[..bytes.len().min(BEGIN_BYTES_MAX - kept)]);
            match parse(&self.begin)? {
                Begin::Partial => {
                    debug_assert_eq!(self.begin.len(), kept + bytes.len(), "the bytes that are kept always decide");
                    return Ok(bytes.len());
                }
                // The former bytes did not decide, so the header is longer than they are.
                Begin::Header { length, client } => (self.rest, self.client) = (Some(length - kept), client),
            }
        }
        let rest = self.rest.get_or_insert(0);
        let taken = bytes.len().min(*rest);
        *rest -= taken;
        Ok(taken)
    }

    /// Whether its last byte was received.
    pub(crate) fn is_complete(&self) -> bool {
        self.rest == Some(0)
    }

    /// Of a complete header: the address of the client. `None`: the peer is the client.
    pub(crate) fn client(&self) -> Option<SocketAddr> {
        self.client
    }
}

#[cfg(test)]
mod tests {
    use bolero::check;
    use proptest::prelude::*;

    use super::*;

    fn header(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[0x20 | command, family], &length, body].concat()
    }

    fn addresses(client: SocketAddr, tlvs: &[u8]) -> (u8, Vec<u8>) {
        let port = client.port().to_be_bytes();
        let (family, address) = match client.ip() {
            IpAddr::V4(address) => (0x11, address.octets().to_vec()),
            IpAddr::V6(address) => (0x21, address.octets().to_vec()),
        };
        let destination = vec![0; address.len()];
        (family, [&address[..], &destination, &port, &[0x16, 0x33], tlvs].concat())
    }

    /// What remains after the header, and its client; `bytes` arrive in pieces of `size`.
    fn received(bytes: &[u8], size: usize) -> Result<(Vec<u8>, Option<SocketAddr>), ProxyHeaderError> {
        let (mut reader, mut rest) = (ProxyHeader::default(), Vec::new());
        for piece in bytes.chunks(size) {
            let taken = if reader.is_complete() { 0 } else { reader.receive(piece)? };
            assert!(taken == piece.len() || reader.is_complete());
            rest.extend_from_slice(&piece[taken..]);
        }
        assert!(reader.is_complete());
        Ok((rest, reader.client()))
    }

    fn refused(bytes: &[u8]) -> ProxyHeaderError {
        let mut reader = ProxyHeader::default();
        reader.receive(bytes).unwrap_err()
    }

    proptest! {
        #[test]
        fn client_and_the_bytes_after_a_header_are_exact_however_it_is_divided(
            client: SocketAddr,
            tlvs in prop::collection::vec(any::<u8>(), 0..300),
            after in prop::collection::vec(any::<u8>(), 0..100),
            size in 1_usize..400,
        ) {
            let (family, body) = addresses(client, &tlvs);
            let client = SocketAddr::new(client.ip(), client.port());
            let bytes = [header(1, family, &body), after.clone()].concat();
            prop_assert_eq!(received(&bytes, size), Ok((after.clone(), Some(client))));
            // LOCAL keeps the peer's own address, whatever the block says (2.2).
            let local = [header(0, family, &body), after.clone()].concat();
            prop_assert_eq!(received(&local, size), Ok((after, None)));
        }

        #[test]
        fn wrong_byte_of_the_signature_is_refused_at_once(place in 0_usize..12, wrong: u8) {
            prop_assume!(wrong != SIGNATURE[place]);
            let mut bytes = SIGNATURE[..=place].to_vec();
            bytes[place] = wrong;
            let error = refused(&bytes);
            prop_assert!(matches!(error, ProxyHeaderError::Missing | ProxyHeaderError::VersionOne), "{:?}", error);
        }
    }

    /// Any bytes: what one call decides about a prefix never changes with more bytes, and memory is
    /// bounded.
    #[test]
    fn fuzz_any_beginning() {
        check!().for_each(|input: &[u8]| {
            for bytes in
                [input.to_vec(), [&SIGNATURE[..], input].concat(), header(1, 0x11, &input[..input.len().min(99)])]
            {
                let whole = parse(&bytes[..bytes.len().min(BEGIN_BYTES_MAX)]);
                for end in 0..bytes.len().min(BEGIN_BYTES_MAX) {
                    match parse(&bytes[..end]) {
                        Ok(Begin::Partial) => {}
                        // A later byte may show that it is not even version 1.
                        Err(ProxyHeaderError::VersionOne) => assert!(whole.is_err()),
                        decided => assert_eq!(decided, whole),
                    }
                }
                let mut reader = ProxyHeader::default();
                if let Ok(taken) = reader.receive(&bytes) {
                    assert!(taken == bytes.len() || reader.is_complete());
                    assert!(reader.begin.len() <= BEGIN_BYTES_MAX);
                }
            }
        });
    }

    #[test]
    fn families_without_an_address_keep_that_of_the_peer_and_unknown_ones_are_refused() {
        for family in 0..=u8::MAX {
            let bytes = header(1, family, &[7; 216]);
            match family {
                0x11 | 0x21 => assert!(received(&bytes, 9).unwrap().1.is_some()),
                0x00 | 0x12 | 0x22 | 0x31 | 0x32 => assert_eq!(received(&bytes, 9), Ok((Vec::new(), None))),
                _ => assert_eq!(refused(&bytes), ProxyHeaderError::Family(family)),
            }
        }
        assert_eq!(received(&header(1, 0, &[]), 1), Ok((Vec::new(), None)), "AF_UNSPEC without a block");
    }

    #[test]
    fn other_versions_commands_and_short_blocks_are_refused_with_the_remedy() {
        assert_eq!(refused(b"AMQP\0\x01\0\0"), ProxyHeaderError::Missing);
        let one = refused(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n");
        assert!(one.to_string().contains("send-proxy-v2"), "{one}");
        let mut other = header(1, 0x11, &[0; 12]);
        other[12] = 0x31;
        assert_eq!(refused(&other), ProxyHeaderError::Version(3));
        assert_eq!(refused(&header(2, 0x11, &[0; 12])), ProxyHeaderError::Command(2));
        assert_eq!(refused(&header(1, 0x11, &[0; 11])), ProxyHeaderError::Short { length: 11, needed: 12 });
        assert_eq!(refused(&header(1, 0x21, &[0; 35])), ProxyHeaderError::Short { length: 35, needed: 36 });
    }

    #[test]
    fn longest_header_is_skipped_without_being_kept() {
        let (family, body) = addresses("192.0.2.9:4711".parse().unwrap(), &[0x22; 65_523]);
        let bytes = [header(1, family, &body), b"MQTT".to_vec()].concat();
        assert_eq!(bytes.len(), 16 + 65_535 + 4);
        assert_eq!(received(&bytes, 1000), Ok((b"MQTT".to_vec(), Some("192.0.2.9:4711".parse().unwrap()))));
    }
}
