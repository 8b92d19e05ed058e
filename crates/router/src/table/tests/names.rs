//! Contracts 6: names of addresses.

use proptest::prelude::*;

use crate::plan::AddressType::{Anycast, Multicast};
use crate::table::pattern::{Pattern, is_wildcard};
use crate::table::tests::{plan, space, table};
use crate::table::{Resolved, Space, Table};

fn world(addresses: &[(&str, crate::plan::AddressType)]) -> Table {
    table(&plan(1, [space("world", addresses)]))
}

fn only(table: &Table) -> &Space {
    table.spaces().next().unwrap()
}

fn resolved<'t>(table: &'t Table, name: &str) -> Option<&'t str> {
    only(table).resolve(name).map(|address| &*address.name)
}

fn resolved_for_receiver<'t>(table: &'t Table, name: &str) -> Vec<&'t str> {
    only(table).resolve_receiver(name).into_iter().map(|address| &*address.name).collect()
}

#[test]
fn exact_name_takes_precedence() {
    let table = world(&[("sensors", Multicast), ("sensors/7", Anycast), ("#", Multicast)]);
    assert_eq!(resolved(&table, "sensors/7"), Some("sensors/7"));
    assert_eq!(resolved(&table, "sensors"), Some("sensors"));
}

#[test]
fn longest_covering_address_by_levels_is_resolved_next() {
    let table = world(&[("sensors", Multicast), ("sensors/7", Multicast), ("a/b/c", Multicast)]);
    assert_eq!(resolved(&table, "sensors/7/temp"), Some("sensors/7"));
    assert_eq!(resolved(&table, "sensors/8/temp/x"), Some("sensors"));
    assert_eq!(resolved(&table, "sensors/"), Some("sensors"));
    assert_eq!(resolved(&table, "sensors7"), None, "a prefix of the text is not a level above");
    assert_eq!(resolved(&table, "a/b"), None);
    assert_eq!(resolved(&table, "a/b/c/d"), Some("a/b/c"));
}

#[test]
fn open_name_space_is_resolved_last() {
    let table = world(&[("sensors", Multicast), ("#", Anycast)]);
    assert_eq!(resolved(&table, "anything/at/all"), Some("#"));
    assert_eq!(resolved(&table, "sensors/7"), Some("sensors"));
}

#[test]
fn uncovered_name_is_not_found() {
    let table = world(&[("sensors", Multicast)]);
    for name in ["", "other", "/sensors", "Sensors", "#", "+"] {
        assert_eq!(resolved(&table, name), None, "{name:?}");
    }
}

#[test]
fn anycast_address_covers_only_its_exact_name() {
    let table = world(&[("orders", Anycast), ("orders/eu", Multicast)]);
    assert_eq!(resolved(&table, "orders"), Some("orders"));
    assert_eq!(resolved(&table, "orders/us"), None);
    assert_eq!(resolved(&table, "orders/eu/1"), Some("orders/eu"));
}

#[test]
fn lookup_depth_is_bounded_by_the_deepest_declared_name() {
    let table = world(&[("a/a", Multicast)]);
    assert_eq!(only(&table).levels_max, 2);
    assert_eq!(resolved(&table, &vec!["a"; 30_000].join("/")), Some("a/a"));
}

#[test]
fn a_sender_may_not_use_wildcards() {
    let table = world(&[("sensors", Multicast), ("#", Multicast)]);
    for name in ["sensors/+", "sensors/#", "*", "#", "sensors/*/temp"] {
        assert_eq!(resolved(&table, name), None, "{name}");
    }
}

#[test]
fn receiver_wildcards_reach_every_covering_address() {
    let table = world(&[("sensors", Multicast), ("sensors/7", Multicast), ("alarms", Multicast)]);
    assert_eq!(resolved_for_receiver(&table, "sensors/#"), ["sensors", "sensors/7"]);
    assert_eq!(resolved_for_receiver(&table, "sensors/+"), ["sensors", "sensors/7"]);
    assert_eq!(resolved_for_receiver(&table, "sensors/*/temp"), ["sensors", "sensors/7"]);
    assert_eq!(resolved_for_receiver(&table, "sensors/8/+"), ["sensors"]);
    assert_eq!(resolved_for_receiver(&table, "alarms/+"), ["alarms"]);
    assert_eq!(resolved_for_receiver(&table, "+/temp"), ["sensors", "alarms"]);
    assert_eq!(resolved_for_receiver(&table, "#"), ["sensors", "sensors/7", "alarms"]);
    assert!(resolved_for_receiver(&table, "others/#").is_empty());
}

#[test]
fn receiver_without_wildcards_resolves_like_a_sender() {
    let table = world(&[("sensors", Multicast), ("orders", Anycast)]);
    for name in ["sensors", "sensors/7", "orders", "orders/7", "none"] {
        assert_eq!(
            resolved_for_receiver(&table, name),
            resolved(&table, name).into_iter().collect::<Vec<_>>(),
            "{name}"
        );
    }
}

