//! The links of a client: their numbers, and the fate of a delivery.

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Attach, Fields, ReceiverSettleMode, Role, SenderSettleMode};

/// Names of the addresses that keep what clients leave behind begin so; no name of a client resolves
/// to one.
pub(in crate::shard) const MQTT_PREFIX: &str = "$mqtt/";
/// The link of all publications.
pub(in crate::shard) const PUBLISHER: LinkId = LinkId(0);
/// The link whose name is the client id.
pub(in crate::shard) const SESSION: LinkId = LinkId(1);
/// The link that reads retained messages.
pub(in crate::shard) const RETAINED: LinkId = LinkId(2);
/// The link to the record of the session.
pub(in crate::shard) const RECORD: LinkId = LinkId(3);
/// Stands for the packet that waits until its address is created.
pub(in crate::shard) const CREATION: LinkId = LinkId(u32::MAX);
/// Numbers of subscription links begin here.
pub(in crate::shard) const FIRST_SUBSCRIPTION: usize = 4;

/// The fate of a delivery, or of a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shard) enum Fate {
    /// it is not complete, or the client will acknowledge it
    Pending,
    /// the client will not acknowledge it: it counts as accepted
    Done,
    /// it is larger than the client takes
    TooLarge,
    /// the client has too many unacknowledged deliveries
    NoRoom,
}

/// The request of a receiving link.
pub(in crate::shard) fn request(name: String) -> Attach {
    Attach {
        name,
        handle: 0,
        role: Role::Receiver,
        snd_settle_mode: SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: None,
        target: None,
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: None,
        max_message_size: None,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: Fields::new(),
    }
}
