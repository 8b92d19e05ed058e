//! Column declarations, from text such as `offset, device string, value double, ts timestamp`.

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use serde::Deserialize;

use crate::column::Type;
use crate::envelope::{ENVELOPE, Part};

/// The fields of a resolved SenML record (RFC 8428).
pub(crate) const SENML_FIELDS: [&str; 9] = ["n", "u", "t", "v", "vs", "vb", "vd", "s", "ut"];

/// Columns that one declaration can have.
pub const COLUMNS_MAX: usize = 1024;
/// The column with the reason why a row could not be decoded.
const ERROR: &str = "_error";
/// The column that numbers the rows of one message, from 0 on.
const INDEX: &str = "_index";
/// Prefix of a name: a field of the body, even if the envelope has a column of that name.
const BODY_PREFIX: &str = "body.";

/// A declaration that cannot be used: a sentence that names the part and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub(crate) String);

/// How bodies are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// RFC 8259: an object, or an array of them, which is a row for each
    Json,
    /// RFC 8428 in JSON: a row for each record, base fields resolved
    SenmlJson,
    /// RFC 8949: a map, or an array of them
    Cbor,
    /// RFC 8428 in CBOR
    SenmlCbor,
    /// RFC 4180: a row for each line
    Csv,
    /// by the content-type of each message
    Auto,
}

impl Format {
    /// The format of a content type; parameters and case do not matter.
    pub(crate) fn of_content_type(content_type: &str) -> Option<Self> {
        let name = content_type.split(';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
        Some(match name.as_str() {
            "application/senml+json" => Self::SenmlJson,
            "application/senml+cbor" => Self::SenmlCbor,
            "text/csv" => Self::Csv,
            name if name == "application/json" || name.ends_with("+json") => Self::Json,
            name if name == "application/cbor" || name.ends_with("+cbor") => Self::Cbor,
            _ => return None,
        })
    }
}

/// The unit of a number in a column of type timestamp, since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum TimeUnit {
    /// seconds
    #[default]
    #[serde(rename = "s")]
    Seconds,
    /// milliseconds
    #[serde(rename = "ms")]
    Milliseconds,
    /// microseconds
    #[serde(rename = "us")]
    Microseconds,
    /// nanoseconds
    #[serde(rename = "ns")]
    Nanoseconds,
}

/// The declaration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Options {
    /// names with their types, as in SQL; a column of the envelope needs no type. `None`: the whole
    /// envelope
    pub columns: Option<String>,
    /// how bodies are decoded; `None`: not at all
    pub decode: Option<Format>,
    /// of numbers in columns of type timestamp
    pub time_unit: TimeUnit,
    /// CSV: the first line of each body has the names; without it fields come in the order of the
    /// columns
    pub csv_header: bool,
    /// CSV: between fields, one character of ASCII; `None`: a comma
    pub csv_delimiter: Option<char>,
}

/// The source of a column's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Envelope(Part),
    Body(String),
    Error,
    Index,
}

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) kind: Type,
    pub(crate) from: Source,
}

/// A checked declaration.
#[derive(Clone, Debug)]
pub struct Declared {
    pub(crate) items: Vec<Item>,
    pub(crate) decode: Option<Format>,
    pub(crate) time_unit: TimeUnit,
    pub(crate) csv_header: bool,
    pub(crate) csv_delimiter: u8,
    schema: SchemaRef,
}

