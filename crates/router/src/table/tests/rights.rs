//! Contracts 3 and 5: who may do what.

use crate::plan::AddressType::Multicast;
use crate::plan::Operation::{Manage, Recv, Send, View};
use crate::plan::{Operation, Plan};
use crate::table::pattern::RUNS;
use crate::table::tests::{closed, plan, space, table, user};
use crate::table::{Authenticated, Rights};

fn of(plan: &Plan, name: Option<&str>) -> Rights {
    let authenticated = Authenticated { user: name.map(str::to_owned), ..Authenticated::default() };
    table(plan).spaces().next().unwrap().rights(&authenticated)
}

fn alice(rights: &[(&str, &[Operation])]) -> Rights {
    of(&plan(1, [closed(space("s", &[("a", Multicast)]), vec![user("alice", rights)])]), Some("alice"))
}

#[test]
fn in_an_open_space_everybody_may_do_everything() {
    for name in [None, Some("whoever")] {
        let rights = of(&plan(1, [space("s", &[])]), name);
        for operation in [Send, Recv, View, Manage] {
            assert!(rights.may(operation, "any/name"), "{name:?} {operation:?}");
        }
    }
}

#[test]
fn only_the_listed_operation_on_the_listed_address_is_allowed() {
    let rights = alice(&[("orders", &[Send]), ("invoices", &[Recv])]);
    assert!(rights.may(Send, "orders"));
    assert!(rights.may(Recv, "invoices"));
    for (operation, name) in
        [(Recv, "orders"), (Send, "invoices"), (Send, "other"), (View, "orders"), (Manage, "orders")]
    {
        assert!(!rights.may(operation, name), "{operation:?} {name}");
    }
}

#[test]
fn a_pattern_allows_what_it_stands_for() {
    let rights = alice(&[("orders/#", &[Send, Recv])]);
    assert!(rights.may(Send, "orders/eu/1"));
    assert!(rights.may(Recv, "orders"));
    assert!(!rights.may(Send, "order"));
}

#[test]
fn a_filter_needs_one_right_that_covers_it() {
    let rights = alice(&[("orders/#", &[Recv]), ("a", &[Recv]), ("b", &[Recv])]);
    assert!(rights.may(Recv, "orders/#"));
    assert!(rights.may(Recv, "orders/+/x"));
    assert!(!rights.may(Recv, "#"));
    assert!(!rights.may(Recv, "+"), "a and b are not all there is");
    assert!(!rights.may(Send, "orders/+"));
    assert!(!rights.may(Recv, "orders/b*/+"), "no filter at all");
}

#[test]
fn a_right_on_a_prefix_does_not_reach_a_filter_alongside_it() {
    let rights = alice(&[("ord*", &[Recv])]);
    assert!(rights.may(Recv, "orders/#"));
    assert!(!rights.may(Recv, "+/eu"));
}

#[test]
fn view_and_manage_are_for_the_whole_space() {
    let rights = alice(&[("orders", &[View, Manage])]);
    assert!(rights.may(View, "anything"));
    assert!(rights.may(Manage, "anything"));
    assert!(!rights.may(Send, "orders"));
}

#[test]
fn a_user_who_is_gone_may_do_nothing() {
    let plan = plan(1, [closed(space("s", &[]), vec![user("alice", &[("*", &[Send])])])]);
    assert!(!of(&plan, Some("bob")).may(Send, "a"));
    assert!(!of(&plan, None).may(Send, "a"));
}

#[test]
fn without_a_name_the_rights_of_the_user_anonymous_count() {
    let mut mixed = closed(space("s", &[]), vec![user("anonymous", &[("public/#", &[Recv])])]);
    mixed.authentication.anonymous = true;
    let rights = of(&plan(1, [mixed]), None);
    assert!(rights.may(Recv, "public/a"));
    assert!(!rights.may(Recv, "private"));
}

#[test]
fn names_are_looked_up_and_only_patterns_cost_their_number() {
    let names: Vec<String> = (0..1_000).map(|number| format!("orders/{number}")).collect();
    let mut listed: Vec<(&str, &[Operation])> = names.iter().map(|name| (&**name, &[Send][..])).collect();
    listed.extend([("orders/1", &[Recv][..]), ("eu/#", &[Send]), ("+/us", &[Recv])]);
    let rights = alice(&listed);
    for (operation, name, allowed) in
        [(Send, "orders/999", true), (Send, "orders/1000", false), (Recv, "orders/1", true), (Send, "eu/1", true)]
    {
        let before = RUNS.get();
        assert_eq!(rights.may(operation, name), allowed, "{operation:?} {name}");
        let runs = RUNS.get() - before;
        assert!(runs <= 1, "{runs} patterns were run for {operation:?} {name}");
    }
}

#[test]
fn a_pattern_stands_for_no_name_that_is_longer_than_any_address() {
    let rights = alice(&[("#", &[Send])]);
    assert!(rights.may(Send, &"a/".repeat(512)));
    assert!(!rights.may(Send, &"a/".repeat(513)));
}
