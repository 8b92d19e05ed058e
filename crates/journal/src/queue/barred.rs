//! `modified(undeliverable-here)`: which consumers may not have which message.

use std::collections::HashMap;

/// Names that one message is kept from; the oldest are forgotten beyond.
const NAMES_MAX: usize = 64;

/// By message: the names of consumers that sent it away. Few, as a rule none.
#[derive(Debug, Default)]
pub(super) struct Barred {
    by_message: HashMap<u64, Vec<u64>>,
    /// how many messages each name is kept from
    by_name: HashMap<u64, u32>,
}

impl Barred {
    pub(super) fn bar(&mut self, at: u64, name: u64) {
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

    pub(super) fn is_barred(&self, at: u64, name: u64) -> bool {
        self.by_message.get(&at).is_some_and(|names| names.contains(&name))
    }

    /// The names that a message is kept from.
    pub(super) fn names_of(&self, at: u64) -> &[u64] {
        self.by_message.get(&at).map_or(&[], Vec::as_slice)
    }

    /// Whether a consumer of that name has to look before it takes.
    pub(super) fn knows(&self, name: u64) -> bool {
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
