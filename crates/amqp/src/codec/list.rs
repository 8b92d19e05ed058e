//! Composite types (part 1, 1.4): described lists whose trailing fields may be omitted and whose
//! nulls mean the default. Errors name the field that cannot be read.

use super::MAX_DEPTH;
use super::code;
use super::error::{DecodeError, Fault, FieldError};
use super::reader::Reader;
use super::value::{put_value, value};
use super::writer::{
    close_compound, open_compound, put_bool, put_compound, put_descriptor, put_null, put_symbol, put_symbols,
};
use crate::types::{Fields, Symbol};

/// The fields of one composite value, read in order.
pub(super) struct ListReader<'a> {
    fields: Reader<'a>,
    left: usize,
    owner: &'static str,
}

impl<'a> ListReader<'a> {
    /// Takes the list that follows the descriptor of an `owner`.
    #[inline(always)]
    pub(super) fn open(reader: &mut Reader<'a>, owner: &'static str) -> Result<Self, DecodeError> {
        match reader.list() {
            Ok((left, fields)) => Ok(Self { fields, left, owner }),
            Err(fault) => Err(fault.on(owner, "")),
        }
    }

    /// The next field; `None` if it is null or was omitted.
    #[inline(always)]
    pub(super) fn optional<T, E: FieldError>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, E>,
    ) -> Result<Option<T>, DecodeError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        if self.fields.null() {
            return Ok(None);
        }
        match read(&mut self.fields) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(error.on(self.owner, field)),
        }
    }

    /// The next field, which is mandatory.
    #[inline(always)]
    pub(super) fn required<T, E: FieldError>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, E>,
    ) -> Result<T, DecodeError> {
        match self.optional(field, read)? {
            Some(value) => Ok(value),
            None => Err(Fault::Missing.on(self.owner, field)),
        }
    }

    /// A boolean that is false by default.
    #[inline(always)]
    pub(super) fn flag(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        Ok(self.optional(field, Reader::bool)?.unwrap_or(false))
    }

    /// A string.
    pub(super) fn string(&mut self, field: &'static str) -> Result<Option<String>, DecodeError> {
        Ok(self.optional(field, Reader::string)?.map(str::to_owned))
    }

    /// A symbol.
    pub(super) fn symbol(&mut self, field: &'static str) -> Result<Option<Symbol>, DecodeError> {
        Ok(self.optional(field, Reader::symbol)?.map(Symbol::from))
    }

    /// Bytes.
    pub(super) fn binary(&mut self, field: &'static str) -> Result<Option<Vec<u8>>, DecodeError> {
        Ok(self.optional(field, Reader::binary)?.map(<[u8]>::to_vec))
    }

    /// A map with symbols as keys, empty by default.
    pub(super) fn fields(&mut self, field: &'static str) -> Result<Fields, DecodeError> {
        Ok(self.optional(field, fields)?.unwrap_or_default())
    }

    /// A `multiple` field of symbols, empty by default.
    pub(super) fn symbols(&mut self, field: &'static str) -> Result<Vec<Symbol>, DecodeError> {
        Ok(self.optional(field, symbols)?.unwrap_or_default())
    }

    /// Ends the list. Fields beyond those known are skipped; bytes beyond the last field are an
    /// error. By reference: a copy of the reader would read back what the last field just wrote.
    #[inline]
    pub(super) fn finish(&mut self) -> Result<(), DecodeError> {
        if self.left == 0 && self.fields.is_empty() {
            return Ok(());
        }
        self.finish_unknown()
    }

    #[cold]
    fn finish_unknown(&mut self) -> Result<(), DecodeError> {
        for _ in 0..self.left {
            self.fields.skip().map_err(|fault| fault.on(self.owner, "(a field unknown here)"))?;
        }
        if self.fields.is_empty() { Ok(()) } else { Err(Fault::Leftover.on(self.owner, "")) }
    }
}

