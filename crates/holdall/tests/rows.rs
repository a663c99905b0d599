//! Records as people have them: into datasets, checked, and made into a schema.

use holdall::records::{
    Build, FillOptions, Form, Rows, RowsOptions, Where, check_rows, dataset, infer,
};
use holdall::schema::record::{Null, Unknown};
use holdall::schema::{Document, InferOptions, Reading, SchemaLimits, Width};
use holdall::{Records, Result, TensorRecords as _, WriteOptions};
use serde_json::{Value, json};
use std::io::Cursor;
use std::path::Path;

fn kind() -> Value {
    let number = json!({"TypeDef:Int32": true, "minimum": 0});
    json!({
        "TypeDef:Struct": ["id", "name"],
        "required": ["id"],
        "properties": {"id": number, "name": {"TypeDef:String": true}},
    })
}

fn rows(text: &str, form: Form) -> Rows {
    let text = Cursor::new(text.to_owned().into_bytes());
    RowsOptions::new().with_form(form).read(text, "rows").unwrap()
}

fn document() -> Document {
    Document::new(kind(), "kind", Reading::ByContent, &SchemaLimits::default()).unwrap()
}

/// The records that rows become, or the error.
fn filled(rows: Rows, options: &FillOptions) -> Result<Vec<Value>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.zt");
    let mut build = Build::create(&path, &WriteOptions::new())?;
    let mut set = build.dataset_of("set", &kind())?;
    set.fill(rows, options)?;
    build.add(set)?;
    build.finish()?;
    let records: Records = dataset(&holdall::open(&path)?, None)?.records()?;
    records.iter(0..records.len())?.map(|r| r?.to_value()).collect()
}

const NDJSON: &str = "\u{feff}{\"id\": 1, \"name\": \"a\"}\n\n{\"id\": 2}\n";

#[test]
fn every_form_gives_the_same_records() {
    let wanted = [json!({"id": 1, "name": "a"}), json!({"id": 2})];
    let forms = [
        (NDJSON, Form::Ndjson),
        ("[{\"id\": 1, \"name\": \"a\"},\n {\"id\": 2}]", Form::Json),
        #[cfg(feature = "tables")]
        ("id,name\n1,a\n2,\n", Form::Csv),
        #[cfg(feature = "tables")]
        ("id\tname\n1\ta\n2\t\n", Form::Tsv),
    ];
    for (text, form) in forms {
        for options in [FillOptions::new(), FillOptions::new().with_checks()] {
            assert_eq!(filled(rows(text, form), &options).unwrap(), wanted, "{form:?}");
        }
    }
    assert_eq!(Form::ALL.map(Form::as_str), ["ndjson", "json", "csv", "tsv"]);
    assert_eq!(Form::of(Path::new("a/b.tab")), Form::Tsv);
    assert_eq!(Form::of("b"), Form::Ndjson);
}

#[test]
fn what_the_schema_does_not_say_is_taken_where_asked() {
    let text = "{\"id\": 1, \"name\": null}\n{\"id\": 2, \"more\": 0}\n";
    let refused = |options: FillOptions| filled(rows(text, Form::Ndjson), &options).unwrap_err();
    assert_eq!(refused(FillOptions::new()).code(), "record/type");
    let e = refused(FillOptions::new().with_null(Null::Absent));
    assert_eq!((e.code(), e.source_name()), ("record/unknown-member", Some("rows")));
    assert!(e.message().contains("line 2"), "{e}");
    let lenient = FillOptions::new().with_null(Null::Absent).with_unknown(Unknown::Ignore);
    let found = filled(rows(text, Form::Ndjson), &lenient).unwrap();
    assert_eq!(found, [json!({"id": 1}), json!({"id": 2})]);
    // Standard keywords are looked at where asked.
    let negative = || rows("{\"id\": -1}", Form::Ndjson);
    assert_eq!(filled(negative(), &FillOptions::new()).unwrap(), [json!({"id": -1})]);
    assert!(filled(negative(), &FillOptions::new().with_checks()).is_err());
}

#[test]
fn members_may_be_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "content").unwrap();
    let named = |name: &str| {
        let text = json!({"id": 1, "name": name}).to_string();
        let options = FillOptions::new().with_files(folder.path(), ["name".to_owned()]);
        filled(rows(&text, Form::Ndjson), &options)
    };
    assert_eq!(named("a.txt").unwrap(), [json!({"id": 1, "name": "content"})]);
    for bad in ["", "../a.txt", "/a.txt", "."] {
        assert_eq!(named(bad).unwrap_err().code(), "build/file-name", "{bad}");
    }
    let e = named("b.txt").unwrap_err();
    assert!(e.io().is_some() && e.message().contains("`name`"), "{e}");
}

