//! Sorts records by their members.

use super::reader::{MemberReader, MemberValue};
use crate::rules::{CONDITION, SORTED};
use crate::{Record, Records};
use holdall_core::error::Escape as _;
use holdall_core::{Remedy, Result};
use holdall_schema::{Accessor, Kind};
use std::cmp::Ordering;

/// Sorts records: takes them one by one and returns their indices in order. See [`Records::order`].
///
/// Numbers and times are sorted by value, with NaN after all numbers; texts by their bytes; `false` before `true`;
/// enums and unions in the order of the schema. Records without the member come last, in both directions. The sort is
/// stable.
#[derive(Debug, Clone)]
pub struct RecordSorter {
    members: Vec<Member>,
    found: Vec<(Box<[Key]>, u64)>,
    /// The bytes of memory that the keys take, and the limit for them.
    taken: u64,
    most: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Member {
    part: Accessor,
    read: MemberReader,
    is_descending: bool,
}

/// The value that a record is sorted by. Absent values come last.
#[derive(Debug, Clone)]
pub(super) enum Key {
    Integer(i128),
    /// NaN comes after all numbers.
    Float(f64),
    Text(Box<str>),
    Absent,
}

impl Records {
    /// Returns a sorter by these members: `stars` ascending, `-stars` descending; each further member decides between
    /// records that are equal so far.
    ///
    /// # Errors
    /// Returns `records/condition` if a member has no order; `schema/path` or `schema/unknown-path` if there is no such
    /// member.
    pub fn order(&self, members: &[impl AsRef<str>]) -> Result<RecordSorter> {
        let member =
            |text: &str| Member::new(self, text).map_err(|e| super::placed(e, self.tensor()));
        let members = members.iter().map(|text| member(text.as_ref())).collect::<Result<_>>()?;
        Ok(RecordSorter { members, found: Vec::new(), taken: 0, most: self.limits().decoded_len })
    }
}

impl RecordSorter {
    /// Returns the accessors of the members.
    pub fn parts(&self) -> impl Iterator<Item = &Accessor> {
        self.members.iter().map(|member| &member.part)
    }

    /// Adds a record.
    ///
    /// # Errors
    /// Returns the errors of [`Record::get`] and [`Record::string`], and `records/sorted` if the values to sort by take
    /// more memory than the limit.
    pub fn add(&mut self, record: &Record<'_>) -> Result<()> {
        let keys = self.members.iter().map(|member| member.key(record));
        let keys = keys.collect::<Result<Box<[Key]>>>()?;
        let of_texts =
            keys.iter().map(|key| if let Key::Text(text) = key { text.len() } else { 0 });
        let len = of_texts.sum::<usize>() + size_of_val(&*keys) + size_of::<(Box<[Key]>, u64)>();
        self.taken = self.taken.saturating_add(len as u64);
        if self.taken > self.most {
            let most = self.most;
            let message = format!(
                "the values to sort by take more than {most} bytes, after {} records",
                self.found.len()
            );
            let e = SORTED
                .broken(message)
                .with_remedy(Remedy::RaiseLimit { limit: "decoded_len", at_least: None });
            return Err(super::placed(e, record.records().tensor()));
        }
        self.found.push((keys, record.index()));
        Ok(())
    }

    /// Returns the indices of all records that were added, in order.
    pub fn finish(mut self) -> Vec<u64> {
        let members = &self.members;
        self.found.sort_by(|(a, _), (b, _)| {
            let keys = a.iter().zip(b.iter()).zip(members);
            keys.map(|((a, b), member)| a.compare(b, member.is_descending))
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        });
        self.found.into_iter().map(|(_, index)| index).collect()
    }
}

impl Member {
    /// Resolves a member: `stars`, or `-stars` in descending order.
    ///
    /// # Errors
    /// Returns [`CONDITION`] if the member has no order, and the errors of [`Records::accessor`].
    pub(super) fn new(records: &Records, text: &str) -> Result<Member> {
        let text = text.trim();
        let path = text.strip_prefix('-');
        let part = records.accessor(path.unwrap_or(text))?;
        let read = MemberReader::new(records, &part).ok_or_else(|| {
            let kind = records.schema().ty(part.ty()).kind.as_str();
            let text = text.escaped();
            CONDITION
                .broken(format!("`{text}` cannot be sorted by: a `TypeDef:{kind}` has no order"))
        })?;
        Ok(Member { part, read, is_descending: path.is_some() })
    }

    /// Returns the value that a record is sorted by.
    pub(super) fn key(&self, record: &Record<'_>) -> Result<Key> {
        let kind = &record.records().schema().ty(self.part.ty()).kind;
        let index = |at: Option<u64>| at.map_or(Key::Absent, |at| Key::Integer(at.into()));
        let Some(value) = self.read.value(record, &self.part)? else { return Ok(Key::Absent) };
        Ok(match (value, kind) {
            // In the order of the schema.
            (MemberValue::Text(name), Kind::Enum(all)) => index(all.index_of(&name).map(u64::from)),
            (MemberValue::Text(name), Kind::Union(union)) => {
                index(union.tag(&name).map(|tag| tag as u64))
            }
            (MemberValue::Text(text), _) => Key::Text(text.into()),
            (MemberValue::Integer(integer), _) => Key::Integer(integer),
            (MemberValue::Float(float), _) => Key::Float(float),
        })
    }
}

impl Key {
    pub(super) fn is_absent_or_nan(&self) -> bool {
        matches!(self, Key::Absent) || matches!(self, Key::Float(x) if x.is_nan())
    }

    /// Compares two keys of one member.
    pub(super) fn compare(&self, other: &Key, is_descending: bool) -> Ordering {
        let order = match (self, other) {
            (Key::Integer(a), Key::Integer(b)) => a.cmp(b),
            // Positive and negative zero are equal, as they are in conditions.
            (Key::Float(a), Key::Float(b)) => match a.partial_cmp(b) {
                Some(order) => order,
                None => return a.is_nan().cmp(&b.is_nan()),
            },
            (Key::Text(a), Key::Text(b)) => a.cmp(b),
            (a, b) => return matches!(a, Key::Absent).cmp(&matches!(b, Key::Absent)),
        };
        if is_descending { order.reverse() } else { order }
    }
}
