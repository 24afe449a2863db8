//! `openapi.json` against the types whose values are sent and received. Its paths are written by hand,
//! its schemas are generated: `WRITE=1 cargo test -p watermaster-controller --lib description`.

use std::collections::BTreeSet;

use control::{ApplicationFlows, FlowExplanation, FlowStatus, JobExplanation, JobStatus};
use protocol::agent::{Commands, Report};
use protocol::application::{Declaration, Health, Outcome, Refused};
use protocol::operator::{Order, Orders};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::OPENAPI;
use super::events::Events;
use super::queries::ControllerStatus;
use super::recordings::AllRecordings;

/// What a request of declarations holds.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the reader looks at the first octet instead")]
enum Declarations {
    /// One.
    One(Declaration),
    /// Several, taken in order.
    Several(Vec<Declaration>),
}

/// The schemas of everything that the paths name.
fn schemas() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    generator.subschema_for::<Declarations>();
    generator.subschema_for::<Outcome>();
    generator.subschema_for::<Refused>();
    generator.subschema_for::<Health>();
    generator.subschema_for::<Order>();
    generator.subschema_for::<Orders>();
    generator.subschema_for::<Events>();
    generator.subschema_for::<AllRecordings>();
    generator.subschema_for::<ControllerStatus>();
    generator.subschema_for::<FlowStatus>();
    generator.subschema_for::<JobStatus>();
    generator.subschema_for::<ApplicationFlows>();
    generator.subschema_for::<FlowExplanation>();
    generator.subschema_for::<JobExplanation>();
    generator.subschema_for::<Report>();
    generator.subschema_for::<Commands>();
    let mut schemas = Value::Object(generator.take_definitions(true));
    title(&mut schemas);
    enumerate(&mut schemas);
    schemas
}

/// Makes a choice among texts an enumeration: generated clients read each choice of a `oneOf` as a type
/// of its own, and fail at the first that doesn't fit.
fn enumerate(value: &mut Value) {
    let texts = value.get("oneOf").and_then(Value::as_array).and_then(|choices| {
        let text = |choice: &Value| choice.get("const").filter(|text| text.is_string()).cloned();
        choices.iter().map(text).collect::<Option<Vec<Value>>>()
    });
    if let (Some(texts), Value::Object(schema)) = (texts, &mut *value) {
        schema.remove("oneOf");
        schema.insert("type".to_owned(), "string".into());
        schema.insert("enum".to_owned(), texts.into());
    }
    match value {
        Value::Array(values) => values.iter_mut().for_each(enumerate),
        Value::Object(values) => values.values_mut().for_each(enumerate),
        _ => {}
    }
}

/// Gives each kind of a tagged message the name that generators of clients call it by.
fn title(value: &mut Value) {
    if let Some(kind) = value.pointer("/properties/type/const").and_then(Value::as_str) {
        let words = kind.split('_').map(|word| word[..1].to_uppercase() + &word[1..]);
        value["title"] = Value::String(words.collect());
    }
    match value {
        Value::Array(values) => values.iter_mut().for_each(title),
        Value::Object(values) => values.values_mut().for_each(title),
        _ => {}
    }
}

#[test]
fn the_schemas_are_those_of_the_types() {
    let mut description: Value = serde_json::from_str(OPENAPI).unwrap();
    let written = description["components"]["schemas"].take();
    let generated = schemas();
    if std::env::var_os("WRITE").is_some() {
        description["components"]["schemas"] = generated;
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
        std::fs::write(file, serde_json::to_string_pretty(&description).unwrap() + "\n").unwrap();
        return;
    }
    assert!(
        written == generated,
        "the types have changed: WRITE=1 cargo test -p watermaster-controller --lib description"
    );
}

/// A router tells nobody its routes: they are read where they are written.
#[test]
fn every_path_that_is_served_is_described() {
    let routes = include_str!("mod.rs").split(".route(").skip(1);
    let path = |rest: &'static str| rest.trim_start().strip_prefix('"')?.split('"').next();
    let served: BTreeSet<_> = routes.map(|rest| path(rest).expect("a path in quotes")).collect();
    let description: Value = serde_json::from_str(OPENAPI).unwrap();
    let described = description["paths"].as_object().unwrap().keys();
    let described: BTreeSet<_> = described.map(String::as_str).collect();
    assert_eq!(served, described);
}

#[test]
fn every_schema_is_used_and_every_reference_is_there() {
    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            Value::Object(values) => {
                found.extend(values.get("$ref").and_then(Value::as_str));
                values.values().for_each(|value| references(value, found));
            }
            _ => {}
        }
    }
    let description: Value = serde_json::from_str(OPENAPI).unwrap();
    let mut found = BTreeSet::new();
    references(&description, &mut found);
    for reference in &found {
        assert!(description.pointer(&reference[1..]).is_some(), "{reference} is nowhere");
    }
    for name in description["components"]["schemas"].as_object().unwrap().keys() {
        let reference = format!("#/components/schemas/{name}");
        assert!(found.contains(&*reference), "nothing refers to {name}");
    }
}
