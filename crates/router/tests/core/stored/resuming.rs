//! Resumable links (2.6.13): the state kept for a receiver and for a sender, over lost connections
//! and restarts, and exactly once for both.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use enmasse_amqp::types::{Body, DeliveryState, Message, Outcome, Received};
use enmasse_journal::log::simulated::{Dice, SimulatedDisk};
use enmasse_journal::queue::{Full, Limits, Redelivery, Settings};
use enmasse_router::core::{AttachmentId, AttachmentRole, Consuming, Resume, Unsettled};

use crate::seeds::each_seed;

use super::{DEAD, Got, House, QUEUE, declared, failed, states_on};

const LINK: u64 = 77;
const KEEP_S: u32 = 60;
/// The number of seeded runs, as `seeds` counts them.
const RUNS: u64 = 300;

fn resume(unsettled: Option<Unsettled>) -> Resume {
    Resume { link: LINK, keep_s: KEEP_S, unsettled, incomplete: false }
}

fn accepted() -> Option<DeliveryState> {
    Some(DeliveryState::Outcome(Outcome::Accepted))
}

fn map(numbers: &[(u64, Option<DeliveryState>)]) -> Option<Unsettled> {
    Some(numbers.iter().map(|(number, state)| (number.to_be_bytes().to_vec(), state.clone())).collect())
}

fn message(text: &str) -> Message {
    Message { body: Body::Data(vec![text.into()]), ..Message::default() }
}

impl House {
    fn free_attachment(&mut self) -> AttachmentId {
        self.attachments += 1;
        AttachmentId { shard: 0, generation: 0, index: self.attachments - 1 }
    }

    /// A receiver with a resumable link, without credit; `pump` completes its attach.
    fn receiver(&mut self, resume: Resume) -> AttachmentId {
        let attachment = self.free_attachment();
        let consuming = Consuming { resume: Some(Box::new(resume)), name: LINK, ..Consuming::default() };
        self.router.attach(
            attachment,
            declared(QUEUE),
            AttachmentRole::Consumer { filter: None, consuming },
            &mut self.recorded,
        );
        attachment
    }

    fn sender(&mut self, resume: Resume) -> AttachmentId {
        let attachment = self.free_attachment();
        let resume = Some(Box::new(resume));
        let role = AttachmentRole::Producer { anonymous: false, name: None, producer_name: None, resume };
        self.router.attach(attachment, declared(QUEUE), role, &mut self.recorded);
        attachment
    }

    /// Attaches a resumable receiver and grants credit; returns the numbers of its unsettled map.
    fn recorded_receiver(&mut self, resume: Resume, credit: u32) -> (AttachmentId, Vec<u64>) {
        let attachment = self.receiver(resume);
        self.pump();
        let known = self.map_of(attachment).into_iter().map(|(tag, state)| {
            assert_eq!(state, None);
            u64::from_be_bytes(tag.try_into().expect("eight bytes"))
        });
        let known = known.collect();
        self.router.credit(attachment, credit, false, &mut self.recorded);
        self.pump();
        (attachment, known)
    }

    fn map_of(&mut self, attachment: AttachmentId) -> Unsettled {
        assert!(self.recorded.attached.contains(&attachment), "the attach is answered");
        let at = self.recorded.maps.iter().position(|(of, _)| *of == attachment).expect("a map");
        self.recorded.maps.swap_remove(at).1
    }

    fn lose(&mut self, attachment: AttachmentId) {
        self.router.detach(attachment, &mut self.recorded);
        self.pump();
    }

    fn send_tagged(&mut self, attachment: AttachmentId, tag: &[u8], text: &str) -> u32 {
        self.router.name_delivery(attachment, self.sent, tag);
        self.send_from(attachment, &message(text))
    }
}

