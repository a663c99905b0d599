//! One set of rules for old files: a comparison of two schemas calls them compatible if and only if every old
//! file is valid under the new one, and migrates to it.
//!
//! Schemas are generated at random, each member with values at the ends of its range, so that a file shows
//! where the new schema allows less.
#![cfg(feature = "validate")]

use holdall::diff::diff_schemas;
use holdall::records::{Build, Migration, SchemaOrFile, check_file};
use holdall::schema::{Document, Reading, SchemaLimits, Verdict};
use holdall::{DType, File, OpenOptions, TensorSpec, Work, WriteOptions};
use serde_json::{Map, Value, json};
use std::path::Path;

/// A random generator with a fixed sequence.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }
}

/// A member's old and new schema, and its values in a file.
struct Member {
    old: Value,
    new: Value,
    values: Vec<Value>,
}

fn member(dice: &mut Dice, depth: u32) -> Member {
    match dice.below(if depth > 0 { 11 } else { 8 }) {
        0 | 1 => integer(dice),
        2 => float(dice),
        3 => text(dice),
        4 => names(dice),
        5 => listed(dice),
        6 => tensor(dice),
        7 => aside(dice),
        8 => array(dice, depth - 1),
        9 => union(dice, depth - 1),
        _ => {
            let Struct { old, new, records } = structure(dice, depth - 1);
            Member { old, new, values: records }
        }
    }
}

/// Returns a bound moved up or down, or removed.
fn moved(dice: &mut Dice, bound: Option<i64>, start: i64) -> Option<i64> {
    match (bound, dice.below(8)) {
        (Some(n), 0) => Some(n + 1),
        (Some(n), 1) => Some(n - 1),
        (Some(_), 2) => None,
        (None, 0) => Some(start),
        (bound, _) => bound,
    }
}

fn with(mut node: Value, keyword: &str, bound: Option<i64>) -> Value {
    if let Some(bound) = bound {
        node[keyword] = json!(bound);
    }
    node
}

fn integer(dice: &mut Dice) -> Member {
    let kinds = [
        ("Int8", -128i64, 127i64),
        ("Uint8", 0, 255),
        ("Int16", -32768, 32767),
        ("Uint32", 0, u32::MAX.into()),
        ("Int32", i32::MIN.into(), i32::MAX.into()),
    ];
    let (kind, least, most) = dice.pick(&kinds);
    let low = (dice.below(2) == 0).then_some(least + 10);
    let high = (dice.below(2) == 0).then_some(most - 10);
    let others = ["Int64", "Float64", "Int16", "Float32", "Uint8", "Boolean"];
    let to_kind = if dice.below(4) == 0 { dice.pick(&others) } else { kind };
    let node = |kind: &str, low, high| {
        let node = json!({ format!("TypeDef:{kind}"): true });
        with(with(node, "minimum", low), "maximum", high)
    };
    let new_low = moved(dice, low, least + 1);
    let new_high = moved(dice, high, most - 1);
    let (from, to) = (low.unwrap_or(least), high.unwrap_or(most));
    let values = vec![json!(from), json!(to), json!((from + to) / 2)];
    Member { old: node(kind, low, high), new: node(to_kind, new_low, new_high), values }
}

fn float(dice: &mut Dice) -> Member {
    let kind = dice.pick(&["Float16", "Float32", "Float64"]);
    let to = if dice.below(3) == 0 { dice.pick(&["Float32", "Float64"]) } else { kind };
    // 0.1 is a little more or less in each type.
    let bounded = dice.below(2) == 0;
    let node = |kind: &str| match bounded {
        true => json!({ format!("TypeDef:{kind}"): true, "minimum": 0.1, "maximum": 0.1 }),
        false => json!({ format!("TypeDef:{kind}"): true }),
    };
    let values = if bounded { vec![json!(0.1)] } else { vec![json!(0.1), json!(-2), json!(0)] };
    Member { old: node(kind), new: node(to), values }
}

