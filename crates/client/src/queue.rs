//! A blocking consumer of a queue, for threads that only wait for the server.
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

/// EnMasse's product name: only EnMasse is asked for the queue length.
const PRODUCT: &str = "EnMasse";
/// Capability of a source that delivers each message to one of its receivers. Where addresses are
/// created on attach it selects the type.
const QUEUE: &str = "queue";
/// Messages to prefetch before their size is known: few, because a batch may be bounded by bytes.
const PREFETCH_INITIAL: u64 = 16;
/// Time-out of a request for the queue length.
const DEPTH_TIMEOUT: Duration = Duration::from_secs(5);

/// The links for requests of the queue length (AMQP Management).
struct ManagementLinks {
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
    space: Option<String>,
    link: Handle,
    /// the server is EnMasse
    is_enmasse: bool,
    /// deliveries without an outcome, first and last
    held: Option<(u64, u64)>,
    /// messages so far, and their bytes
    messages: u64,
    size: u64,
    management: Option<ManagementLinks>,
}

impl Queue {
    /// Connects to the first server that answers, and attaches.
    ///
    /// # Errors
    /// The error of the last server tried, errors of the address, and `Invalid` if it is not a
    /// queue or the server does not apply the selector.
    pub fn connect(options: SourceOptions) -> Result<Self, Error> {
        let (client, server) = connect(&options.servers)?;
        let wanted = LinkOptions {
            selector: options.selector.clone(),
            capabilities: vec![QUEUE.to_owned()],
            ..LinkOptions::default()
        };
        let link = client.attach_receiver(Some(options.address.clone()), wanted)?;
        let is_enmasse = server.product.as_deref() == Some(PRODUCT);
        let (held, management) = (None, None);
        let mut queue =
            Self { client, options, space: server.space, link, is_enmasse, held, messages: 0, size: 0, management };
        queue.attached()?;
        Ok(queue)
    }

    /// The address space that the server announced.
    #[must_use]
    pub fn space(&self) -> Option<&str> {
        self.space.as_deref()
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
                        if self.is_enmasse && !capabilities.iter().any(|name| name == QUEUE) {
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
            let by_size = mean.map_or(PREFETCH_INITIAL, |mean| room.div_ceil(mean.max(1)));
            let wanted = ahead(self.messages, self.size).min(left).min(u32::try_from(by_size).unwrap_or(u32::MAX));
            let before = self.size;
            let taken = self.receive(wanted, take)?;
            if taken < wanted {
                return Ok(false);
            }
            left = left.saturating_sub(taken);
            room = room.saturating_sub(self.size - before);
        }
        Ok(true)
    }

    /// Grants credit for this many messages; returns how many arrived, fewer if the queue is empty.
    fn receive(&mut self, wanted: u32, take: &mut dyn FnMut(&[u8])) -> Result<u32, Error> {
        self.client.credit(self.link, wanted);
        self.client.drain(self.link);
        let (mut taken, mut drained) = (0, false);
        while taken < wanted && !drained {
            for event in self.wait(self.options.silence)? {
                match event {
                    Event::Message { link, delivery, settled, payload } if link == self.link => {
                        if self.messages == 0 && offset(&payload).is_some() && !self.is_enmasse {
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

    /// Settles all pulled messages: accepted, or released unchanged.
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
        if !self.is_enmasse {
            return Ok(None);
        }
        let time_limit = self.options.silence.min(DEPTH_TIMEOUT);
        let mut management = match self.management.take() {
            Some(management) => management,
            None => self.open_management_links(time_limit)?,
        };
        management.requested += 1;
        let depth_request = depth_request(&self.options.address, management.requested, &management.reply_to);
        self.client.credit(management.replies, 1);
        let mut sent = 0;
        loop {
            if sent == 0 {
                sent = self.client.send(management.requests, &mut [&depth_request[..]].into_iter(), true)?;
            }
            for event in self.wait(time_limit)? {
                match event {
                    Event::Message { link, payload, .. } if link == management.replies => {
                        self.management = Some(management);
                        return Ok(depth_of(&payload));
                    }
                    event => self.check(event)?,
                }
            }
        }
    }

    fn open_management_links(&mut self, time_limit: Duration) -> Result<ManagementLinks, Error> {
        let replies = self.client.attach_receiver(None, LinkOptions { settled: true, ..LinkOptions::default() })?;
        let requests = self.client.attach_sender(Some("$management".to_owned()), LinkOptions::default())?;
        loop {
            for event in self.wait(time_limit)? {
                match event {
                    Event::Attached { link, address: Some(reply_to), .. } if link == replies => {
                        return Ok(ManagementLinks { requests, replies, reply_to, requested: 0 });
                    }
                    event => self.check(event)?,
                }
            }
        }
    }

    fn wait(&self, time_limit: Duration) -> Result<Vec<Event>, Error> {
        wait(&self.client, time_limit)
    }

    /// Handles an event that no call waits for: an error if the connection or link has ended.
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
fn depth_request(address: &str, number: u64, reply_to: &str) -> Vec<u8> {
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
