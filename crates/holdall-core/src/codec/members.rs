//! Converts records to packed little-endian form.

use super::pipeline::BROKEN;
use super::{Codec, Collected, DecodedLen, StreamDecoder};
use crate::error::{Result, Rule};
use crate::limits::Limits;
use holdall_collections::DebugUnwrap;

/// The codec that converts stored records to packed ones: members one after the other, little-endian, without the bytes
/// between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    /// The number of bytes of a stored record; not 0.
    stored: u64,
    /// The number of bytes of a converted record.
    decoded: u64,
    steps: Vec<Step>,
}

/// A step that appends bytes to a converted record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Copies a run of bytes, and reverses the order of bytes in each group of `swap_width`.
    Run {
        /// The offset of the run, from the start of the record or element.
        from: u64,
        /// The number of bytes.
        len: u64,
        /// The width of a number in bytes; 1 if bytes are copied unchanged.
        swap_width: u32,
    },
    /// Applies the same steps to each element of an array.
    Each {
        /// The offset of the first element, from the start of the record or element.
        from: u64,
        /// The number of elements.
        count: u64,
        /// The distance between elements in bytes; not 0.
        stride: u64,
        /// The steps for each element.
        steps: Vec<Step>,
    },
}

impl Step {
    /// Returns the number of bytes that the step appends.
    fn len(&self) -> u64 {
        match self {
            Step::Run { len, .. } => *len,
            Step::Each { count, steps, .. } => count.saturating_mul(len_of(steps)),
        }
    }
}

/// Returns the number of bytes that the steps append.
pub fn len_of(steps: &[Step]) -> u64 {
    steps.iter().fold(0, |len, step| len.saturating_add(step.len()))
}

impl Members {
    /// Creates the codec for records of `stored` bytes, which is not 0. The steps must only access bytes inside a
    /// record.
    pub fn new(stored: u64, steps: Vec<Step>) -> Members {
        Members { stored, decoded: len_of(&steps), steps }
    }

    /// Returns the bytes of a converted record.
    pub fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Returns the decoded length of `stored_len` bytes.
    pub const fn decoded_len(&self, stored_len: u64) -> u64 {
        match stored_len.checked_div(self.stored) {
            Some(count) => count.saturating_mul(self.decoded),
            None => 0,
        }
    }

    /// Returns the stored length of `decoded_len` bytes.
    pub const fn stored_len(&self, decoded_len: u64) -> u64 {
        match decoded_len.checked_div(self.decoded) {
            Some(count) => count.saturating_mul(self.stored),
            None => 0,
        }
    }

    /// Converts stored records.
    ///
    /// # Errors
    /// Returns [`BROKEN`] if the bytes are not whole records.
    pub fn decode(&self, stored: &[u8]) -> Result<Vec<u8>> {
        let width = usize::try_from(self.stored).unwrap_or(usize::MAX).max(1);
        let records = stored.chunks_exact(width);
        if !records.remainder().is_empty() {
            let message = format!(
                "{} bytes are not a multiple of {width}, the bytes of a record",
                stored.len()
            );
            return Err(BROKEN.broken(message));
        }
        let len = self.decoded_len(stored.len() as u64);
        let mut out = Vec::with_capacity(usize::try_from(len).debug_unwrap());
        records.for_each(|record| append_steps(&self.steps, record, &mut out));
        Ok(out)
    }
}

impl Codec for Members {
    fn decoded_len(&self, stored_len: u64) -> DecodedLen {
        DecodedLen::Exactly(Members::decoded_len(self, stored_len))
    }

    fn stream(&self, _: u64, limits: &Limits) -> Box<dyn StreamDecoder> {
        let own = self.clone();
        Collected::stream(limits, move |stored, _| own.decode(stored))
    }

    fn decode_chunk(&self, stored: &[u8], _: usize, _: usize) -> Result<Vec<u8>> {
        self.decode(stored)
    }

    fn chunk_len_before(&self, decoded_len: u64) -> u64 {
        self.stored_len(decoded_len)
    }

    fn describes_elements(&self) -> bool {
        true
    }

    fn broken_rule(&self) -> &'static Rule {
        &BROKEN
    }

    fn length_rule(&self) -> &'static Rule {
        &BROKEN
    }
}

fn append_steps(steps: &[Step], bytes: &[u8], out: &mut Vec<u8>) {
    let to_usize = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    for step in steps {
        match step {
            Step::Run { from, len, swap_width } => {
                let range = to_usize(*from)..to_usize(from.saturating_add(*len));
                let run = bytes.get(range).debug_unwrap();
                match swap_width {
                    2 => append_swapped::<2>(run, out),
                    4 => append_swapped::<4>(run, out),
                    8 => append_swapped::<8>(run, out),
                    _ => out.extend_from_slice(run),
                }
            }
            Step::Each { from, count, stride, steps } => {
                let len = count.saturating_mul(*stride);
                let range = to_usize(*from)..to_usize(from.saturating_add(len));
                let elements = bytes.get(range).debug_unwrap();
                let stride = to_usize(*stride).max(1);
                elements.chunks_exact(stride).for_each(|element| append_steps(steps, element, out));
            }
        }
    }
}

fn append_swapped<const N: usize>(run: &[u8], out: &mut Vec<u8>) {
    for number in run.as_chunks::<N>().0 {
        let mut number = *number;
        number.reverse();
        out.extend_from_slice(&number);
    }
}
