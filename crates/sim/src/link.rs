//! A link of a client, and its state.

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{
    Attach, Coordinator, Fields, ReceiverSettleMode, Role, SenderSettleMode, Source, Symbol, Target,
    TerminusDurability, TerminusExpiryPolicy, Value,
};

use crate::ledger::{Ledger, LinkNumber, Received, TransactionNumber};
use crate::message::MessageNumber;

/// The purpose of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkSpec {
    /// send to a name
    Sender(String),
    /// send to the anonymous terminus
    AnonymousSender,
    /// receive from a name, maybe with wildcards
    Receiver(String),
    /// receive from a dynamic node that is an anycast address
    DynamicReceiver,
    /// receive from a subscription of a topic that outlives the link; `shared`: with other clients
    Subscriber { topic: String, name: String, shared: bool },
    /// the same, not shared: each attach may name another topic, whose subscription replaces that of
    /// the former one
    MovingSubscriber(Moving),
    /// read a stream from its first offset
    StreamReader(String),
    /// create a temporary queue, by a sender with a dynamic target, as JMS does
    TemporaryQueue,
    /// receive from the temporary queue that link `.0` of the client has created
    TemporaryReceiver(usize),
    /// declare and discharge transactions
    Coordinator,
}

/// A durable subscription that moves between topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moving {
    pub(crate) topic: &'static str,
    pub(crate) name: String,
    /// the subscription of this topic certainly exists
    pub(crate) exists: bool,
    /// the present attach names no topic
    pub(crate) recalls: bool,
}

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Idle,
    Attaching(LinkId),
    Attached(LinkId, LinkNumber),
    Detaching(LinkId, LinkNumber),
}

/// A message being sent.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) message: MessageNumber,
    pub(crate) bytes: Vec<u8>,
    pub(crate) offset: usize,
    pub(crate) settled: bool,
    /// the transaction it is posted in
    pub(crate) transaction: Option<TransactionNumber>,
}

/// A delivery that the client has not settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsettled {
    pub(crate) delivery_id: u32,
    pub(crate) received: Received,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) spec: LinkSpec,
    pub(crate) state: State,
    pub(crate) retry_at: Time,
    pub(crate) sending: Option<Sending>,
    /// the received parts of the delivery in progress
    pub(crate) partial: Vec<u8>,
    /// credit of the node
    pub(crate) credit: u32,
    pub(crate) draining: bool,
    pub(crate) unsettled: Vec<Unsettled>,
    /// the name of the dynamic node
    pub(crate) node: Option<String>,
}

fn capabilities(names: &[&'static str]) -> Vec<Symbol> {
    names.iter().map(|name| Symbol::constant(name)).collect()
}

impl LinkSpec {
    pub(crate) const fn sends(&self) -> bool {
        matches!(self, Self::Sender(_) | Self::AnonymousSender | Self::TemporaryQueue | Self::Coordinator)
    }

    fn recalls(&self) -> bool {
        matches!(self, Self::MovingSubscriber(Moving { recalls: true, .. }))
    }

    fn source(&self) -> Source {
        match self {
            Self::Receiver(from) => Source { address: Some(from.clone()), ..Source::default() },
            Self::DynamicReceiver => {
                Source { dynamic: true, capabilities: capabilities(&["direct"]), ..Source::default() }
            }
            Self::Subscriber { topic, shared, .. } => Source {
                address: Some(topic.clone()),
                durable: TerminusDurability::UnsettledState,
                expiry_policy: TerminusExpiryPolicy::Never,
                capabilities: capabilities(if *shared { &["shared", "global"] } else { &[] }),
                ..Source::default()
            },
            Self::MovingSubscriber(Moving { topic, name, .. }) => {
                let (topic, name) = ((*topic).to_owned(), name.clone());
                Self::Subscriber { topic, name, shared: false }.source()
            }
            Self::StreamReader(name) => {
                let first = Value::String("first".to_owned());
                let name_of = Symbol::constant("rabbitmq:stream-offset-spec");
                let described = Value::Described(Box::new((Value::Symbol(name_of.clone()), first)));
                let filter: Fields = vec![(name_of, described)];
                Source { address: Some(name.clone()), filter, ..Source::default() }
            }
            _ => Source::default(),
        }
    }

    fn target(&self) -> Target {
        match self {
            Self::Sender(to) => Target::node(Some(to.clone())),
            Self::Coordinator => Target::Coordinator(Coordinator::default()),
            Self::TemporaryQueue => Target::Node {
                address: None,
                durable: TerminusDurability::None,
                expiry_policy: TerminusExpiryPolicy::SessionEnd,
                timeout_s: 0,
                dynamic: true,
                dynamic_node_properties: Fields::new(),
                capabilities: capabilities(&["temporary-queue"]),
            },
            _ => Target::node(None),
        }
    }

    /// The attach that requests it. `second`: a receiver that settles after the sender did.
    pub(crate) fn attach(&self, name: String, second: bool) -> Attach {
        let role = if self.sends() { Role::Sender } else { Role::Receiver };
        let settle =
            if second && role == Role::Receiver { ReceiverSettleMode::Second } else { ReceiverSettleMode::First };
        Attach {
            name,
            handle: 0,
            role,
            snd_settle_mode: SenderSettleMode::Mixed,
            rcv_settle_mode: settle,
            source: (!self.recalls()).then(|| Box::new(self.source())),
            target: Some(Box::new(self.target())),
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
    pub(crate) const fn new(spec: LinkSpec) -> Self {
        Self {
            spec,
            state: State::Idle,
            retry_at: Time::ZERO,
            sending: None,
            partial: Vec::new(),
            credit: 0,
            draining: false,
            unsettled: Vec::new(),
            node: None,
        }
    }

    pub(crate) const fn id(&self) -> Option<LinkId> {
        match self.state {
            State::Idle => None,
            State::Attaching(id) | State::Attached(id, _) | State::Detaching(id, _) => Some(id),
        }
    }

    pub(crate) const fn is_attached(&self) -> bool {
        matches!(self.state, State::Attached(..))
    }

    /// Records that the client detaches it; the node's answer is pending.
    pub(crate) fn detach(&mut self, closed: bool, ledger: &mut Ledger) {
        if let LinkSpec::MovingSubscriber(moving) = &mut self.spec {
            moving.exists &= !closed;
        }
        if let State::Attached(id, number) = self.state {
            ledger.detaching(number, closed);
            *self = Self { state: State::Detaching(id, number), ..Self::new(self.spec.clone()) };
        }
    }

    /// Records that it has ended at both sides.
    pub(crate) fn detached(&mut self, retry_at: Time, ledger: &mut Ledger) {
        if let State::Attached(_, number) | State::Detaching(_, number) = self.state {
            ledger.detached(number);
        }
        self.reset(retry_at);
    }

    /// Records that it has ended with its connection.
    pub(crate) fn reset(&mut self, retry_at: Time) {
        *self = Self { retry_at, ..Self::new(self.spec.clone()) };
    }
}
