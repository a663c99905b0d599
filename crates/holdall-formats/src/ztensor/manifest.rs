//! The manifest to be written. Each tensor is encoded as CBOR as soon as its components are written, and only these
//! bytes are kept.

use super::fields::long_name;
use super::fit::{Version, as_value, one_dtype};
use super::rules::*;
use super::v0::FILE_ATTRIBUTES as FILE_ATTRIBUTES_FIELD;
use holdall_collections::DebugUnwrap;
use holdall_collections::in_order;
use holdall_collections::sort_by;
use holdall_core::encode::{ComponentSpec, Stored, TensorSpec};
use holdall_core::error::Result;
use holdall_core::layout::sparse::packed_count;
use holdall_core::model::{Attributes, Encoding, Layout};
use holdall_core::wire::cbor::Writer;
use std::ops::Range;

/// The version stated in 1.2 files.
const VERSION_1_2: &str = "1.2.0";
/// The version stated in 1.0 files.
const VERSION_1_0: &str = "1.0";
/// The generator stated in 1.0 files.
const GENERATOR: &str = concat!("holdall ", env!("CARGO_PKG_VERSION"));

/// The tensors that are written so far.
#[derive(Debug)]
pub(super) struct Manifest {
    version: Version,
    /// The version to be stated, if it is not the default.
    stated: Option<String>,
    attributes: Attributes,
    /// The entries, one after the other. In 1.x each is a key and a value.
    entries: Writer,
    rows: Vec<Row>,
}

/// The location of a component, as the manifest has it.
#[derive(Debug)]
pub(super) enum ManifestComponent {
    /// In the file.
    Stored(Stored),
    /// In the manifest itself: indices of a sparse tensor of 0.1.
    Stated(Vec<u64>),
}

impl From<Stored> for ManifestComponent {
    fn from(stored: Stored) -> ManifestComponent {
        ManifestComponent::Stored(stored)
    }
}

impl ManifestComponent {
    fn stored(&self) -> Option<&Stored> {
        match self {
            ManifestComponent::Stored(stored) => Some(stored),
            ManifestComponent::Stated(_) => None,
        }
    }
}

/// The location of an entry in `entries`, in bytes.
#[derive(Debug)]
struct Row {
    /// The tensor's name in UTF-8.
    name: Range<usize>,
    entry: Range<usize>,
}

impl Manifest {
    pub(super) fn new(version: Version, stated: Option<String>) -> Manifest {
        let (attributes, entries) = (Attributes::new(), Writer::new());
        Manifest { version, stated, attributes, entries, rows: Vec::new() }
    }

    /// Returns an empty manifest of the same version.
    pub(super) fn emptied(&self) -> Manifest {
        Manifest::new(self.version, self.stated.clone())
    }

    /// Sets the file's attributes. Must be called before the first tensor is added.
    pub(super) fn attributes(&mut self, attributes: Attributes) {
        self.attributes = attributes;
    }

    /// Adds a tensor that [`super::fit::check_tensor`] has checked. `parts` are its components, in order.
    pub(super) fn add(&mut self, tensor: &TensorSpec, parts: &[ManifestComponent]) -> Result<()> {
        let start = self.entries.len();
        let name = match self.version {
            Version::V0_1 => self.add_0_1(tensor, parts)?,
            Version::V1_0 | Version::V1_1 | Version::V1_2 => self.add_1(tensor, parts)?,
        };
        self.rows.push(Row { name, entry: start..self.entries.len() });
        Ok(())
    }

