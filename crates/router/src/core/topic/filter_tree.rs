//! The subscriptions of a topic by the levels of their filters, so that the cost of a match depends
//! on the levels of a name and on the filters that match it, not on the number of others.
//!
//! The tree finds candidates: all subscriptions whose filters match a name, and few others, such as
//! those with levels after `#` or beyond [`DEPTH_MAX`]. The caller checks each of them.

use std::collections::{BTreeSet, HashMap};

use super::super::arena::Key;

/// Levels of the tree. Its functions are recursive, and a client may send filters of 65,535 levels:
/// of a longer one the tree has the beginning.
const DEPTH_MAX: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(in crate::core) struct FilterTree(Node);

/// The filters that begin with the same levels.
#[derive(Debug, Default)]
struct Node {
    /// filters that continue with a name
    levels: HashMap<Box<str>, Node>,
    /// filters that continue with `+` or `*`
    one: Option<Box<Node>>,
    /// filters that end here
    here: BTreeSet<Key>,
    /// filters that continue with `#`, which matches zero or more levels, or beyond the tree
    any: BTreeSet<Key>,
}

impl Node {
    fn is_empty(&self) -> bool {
        self.levels.is_empty() && self.one.is_none() && self.here.is_empty() && self.any.is_empty()
    }

    fn insert(&mut self, filter: Option<&str>, depth: usize, key: Key) {
        let Some(filter) = filter else {
            self.here.insert(key);
            return;
        };
        let (level, rest) = split(filter);
        match level {
            _ if level == "#" || depth == DEPTH_MAX => {
                self.any.insert(key);
            }
            "+" | "*" => self.one.get_or_insert_default().insert(rest, depth + 1, key),
            level => match self.levels.get_mut(level) {
                Some(node) => node.insert(rest, depth + 1, key),
                None => self.levels.entry(level.into()).or_default().insert(rest, depth + 1, key),
            },
        }
    }

    fn remove(&mut self, filter: Option<&str>, depth: usize, key: Key) {
        let Some(filter) = filter else {
            self.here.remove(&key);
            return;
        };
        let (level, rest) = split(filter);
        match level {
            _ if level == "#" || depth == DEPTH_MAX => {
                self.any.remove(&key);
            }
            "+" | "*" => {
                if let Some(node) = &mut self.one {
                    node.remove(rest, depth + 1, key);
                }
                self.one.take_if(|node| node.is_empty());
            }
            level => {
                let Some(node) = self.levels.get_mut(level) else { return };
                node.remove(rest, depth + 1, key);
                if node.is_empty() {
                    self.levels.remove(level);
                }
            }
        }
    }

    fn find(&self, name: Option<&str>, found: &mut impl FnMut(Key)) {
        self.any.iter().copied().for_each(&mut *found);
        let Some(name) = name else { return self.here.iter().copied().for_each(found) };
        let (level, rest) = split(name);
        if let Some(node) = self.levels.get(level) {
            node.find(rest, found);
        }
        if let Some(node) = &self.one {
            node.find(rest, found);
        }
    }
}

/// The first level of a name or a filter, and the others; `None`: there are no others.
fn split(name: &str) -> (&str, Option<&str>) {
    name.split_once('/').map_or((name, None), |(level, rest)| (level, Some(rest)))
}

impl FilterTree {
    /// The text by which a subscription is found; without a filter it wants all names.
    fn text(filter: Option<&str>) -> &str {
        filter.unwrap_or("#")
    }

    pub(super) fn insert(&mut self, filter: Option<&str>, key: Key) {
        self.0.insert(Some(Self::text(filter)), 0, key);
    }

    pub(super) fn remove(&mut self, filter: Option<&str>, key: Key) {
        self.0.remove(Some(Self::text(filter)), 0, key);
    }

