//! What each operation does with each place, each layout and each file of a model: one table, which operations ask before they write
//! anything, and from which `docs/matrix.md` is made.

use holdall_core::{Result, Rule};
use holdall_formats::folders::{self, ModelFiles};
use holdall_formats::shards::NO_MODEL;
use holdall_io::Location;
use holdall_io::error::{CANNOT_HOLD, NAMED_ELSEWHERE, PLACE, SEVERAL_FILES, TO_ADDRESS};
use holdall_records::rules::WHICH_DATASET;
use std::path::Path;

/// What can be done with a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Showing what is in it.
    Inspect,
    /// Opening it, and loading its tensors.
    Load,
    /// Checking it.
    Verify,
    /// Computing statistics of its tensors.
    Stats,
    /// Comparing two.
    Diff,
    /// Taking tensors, rows and bytes out.
    Extract,
    /// Reading and searching its records.
    Records,
    /// Writing it as another file or folder, compressed or in another form.
    Convert,
    /// Taking what is sound out of a damaged one.
    Salvage,
    /// Looking for pickles.
    Scan,
    /// Changing tensors and attributes.
    Edit,
    /// Giving back unused bytes.
    Compact,
    /// Making a package of it.
    Pack,
    /// Making it available over the network.
    Serve,
    /// Showing it in a browser.
    View,
    /// Making a file of records.
    Build,
}

/// A kind of place that a model is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PlaceKind {
    /// A file on a disk.
    File,
    /// A folder on a disk.
    Folder,
    /// An index file of a model in several files.
    Index,
    /// One of several files, named by itself.
    Shard,
    /// A file inside an archive.
    ArchiveMember,
    /// A file inside a package.
    PackageMember,
    /// An address on the web.
    Address,
    /// An address of an object store.
    Store,
    /// Standard input.
    StandardInput,
}

/// A kind of layout: what the elements of a tensor are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LayoutKind {
    /// Elements row by row.
    Dense,
    /// Elements apart by so many in each dimension.
    Strided,
    /// Elements that are not zero, with where they are.
    Sparse,
    /// Integers of few bits with scales, and blocks.
    Quantized,
    /// Records of a dataset.
    Records,
    /// Runs of bytes.
    Blob,
}

/// Whether an operation works with a kind of place or layout.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Support {
    /// It does.
    Yes,
    /// It does, as this says.
    As(&'static str),
    /// It does but for some cases, which are refused with one of these rules.
    Partly(&'static str, &'static [&'static Rule]),
    /// It does not: it refuses with this rule. The text says what to do instead.
    No(&'static Rule, &'static str),
}

/// What an operation does with a file of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileUse {
    /// It reads the file as a part of the model.
    Reads,
    /// It reads the file, and writes what it says as a part of another model.
    Copies,
    /// It takes the file along as it is.
    TakesAlong,
    /// It changes the file, or replaces it.
    Changes,
    /// It replaces the file if what it says has changed.
    Follows,
    /// It refuses models that have such a file, or works with that file alone.
    Alone,
}

/// What an operation does with places and files.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct OperationRow {
    /// The operation.
    pub operation: Operation,
    /// Its name for users: that of its command, if there is one.
    pub name: &'static str,
    /// What it does with each kind of place, in the order of [`PlaceKind::ALL`].
    pub places: [Support; 9],
    /// What it does with tensors of each layout, in the order of [`LayoutKind::ALL`]; `None` if it does not take tensors.
    pub layouts: Option<[Support; 6]>,
    /// What it does with files of each role: the only file, shards, the index, files with bytes of another.
    pub files: [FileUse; 4],
}

impl PlaceKind {
    /// All kinds.
    pub const ALL: [PlaceKind; 9] = [
        PlaceKind::File,
        PlaceKind::Folder,
        PlaceKind::Index,
        PlaceKind::Shard,
        PlaceKind::ArchiveMember,
        PlaceKind::PackageMember,
        PlaceKind::Address,
        PlaceKind::Store,
        PlaceKind::StandardInput,
    ];

    /// Returns the kind of a path, as far as that shows before it is opened: a file that is a shard is a file.
    pub fn from_path(path: &Path) -> PlaceKind {
        match Location::new(path) {
            Location::Path(_) => {}
            Location::Store(_) => return PlaceKind::Store,
            Location::Member { archive, .. } => {
                let outer = archive.to_path_buf();
                let is_package = outer.join("carton.toml").exists()
                    || outer.extension().is_some_and(|e| e.eq_ignore_ascii_case("carton"));
                return match is_package {
                    true => PlaceKind::PackageMember,
                    false => PlaceKind::ArchiveMember,
                };
            }
            _ => return PlaceKind::Address,
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match folders::by_entry(name) {
            _ if path.is_dir() => PlaceKind::Folder,
            Some(ModelFiles::Index(..)) => PlaceKind::Index,
            _ => PlaceKind::File,
        }
    }

    /// Returns the name of the kind, as users read it.
    pub fn as_str(self) -> &'static str {
        match self {
            PlaceKind::File => "file",
            PlaceKind::Folder => "folder",
            PlaceKind::Index => "index file",
            PlaceKind::Shard => "one shard",
            PlaceKind::ArchiveMember => "file in an archive",
            PlaceKind::PackageMember => "file in a package",
            PlaceKind::Address => "address",
            PlaceKind::Store => "object store",
            PlaceKind::StandardInput => "standard input",
        }
    }

