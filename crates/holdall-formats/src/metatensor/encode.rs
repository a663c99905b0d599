//! Writes the header. The whole header is known before the first byte is written.

use super::decode::decode_header;
use super::fit::{check_tensor, limits_of_schemas};
use super::metadata::{Parts, own_attributes};
use super::plan::Plan;
use super::rules::*;
use super::{DIALECT, SCHEMA_ATTRIBUTE, TENSOR_SCHEMA_ATTRIBUTE};
use crate::header::{LEN_BYTES, MAX_HEADER_LEN, Slot, Slots, check_values};
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use holdall_core::encode::UNKNOWN_VERSION;
use holdall_core::encode::{Encode, EncodeOptions, Stored, TensorSpec, ValueCheck};
use holdall_core::error::{Error, Result};
use holdall_core::limits::Limits;
use holdall_core::model::{Attributes, Index, Layout, Value, Warning};
use holdall_json::parse;
use holdall_schema::self_contained;
use serde_json::Value as Json;

/// The maximum alignment that a schema or a header can require.
const MAX_ALIGN: u64 = 1 << 16;
/// The maximum depth of kinds that are compared.
const KIND_DEPTH: usize = 128;

/// Creates an encoder of one file.
pub(super) fn encoder(options: &EncodeOptions) -> Result<Box<dyn Encode>> {
    if let Some(version) = options.version.as_deref().filter(|v| *v != "1.0") {
        let message = format!("cannot write Metatensor version `{version}`");
        return Err(UNKNOWN_VERSION
            .broken(message)
            .with_hint("the version that can be written is 1.0"));
    }
    let align = options.align_within(1..=MAX_ALIGN, &WRITE_ALIGN)?;
    Ok(Box::new(Encoder {
        align,
        values: options.values,
        slots: Slots::new(&DIALECT, Vec::new(), 0),
    }))
}

struct Encoder {
    /// The minimum alignment of tensors and records.
    align: Option<u64>,
    values: ValueCheck,
    /// The components of the declared tensors, in the order of declaration.
    slots: Slots,
}

impl Encode for Encoder {
    fn header_first(&self) -> bool {
        true
    }

    fn own_attributes(&self) -> &'static [&'static str] {
        if self.align.is_some() { &[SCHEMA_ATTRIBUTE] } else { &[] }
    }

    fn check_attributes(&self, attributes: &Attributes) -> Result<()> {
        check_values(attributes)?;
        Parts::read(attributes, &limits_of_schemas()).map(drop)
    }

    fn check_tensor(&self, tensor: &TensorSpec) -> Result<()> {
        check_tensor(tensor).map_err(|e| e.in_tensor(&tensor.name))
    }

    fn begin(&mut self, attributes: &Attributes, declared: &[TensorSpec]) -> Result<Bytes> {
        let duplicate = holdall_json::duplicate(declared.iter().map(|t| t.name.as_str()));
        if let Some(name) = duplicate {
            return Err(DECLARED.broken("two tensors have this name").in_tensor(name));
        }
        declared.iter().try_for_each(|tensor| self.check_tensor(tensor))?;
        let mut file = Plan::new(attributes, declared, self.align)?;
        let (header, slots, end) = file.header()?;
        self.slots = Slots::new(&DIALECT, slots, end);
        self.check_header(&header, attributes, declared, &file)?;
        Ok(header)
    }

    fn next_offset(&mut self, end: u64, tensor: &TensorSpec, component: usize) -> Result<u64> {
        self.slots.next_offset(end, tensor, component)
    }

    fn component_written(
        &mut self,
        tensor: &TensorSpec,
        component: usize,
        stored: Stored,
    ) -> Result<()> {
        self.slots.component_written(tensor, component, &stored)
    }

    fn finish(&mut self, end: u64) -> Result<Bytes> {
        self.slots.finish(end)
    }
}

