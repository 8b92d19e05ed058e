//! One wildcard grammar, for the filters of receivers and for the patterns of rights.
//!
//! A name is split into levels at every `/`. In a pattern the level `+` or `*` matches exactly one
//! level and `#` matches zero or more, anywhere. Patterns of rights have two more forms, which the
//! original EnMasse has too: `*` alone matches every name, and `*` at the end of the last level
//! (`ord*`) matches every name with that prefix, including names with further levels.
//!
//! A pattern is a nondeterministic automaton over the levels. Its set of states is one integer, and
//! so is the set of states that a level advances. A level costs a few integer operations and a
//! search among the levels of the pattern, so the time of a match is bounded.

use std::collections::BTreeMap;
use std::fmt;

/// Most levels of a pattern; the states of its automaton then fit in 128 bits.
pub const LEVELS_MAX: usize = 64;

/// Whether a name has a level that is a wildcard (`+`, `*` or `#`).
#[must_use]
pub fn is_wildcard(name: &str) -> bool {
    name.split('/').any(|level| matches!(level, "+" | "*" | "#"))
}

#[cfg(test)]
thread_local! {
    /// Number of runs of a pattern over a name on this thread.
    pub(super) static RUNS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A compiled pattern.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    tokens: Box<[Token]>,
    /// states before `#`
    any: u128,
    /// states before `+`
    one: u128,
    /// states before each literal level, in the order of the levels
    levels: Box<[(Box<str>, u128)]>,
}

/// Why a text is not a pattern.
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
    /// a literal level
    Level(Box<str>),
    /// one level with this prefix
    Prefix(Box<str>),
    /// any one level
    One,
    /// zero or more levels
    Any,
}

/// One step over a name, or over a filter that the pattern of a right has to cover.
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

    /// The pattern of a right: a filter, or `*` for every name, or a prefix followed by `*` for
    /// every name with that prefix.
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
        let tokens = normalized(tokens);
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

    /// Whether the pattern has no wildcard, and so matches only its own text.
    #[must_use]
    pub(super) fn is_name(&self) -> bool {
        self.tokens.iter().all(|token| matches!(token, Token::Level(_)))
    }

    /// Whether the pattern matches this name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.ends(self.run(name))
    }

    /// Whether the pattern matches every name that `filter` matches. Exact for filters without `#`.
    /// A `#` of the filter must be covered by a `#` of the pattern, so `+/#/b` does not cover
    /// `#/a/b`, although it matches all its names: the answer errs on the safe side.
    #[must_use]
    pub fn covers(&self, filter: &Self) -> bool {
        let step = |places, token: &Token| match token {
            Token::Level(level) => self.step(places, &Step::Level(level)),
            // Only rights have prefixes. A prefix in a filter counts as any level, which is safe.
            Token::One | Token::Prefix(_) => self.step(places, &Step::One),
            Token::Any => self.step(places, &Step::Any),
        };
        self.ends(filter.tokens.iter().fold(self.start(), step))
    }

    /// Whether the pattern matches `name` itself or any name below it (`name/..`).
    #[must_use]
    pub fn reaches(&self, name: &str) -> bool {
        self.run(name) != 0
    }

    /// The states after all levels of a name; 0: it does not match, nor does any name below it.
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

    /// The states after one more level. In state `i` the next level has to match token `i`.
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

    /// The state before the prefix, if it is active and the level has the prefix. The prefix is the
    /// last token but one.
    fn prefix_of(&self, places: u128, level: &str) -> u128 {
        let Some(place) = self.tokens.len().checked_sub(2) else { return 0 };
        let here = 1 << place;
        match &self.tokens[place] {
            Token::Prefix(prefix) if places & here != 0 && level.starts_with(&**prefix) => here,
            _ => 0,
        }
    }

    /// Adds the state after each active `#`, because `#` may match no level. No two `#` are
    /// adjacent, so one step is enough.
    const fn settle(&self, places: u128) -> u128 {
        places | (places & self.any) << 1
    }
}

/// Normalizes a pattern, so that [`Pattern::covers`] needs no search. `#/+` and `+/#` are equal:
/// within a run of both, all `+` precede a single `#`. `+/#` alone becomes `#`.
fn normalized(tokens: Vec<Token>) -> Box<[Token]> {
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
