//! Streams in a whole node: offsets over restarts, readers from any offset, added partitions.

use std::path::Path;
use std::time::Duration;

use enmasse_amqp::codec::decode_message;
use enmasse_amqp::codec::stamp::Stamp;
use enmasse_amqp::types::{Body, Outcome, Source, Symbol, Value, condition};
use enmasse_node::ListenerKind::Amqp;
use enmasse_node::{EventKind, NodeConfig};

use crate::harness::{Client, Site, workers};
use crate::stored::{message, plan, shorten};
use crate::testing::Folder;

fn events(members: &str) -> String {
    format!(
        r#"{{"uid": "7d2f1c9e-0000-4000-8000-000000000001", "name": "events", "type": "topic",
            "retention": {{"bytes": 100000000}}{members}}}"#
    )
}

fn site(count: u16, folder: &Path, addresses: &str) -> Site {
    Site::new(&NodeConfig { journal: Some(folder.to_owned()), ..workers(count) }, &plan(1, addresses))
}

fn store(client: &mut Client, texts: impl IntoIterator<Item = String>) {
    let out = client.sender(Some("events"));
    let mut sent = 0;
    for text in texts {
        client.send(out, &message(&text), false);
        sent += 1;
    }
    for _ in 0..sent {
        assert_eq!(client.outcome(), Outcome::Accepted);
    }
}

fn from(start: Value) -> Source {
    let name = Symbol::from("rabbitmq:stream-offset-spec");
    let filter = vec![(name.clone(), Value::Described(Box::new((Value::Symbol(name), start))))];
    Source { address: Some("events".to_owned()), filter, ..Source::default() }
}

fn first() -> Source {
    from(Value::String("first".to_owned()))
}

/// The offset and the text of the next message.
fn receive(client: &mut Client) -> (u64, String) {
    let (_, _, payload) = client.receive();
    let stamp = Stamp::of(&payload).expect("annotations of a stream");
    let Body::Data(data) = decode_message(&payload).expect("a message").body else { panic!("no data") };
    (stamp.offset, String::from_utf8(data.concat()).expect("text"))
}

#[test]
fn stream_can_be_read_repeatedly_and_after_a_restart() {
    for count in [1, 2] {
        let folder = Folder::new("streams");
        let journal = folder.path("journal");
        let before = site(count, &journal, &events(""));
        store(&mut before.client(Amqp), (0..500).map(|n| n.to_string()));
        let mut readers: Vec<Client> = (0..3).map(|_| before.client(Amqp)).collect();
        for reader in &mut readers {
            reader.receiver_of(first(), 500);
        }
        for n in 0..500 {
            for reader in &mut readers {
                assert_eq!(receive(reader), (n, n.to_string()));
            }
        }
        before.node.stop(Duration::from_secs(2));
        let after = site(count, &journal, &events(""));
        assert_eq!(after.stats().addresses[0].stored, 500);
        let mut reader = after.client(Amqp);
        reader.receiver_of(from(Value::Ulong(498)), 10);
        assert_eq!([receive(&mut reader), receive(&mut reader)], [(498, "498".into()), (499, "499".into())]);
        store(&mut after.client(Amqp), ["new".to_owned()]);
        assert_eq!(receive(&mut reader), (500, "new".to_owned()));
        // The blocks come from the disk.
        let mut reader = after.client(Amqp);
        reader.receiver_of(first(), 1000);
        for n in 0..500 {
            assert_eq!(receive(&mut reader), (n, n.to_string()));
        }
        let line = after.stats().addresses[0].clone();
        assert_eq!((line.stored, line.enqueued, line.receivers, line.damaged), (501, 1, 2, 0));
    }
}

#[test]
fn messages_of_a_lost_file_are_counted_and_their_offsets_are_not_used_again() {
    for left in [None, Some(20_000)] {
        let folder = Folder::new("streams");
        let journal = folder.path("journal");
        let before = site(1, &journal, &events(""));
        // Many small blocks, of which some become one.
        let mut client = before.client(Amqp);
        for n in 0..150 {
            store(&mut client, [n.to_string()]);
        }
        store(&mut client, (150..500).map(|n| n.to_string()));
        before.node.stop(Duration::from_secs(2));
        shorten(&journal.join("0000000001.log"), left);
        let after = site(1, &journal, &events(""));
        let count = after.event(|event| match &event.what {
            EventKind::MessageDamaged { count, .. } => Some(*count),
            _ => None,
        });
        assert_eq!(after.stats().addresses[0].damaged, count);
        assert_eq!(count == 500, left.is_none(), "{count}");
        let mut reader = after.client(Amqp);
        reader.receiver_of(first(), 1000);
        for n in 0..500 - count {
            assert_eq!(receive(&mut reader), (n, n.to_string()));
        }
        store(&mut after.client(Amqp), ["new".to_owned()]);
        assert_eq!(receive(&mut reader), (500, "new".to_owned()));
    }
}

#[test]
fn large_messages_pass_through_a_stream_intact() {
    let folder = Folder::new("streams");
    let site = site(2, &folder.path("journal"), &events(""));
    let mut client = site.client(Amqp);
    let out = client.sender(Some("events"));
    let mut large = vec![0x00, 0x53, 0x75, 0xb0];
    large.extend_from_slice(&1_000_000_u32.to_be_bytes());
    large.resize(large.len() + 1_000_000, b'x');
    for _ in 0..5 {
        client.send(out, &large, false);
        assert_eq!(client.outcome(), Outcome::Accepted);
    }
    let mut reader = site.client(Amqp);
    reader.receiver_of(first(), 10);
    for n in 0..5 {
        let (offset, text) = receive(&mut reader);
        assert_eq!((offset, text.len()), (n, 1_000_000));
    }
}

#[test]
fn stream_keeps_its_messages_when_partitions_are_added() {
    let folder = Folder::new("streams");
    let journal = folder.path("journal");
    let first_site = site(2, &journal, &events(""));
    store(&mut first_site.client(Amqp), ["a".to_owned()]);
    let grown = events(r#", "partitions": 3"#);
    first_site.node.apply(&serde_json::from_str(&plan(2, &grown)).unwrap()).unwrap();
    store(&mut first_site.client(Amqp), ["b".to_owned(), "c".to_owned(), "d".to_owned()]);
    first_site.node.stop(Duration::from_secs(2));
    let second = site(2, &journal, &grown);
    let mut reader = second.client(Amqp);
    reader.receiver_of(first(), 10);
    let mut got: Vec<_> = (0..4).map(|_| receive(&mut reader)).collect();
    got.sort_unstable();
    let expected = [(0, "a"), (0, "b"), (0, "c"), (1, "d")].map(|(offset, text)| (offset, text.to_owned()));
    assert_eq!(got.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), expected.map(|(offset, _)| offset));
}

#[test]
fn link_with_an_offset_is_refused_on_several_partitions() {
    let folder = Folder::new("streams");
    let site = site(2, &folder.path("journal"), &events(r#", "partitions": 2"#));
    let mut client = site.client(Amqp);
    client.receiver_of(from(Value::Ulong(0)), 1);
    assert_eq!(client.detached().map(|error| error.condition), Some(condition::INVALID_FIELD));
}
