//! The credentials of a client, and their SASL exchange.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use enmasse_amqp::sasl::{self, ClientError, Mechanism};
use enmasse_amqp::types::{SaslInit, SaslOutcome, Symbol};
use rustls::crypto::aws_lc_rs::default_provider;

use crate::error::Error;
use crate::transport::TlsOptions;
use crate::url::Url;

/// The credentials of all connections of one client.
#[derive(Clone)]
pub struct Credentials {
    login: sasl::Login,
    /// the virtual host: for EnMasse the address space
    hostname: Option<String>,
    /// mechanisms that reveal the password or token were excluded, because the connection is not
    /// encrypted
    withheld: bool,
    /// of the last login, for the next one
    keys: CachedKeys,
}

type CachedKeys = Arc<Mutex<Option<sasl::DerivedKeys>>>;

fn lock(keys: &CachedKeys) -> MutexGuard<'_, Option<sasl::DerivedKeys>> {
    keys.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Credentials {
    /// The credentials in the URL, the TLS options and the token. `mechanisms` are the only allowed
    /// ones; those that reveal a password or token are excluded on unencrypted connections.
    ///
    /// # Errors
    /// `Invalid` for a mechanism of an unknown name, `Denied` if all of them are excluded.
    pub fn new(
        url: &Url,
        tls: &TlsOptions,
        mechanisms: Option<&[String]>,
        hostname: Option<String>,
        token: Option<sasl::Secret>,
    ) -> Result<Self, Error> {
        let private = url.scheme.is_tls() || url.is_loopback();
        let mut allowed = match mechanisms {
            None => Mechanism::ALL.to_vec(),
            Some(names) => names.iter().map(|name| mechanism(name)).collect::<Result<_, _>>()?,
        };
        let withheld = !private && allowed.iter().any(|mechanism| mechanism.shows_secret());
        allowed.retain(|mechanism| private || !mechanism.shows_secret());
        if allowed.is_empty() {
            return Err(Error::denied(WITHHELD));
        }
        let user = url.user.clone().filter(|_| token.is_none());
        let login = sasl::Login {
            password: user.map(|user| (user, url.password.clone().unwrap_or_default())),
            token: token.map(|token| (url.user.clone(), token)),
            certificate: tls.certificate.is_some(),
            mechanisms: Some(allowed),
            keys: None,
        };
        Ok(Self { login, hostname, withheld, keys: Arc::default() })
    }

    /// Begins an exchange.
    ///
    /// # Errors
    /// `Misuse` if the random number generator of the system fails.
    pub fn begin(&self) -> Result<Exchange, Error> {
        let mut nonce = sasl::Nonce::default();
        let random = default_provider().secure_random;
        random.fill(&mut nonce).map_err(|_| Error::misuse("the random number generator of the system failed"))?;
        let login = sasl::Login { keys: lock(&self.keys).clone(), ..self.login.clone() };
        Ok(Exchange {
            client: sasl::Client::new(login, nonce),
            keys: Arc::clone(&self.keys),
            hostname: self.hostname.clone(),
            withheld: self.withheld,
        })
    }
}

const WITHHELD: &str = "PLAIN sends the password in clear text, as OAUTHBEARER and XOAUTH2 do the token: they are used \
                        over TLS (amqps) or to loopback only";

fn shows_secret(name: &str) -> bool {
    Mechanism::from_name(name).is_some_and(Mechanism::shows_secret)
}

fn mechanism(name: &str) -> Result<Mechanism, Error> {
    Mechanism::from_name(name).ok_or_else(|| {
        let known: Vec<_> = Mechanism::ALL.iter().map(|mechanism| mechanism.name()).collect();
        Error::invalid(format!("SASL mechanism {name:?} is unknown: use one of {}", known.join(", ")))
    })
}

/// One exchange with one server.
pub struct Exchange {
    client: sasl::Client,
    keys: CachedKeys,
    hostname: Option<String>,
    withheld: bool,
}

impl Exchange {
    /// Chooses one of the server's mechanisms.
    ///
    /// # Errors
    /// `Denied` if nothing fits.
    pub fn start(&mut self, offered: &[Symbol]) -> Result<SaslInit, Error> {
        self.client.start(offered, self.hostname.clone()).map_err(|error| match error {
            ClientError::NoMechanism(_) if self.withheld && offered.iter().any(|name| shows_secret(name.as_str())) => {
                Error::denied(format!("{error}; {WITHHELD}"))
            }
            other => refused(&other),
        })
    }

