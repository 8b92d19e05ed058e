//! Commands as bytes: the one encoding of everything that passes between the shard of a link and
//! the home of an address.
//!
//! Numbers are little-endian and of fixed width, texts and lists begin with their length, values of
//! AMQP are encoded as in the standard. What is immutable and costly to copy (memory of a large
//! payload, a compiled selector, a filter) is not copied into the bytes but listed beside them, and
//! the bytes have its number in that list.
//!
//! `commands!` generates the encoder and the decoder of an enum of commands from its declaration,
//! `wire_structs!` and `wire_units!` those of the types in it.

#[cfg(test)]
pub(crate) mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use enmasse_amqp::codec::{decode_state, decode_value, encode_state, encode_value};
use enmasse_amqp::selector::Selector;
use enmasse_amqp::types::{DeliveryState, Error, Outcome, Symbol, Value};

use super::filter::Filter;

/// Immutable data that is passed on without a copy.
#[derive(Clone, Debug)]
pub(crate) enum Shared {
    /// memory that payloads lie in
    Memory(Arc<Vec<u8>>),
    /// an outcome of several deliveries
    Outcome(Arc<Outcome>),
    Selector(Arc<Selector>),
    Filter(Filter),
}

/// Encoded commands.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
    shared: Vec<Shared>,
}

impl Encoder {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes that it holds, with those of listed memory.
    pub(crate) fn size(&self) -> usize {
        let memory = self.shared.iter().map(|shared| match shared {
            Shared::Memory(memory) => memory.len(),
            Shared::Outcome(_) | Shared::Selector(_) | Shared::Filter(_) => 0,
        });
        self.bytes.len() + memory.sum::<usize>()
    }

    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends what `write` appends, with its length before it.
    fn put_framed(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.bytes.len();
        self.put(&[0; 4]);
        write(&mut self.bytes);
        let length = (self.bytes.len() - at - 4) as u32;
        self.bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
    }

    pub(crate) fn put_shared(&mut self, shared: Shared) {
        (self.shared.len() as u32).encode(self);
        self.shared.push(shared);
    }

    pub(crate) fn decoder(&self) -> Decoder<'_> {
        Decoder { bytes: &self.bytes, shared: &self.shared }
    }
}

/// Encoded commands that are not decoded yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    shared: &'a [Shared],
}

impl<'a> Decoder<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(Malformed("the bytes end within it"))?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn take_shared(&mut self) -> Result<&'a Shared, Malformed> {
        let number = u32::decode(self)?;
        self.shared.get(number as usize).ok_or(Malformed("it names shared data that is not listed"))
    }
}

/// Why bytes are no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a command between shards is malformed: {0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

/// A type that commands are made of. Decoding what was encoded gives an equal value.
pub(crate) trait Wire<'a>: Sized {
    fn encode(&self, to: &mut Encoder);

    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed>;
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl<'a> Wire<'a> for $type {
            #[inline]
            fn encode(&self, to: &mut Encoder) {
                to.put(&self.to_le_bytes());
            }

            #[inline]
            fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
                let mut bytes = [0; size_of::<$type>()];
                bytes.copy_from_slice(from.take(size_of::<$type>())?);
                Ok(Self::from_le_bytes(bytes))
            }
        }
    )*};
}

numbers! { u8 u16 u32 u64 u128 i32 }

impl<'a> Wire<'a> for bool {
    #[inline]
    fn encode(&self, to: &mut Encoder) {
        u8::from(*self).encode(to);
    }

    #[inline]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        match u8::decode(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a flag is neither 0 nor 1")),
        }
    }
}

impl<'a> Wire<'a> for () {
    fn encode(&self, _: &mut Encoder) {}

    fn decode(_: &mut Decoder<'a>) -> Result<Self, Malformed> {
        Ok(())
    }
}

impl<'a> Wire<'a> for &'a [u8] {
    #[inline]
    fn encode(&self, to: &mut Encoder) {
        (self.len() as u32).encode(to);
        to.put(self);
    }

    #[inline]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        let length = u32::decode(from)?;
        from.take(length as usize)
    }
}

impl<'a> Wire<'a> for &'a str {
    fn encode(&self, to: &mut Encoder) {
        self.as_bytes().encode(to);
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        std::str::from_utf8(Wire::decode(from)?).map_err(|_| Malformed("a text is not UTF-8"))
    }
}

/// Types that own what they are decoded from.
macro_rules! owners {
    ($($type:ty: $as_ref:ident, $borrowed:ty;)*) => {$(
        impl<'a> Wire<'a> for $type {
            fn encode(&self, to: &mut Encoder) {
                self.$as_ref().encode(to);
            }

            fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
                <$borrowed>::decode(from).map(Into::into)
            }
        }
    )*};
}

