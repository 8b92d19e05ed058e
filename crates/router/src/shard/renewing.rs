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
/// Questions about a former login whose answers may still come: those of the last retry and the one
/// before. Older ones have timed out.
const STALE_MAX: u32 = 2;
/// Least time from an answer to the next question, however short its validity.
const INTERVAL_MIN_MS: u64 = 1_000;

/// The question of a renewal, and its time.
pub(super) struct Renewal {
    question: Question,
    pub(super) at: Time,
    /// questions without an answer
    asked: u32,
    /// of these, questions about an earlier login of the connection, whose answers mean nothing
    stale: u32,
}

impl Renewal {
    /// The renewal of a login; `former` is that of the login that it replaces.
    pub(super) fn new(question: Question, now: Time, end: Option<Time>, former: Option<&Self>) -> Self {
        let stale = former.map_or(0, |former| former.asked.min(STALE_MAX));
        Self { question, at: due(now, end), asked: stale, stale }
    }

    /// Takes an answer; `false`: it is about an earlier login. Answers come in the order of the
    /// questions; one that never comes costs the next one, and the question is repeated.
    fn takes_answer(&mut self) -> bool {
        let is_stale = self.stale > 0;
        self.stale = self.stale.saturating_sub(1);
        self.asked = self.asked.saturating_sub(1);
        !is_stale
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
        renewal.asked = renewal.asked.saturating_add(1);
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
        if !renewal.takes_answer() {
            return;
        }
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

#[cfg(test)]
mod tests {
    use enmasse_amqp::sasl::{Claim, Mechanism, Secret};

    use super::*;

    /// An earlier token must not decide about the present one, nor the reverse.
    #[test]
    fn answers_about_an_earlier_login_are_dropped() {
        let question = || Question {
            space: "s".to_owned(),
            service: "idp".to_owned(),
            claim: Claim { mechanism: Mechanism::OAuthBearer, user: None, secret: Secret::new("token") },
        };
        let renewal = |former: Option<&Renewal>| Renewal::new(question(), Time::ZERO, None, former);
        let mut first = renewal(None);
        assert!(renewal(Some(&first)).takes_answer(), "nothing was asked");
        first.asked = 1;
        let mut second = renewal(Some(&first));
        second.asked += 1;
        assert!(!second.takes_answer() && second.takes_answer());
        first.asked = 100;
        let mut third = renewal(Some(&first));
        let dropped = std::iter::repeat_with(|| third.takes_answer()).take_while(|taken| !taken).count();
        assert_eq!(dropped, STALE_MAX as usize);
    }
}
