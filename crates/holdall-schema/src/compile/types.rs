//! Compiles nodes with a kind, as parts of a record.

use super::read::{self, Keywords, SchemaPath};
use super::{Compiler, Found};
use crate::error::{Escape as _, Result};
use crate::kinds::{Array, Dim, IndexWidth, Kind, Len, Member, Scalar, Struct, Union, Variant};
use crate::kinds::{TensorType, TypeId};
use crate::meaning::{self, Meaning};
use crate::rules::{CYCLE, INVALID, ITEMS, KIND, KIND_PLACE, OPEN_SHAPE, STRUCT, UNION};
use holdall_collections::{sort, sort_by};
use serde_json::Value;
use std::sync::Arc;

impl<'v> Compiler<'v> {
    /// Returns the type of a node that has a kind, or whose `$ref` refers to one that has.
    pub(super) fn ty(
        &mut self,
        node: &'v Value,
        at: &SchemaPath<'_>,
        depth: usize,
    ) -> Result<TypeId> {
        let found = self.defs.resolve(node).map_err(|e| at.locate(e))?;
        let root = SchemaPath::root();
        let def = found.name.as_deref().map(|name| SchemaPath::def(&root, name));
        let at = def.as_ref().unwrap_or(at);
        let address = std::ptr::from_ref(found.node).addr();
        match self.known_types.get(&address) {
            Some(Found::Done(id)) => {
                let id = *id;
                let height = crate::extent::get(&self.types, id)?.height;
                self.check_depth(depth, height, at)?;
                return Ok(id);
            }
            Some(Found::Open | Found::Inside) => {
                return Err(at.broken(&CYCLE, "a kind contains itself"));
            }
            None => {}
        }
        self.check_depth(depth, 1, at)?;
        let Some(keywords) = found.node.as_object() else {
            return Err(at.broken(&KIND, "a boolean has no kind"));
        };
        let Some((name, value)) = read::kind(keywords, at)? else {
            return Err(at.broken(&KIND, "a node in a record has no kind"));
        };
        // Simple types without a `$ref` to them are used at most once more, and are cheap to compile again.
        let is_kept = found.name.is_some() || matches!(name, "Array" | "Struct" | "Union");
        if is_kept {
            self.known_types.insert(address, Found::Open);
        }
        let kind = self.kind(name, keywords, value, at, depth)?;
        let align = read::align(keywords, at)?;
        let meaning = Meaning::from_keywords(keywords, &kind, &self.types);
        let id = self.add_type(kind, align, at)?;
        meaning::set(&mut self.types, id, meaning);
        if is_kept {
            self.known_types.insert(address, Found::Done(id));
        }
        Ok(id)
    }

    fn kind(
        &mut self,
        name: &str,
        node: &'v Keywords,
        value: &'v Value,
        at: &SchemaPath<'_>,
        depth: usize,
    ) -> Result<Kind> {
        match name {
            "Struct" => self.struct_kind(node, value, at, depth),
            "Union" => self.union_kind(node, value, at, depth),
            "Array" => {
                let (items, len) = self.array(node, value, at, depth)?;
                Ok(Kind::Array(Array { items, len }))
            }
            "Enum" => {
                read::is_true(name, value, at)?;
                read::agrees(node, "type", "string", at)?;
                read::enum_values(node, at).map(Kind::Enum)
            }
            "String" | "Bytes" => {
                read::is_true(name, value, at)?;
                read::agrees(node, "type", "string", at)?;
                if name == "String" {
                    return Ok(Kind::String);
                }
                read::agrees(node, "contentEncoding", "base64", at)?;
                Ok(Kind::Bytes)
            }
            "Record" => {
                read::is_true(name, value, at)?;
                read::agrees(node, "type", "object", at)?;
                Ok(Kind::Record)
            }
            "Tensor" => {
                read::agrees(node, "type", "object", at)?;
                let tensor = read::tensor(value, at)?;
                let is_open = match (&tensor.dtype, &tensor.shape) {
                    (Some(_), Some(shape)) => shape.contains(&Dim::Any),
                    _ => true,
                };
                if is_open {
                    return Err(at.broken(
                        &OPEN_SHAPE,
                        "the dtype or shape of a tensor in a record is not known",
                    ));
                }
                self.take_symbols(&tensor);
                Ok(Kind::Tensor(tensor))
            }
            "Blob" => Err(at.broken(&KIND_PLACE, "a blob cannot be part of a record")),
            other => match Scalar::from_name(other) {
                Some(scalar) => scalar_kind(scalar, node, value, at),
                None => {
                    let message = format!("unknown kind `TypeDef:{}`", other.escaped());
                    Err(at.broken(&KIND, message))
                }
            },
        }
    }

    /// Compiles an array with a kind.
    pub(super) fn array(
        &mut self,
        node: &'v Keywords,
        value: &'v Value,
        at: &SchemaPath<'_>,
        depth: usize,
    ) -> Result<(TypeId, Len)> {
        read::is_true("Array", value, at)?;
        read::agrees(node, "type", "array", at)?;
        let len = read::len(node, at)?;
        let member_path = at.below("items");
        let Some(items) = node.get("items").filter(|i| self.has_kind(i)) else {
            return Err(at.broken(&ITEMS, "`items` has no kind"));
        };
        Ok((self.ty(items, &member_path, depth.saturating_add(1))?, len))
    }

