//! The result of a login.

use std::sync::Arc;

use enmasse_amqp::time::Time;

use super::SpaceKey;
use super::rights::Rights;

/// An authenticated peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authenticated {
    /// its space; `None`: a peer without a user name, whose space the host name of open selects
    pub space: Option<SpaceKey>,
    /// the user whose rights count, without `@space`; `None`: anonymous
    pub user: Option<String>,
    /// the name of the space of an in-process session, if no space has it: the login fails
    pub unknown_space: Option<Box<str>>,
    /// the unknown host name that a peer without a user name sent before open: the login fails
    pub unknown_host: Option<Box<str>>,
    /// its proof: the connection may stay as long as it is valid
    pub proof: Proof,
}

impl Authenticated {
    /// Whether both are the same user of the same space, however proved.
    #[must_use]
    pub fn is_same_user(&self, other: &Self) -> bool {
        self.space == other.space && self.user == other.user
    }
}

/// How a peer was authenticated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Proof {
    /// not at all: the space is open, or the peer is anonymous
    #[default]
    None,
    /// by this process, for an in-process session
    Vouched,
    /// by a password with this stamp
    Password(u64),
    /// by a client certificate
    Certificate,
    /// by an external service
    Granted(Arc<Granted>),
}

/// The answer of a service for an authenticated peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// the service
    pub service: Box<str>,
    /// its rights, in addition to those declared for a user of its name
    pub rights: Rights,
    /// when it expires; `None`: never
    pub until: Option<Time>,
}
