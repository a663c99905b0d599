//! Generates dtypes of NumPy, and comments on how all other members are read.

use super::name::Names;
use super::{bytes, describe, is_whole, join, list, no_mirror};
use crate::dtype::TensorDType;
use crate::error::Result;
use crate::kinds::{Array, Kind, Len, Scalar, Struct, TypeId};
use crate::path::Path;
use crate::schema::Schema;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Largest number of members to list in comments; through `$ref`, a schema can have many more.
const LISTED: usize = 1000;

/// See [`super::code`].
pub(super) fn code(schema: &Schema, ty: TypeId, name: &str) -> Result<String> {
    let mut all =
        Code { schema, types: Names::default(), known: BTreeMap::new(), out: String::new() };
    let kind = &schema.ty(ty).kind;
    let is_struct = matches!(kind, Kind::Struct(_));
    let inner = if is_struct { name.to_owned() } else { all.types.alias(name) };
    let whole = all.form(ty, &inner)?.and_then(|form| all.whole(&form));
    let Some(whole) = whole else { return Err(no_mirror(kind, "NumPy")) };
    if !is_struct {
        let _ = write!(all.out, "\n{name} = np.dtype({whole})\n");
    }
    let (list, enums) = members(schema, ty);
    let stride = schema.extent(ty)?.stride;
    let mut text = format!(
        "\"\"\"The NumPy dtype of records of {}. Made by `holdall schema code`.\"\"\"\n\n",
        bytes(stride)
    );
    if all.out.contains("ml_dtypes.") {
        text.push_str("import ml_dtypes\n");
    }
    let _ = write!(text, "import numpy as np\n{}", all.out);
    let _ = write!(
        text,
        "\n# How to read each member, with `records = holdall.open(path)[name].records()`:\n{list}"
    );
    let enums: String =
        enums.iter().map(|(path, values)| format!("    {path}: {values},\n")).collect();
    if !enums.is_empty() {
        let own = all.types.take(format!("{name}Enums"));
        let _ = write!(
            text,
            "\n#: The values of enums by path; a stored number is the index of a value.\n{own} = {{\n{enums}}}\n"
        );
    }
    Ok(text)
}

/// The NumPy layout of the values of a type.
#[derive(Debug, Clone)]
struct NumpyLayout {
    element: Element,
    size: u64,
    shape: Vec<u64>,
    strides: Vec<u64>,
}

#[derive(Debug, Clone)]
enum Element {
    /// The Python expression for a dtype.
    Text(&'static str),
    /// A dtype with fields, and whether there are any.
    Struct(TypeId, bool),
}

/// A dtype with fields, and its code until it has been written.
struct Made {
    name: String,
    text: Option<String>,
    has_fields: bool,
}

struct Code<'s> {
    schema: &'s Schema,
    types: Names,
    known: BTreeMap<TypeId, Made>,
    out: String,
}

