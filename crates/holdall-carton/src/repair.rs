//! Repairs a zip whose directory was lost, or that was cut short, with a new directory made from its entries'
//! headers.

use holdall_core::error::Escape as _;
use holdall_core::wire::zip::EntryKind;
use holdall_core::wire::zip::write::{Entry, directory};
use holdall_core::{Error, Result};
use holdall_io::recovered::{self, Recovered};
use holdall_io::sink::{FileSink, Sink as _};
use holdall_io::source::{ByteSource, FileSource};
use holdall_io::{OpenOptions, WriteOptions};
use holdall_package::{
    FileHasher, LINKS_NAME, Links, MANIFEST_NAME, Manifest, rules::MISSING_FILE, wrong_hash,
};
use std::path::Path;
use std::sync::Arc;

/// The result of repairing a damaged zip.
#[derive(Debug, Default)]
pub struct RepairReport {
    /// Number of files that were recovered; their bytes have the right checksums.
    pub files: u64,
    /// Errors of files that were not recovered, missing files, and an error if there is no list of the files.
    pub lost: Vec<Error>,
    /// Length of the damaged file in bytes.
    pub source_len: u64,
    /// Bytes of the damaged file up to the end of the last recovered entry.
    pub read_len: u64,
    /// Length of the new file in bytes.
    pub target_len: u64,
}

/// Bytes copied at a time.
const PIECE: u64 = 4 << 20;

/// Writes the entries of the zip at `path` that are complete and have the right checksums to `target`,
/// unchanged and with a new directory.
///
/// # Errors
/// Returns an `Io` error; the first error if no file can be recovered.
pub fn repair(
    path: &Path,
    target: &Path,
    write: &WriteOptions,
    options: &OpenOptions,
) -> Result<RepairReport> {
    let named = |e: Error| e.in_source(path.display());
    let source: Arc<dyn ByteSource> = Arc::new(FileSource::open(path).map_err(named)?);
    let mut out = RepairReport { source_len: source.len(), ..RepairReport::default() };
    write.work.begin(source.len());
    let found = recovered::entries(&source, options.limits(), &write.work).map_err(named)?;
    let (mut taken, lost) = (found.entries, found.lost);
    out.lost = lost;
    compare_with_manifest(&source, options, &mut taken, &mut out.lost).map_err(named)?;
    out.lost = std::mem::take(&mut out.lost).into_iter().map(named).collect();
    let files = taken.iter().filter(|t| t.entry.kind == EntryKind::File);
    out.files = files.count() as u64;
    if out.files == 0 {
        let none = holdall_io::error::NOTHING_SOUND
            .broken("none of the files is sound")
            .in_source(path.display());
        return Err(match out.lost.into_iter().next() {
            Some(first) => none.because(first),
            None => none,
        });
    }
    out.read_len = taken.iter().map(|t| t.end).max().unwrap_or(0);
    let mut sink = FileSink::create(target, write.overwrite, write.durability)?;
    let mut at = 0;
    while at < out.read_len {
        let end = out.read_len.min(at + PIECE);
        sink.append(&source.read_range(at..end).map_err(named)?)?;
        at = end;
    }
    let mut list: Vec<Entry> = taken.into_iter().map(|t| t.entry).collect();
    list.sort_by(|a, b| a.name.cmp(&b.name));
    sink.append(&directory(&list, out.read_len))?;
    out.target_len = sink.len();
    sink.finish()?;
    Ok(out)
}

/// Returns the SHA-256 of an entry's bytes.
fn sha256(
    source: &Arc<dyn ByteSource>,
    entry: &Recovered,
    options: &OpenOptions,
) -> Result<[u8; 32]> {
    let mut sum = FileHasher::default();
    for piece in entry.pieces(source.clone(), options.limits())? {
        sum.update(&piece?);
    }
    Ok(sum.finish().0)
}

/// Removes entries whose hash differs from `MANIFEST`, and reports files that it lists but that are missing.
/// Without `MANIFEST`, missing files are unknown.
fn compare_with_manifest(
    source: &Arc<dyn ByteSource>,
    options: &OpenOptions,
    taken: &mut Vec<Recovered>,
    lost: &mut Vec<Error>,
) -> Result<()> {
    let Some(text) = read_text(source, options, taken, MANIFEST_NAME)? else {
        lost.push(
            MISSING_FILE.broken(
                "`MANIFEST` is missing, so the list of files that the package had is unknown",
            ),
        );
        return Ok(());
    };
    let manifest = match Manifest::parse(&text, options.limits()) {
        Ok(manifest) => manifest,
        Err(e) => {
            lost.push(e);
            return Ok(());
        }
    };
    // Linked files are not in the zip.
    let links = read_links(source, options, taken)?;
    for (path, listed) in &manifest.rows {
        match taken.iter().position(|t| t.entry.name == *path) {
            None if links.iter().any(|(linked, _)| linked == listed) => {}
            None => {
                let message = format!("`{}` is listed in `MANIFEST`, but missing", path.escaped());
                lost.push(MISSING_FILE.broken(message));
            }
            Some(at) => {
                let found = sha256(source, &taken[at], options)?;
                if found != *listed {
                    lost.push(wrong_hash(path, listed, &found));
                    taken.remove(at);
                }
            }
        }
    }
    Ok(())
}

/// Reads the list of linked files; empty if it was not recovered.
fn read_links(
    source: &Arc<dyn ByteSource>,
    options: &OpenOptions,
    taken: &[Recovered],
) -> Result<Vec<([u8; 32], Vec<String>)>> {
    let text = read_text(source, options, taken, LINKS_NAME)?;
    let links = text.and_then(|text| Links::parse(&text, options.limits()).ok());
    Ok(links.unwrap_or_default().urls)
}

/// Reads a text of the package, if it was recovered and is within the limit.
fn read_text(
    source: &Arc<dyn ByteSource>,
    options: &OpenOptions,
    taken: &[Recovered],
    name: &str,
) -> Result<Option<Vec<u8>>> {
    let own = taken.iter().find(|t| t.entry.name == name);
    let Some(own) = own.filter(|own| own.entry.len <= options.limits().text_len) else {
        return Ok(None);
    };
    let mut out = Vec::new();
    for piece in own.pieces(source.clone(), options.limits())? {
        out.extend_from_slice(&piece?);
    }
    Ok(Some(out))
}
