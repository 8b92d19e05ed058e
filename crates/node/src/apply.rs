//! Applies a Plan, as far as possible: rights and removals always take effect, and an address
//! without room in the journal is reported with the reason.

use std::collections::HashSet;
use std::sync::Arc;

use enmasse_journal::log::{Refused, WriteBatch};
use enmasse_router::plan::Plan;
use enmasse_router::shard::{Changes, Openings};
use enmasse_router::table::{AddressEntry, Diff, Table, retained_uid};

use crate::command::Command;
use crate::confirmation::{Applied, Cause, Failed, Proof, Reason, Unopened};
use crate::error::NodeError;
use crate::manage::declared;
use crate::node::{Node, lock};

impl Node {
    /// Puts a Plan in force, on every worker, before it returns. Unchanged addresses are not
    /// affected. An address for which the journal has no room is treated as absent from the Plan; a
    /// stream without room for more partitions keeps those it has.
    ///
    /// # Errors
    /// `Plan` if the Plan is invalid: then nothing has changed. `Busy` if a worker did not answer:
    /// apply it again.
    pub fn apply(&self, plan: &Plan) -> Result<Applied, NodeError> {
        self.running()?;
        let mut table = lock(&self.table);
        let (next, difference, unopened) = self.change_stored_addresses(plan, &table)?;
        let removed: Arc<[_]> = difference.removed.iter().map(|address| address.key).collect();
        // From here on the workers use this table, even one that is slow to confirm, so the next
        // Plan builds on it.
        *table = Arc::clone(&next);
        self.certificates.follow(Arc::clone(&next));
        self.shared.web_access.follow(&next);
        *lock(&self.unopened) = unopened;
        self.ask(|done| Command::Apply(Arc::clone(&next), Arc::clone(&removed), done))?;
        Ok(Applied {
            added: difference.added.len(),
            removed: difference.removed.len(),
            changed: difference.changed.len(),
            proof: self.prove(&next),
        })
    }

    /// The state that is served now: that of the last `apply`, without later failures.
    ///
    /// # Errors
    /// `Stopped`.
    pub fn proof(&self) -> Result<Proof, NodeError> {
        self.running()?;
        let table = Arc::clone(&lock(&self.table));
        Ok(self.prove(&table))
    }

    fn prove(&self, table: &Table) -> Proof {
        let mut left = lock(&self.unopened).clone();
        let stopped = self.journal().and_then(|journal| journal.stopped);
        let stopped = stopped.map(|why| (Reason::JournalStopped, stopped_message(&why)));
        let mut active = Vec::new();
        for address in declared(table) {
            match &stopped {
                _ if left.contains_key(&*address.uid) => {}
                Some(cause) if is_on_disk(address) => {
                    left.insert(address.uid.to_string(), cause.clone());
                }
                _ => active.push(address.uid.to_string()),
            }
        }
        active.sort_unstable();
        let failed = left.into_iter().map(|(uid, (reason, message))| Failed { uid, reason, message }).collect();
        Proof { version: table.version(), active, failed }
    }

    /// Assigns stored addresses their homes and their numbers in the journal before any link can
    /// attach to them.
    fn change_stored_addresses(&self, plan: &Plan, table: &Table) -> Result<(Arc<Table>, Diff, Unopened), NodeError> {
        let mut recovered_queues = lock(&self.recovered_queues);
        let workers = self.shared.mailboxes.len() as u16;
        let follow = |plan: &Plan| -> Result<(Arc<Table>, Diff, Changes), NodeError> {
            let next = Arc::new(Table::compile(plan, table)?);
            let difference = table.diff(&next);
            let mut changes = recovered_queues.follow(&difference, &next, workers);
            if self.shared.journal.is_none() {
                let on_disk = difference.added.iter().filter(|address| is_on_disk(address));
                changes.openings.extend(on_disk.map(|address| (address.uid.to_string(), 0)));
            }
            Ok((next, difference, changes))
        };
        let (mut next, mut difference, mut changes) = follow(plan)?;
        let mut unopened = Unopened::new();
        if let Err(cause) = self.commit(&mut changes)
            && !changes.openings.is_empty()
        {
            let openings = std::mem::take(&mut changes.openings);
            (next, difference, changes) = follow(&without(plan, &openings))?;
            // If the journal accepts no records, the next start deletes a removed address, because
            // no Plan names it.
            let _ = self.commit(&mut changes);
            // The addresses of the node itself are in no Plan: their failure is that of the others.
            let declared: HashSet<&str> =
                plan.spaces.iter().flat_map(|space| &space.addresses).map(|address| &*address.uid).collect();
            let openings = openings.into_keys().filter(|uid| declared.contains(&**uid));
            unopened = openings.map(|uid| (uid, cause.clone())).collect();
        }
        recovered_queues.settle(changes.settled);
        for (mailbox, address_changes) in self.shared.mailboxes.iter().zip(changes.address_changes) {
            if !address_changes.is_empty() {
                mailbox.post([Command::ChangeStoredAddresses(address_changes)]);
            }
        }
        Ok((next, difference, unopened))
    }

