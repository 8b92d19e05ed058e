//! The wildcard grammar, also compared with a naive matcher.

use proptest::prelude::*;
use serde::Deserialize;

use super::read;
use crate::table::pattern::{LEVELS_MAX, Pattern, PatternError, is_wildcard};

/// The meaning of a filter, in its shortest form.
fn naive(filter: &[&str], name: &[&str]) -> bool {
    match (filter.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((&"#", rest)), _) => naive(rest, name) || (!name.is_empty() && naive(filter, &name[1..])),
        (Some((&("+" | "*"), rest)), Some((_, below))) => naive(rest, below),
        (Some((token, rest)), Some((level, below))) => token == level && naive(rest, below),
        _ => false,
    }
}

fn levels(text: &str) -> Vec<&str> {
    text.split('/').collect()
}

/// A pattern, names it matches, and names it does not match.
#[derive(Deserialize)]
struct Matching {
    pattern: String,
    matches: Vec<String>,
    others: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Vectors {
    filters: Vec<Matching>,
    filters_refused: Vec<String>,
    rights: Vec<Matching>,
    rights_refused: Vec<String>,
}

fn vectors() -> Vectors {
    serde_json::from_value(read("names/patterns.json")).unwrap()
}

fn hold(pattern: &Pattern, vector: &Matching) {
    for name in &vector.matches {
        assert!(pattern.matches(name), "{} must match {name:?}", vector.pattern);
    }
    for name in &vector.others {
        assert!(!pattern.matches(name), "{} must not match {name:?}", vector.pattern);
    }
}

#[test]
fn filters_match_by_levels() {
    for vector in vectors().filters {
        hold(&Pattern::filter(&vector.pattern).unwrap(), &vector);
    }
}

#[test]
fn right_patterns_also_allow_a_bare_and_a_trailing_star() {
    for vector in vectors().rights {
        hold(&Pattern::right(&vector.pattern).unwrap(), &vector);
    }
}

#[test]
fn invalid_pattern_is_refused() {
    for text in vectors().filters_refused {
        let expected = if text.is_empty() { PatternError::Empty } else { PatternError::Star };
        assert_eq!(Pattern::filter(&text), Err(expected), "{text:?}");
    }
    for text in vectors().rights_refused {
        let expected = if text.is_empty() { PatternError::Empty } else { PatternError::Star };
        assert_eq!(Pattern::right(&text), Err(expected), "{text:?}");
    }
}

#[test]
fn a_right_covers_a_filter_only_as_a_whole() {
    for (right, yes, no) in [
        ("*", vec!["#", "a/+", "a/#/b"], vec![]),
        ("a/#", vec!["a/#", "a/+", "a/b/#", "a/+/#", "a"], vec!["#", "+/b", "+", "b/#"]),
        ("a/+", vec!["a/+", "a/*", "a/b"], vec!["a/#", "a/+/+", "a"]),
        ("+/#", vec!["#/+", "+/#", "a/#", "#"], vec![]),
        ("+/+/#", vec!["a/+/#"], vec!["#", "+/#"]),
        ("ord*", vec!["orders/#", "orders/+"], vec!["#", "+"]),
        ("#/z", vec!["#/z", "a/+/z", "z"], vec!["#", "#/+"]),
    ] {
        let right_pattern = Pattern::right(right).unwrap();
        for filter in yes {
            assert!(right_pattern.covers(&Pattern::filter(filter).unwrap()), "{right} covers {filter}");
        }
        for filter in no {
            assert!(!right_pattern.covers(&Pattern::filter(filter).unwrap()), "{right} does not cover {filter}");
        }
    }
}

#[test]
fn filter_reaches_the_addresses_that_cover_its_names() {
    for (filter, yes, no) in [
        ("sensors/#", vec!["sensors", "sensors/7"], vec!["sensor", "other"]),
        ("sensors/+/temp", vec!["sensors", "sensors/7", "sensors/7/temp"], vec!["sensors/7/x", "other"]),
        ("+/temp", vec!["sensors", "x/temp"], vec!["x/y"]),
        ("#", vec!["sensors", "a/b/c"], vec![]),
    ] {
        let pattern = Pattern::filter(filter).unwrap();
        for address in yes {
            assert!(pattern.reaches(address), "{filter} reaches {address}");
        }
        for address in no {
            assert!(!pattern.reaches(address), "{filter} does not reach {address}");
        }
    }
}

#[test]
fn a_pattern_has_a_bounded_number_of_levels() {
    let deepest = vec!["+"; LEVELS_MAX].join("/");
    assert!(Pattern::filter(&deepest).is_ok());
    assert!(Pattern::right(&format!("{}/a*", vec!["+"; LEVELS_MAX - 1].join("/"))).is_ok());
    assert_eq!(Pattern::filter(&format!("{deepest}/+")), Err(PatternError::TooDeep));
    assert_eq!(Pattern::right(&format!("{deepest}/a*")), Err(PatternError::TooDeep));
}

#[test]
fn a_wildcard_is_a_whole_level() {
    for name in ["+", "a/#", "*/a", "a/+/b"] {
        assert!(is_wildcard(name), "{name}");
    }
    for name in ["", "a", "a+b", "a#", "a*b/c"] {
        assert!(!is_wildcard(name), "{name}");
    }
}

#[test]
fn pattern_is_displayed_in_canonical_form() {
    for (text, printed) in [
        ("a/*/b", "a/+/b"),
        ("#/+/#", "#"),
        ("a/#/+", "a/+/#"),
        ("*", "#"),
        ("a/ord*", "a/ord*"),
        ("x/#/ord*", "x/#/ord*"),
    ] {
        assert_eq!(Pattern::right(text).unwrap().to_string(), printed);
    }
}

#[test]
fn a_hostile_filter_costs_no_more_than_levels_times_tokens() {
    let filter = Pattern::filter(&vec!["#/a"; LEVELS_MAX / 2].join("/")).unwrap();
    let name = vec!["a"; 10_000].join("/");
    assert!(filter.matches(&name));
    assert!(!filter.matches(&(name + "/b")));
}

fn filter() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(vec!["a", "b", "+", "*", "#", ""]), 1..7)
        .prop_map(|levels| levels.join("/"))
        .prop_filter("not empty", |text| !text.is_empty())
}

