//! Received bytes that are not stored yet, and their bound on a node. Decisions only, no I/O.
//!
//! The shards count together, per address space, the bytes in flight to the journal, those held by
//! partial deliveries and open transactions, and those that wait for the consumers of direct
//! addresses: the addresses of a space live on several shards. All shards of a node share one
//! [`ReceiveBudget`]. A space may have as many bytes of each kind as the budget has left (Choudhury and Hahne, 1998): one space alone
//! gets half of it, two spaces a third each. Connections of producers whose space exceeds its share
//! in flight to the journal are not read. A partial delivery or posting beyond the share is refused,
//! because pausing the reads would also stop the transfers that complete it.
//!
//! Direct producers of a space that uses half of its share of waiting bytes are held back early. A
//! direct message beyond the share does not wait: an unread connection may contain the credit that
//! its consumer needs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use enmasse_amqp::types::{Error, condition};
use slab::Slab;

/// Bytes of each kind that every space may always have.
pub const SPACE_BYTES_MIN: u64 = 1 << 20;
/// Memory of a message in addition to its body, until it is stored.
const MESSAGE_BYTES: u64 = 256;

/// The bound of received bytes of a node, and the bytes held now.
#[derive(Debug)]
pub struct ReceiveBudget {
    bytes: u64,
    held: AtomicU64,
    /// the counts of each space
    spaces: Mutex<HashMap<u32, Arc<SpaceTotals>>>,
}

/// The bytes of a space on all shards, as of the last turn of each.
#[derive(Debug, Default)]
struct SpaceTotals {
    /// in flight to the journal
    journal: AtomicU64,
    /// in partial deliveries and open transactions
    held: AtomicU64,
    /// waiting for consumers of direct addresses
    waiting: AtomicU64,
}

/// Bytes of one kind of a space on one shard.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    bytes: u64,
    /// as last reported
    reported: u64,
}

impl Count {
    /// The bytes on the node.
    #[inline]
    fn on_node(self, total: &AtomicU64) -> u64 {
        total.load(Ordering::Relaxed).wrapping_add(self.bytes).wrapping_sub(self.reported)
    }

    fn report(&mut self, total: &AtomicU64) {
        let change = self.bytes.wrapping_sub(self.reported);
        if change != 0 {
            total.fetch_add(change, Ordering::Relaxed);
            self.reported = self.bytes;
        }
    }
}

impl ReceiveBudget {
    /// A budget of this many bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self { bytes, held: AtomicU64::new(0), spaces: Mutex::default() }
    }

    /// The counts of a space, which its shards share.
    fn open(&self, space: u32) -> Arc<SpaceTotals> {
        Arc::clone(self.spaces.lock().unwrap_or_else(PoisonError::into_inner).entry(space).or_default())
    }

    /// Forgets the counts of a space after its last shard.
    fn close(&self, space: u32, totals: Arc<SpaceTotals>) {
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        drop(totals);
        if spaces.get(&space).is_some_and(|totals| Arc::strong_count(totals) == 1) {
            spaces.remove(&space);
        }
    }

    /// The bound.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Received bytes that are held now, as of the last turn of each shard.
    #[must_use]
    pub fn held(&self) -> u64 {
        // Relaxed, here and below: the number carries no other memory with it.
        self.held.load(Ordering::Relaxed)
    }
}

/// The account of an address space on one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account(u32);

impl Account {
    /// For bytes that were not received: nothing is counted.
    pub(super) const NONE: Self = Self(u32::MAX);
}

/// The bytes of one message of a direct address that are counted as waiting.
#[derive(Debug)]
pub(super) struct WaitingBytes {
    account: Account,
    bytes: u64,
}

impl WaitingBytes {
    pub(super) const NONE: Self = Self { account: Account::NONE, bytes: 0 };
}

