//! Parsing descriptions.

use super::description::{Attribute, Component, Description};
use super::expression::{Expression, Indexed, Name, is_function, is_word, parse};
use super::part::{BitOrder, Number, Operand, Stored};
use super::{DESCRIPTION, TAKEN};
use crate::error::{Error, Escape as _, Result, list};
use crate::layout::cast::FloatType;
use crate::limits::Limits;
use crate::model::{DType, Layout, LogicalType, Role};
use crate::wire::toml::{DeTable, DeValue, Spanned, line, parse_placed};
use holdall_collections::HashMap;
use std::sync::Arc;

/// Parses the layouts in a text.
///
/// # Errors
/// Returns the errors of TOML, and [`DESCRIPTION`], [`EXPRESSION`](super::EXPRESSION) or [`TAKEN`], with the line and
/// the key.
pub(super) fn layouts(text: &[u8], limits: &Limits) -> Result<HashMap<String, Arc<Description>>> {
    let mut out = HashMap::default();
    let (text, root) = parse_placed(text, limits)?;
    let mut reader = Table { text, path: String::new(), at: 0, left: root };
    let layouts = reader.require("layouts")?.table()?;
    reader.finish()?;
    for found in layouts.entries() {
        let name = found.key().to_owned();
        if !matches!(Layout::from_name(&name), Layout::Other(_)) {
            return Err(found.blame(TAKEN.broken("the layout already has a meaning")));
        }
        let description = description(found.table()?, limits)?;
        out.insert(name, Arc::new(description));
    }
    Ok(out)
}

/// Names and their meanings.
struct Names(HashMap<String, Name>);

impl Names {
    fn add(&mut self, found: &Entry<'_>, name: &str, is: Name) -> Result<()> {
        let message = if !is_word(name) {
            "is not a valid name: names consist of letters, digits and `_`"
        } else if is_function(name) {
            "is the name of a function"
        } else if self.0.insert(name.to_owned(), is).is_some() {
            "is used for two things"
        } else {
            return Ok(());
        };
        Err(found.wrong(format!("`{}` {message}", name.escaped())))
    }

    fn expression(&self, found: &Entry<'_>, text: &str) -> Result<Expression> {
        parse(text, &|name| self.0.get(name).copied()).map_err(|e| found.blame(e))
    }
}

fn description(mut table: Table<'_>, limits: &Limits) -> Result<Description> {
    let about = table.take("about").map(|e| e.text().map(str::to_owned)).transpose()?;
    let dtype = match table.take("dtype") {
        None => FloatType::F32,
        Some(e) => {
            let name = e.text()?;
            let known = || list(FloatType::ALL.into_iter().map(FloatType::as_str));
            let wrong = || {
                e.wrong(format!("unknown type `{}`; expected one of {}", name.escaped(), known()))
            };
            FloatType::from_name(name).ok_or_else(wrong)?
        }
    };
    let mut sizes = Names(HashMap::default());
    sizes.0.insert("count".to_owned(), Name::Count);
    let dimensions = match table.take("shape") {
        None => None,
        Some(e) => {
            let names = e.texts()?;
            if names.len() > limits.rank {
                return Err(e.wrong(format!("more than {} dimensions", limits.rank)));
            }
            for (at, name) in names.iter().enumerate() {
                sizes.add(&e, name, Name::Dimension(at))?;
            }
            Some(names)
        }
    };
    let mut attributes = Vec::new();
    for e in
        table.take("attributes").map(Entry::table).transpose()?.into_iter().flat_map(Table::entries)
    {
        let name = e.key().to_owned();
        sizes.add(&e, &name, Name::Attribute(attributes.len()))?;
        let mut inside = e.table()?;
        let default = inside.take("default").map(|e| e.number()).transpose()?;
        inside.finish()?;
        attributes.push(Attribute { name, default });
    }
    // The shape of one component does not depend on the elements of another.
    let mut names = Names(sizes.0.clone());
    let index = table.require("index")?;
    let indices = index.texts()?;
    let wanted = dimensions.as_ref().map_or(1, Vec::len);
    if indices.len() != wanted {
        let message = format!(
            "expected one name for each of {wanted} dimensions, found {} names",
            indices.len()
        );
        return Err(index.wrong(message));
    }
    for (at, name) in indices.iter().enumerate() {
        names.add(&index, name, Name::Index(at))?;
    }
    let mut tables = Vec::new();
    for e in
        table.take("tables").map(Entry::table).transpose()?.into_iter().flat_map(Table::entries)
    {
        let name = e.key().to_owned();
        names.add(&e, &name, Name::Items(Indexed::Table(tables.len()), 1))?;
        tables.push(Operand::table(&name, e.numbers()?));
    }
    let mut components = Vec::new();
    for e in table.require("components")?.table()?.entries() {
        let role = e.key().to_owned();
        let at = components.len();
        let (key, mut inside) = (e.shallow(), e.table()?);
        let component = component(&role, &mut inside, &sizes)?;
        inside.finish()?;
        let subscripts = component.shape.len();
        names.add(&key, &role, Name::Items(Indexed::Component(at), subscripts))?;
        components.push(component);
    }
    let value = table.require("value")?;
    let value = names.expression(&value, value.text()?)?;
    table.finish()?;
    Ok(Description { about, dtype, dimensions, attributes, components, tables, value })
}

