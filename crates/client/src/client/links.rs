//! The links of one connection: waiting messages, messages being assembled, and messages without an
//! outcome.

use std::collections::{HashMap, VecDeque};

use enmasse_amqp::connection::{Connection, Incoming, LinkId, Outgoing, SendError};
use enmasse_amqp::types::{Attach, ReceiverSettleMode, Role, SenderSettleMode, Source, Symbol, Target, Value};

use super::event::{Event, Handle, LinkOptions, Outcome, StreamFilter, StreamOffset};
use super::mailbox::Mailbox;

/// Default for the bytes of the largest message that a receiver accepts.
const MESSAGE_SIZE_MAX: u64 = 64 << 20;
/// Descriptor of the selector filter.
const SELECTOR: (&str, u64) = (SELECTOR_FILTER, 0x0000_468c_0000_0004);
/// Name of the selector filter.
pub(crate) const SELECTOR_FILTER: &str = "apache.org:selector-filter:string";
/// Names of the filter by which a reader selects its start in a stream; a server that supports it
/// answers with one of them.
pub(crate) const OFFSET_FILTERS: [&str; 2] = ["rabbitmq:stream-offset-spec", "stream-offset-spec"];

/// Property of a link whose messages are numbered.
const PRODUCER: Symbol = Symbol::constant("enmasse:producer");

/// A sending link.
#[derive(Default)]
pub(super) struct Sender {
    /// messages accepted by `send`, and whether they are sent settled
    queue: VecDeque<(Vec<u8>, bool)>,
    /// number of the next message to send
    next: u64,
    /// credit granted by the server
    credit: u32,
    /// only settled deliveries are allowed
    settled: bool,
}

/// A receiving link.
#[derive(Default)]
pub(super) struct Receiver {
    /// received pieces of a partial message
    pieces: Vec<u8>,
    /// messages that the server may still send
    credit: u32,
    /// delivery ids of messages without an outcome, from message `settled_up_to` on; `None`: it has
    /// one
    unsettled: VecDeque<Option<u32>>,
    /// number of the message at the front of `unsettled`
    settled_up_to: u64,
}

/// The direction of a link, with its state.
pub(super) enum Direction {
    Sends(Sender),
    Receives(Receiver),
}

/// One link.
pub(super) struct Link {
    pub(super) id: LinkId,
    pub(super) way: Direction,
    /// the server has answered with the requested terminus
    pub(super) attached: bool,
    /// the owner has called `detach`
    pub(super) leaving: bool,
}

/// All links of a connection, by handle and by id.
#[derive(Default)]
pub(super) struct Links {
    links: HashMap<Handle, Link>,
    handles: HashMap<LinkId, Handle>,
}

impl Links {
    pub(super) fn insert(&mut self, handle: Handle, id: LinkId, way: Direction) {
        self.handles.insert(id, handle);
        self.links.insert(handle, Link { id, way, attached: false, leaving: false });
    }

    pub(super) fn remove(&mut self, id: LinkId) -> Option<(Handle, Link)> {
        let handle = self.handles.remove(&id)?;
        Some((handle, self.links.remove(&handle)?))
    }

    pub(super) fn by_handle(&mut self, handle: Handle) -> Option<&mut Link> {
        self.links.get_mut(&handle)
    }

    pub(super) fn by_id(&mut self, id: LinkId) -> Option<(Handle, &mut Link)> {
        let handle = *self.handles.get(&id)?;
        Some((handle, self.links.get_mut(&handle)?))
    }

    pub(super) fn handle(&self, id: LinkId) -> Option<Handle> {
        self.handles.get(&id).copied()
    }

    /// All sending links.
    pub(super) fn senders(&mut self) -> impl Iterator<Item = (Handle, LinkId, &mut Sender)> {
        self.links.iter_mut().filter_map(|(handle, link)| match &mut link.way {
            Direction::Sends(sender) => Some((*handle, link.id, sender)),
            Direction::Receives(_) => None,
        })
    }
}

impl Sender {
    pub(super) fn new(settled: bool) -> Self {
        Self { settled, ..Self::default() }
    }

