//! Messages that carry their number, and bytes that follow from it.

use enmasse_amqp::codec::{decode_message, encode_message};
use enmasse_amqp::types::{Body, Message, Properties};
use enmasse_router::shard::DYNAMIC_PREFIX;

use crate::ledger::MessageNumber;
use crate::random::Random;

/// Whether a name is that of a node made at attach.
pub(crate) fn is_dynamic(name: &str) -> bool {
    name.starts_with(DYNAMIC_PREFIX)
}

/// The bytes of a message with about `size` bytes of body.
pub(crate) fn write(number: MessageNumber, to: &str, reply_to: Option<String>, size: usize) -> Vec<u8> {
    let mut body = vec![0; size + 8];
    Random::new(number as u64).fill(&mut body);
    body[..8].copy_from_slice(&(number as u64).to_be_bytes());
    let message = Message {
        header: None,
        delivery_annotations: Vec::new(),
        message_annotations: Vec::new(),
        properties: Some(Properties { to: Some(to.to_owned()), reply_to, ..Properties::default() }),
        application_properties: Vec::new(),
        body: Body::Data(vec![body]),
        footer: Vec::new(),
    };
    let mut bytes = Vec::new();
    encode_message(&mut bytes, &message);
    bytes
}

/// The number of a message, and where to reply to.
pub(crate) fn read(bytes: &[u8]) -> Option<(MessageNumber, Option<String>)> {
    let message = decode_message(bytes).ok()?;
    let Body::Data(sections) = message.body else { return None };
    let number = sections.first()?.first_chunk::<8>()?;
    let reply_to = message.properties.and_then(|properties| properties.reply_to);
    Some((u64::from_be_bytes(*number) as MessageNumber, reply_to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_who_it_is() {
        let bytes = write(77, "there", Some("back".to_owned()), 1000);
        assert_eq!(read(&bytes), Some((77, Some("back".to_owned()))));
        assert_eq!(read(&bytes[..20]), None);
    }
}