#[derive(Debug)]
struct Space {
    space: u32,
    /// in flight to the journal
    journal: Count,
    /// in partial deliveries and open transactions
    held: Count,
    /// waiting for consumers of direct addresses
    waiting: Count,
    /// the same on the node
    totals: Arc<SpaceTotals>,
    /// in [`Received::listed`]
    listed: bool,
    /// addresses of the space that live here
    addresses: u32,
}

impl Space {
    /// Bytes that wait for consumers of direct addresses, on the node.
    #[inline]
    fn waiting_on_node(&self) -> u64 {
        self.waiting.on_node(&self.totals.waiting)
    }

    /// Reports the bytes of this shard.
    fn report(&mut self) {
        self.journal.report(&self.totals.journal);
        self.held.report(&self.totals.held);
        self.waiting.report(&self.totals.waiting);
    }

    /// Whether nothing of it is counted here.
    fn is_empty(&self) -> bool {
        self.journal.bytes == 0 && self.held.bytes == 0 && self.waiting.bytes == 0
    }
}

/// The error for a part of a message or a posting beyond the share of its space.
pub(super) fn share_used_up() -> Error {
    let what = "the incomplete messages and open transactions of the address space hold its share of the memory \
                for received messages: complete or discharge some, or send again later";
    Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what)
}

/// The received bytes of one shard that are not stored yet.
#[derive(Debug)]
pub(super) struct Received {
    budget: Arc<ReceiveBudget>,
    spaces: Slab<Space>,
    accounts: HashMap<u32, Account>,
    /// in flight to the journal, of all spaces
    journal_bytes: u64,
    /// in partial deliveries and open transactions of all spaces
    held_bytes: u64,
    /// bytes that wait for consumers at direct addresses
    waiting_bytes: u64,
    /// spaces whose bytes changed since the last report, or are not 0
    listed: Vec<Account>,
    /// the bytes last reported to the budget
    reported: u64,
    /// what the budget had left at that time
    left: u64,
}

impl Received {
    pub(super) fn new(budget: Arc<ReceiveBudget>) -> Self {
        let left = budget.bytes;
        Self {
            budget,
            spaces: Slab::new(),
            accounts: HashMap::new(),
            journal_bytes: 0,
            held_bytes: 0,
            waiting_bytes: 0,
            listed: Vec::new(),
            reported: 0,
            left,
        }
    }

    /// Counts an address of a space, until [`Received::close`].
    pub(super) fn open(&mut self, space: u32) -> Account {
        let Self { accounts, spaces, budget, .. } = self;
        let account = *accounts.entry(space).or_insert_with(|| {
            Account(spaces.insert(Space {
                space,
                journal: Count::default(),
                held: Count::default(),
                waiting: Count::default(),
                totals: budget.open(space),
                listed: false,
                addresses: 0,
            }) as u32)
        });
        self.spaces[account.0 as usize].addresses += 1;
        account
    }

    /// Ends the count of a deleted address. Its bytes in flight to the journal still count.
    pub(super) fn close(&mut self, account: Account) {
        if let Some(space) = self.spaces.get_mut(account.0 as usize) {
            space.addresses -= 1;
            self.forget_unused(account);
        }
    }

    fn forget_unused(&mut self, account: Account) {
        let space = &self.spaces[account.0 as usize];
        if space.addresses > 0 || !space.is_empty() {
            return;
        }
        let mut space = self.spaces.remove(account.0 as usize);
        space.report();
        self.accounts.remove(&space.space);
        self.budget.close(space.space, space.totals);
        self.listed.retain(|listed| *listed != account);
    }

    /// The counts of a space that change.
    #[inline]
    fn change(&mut self, account: Account) -> Option<&mut Space> {
        let space = self.spaces.get_mut(account.0 as usize)?;
        if !std::mem::replace(&mut space.listed, true) {
            self.listed.push(account);
        }
        Some(space)
    }

    /// Counts messages that are given to the journal.
    #[inline]
    pub(super) fn add(&mut self, account: Account, messages: usize, bytes: usize) {
        if let Some(space) = self.change(account) {
            let size = size_of_messages(messages, bytes);
            space.journal.bytes += size;
            self.journal_bytes += size;
        }
    }