/// Three messages, all held by a link.
fn with_three() -> (House, AttachmentId) {
    let mut house = House::new(Settings::default());
    for text in ["a", "b", "c"] {
        house.send(text);
    }
    house.pump();
    let (attachment, known) = house.recorded_receiver(resume(None), 3);
    assert!(known.is_empty());
    let got = house.got();
    assert_eq!(
        got.iter().map(|got| got.name).collect::<Vec<_>>(),
        (0..3).map(|n| Some((n, false))).collect::<Vec<_>>()
    );
    (house, attachment)
}

/// The deliveries of a consumer that is not resumable.
fn others_get(house: &mut House) -> Vec<(String, u32)> {
    let other = house.consumer(QUEUE, 10);
    house.pump();
    let got = house.got();
    house.router.credit(other, got.len() as u32, false, &mut house.recorded);
    for one in &got {
        house.answer(one, &Outcome::Released);
    }
    house.lose(other);
    let count = |got: &Got| got.message.header.as_ref().map_or(0, |header| header.delivery_count);
    got.iter().map(|got| (got.text(), count(got))).collect()
}

fn texts(expected: &[(&str, u32)]) -> Vec<(String, u32)> {
    expected.iter().map(|(text, count)| ((*text).to_owned(), *count)).collect()
}

/// Delivered over the link, the message would be delivered again after a restart.
#[test]
fn link_whose_hold_cannot_be_stored_ends_and_leaves_its_message_to_others() {
    let mut house = House::new(Settings::default());
    house.send("a");
    let (attachment, _) = house.recorded_receiver(resume(None), 0);
    house.router.credit(attachment, 1, false, &mut house.recorded);
    let answers = house.stopped();
    house.answered(answers);
    assert_eq!((house.texts(), house.recorded.closed), (Vec::new(), 1));
    house.consumer(QUEUE, 1);
    house.pump();
    assert_eq!(house.texts(), ["a"]);
}

#[test]
fn resumable_delivery_is_sent_once_its_holder_is_on_disk() {
    let mut house = House::new(Settings::default());
    house.send("a");
    house.pump();
    let (attachment, _) = house.recorded_receiver(resume(None), 0);
    house.router.credit(attachment, 1, false, &mut house.recorded);
    assert!(house.got().is_empty(), "its holder is not on disk");
    let mut other = House::on(Arc::new(house.disk.as_seen()), Settings::default());
    other.pump();
    assert_eq!(others_get(&mut other), texts(&[("a", 0)]), "it is held for no link after a crash");
    house.pump();
    assert_eq!(house.texts(), ["a"]);
    let mut other = House::on(Arc::new(house.disk.as_seen()), Settings::default());
    other.pump();
    assert!(others_get(&mut other).is_empty(), "the link may have received it");
}

#[test]
fn held_deliveries_are_resumed_settled_or_released_by_the_unsettled_map() {
    for restarts in [false, true] {
        let (mut house, attachment) = with_three();
        if restarts {
            house = house.restarted();
        } else {
            house.lose(attachment);
        }
        assert!(others_get(&mut house).is_empty(), "all are held");
        let reported = map(&[(0, None), (1, accepted()), (9, accepted())]);
        let (attachment, known) = house.recorded_receiver(resume(reported), 1);
        assert_eq!(known, [0]);
        let got = house.got();
        assert_eq!(
            got.iter().map(|got| (got.text(), got.name)).collect::<Vec<_>>(),
            [("a".to_owned(), Some((0, true)))]
        );
        assert_eq!(others_get(&mut house), texts(&[("c", 0)]), "it was never received, which is no failed attempt");
        house.router.outcome_unsettled(attachment, got[0].token, &Outcome::Accepted, &mut house.recorded);
        assert!(house.recorded.confirmed.is_empty(), "its removal is not on disk");
        house.pump();
        assert_eq!(house.recorded.confirmed, [(attachment, got[0].token)]);
        house.lose(attachment);
        let mut house = house.restarted();
        assert_eq!(others_get(&mut house), texts(&[("c", 0)]), "the accepted messages are removed");
    }
}

