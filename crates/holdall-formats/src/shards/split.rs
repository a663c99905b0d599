//! The parts of a split file: files of a format that say which part of a model each is.

use super::SPLIT;
use crate::{ModelPart, Parts, Shards};
use holdall_core::error::Result;
use holdall_core::model::{Attributes, Index};

/// A split file, of which the first part is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    stem: String,
    extension: String,
    count: u32,
    /// How many tensors all parts have together, where that is stated.
    tensors: Option<u32>,
}

impl Split {
    /// The split file whose first part has that name and contains that; nothing where it says that it is whole, or another part.
    ///
    /// # Errors
    /// [`SPLIT`], where its name says something else.
    pub fn from_index(index: &Index, name: &str) -> Result<Option<Split>> {
        let Some(ModelPart { number: 0, count, tensors }) = part_of(index) else {
            return Ok(None);
        };
        match name_of(name) {
            Some(PartName { stem, number: 1, count: of, extension }) if of == count => {
                let (stem, extension) = (stem.to_owned(), extension.to_owned());
                Ok(Some(Split { stem, extension, count, tensors }))
            }
            // What a merge left behind: all tensors are there.
            _ if tensors.is_some_and(|said| said as usize == index.len()) => Ok(None),
            _ => {
                let message = format!("it says that it is part 1 of {count}, its name does not");
                Err(SPLIT.broken(message))
            }
        }
    }

    /// The names of the other parts, in their order.
    pub fn others(&self) -> Vec<String> {
        (2..=self.count).map(|number| self.name(number)).collect()
    }

    /// Whether part number `no`, from 0 on, says that it is that.
    ///
    /// # Errors
    /// [`SPLIT`].
    pub fn check(&self, no: u32, index: &Index) -> Result<()> {
        match part_of(index) {
            Some(own) if (own.number, own.count) == (no, self.count) => Ok(()),
            _ => {
                let (number, count) = (no.saturating_add(1), self.count);
                let name = self.name(number);
                let message = format!("`{name}` does not say that it is part {number} of {count}");
                Err(SPLIT.broken(message))
            }
        }
    }

    /// Whether all parts together have as many tensors as the first says.
    ///
    /// # Errors
    /// [`SPLIT`].
    pub fn check_all(&self, tensors: usize) -> Result<()> {
        match self.tensors.filter(|said| *said as usize != tensors) {
            Some(said) => {
                let message = format!("all parts should have {said} tensors, they have {tensors}");
                Err(SPLIT.broken(message))
            }
            None => Ok(()),
        }
    }

    fn name(&self, number: u32) -> String {
        part_name(&self.stem, number, self.count, &self.extension)
    }
}

/// Whether an index is of the first part of a split file.
pub(super) fn is_first(index: &Index) -> bool {
    part_of(index).is_some_and(|part| part.number == 0)
}

/// Removes what only a part says: together they are none.
pub(super) fn leave(format: &str, attributes: &mut Attributes) {
    if let Some(parts) = parts_in(format) {
        (parts.remove)(attributes);
    }
}

/// Returns how files of a format say which part they are, where they can.
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

/// What one of several files is called, by its number from 1 on: `STEM-00001-of-00003.gguf`.
pub fn part_name(stem: &str, number: u32, count: u32, extension: &str) -> String {
    format!("{stem}-{number:05}-of-{count:05}.{extension}")
}

/// The name of one of several files: `STEM-00001-of-00003.safetensors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartName<'n> {
    /// What stands before the number.
    pub stem: &'n str,
    /// The number, from 1 on.
    pub number: u32,
    /// The number of files. At least 1.
    pub count: u32,
    /// What stands behind the count, without the dot: `safetensors`, or `fp16.safetensors`.
    pub extension: &'n str,
}

impl<'n> PartName<'n> {
    /// Reads the name of one of several files; `None` for other names.
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

    /// Returns the name of the file of another number, of the same model.
    pub fn with_number(&self, number: u32) -> String {
        part_name(self.stem, number, self.count, self.extension)
    }
}

/// Reads the name of a file in a format whose files say which part they are.
fn name_of(name: &str) -> Option<PartName<'_>> {
    PartName::new(name).filter(|name| parts_in(name.extension).is_some())
}
