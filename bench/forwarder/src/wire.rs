//! The subset of AMQP 1.0 that a forwarder reads and writes.
//!
//! A reader of described lists that decodes only the needed fields, and frames from templates. It
//! shares no code with the node's codec, so that the comparison is independent.

/// Descriptor codes of the performatives (part 2, 2.7) and SASL frames (part 5, 5.3.3) that are
/// examined.
pub(crate) mod code {
    pub(crate) const OPEN: u8 = 0x10;
    pub(crate) const BEGIN: u8 = 0x11;
    pub(crate) const ATTACH: u8 = 0x12;
    pub(crate) const FLOW: u8 = 0x13;
    pub(crate) const TRANSFER: u8 = 0x14;
    pub(crate) const DISPOSITION: u8 = 0x15;
    pub(crate) const CLOSE: u8 = 0x18;
    pub(crate) const SASL_INIT: u8 = 0x41;
}

pub(crate) const AMQP_HEADER: [u8; 8] = *b"AMQP\x00\x01\x00\x00";
/// The SASL protocol header and `sasl-mechanisms` with ANONYMOUS, in one write.
pub(crate) const SASL_HELLO: [u8; 36] = *b"AMQP\x03\x01\x00\x00\
    \x00\x00\x00\x1c\x02\x01\x00\x00\x00\x53\x40\xc0\x0f\x01\xe0\x0c\x01\xa3\x09ANONYMOUS";
pub(crate) const SASL_OK: [u8; 16] = *b"\x00\x00\x00\x10\x02\x01\x00\x00\x00\x53\x44\xc0\x03\x01\x50\x00";
/// container-id `fwd`, max-frame-size 1 MiB
pub(crate) const OPEN: [u8; 25] =
    *b"\x00\x00\x00\x19\x02\x00\x00\x00\x00\x53\x10\xc0\x0c\x03\xa1\x03fwd\x40\x70\x00\x10\x00\x00";
/// remote-channel 0, next-outgoing-id 0, both windows of the largest size
pub(crate) const BEGIN: [u8; 28] = *b"\x00\x00\x00\x1c\x02\x00\x00\x00\x00\x53\x11\xc0\x0f\x04\x60\x00\x00\x43\
    \x70\x7f\xff\xff\xff\x70\x7f\xff\xff\xff";
pub(crate) const CLOSE: [u8; 12] = *b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x18\x45";

/// A described list, the form of every performative (part 1, 1.4).
pub(crate) struct List<'a> {
    /// the low byte of a numeric descriptor
    pub(crate) descriptor: u8,
    pub(crate) fields: Fields<'a>,
    /// the bytes after the list: a transfer's payload
    pub(crate) after: &'a [u8],
}

/// Walks the fields of a list; a null or absent field is `None`.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    count: u32,
}

impl<'a> Fields<'a> {
    /// The next field with its constructor. A malformed one ends the list.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<&'a [u8]> {
        if self.count == 0 {
            return None;
        }
        self.count -= 1;
        match value_size(self.rest) {
            Some(size) => {
                let (value, rest) = self.rest.split_at(size);
                self.rest = rest;
                (value[0] != 0x40).then_some(value)
            }
            None => {
                self.count = 0;
                None
            }
        }
    }

    #[inline]
    pub(crate) fn skip(&mut self, count: usize) -> &mut Self {
        for _ in 0..count {
            self.take();
        }
        self
    }

    /// The next field as an unsigned number; booleans count as 0 and 1.
    #[inline]
    pub(crate) fn number(&mut self) -> Option<u32> {
        self.take().and_then(number)
    }
}

/// Opens a described list with a numeric descriptor; `None` if the bytes are anything else.
#[inline]
pub(crate) fn list(input: &[u8]) -> Option<List<'_>> {
    let (descriptor, body) = match input {
        [0, 0x53, code, body @ ..] => (*code, body),
        [0, 0x80, 0, 0, 0, 0, 0, 0, 0, code, body @ ..] => (*code, body),
        _ => return None,
    };
    let (size, head, count) = match body {
        [0x45, ..] => (1, 1, 0),
        [0xc0, size, count, ..] => (2 + usize::from(*size), 3, u32::from(*count)),
        [0xd0, rest @ ..] if rest.len() >= 8 => (5 + u32_at(rest, 0) as usize, 9, u32_at(rest, 4)),
        _ => return None,
    };
    if size < head || body.len() < size {
        return None;
    }
    Some(List { descriptor, fields: Fields { rest: &body[head..size], count }, after: &body[size..] })
}

