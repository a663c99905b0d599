//! Conversion of Python's options for the library.

use crate::errors::{Raise as _, misuse};
use crate::value;
use holdall::convert::Convert;
use holdall::{
    Algorithm, Cast, Check, Durability, EncodeOptions, Encoding, ExternalData, FormRule, Io,
    Layouts, Limit, Limits, NameCase, OpenOptions, Overflow, Rename, Select, Sharing, Work,
    WriteOptions, formats,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::path::PathBuf;

#[cold]
pub(crate) fn unknown(py: Python<'_>, what: &str, found: &str, known: &str) -> PyErr {
    let message = format!("{what} is one of {known}, not {found:?}");
    misuse(py, "python/option", &message, None)
}

/// Returns options for opening a file: `io`, `check`, and a dict of limits by the names in
/// [`holdall::LIMITS`].
pub(crate) fn open(
    py: Python<'_>,
    io: &str,
    check: &str,
    limits: Option<&Bound<'_, PyDict>>,
) -> PyResult<OpenOptions> {
    let io = match io {
        "auto" => Io::Auto,
        "map" => Io::Map,
        "read" => Io::Read,
        "direct" => Io::Direct,
        other => {
            return Err(unknown(py, "io", other, "\"auto\", \"map\", \"read\", \"direct\""));
        }
    };
    let mut held = Limits::default();
    for (key, value) in limits.into_iter().flatten() {
        let key = key.cast_into::<PyString>()?;
        match key.to_str()? {
            // A flag that is given together with the limits.
            "skip_unknown" => held.skip_unknown = value.is_truthy()?,
            name => {
                // An unknown name is reported before its value is checked.
                Limit::find(name, NameCase::Snake).raise(py)?;
                held.set(name, NameCase::Snake, value.extract()?).raise(py)?;
            }
        }
    }
    Ok(OpenOptions::new().with_io(io).with_check(check_of(py, check)?).with_limits(held))
}

/// Adds the layout descriptions in these files to the options.
pub(crate) fn described(
    py: Python<'_>,
    options: OpenOptions,
    paths: Vec<PathBuf>,
) -> PyResult<OpenOptions> {
    if paths.is_empty() {
        return Ok(options);
    }
    let mut all = Layouts::new();
    for path in paths {
        let more = holdall::read_layouts(&path, options.limits());
        let added = more.and_then(|more| all.extend(more));
        added.map_err(|e| crate::errors::raise(py, &e.in_source(path.display())))?;
    }
    Ok(options.with_layouts(all))
}

/// Parses the digests to check.
pub(crate) fn check_of(py: Python<'_>, check: &str) -> PyResult<Check> {
    match check {
        "off" => Ok(Check::Off),
        "fast" => Ok(Check::Fast),
        "read" => Ok(Check::Read),
        "all" => Ok(Check::All),
        other => Err(unknown(py, "check", other, "\"off\", \"fast\", \"read\", \"all\"")),
    }
}

/// Returns the selection of tensors for an operation.
pub(crate) fn select(
    py: Python<'_>,
    include: Option<Vec<String>>,
    exclude: Option<Vec<String>>,
) -> PyResult<Select> {
    let (include, exclude) = (include.unwrap_or_default(), exclude.unwrap_or_default());
    Select::new(&include, &exclude).map_err(|e| crate::errors::raise(py, &e))
}

/// Options for writing, from keywords of the Python half.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Writing<'py> {
    format: Option<String>,
    version: Option<String>,
    attributes: Option<Bound<'py, PyAny>>,
    encoding: Option<String>,
    level: Option<i32>,
    digest: Option<String>,
    align: Option<u64>,
    overwrite: bool,
    sync: bool,
    pub(crate) threads: Option<usize>,
}

