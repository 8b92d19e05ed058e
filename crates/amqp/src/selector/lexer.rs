//! The text of a selector as tokens (JMS 2.0, 3.8.1.1), one at a time, without a copy unless the
//! text has escapes.

use std::borrow::Cow;

use super::Dialect;
use super::error::{Problem, quote};
use super::number::number;
use super::token::{MARKS, Mark, Token, WORDS, is_part, is_start};

/// Splits a text into tokens.
#[derive(Debug)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
    dialect: Dialect,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str, dialect: Dialect) -> Self {
        Self { text, at: 0, dialect }
    }

    /// Where the text is read next.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The next token and its position; [`Token::End`] on every call at the end.
    pub(super) fn next(&mut self) -> Result<(Token<'t>, usize), Problem> {
        let rest = self.text[self.at..].trim_start_matches([' ', '\t', '\x0c', '\r', '\n']);
        let start = self.text.len() - rest.len();
        let (token, length) = self.token(rest, start)?;
        self.at = start + length;
        Ok((token, start))
    }

    fn token(&self, rest: &'t str, at: usize) -> Result<(Token<'t>, usize), Problem> {
        let Some(first) = rest.chars().next() else { return Ok((Token::End, 0)) };
        let sql = self.dialect == Dialect::AmqpSql;
        if first == '\'' || (sql && first == '"') {
            return text(rest, at, first);
        }
        if first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|next: char| next.is_ascii_digit())) {
            return number(rest, at, self.dialect);
        }
        if is_start(first) {
            return Ok(self.name(rest));
        }
        if sql && first == '[' {
            return delimited(rest, at);
        }
        if sql && first == '.' {
            return Ok((Token::Mark(Mark::Dot), 1));
        }
        match MARKS.iter().find(|(spelling, _)| rest.starts_with(spelling)) {
            Some(("!=" | "%", _)) | None if !sql => Err(unknown(first, at)),
            Some((spelling, mark)) => Ok((Token::Mark(*mark), spelling.len())),
            None => Err(unknown(first, at)),
        }
    }

    /// An identifier or reserved word.
    fn name(&self, rest: &'t str) -> (Token<'t>, usize) {
        let mut end = part_length(rest);
        if let Some((_, word)) = WORDS.iter().find(|(spelling, _)| spelling.eq_ignore_ascii_case(&rest[..end])) {
            return (Token::Word(*word), end);
        }
        // Names with points are no Java identifiers, but AMQP clients set them, so selectors may
        // name them.
        let more = |end: usize| rest[end..].strip_prefix('.').filter(|next| next.starts_with(is_start));
        while let (Dialect::Jms, Some(next)) = (self.dialect, more(end)) {
            end += 1 + part_length(next);
        }
        (Token::Name(&rest[..end]), end)
    }
}

fn part_length(text: &str) -> usize {
    text.find(|letter| !is_part(letter)).unwrap_or(text.len())
}

/// A string: everything up to the next quote that is not doubled.
fn text(rest: &str, at: usize, quote: char) -> Result<(Token<'_>, usize), Problem> {
    let Some((content, length)) = enclosed(&rest[1..], quote) else {
        return Err(Problem::new(
            at,
            "the string is not closed",
            format!("close it with {quote}, and write each {quote} inside it twice"),
        ));
    };
    let text = match content.contains(quote) {
        true => Cow::Owned(content.replace(&String::from_iter([quote, quote]), quote.encode_utf8(&mut [0; 4]))),
        false => Cow::Borrowed(content),
    };
    Ok((Token::Text(text), 1 + length))
}

/// The text before the next `end` that is not doubled, as written, and its length including that
/// `end`.
fn enclosed(text: &str, end: char) -> Option<(&str, usize)> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find(end)?;
        if !text[at + 1..].starts_with(end) {
            return Some((&text[..at], at + 1));
        }
        from = at + 2;
    }
}

/// An identifier in brackets, where brackets inside are doubled.
fn delimited(rest: &str, at: usize) -> Result<(Token<'_>, usize), Problem> {
    let fault = |problem: &str| {
        Err(Problem::new(at, problem, "write it like [order status], with each bracket inside it twice"))
    };
    let Some((content, length)) = enclosed(&rest[1..], ']') else {
        return fault("the identifier in brackets is not closed");
    };
    let name = content.replace("]]", "]");
    if name.replace("[[", "").contains('[') {
        return fault("the identifier in brackets has a single [ inside");
    }
    if name.is_empty() {
        return fault("the identifier in brackets is empty");
    }
    Ok((Token::Delimited(name.replace("[[", "[")), 1 + length))
}

#[cold]
fn unknown(letter: char, at: usize) -> Problem {
    let remedy = match letter {
        '"' | '`' | '\u{2018}' | '\u{2019}' => "write strings in single quotes, like 'red'",
        '!' => "write <> for not equal",
        '%' => "selectors have no remainder operator; % belongs in the pattern of LIKE",
        '[' | ']' => "identifiers in brackets are for amqp:sql-filter only",
        '.' => "a point is allowed in decimal numbers and inside names only",
        '&' => "write AND",
        '|' => "write OR",
        _ => "selectors consist of names, numbers, strings in single quotes and the operators of SQL",
    };
    Problem::new(at, format!("'{}' is not allowed here", quote(letter.encode_utf8(&mut [0; 4]))), remedy)
}
