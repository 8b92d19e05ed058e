//! Connection states (2.4.6) and the states of the security layer before it (5.3.2), as tables.

/// A step that changes a connection's state: `Sent` by us, `Received` from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    SentHeader,
    ReceivedHeader,
    SentOpen,
    ReceivedOpen,
    SentClose,
    ReceivedClose,
    /// we sent a close with an error: input until the peer's close is dropped
    Failed,
}

/// The states of 2.4.6 under the standard's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Start,
    HeaderReceived,
    HeaderSent,
    HeaderExchanged,
    OpenPipe,
    OpenClosePipe,
    OpenReceived,
    OpenSent,
    ClosePipe,
    Opened,
    CloseReceived,
    CloseSent,
    Discarding,
    End,
}

impl State {
    /// The next state, or `None` where the standard does not allow the step.
    pub(crate) const fn after(self, step: Step) -> Option<Self> {
        Some(match (self, step) {
            (Self::Start, Step::ReceivedHeader) => Self::HeaderReceived,
            (Self::Start, Step::SentHeader) => Self::HeaderSent,
            (Self::HeaderReceived, Step::SentHeader) => Self::HeaderExchanged,
            (Self::HeaderSent, Step::ReceivedHeader) => Self::HeaderExchanged,
            (Self::HeaderSent, Step::SentOpen) => Self::OpenPipe,
            (Self::HeaderExchanged, Step::ReceivedOpen) => Self::OpenReceived,
            (Self::HeaderExchanged, Step::SentOpen) => Self::OpenSent,
            (Self::OpenPipe, Step::ReceivedHeader) => Self::OpenSent,
            (Self::OpenPipe, Step::SentClose) => Self::OpenClosePipe,
            (Self::OpenClosePipe, Step::ReceivedHeader) => Self::ClosePipe,
            (Self::OpenReceived, Step::SentOpen) => Self::Opened,
            (Self::OpenSent, Step::ReceivedOpen) => Self::Opened,
            (Self::OpenSent, Step::SentClose) => Self::ClosePipe,
            (Self::ClosePipe, Step::ReceivedOpen) => Self::CloseSent,
            (Self::Opened, Step::ReceivedClose) => Self::CloseReceived,
            (Self::Opened, Step::SentClose) => Self::CloseSent,
            (Self::CloseReceived, Step::SentClose) => Self::End,
            (Self::CloseSent | Self::Discarding, Step::ReceivedClose) => Self::End,
            (Self::Opened | Self::OpenSent, Step::Failed) => Self::Discarding,
            _ => return None,
        })
    }

    /// Whether frames of sessions may be written (after our `open`, before our `close`).
    pub(crate) const fn writes(self) -> bool {
        matches!(self, Self::OpenPipe | Self::OpenSent | Self::Opened)
    }

    /// Whether our `close` was sent and only the peer's is expected.
    pub(crate) const fn closing(self) -> bool {
        matches!(self, Self::OpenClosePipe | Self::ClosePipe | Self::CloseSent | Self::Discarding)
    }
}

/// Steps of the security layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SaslStep {
    Header,
    Mechanisms,
    Init,
    Challenge,
    Response,
    Outcome,
}

/// The side that sends next in the security layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sasl {
    /// no security layer, or it is complete
    Off,
    /// client: the server's protocol header
    AwaitsHeader,
    /// client: the server's mechanisms
    AwaitsMechanisms,
    /// client: our `sasl-init`, from the driver
    SendsInit,
    /// client: a challenge or the outcome
    AwaitsOutcome,
    /// client: our response, from the driver
    SendsResponse,
    /// server: the client's `sasl-init`
    AwaitsInit,
    /// server: a challenge or the outcome, from the driver
    SendsOutcome,
    /// server: the client's response
    AwaitsResponse,
}