owners! {
    String: as_str, &str;
    Arc<str>: as_ref, &str;
    Arc<[u8]>: as_ref, &[u8];
    Symbol: as_str, &str;
}

impl<'a, T: Wire<'a>> Wire<'a> for Box<T> {
    fn encode(&self, to: &mut Encoder) {
        (**self).encode(to);
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        T::decode(from).map(Self::new)
    }
}

impl<'a, T: Wire<'a> + Clone> Wire<'a> for Cow<'a, T> {
    #[inline]
    fn encode(&self, to: &mut Encoder) {
        (**self).encode(to);
    }

    #[inline]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        T::decode(from).map(Cow::Owned)
    }
}

impl<'a> Wire<'a> for Cow<'a, [u64]> {
    fn encode(&self, to: &mut Encoder) {
        (self.len() as u32).encode(to);
        self.iter().for_each(|number| number.encode(to));
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        Vec::decode(from).map(Cow::Owned)
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Option<T> {
    #[inline]
    fn encode(&self, to: &mut Encoder) {
        self.is_some().encode(to);
        if let Some(value) = self {
            value.encode(to);
        }
    }

    #[inline]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        if bool::decode(from)? { T::decode(from).map(Some) } else { Ok(None) }
    }
}

impl<'a, T: Wire<'a>, E: Wire<'a>> Wire<'a> for Result<T, E> {
    fn encode(&self, to: &mut Encoder) {
        self.is_ok().encode(to);
        match self {
            Ok(value) => value.encode(to),
            Err(error) => error.encode(to),
        }
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        if bool::decode(from)? { T::decode(from).map(Ok) } else { E::decode(from).map(Err) }
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Vec<T> {
    fn encode(&self, to: &mut Encoder) {
        (self.len() as u32).encode(to);
        self.iter().for_each(|element| element.encode(to));
    }

    /// A claimed length reserves nothing.
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        let length = u32::decode(from)?;
        let mut elements = Self::new();
        for _ in 0..length {
            elements.push(T::decode(from)?);
        }
        Ok(elements)
    }
}

impl<'a, T: Wire<'a>, U: Wire<'a>> Wire<'a> for (T, U) {
    fn encode(&self, to: &mut Encoder) {
        self.0.encode(to);
        self.1.encode(to);
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        Ok((T::decode(from)?, U::decode(from)?))
    }
}

impl<'a> Wire<'a> for Value {
    fn encode(&self, to: &mut Encoder) {
        to.put_framed(|bytes| encode_value(bytes, self));
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        match decode_value(Wire::decode(from)?) {
            Ok((value, [])) => Ok(value),
            _ => Err(Malformed("a value is not of AMQP")),
        }
    }
}

impl<'a> Wire<'a> for DeliveryState {
    fn encode(&self, to: &mut Encoder) {
        to.put_framed(|bytes| encode_state(bytes, self));
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        decode_state(Wire::decode(from)?).map_err(|_| Malformed("a state is not of AMQP"))
    }
}

const ACCEPTED: u8 = 0;
const RELEASED: u8 = 1;
const WITH_FIELDS: u8 = 2;

impl<'a> Wire<'a> for Outcome {
    #[inline]
    fn encode(&self, to: &mut Encoder) {
        match self {
            Self::Accepted => ACCEPTED.encode(to),
            Self::Released => RELEASED.encode(to),
            Self::Rejected(_) | Self::Modified(_) => {
                WITH_FIELDS.encode(to);
                DeliveryState::Outcome(self.clone()).encode(to);
            }
        }
    }

    #[inline]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        match u8::decode(from)? {
            ACCEPTED => Ok(Self::Accepted),
            RELEASED => Ok(Self::Released),
            WITH_FIELDS => match DeliveryState::decode(from)? {
                DeliveryState::Outcome(outcome) => Ok(outcome),
                _ => Err(Malformed("an outcome is not terminal")),
            },
            _ => Err(Malformed("an outcome is unknown")),
        }
    }
}

/// Types of which only a reference is passed on.
macro_rules! shared {
    ($($type:ty: $variant:ident;)*) => {$(
        impl<'a> Wire<'a> for $type {
            fn encode(&self, to: &mut Encoder) {
                to.put_shared(Shared::$variant(self.clone()));
            }

            fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
                match from.take_shared()? {
                    Shared::$variant(shared) => Ok(shared.clone()),
                    _ => Err(Malformed("shared data is of another type")),
                }
            }
        }
    )*};
}

