//! The patterns of LIKE (JMS 2.0, 3.8.1.3), in time linear in the text and independent of the
//! pattern.
//!
//! A pattern is cut at each `%`. The first piece must begin the text and the last one end it; those
//! between are searched from left to right, each as early as it is found. A piece without `_` is
//! found by the search of the standard library. A piece with `_` is found by the bit-parallel
//! Shift-And algorithm, which limits it to 64 characters.

/// The most characters of a piece between two `%` that contains `_`.
pub(super) const SEARCHED_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    first: Piece,
    between: Box<[Search]>,
    /// `None`: the pattern has no `%`, and the first piece is all of it
    last: Option<Piece>,
}

/// Characters of a pattern, `None` for any one (`_`).
type Piece = Box<[Option<char>]>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Search {
    Text(Box<str>),
    Bits(Bits),
}

/// Bit `n` of a mask: the character may be at place `n` of the piece.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bits {
    /// sorted by character
    masks: Box<[(char, u64)]>,
    /// of characters that are not in the piece
    any: u64,
    end: u64,
}

/// Why a text is not a valid pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatternFault {
    /// the escape character is the last one
    Escape,
    /// beyond [`SEARCHED_MAX`]
    Long,
}

impl Pattern {
    pub(super) fn new(text: &str, escape: Option<char>) -> Result<Self, PatternFault> {
        let mut pieces = vec![Vec::new()];
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            let part = match letter {
                _ if Some(letter) == escape => Some(letters.next().ok_or(PatternFault::Escape)?),
                '%' => {
                    pieces.push(Vec::new());
                    continue;
                }
                '_' => None,
                plain => Some(plain),
            };
            if let Some(piece) = pieces.last_mut() {
                piece.push(part);
            }
        }
        let last = if pieces.len() > 1 { pieces.pop() } else { None };
        let between = pieces.drain(1..).filter(|piece| !piece.is_empty()).map(|piece| Search::new(&piece));
        let between = between.collect::<Result<_, _>>()?;
        let first = pieces.pop().unwrap_or_default().into();
        Ok(Self { first, between, last: last.map(Into::into) })
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        let Some(mut rest) = after(&self.first, text) else { return false };
        let Some(last) = &self.last else { return rest.is_empty() };
        for piece in &self.between {
            let Some(end) = piece.find_end(rest) else { return false };
            rest = &rest[end..];
        }
        ends(last, rest)
    }
}

/// The rest of a text that begins with `piece`.
fn after<'t>(piece: &Piece, text: &'t str) -> Option<&'t str> {
    let mut letters = text.chars();
    for part in piece {
        let letter = letters.next()?;
        if part.is_some_and(|part| part != letter) {
            return None;
        }
    }
    Some(letters.as_str())
}

fn ends(piece: &Piece, text: &str) -> bool {
    let mut letters = text.chars().rev();
    piece.iter().rev().all(|part| letters.next().is_some_and(|letter| part.is_none_or(|part| part == letter)))
}

impl Search {
    fn new(piece: &[Option<char>]) -> Result<Self, PatternFault> {
        if let Some(text) = piece.iter().copied().collect::<Option<String>>() {
            return Ok(Self::Text(text.into()));
        }
        if piece.len() > SEARCHED_MAX {
            return Err(PatternFault::Long);
        }
        let bit = |place: usize| 1_u64 << place;
        let any = (0..piece.len()).filter(|place| piece[*place].is_none()).map(bit).sum();
        let mut masks: Vec<(char, u64)> = Vec::new();
        for (place, part) in piece.iter().enumerate() {
            let Some(letter) = *part else { continue };
            match masks.iter_mut().find(|(known, _)| *known == letter) {
                Some((_, mask)) => *mask |= bit(place),
                None => masks.push((letter, any | bit(place))),
            }
        }
        masks.sort_unstable_by_key(|(letter, _)| *letter);
        Ok(Self::Bits(Bits { masks: masks.into(), any, end: bit(piece.len() - 1) }))
    }

    /// The end of the first match of the piece, in bytes.
    fn find_end(&self, text: &str) -> Option<usize> {
        match self {
            Self::Text(piece) => text.find(&**piece).map(|at| at + piece.len()),
            Self::Bits(bits) => bits.find_end(text),
        }
    }
}

impl Bits {
    fn find_end(&self, text: &str) -> Option<usize> {
        let mut begun = 0_u64;
        for (at, letter) in text.char_indices() {
            let known = self.masks.binary_search_by_key(&letter, |(known, _)| *known);
            begun = (begun << 1 | 1) & known.map_or(self.any, |place| self.masks[place].1);
            if begun & self.end != 0 {
                return Some(at + letter.len_utf8());
            }
        }
        None
    }
}
