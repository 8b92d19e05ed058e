//! A blocking publisher that keeps the order of messages, for threads that only wait for the
//! server.
//!
//! A [`Post`] holds messages and the outcome of each; it outlives a connection. If messages are
//! numbered (`docs/contracts.md` 8) it can be published again and again: each message is stored
//! once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::ErrorKind;
use crate::blocking::{closing_error, connect, wait};
use crate::client::{Client, ClientOptions, Event, Handle, LinkOptions, Outcome, Reason};
use crate::error::Error;

/// The most links of one connection; messages to further addresses wait until one link has sent all
/// its messages.
const LINKS_MAX: usize = 64;
/// Delay before returned messages are sent again, if none was accepted in between.
const RESEND_DELAY: Duration = Duration::from_millis(100);

/// Where and how messages are published.
#[derive(Clone, Debug)]
pub struct PublisherOptions {
    /// the servers to try, in this order
    pub servers: Vec<ClientOptions>,
    /// the name under which messages are numbered; `None`: they are not
    pub producer: Option<String>,
    /// how long the server may be silent, or take nothing
    pub silence: Duration,
}

/// Why a message was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// a condition of the standard, or of the server
    pub condition: String,
    /// the error and its remedy
    pub description: String,
}

/// One message of a post.
#[derive(Clone, Debug)]
struct PostedMessage {
    address: u32,
    start: usize,
    end: usize,
    /// its number in the order of `put`
    number: usize,
    /// `None`: not known yet
    outcome: Option<Result<(), Cause>>,
    /// the outcome is the server's answer to this message
    answered: bool,
    /// its rejection was reported
    notified: bool,
}

/// Encoded messages in the order of sending.
#[derive(Debug, Default)]
pub struct Post {
    bytes: Vec<u8>,
    messages: Vec<PostedMessage>,
    addresses: Vec<String>,
    known: HashMap<String, u32>,
}

impl Post {
    /// Number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether it has no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes of all messages.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Adds one message for an address, which `encode` appends. A message with a cause is never
    /// sent.
    pub fn put(&mut self, address: &str, cause: Option<Cause>, encode: impl FnOnce(&mut Vec<u8>)) {
        let known = self.known.get(address).copied();
        let address = known.unwrap_or_else(|| {
            let number = self.addresses.len() as u32;
            self.addresses.push(address.to_owned());
            self.known.insert(address.to_owned(), number);
            number
        });
        let start = self.bytes.len();
        encode(&mut self.bytes);
        let (end, number) = (self.bytes.len(), self.messages.len());
        self.messages.push(PostedMessage {
            address,
            start,
            end,
            number,
            outcome: cause.map(Err),
            answered: false,
            notified: false,
        });
    }

    /// Sorts the messages by address and bytes only, so that the order is reproducible.
    pub fn sort(&mut self) {
        let Self { bytes, messages, addresses, .. } = self;
        messages.sort_by(|one, other| {
            let key = |posted: &PostedMessage| (&addresses[posted.address as usize], &bytes[posted.start..posted.end]);
            key(one).cmp(&key(other))
        });
    }

    /// Changes each message in place, in the order of sending; its length stays the same.
    pub fn each(&mut self, mut change: impl FnMut(usize, &mut [u8])) {
        for (place, posted) in self.messages.iter().enumerate() {
            change(place, &mut self.bytes[posted.start..posted.end]);
        }
    }

    /// Passes each message that was not accepted to `take`, once: its number in the order of `put`,
    /// address, bytes, and cause. `answered`: only those that reached the server.
    pub fn take_rejected(&mut self, answered: bool, mut take: impl FnMut(usize, &str, &[u8], &Cause)) {
        for posted in &mut self.messages {
            if let Some(Err(cause)) = &posted.outcome
                && !posted.notified
                && (posted.answered || !answered)
            {
                posted.notified = true;
                let address = &self.addresses[posted.address as usize];
                take(posted.number, address, &self.bytes[posted.start..posted.end], cause);
            }
        }
    }

    fn message(&self, posted: usize) -> &[u8] {
        let PostedMessage { start, end, .. } = self.messages[posted];
        &self.bytes[start..end]
    }

    /// The messages without an outcome, by address, in the order of the first of each.
    fn waiting(&self) -> Vec<Vec<usize>> {
        let mut by_address: Vec<Vec<usize>> = vec![Vec::new(); self.addresses.len()];
        for (at, posted) in self.messages.iter().enumerate() {
            if posted.outcome.is_none() {
                by_address[posted.address as usize].push(at);
            }
        }
        by_address.retain(|messages| !messages.is_empty());
        by_address.sort_by_key(|messages| messages[0]);
        by_address
    }
}

