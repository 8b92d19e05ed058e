//! Any value, performative, SASL frame and message, for property tests.

use enmasse_amqp::types::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub(crate) fn text() -> BoxedStrategy<String> {
    prop_oneof![8 => "[a-zA-Z0-9/._-]{0,12}", 2 => "\\PC{0,8}", 1 => Just("é".repeat(150)), 1 => Just("y".repeat(255))]
        .boxed()
}

pub(crate) fn symbol() -> BoxedStrategy<Symbol> {
    prop_oneof![9 => "[ -~]{0,12}", 1 => Just("s".repeat(256))].prop_map(Symbol::from).boxed()
}

pub(crate) fn bytes() -> BoxedStrategy<Vec<u8>> {
    prop_oneof![9 => vec(any::<u8>(), 0..20), 1 => vec(any::<u8>(), 250..300)].boxed()
}

/// Numbers near the limits of the encodings more often than elsewhere.
pub(crate) fn uint() -> BoxedStrategy<u32> {
    prop_oneof![Just(0), 1..4_u32, 254..258_u32, Just(u32::MAX), any::<u32>()].boxed()
}

pub(crate) fn ulong() -> BoxedStrategy<u64> {
    prop_oneof![Just(0), 1..4_u64, 254..258_u64, Just(u64::MAX), any::<u64>()].boxed()
}

/// Every primitive. Floats are numbers: the equality of NaN is tested elsewhere.
fn primitive() -> BoxedStrategy<Value> {
    let number = any::<f64>().prop_filter("a number", |value| !value.is_nan());
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<u8>().prop_map(Value::Ubyte),
        any::<u16>().prop_map(Value::Ushort),
        uint().prop_map(Value::Uint),
        ulong().prop_map(Value::Ulong),
        any::<i8>().prop_map(Value::Byte),
        any::<i16>().prop_map(Value::Short),
        prop_oneof![-130..130_i32, any::<i32>()].prop_map(Value::Int),
        prop_oneof![-130..130_i64, any::<i64>()].prop_map(Value::Long),
        number.clone().prop_map(|value| Value::Float(value as f32)),
        number.prop_map(Value::Double),
        any::<[u8; 4]>().prop_map(Value::Decimal32),
        any::<[u8; 8]>().prop_map(Value::Decimal64),
        any::<[u8; 16]>().prop_map(Value::Decimal128),
        any::<char>().prop_map(Value::Char),
        any::<i64>().prop_map(Value::Timestamp),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        bytes().prop_map(Value::Binary),
        text().prop_map(Value::String),
        symbol().prop_map(Value::Symbol),
    ]
    .boxed()
}

/// Elements of one type, as an array needs them.
fn array() -> BoxedStrategy<Value> {
    prop_oneof![
        vec(any::<bool>().prop_map(Value::Bool), 0..6),
        vec(uint().prop_map(Value::Uint), 0..6),
        vec(any::<i64>().prop_map(Value::Long), 0..6),
        vec(text().prop_map(Value::String), 0..6),
        vec(symbol().prop_map(Value::Symbol), 0..300),
        vec(Just(Value::Null), 0..16),
        vec(vec(primitive(), 0..3).prop_map(Value::List), 0..4),
        vec(vec(uint().prop_map(Value::Uint), 0..4).prop_map(Value::Array), 0..4),
        vec(ulong().prop_map(|value| described(Value::Ulong(7), Value::Ulong(value))), 0..4),
    ]
    .prop_map(Value::Array)
    .boxed()
}

fn described(descriptor: Value, value: Value) -> Value {
    Value::Described(Box::new((descriptor, value)))
}

pub(crate) fn value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![8 => primitive(), 1 => array()];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::List),
            vec((inner.clone(), inner.clone()), 0..4).prop_map(|map| Value::Map(distinct(map))),
            (prop_oneof![ulong().prop_map(Value::Ulong), symbol().prop_map(Value::Symbol)], inner)
                .prop_map(|(descriptor, value)| described(descriptor, value)),
        ]
    })
    .boxed()
}

pub(crate) fn fields() -> BoxedStrategy<Fields> {
    prop_oneof![2 => Just(Fields::new()), 1 => vec((symbol(), value()), 1..4).prop_map(distinct)].boxed()
}

