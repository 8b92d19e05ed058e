//! The operations of the owner of a node: plans, logins, statistics, events, the trace, sessions in
//! this process.

use std::time::Duration;

use enmasse_amqp::sasl::{Hash, derive};
use enmasse_amqp::types::{SaslCode, SaslInit, Symbol, condition};
use enmasse_node::ListenerKind::{Amqp, Amqps};
use enmasse_node::{DummyCredentialSecret, ErrorKind, EventKind, Listener, ListenerKind, NodeConfig};
use serde_json::{Value, json};

use crate::harness::{Client, OPEN_SPACE, PATIENCE, Site, plain, tls, tls_to, workers};

fn apply(site: &Site, plan: &Value) -> enmasse_node::Applied {
    site.node.apply(&serde_json::from_value(plan.clone()).unwrap()).unwrap()
}

#[test]
fn plan_change_detaches_links_at_deleted_addresses_only() {
    let site = Site::open(&workers(3));
    let mut doomed: Vec<Client> = (0..6).map(|_| site.client(Amqp)).collect();
    for client in &mut doomed {
        client.receiver("multicast", 1);
    }
    let (mut to, mut from) = (site.client(Amqp), site.client(Amqp));
    to.receiver("anycast", 10);
    let out = from.sender(Some("anycast"));

    let mut plan: Value = serde_json::from_str(OPEN_SPACE).unwrap();
    plan["version"] = json!(3);
    let gone = plan["spaces"][0]["addresses"].as_array_mut().unwrap().pop().unwrap();
    let applied = apply(&site, &plan);
    assert_eq!((applied.proof.version, applied.added, applied.removed, applied.changed), (3, 0, 1, 0));
    assert_eq!(applied.proof.active, ["address-1"]);
    for client in &mut doomed {
        assert_eq!(client.detached().unwrap().condition, condition::RESOURCE_DELETED);
    }
    from.send(out, b"as ever", true);
    assert_eq!(to.receive().2, b"as ever");

    plan["version"] = json!(2);
    let older = site.node.apply(&serde_json::from_value(plan.clone()).unwrap()).unwrap_err();
    assert!(older.to_string().contains("older"), "{older}");
    plan["version"] = json!(4);
    plan["spaces"][0]["addresses"].as_array_mut().unwrap().push(gone);
    assert_eq!(apply(&site, &plan).added, 1);
    doomed[0].receiver("multicast", 1);
}

pub(crate) fn guarded_plan() -> String {
    guarded_plan_of(4096)
}

