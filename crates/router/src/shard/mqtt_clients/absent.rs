//! Sessions without a connection (4.1): their delayed wills, and their end.
//!
//! Each is visited when something is due, and after a restart. A visit is a connection without a
//! client: it takes the client id, unless a client has it, reads the record, publishes the will or
//! discards the session, and leaves. A client that connects meanwhile takes the session over.

use std::collections::{BTreeMap, HashSet};

use enmasse_amqp::time::Time;
use enmasse_mqtt::session::Session;

use crate::core::Ending;
use crate::shard::conn::{Conn, Peer};
use crate::shard::link_names::{AbsentAt, LinkName, LinkNames};
use crate::shard::machine::Machine;
use crate::shard::mqtt::links::request;
use crate::shard::mqtt::login::Login;
use crate::shard::mqtt::record::After;
use crate::shard::mqtt::steps::Step;
use crate::shard::mqtt::{Mqtt, SESSION, Visit};
use crate::shard::{ConnId, Shard};
use crate::table::{Authenticated, SpaceKey};

/// Visits begun in one turn.
const TURN_VISITS: usize = 32;
/// Obsolete sessions that are not worth a search.
const OBSOLETE_MIN: usize = 64;
/// The name of the link that stands for a client id.
pub(super) const CLIENT_ID: &str = "mqtt";
/// Time until a session is visited again whose connection is about to end, in milliseconds.
pub(super) const AGAIN_MS: u64 = 10;

/// A session whose connection has ended.
#[derive(Clone, Debug)]
pub(super) struct Absent {
    pub(super) space: SpaceKey,
    pub(super) user: Option<String>,
    pub(super) client_id: String,
    pub(super) visit: Visit,
}

impl Absent {
    /// The name of its client id among those of links.
    fn name(&self, names: &LinkNames) -> LinkName {
        names.digest(self.space.0, self.user.as_deref(), &self.client_id, &request(CLIENT_ID.to_owned()))
    }
}

/// The sessions that wait for a visit, and the visits.
#[derive(Default)]
pub(in crate::shard) struct AbsentSessions {
    /// those that the registry of names has at another place are obsolete
    due: BTreeMap<(Time, u64), (LinkName, Absent)>,
    /// length of `due` at which obsolete ones are removed
    full: usize,
    number: u64,
    /// agents that wait for their sessions
    logins: BTreeMap<(Time, u64), ConnId>,
    /// connections of visits and agents that are over
    done: Vec<ConnId>,
    /// spaces whose sessions of earlier runs are known
    spaces: HashSet<SpaceKey>,
}

impl AbsentSessions {
    /// Notes a session of a shard. A later note of the same session, on any shard, replaces it.
    fn insert(&mut self, at: Time, absent: Absent, (names, shard): (&LinkNames, u16)) {
        let (name, place) = self.place(&absent, (names, shard));
        names.note_absent(name, place);
        self.wait_until(at, (name, absent), (names, shard));
    }

    /// As `insert`, unless the session waits already.
    fn insert_once(&mut self, at: Time, absent: Absent, (names, shard): (&LinkNames, u16)) {
        let (name, place) = self.place(&absent, (names, shard));
        if names.note_absent_once(name, place) {
            self.wait_until(at, (name, absent), (names, shard));
        }
    }

    fn place(&mut self, absent: &Absent, (names, shard): (&LinkNames, u16)) -> (LinkName, AbsentAt) {
        self.number += 1;
        (absent.name(names), AbsentAt { shard, number: self.number })
    }

    /// Obsolete sessions are removed when their number may have doubled: at most half of the list
    /// are obsolete, or `OBSOLETE_MIN`.
    fn wait_until(&mut self, at: Time, waiting: (LinkName, Absent), (names, shard): (&LinkNames, u16)) {
        self.due.insert((at, self.number), waiting);
        if self.due.len() > self.full.max(OBSOLETE_MIN) {
            self.due.retain(|(_, number), (name, _)| names.is_absent(*name, AbsentAt { shard, number: *number }));
            self.full = 2 * self.due.len();
        }
    }

