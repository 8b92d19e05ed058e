//! Converts values of part 1 between Rust and Python.
//!
//! Plain Python values represent the types that they fit. The other types are classes of
//! `enmasse.messaging.types`, so that decoding and encoding restores the same bytes.

use std::collections::HashMap;

use enmasse_amqp::codec::MAX_DEPTH;
use enmasse_amqp::types::{Symbol, Value};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyMemoryView, PySequence, PyString,
    PyTuple, PyType,
};

use crate::errors::{broken, invalid};

/// A type of AMQP without an equivalent type of Python.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    Ubyte,
    Ushort,
    Uint,
    Ulong,
    Byte,
    Short,
    Int,
    Long,
    Float,
    Char,
    Symbol,
    Timestamp,
    Decimal32,
    Decimal64,
    Decimal128,
    Array,
    Described,
    DateTime,
    Uuid,
}

/// The classes of `enmasse.messaging.types`, including two of the standard library, by their names
/// in it.
const CLASSES: [(Kind, &str); 19] = [
    (Kind::Ubyte, "Ubyte"),
    (Kind::Ushort, "Ushort"),
    (Kind::Uint, "Uint"),
    (Kind::Ulong, "Ulong"),
    (Kind::Byte, "Byte"),
    (Kind::Short, "Short"),
    (Kind::Int, "Int"),
    (Kind::Long, "Long"),
    (Kind::Float, "Float"),
    (Kind::Char, "Char"),
    (Kind::Symbol, "Symbol"),
    (Kind::Timestamp, "Timestamp"),
    (Kind::Decimal32, "Decimal32"),
    (Kind::Decimal64, "Decimal64"),
    (Kind::Decimal128, "Decimal128"),
    (Kind::Array, "Array"),
    (Kind::Described, "Described"),
    (Kind::DateTime, "datetime"),
    (Kind::Uuid, "UUID"),
];

/// The cached classes.
pub(crate) struct Classes {
    by_kind: HashMap<Kind, Py<PyType>>,
    /// by the address of the type object, which lives as long as this
    by_type: HashMap<usize, Kind>,
    /// conversion of a datetime to milliseconds since the epoch, and back
    to_millis: Py<PyAny>,
    from_millis: Py<PyAny>,
}

impl Classes {
    pub(crate) fn get(py: Python<'_>) -> PyResult<&Self> {
        static CLASSES_ONCE: PyOnceLock<Classes> = PyOnceLock::new();
        CLASSES_ONCE.get_or_try_init(py, || {
            let module = py.import("enmasse.messaging.types")?;
            let mut classes = Self {
                by_kind: HashMap::new(),
                by_type: HashMap::new(),
                to_millis: module.getattr("to_millis")?.unbind(),
                from_millis: module.getattr("from_millis")?.unbind(),
            };
            for (kind, name) in CLASSES {
                let class = module.getattr(name)?.cast_into::<PyType>()?;
                classes.by_type.insert(class.as_ptr() as usize, kind);
                classes.by_kind.insert(kind, class.unbind());
            }
            Ok(classes)
        })
    }

    /// A point in time: a datetime if it is within the range of datetime.
    pub(crate) fn moment<'py>(&self, py: Python<'py>, millis: i64) -> PyResult<Bound<'py, PyAny>> {
        self.from_millis.bind(py).call1((millis,))
    }

    pub(crate) fn make<'py>(
        &self,
        py: Python<'py>,
        kind: Kind,
        value: impl IntoPyObject<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.by_kind[&kind].bind(py).call1((value.into_bound_py_any(py)?,))
    }
}

