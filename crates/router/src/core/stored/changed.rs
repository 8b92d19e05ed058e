//! Message annotations that consumers have changed (3.4.5): in memory, and where the message is on
//! disk as state of its queue, under the number by which the log knows the message.

use enmasse_amqp::codec::{decode_value, encode_value};
use enmasse_amqp::types::{Fields, Symbol, Value};
use enmasse_journal::queue::Seq;

use super::super::Router;
use super::super::arena::Key;

/// Bound of the encoded annotations of consumers on one message; larger changes are ignored.
const CHANGED_BYTES: usize = 16 << 10;

/// Message annotations that consumers have modified.
#[derive(Debug, Default)]
pub(in crate::core) struct Changed {
    pub(super) annotations: Fields,
    /// the log keeps it, too
    pub(super) on_disk: bool,
}

impl Router {
    /// A consumer has changed annotations: they go with the message from now on, also after a
    /// restart.
    pub(super) fn change_annotations(&mut self, at: Key, seq: Seq, more: &[(Symbol, Value)]) {
        let stored = self.addresses.queue_mut(at);
        let Some(item) = stored.opened.queue.get(seq) else { return };
        let mut annotations = stored.changed.get(&seq.0).map(|changed| changed.annotations.clone()).unwrap_or_default();
        merge(&mut annotations, more);
        let bytes = encode(&annotations);
        if bytes.len() > CHANGED_BYTES {
            return;
        }
        let on_disk = stored.opened.log.is_some();
        if let Some(log) = stored.opened.log {
            self.journal.keep_annotations(log, item.id.0, &bytes);
        }
        stored.changed.insert(seq.0, Changed { annotations, on_disk });
    }
}

/// Adds annotations, in the place of those of the same name.
pub(super) fn merge(into: &mut Fields, more: &[(Symbol, Value)]) {
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
pub(super) fn decode(bytes: &[u8]) -> Option<Fields> {
    let Ok((Value::Map(pairs), _)) = decode_value(bytes) else { return None };
    let field = |(name, value)| if let Value::Symbol(name) = name { Some((name, value)) } else { None };
    pairs.into_iter().map(field).collect()
}
