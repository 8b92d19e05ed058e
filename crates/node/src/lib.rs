//! EnMasse node.
