//! Ranges of streams, read from a test server: the test chooses what it retains, reports and omits.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use enmasse_amqp::codec::encode_message;
use enmasse_amqp::connection::{AttachReply, Config, Connection, Event as MachineEvent, LinkId, Outgoing, SaslPolicy};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{
    Attach, Body, Error as AmqpError, Fields, Message, Open, Outcome, SenderSettleMode, Symbol, Value, condition,
};

use super::{Range, Stream, offset};
use crate::ErrorKind;
use crate::blocking::SourceOptions;
use crate::client::{ClientOptions, PartitionState, StreamState};
use crate::url::Url;

/// A stream with one partition.
#[derive(Clone)]
struct Log {
    /// `None`: the server reports nothing about its streams
    uid: Option<&'static str>,
    first: u64,
    next: u64,
    /// reading begins at a multiple of this number
    block: u64,
    /// offsets that are missing
    gap: std::ops::Range<u64>,
    settled: bool,
    /// a message is selected if its offset is a multiple of this number
    selects: Option<u64>,
    /// messages that the server dispatches before it goes away
    life: u64,
    /// messages have their offset
    numbered: bool,
    /// the answer to an attach names the filters
    echoes: bool,
    /// the client's outcomes of unsettled messages
    outcomes: Arc<Mutex<Vec<Outcome>>>,
}

impl Default for Log {
    fn default() -> Self {
        let (uid, first, next, block, gap) = (Some("u1"), 0, 1000, 1, 0..0);
        let (settled, selects, life, numbered, echoes) = (true, Some(1), u64::MAX, true, true);
        Self { uid, first, next, block, gap, settled, selects, life, numbered, echoes, outcomes: Arc::default() }
    }
}

impl Log {
    /// The offset at which a reader begins, or the error that refuses it.
    fn start(&self, attach: &Attach) -> Result<u64, AmqpError> {
        let filters = &attach.source.as_ref().unwrap().filter;
        let found = filters.iter().find(|(name, _)| name.as_str() == "rabbitmq:stream-offset-spec");
        let start = match &found.expect("a reader says where it begins").1 {
            Value::String(word) => match word.as_str() {
                "first" => self.first,
                "last" => self.next.saturating_sub(1),
                _ => self.next,
            },
            // a message a second
            Value::Timestamp(millis) => (millis / 1000).max(0).unsigned_abs().max(self.first),
            Value::Ulong(offset) if *offset < self.first && self.uid.is_some() => {
                let text = format!("offset {offset} is below {}", self.first);
                return Err(AmqpError::new(condition::PRECONDITION_FAILED, text));
            }
            Value::Ulong(offset) => (*offset).max(self.first),
            other => panic!("{other:?}"),
        };
        Ok(start - start % self.block)
    }

    fn properties(&self) -> Fields {
        let text = |text: &str| Value::String(text.to_owned());
        let entry = |name, offset| (text(name), Value::Ulong(offset));
        let Some(uid) = self.uid else { return Fields::new() };
        let part = vec![(text("partition"), Value::Uint(0)), entry("first", self.first), entry("next", self.next)];
        let partitions = Value::List(vec![Value::Map(part)]);
        let state = Value::Map(vec![(text("uid"), text(uid)), (text("partitions"), partitions)]);
        vec![(Symbol::constant("enmasse:stream"), state)]
    }

    fn message(&self, offset: u64) -> Vec<u8> {
        let annotations = vec![(Symbol::constant("x-stream-offset"), Value::Ulong(offset))];
        let message = Message {
            message_annotations: if self.numbered { annotations } else { Fields::new() },
            body: Body::Data(vec![offset.to_string().into_bytes()]),
            ..Message::default()
        };
        let mut bytes = Vec::new();
        encode_message(&mut bytes, &message);
        bytes
    }
}

/// One connection of a server.
struct Served {
    log: Log,
    machine: Connection,
    /// links with the offset that comes next and whether a selector is in force
    links: Vec<(LinkId, u64, bool)>,
}

