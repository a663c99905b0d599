//! The snippets of `docs/rust.md` and the README, as a program that runs.
//!
//! ```text
//! cargo run -p holdall --example guide
//! ```
//!
//! A test runs it, and compares every snippet in the docs with these functions.
#![allow(dead_code)] // The test that includes this file calls `run` itself.

use holdall::layout::Computed as _;
use holdall::scan::Verdict;
use holdall::source::{ByteSource, MemorySource};
use holdall::{
    Cancel, Cast, Check, Convert, DType, DiffOptions, Edit, EncodeOptions, ErrorKind, FloatType,
    Io, Limits, LoadOptions, OpenOptions, Overflow, Rename, Role, Select, Sharing, StatsOptions,
    TensorSpec, Value, VerifyOptions, Work, WriteOptions, Writer, formats,
};
use std::path::Path;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    run(Path::new("examples/tiny.zt"), folder.path())
}

/// Runs all snippets in `folder`, where `example` is `model.zt`.
pub(crate) fn run(example: &Path, folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::copy(example, folder.join("model.zt"))?;
    std::env::set_current_dir(folder)?;
    open()?;
    options()?;
    memory()?;
    dense()?;
    rows()?;
    sparse()?;
    quantized()?;
    pieces()?;
    load()?;
    read_into()?;
    write()?;
    tied()?;
    stream()?;
    convert()?;
    other_types()?;
    refused()?;
    edit()?;
    verify()?;
    scan()?;
    diff()?;
    stats()?;
    errors();
    limits()?;
    source()?;
    #[cfg(feature = "carton")]
    packages()?;
    Ok(())
}

fn open() -> holdall::Result<()> {
    let file = holdall::open("model.zt")?;
    println!("{} {}, {} tensors", file.format(), file.version(), file.len());
    for tensor in file.tensors() {
        println!("{} {:?} {}", tensor.name(), tensor.shape(), tensor.layout());
    }
    let w = file.tensor("embed.weight")?.dense()?.to_f32()?;
    println!("{:?}", &w[..4]);
    Ok(())
}

fn options() -> holdall::Result<()> {
    let options = OpenOptions::new().with_io(Io::Read).with_check(Check::All);
    let file = options.open("model.zt")?;
    assert_eq!(file.io(), Io::Read);
    Ok(())
}

fn memory() -> Result<(), Box<dyn std::error::Error>> {
    let bytes = std::fs::read("model.zt")?;
    let file = OpenOptions::new().open_bytes(bytes, "a download")?;
    assert_eq!(file.name(), "a download");
    Ok(())
}

fn dense() -> holdall::Result<()> {
    let file = holdall::open("model.zt")?;

    // Borrowed from the map, without a copy.
    let norm = file.tensor("layers.0.norm.weight")?.dense()?;
    let elements: &[f32] = norm.as_slice()?;
    assert_eq!(elements, [1.0; 16]);

    // A copy of the same type; works for any source of bytes, on any machine.
    let elements: Vec<f32> = norm.to_vec()?;
    assert_eq!(elements.len(), 16);

    // Numbers of any type as f32: bf16 here, then f8_e4m3fn.
    let embedding: Vec<f32> = file.tensor("embed.weight")?.dense()?.to_f32()?;
    let up: Vec<f32> = file.tensor("layers.0.mlp.up.weight")?.dense()?.to_f32()?;
    assert_eq!((embedding.len(), up.len()), (64 * 16, 32 * 16));
    Ok(())
}

fn rows() -> holdall::Result<()> {
    let file = holdall::open("model.zt")?;
    let rows = file.tensor("embed.weight")?.rows(10..12)?;
    assert_eq!(rows.shape(), [2, 16]);
    Ok(())
}

fn sparse() -> holdall::Result<()> {
    let file = holdall::open("model.zt")?;
    let router = file.tensor("router.weight")?;

    let csr = router.csr()?;
    let values: &[f32] = csr.values().as_slice()?;
    for (entry, value) in csr.entries().zip(values).take(2) {
        println!("row {}, column {}: {value}", entry.row, entry.column);
    }

    let dense = router.to_dense()?;
    assert_eq!(dense.shape(), [32, 16]);
    Ok(())
}

fn quantized() -> holdall::Result<()> {
    let file = holdall::open("model.zt")?;
    let gate = file.tensor("experts.gate.weight")?.quantized()?;
    assert_eq!((gate.packing().bits(), gate.scales().len()), (4, 32));

    // All elements, or a range of them in row-major order.
    let all: Vec<f32> = gate.dequantize()?;
    let mut some = [0.0; 8];
    gate.dequantize_range(16..24, &mut some)?;
    assert_eq!(some, all[16..24]);
    Ok(())
}

