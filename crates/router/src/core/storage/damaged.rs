//! Lost messages: counted, and reported with the name of their address.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::arena::Key;
use super::super::{AddressKey, Router};

/// Bound of the waiting reports of one address; the last one counts all further messages.
const WAITING_MAX: usize = 100;

/// A report of lost messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// the address of the messages
    pub address: AddressKey,
    /// the name that clients use for the address
    pub name: Arc<str>,
    /// the partition, if the address is a stream
    pub partition: Option<u32>,
    /// number of the first message in the log; its offset in a stream
    pub message: u64,
    /// number of messages: consecutive ones, except in the 100th report of an address
    pub count: u64,
}

/// The address of lost messages, the name that clients use for it, and the partition of a stream.
type Origin = (AddressKey, Arc<str>, Option<u32>);

/// Reports that wait until their address is known. Consecutive messages are one report.
#[derive(Debug, Default)]
pub(in crate::core) struct LossReports {
    /// first message and count
    waiting: BTreeMap<Origin, Vec<(u64, u64)>>,
}

impl LossReports {
    fn add(&mut self, address: AddressKey, name: &Arc<str>, partition: Option<u32>, message: u64, count: u64) {
        let reports = self.waiting.entry((address, Arc::clone(name), partition)).or_default();
        let is_full = reports.len() >= WAITING_MAX;
        match reports.last_mut() {
            Some((first, known)) if is_full || first.saturating_add(*known) == message => *known += count,
            _ => reports.push((message, count)),
        }
    }

    /// Drops the reports of a deleted address.
    pub(in crate::core) fn forget(&mut self, address: AddressKey) {
        self.waiting.retain(|(of, _, _), _| *of != address);
    }

    fn take<T: Clone>(&mut self, known: impl Fn(AddressKey) -> Option<T>) -> Vec<(T, Damaged)> {
        let mut taken = Vec::new();
        self.waiting.retain(|(address, name, partition), reports| {
            let Some(known) = known(*address) else { return true };
            taken.extend(reports.drain(..).map(|(message, count)| {
                let (address, partition) = (*address, *partition);
                (known.clone(), Damaged { address, name: Arc::clone(name), partition, message, count })
            }));
            false
        });
        taken
    }
}

impl Router {
    pub(in crate::core) fn count_damaged(&mut self, at: Key, name: &Arc<str>, message: u64) {
        self.count_lost(at, name, None, message, 1);
    }

    /// Counts and reports lost messages; for a stream `message` is the first offset.
    pub(in crate::core) fn count_lost(
        &mut self,
        at: Key,
        name: &Arc<str>,
        partition: Option<u32>,
        message: u64,
        count: u64,
    ) {
        let address = &mut self.addresses[at];
        address.stats.damaged += count;
        // An undeclared subscription is reported under its topic.
        let undeclared = address.as_queue().filter(|queue| queue.is_undeclared());
        let address = undeclared.and_then(|queue| queue.topic()).unwrap_or(address.declared.key);
        self.storage.damaged.add(address, name, partition, message, count);
    }

    /// Takes the reports whose address is known, with the result of `known`; the others wait, at
    /// most 100 for each address.
    pub fn take_damaged<T: Clone>(&mut self, known: impl Fn(AddressKey) -> Option<T>) -> Vec<(T, Damaged)> {
        self.storage.damaged.take(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(reports: &mut LossReports) -> Vec<(u32, u64, u64)> {
        let taken = reports.take(Some).into_iter();
        taken.map(|(known, damaged)| (known.0, damaged.message, damaged.count)).collect()
    }

    #[test]
    fn consecutive_messages_of_an_address_are_one_report() {
        let mut reports = LossReports::default();
        let [orders, bills] = ["orders", "bills"].map(Arc::from);
        for message in [1, 2, 3, 7, 8] {
            reports.add(AddressKey(1), &orders, None, message, 1);
            reports.add(AddressKey(2), &bills, None, message + 10, 1);
        }
        reports.add(AddressKey(1), &orders, Some(1), 9, 5);
        assert_eq!(reports.take(|address| (address.0 == 3).then_some(())), []);
        let expected = [(1, 1, 3), (1, 7, 2), (1, 9, 5), (2, 11, 3), (2, 17, 2)];
        assert_eq!(reported(&mut reports), expected);
        assert_eq!(reported(&mut reports), []);
    }

    #[test]
    fn the_last_report_of_an_address_counts_what_is_too_much() {
        let mut reports = LossReports::default();
        let (orders, bills) = (Arc::from("orders"), Arc::from("bills"));
        (0..1000).for_each(|number| reports.add(AddressKey(1), &orders, None, 2 * number, 1));
        reports.add(AddressKey(2), &bills, None, 0, 1);
        let taken = reported(&mut reports);
        assert_eq!((taken.len(), taken[99], taken[100]), (101, (1, 198, 901), (2, 0, 1)));
    }

    #[test]
    fn an_address_that_is_gone_is_not_reported() {
        let mut reports = LossReports::default();
        reports.add(AddressKey(1), &Arc::from("orders"), None, 0, 1);
        reports.forget(AddressKey(1));
        assert_eq!(reported(&mut reports), []);
    }
}
