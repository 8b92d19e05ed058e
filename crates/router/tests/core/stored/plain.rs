//! Queues in memory, where most messages take the fast path of plain ones: clients cannot
//! distinguish the paths.

use enmasse_amqp::types::{Header, Symbol};
use enmasse_journal::queue::Duplicates;
use proptest::prelude::*;

use super::*;

const MEMORY: AddressKey = AddressKey(50);
const SENDER: AttachmentId = AttachmentId { shard: 0, generation: 0, index: 2 };

#[derive(Clone, Debug)]
enum Command {
    /// a message with a priority, or with a time to live
    Send(Option<u8>, Option<u32>),
    Attach(bool),
    Detach(usize),
    Credit(usize, u32),
    Full(bool),
    Answer(usize, Outcome),
    Turn,
    Pass(u64),
}

/// A house with an additional queue in memory.
struct Memory {
    house: House,
    consumers: Vec<(AttachmentId, u32)>,
    held: Vec<Got>,
    /// the deliveries, in order: consumer, message, failed attempts
    came: Vec<(AttachmentId, String, u32)>,
}

impl Memory {
    fn new(settings: Settings) -> Self {
        let mut house = House::new(Settings::default());
        house.attachments = 3;
        let opened = OpenQueue::new("memory".into(), settings, None);
        house.router.open_queue(declared(MEMORY), opened, &mut house.recorded);
        house.router.attach(SENDER, declared(MEMORY), producer(), &mut house.recorded);
        Self { house, consumers: Vec::new(), held: Vec::new(), came: Vec::new() }
    }

    fn send(&mut self, priority: Option<u8>, ttl: Option<u32>) {
        let header = Header { priority: priority.unwrap_or(4), ttl, ..Header::default() };
        let header = (priority.is_some() || ttl.is_some()).then_some(header);
        let text = format!("{}", self.house.sent);
        self.house.send_from(SENDER, &Message { header, body: Body::Data(vec![text.into()]), ..Message::default() });
    }

    fn run(&mut self, command: &Command) {
        let at = |choice: usize| choice % self.consumers.len().max(1);
        match command {
            Command::Send(priority, ttl) => self.send(*priority, *ttl),
            Command::Attach(browses) => {
                let attachment =
                    self.house.consumer_that(MEMORY, 2, Consuming { browses: *browses, ..Consuming::default() });
                self.consumers.push((attachment, 2));
            }
            Command::Detach(choice) if !self.consumers.is_empty() => {
                let (attachment, _) = self.consumers.remove(at(*choice));
                let (gone, held) =
                    std::mem::take(&mut self.held).into_iter().partition(|got| got.attachment == attachment);
                self.held = held;
                let gone: Vec<Got> = gone;
                gone.iter().for_each(|got| self.house.router.outcome(got.token, &failed(), &mut self.house.recorded));
                self.house.router.detach(attachment, &mut self.house.recorded);
            }
            Command::Credit(choice, more) if !self.consumers.is_empty() => {
                let at = at(*choice);
                self.consumers[at].1 += more;
                let (attachment, limit) = self.consumers[at];
                self.house.router.credit(attachment, limit, false, &mut self.house.recorded);
            }
            Command::Full(full) => self.house.recorded.full = *full,
            Command::Answer(choice, outcome) if !self.held.is_empty() => {
                let got = self.held.remove(choice % self.held.len());
                self.house.router.outcome(got.token, outcome, &mut self.house.recorded);
            }
            Command::Turn => self.house.router.turn(&mut self.house.recorded),
            Command::Pass(ms) => self.house.pass(*ms),
            _ => {}
        }
        // A plain message goes to a waiting consumer at once, any other before the turn ends.
        self.house.router.process_dirty(&mut self.house.recorded);
        for got in self.house.got() {
            let count = got.message.header.as_ref().map_or(0, |header| header.delivery_count);
            self.came.push((got.attachment, got.text(), count));
            self.held.push(got);
        }
    }

    fn stats(&self) -> String {
        let of = |found: &(AddressKey, _)| found.0 == MEMORY;
        let mut stats = self.house.router.queue_stats();
        format!("{:?} {:?}", stats.find(of), self.house.router.stats().find(|(key, _)| *key == MEMORY))
    }
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    let rejected = Outcome::Rejected(None);
    prop_oneof![5 => Just(Outcome::Accepted), 2 => Just(Outcome::Released), 1 => Just(failed()), 1 => Just(rejected)]
}

