//! Decodes the index of a checkpoint.

use super::slices::{Extent as Slice, key};
use super::{DATA, ELEMENT_TYPE, ENTRY, FORMAT, HEADER, SLICES, element};
use holdall_collections::DebugUnwrap;
use holdall_collections::sort;
use holdall_collections::{HashMap, HashSet};
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::{
    ByteOrder, Component, DType, Digest, Encoding, Index, IndexBuilder, Layout, LogicalType, Role,
};
use holdall_core::read::{Chunk, Chunked, EdgeChunks, Extent, Grid};
use holdall_core::window::{Stop, Window};
use holdall_core::wire::protobuf::{Field, Fields};
use holdall_core::wire::sstable;

/// The key of the object graph of TensorFlow 2, which is a string.
const OBJECTS: &str = "_CHECKPOINTABLE_OBJECT_GRAPH";
/// The number of dimensions read of an entry; more are always too many.
const MAX_DIMS: usize = 1024;

pub(super) fn decode(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    decode_with(window, limits, &[])
}

/// Returns the names of the data files of the index in `window`.
pub(super) fn names(window: &Window, limits: &Limits) -> Result<Vec<String>, Stop> {
    let bundle = Bundle::read(window, limits)?;
    let numbers = bundle.entries.iter().map(|(_, entry)| entry.shard);
    let mut numbers: Vec<u64> = numbers.filter(|number| *number < bundle.shards).collect();
    sort(&mut numbers);
    numbers.dedup();
    Ok(numbers.into_iter().map(|number| bundle.name_of(number)).collect())
}

/// Decodes the checkpoint with these data files, given by names and lengths, as sources 1, 2, ….
pub(super) fn decode_with(
    window: &Window,
    limits: &Limits,
    files: &[(String, u64)],
) -> Result<Index, Stop> {
    let bundle = Bundle::read(window, limits)?;
    let mut builder = IndexBuilder::new(FORMAT.id, "1", window.len(), 0..0, limits);
    let mut sources = HashMap::default();
    for (name, len) in files {
        let number = builder.source(*len, 0..*len)?;
        sources.insert(name.as_str(), (number, *len));
    }
    Ok(Joined { bundle: &bundle, builder, sources }.index()?)
}

/// The contents of the index.
struct Bundle {
    shards: u64,
    order: ByteOrder,
    /// Entries by name, or by the key of a slice.
    entries: Vec<(Vec<u8>, Entry)>,
}

/// The entry of a tensor or a slice.
#[derive(Default)]
struct Entry {
    dtype: u64,
    shape: Vec<u64>,
    shard: u64,
    start: u64,
    len: u64,
    crc: Option<u32>,
    slices: Vec<Vec<Slice>>,
    /// The reason why the entry is invalid.
    wrong: Option<&'static str>,
}

impl Bundle {
    fn read(window: &Window, limits: &Limits) -> Result<Bundle, Stop> {
        let mut all = sstable::read(window, limits, first_version)?.into_iter();
        let first = all.next().filter(|(key, _)| key.is_empty());
        let Some((_, header)) = first else {
            return Err(HEADER
                .broken("the index has no header, which is the entry with the empty name")
                .into());
        };
        let (mut shards, mut order, mut least) = (0, ByteOrder::Little, 0);
        let mut fields = Fields::new(&header);
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (1, Field::Varint(n)) => shards = n,
                (2, Field::Varint(1)) => order = ByteOrder::Big,
                (3, Field::Bytes(bytes)) => {
                    let mut version = Fields::new(bytes);
                    while let Some((number, field)) = version.next()? {
                        if number == 2 {
                            least = field.varint().unwrap_or(0);
                        }
                    }
                }
                _ => {}
            }
        }
        if shards == 0 || shards > i32::MAX.unsigned_abs().into() || least > 1 {
            let message = format!(
                "expected data files for readers of version 1, found {shards} data files for readers of version {least}"
            );
            return Err(HEADER.broken(message).into());
        }
        let mut entries = Vec::new();
        for (key, value) in all {
            let entry = Entry::read(&value)?;
            entries.push((key, entry));
        }
        Ok(Bundle { shards, order, entries })
    }

    fn name_of(&self, number: u64) -> String {
        format!("data-{number:05}-of-{:05}", self.shards)
    }
}

