//! Reason codes of MQTT for errors and outcomes of the router (`docs/contracts.md` 10). The one
//! place that decides them.

use enmasse_amqp::types::{Error, Outcome, SaslCode, condition};
use enmasse_mqtt::codec::ReasonCode;

use crate::core::AddressKind;

/// The answer to a PUBLISH with QoS 1 or 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::shard) struct Answer {
    pub(in crate::shard) code: ReasonCode,
    /// the reason string
    pub(in crate::shard) text: Option<String>,
}

impl Answer {
    pub(in crate::shard) const SUCCESS: Self = Self { code: ReasonCode::Success, text: None };

    fn of(code: ReasonCode, error: Option<&Error>) -> Self {
        Self { code, text: error.and_then(|error| error.description.clone()) }
    }

    /// Whether a client of MQTT 3.x, whose acknowledgements have no codes, learns of the failure by
    /// the end of its connection (3.1.1, 3.3.5). A message that its consumer has rejected was
    /// delivered: sending it again would not help.
    pub(in crate::shard) fn closes_3x(&self) -> bool {
        self.code.is_error() && self.code != ReasonCode::ImplementationSpecificError
    }
}

/// The code of a publication that was refused before it reached its address.
pub(in crate::shard) fn refused_publish(error: &Error) -> Answer {
    let code = match error.condition.as_str() {
        text if text == condition::NOT_FOUND.as_str() => ReasonCode::TopicNameInvalid,
        text if text == condition::UNAUTHORIZED_ACCESS.as_str() || text == condition::NOT_ALLOWED.as_str() => {
            ReasonCode::NotAuthorized
        }
        text if text == condition::RESOURCE_LIMIT_EXCEEDED.as_str() => ReasonCode::QuotaExceeded,
        _ => ReasonCode::ImplementationSpecificError,
    };
    Answer::of(code, Some(error))
}

/// The code of a publication with this outcome at an address of that kind.
pub(in crate::shard) fn settled_publish(outcome: &Outcome, kind: AddressKind) -> Answer {
    match outcome {
        Outcome::Accepted => Answer::SUCCESS,
        Outcome::Released if kind == AddressKind::Multicast => Answer::of(ReasonCode::NoMatchingSubscribers, None),
        Outcome::Released => Answer::of(ReasonCode::QuotaExceeded, None),
        Outcome::Modified(_) => Answer::of(ReasonCode::UnspecifiedError, None),
        Outcome::Rejected(error) => {
            let error = error.as_deref();
            let condition = error.map(|error| error.condition.as_str());
            let full = [condition::RESOURCE_LIMIT_EXCEEDED, condition::MESSAGE_SIZE_EXCEEDED];
            let code = if full.iter().any(|full| Some(full.as_str()) == condition) {
                ReasonCode::QuotaExceeded
            } else {
                ReasonCode::ImplementationSpecificError
            };
            Answer::of(code, error)
        }
    }
}

/// The code of a subscription that was refused.
pub(in crate::shard) fn refused_subscription(error: &Error) -> ReasonCode {
    match error.condition.as_str() {
        text if text == condition::UNAUTHORIZED_ACCESS.as_str() => ReasonCode::NotAuthorized,
        text if text == condition::RESOURCE_LIMIT_EXCEEDED.as_str() => ReasonCode::QuotaExceeded,
        text if text == condition::NOT_FOUND.as_str() => ReasonCode::TopicFilterInvalid,
        text if text == condition::NOT_IMPLEMENTED.as_str() => ReasonCode::SharedSubscriptionsNotSupported,
        _ => ReasonCode::ImplementationSpecificError,
    }
}

/// The code of a login that was refused.
pub(in crate::shard) fn refused_login(code: SaslCode) -> ReasonCode {
    match code {
        SaslCode::Ok => ReasonCode::Success,
        SaslCode::Auth => ReasonCode::BadUserNameOrPassword,
        SaslCode::SysTemp => ReasonCode::ServerBusy,
        SaslCode::Sys | SaslCode::SysPerm => ReasonCode::ServerUnavailable,
    }
}

/// The code with which the node refuses an authenticated client. One that does not admit clients
/// names no other (5.0, 4.13): clients know the host names of the platform.
pub(in crate::shard) fn refused_connect(error: &Error) -> ReasonCode {
    match error.condition == condition::CONNECTION_FORCED {
        true => ReasonCode::UseAnotherServer,
        false => closed(error),
    }
}

/// The code with which the node ends a connection.
pub(in crate::shard) fn closed(error: &Error) -> ReasonCode {
    match error.condition.as_str() {
        text if text == condition::UNAUTHORIZED_ACCESS.as_str() => ReasonCode::NotAuthorized,
        text if text == condition::LINK_STOLEN.as_str() => ReasonCode::SessionTakenOver,
        text if text == condition::RESOURCE_LIMIT_EXCEEDED.as_str() => ReasonCode::QuotaExceeded,
        text if text == condition::CONNECTION_FORCED.as_str() => ReasonCode::ServerShuttingDown,
        text if text == condition::NOT_FOUND.as_str() => ReasonCode::NotAuthorized,
        _ => ReasonCode::ImplementationSpecificError,
    }
}
