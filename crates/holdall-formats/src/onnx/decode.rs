//! Decodes the index of a model, in one pass over its graph.

use super::graph::Graph;
use super::tensor::{Data, External, Proto, over};
use super::value::{Pairs, count, described, entry, integer, lossy, too_many};
use super::{
    DATA, DEPTH, EXTERNAL, FORMAT, GRAPH, INDICES, LOCATION, TEXT, bits, element, unfilled,
};
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use holdall_collections::sort_by;
use holdall_collections::{HashMap, HashSet};
use holdall_core::error::{Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::{
    Attributes, ByteOrder, Component, DType, Encoding, Index, IndexBuilder, Layout, LogicalType,
    Role, Value, element_count,
};
use holdall_core::read::Extent;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::protobuf::{Item, Scan};
use std::ops::Range;

/// The maximum number of files with external data.
const MAX_FILES: usize = 4096;
/// The maximum number of inputs and outputs in the attributes.
const MAX_VALUES: usize = 4096;

pub(super) fn decode(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    decode_with(window, limits, &[])
}

/// Decodes the index of the model in `window`. `files` has the available external files: names as the model has them,
/// and lengths. They become the sources 1, 2, … of the index. A tensor in an unavailable file gets a fault.
///
/// # Errors
/// Returns errors in the model, and [`Stop::Need`] if bytes are missing.
pub(super) fn decode_with(
    window: &Window,
    limits: &Limits,
    files: &[(String, u64)],
) -> Result<Index, Stop> {
    let mut walk = Walk::new(window, limits, files)?;
    walk.model()?;
    Ok(walk.builder.finish()?)
}

/// Returns the names of the files with external data of the model in `window`, in the order in which they occur.
///
/// # Errors
/// Returns errors in the model, and [`Stop::Need`] if bytes are missing.
pub fn locations(window: &Window, limits: &Limits) -> Result<Vec<String>, Stop> {
    let mut walk = Walk::new(window, limits, &[])?;
    walk.model()?;
    Ok(walk.locations)
}

/// Reads the model in `window`, so that other weights can be written into it.
///
/// # Errors
/// Returns errors in the model, and [`Stop::Need`] if bytes are missing.
pub fn graph(window: &Window, limits: &Limits) -> Result<Graph, Stop> {
    let mut walk = Walk::new(window, limits, &[])?;
    walk.model()?;
    let mut found = walk.found;
    sort_by(&mut found, |(a, _), (b, _)| a.start.cmp(&b.start));
    Graph::read(window, limits, &found)
}

struct Walk<'w> {
    window: &'w Window,
    limits: &'w Limits,
    files: &'w [(String, u64)],
    builder: IndexBuilder,
    /// The names of tensors so far, with the number for the next tensor of the same name.
    names: HashMap<String, u64>,
    locations: Vec<String>,
    /// The byte ranges of dense tensors, and their names.
    found: Vec<(Range<u64>, String)>,
    known: HashSet<String>,
    /// The number of bytes that may still be copied from numeric fields.
    budget: u64,
}

/// The summary of a graph.
#[derive(Default)]
struct GraphSummary {
    name: String,
    inputs: Vec<Range<u64>>,
    outputs: Vec<Range<u64>>,
    valued: HashSet<String>,
}

/// The node to which an attribute belongs.
struct Owner<'a> {
    prefix: &'a str,
    /// The name of the node, or a substitute.
    label: String,
    /// The name for the tensor of a constant: the output of its node.
    constant: Option<String>,
    depth: usize,
}

