//! Random packets: the events do not depend on how the input is split.

use enmasse_mqtt::codec::{ReasonCode, Version};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::peer::{Peer, Seen, packet, publish_v3, publish_v5, text};

/// One packet of a client, mostly valid.
fn packets(version: Version) -> impl Strategy<Value = Vec<u8>> {
    let v5 = version == Version::V5;
    let publish = (0..3_u8, any::<bool>(), 1..20_u16, "[a-c/]{1,4}", vec(any::<u8>(), 0..300)).prop_map(
        move |(qos, retain, id, topic, payload)| {
            let first = 0x30 | qos << 1 | u8::from(retain);
            match v5 {
                true => publish_v5(first, &topic, id, &[], &payload),
                false => publish_v3(first, &topic, id, &payload),
            }
        },
    );
    let release = (1..20_u8).prop_map(|id| vec![0x62, 2, 0, id]);
    let subscribe = (1..20_u8, "[a-c/]{1,4}").prop_map(move |(id, filter)| {
        let properties: &[u8] = if v5 { &[0] } else { &[] };
        packet(0x82, &[&[0, id], properties, &text(&filter), &[1]])
    });
    let junk = vec(any::<u8>(), 1..8);
    prop_oneof![
        10 => publish,
        5 => release,
        2 => Just(vec![0xc0, 0]),
        2 => subscribe,
        1 => junk,
    ]
}

/// Events and output, with a driver that answers at once, of input in these pieces.
fn run(version: Version, input: &[u8], pieces: &[usize]) -> (Vec<Seen>, Vec<u8>) {
    let mut peer = Peer::open(version);
    let (mut seen, mut rest) = (Vec::new(), input);
    for piece in pieces.iter().copied().cycle() {
        let (now, later) = rest.split_at(piece.min(rest.len()));
        let mut events = peer.send(now);
        while !events.is_empty() {
            answer(&mut peer, &events);
            seen.append(&mut events);
            events = peer.send(&[]);
        }
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    (seen, peer.output())
}

fn answer(peer: &mut Peer, events: &[Seen]) {
    for event in events {
        // A later event of the same piece may have ended the connection.
        let _ = match event {
            Seen::Publish { id, .. } if *id > 0 => {
                peer.machine.answer_publish(crate::peer::id(*id), ReasonCode::Success, "")
            }
            Seen::Released(id) => peer.machine.complete(crate::peer::id(*id)),
            Seen::Subscribe(id, filters) => {
                peer.machine.answer_subscribe(crate::peer::id(*id), &vec![ReasonCode::Success; filters.len()], "")
            }
            _ => Ok(()),
        };
    }
}

proptest! {
    #[test]
    fn the_split_of_the_input_does_not_matter(
        (version, packets) in prop_oneof![Just(Version::V31), Just(Version::V311), Just(Version::V5)]
            .prop_flat_map(|version| (Just(version), vec(packets(version), 1..30))),
        pieces in vec(1..50_usize, 1..10),
    ) {
        // One packet at a time, as answers come between packets in each case.
        let input = packets.concat();
        let whole = run(version, &input, &[1]);
        let split = run(version, &input, &pieces);
        let only_messages = |seen: &[Seen]| seen.iter().filter(|seen| !matches!(seen, Seen::Closed(_))).count();
        // With larger pieces, a duplicate may come before the answer to its original.
        prop_assert!(only_messages(&split.0) <= only_messages(&whole.0));
        let every_byte_again = run(version, &input, &[1]);
        prop_assert_eq!(&whole, &every_byte_again);
    }
}