    pub(super) fn queue(&mut self, messages: Vec<Vec<u8>>, settled: bool) {
        let settled = settled || self.settled;
        self.queue.extend(messages.into_iter().map(|message| (message, settled)));
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Bytes of waiting messages.
    pub(super) fn waiting_size(&self) -> usize {
        self.queue.iter().map(|(message, _)| message.len()).sum()
    }

    /// Applies the server's credit; returns the increase.
    pub(super) fn set_credit(&mut self, credit: u32) -> i64 {
        i64::from(credit) - i64::from(std::mem::replace(&mut self.credit, credit))
    }

    /// Sends waiting messages while the machine takes them and its output is below `output_max`.
    /// Returns the bytes sent.
    pub(super) fn send(
        &mut self,
        handle: Handle,
        id: LinkId,
        machine: &mut Connection,
        mailbox: &Mailbox,
        output_max: usize,
    ) -> usize {
        let mut size = 0;
        while machine.sendable(id) > 0 && machine.output().len() < output_max {
            let Some((message, settled)) = self.queue.front() else { break };
            let piece = Outgoing {
                token: (!settled).then_some(self.next),
                message_format: 0,
                first: true,
                more: false,
                aborted: false,
                payload: message,
            };
            match machine.transfer(id, piece) {
                Ok(()) => self.credit = self.credit.saturating_sub(1),
                Err(SendError::TooLarge) => {
                    // the rejected message used no credit: the next one may use it
                    mailbox.grant(handle, 1);
                    mailbox.notify_owner(Event::Settled {
                        link: handle,
                        first: self.next,
                        last: self.next,
                        outcome: too_large(),
                    });
                }
                Err(_) => break,
            }
            size += message.len();
            self.next += 1;
            self.queue.pop_front();
        }
        size
    }
}

fn too_large() -> Outcome {
    let description = "the message exceeds the max-message-size of this link".to_owned();
    Outcome::Rejected { error: Some(("amqp:link:message-size-exceeded".to_owned(), Some(description))) }
}

impl Receiver {
    /// The absolute credit after `more` is granted.
    pub(super) fn grant(&mut self, more: u32) -> u32 {
        self.credit = self.credit.saturating_add(more);
        self.credit
    }

    /// The server has used up or returned all credit; returns the returned part.
    pub(super) fn drained(&mut self) -> u32 {
        std::mem::take(&mut self.credit)
    }

    /// Takes a piece; returns the message that it completes.
    pub(super) fn receive(&mut self, link: Handle, incoming: &Incoming<'_>) -> Option<Event> {
        if incoming.first {
            self.pieces.clear();
        }
        if incoming.aborted {
            self.pieces = Vec::new();
            self.credit = self.credit.saturating_sub(1);
            return None;
        }
        self.pieces.extend_from_slice(incoming.payload);
        if incoming.more {
            return None;
        }
        self.credit = self.credit.saturating_sub(1);
        let delivery = self.settled_up_to + self.unsettled.len() as u64;
        self.unsettled.push_back((!incoming.settled).then_some(incoming.delivery_id));
        self.forget_settled();
        Some(Event::Message { link, delivery, settled: incoming.settled, payload: std::mem::take(&mut self.pieces) })
    }

    /// Takes the delivery ids of messages `first..=last` that have no outcome yet.
    pub(super) fn settle(&mut self, first: u64, last: u64) -> Vec<u32> {
        let end = self.settled_up_to + self.unsettled.len() as u64;
        let range = first.max(self.settled_up_to)..end.min(last.saturating_add(1));
        let ids = range.filter_map(|number| self.unsettled[(number - self.settled_up_to) as usize].take()).collect();
        self.forget_settled();
        ids
    }

