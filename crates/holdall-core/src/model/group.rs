//! Groups repeated layers, so that a model of a thousand tensors fits on one screen.

use super::TensorInfo;
use holdall_collections::{HashMap, sort, sort_by};
use std::hash::Hash;

/// Tensors that are alike except for the numbers in their names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Group {
    /// The name of the only member, or a glob that matches exactly the members' names: `layers.{0..31}.mlp.w`,
    /// `layers.{0..3,7}.w`.
    pub name: String,
    /// The members' indices in the list that was grouped, ascending.
    pub members: Vec<usize>,
}

/// Groups tensors of the same dtype, logical type, shape and layout whose names differ only in numeric segments. Groups
/// come in the order of their first members.
pub fn groups<'a>(tensors: impl IntoIterator<Item = &'a TensorInfo>) -> Vec<Group> {
    let kind = |t: &TensorInfo| (t.dtype(), t.logical_type(), t.fault().is_some());
    let alike = |t: &TensorInfo| (kind(t), t.shape().to_vec(), t.layout().clone());
    group_names(tensors.into_iter().map(|t| (t.name(), alike(t))))
}

/// Groups names that have equal keys and differ only in numeric segments.
///
/// A segment lies between characters that are neither letters nor digits: the 3 of `h.3.w` and `proj_3` is a segment,
/// that of `conv3` is not. A number has no leading zeros. Every group is a full block: it has a member for every
/// combination of the numbers in its name. Time and memory are proportional to the total length of the names.
pub fn group_names<'a, K: Eq + Hash>(names: impl IntoIterator<Item = (&'a str, K)>) -> Vec<Group> {
    let names: Vec<(&str, K)> = names.into_iter().collect();
    let mut frames: HashMap<String, u32> = HashMap::default();
    let mut bucket_indices: HashMap<(u32, &K), usize> = HashMap::default();
    let mut buckets: Vec<Bucket<'a>> = Vec::new();
    let mut frame = String::new();
    let mut found = Vec::new();
    for (at, (name, key)) in names.iter().enumerate() {
        numbers(name, &mut frame, &mut found);
        let known = frames.len() as u32;
        let id = match frames.get(&frame) {
            Some(&id) => id,
            None => *frames.entry(frame.clone()).or_insert(known),
        };
        let bucket = *bucket_indices.entry((id, key)).or_insert(buckets.len());
        if bucket == buckets.len() {
            buckets.push(Bucket { first: name, numbers: Vec::new(), members: Vec::new() });
        }
        buckets[bucket].members.push(at);
        buckets[bucket].numbers.extend(found.iter().map(|n| n.value));
    }
    let mut out: Vec<Group> = buckets.into_iter().flat_map(Bucket::blocks).collect();
    for group in &mut out {
        if let [only] = group.members[..] {
            group.name = names[only].0.to_owned();
        }
    }
    sort_by(&mut out, |a, b| a.members.first().cmp(&b.members.first()));
    out
}

/// The maximum number of numeric segments considered in one name; further ones count as text.
const MAX_NUMBERS: usize = 8;

/// A number in a name.
struct Number {
    value: u64,
    /// The byte range in the name.
    start: usize,
    end: usize,
}

/// Finds the numbers in a name, and writes the name with each number replaced by NUL into `frame`. A name that contains
/// NUL counts as having no numbers.
fn numbers(name: &str, frame: &mut String, found: &mut Vec<Number>) {
    frame.clear();
    found.clear();
    let bytes = name.as_bytes();
    let mut at = 0;
    let mut copied = 0;
    while at < bytes.len() && found.len() < MAX_NUMBERS {
        // Each byte of a multi-byte character counts as a letter.
        let is_inside = |b: u8| b.is_ascii_alphanumeric() || b >= 0x80;
        let len = bytes[at..].iter().take_while(|&&b| is_inside(b)).count();
        let segment = &name[at..at + len];
        if let Some(value) = number(segment) {
            found.push(Number { value, start: at, end: at + len });
            frame.push_str(&name[copied..at]);
            frame.push('\0');
            copied = at + len;
        }
        at += len + 1;
    }
    frame.push_str(&name[copied..]);
    if bytes.contains(&0) {
        found.clear();
        frame.clear();
        frame.push_str(name);
    }
}

