//! SCRAM (RFC 5802): the messages and the proofs.
//!
//! ```text
//! client-first   n,,n=user,r=CNONCE
//! server-first   r=CNONCE SNONCE,s=salt,i=rounds
//! client-final   c=biws,r=CNONCE SNONCE,p=proof       the client knows the password
//! server-final   v=signature                          the server knows the verifier
//! ```

mod keys;
mod message;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

pub use keys::DerivedKeys;
pub(super) use message::{ClientFinal, ClientFirst, Malformed, ServerFinal, ServerFirst};

use super::{Hash, Nonce, Verifier};

/// The server between its first message and the client's last.
pub(super) struct ServerExchange {
    verifier: Verifier,
    user: String,
    /// the GS2 header that the client must repeat
    gs2_header: String,
    /// the client's nonce followed by the server's
    nonce: String,
    /// client-first-message-bare, server-first-message and the comma after each
    messages: String,
}

impl ServerExchange {
    /// Answers a client's first message: the exchange, and the server's first message.
    pub(super) fn begin(first: &ClientFirst<'_>, verifier: Verifier, nonce: &Nonce) -> (Self, Vec<u8>) {
        Self::begin_with(first, verifier, &BASE64.encode(nonce))
    }

    pub(super) fn begin_with(first: &ClientFirst<'_>, verifier: Verifier, nonce: &str) -> (Self, Vec<u8>) {
        let nonce = format!("{}{nonce}", first.nonce);
        let reply = ServerFirst { nonce: &nonce, salt: verifier.salt.clone(), iterations: verifier.iterations }.write();
        let messages = format!("{},{reply},", first.bare);
        let gs2_header = first.gs2_header.to_owned();
        (Self { verifier, user: first.user.clone(), gs2_header, nonce, messages }, reply.into_bytes())
    }

    /// Checks the client's last message: the user and the server's last message. `Ok(None)`: the
    /// proof is wrong.
    pub(super) fn finish(self, message: &[u8]) -> Result<Option<(String, Vec<u8>)>, Malformed> {
        let last = ClientFinal::parse(message)?;
        if last.binding != self.gs2_header.as_bytes() {
            return Err(Malformed("SCRAM: the channel binding is not that of the first message"));
        }
        if last.nonce != self.nonce {
            return Err(Malformed("SCRAM: the nonce is not that of this exchange"));
        }
        let auth_message = self.messages + last.without_proof;
        if !proves(&self.verifier, &auth_message, &last.proof) {
            return Ok(None);
        }
        let signature = self.verifier.hash.hmac(&self.verifier.server_key, auth_message.as_bytes());
        Ok(Some((self.user, ServerFinal::Signature(signature).write().into_bytes())))
    }
}

/// Whether `proof` proves knowledge of the ClientKey behind the verifier. Takes constant time.
fn proves(verifier: &Verifier, auth_message: &str, proof: &[u8]) -> bool {
    let hash = verifier.hash;
    let signature = hash.hmac(&verifier.stored_key, auth_message.as_bytes());
    let client_key = hash.digest(&xor(&signature, proof));
    proof.len() == hash.length() && verify_slices_are_equal(&client_key, &verifier.stored_key).is_ok()
}

fn xor(one: &[u8], other: &[u8]) -> Vec<u8> {
    one.iter().zip(other).map(|(one, other)| one ^ other).collect()
}

/// The client between its first message and the server's first.
pub(super) struct ClientExchange {
    hash: Hash,
    /// prepared
    password: String,
    nonce: String,
    /// client-first-message-bare and a comma
    messages: String,
}

impl ClientExchange {
    /// The exchange and the client's first message; both texts must be prepared.
    pub(super) fn begin(hash: Hash, user: &str, password: String, nonce: &Nonce) -> (Self, Vec<u8>) {
        Self::begin_with(hash, user, password, BASE64.encode(nonce))
    }

    pub(super) fn begin_with(hash: Hash, user: &str, password: String, nonce: String) -> (Self, Vec<u8>) {
        let bare = format!("n={},r={nonce}", user.replace('=', "=3D").replace(',', "=2C"));
        let message = format!("{GS2_HEADER}{bare}").into_bytes();
        (Self { hash, password, nonce, messages: bare + "," }, message)
    }

    /// Answers the server's first message: the client's last message, and the signature expected
    /// from the server.
    #[cfg(test)]
    pub(super) fn prove(self, message: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Malformed> {
        self.prove_with(message, &mut None)
    }

    /// As `prove`, with the keys of an earlier login if they still apply; stores the keys that were
    /// used.
    pub(super) fn prove_with(
        self,
        message: &[u8],
        kept: &mut Option<DerivedKeys>,
    ) -> Result<(Vec<u8>, Vec<u8>), Malformed> {
        let first = ServerFirst::parse(message)?;
        if !first.nonce.starts_with(&self.nonce) || first.nonce.len() == self.nonce.len() {
            return Err(Malformed("SCRAM: the server's nonce does not continue the client's"));
        }
        match first.iterations.get() {
            ..ITERATIONS_MIN => {
                return Err(Malformed(
                    "SCRAM: the server asks for fewer than 4,096 iterations, too few to protect a password",
                ));
            }
            ITERATIONS_MIN..=ITERATIONS_MAX => {}
            _ => return Err(Malformed("SCRAM: the server asks for more than 1,000,000 iterations, the limit")),
        }
        let derived = DerivedKeys::reuse(kept.take(), self.hash, &self.password, &first.salt, first.iterations);
        let keys = kept.insert(derived).keys();
        let without_proof = format!("c={},r={}", BASE64.encode(GS2_HEADER), first.nonce);
        let first = std::str::from_utf8(message).map_err(|_| Malformed("SCRAM: the message is not UTF-8"))?;
        let auth_message = format!("{}{first},{without_proof}", self.messages);
        let stored_key = self.hash.digest(&keys.client_key);
        let proof = xor(&keys.client_key, &self.hash.hmac(&stored_key, auth_message.as_bytes()));
        let signature = self.hash.hmac(&keys.server_key, auth_message.as_bytes());
        Ok((format!("{without_proof},p={}", BASE64.encode(proof)).into_bytes(), signature))
    }
}

/// This client uses no channel binding and no authorization identity.
const GS2_HEADER: &str = "n,,";

/// With fewer rounds a rogue server could cheaply guess the password from the proof (RFC 5802,
/// section 5.1 and RFC 7677, section 4 require at least 4,096).
const ITERATIONS_MIN: u32 = 4_096;
/// With more rounds an unauthenticated server could keep the client busy for seconds.
const ITERATIONS_MAX: u32 = 1_000_000;
