//! Receiving the bytes of ranges, with or without proofs.

use super::tree::{ProofChecker, Root, proven_len, unproven};
use holdall_core::Result;
use std::ops::Range;

/// Received bytes of one range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The index of the range in the request.
    pub range_index: usize,
    /// The offset in that range.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// Ranges that are received one after the other, over one or more streams.
#[derive(Debug)]
pub(super) struct Intake {
    ranges: Vec<Range<u64>>,
    /// The range that is being received, and the number of its bytes received so far.
    at: usize,
    done: u64,
    /// Total number of bytes received.
    came: u64,
    /// The length of the file and its hash, if ranges come with proofs.
    proof: Option<(u64, Root)>,
    /// The proof that is being received.
    check: Option<ProofChecker>,
}

impl Intake {
    pub(super) fn new(ranges: Vec<Range<u64>>, proof: Option<(u64, Root)>) -> Intake {
        let mut new = Intake { ranges, at: 0, done: 0, came: 0, proof, check: None };
        new.pass_empty();
        new
    }

    /// Returns the ranges that were not received yet.
    pub(super) fn missing(&self) -> Vec<Range<u64>> {
        let mut rest = self.ranges.get(self.at..).unwrap_or_default().to_vec();
        if let Some(first) = rest.first_mut() {
            first.start += self.done;
        }
        rest
    }

    /// Starts over with a new stream, which sends the missing ranges from their start, each with a new proof.
    pub(super) fn again(&mut self) {
        self.check = None;
    }

    /// Returns the number of bytes that a stream sends for the missing ranges, including proofs.
    pub(super) fn due(&self) -> u64 {
        let len = |range: &Range<u64>| match self.proof {
            Some((len, _)) => proven_len(len, range),
            None => range.end.saturating_sub(range.start),
        };
        self.missing().iter().fold(0, |sum, range| sum.saturating_add(len(range)))
    }

    pub(super) fn is_whole(&self) -> bool {
        self.at == self.ranges.len()
    }

    /// Returns the number of bytes received so far, over all streams.
    pub(super) fn bytes_received(&self) -> u64 {
        self.came
    }

    /// Removes bytes of the ranges from the start of `input`, and passes the file's bytes to `each`.
    ///
    /// # Errors
    /// Returns `net/proof` if bytes do not match the hash; an error from `each`.
    pub(super) fn take(
        &mut self,
        input: &mut &[u8],
        mut each: impl FnMut(Piece<'_>) -> Result<()>,
    ) -> Result<()> {
        while !input.is_empty()
            && let Some(range) = self.ranges.get(self.at).cloned()
        {
            let range_index = self.at;
            let Some((len, root)) = self.proof else {
                let left = range.end - range.start - self.done;
                let len = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
                let (bytes, rest) = input.split_at(len);
                *input = rest;
                each(Piece { range_index, offset: self.done, bytes })?;
                self.add(len);
                continue;
            };
            let wanted = range.start + self.done..range.end;
            let mut check = match self.check.take() {
                Some(check) => check,
                None => ProofChecker::new(len, root, &wanted),
            };
            let (mut came, before) = (0, input.len());
            let taken = check.take(input, |at, bytes| {
                // The first and the last group may have bytes before and after the requested ones.
                let next = range.start + self.done + came as u64;
                let end = (range.end - at).min(bytes.len() as u64);
                let bytes = bytes.get((next - at) as usize..end as usize).unwrap_or_default();
                each(Piece { range_index, offset: next - range.start, bytes })?;
                came += bytes.len();
                Ok(())
            });
            self.check = Some(check);
            self.add(came);
            taken?;
            if came == 0 && input.len() == before {
                // The range is outside the file, so none of its bytes will ever arrive.
                return Err(unproven(range));
            }
        }
        Ok(())
    }

    /// Counts received bytes of the current range.
    fn add(&mut self, len: usize) {
        self.done += len as u64;
        self.came += len as u64;
        self.pass_empty();
    }

    /// Skips ranges of which nothing is missing.
    fn pass_empty(&mut self) {
        while let Some(range) = self.ranges.get(self.at)
            && range.end.saturating_sub(range.start) <= self.done
        {
            (self.at, self.done) = (self.at + 1, 0);
            self.check = None;
        }
    }
}
