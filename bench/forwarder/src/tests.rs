//! The forwarder over real sockets, spoken to in raw frames.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::Forwarder;
use crate::wire::{self, code};

fn start(sink: Option<u32>) -> u16 {
    let mut forwarder = Forwarder::bind(0, sink).unwrap();
    let port = forwarder.local_addr().unwrap().port();
    std::thread::spawn(move || forwarder.run());
    port
}

struct Peer {
    stream: TcpStream,
}

impl Peer {
    /// Connects, opens and begins, without SASL.
    fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut peer = Self { stream };
        peer.write(&[&wire::AMQP_HEADER[..], &wire::OPEN, &wire::BEGIN].concat());
        assert_eq!(peer.read(8), wire::AMQP_HEADER);
        peer.expect(code::OPEN);
        peer.expect(code::BEGIN);
        peer
    }

    fn attach(port: u16, receiver: bool, address: &str) -> Self {
        let mut peer = Self::connect(port);
        let mut frame = Vec::new();
        let (source, target) = (terminus(0x28, address), terminus(0x29, address));
        wire::write_attach(&mut frame, b"\xa1\x04link", receiver, Some(&source), Some(&target));
        peer.write(&frame);
        let answer = peer.expect(code::ATTACH);
        let mut list = wire::list(&answer).unwrap();
        assert_eq!(list.fields.take().and_then(wire::text), Some("link"));
        assert_eq!(list.fields.skip(1).number(), Some(u32::from(!receiver)));
        peer
    }

    fn consumer(port: u16, address: &str, credit: u32) -> Self {
        let mut peer = Self::attach(port, true, address);
        peer.credit(0, credit);
        peer
    }

    fn credit(&mut self, delivery_count: u32, credit: u32) {
        let mut frame = Vec::new();
        wire::write_flow(&mut frame, 0, 0, Some((delivery_count, credit)));
        self.write(&frame);
    }

    fn send(&mut self, id: u32, settled: bool, payload: &[u8]) {
        let mut frame = Vec::new();
        wire::write_transfer(&mut frame, id, settled, payload);
        self.write(&frame);
    }

    fn accept(&mut self, first: u32, last: u32) {
        let mut frame = Vec::new();
        wire::write_accepted(&mut frame, first, last);
        self.write(&frame);
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// The body of the next frame, which must be the named performative.
    fn expect(&mut self, descriptor: u8) -> Vec<u8> {
        let head = self.read(8);
        let body = self.read(wire::u32_at(&head, 0) as usize - 8);
        assert_eq!(wire::list(&body).unwrap().descriptor, descriptor);
        body
    }

    /// Credit of a producer, as the next flow says.
    fn granted(&mut self) -> u32 {
        let body = self.expect(code::FLOW);
        wire::list(&body).unwrap().fields.skip(6).number().unwrap()
    }

    fn received(&mut self) -> (u32, bool, Vec<u8>) {
        let body = self.expect(code::TRANSFER);
        let transfer = wire::transfer(&mut wire::list(&body).unwrap()).unwrap();
        (transfer.delivery_id, transfer.settled, transfer.payload.to_vec())
    }

    fn accepted(&mut self) -> (u32, u32) {
        let body = self.expect(code::DISPOSITION);
        let mut list = wire::list(&body).unwrap();
        (list.fields.skip(1).number().unwrap(), list.fields.number().unwrap())
    }

    fn closed(&mut self) -> bool {
        self.stream.read(&mut [0; 1]).map_or(true, |count| count == 0)
    }
}

fn terminus(descriptor: u8, address: &str) -> Vec<u8> {
    let length = address.len() as u8;
    [&[0, 0x53, descriptor, 0xc0, length + 3, 1, 0xa1, length][..], address.as_bytes()].concat()
}

#[test]
fn credit_deliveries_and_outcomes_pass_through() {
    let port = start(None);
    let mut producer = Peer::attach(port, false, "orders");
    let mut consumer = Peer::consumer(port, "orders", 10);
    assert_eq!(producer.granted(), 10);
    for id in 7..10 {
        producer.send(id, false, &[id as u8; 3]);
    }
    for (sent, id) in (7..10).enumerate() {
        assert_eq!(consumer.received(), (sent as u32, false, vec![id; 3]));
    }
    consumer.accept(0, 2);
    assert_eq!(producer.accepted(), (7, 9));
}

#[test]
fn presettled_deliveries_stay_settled() {
    let port = start(None);
    let mut consumer = Peer::consumer(port, "orders", 10);
    let mut producer = Peer::attach(port, false, "orders");
    assert_eq!(producer.granted(), 10);
    producer.send(0, true, b"x");
    assert_eq!(consumer.received(), (0, true, b"x".to_vec()));
}

#[test]
fn consumers_take_turns_within_their_credit() {
    let port = start(None);
    let mut one = Peer::consumer(port, "orders", 1);
    let mut producer = Peer::attach(port, false, "orders");
    assert_eq!(producer.granted(), 1);
    let mut two = Peer::consumer(port, "orders", 40);
    assert_eq!(producer.granted(), 41);
    for id in 0..3 {
        producer.send(id, true, &[id as u8]);
    }
    let mut first: Vec<u8> = one.received().2;
    first.extend(two.received().2);
    first.extend(two.received().2);
    first.sort_unstable();
    assert_eq!(first, [0, 1, 2]);
    // the next one goes to `two` again, so nothing else can have come to `one`
    producer.send(3, true, &[3]);
    assert_eq!(two.received(), (2, true, vec![3]));
}

