//! Decodes the index of a model, table by table.

use super::{BUFFER, DIMS, ELEMENT_TYPE, FORMAT, SPARSE, TOO_MUCH, VERSION, element};
use holdall_collections::{HashMap, HashSet};
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::builder::{SIZE, TOO_MANY_TENSORS};
use holdall_core::model::{
    Attributes, ByteOrder, Component, Encoding, Index, IndexBuilder, Layout, Role, Value,
    element_count,
};
use holdall_core::window::{Stop, Window};
use holdall_core::wire::flatbuffer::{Reader, Table};
use std::cell::Cell;
use std::ops::Range;

/// The maximum length of a string in the metadata that becomes an attribute.
const MAX_TEXT: usize = 4096;

/// Decodes the index of the file in `window`.
pub(super) fn decode(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    let model = Model {
        reader: Reader::new(window),
        limits,
        left: Cell::new(limits.header_len),
        len: window.len(),
    };
    model.index()
}

struct Model<'w> {
    reader: Reader<'w>,
    limits: &'w Limits,
    /// The number of bytes that may still be copied out of tables.
    left: Cell<u64>,
    /// The length of the file.
    len: u64,
}

/// A graph.
struct Graph {
    name: String,
    tensors: Vec<Tensor>,
    inputs: Vec<u32>,
    outputs: Vec<u32>,
}

/// The description of a tensor.
struct Tensor {
    name: String,
    dims: Vec<i32>,
    /// The shape with -1 for unknown dimensions, if there are any.
    signature: Vec<i32>,
    element: u8,
    buffer: u32,
    attributes: Attributes,
    is_sparse: bool,
}

