//! The hash tree of a file, and proofs of its ranges: section 7 of `docs/spec/stream.md`.
//!
//! It is BLAKE3's tree with groups of 16 KiB as leaves, so its root is the BLAKE3 hash of the file. The proof of a
//! range has the pairs of hashes on the paths from the root to the range's groups, and the groups themselves. Each hash
//! precedes the bytes that it proves.

use crate::rules::PROOF;
use blake3::Hasher;
use blake3::hazmat::{self, HasherExt as _, Mode};
use bytes::Bytes;
use holdall_core::{Error, Result};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Length of a group, in bytes.
pub const GROUP: u64 = 16 << 10;
/// Length of a pair of hashes, in bytes.
const PAIR: u64 = 64;
/// Maximum number of hashes in the lowest level of a tree. For larger files, that level has hashes of larger blocks,
/// and groups are hashed again when they are sent.
const KEPT: u64 = 1 << 16;
/// Number of bytes that are read at a time for hashing.
const READ: u64 = 256 << 10;
/// Minimum length of files that are hashed on several threads, in bytes.
const THREADS_FROM: u64 = 8 << 20;

type Hash = [u8; 32];

/// The BLAKE3 hash of a file, which is the root of its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Root(pub [u8; 32]);

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

/// A piece of a response with proofs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Bytes of the file.
    Bytes(Range<u64>),
    /// The hashes of the left and the right half of these groups.
    Pair(Range<u64>),
}

impl Step {
    /// Returns the number of bytes the step takes in the response.
    pub fn len(&self) -> u64 {
        match self {
            Step::Bytes(range) => range.end - range.start,
            Step::Pair(_) => PAIR,
        }
    }

    /// Returns `true` if the step takes no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns where a run of groups is split: the left half has the largest power of two of groups that leaves some for the right.
fn middle(groups: &Range<u64>) -> u64 {
    groups.start + ((groups.end - groups.start).next_power_of_two() >> 1)
}

fn is_one(groups: &Range<u64>) -> bool {
    groups.end - groups.start <= 1
}

/// Returns the byte range of groups, in a file of `len` bytes.
fn bytes_of(groups: &Range<u64>, len: u64) -> Range<u64> {
    groups.start * GROUP..len.min(groups.end.saturating_mul(GROUP))
}

/// Returns the groups that a byte range touches; an empty range touches none.
fn groups_of(range: &Range<u64>) -> Range<u64> {
    match range.start < range.end {
        true => range.start / GROUP..range.end.div_ceil(GROUP),
        false => 0..0,
    }
}

/// The steps of the proof of a range, in order.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    len: u64,
    wanted: Range<u64>,
    todo: Vec<Range<u64>>,
}

impl Walk {
    /// Creates the steps for a range in a file of `len` bytes.
    pub(super) fn new(len: u64, range: &Range<u64>) -> Walk {
        let wanted = groups_of(range);
        let todo = (!wanted.is_empty()).then_some(0..len.div_ceil(GROUP)).into_iter().collect();
        Walk { len, wanted, todo }
    }
}

impl Iterator for Walk {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        loop {
            let groups = self.todo.pop()?;
            if groups.end <= self.wanted.start || self.wanted.end <= groups.start {
                continue;
            }
            if is_one(&groups) {
                return Some(Step::Bytes(bytes_of(&groups, self.len)));
            }
            let middle = middle(&groups);
            self.todo.extend([middle..groups.end, groups.start..middle]);
            return Some(Step::Pair(groups));
        }
    }
}

/// Returns the length of a range together with its proof, in bytes.
pub fn proven_len(len: u64, range: &Range<u64>) -> u64 {
    // Counted level by level: each run of 2, 4, 8, … groups that includes a requested group has one pair.
    let (wanted, all) = (groups_of(range), len.div_ceil(GROUP));
    if wanted.is_empty() {
        return 0;
    }
    let data = bytes_of(&wanted, len);
    let mut pairs = 0;
    let (mut first, mut last, mut end) = (wanted.start, wanted.end - 1, all);
    while end > 1 {
        // The last of an odd number of nodes has no partner, and moves up unchanged.
        let lone = end % 2 == 1 && last / 2 == end / 2;
        (first, last, end) = (first / 2, last / 2, end.div_ceil(2));
        pairs += last - first + 1 - u64::from(lone);
    }
    data.end - data.start + PAIR * pairs
}

