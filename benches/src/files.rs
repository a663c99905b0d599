//! The workload files: their names, and how each is written.
//!
//! Each peer reads files of its own format that it wrote itself. A file is written under a temporary name, flushed to
//! the disk and then renamed, so that an existing file is complete.

use crate::args::Args;
use crate::datasets;
use crate::ours;
use crate::pairs;
use crate::peers::{python, updates, zipnn};
use crate::rows::Comparison;
use crate::workload::{ALL_LAYERS, LAYERS, Spec, llama, many};
use anyhow::{Context, Result, bail};
use holdall::Durability;
use safetensors::tensor::{Dtype, Metadata, TensorInfo, View};
use std::borrow::Cow;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The compression level.
pub const LEVEL: i32 = 3;

/// A workload file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// Llama-3.2-1B shapes with 4 of 16 layers, 1.01 GB, in safetensors.
    LlamaSafetensors,
    /// The same in zTensor 1.2, written by Holdall: frames of 2 MB and a seek table, level 3, crc32c.
    LlamaSeekable,
    /// The same in zTensor 1.2, raw, crc32c digests.
    LlamaZt12,
    /// The same with sha256 digests.
    LlamaZt12Sha256,
    /// The same with every tensor as one zstd frame of level 3, as the `ztensor` crate writes it.
    LlamaZt12Zstd,
    /// The same in byte planes.
    LlamaPlanes,
    /// The same compressed by ZipNN, one buffer a tensor.
    LlamaZipNn,
    /// The same model after a step of reinforcement learning, in safetensors: less than 1 % of the elements differ.
    LlamaStep,
    /// The delta to it, made by Holdall.
    LlamaStepDelta,
    /// The delta to it in the layout of slime, SGLang and miles: xor, one zstd frame a tensor.
    LlamaStepXor,
    /// The delta to it in TRL's layout: gaps and values.
    LlamaStepGaps,
    /// The same model after a fine-tune, in safetensors: about a quarter of the elements differ.
    LlamaTuned,
    /// The delta to it, made by Holdall.
    LlamaTunedDelta,
    /// The delta to it in the layout of slime, SGLang and miles.
    LlamaTunedXor,
    /// The delta to it in TRL's layout.
    LlamaTunedGaps,
    /// The same in zTensor 2.1, canonical form (raw, 64 KB alignment, xxh3 digests).
    LlamaZt21,
    /// The same with the encoding `zt.zstd-seekable/1`: frames of 1 MB and a seek table.
    LlamaZt21Zstd,
    /// The same in GGUF.
    LlamaGguf,
    /// The same as float16, written by `torch.save`.
    LlamaTorch,
    /// As float16, written by `numpy.savez`.
    LlamaNpz,
    /// Only its embedding, 525 MB, as float16, written by `numpy.save`.
    EmbeddingNpy,
    /// As float16, written by h5py as contiguous datasets.
    LlamaHdf5,
    /// As float16, written by onnx as initializers of an otherwise empty graph.
    LlamaOnnx,
    /// The tokens of a large vocabulary in GGUF.
    TokensGguf,
    /// 4096 × 4096 elements in blocks of each type in GGUF.
    BlocksGguf,
    /// All 16 layers, 2.47 GB, in safetensors. The data is a hole: only the table of contents is read.
    LlamaHoles,
    /// 51 000 tensors of 10 KB, 522 MB, in safetensors.
    SmallSafetensors,
    SmallZt12,
    /// Aligned to 4 KB instead of 64 KB, which would make it 3.3 GB.
    SmallZt21,
    /// 200 000 tensors of 64 bytes.
    TinySafetensors,
    TinyZt12,
    /// Aligned to 4 KB.
    TinyZt21,
    /// A folder with the index of 200 safetensors files of 500 such tensors each.
    Shards100k,
    /// A model, 80 million records and 20 million texts, 10 GB of Metatensor. The data is a hole.
    Holes10G,
    /// 100 000 references to tensors that the schema describes once. The data is a hole.
    Header100k,
    /// The same, each tensor described separately.
    Header100kNamed,
    /// 1 million records of 64 bytes in Metatensor.
    Samples,
    /// 1 million texts of 40 bytes as a blob in Metatensor.
    Texts,
    /// The same as members of records.
    TextRecords,
    /// The same as a `Utf8` column of an Arrow IPC file.
    TextsArrow,
    /// The same as a `LargeUtf8` column.
    TextsArrowLarge,
    /// 1 million records of numbers and strings as JSON lines.
    Lines,
    /// A package of 2,000 files, 2 GB, with the folder it was packed from next to it.
    Package2G,
}