    /// Returns the whole manifest. In 1.x, tensors are in bytewise order of their names; in 0.1, in the order in which
    /// they were written.
    ///
    /// # Errors
    /// Returns [`DECLARED`] for two tensors with the same name, and [`FILE_ATTRIBUTES`] for attributes of a 0.1 file
    /// without tensors.
    pub(super) fn finish(self) -> Result<Vec<u8>> {
        let all = self.entries.as_bytes();
        let bytes = |range: &Range<usize>| all.get(range.clone()).debug_unwrap();
        let row = |at: u32| usize::try_from(at).ok().and_then(|at| self.rows.get(at));
        let name = |at: u32| row(at).map(|row| bytes(&row.name)).unwrap_or_default();
        let names: Vec<&[u8]> = self.rows.iter().map(|row| bytes(&row.name)).collect();
        let by_name = in_order(&names).map_err(|at| {
            let name = String::from_utf8_lossy(name(at));
            DECLARED.broken("two tensors have this name").in_tensor(name)
        })?;

        let mut out = Writer::new();
        match self.version {
            Version::V0_1 => {
                if self.rows.is_empty() && !self.attributes.is_empty() {
                    return Err(FILE_ATTRIBUTES.broken(
                        "0.1 stores the attributes of a file in its first tensor, and the file has no tensors",
                    ));
                }
                out.array(self.rows.len());
                out.raw(all);
                return Ok(out.into_bytes());
            }
            Version::V1_0 => {
                out.map(4);
                out.text("version");
                out.text(self.stated.as_deref().unwrap_or(VERSION_1_0));
                out.text("generator");
                out.text(GENERATOR);
                out.text("attributes");
                out.attributes(&self.attributes)?;
                out.text("tensors");
            }
            Version::V1_1 | Version::V1_2 => {
                let has_attributes = !self.attributes.is_empty();
                out.map(if has_attributes { 3 } else { 2 });
                out.text("version");
                out.text(self.stated.as_deref().unwrap_or(VERSION_1_2));
                if has_attributes {
                    out.text("attributes");
                    out.attributes(&self.attributes)?;
                }
                out.text("objects");
            }
        }
        out.map(by_name.len());
        by_name.iter().filter_map(|&at| row(at)).for_each(|row| out.raw(bytes(&row.entry)));
        Ok(out.into_bytes())
    }

    /// Adds an entry of 1.x: the name as key; then shape, layout and components.
    fn add_1(&mut self, tensor: &TensorSpec, parts: &[ManifestComponent]) -> Result<Range<usize>> {
        let w = &mut self.entries;
        w.text(&tensor.name);
        let name = last_text(w, &tensor.name);
        let dtype = match self.version {
            Version::V1_0 => Some(one_dtype(tensor)?),
            _ => None,
        };
        let attributes = Some(&tensor.attributes).filter(|a| !a.is_empty());
        w.map(count([true, true, true, dtype.is_some(), attributes.is_some()]));
        if let Some(dtype) = dtype {
            w.text("dtype");
            w.text(long_name(dtype));
        }
        w.text("shape");
        integers(w, &tensor.shape);
        w.text("format");
        w.text(tensor.layout.as_str());
        if let Some(attributes) = attributes {
            w.text("attributes");
            w.attributes(attributes)?;
        }
        w.text("components");
        let stored = parts.iter().filter_map(ManifestComponent::stored);
        let mut components: Vec<_> = tensor.components.iter().zip(stored).collect();
        sort_by(&mut components, |(a, _), (b, _)| a.role.as_str().cmp(b.role.as_str()));
        w.map(components.len());
        for (c, stored) in components {
            w.text(c.role.as_str());
            component(w, self.version, c, stored);
        }
        Ok(name)
    }

