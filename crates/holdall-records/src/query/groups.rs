//! How many records have which values.

use super::Columns;
use crate::rules::SORTED;
use crate::{Record, Records};
use holdall_collections::HashMap;
use holdall_core::{Remedy, Result};
use holdall_schema::Accessor;

/// Counts records by the values of some members: takes them one by one. See [`Records::groups`].
#[derive(Debug, Clone)]
pub struct Groups {
    columns: Columns,
    counts: HashMap<Vec<Option<String>>, u64>,
    taken: u64,
    most: u64,
}

/// Records that have the same values.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Group {
    /// The JSON text of each member; `None` for one that these records do not have.
    pub values: Vec<Option<String>>,
    /// How many records.
    pub count: u64,
}

impl Records {
    /// Counts records by the values of these members.
    ///
    /// # Errors
    /// As [`Records::columns`].
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
    /// The paths of the members, as they are written.
    pub fn names(&self) -> &[String] {
        self.columns.names()
    }

    /// The ways to the members.
    pub fn parts(&self) -> impl Iterator<Item = &Accessor> {
        self.columns.parts()
    }

    /// Takes a record.
    ///
    /// # Errors
    /// As [`Columns::values`]; `records/sorted` where different values take more than the limit.
    pub fn add(&mut self, record: &Record<'_>) -> Result<()> {
        let values = self.columns.values(record)?;
        if let Some(count) = self.counts.get_mut(&values) {
            *count += 1;
            return Ok(());
        }
        let texts: usize = values.iter().flatten().map(String::len).sum();
        let len = texts + (values.len() + 2) * size_of::<Option<String>>();
        self.taken = self.taken.saturating_add(len as u64);
        if self.taken > self.most {
            let message = format!("more than {} bytes of different values", self.most);
            let e = SORTED
                .broken(message)
                .with_remedy(Remedy::RaiseLimit { limit: "decoded_len", at_least: None });
            return Err(super::placed(e, record.records().tensor()));
        }
        self.counts.insert(values, 1);
        Ok(())
    }

    /// All of them, the most records first; of equal ones the lesser JSON text.
    pub fn finish(self) -> Vec<Group> {
        let all = self.counts.into_iter().map(|(values, count)| Group { values, count });
        let mut all: Vec<Group> = all.collect();
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.values.cmp(&b.values)));
        all
    }
}
