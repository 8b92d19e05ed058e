//! Part 3, 3.5: sources and targets.

use super::{Coordinator, Fields, Outcome, Symbol, Value};

/// 3.5.5
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TerminusDurability {
    /// 0
    #[default]
    None,
    /// 1
    Configuration,
    /// 2
    UnsettledState,
}

/// 3.5.6
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TerminusExpiryPolicy {
    /// `link-detach`
    LinkDetach,
    /// `session-end`
    #[default]
    SessionEnd,
    /// `connection-close`
    ConnectionClose,
    /// `never`
    Never,
}

/// The life of a dynamic node (3.5.10 to 3.5.13), found under `lifetime-policy` in its node
/// properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// `delete-on-close`
    OnClose,
    /// `delete-on-no-links`
    OnNoLinks,
    /// `delete-on-no-messages`
    OnNoMessages,
    /// `delete-on-no-links-or-messages`
    OnNoLinksOrMessages,
}

/// 3.5.3
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Source {
    /// the node; `None` with `dynamic`
    pub address: Option<String>,
    /// default none
    pub durable: TerminusDurability,
    /// default session-end
    pub expiry_policy: TerminusExpiryPolicy,
    /// seconds
    pub timeout_s: u32,
    /// create a node
    pub dynamic: bool,
    /// of the dynamic node
    pub dynamic_node_properties: Fields,
    /// `move` or `copy`
    pub distribution_mode: Option<Symbol>,
    /// name to (usually described) value
    pub filter: Fields,
    /// for deliveries settled without a state
    pub default_outcome: Option<Outcome>,
    /// outcomes that may be chosen
    pub outcomes: Vec<Symbol>,
    /// extensions
    pub capabilities: Vec<Symbol>,
}

impl Source {
    /// The value of the filter called `name`, whether it is described or not (3.5.8).
    #[must_use]
    pub fn filter_value(&self, name: &str) -> Option<&Value> {
        self.filter.iter().find(|(key, _)| key.as_str() == name).map(|(_, value)| match value {
            Value::Described(pair) => &pair.1,
            plain => plain,
        })
    }
}

/// 3.5.4, or the coordinator of part 4 (4.5.1) in its place.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// an ordinary target
    Node {
        /// the node; `None` with `dynamic`, or for the anonymous terminus
        address: Option<String>,
        /// default none
        durable: TerminusDurability,
        /// default session-end
        expiry_policy: TerminusExpiryPolicy,
        /// seconds
        timeout_s: u32,
        /// create a node
        dynamic: bool,
        /// of the dynamic node
        dynamic_node_properties: Fields,
        /// extensions
        capabilities: Vec<Symbol>,
    },
    /// transactions (part 4)
    Coordinator(Coordinator),
}

impl Target {
    /// An ordinary target at `address`.
    #[must_use]
    pub fn node(address: Option<String>) -> Self {
        Self::Node {
            address,
            durable: TerminusDurability::None,
            expiry_policy: TerminusExpiryPolicy::SessionEnd,
            timeout_s: 0,
            dynamic: false,
            dynamic_node_properties: Fields::new(),
            capabilities: Vec::new(),
        }
    }
}
