//! Message selectors: JMS 2.0 section 3.8.1 whole, and the SQL filters of AMQP Filter Expressions
//! 1.0 (committee draft 01, section 6) as far as clients use them. Both are compiled once, and
//! evaluated over encoded messages.
//!
//! ```
//! use enmasse_amqp::selector::{Dialect, Selector, Subject};
//!
//! let selector = Selector::compile("color = 'red' AND weight > 2500", Dialect::Jms)?.expect("not blank");
//! let message = b"\x00\x53\x74\xc1\x17\x04\xa1\x05color\xa1\x03red\xa1\x06weight\x54\x7f";
//! assert!(!selector.selects(&Subject::new(message)));
//! # Ok::<_, enmasse_amqp::selector::SelectorError>(())
//! ```
//!
//! `lexer` (with `number`) gives tokens, `parser` compiles them by recursive descent into a
//! `program`, without a tree; `names` resolves identifiers, `subject` reads their values from a
//! message, `value` and `like` hold the operators. `filters` finds selectors among the filters of a
//! source.
//!
//! Where the specifications leave a choice:
//!
//! - Exact numbers are longs, never ints; a ulong beyond long is a double. Long overflow wraps, a
//!   long divided by zero is unknown. These are Java's promotions but for the 32-bit overflow.
//! - Values of unlike types compare as false, with `<>` too; LIKE and IN of a value that is no
//!   string are false as well.
//! - A value that is no boolean is unknown as an operand of AND, OR and NOT; arithmetic on a value
//!   that is no number is unknown.
//! - A selector that is wrong for every message is an error: `'a' < 'b'`, `weight IN (1, 2)`,
//!   `JMSReplyTo`.
//! - Names with points (`a.b`) are application properties in JMS selectors; `amqp.subject` and the
//!   like are the fields of header and properties, as the definition of
//!   `apache.org:selector-filter:string` writes them.
//! - SQL filters: strings have an order and keywords are case-insensitive. The only function is
//!   `UTC()`. Delivery-annotations, the footer and elements of lists or maps cannot be read.

mod error;
mod filters;
mod lexer;
mod like;
mod names;
mod number;
mod parser;
mod program;
mod subject;
mod token;
mod value;

pub use error::SelectorError;
pub use filters::{FilterError, FilterFault, Filters};
pub use subject::Subject;

use names::{DELIVERY_COUNT, FieldSource};
use program::Program;

/// Bytes of the text of a selector. RabbitMQ has 4,096 characters; lists of accounts after IN are
/// longer.
pub const TEXT_MAX_BYTES: usize = 32 * 1024;

/// How deep parentheses, NOT and signs may nest.
pub const NESTING_MAX: usize = 64;

/// Different identifiers in one selector.
pub const IDENTIFIERS_MAX: usize = 64;

/// Operations of a compiled selector: about one for each operator. All strings after IN count as
/// one.
pub const OPERATIONS_MAX: usize = 4096;

/// The language of a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// JMS 2.0, 3.8.1: `apache.org:selector-filter:string`
    Jms,
    /// AMQP Filter Expressions 1.0, 6: `amqp:sql-filter`
    AmqpSql,
}

/// A compiled selector.
///
/// Bounds: takes memory in proportion to its text, at most [`TEXT_MAX_BYTES`]. An evaluation takes
/// at most [`OPERATIONS_MAX`] steps, each in time linear in its operands, and allocates only for
/// operands that nest beyond eight, for ids that are no strings and for decimals.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    program: Program,
}

impl Selector {
    /// Compiles a selector. `None`: the text is blank, which selects every message (JMS 2.0,
    /// 3.8.1).
    ///
    /// # Errors
    /// [`SelectorError`] with the place and the remedy, also for a text beyond the bounds of this
    /// module.
    pub fn compile(text: &str, dialect: Dialect) -> Result<Option<Self>, SelectorError> {
        let program = parser::parse(text, dialect).map_err(|problem| problem.within(text))?;
        Ok(program.map(|program| Self { program }))
    }

    /// Whether the selector is true of the message, neither false nor unknown. A message whose
    /// needed sections are malformed is not selected.
    #[must_use]
    pub fn selects(&self, subject: &Subject<'_>) -> bool {
        self.program.matches(subject)
    }

    /// Whether the result for one message can change over time, because the selector names the
    /// delivery count or the time. If not, a queue may cache the result.
    #[must_use]
    pub fn varies(&self) -> bool {
        let counts = |place: &FieldSource| *place == FieldSource::Header(DELIVERY_COUNT);
        self.program.now || self.program.fields.iter().any(|field| counts(&field.place))
    }
}