/// A map has no key twice (1.6.23).
fn distinct<K: PartialEq>(map: Vec<(K, Value)>) -> Vec<(K, Value)> {
    map.into_iter().fold(Vec::new(), |mut map, entry| {
        if map.iter().all(|(key, _)| *key != entry.0) {
            map.push(entry);
        }
        map
    })
}

fn symbols() -> BoxedStrategy<Vec<Symbol>> {
    prop_oneof![2 => Just(Vec::new()), 1 => vec(symbol(), 1..4)].boxed()
}

pub(crate) fn error() -> BoxedStrategy<Error> {
    (symbol(), option::of(text()), fields())
        .prop_map(|(condition, description, info)| Error { condition, description, info })
        .boxed()
}

pub(crate) fn outcome() -> BoxedStrategy<Outcome> {
    let modified =
        (any::<bool>(), any::<bool>(), fields()).prop_map(|(delivery_failed, undeliverable_here, fields)| {
            Outcome::Modified(Box::new(Modified { delivery_failed, undeliverable_here, message_annotations: fields }))
        });
    prop_oneof![
        Just(Outcome::Accepted),
        option::of(error()).prop_map(|error| Outcome::Rejected(error.map(Box::new))),
        Just(Outcome::Released),
        modified,
    ]
    .boxed()
}

pub(crate) fn state() -> BoxedStrategy<DeliveryState> {
    prop_oneof![
        (uint(), ulong()).prop_map(|(section_number, section_offset)| DeliveryState::Received(Received {
            section_number,
            section_offset
        })),
        outcome().prop_map(DeliveryState::Outcome),
        bytes().prop_map(|txn_id| DeliveryState::Declared(Declared { txn_id })),
        (bytes(), option::of(outcome())).prop_map(|(txn_id, outcome)| DeliveryState::Transactional(Box::new(
            TransactionalState { txn_id, outcome }
        ))),
    ]
    .boxed()
}

fn durability() -> BoxedStrategy<TerminusDurability> {
    prop_oneof![
        Just(TerminusDurability::None),
        Just(TerminusDurability::Configuration),
        Just(TerminusDurability::UnsettledState)
    ]
    .boxed()
}

fn expiry_policy() -> BoxedStrategy<TerminusExpiryPolicy> {
    prop_oneof![
        Just(TerminusExpiryPolicy::LinkDetach),
        Just(TerminusExpiryPolicy::SessionEnd),
        Just(TerminusExpiryPolicy::ConnectionClose),
        Just(TerminusExpiryPolicy::Never)
    ]
    .boxed()
}

fn source() -> BoxedStrategy<Source> {
    let head = (option::of(text()), durability(), expiry_policy(), uint(), any::<bool>(), fields());
    let mode = prop_oneof!["move", "copy"].prop_map(Symbol::from);
    let tail = (option::of(mode), fields(), option::of(outcome()), symbols(), symbols());
    (head, tail)
        .prop_map(|(head, tail)| Source {
            address: head.0,
            durable: head.1,
            expiry_policy: head.2,
            timeout_s: head.3,
            dynamic: head.4,
            dynamic_node_properties: head.5,
            distribution_mode: tail.0,
            filter: tail.1,
            default_outcome: tail.2,
            outcomes: tail.3,
            capabilities: tail.4,
        })
        .boxed()
}

fn target() -> BoxedStrategy<Target> {
    let node = (option::of(text()), durability(), expiry_policy(), uint(), any::<bool>(), fields(), symbols());
    let transactions = prop_oneof!["amqp:local-transactions", "amqp:multi-txns-per-ssn"];
    prop_oneof![
        4 => node.prop_map(|node| Target::Node {
            address: node.0,
            durable: node.1,
            expiry_policy: node.2,
            timeout_s: node.3,
            dynamic: node.4,
            dynamic_node_properties: node.5,
            capabilities: node.6,
        }),
        1 => vec(transactions.prop_map(Symbol::from), 0..3)
            .prop_map(|capabilities| Target::Coordinator(Coordinator { capabilities })),
    ]
    .boxed()
}

