//! The vectors in `vectors/sasl`, read by the tests of the control plane as well.

use std::num::NonZeroU32;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::sasl::plain::PlainMessage;
use crate::sasl::scram::{ClientExchange, ClientFirst, ServerExchange};
use crate::sasl::verifier::prepare;
use crate::sasl::{Hash, Mechanism, derive};

#[expect(clippy::disallowed_methods, reason = "a test reads its vectors")]
fn read<T: DeserializeOwned>(name: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/sasl").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn hash(mechanism: &str) -> Hash {
    match Mechanism::from_name(mechanism) {
        Some(Mechanism::Scram(hash)) => hash,
        other => panic!("{mechanism} is {other:?}"),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Exchange {
    source: String,
    mechanism: String,
    user: String,
    password: String,
    client_nonce: String,
    server_nonce: String,
    salt: String,
    iterations: NonZeroU32,
    client_first: String,
    server_first: String,
    client_final: String,
    server_final: String,
}

#[test]
fn scram_exchange_matches_the_vectors_of_the_standards() {
    for vector in read::<Exchange>("exchanges.json") {
        let hash = hash(&vector.mechanism);
        let salt = BASE64.decode(&vector.salt).unwrap();
        let verifier = derive(hash, &vector.password, &salt, vector.iterations).unwrap();
        let (client, first) =
            ClientExchange::begin_with(hash, &vector.user, vector.password.clone(), vector.client_nonce.clone());
        assert_eq!(first, vector.client_first.as_bytes(), "{}", vector.source);

        let parsed = ClientFirst::parse(&first).unwrap();
        assert_eq!(parsed.user, vector.user);
        let (server, challenge) = ServerExchange::begin_with(&parsed, verifier, &vector.server_nonce);
        assert_eq!(challenge, vector.server_first.as_bytes(), "{}", vector.source);

        let (response, signature) = client.prove(&challenge).unwrap();
        assert_eq!(response, vector.client_final.as_bytes(), "{}", vector.source);

        let (user, last) = server.finish(&response).unwrap().expect("the proof is right");
        assert_eq!((&*user, &*last), (&*vector.user, vector.server_final.as_bytes()), "{}", vector.source);
        assert_eq!(format!("v={}", BASE64.encode(signature)), vector.server_final);
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Derived {
    mechanism: String,
    password: String,
    salt: String,
    iterations: NonZeroU32,
    stored_key: String,
    server_key: String,
}

#[test]
fn derived_keys_match_the_shared_vectors() {
    for vector in read::<Derived>("verifiers.json") {
        let salt = BASE64.decode(&vector.salt).unwrap();
        let derived = derive(hash(&vector.mechanism), &vector.password, &salt, vector.iterations).unwrap();
        assert_eq!(BASE64.encode(&derived.stored_key), vector.stored_key, "{:?}", vector.password);
        assert_eq!(BASE64.encode(&derived.server_key), vector.server_key, "{:?}", vector.password);
        assert!(derived.check(&vector.password));
        assert!(!derived.check("another password"));
    }
}

#[derive(Deserialize)]
struct Prepared {
    why: String,
    text: String,
    prepared: Option<String>,
}

#[test]
fn saslprep_matches_the_shared_vectors() {
    for vector in read::<Prepared>("prepared.json") {
        assert_eq!(prepare(&vector.text).ok().as_deref(), vector.prepared.as_deref(), "{}", vector.why);
    }
}

/// RFC 4616, section 4.
#[test]
fn plain_message_matches_the_example_of_rfc_4616() {
    let parsed = PlainMessage::parse(b"\0tim\0tanstaaftanstaaf").unwrap();
    assert_eq!(parsed, PlainMessage { user: "tim".into(), password: "tanstaaftanstaaf" });
    // In this example Kurt acts as Ursel. The server does not support acting as another user.
    assert!(PlainMessage::parse(b"Ursel\0Kurt\0xipj3plmq").is_err());
    assert_eq!(PlainMessage::write("tim", "tanstaaftanstaaf"), b"\0tim\0tanstaaftanstaaf");
}
