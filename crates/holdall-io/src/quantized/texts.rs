//! The texts in the folder of a model that describe its quantization.

use crate::composite::texts_of;
use crate::location::{Folder, Location, Site};
use crate::options::OpenOptions;
use holdall_core::{Error, Index, Layout, Result};
use holdall_models::quantized::{
    PARAMETER, QuantizationTexts, StoredTensor, StoredTensors, TEXT, may_be_quantized,
};
use std::io::ErrorKind;
use std::path::Path;

/// Reads the texts in a folder.
pub(super) fn read(options: &OpenOptions, folder: &Folder) -> Result<QuantizationTexts> {
    let read = |name: &str| read_text(options, folder, name);
    Ok(QuantizationTexts {
        config: read("config.json")?,
        quantize_config: match read("quantize_config.json")? {
            Some(text) => Some(text),
            None => read("quant_config.json")?,
        },
        hf_quant_config: read("hf_quant_config.json")?,
        quanto_qmap: read("quanto_qmap.json")?,
        ..QuantizationTexts::default()
    })
}

/// Reads a text in a folder. Returns `None` if there is no such file.
fn read_text(options: &OpenOptions, folder: &Folder, name: &str) -> Result<Option<String>> {
    if folder.has(name) == Some(false) {
        return Ok(None);
    }
    let found = match folder.find(options, name, false) {
        Ok(found) => found,
        Err(e) if is_absent(&e) => return Ok(None),
        Err(e) => return Err(e),
    };
    let (len, most) = (found.source.len(), options.limits().text_len);
    if len > most {
        let message = format!("the text has {len} bytes, at most {most}");
        return Err(TEXT.broken(message).in_source(&found.name));
    }
    let bytes = found.source.read_range(0..len).map_err(|e| e.in_source(&found.name))?;
    let text = std::str::from_utf8(&bytes);
    let text = text.map_err(|_| TEXT.broken("the text is not UTF-8").in_source(&found.name))?;
    Ok(Some(text.trim_start_matches('\u{feff}').to_owned()))
}

/// Returns `true` if the error says that a file does not exist.
fn is_absent(e: &Error) -> bool {
    let is_io = e.io().is_some_and(|e| e.kind() == ErrorKind::NotFound);
    is_io || e.kind() == holdall_core::ErrorKind::NotFound
}

/// Checks that files that become one model have texts that describe their quantization alike, as far as they can have
/// quantized weights: those of the first file are the texts of the model.
///
/// # Errors
/// Returns [`PARAMETER`] for a file with other texts; the errors of reading them.
pub(crate) fn check_joined<'a>(
    options: &OpenOptions,
    files: impl Iterator<Item = (&'a Location, &'a Index)>,
) -> Result<()> {
    let mut first: Option<(QuantizationTexts, Option<&Path>)> = None;
    for (location, index) in files {
        // The texts of the first file count for all.
        let counts = first.is_none() || may_be_quantized(&stored_tensors(index));
        if !counts && !has_described(index) {
            continue;
        }
        let own = texts_of(index.attributes());
        let folder = match location {
            Location::Path(path) if own.is_none() => path.parent(),
            _ => None,
        };
        if folder.is_some() && first.as_ref().is_some_and(|(_, other)| *other == folder) {
            continue;
        }
        let own = match own {
            Some(texts) => texts,
            None => read(options, &Site::new(options, location)?.folder)?,
        };
        match &first {
            None => first = Some((own, folder)),
            Some((first, _)) if first.describe_like(&own)? => {}
            Some(_) => {
                let message = "its quantized weights are described by other texts than those of the first file";
                let hint = "keep the models in different files, or make each dense first";
                let e = PARAMETER.broken(message).with_hint(hint);
                return Err(e.in_source(location.to_string()));
            }
        }
    }
    Ok(())
}

fn has_described(index: &Index) -> bool {
    index.tensors().any(|tensor| crate::composite::is_composite(&tensor))
}

/// Returns the dense tensors.
fn stored_tensors(index: &Index) -> StoredTensors {
    StoredTensors::new(index.tensors().filter_map(|tensor| {
        let c = tensor.components().next().filter(|_| *tensor.layout() == Layout::Dense)?;
        Some(StoredTensor {
            name: tensor.name().to_owned(),
            dtype: c.dtype,
            logical_type: c.logical_type,
            shape: tensor.shape().to_vec(),
        })
    }))
}
