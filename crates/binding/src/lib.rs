//! `enmasse._native`: the interface of the crates for Python. Classes and error translation; no
//! logic.
//!
//! Data is passed in batches, as text or bytes and never by callbacks. Every call that may wait
//! releases the interpreter. `errors` translates errors, `node` the data plane, `client` a
//! connection to any server, `stream` a stream as record batches, `spool` queues as record batches,
//! `outbox` record batches as messages, `replay` messages of a table decoded again, `detect`
//! incidents in readings, `message` the codec of whole messages, `load` the load tool.

mod client;
mod detect;
mod errors;
mod load;
mod message;
mod node;
mod outbox;
mod replay;
mod spool;
mod stream;
mod value;

use pyo3::prelude::*;

/// The native core of EnMasse. Go through `enmasse.native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("NativeError", module.py().get_type::<errors::NativeError>())?;
    module.add_class::<node::Node>()?;
    module.add_class::<client::Client>()?;
    module.add_class::<stream::Stream>()?;
    module.add_class::<stream::Rows>()?;
    module.add_class::<outbox::Outbox>()?;
    module.add_class::<replay::Replay>()?;
    module.add_class::<spool::Intake>()?;
    module.add_class::<spool::Segment>()?;
    module.add_class::<spool::Spooled>()?;
    module.add_function(wrap_pyfunction!(spool::pack_ids, module)?)?;
    module.add_function(wrap_pyfunction!(stream::declare_columns, module)?)?;
    module.add_function(wrap_pyfunction!(message::encode_message, module)?)?;
    module.add_function(wrap_pyfunction!(message::decode_message, module)?)?;
    module.add_function(wrap_pyfunction!(detect::follow_batch, module)?)?;
    module.add_function(wrap_pyfunction!(detect::follow_silences, module)?)?;
    module.add_function(wrap_pyfunction!(load::bench, module)?)?;
    Ok(())
}