/// A map with symbols as keys. Strings are accepted as keys, because some clients send them.
pub(super) fn fields(reader: &mut Reader<'_>) -> Result<Fields, Fault> {
    let (count, mut entries) = reader.map()?;
    let mut fields = Fields::new();
    for _ in 0..count / 2 {
        let key = match entries.peek()? {
            code::STRING_8 | code::STRING_32 => {
                let key = entries.string()?;
                if !key.is_ascii() {
                    return Err(Fault::NotAscii);
                }
                key
            }
            code::SYM_8 | code::SYM_32 => entries.symbol()?,
            found => return Err(Fault::Expected { wanted: "symbol as a key", found }),
        };
        fields.push((Symbol::from(key), value(&mut entries, MAX_DEPTH - 1)?));
    }
    if entries.is_empty() { Ok(fields) } else { Err(Fault::Leftover) }
}

/// One symbol, or an array of them (`multiple="true"`, part 1, 1.4).
pub(super) fn symbols(reader: &mut Reader<'_>) -> Result<Vec<Symbol>, Fault> {
    if matches!(reader.peek()?, code::SYM_8 | code::SYM_32) {
        return Ok(vec![Symbol::from(reader.symbol()?)]);
    }
    let mut array = reader.array()?;
    let mut symbols = Vec::new();
    for _ in 0..array.count {
        let bytes = match (array.descriptor, array.code) {
            (None, code::SYM_8) => array.elements.variable_8()?,
            (None, code::SYM_32) => array.elements.variable_32()?,
            (_, found) => return Err(Fault::Expected { wanted: "an array of symbols", found }),
        };
        symbols.push(Symbol::from(super::reader::ascii(bytes)?));
    }
    if array.elements.is_empty() { Ok(symbols) } else { Err(Fault::Leftover) }
}

/// A map with symbols as keys.
pub(super) fn put_fields(out: &mut Vec<u8>, fields: &Fields) {
    put_compound(out, code::MAP_8, |out| {
        for (key, value) in fields {
            put_symbol(out, key);
            put_value(out, value);
        }
        fields.len() * 2
    });
}

/// Writes a described list, the form of every composite type. Absent fields become null, and those
/// at the end are omitted.
pub(super) struct ListWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    count: usize,
    /// end and number of the fields up to the last one present
    kept: (usize, usize),
}

impl<'a> ListWriter<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>, descriptor: u64) -> Self {
        put_descriptor(out, descriptor);
        let start = open_compound(out, code::LIST_8);
        let kept = (out.len(), 0);
        Self { out, start, count: 0, kept }
    }

    /// A field that is present.
    pub(super) fn put<T>(&mut self, value: T, write: impl FnOnce(&mut Vec<u8>, T)) -> &mut Self {
        write(self.out, value);
        self.count += 1;
        self.kept = (self.out.len(), self.count);
        self
    }

    /// A field that may be absent.
    pub(super) fn maybe<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Vec<u8>, T)) -> &mut Self {
        match value {
            Some(value) => self.put(value, write),
            None => {
                put_null(self.out);
                self.count += 1;
                self
            }
        }
    }

    /// A boolean that is false by default.
    pub(super) fn flag(&mut self, value: bool) -> &mut Self {
        self.maybe(value.then_some(true), put_bool)
    }

    /// A map, absent when empty.
    pub(super) fn fields(&mut self, fields: &Fields) -> &mut Self {
        self.maybe((!fields.is_empty()).then_some(fields), put_fields)
    }

    /// A `multiple` field, absent when empty.
    pub(super) fn symbols(&mut self, symbols: &[Symbol]) -> &mut Self {
        self.maybe((!symbols.is_empty()).then_some(symbols), put_symbols)
    }

    pub(super) fn finish(&mut self) {
        let (end, count) = self.kept;
        self.out.truncate(end);
        if count == 0 {
            self.out.truncate(self.start);
            self.out.push(code::LIST_0);
        } else {
            close_compound(self.out, self.start, count);
        }
    }
}
