//! Packets of a client, and the steps that they cause.

use std::sync::Arc;

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Attach, Error, Outcome, condition};
use enmasse_mqtt::codec::{PacketId, PropertyId, ReasonCode};
use enmasse_mqtt::connection::{Closed, ClosedBy, Event};

use super::absent::CLIENT_ID;
use crate::core::{AddressKind, Ending, NoLocal};
use crate::plan::Operation;
use crate::shard::conn::{Anonymous, Link};
use crate::shard::credit_window::CreditWindow;
use crate::shard::mqtt::links::request;
use crate::shard::mqtt::record::After;
use crate::shard::mqtt::steps::Step;
use crate::shard::mqtt::{CREATION, Mqtt, PUBLISHER, RECORD, SESSION};
use crate::shard::subscribing::excludes_own;
use crate::shard::work::{ATTACH_NANOS, DELIVERY_NANOS, InputProgress, Work};
use crate::shard::{ConnId, Shard};

/// A packet of which more bytes than this have arrived, and not all, is kept here: the driver keeps
/// little more.
const KEPT_BYTES: usize = 16 * 1024;
/// The type of PUBLISH in the first byte of a packet (2.1.2).
const PUBLISH: u8 = 3;

impl Shard {
    pub(in crate::shard) fn begin_mqtt(&mut self, now: Time) -> Box<Mqtt> {
        Box::new(Mqtt::new(Arc::clone(&self.shared.mqtt), now))
    }

    pub(super) fn mqtt(&mut self, id: ConnId) -> Option<&mut Mqtt> {
        self.fabric.conns.get_mut(id.key())?.machine.mqtt_mut()
    }

    /// As [`Shard::input_within`], of a client of MQTT. All bytes count as used once one packet is
    /// longer than what the driver keeps.
    pub(in crate::shard) fn input_mqtt(&mut self, id: ConnId, bytes: &[u8], budget_nanos: u64) -> InputProgress {
        let Some(mqtt) = self.mqtt(id) else { return InputProgress { used: 0, work_nanos: 0, paused: false } };
        let mut kept = std::mem::take(&mut mqtt.partial);
        let joins = !kept.is_empty();
        if joins {
            kept.extend_from_slice(bytes);
        }
        let mut rest = if joins { &kept[..] } else { bytes };
        let paused = self.read_packets(id, &mut rest, budget_nanos);
        let left = rest.len();
        let Some(mqtt) = self.mqtt(id) else { return InputProgress { used: bytes.len(), work_nanos: 0, paused } };
        let used = if joins {
            kept.drain(..kept.len() - left);
            mqtt.partial = kept;
            bytes.len()
        } else if left > KEPT_BYTES && !mqtt.waits() && !paused {
            mqtt.partial = rest.to_vec();
            bytes.len()
        } else {
            bytes.len() - left
        };
        self.fabric.mark(id.key);
        let work_nanos = std::mem::take(&mut self.fabric.work).nanos;
        InputProgress { used, work_nanos, paused }
    }

    /// Handles packets and steps until an answer is awaited. Returns whether the budget was used up
    /// first.
    fn read_packets(&mut self, id: ConnId, rest: &mut &[u8], budget_nanos: u64) -> bool {
        let now = self.fabric.now;
        while let Some(conn) = self.fabric.conns.get_mut(id.key()) {
            if conn.waits() {
                return false;
            }
            if self.fabric.work.nanos >= budget_nanos {
                return true;
            }
            let paced = conn.pacing.share() == 0;
            let Some(mqtt) = conn.machine.mqtt_mut() else { return false };
            mqtt.now = now;
            if let Some(step) = mqtt.next_step() {
                self.fabric.charge(ATTACH_NANOS);
                self.step_mqtt(id, step);
                continue;
            }
            let is_publish = rest.first().is_some_and(|first| first >> 4 == PUBLISH);
            if mqtt.waits() || is_publish && mqtt.pauses_publications(paced) {
                return false;
            }
            if is_publish && self.creates_for_publish(id, rest) {
                return false;
            }
            let Some(mqtt) = self.mqtt(id) else { return false };
            let Some(event) = mqtt.machine.poll_event(now, rest) else {
                let whole = mqtt.machine.wanted_bytes(rest);
                mqtt.is_blocked = whole.is_some_and(|whole| whole <= rest.len());
                return false;
            };
            self.fabric.charge(DELIVERY_NANOS);
            self.handle_mqtt(id, event);
        }
        false
    }

