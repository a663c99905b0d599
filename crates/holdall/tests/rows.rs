//! Records as rows: read into datasets, checked, and used to infer a schema.

use holdall::records::{
    Build, FillOptions, FindingLocation, RecordForm, Rows, RowsOptions, check_rows, dataset, infer,
};
use holdall::schema::{Document, InferOptions, Null, Reading, SchemaLimits, Unknown, Width};
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

fn rows(text: &str, form: RecordForm) -> Rows {
    let text = Cursor::new(text.to_owned().into_bytes());
    RowsOptions::new().with_form(form).read(text, "rows").unwrap()
}

fn document() -> Document {
    Document::new(kind(), "kind", Reading::ByContent, &SchemaLimits::default()).unwrap()
}

/// Returns the records made from rows, or the error.
fn filled(rows: Rows, options: &FillOptions) -> Result<Vec<Value>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.zt");
    let mut build = Build::create(&path, &WriteOptions::new())?;
    let mut set = build.dataset_with_schema("set", &kind())?;
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
        (NDJSON, RecordForm::Ndjson),
        ("[{\"id\": 1, \"name\": \"a\"},\n {\"id\": 2}]", RecordForm::Json),
        (NDJSON, RecordForm::Json),
        #[cfg(feature = "tables")]
        ("id,name\n1,a\n2,\n", RecordForm::Csv),
        #[cfg(feature = "tables")]
        ("id\tname\n1\ta\n2\t\n", RecordForm::Tsv),
    ];
    for (text, form) in forms {
        for options in [FillOptions::new(), FillOptions::new().with_checks()] {
            assert_eq!(filled(rows(text, form), &options).unwrap(), wanted, "{form:?}");
        }
    }
    let names = ["ndjson", "json", "csv", "tsv", "parquet", "arrow"];
    assert_eq!(RecordForm::ALL.map(RecordForm::as_str), names);
    assert_eq!(RecordForm::from_path(Path::new("a/b.tab")), RecordForm::Tsv);
    assert_eq!(RecordForm::from_path("b"), RecordForm::Ndjson);
}

#[test]
fn unknown_members_are_skipped_on_request() {
    let text = "{\"id\": 1, \"name\": null}\n{\"id\": 2, \"more\": 0}\n";
    let refused =
        |options: FillOptions| filled(rows(text, RecordForm::Ndjson), &options).unwrap_err();
    assert_eq!(refused(FillOptions::new()).code(), "record/type");
    let e = refused(FillOptions::new().with_null(Null::Absent));
    assert_eq!((e.code(), e.source_name()), ("record/unknown-member", Some("rows")));
    assert!(e.message().contains("line 2"), "{e}");
    let lenient = FillOptions::new().with_null(Null::Absent).with_unknown(Unknown::Ignore);
    let found = filled(rows(text, RecordForm::Ndjson), &lenient).unwrap();
    assert_eq!(found, [json!({"id": 1}), json!({"id": 2})]);
    // Standard keywords are checked, unless that is disabled.
    let negative = || rows("{\"id\": -1}", RecordForm::Ndjson);
    assert!(filled(negative(), &FillOptions::new()).is_err());
    let unchecked = FillOptions::new().without_checks();
    assert_eq!(filled(negative(), &unchecked).unwrap(), [json!({"id": -1})]);
    assert!(filled(negative(), &unchecked.with_checks()).is_err());
}

#[test]
fn members_may_be_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "content").unwrap();
    let named = |name: &str| {
        let text = json!({"id": 1, "name": name}).to_string();
        let options = FillOptions::new().with_files(folder.path(), ["name".to_owned()]);
        filled(rows(&text, RecordForm::Ndjson), &options)
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
        check_rows(rows(text, RecordForm::Ndjson), &document(), options, &limits).unwrap()
    };
    let report = check(&FillOptions::new());
    assert_eq!((report.records, report.found), (4, 2));
    assert!(!report.is_sound());
    let places: Vec<FindingLocation> = report.findings.iter().map(|f| f.location).collect();
    assert_eq!(places, [FindingLocation::Line(2), FindingLocation::Line(3)]);
    assert_eq!(report.findings[0].error.source_name(), Some("rows"));
}

#[test]
fn an_array_is_no_longer_than_allowed() {
    let text = Cursor::new(b"[1, 2, 3]".to_vec());
    let options = RowsOptions::new().with_form(RecordForm::Json).with_array_len(8);
    let e = options.read(text, "rows").unwrap_err();
    assert_eq!(e.code(), "records/array-len");
}

