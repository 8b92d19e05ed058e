//! Topic names and filters (4.7, 4.8).

use enmasse_mqtt::topic::{Filter, FilterError, is_topic_name, matches};
use proptest::prelude::*;

fn error(filter: &str) -> Option<FilterError> {
    Filter::parse(filter).err()
}

/// [5: 4.7.1-1] [3: 4.7.1-2]
#[test]
fn the_multi_level_wildcard_is_the_last_level() {
    for filter in ["#", "sport/#", "/#", "+/#"] {
        assert_eq!(error(filter), None, "{filter}");
    }
    for filter in ["sport/tennis#", "sport/tennis/#/ranking", "##", "#/", "a/#b"] {
        assert_eq!(error(filter), Some(FilterError::Wildcard), "{filter}");
    }
}

/// [5: 4.7.1-2] [3: 4.7.1-3]
#[test]
fn the_single_level_wildcard_is_a_whole_level() {
    for filter in ["+", "+/tennis/#", "sport/+/player1", "/+", "+/+", "sport/+"] {
        assert_eq!(error(filter), None, "{filter}");
    }
    for filter in ["sport+", "+a", "a/b+/c", "++", "a/+b"] {
        assert_eq!(error(filter), Some(FilterError::Wildcard), "{filter}");
    }
}

/// [5: 4.7.3-1] [5: 4.7.3-2] [5: 4.7.3-3] [3: 4.7.3-1] [3: 4.7.3-2] [3: 4.7.3-3]
#[test]
fn names_and_filters_have_one_to_65535_bytes_without_null() {
    let longest = "t".repeat(65_535);
    assert_eq!(error(&longest), None);
    assert!(is_topic_name(&longest));
    let longer = "t".repeat(65_536);
    assert_eq!(error(&longer), Some(FilterError::TooLong));
    assert!(!is_topic_name(&longer));
    assert_eq!((error(""), is_topic_name("")), (Some(FilterError::Empty), false));
    assert_eq!((error("a\0"), is_topic_name("a\0")), (Some(FilterError::Null), false));
    assert!(is_topic_name("/") && is_topic_name("a b*c") && !is_topic_name("a/+") && !is_topic_name("#"));
}

/// [5: 4.8.2-1] [5: 4.8.2-2]
#[test]
fn shared_subscriptions_have_a_group_and_a_filter() {
    let shared = Filter::parse("$share/group/a/+/#").unwrap();
    assert_eq!((shared.group(), shared.as_str()), (Some("group"), "a/+/#"));
    assert_eq!(Filter::parse("$share/group//a").unwrap().as_str(), "/a");
    for filter in ["$share/", "$share//a", "$share/group", "$share/group/", "$share/gr+up/a", "$share/#/a"] {
        assert_eq!(error(filter), Some(FilterError::Share), "{filter}");
    }
    assert_eq!(error("$share/group/a#"), Some(FilterError::Wildcard));
    let plain = Filter::parse("$shared/a").unwrap();
    assert_eq!((plain.group(), plain.as_str()), (None, "$shared/a"));
}

/// The examples of 4.7.1.2 and 4.7.1.3.
#[test]
fn filters_match_by_levels() {
    for (filter, topic, expected) in [
        ("sport/tennis/player1/#", "sport/tennis/player1", true),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking", true),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true),
        ("sport/#", "sport", true),
        ("sport/#", "sports", false),
        ("sport/tennis/+", "sport/tennis/player1", true),
        ("sport/tennis/+", "sport/tennis/player1/ranking", false),
        ("sport/+", "sport", false),
        ("sport/+", "sport/", true),
        ("+/+", "/finance", true),
        ("/+", "/finance", true),
        ("+", "/finance", false),
        ("#", "a/b/c", true),
        ("a/b", "a/b", true),
        ("a/b", "a/b/c", false),
        ("a/*", "a/b", false),
    ] {
        assert_eq!(matches(filter, topic), expected, "{filter} and {topic}");
    }
}

/// [5: 4.7.2-1] [3: 4.7.2-1]
#[test]
fn a_leading_wildcard_does_not_match_names_that_begin_with_a_dollar() {
    for (filter, expected) in [
        ("#", false),
        ("+/monitor/Clients", false),
        ("$SYS/#", true),
        ("$SYS/monitor/+", true),
        ("$SYS/+/Clients", true),
    ] {
        assert_eq!(matches(filter, "$SYS/monitor/Clients"), expected, "{filter}");
    }
    assert!(matches("a/+", "a/$b"));
}

/// [5: 4.7.3-4] [3: 4.7.3-4]
#[test]
fn names_are_compared_as_they_are() {
    assert!(!matches("ACCOUNTS", "Accounts"));
    // Composed and decomposed forms of one letter are different.
    assert!(!matches("\u{e9}", "e\u{301}"));
    assert!(!matches("a//b", "a/b"));
    assert!(!matches("a/", "a"));
}

/// The rules of 4.7.1, by a slow and simple recursion.
fn matches_simply(filter: &[&str], topic: &[&str]) -> bool {
    match (filter, topic) {
        (["#"], _) | ([], []) => true,
        (["+", filter @ ..], [_, topic @ ..]) => matches_simply(filter, topic),
        ([wanted, filter @ ..], [level, topic @ ..]) => wanted == level && matches_simply(filter, topic),
        _ => false,
    }
}

proptest! {
    #[test]
    fn matching_agrees_with_the_rules(
        filter in proptest::collection::vec(prop_oneof![Just("+"), Just("a"), Just(""), Just("b")], 1..5),
        tail in any::<bool>(),
        topic in proptest::collection::vec(prop_oneof![Just("a"), Just(""), Just("b")], 1..6),
    ) {
        let mut filter = filter;
        if tail {
            filter.push("#");
        }
        let (joined, name) = (filter.join("/"), topic.join("/"));
        prop_assume!(!joined.is_empty() && !name.is_empty());
        let parsed = Filter::parse(&joined).unwrap();
        prop_assert_eq!(parsed.matches(&name), matches_simply(&filter, &topic), "{} and {}", joined, name);
        prop_assert_eq!(parsed.levels().collect::<Vec<_>>(), filter);
    }
}