    /// Continues the work of connections of this turn that waits for nothing.
    pub(in crate::shard) fn continue_mqtt(&mut self) {
        while let Some(key) = self.fabric.unfinished.pop() {
            self.fabric.mark(key);
        }
        for at in 0..self.fabric.dirty.len() {
            let key = self.fabric.dirty[at];
            let conn = self.fabric.conns.get(key as usize);
            if conn.is_some_and(|conn| !conn.waits() && conn.machine.mqtt().is_some_and(Mqtt::has_work)) {
                self.fabric.work = Work::default();
                self.input_mqtt(self.id(key), &[], u64::MAX);
            }
        }
    }

    /// Notes connections of this turn with work that the next turn continues.
    pub(in crate::shard) fn note_unfinished(&mut self, key: u32) {
        let conn = self.fabric.conns.get(key as usize);
        if conn.is_some_and(|conn| !conn.waits() && conn.machine.mqtt().is_some_and(Mqtt::has_work)) {
            self.fabric.unfinished.push(key);
        }
    }

    fn step_mqtt(&mut self, id: ConnId, step: Step) {
        match step {
            Step::Respond(response) => self.sasl_response(id, &response),
            Step::Open => self.open_mqtt(id),
            Step::Register => {
                let attach = Box::new(request(CLIENT_ID.to_owned()));
                if let Some(attach) = self.register_name(id, SESSION, attach) {
                    self.attach_mqtt(id, SESSION, attach);
                }
            }
            Step::Recall => self.recall_mqtt(id),
            Step::ReadRecord => self.read_record(id),
            Step::Resume => self.resume_mqtt(id),
            Step::Discard => self.discard_mqtt(id),
            Step::CreateRecord => self.create_record(id),
            Step::StoreRecord => self.store_record(id, After::Connect),
            Step::Accept => {
                let now = self.fabric.now;
                if let Some(mqtt) = self.mqtt(id) {
                    mqtt.ready(now);
                }
                self.agent_ready(id);
                self.serve(id);
                self.fabric.mark(id.key);
            }
            Step::AnswerWill(true) => self.agent_ready(id),
            Step::AnswerWill(false) => self.agent_refused(id, "the will cannot be stored: send it again later"),
            Step::AnswerRequest => self.answer_request(id),
            Step::NotePacketId(packet_id, kept) => self.note_packet_id(id, packet_id, kept),
            Step::PublishSystem => self.publish_system(id),
            Step::Publish(delivery_id) => self.publish_again(id, delivery_id),
            Step::StoreSubscriptions => self.store_record(id, After::Subscribe),
            Step::Filter => self.begin_filter(id),
            Step::Attach(link) => self.begin_attach(id, link),
            Step::Grant(link) if self.serving(id).is_some() && link != RECORD => self.hand_over(id, link),
            Step::Grant(link) => {
                let credit = self.mqtt(id).map_or(0, |mqtt| mqtt.credit(link));
                self.granted(id, link, credit, false);
            }
            Step::BeginRetained => self.begin_retained(id),
            Step::ReadRetained => self.read_retained(id),
            Step::EndRetained => self.end_retained(id),
        }
    }

    fn handle_mqtt(&mut self, id: ConnId, event: Event<'_>) {
        match event {
            Event::Publish(publish) => self.publish_mqtt(id, &publish),
            Event::Acknowledged { packet_id, token: _, code, properties } => {
                let text = properties.text(PropertyId::ReasonString);
                self.acknowledged(id, packet_id, code, text.unwrap_or_default());
                self.completed_by_client(id, packet_id);
            }
            Event::Received { packet_id, .. } => self.received_by_client(id, packet_id),
            Event::Released { packet_id } => self.released_by_client(id, packet_id),
            Event::Subscribe(subscribe) => self.subscribe_mqtt(id, &subscribe),
            Event::Unsubscribe(unsubscribe) => self.unsubscribe_mqtt(id, &unsubscribe),
            Event::Connect(connect) => self.connect_mqtt(id, &connect),
            Event::Auth { reauthenticate: false, data } => self.continue_mqtt_login(id, data.unwrap_or_default()),
            Event::Auth { reauthenticate: true, data } => self.reauthenticate_mqtt(id, data.unwrap_or_default()),
            Event::Closed(closed) => self.closed_mqtt(id, &closed),
        }
    }

    fn closed_mqtt(&mut self, id: ConnId, closed: &Closed) {
        let Some(mqtt) = self.mqtt(id) else { return };
        if mqtt.is_visit() {
            return self.end_visit(id);
        }
        if mqtt.owner.is_some() {
            return self.agent_closed(id);
        }
        if mqtt.serving.is_some() {
            return self.service_agent_closed(id);
        }
        mqtt.ended = true;
        mqtt.login = None;
        if closed.publish_will {
            self.publish_will(id);
        } else if let Some(mqtt) = self.mqtt(id) {
            mqtt.session.will = None;
        }
        self.abandon_reauthentication(id);
        self.leave_session(id, closed.session_expiry_s);
        let ending = match closed.by {
            ClosedBy::Client => Ending::ByClient,
            ClosedBy::Server => Ending::ByNode,
            ClosedBy::Violation | ClosedBy::Timeout | ClosedBy::Transport => Ending::Lost,
        };
        self.finished(id, Mqtt::error_of(closed), ending);
    }