#[test]
fn a_wildcard_never_consumes_from_an_anycast_address() {
    let table = world(&[("orders", Anycast), ("orders/eu", Anycast), ("#", Anycast)]);
    for filter in ["orders/+", "orders/#", "#", "+", "*", "orders/eu/#"] {
        assert!(resolved_for_receiver(&table, filter).is_empty(), "{filter}");
    }
}

#[test]
fn an_open_multicast_name_space_is_reached_by_every_filter() {
    let table = world(&[("#", Multicast), ("orders", Anycast)]);
    assert_eq!(resolved_for_receiver(&table, "a/+/b"), ["#"]);
    assert_eq!(resolved_for_receiver(&table, "#"), ["#"]);
}

#[test]
fn invalid_filter_resolves_to_no_address() {
    let table = world(&[("a", Multicast)]);
    assert!(resolved_for_receiver(&table, "a/b*/+").is_empty());
    assert!(resolved_for_receiver(&table, &vec!["+"; 65].join("/")).is_empty());
}

proptest! {
    /// The search by literal prefix finds the same addresses as a scan of all.
    #[test]
    fn a_filter_finds_every_address_it_reaches(
        declared in prop::collection::btree_set(name_of(&["a", "b", "c", "", "0", "/"]), 0..8),
        filter in name_of(&["a", "b", "", "0", "+", "#", "*"]),
    ) {
        prop_assume!(is_wildcard(&filter));
        let declared: Vec<_> = declared.iter().filter(|name| !name.is_empty()).map(|name| (&**name, Multicast)).collect();
        let table = world(&declared);
        let pattern = Pattern::filter(&filter).unwrap();
        let mut expected: Vec<_> = only(&table).addresses().filter(|address| pattern.reaches(&address.name)).collect();
        expected.sort_by_key(|address| address.key);
        prop_assert_eq!(resolved_for_receiver(&table, &filter), expected.iter().map(|address| &*address.name).collect::<Vec<_>>());
    }
}

/// A table whose space creates addresses of these patterns on attach.
fn creating(addresses: &[(&str, crate::plan::AddressType)], patterns: &[&str]) -> Table {
    let mut space = space("world", addresses);
    space.auto_create = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    table(&plan(1, [space]))
}

/// The resolution of a name: an address, `+` for one that is created, `-` for none.
fn looked_up<'t>(table: &'t Table, name: &str) -> &'t str {
    match only(table).look_up(name) {
        Resolved::Address(entry) => &entry.name,
        Resolved::Creatable => "+",
        Resolved::Nothing => "-",
    }
}

#[test]
fn auto_create_takes_precedence_only_over_the_open_name_space() {
    let table = creating(&[("jobs", Multicast), ("work/1", Anycast), ("#", Anycast)], &["jobs/*", "work/*", "tmp*"]);
    for (name, expected) in [
        ("work/1", "work/1"),
        ("jobs/1", "jobs"),
        ("work/2", "+"),
        ("work/2/3", "#"),
        ("tmp", "+"),
        ("tmp7/a", "+"),
        ("other", "#"),
    ] {
        assert_eq!(looked_up(&table, name), expected, "{name}");
    }
}

#[test]
fn address_with_an_invalid_name_is_not_created() {
    let table = creating(&[], &["*"]);
    assert_eq!(looked_up(&table, "orders"), "+");
    let long = "x".repeat(1025);
    for name in ["", "a*", "+", "a/#", " a", "a ", "a\tb", "_!1", "$management", "topic::name", &long] {
        assert_eq!(looked_up(&table, name), "-", "{name:?}");
    }
}

proptest! {
    /// For any declarations, a name resolves by exact name, longest prefix, `autoCreate` and `#`,
    /// in that order.
    #[test]
    fn a_name_is_looked_up_in_the_stated_order(
        declared in prop::collection::btree_map(name_of(&["a", "b", "c"]), prop::bool::ANY, 0..6),
        open in prop::bool::ANY,
        patterns in prop::collection::vec(name_of(&["a", "b", "+", "#"]), 0..3),
        name in name_of(&["a", "b", "c"]),
    ) {
        let mut addresses: Vec<_> =
            declared.iter().map(|(name, covers)| (&**name, if *covers { Multicast } else { Anycast })).collect();
        addresses.extend(open.then_some(("#", Anycast)));
        let patterns: Vec<&str> = patterns.iter().map(|pattern| &**pattern).collect();
        let table = creating(&addresses, &patterns);
        let above = declared.iter().filter(|(above, covers)| **covers && name.starts_with(&format!("{above}/")));
        let longest = above.map(|(above, _)| &**above).max_by_key(|above| above.len());
        let creates = patterns.iter().any(|pattern| Pattern::right(pattern).unwrap().matches(&name));
        let exact = declared.get_key_value(&name).map(|(name, _)| &**name);
        let expected = exact.or(longest).or(creates.then_some("+")).or(open.then_some("#")).unwrap_or("-");
        prop_assert_eq!(looked_up(&table, &name), expected);
    }
}

fn name_of(levels: &[&'static str]) -> impl Strategy<Value = String> + use<> {
    prop::collection::vec(prop::sample::select(levels.to_vec()), 1..5).prop_map(|levels| levels.join("/"))
}
