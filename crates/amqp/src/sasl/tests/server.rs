//! The server: every row of its table, and the facts that it never reveals.

use super::{NONCE, Users, admitted, challenge, init, server};
use crate::connection::Event;
use crate::sasl::plain::PlainMessage;
use crate::sasl::{Identity, Mechanism, Server, Step};
use crate::types::{SaslCode, SaslFrame, SaslResponse};

fn refusal(step: &Step) -> SaslCode {
    match step {
        Step::Refused { code, .. } => *code,
        other => panic!("not refused but {other:?}"),
    }
}

#[test]
fn server_announces_the_offered_mechanisms_in_order() {
    let server = Server::new(vec![Mechanism::External, Mechanism::Plain], NONCE);
    assert_eq!(server.mechanisms(), ["EXTERNAL".into(), "PLAIN".into()]);
}

#[test]
fn a_mechanism_that_is_not_offered_is_refused() {
    for name in ["ANONYMOUS", "CRAM-MD5", "", "plain", "SCRAM-SHA-256-PLUS"] {
        let mut server = Server::new(vec![Mechanism::Plain], NONCE);
        let users = Users { anonymous: true, open: true, ..Users::default() };
        assert_eq!(refusal(&server.init(&init(name, Some(b"\0a\0b")), &users)), SaslCode::Auth, "{name}");
    }
}

#[test]
fn anonymous_is_admitted_only_where_it_is_allowed() {
    for message in [None, Some(&b""[..]), Some(b"sirhc"), Some(b"\xff\0")] {
        let open = Users { anonymous: true, ..Users::default() };
        let step = server().init(&init("ANONYMOUS", message), &open);
        assert_eq!(admitted(&step), Some(None), "{message:?}");
        assert_eq!(refusal(&server().init(&init("ANONYMOUS", message), &Users::alice())), SaslCode::Auth);
    }
}

#[test]
fn external_admits_only_the_subject_of_the_certificate() {
    let users = Users { certificate: Some("alice"), ..Users::default() };
    for message in [None, Some(&b""[..]), Some(b"alice")] {
        assert_eq!(admitted(&server().init(&init("EXTERNAL", message), &users)), Some(Some("alice")), "{message:?}");
    }
    assert_eq!(refusal(&server().init(&init("EXTERNAL", Some(b"bob")), &users)), SaslCode::Auth);
    assert_eq!(refusal(&server().init(&init("EXTERNAL", None), &Users::alice())), SaslCode::Auth);
}

#[test]
fn plain_password_can_be_checked_on_another_thread() {
    for (message, right) in [
        (&b"\0alice\0pencil"[..], true),
        (b"alice\0alice\0pencil", true),
        (b"\0alice\0crayon", false),
        (b"\0alice\0", false),
        (b"\0mallory\0pencil", false),
    ] {
        let mut server = server();
        let Step::CheckPlain(check) = server.init(&init("PLAIN", Some(message)), &Users::alice()) else {
            panic!("expected a password check");
        };
        #[expect(clippy::disallowed_methods, reason = "a check may run on another thread, which is what is tested")]
        let answer = std::thread::scope(|scope| scope.spawn(|| check.verify()).join().unwrap());
        let step = server.plain_checked(Some(answer));
        assert_eq!(admitted(&step), right.then_some(Some("alice")));
        if !right {
            assert_eq!(refusal(&step), SaslCode::Auth);
        }
    }
}

#[test]
fn open_space_accepts_any_password() {
    let users = Users { open: true, ..Users::default() };
    for message in [&b"\0alice\0pencil"[..], b"\0whoever\0", b"\0a@b\0\x07"] {
        assert!(admitted(&server().init(&init("PLAIN", Some(message)), &users)).flatten().is_some());
    }
}

#[test]
fn password_check_without_room_is_a_temporary_failure() {
    let mut server = server();
    assert!(matches!(server.init(&init("PLAIN", Some(b"\0alice\0pencil")), &Users::alice()), Step::CheckPlain(_)));
    assert_eq!(refusal(&server.plain_checked(None)), SaslCode::SysTemp);
    assert_eq!(refusal(&server.plain_checked(Some(true))), SaslCode::Sys, "the exchange has ended");
}