/// A link and its messages.
struct Lane {
    address: String,
    link: Handle,
    /// messages without an outcome, in their order
    messages: Vec<usize>,
    /// how many of them are in flight
    sent: usize,
    /// messages sent on this link, by the client's number; emptied when all have an outcome
    taken: Vec<usize>,
    /// the client's number of the first of them
    first: u64,
    /// how many of `taken` have an outcome
    settled: usize,
    /// some messages were returned
    again: bool,
    /// the server has accepted or rejected a message since the last send
    progress: bool,
}

impl Lane {
    /// Ends the lane once all sent messages have an outcome; unsent ones wait for another lane.
    fn rest(&mut self) {
        if !self.again {
            self.first += self.taken.len() as u64;
            self.taken.clear();
            (self.sent, self.settled) = (0, 0);
        }
        self.messages.clear();
    }
}

/// One connection that publishes.
pub struct Publisher {
    client: Client,
    options: PublisherOptions,
    lanes: Vec<Lane>,
    /// a message of a numbered producer was rejected
    halted: bool,
}

impl Publisher {
    /// Connects to the first server that answers.
    ///
    /// # Errors
    /// That of the last server that was tried; `Invalid` if none is named.
    pub fn connect(options: PublisherOptions) -> Result<Self, Error> {
        let (client, _) = connect(&options.servers)?;
        Ok(Self { client, options, lanes: Vec::new(), halted: false })
    }

    /// Sends the messages that have no outcome yet, those of one address in their order, until each
    /// has one: `true`. If messages are numbered it ends with `false` as soon as some are rejected,
    /// before a later one is stored: rejected messages have to be saved before the post is
    /// published further, because they count as stored from then on.
    ///
    /// # Errors
    /// `Unavailable` if the server disconnects, accepts nothing for too long, or cannot store:
    /// publish the post again with another publisher. Any other end of a link ends the publisher
    /// too. The post records the messages accepted until then.
    pub fn publish(&mut self, post: &mut Post) -> Result<bool, Error> {
        let mut waiting: Vec<_> = post.waiting().into_iter().rev().collect();
        let mut since = Instant::now();
        loop {
            if self.halted {
                if self.lanes.iter().all(|lane| lane.settled == lane.taken.len()) {
                    self.halted = false;
                    self.lanes.iter_mut().for_each(Lane::rest);
                    return Ok(false);
                }
            } else {
                self.open_lanes(post, &mut waiting)?;
                for at in 0..self.lanes.len() {
                    self.send(at, post)?;
                }
                if waiting.is_empty() && self.lanes.iter().all(|lane| lane.messages.is_empty()) {
                    return Ok(true);
                }
            }
            let mut progress = false;
            for event in wait(&self.client, self.options.silence).map_err(|error| self.silent_server_error(error))? {
                progress |= self.handle(event, post)?;
            }
            if progress {
                since = Instant::now();
            } else if since.elapsed() > self.options.silence {
                let what = format!("the server accepted no message for {} s", self.options.silence.as_secs());
                return Err(self.silent_server_error(Error::unavailable(what)));
            }
        }
    }

    /// The error for a silent server, with an address that grants no credit.
    fn silent_server_error(&self, error: Error) -> Error {
        let waits = |lane: &&Lane| lane.sent < lane.messages.len() && lane.settled == lane.taken.len();
        match self.lanes.iter().find(waits) {
            Some(lane) => Error {
                message: format!(
                    "{}: {} accepts no messages now: it has no receiver or is full",
                    error.message, lane.address
                ),
                ..error
            },
            None => error,
        }
    }

