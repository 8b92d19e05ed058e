//! The TLS configuration of a listener, loaded from PEM files and reloaded when they change.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

use crate::certificates::{ByServerName, Certificates};
use crate::config::TlsFiles;
use crate::error::NodeError;

/// A file's version: modification time and length.
type Fingerprint = Vec<Option<(SystemTime, u64)>>;

/// A listener's TLS configuration, from the last usable version of its files.
#[derive(Debug)]
pub(crate) struct TlsSource {
    files: TlsFiles,
    spaces: Arc<Certificates>,
    seen: Fingerprint,
    config: Arc<ServerConfig>,
}

impl TlsSource {
    /// Loads the files; their certificate is presented if `spaces` has none for the requested name.
    ///
    /// # Errors
    /// `Tls`, naming the file and the remedy.
    pub(crate) fn load(files: TlsFiles, spaces: Arc<Certificates>) -> Result<Self, NodeError> {
        let seen = fingerprint(&files);
        let config = server_config(&files, &spaces)?;
        Ok(Self { files, spaces, seen, config })
    }

    /// The configuration for the next handshake. Three `stat` calls when nothing changed. When the
    /// files have changed but are unusable, the former configuration stays and the reason is
    /// reported, once for each change.
    pub(crate) fn current(&mut self) -> (Arc<ServerConfig>, Option<NodeError>) {
        let seen = fingerprint(&self.files);
        let mut failure = None;
        if seen != self.seen {
            self.seen = seen;
            match server_config(&self.files, &self.spaces) {
                Ok(config) => self.config = config,
                Err(error) => failure = Some(error),
            }
        }
        (Arc::clone(&self.config), failure)
    }
}

fn fingerprint(files: &TlsFiles) -> Fingerprint {
    let stamp = |path: &Path| {
        let meta = fs::metadata(path).ok()?;
        Some((meta.modified().ok()?, meta.len()))
    };
    [Some(&files.certificate), Some(&files.key), files.client_ca.as_ref()]
        .into_iter()
        .flatten()
        .map(|p| stamp(p))
        .collect()
}

fn server_config(files: &TlsFiles, spaces: &Arc<Certificates>) -> Result<Arc<ServerConfig>, NodeError> {
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?)
        .map_err(|error| wrong(&files.key, format!("holds no private key in PEM form ({error})")))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier: Arc<dyn ClientCertVerifier> = match &files.client_ca {
        None => Arc::new(NoClientAuth),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| wrong(path, format!("is not a CA certificate ({error})")))?;
            }
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()
                .map_err(|error| wrong(path, format!("cannot check client certificates ({error})")))?
        }
    };
    let own = CertifiedKey::from_der(chain, key, &provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            wrong(&files.key, format!("does not belong to the certificate in {}", files.certificate.display()))
        }
        other => wrong(&files.certificate, other.to_string()),
    })?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| wrong(&files.certificate, error.to_string()))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(ByServerName { spaces: Arc::clone(spaces), own: Arc::new(own) }));
    config.max_early_data_size = 0;
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, NodeError> {
    let pem = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err(wrong(path, "holds no certificate in PEM form".to_owned())),
        Err(error) => Err(wrong(path, format!("is not PEM ({error})"))),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, NodeError> {
    fs::read(path).map_err(|error| wrong(path, format!("cannot be read ({error})")))
}

fn wrong(path: &Path, reason: String) -> NodeError {
    NodeError::Tls { path: path.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::{Authority, Folder};

    /// Sets a later modification time, so that a coarse file system clock shows the change.
    fn touch_later(path: &Path) {
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(5)).unwrap();
    }

    #[test]
    fn unusable_tls_file_is_named_with_the_reason() {
        let folder = Folder::new("tls-wrong");
        let authority = Authority::new();
        let good = authority.server_files(&folder, "localhost");
        let elsewhere = Folder::new("tls-other");
        let other = authority.server_files(&elsewhere, "localhost");
        let missing = TlsFiles { certificate: folder.path("absent.pem"), ..good.clone() };
        let swapped = TlsFiles { certificate: good.key.clone(), ..good.clone() };
        let foreign = TlsFiles { key: other.key.clone(), ..good.clone() };
        let no_key = TlsFiles { key: good.certificate.clone(), ..good.clone() };
        for (files, name, reason) in [
            (missing, "absent.pem", "cannot be read"),
            (swapped, "server.key", "holds no certificate"),
            (foreign, "server.key", "does not belong"),
            (no_key, "server.pem", "holds no private key"),
        ] {
            let reported = TlsSource::load(files, Certificates::none()).unwrap_err().to_string();
            assert!(reported.contains(name) && reported.contains(reason), "{reported}");
        }
    }

    #[test]
    fn changed_files_apply_to_the_next_handshake_and_invalid_ones_are_ignored() {
        let folder = Folder::new("tls-reload");
        let authority = Authority::new();
        let files = authority.server_files(&folder, "localhost");
        let mut source = TlsSource::load(files.clone(), Certificates::none()).unwrap();
        let first = source.current().0;
        assert!(Arc::ptr_eq(&first, &source.current().0));

        authority.server_files(&folder, "other.example");
        touch_later(&files.certificate);
        let (second, failure) = source.current();
        assert!(failure.is_none() && !Arc::ptr_eq(&first, &second));

        fs::write(&files.certificate, "nonsense").unwrap();
        let (kept, failure) = source.current();
        assert!(failure.unwrap().to_string().contains("holds no certificate"));
        assert!(Arc::ptr_eq(&second, &kept));
        assert!(source.current().1.is_none(), "notified once");
    }
}
