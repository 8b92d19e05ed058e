//! A connection and a server that run only when the test calls their turn.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use enmasse_amqp::connection::{AttachReply, Outgoing, SaslPolicy};
use enmasse_amqp::types::SenderSettleMode;

use super::*;
use crate::client::mailbox::RECEIVED_SIZE_MAX;
use crate::client::{ClientOptions, reactor};
use crate::url::Url;
use crate::wire::read_buffer;

const MESSAGE_SIZE: usize = 1 << 20;
const CREDIT: u32 = 100;

/// A client's connection and a server that sends all it may.
struct Pair {
    driver: Driver,
    mailbox: Arc<Mailbox>,
    poller: Poller,
    server: Connection,
    socket: UnixStream,
    unread: Vec<u8>,
    sending: Vec<LinkId>,
    sent: usize,
}

impl Pair {
    fn new() -> Self {
        let (ours, socket) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let url = Url::parse("amqp://localhost").unwrap();
        let options = ClientOptions { mechanisms: Some(Vec::new()), ..ClientOptions::new(url) };
        let (setup, mailbox) = (Arc::new(Setup::new(&options).unwrap()), Arc::new(Mailbox::new().unwrap()));
        let mut driver = Driver::new(1, setup, Arc::clone(&mailbox), reactor::global().unwrap(), Time::ZERO);
        let poller = Poller::new().unwrap();
        driver.connected(Transport::in_process(ours.into()).unwrap(), &poller, Time::ZERO);
        let server = Connection::server(Arc::default(), Time::ZERO, SaslPolicy::Optional);
        Self { driver, mailbox, poller, server, socket, unread: Vec::new(), sending: Vec::new(), sent: 0 }
    }

    fn receiver(&self) -> Handle {
        let link = self.mailbox.new_link(false).unwrap();
        let options = LinkOptions { settled: true, ..LinkOptions::default() };
        self.mailbox.command(Command::AttachReceiver { link, address: Some("a".to_owned()), options });
        self.mailbox.command(Command::Grant { link, more: CREDIT });
        link
    }

    /// The server reads, sends a message on each link that may have one, and writes; then the
    /// client does its part.
    fn turn(&mut self, buffer: &mut [u8]) {
        self.driver.command(&self.poller, Time::ZERO);
        while let Ok(count @ 1..) = self.socket.read(buffer) {
            self.unread.extend_from_slice(&buffer[..count]);
        }
        self.serve();
        for link in self.sending.clone() {
            if self.server.sendable(link) > 0 && self.server.output().is_empty() {
                let payload = &vec![7; MESSAGE_SIZE];
                let whole =
                    Outgoing { token: None, message_format: 0, first: true, more: false, aborted: false, payload };
                self.server.transfer(link, whole).unwrap();
                self.sent += 1;
            }
        }
        self.server.flush(Time::ZERO);
        let output = self.server.output();
        match self.socket.write(output) {
            Ok(count) => drop(output.drain(..count)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        self.driver.read(buffer, &self.poller, Time::ZERO);
    }

    fn serve(&mut self) {
        let unread = std::mem::take(&mut self.unread);
        let mut rest = &unread[..];
        while let Some(event) = self.server.poll_event(Time::ZERO, &mut rest) {
            match event {
                MachineEvent::Open(_) => {
                    self.server.open(Open { container_id: "server".to_owned(), ..Open::default() })
                }
                MachineEvent::Attach { link, attach, .. } => {
                    let mode = SenderSettleMode::Settled;
                    let reply = AttachReply {
                        source: attach.source,
                        target: attach.target,
                        snd_settle_mode: mode,
                        ..AttachReply::default()
                    };
                    self.server.accept(link, reply);
                    self.sending.push(link);
                }
                MachineEvent::Detach { link, .. } => self.sending.retain(|one| *one != link),
                _ => {}
            }
        }
        self.unread = rest.to_vec();
    }

    /// Turns until nothing moves; returns the number of messages that the server has sent.
    fn settle_down(&mut self, buffer: &mut [u8]) -> usize {
        let mut quiet = 0;
        while quiet < 10 {
            let before = (self.sent, self.server.output().len());
            self.turn(buffer);
            quiet = if before == (self.sent, self.server.output().len()) { quiet + 1 } else { 0 };
        }
        self.sent
    }

    /// The owner takes up to `count` events; returns the number of messages among them.
    fn take(&self, count: usize) -> usize {
        let (events, _) = self.mailbox.take_events(count);
        events.iter().filter(|event| matches!(event, Event::Message { .. })).count()
    }
}

#[test]
fn large_messages_wait_at_the_server_until_received_ones_are_taken() {
    let (mut pair, mut buffer) = (Pair::new(), read_buffer());
    pair.receiver();
    let most = RECEIVED_SIZE_MAX / MESSAGE_SIZE + 2;
    let sent = pair.settle_down(&mut buffer);
    assert!((most - 2..=most).contains(&sent), "{sent} of them");
    let mut taken = 0;
    while taken < CREDIT as usize {
        let more = pair.take(most / 4);
        assert!(more > 0, "no progress after {taken} messages");
        taken += more;
        assert!(pair.settle_down(&mut buffer) <= taken + most);
    }
    assert_eq!(taken, CREDIT as usize);
}

#[test]
fn detached_link_does_not_block_the_other_links() {
    for by_client in [true, false] {
        let (mut pair, mut buffer) = (Pair::new(), read_buffer());
        let (first, _) = (pair.receiver(), pair.receiver());
        let full = pair.settle_down(&mut buffer);
        if by_client {
            pair.mailbox.command(Command::Detach { link: first });
        } else {
            let link = pair.sending.remove(0);
            pair.server.detach(link, true, None);
        }
        let sent = pair.settle_down(&mut buffer);
        assert!(sent <= full + 4, "{sent} after {full}");
        let mut taken = 0;
        while pair.settle_down(&mut buffer) > taken {
            taken += pair.take(usize::MAX);
        }
        assert!(taken >= CREDIT as usize, "the other link continues");
    }
}