impl Declared {
    /// Checks a declaration.
    ///
    /// # Errors
    /// The problem: an unknown type, a repeated name, a column without a source, or too many
    /// columns.
    pub fn new(options: &Options) -> Result<Self, Error> {
        let items = match &options.columns {
            Some(text) => {
                declarations(text)?.into_iter().map(|(name, kind)| item(name, kind)).collect::<Result<_, _>>()?
            }
            None if options.decode.is_some() => {
                return Err(Error("columns: decoding needs them, such as 'device string, value double'".into()));
            }
            None => ENVELOPE.iter().map(|(name, part)| envelope(name, *part)).collect::<Vec<_>>(),
        };
        check(&items, options.decode)?;
        let fields: Vec<_> = items.iter().map(|item| Field::new(&item.name, item.kind.arrow(), true)).collect();
        Ok(Self {
            items,
            decode: options.decode,
            time_unit: options.time_unit,
            csv_header: options.csv_header,
            csv_delimiter: delimiter(options.csv_delimiter)?,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// The declaration in SQL, every name in backquotes and with its type.
    #[must_use]
    pub fn sql(&self) -> String {
        let quoted = |item: &Item| format!("`{}` {}", item.name.replace('`', "``"), item.kind.name());
        self.items.iter().map(quoted).collect::<Vec<_>>().join(", ")
    }

    /// The same in Arrow.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

fn delimiter(wanted: Option<char>) -> Result<u8, Error> {
    let wanted = wanted.unwrap_or(',');
    match u8::try_from(wanted) {
        Ok(byte) if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(byte),
        _ => Err(Error(format!(
            "csvDelimiter: {wanted:?} is not a delimiter; use an ASCII character such as ',' or ';'"
        ))),
    }
}

fn envelope(name: &str, part: Part) -> Item {
    Item { name: name.to_owned(), kind: part.kind(), from: Source::Envelope(part) }
}

fn item(name: String, kind: Option<Type>) -> Result<Item, Error> {
    let of_envelope = ENVELOPE.iter().find(|(known, _)| *known == name);
    let (from, fixed) = match (of_envelope, name.as_str()) {
        (Some((_, part)), _) => (Source::Envelope(*part), part.kind()),
        (None, ERROR) => (Source::Error, Type::Text),
        (None, INDEX) => (Source::Index, Type::Int),
        (None, _) => {
            let Some(kind) = kind else {
                let near = nearest(&name);
                return Err(Error(format!(
                    "columns: {name} has no type and is not a column of the envelope (the nearest is {near}); declare \
                     a field of the body with its type, such as '{name} string'"
                )));
            };
            if kind == Type::Map {
                return Err(Error(format!(
                    "columns: {name} of type map cannot be decoded from a body; make it a string"
                )));
            }
            let key = name.strip_prefix(BODY_PREFIX).unwrap_or(&name).to_owned();
            return Ok(Item { name, kind, from: Source::Body(key) });
        }
    };
    match kind {
        Some(kind) if kind != fixed => {
            let (kind, fixed) = (kind.name(), fixed.name());
            Err(Error(format!(
                "columns: {name} is of type {fixed}, not {kind}; a field of the body is `{BODY_PREFIX}{name}`"
            )))
        }
        _ => Ok(Item { name, kind: fixed, from }),
    }
}

fn check(items: &[Item], decode: Option<Format>) -> Result<(), Error> {
    if items.is_empty() {
        return Err(Error("columns: the list is empty; omit the option to get all columns of the envelope".into()));
    }
    if items.len() > COLUMNS_MAX {
        return Err(Error(format!("columns: there are {}, and the limit is {COLUMNS_MAX}", items.len())));
    }
    let mut names: Vec<_> = items.iter().map(|item| item.name.to_lowercase()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error(format!("columns: {} appears twice (case does not matter)", pair[0])));
    }
    let field = items.iter().find(|item| matches!(item.from, Source::Body(_)));
    match (field, decode) {
        (Some(field), None) => Err(Error(format!(
            "columns: {} is not a column of the envelope (the nearest is {}); to decode it from the body, set decode",
            field.name,
            nearest(&field.name)
        ))),
        (Some(_), Some(Format::SenmlJson | Format::SenmlCbor)) => {
            let unknown = items.iter().find_map(|item| match &item.from {
                Source::Body(key) if !SENML_FIELDS.contains(&key.as_str()) => Some(key),
                _ => None,
            });
            match unknown {
                Some(key) => Err(Error(format!(
                    "columns: {key} is not a field of a SenML record; those are {}",
                    SENML_FIELDS.join(", ")
                ))),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// The column of the envelope whose name takes the fewest changes.
fn nearest(name: &str) -> &'static str {
    let name = name.to_lowercase();
    ENVELOPE.iter().map(|(known, _)| *known).min_by_key(|known| distance(&name, known)).unwrap_or_default()
}

/// Letters to insert, remove or replace.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.chars().take(100).enumerate() {
        let mut corner = std::mem::replace(&mut row[0], line + 1);
        for (column, other) in to.iter().enumerate() {
            let replaced = corner + usize::from(letter != *other);
            corner = row[column + 1];
            row[column + 1] = replaced.min(corner + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

/// Splits `name [:] [type] [NOT NULL] [COMMENT '..'], ..` into names and types. Names may be in
/// backquotes.
fn declarations(text: &str) -> Result<Vec<(String, Option<Type>)>, Error> {
    let mut rest = text.trim_ascii();
    let mut items = Vec::new();
    while !rest.is_empty() {
        let (name, after) = take_name(rest)?;
        let (kind, after) = take_type(&name, after)?;
        items.push((name, kind));
        rest = match after.strip_prefix(',') {
            Some(more) if more.trim_ascii().is_empty() => return Err(Error("columns: it ends with a comma".into())),
            Some(more) => more.trim_ascii(),
            None => after,
        };
    }
    Ok(items)
}

fn take_name(text: &str) -> Result<(String, &str), Error> {
    let Some(quoted) = text.strip_prefix('`') else {
        let end = text.find(|c: char| c.is_whitespace() || c == ',' || c == ':').unwrap_or(text.len());
        if end == 0 {
            return Err(Error(format!("columns: a name is missing before {text:?}")));
        }
        return Ok((text[..end].to_owned(), text[end..].trim_ascii_start()));
    };
    let mut name = String::new();
    let mut letters = quoted.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        if letter != '`' {
            name.push(letter);
        } else if letters.next_if(|(_, next)| *next == '`').is_some() {
            name.push('`');
        } else {
            return Ok((name, quoted[at + 1..].trim_ascii_start()));
        }
    }
    Err(Error(format!("columns: the backquote before {quoted:?} is not closed")))
}

/// The type after a name, and the rest from the comma on.
fn take_type<'a>(name: &str, text: &'a str) -> Result<(Option<Type>, &'a str), Error> {
    let text = text.strip_prefix(':').unwrap_or(text).trim_ascii_start();
    let mut depth = 0_usize;
    let mut quoted = false;
    let end = text.find(|c| {
        match c {
            '\'' => quoted = !quoted,
            '<' | '(' if !quoted => depth += 1,
            '>' | ')' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0 && !quoted
    });
    let (declared, rest) = text.split_at(end.unwrap_or(text.len()));
    let lower = declared.to_ascii_lowercase();
    let lower = lower.split(" comment ").next().unwrap_or_default().trim_ascii();
    let bare: String = lower.strip_suffix("not null").unwrap_or(lower).split_ascii_whitespace().collect();
    let kind = match bare.as_str() {
        "" => return Ok((None, rest)),
        "byte" => Type::Byte,
        "short" => Type::Short,
        "integer" => Type::Int,
        "long" => Type::Long,
        "real" => Type::Float,
        "text" => Type::Text,
        known => match Type::ALL.iter().find(|(_, name)| *name == known) {
            Some((kind, _)) => *kind,
            None => {
                let all: Vec<_> = Type::ALL.iter().map(|(_, name)| *name).collect();
                return Err(Error(format!("columns: {name} has the type {bare:?}; known are {}", all.join(", "))));
            }
        },
    };
    Ok((Some(kind), rest))
}

#[cfg(test)]
mod tests {
    use super::{Declared, Format, Options};

    fn declared(columns: &str, decode: Option<Format>) -> Result<String, String> {
        let options = Options { columns: Some(columns.to_owned()), decode, ..Options::default() };
        Declared::new(&options).map(|declared| declared.sql()).map_err(|error| error.0)
    }

    #[test]
    fn columns_are_declared_as_in_sql() {
        for (text, sql) in [
            ("offset, address", "`offset` bigint, `address` string"),
            ("`offset`  BIGINT NOT NULL,body", "`offset` bigint, `body` binary"),
            ("device: string, value DOUBLE, ts Timestamp", "`device` string, `value` double, `ts` timestamp"),
            ("annotations map<string, string>, a long", "`annotations` map<string,string>, `a` bigint"),
            ("`a ``b``, c` real comment 'one, two', d byte", "`a ``b``, c` float, `d` tinyint"),
            (
                "`body.subject` string, subject, _error, _index int",
                "`body.subject` string, `subject` string, `_error` string, `_index` int",
            ),
        ] {
            assert_eq!(declared(text, Some(Format::Json)).as_deref(), Ok(sql));
        }
    }

    #[test]
    fn declaration_error_names_the_defect_and_the_remedy() {
        for (text, decode, said) in [
            ("ofset", None, "the nearest is offset"),
            ("devise string", None, "set decode"),
            ("offset string", None, "offset is of type bigint"),
            ("a decimal(3,2)", Some(Format::Json), "decimal(3,2)"),
            ("a map<string,string>", Some(Format::Json), "make it a string"),
            ("a int, A int", Some(Format::Json), "twice"),
            ("a int,", Some(Format::Json), "comma"),
            (", a int", Some(Format::Json), "name is missing"),
            ("`a", Some(Format::Json), "not closed"),
            (" ", None, "the list is empty"),
            ("value double", Some(Format::SenmlJson), "value is not a field of a SenML record"),
        ] {
            let error = declared(text, decode).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        let many: Vec<_> = (0..=super::COLUMNS_MAX).map(|index| format!("c{index} int")).collect();
        assert!(declared(&many.join(","), Some(Format::Json)).unwrap_err().contains("the limit is 1024"));
        assert!(Declared::new(&Options { decode: Some(Format::Csv), ..Options::default() }).is_err());
        assert!(Declared::new(&Options { csv_delimiter: Some('é'), ..Options::default() }).is_err());
    }

    #[test]
    fn declaration_round_trips_through_sql() {
        let whole = Declared::new(&Options::default()).unwrap();
        assert_eq!(declared(&whole.sql(), None).unwrap(), whole.sql());
        assert_eq!(whole.schema().fields().len(), whole.items.len());
    }

    #[test]
    fn content_type_selects_the_format() {
        for (name, format) in [
            ("application/json; charset=utf-8", Some(Format::Json)),
            ("Application/SenML+JSON", Some(Format::SenmlJson)),
            ("application/vnd.acme+json", Some(Format::Json)),
            ("application/senml+cbor", Some(Format::SenmlCbor)),
            ("application/cbor", Some(Format::Cbor)),
            ("text/csv", Some(Format::Csv)),
            ("text/plain", None),
        ] {
            assert_eq!(Format::of_content_type(name), format, "{name}");
        }
    }
}
