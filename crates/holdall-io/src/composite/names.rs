//! The names of the stored tensors of described weights, also after the weight was renamed.

use super::{LAYOUT, NAME, STORED, TEXTS, TEXTS_DIGEST};
use crate::error::SAME_NAME;
use holdall_core::error::Escape as _;
use holdall_core::model::{Algorithm, Hasher};
use holdall_core::{Attributes, Layout, Result, Value};
use holdall_models::quantized::PARAMETER;
use std::collections::{HashMap, HashSet};

/// The names under which the texts of a model describe its renamed weights.
#[derive(Debug, Default)]
pub(crate) struct Originals {
    /// The original name of each stored tensor, by its name.
    tensors: HashMap<String, String>,
    /// The original module of each module with a renamed weight, both with the last `.`.
    modules: HashMap<String, String>,
    /// The name of each renamed weight, by its original name.
    weights: HashMap<String, String>,
}

impl Originals {
    /// Returns `true` if no weight was renamed.
    pub(crate) fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// Adds a weight that was called `original`.
    pub(crate) fn add_weight(&mut self, name: &str, original: &str) {
        self.weights.insert(original.to_owned(), name.to_owned());
        let (module, last) = split(name);
        let (original, original_last) = split(original);
        if last == original_last {
            self.modules.insert(module.to_owned(), original.to_owned());
        }
    }

    /// Adds a stored tensor of a weight that was renamed.
    pub(crate) fn add_tensor(&mut self, name: &str, original: &str) {
        self.tensors.insert(name.to_owned(), original.to_owned());
    }

    /// Returns the name that the texts use for each of the tensors called `names`. `None` for one whose name the texts use for
    /// another.
    pub(crate) fn of_all<'a>(&self, names: &[&'a str]) -> HashMap<&'a str, String> {
        let mut out: HashMap<&str, String> = HashMap::new();
        let mut taken: HashSet<String> = HashSet::new();
        let mut add = |name: &'a str, original: String| {
            if taken.insert(original.clone()) {
                out.insert(name, original);
            }
        };
        for name in names {
            if let Some(original) = self.tensors.get(*name) {
                add(name, original.clone());
            }
        }
        // Such as the bias of a layer.
        for name in names.iter().filter(|name| !self.tensors.contains_key(**name)) {
            let (module, last) = split(name);
            if let Some(original) = self.modules.get(module) {
                add(name, format!("{original}{last}"));
            }
        }
        for name in names {
            let is_moved =
                self.tensors.contains_key(*name) || self.modules.contains_key(split(name).0);
            if !is_moved {
                add(name, (*name).to_owned());
            }
        }
        out
    }

    /// Returns the name of the weight that was called `original`.
    pub(crate) fn weight(&self, original: &str) -> Option<&str> {
        self.weights.get(original).map(String::as_str)
    }
}

/// Splits a name after its last `.`.
fn split(name: &str) -> (&str, &str) {
    name.split_at(name.rfind('.').map_or(0, |at| at + 1))
}

/// Returns the name of the stored tensor that was called `stored` when the weight `name` was called `original`. `None` if the new
/// name does not tell.
pub(super) fn moved(name: &str, original: &str, stored: &str) -> Option<String> {
    if name == original {
        return Some(stored.to_owned());
    }
    if let Some(rest) = stored.strip_prefix(original) {
        return Some(format!("{name}{rest}"));
    }
    let equal = original.bytes().zip(stored.bytes()).take_while(|(a, b)| a == b).count();
    let (original, stored) = match original.as_bytes()[..equal].iter().rposition(|b| *b == b'.') {
        Some(at) => (&original[at + 1..], &stored[at + 1..]),
        None => (original, stored),
    };
    let module = name.strip_suffix(original)?;
    let is_whole = module.is_empty() || module.ends_with('.');
    is_whole.then(|| format!("{module}{stored}"))
}

/// Returns the digest of the texts that an attribute of a file has, or of none.
pub(super) fn digest(attributes: &Attributes) -> String {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    if let Some(texts) = attributes.get(TEXTS) {
        hasher.update(texts.to_json().as_bytes());
    }
    hasher.finish().to_string()
}