#[test]
fn outcomes_in_the_unsettled_map_are_applied() {
    let redelivery = Redelivery { attempts_max: 9, ..Redelivery::default() };
    let mut house = House::new(Settings { dead_letter: true, redelivery, ..Settings::default() });
    for text in ["a", "b", "c"] {
        house.send(text);
    }
    house.pump();
    let (attachment, _) = house.recorded_receiver(resume(None), 3);
    house.got();
    house.lose(attachment);
    let state = |outcome: Outcome| Some(DeliveryState::Outcome(outcome));
    let reported = map(&[(0, state(failed())), (1, state(Outcome::Rejected(None))), (2, state(Outcome::Released))]);
    assert!(house.recorded_receiver(resume(reported), 0).1.is_empty());
    assert_eq!(others_get(&mut house), texts(&[("a", 1), ("c", 0)]));
    house.consumer(DEAD, 1);
    house.pump();
    assert_eq!(house.texts(), ["b"]);
}

#[test]
fn partially_received_deliveries_are_sent_as_new_ones() {
    let (mut house, attachment) = with_three();
    house.lose(attachment);
    let came =
        |section_number, section_offset| Some(DeliveryState::Received(Received { section_number, section_offset }));
    let reported = map(&[(0, came(0, 0)), (1, came(0, 3)), (2, came(1, 0))]);
    let (_, known) = house.recorded_receiver(resume(reported), 10);
    assert_eq!(known, [0]);
    let names: Vec<_> = house.got().iter().map(|got| got.name).collect();
    assert_eq!(names, [Some((0, true)), Some((1, false)), Some((2, false))]);
}

#[test]
fn link_that_returns_without_a_map_fails_its_oldest_delivery() {
    let (mut house, attachment) = with_three();
    house.lose(attachment);
    assert!(house.recorded_receiver(resume(None), 0).1.is_empty());
    assert_eq!(others_get(&mut house), texts(&[("a", 1), ("b", 0), ("c", 0)]));
}

#[test]
fn closed_link_releases_its_deliveries_and_leaves_no_state() {
    let (mut house, attachment) = with_three();
    house.router.unsubscribe(attachment, &mut house.recorded);
    house.pump();
    assert_eq!(others_get(&mut house), texts(&[("a", 0), ("b", 0), ("c", 0)]));
    let mut house = house.restarted();
    assert_eq!(others_get(&mut house).len(), 3);
}

#[test]
fn link_that_does_not_return_in_time_loses_its_deliveries() {
    for restarts in [false, true] {
        let (mut house, attachment) = with_three();
        if restarts {
            house = house.restarted();
        } else {
            house.lose(attachment);
        }
        house.pass(u64::from(KEEP_S) * 1000 - 1);
        assert!(others_get(&mut house).is_empty());
        house.pass(1);
        assert_eq!(others_get(&mut house), texts(&[("a", 1), ("b", 0), ("c", 0)]), "restarts: {restarts}");
        assert!(house.recorded_receiver(resume(map(&[(0, accepted())])), 0).1.is_empty());
        assert_eq!(others_get(&mut house).len(), 3, "its map arrived too late");
    }
}

#[test]
fn reattach_before_the_loss_was_noticed_resumes_the_link() {
    let (mut house, _) = with_three();
    let closed = house.recorded.closed;
    let (_, known) = house.recorded_receiver(resume(map(&[(0, None), (1, None), (2, None)])), 10);
    assert_eq!((known, house.recorded.closed), (vec![0, 1, 2], closed + 1));
    assert_eq!(house.texts(), ["a", "b", "c"]);
}

#[test]
fn incomplete_map_releases_no_delivery_and_starts_no_new_one() {
    let (mut house, attachment) = with_three();
    house.lose(attachment);
    house.send("d");
    house.pump();
    let half = Resume { incomplete: true, ..resume(map(&[(1, None)])) };
    let (attachment, known) = house.recorded_receiver(half, 10);
    assert_eq!((known, house.texts()), (vec![1], vec!["b".to_owned()]));
    house.lose(attachment);
    let whole = map(&[(0, None), (1, None), (2, None)]);
    assert_eq!(house.recorded_receiver(resume(whole), 10).1, [0, 1, 2]);
    assert_eq!(house.texts(), ["a", "b", "c", "d"]);
}

