//! Fields of TOML tables, by name and type. Errors name the table.

use crate::rules::*;
use crate::warnings;
use holdall_core::error::{Error, Result, cut_message};
use holdall_core::limits::Limits;
use holdall_core::model::Warning;
use holdall_core::wire::toml::{self, Table, Value};

/// A table of one of the package's texts.
pub(super) struct Fields<'a> {
    pub(super) table: &'a Table,
    /// The table's name in errors: `` `carton.toml`, `[runner]` ``.
    place: String,
}

/// Parses the text of a file of the package; errors contain the file's name.
pub(super) fn parse(bytes: &[u8], name: &str, limits: &Limits) -> Result<Table> {
    toml::parse(bytes, limits).map_err(|e| in_text(e, name))
}

/// Adds the name of the text to an error.
pub(super) fn in_text(e: Error, name: &str) -> Error {
    e.within(format!("`{name}`"))
}

impl<'a> Fields<'a> {
    /// Returns the top-level fields of the text called `name`.
    pub(super) fn new(table: &'a Table, name: &str) -> Fields<'a> {
        Fields { table, place: format!("`{name}`") }
    }

    /// Returns an error about this table.
    pub(super) fn broken(&self, rule: &'static crate::Rule, what: impl AsRef<str>) -> Error {
        rule.broken(what.as_ref().to_owned()).within(self.place.clone())
    }

    /// Returns an error about a field that has another type than `wanted`.
    pub(super) fn wrong(&self, key: &str, wanted: &str) -> Error {
        let found = self.table.get(key).map_or("nothing", Value::type_str);
        self.broken(&FIELD, format!("`{key}` is {found}, not {wanted}"))
    }

    fn required<T>(&self, key: &str, found: Option<T>) -> Result<T> {
        found.ok_or_else(|| self.broken(&MISSING_FIELD, format!("there is no `{key}`")))
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "a text")),
        }
    }

    pub(super) fn required_text(&self, key: &str) -> Result<&'a str> {
        self.text(key).and_then(|found| self.required(key, found))
    }

    /// Returns a non-negative integer.
    pub(super) fn required_count(&self, key: &str) -> Result<u64> {
        match self.required(key, self.table.get(key))? {
            Value::Integer(n) => {
                u64::try_from(*n).map_err(|_| self.broken(&FIELD, format!("`{key}` is below 0")))
            }
            _ => Err(self.wrong(key, "a whole number")),
        }
    }

    pub(super) fn required_value(&self, key: &str) -> Result<&'a Value> {
        self.required(key, self.table.get(key))
    }

    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<String>>> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let texts = value.as_array().and_then(|items| {
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        texts.map(Some).ok_or_else(|| self.wrong(key, "a list of texts"))
    }

    pub(super) fn table(&self, key: &str) -> Result<Option<Fields<'a>>> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::Table(table)) => {
                Ok(Some(Fields { table, place: format!("{}, `[{key}]`", self.place) }))
            }
            Some(_) => Err(self.wrong(key, "a table")),
        }
    }

    pub(super) fn required_table(&self, key: &str) -> Result<Fields<'a>> {
        self.table(key).and_then(|found| self.required(key, found))
    }

    /// Returns the tables of a list; empty if there is no such list.
    pub(super) fn tables(&self, key: &str) -> Result<Vec<Fields<'a>>> {
        let Some(value) = self.table.get(key) else { return Ok(Vec::new()) };
        let items = value.as_array().ok_or_else(|| self.wrong(key, "a list of tables"))?;
        let field = |(at, item): (usize, &'a Value)| {
            let place = format!("{}, `[[{key}]]` number {}", self.place, at.saturating_add(1));
            item.as_table().map(|table| Fields { table, place })
        };
        let tables: Option<Vec<_>> = items.iter().enumerate().map(field).collect();
        tables.ok_or_else(|| self.wrong(key, "a list of tables"))
    }
}

/// Warnings: the first of each code, with a count.
#[derive(Debug, Default)]
pub(super) struct Warnings(pub(super) Vec<Warning>);

impl Warnings {
    pub(super) fn add(&mut self, code: &'static str, message: impl FnOnce() -> String) {
        self.add_many(code, 1, message);
    }

    /// Adds a warning that occurred `count` times.
    pub(super) fn add_many(
        &mut self,
        code: &'static str,
        count: u64,
        message: impl FnOnce() -> String,
    ) {
        match self.0.iter_mut().find(|w| w.code == code) {
            Some(w) => w.count = w.count.saturating_add(count),
            None => {
                let mut warning = Warning::new(code, cut_message(message().into()));
                warning.count = count;
                self.0.push(warning);
            }
        }
    }

    /// Adds a warning about an ignored field that is an extension or from a later version of the
    /// specification.
    pub(super) fn passed_over(&mut self, fields: &Fields<'_>, key: &str, wanted: &str) {
        let place = &fields.place;
        self.add(warnings::EXTENSION, || format!("{place}: `{key}` is not {wanted}; passed over"));
    }
}
