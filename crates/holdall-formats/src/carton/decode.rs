//! Decodes the index of a package in a zip: its tensors, and its description as attributes.

use super::FORMAT;
use crate::unknown_zip;
use holdall_core::error::Result;
use holdall_core::limits::Limits;
use holdall_core::model::{
    Attributes, ByteOrder, Component, DType, Digest, Encoding, Index, IndexBuilder, Layout, Role,
    Value,
};
use holdall_core::read::Extent;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::zip::{Directory, Entry, EntryKind};
use holdall_package::{
    Description, DimSpec, FetchedTexts, LINKED, NESTED, PackageContents, PackedFile, Runner,
    STRINGS, ShapeSpec, TensorKind, TensorRow, ValueSpec, paths, read_zip, write, zip_texts,
};
use std::ops::Range;

pub(super) fn decode(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    decode_linked(window, limits, &FetchedTexts::default(), &[])
}

/// Decodes the index of a package together with files that it links to: the fetched `texts`, and the files of tensors,
/// given by their paths and lengths, which become the sources 1, 2, … of the index.
///
/// # Errors
/// Returns the errors of all rules of packages.
pub fn decode_linked(
    window: &Window,
    limits: &Limits,
    texts: &FetchedTexts,
    linked: &[(String, u64)],
) -> Result<Index, Stop> {
    let directory = Directory::read(window, limits)?;
    // Fetches the local headers of the tensors together with the texts, which are read once.
    let own_texts: Vec<Entry<'_>> = zip_texts(&directory).into_iter().flatten().collect();
    let headers = directory.entries().filter(is_tensor).map(|entry| directory.header(entry));
    window.all(directory.likely_ranges(&own_texts, limits).chain(headers))?;
    let contents = read_zip(&directory, window, limits, texts)?;
    let contents = contents.ok_or_else(|| unknown_zip(&directory))?;
    let data = 0..directory.range().start;
    let mut builder = IndexBuilder::new(FORMAT.id, "1", window.len(), data, limits);
    for (_, len) in linked {
        builder.source(*len, 0..*len)?;
    }
    contents.warnings.iter().cloned().for_each(|warning| builder.add_warning(warning));
    builder.attributes(attributes(&contents));
    let files: Vec<Option<&PackedFile>> =
        contents.tensors.iter().map(|row| file_of(&contents, row)).collect();
    let entry =
        |file: Option<&PackedFile>| file.and_then(|f| f.found).and_then(|at| directory.at(at));
    let wanted: Vec<Entry<'_>> = files.iter().filter_map(|file| entry(*file)).collect();
    let mut ranges = directory.data_of_all(&wanted, window)?.into_iter();
    for (row, file) in contents.tensors.iter().zip(files) {
        let entry = entry(file);
        let stored = match entry.and_then(|entry| Some((entry, ranges.next()?))) {
            Some((entry, range)) => Some(StoredTensor::from_entry(entry, range)),
            None => file.and_then(|file| StoredTensor::linked(file, linked)),
        };
        tensor(&mut builder, row, file, stored)?;
    }
    Ok(builder.finish()?)
}

/// Returns `true` if this may be the file of a tensor.
fn is_tensor(entry: &Entry<'_>) -> bool {
    paths::is_in_tensor_data(entry.name()) && entry.kind() == EntryKind::File
}

fn file_of<'a>(contents: &'a PackageContents, row: &TensorRow) -> Option<&'a PackedFile> {
    match &row.kind {
        TensorKind::Plain { file, .. } => contents.tensor_file(file),
        TensorKind::Nested { .. } => None,
    }
}

/// The location of the bytes of a tensor's file.
struct StoredTensor {
    stored: Extent,
    encoding: Encoding,
    len: u64,
    /// The CRC-32 of a zip entry.
    crc32: Option<u32>,
}

impl StoredTensor {
    fn from_entry(entry: Entry<'_>, stored: Range<u64>) -> StoredTensor {
        StoredTensor {
            stored: stored.into(),
            encoding: entry.method().encoding(),
            len: entry.decoded_len(),
            crc32: Some(entry.crc32()),
        }
    }

