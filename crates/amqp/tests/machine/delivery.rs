//! Deliveries: sent, received, settled (2.6.12 to 2.6.14, 2.7.5, 2.7.6).

use enmasse_amqp::connection::{Config, Event, LinkId, SessionId};
use enmasse_amqp::types::{Performative, Role};

use crate::pair::{ACCEPTED, Pair, Seen};

fn config() -> Config {
    Config::default()
}

/// The client sends, and the server has granted `credit`.
fn sender(client: Config, server: Config, credit: u32) -> (Pair, SessionId, LinkId, LinkId) {
    let (mut pair, session, link, theirs) = Pair::linked(client, server, Role::Sender);
    pair.server.machine.grant(theirs, credit);
    pair.run();
    assert_eq!(pair.client.only(), Event::Credit { link, credit, drain: false });
    pair.wire.clear();
    (pair, session, link, theirs)
}

fn settled_tokens(pair: &mut Pair) -> Vec<u64> {
    let mut tokens = Vec::new();
    for seen in pair.client.take() {
        if let Seen::Event(Event::Disposition { session, first, last, settled, .. }) = seen {
            pair.client.machine.take_settled(session, first, last, settled, |_, token| tokens.push(token));
        }
    }
    tokens
}

#[test]
fn section_2_6_12_a_delivery_and_its_outcome() {
    for first_id in [0, u32::MAX - 1] {
        let client = Config { first_id, ..config() };
        let (mut pair, _, link, theirs) = sender(client, config(), 10);
        for token in 0..4 {
            pair.client.send(link, Some(token), b"hello").unwrap();
        }
        pair.run();
        let pieces = pair.server.pieces();
        assert_eq!(pieces.len(), 4);
        for (offset, piece) in (0u32..).zip(&pieces) {
            assert_eq!((piece.link, piece.id), (theirs, first_id.wrapping_add(offset)));
            assert!(piece.first && !piece.more && !piece.settled && piece.payload == b"hello");
        }
        for piece in pieces.iter().rev() {
            pair.server.machine.settle(theirs, piece.id, &ACCEPTED);
        }
        pair.run();
        let written = pair.written(false);
        assert!(matches!(written[..], [Performative::Disposition(_)]), "one range: {written:?}");
        assert_eq!(settled_tokens(&mut pair), [0, 1, 2, 3]);
    }
}
