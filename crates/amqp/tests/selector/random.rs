//! Any selector on any message: its result against the reference evaluator, and its text against
//! other texts of the same tree.

use enmasse_amqp::selector::{Dialect, Selector, Subject};
use enmasse_amqp::types::{Body, Header, Message, MessageId, Properties, Symbol, Value};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::plain::{Expr, Style, plain_like, truth};
use super::{compile, encoded, selects, with_properties};

const PROPERTIES: [&str; 8] = ["a", "b", "c", "$d", "_e", "größe", "inner", "notes"];
const OTHERS: [&str; 9] = [
    "x.y",
    "JMSDeliveryMode",
    "JMSPriority",
    "JMSMessageID",
    "JMSTimestamp",
    "JMSType",
    "JMSXGroupID",
    "JMSXGroupSeq",
    "JMSXDeliveryCount",
];
const TEXTS: [&str; 10] =
    ["", "a", "ab", "aba", "it's", "ü", "PERSISTENT", "NON_PERSISTENT", "ID:AMQP_ULONG:3", "ID:AMQP_NO_PREFIX:ab"];

fn name() -> BoxedStrategy<String> {
    let known: Vec<_> = PROPERTIES.into_iter().chain(OTHERS).collect();
    prop::sample::select(known).prop_map(str::to_owned).boxed()
}

fn text() -> BoxedStrategy<String> {
    prop_oneof![4 => prop::sample::select(&TEXTS[..]).prop_map(str::to_owned), 1 => "[ab%_ü']{0,6}"].boxed()
}

fn long() -> BoxedStrategy<i64> {
    prop_oneof![6 => -3..6_i64, 1 => any::<i64>(), 1 => Just(i64::MIN), 1 => Just(i64::MAX)].boxed()
}

fn double() -> BoxedStrategy<f64> {
    let finite = any::<f64>().prop_filter("a literal", |value| value.is_finite());
    prop_oneof![6 => (-6..12_i32).prop_map(|half| f64::from(half) / 2.0), 1 => finite].boxed()
}

fn number() -> BoxedStrategy<Expr> {
    let leaf = prop_oneof![long().prop_map(Expr::Long), double().prop_map(Expr::Double), name().prop_map(Expr::Name)];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let sign = (any::<bool>(), inner.clone()).prop_map(|(minus, inner)| Expr::Sign(minus, Box::new(inner)));
        let operator = prop::sample::select(vec!['+', '-', '*', '/']);
        let arithmetic = (operator, inner.clone(), inner)
            .prop_map(|(operator, left, right)| Expr::Arithmetic(operator, Box::new(left), Box::new(right)));
        prop_oneof![sign, arithmetic]
    })
    .boxed()
}

/// A pattern whose escape character is not its last.
fn pattern() -> BoxedStrategy<(String, Option<char>)> {
    let escape = option::of(prop::sample::select(vec!['!', '_', '%', 'a', '\'', 'ü']));
    ("[ab%_ü!]{0,6}", escape)
        .prop_map(|(pattern, escape)| (pattern + &escape.map_or_else(String::new, |e| format!("{e}{e}b")), escape))
        .prop_filter("a good pattern", |(pattern, escape)| {
            let mut letters = pattern.chars();
            while let Some(letter) = letters.next() {
                if Some(letter) == *escape && letters.next().is_none() {
                    return false;
                }
            }
            true
        })
        .boxed()
}

