//! Decodes the index of a file: the values in its pickle, and the location of the storages.

use super::REQUIRES_GRAD;
use super::detect::{FIRST, is_legacy};
use super::object::{Flags, Objects, Storage, Tensor, View};
use super::pt2;
use super::walk::{Content, Walk};
use super::{
    ATTRIBUTES, BYTE_ORDER, COMPRESSED, DTYPE, LEGACY, PYTHON_ATTRIBUTES, STORAGE, TENSORS, VIEW,
};
use crate::array::DESCR;
use crate::kept;
use crate::named::Element;
use bytes::Bytes;
use holdall_collections::{HashMap, HashSet};
use holdall_core::codec::check_decoded_len;
use holdall_core::codec::checksums::Crc32Checked;
use holdall_core::codec::deflate::Deflate;
use holdall_core::codec::mask::Mask;
use holdall_core::codec::pipeline::Step;
use holdall_core::error::{Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::{
    Attributes, ByteOrder, Checksum, Component, DType, Digest, Encoding, Index, IndexBuilder,
    Layout, LogicalType, Role, Value, element_count,
};
use holdall_core::read::{Chunk, Chunked, EdgeChunks, Extent, Grid};
use holdall_core::window::{ParseAttempt, Stop, Window};
use holdall_core::wire::pickle::{self, Graph, Id, Node};
use holdall_core::wire::zip::{Directory, Entry, Method};
use std::ops::Range;

/// The start of files from before torch 1.6, after the protocol of the pickle: a pickle of a number.
pub(super) const MAGIC: &[u8] = b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.";
/// The same in protocol 1, which has nothing before it.
pub(super) const OLD_MAGIC: &[u8] = b"L119547037146038801333356L\n.";
/// The bytes before it in protocols 4 and 5: the length of the frame.
pub(super) const FRAME: &[u8] = b"\x95\x0d\0\0\0\0\0\0\0";
/// The number of bytes by which such a file is recognised.
const START: u64 = 32;

/// Returns the folder that has the pickle: `archive/`.
pub(super) fn top(directory: &Directory) -> Option<&str> {
    let folder_len = |entry: Entry<'_>| entry.name().strip_suffix("data.pkl").map(|top| top.len());
    let entry = directory.entries().find(|entry| {
        folder_len(*entry).is_some_and(|len| {
            entry
                .name()
                .get(..len)
                .is_some_and(|top| top.ends_with('/') && top.matches('/').count() == 1)
        })
    })?;
    entry.name().strip_suffix("data.pkl")
}

/// Decodes the index of the file in `window`.
pub(super) fn decode(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    let head = window.head(START)?;
    match *head {
        ref start if is_legacy(start) => legacy(window, limits),
        [b'P', b'K', ..] => zipped(window, limits),
        _ => alone(window, limits),
    }
}

/// Decodes a pickle that is a whole file. Its arrays have their elements in the pickle.
fn alone(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    let read =
        |bytes: Bytes| pickle::read(&bytes, 0, limits.attribute_values).map(ParseAttempt::from);
    let Some((graph, root, _)) = window.growing(FIRST, limits.header_len, read)? else {
        let e = match window.len() > limits.header_len {
            true => pickle::TOO_LONG.broken(format!("it has {} bytes", window.len())),
            false => pickle::BROKEN.broken("the pickle is cut short"),
        };
        return Err(e.at(0..window.len()).into());
    };
    let mut content = content(&graph, root, limits)?;
    content.is_nested = true;
    let (none, len) = (kept::Entries::default(), window.len());
    let storages = Storages::default();
    Ok(build(&content, none, len, len, ByteOrder::Little, limits, &storages)?)
}

fn zipped(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    let directory =
        std::sync::Arc::unwrap_or_clone(Directory::read(window, limits)?).with_optional_checksums();
    let saved = top(&directory);
    let top = match saved {
        Some(_) => saved,
        None => pt2::top(&directory, window)?,
    };
    let Some(top) = top else {
        return Err(STORAGE.broken("the zip has no `data.pkl`").into());
    };
    let get = |name: &str| directory.get(&format!("{top}{name}"));
    let own = saved.and_then(|_| get("data.pkl"));
    // In TorchScript, the tensors that its code refers to.
    let script = own.and_then(|_| get("constants.pkl"));
    let texts: Vec<Entry<'_>> = [own, script, get("byteorder")].into_iter().flatten().collect();
    let mut limits_of_text = limits.clone();
    limits_of_text.text_len = limits.header_len;
    let mut contents = directory.contents(&texts, window, &limits_of_text)?.into_iter();
    let text = own.and_then(|_| contents.next()).unwrap_or_default();
    let constants = script.and_then(|_| contents.next()).unwrap_or_default();
    let order = match contents.next().as_deref() {
        None | Some(b"little") => ByteOrder::Little,
        Some(b"big") => ByteOrder::Big,
        Some(_) => {
            return Err(BYTE_ORDER.broken("`byteorder` is neither `little` nor `big`").into());
        }
    };
    let pickled = |entry: Entry<'_>, text: &[u8]| -> Result<Content, Stop> {
        let at = directory.data(entry, window)?;
        let Some((graph, root, _)) = pickle::read(text, at.start, limits.attribute_values)? else {
            return Err(pickle::BROKEN.broken("the pickle is cut short").at(at).into());
        };
        Ok(content(&graph, root, limits)?)
    };
    let mut content = match own {
        None => pt2::content(&directory, top, window, limits)?,
        Some(own) => pickled(own, &text)?,
    };
    content.storages_mut().for_each(|storage| storage.key.insert_str(0, "data/"));
    if let Some(entry) = script {
        let mut of_code = pickled(entry, &constants)?;
        of_code.storages_mut().for_each(|storage| storage.key.insert_str(0, "constants/"));
        let named =
            of_code.tensors.into_iter().map(|(n, tensor)| (format!("constants.{n}"), tensor));
        content.tensors.extend(named);
        content.left_out.append(&mut of_code.left_out);
        content.is_nested = true;
    }
    let names = [ATTRIBUTES, TENSORS].map(|name| format!("{top}{name}"));
    let ours = kept::Entries::read(&directory, &names[0], &names[1], window, limits)?;
    // All storages, each once, are located with one request.
    let mut keys: HashSet<&str> = HashSet::default();
    let mut entries = Vec::new();
    for storage in storages(&content) {
        if !keys.insert(storage.key.as_str()) {
            continue;
        }
        let Some(entry) = get(&storage.key) else {
            // In this case, each of its tensors gets a fault.
            if limits.salvage {
                continue;
            }
            let message = format!("the zip has no storage `{}`", storage.key.escaped());
            return Err(STORAGE.broken(message).into());
        };
        if !matches!(entry.method(), Method::Stored | Method::Deflate) {
            let (name, method) = (entry.name().escaped(), entry.method());
            let message = format!("the storage `{name}` is compressed by {method}");
            return Err(COMPRESSED.broken(message).into());
        }
        entries.push((storage.key.as_str(), entry));
    }
    let all: Vec<Entry<'_>> = entries.iter().map(|(_, entry)| *entry).collect();
    let ranges = directory.data_of_all(&all, window)?;
    let to_storage = |((key, entry), stored): (&(&str, Entry<'_>), Range<u64>)| {
        let is_deflated = entry.method() == Method::Deflate;
        let inflated = is_deflated.then(|| entry.decoded_len());
        let crc32 = entry.checked_crc32().map(|crc32| (entry.name().to_owned(), crc32));
        ((*key).to_owned(), StorageBytes { stored, inflated, crc32 })
    };
    let ranges = entries.iter().zip(ranges).map(to_storage).collect();
    // Storages that the pickle refers to, and whose values become attributes.
    let parameters: HashSet<&str> = parameters(&content).collect();
    entries.retain(|(key, _)| parameters.contains(key));
    let all: Vec<Entry<'_>> = entries.iter().map(|(_, entry)| *entry).collect();
    let contents = directory.contents(&all, window, &limits_of_text)?;
    let keys = entries.iter().map(|(key, _)| (*key).to_owned());
    let storages = Storages { bytes: ranges, contents: keys.zip(contents).collect() };
    Ok(build(&content, ours, window.len(), directory.range().start, order, limits, &storages)?)
}

/// Decodes a file of five pickles, followed by the storages.
fn legacy(window: &Window, limits: &Limits) -> Result<Index, Stop> {
    let read = |bytes: Bytes| pickles(&bytes, limits).map(ParseAttempt::from);
    let Some((graph, root, keys, end)) = window.growing(FIRST, limits.header_len, read)? else {
        let e = LEGACY.broken("the file ends inside its pickles");
        return Err(e.at(0..window.len().min(limits.header_len)).into());
    };
    let content = content(&graph, root, limits)?;
    // The location of a storage depends on the lengths of those before it, so all lengths are needed.
    let mut widths: HashMap<String, u64> = HashMap::default();
    for pid in graph.persistent() {
        let storage = super::object::storage(&graph, pid)?;
        let width = storage.element.as_ref().map_or(1, |element| element.width());
        widths.insert(storage.key, width);
    }
    let mut storages = Storages::default();
    let mut at = end;
    for key in keys {
        let Some(width) = widths.get(&key) else {
            // Without the width of its elements, the location of the next storage is unknown.
            if limits.salvage {
                break;
            }
            let message =
                format!("no tensor gives the element type of the storage `{}`", key.escaped());
            return Err(STORAGE.broken(message).into());
        };
        let start = at.saturating_add(8);
        if start > window.len() {
            if limits.salvage {
                break;
            }
            return Err(STORAGE.broken("the file ends before its last storage").at(at..at).into());
        }
        let count = window.bytes(at..start)?;
        let count = count.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let Some(stop) = count.checked_mul(*width).and_then(|len| start.checked_add(len)) else {
            if limits.salvage {
                break;
            }
            return Err(STORAGE
                .broken(format!("a storage of {count} elements"))
                .at(at..start)
                .into());
        };
        // In a salvage, a tensor that ends after the end of the file gets a fault.
        if stop > window.len() && !limits.salvage {
            let message =
                format!("the storage `{}` extends past the end of the file", key.escaped());
            return Err(STORAGE.broken(message).at(at..start).into());
        }
        storages
            .bytes
            .insert(key, StorageBytes { stored: start..stop, inflated: None, crc32: None });
        at = stop;
    }
    let parameters: HashSet<&str> = parameters(&content).collect();
    let stored = |key: &str| storages.bytes.get(key).map(|storage| storage.stored.clone());
    let ranges = parameters.iter().filter_map(|key| Some(((*key).to_owned(), stored(key)?)));
    let ranges = ranges.filter(|(_, range)| range.end <= window.len());
    let ranges: Vec<(String, Range<u64>)> = ranges.collect();
    window.all(ranges.iter().map(|(_, range)| range.clone()))?;
    for (key, range) in ranges {
        storages.contents.insert(key, window.bytes(range)?);
    }
    let none = kept::Entries::default();
    Ok(build(&content, none, window.len(), window.len(), ByteOrder::Little, limits, &storages)?)
}

/// The value, the keys of the storages in order, and the end of the pickles.
type Legacy = (Graph, Id, Vec<String>, u64);

fn pickles(bytes: &[u8], limits: &Limits) -> Result<Option<Legacy>> {
    let mut at = 0u64;
    let mut found = Vec::new();
    for _ in 0..5 {
        let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
        let Some((graph, root, len)) = pickle::read(rest, at, limits.attribute_values)? else {
            return Ok(None);
        };
        at = at.saturating_add(len);
        found.push((graph, root));
    }
    let Ok([_, version, machine, (graph, root), keys]) = <[(Graph, Id); 5]>::try_from(found) else {
        return Ok(None);
    };
    if version.0.integer(version.1) != Some(1001) {
        return Err(LEGACY.broken("expected the number 1001 as the second pickle"));
    }
    let says_big = match machine.0.get(machine.1) {
        Node::Dict(pairs) => pairs.iter().any(|(key, value)| {
            machine.0.text(*key) == Some("little_endian")
                && matches!(machine.0.get(*value), Node::Bool(false))
        }),
        _ => return Err(LEGACY.broken("expected a dict as the third pickle")),
    };
    if says_big {
        return Err(LEGACY.broken("it was written on a big-endian machine"));
    }
    let names =
        keys.0.items(keys.1).ok_or_else(|| LEGACY.broken("expected a list as the fifth pickle"))?;
    let names: Option<Vec<String>> =
        names.iter().map(|id| keys.0.text(*id).map(str::to_owned)).collect();
    let names = names.ok_or_else(|| LEGACY.broken("the keys of storages are not strings"))?;
    Ok(Some((graph, root, names, at)))
}

fn content(graph: &Graph, root: Id, limits: &Limits) -> Result<Content> {
    let objects = Objects { graph, skips: limits.skip_unknown, depth: limits.depth };
    Walk::new(objects, limits.attribute_values).all(root)
}

fn storages(content: &Content) -> impl Iterator<Item = &Storage> {
    content.tensors.iter().flat_map(|(_, tensor)| tensor.views()).map(|view| &view.storage)
}

/// Returns the keys of the storages with the scales and zero points of quantized tensors.
fn parameters(content: &Content) -> impl Iterator<Item = &str> {
    let quantizers = content.tensors.iter().filter_map(|(_, tensor)| match tensor {
        Tensor::Quantized(_, quantizer) => Some(quantizer),
        _ => None,
    });
    quantizers.flat_map(|quantizer| quantizer.views()).map(|view| view.storage.key.as_str())
}

/// The location of a storage's bytes.
struct StorageBytes {
    stored: Range<u64>,
    /// The decoded length, if they are compressed by Deflate.
    inflated: Option<u64>,
    /// The name of the storage's zip entry, and the CRC-32 of its decoded bytes.
    crc32: Option<(String, u32)>,
}

impl StorageBytes {
    /// Returns the number of bytes of the storage.
    fn len(&self) -> u64 {
        let stored = self.stored.end.saturating_sub(self.stored.start);
        self.inflated.unwrap_or(stored)
    }
}

/// The storages of a file, by key.
#[derive(Default)]
struct Storages {
    bytes: HashMap<String, StorageBytes>,
    /// The bytes of the storages that have scales and zero points.
    contents: HashMap<String, Bytes>,
}

/// Builds the index. `end` is the offset at which storages must end at the latest.
fn build(
    content: &Content,
    mut ours: kept::Entries,
    len: u64,
    end: u64,
    order: ByteOrder,
    limits: &Limits,
    stored: &Storages,
) -> Result<Index> {
    // In a salvage, a storage that ends after the end of the file is the fault of its tensors.
    let end = if limits.salvage { u64::MAX } else { end };
    let mut builder = IndexBuilder::new("pytorch", "", len, 0..end, limits).with_views();
    let mut attributes = std::mem::take(&mut ours.attributes);
    let mut keys: HashSet<String> = attributes.iter().map(|(key, _)| key.to_owned()).collect();
    for (key, value) in &content.attributes {
        if keys.insert(key.clone()) {
            attributes.push(key.clone(), value.clone());
        }
    }
    builder.attributes(attributes);
    for (name, e) in ours.odd {
        builder.warn("pytorch/restore", None, None, || {
            format!("the entry `{}` is not in the form that Holdall writes: {e}", name.escaped())
                .into()
        });
    }
    if content.is_nested {
        builder.unrepresented(|| "the containers that its values are in".to_owned());
    }
    for (name, key) in &content.of_dicts {
        let key = key.escaped();
        builder.dispensable(|| match name.as_str() {
            "" => format!("`{key}`, an attribute of the dict of all tensors"),
            name => format!("`{key}`, an attribute of the dict `{}`", name.escaped()),
        });
    }
    for name in &content.of_others {
        builder.unrepresented(|| {
            format!("that `{}` is an attribute of another tensor", name.escaped())
        });
    }
    for (name, what) in &content.left_out {
        builder.unrepresented(|| format!("`{}`, which is `{what}`", name.escaped()));
        builder.warn("pytorch/left-out", None, None, || {
            format!("`{}` is left out: it is `{what}`", name.escaped()).into()
        });
    }
    let inflated = HashMap::default();
    let mut places =
        StorageLookup { order, storages: stored, inflated, checked_starts: HashSet::default() };
    let mut types: HashMap<&str, &Storage> = HashMap::default();
    for storage in storages(content) {
        let first = types.entry(&storage.key).or_insert(storage);
        if first.len != storage.len || first.element != storage.element {
            let message =
                format!("the storage `{}` is used with two element types", storage.key.escaped());
            return Err(STORAGE.broken(message));
        }
    }
    for (name, tensor) in &content.tensors {
        let mut own = ours.of_tensors.remove(name).unwrap_or_default();
        if let Some(python) = content.python.get(name) {
            own.set(PYTHON_ATTRIBUTES, Value::Map(python.clone()));
        }
        match places.add(name, tensor, own, &mut builder) {
            // Errors in its storage are found before the tensor is in the index.
            Err(e) if limits.salvage && [STORAGE.code, VIEW.code].contains(&e.code()) => {
                builder.tensor(name, tensor.shape(), Layout::Dense)?;
                builder.fault(e);
            }
            done => done.map_err(|e| e.in_tensor(name))?,
        }
    }
    builder.finish()
}

struct StorageLookup<'a> {
    order: ByteOrder,
    storages: &'a Storages,
    /// Storages that are compressed by Deflate and are not exactly one tensor, as arrays of the index.
    inflated: HashMap<&'a str, Extent>,
    /// The offsets of storages whose checksums are in the index.
    checked_starts: HashSet<u64>,
}