impl Sasl {
    /// The next state, or `None` where the standard does not allow the step.
    pub(crate) const fn after(self, step: SaslStep) -> Option<Self> {
        Some(match (self, step) {
            (Self::Off, SaslStep::Header) => Self::AwaitsInit,
            (Self::AwaitsInit, SaslStep::Init) => Self::SendsOutcome,
            (Self::SendsOutcome, SaslStep::Challenge) => Self::AwaitsResponse,
            (Self::SendsOutcome, SaslStep::Outcome) => Self::Off,
            (Self::AwaitsResponse, SaslStep::Response) => Self::SendsOutcome,
            (Self::AwaitsHeader, SaslStep::Header) => Self::AwaitsMechanisms,
            (Self::AwaitsMechanisms, SaslStep::Mechanisms) => Self::SendsInit,
            (Self::SendsInit, SaslStep::Init) => Self::AwaitsOutcome,
            (Self::AwaitsOutcome, SaslStep::Challenge) => Self::SendsResponse,
            (Self::AwaitsOutcome, SaslStep::Outcome) => Self::Off,
            (Self::SendsResponse, SaslStep::Response) => Self::AwaitsOutcome,
            _ => return None,
        })
    }

    /// Whether the driver must send the next frame; nothing is read until then.
    pub(crate) const fn awaits_driver(self) -> bool {
        matches!(self, Self::SendsInit | Self::SendsResponse | Self::SendsOutcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(steps: &[Step]) -> Option<State> {
        steps.iter().try_fold(State::Start, |state, step| state.after(*step))
    }

    #[test]
    fn section_2_4_1_a_server_and_a_client_open() {
        use Step::{ReceivedHeader, ReceivedOpen, SentHeader, SentOpen};
        assert_eq!(walk(&[ReceivedHeader, SentHeader, ReceivedOpen, SentOpen]), Some(State::Opened));
        assert_eq!(walk(&[SentHeader, SentOpen, ReceivedHeader, ReceivedOpen]), Some(State::Opened));
        assert_eq!(walk(&[SentHeader, ReceivedHeader, SentOpen, ReceivedOpen]), Some(State::Opened));
    }

    #[test]
    fn section_2_4_3_either_side_closes() {
        use State::{CloseReceived, CloseSent, Discarding, End, Opened};
        use Step::{Failed, ReceivedClose, SentClose};
        assert_eq!(Opened.after(SentClose).and_then(|s| s.after(ReceivedClose)), Some(End));
        assert_eq!(Opened.after(ReceivedClose).and_then(|s| s.after(SentClose)), Some(End));
        assert_eq!(Opened.after(Failed).and_then(|s| s.after(ReceivedClose)), Some(End));
        assert_eq!((CloseSent.after(SentClose), CloseReceived.after(ReceivedClose)), (None, None));
        assert!(CloseSent.closing() && Discarding.closing() && !Opened.closing());
    }

    #[test]
    fn section_2_4_1_repeated_or_early_steps_are_refused() {
        use Step::{ReceivedHeader, ReceivedOpen, SentHeader, SentOpen};
        assert_eq!(walk(&[ReceivedHeader, ReceivedHeader]), None);
        assert_eq!(walk(&[ReceivedHeader, SentHeader, ReceivedOpen, ReceivedOpen]), None);
        assert_eq!(walk(&[SentHeader, SentOpen, SentOpen]), None);
        assert_eq!(walk(&[ReceivedOpen]), None);
    }

    #[test]
    fn section_5_3_2_sasl_exchange_ends_with_the_outcome() {
        use SaslStep::{Challenge, Header, Init, Mechanisms, Outcome, Response};
        let server = [Header, Init, Challenge, Response, Challenge, Response, Outcome];
        assert_eq!(server.iter().try_fold(Sasl::Off, |s, step| s.after(*step)), Some(Sasl::Off));
        let client = [Header, Mechanisms, Init, Challenge, Response, Outcome];
        assert_eq!(client.iter().try_fold(Sasl::AwaitsHeader, |s, step| s.after(*step)), Some(Sasl::Off));
        assert_eq!(Sasl::AwaitsInit.after(Response), None);
        assert_eq!(Sasl::AwaitsMechanisms.after(Outcome), None);
    }
}