    fn linked(file: &PackedFile, linked: &[(String, u64)]) -> Option<StoredTensor> {
        let at = linked.binary_search_by(|(path, _)| path.as_str().cmp(&file.path)).ok()?;
        let (_, len) = linked.get(at)?;
        let source = u32::try_from(at).ok()?.checked_add(1)?;
        let stored = Extent::new(source, 0..*len);
        Some(StoredTensor { stored, encoding: Encoding::Raw, len: *len, crc32: None })
    }
}

fn tensor(
    builder: &mut IndexBuilder,
    row: &TensorRow,
    file: Option<&PackedFile>,
    stored: Option<StoredTensor>,
) -> Result<()> {
    let (ty, shape) = match &row.kind {
        TensorKind::Plain { ty, shape, .. } => (*ty, shape),
        TensorKind::Nested { inner } => {
            builder.tensor(&row.name, &[inner.len() as u64], Layout::from_name(NESTED))?;
            let names = inner.iter().cloned().map(Value::Text).collect();
            builder.tensor_attributes(one("inner", Value::Array(names)));
            return Ok(());
        }
    };
    let Some(StoredTensor { stored, encoding, len, crc32 }) = stored else {
        builder.tensor(&row.name, shape, Layout::from_name(LINKED))?;
        let mut attributes = one("dtype", text(ty.as_str()));
        if let Some(sha256) = file.and_then(|file| file.sha256) {
            attributes.push("sha256", Value::Text(write::hex(&sha256)));
        }
        builder.tensor_attributes(attributes);
        return Ok(());
    };
    let (dtype, layout) = match ty.dtype() {
        Some(dtype) => (dtype, Layout::Dense),
        None => (DType::U8, Layout::from_name(STRINGS)),
    };
    builder.tensor(&row.name, shape, layout)?;
    // The digests are of the decoded file.
    let digest = match file.and_then(|file| file.sha256) {
        Some(sha256) if encoding == Encoding::Raw => Some(Digest::Sha256(sha256)),
        Some(sha256) => Some(Digest::Sha256Decoded(sha256)),
        None => crc32.map(Digest::Crc32),
    };
    builder.component(Component {
        role: Role::Data,
        dtype,
        logical_type: None,
        encoding,
        byte_order: ByteOrder::Little,
        stored,
        decoded_len: Some(len),
        digest,
    })
}

/// Returns the package's description as attributes, with the names that its texts use.
fn attributes(contents: &PackageContents) -> Attributes {
    let d: &Description = &contents.description;
    let mut out = Attributes::new();
    let texts = [
        ("model_name", &d.model_name),
        ("short_description", &d.short_description),
        ("model_description", &d.model_description),
        ("license", &d.license),
        ("repository", &d.repository),
        ("homepage", &d.homepage),
    ];
    for (key, value) in texts {
        if let Some(value) = value {
            out.push(key, text(value));
        }
    }
    if let Some(hash) = &contents.hash {
        out.push("model_hash", Value::Text(write::hex(hash)));
    }
    if contents.description_is_linked() {
        return out;
    }
    let Runner { name, framework_version, compat_version, .. } = &d.runner;
    out.push("runner_name", text(name));
    out.push("required_framework_version", text(framework_version));
    out.push("runner_compat_version", Value::Integer((*compat_version).into()));
    if !d.required_platforms.is_empty() {
        let platforms = d.required_platforms.iter().map(|p| text(p)).collect();
        out.push("required_platforms", Value::Array(platforms));
    }
    for (key, specs) in [("inputs", &d.inputs), ("outputs", &d.outputs)] {
        if !specs.is_empty() {
            out.push(key, Value::Array(specs.iter().map(spec).collect()));
        }
    }
    out
}

fn spec(spec: &ValueSpec) -> Value {
    let dim = |dim: &DimSpec| match dim {
        DimSpec::Size(n) => Value::Integer((*n).into()),
        DimSpec::Symbol(symbol) => text(symbol),
        DimSpec::Any => text("*"),
    };
    let shape = match &spec.shape {
        ShapeSpec::Any => text("*"),
        ShapeSpec::Symbol(symbol) => text(symbol),
        ShapeSpec::Dims(dims) => Value::Array(dims.iter().map(dim).collect()),
    };
    let pairs = [("name", text(&spec.name)), ("dtype", text(spec.ty.as_str())), ("shape", shape)];
    Value::Map(pairs.into_iter().map(|(key, value)| (text(key), value)).collect())
}

fn one(key: &str, value: Value) -> Attributes {
    let mut out = Attributes::new();
    out.push(key, value);
    out
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}
