//! TLS certificates of the address spaces, by the server name that a client requests.
//!
//! The table maps names to spaces for certificates and for logins alike, so no space presents the
//! certificate of another. A name without its own certificate gets that of the listener.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use arc_swap::ArcSwap;
use enmasse_router::table::{Space, Table};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};

/// The most spaces with their own certificates; those of further spaces are not presented.
const SPACES_MAX: usize = 100_000;
/// Certificates of one space, at most.
const CERTIFICATES_MAX: usize = 64;
/// Bytes of a chain and of a key as PEM, at most: a handshake carries the chain.
const PEM_BYTES_MAX: usize = 64 * 1024;

/// The certificates of one space, replacing all earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpaceCertificates {
    /// uid of the space, in the Plan or soon to be
    pub uid: String,
    /// empty: the listener's certificate is presented for all its names
    pub certificates: Vec<ServerCertificate>,
}

/// A certificate with its key.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerCertificate {
    /// names of the space for which it is shown
    pub names: Vec<String>,
    /// PEM, the server's own first
    pub chain: String,
    /// PEM
    pub key: String,
}

impl fmt::Debug for ServerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerCertificate").field("names", &self.names).finish_non_exhaustive()
    }
}

/// A certificate that is not presented: its names get the listener's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnusableCertificate {
    /// uid of the space
    pub uid: String,
    /// names that it was for
    pub names: Vec<String>,
    /// the error and its remedy
    pub reason: String,
}

/// Certificates of one space by name, in lower case.
type ByName = HashMap<Box<str>, Arc<CertifiedKey>>;

/// The certificates of all spaces; handshakes read it on any thread.
#[derive(Debug)]
pub(crate) struct Certificates {
    provider: Arc<CryptoProvider>,
    table: ArcSwap<Table>,
    /// by uid
    spaces: RwLock<HashMap<String, ByName>>,
}

impl Certificates {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        let provider = Arc::new(aws_lc_rs::default_provider());
        Self { provider, table: ArcSwap::new(table), spaces: RwLock::default() }
    }

    /// Uses the names of this table from the next handshake on.
    pub(crate) fn follow(&self, table: Arc<Table>) {
        self.table.store(table);
    }

    /// Installs these from the next handshake on and keeps the others; returns those that it cannot
    /// install. Keys are parsed before any handshake has to wait.
    pub(crate) fn show(&self, spaces: Vec<SpaceCertificates>) -> Vec<UnusableCertificate> {
        let mut unshown = Vec::new();
        let read: Vec<(String, ByName)> = spaces
            .into_iter()
            .map(|space| {
                let by_name = self.read(&space, &mut unshown);
                (space.uid, by_name)
            })
            .collect();
        // A poisoned lock means that a thread panicked between two whole states.
        let mut shown = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        for (uid, by_name) in read {
            if by_name.is_empty() {
                shown.remove(&uid);
            } else if shown.len() < SPACES_MAX || shown.contains_key(&uid) {
                shown.insert(uid, by_name);
            } else {
                let names = by_name.into_keys().map(String::from).collect();
                let reason = format!("{SPACES_MAX} address spaces have certificates, the bound: run another node");
                unshown.push(UnusableCertificate { uid, names, reason });
            }
        }
        unshown
    }

    fn read(&self, space: &SpaceCertificates, unshown: &mut Vec<UnusableCertificate>) -> ByName {
        let mut by_name = HashMap::new();
        for (place, one) in space.certificates.iter().enumerate() {
            let read = if place < CERTIFICATES_MAX {
                self.certified(one)
            } else {
                Err(format!("an address space may have {CERTIFICATES_MAX} certificates: remove some"))
            };
            match read {
                Ok(certified) => {
                    let certified = Arc::new(certified);
                    let names = one.names.iter().map(|name| name.to_ascii_lowercase().into());
                    by_name.extend(names.map(|name| (name, Arc::clone(&certified))));
                }
                Err(reason) => {
                    unshown.push(UnusableCertificate { uid: space.uid.clone(), names: one.names.clone(), reason });
                }
            }
        }
        by_name
    }

    fn certified(&self, one: &ServerCertificate) -> Result<CertifiedKey, String> {
        if one.chain.len() > PEM_BYTES_MAX || one.key.len() > PEM_BYTES_MAX {
            return Err(format!("chain or key has more than {PEM_BYTES_MAX} bytes: remove unrelated parts"));
        }
        let chain = CertificateDer::pem_slice_iter(one.chain.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| format!("the chain is not PEM ({error})"))?;
        if chain.is_empty() {
            return Err("the chain holds no certificate in PEM form".to_owned());
        }
        let key = PrivateKeyDer::from_pem_slice(one.key.as_bytes())
            .map_err(|error| format!("the key is not in PEM form ({error})"))?;
        CertifiedKey::from_der(chain, key, &self.provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => "the key does not belong to the certificate".to_owned(),
            other => format!("certificate or key cannot be used ({other})"),
        })
    }

    fn named(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let table = self.table.load();
        let uid = table.space_named(name).and_then(|key| table.space(key)).map(Space::uid)?;
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        spaces.get(uid)?.get(&*name.to_ascii_lowercase()).cloned()
    }
}

