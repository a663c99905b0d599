//! The file of a model in shards: a manifest of what all of them hold, and no blobs of its own.

use super::decode::each_object;
use super::encode::ending;
use super::manifest::{Fields, deterministic};
use super::{MAGIC, PAGE};
use bytes::Bytes;
use holdall_core::error::Result;
use holdall_core::limits::Limits;
use holdall_core::model::{Attributes, Digest, Value};
use holdall_core::window::{Stop, Window};

/// The manifest of a model in shards, each of which is a file of zTensor 2.
#[derive(Default)]
pub struct Root {
    objects: Fields,
    shards: Fields,
}

/// What the file of a shard holds, as the model says it.
pub struct Objects(Vec<(String, Vec<u8>)>);

/// What the file in `window` holds, where it is the shard of that name.
///
/// # Errors
/// What is wrong with the manifest.
pub fn objects_of(window: &Window, limits: &Limits, shard: &str) -> Result<Objects, Stop> {
    let mut all = Vec::new();
    each_object(window, limits, |name, mut object| {
        place(&mut object, shard);
        all.push((name.to_owned(), deterministic(&object)?));
        Ok(())
    })?;
    Ok(Objects(all))
}

/// Says of every part of an object that it is in that shard.
fn place(object: &mut Value, shard: &str) {
    let Value::Map(fields) = object else { return };
    let parts = fields.iter_mut().find(|(key, _)| key.as_text() == Some("parts"));
    let Some((_, Value::Map(parts))) = parts else { return };
    for (_, part) in parts {
        if let Value::Map(fields) = part {
            fields.push((Value::Text("shard".into()), Value::Text(shard.into())));
        }
    }
}

impl Root {
    /// Adds a shard: its name, its length in bytes, the digest of the whole file, and what it holds.
    pub fn add(&mut self, shard: &str, len: u64, digest: &Digest, objects: Objects) {
        let mut of = Fields::default();
        of.with("size", |w| w.u64(len));
        of.with("digest", |w| w.text(&digest.to_string()));
        self.shards.raw(shard, of.finish());
        objects.0.into_iter().for_each(|(name, object)| self.objects.raw(&name, object));
    }

    /// The file.
    ///
    /// # Errors
    /// Where the manifest is longer than readers take.
    pub fn finish(self, attributes: &Attributes) -> Result<Bytes> {
        let mut fields = Fields::default();
        fields.raw("objects", self.objects.finish());
        fields.raw("shards", self.shards.finish());
        fields.attributes(attributes)?;
        let mut out = MAGIC.to_vec();
        // A page, which is small.
        out.resize(usize::try_from(PAGE).unwrap_or_default(), 0);
        out.extend(ending(&fields.finish(), PAGE)?);
        Ok(out.into())
    }
}
