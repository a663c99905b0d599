//! Reports as plain data: fields, lists, texts and numbers.
//!
//! [`ToPlain`] defines the fields of a report once. The command prints them as JSON, and the Python package
//! makes objects of them, so that both have the same names in the same order.

mod delta;
#[cfg(feature = "carton")]
mod package;
mod recipe;
mod reports;

use holdall_core::error::Detail;
use holdall_core::layout::number::Number;
use holdall_core::{Attributes, Digest, Error, Remedy, Role, TensorInfo, Value, Warning};
use holdall_json::write_string;
use std::borrow::Cow;

/// Plain data: the types of JSON, and types of this crate that have a form in JSON, which [`Plain::to_json`]
/// writes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Plain<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Integer(i128),
    /// A float; values that JSON lacks are written as `{"$float": "nan" | "inf" | "-inf"}`.
    Float(f64),
    /// A text.
    Text(Cow<'a, str>),
    /// Values in order.
    List(Vec<Plain<'a>>),
    /// Fields in the order in which they are shown; each name once.
    Object(Vec<(Cow<'a, str>, Plain<'a>)>),
    /// An element of a tensor; a complex one is a list of its two parts.
    Number(Number),
    /// The value of an attribute, as [`Value::to_json`] writes it.
    Value(&'a Value),
    /// Attributes, as [`Attributes::to_json`] writes them.
    Attributes(&'a Attributes),
    /// An error: `kind`, `code`, `message`, `source`, `tensor`, `component`, `range`, `hint`, `remedies`.
    Error(&'a Error),
    /// JSON text that was made elsewhere.
    Json(Cow<'a, str>),
}

/// A type that can be shown as plain data.
pub trait ToPlain {
    /// Returns the value as plain data.
    fn to_plain(&self) -> Plain<'_>;
}

/// An object of named fields: `fields!(a: x, b: y)`. With a value before `=>`, a name alone is a field of
/// that value: `fields!(self => len, name: self.name())`.
#[macro_export]
macro_rules! fields {
    ($it:tt => $($name:ident $(: $value:expr)?),* $(,)?) => {
        $crate::plain::Plain::Object(vec![$((
            ::std::borrow::Cow::Borrowed(stringify!($name)),
            $crate::fields!(@ $it $name $($value)?),
        )),*])
    };
    (@ $it:tt $name:ident) => { $crate::plain::Plain::from(&$it.$name) };
    (@ $it:tt $name:ident $value:expr) => { $crate::plain::Plain::from($value) };
    ($($name:ident: $value:expr),* $(,)?) => {
        $crate::plain::Plain::Object(vec![$((
            ::std::borrow::Cow::Borrowed(stringify!($name)),
            $crate::plain::Plain::from($value),
        )),*])
    };
}

impl<'a> Plain<'a> {
    /// Returns the values of `all` as a list.
    pub fn list<T: Into<Plain<'a>>>(all: impl IntoIterator<Item = T>) -> Plain<'a> {
        Plain::List(all.into_iter().map(Into::into).collect())
    }

    /// Returns the entries of `all` as an object, for names that come from data.
    pub fn map<K: Into<Cow<'a, str>>, T: Into<Plain<'a>>>(
        all: impl IntoIterator<Item = (K, T)>,
    ) -> Plain<'a> {
        Plain::Object(all.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }

    /// Returns this object with the fields of another after its own. A `more` that is not an object adds
    /// nothing.
    #[must_use]
    pub fn and(self, more: Plain<'a>) -> Plain<'a> {
        match (self, more) {
            (Plain::Object(mut fields), Plain::Object(more)) => {
                fields.extend(more);
                Plain::Object(fields)
            }
            (this, _) => this,
        }
    }

    /// Returns this object without the field `name`.
    #[must_use]
    pub fn without(mut self, name: &str) -> Plain<'a> {
        if let Plain::Object(fields) = &mut self {
            fields.retain(|(key, _)| key != name);
        }
        self
    }

    /// Returns the JSON text, on one line without spaces. `hint` returns what can be done about an error, in
    /// the terms of the caller's language: [`hint`] is the one for Rust.
    pub fn to_json(&self, hint: fn(&Error) -> Option<String>) -> String {
        let mut out = String::new();
        self.write(hint, &mut out);
        out
    }

    fn write(&self, hint: fn(&Error) -> Option<String>, out: &mut String) {
        match self {
            Plain::Null => out.push_str("null"),
            Plain::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Plain::Integer(n) => out.push_str(&n.to_string()),
            Plain::Float(x) => Value::Float(*x).write_json(out),
            Plain::Text(s) => write_string(s, out),
            Plain::List(all) => {
                for (at, one) in all.iter().enumerate() {
                    out.push(if at > 0 { ',' } else { '[' });
                    one.write(hint, out);
                }
                out.push_str(if all.is_empty() { "[]" } else { "]" });
            }
            Plain::Object(fields) => {
                for (at, (name, value)) in fields.iter().enumerate() {
                    out.push(if at > 0 { ',' } else { '{' });
                    write_string(name, out);
                    out.push(':');
                    value.write(hint, out);
                }
                out.push_str(if fields.is_empty() { "{}" } else { "}" });
            }
            Plain::Number(Number::Integer(n)) => Value::Integer(*n).write_json(out),
            Plain::Number(Number::Complex(re, im)) => Plain::from((*re, *im)).write(hint, out),
            Plain::Number(real) => Value::Float(real.to_f64()).write_json(out),
            Plain::Value(value) => value.write_json(out),
            Plain::Attributes(all) => out.push_str(&all.to_json()),
            Plain::Error(e) => error(e, hint(e)).write(hint, out),
            Plain::Json(text) => out.push_str(text),
        }
    }
}

/// Returns what can be done about an error, in terms of Rust: for [`Plain::to_json`].
pub fn hint(e: &Error) -> Option<String> {
    e.advice(|remedy| Some(remedy.to_string()))
}

/// Returns the fields of an error.
fn error(e: &Error, hint: Option<String>) -> Plain<'_> {
    fields! {
        kind: e.kind().as_str(),
        code: e.code(),
        message: e.message(),
        source: e.source_name(),
        tensor: e.tensor(),
        component: e.component(),
        range: e.range().map(|range| (range.start, range.end)),
        hint: hint,
        remedies: e.remedies(),
    }
}

impl ToPlain for Remedy {
    fn to_plain(&self) -> Plain<'_> {
        let details = self.details().into_iter().map(|(key, detail)| match detail {
            Detail::Number(n) => (key, Plain::from(n)),
            Detail::Text(text) => (key, Plain::from(text)),
        });
        fields!(do: self.name()).and(Plain::map(details))
    }
}

macro_rules! integers {
    ($($ty:ty),+) => {$(
        impl From<$ty> for Plain<'_> {
            fn from(n: $ty) -> Self {
                Plain::Integer(n as i128)
            }
        }
        impl ToPlain for $ty {
            fn to_plain(&self) -> Plain<'_> {
                (*self).into()
            }
        }
    )+};
}

integers!(u8, u16, u32, u64, usize, i64, i128);

macro_rules! copied {
    ($($ty:ty as $variant:ident),+) => {$(
        impl From<$ty> for Plain<'_> {
            fn from(value: $ty) -> Self {
                Plain::$variant(value)
            }
        }
        impl ToPlain for $ty {
            fn to_plain(&self) -> Plain<'_> {
                (*self).into()
            }
        }
    )+};
}

