//! The vectors that both planes read, and what a plan may not say.

use std::path::{Path, PathBuf};

use enmasse_amqp::sasl::{Hash, Mechanism};
use serde::Deserialize;
use serde_json::Value;

use crate::plan::{AddressType, Plan};
use crate::table::Table;
use crate::table::tests::{SECRET, plan, space, table};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/plans")
}

#[expect(clippy::disallowed_methods, reason = "a test reads its vectors")]
fn read(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder().join(name)).unwrap()).unwrap()
}

pub(super) fn golden(name: &str) -> Plan {
    serde_json::from_value(read(name)).unwrap()
}

const GOLDEN: [&str; 5] = ["empty.json", "open.json", "closed.json", "many-spaces.json", "stored.json"];

/// One refused plan: a golden one with the value at a JSON pointer put in, or taken away.
#[derive(Deserialize)]
struct Refused {
    why: String,
    path: Option<String>,
    plan: String,
    at: String,
    put: Option<Value>,
}

impl Refused {
    fn plan(&self) -> Value {
        let mut plan = read(&self.plan);
        let (parent, member) = self.at.rsplit_once('/').unwrap();
        match plan.pointer_mut(parent).unwrap() {
            Value::Object(members) => match self.put.clone() {
                Some(value) => drop(members.insert(member.into(), value)),
                None => assert!(members.remove(member).is_some(), "{}: nothing at {}", self.why, self.at),
            },
            Value::Array(items) => {
                let (at, value) = (member.parse::<usize>().unwrap(), self.put.clone().unwrap());
                let _ = items.splice(at..(at + 1).min(items.len()), [value]);
            }
            other => panic!("{}: {other} has no members", self.why),
        }
        plan
    }
}

fn refused(name: &str) -> Vec<Refused> {
    serde_json::from_value(read(name)).unwrap()
}

#[test]
fn every_golden_plan_comes_out_as_it_went_in() {
    for name in GOLDEN {
        assert_eq!(serde_json::to_value(golden(name)).unwrap(), read(name), "{name}");
    }
}

#[test]
fn every_golden_plan_of_direct_addresses_compiles() {
    for name in GOLDEN.into_iter().filter(|name| *name != "stored.json") {
        let plan = golden(name);
        let table = Table::compile(&plan, &Table::empty(SECRET)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(table.version(), plan.version);
        assert_eq!(table.spaces().count(), plan.spaces.len());
    }
}

#[test]
fn stored_addresses_are_refused_by_a_node_without_them() {
    let error = Table::compile(&golden("stored.json"), &Table::empty(SECRET)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "plan: spaces[0].addresses[0].type: Queue is not served by this node; use anycast or multicast"
    );
}

#[test]
fn a_plan_of_a_wrong_shape_is_not_parsed() {
    for case in refused("refused/shape.json") {
        assert!(serde_json::from_value::<Plan>(case.plan()).is_err(), "{}", case.why);
    }
}

#[test]
fn a_plan_without_sense_is_refused_and_the_member_named() {
    for case in refused("refused/sense.json") {
        let plan: Plan = serde_json::from_value(case.plan()).unwrap_or_else(|error| panic!("{}: {error}", case.why));
        let error = Table::compile(&plan, &Table::empty(SECRET)).expect_err(&case.why);
        assert_eq!(Some(error.path), case.path, "{}: {}", case.why, error.problem);
    }
}

/// The members of each kind of object in the schema are those of the structs: what the golden plans and the defaults
/// write is known to the schema, and what the schema knows is taken by the structs (which refuse unknown members).
#[test]
fn the_schema_knows_the_same_members_as_the_structs() {
    let schema = read("schema.json");
    let mut seen = std::collections::BTreeSet::new();
    for name in GOLDEN {
        compare(&schema, &schema, &read(name), "plan", &mut seen);
    }
    for (kind, definition) in schema["$defs"].as_object().unwrap() {
        assert_eq!(definition["additionalProperties"], Value::Bool(false), "{kind}");
        for member in definition["properties"].as_object().unwrap().keys() {
            assert!(seen.contains(&format!("{kind}.{member}")), "no golden plan has {kind}.{member}");
        }
    }
}

fn compare(schema: &Value, kind: &Value, value: &Value, name: &str, seen: &mut std::collections::BTreeSet<String>) {
    let reference = |kind: &Value| kind.pointer("/$ref").or_else(|| kind.pointer("/anyOf/0/$ref")).cloned();
    if let Some(Value::String(target)) = reference(kind) {
        let name = target.rsplit('/').next().unwrap();
        return compare(schema, &schema["$defs"][name], value, name, seen);
    }
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                let kind =
                    kind["properties"].get(member).unwrap_or_else(|| panic!("the schema knows no {name}.{member}"));
                seen.insert(format!("{name}.{member}"));
                compare(schema, kind, value, member, seen);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| compare(schema, &kind["items"], item, name, seen)),
        _ => {}
    }
}