    /// Answers a challenge. With SCRAM the first challenge for the same credentials derives keys,
    /// which takes some ten milliseconds.
    ///
    /// # Errors
    /// `Denied` if the proof of the server is wrong or missing, `PeerError` if its challenge is
    /// malformed.
    pub fn challenge(&mut self, challenge: &[u8]) -> Result<Vec<u8>, Error> {
        let response = self.client.challenge(challenge).map_err(|error| refused(&error))?;
        *lock(&self.keys) = self.client.keys();
        Ok(response)
    }

    /// Applies the outcome.
    ///
    /// # Errors
    /// `Denied` if it is not `ok`, or if the proof of the server is missing.
    pub fn outcome(&mut self, outcome: &SaslOutcome) -> Result<(), Error> {
        self.client.outcome(outcome).map_err(|error| refused(&error))
    }
}

fn refused(error: &ClientError) -> Error {
    match error {
        ClientError::Protocol(_) => Error::peer(error.to_string()),
        ClientError::Unusable(_) => Error::invalid(error.to_string()),
        _ => Error::denied(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use enmasse_amqp::types::{SaslCode, SaslOutcome, Symbol};

    use super::Credentials;
    use crate::ErrorKind;
    use crate::error::Error;
    use crate::transport::TlsOptions;
    use crate::url::Url;

    fn chosen(url: &str, mechanisms: Option<&[&str]>, offered: &[&str]) -> Result<String, Error> {
        let names = mechanisms.map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let url = Url::parse(url).unwrap();
        let tls =
            TlsOptions { certificate: url.path.contains("cert").then(|| "c.pem".into()), ..TlsOptions::default() };
        let credentials = Credentials::new(&url, &tls, names.as_deref(), None, None)?;
        let offered: Vec<_> = offered.iter().map(|name| Symbol::from(*name)).collect();
        Ok(credentials.begin()?.start(&offered)?.mechanism.as_str().to_owned())
    }

    #[test]
    fn strongest_configured_mechanism_is_chosen() {
        let all = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "ANONYMOUS", "EXTERNAL"];
        assert_eq!(chosen("amqp://u:p@localhost", None, &all).unwrap(), "SCRAM-SHA-512");
        assert_eq!(chosen("amqp://localhost", None, &all).unwrap(), "ANONYMOUS");
        assert_eq!(chosen("amqps://h/cert", None, &all).unwrap(), "EXTERNAL");
        assert_eq!(chosen("amqps://u:p@h", None, &["PLAIN"]).unwrap(), "PLAIN");
        assert_eq!(chosen("amqp://u:p@h", Some(&["SCRAM-SHA-256"]), &all).unwrap(), "SCRAM-SHA-256");
    }

    #[test]
    fn plain_is_refused_over_an_unencrypted_remote_connection() {
        assert_eq!(chosen("amqp://u:p@127.0.0.1", None, &["PLAIN"]).unwrap(), "PLAIN");
        for mechanisms in [None, Some(&["PLAIN"][..]), Some(&["PLAIN", "ANONYMOUS"])] {
            let error = chosen("amqp://u:p@h", mechanisms, &["PLAIN"]).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Denied);
            assert!(error.message.contains("amqps"), "{error}");
        }
    }

    #[test]
    fn unknown_mechanism_name_is_refused() {
        let error = chosen("amqp://h", Some(&["KERBEROS"]), &[]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains("SCRAM-SHA-512"), "{error}");
    }

    #[test]
    fn refusal_is_a_denied_error_and_an_invalid_challenge_a_peer_error() {
        let url = Url::parse("amqp://u:p@localhost").unwrap();
        let credentials = Credentials::new(&url, &TlsOptions::default(), None, None, None).unwrap();
        let mut exchange = credentials.begin().unwrap();
        exchange.start(&[Symbol::from("PLAIN")]).unwrap();
        let no = SaslOutcome { code: SaslCode::Auth, additional_data: None };
        assert_eq!(exchange.outcome(&no).unwrap_err().kind, ErrorKind::Denied);
        assert_eq!(exchange.challenge(b"x").unwrap_err().kind, ErrorKind::PeerError);
    }
}
