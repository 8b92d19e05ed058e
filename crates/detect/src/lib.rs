//! Detection: what the readings of a batch change in the state of their devices. States and columns
//! in, states and changes out.
//!
//! `rules` is what detectors look for, `state` what one of them remembers of one device, `follow`
//! the recursion over readings, `silence` that of heartbeats, `extremes` the highest and lowest
//! readings of a span of time. `batch` groups the rows of a batch by device and puts them in order;
//! `columns` reads them from Arrow record batches and writes the results into others.
//!
//! The result depends on the rows of a batch alone, not on their order, and the same readings in
//! other portions give the same incidents. No socket, file, clock or thread: all times are
//! microseconds since 1970 that the arguments carry.

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
