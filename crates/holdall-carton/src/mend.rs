//! A zip whose directory was lost, or that was cut short, with a directory made of its entries' own headers.

use holdall_core::error::Shown as _;
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

/// What was taken out of a damaged zip.
#[derive(Debug, Default)]
pub struct RepairReport {
    /// Files whose bytes are right.
    pub files: u64,
    /// What is wrong with those that were not taken, what is missing, and where nothing tells what was there.
    pub lost: Vec<Error>,
    /// Bytes of the damaged file.
    pub source_len: u64,
    /// Bytes of it up to the end of the last entry that was taken.
    pub read_len: u64,
    /// Bytes of the new file.
    pub target_len: u64,
}

/// Bytes copied at a time.
const PIECE: u64 = 4 << 20;

/// Writes the entries of the zip at `path` that are whole, and whose checksums are right, to `target`: their bytes as they
/// are, and a directory of them.
///
/// # Errors
/// Io; the first of what is wrong, where not one file can be taken.
pub fn mend(
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
    hold_against_manifest(&source, options, &mut taken, &mut out.lost).map_err(named)?;
    out.lost = std::mem::take(&mut out.lost).into_iter().map(named).collect();
    let files = taken.iter().filter(|t| t.entry.kind == EntryKind::File);
    out.files = files.count() as u64;
    if out.files == 0 {
        let none = holdall_io::error::NOTHING_SOUND
            .broken("not one file is sound")
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

/// The SHA-256 of an entry's bytes.
fn sha256(source: &Arc<dyn ByteSource>, of: &Recovered, options: &OpenOptions) -> Result<[u8; 32]> {
    let mut sum = FileHasher::default();
    for piece in of.pieces(source.clone(), options.limits())? {
        sum.update(&piece?);
    }
    Ok(sum.finish().0)
}

/// Takes away what has another hash than the `MANIFEST` says, and tells what it lists and is not there. Without one, that
/// cannot be told.
fn hold_against_manifest(
    source: &Arc<dyn ByteSource>,
    options: &OpenOptions,
    taken: &mut Vec<Recovered>,
    lost: &mut Vec<Error>,
) -> Result<()> {
    let Some(text) = text(source, options, taken, MANIFEST_NAME)? else {
        lost.push(MISSING_FILE.broken("without `MANIFEST` nothing tells which files there were"));
        return Ok(());
    };
    let manifest = match Manifest::parse(&text, options.limits()) {
        Ok(manifest) => manifest,
        Err(e) => {
            lost.push(e);
            return Ok(());
        }
    };
    // What is linked to is elsewhere.
    let links = text_of_links(source, options, taken)?;
    for (path, said) in &manifest.rows {
        match taken.iter().position(|t| t.entry.name == *path) {
            None if links.iter().any(|(linked, _)| linked == said) => {}
            None => {
                let message = format!("`{}` is in `MANIFEST`, and is not there", path.shown());
                lost.push(MISSING_FILE.broken(message));
            }
            Some(at) => {
                let found = sha256(source, &taken[at], options)?;
                if found != *said {
                    lost.push(wrong_hash(path, said, &found));
                    taken.remove(at);
                }
            }
        }
    }
    Ok(())
}

fn text_of_links(
    source: &Arc<dyn ByteSource>,
    options: &OpenOptions,
    taken: &[Recovered],
) -> Result<Vec<([u8; 32], Vec<String>)>> {
    let text = text(source, options, taken, LINKS_NAME)?;
    let links = text.and_then(|text| Links::parse(&text, options.limits()).ok());
    Ok(links.unwrap_or_default().urls)
}

/// A text of the package, where it was taken and is not too long to be one.
fn text(
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
