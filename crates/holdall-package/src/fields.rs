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
    location: String,
}

/// Parses the text of a file of the package; errors contain the file's name.
pub(super) fn parse(bytes: &[u8], name: &str, limits: &Limits) -> Result<Table> {
    toml::parse(bytes, limits).map_err(|e| in_file(e, name))
}

/// Adds the name of the text to an error.
pub(super) fn in_file(e: Error, name: &str) -> Error {
    e.within(format!("`{name}`"))
}

impl<'a> Fields<'a> {
    /// Returns the top-level fields of the text called `name`.
    pub(super) fn new(table: &'a Table, name: &str) -> Fields<'a> {
        Fields { table, location: format!("`{name}`") }
    }

    /// Returns an error about this table.
    pub(super) fn broken(&self, rule: &'static crate::Rule, what: impl AsRef<str>) -> Error {
        rule.broken(what.as_ref().to_owned()).within(self.location.clone())
    }

    /// Returns an error about a field that has another type than `wanted`.
    pub(super) fn wrong_type(&self, key: &str, wanted: &str) -> Error {
        let found = self.table.get(key).map_or("nothing", Value::type_str);
        self.broken(&FIELD, format!("`{key}` is {found}, not {wanted}"))
    }

    fn required<T>(&self, key: &str, found: Option<T>) -> Result<T> {
        found.ok_or_else(|| self.broken(&MISSING_FIELD, format!("`{key}` is missing")))
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong_type(key, "a string")),
        }
    }

    pub(super) fn required_text(&self, key: &str) -> Result<&'a str> {
        self.text(key).and_then(|found| self.required(key, found))
    }

    /// Returns a non-negative integer.
    pub(super) fn required_count(&self, key: &str) -> Result<u64> {
        match self.required(key, self.table.get(key))? {
            Value::Integer(n) => {
                u64::try_from(*n).map_err(|_| self.broken(&FIELD, format!("`{key}` is negative")))
            }
            _ => Err(self.wrong_type(key, "an integer")),
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
        texts.map(Some).ok_or_else(|| self.wrong_type(key, "a list of strings"))
    }

    pub(super) fn table(&self, key: &str) -> Result<Option<Fields<'a>>> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::Table(table)) => {
                Ok(Some(Fields { table, location: format!("{}, `[{key}]`", self.location) }))
            }
            Some(_) => Err(self.wrong_type(key, "a table")),
        }
    }

    pub(super) fn required_table(&self, key: &str) -> Result<Fields<'a>> {
        self.table(key).and_then(|found| self.required(key, found))
    }

    /// Returns the tables of a list; empty if there is no such list.
    pub(super) fn tables(&self, key: &str) -> Result<Vec<Fields<'a>>> {
        let Some(value) = self.table.get(key) else { return Ok(Vec::new()) };
        let items = value.as_array().ok_or_else(|| self.wrong_type(key, "a list of tables"))?;
        let field = |(at, item): (usize, &'a Value)| {
            let location =
                format!("{}, `[[{key}]]` number {}", self.location, at.saturating_add(1));
            item.as_table().map(|table| Fields { table, location })
        };
        let tables: Option<Vec<_>> = items.iter().enumerate().map(field).collect();
        tables.ok_or_else(|| self.wrong_type(key, "a list of tables"))
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
    pub(super) fn ignored(&mut self, fields: &Fields<'_>, key: &str, wanted: &str) {
        let location = &fields.location;
        self.add(warnings::EXTENSION, || {
            format!("{location}: `{key}` is not {wanted}; it is ignored")
        });
    }
}
