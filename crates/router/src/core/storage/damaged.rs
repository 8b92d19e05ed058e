//! Messages that the disk has lost: counted, and reported by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::arena::Key;
use super::super::treatment::Treatment;
use super::super::{AddressKey, Router};

/// Reports of one address that wait; the last one counts all further messages.
const WAITING_MAX: usize = 100;

/// Messages that the disk has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// the address that had them
    pub address: AddressKey,
    /// the name that clients use for the address
    pub name: Arc<str>,
    /// the partition, of a stream
    pub partition: Option<u32>,
    /// the number by which the log knew the first; of a stream its offset
    pub message: u64,
    /// how many they are: consecutive ones, unless this is the 100th report of the address
    pub count: u64,
}

/// The address that had messages, the name that clients use for it, and the partition of a stream.
type Origin = (AddressKey, Arc<str>, Option<u32>);

/// Reports that wait until their address is known: consecutive messages are one.
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

    /// The address is gone.
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

    /// This many messages are lost, of a stream from an offset on.
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
        // A subscription that is not declared is known by its topic.
        let address = match &address.treatment {
            Treatment::Queue(queue) if queue.is_undeclared() => queue.topic().unwrap_or(address.declared.key),
            _ => address.declared.key,
        };
        self.storage.damaged.add(address, name, partition, message, count);
    }

    /// Lost messages whose address is known, with the result of `known`; the rest waits. At most
    /// 100 reports of an address wait.
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
