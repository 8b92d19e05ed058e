//! The ledger: every message that was ever sent, who saw it, what was said about it; and the judge of all that, by
//! `docs/contracts.md` 7. It knows only what clients know.

use std::collections::{HashMap, VecDeque};

use enmasse_router::core::AddressKind;

/// Names a link for good; every attach makes a new one.
pub(crate) type LinkNumber = usize;

/// Names a message.
pub(crate) type MessageNumber = usize;

/// Lines kept to explain a fault.
const HISTORY: usize = 100_000;

/// What a message may be told to have become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// accepted
    Accepted,
    /// rejected by a consumer
    Rejected,
    /// rejected by the node, which knows no such address
    Refused,
    /// released
    Released,
    /// modified with delivery-failed
    Failed,
    /// modified without it
    Modified,
}

/// How far its sender is with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// not all of it is handed to the machine
    Sending,
    /// all of it is
    Sent,
    /// it was taken back
    Aborted,
}

/// Where messages go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// address space
    pub(crate) space: usize,
    /// the name sent to, or received from (which may have wildcards)
    pub(crate) name: String,
    /// how it treats messages; `None`: there is no such address
    pub(crate) kind: Option<AddressKind>,
    /// the address was, or may have been, deleted while the message was under way
    pub(crate) fleeting: bool,
}

#[derive(Debug)]
struct Link {
    client: usize,
    route: Route,
    alive: bool,
    /// the last message it has of each sending link and name
    last: HashMap<(LinkNumber, String), MessageNumber>,
}

#[derive(Debug)]
struct Copy {
    to: LinkNumber,
    answer: Option<Told>,
}

#[derive(Debug)]
struct Message {
    from: LinkNumber,
    route: Route,
    settled: bool,
    bytes: Vec<u8>,
    progress: Progress,
    told: Option<Told>,
    copies: Vec<Copy>,
}

/// Everything that clients know.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    links: Vec<Link>,
    messages: Vec<Message>,
    history: VecDeque<String>,
    digest: u64,
    events: u64,
    faults: Vec<String>,
    /// addresses (of a space) that are gone, or that not all shards know to be as they are
    unsure: Vec<(usize, String)>,
    /// figures of the run
    pub(crate) figures: Figures,
}

/// What happened in a run, in numbers: a sample in which little happens proves little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// messages begun
    pub sent: u64,
    /// copies received whole
    pub received: u64,
    /// outcomes heard by senders
    pub outcomes: u64,
    /// deliveries aborted by either side
    pub aborted: u64,
    /// links attached
    pub links: u64,
    /// connections cut, by either side or the network
    pub cuts: u64,
    /// restarts of the node
    pub restarts: u64,
    /// addresses deleted or made again
    pub plans: u64,
}

impl Ledger {
    /// Something that must not be.
    pub(crate) fn blame(&mut self, fault: String) {
        self.note(&format!("FAULT {fault}"));
        self.faults.push(fault);
    }

    /// The first fault, with what led to it.
    #[must_use]
    pub(crate) fn fault(&self) -> Option<String> {
        let fault = self.faults.first()?;
        let history: Vec<&str> = self.history.iter().map(String::as_str).collect();
        Some(format!("{}\n{fault}", history.join("\n")))
    }

    /// Writes something down; a run that is repeated writes down the same.
    pub(crate) fn note(&mut self, line: &str) {
        for byte in line.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(line.to_owned());
    }

    /// A client has heard something.
    pub(crate) const fn heard(&mut self) {
        self.events += 1;
    }

    /// How often clients have heard something.
    #[must_use]
    pub(crate) const fn events(&self) -> u64 {
        self.events
    }

    /// A number that stands for all that was noted.
    #[must_use]
    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    /// A link is attached.
    pub(crate) fn attached(&mut self, client: usize, route: Route) -> LinkNumber {
        let link = self.links.len();
        self.note(&format!("client {client} link {link} at {}/{}", route.space, route.name));
        self.figures.links += 1;
        self.links.push(Link { client, route, alive: true, last: HashMap::new() });
        link
    }

    /// A link is over.
    pub(crate) fn detached(&mut self, link: LinkNumber) {
        if self.links[link].alive {
            self.links[link].alive = false;
            self.note(&format!("link {link} over"));
        }
    }

