//! States of the connection and of a re-authentication, as tables.

/// A step that changes the state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// CONNECT came
    ReceivedConnect,
    /// AUTH came
    ReceivedAuth,
    /// AUTH was sent with Continue Authentication
    SentAuth,
    /// CONNACK was sent with success
    SentConnAck,
}

/// States of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// the first packet must be a CONNECT [5: 3.1.0-1]
    AwaitConnect,
    /// the driver must answer CONNECT or AUTH; nothing is read
    Deciding,
    /// the client must send AUTH or DISCONNECT [5: 3.1.2-30]
    AwaitAuth,
    /// CONNACK was sent
    Open,
    /// nothing is sent or received any more
    Ended,
}

impl State {
    /// The next state, or `None` where the standard does not allow the step.
    pub(super) const fn after(self, step: Step) -> Option<Self> {
        Some(match (self, step) {
            (Self::AwaitConnect, Step::ReceivedConnect) => Self::Deciding,
            (Self::Deciding, Step::SentAuth) => Self::AwaitAuth,
            (Self::AwaitAuth, Step::ReceivedAuth) => Self::Deciding,
            (Self::Deciding, Step::SentConnAck) => Self::Open,
            _ => return None,
        })
    }
}

/// States of a re-authentication on an open connection (4.12.1); other packets pass meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reauthentication {
    /// none
    #[default]
    Idle,
    /// the driver must answer AUTH
    Deciding,
    /// the client must send AUTH
    AwaitAuth,
}
