//! What is different between two packages.

use super::{FileLocation, Package, PackageFile, TensorKind, TensorRow};
use holdall_core::model::Hasher;
use holdall_core::wire::toml::{self, Table};
use holdall_core::{Algorithm, Limits, Result};
use holdall_io::package::read::{fill, reading};
use holdall_io::{Check, Work};
use holdall_package::{CARTON_TOML, LINKS_NAME, MANIFEST_NAME, TENSOR_INDEX, hash_of, write};
use std::collections::BTreeMap;

/// What is different between two packages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackageDiff {
    /// Fields of `carton.toml`, by their path: `input.x.shape`.
    pub fields: Vec<Difference>,
    /// Files, by path; the texts that describe the package and its tensors excepted.
    pub files: Vec<Difference>,
    /// Tensors of `tensor_data`, by name.
    pub tensors: Vec<Difference>,
}

impl PackageDiff {
    /// Whether nothing is different.
    pub fn is_same(&self) -> bool {
        self.fields.is_empty() && self.files.is_empty() && self.tensors.is_empty()
    }
}

/// One thing that is different, and how it is on either side; `None` where it is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// What it is.
    pub name: String,
    /// In the first package.
    pub a: Option<String>,
    /// In the second.
    pub b: Option<String>,
}

/// Compares two packages: what they say of themselves, their files by hash, their tensors. All files are hashed: one of a zip that
/// does not have the hash that its `MANIFEST` gives is an error, one of an unpacked folder a difference. Under [`Check::Off`] files of
/// a zip are taken to have those hashes, as files that are only linked to always are.
///
/// # Errors
/// Io; as [`PackageReader::read`](holdall_io::package::PackageReader::read).
pub fn package_diff(a: &Package, b: &Package) -> Result<PackageDiff> {
    Ok(PackageDiff {
        fields: differences(fields(a)?, fields(b)?),
        files: differences(files(a)?, files(b)?),
        tensors: differences(tensors(a)?, tensors(b)?),
    })
}

type Sides = BTreeMap<String, String>;

fn differences(a: Sides, mut b: Sides) -> Vec<Difference> {
    let mut out = Vec::new();
    for (name, a) in a {
        let b = b.remove(&name);
        if b.as_ref() != Some(&a) {
            out.push(Difference { name, a: Some(a), b });
        }
    }
    out.extend(b.into_iter().map(|(name, b)| Difference { name, a: None, b: Some(b) }));
    out.sort_by(|a, b| a.name.cmp(&b.name));
    out
}

fn fields(package: &Package) -> Result<Sides> {
    let text = write::description(package.description());
    // A long description may pass the limit on texts only here, where it is written with escapes.
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
                    // Inputs and outputs are known by their names, all others by their places.
                    let known = matches!(key.as_str(), "input" | "output");
                    let own = item.get("name").and_then(toml::Value::as_str).filter(|_| known);
                    let own = own.map_or_else(|| (at + 1).to_string(), str::to_owned);
                    flatten(&format!("{name}.{own}."), item, out);
                    if known {
                        out.insert(format!("{name}.{own}.place"), (at + 1).to_string());
                    }
                }
            }
            toml::Value::String(text) => drop(out.insert(name, text.clone())),
            other => drop(out.insert(name, other.to_string())),
        }
    }
}

fn files(package: &Package) -> Result<Sides> {
    let is_text = |path: &str| {
        matches!(path, CARTON_TOML | MANIFEST_NAME | LINKS_NAME | TENSOR_INDEX)
            || path.starts_with("tensor_data/")
    };
    let files = package.files().iter().filter(|f| !is_text(&f.path));
    files.map(|f| Ok((f.path.clone(), hash(package, f)?))).collect()
}

fn tensors(package: &Package) -> Result<Sides> {
    let rows = package.tensors().iter();
    rows.map(|row| Ok((row.name.clone(), tensor(package, row)?))).collect()
}

/// A tensor as a text: type, shape and the hash of its elements.
fn tensor(package: &Package, row: &TensorRow) -> Result<String> {
    match &row.kind {
        TensorKind::Plain { ty, shape, file } => {
            let path = format!("tensor_data/{file}");
            let hash = match package.file(&path) {
                Some(file) => hash(package, file)?,
                None => String::new(),
            };
            Ok(format!("{} {shape:?} {hash}", ty.as_str()))
        }
        TensorKind::Nested { inner } => {
            let rows = inner
                .iter()
                .filter_map(|name| package.tensors().iter().find(|row| row.name == *name));
            let inner = rows.map(|row| tensor(package, row)).collect::<Result<Vec<_>>>()?;
            Ok(format!("nested [{}]", inner.join(", ")))
        }
    }
}

/// The hash that `MANIFEST` gives, compared with the bytes, or that of the bytes where there is none. What lies on the disk may have
/// been altered since, and then that is reported.
fn hash(package: &Package, file: &PackageFile) -> Result<String> {
    match file.sha256 {
        Some(said) if file.place != FileLocation::Disk => {
            let target = file.target.as_deref().and_then(|target| package.file(target));
            let is_here = target.unwrap_or(file).place == FileLocation::Zip;
            if is_here && package.check() != Check::Off {
                let checked = package.check_file(file, &Work::new());
                checked.map_err(|e| e.in_source(package.inside(&file.path)))?;
            }
            Ok(write::hex(&said))
        }
        Some(said) => {
            let found = hash_of_bytes(package, file)?;
            let found_text = write::hex(&found);
            Ok(if found == said { found_text } else { format!("altered, now {found_text}") })
        }
        None => Ok(write::hex(&hash_of_bytes(package, file)?)),
    }
}

fn hash_of_bytes(package: &Package, file: &PackageFile) -> Result<[u8; 32]> {
    let (_, mut from) = package.unchecked_reader(&file.path)?;
    let (mut hasher, mut piece) = (Hasher::new(Algorithm::Sha256), vec![0; 1 << 20]);
    loop {
        let count = fill(&mut from, &mut piece).map_err(|e| reading(e, &file.path))?;
        hasher.update(&piece[..count]);
        if count < piece.len() {
            return Ok(hash_of(hasher));
        }
    }
}
