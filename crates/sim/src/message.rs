//! Messages with their number, and bytes derived from it.

use enmasse_amqp::codec::{decode_message, encode_message};
use enmasse_amqp::types::{Body, Message, Properties, Value};
use enmasse_router::shard::DYNAMIC_PREFIX;

use crate::random::Random;

/// Names a message; a later one has a higher number.
pub(crate) type MessageNumber = usize;

/// Whether a name is that of a dynamic node.
pub(crate) fn is_dynamic(name: &str) -> bool {
    name.starts_with(DYNAMIC_PREFIX)
}

/// The bytes of a message with about `size` bytes of body.
pub(crate) fn write(number: MessageNumber, to: &str, reply_to: Option<String>, size: usize) -> Vec<u8> {
    let mut body = vec![0; size + 8];
    Random::new(number as u64).fill(&mut body);
    body[..8].copy_from_slice(&(number as u64).to_be_bytes());
    let message = Message {
        properties: Some(Properties { to: Some(to.to_owned()), reply_to, ..Properties::default() }),
        body: Body::Data(vec![body]),
        ..Message::default()
    };
    let mut bytes = Vec::new();
    encode_message(&mut bytes, &message);
    bytes
}

/// The content of a message as a consumer reads it.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    /// number of the message; `None`: it has no body
    pub(crate) number: Option<MessageNumber>,
    /// where to reply to
    pub(crate) reply_to: Option<String>,
    /// failed attempts to deliver it before, by its header
    pub(crate) delivery_count: u32,
    message: Message,
}

impl Content {
    /// Reads a message; `None` if the simulation did not send it.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let message = if bytes.is_empty() { Message::default() } else { decode_message(bytes).ok()? };
        let number = match &message.body {
            Body::Data(sections) => {
                let number = sections.first()?.first_chunk::<8>()?;
                Some(u64::from_be_bytes(*number) as MessageNumber)
            }
            Body::Empty => None,
            _ => return None,
        };
        let reply_to = message.properties.as_ref().and_then(|properties| properties.reply_to.clone());
        let delivery_count = message.header.as_ref().map_or(0, |header| header.delivery_count);
        Some(Self { number, reply_to, delivery_count, message })
    }

    /// Whether the bare message (3.2) is the one that was sent with these bytes.
    pub(crate) fn is_same(&self, sent: &[u8]) -> bool {
        Self::read(sent).is_some_and(|sent| {
            let bare = |content: &Self| {
                let Message { properties, application_properties, body, .. } = content.message.clone();
                (properties, application_properties, body)
            };
            bare(self) == bare(&sent)
        })
    }

    fn annotation(&self, name: &str) -> Option<&Value> {
        let mut all = self.message.message_annotations.iter();
        all.find(|(key, _)| key.as_str() == name).map(|(_, value)| value)
    }

    /// For a dead letter: its original address, and the cause.
    pub(crate) fn dead_letter(&self) -> Option<(&str, &str)> {
        match (self.annotation("x-opt-dead-letter-origin"), self.annotation("x-opt-dead-letter-cause")) {
            (Some(Value::String(origin)), Some(Value::String(cause))) => Some((origin, cause)),
            _ => None,
        }
    }

    /// For a message of a stream: partition and offset.
    pub(crate) fn offset(&self) -> Option<(u32, u64)> {
        match (self.annotation("x-opt-partition"), self.annotation("x-stream-offset")) {
            (Some(Value::Uint(partition)), Some(Value::Ulong(offset))) => Some((*partition, *offset)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_number_and_reply_to_are_read_back() {
        let bytes = write(77, "there", Some("back".to_owned()), 1000);
        let content = Content::read(&bytes).expect("a message");
        assert_eq!((content.number, content.reply_to.as_deref()), (Some(77), Some("back")));
        assert!(content.is_same(&bytes) && !content.is_same(&write(77, "there", None, 1000)));
        assert!(Content::read(&bytes[..20]).is_none());
        assert_eq!(Content::read(&[]).expect("a message without sections").number, None);
    }
}