impl<'a> StorageLookup<'a> {
    fn add(
        &mut self,
        name: &str,
        tensor: &'a Tensor,
        mut attributes: Attributes,
        builder: &mut IndexBuilder,
    ) -> Result<()> {
        match tensor {
            Tensor::Dense(view) | Tensor::Quantized(view, _) => {
                if let Tensor::Quantized(_, quantizer) = tensor {
                    let bytes = |key: &str| self.storages.contents.get(key).cloned();
                    quantizer.describe(&mut attributes, self.order, bytes)?;
                }
                if view.requires_grad {
                    attributes.set(REQUIRES_GRAD, Value::Bool(true));
                }
                let component = self.component(Role::Data, view, builder)?;
                let is_row_major = is_row_major(&view.shape, &view.strides);
                if view.element == Element::PAIR {
                    let shape = paired(&view.shape).filter(|_| is_row_major);
                    builder.tensor(name, shape.as_ref().unwrap_or(&view.shape), Layout::Dense)?;
                    builder.tensor_attributes(attributes);
                    if shape.is_some() {
                        return builder.component(component);
                    }
                    builder.fault(DTYPE.broken("its pairs of floats are not in row-major order"));
                    return Ok(());
                }
                let layout = match is_row_major {
                    true => Layout::Dense,
                    false => {
                        attributes.set("strides", numbers(&view.strides));
                        Layout::Strided
                    }
                };
                builder.tensor(name, &view.shape, layout)?;
                builder.tensor_attributes(attributes);
                builder.component(component)
            }
            Tensor::Sparse { shape, layout, attributes: described, parts } => {
                described.iter().for_each(|(key, value)| attributes.set(key, value.clone()));
                let mut components = Vec::new();
                for (role, view) in parts {
                    if !is_row_major(&view.shape, &view.strides) {
                        return Err(VIEW
                            .broken("a part of a sparse tensor is not in row-major order")
                            .in_component(role));
                    }
                    components.push(self.component(role.clone(), view, builder)?);
                }
                builder.tensor(name, shape, layout.clone())?;
                builder.tensor_attributes(attributes);
                components.into_iter().try_for_each(|component| builder.component(component))
            }
            Tensor::Array { shape, strides, element, order, descr, bytes } => {
                let layout = if strides.is_some() { Layout::Strided } else { Layout::Dense };
                builder.tensor(name, shape, layout)?;
                let strides = strides.iter().flat_map(Attributes::iter);
                strides.for_each(|(key, value)| attributes.set(key, value.clone()));
                if let Some(descr) = descr {
                    attributes.set(DESCR, Value::Text(descr.clone()));
                }
                builder.tensor_attributes(attributes);
                // Bytes in the index are little-endian.
                let mut bytes = bytes.clone();
                if *order == ByteOrder::Big {
                    element.swap(&mut bytes);
                }
                let stored = builder.stated(&bytes);
                builder.component(component(
                    Role::Data,
                    element.dtype,
                    element.logical.clone(),
                    ByteOrder::Little,
                    stored,
                ))
            }
            Tensor::Missing(shape, e) => {
                builder.tensor(name, shape, Layout::Dense)?;
                builder.tensor_attributes(attributes);
                builder.fault(e.clone());
                Ok(())
            }
        }
    }