/// Refuses a checkpoint that `tf.train.Saver` wrote before version 2: a table with the tensors themselves. Its first
/// entry has a message where that of an index has a number.
fn first_version(entries: &[sstable::Entry]) -> Result<()> {
    let Some((_, header)) = entries.first().filter(|(key, _)| key.is_empty()) else {
        return Ok(());
    };
    match Fields::new(header).next()? {
        Some((1, Field::Bytes(_))) => {
            let e = HEADER.broken("this is a checkpoint of version 1, which is a single file");
            Err(e.with_hint(
                "convert it with TensorFlow: restore it, and save it with `tf.compat.v1.train.Saver`, which writes version 2",
            ))
        }
        _ => Ok(()),
    }
}

impl Entry {
    fn read(bytes: &[u8]) -> Result<Entry> {
        let mut out = Entry::default();
        let mut fields = Fields::new(bytes);
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (1, Field::Varint(n)) => out.dtype = n,
                (2, Field::Bytes(shape)) => out.shape(shape)?,
                (3, Field::Varint(n)) => out.shard = n,
                (4, Field::Varint(n)) => out.start = n,
                (5, Field::Varint(n)) => out.len = n,
                (6, Field::Fixed32(crc)) => out.crc = Some(sstable::unmasked(crc)),
                (7, Field::Bytes(slice)) => out.slices.push(read_slice(slice)?),
                (1..=7, _) => out.wrong = Some("a field has the wrong type"),
                _ => {}
            }
        }
        Ok(out)
    }

    fn shape(&mut self, bytes: &[u8]) -> Result<()> {
        let mut fields = Fields::new(bytes);
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (2, Field::Bytes(dim)) => {
                    let mut size = 0;
                    let mut fields = Fields::new(dim);
                    while let Some((number, field)) = fields.next()? {
                        if number == 1 {
                            size = field.varint().unwrap_or(0);
                        }
                    }
                    if i64::try_from(size).is_err() {
                        self.wrong = Some("a dimension is negative");
                    } else if self.shape.len() < MAX_DIMS {
                        self.shape.push(size);
                    }
                }
                (3, Field::Varint(1..)) => self.wrong = Some("the number of dimensions is unknown"),
                _ => {}
            }
        }
        Ok(())
    }
}

fn read_slice(bytes: &[u8]) -> Result<Vec<Slice>> {
    let mut out = Vec::new();
    let mut fields = Fields::new(bytes);
    while let Some((number, field)) = fields.next()? {
        let (1, Field::Bytes(extent)) = (number, field) else { continue };
        let (mut start, mut len) = (0, None);
        let mut fields = Fields::new(extent);
        while let Some((number, field)) = fields.next()? {
            match (number, field.varint()) {
                (1, Some(n)) => start = n.cast_signed(),
                (2, Some(n)) => len = Some(n.cast_signed()),
                _ => {}
            }
        }
        if out.len() < MAX_DIMS {
            out.push(len.map(|len| (start, len)));
        }
    }
    Ok(out)
}

struct Joined<'a> {
    bundle: &'a Bundle,
    builder: IndexBuilder,
    /// The available data files: their sources and lengths.
    sources: HashMap<&'a str, (u32, u64)>,
}

impl<'a> Joined<'a> {
    fn index(mut self) -> Result<Index> {
        let bundle = self.bundle;
        let parts: HashMap<&[u8], &Entry> = bundle
            .entries
            .iter()
            .filter(|(key, _)| key.first() == Some(&0))
            .map(|(key, entry)| (key.as_slice(), entry))
            .collect();
        let mut used = HashSet::default();
        for (key, entry) in bundle.entries.iter().filter(|(key, _)| key.first() != Some(&0)) {
            let name = std::str::from_utf8(key).map_err(|_| {
                let name = String::from_utf8_lossy(key);
                ENTRY.broken(format!("the name `{}` is not UTF-8", name.escaped()))
            })?;
            if name == OBJECTS {
                self.builder.unrepresented(|| format!("the graph of objects, `{OBJECTS}`"));
                continue;
            }
            self.builder.tensor(name, &entry.shape, Layout::Dense)?;
            let found = if entry.slices.is_empty() {
                self.whole(entry)
            } else {
                self.sliced(key, entry, &parts, &mut used)
            };
            match found {
                Ok(component) => self.builder.component(component)?,
                Err(e) => self.builder.fault(e),
            }
        }
        let lost = parts.keys().filter(|key| !used.contains(**key)).count();
        if lost > 0 {
            self.builder.unrepresented(|| format!("{lost} slices that belong to no variable"));
        }
        self.builder.finish()
    }