fn commands() -> impl Strategy<Value = Command> {
    let at = || 0..8_usize;
    let priority = prop::option::weighted(0.3, prop_oneof![Just(4), 0..10_u8]);
    prop_oneof![
        12 => (priority, prop::option::weighted(0.1, 1..40_u32)).prop_map(|(priority, ttl)| Command::Send(priority, ttl)),
        2 => prop::bool::weighted(0.1).prop_map(Command::Attach),
        1 => at().prop_map(Command::Detach),
        4 => (at(), 0..6_u32).prop_map(|(at, more)| Command::Credit(at, more)),
        1 => any::<bool>().prop_map(Command::Full),
        8 => (at(), outcomes()).prop_map(|(at, outcome)| Command::Answer(at, outcome)),
        6 => Just(Command::Turn),
        1 => (0..30_u64).prop_map(Command::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Duplicate detection turns the fast path off; no duplicates are sent here.
    #[test]
    fn plain_messages_behave_like_all_others(commands in prop::collection::vec(commands(), 1..150)) {
        let looks = Settings { duplicates: Some(Duplicates { ids: 1, window_ms: 0 }), ..Settings::default() };
        let (mut plain, mut other) = (Memory::new(Settings::default()), Memory::new(looks));
        for command in &commands {
            plain.run(command);
            other.run(command);
            prop_assert_eq!(&plain.came, &other.came);
            prop_assert_eq!(&plain.house.recorded.settled, &other.house.recorded.settled);
            prop_assert_eq!(plain.stats(), other.stats());
        }
    }
}

#[test]
fn plain_messages_without_room_keep_their_order() {
    let mut memory = Memory::new(Settings::default());
    memory.run(&Command::Attach(false));
    memory.run(&Command::Credit(0, 10));
    memory.house.recorded.full = true;
    (0..3).for_each(|_| memory.run(&Command::Send(None, None)));
    memory.run(&Command::Turn);
    assert_eq!((memory.came.len(), memory.house.recorded.settled.len()), (0, 3), "accepted, and waits");
    memory.house.recorded.full = false;
    memory.run(&Command::Credit(0, 0));
    memory.run(&Command::Turn);
    let came: Vec<&str> = memory.came.iter().map(|(_, text, _)| text.as_str()).collect();
    assert_eq!(came, ["0", "1", "2"]);
}

#[test]
fn plain_message_does_not_overtake_a_rejected_one_of_its_numbered_producer() {
    let mut memory = Memory::new(Settings::default());
    memory.run(&Command::Attach(false));
    let attachment = AttachmentId { shard: 0, generation: 0, index: 900 };
    let role = AttachmentRole::Producer { anonymous: false, name: None, producer_name: Some("p".into()), resume: None };
    memory.house.router.attach(attachment, declared(MEMORY), role, &mut memory.house.recorded);
    let mut broken = Message { body: Body::Data(vec!["broken".into()]), ..Message::default() };
    broken.message_annotations.push((Symbol::from("x-opt-delivery-delay"), Value::String("soon".to_owned())));
    let plain = Message { body: Body::Data(vec!["plain".into()]), ..Message::default() };
    let [before, rejected, after] =
        [&plain, &broken, &plain].map(|message| memory.house.send_from(attachment, message));
    memory.run(&Command::Turn);
    let settled = &memory.house.recorded.settled;
    assert_eq!(settled[0], (before, Outcome::Accepted));
    assert!(matches!(&settled[1], (id, Outcome::Rejected(Some(_))) if *id == rejected), "{settled:?}");
    assert_eq!(settled[2..], [(after, Outcome::Released)]);
    let came: Vec<&str> = memory.came.iter().map(|(_, text, _)| text.as_str()).collect();
    assert_eq!(came, ["plain"]);
}

#[test]
fn body_read_for_a_full_consumer_is_not_read_again() {
    let mut house = House::new(Settings::default());
    for number in 0..20 {
        house.send(&format!("{number}"));
    }
    house.pump();
    let mut house = house.restarted();
    let attachment = house.consumer(QUEUE, 20);
    house.recorded.full = true;
    house.pump();
    assert_eq!((house.got().len(), house.router.fetched_bytes()), (0, 0));
    house.recorded.full = false;
    house.router.credit(attachment, 20, false, &mut house.recorded);
    assert!(house.router.take_wanted().is_empty(), "every body is in memory");
    house.pump();
    assert_eq!(house.texts(), (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
}
