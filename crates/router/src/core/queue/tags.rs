//! Resumable senders (2.6.12, 2.6.13): the tags of deliveries that the sender has not settled are
//! on disk with their messages. A sender that attaches again so learns which of its deliveries were
//! stored.

use std::collections::{HashMap, HashSet};

use enmasse_amqp::types::{DeliveryState, Error, Fields, Outcome, condition};
use enmasse_journal::queue::{Marker, Seq};

use super::super::arena::Key;
use super::super::message::SettlementTarget;
use super::super::storage::{CommitNote, Notice, Storage};
use super::super::{AttachmentId, Links, Resume, Router, ToLink, Unsettled};
use super::Queue;

/// Bound of resumable links of each role at one address.
pub(in crate::core) const LINKS_MAX: usize = 1000;

/// Bound of stored deliveries of one link that are unsettled when it attaches again.
const STORED_UNSETTLED_MAX: usize = 20_000;

/// Key of a tag in the state of its queue: the same as that of its marker.
type TagKey = [u8; enmasse_journal::queue::MARKER_KEY_BYTES];

/// The resumable senders of an address.
#[derive(Debug, Default)]
pub(in crate::core) struct Senders {
    links: HashMap<u64, Sender>,
    /// link and tag of uncommitted messages, by message number
    pending: HashMap<u64, (u64, u128)>,
}

#[derive(Debug, Default)]
struct Sender {
    /// set while the link is attached
    producer: Option<Key>,
    keep_s: u32,
    /// when its state expires, while the link is detached
    until_ms: Option<u64>,
    /// digests of the tags of its unsettled deliveries, and whether they are stored
    tags: HashMap<u128, bool>,
    /// the unsettled map of its attach, until that is answered
    requested: Unsettled,
}

impl Senders {
    pub(in crate::core) fn restore(&mut self, key: &[u8], value: &[u8]) {
        if let Some(Marker::Tag { tag, link, keep_s }) = Marker::decode(key, value) {
            let sender = self.links.entry(link).or_default();
            sender.keep_s = keep_s;
            sender.tags.insert(tag, true);
        }
    }

    pub(in crate::core) fn begin(&mut self, now_ms: u64) {
        for sender in self.links.values_mut() {
            sender.until_ms = Some(end(now_ms, sender.keep_s));
        }
    }

    pub(in crate::core) fn next_timeout(&self) -> Option<u64> {
        self.links.values().filter_map(|sender| sender.until_ms).min()
    }

    pub(in crate::core) fn is_empty(&self) -> bool {
        self.links.is_empty() && self.pending.is_empty()
    }

    /// Removes expired links; returns the keys of their state on disk.
    pub(in crate::core) fn give_up(&mut self, now_ms: u64) -> Vec<TagKey> {
        let is_over = |sender: &Sender| sender.until_ms.is_some_and(|until_ms| until_ms <= now_ms);
        let over: Vec<u64> = self.links.iter().filter(|(_, sender)| is_over(sender)).map(|(link, _)| *link).collect();
        over.into_iter().flat_map(|link| self.forget(link)).collect()
    }

    fn forget(&mut self, link: u64) -> Vec<TagKey> {
        let Some(sender) = self.links.remove(&link) else { return Vec::new() };
        sender.tags.into_keys().map(key_of).collect()
    }

    /// Resolves the tag of a message that is stored or refused. Returns the key to delete if it is
    /// refused.
    fn resolve(&mut self, seq: Seq, is_stored: bool) -> Option<TagKey> {
        if self.pending.is_empty() {
            return None;
        }
        let (link, tag) = self.pending.remove(&seq.0)?;
        let tags = &mut self.links.get_mut(&link)?.tags;
        if !is_stored {
            return tags.remove(&tag).map(|_| key_of(tag));
        }
        if let Some(known) = tags.get_mut(&tag) {
            *known = true;
        }
        None
    }
}

fn key_of(tag: u128) -> TagKey {
    Marker::Tag { tag, link: 0, keep_s: 0 }.key()
}

