//! Reading a TOML text key by key, with errors that give the line.

use super::TEXT;
use super::expression::{Expression, parse};
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::wire::toml::{DeTable, DeValue, Spanned, line, parse_placed};

/// A table that is read key by key.
pub(super) struct Table<'t> {
    text: &'t str,
    /// The path of keys to the table.
    path: String,
    /// The offset of the table in the text.
    at: usize,
    left: DeTable<'t>,
}

/// A key and its value.
pub(super) struct Entry<'t> {
    text: &'t str,
    path: String,
    at: usize,
    key: String,
    value: DeValue<'t>,
}

impl<'t> Table<'t> {
    /// Parses a whole text.
    ///
    /// # Errors
    /// Returns the errors of TOML.
    pub(super) fn parse(bytes: &'t [u8], limits: &Limits) -> Result<Table<'t>> {
        let (text, left) = parse_placed(bytes, limits)?;
        Ok(Table { text, path: String::new(), at: 0, left })
    }

    fn entry(
        &self,
        key: Spanned<std::borrow::Cow<'t, str>>,
        value: Spanned<DeValue<'t>>,
    ) -> Entry<'t> {
        let at = key.span().start;
        let key = key.into_inner().into_owned();
        let dot = if self.path.is_empty() { "" } else { "." };
        let path = format!("{}{dot}{key}", self.path);
        Entry { text: self.text, path, at, key, value: value.into_inner() }
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Entry<'t>> {
        let (key, value) = self.left.remove_entry(key)?;
        Some(self.entry(key, value))
    }

    pub(super) fn require(&mut self, key: &str) -> Result<Entry<'t>> {
        self.take(key).ok_or_else(|| self.wrong(&format!("missing key `{key}`")))
    }

    /// Takes an optional text.
    pub(super) fn take_text(&mut self, key: &str) -> Result<Option<String>> {
        self.take(key).map(|e| e.text().map(str::to_owned)).transpose()
    }

    /// Takes an optional text or list of texts; empty if the key is missing.
    pub(super) fn take_texts(&mut self, key: &str) -> Result<Vec<String>> {
        Ok(self.take(key).map(|e| e.texts()).transpose()?.unwrap_or_default())
    }

    /// Takes an optional expression.
    pub(super) fn take_expression(&mut self, key: &str) -> Result<Option<Expression>> {
        self.take(key).map(|e| e.expression()).transpose()
    }

    /// Takes an optional truth value, which is false if the key is missing.
    pub(super) fn take_flag(&mut self, key: &str) -> Result<bool> {
        match self.take(key) {
            None => Ok(false),
            Some(e) => e.value.as_bool().ok_or_else(|| e.kind("true or false")),
        }
    }

    /// Takes an optional table, and returns its entries in the order of the text.
    pub(super) fn take_entries(&mut self, key: &str) -> Result<Vec<Entry<'t>>> {
        let table = self.take(key).map(Entry::table).transpose()?;
        Ok(table.map(Table::entries).unwrap_or_default())
    }

    pub(super) fn entries(mut self) -> Vec<Entry<'t>> {
        let all = std::mem::take(&mut self.left);
        all.into_iter().map(|(key, value)| self.entry(key, value)).collect()
    }

    /// Checks that no key is left.
    pub(super) fn finish(self) -> Result<()> {
        match self.entries().into_iter().next() {
            None => Ok(()),
            Some(e) => Err(e.wrong("unknown key")),
        }
    }

    #[cold]
    pub(super) fn wrong(&self, what: &str) -> Error {
        let (line, path) = (line(self.text, self.at), self.path.escaped());
        let inside = if self.path.is_empty() { String::new() } else { format!(" in `{path}`") };
        TEXT.broken(format!("line {line}: {what}{inside}"))
    }

    /// Returns the line of the table, such as `line 12`.
    pub(super) fn line(&self) -> String {
        format!("line {}", line(self.text, self.at))
    }

    /// Adds the line of the table to an error.
    #[cold]
    pub(super) fn in_context(&self, e: Error) -> Error {
        e.within(self.line())
    }
}

