//! Arbitrary bytes and arbitrary frames in arbitrary chunks, with a driver that answers as it
//! pleases: no panic, and no more output than the peer and the driver requested.

use bolero::check;
use enmasse_amqp::codec::encode_performative;
use enmasse_amqp::codec::frame::{Protocol, protocol_header};
use enmasse_amqp::connection::{AttachReply, Config, Event, LinkId, Outgoing, SaslPolicy, SessionId};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{
    Begin, Close, DeliveryState, Detach, Disposition, End, Error, Flow, Modified, Open, Outcome, Performative,
    ReceiverSettleMode, Role, SaslCode, SenderSettleMode, Transfer, condition,
};

use crate::pair::{OwnedEvent, attach, echo, piece};
use crate::raw::{Raw, begin};

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

    fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Mostly small, sometimes at the edges of the number space.
    fn number(&mut self) -> u32 {
        match self.below(8) {
            0 => u32::MAX - u32::from(self.below(3)),
            1 => 0x8000_0000 + u32::from(self.below(3)),
            2 => u32::from(self.byte()) * 97,
            _ => u32::from(self.below(6)),
        }
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| make(self))
    }

    fn role(&mut self) -> Role {
        if self.flag() { Role::Sender } else { Role::Receiver }
    }

    fn outcome(&mut self) -> Outcome {
        match self.below(4) {
            0 => Outcome::Accepted,
            1 => Outcome::Released,
            2 => Outcome::Rejected(self.maybe(|choices| Box::new(choices.error()))),
            _ => Outcome::Modified(Box::new(Modified { delivery_failed: self.flag(), ..Modified::default() })),
        }
    }

    fn error(&mut self) -> Error {
        Error::new(condition::INTERNAL_ERROR, "e".repeat(self.below(40).into()))
    }

    fn rcv_settle_mode(&mut self) -> ReceiverSettleMode {
        if self.flag() { ReceiverSettleMode::First } else { ReceiverSettleMode::Second }
    }

    fn snd_settle_mode(&mut self) -> SenderSettleMode {
        [SenderSettleMode::Unsettled, SenderSettleMode::Settled, SenderSettleMode::Mixed][usize::from(self.below(3))]
    }

    fn performative(&mut self) -> Performative {
        match self.below(14) {
            0 => Performative::Open(Box::new(Open { idle_time_out: self.maybe(Self::number), ..Open::default() })),
            1 => self.begin(),
            2 | 3 => self.attach(),
            4 | 5 => self.flow(),
            6..=8 => self.transfer(),
            9 | 10 => self.disposition(),
            11 => {
                let (handle, closed) = (self.number(), self.flag());
                Performative::Detach(Detach { handle, closed, error: self.maybe(Self::error) })
            }
            12 => Performative::End(End { error: self.maybe(Self::error) }),
            _ if self.below(8) == 0 => Performative::Close(Close { error: self.maybe(Self::error) }),
            _ => self.transfer(),
        }
    }

    fn begin(&mut self) -> Performative {
        let Performative::Begin(plain) = begin() else { unreachable!() };
        Performative::Begin(Box::new(Begin {
            remote_channel: (self.below(4) == 0).then(|| self.below(4).into()),
            next_outgoing_id: self.number(),
            incoming_window: self.number(),
            handle_max: self.number(),
            ..*plain
        }))
    }

    fn attach(&mut self) -> Performative {
        let role = self.role();
        let mut wanted = attach(["a", "b", "c"][usize::from(self.below(3))], role);
        wanted.handle = self.number();
        wanted.initial_delivery_count = (role == Role::Sender || self.flag()).then(|| self.number());
        wanted.rcv_settle_mode = self.rcv_settle_mode();
        wanted.snd_settle_mode = self.snd_settle_mode();
        wanted.max_message_size = self.maybe(|choices| choices.number().into());
        Performative::Attach(Box::new(wanted))
    }

    fn flow(&mut self) -> Performative {
        Performative::Flow(Flow {
            next_incoming_id: self.maybe(Self::number),
            incoming_window: self.number(),
            next_outgoing_id: self.number(),
            outgoing_window: self.number(),
            handle: self.maybe(Self::number),
            delivery_count: self.maybe(Self::number),
            link_credit: self.maybe(Self::number),
            available: None,
            drain: self.flag(),
            echo: self.flag(),
            properties: Vec::new(),
        })
    }

    fn transfer(&mut self) -> Performative {
        Performative::Transfer(Box::new(Transfer {
            handle: self.number(),
            delivery_id: self.maybe(Self::number),
            delivery_tag: self.maybe(|choices| vec![choices.byte(); choices.below(33).into()]),
            message_format: None,
            settled: self.maybe(Self::flag),
            more: self.flag(),
            rcv_settle_mode: (self.below(4) == 0).then(|| self.rcv_settle_mode()),
            state: None,
            resume: self.below(8) == 0,
            aborted: self.below(8) == 0,
            batchable: false,
        }))
    }

    fn disposition(&mut self) -> Performative {
        Performative::Disposition(Disposition {
            role: self.role(),
            first: self.number(),
            last: self.maybe(Self::number),
            settled: self.flag(),
            state: self.maybe(|choices| DeliveryState::Outcome(choices.outcome())),
            batchable: false,
        })
    }
}