#[test]
fn resumed_deliveries_without_room_stay_held_for_their_link() {
    let (mut house, attachment) = with_three();
    house.lose(attachment);
    house.recorded.full = true;
    let (attachment, _) = house.recorded_receiver(resume(map(&[(0, None), (1, None), (2, None)])), 3);
    assert!(house.got().is_empty());
    assert!({
        house.recorded.full = false;
        others_get(&mut house).is_empty()
    });
    house.router.credit(attachment, 3, false, &mut house.recorded);
    house.pump();
    assert_eq!(house.got().iter().map(|got| got.name).collect::<Vec<_>>(), [0, 1, 2].map(|n| Some((n, true))));
}

#[test]
fn resumed_sender_gets_the_outcomes_of_its_stored_deliveries() {
    let mut house = House::new(Settings::default());
    let attachment = house.sender(resume(Some(Vec::new())));
    house.pump();
    assert!(house.map_of(attachment).is_empty());
    house.send_tagged(attachment, b"stored", "a");
    house.send_tagged(attachment, b"settled", "b");
    house.pump();
    house.router.forget_tag(attachment, b"settled");
    house.pump();
    house.send_tagged(attachment, b"lost", "c");
    let reported: Unsettled = ["stored", "settled", "lost", "never"].map(|tag| (tag.into(), None)).into();
    for restarts in [true, false] {
        let mut again = if restarts {
            House::on(Arc::new(house.disk.as_seen()), Settings::default())
        } else {
            house.router.detach(attachment, &mut house.recorded);
            std::mem::replace(&mut house, House::new(Settings::default()))
        };
        let attachment = again.sender(resume(Some(reported.clone())));
        again.pump();
        let mut known = again.map_of(attachment);
        known.sort_by(|one, other| one.0.cmp(&other.0));
        let mut expected = vec![(b"stored".to_vec(), accepted())];
        if !restarts {
            // The message in flight is stored now.
            expected.insert(0, (b"lost".to_vec(), accepted()));
        }
        assert_eq!(known, expected);
        again.router.detach(attachment, &mut again.recorded);
        let attachment = again.sender(resume(Some(Vec::new())));
        again.pump();
        assert!(again.map_of(attachment).is_empty());
        let mut again = again.restarted();
        let attachment = again.sender(resume(Some(reported.clone())));
        again.pump();
        assert!(again.map_of(attachment).is_empty(), "deliveries that its map omits count as settled");
    }
}

#[test]
fn tags_of_a_sender_are_removed_when_it_closes_or_does_not_return() {
    for closes in [false, true] {
        let mut house = House::new(Settings::default());
        let attachment = house.sender(resume(None));
        house.pump();
        house.send_tagged(attachment, b"t", "a");
        house.pump();
        if closes {
            house.router.unsubscribe(attachment, &mut house.recorded);
        } else {
            house.lose(attachment);
            house.pass(u64::from(KEEP_S) * 1000);
        }
        house.pump();
        let mut house = house.restarted();
        let attachment = house.sender(resume(Some(vec![(b"t".to_vec(), None)])));
        house.pump();
        assert!(house.map_of(attachment).is_empty());
        assert_eq!(others_get(&mut house), texts(&[("a", 0)]), "the message stays");
    }
}

#[test]
fn deliveries_retired_in_a_transaction_are_no_longer_held() {
    for settled in [true, false] {
        let (mut house, attachment) = with_three();
        house.lose(attachment);
        let (attachment, _) = house.recorded_receiver(resume(map(&[])), 3);
        assert_eq!(held_on(&house.disk), 3);
        let got = house.got();
        let id = house.declare(1);
        house.retire(id, &got[0], &Outcome::Accepted, settled);
        house.retire(id, &got[1], &Outcome::Released, settled);
        assert_eq!(house.commit(id), Ok(()));
        assert_eq!(held_on(&house.disk), 1, "the one without an outcome");
        house.lose(attachment);
        house.pass(u64::from(KEEP_S) * 1000);
        assert_eq!(held_on(&house.disk), 0);
    }
}

