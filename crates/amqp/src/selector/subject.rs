//! A message as input of selectors, and the values that they name. Each needed section is read
//! once.

use std::cell::OnceCell;
use std::fmt::Write;

use super::names::{DELIVERY_COUNT, Field, FieldSource, Form};
use super::value::Value;
use crate::codec::scan::{self, Broken, Elements, Head, Scalar};

/// A message as selectors see it: its sections are found once for all selectors.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'m> {
    head: Option<Head<'m>>,
    delivery_count: Option<u32>,
    now_ms: Option<i64>,
}

impl<'m> Subject<'m> {
    /// Finds the sections of an encoded message. The body may be cut or missing; the sections
    /// before it must be complete, or no selector selects the message.
    #[inline]
    #[must_use]
    pub fn new(message: &'m [u8]) -> Self {
        Self { head: scan::head(message).ok(), delivery_count: None, now_ms: None }
    }

    /// The failed deliveries so far (3.2.1, delivery-count), where a queue has a newer count than
    /// the header.
    #[inline]
    #[must_use]
    pub fn delivery_count(self, count: u32) -> Self {
        Self { delivery_count: Some(count), ..self }
    }

    /// Milliseconds since the Unix epoch, for `UTC()` of SQL filters. Without it `UTC()` is
    /// unknown.
    #[inline]
    #[must_use]
    pub fn at(self, now_ms: i64) -> Self {
        Self { now_ms: Some(now_ms), ..self }
    }

    #[inline]
    pub(super) fn now(&self) -> Value<'m> {
        self.now_ms.map_or(Value::Null, Value::Int)
    }
}

/// The ids of a message as text, created only if a selector reads them and they have another type.
#[derive(Debug, Default)]
pub(super) struct Texts {
    message_id: OnceCell<String>,
    correlation_id: OnceCell<String>,
}

/// The fields of a message that a program needs, by section and in the order of the section. The
/// numbers are slots.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Needs {
    header: Box<[(u8, u16)]>,
    properties: Box<[(u8, u16)]>,
    application: Box<[(Box<str>, u16)]>,
    annotations: Box<[(Box<str>, u16)]>,
}

impl Needs {
    /// One slot for each field, in their order. At most 64 fields.
    pub(super) fn new(fields: &[Field]) -> Self {
        let (mut header, mut properties) = (Vec::new(), Vec::new());
        let (mut application, mut annotations) = (Vec::new(), Vec::new());
        for (slot, field) in (0..).zip(fields) {
            match &field.place {
                FieldSource::Header(index) => header.push((*index, slot)),
                FieldSource::Properties(index) => properties.push((*index, slot)),
                FieldSource::Application(key) => application.push((key.clone(), slot)),
                FieldSource::Annotation(key) => annotations.push((key.clone(), slot)),
            }
        }
        header.sort_unstable();
        properties.sort_unstable();
        Self {
            header: header.into(),
            properties: properties.into(),
            application: application.into(),
            annotations: annotations.into(),
        }
    }

    /// Fills the slots, which already hold the values of absent fields. Stops after the last needed
    /// field.
    ///
    /// # Errors
    /// [`Broken`]: a section that is needed is malformed.
    pub(super) fn fill<'v>(&self, message: &Subject<'v>, slots: &mut Slots<'v, '_>) -> Result<(), Broken> {
        let head = message.head.as_ref().ok_or(Broken::Malformed)?;
        if let (false, Some(header)) = (self.header.is_empty(), head.header) {
            fill_list(header, &self.header, slots)?;
        }
        if let Some(count) = message.delivery_count {
            let counts = self.header.iter().filter(|(index, _)| *index == DELIVERY_COUNT);
            counts.for_each(|(_, slot)| slots.set(*slot, Scalar::Unsigned(count.into())));
        }
        if let (false, Some(properties)) = (self.properties.is_empty(), head.properties) {
            fill_list(properties, &self.properties, slots)?;
        }
        if let (false, Some(annotations)) = (self.annotations.is_empty(), head.message_annotations) {
            fill_map(annotations, &self.annotations, slots)?;
        }
        if let (false, Some(application)) = (self.application.is_empty(), head.application_properties) {
            fill_map(application, &self.application, slots)?;
        }
        Ok(())
    }
}

/// The slots to fill, and the form of each.
pub(super) struct Slots<'v, 'f> {
    pub(super) values: &'f mut [Value<'v>],
    pub(super) fields: &'f [Field],
    pub(super) texts: &'v Texts,
}

impl<'v> Slots<'v, '_> {
    #[inline(always)]
    fn set(&mut self, slot: u16, scalar: Scalar<'v>) {
        let slot = usize::from(slot);
        if let (Some(value), Some(field)) = (self.values.get_mut(slot), self.fields.get(slot)) {
            // Null equals absent: the default of a header field applies.
            if !matches!(scalar, Scalar::Null) {
                *value = field.form.apply(scalar, self.texts);
            }
        }
    }
}