    fn position(self) -> usize {
        PlaceKind::ALL.iter().position(|kind| *kind == self).unwrap_or(0)
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

    /// Returns the name of the kind, as users read it.
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
    /// Returns what is done, as users read it.
    pub fn as_str(self) -> &'static str {
        match self {
            FileUse::Reads => "read",
            FileUse::Copies => "copied",
            FileUse::TakesAlong => "taken along",
            FileUse::Changes => "changed",
            FileUse::Follows => "replaced where needed",
            FileUse::Alone => "by itself",
        }
    }
}

impl OperationRow {
    /// Returns what the operation does with a kind of place.
    pub fn support(&self, place: PlaceKind) -> Support {
        self.places.get(place.position()).copied().unwrap_or(Support::Yes)
    }

    /// Returns what the operation does with tensors of a layout; `None` if it does not take tensors.
    pub fn layout(&self, layout: LayoutKind) -> Option<Support> {
        let position = LayoutKind::ALL.iter().position(|kind| *kind == layout)?;
        self.layouts?.get(position).copied()
    }
}

use FileUse::{Alone, Changes, Copies, Follows, Reads, TakesAlong};
use Support::{As, No, Partly, Yes};

/// A shard is opened by itself, but for the first part of a split file.
const SHARD_ALONE: Support = As("that file alone; of a split GGUF file the first part opens all");
const UNPACK: &str = "unpack the archive, and name the file that comes out of it";
const UNPACK_PACKAGE: &str =
    "unpack the package with `holdall unpack`, change the file, and pack it again";
const DOWNLOAD: &str =
    "write the model to a file first, as `holdall convert` does, and work with that";
const SAVE: &str = "save what comes from standard input to a file, and name that";

/// Operations that read a model wherever it is.
const READ_ALL: [Support; 9] = [Yes, Yes, Yes, SHARD_ALONE, Yes, Yes, Yes, Yes, Yes];
const SEVERAL: &[&Rule] = &[&SEVERAL_FILES];
const OF_ONE: &[&Rule] = &[&NAMED_ELSEWHERE, &SEVERAL_FILES];
const ONE_FILE: &[&Rule] = &[&NO_MODEL];
/// Operations that change files where they are.
const IN_PLACE: [Support; 9] = [
    Yes,
    Partly("the files of the model that change; several only where an index names them", SEVERAL),
    Partly(
        "the shards that change, and the index if it has to; of a split GGUF file one part",
        SEVERAL,
    ),
    Partly("attributes, and elements of the same names", OF_ONE),
    No(&PLACE, UNPACK),
    No(&PLACE, UNPACK_PACKAGE),
    No(&TO_ADDRESS, DOWNLOAD),
    No(&TO_ADDRESS, DOWNLOAD),
    No(&PLACE, SAVE),
];
/// Operations that use files of the disk.
const LOCAL: [Support; 9] = [
    Yes,
    Yes,
    Yes,
    SHARD_ALONE,
    No(&PLACE, UNPACK),
    No(&PLACE, UNPACK),
    No(&PLACE, DOWNLOAD),
    No(&PLACE, DOWNLOAD),
    No(&PLACE, SAVE),
];

/// What a browser is shown: a file, with others that belong to it.
const VIEWED: [Support; 9] = {
    let mut places = LOCAL;
    places[1] = Partly("all but folders of `.npy` files", ONE_FILE);
    places
};

/// Operations for which layouts make no difference.
const ANY_LAYOUT: Option<[Support; 6]> = Some([Yes; 6]);
/// Operations that write files of the same format again.
const EDITED: Option<[Support; 6]> = {
    let sparse = As("not in PyTorch's files, which are written without");
    Some([Yes, Yes, sparse, Yes, Yes, Yes])
};
/// Operations on records and blobs.
const RECORDS: Option<[Support; 6]> = {
    let other = No(&WHICH_DATASET, "name a dataset of records or a blob");
    Some([other, other, other, other, Yes, Yes])
};
const EXTRACTED: Support = As("with `--dense`; or one component as it is stored");
const WHERE_KNOWN: Support =
    Partly("into formats that have the layout; with `--dense` into any", &[&CANNOT_HOLD]);
const RECORD_FORMATS: Support = Partly("into zTensor 1.2 and Metatensor", &[&CANNOT_HOLD]);

