//! The parts of a split GGUF file.

use super::SPLIT;
use holdall_core::error::Result;
use holdall_core::model::{Attributes, Index};

/// A split file, of which the first part is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    stem: String,
    count: u32,
    /// How many tensors all parts have together, where that is stated.
    tensors: Option<u32>,
}

impl Split {
    /// The split file whose first part has that name and contains that; nothing where it says that it is whole, or another part.
    ///
    /// # Errors
    /// [`SPLIT`], where its name says something else.
    pub fn of(index: &Index, name: &str) -> Result<Option<Split>> {
        let Some((0, count, tensors)) = part_of(index) else { return Ok(None) };
        match parts_of(name) {
            Some((stem, 1, of)) if of == count => {
                Ok(Some(Split { stem: stem.to_owned(), count, tensors }))
            }
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
            Some((own, count, _)) if (own, count) == (no, self.count) => Ok(()),
            _ => {
                let (number, count) = (no + 1, self.count);
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
        part_name(&self.stem, number, self.count, "gguf")
    }
}

/// Whether an index is of the first part of a split file.
pub(super) fn is_first(index: &Index) -> bool {
    matches!(part_of(index), Some((0, ..)))
}

/// Takes away what only a part says: together they are none.
pub(super) fn leave(format: &str, attributes: &mut Attributes) {
    #[cfg(feature = "gguf")]
    if format == "gguf" {
        crate::gguf::leave_parts(attributes);
    }
    #[cfg(not(feature = "gguf"))]
    let _ = (format, attributes);
}

/// Which part an index is of, from 0 on; how many there are, and how many tensors they have together.
fn part_of(index: &Index) -> Option<(u32, u32, Option<u32>)> {
    #[cfg(feature = "gguf")]
    if index.format() == "gguf" {
        let part = crate::gguf::Part::of(index.attributes())?;
        return Some((part.no, part.count, part.tensors));
    }
    let _ = index;
    None
}

/// Whether all of these are called as parts of one file.
pub(super) fn are_parts(names: &[&str]) -> bool {
    let stem = |name: &str| parts_of(name).map(|(stem, ..)| stem.to_owned());
    let first = names.first().and_then(|name| stem(name));
    first.is_some() && names.iter().all(|name| stem(name) == first)
}

/// What one of several files is called, by its number from 1 on: `STEM-00001-of-00003.gguf`.
pub fn part_name(stem: &str, number: u32, count: u32, extension: &str) -> String {
    format!("{stem}-{number:05}-of-{count:05}.{extension}")
}

/// Stem, number and count of such a name.
fn parts_of(name: &str) -> Option<(&str, u32, u32)> {
    let (stem, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, number) = stem.rsplit_once('-')?;
    let read = |text: &str| (text.len() == 5).then(|| text.parse().ok()).flatten();
    Some((stem, read(number)?, read(count)?))
}
