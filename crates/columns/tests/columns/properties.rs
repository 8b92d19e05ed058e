//! Any object, compared with a reader without columns.

use enmasse_columns::{Format, Options};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{batch_of, decoded, encoded, options, rows, with_body};

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no such number", |value| value.is_finite()).prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]{1,2}", inner, 0..4)
                .prop_map(|map| Value::from(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-e]", value(), 0..5)
        .prop_map(|map| Value::from(map.into_iter().collect::<Map<_, _>>()))
}

/// CBOR of the same.
fn cbor(value: &Value, out: &mut minicbor::Encoder<&mut Vec<u8>>) {
    match value {
        Value::Null => drop(out.null().unwrap()),
        Value::Bool(value) => drop(out.bool(*value).unwrap()),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => drop(out.u64(number).unwrap()),
            (_, Some(number)) => drop(out.i64(number).unwrap()),
            _ => drop(out.f64(number.as_f64().unwrap()).unwrap()),
        },
        Value::String(text) => drop(out.str(text).unwrap()),
        Value::Array(values) => {
            out.array(values.len() as u64).unwrap();
            values.iter().for_each(|value| cbor(value, out));
        }
        Value::Object(map) => {
            out.map(map.len() as u64).unwrap();
            for (key, value) in map {
                out.str(key).unwrap();
                cbor(value, out);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_member_is_in_the_column_of_its_name(objects in prop::collection::vec(object(), 1..5)) {
        let body = Value::from(objects.clone()).to_string();
        let got = decoded("a string, b bigint, c double, d boolean, `e` string", Format::Json, body.as_bytes());
        prop_assert_eq!(got.len(), objects.len());
        let mut encoder = Vec::new();
        cbor(&Value::from(objects.clone()), &mut minicbor::Encoder::new(&mut encoder));
        let of_cbor = decoded("a string, b bigint, c double, d boolean, `e` string", Format::Cbor, &encoder);
        prop_assert_eq!(&got, &of_cbor);
        for (row, object) in got.iter().zip(&objects) {
            let mut mismatches = 0;
            for (at, name) in ["a", "e"].iter().enumerate() {
                let shown = &row[at * 4];
                match &object[*name] {
                    Value::Null => prop_assert_eq!(shown, "null"),
                    Value::String(text) => prop_assert_eq!(shown, text),
                    other => prop_assert_eq!(&serde_json::from_str::<Value>(shown).unwrap(), other),
                }
            }
            let whole = |value: &Value| value.as_i64().or_else(|| {
                let value = value.as_f64()?;
                #[expect(clippy::cast_possible_truncation)]
                (!object["b"].is_u64() && value.fract() == 0.0 && value.abs() < 2_f64.powi(63)).then_some(value as i64)
            });
            for (at, expected) in [
                (1, whole(&object["b"]).map(|value| value.to_string())),
                (2, object["c"].as_f64().map(|value| value.to_string())),
                (3, object["d"].as_bool().map(|value| value.to_string())),
            ] {
                mismatches += usize::from(expected.is_none() && !object[["b", "c", "d"][at - 1]].is_null());
                prop_assert_eq!(&row[at], expected.as_deref().unwrap_or("null"));
            }
            prop_assert_eq!(row[5] == "null", mismatches == 0, "{:?}", row);
        }
    }

    #[test]
    fn rows_do_not_depend_on_batch_boundaries(
        bodies in prop::collection::vec(prop_oneof![object().prop_map(|object| object.to_string()), ".{0,9}"], 1..8),
        cut in 0_usize..8,
    ) {
        let wanted = options("body, a string, b int, _error, _index", Some(Format::Json));
        let messages: Vec<_> = bodies.iter().map(|body| encoded(&with_body(body.as_bytes()))).collect();
        let (left, right) = messages.split_at(cut.min(messages.len()));
        let whole = rows(&batch_of(&wanted, &messages));
        let parts = [rows(&batch_of(&wanted, left)), rows(&batch_of(&wanted, right))].concat();
        prop_assert_eq!(&whole, &parts);
        let bodies_seen: Vec<_> = whole.iter().filter(|row| row[4] == "0").map(|row| row[0].clone()).collect();
        let bodies_sent: Vec<_> = bodies.iter().map(|body| format!("{body:?}")).collect();
        prop_assert_eq!(bodies_seen, bodies_sent);
    }

    #[test]
    fn csv_lines_round_trip(
        lines in prop::collection::vec(("[^\r\n\u{0}]{1,9}", any::<i64>(), any::<bool>()), 1..6),
    ) {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let body: String = lines.iter().map(|(text, number, flag)| format!("{number},{},{flag}\n", quoted(text))).collect();
        let got = decoded("number bigint, words string, flag boolean", Format::Csv, body.as_bytes());
        let expected: Vec<_> = lines
            .iter()
            .map(|(text, number, flag)| vec![number.to_string(), text.clone(), flag.to_string(), "null".to_owned()])
            .collect();
        prop_assert_eq!(got, expected);
    }
}

#[test]
fn json_options_with_unknown_fields_or_values_are_refused() {
    let options: Options =
        serde_json::from_value(json!({"columns": "a int", "decode": "senml-json", "timeUnit": "ms"})).unwrap();
    assert_eq!(options.decode, Some(Format::SenmlJson));
    assert!(serde_json::from_value::<Options>(json!({"colums": "a int"})).is_err());
    assert!(serde_json::from_value::<Options>(json!({"decode": "xml"})).is_err());
}
