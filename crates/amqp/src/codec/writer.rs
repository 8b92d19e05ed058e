//! Encodes primitives and compounds onto the end of a buffer, each in its smallest form.

use super::code;
use crate::types::Symbol;

pub(super) fn put_null(out: &mut Vec<u8>) {
    out.push(code::NULL);
}

pub(super) fn put_bool(out: &mut Vec<u8>, value: bool) {
    out.push(if value { code::TRUE } else { code::FALSE });
}

pub(super) fn put_ubyte(out: &mut Vec<u8>, value: u8) {
    out.extend_from_slice(&[code::UBYTE, value]);
}

pub(super) fn put_ushort(out: &mut Vec<u8>, value: u16) {
    put_fixed(out, code::USHORT, value.to_be_bytes());
}

pub(super) fn put_uint(out: &mut Vec<u8>, value: u32) {
    match (value, u8::try_from(value)) {
        (0, _) => out.push(code::UINT_0),
        (_, Ok(small)) => out.extend_from_slice(&[code::SMALL_UINT, small]),
        _ => put_fixed(out, code::UINT, value.to_be_bytes()),
    }
}

pub(super) fn put_ulong(out: &mut Vec<u8>, value: u64) {
    match (value, u8::try_from(value)) {
        (0, _) => out.push(code::ULONG_0),
        (_, Ok(small)) => out.extend_from_slice(&[code::SMALL_ULONG, small]),
        _ => put_fixed(out, code::ULONG, value.to_be_bytes()),
    }
}

pub(super) fn put_timestamp(out: &mut Vec<u8>, milliseconds: i64) {
    put_fixed(out, code::TIMESTAMP, milliseconds.to_be_bytes());
}

pub(super) fn put_binary(out: &mut Vec<u8>, value: &[u8]) {
    put_variable(out, code::BINARY_8, value);
}

pub(super) fn put_string(out: &mut Vec<u8>, value: &str) {
    put_variable(out, code::STRING_8, value.as_bytes());
}

pub(super) fn put_symbol(out: &mut Vec<u8>, value: &Symbol) {
    put_variable(out, code::SYM_8, value.as_str().as_bytes());
}

/// A constructor and the bytes of a fixed-width value.
pub(super) fn put_fixed<const N: usize>(out: &mut Vec<u8>, code: u8, bytes: [u8; N]) {
    out.push(code);
    out.extend_from_slice(&bytes);
}

/// A variable-width value; `code_8` is its constructor with a one-byte length, 0x10 more the one
/// with four.
pub(super) fn put_variable(out: &mut Vec<u8>, code_8: u8, bytes: &[u8]) {
    if bytes.len() <= 255 {
        out.push(code_8);
    } else {
        out.push(code_8 | 0x10);
    }
    put_length(out, bytes.len() > 255, bytes.len());
    out.extend_from_slice(bytes);
}

/// A length in four bytes or in one.
pub(super) fn put_length(out: &mut Vec<u8>, wide: bool, length: usize) {
    if wide {
        out.extend_from_slice(&(length as u32).to_be_bytes());
    } else {
        out.push(length as u8);
    }
}

/// The descriptor of a type of the standard.
pub(super) fn put_descriptor(out: &mut Vec<u8>, number: u64) {
    out.push(code::DESCRIBED);
    put_ulong(out, number);
}

/// A list, map or array: `elements` writes the content and gives the number of elements. `code_8`
/// is the constructor of the small form, to which it is kept if size and count allow.
pub(super) fn put_compound(out: &mut Vec<u8>, code_8: u8, elements: impl FnOnce(&mut Vec<u8>) -> usize) {
    let start = open_compound(out, code_8);
    let count = elements(out);
    close_compound(out, start, count);
}

/// Reserves the head of a small compound; returns the position of its constructor.
pub(super) fn open_compound(out: &mut Vec<u8>, code_8: u8) -> usize {
    let start = out.len();
    out.extend_from_slice(&[code_8, 0, 0]);
    start
}

/// Fills in the head of a compound that ends here; a large one gets the wide constructor.
pub(super) fn close_compound(out: &mut Vec<u8>, start: usize, count: usize) {
    let content = out.len() - start - 3;
    if content < 255 && count <= 255 {
        out[start + 1] = (content + 1) as u8;
        out[start + 2] = count as u8;
        return;
    }
    out[start] |= 0x10;
    let mut head = [0; 8];
    head[..4].copy_from_slice(&((content + 4) as u32).to_be_bytes());
    head[4..].copy_from_slice(&(count as u32).to_be_bytes());
    out.splice(start + 1..start + 3, head);
}

/// The value of a `multiple` field: an array, also around a single symbol, which every peer
/// understands.
pub(super) fn put_symbols(out: &mut Vec<u8>, symbols: &[Symbol]) {
    let wide = symbols.iter().any(|symbol| symbol.as_str().len() > 255);
    put_compound(out, code::ARRAY_8, |out| {
        out.push(if wide { code::SYM_32 } else { code::SYM_8 });
        for symbol in symbols {
            put_length(out, wide, symbol.as_str().len());
            out.extend_from_slice(symbol.as_str().as_bytes());
        }
        symbols.len()
    });
}
