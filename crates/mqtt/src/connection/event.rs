//! Events of a connection for its driver, and the driver's input.

use std::ops::Deref;
use std::sync::Arc;

use thiserror::Error as ThisError;

use crate::codec::{
    Connect, PacketId, Properties, PublishProperties, QoS, ReasonCode, Subscribe, Unsubscribe, UserProperties,
};

/// An event for the driver. Borrows from the input only.
#[derive(Debug, PartialEq)]
pub enum Event<'a> {
    /// The first packet: answer with `accept`, `refuse` or `auth_continue`; nothing is read until
    /// then. A client id is present unless the server has to assign one.
    Connect(Box<Connect<'a>>),
    /// AUTH of the client (4.12): within CONNECT answer as `Connect`; later, as `reauthenticate`
    /// says, with `auth_continue`, `auth_succeeded` or `disconnect`.
    Auth {
        /// the client has begun to authenticate again (4.12.1)
        reauthenticate: bool,
        /// of the method that CONNECT named
        data: Option<&'a [u8]>,
    },
    /// A message of the client. QoS 1 and 2: answer with `answer_publish`, in any order. A
    /// duplicate of a QoS 2 message is not reported.
    Publish(Incoming<'a>),
    /// The client has released a QoS 2 message (PUBREL) and its packet id may be reused: answer
    /// with `complete`, once that is as durable as the session.
    Released {
        /// of the message
        packet_id: PacketId,
    },
    /// The client has received a QoS 2 delivery (PUBREC): answer with `release`, once that is as
    /// durable as the session. The message may be forgotten, but not its packet id.
    Received {
        /// of the delivery
        packet_id: PacketId,
        /// of the delivery
        token: u64,
    },
    /// A delivery has ended: the last packet of its flow, PUBACK, PUBCOMP, or PUBREC with an error.
    Acknowledged {
        /// of the delivery; it may be used again
        packet_id: PacketId,
        /// of the delivery
        token: u64,
        /// success or the reason of the client's refusal; always success with 3.x
        code: ReasonCode,
        /// reason string and user properties
        properties: Properties<'a>,
    },
    /// Answer with `answer_subscribe`.
    Subscribe(Subscribe<'a>),
    /// Answer with `answer_unsubscribe`.
    Unsubscribe(Unsubscribe<'a>),
    /// The last event. Write the output, end the stream; `take_in_flight` returns what outlives the
    /// connection.
    Closed(Closed),
}

/// A message of the client.
#[derive(Clone, Debug, PartialEq)]
pub struct Incoming<'a> {
    /// the topic name, also if the packet had an alias
    pub topic: TopicName<'a>,
    /// the client says that it may have sent the message before
    pub dup: bool,
    /// how it is acknowledged
    pub qos: QoS,
    /// keep it as the retained message of its topic
    pub retain: bool,
    /// for `answer_publish`, with QoS 1 and 2
    pub packet_id: Option<PacketId>,
    /// of 5.0; without the topic alias
    pub properties: PublishProperties<'a>,
    /// any bytes
    pub payload: &'a [u8],
}

/// A topic name from the packet or of an alias.
#[derive(Clone, Debug)]
pub enum TopicName<'a> {
    /// in the packet
    Named(&'a str),
    /// of the alias in the packet
    Aliased(Arc<str>),
}

impl Deref for TopicName<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Named(topic) => topic,
            Self::Aliased(topic) => topic,
        }
    }
}

impl PartialEq for TopicName<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

/// The end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// the side that ended it
    pub by: ClosedBy,
    /// that of DISCONNECT or CONNACK, or its equivalent with 3.x and where none was sent
    pub code: ReasonCode,
    /// why, for the log; of the client's DISCONNECT its reason string
    pub text: String,
    /// the will, if there is one, is to be published [5: 3.1.2-8, 3.1.2-10, 3.14.4-3]
    pub publish_will: bool,
    /// the session expiry interval that the client's DISCONNECT has set, in seconds (3.14.2.2.2)
    pub session_expiry_s: Option<u32>,
}