impl Model<'_> {
    fn index(&self) -> Result<Index, Stop> {
        let root = self.reader.root()?;
        let version = self.reader.number(&root, 0)?.map_or(0, u32::from_le_bytes);
        if version != 3 {
            return Err(VERSION.broken(format!("the version is {version}")).into());
        }
        let buffers = self.all(&root, 4, |_, table| self.buffer(&table))?;
        let graphs = self.all(&root, 2, |_, table| self.graph(&table))?;
        let attributes = self.attributes(&root, &graphs, &buffers)?;
        let mut builder = IndexBuilder::new(FORMAT.id, "3", self.len, 0..self.len, self.limits);
        builder.attributes(attributes);
        let is_one = graphs.len() == 1;
        let mut names = HashMap::default();
        for (at, graph) in graphs.iter().enumerate() {
            let prefix = match (is_one, graph.name.as_str()) {
                (true, _) => String::new(),
                (false, "") => format!("subgraph{at}."),
                (false, name) => format!("{name}."),
            };
            for (at, tensor) in graph.tensors.iter().enumerate() {
                self.count(prefix.len() as u64)?;
                let own = match tensor.name.as_str() {
                    "" => format!("{prefix}tensor{at}"),
                    name => format!("{prefix}{name}"),
                };
                add(&mut builder, &mut names, own, tensor, &buffers)?;
            }
        }
        Ok(builder.finish()?)
    }

    /// Applies `read` to the tables of a vector to which a field refers.
    fn all<T>(
        &self,
        table: &Table,
        number: usize,
        read: impl FnMut(u64, Table) -> Result<T, Stop>,
    ) -> Result<Vec<T>, Stop> {
        let Some(range) = self.reader.vector(table, number, 4)? else { return Ok(Vec::new()) };
        self.take(range.clone())?;
        let count = range.end.saturating_sub(range.start) / 4;
        if count > self.limits.tensors {
            let message = format!("{count} tables, at most {} are allowed", self.limits.tensors);
            return Err(TOO_MANY_TENSORS.broken(message).at(range).into());
        }
        self.reader.tables(range, read)
    }

    /// Counts bytes that are copied out of the file.
    fn take(&self, range: Range<u64>) -> Result<(), Stop> {
        Ok(self.count(range.end.saturating_sub(range.start)).map_err(|e| e.at(range))?)
    }

    /// Counts bytes that are kept in memory.
    fn count(&self, len: u64) -> Result<()> {
        let left = self.left.get().checked_sub(len);
        self.left.set(left.ok_or_else(|| {
            TOO_MUCH.broken(format!("tables have more than {} bytes", self.limits.header_len))
        })?);
        Ok(())
    }

    /// Returns the byte range of a buffer; `None` if the buffer is empty.
    fn buffer(&self, table: &Table) -> Result<Option<Range<u64>>, Stop> {
        let inside = self.reader.vector(table, 0, 1)?.filter(|range| !range.is_empty());
        let number = |field| -> Result<u64, Stop> {
            Ok(self.reader.number(table, field)?.map_or(0, u64::from_le_bytes))
        };
        let (start, len) = (number(1)?, number(2)?);
        if start <= 1 || len == 0 {
            return Ok(inside);
        }
        if inside.is_some() {
            return Err(BUFFER
                .broken("a buffer has bytes both in its table and outside of the tables")
                .into());
        }
        match start.checked_add(len).filter(|end| *end <= self.len) {
            Some(end) => Ok(Some(start..end)),
            None => {
                let all = self.len;
                let message = format!(
                    "a buffer of {len} bytes at offset {start} is outside of the file, which has {all} bytes"
                );
                Err(BUFFER.broken(message).into())
            }
        }
    }

    fn graph(&self, table: &Table) -> Result<Graph, Stop> {
        Ok(Graph {
            tensors: self.all(table, 0, |_, table| self.tensor(&table))?,
            inputs: self.numbers(table, 1)?.into_iter().map(u32::from_le_bytes).collect(),
            outputs: self.numbers(table, 2)?.into_iter().map(u32::from_le_bytes).collect(),
            name: self.text(table, 4)?,
        })
    }

    fn tensor(&self, table: &Table) -> Result<Tensor, Stop> {
        let ints = |number| -> Result<Vec<i32>, Stop> {
            Ok(self.numbers(table, number)?.into_iter().map(i32::from_le_bytes).collect())
        };
        let mut attributes = Attributes::new();
        if let Some(inner) = self.reader.inner(table, 4)? {
            let scales = self.numbers::<4>(&inner, 2)?.into_iter().map(f32::from_le_bytes);
            let zeros = self.numbers::<8>(&inner, 3)?.into_iter().map(i64::from_le_bytes);
            let scales: Vec<Value> = scales.map(|x| Value::Float(x.into())).collect();
            let zeros: Vec<Value> = zeros.map(|n| Value::Integer(n.into())).collect();
            if !scales.is_empty() {
                let axis = self.reader.number(&inner, 6)?.map_or(0, i32::from_le_bytes);
                attributes.push("tflite.scales", Value::Array(scales));
                attributes.push("tflite.zero_points", Value::Array(zeros));
                attributes.push("tflite.axis", Value::Integer(axis.into()));
            }
        }
        Ok(Tensor {
            dims: ints(0)?,
            signature: ints(7)?,
            element: self.reader.number::<1>(table, 1)?.map_or(0, u8::from_le_bytes),
            buffer: self.reader.number(table, 2)?.map_or(0, u32::from_le_bytes),
            name: self.text(table, 3)?,
            is_sparse: self.reader.pointed(table, 6)?.is_some(),
            attributes,
        })
    }

    fn numbers<const N: usize>(&self, table: &Table, number: usize) -> Result<Vec<[u8; N]>, Stop> {
        let Some(range) = self.reader.vector(table, number, N as u64)? else {
            return Ok(Vec::new());
        };
        self.take(range.clone())?;
        Ok(self.reader.bytes(range)?.as_chunks::<N>().0.to_vec())
    }

    fn text(&self, table: &Table, number: usize) -> Result<String, Stop> {
        let Some(range) = self.reader.vector(table, number, 1)? else { return Ok(String::new()) };
        self.take(range.clone())?;
        Ok(String::from_utf8_lossy(&self.reader.bytes(range)?).into_owned())
    }

    /// Returns the description of a model, besides its weights.
    fn attributes(
        &self,
        root: &Table,
        graphs: &[Graph],
        buffers: &[Option<Range<u64>>],
    ) -> Result<Attributes, Stop> {
        let mut out = Attributes::new();
        let description = self.text(root, 3)?;
        if !description.is_empty() {
            out.push("description", Value::Text(description));
        }
        let metadata = self.all(root, 6, |_, table| {
            let name = self.text(&table, 0)?;
            let number = self.reader.number(&table, 1)?.map_or(0, u32::from_le_bytes);
            let range = usize::try_from(number).ok().and_then(|at| buffers.get(at)?.clone());
            let Some(range) = range else { return Ok((name, Value::Null)) };
            self.take(range.clone())?;
            let bytes = self.reader.bytes(range)?;
            let text = std::str::from_utf8(&bytes).ok().map(|text| text.trim_end_matches('\0'));
            let is_text = |text: &&str| text.len() <= MAX_TEXT && !text.contains('\0');
            Ok(match text.filter(is_text) {
                Some(text) => (name, Value::Text(text.to_owned())),
                None => (name, Value::Bytes(bytes.to_vec())),
            })
        })?;
        let (mut pairs, mut known) = (Vec::new(), HashSet::default());
        for (name, value) in metadata {
            if known.insert(name.clone()) {
                pairs.push((Value::Text(name), value));
            }
        }
        if !pairs.is_empty() {
            out.push("metadata", Value::Map(pairs));
        }
        let Some(first) = graphs.first() else { return Ok(out) };
        for (key, numbers) in [("inputs", &first.inputs), ("outputs", &first.outputs)] {
            let mut all = Vec::new();
            let find_tensor = |at: &u32| first.tensors.get(usize::try_from(*at).ok()?);
            for tensor in numbers.iter().filter_map(find_tensor) {
                let dims = tensor.dims.len().saturating_add(tensor.signature.len()) as u64;
                self.count((tensor.name.len() as u64).saturating_add(dims.saturating_mul(4)))?;
                all.push(described(tensor));
            }
            out.push(key, Value::Array(all));
        }
        Ok(out)
    }
}