impl<'t> Entry<'t> {
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Returns the line of the key, such as `line 12`.
    pub(super) fn line(&self) -> String {
        format!("line {}", line(self.text, self.at))
    }

    #[cold]
    pub(super) fn wrong(&self, what: &str) -> Error {
        self.in_context(TEXT.broken(what.to_owned()))
    }

    /// Adds the line and the key to an error.
    #[cold]
    pub(super) fn in_context(&self, e: Error) -> Error {
        e.within(format!("line {}: `{}`", line(self.text, self.at), self.path.escaped()))
    }

    #[cold]
    fn kind(&self, wanted: &str) -> Error {
        self.wrong(&format!("expected {wanted}, found {}", self.value.type_str()))
    }

    pub(super) fn is_table(&self) -> bool {
        self.value.is_table()
    }

    pub(super) fn table(self) -> Result<Table<'t>> {
        match self.value {
            DeValue::Table(left) => {
                Ok(Table { text: self.text, path: self.path, at: self.at, left })
            }
            _ => Err(self.kind("a table")),
        }
    }

    /// Returns the tables of a list.
    pub(super) fn tables(self) -> Result<Vec<Table<'t>>> {
        let DeValue::Array(all) = self.value else { return Err(self.kind("a list of tables")) };
        let one = |item: Spanned<DeValue<'t>>| {
            let at = item.span().start;
            let found = Entry {
                text: self.text,
                path: self.path.clone(),
                at,
                key: self.key.clone(),
                value: item.into_inner(),
            };
            found.table()
        };
        all.into_iter().map(one).collect()
    }

    pub(super) fn text(&self) -> Result<&str> {
        self.value.as_str().ok_or_else(|| self.kind("a text"))
    }

    /// Returns a text, or the texts of a list.
    pub(super) fn texts(&self) -> Result<Vec<String>> {
        if let Some(one) = self.value.as_str() {
            return Ok(vec![one.to_owned()]);
        }
        let each = |item: &DeValue<'_>| item.as_str().map(str::to_owned);
        self.items()?.map(|item| each(item).ok_or_else(|| self.kind("a list of texts"))).collect()
    }

    fn items(&self) -> Result<impl Iterator<Item = &DeValue<'t>>> {
        let all = self.value.as_array().ok_or_else(|| self.kind("a list"))?;
        Ok(all.iter().map(Spanned::get_ref))
    }

    pub(super) fn integer(&self) -> Result<i64> {
        integer(&self.value).ok_or_else(|| self.kind("a whole number"))
    }

    /// Returns a whole number, or the whole numbers of a list.
    pub(super) fn integers(&self) -> Result<Vec<i64>> {
        if let Some(one) = integer(&self.value) {
            return Ok(vec![one]);
        }
        let each = |item| integer(item).ok_or_else(|| self.kind("a list of whole numbers"));
        self.items()?.map(each).collect()
    }

    /// Returns an expression: a text, or a number or truth value as it is.
    pub(super) fn expression(&self) -> Result<Expression> {
        expression(&self.value)
            .unwrap_or_else(|| Err(self.kind("an expression")))
            .map_err(|e| self.in_context(e))
    }

    /// Returns the expressions of a list.
    pub(super) fn expressions(&self) -> Result<Vec<Expression>> {
        let each = |item| {
            expression(item)
                .unwrap_or_else(|| Err(self.kind("a list of expressions")))
                .map_err(|e| self.in_context(e))
        };
        self.items()?.map(each).collect()
    }
}

fn integer(value: &DeValue<'_>) -> Option<i64> {
    match value {
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok(),
        _ => None,
    }
}

fn expression(value: &DeValue<'_>) -> Option<Result<Expression>> {
    Some(Ok(match value {
        DeValue::Integer(_) => Expression::Integer(integer(value)?),
        DeValue::Float(x) => Expression::Float(x.as_str().parse().ok()?),
        DeValue::Boolean(b) => Expression::Bool(*b),
        DeValue::String(text) => return Some(parse(text)),
        _ => return None,
    }))
}
