//! Contracts 4 and 5 with real clients: which users log in, and into which space.

use std::sync::Arc;

use enmasse_amqp::sasl::{Client, Login, Mechanism, Step};
use enmasse_amqp::types::{SaslCode, SaslInit, SaslOutcome, Symbol, condition};

use super::compile::golden;
use crate::plan::Plan;
use crate::table::tests::{SECRET, closed, plan, space, table, user};
use crate::table::{Authenticated, Handshake, Peer, Proof, Refusal, Rights, Space, Table};

const NONCE: [u8; 18] = [5; 18];

fn shared(plan: &Plan) -> Arc<Table> {
    Arc::new(table(plan))
}

/// A peer on this machine, without TLS.
fn local() -> Peer {
    Peer { confidential: true, ..Peer::default() }
}

fn named(sni: &str) -> Peer {
    Peer { sni: Some(sni.into()), ..local() }
}

fn password(user: &str, password: &str, mechanism: &str) -> Login {
    let mechanisms = Some(vec![Mechanism::from_name(mechanism).unwrap()]);
    Login { password: Some((user.into(), password.into())), mechanisms, ..Login::default() }
}

/// Runs a whole exchange; the client checks the server as well.
fn log_in(table: &Arc<Table>, peer: Peer, login: Login, hostname: Option<&str>) -> Result<Authenticated, SaslCode> {
    let mut handshake = Handshake::new(Arc::clone(table), peer, NONCE);
    let mut client = Client::new(login, NONCE);
    let init = client.start(&handshake.mechanisms(), hostname.map(str::to_owned)).map_err(|_| SaslCode::SysPerm)?;
    let mut step = handshake.init(&init);
    loop {
        step = match step {
            Step::Challenge(challenge) => handshake.response(&client.challenge(&challenge).unwrap()),
            Step::CheckPlain(check) => handshake.plain_checked(Some(check.verify())),
            Step::Refused { code, .. } => return Err(code),
            Step::Accepted { identity, data } => {
                client.outcome(&SaslOutcome { code: SaslCode::Ok, additional_data: data }).unwrap();
                // the mechanism of its login has its own tests
                return Ok(Authenticated { proof: Proof::Vouched, ..identity });
            }
            Step::Ask(claim) => panic!("unexpected external login {claim:?}"),
        };
    }
}

fn authenticated(table: &Table, space: &str, user: Option<&str>) -> Authenticated {
    let space = table.space_named(space);
    Authenticated { space, user: user.map(str::to_owned), proof: Proof::Vouched, ..Authenticated::default() }
}

/// Condition and text that the peer is closed with, and the reason for operators.
fn refused(table: &Table, authenticated: &Authenticated, hostname: Option<&str>) -> (Symbol, String, Refusal) {
    let (error, refusal) = table.open(authenticated, hostname).unwrap_err();
    (error.condition, error.description.unwrap(), *refusal)
}

fn offered(table: &Arc<Table>, peer: &Peer) -> Vec<String> {
    let handshake = Handshake::new(Arc::clone(table), peer.clone(), NONCE);
    handshake.mechanisms().iter().map(|name| name.as_str().to_owned()).collect()
}

#[test]
fn server_name_selects_the_offered_mechanisms_and_without_one_all_are_offered() {
    let table = shared(&golden("many-spaces.json"));
    assert_eq!(offered(&table, &named("shop.north")), ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]);
    assert_eq!(offered(&table, &named("lab")), ["PLAIN", "ANONYMOUS"]);
    let all = ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "ANONYMOUS"];
    assert_eq!(offered(&table, &local()), all);
    assert_eq!(offered(&table, &named("localhost")), all);
}

#[test]
fn open_spaces_offer_anonymous_and_over_a_confidential_connection_plain() {
    let table = shared(&golden("open.json"));
    assert_eq!(offered(&table, &local()), ["PLAIN", "ANONYMOUS"]);
    assert_eq!(offered(&table, &Peer::default()), ["ANONYMOUS"], "a password would be sent as clear text");
    let two = shared(&plan(1, [space("one", &[]), space("two", &[])]));
    assert_eq!(offered(&two, &local()), ["PLAIN", "ANONYMOUS"]);
    let whoever = log_in(&two, local(), password("whoever@two", "x", "PLAIN"), None);
    assert_eq!(whoever, Ok(authenticated(&two, "two", Some("whoever"))));
}

