//! Texts and messages that are crafted to exhaust time, memory or the stack.

use enmasse_amqp::selector::{
    Dialect, IDENTIFIERS_MAX, NESTING_MAX, OPERATIONS_MAX, Selector, Subject, TEXT_MAX_BYTES,
};
use enmasse_amqp::types::Value;

use super::{compile, encoded, selects, with_properties};

fn error(text: &str) -> String {
    Selector::compile(text, Dialect::Jms).expect_err("too much").to_string()
}

#[test]
fn selector_text_above_the_limit_is_refused() {
    let text = "(".repeat(1 << 20);
    assert_eq!(
        error(&text),
        format!("selector, line 1, column 1: the text has 1048576 bytes; write at most {TEXT_MAX_BYTES}")
    );
    assert!(error(&"a".repeat(TEXT_MAX_BYTES + 1)).contains("bytes"));
    assert!(compile(&"a".repeat(TEXT_MAX_BYTES), Dialect::Jms).is_ok());
}

#[test]
fn nesting_is_bounded() {
    for (open, inner, close) in [("(", "a", ")"), ("NOT ", "a", ""), ("-", "a = 1", ""), ("NOT (", "a", ")")] {
        let levels = NESTING_MAX / open.matches(['(', 'N', '-']).count();
        let text = |levels: usize| format!("{}{inner}{}", open.repeat(levels), close.repeat(levels));
        assert!(compile(&text(levels), Dialect::Jms).is_ok(), "{open}");
        assert!(error(&text(levels + 1)).contains("nests deeper"), "{open}");
        let fill = (TEXT_MAX_BYTES - inner.len()) / (open.len() + close.len());
        assert!(error(&text(fill)).contains("nests deeper"), "{open}");
    }
}

/// Deep on the right, so that every level leaves an operand on the stack.
#[test]
fn deep_expressions_are_evaluated() {
    let levels = NESTING_MAX;
    let text = format!("a = {}1{}", "1 + (a * (".repeat(levels / 2), "))".repeat(levels / 2));
    let message = encoded(&with_properties(&[("a", Value::Long(1))]));
    assert!(!selects(&text, Dialect::Jms, &message));
    assert!(selects(&text.replacen("a =", "33 =", 1), Dialect::Jms, &message));
}

#[test]
fn long_chains_need_no_stack() {
    let message = encoded(&with_properties(&[("a", Value::Long(1))]));
    let sum = format!("a{} = {}", "+1".repeat(4000), 4001);
    assert!(selects(&sum, Dialect::Jms, &message));
    let or = format!("{}a = 1", "a=2 OR ".repeat(1300));
    assert!(selects(&or, Dialect::Jms, &message));
    let and = format!("{}a = 1", "a=1 AND ".repeat(1300));
    assert!(selects(&and, Dialect::Jms, &message));
}

#[test]
fn operations_and_identifiers_of_a_selector_are_bounded() {
    assert!(error(&format!("a{}", " OR a".repeat(OPERATIONS_MAX))).contains("operations"));
    let names = |count: usize| (0..count).map(|number| format!("n{number}")).collect::<Vec<_>>().join(" OR ");
    assert!(compile(&names(IDENTIFIERS_MAX), Dialect::Jms).is_ok());
    assert!(error(&names(IDENTIFIERS_MAX + 1)).contains("too many fields"));
    assert!(compile(&format!("a{}", " OR a".repeat(1000)), Dialect::Jms).is_ok(), "one name, many times");
}

#[test]
fn selector_with_the_maximum_of_identifiers_is_evaluated() {
    let values: Vec<_> = (0..IDENTIFIERS_MAX).map(|number| (format!("n{number}"), Value::Int(number as i32))).collect();
    let reversed: Vec<_> = values.iter().rev().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let message = encoded(&with_properties(&reversed));
    let all: Vec<_> = (0..IDENTIFIERS_MAX).map(|number| format!("n{number} = {number}")).collect();
    assert!(selects(&all.join(" AND "), Dialect::Jms, &message));
}

/// Patterns that take exponential time in a backtracking matcher. Without linear matching the test
/// would not end.
#[test]
fn patterns_take_linear_time() {
    let text = "a".repeat(1 << 20);
    let message = encoded(&with_properties(&[("x", Value::String(text))]));
    for pattern in
        ["%a".repeat(2000) + "b", "%_a".repeat(2000) + "b", format!("%{}b%", "_a".repeat(31)), "_%".repeat(3000)]
    {
        let expected = pattern.starts_with("_%");
        assert_eq!(selects(&format!("x LIKE '{pattern}'"), Dialect::Jms, &message), expected, "{pattern:.20}");
    }
    let long = format!("x LIKE '%{}%'", "_a".repeat(40));
    assert!(error(&long).contains("between two %"), "{}", error(&long));
    assert!(
        !selects(&format!("x LIKE '{}'", "_a".repeat(4000)), Dialect::Jms, &message),
        "anchored parts have no bound"
    );
}

#[test]
fn message_properties_are_scanned_once() {
    let names: Vec<_> = (0..20_000).map(|number| format!("name-{number}")).collect();
    let properties: Vec<_> = names.iter().map(|name| (name.as_str(), Value::Int(1))).collect();
    let message = encoded(&with_properties(&properties));
    let selector = compile("absent IS NULL AND other IS NULL", Dialect::Jms).unwrap();
    let subject = Subject::new(&message);
    for _ in 0..100 {
        assert!(selector.selects(&subject));
    }
}

#[test]
fn selector_errors_are_short_and_printable() {
    for text in ["\u{0}", "a = \u{202e}", &format!("a = 1 {}", "x".repeat(30_000)), "a = 'open", "\u{1f427}"] {
        let error = error(text);
        assert!(error.len() < 250, "{error}");
        assert!(!error.contains(['\u{0}', '\u{202e}']), "{error}");
    }
    assert!(error(&format!("a = {}", "9".repeat(30_000))).contains("999.."));
}

#[test]
fn selector_errors_name_the_position_and_the_remedy() {
    for (text, place, remedy) in [
        ("color = red AND", "column 16", "expected a name"),
        ("a = 1\nAND b = \"red\"", "line 2, column 9", "single quotes"),
        ("ü = 'ü' && b", "column 9", "write AND"),
        ("weight IN (1, 2)", "column 12", "write = and OR"),
        ("a != 1", "column 3", "write <>"),
        ("a = NULL", "column 5", "IS NULL"),
        ("JMSReplyTo = 'a'", "column 1", "JMSCorrelationID"),
        ("name < 'b'", "column 8", "= or <>"),
        ("a = 1 = 2", "column 7", "parentheses"),
        ("a LIKE 'b' ESCAPE 'cd'", "column 12", "one character"),
        ("a = 1 b = 2", "column 7", "AND or OR"),
    ] {
        let error = error(text);
        assert!(error.contains(place) && error.contains(remedy), "{text}: {error}");
    }
}
