//! Nothing is lost silently: data that an encoder drops is detected before anything is published, and data
//! that a conversion leaves behind is reported.

use crate::corpus_files::files;
use holdall::ledger::{Expected, Side, TieRule, compare};
use holdall::{
    Algorithm, Attributes, Bytes, Cast, ComponentRef, ComponentSpec, Convert, DType, Durability,
    Edit, Encode, Encoding, Error, Format, Layout, OpenOptions, Rename, Result, Role, Select,
    Stored, TensorForm, TensorSpec, Value, WriteOptions, Writer, compact, convert, formats,
    salvage,
};
use std::cell::Cell;
use std::path::Path;

/// The item that the encoder drops.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Drops {
    Nothing,
    FileAttribute,
    Attribute,
    /// A parameter of the quantization.
    Parameter,
    Tensor,
    Component,
    Digest,
    Type,
    Shape,
    Tie,
}

thread_local! {
    static DROPS: Cell<Drops> = const { Cell::new(Drops::Nothing) };
}

/// An encoder that drops one item.
struct Dropping(Box<dyn Encode>, Drops, Option<Stored>);

fn dropping(inner: Box<dyn Encode>) -> Box<dyn Encode> {
    Box::new(Dropping(inner, DROPS.get(), None))
}

impl Dropping {
    fn without_lost(&self, tensor: &TensorSpec) -> TensorSpec {
        let mut spec = tensor.clone();
        match self.1 {
            Drops::Attribute => drop(spec.attributes.remove("unit")),
            Drops::Parameter => drop(spec.attributes.remove("group_size")),
            Drops::Type if spec.name == "a" => spec.components[0].dtype = DType::I32,
            Drops::Shape if spec.name == "a" => spec.shape.reverse(),
            Drops::Component => spec.components.retain(|c| c.role != Role::Zeros),
            _ => {}
        }
        spec
    }

    /// Returns the tensor and the index of the component for the inner encoder; `None` for the dropped
    /// component.
    fn part(&self, tensor: &TensorSpec, component: usize) -> Option<(TensorSpec, usize)> {
        let (spec, role) = (self.without_lost(tensor), &tensor.components[component].role);
        let at = spec.components.iter().position(|c| c.role == *role)?;
        Some((spec, at))
    }
}

impl Encode for Dropping {
    fn header_first(&self) -> bool {
        self.0.header_first()
    }
    fn can_encode(&self, encoding: Encoding) -> bool {
        self.0.can_encode(encoding)
    }
    fn states_align(&self) -> bool {
        self.0.states_align()
    }
    fn needs_seek_table(&self) -> bool {
        self.0.needs_seek_table()
    }
    fn digests_decoded(&self) -> bool {
        self.0.digests_decoded()
    }
    fn can_digest(&self, algorithm: Algorithm) -> bool {
        self.0.can_digest(algorithm)
    }
    fn needs_digest(&self) -> Option<Algorithm> {
        self.0.needs_digest()
    }
    fn own_attributes(&self) -> &'static [&'static str] {
        self.0.own_attributes()
    }
    fn can_share(&self) -> bool {
        self.0.can_share()
    }
    fn writes_attributes(&self) -> bool {
        self.0.writes_attributes()
    }
    fn check_attributes(&self, attributes: &Attributes) -> Result<()> {
        self.0.check_attributes(attributes)
    }
    fn check_tensor(&self, tensor: &TensorSpec) -> Result<()> {
        self.0.check_tensor(tensor)
    }
    fn order(&self, tensors: &[TensorSpec]) -> Vec<usize> {
        self.0.order(tensors)
    }
    fn orders_components(&self) -> bool {
        self.0.orders_components()
    }
    fn begin(&mut self, attributes: &Attributes, declared: &[TensorSpec]) -> Result<Bytes> {
        let mut attributes = attributes.clone();
        if self.1 == Drops::FileAttribute {
            attributes.remove("note");
        }
        let is_lost = |spec: &&TensorSpec| self.1 == Drops::Tensor && spec.name == "b";
        let kept = declared.iter().filter(|spec| !is_lost(spec));
        let declared: Vec<TensorSpec> = kept.map(|spec| self.without_lost(spec)).collect();
        self.0.begin(&attributes, &declared)
    }
    fn preceding_bytes(
        &mut self,
        end: u64,
        tensor: &TensorSpec,
        component: usize,
    ) -> Result<Bytes> {
        match self.part(tensor, component) {
            Some((spec, at)) => self.0.preceding_bytes(end, &spec, at),
            None => Ok(Bytes::new()),
        }
    }
    fn next_offset(&mut self, end: u64, tensor: &TensorSpec, component: usize) -> Result<u64> {
        match self.part(tensor, component) {
            Some((spec, at)) => self.0.next_offset(end, &spec, at),
            None => Ok(end.next_multiple_of(64)),
        }
    }
    fn component_written(
        &mut self,
        tensor: &TensorSpec,
        component: usize,
        mut stored: Stored,
    ) -> Result<()> {
        let Some((mut spec, at)) = self.part(tensor, component) else { return Ok(()) };
        match self.1 {
            Drops::Tensor if spec.name == "b" => return Ok(()),
            Drops::Digest => stored.digest = None,
            // It shares the bytes of another tensor than it should.
            Drops::Tie if spec.name == "b" => {
                spec.components[at].shares = None;
                stored = self.2.clone().unwrap_or(stored);
            }
            Drops::Tie if spec.name == "a2" => self.2 = Some(stored.clone()),
            _ => {}
        }
        self.0.component_written(&spec, at, stored)
    }
    fn stores_in_header(&self, tensor: &TensorSpec, component: usize) -> bool {
        self.0.stores_in_header(tensor, component)
    }
    fn add_header_values(
        &mut self,
        tensor: &TensorSpec,
        component: usize,
        bytes: &[u8],
    ) -> Result<()> {
        self.0.add_header_values(tensor, component, bytes)
    }
    fn finish(&mut self, end: u64) -> Result<Bytes> {
        self.0.finish(end)
    }
}