use Workload::*;

impl Workload {
    pub fn path(self, dir: &Path) -> PathBuf {
        dir.join(match self {
            LlamaSafetensors => "llama.safetensors",
            LlamaSeekable => "llama-seekable.zt",
            LlamaZt12 => "llama.zt",
            LlamaZt12Sha256 => "llama-sha256.zt",
            LlamaZt12Zstd => "llama-zstd.zt",
            LlamaPlanes => "llama-planes.zt",
            LlamaZipNn => "llama.znn",
            LlamaStep => "llama-step.safetensors",
            LlamaStepDelta => "llama-step.delta.zt",
            LlamaStepXor => "llama-step.xor.safetensors",
            LlamaStepGaps => "llama-step.gaps.safetensors",
            LlamaTuned => "llama-tuned.safetensors",
            LlamaTunedDelta => "llama-tuned.delta.zt",
            LlamaTunedXor => "llama-tuned.xor.safetensors",
            LlamaTunedGaps => "llama-tuned.gaps.safetensors",
            LlamaZt21 => "llama.21.zt",
            LlamaZt21Zstd => "llama-zstd.21.zt",
            LlamaGguf => "llama.gguf",
            LlamaTorch => "llama.pt",
            LlamaNpz => "llama.npz",
            EmbeddingNpy => "embedding.npy",
            LlamaHdf5 => "llama.h5",
            LlamaOnnx => "llama.onnx",
            TokensGguf => "tokens.gguf",
            BlocksGguf => "blocks.gguf",
            LlamaHoles => "llama-holes.safetensors",
            SmallSafetensors => "small51k.safetensors",
            SmallZt12 => "small51k.zt",
            SmallZt21 => "small51k.21.zt",
            TinySafetensors => "tiny200k.safetensors",
            TinyZt12 => "tiny200k.zt",
            TinyZt21 => "tiny200k.21.zt",
            Shards100k => "shards100k",
            Holes10G => "holes-10g.mt",
            Header100k => "header-100k.mt",
            Header100kNamed => "header-100k-named.mt",
            Samples => "samples.mt",
            Texts => "texts.mt",
            TextRecords => "text-records.mt",
            TextsArrow => "texts.arrow",
            TextsArrowLarge => "texts-large.arrow",
            Lines => "lines.ndjson",
            Package2G => "package-2g.carton",
        })
    }

    /// Returns the paths of the base and the target of a delta.
    fn pair(self, dir: &Path) -> Result<[PathBuf; 2]> {
        let target = match self {
            LlamaStepDelta | LlamaStepXor | LlamaStepGaps => LlamaStep,
            LlamaTunedDelta | LlamaTunedXor | LlamaTunedGaps => LlamaTuned,
            other => bail!("{other:?} is not a delta"),
        };
        Ok([LlamaSafetensors.path(dir), target.path(dir)])
    }

    /// Returns the tensors of a file of tensors.
    fn specs(self, quick: bool) -> Vec<Spec> {
        match self {
            LlamaSafetensors | LlamaSeekable | LlamaZt12 | LlamaZt12Sha256 | LlamaZt12Zstd
            | LlamaZt21 | LlamaZt21Zstd | LlamaGguf => llama(LAYERS, quick),
            LlamaHoles => llama(ALL_LAYERS, quick),
            SmallSafetensors | SmallZt12 | SmallZt21 => {
                many(if quick { 2_000 } else { 51_000 }, &[40, 128])
            }
            TinySafetensors | TinyZt12 | TinyZt21 => {
                many(if quick { 5_000 } else { 200_000 }, &[32])
            }
            Shards100k => many(if quick { 2_000 } else { 100_000 }, &[32]),
            Holes10G | Header100k | Header100kNamed | Samples | Texts | TextRecords
            | TextsArrow | TextsArrowLarge | Lines | Package2G | TokensGguf | BlocksGguf
            | LlamaTorch | LlamaNpz | EmbeddingNpy | LlamaHdf5 | LlamaOnnx | LlamaPlanes
            | LlamaZipNn | LlamaStep | LlamaStepDelta | LlamaStepXor | LlamaStepGaps
            | LlamaTuned | LlamaTunedDelta | LlamaTunedXor | LlamaTunedGaps => Vec::new(),
        }
    }