fn component(role: &str, table: &mut Table<'_>, sizes: &Names) -> Result<Component> {
    let dtypes = match table.take("dtype") {
        None => Vec::new(),
        Some(e) => {
            let known = |name: &String| {
                let wrong = || e.wrong(format!("unknown dtype `{}`", name.escaped()));
                DType::from_name(name).ok_or_else(wrong)
            };
            let names = e.text().map_or_else(|_| e.texts(), |one| Ok(vec![one.to_owned()]))?;
            names.iter().map(known).collect::<Result<_>>()?
        }
    };
    let (read_as, bits) = (table.take("read_as"), table.take("bits"));
    let (signed, first) = (table.take("signed"), table.take("first"));
    if let (Some(e), None) = (signed.as_ref().or(first.as_ref()), &bits) {
        return Err(e.wrong("this key requires `bits`".to_owned()));
    }
    let stored = match (read_as, bits) {
        (None, None) => None,
        (Some(e), Some(_)) => {
            return Err(e.wrong("pass either `read_as` or `bits`, not both".to_owned()));
        }
        (Some(e), None) => {
            let name = e.text()?;
            let logical = LogicalType::from_name(name);
            Some(match (DType::from_name(name), logical.storage()) {
                (Some(dtype), _) => Stored::Typed(dtype, None),
                (None, Some(dtype)) if logical.bits().is_some_and(|bits| bits <= 8) => {
                    Stored::Typed(dtype, Some(logical))
                }
                _ => return Err(e.wrong(format!("`{}` is not a numeric type", name.escaped()))),
            })
        }
        (None, Some(e)) => {
            let bits = match e.number()? {
                Number::Whole(bits @ 1..=32) => bits as u32,
                _ => return Err(e.wrong("expected 1 to 32 bits per element".to_owned())),
            };
            let signed = signed.map(|e| e.truth()).transpose()?.unwrap_or(false);
            let first = match first.map(|e| e.text().map(|text| (text.to_owned(), e.shallow()))) {
                None => BitOrder::Low,
                Some(Err(e)) => return Err(e),
                Some(Ok((text, e))) => match text.as_str() {
                    "low" => BitOrder::Low,
                    "high" if 8 % bits == 0 => BitOrder::High,
                    "high" => {
                        return Err(
                            e.wrong(format!("elements of {bits} bits do not fill whole bytes"))
                        );
                    }
                    other => {
                        return Err(e.wrong(format!(
                            "expected `low` or `high`, found `{}`",
                            other.escaped()
                        )));
                    }
                },
            };
            Some(Stored::Bits { bits, signed, first })
        }
    };
    let mut shape = Vec::new();
    let e = table.require("shape")?;
    for size in e.sizes()? {
        shape.push(match size {
            Size::Whole(n) => Expression::Whole(n),
            Size::Text(text) => sizes.expression(&e, &text)?,
        });
    }
    let default = table.take("default").map(|e| e.number()).transpose()?;
    Ok(Component { role: Role::from_name(role), dtypes, stored, shape, default })
}

/// A dimension of a component: a number or an expression.
enum Size {
    Whole(i64),
    Text(String),
}

