//! The codec against bytes: every type, every performative, hostile input.

mod messages;
mod performatives;
mod trace;