#[test]
fn a_check_looks_at_every_row() {
    let text = "{\"id\": 1}\n{\"id\": \"x\"}\n{\"id\": -1}\n{\"id\": 4}\n";
    let limits = SchemaLimits::default();
    let check = |options: &FillOptions| {
        check_rows(rows(text, Form::Ndjson), &document(), options, &limits).unwrap()
    };
    let report = check(&FillOptions::new());
    assert_eq!((report.records, report.found), (4, 2));
    assert!(!report.is_sound());
    let places: Vec<Where> = report.findings.iter().map(|f| f.at).collect();
    assert_eq!(places, [Where::Line(2), Where::Line(3)]);
    assert_eq!(report.findings[0].error.source_name(), Some("rows"));
}

#[test]
fn an_array_is_no_longer_than_allowed() {
    let text = Cursor::new(b"[1, 2, 3]".to_vec());
    let options = RowsOptions::new().with_form(Form::Json).with_array_len(8);
    let e = options.read(text, "rows").unwrap_err();
    assert_eq!(e.code(), "records/array-len");
}

#[test]
fn a_schema_is_made_of_what_is_there() {
    let inferred = |text: &str, form, options: &InferOptions, most| {
        infer(rows(text, form), most, options, &SchemaLimits::default())
    };
    let plain = InferOptions::new();
    let found = inferred(NDJSON, Form::Ndjson, &plain, None).unwrap();
    assert_eq!(found["required"], json!(["id"]));
    assert_eq!(found["properties"]["id"]["TypeDef:Int64"], true);
    let tight = plain.with_width(Width::Tight).with_enums(1);
    let found = inferred(NDJSON, Form::Ndjson, &tight, None).unwrap();
    assert_eq!(found["properties"]["id"]["TypeDef:Uint8"], true);
    assert_eq!(found["properties"]["name"]["enum"], json!(["a"]));
    let mixed = "{\"id\": 1}\n{\"id\": \"x\"}\n";
    let e = inferred(mixed, Form::Ndjson, &plain, None).unwrap_err();
    assert_eq!((e.code(), e.source_name()), ("infer/mixed", Some("rows")));
    assert!(inferred(mixed, Form::Ndjson, &plain, Some(1)).is_ok());
}

#[cfg(feature = "tables")]
#[test]
fn the_names_of_a_table_are_paths() {
    let found = infer(
        rows("id,at.x,at.y\n1,2,3.5\n", Form::Csv),
        None,
        &InferOptions::new(),
        &SchemaLimits::default(),
    )
    .unwrap();
    assert_eq!(found["properties"]["at"]["TypeDef:Struct"], json!(["x", "y"]));
    let e = filled(rows("id,name\nseven,a\n", Form::Csv), &FillOptions::new()).unwrap_err();
    assert_eq!(e.message(), "line 2: column `id`: `seven` is not a number");
    let e = filled(rows("id,id\n1,2\n", Form::Csv), &FillOptions::new()).unwrap_err();
    assert_eq!(e.code(), "input/table");
}

#[cfg(not(feature = "tables"))]
#[test]
fn tables_need_their_feature() {
    let options = RowsOptions::new().with_form(Form::Csv);
    let e = options.read(Cursor::new(b"id\n1\n".to_vec()), "rows").unwrap_err();
    assert_eq!(e.code(), "records/no-tables");
}

#[test]
fn rows_are_checked_by_formats_and_keywords_of_ones_own() {
    use holdall::schema::{Document, Reading, SchemaLimits, Vocabulary};
    let limits = SchemaLimits::default();
    let kind = serde_json::json!({"TypeDef:Struct": ["n"], "required": ["n"], "properties":
        {"n": {"TypeDef:Int32": true, "odd": true}}});
    let own = Vocabulary::new().with_keyword("odd", |wanted, n| {
        Some(n.as_i64().is_some_and(|n| n % 2 != 0)) == wanted.as_bool()
    });
    let kind = Document::new(kind, "odd.json", Reading::Record, &limits).unwrap();
    let kind = kind.with_vocabulary(own).unwrap();
    let rows =
        || holdall::records::RowsOptions::new().read(&b"{\"n\": 1}\n{\"n\": 2}\n"[..], "rows");
    let options = holdall::records::FillOptions::new();
    let report = holdall::records::check_rows(rows().unwrap(), &kind, &options, &limits).unwrap();
    assert_eq!((report.records, report.found), (2, 1));
    let folder = tempfile::tempdir().unwrap();
    let write = holdall::WriteOptions::new();
    let build = holdall::records::Build::create(folder.path().join("n.zt"), &write).unwrap();
    let (_build, mut set) = build.dataset_for(&kind, None).unwrap();
    assert_eq!(set.fill(rows().unwrap(), &options).unwrap(), 2);
    let e = set.fill(rows().unwrap(), &options.with_checks()).unwrap_err();
    assert_eq!(e.code(), "record/keyword");
    assert!(e.to_string().contains("line 2") && e.to_string().contains("`odd`"), "{e}");
}
