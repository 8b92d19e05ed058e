//! The server's side of one exchange.
//!
//! | state | event | answer | next |
//! |---|---|---|---|
//! | Ready | init ANONYMOUS, EXTERNAL | Accepted or Refused | Over |
//! | Ready | init PLAIN, SCRAM, bearer without a message | Challenge (empty) | First |
//! | Ready, First | PLAIN message | CheckPlain, Ask, Accepted or Refused | Checking, Asking or Over |
//! | Ready, First | bearer message | Ask, Refused or Challenge (reason) | Asking, Over or Failing |
//! | Ready, First | SCRAM first message | Challenge or Refused | Final or Over |
//! | Final | SCRAM last message | Accepted or Refused | Over |
//! | Checking | `plain_checked` | Accepted or Refused | Over |
//! | Asking | `judged` | Accepted, Refused, or for a token Challenge (reason) | Over or Failing |
//! | Failing | any response | Refused | Over |
//! | any | anything else | Refused | Over |

use super::bearer::{self, BearerMessage};
use super::plain::PlainMessage;
use super::scram::{ClientFirst, ServerExchange};
use super::{Claim, Hash, Mechanism, Nonce, PlainCheck, Secret, Verdict, Verifier};
use crate::types::{SaslCode, SaslInit, Symbol};

/// The server's view of the user database. Pure, synchronous and cheap: no key derivation happens
/// here.
///
/// An unknown user gets dummy credentials: a verifier derived from the name and a secret of the
/// process, so that the exchange does not reveal whether the user exists. They need no flag: their
/// `stored_key` is not the hash of any known key.
pub trait Credentials {
    /// Whether anonymous logins are allowed.
    fn anonymous(&self) -> bool;
    /// How the password of that user is checked.
    fn plain(&self, user: &str) -> PlainRule;
    /// The stored verifier of that user; `None`: the login is refused, for every user.
    fn scram(&self, user: &str, hash: Hash) -> Option<Verifier>;
    /// The user that the transport has proved already (the subject of a client certificate), if
    /// that user may log in.
    fn external(&self) -> Option<String>;
    /// Whether tokens of `user` can be checked (`None`: the token names no user).
    fn bearer(&self, user: Option<&str>, mechanism: Mechanism) -> bool;
}

/// How a password is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlainRule {
    /// any password is accepted
    Accept,
    /// by deriving keys from it
    Check(Verifier),
    /// by another party
    Ask,
    /// always refused, without a check
    Refuse,
}

/// The authenticated identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// the mechanism that proved it
    pub mechanism: Mechanism,
    /// the user name as given, prepared by SASLprep; `None` for ANONYMOUS
    pub user: Option<String>,
}

/// The server's next step; `I` is the authenticated identity.
#[derive(Debug)]
pub enum Step<I = Identity> {
    /// send this as sasl-challenge and wait for a sasl-response
    Challenge(Vec<u8>),
    /// run this on another thread, then call [`Server::plain_checked`]
    CheckPlain(PlainCheck),
    /// have another party check this, then call [`Server::judged`]
    Ask(Claim),
    /// send a sasl-outcome `ok` with this additional data
    Accepted {
        /// the authenticated identity
        identity: I,
        /// the server's last message
        data: Option<Vec<u8>>,
    },
    /// send a sasl-outcome with this code and close
    Refused {
        /// outcome code
        code: SaslCode,
        /// for the log, never for the peer
        why: &'static str,
    },
}

/// The server's side of one exchange: offer [`Server::mechanisms`], pass in the frames of the
/// client, carry out each [`Step`] until it is Accepted or Refused.
pub struct Server {
    offered: Vec<Mechanism>,
    nonce: Nonce,
    state: State,
}

enum State {
    Ready,
    First(Mechanism),
    Final(Hash, Box<ServerExchange>),
    Checking(String),
    Asking(Mechanism),
    Failing(&'static str),
    Over,
}

impl Server {
    /// An exchange in which the client may choose one of these mechanisms.
    #[must_use]
    pub const fn new(offered: Vec<Mechanism>, nonce: Nonce) -> Self {
        Self { offered, nonce, state: State::Ready }
    }

    /// The contents of the sasl-mechanisms frame.
    #[must_use]
    pub fn mechanisms(&self) -> Vec<Symbol> {
        self.offered.iter().map(|mechanism| mechanism.symbol()).collect()
    }

    /// Whether the client may choose `mechanism`.
    #[must_use]
    pub fn offers(&self, mechanism: Mechanism) -> bool {
        self.offered.contains(&mechanism)
    }

    /// Takes the client's sasl-init (5.3.3.2). Its `hostname` is for the caller.
    pub fn init(&mut self, init: &SaslInit, credentials: &dyn Credentials) -> Step {
        let chosen = Mechanism::from_name(init.mechanism.as_str()).filter(|chosen| self.offered.contains(chosen));
        match (std::mem::replace(&mut self.state, State::Over), chosen) {
            (State::Ready, None) => refused("the mechanism is not offered"),
            (State::Ready, Some(mechanism)) => {
                let message = init.initial_response.as_deref().unwrap_or_default();
                self.first(mechanism, message, credentials)
            }
            _ => out_of_turn(),
        }
    }

