//! The queue, semantic by semantic, and against a naive model of it.

mod admission;
mod cost;
mod groups;
mod manage;
mod model;
mod order;
mod outcomes;
mod restart;
mod sharing;
mod times;
mod world;