/// The side that ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosedBy {
    /// the client's DISCONNECT
    Client,
    /// `disconnect` or `refuse`
    Server,
    /// a violation that this machine answered
    Violation,
    /// the client was silent for too long, or too slow in the handshake
    Timeout,
    /// the transport has ended without a DISCONNECT
    Transport,
}

/// Answer to a CONNECT that is accepted. Values that are `None` or empty are left out; all but the
/// first field are for 5.0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accept<'a> {
    /// the server had a session, and the client did not discard it [5: 3.2.2-2, 3.2.2-3]
    pub session_present: bool,
    /// if the client had none [5: 3.2.2-16]
    pub assigned_client_id: Option<&'a str>,
    /// if it differs from the client's [5: 3.2.2-22]; with 3.x it holds without being told
    pub server_keep_alive_s: Option<u16>,
    /// if it differs from the client's, in seconds (3.2.2.3.2)
    pub session_expiry_s: Option<u32>,
    /// last data of an enhanced authentication
    pub authentication_data: Option<&'a [u8]>,
    /// sent only if the client wants it [5: 3.1.2-28]
    pub response_information: Option<&'a str>,
    /// for the client's log
    pub reason: &'a str,
    /// for the client
    pub user: UserProperties<'a>,
}

/// A message for the client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outgoing<'a> {
    /// a topic name
    pub topic: &'a str,
    /// the lower of published and granted
    pub qos: QoS,
    /// for a retained message, or as published
    pub retain: bool,
    /// it may have been sent before; only with a packet id that was restored [5: 3.3.1-1]
    pub dup: bool,
    /// of 5.0; left out with 3.x. The machine chooses the topic alias
    pub properties: PublishProperties<'a>,
    /// the payload in parts
    pub payload: &'a [&'a [u8]],
}

/// Why nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
pub enum SendError {
    /// before `accept` or after the end
    #[error("the connection is not open")]
    NotOpen,
    /// the receive maximum is reached [5: 3.3.4-9]; `Acknowledged` precedes the next chance
    #[error("the window of unacknowledged deliveries is full")]
    WindowFull,
    /// larger than the client's maximum packet size; handle it as if it were delivered
    /// [5: 3.1.2-25]
    #[error("the message is larger than the client's maximum packet size")]
    TooLarge,
    /// a topic or property is longer than 65,535 bytes, or no topic name [5: 3.3.2-2]
    #[error("the topic or a property has no encoding")]
    Unencodable,
    /// a packet id that is not reserved or has been sent already, or one with QoS 0
    #[error("the packet identifier is not reserved for this delivery")]
    NotReserved,
}

/// Why an answer was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
pub enum AnswerError {
    /// before `accept`, after it, or after the end, as the call says
    #[error("the connection is not in a state for this answer")]
    NotOpen,
    /// no packet with this identifier waits for this answer
    #[error("no packet with this identifier waits for this answer")]
    NotFound,
    /// a code for each filter is necessary [5: 3.9.3-1, 3.11.3-1]
    #[error("the number of codes is not that of the filters")]
    Count,
    /// larger than the client accepts; the client was disconnected
    #[error("the answer is larger than the client's maximum packet size")]
    TooLarge,
}

/// Deliveries and packet identifiers of a session (4.1): what both sides must keep when the
/// connection ends, and what the next connection begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// unacknowledged deliveries to the client, in the order of their first sending
    pub outgoing: Vec<OutgoingDelivery>,
    /// QoS 2 messages of the client that were answered and not released, in any order
    pub received: Vec<PacketId>,
}

/// A delivery to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutgoingDelivery {
    /// chosen by the machine
    pub packet_id: PacketId,
    /// chosen by the driver
    pub token: u64,
    /// what the client has last confirmed
    pub stage: Stage,
}

/// Progress of a delivery to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Stage {
    /// PUBLISH is unanswered: resume sends it again, with DUP
    Published = 0,
    /// PUBREC came: resume sends PUBREL
    Received = 1,
}
