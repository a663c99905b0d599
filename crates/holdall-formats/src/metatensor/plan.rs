//! The plan of a file to be written: its tree, its schema, the ranges of its data, its header.

use super::DIALECT;
use super::fit::limits_of_schemas;
use super::infer::Leaves;
use super::metadata::{Parts, WrittenMetadata, own_attributes};
use super::place::{self, Aligns};
use super::rules::*;
use super::tree::{self, Tree};
use crate::element::by_meaning;
use crate::header::Slot;
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use holdall_collections::HashMap;
use holdall_collections::sort;
use holdall_core::encode::TensorSpec;
use holdall_core::error::{Escape as _, Result};
use holdall_core::model::{Attributes, Index, Layout, Role};
use holdall_json::{parse, write_string};
use holdall_schema::{OrderedJson, Root, Schema};
use std::fmt::Write as _;
use std::ops::Range;

/// The minimum alignment of the data: that of buffers for GPUs.
const DATA_ALIGN: u64 = 256;

/// Everything about a file to be written, before its header is made.
pub(super) struct Plan<'a> {
    attributes: &'a Attributes,
    declared: &'a [TensorSpec],
    /// The plain values: path and JSON text.
    pub(super) values: Vec<(String, String)>,
    tree: Tree,
    metadata: WrittenMetadata<'a>,
    schema: String,
    /// The schema of `tensors` in standard keywords, if `schema` is not in them.
    header_schema: Option<String>,
    aligns: Aligns,
    data_align: u64,
    /// Whether the schema was given among the attributes.
    pub(super) is_given: bool,
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        attributes: &'a Attributes,
        declared: &'a [TensorSpec],
        align: Option<u64>,
    ) -> Result<Plan<'a>> {
        let limits = limits_of_schemas();
        let Parts { schema, values } = Parts::read(attributes, &limits)?;
        let names: Vec<&str> = declared.iter().map(|t| t.name.as_str()).collect();
        let paths: Vec<&str> = values.iter().map(|(path, _)| path.as_str()).collect();
        let is_given = schema.is_some();
        let (json, schema, named) = match schema {
            Some((mut json, text)) => {
                let named = tree::build(&names, &paths, None)?;
                let mut schema = text.to_owned();
                if let Some(align) = align {
                    let before = json.clone();
                    place::raise(&mut json, align);
                    if json != before {
                        schema = OrderedJson::read(text, limits.depth)?.text_of(&json);
                    }
                }
                (json, schema, named)
            }
            None => {
                let leaves = Leaves::from_tensors(declared, align)?;
                let named = tree::build(&names, &paths, Some(&|a, b| leaves.are_alike(a, b)))?;
                let schema = leaves.schema(&named.tree);
                (parse(schema.as_bytes(), limits.depth)?, schema, named)
            }
        };
        let compiled = Schema::compile(&json, &limits)?;
        let Root::References(root) = compiled.root() else {
            return Err(ATTRIBUTE.broken("the schema describes a record, not tensors"));
        };
        let author = parse(schema.as_bytes(), limits.depth)?;
        let header_schema = compiled
            .needs_header_schema(&author)
            .then(|| compiled.header_schema(&json).to_string());
        let aligns = Aligns::from_tree(&named.tree, &compiled, root, declared)?;
        let mut metadata = WrittenMetadata { is_inferred: !is_given, ..WrittenMetadata::default() };
        metadata.names = named.names.into_iter().collect();
        for tensor in declared {
            let has_kind = tensor.layout != Layout::Dense;
            let own = own_attributes(&tensor.attributes, has_kind);
            if !own.is_empty() {
                metadata.tensor_attributes.insert(&tensor.name, own);
            }
        }
        let data_align = align.unwrap_or(1).max(DATA_ALIGN);
        let tree = named.tree;
        Ok(Plan {
            attributes,
            declared,
            values,
            tree,
            metadata,
            schema,
            header_schema,
            aligns,
            data_align,
            is_given,
        })
    }

    /// Returns `true` if a file has the plain values that are to be written.
    pub(super) fn has_values_of(&self, index: &Index) -> bool {
        let sorted = |mut values: Vec<(String, String)>| {
            sort(&mut values);
            values
        };
        let found = Parts::read(index.attributes(), &limits_of_schemas());
        found.is_ok_and(|found| sorted(found.values) == sorted(self.values.clone()))
    }

    /// Returns the header, the ranges of components, and the length of the file.
    pub(super) fn header(&mut self) -> Result<(Bytes, Vec<Slot>, u64)> {
        let (mut slots, end) = self.slots()?;
        let mut text =
            String::from("{\"metatensor\":\"1.0\",\"endian\":\"little\",\"data_align\":");
        // Writing to a String cannot fail.
        let _ = write!(text, "{},\"schema\":{}", self.data_align, self.schema);
        if let Some(header_schema) = &self.header_schema {
            let _ = write!(text, ",\"header_schema\":{header_schema}");
        }
        text.push_str(",\"tensors\":");
        let firsts = self.firsts();
        self.write(&self.tree, &slots, &firsts, &mut text);
        if let Some(metadata) = self.metadata.write(self.attributes) {
            text.push_str(",\"metadata\":");
            text.push_str(&metadata);
        }
        text.push('}');
        let header = DIALECT.pad(&text, self.data_align)?;
        let data = header.len() as u64;
        let absolute = |offset: u64| {
            data.checked_add(offset).ok_or_else(|| DECLARED.broken("the file passes 2^64 bytes"))
        };
        for slot in &mut slots {
            slot.range = absolute(slot.range.start)?..absolute(slot.range.end)?;
        }
        Ok((header, slots, absolute(end)?))
    }

    /// Returns the index of the first slot of each tensor.
    fn firsts(&self) -> Vec<usize> {
        let mut next = 0usize;
        let mut firsts = Vec::with_capacity(self.declared.len());
        for tensor in self.declared {
            firsts.push(next);
            next = next.saturating_add(tensor.components.len());
        }
        firsts
    }

    /// Returns the ranges of components in the data, and the end of the data.
    fn slots(&self) -> Result<(Vec<Slot>, u64)> {
        let mut slots: Vec<Slot> = Vec::new();
        let mut aligns: Vec<u64> = Vec::new();
        let mut slot_indices: HashMap<(&str, &Role), usize> = HashMap::default();
        let specs = || {
            let all = self.declared.iter().enumerate();
            all.flat_map(|(at, t)| {
                t.components.iter().enumerate().map(move |(c, spec)| (at, t, c, spec))
            })
        };
        for (at, tensor, component, spec) in specs() {
            let fault = |what: String| DECLARED.broken(what).in_tensor(tensor.name.as_str());
            let mut align = self.aligns.component(at, &spec.role);
            let shares = match &spec.shares {
                None => None,
                Some(owner) => {
                    let first = slot_indices.get(&(owner.tensor.as_str(), &owner.role)).copied();
                    let name = owner.tensor.escaped();
                    let first = first.ok_or_else(|| {
                        fault(format!(
                            "it shares the bytes of `{name}`, which must be written before it"
                        ))
                    })?;
                    if let Some(own) = aligns.get_mut(first) {
                        *own = align.max(*own);
                        align = *own;
                    }
                    Some(first)
                }
            };
            // Shared bytes have the slot of the component that owns them.
            let slot_index = shares.unwrap_or(slots.len());
            slot_indices.insert((&tensor.name, &spec.role), slot_index);
            aligns.push(align);
            let (tensor, range) = (tensor.name.clone(), 0..spec.decoded_len);
            slots.push(Slot { tensor, component, range, shares });
        }
        let mut end = 0u64;
        for at in 0..slots.len() {
            let align = aligns.get(at).copied().unwrap_or(1);
            let own = slots.get(at).and_then(|s| s.shares).map(|first| slots.get(first));
            let shared = own.map(|first| first.map_or(0..0, |s| s.range.clone()));
            let Some(slot) = slots.get_mut(at) else { continue };
            if let Some(range) = shared {
                let len = range.end.saturating_sub(range.start);
                if len != slot.range.end {
                    let message =
                        format!("it shares {len} bytes, but {} are declared", slot.range.end);
                    return Err(DECLARED.broken(message).in_tensor(slot.tensor.as_str()));
                }
                slot.range = range;
                continue;
            }
            let start = end.checked_next_multiple_of(align);
            let range = start.and_then(|start| Some(start..start.checked_add(slot.range.end)?));
            slot.range = range.ok_or_else(|| {
                DECLARED.broken("the tensors together exceed 2^64 bytes").in_tensor(&slot.tensor)
            })?;
            end = slot.range.end;
        }
        Ok((slots, end))
    }

    /// Appends the JSON of a node of `tensors`.
    fn write(&self, tree: &Tree, slots: &[Slot], firsts: &[usize], out: &mut String) {
        match tree {
            Tree::Value(number) => {
                out.push_str(self.values.get(*number).map_or("null", |(_, text)| text));
            }
            Tree::Object(members) => {
                for (at, (key, member)) in members.iter().enumerate() {
                    out.push(if at == 0 { '{' } else { ',' });
                    write_string(key, out);
                    out.push(':');
                    self.write(member, slots, firsts, out);
                }
                out.push_str(if members.is_empty() { "{}" } else { "}" });
            }
            Tree::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    out.push(if at == 0 { '[' } else { ',' });
                    self.write(item, slots, firsts, out);
                }
                out.push_str(if items.is_empty() { "[]" } else { "]" });
            }
            Tree::Tensor(number) => {
                let Some(tensor) = self.declared.get(*number) else { return };
                let first = firsts.get(*number).copied().debug_unwrap();
                let range = |role: &Role| {
                    let at = tensor.components.iter().position(|c| c.role == *role)?;
                    slots.get(first.checked_add(at)?).map(|s| s.range.clone())
                };
                write_reference(tensor, range, out);
            }
        }
    }
}

