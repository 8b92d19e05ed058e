//! The router core against `docs/contracts.md` 7, sentence by sentence, and against a model.

mod anycast;
mod bench;
mod figures;
mod laggards;
mod model;
mod multicast;
mod parts;
mod places;
mod seeds;
mod stored;
mod stream;
