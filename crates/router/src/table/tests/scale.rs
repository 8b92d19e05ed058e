//! Ten thousand addresses, a thousand spaces: lookups succeed, and a small change stays small.

use std::sync::Arc;

use proptest::prelude::*;

use crate::plan::AddressType::{Anycast, Multicast};
use crate::plan::{Plan, Space};
use crate::table::tests::{plan, space, table};
use crate::table::{SpaceHints, Table};

const ADDRESSES: usize = 10_000;

/// Half of them multicast, three levels deep.
fn large() -> Space {
    let names: Vec<String> = (0..ADDRESSES).map(|n| format!("site/{}/unit-{n}", n % 100)).collect();
    let declared: Vec<_> =
        names.iter().enumerate().map(|(n, name)| (&**name, if n % 2 == 0 { Anycast } else { Multicast })).collect();
    space("large", &declared)
}

#[test]
fn each_of_ten_thousand_addresses_is_found_and_has_a_key_of_its_own() {
    let large = large();
    let table = table(&plan(1, [large.clone()]));
    let compiled = table.spaces().next().unwrap();
    let mut keys = std::collections::HashSet::new();
    for (n, address) in large.addresses.iter().enumerate() {
        let found = compiled.resolve(&address.name).unwrap();
        assert_eq!(*found.name, *address.name);
        assert!(keys.insert(found.key));
        let below = compiled.resolve(&format!("{}/a/b", address.name));
        assert_eq!(below.map(|entry| entry.key), (n % 2 == 1).then_some(found.key), "only multicast covers below");
    }
    assert_eq!(compiled.resolve_receiver("site/7/+").len(), 100, "of a hundred sites every other is multicast");
    assert_eq!(compiled.resolve_receiver("#").len(), ADDRESSES / 2);
}

#[test]
fn one_address_more_leaves_ten_thousand_untouched() {
    let mut large = large();
    let first = table(&plan(1, [large.clone()]));
    large.addresses.push(space("more", &[("one/more", Anycast)]).addresses.remove(0));
    let second = Table::compile(&plan(2, [large]), &first).unwrap();
    let diff = first.diff(&second);
    assert_eq!((diff.added.len(), diff.removed.len(), diff.changed.len()), (1, 0, 0));
    let (old, new) = (first.spaces().next().unwrap(), second.spaces().next().unwrap());
    assert!(old.addresses().all(|entry| Arc::ptr_eq(entry, new.resolve(&entry.name).unwrap())));
}

#[test]
fn each_of_a_thousand_spaces_is_found_by_each_clue() {
    let names: Vec<String> = (0..1_000).map(|n| format!("tenant-{n}")).collect();
    let table = table(&plan(1, names.iter().map(|name| space(name, &[("orders", Anycast)]))));
    for name in &names {
        let user = format!("alice@{name}");
        for hints in [
            SpaceHints { sni: Some(name), ..SpaceHints::default() },
            SpaceHints { sasl_hostname: Some(name), ..SpaceHints::default() },
            SpaceHints { user: Some(&user), ..SpaceHints::default() },
            SpaceHints { open_hostname: Some(name), ..SpaceHints::default() },
        ] {
            let found = table.space(table.space_for(&hints).unwrap()).unwrap();
            assert_eq!(found.uid(), format!("uid of {name}"));
            assert_eq!(found.resolve("orders").unwrap().space, found.key(), "each has its own `orders`");
        }
    }
    assert!(table.space_for(&SpaceHints::default()).is_err());
}

/// Plans of up to four spaces of up to six addresses each, with few names, so that plans have much
/// in common.
fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let address = (prop::sample::select(vec!["a", "b", "c", "d/e", "#"]), any::<bool>(), 1u32..3);
    let addresses = prop::collection::btree_map("[a-f]", address, 0..6);
    let spaces = prop::collection::btree_map("[s-v]", addresses, 0..4);
    prop::collection::vec(spaces, 2..6).prop_map(|plans| {
        let numbered = plans.into_iter().zip(1..);
        numbered
            .map(|(spaces, version)| plan(version, spaces.into_iter().map(|(name, of)| filled(&name, of))))
            .collect()
    })
}

/// A space with addresses given as uid -> (name, multicast, capacity); names are unique.
fn filled(name: &str, addresses: std::collections::BTreeMap<String, (&str, bool, u32)>) -> Space {
    let mut space = space(name, &[]);
    for (uid, (name, multicast, capacity)) in addresses {
        if space.addresses.iter().all(|address| address.name != name) {
            let kind = if multicast { Multicast } else { Anycast };
            let mut address = super::space("one", &[(name, kind)]).addresses.remove(0);
            address.uid = uid;
            address.limits.link_capacity = capacity;
            space.addresses.push(address);
        }
    }
    space
}

/// The content of a table, without keys: space, uid, name, kind and capacity of each address.
fn contents(table: &Table) -> Vec<(String, String, String, bool, u32)> {
    let of = |space: &crate::table::Space| {
        let uid = space.uid().to_owned();
        let entry = move |entry: &Arc<crate::table::AddressEntry>| {
            (uid.clone(), entry.uid.to_string(), entry.name.to_string(), entry.covers_below(), entry.link_capacity)
        };
        space.addresses().map(entry).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = table.spaces().flat_map(of).collect();
    all.sort();
    all
}

proptest! {
    /// For any sequence of plans the table equals that of the last plan, a key identifies only one
    /// address, and the difference converts the old table into the new one.
    #[test]
    fn table_equals_that_of_its_plan_and_diff_leads_to_it_from_the_previous(plans in plans()) {
        let mut before = table(&plan(0, []));
        let mut owners = std::collections::HashMap::new();
        for plan in &plans {
            let after = Table::compile(plan, &before).unwrap();
            prop_assert_eq!(contents(&after), contents(&table(plan)), "earlier plans have no effect");
            for entry in after.spaces().flat_map(|space| space.addresses()) {
                let owner = (entry.space, entry.uid.clone(), entry.name.clone(), entry.kind);
                prop_assert_eq!(owners.entry(entry.key).or_insert_with(|| owner.clone()), &owner);
            }
            let diff = before.diff(&after);
            let keys = |table: &Table| -> std::collections::BTreeSet<_> {
                table.spaces().flat_map(|space| space.addresses()).map(|entry| entry.key).collect()
            };
            let mut expected = keys(&before);
            for entry in &diff.removed {
                prop_assert!(expected.remove(&entry.key));
            }
            for entry in &diff.added {
                prop_assert!(expected.insert(entry.key));
            }
            prop_assert_eq!(expected, keys(&after));
            for entry in &diff.changed {
                prop_assert!(keys(&before).contains(&entry.key) && keys(&after).contains(&entry.key));
            }
            before = after;
        }
    }
}
