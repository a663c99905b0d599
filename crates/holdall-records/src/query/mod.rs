//! Chooses records by their index, by conditions or at random, and reads some of their members as JSON.
//!
//! ```no_run
//! # fn main() -> holdall_core::Result<()> {
//! use holdall_records::TensorRecords as _;
//! let records = holdall_io::open("train.mt")?.tensor("samples")?.records()?;
//! let columns = records.columns(&["id", "caption"])?;
//! for record in records.query().with_condition("stars>=4")?.with_sample(5, 1).run()? {
//!     println!("{:?}", columns.values(&record?)?);
//! }
//! # Ok(())
//! # }
//! ```

mod aggregate;
mod columns;
mod condition;
mod export;
mod gathered;
mod groups;
mod order;
mod pair;
mod pattern;
mod reader;
mod sample;
mod written;

pub use columns::Columns;
pub(crate) use columns::or_like_member;
pub use condition::Condition;
pub use export::Export;
pub use groups::{Group, Groups};
pub use order::RecordSorter;
pub use sample::Sample;

use super::{Blob, Iter, Record, Records, RecordsAt, check_range, placed};
use holdall_core::Result;
use holdall_schema::{Accessor, Outline, OutlineRow, Symbols};
use std::ops::Range;

/// A query for records: see [`Records::query`]. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Query<'r> {
    records: &'r Records,
    range: Range<u64>,
    conditions: Vec<Condition>,
    sample: Option<Sample>,
    order: Option<RecordSorter>,
    parts: Vec<Accessor>,
}

/// An iterator over the records that a [`Query`] finds, in the order of the query.
pub struct Matches<'r>(Found<'r>);

enum Found<'r> {
    /// The records of a range for which all conditions hold.
    Scan { records: Iter<'r>, conditions: Vec<Condition> },
    /// Records by their indices.
    QueryIndices(RecordsAt<'r>),
}

/// An iterator over indices of runs in a blob: see [`Blob::indices`].
#[derive(Debug)]
pub struct QueryIndices(Chosen);

#[derive(Debug)]
enum Chosen {
    Range(Range<u64>),
    Some(std::vec::IntoIter<u64>),
}

impl Records {
    /// Returns a query for all records. Its `with_…` methods narrow it down.
    pub fn query(&self) -> Query<'_> {
        Query {
            records: self,
            range: 0..self.len(),
            conditions: Vec::new(),
            sample: None,
            order: None,
            parts: Vec::new(),
        }
    }

    /// Parses a condition on a record: `stars>=4`, `label=cat`, `image` (the member is present), `!image` (it is
    /// absent), `flag` and `!flag` of a Boolean (it is true, or false), `label in (cat, dog)`, `stars between 2 and 4`,
    /// `at is null` (it is absent), `caption like %sea%` (`%` is any text, `_` one character), or `caption
    /// contains sea` for texts and arrays. `width < height` compares two members: a value without quotes that is not a
    /// value of the member's kind may be a path; `title = member(caption)` always compares with a member. Conditions
    /// are combined with `and`, `or`, `not` and parentheses. A value ends before `and`, `or` or `)`; a value in quotes,
    /// written as a JSON string, can contain anything.
    ///
    /// # Errors
    /// Returns `records/condition`; `schema/path`, `schema/unknown-path`.
    pub fn condition(&self, text: &str) -> Result<Condition> {
        Condition::new(self, text).map_err(|e| placed(e, self.tensor()))
    }

    /// Returns the members at these paths, such as `id` and `at.lat`, to be read from many records.
    ///
    /// # Errors
    /// Returns `schema/path`, `schema/unknown-path`.
    pub fn columns(&self, paths: &[impl AsRef<str>]) -> Result<Columns> {
        Columns::new(self, paths).map_err(|e| placed(e, self.tensor()))
    }

    /// Returns the types of the members and the positions of their bytes, including members of nested structs and
    /// arrays.
    ///
    /// # Errors
    /// Returns `schema/too-large`.
    pub fn members(&self) -> Result<Vec<OutlineRow>> {
        let symbols = Symbols::default();
        let mut outline = Outline::new(&symbols, self.limits(), None);
        outline.schema(self.schema()).map_err(|e| placed(e, self.tensor()))?;
        Ok(outline.into_rows().into_iter().filter(|row| !row.path.is_root()).collect())
    }

    /// Returns every member, up to `max_columns` of them. Members of structs are listed instead of the structs.
    ///
    /// # Errors
    /// Returns the same errors as [`Records::columns`].
    pub fn all_columns(&self, max_columns: usize) -> Result<Columns> {
        Columns::all(self, max_columns).map_err(|e| placed(e, self.tensor()))
    }
}

