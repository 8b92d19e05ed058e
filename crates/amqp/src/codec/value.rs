//! Values of any type (part 1, 1.6), for the places where the standard allows any: properties,
//! annotations, filters, bodies.

use super::code;
use super::error::{DecodeError, Fault, FieldError};
use super::reader::{ArrayHead, Reader, ascii, utf8};
use super::writer::{
    put_binary, put_bool, put_compound, put_fixed, put_length, put_null, put_string, put_symbol, put_timestamp,
    put_ubyte, put_uint, put_ulong, put_ushort,
};
use super::{MAX_ARRAY_DESCRIPTOR, MAX_DEPTH, MAX_ZERO_WIDTH_ELEMENTS};
use crate::types::{Symbol, Value};

/// Decodes one value from the front of `input`: the value and the bytes that follow it.
///
/// # Errors
/// `amqp:decode-error` for illegal encodings and for values beyond the bounds of this module.
pub fn decode_value(input: &[u8]) -> Result<(Value, &[u8]), DecodeError> {
    let mut reader = Reader::new(input);
    match value(&mut reader, MAX_DEPTH) {
        Ok(value) => Ok((value, reader.rest())),
        Err(fault) => Err(fault.on("value", "")),
    }
}

/// Appends a value. An array whose elements are not of one type is written as a list.
pub fn encode_value(out: &mut Vec<u8>, value: &Value) {
    put_value(out, value);
}

/// Reads a value that may nest `depth` levels.
pub(super) fn value(reader: &mut Reader<'_>, depth: u32) -> Result<Value, Fault> {
    let code = reader.byte()?;
    value_body(reader, code, depth)
}

/// Reads a value after its constructor.
fn value_body(reader: &mut Reader<'_>, code: u8, depth: u32) -> Result<Value, Fault> {
    Ok(match code {
        code::NULL => Value::Null,
        code::TRUE => Value::Bool(true),
        code::FALSE => Value::Bool(false),
        code::BOOLEAN => Value::Bool(reader.bool_byte()?),
        code::UBYTE => Value::Ubyte(reader.byte()?),
        code::USHORT => Value::Ushort(u16::from_be_bytes(reader.bytes()?)),
        code::UINT_0 => Value::Uint(0),
        code::SMALL_UINT => Value::Uint(u32::from(reader.byte()?)),
        code::UINT => Value::Uint(u32::from_be_bytes(reader.bytes()?)),
        code::ULONG_0 => Value::Ulong(0),
        code::SMALL_ULONG => Value::Ulong(u64::from(reader.byte()?)),
        code::ULONG => Value::Ulong(u64::from_be_bytes(reader.bytes()?)),
        code::BYTE => Value::Byte(i8::from_be_bytes(reader.bytes()?)),
        code::SHORT => Value::Short(i16::from_be_bytes(reader.bytes()?)),
        code::SMALL_INT => Value::Int(i32::from(i8::from_be_bytes(reader.bytes()?))),
        code::INT => Value::Int(i32::from_be_bytes(reader.bytes()?)),
        code::SMALL_LONG => Value::Long(i64::from(i8::from_be_bytes(reader.bytes()?))),
        code::LONG => Value::Long(i64::from_be_bytes(reader.bytes()?)),
        code::FLOAT => Value::Float(f32::from_be_bytes(reader.bytes()?)),
        code::DOUBLE => Value::Double(f64::from_be_bytes(reader.bytes()?)),
        code::DECIMAL_32 => Value::Decimal32(reader.bytes()?),
        code::DECIMAL_64 => Value::Decimal64(reader.bytes()?),
        code::DECIMAL_128 => Value::Decimal128(reader.bytes()?),
        code::CHAR => Value::Char(char::from_u32(u32::from_be_bytes(reader.bytes()?)).ok_or(Fault::Char)?),
        code::TIMESTAMP => Value::Timestamp(i64::from_be_bytes(reader.bytes()?)),
        code::UUID => Value::Uuid(reader.bytes()?),
        code::BINARY_8 => Value::Binary(reader.variable_8()?.to_vec()),
        code::BINARY_32 => Value::Binary(reader.variable_32()?.to_vec()),
        code::STRING_8 => Value::String(utf8(reader.variable_8()?)?.to_owned()),
        code::STRING_32 => Value::String(utf8(reader.variable_32()?)?.to_owned()),
        code::SYM_8 => Value::Symbol(Symbol::from(ascii(reader.variable_8()?)?)),
        code::SYM_32 => Value::Symbol(Symbol::from(ascii(reader.variable_32()?)?)),
        _ => return compound_body(reader, code, depth),
    })
}

