//! Split files: the parts of a model, in formats whose files state which part they are.

use super::SPLIT;
use crate::{ModelPart, Parts, Shards};
use holdall_core::error::Result;
use holdall_core::model::{Attributes, Index};

/// A split file whose first part has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    stem: String,
    extension: String,
    count: u32,
    /// The number of tensors in all parts together, if stated.
    tensors: Option<u32>,
}

impl Split {
    /// Returns the split file whose first part has this name and this index; `None` if the file is whole, or not the
    /// first part.
    ///
    /// # Errors
    /// Returns [`SPLIT`] if the file's name disagrees with its attributes.
    pub fn from_index(index: &Index, name: &str) -> Result<Option<Split>> {
        let Some(ModelPart { index: 0, count, tensors }) = part_of(index) else {
            return Ok(None);
        };
        match name_of(name) {
            Some(PartName { stem, number: 1, count: total, extension }) if total == count => {
                let (stem, extension) = (stem.to_owned(), extension.to_owned());
                Ok(Some(Split { stem, extension, count, tensors }))
            }
            // A merge left the attributes of a part in a file that has all tensors.
            _ if tensors.is_some_and(|expected| expected as usize == index.len()) => Ok(None),
            _ => {
                let message =
                    format!("the attributes say part 1 of {count}, but the file's name does not");
                Err(SPLIT.broken(message))
            }
        }
    }

    /// Returns the names of the other parts, in order.
    pub fn others(&self) -> Vec<String> {
        (2..=self.count).map(|number| self.name(number)).collect()
    }

    /// Checks that the attributes of part `no`, counted from 0, state that number.
    ///
    /// # Errors
    /// Returns [`SPLIT`] if they do not.
    pub fn check(&self, no: u32, index: &Index) -> Result<()> {
        match part_of(index) {
            Some(own) if (own.index, own.count) == (no, self.count) => Ok(()),
            _ => {
                let (number, count) = (no.saturating_add(1), self.count);
                let name = self.name(number);
                let message =
                    format!("the attributes of `{name}` do not say part {number} of {count}");
                Err(SPLIT.broken(message))
            }
        }
    }

    /// Checks that all parts together have as many tensors as the first part states.
    ///
    /// # Errors
    /// Returns [`SPLIT`] if they do not.
    pub fn check_all(&self, tensors: usize) -> Result<()> {
        match self.tensors.filter(|expected| *expected as usize != tensors) {
            Some(expected) => {
                let message =
                    format!("expected {expected} tensors in all parts together, found {tensors}");
                Err(SPLIT.broken(message))
            }
            None => Ok(()),
        }
    }

    fn name(&self, number: u32) -> String {
        part_name(&self.stem, number, self.count, &self.extension)
    }
}

/// Returns `true` if an index is that of the first part of a split file.
pub(super) fn is_first(index: &Index) -> bool {
    part_of(index).is_some_and(|part| part.index == 0)
}

/// Removes the attributes that only a part has, for an index of all parts together.
pub(super) fn leave(format: &str, attributes: &mut Attributes) {
    if let Some(parts) = parts_in(format) {
        (parts.remove)(attributes);
    }
}

/// Returns how files of a format state which part they are; `None` for formats without split files.
fn parts_in(format: &str) -> Option<Parts> {
    match crate::by_name(format)?.shards {
        Some(Shards::Parts(parts)) => Some(parts),
        _ => None,
    }
}

/// Returns the part of a split file that an index is of, or `None` if it is of a whole file.
pub fn part_of(index: &Index) -> Option<ModelPart> {
    (parts_in(index.format())?.read)(index.attributes())
}

/// Returns the file name of part `number`, counted from 1: `STEM-00001-of-00003.gguf`.
pub fn part_name(stem: &str, number: u32, count: u32, extension: &str) -> String {
    format!("{stem}-{number:05}-of-{count:05}.{extension}")
}

/// The parsed name of one of several files: `STEM-00001-of-00003.safetensors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartName<'n> {
    /// The text before the number.
    pub stem: &'n str,
    /// The number of the file, from 1.
    pub number: u32,
    /// The number of files. At least 1.
    pub count: u32,
    /// The text after the count, without the dot: `safetensors`, or `fp16.safetensors`.
    pub extension: &'n str,
}

impl<'n> PartName<'n> {
    /// Parses the name of one of several files; `None` for other names.
    pub fn new(name: &'n str) -> Option<PartName<'n>> {
        let (stem, rest) = name.rsplit_once("-of-")?;
        let (stem, number) = stem.rsplit_once('-')?;
        let (count, extension) = rest.split_once('.')?;
        let read = |text: &str| {
            let is_number = text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
            is_number.then(|| text.parse().ok()).flatten()
        };
        let (number, count): (u32, u32) = (read(number)?, read(count)?);
        (1..=count).contains(&number).then_some(PartName { stem, number, count, extension })
    }

    /// Returns the name of file `number` of the same model.
    pub fn with_number(&self, number: u32) -> String {
        part_name(self.stem, number, self.count, self.extension)
    }
}

/// Parses the name of a file, if it is in a format whose files state which part they are.
fn name_of(name: &str) -> Option<PartName<'_>> {
    PartName::new(name).filter(|name| parts_in(name.extension).is_some())
}
