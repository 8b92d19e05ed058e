//! Selectors against the sentences of JMS 2.0 section 3.8.1, against a second, plain evaluator, and
//! against hostile text and messages.

mod filters;
mod fuzz;
mod hostile;
mod jms;
mod messages;
mod plain;
mod random;
mod sql;

use enmasse_amqp::codec::encode_message;
use enmasse_amqp::selector::{Dialect, Selector, SelectorError, Subject};
use enmasse_amqp::types::{Message, Value};

fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_message(&mut bytes, message);
    bytes
}

/// A message with nothing but application properties.
fn with_properties(properties: &[(&str, Value)]) -> Message {
    let properties = properties.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    Message { application_properties: properties.collect(), ..Message::default() }
}

fn compile(text: &str, dialect: Dialect) -> Result<Selector, SelectorError> {
    Selector::compile(text, dialect).map(|selector| selector.expect("not blank"))
}

fn selects(text: &str, dialect: Dialect, message: &[u8]) -> bool {
    compile(text, dialect).unwrap_or_else(|error| panic!("{text}: {error}")).selects(&Subject::new(message))
}

/// The expected result of a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Yes,
    /// false
    No,
    /// neither true nor false
    Unknown,
    Error,
}

/// Checks the selector and its negation, which distinguishes unknown from false.
fn check(text: &str, dialect: Dialect, message: &[u8], expected: Outcome) {
    let found = match compile(text, dialect) {
        Err(_) => Outcome::Error,
        Ok(selector) => {
            let yes = selector.selects(&Subject::new(message));
            let no = selects(&format!("NOT ({text}\n)"), dialect, message);
            match (yes, no) {
                (true, false) => Outcome::Yes,
                (false, true) => Outcome::No,
                (false, false) => Outcome::Unknown,
                (true, true) => panic!("{text}: true and false"),
            }
        }
    };
    assert_eq!(found, expected, "{text}");
}
