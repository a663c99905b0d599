//! `MANIFEST`: the path and the SHA-256 of every file.

use super::rules::*;
use super::{LINKS_NAME, MANIFEST_NAME, paths};
use crate::error::{Error, Result, Shown as _};
use crate::limits::Limits;

/// The rows of a `MANIFEST`, in the order of the bytes of their paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    /// Path and SHA-256 of each file but `MANIFEST` and `LINKS`.
    pub rows: Vec<(String, [u8; 32])>,
}

impl Manifest {
    /// Reads the text of a `MANIFEST`. The last line may lack its line feed.
    ///
    /// # Errors
    /// [`MANIFEST`], [`MANIFEST_ORDER`], [`PATH`]; [`TOO_MANY_FILES`] above [`Limits::text_len`] and
    /// [`Limits::files`].
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Manifest> {
        let (len, most) = (bytes.len() as u64, limits.text_len);
        if len > most {
            return Err(
                TOO_MANY_FILES.broken(format!("`MANIFEST` has {len} bytes, at most {most}"))
            );
        }
        let text = std::str::from_utf8(bytes).map_err(|e| {
            MANIFEST.broken(format!("`MANIFEST`: byte {} is not UTF-8", e.valid_up_to()))
        })?;
        let mut manifest = Manifest::default();
        if text.is_empty() {
            return Ok(manifest);
        }
        let lines = text.strip_suffix('\n').unwrap_or(text).split('\n');
        for (at, line) in lines.enumerate() {
            let number = at.saturating_add(1);
            if manifest.rows.len() as u64 >= limits.files {
                return Err(TOO_MANY_FILES.broken(format!("more than {} files", limits.files)));
            }
            let (path, sha256) = row(line, number)?;
            paths::check(path).map_err(|e| in_line(&e, number))?;
            if let Some((before, _)) = manifest.rows.last()
                && before.as_str() >= path
            {
                let (a, b) = (before.shown(), path.shown());
                let message = format!("`MANIFEST`, line {number}: `{b}` comes after `{a}`");
                return Err(MANIFEST_ORDER.broken(message));
            }
            manifest.rows.push((path.to_owned(), sha256));
        }
        Ok(manifest)
    }

    /// The SHA-256 of the file of that path.
    pub fn get(&self, path: &str) -> Option<[u8; 32]> {
        let at = self.rows.binary_search_by(|(row, _)| row.as_str().cmp(path)).ok()?;
        self.rows.get(at).map(|(_, sha256)| *sha256)
    }
}

fn row(line: &str, number: usize) -> Result<(&str, [u8; 32])> {
    let broken = |what: &str| {
        MANIFEST.broken(format!("`MANIFEST`, line {number}: {what}: `{}`", line.shown()))
    };
    if line.is_empty() {
        return Err(broken("a blank line"));
    }
    if line.contains('\r') {
        return Err(broken("a carriage return"));
    }
    let (path, hash) = line.rsplit_once('=').ok_or_else(|| broken("no `=`"))?;
    let sha256 = hash_of(hash).ok_or_else(|| broken("no 64 lower-case hex digits after `=`"))?;
    if path == MANIFEST_NAME || path == LINKS_NAME {
        return Err(broken("a file that is not listed"));
    }
    Ok((path, sha256))
}

/// The hash of 64 lower-case hex digits.
pub(super) fn hash_of(hex: &str) -> Option<[u8; 32]> {
    let digit = |b: u8| match b {
        b'0'..=b'9' => b.checked_sub(b'0'),
        b'a'..=b'f' => b.checked_sub(b'a' - 10),
        _ => None,
    };
    let mut out = [0; 32];
    if hex.len() != 64 {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        let &[high, low] = pair else { return None };
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Some(out)
}

fn in_line(e: &Error, number: usize) -> Error {
    e.rule().broken(format!("`MANIFEST`, line {number}: {}", e.message()))
}
