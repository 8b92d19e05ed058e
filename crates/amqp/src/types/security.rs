//! Part 5, 5.3: the SASL frames.

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
    /// 3: trying again is useless
    SysPerm,
    /// 4: trying again may help
    SysTemp,
}

/// 5.3.3.2
#[derive(Clone, Debug, PartialEq)]
pub struct SaslInit {
    /// chosen mechanism
    pub mechanism: Symbol,
    /// initial response
    pub initial_response: Option<Vec<u8>>,
    /// virtual host asked for
    pub hostname: Option<String>,
}

/// 5.3.3.5
#[derive(Clone, Debug, PartialEq)]
pub struct SaslOutcome {
    /// verdict
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
    Response(Vec<u8>),
    /// 5.3.3.5
    Outcome(SaslOutcome),
}
