//! Message annotations that consumers have changed (3.4.5): in memory, and where the message is on
//! disk as state of its queue, under the number by which the log knows the message.

use enmasse_amqp::codec::{decode_value, encode_value};
use enmasse_amqp::types::{Fields, Symbol, Value};
use enmasse_journal::queue::Seq;

use super::super::storage::Storage;
use super::Queue;

/// Bound of the encoded annotations of consumers on one message; larger changes are ignored.
const CHANGED_BYTES: usize = 16 << 10;

/// Message annotations that consumers have modified.
#[derive(Debug, Default)]
pub(in crate::core) struct Changed {
    pub(in crate::core) annotations: Fields,
    /// the log keeps it, too
    pub(in crate::core) on_disk: bool,
}

impl Queue {
    /// A consumer has changed annotations: they go with the message from now on, also after a
    /// restart.
    pub(super) fn change_annotations(&mut self, seq: Seq, more: &[(Symbol, Value)], storage: &mut Storage) {
        // The message has gone, and its annotations with it.
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

/// Adds annotations, in the place of those of the same name.
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

/// The decoded form; `None` if it was not written here.
pub(in crate::core) fn decode(bytes: &[u8]) -> Option<Fields> {
    let Ok((Value::Map(pairs), _)) = decode_value(bytes) else { return None };
    let field = |(name, value)| if let Value::Symbol(name) = name { Some((name, value)) } else { None };
    pairs.into_iter().map(field).collect()
}