const fn reads(operation: Operation, name: &'static str) -> OperationRow {
    OperationRow { operation, name, places: READ_ALL, layouts: ANY_LAYOUT, files: [Reads; 4] }
}

/// What each operation does.
pub static OPERATIONS: &[OperationRow] = &[
    reads(Operation::Inspect, "inspect"),
    OperationRow {
        places: [
            Yes,
            Yes,
            Yes,
            SHARD_ALONE,
            Yes,
            Yes,
            Yes,
            Yes,
            As("the command; libraries take bytes"),
        ],
        layouts: Some([
            Yes,
            As("row by row"),
            As("as it is, or dense"),
            As("as it is, or as `f32`"),
            As("as records"),
            As("as runs of bytes"),
        ]),
        ..reads(Operation::Load, "load")
    },
    reads(Operation::Verify, "verify"),
    OperationRow {
        layouts: Some([
            Yes,
            Yes,
            As("with the zeros"),
            As("of the values that are stood for"),
            As("no numbers, so none"),
            As("no numbers, so none"),
        ]),
        ..reads(Operation::Stats, "stats")
    },
    reads(Operation::Diff, "diff"),
    OperationRow {
        layouts: Some([
            Yes,
            As("row by row; with `--component` as it is stored"),
            EXTRACTED,
            EXTRACTED,
            As("records of a fixed size; of others one component"),
            As("one component"),
        ]),
        ..reads(Operation::Extract, "extract")
    },
    OperationRow { layouts: RECORDS, ..reads(Operation::Records, "records") },
    OperationRow {
        layouts: Some([
            Yes,
            As("row by row"),
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
        places: [Yes, Yes, Yes, SHARD_ALONE, Yes, Yes, Yes, Yes, No(&PLACE, SAVE)],
        layouts: ANY_LAYOUT,
        files: [Copies; 4],
    },
    OperationRow {
        operation: Operation::Scan,
        name: "scan",
        places: [
            As("that file"),
            As("every file in it"),
            As("the index file itself; name the folder for its shards"),
            As("that file"),
            Yes,
            Yes,
            As("that file"),
            As("that file"),
            Yes,
        ],
        layouts: ANY_LAYOUT,
        files: [Alone; 4],
    },
    OperationRow {
        operation: Operation::Edit,
        name: "edit",
        places: IN_PLACE,
        layouts: EDITED,
        files: [Changes, Changes, Follows, Changes],
    },
    OperationRow {
        operation: Operation::Compact,
        name: "edit compact",
        places: IN_PLACE,
        layouts: EDITED,
        files: [Changes, Changes, Follows, Changes],
    },
    OperationRow {
        operation: Operation::Pack,
        name: "pack",
        places: [
            As("with the files that it names"),
            As("every file in it"),
            As("with its shards"),
            SHARD_ALONE,
            Yes,
            Yes,
            Yes,
            Yes,
            No(&PLACE, SAVE),
        ],
        layouts: ANY_LAYOUT,
        files: [TakesAlong; 4],
    },
    OperationRow {
        operation: Operation::Serve,
        name: "serve",
        places: LOCAL,
        layouts: ANY_LAYOUT,
        files: [TakesAlong; 4],
    },
    OperationRow {
        operation: Operation::View,
        name: "view",
        places: VIEWED,
        layouts: ANY_LAYOUT,
        files: [TakesAlong; 4],
    },
    OperationRow {
        operation: Operation::Build,
        name: "build",
        places: [
            Yes,
            No(&PLACE, "name the file of records in it"),
            Yes,
            Yes,
            Yes,
            Yes,
            Yes,
            Yes,
            Yes,
        ],
        layouts: None,
        files: [Alone; 4],
    },
];

impl Operation {
    /// Returns the row of the operation.
    pub fn row(self) -> &'static OperationRow {
        let all = OPERATIONS.iter().find(|row| row.operation == self);
        // A test finds each of them.
        all.unwrap_or(&OPERATIONS[0])
    }
}

/// Refuses a path of a kind of place that an operation does not work with, before it does anything.
///
/// # Errors
/// The rule that the table names.
pub fn check(operation: Operation, path: &Path) -> Result<()> {
    check_kind(operation, PlaceKind::from_path(path), &Location::new(path).to_string())
}

/// As [`check`], of a place of a known kind, which is called `name` in errors.
///
/// # Errors
/// As [`check`].
pub fn check_kind(operation: Operation, place: PlaceKind, name: &str) -> Result<()> {
    let row = operation.row();
    let Support::No(rule, instead) = row.support(place) else { return Ok(()) };
    let message = format!("`{}` does not work with this place: {}", row.name, place.as_str());
    let e = rule.broken(message).in_source(name);
    Err(if rule.hint.is_some() { e } else { e.with_hint(instead) })
}
