//! Addresses to create for attaching links. The control plane answers questions about them; no
//! worker waits.
//!
//! A question concerns one address, and any number of waiting links. It ends when the control plane
//! answers, or when the last waiting attach has timed out. The control plane answers only to
//! refuse: otherwise the Plan with the address is the answer. The number of questions is bounded
//! and shared by spaces.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Error, condition};
use enmasse_router::plan::AddressType;
use enmasse_router::shard::{ConnId, WantedAddress};
use rustix::event::{EventfdFlags, eventfd};
use serde::{Deserialize, Serialize};

use crate::fair_quota::FairQuota;

/// The most unanswered questions.
const OPEN_MAX: usize = 256;

/// An address to be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreationQuestion {
    /// identifies the question in its answer
    pub id: u64,
    /// full name of the address space, `NAME.NAMESPACE`
    pub space: String,
    /// the name that a link attaches to
    pub address: String,
    /// the type that the link requests
    #[serde(rename = "type")]
    pub kind: Option<AddressType>,
    /// the patterns of the space's `autoCreate` that match the name, in their order
    pub patterns: Vec<String>,
    /// the user, unless anonymous
    pub user: Option<String>,
}

/// The end of a question.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreationAnswer {
    /// of the question
    pub id: u64,
    /// why the address is refused, for the client; omitted: a Plan contains it or will
    #[serde(default)]
    pub refused: Option<String>,
}

/// An attach that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) worker: u16,
    pub(crate) conn: ConnId,
    /// number of the attach on its worker
    pub(crate) number: u64,
    /// when it times out
    pub(crate) until: Time,
}

struct Open {
    wanted: WantedAddress,
    waiters: Vec<Waiter>,
}

struct State {
    next: u64,
    open: BTreeMap<u64, Open>,
    by_address: HashMap<WantedAddress, u64>,
    /// questions that have not been taken
    fresh: VecDeque<CreationQuestion>,
    places: FairQuota<String>,
}

impl State {
    fn end(&mut self, id: u64) -> Vec<Waiter> {
        let Some(Open { wanted, waiters }) = self.open.remove(&id) else { return Vec::new() };
        self.places.release(&wanted.space);
        self.by_address.remove(&wanted);
        waiters
    }

    /// Ends the questions whose attaches have all timed out.
    fn end_stale(&mut self, now: Time) {
        let stale: Vec<u64> = self
            .open
            .iter()
            .filter(|(_, open)| open.waiters.iter().all(|waiter| waiter.until <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in stale {
            self.end(id);
        }
        self.fresh.retain(|question| self.open.contains_key(&question.id));
    }
}

/// The questions of one node.
pub(crate) struct Creations {
    state: Mutex<State>,
    readable: OwnedFd,
}

impl std::fmt::Debug for Creations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Creations")
    }
}

impl Creations {
    pub(crate) fn new() -> io::Result<Self> {
        let readable = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let (by_address, fresh, places) = (HashMap::new(), VecDeque::new(), FairQuota::new(OPEN_MAX));
        let state = State { next: 0, open: BTreeMap::new(), by_address, fresh, places };
        Ok(Self { state: Mutex::new(state), readable })
    }

    /// Lets an attach wait for an address. `false`: too many questions are unanswered, in total or
    /// of its space.
    pub(crate) fn ask(&self, wanted: WantedAddress, user: Option<String>, waiter: Waiter, now: Time) -> bool {
        let mut state = self.lock();
        // An attach that timed out must not keep a question open that the control plane has lost.
        state.end_stale(now);
        if let Some(open) = state.by_address.get(&wanted).copied().and_then(|id| state.open.get_mut(&id)) {
            open.waiters.retain(|waiter| waiter.until > now);
            open.waiters.push(waiter);
            return true;
        }
        if !state.places.take(wanted.space.clone()) {
            return false;
        }
        let id = state.next;
        state.next += 1;
        let WantedAddress { space, address, kind, patterns } = wanted.clone();
        state.fresh.push_back(CreationQuestion { id, space, address, kind, patterns, user });
        state.by_address.insert(wanted.clone(), id);
        state.open.insert(id, Open { wanted, waiters: vec![waiter] });
        if state.fresh.len() == 1 {
            // The write fails only for a counter near 2^64.
            let _ = rustix::io::write(&self.readable, &1u64.to_ne_bytes());
        }
        true
    }

