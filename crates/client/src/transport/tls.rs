//! TLS by rustls. The server's certificate is verified unless the caller explicitly disables it.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::Error;

/// Where distributions store their trusted CA certificates.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Trusted certificates, and the client's own. All files are PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// authorities trusted instead of those of the system
    pub ca: Option<PathBuf>,
    /// the client's certificate chain (SASL EXTERNAL)
    pub certificate: Option<PathBuf>,
    /// the key of that certificate
    pub key: Option<PathBuf>,
    /// name requested by TLS, which the certificate must match; `None`: the URL's host
    pub server_name: Option<String>,
    /// accept any certificate: for tests only
    pub insecure: bool,
}

/// Starts TLS sessions with one server.
#[derive(Clone)]
pub(super) struct Connector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsOptions {
    pub(super) fn connector(&self, host: &str) -> Result<Connector, Error> {
        let (what, name) = self.server_name.as_deref().map_or(("host", host), |name| ("server name", name));
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| Error::invalid(format!("{what} {name:?}: TLS needs a DNS name or an IP address")))?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::misuse(format!("TLS: {error}")))?;
        let builder = if self.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        } else {
            builder.with_root_certificates(self.authorities()?)
        };
        let config = match (&self.certificate, &self.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificate), Some(key)) => builder
                .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
                .map_err(|error| Error::invalid(format!("certificate {}: {error}", certificate.display())))?,
            _ => return Err(Error::invalid("a client certificate and its key must be given together")),
        };
        Ok(Connector { config: Arc::new(config), name })
    }

    fn authorities(&self) -> Result<RootCertStore, Error> {
        let mut store = RootCertStore::empty();
        if let Some(path) = &self.ca {
            for certificate in certificates(path)? {
                store.add(certificate).map_err(|error| Error::invalid(format!("CA {}: {error}", path.display())))?;
            }
            return Ok(store);
        }
        let path = SYSTEM_AUTHORITIES.iter().map(PathBuf::from).find(|path| path.exists()).ok_or_else(|| {
            Error::invalid("no certificate authorities on this system: install ca-certificates or name a CA file")
        })?;
        // a large bundle may hold certificates that rustls rejects; the others are used
        store.add_parsable_certificates(certificates(&path)?);
        Ok(store)
    }
}

fn certificates(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, Error> {
    let unusable = |detail: String| Error::invalid(format!("certificate file {}: {detail}", path.display()));
    let text = fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(&text).collect::<Result<_, _>>().map_err(|error| unusable(error.to_string()))?;
    if certificates.is_empty() {
        return Err(unusable("it holds no certificate in PEM".to_owned()));
    }
    Ok(certificates)
}

fn private_key(path: &PathBuf) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| Error::invalid(format!("key file {}: {error}", path.display())))
}

impl Connector {
    pub(super) fn start(&self, socket: TcpStream) -> io::Result<TlsStream> {
        let session = ClientConnection::new(Arc::clone(&self.config), self.name.clone()).map_err(io::Error::other)?;
        Ok(TlsStream { socket, session })
    }
}

/// A TLS session over a non-blocking socket.
pub struct TlsStream {
    socket: TcpStream,
    session: ClientConnection,
}

impl TlsStream {
    pub(super) fn holds_output(&self) -> bool {
        self.session.wants_write()
    }
}

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            self.session.read_tls(&mut self.socket)?;
            if let Err(error) = self.session.process_new_packets() {
                // sends the alert with the reason; fails if the server has disconnected
                let _ = self.session.write_tls(&mut self.socket);
                return Err(io::Error::new(ErrorKind::InvalidData, error));
            }
            match self.flush() {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.session.writer().write(bytes)?;
        match self.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ if taken == 0 && !bytes.is_empty() => Err(ErrorKind::WouldBlock.into()),
            _ => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

impl AsFd for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The verifier of `insecure`: accepts any certificate whose holder proves its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
