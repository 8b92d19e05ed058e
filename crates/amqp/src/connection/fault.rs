//! The violation of the peer, and the endpoint that is closed for it: the smallest one that the
//! standard allows.

use crate::codec::DecodeError;
use crate::types::{Error, Symbol};

/// A violation. Links and sessions are indices in the connection.
#[derive(Debug)]
pub(crate) enum Fault {
    /// the link is detached with the error
    Link(u32, Error),
    /// the session is ended with the error
    Session(u32, Error),
    /// the connection is closed with the error
    Connection(Error),
}

impl Fault {
    /// The error for the peer.
    #[cold]
    pub(crate) fn error(&self) -> &Error {
        match self {
            Self::Link(_, error) | Self::Session(_, error) | Self::Connection(error) => error,
        }
    }

    #[cold]
    pub(crate) fn link(link: u32, condition: Symbol, description: impl Into<String>) -> Box<Self> {
        Box::new(Self::Link(link, Error::new(condition, description)))
    }

    #[cold]
    pub(crate) fn session(session: u32, condition: Symbol, description: impl Into<String>) -> Box<Self> {
        Box::new(Self::Session(session, Error::new(condition, description)))
    }

    #[cold]
    pub(crate) fn connection(condition: Symbol, description: impl Into<String>) -> Box<Self> {
        Box::new(Self::Connection(Error::new(condition, description)))
    }
}

/// A decode error closes the connection, because the rest of the stream cannot be trusted (2.8.15,
/// 2.8.16).
impl From<DecodeError> for Box<Fault> {
    #[cold]
    fn from(error: DecodeError) -> Self {
        Box::new(Fault::Connection(error.into()))
    }
}