    /// The next session whose time has come and that is not obsolete.
    fn pop(&mut self, now: Time, (names, shard): (&LinkNames, u16)) -> Option<Absent> {
        while self.next_visit().is_some_and(|at| at <= now) {
            let ((_, number), (name, absent)) = self.due.pop_first()?;
            if names.is_absent(name, AbsentAt { shard, number }) {
                names.forget_absent(name);
                return Some(absent);
            }
        }
        None
    }

    /// An agent tries at that time to take its session.
    pub(super) fn log_in_at(&mut self, at: Time, agent: ConnId) {
        self.number += 1;
        self.logins.insert((at, self.number), agent);
    }

    /// The agents that try now.
    pub(super) fn take_logins(&mut self, now: Time) -> Vec<ConnId> {
        let later = self.logins.split_off(&(now, u64::MAX));
        std::mem::replace(&mut self.logins, later).into_values().collect()
    }

    /// Whether visits or agents are over whose connections are there.
    pub(in crate::shard) fn has_left(&self) -> bool {
        !self.done.is_empty()
    }

    fn next_visit(&self) -> Option<Time> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// The time of the next visit, or of the next login of an agent.
    pub(in crate::shard) fn next(&self) -> Option<Time> {
        let login = self.logins.first_key_value().map(|((at, _), _)| *at);
        [self.next_visit(), login].into_iter().flatten().min()
    }
}

impl Shard {
    /// A connection ends whose session stays: it is visited when its will or its end is due.
    pub(super) fn note_absent(&mut self, id: ConnId) {
        let now = self.fabric.now;
        let conn = &self.fabric.conns[id.key()];
        let (Some(mqtt), Some((space, _))) = (conn.machine.mqtt(), &conn.access) else { return };
        let session = &mqtt.session;
        let delay_s = session.will.as_ref().map_or(u32::MAX, |will| will.delay_s).min(session.expiry_s);
        if delay_s == u32::MAX {
            return self.forget_absent(id);
        }
        // A record without its number may have been refused: then that of an earlier one counts.
        let connection = session.is_renewed.then(|| self.connection_number(id));
        let absent = Absent {
            space: *space,
            user: conn.user().map(str::to_owned),
            client_id: conn.container.to_string(),
            visit: Visit { since: now, connection, ends: false },
        };
        self.wait_for_visit(now.plus_millis(u64::from(delay_s) * 1000), absent);
    }

    /// A session is visited at that time, and not at an earlier noted one.
    pub(super) fn wait_for_visit(&mut self, at: Time, absent: Absent) {
        self.absent.insert(at, absent, (&self.shared.link_names, self.fabric.index));
    }

    fn wait_for_visit_again(&mut self, at: Time, absent: Absent) {
        self.absent.insert_once(at, absent, (&self.shared.link_names, self.fabric.index));
    }

    /// The session of a connection has ended, or never does: no visit is due.
    pub(super) fn forget_absent(&mut self, id: ConnId) {
        if let Some(name) = self.fabric.conns[id.key()].name(SESSION) {
            self.shared.link_names.forget_absent(name);
        }
    }

    /// A connection ends that has a client id and has not read the session: it is visited, because an
    /// earlier visit may have left it to this connection.
    pub(super) fn note_undecided(&mut self, id: ConnId) {
        let now = self.fabric.now;
        let conn = &self.fabric.conns[id.key()];
        let is_visit = conn.machine.mqtt().is_none_or(Mqtt::is_visit);
        let (Some((space, _)), Some(_), false) = (&conn.access, conn.name(SESSION), is_visit) else { return };
        let (user, client_id) = (conn.user().map(str::to_owned), conn.container.to_string());
        let visit = Visit { since: now, connection: None, ends: false };
        self.wait_for_visit(now, Absent { space: *space, user, client_id, visit });
    }

    /// After a restart: the sessions of a space whose records live here.
    pub(in crate::shard) fn find_absent(&mut self) {
        let (now, here, shards) = (self.fabric.now, self.fabric.index, self.shared.loads.len() as u16);
        for space in self.table.spaces().filter(|space| space.key().stored_home(shards) == here) {
            let Some(store) = space.mqtt() else { continue };
            if !self.absent.spaces.insert(space.key()) {
                continue;
            }
            for (user, client_id, _) in self.recorded_sessions(store) {
                let visit = Visit { since: now, connection: None, ends: false };
                let absent = Absent { space: space.key(), user, client_id, visit };
                self.absent.insert_once(now, absent, (&self.shared.link_names, here));
            }
        }
    }

