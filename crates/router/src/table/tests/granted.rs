//! Logins that an external service decides, and the conditions under which they stay valid.

use std::sync::Arc;

use enmasse_amqp::sasl::{Claim, Mechanism, Secret, Step};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{SaslCode, SaslInit, Symbol, condition};

use crate::plan::AddressType::Multicast;
use crate::plan::Operation::{Recv, Send};
use crate::plan::{Authentication, AuthenticationType, Plan, Right, Space};
use crate::table::tests::{closed, plan, space, table, user};
use crate::table::{Authenticated, Handshake, Judged, Peer, Proof, Question, Rights, Table};

fn asking(kind: AuthenticationType, service: &str) -> Space {
    let authentication = Authentication {
        kind,
        anonymous: false,
        mechanisms: vec!["OAUTHBEARER".into(), "PLAIN".into()],
        service: Some(service.into()),
    };
    let users = vec![user("alice", &[("a", &[Send])])];
    Space { authentication, ..closed(space("s", &[("a", Multicast)]), users) }
}

fn handshake(table: &Arc<Table>) -> Handshake {
    Handshake::new(Arc::clone(table), Peer { confidential: true, ..Peer::default() }, [7; 18])
}

fn init(mechanism: &str, message: &str) -> SaslInit {
    let initial_response = Some(message.replace("^A", "\u{1}").into_bytes());
    SaslInit { mechanism: Symbol::from(mechanism), initial_response, hostname: None }
}

const TOKEN: &str = "n,,^Aauth=Bearer abc^A^A";

fn question(handshake: &mut Handshake, step: Step<Authenticated>) -> Question {
    match step {
        Step::Ask(claim) => handshake.question(claim).expect("an external login is requested"),
        other => panic!("expected an external login, not {other:?}"),
    }
}

fn right(user: &str, pattern: &str, until: Option<Time>) -> Judged {
    let rights = Rights::compile(&[Right { pattern: pattern.into(), operations: vec![Recv] }]).unwrap();
    Judged::Right { user: user.into(), rights, until, renewable: false }
}

fn log_in_with_token(table: &Arc<Table>, judged: Judged) -> Authenticated {
    let mut handshake = handshake(table);
    let step = handshake.init(&init("OAUTHBEARER", TOKEN));
    question(&mut handshake, step);
    match handshake.judged(judged) {
        Step::Accepted { identity, .. } => identity,
        other => panic!("not admitted: {other:?}"),
    }
}

fn tables(plans: [Plan; 2]) -> [Arc<Table>; 2] {
    let first = Arc::new(table(&plans[0]));
    let second = Arc::new(Table::compile(&plans[1], &first).unwrap());
    [first, second]
}

#[test]
fn question_to_a_service_names_the_space_and_strips_it_from_the_user() {
    let table = Arc::new(table(&plan(1, [asking(AuthenticationType::Delegated, "idp/1")])));
    let mut handshake = handshake(&table);
    let step = handshake.init(&init("PLAIN", "\0alice@s\0pencil"));
    let asked = question(&mut handshake, step);
    let claim = Claim { mechanism: Mechanism::Plain, user: Some("alice".into()), secret: Secret::new("pencil") };
    assert_eq!(asked, Question { space: "s.test".into(), service: "idp/1".into(), claim });
}

#[test]
fn rights_combine_those_of_the_plan_and_those_granted_by_the_service() {
    let table = Arc::new(table(&plan(1, [asking(AuthenticationType::Standard, "idp/1")])));
    let until = Some(Time::from_micros(9));
    let alice = log_in_with_token(&table, right("alice", "b", until));
    assert_eq!((alice.user.as_deref(), alice.until()), (Some("alice"), until));
    let space = table.spaces().next().unwrap();
    let rights = space.rights(&alice);
    assert!(rights.may(Send, "a") && rights.may(Recv, "b") && !rights.may(Send, "b") && !rights.may(Recv, "a"));
    let other = space.rights(&log_in_with_token(&table, right("bob", "b", None)));
    assert!(other.may(Recv, "b") && !other.may(Send, "a"));
    assert_eq!(table.open(&alice, None).ok(), Some(space.key()));
}

#[test]
fn wrong_token_is_challenged_and_its_reason_reported_to_operators() {
    let table = Arc::new(table(&plan(1, [asking(AuthenticationType::Standard, "idp/1")])));
    let mut handshake = handshake(&table);
    let step = handshake.init(&init("OAUTHBEARER", TOKEN));
    question(&mut handshake, step);
    let step = handshake.judged(Judged::Wrong("expired 3 s ago".into()));
    assert!(matches!(step, Step::Challenge(said) if said == br#"{"status":"invalid_token"}"#));
    let Step::Refused { code: SaslCode::Auth, why } = handshake.response(b"\x01") else { panic!("it is wrong") };
    let refusal = handshake.refusal(why);
    assert_eq!((&*refusal.reason, refusal.mechanism), ("expired 3 s ago", Some("OAUTHBEARER")));
    assert_eq!(refusal.space.as_deref(), Some("s.test"));
}

#[test]
fn space_without_a_service_refuses_tokens() {
    let table = Arc::new(table(&plan(
        1,
        [asking(AuthenticationType::Standard, "idp/1"), closed(space("t", &[]), vec![user("alice", &[])])],
    )));
    let mut handshake = handshake(&table);
    let elsewhere = SaslInit { hostname: Some("t".into()), ..init("OAUTHBEARER", TOKEN) };
    assert!(matches!(handshake.init(&elsewhere), Step::Challenge(_)));
    let Step::Refused { why, .. } = handshake.response(b"\x01") else { panic!("it is wrong") };
    assert!(handshake.refusal(why).reason.contains("has no OAUTHBEARER"));
}

#[test]
fn a_peer_stays_for_as_long_as_its_credentials_are_valid() {
    let standard = |users| plan(2, [closed(space("s", &[]), users)]);
    let alice = |proof| Authenticated { user: Some("alice".into()), proof, ..Authenticated::default() };
    let [first, second] =
        tables([plan(1, [asking(AuthenticationType::Standard, "idp/1")]), standard(vec![user("alice", &[])])]);
    let granted = log_in_with_token(&first, right("alice", "b", None));
    let space = |table: &Arc<Table>| table.spaces().next().unwrap().key();
    let stays = |table: &Arc<Table>, authenticated: &Authenticated| {
        table.space(space(table)).unwrap().admits(authenticated).is_ok()
    };
    assert!(stays(&first, &granted) && !stays(&second, &granted), "another service, or none");
    let other = Arc::new(table(&plan(1, [asking(AuthenticationType::Standard, "idp/2")])));
    assert!(!stays(&other, &granted));
    let gone = Arc::new(table(&standard(Vec::new())));
    assert!(stays(&second, &alice(Proof::Certificate)) && !stays(&gone, &alice(Proof::Certificate)));
    assert!(stays(&gone, &alice(Proof::Vouched)));
    assert!(!stays(&second, &alice(Proof::None)) && !stays(&second, &Authenticated::default()), "it was open at login");
    let open = Arc::new(table(&plan(1, [crate::table::tests::space("s", &[])])));
    assert!(stays(&open, &Authenticated::default()) && stays(&open, &granted));
    let late = Authenticated { space: Some(space(&gone)), ..alice(Proof::Certificate) };
    assert_eq!(gone.open(&late, None).unwrap_err().0.condition, condition::UNAUTHORIZED_ACCESS);
}
