//! Bodies of every format, good and bad.

use enmasse_amqp::types::{Body, Message, Value};
use enmasse_columns::{Format, Options, RECORDS_MAX, TimeUnit};

use super::{batch_of, decoded, decoded_by, encoded, options, rows, text, with_content_type};

#[test]
fn json_object_fills_the_columns_it_names() {
    let columns = "device string, value double, count int, ok boolean, at timestamp, day date, raw binary, rest string";
    let body =
        br#"{"unknown":{"deep":[1]},"device":"d\u00e9","value":3,"count":4.0,"ok":true,"at":"2026-01-01T00:00:00Z",
        "day":"1970-01-03","raw":"xyz","rest":{"a":[1,null,"q"],"b":1.5}}"#;
    assert_eq!(
        decoded(columns, Format::Json, body),
        [["d\u{e9}", "3", "4", "true", "1767225600000000", "2", "\"xyz\"", r#"{"a":[1,null,"q"],"b":1.5}"#, "null"]]
    );
}

#[test]
fn json_array_gives_one_row_per_element_and_the_body_once() {
    let wanted = options("address, body, a int, _index, _error", Some(Format::Json));
    assert_eq!(
        decoded_by(&wanted, br#"[{"a":1},{},{"a":null,"a":3}]"#),
        [
            ["readings", "\"[{\\\"a\\\":1},{},{\\\"a\\\":null,\\\"a\\\":3}]\"", "1", "0", "null"],
            ["readings", "null", "null", "1", "null"],
            ["readings", "null", "3", "2", "null"]
        ]
    );
}

#[test]
fn json_value_of_another_type_is_null_and_reported() {
    for (json, kind, said) in [
        (r#""x""#, "double", "a: text is not of type double"),
        ("1.5", "int", "a: a number is not of type int"),
        ("300", "tinyint", "a: an integer is not of type tinyint"),
        ("18446744073709551615", "bigint", "a: an integer is not of type bigint"),
        ("1", "boolean", "a: an integer is not of type boolean"),
        ("[1]", "int", "a: an object or array is not of type int"),
        (r#""soon""#, "timestamp", "a: text is not of type timestamp"),
        ("1e300", "timestamp", "a: a number is not of type timestamp"),
    ] {
        let got = decoded(&format!("a {kind}, b int"), Format::Json, format!(r#"{{"a":{json},"b":2}}"#).as_bytes());
        assert_eq!((got[0][0].as_str(), got[0][1].as_str()), ("null", "2"), "{json}");
        assert!(got[0][2].starts_with(said), "{json}: {}", got[0][2]);
    }
}

#[test]
fn invalid_json_body_is_one_row_with_the_reason() {
    let deep = [b"{\"a\":".as_slice(), &[b'['; 200], &[b']'; 200], b"}"].concat();
    for body in
        [&b"{"[..], b"", b"[1]", b"7", b"{\"a\":1}x", b"[{\"a\":1},{\"a\":2]", b"{\"a\":\"\xff\"}", b"[]", &deep]
    {
        let got = decoded("a string, _index", Format::Json, body);
        assert_eq!((got.len(), got[0][0].as_str(), got[0][1].as_str()), (1, "null", "0"), "{got:?}");
        assert_ne!(got[0][2], "null", "{body:?}");
    }
}

#[test]
fn numeric_times_use_the_declared_unit() {
    for (unit, number) in [
        (TimeUnit::Seconds, "2"),
        (TimeUnit::Milliseconds, "2000"),
        (TimeUnit::Microseconds, "2e6"),
        (TimeUnit::Nanoseconds, "2000000000"),
    ] {
        let wanted = Options { time_unit: unit, ..options("at timestamp", Some(Format::Json)) };
        assert_eq!(decoded_by(&wanted, format!("{{\"at\":{number}}}").as_bytes()), [["2000000"]]);
    }
}

#[test]
fn cbor_maps_are_decoded_into_rows() {
    // {"d": "x", 2: 1.5, "t": 1(1), "b": h'0102', "n": {"k": [undefined, -1]}}
    let body = b"\xbf\x61d\x61x\x02\xf9\x3e\x00\x61t\xc1\x01\x61b\x42\x01\x02\x61n\xa1\x61k\x82\xf7\x20\xff";
    assert_eq!(
        decoded("d string, `2` double, t timestamp, b binary, n string", Format::Cbor, body),
        [["x", "1.5", "1000000", "\"\\u{1}\\u{2}\"", r#"{"k":[null,-1]}"#, "null"]]
    );
    assert_eq!(
        decoded("d string", Format::Cbor, b"\xd9\xd9\xf7\x82\xa1\x61d\x7f\x61x\x61y\xff\xa0"),
        [["xy", "null"], ["null", "null"]]
    );
}

#[test]
fn invalid_cbor_body_is_one_row_with_the_reason() {
    let deep = [vec![0xa1, 0x61, b'a'], vec![0x81; 70], vec![0x01]].concat();
    for (body, said) in [
        (&b"\xa1\x61a"[..], "end of input"),
        (b"", "end of input"),
        (b"\xa0\x00", "1 bytes follow"),
        (b"\x01", "an object"),
        (b"\xa1\x61a\xff", "not a value"),
        (b"\xa1\x61a\xe0", "not a value"),
        (b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff", "end of input"),
        (&deep, "deeper than 64"),
        (b"\xa1\x61a\xc1\xf9\x7e\x00", "a time is out of the range"),
        (b"\xa1\x61a\xc1\xf9\x7c\x00", "a time is out of the range"),
    ] {
        let got = decoded("a string", Format::Cbor, body);
        assert_eq!((got.len(), got[0][0].as_str()), (1, "null"));
        assert!(got[0][1].contains(said), "{body:02x?}: {}", got[0][1]);
    }
}

const SENML: &str = "n string, u string, t timestamp, v double, vs string, vb boolean, vd binary, s double";

#[test]
fn senml_records_are_resolved() {
    // RFC 8428, 5.1.3, with base fields of every kind
    let body = br#"[{"bn":"urn:dev:ow:10e2073a01080063:","bt":1.276020076001e9,"bu":"A","bver":5,"bv":10,
        "n":"voltage","u":"V","v":120.1},{"n":"current","t":-5,"v":1.2},{"n":"label","vs":"on"},{"n":"lamp","vb":true},
        {"n":"data","vd":"AQID"},{"bs":100,"n":"flow","s":5},{"bn":"x","v":0}]"#;
    let name = |name: &str| format!("urn:dev:ow:10e2073a01080063:{name}");
    let now = "1276020076001000";
    let row = |n: String, u: &str, t: &str, rest: [&str; 5]| {
        [vec![n, u.to_owned(), t.to_owned()], rest.map(str::to_owned).to_vec(), vec!["null".to_owned()]].concat()
    };
    assert_eq!(
        decoded(SENML, Format::SenmlJson, body),
        [
            row(name("voltage"), "V", now, ["130.1", "null", "null", "null", "null"]),
            row(name("current"), "A", "1276020071001000", ["11.2", "null", "null", "null", "null"]),
            row(name("label"), "A", now, ["null", "on", "null", "null", "null"]),
            row(name("lamp"), "A", now, ["null", "null", "true", "null", "null"]),
            row(name("data"), "A", now, ["null", "null", "null", "\"\\u{1}\\u{2}\\u{3}\"", "null"]),
            row(name("flow"), "A", now, ["null", "null", "null", "null", "105"]),
            row("x".to_owned(), "A", now, ["10", "null", "null", "null", "100"]),
        ]
    );
}

#[test]
fn senml_cbor_uses_numeric_labels() {
    // [{-2: "d/", 0: "a", 2: 1.5, 6: 300000000}, {0: "b", 8: h'01', 4: null}] and one with text
    // labels
    let body = b"\x81\xa4\x21\x62d/\x00\x61a\x02\xf9\x3e\x00\x06\x1a\x11\xe1\xa3\x00";
    assert_eq!(
        decoded("n string, t timestamp, v double", Format::SenmlCbor, body),
        [["d/a", "300000000000000", "1.5", "null"]]
    );
    let body = b"\x81\xa2\x61n\x61b\x08\x41\x01";
    assert_eq!(decoded("n string, vd binary", Format::SenmlCbor, body), [["b", "\"\\u{1}\"", "null"]]);
}

#[test]
fn relative_senml_times_use_the_message_time() {
    let mut message =
        with_content_type("application/senml+json", Body::Data(vec![br#"[{"n":"a","v":1,"t":-2}]"#.to_vec()]));
    let wanted = options("t timestamp, _error", Some(Format::Auto));
    let got = rows(&batch_of(&wanted, &[encoded(&message)]));
    assert_eq!(got[0][0], "null");
    assert!(got[0][1].contains("relative"), "{}", got[0][1]);
    if let Some(properties) = &mut message.properties {
        properties.creation_time = Some(10_000);
    }
    assert_eq!(rows(&batch_of(&wanted, &[encoded(&message)])), [["8000000", "null"]]);
}

#[test]
fn invalid_senml_pack_or_record_is_reported_with_the_reason() {
    for (body, said) in [
        (r#"{"n":"a","v":1}"#, "a SenML pack"),
        (r#"[{"n":"a","v":"x"}]"#, "number holds something else"),
        (r#"[{"bver":11,"n":"a","v":1}]"#, "versions up to 10"),
        (r#"[{"n":"a","v":1,"must_":1}]"#, "must_ must be understood"),
        (r#"[{"n":"a","vd":"*"}]"#, "base64"),
        (r#"[{"bn":"a"}]"#, "no record"),
        (r#"[{"v":1}]"#, "no name"),
        (r#"[{"n":"a"}]"#, "neither value nor sum"),
        (r#"[{"n":"a","v":1,"vs":"x"}]"#, "more than one value"),
        (r#"[{"n":"a","v":1,"t":1e300}]"#, "out of the range"),
    ] {
        let got = decoded("n string, t timestamp", Format::SenmlJson, body.as_bytes());
        assert!(got[0][2].contains(said), "{body}: {}", got[0][2]);
    }
}

#[test]
fn csv_lines_are_decoded_into_rows() {
    let body = b"d1,1.5,2,\"a, \"\"b\"\"\"\r\n\r\nd2,,x,\n";
    let got = decoded("device string, value double, count int, note string", Format::Csv, body);
    assert_eq!(got[0], ["d1", "1.5", "2", "a, \"b\"", "null"]);
    assert_eq!(got[1][..4], ["d2", "null", "null", "null"]);
    assert!(got[1][4].contains("count: text is not of type int"), "{}", got[1][4]);
    assert_eq!(got.len(), 2);
}

#[test]
fn csv_header_maps_fields_to_columns() {
    let wanted = Options {
        csv_header: true,
        csv_delimiter: Some(';'),
        ..options("value double, device string, at timestamp, _error", Some(Format::Csv))
    };
    let got = decoded_by(&wanted, b"device; other;value;at\nd1;x;2;1.5\nd2;x;3\n");
    assert_eq!(got[0], ["2", "d1", "1500000", "null"]);
    assert_eq!(got[1], ["3", "d2", "null", "the line has 3 fields, and 4 are expected"]);
    assert!(decoded_by(&wanted, b"device;value\n")[0][3].contains("no record"));
    assert!(decoded_by(&wanted, "value\n\u{0}".as_bytes())[0][3].contains("value"));
}

#[test]
fn content_type_selects_the_decoder_and_the_body_must_match() {
    let wanted = options("a int, _error", Some(Format::Auto));
    for (message, expected) in [
        (with_content_type("application/json", Body::Data(vec![b"{\"a\"".to_vec(), b":1}".to_vec()])), ["1", "null"]),
        (with_content_type("application/json", Body::Value(text("{\"a\":2}"))), ["2", "null"]),
        (with_content_type("application/cbor", Body::Value(Value::Binary(b"\xa1\x61a\x03".to_vec()))), ["3", "null"]),
        (with_content_type("text/csv", Body::Data(vec![b"4".to_vec()])), ["4", "null"]),
    ] {
        assert_eq!(rows(&batch_of(&wanted, &[encoded(&message)])), [expected]);
    }
    for (message, said) in [
        (with_content_type("image/png", Body::Data(vec![vec![]])), "not a supported format"),
        (Message { body: Body::Data(vec![vec![]]), ..Message::default() }, "no content-type"),
        (with_content_type("application/json", Body::Value(Value::Int(1))), "neither string nor binary"),
        (with_content_type("application/json", Body::Sequence(vec![vec![]])), "amqp-sequence"),
        (with_content_type("application/json", Body::Empty), "no body"),
    ] {
        let got = rows(&batch_of(&wanted, &[encoded(&message)]));
        assert!(got[0][1].contains(said), "{}", got[0][1]);
    }
}

#[test]
fn body_beyond_the_bounds_is_one_row_with_the_reason() {
    let many = format!("[{}{{}}]", "{},".repeat(RECORDS_MAX));
    let got = decoded("a int", Format::Json, many.as_bytes());
    assert_eq!(got.len(), 1);
    assert!(got[0][1].contains("more than 65536 records"), "{}", got[0][1]);
    let records = ",{\"n\":\"a\",\"v\":1}".repeat(3000);
    for (name_size, fits) in [(20, true), (4000, false), (1 << 20, false)] {
        let pack = format!("[{{\"bn\":\"{}\"}}{records}]", "x".repeat(name_size));
        let got = decoded("n string", Format::SenmlJson, pack.as_bytes());
        assert_eq!(got.len(), if fits { 3000 } else { 1 }, "{name_size}");
        assert_eq!(got[0][1].contains("rows of the body take more than"), !fits, "{}", got[0][1]);
    }
}

#[test]
fn large_envelope_is_not_repeated_beyond_a_bound() {
    let wanted = options("application_properties, a int, _error", Some(Format::Json));
    for (records, property_size, fits) in [(10_000, 200, true), (10_000, 3900, false), (20, 64 << 10, true)] {
        let mut message = super::with_body(format!("[{}{{}}]", "{\"a\":1},".repeat(records - 1)).as_bytes());
        message.application_properties = vec![("k".to_owned(), text(&"v".repeat(property_size)))];
        let got = rows(&batch_of(&wanted, &[encoded(&message)]));
        assert_eq!(got.len(), if fits { records } else { 1 }, "{records} records, {property_size} bytes");
        assert_eq!(got[0][2].contains("bytes of envelope each"), !fits, "{}", got[0][2]);
    }
}