#[test]
fn an_older_plan_is_refused_and_the_same_version_taken() {
    let now = table(&plan(5, [space("s", &[])]));
    assert_eq!(Table::compile(&plan(4, []), &now).unwrap_err().path, "version");
    assert!(Table::compile(&plan(5, []), &now).is_ok());
}

#[test]
fn what_may_be_left_out_has_its_default() {
    let json = r#"{"version": 1, "spaces": [{"uid": "u", "names": ["a.b"],
        "authentication": {"type": "none", "anonymous": true, "mechanisms": []},
        "addresses": [{"uid": "v", "name": "x", "type": "anycast", "durability": null, "ttl": null}]}]}"#;
    let table = table(&serde_json::from_str(json).unwrap());
    let space = table.spaces().next().unwrap();
    assert_eq!(space.resolve("x").unwrap().link_capacity, 1000);
    assert_eq!(space.resolve("x").unwrap().message_size, None);
    assert_eq!((space.limits().connections, space.limits().links), (None, None));
    assert_eq!(space.mechanisms(), [Mechanism::Anonymous]);
}

#[test]
fn limits_are_carried() {
    let table = table(&golden("closed.json"));
    let space = table.spaces().next().unwrap();
    assert_eq!((space.limits().connections, space.limits().links), (Some(100), Some(1000)));
    let orders = space.resolve("orders").unwrap();
    assert_eq!((orders.link_capacity, orders.message_size), (500, Some(1_048_576)));
}

#[test]
fn mechanisms_are_offered_strongest_first_and_anonymous_only_where_it_is_let_in() {
    let table = table(&golden("many-spaces.json"));
    let of = |name: &str| table.space(table.space_named(name).unwrap()).unwrap().mechanisms().to_vec();
    let (strong, medium) = (Mechanism::Scram(Hash::Sha512), Mechanism::Scram(Hash::Sha256));
    assert_eq!(of("shop.north"), [strong, medium, Mechanism::Plain]);
    assert_eq!(of("lab"), [Mechanism::Plain, Mechanism::Anonymous]);
    assert_eq!(of("mixed"), [Mechanism::External, medium, Mechanism::Anonymous]);
}

#[test]
fn no_key_of_a_user_is_shown() {
    let plan = golden("closed.json");
    let shown = format!("{plan:?} {:?}", table(&plan));
    for user in &plan.spaces[0].users {
        for verifier in &user.verifiers {
            assert!(!shown.contains(&verifier.stored_key) && !shown.contains(&verifier.server_key));
        }
    }
    assert!(!shown.contains("secret"));
}

#[test]
fn every_type_of_the_schema_is_a_type_of_the_plan() {
    let types = read("schema.json")["$defs"]["address"]["properties"]["type"]["enum"].clone();
    let all = [
        AddressType::Anycast,
        AddressType::Multicast,
        AddressType::Queue,
        AddressType::Topic,
        AddressType::Subscription,
        AddressType::Deadletter,
    ];
    assert_eq!(types, serde_json::to_value(all).unwrap());
}
