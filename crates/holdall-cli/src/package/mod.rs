//! Packages: `inspect`, `verify` and `diff` of packages, and the commands that apply only to packages.

mod card;
pub(crate) mod diff;
pub(crate) mod hash;
mod json;
pub(crate) mod pack;
pub(crate) mod unpack;
pub(crate) mod verify;

pub(crate) use card::show;

use crate::exit::Failure;
use crate::input::{self, STDIN, StandardInput};
use crate::session::Session;
use holdall::carton::rules::NO_PACKAGE;
use holdall::carton::{Package, ShapeSpec};
use holdall::{File, Location};
use std::io::Read as _;
use std::path::Path;

/// Opens the package at `path`. Returns `None` if it is not a package: a folder, or a zip by its first bytes or its
/// name.
pub(crate) fn open(session: &Session, path: &Path) -> Result<Option<Package>, Failure> {
    if path.as_os_str() == "-" {
        let (StandardInput::File(source) | StandardInput::Memory(source)) =
            input::standard(session)?;
        let first = source.read_range(0..source.len().min(4)).map_err(|e| e.in_source(STDIN))?;
        if !is_zip(&first) {
            return Ok(None);
        }
        // Other formats are zip files, too.
        return match Package::open_source(source, STDIN, &input::options(session)) {
            Ok(package) => Ok(Some(package)),
            Err(e) if e.code() == NO_PACKAGE.code => Ok(None),
            Err(e) => Err(e.into()),
        };
    }
    match is_package(path) {
        true => Ok(Some(Package::open_with(path, &input::options(session))?)),
        false => Ok(None),
    }
}

/// Returns the package that an open file is. Remote packages and packages in archives are recognised by their content
/// only.
pub(crate) fn from_file(file: &File) -> Result<Option<Package>, Failure> {
    Ok(Package::from_file(file)?)
}

/// Opens the package at `path`, or from standard input if it is `-`. It is an error if it is not a package.
pub(crate) fn expect(session: &Session, path: &Path) -> Result<Package, Failure> {
    let options = input::options(session);
    if path.as_os_str() != "-" {
        return Ok(Package::open_with(path, &options)?);
    }
    let (StandardInput::File(source) | StandardInput::Memory(source)) = input::standard(session)?;
    Ok(Package::open_source(source, STDIN, &options)?)
}

/// Returns `true` if a file that starts with these bytes is a zip.
fn is_zip(first: &[u8]) -> bool {
    matches!(first, b"PK\x03\x04" | b"PK\x05\x06")
}

fn is_package(path: &Path) -> bool {
    let location = Location::new(path);
    let is_named = |name: &str| name.to_ascii_lowercase().ends_with(".carton");
    let path = match &location {
        Location::Path(path) => path,
        // A file inside a package.
        Location::Member { .. } => return false,
        _ => return is_named(location.file_name()),
    };
    if is_named(location.file_name()) {
        return true;
    }
    let Ok(meta) = path.metadata() else { return false };
    if meta.is_dir() {
        return !holdall::is_model_folder(path);
    }
    let mut first = [0; 4];
    let mut read =
        |path| std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut first));
    meta.is_file() && read(path).is_ok() && is_zip(&first) && !is_other(path)
}

/// Returns `true` if a zip is a file of tensors in another format.
fn is_other(path: &Path) -> bool {
    let id = holdall::carton::FORMAT.id;
    holdall::format_of(path).is_ok_and(|format| format.id != id)
}

/// Formats a declared shape: `[batch, 3, *]`.
pub(crate) fn shape(shape: &ShapeSpec) -> String {
    crate::output::text::escape(&shape.to_string())
}
