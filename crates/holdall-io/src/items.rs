//! Tensors to be written by a conversion or an edit, with the sources of their bytes.

pub use crate::casting::Casting;
use crate::checked::Check;
use crate::compress::Compression;
use crate::copy::Copier;
pub use crate::copy::CopyMode;
use crate::error::SAME_NAME;
use crate::file::Tensor;
use crate::planes::{PlaneSource, smallest};
use crate::sink::Sink;
use crate::work::Work;
use crate::writer::Writer;
use bytes::Bytes;
use holdall_core::layout::cast::FloatType;
use holdall_core::model::{Hasher, Warning, crc32c};
use holdall_core::{
    Component, ComponentRef, ComponentSpec, DType, Digest, Encode, Encoding, Error, Extent, Layout,
    LogicalType, Result, Role, TensorSpec,
};
use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

/// Returns warnings about tensors that common readers of the format do not support: the first case of each code, with
/// the number of cases.
pub fn warnings<'s>(
    encoder: &dyn Encode,
    specs: impl IntoIterator<Item = &'s TensorSpec>,
) -> Vec<Warning> {
    let mut out: Vec<Warning> = Vec::new();
    for warning in specs.into_iter().filter_map(|spec| encoder.warning(spec)) {
        match out.iter_mut().find(|known| known.code == warning.code) {
            Some(known) => known.count += 1,
            None => out.push(warning),
        }
    }
    out
}

/// How components with equal bytes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Sharing {
    /// Components that share their bytes in the source share them in the target.
    #[default]
    Keep,
    /// Components with equal bytes share them, even if they did not in the source.
    Dedupe,
    /// No components share bytes.
    Copy,
}

/// A tensor to be written.
pub struct Item {
    /// The description of the tensor in the new file.
    pub spec: TensorSpec,
    /// The source of each component of `spec`.
    pub feeds: Vec<ComponentSource>,
    /// Whether components of open files keep their encoding and their digest.
    pub keep: CopyMode,
}

/// The source of a component's bytes.
pub enum ComponentSource {
    /// A component of an open file.
    Component(Box<(Tensor, Component)>),
    /// A component of an open file whose elements are rounded to another float type.
    Cast(Box<Casting>),
    /// Bytes that are computed when they are written.
    Made(Box<dyn FnOnce() -> Result<ComputedPieces> + Send>),
    /// A byte plane of a tensor of an open file.
    Plane(PlaneSource),
    /// Bytes in memory, compressed in this way if the format can, whatever the write options say.
    InMemory(Bytes, Option<Compression>),
    /// Bytes that are read from a reader when they are written.
    Reader(Box<dyn Read + Send>),
    /// The same, in this encoding if the format has it, whatever the write options say.
    Encoded(Box<dyn Read + Send>, Encoding),
}

/// Computed bytes, in pieces.
pub type ComputedPieces = Box<dyn Iterator<Item = Result<Bytes>>>;

impl ComponentSource {
    /// Creates a source of bytes that are computed all at once when they are written.
    pub fn bytes(make: impl FnOnce() -> Result<Bytes> + Send + 'static) -> ComponentSource {
        ComponentSource::Made(Box::new(move || {
            let one: ComputedPieces = Box::new(std::iter::once(Ok(make()?)));
            Ok(one)
        }))
    }

    /// Creates a source of a tensor's elements in dense form.
    pub fn dense(tensor: &Tensor) -> ComponentSource {
        let tensor = tensor.clone();
        ComponentSource::Made(Box::new(move || {
            let pieces: ComputedPieces = Box::new(tensor.dense_pieces(Check::All)?);
            Ok(pieces)
        }))
    }

    pub(crate) fn component(tensor: &Tensor, component: Component) -> ComponentSource {
        ComponentSource::Component(Box::new((tensor.clone(), component)))
    }
}

