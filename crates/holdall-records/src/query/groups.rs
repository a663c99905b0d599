//! Counts records by their values.

use super::Columns;
use crate::rules::SORTED;
use crate::{Record, Records};
use holdall_collections::HashMap;
use holdall_core::{Remedy, Result};
use holdall_schema::Accessor;

/// Counts records by the values of some members, one record at a time. See [`Records::groups`].
#[derive(Debug, Clone)]
pub struct Groups {
    columns: Columns,
    counts: HashMap<Vec<Option<String>>, u64>,
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
}

impl Records {
    /// Returns a counter of records by the values of these members.
    ///
    /// # Errors
    /// Returns the same errors as [`Records::columns`].
    pub fn groups(&self, members: &[impl AsRef<str>]) -> Result<Groups> {
        let columns = self.columns(members)?;
        Ok(Groups {
            columns,
            counts: HashMap::default(),
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

    /// Returns the accessors of the members.
    pub fn parts(&self) -> impl Iterator<Item = &Accessor> {
        self.columns.parts()
    }

    /// Counts a record.
    ///
    /// # Errors
    /// Returns the errors of [`Columns::values`], and `records/sorted` if the different values take more memory than
    /// the limit.
    pub fn add(&mut self, record: &Record<'_>) -> Result<()> {
        self.add_many(record, 1)
    }

    /// Counts `count` records with the values of this one.
    pub(super) fn add_many(&mut self, record: &Record<'_>, count: u64) -> Result<()> {
        let values = self.columns.values(record)?;
        if let Some(before) = self.counts.get_mut(&values) {
            *before += count;
            return Ok(());
        }
        let texts: usize = values.iter().flatten().map(String::len).sum();
        let len = texts + (values.len() + 2) * size_of::<Option<String>>();
        self.taken = self.taken.saturating_add(len as u64);
        if self.taken > self.most {
            let message = format!("the different values take more than {} bytes", self.most);
            let e = SORTED
                .broken(message)
                .with_remedy(Remedy::RaiseLimit { limit: "decoded_len", at_least: None });
            return Err(super::placed(e, record.records().tensor()));
        }
        self.counts.insert(values, count);
        Ok(())
    }

    /// Returns all groups, largest first; groups of equal size are sorted by the JSON text of their values.
    pub fn finish(self) -> Vec<Group> {
        let all = self.counts.into_iter().map(|(values, count)| Group { values, count });
        let mut all: Vec<Group> = all.collect();
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.values.cmp(&b.values)));
        all
    }
}