/// Reads a value that holds others, after its constructor.
fn compound_body(reader: &mut Reader<'_>, code: u8, depth: u32) -> Result<Value, Fault> {
    let inner = depth.checked_sub(1).ok_or(Fault::TooDeep)?;
    match code {
        code::DESCRIBED => {
            let descriptor = value(reader, inner)?;
            Ok(Value::Described(Box::new((descriptor, value(reader, inner)?))))
        }
        code::LIST_0 | code::LIST_8 | code::LIST_32 => {
            let (count, mut elements) = reader.compound(code)?;
            let list = list(&mut elements, count, inner)?;
            if elements.is_empty() { Ok(Value::List(list)) } else { Err(Fault::Leftover) }
        }
        code::MAP_8 | code::MAP_32 => {
            let (count, mut entries) = reader.map_body(code)?;
            let mut map = Vec::new();
            for _ in 0..count / 2 {
                let key = value(&mut entries, inner)?;
                map.push((key, value(&mut entries, inner)?));
            }
            if entries.is_empty() { Ok(Value::Map(map)) } else { Err(Fault::Leftover) }
        }
        code::ARRAY_8 | code::ARRAY_32 => array(reader.array_body(code)?, inner).map(Value::Array),
        unknown => Err(Fault::UnknownCode(unknown)),
    }
}

/// Reads `count` values.
pub(super) fn list(elements: &mut Reader<'_>, count: usize, depth: u32) -> Result<Vec<Value>, Fault> {
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(value(elements, depth)?);
    }
    Ok(list)
}

fn array(head: ArrayHead<'_>, depth: u32) -> Result<Vec<Value>, Fault> {
    let ArrayHead { count, descriptor, code, mut elements } = head;
    let descriptor = match descriptor {
        Some(mut reader) => Some(value(&mut reader, depth)?),
        None => None,
    };
    let mut array = Vec::new();
    for _ in 0..count {
        let element = value_body(&mut elements, code, depth)?;
        array.push(match &descriptor {
            Some(descriptor) => Value::Described(Box::new((descriptor.clone(), element))),
            None => element,
        });
    }
    if elements.is_empty() { Ok(array) } else { Err(Fault::Leftover) }
}

/// Appends a value with its constructor.
pub(super) fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => put_null(out),
        Value::Bool(value) => put_bool(out, *value),
        Value::Ubyte(value) => put_ubyte(out, *value),
        Value::Ushort(value) => put_ushort(out, *value),
        Value::Uint(value) => put_uint(out, *value),
        Value::Ulong(value) => put_ulong(out, *value),
        Value::Int(value) => match i8::try_from(*value) {
            Ok(small) => put_fixed(out, code::SMALL_INT, small.to_be_bytes()),
            Err(_) => put_fixed(out, code::INT, value.to_be_bytes()),
        },
        Value::Long(value) => match i8::try_from(*value) {
            Ok(small) => put_fixed(out, code::SMALL_LONG, small.to_be_bytes()),
            Err(_) => put_fixed(out, code::LONG, value.to_be_bytes()),
        },
        Value::Timestamp(value) => put_timestamp(out, *value),
        Value::Binary(value) => put_binary(out, value),
        Value::String(value) => put_string(out, value),
        Value::Symbol(value) => put_symbol(out, value),
        Value::List(list) => put_list(out, list),
        Value::Map(map) => put_compound(out, code::MAP_8, |out| put_entries(out, map)),
        Value::Array(array) => put_array(out, array),
        Value::Described(pair) => {
            out.push(code::DESCRIBED);
            put_value(out, &pair.0);
            put_value(out, &pair.1);
        }
        fixed => {
            out.push(element_code(fixed, false));
            put_element(out, fixed, false);
        }
    }
}

/// Appends a list of any values.
pub(super) fn put_list(out: &mut Vec<u8>, list: &[Value]) {
    if list.is_empty() {
        out.push(code::LIST_0);
        return;
    }
    put_compound(out, code::LIST_8, |out| {
        list.iter().for_each(|value| put_value(out, value));
        list.len()
    });
}

fn put_entries(out: &mut Vec<u8>, map: &[(Value, Value)]) -> usize {
    for (key, value) in map {
        put_value(out, key);
        put_value(out, value);
    }
    map.len() * 2
}

fn put_array(out: &mut Vec<u8>, array: &[Value]) {
    if is_array(array) {
        put_compound(out, code::ARRAY_8, |out| put_array_content(out, array));
    } else {
        put_list(out, array);
    }
}

/// Writes the constructor that all elements share, then the elements; returns their number. An
/// empty array has the type null, because its element type is unknown.
fn put_array_content(out: &mut Vec<u8>, array: &[Value]) -> usize {
    let Some(first) = array.first() else {
        out.push(code::NULL);
        return 0;
    };
    let wide = array.iter().any(|element| variable_length(undescribed(element)) > 255);
    if let Value::Described(pair) = first {
        out.push(code::DESCRIBED);
        put_value(out, &pair.0);
    }
    out.push(element_code(undescribed(first), wide));
    array.iter().for_each(|element| put_element(out, undescribed(element), wide));
    array.len()
}