/// Checks the proof of a range while it is received.
#[derive(Debug)]
pub(super) struct ProofChecker {
    len: u64,
    wanted: Range<u64>,
    /// The groups whose proof is still missing, with their expected hashes. The next one is at the end.
    todo: Vec<(Range<u64>, Hash)>,
    /// The bytes received of an incomplete step.
    held: Vec<u8>,
}

impl ProofChecker {
    /// Creates a checker for a range in a file of `len` bytes.
    pub(super) fn new(len: u64, root: Root, range: &Range<u64>) -> ProofChecker {
        let wanted = groups_of(range);
        let todo = if wanted.is_empty() { vec![] } else { vec![(0..len.div_ceil(GROUP), root.0)] };
        ProofChecker { len, wanted, todo, held: Vec::new() }
    }

    /// Removes bytes of the proof from the start of `input`, and passes each proven group to `each`, with its offset in
    /// the file.
    pub(super) fn take(
        &mut self,
        input: &mut &[u8],
        mut each: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        while let Some((groups, hash)) = self.todo.last().cloned() {
            if groups.end <= self.wanted.start || self.wanted.end <= groups.start {
                self.todo.pop();
                continue;
            }
            let range = bytes_of(&groups, self.len);
            let due = if is_one(&groups) { range.end - range.start } else { PAIR } as usize;
            let (taken, rest) = input.split_at(input.len().min(due - self.held.len()));
            *input = rest;
            let step = match self.held.is_empty() && taken.len() == due {
                true => taken,
                false => {
                    self.held.extend_from_slice(taken);
                    if self.held.len() < due {
                        return Ok(());
                    }
                    &self.held
                }
            };
            let is_root = groups.start == 0 && range.end == self.len;
            self.todo.pop();
            if is_one(&groups) {
                if hash_of_bytes(step, range.start, is_root) != hash {
                    return Err(unproven(range));
                }
                each(range.start, step)?;
            } else {
                let (left, right) = halves(step);
                if hash_of_pair(&left, &right, is_root) != hash {
                    return Err(unproven(range));
                }
                let middle = middle(&groups);
                self.todo.extend([(middle..groups.end, right), (groups.start..middle, left)]);
            }
            self.held.clear();
        }
        Ok(())
    }
}

/// Returns `true` if `root` is the hash of an empty file.
pub(super) fn is_of_nothing(root: Root) -> bool {
    *blake3::hash(&[]).as_bytes() == root.0
}

#[cold]
pub(super) fn unproven(range: Range<u64>) -> Error {
    let message = format!("bytes {}..{} are not those that were hashed", range.start, range.end);
    PROOF.broken(message).at(range)
}

fn halves(pair: &[u8]) -> (Hash, Hash) {
    let mut both = [[0; 32]; 2];
    both.as_flattened_mut().copy_from_slice(pair);
    let [left, right] = both;
    (left, right)
}

fn hash_of_pair(left: &Hash, right: &Hash, is_root: bool) -> Hash {
    match is_root {
        true => *hazmat::merge_subtrees_root(left, right, Mode::Hash).as_bytes(),
        false => hazmat::merge_subtrees_non_root(left, right, Mode::Hash),
    }
}

fn hash_of_bytes(bytes: &[u8], at: u64, is_root: bool) -> Hash {
    match is_root {
        true => *blake3::hash(bytes).as_bytes(),
        false => Hasher::new().set_input_offset(at).update(bytes).finalize_non_root(),
    }
}

/// A function that reads a range of the file.
pub type Reading<'a> = dyn Fn(Range<u64>) -> Result<Bytes> + Sync + 'a;

/// The hash tree of a file. It takes at most 4 MiB, however long the file is.
pub struct Tree {
    len: u64,
    /// Each hash in the lowest level is of a block of 2<sup>height</sup> groups.
    height: u32,
    /// The hashes of the blocks, then those of each two of the level before, up to a level of two.
    levels: Vec<Vec<Hash>>,
    root: Root,
}

