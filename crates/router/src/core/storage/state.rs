//! Keys and values of state in the log, in addition to the messages of a queue. All other keys
//! belong to the queue itself.

use enmasse_journal::log::RecoveredQueue;

/// First byte of the state key of a message's failed deliveries. The value: their count (u16), and
/// the time of the next attempt if it is delayed (u64, milliseconds since 1970), little-endian.
pub(in crate::core) const FAILURES: u8 = 0x80;
/// The same for its modified annotations.
pub(in crate::core) const ANNOTATIONS: u8 = 0x81;
/// The same for the link that holds it, with the seconds for which the hold outlives the link.
pub(in crate::core) const HELD: u8 = 0x84;
/// The same for the digests of the links that it is barred from.
pub(in crate::core) const BARRED: u8 = 0x85;
/// First byte of the state key of a message that was sent to a client of MQTT and does not expire any
/// more.
pub(in crate::core) const SENT: u8 = 0x88;
/// First byte of the state key of a packet identifier of MQTT under which the node has received a
/// message of the client with QoS 2, followed by the identifier, little-endian.
pub(in crate::core) const RECEIVED_FROM_CLIENT: u8 = 0x86;
/// The same for one under which the client has received a message of the node.
pub(in crate::core) const RECEIVED_FROM_NODE: u8 = 0x87;
/// The key of the description of an undeclared subscription.
pub(in crate::core) const SUBSCRIPTION: &[u8] = &[0x82];

/// The logged description of an undeclared subscription.
#[must_use]
pub fn subscription_of(recovered: &RecoveredQueue) -> Option<&[u8]> {
    recovered.states.get(SUBSCRIPTION).map(|description| &**description)
}

/// The state key of a kind for a message id.
pub(in crate::core) fn state_key(kind: u8, id: u64) -> [u8; 9] {
    let mut key = [kind; 9];
    key[1..].copy_from_slice(&id.to_le_bytes());
    key
}

/// The message to which a state key belongs, if any.
pub(in crate::core) fn message_of(key: &[u8]) -> Option<u64> {
    let (&(FAILURES | ANNOTATIONS | BARRED | SENT), id) = key.split_first()? else { return None };
    Some(u64::from_le_bytes(id.try_into().ok()?))
}

/// Failed deliveries of a message.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Failures {
    pub(in crate::core) count: u16,
    /// earliest time of the next delivery, milliseconds since 1970
    pub(in crate::core) due: Option<u64>,
}

/// Decodes the failed deliveries of a message; `None`: it is another state.
pub(in crate::core) fn failures_of(key: &[u8], value: &[u8]) -> Option<(u64, Failures)> {
    let (&FAILURES, id) = key.split_first()? else { return None };
    let (count, due) = value.split_first_chunk()?;
    let due = if due.is_empty() { None } else { Some(u64::from_le_bytes(due.try_into().ok()?)) };
    Some((u64::from_le_bytes(id.try_into().ok()?), Failures { count: u16::from_le_bytes(*count), due }))
}

/// As above, for the links that it is barred from.
pub(in crate::core) fn barred_of<'a>(
    key: &[u8],
    value: &'a [u8],
) -> Option<(u64, impl Iterator<Item = u64> + use<'a>)> {
    let (&BARRED, id) = key.split_first()? else { return None };
    let (names, _) = value.as_chunks::<8>();
    Some((u64::from_le_bytes(id.try_into().ok()?), names.iter().map(|name| u64::from_le_bytes(*name))))
}
