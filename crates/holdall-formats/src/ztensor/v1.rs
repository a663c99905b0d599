//! Decodes the manifests of zTensor 1.0, 1.1 and 1.2.

use super::fields::{self, Keys, required};
use super::footer::Generation;
use super::rules::*;
use holdall_core::error::{Error, Result};
use holdall_core::limits::Limits;
use holdall_core::model::builder::{BOUNDS, RANK, TOO_MANY_COMPONENTS};
use holdall_core::model::{
    Attributes, ByteOrder, Component, DType, Encoding, Index, IndexBuilder, Layout, LogicalType,
    Role,
};
use holdall_core::wire::cbor::Reader;
use std::ops::Range;

/// The newest known minor version.
const NEWEST_MINOR: u64 = 2;

/// The maximum number of unknown fields of a tensor that are reported.
const MAX_UNREPRESENTED: usize = 8;

/// Decodes a manifest of `generation` 1.x that begins at the position of `reader`.
pub(super) fn decode(
    mut reader: Reader<'_>,
    generation: Generation,
    mut builder: IndexBuilder,
    limits: &Limits,
) -> Result<Index> {
    let (table, other_table) = match generation {
        Generation::V1Objects => ("objects", "tensors"),
        _ => ("tensors", "objects"),
    };
    let mut decoder = Decoder::new(generation, limits);
    let mut keys = Keys::default();
    let mut version = None;
    // The position of the table if it comes before the version, which determines how to read it.
    let mut early_table = None;
    let mut has_other_table = false;

    let mut root = reader.map("the root")?;
    while reader.more(&mut root)? {
        match reader.key("the root")? {
            key @ b"version" => {
                keys.known(0, key)?;
                version = Some(check_version(reader.text("`version`")?, generation, &mut builder)?);
            }
            key @ b"attributes" => {
                keys.known(1, key)?;
                builder.attributes(reader.attributes("`attributes`")?);
            }
            key if key == table.as_bytes() => {
                keys.known(2, key)?;
                match version {
                    Some(minor) => decoder.table(&mut reader, minor, &mut builder)?,
                    None => {
                        early_table = Some(reader.clone());
                        reader.skip()?;
                    }
                }
            }
            key => {
                has_other_table |= key == other_table.as_bytes();
                keys.unknown(key, &mut reader)?;
            }
        }
    }
    reader.end()?;
    let has_table = keys.has(2);
    keys.finish()?;
    keys.report_unknown(|| "the manifest".into(), &mut builder);

    if !has_table && has_other_table {
        return Err(wrong_table(generation));
    }
    let minor = required(version, "version")?;
    match early_table {
        Some(mut reader) => decoder.table(&mut reader, minor, &mut builder)?,
        None if has_table => {}
        None => return required(None, table),
    }
    builder.finish()
}

/// Returns the error for a manifest of the other generation than the container's.
fn wrong_table(generation: Generation) -> Error {
    match generation {
        Generation::V1Objects => CONTAINER
            .broken("the file ends in a magic number, as from 1.1 on, but lists `tensors`, as 1.0 does")
            .with_hint("this is a 1.0 file with 8 extra bytes at its end: truncate it by 8 bytes"),
        _ => CONTAINER
            .broken("the manifest lists `objects`, as from 1.1 on, but the magic number at the end is missing")
            .with_hint("the file was truncated by 8 bytes: fetch or write it again"),
    }
}

/// Returns the minor version of `version`, and stores the version in `builder`.
fn check_version(version: &str, generation: Generation, builder: &mut IndexBuilder) -> Result<u64> {
    let mut parts = version.split('.');
    let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok());
    let shown = fields::escaped(version.as_bytes());
    let (Some(major), Some(minor)) = (number(), number()) else {
        return Err(VERSION_SYNTAX.broken(format!("version `{shown}`")));
    };
    if major != 1 {
        return Err(UNSUPPORTED_VERSION
            .broken(format!("unsupported version `{shown}`; expected 0.1 to 1.{NEWEST_MINOR}")));
    }
    if minor > NEWEST_MINOR || (minor == 0) != (generation == Generation::V1Tensors) {
        // Additions of the version are unknown, or the versions contradict each other, so the file cannot be written
        // again.
        builder.unrepresented(|| format!("the version {shown}, which may have unknown fields"));
    }
    if minor > NEWEST_MINOR {
        builder.warn(warnings::VERSION, None, None, || {
            format!("version {shown} is newer than 1.{NEWEST_MINOR}; what it adds is ignored")
                .into()
        });
    } else if (minor == 0) != (generation == Generation::V1Tensors) {
        builder.warn(warnings::VERSION, None, None, || {
            let container = if minor == 0 { "1.1 and later" } else { "1.0" };
            format!("the file states version {shown}, but has the structure of {container}").into()
        });
    }
    builder.version(version);
    Ok(minor)
}