    /// Returns the component with the bytes from the first element of a view to its last.
    fn component(
        &mut self,
        role: Role,
        view: &'a View,
        builder: &mut IndexBuilder,
    ) -> Result<Component> {
        let storage = &view.storage;
        let Some(place) = self.storages.bytes.get(&storage.key) else {
            return Err(
                STORAGE.broken(format!("the file has no storage `{}`", storage.key.escaped()))
            );
        };
        let unit = storage.element.as_ref().map_or(1, |element| element.width());
        let declared_len = storage.len.checked_mul(unit);
        if declared_len.is_none_or(|declared_len| declared_len > place.len()) {
            let message = format!(
                "the storage `{}` should have {} elements of {unit} bytes, but has {} bytes",
                storage.key.escaped(),
                storage.len,
                place.len()
            );
            return Err(STORAGE.broken(message).at(place.stored.clone()));
        }
        let width = view.element.width();
        let outside = || {
            let message = format!(
                "shape {:?} with strides {:?} from element {} on exceeds the storage of {} bytes",
                view.shape,
                view.strides,
                view.offset,
                declared_len.unwrap_or_default()
            );
            VIEW.broken(message).at(place.stored.clone())
        };
        let count = element_count(&view.shape).ok_or_else(outside)?;
        let span = match count {
            0 => Some(0),
            _ => view.shape.iter().zip(&view.strides).try_fold(1u64, |span, (n, stride)| {
                span.checked_add(n.checked_sub(1)?.checked_mul(*stride)?)
            }),
        };
        let first = view.offset.checked_mul(width).zip(storage.start.checked_mul(unit));
        let first = first.and_then(|(offset, start)| offset.checked_add(start));
        let range = first.zip(span.and_then(|span| span.checked_mul(width)));
        let range = range.and_then(|(start, len)| Some(start..start.checked_add(len)?));
        let range = range
            .filter(|range| declared_len.is_some_and(|declared_len| range.end <= declared_len))
            .ok_or_else(outside)?;
        let (element, len) = (&view.element, range.end.saturating_sub(range.start));
        let whole = Component {
            role,
            dtype: element.dtype,
            logical_type: element.logical.clone(),
            encoding: Encoding::Raw,
            byte_order: self.order,
            stored: Extent::from(place.stored.clone()),
            decoded_len: Some(len),
            digest: None,
        };
        let is_turned = view.flags != Flags::default() && len != 0;
        let mut digest = None;
        match &place.crc32 {
            Some((_, crc32)) if len == place.len() && !is_turned => {
                digest = Some(Digest::Crc32(*crc32));
            }
            // Bytes that are decoded for a part of the storage are verified when they are decoded.
            Some(_) if place.inflated.is_some() => {}
            // The checksum covers more than these bytes.
            Some((name, crc32)) if self.checked_starts.insert(place.stored.start) => {
                let digest = Digest::Crc32(*crc32);
                builder.checksum(Checksum::new(name, place.stored.clone().into(), digest));
            }
            _ => {}
        }
        let crc32 = place.crc32.as_ref().map(|(_, crc32)| *crc32);
        let mask = (view.flags != Flags::default()).then(|| mask(element, view.flags, self.order));
        let (encoding, stored) = match (place.inflated, mask) {
            (_, _) if len == 0 => {
                (Encoding::Raw, Extent::from(place.stored.start..place.stored.start))
            }
            (Some(inflated), None) if len == inflated => (Encoding::DEFLATE, whole.stored),
            (Some(inflated), Some(mask)) => {
                let array = inflate(whole.stored, inflated, (Some(mask), crc32), builder.limits())?;
                (Encoding::Raw, builder.chunked(array)?.part(range))
            }
            (Some(inflated), None) => {
                let array = match self.inflated.get(storage.key.as_str()) {
                    Some(array) => *array,
                    None => {
                        let array =
                            inflate(whole.stored, inflated, (None, crc32), builder.limits())?;
                        let array = builder.chunked(array)?;
                        self.inflated.insert(&storage.key, array);
                        array
                    }
                };
                (Encoding::Raw, array.part(range))
            }
            (None, None) => (Encoding::Raw, whole.stored.part(range)),
            (None, Some(mask)) => {
                let turned = signs(element.width(), mask, whole.stored.part(range))?;
                (Encoding::Raw, builder.chunked(turned)?)
            }
        };
        Ok(Component { encoding, stored, digest, ..whole })
    }
}

