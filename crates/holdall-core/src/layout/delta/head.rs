//! The attribute of the file of a delta.

use super::NOT_DELTA;
use crate::error::Result;
use crate::model::{Attributes, Value};

/// The name of the attribute.
pub const KEY: &str = "delta";
/// The version of the layout of the file.
const VERSION: i128 = 1;

/// The attribute of the file of a delta.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeltaHead {
    /// The number of tensors of the target.
    pub tensors: u64,
    /// The names of the tensors of the base that the target lacks.
    pub removed: Vec<String>,
    /// The names of the tensors that the base lacks, if the delta has them.
    pub added: Option<Vec<String>>,
    /// The digest of the whole base, if the delta has it.
    pub base: Option<String>,
    /// The digest of the whole target, if the delta has it.
    pub target: Option<String>,
    /// What the base is called, if the delta says so.
    pub base_version: Option<String>,
    /// What the target is called, if the delta says so.
    pub target_version: Option<String>,
}

impl DeltaHead {
    /// Reads the attribute of a file with these attributes.
    ///
    /// # Errors
    /// Returns [`NOT_DELTA`] if there is no such attribute, or if it is of another version or invalid.
    pub fn read(attributes: &Attributes) -> Result<DeltaHead> {
        let broken = |what: &str| NOT_DELTA.broken(what.to_owned());
        let Some(Value::Map(pairs)) = attributes.get(KEY) else {
            return Err(broken("there is no attribute `delta`"));
        };
        let get = |key: &str| {
            let found = pairs.iter().find(|(k, _)| k.as_text() == Some(key));
            found.map(|(_, value)| value)
        };
        match get("version") {
            Some(Value::Integer(VERSION)) => {}
            Some(Value::Integer(other)) => {
                return Err(broken(&format!("its version is {other}; this build reads 1")));
            }
            _ => return Err(broken("`version` is missing")),
        }
        let tensors = match get("tensors") {
            Some(Value::Integer(n)) => u64::try_from(*n).ok(),
            _ => None,
        };
        let tensors = tensors.ok_or_else(|| broken("`tensors` is not a number"))?;
        let names = |key: &str| match get(key) {
            None => Ok(None),
            Some(Value::Array(all)) => {
                let names = all.iter().map(|name| name.as_text().map(str::to_owned));
                let names: Option<Vec<String>> = names.collect();
                let names = names.ok_or_else(|| broken(&format!("`{key}` is not a list of names")));
                names.map(Some)
            }
            Some(_) => Err(broken(&format!("`{key}` is not a list of names"))),
        };
        let (removed, added) = (names("removed")?.unwrap_or_default(), names("added")?);
        let text = |key: &str| get(key).and_then(Value::as_text).map(str::to_owned);
        let (base, target) = (text("base"), text("target"));
        let (base_version, target_version) = (text("base_version"), text("target_version"));
        Ok(DeltaHead { tensors, removed, added, base, target, base_version, target_version })
    }

    /// Returns the attribute.
    pub fn value(&self) -> Value {
        let text = |text: &str| Value::Text(text.to_owned());
        let mut pairs = vec![
            (text("version"), Value::Integer(VERSION)),
            (text("tensors"), Value::Integer(self.tensors.into())),
        ];
        let list = |names: &[String]| Value::Array(names.iter().map(|name| text(name)).collect());
        if !self.removed.is_empty() {
            pairs.push((text("removed"), list(&self.removed)));
        }
        if let Some(added) = &self.added {
            pairs.push((text("added"), list(added)));
        }
        for (key, value) in [
            ("base", &self.base),
            ("target", &self.target),
            ("base_version", &self.base_version),
            ("target_version", &self.target_version),
        ] {
            if let Some(value) = value {
                pairs.push((text(key), text(value)));
            }
        }
        Value::Map(pairs)
    }
}