/// A driver that sends mandatory answers and performs the operations that the fuzzer chooses.
struct Driver {
    raw: Raw,
    /// bytes that the peer sent and bytes that the driver queued
    asked: usize,
    written: usize,
    token: u64,
}

impl Driver {
    fn new(policy: SaslPolicy, started: bool) -> Self {
        let config = Config {
            max_frame_size: 4096,
            session_window: 16,
            uncredited_max: 4,
            unsettled_max: 20,
            channel_max: 3,
            handle_max: 600,
            ..Config::default()
        };
        let mut raw = if started { Raw::begun(config) } else { Raw::fresh(config, policy) };
        raw.side.answers = false;
        Self { raw, asked: 1000, written: 0, token: 0 }
    }

    fn feed(&mut self, choices: &mut Choices<'_>, bytes: &[u8]) {
        self.asked += bytes.len();
        let chunk = usize::from(choices.byte()) + 1;
        for part in bytes.chunks(chunk) {
            self.raw.side.unread.extend_from_slice(part);
            self.poll(choices);
        }
    }

    fn poll(&mut self, choices: &mut Choices<'_>) {
        loop {
            self.raw.side.read(self.raw.now);
            let seen = self.raw.side.take();
            if seen.is_empty() {
                return;
            }
            for seen in seen {
                self.answer(choices, seen);
            }
        }
    }

    fn answer(&mut self, choices: &mut Choices<'_>, seen: OwnedEvent) {
        let machine = &mut self.raw.side.machine;
        self.asked += 200;
        match seen {
            OwnedEvent::Event(Event::SaslInit(_) | Event::SaslResponse(_)) => match choices.below(8) {
                0 => machine.sasl_outcome(SaslCode::Auth, None),
                1 => machine.sasl_challenge(vec![7; 9]),
                _ => machine.sasl_outcome(SaslCode::Ok, None),
            },
            OwnedEvent::Event(Event::Open(_)) => machine.open(Open::default()),
            OwnedEvent::Event(Event::Attach { link, attach, .. }) => match choices.below(4) {
                0 => machine.refuse(link, choices.error()),
                _ => {
                    let reply = AttachReply {
                        rcv_settle_mode: choices.rcv_settle_mode(),
                        max_message_size: choices.maybe(|choices| choices.number().into()),
                        ..echo(&attach)
                    };
                    machine.accept(link, reply);
                }
            },
            OwnedEvent::Event(Event::Disposition { session, first, last, settled, .. }) => {
                if choices.below(4) > 0 {
                    machine.take_settled(session, first, last, settled, |_, token| assert!(token < 1 << 32));
                }
            }
            OwnedEvent::Event(Event::Provisional { session, first, last, settled, .. }) => {
                let unsettled: Vec<_> = machine.unsettled(session, first, last).collect();
                machine.take_settled(session, first, last, settled, |_, token| {
                    assert!(unsettled.iter().any(|(_, _, known)| *known == token));
                });
            }
            OwnedEvent::Event(Event::Detach { link, .. }) => {
                machine.take_unsettled(link, |token| assert!(token < 1 << 32))
            }
            OwnedEvent::Piece(piece) => {
                if !piece.settled && !piece.more && choices.flag() {
                    machine.settle(piece.link, piece.id, &choices.outcome());
                }
            }
            OwnedEvent::Event(_) => {}
        }
    }