fn pieces() -> holdall::Result<()> {
    let file = holdall::open("model.zt")?;
    let mut total = 0;
    for piece in file.tensor("causal_mask")?.pieces(&Role::Data)? {
        total += piece?.len();
    }
    assert_eq!(total, 64 * 64);
    Ok(())
}

fn load() -> holdall::Result<()> {
    let file = holdall::open("model.zt")?;

    let all = file.load_all()?;
    if let Some(mask) = all.get("causal_mask") {
        assert_eq!(mask.bytes(&Role::Data)?.len(), 64 * 64);
    }

    let cancel = Cancel::new();
    let work = Work::new()
        .with_threads(2)
        .with_cancel(&cancel)
        .on_progress(|done, total| eprintln!("{done} of {total} bytes"));
    let options = LoadOptions::new().with_work(work).with_check(Check::All);
    let some = file.load(["embed.weight", "lm_head.weight"], &options)?;
    assert_eq!(some.len(), 2);
    Ok(())
}

fn read_into() -> holdall::Result<()> {
    let file = holdall::open("model.zt")?;
    let mut buffer = vec![0; 64 * 64];
    file.tensor("causal_mask")?.read_into(&Role::Data, &mut buffer)?;
    assert_eq!(buffer[..2], [1, 0]);
    Ok(())
}

fn write() -> holdall::Result<()> {
    let options = WriteOptions::new().with_zstd(9).with_overwrite(true);
    let mut writer = Writer::create("new.zt", &options)?;

    // Bytes in pieces of any length.
    writer.tensor(TensorSpec::dense("w", DType::F32, [1000, 2]))?;
    for i in 0..1000 {
        writer.write(&(i as f32).to_le_bytes())?;
        writer.write(&1f32.to_le_bytes())?;
    }

    // All at once.
    writer.add(TensorSpec::dense("scale", DType::F32, []), &[&0.5f32.to_le_bytes()])?;

    // From a reader.
    let zeros = std::io::Read::take(std::io::repeat(0), 1 << 20);
    writer.add_from(TensorSpec::dense("bias", DType::U8, [1 << 20]), zeros)?;

    // The file appears under its name only now.
    writer.finish()
}

fn tied() -> holdall::Result<()> {
    let mut writer = Writer::create("tied.zt", &WriteOptions::new())?;
    writer.add(TensorSpec::dense("embed", DType::U8, [4]), &[&[1, 2, 3, 4]])?;

    let mut head = TensorSpec::dense("head", DType::U8, [4]);
    head.components[0].shares =
        Some(holdall::ComponentRef { tensor: "embed".into(), role: Role::Data });
    writer.add(head, &[])?;
    writer.finish()
}

fn stream() -> holdall::Result<()> {
    let mut options = WriteOptions::new();
    if let Some(safetensors) = formats::by_name("safetensors") {
        options = options.with_format(safetensors);
    }
    let mut writer = Writer::stream(Vec::new(), &options)?;

    // The header comes first, so all tensors are declared before the first is written.
    let tensors = ["a", "b"].map(|name| TensorSpec::dense(name, DType::F16, [8]));
    writer.declare(&tensors)?;
    for tensor in tensors {
        writer.add(tensor, &[&[0; 16]])?;
    }
    let bytes: Vec<u8> = writer.finish()?;
    assert!(bytes.len() > 32);
    Ok(())
}

fn convert() -> holdall::Result<()> {
    let file = holdall::open("model.zt")?;
    let write = WriteOptions::new()
        .with_zstd(3)
        .with_encode(EncodeOptions::new().with_version("1.2").with_align(4096));
    let options = Convert::new(write)
        .reencode()
        .with_select(Select::new(&["layers.*"], &["*.norm.*"])?)
        .with_renames(vec![Rename::new("layers.*=blocks.*")?])
        .with_sharing(Sharing::Dedupe);
    let report = holdall::convert(&file, "blocks.zt", &options)?;
    println!("{} tensors, {} bytes", report.tensors, report.target_len);
    Ok(())
}

fn other_types() -> holdall::Result<()> {
    let file = holdall::open("model.zt")?;
    let options = Convert::new(WriteOptions::new())
        .with_dtype(FloatType::F16)
        .with_dtypes([Cast::new("*.norm.*=keep")?, Cast::new("layers.*=f8_e4m3fn")?])
        .with_overflow(Overflow::Saturate);
    let report = holdall::convert(&file, "small.zt", &options)?;
    for o in &report.overflows {
        println!("{}: {} numbers beyond {}", o.name, o.count, o.to);
    }
    Ok(())
}

fn refused() -> holdall::Result<()> {
    let file = holdall::open("model.zt")?;
    let options = Convert::new(WriteOptions::new());
    let e = holdall::convert(&file, "model.safetensors", &options).unwrap_err();
    assert_eq!(e.code(), "convert/cannot-hold");
    println!("{e}\n{:?}", e.remedies());

    // As dense f32 tensors, with their zeros, the target can hold them.
    let report = holdall::convert(&file, "model.safetensors", &options.with_dense())?;
    assert_eq!(report.tensors, 34);
    Ok(())
}