impl Encoder {
    /// Decodes the header, to check that it describes what was declared and breaks no rule.
    fn check_header(
        &self,
        header: &[u8],
        attributes: &Attributes,
        declared: &[TensorSpec],
        plan: &Plan<'_>,
    ) -> Result<()> {
        let mut limits = Limits::default();
        (limits.tensors, limits.rank, limits.schema_nodes) = (u64::MAX, usize::MAX, u64::MAX);
        (limits.header_len, limits.attribute_values) = (MAX_HEADER_LEN, u64::MAX);
        let text = header.get(8..).debug_unwrap();
        let range = LEN_BYTES..header.len() as u64;
        // The reason for a difference is the schema, or values for which it has no position.
        let rule = match (plan.is_given, plan.values.is_empty()) {
            (true, _) => Some(&SCHEMA_FIT),
            (false, false) => Some(&ATTRIBUTE),
            (false, true) => None,
        };
        let blame = |e: Error| match rule {
            None => e,
            Some(rule) => e.with_rule(rule),
        };
        let index = decode_header(text, range, self.slots.end(), &limits).map_err(blame)?;
        let mut slots = self.slots.iter();
        for tensor in declared {
            let own = slots.by_ref().take(tensor.components.len());
            if let Some(what) = difference(tensor, own, &index, plan.is_given) {
                let message = format!("reading the file would return a different {what}");
                return Err(SCHEMA_FIT.broken(message).in_tensor(&tensor.name));
            }
        }
        if let Some(rule) = rule.filter(|_| !plan.has_values_of(&index)) {
            return Err(rule.broken("reading the file would return different plain values"));
        }
        let is_ours = |key: &str| key.starts_with("metatensor.");
        let same = attributes.iter().filter(|(key, _)| !is_ours(key)).all(|(key, value)| {
            index.attributes().get(key).map(Value::to_json) == Some(value.to_json())
        });
        // Values that cannot be checked are not written.
        let is_unchecked = |w: &&Warning| w.code == VALUES_UNCHECKED;
        let unchecked = index.warnings().iter().find(is_unchecked);
        if let (Some(warning), ValueCheck::Encoder) = (unchecked, self.values) {
            return Err(holdall_schema::rules::NOT_BUILT.broken(warning.message.clone()));
        }
        let known = [PATTERN_UNCHECKED, VALUES_UNCHECKED];
        let mut warnings = index.warnings().iter().filter(|w| !known.contains(&w.code));
        match same && index.len() == declared.len() && warnings.next().is_none() {
            true => Ok(()),
            false => {
                Err(SCHEMA_FIT
                    .broken("reading the file would return different attributes or tensors"))
            }
        }
    }
}

/// Returns what differs between the declared tensor and the index.
fn difference<'s>(
    tensor: &TensorSpec,
    slots: impl Iterator<Item = &'s Slot>,
    index: &Index,
    is_given: bool,
) -> Option<&'static str> {
    let Some(found) = index.get(&tensor.name) else { return Some("name") };
    if found.shape() != tensor.shape {
        return Some("shape");
    }
    if *found.layout() != tensor.layout || found.components().len() != tensor.components.len() {
        return Some("layout");
    }
    for (spec, slot) in tensor.components.iter().zip(slots) {
        let Some(c) = found.component(&spec.role) else { return Some("layout") };
        if (c.dtype, &c.logical_type) != (spec.dtype, &spec.logical_type) {
            return Some("dtype");
        }
        if c.stored.range() != slot.range && !c.stored.is_empty() {
            return Some("range");
        }
    }
    let has_kind = tensor.layout != Layout::Dense;
    let own = own_attributes(&tensor.attributes, has_kind);
    if own_attributes(found.attributes(), has_kind).to_json() != own.to_json() {
        return Some("attribute");
    }
    // If the caller gave a schema, the kinds of tensors must be those in it. Otherwise, the schema was inferred from
    // the kinds, and they need not be compared.
    let kind = |attributes: &Attributes| {
        let text = attributes.get(TENSOR_SCHEMA_ATTRIBUTE).and_then(Value::as_text)?;
        let kind = parse(text.as_bytes(), KIND_DEPTH).ok()?;
        if let Some(blob) = kind.get("TypeDef:Blob") {
            return Some(blob.clone());
        }
        // `$defs` that nothing refers to are not compared.
        let defs = kind.get("$defs").and_then(Json::as_object).cloned();
        Some(self_contained(kind, defs.as_ref()))
    };
    let is_other_kind =
        has_kind && is_given && kind(&tensor.attributes) != kind(found.attributes());
    is_other_kind.then_some("kind")
}
