//! Writes `examples/tiny.zt`, the small file that the README inspects: a toy language model with most
//! features of zTensor 1.2.
//!
//! ```text
//! cargo run -p holdall --example make_example [-- PATH]
//! ```
//!
//! The output is always the same; a test compares it with the file in the repository.

use half::{bf16, f16};
use holdall::{
    Attributes, ComponentRef, ComponentSpec, DType, Edit, Layout, LogicalType, OpenOptions, Result,
    Role, TensorSpec, Value, WriteOptions, Writer, formats,
};
use std::path::Path;

const VOCABULARY: u64 = 64;
const HIDDEN: u64 = 16;
const INNER: u64 = 32;
const LAYERS: u64 = 4;

#[allow(dead_code)] // The test that includes this file calls `make` itself.
fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "examples/tiny.zt".into());
    make(Path::new(&path))?;
    println!("wrote {path}");
    Ok(())
}

/// Writes the file to `path`, replacing an existing one.
pub(crate) fn make(path: &Path) -> Result<()> {
    let options = WriteOptions::new().with_attributes(file_attributes()).with_overwrite(true);
    let mut writer = Writer::create(path, &options)?;
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);

    let embedding = TensorSpec::dense("embed.weight", DType::Bf16, [VOCABULARY, HIDDEN]);
    writer.add(embedding, &[&noise.bf16(VOCABULARY * HIDDEN)])?;
    for layer in 0..LAYERS {
        let name = |part: &str| format!("layers.{layer}.{part}.weight");
        for part in ["attn.q", "attn.k", "attn.v", "attn.o"] {
            let spec = TensorSpec::dense(name(part), DType::Bf16, [HIDDEN, HIDDEN]);
            writer.add(spec, &[&noise.bf16(HIDDEN * HIDDEN)])?;
        }
        for (part, shape) in [("mlp.up", [INNER, HIDDEN]), ("mlp.down", [HIDDEN, INNER])] {
            // One byte per element; the logical type gives its meaning.
            let mut spec = TensorSpec::dense(name(part), DType::U8, shape);
            spec.components[0].logical_type = Some(LogicalType::F8E4M3Fn);
            spec.attributes.set("scale", Value::Float(0.03125));
            writer.add(spec, &[&noise.f8(HIDDEN * INNER)])?;
        }
        let spec = TensorSpec::dense(name("norm"), DType::F32, [HIDDEN]);
        writer.add(spec, &[&[1f32.to_le_bytes(); HIDDEN as usize].concat()])?;
    }
    add_quantized(&mut writer, &mut noise)?;
    add_sparse(&mut writer, &mut noise)?;

    // Tied weights: a separate tensor that shares the bytes of another.
    let mut head = TensorSpec::dense("lm_head.weight", DType::Bf16, [VOCABULARY, HIDDEN]);
    head.components[0].shares =
        Some(ComponentRef { tensor: "embed.weight".into(), role: Role::Data });
    writer.add(head, &[])?;
    writer.finish()?;

    add_compressed(path)
}

fn file_attributes() -> Attributes {
    let text = |s: &str| Value::Text(s.into());
    let number = |n: u64| Value::Integer(n.into());
    let config = [("hidden", HIDDEN), ("inner", INNER), ("layers", LAYERS)];
    let config = config.map(|(key, n)| (text(key), number(n))).to_vec();
    let mut attributes = Attributes::new();
    attributes.set("config", Value::Map(config));
    attributes.set("license", text("MIT OR Apache-2.0"));
    attributes.set("model", text("tiny"));
    attributes.set("trained", Value::Bool(false));
    attributes
}