impl Served {
    fn run(mut self, mut socket: TcpStream) {
        let mut input = Vec::new();
        let mut buffer = [0; 65_536];
        while self.log.life > 0 {
            let Ok(count @ 1..) = socket.read(&mut buffer) else { return };
            input.extend_from_slice(&buffer[..count]);
            loop {
                let mut rest = &input[..];
                let event = self.machine.poll_event(Time::ZERO, &mut rest);
                let happened = event.map(|event| self.handle(event));
                let left = rest.len();
                input.drain(..input.len() - left);
                if happened.is_none() {
                    break;
                }
            }
            self.machine.flush(Time::ZERO);
            let output = std::mem::take(self.machine.output());
            if socket.write_all(&output).is_err() {
                return;
            }
        }
    }

    fn handle(&mut self, event: MachineEvent<'_>) {
        match event {
            MachineEvent::Open(_) => self.machine.open(Open { container_id: "log".to_owned(), ..Open::default() }),
            MachineEvent::Attach { link, attach, .. } => self.attach(link, *attach),
            MachineEvent::Credit { link, drain, .. } => {
                assert!(self.log.echoes, "credit for an address that ignores the offset filter");
                self.send(link, drain);
            }
            MachineEvent::Disposition { session, first, last, settled, outcome } => {
                self.machine.take_settled(session, first, last, settled, |_, _| {});
                self.log.outcomes.lock().unwrap().push(outcome);
            }
            MachineEvent::Detach { link, .. } => self.links.retain(|(known, ..)| *known != link),
            _ => {}
        }
    }

    fn attach(&mut self, link: LinkId, attach: Attach) {
        let start = match self.log.start(&attach) {
            Ok(start) => start,
            Err(error) => return self.machine.refuse(link, error),
        };
        let mut source = attach.source.unwrap();
        if self.log.selects.is_none() {
            source.filter.retain(|(name, _)| name.as_str() != crate::client::SELECTOR_FILTER);
        }
        if !self.log.echoes {
            source.filter.clear();
        }
        let selects = source.filter.iter().any(|(name, _)| name.as_str() == crate::client::SELECTOR_FILTER);
        self.links.push((link, start, selects));
        let settle = if self.log.settled { SenderSettleMode::Settled } else { SenderSettleMode::Mixed };
        let properties = self.log.properties();
        let reply = AttachReply {
            source: Some(source),
            target: attach.target,
            snd_settle_mode: settle,
            properties,
            ..AttachReply::default()
        };
        self.machine.accept(link, reply);
    }

    fn send(&mut self, link: LinkId, drain: bool) {
        let Some((_, at, selects)) = self.links.iter_mut().find(|(known, ..)| *known == link) else { return };
        while *at < self.log.next && self.machine.sendable(link) > 0 && self.log.life > 0 {
            let offset = *at;
            *at += 1;
            let chosen = !*selects || offset % self.log.selects.unwrap_or(1) == 0;
            if !chosen || self.log.gap.contains(&offset) {
                continue;
            }
            let token = (!self.log.settled).then_some(offset);
            let payload = &self.log.message(offset);
            let piece = Outgoing { token, message_format: 0, first: true, more: false, aborted: false, payload };
            self.machine.transfer(link, piece).unwrap();
            self.log.life -= 1;
        }
        if drain {
            self.machine.drained(link);
        }
    }
}

/// Serves a log to one connection after the other.
fn serve(log: Log) -> SourceOptions {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("amqp://127.0.0.1:{}", listener.local_addr().unwrap().port())).unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let config = Arc::new(Config { idle_time_out_ms: None, ..Config::default() });
            let machine = Connection::server(config, Time::ZERO, SaslPolicy::Optional);
            Served { log: log.clone(), machine, links: Vec::new() }.run(socket.unwrap());
        }
    });
    let server = ClientOptions { mechanisms: Some(Vec::new()), ..ClientOptions::new(url) };
    SourceOptions {
        servers: vec![server],
        address: "readings".to_owned(),
        selector: None,
        silence: Duration::from_secs(20),
    }
}

