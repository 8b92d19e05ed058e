//! The codec against bytes: every type in every encoding, every performative, hostile input, and
//! the foreign implementation that it must agree with.

mod differential;
mod envelope;
mod fuzz;
mod hostile;
mod loose;
mod messages;
mod performatives;
mod stamp;
mod strategies;
mod trace;
mod values;
mod vectors;