impl<'w> Walk<'w> {
    fn new(
        window: &'w Window,
        limits: &'w Limits,
        files: &'w [(String, u64)],
    ) -> Result<Walk<'w>, Stop> {
        let len = window.len();
        // Tensors may share external data, also in part.
        let mut builder = IndexBuilder::new(FORMAT.id, "", len, 0..len, limits).with_views();
        for (_, len) in files {
            builder.source(*len, 0..*len)?;
        }
        Ok(Walk {
            window,
            limits,
            files,
            builder,
            names: HashMap::default(),
            locations: Vec::new(),
            found: Vec::new(),
            known: HashSet::default(),
            budget: limits.header_len,
        })
    }

    fn model(&mut self) -> Result<(), Stop> {
        let (mut graph, mut functions, mut small) = (None, Vec::new(), Vec::new());
        let mut scan = Scan::new(self.window, 0..self.window.len());
        while let Some((number, item)) = scan.next()? {
            match (number, item) {
                (7, Item::Bytes(run)) => {
                    let first = graph.replace(run.clone());
                    if first.is_some() {
                        return Err(GRAPH.broken("the model has a second graph").at(run).into());
                    }
                }
                (25, Item::Bytes(run)) => functions.push(run),
                (1..=6 | 8 | 14, item) => {
                    if small.len() as u64 > self.limits.attribute_values {
                        return Err(too_many().into());
                    }
                    small.push((number, item));
                }
                _ => {}
            }
        }
        let Some(graph) = graph else {
            return Err(GRAPH.broken("the model has no graph").into());
        };
        let graph = self.graph(graph, "", 1)?;
        let mut names = Vec::new();
        for function in functions {
            names.push(Value::Text(self.function(function)?));
        }
        let attributes = self.attributes(small, graph, names)?;
        self.builder.attributes(attributes);
        Ok(())
    }

    /// Returns the model's description, besides its weights.
    fn attributes(
        &self,
        small: Vec<(u64, Item)>,
        graph: GraphSummary,
        functions: Vec<Value>,
    ) -> Result<Attributes, Stop> {
        let mut out = Attributes::new();
        let (mut sets, mut metadata) = (Pairs::default(), Pairs::default());
        for (number, item) in small {
            match (number, item) {
                (1, Item::Varint(n)) => out.set("ir_version", integer(n)),
                (5, Item::Varint(n)) => out.set("model_version", integer(n)),
                (2..=4 | 6, Item::Bytes(run)) => {
                    let key = match number {
                        2 => "producer_name",
                        3 => "producer_version",
                        4 => "domain",
                        _ => "doc_string",
                    };
                    let text = self.text(run)?;
                    if !text.is_empty() {
                        out.set(key, Value::Text(text));
                    }
                }
                (8, Item::Bytes(run)) => {
                    let (domain, version) = entry(&self.bytes(run)?)?;
                    let version = match version {
                        Value::Integer(_) => version,
                        _ => Value::Integer(0),
                    };
                    let domain = if domain.is_empty() { "ai.onnx".to_owned() } else { domain };
                    sets.set(domain, version);
                }
                (14, Item::Bytes(run)) => {
                    let (key, value) = entry(&self.bytes(run)?)?;
                    metadata.set(key, value);
                }
                _ => {}
            }
        }
        for (key, pairs) in [("opset_import", sets), ("metadata_props", metadata)] {
            let pairs = pairs.into_value();
            if !matches!(&pairs, Value::Map(pairs) if pairs.is_empty()) {
                out.push(key, pairs);
            }
        }
        if !graph.name.is_empty() {
            out.push("graph", Value::Text(graph.name));
        }
        for (key, places) in [("inputs", graph.inputs), ("outputs", graph.outputs)] {
            let mut all = Vec::new();
            for range in places.into_iter().take(MAX_VALUES) {
                let value = described(&self.bytes(range)?)?;
                // Early versions list every weight as an input too.
                let is_weight = matches!(&value, Value::Map(pairs) if pairs.iter().any(|(_, name)| {
                    key == "inputs" && name.as_text().is_some_and(|name| graph.valued.contains(name))
                }));
                if !is_weight {
                    all.push(value);
                }
            }
            out.push(key, Value::Array(all));
        }
        if !functions.is_empty() {
            out.push("functions", Value::Array(functions));
        }
        let mut left = self.limits.attribute_values;
        out.iter().try_for_each(|(_, value)| count(value, &mut left))?;
        Ok(out)
    }

    fn graph(
        &mut self,
        range: Range<u64>,
        prefix: &str,
        depth: usize,
    ) -> Result<GraphSummary, Stop> {
        self.check_depth(depth, &range)?;
        let mut out = GraphSummary::default();
        let mut nodes = 0u64;
        let mut scan = Scan::new(self.window, range);
        while let Some((number, item)) = scan.next()? {
            match (number, item) {
                (1, Item::Bytes(run)) => {
                    self.node(run, prefix, nodes, depth)?;
                    nodes = nodes.saturating_add(1);
                }
                (2, Item::Bytes(run)) => out.name = self.text(run)?,
                (5, Item::Bytes(run)) => {
                    let name = self.tensor(run, prefix, None)?;
                    out.valued.insert(name);
                }
                (15, Item::Bytes(run)) => {
                    let name = self.sparse(run, prefix, None)?;
                    out.valued.insert(name);
                }
                (11, Item::Bytes(run)) => out.inputs.push(run),
                (12, Item::Bytes(run)) => out.outputs.push(run),
                _ => {}
            }
        }
        Ok(out)
    }

    /// Reads a function, and returns its name, with which the names of its tensors begin.
    fn function(&mut self, range: Range<u64>) -> Result<String, Stop> {
        let (mut name, mut domain, mut overload) = (String::new(), String::new(), String::new());
        let (mut nodes, mut defaults) = (Vec::new(), Vec::new());
        let mut scan = Scan::new(self.window, range);
        while let Some((number, item)) = scan.next()? {
            match (number, item) {
                (1, Item::Bytes(run)) => name = self.text(run)?,
                (10, Item::Bytes(run)) => domain = self.text(run)?,
                (13, Item::Bytes(run)) => overload = self.text(run)?,
                (7, Item::Bytes(run)) => nodes.push(run),
                (11, Item::Bytes(run)) => defaults.push(run),
                _ => {}
            }
        }
        let parts = [domain, name, overload];
        let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|s| !s.is_empty()).collect();
        let name = parts.join(".");
        let prefix = format!("{name}.");
        for (at, node) in nodes.into_iter().enumerate() {
            self.node(node, &prefix, at as u64, 1)?;
        }
        for range in defaults {
            let label = "attributes".to_owned();
            let owner = Owner { prefix: &prefix, label, constant: None, depth: 1 };
            self.attribute(range, &owner)?;
        }
        Ok(name)
    }

    fn node(&mut self, range: Range<u64>, prefix: &str, at: u64, depth: usize) -> Result<(), Stop> {
        let (mut name, mut output, mut operator) = (None, None, None);
        let mut attributes = Vec::new();
        let mut scan = Scan::new(self.window, range);
        while let Some((number, item)) = scan.next()? {
            match (number, item) {
                (2, Item::Bytes(run)) if output.is_none() => output = Some(run),
                (3, Item::Bytes(run)) => name = Some(run),
                (4, Item::Bytes(run)) => operator = Some(run),
                (5, Item::Bytes(run)) => attributes.push(run),
                _ => {}
            }
        }
        if attributes.is_empty() {
            return Ok(());
        }
        // The owner is computed only for attributes with tensors, which are rare.
        let mut owner: Option<Owner<'_>> = None;
        for range in attributes {
            if !self.has_tensors(range.clone())? {
                continue;
            }
            let owner = match &mut owner {
                Some(owner) => owner,
                none => {
                    let text = |run: &Option<Range<u64>>| match run {
                        Some(run) => self.text(run.clone()),
                        None => Ok(String::new()),
                    };
                    let (name, output, operator) = (text(&name)?, text(&output)?, text(&operator)?);
                    let is_constant = operator == "Constant" && !output.is_empty();
                    let label = [name, output.clone()].into_iter().find(|s| !s.is_empty());
                    none.insert(Owner {
                        prefix,
                        label: label.unwrap_or_else(|| format!("node{at}")),
                        constant: is_constant.then_some(output),
                        depth,
                    })
                }
            };
            self.attribute(range, owner)?;
        }
        Ok(())
    }

    /// Returns `true` if an attribute has tensors or graphs.
    fn has_tensors(&self, range: Range<u64>) -> Result<bool, Stop> {
        let mut scan = Scan::new(self.window, range);
        while let Some((number, item)) = scan.next()? {
            if matches!((number, item), (5 | 6 | 10 | 11 | 22 | 23, Item::Bytes(_))) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn attribute(&mut self, range: Range<u64>, owner: &Owner<'_>) -> Result<(), Stop> {
        let mut name = String::new();
        let mut inner = Vec::new();
        let mut scan = Scan::new(self.window, range);
        while let Some((number, item)) = scan.next()? {
            match (number, item) {
                (1, Item::Bytes(run)) => name = self.text(run)?,
                (5 | 6 | 10 | 11 | 22 | 23, Item::Bytes(run)) => inner.push((number, run)),
                _ => {}
            }
        }
        let Owner { prefix, label, constant, depth } = owner;
        let mut counts = [0u64; 24];
        for (field, range) in inner {
            let number = usize::try_from(field).ok().and_then(|at| counts.get_mut(at));
            let at = number.map_or(0, |n| {
                let at = *n;
                *n = n.saturating_add(1);
                at
            });
            let full = match (field, constant) {
                (5 | 22, Some(output)) => format!("{prefix}{output}"),
                (10 | 11 | 23, _) => format!("{prefix}{label}.{name}.{at}"),
                _ => format!("{prefix}{label}.{name}"),
            };
            match field {
                6 | 11 => {
                    // Three levels: the node, its attribute, and the graph.
                    self.graph(range, &format!("{full}."), depth.saturating_add(3))?;
                }
                22 | 23 => drop(self.sparse(range, "", Some(full))?),
                _ => drop(self.tensor(range, "", Some(full))?),
            }
        }
        Ok(())
    }

    /// Adds a tensor with this name, or with its own name if it has one.
    fn tensor(
        &mut self,
        range: Range<u64>,
        prefix: &str,
        name: Option<String>,
    ) -> Result<String, Stop> {
        let proto = self.proto(range.clone())?;
        let name = self.unique(name.unwrap_or_else(|| format!("{prefix}{}", proto.name)));
        self.found.push((range.clone(), name.clone()));
        let shape = match proto.shape() {
            Ok(shape) => shape,
            Err(e) => {
                self.builder.tensor(&name, &[], Layout::Dense)?;
                self.builder.fault(e.at(range));
                return Ok(proto.name);
            }
        };
        self.builder.tensor(&name, shape, Layout::Dense)?;
        match self.component(Role::Data, &proto) {
            Ok(component) => self.builder.component(component)?,
            Err(Stop::Fail(e)) => self.builder.fault(e),
            Err(need) => return Err(need),
        }
        Ok(proto.name)
    }

    /// Returns the component with the elements of a tensor.
    fn component(&mut self, role: Role, proto: &Proto) -> Result<Component, Stop> {
        let stored = match proto.data(self.window, &mut self.budget)? {
            Data::Here(run) => run.into(),
            Data::Made(bytes) => self.builder.stated(&bytes),
            Data::External(external) => self.external(external, proto.len()?)?,
        };
        let bits = element_count(proto.shape()?).and_then(|n| n.checked_mul(bits(proto.data_type)));
        let element = match bits.is_some_and(|bits| bits.is_multiple_of(8)) {
            true => element(proto.data_type),
            false => unfilled(proto.data_type),
        };
        let (dtype, logical_type) = element.unwrap_or((DType::U8, None));
        Ok(component(role, dtype, logical_type, stored))
    }

    /// Returns the extent of external data, which should have `len` bytes.
    fn external(&mut self, external: &External, len: u64) -> Result<Extent> {
        if !external.is_inside() {
            let message = format!(
                "`{}` is not the path of a file in or below the folder of the model",
                external.escaped_location()
            );
            return Err(LOCATION.broken(message));
        }
        if let Some(stated) = external.len.filter(|stated| *stated != len) {
            let message =
                format!("its shape requires {len} bytes, but its external data has {stated}");
            return Err(DATA.broken(message));
        }
        let Some(at) = self.files.iter().position(|(name, _)| *name == external.location) else {
            if self.locations.len() < MAX_FILES && self.known.insert(external.location.clone()) {
                self.locations.push(external.location.clone());
            }
            return Err(EXTERNAL.broken(format!(
                "its elements are in the file `{}`, which is not available",
                external.escaped_location()
            )));
        };
        let there = self.files.get(at).map_or(0, |(_, len)| *len);
        let end = external.offset.checked_add(len).filter(|end| *end <= there);
        let Some(end) = end else {
            let message = format!(
                "{len} bytes at offset {} are outside of `{}`, which has {there} bytes",
                external.offset,
                external.escaped_location()
            );
            return Err(EXTERNAL.broken(message));
        };
        let source = u32::try_from(at).unwrap_or(u32::MAX).saturating_add(1);
        Ok(Extent::new(source, external.offset..end))
    }

    /// Adds a sparse tensor, as [`Walk::tensor`] adds a dense one.
    fn sparse(
        &mut self,
        range: Range<u64>,
        prefix: &str,
        name: Option<String>,
    ) -> Result<String, Stop> {
        let (mut values, mut indices, mut dims) = (None, None, Vec::new());
        let most = self.limits.rank;
        let mut scan = Scan::new(self.window, range.clone());
        while let Some((number, item)) = scan.next()? {
            match (number, item) {
                (1, Item::Bytes(run)) => values = Some(run),
                (2, Item::Bytes(run)) => indices = Some(run),
                (3, Item::Varint(n)) if dims.len() <= most => dims.push(n),
                (3, Item::Bytes(run)) => {
                    let mut packed = Scan::new(self.window, run);
                    while let Some(n) = packed.number()? {
                        if dims.len() <= most {
                            dims.push(n);
                        }
                    }
                }
                _ => {}
            }
        }
        let empty = range.start..range.start;
        let values = self.proto(values.unwrap_or(empty.clone()))?;
        let name = self.unique(name.unwrap_or_else(|| format!("{prefix}{}", values.name)));
        self.builder.tensor(&name, &dims, Layout::SparseCoo)?;
        let indices = self.proto(indices.unwrap_or(empty))?;
        let found = self.coordinates(&dims, &values, &indices).and_then(|coords| {
            let values = self.component(Role::Values, &values)?;
            let coords = self.builder.stated(&coords);
            Ok((component(Role::Coords, DType::U64, None, coords), values))
        });
        match found {
            Ok((coords, values)) => {
                self.builder.component(coords)?;
                self.builder.component(values)?;
            }
            Err(Stop::Fail(e)) => self.builder.fault(e),
            Err(need) => return Err(need),
        }
        Ok(values.name)
    }

    /// Returns the coordinates of a sparse tensor's values, one dimension after the other.
    fn coordinates(
        &mut self,
        dims: &[u64],
        values: &Proto,
        indices: &Proto,
    ) -> Result<Vec<u8>, Stop> {
        let rank = dims.len();
        let broken = |what: String| -> Stop { INDICES.broken(what).into() };
        let count = element_count(values.shape()?).unwrap_or(u64::MAX);
        let is_linear = match *indices.shape()? {
            [n] if n == count => true,
            [n, stated] if n == count && stated == rank as u64 => false,
            ref shape => {
                let message =
                    format!("indices of shape {shape:?} do not fit {count} values in {dims:?}");
                return Err(broken(message));
            }
        };
        let all = indices.integers(self.window, &mut self.budget)?;
        let len = (rank as u64).saturating_mul(count).saturating_mul(8);
        self.budget = self.budget.checked_sub(len).ok_or_else(|| over(len, "coordinates"))?;
        let total = element_count(dims).unwrap_or(u64::MAX);
        let outside = |index: i64| broken(format!("the index {index} is outside of {dims:?}"));
        // The number of values is limited by the lengths of values and indices in the file.
        let mut out = vec![0u8; usize::try_from(len).debug_unwrap()];
        let count = usize::try_from(count).debug_unwrap();
        let mut put = |dim: usize, at: usize, value: u64| {
            let start = dim.saturating_mul(count).saturating_add(at).saturating_mul(8);
            if let Some(room) = out.get_mut(start..start.saturating_add(8)) {
                room.copy_from_slice(&value.to_le_bytes());
            }
        };
        if is_linear {
            for (at, index) in all.iter().enumerate() {
                let mut left = u64::try_from(*index).ok().filter(|i| *i < total);
                for (dim, size) in dims.iter().enumerate().rev() {
                    let whole = left.ok_or_else(|| outside(*index))?;
                    put(dim, at, whole.checked_rem(*size).unwrap_or(0));
                    left = Some(whole.checked_div(*size).unwrap_or(0));
                }
                left.ok_or_else(|| outside(*index))?;
            }
        } else {
            for (at, row) in all.chunks_exact(rank.max(1)).enumerate() {
                for (dim, (index, size)) in row.iter().zip(dims).enumerate() {
                    let found = u64::try_from(*index).ok().filter(|i| i < size);
                    put(dim, at, found.ok_or_else(|| outside(*index))?);
                }
            }
        }
        Ok(out)
    }

    fn proto(&self, range: Range<u64>) -> Result<Proto, Stop> {
        Proto::read(self.window, range, self.limits.rank, &|run| self.text(run))
    }

    /// Returns a name that no other tensor has.
    fn unique(&mut self, name: String) -> String {
        let Some(mut next) = self.names.get(&name).copied() else {
            self.names.insert(name.clone(), 2);
            return name;
        };
        let other = loop {
            let other = format!("{name}#{next}");
            next = next.saturating_add(1);
            if !self.names.contains_key(&other) {
                break other;
            }
        };
        self.builder.warn("onnx-file/renamed", None, None, || {
            format!("a second tensor `{}` was renamed to `{}`", name.escaped(), other.escaped())
                .into()
        });
        self.names.insert(name, next);
        self.names.insert(other.clone(), 2);
        other
    }

    fn check_depth(&self, depth: usize, range: &Range<u64>) -> Result<()> {
        if depth <= self.limits.depth {
            return Ok(());
        }
        let message = format!("a graph is nested in more than {} messages", self.limits.depth);
        Err(DEPTH.broken(message).at(range.clone()))
    }

    fn text(&self, range: Range<u64>) -> Result<String, Stop> {
        Ok(lossy(&self.bytes(range)?))
    }

    /// Returns the bytes of a small message.
    fn bytes(&self, range: Range<u64>) -> Result<Bytes, Stop> {
        let (len, most) = (range.end.saturating_sub(range.start), self.limits.text_len);
        if len > most {
            let message = format!("it has {len} bytes, at most {most} are allowed");
            return Err(TEXT.broken(message).at(range).into());
        }
        self.window.bytes(range)
    }
}

fn component(
    role: Role,
    dtype: DType,
    logical_type: Option<LogicalType>,
    stored: Extent,
) -> Component {
    Component {
        role,
        dtype,
        logical_type,
        encoding: Encoding::Raw,
        byte_order: ByteOrder::Little,
        stored,
        decoded_len: Some(stored.len()),
        digest: None,
    }
}
