//! Objects of JSON and maps of CBOR: one is a row, an array of them are many.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::any;
use super::rows::{Datum, Rows};
use crate::text;

/// A whole body.
pub(super) struct Body<'r, 'a>(pub(super) &'r mut Rows<'a>);

impl<'de> DeserializeSeed<'de> for Body<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        any(from, self)
    }
}

impl<'de> Visitor<'de> for Body<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object, or an array of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        Record(self.0).visit_map(map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Record(self.0))?.is_some() {}
        Ok(())
    }
}

/// One row.
struct Record<'r, 'a>(&'r mut Rows<'a>);

impl<'de> DeserializeSeed<'de> for Record<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        any(from, self)
    }
}

impl<'de> Visitor<'de> for Record<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(place) = map.next_key_seed(Key(self.0))? {
            match place {
                Some(place) => map.next_value_seed(Field { rows: self.0, place })?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        self.0.end().map_err(A::Error::custom)
    }
}

/// A name to look up. Numbers, which CBOR allows as names, match by their digits.
struct Key<'r, 'a>(&'r mut Rows<'a>);

impl<'de> DeserializeSeed<'de> for Key<'_, '_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Key<'_, '_> {
    type Value = Option<usize>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.find(name.as_bytes()))
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<Self::Value, E> {
        Ok(self.0.find(name))
    }

    fn visit_i64<E>(self, name: i64) -> Result<Self::Value, E> {
        Ok(self.0.find(name.to_string().as_bytes()))
    }

    fn visit_u64<E>(self, name: u64) -> Result<Self::Value, E> {
        Ok(self.0.find(name.to_string().as_bytes()))
    }
}

/// The value of a field.
struct Field<'r, 'a> {
    rows: &'r mut Rows<'a>,
    place: usize,
}

impl Field<'_, '_> {
    fn set<E>(self, value: Datum<'_>) -> Result<(), E> {
        self.rows.set(self.place, value);
        Ok(())
    }

    /// Reads a nested value even if it is not needed, to find the bytes after it.
    fn compound<E>(self, walk: impl FnOnce(Option<&mut Vec<u8>>) -> Result<(), E>) -> Result<(), E> {
        let mut json = self.rows.takes_compounds(self.place).then(Vec::new);
        walk(json.as_mut())?;
        self.rows.set_compound(self.place, json.as_deref());
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Field<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        any(from, self)
    }
}

impl<'de> Visitor<'de> for Field<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.set(Datum::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.set(Datum::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.set(Datum::Signed(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.set(Datum::Unsigned(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.set(Datum::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.set(Datum::Text(value))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<(), E> {
        self.set(Datum::Bytes(value))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        self.compound(|json| match json {
            Some(json) => Json(json).visit_map(map),
            None => IgnoredAny.visit_map(map).map(drop),
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        self.compound(|json| match json {
            Some(json) => Json(json).visit_seq(list),
            None => IgnoredAny.visit_seq(list).map(drop),
        })
    }
}

/// Any value, written as JSON.
struct Json<'o>(&'o mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Json<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        any(from, self)
    }
}

impl<'de> Visitor<'de> for Json<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.extend_from_slice(b"null");
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        text::display(self.0, value);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        text::display(self.0, value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        text::display(self.0, value);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        text::float(self.0, value);
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        text::quoted(self.0, value);
        Ok(())
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<(), E> {
        self.0.push(b'"');
        text::base64(self.0, value);
        self.0.push(b'"');
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.0.push(b'[');
        let start = self.0.len();
        loop {
            let before = self.0.len();
            if before > start {
                self.0.push(b',');
            }
            if list.next_element_seed(Json(self.0))?.is_none() {
                self.0.truncate(before);
                break;
            }
        }
        self.0.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.0.push(b'{');
        let start = self.0.len();
        loop {
            let before = self.0.len();
            if before > start {
                self.0.push(b',');
            }
            if map.next_key_seed(Name(self.0))?.is_none() {
                self.0.truncate(before);
                break;
            }
            self.0.push(b':');
            map.next_value_seed(Json(self.0))?;
        }
        self.0.push(b'}');
        Ok(())
    }
}

/// The name of a member, written as JSON.
struct Name<'o>(&'o mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<(), E> {
        text::quoted(self.0, name);
        Ok(())
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<(), E> {
        text::quoted(self.0, &String::from_utf8_lossy(name));
        Ok(())
    }

    fn visit_i64<E>(self, name: i64) -> Result<(), E> {
        text::quoted(self.0, &name.to_string());
        Ok(())
    }

    fn visit_u64<E>(self, name: u64) -> Result<(), E> {
        text::quoted(self.0, &name.to_string());
        Ok(())
    }
}
