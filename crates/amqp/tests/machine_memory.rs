//! Memory of a connection, counted by the allocator: idle, and after any operation of a peer.
#![expect(unsafe_code, reason = "an allocator that counts has to be one")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use enmasse_amqp::codec::encode_performative;
use enmasse_amqp::codec::frame::{Protocol, protocol_header};
use enmasse_amqp::connection::{AttachReply, Config, Connection, Event, LinkId, Outgoing, SaslPolicy};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{
    Attach, Begin, Detach, Disposition, End, Fields, Flow, Open, Outcome, Performative, ReceiverSettleMode, Role,
    SenderSettleMode, Source, Target, Transfer,
};

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

/// Counts the bytes that the current thread holds.
struct Counting;

fn count(bytes: isize) {
    // A thread that ends no longer has a counter, and no test reads it.
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`, and `alloc` came from the same place.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn held() -> isize {
    HELD.with(Cell::get)
}

/// A server machine, and the bytes that the thread held before its creation.
struct Subject {
    machine: Connection,
    before: isize,
    now: Time,
    frame: Vec<u8>,
}

impl Subject {
    fn new() -> Self {
        let frame = Vec::with_capacity(1 << 18);
        let config = Arc::new(Config::default());
        let before = held();
        let machine = Connection::server(config, Time::ZERO, SaslPolicy::Optional);
        let mut subject = Self { machine, before, now: Time::ZERO, frame };
        subject.read(&protocol_header(Protocol::Amqp));
        subject.send(&Performative::Open(Box::new(Open {
            container_id: "a client of some name".to_owned(),
            idle_time_out: Some(60_000),
            ..Open::default()
        })));
        subject.send(&begin());
        subject
    }

    /// A connection with one session and one link on which the peer has `role`.
    fn linked(role: Role) -> (Self, LinkId) {
        let mut subject = Self::new();
        subject.send(&attach("a link of some name", 0, role));
        let link = subject.machine.links().next().unwrap();
        (subject, link)
    }

    /// Reads bytes, answers, and takes the output as a socket would.
    fn read(&mut self, bytes: &[u8]) {
        let mut input = bytes;
        while let Some(event) = self.machine.poll_event(self.now, &mut input) {
            match event {
                Event::Open(_) => self.machine.open(Config::default().open()),
                Event::Attach { link, attach, .. } => {
                    let reply = AttachReply { source: attach.source, target: attach.target, ..AttachReply::default() };
                    self.machine.accept(link, reply);
                }
                Event::Disposition { session, first, last, settled, .. } => {
                    self.machine.take_settled(session, first, last, settled, |_, _| {});
                }
                Event::Closed { error, .. } => panic!("{error:?}"),
                _ => {}
            }
        }
        assert!(input.is_empty());
        self.machine.flush(self.now);
        self.machine.output().clear();
    }

    fn send(&mut self, performative: &Performative) {
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        encode_performative(&mut frame, 0, performative);
        self.read(&frame);
        self.frame = frame;
    }

    /// Bytes of the machine and of the memory that it owns. The output buffer is the driver's to
    /// lend.
    fn size(&mut self) -> usize {
        *self.machine.output() = Vec::new();
        size_of::<Connection>() + usize::try_from(held() - self.before).unwrap()
    }

    /// As `size`, once a heartbeat was due with nothing else to do.
    fn size_at_rest(&mut self) -> usize {
        self.now = self.machine.poll_timeout().expect("a heartbeat");
        self.machine.handle_timeout(self.now);
        self.size()
    }
}

fn begin() -> Performative {
    Performative::Begin(Box::new(Begin {
        remote_channel: None,
        next_outgoing_id: 0,
        incoming_window: 1 << 30,
        outgoing_window: 1 << 30,
        handle_max: u32::MAX,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: Fields::new(),
    }))
}

fn attach(name: &str, handle: u32, role: Role) -> Performative {
    Performative::Attach(Box::new(Attach {
        name: name.to_owned(),
        handle,
        role,
        snd_settle_mode: SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: Some(Box::new(Source { address: Some("from".to_owned()), ..Source::default() })),
        target: Some(Box::new(Target::node(Some("to".to_owned())))),
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: Some(0),
        max_message_size: None,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: Fields::new(),
    }))
}

fn transfer(id: u32, more: bool) -> Transfer {
    Transfer { delivery_id: Some(id), delivery_tag: Some(vec![1]), more, ..Transfer::default() }
}

fn credit(handle: u32, credit: u32) -> Performative {
    Performative::Flow(Flow {
        incoming_window: 1 << 30,
        handle: Some(handle),
        link_credit: Some(credit),
        ..Flow::default()
    })
}

fn disposition(first: u32, last: u32) -> Performative {
    let (last, state) = (Some(last), None);
    Performative::Disposition(Disposition { role: Role::Receiver, first, last, settled: true, state, batchable: false })
}

fn message(token: Option<u64>) -> Outgoing<'static> {
    Outgoing { token, message_format: 0, first: true, more: false, aborted: false, payload: b"x" }
}

#[test]
fn an_idle_connection_with_a_link_takes_less_than_2_kib() {
    for role in [Role::Sender, Role::Receiver] {
        let (mut subject, link) = Subject::linked(role);
        if role == Role::Sender {
            subject.machine.grant(link, 1000);
            subject.read(b"");
        }
        let size = subject.size();
        println!("{role:?}: {size} bytes, {} of them the machine itself", size_of::<Connection>());
        assert!(size < 2048, "{size} bytes");
    }
}

#[test]
fn memory_returns_to_idle_after_many_deliveries() {
    let (mut subject, link) = Subject::linked(Role::Sender);
    let idle = subject.size_at_rest();
    subject.machine.grant(link, 1 << 20);
    for id in 0..20_000u32 {
        subject.send(&Performative::Transfer(Box::new(transfer(id, false))));
        if id % 100 == 99 {
            // Every other one first: as many ranges as there can be.
            for offset in (0..100).step_by(2).chain((1..100).step_by(2)) {
                subject.machine.settle(link, id - offset, &Outcome::Accepted);
            }
        }
    }
    subject.read(b"");
    assert!(subject.size_at_rest() <= idle + 128, "{} after {idle}", subject.size());

    let (mut subject, link) = Subject::linked(Role::Receiver);
    let idle = subject.size_at_rest();
    subject.send(&credit(0, 1 << 20));
    for token in 0..50_000 {
        subject.machine.transfer(link, message(Some(token))).unwrap();
    }
    assert!(subject.size() > 50_000 * 8);
    subject.send(&disposition(0, 49_999));
    assert!(subject.size_at_rest() <= idle + 128, "{} after {idle}", subject.size());
}

#[test]
fn one_slow_outcome_among_a_million_keeps_memory_bounded() {
    let (mut subject, link) = Subject::linked(Role::Receiver);
    let idle = subject.size();
    subject.send(&credit(0, u32::MAX));
    subject.machine.transfer(link, message(Some(1))).unwrap();
    for id in 1..1_000_000u32 {
        let settled = id % 3 == 0;
        subject.machine.transfer(link, message((!settled).then_some(7))).unwrap();
        if !settled {
            subject.send(&disposition(id, id));
        }
        subject.machine.output().clear();
    }
    let mut tokens = Vec::new();
    subject.machine.take_unsettled(link, |token| tokens.push(token));
    assert_eq!(tokens, [1]);
    assert!(subject.size() < idle + 8192, "{} after {idle}", subject.size());
}

#[test]
fn endless_delivery_is_not_buffered() {
    let (mut subject, _) = Subject::linked(Role::Sender);
    let idle = subject.size();
    subject.send(&Performative::Transfer(Box::new(transfer(0, true))));
    let mut frame = Vec::new();
    encode_performative(
        &mut frame,
        0,
        &Performative::Transfer(Box::new(Transfer { more: true, ..Transfer::default() })),
    );
    frame.resize(100_000, 5);
    frame[..4].copy_from_slice(&100_000u32.to_be_bytes());
    for _ in 0..2000 {
        subject.read(&frame);
    }
    drop(frame);
    assert!(subject.size() < idle + 512, "{} after {idle}", subject.size());
}

#[test]
fn memory_returns_to_idle_after_links_and_sessions_end() {
    let (mut subject, _) = Subject::linked(Role::Sender);
    let idle = subject.size_at_rest();
    for round in 0..2000u32 {
        let handle = 1 + round * 7 % 16_000;
        subject.send(&attach(&format!("link {round}"), handle, Role::Receiver));
        subject.send(&credit(handle, 5));
        subject.send(&Performative::Detach(Detach { handle, closed: true, error: None }));
    }
    assert!(subject.size_at_rest() <= idle + 512, "{} after {idle}", subject.size());
    for _ in 0..500 {
        subject.send(&Performative::End(End::default()));
        subject.send(&begin());
    }
    subject.send(&attach("a link of some name", 0, Role::Sender));
    assert!(subject.size_at_rest() <= idle + 512, "{} after {idle}", subject.size());
}

#[test]
fn link_takes_less_than_600_bytes_at_any_handle() {
    let (mut subject, _) = Subject::linked(Role::Sender);
    let idle = subject.size();
    for link in 0..1000u32 {
        subject.send(&attach(&format!("{link}"), 16_000 - link * 13, Role::Sender));
    }
    let each = (subject.size() - idle) / 1000;
    println!("{each} bytes a link");
    assert!(each < 600, "{each} bytes a link");
}
