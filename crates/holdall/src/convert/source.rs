//! The form of a file that a conversion reads: with its quantized weights stored, described or dense.

use super::{Convert, DequantizedWeight};
use holdall_core::Result;
use holdall_io::File;
use std::path::Path;

impl Convert {
    /// Returns the file that is read: for a dense target, with its quantized weights as tensors; for a format that cannot have
    /// described weights, with the tensors that store them.
    pub(super) fn source(&self, file: &File, path: &Path) -> Result<File> {
        if self.dense {
            return file.dequantized();
        }
        if self.described {
            return file.described();
        }
        let format = self.write.format_for(path).ok();
        match format.is_some_and(|format| format.id == "ztensor") {
            true => Ok(file.clone()),
            false => {
                let stored = file.stored()?;
                let rename = |name: &str| self.renames.iter().find_map(|r| r.apply(name));
                stored.check_described_names(rename)?;
                Ok(stored)
            }
        }
    }

    /// Returns the quantized weights of `file` that become dense.
    pub(super) fn dequantized(&self, file: &File) -> Vec<DequantizedWeight> {
        let chosen = file.tensors().filter(|tensor| self.select.selects(tensor.name()));
        let weights = chosen.filter_map(|tensor| {
            let weight = tensor.quantized_weight()?;
            let applied = weight.components().iter().map(|companion| companion.tensor.clone());
            Some(DequantizedWeight {
                name: weight.name().to_owned(),
                kind: weight.kind().as_str(),
                applied: applied.collect(),
                dropped: weight.not_applied().to_vec(),
            })
        });
        weights.collect()
    }
}
