//! Bytes of ranges as they come in: plain, or each with its proof.

use super::tree::{ProofChecker, Root, proven_len, unproven};
use holdall_core::Result;
use std::ops::Range;

/// Bytes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The number of the range that they are of.
    pub of: usize,
    /// Where in that range.
    pub at: u64,
    /// They.
    pub bytes: &'a [u8],
}

/// Ranges whose bytes come one after the other. What came stays; what comes next may be on another stream.
#[derive(Debug)]
pub(super) struct Intake {
    ranges: Vec<Range<u64>>,
    /// The range that is coming, and how much of it came.
    at: usize,
    done: u64,
    /// Bytes that came in all.
    came: u64,
    /// Bytes of the file and its hash, where ranges come with proofs.
    proof: Option<(u64, Root)>,
    /// The proof that is coming.
    check: Option<ProofChecker>,
}

impl Intake {
    pub(super) fn new(ranges: Vec<Range<u64>>, proof: Option<(u64, Root)>) -> Intake {
        let mut new = Intake { ranges, at: 0, done: 0, came: 0, proof, check: None };
        new.pass_empty();
        new
    }

    /// What did not come.
    pub(super) fn missing(&self) -> Vec<Range<u64>> {
        let mut rest = self.ranges.get(self.at..).unwrap_or_default().to_vec();
        if let Some(first) = rest.first_mut() {
            first.start += self.done;
        }
        rest
    }

    /// What is missing comes from its start: the next stream begins.
    pub(super) fn again(&mut self) {
        self.check = None;
    }

    /// Bytes that a stream has for what is missing.
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

    /// Bytes that came, over all streams.
    pub(super) fn bytes_received(&self) -> u64 {
        self.came
    }

    /// Takes what belongs to the ranges from the start of `input`, and hands out bytes of the file.
    ///
    /// # Errors
    /// `net/proof`; what `each` fails with.
    pub(super) fn take(
        &mut self,
        input: &mut &[u8],
        mut each: impl FnMut(Piece<'_>) -> Result<()>,
    ) -> Result<()> {
        while !input.is_empty()
            && let Some(range) = self.ranges.get(self.at).cloned()
        {
            let of = self.at;
            let Some((len, root)) = self.proof else {
                let left = range.end - range.start - self.done;
                let len = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
                let (bytes, rest) = input.split_at(len);
                *input = rest;
                each(Piece { of, at: self.done, bytes })?;
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
                // Of the first group and the last, there may be bytes around those that are wanted.
                let next = range.start + self.done + came as u64;
                let end = (range.end - at).min(bytes.len() as u64);
                let bytes = bytes.get((next - at) as usize..end as usize).unwrap_or_default();
                each(Piece { of, at: next - range.start, bytes })?;
                came += bytes.len();
                Ok(())
            });
            self.check = Some(check);
            self.add(came);
            taken?;
            if came == 0 && input.len() == before {
                // Nothing of a range outside of the file is ever to come.
                return Err(unproven(range));
            }
        }
        Ok(())
    }

    /// So many bytes of the range came.
    fn add(&mut self, len: usize) {
        self.done += len as u64;
        self.came += len as u64;
        self.pass_empty();
    }

    /// Goes past ranges of which nothing is to come.
    fn pass_empty(&mut self) {
        while let Some(range) = self.ranges.get(self.at)
            && range.end.saturating_sub(range.start) <= self.done
        {
            (self.at, self.done) = (self.at + 1, 0);
            self.check = None;
        }
    }
}