#[test]
fn a_schema_is_inferred_from_the_rows() {
    let inferred = |text: &str, form, options: &InferOptions, most| {
        infer(rows(text, form), most, options, &SchemaLimits::default())
    };
    let plain = InferOptions::new();
    let found = inferred(NDJSON, RecordForm::Ndjson, &plain, None).unwrap();
    assert_eq!(found["required"], json!(["id"]));
    assert_eq!(found["properties"]["id"]["TypeDef:Int64"], true);
    let tight = plain.clone().with_width(Width::Tight).with_enums(1);
    let found = inferred(NDJSON, RecordForm::Ndjson, &tight, None).unwrap();
    assert_eq!(found["properties"]["id"]["TypeDef:Uint8"], true);
    assert_eq!(found["properties"]["name"]["enum"], json!(["a"]));
    let mixed = "{\"id\": 1}\n{\"id\": \"x\"}\n";
    let e = inferred(mixed, RecordForm::Ndjson, &plain, None).unwrap_err();
    assert_eq!((e.code(), e.source_name()), ("infer/mixed", Some("rows")));
    assert!(inferred(mixed, RecordForm::Ndjson, &plain, Some(1)).is_ok());
    for (none, form) in
        [("", RecordForm::Ndjson), ("\n", RecordForm::Ndjson), ("[]", RecordForm::Json)]
    {
        let e = inferred(none, form, &plain, None).unwrap_err();
        assert_eq!((e.code(), e.source_name()), ("infer/no-records", Some("rows")), "{none:?}");
    }
}

#[cfg(feature = "tables")]
#[test]
fn a_table_has_a_first_line() {
    for none in ["", "\n\r\n"] {
        let found = RowsOptions::new().with_form(RecordForm::Csv).read(Cursor::new(none), "rows");
        let e = found.err().unwrap();
        assert_eq!((e.code(), e.source_name()), ("input/table", Some("rows")), "{none:?}");
    }
}

#[cfg(feature = "tables")]
#[test]
fn the_names_of_a_table_are_paths() {
    let found = infer(
        rows("id,at.x,at.y\n1,2,3.5\n", RecordForm::Csv),
        None,
        &InferOptions::new(),
        &SchemaLimits::default(),
    )
    .unwrap();
    assert_eq!(found["properties"]["at"]["TypeDef:Struct"], json!(["x", "y"]));
    let e = filled(rows("id,name\nseven,a\n", RecordForm::Csv), &FillOptions::new()).unwrap_err();
    assert_eq!(e.message(), "line 2: column `id`: `seven` is not a number");
    let e = filled(rows("id,id\n1,2\n", RecordForm::Csv), &FillOptions::new()).unwrap_err();
    assert_eq!(e.code(), "input/table");
}