fn text(dice: &mut Dice) -> Member {
    let low = (dice.below(2) == 0).then(|| 1 + dice.below(3) as i64);
    let high = (dice.below(2) == 0).then(|| 5 + dice.below(3) as i64);
    let node = |low, high| {
        let node = json!({"type": "string", "TypeDef:String": true});
        with(with(node, "minLength", low), "maxLength", high)
    };
    let mut new = node(moved(dice, low, 1), moved(dice, high, 3));
    if dice.below(10) == 0 {
        new["pattern"] = json!("^é{4}");
    }
    let of = |len: i64| json!("é".repeat(len as usize));
    let values = vec![of(low.unwrap_or(0)), of(high.unwrap_or(9))];
    Member { old: node(low, high), new, values }
}

/// Returns an enum.
fn names(dice: &mut Dice) -> Member {
    let mut values: Vec<Value> = ["a", "b", "c"].map(Value::from).to_vec();
    let node = |values: &[Value]| json!({"enum": values, "TypeDef:Enum": true});
    let (old, all) = (node(&values), values.clone());
    match dice.below(6) {
        0 => values.push("d".into()),
        1 => values.insert(0, "d".into()),
        2 => drop(values.pop()),
        3 => values.reverse(),
        _ => {}
    }
    Member { old, new: node(&values), values: all }
}

/// Returns a number with a list of allowed values.
fn listed(dice: &mut Dice) -> Member {
    let node = |all: &[i32]| json!({"enum": all, "TypeDef:Int32": true});
    let new = dice.pick(&[&[1, 2, 3][..], &[1, 2, 3, 4], &[3, 1, 2], &[1, 2], &[4]]);
    Member { old: node(&[1, 2, 3]), new: node(new), values: vec![json!(1), json!(2), json!(3)] }
}

fn tensor(dice: &mut Dice) -> Member {
    let node = |dtype: &str, n: u64| json!({"TypeDef:Tensor": {"dtype": dtype, "shape": [n, 2]}});
    let new = match dice.below(5) {
        0 => node("F64", 1),
        1 => node("F32", 2),
        _ => node("F32", 1),
    };
    Member { old: node("F32", 1), new, values: vec![json!({"data": [0.5, 1]})] }
}

/// Returns keywords that do not restrict values.
fn aside(dice: &mut Dice) -> Member {
    let old = json!({"TypeDef:Bytes": true, "title": "a", "x-unit": "m"});
    let mut new = old.clone();
    match dice.below(4) {
        0 => new["title"] = json!("b"),
        1 => new["x-unit"] = json!("km"),
        2 => new["align"] = json!(32),
        _ => new["format"] = json!("date"),
    }
    Member { old, new, values: vec![json!("AAEC"), json!("")] }
}

fn array(dice: &mut Dice, depth: u32) -> Member {
    let Member { old, new, values } = member(dice, depth);
    let node = |items: &Value, low, high| {
        let node = json!({"TypeDef:Array": true, "items": items});
        with(with(node, "minItems", low), "maxItems", high)
    };
    let low = (dice.below(2) == 0).then(|| 1 + dice.below(2) as i64);
    let high = (dice.below(2) == 0).then(|| 2 + dice.below(2) as i64);
    let (mut new_low, mut new_high) = (moved(dice, low, 1), moved(dice, high, 4));
    if let (Some(a), Some(b)) = (new_low, new_high)
        && a > b
    {
        (new_low, new_high) = (low, high);
    }
    let all = |len: i64| {
        let at = |i: usize| values[i % values.len()].clone();
        let len = len as usize;
        // Enough arrays that every value is in one.
        (0..values.len()).map(move |from| json!((from..from + len).map(at).collect::<Vec<_>>()))
    };
    let values: Vec<Value> =
        all(low.unwrap_or(0).max(0)).chain(all(high.unwrap_or(low.unwrap_or(0) + 5))).collect();
    Member { old: node(&old, low, high), new: node(&new, new_low, new_high), values }
}

fn union(dice: &mut Dice, depth: u32) -> Member {
    let (mut old, mut new, mut values) = (Map::new(), Map::new(), Vec::new());
    let name = if dice.below(4) == 0 { "type" } else { "kind" };
    for key in ["v0", "v1"] {
        let made = structure(dice, depth);
        values.extend(made.records.into_iter().map(|mut record| {
            record["kind"] = json!(key);
            record
        }));
        old.insert(key.into(), made.old);
        new.insert(key.into(), made.new);
    }
    match dice.below(6) {
        0 => drop(new.insert("v2".into(), old["v0"].clone())),
        1 => drop(new.remove("v1")),
        _ => {}
    }
    let node =
        |name: &str, mapping| json!({"TypeDef:Union": {"discriminator": name}, "mapping": mapping});
    Member { old: node("kind", old), new: node(name, new), values }
}

