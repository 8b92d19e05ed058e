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

/// The sessions that wait for a visit, and the visits.
#[derive(Default)]
pub(in crate::shard) struct AbsentSessions {
    due: BTreeMap<(Time, u64), Absent>,
    number: u64,
    /// agents that wait for their sessions
    logins: BTreeMap<(Time, u64), ConnId>,
    /// connections of visits and agents that are over
    done: Vec<ConnId>,
    /// spaces whose sessions of earlier runs are known
    spaces: HashSet<SpaceKey>,
}

impl AbsentSessions {
    pub(super) fn insert(&mut self, at: Time, absent: Absent) {
        self.number += 1;
        self.due.insert((at, self.number), absent);
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
            return;
        }
        let absent = Absent {
            space: *space,
            user: conn.user().map(str::to_owned),
            client_id: conn.container.to_string(),
            visit: Visit { since: now, connection: Some(self.connection_number(id)), ends: false },
        };
        self.absent.insert(now.plus_millis(u64::from(delay_s) * 1000), absent);
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
        self.absent.insert(now, Absent { space: *space, user, client_id, visit });
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
                self.absent.insert(now, Absent { space: space.key(), user, client_id, visit });
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
            if self.absent.next_visit().is_none_or(|at| at > self.fabric.now) {
                return;
            }
            if let Some((_, absent)) = self.absent.due.pop_first() {
                self.visit(absent);
            }
        }
    }

    fn visit(&mut self, absent: Absent) {
        let Some(space) = self.table.space(absent.space) else { return };
        let authenticated = Authenticated::vouched(&self.table, space.name(), absent.user.clone());
        let mut conn = self.without_client(Login::new(absent.client_id.clone(), false), authenticated);
        conn.access = Some((absent.space, self.rights(&conn, absent.space)));
        let attach = request("mqtt".to_owned());
        let name = self.shared.link_names.digest(absent.space.0, conn.user(), &conn.container, &attach);
        if self.shared.link_names.is_held(name) {
            // By a client, whose end notes the session again, or by the end itself.
            if self.fabric.leaving_names.values().any(|(leaving, _)| *leaving == name) {
                self.absent.insert(self.fabric.now.plus_millis(AGAIN_MS), absent);
            }
            return;
        }
        let id = self.insert(conn);
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
        if let Some(attach) = self.register_name(id, SESSION, Box::new(request("mqtt".to_owned()))) {
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
            self.absent.insert(visit.since.plus_millis(u64::from(next_s) * 1000), absent);
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
