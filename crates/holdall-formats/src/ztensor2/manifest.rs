//! The manifest to be written. Each tensor is encoded as CBOR as soon as its components are written, and only these
//! bytes are kept.

use super::{
    BLOCK_BYTES, BLOCK_ELEMENTS, DECLARED, ODD_F4, SEEKABLE, SPARSE_COO, SPARSE_CSR, groups, is_odd,
};
use holdall_collections::DebugUnwrap;
use holdall_collections::in_order;
use holdall_collections::sort;
use holdall_core::encode::{ComponentSpec, Stored, TensorSpec};
use holdall_core::error::Result;
use holdall_core::model::{Attributes, DType, Encoding, Layout, LogicalType, Value};
use holdall_core::wire::cbor::Writer;
use std::ops::Range;

/// The tensors that are written so far.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    attributes: Attributes,
    /// The keys and values, one after the other.
    entries: Writer,
    rows: Vec<Row>,
}

/// The location of an entry in `entries`, in bytes.
#[derive(Debug)]
struct Row {
    /// The tensor's name in UTF-8.
    name: Range<usize>,
    /// The tensor's name in CBOR.
    key: Range<usize>,
    entry: Range<usize>,
}

impl Manifest {
    /// Creates the manifest of a file with these attributes, which must have been checked.
    pub(super) fn new(attributes: Attributes) -> Manifest {
        Manifest { attributes, ..Manifest::default() }
    }

    /// Adds a tensor that has been checked. `stored` are its components, in order.
    pub(super) fn add(&mut self, tensor: &TensorSpec, stored: &[Stored]) -> Result<()> {
        let start = self.entries.len();
        self.entries.text(&tensor.name);
        let key = start..self.entries.len();
        let name = key.end.saturating_sub(tensor.name.len())..key.end;
        self.entries.raw(&object(tensor, stored)?);
        self.rows.push(Row { name, key, entry: start..self.entries.len() });
        Ok(())
    }

    /// Returns the whole manifest.
    ///
    /// # Errors
    /// Returns [`DECLARED`] for two tensors with the same name.
    pub(super) fn finish(self) -> Result<Vec<u8>> {
        let all = self.entries.as_bytes();
        let bytes = |range: &Range<usize>| all.get(range.clone()).debug_unwrap();
        let row = |at: u32| usize::try_from(at).ok().and_then(|at| self.rows.get(at));
        let keys: Vec<&[u8]> = self.rows.iter().map(|row| bytes(&row.key)).collect();
        let by_key = in_order(&keys).map_err(|at| {
            let name = row(at).map(|row| bytes(&row.name)).unwrap_or_default();
            let name = String::from_utf8_lossy(name);
            DECLARED.broken("two tensors have this name").in_tensor(name)
        })?;
        let mut objects = Writer::new();
        objects.map(by_key.len());
        by_key.iter().filter_map(|&at| row(at)).for_each(|row| objects.raw(bytes(&row.entry)));
        let mut root = Fields::default();
        root.raw("objects", objects.into_bytes());
        root.attributes(&self.attributes)?;
        Ok(root.finish())
    }
}

fn object(tensor: &TensorSpec, stored: &[Stored]) -> Result<Vec<u8>> {
    let mut parts = Fields::default();
    for (c, stored) in tensor.components.iter().zip(stored) {
        parts.raw(groups::role(&tensor.layout, &c.role), part(tensor, c, stored));
    }
    let mut attributes = tensor.attributes.clone();
    let layout = match &tensor.layout {
        Layout::SparseCsr => SPARSE_CSR.to_owned(),
        Layout::SparseCoo => SPARSE_COO.to_owned(),
        Layout::Blocks(block_type) => {
            attributes.set(BLOCK_ELEMENTS, Value::Integer(block_type.elements.into()));
            attributes.set(BLOCK_BYTES, Value::Integer(block_type.bytes.into()));
            format!("{}/1", block_type.layout)
        }
        Layout::QuantizedGroup => {
            let (layout, own) = groups::write(tensor)?;
            attributes = own;
            layout.to_owned()
        }
        other => other.as_str().to_owned(),
    };
    let mut fields = Fields::default();
    fields.with("shape", |w| {
        w.array(tensor.shape.len());
        tensor.shape.iter().for_each(|&dim| w.u64(dim));
    });
    fields.with("layout", |w| w.text(&layout));
    fields.raw("parts", parts.finish());
    fields.attributes(&attributes)?;
    Ok(fields.finish())
}