impl Code<'_> {
    /// Returns the layout of the values of a type. A struct is called `name`.
    fn form(&mut self, ty: TypeId, name: &str) -> Result<Option<NumpyLayout>> {
        let schema = self.schema;
        let size = schema.extent(ty)?.size;
        let plain = |text| NumpyLayout {
            element: Element::Text(text),
            size,
            shape: vec![],
            strides: vec![],
        };
        Ok(match &schema.ty(ty).kind {
            Kind::Scalar(scalar) => Some(plain(scalar_text(*scalar))),
            Kind::Enum(e) => Some(plain(match e.width.bytes() {
                1 => "\"u1\"",
                2 => "\"<u2\"",
                _ => "\"<u4\"",
            })),
            Kind::Tensor(tensor) => match tensor.dtype.filter(|dtype| is_whole(*dtype)) {
                Some(dtype) => {
                    let (shape, size) = (schema.dims(tensor)?, dtype.bits() / 8);
                    let strides = contiguous(&shape, size);
                    Some(NumpyLayout {
                        element: Element::Text(element_text(dtype)),
                        size,
                        shape,
                        strides,
                    })
                }
                None => None,
            },
            Kind::Array(array) => match array.len {
                Len::Fixed(len) => {
                    let stride = schema.extent(array.items)?.stride;
                    self.form(array.items, name)?.map(|mut form| {
                        form.shape.insert(0, len);
                        form.strides.insert(0, stride);
                        form
                    })
                }
                Len::Variable { .. } => None,
            },
            Kind::Struct(fields) => {
                if !self.known.contains_key(&ty) {
                    let made = self.structure(ty, fields, name)?;
                    self.known.insert(ty, made);
                }
                let has_fields = self.known.get(&ty).is_some_and(|made| made.has_fields);
                self.write(ty);
                let element = Element::Struct(ty, has_fields);
                Some(NumpyLayout { element, size, shape: vec![], strides: vec![] })
            }
            Kind::Union(_) | Kind::String | Kind::Bytes | Kind::Record => None,
        })
    }

    fn structure(&mut self, ty: TypeId, fields: &Struct, name: &str) -> Result<Made> {
        let name = self.types.take(name.to_owned());
        let (mut names, mut formats, mut offsets) = (String::new(), String::new(), Vec::new());
        for member in fields.members.iter().filter(|m| m.presence.is_none()) {
            let is_struct = matches!(self.schema.ty(member.ty).kind, Kind::Struct(_));
            let inner = format!("{name}{}", Names::type_name(&member.name));
            let Some(form) = self.form(member.ty, &inner)? else { continue };
            if is_struct && matches!(form.element, Element::Struct(_, false)) {
                continue;
            }
            let Some(whole) = self.whole(&form) else { continue };
            let _ = write!(names, "{}, ", literal(&member.name));
            let _ = writeln!(formats, "            {whole},");
            offsets.push(member.offset.unwrap_or(0));
        }
        let size = self.schema.extent(ty)?.size;
        let formats = match formats.is_empty() {
            true => "[]".to_owned(),
            false => format!("[\n{formats}        ]"),
        };
        let text = format!(
            "\n{name} = np.dtype(\n    {{\n        \"names\": [{}],\n        \"formats\": {formats},\n        \
             \"offsets\": [{}],\n        \"itemsize\": {size},\n    }}\n)\n",
            names.trim_end_matches(", "),
            list(&offsets),
        );
        Ok(Made { name, text: Some(text), has_fields: !offsets.is_empty() })
    }

    /// Writes a dtype once, when another one uses it. The dtypes that it uses have been written before.
    fn write(&mut self, ty: TypeId) {
        if let Some(text) = self.known.get_mut(&ty).and_then(|made| made.text.take()) {
            self.out.push_str(&text);
        }
    }

    fn text_of(&self, form: &NumpyLayout) -> String {
        match form.element {
            Element::Text(text) => text.to_owned(),
            Element::Struct(ty, _) => {
                self.known.get(&ty).map(|made| made.name.clone()).unwrap_or_default()
            }
        }
    }

    /// Returns the code of a layout as one dtype, or `None` if there are bytes between its elements.
    fn whole(&self, form: &NumpyLayout) -> Option<String> {
        let text = self.text_of(form);
        if form.shape.is_empty() {
            return Some(text);
        }
        if !form.shape.contains(&0) && form.strides != contiguous(&form.shape, form.size) {
            return None;
        }
        let comma = if form.shape.len() == 1 { "," } else { "" };
        Some(format!("({text}, ({}{comma}))", list(&form.shape)))
    }
}

fn contiguous(shape: &[u64], size: u64) -> Vec<u64> {
    let mut width = size;
    let mut strides: Vec<u64> = shape
        .iter()
        .rev()
        .map(|len| {
            let stride = width;
            width = width.saturating_mul(*len);
            stride
        })
        .collect();
    strides.reverse();
    strides
}

