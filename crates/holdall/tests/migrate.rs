//! Models and datasets under another schema: rewritten, read through a view, and planned.

use holdall::convert::{Convert, convert};
use holdall::records::{Build, Conversion, Migration, MigrationPlan, check_file};
use holdall::schema::{Document, Reading, SchemaLimits, StepKind};
use holdall::{DType, File, OpenOptions, Role, TensorRecords as _, TensorSpec, Work, WriteOptions};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

fn document(json: &Value, reading: Reading) -> Document {
    Document::new(json.clone(), "schema", reading, &SchemaLimits::default()).unwrap()
}

fn tensor(dtype: &str, shape: &[u64]) -> Value {
    json!({"TypeDef:Tensor": {"dtype": dtype, "shape": shape}})
}

fn replacing() -> WriteOptions {
    WriteOptions::new().with_overwrite(true)
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Returns a model of four tensors, two of them in an object.
fn model(extension: &str) -> (TempDir, File) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("old.{extension}"));
    let mut build = Build::create(&path, &replacing()).unwrap();
    let mut add = |name: &str, shape: &[u64], values: &[f32]| {
        let spec = TensorSpec::dense(name, DType::F32, shape);
        build.tensor(spec, &[&bytes(values)]).unwrap();
    };
    add("w1", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    add("enc.w", &[4], &[257.0 / 256.0, 259.0 / 256.0, -0.1, f32::INFINITY]);
    add("enc.b", &[2], &[0.25, 0.5]);
    add("old", &[1], &[9.0]);
    build.finish().unwrap();
    (folder, OpenOptions::new().open(path).unwrap())
}

/// Returns the new schema: renamed, reshaped, rounded, scaled, with a default, and without one tensor.
fn new_model() -> Document {
    let object = |properties: Value, required: &[&str]| json!({"properties": properties, "required": required, "additionalProperties": false});
    let mut scale = tensor("F32", &[3]);
    scale["default"] = json!(0.5);
    let mut bias = tensor("I64", &[2]);
    bias["default"] = json!({"data": [1, -2]});
    let enc = object(json!({"w": tensor("BF16", &[4]), "b": tensor("F64", &[2])}), &["w", "b"]);
    let head = object(json!({"scale": scale, "bias": bias}), &["scale"]);
    let all = json!({"up": tensor("F32", &[6]), "enc": enc, "head": head});
    document(&object(all, &["up", "enc", "head"]), Reading::File)
}

fn migration() -> Migration {
    let named = |text: &str| text.parse::<Conversion>().unwrap();
    Migration::new(new_model())
        .with_rename("up", "w1")
        .with_converter("up", named("scale(2)|reshape"))
        .with_converter("enc.w", named("cast"))
        .with_drop()
}

fn data(file: &File, name: &str) -> Vec<u8> {
    file.tensor(name).unwrap().bytes(&Role::Data).unwrap().to_vec()
}

fn check_model(file: &File) {
    let mut names: Vec<&str> = file.names().collect();
    names.sort_unstable();
    assert_eq!(names, ["enc.b", "enc.w", "head.bias", "head.scale", "up"]);
    assert_eq!(file.tensor("up").unwrap().shape(), [6]);
    assert_eq!(data(file, "up"), bytes(&[2.0, 4.0, 6.0, 8.0, 10.0, 12.0]));
    // Ties go to even: 1 and 1.015625.
    let rounded: Vec<u8> = [0x3f80u16, 0x3f82, 0xbdcd, 0x7f80].map(u16::to_le_bytes).concat();
    assert_eq!(data(file, "enc.w"), rounded);
    assert_eq!(data(file, "enc.b"), [0.25f64, 0.5].map(f64::to_le_bytes).concat());
    assert_eq!(data(file, "head.scale"), bytes(&[0.5; 3]));
    assert_eq!(data(file, "head.bias"), [1i64, -2].map(i64::to_le_bytes).concat());
}

