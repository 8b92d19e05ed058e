//! OAUTHBEARER (RFC 7628) and XOAUTH2: one message with a token of another issuer.
//!
//! `n,a=USER,^Ahost=..^Aport=..^Aauth=Bearer TOKEN^A^A`, and `user=USER^Aauth=Bearer TOKEN^A^A`,
//! where `^A` is 0x01.

use super::verifier::prepare;
use super::{Mechanism, Secret};

/// Bytes of the longest token taken: a little less than fits into a frame before the connection is
/// open.
const TOKEN_BYTES_MAX: usize = 16_000;

/// The parsed message of a client.
pub(super) struct BearerMessage {
    /// the claimed user of the token, prepared by SASLprep
    pub(super) user: Option<String>,
    pub(super) token: Secret,
}

impl BearerMessage {
    /// Parses the message of either mechanism.
    pub(super) fn parse(mechanism: Mechanism, message: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(message).map_err(|_| "bearer: the message is not UTF-8")?;
        let Some(body) = text.strip_suffix("\u{1}\u{1}") else {
            return Err("bearer: the message does not end with two 0x01");
        };
        let mut parts = body.split('\u{1}');
        let mut user = None;
        if mechanism == Mechanism::OAuthBearer {
            user = authzid(parts.next().unwrap_or_default())?;
        }
        let mut token = None;
        for part in parts {
            match part.split_once('=') {
                Some(("auth", value)) if token.is_none() => token = Some(bearer(value)?),
                Some(("auth", _)) => return Err("bearer: auth is given twice"),
                Some(("user", value)) if mechanism == Mechanism::XOAuth2 && user.is_none() => {
                    user = prepared_user(value)?
                }
                Some((key, _)) if !key.is_empty() => {}
                _ => return Err("bearer: a part of the message is not key=value"),
            }
        }
        let token = token.ok_or("bearer: auth is missing")?;
        Ok(Self { user, token })
    }

    /// Formats a message.
    pub(super) fn write(mechanism: Mechanism, user: Option<&str>, token: &str) -> Vec<u8> {
        let head = match (mechanism, user) {
            (Mechanism::OAuthBearer, Some(user)) => {
                format!("n,a={},", user.replace('=', "=3D").replace(',', "=2C"))
            }
            (Mechanism::OAuthBearer, None) => "n,,".to_owned(),
            (_, user) => format!("user={}", user.unwrap_or_default()),
        };
        format!("{head}\u{1}auth=Bearer {token}\u{1}\u{1}").into_bytes()
    }
}

/// The user in the header of RFC 5801, section 4; channel binding is not supported.
fn authzid(header: &str) -> Result<Option<String>, &'static str> {
    let rest = header.strip_prefix("n,").or_else(|| header.strip_prefix("y,"));
    let rest = rest.and_then(|rest| rest.strip_suffix(','));
    match rest {
        Some("") => Ok(None),
        Some(rest) => match rest.strip_prefix("a=") {
            Some(name) if !name.contains(',') => {
                let name = name.replace("=2C", ",").replace("=2c", ",");
                prepared_user(&name.replace("=3D", "=").replace("=3d", "="))
            }
            _ => Err("OAUTHBEARER: the header has an attribute other than a=USER"),
        },
        None => Err("OAUTHBEARER: the header is not n,[a=USER],"),
    }
}

fn prepared_user(user: &str) -> Result<Option<String>, &'static str> {
    if user.is_empty() {
        return Ok(None);
    }
    let user = prepare(user).map_err(|_| "bearer: the user name is not valid text")?;
    Ok(Some(user.into_owned()))
}

/// The token of RFC 6750, section 2.1.
fn bearer(value: &str) -> Result<Secret, &'static str> {
    let (scheme, token) = value.split_once(' ').ok_or("bearer: auth is not `Bearer TOKEN`")?;
    let token = token.trim_matches(' ');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() || !token.bytes().all(is_plain) {
        return Err("bearer: auth is not `Bearer TOKEN`");
    }
    if token.len() > TOKEN_BYTES_MAX {
        return Err("bearer: the token is longer than 16,000 bytes");
    }
    Ok(Secret::new(token))
}

/// The error response for a client whose token is refused (RFC 7628, section 3.2.2). XOAUTH2 has
/// none: its clients expect the outcome at once.
pub(super) fn failure(mechanism: Mechanism, malformed: bool) -> Option<Vec<u8>> {
    let status = if malformed { "invalid_request" } else { "invalid_token" };
    (mechanism == Mechanism::OAuthBearer).then(|| format!("{{\"status\":\"{status}\"}}").into_bytes())
}