    /// Begins the visits that are due, and ends those that are over.
    pub(in crate::shard) fn visit_absent(&mut self) {
        for id in std::mem::take(&mut self.absent.done) {
            if self.knows(id) {
                self.release_all(id, Ending::ByClient);
                self.fabric.stop_waiting(id.key);
                self.fabric.conns.remove(id.key());
                self.forget(id);
            }
        }
        self.log_in_agents();
        for _ in 0..TURN_VISITS {
            let registry = (&self.shared.link_names, self.fabric.index);
            let Some(absent) = self.absent.pop(self.fabric.now, registry) else { return };
            self.visit(absent);
        }
    }

    fn visit(&mut self, absent: Absent) {
        let Some(space) = self.table.space(absent.space) else { return };
        let authenticated = Authenticated::vouched(&self.table, space.name(), absent.user.clone());
        let mut conn = self.without_client(Login::new(absent.client_id.clone(), false), authenticated);
        conn.access = Some((absent.space, self.rights(&conn, absent.space)));
        let name = absent.name(&self.shared.link_names);
        if self.shared.link_names.is_held(name) {
            // By a client, whose end notes the session again, or by the end itself.
            if self.is_leaving(name) {
                self.wait_for_visit_again(self.fabric.now.plus_millis(AGAIN_MS), absent);
            }
            return;
        }
        let id = self.insert(Box::new(conn));
        if let Some(mqtt) = self.mqtt(id) {
            mqtt.visit = Some(absent.visit);
        }
        self.log_in(id);
    }

    /// A connection without a client, whose login begins with [`Shard::log_in`].
    pub(super) fn without_client(&mut self, login: Login, authenticated: Authenticated) -> Conn {
        let (_, _, handshake) = self.begin_handshake(&Peer::default());
        let mut mqtt = self.begin_mqtt(self.fabric.now);
        let container = login.client_id.as_str().into();
        mqtt.login = Some(Box::new(login));
        let mut conn = Conn::new(Machine::Mqtt(mqtt), handshake, authenticated);
        (conn.handshake, conn.container) = (None, container);
        conn
    }

    /// Takes the client id of a connection without a client, and looks for its session.
    pub(super) fn log_in(&mut self, id: ConnId) {
        if let Some(attach) = self.register_name(id, SESSION, Box::new(request(CLIENT_ID.to_owned()))) {
            self.attach_mqtt(id, SESSION, attach);
        }
        self.input_mqtt(id, &[], u64::MAX);
    }

    /// The record of a visited session was read; `None`: there is no session any more.
    pub(super) fn decide_absent(&mut self, id: ConnId, record: Option<Session>) {
        let now = self.fabric.now;
        let conn = &self.fabric.conns[id.key()];
        let visit = conn.machine.mqtt().and_then(|mqtt| mqtt.visit);
        let stored_by = conn.machine.mqtt().and_then(|mqtt| mqtt.session.stored_by);
        let (Some(visit), Some((space, _)), Some(mut record)) = (visit, &conn.access, record) else {
            return self.end_visit(id);
        };
        if visit.connection.is_some() && visit.connection != stored_by {
            // The session had another connection since, which has its own visit.
            return self.end_visit(id);
        }
        let (user, client_id) = (conn.user().map(str::to_owned), conn.container.to_string());
        let absent = Absent { space: *space, user, client_id, visit };
        let Some(mqtt) = self.mqtt(id) else { return };
        let elapsed_s = now.micros_since(visit.since) / 1_000_000;
        let will_delay_s = record.will.as_ref().map(|will| will.delay_s.min(record.expiry_s));
        let is_due = |seconds: u32| seconds != u32::MAX && u64::from(seconds) <= elapsed_s;
        let (expiry_s, has_ended) = (record.expiry_s, visit.ends || is_due(record.expiry_s));
        let will_due = will_delay_s.is_some_and(|delay_s| has_ended || is_due(delay_s));
        if will_due {
            mqtt.session.will = record.will.take().map(Box::new);
            self.publish_will(id);
        }
        let Some(mqtt) = self.mqtt(id) else { return };
        mqtt.session.will = record.will.take().map(Box::new);
        mqtt.restore(&record);
        if has_ended {
            // A client that connects before the session is discarded does not continue it.
            mqtt.session.expiry_s = 0;
            self.store_record(id, After::Nothing);
            let Some(mqtt) = self.mqtt(id) else { return };
            mqtt.session.discards = true;
            if let Some(login) = &mut mqtt.login {
                login.set_step(Step::Discard);
            }
            return self.widen_filters(id);
        }
        mqtt.session.expiry_s = expiry_s;
        if will_due {
            self.store_record(id, After::Nothing);
        }
        let next_s = will_delay_s.filter(|_| !will_due).unwrap_or(u32::MAX).min(expiry_s);
        if next_s != u32::MAX {
            self.wait_for_visit(visit.since.plus_millis(u64::from(next_s) * 1000), absent);
        }
        self.end_visit(id);
    }

