//! The index of a version, and the names of folders and files.

use super::bytes::DiffEncoding;
use super::{ChecksumKind, ENCODING, INDEX};
use crate::error::{Escape as _, Result};
use holdall_json::{Reader, Token};
use std::collections::BTreeMap;

/// The text before the number of a version in the name of its folder.
const FOLDER: &str = "weight_v";
/// The text before the number of a step in the name of its file.
const STEP: &str = "step_";
const EXTENSION: &str = ".safetensors";

/// The index of a version: a folder of safetensors files.
#[derive(Debug, Clone, PartialEq)]
pub struct VersionIndex {
    /// The number of the version, if the index has it.
    pub version: Option<u64>,
    /// How the differences are encoded; `None` if the version is a whole model.
    pub delta: Option<DeltaIndex>,
    /// The name of the file of each tensor.
    pub weight_map: BTreeMap<String, String>,
}

/// The part of an index that describes differences.
#[derive(Debug, Clone, PartialEq)]
pub struct DeltaIndex {
    /// The number of the version that the differences are applied to.
    pub base_version: u64,
    /// How differences are encoded.
    pub encoding: DiffEncoding,
    /// The kind of the checksums.
    pub checksums: ChecksumKind,
}

impl VersionIndex {
    /// Reads an index.
    ///
    /// # Errors
    /// Returns [`INDEX`] if the text is not that of an index, [`ENCODING`] and
    /// [`CHECKSUM_FORMAT`](super::CHECKSUM_FORMAT) if it names a kind that is unknown.
    pub fn read(text: &[u8]) -> Result<VersionIndex> {
        let (metadata, weight_map) = read_texts(text).map_err(|e| e.with_rule(&INDEX))?;
        let get = |key: &str| metadata.get(key).map(String::as_str);
        let require = |key: &str| {
            get(key).ok_or_else(|| INDEX.broken(format!("`metadata` has no text `{key}`")))
        };
        let version = get("version").map(|text| version_number("version", text)).transpose()?;
        let weight_map =
            weight_map.ok_or_else(|| INDEX.broken("there is no object `weight_map`"))?;
        let Some(encoding) = get("delta_encoding") else {
            return Ok(VersionIndex { version, delta: None, weight_map });
        };
        let encoding = DiffEncoding::from_name(encoding)?;
        let compression = require("compression_format")?;
        if compression != "zstd" {
            let message = format!("the compression format is `{}`", compression.escaped());
            return Err(ENCODING.broken(message));
        }
        let checksums = ChecksumKind::from_name(require("checksum_format")?)?;
        let base_version = version_number("base_version", require("base_version")?)?;
        require("version")?;
        let delta = Some(DeltaIndex { base_version, encoding, checksums });
        Ok(VersionIndex { version, delta, weight_map })
    }

    /// Returns the text of the index.
    pub fn text(&self) -> String {
        let mut out = String::from("{\"metadata\": {");
        let mut fields = Vec::new();
        if let Some(version) = self.version {
            fields.push(("version", format!("{version:06}")));
        }
        if let Some(delta) = &self.delta {
            fields.push(("base_version", format!("{:06}", delta.base_version)));
            fields.push(("delta_encoding", delta.encoding.name().to_owned()));
            fields.push(("compression_format", "zstd".to_owned()));
            fields.push(("checksum_format", delta.checksums.name().to_owned()));
        }
        push_pairs(&mut out, fields.iter().map(|(key, value)| (*key, value.as_str())));
        out.push_str("}, \"weight_map\": {");
        push_pairs(&mut out, self.weight_map.iter().map(|(k, v)| (k.as_str(), v.as_str())));
        out.push_str("}}\n");
        out
    }
}

fn push_pairs<'a>(out: &mut String, pairs: impl Iterator<Item = (&'a str, &'a str)>) {
    for (at, (key, value)) in pairs.enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        holdall_json::write_string(key, out);
        out.push_str(": ");
        holdall_json::write_string(value, out);
    }
}

/// The texts in `metadata`, and the map, if there is one.
type Texts = (BTreeMap<String, String>, Option<BTreeMap<String, String>>);