/// A table that is read key by key.
struct Table<'t> {
    text: &'t str,
    /// The path of keys to the table.
    path: String,
    /// The offset of the table in the text.
    at: usize,
    left: DeTable<'t>,
}

/// A key and its value.
struct Entry<'t> {
    text: &'t str,
    path: String,
    at: usize,
    key: String,
    value: DeValue<'t>,
}

impl<'t> Table<'t> {
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

    fn take(&mut self, key: &str) -> Option<Entry<'t>> {
        let (key, value) = self.left.remove_entry(key)?;
        Some(self.entry(key, value))
    }

    fn require(&mut self, key: &str) -> Result<Entry<'t>> {
        match self.take(key) {
            Some(found) => Ok(found),
            None => {
                let (line, path) = (line(self.text, self.at), self.path.escaped());
                let inside =
                    if self.path.is_empty() { String::new() } else { format!(" in `{path}`") };
                Err(DESCRIPTION.broken(format!("line {line}: missing key `{key}`{inside}")))
            }
        }
    }

    fn entries(mut self) -> impl Iterator<Item = Entry<'t>> {
        let all = std::mem::take(&mut self.left);
        all.into_iter().map(move |(key, value)| self.entry(key, value))
    }

    /// Checks that no key is left.
    fn finish(self) -> Result<()> {
        match self.entries().next() {
            None => Ok(()),
            Some(e) => Err(e.wrong("unknown key".to_owned())),
        }
    }
}

impl<'t> Entry<'t> {
    fn key(&self) -> &str {
        &self.key
    }

    /// Returns the entry without its value, for errors.
    fn shallow(&self) -> Entry<'t> {
        let (path, key) = (self.path.clone(), self.key.clone());
        Entry { text: self.text, path, at: self.at, key, value: DeValue::Boolean(false) }
    }

    #[cold]
    fn wrong(&self, what: String) -> Error {
        self.blame(DESCRIPTION.broken(what))
    }

    /// Adds the line and the key to an error.
    #[cold]
    fn blame(&self, e: Error) -> Error {
        e.within(format!("line {}: `{}`", line(self.text, self.at), self.path.escaped()))
    }

    #[cold]
    fn kind(&self, wanted: &str) -> Error {
        self.wrong(format!("expected {wanted}, found {}", self.value.type_str()))
    }

    fn table(self) -> Result<Table<'t>> {
        match self.value {
            DeValue::Table(left) => {
                Ok(Table { text: self.text, path: self.path, at: self.at, left })
            }
            _ => Err(self.kind("a table")),
        }
    }

    fn text(&self) -> Result<&str> {
        self.value.as_str().ok_or_else(|| self.kind("a string"))
    }

    fn truth(&self) -> Result<bool> {
        self.value.as_bool().ok_or_else(|| self.kind("true or false"))
    }

    fn number(&self) -> Result<Number> {
        number(&self.value).ok_or_else(|| self.kind("a number below 2^63"))
    }

    fn items(&self) -> Result<impl Iterator<Item = &DeValue<'t>>> {
        let all = self.value.as_array().ok_or_else(|| self.kind("a list"))?;
        Ok(all.iter().map(Spanned::get_ref))
    }

    fn numbers(&self) -> Result<Vec<Number>> {
        let each = |item| number(item).ok_or_else(|| self.kind("a list of numbers"));
        self.items()?.map(each).collect()
    }

    fn texts(&self) -> Result<Vec<String>> {
        let each = |item: &DeValue<'_>| item.as_str().map(str::to_owned);
        self.items()?.map(|item| each(item).ok_or_else(|| self.kind("a list of strings"))).collect()
    }

    fn sizes(&self) -> Result<Vec<Size>> {
        let each = |item: &DeValue<'t>| match (number(item), item.as_str()) {
            (Some(Number::Whole(n)), _) => Ok(Size::Whole(n)),
            (_, Some(text)) => Ok(Size::Text(text.to_owned())),
            _ => Err(self.kind("a list of whole numbers and expressions")),
        };
        self.items()?.map(each).collect()
    }
}

fn number(value: &DeValue<'_>) -> Option<Number> {
    match value {
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok().map(Number::Whole),
        DeValue::Float(x) => x.as_str().parse().ok().map(Number::Real),
        _ => None,
    }
}
