//! Paths: `conv1.weight`, `layers[0].w`, `a\.b` (section 6.8).

use crate::error::{Escape as _, Result};
use crate::rules::PATH;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A path from a value to a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Path(pub Vec<Segment>);

/// One segment of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Segment {
    /// The member with this name, or the variant of a union with this key.
    Name(Arc<str>),
    /// The element of an array at this index.
    Index(u64),
    /// Any element of an array: `[]`.
    Each,
}

impl Path {
    /// Returns the path of the value itself.
    pub fn root() -> Path {
        Path::default()
    }

    /// Returns `true` if this is the path of the value itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Parses a path in the records of the dataset `name`, one of `datasets`, with or without that name before it
    /// (`points[].x`). Returns `None` if the path starts with the name of another dataset.
    ///
    /// # Errors
    /// Returns `schema/path` if the text is not a path.
    pub fn within_dataset<'n>(
        text: &str,
        name: &str,
        datasets: impl IntoIterator<Item = &'n str>,
    ) -> Result<Option<Path>> {
        let path: Path = text.parse()?;
        if let Some(own) = path.below(name) {
            return Ok(Some(own));
        }
        let is_of_another = datasets.into_iter().any(|other| path.below(other).is_some());
        Ok((!is_of_another).then_some(path))
    }

    /// Returns the rest of a path that starts with the elements of the dataset `name`.
    pub fn below(&self, name: &str) -> Option<Path> {
        let name: Path = name.parse().unwrap_or_else(|_| Path(vec![Segment::Name(name.into())]));
        let rest = self.0.strip_prefix(&name.0[..])?.strip_prefix(&[Segment::Each])?;
        Some(Path(rest.to_vec()))
    }

    /// Returns the path with another segment at its end.
    pub fn then(&self, segment: Segment) -> Path {
        let mut path = self.clone();
        path.0.push(segment);
        path
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Name(name) => {
                    if at > 0 {
                        f.write_str(".")?;
                    }
                    write_name(name, f)?;
                }
                Segment::Index(i) => write!(f, "[{i}]")?,
                Segment::Each => f.write_str("[]")?,
            }
        }
        Ok(())
    }
}

/// Writes a name with the escapes that it needs in a path.
pub fn write_name(name: &str, out: &mut impl fmt::Write) -> fmt::Result {
    if name.is_empty() {
        return out.write_str("\\_");
    }
    let mut rest = name;
    while let Some(at) = rest.find(['.', '[', '\\']) {
        let (before, from) = rest.split_at(at);
        let mut after = from.chars();
        out.write_str(before)?;
        out.write_str("\\")?;
        if let Some(c) = after.next() {
            out.write_char(c)?;
        }
        rest = after.as_str();
    }
    out.write_str(rest)
}

impl FromStr for Path {
    type Err = crate::Error;

    /// Parses a path.
    ///
    /// # Errors
    /// Returns [`PATH`] if the text is not a path.
    fn from_str(text: &str) -> Result<Path> {
        let mut segments = Vec::new();
        let mut rest = text.chars();
        let wrong = |what: &str| PATH.broken(format!("`{}` {what}", text.escaped()));
        let mut ahead = rest.clone().next();
        while let Some(c) = ahead {
            if c == '[' {
                rest.next();
                let Some((inside, after)) = rest.as_str().split_once(']') else {
                    return Err(wrong("has a `[` without a `]`"));
                };
                segments.push(match inside {
                    "" => Segment::Each,
                    digits => Segment::Index(index(digits).ok_or_else(|| {
                        wrong("has something other than a number between `[` and `]`")
                    })?),
                });
                rest = after.chars();
            } else {
                if !segments.is_empty() && rest.next() != Some('.') {
                    return Err(wrong("has a name without `.` before it"));
                }
                let name = take_name(&mut rest).ok_or_else(|| wrong("has an unknown escape"))?;
                let Some(name) = name else {
                    return Err(wrong("has an empty name, which is written `\\_`"));
                };
                segments.push(Segment::Name(name.into()));
            }
            ahead = rest.clone().next();
        }
        Ok(Path(segments))
    }
}

/// Parses a number without leading zeros.
fn index(digits: &str) -> Option<u64> {
    let plain = digits.bytes().all(|b| b.is_ascii_digit());
    let leads = digits.len() > 1 && digits.starts_with('0');
    if plain && !leads { digits.parse().ok() } else { None }
}

/// Takes a name up to the next `.` or `[`. Returns `None` for an invalid escape, `Some(None)` if there is no name.
fn take_name(rest: &mut std::str::Chars<'_>) -> Option<Option<String>> {
    let mut name = String::new();
    let mut is_written_empty = false;
    while let Some(c) = rest.clone().next() {
        match c {
            '.' | '[' => break,
            _ if is_written_empty => return None,
            '\\' => {
                rest.next();
                match rest.next()? {
                    '_' if name.is_empty() => is_written_empty = true,
                    c @ ('.' | '[' | '\\') => name.push(c),
                    _ => return None,
                }
            }
            _ => {
                rest.next();
                name.push(c);
            }
        }
    }
    Some((is_written_empty || !name.is_empty()).then_some(name))
}