#[test]
fn first_message_may_arrive_in_a_sasl_response() {
    for none in [None, Some(&b""[..])] {
        let mut server = server();
        assert!(challenge(server.init(&init("PLAIN", none), &Users::alice())).is_empty());
        assert!(matches!(server.response(b"\0alice\0pencil", &Users::alice()), Step::CheckPlain(_)));

        let mut server = super::server();
        assert!(challenge(server.init(&init("SCRAM-SHA-256", none), &Users::alice())).is_empty());
        assert!(challenge(server.response(b"n,,n=alice,r=abc", &Users::alice())).starts_with(b"r=abc"));
    }
    let mut server = server();
    assert!(challenge(server.init(&init("PLAIN", None), &Users::alice())).is_empty());
    assert_eq!(refusal(&server.response(b"", &Users::alice())), SaslCode::Auth, "one request only");
}

#[test]
fn sasl_frame_out_of_order_is_refused() {
    let users = Users::alice();
    assert_eq!(refusal(&server().response(b"x", &users)), SaslCode::Sys);
    assert_eq!(refusal(&server().plain_checked(Some(true))), SaslCode::Sys);

    let mut twice = server();
    let first = init("SCRAM-SHA-256", Some(b"n,,n=alice,r=abc"));
    challenge(twice.init(&first, &users));
    assert_eq!(refusal(&twice.init(&first, &users)), SaslCode::Sys);

    let mut early = server();
    assert!(matches!(early.init(&init("PLAIN", Some(b"\0alice\0pencil")), &users), Step::CheckPlain(_)));
    assert_eq!(refusal(&early.response(b"again", &users)), SaslCode::Sys);
    assert_eq!(refusal(&early.plain_checked(Some(true))), SaslCode::Sys, "the interruption ended it");
}

#[test]
fn invalid_client_final_message_is_refused() {
    let users = Users::alice();
    for last in [
        "c=biws,r=abc,p=AAAA",        // not the server's nonce
        "c=eSws,r={nonce},p=AAAA",    // y,, instead of n,,
        "c=biws,r={nonce},p=AAAA",    // too short a proof
        "c=biws,r={nonce},p={zeros}", // a wrong proof
        "c=biws,r={nonce}",           // no proof
        "",
    ] {
        let mut server = server();
        let first = challenge(server.init(&init("SCRAM-SHA-256", Some(b"n,,n=alice,r=abc")), &users));
        let nonce = std::str::from_utf8(&first).unwrap().split(',').next().unwrap().strip_prefix("r=").unwrap();
        let zeros = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        let last = last.replace("{nonce}", nonce).replace("{zeros}", zeros);
        assert_eq!(refusal(&server.response(last.as_bytes(), &users)), SaslCode::Auth, "{last}");
    }
}

#[test]
fn unknown_user_gets_the_same_exchange_as_a_known_one() {
    let users = Users::alice();
    let shape = |user: &str| {
        let mut server = server();
        let first = format!("n,,n={user},r=abc");
        let first = challenge(server.init(&init("SCRAM-SHA-256", Some(first.as_bytes())), &users));
        let text = String::from_utf8(first).unwrap();
        let last = format!("c=biws,{},p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", text.split(',').next().unwrap());
        (text.len(), text.rsplit(',').next().unwrap().to_owned(), refusal(&server.response(last.as_bytes(), &users)))
    };
    assert_eq!(shape("alice"), shape("mallory"));
}

#[test]
fn secrets_are_absent_from_debug_output() {
    let users = Users::alice();
    let Step::CheckPlain(check) = server().init(&init("PLAIN", Some(b"\0alice\0pencil")), &users) else { panic!() };
    let verifier = super::derive(crate::sasl::Hash::Sha256, "pencil", b"pepper__", super::ROUNDS).unwrap();
    let init = init("PLAIN", Some(b"\0alice\0pencil"));
    let response = SaslResponse(b"\0alice\0pencil".into());
    let message = PlainMessage::parse(&response.0).unwrap();
    let frames = [SaslFrame::Init(init.clone()), SaslFrame::Response(response.clone())];
    let events = [Event::SaslInit(init), Event::SaslResponse(response.clone())];
    let shown = format!("{check:?} {verifier:?} {message:?} {frames:?} {events:?}");
    for secret in ["pencil", "112, 101", "stored", "server_key"] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
}

#[test]
fn identity_names_its_user_and_mechanism() {
    let users = Users { open: true, ..Users::default() };
    let Step::Accepted { identity, data } = server().init(&init("PLAIN", Some(b"\0alice\0x")), &users) else {
        panic!()
    };
    assert_eq!(identity, Identity { mechanism: Mechanism::Plain, user: Some("alice".into()) });
    assert_eq!(data, None);
}