    /// Ends the count of messages that the journal has stored or refused.
    #[inline]
    pub(super) fn remove(&mut self, account: Account, messages: usize, bytes: usize) {
        if let Some(space) = self.change(account) {
            let size = size_of_messages(messages, bytes);
            space.journal.bytes -= size;
            let is_deleted = space.addresses == 0;
            self.journal_bytes -= size;
            if is_deleted {
                self.forget_unused(account);
            }
        }
    }

    /// Whether a space exceeds its share, so that a producer must not be read. A producer that
    /// `waits` is read again at half of the share.
    #[inline]
    pub(super) fn is_over(&self, account: Account, waits: bool) -> bool {
        let Some(space) = self.spaces.get(account.0 as usize) else { return false };
        let most = self.share();
        space.journal.on_node(&space.totals.journal) > if waits { most / 2 } else { most }
    }

    /// The bytes of each kind that a space may have now.
    #[inline]
    fn share(&self) -> u64 {
        self.left_now().max(SPACE_BYTES_MIN)
    }

    /// What the budget has left, less what this shard has received since its last report.
    #[inline]
    fn left_now(&self) -> u64 {
        self.left.saturating_add(self.reported).saturating_sub(self.bytes())
    }

    /// All received bytes of this shard.
    #[inline]
    const fn bytes(&self) -> u64 {
        self.journal_bytes + self.waiting_bytes + self.held_bytes
    }

    /// Whether a space may hold this many more bytes in partial deliveries and transactions.
    pub(super) fn may_hold(&self, account: Account, bytes: usize) -> bool {
        let Some(space) = self.spaces.get(account.0 as usize) else { return true };
        space.held.on_node(&space.totals.held).saturating_add(bytes as u64) <= self.share()
    }

    /// Counts received bytes of a partial delivery or a transaction.
    pub(super) fn hold(&mut self, account: Account, bytes: usize) {
        self.held_bytes += bytes as u64;
        if let Some(space) = self.change(account) {
            space.held.bytes += bytes as u64;
        }
    }

    /// Ends the count of held bytes: the message is complete or dropped.
    pub(super) fn release(&mut self, account: Account, bytes: usize) {
        self.held_bytes -= bytes as u64;
        if let Some(space) = self.change(account) {
            space.held.bytes -= bytes as u64;
            if space.addresses == 0 {
                self.forget_unused(account);
            }
        }
    }

    /// Whether a message of this many bytes may wait at a direct address of a space.
    pub(super) fn may_wait(&self, account: Account, bytes: usize) -> bool {
        let Some(space) = self.spaces.get(account.0 as usize) else { return true };
        space.waiting_on_node().saturating_add(size_of_messages(1, bytes)) <= self.share()
    }

    /// Whether so much waits at the direct addresses of a space that its producers must be held
    /// back early: half of its share. A producer that `waits` for this continues at a quarter.
    pub(super) fn is_crowded(&self, account: Account, waits: bool) -> bool {
        let Some(space) = self.spaces.get(account.0 as usize) else { return false };
        space.waiting_on_node() > self.share() / if waits { 4 } else { 2 }
    }

    /// Sets the number of bytes of a message that wait at a direct address. 0 ends its count.
    pub(super) fn set_waiting(&mut self, message: &mut WaitingBytes, account: Account, bytes: usize) {
        if message.bytes == 0 {
            message.account = account;
        }
        let after = if bytes == 0 { 0 } else { size_of_messages(1, bytes) };
        let change = after.wrapping_sub(std::mem::replace(&mut message.bytes, after));
        if change == 0 {
            return;
        }
        self.waiting_bytes = self.waiting_bytes.wrapping_add(change);
        if let Some(space) = self.change(message.account) {
            space.waiting.bytes = space.waiting.bytes.wrapping_add(change);
        }
    }