/// A schema inferred from a table can build that table.
#[cfg(feature = "tables")]
#[test]
fn a_table_builds_under_the_schema_that_is_made_of_it() {
    let array = |kind: &str, len: Option<u64>| {
        let mut array = json!({"items": {format!("TypeDef:{kind}"): true}});
        if let Some(len) = len {
            array["minItems"] = len.into();
        }
        array
    };
    type Members<'m> = &'m [(&'m str, serde_json::Value)];
    let kind = |name: &str| json!({format!("TypeDef:{name}"): true});
    let cases: [(&str, Members<'_>, serde_json::Value); 13] = [
        // A column for each element, in any order, also in one row.
        ("v[1],v[0]\n2,1\n", &[("v", array("Int64", Some(2)))], json!({"v": [1, 2]})),
        ("t[0],t[1]\na,\n", &[("t", array("String", Some(2)))], json!({"t": ["a", ""]})),
        ("t[0],t[1]\na,1\n", &[("t", array("String", Some(2)))], json!({"t": ["a", "1"]})),
        ("v[0],id\n,1\n2.5,2\n", &[("v", array("Float64", Some(1)))], json!({"id": 1})),
        ("m[0][0],m[1][0]\n1,2\n", &[], json!({"m": [[1], [2]]})),
        ("p[0].x,p[1].x\n1,2\n", &[], json!({"p": [{"x": 1}, {"x": 2}]})),
        // JSON in cells.
        (
            "e\n\"[0.5,2]\"\n\"[1,0.25]\"\n",
            &[("e", array("Float64", Some(2)))],
            json!({"e": [0.5, 2.0]}),
        ),
        (
            "e\n\"[\"\"b\"\",\"\"a\"\"]\"\n[]\n",
            &[("e", array("String", None))],
            json!({"e": ["b", "a"]}),
        ),
        (
            "o\n\"{\"\"z\"\": 1, \"\"a\"\": 2}\"\n",
            &[("o", json!({"TypeDef:Struct": ["z", "a"]}))],
            json!({"o": {"z": 1, "a": 2}}),
        ),
        // Text that looks like JSON in some rows only is text.
        ("e\n[1]\nnone\n", &[("e", kind("String"))], json!({"e": "[1]"})),
        ("e\n\"[1,\"\"a\"\"]\"\n", &[("e", kind("String"))], json!({"e": "[1,\"a\"]"})),
        ("e\n[null]\n", &[("e", kind("String"))], json!({"e": "[null]"})),
        // A column without a value, and a name that is not a path.
        (
            "a[b],empty\n1,\n",
            &[("a[b]", kind("Int64")), ("empty", kind("String"))],
            json!({"a[b]": 1}),
        ),
    ];
    for (text, members, first) in cases {
        let limits = SchemaLimits::default();
        let schema =
            infer(rows(text, RecordForm::Csv), None, &InferOptions::new(), &limits).unwrap();
        for (name, wanted) in members {
            let found = &schema["properties"][name];
            for (keyword, value) in wanted.as_object().unwrap() {
                if keyword == "items" {
                    let inner = value.as_object().unwrap().keys().next().unwrap();
                    assert_eq!(found["items"][inner], value[inner], "{text}: {found}");
                } else {
                    assert_eq!(&found[keyword], value, "{text}: {found}");
                }
            }
            assert_eq!(found.get("minItems"), wanted.get("minItems"), "{text}: {found}");
        }
        assert_eq!(built(&schema, rows(text, RecordForm::Csv))[0], first, "{text}: {schema}");
    }
    for (text, message) in [
        (
            "v[0],v[2]\n1,2\n",
            "line 1: column `v[2]`: an earlier element of the array has no column",
        ),
        (
            "v[0],v[1]\n1,2\n1,\n",
            "line 3: column `v[1]` is empty, but other columns of the same array are not",
        ),
        ("v,v[0]\n1,2\n", "line 1: column `v[0]`: another column belongs to the same member"),
        (",a\n1,2\n", "line 1: column 1 has no name"),
    ] {
        let limits = SchemaLimits::default();
        let e =
            infer(rows(text, RecordForm::Csv), None, &InferOptions::new(), &limits).unwrap_err();
        assert_eq!((e.code(), e.message()), ("input/table", message));
    }
    // The index column that pandas writes is ignored on request.
    let text = ",id,name\n0,1,a\n1,2,\n";
    let e = filled(rows(text, RecordForm::Csv), &FillOptions::new()).unwrap_err();
    assert_eq!((e.code(), e.message()), ("input/table", "line 1: column 1 has no name"));
    assert!(e.hint().unwrap().contains("index=False"), "{e:?}");
    let lenient = FillOptions::new().with_unknown(Unknown::Ignore);
    let wanted = [json!({"id": 1, "name": "a"}), json!({"id": 2})];
    assert_eq!(filled(rows(text, RecordForm::Csv), &lenient).unwrap(), wanted);
}

#[cfg(feature = "tables")]
#[test]
fn the_first_line_determines_the_delimiter() {
    for (delimiter, text) in [
        (',', "id,name\n1,a;b|c\n"),
        (',', "id,a;b;c\n1,2\n"),
        (';', "id;name\n1;a,b|c\n"),
        (';', "\"id,no\";name\r\n1;x\n"),
        (';', "\n\nid;name\n1;x\n"),
        ('\t', "id\tname\n1\tx\n"),
        ('|', "id|name\n1|x\n"),
        (',', "id\n1;2\n"),
    ] {
        let rows = rows(text, RecordForm::Csv);
        assert_eq!(rows.delimiter(), Some(delimiter), "{text}");
        assert_eq!(rows.names().unwrap().len(), if text.starts_with("id\n") { 1 } else { 2 });
        let schema = infer(rows, None, &InferOptions::new(), &SchemaLimits::default()).unwrap();
        assert_eq!(built(&schema, self::rows(text, RecordForm::Csv)).len(), 1);
    }
    let long = format!("{};b\n1;2\n", "a".repeat(100_000));
    assert_eq!(rows(&long, RecordForm::Csv).delimiter(), Some(';'));
    assert_eq!(rows("a;b\n1;2\n", RecordForm::Tsv).delimiter(), Some('\t'));
    assert_eq!(rows(NDJSON, RecordForm::Ndjson).delimiter(), None);
}

/// Returns the records of a file built from these rows.
#[cfg(feature = "tables")]
fn built(schema: &serde_json::Value, rows: Rows) -> Vec<serde_json::Value> {
    use holdall::TensorRecords as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mt");
    let mut build = Build::create(&path, &WriteOptions::new()).unwrap();
    let mut set = build.dataset_with_schema("set", schema).unwrap();
    set.fill(rows, &FillOptions::new()).unwrap();
    build.add(set).unwrap();
    build.finish().unwrap();
    let records = holdall::open(&path).unwrap().tensor("set").unwrap().records().unwrap();
    let all = records.iter(0..records.len()).unwrap().map(|r| r.unwrap().to_value().unwrap());
    all.collect()
}

#[cfg(not(feature = "tables"))]
#[test]
fn tables_need_their_feature() {
    let options = RowsOptions::new().with_form(RecordForm::Csv);
    let e = options.read(Cursor::new(b"id\n1\n".to_vec()), "rows").unwrap_err();
    assert_eq!(e.code(), "records/no-tables");
}

#[test]
fn rows_are_checked_by_custom_formats_and_keywords() {
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
    let (_build, mut set) = build.dataset_from_document(&kind, None).unwrap();
    assert_eq!(set.fill(rows().unwrap(), &options.clone().without_checks()).unwrap(), 2);
    let e = set.fill(rows().unwrap(), &options).unwrap_err();
    assert_eq!(e.code(), "record/keyword");
    assert!(e.to_string().contains("line 2") && e.to_string().contains("`odd`"), "{e}");
}
