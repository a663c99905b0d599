//! Attributes that a format cannot store otherwise, kept as JSON text in its header.

use holdall_collections::HashMap;
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::Attributes;
#[cfg(any(feature = "gguf", feature = "hdf5"))]
use holdall_core::model::Value;
use holdall_json::{DUPLICATE_KEY, Reader, write_string};

/// The prefix of keys that Holdall adds.
#[cfg(feature = "safetensors")]
pub(super) const PREFIX: &str = "holdall.";
/// The key of the file's attributes that the format cannot store.
#[cfg(any(feature = "safetensors", feature = "gguf", feature = "hdf5"))]
pub(super) const ATTRIBUTES: &str = "holdall.attributes";
/// The key of the attributes of tensors.
#[cfg(any(feature = "safetensors", feature = "gguf"))]
pub(super) const TENSOR_ATTRIBUTES: &str = "holdall.tensor_attributes";

/// The maximum number of levels of JSON for one level of an attribute value: a map is `{"$map":[[key,value]]}`.
const JSON_LEVELS: usize = 3;

/// The attributes of tensors, by name of the tensor.
pub(super) type TensorAttributes = HashMap<String, Attributes>;

/// Returns the maximum depth of the JSON text.
pub(super) fn depth(limits: &Limits) -> usize {
    limits.depth.saturating_mul(JSON_LEVELS).saturating_add(2)
}

/// Parses the text under [`TENSOR_ATTRIBUTES`].
pub(super) fn read_tensor_attributes(text: &str, depth: usize) -> Result<TensorAttributes> {
    let mut reader = Reader::new(text.as_bytes(), 0, depth)?;
    let mut scratch = String::new();
    let mut all = HashMap::default();
    reader.begin_object()?;
    while let Some(name) = reader.next_key(&mut scratch)? {
        let name = name.to_owned();
        let attributes = Attributes::read_json(&mut reader)?;
        if all.contains_key(&name) {
            return Err(duplicate_tensor(&name));
        }
        all.insert(name, attributes);
    }
    reader.end()?;
    Ok(all)
}

/// Returns the error for a tensor that has attributes twice.
#[cold]
pub(super) fn duplicate_tensor(name: &str) -> Error {
    DUPLICATE_KEY.broken(format!("the tensor `{}` has attributes twice", name.escaped()))
}

/// The attributes in entries that Holdall adds to a zip: those of the file, those of tensors, and the names of entries
/// that cannot be parsed, with the errors.
#[cfg(any(feature = "numpy", feature = "pytorch"))]
#[derive(Default)]
pub(super) struct Entries {
    pub(super) attributes: Attributes,
    pub(super) of_tensors: TensorAttributes,
    pub(super) odd: Vec<(String, holdall_core::error::Error)>,
}

#[cfg(any(feature = "numpy", feature = "pytorch"))]
impl Entries {
    /// Reads the entries with these two names, if they exist.
    pub(super) fn read(
        directory: &holdall_core::wire::zip::Directory,
        attributes: &str,
        of_tensors: &str,
        window: &holdall_core::window::Window,
        limits: &Limits,
    ) -> Result<Entries, holdall_core::window::Stop> {
        let found: Vec<_> =
            [attributes, of_tensors].iter().filter_map(|name| directory.get(name)).collect();
        let mut limits_of_text = limits.clone();
        limits_of_text.text_len = limits.header_len;
        let texts = directory.contents(&found, window, &limits_of_text)?;
        let (depth, mut out) = (depth(limits), Entries::default());
        for (entry, text) in found.into_iter().zip(texts) {
            let text = std::str::from_utf8(&text).unwrap_or_default();
            let read = if entry.name() == attributes {
                Attributes::from_json(text, depth).map(|all| out.attributes = all)
            } else {
                read_tensor_attributes(text, depth).map(|all| out.of_tensors = all)
            };
            if let Err(e) = read {
                out.odd.push((entry.name().to_owned(), e));
            }
        }
        Ok(out)
    }
}

/// Returns the JSON object of these pairs; `None` if there are no pairs.
pub(super) fn object<'a, T>(
    pairs: impl IntoIterator<Item = (&'a str, T)>,
    write: impl Fn(T, &mut String),
) -> Option<String> {
    let mut out = String::new();
    for (key, value) in pairs {
        out.push(if out.is_empty() { '{' } else { ',' });
        write_string(key, &mut out);
        out.push(':');
        write(value, &mut out);
    }
    (!out.is_empty()).then(|| {
        out.push('}');
        out
    })
}

/// Parses the attributes that are kept as text: those of the file become a part of the returned attributes, those of
/// tensors go to `of_tensors`. Text that cannot be parsed stays an attribute, and `odd` is called with its key and the
/// reason.
#[cfg(feature = "gguf")]
pub(super) fn restore(
    mut all: Attributes,
    limits: &Limits,
    of_tensors: &mut TensorAttributes,
    mut odd: impl FnMut(&'static str, String),
) -> Attributes {
    let depth = depth(limits);
    if let Some(Value::Text(text)) = all.get(TENSOR_ATTRIBUTES) {
        match read_tensor_attributes(text, depth) {
            Ok(read) => {
                *of_tensors = read;
                all.remove(TENSOR_ATTRIBUTES);
            }
            Err(e) => odd(TENSOR_ATTRIBUTES, e.to_string()),
        }
    }
    restore_own(all, limits, |why| odd(ATTRIBUTES, why))
}

/// Parses the attributes kept as text of a file, or of one tensor, as [`restore`] does.
#[cfg(any(feature = "gguf", feature = "hdf5"))]
pub(super) fn restore_own(
    mut all: Attributes,
    limits: &Limits,
    mut odd: impl FnMut(String),
) -> Attributes {
    let Some(Value::Text(text)) = all.get(ATTRIBUTES) else { return all };
    let read = Attributes::from_json(text, depth(limits)).map_err(|e| e.to_string());
    let read = read.and_then(|read| {
        // The file may have had an attribute with this name when it was written.
        let clashes = |key: &str| key != ATTRIBUTES && all.get(key).is_some();
        let twice = read.iter().find(|(key, _)| clashes(key));
        match twice
            .map(|(key, _)| format!("`{}` also has a value outside of this text", key.escaped()))
        {
            Some(why) => Err(why),
            None => Ok(read),
        }
    });
    match read {
        Ok(read) => {
            all.remove(ATTRIBUTES);
            for (key, value) in read.iter() {
                all.push(key, value.clone());
            }
        }
        Err(why) => odd(why),
    }
    all
}
