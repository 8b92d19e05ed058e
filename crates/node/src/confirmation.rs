//! What a node confirms about a Plan: which addresses it serves, and why not the others.

use std::collections::BTreeMap;

use serde::Serialize;

/// The result of applying a Plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// new addresses
    pub added: usize,
    /// deleted addresses
    pub removed: usize,
    /// addresses with changed settings
    pub changed: usize,
    /// the state that is served now
    #[serde(flatten)]
    pub proof: Proof,
}

/// The state served at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// version of the Plan in force
    pub version: u64,
    /// uids of the addresses that are served as planned, in order
    pub active: Vec<String>,
    /// its other addresses, in the order of their uids
    pub failed: Vec<Failed>,
}

/// An address that is not served as planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// uid of the address
    pub uid: String,
    /// why it is not served as planned
    pub reason: Reason,
    /// the reason as text, and the remedy
    pub message: String,
}

/// Why an address is not served as planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Reason {
    /// the journal has no room for it; applying the same Plan again may succeed
    NotOpened,
    /// the journal has stopped; only a restart of the node helps
    JournalStopped,
}

/// Why addresses were not opened.
pub(crate) type Cause = (Reason, String);

/// Addresses of the Plan in force that were not opened, by uid.
pub(crate) type Unopened = BTreeMap<String, Cause>;
