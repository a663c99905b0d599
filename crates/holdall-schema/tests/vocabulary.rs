//! User-defined formats and keywords.
#![cfg(feature = "validate")]

use holdall_schema::{Checker, Document, Reading, SchemaLimits, Vocabulary};
use serde_json::{Value, json};

fn own() -> Vocabulary {
    Vocabulary::new()
        .with_format("even-length", |text| text.len().is_multiple_of(2))
        .with_keyword("money", |unit, value| {
            unit == "EUR" && value.as_i64().is_some_and(|cents| cents >= 0)
        })
}

fn document(schema: Value) -> Document {
    let limits = SchemaLimits::default();
    Document::new(schema, "s.json", Reading::ByContent, &limits).unwrap()
}

#[test]
fn custom_formats_and_keywords_are_applied() {
    let limits = SchemaLimits::default();
    let schema = json!({"TypeDef:Struct": ["price", "code", "mail"], "required": ["price"], "properties": {
        "price": {"type": "integer", "TypeDef:Int64": true, "money": "EUR"},
        "code": {"type": "string", "TypeDef:String": true, "format": "even-length"},
        "mail": {"type": "string", "TypeDef:String": true, "format": "email"}}});
    let document = document(schema).with_vocabulary(own()).unwrap();
    let Document { schema, json, vocabulary, .. } = &document;
    let checker = Checker::with_vocabulary(schema, json, vocabulary, &limits).unwrap();
    checker.one_record(json!({"price": 1, "code": "ab"})).unwrap();
    // Standard formats are still annotations.
    checker.one_record(json!({"price": 1, "mail": "none"})).unwrap();
    for (record, message) in [
        (json!({"price": -1}), "not `money`, at `/price`"),
        (json!({"price": 1, "code": "abc"}), "not of the format `even-length`, at `/code`"),
    ] {
        let e = checker.one_record(record).unwrap_err();
        assert_eq!(e.code(), "record/keyword");
        assert!(e.message().contains(message), "{e}");
    }
    // Without the vocabulary they have no effect.
    let plain = Checker::new(schema, json, &limits).unwrap();
    plain.one_record(json!({"price": -1, "code": "abc"})).unwrap();
    assert!(Vocabulary::new().is_empty() && !vocabulary.is_empty());
}

#[test]
fn parts_of_a_schema_keep_its_vocabulary() {
    let file = json!({"properties": {"set": {"TypeDef:Array": true, "items":
        {"TypeDef:Struct": ["price"], "properties": {"price": {"TypeDef:Int64": true, "money": "EUR"}}}}}});
    let file = document(file).with_vocabulary(own()).unwrap();
    let records = file.records(None, &SchemaLimits::default()).unwrap();
    assert!(!records.vocabulary.is_empty());
}

#[test]
fn keywords_that_mean_something_already_are_refused() {
    for name in
        ["TypeDef:Int64", "minimum", "properties", "align", "mapping", "$ref", "format", "not"]
    {
        let own = Vocabulary::new().with_keyword(name, |_, _| true);
        let e = document(json!({"TypeDef:Int8": true})).with_vocabulary(own).unwrap_err();
        assert_eq!(e.code(), "schema/own-keyword", "{name}");
        assert!(e.message().contains(name), "{e}");
    }
}

#[test]
fn custom_keywords_may_follow_a_kind_or_plain_json() {
    let money = json!({"TypeDef:Struct": ["price"], "required": ["price"], "properties": {
        "price": {"type": "integer", "TypeDef:Int64": true, "TypeDef:Money": "EUR"}}});
    let even = Vocabulary::new()
        .with_keyword("TypeDef:Money", |_, value| value.as_i64().is_some_and(|n| n % 2 == 0));
    let document = document(money).with_vocabulary(even).unwrap();
    let Document { schema, json, vocabulary, .. } = &document;
    let limits = SchemaLimits::default();
    let checker = Checker::with_vocabulary(schema, json, vocabulary, &limits).unwrap();
    checker.one_record(json!({"price": 4})).unwrap();
    assert_eq!(checker.one_record(json!({"price": 5})).unwrap_err().code(), "record/keyword");
    assert!(document.code("Sale", holdall_schema::code::Lang::Rust).unwrap().contains("i64"));
    let plain = json!({"type": "object", "properties": {
        "w": {"TypeDef:Tensor": {}}, "currency": {"type": "string", "TypeDef:Currency": true}}});
    holdall_schema::Schema::compile(&plain, &limits).unwrap();
    // A node that may be a reference, or has no bytes, needs a kind.
    for unknown in
        [json!({"TypeDef:Currency": true}), json!({"type": "object", "TypeDef:Currency": true})]
    {
        let schema = json!({"type": "object", "properties": {"w": unknown}});
        let e = holdall_schema::Schema::compile(&schema, &limits).unwrap_err();
        assert_eq!(e.code(), "schema/kind");
    }
}
