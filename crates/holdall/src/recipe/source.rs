//! The tensors of an open file, for recipes.

use holdall_core::layout::ELEMENT_SIZE;
use holdall_core::model::{BlockType, Encoding, Layout, Role};
use holdall_core::{Bytes, Result};
use holdall_io::{Check, File, Tensor};
use holdall_models::quantized::Kind;
use holdall_models::recipe::{SourceTensor, TensorSource};
use std::ops::Range;
use std::sync::Mutex;

/// The tensors of a file. Raw ones are read range by range; others are decoded as a whole, and the last one is kept.
pub(super) struct FileTensors {
    described: Vec<SourceTensor>,
    tensors: Vec<Tensor>,
    kept: Mutex<Option<(usize, Bytes)>>,
}

impl FileTensors {
    /// Creates the source of a file's tensors, and checks the digests of those that are read range by range.
    ///
    /// # Errors
    /// The fault of a tensor; Integrity if a digest differs; Unsupported for tensors without elements.
    pub(super) fn new(file: &File) -> Result<FileTensors> {
        let (mut described, mut tensors) = (Vec::new(), Vec::new());
        for tensor in file.tensors() {
            holdall_io::items::check_available(&tensor)?;
            tensor.sound()?;
            let Some(element) = tensor.dense_type() else {
                // Without a type it has no elements, and the error names its layout.
                tensor.to_dense()?;
                continue;
            };
            if element.bits() == 0 || !element.bits().is_multiple_of(8) {
                let message = format!("a recipe has no ranges of elements of {element}");
                let e = ELEMENT_SIZE.broken(message).in_tensor(tensor.name());
                return Err(e.in_source(file.name()));
            }
            if is_raw(&tensor) {
                tensor.checked_with(Check::All).compare_all()?;
            }
            let (name, shape) = (tensor.name().to_owned(), tensor.shape().to_vec());
            let kind = tensor.quantized_weight().map(|weight| weight.kind());
            let blocks = match kind {
                Some(Kind::GptOss) => BlockType::by_name("mxfp4"),
                _ => None,
            };
            described.push(SourceTensor { name, shape, element, blocks });
            tensors.push(tensor);
        }
        Ok(FileTensors { described, tensors, kept: Mutex::default() })
    }
}

/// The tensors of a folder that has none.
pub(super) struct NoTensors;

impl TensorSource for NoTensors {
    fn tensors(&self) -> &[SourceTensor] {
        &[]
    }

    fn read(&self, _: usize, _: Range<u64>, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}

impl TensorSource for FileTensors {
    fn tensors(&self) -> &[SourceTensor] {
        &self.described
    }

    fn read(&self, at: usize, elements: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        let element = &self.described[at].element;
        let range = element.len_of(elements.start)..element.len_of(elements.end);
        let tensor = &self.tensors[at];
        if is_raw(tensor) {
            out.extend_from_slice(&tensor.bytes_range(&Role::Data, range)?);
            return Ok(());
        }
        let mut kept = self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if kept.as_ref().is_none_or(|(own, _)| *own != at) {
            *kept = None;
            *kept = Some((at, tensor.to_dense()?.bytes().clone()));
        }
        if let Some((_, bytes)) = &*kept {
            out.extend_from_slice(&bytes[range.start as usize..range.end as usize]);
        }
        Ok(())
    }
}

fn is_raw(tensor: &Tensor) -> bool {
    let is_raw = |c: &holdall_core::Component| c.encoding == Encoding::Raw;
    *tensor.layout() == Layout::Dense && tensor.component(&Role::Data).is_some_and(|c| is_raw(&c))
}