#[test]
fn names_never_meet() {
    let port = start(None);
    let mut other = Peer::consumer(port, "invoices", 5);
    let mut consumer = Peer::consumer(port, "orders", 7);
    let mut producer = Peer::attach(port, false, "orders");
    assert_eq!(producer.granted(), 7);
    producer.send(0, true, b"order");
    assert_eq!(consumer.received().2, b"order");
    let mut biller = Peer::attach(port, false, "invoices");
    assert_eq!(biller.granted(), 5);
    biller.send(0, true, b"invoice");
    assert_eq!(other.received().2, b"invoice");
}

#[test]
fn the_outcome_of_a_producer_that_went_reaches_nobody_else() {
    let port = start(None);
    let mut consumer = Peer::consumer(port, "orders", 10);
    let mut producer = Peer::attach(port, false, "orders");
    assert_eq!(producer.granted(), 10);
    producer.send(5, false, b"lost");
    assert_eq!(consumer.received().0, 0);
    producer.write(&wire::CLOSE);
    producer.expect(code::CLOSE);
    assert!(producer.closed());
    // takes the place of the one that went
    let mut heir = Peer::attach(port, false, "orders");
    assert_eq!(heir.granted(), 9);
    heir.send(90, false, b"kept");
    assert_eq!(consumer.received().0, 1);
    consumer.accept(0, 1);
    assert_eq!(heir.accepted(), (90, 90));
}

#[test]
fn a_sink_accepts_and_renews_credit_by_itself() {
    let port = start(Some(4));
    let mut producer = Peer::attach(port, false, "nowhere");
    assert_eq!(producer.granted(), 4);
    producer.send(0, false, b"a");
    producer.send(1, false, b"b");
    let mut seen = Vec::new();
    while seen != [(code::FLOW, 4), (code::DISPOSITION, 1)] {
        let head = producer.read(8);
        let body = producer.read(wire::u32_at(&head, 0) as usize - 8);
        let mut list = wire::list(&body).unwrap();
        match list.descriptor {
            code::FLOW => seen.push((code::FLOW, list.fields.skip(6).number().unwrap())),
            other => seen.push((other, list.fields.skip(2).number().unwrap())),
        }
        // two turns may have been needed: then the first range ends at 0
        seen.retain(|entry| *entry != (code::DISPOSITION, 0));
        seen.sort_unstable();
    }
}

#[test]
fn frames_come_in_pieces_of_any_size() {
    let port = start(None);
    let mut consumer = Peer::consumer(port, "orders", 3);
    let mut producer = Peer::attach(port, false, "orders");
    assert_eq!(producer.granted(), 3);
    let mut frame = Vec::new();
    wire::write_transfer(&mut frame, 0, true, b"slowly");
    for byte in frame {
        producer.write(&[byte]);
    }
    assert_eq!(consumer.received().2, b"slowly");
    let large: Vec<u8> = (0..900_000).map(|index| index as u8).collect();
    producer.send(1, true, &large);
    producer.send(2, true, b"after");
    assert_eq!(consumer.received().2, large);
    assert_eq!(consumer.received().2, b"after");
}

#[test]
fn sasl_anonymous_is_admitted() {
    let port = start(None);
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut peer = Peer { stream };
    peer.write(&wire::SASL_HELLO[..8]);
    assert_eq!(peer.read(36), wire::SASL_HELLO);
    peer.write(b"\x00\x00\x00\x1a\x02\x01\x00\x00\x00\x53\x41\xc0\x0d\x01\xa3\x09ANONYMOUS\x40");
    assert_eq!(peer.read(16), wire::SASL_OK);
    peer.write(&wire::AMQP_HEADER);
    assert_eq!(peer.read(8), wire::AMQP_HEADER);
}

#[test]
fn what_is_not_amqp_is_cut_and_the_rest_continues() {
    let port = start(None);
    let mut bad: Vec<Vec<u8>> = vec![b"GET / HTTP/1.1\r\n\r\n".to_vec()];
    for frame in [
        &b"\x00\x00\x00\x04\x02\x00\x00\x00"[..],
        b"\xff\xff\xff\xff\x02\x00\x00\x00",
        b"\x00\x00\x00\x0a\x02\x00\x00\x00\x53\x10",
    ] {
        bad.push([&wire::AMQP_HEADER[..], frame].concat());
    }
    for bytes in bad {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(&bytes).unwrap();
        let mut answer = Vec::new();
        // a reset is an end, too: what was sent behind the fault is never read
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() <= wire::AMQP_HEADER.len(), "{answer:?}");
    }
    let mut consumer = Peer::consumer(port, "orders", 1);
    let mut producer = Peer::attach(port, false, "orders");
    assert_eq!(producer.granted(), 1);
    producer.send(0, true, b"on");
    assert_eq!(consumer.received().2, b"on");
}