/// Returns the description of an input or an output: name, element type and shape.
fn described(tensor: &Tensor) -> Value {
    let dims = if tensor.signature.is_empty() { &tensor.dims } else { &tensor.signature };
    let dim = |dim: &i32| match u32::try_from(*dim) {
        Ok(dim) => Value::Integer(dim.into()),
        Err(_) => Value::Text("*".to_owned()),
    };
    let pair = |key: &str, value| (Value::Text(key.to_owned()), value);
    Value::Map(Vec::from([
        pair("name", Value::Text(tensor.name.clone())),
        pair("dtype", Value::Text(type_name(tensor.element))),
        pair("shape", Value::Array(dims.iter().map(dim).collect())),
    ]))
}

fn type_name(number: u8) -> String {
    match (number, element(number)) {
        (5, _) => "string".to_owned(),
        (_, Some((_, Some(logical), _))) => logical.as_str().to_owned(),
        (_, Some((dtype, None, _))) => dtype.as_str().to_owned(),
        (_, None) => format!("type {number}"),
    }
}

/// Adds a tensor, if it has elements. A duplicate name gets a number.
fn add(
    builder: &mut IndexBuilder,
    names: &mut HashMap<String, u64>,
    mut name: String,
    tensor: &Tensor,
    buffers: &[Option<Range<u64>>],
) -> Result<()> {
    let number = usize::try_from(tensor.buffer).unwrap_or(usize::MAX);
    let Some(buffer) = buffers.get(number) else {
        let message =
            format!("the tensor has buffer {number}, but there are {} buffers", buffers.len());
        return Err(BUFFER.broken(message).in_tensor(name));
    };
    // Buffer 0 is that of tensors without elements.
    let Some(range) = buffer.clone().filter(|_| number > 0) else { return Ok(()) };
    while let Some(count) = names.get_mut(&name) {
        *count = count.saturating_add(1);
        name = format!("{name}:{count}");
    }
    names.insert(name.clone(), 0);
    let dims: Result<Vec<u64>, _> = tensor.dims.iter().map(|dim| u64::try_from(*dim)).collect();
    builder.tensor(&name, dims.as_deref().unwrap_or_default(), Layout::Dense)?;
    builder.tensor_attributes(tensor.attributes.clone());
    let read = || -> Result<_, Error> {
        let dims = dims.map_err(|_| DIMS.broken(format!("the shape is {:?}", tensor.dims)))?;
        if tensor.is_sparse {
            return Err(SPARSE.broken("the tensor is stored sparse"));
        }
        let kind = type_name(tensor.element);
        let found = element(tensor.element).ok_or_else(|| {
            ELEMENT_TYPE.broken(format!("unsupported element type `{}`", kind.escaped()))
        })?;
        let bits = element_count(&dims).and_then(|count| count.checked_mul(found.2));
        let (len, has) = (bits.map(|bits| bits.div_ceil(8)), range.end.saturating_sub(range.start));
        match len {
            Some(len) if len != has => {
                let message = format!("shape {dims:?} of {kind} requires {len} bytes, found {has}");
                Err(SIZE.broken(message).at(range.clone()))
            }
            _ => Ok(found),
        }
    };
    match read() {
        Ok((dtype, logical_type, _)) => builder.component(Component {
            role: Role::Data,
            dtype,
            logical_type,
            encoding: Encoding::Raw,
            byte_order: ByteOrder::Little,
            stored: range.into(),
            decoded_len: None,
            digest: None,
        }),
        Err(e) => {
            builder.claim(range.into())?;
            builder.fault(e);
            Ok(())
        }
    }
}