/// A space with authentication; its password takes this number of PBKDF2 iterations.
pub(crate) fn guarded_plan_of(iterations: u32) -> String {
    let verifier = derive(Hash::Sha256, "secret", b"0123456789abcdef", iterations.try_into().unwrap()).unwrap();
    let base64 = |bytes: &[u8]| base64(bytes);
    let plan = json!({"version": 1, "spaces": [{
        "uid": "s", "names": ["guarded"],
        "authentication": {"type": "standard", "anonymous": false, "mechanisms": ["SCRAM-SHA-256", "PLAIN", "EXTERNAL"]},
        "users": [{"name": "alice", "rights": [{"pattern": "#", "operations": ["send", "recv"]}], "verifiers": [{
            "mechanism": "SCRAM-SHA-256", "salt": base64(&verifier.salt), "iterations": verifier.iterations,
            "storedKey": base64(&verifier.stored_key), "serverKey": base64(&verifier.server_key)}]}],
        "addresses": [{"uid": "a", "name": "orders", "type": "anycast"}]}]});
    plan.to_string()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word = three.iter().chain(&[0, 0]).take(3).fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= three.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[test]
fn correct_password_is_accepted_and_a_wrong_one_is_refused() {
    let site = Site::new(&workers(2), &guarded_plan());
    for kind in [Amqp, Amqps] {
        let mut alice = Client::start(site.stream(kind), Some(plain("alice", "secret")));
        alice.receiver("orders", 1);
        for (user, password) in [("alice", "wrong"), ("bob", "secret")] {
            let mut stranger = Client::bare(site.stream(kind), Some(plain(user, password)));
            assert_eq!(stranger.sasl_code(), SaslCode::Auth);
            stranger.read_to_end();
        }
        alice.close();
    }
}

#[test]
fn unknown_user_gets_the_same_scram_salt_after_a_restart() {
    let salt = |secret: Option<&str>, user: &str| {
        let decoy_secret = secret.map(|text| DummyCredentialSecret(text.to_owned()));
        let site = Site::new(&NodeConfig { decoy_secret, ..workers(1) }, &guarded_plan());
        let first = format!("n,,n={user},r=abc").into_bytes();
        let init = SaslInit { mechanism: "SCRAM-SHA-256".into(), initial_response: Some(first), hostname: None };
        let challenge = Client::bare(site.stream(Amqp), Some(init)).sasl_challenge();
        let text = String::from_utf8(challenge).unwrap();
        text.split(',').find_map(|part| part.strip_prefix("s=").map(str::to_owned)).unwrap()
    };
    let (one, other) = ("a".repeat(32), "b".repeat(32));
    assert_eq!(salt(Some(&one), "alice"), salt(Some(&other), "alice"), "a real user has one salt");
    assert_eq!(salt(Some(&one), "mallory"), salt(Some(&one), "mallory"));
    assert_ne!(salt(Some(&one), "mallory"), salt(Some(&other), "mallory"));
    assert_ne!(salt(None, "mallory"), salt(None, "mallory"), "the salt is unpredictable");
}

#[test]
fn sasl_external_authenticates_the_subject_of_the_client_certificate() {
    let site = Site::new(&workers(1), &guarded_plan());
    let log_in = |subject| {
        let config = site.authority.client(subject, &[&rustls::version::TLS13]);
        let stream = tls(site.socket(Amqps), config);
        let init = SaslInit { mechanism: Symbol::constant("EXTERNAL"), initial_response: None, hostname: None };
        Client::bare(Box::new(stream), Some(init)).sasl_code()
    };
    assert_eq!(log_in(Some("alice")), SaslCode::Ok);
    assert_eq!(log_in(Some("mallory")), SaslCode::Auth);
    assert_eq!(log_in(None), SaslCode::Auth);
}

#[test]
fn client_certificate_of_one_space_is_refused_by_another_on_the_node() {
    let mut plan: Value = serde_json::from_str(&guarded_plan()).unwrap();
    let mut other = plan["spaces"][0].clone();
    plan["spaces"][0]["names"] = json!(["guarded", "guarded.north"]);
    other["uid"] = json!("t");
    other["names"] = json!(["other", "other.south"]);
    plan["spaces"].as_array_mut().unwrap().push(other);
    let site = Site::new(&workers(1), &plan.to_string());
    let log_in = |subject, server_name, hostname: Option<&str>| {
        let config = site.authority.client(Some(subject), &[&rustls::version::TLS13]);
        let stream = tls_to(server_name, site.socket(Amqps), config);
        let hostname = hostname.map(str::to_owned);
        let init = SaslInit { mechanism: Symbol::constant("EXTERNAL"), initial_response: None, hostname };
        Client::bare(Box::new(stream), Some(init)).sasl_code()
    };
    assert_eq!(log_in("alice@guarded.north", "localhost", None), SaslCode::Ok);
    assert_eq!(log_in("alice@guarded.north", "localhost", Some("guarded")), SaslCode::Ok);
    assert_eq!(log_in("alice@other.south", "localhost", Some("other.south")), SaslCode::Ok);
    for (subject, hostname) in [
        ("alice@guarded.north", Some("other")),
        ("alice@other.south", Some("guarded.north")),
        ("alice@guarded", None),
        ("alice", None),
        ("alice", Some("guarded")),
        ("alice", Some("other.south")),
    ] {
        assert_eq!(log_in(subject, "localhost", hostname), SaslCode::Auth, "{subject} {hostname:?}");
    }
    let reported = site.event(|event| match &event.what {
        EventKind::LoginRefused { reason, .. } if reason.contains("user@NAME.NAMESPACE") => Some(reason.clone()),
        _ => None,
    });
    assert!(reported.contains("EXTERNAL"), "{reported}");

    // From here on the certificate of the listener names the other space, so that clients may
    // request that space by SNI.
    site.authority.server_files(&site.folder, "other.south");
    let later = std::time::SystemTime::now() + Duration::from_secs(5);
    std::fs::File::options().append(true).open(&site.files.certificate).unwrap().set_modified(later).unwrap();
    assert_eq!(log_in("alice@other.south", "other.south", Some("guarded")), SaslCode::Ok);
    for subject in ["alice@guarded.north", "alice@guarded", "alice@other", "alice"] {
        assert_eq!(log_in(subject, "other.south", Some("guarded.north")), SaslCode::Auth, "{subject}");
    }
}

#[test]
fn concurrent_logins_are_all_answered() {
    let site = Site::new(&workers(2), &guarded_plan());
    let mut knocking: Vec<Client> =
        (0..400).map(|_| Client::bare(site.stream(Amqp), Some(plain("alice", "secret")))).collect();
    for client in &mut knocking {
        client.write_pending();
    }
    let codes: Vec<SaslCode> = knocking.iter_mut().map(Client::sasl_code).collect();
    let in_or_later = codes.iter().all(|code| matches!(code, SaslCode::Ok | SaslCode::SysTemp));
    assert!(in_or_later && codes.contains(&SaslCode::Ok), "{codes:?}");
    let refused: u64 = site.stats().workers.iter().map(|worker| worker.checks_refused).sum();
    assert_eq!(codes.iter().filter(|code| **code == SaslCode::SysTemp).count() as u64, refused);
}

#[test]
fn statistics_and_connection_list_match_the_open_links() {
    let site = Site::open(&workers(2));
    let (mut to, mut from) = (site.client(Amqp), site.client(Amqps));
    to.receiver("anycast", 10);
    let out = from.sender(Some("anycast"));
    from.send(out, &[0; 100], true);
    to.receive();
    let stats = site.stats();
    let names: Vec<&str> = stats.addresses.iter().map(|address| address.name.as_str()).collect();
    assert_eq!(names, ["anycast", "multicast"]);
    let anycast = &stats.addresses[0];
    assert_eq!((anycast.senders, anycast.receivers, anycast.delivered, anycast.bytes), (1, 1, 1, 100));
    assert_eq!((anycast.uid.as_str(), anycast.space.as_str()), ("address-1", "default.default"));
    assert_eq!((stats.plan_version, stats.connections), (2, 2));

    let list = site.node.connections().unwrap();
    let transports: Vec<&str> = list.iter().map(|line| line.transport).collect();
    assert_eq!(transports, ["amqp", "amqps"]);
    for line in &list {
        assert_eq!((line.space.as_deref(), line.container.as_deref()), (Some("default.default"), Some("a-test")));
        assert_eq!(line.links, 1);
        assert!(line.address.as_deref().unwrap().starts_with("127.0.0.1:"));
    }
    let mut carried: Vec<_> =
        list.iter().map(|line| (line.messages_in, line.bytes_in, line.messages_out, line.bytes_out)).collect();
    carried.sort_unstable();
    assert_eq!(carried, [(0, 0, 1, 100), (1, 100, 0, 0)]);
    to.close();
    from.close();
    site.wait_for_close();
}

#[test]
fn events_report_opened_connections_refused_attaches_and_closes() {
    let site = Site::open(&workers(1));
    let mut client = site.client(Amqp);
    let transport = site.event(|event| match &event.what {
        EventKind::Opened { container, transport, .. } if container == "a-test" => Some(*transport),
        _ => None,
    });
    assert_eq!(transport, "amqp");
    client.sender(Some("nowhere"));
    assert_eq!(client.detached().unwrap().condition, condition::NOT_FOUND);
    let refused = site.event(|event| match &event.what {
        EventKind::AttachRefused { address, condition, .. } => Some((address.clone(), condition.clone())),
        _ => None,
    });
    assert_eq!(refused, ("nowhere".to_owned(), "amqp:not-found".to_owned()));
    client.close();
    assert_eq!(site.wait_for_close().0, None);
    drop(site.client(Amqp));
    assert!(site.wait_for_close().1.is_some(), "the client disconnected without a close");
}

#[test]
fn trace_contains_the_frames_of_one_connection_without_payload() {
    let site = Site::open(&workers(2));
    let mut client = site.client(Amqp);
    client.receiver("multicast", 10);
    let other = site.client(Amqp);
    let id = site.node.connections().unwrap()[0].id;
    site.node.trace(id, true);
    // The worker runs the command in its next turn, before it answers this request.
    site.stats();
    let out = client.sender(Some("multicast"));
    client.send(out, b"none of your business", true);
    assert_eq!(client.receive().2, b"none of your business");
    let (mut seen_in, mut seen_out) = (String::new(), String::new());
    for event in site.node.events(usize::MAX) {
        if let EventKind::Trace { direction, frames } = event.what {
            assert_eq!(event.connection, Some(id));
            if direction == "in" { &mut seen_in } else { &mut seen_out }.push_str(&frames);
        }
    }
    for reported in [&seen_in, &seen_out] {
        assert!(reported.contains("attach") && reported.contains("transfer"), "{reported}");
        assert!(!reported.contains("business"), "{reported}");
    }
    site.node.trace(id, false);
    site.stats();
    client.receiver("anycast", 1);
    assert!(site.node.events(usize::MAX).iter().all(|event| !matches!(event.what, EventKind::Trace { .. })));
    drop(other);
}

#[test]
fn in_process_session_runs_as_the_given_user() {
    let site = Site::new(&workers(2), &guarded_plan());
    assert_eq!(site.node.connect_in_process("nowhere", None).unwrap_err().kind(), ErrorKind::Missing);
    let connect = |user| {
        let socket = site.node.connect_in_process("guarded", user).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Client::start(Box::new(socket), None)
    };
    let (mut to, mut from) = (connect(Some("alice")), connect(Some("alice")));
    to.receiver("orders", 1);
    let out = from.sender(Some("orders"));
    from.send(out, b"inside", true);
    assert_eq!(to.receive().2, b"inside");
    let line = &site.node.connections().unwrap()[0];
    assert_eq!((line.transport, line.user.as_deref(), &line.address), ("local", Some("alice"), &None));
}

#[test]
fn unavailable_listener_error_names_the_reason() {
    let site = Site::open(&workers(1));
    let listen = |kind: ListenerKind, port, tls| {
        site.node.listen(Listener { kind, host: "127.0.0.1".to_owned(), port, tls }).unwrap_err()
    };
    let taken = listen(Amqp, site.port(Amqp), None);
    assert_eq!((taken.kind(), taken.code()), (ErrorKind::Unavailable, "E6001"));
    assert!(taken.to_string().contains(&site.port(Amqp).to_string()), "{taken}");
    assert_eq!(listen(Amqps, 0, None).kind(), ErrorKind::Invalid);
    assert_eq!(listen(Amqp, 0, Some(site.files.clone())).kind(), ErrorKind::Invalid);
}
