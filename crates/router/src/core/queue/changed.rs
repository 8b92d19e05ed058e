//! Message annotations that consumers have modified (3.4.5): kept in memory, and for messages on
//! disk also as state of their queue, by the message's number in the log.

use enmasse_amqp::codec::{decode_value, encode_value};
use enmasse_amqp::types::{Fields, Symbol, Value};
use enmasse_journal::queue::Seq;

use super::super::storage::{ANNOTATIONS, Storage};
use super::Queue;

/// Bound of the encoded modified annotations of one message; a change that exceeds it is ignored.
const CHANGED_BYTES: usize = 16 << 10;

/// Message annotations that consumers have modified.
#[derive(Debug, Default)]
pub(in crate::core) struct Changed {
    pub(in crate::core) annotations: Fields,
    /// they are also in the log
    pub(in crate::core) on_disk: bool,
}

impl Queue {
    /// Merges annotations from a consumer into those of a message. They are delivered with the
    /// message, also after a restart.
    pub(super) fn change_annotations(&mut self, seq: Seq, more: &[(Symbol, Value)], storage: &mut Storage) {
        // The message was removed, and its annotations with it.
        let Some(item) = self.opened.messages.get(seq) else { return };
        let mut annotations = self.changed.get(&seq.0).map(|changed| changed.annotations.clone()).unwrap_or_default();
        merge(&mut annotations, more);
        let bytes = encode(&annotations);
        if bytes.len() > CHANGED_BYTES {
            return;
        }
        let on_disk = self.opened.log.is_some();
        if let Some(log) = self.opened.log {
            storage.journal.keep_annotations(log, item.id.0, &bytes);
        }
        self.changed.insert(seq.0, Changed { annotations, on_disk });
    }
}

/// Adds annotations, and replaces those of the same name.
pub(in crate::core) fn merge(into: &mut Fields, more: &[(Symbol, Value)]) {
    for (name, value) in more {
        into.retain(|(known, _)| known != name);
        into.push((name.clone(), value.clone()));
    }
}

fn encode(annotations: &Fields) -> Vec<u8> {
    let pairs = annotations.iter().map(|(name, value)| (Value::Symbol(name.clone()), value.clone()));
    let mut bytes = Vec::new();
    encode_value(&mut bytes, &Value::Map(pairs.collect()));
    bytes
}

/// Decodes annotations; `None` if the format is not that of [`encode`].
pub(in crate::core) fn decode(bytes: &[u8]) -> Option<Fields> {
    let Ok((Value::Map(pairs), _)) = decode_value(bytes) else { return None };
    let field = |(name, value)| if let Value::Symbol(name) = name { Some((name, value)) } else { None };
    pairs.into_iter().map(field).collect()
}

/// A key and its value in the state of a queue: the changed annotations of a message, if that is
/// its kind.
pub(in crate::core) fn annotations_of(key: &[u8], value: &[u8]) -> Option<(u64, Fields)> {
    let (&ANNOTATIONS, id) = key.split_first()? else { return None };
    Some((u64::from_le_bytes(id.try_into().ok()?), decode(value)?))
}