fn edit() -> holdall::Result<()> {
    let other = holdall::open("new.zt")?;
    let mut edit = Edit::open("model.zt")?;
    edit.set_attribute("epoch", Value::Integer(3));
    edit.remove("causal_mask")?;
    edit.rename("lm_head.weight", "head.weight")?;
    edit.append(&other.tensor("w")?, "extra.weight")?;
    // The file has not been changed yet.
    let report = edit.commit()?;
    println!("in place: {}, {} bytes unused", report.in_place, report.unused_len);

    holdall::compact("model.zt", WriteOptions::new())?;
    Ok(())
}

fn verify() -> holdall::Result<()> {
    let file = holdall::open("model.zt")?;
    let report = holdall::verify(&file, &VerifyOptions::new())?;
    for finding in &report.findings {
        println!("{finding}");
    }
    for gap in &report.unverified {
        println!("not verified: {} ({} of them)", gap.message, gap.count);
    }
    assert!(report.is_sound());
    Ok(())
}

fn scan() -> holdall::Result<()> {
    std::fs::create_dir_all("downloads").unwrap();
    std::fs::write("downloads/model.pkl", b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R.").unwrap();
    let found = holdall::scan("downloads", &OpenOptions::new(), &Work::new())?;
    for pickle in found.pickles.iter().filter(|p| p.verdict != Verdict::Safe) {
        let names: Vec<&str> = pickle.imports.iter().map(|i| i.name.as_str()).collect();
        println!("{}: {}: {names:?}", pickle.source, pickle.verdict);
    }
    assert_eq!(found.verdict(), Verdict::Dangerous);
    Ok(())
}

fn diff() -> holdall::Result<()> {
    let (a, b) = (holdall::open("model.zt")?, holdall::open("model.safetensors")?);
    let diff = holdall::diff(&a, &b, &DiffOptions::new().with_tolerance(1e-3, 1e-6))?;
    for tensor in &diff.changed {
        println!("{}: {:?}", tensor.name, tensor.values.as_ref().map(|v| v.max_abs));
    }
    for layer in &diff.layers {
        println!("{:?}: {:?} of its values, in {}", layer.name, layer.relative, layer.share());
    }
    assert!(!diff.is_identical());
    Ok(())
}

fn stats() -> holdall::Result<()> {
    let file = holdall::open("model.zt")?;
    let stats = holdall::stats(&file.tensor("embed.weight")?, &StatsOptions::new())?;
    if let (Some(min), Some(max), Some(mean), Some(std)) =
        (stats.min, stats.max, stats.mean, stats.std)
    {
        println!("{mean} ± {std}, from {} to {}, {} NaN", min.to_f64(), max.to_f64(), stats.nan);
    }
    Ok(())
}

fn errors() {
    match holdall::open("model.bin") {
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::Io => println!("{e}"),
        Err(e) if e.code() == "format/unknown" => println!("no tensor file: {e}"),
        Err(e) => println!("{e} (whose fault: {:?})", e.kind()),
    }
}

fn limits() -> holdall::Result<()> {
    let mut limits = Limits::default();
    limits.tensors = 100_000;
    limits.decoded_len = 1 << 30;
    let file = OpenOptions::new().with_limits(limits).open("model.zt")?;
    assert_eq!(file.limits().tensors, 100_000);
    Ok(())
}

fn source() -> Result<(), Box<dyn std::error::Error>> {
    let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new(std::fs::read("model.zt")?));
    let file = OpenOptions::new().open_source(source, "from elsewhere")?;
    assert!(!file.is_empty());
    Ok(())
}

#[cfg(feature = "carton")]
fn packages() -> holdall::Result<()> {
    use holdall::carton::{Description, FileContent, Package, Packer, Runner, TensorValue};
    let mut description = Description::default();
    description.model_name = Some("Tiny".into());
    description.runner = Runner::default();
    description.runner.name = "noop".into();
    description.runner.framework_version = "=1.0.0".into();
    let x = TensorValue::from_elements(vec![2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
    let report = Packer::new(description)
        .with_file("model/model.zt", FileContent::Path("model.zt".into()))
        .with_tensor("x", x)
        .write("model.carton", false)?;

    let package = Package::open("model.carton")?;
    assert_eq!(package.hash(), Some(report.hash));
    let text = package.read("carton.toml")?;
    let weights = package.open_file("model/model.zt")?;
    let x = package.value("x")?;
    package.unpack("unpacked")?;
    println!("{} bytes, {} tensors, {:?}", text.len(), weights.len(), x.shape());
    Ok(())
}
