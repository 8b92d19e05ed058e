//! The four messages of SCRAM (RFC 5802, section 7). Every text of the peer is parsed here; unknown
//! optional attributes at the end are skipped, mandatory extensions (`m=`) are refused.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::sasl::verifier::prepare;

/// The error in a message, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sasl) struct Malformed(pub(in crate::sasl) &'static str);

/// `n,a=authzid,n=user,r=nonce`
#[derive(Debug, PartialEq, Eq)]
pub(in crate::sasl) struct ClientFirst<'a> {
    /// up to and with the second comma
    pub(in crate::sasl) gs2_header: &'a str,
    /// the message without its header
    pub(in crate::sasl) bare: &'a str,
    /// decoded and prepared
    pub(in crate::sasl) user: String,
    /// the client's nonce
    pub(in crate::sasl) nonce: &'a str,
}

impl<'a> ClientFirst<'a> {
    pub(in crate::sasl) fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let text = utf8(message)?;
        let (flag, rest) = text.split_once(',').ok_or(Malformed("SCRAM: the first message has no header"))?;
        let (authzid, bare) = rest.split_once(',').ok_or(Malformed("SCRAM: the first message has no header"))?;
        match flag {
            // `y`: the client supports channel binding and assumes correctly that the server does
            // not.
            "n" | "y" => {}
            flag if flag.starts_with("p=") => return Err(Malformed("SCRAM: channel binding is not offered")),
            _ => return Err(Malformed("SCRAM: the first message has no channel binding flag")),
        }
        let mut attributes = Attributes(bare);
        let user = sasl_name(attributes.expect('n')?)?;
        let nonce = printable(attributes.expect('r')?)?;
        if !authzid.is_empty() {
            let authzid = authzid.strip_prefix("a=").ok_or(Malformed("SCRAM: the header holds no authzid"))?;
            if sasl_name(authzid)? != user {
                return Err(Malformed("SCRAM: acting as another user is not supported"));
            }
        }
        let gs2_header = &text[..text.len() - bare.len()];
        Ok(Self { gs2_header, bare, user, nonce })
    }
}

/// `r=nonce,s=salt,i=rounds`
#[derive(Debug, PartialEq, Eq)]
pub(in crate::sasl) struct ServerFirst<'a> {
    /// the client's nonce followed by the server's
    pub(in crate::sasl) nonce: &'a str,
    pub(in crate::sasl) salt: Vec<u8>,
    pub(in crate::sasl) iterations: NonZeroU32,
}

impl<'a> ServerFirst<'a> {
    pub(in crate::sasl) fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut attributes = Attributes(utf8(message)?);
        let nonce = printable(attributes.expect('r')?)?;
        let salt = base64(attributes.expect('s')?)?;
        let iterations = attributes.expect('i')?;
        let iterations = iterations.parse().map_err(|_| Malformed("SCRAM: the iteration count is not a number"))?;
        Ok(Self { nonce, salt, iterations })
    }

    pub(in crate::sasl) fn write(&self) -> String {
        format!("r={},s={},i={}", self.nonce, BASE64.encode(&self.salt), self.iterations)
    }
}

/// `c=binding,r=nonce,p=proof`
#[derive(Debug, PartialEq, Eq)]
pub(in crate::sasl) struct ClientFinal<'a> {
    pub(in crate::sasl) binding: Vec<u8>,
    /// the client's nonce followed by the server's
    pub(in crate::sasl) nonce: &'a str,
    pub(in crate::sasl) proof: Vec<u8>,
    /// everything before `,p=`
    pub(in crate::sasl) without_proof: &'a str,
}

impl<'a> ClientFinal<'a> {
    pub(in crate::sasl) fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let text = utf8(message)?;
        let mut attributes = Attributes(text);
        let binding = base64(attributes.expect('c')?)?;
        let nonce = printable(attributes.expect('r')?)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(Malformed("SCRAM: the proof is missing"))?;
        Ok(Self { binding, nonce, proof: base64(proof)?, without_proof })
    }
}

/// `v=signature` or `e=error`
#[derive(Debug, PartialEq, Eq)]
pub(in crate::sasl) enum ServerFinal {
    Signature(Vec<u8>),
    Error(String),
}

impl ServerFinal {
    pub(in crate::sasl) fn parse(message: &[u8]) -> Result<Self, Malformed> {
        let mut attributes = Attributes(utf8(message)?);
        match attributes.expect('v') {
            Ok(signature) => base64(signature).map(Self::Signature),
            Err(_) => Attributes(utf8(message)?).expect('e').map(|error| Self::Error(error.to_owned())),
        }
    }

    pub(in crate::sasl) fn write(&self) -> String {
        match self {
            Self::Signature(signature) => format!("v={}", BASE64.encode(signature)),
            Self::Error(error) => format!("e={error}"),
        }
    }
}

/// The rest of `name=value,name=value`.
struct Attributes<'a>(&'a str);

impl<'a> Attributes<'a> {
    /// The value of the next attribute, which must be `name`.
    fn expect(&mut self, name: char) -> Result<&'a str, Malformed> {
        let (attribute, rest) = self.0.split_once(',').unwrap_or((self.0, ""));
        self.0 = rest;
        match attribute.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
            Some(value) => Ok(value),
            None if attribute.starts_with("m=") => Err(Malformed("SCRAM: a mandatory extension is not supported")),
            None => Err(Malformed("SCRAM: an attribute is missing or out of order")),
        }
    }
}

fn utf8(message: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(message).map_err(|_| Malformed("SCRAM: the message is not UTF-8"))
}

fn base64(text: &str) -> Result<Vec<u8>, Malformed> {
    BASE64.decode(text).map_err(|_| Malformed("SCRAM: an attribute is not base64"))
}

/// A nonce: printable ASCII without commas, at least one character.
fn printable(text: &str) -> Result<&str, Malformed> {
    let good = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    good.then_some(text).ok_or(Malformed("SCRAM: a nonce is empty or not printable"))
}

/// A user name: `=2C` is a comma, `=3D` is `=`, any other `=` is wrong; prepared by SASLprep.
fn sasl_name(text: &str) -> Result<String, Malformed> {
    let wrong = Malformed("SCRAM: the user name is not valid text");
    let mut parts = text.split('=');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (character, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return Err(wrong),
        };
        name.push(character);
        name.push_str(rest);
    }
    prepare(&name).map(std::borrow::Cow::into_owned).map_err(|_| wrong)
}