shared! {
    Arc<Outcome>: Outcome;
    Arc<Selector>: Selector;
    Filter: Filter;
}

/// The encoding of structs, field by field.
macro_rules! wire_structs {
    ($($type:ident { $($field:tt),+ $(,)? })+) => {$(
        impl<'a> $crate::core::wire::Wire<'a> for $type {
            #[inline]
            fn encode(&self, to: &mut $crate::core::wire::Encoder) {
                $(self.$field.encode(to);)+
            }

            #[inline]
            fn decode(from: &mut $crate::core::wire::Decoder<'a>) -> Result<Self, $crate::core::wire::Malformed> {
                Ok(Self { $($field: $crate::core::wire::Wire::decode(from)?),+ })
            }
        }

        #[cfg(test)]
        impl $crate::core::wire::tests::Sample for $type {
            fn sample(random: &mut $crate::core::wire::tests::Random) -> Self {
                Self { $($field: $crate::core::wire::tests::Sample::sample(random)),+ }
            }
        }
    )+};
}

/// The encoding of enums without fields.
macro_rules! wire_units {
    ($($type:ident { $($variant:ident),+ $(,)? })+) => {$(
        impl<'a> $crate::core::wire::Wire<'a> for $type {
            #[inline]
            fn encode(&self, to: &mut $crate::core::wire::Encoder) {
                enum Number { $($variant),+ }
                let tag = match self { $(Self::$variant => Number::$variant as u8),+ };
                tag.encode(to);
            }

            #[inline]
            fn decode(from: &mut $crate::core::wire::Decoder<'a>) -> Result<Self, $crate::core::wire::Malformed> {
                const ALL: &[$type] = &[$($type::$variant),+];
                let tag = u8::decode(from)?;
                ALL.get(tag as usize).copied().ok_or($crate::core::wire::Malformed("a name is unknown"))
            }
        }

        #[cfg(test)]
        impl $crate::core::wire::tests::Sample for $type {
            fn sample(random: &mut $crate::core::wire::tests::Random) -> Self {
                const ALL: &[$type] = &[$($type::$variant),+];
                ALL[random.below(ALL.len())]
            }
        }
    )+};
}

/// Declares an enum of commands, with its encoding: a number for the variant and then its fields.
macro_rules! commands {
    ($(#[$meta:meta])* $visibility:vis enum $name:ident<$life:lifetime> { $($variants:tt)+ }) => {
        $crate::core::wire::commands! { @of $life, ($name<$life>), ($name<'static>); $(#[$meta])* $visibility enum; $($variants)+ }
    };
    ($(#[$meta:meta])* $visibility:vis enum $name:ident { $($variants:tt)+ }) => {
        $crate::core::wire::commands! { @of 'a, ($name), ($name); $(#[$meta])* $visibility enum; $($variants)+ }
    };
    (
        @of $life:lifetime, ($($type:tt)+), ($($owned:tt)+); $(#[$meta:meta])* $visibility:vis enum;
        $($(#[$about:meta])* $variant:ident { $($field:ident: $of:ty),+ $(,)? },)+
    ) => {
        $(#[$meta])*
        $visibility enum $($type)+ {
            $($(#[$about])* $variant { $($field: $of),+ },)+
        }

        impl<$life> $crate::core::wire::Wire<$life> for $($type)+ {
            #[inline(always)]
            fn encode(&self, to: &mut $crate::core::wire::Encoder) {
                enum Number { $($variant),+ }
                match self {
                    $(Self::$variant { $($field),+ } => {
                        (Number::$variant as u8).encode(to);
                        $($field.encode(to);)+
                    })+
                }
            }

            #[inline(always)]
            #[allow(non_upper_case_globals, reason = "the constants have the names of the variants")]
            fn decode(from: &mut $crate::core::wire::Decoder<$life>) -> Result<Self, $crate::core::wire::Malformed> {
                enum Number { $($variant),+ }
                $(const $variant: u8 = Number::$variant as u8;)+
                match u8::decode(from)? {
                    $($variant => Ok(Self::$variant { $($field: $crate::core::wire::Wire::decode(from)?),+ }),)+
                    _ => Err($crate::core::wire::Malformed("the command is unknown")),
                }
            }
        }

        #[cfg(test)]
        impl $($owned)+ {
            /// One command of each variant.
            pub(crate) fn samples(random: &mut $crate::core::wire::tests::Random) -> Vec<Self> {
                vec![$(Self::$variant { $($field: $crate::core::wire::tests::Sample::sample(random)),+ }),+]
            }
        }
    };
}

pub(crate) use {commands, wire_structs, wire_units};

wire_structs! {
    Error { condition, description, info }
}