#[test]
fn plain_is_offered_only_over_a_confidential_connection() {
    let table = shared(&golden("closed.json"));
    assert_eq!(offered(&table, &Peer::default()), ["SCRAM-SHA-512", "SCRAM-SHA-256"]);
    let init =
        SaslInit { mechanism: "PLAIN".into(), initial_response: Some(b"\0alice\0pencil".into()), hostname: None };
    let step = Handshake::new(table, Peer::default(), NONCE).init(&init);
    assert!(matches!(step, Step::Refused { code: SaslCode::Auth, .. }));
}

#[test]
fn external_is_offered_only_to_a_certificate() {
    let table = shared(&golden("many-spaces.json"));
    let peer = Peer { subject: Some("anonymous".into()), ..named("mixed") };
    assert_eq!(offered(&table, &peer), ["EXTERNAL", "SCRAM-SHA-256", "ANONYMOUS"]);
    assert_eq!(offered(&table, &named("mixed")), ["SCRAM-SHA-256", "ANONYMOUS"]);
}

#[test]
fn the_list_of_mechanisms_is_never_empty() {
    assert_eq!(offered(&Arc::new(Table::empty(SECRET)), &local()), ["SCRAM-SHA-256"]);
    let mut plain = space("s", &[]);
    plain.authentication.anonymous = false;
    let table = shared(&plan(1, [plain]));
    assert_eq!(offered(&table, &Peer::default()), ["SCRAM-SHA-256"]);
    assert!(log_in(&table, Peer::default(), password("a", "b", "SCRAM-SHA-256"), None).is_err());
}

#[test]
fn open_space_admits_any_client() {
    let table = shared(&golden("open.json"));
    assert_eq!(log_in(&table, local(), Login::default(), Some("default")), Ok(authenticated(&table, "default", None)));
    let undecided = Authenticated { proof: Proof::Vouched, ..Authenticated::default() };
    assert_eq!(log_in(&table, local(), Login::default(), None), Ok(undecided), "open may still name another space");
    let any = password("whoever", "whatever", "PLAIN");
    assert_eq!(log_in(&table, local(), any, None), Ok(authenticated(&table, "default", Some("whoever"))));
    let no_sasl = Authenticated::without_sasl(&table, &local());
    assert_eq!(table.open(&no_sasl, Some("localhost")), Ok(table.space_named("default").unwrap()));
}

#[test]
fn closed_space_admits_only_users_with_their_passwords() {
    let table = shared(&golden("closed.json"));
    for (user, secret, mechanism) in [
        ("alice", "pencil", "SCRAM-SHA-512"),
        ("alice", "pencil", "SCRAM-SHA-256"),
        ("alice", "pencil", "PLAIN"),
        ("bob", "crayon", "SCRAM-SHA-512"),
        ("bob", "crayon", "PLAIN"),
        ("carol@example.com", "quill", "SCRAM-SHA-256"),
        ("carol@example.com", "quill", "PLAIN"),
    ] {
        let found = log_in(&table, local(), password(user, secret, mechanism), Some("default"));
        assert_eq!(found, Ok(authenticated(&table, "default", Some(user))), "{user} {mechanism}");
    }
    for (user, secret, mechanism) in [
        ("alice", "crayon", "SCRAM-SHA-512"),
        ("alice", "crayon", "PLAIN"),
        ("bob", "crayon", "SCRAM-SHA-256"), // bob has no such verifier
        ("mallory", "pencil", "SCRAM-SHA-256"),
        ("mallory", "pencil", "PLAIN"),
        ("anonymous", "", "PLAIN"),
    ] {
        let found = log_in(&table, local(), password(user, secret, mechanism), None);
        assert_eq!(found, Err(SaslCode::Auth), "{user} {mechanism}");
    }
    assert_eq!(log_in(&table, local(), Login::default(), None), Err(SaslCode::SysPerm), "ANONYMOUS is not offered");
    assert_eq!(refused(&table, &Authenticated::without_sasl(&table, &local()), None).0, condition::UNAUTHORIZED_ACCESS);
}

