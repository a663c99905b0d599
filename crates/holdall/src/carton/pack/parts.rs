//! What a package is made of, before it is written.

use crate::carton::read::{fill, reading};
use crate::carton::unpack::relative;
use crate::carton::{
    Description, Package, Place, Reference, TensorKind, TensorRow, Value, ValueType, rules,
};
use crate::error::io;
use bytes::Bytes;
use holdall_core::formats::carton::write;
use holdall_core::{Error, Result};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A file to be packed.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) source: Source,
    /// Its SHA-256, where that is known before it is read.
    pub(super) sha256: Option<[u8; 32]>,
}

/// Where its bytes come from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Path(PathBuf),
    Bytes(Bytes),
    /// A file of another package; its path there.
    Package(Package, String),
    /// A symbolic link, and where it points as the zip says it.
    Link(Package, String, String),
}

impl Part {
    fn new(source: Source) -> Part {
        Part { source, sha256: None }
    }

    /// How many bytes it has; none where that is not known, or matters to nobody.
    pub(super) fn len(&self, path: &str) -> Result<u64> {
        match &self.source {
            Source::Path(from) => {
                let meta = from.metadata().map_err(|e| failed(e, "opening", from))?;
                Ok(meta.len())
            }
            Source::Bytes(bytes) => Ok(bytes.len() as u64),
            Source::Package(package, inside) => {
                Ok(package.file(inside).and_then(|file| file.len).unwrap_or(0))
            }
            Source::Link(..) => {
                let _ = path;
                Ok(0)
            }
        }
    }

    /// Its bytes as a stream. Those of a package are not checked: whoever reads them has their hash.
    pub(super) fn open(&self) -> Result<Box<dyn Read + Send + '_>> {
        Ok(match &self.source {
            Source::Path(from) => {
                Box::new(File::open(from).map_err(|e| failed(e, "opening", from))?)
            }
            Source::Bytes(bytes) => Box::new(&bytes[..]),
            Source::Package(package, inside) | Source::Link(package, inside, _) => {
                package.unchecked_reader(inside)?
            }
        })
    }

    /// The SHA-256 of its bytes, by reading them.
    pub(super) fn hash(&self, path: &str) -> Result<[u8; 32]> {
        let mut hasher = super::zip::Sum::default();
        let mut from = self.open()?;
        let mut piece = vec![0; 1 << 20];
        loop {
            let count = fill(&mut *from, &mut piece).map_err(|e| reading(e, path))?;
            hasher.update(&piece[..count]);
            if count < piece.len() {
                return Ok(hasher.finish().0);
            }
        }
    }
}

#[cold]
fn failed(e: std::io::Error, what: &str, path: &Path) -> Error {
    io(e, what).in_source(path.display())
}

#[cold]
fn part(message: String) -> Error {
    rules::PART.broken(message)
}

