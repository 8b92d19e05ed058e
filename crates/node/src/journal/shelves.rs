//! Which stored addresses live where, and under which number the log knows them.

use std::collections::HashMap;

use enmasse_journal::log::{Batch, Freed, Recovered, RecoveredQueue};
use enmasse_router::core::{AddressKey, Digests, Shelf};
use enmasse_router::shard::Shelving;
use enmasse_router::table::{AddressEntry, Diff, Storage, Table};

/// What the log knew at the start and no Plan has asked for yet, and the next number to give out.
#[derive(Debug, Default)]
pub(crate) struct Shelves {
    known: HashMap<[u8; 16], RecoveredQueue>,
    next_queue: u32,
    /// a Plan has been applied: what it did not ask for is gone
    settled: bool,
}

/// What follows from a Plan for stored addresses.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// for the log, before anything else
    pub(crate) batch: Batch,
    /// for each worker
    pub(crate) shelvings: Vec<Vec<Shelving>>,
}

impl Shelves {
    /// What a log knew.
    pub(crate) fn new(recovered: Recovered) -> Self {
        let next_queue = recovered.next_queue.max(1);
        let known = recovered.queues.into_iter().filter_map(|queue| Some((queue.declared.as_ref()?.0, queue)));
        Self { known: known.collect(), next_queue, settled: false }
    }

    /// Stored addresses that are new or have changed get their homes: those of one space one shard, so that what goes
    /// from one to the other crosses nothing (`docs/decisions/0018-stored-home.md`).
    pub(crate) fn follow(&mut self, diff: &Diff, next: &Table, workers: u16) -> Changes {
        let mut changes = Changes { shelvings: (0..workers).map(|_| Vec::new()).collect(), ..Changes::default() };
        for entry in &diff.added {
            let Some(storage) = &entry.storage else { continue };
            let home = entry.home.claim((entry.space.0 % u32::from(workers)) as u16);
            let (dead_letter, expiry) = targets(entry, storage, next);
            let shelf = self.shelf(entry, storage, &mut changes.batch).with_targets(dead_letter, expiry);
            let shelf = shelf.with_last_value_key(storage.last_value_key.clone());
            changes.shelvings[usize::from(home)].push(Shelving::Open(entry.declared(), Box::new(shelf)));
        }
        for entry in &diff.changed {
            let (Some(storage), Some(home)) = (&entry.storage, entry.home.get()) else { continue };
            let (dead_letter, expiry) = targets(entry, storage, next);
            let (settings, last_value_key) = (Box::new(storage.settings.clone()), storage.last_value_key.clone());
            let change = Shelving::Change(entry.key, settings, dead_letter, expiry, last_value_key);
            changes.shelvings[usize::from(home)].push(change);
        }
        if !self.settled {
            self.settled = true;
            for (_, gone) in self.known.drain() {
                let mut freed = Freed::default();
                gone.messages().for_each(|message| freed.add(message.place));
                changes.batch.drop_queue(gone.queue, &freed);
            }
        }
        changes
    }

    fn shelf(&mut self, entry: &AddressEntry, storage: &Storage, batch: &mut Batch) -> Shelf {
        let (name, settings) = (entry.name.clone(), storage.settings.clone());
        if !storage.on_disk {
            return Shelf::new(name, settings, None);
        }
        let uid = uid_bytes(&entry.uid);
        match self.known.remove(&uid) {
            Some(known) => Shelf::restored(name, settings, &known),
            None => {
                let number = self.next_queue;
                self.next_queue += 1;
                batch.declare(number, &uid, &entry.name);
                Shelf::new(name, settings, Some(number))
            }
        }
    }
}

/// The addresses that an address names; one that is not declared is none.
fn targets(entry: &AddressEntry, storage: &Storage, table: &Table) -> (Option<AddressKey>, Option<AddressKey>) {
    let find = |name: &Option<Box<str>>| {
        let found = table.space(entry.space)?.resolve(name.as_deref()?)?;
        found.storage.is_some().then_some(found.key)
    };
    (find(&storage.dead_letter), find(&storage.expiry))
}

/// A UUID as its bytes; any other uid by a digest of 128 bits.
fn uid_bytes(uid: &str) -> [u8; 16] {
    let digits: Vec<u8> = uid.bytes().filter(|byte| *byte != b'-').collect();
    let hex = std::str::from_utf8(&digits).ok().filter(|digits| digits.len() == 32);
    if let Some(number) = hex.and_then(|digits| u128::from_str_radix(digits, 16).ok()) {
        return number.to_be_bytes();
    }
    Digests::new([0; 16]).long(uid.as_bytes()).to_be_bytes()
}
