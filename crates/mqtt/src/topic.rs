//! Topic names and topic filters (4.7, 4.8).

use thiserror::Error as ThisError;

use crate::codec::reader::contains_any;

/// Bytes of the longest topic name or filter [5: 4.7.3-3].
pub const TOPIC_MAX_BYTES: usize = 65_535;

/// A valid topic filter, without the prefix of a shared subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Filter<'a> {
    text: &'a str,
    group: Option<&'a str>,
}

/// Why a text is no topic filter; the answer is 0x8F (3.x: 0x80).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
pub enum FilterError {
    /// [5: 4.7.3-1]
    #[error("the topic filter is empty")]
    Empty,
    /// [5: 4.7.3-3]
    #[error("the topic filter is longer than 65,535 bytes")]
    TooLong,
    /// [5: 4.7.3-2]
    #[error("the topic filter contains U+0000")]
    Null,
    /// [5: 4.7.1-1, 4.7.1-2]
    #[error("a wildcard is not a whole level of the topic filter, or # is not its last level")]
    Wildcard,
    /// [5: 4.8.2-1, 4.8.2-2]
    #[error("a shared subscription is not $share/GROUP/FILTER with a group without wildcards")]
    Share,
}

impl<'a> Filter<'a> {
    /// Judges a filter of a SUBSCRIBE or an UNSUBSCRIBE.
    ///
    /// # Errors
    /// It is no topic filter.
    pub fn parse(text: &'a str) -> Result<Self, FilterError> {
        let Some(shared) = text.strip_prefix("$share/") else {
            check_filter(text)?;
            return Ok(Self { text, group: None });
        };
        let (group, filter) = shared.split_once('/').ok_or(FilterError::Share)?;
        if group.is_empty() || filter.is_empty() || group.contains(['+', '#']) {
            return Err(FilterError::Share);
        }
        check_filter(filter)?;
        Ok(Self { text: filter, group: Some(group) })
    }

    /// The filter itself, after `$share/GROUP/`.
    #[must_use]
    pub const fn as_str(&self) -> &'a str {
        self.text
    }

    /// The share name of a shared subscription (4.8.2).
    #[must_use]
    pub const fn group(&self) -> Option<&'a str> {
        self.group
    }

    /// Whether it contains a wildcard.
    #[must_use]
    pub fn has_wildcard(&self) -> bool {
        self.text.contains(['+', '#'])
    }

    /// Its levels in order; `+` and `#` are wildcards.
    pub fn levels(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.text.split('/')
    }

    /// Whether it matches a topic name.
    #[must_use]
    pub fn matches(&self, topic: &str) -> bool {
        matches(self.text, topic)
    }
}

fn check_filter(text: &str) -> Result<(), FilterError> {
    if text.is_empty() {
        return Err(FilterError::Empty);
    }
    if text.len() > TOPIC_MAX_BYTES {
        return Err(FilterError::TooLong);
    }
    if text.as_bytes().contains(&0) {
        return Err(FilterError::Null);
    }
    let mut levels = text.split('/').peekable();
    while let Some(level) = levels.next() {
        let whole = match level {
            "#" => levels.peek().is_none(),
            "+" => true,
            level => !level.contains(['+', '#']),
        };
        if !whole {
            return Err(FilterError::Wildcard);
        }
    }
    Ok(())
}

/// Whether a valid filter matches a topic name, level by level (4.7.1, 4.7.3). A leading wildcard
/// does not match a name that begins with `$` [5: 4.7.2-1].
#[must_use]
pub fn matches(filter: &str, topic: &str) -> bool {
    if topic.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let (mut filter, mut topic) = (filter.split('/'), topic.split('/'));
    loop {
        match (filter.next(), topic.next()) {
            (Some("#"), _) | (None, None) => return true,
            (Some("+"), Some(_)) => {}
            (Some(wanted), Some(level)) if wanted == level => {}
            _ => return false,
        }
    }
}

/// Whether a text is a topic name: not empty, without wildcards and U+0000, at most 65,535 bytes
/// [5: 4.7.3-1, 4.7.3-2, 4.7.3-3, 3.3.2-2].
#[must_use]
pub fn is_topic_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= TOPIC_MAX_BYTES && !contains_any(text.as_bytes(), [b'+', b'#', 0])
}