/// The number of messages of the queue that are held for links, according to the disk.
fn held_on(disk: &SimulatedDisk) -> usize {
    states_on(disk, 0x84)
}

#[test]
fn delivery_without_a_tag_does_not_take_the_tag_of_a_rejected_one() {
    let limits = Limits { messages: 1, ..Limits::default() };
    let mut house = House::new(Settings { limits, full: Full::Reject, ..Settings::default() });
    let attachment = house.sender(resume(Some(Vec::new())));
    house.pump();
    house.send_tagged(attachment, b"stored", "a");
    house.send_tagged(attachment, b"refused", "b");
    house.consumer(QUEUE, 1);
    house.pump();
    let got = house.got();
    house.answer(&got[0], &Outcome::Accepted);
    // It is settled at once, so no state is kept.
    house.send_from(attachment, &message("c"));
    house.pump();
    house.router.detach(attachment, &mut house.recorded);
    let reported = ["stored", "refused"].map(|tag| (tag.into(), None)).into();
    let attachment = house.sender(resume(Some(reported)));
    house.pump();
    assert_eq!(house.map_of(attachment), [(b"stored".to_vec(), accepted())]);
}

/// The state of two clients, which survives the node: a sender and a receiver, both with settlement
/// mode second.
#[derive(Default)]
struct Clients {
    sent: u32,
    /// deliveries of the sender that are unsettled at its end
    unsettled: BTreeSet<u32>,
    /// the message of each delivery of this attachment
    deliveries: HashMap<u32, u32>,
    /// deliveries to the receiver that are unsettled at its end: whether it has accepted them, and
    /// their message
    held: BTreeMap<u64, (bool, u32)>,
    tokens: HashMap<u64, u64>,
    /// how often the receiver has worked on a message
    done: HashMap<u32, u32>,
    attachments: Option<(AttachmentId, AttachmentId)>,
}

fn tag_of(number: u32) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

impl Clients {
    /// Both attach with their unsettled maps and treat the answers as 2.6.13 requires.
    fn attach(&mut self, house: &mut House) {
        self.deliveries.clear();
        self.tokens.clear();
        let unsettled = self.unsettled.iter().map(|number| (tag_of(*number), None)).collect();
        let sender = house.sender(resume(Some(unsettled)));
        let state = |done: bool| if done { accepted() } else { None };
        let held: Vec<_> = self.held.iter().map(|(number, (done, _))| (*number, state(*done))).collect();
        let receiver = house.receiver(resume(map(&held)));
        house.pump();
        if house.refused || !house.recorded.attached.contains(&receiver) {
            return;
        }
        let stored = house.map_of(sender);
        let known: BTreeSet<Vec<u8>> = house.map_of(receiver).into_iter().map(|(tag, _)| tag).collect();
        self.held.retain(|number, (done, _)| {
            let stays = known.contains(&number.to_be_bytes()[..]);
            assert!(stays || *done, "delivery {number} was released although it is not processed");
            stays
        });
        for (tag, _) in &stored {
            house.router.forget_tag(sender, tag);
            self.unsettled.remove(&u32::from_le_bytes(tag[..].try_into().expect("four bytes")));
        }
        for number in self.unsettled.clone() {
            self.send(house, sender, number);
        }
        house.router.credit(receiver, 30, false, &mut house.recorded);
        self.attachments = Some((sender, receiver));
    }

    fn send(&mut self, house: &mut House, attachment: AttachmentId, number: u32) {
        self.unsettled.insert(number);
        let id = house.send_tagged(attachment, &tag_of(number), &number.to_string());
        self.deliveries.insert(id, number);
    }