struct Struct {
    old: Value,
    new: Value,
    records: Vec<Value>,
}

fn structure(dice: &mut Dice, depth: u32) -> Struct {
    // Names, required names, and properties.
    let (mut old, mut new) = <(Side, Side)>::default();
    let mut members = Vec::new();
    for at in 0..1 + dice.below(3) {
        let name = format!("m{at}");
        let Member { old: before, new: mut after, values } = member(dice, depth);
        let was_required = dice.below(2) == 0;
        let mut is_required = was_required;
        match dice.below(14) {
            0 => is_required = !was_required,
            // With a default that is valid, and with an invalid one.
            1 => {
                is_required = true;
                if after == before {
                    after["default"] = values[0].clone();
                }
            }
            2 => {
                is_required = true;
                after["default"] = json!({"no": "value"});
            }
            _ => {}
        }
        old.add(&name, before, was_required);
        if dice.below(20) > 0 {
            new.add(&name, after, is_required);
        }
        members.push((name, values, was_required));
    }
    match dice.below(12) {
        0 => new.names.reverse(),
        1 => new.add("new", json!({"TypeDef:Int8": true}), false),
        2 => new.add("new", json!({"TypeDef:Int8": true}), true),
        3 => new.add("new", json!({"TypeDef:Int8": true, "default": 3, "maximum": 3}), true),
        4 => new.add("new", json!({"TypeDef:Int8": true, "default": 3, "maximum": 2}), true),
        5 => new.add("new", json!({"TypeDef:Int8": true, "default": 300}), dice.below(2) == 0),
        _ => {}
    }
    if new.names.is_empty() {
        new.add("new", json!({"TypeDef:Int8": true}), false);
    }
    let longest = members.iter().map(|(_, values, _)| values.len()).max().unwrap_or(1);
    let record = |at: usize| {
        let mut record = Map::new();
        for (name, values, is_required) in &members {
            if *is_required || at < longest {
                record.insert(name.clone(), values[at % values.len()].clone());
            }
        }
        Value::Object(record)
    };
    // One more record, without all optional members.
    Struct { old: old.node(), new: new.node(), records: (0..=longest).map(record).collect() }
}

#[derive(Default)]
struct Side {
    names: Vec<String>,
    required: Vec<String>,
    properties: Map<String, Value>,
}

impl Side {
    fn add(&mut self, name: &str, node: Value, is_required: bool) {
        self.names.push(name.into());
        self.required.extend(is_required.then(|| name.to_owned()));
        self.properties.insert(name.into(), node);
    }

    fn node(self) -> Value {
        let Side { names, required, properties } = self;
        json!({"TypeDef:Struct": names, "required": required, "properties": properties})
    }
}

fn document(json: &Value, reading: Reading) -> Document {
    Document::new(json.clone(), "schema", reading, &SchemaLimits::default()).unwrap()
}

/// Returns the schema of a file with one dataset called `set`.
fn whole(kind: &Value) -> Value {
    json!({"properties": {"set": {"TypeDef:Array": true, "items": kind}}})
}

fn built(path: &Path, schema: &Document, records: &[Value]) -> File {
    let build = Build::create(path, &WriteOptions::new()).unwrap();
    let (mut build, mut set) = build.dataset_from_document(schema, None).unwrap();
    for record in records {
        set.value(record).unwrap();
    }
    build.add(set).unwrap();
    build.finish().unwrap();
    OpenOptions::new().open(path).unwrap()
}

