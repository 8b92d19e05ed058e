//! Which stored addresses live where, and under which number the log knows them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use enmasse_journal::log::{Batch, Freed, Recovered, RecoveredQueue};
use enmasse_router::core::{AddressKey, Digests, Shelf};
use enmasse_router::shard::Shelving;
use enmasse_router::table::{AddressEntry, Diff, Storage, Table};

use crate::node::declared;

/// What the log knew at the start and no Plan has asked for yet, and the next number to give out.
#[derive(Debug, Default)]
pub(crate) struct Shelves {
    known: HashMap<[u8; 16], RecoveredQueue>,
    next_queue: u32,
}

/// What follows from a Plan for stored addresses.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// for the log, before anything else
    pub(crate) batch: Batch,
    /// for each worker
    pub(crate) shelvings: Vec<Vec<Shelving>>,
    /// for [`Shelves::settle`]
    pub(crate) next_queue: u32,
}

impl Shelves {
    /// What a log knew.
    pub(crate) fn new(recovered: Recovered) -> Self {
        let next_queue = recovered.next_queue.max(1);
        let known = recovered.queues.into_iter().filter_map(|queue| Some((queue.declared.as_ref()?.0, queue)));
        Self { known: known.collect(), next_queue }
    }

    /// Stored addresses that are new or have changed get their homes: those of one space one shard, so that what goes
    /// from one to the other crosses nothing (`docs/decisions/0018-stored-home.md`).
    /// Changes nothing here: [`Shelves::settle`] does, once the log has the batch.
    pub(crate) fn follow(&self, diff: &Diff, next: &Table, workers: u16) -> Changes {
        let shelvings = (0..workers).map(|_| Vec::new()).collect();
        let mut changes = Changes { shelvings, next_queue: self.next_queue, ..Changes::default() };
        let mut asked_for = HashSet::new();
        for entry in &diff.added {
            let Some(storage) = &entry.storage else { continue };
            let home = entry.home.claim((entry.space.0 % u32::from(workers)) as u16);
            let (dead_letter, expiry) = targets(entry, storage, next);
            asked_for.insert(uid_bytes(&entry.uid));
            let shelf = self.shelf(entry, storage, &mut changes).with_targets(dead_letter, expiry);
            let shelf = shelf.with_last_value_key(storage.last_value_key.clone());
            changes.shelvings[usize::from(home)].push(Shelving::Open(entry.declared(), Box::new(shelf)));
        }
        for entry in diff.changed.iter().chain(redirected(diff, next)) {
            let (Some(storage), Some(home)) = (&entry.storage, entry.home.get()) else { continue };
            let (dead_letter, expiry) = targets(entry, storage, next);
            let (settings, last_value_key) = (Box::new(storage.settings.clone()), storage.last_value_key.clone());
            let change = Shelving::Change(entry.key, settings, dead_letter, expiry, last_value_key);
            changes.shelvings[usize::from(home)].push(change);
        }
        for (_, gone) in self.known.iter().filter(|(uid, _)| !asked_for.contains(*uid)) {
            let mut freed = Freed::default();
            gone.messages().for_each(|message| freed.add(message.place));
            changes.batch.drop_queue(gone.queue, &freed);
        }
        changes
    }

    /// The log has what follows from a Plan: what it knew at the start has found its home, or is gone.
    pub(crate) fn settle(&mut self, next_queue: u32) {
        self.known.clear();
        self.next_queue = next_queue;
    }

    fn shelf(&self, entry: &AddressEntry, storage: &Storage, changes: &mut Changes) -> Shelf {
        let (name, settings) = (entry.name.clone(), storage.settings.clone());
        if !storage.on_disk {
            return Shelf::new(name, settings, None);
        }
        let uid = uid_bytes(&entry.uid);
        match self.known.get(&uid) {
            Some(known) => Shelf::restored(name, settings, known),
            None => {
                let number = changes.next_queue;
                changes.next_queue += 1;
                changes.batch.declare(number, &uid, &entry.name);
                Shelf::new(name, settings, Some(number))
            }
        }
    }
}

/// Addresses that are as before, and name one for their dead letters or for what expires that is another now.
fn redirected<'a>(diff: &'a Diff, next: &'a Table) -> impl Iterator<Item = &'a Arc<AddressEntry>> {
    let added: HashSet<AddressKey> =
        diff.added.iter().filter(|entry| entry.storage.is_some()).map(|entry| entry.key).collect();
    let told: HashSet<AddressKey> = diff.changed.iter().map(|entry| entry.key).collect();
    let stored = (!added.is_empty()).then(|| declared(next)).into_iter().flatten();
    stored.filter(move |entry| {
        let Some(storage) = entry.storage.as_ref() else { return false };
        let (dead_letter, expiry) = targets(entry, storage, next);
        let names = |key: Option<AddressKey>| key.is_some_and(|key| added.contains(&key));
        !added.contains(&entry.key) && !told.contains(&entry.key) && (names(dead_letter) || names(expiry))
    })
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
