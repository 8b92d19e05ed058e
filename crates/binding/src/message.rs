//! Converts whole messages between bytes and Python.
//!
//! The sections cross as one tuple, which `enmasse.native` turns into a `Message`: `(header,
//! delivery_annotations, message_annotations, properties, application_properties, body, footer)`.

use enmasse_amqp::codec::{self, MAX_DEPTH};
use enmasse_amqp::types::{Body, Fields, Header, Message, MessageId, Properties, Symbol, Value};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMapping, PyString, PyTuple};

use crate::errors::{broken, invalid};
use crate::value::{Classes, Kind, from_python, in_field, to_python};

/// Decodes a message into its sections.
#[pyfunction]
pub(crate) fn decode_message<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
    let message = codec::decode_message(data).map_err(|error| broken(format!("message: {}", error.description)))?;
    let classes = Classes::get(py)?;
    let header = message
        .header
        .map(|header| (header.durable, header.priority, header.ttl, header.first_acquirer, header.delivery_count));
    let properties = message.properties.map(|properties| properties_tuple(py, classes, properties)).transpose()?;
    let application = PyDict::new(py);
    for (name, value) in message.application_properties {
        application.set_item(name, to_python(py, classes, value)?)?;
    }
    (
        header,
        annotations_dict(py, classes, message.delivery_annotations)?,
        annotations_dict(py, classes, message.message_annotations)?,
        properties,
        application,
        body_tuple(py, classes, message.body)?,
        annotations_dict(py, classes, message.footer)?,
    )
        .into_pyobject(py)
}

/// Encodes the sections of a message.
#[pyfunction]
pub(crate) fn encode_message<'py>(py: Python<'py>, sections: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyBytes>> {
    let classes = Classes::get(py)?;
    let section = |index| sections.get_item(index);
    let header: Option<(bool, u8, Option<u32>, bool, u32)> = section(0)?.extract()?;
    let message = Message {
        header: header.map(|(durable, priority, ttl, first_acquirer, delivery_count)| Header {
            durable,
            priority,
            ttl,
            first_acquirer,
            delivery_count,
        }),
        delivery_annotations: annotations(classes, &section(1)?, "delivery annotations")?,
        message_annotations: annotations(classes, &section(2)?, "annotations")?,
        properties: section(3)?
            .extract::<Option<Bound<'py, PyTuple>>>()?
            .map(|p| properties(classes, &p))
            .transpose()?,
        application_properties: entries(&section(4)?)?
            .into_iter()
            .map(|(name, value)| Ok((name.clone(), in_field(&name, from_python(classes, &value, MAX_DEPTH))?)))
            .collect::<PyResult<_>>()?,
        body: body(classes, &section(5)?)?,
        footer: annotations(classes, &section(6)?, "footer")?,
    };
    let mut bytes = Vec::new();
    codec::encode_message(&mut bytes, &message);
    Ok(PyBytes::new(py, &bytes))
}

fn annotations_dict<'py>(py: Python<'py>, classes: &Classes, fields: Fields) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in fields {
        dict.set_item(name.as_str(), to_python(py, classes, value)?)?;
    }
    Ok(dict)
}

fn entries<'py>(mapping: &Bound<'py, PyAny>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
    mapping.cast::<PyMapping>()?.items()?.extract()
}

fn annotations(classes: &Classes, mapping: &Bound<'_, PyAny>, section: &str) -> PyResult<Fields> {
    let field = |(name, value): (String, Bound<'_, PyAny>)| {
        if !name.is_ascii() {
            return Err(invalid(format!("{section}: the key {name:?} is not ASCII")));
        }
        let value = in_field(&name, from_python(classes, &value, MAX_DEPTH))?;
        Ok((Symbol::from(name.as_str()), value))
    };
    entries(mapping)?.into_iter().map(field).collect()
}

fn properties_tuple<'py>(py: Python<'py>, classes: &Classes, from: Properties) -> PyResult<Bound<'py, PyTuple>> {
    let id = |id: Option<MessageId>| -> PyResult<Option<Bound<'py, PyAny>>> {
        id.map(|id| match id {
            MessageId::Ulong(number) => classes.make(py, Kind::Ulong, number),
            MessageId::Uuid(bytes) => to_python(py, classes, Value::Uuid(bytes)),
            MessageId::Binary(bytes) => Ok(PyBytes::new(py, &bytes).into_any()),
            MessageId::String(text) => Ok(PyString::new(py, &text).into_any()),
        })
        .transpose()
    };
    let time = |millis: Option<i64>| millis.map(|millis| classes.moment(py, millis)).transpose();
    let symbol = |symbol: Option<Symbol>| symbol.map(|symbol| symbol.as_str().to_owned());
    let values: [Bound<'py, PyAny>; 13] = [
        id(from.message_id)?.into_pyobject(py)?,
        from.user_id.map(|bytes| PyBytes::new(py, &bytes)).into_pyobject(py)?,
        from.to.into_pyobject(py)?,
        from.subject.into_pyobject(py)?,
        from.reply_to.into_pyobject(py)?,
        id(from.correlation_id)?.into_pyobject(py)?,
        symbol(from.content_type).into_pyobject(py)?,
        symbol(from.content_encoding).into_pyobject(py)?,
        time(from.absolute_expiry_time)?.into_pyobject(py)?,
        time(from.creation_time)?.into_pyobject(py)?,
        from.group_id.into_pyobject(py)?,
        from.group_sequence.into_pyobject(py)?,
        from.reply_to_group_id.into_pyobject(py)?,
    ];
    PyTuple::new(py, values)
}

