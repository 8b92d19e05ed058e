//! Deliveries, or parts of them, on their way to and from links.

use std::ops::Range;
use std::sync::Arc;

use super::wire::{Decoder, Encoder, Malformed, Shared, Wire};

/// A delivery to a consumer, or one part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// identifies it in [`Router::outcome`](super::Router::outcome), equal on all parts; `None` if
    /// it is settled
    pub token: Option<u64>,
    /// 2.8.11
    pub message_format: u32,
    /// this is the first part
    pub first: bool,
    /// more parts follow
    pub more: bool,
    /// the delivery is aborted (2.6.14); its token is no longer valid
    pub aborted: bool,
    /// bytes of the message
    pub payload: &'a [u8],
    /// the memory that contains the payload, if others may keep it instead of a copy
    pub shared: Option<&'a Arc<Vec<u8>>>,
}

impl<'a> Delivery<'a> {
    /// The memory that others may keep, and the range of the payload in it.
    pub(crate) fn shared_range(&self) -> Option<(&'a Arc<Vec<u8>>, Range<usize>)> {
        let shared = self.shared?;
        let start = (self.payload.as_ptr() as usize).checked_sub(shared.as_ptr() as usize)?;
        let end = start.checked_add(self.payload.len())?;
        (end <= shared.len()).then_some((shared, start..end))
    }
}

/// A delivery from a producer, or one part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// identifies it in `ToLink::Settle`
    pub delivery_id: u32,
    /// it is settled; only the first part's value counts
    pub settled: bool,
    /// 2.8.11; only the first part's value counts
    pub message_format: u32,
    /// this is the first part
    pub first: bool,
    /// more parts follow
    pub more: bool,
    /// the delivery is aborted (2.6.14)
    pub aborted: bool,
    /// bytes of the message
    pub payload: &'a [u8],
}

/// The first part of a delivery, or a whole delivery.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) message_format: u32,
    pub(super) more: bool,
    pub(super) payload: &'a [u8],
    /// as in [`Delivery`]
    pub(super) shared: Option<&'a Arc<Vec<u8>>>,
}

impl<'a> Part<'a> {
    #[inline]
    pub(super) const fn whole(payload: &'a [u8]) -> Self {
        Self { message_format: 0, more: false, payload, shared: None }
    }

    /// Adds the memory that contains the payload, which others may keep instead of a copy.
    #[inline]
    pub(super) const fn with_shared(self, shared: Option<&'a Arc<Vec<u8>>>) -> Self {
        Self { shared, ..self }
    }

    #[inline]
    pub(super) fn of(arrival: &Arrival<'a>) -> Self {
        Self { message_format: arrival.message_format, more: arrival.more, payload: arrival.payload, shared: None }
    }
}

const FIRST: u8 = 1;
const MORE: u8 = 2;
const ABORTED: u8 = 4;
const SETTLED: u8 = 8;
const SHARED: u8 = 16;

fn flags(flags: [(bool, u8); 4]) -> u8 {
    flags.iter().fold(0, |all, (holds, flag)| if *holds { all | flag } else { all })
}

impl<'a> Wire<'a> for Arrival<'a> {
    #[inline]
    fn encode(&self, to: &mut Encoder) {
        let Self { delivery_id, settled, message_format, first, more, aborted, payload } = self;
        flags([(*first, FIRST), (*more, MORE), (*aborted, ABORTED), (*settled, SETTLED)]).encode(to);
        delivery_id.encode(to);
        message_format.encode(to);
        payload.encode(to);
    }

    #[inline]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        let flags = u8::decode(from)?;
        Ok(Self {
            delivery_id: Wire::decode(from)?,
            settled: flags & SETTLED != 0,
            message_format: Wire::decode(from)?,
            first: flags & FIRST != 0,
            more: flags & MORE != 0,
            aborted: flags & ABORTED != 0,
            payload: Wire::decode(from)?,
        })
    }
}

impl<'a> Wire<'a> for Delivery<'a> {
    #[inline]
    fn encode(&self, to: &mut Encoder) {
        let shared = self.shared_range();
        let Self { token, message_format, first, more, aborted, payload, shared: _ } = self;
        flags([(*first, FIRST), (*more, MORE), (*aborted, ABORTED), (shared.is_some(), SHARED)]).encode(to);
        token.encode(to);
        message_format.encode(to);
        match shared {
            Some((memory, range)) => {
                to.put_shared(Shared::Memory(Arc::clone(memory)));
                (range.start as u32).encode(to);
                (range.len() as u32).encode(to);
            }
            None => payload.encode(to),
        }
    }

    #[inline]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        let flags = u8::decode(from)?;
        let (token, message_format) = (Wire::decode(from)?, Wire::decode(from)?);
        let (payload, shared) = if flags & SHARED == 0 {
            (Wire::decode(from)?, None)
        } else {
            let Shared::Memory(memory) = from.take_shared()? else {
                return Err(Malformed("a payload lies in no memory"));
            };
            let (start, length) = (u32::decode(from)? as usize, u32::decode(from)? as usize);
            let end = start.checked_add(length).ok_or(Malformed("a payload is too long"))?;
            let payload = memory.get(start..end).ok_or(Malformed("a payload lies outside of its memory"))?;
            (payload, Some(memory))
        };
        let [first, more, aborted] = [FIRST, MORE, ABORTED].map(|flag| flags & flag != 0);
        Ok(Self { token, message_format, first, more, aborted, payload, shared })
    }
}
