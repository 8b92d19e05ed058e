//! The attach and the credit of an attachment that reads retained messages.

use std::sync::Arc;

use crate::core::{AttachmentId, Consuming};
use crate::table::AddressEntry;

/// The attach of a link to the queue of retained messages.
pub(super) struct GreetingAttach {
    pub(super) attachment: AttachmentId,
    pub(super) home: u16,
    pub(super) queue: Arc<AddressEntry>,
    pub(super) consuming: Consuming,
}

/// The state of an attachment that reads retained messages. It always drains: the answer tells
/// whether messages are left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Greeting {
    /// the last credit limit; `None`: its drain was answered
    limit: Option<u32>,
    /// its home has a drain that it has not answered
    drains: bool,
}

impl Greeting {
    /// The credit limit to state, and whether to drain; `None`: none. While a request is open its
    /// limit stays, because the answer is compared with it.
    pub(super) fn request(&mut self, dispatched: u32, credit: u32, link_drains: bool) -> Option<(u32, bool)> {
        if self.limit.is_none() && credit == 0 && !link_drains {
            return None;
        }
        let limit = *self.limit.get_or_insert(dispatched.wrapping_add(credit));
        Some((limit, !std::mem::replace(&mut self.drains, true)))
    }

    /// The home has answered the drain. Returns whether no message is left; `None`: deliveries are
    /// on their way back, and the request is repeated with the same limit.
    pub(super) fn drained(&mut self, dispatched: u32, refuses: bool) -> Option<bool> {
        self.drains = false;
        if refuses {
            return None;
        }
        self.limit.take().map(|limit| limit != dispatched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_has_ended_when_its_drain_leaves_credit() {
        let mut greeting = Greeting::default();
        assert_eq!(greeting.request(0, 0, false), None, "no credit yet");
        assert_eq!(greeting.request(0, 10, false), Some((10, true)));
        assert_eq!(greeting.drained(10, false), Some(false));
        assert_eq!(greeting.request(10, 5, false), Some((15, true)));
        assert_eq!(greeting.drained(12, false), Some(true));
    }

    #[test]
    fn credit_granted_during_a_request_waits_for_its_answer() {
        let mut greeting = Greeting::default();
        assert_eq!(greeting.request(0, 10, false), Some((10, true)));
        assert_eq!(greeting.request(4, 20, false), Some((10, false)), "the drain is still open");
        assert_eq!(greeting.drained(10, false), Some(false));
        assert_eq!(greeting.request(10, 14, false), Some((24, true)));
    }

    #[test]
    fn request_is_repeated_after_deliveries_came_back() {
        let mut greeting = Greeting::default();
        assert_eq!(greeting.request(0, 10, false), Some((10, true)));
        assert_eq!(greeting.drained(6, true), None);
        assert_eq!(greeting.request(6, 4, false), Some((10, true)));
        assert_eq!(greeting.drained(8, false), Some(true));
    }

    #[test]
    fn drain_of_a_link_without_credit_is_passed_on() {
        let mut greeting = Greeting::default();
        assert_eq!(greeting.request(3, 0, true), Some((3, true)));
        assert_eq!(greeting.drained(3, false), Some(false));
        assert_eq!(greeting.drained(3, false), None, "no request is open");
    }
}