    fn write(self, path: &Path, quick: bool) -> Result<()> {
        use ztensor12::{Checksum, Compression};
        let specs = self.specs(quick);
        match self {
            LlamaSafetensors | SmallSafetensors | TinySafetensors => {
                let views = specs.iter().map(|s| (s.name.as_str(), s));
                Ok(safetensors::serialize_to_file(views, None, path)?)
            }
            Shards100k => write_shards(path, &specs, if quick { 4 } else { 200 }),
            LlamaSeekable => {
                let source = LlamaSafetensors.path(path.parent().context("no folder")?);
                ours::convert_file(&source, path, Durability::Disk, Some(LEVEL))
            }
            LlamaPlanes => {
                let source = LlamaSafetensors.path(path.parent().context("no folder")?);
                ours::deltas::write_planes(&source, path)
            }
            LlamaZipNn => {
                zipnn::write(&LlamaSafetensors.path(path.parent().context("no folder")?), path)
            }
            LlamaStep | LlamaTuned => pairs::write(self, path, quick),
            LlamaStepDelta | LlamaTunedDelta => {
                let [base, target] = self.pair(path.parent().context("no folder")?)?;
                ours::deltas::write_delta(&base, &target, path)
            }
            LlamaStepXor | LlamaTunedXor => {
                let [base, target] = self.pair(path.parent().context("no folder")?)?;
                updates::make_xor(&base, &target, path)
            }
            LlamaStepGaps | LlamaTunedGaps => {
                let [base, target] = self.pair(path.parent().context("no folder")?)?;
                updates::make_gaps(&base, &target, path)
            }
            LlamaHoles => write_holes(path, &specs),
            LlamaGguf => ours::gguf::write_llama(path),
            LlamaTorch | LlamaNpz | EmbeddingNpy | LlamaHdf5 | LlamaOnnx => {
                let package = python::package(self).context("no package")?;
                package.write(&LlamaSafetensors.path(path.parent().context("no folder")?), path)
            }
            TokensGguf => ours::gguf::write_tokens(path, quick),
            BlocksGguf => ours::gguf::write_blocks(path, quick),
            LlamaZt12 | SmallZt12 | TinyZt12 => {
                write_zt12(path, &specs, Compression::Raw, Checksum::Crc32c)
            }
            LlamaZt12Sha256 => write_zt12(path, &specs, Compression::Raw, Checksum::Sha256),
            LlamaZt12Zstd => write_zt12(path, &specs, Compression::Zstd(LEVEL), Checksum::Crc32c),
            LlamaZt21 => write_zt21(ztensor21::Writer::create(path)?, &specs, None),
            LlamaZt21Zstd => {
                let options = ztensor21::Writer::options().canonical(false);
                write_zt21(options.create(path)?, &specs, Some("zt.zstd-seekable/1"))
            }
            SmallZt21 | TinyZt21 => {
                let options = ztensor21::Writer::options().canonical(false).align(4096);
                write_zt21(options.create(path)?, &specs, None)
            }
            Holes10G | Header100k | Header100kNamed | Samples | Texts | TextRecords
            | TextsArrow | TextsArrowLarge | Lines => datasets::write(self, path, quick),
            Package2G => {
                let dir = path.parent().context("no folder")?;
                crate::packages::write(&self.path(dir), path, quick)
            }
        }
    }
}

