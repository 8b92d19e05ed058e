//! A client of any AMQP 1.0 server: commands in, batches of events out.
//!
//! One I/O thread serves all clients of a process (`reactor`); each connection is the machine of
//! `enmasse_amqp` over a socket (`driver`), with the links that its owner requested (`links`).
//! Owner and thread communicate through a `mailbox`: no call of the owner waits for the network,
//! and a file descriptor is readable while there are events. Back-pressure is credit, in both
//! directions: `send` accepts as many messages as the server has granted. The server sends at most
//! as many as the owner has granted, and none while too many bytes wait for the owner.

mod driver;
mod event;
mod links;
mod mailbox;
mod reactor;
mod waker;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use enmasse_amqp::connection::Config;
use enmasse_amqp::sasl::Secret;
use enmasse_amqp::types::Symbol;

pub use event::{Event, Handle, LinkOptions, Outcome, PartitionState, Reason, StreamFilter, StreamOffset, StreamState};
pub(crate) use event::{member, unsigned};
pub(crate) use links::{OFFSET_FILTERS, SELECTOR_FILTER};

use crate::error::Error;
use crate::login::Credentials;
use crate::transport::{Route, TlsOptions, Transport, resolve};
use crate::url::Url;
use mailbox::{Command, Mailbox};
use waker::Waker;

/// The server, and the credentials.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// the server, user and password
    pub url: Url,
    /// trusted certificates
    pub tls: TlsOptions,
    /// the only allowed SASL mechanisms; `None`: all, the strongest first; empty: no SASL layer
    pub mechanisms: Option<Vec<String>>,
    /// virtual host of sasl-init and open, for EnMasse the address space; `None`: the URL's host
    pub hostname: Option<String>,
    /// a token issued to the user, used in place of a password
    pub token: Option<Secret>,
    /// capabilities requested in open
    pub desired_capabilities: Vec<String>,
    /// `None`: a generated unique name
    pub container_id: Option<String>,
    /// silence after which the server counts as failed, by default less than half of its idle
    /// time-out; `None`: never
    pub idle_time_out: Option<Duration>,
    /// time to connect, log in and open
    pub connect_time_out: Duration,
}

impl ClientOptions {
    /// The defaults for a server.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self {
            url,
            tls: TlsOptions::default(),
            mechanisms: None,
            hostname: None,
            token: None,
            desired_capabilities: Vec::new(),
            container_id: None,
            idle_time_out: Some(Duration::from_secs(60)),
            connect_time_out: Duration::from_secs(15),
        }
    }
}

/// The I/O thread's view of a connection.
struct Setup {
    route: Route,
    /// the server, for messages
    server: String,
    /// `None`: no SASL layer
    credentials: Option<Credentials>,
    hostname: Option<String>,
    desired_capabilities: Vec<Symbol>,
    container_id: String,
    /// prefix of generated link names: unique per client, even for one container id, because equal
    /// names would steal links (2.6.1)
    unique: String,
    idle_time_out: Option<Duration>,
    connect_time_out: Duration,
}

impl Setup {
    fn new(options: &ClientOptions) -> Result<Self, Error> {
        let url = &options.url;
        let hostname = options.hostname.clone().or_else(|| Some(url.host.clone()));
        let credentials = match options.mechanisms.as_deref() {
            Some([]) => None,
            mechanisms => {
                Some(Credentials::new(url, &options.tls, mechanisms, hostname.clone(), options.token.clone())?)
            }
        };
        let unique = unique();
        Ok(Self {
            route: Route::new(url, &options.tls)?,
            server: url.server(),
            credentials,
            hostname,
            desired_capabilities: options.desired_capabilities.iter().map(|one| one.as_str().into()).collect(),
            container_id: options.container_id.clone().unwrap_or_else(|| unique.clone()),
            unique,
            idle_time_out: options.idle_time_out,
            connect_time_out: options.connect_time_out,
        })
    }

    fn config(&self) -> Config {
        let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        Config {
            container_id: Arc::from(self.container_id.as_str()),
            idle_time_out_ms: self.idle_time_out.map(millis),
            handshake_ms: millis(self.connect_time_out),
            ..Config::default()
        }
    }
}

fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("enmasse-{}-{:x}-{}", std::process::id(), since.as_micros(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// One connection. Dropping it closes it.
pub struct Client {
    mailbox: Arc<Mailbox>,
    waker: Waker,
    key: u64,
}

impl Client {
    /// Begins to connect; `Opened` or `Closed` reports the result.
    ///
    /// # Errors
    /// Errors of the options themselves: `Invalid`, `Denied`.
    pub fn connect(options: &ClientOptions) -> Result<Self, Error> {
        let setup = Arc::new(Setup::new(options)?);
        let client = Self::start(setup, None)?;
        let url = options.url.clone();
        if url.host.parse::<std::net::IpAddr>().is_ok() {
            client.command(Command::Resolved(resolve(&url)));
        } else {
            // resolving a name may block, so another thread does it
            let (mailbox, waker, key) = (Arc::clone(&client.mailbox), client.waker.clone(), client.key);
            std::thread::spawn(move || {
                if mailbox.command(Command::Resolved(resolve(&url))) {
                    waker.wake(key);
                }
            });
        }
        Ok(client)
    }

    /// A connection over a socket within this process, whose peer is known: no SASL.
    ///
    /// # Errors
    /// `Unavailable` if the socket cannot be used.
    pub fn in_process(socket: OwnedFd, container_id: Option<String>) -> Result<Self, Error> {
        let transport = Transport::in_process(socket).map_err(|error| Error::io("in-process socket", &error))?;
        let url = Url::parse("amqp://localhost")?;
        let options = ClientOptions { mechanisms: Some(Vec::new()), container_id, ..ClientOptions::new(url) };
        let setup = Setup { hostname: None, server: "this process".to_owned(), ..Setup::new(&options)? };
        Self::start(Arc::new(setup), Some(transport))
    }

    fn start(setup: Arc<Setup>, transport: Option<Transport>) -> Result<Self, Error> {
        let waker = reactor::global()?;
        let mailbox = Arc::new(Mailbox::new().map_err(|error| Error::io("eventfd", &error))?);
        let key = waker.add(setup, Arc::clone(&mailbox), transport);
        Ok(Self { mailbox, waker, key })
    }

    fn command(&self, command: Command) {
        if self.mailbox.command(command) {
            self.waker.wake(self.key);
        }
    }

    /// Readable while `poll` has events.
    #[must_use]
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.mailbox.signal()
    }

    /// Up to `count` events, oldest first. Never waits.
    ///
    /// With 16 MiB of waiting messages the window of the session is closed until half of them are
    /// taken. Regardless of credit, the waiting messages are bounded by that and the deliveries in
    /// flight, at most 4,096 frames of 128 KiB.
    #[must_use]
    pub fn poll(&self, count: usize) -> Vec<Event> {
        let (events, wake) = self.mailbox.take_events(count);
        if wake {
            self.waker.wake(self.key);
        }
        events
    }

    /// Requests a sending link; without an address to the anonymous terminus, where each message
    /// names its own. `Attached` or `Refused` follows, then `Credit`.
    ///
    /// # Errors
    /// `Unavailable` if the connection is closed.
    pub fn attach_sender(&self, address: Option<String>, options: LinkOptions) -> Result<Handle, Error> {
        let link = self.mailbox.new_link(true)?;
        self.command(Command::AttachSender { link, address, options });
        Ok(link)
    }

    /// Requests a receiving link; without an address from a node that the server creates for it,
    /// whose address is in `Attached`. No message comes before `credit`.
    ///
    /// # Errors
    /// `Unavailable` if the connection is closed.
    pub fn attach_receiver(&self, address: Option<String>, options: LinkOptions) -> Result<Handle, Error> {
        let link = self.mailbox.new_link(false)?;
        self.command(Command::AttachReceiver { link, address, options });
        Ok(link)
    }

    /// Accepts encoded messages from the front, within credit and 4 MiB at a time: `Credit` follows
    /// when more are accepted. Accepted messages are numbered from 0 on for each link; unless
    /// `settled`, `Settled` reports their outcome.
    ///
    /// # Errors
    /// `Unavailable` if the link has ended.
    pub fn send(
        &self,
        link: Handle,
        messages: &mut dyn ExactSizeIterator<Item = &[u8]>,
        settled: bool,
    ) -> Result<u32, Error> {
        let (count, wake) = self.mailbox.send(link, messages, settled)?;
        if wake {
            self.waker.wake(self.key);
        }
        Ok(count)
    }

    /// Grants a receiving link credit for `more` messages in addition to its present credit.
    pub fn credit(&self, link: Handle, more: u32) {
        self.command(Command::Grant { link, more });
    }

    /// Asks the sender of a receiving link to send its available messages and to return the
    /// remaining credit; `Drained` follows.
    pub fn drain(&self, link: Handle) {
        self.command(Command::Drain { link });
    }

    /// Gives messages `first..=last` of a receiving link their outcome; those that have one are
    /// skipped.
    pub fn settle(&self, link: Handle, first: u64, last: u64, outcome: Outcome) {
        self.command(Command::Settle { link, first, last, outcome });
    }

    /// Ends a link: `Detached` follows. Messages that wait are not sent.
    pub fn detach(&self, link: Handle) {
        self.command(Command::Detach { link });
    }

    /// Ends the connection: `Closed` follows.
    pub fn close(&self) {
        self.command(Command::Close);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests;