fn predicate() -> BoxedStrategy<Expr> {
    let order = prop::sample::select(vec!["=", "<>", "<", "<=", ">", ">="]);
    let same = prop::sample::select(vec!["=", "<>"]);
    let plain = prop_oneof![
        name().prop_map(Expr::Name),
        text().prop_map(Expr::Text),
        any::<bool>().prop_map(Expr::Bool),
        number(),
    ];
    let compare = |(operator, left, right)| Expr::Compare(operator, Box::new(left), Box::new(right));
    prop_oneof![
        (order, number(), number()).prop_map(compare),
        (same, plain.clone(), plain).prop_map(compare),
        (any::<bool>(), number(), number(), number()).prop_map(|(negated, value, low, high)| {
            Expr::Between(negated, Box::new(value), Box::new(low), Box::new(high))
        }),
        (any::<bool>(), name(), vec(text(), 1..4)).prop_map(|(negated, name, texts)| Expr::In(negated, name, texts)),
        (any::<bool>(), name(), pattern())
            .prop_map(|(negated, name, (pattern, escape))| Expr::Like(negated, name, pattern, escape)),
        (any::<bool>(), name()).prop_map(|(negated, name)| Expr::IsNull(negated, name)),
        any::<bool>().prop_map(Expr::Bool),
        name().prop_map(Expr::Name),
    ]
    .boxed()
}

fn condition() -> BoxedStrategy<Expr> {
    predicate()
        .prop_recursive(4, 24, 3, |inner| {
            let pair = (inner.clone(), inner.clone()).prop_map(|(left, right)| (Box::new(left), Box::new(right)));
            prop_oneof![
                2 => pair.clone().prop_map(|(left, right)| Expr::And(left, right)),
                2 => pair.clone().prop_map(|(left, right)| Expr::Or(left, right)),
                1 => inner.prop_map(|inner| Expr::Not(Box::new(inner))),
                1 => pair.prop_map(|(left, right)| Expr::Compare("=", left, right)),
            ]
        })
        .boxed()
}

fn value() -> BoxedStrategy<Value> {
    prop_oneof![
        1 => Just(Value::Null),
        3 => any::<bool>().prop_map(Value::Bool),
        1 => (0..4_u8).prop_map(Value::Ubyte),
        1 => (0..4_u16).prop_map(Value::Ushort),
        1 => (0..4_u32).prop_map(Value::Uint),
        1 => prop_oneof![0..4_u64, any::<u64>()].prop_map(Value::Ulong),
        1 => (-3..4_i8).prop_map(Value::Byte),
        1 => (-3..4_i16).prop_map(Value::Short),
        2 => prop_oneof![-3..4_i32, any::<i32>()].prop_map(Value::Int),
        2 => long().prop_map(Value::Long),
        1 => (-6..12_i8).prop_map(|half| Value::Float(f32::from(half) / 2.0)),
        2 => prop_oneof![double(), any::<f64>()].prop_map(Value::Double),
        1 => any::<char>().prop_map(Value::Char),
        1 => long().prop_map(Value::Timestamp),
        1 => any::<[u8; 16]>().prop_map(Value::Uuid),
        1 => vec(any::<u8>(), 0..4).prop_map(Value::Binary),
        6 => text().prop_map(Value::String),
        1 => "[ab]{0,3}".prop_map(|text| Value::Symbol(Symbol::from(text))),
    ]
    .boxed()
}

fn message() -> BoxedStrategy<Message> {
    let header = (any::<bool>(), 0..10_u8, 0..4_u32).prop_map(|(durable, priority, delivery_count)| Header {
        durable,
        priority,
        delivery_count,
        ..Header::default()
    });
    let id = prop_oneof![text().prop_map(MessageId::String), (0..5_u64).prop_map(MessageId::Ulong)];
    let id = id.prop_filter(
        "other prefixes are tested elsewhere",
        |id| !matches!(id, MessageId::String(text) if text.starts_with("ID:AMQP_")),
    );
    let properties = (option::of(id), option::of(text()), option::of(long()), option::of(text()), option::of(0..5_u32));
    let properties = properties.prop_map(|(message_id, subject, creation_time, group_id, group_sequence)| Properties {
        message_id,
        subject,
        creation_time,
        group_id,
        group_sequence,
        ..Properties::default()
    });
    let mut names = PROPERTIES.to_vec();
    names.push("x.y");
    let application = vec((prop::sample::select(names), value()), 0..8).prop_map(|pairs| {
        let mut distinct: Vec<(&str, Value)> = Vec::new();
        for (name, value) in pairs {
            if distinct.iter().all(|(known, _)| *known != name) {
                distinct.push((name, value));
            }
        }
        distinct
    });
    (option::of(header), option::of(properties), application)
        .prop_map(|(header, properties, application)| Message {
            header,
            properties,
            body: Body::Value(Value::Null),
            ..with_properties(&application)
        })
        .boxed()
}

