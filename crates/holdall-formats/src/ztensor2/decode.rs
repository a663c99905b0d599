//! Decodes the footer and the manifest into an index.

use super::{
    BLOB, BLOCK_BYTES, BLOCK_ELEMENTS, CONTAINER, DATA_SHARD, DECODED_LENGTH, DIGEST, DTYPE,
    ENCODING, FIELD, FOOTER, LAYOUT, MAGIC, MANIFEST_BOUNDS, MANIFEST_DIGEST, MANIFEST_LEN,
    MAX_MANIFEST, NAME, ODD_F4, PAGE, SEEKABLE, SHARD, SHARD_NAME, VERSION, deterministic, groups,
    is_name, is_odd, layout_of, xxh3,
};
use bytes::Bytes;
use holdall_collections::HashMap;
use holdall_collections::sort;
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::{
    Attributes, ByteOrder, Component, DType, Digest, Encoding, Index, IndexBuilder, Layout,
    LogicalType, Role, Value,
};
use holdall_core::read::Extent;
use holdall_core::window::{Stop, Window};
use holdall_core::wire::cbor::Reader;
use holdall_core::wire::cursor::Cursor;
use std::ops::Range;

/// Decodes the index of the file in `window`.
pub(super) fn decode(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    decode_with(window, limits, &[])
}

/// Decodes the index of a file together with these shards, given by names and lengths, which become the sources 1, 2,
/// ….
pub(super) fn decode_with(
    window: &Window,
    limits: &Limits,
    files: &[(String, u64)],
) -> Result<Index, Stop> {
    walk(window, limits, files).map(|(index, _)| index)
}

/// Returns the names of the shards with parts of the file in `window`.
pub(super) fn shards(window: &Window, limits: &Limits) -> Result<Vec<String>, Stop> {
    walk(window, limits, &[]).map(|(_, shards)| shards)
}

/// Returns the index of a file, and the names of the shards that it refers to.
fn walk(
    window: &Window,
    limits: &Limits,
    files: &[(String, u64)],
) -> Result<(Index, Vec<String>), Stop> {
    let (bytes, base) = manifest(window, limits)?;
    let end = window.len().saturating_sub(FOOTER);
    let mut builder = IndexBuilder::new("ztensor2", "2", window.len(), PAGE..end, limits);
    for (_, len) in files {
        builder.source(*len, PAGE..len.saturating_sub(FOOTER).max(PAGE))?;
    }
    let reader = Reader::new(&bytes, base, limits);
    let shards = HashMap::default();
    Ok(Decoder { builder, reader, files, shards, used: Vec::new() }.index()?)
}

/// Returns the manifest, after checking its digest and its CBOR, and its offset.
fn manifest(window: &Window, limits: &Limits) -> Result<(Bytes, u64), Stop> {
    let manifest = find(window, limits)?;
    let bytes = window.bytes(manifest.range.clone())?;
    let (found, listed) = (Digest::Xxh3(xxh3(&bytes)), Digest::Xxh3(manifest.sum));
    if found != listed {
        let message = format!("the digest of the manifest is {found}, but the footer has {listed}");
        return Err(MANIFEST_DIGEST.broken(message).at(manifest.range).into());
    }
    deterministic::check(&bytes, manifest.range.start)?;
    Ok((bytes, manifest.range.start))
}

/// Calls `each` with the name of every object of a file, and the object's value in the manifest.
pub(super) fn each_object(
    window: &Window,
    limits: &Limits,
    each: impl FnMut(&str, Value) -> Result<()>,
) -> Result<(), Stop> {
    each_field(window, limits, "objects", each)
}

/// Calls `each` with every entry of a map in the manifest of a file, by key.
pub(super) fn each_field(
    window: &Window,
    limits: &Limits,
    field: &'static str,
    mut each: impl FnMut(&str, Value) -> Result<()>,
) -> Result<(), Stop> {
    let (bytes, base) = manifest(window, limits)?;
    let mut reader = Reader::new(&bytes, base, limits);
    let mut root = reader.map("the root")?;
    while reader.more(&mut root)? {
        if reader.key("the root")? != field.as_bytes() {
            reader.skip()?;
            continue;
        }
        let mut entries = reader.map(field)?;
        while reader.more(&mut entries)? {
            let name = reader.text(field)?;
            each(name, reader.value()?)?;
        }
    }
    Ok(())
}

/// The location of the manifest, and its digest.
struct Manifest {
    range: Range<u64>,
    sum: u64,
}

