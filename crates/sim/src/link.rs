//! A link that a client wishes to have, and how it stands.

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Attach, ReceiverSettleMode, Role, SenderSettleMode, Source, Symbol, Target};

use crate::ledger::{Ledger, LinkNumber, MessageNumber};

/// What a link is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// send to a name
    Send(String),
    /// send to the anonymous terminus
    Anywhere,
    /// receive from a name, maybe with wildcards
    Receive(String),
    /// receive from a node made for it
    Replies,
}

/// How a link stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Idle,
    Attaching(LinkId),
    Attached(LinkId, LinkNumber),
    Detaching(LinkId),
}

/// A message on its way out.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) message: MessageNumber,
    pub(crate) bytes: Vec<u8>,
    pub(crate) offset: usize,
    pub(crate) settled: bool,
}

/// A delivery that waits for the client's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) delivery_id: u32,
    pub(crate) message: MessageNumber,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) wish: Wish,
    pub(crate) state: State,
    pub(crate) retry_at: Time,
    pub(crate) sending: Option<Sending>,
    /// what has come of the delivery in progress
    pub(crate) partial: Vec<u8>,
    /// what the node may still send
    pub(crate) credit: u32,
    pub(crate) draining: bool,
    pub(crate) unanswered: Vec<Held>,
    /// the name of the node that was made for it
    pub(crate) node: Option<String>,
}

impl Wish {
    pub(crate) const fn sends(&self) -> bool {
        matches!(self, Self::Send(_) | Self::Anywhere)
    }

    /// The attach that asks for it. `second`: a receiver that settles after the sender did.
    pub(crate) fn attach(&self, name: String, second: bool) -> Attach {
        // Nodes of the simulation are direct: a reply has the outcome that its receiver gave it.
        let capabilities = |dynamic: bool| dynamic.then(|| Symbol::constant("direct")).into_iter().collect();
        let source =
            |address, dynamic| Source { address, dynamic, capabilities: capabilities(dynamic), ..Source::default() };
        let (role, source, target) = match self {
            Self::Send(to) => (Role::Sender, source(None, false), Target::node(Some(to.clone()))),
            Self::Anywhere => (Role::Sender, source(None, false), Target::node(None)),
            Self::Receive(from) => (Role::Receiver, source(Some(from.clone()), false), Target::node(None)),
            Self::Replies => (Role::Receiver, source(None, true), Target::node(None)),
        };
        let settle =
            if second && role == Role::Receiver { ReceiverSettleMode::Second } else { ReceiverSettleMode::First };
        Attach {
            name,
            handle: 0,
            role,
            snd_settle_mode: SenderSettleMode::Mixed,
            rcv_settle_mode: settle,
            source: Some(Box::new(source)),
            target: Some(Box::new(target)),
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: (role == Role::Sender).then_some(0),
            max_message_size: None,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: Vec::new(),
        }
    }
}

impl Link {
    pub(crate) const fn new(wish: Wish) -> Self {
        Self {
            wish,
            state: State::Idle,
            retry_at: Time::ZERO,
            sending: None,
            partial: Vec::new(),
            credit: 0,
            draining: false,
            unanswered: Vec::new(),
            node: None,
        }
    }

    pub(crate) const fn id(&self) -> Option<LinkId> {
        match self.state {
            State::Idle => None,
            State::Attaching(id) | State::Attached(id, _) | State::Detaching(id) => Some(id),
        }
    }

    /// The client has detached it; the node has yet to agree.
    pub(crate) fn leave(&mut self, ledger: &mut Ledger) {
        if let State::Attached(id, number) = self.state {
            ledger.detached(number);
            *self = Self { state: State::Detaching(id), ..Self::new(self.wish.clone()) };
        }
    }

    /// It is gone.
    pub(crate) fn over(&mut self, now: Time, ledger: &mut Ledger) {
        if let State::Attached(_, number) = self.state {
            ledger.detached(number);
        }
        *self = Self { retry_at: now, ..Self::new(self.wish.clone()) };
    }
}