impl Writing<'_> {
    /// Returns whether the caller chose an encoding.
    pub(crate) fn chooses_encoding(&self) -> bool {
        self.encoding.is_some()
    }

    /// Returns whether the written data is compressed.
    pub(crate) fn compresses(&self) -> bool {
        self.encoding.as_deref().is_some_and(|encoding| encoding != "raw")
    }

    /// Returns the library's options.
    pub(crate) fn options(&self, py: Python<'_>) -> PyResult<WriteOptions> {
        let mut encode = EncodeOptions::new();
        if let Some(version) = &self.version {
            encode = encode.with_version(version.as_str());
        }
        if let Some(align) = self.align {
            encode = encode.with_align(align);
        }
        let durability = if self.sync { Durability::Disk } else { Durability::System };
        let mut options = WriteOptions::new()
            .with_encode(encode)
            .with_overwrite(self.overwrite)
            .with_durability(durability);
        if let Some(name) = &self.format {
            let Some(format) = formats::by_name(name) else {
                let known: Vec<&str> = formats::writable().map(|format| format.id).collect();
                return Err(unknown(py, "format", name, &known.join(", ")));
            };
            options = options.with_format(format);
        }
        if let Some(attributes) = &self.attributes {
            options = options.with_attributes(value::from_mapping(attributes)?);
        }
        if self.encoding.as_deref() == Some("planes") {
            options = options.with_planes();
        } else if self.encoding.as_deref() == Some("smallest") {
            options = options.with_smallest();
        } else if let Some(name) = self.encoding.as_deref() {
            let known = Encoding::from_name(name).filter(|encoding| encoding.is_writable());
            let Some(encoding) = known else {
                let names =
                    Encoding::writable().map(Encoding::as_str).chain(["planes", "smallest"]);
                let known: Vec<_> = names.map(|name| format!("\"{name}\"")).collect();
                return Err(unknown(py, "encoding", name, &known.join(", ")));
            };
            options = options.with_encoding(encoding, self.level);
        }
        match self.digest.as_deref() {
            None => {}
            Some("none") => options = options.with_digest(None),
            Some("crc32c") => options = options.with_digest(Some(Algorithm::Crc32c)),
            Some("xxh3") => options = options.with_digest(Some(Algorithm::Xxh3)),
            Some("sha256") => options = options.with_digest(Some(Algorithm::Sha256)),
            Some(other) => {
                return Err(unknown(
                    py,
                    "digest",
                    other,
                    "\"none\", \"crc32c\", \"xxh3\", \"sha256\"",
                ));
            }
        }
        if let Some(threads) = self.threads {
            options = options.with_work(Work::new().with_threads(threads));
        }
        Ok(options)
    }

    /// Returns the library's options for a conversion.
    pub(crate) fn conversion(&self, py: Python<'_>, how: &Converting) -> PyResult<Convert> {
        let mut convert = Convert::new(self.options(py)?).with_select(select(
            py,
            how.include.clone(),
            how.exclude.clone(),
        )?);
        for (is_asked_for, with) in [
            (how.dense, Convert::with_dense as fn(Convert) -> Convert),
            (how.described, Convert::with_described),
            (how.raw_types, Convert::with_raw_types),
            (how.drop_attributes, Convert::with_drop_attributes),
            (self.chooses_encoding(), Convert::reencode),
        ] {
            if is_asked_for {
                convert = with(convert);
            }
        }
        if let Some(attributes) = &self.attributes {
            convert = convert.with_attributes(value::from_mapping(attributes)?);
        }
        let casts = how.dtypes.iter().map(|rule| Cast::new(rule));
        let casts = casts.collect::<holdall::Result<Vec<_>>>();
        convert = convert.with_dtypes(casts.map_err(|e| crate::errors::raise(py, &e))?);
        let forms = how.forms.iter().map(|rule| FormRule::new(rule));
        let forms = forms.collect::<holdall::Result<Vec<_>>>();
        convert = convert.with_forms(forms.map_err(|e| crate::errors::raise(py, &e))?);
        if let Some(size) = &how.max_shard_size {
            convert = convert.with_max_shard_len(size.bytes(py, "max_shard_size")?);
        }
        if let Some(count) = how.max_shard_tensors {
            if count == 0 {
                return Err(misuse(py, "python/option", "max_shard_tensors is at least 1", None));
            }
            convert = convert.with_max_shard_tensors(count);
        }
        convert = convert.with_external(match &how.external {
            None => ExternalData::default(),
            Some(Size::Text(text)) if text == "none" => ExternalData::None,
            Some(size) => ExternalData::AtLeast(size.bytes(py, "external")?),
        });
        if how.saturate {
            convert = convert.with_overflow(Overflow::Saturate);
        }
        let rules = how.rename.iter().map(|rule| Rename::new(rule));
        let rules = rules.collect::<holdall::Result<Vec<_>>>();
        let rules = rules.map_err(|e| crate::errors::raise(py, &e))?;
        let sharing = match how.sharing.as_str() {
            "keep" => Sharing::Keep,
            "dedupe" => Sharing::Dedupe,
            "copy" => Sharing::Copy,
            other => {
                return Err(unknown(py, "sharing", other, "\"keep\", \"dedupe\", \"copy\""));
            }
        };
        Ok(convert.with_renames(rules).with_sharing(sharing))
    }
}

/// Options of a conversion besides those for writing.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Converting {
    include: Option<Vec<String>>,
    exclude: Option<Vec<String>>,
    rename: Vec<String>,
    sharing: String,
    dense: bool,
    described: bool,
    raw_types: bool,
    drop_attributes: bool,
    dtypes: Vec<String>,
    forms: Vec<String>,
    saturate: bool,
    max_shard_size: Option<Size>,
    max_shard_tensors: Option<u64>,
    external: Option<Size>,
}

/// A number of bytes, as an integer or as text such as `5GB`.
#[derive(FromPyObject)]
pub(crate) enum Size {
    Bytes(u64),
    Text(String),
}

impl Size {
    pub(crate) fn bytes(&self, py: Python<'_>, option: &str) -> PyResult<u64> {
        match self {
            Size::Bytes(bytes) => Ok(*bytes),
            Size::Text(text) => holdall_cli::size(text)
                .map_err(|wrong| misuse(py, "python/option", &format!("{option}: {wrong}"), None)),
        }
    }
}
