//! What a shard tells its driver: facts for logs and the console, taken in batches, and the few things that it
//! cannot do itself because they take long or another thread.

use enmasse_amqp::sasl::PlainCheck;
use enmasse_amqp::time::Time;

use super::{ConnId, WantedAddress};
use crate::table::{Question, Refusal, SpaceKey};

/// A fact about a connection, for whoever watches the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The peer has opened the connection.
    Opened {
        /// its container id
        container: String,
        /// the space it belongs to
        space: String,
        /// who it is, unless anonymous
        user: Option<String>,
        /// the SASL mechanism it came in by; `None`: without SASL
        mechanism: Option<&'static str>,
    },
    /// The peer was not let in.
    LoginRefused(Refusal),
    /// A link was refused.
    AttachRefused {
        /// the address asked for
        address: String,
        /// the error condition
        condition: String,
        /// why
        reason: String,
        /// the space it belongs to
        space: String,
        /// who it is, unless anonymous
        user: Option<String>,
    },
    /// The connection is gone.
    Closed {
        /// the error condition, unless it was closed in peace
        condition: Option<String>,
        /// the error's description
        description: Option<String>,
    },
}

/// About whom a [`Request::Ask`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// somebody who is inside, and may stay
    Member,
    /// somebody who would come in
    Newcomer,
}

/// What the driver has to do for the shard.
#[derive(Debug)]
pub enum Request {
    /// Run `check` away from the worker threads, then call `plain_checked`.
    CheckPlain {
        /// who waits
        conn: ConnId,
        /// the space it would come into, if there is one
        space: Option<SpaceKey>,
        /// the user has logged in from there within a day
        known: bool,
        /// the password to check
        check: PlainCheck,
    },
    /// Ask the service that a question names, then call `judged`.
    Ask {
        /// who waits
        conn: ConnId,
        /// whether it waits to come in, or to stay
        about: About,
        /// what to ask
        question: Question,
    },
    /// Have an address created; only if there will be none, call `creation_refused`.
    Create {
        /// who waits
        conn: ConnId,
        /// of the attach that waits
        number: u64,
        /// the address
        wanted: WantedAddress,
        /// who the peer is, unless anonymous
        user: Option<String>,
        /// from then on it waits no more
        until: Time,
    },
    /// Take the connection out (`extract`) and hand it to shard `to` (`adopt`), socket and unread bytes included.
    Move {
        /// which
        conn: ConnId,
        /// where to
        to: u16,
    },
    /// Tell whoever watches.
    Fact {
        /// about whom
        conn: ConnId,
        /// what
        fact: Fact,
    },
}