#[test]
fn models_get_defaults_are_cast_widened_reshaped_renamed_and_dropped() {
    for extension in ["mt", "zt", "safetensors"] {
        let (folder, old) = model(extension);
        for to in ["mt", "zt"] {
            let path = folder.path().join(format!("new.{to}"));
            let report = migration().run(&old, &path, &replacing()).unwrap();
            assert_eq!((report.tensors, &*report.dropped), (5, &["old".to_owned()][..]));
            let new = OpenOptions::new().open(&path).unwrap();
            check_model(&new);
            let limits = SchemaLimits::default();
            let checked = check_file(&new, &new_model(), None, &limits, &Work::new()).unwrap();
            assert!(checked.is_sound(), "{:?}", checked.findings);
        }
        let view = migration().view(&old).unwrap();
        check_model(&view);
        let packed = folder.path().join("packed.zt");
        let options = Convert::new(replacing().with_zstd(3)).reencode();
        convert(&old, &packed, &options).unwrap();
        check_model(&migration().view(&OpenOptions::new().open(&packed).unwrap()).unwrap());
        assert_eq!(
            view.tensor("up").unwrap().rows(2..5).unwrap().to_f32().unwrap()[..],
            [6.0, 8.0, 10.0]
        );
        let loaded = view.load_all().unwrap();
        drop(loaded);
    }
}

#[test]
fn tied_tensors_stay_tied() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tiny.zt");
    let weight = json!({"properties": {"weight": tensor("F32", &[64, 16])}});
    let schema = json!({"properties": {"embed": weight, "lm_head": weight}});
    let old = OpenOptions::new().open(tiny).unwrap();
    let migration = Migration::new(document(&schema, Reading::File)).with_drop();
    for to in ["mt", "zt"] {
        let path = folder.path().join(format!("new.{to}"));
        let report = migration.run(&old, &path, &replacing()).unwrap();
        assert!(report.target_len < 64 * 16 * 4 * 2, "{}", report.target_len);
        let new = OpenOptions::new().open(&path).unwrap();
        assert_eq!(data(&new, "embed.weight"), data(&new, "lm_head.weight"));
        let wanted = old.tensor("embed.weight").unwrap().dense().unwrap().to_f32().unwrap();
        assert_eq!(
            new.tensor("lm_head.weight").unwrap().dense().unwrap().to_f32().unwrap(),
            wanted
        );
    }
}

fn describe(plan: &MigrationPlan) -> Vec<String> {
    plan.steps.iter().map(ToString::to_string).collect()
}

#[test]
fn a_plan_matches_the_migration() {
    let (_folder, old) = model("mt");
    let plan = migration().plan(&old).unwrap();
    assert_eq!(
        describe(&plan),
        [
            "renamed w1, now up",
            "converted w1, now up: F32 [2, 3], now F32 [6] by scale(2)|reshape",
            "converted enc.w: F32 [4], now BF16 [4] by cast, rounded to nearest, ties to even",
            "widened enc.b: F32 [2], now F64 [2]",
            "default head.bias: I64 [2]",
            "default head.scale: F32 [3]",
            "dropped old: F32 [1]",
        ]
    );
    assert_eq!((plan.tensors, plan.unchanged, plan.records), (5, 0, 0));
}

#[test]
fn tensors_that_do_not_follow_are_refused() {
    let (folder, old) = model("mt");
    let path = folder.path().join("new.mt");
    let code = |name: &str, to: Value, by: Option<&str>| {
        let schema = name.rsplit('.').fold(to, |below, name| json!({"properties": {name: below}}));
        let mut migration = Migration::new(document(&schema, Reading::File)).with_drop();
        if let Some(by) = by {
            migration = migration.with_converter(name, by.parse::<Conversion>().unwrap());
        }
        let outcome = migration.run(&old, &path, &replacing());
        outcome.map(drop).map_err(|e| (e.code(), e.to_string()))
    };
    let e = |name, to, by| code(name, to, by).unwrap_err().0;
    assert_eq!(e("enc.w", tensor("BF16", &[4]), None), "evolve/no-converter");
    assert_eq!(e("w1", tensor("F32", &[6]), None), "evolve/no-converter");
    assert_eq!(e("w1", tensor("F32", &[6]), Some("scale(2)")), "evolve/no-converter");
    assert_eq!(e("w1", tensor("F32", &[7]), Some("reshape")), "evolve/no-converter");
    assert_eq!(e("w1", tensor("F32", &[2, 3]), Some("split(x)")), "evolve/no-converter");
    let (code_of, text) = code("enc.b", tensor("I32", &[2]), Some("offset(0.25)")).unwrap_err();
    assert_eq!(code_of, "evolve/value");
    assert!(text.contains("element 0") && text.contains("0.5"), "{text}");
    assert_eq!(e("enc.w", tensor("F8_E4M3", &[4]), Some("cast")), "evolve/value");
    code("enc.w", tensor("F8_E4M3", &[4]), Some("cast(saturate)")).unwrap();
    let mut required = json!({"properties": {"x": tensor("F32", &[1])}, "required": ["x"]});
    let missing = |schema: &Value| {
        let migration = Migration::new(document(schema, Reading::File)).with_drop();
        migration.run(&old, &path, &replacing()).map_err(|e| e.code()).map(drop)
    };
    assert_eq!(missing(&required), Err("evolve/no-default"));
    required["properties"]["x"]["default"] = json!("one");
    assert_eq!(missing(&required), Err("record/type"));
    required["properties"]["x"]["default"] = json!(1);
    assert_eq!(missing(&required), Ok(()));
    let nothing = Migration::new(new_model()).with_drop();
    let nothing = nothing.with_converter("enc.c", "cast".parse::<Conversion>().unwrap());
    assert_eq!(nothing.plan(&old).unwrap_err().code(), "evolve/no-converter");
    let (_folder, old) = model("zt");
    let more = migration().with_converter("enc.c", "cast".parse::<Conversion>().unwrap());
    assert_eq!(more.plan(&old).unwrap_err().code(), "schema/unknown-path");
}

