//! Derived keys that a client caches for its next login.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::super::Hash;
use super::super::verifier::Keys;

/// Keys derived from a password, with the inputs of the derivation. RFC 5802 lets a client cache
/// them, because the server usually sends the same salt again. They are equivalent to the password:
/// protect them alike.
#[derive(Clone)]
pub struct DerivedKeys(Arc<CachedKeys>);

struct CachedKeys {
    hash: Hash,
    password: String,
    salt: Vec<u8>,
    iterations: NonZeroU32,
    keys: Keys,
}

impl std::fmt::Debug for DerivedKeys {
    /// Shows no key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DerivedKeys").field("hash", &self.0.hash).finish_non_exhaustive()
    }
}

impl DerivedKeys {
    /// `kept` if its inputs are the same, else newly derived keys.
    pub(super) fn reuse(kept: Option<Self>, hash: Hash, password: &str, salt: &[u8], iterations: NonZeroU32) -> Self {
        let fits = |kept: &Self| {
            let CachedKeys { hash: of, password: by, salt: with, iterations: rounds, .. } = &*kept.0;
            (*of, by.as_str(), with.as_slice(), *rounds) == (hash, password, salt, iterations)
        };
        kept.filter(fits).unwrap_or_else(|| {
            let keys = Keys::derive(hash, password, salt, iterations);
            Self(Arc::new(CachedKeys { hash, password: password.to_owned(), salt: salt.to_vec(), iterations, keys }))
        })
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.0.keys
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::Arc;

    use super::{DerivedKeys, Hash, Keys};

    #[test]
    fn derived_keys_are_reused_only_for_the_same_input() {
        let rounds = |count| NonZeroU32::new(count).unwrap();
        let asked = [
            (Hash::Sha256, "pencil", &b"salt"[..], rounds(4)),
            (Hash::Sha512, "pencil", b"salt", rounds(4)),
            (Hash::Sha512, "eraser", b"salt", rounds(4)),
            (Hash::Sha512, "eraser", b"pepper", rounds(4)),
            (Hash::Sha512, "eraser", b"pepper", rounds(5)),
        ];
        let mut kept = None;
        for (hash, password, salt, iterations) in asked {
            let fresh = DerivedKeys::reuse(kept.clone(), hash, password, salt, iterations);
            let derived = Keys::derive(hash, password, salt, iterations);
            assert!(fresh.keys().client_key == derived.client_key && fresh.keys().server_key == derived.server_key);
            assert!(kept.is_none_or(|kept: DerivedKeys| !Arc::ptr_eq(&kept.0, &fresh.0)));
            let again = DerivedKeys::reuse(Some(fresh.clone()), hash, password, salt, iterations);
            assert!(Arc::ptr_eq(&again.0, &fresh.0));
            assert!(!format!("{fresh:?}").contains(password));
            kept = Some(fresh);
        }
    }
}