/// Bytes of the value at the front of `input`, constructor included; `None` if it is truncated or
/// of unknown width.
#[inline]
fn value_size(input: &[u8]) -> Option<usize> {
    let code = *input.first()?;
    let size = match code >> 4 {
        0 if code == 0 => {
            let descriptor = value_size(&input[1..])?;
            1 + descriptor + value_size(&input[1 + descriptor..])?
        }
        4 => 1,
        5 => 2,
        6 => 3,
        7 => 5,
        8 => 9,
        9 => 17,
        0xa | 0xc | 0xe => 2 + usize::from(*input.get(1)?),
        0xb | 0xd | 0xf if input.len() >= 5 => 5 + u32_at(input, 1) as usize,
        _ => return None,
    };
    (size <= input.len()).then_some(size)
}

#[inline]
fn number(value: &[u8]) -> Option<u32> {
    match value {
        [0x42..=0x44, ..] => Some(0),
        [0x41, ..] => Some(1),
        [0x50 | 0x52 | 0x53 | 0x56, byte, ..] => Some(u32::from(*byte)),
        [0x60, high, low, ..] => Some(u32::from(u16::from_be_bytes([*high, *low]))),
        [0x70, rest @ ..] if rest.len() >= 4 => Some(u32_at(rest, 0)),
        _ => None,
    }
}

/// The text of a string or symbol.
pub(crate) fn text(value: &[u8]) -> Option<&str> {
    let bytes = match value {
        [0xa1 | 0xa3, _, text @ ..] => text,
        [0xb1 | 0xb3, _, _, _, _, text @ ..] => text,
        _ => return None,
    };
    std::str::from_utf8(bytes).ok()
}

#[inline]
pub(crate) fn u32_at(input: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([input[at], input[at + 1], input[at + 2], input[at + 3]])
}

/// The fields of a transfer that the forwarder needs; deliveries of several frames are unsupported.
pub(crate) struct Transfer<'a> {
    pub(crate) delivery_id: u32,
    pub(crate) settled: bool,
    pub(crate) payload: &'a [u8],
}

/// Reads the fields of a transfer (2.7.5); `None` without delivery-id or with `more`.
#[inline]
pub(crate) fn transfer<'a>(list: &mut List<'a>) -> Option<Transfer<'a>> {
    let fields = &mut list.fields;
    let delivery_id = fields.skip(1).number()?;
    let settled = fields.skip(2).number() == Some(1);
    let more = fields.number() == Some(1);
    (!more).then_some(Transfer { delivery_id, settled, payload: list.after })
}

/// Appends a whole transfer frame on channel 0, handle 0; the tag is the delivery-id.
#[inline]
pub(crate) fn write_transfer(output: &mut Vec<u8>, delivery_id: u32, settled: bool, payload: &[u8]) {
    const SIZE: usize = 29;
    let mut head = *b"\x00\x00\x00\x00\x02\x00\x00\x00\x00\x53\x14\xc0\x10\x06\x43\
        \x70\x00\x00\x00\x00\xa0\x04\x00\x00\x00\x00\x43\x42\x42";
    let id = delivery_id.to_be_bytes();
    head[..4].copy_from_slice(&((SIZE + payload.len()) as u32).to_be_bytes());
    head[16..20].copy_from_slice(&id);
    head[22..26].copy_from_slice(&id);
    head[27] = if settled { 0x41 } else { 0x42 };
    output.reserve(SIZE + payload.len());
    output.extend_from_slice(&head);
    output.extend_from_slice(payload);
}

/// Appends `disposition(receiver, first..=last, settled, accepted)`.
pub(crate) fn write_accepted(output: &mut Vec<u8>, first: u32, last: u32) {
    let mut frame = *b"\x00\x00\x00\x1e\x02\x00\x00\x00\x00\x53\x15\xc0\x11\x05\x41\
        \x70\x00\x00\x00\x00\x70\x00\x00\x00\x00\x41\x00\x53\x24\x45";
    frame[16..20].copy_from_slice(&first.to_be_bytes());
    frame[21..25].copy_from_slice(&last.to_be_bytes());
    output.extend_from_slice(&frame);
}

