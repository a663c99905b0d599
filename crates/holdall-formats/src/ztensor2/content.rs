//! The content digest: a digest of a model's contents that does not depend on how these are arranged in files.
//!
//! It is the SHA-256 of `["zt.content/1", {name: {shape, layout, ?attributes, parts: {role: {dtype, ?type, digest}}}}]`
//! in deterministic CBOR (section 6.4 of the specification). The digests of parts represent their bytes.

use super::decode::each_object;
use super::manifest::{Fields, deterministic, member};
use holdall_core::limits::Limits;
use holdall_core::model::{Algorithm, Hasher, Value};
use holdall_core::window::{Stop, Window};
use holdall_core::wire::cbor::Writer;

/// Returns the digest for the file in `window`; `None` if a part has no digest.
pub(super) fn digest(window: &Window, limits: &Limits) -> Result<Option<String>, Stop> {
    let mut all = Some(Fields::default());
    each_object(window, limits, |name, value| {
        match (&mut all, object(&value)) {
            (Some(all), Some(object)) => all.raw(name, deterministic(&object)?),
            _ => all = None,
        }
        Ok(())
    })?;
    let Some(all) = all else { return Ok(None) };
    let mut out = Writer::new();
    out.array(2);
    out.text("zt.content/1");
    out.raw(&all.finish());
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(out.as_bytes());
    Ok(Some(hasher.finish().to_string()))
}

/// Returns the fields of an object that the digest includes, if its parts have digests.
fn object(value: &Value) -> Option<Value> {
    let mut out = entries(value, &["shape", "layout", "attributes"])?;
    let Value::Map(fields) = value else { return None };
    let Value::Map(parts) = member(fields, "parts")? else { return None };
    let part = |(role, part): &(Value, Value)| {
        let fields = entries(part, &["dtype", "type", "digest"])?;
        let has_digest = fields.iter().any(|(key, _)| key.as_text() == Some("digest"));
        has_digest.then_some((role.clone(), Value::Map(fields)))
    };
    let parts: Option<Vec<_>> = parts.iter().map(part).collect();
    out.push((Value::Text("parts".into()), Value::Map(parts?)));
    Some(Value::Map(out))
}

/// Returns the entries of a map that have these keys.
fn entries(value: &Value, keys: &[&str]) -> Option<Vec<(Value, Value)>> {
    let Value::Map(pairs) = value else { return None };
    let is_one = |key: &Value| key.as_text().is_some_and(|key| keys.contains(&key));
    Some(pairs.iter().filter(|(key, _)| is_one(key)).cloned().collect())
}