/// Decodes one tensor after another with the same buffers.
struct Decoder<'a> {
    generation: Generation,
    max_rank: usize,
    max_components: usize,
    minor: u64,
    object_keys: Keys<'a>,
    component_keys: Keys<'a>,
    shape: Vec<u64>,
    drafts: Vec<Draft<'a>>,
    /// The first error that concerns only the tensor that is being read.
    fault: Option<Error>,
    /// The unknown fields of this tensor's components, with the roles of the components.
    unrepresented: Vec<(String, String)>,
}

/// A component in the manifest. It is checked later, because the layout may follow it.
struct Draft<'a> {
    role: &'a str,
    dtype: Option<DType>,
    logical_type: Option<&'a str>,
    /// Offset and length.
    stored: Option<(u64, u64)>,
    uncompressed_len: Option<u64>,
    encoding: Encoding,
    digest: Option<&'a str>,
}

impl<'a> Decoder<'a> {
    fn new(generation: Generation, limits: &Limits) -> Decoder<'a> {
        Decoder {
            generation,
            max_rank: limits.rank,
            max_components: limits.components,
            minor: 0,
            object_keys: Keys::default(),
            component_keys: Keys::default(),
            shape: Vec::new(),
            drafts: Vec::new(),
            fault: None,
            unrepresented: Vec::new(),
        }
    }

    /// Reads the map of names to tensors.
    fn table(
        &mut self,
        reader: &mut Reader<'a>,
        minor: u64,
        builder: &mut IndexBuilder,
    ) -> Result<()> {
        self.minor = minor;
        let mut tensors = reader.map("the table of tensors")?;
        fields::reserve(builder, &tensors, reader);
        while reader.more(&mut tensors)? {
            let start = reader.offset();
            let key = reader.key("the table of tensors")?;
            let name = reader.utf8(key, start)?;
            self.tensor(reader, name, start, builder)
                .map_err(|e| e.in_tensor(name).at(reader.since(start)))?;
        }
        Ok(())
    }

    /// Reads the value of the table's entry that begins at `start`.
    fn tensor(
        &mut self,
        reader: &mut Reader<'a>,
        name: &'a str,
        start: u64,
        builder: &mut IndexBuilder,
    ) -> Result<()> {
        self.object_keys.clear();
        self.drafts.clear();
        self.fault = None;
        self.unrepresented.clear();
        let (mut layout, mut dtype) = (None, None);
        let (mut has_shape, mut has_components) = (false, false);
        let mut attributes = Attributes::new();
        let with_attributes = self.generation == Generation::V1Objects;

        let mut fields = reader.map("a tensor")?;
        while reader.more(&mut fields)? {
            match reader.key("a tensor")? {
                key @ b"shape" => {
                    self.object_keys.known(0, key)?;
                    self.read_shape(reader)?;
                    has_shape = true;
                }
                key @ b"format" => {
                    self.object_keys.known(1, key)?;
                    layout = Some(layout_of(reader.text("`format`")?));
                }
                key @ b"components" => {
                    self.object_keys.known(2, key)?;
                    self.read_components(reader)?;
                    has_components = true;
                }
                key @ b"attributes" if with_attributes => {
                    self.object_keys.known(3, key)?;
                    attributes = reader.attributes("`attributes`")?;
                }
                key @ b"dtype" if !with_attributes => {
                    self.object_keys.known(4, key)?;
                    dtype = fields::record_fault(&mut self.fault, fields::long_dtype(reader))?;
                }
                key => self.object_keys.unknown(key, reader)?,
            }
        }
        self.object_keys.finish()?;
        self.object_keys
            .report_unknown(|| format!("tensor `{}`", fields::escaped(name.as_bytes())), builder);
        for (key, role) in self.unrepresented.drain(..) {
            let name = fields::escaped(name.as_bytes());
            builder.unrepresented(|| {
                format!("the field `{key}` of component `{role}` of tensor `{name}`")
            });
        }

        let fault = &mut self.fault;
        need(fault, has_shape.then_some(()), "shape", None)?;
        need(fault, has_components.then_some(()), "components", None)?;
        let layout =
            need(fault, layout, "format", None)?.unwrap_or_else(|| Layout::Other("".into()));
        if self.generation == Generation::V1Tensors
            && let Some(dtype) = need(fault, dtype, "dtype", None)?
        {
            self.spread_dtype(dtype, &layout);
        }
        let sparse = matches!(layout, Layout::SparseCsr | Layout::SparseCoo);
        builder.tensor(name, if has_shape { &self.shape } else { &[] }, layout)?;
        builder.tensor_attributes(attributes);
        let at = reader.since(start);
        if let Some(e) = self.fault.take() {
            builder.fault(e.at(at.clone()));
        }
        for draft in self.drafts.drain(..) {
            let role = draft.role;
            let Some((offset, len)) = draft.stored else { continue };
            let Some(end) = offset.checked_add(len) else {
                let message = format!("offset {offset} + length {len} is more than 2^64");
                return Err(BOUNDS.broken(message).in_component(role));
            };
            match component(draft, offset..end, name, sparse, self.minor, builder) {
                Ok(c) => builder.component(c)?,
                Err(e) if fields::is_fault(&e) => {
                    builder.fault(e.in_component(role).at(at.clone()));
                    builder.claim((offset..end).into())?;
                }
                Err(e) => return Err(e.in_component(role)),
            }
        }
        Ok(())
    }

    fn read_shape(&mut self, reader: &mut Reader<'a>) -> Result<()> {
        self.shape.clear();
        let mut dims = reader.array("`shape`")?;
        while reader.more(&mut dims)? {
            if self.shape.len() >= self.max_rank {
                return Err(RANK.broken(format!("more than {} dimensions", self.max_rank)));
            }
            self.shape.push(reader.u64("a dimension")?);
        }
        Ok(())
    }

    fn read_components(&mut self, reader: &mut Reader<'a>) -> Result<()> {
        let mut components = reader.map("`components`")?;
        while reader.more(&mut components)? {
            let start = reader.offset();
            let key = reader.key("`components`")?;
            let role = reader.utf8(key, start)?;
            if self.drafts.len() >= self.max_components {
                let message = format!("more than {} components", self.max_components);
                return Err(TOO_MANY_COMPONENTS.broken(message));
            }
            let draft = self.read_component(reader, role).map_err(|e| e.in_component(role))?;
            self.drafts.push(draft);
        }
        Ok(())
    }

    fn read_component(&mut self, reader: &mut Reader<'a>, role: &'a str) -> Result<Draft<'a>> {
        let (keys, fault) = (&mut self.component_keys, &mut self.fault);
        keys.clear();
        let here = |e: Error| e.in_component(role);
        let (mut offset, mut len) = (None, None);
        let mut draft = Draft {
            role,
            dtype: None,
            logical_type: None,
            stored: None,
            uncompressed_len: None,
            encoding: Encoding::Raw,
            digest: None,
        };
        // In 1.0, a component has no dtype, logical type or decoded length.
        let typed = self.generation == Generation::V1Objects;
        let mut fields = reader.map("a component")?;
        while reader.more(&mut fields)? {
            match reader.key("a component")? {
                key @ b"dtype" if typed => {
                    keys.known(0, key)?;
                    let read = fields::short_dtype(reader).map_err(here);
                    // If the dtype is unknown, the tensor has a fault, so any dtype will do.
                    draft.dtype = Some(fields::record_fault(fault, read)?.unwrap_or(DType::U8));
                }
                key @ b"offset" => {
                    keys.known(1, key)?;
                    offset = Some(reader.u64("`offset`")?);
                }
                key @ b"length" => {
                    keys.known(2, key)?;
                    len = Some(reader.u64("`length`")?);
                }
                key @ b"encoding" => {
                    keys.known(3, key)?;
                    if !reader.null() {
                        let read = fields::encoding(reader).map_err(here);
                        draft.encoding = fields::record_fault(fault, read)?.unwrap_or_default();
                    }
                }
                key @ b"digest" => {
                    keys.known(4, key)?;
                    if !reader.null() {
                        draft.digest = Some(reader.text("`digest`")?);
                    }
                }
                key @ b"uncompressed_length" if typed => {
                    keys.known(5, key)?;
                    if !reader.null() {
                        draft.uncompressed_len = Some(reader.u64("`uncompressed_length`")?);
                    }
                }
                key @ b"type" if typed => {
                    keys.known(6, key)?;
                    if !reader.null() {
                        draft.logical_type = Some(reader.text("`type`")?);
                    }
                }
                key => keys.unknown(key, reader)?,
            }
        }
        keys.finish()?;
        if self.unrepresented.len() < MAX_UNREPRESENTED {
            let own = keys
                .all_unknown()
                .map(|key| (fields::escaped(key), fields::escaped(role.as_bytes())));
            self.unrepresented.extend(own);
        }
        if typed {
            need(fault, draft.dtype, "dtype", Some(role))?;
        }
        let offset = need(fault, offset, "offset", Some(role))?;
        draft.stored = offset.zip(need(fault, len, "length", Some(role))?);
        Ok(draft)
    }

    /// Sets the dtype of a 1.0 tensor on its components; indices are u64.
    fn spread_dtype(&mut self, dtype: DType, layout: &Layout) {
        for draft in &mut self.drafts {
            draft.dtype = Some(match draft.role {
                role if is_index_role(layout, role) => DType::U64,
                _ => dtype,
            });
        }
    }
}

