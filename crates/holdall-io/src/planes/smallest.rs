//! Choosing the encoding that stores a tensor in the fewest bytes, by samples of its elements.

use super::split::{COMPONENT_COST, LITERALS_ONLY, PlaneEncodings, make, plane_type_of};
use crate::checked::Check;
use crate::compress::Compression;
use crate::file::Tensor;
use crate::items::Item;
use bytes::Bytes;
use holdall_core::codec::PLANE_FRAME_LEN;
use holdall_core::model::plane::PlaneType;
use holdall_core::{Component, Encoding, Layout, Result, Role};
use std::ops::Range;

/// Bytes of all samples of a component.
pub(crate) const SAMPLED: u64 = 1 << 20;
/// The number of samples of a longer component.
const SAMPLES: u64 = 4;
/// The largest share of its decoded bytes that a compressed component takes; any other stays raw.
const WORTHWHILE: f64 = 0.97;
/// The part of the decoded bytes that a slower encoding has to save over a faster one.
const STEP: f64 = 0.01;

/// Ways to compress a component, the fastest to decode first: literals only in short frames, and two levels of zstd.
const OF_COMPONENTS: [Compression; 3] =
    [zstd(LITERALS_ONLY, Some(PLANE_FRAME_LEN)), zstd(3, None), zstd(9, None)];
/// Ways to compress a plane.
const OF_PLANES: [Compression; 2] =
    [zstd(LITERALS_ONLY, Some(PLANE_FRAME_LEN)), zstd(3, Some(PLANE_FRAME_LEN))];

const fn zstd(level: i32, frame_len: Option<u64>) -> Compression {
    Compression { encoding: Encoding::ZSTD, level: Some(level), frame_len }
}

/// How a component is stored in the fewest bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Smallest {
    /// `None` if the component stays raw.
    pub(crate) compression: Option<Compression>,
    /// The share of the decoded bytes that are stored.
    share: f64,
}

/// Returns how a component is compressed best, by samples of it.
pub(crate) fn of_samples(width: u64, samples: &[impl AsRef<[u8]>]) -> Result<Smallest> {
    best_of(&OF_COMPONENTS, width, samples)
}

fn best_of(ways: &[Compression], width: u64, samples: &[impl AsRef<[u8]>]) -> Result<Smallest> {
    let mut best = Smallest { compression: None, share: 1. };
    let mut most = WORTHWHILE;
    let Some(new) = Encoding::ZSTD.encoder() else { return Ok(best) };
    let sampled: usize = samples.iter().map(|sample| sample.as_ref().len()).sum();
    for way in ways {
        let (mut encoder, mut out, mut len) = (new(way.level)?, Vec::new(), 0usize);
        for sample in samples {
            let frame_len = way.frame_len(SAMPLED) as usize;
            for frame in sample.as_ref().chunks(frame_len) {
                encoder.encode(width, frame, &mut out)?;
                len += out.len();
            }
        }
        let share = len as f64 / sampled.max(1) as f64;
        if share < most {
            best = Smallest { compression: Some(*way), share };
            most = share - STEP;
        }
    }
    Ok(best)
}

/// Returns how the planes of a tensor of `count` elements are compressed, if planes take less than the dense tensor, by samples of its
/// elements.
pub(crate) fn planes_of_samples(
    plane_type: &PlaneType,
    count: u64,
    samples: &[impl AsRef<[u8]>],
    required: bool,
) -> Result<Option<PlaneEncodings>> {
    let dense = of_samples(plane_type.count as u64, samples)?;
    let mut encodings = Vec::with_capacity(plane_type.count);
    let mut share = 0.;
    for plane in 0..plane_type.count {
        let split = samples.iter().map(|sample| {
            let mut out = Vec::with_capacity(sample.as_ref().len() / plane_type.count);
            plane_type.split(plane, sample.as_ref(), &mut out);
            out
        });
        let best = best_of(&OF_PLANES, 1, &split.collect::<Vec<_>>())?;
        share += best.share / plane_type.count as f64;
        encodings.push(best.compression);
    }
    let planes = plane_type.count as f64;
    let saved = (dense.share - share) * count as f64 * planes;
    Ok((required || saved > COMPONENT_COST * (planes - 1.)).then_some(encodings))
}

