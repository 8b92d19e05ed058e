//! Packet identifiers of QoS 2 beside messages of a stream (MQTT 5.0, 4.3.3).

use enmasse_amqp::types::condition;
use enmasse_journal::log::{Fault, Refused};
use enmasse_router::core::{Flow, Joint, OpenTopic, PacketFlow, QueueNumbers, Subscribing, SubscriptionName};

use super::*;

const SESSIONS: AddressKey = AddressKey(60);
const RECORD: AttachmentId = AttachmentId { shard: 0, generation: 0, index: 900 };
const AGAIN: AttachmentId = AttachmentId { shard: 0, generation: 0, index: 901 };
/// The record of another session.
const OTHER: AttachmentId = AttachmentId { shard: 0, generation: 0, index: 902 };
const PACKET: PacketFlow = PacketFlow { flow: Flow::FromClient, id: 7 };

fn record() -> SubscriptionName {
    named("meter")
}

fn named(client: &str) -> SubscriptionName {
    SubscriptionName { space: 1, container: Some(client.into()), name: "session".into(), durable: true }
}

/// Attaches a link to the record of a session.
fn attach_record(site: &mut Site) {
    site.router.set_queue_numbers(QueueNumbers::new(100));
    let opened = OpenTopic::new("sessions".into(), queue::Settings::default(), true);
    site.router.open_topic(sessions(), opened, &mut site.recorded);
    attach_record_of(site, RECORD, record());
}

fn sessions() -> Declared {
    Declared { key: SESSIONS, kind: AddressKind::Topic, ..declared() }
}

fn attach_record_of(site: &mut Site, attachment: AttachmentId, name: SubscriptionName) {
    let subscribing = Subscribing { name: Some(name), ..Subscribing::default() };
    let consuming = Consuming { subscribing: Some(Box::new(subscribing)), ..Consuming::default() };
    let role = AttachmentRole::Consumer { filter: None, consuming };
    site.router.attach(attachment, sessions(), role, &mut site.recorded);
    site.pump();
}

impl Site {
    fn deliver_once(&mut self, delivery_id: u32) {
        let mut payload = Vec::new();
        encode_message(&mut payload, &Message { body: Body::Data(vec!["once".into()]), ..Message::default() });
        let packet = (RECORD, PACKET);
        self.router.deliver_once(PRODUCER, whole(delivery_id, &payload), packet, &mut self.recorded);
    }

    /// The client connects again.
    fn recall(&mut self) {
        self.router.detach(RECORD, &mut self.recorded);
        self.router.recall(AGAIN, &[record()], &mut self.recorded);
    }
}

/// A message of QoS 2 waits for a block in flight, and its client connects again.
fn with_gathered_message() -> Site {
    let mut site = Site::new(1, Settings::default());
    attach_record(&mut site);
    site.slow = true;
    site.send("in flight");
    site.turn();
    site.deliver_once(1);
    site.turn();
    site.recall();
    site.turn();
    site
}

#[test]
fn recalled_record_waits_until_gathered_messages_are_on_disk() {
    let mut site = with_gathered_message();
    site.answer();
    site.turn();
    assert_eq!(site.recorded.packet_ids, None, "the message is not on disk");
    site.answer();
    site.turn();
    assert_eq!(site.accepted(), [0, 1]);
    assert_eq!(site.recorded.packet_ids, Some(vec![PACKET.id]));
}

#[test]
fn recalled_record_waits_for_a_block_that_was_just_written() {
    let mut site = Site::new(1, Settings::default());
    attach_record(&mut site);
    site.slow = true;
    site.deliver_once(0);
    site.recall();
    site.turn();
    assert_eq!(site.recorded.packet_ids, None, "the message is not on disk");
    site.answer();
    site.turn();
    assert_eq!(site.recorded.packet_ids, Some(vec![PACKET.id]));
}

#[test]
fn packet_identifier_of_a_gathered_message_ends_with_its_stream() {
    let mut site = with_gathered_message();
    site.router.delete_address(STREAM, &Error::new(condition::RESOURCE_DELETED, "deleted"), &mut site.recorded);
    site.slow = false;
    site.pump();
    assert_eq!(site.recorded.packet_ids, Some(Vec::new()));
}

#[test]
fn identifier_used_again_after_a_refusal_belongs_to_its_later_group() {
    let mut site = Site::new(1, Settings::default());
    attach_record(&mut site);
    site.slow = true;
    let [first, second] = [1, 2].map(|number| Joint { worker: 0, number, parts: 2 });
    site.router.keep_with(RECORD, PACKET, (first, 1));
    site.router.drop_packet_id(RECORD, PACKET, &mut site.recorded);
    site.router.keep_with(RECORD, PACKET, (second, 1));
    site.turn();
    site.held[0].result = Err(Refused::NoRoom(Fault::Full));
    site.answer();
    site.slow = false;
    site.recall();
    site.pump();
    assert_eq!(site.recorded.packet_ids, Some(vec![PACKET.id]));
}

#[test]
fn packet_identifier_does_not_wait_for_the_joint_group_of_another_session() {
    let mut site = Site::new(1, Settings::default());
    attach_record(&mut site);
    attach_record_of(&mut site, OTHER, named("valve"));
    site.slow = true;
    let received = |id| PacketFlow { flow: Flow::FromNode, id };
    site.router.keep_with(RECORD, received(7), (Joint { worker: 0, number: 1, parts: 2 }, 1));
    site.router.keep_packet_id(OTHER, received(8), None, &mut site.recorded);
    site.router.keep_packet_id(RECORD, received(9), None, &mut site.recorded);
    site.turn();
    let (parts, batches) = std::mem::take(&mut site.held).into_iter().partition(|it| it.batch.joint().is_some());
    site.held = batches;
    site.answer();
    assert_eq!(site.recorded.kept, [(OTHER, 8)], "the other home has not contributed its part");
    site.held = parts;
    site.answer();
    site.turn();
    assert_eq!(site.recorded.kept, [(OTHER, 8), (RECORD, 7), (RECORD, 9)]);
}
