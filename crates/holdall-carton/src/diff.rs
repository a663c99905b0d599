//! Compares two packages.

use super::{FileLocation, Package, PackageFile, TensorKind, TensorRow};
use holdall_core::model::Hasher;
use holdall_core::wire::toml::{self, Table};
use holdall_core::{Algorithm, Limits, Result};
use holdall_io::package::read::{fill, reading};
use holdall_io::{Check, Work};
use holdall_package::{CARTON_TOML, LINKS_NAME, MANIFEST_NAME, TENSOR_INDEX, hash_of, write};
use std::collections::{BTreeMap, HashMap};

/// The folder with the files of tensors.
const TENSOR_FOLDER: &str = "tensor_data/";

/// The differences between two packages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackageDiff {
    /// Differing fields of `carton.toml`, by their path: `input.x.shape`.
    pub fields: Vec<Difference>,
    /// Differing files, by path, except the texts that describe the package and its tensors.
    pub files: Vec<Difference>,
    /// Differing tensors of `tensor_data`, by name.
    pub tensors: Vec<Difference>,
}

impl PackageDiff {
    /// Returns `true` if there are no differences.
    pub fn is_same(&self) -> bool {
        self.fields.is_empty() && self.files.is_empty() && self.tensors.is_empty()
    }
}

/// A difference, with the value in each package; `None` if it is missing there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The name of the field, file or tensor.
    pub name: String,
    /// The value in the first package.
    pub a: Option<String>,
    /// The value in the second package.
    pub b: Option<String>,
}

/// Compares two packages: their descriptions, their files by hash, their tensors. All files are hashed. A
/// file of a zip whose hash differs from its `MANIFEST` is an error; in an unpacked folder it is a
/// difference, even if the other package has the same bytes. Under [`Check::Off`] files of a zip are assumed
/// to have the hashes in `MANIFEST`, as files that are only linked to always are. `work` counts the bytes
/// that are hashed.
///
/// # Errors
/// Returns an `Io` error; the same as [`PackageReader::read`](holdall_io::package::PackageReader::read).
pub fn package_diff(a: &Package, b: &Package, work: &Work) -> Result<PackageDiff> {
    let (a_files, b_files) = (wanted(a), wanted(b));
    work.begin(a_files.values().chain(b_files.values()).sum());
    let (a_hashes, b_hashes) = (hashes(a, &a_files, work)?, hashes(b, &b_files, work)?);
    Ok(PackageDiff {
        fields: differences(fields(a)?, fields(b)?),
        files: differences(files(a, &a_hashes), files(b, &b_hashes)),
        tensors: differences(tensors(a, &a_hashes), tensors(b, &b_hashes)),
    })
}

/// A file or field as text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Contents {
    text: String,
    /// Whether the bytes differ from the package's `MANIFEST`.
    is_altered: bool,
}

/// The contents of one package, by name.
type Sides = BTreeMap<String, Contents>;

fn differences(a: Sides, mut b: Sides) -> Vec<Difference> {
    let mut out = Vec::new();
    for (name, a) in a {
        let b = b.remove(&name);
        // Equal altered files are reported too: neither package agrees with its `MANIFEST`.
        if b.as_ref() != Some(&a) || a.is_altered {
            out.push(Difference { name, a: Some(a.text), b: b.map(|b| b.text) });
        }
    }
    out.extend(b.into_iter().map(|(name, b)| Difference { name, a: None, b: Some(b.text) }));
    out.sort_by(|a, b| a.name.cmp(&b.name));
    out
}

fn fields(package: &Package) -> Result<Sides> {
    let text = write::description(package.description());
    // Written with escapes, a long description may exceed the limit on texts only here.
    let mut limits = Limits::default();
    limits.text_len = u64::MAX;
    let mut out = Sides::new();
    flatten("", &toml::parse(text.as_bytes(), &limits)?, &mut out);
    Ok(out)
}

fn flatten(prefix: &str, table: &Table, out: &mut Sides) {
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        match value {
            toml::Value::Table(inner) => flatten(&format!("{name}."), inner, out),
            toml::Value::Array(items) if items.iter().all(toml::Value::is_table) => {
                for (at, item) in items.iter().filter_map(toml::Value::as_table).enumerate() {
                    // Inputs and outputs are identified by name, all other items by position.
                    let known = matches!(key.as_str(), "input" | "output");
                    let own = item.get("name").and_then(toml::Value::as_str).filter(|_| known);
                    let own = own.map_or_else(|| (at + 1).to_string(), str::to_owned);
                    flatten(&format!("{name}.{own}."), item, out);
                    if known {
                        out.insert(format!("{name}.{own}.position"), plain((at + 1).to_string()));
                    }
                }
            }
            toml::Value::String(text) => drop(out.insert(name, plain(text.clone()))),
            other => drop(out.insert(name, plain(other.to_string()))),
        }
    }
}

fn plain(text: String) -> Contents {
    Contents { text, is_altered: false }
}

/// Returns `true` if a file is compared by its path. Other files are texts, which are compared by their
/// contents, or tensors.
fn is_plain(path: &str) -> bool {
    !matches!(path, CARTON_TOML | MANIFEST_NAME | LINKS_NAME | TENSOR_INDEX)
        && !path.starts_with(TENSOR_FOLDER)
}

