//! The content digest: one of what a model holds, however it lies in files.
//!
//! It is the SHA-256 of `["zt.content/1", {name: {shape, layout, ?attributes, parts: {role: {dtype, ?type, digest}}}}]` in
//! deterministic CBOR (section 6.4 of the specification). The digests of parts stand for their bytes.

use super::decode::manifest;
use super::manifest::{Fields, deterministic};
use crate::error::Result;
use crate::limits::Limits;
use crate::model::{Algorithm, Hasher, Value};
use crate::window::{Stop, Window};
use crate::wire::cbor::{Reader, Writer};

/// Of the file in `window`; nothing where a part has no digest.
pub(super) fn digest(window: &Window, limits: &Limits) -> Result<Option<String>, Stop> {
    let (bytes, base) = manifest(window, limits)?;
    Ok(of_manifest(&bytes, base, limits)?)
}

fn of_manifest(bytes: &[u8], base: u64, limits: &Limits) -> Result<Option<String>> {
    let mut reader = Reader::new(bytes, base, limits);
    let mut all = Fields::default();
    let mut root = reader.map("the root")?;
    while reader.more(&mut root)? {
        if reader.key("the root")? != b"objects" {
            reader.skip()?;
            continue;
        }
        let mut objects = reader.map("`objects`")?;
        while reader.more(&mut objects)? {
            let name = reader.text("`objects`")?;
            let Some(object) = object(&reader.value()?) else { return Ok(None) };
            all.raw(name, deterministic(&object)?);
        }
    }
    let mut out = Writer::new();
    out.array(2);
    out.text("zt.content/1");
    out.raw(&all.finish());
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(out.as_bytes());
    Ok(Some(hasher.finish().to_string()))
}

/// What counts of an object, if its parts have digests.
fn object(value: &Value) -> Option<Value> {
    let mut out = of(value, &["shape", "layout", "attributes"])?;
    let Value::Map(parts) = member(value, "parts")? else { return None };
    let part = |(role, part): &(Value, Value)| {
        let fields = of(part, &["dtype", "type", "digest"])?;
        let has_digest = fields.iter().any(|(key, _)| key.as_text() == Some("digest"));
        has_digest.then_some((role.clone(), Value::Map(fields)))
    };
    let parts: Option<Vec<_>> = parts.iter().map(part).collect();
    out.push((Value::Text("parts".into()), Value::Map(parts?)));
    Some(Value::Map(out))
}

/// The entries of a map that have these keys.
fn of(value: &Value, keys: &[&str]) -> Option<Vec<(Value, Value)>> {
    let Value::Map(pairs) = value else { return None };
    let is_one = |key: &Value| key.as_text().is_some_and(|key| keys.contains(&key));
    Some(pairs.iter().filter(|(key, _)| is_one(key)).cloned().collect())
}

fn member<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    let Value::Map(pairs) = value else { return None };
    pairs.iter().find(|(own, _)| own.as_text() == Some(key)).map(|(_, value)| value)
}
