//! Errors of the node's interface, classified by the party that must act.

use std::io;
use std::path::PathBuf;

use enmasse_amqp::ErrorKind;
use enmasse_router::table::PlanError;

/// An error of the node.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// a value of the configuration is out of its bounds
    #[error("{field}: {reason}")]
    Config {
        /// path of the field
        field: &'static str,
        /// the error and its remedy
        reason: String,
    },
    /// the Plan is invalid: nothing has changed
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// a certificate, key or CA cannot be used
    #[error("{}: {reason}", path.display())]
    Tls {
        /// the file
        path: PathBuf,
        /// the error and its remedy
        reason: String,
    },
    /// a listener cannot be bound
    #[error("cannot listen on {endpoint}: {reason}; free it, or choose another port (0 is a free one)")]
    Bind {
        /// host and port requested
        endpoint: String,
        /// the system's error
        reason: io::Error,
    },
    /// a Unix socket cannot be listened on
    #[error("cannot listen on the socket {}: {reason}; stop its owner, or choose another path", path.display())]
    Socket {
        /// the path requested
        path: PathBuf,
        /// the error
        reason: String,
    },
    /// the operating system refused a required operation
    #[error("{what}: {reason}")]
    System {
        /// the attempted operation
        what: &'static str,
        /// the system's error
        reason: io::Error,
    },
    /// no address space of that name in the applied Plan
    #[error("no address space {0:?} in the plan that is applied")]
    NoSuchSpace(String),
    /// no address of that uid in the applied Plan that stores messages
    #[error("no address of uid {0:?} that stores messages is served")]
    NoSuchAddress(String),
    /// an address accepts no more messages
    #[error("{reason}; it accepted {messages} messages before")]
    FullAddress {
        /// which bound was reached
        reason: String,
        /// messages that it accepted
        messages: u64,
    },
    /// a request has a field that cannot be used
    #[error("{field}: {reason}")]
    Request {
        /// name of the field
        field: &'static str,
        /// the error and its remedy
        reason: String,
    },
    /// the bound of connections is reached
    #[error("{0} connections are open and no more are allowed: close some, or raise limits.connections")]
    Full(usize),
    /// the journal cannot be opened, or has stopped
    #[error("the journal: {0}")]
    Journal(String),
    /// called after `stop`
    #[error("the node is stopped: start another one")]
    Stopped,
    /// a worker thread did not answer in time
    #[error("worker {worker} has not answered for {waited_s} s: the machine is overloaded, try again")]
    Busy {
        /// index of the worker
        worker: u16,
        /// seconds
        waited_s: u64,
    },
}

impl NodeError {
    /// The party that must act.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Config { .. } | Self::Plan(_) | Self::Tls { .. } | Self::Request { .. } => ErrorKind::Invalid,
            Self::Bind { .. } | Self::Socket { .. } | Self::System { .. } | Self::Busy { .. } | Self::Journal(_) => {
                ErrorKind::Unavailable
            }
            Self::NoSuchSpace(_) | Self::NoSuchAddress(_) => ErrorKind::Missing,
            Self::Full(_) | Self::FullAddress { .. } => ErrorKind::Exhausted,
            Self::Stopped => ErrorKind::Misuse,
        }
    }

    /// Its code in the one table of error codes (`enmasse.base.errors`).
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Plan(_) | Self::Request { .. } => "E1000",
            Self::Config { .. } | Self::Tls { .. } => "E1006",
            Self::NoSuchSpace(_) | Self::NoSuchAddress(_) => "E3000",
            Self::Full(_) | Self::FullAddress { .. } => "E5000",
            Self::System { .. } | Self::Busy { .. } | Self::Journal(_) => "E6000",
            Self::Bind { .. } | Self::Socket { .. } => "E6001",
            Self::Stopped => "E8000",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first digit of a code is the kind: 1 Invalid to 8 Misuse.
    #[test]
    fn code_and_kind_agree() {
        let errors = [
            NodeError::Config { field: "f", reason: String::new() },
            NodeError::Tls { path: PathBuf::new(), reason: String::new() },
            NodeError::Bind { endpoint: String::new(), reason: io::ErrorKind::AddrInUse.into() },
            NodeError::Socket { path: PathBuf::new(), reason: String::new() },
            NodeError::System { what: "w", reason: io::ErrorKind::Other.into() },
            NodeError::NoSuchSpace(String::new()),
            NodeError::NoSuchAddress(String::new()),
            NodeError::FullAddress { reason: String::new(), messages: 0 },
            NodeError::Request { field: "f", reason: String::new() },
            NodeError::Full(1),
            NodeError::Journal(String::new()),
            NodeError::Stopped,
            NodeError::Busy { worker: 0, waited_s: 1 },
        ];
        for error in errors {
            assert_eq!(error.code().as_bytes()[1] - b'1', error.kind() as u8, "{error:?}");
        }
    }
}