#[test]
fn compatible_schemas_check_and_migrate() {
    let folder = tempfile::tempdir().unwrap();
    let limits = SchemaLimits::default();
    let (mut compatible, mut other) = (0, 0);
    for seed in 1..=400u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let made = structure(&mut dice, 2);
        let is_whole = seed % 2 == 0;
        let (old, new) = match is_whole {
            true => (
                document(&whole(&made.old), Reading::File),
                document(&whole(&made.new), Reading::File),
            ),
            false => (document(&made.old, Reading::Record), document(&made.new, Reading::Record)),
        };
        let path =
            folder.path().join(format!("{seed}.{}", if seed % 3 == 0 { "zt" } else { "mt" }));
        let file = built(&path, &old, &made.records);
        let check = |file: &File, schema: &Document| {
            check_file(file, schema, None, &limits, &Work::new()).unwrap()
        };
        let own = check(&file, &old);
        assert!(own.is_sound(), "{seed}: {:?} of {}", own.findings, old.json);
        let side = |d: &Document| SchemaOrFile::Schema(Box::new(d.clone()));
        let changes = diff_schemas(side(&old), side(&new), None, &limits).unwrap().changes;
        let is_compatible = changes.iter().all(|c| c.verdict == Verdict::Compatible);
        let checked = check(&file, &new);
        let target = folder.path().join(format!("{seed}-new.mt"));
        let migrated = Migration::new(new.clone()).run(&file, &target, &WriteOptions::new());
        let context = || {
            let findings: Vec<_> = checked.findings.iter().map(|f| &f.error).collect();
            format!(
                "{seed}: {changes:?}\nchecked: {findings:?}\nmigrated: {migrated:?}\n{}\n{}",
                old.json, new.json
            )
        };
        assert_eq!(is_compatible, checked.is_sound(), "{}", context());
        assert_eq!(is_compatible, migrated.is_ok(), "{}", context());
        if is_compatible {
            compatible += 1;
            let new_file = OpenOptions::new().open(&target).unwrap();
            let again = check(&new_file, &new);
            assert!(again.is_sound(), "{seed}: {:?}", again.findings);
        } else {
            other += 1;
        }
    }
    assert!(compatible > 60 && other > 60, "{compatible} compatible, {other} not");
}

/// Returns a random model: its schema before and after, and the tensors of a file.
fn model(dice: &mut Dice) -> (Value, Value, Vec<TensorSpec>) {
    let (mut old, mut new) = (Map::new(), Map::new());
    let mut specs = Vec::new();
    let mut required = (Vec::new(), Vec::new());
    let dtypes =
        [DType::F32, DType::F64, DType::F16, DType::Bf16, DType::I8, DType::U8, DType::I32];
    let named = |dtype: DType| dtype.as_str().to_uppercase();
    let node = |dtype: DType, shape: Value| json!({"TypeDef:Tensor": {"dtype": named(dtype), "shape": shape}});
    for at in 0..1 + dice.below(3) {
        let name = format!("t{at}");
        let dtype = dice.pick(&dtypes);
        let to = if dice.below(3) == 0 { dice.pick(&dtypes) } else { dtype };
        let shape = match dice.below(9) {
            0 => json!([3, 2]),
            1 => json!([null, 3]),
            2 => json!([6]),
            _ => json!([2, 3]),
        };
        old.insert(name.clone(), node(dtype, json!([2, 3])));
        let (was_required, is_required) = (dice.below(2) == 0, dice.below(2) == 0);
        // A file without its optional tensors, and one with them.
        if was_required || dice.below(2) == 0 {
            specs.push(TensorSpec::dense(name.as_str(), dtype, [2, 3]));
        }
        let mut after = node(to, shape);
        match dice.below(6) {
            0 => after["default"] = json!(1),
            1 => after["default"] = json!({"data": [0, 1, 2, 3, 4, 5]}),
            2 => after["default"] = json!({"data": [0]}),
            3 => after["default"] = json!(1000),
            _ => {}
        }
        if dice.below(12) > 0 {
            new.insert(name.clone(), after);
            required.1.extend(is_required.then(|| name.clone()));
        }
        required.0.extend(was_required.then_some(name));
    }
    let mut added = node(DType::U8, json!([2]));
    match dice.below(8) {
        0 => drop(new.insert("a".into(), added)),
        1 => {
            added["default"] = json!({"data": [7, 8]});
            let inner = json!({"properties": {"b": added}, "required": ["b"]});
            new.insert("a".into(), inner);
            required.1.push("a".into());
        }
        2 => {
            new.insert("a".into(), json!({"properties": {"b": added}}));
            required.1.push("a".into());
        }
        _ => {}
    }
    specs.push(TensorSpec::dense("z", DType::U8, [1]));
    old.insert("z".into(), node(DType::U8, json!([1])));
    new.insert("z".into(), node(DType::U8, json!([1])));
    let whole = |properties, required| json!({"properties": properties, "required": required, "additionalProperties": false});
    (whole(old, required.0), whole(new, required.1), specs)
}

