//! Frames within the peer's `max-frame-size` (2.7.1). A transfer is split, and most others are
//! always short. Errors and outcomes of unbounded length are truncated. An attach that is too long
//! ends its session.

use super::Connection;
use super::fault::Fault;
use super::state::State;
use crate::codec::{encode_attach, encode_close, encode_detach, encode_end, fast};
use crate::types::{
    Attach, DeliveryState, Detach, Error, Fields, Modified, Outcome, Role, TransactionalState, condition,
};

/// The most bytes that a disposition, detach, end or close has in addition to the condition and
/// description of its error.
const AROUND_ERROR: usize = 96;

/// Writes a disposition.
#[inline]
pub(super) fn disposition(
    out: &mut Vec<u8>,
    max: usize,
    channel: u16,
    role: Role,
    (first, last): (u32, u32),
    settled: bool,
    state: Option<&DeliveryState>,
) {
    let write = |out: &mut Vec<u8>, state: Option<&DeliveryState>| match state {
        None => fast::encode_disposition(out, channel, role, first, last, settled, None),
        Some(DeliveryState::Outcome(outcome)) => {
            fast::encode_disposition(out, channel, role, first, last, settled, Some(outcome));
        }
        Some(state) => fast::encode_disposition_of(out, channel, (role, first, last, settled), state),
    };
    let start = out.len();
    write(out, state);
    if out.len() - start > max {
        out.truncate(start);
        write(out, state.map(|state| cut_state(state, max)).as_ref());
    }
}

/// The state without its unbounded parts.
#[cold]
fn cut_state(state: &DeliveryState, max: usize) -> DeliveryState {
    match state {
        DeliveryState::Outcome(outcome) => DeliveryState::Outcome(cut_outcome(outcome, max)),
        DeliveryState::Transactional(state) => DeliveryState::Transactional(Box::new(TransactionalState {
            txn_id: state.txn_id.clone(),
            outcome: state.outcome.as_ref().map(|outcome| cut_outcome(outcome, max)),
        })),
        DeliveryState::Declared(_) | DeliveryState::Received(_) => state.clone(),
    }
}

/// The outcome without its unbounded parts: the peer acts upon its kind and flags.
#[cold]
fn cut_outcome(outcome: &Outcome, max: usize) -> Outcome {
    match outcome {
        Outcome::Accepted => Outcome::Accepted,
        Outcome::Released => Outcome::Released,
        Outcome::Rejected(error) => {
            Outcome::Rejected(error.as_deref().and_then(|error| cut_error(error, max)).map(Box::new))
        }
        Outcome::Modified(modified) => {
            let Modified { delivery_failed, undeliverable_here, .. } = **modified;
            Outcome::Modified(Box::new(Modified { delivery_failed, undeliverable_here, ..Modified::default() }))
        }
    }
}

/// The error without its details and with the beginning of its description; `None` if its condition
/// alone is too long.
#[cold]
fn cut_error(error: &Error, max: usize) -> Option<Error> {
    let room = max.checked_sub(AROUND_ERROR + error.condition.as_str().len())?;
    let description = error.description.as_deref().map(|text| {
        let end = (0..=room.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        text[..end].to_owned()
    });
    Some(Error { condition: error.condition.clone(), description, info: Fields::new() })
}

impl Connection {
    /// Writes a frame that may carry an error.
    fn write_error(&mut self, error: Option<&Error>, write: impl Fn(&mut Vec<u8>, Option<&Error>)) {
        let start = self.output.len();
        write(&mut self.output, error);
        let max = self.remote_max_frame_size;
        if self.output.len() - start > max {
            self.output.truncate(start);
            write(&mut self.output, error.and_then(|error| cut_error(error, max)).as_ref());
        }
    }

    pub(super) fn put_detach(&mut self, channel: u16, handle: u32, closed: bool, error: Option<&Error>) {
        self.write_error(error, |out, error| {
            encode_detach(out, channel, &Detach { handle, closed, error: error.cloned() });
        });
    }

    pub(super) fn put_end(&mut self, channel: u16, error: Option<&Error>) {
        self.write_error(error, |out, error| encode_end(out, channel, error));
    }

    pub(super) fn put_close(&mut self, error: Option<&Error>) {
        self.write_error(error, |out, error| encode_close(out, 0, error));
    }

    /// Writes an attach. It lists as many unsettled deliveries as fit (2.7.3). If it is too long
    /// without any, the session ends: a refusal of the link needs an attach too.
    pub(super) fn put_attach(&mut self, session: u32, channel: u16, attach: &mut Attach) {
        let start = self.output.len();
        encode_attach(&mut self.output, channel, attach);
        let max = self.remote_max_frame_size;
        // Before the peer's open its limits are unknown.
        let opened = self.state == State::Opened;
        while opened && self.output.len() - start > max {
            let Some(unsettled) = attach.unsettled.as_mut().filter(|unsettled| !unsettled.is_empty()) else { break };
            unsettled.truncate(unsettled.len() / 2);
            attach.incomplete_unsettled = true;
            self.output.truncate(start);
            encode_attach(&mut self.output, channel, attach);
        }
        let size = self.output.len() - start;
        if size > max && opened {
            self.output.truncate(start);
            let description = format!("the attach of this link takes {size} bytes, open.max-frame-size is {max}");
            self.fail(Fault::Session(session, Error::new(condition::FRAME_SIZE_TOO_SMALL, description)));
        }
    }
}
