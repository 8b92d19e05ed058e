//! Events of a connection for its driver, and the driver's input.

use thiserror::Error as ThisError;

use crate::link::OutcomeCounts;
use crate::types::{
    Attach, DeliveryState, Error, Fields, Open, Outcome, ReceiverSettleMode, SaslInit, SaslOutcome, SaslResponse,
    SenderSettleMode, Source, Symbol, Target,
};

/// A link of one connection. The number is reused after the end of the link: valid from `Attach`
/// (or `attach`) until the call of `poll_event` that follows its `Detach`, or until `refuse`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// A session of one connection. The number is reused after the end of the session: valid from
/// `Begin` (or `begin`) until the call of `poll_event` that follows its `End`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u32);

/// An event for the driver. Borrows from the input only.
#[derive(Debug, PartialEq)]
pub enum Event<'a> {
    /// client: what the server offers; answer with `sasl_init`
    SaslMechanisms(Vec<Symbol>),
    /// server: answer with `sasl_challenge` or `sasl_outcome`; nothing is read until then
    SaslInit(SaslInit),
    /// client: answer with `sasl_response`; nothing is read until then
    SaslChallenge(Vec<u8>),
    /// server: answer with `sasl_challenge` or `sasl_outcome`; nothing is read until then
    SaslResponse(SaslResponse),
    /// client: the outcome; unless it is `Ok`, `Closed` follows
    SaslOutcome(SaslOutcome),
    /// The peer's `open`. A server answers with `open` or `close`; nothing is read until then.
    Open(Box<Open>),
    /// The peer began a session (already answered), or answered ours.
    Begin(SessionId),
    /// The peer wants a link: answer with `accept` or `refuse`; nothing is read until then.
    Attach {
        /// the new link
        link: LinkId,
        /// its session
        session: SessionId,
        /// as the peer sent it; its `role` is the peer's
        attach: Box<Attach>,
    },
    /// The peer answered our `attach`. A null terminus of the peer's side means that `Detach`
    /// follows (2.6.3).
    Attached {
        /// the link that `attach` returned
        link: LinkId,
        /// as the peer sent it
        attach: Box<Attach>,
    },
    /// Bytes of a delivery.
    Transfer(Incoming<'a>),
    /// The credit of a sending link, also when the window of its session opens again.
    Credit {
        /// a sending link
        link: LinkId,
        /// deliveries, from now
        credit: u32,
        /// the receiver requests all available messages, then a call of `drained` (2.6.7)
        drain: bool,
    },
    /// The sender of a receiving link reported its state.
    Flow {
        /// a receiving link
        link: LinkId,
        /// the remaining credit; 0 after a drain
        credit: u32,
        /// deliveries waiting at the sender, if reported
        available: Option<u32>,
        /// this answers `drain`
        drain: bool,
        /// link state properties
        properties: Fields,
    },
    /// The outcome of deliveries we sent: answer with `take_settled` of the same range.
    Disposition {
        /// the session of the deliveries
        session: SessionId,
        /// first delivery id
        first: u32,
        /// last delivery id (serial number arithmetic)
        last: u32,
        /// the receiver has forgotten them already
        settled: bool,
        /// the outcome; a source's default outcome, else released, where the peer settled without
        /// one
        outcome: Outcome,
    },
    /// The sender has settled deliveries of the session that we received (2.6.12): their state can
    /// be dropped. Emitted for any delivery it names, known or not.
    SenderSettled {
        /// the session of the deliveries
        session: SessionId,
        /// first delivery id
        first: u32,
        /// last delivery id (serial number arithmetic)
        last: u32,
    },
    /// A provisional outcome of deliveries we sent, within a transaction (4.4.2, 4.5.6): with
    /// `settled` answer with `take_settled` of the same range; else they stay unsettled until
    /// `take_settled` is called for them.
    Provisional {
        /// the session of the deliveries
        session: SessionId,
        /// first delivery id
        first: u32,
        /// last delivery id (serial number arithmetic)
        last: u32,
        /// the receiver has forgotten them already
        settled: bool,
        /// the transaction
        txn_id: Vec<u8>,
        /// as of `Disposition`
        outcome: Outcome,
    },
    /// A delivery that is part of a transaction was lost, because its link or session has ended or
    /// has just failed (4.4.1).
    PostingRefused {
        /// the transaction
        txn_id: Vec<u8>,
        /// why the peer's delivery was not accepted
        error: Error,
    },
    /// A coordinator has begun a transaction (4.5.5): answer with `take_settled` of the same range.
    Declared {
        /// the session of the delivery
        session: SessionId,
        /// first delivery id
        first: u32,
        /// last delivery id (serial number arithmetic)
        last: u32,
        /// the coordinator has forgotten it already
        settled: bool,
        /// the transaction
        txn_id: Vec<u8>,
    },
    /// A link has ended (already answered). Call `take_unsettled`; then the id is gone.
    Detach {
        /// the link
        link: LinkId,
        /// its terminus is closed too
        closed: bool,
        /// why, by the peer or by this machine
        error: Option<Error>,
        /// the side that ended it
        by: ClosedBy,
        /// the session whose end also ended the link: every link in `session_links` has already
        /// ended, with its own event
        ended: Option<SessionId>,
    },
    /// A session has ended (already answered); `Detach` came before for each of its links.
    End {
        /// the session
        session: SessionId,
        /// why, by the peer or by this machine
        error: Option<Error>,
    },
    /// The last event. Write the output, end the stream; `links` and `take_unsettled` return the
    /// remaining state.
    Closed {
        /// why
        error: Option<Error>,
        /// the side that ended it
        by: ClosedBy,
    },
}

