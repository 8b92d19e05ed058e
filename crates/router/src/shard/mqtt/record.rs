//! The session of a client as its connection knows it: its record, and what waits for that.

use std::collections::BTreeSet;

use enmasse_amqp::types::{Error, condition};
use enmasse_mqtt::codec::{PacketId, ReasonCode};
use enmasse_mqtt::connection::{InFlight, OutgoingDelivery, Stage};
use enmasse_mqtt::session::{Session, StoredSubscription, StoredWill};
use enmasse_mqtt::topic::Filter;

use super::filters::{FilterState, is_of_system};
use super::links::Fate;
use super::steps::Step;
use super::{Mqtt, codes, message};
use crate::core::{AttachmentId, Delivery, Flow, PacketFlow};

/// Records requested at once; there are seldom more than two.
pub(in crate::shard) const BATCH: u32 = 64;

/// What a connection knows of its session.
#[derive(Default)]
pub(in crate::shard) struct SessionState {
    /// seconds for which it outlives the connection; 0: it ends with it
    pub(in crate::shard) expiry_s: u32,
    /// deliveries of records, the last of which is in force
    pub(in crate::shard) tokens: Vec<u64>,
    /// deliveries of former records, to be settled
    pub(in crate::shard) superseded: Vec<u64>,
    /// the record in force, until it was read
    pub(in crate::shard) found: Option<Session>,
    /// the connection that has stored it
    pub(in crate::shard) stored_by: Option<u128>,
    /// the received parts of a record
    pub(in crate::shard) parts: Vec<u8>,
    /// records of the batch so far
    pub(in crate::shard) delivered: u32,
    /// the link to a record that was ended, whose home may not know it yet
    pub(in crate::shard) ended_record: Option<AttachmentId>,
    /// the connection has read the session, and continues or discards it
    pub(in crate::shard) is_decided: bool,
    /// the link to the record is attached
    pub(in crate::shard) is_recorded: bool,
    /// the record names this connection
    pub(in crate::shard) is_renewed: bool,
    /// the subscriptions of a former session are about to be ended
    pub(in crate::shard) discards: bool,
    /// published if the connection ends otherwise than by the client's DISCONNECT
    pub(in crate::shard) will: Option<Box<StoredWill>>,
    /// the record has the will
    pub(in crate::shard) stored_will: bool,
    /// packet identifiers of QoS 2 that this connection continues with
    pub(in crate::shard) resumed: InFlight,
    /// those on disk under which the client has received messages
    pub(in crate::shard) from_node: BTreeSet<PacketId>,
}

/// What waits until a record is on disk.
#[derive(Debug)]
pub(in crate::shard) enum After {
    /// nothing
    Nothing,
    /// CONNACK
    Connect,
    /// SUBACK of the SUBSCRIBE in progress
    Subscribe,
    /// the answer to an AMQP client that has replaced its will
    Will,
    /// the answer to an AMQP client that changes its subscription
    Service,
    /// UNSUBACK
    Unsubscribe { packet_id: PacketId, codes: Vec<ReasonCode> },
}

impl SessionState {
    /// Whether its subscriptions are those of a session that has or will have a record.
    pub(in crate::shard) fn is_durable(&self) -> bool {
        self.expiry_s > 0 || self.discards
    }

    /// Whether it is kept when the connection ends.
    pub(in crate::shard) fn persists(&self) -> bool {
        self.expiry_s > 0 && self.is_recorded
    }

    pub(in crate::shard) fn take_superseded(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.superseded)
    }

    pub(in crate::shard) fn take_tokens(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.tokens)
    }

    /// The record has these packet identifiers.
    pub(in crate::shard) fn resumes(&mut self, from_client: &[u16], from_node: &[u16]) {
        let delivery = |packet_id| OutgoingDelivery { packet_id, token: 0, stage: Stage::Received };
        let ids = |ids: &[u16]| ids.iter().filter_map(|id| PacketId::new(*id)).collect::<Vec<_>>();
        self.resumed.received = ids(from_client);
        self.resumed.outgoing = ids(from_node).into_iter().map(delivery).collect();
    }

    pub(in crate::shard) fn credit(&self) -> u32 {
        if self.is_recorded { BATCH } else { 0 }
    }
}

