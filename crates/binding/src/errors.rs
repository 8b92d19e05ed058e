//! The one table by which errors of the crates become one Python exception.
//!
//! `NativeError` carries kind, code and message; `enmasse.native` turns it into the class of that
//! kind, once.

use enmasse_node::{ErrorKind, NodeError};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

pyo3::create_exception!(
    _native,
    NativeError,
    PyException,
    "An answer other than the one asked for. `args` is (kind, code, message): who must act (`Invalid`, `Denied`,\n\
     `Missing`, `Conflict`, `Exhausted`, `Unavailable`, `PeerError`, `Misuse`), a code of `enmasse.base.errors.Code`,\n\
     and one line that names what and the mend."
);

/// The name that `enmasse.base.errors` gives to a kind.
fn kind_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => "Invalid",
        ErrorKind::Denied => "Denied",
        ErrorKind::Missing => "Missing",
        ErrorKind::Conflict => "Conflict",
        ErrorKind::Exhausted => "Exhausted",
        ErrorKind::Unavailable => "Unavailable",
        ErrorKind::PeerError => "PeerError",
        ErrorKind::Misuse => "Misuse",
    }
}

/// An error of the node, for Python.
pub(crate) fn node_error(error: &NodeError) -> PyErr {
    NativeError::new_err((kind_name(error.kind()), error.code(), error.to_string()))
}

/// An error of the client, for Python.
pub(crate) fn client_error(error: &enmasse_client::Error) -> PyErr {
    use enmasse_client::ErrorKind as Kind;
    let (kind, code) = match error.kind {
        Kind::Invalid => ("Invalid", "E1000"),
        Kind::Denied => ("Denied", "E2000"),
        Kind::Missing => ("Missing", "E3000"),
        Kind::Conflict => ("Conflict", "E4000"),
        Kind::Exhausted => ("Exhausted", "E5000"),
        Kind::Unavailable => ("Unavailable", "E6000"),
        Kind::PeerError => ("PeerError", "E7000"),
        Kind::Misuse => ("Misuse", "E8000"),
    };
    NativeError::new_err((kind, code, error.message.clone()))
}

/// The caller passed an argument that the function does not accept.
pub(crate) fn invalid(message: impl Into<String>) -> PyErr {
    NativeError::new_err(("Invalid", "E1000", message.into()))
}

/// A peer violated its protocol.
pub(crate) fn broken(message: impl Into<String>) -> PyErr {
    NativeError::new_err(("PeerError", "E7000", message.into()))
}

/// A value of ours that JSON cannot hold: a bug.
pub(crate) fn not_json(error: &serde_json::Error) -> PyErr {
    NativeError::new_err(("Misuse", "E8000", format!("a result cannot be written as JSON: {error}")))
}
