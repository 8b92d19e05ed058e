//! The only translation of errors of the crates into a Python exception.
//!
//! `NativeError` carries kind, code and message; `enmasse.native` turns it into the class of that
//! kind, once.

use enmasse_amqp::ErrorKind;
use enmasse_node::NodeError;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

pyo3::create_exception!(
    _native,
    NativeError,
    PyException,
    "An error of the node. `args` is (kind, code, message): who must act (`Invalid`, `Denied`,\n`Missing`, `Conflict`, \
     `Exhausted`, `Unavailable`, `PeerError`, `Misuse`), a code of `enmasse.base.errors.Code`,\nand one line with the \
     error and its remedy."
);

/// An error of the node, for Python.
pub(crate) fn node_error(error: &NodeError) -> PyErr {
    NativeError::new_err((error.kind().name(), error.code(), error.to_string()))
}

/// An error of the client, for Python.
pub(crate) fn client_error(error: &enmasse_client::Error) -> PyErr {
    general(error.kind, error.message.clone())
}

fn general(kind: ErrorKind, message: String) -> PyErr {
    NativeError::new_err((kind.name(), general_code(kind), message))
}

/// The code of a kind, for errors without their own code.
const fn general_code(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => "E1000",
        ErrorKind::Denied => "E2000",
        ErrorKind::Missing => "E3000",
        ErrorKind::Conflict => "E4000",
        ErrorKind::Exhausted => "E5000",
        ErrorKind::Unavailable => "E6000",
        ErrorKind::PeerError => "E7000",
        ErrorKind::Misuse => "E8000",
    }
}

/// The caller passed an argument that the function does not accept.
pub(crate) fn invalid(message: impl Into<String>) -> PyErr {
    general(ErrorKind::Invalid, message.into())
}

/// A peer violated its protocol.
pub(crate) fn broken(message: impl Into<String>) -> PyErr {
    general(ErrorKind::PeerError, message.into())
}

/// A result that JSON cannot represent, which is a bug.
pub(crate) fn not_json(error: &serde_json::Error) -> PyErr {
    general(ErrorKind::Misuse, format!("a result cannot be written as JSON: {error}"))
}