fn find(window: &Window, limits: &Limits) -> Result<Manifest, Stop> {
    let len = window.len();
    let least = FOOTER.saturating_add(MAGIC.len() as u64);
    let cut = |what: String| CONTAINER.broken(what).at(0..len);
    if len < least {
        return Err(cut(format!("the file has {len} bytes")).into());
    }
    let tail = window.tail(FOOTER)?;
    if !tail.ends_with(MAGIC) {
        return Err(
            cut("the file does not end with the magic number: it is cut short".into()).into()
        );
    }
    let mut cursor = Cursor::new(&tail);
    let fields = (|| {
        let numbers = (cursor.u64_le()?, cursor.u64_le()?, cursor.u64_le()?);
        Some((numbers, cursor.u32_le()?, cursor.u32_le()?))
    })();
    let range = len.saturating_sub(FOOTER)..len;
    let ((start, size, sum), version, reserved) = fields.unwrap_or_default();
    if version != 2 {
        return Err(VERSION.broken(format!("the version is {version}")).at(range).into());
    }
    if reserved != 0 {
        return Err(cut(format!(
            "expected 0 in the reserved field of the footer, found {reserved}"
        ))
        .into());
    }
    if (start, size, sum) == (0, 0, 0) {
        return Err(DATA_SHARD.broken("the file has blobs, but no manifest").at(range).into());
    }
    let end = start.checked_add(size).filter(|end| *end <= range.start);
    let Some(end) = end.filter(|_| start > 0 && start.is_multiple_of(PAGE) && size > 0) else {
        let message = format!(
            "the manifest of {size} bytes at offset {start} is outside of the file, which has {len} bytes"
        );
        return Err(MANIFEST_BOUNDS.broken(message).at(range).into());
    };
    let most = limits.manifest_len.min(MAX_MANIFEST);
    if size > most {
        let message = format!("the manifest has {size} bytes, at most {most} are allowed");
        return Err(MANIFEST_LEN.broken(message).at(range).into());
    }
    Ok(Manifest { range: start..end, sum })
}

struct Decoder<'a> {
    builder: IndexBuilder,
    reader: Reader<'a>,
    /// The available shards, with their lengths.
    files: &'a [(String, u64)],
    /// The shards listed in the manifest, with their required lengths and digests. In the order of keys they come
    /// before the objects.
    shards: HashMap<&'a str, (u64, Digest)>,
    /// The names of shards that contain parts.
    used: Vec<(&'a str, Range<u64>)>,
}

/// An object in the manifest.
#[derive(Default)]
struct Object<'a> {
    shape: Option<Vec<u64>>,
    layout: Option<&'a str>,
    parts: Option<Vec<StatedComponent<'a>>>,
    attributes: Attributes,
}

/// A part in the manifest.
#[derive(Default)]
struct StatedComponent<'a> {
    role: &'a str,
    dtype: Option<&'a str>,
    logical: Option<&'a str>,
    blob: Option<(u64, u64)>,
    shard: Option<&'a str>,
    encoding: Option<&'a str>,
    decoded_len: Option<u64>,
    digest: Option<&'a str>,
}

impl<'a> Decoder<'a> {
    fn index(mut self) -> Result<(Index, Vec<String>)> {
        let mut has_objects = false;
        let mut root = self.reader.map("the root")?;
        while self.reader.more(&mut root)? {
            match self.reader.key("the root")? {
                b"objects" => {
                    has_objects = true;
                    let mut objects = self.reader.map("`objects`")?;
                    while self.reader.more(&mut objects)? {
                        let name = self.name("`objects`")?;
                        self.object(name).map_err(|e| e.in_tensor(name))?;
                    }
                }
                b"attributes" => {
                    let attributes = self.attributes()?;
                    self.builder.attributes(attributes);
                }
                b"shards" => self.shards()?,
                key => self.unknown("the manifest", key)?,
            }
        }
        self.reader.end()?;
        if !has_objects {
            return Err(FIELD.broken("the manifest has no `objects`"));
        }
        if let Some((name, at)) = self.used.iter().find(|(name, _)| !self.shards.contains_key(name))
        {
            let message = format!(
                "a part is in the shard `{}`, which the manifest does not list",
                name.escaped()
            );
            return Err(SHARD_NAME.broken(message).at(at.clone()));
        }
        let mut names: Vec<String> = self.shards.keys().map(|name| (*name).to_owned()).collect();
        sort(&mut names);
        for (source, (name, _)) in (1u32..).zip(self.files) {
            if let Some((_, digest)) = self.shards.remove(name.as_str()) {
                self.builder.whole(source, name.clone(), digest);
            }
        }
        Ok((self.builder.finish()?, names))
    }

