//! Output of a shard for its driver: facts for logs and the console, and the few operations that
//! are slow or need another thread.

use enmasse_amqp::sasl::PlainCheck;
use enmasse_amqp::time::Time;

use super::ConnId;
use crate::plan::AddressType;
use crate::table::{Question, Refusal, SpaceKey};

/// A fact about a connection, for the observer of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The peer has opened the connection.
    Opened {
        /// its container id
        container: String,
        /// the space it belongs to
        space: String,
        /// the user, unless anonymous
        user: Option<String>,
        /// the SASL mechanism of its login; `None`: without SASL
        mechanism: Option<&'static str>,
    },
    /// The peer was not admitted.
    LoginRefused(Refusal),
    /// A link was refused.
    AttachRefused {
        /// the address requested
        address: String,
        /// the error condition
        condition: String,
        /// why
        reason: String,
        /// the space it belongs to
        space: String,
        /// the user, unless anonymous
        user: Option<String>,
    },
    /// The connection has ended.
    Closed {
        /// the error condition, unless it was closed without an error
        condition: Option<String>,
        /// the error's description
        description: Option<String>,
    },
}

/// The subject of a [`Request::Ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginSubject {
    /// a connected client, to be renewed
    Member,
    /// a new login
    NewLogin,
}

/// A request of the shard to its driver.
#[derive(Debug)]
pub enum Request {
    /// Run `check` away from the worker threads, then call `plain_checked`.
    CheckPlain {
        /// the waiting connection
        conn: ConnId,
        /// the space of the login, if it exists
        space: Option<SpaceKey>,
        /// the user has logged in from this source within a day
        known: bool,
        /// the password to check
        check: PlainCheck,
    },
    /// Send the question to the service that it names, then call `judged`.
    Ask {
        /// the waiting connection
        conn: ConnId,
        /// whether it is a new login or a renewal
        subject: LoginSubject,
        /// the question
        question: Question,
    },
    /// Request the creation of an address. Call `creation_refused` only if it is not created.
    Create {
        /// the waiting connection
        conn: ConnId,
        /// number of the attach that waits
        number: u64,
        /// the address
        wanted: WantedAddress,
        /// the user, unless anonymous
        user: Option<String>,
        /// the end of the wait
        until: Time,
    },
    /// Take the connection out (`extract`) and pass it to shard `to` (`adopt`), socket and unread
    /// bytes included.
    Move {
        /// the connection
        conn: ConnId,
        /// its new shard
        to: u16,
    },
    /// Report a fact to the observer.
    Fact {
        /// the subject
        conn: ConnId,
        /// what
        fact: Fact,
    },
}

/// An address that a link requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WantedAddress {
    /// full name of the address space, `NAME.NAMESPACE`
    pub space: String,
    /// the name that the link attaches to
    pub address: String,
    /// the type that the capabilities of its terminus request
    pub kind: Option<AddressType>,
    /// the patterns of the space's `autoCreate` that match the name, in their order
    pub patterns: Vec<String>,
}
