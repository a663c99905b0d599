//! Lists all tensors of a file with one call, however many there are.

use crate::json::Object;
use crate::view::{dense_type, name_of};
use crate::{Answer, json};
use bytemuck::must_cast_slice;
use holdall_core::model::{RowKind, element_count};
use holdall_core::{DType, Index, Layout, LogicalType, TensorInfo};
use std::collections::BTreeMap;

/// The number of kinds that are searched linearly; listing a file with more kinds is slower.
const FEW: usize = 16;

/// The kinds of tensors seen so far, as JSON.
#[derive(Default)]
struct Kinds {
    few: Vec<(RowKind, u32)>,
    numbers: BTreeMap<String, u32>,
    texts: Vec<String>,
}

impl Kinds {
    /// Returns the index of the kind of tensor `at`.
    fn number(&mut self, kind: RowKind, index: &Index, at: usize) -> u32 {
        if let Some((_, number)) = self.few.iter().find(|(known, _)| *known == kind) {
            return *number;
        }
        let text = index.at(at).map(|info| text_of(&info)).unwrap_or_default();
        let number = match self.numbers.get(&text) {
            Some(number) => *number,
            None => {
                let number = self.texts.len() as u32;
                self.numbers.insert(text.clone(), number);
                self.texts.push(text);
                number
            }
        };
        if self.few.len() < FEW {
            self.few.push((kind, number));
        }
        number
    }
}

/// Returns the listed properties of a tensor as JSON, except for its name and its numbers.
fn text_of(info: &TensorInfo) -> String {
    let first = match info.layout() {
        Layout::Dense => None,
        _ => info.components().next().map(|c| c.dtype),
    };
    let dense = dense_type(info);
    let meaning = dense.as_ref().and_then(|element| element.logical_type.as_ref());
    Object::new()
        .text("layout", info.layout().as_str())
        .maybe_text(
            "dtype",
            dense.as_ref().map(|element| element.dtype).or(first).map(DType::as_str),
        )
        .maybe_text("logicalType", meaning.map(LogicalType::as_str))
        .maybe_text("dense", dense.as_ref().map(name_of).as_deref())
        .flag("isFaulty", info.fault().is_some())
        .finish()
}

/// Returns four 32-bit numbers (tensors, dimensions of all tensors, bytes of all names, 0),
/// followed by these arrays for all tensors: the numbers of elements, the bytes in the file, and
/// all dimensions, as doubles; the ends of names in UTF-16 units, the ends of dimensions, and the
/// indices of kinds, in 32 bits; all names; the kinds, as JSON.
pub(crate) fn list(index: &Index) -> Answer {
    let (count, names, all_dims) = (index.len(), index.all_names(), index.all_dims());
    let doubles = || Vec::<f64>::with_capacity(count);
    let (mut numbers, mut stored) = (doubles(), doubles());
    let words = || Vec::<u32>::with_capacity(count);
    let (mut name_ends, mut dims_ends, mut kind_of) = (words(), words(), words());
    let is_ascii = names.is_ascii();
    let (mut name_start, mut dims_start, mut units) = (0, 0, 0);
    let mut kinds = Kinds::default();
    let mut last = None;
    for at in 0..count {
        let Some(row) = index.row(at) else { break };
        let shape = all_dims.get(dims_start..row.dims_end).unwrap_or_default();
        numbers.push(element_count(shape).unwrap_or(u64::MAX) as f64);
        stored.push(row.stored_len as f64);
        // The length in JavaScript.
        units += match is_ascii {
            true => row.name_end - name_start,
            false => names[name_start..row.name_end].encode_utf16().count(),
        };
        // The index has less than 2^32 of everything.
        name_ends.push(units as u32);
        dims_ends.push(row.dims_end as u32);
        // Most tensors have the same kind as the previous one.
        let number = match last {
            Some((kind, number)) if kind == row.kind => number,
            _ => kinds.number(row.kind, index, at),
        };
        last = Some((row.kind, number));
        kind_of.push(number);
        (name_start, dims_start) = (row.name_end, row.dims_end);
    }
    let mut text = String::new();
    json::list(&kinds.texts, &mut text, |kind, out| out.push_str(kind));
    let rank = all_dims.len();
    let len = 16 + 8 * (2 * count + rank) + 12 * count + names.len() + text.len();
    let mut out = Vec::with_capacity(len);
    let head = [count as u32, rank as u32, names.len() as u32, 0];
    let mut put = |part: &[u8]| out.extend_from_slice(part);
    put(must_cast_slice(&head));
    put(must_cast_slice(&numbers));
    put(must_cast_slice(&stored));
    for size in all_dims {
        put(&(*size as f64).to_le_bytes());
    }
    for words in [&name_ends, &dims_ends, &kind_of] {
        put(must_cast_slice(words));
    }
    put(names.as_bytes());
    put(text.as_bytes());
    Answer::Done(out)
}

/// Returns groups of similar tensors: their name, and the indices of their members.
pub(crate) fn groups(index: &Index) -> Answer {
    let infos: Vec<TensorInfo> = index.tensors().collect();
    let all = holdall_core::model::group::groups(&infos);
    let mut out = String::new();
    json::list(all, &mut out, |group, out| {
        let members = |out: &mut String| {
            json::list(group.members.iter().map(|&m| m as u64), out, json::integer)
        };
        out.push_str(&Object::new().text("name", &group.name).with("members", members).finish());
    });
    Answer::text(out)
}
