//! Link states (2.6.1, 2.6.3, 2.6.6) as a table.

use crate::types::{Error, condition};

/// A step that changes a link's state: `Sent` by us, `Received` from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    SentAttach,
    ReceivedAttach,
    SentDetach,
    ReceivedDetach,
}

/// The state of both ends of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// neither end is attached: the link has ended, or has not begun
    Detached,
    /// the peer's answer is pending
    AttachSent,
    /// the driver's answer is pending
    AttachReceived,
    Attached,
    /// input until the peer's detach is dropped
    DetachSent,
    DetachReceived,
    /// attach and detach sent: the answers to both are pending
    AttachDetachSent,
}

impl State {
    /// The next state, or `None` where the standard does not allow the step.
    pub(crate) const fn after(self, step: Step) -> Option<Self> {
        Some(match (self, step) {
            (Self::Detached, Step::SentAttach) => Self::AttachSent,
            (Self::Detached, Step::ReceivedAttach) => Self::AttachReceived,
            (Self::AttachSent, Step::ReceivedAttach) => Self::Attached,
            (Self::AttachReceived, Step::SentAttach) => Self::Attached,
            (Self::Attached, Step::SentDetach) => Self::DetachSent,
            (Self::Attached, Step::ReceivedDetach) => Self::DetachReceived,
            (Self::DetachReceived, Step::SentDetach) => Self::Detached,
            (Self::DetachSent, Step::ReceivedDetach) => Self::Detached,
            (Self::AttachSent, Step::SentDetach) => Self::AttachDetachSent,
            (Self::AttachDetachSent, Step::ReceivedAttach) => Self::DetachSent,
            _ => return None,
        })
    }

    /// Takes a step.
    ///
    /// # Errors
    /// `amqp:illegal-state` where the standard does not allow the step.
    pub(crate) fn take(&mut self, step: Step) -> Result<(), Error> {
        let illegal = || Error::new(condition::ILLEGAL_STATE, format!("{step:?} in the state {self:?}"));
        *self = self.after(step).ok_or_else(illegal)?;
        Ok(())
    }

    /// Whether frames of the link may be written (after our attach, before our detach).
    pub(crate) const fn writes(self) -> bool {
        matches!(self, Self::AttachSent | Self::Attached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(steps: &[Step]) -> Option<State> {
        steps.iter().try_fold(State::Detached, |state, step| state.after(*step))
    }

    #[test]
    fn section_2_6_3_either_side_attaches() {
        use Step::{ReceivedAttach, SentAttach};
        assert_eq!(walk(&[SentAttach, ReceivedAttach]), Some(State::Attached));
        assert_eq!(walk(&[ReceivedAttach, SentAttach]), Some(State::Attached));
        assert_eq!(walk(&[SentAttach, SentAttach]), None);
    }

    #[test]
    fn a_step_that_is_not_allowed_is_an_error_and_changes_nothing() {
        let mut state = State::Attached;
        let error = state.take(Step::SentAttach).unwrap_err();
        assert_eq!((state, error.condition), (State::Attached, condition::ILLEGAL_STATE));
        assert_eq!((state.take(Step::SentDetach), state), (Ok(()), State::DetachSent));
    }

    #[test]
    fn section_2_6_6_either_side_detaches() {
        use Step::{ReceivedAttach, ReceivedDetach, SentAttach, SentDetach};
        for ends in [[SentDetach, ReceivedDetach], [ReceivedDetach, SentDetach]] {
            assert_eq!(walk(&[[SentAttach, ReceivedAttach], ends].concat()), Some(State::Detached), "{ends:?}");
        }
        assert_eq!(walk(&[SentAttach, ReceivedDetach]), None);
        let pipelined = [SentAttach, SentDetach, ReceivedAttach, ReceivedDetach];
        assert_eq!(walk(&pipelined), Some(State::Detached));
    }
}