impl Queue {
    /// Keeps the tag of a stored message, and deletes that of a refused one.
    pub(in crate::core) fn resolve_tag(&mut self, seq: Seq, is_stored: bool, storage: &mut Storage) {
        let key = self.resuming.senders.resolve(seq, is_stored);
        if let (Some(key), Some(log)) = (key, self.opened.log) {
            storage.journal.erase(log, &key);
        }
    }
}

impl Router {
    /// Attaches a producer with a resumable link. Its attach is answered when all its earlier
    /// messages are stored or refused, and the tags of its settled deliveries are deleted.
    pub(in crate::core) fn resume_producer(&mut self, key: Key, resume: Resume, links: &mut impl Links) {
        let (at, attachment, link) = (self.producers[key].address, self.producers[key].attachment, resume.link);
        let digests = self.storage.digests;
        let queue = self.addresses.queue_mut(at);
        let senders = &mut queue.resuming.senders.links;
        let reported: HashSet<u128> = resume.states().keys().map(|tag| digest(&digests, link, tag)).collect();
        let left =
            senders.get(&link).map_or(0, |sender| sender.tags.keys().filter(|tag| reported.contains(tag)).count());
        let error = if senders.len() >= LINKS_MAX && !senders.contains_key(&link) {
            Some(too_many_links())
        } else if left > STORED_UNSETTLED_MAX {
            let what = format!("attach.unsettled: {left} stored deliveries are unsettled: settle them");
            Some(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what))
        } else {
            None
        };
        if let Some(error) = error {
            self.detach(attachment, links);
            return links.send(ToLink::Attached { attachment, answer: Err(error) });
        }
        let sender = senders.entry(link).or_default();
        (sender.producer, sender.keep_s, sender.until_ms) = (Some(key), resume.keep_s, None);
        let mut settled = Vec::new();
        sender.tags.retain(|tag, _| {
            let stays = resume.incomplete || reported.contains(tag);
            if !stays {
                settled.push(key_of(*tag));
            }
            stays
        });
        sender.requested = resume.unsettled.unwrap_or_default();
        if let Some(log) = queue.opened.log {
            settled.iter().for_each(|key| self.storage.journal.erase(log, key));
        }
        self.producers[key].resumed = Some(link);
        let at = self.producers[key].address;
        self.raise_fence(at, Notice::Attached(attachment));
    }

    /// Answers the attach of a resumable sender with those deliveries of its map that are stored.
    pub(in crate::core) fn answer_sender(&mut self, key: Key, links: &mut impl Links) {
        let producer = &self.producers[key];
        let (at, attachment, link) = (producer.address, producer.attachment, producer.resumed);
        let (digests, open) = (self.storage.digests, self.addresses[at].open_to(producer));
        let Some(link) = link else { return };
        let queue = self.addresses.queue_mut(at);
        // The state of the link has expired.
        let Some(sender) = queue.resuming.senders.links.get_mut(&link) else { return };
        let requested = std::mem::take(&mut sender.requested).into_iter().map(|(tag, _)| tag);
        let known = requested.filter(|tag| sender.tags.get(&digest(&digests, link, tag)) == Some(&true));
        let accepted = || Some(DeliveryState::Outcome(Outcome::Accepted));
        links.send(ToLink::Unsettled { attachment, unsettled: known.map(|tag| (tag, accepted())).collect() });
        links.send(ToLink::Attached { attachment, answer: Ok(Fields::new()) });
        links.send(ToLink::Open { attachment, open });
    }

    /// Names the next delivery of a producer by its tag, if its link is resumable.
    pub fn name_delivery(&mut self, attachment: AttachmentId, delivery_id: u32, tag: &[u8]) {
        // Its address was deleted, and the delivery will be released.
        let Some(key) = self.attachments.producer(attachment) else { return };
        let producer = &mut self.producers[key];
        producer.tag = producer.resumed.map(|link| (delivery_id, digest(&self.storage.digests, link, tag)));
    }

    /// What is stored with a message in addition to it.
    #[inline]
    pub(in crate::core) fn note_of(
        &mut self,
        from: Key,
        settlement: SettlementTarget,
        seq: Seq,
    ) -> Option<Box<CommitNote>> {
        if self.packet_id.is_some() {
            return self.take_packet_id().map(|kept| Box::new(CommitNote::PacketId(kept)));
        }
        self.note_tag(from, settlement, seq).map(|tag| Box::new(CommitNote::Tag(tag)))
    }

    /// Records the tag of a delivery that is about to be stored. Returns the marker to store with
    /// it.
    fn note_tag(&mut self, from: Key, settlement: SettlementTarget, seq: Seq) -> Option<Marker> {
        let producer = &mut self.producers[from];
        let ((named, tag), link) = (producer.tag.take()?, producer.resumed?);
        // The tag may belong to an earlier delivery that was refused.
        let is_named = matches!(settlement, SettlementTarget::Producer { delivery_id, .. } if delivery_id == named);
        if !is_named {
            return None;
        }
        let queue = self.addresses.queue_mut(producer.address);
        let senders = &mut queue.resuming.senders;
        let sender = senders.links.get_mut(&link)?;
        sender.tags.insert(tag, false);
        senders.pending.insert(seq.0, (link, tag));
        self.storage.journal.erase_before(queue.opened.log?, &key_of(tag));
        Some(Marker::Tag { tag, link, keep_s: sender.keep_s })
    }

    /// Deletes the tag of a delivery that its sender has settled.
    pub fn forget_tag(&mut self, attachment: AttachmentId, tag: &[u8]) {
        let Some(producer) = self.attachments.producer(attachment).and_then(|key| self.producers.get(key)) else {
            return;
        };
        let Some(link) = producer.resumed else { return };
        let queue = self.addresses.queue_mut(producer.address);
        let tag = digest(&self.storage.digests, link, tag);
        let sender = queue.resuming.senders.links.get_mut(&link);
        if let (Some(_), Some(log)) = (sender.and_then(|sender| sender.tags.remove(&tag)), queue.opened.log) {
            self.storage.journal.erase(log, &key_of(tag));
        }
    }

    /// As [`Router::steal_receiver`].
    pub(in crate::core) fn steal_sender(&mut self, at: Key, resume: Option<&Resume>, links: &mut impl Links) {
        // Only resumable links are taken over at their address.
        let Some(resume) = resume else { return };
        let sender =
            self.addresses.queue(at).resuming.senders.links.get(&resume.link).and_then(|sender| sender.producer);
        if let Some(attachment) = sender.and_then(|key| self.producers.get(key)).map(|producer| producer.attachment) {
            self.steal(attachment, links);
        }
    }

    /// The link of a producer ended. `closed`: the client closed it, and its state is dropped.
    pub(in crate::core) fn suspend_sender(&mut self, key: Key, closed: bool) {
        let producer = &mut self.producers[key];
        let (at, now_ms) = (producer.address, self.now_ms);
        // Nothing is kept of a link that cannot be resumed.
        let Some(link) = producer.resumed.take() else { return };
        // A deleted queue has dropped the state of its links.
        let Some(queue) = self.addresses.find_queue_mut(at) else { return };
        // The state of the link has expired.
        let Some(sender) = queue.resuming.senders.links.get_mut(&link) else { return };
        let until_ms = end(now_ms, sender.keep_s);
        (sender.producer, sender.until_ms) = (None, Some(until_ms));
        let closed = closed || sender.tags.is_empty();
        queue.resuming.note_end(until_ms);
        if closed {
            let keys = queue.resuming.senders.forget(link);
            if let Some(log) = queue.opened.log {
                keys.iter().for_each(|key| self.storage.journal.erase(log, key));
            }
        }
        self.arm(at);
    }
}

fn digest(digests: &super::super::Digests, link: u64, tag: &[u8]) -> u128 {
    digests.long(&[&link.to_le_bytes(), tag].concat())
}

pub(in crate::core) fn end(now_ms: u64, keep_s: u32) -> u64 {
    now_ms.saturating_add(u64::from(keep_s) * 1000)
}

pub(in crate::core) fn too_many_links() -> Error {
    let what = format!("the address keeps the state of {LINKS_MAX} links, its limit: close unused links");
    Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what)
}
