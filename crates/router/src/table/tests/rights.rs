//! Contracts 3 and 5: the rights of users.

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
fn open_space_allows_every_operation_to_any_client() {
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
fn pattern_right_allows_the_names_that_it_matches() {
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
    assert!(!rights.may(Recv, "+"), "a and b are not all names of one level");
    assert!(!rights.may(Send, "orders/+"));
    assert!(!rights.may(Recv, "orders/b*/+"), "not a valid filter");
}

#[test]
fn prefix_right_does_not_allow_a_broader_filter() {
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
fn unknown_user_has_no_rights() {
    let plan = plan(1, [closed(space("s", &[]), vec![user("alice", &[("*", &[Send])])])]);
    assert!(!of(&plan, Some("bob")).may(Send, "a"));
    assert!(!of(&plan, None).may(Send, "a"));
}

#[test]
fn client_without_a_name_has_the_rights_of_the_user_anonymous() {
    let mut mixed = closed(space("s", &[]), vec![user("anonymous", &[("public/#", &[Recv])])]);
    mixed.authentication.anonymous = true;
    let rights = of(&plan(1, [mixed]), None);
    assert!(rights.may(Recv, "public/a"));
    assert!(!rights.may(Recv, "private"));
}

#[test]
fn rights_check_runs_only_the_patterns_of_the_operation() {
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
fn pattern_does_not_match_a_name_beyond_the_length_limit() {
    let rights = alice(&[("#", &[Send])]);
    assert!(rights.may(Send, &"a/".repeat(512)));
    assert!(!rights.may(Send, &"a/".repeat(513)));
}
