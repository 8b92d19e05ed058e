//! Peers that log in again and again, and the logins of other clients in the meantime.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use enmasse_amqp::types::{SaslCode, condition};
use enmasse_node::ListenerKind::Amqp;
use enmasse_node::WorkerStats;
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::control::guarded_plan_of;
use crate::harness::{Client, PATIENCE, Site, Stream, plain, workers};

/// Iterations of a password: some milliseconds for each check, so that checks are the bottleneck.
const ROUNDS: u32 = 20_000;

/// Two closed spaces, `guarded` and `other`, each with a user `alice`.
fn two_spaces() -> Value {
    let mut plan: Value = serde_json::from_str(&guarded_plan_of(ROUNDS)).unwrap();
    let mut other = plan["spaces"][0].clone();
    other["uid"] = json!("t");
    other["names"] = json!(["other"]);
    other["addresses"][0]["uid"] = json!("b");
    plan["spaces"].as_array_mut().unwrap().push(other);
    plan
}

/// A stream from another host than the other clients of these tests.
fn from_elsewhere(site: &Site) -> Box<dyn Stream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0)).into()).unwrap();
    socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, site.port(Amqp))).into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Box::new(stream)
}

fn sum(site: &Site, of: impl Fn(&WorkerStats) -> u64) -> u64 {
    site.stats().workers.iter().map(of).sum()
}

#[test]
fn thousand_wrong_passwords_do_not_delay_a_user_of_another_space() {
    let site = Site::new(&workers(2), &two_spaces().to_string());
    let knock = || Client::bare(from_elsewhere(&site), Some(plain("mallory@other", "guess")));
    let mut knocking: Vec<Client> = (0..1000).map(|_| knock()).collect();
    knocking.iter_mut().for_each(Client::write_pending);
    let before = sum(&site, |worker| worker.passwords_checked);
    let mut alice = Client::start(site.stream(Amqp), Some(plain("alice@guarded", "secret")));
    let checked = sum(&site, |worker| worker.passwords_checked) - before;
    // One that was in progress, one of the other space, her own, and those done before her login
    // arrived.
    assert!(checked <= 20, "{checked} passwords were checked before her login");
    let answered = before + checked + sum(&site, |worker| worker.checks_refused);
    assert!(answered < 990, "{answered} logins were answered: the flood no longer waits");
    alice.receiver("orders", 1);
    let codes: Vec<SaslCode> = knocking.iter_mut().map(Client::sasl_code).collect();
    assert!(codes.iter().all(|code| matches!(code, SaslCode::Auth | SaslCode::SysTemp)), "{codes:?}");
}

#[test]
fn full_space_refuses_logins_with_the_reason_and_later_without_a_check() {
    let mut plan = two_spaces();
    plan["spaces"][0]["limits"] = json!({"connections": 1});
    let site = Site::new(&workers(1), &plan.to_string());
    let knock = || Client::bare(site.stream(Amqp), Some(plain("alice@guarded", "secret")));
    let inside = Client::start(site.stream(Amqp), Some(plain("alice@guarded", "secret")));
    let mut knocking: Vec<Client> = (0..200).map(|_| knock()).collect();
    knocking.iter_mut().for_each(Client::write_pending);
    let codes: Vec<SaslCode> = knocking.iter_mut().map(Client::sasl_code).collect();
    let notified = codes.iter().zip(&mut knocking).filter(|(code, _)| **code == SaslCode::Ok).map(|(_, client)| {
        assert_eq!(client.closed().unwrap().condition, condition::RESOURCE_LIMIT_EXCEEDED);
    });
    let notified = notified.count();
    assert!(notified >= 10, "{codes:?}");
    assert!(codes.iter().all(|code| matches!(code, SaslCode::Ok | SaslCode::SysTemp)), "{codes:?}");
    let checked = sum(&site, |worker| worker.passwords_checked);
    assert_eq!(checked as usize, notified + 1, "a password was checked for nothing");
    assert!(notified < 150, "{notified} of 200 passwords were checked");
    drop(inside);
    // Another space notices nothing, and the next client gets a place once one is free.
    Client::start(site.stream(Amqp), Some(plain("alice@other", "secret"))).receiver("orders", 1);
}
