//! The client's side of one exchange.
//!
//! | state | event | answer | next |
//! |---|---|---|---|
//! | Ready | mechanisms | the strongest one offered and supported | Waiting, TokenSent or First |
//! | First | challenge | the proof | Final |
//! | Final | challenge with the server's signature | an empty response | Waiting |
//! | Final | outcome ok with the server's signature | logged in | Over |
//! | Waiting, TokenSent | outcome ok | logged in | Over |
//! | TokenSent | challenge | one byte, 0x01 | ReceivedError |
//! | any | outcome not ok | Refused | Over |
//! | any | anything else | Protocol | Over |

use aws_lc_rs::constant_time::verify_slices_are_equal;

use super::bearer::BearerMessage;
use super::plain::PlainMessage;
use super::scram::{ClientExchange, DerivedKeys, Malformed, ServerFinal};
use super::verifier::prepare;
use super::{Mechanism, Nonce, Secret, Unusable};
use crate::types::{SaslCode, SaslInit, SaslOutcome, Symbol};

/// The credentials of a client.
#[derive(Clone, Default)]
pub struct Login {
    /// user name and password
    pub password: Option<(String, String)>,
    /// a token of another issuer, and its user, if required
    pub token: Option<(Option<String>, Secret)>,
    /// a certificate was presented in the TLS handshake
    pub certificate: bool,
    /// only these mechanisms; `None`: all that the other fields allow. Exclude PLAIN on unencrypted
    /// connections
    pub mechanisms: Option<Vec<Mechanism>>,
    /// the result of `Client::keys` after an earlier login: avoids deriving the keys again
    pub keys: Option<DerivedKeys>,
}

impl std::fmt::Debug for Login {
    /// Shows no password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let user = self.password.as_ref().map(|(user, _)| user);
        f.debug_struct("Login").field("user", &user).field("mechanisms", &self.mechanisms).finish_non_exhaustive()
    }
}

/// Why a login failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// no mechanism fits
    #[error("the server offers {0}, none of which can be used with the given credentials")]
    NoMechanism(String),
    /// the user name or the password is not valid text
    #[error(transparent)]
    Unusable(#[from] Unusable),
    /// the server refused with this code
    #[error("the server refused the login{}", reported(*.0))]
    Refused(SaslCode),
    /// the server's own error text
    #[error("the server refused the login: {0}")]
    Named(String),
    /// the server did not prove that it knows the password: it may be an impostor
    #[error("the server did not prove that it knows the user; do not trust it")]
    Unproven,
    /// the server's message is malformed
    #[error("{0}")]
    Protocol(&'static str),
}

/// The meaning of an outcome code for the user (part 5, 5.3.3.6).
fn reported(code: SaslCode) -> &'static str {
    match code {
        SaslCode::SysPerm => " because of a permanent error",
        SaslCode::SysTemp | SaslCode::Sys => " because of a temporary error; try again later",
        SaslCode::Ok | SaslCode::Auth => "; check the user name and the password",
    }
}

impl From<Malformed> for ClientError {
    fn from(malformed: Malformed) -> Self {
        Self::Protocol(malformed.0)
    }
}

/// The client's side of one exchange.
pub struct Client {
    login: Login,
    nonce: Nonce,
    state: State,
}

enum State {
    Ready,
    Waiting,
    /// a token was sent
    TokenSent,
    /// the server has reported its error
    ReceivedError(String),
    First(Box<ClientExchange>),
    /// the signature expected from the server
    Final(Vec<u8>),
    Over,
}

impl Client {
    /// A client with these credentials.
    #[must_use]
    pub const fn new(login: Login, nonce: Nonce) -> Self {
        Self { login, nonce, state: State::Ready }
    }

