//! Records of a dataset: where their members lie, and that their bytes are what they should be.

use crate::Answer;
use crate::check::{HEAP, KIND, SIZE, count, kind};
use crate::json::{Object, integer, list};
use crate::view::{Held, get};
use holdall_core::{Bytes, Error, Limits, Role, TensorInfo};
use holdall_json::{parse, write_string};
use holdall_schema::{Dim, Kind, Len, Schema, SchemaLimits, TypeId, normal};
use std::collections::BTreeMap;

/// Bytes that the entries of a record may stand for, however little the file has.
const SMALL: u64 = 1 << 20;

/// What the records of a tensor are.
struct Dataset {
    schema: Schema,
    ty: TypeId,
    /// Bytes of a record, and from one to the next.
    size: usize,
    stride: usize,
    count: u64,
    limits: SchemaLimits,
}

impl Dataset {
    fn of(info: &TensorInfo, limits: &Limits) -> Result<Dataset, Error> {
        let of_schemas = limits.of_schemas();
        let json = parse(kind(info)?.as_bytes(), limits.depth).and_then(normal)?;
        let schema = Schema::compile_record(&json, &of_schemas)?;
        let Some(ty) = schema.record() else {
            return Err(KIND.broken("the schema is not that of a record"));
        };
        let extent = schema.extent(ty)?;
        let (Ok(size), Ok(stride)) = (usize::try_from(extent.size), usize::try_from(extent.stride))
        else {
            let message = format!("records of {} bytes do not fit memory", extent.size);
            return Err(SIZE.broken(message));
        };
        let count = count(info)?;
        let data = info.component(&Role::Data);
        let len = data.as_ref().and_then(|c| c.decoded_len);
        if stride == 0 || len.is_some_and(|len| count.checked_mul(extent.stride) != Some(len)) {
            let len = len.unwrap_or_default();
            let message = format!("{count} records of {stride} bytes, the component has {len}");
            return Err(SIZE.broken(message).in_component(Role::Data));
        }
        match (schema.ty(ty).heap_align, info.component(&Role::BlobData)) {
            (Some(_), None) => {
                return Err(HEAP.broken("the records have entries, and there is no `blob_data`"));
            }
            (None, Some(_)) => {
                return Err(HEAP.broken("the records have no entries, and there is a `blob_data`"));
            }
            _ => {}
        }
        // Entries that share bytes may stand for far more than there is.
        let most = info.components().fold(0u64, |sum, c| {
            sum.saturating_add(c.decoded_len.unwrap_or_else(|| c.stored_len()))
        });
        let most = most.saturating_mul(limits.expansion).max(SMALL);
        let limits = of_schemas.clone().with_decoded_len(of_schemas.decoded_len.min(most));
        Ok(Dataset { schema, ty, size, stride, count, limits })
    }

    /// Does something with each of the held records, and with the heap.
    fn each(
        &self,
        info: &TensorInfo,
        held: &Held,
        mut with: impl FnMut(&[u8], &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let get = get(info, held);
        let data = get(&Role::Data)?;
        let heap = match self.schema.ty(self.ty).heap_align {
            Some(_) => get(&Role::BlobData)?,
            None => Bytes::new(),
        };
        for (at, record) in data.chunks_exact(self.stride).enumerate() {
            with(record.get(..self.size).unwrap_or(record), &heap)
                .map_err(|e| e.within(format!("record {at}")))?;
        }
        Ok(())
    }
}

/// Checks all held records.
pub(crate) fn check(info: &TensorInfo, held: &Held, limits: &Limits) -> Result<(), Error> {
    let dataset = Dataset::of(info, limits)?;
    let Dataset { schema, ty, limits, .. } = &dataset;
    dataset.each(info, held, |record, heap| schema.check_record(*ty, record, heap, limits))
}

/// The held records as JSON, in a list.
pub(crate) fn lines(info: &TensorInfo, held: &Held, limits: &Limits) -> Result<Answer, Error> {
    let dataset = Dataset::of(info, limits)?;
    let Dataset { schema, ty, limits, .. } = &dataset;
    let mut out = Vec::new();
    dataset.each(info, held, |record, heap| {
        let mut line = String::new();
        schema.record_text(*ty, record, heap, limits, &mut line)?;
        out.push(line);
        Ok(())
    })?;
    let mut text = String::new();
    list(&out, &mut text, |line, text| write_string(line, text));
    Ok(Answer::text(text))
}

/// Where everything in a record lies: its types, each by its number, with those that it is made of before it.
pub(crate) fn layout(info: &TensorInfo, limits: &Limits) -> Result<Answer, Error> {
    let dataset = Dataset::of(info, limits)?;
    let mut table = Table { schema: &dataset.schema, numbers: BTreeMap::new(), out: Vec::new() };
    let root = table.add(dataset.ty)?;
    let text = Object::new()
        .number("count", dataset.count)
        .number("stride", dataset.stride as u64)
        .number("root", root)
        .with("types", |out| list(&table.out, out, |ty, out| out.push_str(ty)))
        .finish();
    Ok(Answer::text(text))
}

struct Table<'s> {
    schema: &'s Schema,
    numbers: BTreeMap<TypeId, u64>,
    out: Vec<String>,
}

impl Table<'_> {
    /// The number of a type. Schemas are no deeper than their limit.
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
            Kind::Struct(of) => {
                let mut members = Vec::new();
                for member in &of.members {
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
            Kind::Union(of) => {
                let mut variants = Vec::new();
                for variant in &of.variants {
                    variants.push((&variant.key, self.add(variant.ty)?));
                }
                one.text("discriminator", &of.discriminator)
                    .number("width", of.width.bytes())
                    .number("start", of.start)
                    .with("variants", |out| {
                        list(variants, out, |(key, ty), out| {
                            let variant = Object::new().text("key", key).number("type", ty);
                            out.push_str(&variant.finish());
                        });
                    })
            }
            Kind::Tensor(of) => one
                .maybe_text("dtype", of.dtype.map(|dtype| dtype.as_str()))
                .maybe_number("size", ty.size)
                .with("shape", |out| {
                    list(of.shape.iter().flatten(), out, |dim, out| match dim {
                        Dim::Known(n) => integer(*n, out),
                        _ => out.push_str("null"),
                    });
                }),
            // A scalar or an entry: there is nothing more to it.
            _ => one,
        };
        let number = self.out.len() as u64;
        self.out.push(one.finish());
        self.numbers.insert(id, number);
        Ok(number)
    }
}