    fn struct_kind(
        &mut self,
        node: &'v Keywords,
        value: &'v Value,
        at: &SchemaPath<'_>,
        depth: usize,
    ) -> Result<Kind> {
        read::agrees(node, "type", "object", at)?;
        let raw = read::members(node, value, at)?;
        let mut members = Vec::with_capacity(raw.len());
        let mut optional = 0u32;
        for member in raw {
            let member_path = at.member("properties", member.name);
            self.need_kind(member.schema, &member_path)?;
            let ty = self.ty(member.schema, &member_path, depth.saturating_add(1))?;
            let presence = (!member.is_required).then_some(optional);
            if presence.is_some() {
                optional = optional.saturating_add(1);
            }
            let default = self.defs.resolve(member.schema)?.default.map(|d| self.default(d));
            members.push(Member { name: member.name.into(), ty, offset: None, presence, default });
        }
        let sorted = sorted_by(&members, |m| &m.name);
        let next = next_of(&sorted);
        Ok(Kind::Struct(Struct { members, presence_len: optional.div_ceil(8), sorted, next }))
    }

    pub(super) fn default(&mut self, value: &'v Value) -> Arc<Value> {
        let address = std::ptr::from_ref(value).addr();
        Arc::clone(self.known_defaults.entry(address).or_insert_with(|| Arc::new(value.clone())))
    }

    fn union_kind(
        &mut self,
        node: &'v Keywords,
        value: &'v Value,
        at: &SchemaPath<'_>,
        depth: usize,
    ) -> Result<Kind> {
        read::agrees(node, "type", "object", at)?;
        let Some(discriminator) = value.get("discriminator").and_then(Value::as_str) else {
            return Err(at.broken(&UNION, "`TypeDef:Union` names no discriminator"));
        };
        let mapping = node.get("mapping").and_then(Value::as_object).filter(|m| !m.is_empty());
        let Some(mapping) = mapping else {
            return Err(at.broken(&UNION, "`mapping` is not an object with variants"));
        };
        let mut variants = Vec::with_capacity(mapping.len());
        for (key, schema) in mapping {
            let member_path = at.member("mapping", key);
            if !self.has_kind(schema) {
                return Err(member_path.broken(&UNION, "a variant is not a struct"));
            }
            let ty = self.ty(schema, &member_path, depth.saturating_add(1))?;
            match &crate::extent::get(&self.types, ty)?.kind {
                Kind::Struct(s) if s.index_of(discriminator).is_none() => {}
                Kind::Struct(_) => {
                    let message = format!(
                        "a variant has a member called `{}`, like the discriminator",
                        discriminator.escaped()
                    );
                    return Err(member_path.broken(&UNION, message));
                }
                _ => return Err(member_path.broken(&UNION, "a variant is not a struct")),
            }
            variants.push(Variant { key: key.as_str().into(), ty });
        }
        sort_by(&mut variants, |a, b| a.key.cmp(&b.key));
        let width = IndexWidth::for_count(variants.len());
        Ok(Kind::Union(Union { discriminator: discriminator.into(), variants, width, start: 0 }))
    }

    /// Collects the symbols of a shape.
    pub(super) fn take_symbols(&mut self, tensor: &TensorType) {
        for dim in tensor.shape.iter().flatten() {
            if let Dim::Symbol(name) = dim
                && !self.symbols.contains(name)
            {
                self.symbols.insert(Arc::clone(name));
            }
        }
    }

    /// Returns `true` if a node, or the target of its `$ref`, has a keyword that starts with `TypeDef:`.
    fn has_kind(&self, node: &'v Value) -> bool {
        let found = self.defs.resolve(node).ok().and_then(|r| r.node.as_object());
        // Invalid references are reported where the type is used.
        found.is_some_and(|n| n.keys().any(|k| k.starts_with("TypeDef:")) || n.contains_key("$ref"))
    }

    /// Checks that a member of a struct has a kind.
    pub(super) fn need_kind(&self, node: &'v Value, at: &SchemaPath<'_>) -> Result<()> {
        if !matches!(node, Value::Object(_) | Value::Bool(_)) {
            return Err(at.broken(&INVALID, "a schema is neither an object nor a boolean"));
        }
        let found = self.defs.resolve(node).map_err(|e| at.locate(e))?;
        let keywords = found.node.as_object();
        if keywords.is_some_and(|n| n.keys().any(|k| k.starts_with("TypeDef:"))) {
            return Ok(());
        }
        Err(at.broken(&STRUCT, "a member has no kind"))
    }
}

/// Returns the indices of items, sorted by name.
pub(super) fn sorted_by<T>(items: &[T], name: impl Fn(&T) -> &Arc<str>) -> Vec<u32> {
    let mut named: Vec<(&Arc<str>, u32)> = items.iter().map(name).zip(0u32..).collect();
    sort(&mut named);
    named.into_iter().map(|(_, index)| index).collect()
}

/// For each index, returns the index that follows it in `sorted`. The last one is followed by `u32::MAX`.
fn next_of(sorted: &[u32]) -> Vec<u32> {
    let mut next = vec![u32::MAX; sorted.len()];
    for pair in sorted.windows(2) {
        if let [index, after] = pair
            && let Some(slot) = usize::try_from(*index).ok().and_then(|p| next.get_mut(p))
        {
            *slot = *after;
        }
    }
    next
}

fn scalar_kind(
    scalar: Scalar,
    node: &Keywords,
    value: &Value,
    at: &SchemaPath<'_>,
) -> Result<Kind> {
    read::is_true(scalar.as_str(), value, at)?;
    read::agrees(node, "type", scalar.json_type(), at)?;
    match scalar {
        Scalar::Complex64 | Scalar::Complex128 => {
            read::agrees(node, "minItems", 2, at)?;
            read::agrees(node, "maxItems", 2, at)?;
            if let Some(items) = node.get("items").and_then(Value::as_object) {
                read::agrees(items, "type", "number", at)?;
            }
        }
        Scalar::Timestamp => read::agrees(node, "format", "date-time", at)?,
        _ => {}
    }
    Ok(Kind::Scalar(scalar))
}