/// The side that ended a connection, a session or a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosedBy {
    /// the peer's `close`, `end` or `detach`, protocol header or SASL outcome; or the peer attached
    /// the link again
    Peer,
    /// our `close`, `end` or `detach`, or a violation that this machine answered with one
    Local,
    /// the peer was silent, or too slow in the handshake
    Timeout,
}

/// A piece of a delivery that arrived: one frame's worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Incoming<'a> {
    /// a receiving link
    pub link: LinkId,
    /// for `settle`
    pub delivery_id: u32,
    /// the first piece of its delivery
    pub first: bool,
    /// more pieces come
    pub more: bool,
    /// the delivery is aborted: discard its pieces, settle nothing (2.6.14)
    pub aborted: bool,
    /// the sender wants no outcome
    pub settled: bool,
    /// 0 for AMQP messages; as in the first piece
    pub message_format: u32,
    /// bytes of the message
    pub payload: &'a [u8],
    /// the sender's tag, on the first piece; else empty
    pub tag: &'a [u8],
    /// it resumes a delivery that our half of the link named as unsettled (2.6.13)
    pub resume: bool,
    /// the sender's delivery state, still encoded (a transaction's, part 4)
    pub state: Option<&'a [u8]>,
}

/// A piece of a delivery to send: any number of bytes, split into frames by the machine.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Returned by `take_settled`; `None`: sent settled, or the outcome is ignored where the link
    /// sends nothing settled. Read from the first piece only.
    pub token: Option<u64>,
    /// 0 for AMQP messages; read from the first piece only
    pub message_format: u32,
    /// the first piece of its delivery
    pub first: bool,
    /// more pieces come
    pub more: bool,
    /// the delivery is aborted; not with `first`
    pub aborted: bool,
    /// bytes of the message
    pub payload: &'a [u8],
}

/// The tag or id of a delivery, other than its number in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag<'a> {
    /// at most 32 bytes
    pub bytes: &'a [u8],
    /// the receiver named it as unsettled when it attached (2.6.13)
    pub resume: bool,
}

/// Why `transfer` sent nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
pub enum SendError {
    /// not attached, or not a sending link
    #[error("the link is not attached as a sender")]
    NotAttached,
    /// the receiver granted no more; `Credit` follows when it does
    #[error("the link has no credit")]
    NoCredit,
    /// the session's window is closed; `Credit` follows when it opens
    #[error("the session's window is closed")]
    WindowClosed,
    /// `Config::unsettled_max` deliveries wait for their outcome
    #[error("too many deliveries of the session are unsettled")]
    Unsettled,
    /// larger than the receiver's `max-message-size`; abort the delivery if it has begun
    #[error("the message exceeds the max-message-size of the receiver")]
    TooLarge,
    /// a first piece within a delivery, or a later one outside
    #[error("the piece does not continue the previous one")]
    OutOfOrder,
    /// a token on a link that sends all deliveries settled (`sends_settled`)
    #[error("the link sends settled deliveries only")]
    SettledOnly,
}

/// Why `begin` or `attach` did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
pub enum UseError {
    /// the AMQP layer has not begun, or has ended
    #[error("the connection or session is not open")]
    NotOpen,
    /// `channel-max` or `handle-max` of the peer is reached
    #[error("the peer accepts no more sessions or links")]
    Limit,
}

/// Our half of a link that the peer attached; name, handle and role are filled in by the machine.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct AttachReply {
    /// the actual source (the peer's, with the choices of the driver)
    pub source: Option<Box<Source>>,
    /// the actual target
    pub target: Option<Box<Target>>,
    /// in force from now
    pub snd_settle_mode: SenderSettleMode,
    /// in force from now
    pub rcv_settle_mode: ReceiverSettleMode,
    /// bytes of the largest message we take on a receiving link; `None` or 0: no limit
    pub max_message_size: Option<u64>,
    /// extensions offered
    pub offered_capabilities: Vec<Symbol>,
    /// extensions wanted
    pub desired_capabilities: Vec<Symbol>,
    /// link properties
    pub properties: Fields,
    /// Deliveries of an earlier attachment that are unsettled at our end, by tag (2.6.13): a
    /// receiving link lets only these be resumed. As many are listed as the frame has room for; an
    /// incomplete map is marked as such.
    pub unsettled: Option<Vec<(Vec<u8>, Option<DeliveryState>)>>,
}

/// The state of a link, for management.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSummary<'a> {
    /// its name
    pub name: &'a str,
    /// deliveries that may still be sent
    pub credit: u32,
    /// deliveries since its attach
    pub deliveries: u32,
    /// sending link: deliveries without an outcome
    pub unsettled: u32,
    /// outcomes of its deliveries; `None`: they are not counted
    pub outcomes: Option<OutcomeCounts>,
}
