//! Writes datasets as structured arrays.

use super::array::{DESCR, SHAPE};
use super::element::stored_as;
use holdall_core::encode::{ComponentSpec, TensorSpec};
use holdall_core::error::{Error, Remedy, Result, Rule};
use holdall_core::limits::Limits;
use holdall_core::model::{Attributes, DType, Layout, Value, element_count};
use holdall_core::wire::npy::{self, DESCR_KEYWORD, Element, Fields};
use holdall_json::parse;
use holdall_schema::{
    Dim, IndexWidth, Kind, Len, Scalar, Schema, TENSOR_SCHEMA_ATTRIBUTE, TypeId, normalize,
};
use serde_json::Value as Json;
use std::fmt::Write as _;

/// A structured type, the shape of the array, and the attributes that neither of these stores.
pub(super) struct Structured {
    /// The type as a NumPy header spells it.
    #[cfg_attr(not(feature = "numpy"), allow(dead_code))]
    pub(super) descr: String,
    pub(super) fields: Fields,
    pub(super) shape: Vec<u64>,
    /// The attributes that the header of the array cannot store, except the schema.
    other_attributes: Attributes,
    /// The record's schema as given.
    schema_text: String,
    /// The schema as reading the file would return it.
    canonical_schema: String,
}

impl Structured {
    /// Returns all attributes that have to be stored in addition. `derived_schema` is the schema that reading derives
    /// from the fields.
    pub(super) fn extra_attributes(&self, derived_schema: &str) -> Attributes {
        let mut attributes = self.other_attributes.clone();
        // A schema that reading derives from the fields need not be stored.
        if derived_schema != self.canonical_schema {
            attributes.push(TENSOR_SCHEMA_ATTRIBUTE, Value::Text(self.schema_text.clone()));
        }
        attributes
    }
}

/// Returns the NumPy type that an attribute of the tensor names, and the shape in elements of this type, if it fits the
/// tensor's dtype and shape.
pub(super) fn type_from_attribute(
    tensor: &TensorSpec,
    data: &ComponentSpec,
) -> Option<(Element, Vec<u64>)> {
    let text = tensor.attributes.get(DESCR)?.as_text()?;
    let element = npy::any_element(text).ok()?;
    let fits = element.descr.as_deref() == Some(text)
        && (element.dtype, &element.logical_type) == (data.dtype, &data.logical_type);
    let mut shape = tensor.shape.clone();
    let last = element.inner.and_then(|_| shape.pop());
    (fits && last == element.inner).then_some((element, shape))
}

/// Returns the NumPy type of a tensor's elements, and the shape of the array, if a dtype alone does not say enough: a
/// structured type for a dataset, and the type that an attribute names for times, texts and opaque bytes.
///
/// # Errors
/// Returns `npy/no-such-type` for datasets whose records cannot be described by a NumPy type.
pub fn npy_type(tensor: &TensorSpec) -> Result<Option<(String, Vec<u64>)>> {
    let [data] = tensor.components.as_slice() else { return Ok(None) };
    if tensor.layout == Layout::Records {
        let (layout, declared) = (&npy::NO_DESCR, &npy::NO_DESCR);
        let element = structured(tensor, data, &Refusal { format: "NumPy", layout, declared })?;
        return Ok(Some((element.descr, element.shape)));
    }
    let element = type_from_attribute(tensor, data);
    Ok(element.and_then(|(element, shape)| Some((element.descr?, shape))))
}

/// The errors of a format for datasets that cannot be structured arrays.
pub(super) struct Refusal {
    /// The name of the format.
    pub(super) format: &'static str,
    /// The rule about layouts.
    pub(super) layout: &'static Rule,
    /// The rule about declared tensors.
    pub(super) declared: &'static Rule,
}

impl Refusal {
    /// Returns the error for records that cannot be stored because of `what`.
    #[cold]
    pub(super) fn error(&self, what: &str) -> Error {
        let message = format!("{} cannot store these records: {what}", self.format);
        self.layout.broken(message).with_remedy(Remedy::LeaveOut)
    }
}

