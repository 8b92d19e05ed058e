//! Walks a list or map in its encoding: unrequested elements are skipped, nothing is allocated.

use super::code;
use super::code::type_name;
use super::error::{Broken, Fault};
use super::reader::{Reader, ascii, utf8};

/// A value without nested values, borrowed from its encoding (part 1, 1.6).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// null
    Null,
    /// boolean
    Bool(bool),
    /// ubyte, ushort, uint or ulong
    Unsigned(u64),
    /// byte, short, int or long
    Signed(i64),
    /// float or double
    Float(f64),
    /// decimal32, decimal64 or decimal128: 4, 8 or 16 bytes
    Decimal(&'a [u8]),
    /// char
    Char(char),
    /// timestamp: milliseconds since the Unix epoch
    Timestamp(i64),
    /// uuid: 16 bytes
    Uuid(&'a [u8]),
    /// binary
    Binary(&'a [u8]),
    /// string
    Text(&'a str),
    /// symbol
    Symbol(&'a str),
    /// list, map, array or a described value: skipped
    Compound,
}

/// The elements of a list, or the keys and values of a map in turn, from the front.
///
/// Each call reads one element. After an error the remaining elements are undefined.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    left: usize,
    rest: Reader<'a>,
}

impl<'a> Elements<'a> {
    /// The elements of an encoded list.
    ///
    /// # Errors
    /// [`Broken`]: the value is not a list, or ends beyond the bytes.
    #[inline]
    pub fn of_list(value: &'a [u8]) -> Result<Self, Broken> {
        let (left, rest) = Reader::new(value).list()?;
        Ok(Self { left, rest })
    }

    /// The keys and values of an encoded map.
    ///
    /// # Errors
    /// [`Broken`]: the value is not a map, ends beyond the bytes, or has a key without a value.
    #[inline]
    pub fn of_map(value: &'a [u8]) -> Result<Self, Broken> {
        let (left, rest) = Reader::new(value).map()?;
        Ok(Self { left, rest })
    }

    /// The number of remaining elements; a key and its value count as two.
    #[inline]
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Skips one element.
    ///
    /// # Errors
    /// [`Broken`]: there is none, or it is malformed.
    #[inline]
    pub fn skip(&mut self) -> Result<(), Broken> {
        self.count()?;
        self.rest.skip()?;
        Ok(())
    }

    /// Skips one element and returns its encoding, for `decode_value`.
    /// # Errors
    /// [`Broken`]: there is none, or it is malformed.
    #[inline]
    pub fn encoded(&mut self) -> Result<&'a [u8], Broken> {
        self.count()?;
        Ok(self.rest.skip()?)
    }

    /// Reads a string or symbol as bytes without checking that they are text: enough to compare a
    /// key.
    ///
    /// # Errors
    /// [`Broken`]: there is no element, or it is neither string nor symbol.
    #[inline]
    pub fn key(&mut self) -> Result<&'a [u8], Broken> {
        self.count()?;
        // The form of nearly all keys, with one check of the bounds.
        if let [code::STRING_8 | code::SYM_8, length, rest @ ..] = self.rest.rest()
            && let Some((key, rest)) = rest.split_at_checked(usize::from(*length))
        {
            self.rest = Reader::new(rest);
            return Ok(key);
        }
        let key = match self.rest.byte()? {
            code::STRING_8 | code::SYM_8 => self.rest.variable_8()?,
            code::STRING_32 | code::SYM_32 => self.rest.variable_32()?,
            found => return Err(Fault::Expected { wanted: "string or symbol", found }.into()),
        };
        Ok(key)
    }

    /// Reads one element.
    ///
    /// # Errors
    /// [`Broken`]: there is none, or it is malformed.
    #[inline]
    pub fn scalar(&mut self) -> Result<Scalar<'a>, Broken> {
        self.count()?;
        Ok(read(&mut self.rest)?)
    }

    #[inline]
    fn count(&mut self) -> Result<(), Broken> {
        self.left = self.left.checked_sub(1).ok_or(Broken::Malformed)?;
        Ok(())
    }
}