fn part(tensor: &TensorSpec, c: &ComponentSpec, stored: &Stored) -> Vec<u8> {
    let logical = c.logical_type.as_ref().map(|t| t.as_str());
    let (dtype, logical) = match (c.dtype, logical) {
        (DType::Bool, _) => (DType::U8, Some(DType::Bool.as_str())),
        (DType::U8, Some(ODD_F4)) if is_odd(&tensor.shape, &tensor.layout, c.decoded_len) => {
            (DType::U8, Some(LogicalType::F4E2M1.as_str()))
        }
        element => element,
    };
    let mut fields = Fields::default();
    fields.with("dtype", |w| w.text(dtype.as_str()));
    if let Some(logical) = logical {
        fields.with("type", |w| w.text(logical));
    }
    let Range { start, end } = stored.range;
    fields.with("blob", |w| {
        w.array(2);
        w.u64(start);
        w.u64(end.saturating_sub(start));
    });
    if stored.encoding == Encoding::ZSTD {
        fields.with("encoding", |w| w.text(SEEKABLE));
        fields.with("decoded_length", |w| w.u64(c.decoded_len));
    }
    if let Some(digest) = &stored.digest {
        fields.with("digest", |w| w.text(&digest.to_string()));
    }
    fields.finish()
}

/// The entries of a deterministic map: in bytewise order of their keys, regardless of the order in which they are
/// added.
#[derive(Default)]
pub(super) struct Fields(Vec<(Vec<u8>, Vec<u8>)>);

impl Fields {
    pub(super) fn raw(&mut self, key: &str, value: Vec<u8>) {
        let mut w = Writer::new();
        w.text(key);
        self.0.push((w.into_bytes(), value));
    }

    pub(super) fn with(&mut self, key: &str, write: impl FnOnce(&mut Writer)) {
        let mut w = Writer::new();
        write(&mut w);
        self.raw(key, w.into_bytes());
    }

    /// Adds the field of attributes, if there are any, or if the file from which they are had this field.
    pub(super) fn attributes(&mut self, attributes: &Attributes) -> Result<()> {
        if !attributes.is_stated() {
            return Ok(());
        }
        let mut all = Fields::default();
        for (key, value) in attributes.iter() {
            all.raw(key, deterministic(value)?);
        }
        self.raw("attributes", all.finish());
        Ok(())
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        sort(&mut self.0);
        let mut w = Writer::new();
        w.map(self.0.len());
        for (key, value) in &self.0 {
            w.raw(key);
            w.raw(value);
        }
        w.into_bytes()
    }
}

/// Returns the value of a key in a map.
pub(super) fn member<'a>(pairs: &'a [(Value, Value)], name: &str) -> Option<&'a Value> {
    let mut pairs = pairs.iter();
    pairs.find(|(key, _)| key.as_text() == Some(name)).map(|(_, value)| value)
}

/// Encodes a value that has been checked, with its maps in order.
pub(super) fn deterministic(value: &Value) -> Result<Vec<u8>> {
    let mut w = Writer::new();
    match value {
        Value::Array(items) => {
            w.array(items.len());
            for item in items {
                w.raw(&deterministic(item)?);
            }
        }
        Value::Map(pairs) => {
            let mut fields = Fields::default();
            for (key, value) in pairs {
                fields.0.push((deterministic(key)?, deterministic(value)?));
            }
            return Ok(fields.finish());
        }
        single => w.value(single)?,
    }
    Ok(w.into_bytes())
}
