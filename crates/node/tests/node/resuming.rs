//! Links that continue after a restart of the node (2.6.13), over sockets: exactly once both ways.

use std::time::{Duration, Instant};

use enmasse_amqp::connection::Tag;
use enmasse_amqp::types::{DeliveryState, Outcome, Role};
use enmasse_node::ListenerKind::Amqp;

use crate::harness::{ClientEvent, PATIENCE, Site};
use crate::stored::{ORDERS, message, site, store};
use crate::testing::Folder;

fn accepted() -> Option<DeliveryState> {
    Some(DeliveryState::Outcome(Outcome::Accepted))
}

fn number(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

fn restarted(before: Site, count: u16, folder: &Folder) -> Site {
    before.node.stop(Duration::from_secs(2));
    site(count, folder, ORDERS)
}

fn wait_for_stored(site: &Site, count: u64) {
    let end = Instant::now() + PATIENCE;
    while site.stats().addresses[0].stored != count {
        assert!(Instant::now() < end, "{} messages are stored", site.stats().addresses[0].stored);
        std::thread::yield_now();
    }
}

#[test]
fn receiver_resumes_its_link_after_a_restart() {
    for count in [1, 2] {
        let folder = Folder::new("resuming");
        let first = site(count, &folder, ORDERS);
        store(&mut first.client(Amqp), "orders", &["a", "b", "c"]);
        let mut client = first.client(Amqp);
        let (link, known) = client.resume(Role::Receiver, "orders", Vec::new());
        assert!(known.is_empty());
        client.grant(link, 2);
        let got = [client.receive_named(), client.receive_named()];
        assert_eq!(got.map(|(_, tag, resume)| (tag, resume)), [(number(0), false), (number(1), false)]);
        let second = restarted(first, count, &folder);
        let mut other = second.client(Amqp);
        other.receiver("orders", 10);
        assert_eq!(other.receive().2, message("c"), "the resumable link holds the others");
        other.close();
        let mut client = second.client(Amqp);
        let reported = vec![(number(0), accepted()), (number(1), None)];
        let (link, known) = client.resume(Role::Receiver, "orders", reported);
        assert_eq!(known, [(number(1), None)], "the accepted delivery is settled");
        client.grant(link, 1);
        let (id, tag, resume) = client.receive_named();
        assert_eq!((tag, resume), (number(1), true));
        client.settle(link, id, &Outcome::Accepted);
        client.wait(|received| (*received == ClientEvent::SenderSettled(id)).then_some(()));
        drop(client);
        let third = restarted(second, count, &folder);
        wait_for_stored(&third, 1);
    }
}

#[test]
fn sender_resumes_its_link_after_a_restart() {
    for count in [1, 2] {
        let folder = Folder::new("resuming");
        let first = site(count, &folder, ORDERS);
        let mut client = first.client(Amqp);
        let (link, _) = client.resume(Role::Sender, "orders", Vec::new());
        client.send_named(link, &message("a"), false, Tag { bytes: b"a", resume: false });
        // The client never reads the outcome.
        wait_for_stored(&first, 1);
        drop(client);
        let second = restarted(first, count, &folder);
        let mut client = second.client(Amqp);
        let reported = vec![(b"a".to_vec(), None), (b"b".to_vec(), None)];
        let (link, known) = client.resume(Role::Sender, "orders", reported.clone());
        assert_eq!(known, [(b"a".to_vec(), accepted())]);
        client.send_named(link, &message("a"), true, Tag { bytes: b"a", resume: true });
        client.send_named(link, &message("b"), false, Tag { bytes: b"b", resume: false });
        assert_eq!(client.outcome(), Outcome::Accepted);
        wait_for_stored(&second, 2);
        client.close();
        let third = restarted(second, count, &folder);
        let (_, known) = third.client(Amqp).resume(Role::Sender, "orders", reported);
        assert!(known.is_empty(), "both deliveries are settled: {known:?}");
        wait_for_stored(&third, 2);
    }
}
