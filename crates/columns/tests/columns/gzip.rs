//! Bodies with the content-encoding gzip.

use std::io::Write;
use std::sync::Arc;

use enmasse_amqp::types::{Body, Message, Properties, Symbol};
use enmasse_columns::{BODY_SIZE_MAX, Batch, Declared, Format, Options};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::{ORIGIN, batch_of, encoded, options, rows};

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn message(content_encoding: &str, parts: Vec<Vec<u8>>) -> Vec<u8> {
    let properties = Properties { content_encoding: Some(Symbol::from(content_encoding)), ..Properties::default() };
    encoded(&Message { properties: Some(properties), body: Body::Data(parts), ..Message::default() })
}

fn wanted() -> Options {
    options("a int, _error", Some(Format::Json))
}

fn decoded(content_encoding: &str, parts: Vec<Vec<u8>>) -> Vec<Vec<String>> {
    rows(&batch_of(&wanted(), &[message(content_encoding, parts)]))
}

#[test]
fn gzip_body_is_decompressed_before_it_is_decoded() {
    let body = gzip(b"[{\"a\":1},{\"a\":2}]");
    for name in ["gzip", "GZip", "x-gzip"] {
        assert_eq!(decoded(name, vec![body.clone()]), [["1", "null"], ["2", "null"]], "{name}");
    }
    let (first, last) = body.split_at(9);
    assert_eq!(decoded("gzip", vec![first.to_vec(), last.to_vec()]).len(), 2, "several data sections");
    let members = [gzip(b"{\"a\":"), gzip(b"3}")].concat();
    assert_eq!(decoded("gzip", vec![members]), [["3", "null"]], "several members");
}

#[test]
fn body_of_another_content_encoding_is_decoded_as_it_is() {
    for name in ["utf-8", "identity", ""] {
        assert_eq!(decoded(name, vec![b"{\"a\":1}".to_vec()]), [["1", "null"]], "{name}");
    }
}

#[test]
fn body_column_keeps_the_compressed_bytes() {
    let body = gzip(b"{\"a\":1}");
    let got = batch_of(&options("body, content_encoding", None), &[message("gzip", vec![body.clone()])]);
    assert_eq!(rows(&got), [[format!("{:?}", String::from_utf8_lossy(&body)), "gzip".to_owned()]]);
}

#[test]
fn damaged_or_huge_gzip_body_is_one_row_with_the_reason() {
    let body = gzip(b"{\"a\":1}");
    let mut wrong = body.clone();
    let crc = wrong.len() - 5;
    wrong[crc] ^= 1;
    for bytes in [b"{\"a\":1}".to_vec(), body[..body.len() - 1].to_vec(), wrong] {
        let got = decoded("gzip", vec![bytes]);
        assert_eq!((got.len(), got[0][0].as_str()), (1, "null"));
        assert!(got[0][1].starts_with("content-encoding gzip: "), "{got:?}");
    }
    let huge = gzip(&vec![b' '; BODY_SIZE_MAX + 1]);
    assert!(huge.len() < BODY_SIZE_MAX / 200);
    assert_eq!(decoded("gzip", vec![huge]), [["null", "content-encoding gzip: the body has more than 64 MiB"]]);
}

#[test]
fn batch_counts_decompressed_bytes_until_it_is_finished() {
    let mut batch = Batch::new(Arc::new(Declared::new(&wanted()).unwrap()));
    let body = [&b"{\"a\":1}"[..], &[b' '; 10_000]].concat();
    for count in 1..=3 {
        batch.push(&ORIGIN, &message("gzip", vec![gzip(&body)]));
        assert_eq!(batch.expanded(), count * body.len());
    }
    assert_eq!(batch.finish().num_rows(), 3);
    assert_eq!(batch.expanded(), 0);
}