/// Returns a storage that is compressed by Deflate as an array of `len` bytes, which are compared with a CRC-32. The
/// bits of the mask are flipped.
fn inflate(
    stored: Extent,
    len: u64,
    (mask, crc32): (Option<Vec<u8>>, Option<u32>),
    limits: &Limits,
) -> Result<Chunked> {
    check_decoded_len(len, stored.len(), limits)?;
    let mask = mask.map(|mask| Step::new(Mask::new(mask)));
    let check = crc32.map(|crc32| Step::new(Crc32Checked(crc32)));
    let steps = mask.into_iter().chain(check).chain([Step::new(Deflate)]).collect();
    let grid = Grid::cut(&[len], vec![vec![0]], 1);
    let grid =
        grid.ok_or_else(|| STORAGE.broken(format!("cannot decode a storage of {len} bytes")))?;
    let chunk = Chunk { number: 0, stored, skipped_steps: 0 };
    Chunked::new(grid, vec![0], steps, EdgeChunks::Filtered, vec![chunk])
}

/// The length of a chunk of elements whose signs are flipped, in bytes.
const PIECE: u64 = 1 << 20;

/// Returns the bits of an element that torch flips when it reads the element.
fn mask(element: &Element, flags: Flags, order: ByteOrder) -> Vec<u8> {
    let number = usize::try_from(element.dtype.width()).unwrap_or(1);
    let sign = if order == ByteOrder::Big { 0 } else { number.saturating_sub(1) };
    let mask = |turns: bool| (0..number).map(move |at| if turns && at == sign { 0x80 } else { 0 });
    let imaginary = element.is_complex().then(|| mask(flags.neg != flags.conj));
    mask(flags.neg).chain(imaginary.into_iter().flatten()).collect()
}