impl Mqtt {
    /// The present state of the session, for its record.
    pub(in crate::shard) fn record(&self) -> Session {
        let subscription = |text: &str, filter: &FilterState| StoredSubscription {
            filter: text.to_owned(),
            options: filter.options,
            subscription_id: filter.id,
        };
        Session {
            expiry_s: self.session.expiry_s,
            subscriptions: self.filters.iter().map(|(text, filter)| subscription(text, filter)).collect(),
            will: self.session.will.as_deref().cloned(),
        }
    }

    /// Takes a record of the session.
    pub(in crate::shard) fn take_record(&mut self, delivery: &Delivery<'_>) -> Fate {
        let session = &mut self.session;
        if delivery.first {
            session.delivered += 1;
            session.parts.clear();
        }
        if delivery.aborted {
            return Fate::Pending;
        }
        session.parts.extend_from_slice(delivery.payload);
        if delivery.more {
            return Fate::Pending;
        }
        let parts = std::mem::take(&mut session.parts);
        let message = message::decode(&parts);
        let Ok(found) = Session::decode(&message.payload.concat()) else { return Fate::Done };
        let stored_by = message.correlation_data.as_deref().and_then(|number| number.try_into().ok());
        session.stored_by = stored_by.map(u128::from_be_bytes);
        session.found = Some(found);
        session.superseded.append(&mut session.tokens);
        session.tokens.extend(delivery.token);
        Fate::Pending
    }

    /// The link to the record is attached.
    pub(in crate::shard) fn record_accepted(&mut self) {
        self.session.is_recorded = true;
        if let Some(login) = &mut self.login {
            login.record_accepted();
        }
    }

    /// There is no record, or it cannot be kept.
    pub(in crate::shard) fn record_refused(&mut self, error: &Error) {
        let Some(login) = &mut self.login else { return };
        match login.is_recalling() {
            true if error.condition == condition::NOT_FOUND => login.set_step(Step::Resume),
            true => self.refuse_login(ReasonCode::ServerBusy),
            false => {
                self.note_failure(Some(error));
                self.refuse_login(codes::closed(error));
            }
        }
    }

    /// All records are read.
    pub(in crate::shard) fn record_drained(&mut self) {
        if let Some(login) = &mut self.login {
            login.set_step(if self.session.delivered >= BATCH { Step::ReadRecord } else { Step::Resume });
        }
    }

    /// A record is on disk, or was refused.
    pub(in crate::shard) fn recorded(&mut self, after: After, stored: bool) {
        match after {
            After::Nothing => {}
            After::Connect if stored => {
                self.session.is_renewed = true;
                if let Some(login) = &mut self.login {
                    login.set_step(Step::Accept);
                }
            }
            After::Connect => self.refuse_login(ReasonCode::ServerUnavailable),
            After::Will => self.will_stored = Some(stored),
            After::Service => self.note_outcome(if stored { Ok(()) } else { Err(ReasonCode::UnspecifiedError) }),
            After::Subscribe => self.answer_subscribe(stored),
            After::Unsubscribe { packet_id, codes } => {
                // An error means that the connection has ended in the meantime.
                let _ = self.machine.answer_unsubscribe(packet_id, &codes, "");
            }
        }
    }

    /// The request in progress of an agent has its outcome.
    pub(super) fn note_outcome(&mut self, outcome: Result<(), ReasonCode>) {
        if let Some(serving) = &mut self.serving {
            serving.outcome = Some(outcome);
        }
    }

    /// A packet identifier is on disk, or (`kept` is false) its removal: the next packet of its flow
    /// may leave.
    pub(in crate::shard) fn packet_id_stored(&mut self, packet: PacketFlow, kept: bool) {
        let Some(packet_id) = PacketId::new(packet.id) else { return };
        // An error means that the connection has ended in the meantime.
        match (packet.flow, kept) {
            (Flow::FromClient, false) => drop(self.machine.complete(packet_id)),
            (Flow::FromNode, true) => drop(self.machine.release(packet_id)),
            (Flow::FromNode, false) => drop(self.machine.reuse(packet_id)),
            (Flow::FromClient, true) => {}
        }
    }

    /// Adds the filters of a record.
    pub(in crate::shard) fn restore(&mut self, record: &Session) {
        for subscription in &record.subscriptions {
            if let Ok(filter) = Filter::parse(&subscription.filter) {
                let state = FilterState::new(&filter, subscription.options, subscription.subscription_id);
                self.filters.insert(subscription.filter.as_str().into(), state);
                if is_of_system(&subscription.filter) {
                    self.system_due = Some(self.now);
                }
            }
        }
    }
}
