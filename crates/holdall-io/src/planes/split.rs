//! Cutting tensors into byte planes while they are written.

use crate::checked::Check;
use crate::compress::Compression;
use crate::dense::DensePieces;
use crate::file::Tensor;
use crate::items::{ComponentSource, ComputedPieces, CopyMode, Item};
use bytes::Bytes;
use holdall_core::codec::PLANE_FRAME_LEN;
use holdall_core::layout::without_parameters;
use holdall_core::model::element_count;
use holdall_core::model::plane::PlaneType;
use holdall_core::{Attributes, ComponentSpec, DType, Encoding, Layout, Result, Role, TensorSpec};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The level at which zstd compresses literals only: the bytes of a plane hardly ever repeat, but some are frequent.
pub(super) const LITERALS_ONLY: i32 = -131_072;
/// Elements of a sample, and the number of samples, from which the entropy of a plane is estimated.
const SAMPLE: u64 = 8 << 10;
const SAMPLES: u64 = 8;
/// Bits per byte from which compressing a plane saves less than 3 %.
const RAW_FROM: f64 = 7.76;
/// Bytes that a component takes besides its own: its entry in a manifest, and the padding before it.
pub(super) const COMPONENT_COST: f64 = 128.;
/// The most bytes of a dense tensor whose planes are all made at once, and kept until they are written.
const AT_ONCE: u64 = 64 << 20;
/// Elements of a piece of a longer tensor.
const PIECE: u64 = 4 << 20;

/// Creates an item that writes a tensor in planes. Returns `None` if the elements are not floats of 16, 32 or 64 bits, or if
/// planes would not be smaller than the dense tensor, estimated from samples: unless they are `required`.
///
/// # Errors
/// Returns the errors of reading the samples.
pub fn item(tensor: &Tensor, required: bool) -> Result<Option<Item>> {
    let Some(plane_type) = plane_type_of(tensor) else { return Ok(None) };
    let count = tensor.count();
    let entropies = entropies(&frequencies(tensor, plane_type)?);
    if count == 0 || !(required || is_smaller(plane_type, count, &entropies)) {
        return Ok(None);
    }
    Ok(Some(make(tensor, plane_type, entropies.iter().map(compression).collect())))
}

/// How each plane is compressed, if it is.
pub(crate) type PlaneEncodings = Vec<Option<Compression>>;

/// Returns the type of the planes that a tensor of an open file can be written in.
pub(super) fn plane_type_of(tensor: &Tensor) -> Option<&'static PlaneType> {
    let element_type = tensor.dense_type().filter(|of| of.logical_type.is_none())?;
    PlaneType::by_dtype(element_type.dtype)
}

/// Creates an item that writes a tensor in planes, compressed in these ways.
pub(super) fn make(
    tensor: &Tensor,
    plane_type: &'static PlaneType,
    encodings: PlaneEncodings,
) -> Item {
    let split = Arc::new(SplitTensor {
        tensor: tensor.clone(),
        plane_type,
        planes: Mutex::default(),
        pieces: Mutex::default(),
    });
    let source = |(plane, compression)| {
        let split = Arc::clone(&split);
        ComponentSource::Plane(PlaneSource { split, plane, compression })
    };
    let attributes = without_parameters(tensor.layout(), tensor.attributes());
    let spec = spec(plane_type, tensor.name(), tensor.shape(), attributes);
    let feeds = encodings.into_iter().enumerate().map(source).collect();
    Item { spec, feeds, keep: CopyMode::Nothing }
}

/// Returns the description of a tensor in planes.
pub(crate) fn spec(
    plane_type: &'static PlaneType,
    name: &str,
    shape: &[u64],
    attributes: Attributes,
) -> TensorSpec {
    let count = element_count(shape).unwrap_or(u64::MAX);
    TensorSpec {
        name: name.to_owned(),
        shape: shape.to_vec(),
        layout: Layout::Planes(plane_type),
        attributes,
        components: plane_type
            .roles()
            .map(|role| ComponentSpec::new(role, DType::U8, count))
            .collect(),
    }
}