fn fill_list<'v>(list: &'v [u8], needs: &[(u8, u16)], slots: &mut Slots<'v, '_>) -> Result<(), Broken> {
    let mut elements = Elements::of_list(list)?;
    let mut read = 0;
    let mut last = Scalar::Null;
    for &(index, slot) in needs {
        // Two names of one field share its value, which is then already in `last`.
        while read <= index {
            if elements.left() == 0 {
                return Ok(());
            }
            if read == index {
                last = elements.scalar()?;
            } else {
                elements.skip()?;
            }
            read += 1;
        }
        slots.set(slot, last);
    }
    Ok(())
}

/// Of duplicate keys, which are illegal in a map, the first counts.
fn fill_map<'v>(map: &'v [u8], needs: &[(Box<str>, u16)], slots: &mut Slots<'v, '_>) -> Result<(), Broken> {
    let mut elements = Elements::of_map(map)?;
    let mut missing = needs.len();
    let mut found = 0_u64;
    while missing > 0 && elements.left() > 0 {
        let key = elements.key()?;
        let same =
            |name: &str| name.len() == key.len() && name.as_bytes().first() == key.first() && name.as_bytes() == key;
        match needs.iter().position(|(name, _)| same(name)) {
            Some(need) if found & 1 << need == 0 => {
                slots.set(needs[need].1, elements.scalar()?);
                found |= 1 << need;
                missing -= 1;
            }
            _ => elements.skip()?,
        }
    }
    Ok(())
}

impl Form {
    #[inline]
    fn apply<'v>(self, scalar: Scalar<'v>, texts: &'v Texts) -> Value<'v> {
        if self == Self::Plain { scalar.into() } else { self.apply_computed(scalar, texts) }
    }

    fn apply_computed<'v>(self, scalar: Scalar<'v>, texts: &'v Texts) -> Value<'v> {
        match (self, scalar) {
            (Self::MessageId, Scalar::Text(id)) if is_jms_id(id) => Value::Text(id),
            (Self::MessageId, id) => id_text(id, "ID:AMQP_NO_PREFIX:", &texts.message_id),
            (Self::CorrelationId, Scalar::Text(id)) if !has_type(id) => Value::Text(id),
            (Self::CorrelationId, id) => id_text(id, "", &texts.correlation_id),
            (Self::Utf8, Scalar::Binary(bytes)) => std::str::from_utf8(bytes).map_or(Value::Null, Value::Text),
            (Self::DeliveryMode, Scalar::Bool(true)) => Value::Text("PERSISTENT"),
            (Self::DeliveryMode, Scalar::Bool(false)) => Value::Text("NON_PERSISTENT"),
            (Self::Attempt, Scalar::Unsigned(count)) => Scalar::Unsigned(count.saturating_add(1)).into(),
            (Self::Redelivered, Scalar::Unsigned(count)) => Value::Bool(count > 0),
            (_, other) => other.into(),
        }
    }
}

/// Whether the id starts with `ID:` and not with a type prefix of the mapping.
fn is_jms_id(id: &str) -> bool {
    id.starts_with("ID:") && !has_type(id)
}

fn has_type(id: &str) -> bool {
    let types = ["STRING:", "NO_PREFIX:", "ULONG:", "UUID:", "BINARY:"];
    id.strip_prefix("ID:AMQP_").is_some_and(|rest| types.iter().any(|name| rest.starts_with(name)))
}

/// An id that is not a plain string, as JMS shows it (JMS mapping, 3.2.1.1); `plain` is the prefix
/// of a string without `ID:`.
#[cold]
fn id_text<'v>(id: Scalar<'v>, plain: &str, text: &'v OnceCell<String>) -> Value<'v> {
    let make = || match id {
        Scalar::Unsigned(number) => format!("ID:AMQP_ULONG:{number}"),
        Scalar::Uuid(bytes) => {
            let mut text = String::from("ID:AMQP_UUID:");
            for (at, byte) in bytes.iter().enumerate() {
                let hyphen = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
                let _ = write!(text, "{hyphen}{byte:02x}");
            }
            text
        }
        Scalar::Binary(bytes) => bytes.iter().fold(String::from("ID:AMQP_BINARY:"), |mut text, byte| {
            let _ = write!(text, "{byte:02X}");
            text
        }),
        Scalar::Text(id) if id.starts_with("ID:") => format!("ID:AMQP_STRING:{id}"),
        Scalar::Text(id) => format!("{plain}{id}"),
        _ => String::new(),
    };
    match id {
        Scalar::Unsigned(_) | Scalar::Uuid(_) | Scalar::Binary(_) | Scalar::Text(_) => {
            Value::Text(text.get_or_init(make))
        }
        other => other.into(),
    }
}