#[test]
fn closed_space_without_users_refuses_every_client() {
    let table = shared(&plan(1, [closed(space("s", &[]), Vec::new())]));
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        assert_eq!(log_in(&table, local(), password("alice", "pencil", mechanism), None), Err(SaslCode::Auth));
    }
}

#[test]
fn the_space_is_found_by_server_name_host_name_or_user_name() {
    let table = shared(&golden("many-spaces.json"));
    let alice = Ok(authenticated(&table, "shop.north", Some("alice")));
    for mechanism in ["PLAIN", "SCRAM-SHA-256"] {
        let login = |user| password(user, "pencil", mechanism);
        assert_eq!(log_in(&table, named("shop.north"), login("alice"), None), alice);
        assert_eq!(log_in(&table, local(), login("alice"), Some("shop.north")), alice);
        assert_eq!(log_in(&table, local(), login("alice@shop.north"), None), alice);
        assert_eq!(log_in(&table, local(), login("alice@SHOP.North"), Some("localhost")), alice);
        assert_eq!(log_in(&table, named("shop.north"), login("alice@shop.north"), Some("lab")), alice);
        assert!(log_in(&table, named("shop.nroth"), login("alice@shop.north"), Some("lab")).is_err());
    }
}

#[test]
fn user_of_one_space_is_refused_by_another_space() {
    let table = shared(&golden("many-spaces.json"));
    for mechanism in ["PLAIN", "SCRAM-SHA-256"] {
        let login = |user| password(user, "pencil", mechanism);
        assert_eq!(log_in(&table, local(), login("alice"), None), Err(SaslCode::Auth), "no space was named");
        assert_eq!(log_in(&table, local(), login("alice"), Some("shop")), Err(SaslCode::Auth), "two have that name");
        assert_eq!(log_in(&table, local(), login("alice"), Some("shop.south")), Err(SaslCode::Auth));
        assert_eq!(log_in(&table, named("shop.south"), login("alice@shop.north"), None), Err(SaslCode::Auth));
        assert_eq!(log_in(&table, local(), login("alice@nowhere"), None), Err(SaslCode::Auth));
    }
}

#[test]
fn mechanism_of_another_space_is_refused() {
    let table = shared(&golden("many-spaces.json"));
    let anywhere = password("anonymous@mixed", "x", "PLAIN");
    assert_eq!(log_in(&table, local(), anywhere, None), Err(SaslCode::Auth), "`mixed` has no PLAIN");
    let scram = password("alice@lab", "pencil", "SCRAM-SHA-256");
    assert_eq!(log_in(&table, local(), scram, None), Err(SaslCode::Auth), "`lab` has no verifiers");
}

#[test]
fn user_name_suffix_is_stripped_only_if_it_names_the_space() {
    let table = shared(&golden("closed.json"));
    let login = |user, host| log_in(&table, local(), password(user, "quill", "SCRAM-SHA-256"), host);
    let carol = Ok(authenticated(&table, "default", Some("carol@example.com")));
    assert_eq!(login("carol@example.com", Some("default")), carol);
    assert_eq!(login("carol@example.com@default", None), carol);
    assert_eq!(login("carol@example.com", None), Err(SaslCode::Auth), "it may be a mistyped space");
    assert_eq!(login("carol", Some("default")), Err(SaslCode::Auth));
    let open = shared(&golden("open.json"));
    let whoever = log_in(&open, local(), password("whoever@default.default", "x", "PLAIN"), None);
    assert_eq!(whoever, Ok(authenticated(&open, "default", Some("whoever"))));
}

