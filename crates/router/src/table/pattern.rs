//! One wildcard grammar, for the filters of receivers and for the patterns of rights.
//!
//! A name is cut into levels at every `/`. In a pattern the level `+` or `*` stands for exactly one level and `#`
//! for zero or more, anywhere. Rights know two forms more, kept from the original EnMasse: `*` alone is every name,
//! and `*` at the end of the last level (`ord*`) is every name that begins so, further levels included.
//!
//! A pattern is run as an automaton over the levels: the set of places it may be in is one integer, so a match
//! costs levels x tokens at worst and cannot blow up.

use std::fmt;

/// Most levels of a pattern; the places of its automaton then fit in 128 bits.
pub const LEVELS_MAX: usize = 64;

/// Whether a name has a level that is a wildcard (`+`, `*` or `#`).
#[must_use]
pub fn is_wildcard(name: &str) -> bool {
    name.split('/').any(|level| matches!(level, "+" | "*" | "#"))
}

/// A compiled pattern.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    tokens: Box<[Token]>,
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
    /// The filter of a receiver: `+` or `*` one level, `#` zero or more. A name without wildcards matches itself.
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

    /// The pattern of a right: a filter, or `*` for every name, or a text that ends with `*` for every name that
    /// begins with that text.
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
        Ok(Self { tokens: in_order(tokens) })
    }

    /// Whether the pattern stands for this name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.ends(self.run(name))
    }

    /// Whether the pattern stands for every name that `filter` stands for. Exact for filters without `#`; with it a
    /// pattern has to cover the `#` by one of its own, so that `+/#/b` is not seen to cover `#/a/b`: the doubt goes
    /// against the user.
    #[must_use]
    pub fn covers(&self, filter: &Self) -> bool {
        let step = |places, token: &Token| match token {
            Token::Level(level) => self.step(places, &Step::Level(level)),
            // Only rights have prefixes; as a filter one is taken for more than it is, which is safe.
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
        let mut next = 0;
        for (place, token) in self.tokens.iter().enumerate().filter(|(place, _)| places & (1 << place) != 0) {
            let moves = match (token, step) {
                (Token::Any, _) => {
                    next |= 1 << place;
                    false
                }
                (Token::One, Step::Level(_) | Step::One) => true,
                (Token::Level(mine), Step::Level(level)) => **mine == **level,
                (Token::Prefix(prefix), Step::Level(level)) => level.starts_with(&**prefix),
                _ => false,
            };
            if moves {
                next |= 1 << (place + 1);
            }
        }
        self.settle(next)
    }

    /// `#` may stand for nothing: whoever waits before it waits behind it as well.
    fn settle(&self, mut places: u128) -> u128 {
        for (place, token) in self.tokens.iter().enumerate() {
            if *token == Token::Any && places & (1 << place) != 0 {
                places |= 1 << (place + 1);
            }
        }
        places
    }
}

/// `#/+` and `+/#` mean the same: in a run of the two all `+` come first and one `#` is enough, so that [`Pattern::covers`]
/// needs no search. For the same reason `+/#` alone becomes `#`.
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
