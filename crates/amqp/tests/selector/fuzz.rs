//! Fuzz targets: any text as a selector, any bytes as a message, and both.

use bolero::check;
use enmasse_amqp::codec::decode_message;
use enmasse_amqp::selector::{Dialect, Selector, Subject};

/// Text composed of tokens of selectors: random bytes seldom form a second token.
fn of_tokens(input: &[u8]) -> String {
    const TOKENS: [&str; 40] = [
        "a",
        "b",
        "JMSType",
        "JMSMessageID",
        "p.subject",
        "h.priority",
        "[c d]",
        "m.x",
        "'a'",
        "'it''s'",
        "'%_'",
        "1",
        "0x10",
        "1.5",
        ".5E3",
        "9223372036854775808",
        "TRUE",
        "FALSE",
        "NULL",
        "AND",
        "OR",
        "NOT",
        "IN",
        "IS",
        "LIKE",
        "ESCAPE",
        "BETWEEN",
        "(",
        ")",
        ",",
        "+",
        "-",
        "*",
        "/",
        "%",
        "=",
        "<>",
        "<=",
        "UTC()",
        "\"q\"",
    ];
    input.iter().map(|byte| TOKENS[usize::from(*byte) % TOKENS.len()]).collect::<Vec<_>>().join(" ")
}

#[test]
fn texts() {
    check!().for_each(|input: &[u8]| {
        for text in [String::from_utf8_lossy(input).into_owned(), of_tokens(input)] {
            for dialect in [Dialect::Jms, Dialect::AmqpSql] {
                match Selector::compile(&text, dialect) {
                    Ok(Some(selector)) => drop(selector.selects(&Subject::new(&[]))),
                    Ok(None) => assert!(text.trim_ascii().is_empty()),
                    Err(error) => assert!(text.get(error.offset..).is_some(), "{error:?} of {text:?}"),
                }
            }
        }
    });
}

#[test]
fn messages() {
    let selectors = [
        "a = 1",
        "NOT (a = 1)",
        "a IS NULL OR JMSMessageID = 'ID:1' OR JMSCorrelationID LIKE 'ID:%'",
        "JMSXUserID = 'joe' OR JMSTimestamp > 0 AND JMSXGroupSeq < 5",
    ];
    let selectors = selectors.map(|text| Selector::compile(text, Dialect::Jms).unwrap().unwrap());
    check!().for_each(|input: &[u8]| {
        for code in [None, Some(0x70), Some(0x72), Some(0x73), Some(0x74)] {
            let head = code.map_or(vec![], |code| vec![0x00, 0x53, code]);
            let message = [head, input.to_vec()].concat();
            let subject = Subject::new(&message);
            let answers: Vec<_> = selectors.iter().map(|selector| selector.selects(&subject)).collect();
            assert!(!(answers[0] && answers[1]));
            // A message that the full decoder accepts is readable for a selector.
            if decode_message(&message).is_ok() {
                let total = Selector::compile("a IS NULL OR a IS NOT NULL", Dialect::Jms).unwrap().unwrap();
                assert!(total.selects(&subject), "{message:02x?}");
            }
        }
    });
}
