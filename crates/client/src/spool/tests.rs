//! Files of a spool: their messages are read back, and damage is reported.

use enmasse_amqp::codec::encode_message;
use enmasse_amqp::types::{Body, Header, Message, MessageId, Properties, Symbol, Value};
use proptest::prelude::*;

use super::{Kind, Packed, Packing, RecentIds, identity, was_delivered_before};
use crate::ErrorKind;

const KEY: [u8; 16] = *b"sixteen bytes...";

fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_message(&mut bytes, message);
    bytes
}

fn message(id: &str, body: &str) -> Message {
    let message_id = Some(MessageId::String(id.to_owned()));
    Message {
        properties: Some(Properties { message_id, ..Properties::default() }),
        body: Body::Data(vec![body.as_bytes().to_vec()]),
        ..Message::default()
    }
}

fn id(message: &Message) -> Option<[u8; 16]> {
    identity(&encoded(message), &KEY)
}

fn packed(records: &[Vec<u8>], kind: Kind, first: u64) -> Vec<u8> {
    let mut packing = Packing::default();
    records.iter().for_each(|record| packing.push(record));
    assert_eq!(packing.count() as usize, records.len());
    packing.finish(kind, first..first + records.len() as u64)
}

proptest! {
    #[test]
    fn packed_records_round_trip(
        records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..50),
        first in 0..u64::MAX / 2,
        ids in any::<bool>(),
    ) {
        let kind = if ids { Kind::Ids } else { Kind::Messages };
        let bytes = packed(&records, kind, first);
        let file = Packed::open(&bytes).unwrap();
        prop_assert_eq!((file.kind, file.count as usize), (kind, records.len()));
        prop_assert_eq!(&file.offsets, &(first..first + records.len() as u64));
        let found: Vec<_> = file.records(&bytes).map(<[u8]>::to_vec).collect();
        prop_assert_eq!(found, records);
    }

    #[test]
    fn truncated_or_changed_file_is_reported_as_torn(
        records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20),
        place in any::<prop::sample::Index>(),
        bit in 0..8u8,
    ) {
        let bytes = packed(&records, Kind::Messages, 7);
        let at = place.index(bytes.len());
        prop_assert_eq!(Packed::open(&bytes[..at]).unwrap_err().kind, ErrorKind::Conflict);
        let mut changed = bytes;
        changed[at] ^= 1 << bit;
        prop_assert_eq!(Packed::open(&changed).unwrap_err().kind, ErrorKind::Conflict);
    }

    #[test]
    fn spool_reader_handles_arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        // neither of them may panic
        let _ = (identity(&bytes, &KEY), was_delivered_before(&bytes));
        prop_assert!(Packed::open(&bytes).is_err());
    }

    #[test]
    fn newest_ids_are_remembered_up_to_the_bound(ids in prop::collection::vec(0..40u8, 0..200), bound in 0..30usize) {
        let mut seen = RecentIds::default();
        let mut model: Vec<u8> = Vec::new();
        for id in ids {
            seen.add([id; 16]);
            seen.keep(bound);
            if !model.contains(&id) {
                model.push(id);
            }
            let first = model.len().saturating_sub(bound);
            model.drain(..first);
            prop_assert_eq!(seen.count(), model.len());
            for known in 0..40 {
                prop_assert_eq!(seen.has(&[known; 16]), model.contains(&known));
            }
        }
    }
}

#[test]
fn foreign_files_and_versions_are_distinguished_from_torn_ones() {
    let mut bytes = packed(&[], Kind::Messages, 0);
    bytes[8] = 2;
    assert!(Packed::open(&bytes).unwrap_err().message.contains("another version"));
    bytes[0] = b'E';
    assert!(Packed::open(&bytes).unwrap_err().message.contains("not a spool file"));
}

#[test]
fn identity_ignores_header_and_annotations() {
    let one = message("a", "x");
    assert!(id(&one).is_some());
    let header = Header { delivery_count: 3, ..Header::default() };
    let annotations = vec![(Symbol::constant("x-opt-seen"), Value::Bool(true))];
    let again = Message { header: Some(header), message_annotations: annotations, ..one.clone() };
    assert_eq!(id(&one), id(&again));
    for other in [message("b", "x"), message("a", "y")] {
        assert_ne!(id(&one), id(&other));
    }
    let more = vec![("n".to_owned(), Value::Int(1))];
    assert_ne!(id(&one), id(&Message { application_properties: more, ..one.clone() }));
    assert_ne!(id(&one), identity(&encoded(&one), b"of another spool"));
    for number in [MessageId::Ulong(7), MessageId::Uuid([7; 16]), MessageId::Binary(vec![7])] {
        let properties = Some(Properties { message_id: Some(number), ..Properties::default() });
        assert!(id(&Message { properties, ..Message::default() }).is_some());
    }
}

#[test]
fn message_without_a_message_id_has_no_identity() {
    let properties = Some(Properties { to: Some("x".to_owned()), ..Properties::default() });
    for anonymous in [Message::default(), Message { properties, ..message("a", "x") }] {
        assert_eq!(id(&anonymous), None);
    }
}

#[test]
fn earlier_delivery_is_read_from_the_header() {
    let header = |header: Header| encoded(&Message { header: Some(header), ..message("a", "x") });
    assert!(!was_delivered_before(&encoded(&message("a", "x"))));
    assert!(!was_delivered_before(&header(Header { durable: true, ..Header::default() })));
    assert!(was_delivered_before(&header(Header { delivery_count: 1, ..Header::default() })));
    // lists that end before first-acquirer, or have it true, false or null
    let list = |fields: &[u8]| {
        let mut bytes = vec![0x00, 0x53, 0x70, 0xc0, fields.len() as u8 + 1, fields.len() as u8];
        bytes.extend_from_slice(fields);
        bytes
    };
    assert!(!was_delivered_before(&list(&[0x41])));
    assert!(!was_delivered_before(&list(&[0x41, 0x40, 0x40, 0x41])));
    assert!(was_delivered_before(&list(&[0x41, 0x40, 0x40, 0x42])));
    assert!(!was_delivered_before(&list(&[0x41, 0x40, 0x40, 0x40, 0x43])));
}
