//! Messages that the disk has lost: counted, and told by name.

use std::sync::Arc;

use super::super::arena::Key;
use super::super::{AddressKey, Router};

/// Messages that wait to be told; more of them are only counted.
const UNTOLD_MAX: usize = 1000;

/// A message that the disk has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// the address that had it
    pub address: AddressKey,
    /// what clients call the address
    pub name: Arc<str>,
    /// the number by which the log knew it
    pub message: u64,
}

impl Router {
    pub(super) fn count_damaged(&mut self, at: Key, name: &Arc<str>, message: u64) {
        let address = &mut self.addresses[at];
        address.stats.damaged += 1;
        if self.damaged.len() < UNTOLD_MAX {
            // A subscription that is not declared is known by its topic.
            let undeclared = address.stored.as_ref().filter(|stored| stored.is_undeclared());
            let topic = undeclared.and_then(|stored| stored.subscription.as_ref()?.topic);
            let address = topic.unwrap_or(address.declared.key);
            self.damaged.push(Damaged { address, name: Arc::clone(name), message });
        }
    }

    /// What was lost and whose address is known, with what `known` says of it; the rest waits. At most 1,000 wait.
    pub fn take_damaged<T>(&mut self, known: impl Fn(AddressKey) -> Option<T>) -> Vec<(T, Damaged)> {
        let mut told = Vec::new();
        self.damaged.retain(|damaged| match known(damaged.address) {
            Some(said) => {
                told.push((said, damaged.clone()));
                false
            }
            None => true,
        });
        told
    }
}