fn written(expr: &Expr, parentheses: bool, seed: u64) -> String {
    expr.text(&mut Style { parentheses, seed })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// All three truth values are seen: of a condition and of its opposite.
    #[test]
    fn selector_agrees_with_the_reference_evaluator(expr in condition(), messages in vec(message(), 1..4), seed: u64) {
        let text = written(&expr, false, seed);
        for message in messages {
            let bytes = encoded(&message);
            let expected = truth(&expr, &message);
            let opposite = format!("NOT ({text})");
            prop_assert_eq!(selects(&text, Dialect::Jms, &bytes), expected == Some(true), "{}", text);
            prop_assert_eq!(selects(&opposite, Dialect::Jms, &bytes), expected == Some(false), "{}", opposite);
        }
    }

    /// Redundant parentheses, white space and the case of keywords change nothing: a text parses to
    /// the tree that it was written from.
    #[test]
    fn equivalent_texts_compile_to_the_same_selector(expr in condition(), seed: u64, other: u64) {
        let (bare, full) = (written(&expr, false, seed), written(&expr, true, other));
        prop_assert_eq!(compile(&bare, Dialect::Jms), compile(&full, Dialect::Jms), "{}\n{}", bare, full);
    }

    /// A selector on application properties has the same result in both languages.
    #[test]
    fn jms_selector_gives_the_same_result_as_an_sql_filter(expr in condition(), message in message(), seed: u64) {
        let text = written(&expr, false, seed);
        if !OTHERS.iter().any(|name| text.contains(name)) {
            let bytes = encoded(&message);
            prop_assert_eq!(
                selects(&text, Dialect::Jms, &bytes),
                selects(&text, Dialect::AmqpSql, &bytes),
                "{}", text
            );
        }
    }

    #[test]
    fn like_patterns_agree_with_the_reference_matcher(pattern in pattern(), text in "[abü%_!]{0,9}") {
        let (pattern, escape) = pattern;
        let expr = Expr::Like(false, "a".to_owned(), pattern.clone(), escape);
        let message = encoded(&with_properties(&[("a", Value::String(text.clone()))]));
        let found = selects(&written(&expr, false, 0), Dialect::Jms, &message);
        prop_assert_eq!(found, plain_like(&pattern, escape, &text), "{} {:?} {}", pattern, escape, text);
    }

    /// A character more or less: an error within the text, or another selector, and no panic.
    #[test]
    fn text_with_a_changed_character_compiles_or_is_an_error(expr in condition(), seed: u64, at: prop::sample::Index, put: char) {
        let text = written(&expr, false, seed);
        let mut letters: Vec<char> = text.chars().collect();
        let at = at.index(letters.len());
        letters[at] = put;
        let replaced: String = letters.iter().collect();
        letters.remove(at);
        let removed: String = letters.iter().collect();
        for (text, dialect) in [(&replaced, Dialect::Jms), (&removed, Dialect::Jms), (&replaced, Dialect::AmqpSql)] {
            if let Err(error) = Selector::compile(text, dialect) {
                prop_assert!(error.offset <= text.len() && error.line > 0 && error.column > 0, "{error:?}");
            }
        }
    }

    /// A selector has the same result on a message that is truncated within its body.
    #[test]
    fn truncated_body_does_not_change_the_result(expr in condition(), message in message(), seed: u64) {
        let selector = compile(&written(&expr, false, seed), Dialect::Jms).unwrap();
        let bytes = encoded(&message);
        let body = bytes.len() - 4;
        for end in body..bytes.len() {
            if end == body || end == bytes.len() - 1 {
                prop_assert_eq!(
                    selector.selects(&Subject::new(&bytes[..end])),
                    selector.selects(&Subject::new(&bytes))
                );
            }
        }
    }
}