    /// Reports the bytes to the budget at the end of a turn, and reads what it has left.
    pub(super) fn report(&mut self) {
        self.report_spaces();
        let held = self.bytes();
        let change = held.wrapping_sub(self.reported);
        let before = match change {
            0 => self.budget.held.load(Ordering::Relaxed),
            _ => self.budget.held.fetch_add(change, Ordering::Relaxed),
        };
        self.reported = held;
        self.left = self.budget.bytes.saturating_sub(before.wrapping_add(change));
    }

    /// Reports the bytes of each space once a turn: an atomic addition a message would cost a direct
    /// message 5 %.
    fn report_spaces(&mut self) {
        let mut place = 0;
        while let Some(account) = self.listed.get(place).copied() {
            let space = &mut self.spaces[account.0 as usize];
            space.report();
            if !space.is_empty() {
                place += 1;
                continue;
            }
            space.listed = false;
            self.listed.swap_remove(place);
            self.forget_unused(account);
        }
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.reported, Ordering::Relaxed);
        for mut space in self.spaces.drain() {
            for count in [&mut space.journal, &mut space.held, &mut space.waiting] {
                count.bytes = 0;
            }
            space.report();
            self.budget.close(space.space, space.totals);
        }
    }
}

const fn size_of_messages(messages: usize, bytes: usize) -> u64 {
    messages as u64 * MESSAGE_BYTES + bytes as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: usize = 1 << 20;
    const READ: usize = MIB / 4;

    fn shards<const N: usize>(budget_bytes: usize) -> (Arc<ReceiveBudget>, [Received; N]) {
        let budget = Arc::new(ReceiveBudget::new(budget_bytes as u64));
        let shards = std::array::from_fn(|_| Received::new(Arc::clone(&budget)));
        (budget, shards)
    }

    /// Reads for a space until its share is used up; returns the bytes that it holds.
    fn fill(shard: &mut Received, account: Account) -> usize {
        let reads = (0..10_000).take_while(|_| {
            let reads = !shard.is_over(account, false);
            if reads {
                shard.add(account, 0, READ);
                shard.report();
            }
            reads
        });
        reads.count() * READ
    }

    #[test]
    fn first_space_gets_half_of_the_budget_and_the_next_half_of_the_rest() {
        let (budget, [mut one, mut other]) = shards(64 * MIB);
        let (first, second) = (one.open(1), other.open(2));
        assert_eq!(fill(&mut one, first), 32 * MIB + READ);
        other.report();
        assert!(fill(&mut other, second).abs_diff(16 * MIB) <= READ);
        assert!(budget.held() <= budget.bytes());
    }

    #[test]
    fn space_below_its_minimum_is_read_on_a_full_node() {
        let (_, [mut one, mut other]) = shards(4 * MIB);
        let (full, new) = (one.open(1), other.open(2));
        one.add(full, 0, 100 * MIB);
        one.report();
        other.report();
        assert_eq!(fill(&mut other, new), MIB + READ);
    }

    #[test]
    fn paused_reads_resume_at_half_of_the_share_of_the_space() {
        let (_, [mut shard]) = shards(8 * MIB);
        let account = shard.open(1);
        let had = fill(&mut shard, account);
        shard.remove(account, 0, MIB);
        shard.report();
        assert!(!shard.is_over(account, false) && shard.is_over(account, true));
        shard.remove(account, 0, had - 3 * MIB);
        shard.report();
        assert!(!shard.is_over(account, true));
    }

    #[test]
    fn held_and_waiting_bytes_reduce_the_budget_of_the_journal() {
        let (budget, [mut shard]) = shards(64 * MIB);
        let account = shard.open(1);
        shard.set_waiting(&mut { WaitingBytes::NONE }, account, 16 * MIB - MESSAGE_BYTES as usize);
        shard.hold(account, 16 * MIB);
        shard.report();
        assert_eq!(fill(&mut shard, account), 16 * MIB + READ);
        assert_eq!(budget.held(), (48 * MIB + READ) as u64);
    }

    #[test]
    fn partial_deliveries_of_one_space_leave_others_an_equal_share_and_a_minimum() {
        let (_, [mut shard]) = shards(64 * MIB);
        let (greedy, other) = (shard.open(1), shard.open(2));
        while shard.may_hold(greedy, READ) {
            shard.hold(greedy, READ);
        }
        shard.report();
        assert!(shard.may_hold(other, 32 * MIB) && !shard.may_hold(other, 32 * MIB + 1));
        shard.set_waiting(&mut { WaitingBytes::NONE }, other, 64 * MIB);
        shard.report();
        assert!(!shard.may_hold(greedy, 1));
        assert!(shard.may_hold(other, MIB) && !shard.may_hold(other, MIB + 1));
        shard.release(greedy, 32 * MIB);
        assert!(shard.may_hold(greedy, MIB));
    }

    #[test]
    fn waiting_bytes_of_a_space_are_counted_over_all_shards_and_leave_others_an_equal_share() {
        let (budget, [mut one, mut other]) = shards(64 * MIB);
        let (here, there) = (one.open(1), other.open(1));
        let mut messages = Vec::new();
        let body = MIB - MESSAGE_BYTES as usize;
        while one.may_wait(here, body) {
            let (shard, account) = if messages.len() % 2 == 0 { (&mut one, here) } else { (&mut other, there) };
            let mut message = WaitingBytes::NONE;
            shard.set_waiting(&mut message, account, body);
            messages.push(message);
            one.report();
            other.report();
            one.report();
        }
        assert_eq!((messages.len(), budget.held()), (32, 32 * MIB as u64));
        assert!(!other.may_wait(there, 1) && one.is_crowded(here, false));
        let quiet = other.open(2);
        assert!(other.may_wait(quiet, 32 * MIB - MESSAGE_BYTES as usize) && other.may_hold(quiet, 32 * MIB));
        for (at, mut message) in messages.into_iter().enumerate() {
            let (shard, account) = if at % 2 == 0 { (&mut one, here) } else { (&mut other, there) };
            shard.set_waiting(&mut message, account, 0);
        }
        one.report();
        other.report();
        assert!(!one.is_crowded(here, true) && budget.held() == 0);
    }

    #[test]
    fn bytes_of_a_space_are_counted_over_all_shards() {
        let (budget, [mut one, mut other, mut third]) = shards(64 * MIB);
        let (here, there, quiet) = (one.open(1), other.open(1), third.open(2));
        let mut reads = 0;
        while !one.is_over(here, false) && !other.is_over(there, false) {
            let (shard, account) = if reads % 2 == 0 { (&mut one, here) } else { (&mut other, there) };
            shard.add(account, 0, READ);
            reads += 1;
            one.report();
            other.report();
            one.report();
        }
        assert!(reads * READ <= 32 * MIB + READ, "the space has half of the budget: {reads} reads");
        third.report();
        assert!(!third.is_over(quiet, false) && third.may_hold(quiet, 31 * MIB));
        while one.may_hold(here, READ) && other.may_hold(there, READ) {
            let (shard, account) = if reads % 2 == 0 { (&mut one, here) } else { (&mut other, there) };
            shard.hold(account, READ);
            reads += 1;
            one.report();
            other.report();
            one.report();
        }
        assert!(reads * READ <= 48 * MIB + 2 * READ, "and half of the rest for incomplete messages: {reads} reads");
        drop((one, other));
        third.report();
        assert_eq!((budget.held(), budget.spaces.lock().unwrap_or_else(PoisonError::into_inner).len()), (0, 1));
    }

    #[test]
    fn space_without_addresses_keeps_its_account_while_a_message_waits() {
        let (budget, [mut shard]) = shards(MIB);
        let account = shard.open(1);
        let mut message = WaitingBytes::NONE;
        shard.set_waiting(&mut message, account, 10);
        shard.close(account);
        assert_eq!(shard.spaces.len(), 1);
        shard.set_waiting(&mut message, Account::NONE, 0);
        shard.report();
        assert_eq!((shard.spaces.len(), shard.waiting_bytes), (0, 0));
        assert!(budget.spaces.lock().unwrap_or_else(PoisonError::into_inner).is_empty());
    }

    #[test]
    fn one_message_may_use_the_whole_budget() {
        let (_, [mut shard]) = shards(64 * MIB);
        let account = shard.open(1);
        assert!(shard.may_hold(account, 64 * MIB) && !shard.may_hold(account, 64 * MIB + 1));
    }

    #[test]
    fn space_without_addresses_keeps_its_account_while_it_holds_bytes() {
        let (_, [mut shard]) = shards(64 * MIB);
        let account = shard.open(1);
        shard.hold(account, MIB);
        shard.close(account);
        assert_eq!(shard.open(1), account);
        shard.close(account);
        shard.release(account, MIB);
        assert_eq!((shard.spaces.len(), shard.held_bytes), (0, 0));
    }

    #[test]
    fn account_of_a_space_is_removed_with_its_last_address_and_byte() {
        let (budget, [mut shard]) = shards(MIB);
        let account = shard.open(7);
        assert_eq!(shard.open(7), account);
        shard.add(account, 1, 10);
        shard.close(account);
        shard.close(account);
        shard.report();
        assert_eq!(budget.held(), 10 + MESSAGE_BYTES);
        shard.remove(account, 1, 10);
        shard.remove(Account::NONE, 1, 10);
        shard.report();
        assert_eq!((budget.held(), shard.spaces.len(), shard.accounts.len()), (0, 0, 0));
    }

    #[test]
    fn dropped_shard_returns_its_bytes_to_the_budget() {
        let (budget, [mut one, other]) = shards(MIB);
        let account = one.open(1);
        one.add(account, 0, 100);
        one.hold(account, 5);
        one.set_waiting(&mut { WaitingBytes::NONE }, account, 10);
        one.report();
        drop(other);
        assert_eq!(budget.held(), 115 + MESSAGE_BYTES);
        drop(one);
        assert_eq!(budget.held(), 0);
        assert!(budget.spaces.lock().unwrap_or_else(PoisonError::into_inner).is_empty());
    }

    proptest! {
        /// Each step: a space reads if it may, or the journal returns some of its bytes.
        #[test]
        fn spaces_together_hold_at_most_the_budget_plus_a_minimum_and_a_read_each(
            steps in prop::collection::vec((0usize..6, any::<bool>(), 1usize..=READ), 1..400),
        ) {
            let (budget, mut shards) = shards::<3>(8 * MIB);
            let accounts: Vec<_> = (0..6).map(|space| shards[space % 3].open(space as u32)).collect();
            let mut held = [0usize; 6];
            for (space, reads, bytes) in steps {
                let (shard, account) = (&mut shards[space % 3], accounts[space]);
                shard.report();
                if reads && !shard.is_over(account, false) {
                    shard.add(account, 0, bytes);
                    held[space] += bytes;
                } else if !reads {
                    let back = bytes.min(held[space]);
                    shard.remove(account, 0, back);
                    held[space] -= back;
                }
                shard.report();
                let total: usize = held.iter().sum();
                prop_assert_eq!(budget.held(), total as u64);
                prop_assert!(total <= 8 * MIB + 6 * (SPACE_BYTES_MIN as usize + READ), "{held:?}");
                let waiting = held.iter().filter(|bytes| **bytes <= SPACE_BYTES_MIN as usize);
                let readable = (0..6).filter(|one| held[*one] <= SPACE_BYTES_MIN as usize
                    && !shards[one % 3].is_over(accounts[*one], false));
                prop_assert_eq!(readable.count(), waiting.count(), "a small share is always read");
            }
        }
    }
}
