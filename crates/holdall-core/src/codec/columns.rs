//! Converting arrays from column-major to row-major order.

use super::pipeline::BROKEN;
use super::{Codec, Collected, DecodedLen, StreamDecoder};
use crate::error::{Result, Rule};
use crate::limits::Limits;
use std::sync::Arc;

/// A codec for elements in column-major order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnMajor {
    /// The dimensions of the whole array, none of which is 0.
    shape: Arc<[u64]>,
    /// Bytes of an element.
    width: u64,
}

impl ColumnMajor {
    /// Creates the codec for elements of `width` bytes, in an array of `shape`, in which no dimension may be 0.
    pub fn new(shape: &[u64], width: u64) -> ColumnMajor {
        ColumnMajor { shape: shape.into(), width }
    }
}

impl Codec for ColumnMajor {
    fn decoded_len(&self, stored_len: u64) -> DecodedLen {
        DecodedLen::Exactly(stored_len)
    }

    fn stream(&self, _: u64, limits: &Limits) -> Box<dyn StreamDecoder> {
        let own = self.clone();
        Collected::stream(limits, move |stored, most| own.decode_chunk(stored, most, most))
    }

    fn decode_chunk(&self, stored: &[u8], _: usize, _: usize) -> Result<Vec<u8>> {
        Ok(by_rows(stored, &self.shape, self.width as usize))
    }

    fn broken_rule(&self) -> &'static Rule {
        &BROKEN
    }

    fn length_rule(&self) -> &'static Rule {
        &BROKEN
    }
}

/// Returns elements that are stored column by column in row-major order.
fn by_rows(bytes: &[u8], shape: &[u64], width: usize) -> Vec<u8> {
    let count = bytes.len() / width.max(1);
    let element = |row: usize| {
        let (mut row, mut step, mut at) = (row, count, 0);
        for dim in shape.iter().rev().map(|dim| (*dim as usize).max(1)) {
            step /= dim;
            at += row % dim * step;
            row /= dim;
        }
        bytes.get(at * width..).and_then(|rest| rest.get(..width)).unwrap_or_default()
    };
    (0..count).flat_map(element).copied().collect()
}