/// Returns a required field of a tensor, or of its component with `role`; `None` if the tensor has a fault.
fn need<T>(
    fault: &mut Option<Error>,
    value: Option<T>,
    field: &'static str,
    role: Option<&str>,
) -> Result<Option<T>> {
    if value.is_some() || fault.is_some() {
        return Ok(value);
    }
    let missing = required(None, field);
    fields::record_fault(
        fault,
        match role {
            Some(role) => missing.map_err(|e| e.in_component(role)),
            None => missing,
        },
    )
}

/// Returns `true` if a component with this role contains indices in this layout.
pub(super) fn is_index_role(layout: &Layout, role: &str) -> bool {
    match layout {
        Layout::SparseCsr => matches!(role, "indices" | "indptr"),
        Layout::SparseCoo => role == "coords",
        _ => false,
    }
}

/// Returns the layout with this name. The packed layouts of 0.1, and layouts of other formats, are unknown in 1.x.
pub(super) fn layout_of(name: &str) -> Layout {
    match Layout::from_name(name) {
        Layout::PackedCsr
        | Layout::PackedCoo
        | Layout::Strided
        | Layout::SparseBlocks
        | Layout::SparseHybrid => Layout::Other(name.into()),
        layout => layout,
    }
}

/// Returns the component of a draft, and checks the rules that are specific to zTensor 1.x.
fn component(
    draft: Draft<'_>,
    stored: Range<u64>,
    tensor: &str,
    sparse: bool,
    minor: u64,
    builder: &mut IndexBuilder,
) -> Result<Component> {
    let Draft { role, encoding, .. } = draft;
    let len = stored.end.saturating_sub(stored.start);
    let dtype = required(draft.dtype, "dtype")?;
    fields::check_alignment(stored.start, len, tensor, role, builder);
    if sparse && matches!(role, "indices" | "indptr" | "coords") && dtype != DType::U64 {
        check_index_dtype(dtype, tensor, role, builder)?;
    }
    match (encoding, draft.uncompressed_len) {
        (Encoding::Raw, Some(n)) if n != len => {
            return Err(UNCOMPRESSED_LENGTH
                .broken(format!(
                    "the component is raw, but its length is {len} and its uncompressed_length {n}"
                ))
                .at(stored));
        }
        (Encoding::Coded(_), None) if minor >= 2 => {
            builder.warn(warnings::UNCOMPRESSED_LENGTH, Some(tensor), Some(role), || {
                "the component is compressed, but has no `uncompressed_length`, which 1.2 requires".into()
            });
        }
        _ => {}
    }
    let digest = match draft.digest {
        Some(text) => Some(fields::digest(text, tensor, role, builder)?),
        None => None,
    };
    Ok(Component {
        role: Role::from_name(role),
        dtype,
        logical_type: draft.logical_type.map(LogicalType::from_name),
        encoding,
        byte_order: ByteOrder::Little,
        stored: stored.into(),
        decoded_len: draft.uncompressed_len,
        digest,
    })
}

/// Section 3: indices MUST be u64. A published package writes narrower ones.
fn check_index_dtype(
    dtype: DType,
    tensor: &str,
    role: &str,
    builder: &mut IndexBuilder,
) -> Result<()> {
    match dtype {
        DType::F64 | DType::F32 | DType::F16 | DType::Bf16 | DType::Bool => {
            Err(INDEX_DTYPE.broken(format!("expected u64 indices, found {dtype}")))
        }
        _ => {
            builder.warn(warnings::INDEX_DTYPE, Some(tensor), Some(role), || {
                format!("the indices are {dtype}; the specification requires u64").into()
            });
            Ok(())
        }
    }
}
