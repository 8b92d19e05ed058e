//! Contracts 4: which space a connection belongs to.

use crate::plan::Plan;
use crate::table::tests::{SECRET, closed, plan, space, table};
use crate::table::{NoSpace, SpaceHints, Table};

/// Two spaces `north` and `south`, each also `.test`, on a platform that is called
/// `broker.example.com`; no default.
fn two() -> Table {
    table(&of_two(None))
}

fn of_two(default_space: Option<&str>) -> Plan {
    let spaces = vec![space("north", &[]), space("south", &[])];
    let default_space = default_space.map(str::to_owned);
    Plan { version: 1, default_space, hosts: vec!["Broker.example.com".into()], spaces }
}

fn unknown<T>(name: &str) -> Result<T, NoSpace> {
    Err(NoSpace::Unknown(name.into()))
}

/// Names that select no space.
const NEUTRAL: [&str; 10] = [
    "",
    "localhost",
    "LOCALHOST:5672",
    "127.0.0.1",
    "10.0.0.7:5671",
    "::1",
    "[::1]",
    "[2001:db8::1]:5671",
    "fe80::1%eth0",
    "broker.EXAMPLE.com",
];

fn found(table: &Table, hints: &SpaceHints<'_>) -> Result<String, NoSpace> {
    table.space_for(hints).map(|key| table.space(key).unwrap().name().to_owned())
}

#[test]
fn each_clue_alone_selects_its_space() {
    let table = two();
    for hints in [
        SpaceHints { sni: Some("north"), ..SpaceHints::default() },
        SpaceHints { sasl_hostname: Some("north.test"), ..SpaceHints::default() },
        SpaceHints { user: Some("alice@north"), ..SpaceHints::default() },
        SpaceHints { open_hostname: Some("NORTH.Test"), ..SpaceHints::default() },
    ] {
        assert_eq!(found(&table, &hints), Ok("north.test".into()), "{hints:?}");
    }
}

#[test]
fn earlier_clue_takes_precedence_over_a_later_one() {
    let table = two();
    let sni =
        SpaceHints { sni: Some("south"), sasl_hostname: Some("north"), user: Some("a@north"), open_hostname: None };
    assert_eq!(found(&table, &sni), Ok("south.test".into()));
    let sasl = SpaceHints { sasl_hostname: Some("south"), user: Some("a@north"), ..SpaceHints::default() };
    assert_eq!(found(&table, &sasl), Ok("south.test".into()));
    let user = SpaceHints { user: Some("a@south"), open_hostname: Some("north"), ..SpaceHints::default() };
    assert_eq!(found(&table, &user), Ok("south.test".into()));
}

#[test]
fn ip_address_localhost_and_platform_host_name_are_no_clue() {
    let table = two();
    for name in NEUTRAL {
        let hints =
            SpaceHints { sni: Some(name), sasl_hostname: Some(name), user: Some("a@north"), open_hostname: None };
        assert_eq!(found(&table, &hints), Ok("north.test".into()), "{name:?}");
        let hints = SpaceHints { sni: Some(name), sasl_hostname: Some(name), user: None, open_hostname: Some("south") };
        assert_eq!(found(&table, &hints), Ok("south.test".into()), "{name:?}");
    }
}

#[test]
fn unknown_name_is_refused_in_every_clue() {
    let one = Plan { spaces: vec![space("north", &[])], ..of_two(None) };
    for table in [two(), table(&of_two(Some("south.test"))), table(&one)] {
        for name in ["nroth", "north.tset", "localhost.test", "xbroker.example.com", "1.2.3", "$within", "north:"] {
            for hints in [
                SpaceHints { sni: Some(name), ..SpaceHints::default() },
                SpaceHints {
                    sni: Some(name),
                    sasl_hostname: Some("north"),
                    user: Some("a@north"),
                    open_hostname: None,
                },
                SpaceHints { sasl_hostname: Some(name), ..SpaceHints::default() },
                SpaceHints { sni: Some("north"), sasl_hostname: Some(name), user: Some("a"), open_hostname: None },
                SpaceHints { user: Some(&format!("alice@{name}")), ..SpaceHints::default() },
                SpaceHints { sni: Some("localhost"), user: Some(&format!("a@north@{name}")), ..SpaceHints::default() },
                SpaceHints { open_hostname: Some(name), ..SpaceHints::default() },
            ] {
                assert_eq!(found(&table, &hints), unknown(name), "{hints:?}");
            }
        }
    }
}

#[test]
fn user_name_keeps_its_suffix_if_a_host_name_names_the_space() {
    let user = Some("carol@example.com");
    for hints in [
        SpaceHints { sni: Some("north"), user, ..SpaceHints::default() },
        SpaceHints { sasl_hostname: Some("north"), user, ..SpaceHints::default() },
    ] {
        assert_eq!(found(&two(), &hints), Ok("north.test".into()));
    }
    let platform = SpaceHints { user: Some("carol@broker.example.com"), ..SpaceHints::default() };
    assert_eq!(found(&table(&of_two(Some("south.test"))), &platform), Ok("south.test".into()));
}