/// Creates an item that writes a tensor in its current form.
///
/// # Errors
/// Returns the tensor's fault; errors of decoding a component to find its length.
pub fn unchanged_item(tensor: &Tensor) -> Result<Item> {
    check_available(tensor)?;
    let mut spec = spec_of(tensor.sound()?);
    let mut feeds = Vec::new();
    for (c, spec) in tensor.components().zip(&mut spec.components) {
        if c.decoded_len.is_none() {
            spec.decoded_len = measure(tensor, &c)?;
        }
        feeds.push(ComponentSource::component(tensor, c));
    }
    Ok(Item { spec, feeds, keep: CopyMode::Nothing })
}

/// Checks that a tensor of a package is not in a linked file that was not fetched: without its bytes it would be
/// written as an empty tensor.
///
/// # Errors
/// Returns `package/not-here` if it is.
pub fn check_available(tensor: &Tensor) -> Result<()> {
    #[cfg(feature = "carton")]
    if tensor.layout().as_str() == holdall_package::LINKED && tensor.components().len() == 0 {
        let message = "its file is not in the package, which only links to it";
        return Err(holdall_package::rules::NOT_HERE.broken(message).in_tensor(tensor.name()));
    }
    let _ = tensor;
    Ok(())
}

/// Returns the description of a tensor for writing it in its current form. Unknown decoded lengths are 0.
pub fn spec_of(tensor: &Tensor) -> TensorSpec {
    let component = |c: Component| {
        let mut spec = ComponentSpec::new(c.role, c.dtype, c.decoded_len.unwrap_or(0));
        spec.logical_type = c.logical_type;
        spec
    };
    TensorSpec {
        name: tensor.name().to_owned(),
        shape: tensor.shape().to_vec(),
        layout: tensor.layout().clone(),
        attributes: tensor.attributes().clone(),
        components: tensor.components().map(component).collect(),
    }
}

/// Decodes a component to find its decoded length.
fn measure(tensor: &Tensor, c: &Component) -> Result<u64> {
    tensor
        .component_pieces(c.clone(), None)?
        .try_fold(0u64, |n, piece| Ok(n.saturating_add(piece?.len() as u64)))
}

/// A key for finding components that may have equal bytes.
#[derive(PartialEq, Eq, Hash)]
enum Content {
    /// The same range of the same file, unchanged or converted to the same type.
    Place {
        file: usize,
        stored: Extent,
        decoded_len: u64,
        /// The number of bytes that are swapped to change the byte order.
        unit: u64,
        cast: Option<(DType, Option<LogicalType>, FloatType)>,
        plane: Option<usize>,
    },
    /// The same length and CRC-32C; the bytes must still be compared.
    Sum { decoded_len: u64, crc: u32 },
}

/// Checks that no two items have the same name.
pub fn check_names(items: &[Item]) -> Result<()> {
    let mut names: Vec<&str> = items.iter().map(|i| i.spec.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(SAME_NAME
            .broken("two tensors would have this name")
            .with_hint(
                "use as many `*` in the new name as in the old one, so that names stay different",
            )
            .in_tensor(pair[0])),
        None => Ok(()),
    }
}

/// Sorts items in the order of the encoder, and decides which components share bytes. Of components with equal bytes,
/// the first one in writing order is written.
pub fn arrange(mut items: Vec<Item>, encoder: &dyn Encode, sharing: Sharing) -> Result<Vec<Item>> {
    let specs: Vec<TensorSpec> = items.iter().map(|i| i.spec.clone()).collect();
    let mut order = encoder.order(&specs);
    drop(specs);
    let mut slots: Vec<Option<Item>> = items.drain(..).map(Some).collect();
    let mut items: Vec<Item> =
        order.drain(..).filter_map(|i| slots.get_mut(i).and_then(Option::take)).collect();
    if encoder.orders_components() {
        items.iter_mut().for_each(order_components);
    }
    if sharing == Sharing::Copy || !encoder.can_share() {
        return Ok(items);
    }
    let mut seen: HashMap<Content, Vec<(usize, usize)>> = HashMap::new();
    for at in 0..items.len() {
        for c in 0..items[at].feeds.len() {
            if encoder.stores_in_header(&items[at].spec, c) {
                continue;
            }
            // An empty component shares its bytes with every other one. That is recorded only if it takes no extra
            // field.
            if items[at].spec.components[c].decoded_len == 0
                && (sharing == Sharing::Keep || encoder.header_first())
            {
                continue;
            }
            let Some(content) = content(&items[at], c, sharing)? else { continue };
            let candidates = seen.entry(content).or_default();
            let mut owner = None;
            for &(i, j) in candidates.iter() {
                // A format whose header comes first can only record that whole tensors are aliases.
                let whole = !encoder.header_first() || is_alias(&items[i].spec, &items[at].spec);
                if whole && same_bytes(&items[i].feeds[j], &items[at].feeds[c], sharing)? {
                    owner = Some((i, j));
                    break;
                }
            }
            match owner {
                None => candidates.push((at, c)),
                Some((i, j)) => {
                    let spec = &items[i].spec;
                    let role = spec.components[j].role.clone();
                    let shares = ComponentRef { tensor: spec.name.clone(), role };
                    items[at].spec.components[c].shares = Some(shares);
                }
            }
        }
    }
    Ok(items)
}

