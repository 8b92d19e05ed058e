//! Renewal of logins before they expire: a connection whose login is still valid stays, with its
//! current rights.
//!
//! For that the connection keeps the credentials of the login in memory. If the service cannot
//! decide, the question is repeated; when the last answer expires, the connection is closed.

use std::sync::Arc;

use enmasse_amqp::time::Time;

use super::{ConnId, Fact, LoginSubject, Request, Shard};
use crate::table::{Authenticated, Granted, Judged, Proof, Question, Refusal};

/// Time from the first question to the expiry; half of the validity if that is shorter than twice
/// this time.
const RENEWAL_AHEAD_MS: u64 = 30_000;
/// Time between questions while there is no decision.
const RETRY_MS: u64 = 10_000;
/// Least time from an answer to the next question, however short its validity.
const INTERVAL_MIN_MS: u64 = 1_000;

/// The question of a renewal, and its time.
pub(super) struct Renewal {
    question: Question,
    pub(super) at: Time,
}

impl Renewal {
    pub(super) fn new(question: Question, now: Time, end: Option<Time>) -> Self {
        Self { question, at: due(now, end) }
    }
}

fn due(now: Time, end: Option<Time>) -> Time {
    let left_ms = end.map_or(u64::MAX, |end| end.micros_since(now) / 1000);
    now.plus_millis((left_ms - RENEWAL_AHEAD_MS.min(left_ms / 2)).max(INTERVAL_MIN_MS))
}

impl Shard {
    /// Requests the renewal of a connection's login, if it is due.
    pub(super) fn renew(&mut self, now: Time, id: ConnId) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let Some(renewal) = conn.renewal.as_mut().filter(|renewal| renewal.at <= now) else { return };
        renewal.at = now.plus_millis(RETRY_MS);
        self.requests.push_back(Request::Ask {
            conn: id,
            subject: LoginSubject::Member,
            question: renewal.question.clone(),
        });
    }

    /// Handles the answer of a renewal: applies the new rights, or ends the connection.
    pub(super) fn renewed(&mut self, id: ConnId, judged: Judged) {
        let now = self.fabric.now;
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let Some(renewal) = &mut conn.renewal else { return };
        let reason = match judged {
            Judged::Right { user, rights, until, .. } if conn.authenticated.user.as_ref() == Some(&user) => {
                renewal.at = due(now, until);
                conn.expires = until;
                let service = renewal.question.service.as_str().into();
                let proof = Proof::Granted(Arc::new(Granted { service, rights, until }));
                conn.authenticated = Authenticated { proof, ..std::mem::take(&mut conn.authenticated) };
                return self.apply_to(&[id]);
            }
            Judged::Right { user, .. } => format!("the credentials of the login now belong to {user:?}"),
            Judged::Wrong(why) => why,
            // `renew` repeats the question until the expiry.
            Judged::Unknown(_) => return,
        };
        let refusal = Refusal {
            reason,
            user: conn.authenticated.user.clone(),
            space: Some(renewal.question.space.clone()),
            mechanism: conn.mechanism,
        };
        self.requests.push_back(Request::Fact { conn: id, fact: Fact::LoginRefused(refusal) });
        self.disconnect_unauthorized(id, "the credentials of this connection are no longer accepted; log in again");
    }
}
