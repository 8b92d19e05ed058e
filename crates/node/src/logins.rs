//! Logins that an external service decides. They are questions with answers; no worker waits.
//!
//! A question waits for an answer as long as a handshake may take. At the bound, which spaces
//! share, and after the time limit the peer gets a temporary error; a late answer is dropped.
//! Questions about connected clients have their own bound and precede the others, so that a flood
//! of new logins does not end their sessions.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use enmasse_amqp::time::Time;
use enmasse_router::plan::Right;
use enmasse_router::shard::{ConnId, LoginSubject};
use enmasse_router::table::{Judged, Question, Rights};
use rustix::event::{EventfdFlags, eventfd};
use serde::{Deserialize, Serialize};

use crate::error::NodeError;
use crate::fair_quota::FairQuota;

/// Unanswered questions at one time, including untaken ones: separate bounds for new logins and for
/// connected clients.
const OPEN_MAX: usize = 1024;

/// A question about a login. It holds a secret, so it has no `Debug`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoginQuestion {
    /// identifies the question in its answer
    pub id: u64,
    /// full name of the address space, `NAME.NAMESPACE`
    pub space: String,
    /// the service to ask, as the Plan names it
    pub service: String,
    /// `PLAIN`, `OAUTHBEARER` or `XOAUTH2`
    pub mechanism: &'static str,
    /// the claimed user
    pub user: Option<String>,
    /// its password or token
    pub secret: String,
}

/// The answer to a question: `user` and `rights`, or `refused`, or `unavailable`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoginAnswer {
    /// of the question
    pub id: u64,
    /// the authenticated user
    #[serde(default)]
    pub user: Option<String>,
    /// its rights, in addition to those that the Plan gives a user of that name
    #[serde(default)]
    pub rights: Vec<Right>,
    /// when the login expires, milliseconds since 1970
    #[serde(default)]
    pub expires_ms: Option<u64>,
    /// the login may be renewed by the same question before that time
    #[serde(default)]
    pub renewable: bool,
    /// the login is refused; the reason, for operators
    #[serde(default)]
    pub refused: Option<String>,
    /// no decision is possible at present; the reason, for operators
    #[serde(default)]
    pub unavailable: Option<String>,
}

impl LoginAnswer {
    /// The result, at the time `now`, which is `now_ms` since 1970.
    ///
    /// # Errors
    /// `Request` if it is empty, or contains an invalid right.
    pub(crate) fn judged(self, now: Time, now_ms: u64) -> Result<Judged, NodeError> {
        let wrong = |field, reason: &str| Err(NodeError::Request { field, reason: reason.to_owned() });
        match self {
            Self { refused: Some(why), .. } => Ok(Judged::Wrong(why)),
            Self { unavailable: Some(why), .. } => Ok(Judged::Unknown(why)),
            Self { user: Some(user), rights, expires_ms, renewable, .. } if !user.is_empty() => {
                let rights = Rights::compile(&rights)?;
                let until = expires_ms.map(|end| now.plus_millis(end.saturating_sub(now_ms)));
                Ok(Judged::Right { user, rights, until, renewable })
            }
            _ => wrong("user", "is missing: give the user, or `refused`, or `unavailable`"),
        }
    }
}

/// The connection that waits for an answer.
struct Waiting {
    worker: u16,
    conn: ConnId,
    subject: LoginSubject,
    /// when the question times out
    until: Time,
    /// its space, or the one it requested
    space: String,
}

/// Questions about connected clients, or about new connections.
struct QuestionQueue {
    /// questions that have not been taken
    fresh: VecDeque<LoginQuestion>,
    /// unanswered questions, by the full names of their spaces
    places: FairQuota<String>,
}

struct State {
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// of connected clients, of new connections
    lines: [QuestionQueue; 2],
}

impl State {
    fn new() -> Self {
        let line = || QuestionQueue { fresh: VecDeque::new(), places: FairQuota::new(OPEN_MAX) };
        Self { next: 0, waiting: BTreeMap::new(), lines: [line(), line()] }
    }

    fn fresh_count(&self) -> usize {
        self.lines.iter().map(|line| line.fresh.len()).sum()
    }