/// Returns elements of `width` bytes, in which the bits of `mask` are flipped, as torch does when it reads them.
fn signs(width: u64, mask: Vec<u8>, stored: Extent) -> Result<Chunked> {
    let count = stored.len().checked_div(width).unwrap_or(0);
    let step = PIECE.checked_div(width).unwrap_or(1).max(1);
    let starts: Vec<u64> =
        (0..count.div_ceil(step)).map(|piece| piece.saturating_mul(step)).collect();
    let chunk = |(number, first): (u64, &u64)| {
        let from = stored.start.saturating_add(first.saturating_mul(width));
        let upto = from.saturating_add(step.saturating_mul(width)).min(stored.end);
        Chunk { number, stored: Extent::new(stored.source, from..upto), skipped_steps: 0 }
    };
    let chunks = (0u64..).zip(&starts).map(chunk).collect();
    let grid = Grid::cut(&[count], vec![starts], width);
    let grid = grid.ok_or_else(|| VIEW.broken("its elements pass 2^64 bytes"))?;
    let fill = vec![0; mask.len()];
    Chunked::new(grid, fill, vec![Step::new(Mask::new(mask))], EdgeChunks::Filtered, chunks)
}

fn component(
    role: Role,
    dtype: DType,
    logical_type: impl Into<Option<LogicalType>>,
    byte_order: ByteOrder,
    stored: Extent,
) -> Component {
    Component {
        role,
        dtype,
        logical_type: logical_type.into(),
        encoding: Encoding::Raw,
        byte_order,
        stored,
        decoded_len: Some(stored.len()),
        digest: None,
    }
}

/// Returns `true` if elements are stored in row-major order without gaps.
fn is_row_major(shape: &[u64], strides: &[u64]) -> bool {
    let mut step = 1u64;
    shape.contains(&0)
        || shape.iter().zip(strides).rev().all(|(n, stride)| {
            let fits = *n == 1 || *stride == step;
            step = step.saturating_mul(*n);
            fits
        })
}

/// Returns the shape in 4-bit floats of a tensor of pairs: the last dimension is doubled.
fn paired(shape: &[u64]) -> Option<Vec<u64>> {
    let (last, outer) = shape.split_last()?;
    let last = last.checked_mul(2)?;
    Some(outer.iter().copied().chain([last]).collect())
}

fn numbers(all: &[u64]) -> Value {
    Value::Array(all.iter().map(|n| Value::Integer((*n).into())).collect())
}
