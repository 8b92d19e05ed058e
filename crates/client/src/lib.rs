//! EnMasse client.