pub(crate) fn to_python<'py>(py: Python<'py>, classes: &Classes, value: Value) -> PyResult<Bound<'py, PyAny>> {
    let list = |items: Vec<Value>| -> PyResult<Vec<Bound<'py, PyAny>>> {
        items.into_iter().map(|item| to_python(py, classes, item)).collect()
    };
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => PyBool::new(py, flag).to_owned().into_any(),
        Value::Ubyte(number) => classes.make(py, Kind::Ubyte, number)?,
        Value::Ushort(number) => classes.make(py, Kind::Ushort, number)?,
        Value::Uint(number) => classes.make(py, Kind::Uint, number)?,
        Value::Ulong(number) => classes.make(py, Kind::Ulong, number)?,
        Value::Byte(number) => classes.make(py, Kind::Byte, number)?,
        Value::Short(number) => classes.make(py, Kind::Short, number)?,
        Value::Int(number) => classes.make(py, Kind::Int, number)?,
        Value::Long(number) => number.into_pyobject(py)?.into_any(),
        Value::Float(number) => classes.make(py, Kind::Float, number)?,
        Value::Double(number) => PyFloat::new(py, number).into_any(),
        Value::Decimal32(bytes) => classes.make(py, Kind::Decimal32, PyBytes::new(py, &bytes))?,
        Value::Decimal64(bytes) => classes.make(py, Kind::Decimal64, PyBytes::new(py, &bytes))?,
        Value::Decimal128(bytes) => classes.make(py, Kind::Decimal128, PyBytes::new(py, &bytes))?,
        Value::Char(character) => classes.make(py, Kind::Char, character.to_string())?,
        Value::Timestamp(millis) => classes.moment(py, millis)?,
        Value::Uuid(bytes) => {
            let arguments = PyDict::new(py);
            arguments.set_item("bytes", PyBytes::new(py, &bytes))?;
            classes.by_kind[&Kind::Uuid].bind(py).call((), Some(&arguments))?
        }
        Value::Binary(bytes) => PyBytes::new(py, &bytes).into_any(),
        Value::String(text) => PyString::new(py, &text).into_any(),
        Value::Symbol(symbol) => classes.make(py, Kind::Symbol, symbol.as_str())?,
        Value::List(items) => PyList::new(py, list(items)?)?.into_any(),
        Value::Array(items) => classes.make(py, Kind::Array, PyTuple::new(py, list(items)?)?)?,
        Value::Map(pairs) => {
            let dict = PyDict::new(py);
            for (key, value) in pairs {
                let value = to_python(py, classes, value)?;
                dict.set_item(to_python(py, classes, key)?, value).map_err(|error| {
                    broken(format!("message: a map has a key that is not valid in Python: {error}"))
                })?;
            }
            dict.into_any()
        }
        Value::Described(pair) => {
            let (descriptor, value) = *pair;
            let arguments = (to_python(py, classes, descriptor)?, to_python(py, classes, value)?);
            classes.by_kind[&Kind::Described].bind(py).call1(arguments)?
        }
    })
}

/// Adds the name of the member to an error.
pub(crate) fn in_field<T>(name: &str, result: Result<T, Unsendable>) -> PyResult<T> {
    result.map_err(|unsendable| match unsendable {
        Unsendable::Value(what) => invalid(format!("{name}: {what}")),
        Unsendable::Python(error) => error,
    })
}

/// Why a value of Python cannot be sent.
pub(crate) enum Unsendable {
    /// no type of AMQP can represent it
    Value(String),
    /// Python raised an exception
    Python(PyErr),
}

impl From<PyErr> for Unsendable {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

pub(crate) fn from_python(classes: &Classes, value: &Bound<'_, PyAny>, depth: u32) -> Result<Value, Unsendable> {
    if let Some(kind) = classes.by_type.get(&(value.get_type().as_ptr() as usize)) {
        return from_class(classes, *kind, value, depth);
    }
    if value.is_none() {
        Ok(Value::Null)
    } else if let Ok(text) = value.cast::<PyString>() {
        Ok(Value::String(text.to_str()?.to_owned()))
    } else if let Ok(flag) = value.cast::<PyBool>() {
        Ok(Value::Bool(flag.is_true()))
    } else if value.is_instance_of::<PyInt>() {
        match value.extract::<i64>() {
            Ok(number) => Ok(Value::Long(number)),
            Err(_) => value.extract().map(Value::Ulong).map_err(|error| out_of_range(value, error)),
        }
    } else if let Ok(number) = value.cast::<PyFloat>() {
        Ok(Value::Double(number.value()))
    } else if is_bytes(value) {
        Ok(Value::Binary(value.extract()?))
    } else if let Ok(mapping) = value.cast::<PyMapping>() {
        let inner = deeper(depth)?;
        let pairs: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> = mapping.items()?.extract()?;
        let pair = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            Ok((from_python(classes, &key, inner)?, from_python(classes, &value, inner)?))
        };
        Ok(Value::Map(pairs.into_iter().map(pair).collect::<Result<_, Unsendable>>()?))
    } else if let Ok(sequence) = value.cast::<PySequence>() {
        Ok(Value::List(items(classes, sequence.as_any(), depth)?))
    } else {
        Err(Unsendable::Value(format!("a value of type {} cannot be sent", value.get_type().name()?)))
    }
}

