//! `vectors/plans/schema.json` against the structs: a plan that it accepts is parsed, one that it
//! refuses is not.

use std::collections::BTreeSet;

use serde_json::Value;

use super::compile::{goldens, refused};
use super::read;

/// As much of JSON Schema as the schema of the plan uses; an unknown keyword fails the test.
struct Schema {
    root: Value,
    /// the members that were found in values, as `definition.member`
    seen: BTreeSet<String>,
}

impl Schema {
    fn read() -> Self {
        Self { root: read("plans/schema.json"), seen: BTreeSet::new() }
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
            other => panic!("teach this test the keyword {other}"),
        }
    }

    fn members(&mut self, known: &Value, schema: &Value, name: &str, members: &serde_json::Map<String, Value>) -> bool {
        assert_eq!(schema["additionalProperties"], Value::Bool(false), "{name} takes unknown members");
        let required = schema["required"].as_array().unwrap();
        let complete = required.iter().all(|member| members.contains_key(member.as_str().unwrap()));
        members.iter().fold(complete, |good, (member, value)| {
            self.seen.insert(format!("{name}.{member}"));
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

#[test]
fn every_golden_plan_fits_and_together_they_use_every_member() {
    let mut schema = Schema::read();
    for name in goldens() {
        assert!(schema.allows(&read(&format!("plans/{name}"))), "{name}");
    }
    for (kind, definition) in schema.root["$defs"].as_object().unwrap() {
        for member in definition["properties"].as_object().unwrap().keys() {
            assert!(schema.seen.contains(&format!("{kind}.{member}")), "no golden plan has {kind}.{member}");
        }
    }
}

#[test]
fn what_the_structs_do_not_parse_the_schema_refuses_too() {
    for case in refused("shape.json") {
        assert!(!Schema::read().allows(&case.plan()), "{}", case.why);
    }
}