fn name() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(vec!["a", "b", "c", ""]), 1..7)
        .prop_map(|levels| levels.join("/"))
}

/// Every name of one to four levels over three letters: enough to distinguish any two short
/// filters.
fn short_names() -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut longest = vec![String::new()];
    for _ in 0..5 {
        longest = longest
            .iter()
            .flat_map(|name| {
                ["a", "b", "c"].map(|level| if name.is_empty() { level.into() } else { format!("{name}/{level}") })
            })
            .collect();
        all.extend(longest.iter().cloned());
    }
    all
}

proptest! {
    #[test]
    fn filter_matches_like_the_naive_matcher(filter in filter(), name in name()) {
        let expected = naive(&levels(&filter), &levels(&name));
        prop_assert_eq!(Pattern::filter(&filter).unwrap().matches(&name), expected);
    }

    #[test]
    fn covers_agrees_with_the_naive_matcher(
        right in proptest::collection::vec(proptest::sample::select(vec!["a", "b", "+", "#"]), 1..4),
        filter in proptest::collection::vec(proptest::sample::select(vec!["a", "b", "+", "#"]), 1..4),
    ) {
        let covers = Pattern::right(&right.join("/")).unwrap().covers(&Pattern::filter(&filter.join("/")).unwrap());
        let names = short_names();
        let mut named = names.iter().map(|name| levels(name)).filter(|name| naive(&filter, name));
        let really = named.all(|name| naive(&right, &name));
        prop_assert!(really || !covers, "it covers a name that the right does not match");
        prop_assert!(covers || !really || filter.contains(&"#"), "it covers less than it matches");
    }

    #[test]
    fn filter_reaches_a_name_exactly_if_it_matches_at_or_below_it(filter in filter(), name in name()) {
        // If any continuation satisfies a filter of six levels, one of at most six levels does.
        let tokens: Vec<_> = levels(&filter).into_iter().map(|token| match token { "+" | "*" | "#" => "x", token => token }).collect();
        let mut below = (0..=tokens.len()).map(|from| tokens[from..].join("/"));
        let direct = naive(&levels(&filter), &levels(&name));
        let beneath = below.any(|rest| naive(&levels(&filter), &levels(&format!("{name}/{rest}"))));
        prop_assert_eq!(Pattern::filter(&filter).unwrap().reaches(&name), direct || beneath);
    }
}
