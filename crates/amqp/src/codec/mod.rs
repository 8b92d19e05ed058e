//! Bytes to types and back (part 1 of the standard for the encodings, parts 2 to 5 for their
//! contents).
//!
//! Decoding borrows where it can and checks every bound. Memory is proportional to the bytes
//! received: a claimed count reserves nothing, compounds nest at most [`MAX_DEPTH`] deep and arrays
//! of zero-width elements are short. Encoding cannot fail and picks the smallest encoding.
//!
//! `reader` and `writer` know the encodings; `list` adds the rules of composite types (omitted
//! trailing fields, null for the default, the field at fault). Each family of types has a file that
//! uses both. `fast` is the hot path; the other files decode transfers through it, so that only one
//! decoder exists.

mod code;
mod describe;
mod descriptor;
mod elements;
pub mod envelope;
mod error;
pub mod fast;
mod fields;
pub mod frame;
mod list;
mod message;
mod performative;
mod reader;
mod sasl;
pub mod scan;
pub mod stamp;
mod state;
mod terminus;
mod transaction;
mod value;
mod writer;

pub use describe::describe;
pub use error::DecodeError;
pub use message::{decode_message, encode_message};
pub use performative::{
    decode_performative, encode_attach, encode_begin, encode_close, encode_detach, encode_end, encode_flow,
    encode_open, encode_performative,
};
pub use sasl::{decode_sasl, encode_sasl};
pub use state::{decode_state, encode_state};
pub use transaction::{decode_transaction_control, encode_transaction_control};
pub use value::{decode_value, encode_value};

/// How deep lists, maps, arrays and described values may nest in one value; deeper is a decode
/// error.
pub const MAX_DEPTH: u32 = 16;

/// How many elements an array may have whose element type takes no bytes (null, true, uint 0, ...).
pub const MAX_ZERO_WIDTH_ELEMENTS: usize = 16;

/// Bytes of the symbol that describes the elements of an array (it is repeated for each element
/// decoded).
pub const MAX_ARRAY_DESCRIPTOR: usize = 64;

/// Bytes of a delivery tag (2.8.7).
pub const MAX_DELIVERY_TAG: usize = 32;
