//! Counts records by their values, and computes aggregates of each group.

use super::Columns;
use super::aggregate::{Accumulator, Aggregate};
use crate::rules::SORTED;
use crate::{Record, Records};
use holdall_collections::HashMap;
use holdall_core::{Remedy, Result};
use holdall_schema::Accessor;

/// Counts records by the values of some members, and computes aggregates of each group. See [`Records::groups`].
#[derive(Debug, Clone)]
pub struct Groups {
    columns: Columns,
    aggregates: Vec<Aggregate>,
    /// The index in `found` of each combination of values.
    indices: HashMap<Vec<Option<String>>, usize>,
    found: Vec<(u64, Vec<Accumulator>)>,
    taken: u64,
    most: u64,
}

/// A group of records that have the same values.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Group {
    /// The JSON text of each member, or `None` for a member that these records do not have.
    pub values: Vec<Option<String>>,
    /// The number of records in the group.
    pub count: u64,
    /// The JSON text of each aggregate, or `None` if no record of the group has its member.
    pub aggregates: Vec<Option<String>>,
}

impl Records {
    /// Returns a counter of records by the values of these members, or of all records without members. For each group,
    /// it also computes these aggregates: `count(at)` (the number of records with this member), `sum(stars)`,
    /// `mean(stars)`, `std(stars)` (of the population), `min(caption)` or `max(caption)`.
    ///
    /// Records without the member do not contribute. Sums of integers are exact; Booleans are summed as 0 and 1. NaN
    /// makes a sum NaN, and `min` and `max` ignore it. They order values as [`Records::order`] does.
    ///
    /// # Errors
    /// Returns the same errors as [`Records::columns`]; `records/aggregate` for an aggregate that cannot be computed,
    /// and `records/condition` for `min` or `max` of a member without an order.
    pub fn groups(
        &self,
        members: &[impl AsRef<str>],
        aggregates: &[impl AsRef<str>],
    ) -> Result<Groups> {
        let columns = self.columns(members)?;
        let aggregate = |text: &dyn AsRef<str>| {
            let found = Aggregate::new(self, text.as_ref());
            found.map_err(|e| super::placed(e, self.tensor()))
        };
        Ok(Groups {
            columns,
            aggregates: aggregates.iter().map(|text| aggregate(text)).collect::<Result<_>>()?,
            indices: HashMap::default(),
            found: Vec::new(),
            taken: 0,
            most: self.limits().decoded_len,
        })
    }
}

impl Groups {
    /// Returns the paths of the members, as the caller gave them.
    pub fn names(&self) -> &[String] {
        self.columns.names()
    }

    /// Returns the texts of the aggregates, as the caller gave them.
    pub fn aggregate_names(&self) -> impl Iterator<Item = &str> {
        self.aggregates.iter().map(Aggregate::name)
    }

    /// Returns the accessors of the members by which records are counted.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Accessor> {
        self.columns.parts()
    }

    /// Returns the accessors of the members of the aggregates.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &Accessor> {
        self.aggregates.iter().map(Aggregate::part)
    }

    /// Returns the accessors of all members that are read.
    pub fn parts(&self) -> impl Iterator<Item = &Accessor> {
        self.keys().chain(self.inputs())
    }

    /// Adds a record.
    ///
    /// # Errors
    /// Returns the errors of [`Columns::values`], [`Record::get`] and [`Record::string`], and `records/sorted` if the
    /// different values take more memory than the limit.
    pub fn add(&mut self, record: &Record<'_>) -> Result<()> {
        let group = self.count(record, 1)?;
        self.aggregate(group, record)
    }

    /// Counts `count` records with the values of this one, and returns the index of their group.
    pub(super) fn count(&mut self, record: &Record<'_>, count: u64) -> Result<usize> {
        let values = self.columns.values(record)?;
        if let Some(at) = self.indices.get(&values) {
            self.found[*at].0 += count;
            return Ok(*at);
        }
        let texts: usize = values.iter().flatten().map(String::len).sum();
        let len = texts
            + (values.len() + 2) * size_of::<Option<String>>()
            + self.aggregates.len() * size_of::<Accumulator>();
        self.taken = self.taken.saturating_add(len as u64);
        if self.taken > self.most {
            let message = format!("the different values take more than {} bytes", self.most);
            let e = SORTED
                .broken(message)
                .with_remedy(Remedy::RaiseLimit { limit: "decoded_len", at_least: None });
            return Err(super::placed(e, record.records().tensor()));
        }
        let at = self.found.len();
        self.indices.insert(values, at);
        self.found.push((count, self.aggregates.iter().map(Aggregate::start).collect()));
        Ok(at)
    }

    /// Adds a record to the aggregates of a group.
    pub(super) fn aggregate(&mut self, group: usize, record: &Record<'_>) -> Result<()> {
        for (aggregate, found) in self.aggregates.iter().zip(&mut self.found[group].1) {
            aggregate.add(found, record)?;
        }
        Ok(())
    }

    /// Returns all groups, largest first; groups of equal size are sorted by the JSON text of their values.
    pub fn finish(self) -> Vec<Group> {
        let mut found: Vec<_> = self.found.into_iter().map(Some).collect();
        let mut all = Vec::with_capacity(found.len());
        for (values, at) in self.indices {
            let Some((count, accumulators)) = found[at].take() else { continue };
            let aggregates = self.aggregates.iter().zip(accumulators);
            let aggregates = aggregates.map(|(one, found)| one.finish(found)).collect();
            all.push(Group { values, count, aggregates });
        }
        all.sort_by(|a: &Group, b| b.count.cmp(&a.count).then_with(|| a.values.cmp(&b.values)));
        all
    }
}