/// Returns the files whose hashes are compared, with the bytes of each that must be read. Symbolic links are
/// resolved.
fn wanted(package: &Package) -> BTreeMap<&str, u64> {
    let plain = package.files().iter().filter(|file| is_plain(&file.path));
    let rows = package.tensors().iter().filter_map(|row| match &row.kind {
        TensorKind::Plain { file, .. } => package.file(&format!("{TENSOR_FOLDER}{file}")),
        TensorKind::Nested { .. } => None,
    });
    let all = plain.chain(rows).map(|file| end_of(package, file));
    all.map(|file| {
        let is_read = match file.location {
            FileLocation::Zip => file.sha256.is_none() || package.check() != Check::Off,
            FileLocation::Disk => true,
            _ => file.sha256.is_none(),
        };
        (file.path.as_str(), if is_read { file.len.unwrap_or(0) } else { 0 })
    })
    .collect()
}

/// Returns the file itself, or the target of a symbolic link.
fn end_of<'a>(package: &'a Package, file: &'a PackageFile) -> &'a PackageFile {
    file.target.as_deref().and_then(|target| package.file(target)).unwrap_or(file)
}

/// Returns the hashes of these files, as text.
fn hashes<'a>(
    package: &'a Package,
    wanted: &BTreeMap<&'a str, u64>,
    work: &Work,
) -> Result<BTreeMap<&'a str, Contents>> {
    let files = wanted.keys().filter_map(|path| Some((*path, package.file(path)?)));
    files.map(|(path, file)| Ok((path, hash(package, file, work)?))).collect()
}

fn files(package: &Package, hashes: &BTreeMap<&str, Contents>) -> Sides {
    let files = package.files().iter().filter(|file| is_plain(&file.path));
    files.map(|file| (file.path.clone(), file_contents(package, file, hashes))).collect()
}

fn file_contents(
    package: &Package,
    file: &PackageFile,
    hashes: &BTreeMap<&str, Contents>,
) -> Contents {
    hashes.get(end_of(package, file).path.as_str()).cloned().unwrap_or_default()
}

fn tensors(package: &Package, hashes: &BTreeMap<&str, Contents>) -> Sides {
    let rows = || package.tensors().iter();
    let by_name: HashMap<&str, &TensorRow> = rows().map(|row| (row.name.as_str(), row)).collect();
    let tensor = |row: &TensorRow| tensor(package, row, hashes, &by_name);
    rows().map(|row| (row.name.clone(), tensor(row))).collect()
}

/// Returns a tensor as text: type, shape and the hash of its elements.
fn tensor(
    package: &Package,
    row: &TensorRow,
    hashes: &BTreeMap<&str, Contents>,
    by_name: &HashMap<&str, &TensorRow>,
) -> Contents {
    match &row.kind {
        TensorKind::Plain { ty, shape, file } => {
            let file = package.file(&format!("{TENSOR_FOLDER}{file}"));
            let Contents { text, is_altered } =
                file.map(|file| file_contents(package, file, hashes)).unwrap_or_default();
            Contents { text: format!("{} {shape:?} {text}", ty.as_str()), is_altered }
        }
        TensorKind::Nested { inner } => {
            let rows = inner.iter().filter_map(|name| by_name.get(name.as_str()));
            let inner: Vec<Contents> =
                rows.map(|row| tensor(package, row, hashes, by_name)).collect();
            let texts: Vec<&str> =
                inner.iter().map(|inner_file| inner_file.text.as_str()).collect();
            Contents {
                text: format!("nested [{}]", texts.join(", ")),
                is_altered: inner.iter().any(|inner_file| inner_file.is_altered),
            }
        }
    }
}

/// Returns the hash in `MANIFEST` after comparing it with the bytes, or the hash of the bytes if there is
/// none. A file on disk may have been altered; then that is reported.
fn hash(package: &Package, file: &PackageFile, work: &Work) -> Result<Contents> {
    match file.sha256 {
        Some(listed) if file.location != FileLocation::Disk => {
            if file.location == FileLocation::Zip && package.check() != Check::Off {
                let checked = package.check_file(file, work);
                checked.map_err(|e| e.in_source(package.inside(&file.path)))?;
            }
            Ok(plain(write::hex(&listed)))
        }
        listed => {
            let found = hash_of_bytes(package, file, work)?;
            let is_altered = listed.is_some_and(|listed| listed != found);
            let text = match is_altered {
                true => format!("altered, now {}", write::hex(&found)),
                false => write::hex(&found),
            };
            Ok(Contents { text, is_altered })
        }
    }
}

fn hash_of_bytes(package: &Package, file: &PackageFile, work: &Work) -> Result<[u8; 32]> {
    let (_, mut from) = package.unchecked_reader(&file.path)?;
    let (mut hasher, mut piece) = (Hasher::new(Algorithm::Sha256), vec![0; 1 << 20]);
    loop {
        let count = fill(&mut from, &mut piece).map_err(|e| reading(e, &file.path))?;
        hasher.update(&piece[..count]);
        work.advance(count as u64)?;
        if count < piece.len() {
            return Ok(hash_of(hasher));
        }
    }
}
