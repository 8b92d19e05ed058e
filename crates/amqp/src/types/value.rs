//! Part 1, Types: every primitive, described values, and the types `Symbol` and `Fields`, which all
//! parts use.

use std::borrow::Cow;
use std::fmt;

/// A symbol (part 1, 1.6.21): ASCII text from a constrained domain. Constants cost no allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Symbol(pub Cow<'static, str>);

impl Symbol {
    /// A symbol known at compile time.
    #[must_use]
    pub const fn constant(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// The text of the symbol.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Symbol {
    fn from(text: &str) -> Self {
        Self(Cow::Owned(text.to_owned()))
    }
}

impl From<String> for Symbol {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ":{}", self.0)
    }
}

/// A `fields` map (part 2, 2.5.11 and others): symbol keys, any value, in the order of the wire.
pub type Fields = Vec<(Symbol, Value)>;

/// Any value of the type system of part 1. Maps and lists keep the order of the wire.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `boolean`
    Bool(bool),
    /// `ubyte`
    Ubyte(u8),
    /// `ushort`
    Ushort(u16),
    /// `uint`
    Uint(u32),
    /// `ulong`
    Ulong(u64),
    /// `byte`
    Byte(i8),
    /// `short`
    Short(i16),
    /// `int`
    Int(i32),
    /// `long`
    Long(i64),
    /// `float`
    Float(f32),
    /// `double`
    Double(f64),
    /// `decimal32`, as the four bytes of the wire
    Decimal32([u8; 4]),
    /// `decimal64`, as the eight bytes of the wire
    Decimal64([u8; 8]),
    /// `decimal128`, as the sixteen bytes of the wire
    Decimal128([u8; 16]),
    /// `char`
    Char(char),
    /// `timestamp`: milliseconds since the Unix epoch
    Timestamp(i64),
    /// `uuid`
    Uuid([u8; 16]),
    /// `binary`
    Binary(Vec<u8>),
    /// `string`
    String(String),
    /// `symbol`
    Symbol(Symbol),
    /// `list`
    List(Vec<Value>),
    /// `map`
    Map(Vec<(Value, Value)>),
    /// `array`: elements of one type
    Array(Vec<Value>),
    /// a described value: descriptor, value
    Described(Box<(Value, Value)>),
}
