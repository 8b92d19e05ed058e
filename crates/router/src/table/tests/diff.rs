//! The difference between two tables, and the state that they share.

use std::sync::Arc;

use crate::plan::AddressType::{Anycast, Multicast};
use crate::table::tests::{plan, space, table};
use crate::table::{AddressEntry, Table};

fn names(entries: &[Arc<AddressEntry>]) -> Vec<&str> {
    entries.iter().map(|entry| &*entry.name).collect()
}

fn entry<'t>(table: &'t Table, name: &str) -> &'t Arc<AddressEntry> {
    table.spaces().find_map(|space| space.resolve(name)).unwrap()
}

#[test]
fn the_same_plan_again_changes_nothing() {
    let plan = plan(1, [space("s", &[("a", Anycast), ("b", Multicast)])]);
    let first = table(&plan);
    let second = Table::compile(&plan, &first).unwrap();
    let diff = first.diff(&second);
    assert!(diff.added.is_empty() && diff.removed.is_empty() && diff.changed.is_empty());
    assert!(diff.spaces_removed.is_empty());
    assert!(Arc::ptr_eq(entry(&first, "a"), entry(&second, "a")));
}

#[test]
fn diff_lists_only_added_removed_and_changed_addresses() {
    let first = table(&plan(1, [space("s", &[("a", Anycast), ("b", Anycast), ("c", Anycast)])]));
    let mut changed = space("s", &[("b", Anycast), ("c", Anycast), ("d", Anycast)]);
    changed.addresses[1].limits.link_capacity = 5;
    let second = Table::compile(&plan(2, [changed]), &first).unwrap();
    let diff = first.diff(&second);
    assert_eq!(names(&diff.added), ["d"]);
    assert_eq!(names(&diff.removed), ["a"]);
    assert_eq!(names(&diff.changed), ["c"]);
    assert_eq!(diff.changed[0].link_capacity, 5);
}

#[test]
fn an_address_keeps_its_key_and_home_while_its_settings_change() {
    let first = table(&plan(1, [space("s", &[("a", Anycast)])]));
    let mut changed = space("s", &[("a", Anycast)]);
    changed.addresses[0].limits.message_size = Some(1);
    let second = Table::compile(&plan(2, [changed]), &first).unwrap();
    let (old, new) = (entry(&first, "a"), entry(&second, "a"));
    assert_eq!(old.key, new.key);
    assert_eq!(new.home.get(), None);
    assert_eq!(old.home.claim(3), 3);
    assert_eq!(new.home.get(), Some(3), "a link that still holds the old entry sees the same home");
    assert_eq!(new.home.claim(1), 3, "the first claim holds");
}

#[test]
fn recreated_address_gets_another_key() {
    let first = table(&plan(1, [space("s", &[("a", Anycast)])]));
    let mut again = space("s", &[("a", Anycast)]);
    again.addresses[0].uid = "another".into();
    let second = Table::compile(&plan(2, [again]), &first).unwrap();
    let diff = first.diff(&second);
    assert_eq!((names(&diff.added), names(&diff.removed)), (vec!["a"], vec!["a"]));
    assert_ne!(entry(&first, "a").key, entry(&second, "a").key);
}

#[test]
fn another_name_or_kind_under_the_same_uid_is_another_address() {
    let first = table(&plan(1, [space("s", &[("a", Anycast), ("b", Anycast)])]));
    let mut changed = space("s", &[("a", Multicast), ("c", Anycast)]);
    changed.addresses[1].uid = "s/b".into();
    let second = Table::compile(&plan(2, [changed]), &first).unwrap();
    let diff = first.diff(&second);
    assert_eq!((names(&diff.added), names(&diff.removed)), (vec!["a", "c"], vec!["a", "b"]));
}

#[test]
fn a_key_is_never_used_again() {
    let first = table(&plan(1, [space("s", &[("a", Anycast)])]));
    let second = Table::compile(&plan(2, [space("s", &[])]), &first).unwrap();
    let third = Table::compile(&plan(3, [space("s", &[("b", Anycast)])]), &second).unwrap();
    assert_ne!(entry(&first, "a").key, entry(&third, "b").key);
}

#[test]
fn space_keeps_its_key_and_a_removed_space_is_listed() {
    let first = table(&plan(1, [space("north", &[("a", Anycast)]), space("south", &[])]));
    let north = first.space_named("north").unwrap();
    let second = Table::compile(&plan(2, [space("south", &[])]), &first).unwrap();
    assert_eq!(first.space_named("south"), second.space_named("south"));
    let diff = first.diff(&second);
    assert_eq!(diff.spaces_removed, [north]);
    assert_eq!(names(&diff.removed), ["a"]);
    let third = Table::compile(&plan(3, [space("west", &[])]), &second).unwrap();
    assert_ne!(third.space_named("west").unwrap(), north);
}

#[test]
fn the_same_uid_in_two_spaces_is_two_addresses() {
    let mut south = space("south", &[("a", Anycast)]);
    south.addresses[0].uid = "north/a".into();
    let first = table(&plan(1, [space("north", &[("a", Anycast)]), south]));
    let keys: Vec<_> = first.spaces().map(|space| space.resolve("a").unwrap().key).collect();
    assert_ne!(keys[0], keys[1]);
}