fn number(segment: &str) -> Option<u64> {
    let digits = !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_digit());
    let plain = segment == "0" || !segment.starts_with('0');
    (digits && plain).then(|| segment.parse().ok()).flatten()
}

/// Names that differ at most in their numbers.
struct Bucket<'a> {
    first: &'a str,
    /// The numbers of all members, one member after the other.
    numbers: Vec<u64>,
    members: Vec<usize>,
}

/// Members that have every combination of some sets of numbers, from one number in the name onwards.
struct Block {
    /// The index of any member in the bucket. The numbers before the sets are the same for all members.
    like: usize,
    /// For each number, from the last one backwards, the index of its set in the list of sets.
    sets: Vec<u32>,
    members: Vec<usize>,
}

impl Bucket<'_> {
    /// Splits the bucket into blocks: from the last number to the first, blocks that differ only in this number are
    /// merged.
    fn blocks(self) -> Vec<Group> {
        let Bucket { first, numbers: values, members } = self;
        if members.len() == 1 {
            // The caller sets the name.
            return vec![Group { name: String::new(), members }];
        }
        let width = values.len() / members.len();
        let mut sets: Vec<Vec<u64>> = Vec::new();
        let mut set_ids: HashMap<Vec<u64>, u32> = HashMap::default();
        let mut blocks: Vec<Block> = members
            .iter()
            .enumerate()
            .map(|(like, &m)| Block { like, sets: Vec::new(), members: vec![m] })
            .collect();
        for digits in (0..width).rev() {
            let mut same: HashMap<(&[u64], Vec<u32>), usize> = HashMap::default();
            let mut joined: Vec<(Block, Vec<u64>)> = Vec::new();
            for mut block in blocks {
                let own = &values[block.like * width..][..width];
                let key = (&own[..digits], block.sets.clone());
                let at = *same.entry(key).or_insert(joined.len());
                match joined.get_mut(at) {
                    Some((into, numbers)) => {
                        into.members.append(&mut block.members);
                        numbers.push(own[digits]);
                    }
                    None => joined.push((block, vec![own[digits]])),
                }
            }
            blocks = Vec::with_capacity(joined.len());
            for (mut block, mut set) in joined {
                sort(&mut set);
                set.dedup();
                let new = sets.len() as u32;
                let id = *set_ids.entry(set.clone()).or_insert(new);
                if id == new {
                    sets.push(set);
                }
                block.sets.push(id);
                blocks.push(block);
            }
        }
        let (mut frame, mut number_ranges) = (String::new(), Vec::new());
        numbers(first, &mut frame, &mut number_ranges);
        let named = |mut block: Block| {
            sort(&mut block.members);
            let of_place = block.sets.iter().rev().map(|&id| &sets[id as usize][..]);
            Group { name: pattern(first, &number_ranges, of_place), members: block.members }
        };
        blocks.into_iter().map(named).collect()
    }
}

/// Returns the glob of a block: the name of any member with each number replaced by its set.
fn pattern<'s>(
    like: &str,
    number_ranges: &[Number],
    sets: impl Iterator<Item = &'s [u64]>,
) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    let mut copied = 0;
    for (number_range, set) in number_ranges.iter().zip(sets) {
        escape(&like[copied..number_range.start], &mut out);
        copied = number_range.end;
        let mut parts = Vec::new();
        for run in set.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
            match run {
                [from, .., to] if run.len() > 2 => parts.push(format!("{from}..{to}")),
                few => parts.extend(few.iter().map(u64::to_string)),
            }
        }
        // Writing to a String cannot fail.
        let _ = match &parts[..] {
            [only] if set.len() == 1 => write!(out, "{only}"),
            _ => write!(out, "{{{}}}", parts.join(",")),
        };
    }
    escape(&like[copied..], &mut out);
    out
}

/// Appends the glob that matches exactly `text`.
pub fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | '{' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
}