#[test]
fn certificate_is_admitted_where_external_is_allowed_and_the_user_exists() {
    let table = shared(&golden("many-spaces.json"));
    let certificate = |subject: &str, sni: &str| {
        let peer = Peer { subject: Some(subject.into()), ..named(sni) };
        let mechanisms = Some(vec![Mechanism::External]);
        log_in(&table, peer, Login { certificate: true, mechanisms, ..Login::default() }, None)
    };
    assert_eq!(certificate("anonymous", "mixed"), Ok(authenticated(&table, "mixed", Some("anonymous"))));
    assert_eq!(certificate("mallory", "mixed"), Err(SaslCode::Auth));
    assert_eq!(certificate("alice", "shop.north"), Err(SaslCode::SysPerm), "not offered there");
    assert_eq!(certificate("alice", "localhost"), Err(SaslCode::Auth), "offered, but no space is named");
}

/// Closed spaces, each with a user alice, that admit certificates.
fn certified(names: &[&str]) -> Plan {
    let spaces = names.iter().map(|name| {
        let mut space = closed(space(name, &[]), vec![user("alice", &[])]);
        space.authentication.mechanisms.push("EXTERNAL".into());
        space
    });
    plan(1, spaces)
}

fn with_certificate(
    table: &Arc<Table>,
    subject: &str,
    sni: &str,
    hostname: Option<&str>,
) -> Result<Authenticated, SaslCode> {
    let peer = Peer { subject: Some(subject.into()), ..named(sni) };
    let mechanisms = Some(vec![Mechanism::External]);
    log_in(table, peer, Login { certificate: true, mechanisms, ..Login::default() }, hostname)
}

#[test]
fn common_name_is_the_user_when_one_space_admits_certificates() {
    let mut plan = certified(&["north"]);
    plan.spaces.push(space("open", &[]));
    let table = shared(&plan);
    let alice = Ok(authenticated(&table, "north", Some("alice")));
    for subject in ["alice", "alice@north", "alice@north.test"] {
        assert_eq!(with_certificate(&table, subject, "north", None), alice, "{subject}");
        assert_eq!(with_certificate(&table, subject, "localhost", Some("north")), alice, "{subject}");
    }
}

#[test]
fn certificate_must_name_its_space_when_several_spaces_admit_certificates() {
    let table = shared(&certified(&["north", "south"]));
    let alice = Ok(authenticated(&table, "north", Some("alice")));
    for (sni, hostname) in [("localhost", None), ("north", None), ("north.test", Some("south")), ("::1", Some("north"))]
    {
        assert_eq!(with_certificate(&table, "alice@north.test", sni, hostname), alice, "{sni} {hostname:?}");
        assert_eq!(with_certificate(&table, "alice@North.Test", sni, hostname), alice, "{sni} {hostname:?}");
        for other in ["alice", "alice@north", "alice@south.test", "alice@nowhere", "mallory@north.test", "@north.test"]
        {
            let entered = with_certificate(&table, other, sni, hostname);
            let south = other == "alice@south.test" && sni == "localhost" && hostname.is_none();
            assert_eq!(entered.is_ok(), south, "{other} {sni} {hostname:?}");
        }
    }
    assert_eq!(with_certificate(&table, "alice@north.test", "south", None), Err(SaslCode::Auth));
    assert_eq!(with_certificate(&table, "alice@north.test", "localhost", Some("south")), Err(SaslCode::Auth));
}

#[test]
fn certificate_of_another_space_is_refused_despite_an_equal_user_name() {
    let mut plan = certified(&["north", "south"]);
    plan.spaces[1].users.push(user("alice@north.test", &[]));
    let table = shared(&plan);
    assert_eq!(with_certificate(&table, "alice@north.test", "south", None), Err(SaslCode::Auth));
    let twice = with_certificate(&table, "alice@north.test@south.test", "localhost", None);
    assert_eq!(twice, Ok(authenticated(&table, "south", Some("alice@north.test"))));
}