    /// Processes the client's sasl-response (5.3.3.4).
    pub fn response(&mut self, response: &[u8], credentials: &dyn Credentials) -> Step {
        match std::mem::replace(&mut self.state, State::Over) {
            State::First(_) if response.is_empty() => refused("the client sent an empty response"),
            State::First(mechanism) => self.first(mechanism, response, credentials),
            State::Final(hash, exchange) => match exchange.finish(response) {
                Ok(Some((user, data))) => accepted(Mechanism::Scram(hash), Some(user), Some(data)),
                Ok(None) => refused(WRONG_PASSWORD),
                Err(malformed) => refused(malformed.0),
            },
            // The client's response to it does not matter (RFC 7628, section 3.2.3).
            State::Failing(why) => refused(why),
            State::Ready | State::Checking(_) | State::Asking(_) | State::Over => out_of_turn(),
        }
    }

    /// Takes the verdict of another party on a [`Claim`].
    pub fn judged(&mut self, verdict: Verdict) -> Step {
        let State::Asking(mechanism) = std::mem::replace(&mut self.state, State::Over) else {
            return out_of_turn();
        };
        match verdict {
            Verdict::Right { user } => accepted(mechanism, Some(user), None),
            Verdict::Wrong if mechanism.is_bearer() => self.fail(mechanism, "the token is invalid", false),
            Verdict::Wrong => refused(WRONG_PASSWORD),
            Verdict::Unknown => {
                Step::Refused { code: SaslCode::SysTemp, why: "the credentials cannot be checked at present" }
            }
        }
    }

    /// Reports why a token is invalid; the outcome follows the client's response.
    fn fail(&mut self, mechanism: Mechanism, why: &'static str, malformed: bool) -> Step {
        let Some(reported) = bearer::failure(mechanism, malformed) else { return refused(why) };
        self.state = State::Failing(why);
        Step::Challenge(reported)
    }

    /// Applies the result of a [`PlainCheck`]. `None`: the check did not run, because too many are
    /// pending; the client is asked to retry.
    pub fn plain_checked(&mut self, right: Option<bool>) -> Step {
        match (std::mem::replace(&mut self.state, State::Over), right) {
            (State::Checking(user), Some(true)) => accepted(Mechanism::Plain, Some(user), None),
            (State::Checking(_), Some(false)) => refused(WRONG_PASSWORD),
            (State::Checking(_), None) => {
                Step::Refused { code: SaslCode::SysTemp, why: "too many passwords are being checked" }
            }
            _ => out_of_turn(),
        }
    }

    fn first(&mut self, mechanism: Mechanism, message: &[u8], credentials: &dyn Credentials) -> Step {
        match mechanism {
            // The trace information of ANONYMOUS proves nothing and is discarded.
            Mechanism::Anonymous if credentials.anonymous() => accepted(mechanism, None, None),
            Mechanism::Anonymous => refused("anonymous logins are not allowed"),
            Mechanism::External => match credentials.external() {
                Some(user) if message.is_empty() || message == user.as_bytes() => accepted(mechanism, Some(user), None),
                Some(_) => refused("EXTERNAL: acting as another user is not supported"),
                None => refused("EXTERNAL: no client certificate of a user of this space"),
            },
            Mechanism::Plain | Mechanism::Scram(_) | Mechanism::XOAuth2 | Mechanism::OAuthBearer
                if message.is_empty() =>
            {
                self.state = State::First(mechanism);
                Step::Challenge(Vec::new())
            }
            Mechanism::Plain => self.plain(message, credentials),
            Mechanism::XOAuth2 | Mechanism::OAuthBearer => self.bearer(mechanism, message, credentials),
            Mechanism::Scram(hash) => match ClientFirst::parse(message) {
                Ok(first) => {
                    let Some(verifier) = credentials.scram(&first.user, hash) else { return refused(UNKNOWN_SPACE) };
                    let (exchange, challenge) = ServerExchange::begin(&first, verifier, &self.nonce);
                    self.state = State::Final(hash, Box::new(exchange));
                    Step::Challenge(challenge)
                }
                Err(malformed) => refused(malformed.0),
            },
        }
    }

    fn plain(&mut self, message: &[u8], credentials: &dyn Credentials) -> Step {
        let PlainMessage { user, password } = match PlainMessage::parse(message) {
            Ok(message) => message,
            Err(why) => return refused(why),
        };
        match credentials.plain(&user) {
            PlainRule::Accept => accepted(Mechanism::Plain, Some(user), None),
            PlainRule::Check(verifier) => {
                self.state = State::Checking(user);
                Step::CheckPlain(PlainCheck::new(password.to_owned(), verifier))
            }
            PlainRule::Refuse => refused(UNKNOWN_SPACE),
            PlainRule::Ask => {
                self.state = State::Asking(Mechanism::Plain);
                let secret = Secret::new(password);
                Step::Ask(Claim { mechanism: Mechanism::Plain, user: Some(user), secret })
            }
        }
    }

    fn bearer(&mut self, mechanism: Mechanism, message: &[u8], credentials: &dyn Credentials) -> Step {
        match BearerMessage::parse(mechanism, message) {
            Ok(BearerMessage { user, token }) if credentials.bearer(user.as_deref(), mechanism) => {
                self.state = State::Asking(mechanism);
                Step::Ask(Claim { mechanism, user, secret: token })
            }
            Ok(_) => self.fail(mechanism, "tokens are not supported here", false),
            Err(why) => self.fail(mechanism, why, true),
        }
    }
}

const WRONG_PASSWORD: &str = "unknown user or wrong password";
const UNKNOWN_SPACE: &str = "the user name does not name an address space";

const fn accepted(mechanism: Mechanism, user: Option<String>, data: Option<Vec<u8>>) -> Step {
    Step::Accepted { identity: Identity { mechanism, user }, data }
}

const fn refused(why: &'static str) -> Step {
    Step::Refused { code: SaslCode::Auth, why }
}

const fn out_of_turn() -> Step {
    Step::Refused { code: SaslCode::Sys, why: "unexpected SASL frame" }
}
