//! Takes the messages of a queue and waits for the server: for threads without other work.
//!
//! Pulled messages have no outcome until `settle`: they return to the queue if the connection ends
//! before that. Between pulls the link has no credit, so that no message is held without a reader.

use std::time::Duration;

use enmasse_amqp::codec::{decode_message, encode_message};
use enmasse_amqp::types::{Body, Message, MessageId, Properties, Value};

use crate::blocking::{SourceOptions, ahead, applies_selector, closing_error, connect, wait};
use crate::client::{Client, Event, Handle, LinkOptions, Outcome, member, unsigned};
use crate::error::Error;
use crate::stream::offset;

/// EnMasse's product name: only EnMasse is requested the queue length.
const PRODUCT: &str = "EnMasse";
/// Capability of a source that delivers each message to one of its receivers. Where addresses are
/// created on attach it selects the type.
const QUEUE: &str = "queue";
/// Messages that may come before anything is known of their size: few, because a batch may be
/// bounded by bytes.
const AHEAD_FIRST: u64 = 16;
/// How long a question of how much waits may take.
const QUESTION: Duration = Duration::from_secs(5);

/// Where the server is asked how much waits.
struct Desk {
    requests: Handle,
    replies: Handle,
    reply_to: String,
    requested: u64,
}

/// One connection that takes messages from one queue, or another source that delivers each message
/// to one receiver.
pub struct Queue {
    client: Client,
    options: SourceOptions,
    link: Handle,
    /// the server is EnMasse
    ours: bool,
    /// deliveries without an outcome, first and last
    held: Option<(u64, u64)>,
    /// messages so far, and their bytes
    messages: u64,
    size: u64,
    desk: Option<Desk>,
}

impl Queue {
    /// Connects to the first server that answers, and attaches.
    ///
    /// # Errors
    /// The error of the last server tried, errors of the address, and `Invalid` if that is no queue
    /// or the selector is not applied.
    pub fn connect(options: SourceOptions) -> Result<Self, Error> {
        let (client, product) = connect(&options.servers)?;
        let wanted = LinkOptions {
            selector: options.selector.clone(),
            capabilities: vec![QUEUE.to_owned()],
            ..LinkOptions::default()
        };
        let link = client.attach_receiver(Some(options.address.clone()), wanted)?;
        let ours = product.as_deref() == Some(PRODUCT);
        let (held, desk) = (None, None);
        let mut queue = Self { client, options, link, ours, held, messages: 0, size: 0, desk };
        queue.attached()?;
        Ok(queue)
    }

    fn attached(&mut self) -> Result<(), Error> {
        loop {
            for event in self.wait(self.options.silence)? {
                match event {
                    Event::Attached { link, filters, capabilities, stream, .. } if link == self.link => {
                        let address = &self.options.address;
                        if stream.is_some() {
                            return Err(is_stream(address));
                        }
                        if self.ours && !capabilities.iter().any(|name| name == QUEUE) {
                            return Err(Error::invalid(format!(
                                "{address} is not a queue: name a queue, or a subscription as topic::subscription"
                            )));
                        }
                        return applies_selector(&self.options, &filters);
                    }
                    event => self.check(event)?,
                }
            }
        }
    }

    /// Passes waiting messages to `take`, about `count` messages and `size` bytes of them; returns
    /// whether more may wait. Pulled messages have no outcome yet: `settle` before the next pull.
    ///
    /// # Errors
    /// The server's error; `Unavailable` if it is silent; `Invalid` if the address is a stream.
    /// Pulled messages return when the connection ends.
    pub fn pull(&mut self, count: u32, size: usize, take: &mut dyn FnMut(&[u8])) -> Result<bool, Error> {
        let (mut left, mut room) = (count, size as u64);
        while left > 0 && room > 0 {
            let mean = self.size.checked_div(self.messages);
            let by_size = mean.map_or(AHEAD_FIRST, |mean| room.div_ceil(mean.max(1)));
            let wanted = ahead(self.messages, self.size).min(left).min(u32::try_from(by_size).unwrap_or(u32::MAX));
            let before = self.size;
            let taken = self.round(wanted, take)?;
            if taken < wanted {
                return Ok(false);
            }
            left = left.saturating_sub(taken);
            room = room.saturating_sub(self.size - before);
        }
        Ok(true)
    }