fn properties(classes: &Classes, from: &Bound<'_, PyTuple>) -> PyResult<Properties> {
    let text = |index| -> PyResult<Option<String>> { from.get_item(index)?.extract() };
    let symbol = |index| -> PyResult<Option<Symbol>> { Ok(text(index)?.map(|text| Symbol::from(text.as_str()))) };
    let id = |index, name| -> PyResult<Option<MessageId>> {
        let value = from.get_item(index)?;
        Ok(match in_field(name, from_python(classes, &value, 1))? {
            Value::Null => None,
            Value::Ulong(number) => Some(MessageId::Ulong(number)),
            // a plain number that is valid as an id
            Value::Long(number) if number >= 0 => Some(MessageId::Ulong(number.unsigned_abs())),
            Value::Uuid(bytes) => Some(MessageId::Uuid(bytes)),
            Value::Binary(bytes) => Some(MessageId::Binary(bytes)),
            Value::String(text) => Some(MessageId::String(text)),
            _ => return Err(invalid(format!("{name}: it must be a string, bytes, a UUID or a number of at least 0"))),
        })
    };
    let time = |index, name| -> PyResult<Option<i64>> {
        match in_field(name, from_python(classes, &from.get_item(index)?, 1))? {
            Value::Null => Ok(None),
            Value::Timestamp(millis) => Ok(Some(millis)),
            _ => Err(invalid(format!("{name}: it must be a datetime with a time zone"))),
        }
    };
    Ok(Properties {
        message_id: id(0, "message_id")?,
        user_id: from.get_item(1)?.extract()?,
        to: text(2)?,
        subject: text(3)?,
        reply_to: text(4)?,
        correlation_id: id(5, "correlation_id")?,
        content_type: symbol(6)?,
        content_encoding: symbol(7)?,
        absolute_expiry_time: time(8, "absolute_expiry_time")?,
        creation_time: time(9, "creation_time")?,
        group_id: text(10)?,
        group_sequence: from.get_item(11)?.extract()?,
        reply_to_group_id: text(12)?,
    })
}

fn body_tuple<'py>(py: Python<'py>, classes: &Classes, body: Body) -> PyResult<Option<Bound<'py, PyTuple>>> {
    Ok(Some(match body {
        Body::Empty => return Ok(None),
        Body::Data(parts) => {
            let parts = PyTuple::new(py, parts.iter().map(|part| PyBytes::new(py, part)))?;
            ("data", parts).into_pyobject(py)?
        }
        Body::Sequence(parts) => {
            let parts: Vec<_> =
                parts.into_iter().map(|part| to_python(py, classes, Value::List(part))).collect::<PyResult<_>>()?;
            ("sequence", PyTuple::new(py, parts)?).into_pyobject(py)?
        }
        Body::Value(value) => ("value", to_python(py, classes, value)?).into_pyobject(py)?,
    }))
}

fn body(classes: &Classes, from: &Bound<'_, PyAny>) -> PyResult<Body> {
    let Some((kind, content)) = from.extract::<Option<(String, Bound<'_, PyAny>)>>()? else { return Ok(Body::Empty) };
    match kind.as_str() {
        "data" => Ok(Body::Data(content.extract()?)),
        "sequence" => {
            let parts: Vec<Bound<'_, PyAny>> = content.extract()?;
            let part = |part: Bound<'_, PyAny>| match in_field("body", from_python(classes, &part, MAX_DEPTH))? {
                Value::List(items) => Ok(items),
                _ => Err(invalid("body: each part of a sequence must be a list")),
            };
            Ok(Body::Sequence(parts.into_iter().map(part).collect::<PyResult<_>>()?))
        }
        "value" => Ok(Body::Value(in_field("body", from_python(classes, &content, MAX_DEPTH))?)),
        _ => Err(invalid(format!("body: {kind:?} is not a kind of body"))),
    }
}
