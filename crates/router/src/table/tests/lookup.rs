//! Contracts 4: which space a connection belongs to.

use crate::table::tests::{SECRET, closed, plan, space, table};
use crate::table::{Clues, NoSpace, Table};

/// Two spaces `north` and `south`, each also `.test`.
fn two() -> Table {
    table(&plan(1, [space("north", &[]), space("south", &[])]))
}

fn found(table: &Table, clues: &Clues<'_>) -> Result<String, NoSpace> {
    table.space_for(clues).map(|key| table.space(key).unwrap().name().to_owned())
}

#[test]
fn each_clue_alone_leads_to_its_space() {
    let table = two();
    for clues in [
        Clues { sni: Some("north"), ..Clues::default() },
        Clues { sasl_hostname: Some("north.test"), ..Clues::default() },
        Clues { user: Some("alice@north"), ..Clues::default() },
        Clues { open_hostname: Some("NORTH.Test"), ..Clues::default() },
    ] {
        assert_eq!(found(&table, &clues), Ok("north.test".into()), "{clues:?}");
    }
}

#[test]
fn an_earlier_clue_beats_a_later_one() {
    let table = two();
    let sni = Clues { sni: Some("south"), sasl_hostname: Some("north"), user: Some("a@north"), open_hostname: None };
    assert_eq!(found(&table, &sni), Ok("south.test".into()));
    let sasl = Clues { sasl_hostname: Some("south"), user: Some("a@north"), ..Clues::default() };
    assert_eq!(found(&table, &sasl), Ok("south.test".into()));
    let user = Clues { user: Some("a@south"), open_hostname: Some("north"), ..Clues::default() };
    assert_eq!(found(&table, &user), Ok("south.test".into()));
}

#[test]
fn a_value_that_names_no_space_is_passed_over() {
    let table = two();
    for noise in ["localhost", "127.0.0.1", "::1", "broker.example.com", ""] {
        let clues = Clues { sni: Some(noise), sasl_hostname: Some(noise), user: Some("a@north"), open_hostname: None };
        assert_eq!(found(&table, &clues), Ok("north.test".into()), "{noise:?}");
        let clues = Clues { sni: Some(noise), sasl_hostname: Some(noise), user: None, open_hostname: Some("south") };
        assert_eq!(found(&table, &clues), Ok("south.test".into()), "{noise:?}");
    }
}

#[test]
fn only_what_follows_the_last_at_sign_counts() {
    let table = two();
    let clues = |user| Clues { user: Some(user), ..Clues::default() };
    assert_eq!(found(&table, &clues("a@south@north")), Ok("north.test".into()));
    assert_eq!(found(&table, &clues("a@north@example.com")), Err(NoSpace::Unnamed));
    assert_eq!(found(&table, &clues("north")), Err(NoSpace::Unnamed));
}

#[test]
fn the_host_name_of_open_counts_only_without_a_user_name() {
    let table = two();
    let clues = Clues { user: Some("alice"), open_hostname: Some("north"), ..Clues::default() };
    assert_eq!(found(&table, &clues), Err(NoSpace::Unnamed));
}

#[test]
fn else_the_only_space_there_is() {
    let table = table(&plan(1, [space("north", &[])]));
    let noise = Clues { sni: Some("localhost"), user: Some("alice"), ..Clues::default() };
    assert_eq!(found(&table, &noise), Ok("north.test".into()));
    assert_eq!(found(&table, &Clues::default()), Ok("north.test".into()));
}

#[test]
fn several_spaces_and_no_match_is_refused() {
    assert_eq!(found(&two(), &Clues::default()), Err(NoSpace::Unnamed));
    assert_eq!(found(&Table::empty(SECRET), &Clues::default()), Err(NoSpace::Nothing));
}

#[test]
fn a_later_open_that_names_another_space_is_noticed() {
    let table = two();
    let north = table.space_named("north").unwrap();
    assert!(table.names_another(north, "south"));
    assert!(table.names_another(north, "South.Test"));
    for fine in ["north", "north.test", "localhost", ""] {
        assert!(!table.names_another(north, fine), "{fine:?}");
    }
}

#[test]
fn a_short_name_counts_where_it_is_unique_and_the_full_name_always() {
    let mut south = space("south", &[]);
    south.names[0] = "north".into();
    let twins = table(&plan(1, [space("north", &[]), south]));
    assert_eq!(twins.space_named("north"), None, "two spaces have it");
    assert_ne!(twins.space_named("north.test"), None);
    assert_ne!(twins.space_named("south.test"), None);
}

#[test]
fn a_full_name_beats_the_short_name_of_another() {
    let mut dotted = space("dotted", &[]);
    dotted.names[0] = "north.test".into();
    let table = table(&plan(1, [dotted, space("north", &[])]));
    let found = table.space(table.space_named("north.test").unwrap()).unwrap();
    assert_eq!(found.uid(), "uid of north");
}

/// One that only sessions within this process come into.
fn internal() -> crate::plan::Space {
    let mut within = closed(space("within", &[]), Vec::new());
    (within.internal, within.names) = (true, vec!["$within".into()]);
    (within.authentication.anonymous, within.authentication.mechanisms) = (false, Vec::new());
    within
}

#[test]
fn no_clue_of_a_peer_leads_to_an_internal_space() {
    let alone = table(&plan(1, [internal()]));
    assert_eq!(found(&alone, &Clues::default()), Err(NoSpace::Nothing));
    let table = table(&plan(1, [space("north", &[]), internal()]));
    for name in ["$within", "$WITHIN"] {
        let clues = Clues { sni: Some(name), sasl_hostname: Some(name), user: None, open_hostname: Some(name) };
        assert_eq!(found(&table, &clues), Ok("north.test".into()), "it is the only one there is");
        let north = table.space_named("north").unwrap();
        assert!(!table.names_another(north, name));
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