    /// Adds an entry of 0.1, which is one map: the fields, then the attributes as custom fields, and in the first
    /// tensor the file's attributes.
    fn add_0_1(
        &mut self,
        tensor: &TensorSpec,
        parts: &[ManifestComponent],
    ) -> Result<Range<usize>> {
        let both = || tensor.components.iter().zip(parts);
        let Some((c, stored)) = both().find_map(|(c, part)| Some((c, part.stored()?))) else {
            return Err(COMPONENTS.broken("the tensor has no data").in_tensor(&tensor.name));
        };
        let stated = both().filter_map(|(c, part)| match part {
            ManifestComponent::Stated(numbers) => Some((c.role.as_str(), numbers)),
            ManifestComponent::Stored(_) => None,
        });
        let stated: Vec<_> = stated.collect();
        let sparse_format = match tensor.layout {
            Layout::PackedCsr | Layout::SparseCsr => Some("csr"),
            Layout::PackedCoo | Layout::SparseCoo => Some("coo"),
            _ => None,
        };
        let nnz = match tensor.layout {
            Layout::SparseCsr | Layout::SparseCoo => c.decoded_len.checked_div(c.dtype.width()),
            _ => packed_count(&tensor.layout, &tensor.shape, c.dtype, c.decoded_len),
        };
        // The reference implementation writes the byte order only if it has a meaning.
        let has_order = stored.encoding == Encoding::Raw && c.dtype.width() > 1;
        let is_first = self.rows.is_empty();
        let file_attributes =
            Some(&self.attributes).filter(|a| is_first && !a.is_empty()).map(as_value);

        let w = &mut self.entries;
        let fields = [
            // The sparse format and its number of non-zero elements.
            sparse_format.is_some(),
            sparse_format.is_some(),
            has_order,
            stored.digest.is_some(),
            file_attributes.is_some(),
        ];
        let others = stated.len().saturating_add(tensor.attributes.len());
        w.map(count(fields).saturating_add(7).saturating_add(others));
        w.text("name");
        w.text(&tensor.name);
        let name = last_text(w, &tensor.name);
        w.text("offset");
        w.u64(stored.range.start);
        w.text("size");
        w.u64(len(&stored.range));
        w.text("dtype");
        w.text(long_name(c.dtype));
        w.text("layout");
        match (sparse_format, &tensor.layout) {
            (None, Layout::Other(name)) => w.text(name),
            (None, _) => w.text("dense"),
            (Some(format), _) => {
                w.text("sparse");
                w.text("sparse_format");
                w.text(format);
                w.text("nnz");
                w.u64(nnz.unwrap_or_default());
            }
        }
        for (role, numbers) in stated {
            w.text(role);
            integers(w, numbers);
        }
        w.text("shape");
        integers(w, &tensor.shape);
        w.text("encoding");
        w.text(stored.encoding.as_str());
        if has_order {
            w.text("data_endianness");
            w.text("little");
        }
        if let Some(digest) = &stored.digest {
            w.text("checksum");
            w.text(&digest.to_string());
        }
        if let Some(attributes) = &file_attributes {
            w.text(FILE_ATTRIBUTES_FIELD);
            w.value(attributes)?;
        }
        for (key, value) in tensor.attributes.iter() {
            w.text(key);
            w.value(value)?;
        }
        Ok(name)
    }
}

/// Writes a component of 1.x. 1.1 has a dtype for each component, 1.2 also the decoded length of a compressed one, 1.0
/// neither.
fn component(w: &mut Writer, version: Version, c: &ComponentSpec, stored: &Stored) {
    let is_coded = stored.encoding != Encoding::Raw;
    let is_typed = version != Version::V1_0;
    let has_len = is_coded && version == Version::V1_2;
    let logical_type = c.logical_type.as_ref();
    let fields =
        [is_typed, logical_type.is_some(), true, true, has_len, is_coded, stored.digest.is_some()];
    w.map(count(fields));
    if is_typed {
        w.text("dtype");
        w.text(c.dtype.as_str());
    }
    if let Some(t) = logical_type {
        w.text("type");
        w.text(t.as_str());
    }
    w.text("offset");
    w.u64(stored.range.start);
    w.text("length");
    w.u64(len(&stored.range));
    if is_coded {
        if has_len {
            w.text("uncompressed_length");
            w.u64(c.decoded_len);
        }
        w.text("encoding");
        w.text(stored.encoding.as_str());
    }
    if let Some(digest) = &stored.digest {
        w.text("digest");
        w.text(&digest.to_string());
    }
}

fn integers(w: &mut Writer, all: &[u64]) {
    w.array(all.len());
    all.iter().for_each(|&n| w.u64(n));
}

/// Returns the number of fields that are present.
fn count<const N: usize>(fields: [bool; N]) -> usize {
    fields.into_iter().filter(|&has| has).count()
}

fn len(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// Returns the range of `text`, which was written last, in the bytes of `w`.
fn last_text(w: &Writer, text: &str) -> Range<usize> {
    let end = w.len();
    end.saturating_sub(text.len())..end
}