fn open() -> BoxedStrategy<Performative> {
    let head = (text(), option::of(text()), uint(), any::<u16>(), option::of(uint()));
    let tail = (symbols(), symbols(), symbols(), symbols(), fields());
    (head, tail)
        .prop_map(|(head, tail)| {
            Performative::Open(Box::new(Open {
                container_id: head.0,
                hostname: head.1,
                max_frame_size: head.2,
                channel_max: head.3,
                idle_time_out: head.4,
                outgoing_locales: tail.0,
                incoming_locales: tail.1,
                offered_capabilities: tail.2,
                desired_capabilities: tail.3,
                properties: tail.4,
            }))
        })
        .boxed()
}

fn begin() -> BoxedStrategy<Performative> {
    (option::of(any::<u16>()), uint(), uint(), uint(), uint(), symbols(), symbols(), fields())
        .prop_map(|begin| {
            Performative::Begin(Box::new(Begin {
                remote_channel: begin.0,
                next_outgoing_id: begin.1,
                incoming_window: begin.2,
                outgoing_window: begin.3,
                handle_max: begin.4,
                offered_capabilities: begin.5,
                desired_capabilities: begin.6,
                properties: begin.7,
            }))
        })
        .boxed()
}

fn attach() -> BoxedStrategy<Performative> {
    let snd_settle_mode =
        prop_oneof![Just(SenderSettleMode::Unsettled), Just(SenderSettleMode::Settled), Just(SenderSettleMode::Mixed)];
    let unsettled = vec((vec(any::<u8>(), 0..33), option::of(state())), 0..3);
    let head = (text(), uint(), any::<bool>(), snd_settle_mode, rcv_settle_mode(), option::of(source()));
    let tail = (option::of(target()), option::of(unsettled), any::<bool>(), option::of(ulong()), symbols(), fields());
    (head, tail, uint())
        .prop_map(|(head, tail, initial_delivery_count)| {
            Performative::Attach(Box::new(Attach {
                name: head.0,
                handle: head.1,
                role: role(head.2),
                snd_settle_mode: head.3,
                rcv_settle_mode: head.4,
                source: head.5.map(Box::new),
                target: tail.0.map(Box::new),
                unsettled: tail.1,
                incomplete_unsettled: tail.2,
                initial_delivery_count: (!head.2).then_some(initial_delivery_count),
                max_message_size: tail.3,
                offered_capabilities: tail.4.clone(),
                desired_capabilities: tail.4,
                properties: tail.5,
            }))
        })
        .boxed()
}

fn role(receiver: bool) -> Role {
    if receiver { Role::Receiver } else { Role::Sender }
}

fn rcv_settle_mode() -> BoxedStrategy<ReceiverSettleMode> {
    prop_oneof![Just(ReceiverSettleMode::First), Just(ReceiverSettleMode::Second)].boxed()
}

pub(crate) fn flow() -> BoxedStrategy<Flow> {
    let session = (option::of(uint()), uint(), uint(), uint());
    let link = (option::of(uint()), option::of(uint()), option::of(uint()), option::of(uint()));
    (session, link, any::<bool>(), any::<bool>(), fields())
        .prop_map(|(session, link, drain, echo, properties)| Flow {
            next_incoming_id: session.0,
            incoming_window: session.1,
            next_outgoing_id: session.2,
            outgoing_window: session.3,
            handle: link.0,
            delivery_count: link.1,
            link_credit: link.2,
            available: link.3,
            drain,
            echo,
            properties,
        })
        .boxed()
}