/// Creates an item that writes a tensor in planes, if that is smaller than the dense tensor however it is compressed, or if the
/// tensor is in planes already. Each plane has its own encoding.
///
/// # Errors
/// Returns the errors of reading the samples.
pub fn smallest_item(tensor: &Tensor) -> Result<Option<Item>> {
    let Some(plane_type) = plane_type_of(tensor).filter(|_| tensor.count() > 0) else {
        return Ok(None);
    };
    let width = plane_type.count as u64;
    let is_raw = |c: &Component| c.encoding == Encoding::Raw && *tensor.layout() == Layout::Dense;
    let pieces = match tensor.component(&Role::Data).is_some_and(|c| is_raw(&c)) {
        true => None,
        false => Some(tensor.dense_pieces(Check::Off)?),
    };
    let elements = |bytes: Range<u64>| match &pieces {
        None => tensor.bytes_range(&Role::Data, bytes),
        Some(pieces) => pieces.piece(bytes.start / width..bytes.end / width),
    };
    let ranges = sample_ranges(tensor.count().saturating_mul(width), width);
    let samples = ranges.map(elements).collect::<Result<Vec<_>>>()?;
    let required = matches!(tensor.layout(), Layout::Planes(_));
    let encodings = planes_of_samples(plane_type, tensor.count(), &samples, required)?;
    Ok(encodings.map(|encodings| make(tensor, plane_type, encodings)))
}

/// Returns how a component of an open file is stored in the fewest bytes. Returns `None` if its bytes cannot be sampled without
/// decoding all bytes before them.
pub(crate) fn of_component(tensor: &Tensor, c: &Component) -> Result<Option<Smallest>> {
    if c.encoding != Encoding::Raw {
        return Ok(None);
    }
    let width = c.dtype.width();
    let ranges = sample_ranges(c.stored_len(), width);
    let samples = ranges.map(|range| tensor.bytes_range(&c.role, range));
    of_samples(width, &samples.collect::<Result<Vec<Bytes>>>()?).map(Some)
}

/// Returns samples of bytes in memory.
pub(crate) fn samples_of(bytes: &[u8], width: u64) -> Vec<&[u8]> {
    let ranges = sample_ranges(bytes.len() as u64, width);
    ranges.filter_map(|range| bytes.get(range.start as usize..range.end as usize)).collect()
}

/// Returns the ranges of bytes to sample, of whole elements: all of a short component.
fn sample_ranges(len: u64, width: u64) -> impl Iterator<Item = Range<u64>> {
    let (samples, sample, step) = match len <= SAMPLED {
        true => (1, len, 0),
        false => (SAMPLES, SAMPLED / SAMPLES, (len - SAMPLED / SAMPLES) / (SAMPLES - 1)),
    };
    let width = width.max(1);
    (0..samples).map(move |i| {
        let start = i * step / width * width;
        start..start + sample / width * width
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_whole_elements_from_the_start_to_the_end() {
        for (len, width) in [(0, 2), (8, 8), (SAMPLED, 4), (SAMPLED + 8, 8), (100 << 20, 8)] {
            let ranges: Vec<_> = sample_ranges(len, width).collect();
            let sampled: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            assert_eq!(sampled, len.min(SAMPLED), "{len}");
            assert!(ranges.iter().all(|r| r.start % width == 0 && r.end <= len), "{ranges:?}");
            assert!(ranges.last().is_some_and(|last| len - last.end <= 4 * width), "{ranges:?}");
        }
    }

    #[test]
    fn the_smallest_way_is_chosen() {
        let mut random = 0x9E37_79B9_7F4A_7C15u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        let noise: Vec<u8> = (0..300_000).map(|_| next() as u8).collect();
        assert_eq!(of_samples(1, &[&noise]).unwrap().compression, None);
        // Few values in no order have nothing that repeats.
        let skewed: Vec<u8> = (0..300_000).map(|_| (next() & next() & 15) as u8).collect();
        let literals = of_samples(1, &[&skewed]).unwrap();
        assert_eq!(literals.compression.unwrap().level, Some(LITERALS_ONLY));
        let counted: Vec<u8> = (0..75_000u32).flat_map(|i| (i / 3).to_le_bytes()).collect();
        let repeated = of_samples(4, &[&counted]).unwrap();
        assert!(repeated.compression.unwrap().level.unwrap() > 0);
        assert!(repeated.share < literals.share);
    }
}