fn read_texts(text: &[u8]) -> Result<Texts> {
    let mut reader = Reader::new(text, 0, 16)?;
    let (mut key, mut inner, mut value) = (String::new(), String::new(), String::new());
    let (mut metadata, mut weight_map) = (BTreeMap::new(), None);
    reader.begin_object()?;
    while let Some(field) = reader.next_key(&mut key)? {
        let into = match field {
            "weight_map" => weight_map.get_or_insert_default(),
            "metadata" => &mut metadata,
            _ => {
                reader.skip()?;
                continue;
            }
        };
        let is_map = field == "weight_map";
        reader.begin_object()?;
        while let Some(name) = reader.next_key(&mut inner)? {
            if !is_map && reader.peek()? != Token::String {
                // `total_size`, for example.
                reader.skip()?;
                continue;
            }
            let text = reader.string(&mut value)?.to_owned();
            if into.insert(name.to_owned(), text).is_some() {
                let message = format!("`{}` is there twice", name.escaped());
                return Err(INDEX.broken(message));
            }
        }
    }
    reader.end()?;
    Ok((metadata, weight_map))
}

/// Returns the number of a version: decimal digits.
fn version_number(key: &str, text: &str) -> Result<u64> {
    digits(text)
        .ok_or_else(|| INDEX.broken(format!("`{key}` is `{}`, not a number", text.escaped())))
}

fn digits(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Returns the number of the version in a folder of this name: 7 for `weight_v000007`.
pub fn version_of_folder(name: &str) -> Option<u64> {
    digits(name.strip_prefix(FOLDER)?)
}

/// Returns the name of the folder of a version.
pub fn version_folder(version: u64) -> String {
    format!("{FOLDER}{version:06}")
}

/// Returns the number of the step in a file of this name: 7 for `step_000007.safetensors`.
pub fn step_of_file(name: &str) -> Option<u64> {
    digits(name.strip_prefix(STEP)?.strip_suffix(EXTENSION)?)
}

/// Returns the name of the file of a step.
pub fn step_text(step: u64) -> String {
    format!("{STEP}{step:06}{EXTENSION}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_numbers() {
        assert_eq!(version_of_folder("weight_v000007"), Some(7));
        assert_eq!(version_of_folder("weight_v1234567"), Some(1_234_567));
        for other in ["weight_v", "weight_v-1", "weight_v1.tmp", "v000001"] {
            assert_eq!(version_of_folder(other), None);
        }
        assert_eq!(version_of_folder(&version_folder(12)), Some(12));
        assert_eq!(step_of_file(&step_text(12)), Some(12));
        assert_eq!(step_of_file("step_000001.safetensors.tmp"), None);
    }

    #[test]
    fn an_index_comes_back() {
        let delta = Some(DeltaIndex {
            base_version: 4,
            encoding: DiffEncoding::Overwrite,
            checksums: ChecksumKind::Adler32,
        });
        let weight_map = [("a\"".to_owned(), "m.safetensors".to_owned())].into();
        let index = VersionIndex { version: Some(5), delta, weight_map };
        assert_eq!(VersionIndex::read(index.text().as_bytes()).unwrap(), index);
    }

    #[test]
    fn a_broken_index_is_refused() {
        let good = r#"{"metadata": {"version": "1", "base_version": "0", "delta_encoding": "xor",
            "compression_format": "zstd", "checksum_format": "blake3", "total": 3}, "weight_map": {}}"#;
        assert!(VersionIndex::read(good.as_bytes()).is_ok());
        for (from, to, code) in [
            ("\"xor\"", "\"add\"", "delta/encoding"),
            ("\"zstd\"", "\"lz4\"", "delta/encoding"),
            ("blake3", "md5", "delta/checksum-format"),
            ("\"0\"", "\"x\"", "delta/index"),
            ("base_version", "base", "delta/index"),
            ("\"version\"", "\"v\"", "delta/index"),
            ("checksum_format", "checksum", "delta/index"),
            ("weight_map", "map", "delta/index"),
            ("{}}", "{\"a\": 1}}", "delta/index"),
            ("{}}", "{}", "delta/index"),
        ] {
            let text = good.replacen(from, to, 1);
            let e = VersionIndex::read(text.as_bytes()).unwrap_err();
            assert_eq!(e.code(), code, "{text}: {e}");
        }
    }
}