#[test]
fn host_name_of_open_selects_the_space_of_an_undecided_client() {
    let table = shared(&golden("many-spaces.json"));
    let waiting = log_in(&table, local(), Login::default(), None).unwrap();
    assert_eq!(waiting, Authenticated { proof: Proof::Vouched, ..Authenticated::default() });
    for authenticated in [waiting, Authenticated::without_sasl(&table, &named("localhost"))] {
        assert_eq!(table.open(&authenticated, Some("lab")), Ok(table.space_named("lab").unwrap()));
        let (condition, text, why) = refused(&table, &authenticated, Some("shop.north"));
        assert_eq!(condition, condition::UNAUTHORIZED_ACCESS);
        assert!(!text.contains("north"), "{text}");
        assert_eq!(why.reason, "address space shop.north does not admit anonymous clients");
        assert_eq!(why.space.as_deref(), Some("shop.north"));
        for unknown in [None, Some("shop"), Some("nowhere"), Some("localhost")] {
            let (same, text_too, why) = refused(&table, &authenticated, unknown);
            assert_eq!((same, &text_too), (condition::UNAUTHORIZED_ACCESS, &text), "{unknown:?}");
            let reason = match unknown {
                None | Some("localhost") => "the connection names no address space",
                Some(_) => "is neither an address space nor a host name of this platform",
            };
            assert!(why.reason.contains(reason) && why.space.is_none(), "{why:?}");
        }
    }
}

#[test]
fn closed_and_unknown_spaces_look_alike_to_an_anonymous_client() {
    let table = shared(&golden("many-spaces.json"));
    let recorded = |space| {
        let authenticated = log_in(&table, local(), Login::default(), Some(space)).unwrap();
        refused(&table, &authenticated, None)
    };
    let (closed, none) = (recorded("shop.north"), recorded("nowhere"));
    assert_eq!((closed.0, closed.1), (none.0, none.1));
    assert_ne!(closed.2.reason, none.2.reason, "operators are notified");
}

/// Runs an exchange that ends in a refusal; returns the reason for operators.
fn recorded(table: &Arc<Table>, peer: Peer, login: Login, hostname: Option<&str>) -> Refusal {
    let mut handshake = Handshake::new(Arc::clone(table), peer, NONCE);
    let mut client = Client::new(login, NONCE);
    let mut step = handshake.init(&client.start(&handshake.mechanisms(), hostname.map(str::to_owned)).unwrap());
    loop {
        step = match step {
            Step::Challenge(challenge) => handshake.response(&client.challenge(&challenge).unwrap()),
            Step::CheckPlain(check) => handshake.plain_checked(Some(check.verify())),
            Step::Refused { why, .. } => return handshake.refusal(why),
            Step::Ask(claim) => panic!("unexpected external login {claim:?}"),
            Step::Accepted { .. } => panic!("the login was accepted"),
        };
    }
}

#[test]
fn refused_login_reports_its_real_reason_to_operators() {
    let table = shared(&golden("many-spaces.json"));
    for (user, mechanism, space, reason) in [
        ("alice@shop.north", "SCRAM-SHA-256", Some("shop.north"), "unknown user or wrong password"),
        ("alice@shop.north", "PLAIN", Some("shop.north"), "unknown user or wrong password"),
        ("mallory@shop.north", "SCRAM-SHA-512", Some("shop.north"), "has no such user"),
        ("mallory@shop.north", "PLAIN", Some("shop.north"), "has no such user"),
        ("alice", "PLAIN", None, "names no address space"),
        ("alice@nowhere", "SCRAM-SHA-256", None, "\"nowhere\" is neither an address space nor"),
        ("alice@nowhere", "PLAIN", None, "\"nowhere\" is neither an address space nor"),
        ("whoever@lab", "SCRAM-SHA-256", Some("lab"), "has no SCRAM-SHA-256; log in with PLAIN or ANONYMOUS"),
    ] {
        let found = recorded(&table, local(), password(user, "hush", mechanism), None);
        assert!(found.reason.contains(reason), "{user} {mechanism}: {found:?}");
        assert_eq!(found.user.as_deref(), Some(user));
        assert_eq!(found.mechanism, Some(mechanism));
        assert_eq!(found.space.is_some(), space.is_some(), "{found:?}");
        assert!(space.is_none_or(|name| found.space.as_deref().unwrap().starts_with(name)), "{found:?}");
        assert!(!format!("{found:?}").contains("hush"));
    }
}