/// Returns comments on how each member is read, and the values of enums by path.
fn members(schema: &Schema, root: TypeId) -> (String, Vec<(String, String)>) {
    let (mut text, mut enums) = (String::new(), Vec::new());
    let mut ahead = vec![(Path::root(), root, false)];
    let mut left = LISTED;
    while let Some((path, ty, maybe)) = ahead.pop() {
        let kind = &schema.ty(ty).kind;
        match kind {
            Kind::Struct(fields) => {
                for m in fields.members.iter().rev() {
                    ahead.push((join(&path, &m.name), m.ty, maybe || m.presence.is_some()));
                }
                continue;
            }
            Kind::Union(union) => {
                let variants = union.variants.iter().rev();
                ahead.extend(variants.map(|v| (join(&path, &v.key), v.ty, true)));
                continue;
            }
            Kind::Enum(e) => {
                let values: Vec<String> = e.values.iter().map(|v| literal(v)).collect();
                let comma = if values.len() == 1 { "," } else { "" };
                enums.push((literal(&path.to_string()), format!("({}{comma})", values.join(", "))));
            }
            _ => {}
        }
        left = left.saturating_sub(1);
        if left == 0 {
            text.push_str("#   … and more: `records.columns` lists all.\n");
            break;
        }
        let path_literal = literal(&path.to_string());
        let call = match kind {
            Kind::String | Kind::Enum(_) => "texts",
            Kind::Array(array) if is_ragged(schema, array) => "ragged",
            Kind::Bytes | Kind::Record => "values",
            _ if is_block(schema, ty) => "column",
            _ => "values",
        };
        let absent = if maybe { ", may be absent" } else { "" };
        let _ = writeln!(text, "#   records.{call}({path_literal}): {}{absent}", describe(kind));
    }
    (text, enums)
}

/// Returns `true` if an array is of variable length and its elements are numbers.
fn is_ragged(schema: &Schema, array: &Array) -> bool {
    matches!(array.len, Len::Variable { .. }) && is_block(schema, array.items)
}

/// Returns `true` if values are numbers of one shape.
fn is_block(schema: &Schema, ty: TypeId) -> bool {
    match &schema.ty(ty).kind {
        Kind::Scalar(_) | Kind::Enum(_) => true,
        Kind::Tensor(tensor) => tensor.dtype.is_some_and(is_whole),
        Kind::Array(array) => matches!(array.len, Len::Fixed(_)) && is_block(schema, array.items),
        _ => false,
    }
}

/// Returns a text as a Python string. The escapes of JSON are valid in Python.
fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn scalar_text(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Int8 => "\"i1\"",
        Scalar::Int16 => "\"<i2\"",
        Scalar::Int32 => "\"<i4\"",
        Scalar::Int64 => "\"<i8\"",
        Scalar::Uint8 => "\"u1\"",
        Scalar::Uint16 => "\"<u2\"",
        Scalar::Uint32 => "\"<u4\"",
        Scalar::Uint64 => "\"<u8\"",
        Scalar::Float16 => "\"<f2\"",
        Scalar::Float32 => "\"<f4\"",
        Scalar::Float64 => "\"<f8\"",
        Scalar::BFloat16 => "ml_dtypes.bfloat16",
        Scalar::Float8E4M3 => "ml_dtypes.float8_e4m3fn",
        Scalar::Float8E5M2 => "ml_dtypes.float8_e5m2",
        Scalar::Complex64 => "\"<c8\"",
        Scalar::Complex128 => "\"<c16\"",
        Scalar::Boolean => "\"?\"",
        Scalar::Timestamp => "\"<M8[ns]\"",
    }
}

fn element_text(dtype: TensorDType) -> &'static str {
    match dtype {
        TensorDType::Bool => "\"?\"",
        TensorDType::U8 | TensorDType::F4 | TensorDType::F6_E2M3 | TensorDType::F6_E3M2 => "\"u1\"",
        TensorDType::I8 => "\"i1\"",
        TensorDType::F8_E5M2 => "ml_dtypes.float8_e5m2",
        TensorDType::F8_E4M3 => "ml_dtypes.float8_e4m3fn",
        TensorDType::F8_E8M0 => "ml_dtypes.float8_e8m0fnu",
        TensorDType::F8_E4M3Fnuz => "ml_dtypes.float8_e4m3fnuz",
        TensorDType::F8_E5M2Fnuz => "ml_dtypes.float8_e5m2fnuz",
        TensorDType::I16 => "\"<i2\"",
        TensorDType::U16 => "\"<u2\"",
        TensorDType::F16 => "\"<f2\"",
        TensorDType::Bf16 => "ml_dtypes.bfloat16",
        TensorDType::I32 => "\"<i4\"",
        TensorDType::U32 => "\"<u4\"",
        TensorDType::F32 => "\"<f4\"",
        TensorDType::C64 => "\"<c8\"",
        TensorDType::F64 => "\"<f8\"",
        TensorDType::I64 => "\"<i8\"",
        TensorDType::U64 => "\"<u8\"",
    }
}