/// How often each byte occurs in each plane.
pub(crate) type Frequencies = Vec<[u64; 256]>;

/// Returns the entropy of each plane, in bits per byte.
pub(crate) fn entropies(frequencies: &Frequencies) -> Vec<f64> {
    frequencies.iter().map(entropy).collect()
}

/// Returns `true` if planes of these entropies take less than 97 % of the dense tensor, and save more than the further components
/// cost in the manifest and by their alignment.
pub(crate) fn is_smaller(plane_type: &PlaneType, count: u64, entropies: &[f64]) -> bool {
    let share = |bits: &f64| if *bits < RAW_FROM { bits / 8. } else { 1. };
    let planes = plane_type.count as f64;
    let saved = 1. - entropies.iter().map(share).sum::<f64>() / planes;
    saved > 0.03 && saved * count as f64 * planes > COMPONENT_COST * (planes - 1.)
}

/// Returns how a plane of this entropy is compressed, if it is.
pub(crate) fn compression(entropy: &f64) -> Option<Compression> {
    (*entropy < RAW_FROM).then_some(Compression {
        encoding: Encoding::ZSTD,
        level: Some(LITERALS_ONLY),
        frame_len: Some(PLANE_FRAME_LEN),
    })
}

/// Returns how often each byte occurs in each plane of some of the elements.
pub(crate) fn frequencies_of(plane_type: &PlaneType, dense: &[u8]) -> Frequencies {
    let mut counts = vec![[0u64; 256]; plane_type.count];
    for elements in samples((dense.len() / plane_type.count) as u64) {
        let range =
            elements.start as usize * plane_type.count..elements.end as usize * plane_type.count;
        tally(plane_type, dense.get(range).unwrap_or_default(), &mut counts);
    }
    counts
}

/// Adds the bytes of these elements to the frequencies.
fn tally(plane_type: &PlaneType, dense: &[u8], counts: &mut Frequencies) {
    let mut plane = Vec::with_capacity(dense.len() / plane_type.count);
    for (at, counts) in counts.iter_mut().enumerate() {
        plane.clear();
        plane_type.split(at, dense, &mut plane);
        plane.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    }
}

/// Returns how often each byte occurs in each plane of samples of a tensor.
fn frequencies(tensor: &Tensor, plane_type: &PlaneType) -> Result<Frequencies> {
    let count = tensor.count();
    let mut counts = vec![[0u64; 256]; plane_type.count];
    let dense = match tensor.component(&Role::Data) {
        Some(c) if *tensor.layout() == Layout::Dense && c.encoding == Encoding::Raw => None,
        _ => Some(tensor.dense_pieces(Check::Off)?),
    };
    for elements in samples(count) {
        let width = plane_type.count as u64;
        let bytes = match &dense {
            None => {
                let range = elements.start * width..elements.end * width;
                tensor.bytes_range(&Role::Data, range)?
            }
            Some(dense) => dense.piece(elements)?,
        };
        tally(plane_type, &bytes, &mut counts);
    }
    Ok(counts)
}

/// Returns the ranges of elements to sample: all of a small tensor.
fn samples(count: u64) -> Vec<Range<u64>> {
    let (samples, len, step) = match count <= SAMPLE * SAMPLES {
        true => (1, count, 0),
        false => (SAMPLES, SAMPLE, (count - SAMPLE) / (SAMPLES - 1)),
    };
    (0..samples).map(|i| i * step..i * step + len).collect()
}

