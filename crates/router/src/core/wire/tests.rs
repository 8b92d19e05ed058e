//! Random values of every type that commands are made of, and the property that each command
//! survives its encoding.

use std::borrow::Cow;
use std::sync::Arc;

use enmasse_amqp::selector::{Dialect, Selector};
use enmasse_amqp::types::{DeliveryState, Modified, Outcome, Received, Symbol, Value};
use proptest::prelude::*;

use super::super::command::{ToHome, ToLink};
use super::super::delivery::{Arrival, Delivery};
use super::super::filter::Filter;
use super::super::handover::{Handover, HandoverReason};
use super::super::replacement::Replacement;
use super::super::role::{AttachmentRole, NoLocal, Start};
use super::{Decoder, Encoder, Shared, Wire};

/// Random numbers from a seed (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.next() as usize % bound
    }
}

/// A type of which there are random values.
pub(crate) trait Sample {
    fn sample(random: &mut Random) -> Self;
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Sample for $type {
            fn sample(random: &mut Random) -> Self {
                random.next() as $type
            }
        }
    )*};
}

numbers! { u8 u16 u32 u64 i32 }

impl Sample for u128 {
    fn sample(random: &mut Random) -> Self {
        Self::from(random.next()) << 64 | Self::from(random.next())
    }
}

impl Sample for bool {
    fn sample(random: &mut Random) -> Self {
        random.below(2) == 1
    }
}

impl Sample for () {
    fn sample(_: &mut Random) -> Self {}
}

impl Sample for String {
    fn sample(random: &mut Random) -> Self {
        let length = random.below(9);
        (0..length).map(|_| ['a', '/', '#', 'é', '\u{1F600}'][random.below(5)]).collect()
    }
}

impl<T: Sample> Sample for Box<T> {
    fn sample(random: &mut Random) -> Self {
        Self::new(T::sample(random))
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(random: &mut Random) -> Self {
        bool::sample(random).then(|| T::sample(random))
    }
}

impl<T: Sample, E: Sample> Sample for Result<T, E> {
    fn sample(random: &mut Random) -> Self {
        if bool::sample(random) { Ok(T::sample(random)) } else { Err(E::sample(random)) }
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(random: &mut Random) -> Self {
        (0..random.below(4)).map(|_| T::sample(random)).collect()
    }
}

impl<T: Sample, U: Sample> Sample for (T, U) {
    fn sample(random: &mut Random) -> Self {
        (T::sample(random), U::sample(random))
    }
}

impl Sample for Arc<str> {
    fn sample(random: &mut Random) -> Self {
        String::sample(random).into()
    }
}

impl Sample for Arc<[u8]> {
    fn sample(random: &mut Random) -> Self {
        Vec::<u8>::sample(random).into()
    }
}

impl Sample for &'static [u8] {
    fn sample(random: &mut Random) -> Self {
        Vec::leak(Vec::sample(random))
    }
}

impl<T: Sample + Clone> Sample for Cow<'static, T> {
    fn sample(random: &mut Random) -> Self {
        Cow::Owned(T::sample(random))
    }
}

impl Sample for Cow<'static, [u64]> {
    fn sample(random: &mut Random) -> Self {
        Cow::Owned(Vec::sample(random))
    }
}

impl Sample for Symbol {
    fn sample(random: &mut Random) -> Self {
        ["amqp:not-found", "x-opt-jms", ""][random.below(3)].into()
    }
}

impl Sample for Value {
    fn sample(random: &mut Random) -> Self {
        match random.below(6) {
            0 => Self::Null,
            1 => Self::Bool(Sample::sample(random)),
            2 => Self::Ulong(Sample::sample(random)),
            3 => Self::String(Sample::sample(random)),
            4 => Self::Symbol(Sample::sample(random)),
            _ => Self::List(Sample::sample(random)),
        }
    }
}

impl Sample for Outcome {
    fn sample(random: &mut Random) -> Self {
        match random.below(4) {
            0 => Self::Accepted,
            1 => Self::Released,
            2 => Self::Rejected(Sample::sample(random)),
            _ => Self::Modified(Box::new(Modified {
                delivery_failed: Sample::sample(random),
                undeliverable_here: Sample::sample(random),
                message_annotations: Sample::sample(random),
            })),
        }
    }
}

impl Sample for DeliveryState {
    fn sample(random: &mut Random) -> Self {
        if bool::sample(random) {
            return Self::Outcome(Sample::sample(random));
        }
        Self::Received(Received { section_number: Sample::sample(random), section_offset: Sample::sample(random) })
    }
}

impl Sample for Arc<Outcome> {
    fn sample(random: &mut Random) -> Self {
        Self::new(Sample::sample(random))
    }
}

impl Sample for Arc<Selector> {
    fn sample(_: &mut Random) -> Self {
        Self::new(Selector::compile("n > 1", Dialect::Jms).expect("a selector").expect("it is not blank"))
    }
}

impl Sample for Filter {
    fn sample(_: &mut Random) -> Self {
        Self::new(|name| name == "a")
    }
}

impl Sample for NoLocal {
    fn sample(random: &mut Random) -> Self {
        if bool::sample(random) {
            Self::Connection(Sample::sample(random))
        } else {
            Self::Container(Sample::sample(random))
        }
    }
}

