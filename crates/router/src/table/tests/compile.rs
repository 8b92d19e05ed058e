//! The vectors that both planes read, and invalid plans.

use enmasse_amqp::sasl::{Hash, Mechanism};
use serde::Deserialize;
use serde_json::Value;

use crate::core::AddressKind;
use crate::plan::{AddressType, OnFull, Plan};
use crate::table::Table;
use crate::table::tests::{SECRET, plan, read, space, table};

pub(super) fn golden(name: &str) -> Plan {
    serde_json::from_value(read(&format!("plans/{name}"))).unwrap()
}

/// The names of all golden plans.
pub(super) fn goldens() -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/plans");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let plans: Vec<_> = names.filter(|name| name.ends_with(".json") && name != "schema.json").collect();
    assert!(plans.len() >= 5, "{plans:?}");
    plans
}

/// One refused plan: a golden one with the value at a JSON pointer inserted or removed.
#[derive(Deserialize)]
pub(super) struct Refused {
    pub(super) why: String,
    path: Option<String>,
    plan: String,
    at: String,
    put: Option<Value>,
}

impl Refused {
    pub(super) fn plan(&self) -> Value {
        let mut plan = read(&format!("plans/{}", self.plan));
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

pub(super) fn refused(name: &str) -> Vec<Refused> {
    serde_json::from_value(read(&format!("plans/refused/{name}"))).unwrap()
}

#[test]
fn every_golden_plan_serializes_to_its_source() {
    for name in &goldens() {
        assert_eq!(serde_json::to_value(golden(name)).unwrap(), read(&format!("plans/{name}")), "{name}");
    }
}

#[test]
fn every_golden_plan_compiles() {
    for name in &goldens() {
        let plan = golden(name);
        let table = Table::compile(&plan, &Table::empty(SECRET)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(table.version(), plan.version);
        assert_eq!(table.spaces().count(), plan.spaces.len());
    }
}

#[test]
fn a_plan_of_a_wrong_shape_is_not_parsed() {
    for case in refused("shape.json") {
        assert!(serde_json::from_value::<Plan>(case.plan()).is_err(), "{}", case.why);
    }
}

#[test]
fn invalid_plan_is_refused_with_the_path_of_the_member() {
    for case in refused("sense.json") {
        let plan: Plan = serde_json::from_value(case.plan()).unwrap_or_else(|error| panic!("{}: {error}", case.why));
        let error = Table::compile(&plan, &Table::empty(SECRET)).expect_err(&case.why);
        assert_eq!(Some(error.path), case.path, "{}: {}", case.why, error.problem);
    }
}

#[test]
fn older_plan_is_refused_and_an_equal_version_accepted() {
    let now = table(&plan(5, [space("s", &[])]));
    assert_eq!(Table::compile(&plan(4, []), &now).unwrap_err().path, "version");
    assert!(Table::compile(&plan(5, []), &now).is_ok());
}

#[test]
fn omitted_members_have_their_defaults() {
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
fn table_carries_the_limits_of_the_plan() {
    let table = table(&golden("closed.json"));
    let space = table.spaces().next().unwrap();
    assert_eq!((space.limits().connections, space.limits().links), (Some(100), Some(1000)));
    let orders = space.resolve("orders").unwrap();
    assert_eq!((orders.link_capacity, orders.message_size), (500, Some(1_048_576)));
}

#[test]
fn new_connection_limit_counts_existing_connections() {
    let without = plan(1, [space("shop", &[])]);
    let before = table(&without);
    let places: Vec<_> = (0..3).map(|_| before.spaces().next().unwrap().enter().unwrap()).collect();
    let mut limited = plan(2, without.spaces.clone());
    limited.spaces[0].limits.connections = Some(3);
    let after = Table::compile(&limited, &before).unwrap();
    let shop = after.spaces().next().unwrap();
    assert!(shop.enter().is_err(), "three connections exist, and three is the limit");
    drop(places);
    assert!(shop.enter().is_ok());
}

#[test]
fn mechanisms_are_listed_strongest_first_with_anonymous_only_if_admitted() {
    let table = table(&golden("many-spaces.json"));
    let of = |name: &str| table.space(table.space_named(name).unwrap()).unwrap().mechanisms().to_vec();
    let (strong, medium) = (Mechanism::Scram(Hash::Sha512), Mechanism::Scram(Hash::Sha256));
    assert_eq!(of("shop.north"), [strong, medium, Mechanism::Plain]);
    assert_eq!(of("lab"), [Mechanism::Plain, Mechanism::Anonymous]);
    assert_eq!(of("mixed"), [Mechanism::External, medium, Mechanism::Anonymous]);
}

#[test]
fn debug_output_hides_verifier_keys() {
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
fn address_names_follow_the_same_rules_in_both_planes() {
    let names = read("names/addresses.json");
    let compiled = |name: &Value| {
        let plan = plan(1, [space("s", &[(name.as_str().unwrap(), AddressType::Anycast)])]);
        Table::compile(&plan, &Table::empty(SECRET))
    };
    for name in names["good"].as_array().unwrap() {
        assert!(compiled(name).is_ok(), "{name}");
    }
    for name in names["refused"].as_array().unwrap() {
        assert_eq!(compiled(name).unwrap_err().path, "spaces[0].addresses[0].name", "{name}");
    }
}

#[test]
fn topic_with_retention_is_a_stream_and_refuses_queue_settings() {
    let compile = |members: &str| {
        let json = format!(
            r#"{{"version": 1, "spaces": [{{"uid": "u", "names": ["a.b"],
            "authentication": {{"type": "none", "anonymous": true, "mechanisms": []}},
            "addresses": [{{"uid": "v", "name": "x", "type": "topic", {members}}}]}}]}}"#
        );
        Table::compile(&serde_json::from_str(&json).unwrap(), &Table::empty(SECRET))
    };
    let table =
        compile(r#""retention": {"bytes": 5, "ageMs": 7}, "partitions": 3, "limits": {"consumers": 4}"#).unwrap();
    let entry = table.spaces().next().unwrap().resolve("x/below").unwrap();
    let streaming = entry.storage.as_ref().unwrap().stream.as_ref().unwrap();
    assert_eq!((entry.kind, streaming.partitions), (AddressKind::Stream, 3));
    assert_eq!((streaming.settings.retention.bytes, streaming.settings.retention.age_ms), (Some(5), Some(7)));
    assert_eq!(streaming.settings.limits.consumers, 4);
    for (members, member) in [
        (r#""retention": {}"#, "retention"),
        (r#""retention": {"bytes": 5}, "partitions": 0"#, "partitions"),
        (r#""retention": {"bytes": 5}, "partitions": 2000"#, "partitions"),
        (r#""retention": {"bytes": 5}, "ttl": {"maximumMs": 5}"#, "ttl"),
        (r#""retention": {"bytes": 5}, "redelivery": {}"#, "redelivery"),
        (r#""retention": {"bytes": 5}, "deadletter": "d""#, "deadletter"),
        (r#""retention": {"bytes": 5}, "lastValueKey": "k""#, "lastValueKey"),
    ] {
        let path = compile(members).unwrap_err().path;
        assert_eq!(path, format!("spaces[0].addresses[0].{member}"));
    }
}

#[test]
fn producer_credit_is_bounded_by_the_message_limit_of_a_blocking_address() {
    for (kind, on_full, capacity) in [
        (AddressType::Queue, None, 3),
        (AddressType::Topic, Some(OnFull::Block), 3),
        (AddressType::Queue, Some(OnFull::Reject), 1000),
        (AddressType::Queue, Some(OnFull::DropOldest), 1000),
    ] {
        let mut space = space("shop", &[("orders", kind)]);
        space.addresses[0].limits.messages = Some(3);
        space.addresses[0].limits.on_full = on_full;
        let table = table(&plan(1, [space]));
        let entry = table.spaces().next().unwrap().addresses().next().unwrap();
        assert_eq!(entry.link_capacity, capacity, "{kind:?} {on_full:?}");
    }
}
