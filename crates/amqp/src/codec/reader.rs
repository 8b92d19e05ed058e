//! A cursor over encoded values (part 1, 1.6): every read is checked, nothing is allocated.

use super::code;
use super::error::Fault;
use super::{MAX_ARRAY_DESCRIPTOR, MAX_ZERO_WIDTH_ELEMENTS};

/// The remaining bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// An array's head: `count` elements without constructors of their own in `elements`.
pub(super) struct ArrayHead<'a> {
    pub(super) count: usize,
    /// encoded descriptor of every element
    pub(super) descriptor: Option<Reader<'a>>,
    /// constructor of every element
    pub(super) code: u8,
    pub(super) elements: Reader<'a>,
}

impl<'a> Reader<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes not read yet.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte, without consuming it.
    #[inline]
    pub(super) fn peek(&self) -> Result<u8, Fault> {
        self.rest.first().copied().ok_or(Fault::Truncated)
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, Fault> {
        let (&first, rest) = self.rest.split_first().ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(first)
    }

    /// The next `count` bytes.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` bytes, `N` known when compiled.
    #[inline]
    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    fn u32(&mut self) -> Result<u32, Fault> {
        self.bytes().map(u32::from_be_bytes)
    }

    /// Whether the next value is null; if so, consumes it.
    #[inline]
    pub(super) fn null(&mut self) -> bool {
        match self.rest {
            [code::NULL, rest @ ..] => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    #[inline]
    pub(super) fn bool(&mut self) -> Result<bool, Fault> {
        match self.byte()? {
            code::TRUE => Ok(true),
            code::FALSE => Ok(false),
            code::BOOLEAN => self.bool_byte(),
            found => Err(Fault::Expected { wanted: "boolean", found }),
        }
    }

    /// The byte of a boolean (0x56).
    #[inline]
    pub(super) fn bool_byte(&mut self) -> Result<bool, Fault> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Fault::Boolean),
        }
    }

    pub(super) fn ubyte(&mut self) -> Result<u8, Fault> {
        match self.byte()? {
            code::UBYTE => self.byte(),
            found => Err(Fault::Expected { wanted: "ubyte", found }),
        }
    }

    pub(super) fn ushort(&mut self) -> Result<u16, Fault> {
        match self.byte()? {
            code::USHORT => self.bytes().map(u16::from_be_bytes),
            found => Err(Fault::Expected { wanted: "ushort", found }),
        }
    }

    #[inline]
    pub(super) fn uint(&mut self) -> Result<u32, Fault> {
        match self.byte()? {
            code::SMALL_UINT => self.byte().map(u32::from),
            code::UINT_0 => Ok(0),
            code::UINT => self.u32(),
            found => Err(Fault::Expected { wanted: "uint", found }),
        }
    }

    #[inline]
    pub(super) fn ulong(&mut self) -> Result<u64, Fault> {
        match self.byte()? {
            code::SMALL_ULONG => self.byte().map(u64::from),
            code::ULONG_0 => Ok(0),
            code::ULONG => self.bytes().map(u64::from_be_bytes),
            found => Err(Fault::Expected { wanted: "ulong", found }),
        }
    }

    pub(super) fn timestamp(&mut self) -> Result<i64, Fault> {
        match self.byte()? {
            code::TIMESTAMP => self.bytes().map(i64::from_be_bytes),
            found => Err(Fault::Expected { wanted: "timestamp", found }),
        }
    }

    pub(super) fn uuid(&mut self) -> Result<[u8; 16], Fault> {
        match self.byte()? {
            code::UUID => self.bytes(),
            found => Err(Fault::Expected { wanted: "uuid", found }),
        }
    }

    #[inline]
    pub(super) fn binary(&mut self) -> Result<&'a [u8], Fault> {
        match self.byte()? {
            code::BINARY_8 => self.variable_8(),
            code::BINARY_32 => self.variable_32(),
            found => Err(Fault::Expected { wanted: "binary", found }),
        }
    }

    pub(super) fn string(&mut self) -> Result<&'a str, Fault> {
        let bytes = match self.byte()? {
            code::STRING_8 => self.variable_8()?,
            code::STRING_32 => self.variable_32()?,
            found => return Err(Fault::Expected { wanted: "string", found }),
        };
        utf8(bytes)
    }

    pub(super) fn symbol(&mut self) -> Result<&'a str, Fault> {
        let bytes = match self.byte()? {
            code::SYM_8 => self.variable_8()?,
            code::SYM_32 => self.variable_32()?,
            found => return Err(Fault::Expected { wanted: "symbol", found }),
        };
        ascii(bytes)
    }

    /// The bytes of a variable-width value with a one-byte length.
    #[inline]
    pub(super) fn variable_8(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.byte()?;
        self.take(usize::from(length))
    }

    /// The bytes of a variable-width value with a four-byte length.
    #[inline]
    pub(super) fn variable_32(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    /// The head of a list: the number of its elements, and the elements.
    #[inline(always)]
    pub(super) fn list(&mut self) -> Result<(usize, Reader<'a>), Fault> {
        match self.byte()? {
            code @ (code::LIST_8 | code::LIST_32 | code::LIST_0) => self.compound(code),
            found => Err(Fault::Expected { wanted: "list", found }),
        }
    }

    /// The head of a map: the number of its keys and values together (even), and those.
    pub(super) fn map(&mut self) -> Result<(usize, Reader<'a>), Fault> {
        match self.byte()? {
            code @ (code::MAP_8 | code::MAP_32) => self.map_body(code),
            found => Err(Fault::Expected { wanted: "map", found }),
        }
    }

    /// A map after its constructor.
    pub(super) fn map_body(&mut self, code: u8) -> Result<(usize, Reader<'a>), Fault> {
        let (count, entries) = self.compound(code)?;
        if count % 2 == 0 { Ok((count, entries)) } else { Err(Fault::OddMap) }
    }

    /// A list or map after its constructor. Each element takes a byte at least, which bounds the
    /// count.
    #[inline(always)]
    pub(super) fn compound(&mut self, code: u8) -> Result<(usize, Reader<'a>), Fault> {
        let (count, elements) = match code {
            code::LIST_0 => (0, Reader::new(&[])),
            code::LIST_8 | code::MAP_8 => self.counted_8()?,
            _ => self.counted_32()?,
        };
        if count > elements.rest.len() {
            return Err(Fault::Count);
        }
        Ok((count, elements))
    }

    /// The head of an array.
    pub(super) fn array(&mut self) -> Result<ArrayHead<'a>, Fault> {
        match self.byte()? {
            code @ (code::ARRAY_8 | code::ARRAY_32) => self.array_body(code),
            found => Err(Fault::Expected { wanted: "array", found }),
        }
    }

    /// An array after its constructor. An empty one may lack the constructor of its elements.
    pub(super) fn array_body(&mut self, code: u8) -> Result<ArrayHead<'a>, Fault> {
        let (count, mut elements) = if code == code::ARRAY_8 { self.counted_8()? } else { self.counted_32()? };
        if count == 0 && elements.is_empty() {
            return Ok(ArrayHead { count, descriptor: None, code: code::NULL, elements });
        }
        let mut code = elements.byte()?;
        let mut descriptor = None;
        if code == code::DESCRIBED {
            let start = elements;
            if elements.descriptor_value().is_err() {
                return Err(Fault::ArrayDescriptor);
            }
            let length = start.rest.len() - elements.rest.len();
            // The constructor and length of a symbol take at most five bytes.
            if length > MAX_ARRAY_DESCRIPTOR + 5 {
                return Err(Fault::ArrayDescriptor);
            }
            descriptor = Some(start);
            code = elements.byte()?;
        }
        match element_width(code)? {
            0 if count > MAX_ZERO_WIDTH_ELEMENTS => return Err(Fault::ZeroWidth),
            width if count.saturating_mul(width) > elements.rest.len() => return Err(Fault::Count),
            _ => {}
        }
        Ok(ArrayHead { count, descriptor, code, elements })
    }

    #[inline(always)]
    fn counted_8(&mut self) -> Result<(usize, Reader<'a>), Fault> {
        let size = self.byte()?;
        let mut body = Reader::new(self.take(usize::from(size))?);
        let count = body.byte()?;
        Ok((usize::from(count), body))
    }

    #[inline(always)]
    fn counted_32(&mut self) -> Result<(usize, Reader<'a>), Fault> {
        let size = self.u32()?;
        let mut body = Reader::new(self.take(size as usize)?);
        let count = body.u32()?;
        Ok((count as usize, body))
    }

    /// Skips one value of any type and returns its bytes. Checks its bounds but not its contents.
    #[inline]
    pub(super) fn skip(&mut self) -> Result<&'a [u8], Fault> {
        let start = self.rest;
        let mut values = 1_usize;
        while values > 0 {
            let code = self.byte()?;
            if code == code::DESCRIBED {
                values += 1; // its descriptor, then its value
                continue;
            }
            self.skip_body(code)?;
            values -= 1;
        }
        Ok(&start[..start.len() - self.rest.len()])
    }

    /// Steps over a value after its constructor. The high half of the constructor determines the
    /// width (1.2).
    #[inline]
    fn skip_body(&mut self, code: u8) -> Result<(), Fault> {
        let width = match code >> 4 {
            0x4 => 0,
            0x5 => 1,
            0x6 => 2,
            0x7 => 4,
            0x8 => 8,
            0x9 => 16,
            0xa | 0xc | 0xe => usize::from(self.byte()?),
            0xb | 0xd | 0xf => self.u32()? as usize,
            _ => return Err(Fault::UnknownCode(code)),
        };
        self.take(width).map(|_| ())
    }
}

/// The least bytes that a value takes after its constructor.
fn element_width(code: u8) -> Result<usize, Fault> {
    match code >> 4 {
        0x4 => Ok(0),
        0x5 => Ok(1),
        0x6 => Ok(2),
        0x7 => Ok(4),
        0x8 => Ok(8),
        0x9 => Ok(16),
        0xa => Ok(1),
        0xb => Ok(4),
        0xc | 0xe => Ok(2),
        0xd | 0xf => Ok(8),
        _ => Err(Fault::UnknownCode(code)),
    }
}

/// Bytes that must be UTF-8.
#[inline]
pub(super) fn utf8(bytes: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(bytes).map_err(|_| Fault::Utf8)
}

/// Bytes that must be ASCII.
#[inline]
pub(super) fn ascii(bytes: &[u8]) -> Result<&str, Fault> {
    if bytes.is_ascii() { utf8(bytes) } else { Err(Fault::NotAscii) }
}
