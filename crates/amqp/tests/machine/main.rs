//! The connection machine from outside: two machines joined by a wire, and one machine against
//! hand-written frames. Test names begin with the section of the standard (part 2 unless said) that
//! they hold the machine to.

mod connection;
mod delivery;
mod flow;
mod frame_size;
mod fuzz;
mod hostile;
mod identity;
mod link;
mod pair;
mod random;
mod raw;
mod resume;
mod session;
mod transaction;
