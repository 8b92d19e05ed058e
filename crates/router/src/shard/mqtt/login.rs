//! A login in progress, from CONNECT to CONNACK.

use enmasse_mqtt::session::StoredWill;

use super::steps::Step;

/// A login in progress.
pub(in crate::shard) struct Login {
    pub(in crate::shard) client_id: String,
    /// the client id is the node's
    pub(in crate::shard) assigned: bool,
    pub(in crate::shard) clean_start: bool,
    pub(in crate::shard) session_expiry_s: u32,
    /// the next step is an AUTH of the client
    pub(in crate::shard) awaits_client: bool,
    /// last data of an enhanced authentication
    pub(in crate::shard) data: Option<Vec<u8>>,
    pub(in crate::shard) will: Option<Box<StoredWill>>,
    /// a session was found and continues
    pub(in crate::shard) session_present: bool,
    /// the answer about its session is awaited
    pub(in crate::shard) recalls: bool,
    pub(in crate::shard) step: Option<Step>,
}

impl Login {
    pub(in crate::shard) fn new(client_id: String, assigned: bool) -> Self {
        Self {
            client_id,
            assigned,
            clean_start: false,
            session_expiry_s: 0,
            awaits_client: false,
            data: None,
            will: None,
            session_present: false,
            recalls: false,
            step: None,
        }
    }

    pub(in crate::shard) fn assigned_client_id(&self) -> Option<&str> {
        self.assigned.then_some(&*self.client_id)
    }

    pub(in crate::shard) fn next_step(&mut self) -> Option<Step> {
        self.step.take()
    }

    pub(in crate::shard) fn set_step(&mut self, step: Step) {
        self.recalls = matches!(step, Step::Recall) || self.recalls && matches!(step, Step::ReadRecord);
        self.step = Some(step);
    }

    /// Whether the answer about its session is awaited.
    pub(in crate::shard) fn is_recalling(&self) -> bool {
        self.recalls
    }

    pub(in crate::shard) fn has_step(&self) -> bool {
        self.step.is_some()
    }

    pub(in crate::shard) fn respond(&mut self, response: Vec<u8>) {
        self.step = Some(Step::Respond(response));
    }

    pub(in crate::shard) fn authenticated(&mut self, data: Option<Vec<u8>>) {
        self.data = data;
        self.step = Some(Step::Open);
    }

    pub(in crate::shard) fn opened(&mut self) {
        self.step = Some(Step::Register);
    }

    /// The link to the record of its session is attached.
    pub(in crate::shard) fn record_accepted(&mut self) {
        self.set_step(if self.is_recalling() { Step::ReadRecord } else { Step::StoreRecord });
    }
}
