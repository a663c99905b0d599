//! A table of what each operation does with each kind of location, each layout and each file of a model.
//! Operations check it before they write anything, and `docs/matrix.md` is generated from it.

use holdall_core::{Result, Rule};
use holdall_formats::folders::{self, ModelFiles};
use holdall_formats::shards::NO_MODEL;
use holdall_io::Location;
use holdall_io::error::{CANNOT_HOLD, LOCATION, NAMED_ELSEWHERE, SEVERAL_FILES, TO_ADDRESS};
use holdall_records::rules::WHICH_DATASET;
use std::path::Path;

/// An operation on a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Shows the contents.
    Inspect,
    /// Opens the model and loads its tensors.
    Load,
    /// Checks the file.
    Verify,
    /// Computes statistics of the tensors.
    Stats,
    /// Compares two models.
    Diff,
    /// Extracts tensors, rows and bytes.
    Extract,
    /// Reads and searches records.
    Records,
    /// Writes another file or folder, compressed or in another form.
    Convert,
    /// Recovers the sound tensors of a damaged file.
    Salvage,
    /// Looks for pickles.
    Scan,
    /// Changes tensors and attributes.
    Edit,
    /// Removes unused bytes.
    Compact,
    /// Creates a package from a model.
    Pack,
    /// Makes files available over the network.
    Serve,
    /// Shows the model in a browser.
    View,
    /// Creates a file of records.
    Build,
}

/// A kind of location where a model is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LocationKind {
    /// A file on a disk.
    File,
    /// A folder on a disk.
    Folder,
    /// The index file of a model in several files.
    Index,
    /// One file of a model in several files, opened by its own name.
    Shard,
    /// A file inside an archive.
    ArchiveMember,
    /// A file inside a package.
    PackageMember,
    /// A web address.
    Address,
    /// An address in an object store.
    Store,
    /// Standard input.
    StandardInput,
}

/// A kind of tensor layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LayoutKind {
    /// Elements in row-major order.
    Dense,
    /// Elements with a stride in each dimension.
    Strided,
    /// Nonzero elements and their positions.
    Sparse,
    /// Integers of few bits with scales, or blocks.
    Quantized,
    /// Records of a dataset.
    Records,
    /// Runs of bytes.
    Blob,
}

/// The degree to which an operation supports a kind of location or layout.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Support {
    /// Supported.
    Yes,
    /// Supported in the way that the text says.
    WithNote(&'static str),
    /// Supported with exceptions, which are refused with one of the rules.
    Partly(&'static str, &'static [&'static Rule]),
    /// Not supported: refused with the rule. The text says what to do instead.
    No(&'static Rule, &'static str),
}

/// How an operation uses one file of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileUse {
    /// Reads the file as a part of the model.
    Reads,
    /// Reads the file and writes its contents as a part of another model.
    Copies,
    /// Copies the file unchanged.
    CopiesUnchanged,
    /// Changes or replaces the file.
    Changes,
    /// Replaces the file if its contents have changed.
    UpdatesIfChanged,
    /// Refuses models that have such a file, or works with that file alone.
    OnlyFile,
}

/// The row of the table for one operation.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct OperationRow {
    /// The operation.
    pub operation: Operation,
    /// The operation's name for users: the name of its command, if it has one.
    pub name: &'static str,
    /// The support for each kind of location, in the order of [`LocationKind::ALL`].
    pub locations: [Support; 9],
    /// The support for tensors of each layout, in the order of [`LayoutKind::ALL`]; `None` if it
    /// does not process tensors.
    pub layouts: Option<[Support; 6]>,
    /// The use of files of each role: the only file, shards, the index, external data.
    pub files: [FileUse; 4],
}

impl LocationKind {
    /// All kinds.
    pub const ALL: [LocationKind; 9] = [
        LocationKind::File,
        LocationKind::Folder,
        LocationKind::Index,
        LocationKind::Shard,
        LocationKind::ArchiveMember,
        LocationKind::PackageMember,
        LocationKind::Address,
        LocationKind::Store,
        LocationKind::StandardInput,
    ];