    /// A visit is over.
    pub(super) fn end_visit(&mut self, id: ConnId) {
        if let Some(mqtt) = self.mqtt(id) {
            mqtt.ended = true;
            mqtt.login = None;
            mqtt.session.will = None;
        }
        self.remove_later(id);
    }

    /// Removes a connection without a socket after the turn.
    pub(super) fn remove_later(&mut self, id: ConnId) {
        self.absent.done.push(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absent(client_id: usize) -> Absent {
        let visit = Visit { since: Time::from_micros(0), connection: None, ends: false };
        Absent { space: SpaceKey(1), user: None, client_id: client_id.to_string(), visit }
    }

    fn at(seconds: u64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    /// The client ids of the visits that are due.
    fn visits(sessions: &mut AbsentSessions, now: Time, registry: (&LinkNames, u16)) -> Vec<String> {
        std::iter::from_fn(|| sessions.pop(now, registry)).map(|absent| absent.client_id).collect()
    }

    #[test]
    fn session_waits_once_however_often_its_client_leaves() {
        let names = LinkNames::default();
        let mut shards = [AbsentSessions::default(), AbsentSessions::default()];
        for time in 0..10_000 {
            let shard = time as usize % 2;
            shards[shard].insert(at(time), absent(7), (&names, shard as u16));
        }
        assert!(shards.iter().all(|sessions| sessions.due.len() <= OBSOLETE_MIN + 1));
        assert_eq!(visits(&mut shards[0], at(20_000), (&names, 0)), [""; 0]);
        assert_eq!(visits(&mut shards[1], at(9_998), (&names, 1)), [""; 0]);
        assert_eq!(visits(&mut shards[1], at(9_999), (&names, 1)), ["7"]);
        assert_eq!(visits(&mut shards[1], at(20_000), (&names, 1)), [""; 0]);
    }

    #[test]
    fn sessions_that_have_ended_leave_no_visits() {
        let (names, mut sessions) = (LinkNames::default(), AbsentSessions::default());
        let kept = 100;
        for client_id in 0..10_000 {
            sessions.insert(at(3600), absent(client_id), (&names, 0));
            if client_id >= kept {
                names.forget_absent(absent(client_id).name(&names));
            }
        }
        assert!(sessions.due.len() <= 2 * kept + 1, "{} wait", sessions.due.len());
        assert_eq!(visits(&mut sessions, at(3600), (&names, 0)).len(), kept);
    }

    #[test]
    fn visit_that_is_repeated_does_not_replace_a_later_note() {
        let names = LinkNames::default();
        let [mut old, mut new] = [AbsentSessions::default(), AbsentSessions::default()];
        new.insert(at(60), absent(7), (&names, 1));
        old.insert_once(at(1), absent(7), (&names, 0));
        assert_eq!(visits(&mut old, at(100), (&names, 0)), [""; 0]);
        assert_eq!(visits(&mut new, at(60), (&names, 1)), ["7"]);
        old.insert_once(at(1), absent(7), (&names, 0));
        assert_eq!(visits(&mut old, at(100), (&names, 0)), ["7"]);
    }
}
