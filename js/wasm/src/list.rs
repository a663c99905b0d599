//! All tensors of a file at once, as a list of them shows each: one call, however many there are.

use crate::json::Object;
use crate::view::{dense_type, name_of};
use crate::{Answer, json};
use bytemuck::must_cast_slice;
use holdall_core::{DType, Index, Layout, LogicalType, TensorInfo};
use std::collections::BTreeMap;

/// Kinds that are looked through one by one; a file with more of them is slower to list.
const FEW: usize = 16;

/// What tells how a tensor is shown, but for its name and its numbers.
#[derive(PartialEq)]
struct Key<'i> {
    layout: &'i Layout,
    dtype: Option<DType>,
    logical_type: Option<LogicalType>,
    first: Option<DType>,
    is_faulty: bool,
}

/// The kinds of tensors that there are so far, as JSON.
#[derive(Default)]
struct Kinds<'i> {
    few: Vec<(Key<'i>, u32)>,
    numbers: BTreeMap<String, u32>,
    texts: Vec<String>,
}

impl<'i> Kinds<'i> {
    /// The number of the kind of a tensor, whose layout is `layout`.
    fn number(&mut self, info: &TensorInfo, layout: &'i Layout) -> u32 {
        let first = match layout {
            Layout::Dense => None,
            _ => info.components().next().map(|c| c.dtype),
        };
        let (dtype, logical_type) = (info.dtype(), info.logical_type());
        let is_faulty = info.fault().is_some();
        let key = Key { layout, dtype, logical_type, first, is_faulty };
        if let Some((_, number)) = self.few.iter().find(|(known, _)| *known == key) {
            return *number;
        }
        let dense = dense_type(info);
        let meaning = dense.as_ref().and_then(|of| of.logical_type.as_ref());
        let text = Object::new()
            .text("layout", layout.as_str())
            .maybe_text("dtype", dense.as_ref().map(|of| of.dtype).or(first).map(DType::as_str))
            .maybe_text("logicalType", meaning.map(LogicalType::as_str))
            .maybe_text("dense", dense.as_ref().map(name_of).as_deref())
            .flag("isFaulty", is_faulty)
            .finish();
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
            self.few.push((key, number));
        }
        number
    }
}

/// Four numbers of 32 bits: how many tensors there are, how many dimensions all of them have, bytes of all names, 0. Then, each for all
/// tensors: the numbers of elements, bytes in the file, and all dimensions, as doubles; where its name ends, in units of UTF-16, where its
/// dimensions end, and the number of its kind, in 32 bits; all names; the kinds, as JSON.
pub(crate) fn list(index: &Index) -> Answer {
    let count = index.len();
    let doubles = || Vec::<f64>::with_capacity(count);
    let (mut numbers, mut stored, mut dims) = (doubles(), doubles(), doubles());
    let words = || Vec::<u32>::with_capacity(count);
    let (mut name_ends, mut dims_ends, mut kind_of) = (words(), words(), words());
    let (mut end, mut rank) = (0, 0);
    let mut names = String::new();
    let tensors: Vec<TensorInfo> = index.tensors().collect();
    let mut kinds = Kinds::default();
    for t in &tensors {
        let (name, shape) = (t.name(), t.shape());
        numbers.push(t.count() as f64);
        stored.push(t.stored_len() as f64);
        dims.extend(shape.iter().map(|n| *n as f64));
        // The index has room for no more than 2^32 of anything.
        end += units(name) as u32;
        rank += shape.len() as u32;
        name_ends.push(end);
        dims_ends.push(rank);
        kind_of.push(kinds.number(t, t.layout()));
        names.push_str(name);
    }
    let mut text = String::new();
    json::list(&kinds.texts, &mut text, |kind, out| out.push_str(kind));
    let head = [count as u32, rank, names.len() as u32, 0];
    let [numbers, stored, dims] = [&numbers, &stored, &dims].map(|all| must_cast_slice(all));
    let words = [&name_ends, &dims_ends, &kind_of].map(|all| must_cast_slice(all));
    let [name_ends, dims_ends, kind_of] = words;
    let (head, names, text) = (must_cast_slice(&head), names.as_bytes(), text.as_bytes());
    let parts = [head, numbers, stored, dims, name_ends, dims_ends, kind_of, names, text];
    Answer::Done(parts.concat())
}

/// Groups of tensors alike: their name, and the numbers of their members.
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

/// How long a text is in JavaScript.
fn units(text: &str) -> usize {
    match text.is_ascii() {
        true => text.len(),
        false => text.encode_utf16().count(),
    }
}
