//! Recovers zips that do not open: those whose directory was lost, by the headers of their entries, and those
//! whose directory is intact.

use super::Opened;
use crate::OpenOptions;
#[cfg(feature = "carton")]
use holdall_core::error::Escape as _;
use holdall_core::{Error, Result};
#[cfg(feature = "carton")]
use holdall_io::error::EXTENSION;
use holdall_io::recovered;
use holdall_io::source::{ByteSource, FileSource};
use holdall_io::{Work, WriteOptions};
use std::path::Path;
use std::sync::Arc;

/// The reason why nothing can be recovered from a zip whose directory is intact.
const WHOLE: &str =
    "nothing can be recovered: the directory of the zip is intact, and lists no tensors";

/// Opens a zip that does not open as it is. Returns `None` if the file is not a zip.
///
/// # Errors
/// Returns an `Io` error; `write/extension` for a package without a directory if the target is not a zip.
pub(super) fn open(
    path: &Path,
    target: &Path,
    write: &WriteOptions,
    options: &OpenOptions,
) -> Result<Option<Opened>> {
    let named = |e: Error| e.in_source(path.display());
    let source: Arc<dyn ByteSource> = Arc::new(FileSource::open(path).map_err(named)?);
    if !recovered::is_zip(&*source).map_err(named)? {
        return Ok(None);
    }
    let has_directory = recovered::has_directory(&*source, options.limits()).map_err(named)?;
    let becomes_zip = write.format_for(target).map_or(true, |format| format.encode.is_none());
    if becomes_zip && cfg!(feature = "carton") {
        #[cfg(feature = "carton")]
        return Ok(Some(Opened::Package));
    }
    if has_directory {
        return Ok(Some(Opened::Nothing(WHOLE)));
    }
    let found = recovered::entries(&source, options.limits(), &Work::default()).map_err(named)?;
    let name = path.display().to_string();
    let whole = recovered::with_directory(source, &found.entries).map_err(named)?;
    match options.open_source(whole, name) {
        Ok(file) if !file.is_empty() => {
            let lost = found.lost.into_iter().map(named).collect();
            Ok(Some(Opened::File(file, lost)))
        }
        #[cfg(feature = "carton")]
        _ if found.entries.iter().any(|recovered| is_of_package(&recovered.entry.name)) => {
            let format = write.format_for(target)?.name;
            Err(EXTENSION
                .broken(format!(
                    "`{}` is a zip that has lost its directory: its files can be recovered into a zip, but no tensors into {format}",
                    path.display().to_string().escaped()
                ))
                .with_hint("give the new file the extension `.zip` or `.carton`")
                .in_source(target.display()))
        }
        _ => Ok(None),
    }
}

/// Returns `true` if only packages have an entry of that name.
#[cfg(feature = "carton")]
fn is_of_package(name: &str) -> bool {
    matches!(name, "carton.toml" | holdall_package::MANIFEST_NAME)
}