    /// The node has given a client up, which does not know it yet.
    pub(crate) fn given_up(&mut self, client: usize) {
        for number in 0..self.links.len() {
            if self.links[number].client == client {
                self.detached(number);
            }
        }
    }

    /// An address is deleted or made again: messages under way to it may end one way or the other.
    pub(crate) fn changes(&mut self, space: usize, address: &str) {
        for message in self.messages.iter_mut().filter(|message| message.told.is_none()) {
            message.route.fleeting |= message.route.space == space && belongs(&message.route.name, address);
        }
        self.unsure.push((space, address.to_owned()));
    }

    /// All shards know the plan in force, by which `lives` tells what is there.
    pub(crate) fn know_plan(&mut self, lives: impl Fn(usize, &str) -> bool) {
        self.unsure.retain(|(space, address)| !lives(*space, address));
    }

    /// Whether some address is not known to be as it is.
    #[must_use]
    pub(crate) const fn is_unsure(&self) -> bool {
        !self.unsure.is_empty()
    }

    /// A link begins to send a message.
    pub(crate) fn sends(&mut self, from: LinkNumber, mut route: Route, settled: bool) -> MessageNumber {
        route.fleeting |=
            self.unsure.iter().any(|(space, address)| route.space == *space && belongs(&route.name, address));
        let number = self.messages.len();
        self.note(&format!("link {from} sends {number} to {} settled={settled}", route.name));
        self.figures.sent += 1;
        let bytes = Vec::new();
        let copies = Vec::new();
        self.messages.push(Message { from, route, settled, bytes, progress: Progress::Sending, told: None, copies });
        number
    }

    /// What the message looks like.
    pub(crate) fn contains(&mut self, message: MessageNumber, bytes: Vec<u8>) {
        self.messages[message].bytes = bytes;
    }

    /// How far its sender has come with it.
    pub(crate) fn progress(&mut self, message: MessageNumber, progress: Progress) {
        self.note(&format!("{message} is {progress:?}"));
        self.figures.aborted += u64::from(progress == Progress::Aborted);
        self.messages[message].progress = progress;
    }

    /// A consumer has received a message whole.
    pub(crate) fn received(&mut self, to: LinkNumber, number: MessageNumber, settled: bool, bytes: &[u8]) {
        self.note(&format!("link {to} has {number} settled={settled}"));
        self.figures.received += 1;
        let Some(message) = self.messages.get_mut(number) else {
            return self.blame(format!("link {to} received message {number}, which nobody sent"));
        };
        let link = &mut self.links[to];
        let mut faults = Vec::new();
        let mut expect = |right: bool, what: &str| {
            if !right {
                faults.push(format!("message {number} at link {to}: {what}"));
            }
        };
        expect(message.bytes == bytes, "not the bytes that were sent");
        expect(message.settled == settled, "not settled as it was sent");
        expect(message.progress != Progress::Sending, "it is not sent in full yet");
        expect(link.route.space == message.route.space, "crossed into another address space");
        expect(covers(&link.route.name, &message.route.name), "its name is not the one asked for");
        expect(!message.copies.iter().any(|copy| copy.to == to), "received twice");
        let single = message.route.kind == Some(AddressKind::Anycast);
        expect(!single || message.copies.is_empty(), "anycast reached two consumers");
        let last = link.last.insert((message.from, message.route.name.clone()), number);
        expect(single || last.is_none_or(|last| last < number), "out of order");
        message.copies.push(Copy { to, answer: None });
        for fault in faults {
            self.blame(fault);
        }
    }

    /// A consumer answers.
    pub(crate) fn answers(&mut self, to: LinkNumber, number: MessageNumber, told: Told) {
        self.note(&format!("link {to} answers {number} {told:?}"));
        let copies = self.messages.get_mut(number).map(|message| &mut message.copies);
        if let Some(copy) = copies.and_then(|copies| copies.iter_mut().find(|copy| copy.to == to)) {
            copy.answer = Some(told);
        }
    }

    /// A sender is told what became of a message.
    pub(crate) fn told(&mut self, number: MessageNumber, told: Told) {
        self.note(&format!("{number} became {told:?}"));
        self.figures.outcomes += 1;
        let message = &mut self.messages[number];
        let before = message.told.replace(told);
        if message.settled || before.is_some() || message.progress == Progress::Aborted {
            let progress = message.progress;
            self.blame(format!("message {number} ({progress:?}) has one outcome too many: {before:?}, then {told:?}"));
        }
        if let Err(why) = self.justified(number, told) {
            self.blame(format!("message {number} became {told:?}: {why}"));
        }
    }