    fn forget_settled(&mut self) {
        while let Some(None) = self.unsettled.front() {
            self.unsettled.pop_front();
            self.settled_up_to += 1;
        }
    }
}

/// The attach of a link that an owner requests. Without an address a sender's target is the
/// anonymous terminus, and a receiver's source a dynamic node.
pub(super) fn attach(name: String, role: Role, address: Option<String>, options: &LinkOptions) -> Attach {
    let capabilities: Vec<Symbol> = options.capabilities.iter().map(|name| Symbol::from(name.as_str())).collect();
    let sends = role == Role::Sender;
    let mut source = Source::default();
    let mut target = Target::node(None);
    if sends {
        source.address = Some(name.clone());
        target = Target::node(address);
        if let Target::Node { capabilities: wanted, .. } = &mut target {
            *wanted = capabilities;
        }
    } else {
        source.dynamic = address.is_none();
        source.address = address;
        source.capabilities = capabilities;
        source.distribution_mode = options.browse.then(|| Symbol::constant("copy"));
        source.filter = options.selector.iter().map(|text| selector(text)).collect();
        source.filter.extend(options.stream.iter().flat_map(stream));
    }
    Attach {
        name,
        handle: 0,
        role,
        snd_settle_mode: if options.settled { SenderSettleMode::Settled } else { SenderSettleMode::Mixed },
        rcv_settle_mode: ReceiverSettleMode::First,
        source: Some(Box::new(source)),
        target: Some(Box::new(target)),
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: sends.then_some(0),
        max_message_size: (!sends).then_some(options.max_message_size.unwrap_or(MESSAGE_SIZE_MAX)),
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: options.producer.iter().map(|name| (PRODUCER, Value::String(name.clone()))).collect(),
    }
}

fn selector(text: &str) -> (Symbol, Value) {
    let value = Value::Described(Box::new((Value::Ulong(SELECTOR.1), Value::String(text.to_owned()))));
    (Symbol::constant(SELECTOR.0), value)
}

/// Filters of a reader of a stream. The offset is sent twice: newer servers recognise its
/// descriptor under any name, and those before RabbitMQ 4 recognise its name without a descriptor.
fn stream(filter: &StreamFilter) -> impl Iterator<Item = (Symbol, Value)> + use<> {
    const OFFSET: Symbol = Symbol::constant(OFFSET_FILTERS[0]);
    const PARTITION: Symbol = Symbol::constant("enmasse:stream-partition");
    let described = |name, value| Value::Described(Box::new((Value::Symbol(name), value)));
    let offset = match filter.offset {
        StreamOffset::First => Value::String("first".to_owned()),
        StreamOffset::Last => Value::String("last".to_owned()),
        StreamOffset::Next => Value::String("next".to_owned()),
        StreamOffset::Offset(offset) => Value::Ulong(offset),
        StreamOffset::Time(millis) => Value::Timestamp(millis),
    };
    let partition = filter.partition.map(|number| (PARTITION, described(PARTITION, Value::Uint(number))));
    let both = [(OFFSET, offset.clone()), (Symbol::constant(OFFSET_FILTERS[1]), described(OFFSET, offset))];
    both.into_iter().chain(partition)
}

#[cfg(test)]
mod tests {
    use enmasse_amqp::connection::{Incoming, LinkId};

    use super::{Event, Receiver};

    fn piece(id: u32, settled: bool) -> Incoming<'static> {
        Incoming {
            link: LinkId(0),
            delivery_id: id,
            first: true,
            more: false,
            aborted: false,
            settled,
            message_format: 0,
            payload: b"x",
            tag: b"",
            resume: false,
            state: None,
        }
    }

    fn number(event: Option<Event>) -> u64 {
        match event {
            Some(Event::Message { delivery, .. }) => delivery,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_are_numbered_from_zero_independent_of_delivery_ids() {
        let mut receiver = Receiver::default();
        assert_eq!(receiver.grant(5), 5);
        for (number_wanted, id) in [(0, 40), (1, 7), (2, 90)] {
            assert_eq!(number(receiver.receive(1, &piece(id, id == 7))), number_wanted);
        }
        assert_eq!(receiver.grant(1), 3);
        assert_eq!(receiver.settle(0, 1), [40]);
        assert_eq!(receiver.settle(0, 9), [90]);
        assert!(receiver.settle(0, 9).is_empty());
        assert_eq!(number(receiver.receive(1, &piece(91, false))), 3);
        assert_eq!(receiver.settle(3, 3), [91]);
    }

    #[test]
    fn outcome_out_of_order_is_remembered() {
        let mut receiver = Receiver::default();
        for id in 0..4 {
            receiver.receive(1, &piece(id, false));
        }
        assert_eq!(receiver.settle(2, 2), [2]);
        assert_eq!(receiver.settle(0, 3), [0, 1, 3]);
        assert_eq!((receiver.settled_up_to, receiver.unsettled.len()), (4, 0));
    }

    #[test]
    fn transfers_are_assembled_and_aborted_messages_are_dropped() {
        let mut receiver = Receiver::default();
        receiver.grant(3);
        assert_eq!(receiver.receive(1, &Incoming { more: true, payload: b"ab", ..piece(0, false) }), None);
        let last = Incoming { first: false, payload: b"cd", ..piece(0, false) };
        let Some(Event::Message { payload, .. }) = receiver.receive(1, &last) else { panic!("no message") };
        assert_eq!(payload, b"abcd");
        assert_eq!(receiver.receive(1, &Incoming { more: true, payload: b"ab", ..piece(1, false) }), None);
        assert_eq!(receiver.receive(1, &Incoming { first: false, aborted: true, ..piece(1, false) }), None);
        assert_eq!(number(receiver.receive(1, &piece(2, false))), 1);
        assert_eq!(receiver.grant(0), 0);
    }
}