    /// Returns the extent of an entry's bytes.
    fn locate(&self, entry: &Entry) -> Result<Extent> {
        if let Some(wrong) = entry.wrong {
            return Err(ENTRY.broken(wrong));
        }
        if entry.shard >= self.bundle.shards {
            let message = format!(
                "the entry is in data file {}, but there are {}",
                entry.shard, self.bundle.shards
            );
            return Err(ENTRY.broken(message));
        }
        let name = self.bundle.name_of(entry.shard);
        let Some(&(source, len)) = self.sources.get(name.as_str()) else {
            return Err(DATA.broken(format!("the data file `{name}` is not available")));
        };
        let end = entry.start.checked_add(entry.len).filter(|end| *end <= len);
        match end {
            Some(end) => Ok(Extent::new(source, entry.start..end)),
            None => {
                let (start, own) = (entry.start, entry.len);
                Err(DATA.broken(format!(
                    "`{name}` has {len} bytes, so it does not have {own} bytes from {start} on"
                )))
            }
        }
    }

    fn component(
        &self,
        entry: &Entry,
        stored: Extent,
        digest: Option<Digest>,
    ) -> Result<Component> {
        let (dtype, logical_type) = type_of(entry)?;
        Ok(Component {
            role: Role::Data,
            dtype,
            logical_type,
            encoding: Encoding::Raw,
            byte_order: self.bundle.order,
            stored,
            decoded_len: None,
            digest,
        })
    }

    /// Returns the component of a tensor that is stored whole.
    fn whole(&self, entry: &Entry) -> Result<Component> {
        type_of(entry)?;
        self.component(entry, self.locate(entry)?, entry.crc.map(Digest::Crc32c))
    }

    /// Returns the component of a tensor that is stored in slices.
    fn sliced(
        &mut self,
        name: &[u8],
        entry: &Entry,
        parts: &HashMap<&'a [u8], &'a Entry>,
        used: &mut HashSet<&'a [u8]>,
    ) -> Result<Component> {
        if let Some(wrong) = entry.wrong {
            return Err(ENTRY.broken(wrong));
        }
        let (dtype, logical) = type_of(entry)?;
        let odd = || -> Error {
            SLICES.broken(format!("the slices do not fill the shape {:?}", entry.shape))
        };
        let mut found = Vec::new();
        for slice in &entry.slices {
            let own = key(name, slice);
            let Some((&known, part)) = parts.get_key_value(own.as_slice()) else {
                return Err(SLICES.broken("a slice is missing"));
            };
            if !used.insert(known) {
                return Err(odd());
            }
            if slice.len() != entry.shape.len() || part.dtype != entry.dtype {
                return Err(odd());
            }
            let (mut origin, mut shape) = (Vec::new(), Vec::new());
            for (extent, dim) in slice.iter().zip(&entry.shape) {
                let (start, len) = match extent {
                    Some((start, len)) => (u64::try_from(*start), u64::try_from(*len)),
                    None => (Ok(0), Ok(*dim)),
                };
                origin.push(start.map_err(|_| odd())?);
                shape.push(len.map_err(|_| odd())?);
            }
            if part.shape != shape {
                return Err(odd());
            }
            found.push(((origin, shape), self.locate(part)?));
        }
        if entry.shape.contains(&0) {
            let nothing = self.builder.stated(&[]);
            return self.component(entry, nothing, None);
        }
        let width = match &logical {
            Some(logical_type) => logical_type.bits().unwrap_or(8) / 8,
            None => dtype.width(),
        };
        let (boxes, places): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let (grid, numbers) = Grid::from_boxes(&entry.shape, &boxes, width).ok_or_else(odd)?;
        let chunk = |(number, stored)| Chunk { number, stored, skipped_steps: 0 };
        let chunks = numbers.into_iter().zip(places).map(chunk).collect();
        let fill = vec![0; usize::try_from(width).debug_unwrap()];
        let array = Chunked::new(grid, fill, Vec::new(), EdgeChunks::Filtered, chunks)
            .map_err(|e| e.with_rule(&SLICES))?;
        let stored = self.builder.chunked(array)?;
        self.component(entry, stored, None)
    }
}

fn type_of(entry: &Entry) -> Result<(DType, Option<LogicalType>)> {
    element(entry.dtype).ok_or_else(|| {
        let what = match entry.dtype {
            7 => "strings are not supported".to_owned(),
            21 => "variants are not supported".to_owned(),
            other => format!("unknown element type {other}"),
        };
        ELEMENT_TYPE.broken(what)
    })
}