fn range(from: u64, to: u64) -> Range {
    Range { partition: 0, from, to, uid: Some("u1".to_owned()), tolerant: false }
}

fn connect(log: Log) -> Stream {
    Stream::connect(serve(log)).unwrap()
}

/// The offsets of a range, and how many were missing.
fn read(stream: &mut Stream, range: Range) -> Result<(Vec<u64>, u64), crate::error::Error> {
    stream.begin(range)?;
    let mut offsets = Vec::new();
    let mut take = |at: u64, message: &[u8]| {
        assert_eq!(offset(message), Some(at));
        offsets.push(at);
    };
    while stream.receive(&mut take)? {}
    Ok((offsets, stream.missing()))
}

#[test]
fn range_can_be_read_repeatedly() {
    for settled in [true, false] {
        let log = Log { next: 30_000, settled, ..Log::default() };
        let mut stream = connect(log.clone());
        for (from, to) in [(0, 30_000), (17, 18), (5, 5), (29_000, 30_000), (17, 18)] {
            assert_eq!(read(&mut stream, range(from, to)).unwrap(), ((from..to).collect(), 0));
        }
        let outcomes = log.outcomes.lock().unwrap();
        assert!(settled || !outcomes.is_empty());
        assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Accepted));
    }
}

#[test]
fn messages_before_the_range_are_skipped() {
    for uid in [Some("u1"), None] {
        let mut stream = connect(Log { uid, block: 64, ..Log::default() });
        assert_eq!(read(&mut stream, range(100, 700)).unwrap(), ((100..700).collect(), 0));
    }
}

#[test]
fn stream_state_is_reported_by_the_server_or_probed() {
    let partition = |first, next| vec![PartitionState { partition: 0, first, next }];
    let kept = Log { first: 7, ..Log::default() };
    let reported = StreamState { uid: Some("u1".to_owned()), partitions: partition(7, 1000) };
    assert_eq!(connect(kept.clone()).state().unwrap(), reported);
    for (log, (first, next)) in [(kept, (7, 1000)), (Log { next: 0, ..Log::default() }, (0, 0))] {
        let mut stream = connect(Log { uid: None, ..log });
        assert_eq!(stream.state().unwrap(), StreamState { uid: None, partitions: partition(first, next) });
    }
}

#[test]
fn offset_at_a_time_is_that_of_the_next_message_or_none() {
    let mut stream = connect(Log::default());
    assert_eq!(stream.offset_at(0, 5000).unwrap(), Some(5));
    assert_eq!(stream.offset_at(0, -5).unwrap(), Some(0));
    assert_eq!(stream.offset_at(0, 2_000_000).unwrap(), None);
}

#[test]
fn missing_messages_are_an_error_or_counted_if_tolerated() {
    let tolerant = |from, to| Range { tolerant: true, ..range(from, to) };
    for uid in [Some("u1"), None] {
        let mut stream = connect(Log { uid, first: 50, ..Log::default() });
        assert_eq!(read(&mut stream, range(20, 60)).unwrap_err().kind, ErrorKind::Conflict);
        assert_eq!(read(&mut stream, tolerant(20, 60)).unwrap(), ((50..60).collect(), 30));
        assert_eq!(read(&mut stream, tolerant(20, 40)).unwrap(), (vec![], 20));
        assert_eq!(read(&mut stream, range(50, 60)).unwrap(), ((50..60).collect(), 0));
    }
    let mut stream = connect(Log { gap: 100..110, ..Log::default() });
    let error = read(&mut stream, range(90, 200)).unwrap_err();
    assert!(error.message.contains("from offset 100 to 109"), "{error}");
    assert_eq!(read(&mut stream, tolerant(90, 200)).unwrap().1, 10);
    // Messages missing after the range are not counted.
    let mut stream = connect(Log { uid: None, first: 12, gap: 15..18, ..Log::default() });
    assert_eq!(read(&mut stream, tolerant(0, 10)).unwrap(), (vec![], 10));
}