impl Sample for Handover<'static> {
    fn sample(random: &mut Random) -> Self {
        let reason = match random.below(3) {
            0 => HandoverReason::Operation { expires: Sample::sample(random), due: Sample::sample(random) },
            1 => HandoverReason::Retained { removes: Sample::sample(random) },
            _ => HandoverReason::Diverted,
        };
        let (joint, space, to) = (Sample::sample(random), Sample::sample(random), Sample::sample(random));
        Self { joint, space, to, reason, message: Sample::sample(random) }
    }
}

impl Sample for Replacement {
    fn sample(random: &mut Random) -> Self {
        let attachment = Sample::sample(random);
        match bool::sample(random) {
            true => Self::Ask { by: Sample::sample(random), attachment, requested: Sample::sample(random) },
            false => Self::Answer { attachment, answer: Sample::sample(random) },
        }
    }
}

impl Sample for Start {
    fn sample(random: &mut Random) -> Self {
        match random.below(5) {
            0 => Self::First,
            1 => Self::Last,
            2 => Self::Next,
            3 => Self::Offset(Sample::sample(random)),
            _ => Self::Time(Sample::sample(random)),
        }
    }
}

impl Sample for AttachmentRole {
    fn sample(random: &mut Random) -> Self {
        if bool::sample(random) {
            return Self::Consumer { filter: Sample::sample(random), consuming: Sample::sample(random) };
        }
        Self::Producer {
            anonymous: Sample::sample(random),
            name: Sample::sample(random),
            producer_name: Sample::sample(random),
            resume: Sample::sample(random),
        }
    }
}

impl Sample for Arrival<'static> {
    fn sample(random: &mut Random) -> Self {
        Self {
            delivery_id: Sample::sample(random),
            settled: Sample::sample(random),
            message_format: Sample::sample(random),
            first: Sample::sample(random),
            more: Sample::sample(random),
            aborted: Sample::sample(random),
            payload: Sample::sample(random),
        }
    }
}

impl Sample for Delivery<'static> {
    fn sample(random: &mut Random) -> Self {
        let memory: &'static Arc<Vec<u8>> = Box::leak(Box::new(Arc::new((0..100).collect())));
        let start = random.below(memory.len());
        let end = start + random.below(memory.len() - start);
        let is_shared = bool::sample(random);
        Self {
            token: Sample::sample(random),
            message_format: Sample::sample(random),
            first: Sample::sample(random),
            more: Sample::sample(random),
            aborted: Sample::sample(random),
            payload: if is_shared { &memory[start..end] } else { Sample::sample(random) },
            shared: is_shared.then_some(memory),
        }
    }
}

/// Whether both are the same data, without a copy.
fn is_same(one: &Shared, other: &Shared) -> bool {
    match (one, other) {
        (Shared::Memory(one), Shared::Memory(other)) => Arc::ptr_eq(one, other),
        (Shared::Outcome(one), Shared::Outcome(other)) => Arc::ptr_eq(one, other),
        (Shared::Selector(one), Shared::Selector(other)) => Arc::ptr_eq(one, other),
        (Shared::Filter(one), Shared::Filter(other)) => one.is_same(other),
        _ => false,
    }
}

/// Decodes what was encoded of a command, and checks that it is the same, and that no shorter input
/// is a command.
pub(crate) fn survives<'a, T: Wire<'a> + std::fmt::Debug>(command: &T, encoded: &'a mut Encoder) {
    command.encode(encoded);
    let encoded = &*encoded;
    let mut decoder = encoded.decoder();
    let decoded = T::decode(&mut decoder).expect("what was encoded");
    assert!(decoder.is_empty(), "nothing is left of {command:?}");
    assert_eq!(format!("{decoded:?}"), format!("{command:?}"));
    let mut again = Encoder::default();
    decoded.encode(&mut again);
    assert_eq!(again.bytes, encoded.bytes);
    assert!(again.shared.len() == encoded.shared.len());
    assert!(again.shared.iter().zip(&encoded.shared).all(|(one, other)| is_same(one, other)));
    for length in 0..encoded.bytes.len() {
        let mut cut = Decoder { bytes: &encoded.bytes[..length], shared: &encoded.shared };
        assert!(T::decode(&mut cut).is_err(), "{length} bytes of {command:?}");
    }
}

proptest! {
    #[test]
    fn every_command_survives_its_encoding(seed: u64) {
        let mut random = Random(seed);
        for command in ToHome::samples(&mut random) {
            survives(&command, &mut Encoder::default());
        }
        for command in ToLink::samples(&mut random) {
            survives(&command, &mut Encoder::default());
        }
    }

    #[test]
    fn arbitrary_bytes_are_a_command_or_an_error(bytes: Vec<u8>) {
        let shared = [Shared::Memory(Arc::new(vec![0; 10])), Shared::Filter(Filter::new(|_| true))];
        let decoder = Decoder { bytes: &bytes, shared: &shared };
        let _ = ToHome::decode(&mut decoder.clone());
        let _ = ToLink::decode(&mut decoder.clone());
    }
}