    /// Lets this many messages come; returns how many did, less if there are no more.
    fn round(&mut self, wanted: u32, take: &mut dyn FnMut(&[u8])) -> Result<u32, Error> {
        self.client.credit(self.link, wanted);
        self.client.drain(self.link);
        let (mut taken, mut drained) = (0, false);
        while taken < wanted && !drained {
            for event in self.wait(self.options.silence)? {
                match event {
                    Event::Message { link, delivery, settled, payload } if link == self.link => {
                        if self.messages == 0 && offset(&payload).is_some() && !self.ours {
                            return Err(is_stream(&self.options.address));
                        }
                        if !settled {
                            self.held = Some((self.held.map_or(delivery, |(first, _)| first), delivery));
                        }
                        taken += 1;
                        self.messages += 1;
                        self.size += payload.len() as u64;
                        take(&payload);
                    }
                    // used-up credit needs no report
                    Event::Drained { link, credit: 1.. } if link == self.link => drained = true,
                    event => self.check(event)?,
                }
            }
        }
        Ok(taken)
    }

    /// Gives all that was pulled its outcome: it is ours from now on, or returns as it was.
    pub fn settle(&mut self, accepted: bool) {
        if let Some((first, last)) = self.held.take() {
            let outcome = if accepted { Outcome::Accepted } else { Outcome::Released };
            self.client.settle(self.link, first, last, outcome);
        }
    }

    /// The number of messages in the queue; `None` if the server does not report it.
    ///
    /// # Errors
    /// As `pull`.
    pub fn depth(&mut self) -> Result<Option<u64>, Error> {
        if !self.ours {
            return Ok(None);
        }
        let patience = self.options.silence.min(QUESTION);
        let mut desk = match self.desk.take() {
            Some(desk) => desk,
            None => self.open_desk(patience)?,
        };
        desk.requested += 1;
        let question = question(&self.options.address, desk.requested, &desk.reply_to);
        self.client.credit(desk.replies, 1);
        let mut sent = 0;
        loop {
            if sent == 0 {
                sent = self.client.send(desk.requests, &mut [&question[..]].into_iter(), true)?;
            }
            for event in self.wait(patience)? {
                match event {
                    Event::Message { link, payload, .. } if link == desk.replies => {
                        self.desk = Some(desk);
                        return Ok(depth_of(&payload));
                    }
                    event => self.check(event)?,
                }
            }
        }
    }

    fn open_desk(&mut self, patience: Duration) -> Result<Desk, Error> {
        let replies = self.client.attach_receiver(None, LinkOptions { settled: true, ..LinkOptions::default() })?;
        let requests = self.client.attach_sender(Some("$management".to_owned()), LinkOptions::default())?;
        loop {
            for event in self.wait(patience)? {
                match event {
                    Event::Attached { link, address: Some(reply_to), .. } if link == replies => {
                        return Ok(Desk { requests, replies, reply_to, requested: 0 });
                    }
                    event => self.check(event)?,
                }
            }
        }
    }

    fn wait(&self, patience: Duration) -> Result<Vec<Event>, Error> {
        wait(&self.client, patience)
    }

    /// An event that is about nothing that is waited for, unless it is the end.
    fn check(&self, event: Event) -> Result<(), Error> {
        match event {
            Event::Closed { reason } => Err(closing_error("the connection", reason)),
            Event::Refused { link, reason } | Event::Detached { link, reason } => {
                let what = if link == self.link { &self.options.address } else { "$management" };
                Err(closing_error(what, reason))
            }
            _ => Ok(()),
        }
    }
}

fn is_stream(address: &str) -> Error {
    Error::invalid(format!("{address} is a stream, which is read by offsets: remove the option spool"))
}

/// A request of AMQP Management (`docs/contracts.md` 9).
fn question(address: &str, number: u64, reply_to: &str) -> Vec<u8> {
    let text = |name: &str, value: &str| (name.to_owned(), Value::String(value.to_owned()));
    let message = Message {
        properties: Some(Properties {
            message_id: Some(MessageId::Ulong(number)),
            reply_to: Some(reply_to.to_owned()),
            ..Properties::default()
        }),
        application_properties: vec![text("operation", "READ"), text("type", "enmasse.address"), text("name", address)],
        ..Message::default()
    };
    let mut bytes = Vec::new();
    encode_message(&mut bytes, &message);
    bytes
}

fn depth_of(answer: &[u8]) -> Option<u64> {
    match decode_message(answer).ok()?.body {
        Body::Value(Value::Map(entries)) => member(&entries, "depth").and_then(unsigned),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
