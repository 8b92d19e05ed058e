//! The cost of a PUBLISH in the codec and the machine, without sockets: `cargo run --release -p
//! enmasse-mqtt --example publish_cost -- 10000000` prints nanoseconds a message for each version
//! and QoS, received and sent. Payloads have 100 bytes, the topic 27.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures time")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use enmasse_mqtt::codec::fixed::split;
use enmasse_mqtt::codec::{
    AckKind, Connect, PacketId, Properties, Property, PropertyBuffer, Publish, PublishProperties, QoS, ReasonCode,
    Version, encode_ack, encode_connect, encode_publish,
};
use enmasse_mqtt::connection::{Accept, Config, Connection, Event, InFlight, Outgoing};
use enmasse_mqtt::time::Time;

const TOPIC: &str = "plant/7/line/3/temperature0";
const PAYLOAD: &[u8] = &[b'.'; 100];
/// Messages of one socket read.
const BATCH: u16 = 100;

/// An open connection of a client.
fn open(version: Version) -> Connection {
    let mut connection = Connection::new(Arc::new(Config::default()), Time::ZERO);
    let connect = Connect {
        version,
        clean_start: true,
        keep_alive_s: 60,
        client_id: "device",
        will: None,
        user: None,
        password: None,
        properties: Properties::NONE,
    };
    let mut bytes = Vec::new();
    encode_connect(&mut bytes, &connect).expect("a short CONNECT");
    let mut input = bytes.as_slice();
    assert!(matches!(connection.poll_event(Time::ZERO, &mut input), Some(Event::Connect(_))));
    connection.accept(Time::ZERO, &Accept::default(), &InFlight::default()).expect("a waiting CONNECT");
    connection.output().clear();
    connection
}

fn publish<'a>(qos: QoS, id: u16, properties: PublishProperties<'a>) -> Publish<'a> {
    let packet_id = PacketId::new(id).filter(|_| qos != QoS::AtMostOnce);
    Publish { dup: false, qos, retain: false, topic: TOPIC, packet_id, properties, payload: PAYLOAD }
}

/// Prints nanoseconds a message of `work`, which handles a batch; only for names that the second
/// argument is part of, so that a profiler sees one case.
fn measure(name: &str, count: u64, mut work: impl FnMut()) {
    if std::env::args().nth(2).is_some_and(|part| !name.contains(&part)) {
        return;
    }
    let rounds = count / u64::from(BATCH);
    for _ in 0..rounds / 10 {
        work();
    }
    let start = Instant::now();
    for _ in 0..rounds {
        work();
    }
    let nanoseconds = start.elapsed().as_nanos() as f64 / (rounds * u64::from(BATCH)) as f64;
    println!("{name:<34} {nanoseconds:7.1} ns");
}

fn main() {
    let count = std::env::args().nth(1).map_or(10_000_000, |text| text.parse().expect("a number of messages"));
    let mut user = PropertyBuffer::default();
    user.push(Property::User("unit", "celsius")).expect("a short property");
    let rich = PublishProperties {
        message_expiry_s: Some(60),
        content_type: Some("application/json"),
        user: user.as_user(),
        ..PublishProperties::default()
    };
    for (version, name, properties) in [
        (Version::V311, "3.1.1", PublishProperties::default()),
        (Version::V5, "5.0", PublishProperties::default()),
        (Version::V5, "5.0 with properties", rich),
    ] {
        for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
            let mut batch = Vec::new();
            for id in 1..=BATCH {
                encode_publish(&mut batch, &publish(qos, id, properties), &[], version, u32::MAX).expect("short");
            }
            let label = |what: &str| format!("{name}, QoS {}, {what}", qos as u8);
            measure(&label("decode"), count, || decode(&batch, version));
            let mut connection = open(version);
            measure(&label("receive"), count, || receive(&mut connection, &batch));
            let mut connection = open(version);
            measure(&label("send"), count, || send(&mut connection, qos, properties, version));
        }
    }
}

fn decode(batch: &[u8], version: Version) {
    let mut input = batch;
    while let Ok(Some((frame, length))) = split(input, u32::MAX) {
        black_box(Publish::decode(&frame, version).expect("a valid PUBLISH"));
        input = &input[length..];
    }
}

fn receive(connection: &mut Connection, batch: &[u8]) {
    let mut input = batch;
    while let Some(event) = connection.poll_event(Time::ZERO, &mut input) {
        let Event::Publish(message) = black_box(event) else { unreachable!("only messages were sent") };
        if let Some(id) = message.packet_id {
            connection.answer_publish(id, ReasonCode::Success, "").expect("a waiting message");
        }
    }
    connection.output().clear();
}

/// Sends a batch; with QoS 1 the client acknowledges it.
fn send(connection: &mut Connection, qos: QoS, properties: PublishProperties<'_>, version: Version) {
    let mut acknowledgements = Vec::new();
    let message = Outgoing { topic: TOPIC, qos, retain: false, dup: false, properties, payload: &[PAYLOAD] };
    for token in 0..u64::from(BATCH) {
        if qos == QoS::AtMostOnce {
            connection.send_at_most_once(black_box(&message)).expect("an open connection");
        } else {
            let id = connection.send_publish(black_box(&message), token).expect("an open window");
            encode_ack(&mut acknowledgements, AckKind::PubAck, id, (ReasonCode::Success, ""), version, u32::MAX)
                .expect("no text");
        }
    }
    black_box(&connection.output()[..]);
    connection.output().clear();
    let mut input = acknowledgements.as_slice();
    while let Some(event) = connection.poll_event(Time::ZERO, &mut input) {
        black_box(event);
    }
}
