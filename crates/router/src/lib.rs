//! EnMasse router.