#[test]
fn functions_are_converters_too() {
    let (_folder, old) = model("mt");
    let turned = Conversion::tensors(|part| {
        let old: Vec<f32> = part.tensor.dense()?.to_f32()?;
        assert_eq!(part.target.shape, [3, 2]);
        Ok([0, 3, 1, 4, 2, 5].iter().flat_map(|at| old[*at].to_le_bytes()).collect())
    });
    let schema = json!({"properties": {"w1": tensor("F32", &[3, 2])}});
    let migration = Migration::new(document(&schema, Reading::File));
    let view = migration.with_converter("w1", turned).view(&old).unwrap();
    assert_eq!(data(&view, "w1"), bytes(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]));
}

const NAMES: [&str; 3] = ["cat", "dog", "owl"];

fn record(at: u64) -> Value {
    json!({
        "id": at,
        "label": NAMES[at as usize % 3],
        "caption": format!("picture {at}"),
        "score": at as f64 / 4.0,
        "tags": ["a", format!("t{at}")],
        "size": format!("{}x{}", at, at + 1),
    })
}

fn structure(members: &[(&str, Value, bool)]) -> Value {
    let names: Vec<&str> = members.iter().map(|m| m.0).collect();
    let required: Vec<&str> = members.iter().filter(|m| m.2).map(|m| m.0).collect();
    let properties: serde_json::Map<String, Value> =
        members.iter().map(|m| (m.0.to_owned(), m.1.clone())).collect();
    json!({"TypeDef:Struct": names, "required": required, "properties": properties})
}

fn kind(name: &str) -> Value {
    json!({ format!("TypeDef:{name}"): true })
}

fn strings() -> Value {
    json!({"TypeDef:Array": true, "items": kind("String")})
}

/// Writes a dataset with texts and lists, next to a tensor.
fn dataset(path: &Path) -> File {
    let label = json!({"enum": NAMES, "TypeDef:Enum": true});
    let old = structure(&[
        ("id", kind("Uint32"), true),
        ("label", label, true),
        ("caption", kind("String"), true),
        ("score", kind("Float32"), true),
        ("tags", strings(), true),
        ("size", kind("String"), true),
    ]);
    let mut build = Build::create(path, &WriteOptions::new()).unwrap();
    let mut set = build.dataset_with_schema("set", &old).unwrap();
    for at in 0..100 {
        set.value(&record(at)).unwrap();
    }
    build.add(set).unwrap();
    build.tensor(TensorSpec::dense("other", DType::F32, [1]), &[&bytes(&[1.0])]).unwrap();
    build.finish().unwrap();
    OpenOptions::new().open(path).unwrap()
}

/// Returns its new kind; texts are not copied unless `sizes` are converted.
fn new_kind(sizes: bool) -> Document {
    let stars = json!({"TypeDef:Uint8": true, "default": 3});
    let note = json!({"TypeDef:String": true, "default": "nothing"});
    let mut members = vec![
        ("id", kind("Uint64"), true),
        ("label", kind("Int8"), true),
        ("text", kind("String"), true),
        ("score", kind("BFloat16"), true),
        ("tags", strings(), true),
        ("stars", stars, true),
        ("note", note, true),
    ];
    if sizes {
        members.push(("size", strings(), true));
    }
    document(&structure(&members), Reading::Record)
}