    /// Records an unknown field.
    fn unknown(&mut self, owner: &str, key: &[u8]) -> Result<()> {
        let key = String::from_utf8_lossy(key);
        self.builder.unrepresented(|| format!("the field `{}` of {owner}", key.escaped()));
        self.reader.skip()
    }

    /// Reads the next key, which is a name.
    fn name(&mut self, context: &'static str) -> Result<&'a str> {
        let start = self.reader.offset();
        let bytes = self.reader.key(context)?;
        let name = self.reader.utf8(bytes, start)?;
        self.named(name, start)
    }

    fn named(&self, name: &'a str, start: u64) -> Result<&'a str> {
        if !is_name(name) {
            let message = format!("a name of {} bytes: `{}`", name.len(), name.escaped());
            return Err(NAME.broken(message).at(self.reader.since(start)));
        }
        Ok(name)
    }

    fn attributes(&mut self) -> Result<Attributes> {
        let start = self.reader.offset();
        let attributes = self.reader.attributes("`attributes`")?;
        if let Some((key, _)) = attributes.iter().find(|(key, _)| !is_name(key)) {
            let message = format!("an attribute's key of {} bytes: `{}`", key.len(), key.escaped());
            return Err(NAME.broken(message).at(self.reader.since(start)));
        }
        Ok(attributes.stated())
    }

    fn shards(&mut self) -> Result<()> {
        let mut shards = self.reader.map("`shards`")?;
        while self.reader.more(&mut shards)? {
            let start = self.reader.offset();
            let name = self.name("`shards`")?;
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            if name.len() > 64 || name.starts_with('.') || !name.chars().all(is_plain) {
                let message = format!("`{}` is not a valid name of a shard", name.escaped());
                return Err(SHARD_NAME.broken(message).at(self.reader.since(start)));
            }
            let (mut size, mut digest) = (None, None);
            let mut fields = self.reader.map("a shard")?;
            while self.reader.more(&mut fields)? {
                match self.reader.key("a shard")? {
                    b"size" => size = Some(self.reader.u64("`size`")?),
                    b"digest" => digest = Some(self.reader.text("`digest`")?),
                    key => self.unknown("a shard", key)?,
                }
            }
            let (Some(size), Some(digest)) = (size, digest) else {
                return Err(self.missing("a shard", "size` or `digest", start));
            };
            self.shards.insert(name, (size, read_digest(digest)?));
        }
        Ok(())
    }

    #[cold]
    fn missing(&self, owner: &str, field: &str, start: u64) -> Error {
        FIELD.broken(format!("missing `{field}` in {owner}")).at(self.reader.since(start))
    }

    fn object(&mut self, name: &'a str) -> Result<()> {
        let start = self.reader.offset();
        let mut object = Object::default();
        let mut fields = self.reader.map("an object")?;
        while self.reader.more(&mut fields)? {
            match self.reader.key("an object")? {
                b"shape" => object.shape = Some(self.shape()?),
                b"layout" => object.layout = Some(self.reader.text("`layout`")?),
                b"parts" => object.parts = Some(self.parts()?),
                b"attributes" => object.attributes = self.attributes()?,
                key => self.unknown("an object", key)?,
            }
        }
        let Some(shape) = object.shape else {
            return Err(self.missing("an object", "shape", start));
        };
        let Some(text) = object.layout else {
            return Err(self.missing("an object", "layout", start));
        };
        let Some(parts) = object.parts else {
            return Err(self.missing("an object", "parts", start));
        };
        let layout = match text {
            groups::QUANT_GROUP | groups::MX => {
                self.quantized(name, text, &shape, &parts, &mut object.attributes)
            }
            text => layout_of(text),
        };
        self.builder.tensor(name, &shape, layout.clone())?;
        if let Err(e) = check_layout(&layout, text, &mut object.attributes) {
            self.builder.fault(e);
        }
        self.builder.tensor_attributes(object.attributes);
        for part in parts {
            let role = part.role;
            let added = self.part(part, &shape, &layout).map_err(|e| e.in_component(role));
            added?;
        }
        Ok(())
    }

    /// Returns the `quantized_group` layout of an object in groups, and sets its attributes. If the object uses
    /// anything unknown, it keeps its own layout.
    fn quantized(
        &mut self,
        name: &str,
        text: &str,
        shape: &[u64],
        parts: &[StatedComponent<'_>],
        attributes: &mut Attributes,
    ) -> Layout {
        let elements: Option<Vec<_>> = parts.iter().map(|part| element(part).ok()).collect();
        let given = elements.iter().flatten().zip(parts).map(|((dtype, logical), part)| {
            let stored = part.blob.map(|(_, len)| len).unwrap_or_default();
            let len = part.decoded_len.unwrap_or(stored);
            groups::Given { role: part.role, dtype: *dtype, logical: logical.as_ref(), len }
        });
        let given: Vec<_> = given.collect();
        match groups::read(text, shape, &given, attributes) {
            Ok(own) => {
                *attributes = own;
                Layout::QuantizedGroup
            }
            Err(why) => {
                let message = || format!("layout `{text}` is kept as it is: {why}").into();
                self.builder.warn(LAYOUT.code, Some(name), None, message);
                Layout::Other(text.into())
            }
        }
    }

    fn shape(&mut self) -> Result<Vec<u64>> {
        let mut shape = Vec::new();
        let mut dims = self.reader.array("`shape`")?;
        while self.reader.more(&mut dims)? {
            shape.push(self.reader.u64("`shape`")?);
        }
        Ok(shape)
    }

    fn parts(&mut self) -> Result<Vec<StatedComponent<'a>>> {
        let mut out = Vec::new();
        let mut parts = self.reader.map("`parts`")?;
        while self.reader.more(&mut parts)? {
            let start = self.reader.offset();
            let role = self.name("`parts`")?;
            let mut part = StatedComponent { role, ..StatedComponent::default() };
            let mut fields = self.reader.map("a part")?;
            while self.reader.more(&mut fields)? {
                match self.reader.key("a part")? {
                    b"dtype" => part.dtype = Some(self.reader.text("`dtype`")?),
                    b"type" => part.logical = Some(self.reader.text("`type`")?),
                    b"blob" => part.blob = Some(self.blob()?),
                    b"shard" => part.shard = Some(self.reader.text("`shard`")?),
                    b"encoding" => part.encoding = Some(self.reader.text("`encoding`")?),
                    b"decoded_length" => {
                        part.decoded_len = Some(self.reader.u64("`decoded_length`")?);
                    }
                    b"digest" => part.digest = Some(self.reader.text("`digest`")?),
                    key => self.unknown("a part", key)?,
                }
            }
            if part.dtype.is_none() || part.blob.is_none() {
                return Err(self.missing("a part", "dtype` or `blob", start));
            }
            if part.encoding.is_some() != part.decoded_len.is_some() {
                let message = "`encoding` and `decoded_length` must be given together";
                return Err(DECODED_LENGTH.broken(message).at(self.reader.since(start)));
            }
            if let Some(shard) = part.shard {
                self.used.push((shard, self.reader.since(start)));
            }
            out.push(part);
        }
        Ok(out)
    }

    fn blob(&mut self) -> Result<(u64, u64)> {
        let start = self.reader.offset();
        let mut items = self.reader.array("`blob`")?;
        let mut numbers = Vec::new();
        while self.reader.more(&mut items)? {
            numbers.push(self.reader.u64("`blob`")?);
        }
        let &[offset, len] = numbers.as_slice() else {
            let message = format!("expected 2 numbers in `blob`, found {}", numbers.len());
            return Err(FIELD.broken(message).at(self.reader.since(start)));
        };
        if offset == 0 || !offset.is_multiple_of(PAGE) {
            return Err(BLOB
                .broken(format!("invalid offset {offset} of a blob"))
                .at(self.reader.since(start)));
        }
        Ok((offset, len))
    }

    /// Adds a part. Anything unknown in it is the tensor's fault.
    fn part(&mut self, part: StatedComponent<'_>, shape: &[u64], layout: &Layout) -> Result<()> {
        let (offset, len) = part.blob.unwrap_or_default();
        let range = offset..offset.saturating_add(len);
        let stored = match part.shard.map(|shard| self.in_shard(shard, range.clone())) {
            None => range.into(),
            Some(Ok(stored)) => stored,
            Some(Err(e)) => {
                self.builder.fault(e);
                return Ok(());
            }
        };
        let read = (|| {
            let (dtype, logical_type) = match element(&part)? {
                (dtype, Some(LogicalType::F4E2M1))
                    if is_odd(shape, layout, part.decoded_len.unwrap_or(len)) =>
                {
                    (dtype, Some(LogicalType::Other(ODD_F4.into())))
                }
                element => element,
            };
            let encoding = match part.encoding {
                None => Encoding::Raw,
                Some(SEEKABLE) => Encoding::ZSTD,
                Some(other) => {
                    return Err(ENCODING.broken(format!("the encoding `{}`", other.escaped())));
                }
            };
            let digest = part.digest.map(read_digest).transpose()?;
            // The digest of an encoded part covers the decoded bytes, not the stored ones.
            let digest = match (digest, part.digest) {
                (Some(Digest::Sha256(_)), Some(text)) if encoding != Encoding::Raw => {
                    Some(Digest::Other(text.into()))
                }
                (digest, _) => digest,
            };
            Ok((dtype, logical_type, encoding, digest))
        })();
        let (dtype, logical_type, encoding, digest) = match read {
            Ok(read) => read,
            Err(e) => {
                self.builder.fault(e);
                return self.builder.claim(stored);
            }
        };
        let role = match layout {
            Layout::Blocks(_) => Role::Data,
            Layout::QuantizedGroup if part.role == groups::DATA => Role::PackedWeight,
            _ => Role::from_name(part.role),
        };
        self.builder.component(Component {
            role,
            dtype,
            logical_type,
            encoding,
            byte_order: ByteOrder::Little,
            stored,
            decoded_len: part.decoded_len,
            digest,
        })
    }

    /// Returns the extent of the bytes `range` of a shard, if it is available.
    fn in_shard(&self, name: &str, range: Range<u64>) -> Result<Extent> {
        let mut files = (1u32..).zip(self.files);
        let Some((source, (_, found))) = files.find(|(_, (file, _))| file == name) else {
            return Err(SHARD.broken(format!(
                "its bytes are in the shard `{}`, which is not available",
                name.escaped()
            )));
        };
        let listed = self.shards.get(name).map(|(size, _)| *size).unwrap_or_default();
        if *found != listed {
            let message = format!(
                "the shard `{}` has {found} bytes, but the manifest gives {listed}",
                name.escaped()
            );
            return Err(SHARD.broken(message));
        }
        Ok(Extent::new(source, range))
    }
}

/// Checks the attributes of blocks against the layout, and removes them, because the layout implies them.
fn check_layout(layout: &Layout, text: &str, attributes: &mut Attributes) -> Result<()> {
    let Layout::Blocks(block_type) = layout else { return Ok(()) };
    for (key, wanted) in [(BLOCK_ELEMENTS, block_type.elements), (BLOCK_BYTES, block_type.bytes)] {
        let found = attributes.remove(key);
        if found != Some(Value::Integer(wanted.into())) {
            let found = found.map_or("nothing".to_owned(), |value| value.to_json());
            let message = format!("`{key}` of `{}` is {found}, expected {wanted}", text.escaped());
            return Err(LAYOUT.broken(message));
        }
    }
    Ok(())
}

fn element(part: &StatedComponent<'_>) -> Result<(DType, Option<LogicalType>)> {
    let name = part.dtype.unwrap_or_default();
    let dtype = DType::from_name(name).filter(|dtype| *dtype != DType::Bool);
    let Some(dtype) = dtype else {
        return Err(DTYPE.broken(format!("the dtype `{}`", name.escaped())));
    };
    match part.logical {
        None => Ok((dtype, None)),
        Some("bool") if dtype == DType::U8 => Ok((DType::Bool, None)),
        Some(text) => {
            let logical = LogicalType::from_name(text);
            let is_here = !matches!(logical, LogicalType::F6E2M3 | LogicalType::F6E3M2);
            match logical.storage() {
                Some(storage) if storage == dtype && is_here => Ok((dtype, Some(logical))),
                // Kept as an unknown logical type.
                None => Ok((dtype, Some(logical))),
                _ => Err(DTYPE
                    .broken(format!("the type `{}` cannot be stored as {dtype}", text.escaped()))),
            }
        }
    }
}

fn read_digest(text: &str) -> Result<Digest> {
    let is_hex = |digits: &str, len: usize| {
        digits.len() == len && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let found = match text.split_once(':') {
        Some(("xxh3", digits)) if is_hex(digits, 16) => {
            u64::from_str_radix(digits, 16).ok().map(Digest::Xxh3)
        }
        Some(("sha256", digits)) if is_hex(digits, 64) => Digest::from_text(text),
        _ => None,
    };
    found.ok_or_else(|| DIGEST.broken(format!("the digest `{}`", text.escaped())))
}
