//! `schema migrate`: the records of a file under another schema.

use crate::command::holdall;
use holdall::records::{Conversion, Migration};
use holdall::schema::{Document, Reading};
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use tempfile::TempDir;

fn example(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/photos").join(name);
    path.to_str().unwrap().to_owned()
}

/// Writes the photos as a file with the first version of their schema, in a folder.
fn photos(extension: &str) -> (TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (old, new) = (at(&format!("old.{extension}")), at(&format!("new.{extension}")));
    let (schema, lines) = (example("schema.json"), example("photos.ndjson"));
    let args = ["build", "--schema", &schema, "--records", &lines, "--path", "photos"];
    let files = example("files");
    let more = ["--files", &files, "--file-member", "image", "--blob", "all", "-o", &old];
    holdall([&args[..], &more].concat()).ends_with(0);
    (folder, old, new)
}

fn records(file: &str, more: &[&str]) -> Vec<Json> {
    let args = [&["records", file, "--json", "--path", "photos"], more].concat();
    let found = holdall(args).ends_with(0).out;
    found.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn members_are_added_renamed_and_widened() {
    let (_folder, old, new) = photos("zt");
    let schema = example("schema2.json");
    let args = ["schema", "migrate", &old, &schema, "-o", &new, "--rename", "text=caption"];
    for io in ["map", "read"] {
        let report = holdall([&args[..], &["--json", "-f", "--io", io]].concat());
        let report = report.ends_with(0).json();
        assert_eq!((&report["records"], &report["dropped"]), (&json!(4), &json!([])));
        assert_eq!(report["target_len"], std::fs::metadata(&new).unwrap().len());
        let mut expected = records(&old, &[]);
        for record in &mut expected {
            let record = record.as_object_mut().unwrap();
            let text = record.remove("caption").unwrap();
            record.insert("text".to_owned(), text);
            record.insert("stars".to_owned(), json!(3));
        }
        // As 64-bit floats, the values have more digits than as 32-bit floats.
        let found = records(&new, &[]);
        for (found, expected) in found.iter().zip(&mut expected) {
            if let Some(at) = expected.get_mut("at") {
                for part in ["lat", "lon"] {
                    let narrow = at[part].as_f64().unwrap() as f32;
                    at[part] = json!(f64::from(narrow));
                }
            }
            assert_eq!(found, &*expected);
        }
        assert_eq!(found.len(), 4);
        // The rest of the file is unchanged, and both files are sound.
        let blob = |file: &str| holdall(["records", file, "--json", "--path", "all"]).out;
        assert_eq!(blob(&new), blob(&old));
        holdall(["verify", &new]).ends_with(0);
    }
    let layout = holdall(["schema", "layout", &new, "--json", "--path", "photos[].id"]).json();
    assert_eq!(layout["paths"][0]["kind"], "Uint64");
}

#[test]
fn nothing_is_dropped_by_default() {
    let (_folder, old, new) = photos("zt");
    let narrow = r#"{"TypeDef:Struct": ["id"], "required": ["id"],
        "properties": {"id": {"TypeDef:Uint32": true}}}"#;
    let schema = format!("{old}.json");
    std::fs::write(&schema, narrow).unwrap();
    let args = ["schema", "migrate", &old, &schema, "-o", &new, "--json"];
    let error = holdall(args).error();
    assert_eq!(error["code"], "evolve/drops-member");
    assert!(error["hint"].as_str().unwrap().contains("--drop"), "{error}");
    assert!(!PathBuf::from(&new).exists());
    let report = holdall([&args[..], &["--drop"]].concat()).ends_with(0).json();
    let dropped = json!([
        "photos[].label",
        "photos[].at",
        "photos[].caption",
        "photos[].tags",
        "photos[].image"
    ]);
    assert_eq!(report["dropped"], dropped);
    assert_eq!(records(&new, &["--range", "..2"]), [json!({"id": 1}), json!({"id": 2})]);
}

#[test]
fn impossible_migrations_leave_no_file() {
    let (_folder, old, new) = photos("zt");
    let migrate = |schema: &str, more: &[&str]| {
        let args = ["schema", "migrate", &old, schema, "-o", &new, "--json"];
        holdall([&args[..], more].concat())
    };
    let second = example("schema2.json");
    assert_eq!(migrate(&second, &["--drop"]).error()["code"], "evolve/no-default");
    let error = migrate(&second, &["--rename", "text=captoin"]).ends_with(2).error();
    assert_eq!(error["code"], "schema/unknown-path");
    let text = std::fs::read_to_string(example("schema.json")).unwrap();
    let other = format!("{old}.json");
    std::fs::write(
        &other,
        text.replace(
            "\"type\": \"integer\", \"minimum\": 0, \"TypeDef:Uint32\"",
            "\"TypeDef:Uint8\"",
        ),
    )
    .unwrap();
    assert_eq!(migrate(&other, &[]).error()["code"], "evolve/no-converter");
    let error = migrate(&second, &["--path", "all", "--rename", "text=caption"]).error();
    assert_eq!(error["code"], "file/wrong-layout");
    assert!(!PathBuf::from(&new).exists());
}