/// Returns the structured array for a dataset whose records are `data`.
///
/// # Errors
/// Returns the errors of `refusal`: for records with entries or members that may be absent, and for records that are
/// not structs.
pub(super) fn structured(
    tensor: &TensorSpec,
    data: &ComponentSpec,
    refusal: &Refusal,
) -> Result<Structured> {
    let refused = |what: &str| refusal.error(what);
    let mut other_attributes = tensor.attributes.clone();
    let Some(Value::Text(schema_text)) = other_attributes.remove(TENSOR_SCHEMA_ATTRIBUTE) else {
        return Err(refused("the dataset has no schema"));
    };
    let limits = Limits::default();
    let compiled = parse(schema_text.as_bytes(), limits.depth).and_then(|json| {
        let canonical_schema = json.to_string();
        let json = normalize(json)?;
        let schema = Schema::compile_record(&json, &limits.schema_limits())?;
        Ok((canonical_schema, json, schema))
    });
    let (canonical_schema, json, schema) =
        compiled.map_err(|e| refused("its schema cannot be used").because(e))?;
    let ty = schema.record().ok_or_else(|| refused("its schema is not that of a record"))?;
    let stride = schema.extent(ty)?.stride;
    let count = element_count(&tensor.shape).unwrap_or(u64::MAX);
    if count.checked_mul(stride) != Some(data.decoded_len) {
        let message =
            format!("expected {count} records of {stride} bytes, found {} bytes", data.decoded_len);
        return Err(refusal.declared.broken(message));
    }
    let Kind::Struct(_) = schema.ty(ty).kind else {
        return Err(refused("its records are not structs"));
    };
    let mut descr = String::new();
    let mut shape = Vec::new();
    Writer { schema: &schema, refusal }.write(ty, Some(&json), &mut shape, &mut descr)?;
    let header = npy::read_any(&npy::header_of(&descr, false, &tensor.shape)?)?;
    let fields = header.fields.ok_or_else(|| refused("the records have no fields"))?;
    let mut shape = tensor.shape.clone();
    let dims = other_attributes
        .get(SHAPE)
        .and_then(dims)
        .filter(|dims| element_count(dims) == Some(count));
    if let Some(dims) = dims {
        other_attributes.remove(SHAPE);
        shape = dims;
    }
    Ok(Structured { descr, fields, shape, other_attributes, schema_text, canonical_schema })
}

fn dims(value: &Value) -> Option<Vec<u64>> {
    let Value::Array(items) = value else { return None };
    items.iter().map(|n| n.as_integer().and_then(|n| u64::try_from(n).ok())).collect()
}

struct Writer<'s> {
    schema: &'s Schema,
    refusal: &'s Refusal,
}

