//! CBOR (RFC 8949) for the same visitors that read JSON: serde's side of minicbor's decoder.
//!
//! Tags are ignored, except for a time in seconds (tag 1), which becomes text (RFC 3339) so that
//! its unit is explicit. Undefined is null. Big numbers stay bytes.

use minicbor::data::Type;
use minicbor::decode::{Decoder, Error};
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use crate::{DEPTH_MAX, time};

/// Tag of seconds since 1970 (RFC 8949, 3.4.2).
const EPOCH_TIME: u64 = 1;
/// The end of an indefinite-length item.
const BREAK: u8 = 0xff;

/// An error in the bytes.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Fault(String);

impl de::Error for Fault {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

/// Reads one item.
pub(super) struct Deserializer<'de> {
    decoder: Decoder<'de>,
    depth_left: u32,
}

impl<'de> Deserializer<'de> {
    pub(super) fn new(bytes: &'de [u8]) -> Self {
        Self { decoder: Decoder::new(bytes), depth_left: DEPTH_MAX }
    }

    /// Nothing may follow the item.
    pub(super) fn end(&self) -> Result<(), Fault> {
        let left = self.decoder.input().len() - self.decoder.position();
        if left == 0 { Ok(()) } else { Err(Fault(format!("{left} bytes follow the item"))) }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        let left = self.depth_left.checked_sub(1);
        self.depth_left = left.ok_or_else(|| Fault(format!("values nest deeper than {DEPTH_MAX} levels")))?;
        let value = read(self)?;
        self.depth_left += 1;
        Ok(value)
    }

    fn at_break(&mut self) -> Result<bool, Fault> {
        let at = self.decoder.position();
        match self.decoder.input().get(at) {
            Some(&BREAK) => {
                self.decoder.set_position(at + 1);
                Ok(true)
            }
            Some(_) => Ok(false),
            None => Err(Error::end_of_input().into()),
        }
    }

    fn tagged<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Fault> {
        let tag = self.decoder.tag()?;
        if tag.as_u64() != EPOCH_TIME {
            return self.deeper(|this| de::Deserializer::deserialize_any(this, visitor));
        }
        let seconds: f64 = match self.decoder.datatype()? {
            Type::F16 => self.decoder.f16()?.into(),
            Type::F32 => self.decoder.f32()?.into(),
            Type::F64 => self.decoder.f64()?,
            #[expect(clippy::cast_precision_loss, reason = "exact for 285,000,000 years")]
            _ => self.decoder.i64()? as f64,
        };
        let micros = (seconds * 1e6).round();
        if micros.abs() >= 9e18 || micros.is_nan() {
            return Err(Fault("a time is out of the range of a timestamp".to_owned()));
        }
        let mut text = Vec::new();
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
        time::write(&mut text, micros as i64);
        visitor.visit_str(&String::from_utf8_lossy(&text))
    }

    fn integer<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Fault> {
        let number = i128::from(self.decoder.int()?);
        match (i64::try_from(number), u64::try_from(number)) {
            (_, Ok(number)) => visitor.visit_u64(number),
            (Ok(number), _) => visitor.visit_i64(number),
            #[expect(
                clippy::cast_precision_loss,
                reason = "the nearest double of an integer that fits no integer type"
            )]
            _ => visitor.visit_f64(number as f64),
        }
    }
}

impl<'de> de::Deserializer<'de> for &mut Deserializer<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.decoder.datatype()? {
            Type::Bool => visitor.visit_bool(self.decoder.bool()?),
            Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::I8 | Type::I16 | Type::I32 | Type::I64 | Type::Int => {
                self.integer(visitor)
            }
            Type::F16 => visitor.visit_f64(self.decoder.f16()?.into()),
            Type::F32 => visitor.visit_f64(self.decoder.f32()?.into()),
            Type::F64 => visitor.visit_f64(self.decoder.f64()?),
            Type::Bytes => visitor.visit_borrowed_bytes(self.decoder.bytes()?),
            Type::String => visitor.visit_borrowed_str(self.decoder.str()?),
            Type::BytesIndef => {
                let parts: Result<Vec<_>, _> = self.decoder.bytes_iter()?.collect();
                visitor.visit_byte_buf(parts?.concat())
            }
            Type::StringIndef => {
                let parts: Result<Vec<_>, _> = self.decoder.str_iter()?.collect();
                visitor.visit_string(parts?.concat())
            }
            Type::Null | Type::Undefined => {
                self.decoder.skip()?;
                visitor.visit_unit()
            }
            Type::Array | Type::ArrayIndef => {
                let left = self.decoder.array()?;
                self.deeper(|from| visitor.visit_seq(Items { from, left }))
            }
            Type::Map | Type::MapIndef => {
                let left = self.decoder.map()?;
                self.deeper(|from| visitor.visit_map(Items { from, left }))
            }
            Type::Tag => self.tagged(visitor),
            unknown @ (Type::Simple | Type::Break | Type::Unknown(_)) => {
                Err(Fault(format!("{unknown} at byte {} is not a value", self.decoder.position())))
            }
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.decoder.skip()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The rest of an array or map; `None`: up to a break.
struct Items<'a, 'de> {
    from: &'a mut Deserializer<'de>,
    left: Option<u64>,
}

impl Items<'_, '_> {
    fn is_over(&mut self) -> Result<bool, Fault> {
        match &mut self.left {
            None => self.from.at_break(),
            Some(0) => Ok(true),
            Some(left) => {
                *left -= 1;
                Ok(false)
            }
        }
    }
}

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        if self.is_over()? { Ok(None) } else { seed.deserialize(&mut *self.from).map(Some) }
    }
}

impl<'de> MapAccess<'de> for Items<'_, 'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        if self.is_over()? { Ok(None) } else { seed.deserialize(&mut *self.from).map(Some) }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        seed.deserialize(&mut *self.from)
    }
}
