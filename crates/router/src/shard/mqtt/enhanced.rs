//! Authentication by AUTH packets, within CONNECT and again later (4.12).

use enmasse_amqp::types::{SaslCode, Symbol};
use enmasse_mqtt::codec::ReasonCode;

use super::Mqtt;
use crate::table::Peer;

/// What a client that named an authentication method needs to authenticate again.
pub(in crate::shard) struct Enhanced {
    /// the method of CONNECT, which never changes [5: 4.12.1-1]
    pub(in crate::shard) method: Symbol,
    pub(in crate::shard) peer: Peer,
}

impl Mqtt {
    /// A re-authentication has ended; a failed one ends the connection [5: 4.12.1-2].
    pub(super) fn reauthenticated(&mut self, code: SaslCode, data: Option<Vec<u8>>) {
        if self.ended {
            return;
        }
        let refusal = match code {
            SaslCode::Ok => {
                // An error means that the connection has ended in the meantime.
                let _ = self.machine.auth_succeeded(&data.unwrap_or_default());
                return;
            }
            SaslCode::Auth => ReasonCode::NotAuthorized,
            SaslCode::SysTemp => ReasonCode::ServerBusy,
            SaslCode::Sys | SaslCode::SysPerm => ReasonCode::UnspecifiedError,
        };
        self.disconnect(refusal, "the client could not be authenticated again");
    }
}