pub(crate) fn transfer() -> BoxedStrategy<Transfer> {
    let head = (uint(), option::of(uint()), option::of(vec(any::<u8>(), 0..33)), option::of(uint()));
    let flags = (option::of(any::<bool>()), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (head, flags, option::of(rcv_settle_mode()), option::of(state()))
        .prop_map(|(head, flags, rcv_settle_mode, state)| Transfer {
            handle: head.0,
            delivery_id: head.1,
            delivery_tag: head.2,
            message_format: head.3,
            settled: flags.0,
            more: flags.1,
            rcv_settle_mode,
            state,
            resume: flags.2,
            aborted: flags.3,
            batchable: flags.4,
        })
        .boxed()
}

pub(crate) fn disposition() -> BoxedStrategy<Disposition> {
    (any::<bool>(), uint(), option::of(uint()), any::<bool>(), option::of(state()), any::<bool>())
        .prop_map(|(receiver, first, last, settled, state, batchable)| Disposition {
            role: role(receiver),
            first,
            last,
            settled,
            state,
            batchable,
        })
        .boxed()
}

pub(crate) fn performative() -> BoxedStrategy<Performative> {
    let closing = option::of(error());
    prop_oneof![
        open(),
        begin(),
        attach(),
        flow().prop_map(Performative::Flow),
        transfer().prop_map(|transfer| Performative::Transfer(Box::new(transfer))),
        disposition().prop_map(Performative::Disposition),
        (uint(), any::<bool>(), closing.clone()).prop_map(|(handle, closed, error)| Performative::Detach(Detach {
            handle,
            closed,
            error
        })),
        closing.clone().prop_map(|error| Performative::End(End { error })),
        closing.prop_map(|error| Performative::Close(Close { error })),
    ]
    .boxed()
}

pub(crate) fn sasl_frame() -> BoxedStrategy<SaslFrame> {
    let code = prop_oneof![
        Just(SaslCode::Ok),
        Just(SaslCode::Auth),
        Just(SaslCode::Sys),
        Just(SaslCode::SysPerm),
        Just(SaslCode::SysTemp)
    ];
    prop_oneof![
        vec(symbol(), 1..4).prop_map(SaslFrame::Mechanisms),
        (symbol(), option::of(bytes()), option::of(text())).prop_map(|(mechanism, initial_response, hostname)| {
            SaslFrame::Init(SaslInit { mechanism, initial_response, hostname })
        }),
        bytes().prop_map(SaslFrame::Challenge),
        bytes().prop_map(|bytes| SaslFrame::Response(SaslResponse(bytes))),
        (code, option::of(bytes()))
            .prop_map(|(code, additional_data)| SaslFrame::Outcome(SaslOutcome { code, additional_data })),
    ]
    .boxed()
}

fn message_id() -> BoxedStrategy<MessageId> {
    prop_oneof![
        ulong().prop_map(MessageId::Ulong),
        any::<[u8; 16]>().prop_map(MessageId::Uuid),
        bytes().prop_map(MessageId::Binary),
        text().prop_map(MessageId::String),
    ]
    .boxed()
}

fn properties() -> BoxedStrategy<Properties> {
    let ids = (option::of(message_id()), option::of(bytes()), option::of(text()), option::of(text()));
    let replies = (option::of(text()), option::of(message_id()), option::of(symbol()), option::of(symbol()));
    let times = (option::of(any::<i64>()), option::of(any::<i64>()));
    let groups = (option::of(text()), option::of(uint()), option::of(text()));
    (ids, replies, times, groups)
        .prop_map(|(ids, replies, times, groups)| Properties {
            message_id: ids.0,
            user_id: ids.1,
            to: ids.2,
            subject: ids.3,
            reply_to: replies.0,
            correlation_id: replies.1,
            content_type: replies.2,
            content_encoding: replies.3,
            absolute_expiry_time: times.0,
            creation_time: times.1,
            group_id: groups.0,
            group_sequence: groups.1,
            reply_to_group_id: groups.2,
        })
        .boxed()
}

pub(crate) fn message() -> BoxedStrategy<Message> {
    let header = (any::<bool>(), any::<u8>(), option::of(uint()), any::<bool>(), uint()).prop_map(|header| Header {
        durable: header.0,
        priority: header.1,
        ttl: header.2,
        first_acquirer: header.3,
        delivery_count: header.4,
    });
    let body = prop_oneof![
        Just(Body::Empty),
        vec(bytes(), 1..4).prop_map(Body::Data),
        vec(vec(value(), 0..4), 1..4).prop_map(Body::Sequence),
        value().prop_map(Body::Value),
    ];
    let annotations = (fields(), fields(), fields());
    (
        option::of(header),
        annotations,
        option::of(properties()),
        vec((text(), primitive()), 0..3).prop_map(distinct),
        body,
    )
        .prop_map(|(header, annotations, properties, application_properties, body)| Message {
            header,
            delivery_annotations: annotations.0,
            message_annotations: annotations.1,
            properties,
            application_properties,
            body,
            footer: annotations.2,
        })
        .boxed()
}