/// Writes a file with attributes, tied tensors, and a quantized tensor with all of its components.
fn write_source(path: &Path, options: WriteOptions) -> Result<()> {
    let note = Attributes::from_iter([("note".to_owned(), Value::Text("kept".into()))]);
    let mut a = TensorSpec::dense("a", DType::F32, [2, 300]);
    a.attributes.set("unit", Value::Text("m".into()));
    let other = TensorSpec { name: "a2".into(), ..a.clone() };
    let mut b = TensorSpec { name: "b".into(), ..a.clone() };
    b.components[0].shares = Some(ComponentRef { tensor: "a".into(), role: Role::Data });
    let mut q = TensorSpec::dense("q", DType::I32, [2, 8]);
    q.layout = Layout::QuantizedGroup;
    q.components = vec![
        ComponentSpec::new(Role::PackedWeight, DType::I32, 8),
        ComponentSpec::new(Role::Scales, DType::F32, 16),
        ComponentSpec::new(Role::Zeros, DType::U8, 4),
    ];
    q.attributes.set("bits", Value::Integer(4));
    q.attributes.set("group_size", Value::Integer(4));
    q.attributes.set("packing", Value::Text("8_per_i32".into()));
    let mut writer = Writer::create(path, &options.with_attributes(note))?;
    writer.declare(&[other.clone(), a.clone(), b.clone(), q.clone()])?;
    writer.add(other, &[&[8; 2400]])?;
    writer.add(a, &[&[7; 2400]])?;
    writer.add(b, &[])?;
    writer.add(q, &[&[1; 8], &[0; 16], &[8; 4]])?;
    writer.finish()
}

fn run(drops: Drops, work: impl FnOnce(WriteOptions) -> Result<()>) -> Result<()> {
    DROPS.set(drops);
    let done = work(WriteOptions::new().with_overwrite(true).with_encoder_wrapper(dropping));
    DROPS.set(Drops::Nothing);
    done
}

const ALL: [Drops; 9] = [
    Drops::FileAttribute,
    Drops::Attribute,
    Drops::Parameter,
    Drops::Tensor,
    Drops::Component,
    Drops::Digest,
    Drops::Type,
    Drops::Shape,
    Drops::Tie,
];