    /// Takes up to `max` questions, the oldest first.
    pub(crate) fn take(&self, max: usize) -> Vec<CreationQuestion> {
        let mut state = self.lock();
        let count = state.fresh.len().min(max);
        let taken = state.fresh.drain(..count).collect();
        if state.fresh.is_empty() {
            // A failed read means that the counter was already zero.
            let _ = rustix::io::read(&self.readable, &mut [0; 8]);
        }
        taken
    }

    /// Ends a question and returns the attaches that wait for it.
    pub(crate) fn answered(&self, id: u64) -> Vec<Waiter> {
        self.lock().end(id)
    }

    /// Readable while there are questions to take.
    pub(crate) fn readable(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }

    // A poisoned lock means a thread panicked, and then the process is ending.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error for an attach that cannot wait.
pub(crate) fn too_many() -> Error {
    let what = "too many addresses wait to be created: attach again later";
    Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what)
}

/// The error for a client when the control plane refuses.
pub(crate) fn refused(reason: String) -> Error {
    Error::new(condition::NOT_FOUND, reason)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use enmasse_router::core::QueueNumbers;
    use enmasse_router::shard::{Peer, Shard};
    use enmasse_router::table::Table;

    use super::*;
    use crate::config::NodeConfig;
    use crate::node::common;

    fn conn() -> ConnId {
        let common = Arc::new(common(&NodeConfig::default(), 1, QueueNumbers::new(1)));
        let mut shard = Shard::new(0, common, Arc::new(Table::empty([7; 32])), Box::new(|bytes| bytes.fill(9)));
        shard.connect(Time::ZERO, &Peer::default())
    }

    fn wanted(space: &str, address: usize) -> WantedAddress {
        WantedAddress { space: space.to_owned(), address: address.to_string(), kind: None, patterns: Vec::new() }
    }

    fn waiter(number: u64, until: u64) -> Waiter {
        Waiter { worker: 0, conn: conn(), number, until: Time::from_micros(until) }
    }

    #[test]
    fn links_to_one_address_share_one_question_and_its_answer() {
        let creations = Creations::new().unwrap();
        let ask = |number| creations.ask(wanted("shop", 1), Some("alice".to_owned()), waiter(number, 10), Time::ZERO);
        assert!(ask(1) && ask(2));
        let taken = creations.take(usize::MAX);
        assert_eq!(taken.len(), 1);
        assert!(ask(3), "a question that was taken is still open");
        assert!(creations.take(usize::MAX).is_empty());
        let numbers: Vec<u64> = creations.answered(taken[0].id).iter().map(|waiter| waiter.number).collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert!(creations.answered(taken[0].id).is_empty());
        assert!(ask(4));
        assert_eq!(creations.take(usize::MAX).len(), 1, "it is requested again");
    }

    #[test]
    fn address_questions_of_one_space_leave_room_for_other_spaces() {
        let creations = Creations::new().unwrap();
        let ask = |space, address| creations.ask(wanted(space, address), None, waiter(0, 10), Time::ZERO);
        assert_eq!((0..2 * OPEN_MAX).filter(|address| ask("busy", *address)).count(), OPEN_MAX / 2);
        assert!(ask("quiet", 0) && !ask("busy", OPEN_MAX));
        assert!(ask("busy", 0), "another link to the same address takes no slot of the quota");
        creations.answered(creations.take(1)[0].id);
        assert!(ask("busy", OPEN_MAX));
    }

    #[test]
    fn question_is_dropped_when_its_last_attach_times_out() {
        let creations = Creations::new().unwrap();
        let ask =
            |number, now, until| creations.ask(wanted("shop", 1), None, waiter(number, until), Time::from_micros(now));
        assert!(ask(1, 0, 10) && ask(2, 5, 15));
        let first = creations.take(usize::MAX);
        assert!(ask(3, 12, 22), "the second attach is still waiting");
        assert_eq!(creations.answered(first[0].id).iter().map(|waiter| waiter.number).collect::<Vec<_>>(), [2, 3]);
        assert!(ask(4, 20, 30) && ask(5, 30, 40), "the fourth attach has timed out");
        assert_eq!(creations.take(usize::MAX).len(), 1, "and its question was never taken");
    }
}