impl Tree {
    /// Computes the tree of a file of `len` bytes, reading it once.
    ///
    /// # Errors
    /// Returns the error of `read`.
    pub fn new(len: u64, read: &Reading<'_>) -> Result<Tree> {
        Tree::with_kept(len, KEPT, read)
    }

    fn with_kept(len: u64, kept: u64, read: &Reading<'_>) -> Result<Tree> {
        let groups = len.div_ceil(GROUP);
        let mut height = 0;
        while groups.div_ceil(1 << height) > kept {
            height += 1;
        }
        let size = GROUP << height;
        let count = len.div_ceil(size);
        if groups <= 1 {
            let root = Root(hash_of_bytes(&read(0..len)?, 0, true));
            return Ok(Tree { len, height, levels: Vec::new(), root });
        }
        let hash = |block: u64| {
            let range = block * size..len.min((block + 1) * size);
            hash_of_block(range, read)
        };
        let hashed = match len < THREADS_FROM {
            true => (0..count).map(hash).collect::<Result<Vec<_>>>()?,
            false => on_threads(count, &hash)?,
        };
        let levels = raised(hashed, 2);
        let root = match levels.last().map(Vec::as_slice) {
            Some([left, right]) => Root(hash_of_pair(left, right, true)),
            // There are at least two groups, in at least two blocks.
            _ => Root([0; 32]),
        };
        Ok(Tree { len, height, levels, root })
    }

    /// Returns the hash of the whole file.
    pub fn root(&self) -> Root {
        self.root
    }

    /// Returns the memory the tree takes, in bytes.
    pub fn size(&self) -> usize {
        self.levels.iter().map(|level| level.len() * size_of::<Hash>()).sum()
    }

    fn block(&self) -> u64 {
        1 << self.height
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("len", &self.len).field("root", &self.root).finish()
    }
}

/// Hashes blocks on several threads.
fn on_threads(count: u64, hash: &(dyn Fn(u64) -> Result<Hash> + Sync)) -> Result<Vec<Hash>> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(8)) as u64;
    let share = count.div_ceil(threads);
    let shares = std::thread::scope(|scope| {
        let some = |first: u64| (first..count.min(first + share)).map(hash).collect::<Result<_>>();
        let running: Vec<_> = (0..threads).map(|n| scope.spawn(move || some(n * share))).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
            .collect::<Result<Vec<Vec<Hash>>>>()
    })?;
    Ok(shares.concat())
}

/// Returns the hash of a range that is a subtree, but not the whole file.
fn hash_of_block(range: Range<u64>, read: &Reading<'_>) -> Result<Hash> {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(range.start);
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min(at + READ);
        hasher.update(&read(at..end)?);
        at = end;
    }
    Ok(hasher.finalize_non_root())
}

/// Returns the levels of a tree, from `bottom` upwards, until a level has at most `most` hashes.
fn raised(bottom: Vec<Hash>, most: usize) -> Vec<Vec<Hash>> {
    let mut all = vec![bottom];
    while let Some(last) = all.last()
        && last.len() > most
    {
        let pairs = last.chunks(2).map(|pair| match pair {
            [left, right] => hash_of_pair(left, right, false),
            // The last of an odd number of nodes moves up unchanged.
            lone => lone.first().copied().unwrap_or_default(),
        });
        all.push(pairs.collect());
    }
    all
}

/// Produces the bytes of a response with proofs.
#[derive(Debug)]
pub struct Prover {
    tree: Arc<Tree>,
    /// The block whose groups were hashed last, and their levels.
    inner: Option<(u64, Vec<Vec<Hash>>)>,
}

impl Prover {
    /// Creates a prover for this tree.
    pub fn new(tree: Arc<Tree>) -> Prover {
        Prover { tree, inner: None }
    }

