//! Operations on stored messages, as the control plane requests them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use enmasse_amqp::codec::envelope::envelope;
use enmasse_amqp::selector::{Dialect, Selector};
use enmasse_journal::queue::State;
use enmasse_router::core::{AddressKind, Destination, ExaminedMessage, Failed, Filter, Operated, Operation, Work};
use enmasse_router::table::{AddressEntry, Space, Table};
use serde::{Deserialize, Serialize};

use crate::error::NodeError;

/// Largest message that `peek` returns with its body, in bytes.
const PEEK_BYTES_MAX: u32 = 65_536;
/// Messages of one slice at most.
const LIMIT_MAX: usize = 1000;

/// Every address of a table.
pub(crate) fn declared(table: &Table) -> impl Iterator<Item = &Arc<AddressEntry>> {
    table.spaces().flat_map(Space::addresses)
}

/// One slice of an operation on the messages of an address, except those that a consumer holds.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManageRequest {
    /// uid of the address
    pub address: String,
    /// the operation
    pub operation: Verb,
    /// messages at most, 1 to 1,000
    pub limit: usize,
    /// a JMS selector
    #[serde(default)]
    pub selector: Option<String>,
    /// an SQL filter expression (`amqp:sql-filter`), instead of a selector
    #[serde(default)]
    pub filter: Option<String>,
    /// a filter of MQTT, which the names that messages are sent to must match
    #[serde(default)]
    pub topic_filter: Option<String>,
    /// counts the messages without changing them
    #[serde(default)]
    pub dry_run: bool,
    /// uid of the address that messages are moved or copied to
    #[serde(default)]
    pub to: Option<String>,
    /// `rest` of the previous slice
    #[serde(default)]
    pub after: Option<String>,
    /// the number of the only message that the operation applies to
    #[serde(default)]
    pub message: Option<u64>,
    /// of `redrive` with `message`: the encoded message that takes its place
    #[serde(default)]
    pub edited: Option<Vec<u8>>,
}

/// Operations on messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// remove messages
    Purge,
    /// return messages without changing them
    Peek,
    /// move messages to another address
    Move,
    /// copy messages to another address
    Copy,
    /// move dead letters to the addresses where they failed
    Redrive,
}

/// The result of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Managed {
    /// affected messages
    pub messages: u64,
    /// bytes of those
    pub bytes: u64,
    /// start of the next slice; `None`: complete
    pub rest: Option<String>,
    /// the messages, of `peek`
    pub found: Vec<ExaminedMessageLine>,
    /// the encoded messages, where `peek` returns them
    #[serde(skip)]
    pub shown: Vec<Option<Vec<u8>>>,
}

/// An examined message; times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExaminedMessageLine {
    /// its number in the address
    pub id: u64,
    /// `waiting`, `scheduled` or `delayed`
    pub state: &'static str,
    /// bytes of the encoded message
    pub bytes: u32,
    /// arrival time
    pub enqueued_ms: u64,
    /// expiry time
    pub expires_ms: Option<u64>,
    /// scheduled delivery time
    pub due_ms: Option<u64>,
    /// failed deliveries
    pub attempts: u16,
}

/// An operation and its target address.
pub(crate) struct TargetedOperation {
    pub(crate) home: u16,
    pub(crate) operation: Operation,
}

impl ManageRequest {
    /// Finds the addresses in a table.
    ///
    /// # Errors
    /// `NoSuchAddress`; `Request` for an invalid selector or start of the slice.
    pub(crate) fn compile(&self, table: &Table) -> Result<TargetedOperation, NodeError> {
        let entry = find(table, &self.address)?;
        let compile = |text: &str, dialect: Dialect, field: &'static str| {
            Selector::compile(text, dialect).map_err(|error| NodeError::Request { field, reason: error.to_string() })
        };
        let selector = match (self.selector.as_deref(), self.filter.as_deref()) {
            (Some(_), Some(_)) => {
                let reason = "give either a selector or a filter".to_owned();
                return Err(NodeError::Request { field: "filter", reason });
            }
            (Some(text), None) => compile(text, Dialect::Jms, "selector")?,
            (None, Some(text)) => compile(text, Dialect::AmqpSql, "filter")?,
            (None, None) => None,
        };
        let operation = Operation {
            id: next_id(),
            address: entry.key,
            work: self.work(table, entry)?,
            selector,
            names: self.topic_filter.as_deref().map(topic_filter).transpose()?,
            dry_run: self.dry_run,
            limit: self.limit.clamp(1, LIMIT_MAX),
            rest: match self.message {
                Some(number) => Some((number, number.saturating_add(1))),
                None => self.after.as_deref().map(parse_rest).transpose()?,
            },
            edited: self.edited.clone(),
        };
        self.check_edited()?;
        let home = entry.home.get().ok_or_else(|| NodeError::NoSuchAddress(self.address.clone()))?;
        Ok(TargetedOperation { home, operation })
    }

    /// An edited message replaces a single dead letter, and must be a message.
    fn check_edited(&self) -> Result<(), NodeError> {
        let Some(edited) = &self.edited else { return Ok(()) };
        let wrong = |reason: &str| NodeError::Request { field: "edited", reason: reason.to_owned() };
        if self.operation != Verb::Redrive || self.message.is_none() {
            return Err(wrong("is for a redrive of one message"));
        }
        envelope(edited).map(|_| ()).map_err(|_| wrong("is not a message"))
    }

    fn work(&self, table: &Table, entry: &AddressEntry) -> Result<Work, NodeError> {
        let target = || -> Result<Destination, NodeError> {
            let missing = || NodeError::Request { field: "to", reason: "name the target address".to_owned() };
            let found = find(table, self.to.as_deref().ok_or_else(missing)?)?;
            if found.space != entry.space || found.key == entry.key {
                let reason = "must be another address of the same address space".to_owned();
                return Err(NodeError::Request { field: "to", reason });
            }
            destination(found).ok_or_else(missing)
        };
        Ok(match self.operation {
            Verb::Purge => Work::Purge,
            Verb::Peek => Work::Peek(PEEK_BYTES_MAX),
            Verb::Move => Work::Move(target()?),
            Verb::Copy => Work::Copy(target()?),
            Verb::Redrive => Work::Redrive(origins(table, entry)),
        })
    }
}