/// 4-bit weights: eight in an i32, a scale and a zero point for each group of 16.
fn add_quantized<S: holdall::Sink>(writer: &mut Writer<S>, noise: &mut Noise) -> Result<()> {
    const GROUP: u64 = 16;
    let count = INNER * HIDDEN;
    let mut spec = TensorSpec::dense("experts.gate.weight", DType::I32, [INNER, HIDDEN]);
    spec.layout = Layout::QuantizedGroup;
    spec.attributes.set("bits", Value::Integer(4));
    spec.attributes.set("group_size", Value::Integer(GROUP.into()));
    spec.attributes.set("packing", Value::Text("8_per_i32".into()));
    let groups = count / GROUP;
    spec.components = vec![
        ComponentSpec::new(Role::PackedWeight, DType::I32, count / 8 * 4),
        ComponentSpec::new(Role::Scales, DType::F16, groups * 2),
        ComponentSpec::new(Role::Zeros, DType::F16, groups * 2),
    ];
    let words: Vec<u8> = (0..count / 8).flat_map(|_| noise.next().to_le_bytes()).collect();
    let scales = f16::from_f32(0.0625).to_le_bytes().repeat(groups as usize);
    let zeros = f16::from_f32(8.0).to_le_bytes().repeat(groups as usize);
    writer.add(spec, &[&words, &scales, &zeros])
}

/// A matrix of zeros except for two values in each row, as compressed rows.
fn add_sparse<S: holdall::Sink>(writer: &mut Writer<S>, noise: &mut Noise) -> Result<()> {
    let values: Vec<u8> = (0..2 * INNER).flat_map(|_| noise.unit().to_le_bytes()).collect();
    let columns = (0..INNER).flat_map(|row| [row % 8, 8 + row * 5 % 8]);
    let indices: Vec<u8> = columns.flat_map(u64::to_le_bytes).collect();
    let indptr: Vec<u8> = (0..=INNER).flat_map(|row| (2 * row).to_le_bytes()).collect();
    let component = |role, dtype, bytes: &[u8]| ComponentSpec::new(role, dtype, bytes.len() as u64);
    let mut spec = TensorSpec::dense("router.weight", DType::F32, [INNER, HIDDEN]);
    spec.layout = Layout::SparseCsr;
    spec.components = vec![
        component(Role::Values, DType::F32, &values),
        component(Role::Indices, DType::U64, &indices),
        component(Role::Indptr, DType::U64, &indptr),
    ];
    writer.add(spec, &[&values, &indices, &indptr])
}

/// Appends two compressed tensors: write options apply to all tensors of a file, so these come from a
/// separate file in memory, and are copied as they are.
fn add_compressed(path: &Path) -> Result<()> {
    let mut options = WriteOptions::new().with_zstd(19);
    if let Some(ztensor) = formats::by_name("ztensor") {
        options = options.with_format(ztensor);
    }
    let mut writer = Writer::stream(Vec::new(), &options)?;
    let positions: Vec<u8> = (0..256i64).flat_map(i64::to_le_bytes).collect();
    writer.add(TensorSpec::dense("position_ids", DType::I64, [1, 256]), &[&positions])?;
    let mask: Vec<u8> = (0..64).flat_map(|i| (0..64).map(move |j| u8::from(j <= i))).collect();
    writer.add(TensorSpec::dense("causal_mask", DType::Bool, [64, 64]), &[&mask])?;
    let compressed = OpenOptions::new().open_bytes(writer.finish()?, "compressed tensors")?;

    let mut edit = Edit::open(path)?;
    for tensor in compressed.tensors() {
        edit.append(&tensor, tensor.name())?;
    }
    edit.commit()?;
    Ok(())
}

/// A pseudorandom generator with the same sequence on every machine.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }

    /// Returns a number from -1 to 1.
    fn unit(&mut self) -> f32 {
        (self.next() >> 8) as f32 / (1 << 23) as f32 - 1.0
    }

    fn bf16(&mut self, count: u64) -> Vec<u8> {
        (0..count).flat_map(|_| bf16::from_f32(self.unit() / 4.0).to_le_bytes()).collect()
    }

    /// Returns codes of `f8_e4m3fn` numbers from -2 to 2.
    fn f8(&mut self, count: u64) -> Vec<u8> {
        let code = |n: u32| ((n >> 24) as u8 & 0x80) | (n % 0x40) as u8;
        (0..count).map(|_| code(self.next())).collect()
    }
}
