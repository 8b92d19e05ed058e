//! EnMasse router: forwarding between links, without I/O.

pub mod core;
