//! Messages that move or are copied to an address with another home.
//!
//! The home of the queue hands the encoded message over; the home of the target stores it. Both
//! contribute to one joint group of the log, so after a crash the message is at one of them. The
//! target's home declines if it cannot store the message, which then stays where it is.

use enmasse_amqp::codec::envelope::envelope;
use enmasse_journal::queue::{Head, Item, Seq};
use smallvec::smallvec;

use super::super::arena::Key;
use super::super::handover::{Handover, HandoverReason};
use super::super::posting::{Posted, Retaining, Retention};
use super::super::storage::{Commit, Completion, LaneId, Queues};
use super::super::{Destination, Links, Router};

/// A message that leaves its queue for another home, or (`removed` is `None`) of which a copy does.
pub(in crate::core) struct Departing<'a> {
    pub(in crate::core) at: Key,
    pub(in crate::core) removed: Option<&'a Item>,
    pub(in crate::core) completion: Completion,
}

impl Router {
    /// Hands a message over to the home of another address. `completion` follows once the log has
    /// stored it there, or refused that.
    pub(in crate::core) fn hand_over(
        &mut self,
        Departing { at, removed, completion }: Departing<'_>,
        to: Destination,
        (reason, message): (HandoverReason, &[u8]),
        links: &mut impl Links,
    ) {
        let space = self.addresses[at].declared.space;
        let logged = self.addresses.queue(at).opened.log.and_then(|log| Some((log, removed?)));
        // Compaction does not copy messages that are leaving.
        debug_assert!(
            logged.is_none() || !self.storage.journal.is_compacting(),
            "a removal must name the current location"
        );
        let journal = &mut self.storage.journal;
        let joint = journal.next_joint(self.shard, 2);
        journal.begin_part(LaneId::of_space(space));
        journal.add_departure(logged, completion);
        journal.end_part(joint);
        links.hand_over(to.home, Handover { joint, space, to: to.key, reason, message });
    }

    /// Stores a message of an address with another home, or declines it.
    pub fn receive_handover(&mut self, handover: &Handover<'_>, links: &mut impl Links) {
        let lane = LaneId::of_space(handover.space);
        let admitted = match handover.reason {
            HandoverReason::Diverted => self.admit_diverted(handover),
            HandoverReason::Retained { removes } => self.admit_retained(handover, removes),
            HandoverReason::Operation { .. } => self.admit_moved(handover),
        };
        let posted = match admitted {
            Ok(posted) => posted,
            Err(reason) => return self.storage.journal.decline(handover.joint, lane, reason),
        };
        self.storage.journal.begin_part(lane);
        if !posted.disk.is_empty() {
            posted.disk.iter().for_each(|(at, ..)| self.declare_in_part(*at));
            let queues = posted.disk.iter();
            let queues: Queues<'_> = queues
                .map(|(at, log, admitted)| (*log, admitted, Commit::new(*at, admitted.seq, Completion::NONE)))
                .collect();
            self.storage.journal.post(queues, handover.message);
        }
        if !posted.memory.is_empty() {
            let place = self.storage.bodies.put(handover.message, posted.memory.len() as u32);
            let journal = &mut self.storage.journal;
            posted.memory.iter().for_each(|(at, seq)| journal.add_in_memory(*at, *seq, place));
        }
        self.storage.journal.end_part(handover.joint);
        posted.disk.iter().for_each(|(at, ..)| self.update_room(*at, links));
    }

    fn head_of_handover(&self, handover: &Handover<'_>) -> Result<Head, String> {
        // It was readable when it came in: the disk has changed it.
        let envelope = envelope(handover.message).map_err(|_| "the message cannot be read".to_owned())?;
        let mut head = self.head_of_envelope(&envelope, handover.message.len(), None);
        handover.reason.apply(&mut head);
        Ok(head)
    }

    /// A full dead-letter queue drops its oldest message if so configured, and otherwise exceeds its
    /// bound: no message is lost silently.
    fn admit_diverted(&mut self, handover: &Handover<'_>) -> Result<Posted, String> {
        let head = self.head_of_handover(handover)?;
        let now_ms = self.now_ms;
        let at = self.by_key.get(&handover.to).copied();
        let queue = at.and_then(|at| Some((at, self.addresses.find_queue_mut(at)?)));
        let (at, queue) = queue.ok_or_else(missing)?;
        let admitted = queue.opened.messages.admit(now_ms, &head);
        Ok(match queue.opened.log {
            Some(log) => Posted { disk: smallvec![(at, log, admitted)], ..Posted::default() },
            None => Posted { memory: smallvec![(at, admitted.seq)], ..Posted::default() },
        })
    }

    /// A message that removes another one expires soon, and is not stored if there is no other one.
    fn admit_retained(&mut self, handover: &Handover<'_>, removes: bool) -> Result<Posted, String> {
        let head = self.head_of_handover(handover)?;
        let at = self.by_key.get(&handover.to).copied();
        let at = at.filter(|at| self.addresses.find_queue(*at).is_some()).ok_or_else(missing)?;
        let retaining = Retaining::new(at, if removes { Retention::Remove } else { Retention::Replace });
        self.post(&[], &head, handover.message, Some(retaining)).map_err(|refusal| refusal.to_string())
    }

    fn admit_moved(&mut self, handover: &Handover<'_>) -> Result<Posted, String> {
        let head = self.head_of_handover(handover)?;
        let at = self.by_key.get(&handover.to).copied();
        let at = at.filter(|at| self.may_be_moved_to(*at)).ok_or_else(missing)?;
        if self.blocks_producers(at) {
            return Err("the address is full: producers to it wait".to_owned());
        }
        let audience = self.audience_of(at);
        let posted = self.post(&audience, &head, handover.message, None).map_err(|refusal| refusal.to_string())?;
        if posted.is_empty() {
            return Err("no subscription of the topic wants it".to_owned());
        }
        Ok(posted)
    }

    /// Whether administrators may move messages to an address.
    pub(in crate::core) fn may_be_moved_to(&self, at: Key) -> bool {
        self.addresses[at].treatment.takes_messages() && !self.is_sealed(at)
    }
}

fn missing() -> String {
    "the target address does not exist any more".to_owned()
}

/// The message with this number has left for another home.
pub(in crate::core) fn departed_from(at: Key, seq: Seq) -> Completion {
    Completion { address: at, from: Some((at, seq)), ..Completion::NONE }
}