impl Writer<'_> {
    /// Adds the name of a type to `out`, and its dimensions to `shape`. `json` is its schema, if available.
    fn write(
        &self,
        ty: TypeId,
        json: Option<&Json>,
        shape: &mut Vec<u64>,
        out: &mut String,
    ) -> Result<()> {
        let descr_text = json.and_then(|json| json.get(DESCR_KEYWORD)).and_then(Json::as_str);
        match &self.schema.ty(ty).kind {
            Kind::Scalar(scalar) => {
                let descr = scalar_descr(*scalar);
                let is_time = |descr_text: &&str| {
                    *scalar == Scalar::Int64 && fits(descr_text, DType::I64, None)
                };
                let _ = write!(out, "'{}'", descr_text.filter(is_time).unwrap_or(descr));
            }
            Kind::Enum(values) => out.push_str(match values.width {
                IndexWidth::One => "'|u1'",
                IndexWidth::Two => "'<u2'",
                IndexWidth::Four => "'<u4'",
            }),
            Kind::Array(array) => {
                let Len::Fixed(count) = array.len else {
                    return Err(self.refusal.error("a member is an array of variable length"));
                };
                let dtype = match &self.schema.ty(array.items).kind {
                    Kind::Scalar(Scalar::Uint8) => Some(DType::U8),
                    Kind::Scalar(Scalar::Uint32) => Some(DType::U32),
                    _ => None,
                };
                let is_text = |descr_text: &&str| {
                    dtype.is_some_and(|dtype| fits(descr_text, dtype, Some(count)))
                };
                if let Some(descr_text) = descr_text.filter(is_text) {
                    let _ = write!(out, "'{descr_text}'");
                    return Ok(());
                }
                let extent = self.schema.extent(array.items)?;
                if extent.size != extent.stride {
                    return Err(self
                        .refusal
                        .error("the elements of an array have padding between them"));
                }
                shape.push(count);
                self.write(array.items, json.and_then(|json| json.get("items")), shape, out)?;
            }
            Kind::Tensor(_) => self.tensor(ty, shape, out)?,
            Kind::Struct(_) => self.fields(ty, json, out)?,
            other => {
                return Err(self
                    .refusal
                    .error(&format!("a member is of the kind {}", other.as_str())));
            }
        }
        Ok(())
    }

    fn tensor(&self, ty: TypeId, shape: &mut Vec<u64>, out: &mut String) -> Result<()> {
        let size = self.schema.extent(ty)?.size;
        let (dtype, logical, dims) = match &self.schema.ty(ty).kind {
            Kind::Tensor(tensor) => {
                let (dtype, logical) = tensor.dtype.map(stored_as).unwrap_or((DType::U8, None));
                let known = |dim: &Dim| match dim {
                    Dim::Known(n) => Some(*n),
                    _ => None,
                };
                let dims: Option<Vec<u64>> = tensor.shape.iter().flatten().map(known).collect();
                (dtype, logical, dims.unwrap_or_default())
            }
            _ => (DType::U8, None, Vec::new()),
        };
        let opaque = match (dtype, &logical) {
            (DType::Bf16, None) => Some(2),
            (_, Some(logical_type)) => logical_type.bits().filter(|bits| *bits == 8).map(|_| 1),
            _ => None,
        };
        match (npy::descr(dtype, logical.as_ref()), opaque) {
            (Some(descr), _) => {
                let _ = write!(out, "'{descr}'");
                shape.extend(dims);
            }
            (None, Some(width)) => {
                let _ = write!(out, "'|V{width}'");
                shape.extend(dims);
            }
            // Elements of less than a byte.
            (None, None) => {
                let _ = write!(out, "'|V{size}'");
            }
        }
        Ok(())
    }

    fn fields(&self, ty: TypeId, json: Option<&Json>, out: &mut String) -> Result<()> {
        let size = self.schema.extent(ty)?.size;
        let Kind::Struct(members) = &self.schema.ty(ty).kind else { return Ok(()) };
        if members.presence_len > 0 {
            return Err(self.refusal.error("a member may be absent"));
        }
        let properties = json.and_then(|json| json.get("properties"));
        let mut end = 0u64;
        out.push('[');
        let gap = |from: u64, to: u64, out: &mut String| match to.saturating_sub(from) {
            0 => {}
            len => {
                let _ = write!(out, "('', '|V{len}'), ");
            }
        };
        for member in &members.members {
            if member.name.is_empty() {
                return Err(self.refusal.error("the name of a member is empty"));
            }
            let json = properties.and_then(|all| all.get(&*member.name));
            let at = member.offset.unwrap_or(0);
            gap(end, at, out);
            end = at.saturating_add(self.schema.extent(member.ty)?.size);
            out.push('(');
            match json.and_then(|json| json.get("title")).and_then(Json::as_str) {
                None => write_literal(&member.name, out),
                Some(title) => {
                    out.push('(');
                    write_literal(title, out);
                    out.push_str(", ");
                    write_literal(&member.name, out);
                    out.push(')');
                }
            }
            out.push_str(", ");
            let mut shape = Vec::new();
            self.write(member.ty, json, &mut shape, out)?;
            if !shape.is_empty() {
                let _ = write!(out, ", {}", npy::tuple(&shape));
            }
            out.push_str("), ");
        }
        gap(end, size, out);
        if out.ends_with(", ") {
            out.truncate(out.len().saturating_sub(2));
        }
        out.push(']');
        Ok(())
    }
}

/// Returns `true` if `descr_text` names the NumPy type whose elements are single numbers of this dtype, or arrays of
/// `inner` of them.
fn fits(descr_text: &str, dtype: DType, inner: Option<u64>) -> bool {
    let element = npy::any_element(descr_text).ok();
    element.is_some_and(|element| {
        element.descr.as_deref() == Some(descr_text)
            && (element.dtype, element.inner) == (dtype, inner)
    })
}

fn scalar_descr(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Int8 => "|i1",
        Scalar::Int16 => "<i2",
        Scalar::Int32 => "<i4",
        Scalar::Int64 => "<i8",
        Scalar::Uint8 => "|u1",
        Scalar::Uint16 => "<u2",
        Scalar::Uint32 => "<u4",
        Scalar::Uint64 => "<u8",
        Scalar::Float16 => "<f2",
        Scalar::Float32 => "<f4",
        Scalar::Float64 => "<f8",
        Scalar::BFloat16 => "|V2",
        Scalar::Float8E4M3 | Scalar::Float8E5M2 => "|V1",
        Scalar::Complex64 => "<c8",
        Scalar::Complex128 => "<c16",
        Scalar::Boolean => "|b1",
        Scalar::Timestamp => "<M8[ns]",
    }
}

/// Writes a text as a Python literal, in ASCII.
fn write_literal(text: &str, out: &mut String) {
    out.push('\'');
    for c in text.chars() {
        match c {
            '\'' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            c => {
                let _ = match u32::from(c) {
                    n @ 0..=0xff => write!(out, "\\x{n:02x}"),
                    n @ 0x100..=0xffff => write!(out, "\\u{n:04x}"),
                    n => write!(out, "\\U{n:08x}"),
                };
            }
        }
    }
    out.push('\'');
}
