//! What formats whose headers hold little keep as text: attributes that they cannot hold otherwise.

use holdall_collections::HashMap;
use holdall_core::error::Result;
#[cfg(any(feature = "gguf", feature = "hdf5"))]
use holdall_core::error::Shown as _;
use holdall_core::limits::Limits;
use holdall_core::model::Attributes;
#[cfg(any(feature = "gguf", feature = "hdf5"))]
use holdall_core::model::Value;
use holdall_json::{DUPLICATE_KEY, Reader, write_string};

/// Keys that start like this are ours.
#[cfg(feature = "safetensors")]
pub(super) const PREFIX: &str = "holdall.";
/// The file's attributes that the format cannot hold.
#[cfg(any(feature = "safetensors", feature = "gguf", feature = "hdf5"))]
pub(super) const ATTRIBUTES: &str = "holdall.attributes";
/// The attributes of tensors.
#[cfg(any(feature = "safetensors", feature = "gguf"))]
pub(super) const TENSOR_ATTRIBUTES: &str = "holdall.tensor_attributes";

/// Levels of JSON that one level of an attribute value may take: a map is `{"$map":[[key,value]]}`.
const JSON_LEVELS: usize = 3;

/// The attributes of tensors by their names.
pub(super) type TensorAttributes = HashMap<String, Attributes>;

/// How deep the text may be.
pub(super) fn depth(limits: &Limits) -> usize {
    limits.depth.saturating_mul(JSON_LEVELS).saturating_add(2)
}

/// What stands under [`TENSOR_ATTRIBUTES`].
pub(super) fn read_tensor_attributes(text: &str, depth: usize) -> Result<TensorAttributes> {
    let mut reader = Reader::new(text.as_bytes(), 0, depth)?;
    let mut scratch = String::new();
    let mut all = HashMap::default();
    reader.begin_object()?;
    while let Some(name) = reader.next_key(&mut scratch)? {
        let name = name.to_owned();
        let attributes = Attributes::read_json(&mut reader)?;
        if let Some(_first) = all.insert(name, attributes) {
            return Err(DUPLICATE_KEY.broken("a tensor appears twice"));
        }
    }
    reader.end()?;
    Ok(all)
}

/// What entries of a zip have that are ours: attributes of the file, those of tensors, and which of them are not of our form, and why.
#[cfg(any(feature = "numpy", feature = "pytorch"))]
#[derive(Default)]
pub(super) struct Entries {
    pub(super) attributes: Attributes,
    pub(super) of_tensors: TensorAttributes,
    pub(super) odd: Vec<(String, holdall_core::error::Error)>,
}

#[cfg(any(feature = "numpy", feature = "pytorch"))]
impl Entries {
    /// Reads the entries of these two names, if they are there.
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

/// The JSON object of these pairs; `None` when there are none.
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

/// Turns what is kept as text back: attributes of the file into `all`, those of tensors into `of_tensors`. Tells `odd`
/// of text that is not of the form, which stays.
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

/// The same of the file's attributes alone, or of those of one tensor.
#[cfg(any(feature = "gguf", feature = "hdf5"))]
pub(super) fn restore_own(
    mut all: Attributes,
    limits: &Limits,
    mut odd: impl FnMut(String),
) -> Attributes {
    let Some(Value::Text(text)) = all.get(ATTRIBUTES) else { return all };
    let read = Attributes::from_json(text, depth(limits)).map_err(|e| e.to_string());
    let read = read.and_then(|read| {
        // A file may have had an attribute of this very name.
        let clashes = |key: &str| key != ATTRIBUTES && all.get(key).is_some();
        let twice = read.iter().find(|(key, _)| clashes(key));
        match twice.map(|(key, _)| format!("`{}` has a value of its own", key.shown())) {
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
