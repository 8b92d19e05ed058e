//! The tokens of a selector, and the letters of its identifiers.

use std::borrow::Cow;

/// The reserved words, case-insensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    And,
    Between,
    Escape,
    False,
    In,
    Is,
    Like,
    Not,
    Null,
    Or,
    True,
}

pub(super) const WORDS: [(&str, Word); 11] = [
    ("AND", Word::And),
    ("BETWEEN", Word::Between),
    ("ESCAPE", Word::Escape),
    ("FALSE", Word::False),
    ("IN", Word::In),
    ("IS", Word::Is),
    ("LIKE", Word::Like),
    ("NOT", Word::Not),
    ("NULL", Word::Null),
    ("OR", Word::Or),
    ("TRUE", Word::True),
];

/// A mark of one or two characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Open,
    Close,
    Comma,
    Dot,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Longer marks first, so that `<=` is not read as `<`.
pub(super) const MARKS: [(&str, Mark); 15] = [
    ("<>", Mark::NotEqual),
    ("!=", Mark::NotEqual),
    ("<=", Mark::LessOrEqual),
    (">=", Mark::GreaterOrEqual),
    ("<", Mark::Less),
    (">", Mark::Greater),
    ("=", Mark::Equal),
    ("(", Mark::Open),
    (")", Mark::Close),
    (",", Mark::Comma),
    ("+", Mark::Plus),
    ("-", Mark::Minus),
    ("*", Mark::Star),
    ("/", Mark::Slash),
    ("%", Mark::Percent),
];

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'t> {
    Word(Word),
    /// an identifier; in JMS selectors it may hold points
    Name(&'t str),
    /// an identifier in brackets, of SQL filters
    Delimited(String),
    Text(Cow<'t, str>),
    Binary(Box<[u8]>),
    Int(i64),
    /// 9223372036854775808, which is a long only after a minus
    IntMin,
    Float(f64),
    Mark(Mark),
    End,
}

/// Whether an identifier may begin with `letter` (`Character.isJavaIdentifierStart`).
pub(super) fn is_start(letter: char) -> bool {
    match letter {
        '_' | '$' => true,
        _ if letter.is_ascii() => letter.is_ascii_alphabetic(),
        // currency signs
        '\u{a2}'..='\u{a5}' | '\u{20a0}'..='\u{20cf}' => true,
        // connecting punctuation, like _
        '\u{203f}' | '\u{2040}' | '\u{2054}' | '\u{fe33}' | '\u{fe34}' | '\u{fe4d}'..='\u{fe4f}' | '\u{ff3f}' => true,
        _ => letter.is_alphabetic(),
    }
}

/// Whether `letter` may follow in an identifier (`Character.isJavaIdentifierPart`, for letters,
/// digits and common combining marks).
pub(super) fn is_part(letter: char) -> bool {
    match letter {
        _ if is_start(letter) => true,
        _ if letter.is_ascii() => letter.is_ascii_digit(),
        '\u{300}'..='\u{36f}' | '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' => true,
        _ => letter.is_numeric(),
    }
}