/// Returns `true` if the tensor is a described weight.
pub(super) fn is_composite(layout: &Layout, attributes: &Attributes) -> bool {
    layout.as_str().starts_with(LAYOUT) && attributes.get(STORED).is_some()
}

/// Checks that the tensors of a file with these attributes can be read, if some of them are described weights: that the names
/// of the stored tensors follow from the name of their weight, and differ from all other names, and that the file has
/// the texts that the weights were found with.
///
/// # Errors
/// Returns [`SAME_NAME`] or [`PARAMETER`].
pub fn check_described<'a>(
    tensors: impl Iterator<Item = (&'a str, &'a Layout, &'a Attributes)>,
    of_file: &Attributes,
) -> Result<()> {
    let mut names: Vec<(String, &str)> = Vec::new();
    let mut originals: HashSet<&str> = HashSet::new();
    let mut expected = None;
    let mut has_any = false;
    let mut twice = None;
    for (name, layout, attributes) in tensors {
        if !is_composite(layout, attributes) {
            names.push((name.to_owned(), name));
            continue;
        }
        has_any = true;
        let expected = expected.get_or_insert_with(|| digest(of_file));
        let own = attributes.get(TEXTS_DIGEST).and_then(Value::as_text);
        if own.is_some_and(|own| own != expected) {
            let message = format!("the texts in `{TEXTS}` of the file are not those of the weight");
            let hint = "weights of models with different configurations stay in different files, or become dense";
            return Err(PARAMETER.broken(message).with_hint(hint).in_tensor(name));
        }
        let original = attributes.get(NAME).and_then(Value::as_text).unwrap_or(name);
        let Some(Value::Array(all)) = attributes.get(STORED) else { continue };
        for one in all {
            let Value::Map(pairs) = one else { continue };
            let found = pairs.iter().find(|(key, _)| key.as_text() == Some("name"));
            let Some(stored) = found.and_then(|(_, value)| value.as_text()) else { continue };
            names.push((stored_name(name, original, stored)?, name));
            if !originals.insert(stored) {
                twice.get_or_insert((name, stored));
            }
        }
    }
    if !has_any {
        return Ok(());
    }
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let message = format!(
            "it would be the name of two tensors, as stored ones count: see `{}` and `{}`",
            pair[0].1.escaped(),
            pair[1].1.escaped()
        );
        return Err(SAME_NAME.broken(message).in_tensor(&pair[0].0));
    }
    match twice {
        Some((name, stored)) => {
            let stored = stored.escaped();
            let message = format!("two weights were stored as `{stored}`, and were then renamed");
            Err(PARAMETER.broken(message).in_tensor(name))
        }
        None => Ok(()),
    }
}

/// Returns the name that a stored tensor has now: see [`moved`].
pub(super) fn stored_name(name: &str, original: &str, stored: &str) -> Result<String> {
    moved(name, original, stored).ok_or_else(|| {
        let (original, stored) = (original.escaped(), stored.escaped());
        let message = format!(
            "the name of the stored tensor `{stored}` of `{original}` does not follow from the new name"
        );
        PARAMETER
            .broken(message)
            .with_hint("a new name of a described weight ends like the old one, such as with `.weight`")
            .in_tensor(name)
    })
}

#[cfg(test)]
mod tests {
    use super::moved;

    #[test]
    fn stored_names_follow_the_name_of_the_weight() {
        for (name, original, stored, expected) in [
            ("a.weight", "a.weight", "a.qweight", Some("a.qweight")),
            ("b.c.weight", "a.weight", "a.qweight", Some("b.c.qweight")),
            ("b.w", "a.weight", "a.weight_scale", Some("b.w_scale")),
            ("x.weight", "weight", "qweight", Some("x.qweight")),
            ("b.w", "a.weight", "a.qweight", None),
            ("b.xweight", "a.weight", "a.weigh", None),
            ("e.x", "d.x", "d.x_blocks", Some("e.x_blocks")),
        ] {
            assert_eq!(moved(name, original, stored).as_deref(), expected, "{name}");
        }
    }
}