/// An operation: its name, whether it changes the source itself, and its function.
type Operation = (&'static str, bool, fn(&Path, &Path, WriteOptions) -> Result<()>);

const OPERATIONS: [Operation; 6] = [
    ("a writer", false, |_, to, write| write_source(to, write)),
    ("convert", false, |from, to, write| {
        convert(&holdall::open(from)?, to, &Convert::new(write)).map(drop)
    }),
    ("convert a selection", false, |from, to, write| {
        let renames = vec![Rename::new("a=x.a")?, Rename::new("b=x.b")?, Rename::new("q=x.q")?];
        let undone = vec![Rename::new("x.*=*")?];
        let between = to.with_extension("between.zt");
        let plain = WriteOptions::new().with_overwrite(true);
        convert(&holdall::open(from)?, &between, &Convert::new(plain).with_renames(renames))?;
        convert(&holdall::open(between)?, to, &Convert::new(write).with_renames(undone)).map(drop)
    }),
    ("edit", true, |from, _, write| {
        let mut edit = Edit::open(from)?.with_write(write);
        edit.set_attribute("more", Value::Bool(true));
        edit.commit().map(drop)
    }),
    ("compact", true, |from, _, write| compact(from, write).map(drop)),
    ("salvage", false, |from, to, write| salvage(from, to, write, &OpenOptions::new()).map(drop)),
];

#[test]
fn an_item_that_an_encoder_drops_is_found_before_anything_is_published() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from.zt"), dir.path().join("to.zt"));
    write_source(&from, WriteOptions::new()).unwrap();
    let before = std::fs::read(&from).unwrap();
    for (name, changes_source, work) in OPERATIONS {
        for drops in ALL {
            let e = run(drops, |write| work(&from, &to, write)).expect_err(name);
            assert_eq!(e.code(), "internal/ledger", "{name}, {drops:?}: {e}");
            assert!(!to.exists(), "{name}, {drops:?}");
            assert_eq!(std::fs::read(&from).unwrap(), before, "{name}, {drops:?}");
        }
        run(Drops::Nothing, |write| work(&from, &to, write)).expect(name);
        assert_eq!(to.exists(), !changes_source, "{name}");
        let _ = std::fs::remove_file(&to);
        std::fs::write(&from, &before).unwrap();
    }
}

#[test]
fn shards_appear_together_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from.zt"), dir.path().join("to"));
    write_source(&from, WriteOptions::new()).unwrap();
    let format = formats::by_name("ztensor2");
    for drops in [Drops::Nothing, Drops::Attribute, Drops::Type, Drops::Shape] {
        let done = run(drops, |write| {
            let write = write.with_format(format.unwrap());
            let options = Convert::new(write).with_max_shard_tensors(1);
            convert(&holdall::open(&from)?, &to, &options).map(drop)
        });
        match drops {
            Drops::Nothing => {
                done.unwrap();
                std::fs::remove_dir_all(&to).unwrap();
            }
            _ => {
                assert_eq!(done.unwrap_err().code(), "internal/ledger", "{drops:?}");
                assert!(!to.exists(), "{drops:?}");
            }
        }
    }
}

