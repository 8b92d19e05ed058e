//! Where a connection comes from.

use std::net::{Ipv4Addr, SocketAddr};

use crate::checks::Host;

/// The other end of a connection, for listings, events, bounds by source address, and what is
/// allowed on this machine only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// a session in this process, authenticated by its owner
    Process,
    /// a client of a Unix socket; it shares the bounds of the loopback address
    UnixSocket,
    /// a client of a TCP listener; behind a proxy that states it, the proxy's client
    Tcp(SocketAddr),
}

impl Origin {
    /// Address and port.
    pub(crate) fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Process | Self::UnixSocket => None,
            Self::Tcp(address) => Some(address),
        }
    }

    /// The network that shares its bounds.
    pub(crate) fn host(self) -> Host {
        match self {
            Self::Process => Host::of(None),
            Self::UnixSocket => Host::of(Some((Ipv4Addr::LOCALHOST, 0).into())),
            Self::Tcp(address) => Host::of(Some(address)),
        }
    }

    /// Whether its bytes stay on this machine.
    pub(crate) fn is_loopback(self) -> bool {
        match self {
            Self::Process | Self::UnixSocket => true,
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_a_unix_socket_share_the_bounds_of_loopback() {
        let loopback = Origin::Tcp("[::ffff:127.0.0.1]:9".parse().unwrap());
        assert_eq!(Origin::UnixSocket.host(), loopback.host());
        assert!(loopback.is_loopback() && Origin::UnixSocket.is_loopback());
        assert!(!Origin::Tcp("192.0.2.1:9".parse().unwrap()).is_loopback());
        assert_eq!((Origin::UnixSocket.address(), Origin::Process.host().address()), (None, None));
    }
}
