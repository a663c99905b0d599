//! `MANIFEST`: the path and the SHA-256 of every file.

use crate::rules::*;
use crate::{LINKS_NAME, MANIFEST_NAME, paths};
use data_encoding::HEXLOWER;
use holdall_core::error::{Error, Escape as _, Remedy, Result};
use holdall_core::limits::Limits;

/// The rows of a `MANIFEST`, in the order of the bytes of their paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    /// Path and SHA-256 of each file except `MANIFEST` and `LINKS`.
    pub rows: Vec<(String, [u8; 32])>,
}

impl Manifest {
    /// Parses the text of a `MANIFEST`. The last line may lack its line feed.
    ///
    /// # Errors
    /// Returns [`MANIFEST`], [`MANIFEST_ORDER`], [`PATH`]; [`TOO_MANY_FILES`] above [`Limits::text_len`] and
    /// [`Limits::files`].
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Manifest> {
        let (len, most) = (bytes.len() as u64, limits.text_len);
        if len > most {
            let message = format!("`MANIFEST` has {len} bytes, at most {most}");
            let raise = Remedy::RaiseLimit { limit: "text_len", at_least: Some(len) };
            return Err(TOO_MANY_FILES.broken(message).with_remedy(raise));
        }
        let text = std::str::from_utf8(bytes).map_err(|e| {
            MANIFEST.broken(format!("`MANIFEST`: byte {} is not UTF-8", e.valid_up_to()))
        })?;
        let mut manifest = Manifest::default();
        if text.is_empty() {
            return Ok(manifest);
        }
        let text = text.strip_suffix('\n').unwrap_or(text);
        // A row has at least the equals sign, 64 digits and a line feed.
        manifest.rows.reserve(text.len() / 66);
        let ends = memchr::memchr_iter(b'\n', text.as_bytes()).chain([text.len()]);
        let mut start = 0;
        for (at, end) in ends.enumerate() {
            let number = at.saturating_add(1);
            if manifest.rows.len() as u64 >= limits.files {
                return Err(TOO_MANY_FILES.broken(format!("more than {} files", limits.files)));
            }
            let line = text.get(start..end).unwrap_or_default();
            start = end.saturating_add(1);
            let (path, sha256) = row(line, number)?;
            paths::check(path).map_err(|e| in_line(e, number))?;
            if let Some((before, _)) = manifest.rows.last()
                && before.as_str() >= path
            {
                let (a, b) = (before.escaped(), path.escaped());
                let message = format!("`MANIFEST`, line {number}: `{b}` comes after `{a}`");
                return Err(MANIFEST_ORDER.broken(message));
            }
            manifest.rows.push((path.to_owned(), sha256));
        }
        Ok(manifest)
    }

    /// Returns the SHA-256 of the file at this path.
    pub fn get(&self, path: &str) -> Option<[u8; 32]> {
        let at = self.rows.binary_search_by(|(row, _)| row.as_str().cmp(path)).ok()?;
        self.rows.get(at).map(|(_, sha256)| *sha256)
    }
}

fn row(line: &str, number: usize) -> Result<(&str, [u8; 32])> {
    let broken = |what: &str| {
        MANIFEST.broken(format!("`MANIFEST`, line {number}: {what}: `{}`", line.escaped()))
    };
    // Most lines end in an equals sign and 64 digits.
    let usual = line.len().checked_sub(65).and_then(|at| line.split_at_checked(at));
    let usual = usual.and_then(|(path, rest)| Some((path, hash_of(rest.strip_prefix('=')?)?)));
    let (path, sha256) = match usual {
        Some((path, sha256)) if memchr::memchr(b'\r', path.as_bytes()).is_none() => (path, sha256),
        _ if line.is_empty() => {
            return Err(broken("expected a path, `=` and a hash, found a blank line"));
        }
        _ if line.contains('\r') => {
            return Err(broken("expected lines that end in a line feed, found a carriage return"));
        }
        _ if !line.contains('=') => {
            return Err(broken("expected a path, `=` and a hash, found no `=`"));
        }
        _ => return Err(broken("expected 64 lower-case hex digits after `=`")),
    };
    if path == MANIFEST_NAME || path == LINKS_NAME {
        return Err(broken("this file must not be listed"));
    }
    Ok((path, sha256))
}

/// Parses 64 lower-case hex digits.
pub(super) fn hash_of(hex: &str) -> Option<[u8; 32]> {
    let mut out = [0; 32];
    // `decode_mut` panics for other lengths than 64.
    let hex: &[u8; 64] = hex.as_bytes().try_into().ok()?;
    HEXLOWER.decode_mut(hex, &mut out).ok()?;
    Some(out)
}

fn in_line(e: Error, number: usize) -> Error {
    e.within(format!("`MANIFEST`, line {number}"))
}
