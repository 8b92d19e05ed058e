//! Large messages, which a consumer receives in several transfers.

use enmasse_amqp::types::{Modified, Outcome};
use enmasse_router::shard::OUTPUT_HIGH_BYTES;

use crate::net::{ClientEvent, Net};
use crate::{LAYOUTS, OPEN_SPACE, accepted, pinned};

/// The output that one turn may add above `OUTPUT_HIGH_BYTES`.
const MORE_BYTES: usize = 300_000;

fn payload() -> Vec<u8> {
    (0..40).flat_map(|part| vec![part; 100_000]).collect()
}

/// Sends `payload`, which takes many frames, while the consumer has no credit.
fn send_large(net: &mut Net, sender: usize, settled: bool) {
    let out = net.sender(sender, Some("anycast"));
    net.send(sender, out, &payload(), settled);
}

#[test]
fn buffered_large_message_is_sent_in_pieces_that_bound_the_output() {
    for (shards, producer, consumer) in LAYOUTS {
        for settled in [true, false] {
            let mut net = Net::new(shards, OPEN_SPACE);
            let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
            let link = net.receiver(receiver, "anycast", 0);
            send_large(&mut net, sender, settled);
            net.output_max_bytes = 0;
            net.grant(receiver, link, 1);
            let messages = net.messages(receiver);
            assert_eq!(messages.len(), 1);
            assert!(messages[0].1 == payload(), "the body is unchanged");
            let seen = net.output_max_bytes;
            assert!(seen <= OUTPUT_HIGH_BYTES + MORE_BYTES, "{seen} bytes of output at once");
            if !settled {
                net.settle(receiver, link, messages[0].0, &accepted());
                assert_eq!(net.outcomes(sender), [(0, accepted())]);
            }
        }
    }
}

#[test]
fn messages_after_a_large_one_keep_their_order() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let link = net.receiver(receiver, "anycast", 0);
        send_large(&mut net, sender, true);
        let other = pinned(&mut net, producer);
        let out = net.sender(other, Some("anycast"));
        net.send(other, out, b"after", true);
        net.grant(receiver, link, 5);
        net.send(other, out, b"later", true);
        let bodies: Vec<Vec<u8>> = net.messages(receiver).into_iter().map(|(_, body)| body).collect();
        assert!(bodies.len() == 3 && bodies[0] == payload(), "{} messages", bodies.len());
        assert_eq!(bodies[1..], [b"after".to_vec(), b"later".to_vec()]);
    }
}

#[test]
fn rest_of_a_large_message_is_dropped_with_its_consumer() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let link = net.receiver(receiver, "anycast", 0);
        send_large(&mut net, sender, false);
        net.clients[receiver].deaf = true;
        net.grant(receiver, link, 1);
        assert!(!net.clients[receiver].received.iter().any(|received| matches!(received, ClientEvent::Message { .. })));
        net.cut(receiver);
        let outcomes = net.outcomes(sender);
        assert_eq!(outcomes.len(), 1);
        assert_ne!(outcomes[0].1, accepted());
    }
}

#[test]
fn drain_completes_after_the_rest_of_a_large_message() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let link = net.receiver(receiver, "anycast", 0);
        send_large(&mut net, sender, true);
        net.clients[receiver].deaf = true;
        net.grant(receiver, link, 5);
        net.drain(receiver, link);
        net.listen(receiver);
        assert!(net.messages(receiver)[0].1 == payload());
        let answer = ClientEvent::Flow { link, credit: 0, drain: true };
        assert!(net.clients[receiver].received.contains(&answer), "{:?}", net.clients[receiver].received);
    }
}

#[test]
fn message_beyond_the_limit_of_a_receiver_does_not_block_others() {
    for (shards, producer, consumer) in LAYOUTS {
        for address in ["anycast", "multicast"] {
            let mut net = Net::new(shards, OPEN_SPACE);
            let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
            net.small_receiver(receiver, address, 2, 1000);
            let out = net.sender(sender, Some(address));
            net.send(sender, out, &[0; 2000], false);
            net.piece(sender, out, &[1; 2000], false, true, true);
            net.piece(sender, out, &[1; 2000], false, false, false);
            net.piece(sender, out, &[2; 800], false, true, true);
            net.piece(sender, out, &[2; 800], false, false, false);
            net.send(sender, out, &[3; 20], false);
            let whole: Vec<Vec<u8>> = net.messages(receiver).into_iter().map(|(_, body)| body).collect();
            assert_eq!(whole.last(), Some(&vec![3; 20]), "{address}: the credit remains");
            let undeliverable = Modified { undeliverable_here: true, ..Modified::default() };
            let undeliverable = Outcome::Modified(Box::new(undeliverable));
            let recorded: Vec<Outcome> = net.outcomes(sender).into_iter().map(|(_, outcome)| outcome).collect();
            assert_eq!(recorded, vec![undeliverable; 3], "{address}");
        }
    }
}

#[test]
fn links_blocked_by_a_full_connection_resume_once_it_has_room() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = Net::new(shards, OPEN_SPACE);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        for address in ["anycast", "multicast"] {
            net.receiver(receiver, address, 100);
        }
        let outs = ["anycast", "multicast"].map(|address| net.sender(sender, Some(address)));
        for round in 0..3 {
            net.clients[receiver].deaf = true;
            for n in 0..20 {
                for out in outs {
                    net.send(sender, out, &[n; 50_000], false);
                }
            }
            net.listen(receiver);
            let messages = net.messages(receiver);
            let mut bodies: Vec<u8> = messages.iter().map(|(_, body)| body[0]).collect();
            bodies.sort_unstable();
            assert_eq!(bodies, (0..40).map(|n| n / 2).collect::<Vec<u8>>(), "round {round}");
            for (id, _) in messages {
                // Ids are the session's: whichever link is named.
                net.settle(receiver, enmasse_amqp::connection::LinkId(0), id, &accepted());
            }
        }
        assert_eq!(net.outcomes(sender).len(), 120);
    }
}