/// Whether `array` can be written as one: elements of one type, within the bounds that decoding
/// has.
fn is_array(array: &[Value]) -> bool {
    let Some(first) = array.first() else { return true };
    if let Value::Described(pair) = first {
        let described = match &pair.0 {
            Value::Ulong(_) => true,
            Value::Symbol(symbol) => symbol.as_str().len() <= MAX_ARRAY_DESCRIPTOR,
            _ => false,
        };
        if !described || matches!(pair.1, Value::Described(_)) {
            return false;
        }
    }
    if matches!(undescribed(first), Value::Null) && array.len() > MAX_ZERO_WIDTH_ELEMENTS {
        return false;
    }
    array.iter().all(|element| {
        let nested_is_array = match undescribed(element) {
            Value::Array(nested) => is_array(nested),
            _ => true,
        };
        nested_is_array && same_type(first, element)
    })
}

fn undescribed(value: &Value) -> &Value {
    match value {
        Value::Described(pair) => &pair.1,
        plain => plain,
    }
}

/// Whether two values have the same constructor, descriptor included.
fn same_type(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Described(a), Value::Described(b)) => {
            a.0 == b.0 && element_code(&a.1, true) == element_code(&b.1, true)
        }
        _ => element_code(a, true) == element_code(b, true),
    }
}

fn variable_length(value: &Value) -> usize {
    match value {
        Value::Binary(bytes) => bytes.len(),
        Value::String(text) => text.len(),
        Value::Symbol(symbol) => symbol.as_str().len(),
        _ => 0,
    }
}

/// The constructor of a value as an element of an array: full width, because all elements share it.
/// `wide` selects four-byte lengths for variable-width values.
fn element_code(value: &Value, wide: bool) -> u8 {
    let variable = |code_8: u8| if wide { code_8 | 0x10 } else { code_8 };
    match value {
        Value::Null => code::NULL,
        Value::Bool(_) => code::BOOLEAN,
        Value::Ubyte(_) => code::UBYTE,
        Value::Ushort(_) => code::USHORT,
        Value::Uint(_) => code::UINT,
        Value::Ulong(_) => code::ULONG,
        Value::Byte(_) => code::BYTE,
        Value::Short(_) => code::SHORT,
        Value::Int(_) => code::INT,
        Value::Long(_) => code::LONG,
        Value::Float(_) => code::FLOAT,
        Value::Double(_) => code::DOUBLE,
        Value::Decimal32(_) => code::DECIMAL_32,
        Value::Decimal64(_) => code::DECIMAL_64,
        Value::Decimal128(_) => code::DECIMAL_128,
        Value::Char(_) => code::CHAR,
        Value::Timestamp(_) => code::TIMESTAMP,
        Value::Uuid(_) => code::UUID,
        Value::Binary(_) => variable(code::BINARY_8),
        Value::String(_) => variable(code::STRING_8),
        Value::Symbol(_) => variable(code::SYM_8),
        Value::List(_) => code::LIST_32,
        Value::Map(_) => code::MAP_32,
        Value::Array(_) => code::ARRAY_32,
        Value::Described(_) => code::DESCRIBED,
    }
}

/// Appends a value without its constructor, in the form that [`element_code`] selects.
fn put_element(out: &mut Vec<u8>, value: &Value, wide: bool) {
    match value {
        Value::Null => {}
        Value::Bool(value) => out.push(u8::from(*value)),
        Value::Ubyte(value) => out.push(*value),
        Value::Ushort(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Uint(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Ulong(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Byte(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Short(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Int(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Long(value) | Value::Timestamp(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Float(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Double(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Decimal32(bytes) => out.extend_from_slice(bytes),
        Value::Decimal64(bytes) => out.extend_from_slice(bytes),
        Value::Decimal128(bytes) | Value::Uuid(bytes) => out.extend_from_slice(bytes),
        Value::Char(value) => out.extend_from_slice(&u32::from(*value).to_be_bytes()),
        Value::Binary(bytes) => put_bytes(out, bytes, wide),
        Value::String(text) => put_bytes(out, text.as_bytes(), wide),
        Value::Symbol(symbol) => put_bytes(out, symbol.as_str().as_bytes(), wide),
        compound => put_wide_compound(out, compound),
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8], wide: bool) {
    put_length(out, wide, bytes.len());
    out.extend_from_slice(bytes);
}

/// A list, map or array inside an array: four-byte size and count, even for small values.
fn put_wide_compound(out: &mut Vec<u8>, value: &Value) {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    let count = match value {
        Value::List(list) => {
            list.iter().for_each(|value| put_value(out, value));
            list.len()
        }
        Value::Map(map) => put_entries(out, map),
        Value::Array(array) => put_array_content(out, array),
        _ => 0,
    };
    let size = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
    out[start + 4..start + 8].copy_from_slice(&(count as u32).to_be_bytes());
}