/// Chooses the certificate of a handshake: that of the name requested, else the listener's own.
#[derive(Debug)]
pub(crate) struct ByServerName {
    pub(crate) spaces: Arc<Certificates>,
    pub(crate) own: Arc<CertifiedKey>,
}

impl ResolvesServerCert for ByServerName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| self.spaces.named(name));
        Some(named.unwrap_or_else(|| Arc::clone(&self.own)))
    }
}

#[cfg(test)]
impl Certificates {
    /// Certificates of no address space.
    pub(crate) fn none() -> Arc<Self> {
        Arc::new(Self::new(Arc::new(Table::empty([0; 32]))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Authority;

    /// A table with spaces `(uid, names)`.
    fn table(spaces: &[(&str, &[&str])]) -> Arc<Table> {
        let spaces: Vec<_> = spaces
            .iter()
            .map(|(uid, names)| {
                let authentication = serde_json::json!({"type": "none", "anonymous": true, "mechanisms": []});
                serde_json::json!({"uid": uid, "names": names, "authentication": authentication, "users": [],
                    "addresses": []})
            })
            .collect();
        let plan = serde_json::from_value(serde_json::json!({"version": 1, "spaces": spaces})).unwrap();
        Arc::new(Table::compile(&plan, &Table::empty([0; 32])).unwrap())
    }

    fn certificates(spaces: &[(&str, &[&str])]) -> Certificates {
        Certificates::new(table(spaces))
    }

    fn of(uid: &str, certificates: Vec<ServerCertificate>) -> SpaceCertificates {
        SpaceCertificates { uid: uid.to_owned(), certificates }
    }

    fn shown(certificates: &Certificates, name: &str) -> Option<Vec<u8>> {
        certificates.named(name).map(|certified| certified.cert[0].to_vec())
    }

    #[test]
    fn server_name_selects_only_the_certificate_of_its_own_space() {
        let both: &[(&str, &[&str])] =
            &[("a", &["shop", "shop.example.com", "shop.north"]), ("b", &["shop", "shop.south"])];
        let certificates = certificates(both);
        let authority = Authority::new();
        let a = authority.server_certificate(&["shop", "shop.example.com", "Shop.North", "shop.south"]);
        let b = authority.server_certificate(&["shop", "shop.south", "shop.north", "shop.example.com"]);
        assert_eq!(certificates.show(vec![of("a", vec![a]), of("b", vec![b])]), []);
        let (first, second) = (shown(&certificates, "shop.north"), shown(&certificates, "SHOP.south"));
        assert!(first.is_some() && second.is_some() && first != second);
        assert_eq!(shown(&certificates, "shop.example.com"), first);
        assert_eq!(shown(&certificates, "shop"), None, "both spaces have this name");
        assert_eq!(shown(&certificates, "localhost"), None);

        // The host moves to the other space and is never served with the certificate of the first.
        certificates.follow(table(&[("b", &["shop", "shop.example.com", "shop.south"])]));
        assert_eq!(shown(&certificates, "shop.example.com"), second);
        assert_eq!(shown(&certificates, "shop.north"), None);

        // A new space with the same names does not inherit the certificate.
        certificates.follow(table(&[("c", &["shop", "shop.south"])]));
        assert_eq!(shown(&certificates, "shop.south"), None);
    }

    #[test]
    fn unusable_certificate_is_reported_and_others_are_still_served() {
        let certificates = certificates(&[("a", &["x", "x.a"]), ("b", &["y.b"])]);
        let authority = Authority::new();
        let good = authority.server_certificate(&["x.a"]);
        let foreign = ServerCertificate { key: authority.server_certificate(&["z"]).key, ..good.clone() };
        let no_chain = ServerCertificate { chain: String::new(), ..good.clone() };
        let no_key = ServerCertificate { key: good.chain.clone(), ..good.clone() };
        let large = ServerCertificate { chain: " ".repeat(PEM_BYTES_MAX + 1), ..good.clone() };
        for (wrong, reason) in [
            (foreign, "does not belong"),
            (no_chain, "holds no certificate"),
            (no_key, "the key is not in PEM form"),
            (large, "more than 65536 bytes"),
        ] {
            let other = ServerCertificate { names: vec!["x".to_owned()], ..good.clone() };
            let y = authority.server_certificate(&["y.b"]);
            let unshown = certificates.show(vec![of("a", vec![wrong, other]), of("b", vec![y])]);
            assert_eq!(
                (unshown.len(), unshown[0].uid.as_str(), unshown[0].names.clone()),
                (1, "a", good.names.clone())
            );
            assert!(unshown[0].reason.contains(reason), "{unshown:?}");
            assert!(!format!("{unshown:?}").contains("PRIVATE"));
            let there = ["x.a", "x", "y.b"].map(|name| shown(&certificates, name).is_some());
            assert_eq!(there, [false, true, true]);
        }
        let many = vec![good; CERTIFICATES_MAX + 1];
        let unshown = certificates.show(vec![of("a", many)]);
        assert!(unshown.len() == 1 && unshown[0].reason.contains("64"), "{unshown:?}");
        assert_eq!(certificates.show(vec![of("a", Vec::new())]), []);
        assert_eq!(shown(&certificates, "x.a"), None, "removed");
    }
}