    /// Returns the kind of a path as far as it can be known without opening it: a shard counts as a file.
    pub fn from_path(path: &Path) -> LocationKind {
        match Location::new(path) {
            Location::Path(_) => {}
            Location::Store(_) => return LocationKind::Store,
            Location::Member { archive, .. } => {
                let outer = archive.to_path_buf();
                let is_package = outer.join("carton.toml").exists()
                    || outer.extension().is_some_and(|e| e.eq_ignore_ascii_case("carton"));
                return match is_package {
                    true => LocationKind::PackageMember,
                    false => LocationKind::ArchiveMember,
                };
            }
            _ => return LocationKind::Address,
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match folders::by_entry(name) {
            _ if path.is_dir() => LocationKind::Folder,
            Some(ModelFiles::Index(..)) => LocationKind::Index,
            _ => LocationKind::File,
        }
    }

    /// Returns the kind's name for users.
    pub fn as_str(self) -> &'static str {
        match self {
            LocationKind::File => "file",
            LocationKind::Folder => "folder",
            LocationKind::Index => "index file",
            LocationKind::Shard => "one shard",
            LocationKind::ArchiveMember => "file in an archive",
            LocationKind::PackageMember => "file in a package",
            LocationKind::Address => "address",
            LocationKind::Store => "object store",
            LocationKind::StandardInput => "standard input",
        }
    }

    fn position(self) -> usize {
        LocationKind::ALL.iter().position(|kind| *kind == self).unwrap_or(0)
    }
}

impl LayoutKind {
    /// All kinds.
    pub const ALL: [LayoutKind; 6] = [
        LayoutKind::Dense,
        LayoutKind::Strided,
        LayoutKind::Sparse,
        LayoutKind::Quantized,
        LayoutKind::Records,
        LayoutKind::Blob,
    ];

    /// Returns the kind's name for users.
    pub fn as_str(self) -> &'static str {
        match self {
            LayoutKind::Dense => "dense",
            LayoutKind::Strided => "strided",
            LayoutKind::Sparse => "sparse",
            LayoutKind::Quantized => "quantized",
            LayoutKind::Records => "records",
            LayoutKind::Blob => "blob",
        }
    }
}

impl FileUse {
    /// Returns the name of the action for users.
    pub fn as_str(self) -> &'static str {
        match self {
            FileUse::Reads => "read",
            FileUse::Copies => "copied",
            FileUse::CopiesUnchanged => "taken along",
            FileUse::Changes => "changed",
            FileUse::UpdatesIfChanged => "replaced where needed",
            FileUse::OnlyFile => "by itself",
        }
    }
}

impl OperationRow {
    /// Returns what the operation does with a kind of location.
    pub fn support(&self, location: LocationKind) -> Support {
        self.locations.get(location.position()).copied().unwrap_or(Support::Yes)
    }

    /// Returns what the operation does with tensors of a layout; `None` if it does not process tensors.
    pub fn layout(&self, layout: LayoutKind) -> Option<Support> {
        let position = LayoutKind::ALL.iter().position(|kind| *kind == layout)?;
        self.layouts?.get(position).copied()
    }
}

use FileUse::{Changes, Copies, CopiesUnchanged, OnlyFile, Reads, UpdatesIfChanged};
use Support::{No, Partly, WithNote, Yes};

/// A shard is opened alone, except the first part of a split GGUF file, which opens all parts.
const SHARD_ALONE: Support =
    WithNote("that file alone; the first part of a split GGUF file opens all parts");
const UNPACK: &str = "unpack the archive, and pass the path of the unpacked file";
const UNPACK_PACKAGE: &str =
    "unpack the package with `holdall unpack`, change the file, and pack it again";
const DOWNLOAD: &str = "first write the model to a local file, for example with `holdall convert`";
const SAVE: &str = "save standard input to a file, and pass its path";