    fn commit(&self, changes: &mut Changes) -> Result<(), Cause> {
        let Some(journal) = &self.shared.journal else {
            let what = "the node has no journal: give it one, or the address durability memory";
            return if changes.openings.is_empty() { Ok(()) } else { Err((Reason::NotOpened, what.to_owned())) };
        };
        let batch: WriteBatch = std::mem::take(&mut changes.batch);
        if batch.is_empty() {
            return Ok(());
        }
        journal.commit(batch).map_err(|refused| match refused {
            Refused::Stopped(why) | Refused::Unsure(why) => (Reason::JournalStopped, stopped_message(&why)),
            refused => (Reason::NotOpened, format!("the journal cannot open it: {refused}")),
        })
    }
}

fn is_on_disk(address: &AddressEntry) -> bool {
    address.storage.as_ref().is_some_and(|storage| storage.on_disk)
}

fn stopped_message(why: &str) -> String {
    format!(
        "the journal has stopped: {why}; it accepts no messages and delivers stored ones: repair the disk and restart"
    )
}

/// The Plan without the addresses that could not be opened; a stream keeps the partitions that it
/// has. Addresses that name such an address as dead-letter address keep their dead letters, as if
/// it were not declared.
fn without(plan: &Plan, openings: &Openings) -> Plan {
    let mut plan = plan.clone();
    for space in &mut plan.spaces {
        // Without its queue of retained messages a space keeps nothing for clients of MQTT.
        space.mqtt.take_if(|_| openings.contains_key(&retained_uid(&space.uid)));
        let mut gone = HashSet::new();
        space.addresses.retain_mut(|address| match openings.get(&address.uid) {
            None => true,
            Some(0) => {
                gone.insert(address.name.clone());
                false
            }
            Some(partitions) => {
                address.partitions = Some(*partitions);
                true
            }
        });
        for address in &mut space.addresses {
            if address.deadletter.take_if(|name| gone.contains(name)).is_some()
                && let Some(redelivery) = &mut address.redelivery
            {
                redelivery.attempts = None;
            }
            address.expiry.take_if(|name| gone.contains(name));
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::NodeConfig;
    use crate::testing::Folder;

    fn plan(version: u64, user: &str, addresses: &[Value]) -> Plan {
        let users = json!([{"name": user, "rights": [{"pattern": "#", "operations": ["send"]}]}]);
        let authentication = json!({"type": "standard", "anonymous": false, "mechanisms": ["PLAIN"]});
        let space = json!({"uid": "s", "names": ["s", "s.test"], "authentication": authentication, "users": users,
            "addresses": addresses});
        serde_json::from_value(json!({"version": version, "spaces": [space]})).unwrap()
    }

    fn address(name: &str, kind: &str) -> Value {
        json!({"uid": name, "name": name, "type": kind})
    }

    fn started(folder: &Folder) -> Node {
        let journal = Some(folder.path("journal"));
        Node::start(&NodeConfig { workers: 1, journal, journal_segment_bytes: 1 << 20, ..NodeConfig::default() })
            .unwrap()
    }

    fn end_journal(node: &Node) {
        node.shared.journal.as_ref().unwrap().stop();
        for thread in std::mem::take(&mut *lock(&node.journal_threads)) {
            thread.join().unwrap();
        }
    }

    fn unopened(proof: &Proof) -> Vec<(&str, Reason)> {
        proof.failed.iter().map(|failed| (&*failed.uid, failed.reason)).collect()
    }

    #[test]
    fn unopened_queue_is_reported_and_the_rest_of_the_plan_takes_effect() {
        let folder = Folder::new("apply");
        let node = started(&folder);
        let old = [address("kept", "queue"), address("goes", "anycast")];
        assert_eq!(node.apply(&plan(1, "alice", &old)).unwrap().proof.failed, []);
        end_journal(&node);
        let (mut referring, mut memory) = (address("kept", "queue"), address("memory", "queue"));
        referring["deadletter"] = json!("dead");
        referring["redelivery"] = json!({"attempts": 3});
        memory["durability"] = json!("memory");
        let new =
            [referring, address("dead", "deadletter"), address("disk", "queue"), memory, address("new", "anycast")];
        let applied = node.apply(&plan(2, "bob", &new)).unwrap();
        assert_eq!((applied.added, applied.removed), (2, 1));
        assert_eq!(
            (applied.proof.version, &*applied.proof.active),
            (2, &["kept", "memory", "new"].map(String::from)[..])
        );
        assert_eq!(unopened(&applied.proof), [("dead", Reason::JournalStopped), ("disk", Reason::JournalStopped)]);
        let table = Arc::clone(&lock(&node.table));
        let kept = declared(&table).find(|address| &*address.uid == "kept").unwrap();
        assert_eq!(kept.storage.as_ref().map(|storage| storage.settings.dead_letter), Some(false));
        let authenticated =
            |name: &str| enmasse_router::table::Authenticated { user: Some(name.to_owned()), ..Default::default() };
        let space = table.spaces().next().unwrap();
        let may = |name| space.rights(&authenticated(name)).may(enmasse_router::plan::Operation::Send, "new");
        assert!(may("bob") && !may("alice"));
        assert_eq!(node.proof().unwrap(), applied.proof);
    }

    #[test]
    fn reapplied_plan_opens_an_address_that_failed_before() {
        let node = Node::start(&NodeConfig { workers: 1, ..NodeConfig::default() }).unwrap();
        let mut queue = address("disk", "queue");
        let proof = node.apply(&plan(1, "alice", std::slice::from_ref(&queue))).unwrap().proof;
        assert_eq!((proof.active.len(), unopened(&proof)), (0, vec![("disk", Reason::NotOpened)]));
        assert!(proof.failed[0].message.contains("no journal"), "{:?}", proof.failed);
        queue["durability"] = json!("memory");
        let proof = node.apply(&plan(1, "alice", &[queue])).unwrap().proof;
        assert_eq!((proof.active, proof.failed), (vec!["disk".to_owned()], vec![]));
    }

    #[test]
    fn addresses_of_the_node_itself_are_not_reported() {
        let mut plan = plan(1, "alice", &[address("disk", "queue"), address("new", "anycast")]);
        let bounds = json!({"retainedMessages": 10, "retainedBytes": 1000, "sessionExpiryS": 60});
        plan.spaces[0].mqtt = serde_json::from_value(bounds).unwrap();
        let node = Node::start(&NodeConfig { workers: 1, ..NodeConfig::default() }).unwrap();
        let proof = node.apply(&plan).unwrap().proof;
        assert_eq!((&*proof.active, unopened(&proof)), (&["new".to_owned()][..], vec![("disk", Reason::NotOpened)]));
        let has_store = |node: &Node| lock(&node.table).spaces().next().unwrap().mqtt().is_some();
        assert!(!has_store(&node), "nothing can be kept");
        let folder = Folder::new("apply");
        let node = started(&folder);
        let proof = node.apply(&plan).unwrap().proof;
        assert_eq!((&*proof.active, unopened(&proof)), (&["disk", "new"].map(String::from)[..], vec![]));
        assert!(has_store(&node));
    }

    #[test]
    fn stream_that_cannot_add_partitions_keeps_the_ones_it_has() {
        let folder = Folder::new("apply");
        let node = started(&folder);
        let stream = |partitions: u32| {
            let mut topic = address("events", "topic");
            topic["retention"] = json!({"bytes": 1_000_000});
            topic["partitions"] = json!(partitions);
            topic
        };
        assert_eq!(node.apply(&plan(1, "alice", &[stream(2)])).unwrap().proof.active, ["events"]);
        end_journal(&node);
        let applied = node.apply(&plan(2, "alice", &[stream(4)])).unwrap();
        assert_eq!((applied.removed, unopened(&applied.proof)), (0, vec![("events", Reason::JournalStopped)]));
        let table = Arc::clone(&lock(&node.table));
        let storage = declared(&table).next().unwrap().storage.as_ref().unwrap();
        assert_eq!(storage.stream.as_ref().map(|stream| stream.partitions), Some(2));
    }
}
