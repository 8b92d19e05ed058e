//! The queue, semantic by semantic, and against a naive model of it.

mod order;
mod outcomes;
mod times;
mod world;