/// A migration reads values, converts them, and copies data that its schema does not contain.
#[test]
fn a_migration_publishes_nothing_that_lacks_an_item() {
    use holdall::records::{Build, Migration};
    use holdall::schema::{Document, Reading, SchemaLimits};
    let kind = |member: &str| {
        serde_json::json!({
            "type": "object", "TypeDef:Struct": [member], "required": [member],
            "properties": {member: {"TypeDef:Float32": true}},
        })
    };
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from.zt"), dir.path().join("to.zt"));
    let note = Attributes::from_iter([("note".to_owned(), Value::Text("kept".into()))]);
    let mut build = Build::create(&from, &WriteOptions::new().with_attributes(note)).unwrap();
    for name in ["a", "b"] {
        let mut tensor = TensorSpec::dense(name, DType::F32, [2, 3]);
        tensor.attributes.set("unit", Value::Text("m".into()));
        build.tensor(tensor, &[&[1; 24]]).unwrap();
    }
    let mut points = build.dataset_with_schema("points", &kind("x")).unwrap();
    points.text(br#"{"x": 1.5}"#).unwrap();
    build.add(points).unwrap();
    build.finish().unwrap();
    let before = std::fs::read(&from).unwrap();
    let limits = SchemaLimits::default();
    let schema = Document::new(kind("y"), "schema", Reading::Record, &limits).unwrap();
    let migration = Migration::new(schema).with_rename("y", "x");
    let migrate =
        |drops| run(drops, |write| migration.run(&holdall::open(&from)?, &to, &write).map(drop));
    for drops in [
        Drops::FileAttribute,
        Drops::Attribute,
        Drops::Tensor,
        Drops::Digest,
        Drops::Type,
        Drops::Shape,
    ] {
        let e = migrate(drops).unwrap_err();
        // The encoder itself counts tensors.
        let is_found = matches!(e.code(), "internal/ledger" | "ztensor/declared");
        assert!(is_found && !to.exists(), "{drops:?} {e}");
        assert_eq!(std::fs::read(&from).unwrap(), before);
    }
    migrate(Drops::Nothing).unwrap();
    assert_eq!(holdall::open(&to).unwrap().len(), 3);
}

/// Edits of large files, and of headers, which are made in place if the file system supports it.
#[test]
fn edits_in_place_are_looked_at_before_the_step_that_publishes() {
    let dir = tempfile::tempdir().unwrap();
    for (name, format) in [("f.zt", "ztensor"), ("f.safetensors", "safetensors")] {
        let path = dir.path().join(name);
        let bytes = vec![3u8; 2 << 20];
        let mut tensor = TensorSpec::dense("a", DType::F32, [2, 1 << 18]);
        tensor.attributes.set("unit", Value::Text("m".into()));
        let attributes = Attributes::from_iter([("note".to_owned(), Value::Text("kept".into()))]);
        let options = WriteOptions::new().with_attributes(attributes);
        let options = options.with_format(formats::by_name(format).unwrap());
        let mut writer = Writer::create(&path, &options).unwrap();
        writer.declare(std::slice::from_ref(&tensor)).unwrap();
        writer.add(tensor, &[&bytes]).unwrap();
        writer.finish().unwrap();
        let before = std::fs::read(&path).unwrap();
        let edit = |drops| {
            run(drops, |write| {
                let mut edit = Edit::open(&path)?.with_write(write);
                edit.set_attribute("note", Value::Text("gone".into()));
                edit.commit().map(drop)
            })
        };
        for drops in [Drops::FileAttribute, Drops::Attribute, Drops::Type, Drops::Shape] {
            assert_eq!(edit(drops).unwrap_err().code(), "internal/ledger", "{name}, {drops:?}");
            assert!(std::fs::read(&path).unwrap() == before, "{name}, {drops:?}");
        }
        edit(Drops::Nothing).unwrap();
    }
}

/// Returns ways to convert, each of which changes what was requested.
fn ways(write: &WriteOptions) -> Vec<(&'static str, Convert)> {
    let plain = || Convert::new(write.clone());
    let float = |name: &str| Cast::new(name).unwrap();
    vec![
        ("plain", plain()),
        ("whatever fits", plain().with_dense().with_raw_types().with_drop_attributes()),
        ("cast", plain().with_dense().with_dtypes([float("bf16")]).with_drop_attributes()),
        ("sparse", plain().with_form(TensorForm::Coo).with_drop_attributes()),
        ("renamed", plain().with_renames(vec![Rename::new("*=x.*").unwrap()])),
        ("copied", plain().with_sharing(holdall::Sharing::Copy).with_drop_attributes()),
        ("chosen", plain().with_select(Select::new(&["*a*", "*e*"], &["*b*"]).unwrap())),
    ]
}

/// Returns `true` if a conversion was refused for a legitimate reason.
fn is_refusal(e: &Error) -> bool {
    e.code() != "internal/ledger"
}

/// Each accepted file in each format that can be written: everything that the target lacks is reported.
#[test]
fn conversions_of_the_corpus_report_every_loss() {
    let dir = tempfile::tempdir().unwrap();
    let targets: Vec<&Format> = formats::writable().filter(|format| !format.has_graph).collect();
    let (mut written, mut turn, mut wrong) = (0, 0, Vec::new());
    for path in files("accept") {
        let Ok(file) = holdall::open(&path) else { continue };
        for format in &targets {
            let to = dir.path().join("to");
            let mut write = WriteOptions::new().with_overwrite(true).with_format(format);
            write.durability = Durability::System;
            let ways = ways(&write);
            // The default options, and one of the others in turn.
            turn = turn % (ways.len() - 1) + 1;
            for (way, options) in [&ways[0], &ways[turn]] {
                let way = *way;
                let place = || format!("{} to {}, {way}", path.display(), format.id);
                let report = match convert(&file, &to, options) {
                    Ok(report) => report,
                    Err(e) if is_refusal(&e) => continue,
                    Err(e) => {
                        wrong.push(format!("{}: {e}", place()));
                        continue;
                    }
                };
                written += 1;
                if way != "plain" {
                    continue;
                }
                // Compared with the contents that a reader finds, without the conversion's own records.
                let target = holdall::open(&to).unwrap();
                let mut expected = Expected::new();
                expected.set_ties(TieRule::Leave);
                let (from, to) = (Side::Index(file.index()), Side::Index(target.index()));
                let mut ledger = compare(from, to, &expected);
                ledger.left_behind.retain(|loss| !is_digest(&loss.lost));
                match ledger.check() {
                    Ok(left) => {
                        let missing = left.iter().find(|what| !report.left_behind.contains(what));
                        wrong.extend(missing.map(|what| format!("{}: {what}", place())));
                    }
                    Err(e) => wrong.push(format!("{}: {e}", place())),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {written}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(written > 1000, "{written}");
}

fn is_digest(lost: &holdall::ledger::LossKind) -> bool {
    matches!(lost, holdall::ledger::LossKind::Digest(_))
}

/// Edits and rewrites of each accepted file whose format can be written.
#[test]
fn edits_of_the_corpus_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for path in files("accept") {
        let copy = dir.path().join(path.file_name().unwrap());
        if !path.is_file() || holdall::open(&path).is_err() {
            continue;
        }
        std::fs::copy(&path, &copy).unwrap();
        let mut write = WriteOptions::new();
        write.durability = Durability::System;
        let edited = Edit::open(&copy).and_then(|edit| {
            let mut edit = edit.with_write(write.clone());
            edit.set_attribute("ledger", Value::Text("set".into()));
            edit.commit().map(drop)
        });
        let compacted = compact(&copy, write).map(drop);
        for (what, done) in [("edit", edited), ("compact", compacted)] {
            if let Err(e) = done.as_ref().map_err(|e| e.clone())
                && !is_refusal(&e)
            {
                wrong.push(format!("{} ({what}): {e}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Writes a file of dense tensors and attributes.
fn write_dense(
    path: &Path,
    tensors: &[(&str, DType, Option<holdall::LogicalType>)],
    keys: &[&str],
) {
    let attributes = keys.iter().map(|key| ((*key).to_owned(), Value::Map(Vec::new()))).collect();
    let options = WriteOptions::new().with_attributes(attributes);
    let specs: Vec<TensorSpec> = tensors
        .iter()
        .map(|(name, dtype, logical)| {
            let mut spec = TensorSpec::dense(*name, *dtype, [2, 2]);
            spec.components[0].logical_type = logical.clone();
            spec
        })
        .collect();
    let mut writer = Writer::create(path, &options).unwrap();
    let order = writer.order(&specs);
    let specs: Vec<TensorSpec> = order.into_iter().map(|at| specs[at].clone()).collect();
    writer.declare(&specs).unwrap();
    for spec in specs {
        let bytes = vec![1; spec.components[0].decoded_len as usize];
        writer.add(spec, &[&bytes]).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn values_among_tensors_follow_the_selection() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from.pth"), dir.path().join("to.safetensors"));
    let tensors = [("model.w", DType::F32, None), ("optimizer.state.0", DType::F32, None)];
    write_dense(&from, &tensors, &["model.config", "optimizer", "optimizer.groups"]);
    let file = holdall::open(&from).unwrap();
    for (include, exclude) in [(&["model.*"][..], &[][..]), (&[][..], &["optimizer.*"][..])] {
        let select = Select::new(include, exclude).unwrap();
        let options = Convert::new(WriteOptions::new().with_overwrite(true)).with_select(select);
        let report = convert(&file, &to, &options).unwrap();
        let written = holdall::open(&to).unwrap();
        // Some libraries refuse files without this attribute.
        let framework = written.attributes().get("format").and_then(Value::as_text);
        assert_eq!(framework, Some("pt"));
        let keys: Vec<&str> = written.attributes().iter().map(|(key, _)| key).collect();
        assert_eq!(
            keys.iter().filter(|key| **key != "format").collect::<Vec<_>>(),
            [&"model.config"]
        );
        let left = report.left_behind.join("; ");
        assert!(left.contains("`optimizer`") && left.contains("`optimizer.groups`"), "{left}");
    }
}

#[test]
fn a_weight_is_not_converted_without_its_scale() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("to.safetensors");
    let f8 = Some(holdall::LogicalType::F8E4M3Fn);
    for (weight, scale) in [
        ("l.weight", "l.weight_scale_inv"),
        ("l.weight", "l.weight_scale"),
        ("l.weight", "l.scale_weight"),
        ("l.weight", "l.weight.scale"),
        ("experts.gate_up_proj", "experts.gate_up_proj_scale"),
    ] {
        let from = dir.path().join("from.safetensors");
        let _ = std::fs::remove_file(&from);
        let others = [("norm", DType::F32, None)];
        let scaled = [(weight, DType::U8, f8.clone()), (scale, DType::F32, None)];
        write_dense(&from, &[&scaled[..], &others[..]].concat(), &[]);
        let file = holdall::open(&from).unwrap();
        let run = |rules: &[&str]| {
            let rules = rules.iter().map(|rule| Cast::new(rule).unwrap());
            let options = Convert::new(WriteOptions::new().with_overwrite(true));
            convert(&file, &to, &options.with_dtypes(rules))
        };
        let e = run(&["bf16"]).unwrap_err();
        assert!(matches!(e.code(), "convert/scaled-weight" | "convert/cannot-hold"), "{e}");
        let message = e.message();
        assert!(message.contains(weight) && message.contains(scale) && !to.exists(), "{e}");
        // Others are cast as requested, and a copy is not a cast.
        let keep = [format!("{weight}=keep"), format!("{scale}=keep")];
        assert_eq!(run(&[&keep[0], &keep[1], "bf16"]).unwrap().cast, 1);
        assert_eq!(run(&["norm=bf16"]).unwrap().cast, 1);
        std::fs::remove_file(&to).unwrap();
    }
}

#[test]
fn attributes_of_a_quantized_tensor_outlive_its_parameters() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from.zt"), dir.path().join("to.zt"));
    let attributes = |spec: &mut TensorSpec| {
        spec.attributes.set("bits", Value::Integer(4));
        spec.attributes.set("group_size", Value::Integer(4));
        spec.attributes.set("trained", Value::Text("long".into()));
    };
    let mut q = TensorSpec::dense("q", DType::I32, [2, 8]);
    q.layout = Layout::QuantizedGroup;
    q.components = vec![
        ComponentSpec::new(Role::PackedWeight, DType::I32, 8),
        ComponentSpec::new(Role::Scales, DType::F32, 16),
        ComponentSpec::new(Role::Zeros, DType::U8, 4),
    ];
    attributes(&mut q);
    let mut writer = Writer::create(&from, &WriteOptions::new()).unwrap();
    writer.add(q, &[&[1; 8], &[0; 16], &[8; 4]]).unwrap();
    writer.finish().unwrap();
    let file = holdall::open(&from).unwrap();
    let report = convert(&file, &to, &Convert::new(WriteOptions::new()).with_dense()).unwrap();
    assert_eq!(report.left_behind, [""; 0]);
    let written = holdall::open(&to).unwrap();
    let keys: Vec<_> =
        written.tensor("q").unwrap().attributes().iter().map(|(key, _)| key.to_owned()).collect();
    assert_eq!(keys, ["trained"]);
}

#[test]
fn digests_that_the_target_cannot_store_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from.zt"), dir.path().join("to"));
    write_source(&from, WriteOptions::new().with_digest(Some(Algorithm::Sha256))).unwrap();
    let file = holdall::open(&from).unwrap();
    let left = |format: &str, options: fn(Convert) -> Convert| {
        let write = WriteOptions::new().with_overwrite(true);
        let write = write.with_format(formats::by_name(format).unwrap());
        convert(&file, &to, &options(Convert::new(write).with_dense())).unwrap().left_behind
    };
    for format in ["ztensor", "safetensors", "npz"] {
        let found = left(format, |options| options);
        assert!(found.iter().any(|what| what.contains("sha256")), "{format}: {found:?}");
    }
    // Requested changes are not left behind.
    assert!(
        !left("ztensor", |_| {
            Convert::new(
                WriteOptions::new()
                    .with_overwrite(true)
                    .with_digest(None)
                    .with_format(formats::by_name("ztensor").unwrap()),
            )
        })
        .iter()
        .any(|what| what.contains("sha256"))
    );
}