/// Writes the files that `comparisons` read, unless they exist.
pub fn make(args: &Args, comparisons: &[Comparison]) -> Result<()> {
    std::fs::create_dir_all(&args.dir)?;
    let mut wanted: Vec<Workload> =
        comparisons.iter().flat_map(|c| c.files.iter().copied()).collect();
    let is_made_of_it = |file: &Workload| {
        matches!(file, LlamaSeekable | LlamaGguf | LlamaPlanes | LlamaZipNn)
            || python::package(*file).is_some()
    };
    if wanted.iter().any(is_made_of_it) {
        wanted.push(LlamaSafetensors);
    }
    wanted.sort();
    wanted.dedup();
    for file in wanted {
        let path = file.path(&args.dir);
        if path.exists() {
            continue;
        }
        eprintln!("making {}", path.display());
        let part = path.with_file_name("part.zt");
        if part.is_dir() {
            std::fs::remove_dir_all(&part)?;
        } else if part.exists() {
            std::fs::remove_file(&part)?;
        }
        file.write(&part, args.quick).with_context(|| path.display().to_string())?;
        File::open(&part)?.sync_all()?;
        std::fs::rename(&part, &path)?;
    }
    Ok(())
}

impl View for &Spec {
    fn dtype(&self) -> Dtype {
        Dtype::BF16
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        self.bytes().into()
    }
    fn data_len(&self) -> usize {
        self.len()
    }
}

/// Writes a folder of `count` files, with an index file as on the Hugging Face Hub.
fn write_shards(folder: &Path, specs: &[Spec], count: usize) -> Result<()> {
    std::fs::create_dir(folder)?;
    let mut map = serde_json::Map::new();
    for (at, own) in specs.chunks(specs.len().div_ceil(count)).enumerate() {
        let name = format!("model-{:05}-of-{count:05}.safetensors", at + 1);
        let views = own.iter().map(|s| (s.name.as_str(), s));
        safetensors::serialize_to_file(views, None, &folder.join(&name))?;
        map.extend(own.iter().map(|s| (s.name.clone(), name.clone().into())));
    }
    let total: usize = specs.iter().map(Spec::len).sum();
    let index = serde_json::json!({"metadata": {"total_size": total}, "weight_map": map});
    Ok(std::fs::write(folder.join("model.safetensors.index.json"), index.to_string())?)
}

/// Returns the shards of such a folder, in order.
pub fn shards(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    all.retain(|path| path.extension().is_some_and(|e| e == "safetensors"));
    all.sort();
    Ok(all)
}

/// Writes the header of a safetensors file as the crate writes it, and a hole instead of the data.
fn write_holes(path: &Path, specs: &[Spec]) -> Result<()> {
    let mut sorted: Vec<&Spec> = specs.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let mut end = 0;
    let infos = sorted.iter().map(|s| {
        let start = end;
        end += s.len();
        let shape = s.shape.clone();
        (s.name.clone(), TensorInfo { dtype: Dtype::BF16, shape, data_offsets: (start, end) })
    });
    let mut header = serde_json::to_vec(&Metadata::new(None, infos.collect())?)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut file = File::create(path)?;
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(&header)?;
    Ok(file.set_len(8 + header.len() as u64 + end as u64)?)
}

fn write_zt12(
    path: &Path,
    specs: &[Spec],
    compression: ztensor12::Compression,
    checksum: ztensor12::Checksum,
) -> Result<()> {
    let mut writer = ztensor12::Writer::create(path)?;
    for s in specs {
        let dtype = ztensor12::DType::BF16;
        writer.add_bytes(&s.name, s.shape_u64(), dtype, compression, &s.bytes(), checksum)?;
    }
    writer.finish()?;
    Ok(())
}

/// Writes a zTensor 2.1 file. The names must be in order, as the canonical form requires.
fn write_zt21(mut writer: ztensor21::Writer, specs: &[Spec], encoding: Option<&str>) -> Result<()> {
    let mut sorted: Vec<&Spec> = specs.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    for s in sorted {
        let bytes = s.bytes();
        writer.object(&s.name, |o| {
            o.shape(s.shape_u64()).part("data", |p| {
                let p = p.dtype(ztensor21::DType::BF16).bytes(&bytes);
                match encoding {
                    Some(id) => p.encoding(id),
                    None => p,
                }
            })
        })?;
    }
    writer.finish()?;
    Ok(())
}