    fn collect(&mut self, house: &mut House) {
        let Some((sender, receiver)) = self.attachments else { return };
        for (delivery, outcome) in std::mem::take(&mut house.recorded.settled) {
            if let Some(number) = self.deliveries.get(&delivery).filter(|_| outcome == Outcome::Accepted) {
                self.unsettled.remove(number);
                house.router.forget_tag(sender, &tag_of(*number));
            }
        }
        for got in house.got() {
            let (name, again) = got.name.expect("a name");
            let number = got.text().parse().expect("a number");
            assert_eq!(self.held.contains_key(&name), again, "{name}: only held deliveries are resumed");
            self.held.entry(name).or_insert((false, number));
            self.tokens.insert(got.token, name);
        }
        for (_, token) in
            std::mem::take(&mut house.recorded.confirmed).into_iter().filter(|(attachment, _)| *attachment == receiver)
        {
            self.held.remove(&self.tokens[&token]);
        }
    }

    /// The receiver processes a message and reports its state.
    fn work(&mut self, house: &mut House, dice: &mut Dice) {
        // If the log has stopped, the node may have ended the link: then no outcome arrives any more.
        let Some((_, receiver)) = self.attachments.filter(|_| house.recorded.closed == 0) else { return };
        let open: Vec<(u64, u64)> = self
            .tokens
            .iter()
            .filter(|(_, name)| self.held.get(name).is_some_and(|(done, _)| !done))
            .map(|(token, name)| (*token, *name))
            .collect();
        if open.is_empty() {
            return;
        }
        let (token, name) = *open.iter().min_by_key(|(_, name)| (*name * 7919) ^ dice.below(64)).expect("one");
        let (done, number) = self.held.get_mut(&name).expect("held");
        *done = true;
        *self.done.entry(*number).or_default() += 1;
        house.router.outcome_unsettled(receiver, token, &Outcome::Accepted, &mut house.recorded);
    }
}

#[test]
fn resumable_links_transfer_every_message_exactly_once_after_any_crash() {
    each_seed(RUNS, live);
}

fn live(seed: u64) {
    let mut dice = Dice::new(seed);
    let mut house = House::on(Arc::new(SimulatedDisk::new(512, seed)), Settings::default());
    let mut clients = Clients::default();
    for _ in 0..2 + dice.below(5) {
        clients.attach(&mut house);
        if dice.percent(60) {
            house.disk.cut_after(dice.below(60));
        }
        for _ in 0..dice.below(80) {
            step(&mut house, &mut clients, &mut dice);
        }
        let disk = if dice.percent(70) { house.disk.crashed(dice.any()) } else { house.disk.as_seen() };
        house = House::on(Arc::new(disk), Settings::default());
        clients.attachments = None;
    }
    clients.attach(&mut house);
    for _ in 0..10_000 {
        house.pump();
        clients.collect(&mut house);
        clients.work(&mut house, &mut dice);
        let Some((_, receiver)) = clients.attachments else { panic!("not attached") };
        house.router.credit(receiver, 100_000, false, &mut house.recorded);
        if clients.held.is_empty() && clients.unsettled.is_empty() && clients.done.len() == clients.sent as usize {
            break;
        }
    }
    let once = (0..clients.sent).map(|number| (number, 1)).collect();
    assert_eq!(clients.done, once, "every message exactly once");
    house.pump();
    assert!(others_get(&mut house).is_empty());
}

fn step(house: &mut House, clients: &mut Clients, dice: &mut Dice) {
    let Some((sender, receiver)) = clients.attachments else { return };
    match dice.below(12) {
        0..4 => {
            for _ in 0..1 + dice.below(4) {
                clients.sent += 1;
                clients.send(house, sender, clients.sent - 1);
            }
        }
        4..8 => clients.work(house, dice),
        8 => {
            // The connection breaks, and frames in transit are lost.
            house.router.detach(sender, &mut house.recorded);
            house.router.detach(receiver, &mut house.recorded);
            house.recorded.settled.clear();
            house.recorded.got.clear();
            house.recorded.confirmed.clear();
            clients.attachments = None;
            if dice.percent(50) {
                house.pump();
                house.recorded.settled.clear();
            }
            clients.attach(house);
        }
        _ => house.pump(),
    }
    if dice.percent(60) {
        clients.collect(house);
    }
}
