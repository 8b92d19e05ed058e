//! Finds sections and fields of an encoded message without decoding it: no allocation, every bound
//! checked.

use std::ops::Range;

use super::descriptor;
pub use super::elements::{Elements, Scalar, scalar, type_of};
pub use super::error::Broken;
use super::error::Fault;
use super::reader::Reader;

/// One section of a message (3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    /// number of its descriptor: 0x70 (header) to 0x78 (footer) in the standard
    pub code: u64,
    /// its range in the message, descriptor included
    pub range: Range<usize>,
    /// its value, encoded
    pub value: &'a [u8],
}

/// The sections of a message, in the order of the bytes. Ends after the first that is broken.
#[derive(Clone, Debug)]
pub struct Sections<'a> {
    rest: Reader<'a>,
    at: usize,
}

/// The sections of `message`.
#[inline]
#[must_use]
pub fn sections(message: &[u8]) -> Sections<'_> {
    Sections { rest: Reader::new(message), at: 0 }
}

impl<'a> Sections<'a> {
    #[inline]
    fn section(&mut self) -> Result<Section<'a>, Fault> {
        let before = self.rest.rest().len();
        // A section described by an unknown symbol is skipped like one with an unknown number.
        let code = self.rest.descriptor()?.number().unwrap_or(u64::MAX);
        let value = self.rest.skip()?;
        let start = self.at;
        self.at += before - self.rest.rest().len();
        Ok(Section { code, range: start..self.at, value })
    }
}

impl<'a> Iterator for Sections<'a> {
    type Item = Result<Section<'a>, Broken>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let section = self.section().map_err(Broken::from);
        if section.is_err() {
            self.rest = Reader::new(&[]);
        }
        Some(section)
    }
}

/// The sections before the body (3.2), each as its encoded value. A message has at most one of
/// each; of duplicates, the first counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head<'a> {
    /// 3.2.1, a list
    pub header: Option<&'a [u8]>,
    /// 3.2.2, a map
    pub delivery_annotations: Option<&'a [u8]>,
    /// 3.2.3, a map
    pub message_annotations: Option<&'a [u8]>,
    /// 3.2.4, a list
    pub properties: Option<&'a [u8]>,
    /// 3.2.5, a map
    pub application_properties: Option<&'a [u8]>,
}

/// Finds the sections before the body, which may be cut or missing.
///
/// # Errors
/// [`Broken`]: the bytes end before the body, or are not a message.
#[inline]
pub fn head(message: &[u8]) -> Result<Head<'_>, Broken> {
    let mut reader = Reader::new(message);
    let mut head = Head::default();
    while !reader.is_empty() {
        let place = match reader.descriptor()?.number() {
            Some(descriptor::HEADER) => &mut head.header,
            Some(descriptor::DELIVERY_ANNOTATIONS) => &mut head.delivery_annotations,
            Some(descriptor::MESSAGE_ANNOTATIONS) => &mut head.message_annotations,
            Some(descriptor::PROPERTIES) => &mut head.properties,
            Some(descriptor::APPLICATION_PROPERTIES) => &mut head.application_properties,
            Some(descriptor::DATA | descriptor::AMQP_SEQUENCE | descriptor::AMQP_VALUE | descriptor::FOOTER) => break,
            _ => {
                reader.skip()?;
                continue;
            }
        };
        let value = reader.skip()?;
        place.get_or_insert(value);
    }
    Ok(head)
}

/// The `to` of a message, if it has one and it is within these bytes.
#[inline]
#[must_use]
pub fn to(message: &[u8]) -> Option<&str> {
    find_to(message).ok().flatten()
}

/// As [`to`], but distinguishes a message without `to` from one whose frame ends before its
/// properties do.
///
/// # Errors
/// [`Broken`]: the bytes end before the properties or the body, or are no message.
pub fn find_to(message: &[u8]) -> Result<Option<&str>, Broken> {
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.descriptor()?.number() {
            Some(descriptor::PROPERTIES) => {
                let properties = reader.skip()?;
                return properties_to(properties).map_err(|_| Broken::Malformed);
            }
            // Nothing but the footer comes after the body.
            Some(descriptor::DATA | descriptor::AMQP_SEQUENCE | descriptor::AMQP_VALUE) => return Ok(None),
            _ => reader.skip()?,
        };
    }
    Ok(None)
}

/// Whether the body of a message has no content: no or empty data (3.2.6), or a value (3.2.8) that
/// is null or an empty binary, string or symbol.
#[must_use]
pub fn has_empty_body(message: &[u8]) -> bool {
    let is_empty = |value| match scalar(value) {
        Ok(Scalar::Null) => true,
        Ok(Scalar::Binary(bytes)) => bytes.is_empty(),
        Ok(Scalar::Text(text) | Scalar::Symbol(text)) => text.is_empty(),
        _ => false,
    };
    sections(message).all(|section| match section {
        Ok(Section { code: descriptor::DATA | descriptor::AMQP_VALUE, value, .. }) => is_empty(value),
        Ok(section) => section.code != descriptor::AMQP_SEQUENCE,
        Err(_) => false,
    })
}

/// The third field of the properties section (3.2.4).
fn properties_to(properties: &[u8]) -> Result<Option<&str>, Fault> {
    let (count, mut fields) = Reader::new(properties).list()?;
    if count < 3 {
        return Ok(None);
    }
    fields.skip()?;
    fields.skip()?;
    if fields.null() { Ok(None) } else { fields.string().map(Some) }
}