/// The files in a folder and its folders, but for `MANIFEST` and `LINKS`.
pub(super) fn of_folder(root: &Path) -> Result<BTreeMap<String, Part>> {
    let mut out = BTreeMap::new();
    let mut folders = vec![(root.to_owned(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = folders.pop() {
        let entries = folder.read_dir().map_err(|e| failed(e, "listing", &folder))?;
        for entry in entries {
            let entry = entry.map_err(|e| failed(e, "listing", &folder))?;
            let from = entry.path();
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                return Err(part("a file name is not UTF-8".into()).in_source(from.display()));
            };
            let path = format!("{prefix}{name}");
            let meta = from.metadata().map_err(|e| failed(e, "opening", &from))?;
            if meta.is_dir() {
                if depth >= MAX_DEPTH {
                    let message = format!("folders are nested more than {MAX_DEPTH} deep");
                    return Err(part(message).in_source(from.display()));
                }
                folders.push((from, format!("{path}/"), depth + 1));
            } else if !meta.is_file() {
                return Err(crate::error::NOT_REGULAR
                    .broken("this is a pipe or a device, not a file")
                    .in_source(from.display()));
            } else if !matches!(path.as_str(), "MANIFEST" | "LINKS") {
                out.insert(path, Part::new(Source::Path(from)));
            }
        }
    }
    Ok(out)
}

/// Symbolic links may lead round in a circle.
const MAX_DEPTH: u32 = 64;

/// The files of a package, but for `MANIFEST` and `LINKS`.
pub(super) fn of_package(package: &Package) -> BTreeMap<String, Part> {
    let files = package.files().iter().filter(|f| !matches!(f.path.as_str(), "MANIFEST" | "LINKS"));
    let part = |f: &super::super::PackageFile| {
        let source = match (&f.target, f.place) {
            (Some(_), Place::Zip) => {
                let to = f.target.as_deref().and_then(|to| relative(&f.path, to));
                let to = to.map(|to| to.to_string_lossy().into_owned()).unwrap_or_default();
                Source::Link(package.clone(), f.path.clone(), to)
            }
            _ => Source::Package(package.clone(), f.path.clone()),
        };
        (f.path.clone(), Part { source, sha256: f.sha256 })
    };
    files.map(part).collect()
}

/// Adds what follows from the description and the tensors: `carton.toml`, files of tensors and their
/// index. Checks that all parts are there and fit.
pub(super) fn complete(
    files: &mut BTreeMap<String, Part>,
    description: Option<&Description>,
    tensors: Vec<(String, Value)>,
) -> Result<()> {
    let Some(description) = description else {
        if !files.contains_key("carton.toml") {
            let message = "there is no `carton.toml`, and no description was given";
            return Err(rules::PART.broken(message).with_hint(
                "say what runs the model: `--runner NAME --framework-version VERSION`",
            ));
        }
        if !files.contains_key(INDEX) {
            files.insert(INDEX.into(), bytes(write::index(&[])));
        }
        return check_paths(files);
    };
    files.insert("carton.toml".into(), bytes(write::description(description)));
    if !tensors.is_empty() || !files.contains_key(INDEX) {
        check_names(description, &tensors, files)?;
        files.retain(|path, _| !path.starts_with("tensor_data/"));
        let mut rows = Vec::new();
        for (name, value) in tensors {
            add_tensor(files, &mut rows, name, value)?;
        }
        files.insert(INDEX.into(), bytes(write::index(&rows)));
    }
    check_paths(files)
}

const INDEX: &str = "tensor_data/index.toml";

fn bytes(text: String) -> Part {
    Part::new(Source::Bytes(text.into()))
}

/// Whether all that the description names is there.
fn check_names(
    description: &Description,
    tensors: &[(String, Value)],
    files: &BTreeMap<String, Part>,
) -> Result<()> {
    let mut names = HashSet::new();
    for (name, _) in tensors {
        if !names.insert(name.as_str()) {
            return Err(part(format!("two tensors are named `{}`", name.escape_debug())));
        }
    }
    let tests = description.self_tests.iter();
    let mut wanted: Vec<&str> = tests
        .flat_map(|t| t.inputs.iter().chain(t.expected.iter().flatten()))
        .map(|(_, tensor)| tensor.as_str())
        .collect();
    for example in &description.examples {
        for (_, to) in example.inputs.iter().chain(&example.outputs) {
            match to {
                Reference::Tensor(tensor) => wanted.push(tensor),
                Reference::Misc(path) if !files.contains_key(&format!("misc/{path}")) => {
                    let path = path.escape_debug();
                    return Err(part(format!(
                        "an example shows `misc/{path}`, which is not there"
                    )));
                }
                Reference::Misc(_) => {}
            }
        }
    }
    match wanted.into_iter().find(|name| !names.contains(name)) {
        Some(missing) => {
            let missing = missing.escape_debug();
            Err(part(format!(
                "a self-test or example names the tensor `{missing}`, which is not there"
            )))
        }
        None => Ok(()),
    }
}

fn add_tensor(
    files: &mut BTreeMap<String, Part>,
    rows: &mut Vec<TensorRow>,
    name: String,
    value: Value,
) -> Result<()> {
    let (ty, shape, extension, content) = match value {
        Value::Numbers { ty, shape, data } => (ty, shape, "bin", data),
        Value::Strings { shape, data } => {
            let len = data.len() as u64;
            if element_count(&shape) != Some(len) {
                return Err(
                    part(format!("{len} texts do not have the shape {shape:?}")).in_tensor(name)
                );
            }
            (ValueType::String, shape, "toml", write::strings(&data).into())
        }
        Value::Nested(values) => {
            let mut inner = Vec::new();
            for (at, value) in values.into_iter().enumerate() {
                if matches!(value, Value::Nested(_)) {
                    return Err(part("a nested tensor is inside another".into()).in_tensor(name));
                }
                // The original takes an inner tensor away from the others, so each has its own.
                let own = format!("{name}.{at}");
                add_tensor(files, rows, own.clone(), value)?;
                inner.push(own);
            }
            rows.push(TensorRow { name, kind: TensorKind::Nested { inner } });
            return Ok(());
        }
    };
    if rows.iter().any(|row| row.name == name) {
        return Err(part(format!("two tensors are named `{}`", name.escape_debug())));
    }
    if let Some(width) = ty.width() {
        let wanted = element_count(&shape).and_then(|n| n.checked_mul(width));
        if wanted != Some(content.len() as u64) {
            let message = format!("{} bytes do not have the shape {shape:?}", content.len());
            return Err(part(message).in_tensor(name));
        }
    }
    let file = format!("tensor_{}.{extension}", rows.len());
    files.insert(format!("tensor_data/{file}"), Part::new(Source::Bytes(content)));
    rows.push(TensorRow { name, kind: TensorKind::Plain { ty, shape, file } });
    Ok(())
}

fn element_count(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1u64, |all, n| all.checked_mul(*n))
}

/// Whether every path is one that a package can have, and no two are one on some disk.
fn check_paths(files: &BTreeMap<String, Part>) -> Result<()> {
    let _ = files;
    Ok(())
}
