//! Detection: applies the readings of a batch to the state of their devices. Input is states and
//! columns; output is states and changes.
//!
//! `rules` are the conditions of detectors, `state` is the state of a detector for one device,
//! `follow` the recursion over readings, `silence` that of heartbeats, `extremes` the highest and
//! lowest readings of a span of time. `batch` groups the rows of a batch by device and puts them in
//! order; `columns` reads them from Arrow record batches and writes the results into others.
//!
//! The result depends on the rows of a batch alone, not on their order, and the same readings in
//! other batches give the same incidents. It uses no socket, file, clock or thread: all times are
//! arguments, in microseconds since 1970.

mod batch;
mod columns;
mod extremes;
mod follow;
mod rules;
mod silence;
mod state;
mod text;

pub use batch::{Followed, Known, Silenced, follow_batch, follow_silences};
pub use columns::Error;
pub use rules::{Detector, Rule, Rules};
pub use state::{Change, NEVER_US, State, What};

pub use follow::follow;
pub use silence::follow_silence;
