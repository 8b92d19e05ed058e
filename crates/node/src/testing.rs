//! Helpers of this crate's tests: certificates, and a temporary folder.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::client::WantsClientCert;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, SupportedProtocolVersion};

use crate::{ServerCertificate, TlsFiles};

/// A temporary folder of one test, deleted when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("enmasse-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "test authority");
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn issue(&self, params: CertificateParams) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.0).unwrap(), key)
    }

    /// `server.pem`, `server.key` and `ca.pem` for a server of that name.
    pub(crate) fn server_files(&self, folder: &Folder, name: &str) -> TlsFiles {
        let (certificate, key) = self.issue(CertificateParams::new(vec![name.to_owned()]).unwrap());
        let files =
            TlsFiles { certificate: folder.path("server.pem"), key: folder.path("server.key"), client_ca: None };
        fs::write(&files.certificate, certificate.pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        fs::write(folder.path("ca.pem"), self.0.pem()).unwrap();
        files
    }

    /// A certificate of its own for a server of these names.
    pub(crate) fn server_certificate(&self, names: &[&str]) -> ServerCertificate {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let (certificate, key) = self.issue(CertificateParams::new(names.clone()).unwrap());
        ServerCertificate { names, chain: certificate.pem(), key: key.serialize_pem() }
    }

    /// A client that trusts this authority, with a certificate of it for `subject` if one is given.
    pub(crate) fn client(
        &self,
        subject: Option<&str>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let builder = self.trusting(versions);
        Arc::new(match subject {
            None => builder.with_no_client_auth(),
            Some(subject) => self.identify(builder, subject),
        })
    }

    /// A client that trusts this authority and presents a certificate of another one.
    pub(crate) fn client_presenting(&self, other: &Self, subject: &str) -> Arc<ClientConfig> {
        Arc::new(other.identify(self.trusting(&[&rustls::version::TLS13]), subject))
    }

    fn trusting(&self, versions: &[&'static SupportedProtocolVersion]) -> ConfigBuilder<ClientConfig, WantsClientCert> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
    }

    fn identify(&self, builder: ConfigBuilder<ClientConfig, WantsClientCert>, subject: &str) -> ClientConfig {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, subject);
        let (certificate, key) = self.issue(params);
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        builder.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
    }
}
