//! The space of a connection (contracts 4).

use std::net::IpAddr;

use super::{SpaceKey, Table};

/// The names by which a connection selects its space, in the order of precedence.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpaceHints<'a> {
    /// the server name of the TLS handshake
    pub sni: Option<&'a str>,
    /// `hostname` of sasl-init
    pub sasl_hostname: Option<&'a str>,
    /// the user name; `None` without SASL and with ANONYMOUS
    pub user: Option<&'a str>,
    /// `hostname` of open; counts only without a user name
    pub open_hostname: Option<&'a str>,
}

/// The space that one name selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// nothing: it is empty, an IP address, `localhost` or a host name of the platform
    Neutral,
    /// this space
    Space(SpaceKey),
    /// neither a space nor the platform: mistyped, or meant for another platform
    Unknown,
}

/// Why a connection belongs to no space.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSpace {
    /// the connection names no space, and there is no default
    #[error(
        "the connection names no address space and the platform has no default one; set the virtual host (hostname of \
         the TLS handshake, of sasl-init or of open) to the name of a space, or log in as user@space"
    )]
    Unnamed,
    /// it names something that is neither a space nor the platform
    #[error(
        "{0:?} is neither an address space nor a host name of this platform; correct the virtual host or the part of \
         the user name after the last @, or add a host name of the platform to its setting host-names"
    )]
    Unknown(String),
    /// no space exists
    #[error("this node serves no address space yet; declare one")]
    Nothing,
}

impl Table {
    /// The space that these names select, in this order: server name, host name of SASL, the part
    /// after the last `@` of the user name, host name of open (only without a user name), the
    /// default space.
    ///
    /// An unknown name is refused rather than skipped: the credentials that follow are meant for
    /// another space, whose users and authentication service must not be replaced by those of the
    /// default space. The part after `@` may belong to the user's own name, as in an e-mail
    /// address, so it counts only if no host name has selected a space.
    ///
    /// # Errors
    /// No space is named and there is no default, or a name is unknown.
    pub fn space_for(&self, hints: &SpaceHints<'_>) -> Result<SpaceKey, NoSpace> {
        if let Some(key) = self.space_of_hosts(hints.sni, hints.sasl_hostname)? {
            return Ok(key);
        }
        let suffix = hints.user.and_then(|user| user.rsplit_once('@')).map(|(_, suffix)| suffix);
        let opened = hints.open_hostname.filter(|_| hints.user.is_none());
        for name in [suffix, opened].into_iter().flatten() {
            match self.meaning(name) {
                Meaning::Space(key) => return Ok(key),
                Meaning::Unknown => return Err(NoSpace::Unknown(name.to_owned())),
                Meaning::Neutral => {}
            }
        }
        self.default_space()
    }

    /// The space that the host names known before the user name select; `None`: none does.
    ///
    /// # Errors
    /// One of them is unknown.
    pub(super) fn space_of_hosts(
        &self,
        sni: Option<&str>,
        sasl_hostname: Option<&str>,
    ) -> Result<Option<SpaceKey>, NoSpace> {
        let mut found = None;
        for name in [sni, sasl_hostname].into_iter().flatten() {
            match self.meaning(name) {
                Meaning::Space(key) => found = found.or(Some(key)),
                Meaning::Unknown => return Err(NoSpace::Unknown(name.to_owned())),
                Meaning::Neutral => {}
            }
        }
        Ok(found)
    }

    /// The space that a name selects.
    #[must_use]
    pub fn meaning(&self, name: &str) -> Meaning {
        let host = without_port(name);
        // An IPv6 address of a link has a zone after `%` (RFC 4007, section 11).
        let address = host.split_once('%').map_or(host, |(address, _)| address);
        let is_platform = host.is_empty()
            || host.eq_ignore_ascii_case("localhost")
            || address.parse::<IpAddr>().is_ok()
            || self.hosts.contains(&*host.to_ascii_lowercase());
        // A space with a name of the platform must not receive the clients of other spaces.
        if is_platform {
            return Meaning::Neutral;
        }
        self.space_named(host).map_or(Meaning::Unknown, Meaning::Space)
    }

    /// The space of that name for a peer; case is ignored, as in host names.
    #[must_use]
    pub fn space_named(&self, name: &str) -> Option<SpaceKey> {
        self.space_within(name).filter(|key| !self.spaces[key].is_internal())
    }

    /// The space of that name for a session within this process.
    #[must_use]
    pub fn space_within(&self, name: &str) -> Option<SpaceKey> {
        self.names.get(&*name.to_ascii_lowercase()).copied()
    }

    fn default_space(&self) -> Result<SpaceKey, NoSpace> {
        let is_empty = || self.spaces.values().all(super::Space::is_internal);
        self.default.ok_or_else(|| if is_empty() { NoSpace::Nothing } else { NoSpace::Unnamed })
    }
}

/// A host name without a port, which some clients append, and an IPv6 address without brackets.
fn without_port(name: &str) -> &str {
    if let Some((address, rest)) = name.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return if rest.is_empty() || rest.starts_with(':') { address } else { name };
    }
    match name.split_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => name,
    }
}