#[test]
fn host_name_of_sasl_or_server_name_selects_the_space_at_login() {
    let table = shared(&golden("many-spaces.json"));
    let lab = Ok(authenticated(&table, "lab", None));
    assert_eq!(log_in(&table, local(), Login::default(), Some("lab")), lab);
    assert_eq!(log_in(&table, named("lab"), Login::default(), Some("mixed")), lab);
    let authenticated = Authenticated::without_sasl(&table, &named("lab"));
    assert_eq!(refused(&table, &authenticated, Some("mixed")).0, condition::NOT_ALLOWED);
    assert_eq!(table.open(&authenticated, Some("lab.south")).ok(), table.space_named("lab"));
}

#[test]
fn a_later_open_that_names_another_space_is_not_allowed() {
    let table = shared(&golden("many-spaces.json"));
    let alice = authenticated(&table, "shop.north", Some("alice"));
    assert_eq!(refused(&table, &alice, Some("lab")).0, condition::NOT_ALLOWED);
    for fine in [None, Some("shop.north"), Some("localhost"), Some("127.0.0.1:5672")] {
        assert_eq!(table.open(&alice, fine).ok(), alice.space, "{fine:?}");
    }
}

#[test]
fn an_open_with_an_unknown_host_name_is_not_found() {
    let table = shared(&golden("closed.json"));
    let login = password("alice", "pencil", "PLAIN");
    let alice = Authenticated { proof: Proof::Password(7), ..log_in(&table, local(), login, None).unwrap() };
    let (condition, text, why) = refused(&table, &alice, Some("defualt"));
    // The password stamp is wrong, too: either error may be reported.
    assert!([condition::NOT_FOUND, condition::UNAUTHORIZED_ACCESS].contains(&condition), "{text} {why:?}");
    let inside = authenticated(&table, "default", Some("alice"));
    assert_eq!(
        table.open(&inside, Some("whatever")).ok(),
        inside.space,
        "within this process names are never mistyped"
    );
}

#[test]
fn login_to_an_unknown_space_is_refused_without_a_credential_check() {
    for plan in [golden("closed.json"), golden("many-spaces.json"), golden("asked.json"), golden("open.json")] {
        let table = shared(&plan);
        let peers = [
            (named("nroth"), None, "alice"),
            (local(), Some("nroth"), "alice"),
            (named("localhost"), Some("nroth.default"), "alice@default"),
            (local(), None, "alice@nroth"),
        ];
        for ((peer, hostname, user), mechanism) in peers.iter().flat_map(|peer| Mechanism::ALL.map(|one| (peer, one))) {
            if matches!(mechanism, Mechanism::Anonymous | Mechanism::External) {
                continue;
            }
            let message = match mechanism {
                Mechanism::Plain => format!("\0{user}\0pencil"),
                Mechanism::Scram(_) => format!("n,,n={user},r=abc"),
                Mechanism::XOAuth2 => format!("user={user}\u{1}auth=Bearer abc\u{1}\u{1}"),
                _ => format!("n,a={user},\u{1}auth=Bearer abc\u{1}\u{1}"),
            };
            let init = SaslInit {
                mechanism: mechanism.symbol(),
                initial_response: Some(message.into_bytes()),
                hostname: hostname.map(str::to_owned),
            };
            let mut handshake = Handshake::new(Arc::clone(&table), peer.clone(), NONCE);
            let mut step = handshake.init(&init);
            if let (Step::Challenge(said), true) = (&step, mechanism.is_bearer()) {
                assert!(String::from_utf8_lossy(said).contains("invalid_token"));
                step = handshake.response(b"\x01");
            }
            assert!(matches!(step, Step::Refused { code: SaslCode::Auth, .. }), "{user} {mechanism:?}: {step:?}");
        }
    }
}

#[test]
fn unknown_server_name_is_not_offered_plain() {
    let table = shared(&golden("many-spaces.json"));
    assert_eq!(offered(&table, &named("nroth")), ["SCRAM-SHA-512", "SCRAM-SHA-256", "ANONYMOUS"]);
}