    /// Opens links for waiting addresses, up to the bound.
    fn open_lanes(&mut self, post: &Post, waiting: &mut Vec<Vec<usize>>) -> Result<(), Error> {
        while let Some(messages) = waiting.pop() {
            let address = &post.addresses[post.messages[messages[0]].address as usize];
            if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.address == *address) {
                lane.messages = messages;
                continue;
            }
            if self.lanes.len() >= LINKS_MAX {
                let Some(idle) = self.lanes.iter().position(|lane| lane.messages.is_empty()) else {
                    waiting.push(messages);
                    return Ok(());
                };
                self.client.detach(self.lanes.swap_remove(idle).link);
            }
            let link = self.attach(address)?;
            self.lanes.push(Lane {
                address: address.clone(),
                link,
                messages,
                sent: 0,
                taken: Vec::new(),
                first: 0,
                settled: 0,
                again: false,
                progress: true,
            });
        }
        Ok(())
    }

    fn attach(&self, address: &str) -> Result<Handle, Error> {
        let options = LinkOptions { producer: self.options.producer.clone(), ..LinkOptions::default() };
        self.client.attach_sender(Some(address.to_owned()), options)
    }

    /// Sends as much of a lane as there is credit for.
    fn send(&mut self, at: usize, post: &Post) -> Result<(), Error> {
        if self.lanes[at].again {
            if self.lanes[at].settled < self.lanes[at].taken.len() {
                return Ok(());
            }
            self.resend_returned(at, post)?;
        }
        let lane = &mut self.lanes[at];
        let rest = &lane.messages[lane.sent..];
        if rest.is_empty() {
            return Ok(());
        }
        let taken = self.client.send(lane.link, &mut rest.iter().map(|posted| post.message(*posted)), false);
        let Ok(taken) = taken else {
            // the link has ended: the event with the reason follows
            return Ok(());
        };
        lane.taken.extend_from_slice(&rest[..taken as usize]);
        lane.sent += taken as usize;
        Ok(())
    }

    /// Sends returned messages again, in the old order. The link of a numbered producer accepts
    /// nothing more after a rejected message, so it is replaced.
    fn resend_returned(&mut self, at: usize, post: &Post) -> Result<(), Error> {
        if !self.lanes[at].progress {
            std::thread::sleep(RESEND_DELAY);
        }
        if self.options.producer.is_some() {
            self.client.detach(self.lanes[at].link);
            self.lanes[at].link = self.attach(&self.lanes[at].address)?;
            self.lanes[at].first = 0;
        } else {
            self.lanes[at].first += self.lanes[at].taken.len() as u64;
        }
        let lane = &mut self.lanes[at];
        lane.messages.retain(|posted| post.messages[*posted].outcome.is_none());
        lane.taken.clear();
        (lane.sent, lane.settled) = (0, 0);
        (lane.again, lane.progress) = (false, false);
        Ok(())
    }

    /// Returns whether the server accepted or rejected a message.
    fn handle(&mut self, event: Event, post: &mut Post) -> Result<bool, Error> {
        match event {
            Event::Settled { link, first, last, outcome } => self.settle(link, (first, last), &outcome, post),
            Event::Refused { link, reason } => {
                let Some(at) = self.lanes.iter().position(|lane| lane.link == link) else { return Ok(false) };
                let error = closing_error(&self.lanes[at].address, reason.clone());
                if error.kind == ErrorKind::Unavailable {
                    return Err(error);
                }
                let cause = cause(reason);
                for posted in self.lanes.swap_remove(at).messages {
                    post.messages[posted].outcome.get_or_insert_with(|| Err(cause.clone()));
                }
                Ok(true)
            }
            Event::Detached { link, reason } => match self.lanes.iter().find(|lane| lane.link == link) {
                Some(lane) => Err(closing_error(&lane.address, reason)),
                None => Ok(false),
            },
            Event::Closed { reason } => Err(closing_error("the connection", reason)),
            _ => Ok(false),
        }
    }

    fn settle(&mut self, link: Handle, of: (u64, u64), outcome: &Outcome, post: &mut Post) -> Result<bool, Error> {
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.link == link) else { return Ok(false) };
        let (first, last) = ((of.0 - lane.first) as usize, (of.1 - lane.first) as usize);
        lane.settled += last + 1 - first;
        let result = match outcome {
            Outcome::Accepted => Ok(()),
            Outcome::Released | Outcome::Modified { .. } => {
                lane.again = true;
                return Ok(false);
            }
            Outcome::Rejected { error } => {
                let (condition, description) = error.clone().unwrap_or_default();
                if condition == "amqp:internal-error" {
                    // the message is valid; it may or may not be stored
                    return Err(Error::unavailable(format!("{condition}: {}", description.unwrap_or_default())));
                }
                lane.again |= self.options.producer.is_some();
                self.halted |= self.options.producer.is_some();
                Err(Cause { condition, description: description.unwrap_or_default() })
            }
        };
        lane.progress = true;
        for posted in &lane.taken[first..=last] {
            post.messages[*posted].outcome = Some(result.clone());
            post.messages[*posted].answered = true;
        }
        if lane.settled == lane.taken.len() && lane.sent == lane.messages.len() && !lane.again {
            lane.rest();
        }
        Ok(true)
    }
}

fn cause(reason: Option<Reason>) -> Cause {
    match reason {
        Some(Reason { condition, description }) => Cause { condition, description },
        None => Cause {
            condition: "amqp:not-found".to_owned(),
            description: "the server refused the link without a reason".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests;
