//! User-defined formats and keywords.

use crate::error::{Escape as _, Result};
use crate::kinds::is_kind;
use crate::refs::{MANY, NAMED, ONE};
use crate::rules::OWN_KEYWORD;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

type Format = Arc<dyn Fn(&str) -> bool + Send + Sync>;
type Keyword = Arc<dyn Fn(&Value, &Value) -> bool + Send + Sync>;

/// User-defined formats and keywords that values are checked against, in addition to the keywords of JSON Schema and of
/// this format: see [`Document::with_vocabulary`](crate::Document::with_vocabulary). A custom kind is a keyword next to
/// a kind that defines the bytes: `{"TypeDef:Int64": true, "TypeDef:Money": "EUR"}`.
#[derive(Clone, Default)]
pub struct Vocabulary {
    pub(crate) formats: BTreeMap<String, Format>,
    pub(crate) keywords: BTreeMap<String, Keyword>,
}

impl Vocabulary {
    /// Creates an empty vocabulary.
    pub fn new() -> Vocabulary {
        Vocabulary::default()
    }

    /// Returns `true` if there are no formats and keywords.
    pub fn is_empty(&self) -> bool {
        self.formats.is_empty() && self.keywords.is_empty()
    }

    /// Adds a value of the keyword `format`. `check` returns whether a text has the format. Formats that are not added
    /// have no effect.
    pub fn with_format(
        mut self,
        name: impl Into<String>,
        check: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Vocabulary {
        self.formats.insert(name.into(), Arc::new(check));
        self
    }

    /// Adds a keyword. `check` is called with the keyword's value in the schema and the value to check, and returns
    /// whether the value is valid.
    pub fn with_keyword(
        mut self,
        name: impl Into<String>,
        check: impl Fn(&Value, &Value) -> bool + Send + Sync + 'static,
    ) -> Vocabulary {
        self.keywords.insert(name.into(), Arc::new(check));
        self
    }

    /// Checks that no keyword already has a meaning.
    ///
    /// # Errors
    /// Returns `schema/own-keyword` if one does.
    pub(crate) fn check(&self) -> Result<()> {
        for name in self.keywords.keys() {
            let is_taken = |k: &&str| *k == name.as_str();
            if name.strip_prefix("TypeDef:").is_some_and(is_kind) {
                let message = format!("`{}` is a kind of this format", name.escaped());
                return Err(OWN_KEYWORD.broken(message));
            }
            if name.starts_with('$')
                || ONE.iter().chain(&MANY).chain(&NAMED).chain(&TAKEN).any(is_taken)
            {
                let message = format!("`{}` already has a meaning", name.escaped());
                return Err(OWN_KEYWORD.broken(message));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary")
            .field("formats", &self.formats.keys())
            .field("keywords", &self.keywords.keys())
            .finish()
    }
}

/// Keywords that do not contain schemas.
const TAKEN: [&str; 34] = [
    "align",
    "const",
    "contentEncoding",
    "contentMediaType",
    "default",
    "dependencies",
    "dependentRequired",
    "deprecated",
    "description",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "id",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "readOnly",
    "required",
    "title",
    "type",
    "uniqueItems",
    "writeOnly",
    "holdall:step",
];