/// Sorts components by the names of their roles.
fn order_components(item: &mut Item) {
    let components = item.spec.components.drain(..);
    let mut pairs: Vec<_> = components.zip(item.feeds.drain(..)).collect();
    pairs.sort_by(|(a, _), (b, _)| a.role.as_str().cmp(b.role.as_str()));
    (item.spec.components, item.feeds) = pairs.into_iter().unzip();
}

fn is_alias(a: &TensorSpec, b: &TensorSpec) -> bool {
    let kinds = |t: &TensorSpec| -> Vec<_> {
        t.components.iter().map(|c| (c.role.clone(), c.dtype, c.logical_type.clone())).collect()
    };
    a.shape == b.shape && a.layout == b.layout && kinds(a) == kinds(b)
}

fn content(item: &Item, at: usize, sharing: Sharing) -> Result<Option<Content>> {
    let decoded_len = item.spec.components[at].decoded_len;
    let feed = &item.feeds[at];
    let data;
    let (tensor, c, to, plane) = match feed {
        ComponentSource::Component(feed) => (&feed.0, &feed.1, None, None),
        ComponentSource::Cast(cast) => (&cast.tensor, &cast.component, Some(cast.to), None),
        ComponentSource::Plane(source) => {
            let (tensor, plane) = source.origin();
            // A tensor that is in planes already has this one.
            let component = match tensor.layout() {
                Layout::Planes(own) => own.roles().nth(plane).and_then(|p| tensor.component(&p)),
                Layout::Dense => tensor.component(&Role::Data),
                _ => None,
            };
            let Some(component) = component else { return Ok(None) };
            data = component;
            (tensor, &data, None, Some(plane))
        }
        ComponentSource::Made(_)
        | ComponentSource::InMemory(..)
        | ComponentSource::Reader(_)
        | ComponentSource::Encoded(..) => return Ok(None),
    };
    if sharing == Sharing::Keep {
        return Ok(Some(Content::Place {
            file: tensor.file().identity(),
            stored: c.stored,
            decoded_len,
            unit: c.byte_order.unit(c.dtype),
            cast: to.map(|to| (c.dtype, c.logical_type.clone(), to)),
            plane,
        }));
    }
    let mut hasher = Hasher::new(holdall_core::Algorithm::Crc32c);
    for piece in feed_pieces(feed)?.into_iter().flatten() {
        hasher.update(&piece?);
    }
    let crc = match hasher.finish() {
        Digest::Crc32c(crc) => crc,
        _ => crc32c(&[]),
    };
    Ok(Some(Content::Sum { decoded_len, crc }))
}

/// Returns the bytes that will be written for a component of an open file, in pieces.
fn feed_pieces(feed: &ComponentSource) -> Result<Option<ComputedPieces>> {
    Ok(match feed {
        ComponentSource::Component(feed) => Some(Box::new(feed.0.pieces(&feed.1.role)?)),
        ComponentSource::Cast(cast) => Some(Box::new(cast.pieces(Arc::default())?)),
        ComponentSource::Plane(source) => Some(source.pieces()?),
        ComponentSource::Made(_)
        | ComponentSource::InMemory(..)
        | ComponentSource::Reader(_)
        | ComponentSource::Encoded(..) => None,
    })
}