    /// Whether an outcome follows from what the consumers said. Those whose link is over may have been heard or not.
    fn justified(&self, number: MessageNumber, told: Told) -> Result<(), String> {
        let message = &self.messages[number];
        let answered = |told: Told| message.copies.iter().any(|copy| copy.answer == Some(told));
        // The answer of a link that is over, or to an address that was deleted, may have come too late.
        let heard = |copy: &Copy| self.links[copy.to].alive && !message.route.fleeting;
        let surely = |told: Told| message.copies.iter().any(|copy| copy.answer == Some(told) && heard(copy));
        let someone_left = message.copies.iter().any(|copy| !self.links[copy.to].alive);
        let known = message.route.kind.is_some();
        let anycast = message.route.kind == Some(AddressKind::Anycast);
        match told {
            Told::Refused if known && !message.route.fleeting => Err("the address is there".to_owned()),
            Told::Refused if !message.copies.is_empty() => Err("somebody has it".to_owned()),
            Told::Refused => Ok(()),
            _ if !known => Err("there is no such address".to_owned()),
            Told::Accepted if !answered(Told::Accepted) => Err("nobody accepted it".to_owned()),
            Told::Rejected if !answered(Told::Rejected) => Err("nobody rejected it".to_owned()),
            Told::Modified if !answered(Told::Modified) => Err("nobody modified it".to_owned()),
            Told::Accepted if surely(Told::Rejected) => Err("somebody rejected it".to_owned()),
            Told::Failed | Told::Modified | Told::Released if surely(Told::Accepted) || surely(Told::Rejected) => {
                Err("somebody said otherwise".to_owned())
            }
            Told::Released if surely(Told::Modified) => Err("somebody modified it".to_owned()),
            Told::Failed if message.route.fleeting => Ok(()),
            Told::Failed if anycast && !message.copies.is_empty() && !someone_left && !answered(Told::Failed) => {
                Err("its consumer is still there".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Whether a message waits for an outcome that must still come.
    #[must_use]
    pub(crate) fn unresolved(&self) -> Vec<MessageNumber> {
        let owed = |message: &Message| {
            let waits = !message.settled && message.told.is_none() && message.progress == Progress::Sent;
            waits && self.links[message.from].alive
        };
        (0..self.messages.len()).filter(|number| owed(&self.messages[*number])).collect()
    }

    /// Settled messages of a treatment that nobody received, of links that are still there.
    #[must_use]
    pub(crate) fn unseen(&self, kind: AddressKind) -> Vec<MessageNumber> {
        let lost = |message: &Message| {
            // The anonymous terminus sends whether there is a consumer or not.
            let promised = self.links[message.from].alive && self.links[message.from].route.kind == Some(kind);
            promised && message.settled && message.progress == Progress::Sent && message.copies.is_empty()
        };
        (0..self.messages.len()).filter(|number| lost(&self.messages[*number])).collect()
    }

    /// Who sent a message, for people.
    #[must_use]
    pub(crate) fn describe(&self, number: MessageNumber) -> String {
        let message = &self.messages[number];
        let link = &self.links[message.from];
        format!("message {number} from client {} link {}: {:?}", link.client, message.from, message.route)
    }
}

/// Whether what is sent to `name` goes to `address`: in the simulation an address has one level.
fn belongs(name: &str, address: &str) -> bool {
    name.split('/').next() == Some(address)
}

/// Whether a receiver of `asked` gets what is sent to `name`: the address itself covers all names below it.
pub(crate) fn covers(asked: &str, name: &str) -> bool {
    let mut levels = name.split('/');
    let mut asked = asked.split('/').peekable();
    while let Some(level) = asked.next() {
        match (level, levels.next()) {
            ("#", _) => return true,
            ("+", Some(_)) => {}
            (level, Some(other)) if level == other => {}
            _ => return false,
        }
        if asked.peek() == Some(&"#") {
            return true;
        }
    }
    levels.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(name: &str, kind: AddressKind) -> Route {
        Route { space: 0, name: name.to_owned(), kind: Some(kind), fleeting: false }
    }

    /// A ledger in which link 0 has sent message 0 to links 1 and 2, which have it.
    fn delivered(kind: AddressKind, consumers: usize) -> Ledger {
        let mut ledger = Ledger::default();
        for client in 0..=2 {
            ledger.attached(client, route("a", kind));
        }
        let message = ledger.sends(0, route("a", kind), false);
        ledger.contains(message, b"m".to_vec());
        ledger.progress(message, Progress::Sent);
        for to in 1..=consumers {
            ledger.received(to, message, false, b"m");
        }
        ledger
    }

    #[test]
    fn an_outcome_nobody_gave_is_a_fault() {
        for (told, fault) in [
            (Told::Accepted, true),
            (Told::Rejected, true),
            (Told::Modified, true),
            (Told::Failed, true),
            (Told::Released, false),
        ] {
            let mut ledger = delivered(AddressKind::Anycast, 1);
            ledger.told(0, told);
            assert_eq!(ledger.fault().is_some(), fault, "{told:?}");
        }
    }

    #[test]
    fn an_outcome_somebody_gave_is_none() {
        for told in [Told::Accepted, Told::Rejected, Told::Modified, Told::Released, Told::Failed] {
            let mut ledger = delivered(AddressKind::Anycast, 1);
            ledger.answers(1, 0, told);
            ledger.told(0, told);
            assert_eq!(ledger.fault(), None, "{told:?}");
            ledger.told(0, told);
            assert!(ledger.fault().is_some(), "twice");
        }
    }

    #[test]
    fn a_consumer_that_left_may_have_failed_it() {
        let mut ledger = delivered(AddressKind::Anycast, 1);
        ledger.answers(1, 0, Told::Accepted);
        ledger.detached(1);
        ledger.told(0, Told::Failed);
        assert_eq!(ledger.fault(), None);
    }

    #[test]
    fn the_worst_answer_counts_in_multicast() {
        let mut ledger = delivered(AddressKind::Multicast, 2);
        ledger.answers(1, 0, Told::Accepted);
        ledger.answers(2, 0, Told::Rejected);
        ledger.told(0, Told::Accepted);
        assert!(ledger.fault().is_some());
    }

    #[test]
    fn only_what_was_under_way_when_its_address_was_deleted_may_end_otherwise() {
        for (changed, fault) in [(None, true), (Some("b"), true), (Some("a"), false)] {
            let mut ledger = delivered(AddressKind::Anycast, 1);
            ledger.answers(1, 0, Told::Accepted);
            if let Some(address) = changed {
                ledger.changes(0, address);
            }
            ledger.told(0, Told::Failed);
            assert_eq!(ledger.fault().is_some(), fault, "{changed:?}");
        }
        let mut ledger = delivered(AddressKind::Anycast, 1);
        ledger.changes(0, "a");
        ledger.know_plan(|_, _| true);
        let later = ledger.sends(0, route("a", AddressKind::Anycast), false);
        ledger.told(later, Told::Refused);
        assert!(ledger.fault().is_some(), "it is there again, and everybody knows");
    }

    #[test]
    fn what_is_received_is_what_was_sent_and_once() {
        assert!(delivered(AddressKind::Anycast, 2).fault().is_some(), "two consumers");
        assert_eq!(delivered(AddressKind::Multicast, 2).fault(), None);
        for wrong in ["settled", "bytes", "twice", "nobody's"] {
            let mut ledger = delivered(AddressKind::Multicast, 1);
            let number = if wrong == "nobody's" { 7 } else { 0 };
            let to = if wrong == "twice" { 1 } else { 2 };
            ledger.received(to, number, wrong == "settled", if wrong == "bytes" { b"x" } else { b"m" });
            assert!(ledger.fault().is_some(), "{wrong}");
        }
    }

    #[test]
    fn what_is_owed_is_known() {
        let mut ledger = delivered(AddressKind::Anycast, 1);
        assert_eq!(ledger.unresolved(), [0]);
        ledger.detached(0);
        assert_eq!(ledger.unresolved(), [0; 0]);
    }

    #[test]
    fn names_cover_as_the_contract_says() {
        for (asked, name, covered) in [
            ("a", "a", true),
            ("a", "b", false),
            ("a", "a/b", false),
            ("a/#", "a", true),
            ("a/#", "a/b/c", true),
            ("a/+", "a/b", true),
            ("a/+", "a/b/c", false),
            ("a/+/c", "a/b/c", true),
        ] {
            assert_eq!(covers(asked, name), covered, "{asked} {name}");
        }
    }
}