    /// Chooses among the server's mechanisms (5.3.3.1) and starts: EXTERNAL with a certificate,
    /// SCRAM with the strongest hash, PLAIN; without a password ANONYMOUS. `hostname` is the
    /// virtual host, for EnMasse the address space.
    ///
    /// # Errors
    /// No mechanism fits, or the user name or password is no text.
    pub fn start(&mut self, offered: &[Symbol], hostname: Option<String>) -> Result<SaslInit, ClientError> {
        let State::Ready = std::mem::replace(&mut self.state, State::Over) else { return Err(OUT_OF_TURN) };
        let known = offered.iter().filter_map(|name| Mechanism::from_name(name.as_str()));
        let Some(mechanism) = known.filter(|mechanism| self.supports(*mechanism)).max() else {
            let names: Vec<_> = offered.iter().map(Symbol::as_str).collect();
            return Err(ClientError::NoMechanism(names.join(", ")));
        };
        let message = match (mechanism, &self.login.password) {
            (Mechanism::Plain, Some((user, password))) => {
                // An open server may accept an empty password, which SASLprep rejects.
                let password = if password.is_empty() { password.into() } else { prepare(password)? };
                PlainMessage::write(&prepare(user)?, &password)
            }
            (Mechanism::Scram(hash), Some((user, password))) => {
                let password = prepare(password)?.into_owned();
                let (exchange, message) = ClientExchange::begin(hash, &prepare(user)?, password, &self.nonce);
                self.state = State::First(Box::new(exchange));
                message
            }
            (Mechanism::XOAuth2 | Mechanism::OAuthBearer, _) => match &self.login.token {
                Some((user, token)) => BearerMessage::write(mechanism, user.as_deref(), token.reveal()),
                None => Vec::new(),
            },
            _ => Vec::new(),
        };
        if !matches!(mechanism, Mechanism::Scram(_)) {
            self.state = if mechanism.is_bearer() { State::TokenSent } else { State::Waiting };
        }
        Ok(SaslInit { mechanism: mechanism.symbol(), initial_response: Some(message), hostname })
    }

    fn supports(&self, mechanism: Mechanism) -> bool {
        let able = match mechanism {
            Mechanism::Anonymous => self.login.password.is_none() && self.login.token.is_none(),
            Mechanism::Plain | Mechanism::Scram(_) => self.login.password.is_some(),
            Mechanism::XOAuth2 | Mechanism::OAuthBearer => self.login.token.is_some(),
            Mechanism::External => self.login.certificate,
        };
        able && self.login.mechanisms.as_ref().is_none_or(|allowed| allowed.contains(&mechanism))
    }

    /// Answers a sasl-challenge (5.3.3.3). For SCRAM this derives keys, which is slow, unless
    /// `Login::keys` still apply.
    ///
    /// # Errors
    /// The challenge is malformed or unexpected, or the server's proof is missing or wrong.
    pub fn challenge(&mut self, challenge: &[u8]) -> Result<Vec<u8>, ClientError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::First(exchange) => {
                let (response, signature) = exchange.prove_with(challenge, &mut self.login.keys)?;
                self.state = State::Final(signature);
                Ok(response)
            }
            State::Final(signature) => {
                prove_server(&signature, challenge)?;
                self.state = State::Waiting;
                Ok(Vec::new())
            }
            State::TokenSent => {
                let reported = String::from_utf8_lossy(challenge).chars().take(REPORTED_CHARS_MAX).collect();
                self.state = State::ReceivedError(reported);
                Ok(vec![1])
            }
            State::Ready | State::Waiting | State::ReceivedError(_) | State::Over => Err(OUT_OF_TURN),
        }
    }

    /// The keys that SCRAM used, once the challenge is answered: for the next login with the same
    /// password.
    #[must_use]
    pub fn keys(&self) -> Option<DerivedKeys> {
        self.login.keys.clone()
    }

    /// Takes the sasl-outcome (5.3.3.5). `Ok`: logged in, and with SCRAM the server has proved
    /// itself.
    ///
    /// # Errors
    /// The server refused, or it accepted without its proof.
    pub fn outcome(&mut self, outcome: &SaslOutcome) -> Result<(), ClientError> {
        let state = std::mem::replace(&mut self.state, State::Over);
        if outcome.code != SaslCode::Ok {
            return Err(match state {
                State::ReceivedError(reported) => ClientError::Named(reported),
                _ => ClientError::Refused(outcome.code),
            });
        }
        match state {
            State::Waiting | State::TokenSent => Ok(()),
            State::Final(signature) => prove_server(&signature, outcome.additional_data.as_deref().unwrap_or_default()),
            State::First(_) => Err(ClientError::Unproven),
            State::Ready | State::ReceivedError(_) | State::Over => Err(OUT_OF_TURN),
        }
    }
}

/// The most characters kept of a server's error about a token.
const REPORTED_CHARS_MAX: usize = 500;

fn prove_server(expected: &[u8], message: &[u8]) -> Result<(), ClientError> {
    if message.is_empty() {
        return Err(ClientError::Unproven);
    }
    match ServerFinal::parse(message)? {
        ServerFinal::Signature(shown) => verify_slices_are_equal(expected, &shown).map_err(|_| ClientError::Unproven),
        ServerFinal::Error(error) => Err(ClientError::Named(error)),
    }
}

const OUT_OF_TURN: ClientError = ClientError::Protocol("unexpected SASL frame");
