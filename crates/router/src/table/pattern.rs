//! One wildcard grammar, for the filters of receivers and for the patterns of rights.
//!
//! A name is cut into levels at every `/`. In a pattern the level `+` or `*` stands for exactly one
//! level and `#` for zero or more, anywhere. Rights know two forms more, kept from the original
//! EnMasse: `*` alone is every name, and `*` at the end of the last level (`ord*`) is every name
//! that begins so, further levels included.
//!
//! A pattern is run as an automaton over the levels: the set of places it may be in is one integer,
//! and so is the set of places that a level lets continue. A level costs a few operations on them
//! and a search among the pattern's own levels; a match cannot blow up.

use std::collections::BTreeMap;
use std::fmt;

/// Most levels of a pattern; the places of its automaton then fit in 128 bits.
pub const LEVELS_MAX: usize = 64;

/// Whether a name has a level that is a wildcard (`+`, `*` or `#`).
#[must_use]
pub fn is_wildcard(name: &str) -> bool {
    name.split('/').any(|level| matches!(level, "+" | "*" | "#"))
}

#[cfg(test)]
thread_local! {
    /// Times that a name was run through a pattern on this thread.
    pub(super) static RUNS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A compiled pattern.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    tokens: Box<[Token]>,
    /// places of `#`
    any: u128,
    /// places of `+`
    one: u128,
    /// places of each level that stands for itself, in the order of the levels
    levels: Box<[(Box<str>, u128)]>,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// empty text
    #[error("a pattern is not empty; write `#` for every name")]
    Empty,
    /// more levels than [`LEVELS_MAX`]
    #[error("a pattern has at most {LEVELS_MAX} levels")]
    TooDeep,
    /// a star inside a level
    #[error("`*` stands alone in a level or, in a right, at the very end")]
    Star,
}

#[derive(Clone, PartialEq, Eq)]
enum Token {
    /// this level
    Level(Box<str>),
    /// one level that begins so
    Prefix(Box<str>),
    /// any one level
    One,
    /// any levels, also none
    Any,
}

/// One step of the names that a filter stands for, as the pattern of a right sees it.
enum Step<'a> {
    Level(&'a str),
    One,
    Any,
}

impl Pattern {
    /// The filter of a receiver: `+` or `*` one level, `#` zero or more. A name without wildcards
    /// matches itself.
    ///
    /// # Errors
    /// An empty text, a star inside a level, or more than [`LEVELS_MAX`] levels.
    pub fn filter(text: &str) -> Result<Self, PatternError> {
        let levels = text.split('/').map(|level| match level {
            "+" | "*" => Ok(Token::One),
            "#" => Ok(Token::Any),
            level if level.contains('*') => Err(PatternError::Star),
            level => Ok(Token::Level(level.into())),
        });
        Self::build(text, levels.collect::<Result<_, _>>()?)
    }

    /// The pattern of a right: a filter, or `*` for every name, or a text that ends with `*` for
    /// every name that begins with that text.
    ///
    /// # Errors
    /// As [`Pattern::filter`].
    pub fn right(text: &str) -> Result<Self, PatternError> {
        if text == "*" {
            return Self::filter("#");
        }
        let Some(beginning) = text.strip_suffix('*').filter(|rest| !rest.ends_with('/')) else {
            return Self::filter(text);
        };
        let (above, prefix) = beginning.rsplit_once('/').map_or((None, beginning), |(a, p)| (Some(a), p));
        let mut tokens = above.map_or(Ok(Vec::new()), |above| Self::filter(above).map(|p| p.tokens.into_vec()))?;
        if prefix.contains('*') {
            return Err(PatternError::Star);
        }
        tokens.extend([Token::Prefix(prefix.into()), Token::Any]);
        Self::build(text, tokens)
    }

