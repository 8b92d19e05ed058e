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
    /// in order; the first one is in progress if `busy`
    pub(in crate::shard) requests: VecDeque<ServiceRequest>,
    pub(in crate::shard) busy: bool,
    /// the outcome of the request in progress
    pub(in crate::shard) outcome: Option<Result<(), ReasonCode>>,
    /// filters that the request in progress has added
    pub(in crate::shard) added: Vec<Arc<str>>,
    pub(in crate::shard) receiver: Option<ServiceReceiver>,
    /// the attachments that the receiver has, and the links of the agent that they came from
    pub(in crate::shard) handed: Vec<(LinkId, AttachmentId)>,
    /// its receiver has learned whether there is such a subscription
    pub(in crate::shard) is_checked: bool,
    /// its login makes the session if there is none
    pub(in crate::shard) creates: bool,
    /// the session was closed
    pub(in crate::shard) is_closed: bool,
    /// why its connection ends
    pub(in crate::shard) failure: Option<Error>,
    /// since when it waits for its session
    pub(in crate::shard) since: Time,
}

/// A link that receives the messages of a subscription.
pub(in crate::shard) struct ServiceReceiver {
    pub(in crate::shard) link: LinkId,
    /// its attach was answered
    pub(in crate::shard) is_attached: bool,
    /// the answer if there is no such subscription
    pub(in crate::shard) refusal: Error,
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

impl Serving {
    pub(in crate::shard) fn new(conn: ConnId, name: &str, now: Time) -> Self {
        Self {
            conn,
            name: name.into(),
            requests: VecDeque::new(),
            busy: false,
            outcome: None,
            added: Vec::new(),
            receiver: None,
            handed: Vec::new(),
            is_checked: false,
            creates: false,
            is_closed: false,
            failure: None,
            since: now,
        }
    }

    /// The same work for another agent, which begins the request in progress again: requests can be
    /// repeated.
    pub(in crate::shard) fn again(self, now: Time) -> Self {
        let Self { conn, name, requests, receiver, .. } = self;
        Self { requests, receiver, ..Self::new(conn, &name, now) }
    }

    pub(in crate::shard) fn has_work(&self) -> bool {
        !self.requests.is_empty() || self.receiver.is_some()
    }

    /// The expiry to request for the session. `is_found`: there is one.
    pub(in crate::shard) fn session_expiry_s(&mut self, is_found: bool) -> u32 {
        let subscribes = |request: &ServiceRequest| matches!(request.operation, ServiceOperation::Subscribe(_));
        self.creates = self.requests.iter().any(subscribes);
        if is_found || self.creates { u32::MAX } else { 0 }
    }

    /// The connection and the link of an attached receiver.
    pub(in crate::shard) fn attached_receiver(&self) -> Option<(ConnId, LinkId)> {
        let receiver = self.receiver.as_ref().filter(|receiver| receiver.is_attached)?;
        Some((self.conn, receiver.link))
    }
}