/// Returns how bytes are compressed best (not at all, their literals only, or with repetitions), and the share of them that is
/// stored then, by samples.
///
/// # Errors
/// Returns the errors of zstd.
pub fn best(bytes: &[u8]) -> Result<(Option<Compression>, f64)> {
    let frame_len = PLANE_FRAME_LEN as usize;
    let step = (bytes.len() / 4).max(frame_len);
    let mut least = (0.97, None);
    for level in [LITERALS_ONLY, 1] {
        let Some(new) = Encoding::ZSTD.encoder() else { break };
        let (mut encoder, mut out, mut len) = (new(Some(level))?, Vec::new(), 0usize);
        let mut sampled = 0usize;
        for at in (0..bytes.len()).step_by(step).take(4) {
            let sample = &bytes[at..bytes.len().min(at + frame_len)];
            encoder.encode(1, sample, &mut out)?;
            (len, sampled) = (len + out.len(), sampled + sample.len());
        }
        let share = len as f64 / sampled.max(1) as f64;
        if share < least.0 {
            let (encoding, frame_len) = (Encoding::ZSTD, Some(PLANE_FRAME_LEN));
            least = (share, Some(Compression { encoding, level: Some(level), frame_len }));
        }
    }
    Ok(match least {
        (_, None) => (None, 1.),
        (share, compression) => (compression, share),
    })
}

/// Returns the entropy in bits of a byte with these frequencies.
fn entropy(counts: &[u64; 256]) -> f64 {
    let total = counts.iter().sum::<u64>().max(1) as f64;
    let used = counts.iter().filter(|count| **count > 0);
    used.map(|count| {
        let share = *count as f64 / total;
        -share * share.log2()
    })
    .sum()
}

/// A tensor that is cut into planes.
struct SplitTensor {
    tensor: Tensor,
    plane_type: &'static PlaneType,
    /// The planes of a short tensor, once they are made. Each is taken when it is written.
    planes: Mutex<Vec<Bytes>>,
    /// The elements of a long tensor, which are read once for each plane.
    pieces: Mutex<Option<DensePieces>>,
}

/// A plane of a tensor, as the source of a component.
pub struct PlaneSource {
    split: Arc<SplitTensor>,
    plane: usize,
    compression: Option<Compression>,
}

impl PlaneSource {
    /// Returns how the plane is compressed, if it is.
    pub(crate) fn compression(&self) -> Option<Compression> {
        self.compression
    }

    /// Returns the tensor, and the number of the plane.
    pub(crate) fn origin(&self) -> (&Tensor, usize) {
        (&self.split.tensor, self.plane)
    }

    /// Returns the bytes of the plane. The digests of the tensor are checked.
    ///
    /// # Errors
    /// Returns the errors of reading the tensor.
    pub(crate) fn pieces(&self) -> Result<ComputedPieces> {
        let (split, plane) = (Arc::clone(&self.split), self.plane);
        let count = split.tensor.count();
        if count.saturating_mul(split.plane_type.count as u64) <= AT_ONCE {
            return Ok(Box::new(std::iter::once(split.short(plane))));
        }
        let ends = (0..count.div_ceil(PIECE)).map(move |i| i * PIECE..count.min((i + 1) * PIECE));
        Ok(Box::new(ends.map(move |elements| split.long(plane, elements))))
    }
}

impl SplitTensor {
    /// Returns a plane of a short tensor.
    fn short(&self, plane: usize) -> Result<Bytes> {
        let mut planes = self.planes.lock().unwrap_or_else(PoisonError::into_inner);
        if planes.get(plane).is_none_or(Bytes::is_empty) {
            let mut made =
                vec![Vec::with_capacity(self.tensor.count() as usize); self.plane_type.count];
            for piece in self.tensor.dense_pieces(Check::All)? {
                let piece = piece?;
                made.iter_mut()
                    .enumerate()
                    .for_each(|(at, out)| self.plane_type.split(at, &piece, out));
            }
            *planes = made.into_iter().map(Bytes::from).collect();
        }
        Ok(planes.get_mut(plane).map(std::mem::take).unwrap_or_default())
    }

    /// Returns a part of a plane of a long tensor.
    fn long(&self, plane: usize, elements: Range<u64>) -> Result<Bytes> {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let pieces = match &mut *pieces {
            Some(pieces) => pieces,
            none => none.insert(self.tensor.dense_pieces(Check::All)?),
        };
        let mut out = Vec::with_capacity((elements.end - elements.start) as usize);
        self.plane_type.split(plane, &pieces.piece(elements)?, &mut out);
        Ok(Bytes::from(out))
    }
}