fn of_records(sizes: bool) -> Migration {
    let named = |text: &str| text.parse::<Conversion>().unwrap();
    let migration = Migration::new(new_kind(sizes))
        .with_rename("text", "caption")
        .with_converter("label", named("map(cat=0, dog=1, *=-1)"))
        .with_converter("score", named("scale(3)"))
        .with_drop();
    if sizes { migration.with_converter("size", named("split(x)")) } else { migration }
}

fn new_record(at: u64, sizes: bool) -> Value {
    let label = [0, 1, -1][at as usize % 3];
    let mut record = json!({
        "id": at,
        "label": label,
        "text": format!("picture {at}"),
        "score": f64::from(half::bf16::from_f64(at as f64 * 0.75)),
        "tags": ["a", format!("t{at}")],
        "stars": 3,
        "note": "nothing",
    });
    if sizes {
        record["size"] = json!([at.to_string(), (at + 1).to_string()]);
    }
    record
}

/// Returns the value with the exact numbers of 16-bit floats, whose text has fewer digits.
fn numbers(value: &Value) -> Value {
    let mut value = value.clone();
    let score = half::bf16::from_f64(value["score"].as_f64().unwrap());
    value["score"] = json!(f64::from(score));
    value
}

fn check_records(file: &File, sizes: bool) {
    let records = file.tensor("set").unwrap().records().unwrap();
    assert_eq!(records.len(), 100);
    for (at, found) in records.iter(0..100).unwrap().enumerate() {
        let at = at as u64;
        let found = found.unwrap();
        found.check().unwrap();
        let (found, expected) = (found.to_value().unwrap(), new_record(at, sizes));
        assert_eq!(numbers(&found), numbers(&expected));
        assert_eq!(records.record(at).unwrap().to_value().unwrap(), found);
    }
    let found = records.query().with_condition("text=picture 7").unwrap().run().unwrap().count();
    assert_eq!(found, 1);
    assert_eq!(data(file, "other"), bytes(&[1.0]));
}

#[test]
fn records_are_migrated_and_read_under_a_new_schema_alike() {
    let folder = tempfile::tempdir().unwrap();
    for extension in ["mt", "zt"] {
        let old = dataset(&folder.path().join(format!("old.{extension}")));
        for sizes in [false, true] {
            let path = folder.path().join(format!("new.{extension}"));
            let report = of_records(sizes).run(&old, &path, &replacing()).unwrap();
            assert_eq!(report.records, 100);
            check_records(&OpenOptions::new().open(&path).unwrap(), sizes);
            let view = of_records(sizes).view(&old).unwrap();
            check_records(&view, sizes);
            let far = OpenOptions::new().with_io(holdall::Io::Read).open(old.name()).unwrap();
            check_records(&of_records(sizes).view(&far).unwrap(), sizes);
            let packed = folder.path().join("packed.zt");
            let options = Convert::new(replacing().with_zstd(3)).reencode();
            convert(&old, &packed, &options).unwrap();
            let packed = OpenOptions::new().open(&packed).unwrap();
            check_records(&of_records(sizes).view(&packed).unwrap(), sizes);
            // The whole view can be written, like any file.
            let loaded = view.tensor("set").unwrap().records().unwrap().loaded().unwrap();
            let last = loaded.record(99).unwrap().to_value().unwrap();
            assert_eq!(numbers(&last), numbers(&new_record(99, sizes)));
        }
    }
}

#[test]
fn a_plan_names_members() {
    let folder = tempfile::tempdir().unwrap();
    let old = dataset(&folder.path().join("old.mt"));
    let plan = of_records(false).plan(&old).unwrap();
    let mut steps = describe(&plan);
    steps.sort_unstable();
    assert_eq!(
        steps,
        [
            "converted set[].label: Enum of 3, now Int8 by map(cat=0, dog=1, *=-1)",
            "converted set[].score: Float32, now BFloat16 by scale(3), rounded to nearest, ties to even",
            "default set[].note: String",
            "default set[].stars: Uint8",
            "dropped set[].size: String",
            "renamed set[].caption, now set[].text",
            "widened set[].id: Uint32, now Uint64",
        ]
    );
    assert_eq!((plan.records, plan.tensors, plan.unchanged), (100, 2, 1));
    assert_eq!(plan.steps.iter().filter(|s| s.what == StepKind::Dropped).count(), 1);
    let error = of_records(false).with_converter("nope", "cast".parse::<Conversion>().unwrap());
    assert_eq!(error.plan(&old).unwrap_err().code(), "schema/unknown-path");
}

