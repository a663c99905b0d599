//! The root file of a model in shards: a manifest with the contents of all shards, and no blobs.

use super::decode::{each_field, each_object};
use super::encode::ending;
use super::manifest::{Fields, deterministic};
use super::{MAGIC, PAGE};
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use holdall_core::error::Result;
use holdall_core::limits::Limits;
use holdall_core::model::{Algorithm, Attributes, Digest, Value};
use holdall_core::window::{Stop, Window};

/// The manifest of a model in shards, each of which is a file of zTensor 2.
#[derive(Default)]
pub struct Root {
    /// The names of objects, their values in the manifest, and the shard that contains each.
    objects: Vec<(String, Vec<u8>, String)>,
    /// The names of shards, their lengths, and their digests in the manifest.
    shards: Vec<(String, u64, String)>,
}

/// The objects in a shard, as the root's manifest has them.
pub struct ShardObjects(Vec<(String, Vec<u8>)>);

/// Reads the objects of the shard `shard` from the manifest of its file in `window`.
///
/// # Errors
/// Returns the errors in the manifest.
pub fn shard_objects(window: &Window, limits: &Limits, shard: &str) -> Result<ShardObjects, Stop> {
    let mut all = Vec::new();
    each_object(window, limits, |name, mut object| {
        set_shard(&mut object, shard);
        all.push((name.to_owned(), deterministic(&object)?));
        Ok(())
    })?;
    Ok(ShardObjects(all))
}

/// Marks every part of an object as contained in a shard.
fn set_shard(object: &mut Value, shard: &str) {
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
    /// Reads the manifest in `window`. Returns `None` if the file itself has bytes of tensors, or an object in several
    /// shards: such a file is not written by this module.
    ///
    /// # Errors
    /// Returns the errors in the manifest.
    pub fn read(window: &Window, limits: &Limits) -> Result<Option<Root>, Stop> {
        let (mut root, mut is_plain) = (Root::default(), true);
        each_object(window, limits, |name, object| {
            match only_shard(&object) {
                Some(shard) => {
                    root.objects.push((name.to_owned(), deterministic(&object)?, shard));
                }
                None => is_plain = false,
            }
            Ok(())
        })?;
        each_field(window, limits, "shards", |name, shard| {
            let Value::Map(fields) = shard else { return Ok(()) };
            let field = |key: &str| {
                fields.iter().find(|(own, _)| own.as_text() == Some(key)).map(|(_, value)| value)
            };
            let len = field("size").and_then(Value::as_integer).and_then(|n| u64::try_from(n).ok());
            let digest = field("digest").and_then(Value::as_text);
            if let (Some(len), Some(digest)) = (len, digest) {
                root.shards.push((name.to_owned(), len, digest.to_owned()));
            }
            Ok(())
        })?;
        Ok(is_plain.then_some(root))
    }

    /// Returns the names of the shards.
    pub fn shards(&self) -> impl Iterator<Item = &str> {
        self.shards.iter().map(|(name, ..)| name.as_str())
    }

    /// Returns the names of the objects in a shard.
    pub fn objects(&self, shard: &str) -> impl Iterator<Item = &str> {
        let own = self.objects.iter().filter(move |(_, _, own)| own == shard);
        own.map(|(name, ..)| name.as_str())
    }

    /// Returns the algorithm of a shard's digest.
    pub fn algorithm(&self, shard: &str) -> Algorithm {
        let own = self.shards.iter().find(|(name, ..)| name == shard);
        match own.is_some_and(|(_, _, digest)| digest.starts_with("sha256:")) {
            true => Algorithm::Sha256,
            false => Algorithm::Xxh3,
        }
    }

    /// Removes a shard and the objects in it.
    pub fn remove(&mut self, shard: &str) {
        self.objects.retain(|(_, _, own)| own != shard);
        self.shards.retain(|(name, ..)| name != shard);
    }

    /// Adds a shard: its name, its length in bytes, the digest of the whole file, and its objects.
    pub fn add(&mut self, shard: &str, len: u64, digest: &Digest, objects: ShardObjects) {
        self.shards.push((shard.to_owned(), len, digest.to_string()));
        let of_shard = |(name, object)| (name, object, shard.to_owned());
        self.objects.extend(objects.0.into_iter().map(of_shard));
    }

    /// Returns the bytes of the root file.
    ///
    /// # Errors
    /// Returns [`MANIFEST_LEN`](super::MANIFEST_LEN) if the manifest is too long for readers.
    pub fn finish(self, attributes: &Attributes) -> Result<Bytes> {
        let (mut objects, mut shards) = (Fields::default(), Fields::default());
        self.objects.into_iter().for_each(|(name, object, _)| objects.raw(&name, object));
        for (name, len, digest) in &self.shards {
            let mut own = Fields::default();
            own.with("size", |w| w.u64(*len));
            own.with("digest", |w| w.text(digest));
            shards.raw(name, own.finish());
        }
        let mut fields = Fields::default();
        fields.raw("objects", objects.finish());
        fields.raw("shards", shards.finish());
        fields.attributes(attributes)?;
        let mut out = MAGIC.to_vec();
        // One page, which is small.
        out.resize(usize::try_from(PAGE).debug_unwrap(), 0);
        out.extend(ending(&fields.finish(), PAGE)?);
        Ok(out.into())
    }
}

/// Returns the shard that contains all parts of an object; `None` if there is no such shard.
fn only_shard(object: &Value) -> Option<String> {
    let Value::Map(fields) = object else { return None };
    let parts = fields.iter().find(|(key, _)| key.as_text() == Some("parts"));
    let Some((_, Value::Map(parts))) = parts else { return None };
    let mut found: Option<&str> = None;
    for (_, part) in parts {
        let Value::Map(fields) = part else { return None };
        let shard = fields.iter().find(|(key, _)| key.as_text() == Some("shard"));
        let shard = shard.and_then(|(_, shard)| shard.as_text())?;
        if found.is_some_and(|found| found != shard) {
            return None;
        }
        found = Some(shard);
    }
    found.map(str::to_owned)
}