copied!(bool as Bool, f64 as Float, Number as Number);

impl<'a> From<&'a str> for Plain<'a> {
    fn from(s: &'a str) -> Plain<'a> {
        Plain::Text(s.into())
    }
}

impl From<String> for Plain<'_> {
    fn from(s: String) -> Self {
        Plain::Text(s.into())
    }
}

impl<'a, T: Into<Plain<'a>>> From<Option<T>> for Plain<'a> {
    fn from(value: Option<T>) -> Plain<'a> {
        value.map_or(Plain::Null, Into::into)
    }
}

impl<'a, A: Into<Plain<'a>>, B: Into<Plain<'a>>> From<(A, B)> for Plain<'a> {
    fn from((a, b): (A, B)) -> Plain<'a> {
        Plain::List(vec![a.into(), b.into()])
    }
}

impl<'a, T: ToPlain> From<&'a T> for Plain<'a> {
    fn from(value: &'a T) -> Plain<'a> {
        value.to_plain()
    }
}

impl<'a, T: ToPlain> From<&'a [T]> for Plain<'a> {
    fn from(all: &'a [T]) -> Plain<'a> {
        Plain::list(all)
    }
}

impl<T: ToPlain> ToPlain for Vec<T> {
    fn to_plain(&self) -> Plain<'_> {
        Plain::list(self)
    }
}

impl<T: ToPlain> ToPlain for Option<T> {
    fn to_plain(&self) -> Plain<'_> {
        self.as_ref().map_or(Plain::Null, ToPlain::to_plain)
    }
}

impl<A: ToPlain, B: ToPlain> ToPlain for (A, B) {
    fn to_plain(&self) -> Plain<'_> {
        Plain::List(vec![self.0.to_plain(), self.1.to_plain()])
    }
}

impl ToPlain for &str {
    fn to_plain(&self) -> Plain<'_> {
        (*self).into()
    }
}

impl ToPlain for String {
    fn to_plain(&self) -> Plain<'_> {
        self.as_str().into()
    }
}

impl ToPlain for Role {
    fn to_plain(&self) -> Plain<'_> {
        self.as_str().into()
    }
}

impl ToPlain for Digest {
    fn to_plain(&self) -> Plain<'_> {
        self.to_string().into()
    }
}

impl ToPlain for Value {
    fn to_plain(&self) -> Plain<'_> {
        Plain::Value(self)
    }
}

impl ToPlain for Attributes {
    fn to_plain(&self) -> Plain<'_> {
        Plain::Attributes(self)
    }
}

impl ToPlain for Error {
    fn to_plain(&self) -> Plain<'_> {
        Plain::Error(self)
    }
}

impl ToPlain for Warning {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self => code, message, tensor, component, count)
    }
}

impl ToPlain for TensorInfo {
    fn to_plain(&self) -> Plain<'_> {
        fields! {
            name: self.name(),
            dtype: self.dtype().map(|d| d.as_str()),
            logical_type: self.logical_type().map(|t| t.as_str().to_owned()),
            shape: self.shape(),
            layout: self.layout().as_str(),
        }
    }
}