/// Writes a model of two top-level tensors and one nested tensor, as a file with a schema and as one without.
fn model(extension: &str) -> (TempDir, String, String, impl Fn(&str, Json) -> String) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (old, new) = (at(&format!("old.{extension}")), at(&format!("new.{extension}")));
    let tiny = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/tiny.zt");
    let tiny = tiny.to_str().unwrap();
    let some = ["-s", "embed.weight", "-s", "layers.0.norm.weight", "-s", "layers.1.norm.weight"];
    holdall([&["convert", tiny, &old][..], &some].concat()).ends_with(0);
    let place = folder.path().to_owned();
    let write = move |name: &str, schema: Json| {
        let path = place.join(name);
        std::fs::write(&path, schema.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    (folder, old, new, write)
}

fn names(file: &str) -> Vec<String> {
    let found = holdall(["inspect", file, "--json"]).ends_with(0).json();
    let mut names: Vec<String> = found["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

fn f32_of(len: u64) -> Json {
    json!({"TypeDef:Tensor": {"dtype": "F32", "shape": [len]}})
}

#[test]
fn tensors_of_models_are_dropped_and_renamed() {
    for extension in ["mt", "zt"] {
        let (_folder, old, new, write) = model(extension);
        let schema = write(
            "s.json",
            json!({"properties": {
                "norms": {"properties": {"first": f32_of(16), "second": f32_of(16)}, "required": ["first"]},
            }}),
        );
        let args = ["schema", "migrate", &old, &schema, "-o", &new, "--json"];
        // A tensor would be omitted.
        let error = holdall(args).ends_with(2).error();
        assert_eq!(error["code"], "evolve/drops-member", "{error}");
        assert!(!PathBuf::from(&new).exists());
        let first = ["--rename", "norms.first=layers.0.norm.weight"];
        let error = holdall([&args[..], &first].concat()).ends_with(2).error();
        assert_eq!(error["code"], "evolve/drops-member", "{error}");
        let found = holdall([&args[..], &first, &["--drop"]].concat()).ends_with(0).json();
        assert_eq!(found["dropped"], json!(["embed.weight", "layers.1.norm.weight"]));
        assert_eq!((&found["tensors"], &found["records"]), (&json!(1), &json!(0)));
        assert_eq!(names(&new), ["norms.first"]);
        let bytes = |file: &str, name: &str| {
            holdall(["extract", file, name, "-o", "-", "--format", "raw"]).ends_with(0).raw
        };
        assert_eq!(bytes(&new, "norms.first"), bytes(&old, "layers.0.norm.weight"));
        // Both options are given, and every required member exists.
        let all = write(
            "all.json",
            json!({"properties": {
            "embed": {"properties": {"weight": {"TypeDef:Tensor": {}}}},
            "a": f32_of(16), "b": f32_of(16),
        }, "required": ["a", "b"]}),
        );
        let args = ["schema", "migrate", &old, &all, "-o", &new, "-f", "--json"];
        let a = ["--rename", "a=layers.0.norm.weight"];
        let b = ["--rename", "b=layers.1.norm.weight"];
        holdall([&args[..], &a, &b].concat()).ends_with(0);
        assert_eq!(names(&new), ["a", "b", "embed.weight"]);
        holdall(["verify", &new]).ends_with(0);
        let error = holdall([&args[..], &a, &["--drop"]].concat()).error();
        assert_eq!(error["code"], "evolve/no-default", "{error}");
        // Renaming a name that does not exist, and giving two tensors the same name.
        let nothing = ["--rename", "b=layers.9.norm.weight"];
        let error = holdall([&args[..], &a, &nothing, &["--drop"]].concat()).ends_with(2).error();
        assert_eq!(error["code"], "schema/unknown-path", "{error}");
        let twice = ["--rename", "b=layers.0.norm.weight"];
        let error = holdall([&args[..], &a, &twice].concat()).ends_with(2).error();
        assert_eq!(error["code"], "write/same-name", "{error}");
        assert_eq!(names(&new), ["a", "b", "embed.weight"]);
    }
}

#[test]
fn a_rename_of_nothing_is_refused_where_there_are_records_too() {
    let (_folder, old, new) = photos("mt");
    let schema = example("schema2.json");
    let args = ["schema", "migrate", &old, &schema, "-o", &new, "--json"];
    let caption = ["--rename", "text=caption"];
    for nothing in ["other[].x=photos[].id", "photos[].nope=photos[].id", "nope=id"] {
        let error = holdall([&args[..], &caption, &["--rename", nothing]].concat());
        assert_eq!(error.ends_with(2).error()["code"], "schema/unknown-path", "{nothing}");
    }
    // Datasets and blobs are renamed and dropped like tensors.
    let kind: Json = serde_json::from_str(&std::fs::read_to_string(&schema).unwrap()).unwrap();
    let whole = json!({"properties": {"pictures": {"TypeDef:Array": true, "items": kind}}});
    let whole_path = format!("{new}.json");
    std::fs::write(&whole_path, whole.to_string()).unwrap();
    let args = ["schema", "migrate", &old, &whole_path, "-o", &new, "--json", "--drop"];
    let renames = ["--rename", "pictures=photos", "--rename", "pictures[].text=photos[].caption"];
    let found = holdall([&args[..], &renames].concat()).ends_with(0).json();
    assert_eq!((&found["records"], &found["dropped"]), (&json!(4), &json!(["all", "all_names"])));
    assert_eq!(names(&new), ["pictures"]);
}

/// The options of the migration of the photos to the third version of their schema, as pairs of name and value.
const PHOTOS: [(&str, &str); 7] = [
    ("--rename", "kind=label"),
    ("--rename", "text=caption"),
    ("--convert", "kind=map(cat=0, dog=1, *=2)"),
    ("--convert", "at.lat=cast"),
    ("--convert", "at.lon=cast"),
    ("--convert", "tags=join(\", \")"),
    ("--drop", ""),
];
/// The options for the tiny model with the second version of its schema.
const MODEL: [(&str, &str); 4] = [
    ("--rename", "norm.weight=layers.0.norm.weight"),
    ("--convert", "norm.weight=scale(2)|cast"),
    ("--convert", "position_ids=cast|reshape"),
    ("--drop", ""),
];

fn words<'w>(arguments: &[(&'w str, &'w str)]) -> Vec<&'w str> {
    arguments
        .iter()
        .flat_map(|(name, value)| [*name, *value])
        .filter(|word| !word.is_empty())
        .collect()
}

/// Returns the same migration for the library.
fn migration(schema: &str, arguments: &[(&str, &str)]) -> Migration {
    let limits = holdall::schema::SchemaLimits::default();
    let text = std::fs::read(schema).unwrap();
    let schema = Document::parse(&text, schema, Reading::ByContent, &limits).unwrap();
    arguments.iter().fold(Migration::new(schema), |migration, (name, value)| {
        let (path, what) = value.split_once('=').unwrap_or_default();
        match *name {
            "--rename" => migration.with_rename(path, what),
            "--convert" => migration.with_converter(path, what.parse::<Conversion>().unwrap()),
            _ => migration.with_drop(),
        }
    })
}

#[test]
fn the_command_and_the_library_migrate_alike() {
    let (folder, photos, new) = photos("mt");
    let tiny = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/tiny.zt");
    let tiny2 = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/tiny2.json");
    let (tiny, tiny2) = (tiny.to_str().unwrap(), tiny2.to_str().unwrap());
    let third = example("schema3.json");
    let own = folder.path().join("own.mt");
    for (old, schema, arguments) in [(&*photos, &*third, &PHOTOS[..]), (tiny, tiny2, &MODEL)] {
        let args =
            [&["schema", "migrate", old, schema, "-o", &new, "-f"][..], &words(arguments)].concat();
        holdall(args).ends_with(0);
        holdall(["verify", &new]).ends_with(0);
        let file = holdall::open(old).unwrap();
        let options = holdall::WriteOptions::new().with_overwrite(true);
        migration(schema, arguments).run(&file, &own, &options).unwrap();
        assert_eq!(std::fs::read(&new).unwrap(), std::fs::read(&own).unwrap());
        // A schema that the file already conforms to needs no options.
        if old == tiny {
            holdall(["schema", "check", schema, &new]).ends_with(0);
        }
    }
    let file = holdall::open(&new).unwrap();
    let dense = |name: &str| file.tensor(name).unwrap().dense().unwrap();
    assert_eq!(dense("temperature").to_f32().unwrap(), [0.75]);
    assert_eq!(
        (dense("position_ids").shape(), dense("norm.weight").shape()),
        (&[256][..], &[16][..])
    );
}

#[test]
fn records_are_read_under_a_new_schema() {
    for extension in ["mt", "zt"] {
        let (_folder, old, new) = photos(extension);
        let schema = example("schema3.json");
        let arguments: Vec<&str> = words(&PHOTOS[..6]);
        let args =
            [&["schema", "migrate", &old, &schema, "-o", &new, "--drop"][..], &arguments].concat();
        holdall(args).ends_with(0);
        let under = [&["--schema", &*schema][..], &arguments].concat();
        for io in ["map", "read"] {
            let under = [&["--io", io][..], &under].concat();
            assert_eq!(records(&old, &under), records(&new, &[]));
        }
        let some = [&under[..], &["--where", "kind=0", "--columns", "id,tags"]].concat();
        assert_eq!(
            records(&old, &some),
            [json!({"id": 1, "tags": "roof, night"}), json!({"id": 3, "tags": "sofa"})]
        );
        let error = holdall(["records", &old, "--convert", "id=cast"]).ends_with(2).err;
        assert!(error.contains("--schema"), "{error}");
    }
}

#[test]
fn a_dry_run_shows_the_plan() {
    let (_folder, old, new) = photos("mt");
    let schema = example("schema3.json");
    let args = ["schema", "migrate", &old, &schema, "--dry-run", "-o", &new];
    let arguments = words(&PHOTOS);
    let found = holdall([&args[..], &["--json"], &arguments].concat()).ends_with(0).json();
    assert!(!PathBuf::from(&new).exists());
    assert_eq!(
        (&found["records"], &found["tensors"], &found["unchanged"]),
        (&json!(4), &json!(3), &json!(2))
    );
    let steps = found["steps"].as_array().unwrap();
    let step = |to: &str, what: &str| {
        let is = |s: &&Json| s["to"] == format!("photos[].{to}") && s["step"] == what;
        steps.iter().find(is).unwrap_or_else(|| panic!("{to} {what}: {found}"))
    };
    assert_eq!(step("text", "renamed")["from"], "photos[].caption");
    assert_eq!(step("id", "widened")["new"], "Uint64");
    assert_eq!(step("stars", "default")["from"], Json::Null);
    let cast = step("at.lat", "converted");
    assert_eq!((&cast["by"], &cast["rounds"]), (&json!("cast"), &json!(true)));
    assert_eq!(steps.iter().filter(|s| s["step"] == "dropped").count(), 1);
    let text = holdall([&args[..], &arguments].concat()).ends_with(0).out;
    assert!(text.contains("rounded to nearest, ties to even"), "{text}");
    assert!(text.ends_with("nothing was written\n"), "{text}");
    // Problems are reported as in a migration.
    let error = holdall([&args[..], &["--json"]].concat()).error();
    assert_eq!(error["code"], "evolve/no-default");
    // Without `--dry-run`, a file to write is required.
    holdall(["schema", "migrate", &old, &schema]).ends_with(2);
}

#[test]
fn unknown_converters_are_refused() {
    let (_folder, old, new) = photos("mt");
    let schema = example("schema3.json");
    let code = |by: &str| {
        let args = ["schema", "migrate", &old, &schema, "-o", &new, "--json", "--drop"];
        let arguments = words(&PHOTOS[..2]);
        let more = ["--convert", &format!("kind={by}")];
        holdall([&args[..], &arguments, &more].concat()).error()["code"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    for wrong in [
        "nope", "map", "map(cat)", "scale()", "scale(x)", "cast(up)", "round(1)", "map(a=1",
        "const",
    ] {
        assert_eq!(code(wrong), "evolve/converter", "{wrong}");
    }
    assert_eq!(code("map(cat=0, dog=1, other=2)"), "evolve/no-converter");
    let all = PHOTOS[..6]
        .iter()
        .map(|t| if t.1.starts_with("kind=m") { ("--convert", "kind=map(cat=0)") } else { *t });
    let arguments: Vec<(&str, &str)> = all.collect();
    let args = ["schema", "migrate", &old, &schema, "-o", &new, "--json", "--drop"];
    let error = holdall([&args[..], &words(&arguments)].concat()).error();
    assert_eq!(error["code"], "evolve/value");
    assert!(error["message"].as_str().unwrap().contains("record 1"), "{error}");
    assert!(!PathBuf::from(&new).exists());
}
