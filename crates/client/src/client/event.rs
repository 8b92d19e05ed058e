//! What a client tells its owner, and how the owner chooses links.

use enmasse_amqp::types::{Error as AmqpError, Fields, Modified, Outcome as AmqpOutcome, Symbol};

/// A link of one client, as its owner names it. Never used twice.
pub type Handle = u32;

/// What became of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// taken
    Accepted,
    /// not taken, and untouched
    Released,
    /// invalid for the receiver
    Rejected {
        /// condition and description
        error: Option<(String, Option<String>)>,
    },
    /// not taken, and changed
    Modified {
        /// counts as a failed attempt
        delivery_failed: bool,
        /// not to this link again
        undeliverable_here: bool,
    },
}

impl From<AmqpOutcome> for Outcome {
    fn from(outcome: AmqpOutcome) -> Self {
        match outcome {
            AmqpOutcome::Accepted => Self::Accepted,
            AmqpOutcome::Released => Self::Released,
            AmqpOutcome::Rejected(error) => {
                Self::Rejected { error: error.map(|error| (error.condition.as_str().to_owned(), error.description)) }
            }
            AmqpOutcome::Modified(modified) => Self::Modified {
                delivery_failed: modified.delivery_failed,
                undeliverable_here: modified.undeliverable_here,
            },
        }
    }
}

impl From<Outcome> for AmqpOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Accepted => Self::Accepted,
            Outcome::Released => Self::Released,
            Outcome::Rejected { error } => Self::Rejected(error.map(|(condition, description)| {
                Box::new(AmqpError { condition: Symbol::from(condition.as_str()), description, info: Fields::new() })
            })),
            Outcome::Modified { delivery_failed, undeliverable_here } => {
                Self::Modified(Box::new(Modified { delivery_failed, undeliverable_here, ..Modified::default() }))
            }
        }
    }
}

/// Condition and description of an error of the server, or of this client where it gave up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// for instance `amqp:not-found`
    pub condition: String,
    /// what happened and what would mend it
    pub description: String,
}

impl From<AmqpError> for Reason {
    fn from(error: AmqpError) -> Self {
        Self { condition: error.condition.as_str().to_owned(), description: error.description.unwrap_or_default() }
    }
}

/// Something that happened on a client's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// logged in, and the server has opened its side
    Opened,
    /// a link is up
    Attached {
        /// which
        link: Handle,
        /// its address: of a dynamic node the one that was made
        address: Option<String>,
    },
    /// the server did not want a link
    Refused {
        /// which
        link: Handle,
        /// why
        reason: Option<Reason>,
    },
    /// a link is over; what was unsettled on it has no outcome
    Detached {
        /// which
        link: Handle,
        /// why, unless the owner asked for it
        reason: Option<Reason>,
    },
    /// so many messages may be sent now
    Credit {
        /// a sending link
        link: Handle,
        /// messages, those already handed to `send` taken off
        credit: u32,
    },
    /// a message arrived
    Message {
        /// a receiving link
        link: Handle,
        /// counts from 0 for each link; for `settle`
        delivery: u64,
        /// no outcome is wanted
        settled: bool,
        /// the encoded message
        payload: Vec<u8>,
    },
    /// messages `first..=last` of a sending link, as `send` took them, have an outcome
    Settled {
        /// a sending link
        link: Handle,
        /// first message
        first: u64,
        /// last message
        last: u64,
        /// the outcome of them all
        outcome: Outcome,
    },
    /// the sender had no more, and the credit is gone
    Drained {
        /// a receiving link
        link: Handle,
    },
    /// the last event
    Closed {
        /// why, unless the owner asked for it
        reason: Option<Reason>,
    },
}

/// How a link is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkOptions {
    /// a name other than one that no other link has
    pub name: Option<String>,
    /// deliveries are sent settled (sender: by us, receiver: asked of the server)
    pub settled: bool,
    /// receiver: look at messages without taking them
    pub browse: bool,
    /// capabilities of source and target
    pub capabilities: Vec<String>,
    /// receiver: an `apache.org:selector-filter:string`
    pub selector: Option<String>,
    /// receiver: bytes of the largest message taken; `None`: 64 MiB
    pub max_message_size: Option<u64>,
}
