//! Packages: a model with its description, tests and hashes, in one zip or an unpacked folder.
//!
//! Nothing in a package is ever executed here. A file that is read whole, unpacked, run, fetched, verified or
//! converted is first compared with its SHA-256 in the package's `MANIFEST`. A file that is opened in place,
//! to be mapped or read in part, is compared only under [`Check::All`](crate::Check::All) and by
//! [`Package::verify`].

pub use holdall_carton::{
    Description, Difference, DimSpec, Example, Fetcher, FileContent, FileLocation, FileReader,
    FileSelection, IGNORE_FILE, Inferred, Links, Manifest, OptionValue, PackReport, Package,
    PackageDiff, PackageFile, PackageReader, PackageReport, PackageVerifyOptions, Packer, Packing,
    PageForm, Prepared, Recipe, Reference, Runner, SelfTest, ShapeSpec, Strictness, SymlinkPolicy,
    TensorKind, TensorRow, TensorValue, Tolerance, UnpackOptions, UnpackReport, ValueSpec,
    ValueType, declared, hex, links, mapped, onnx, onnx_files, package_diff, package_path,
};
/// The package format, as a format of tensor files.
pub use holdall_formats::carton::FORMAT;
pub use holdall_package::{Comparison, Number, compare, signature, value};

/// Rules of packages that apply only on a file system.
pub mod rules {
    pub use holdall_carton::rules::{DECLARED, OUTPUT_INSIDE, RUNNER, TARGET, UNREAD};
    pub use holdall_io::package::rules::{
        LINK_OUT, NO_FILE, NO_PACKAGE, NO_TENSOR, NOT_HERE, PART,
    };
}
