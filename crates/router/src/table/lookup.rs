//! Which space a connection belongs to (contracts 4).

use super::{SpaceKey, Table};

/// What a connection says about the space it wants, in the order of precedence. A name that is no space's
/// (`localhost`, an IP address, a host name of the machine) is passed over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clues<'a> {
    /// the server name of the TLS handshake
    pub sni: Option<&'a str>,
    /// `hostname` of sasl-init
    pub sasl_hostname: Option<&'a str>,
    /// the user name; `None` without SASL and with ANONYMOUS
    pub user: Option<&'a str>,
    /// `hostname` of open; counts only without a user name
    pub open_hostname: Option<&'a str>,
}

/// Why a connection belongs to no space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSpace {
    /// there are several and none was named
    #[error(
        "the connection names no address space; set the virtual host (hostname of the TLS handshake, of sasl-init or \
         of open) to the name of one, or log in as user@space"
    )]
    Unnamed,
    /// there is none at all
    #[error("this node serves no address space yet; declare one")]
    Nothing,
}

impl Table {
    /// The space that these clues lead to: server name, host name of SASL, what follows the last `@` of the user
    /// name, host name of open (only without a user name), else the only space there is.
    ///
    /// # Errors
    /// Several spaces and no match is refused, never a default.
    pub fn space_for(&self, clues: &Clues<'_>) -> Result<SpaceKey, NoSpace> {
        let suffix = clues.user.and_then(|user| user.rsplit_once('@')).map(|(_, suffix)| suffix);
        let opened = clues.open_hostname.filter(|_| clues.user.is_none());
        let named = [clues.sni, clues.sasl_hostname, suffix, opened];
        let named = named.into_iter().flatten().find_map(|name| self.space_named(name));
        named.map_or_else(|| self.only_space(), Ok)
    }

    /// The space that answers to `name` for a peer; names are compared without regard to case, as host names are.
    #[must_use]
    pub fn space_named(&self, name: &str) -> Option<SpaceKey> {
        self.space_within(name).filter(|key| !self.spaces[key].is_internal())
    }

    /// The space that answers to `name` for a session within this process.
    #[must_use]
    pub fn space_within(&self, name: &str) -> Option<SpaceKey> {
        self.names.get(&*name.to_ascii_lowercase()).copied()
    }

    fn only_space(&self) -> Result<SpaceKey, NoSpace> {
        let mut keys = self.spaces.iter().filter(|(_, space)| !space.is_internal()).map(|(key, _)| key);
        match (keys.next(), keys.next()) {
            (Some(only), None) => Ok(*only),
            (Some(_), Some(_)) => Err(NoSpace::Unnamed),
            (None, _) => Err(NoSpace::Nothing),
        }
    }

    /// Whether `hostname` of a later open names another space than the one the connection belongs to: then the
    /// connection is closed with `amqp:not-allowed`.
    #[must_use]
    pub fn names_another(&self, space: SpaceKey, hostname: &str) -> bool {
        self.space_named(hostname).is_some_and(|named| named != space)
    }
}