/// The number of the next operation.
pub(crate) fn next_id() -> u32 {
    static IDS: AtomicU32 = AtomicU32::new(0);
    IDS.fetch_add(1, Ordering::Relaxed)
}

/// # Errors
/// `Request`: it is no filter.
fn topic_filter(text: &str) -> Result<Filter, NodeError> {
    let wrong =
        |error: enmasse_mqtt::topic::FilterError| NodeError::Request { field: "filter", reason: error.to_string() };
    enmasse_mqtt::topic::Filter::parse(text).map_err(wrong)?;
    let filter = text.to_owned();
    Ok(Filter::new(move |name| enmasse_mqtt::topic::matches(&filter, name)))
}

/// A stored address: a declared one, or the queue of retained messages of a space.
fn find<'a>(table: &'a Table, uid: &str) -> Result<&'a Arc<AddressEntry>, NodeError> {
    let retained = table.spaces().filter_map(|space| Some(&space.mqtt()?.retained));
    let found = declared(table).chain(retained).find(|entry| &*entry.uid == uid && entry.storage.is_some());
    found.ok_or_else(|| NodeError::NoSuchAddress(uid.to_owned()))
}

/// The other stored addresses of the space, by their names.
fn origins(table: &Table, entry: &AddressEntry) -> HashMap<Box<str>, Destination> {
    let addresses = table.space(entry.space).into_iter().flat_map(|space| space.addresses());
    let others = addresses.filter(|other| other.kind == AddressKind::Queue && other.key != entry.key);
    others.filter_map(|other| Some((Box::from(&*other.name), destination(other)?))).collect()
}

/// An address with its home; a stored address of a Plan in force has one.
fn destination(entry: &AddressEntry) -> Option<Destination> {
    Some(Destination { key: entry.key, home: entry.home.get()? })
}

fn parse_rest(text: &str) -> Result<(u64, u64), NodeError> {
    let parsed = text.split_once('-').and_then(|(from, until)| Some((from.parse().ok()?, until.parse().ok()?)));
    let reason = || format!("{text:?} is not a value of an earlier answer; omit it to begin");
    parsed.ok_or_else(|| NodeError::Request { field: "continue", reason: reason() })
}

impl Managed {
    /// # Errors
    /// `NoSuchAddress`, `FullAddress`, `Journal`: as the operation failed.
    pub(crate) fn of(request: &ManageRequest, done: Operated) -> Result<Self, NodeError> {
        match done.failed {
            Some(Failed::Missing) => return Err(NodeError::NoSuchAddress(request.address.clone())),
            Some(Failed::NoTarget) => {
                return Err(NodeError::NoSuchAddress(request.to.clone().unwrap_or_default()));
            }
            Some(Failed::Full(reason)) => return Err(NodeError::FullAddress { reason, messages: done.messages }),
            Some(Failed::Log(reason)) => return Err(NodeError::Journal(reason)),
            None => {}
        }
        Ok(Self {
            messages: done.messages,
            bytes: done.bytes,
            rest: done.rest.map(|(from, until)| format!("{from}-{until}")),
            found: done.found.iter().map(ExaminedMessageLine::of).collect(),
            shown: done.found.into_iter().map(|found| found.message).collect(),
        })
    }
}

impl ExaminedMessageLine {
    fn of(found: &ExaminedMessage) -> Self {
        let item = &found.item;
        let state = match item.state {
            State::Scheduled => "scheduled",
            State::Delayed => "delayed",
            _ => "waiting",
        };
        Self {
            id: item.seq.0,
            state,
            bytes: item.size_bytes,
            enqueued_ms: item.enqueued,
            expires_ms: item.expires,
            due_ms: found.due,
            attempts: item.failures,
        }
    }
}
