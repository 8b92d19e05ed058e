//! The work of an agent of the subscription service (`subscription_service`).

use std::collections::VecDeque;
use std::sync::Arc;

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Error, MessageId};
use enmasse_mqtt::codec::{QoS, ReasonCode};

use crate::core::AttachmentId;
use crate::shard::ConnId;

/// The requests and the receiver for which an agent has the session of a subscription.
pub(in crate::shard) struct Serving {
    /// the connection that they come from
    pub(in crate::shard) conn: ConnId,
    /// the name of the subscription
    pub(in crate::shard) name: Box<str>,
    /// in order
    pub(in crate::shard) requests: VecDeque<ServiceRequest>,
    pub(in crate::shard) phase: ServingPhase,
    /// the outcome of the request in progress
    pub(in crate::shard) outcome: Option<Result<(), ReasonCode>>,
    /// filters that the request in progress has added
    pub(in crate::shard) added: Vec<Arc<str>>,
    pub(in crate::shard) receiver: Option<ServiceReceiver>,
    /// the attachments that the receiver has, and the links of the agent that they came from
    pub(in crate::shard) handed: Vec<(LinkId, AttachmentId)>,
    /// why its connection ends
    pub(in crate::shard) failure: Option<Error>,
    /// since when it waits for its session
    pub(in crate::shard) since: Time,
}

/// A link that receives the messages of a subscription.
pub(in crate::shard) struct ServiceReceiver {
    pub(in crate::shard) link: LinkId,
    pub(in crate::shard) state: ReceiverState,
    /// the answer if there is no such subscription
    pub(in crate::shard) refusal: Error,
}

/// States of the receiver of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shard) enum ReceiverState {
    /// its attach was not answered
    Attaching,
    /// its attach was answered when another agent had the session
    Attached,
    /// it is attached, and there is such a subscription
    Checked,
}

/// Phases of an agent. One that has its session handles requests in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shard) enum ServingPhase {
    /// it continues its session, if there is one
    Continues,
    /// its login has made the session, unless the space keeps none
    Creates,
    /// its first request is in progress
    Busy,
    /// the session was closed: a later request needs another agent
    Closed,
}

/// A request to the subscription service.
pub(in crate::shard) struct ServiceRequest {
    /// the link that it came over, while that is attached
    pub(in crate::shard) link: Option<LinkId>,
    /// `None`: it was sent settled
    pub(in crate::shard) delivery_id: Option<u32>,
    pub(in crate::shard) operation: ServiceOperation,
}

/// What a request asks for.
pub(in crate::shard) enum ServiceOperation {
    /// add these filters, or change their QoS
    Subscribe(Vec<(String, QoS)>),
    /// remove these filters
    Unsubscribe(Vec<String>),
    /// end the subscription
    Close,
    /// answer with its filters
    List { reply_to: String, correlation_id: Option<MessageId> },
}

impl ServiceReceiver {
    pub(in crate::shard) fn is_attached(&self) -> bool {
        self.state != ReceiverState::Attaching
    }
}

impl Serving {
    pub(in crate::shard) fn new(conn: ConnId, name: &str, now: Time) -> Self {
        Self {
            conn,
            name: name.into(),
            requests: VecDeque::new(),
            phase: ServingPhase::Continues,
            outcome: None,
            added: Vec::new(),
            receiver: None,
            handed: Vec::new(),
            failure: None,
            since: now,
        }
    }

    /// The same work for another agent, which begins the request in progress again: requests can be
    /// repeated.
    pub(in crate::shard) fn again(self, now: Time) -> Self {
        let Self { conn, name, requests, mut receiver, .. } = self;
        if let Some(receiver) = receiver.as_mut().filter(|receiver| receiver.state == ReceiverState::Checked) {
            receiver.state = ReceiverState::Attached;
        }
        Self { requests, receiver, ..Self::new(conn, &name, now) }
    }

    pub(in crate::shard) fn has_work(&self) -> bool {
        !self.requests.is_empty() || self.receiver.is_some()
    }

    /// The expiry to request for the session. `is_found`: there is one.
    pub(in crate::shard) fn session_expiry_s(&mut self, is_found: bool) -> u32 {
        let subscribes = |request: &ServiceRequest| matches!(request.operation, ServiceOperation::Subscribe(_));
        let creates = self.requests.iter().any(subscribes);
        self.phase = if creates { ServingPhase::Creates } else { ServingPhase::Continues };
        if is_found || creates { u32::MAX } else { 0 }
    }

    /// The connection and the link of an attached receiver.
    pub(in crate::shard) fn attached_receiver(&self) -> Option<(ConnId, LinkId)> {
        let receiver = self.receiver.as_ref().filter(|receiver| receiver.is_attached())?;
        Some((self.conn, receiver.link))
    }
}
