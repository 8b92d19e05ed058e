//! Messages as columns: AMQP 1.0 messages in, Arrow record batches out; `outgoing` is the reverse,
//! `replay` decodes the messages stored in a table again.
//!
//! `declare` parses column declarations, `column` keeps their values while a batch grows,
//! `envelope` fills those that every message has, `body` those decoded from JSON, SenML, CBOR or
//! CSV, and `batch` joins them. A message that cannot be decoded is a row with the reason in the
//! column `_error`, never omitted. It uses no socket, file, clock or thread: the time of a message
//! comes from the message.
//!
//! Bounds: [`COLUMNS_MAX`] columns, [`BODY_SIZE_MAX`] bytes of a decompressed body, [`RECORDS_MAX`]
//! rows of one message, [`ROWS_SIZE_MAX`] bytes of those rows, and [`repeated_size_max`] bytes of content that each row of a message repeats, so
//! that small messages cannot cause huge batches; values nest [`DEPTH_MAX`] deep in CBOR and 128
//! deep in JSON. Beyond them a message is one row with its reason.

mod batch;
mod body;
mod column;
mod declare;
mod envelope;
mod outgoing;
mod replay;
mod text;
mod time;

pub use batch::Batch;
pub use column::Type;
pub use declare::{COLUMNS_MAX, Declared, Error, Format, Options, TimeUnit};
pub use envelope::Origin;
pub use outgoing::{Outgoing, number_message};
pub use replay::Replay;

/// Rows that one message can become.
pub const RECORDS_MAX: usize = 65_536;
/// Bytes of a decompressed body.
pub const BODY_SIZE_MAX: usize = 64 << 20;
/// Bytes that the rows of one message can take.
pub const ROWS_SIZE_MAX: usize = 64 << 20;

/// The most bytes that the rows of a message of this size may repeat: its envelope, or the base
/// name of a SenML pack.
#[must_use]
pub const fn repeated_size_max(message_size: usize) -> usize {
    let size = message_size.saturating_mul(32).saturating_add(64 << 10);
    if size < ROWS_SIZE_MAX { size } else { ROWS_SIZE_MAX }
}
/// How deep maps, arrays and tags of CBOR nest.
pub const DEPTH_MAX: u32 = 64;
