//! The encoding of sessions and changes.

use thiserror::Error as ThisError;

/// Bytes that are no session and no change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
#[error("session record: {what}")]
pub struct SessionDecodeError {
    /// the field and what is wrong with it
    pub what: &'static str,
}

use super::{Change, Session};

#[allow(unused_variables, clippy::missing_errors_doc)]
impl Session {
    /// Appends the session.
    pub fn encode(&self, out: &mut Vec<u8>) {
        unimplemented!()
    }

    /// Reads a session that `encode` wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, SessionDecodeError> {
        unimplemented!()
    }
}

#[allow(unused_variables, clippy::missing_errors_doc)]
impl Change {
    /// Appends the change.
    pub fn encode(&self, out: &mut Vec<u8>) {
        unimplemented!()
    }

    /// Reads a change that `encode` wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, SessionDecodeError> {
        unimplemented!()
    }
}
