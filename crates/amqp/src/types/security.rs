//! Part 5, 5.3: the SASL frames.

use std::fmt;

use super::Symbol;

/// 5.3.3.6
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaslCode {
    /// 0
    Ok,
    /// 1: wrong credentials
    Auth,
    /// 2
    Sys,
    /// 3: permanent, a retry is useless
    SysPerm,
    /// 4: temporary, a retry may help
    SysTemp,
}

/// 5.3.3.2
#[derive(Clone, PartialEq)]
pub struct SaslInit {
    /// chosen mechanism
    pub mechanism: Symbol,
    /// initial response
    pub initial_response: Option<Vec<u8>>,
    /// virtual host requested
    pub hostname: Option<String>,
}

impl fmt::Debug for SaslInit {
    /// Omits the initial response, because that of PLAIN holds the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SaslInit");
        shown.field("mechanism", &self.mechanism).field("hostname", &self.hostname).finish_non_exhaustive()
    }
}

/// 5.3.3.4: a client's response. A log shows its length only: it may be a password, or reveal one.
#[derive(Clone, PartialEq, Eq)]
pub struct SaslResponse(pub Vec<u8>);

impl fmt::Debug for SaslResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SaslResponse({} bytes)", self.0.len())
    }
}

/// 5.3.3.5
#[derive(Clone, Debug, PartialEq)]
pub struct SaslOutcome {
    /// outcome code
    pub code: SaslCode,
    /// server's last message (SCRAM)
    pub additional_data: Option<Vec<u8>>,
}

/// Any SASL frame body.
#[derive(Clone, Debug, PartialEq)]
pub enum SaslFrame {
    /// 5.3.3.1
    Mechanisms(Vec<Symbol>),
    /// 5.3.3.2
    Init(SaslInit),
    /// 5.3.3.3
    Challenge(Vec<u8>),
    /// 5.3.3.4
    Response(SaslResponse),
    /// 5.3.3.5
    Outcome(SaslOutcome),
}
