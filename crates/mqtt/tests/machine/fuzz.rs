//! Arbitrary bytes and arbitrary packets in arbitrary pieces, with a driver that answers as it
//! pleases: no panic, no more messages in flight than allowed, and output within its bound.

use bolero::check;
use enmasse_mqtt::codec::{QoS, ReasonCode, Version};
use enmasse_mqtt::connection::{Config, InFlight};

use crate::peer::{ALL, Peer, Seen, connect, id, message, packet, publish_v3, publish_v5, text};

/// The fuzzer's bytes, one at a time; zeros after the last.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, bound: u8) -> u8 {
        self.byte() % bound
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = usize::from(self.below(12)).min(self.0.len());
        let (head, rest) = self.0.split_at(length);
        self.0 = rest;
        head.to_vec()
    }
}

const RECEIVE_MAXIMUM: u16 = 4;
const OUTPUT_MAX_BYTES: usize = 300;

fn config() -> Config {
    Config {
        receive_maximum: RECEIVE_MAXIMUM,
        send_window_max: 3,
        output_max_bytes: OUTPUT_MAX_BYTES,
        packet_size_max_bytes: 400,
        requests_max: 2,
        topic_alias_maximum: 3,
        ..Config::default()
    }
}

/// A packet of a client, often valid.
fn packet_of(choices: &mut Choices<'_>, version: Version) -> Vec<u8> {
    let v5 = version == Version::V5;
    let number = choices.below(6);
    let none: &[u8] = if v5 { &[0] } else { &[] };
    match choices.below(12) {
        0..=3 => {
            let first = 0x30 | choices.below(16);
            let topic = ["", "a", "long/topic", "a/+"][usize::from(choices.below(4))];
            let payload = choices.bytes();
            if !v5 {
                return publish_v3(first, topic, number.into(), &payload);
            }
            let alias = [0x23, 0, choices.below(5)];
            let properties: &[u8] = if choices.below(2) == 0 { &[] } else { &alias };
            publish_v5(first, topic, number.into(), properties, &payload)
        }
        4 | 5 => packet([0x40, 0x50, 0x62, 0x70][usize::from(choices.below(4))], &[&[0, number]]),
        6 => packet(0x50, &[&[0, number, choices.byte()]]),
        7 => packet(0x82, &[&[0, number], none, &text("a/#"), &[choices.byte()]]),
        8 => packet(0xa2, &[&[0, number], none, &text("a/#")]),
        9 => vec![0xc0, 0],
        10 => packet(choices.byte(), &[&choices.bytes()]),
        _ => connect(version, choices.byte(), 0, &[], &[&text("d"), &choices.bytes()]),
    }
}

/// A call of the driver.
fn act(choices: &mut Choices<'_>, peer: &mut Peer, owed: &mut Vec<Seen>) {
    let number = id(u16::from(choices.below(6)) + 1);
    let code = [ReasonCode::Success, ReasonCode::QuotaExceeded][usize::from(choices.below(2))];
    let machine = &mut peer.machine;
    let parts: [&[u8]; 1] = [&[7; 90]];
    let qos = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce][usize::from(choices.below(3))];
    let outgoing = message("long/topic", qos, &parts);
    match choices.below(10) {
        0..=2 => match owed.pop() {
            Some(Seen::Publish { id: number @ 1.., .. }) => drop(machine.answer_publish(id(number), code, "why")),
            Some(Seen::Released(number)) => drop(machine.complete(id(number))),
            Some(Seen::Received(number, _)) => drop(machine.release(id(number))),
            Some(Seen::Subscribe(number, filters)) => {
                let _ = machine.answer_subscribe(id(number), &vec![code; filters.len()], "why");
            }
            Some(Seen::Unsubscribe(number, filters)) => {
                let _ = machine.answer_unsubscribe(id(number), &vec![code; filters.len()], "");
            }
            _ => {}
        },
        3 => drop(machine.send_at_most_once(&outgoing)),
        4 | 5 => drop(machine.send_publish(&outgoing, 1)),
        6 => drop(machine.reserve(1)),
        7 => drop(machine.send_reserved(&outgoing, number)),
        8 => drop(machine.release(number)),
        _ => machine.output().clear(),
    }
}

#[test]
fn packets_and_calls() {
    check!().for_each(|input: &[u8]| {
        let mut choices = Choices(input);
        let version = ALL[usize::from(choices.below(3))];
        let properties: &[u8] = if choices.below(2) == 0 { &[] } else { &[0x22, 0, 2, 0x27, 0, 0, 0, 80] };
        let mut peer = Peer::open_with(config(), version, properties, &InFlight::default());
        let mut owed = Vec::new();
        let mut messages = 0_usize;
        while !choices.0.is_empty() {
            let bytes = packet_of(&mut choices, version);
            let piece = usize::from(choices.byte()).min(bytes.len());
            let before = peer.machine.output().len();
            for part in [&bytes[..piece], &bytes[piece..]] {
                for seen in peer.send(part) {
                    messages += usize::from(matches!(seen, Seen::Publish { id: 1.., .. }));
                    owed.push(seen);
                }
            }
            // An answer to one packet more than the bound, which has at most 100 bytes.
            assert!(peer.machine.output().len() <= before.max(OUTPUT_MAX_BYTES) + 100);
            act(&mut choices, &mut peer, &mut owed);
            let unanswered = owed.iter().filter(|seen| matches!(seen, Seen::Publish { id: 1.., .. })).count();
            assert!(unanswered <= usize::from(RECEIVE_MAXIMUM), "{unanswered} of {messages}");
            assert!(peer.machine.window() <= 3);
            if matches!(owed.last(), Some(Seen::Closed(_))) {
                assert_eq!(peer.send(&[0xc0, 0]), []);
                break;
            }
        }
        let left = peer.machine.take_in_flight();
        assert!(left.outgoing.len() <= 3);
    });
}

#[test]
fn bytes() {
    check!().for_each(|input: &[u8]| {
        let mut peer = Peer::new(config());
        for seen in peer.send(input) {
            if let Seen::Connect(_) = seen {
                let accept = enmasse_mqtt::connection::Accept::default();
                peer.machine.accept(peer.now, &accept, &InFlight::default()).unwrap();
            }
        }
        peer.send(&[]);
        for version in ALL {
            let mut peer = Peer::open_with(config(), version, &[], &InFlight::default());
            peer.send(input);
        }
    });
}