    /// Returns the bytes to send for these steps.
    ///
    /// # Errors
    /// Returns the error of `read`.
    pub fn spell(&mut self, steps: &[Step], read: &Reading<'_>) -> Result<Bytes> {
        let mut out = Vec::with_capacity(steps.iter().map(Step::len).sum::<u64>() as usize);
        // Adjacent ranges are read together.
        let mut runs: Vec<Range<u64>> = Vec::new();
        for step in steps {
            let Step::Bytes(range) = step else { continue };
            match runs.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => runs.push(range.clone()),
            }
        }
        let mut runs = runs.into_iter();
        let mut held = Bytes::new();
        for step in steps {
            match step {
                Step::Bytes(range) => {
                    if held.is_empty() {
                        held = runs.next().map_or(Ok(Bytes::new()), read)?;
                    }
                    let len = (range.end - range.start) as usize;
                    out.extend_from_slice(&held.split_to(len.min(held.len())));
                }
                Step::Pair(groups) => {
                    let middle = middle(groups);
                    for half in [groups.start..middle, middle..groups.end] {
                        out.extend_from_slice(&self.hash(&half, read)?);
                    }
                }
            }
        }
        Ok(out.into())
    }

    /// Returns the hash of groups, which must not be all groups of the file.
    fn hash(&mut self, groups: &Range<u64>, read: &Reading<'_>) -> Result<Hash> {
        let Tree { len, height, ref levels, .. } = *self.tree;
        let level = (groups.end - groups.start).next_power_of_two().trailing_zeros();
        if let Some(up) = level.checked_sub(height) {
            return Ok(find(levels, up, groups.start >> level));
        }
        let block = groups.start >> height;
        let start = block << height;
        if self.inner.as_ref().is_none_or(|(open_block, _)| *open_block != block) {
            let all = start..(start + self.tree.block()).min(len.div_ceil(GROUP));
            let hash = |group: u64| hash_of_block(bytes_of(&(group..group + 1), len), read);
            let hashes = all.map(hash).collect::<Result<Vec<_>>>()?;
            self.inner = Some((block, raised(hashes, 1)));
        }
        let levels = self.inner.as_ref().map_or(&[][..], |(_, levels)| levels);
        Ok(find(levels, level, (groups.start - start) >> level))
    }
}

fn find(levels: &[Vec<Hash>], level: u32, at: u64) -> Hash {
    levels.get(level as usize).and_then(|all| all.get(at as usize)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_that_are_not_kept_are_made_again() {
        for groups in [5, 8, 9, 31, 32, 33, 37] {
            let len = groups * GROUP - 5;
            let file: Vec<u8> = (0..len).map(|at| (at / GROUP * 31 + at % 251) as u8).collect();
            let read =
                |r: Range<u64>| Ok(Bytes::copy_from_slice(&file[r.start as usize..r.end as usize]));
            let all = Arc::new(Tree::new(len, &read).unwrap());
            assert_eq!(all.root(), Root(*blake3::hash(&file).as_bytes()));
            for kept in [2, 3, 4, 7] {
                let few = Arc::new(Tree::with_kept(len, kept, &read).unwrap());
                assert_eq!(few.root(), all.root(), "{groups} groups, {kept} kept");
                assert!(few.size() <= 64 * kept as usize, "{}", few.size());
                for range in [0..len, 0..1, len - 1..len, GROUP..3 * GROUP, len / 2..len / 2 + 1] {
                    let steps: Vec<Step> = Walk::new(len, &range).collect();
                    let total: u64 = steps.iter().map(Step::len).sum();
                    assert_eq!(total, proven_len(len, &range), "{range:?}");
                    let prove =
                        |tree: &Arc<Tree>| Prover::new(Arc::clone(tree)).spell(&steps, &read);
                    assert_eq!(prove(&few).unwrap(), prove(&all).unwrap(), "{range:?}");
                }
            }
        }
    }

    #[test]
    fn a_file_that_is_hashed_on_threads_has_the_same_tree() {
        let file: Vec<u8> =
            (0..THREADS_FROM as usize + 70_001).map(|at| (at % 253) as u8).collect();
        let read =
            |r: Range<u64>| Ok(Bytes::copy_from_slice(&file[r.start as usize..r.end as usize]));
        let tree = Tree::new(file.len() as u64, &read).unwrap();
        assert_eq!(tree.root(), Root(*blake3::hash(&file).as_bytes()));
        let fails = |_| Err(crate::rules::CHANGED.broken("the file has changed"));
        assert_eq!(Tree::new(1 << 30, &fails).unwrap_err().code(), "net/changed");
    }
}
