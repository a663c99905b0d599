//! Records of a dataset: the layout of their members, and checks of their bytes.

use crate::Answer;
use crate::json::{Object, integer, list};
use crate::view::{Held, get};
use holdall_core::layout::records::{Dataset, limits_of, schema_text};
use holdall_core::{Bytes, Error, Limits, Role, TensorInfo};
use holdall_json::{parse, write_string};
use holdall_schema::{Dim, Kind, Len, Schema, SchemaLimits, TypeId, normalize};
use std::collections::BTreeMap;

/// The records of a tensor, with limits for reading them.
struct Records {
    dataset: Dataset,
    has_heap: bool,
    limits: SchemaLimits,
}

impl Records {
    fn from_info(info: &TensorInfo, limits: &Limits) -> Result<Records, Error> {
        let of_schemas = limits.schema_limits();
        let json = parse(schema_text(info)?.as_bytes(), limits.depth).and_then(normalize)?;
        let dataset = Dataset::new(info, Schema::compile_record(&json, &of_schemas)?)?;
        // If the length is only known after decoding, the received records are counted.
        match info.component(&Role::Data).and_then(|c| c.decoded_len) {
            Some(len) => dataset.check_len(len)?,
            None if dataset.stride == 0 => dataset.check_len(0)?,
            None => {}
        }
        let has_heap = dataset.has_heap(info)?;
        let len = info.components().fold(0u64, |sum, c| {
            sum.saturating_add(c.decoded_len.unwrap_or_else(|| c.stored_len()))
        });
        Ok(Records { dataset, has_heap, limits: limits_of(limits, len) })
    }

    /// Calls a function for each of the held records, with the heap.
    fn each(
        &self,
        info: &TensorInfo,
        held: &Held,
        mut with: impl FnMut(&[u8], &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let get = get(info, held);
        let data = get(&Role::Data)?;
        let heap = match self.has_heap {
            true => get(&Role::BlobData)?,
            false => Bytes::new(),
        };
        let Dataset { size, stride, .. } = self.dataset;
        for (at, record) in data.chunks_exact(stride).enumerate() {
            with(record.get(..size).unwrap_or(record), &heap)
                .map_err(|e| e.within(format!("record {at}")))?;
        }
        Ok(())
    }
}

/// Checks all held records.
pub(crate) fn check(info: &TensorInfo, held: &Held, limits: &Limits) -> Result<(), Error> {
    let records = Records::from_info(info, limits)?;
    let Records { dataset: Dataset { schema, ty, .. }, limits, .. } = &records;
    records.each(info, held, |record, heap| schema.check_record(*ty, record, heap, limits))
}

/// Returns the held records as a JSON list.
pub(crate) fn lines(info: &TensorInfo, held: &Held, limits: &Limits) -> Result<Answer, Error> {
    let records = Records::from_info(info, limits)?;
    let Records { dataset: Dataset { schema, ty, .. }, limits, .. } = &records;
    let mut out = Vec::new();
    records.each(info, held, |record, heap| {
        let mut line = String::new();
        schema.record_text(*ty, record, heap, limits, &mut line)?;
        out.push(line);
        Ok(())
    })?;
    let mut text = String::new();
    list(&out, &mut text, |line, text| write_string(line, text));
    Ok(Answer::text(text))
}

/// Returns the layout of a record: its types by index, with the parts of a type before the type.
pub(crate) fn layout(info: &TensorInfo, limits: &Limits) -> Result<Answer, Error> {
    let Records { dataset, .. } = Records::from_info(info, limits)?;
    layout_of(&dataset.schema, dataset.ty, dataset.count).map(Answer::text)
}

/// Returns the layout for `count` records of a schema.
pub(crate) fn layout_of(schema: &Schema, ty: TypeId, count: u64) -> Result<String, Error> {
    let mut table = Table { schema, numbers: BTreeMap::new(), out: Vec::new() };
    let root = table.add(ty)?;
    Ok(Object::new()
        .number("count", count)
        .number("stride", schema.extent(ty)?.stride)
        .number("root", root)
        .with("types", |out| list(&table.out, out, |ty, out| out.push_str(ty)))
        .finish())
}

struct Table<'s> {
    schema: &'s Schema,
    numbers: BTreeMap<TypeId, u64>,
    out: Vec<String>,
}

impl Table<'_> {
    /// Returns the index of a type. The recursion is bounded by the depth limit of schemas.
    fn add(&mut self, id: TypeId) -> Result<u64, Error> {
        if let Some(number) = self.numbers.get(&id) {
            return Ok(*number);
        }
        let ty = self.schema.ty(id);
        let one = Object::new().text("kind", ty.kind.as_str());
        let one = match &ty.kind {
            Kind::Enum(e) => one.number("width", e.width.bytes()).with("values", |out| {
                list(e.values.iter(), out, |value, out| write_string(value, out));
            }),
            Kind::Array(array) => {
                let items = self.add(array.items)?;
                let count = match array.len {
                    Len::Fixed(count) => Some(count),
                    Len::Variable { .. } => None,
                };
                let stride = self.schema.extent(array.items)?.stride;
                one.number("items", items).number("stride", stride).maybe_number("count", count)
            }
            Kind::Struct(record) => {
                let mut members = Vec::new();
                for member in &record.members {
                    members.push((member, self.add(member.ty)?));
                }
                one.with("members", |out| {
                    list(members, out, |(member, ty), out| {
                        let member = Object::new()
                            .text("name", &member.name)
                            .number("type", ty)
                            .maybe_number("offset", member.offset)
                            .maybe_number("bit", member.presence.map(u64::from));
                        out.push_str(&member.finish());
                    });
                })
            }
            Kind::Union(union) => {
                let mut variants = Vec::new();
                for variant in &union.variants {
                    variants.push((&variant.key, self.add(variant.ty)?));
                }
                one.text("discriminator", &union.discriminator)
                    .number("width", union.width.bytes())
                    .number("start", union.start)
                    .with("variants", |out| {
                        list(variants, out, |(key, ty), out| {
                            let variant = Object::new().text("key", key).number("type", ty);
                            out.push_str(&variant.finish());
                        });
                    })
            }
            Kind::Tensor(tensor) => one
                .maybe_text("dtype", tensor.dtype.map(|dtype| dtype.as_str()))
                .maybe_number("size", ty.size)
                .with("shape", |out| {
                    list(tensor.shape.iter().flatten(), out, |dim, out| match dim {
                        Dim::Known(n) => integer(*n, out),
                        _ => out.push_str("null"),
                    });
                }),
            // A scalar or an entry has no further fields.
            _ => one,
        };
        let number = self.out.len() as u64;
        self.out.push(one.finish());
        self.numbers.insert(id, number);
        Ok(number)
    }
}