    /// Calls `found` with each subscription that may want messages to `name`, once; `None`: to no
    /// name, which only those without a filter want.
    pub(super) fn find(&self, name: Option<&str>, mut found: impl FnMut(Key)) {
        match name {
            Some(_) => self.0.find(name, &mut found),
            None => self.0.any.iter().copied().for_each(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::arena::Arena;
    use super::*;

    /// Whether a filter matches a name.
    fn matches(filter: &[&str], name: &[&str]) -> bool {
        match (filter, name) {
            ([], []) => true,
            (["#", rest @ ..], _) => (0..=name.len()).any(|skipped| matches(rest, &name[skipped..])),
            ([one, filter @ ..], [level, name @ ..]) => {
                (matches!(*one, "+" | "*") || one == level) && matches(filter, name)
            }
            _ => false,
        }
    }

    /// A generator of few levels, so that filters and names often meet.
    fn level(state: &mut u64, choices: &[&'static str]) -> &'static str {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        choices[(*state >> 33) as usize % choices.len()]
    }

    fn text(state: &mut u64, choices: &[&'static str]) -> String {
        let length = level(state, &["1", "2", "3", "4"]).parse().unwrap();
        let levels: Vec<&str> = (0..length).map(|_| level(state, choices)).collect();
        levels.join("/")
    }

    #[test]
    fn tree_finds_every_filter_that_matches_and_forgets_those_that_were_removed() {
        let mut state = 7;
        for _ in 0..50 {
            let (mut tree, mut keys, mut filters) = (FilterTree::default(), Arena::new(), Vec::new());
            for _ in 0..30 {
                let filter = text(&mut state, &["a", "b", "", "+", "*", "#"]);
                let key = keys.insert(());
                tree.insert(Some(&filter), key);
                filters.push((filter, key));
            }
            for (filter, key) in filters.split_off(15) {
                tree.remove(Some(&filter), key);
            }
            for _ in 0..50 {
                let name = text(&mut state, &["a", "b", ""]);
                let mut found = Vec::new();
                tree.find(Some(&name), |key| found.push(key));
                let count = found.len();
                found.sort_unstable();
                found.dedup();
                assert_eq!(found.len(), count, "{name} finds a filter twice");
                let known: Vec<Key> = filters.iter().map(|(_, key)| *key).collect();
                assert!(found.iter().all(|key| known.contains(key)));
                for (filter, key) in &filters {
                    let levels: [Vec<&str>; 2] = [filter.split('/').collect(), name.split('/').collect()];
                    assert!(!matches(&levels[0], &levels[1]) || found.contains(key), "{filter} matches {name}");
                }
            }
            for (filter, key) in filters {
                tree.remove(Some(&filter), key);
            }
            assert!(tree.0.is_empty());
        }
    }

    #[test]
    #[expect(clippy::disallowed_types, reason = "the size of the stack is what it tests")]
    fn filters_of_the_longest_topics_need_little_stack() {
        // 65,535 bytes (MQTT 5.0, 1.5.4) on the stack of a worker, with room for its other frames.
        let deep = || {
            let (mut tree, mut keys) = (FilterTree::default(), Arena::new());
            for level in ["+", "a", ""] {
                let filter = vec![level; 65_535 / (level.len() + 1)].join("/");
                let (key, name) = (keys.insert(()), filter.replace('+', "a"));
                tree.insert(Some(&filter), key);
                let mut found = Vec::new();
                tree.find(Some(&name), |key| found.push(key));
                assert_eq!(found, [key]);
                tree.remove(Some(&filter), key);
                assert!(tree.0.is_empty());
                tree.insert(Some(&filter), key);
                drop(std::mem::take(&mut tree));
            }
        };
        std::thread::Builder::new().stack_size(256 << 10).spawn(deep).unwrap().join().unwrap();
    }

    #[test]
    fn filters_that_cannot_match_are_not_visited() {
        let (mut tree, mut keys) = (FilterTree::default(), Arena::new());
        for number in 0..10_000 {
            tree.insert(Some(&format!("+/{number}/+")), keys.insert(()));
        }
        tree.insert(None, keys.insert(()));
        let mut found = 0;
        tree.find(Some("a/77/b"), |_| found += 1);
        assert_eq!(found, 2);
        found = 0;
        tree.find(Some(&["x"; 1000].join("/")), |_| found += 1);
        tree.find(None, |_| found += 1);
        assert_eq!(found, 2);
    }
}