#[test]
fn anonymous_client_with_an_unknown_host_name_is_refused() {
    for plan in [golden("open.json"), golden("many-spaces.json")] {
        let table = shared(&plan);
        let by_sasl = log_in(&table, local(), Login::default(), Some("nroth")).unwrap();
        for authenticated in [by_sasl, Authenticated::without_sasl(&table, &named("nroth"))] {
            for hostname in [None, Some("localhost"), Some("nroth"), Some("default"), Some("lab")] {
                let (condition, _, why) = refused(&table, &authenticated, hostname);
                assert_eq!(condition, condition::UNAUTHORIZED_ACCESS, "{hostname:?}");
                assert!(why.reason.contains("\"nroth\"") && why.space.is_none(), "{why:?}");
            }
        }
        let (condition, ..) = refused(&table, &Authenticated::default(), Some("nroth"));
        assert_eq!(condition, condition::UNAUTHORIZED_ACCESS);
    }
}

#[test]
fn authenticated_user_without_a_space_is_refused() {
    let table = shared(&golden("open.json"));
    let lost = Authenticated { user: Some("alice".into()), ..Authenticated::default() };
    assert_eq!(refused(&table, &lost, Some("default")).0, condition::UNAUTHORIZED_ACCESS);
}

#[test]
fn session_vouched_for_a_missing_space_is_not_found() {
    let table = shared(&golden("open.json"));
    for user in [None, Some("alice".to_owned())] {
        let inside = Authenticated::vouched(&table, "Default", user.clone());
        assert_eq!((table.open(&inside, Some("localhost")).ok(), &inside.user), (table.space_named("default"), &user));
        let unknown_space = Authenticated::vouched(&table, "gone", user);
        for hostname in [None, Some("default"), Some("gone")] {
            let (condition, text, _) = refused(&table, &unknown_space, hostname);
            assert_eq!(condition, condition::NOT_FOUND, "neither the only space nor the one that open names");
            assert!(text.contains("\"gone\""));
        }
    }
}

#[test]
fn only_a_vouched_administrator_has_every_right() {
    let table = shared(&golden("closed.json"));
    let space = table.spaces().find(|space| !space.is_open()).expect("a closed space");
    let named = || Some(Space::ADMINISTRATOR.to_owned());
    let vouched = Authenticated::vouched(&table, space.name(), named());
    assert_eq!(space.rights(&vouched), Rights::EVERYTHING);
    let claimed = Authenticated { user: named(), ..Authenticated::default() };
    assert_eq!(space.rights(&claimed), Rights::nothing());
}

#[test]
fn open_with_a_generic_host_name_selects_the_only_space() {
    let table = shared(&golden("open.json"));
    for noise in ["localhost", "127.0.0.1", "::1", ""] {
        for authenticated in [Authenticated::without_sasl(&table, &named(noise)), Authenticated::default()] {
            assert_eq!(table.open(&authenticated, Some(noise)).ok(), table.space_named("default"), "{noise:?}");
        }
    }
}

#[test]
fn node_without_spaces_refuses_every_client() {
    let table = Arc::new(Table::empty(SECRET));
    let (condition, text, _) = refused(&table, &Authenticated::without_sasl(&table, &local()), Some("localhost"));
    assert_eq!(condition, condition::NOT_FOUND);
    assert!(text.contains("declare one"));
    assert_eq!(log_in(&table, local(), password("alice", "pencil", "SCRAM-SHA-256"), None), Err(SaslCode::Auth));
}

#[test]
fn the_sasl_header_may_be_omitted_where_anonymous_is_admitted() {
    let table = shared(&golden("many-spaces.json"));
    let optional = |peer| Handshake::new(Arc::clone(&table), peer, NONCE).is_optional();
    assert!(optional(local()), "the host name of open may name an open space");
    assert!(optional(named("lab")));
    assert!(!optional(named("shop.north")));
    assert!(!Handshake::new(shared(&golden("closed.json")), local(), NONCE).is_optional());
}

