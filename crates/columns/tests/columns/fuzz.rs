//! Fuzz targets: any bytes as a message, as a body of each format, and as a declaration.

use std::sync::Arc;

use bolero::check;
use enmasse_columns::{Batch, Declared, Format, Options};

use super::{ORIGIN, encoded, options, with_body};

const COLUMNS: &str = "body, application_properties, annotations, offset, enqueued_time, message_id, n string, t timestamp, \
                       v double, vs string, vb boolean, vd binary, s bigint, u string, ut date, _error, _index";

#[test]
fn messages() {
    let declared = Arc::new(Declared::new(&options(COLUMNS, Some(Format::Auto))).unwrap());
    check!().for_each(|input: &[u8]| {
        let mut batch = Batch::new(Arc::clone(&declared));
        for code in [None, Some(0x70), Some(0x72), Some(0x73), Some(0x74), Some(0x75), Some(0x77)] {
            let head = code.map_or(vec![], |code| vec![0x00, 0x53, code]);
            let before = batch.rows();
            batch.push(&ORIGIN, &[head, input.to_vec()].concat());
            assert!(batch.rows() > before);
        }
        assert_eq!(batch.rows(), batch.finish().num_rows());
    });
}

#[test]
fn bodies() {
    let declared = [Format::Json, Format::SenmlJson, Format::Cbor, Format::SenmlCbor, Format::Csv].map(|format| {
        let header = Options { csv_header: true, ..options(COLUMNS, Some(format)) };
        [options(COLUMNS, Some(format)), header].map(|options| Arc::new(Declared::new(&options).unwrap()))
    });
    let good = encoded(&with_body(b"[{\"n\":\"a\",\"v\":1}]"));
    check!().for_each(|input: &[u8]| {
        for declared in declared.iter().flatten() {
            let mut batch = Batch::new(Arc::clone(declared));
            // state of one body must not affect the next
            for message in [&encoded(&with_body(input)), &good] {
                let before = batch.rows();
                batch.push(&ORIGIN, message);
                assert!(batch.rows() > before);
            }
            assert_eq!(batch.rows(), batch.finish().num_rows());
        }
    });
}

#[test]
fn declarations() {
    const TOKENS: [&str; 16] = [
        "a",
        "b",
        "offset",
        "body",
        "int",
        "string",
        "map<string,string>",
        ",",
        ":",
        "`",
        "not null",
        "comment",
        "'x, y'",
        "<",
        ")",
        " ",
    ];
    check!().for_each(|input: &[u8]| {
        let tokens: String =
            input.iter().map(|byte| TOKENS[usize::from(*byte) % TOKENS.len()]).collect::<Vec<_>>().join(" ");
        for text in [String::from_utf8_lossy(input).into_owned(), tokens] {
            if let Ok(declared) = Declared::new(&options(&text, Some(Format::Json))) {
                // the text of a declaration declares the same columns
                let again = Declared::new(&options(&declared.sql(), Some(Format::Json))).unwrap();
                assert_eq!(again.sql(), declared.sql());
                assert_eq!(again.schema(), declared.schema());
            }
        }
    });
}