    /// An operation of the driver, on a link that may not exist.
    fn act(&mut self, choices: &mut Choices<'_>) {
        let machine = &mut self.raw.side.machine;
        let link = LinkId(choices.below(6).into());
        let session = SessionId(choices.below(4).into());
        self.asked += 400;
        match choices.below(16) {
            0 => machine.grant(link, choices.number()),
            1 => machine.drain(link),
            2 => machine.drained(link),
            3 => machine.set_held(link, choices.flag()),
            4 => machine.settle(link, choices.number(), &choices.outcome()),
            5..=8 => {
                let payload = vec![5; usize::from(choices.byte()) * 40];
                self.asked += payload.len() * 2;
                self.token += 1;
                let (more, aborted) = (choices.flag(), choices.below(8) == 0);
                let token = choices.maybe(|_| self.token);
                let first = choices.flag();
                let ready = machine.sendable(link) > 0 || machine.continuable(link);
                let sent = machine.transfer(link, Outgoing { first, more, aborted, ..piece(token, &payload) });
                assert!(sent.is_err() || ready || aborted);
            }
            9 => machine.detach(link, choices.flag(), choices.maybe(Choices::error)),
            10 => machine.end(session, choices.maybe(Choices::error)),
            11 => drop(machine.begin()),
            12 => drop(machine.attach(session, attach("mine", choices.role()))),
            13 => machine.flush(self.raw.now),
            14 => self.tick(choices),
            _ if choices.below(8) == 0 => machine.close(choices.maybe(Choices::error)),
            _ => machine.take_unsettled(link, |_| {}),
        }
    }

    fn tick(&mut self, choices: &mut Choices<'_>) {
        self.raw.now = self.raw.now.plus_millis(u64::from(choices.number() % 70_000));
        self.raw.side.machine.handle_timeout(self.raw.now);
        if let Some(next) = self.raw.side.machine.poll_timeout() {
            assert!(next > Time::ZERO);
        }
    }

    /// Takes the output as a socket would, and checks that there is not more than was requested.
    fn check(&mut self) {
        self.raw.side.machine.flush(self.raw.now);
        self.written += self.raw.output().len();
        let bound = 16 * self.asked;
        assert!(self.written <= bound, "{} bytes written for {} asked", self.written, self.asked);
        assert!(self.raw.side.machine.links().count() <= 4 * 601);
    }
}

#[test]
fn arbitrary_bytes_from_the_start() {
    check!().with_max_len(512).for_each(|bytes: &[u8]| {
        let mut choices = Choices(bytes);
        let policy = if choices.flag() { SaslPolicy::Required } else { SaslPolicy::Optional };
        let mut driver = Driver::new(policy, false);
        match choices.below(4) {
            0 => driver.feed(&mut choices, &protocol_header(Protocol::Sasl)),
            1 => driver.feed(&mut choices, &protocol_header(Protocol::Amqp)),
            _ => {}
        }
        let rest = choices.0.to_vec();
        driver.feed(&mut choices, &rest);
        driver.check();
    });
}

#[test]
fn arbitrary_frames_and_operations() {
    check!().with_max_len(4096).for_each(|bytes: &[u8]| {
        let mut choices = Choices(bytes);
        let mut driver = Driver::new(SaslPolicy::Optional, true);
        while !choices.0.is_empty() {
            if choices.below(3) == 0 {
                driver.act(&mut choices);
            } else {
                let mut frame = Vec::new();
                let channel = if choices.below(4) == 0 { choices.below(6).into() } else { 0 };
                let performative = choices.performative();
                encode_performative(&mut frame, channel, &performative);
                if matches!(performative, Performative::Transfer(_)) {
                    frame.resize(frame.len() + usize::from(choices.byte()), 9);
                    let size = u32::try_from(frame.len()).unwrap();
                    frame[..4].copy_from_slice(&size.to_be_bytes());
                }
                if choices.below(32) == 0 {
                    let at = usize::from(choices.byte()) % frame.len();
                    frame[at] ^= choices.byte();
                }
                driver.feed(&mut choices, &frame);
            }
            driver.check();
        }
    });
}

#[test]
fn long_session_of_plausible_frames_does_not_panic() {
    check!().with_max_len(8192).for_each(|bytes: &[u8]| {
        let mut choices = Choices(bytes);
        let mut driver = Driver::new(SaslPolicy::Optional, true);
        let mut sent = 0u32;
        for (handle, role) in [(0, Role::Sender), (1, Role::Receiver)] {
            driver.raw.side.answers = true;
            driver.raw.send(0, crate::raw::link(&format!("link {handle}"), handle, role));
            driver.raw.side.answers = false;
        }
        driver.raw.side.machine.grant(LinkId(0), u32::MAX / 4);
        while !choices.0.is_empty() {
            match choices.below(4) {
                0 => driver.act(&mut choices),
                1 => {
                    let credit = Flow { handle: Some(1), link_credit: Some(50), ..crate::raw::flow() };
                    let flow = Flow { next_incoming_id: None, incoming_window: 1 << 20, ..credit };
                    driver.raw.send(0, Performative::Flow(flow));
                }
                2 => driver.raw.send(0, choices.disposition()),
                _ => {
                    driver.raw.send(0, Performative::Transfer(Box::new(crate::raw::transfer(0, sent))));
                    sent += 1;
                }
            }
            driver.asked += 200;
            driver.poll(&mut choices);
            driver.check();
        }
    });
}
