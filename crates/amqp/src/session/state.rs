//! Session states (2.5.5) as a table.

use crate::types::{Error, condition};

/// A step that changes a session's state: `Sent` by us, `Received` from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    SentBegin,
    ReceivedBegin,
    SentEnd,
    ReceivedEnd,
    /// we sent an end with an error: input until the peer's end is dropped
    Failed,
}

/// The states of 2.5.5 under the standard's names, and one more: a session of ours that ended
/// before the peer had answered its begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Unmapped,
    BeginSent,
    BeginReceived,
    Mapped,
    EndSent,
    EndReceived,
    Discarding,
    /// begin and end sent, nothing received: the answers to both are pending
    BeginEndSent,
}

impl State {
    /// The next state, or `None` where the standard does not allow the step.
    pub(crate) const fn after(self, step: Step) -> Option<Self> {
        Some(match (self, step) {
            (Self::Unmapped, Step::SentBegin) => Self::BeginSent,
            (Self::Unmapped, Step::ReceivedBegin) => Self::BeginReceived,
            (Self::BeginSent, Step::ReceivedBegin) => Self::Mapped,
            (Self::BeginReceived, Step::SentBegin) => Self::Mapped,
            (Self::Mapped, Step::SentEnd) => Self::EndSent,
            (Self::Mapped, Step::ReceivedEnd) => Self::EndReceived,
            (Self::Mapped, Step::Failed) => Self::Discarding,
            (Self::EndReceived, Step::SentEnd) => Self::Unmapped,
            (Self::EndSent | Self::Discarding, Step::ReceivedEnd) => Self::Unmapped,
            (Self::BeginSent, Step::SentEnd | Step::Failed) => Self::BeginEndSent,
            (Self::BeginEndSent, Step::ReceivedBegin) => Self::Discarding,
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

    /// Whether frames of links may be written (after our begin, before our end).
    pub(crate) const fn writes(self) -> bool {
        matches!(self, Self::BeginSent | Self::Mapped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(steps: &[Step]) -> Option<State> {
        steps.iter().try_fold(State::Unmapped, |state, step| state.after(*step))
    }

    #[test]
    fn section_2_5_1_either_side_begins() {
        assert_eq!(walk(&[Step::SentBegin, Step::ReceivedBegin]), Some(State::Mapped));
        assert_eq!(walk(&[Step::ReceivedBegin, Step::SentBegin]), Some(State::Mapped));
        assert_eq!(walk(&[Step::ReceivedBegin, Step::ReceivedBegin]), None);
    }

    #[test]
    fn a_step_that_is_not_allowed_is_an_error_and_changes_nothing() {
        let mut state = State::Mapped;
        let error = state.take(Step::ReceivedBegin).unwrap_err();
        assert_eq!((state, error.condition), (State::Mapped, condition::ILLEGAL_STATE));
        assert_eq!((state.take(Step::ReceivedEnd), state), (Ok(()), State::EndReceived));
    }

    #[test]
    fn section_2_5_2_either_side_ends() {
        use Step::{Failed, ReceivedBegin, ReceivedEnd, SentBegin, SentEnd};
        let mapped = [SentBegin, ReceivedBegin];
        for ends in [[SentEnd, ReceivedEnd], [ReceivedEnd, SentEnd], [Failed, ReceivedEnd]] {
            assert_eq!(walk(&[mapped, ends].concat()), Some(State::Unmapped), "{ends:?}");
        }
        assert_eq!(walk(&[SentBegin, ReceivedBegin, SentEnd, SentEnd]), None);
        assert_eq!(walk(&[SentBegin, ReceivedEnd]), None);
    }

    #[test]
    fn section_2_5_5_a_session_may_end_before_its_begin_is_answered() {
        use Step::{ReceivedBegin, ReceivedEnd, SentBegin, SentEnd};
        assert_eq!(walk(&[SentBegin, SentEnd, ReceivedBegin, ReceivedEnd]), Some(State::Unmapped));
    }
}
