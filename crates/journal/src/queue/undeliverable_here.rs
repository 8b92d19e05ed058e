//! `modified(undeliverable-here)`: the consumers to which a message is not delivered (3.4.5).

use std::collections::HashMap;

/// Maximum names of one message; beyond it the oldest is forgotten.
const NAMES_MAX: usize = 64;

/// The names of the consumers that declared a message undeliverable, by message. Usually empty.
#[derive(Debug, Default)]
pub(super) struct UndeliverableHere {
    by_message: HashMap<u64, Vec<u64>>,
    /// the number of messages that are undeliverable to each name
    by_name: HashMap<u64, u32>,
}

impl UndeliverableHere {
    pub(super) fn mark_undeliverable(&mut self, at: u64, name: u64) {
        let names = self.by_message.entry(at).or_default();
        if names.contains(&name) {
            return;
        }
        names.push(name);
        let forgotten = (names.len() > NAMES_MAX).then(|| names.remove(0));
        *self.by_name.entry(name).or_default() += 1;
        if let Some(forgotten) = forgotten {
            self.count_down(forgotten);
        }
    }

    pub(super) fn is_undeliverable(&self, at: u64, name: u64) -> bool {
        self.by_message.get(&at).is_some_and(|names| names.contains(&name))
    }

    /// The names to which a message is undeliverable.
    pub(super) fn names_of(&self, at: u64) -> &[u64] {
        self.by_message.get(&at).map_or(&[], Vec::as_slice)
    }

    /// Whether any message is undeliverable to a name, so that its consumers need a cursor.
    pub(super) fn has_name(&self, name: u64) -> bool {
        self.by_name.contains_key(&name)
    }

    pub(super) fn forget(&mut self, at: u64) {
        for name in self.by_message.remove(&at).unwrap_or_default() {
            self.count_down(name);
        }
    }

    fn count_down(&mut self, name: u64) {
        if let Some(count) = self.by_name.get_mut(&name) {
            *count -= 1;
            if *count == 0 {
                self.by_name.remove(&name);
            }
        }
    }
}
