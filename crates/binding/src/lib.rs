//! EnMasse binding.
