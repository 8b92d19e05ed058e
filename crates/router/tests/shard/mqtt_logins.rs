//! Authentication methods of MQTT 5.0 at a node: within CONNECT, and again later (4.12), as bytes.

use enmasse_amqp::sasl::{Client, Login};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{SaslCode, SaslOutcome, Symbol};
use enmasse_mqtt::codec::{Packet, ReasonCode, Version, decode, fixed};
use enmasse_router::plan::{Operation, Right};
use enmasse_router::shard::Fact;
use enmasse_router::table::{Judged, Rights};

use crate::net::Net;
use crate::revoking::space;

const CLOSED: &str = include_str!("../../../../vectors/plans/closed.json");
const REAUTHENTICATE: u8 = 0x19;
const CONTINUE: u8 = 0x18;

fn field(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

/// The properties of an authentication, with their length (2.2.2).
fn properties(method: &str, data: &[u8]) -> Vec<u8> {
    let properties = [&[0x15][..], &field(method.as_bytes()), &[0x16], &field(data)].concat();
    [&[u8::try_from(properties.len()).unwrap()][..], &properties].concat()
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    assert!(body.len() < 16_384);
    let length =
        if body.len() < 128 { vec![body.len() as u8] } else { vec![body.len() as u8 | 128, (body.len() >> 7) as u8] };
    [&[first][..], &length, body].concat()
}

fn connect(net: &mut Net, device: usize, method: &str, data: &[u8]) {
    let body = [b"\0\x04MQTT\x05\x02\0\0", &properties(method, data)[..], &field(b"device")].concat();
    net.tell(device, &packet(0x10, &body));
}

fn auth(net: &mut Net, device: usize, code: u8, method: &str, data: &[u8]) {
    net.tell(device, &packet(0xf0, &[&[code], &properties(method, data)[..]].concat()));
}

#[derive(Debug, PartialEq)]
enum Seen {
    ConnAck(u8, Vec<u8>),
    Auth(u8, Vec<u8>),
    Disconnect(u8),
    SubAck(u8),
}

fn seen(net: &mut Net, device: usize) -> Vec<Seen> {
    use enmasse_mqtt::codec::PropertyId::AuthenticationData;
    let bytes = std::mem::take(&mut net.devices[device].received);
    let (mut rest, mut seen) = (&bytes[..], Vec::new());
    while let Some((frame, length)) = fixed::split(rest, u32::MAX).unwrap() {
        seen.push(match decode(&frame, Version::V5).unwrap() {
            Packet::ConnAck(one) => {
                Seen::ConnAck(one.code, one.properties.binary(AuthenticationData).unwrap_or_default().to_vec())
            }
            Packet::Auth(one) => Seen::Auth(one.code.as_u8(), one.data().unwrap_or_default().to_vec()),
            Packet::Disconnect(one) => Seen::Disconnect(one.code.as_u8()),
            Packet::SubAck(one) => Seen::SubAck(one.codes().next().unwrap().as_u8()),
            other => panic!("unexpected: {other:?}"),
        });
        rest = &rest[length..];
    }
    assert_eq!(rest, b"");
    seen
}

fn subscribe(net: &mut Net, device: usize, filter: &str) -> Vec<Seen> {
    net.tell(device, &packet(0x82, &[&b"\0\x01\0"[..], &field(filter.as_bytes()), &[1]].concat()));
    seen(net, device)
}

/// A client that logged in with a method whose first message decides.
fn logged_in(net: &mut Net, method: &str, data: &[u8]) -> usize {
    let device = net.device(0);
    connect(net, device, method, data);
    assert!(matches!(seen(net, device)[..], [Seen::ConnAck(0, _)]), "{:?}", net.facts);
    device
}

const TOKEN: &[u8] = b"n,,\x01auth=Bearer abc\x01\x01";

fn granted(user: &str, until_ms: u64, pattern: &str) -> Judged {
    let right = Right { pattern: pattern.into(), operations: vec![Operation::Recv] };
    let (rights, until) = (Rights::compile(&[right]).unwrap(), Some(Time::ZERO.plus_millis(until_ms)));
    Judged::Right { user: user.into(), rights, until, renewable: false }
}

fn with_token(user: &str, until_ms: u64, pattern: &str) -> (Net, usize) {
    let mut net = Net::new(1, &space("idp/1", "{\"name\": \"alice\", \"rights\": []}"));
    net.judge = granted(user, until_ms, pattern);
    let device = logged_in(&mut net, "OAUTHBEARER", TOKEN);
    (net, device)
}

/// [5: 4.12.0-2] [5: 4.12.0-3] [5: 4.12.0-5]
#[test]
fn exchange_of_several_steps_is_repeated_on_the_open_connection() {
    let mut net = Net::new(1, CLOSED);
    let device = net.device(0);
    let method = "SCRAM-SHA-256";
    for again in [false, true, true] {
        let login = Login { password: Some(("alice".to_owned(), "pencil".to_owned())), ..Login::default() };
        let mut client = Client::new(login, [u8::from(again) + 7; 18]);
        let first = client.start(&[Symbol::from(method)], None).unwrap().initial_response.unwrap();
        match again {
            false => connect(&mut net, device, method, &first),
            true => auth(&mut net, device, REAUTHENTICATE, method, &first),
        }
        let [Seen::Auth(CONTINUE, challenge)] = &seen(&mut net, device)[..] else { panic!("no challenge") };
        let last = client.challenge(challenge).unwrap();
        auth(&mut net, device, CONTINUE, method, &last);
        let outcome = seen(&mut net, device);
        let proof = match &outcome[..] {
            [Seen::ConnAck(0, proof)] if !again => proof,
            [Seen::Auth(0, proof)] if again => proof,
            other => panic!("{other:?}"),
        };
        let outcome = SaslOutcome { code: SaslCode::Ok, additional_data: Some(proof.clone()) };
        assert_eq!(client.outcome(&outcome), Ok(()), "the server proves that it knows the password");
        assert_eq!(subscribe(&mut net, device, "orders/1"), [Seen::SubAck(1)]);
    }
}

#[test]
fn new_token_has_its_own_expiry_and_rights() {
    let (mut net, device) = with_token("alice", 5_000, "anycast");
    assert_eq!(subscribe(&mut net, device, "anycast"), [Seen::SubAck(1)]);
    assert_eq!(subscribe(&mut net, device, "multicast"), [Seen::SubAck(ReasonCode::NotAuthorized.as_u8())]);
    net.judge = granted("alice", 60_000, "#");
    auth(&mut net, device, REAUTHENTICATE, "OAUTHBEARER", TOKEN);
    assert_eq!(seen(&mut net, device), [Seen::Auth(0, Vec::new())]);
    assert_eq!(subscribe(&mut net, device, "multicast"), [Seen::SubAck(1)]);
    net.pass(59_999);
    assert_eq!(seen(&mut net, device), [], "the first token has expired");
    net.pass(1);
    assert_eq!(seen(&mut net, device), [Seen::Disconnect(ReasonCode::NotAuthorized.as_u8())]);
}

#[test]
fn subscription_without_a_right_any_more_ends_the_connection() {
    let (mut net, device) = with_token("alice", 5_000, "anycast");
    assert_eq!(subscribe(&mut net, device, "anycast"), [Seen::SubAck(1)]);
    net.judge = granted("alice", 60_000, "multicast");
    auth(&mut net, device, REAUTHENTICATE, "OAUTHBEARER", TOKEN);
    assert_eq!(seen(&mut net, device), [Seen::Disconnect(ReasonCode::NotAuthorized.as_u8())]);
}

/// [5: 4.12.1-2]
#[test]
fn failed_exchange_or_another_user_ends_the_connection() {
    let bob = granted("bob", 60_000, "#");
    for (judged, code, reason) in [
        (bob, ReasonCode::NotAuthorized, "cannot change its user"),
        (Judged::Unknown("no answer".to_owned()), ReasonCode::ServerBusy, "no answer"),
    ] {
        let (mut net, device) = with_token("alice", 5_000, "#");
        net.judge = judged;
        auth(&mut net, device, REAUTHENTICATE, "OAUTHBEARER", TOKEN);
        assert_eq!(seen(&mut net, device), [Seen::Disconnect(code.as_u8())]);
        let reported = |fact: &Fact| matches!(fact, Fact::LoginRefused(refusal) if refusal.reason.contains(reason));
        assert!(net.facts.iter().any(reported), "operators learn why: {:?}", net.facts);
    }
    // The token is refused by a challenge, which the client answers (RFC 7628, 3.2.3).
    let (mut net, device) = with_token("alice", 5_000, "#");
    net.judge = Judged::Wrong("revoked".to_owned());
    auth(&mut net, device, REAUTHENTICATE, "OAUTHBEARER", TOKEN);
    assert!(matches!(seen(&mut net, device)[..], [Seen::Auth(CONTINUE, _)]));
    auth(&mut net, device, CONTINUE, "OAUTHBEARER", b"\x01");
    assert_eq!(seen(&mut net, device), [Seen::Disconnect(ReasonCode::NotAuthorized.as_u8())]);
    // A wrong password.
    let mut net = Net::new(1, CLOSED);
    let device = logged_in(&mut net, "PLAIN", b"\0alice\0pencil");
    auth(&mut net, device, REAUTHENTICATE, "PLAIN", b"\0alice\0guess");
    assert_eq!(seen(&mut net, device), [Seen::Disconnect(ReasonCode::NotAuthorized.as_u8())]);
}

/// [5: 4.12.0-1] [5: 4.12.1-1]
#[test]
fn method_that_is_not_offered_any_more_is_refused() {
    let mut net = Net::new(1, CLOSED);
    let device = logged_in(&mut net, "PLAIN", b"\0alice\0pencil");
    net.apply(&CLOSED.replace("\"SCRAM-SHA-256\", \"PLAIN\"", "\"SCRAM-SHA-256\""));
    auth(&mut net, device, REAUTHENTICATE, "PLAIN", b"\0alice\0pencil");
    assert_eq!(seen(&mut net, device), [Seen::Disconnect(ReasonCode::BadAuthenticationMethod.as_u8())]);
    let device = net.device(0);
    connect(&mut net, device, "PLAIN", b"\0alice\0pencil");
    assert_eq!(seen(&mut net, device), [Seen::ConnAck(ReasonCode::BadAuthenticationMethod.as_u8(), Vec::new())]);
}
