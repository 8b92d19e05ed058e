//! Events of a client for its owner, and the options of links.

use enmasse_amqp::types::{Attach, Error as AmqpError, Fields, Modified, Outcome as AmqpOutcome, Symbol, Value};

/// The owner's handle of a link of one client. Never reused.
pub type Handle = u32;

/// The result of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// accepted
    Accepted,
    /// not accepted, and unchanged
    Released,
    /// invalid for the receiver
    Rejected {
        /// condition and description
        error: Option<(String, Option<String>)>,
    },
    /// not accepted, and changed
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

/// Condition and description of an error of the server or of this client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// for instance `amqp:not-found`
    pub condition: String,
    /// the error and its remedy
    pub description: String,
}

impl From<AmqpError> for Reason {
    fn from(error: AmqpError) -> Self {
        Self { condition: error.condition.as_str().to_owned(), description: error.description.unwrap_or_default() }
    }
}

/// An event of a client's connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// the client is logged in, and the server has sent its open
    Opened {
        /// properties of its open
        properties: Fields,
    },
    /// a link is up
    Attached {
        /// which
        link: Handle,
        /// its address; for a dynamic node the generated one
        address: Option<String>,
        /// a receiver's filters that the server applies
        filters: Vec<String>,
        /// capabilities of the server's end
        capabilities: Vec<String>,
        /// receiver: the state of a stream that reports it
        stream: Option<StreamState>,
    },
    /// the server refused a link
    Refused {
        /// which
        link: Handle,
        /// why
        reason: Option<Reason>,
    },
    /// a link has ended; its unsettled deliveries have no outcome
    Detached {
        /// which
        link: Handle,
        /// why, unless the owner requested it
        reason: Option<Reason>,
    },
    /// this many messages may be sent now
    Credit {
        /// a sending link
        link: Handle,
        /// messages, excluding those already passed to `send`
        credit: u32,
    },
    /// a message arrived
    Message {
        /// a receiving link
        link: Handle,
        /// counts from 0 for each link; for `settle`
        delivery: u64,
        /// the message needs no outcome
        settled: bool,
        /// the encoded message
        payload: Vec<u8>,
    },
    /// messages `first..=last` of a sending link, in the order of `send`, have an outcome
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
    /// the sender had no more messages, and the credit is used up
    Drained {
        /// a receiving link
        link: Handle,
        /// the returned credit; 0: messages have used up all of it
        credit: u32,
    },
    /// the last event
    Closed {
        /// why, unless the owner requested it
        reason: Option<Reason>,
    },
}

/// Options of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkOptions {
    /// the link name; `None`: a unique one
    pub name: Option<String>,
    /// deliveries are sent settled (sender: by us, receiver: requested from the server)
    pub settled: bool,
    /// receiver: read messages without consuming them
    pub browse: bool,
    /// capabilities of source and target
    pub capabilities: Vec<String>,
    /// receiver: an `apache.org:selector-filter:string`
    pub selector: Option<String>,
    /// receiver: the range of a stream to read
    pub stream: Option<StreamFilter>,
    /// sender: its name, if its messages are numbered (`enmasse:producer`)
    pub producer: Option<String>,
    /// receiver: bytes of the largest message taken; `None`: 64 MiB
    pub max_message_size: Option<u64>,
}

/// Where a reader of a stream begins (`rabbitmq:stream-offset-spec`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamOffset {
    /// at the first retained message
    First,
    /// at the last message
    Last,
    /// at the next new message
    Next,
    /// at an offset
    Offset(u64),
    /// at the first message from this time on, milliseconds since 1970; servers may begin somewhat
    /// before it
    Time(i64),
}

/// The range of a stream to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamFilter {
    /// where to begin
    pub offset: StreamOffset,
    /// one partition only (`enmasse:stream-partition`)
    pub partition: Option<u32>,
}

/// One partition of a stream: messages `first..next` are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionState {
    /// its number
    pub partition: u32,
    /// offset of the first message
    pub first: u64,
    /// offset that the next message will have
    pub next: u64,
}

/// The contents of a stream (the link property `enmasse:stream`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamState {
    /// uid of the address, which changes when it is deleted and created again; `None`: unknown
    pub uid: Option<String>,
    /// in the order of their numbers
    pub partitions: Vec<PartitionState>,
}

impl StreamState {
    /// The properties in the server's attach, if it is a stream that reports them.
    pub(super) fn of(attach: &Attach) -> Option<Self> {
        let (_, Value::Map(entries)) = attach.properties.iter().find(|(name, _)| name.as_str() == "enmasse:stream")?
        else {
            return None;
        };
        let uid = match member(entries, "uid")? {
            Value::String(uid) => Some(uid.clone()),
            _ => None,
        };
        let (Value::List(items) | Value::Array(items)) = member(entries, "partitions")? else { return None };
        let partition = |item: &Value| {
            let Value::Map(entries) = item else { return None };
            let number = |name| member(entries, name).and_then(unsigned);
            Some(PartitionState {
                partition: u32::try_from(number("partition")?).ok()?,
                first: number("first")?,
                next: number("next")?,
            })
        };
        let mut partitions = items.iter().map(partition).collect::<Option<Vec<_>>>()?;
        partitions.sort_unstable_by_key(|partition| partition.partition);
        Some(Self { uid, partitions })
    }
}

pub(crate) fn member<'a>(entries: &'a [(Value, Value)], name: &str) -> Option<&'a Value> {
    let is_name = |key: &Value| match key {
        Value::String(key) => key == name,
        Value::Symbol(key) => key.as_str() == name,
        _ => false,
    };
    entries.iter().find(|(key, _)| is_name(key)).map(|(_, value)| value)
}

pub(crate) fn unsigned(value: &Value) -> Option<u64> {
    match *value {
        Value::Uint(number) => Some(number.into()),
        Value::Ulong(number) => Some(number),
        Value::Long(number) => number.try_into().ok(),
        _ => None,
    }
}
