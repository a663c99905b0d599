//! GGUF by Holdall, and the workload files in GGUF.

use crate::files::Workload::{BlocksGguf, LlamaSafetensors};
use crate::rows::gguf::TYPES;
use crate::rows::save::Model;
use crate::timing::{Outcome, repeated, timed};
use crate::worker::Context;
use crate::workload::XorShift;
use anyhow::{Context as _, Result};
use holdall::{
    Attributes, BlockType, Convert, DType, Durability, Layout, TensorSpec, Value, WriteOptions,
    Writer, formats,
};
use std::path::Path;

/// Dequantizes the named tensor.
pub fn dequantise(c: &Context, name: &str) -> Result<Outcome> {
    let tensor = holdall::open(c.path(BlocksGguf))?.tensor(name)?;
    let (made, mut outcome) = repeated(5, || tensor.to_dense())?;
    let mut check = c.check();
    check.tensor(name, made.bytes());
    outcome.check = check.value();
    Ok(outcome)
}

/// Writes a model from memory, tensor by tensor. The file is renamed into place when it is complete.
pub fn save(c: &Context) -> Result<Outcome> {
    let model = Model::load(c)?;
    let views = model.views()?;
    let output = c.output()?;
    let options = options()?.with_durability(Durability::System);
    let ((), outcome) = timed(|| -> Result<()> {
        let specs = views.iter().map(|(name, view)| {
            let shape: Vec<u64> = view.shape().iter().map(|&d| d as u64).collect();
            TensorSpec::dense(name, DType::Bf16, shape)
        });
        let specs: Vec<TensorSpec> = specs.collect();
        let mut writer = Writer::create(&output, &options)?;
        writer.declare(&specs)?;
        for (spec, (_, view)) in specs.into_iter().zip(&views) {
            writer.add(spec, &[view.data()])?;
        }
        writer.finish()?;
        Ok(())
    })?;
    Ok(outcome)
}

fn options() -> Result<WriteOptions> {
    let gguf = formats::by_name("gguf").context("no GGUF")?;
    Ok(WriteOptions::new().with_format(gguf).with_digest(None))
}

/// Writes the Llama shapes, read from the safetensors file in the same folder.
pub fn write_llama(path: &Path) -> Result<()> {
    let source = LlamaSafetensors.path(path.parent().context("no folder")?);
    holdall::convert(&holdall::open(source)?, path, &Convert::new(options()?))?;
    Ok(())
}

/// Writes one small tensor, and the tokens of a large vocabulary.
pub fn write_tokens(path: &Path, quick: bool) -> Result<()> {
    let count = if quick { 1_000 } else { 128_256 };
    let mut attributes = Attributes::new();
    let mut add = |key: &str, one: &dyn Fn(u32) -> Value| {
        attributes
            .push(format!("tokenizer.ggml.{key}"), Value::Array((0..count).map(one).collect()));
    };
    add("tokens", &|i| Value::Text(format!("token {i}")));
    add("scores", &|i| Value::Float(-f64::from(i)));
    add("token_type", &|i| Value::Integer((i % 3 + 1).into()));
    let options = options()?.with_attributes(attributes);
    let spec = TensorSpec::dense("w", DType::F32, [4]);
    let mut writer = Writer::create(path, &options)?;
    writer.declare(std::slice::from_ref(&spec))?;
    writer.add(spec, &[&[0; 16]])?;
    writer.finish()?;
    Ok(())
}

/// Writes a tensor of 4096 × 4096 elements in blocks of each type: random bytes with finite scales.
pub fn write_blocks(path: &Path, quick: bool) -> Result<()> {
    let side = if quick { 256 } else { 4096 };
    let specs: Vec<(TensorSpec, &BlockType)> = TYPES
        .iter()
        .map(|name| {
            let of = BlockType::by_name(name).context("no such type")?;
            let len = of.stored_len(&[side, side]).context("not whole blocks")?;
            let mut spec = TensorSpec::dense(*name, DType::U8, [len]);
            (spec.shape, spec.layout) = (vec![side, side], Layout::Blocks(of));
            Ok((spec, of))
        })
        .collect::<Result<_>>()?;
    let mut writer = Writer::create(path, &options()?)?;
    writer.declare(&specs.iter().map(|(spec, _)| spec.clone()).collect::<Vec<_>>())?;
    let mut random = XorShift(17);
    for (spec, of) in specs {
        let len = spec.components[0].decoded_len as usize;
        let words = (0..len.div_ceil(8)).flat_map(|_| random.next().to_le_bytes());
        let mut bytes: Vec<u8> = words.take(len).collect();
        for block in bytes.chunks_exact_mut(of.bytes as usize) {
            tame(of, block);
        }
        writer.add(spec, &[&bytes])?;
    }
    writer.finish()?;
    Ok(())
}

/// Clears the highest exponent bit of f16 scales, and makes power-of-two scales small.
fn tame(of: &BlockType, block: &mut [u8]) {
    match of.as_str() {
        "mxfp4" => block[0] = 100 + block[0] % 40,
        "nvfp4" => {}
        // The scale consists of the highest bits of four numbers.
        "iq1_m" => block[55] &= 0xbf,
        _ => {
            for (start, width, count) in of.fields().unwrap_or(&[(0, 2, 1)]) {
                for at in (*start..start + width * count).step_by(*width).filter(|_| *width == 2) {
                    block[at + 1] &= 0xbf;
                }
            }
        }
    }
}