fn write_reference(
    tensor: &TensorSpec,
    range: impl Fn(&Role) -> Option<Range<u64>>,
    out: &mut String,
) {
    // Writing to a String cannot fail.
    let offsets = |range: &Range<u64>, out: &mut String| {
        let _ = write!(out, "\"data_offsets\":[{},{}]", range.start, range.end);
    };
    let flat = |dtype: &str, shape: &[u64], range: &Range<u64>, out: &mut String| {
        let _ = write!(out, "{{\"dtype\":\"{dtype}\",\"shape\":[");
        for (at, dim) in shape.iter().enumerate() {
            let _ = write!(out, "{}{dim}", if at == 0 { "" } else { "," });
        }
        out.push_str("],");
        offsets(range, out);
        out.push('}');
    };
    let heap = |out: &mut String| {
        if let Some(range) = range(&Role::BlobData) {
            out.push_str(",\"blob_data\":");
            flat("U8", &[range.end.saturating_sub(range.start)], &range, out);
        }
    };
    let count = tensor.shape.first().copied().unwrap_or(0);
    match tensor.layout {
        Layout::Records => {
            let _ = write!(out, "{{\"count\":{count},");
            offsets(&range(&Role::Data).unwrap_or(0..0), out);
            heap(out);
            out.push('}');
        }
        Layout::Blob => {
            let _ = write!(out, "{{\"entries\":{{\"count\":{count},");
            offsets(&range(&Role::Entries).unwrap_or(0..0), out);
            out.push('}');
            heap(out);
            out.push('}');
        }
        _ => {
            let data = tensor.components.first();
            let element = data.and_then(|c| by_meaning(c.dtype, c.logical_type.as_ref()));
            let name = element.map_or("U8", |e| e.name);
            flat(name, &tensor.shape, &range(&Role::Data).unwrap_or(0..0), out);
        }
    }
}