    fn build(text: &str, tokens: Vec<Token>) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        if text.split('/').count() > LEVELS_MAX {
            return Err(PatternError::TooDeep);
        }
        let tokens = in_order(tokens);
        let (mut any, mut one, mut levels) = (0, 0, BTreeMap::<&str, u128>::new());
        for (place, token) in tokens.iter().enumerate() {
            match token {
                Token::Level(level) => *levels.entry(&**level).or_default() |= 1 << place,
                Token::Prefix(_) => {}
                Token::One => one |= 1 << place,
                Token::Any => any |= 1 << place,
            }
        }
        let levels = levels.into_iter().map(|(level, places)| (level.into(), places)).collect();
        Ok(Self { tokens, any, one, levels })
    }

    /// Whether the pattern stands for one name only, the text that it was made of.
    #[must_use]
    pub(super) fn is_name(&self) -> bool {
        self.tokens.iter().all(|token| matches!(token, Token::Level(_)))
    }

    /// Whether the pattern stands for this name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.ends(self.run(name))
    }

    /// Whether the pattern stands for every name that `filter` stands for. Exact for filters
    /// without `#`; with it a pattern has to cover the `#` by one of its own, so that `+/#/b` is
    /// not seen to cover `#/a/b`: the doubt goes against the user.
    #[must_use]
    pub fn covers(&self, filter: &Self) -> bool {
        let step = |places, token: &Token| match token {
            Token::Level(level) => self.step(places, &Step::Level(level)),
            // Only rights have prefixes; as a filter one is taken for more than it is, which is
            // safe.
            Token::One | Token::Prefix(_) => self.step(places, &Step::One),
            Token::Any => self.step(places, &Step::Any),
        };
        self.ends(filter.tokens.iter().fold(self.start(), step))
    }

    /// Whether the pattern stands for `name` itself or for any name below it (`name/..`).
    #[must_use]
    pub fn reaches(&self, name: &str) -> bool {
        self.run(name) != 0
    }

    /// The places after all levels of a name; 0 as soon as there is no way on.
    fn run(&self, name: &str) -> u128 {
        #[cfg(test)]
        RUNS.set(RUNS.get() + 1);
        let mut places = self.start();
        for level in name.split('/') {
            places = self.step(places, &Step::Level(level));
            if places == 0 {
                break;
            }
        }
        places
    }

    fn start(&self) -> u128 {
        self.settle(1)
    }

    fn ends(&self, places: u128) -> bool {
        places & (1 << self.tokens.len()) != 0
    }

    /// The places after one more level: place `i` is "the next level has to please token `i`".
    fn step(&self, places: u128, step: &Step<'_>) -> u128 {
        let moves = match step {
            Step::Level(level) => self.one | self.places_of(level) | self.prefix_of(places, level),
            Step::One => self.one,
            Step::Any => 0,
        };
        self.settle((places & moves) << 1 | places & self.any)
    }

    fn places_of(&self, level: &str) -> u128 {
        self.levels.binary_search_by(|(mine, _)| (**mine).cmp(level)).map_or(0, |index| self.levels[index].1)
    }

    /// The place of the prefix, if the pattern is there and the level begins so. It stands before
    /// the last token.
    fn prefix_of(&self, places: u128, level: &str) -> u128 {
        let Some(place) = self.tokens.len().checked_sub(2) else { return 0 };
        let here = 1 << place;
        match &self.tokens[place] {
            Token::Prefix(prefix) if places & here != 0 && level.starts_with(&**prefix) => here,
            _ => 0,
        }
    }

    /// `#` may stand for nothing: a state before it also is a state behind it. No two stand side by
    /// side.
    const fn settle(&self, places: u128) -> u128 {
        places | (places & self.any) << 1
    }
}

/// `#/+` and `+/#` mean the same: in a run of the two all `+` come first and one `#` is enough, so
/// that [`Pattern::covers`] needs no search. For the same reason `+/#` alone becomes `#`.
fn in_order(tokens: Vec<Token>) -> Box<[Token]> {
    let mut ordered = Vec::with_capacity(tokens.len());
    let mut open = false;
    for token in tokens {
        match token {
            Token::Any => open = true,
            Token::One => ordered.push(token),
            Token::Level(_) | Token::Prefix(_) => {
                if std::mem::take(&mut open) {
                    ordered.push(Token::Any);
                }
                ordered.push(token);
            }
        }
    }
    if open {
        ordered.push(Token::Any);
    }
    // Every name has at least one level.
    if ordered == [Token::One, Token::Any] { [Token::Any].into() } else { ordered.into() }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, token) in self.tokens.iter().enumerate() {
            let after_prefix = place > 0 && matches!(self.tokens[place - 1], Token::Prefix(_));
            if place > 0 && !after_prefix {
                f.write_str("/")?;
            }
            match token {
                Token::Level(level) => f.write_str(level)?,
                Token::Prefix(prefix) => write!(f, "{prefix}*")?,
                Token::One => f.write_str("+")?,
                Token::Any if after_prefix => {}
                Token::Any => f.write_str("#")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