    /// The client has acknowledged a delivery. A refusal is its outcome, too, except at a topic: a
    /// rejected message may be delivered again, and what a subscriber refused must not be
    /// [5: 4.4.0-2, 4.8.2-6]. With QoS 2 PUBREC has the outcome, and PUBCOMP ends what counts against
    /// the client's receive maximum [5: 4.9].
    pub(super) fn acknowledged(&mut self, id: ConnId, packet_id: PacketId, code: ReasonCode, text: &str) {
        let Some(mqtt) = self.mqtt(id) else { return };
        if let Some((link, token, _)) = mqtt.unacknowledged.remove(&packet_id) {
            let is_topic = mqtt.link(link).is_some_and(|link| link.entry.kind == AddressKind::Topic);
            let outcome = if code.is_error() && !is_topic {
                let what = format!("the client answered {code:?} {text}");
                Outcome::Rejected(Some(Box::new(Error::new(condition::NOT_ALLOWED, what.trim_end()))))
            } else {
                Outcome::Accepted
            };
            self.report_outcome(token, &outcome);
        }
        self.resume_starved(id);
    }

    /// A link of a client: its client id is registered, or a filter is attached to an address.
    pub(in crate::shard) fn attach_mqtt(&mut self, id: ConnId, link: LinkId, attach: Box<Attach>) {
        if link == SESSION {
            return self.ready_mqtt(id);
        }
        if link == CREATION {
            // The packet that waited for the address is read now.
            return self.fabric.mark(id.key);
        }
        let outcome = self.attach_subscription(id, link, &attach);
        if let Err(error) = outcome {
            let address = attach.source.and_then(|source| source.address);
            self.refuse_attach(id, link, address.unwrap_or_default(), error);
        }
        self.refuse_attaches();
        self.fabric.mark(id.key);
    }

    fn attach_subscription(&mut self, id: ConnId, link: LinkId, attach: &Attach) -> Result<(), Error> {
        let Some(mqtt) = self.mqtt(id) else { return Ok(()) };
        let guarantee = mqtt.guarantee(link);
        let Some(entry) = mqtt.link(link).map(|link| Arc::clone(&link.entry)) else { return Ok(()) };
        self.count_attach(id, link)?;
        let name = attach.source.as_ref().and_then(|source| source.address.clone()).unwrap_or_default();
        let entries = [entry];
        let mut terms = self.terms(id, attach, &entries)?;
        let consuming = &mut terms.get_or_insert_default().consuming;
        consuming.guarantee = guarantee;
        if entries[0].kind == AddressKind::Multicast && attach.source.as_deref().is_some_and(excludes_own) {
            consuming.no_local = Some(NoLocal::Connection(self.connection_number(id)));
        }
        self.attach_at(id, link, attach, &entries, &name, &terms);
        Ok(())
    }

    /// The client id belongs to this connection: its session is looked for.
    fn ready_mqtt(&mut self, id: ConnId) {
        let window = CreditWindow::new(self.shared.link_capacity);
        let conn = &mut self.fabric.conns[id.key()];
        let will = conn.machine.mqtt().and_then(|mqtt| mqtt.login.as_ref()?.will.as_ref());
        if will.is_some_and(|will| conn.check_right(Operation::Send, &will.topic).is_err()) {
            if let Some(mqtt) = conn.machine.mqtt_mut() {
                mqtt.refuse_login(ReasonCode::NotAuthorized);
            }
            return self.fabric.mark(id.key);
        }
        conn.settled_here = true;
        conn.set_link(PUBLISHER, Link::Anonymous(Box::new(Anonymous::new(window))));
        if let Some(login) = conn.machine.mqtt_mut().and_then(|mqtt| mqtt.login.as_mut()) {
            login.set_step(Step::Recall);
        }
        self.fabric.mark(id.key);
    }

    /// The transport has ended: what the end of the connection means follows.
    pub(in crate::shard) fn transport_closed_mqtt(&mut self, id: ConnId) {
        let now = self.fabric.now;
        let Some(mqtt) = self.mqtt(id).filter(|mqtt| !mqtt.ended) else { return };
        mqtt.machine.transport_closed();
        mqtt.login = None;
        if let Some(Event::Closed(closed)) = mqtt.machine.poll_event(now, &mut &[][..]) {
            self.closed_mqtt(id, &closed);
        }
    }
}
