//! `vectors/plans/schema.json` against the structs: a plan that it accepts is parsed, one that it
//! refuses is not.

use serde_json::Value;

use super::compile::{goldens, refused};
use super::read;
use crate::plan::Plan;

/// As much of JSON Schema as the schema of the plan uses; an unknown keyword fails the test.
struct Schema {
    root: Value,
}

impl Schema {
    fn read() -> Self {
        Self { root: read("plans/schema.json") }
    }

    fn allows(&mut self, plan: &Value) -> bool {
        let root = self.root.clone();
        self.matches(&root, "plan", plan)
    }

    fn matches(&mut self, schema: &Value, name: &str, value: &Value) -> bool {
        let keywords = schema.as_object().unwrap();
        let all = keywords.iter().filter(|(keyword, _)| *keyword != "required" && *keyword != "additionalProperties");
        all.fold(true, |good, (keyword, rule)| self.keyword(keyword, rule, schema, name, value) && good)
    }

    fn keyword(&mut self, keyword: &str, rule: &Value, schema: &Value, name: &str, value: &Value) -> bool {
        match keyword {
            "$schema" | "$defs" | "title" | "description" | "default" | "contentEncoding" => true,
            "$ref" => {
                let target = rule.as_str().unwrap().strip_prefix("#/$defs/").unwrap().to_owned();
                let definition = self.root["$defs"][&target].clone();
                self.matches(&definition, &target, value)
            }
            "anyOf" => rule.as_array().unwrap().iter().any(|option| self.matches(option, name, value)),
            "type" => rule.as_str().map_or_else(
                || rule.as_array().unwrap().iter().any(|kind| is_a(kind.as_str().unwrap(), value)),
                |kind| is_a(kind, value),
            ),
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
            "minLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 >= rule.as_u64().unwrap()),
            "maxLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 <= rule.as_u64().unwrap()),
            "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap()),
            "items" => value.as_array().is_none_or(|items| items.iter().all(|item| self.matches(rule, name, item))),
            "properties" => value.as_object().is_none_or(|members| self.members(rule, schema, name, members)),
            other => panic!("unsupported keyword {other}"),
        }
    }

    fn members(&mut self, known: &Value, schema: &Value, name: &str, members: &serde_json::Map<String, Value>) -> bool {
        assert_eq!(schema["additionalProperties"], Value::Bool(false), "{name} takes unknown members");
        let required = schema["required"].as_array().unwrap();
        let complete = required.iter().all(|member| members.contains_key(member.as_str().unwrap()));
        members.iter().fold(complete, |good, (member, value)| {
            known.get(member).is_some_and(|rule| self.matches(rule, member, value)) && good
        })
    }
}

fn is_a(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("teach this test the type {other}"),
    }
}

/// A value with every member that a schema has.
fn whole(root: &Value, part: &Value) -> Value {
    if let Some(target) = part["$ref"].as_str() {
        return whole(root, &root["$defs"][target.strip_prefix("#/$defs/").unwrap()]);
    }
    if let Some(options) = part["anyOf"].as_array() {
        return whole(root, &options[0]);
    }
    if let Some(options) = part["enum"].as_array() {
        return options[0].clone();
    }
    match part["type"].as_str().unwrap() {
        "object" => {
            let members = part["properties"].as_object().unwrap().iter();
            members.map(|(name, member)| (name.clone(), whole(root, member))).collect()
        }
        "array" => Value::Array(vec![whole(root, &part["items"])]),
        "string" => "x".into(),
        "boolean" => true.into(),
        "integer" => 1.into(),
        "number" => 1.5.into(),
        other => panic!("teach this test the type {other}"),
    }
}

#[test]
fn every_golden_plan_fits() {
    let mut schema = Schema::read();
    for name in goldens() {
        assert!(schema.allows(&read(&format!("plans/{name}"))), "{name}");
    }
}

/// The schema is made from the control plane's models: a field that they have and a struct lacks
/// is an unknown member here, one that a struct alone requires is a missing one.
#[test]
fn the_structs_have_every_member_of_the_schema() {
    let root = Schema::read().root;
    let every = whole(&root, &root);
    let parsed: Plan = serde_json::from_value(every.clone()).unwrap();
    assert_eq!(serde_json::to_value(parsed).unwrap(), every);
}

#[test]
fn schema_refuses_every_plan_that_the_structs_refuse() {
    for case in refused("shape.json") {
        assert!(!Schema::read().allows(&case.plan()), "{}", case.why);
    }
}
