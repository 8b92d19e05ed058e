//! Messages that the disk has lost: counted, and reported by name.

use std::sync::Arc;

use super::super::arena::Key;
use super::super::{AddressKey, Router};

/// Lost messages that wait to be reported; further ones are only counted.
const UNTOLD_MAX: usize = 1000;

/// A message that the disk has lost, or several of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// the address that had it
    pub address: AddressKey,
    /// the name that clients use for the address
    pub name: Arc<str>,
    /// the partition, of a stream
    pub partition: Option<u32>,
    /// the number by which the log knew it; of a stream the offset of the first
    pub message: u64,
    /// how many they are
    pub count: u64,
}

impl Router {
    pub(super) fn count_damaged(&mut self, at: Key, name: &Arc<str>, message: u64) {
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
        if self.damaged.len() < UNTOLD_MAX {
            // A subscription that is not declared is known by its topic.
            let undeclared = address.stored.as_ref().filter(|stored| stored.is_undeclared());
            let topic = undeclared.and_then(|stored| stored.subscription.as_ref()?.topic);
            let address = topic.unwrap_or(address.declared.key);
            self.damaged.push(Damaged { address, name: Arc::clone(name), partition, message, count });
        }
    }

    /// Lost messages whose address is known, with the result of `known`; the rest waits. At most
    /// 1,000 wait.
    pub fn take_damaged<T>(&mut self, known: impl Fn(AddressKey) -> Option<T>) -> Vec<(T, Damaged)> {
        let mut notified = Vec::new();
        self.damaged.retain(|damaged| match known(damaged.address) {
            Some(reported) => {
                notified.push((reported, damaged.clone()));
                false
            }
            None => true,
        });
        notified
    }
}
