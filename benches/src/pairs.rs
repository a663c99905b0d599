//! Models that were trained a little further: the targets of deltas.

use crate::files::Workload::{self, *};
use crate::workload::{LAYERS, Spec, XorShift, llama, normal};
use anyhow::{Result, bail};
use half::bf16;
use safetensors::tensor::{Dtype, View};
use std::borrow::Cow;
use std::path::Path;

/// A tensor of the target, of which the base is `base`.
struct Trained {
    base: Spec,
    /// The standard deviation of the change of a weight.
    change: f32,
}

impl Trained {
    /// Returns the elements. A weight in single precision, which rounds to that of the base, is changed by a normally
    /// distributed amount, and rounded again: so the smallest weights change by many steps, and most by none.
    fn bytes(&self) -> Vec<u8> {
        let mut random = XorShift(self.base.seed.rotate_left(7) | 1);
        let mut bytes = self.base.bytes();
        for element in bytes.chunks_exact_mut(2) {
            let bits = u16::from_le_bytes([element[0], element[1]]);
            let r = random.next();
            // Half a step down to half a step up, in single precision.
            let step = (r & 0xffff) as u32;
            let single =
                f32::from_bits((u32::from(bits) << 16).wrapping_add(step).wrapping_sub(0x8000));
            let moved = single + self.change * normal((r >> 32) as u16);
            element.copy_from_slice(&bf16::from_f32(moved).to_bits().to_le_bytes());
        }
        bytes
    }
}

impl View for &Trained {
    fn dtype(&self) -> Dtype {
        Dtype::BF16
    }
    fn shape(&self) -> &[usize] {
        &self.base.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        self.bytes().into()
    }
    fn data_len(&self) -> usize {
        self.base.len()
    }
}

/// Writes the target `file` in safetensors.
pub fn write(file: Workload, path: &Path, quick: bool) -> Result<()> {
    let change = match file {
        LlamaStep => 1.0e-6,
        LlamaTuned => 4.0e-5,
        other => bail!("{other:?} is not written by this module"),
    };
    let specs = llama(LAYERS, quick);
    let trained: Vec<Trained> = specs.into_iter().map(|base| Trained { base, change }).collect();
    let views = trained.iter().map(|t| (t.base.name.as_str(), t));
    Ok(safetensors::serialize_to_file(views, None, path)?)
}
