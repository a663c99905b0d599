//! Packages: a model with its description, tests and hashes, in one zip or an unpacked folder.
//!
//! Nothing in a package is ever executed here. A file that is read whole, unpacked, run, fetched, verified or
//! converted is first compared with its SHA-256 in the package's `MANIFEST`. A file that is opened in place,
//! to be mapped or read in part, is compared only under [`Check::All`](holdall_io::Check::All) and by
//! [`Package::verify`].

#![cfg_attr(docsrs, feature(doc_cfg))]
mod declared;
mod diff;
mod inferred;
mod ledger;
pub mod links;
mod pack;
mod package;
mod page;
mod repair;
pub mod rules;
mod unpack;
mod verify;

pub use declared::declared;
pub use diff::{Difference, PackageDiff, package_diff};
pub use holdall_io::Strictness;
pub use holdall_io::package::read::FileReader;
pub use holdall_io::package::{Fetcher, FileLocation, PackageFile, PackageReader};
pub use holdall_package::{
    Description, DimSpec, Example, Links, Manifest, OptionValue, Reference, Runner, SelfTest,
    ShapeSpec, TensorKind, TensorRow, TensorValue, Tolerance, ValueSpec, ValueType,
};
pub use inferred::{Inferred, onnx_files};
pub use pack::{
    FileContent, FileSelection, IGNORE_FILE, PackReport, Packer, Packing, Prepared, Recipe,
    SymlinkPolicy, package_path,
};
pub use package::Package;
pub use page::PageForm;
pub use repair::{RepairReport, repair};
pub use unpack::{UnpackOptions, UnpackReport};
pub use verify::{PackageReport, PackageVerifyOptions};

/// Reads the inputs and outputs of an ONNX file.
pub use holdall_package::onnx;
/// Returns a SHA-256 as 64 lower-case hex digits.
pub use holdall_package::write::hex;

use holdall_core::{Result, Rule};

/// Maps a whole file: only the accessed parts are read.
///
/// # Errors
/// Returns an `Io` error.
pub fn mapped(path: impl AsRef<std::path::Path>) -> Result<bytes::Bytes> {
    use holdall_io::source::{FileSource, mapped_or_read};
    let path = path.as_ref();
    let opened = FileSource::open(path).and_then(mapped_or_read);
    let source = opened.map_err(|e| e.in_source(path.display()))?;
    source.read_range(0..source.len())
}

/// The tables of rules of this crate.
static TABLES: &[&[&Rule]] = &[rules::RULES, links::rules::RULES];

/// Returns the rules of this crate; [`holdall_io::rules`] has those of the crates that it depends on.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    TABLES.iter().copied().flatten().copied()
}
