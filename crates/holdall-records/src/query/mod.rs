//! Records chosen by their place, by conditions and by chance, and some of their members as JSON.
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

mod columns;
mod condition;
mod export;
mod groups;
mod order;
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

/// Which records are wanted: see [`Records::query`]. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Query<'r> {
    records: &'r Records,
    range: Range<u64>,
    conditions: Vec<Condition>,
    sample: Option<Sample>,
    order: Option<RecordSorter>,
    parts: Vec<Accessor>,
}

/// The records that a [`Query`] finds, in their order.
pub struct Matches<'r>(Found<'r>);

enum Found<'r> {
    /// Those of a range for which all conditions hold.
    Scan { records: Iter<'r>, conditions: Vec<Condition> },
    /// Records by their places.
    Places(RecordsAt<'r>),
}

/// Places of runs in a blob: see [`Blob::places`].
#[derive(Debug)]
pub struct Places(Chosen);

#[derive(Debug)]
enum Chosen {
    Range(Range<u64>),
    Some(std::vec::IntoIter<u64>),
}

impl Records {
    /// Asks for all records; what follows asks for fewer.
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

    /// A condition on a record: `stars>=4`, `label=cat`, `image` (it has one), `!image` (it has none), `flag` and `!flag` of a Boolean (it is true, or not), `label in (cat, dog)`,
    /// `caption contains sea`, of texts and of arrays (`tags contains sea`); with `and`, `or`, `not` and parentheses between
    /// such. A value goes on up to `and`, `or` or `)`; in quotes, as JSON writes a string, it may be anything.
    ///
    /// # Errors
    /// `records/condition`; `schema/path`, `schema/unknown-path`.
    pub fn condition(&self, text: &str) -> Result<Condition> {
        Condition::new(self, text).map_err(|e| placed(e, self.tensor()))
    }

    /// The members at these paths, such as `id` and `at.lat`, to be read of many records.
    ///
    /// # Errors
    /// `schema/path`, `schema/unknown-path`.
    pub fn columns(&self, paths: &[impl AsRef<str>]) -> Result<Columns> {
        Columns::new(self, paths).map_err(|e| placed(e, self.tensor()))
    }

    /// What the members are, and those of structs and arrays in them, with the places of their bytes.
    ///
    /// # Errors
    /// `schema/too-large`.
    pub fn members(&self) -> Result<Vec<OutlineRow>> {
        let symbols = Symbols::default();
        let mut outline = Outline::new(&symbols, self.limits(), None);
        outline.schema(self.schema()).map_err(|e| placed(e, self.tensor()))?;
        Ok(outline.into_rows().into_iter().filter(|row| !row.path.is_root()).collect())
    }

    /// Every member, those of structs instead of the structs, up to `most` of them.
    ///
    /// # Errors
    /// As [`Records::columns`].
    pub fn all_columns(&self, most: usize) -> Result<Columns> {
        Columns::all(self, most).map_err(|e| placed(e, self.tensor()))
    }
}

impl<'r> Query<'r> {
    /// Only records of this range of places.
    pub fn with_range(mut self, range: Range<u64>) -> Query<'r> {
        self.range = range;
        self
    }

    /// Only records for which this condition holds too: see [`Records::condition`].
    ///
    /// # Errors
    /// As [`Records::condition`].
    pub fn with_condition(mut self, text: &str) -> Result<Query<'r>> {
        self.conditions.push(self.records.condition(text)?);
        Ok(self)
    }

    /// Only `count` of the records that are left, all equally likely. The same `seed` gives the same ones on
    /// every machine.
    pub fn with_sample(mut self, count: u64, seed: u64) -> Query<'r> {
        self.sample = Some(Sample { count, seed });
        self
    }

    /// The records in the order of these members, in place of that of the file: see [`Records::order`].
    ///
    /// # Errors
    /// As [`Records::order`].
    pub fn with_order(mut self, members: &[impl AsRef<str>]) -> Result<Query<'r>> {
        self.order = Some(self.records.order(members)?);
        Ok(self)
    }

    /// These parts of the records will be used, with what they point at: where records are chosen by chance or put in an order, that is
    /// read with them.
    pub fn with_parts(mut self, parts: impl IntoIterator<Item = Accessor>) -> Query<'r> {
        self.parts.extend(parts);
        self
    }

    /// How many records there are of those that were asked for.
    ///
    /// # Errors
    /// As [`Query::run`].
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

    /// How many of the records have which values of these members, the most first.
    ///
    /// # Errors
    /// As [`Records::groups`], [`Query::run`] and [`Groups::add`].
    pub fn groups(&self, members: &[impl AsRef<str>]) -> Result<Vec<Group>> {
        let mut groups = self.records.groups(members)?;
        for record in (Query { order: None, ..self.clone() }).run()? {
            groups.add(&record?)?;
        }
        Ok(groups.finish())
    }

    /// The records. They are read one after the other, 1 MiB at a time where they are not at hand; a
    /// sample of those for which conditions hold reads the whole range first and keeps their places, and an order keeps
    /// what it is made by, too.
    ///
    /// # Errors
    /// `records/index` for a range that passes the number of records; as [`Records::record`] and [`Order::add`].
    pub fn run(&self) -> Result<Matches<'r>> {
        let records = self.records;
        let at = |places| {
            let at = records.at(places).slowly().with_parts(self.parts.iter().cloned());
            Ok(Matches(Found::Places(at)))
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
            false => sample.of_each(Matches(scan).map(|record| Ok(record?.index())))?,
        })
    }
}

impl<'r> Iterator for Matches<'r> {
    type Item = Result<Record<'r>>;

    fn next(&mut self) -> Option<Result<Record<'r>>> {
        match &mut self.0 {
            Found::Places(records) => records.next(),
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
    /// The places of a range, or a sample of them, in their order.
    ///
    /// # Errors
    /// `records/index`.
    pub fn places(&self, range: Range<u64>, sample: Option<Sample>) -> Result<Places> {
        check_range(&range, self.len()).map_err(|e| placed(e, self.tensor()))?;
        Ok(Places(match sample {
            Some(sample) => Chosen::Some(sample.draw(range).into_iter()),
            None => Chosen::Range(range),
        }))
    }
}

impl Iterator for Places {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        match &mut self.0 {
            Chosen::Range(range) => range.next(),
            Chosen::Some(places) => places.next(),
        }
    }
}