    /// Removes questions that have timed out.
    fn remove_expired(&mut self, now: Time) {
        let Self { waiting, lines, .. } = self;
        waiting.retain(|_, waiting| {
            let waits = waiting.until > now;
            if !waits {
                lines[waiting.subject as usize].places.release(&waiting.space);
            }
            waits
        });
        for line in lines {
            line.fresh.retain(|question| waiting.contains_key(&question.id));
        }
    }
}

/// The questions of one node.
pub(crate) struct Logins {
    state: Mutex<State>,
    readable: OwnedFd,
}

impl std::fmt::Debug for Logins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Logins")
    }
}

impl Logins {
    pub(crate) fn new() -> io::Result<Self> {
        let readable = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { state: Mutex::new(State::new()), readable })
    }

    /// Queues a question. `false`: too many of its kind are unanswered, in total or of its space.
    /// It times out at `until`.
    pub(crate) fn ask(
        &self,
        worker: u16,
        conn: ConnId,
        subject: LoginSubject,
        question: Question,
        now: Time,
        until: Time,
    ) -> bool {
        let mut state = self.lock();
        if !state.lines[subject as usize].places.has_room_for(&question.space) {
            state.remove_expired(now);
        }
        if !state.lines[subject as usize].places.take(question.space.clone()) {
            return false;
        }
        let id = state.next;
        state.next += 1;
        let Question { space, service, claim } = question;
        state.waiting.insert(id, Waiting { worker, conn, subject, until, space: space.clone() });
        state.lines[subject as usize].fresh.push_back(LoginQuestion {
            id,
            space,
            service,
            mechanism: claim.mechanism.name(),
            user: claim.user,
            secret: claim.secret.reveal().to_owned(),
        });
        if state.fresh_count() == 1 {
            // The write fails only for a counter near 2^64.
            let _ = rustix::io::write(&self.readable, &1u64.to_ne_bytes());
        }
        true
    }

    /// Takes up to `max` questions, those about connected clients first, and of each kind the
    /// oldest first.
    pub(crate) fn take(&self, max: usize) -> Vec<LoginQuestion> {
        let mut state = self.lock();
        let mut taken = Vec::new();
        for line in &mut state.lines {
            let count = line.fresh.len().min(max - taken.len());
            taken.extend(line.fresh.drain(..count));
        }
        if state.fresh_count() == 0 {
            // A failed read means that the counter was already zero.
            let _ = rustix::io::read(&self.readable, &mut [0; 8]);
        }
        taken
    }

    /// Ends a question and returns its worker and connection, and its subject.
    pub(crate) fn answered(&self, id: u64) -> Option<(u16, ConnId, LoginSubject)> {
        let mut state = self.lock();
        let waiting = state.waiting.remove(&id)?;
        state.lines[waiting.subject as usize].places.release(&waiting.space);
        Some((waiting.worker, waiting.conn, waiting.subject))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use enmasse_amqp::sasl::{Claim, Mechanism, Secret};
    use enmasse_router::core::QueueNumbers;
    use enmasse_router::plan::Operation;
    use enmasse_router::shard::{Peer, Shard};
    use enmasse_router::table::Table;

    use super::*;
    use crate::config::NodeConfig;
    use crate::node::common;

    fn question(space: &str) -> Question {
        let claim = Claim { mechanism: Mechanism::Plain, user: None, secret: Secret::new("token") };
        Question { space: space.to_owned(), service: "auth".to_owned(), claim }
    }

    #[test]
    fn login_questions_of_one_space_leave_room_for_other_spaces() {
        let common = Arc::new(common(&NodeConfig::default(), 1, QueueNumbers::new(1)));
        let mut shard = Shard::new(0, common, Arc::new(Table::empty([7; 32])), Box::new(|bytes| bytes.fill(9)));
        let conn = shard.connect(Time::ZERO, &Peer::default());
        let logins = Logins::new().unwrap();
        let (now, until) = (Time::ZERO, Time::from_micros(10));
        let ask = |space, now| logins.ask(0, conn, LoginSubject::NewLogin, question(space), now, until);
        assert_eq!((0..2 * OPEN_MAX).filter(|_| ask("busy", now)).count(), OPEN_MAX / 2);
        assert!(ask("quiet", now) && !ask("busy", now));
        let taken = logins.take(usize::MAX);
        assert!(!ask("busy", now), "a question that was taken is still open");
        assert!(logins.answered(taken[0].id).is_some() && logins.answered(taken[0].id).is_none());
        assert!(ask("busy", now) && !ask("busy", now));
        // Connections and questions that have timed out are dropped.
        assert!(logins.ask(0, conn, LoginSubject::NewLogin, question("busy"), until, Time::from_micros(20)));
        assert_eq!(logins.take(usize::MAX).len(), 1);
    }

    #[test]
    fn new_logins_leave_room_for_questions_about_members_which_go_first() {
        let common = Arc::new(common(&NodeConfig::default(), 1, QueueNumbers::new(1)));
        let mut shard = Shard::new(0, common, Arc::new(Table::empty([7; 32])), Box::new(|bytes| bytes.fill(9)));
        let conn = shard.connect(Time::ZERO, &Peer::default());
        let logins = Logins::new().unwrap();
        let ask = |subject| logins.ask(0, conn, subject, question("busy"), Time::ZERO, Time::from_micros(10));
        while ask(LoginSubject::NewLogin) {}
        assert_eq!((0..2 * OPEN_MAX).filter(|_| ask(LoginSubject::Member)).count(), OPEN_MAX / 2);
        let taken = logins.take(OPEN_MAX / 2 + 1);
        let ids: Vec<_> = taken.iter().map(|question| question.id as usize).collect();
        assert_eq!(ids, (OPEN_MAX / 2..OPEN_MAX).chain([0]).collect::<Vec<_>>());
        assert!(logins.answered(taken[0].id).is_some());
        assert!(!ask(LoginSubject::NewLogin) && ask(LoginSubject::Member), "freed for members");
        assert_eq!(logins.take(usize::MAX).len(), OPEN_MAX / 2);
    }

    fn answer(json: &str) -> Result<Judged, NodeError> {
        serde_json::from_str::<LoginAnswer>(json).unwrap().judged(Time::from_micros(5_000_000), 1_000)
    }

    #[test]
    fn login_answer_carries_user_rights_and_expiry() {
        let reported = r#"{"id": 1, "user": "alice", "expiresMs": 3000, "renewable": true,
                       "rights": [{"pattern": "orders", "operations": ["send"]}]}"#;
        let Judged::Right { user, rights, until, renewable } = answer(reported).unwrap() else { panic!("it is right") };
        assert_eq!((user.as_str(), until, renewable), ("alice", Some(Time::from_micros(7_000_000)), true));
        assert!(rights.may(Operation::Send, "orders") && !rights.may(Operation::Recv, "orders"));
        let over = answer(r#"{"id": 1, "user": "alice", "expiresMs": 10}"#).unwrap();
        assert!(matches!(over, Judged::Right { until: Some(now), .. } if now == Time::from_micros(5_000_000)));
    }

    #[test]
    fn refused_or_unavailable_login_admits_no_user() {
        let refused = answer(r#"{"id": 1, "user": "alice", "refused": "expired"}"#).unwrap();
        assert_eq!(refused, Judged::Wrong("expired".to_owned()));
        let unknown = answer(r#"{"id": 1, "unavailable": "no route"}"#).unwrap();
        assert_eq!(unknown, Judged::Unknown("no route".to_owned()));
    }

    #[test]
    fn invalid_login_answer_is_an_error_that_names_the_member() {
        for (reported, member) in [
            (r#"{"id": 1}"#, "user"),
            (r#"{"id": 1, "user": ""}"#, "user"),
            (r#"{"id": 1, "user": "a", "rights": [{"pattern": "a/*b", "operations": ["send"]}]}"#, "pattern"),
            (r#"{"id": 1, "user": "a", "rights": [{"pattern": "a", "operations": []}]}"#, "operations"),
        ] {
            let error = answer(reported).unwrap_err().to_string();
            assert!(error.contains(member), "{error}");
        }
    }
}
