//! Names of addresses, and matching of requested names (`docs/contracts.md` 6).

/// Whether messages to `name` go to `address`: in the simulation an address has one level.
pub(super) fn belongs(name: &str, address: &str) -> bool {
    name.split('/').next() == Some(address)
}

/// Whether a receiver of `requested` receives messages to `name`: the address itself covers all
/// names below it.
pub(crate) fn covers(requested: &str, name: &str) -> bool {
    let mut levels = name.split('/');
    let mut requested = requested.split('/').peekable();
    while let Some(level) = requested.next() {
        match (level, levels.next()) {
            ("#", _) => return true,
            ("+", Some(_)) => {}
            (level, Some(other)) if level == other => {}
            _ => return false,
        }
        if requested.peek() == Some(&"#") {
            return true;
        }
    }
    levels.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_cover_the_names_of_the_contract() {
        for (requested, name, covered) in [
            ("a", "a", true),
            ("a", "b", false),
            ("a", "a/b", false),
            ("a/#", "a", true),
            ("a/#", "a/b/c", true),
            ("a/+", "a/b", true),
            ("a/+", "a/b/c", false),
            ("a/+/c", "a/b/c", true),
        ] {
            assert_eq!(covers(requested, name), covered, "{requested} {name}");
        }
    }
}
