//! SenML (RFC 8428) in JSON and CBOR: a row for each record, with the base fields of earlier
//! records.
//!
//! Columns are named by the labels of the records: `n` (name), `u` (unit), `t` (time), `v` (value),
//! `vs` (string), `vb` (boolean), `vd` (data), `s` (sum), `ut` (update time). Times below 2^28 are
//! relative to the time of the message.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::any;
use super::rows::{Datum, Rows};
use crate::declare::SENML_FIELDS;

/// Times from here on are absolute (4.5.3).
const ABSOLUTE_TIME_MIN: f64 = 268_435_456.0;
/// The newest supported version (4.4).
const VERSION: f64 = 10.0;

/// A label of a record; the numbers are those of CBOR (6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    BaseVersion,
    BaseName,
    BaseTime,
    BaseUnit,
    BaseValue,
    BaseSum,
    Name,
    Unit,
    Value,
    Text,
    Flag,
    Sum,
    Time,
    UpdateTime,
    Data,
    Unknown,
}

const LABELS: [(&str, i64, Label); 15] = [
    ("bver", -1, Label::BaseVersion),
    ("bn", -2, Label::BaseName),
    ("bt", -3, Label::BaseTime),
    ("bu", -4, Label::BaseUnit),
    ("bv", -5, Label::BaseValue),
    ("bs", -6, Label::BaseSum),
    ("n", 0, Label::Name),
    ("u", 1, Label::Unit),
    ("v", 2, Label::Value),
    ("vs", 3, Label::Text),
    ("vb", 4, Label::Flag),
    ("s", 5, Label::Sum),
    ("t", 6, Label::Time),
    ("ut", 7, Label::UpdateTime),
    ("vd", 8, Label::Data),
];

/// The base fields for later records.
#[derive(Default)]
struct Base<'de> {
    name: Cow<'de, str>,
    time: f64,
    unit: Option<Cow<'de, str>>,
    value: f64,
    sum: Option<f64>,
}

/// One unresolved record.
#[derive(Default)]
struct Record<'de> {
    name: Option<Cow<'de, str>>,
    unit: Option<Cow<'de, str>>,
    value: Option<f64>,
    text: Option<Cow<'de, str>>,
    flag: Option<bool>,
    data: Option<Cow<'de, [u8]>>,
    sum: Option<f64>,
    time: Option<f64>,
    update_time: Option<f64>,
    is_base_only: bool,
}

/// A whole body.
pub(super) struct Pack<'r, 'a> {
    rows: &'r mut Rows<'a>,
    /// of the message, microseconds since 1970
    now: Option<i64>,
    /// where the columns of `SENML_FIELDS` are
    places: [Option<usize>; SENML_FIELDS.len()],
}

impl<'r, 'a> Pack<'r, 'a> {
    pub(super) fn new(rows: &'r mut Rows<'a>, now: Option<i64>) -> Self {
        let places = SENML_FIELDS.map(|name| rows.find(name.as_bytes()));
        Self { rows, now, places }
    }

    /// Sets field `at` of `SENML_FIELDS`, where it is declared.
    fn set(&mut self, at: usize, value: Datum<'_>) {
        if let Some(place) = self.places[at] {
            self.rows.set(place, value);
        }
    }

    /// Microseconds since 1970 of a time of a record.
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    fn point(&mut self, seconds: f64) -> Datum<'static> {
        let micros = (seconds * 1e6).round();
        if micros.abs() >= 9e18 || micros.is_nan() {
            self.rows.add_reason(format_args!("the time {seconds} is out of the range of a timestamp"));
            return Datum::Null;
        }
        if seconds >= ABSOLUTE_TIME_MIN {
            return Datum::Micros(micros as i64);
        }
        let Some(time) = self.now.and_then(|now| now.checked_add(micros as i64)) else {
            self.rows
                .add_reason(format_args!("the time {seconds} is relative, and the message has no time of its own"));
            return Datum::Null;
        };
        Datum::Micros(time)
    }

    fn row(&mut self, base: &Base<'_>, record: &Record<'_>) {
        let own = record.name.as_deref().unwrap_or_default();
        if base.name.is_empty() && own.is_empty() {
            self.rows.add_reason(format_args!("the record has no name"));
            self.set(0, Datum::Null);
        } else if self.places[0].is_some() {
            // Only if the column is declared: otherwise no bound limits copies of a long base name.
            self.set(0, Datum::Text(&format!("{}{own}", base.name)));
        }
        let unit = record.unit.as_deref().or(base.unit.as_deref());
        self.set(1, unit.map_or(Datum::Null, Datum::Text));
        if self.places[2].is_some() {
            let time = self.point(base.time + record.time.unwrap_or(0.0));
            self.set(2, time);
        }
        self.set(3, record.value.map_or(Datum::Null, |value| Datum::Float(base.value + value)));
        self.set(4, record.text.as_deref().map_or(Datum::Null, Datum::Text));
        self.set(5, record.flag.map_or(Datum::Null, Datum::Bool));
        self.set(6, record.data.as_deref().map_or(Datum::Null, Datum::Bytes));
        let sum = record.sum.map(|sum| base.sum.unwrap_or(0.0) + sum).or(base.sum);
        self.set(7, sum.map_or(Datum::Null, Datum::Float));
        self.set(8, record.update_time.map_or(Datum::Null, Datum::Float));
        let values = [record.value.is_some(), record.text.is_some(), record.flag.is_some(), record.data.is_some()];
        match values.iter().filter(|there| **there).count() {
            0 if sum.is_none() => self.rows.add_reason(format_args!("the record has neither value nor sum")),
            0 | 1 => {}
            _ => self.rows.add_reason(format_args!("the record has more than one value")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Pack<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        any(from, self)
    }
}

impl<'de> Visitor<'de> for Pack<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a SenML pack, which is an array of records")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let mut base = Base::default();
        while let Some(record) = list.next_element_seed(RecordSeed(&mut base))? {
            if !record.is_base_only {
                self.row(&base, &record);
                self.rows.end().map_err(A::Error::custom)?;
            }
        }
        Ok(())
    }
}

