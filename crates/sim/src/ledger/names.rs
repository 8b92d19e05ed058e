//! Names of addresses and what receivers ask for (`docs/contracts.md` 6).

/// Whether what is sent to `name` goes to `address`: in the simulation an address has one level.
pub(super) fn belongs(name: &str, address: &str) -> bool {
    name.split('/').next() == Some(address)
}

/// Whether a receiver of `asked` gets what is sent to `name`: the address itself covers all names below it.
pub(crate) fn covers(asked: &str, name: &str) -> bool {
    let mut levels = name.split('/');
    let mut asked = asked.split('/').peekable();
    while let Some(level) = asked.next() {
        match (level, levels.next()) {
            ("#", _) => return true,
            ("+", Some(_)) => {}
            (level, Some(other)) if level == other => {}
            _ => return false,
        }
        if asked.peek() == Some(&"#") {
            return true;
        }
    }
    levels.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cover_as_the_contract_says() {
        for (asked, name, covered) in [
            ("a", "a", true),
            ("a", "b", false),
            ("a", "a/b", false),
            ("a/#", "a", true),
            ("a/#", "a/b/c", true),
            ("a/+", "a/b", true),
            ("a/+", "a/b/c", false),
            ("a/+/c", "a/b/c", true),
        ] {
            assert_eq!(covers(asked, name), covered, "{asked} {name}");
        }
    }
}
