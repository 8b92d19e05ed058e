//! Sums what the workers count into the statistics of the node.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use enmasse_router::core::{AddressKey, AddressStats, ReceiveBudget};
use enmasse_router::table::{Space, Table};

use crate::shared::Shared;
use crate::stats::{AddressLine, JournalLine, NodeStats, WorkerAnswer};

impl NodeStats {
    pub(crate) fn assemble(shared: &Shared, budget: &ReceiveBudget, table: &Table, answers: Vec<WorkerAnswer>) -> Self {
        let mut counted: HashMap<AddressKey, AddressStats> = HashMap::new();
        let mut queues = HashMap::new();
        let mut workers = Vec::with_capacity(answers.len());
        for answer in answers {
            workers.push(answer.worker);
            // A direct address may have had several homes, each with its counters.
            answer.addresses.iter().for_each(|(key, stats)| counted.entry(*key).or_default().add_home(stats));
            queues.extend(answer.queues);
        }
        let (internal, notified): (Vec<&Space>, Vec<&Space>) = table.spaces().partition(|space| space.is_internal());
        let mut addresses: Vec<AddressLine> = notified
            .into_iter()
            .flat_map(|space| space.addresses().map(|address| (space.name(), address)))
            .map(|(space, address)| {
                let stats = counted.get(&address.key).copied().unwrap_or_default();
                let line = AddressLine::new(&address.uid, space, &address.name, &stats);
                match queues.get(&address.key) {
                    Some(queue) => line.with_queue(queue),
                    None => line,
                }
            })
            .collect();
        let within = internal.iter().map(|space| u64::from(space.taken().0)).sum();
        addresses.sort_by(|a, b| (&a.space, &a.name).cmp(&(&b.space, &b.name)));
        Self {
            plan_version: table.version(),
            connections: (shared.connection_limits.count() as u64).saturating_sub(within),
            connections_max: shared.connection_limits.count_max as u64,
            accept_pauses: shared.accept_pauses.load(Ordering::Relaxed),
            received_bytes: budget.held(),
            receive_budget_bytes: budget.bytes(),
            workers,
            journal: shared.journal.as_ref().map(|journal| JournalLine::of(&journal.stats())),
            addresses,
        }
    }
}
