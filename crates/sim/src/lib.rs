//! EnMasse sim.