#[test]
fn compatible_models_check_migrate_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let limits = SchemaLimits::default();
    let (mut compatible, mut other) = (0, 0);
    for seed in 1..=400u64 {
        let mut dice = Dice(seed.wrapping_mul(0xd134_2543_de82_ef95));
        let (before, after, mut specs) = model(&mut dice);
        let (old, new) = (document(&before, Reading::File), document(&after, Reading::File));
        let side = |d: &Document| SchemaOrFile::Schema(Box::new(d.clone()));
        let changes = diff_schemas(side(&old), side(&new), None, &limits).unwrap().changes;
        let is_compatible = changes.iter().all(|c| c.verdict == Verdict::Compatible);
        // An incompatibility shows in some file: in the one with all tensors, or in the one with the fewest.
        let mut outcomes = Vec::new();
        for all in [true, false] {
            if all {
                for (name, kind) in before["properties"].as_object().unwrap() {
                    if name != "z" && !specs.iter().any(|s| s.name == *name) {
                        let dtype =
                            kind["TypeDef:Tensor"]["dtype"].as_str().unwrap().to_lowercase();
                        let dtype = DType::from_name(&dtype).unwrap();
                        specs.push(TensorSpec::dense(name.as_str(), dtype, [2, 3]));
                    }
                }
            } else {
                let required = before["required"].as_array().unwrap();
                specs.retain(|s| {
                    s.name == "z" || required.iter().any(|name| *name == s.name.as_str())
                });
            }
            let extension = if seed % 2 == 0 { "mt" } else { "zt" };
            let path = folder.path().join(format!("{seed}-{all}.{extension}"));
            let mut build = Build::create(&path, &WriteOptions::new()).unwrap();
            if extension == "mt" {
                build = build.with_schema(&old.json).unwrap();
            }
            for spec in &specs {
                let len = spec.components[0].decoded_len as usize;
                let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
                build.tensor(spec.clone(), &[&bytes]).unwrap();
            }
            build.finish().unwrap();
            let file = OpenOptions::new().open(&path).unwrap();
            let check = |file: &File, schema| {
                check_file(file, schema, None, &limits, &Work::new()).unwrap()
            };
            assert!(check(&file, &old).is_sound(), "{seed}: {:?}", check(&file, &old).findings);
            let checked = check(&file, &new);
            let target = folder.path().join(format!("{seed}-{all}-new.mt"));
            let migration = Migration::new(new.clone());
            let migrated = migration.run(&file, &target, &WriteOptions::new());
            let context = format!(
                "{seed} {all}: {changes:?}\nchecked: {:?}\nmigrated: {migrated:?}\n{before}\n{after}",
                checked.findings
            );
            assert_eq!(checked.is_sound(), migrated.is_ok(), "{context}");
            assert_eq!(migration.plan(&file).is_ok(), migrated.is_ok(), "{context}");
            outcomes.push(migrated.is_ok());
            if migrated.is_err() {
                continue;
            }
            let written = OpenOptions::new().open(&target).unwrap();
            assert!(check(&written, &new).is_sound(), "{context}");
            let view = migration.view(&file).unwrap();
            assert_eq!(view.len(), written.len(), "{context}");
            for tensor in written.tensors() {
                let own = view.tensor(tensor.name()).unwrap();
                let bytes = |t: &holdall::Tensor| t.bytes(&holdall::Role::Data).unwrap();
                assert_eq!(bytes(&own), bytes(&tensor), "{context}");
            }
        }
        assert_eq!(
            is_compatible,
            outcomes.iter().all(|ok| *ok),
            "{seed} {outcomes:?}: {changes:?}\n{before}\n{after}"
        );
        if is_compatible {
            compatible += 1;
        } else {
            other += 1;
        }
    }
    assert!(compatible > 60 && other > 60, "{compatible} compatible, {other} not");
}
