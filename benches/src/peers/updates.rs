//! The weight updates of slime, SGLang and miles, and those of TRL. Their programs are written in Python and are not in packages, so their
//! layouts are written here from the description in `docs/spec/updates.md`, as directly as these programs do it:
//! one tensor after the other, the result in a map of the file of the base.

use crate::floor::read::map;
use anyhow::{Context as _, Result, ensure};
use memmap2::MmapMut;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, Metadata, TensorView};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::path::Path;
use twox_hash::XxHash3_128;

/// The level of their compression.
const LEVEL: i32 = 1;
/// The zstd frames of a checksummed update, with the checksums of the target's tensors.
type Frames = (Vec<(String, Vec<u8>)>, HashMap<String, String>);

/// Writes the update from `base` to `target`: for each tensor that differs, the exclusive or of the bytes in one frame, and the XXH3
/// digest of the new bytes.
pub fn make_xor(base: &Path, target: &Path, path: &Path) -> Result<()> {
    let (base, target) = (map(base)?, map(target)?);
    let (base, target) = (SafeTensors::deserialize(&base)?, SafeTensors::deserialize(&target)?);
    let (mut frames, mut checksums): Frames = Default::default();
    for (name, new) in target.iter() {
        let old = base.tensor(name)?;
        let xor: Vec<u8> = old.data().iter().zip(new.data()).map(|(a, b)| a ^ b).collect();
        if xor.iter().any(|byte| *byte != 0) {
            frames.push((name.to_owned(), zstd::bulk::compress(&xor, LEVEL)?));
            checksums.insert(name.to_owned(), checksum(new.data()));
        }
    }
    let views = frames
        .iter()
        .map(|(name, frame)| Ok((name, TensorView::new(Dtype::U8, vec![frame.len()], frame)?)));
    let views = views.collect::<Result<Vec<_>>>()?;
    Ok(safetensors::serialize_to_file(views, Some(checksums), path)?)
}

/// Applies the update in place to `target`, a copy of the base.
pub fn apply_xor(target: &Path, update: &Path) -> Result<()> {
    let update = map(update)?;
    let (_, header) = SafeTensors::read_metadata(&update)?;
    let checksums = header.metadata().as_ref().context("no checksums")?;
    let mut model = Model::open(target)?;
    for (name, frame) in SafeTensors::deserialize(&update)?.iter() {
        let bytes = model.tensor(name)?;
        let xor = zstd::bulk::decompress(frame.data(), bytes.len())?;
        bytes.iter_mut().zip(&xor).for_each(|(byte, xor)| *byte ^= xor);
        ensure!(checksums.get(name) == Some(&checksum(bytes)), "{name}: another checksum");
    }
    Ok(())
}

/// Writes the update from `base` to `target`, tensors of two bytes an element: for each tensor that differs, the gaps between
/// elements that differ, and their new values.
pub fn make_gaps(base: &Path, target: &Path, path: &Path) -> Result<()> {
    let (base, target) = (map(base)?, map(target)?);
    let (base, target) = (SafeTensors::deserialize(&base)?, SafeTensors::deserialize(&target)?);
    let mut tensors = Vec::new();
    for (name, new) in target.iter() {
        let old = base.tensor(name)?;
        let (mut gaps, mut values, mut next) = (Vec::<u32>::new(), Vec::<u8>::new(), 0);
        let pairs = old.data().chunks_exact(2).zip(new.data().chunks_exact(2));
        for (at, (old, new)) in (0u32..).zip(pairs) {
            if old != new {
                gaps.push(at - next);
                values.extend(new);
                next = at + 1;
            }
        }
        if gaps.is_empty() {
            continue;
        }
        let (dtype, bytes): (_, Vec<u8>) = match gaps.iter().max() {
            Some(0..0x1_0000) => {
                (Dtype::U16, gaps.iter().flat_map(|g| (*g as u16).to_le_bytes()).collect())
            }
            _ => (Dtype::U32, gaps.iter().flat_map(|g| g.to_le_bytes()).collect()),
        };
        tensors.push((format!("{name}.idx"), dtype, gaps.len(), bytes));
        tensors.push((format!("{name}.val"), Dtype::BF16, gaps.len(), values));
    }
    let views = tensors
        .iter()
        .map(|(name, dtype, len, bytes)| Ok((name, TensorView::new(*dtype, vec![*len], bytes)?)));
    let views = views.collect::<Result<Vec<_>>>()?;
    Ok(safetensors::serialize_to_file(views, None, path)?)
}

/// Applies such an update in place to `target`, a copy of the base.
pub fn apply_gaps(target: &Path, update: &Path) -> Result<()> {
    let update = map(update)?;
    let mut model = Model::open(target)?;
    let update = SafeTensors::deserialize(&update)?;
    for (name, gaps) in update.iter() {
        let Some(name) = name.strip_suffix(".idx") else { continue };
        let values = update.tensor(&format!("{name}.val"))?;
        let bytes = model.tensor(name)?;
        let width = if gaps.dtype() == Dtype::U16 { 2 } else { 4 };
        let mut next = 0;
        for (gap, value) in gaps.data().chunks_exact(width).zip(values.data().chunks_exact(2)) {
            let at = next + gap.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b));
            bytes[2 * at..2 * at + 2].copy_from_slice(value);
            next = at + 1;
        }
    }
    Ok(())
}

fn checksum(bytes: &[u8]) -> String {
    format!("{:032x}", XxHash3_128::oneshot(bytes))
}

/// A safetensors file that is changed in place.
struct Model {
    map: MmapMut,
    header: Metadata,
    start: usize,
}

impl Model {
    fn open(path: &Path) -> Result<Model> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        // SAFETY: nothing else has the file open while it is measured.
        let map = unsafe { MmapMut::map_mut(&file)? };
        let (len, header) = SafeTensors::read_metadata(&map)?;
        Ok(Model { map, header, start: 8 + len })
    }

    fn tensor(&mut self, name: &str) -> Result<&mut [u8]> {
        let (start, end) = self.header.info(name).context("no such tensor")?.data_offsets;
        Ok(&mut self.map[self.start + start..self.start + end])
    }
}