struct RecordSeed<'b, 'de>(&'b mut Base<'de>);

impl<'de> DeserializeSeed<'de> for RecordSeed<'_, 'de> {
    type Value = Record<'de>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        any(from, self)
    }
}

impl<'de> Visitor<'de> for RecordSeed<'_, 'de> {
    type Value = Record<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a SenML record, which is an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let base = self.0;
        let mut record = Record { is_base_only: true, ..Record::default() };
        while let Some(label) = map.next_key_seed(LabelSeed)? {
            let of_base = matches!(
                label,
                Label::BaseVersion
                    | Label::BaseName
                    | Label::BaseTime
                    | Label::BaseUnit
                    | Label::BaseValue
                    | Label::BaseSum
            );
            record.is_base_only &= of_base;
            match label {
                Label::BaseVersion => {
                    let version = number(&mut map)?;
                    if version > VERSION {
                        return Err(A::Error::custom(format!("bver {version}: versions up to {VERSION} are known")));
                    }
                }
                Label::BaseName => base.name = text(&mut map)?,
                Label::BaseTime => base.time = number(&mut map)?,
                Label::BaseUnit => base.unit = Some(text(&mut map)?),
                Label::BaseValue => base.value = number(&mut map)?,
                Label::BaseSum => base.sum = Some(number(&mut map)?),
                Label::Name => record.name = Some(text(&mut map)?),
                Label::Unit => record.unit = Some(text(&mut map)?),
                Label::Value => record.value = Some(number(&mut map)?),
                Label::Text => record.text = Some(text(&mut map)?),
                Label::Flag => record.flag = Some(map.next_value()?),
                Label::Sum => record.sum = Some(number(&mut map)?),
                Label::Time => record.time = Some(number(&mut map)?),
                Label::UpdateTime => record.update_time = Some(number(&mut map)?),
                Label::Data => record.data = Some(data(map.next_value_seed(AnySeed)?).map_err(A::Error::custom)?),
                Label::Unknown => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(record)
    }
}

fn number<'de, A: MapAccess<'de>>(map: &mut A) -> Result<f64, A::Error> {
    match map.next_value_seed(AnySeed)? {
        Any::Number(value) => Ok(value),
        _ => Err(A::Error::custom("a field that is a number holds something else")),
    }
}

fn text<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Cow<'de, str>, A::Error> {
    match map.next_value_seed(AnySeed)? {
        Any::Text(value) => Ok(value),
        _ => Err(A::Error::custom("a field that is text holds something else")),
    }
}

/// Bytes, which JSON has in base64 with the alphabet for URLs and no padding (5).
fn data(value: Any<'_>) -> Result<Cow<'_, [u8]>, &'static str> {
    use base64::Engine;
    match value {
        Any::Bytes(bytes) => Ok(bytes),
        Any::Text(text) => base64::engine::general_purpose::URL_SAFE_NO_PAD
            .decode(text.trim_end_matches('='))
            .map(Cow::Owned)
            .map_err(|_| "vd: it is not base64 for URLs"),
        Any::Number(_) => Err("vd: it is a number"),
    }
}

struct LabelSeed;

impl<'de> DeserializeSeed<'de> for LabelSeed {
    type Value = Label;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Label, D::Error> {
        from.deserialize_identifier(self)
    }
}

impl Visitor<'_> for LabelSeed {
    type Value = Label;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a label")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Label, E> {
        match LABELS.iter().find(|(known, ..)| *known == name) {
            Some((.., label)) => Ok(*label),
            None if name.ends_with('_') => {
                Err(E::custom(format!("{name} must be understood (RFC 8428, 4.4), and is not supported")))
            }
            None => Ok(Label::Unknown),
        }
    }

    fn visit_bytes<E: Error>(self, name: &[u8]) -> Result<Label, E> {
        self.visit_str(&String::from_utf8_lossy(name))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Label, E> {
        Ok(LABELS.iter().find(|(_, known, _)| *known == number).map_or(Label::Unknown, |(.., label)| *label))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Label, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// The value of a field.
enum Any<'de> {
    Number(f64),
    Text(Cow<'de, str>),
    Bytes(Cow<'de, [u8]>),
}

struct AnySeed;

impl<'de> DeserializeSeed<'de> for AnySeed {
    type Value = Any<'de>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        any(from, self)
    }
}

impl<'de> Visitor<'de> for AnySeed {
    type Value = Any<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a number, text or bytes")
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of SenML are doubles")]
    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Any::Number(value as f64))
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of SenML are doubles")]
    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Any::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Any::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Any::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Any::Text(Cow::Borrowed(value)))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Self::Value, E> {
        Ok(Any::Bytes(Cow::Owned(value.to_vec())))
    }

    fn visit_borrowed_bytes<E>(self, value: &'de [u8]) -> Result<Self::Value, E> {
        Ok(Any::Bytes(Cow::Borrowed(value)))
    }
}
