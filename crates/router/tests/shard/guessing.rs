//! Wrong passwords delay further logins of that user from their source address only
//! (`docs/contracts.md` 5).

use std::net::{IpAddr, Ipv4Addr};

use enmasse_amqp::types::Open;
use enmasse_router::shard::Peer;

use crate::net::{Net, plain_init};

const CLOSED: &str = include_str!("../../../../vectors/plans/closed.json");

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    LetIn,
    Wrong,
    /// The password was not examined.
    Early,
}

fn try_password(net: &mut Net, user: &str, password: &str, source: u8) -> Answer {
    let source = IpAddr::V4(Ipv4Addr::new(192, 0, 2, source));
    let peer = Peer { loopback: true, source: Some(source), ..Peer::default() };
    let open = Open { container_id: "c".to_owned(), ..Open::default() };
    let client = net.client(0, peer, Some(plain_init(user, password)), open);
    let reported = |code: &str| net.clients[client].frames.iter().any(|frame| frame.contains(&format!("code={code},")));
    match (reported("Ok"), reported("Auth"), reported("SysTemp")) {
        (true, false, false) => Answer::LetIn,
        (false, true, false) => Answer::Wrong,
        (false, false, true) => Answer::Early,
        other => panic!("one outcome: {other:?}"),
    }
}

#[test]
fn wrong_passwords_make_their_source_wait_for_that_user() {
    for user in ["alice", "nobody"] {
        let mut net = Net::new(1, CLOSED);
        for attempt in 0..5 {
            assert_eq!(try_password(&mut net, user, "wrong", 1), Answer::Wrong, "attempt {attempt} for {user}");
        }
        assert_eq!(try_password(&mut net, user, "pencil", 1), Answer::Early);
        assert_eq!(try_password(&mut net, "bob", "wrong", 1), Answer::Wrong, "another user");
        assert_eq!(try_password(&mut net, user, "wrong", 2), Answer::Wrong, "another source");
        net.pass(1_000);
        assert_eq!(try_password(&mut net, user, "wrong", 1), Answer::Wrong, "a second is over");
        net.pass(1_900);
        assert_eq!(try_password(&mut net, user, "wrong", 1), Answer::Early, "two seconds are not");
    }
}

#[test]
fn a_right_password_ends_the_wait() {
    let mut net = Net::new(1, CLOSED);
    for _ in 0..5 {
        try_password(&mut net, "alice", "wrong", 1);
    }
    net.pass(1_000);
    assert_eq!(try_password(&mut net, "alice", "pencil", 1), Answer::LetIn);
    for _ in 0..4 {
        assert_eq!(try_password(&mut net, "alice", "wrong", 1), Answer::Wrong);
    }
    assert_eq!(try_password(&mut net, "alice", "pencil", 1), Answer::LetIn);
}