#[test]
fn recreated_stream_of_the_same_name_is_an_error() {
    let mut stream = connect(Log { uid: Some("u2"), ..Log::default() });
    let error = read(&mut stream, range(0, 10)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(error.message.contains("its uid was u1 and is u2"), "{error}");
    // a batch that was planned before is lost as a whole, whatever the size of the new stream
    let mut stream = connect(Log { uid: Some("u2"), first: 50, ..Log::default() });
    for (from, to) in [(0, 10), (60, 70), (990, 1010), (5000, 5003)] {
        let tolerant = Range { tolerant: true, ..range(from, to) };
        assert_eq!(read(&mut stream, tolerant).unwrap(), (vec![], to - from));
    }
    let mut stream = connect(Log::default());
    for wrong in [range(990, 1010), Range { partition: 3, ..range(0, 1) }] {
        assert_eq!(read(&mut stream, wrong).unwrap_err().kind, ErrorKind::Conflict);
    }
}

#[test]
fn range_with_a_selector_ends_although_messages_are_skipped() {
    for (every, from, to) in [(7, 0, 1000), (7, 500, 600), (600, 601, 900), (1, 0, 1000)] {
        let options = serve(Log { selects: Some(every), ..Log::default() });
        let mut stream = Stream::connect(SourceOptions { selector: Some("value > 1".to_owned()), ..options }).unwrap();
        let expected: Vec<_> = (from..to).filter(|offset| offset % every == 0).collect();
        assert_eq!(read(&mut stream, range(from, to)).unwrap(), (expected, 0));
    }
    let options = serve(Log { selects: None, ..Log::default() });
    let mut stream = Stream::connect(SourceOptions { selector: Some("value > 1".to_owned()), ..options }).unwrap();
    assert!(read(&mut stream, range(0, 10)).unwrap_err().message.contains("does not apply it"));
}

/// Tries to read an address that is not a stream; afterwards the server has handled all input.
fn refused(log: &Log) {
    let options = serve(log.clone());
    let mut stream = Stream::connect(options.clone()).unwrap();
    for error in [
        stream.state().err(),
        stream.offset_at(0, 0).err(),
        read(&mut stream, range(0, 10)).err(),
        read(&mut stream, Range { tolerant: true, ..range(0, 10) }).err(),
    ] {
        let error = error.unwrap();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains("readings is not a stream"), "{error}");
    }
    drop(stream);
    // connections are served one after the other
    drop(Stream::connect(options).unwrap());
}

#[test]
fn address_without_offsets_is_refused_and_its_messages_are_released() {
    let log = Log { uid: None, numbered: false, settled: false, ..Log::default() };
    refused(&log);
    let outcomes = log.outcomes.lock().unwrap();
    assert!(!outcomes.is_empty());
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Released), "{outcomes:?}");
}

#[test]
fn address_that_ignores_the_offset_filter_gets_no_credit() {
    for next in [0, 1000] {
        refused(&Log { uid: None, numbered: false, settled: false, echoes: false, next, ..Log::default() });
    }
}

#[test]
fn disconnect_within_a_range_is_an_unavailable_error() {
    let mut stream = connect(Log { life: 500, ..Log::default() });
    stream.begin(range(0, 1000)).unwrap();
    let mut last = 0;
    let error = loop {
        match stream.receive(&mut |offset, _| last = offset) {
            Ok(more) => assert!(more),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(last < 500);
}

#[test]
fn servers_are_tried_in_their_order() {
    let options = serve(Log::default());
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let away = ClientOptions::new(Url::parse(&format!("amqp://{closed}")).unwrap());
    let servers = vec![away.clone(), options.servers[0].clone()];
    let mut stream = Stream::connect(SourceOptions { servers, ..options.clone() }).unwrap();
    assert_eq!(read(&mut stream, range(0, 3)).unwrap().0, [0, 1, 2]);
    for (servers, kind) in [(vec![away], ErrorKind::Unavailable), (vec![], ErrorKind::Invalid)] {
        let error = Stream::connect(SourceOptions { servers, ..options.clone() }).err().unwrap();
        assert_eq!(error.kind, kind);
    }
}