/// The name of the type of an encoded value (part 1, 1.6), such as `ulong`; that of its value if it
/// is described.
#[must_use]
pub fn type_of(encoded: &[u8]) -> &'static str {
    let mut reader = Reader::new(encoded);
    while reader.peek() == Ok(code::DESCRIBED) {
        if reader.byte().is_err() || reader.skip().is_err() {
            break;
        }
    }
    reader.peek().map_or("no type", type_name)
}

/// Reads the value that `encoded` begins with.
/// # Errors
/// [`Broken`]: it ends beyond the bytes, or is malformed.
#[inline]
pub fn scalar(encoded: &[u8]) -> Result<Scalar<'_>, Broken> {
    Ok(read(&mut Reader::new(encoded))?)
}

#[inline]
fn read<'a>(reader: &mut Reader<'a>) -> Result<Scalar<'a>, Fault> {
    let whole = *reader;
    Ok(match reader.byte()? {
        code::NULL => Scalar::Null,
        code::TRUE => Scalar::Bool(true),
        code::FALSE => Scalar::Bool(false),
        code::BOOLEAN => Scalar::Bool(reader.bool_byte()?),
        code::STRING_8 => Scalar::Text(utf8(reader.variable_8()?)?),
        code::STRING_32 => Scalar::Text(utf8(reader.variable_32()?)?),
        code::SYM_8 => Scalar::Symbol(ascii(reader.variable_8()?)?),
        code::SYM_32 => Scalar::Symbol(ascii(reader.variable_32()?)?),
        code::UINT_0 | code::ULONG_0 => Scalar::Unsigned(0),
        code::UBYTE | code::SMALL_UINT | code::SMALL_ULONG => Scalar::Unsigned(reader.byte()?.into()),
        code::USHORT => Scalar::Unsigned(u16::from_be_bytes(reader.bytes()?).into()),
        code::UINT => Scalar::Unsigned(u32::from_be_bytes(reader.bytes()?).into()),
        code::ULONG => Scalar::Unsigned(u64::from_be_bytes(reader.bytes()?)),
        code::BYTE | code::SMALL_INT | code::SMALL_LONG => Scalar::Signed(i8::from_be_bytes(reader.bytes()?).into()),
        code::SHORT => Scalar::Signed(i16::from_be_bytes(reader.bytes()?).into()),
        code::INT => Scalar::Signed(i32::from_be_bytes(reader.bytes()?).into()),
        code::LONG => Scalar::Signed(i64::from_be_bytes(reader.bytes()?)),
        code::FLOAT => Scalar::Float(f32::from_be_bytes(reader.bytes()?).into()),
        code::DOUBLE => Scalar::Float(f64::from_be_bytes(reader.bytes()?)),
        code::DECIMAL_32 => Scalar::Decimal(reader.take(4)?),
        code::DECIMAL_64 => Scalar::Decimal(reader.take(8)?),
        code::DECIMAL_128 => Scalar::Decimal(reader.take(16)?),
        code::CHAR => Scalar::Char(char::from_u32(u32::from_be_bytes(reader.bytes()?)).ok_or(Fault::Char)?),
        code::TIMESTAMP => Scalar::Timestamp(i64::from_be_bytes(reader.bytes()?)),
        code::UUID => Scalar::Uuid(reader.take(16)?),
        code::BINARY_8 => Scalar::Binary(reader.variable_8()?),
        code::BINARY_32 => Scalar::Binary(reader.variable_32()?),
        code::DESCRIBED
        | code::LIST_0
        | code::LIST_8
        | code::LIST_32
        | code::MAP_8
        | code::MAP_32
        | code::ARRAY_8
        | code::ARRAY_32 => {
            *reader = whole;
            reader.skip()?;
            Scalar::Compound
        }
        unknown => return Err(Fault::UnknownCode(unknown)),
    })
}