fn same_bytes(a: &ComponentSource, b: &ComponentSource, sharing: Sharing) -> Result<bool> {
    if sharing == Sharing::Keep {
        return Ok(true);
    }
    let (Some(mut a), Some(mut b)) = (feed_pieces(a)?, feed_pieces(b)?) else { return Ok(false) };
    // The pieces of both may have different lengths.
    let (mut x, mut y) = (Bytes::new(), Bytes::new());
    loop {
        if x.is_empty() {
            x = a.next().transpose()?.unwrap_or_default();
        }
        if y.is_empty() {
            y = b.next().transpose()?.unwrap_or_default();
        }
        let len = x.len().min(y.len());
        if len == 0 {
            return Ok(x.is_empty() && y.is_empty());
        }
        if x.split_to(len) != y.split_to(len) {
            return Ok(false);
        }
    }
}

/// Writes items that were [arranged](arrange), with their components in order.
pub fn write<S: Sink>(writer: &mut Writer<S>, items: Vec<Item>, work: &Work) -> Result<()> {
    let mut copier = Copier::new(work);
    for Item { spec, feeds, keep } in items {
        // The writer handles empty and shared components itself.
        let given = |c: &ComponentSpec| c.shares.is_none() && c.decoded_len > 0;
        let given: Vec<bool> = spec.components.iter().map(given).collect();
        let name = spec.name.clone();
        let is_new = |feed: &ComponentSource| {
            use ComponentSource::{Cast, Encoded, Made, Reader};
            matches!(feed, Cast(_) | Made(_) | Reader(_) | Encoded(..))
        };
        match feeds.iter().all(is_new) {
            true => writer.tensor(spec)?,
            false => writer.tensor_in_layout(spec)?,
        }
        for (feed, _) in feeds.into_iter().zip(given).filter(|(_, given)| *given) {
            match feed {
                ComponentSource::Component(feed) => {
                    let (tensor, c) = *feed;
                    if keep == CopyMode::Nothing
                        && writer.chooses_encoding()
                        && let Some(choice) = smallest::of_component(&tensor, &c)?
                    {
                        writer.encode_in(choice)?;
                    }
                    copier.copy(writer, &tensor, &c, keep).map_err(|e| {
                        if e.source_name().is_some_and(|name| name != tensor.file().name()) {
                            // An error of the target, not of the source component.
                            return e;
                        }
                        let e = e.in_tensor(tensor.name()).in_component(&c.role);
                        e.at(c.stored.range()).in_source(tensor.file().name())
                    })?;
                }
                ComponentSource::Cast(cast) => cast.write(writer, work)?,
                ComponentSource::Made(make) => {
                    for piece in make()? {
                        let piece = piece?;
                        writer.write(&piece)?;
                        work.advance(piece.len() as u64)?;
                    }
                }
                ComponentSource::Plane(of) => {
                    match of.compression().filter(|c| writer.can_encode(c.encoding)) {
                        Some(compression) => writer.compressed(compression),
                        None => writer.uncompressed()?,
                    }
                    for piece in of.pieces()? {
                        let piece = piece?;
                        writer.write(&piece)?;
                        work.advance(piece.len() as u64)?;
                    }
                }
                ComponentSource::InMemory(bytes, compression) => {
                    match compression.filter(|c| writer.can_encode(c.encoding)) {
                        Some(compression) => writer.compressed(compression),
                        None => writer.uncompressed()?,
                    }
                    writer.write(&bytes)?;
                }
                ComponentSource::Reader(from) => {
                    writer.write_from(from, 1).map_err(|e: Error| e.in_tensor(name.as_str()))?;
                }
                ComponentSource::Encoded(from, encoding) => {
                    if encoding != Encoding::Raw && writer.can_encode(encoding) {
                        let usual = writer.usual(encoding);
                        writer.compressed(usual);
                    }
                    writer.write_from(from, 1).map_err(|e: Error| e.in_tensor(name.as_str()))?;
                }
            }
        }
    }
    Ok(())
}