/// The caller's keywords apply to migrated records, even if the schema is otherwise unchanged.
#[test]
fn custom_keywords_apply_to_new_records() {
    use holdall::schema::Vocabulary;
    let folder = tempfile::tempdir().unwrap();
    let [old, new] = ["old.mt", "new.mt"].map(|name| folder.path().join(name));
    let json = json!({"TypeDef:Struct": ["n"], "required": ["n"], "properties":
        {"n": {"TypeDef:Int32": true, "below": 10}}});
    let kind = document(&json, Reading::Record);
    let (mut build, mut set) =
        Build::create(&old, &replacing()).unwrap().dataset_from_document(&kind, None).unwrap();
    let rows = holdall::records::RowsOptions::new().read(&b"{\"n\": 1}\n{\"n\": 12}\n"[..], "rows");
    set.fill(rows.unwrap(), &holdall::records::FillOptions::new()).unwrap();
    build.add(set).unwrap();
    build.finish().unwrap();
    let old = holdall::open(&old).unwrap();
    assert_eq!(Migration::new(kind.clone()).run(&old, &new, &replacing()).unwrap().records, 2);
    let below = |most: &Value, n: &Value| n.as_i64() < most.as_i64();
    let own = kind.with_vocabulary(Vocabulary::new().with_keyword("below", below)).unwrap();
    let e = Migration::new(own.clone()).run(&old, &new, &replacing()).unwrap_err();
    assert_eq!(e.code(), "record/keyword");
    assert!(e.to_string().contains("`below`"), "{e}");
    let less = Migration::new(own).with_converter("n", "offset(-3)".parse::<Conversion>().unwrap());
    assert_eq!(less.run(&old, &new, &replacing()).unwrap().records, 2);
}

/// Paths into arrays of a record need not name the dataset if there is only one.
#[test]
fn members_of_arrays_are_named_with_their_dataset_or_without() {
    let folder = tempfile::tempdir().unwrap();
    let [path, target] = ["old.mt", "new.mt"].map(|name| folder.path().join(name));
    let items = |price: &str, kind_of: &str| {
        let item = structure(&[(price, kind(kind_of), true)]);
        structure(&[("items", json!({"TypeDef:Array": true, "items": item}), true)])
    };
    let old = items("price", "Float32");
    let mut build = Build::create(&path, &WriteOptions::new()).unwrap();
    for name in ["one", "other"] {
        let mut set = build.dataset_with_schema(name, &old).unwrap();
        set.value(&json!({"items": [{"price": 1.5}, {"price": 2.0}]})).unwrap();
        build.add(set).unwrap();
    }
    build.finish().unwrap();
    let file = OpenOptions::new().open(&path).unwrap();
    let new = document(&items("cents", "Int32"), Reading::Record);
    for prefix in ["", "one[]."] {
        let cents = Conversion::values(|price| Ok(json!(price.as_f64().unwrap() * 100.0)));
        let member = |name: &str| format!("{prefix}items[].{name}");
        Migration::new(new.clone())
            .with_dataset("one")
            .with_rename(member("cents"), member("price"))
            .with_converter(member("cents"), cents)
            .run(&file, &target, &replacing())
            .unwrap();
        let made = OpenOptions::new().open(&target).unwrap();
        let records = made.tensor("one").unwrap().records().unwrap();
        let wanted = json!({"items": [{"cents": 150}, {"cents": 200}]});
        assert_eq!(records.record(0).unwrap().to_value().unwrap(), wanted);
    }
    // In the schema of a file with both of them the name is needed.
    let both = |record: &Value| {
        let set = json!({"type": "array", "TypeDef:Array": true, "items": record});
        let properties = json!({"one": set, "other": set});
        document(&json!({"type": "object", "properties": properties}), Reading::File)
    };
    let both = Migration::new(both(&new.json));
    let named = |path: &str, by: &str| (path.to_owned(), by.parse::<Conversion>().unwrap());
    let (path, by) = named("items[].cents", "cast");
    let e = both.clone().with_converter(path, by).plan(&file).unwrap_err();
    assert_eq!(e.code(), "records/which-dataset");
}