fn is_bytes(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>() || value.is_instance_of::<PyMemoryView>()
}

fn deeper(depth: u32) -> Result<u32, Unsendable> {
    depth.checked_sub(1).ok_or_else(|| Unsendable::Value(format!("values nest at most {MAX_DEPTH} deep")))
}

fn items(classes: &Classes, sequence: &Bound<'_, PyAny>, depth: u32) -> Result<Vec<Value>, Unsendable> {
    let inner = deeper(depth)?;
    sequence.try_iter()?.map(|item| from_python(classes, &item?, inner)).collect()
}

fn out_of_range(value: &Bound<'_, PyAny>, error: PyErr) -> Unsendable {
    if error.is_instance_of::<PyOverflowError>(value.py()) {
        return Unsendable::Value(format!("{value} does not fit into the type"));
    }
    Unsendable::Python(error)
}

fn from_class(classes: &Classes, kind: Kind, value: &Bound<'_, PyAny>, depth: u32) -> Result<Value, Unsendable> {
    let range = |error| out_of_range(value, error);
    Ok(match kind {
        Kind::Ubyte => Value::Ubyte(value.extract().map_err(range)?),
        Kind::Ushort => Value::Ushort(value.extract().map_err(range)?),
        Kind::Uint => Value::Uint(value.extract().map_err(range)?),
        Kind::Ulong => Value::Ulong(value.extract().map_err(range)?),
        Kind::Byte => Value::Byte(value.extract().map_err(range)?),
        Kind::Short => Value::Short(value.extract().map_err(range)?),
        Kind::Int => Value::Int(value.extract().map_err(range)?),
        Kind::Long => Value::Long(value.extract().map_err(range)?),
        Kind::Timestamp => Value::Timestamp(value.extract().map_err(range)?),
        Kind::Float => Value::Float(value.extract()?),
        Kind::Char => Value::Char(value.extract()?),
        Kind::Symbol => {
            let text: String = value.extract()?;
            if !text.is_ascii() {
                return Err(Unsendable::Value(format!("the symbol {text:?} is not ASCII")));
            }
            Value::Symbol(Symbol::from(text.as_str()))
        }
        Kind::Decimal32 => Value::Decimal32(value.extract()?),
        Kind::Decimal64 => Value::Decimal64(value.extract()?),
        Kind::Decimal128 => Value::Decimal128(value.extract()?),
        Kind::Array => Value::Array(array(items(classes, value, depth)?)?),
        Kind::Described => {
            let inner = deeper(depth)?;
            let descriptor = from_python(classes, &value.getattr("descriptor")?, inner)?;
            Value::Described(Box::new((descriptor, from_python(classes, &value.getattr("value")?, inner)?)))
        }
        Kind::DateTime => {
            let millis = classes.to_millis.bind(value.py()).call1((value,))?;
            if millis.is_none() {
                return Err(Unsendable::Value("a datetime without a time zone is not a point in time".to_owned()));
            }
            Value::Timestamp(millis.extract()?)
        }
        Kind::Uuid => Value::Uuid(value.getattr("bytes")?.extract()?),
    })
}

/// The elements of an array are of one type (part 1, 1.6.24).
fn array(items: Vec<Value>) -> Result<Vec<Value>, Unsendable> {
    let same = items.windows(2).all(|pair| std::mem::discriminant(&pair[0]) == std::mem::discriminant(&pair[1]));
    if same { Ok(items) } else { Err(Unsendable::Value("the elements of an array must have one type".to_owned())) }
}
