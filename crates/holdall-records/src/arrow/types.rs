//! The Arrow types of columns.

use super::element::Element;
use super::meant::{self, is_map};
use crate::rules::ARROW;
use arrow_schema::{DataType, Field, FieldRef};
use holdall_core::error::Escape as _;
use holdall_core::{Error, Result};
use holdall_schema::rules::{OPEN_SHAPE, TOO_LARGE};
use holdall_schema::{IndexWidth, Kind, Len, Schema, TensorType, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

/// Largest number of columns, including those in structs and arrays: a schema of a few lines can describe more columns
/// than fit in memory.
const MAX_COLUMNS: usize = 1 << 16;

/// The columns of a batch under construction.
pub(super) struct Fields<'s> {
    schema: &'s Schema,
    fields: Vec<Field>,
    left: usize,
}

impl<'s> Fields<'s> {
    pub(super) fn new(schema: &'s Schema) -> Fields<'s> {
        Fields { schema, fields: Vec::new(), left: MAX_COLUMNS }
    }

    /// Adds a column of values of this type.
    pub(super) fn add(&mut self, ty: TypeId, name: &str, is_optional: bool) -> Result<()> {
        let field = self.field(ty, name, is_optional)?;
        self.fields.push(field);
        Ok(())
    }

    pub(super) fn finish(self) -> Arc<arrow_schema::Schema> {
        Arc::new(arrow_schema::Schema::new(self.fields))
    }

    /// Members of an optional struct are nullable too. The recursion is bounded by the depth of the schema.
    fn field(&mut self, ty: TypeId, name: &str, is_optional: bool) -> Result<Field> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            TOO_LARGE
                .broken(format!("records have more than {MAX_COLUMNS} columns"))
                .with_hint("write fewer members, or nest them less")
        })?;
        if let Some(field) = meant::field(self.schema.ty(ty), name, is_optional) {
            return Ok(field);
        }
        let of = match &self.schema.ty(ty).kind {
            Kind::Scalar(scalar) => {
                return Ok(Element::from_scalar(*scalar).field(name, is_optional));
            }
            Kind::Tensor(tensor) => return self.tensor(tensor, name, is_optional),
            Kind::Enum(e) => {
                let keys = match e.width {
                    IndexWidth::One => DataType::UInt8,
                    IndexWidth::Two => DataType::UInt16,
                    IndexWidth::Four => DataType::UInt32,
                };
                DataType::Dictionary(Box::new(keys), Box::new(DataType::Utf8))
            }
            Kind::Struct(fields) => {
                let members = fields.members.iter();
                let members =
                    members.map(|m| self.field(m.ty, &m.name, is_optional || m.presence.is_some()));
                DataType::Struct(members.collect::<Result<_>>()?)
            }
            Kind::Union(union) => {
                let key = &union.discriminator;
                if union.tag(key).is_some() {
                    let message = format!(
                        "a variant of a union has the name of its discriminator, `{}`",
                        key.escaped()
                    );
                    return Err(ARROW.broken(message));
                }
                let mut below = vec![Field::new(&**key, DataType::LargeUtf8, is_optional)];
                for variant in &union.variants {
                    below.push(self.field(variant.ty, &variant.key, true)?);
                }
                DataType::Struct(below.into())
            }
            Kind::Array(array) => {
                let items = Arc::new(self.field(array.items, ITEM, true)?);
                match array.len {
                    Len::Fixed(len) => DataType::FixedSizeList(items, count(len)?),
                    Len::Variable { .. } if is_map(self.schema.ty(ty)) => {
                        DataType::Map(Arc::new(meant::entries(&items)), false)
                    }
                    Len::Variable { .. } => DataType::LargeList(items),
                }
            }
            Kind::Bytes => DataType::LargeBinary,
            Kind::String | Kind::Record => DataType::LargeUtf8,
            other => {
                return Err(ARROW.broken(format!("Arrow has no `TypeDef:{}`", other.as_str())));
            }
        };
        Ok(Field::new(name, of, is_optional))
    }

    fn tensor(&self, tensor: &TensorType, name: &str, is_optional: bool) -> Result<Field> {
        let element = element(tensor)?;
        let dims = self.schema.dims(tensor)?;
        let item: FieldRef = Arc::new(element.field(ITEM, true));
        // The tensor is part of a record, whose size fits in memory.
        let list = DataType::FixedSizeList(item, count(dims.iter().product())?);
        let field = Field::new(name, list, is_optional);
        Ok(match element.own_type() {
            Some(_) => field.with_metadata(HashMap::from([
                (EXTENSION_NAME.to_owned(), FIXED_SHAPE.to_owned()),
                (EXTENSION_METADATA.to_owned(), format!("{{\"shape\": {dims:?}}}")),
            ])),
            None => field,
        })
    }
}

/// Keys in the metadata of columns with an Arrow extension type, and the name of the extension type of tensors of one
/// shape.
pub(super) const EXTENSION_NAME: &str = "ARROW:extension:name";
pub(super) const EXTENSION_METADATA: &str = "ARROW:extension:metadata";
pub(super) const FIXED_SHAPE: &str = "arrow.fixed_shape_tensor";
/// The name of the elements of lists.
pub(super) const ITEM: &str = "item";

/// Returns the type of a tensor's elements.
pub(super) fn element(tensor: &TensorType) -> Result<Element> {
    let any = || OPEN_SHAPE.broken("the dtype of the tensor is not known");
    tensor.dtype.map(Element::Of).ok_or_else(any)
}

fn count(len: u64) -> Result<i32> {
    let too_long =
        |_| -> Error { ARROW.broken(format!("a list of {len} elements is too long for Arrow")) };
    i32::try_from(len).map_err(too_long)
}
