//! Part 5, Security: both sides of the SASL mechanisms, without I/O.

mod verifier;

pub use verifier::{Hash, Mechanism, Verifier};