#[test]
fn space_removed_before_open_is_not_found() {
    let first = table(&golden("many-spaces.json"));
    let alice = authenticated(&first, "shop.north", Some("alice"));
    let second = Table::compile(&plan(10, [space("new", &[])]), &first).unwrap();
    assert_eq!(refused(&second, &alice, None).0, condition::NOT_FOUND);
}

#[test]
fn plan_applied_during_the_handshake_does_not_change_the_space() {
    let before = golden("many-spaces.json");
    let first = shared(&before);
    let authenticated = log_in(&first, local(), password("alice@shop.north", "pencil", "SCRAM-SHA-256"), None).unwrap();
    let mut swapped = before.clone();
    swapped.version += 1;
    (swapped.spaces[0].names, swapped.spaces[1].names) =
        (swapped.spaces[1].names.clone(), swapped.spaces[0].names.clone());
    let second = Table::compile(&swapped, &first).unwrap();
    let key = second.open(&authenticated, None).unwrap();
    assert_eq!(second.space(key).unwrap().uid(), "space-1", "the space that checked the password, under its new name");
}

#[test]
fn unknown_user_gets_a_scram_challenge_like_that_of_a_known_user() {
    let table = shared(&golden("closed.json"));
    let shown = |user: &str, mechanism: &str| {
        let first = format!("n,,n={user},r=abc").into_bytes();
        let init = SaslInit { mechanism: Symbol::from(mechanism), initial_response: Some(first), hostname: None };
        match Handshake::new(Arc::clone(&table), local(), NONCE).init(&init) {
            Step::Challenge(challenge) => String::from_utf8(challenge).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let rounds = |text: &str| text.rsplit(',').next().unwrap().to_owned();
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let (real, unreal) = (shown("alice", mechanism), shown("mallory", mechanism));
        assert_eq!((real.len(), rounds(&real)), (unreal.len(), rounds(&unreal)), "{mechanism}");
        assert_eq!(unreal, shown("mallory", mechanism), "asked twice, the same salt");
        assert_ne!(unreal, shown("malfoy", mechanism), "another name, another salt");
        assert_eq!(
            unreal,
            shown("mallory@default", mechanism),
            "as for a real user, the suffix is not part of the name"
        );
    }
    assert_ne!(shown("mallory", "SCRAM-SHA-256"), shown("mallory", "SCRAM-SHA-512"));
    assert_eq!(rounds(&shown("mallory", "SCRAM-SHA-256")), "i=4096");
    assert_eq!(rounds(&shown("mallory", "SCRAM-SHA-512")), "i=10000");
}

#[test]
fn password_check_of_an_unknown_user_costs_the_same() {
    let table = shared(&golden("closed.json"));
    let check = |user: &str| {
        let message = Some(format!("\0{user}\0pencil").into_bytes());
        let init = SaslInit { mechanism: Symbol::from("PLAIN"), initial_response: message, hostname: None };
        match Handshake::new(Arc::clone(&table), local(), NONCE).init(&init) {
            Step::CheckPlain(check) => check,
            other => panic!("{other:?}"),
        }
    };
    let cost = |user| format!("{:?}", check(user));
    assert!(cost("alice").contains("Sha512") && cost("alice").contains("10000"), "{}", cost("alice"));
    for unreal in ["mallory", "anonymous", "mallory@default"] {
        assert_eq!(cost(unreal), cost("alice"), "{unreal}");
        assert!(!check(unreal).verify());
    }
}

#[test]
fn dummy_credentials_depend_on_the_process_secret() {
    let plan = golden("closed.json");
    let shown = |secret| {
        let table = Arc::new(Table::compile(&plan, &Table::empty(secret)).unwrap());
        let first = Some(b"n,,n=mallory,r=abc".to_vec());
        let init = SaslInit { mechanism: Symbol::from("SCRAM-SHA-256"), initial_response: first, hostname: None };
        match Handshake::new(table, local(), NONCE).init(&init) {
            Step::Challenge(challenge) => challenge,
            other => panic!("{other:?}"),
        }
    };
    assert_ne!(shown([1; 32]), shown([2; 32]));
}