/// Appends a flow; `link` is (delivery-count, link-credit) of handle 0.
pub(crate) fn write_flow(output: &mut Vec<u8>, next_incoming: u32, next_outgoing: u32, link: Option<(u32, u32)>) {
    const WINDOW: u32 = 0x7fff_ffff;
    let (delivery_count, credit) = link.unwrap_or_default();
    let values = [next_incoming, WINDOW, next_outgoing, WINDOW, 0, delivery_count, credit];
    let count = if link.is_some() { 7 } else { 4 };
    let size = 14 + 5 * count;
    output.extend_from_slice(&[0, 0, 0, size, 2, 0, 0, 0, 0, 0x53, code::FLOW, 0xc0, size - 13, count]);
    for value in &values[..usize::from(count)] {
        output.push(0x70);
        output.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends the answer to an attach: the same name and termini, the other role, handle 0.
pub(crate) fn write_attach(
    output: &mut Vec<u8>,
    name: &[u8],
    receiver: bool,
    source: Option<&[u8]>,
    target: Option<&[u8]>,
) {
    const NULL: &[u8] = &[0x40];
    let start = output.len();
    output.extend_from_slice(&[0, 0, 0, 0, 2, 0, 0, 0, 0, 0x53, code::ATTACH, 0xd0, 0, 0, 0, 0, 0, 0, 0, 10]);
    output.extend_from_slice(name);
    // handle 0, role, both settle modes by default
    output.extend_from_slice(&[0x43, if receiver { 0x41 } else { 0x42 }, 0x40, 0x40]);
    output.extend_from_slice(source.unwrap_or(NULL));
    output.extend_from_slice(target.unwrap_or(NULL));
    // unsettled, incomplete-unsettled, initial-delivery-count 0
    output.extend_from_slice(&[0x40, 0x42, 0x43]);
    let size = output.len() - start;
    output[start..start + 4].copy_from_slice(&(size as u32).to_be_bytes());
    output[start + 12..start + 16].copy_from_slice(&((size - 16) as u32).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_of_value_is_walked() {
        // null, true, ubyte, ushort, uint, ulong, uuid, string, binary32, list, described
        let values: &[&[u8]] = &[
            &[0x40],
            &[0x41],
            &[0x50, 7],
            &[0x60, 1, 0],
            &[0x70, 0, 0, 1, 0],
            &[0x80, 0, 0, 0, 0, 0, 0, 0, 1],
            &[0x98; 17],
            &[0xa1, 2, b'h', b'i'],
            &[0xb0, 0, 0, 0, 1, 9],
            &[0xc0, 1, 0],
            &[0x00, 0x53, 0x24, 0x45],
        ];
        let body = values.concat();
        let mut bytes = vec![0, 0x53, 0x10, 0xd0];
        bytes.extend((body.len() as u32 + 4).to_be_bytes());
        bytes.extend((values.len() as u32).to_be_bytes());
        bytes.extend(&body);
        bytes.extend(b"payload");
        let mut opened = list(&bytes).unwrap();
        assert_eq!((opened.descriptor, opened.after), (0x10, &b"payload"[..]));
        for value in values {
            assert_eq!(opened.fields.take(), (value[0] != 0x40).then_some(*value));
        }
        assert_eq!(opened.fields.take(), None);
    }

    #[test]
    fn numbers_come_in_every_width() {
        for (bytes, value) in [
            (&[0x43][..], Some(0)),
            (&[0x42], Some(0)),
            (&[0x41], Some(1)),
            (&[0x52, 200], Some(200)),
            (&[0x60, 1, 2], Some(258)),
            (&[0x70, 0, 1, 0, 0], Some(65536)),
            (&[0xa1, 1, b'x'], None),
        ] {
            assert_eq!(number(bytes), value);
        }
    }

    #[test]
    fn a_list_cut_anywhere_is_refused_or_ends_early() {
        let mut frame = Vec::new();
        write_transfer(&mut frame, 3, false, b"payload");
        let body = &frame[8..];
        assert_eq!(transfer(&mut list(body).unwrap()).unwrap().delivery_id, 3);
        for length in 0..21 {
            assert!(list(&body[..length]).is_none(), "{length}");
        }
        // the list claims more fields than it holds
        let mut short = list(&[0, 0x53, 0x14, 0xc0, 2, 6, 0x43]).unwrap();
        assert_eq!(short.fields.number(), Some(0));
        assert_eq!(short.fields.take(), None);
    }

    #[test]
    fn a_delivery_of_several_frames_is_refused() {
        let mut frame = Vec::new();
        write_transfer(&mut frame, 3, false, b"payload");
        frame[28] = 0x41;
        assert!(transfer(&mut list(&frame[8..]).unwrap()).is_none());
    }
}
