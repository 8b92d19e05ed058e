//! The codec, topic filters and session records.

mod fuzz;
mod hostile;
mod round_trip;
mod session;
mod topics;