/// Operations that read a model wherever it is.
const READ_ALL: [Support; 9] = [Yes, Yes, Yes, SHARD_ALONE, Yes, Yes, Yes, Yes, Yes];
const SEVERAL: &[&Rule] = &[&SEVERAL_FILES];
const OF_ONE: &[&Rule] = &[&NAMED_ELSEWHERE, &SEVERAL_FILES];
const ONE_FILE: &[&Rule] = &[&NO_MODEL];
/// Operations that change files where they are.
const IN_PLACE: [Support; 9] = [
    Yes,
    Partly("the files of the model that change; several only if an index names them", SEVERAL),
    Partly(
        "the shards that change, and the index if needed; one part of a split GGUF file",
        SEVERAL,
    ),
    Partly("attributes, and elements of existing tensors", OF_ONE),
    No(&LOCATION, UNPACK),
    No(&LOCATION, UNPACK_PACKAGE),
    No(&TO_ADDRESS, DOWNLOAD),
    No(&TO_ADDRESS, DOWNLOAD),
    No(&LOCATION, SAVE),
];
/// Operations that use files of the disk.
const LOCAL: [Support; 9] = [
    Yes,
    Yes,
    Yes,
    SHARD_ALONE,
    No(&LOCATION, UNPACK),
    No(&LOCATION, UNPACK),
    No(&LOCATION, DOWNLOAD),
    No(&LOCATION, DOWNLOAD),
    No(&LOCATION, SAVE),
];

/// The locations that `holdall view` supports: a file, with the other files of its model.
const VIEWED: [Support; 9] = {
    let mut locations = LOCAL;
    locations[1] = Partly("all but folders of `.npy` files", ONE_FILE);
    locations
};

/// Operations for which layouts make no difference.
const ANY_LAYOUT: Option<[Support; 6]> = Some([Yes; 6]);
/// Operations that write files of the same format again.
const EDITED: Option<[Support; 6]> = {
    let sparse = WithNote("not in PyTorch files, which are written without sparse tensors");
    Some([Yes, Yes, sparse, Yes, Yes, Yes])
};
/// Operations on records and blobs.
const RECORDS: Option<[Support; 6]> = {
    let other = No(&WHICH_DATASET, "name a dataset of records or a blob");
    Some([other, other, other, other, Yes, Yes])
};
const EXTRACTED: Support = WithNote("with `--dense`; or one component as it is stored");
const WHERE_KNOWN: Support =
    Partly("into formats that have the layout; with `--dense` into any", &[&CANNOT_HOLD]);
const RECORD_FORMATS: Support = Partly("into zTensor 1.2 and Metatensor", &[&CANNOT_HOLD]);

const fn reads(operation: Operation, name: &'static str) -> OperationRow {
    OperationRow { operation, name, locations: READ_ALL, layouts: ANY_LAYOUT, files: [Reads; 4] }
}