impl<'r> Query<'r> {
    /// Considers only records in this range of indices.
    pub fn with_range(mut self, range: Range<u64>) -> Query<'r> {
        self.range = range;
        self
    }

    /// Considers only records for which this condition also holds: see [`Records::condition`].
    ///
    /// # Errors
    /// Returns the same errors as [`Records::condition`].
    pub fn with_condition(mut self, text: &str) -> Result<Query<'r>> {
        self.conditions.push(self.records.condition(text)?);
        Ok(self)
    }

    /// Returns only `count` of the records that fit, chosen at random with equal probability. The same `seed` chooses
    /// the same records on every machine.
    pub fn with_sample(mut self, count: u64, seed: u64) -> Query<'r> {
        self.sample = Some(Sample { count, seed });
        self
    }

    /// Returns the records in the order of these members instead of the file's order: see [`Records::order`].
    ///
    /// # Errors
    /// Returns the same errors as [`Records::order`].
    pub fn with_order(mut self, members: &[impl AsRef<str>]) -> Result<Query<'r>> {
        self.order = Some(self.records.order(members)?);
        Ok(self)
    }

    /// Declares that these members of the records will be used. If records are sampled or sorted, the heap data of
    /// these members is read together with the records.
    pub fn with_parts(mut self, parts: impl IntoIterator<Item = Accessor>) -> Query<'r> {
        self.parts.extend(parts);
        self
    }

    /// Returns the number of records that fit.
    ///
    /// # Errors
    /// Returns the same errors as [`Query::run`].
    pub fn count(&self) -> Result<u64> {
        let query = Query { order: None, ..self.clone() };
        if query.conditions.is_empty() {
            check_range(&query.range, self.records.len())?;
            let all = query.range.end.saturating_sub(query.range.start);
            return Ok(query.sample.map_or(all, |sample| sample.count.min(all)));
        }
        let mut count = 0;
        for record in query.run()? {
            record?;
            count += 1;
        }
        Ok(count)
    }

    /// Counts the records by the values of these members, computes aggregates of each group such as `mean(stars)`, and
    /// returns the largest group first: see [`Records::groups`].
    ///
    /// # Errors
    /// Returns the same errors as [`Records::groups`], [`Query::run`] and [`Groups::add`].
    pub fn groups(
        &self,
        members: &[impl AsRef<str>],
        aggregates: &[impl AsRef<str>],
    ) -> Result<Vec<Group>> {
        let mut groups = self.records.groups(members, aggregates)?;
        let parts: Vec<_> = groups.parts().cloned().collect();
        for record in (Query { order: None, ..self.clone() }).with_parts(parts).run()? {
            groups.add(&record?)?;
        }
        Ok(groups.finish())
    }

    /// Returns the records that fit. They are read one after the other, 1 MiB at a time if they are neither mapped nor
    /// in memory. A sample with conditions first reads the whole range and keeps the indices of the records that fit;
    /// an order also keeps the values that it sorts by.
    ///
    /// # Errors
    /// Returns `records/index` if the range is out of bounds, and the errors of [`Records::record`] and
    /// [`RecordSorter::add`].
    pub fn run(&self) -> Result<Matches<'r>> {
        let records = self.records;
        let at = |indices| {
            let at = records.at(indices).slowly().with_parts(self.parts.iter().cloned());
            Ok(Matches(Found::QueryIndices(at)))
        };
        if let Some(mut order) = self.order.clone() {
            for record in (Query { order: None, ..self.clone() }).run()? {
                order.add(&record?)?;
            }
            return at(order.finish());
        }
        let scan = Found::Scan {
            records: records.iter(self.range.clone())?,
            conditions: self.conditions.clone(),
        };
        let Some(sample) = self.sample else { return Ok(Matches(scan)) };
        at(match self.conditions.is_empty() {
            true => sample.draw(self.range.clone()),
            false => sample.choose(Matches(scan).map(|record| Ok(record?.index())))?,
        })
    }
}

impl<'r> Iterator for Matches<'r> {
    type Item = Result<Record<'r>>;

    fn next(&mut self) -> Option<Result<Record<'r>>> {
        match &mut self.0 {
            Found::QueryIndices(records) => records.next(),
            Found::Scan { records, conditions } => records.find_map(|record| {
                let record = match record {
                    Ok(record) => record,
                    Err(e) => return Some(Err(e)),
                };
                for condition in conditions.iter() {
                    match condition.holds(&record) {
                        Ok(true) => {}
                        Ok(false) => return None,
                        Err(e) => return Some(Err(e)),
                    }
                }
                Some(Ok(record))
            }),
        }
    }
}

impl std::fmt::Debug for Matches<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Matches").finish_non_exhaustive()
    }
}

impl Blob {
    /// Returns the indices in a range, or a sample of them, in ascending order.
    ///
    /// # Errors
    /// Returns `records/index`.
    pub fn indices(&self, range: Range<u64>, sample: Option<Sample>) -> Result<QueryIndices> {
        check_range(&range, self.len()).map_err(|e| placed(e, self.tensor()))?;
        Ok(QueryIndices(match sample {
            Some(sample) => Chosen::Some(sample.draw(range).into_iter()),
            None => Chosen::Range(range),
        }))
    }
}

impl Iterator for QueryIndices {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        match &mut self.0 {
            Chosen::Range(range) => range.next(),
            Chosen::Some(indices) => indices.next(),
        }
    }
}