#[test]
fn default_space_is_selected_without_a_clue() {
    for (default, expected) in [
        (Some("south.test"), Ok("south.test")),
        (Some("South.Test"), Ok("south.test")),
        (Some("gone.test"), Err(NoSpace::Unnamed)),
        (Some("south"), Err(NoSpace::Unnamed)), // a short name may later name another space
        (None, Err(NoSpace::Unnamed)),
    ] {
        let table = table(&of_two(default));
        let expected = expected.map(str::to_owned);
        assert_eq!(found(&table, &SpaceHints::default()), expected, "{default:?}");
        for name in NEUTRAL {
            let hints =
                SpaceHints { sni: Some(name), sasl_hostname: Some(name), user: Some("alice"), open_hostname: None };
            assert_eq!(found(&table, &hints), expected, "{default:?} {name:?}");
        }
    }
    let one = Plan { spaces: vec![space("north", &[])], ..of_two(Some("south.test")) };
    assert_eq!(found(&table(&one), &SpaceHints::default()), Err(NoSpace::Unnamed), "no other space takes its place");
}

#[test]
fn only_the_suffix_after_the_last_at_sign_names_the_space() {
    let table = two();
    let hints = |user| SpaceHints { user: Some(user), ..SpaceHints::default() };
    assert_eq!(found(&table, &hints("a@south@north")), Ok("north.test".into()));
    assert_eq!(found(&table, &hints("a@north@example.com")), unknown("example.com"));
    assert_eq!(found(&table, &hints("north")), Err(NoSpace::Unnamed));
}

#[test]
fn the_host_name_of_open_counts_only_without_a_user_name() {
    let table = two();
    let hints = SpaceHints { user: Some("alice"), open_hostname: Some("north"), ..SpaceHints::default() };
    assert_eq!(found(&table, &hints), Err(NoSpace::Unnamed));
}

#[test]
fn only_space_is_selected_without_a_clue() {
    let table = table(&plan(1, [space("north", &[])]));
    let noise = SpaceHints { sni: Some("localhost"), user: Some("alice"), ..SpaceHints::default() };
    assert_eq!(found(&table, &noise), Ok("north.test".into()));
    assert_eq!(found(&table, &SpaceHints::default()), Ok("north.test".into()));
}

#[test]
fn connection_without_a_clue_is_refused_among_several_spaces() {
    assert_eq!(found(&two(), &SpaceHints::default()), Err(NoSpace::Unnamed));
    assert_eq!(found(&Table::empty(SECRET), &SpaceHints::default()), Err(NoSpace::Nothing));
}

#[test]
fn short_name_resolves_only_if_unique_and_full_name_always() {
    let mut south = space("south", &[]);
    south.names[0] = "north".into();
    let twins = table(&plan(1, [space("north", &[]), south]));
    assert_eq!(twins.space_named("north"), None, "two spaces have it");
    assert_ne!(twins.space_named("north.test"), None);
    assert_ne!(twins.space_named("south.test"), None);
}

#[test]
fn a_space_called_like_the_platform_does_not_get_its_clients() {
    let mut called = of_two(Some("south.test"));
    called.spaces[0].names = vec!["localhost".into(), "broker.example.com".into(), "north.test".into()];
    let table = table(&called);
    for name in ["localhost", "Broker.Example.com"] {
        let hints = SpaceHints { sni: Some(name), sasl_hostname: Some(name), user: None, open_hostname: Some(name) };
        assert_eq!(found(&table, &hints), Ok("south.test".into()), "{name}");
    }
}

#[test]
fn full_name_takes_precedence_over_the_short_name_of_another_space() {
    let mut dotted = space("dotted", &[]);
    dotted.names[0] = "north.test".into();
    let table = table(&plan(1, [dotted, space("north", &[])]));
    let found = table.space(table.space_named("north.test").unwrap()).unwrap();
    assert_eq!(found.uid(), "uid of north");
}

/// A space that only sessions within this process may open.
fn internal() -> crate::plan::Space {
    let mut within = closed(space("within", &[]), Vec::new());
    (within.internal, within.names) = (true, vec!["$within".into()]);
    (within.authentication.anonymous, within.authentication.mechanisms) = (false, Vec::new());
    within
}

#[test]
fn internal_space_is_not_reachable_by_any_clue() {
    let alone = table(&plan(1, [internal()]));
    assert_eq!(found(&alone, &SpaceHints::default()), Err(NoSpace::Nothing));
    let table = table(&plan(1, [space("north", &[]), internal()]));
    assert_eq!(found(&table, &SpaceHints::default()), Ok("north.test".into()), "it is the only reachable space");
    for name in ["$within", "$WITHIN"] {
        let hints = SpaceHints { sni: Some(name), sasl_hostname: Some(name), user: None, open_hostname: Some(name) };
        assert_eq!(found(&table, &hints), unknown(name));
        assert_eq!(table.space_named(name), None);
        let key = table.space_within(name).expect("a session within this process finds it");
        assert!(table.space(key).unwrap().is_internal());
    }
    assert_eq!(table.mechanisms, super::table(&plan(1, [space("north", &[])])).mechanisms);
    let mut open = internal();
    open.authentication.mechanisms = vec!["PLAIN".into()];
    let error = Table::compile(&plan(1, [open]), &Table::empty(SECRET)).unwrap_err();
    assert!(error.problem.contains("internal"), "{error}");
}