/// The table of all operations.
pub static OPERATIONS: &[OperationRow] = &[
    reads(Operation::Inspect, "inspect"),
    OperationRow {
        locations: [
            Yes,
            Yes,
            Yes,
            SHARD_ALONE,
            Yes,
            Yes,
            Yes,
            Yes,
            WithNote("the command; libraries take bytes"),
        ],
        layouts: Some([
            Yes,
            WithNote("in row-major order"),
            WithNote("as it is, or dense"),
            WithNote("as it is, or as `f32`"),
            WithNote("as records"),
            WithNote("as runs of bytes"),
        ]),
        ..reads(Operation::Load, "load")
    },
    reads(Operation::Verify, "verify"),
    OperationRow {
        layouts: Some([
            Yes,
            Yes,
            WithNote("including the zeros"),
            WithNote("of the dequantized values"),
            WithNote("none: not numbers"),
            WithNote("none: not numbers"),
        ]),
        ..reads(Operation::Stats, "stats")
    },
    reads(Operation::Diff, "diff"),
    OperationRow {
        layouts: Some([
            Yes,
            WithNote("in row-major order; with `--component` as it is stored"),
            EXTRACTED,
            EXTRACTED,
            WithNote("records of a fixed size; otherwise one component"),
            WithNote("one component"),
        ]),
        ..reads(Operation::Extract, "extract")
    },
    OperationRow { layouts: RECORDS, ..reads(Operation::Records, "records") },
    OperationRow {
        layouts: Some([
            Yes,
            WithNote("in row-major order"),
            WHERE_KNOWN,
            WHERE_KNOWN,
            RECORD_FORMATS,
            RECORD_FORMATS,
        ]),
        files: [Copies; 4],
        ..reads(Operation::Convert, "convert")
    },
    OperationRow {
        operation: Operation::Salvage,
        name: "salvage",
        locations: [Yes, Yes, Yes, SHARD_ALONE, Yes, Yes, Yes, Yes, No(&LOCATION, SAVE)],
        layouts: ANY_LAYOUT,
        files: [Copies; 4],
    },
    OperationRow {
        operation: Operation::Scan,
        name: "scan",
        locations: [
            WithNote("that file"),
            WithNote("every file in it"),
            WithNote("the index file itself; name the folder for its shards"),
            WithNote("that file"),
            Yes,
            Yes,
            WithNote("that file"),
            WithNote("that file"),
            Yes,
        ],
        layouts: ANY_LAYOUT,
        files: [OnlyFile; 4],
    },
    OperationRow {
        operation: Operation::Edit,
        name: "edit",
        locations: IN_PLACE,
        layouts: EDITED,
        files: [Changes, Changes, UpdatesIfChanged, Changes],
    },
    OperationRow {
        operation: Operation::Compact,
        name: "edit compact",
        locations: IN_PLACE,
        layouts: EDITED,
        files: [Changes, Changes, UpdatesIfChanged, Changes],
    },
    OperationRow {
        operation: Operation::Pack,
        name: "pack",
        locations: [
            WithNote("with the files that it refers to"),
            WithNote("every file in it"),
            WithNote("with its shards"),
            SHARD_ALONE,
            Yes,
            Yes,
            Yes,
            Yes,
            No(&LOCATION, SAVE),
        ],
        layouts: ANY_LAYOUT,
        files: [CopiesUnchanged; 4],
    },
    OperationRow {
        operation: Operation::Serve,
        name: "serve",
        locations: LOCAL,
        layouts: ANY_LAYOUT,
        files: [CopiesUnchanged; 4],
    },
    OperationRow {
        operation: Operation::View,
        name: "view",
        locations: VIEWED,
        layouts: ANY_LAYOUT,
        files: [CopiesUnchanged; 4],
    },
    OperationRow {
        operation: Operation::Build,
        name: "build",
        locations: [
            Yes,
            No(&LOCATION, "name the file of records in it"),
            Yes,
            Yes,
            Yes,
            Yes,
            Yes,
            Yes,
            Yes,
        ],
        layouts: None,
        files: [OnlyFile; 4],
    },
];

impl Operation {
    /// Returns the row of the operation.
    pub fn row(self) -> &'static OperationRow {
        let all = OPERATIONS.iter().find(|row| row.operation == self);
        // A test checks that each operation has a row.
        all.unwrap_or(&OPERATIONS[0])
    }
}

/// Returns an error if the operation does not support the kind of location of `path`. Call it before anything is
/// done.
///
/// # Errors
/// Returns the rule that the table gives.
pub fn check(operation: Operation, path: &Path) -> Result<()> {
    check_kind(operation, LocationKind::from_path(path), &Location::new(path).to_string())
}

/// The same as [`check`] for a known kind of location, called `name` in errors.
///
/// # Errors
/// Returns the same errors as [`check`].
pub fn check_kind(operation: Operation, location: LocationKind, name: &str) -> Result<()> {
    let row = operation.row();
    let Support::No(rule, instead) = row.support(location) else { return Ok(()) };
    let message =
        format!("`{}` does not support this kind of location: {}", row.name, location.as_str());
    let e = rule.broken(message).in_source(name);
    Err(if rule.hint.is_some() { e } else { e.with_hint(instead) })
}
