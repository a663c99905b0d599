//! Reading records of a file with another schema.

use super::plan::parse_options;
use crate::json::CALL;
use crate::records::layout_of;
use crate::{Answer, le};
use holdall_core::Error;
use holdall_json::Value;
use holdall_json::parse;
use holdall_schema::{
    ConversionInput, Convert, Converters, Document, Encoder, Heap, Reading, ResolveOptions, Root,
    Schema, SchemaLimits, by_chain, resolve,
};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Converts the records of one schema to another. The input has five parts, and `lens` are the
/// lengths of the first four: JSON with the changes that do not follow from the schemas, as for a
/// plan, and with `made` (for each converter function of the host, the list of values that it
/// returned, in the order of the records and of the values in them); the schema of a record in
/// the file; the new schema; the records; their heap.
///
/// The answer is the length of the layout, the length of the new records, the layout, the
/// records, and their heap.
pub(crate) fn records(
    input: &[u8],
    lens: [usize; 4],
    limits: &SchemaLimits,
) -> Result<Answer, Error> {
    let mut rest = input;
    let mut parts: [&[u8]; 4] = [&[]; 4];
    for (part, len) in parts.iter_mut().zip(lens) {
        let split = rest.split_at_checked(len);
        (*part, rest) = split.ok_or_else(|| CALL.broken("a part is longer than the input"))?;
    }
    let ([request, old, new, data], heap) = (parts, rest);
    let (requested, made) = (parse_options(request)?, made_of(request, limits)?);
    let old = Document::parse(old, "the file", Reading::Record, limits)
        .map_err(Error::without_location)?;
    let new = Document::parse(new, "the schema", Reading::ByContent, limits)
        .and_then(|new| new.records(requested.path.as_deref(), limits))
        .map_err(Error::without_location)?;
    let (Root::Record(from), Root::Record(to)) = (old.schema.root(), new.schema.root()) else {
        return Err(CALL.broken("a schema is not that of a record"));
    };
    let resolution = {
        let mut options = ResolveOptions::default().with_limits(limits.clone());
        for (path, name) in &requested.converters {
            options = options.with_converter(path.clone(), name.as_str());
        }
        for (path, other) in &requested.renames {
            options = options.with_rename(path.clone(), other.clone());
        }
        resolve(&old.schema, from, &new.schema, to, &options)?
    };
    if !requested.drops {
        resolution.keeps_all()?;
    }
    let taken: Vec<AtomicUsize> = made.iter().map(|_| AtomicUsize::new(0)).collect();
    let mut converters = Converters::new();
    for name in resolution.converters() {
        converters = match name.strip_prefix(FUNCTION).and_then(|n| n.parse::<usize>().ok()) {
            Some(n) => {
                let both = made.get(n).zip(taken.get(n));
                let (values, taken) =
                    both.ok_or_else(|| CALL.broken("a converter made nothing"))?;
                converters.with(&**name, Made { values, taken, schema: &new.schema, limits })
            }
            None => {
                let by = by_chain(&old.schema, &new.schema, limits.clone(), name.parse()?);
                converters.with(&**name, by)
            }
        };
    }
    let mut migrator = resolution.migrator(&converters)?;
    let (size, stride) = (resolution.from_size(), old.schema.extent(from)?.stride);
    let extent = new.schema.extent(to)?;
    let fits = |n: u64| usize::try_from(n).ok().filter(|n| *n > 0);
    let (Some(stride), Some(out_stride)) = (fits(stride), fits(extent.stride)) else {
        return Err(CALL.broken("records of no bytes"));
    };
    let (mut out, mut out_heap) = (Vec::new(), Vec::new());
    for (at, record) in data.chunks_exact(stride).enumerate() {
        let start = out.len();
        out.resize(start + out_stride, 0);
        let slot = out.get_mut(start..).and_then(|slot| slot.get_mut(..resolution.to_size()));
        let record = record.get(..size).unwrap_or(record);
        let done = migrator.record(record, heap, slot.unwrap_or_default(), &mut out_heap);
        done.map_err(|e| e.within(format!("record {at}")))?;
    }
    for (values, taken) in made.iter().zip(&taken) {
        if taken.load(Ordering::Relaxed) != values.len() {
            return Err(CALL.broken("a converter made more values than there are"));
        }
    }
    let layout = layout_of(&new.schema, to, (out.len() / out_stride) as u64)?;
    let mut answer = le([layout.len() as u64, out.len() as u64]);
    answer.extend_from_slice(layout.as_bytes());
    answer.append(&mut out);
    answer.append(&mut out_heap);
    Ok(Answer::Done(answer))
}

/// The prefix of names of converters that are functions of the host.
const FUNCTION: &str = "#";

/// Returns the values that each function of the host returned.
fn made_of(request: &[u8], limits: &SchemaLimits) -> Result<Vec<Vec<Value>>, Error> {
    let json = parse(request, limits.depth.saturating_add(4))?;
    let all = json.get("made").and_then(Value::as_array).into_iter().flatten();
    Ok(all.map(|values| values.as_array().cloned().unwrap_or_default()).collect())
}

/// A converter with precomputed values.
struct Made<'m> {
    values: &'m [Value],
    /// The number of values taken so far.
    taken: &'m AtomicUsize,
    schema: &'m Schema,
    limits: &'m SchemaLimits,
}

impl Convert for Made<'_> {
    fn convert(
        &self,
        from: ConversionInput<'_>,
        to: &mut [u8],
        heap: &mut dyn Heap,
    ) -> Result<(), Error> {
        let at = self.taken.fetch_add(1, Ordering::Relaxed);
        let value = self.values.get(at);
        let value =
            value.ok_or_else(|| CALL.broken("a converter made fewer values than there are"))?;
        let mut heap = heap;
        Encoder::new(self.schema, from.to, self.limits)?.value(value, to, &mut heap)
    }
}
