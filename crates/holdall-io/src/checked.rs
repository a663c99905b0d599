//! Reading component bytes with a check of their digests, which all output uses, whether the bytes are mapped or read.
//!
//! Code that writes, prints, computes with or loads values reads them through [`Checked`], or executes a plan whose
//! wants have the digests that [`Check::algorithm`] returns. The only exception is a view ([`Tensor::bytes`],
//! [`Tensor::dense`]), which returns bytes of a memory map without reading them.

use crate::executor::{Executor, Pieces};
use crate::file::{File, Tensor};
use crate::source::ByteSource;
use crate::work::Work;
use bytes::Bytes;
use holdall_core::error::Escape as _;
use holdall_core::model::{Checksum, Coverage, Hasher};
use holdall_core::read::{DIGEST, Plan, Want, check_digest};
use holdall_core::{Algorithm, ByteOrder, Component, Encoding, Error, Extent, Result, Role};
use std::ops::Range;
use std::sync::OnceLock;

/// The digests that are checked when bytes are read.
///
/// | read | `Off` | `Fast` | `Read` | `All` |
/// | --- | --- | --- | --- | --- |
/// | all of a component: loads, pieces, statistics, comparison, GPU | nothing | all but SHA-256 | all | all |
/// | all of it as a range or as rows | nothing | all but SHA-256 | all | all |
/// | views of other layouts (sparse, quantized, described), dense copies | nothing | all but SHA-256 | all | all |
/// | a part: rows, slices, elements | nothing | nothing | nothing | nothing |
/// | parts of zstd frames and of chunks with a Fletcher-32 checksum, for their own checksums | all | all | all | all |
/// | single records, single entries of a blob, of a local file | nothing | nothing | nothing | all of the tensor, when its records are opened |
/// | a view of mapped bytes: [`Tensor::bytes`], [`Tensor::dense`] | nothing | nothing | nothing | all |
/// | a component that only a [checksum](holdall_core::model::Checksum) of a larger range covers | nothing | nothing | nothing | that checksum, once |
/// | a file inside a package, when it is opened | nothing | nothing | nothing | its SHA-256 |
/// | all records of a dataset, all entries of a blob | nothing | all but SHA-256 | all | all |
///
/// A digest covers all bytes of a component, so a part of it cannot be checked. Frames and chunks are always decoded as a
/// whole, so their own checksums are checked for any part of them, unless a digest of the whole component is checked
/// instead. The CRC-32 that a zip archive has of a
/// compressed component is checked whenever the whole component is decoded, even with `Off`, because decoding computes
/// it.
///
/// Operations that write a model from another one (conversion, edits, packing, salvage) always read with `All`, however
/// the file was opened: the files they write get new digests, which must not certify damaged data. Verification also
/// checks everything.
///
/// `docs/benchmarks.md` has the measured costs: on two cores, `verify-crc32c` reads 12 GB/s, and `verify-sha256`, with
/// the processor's instructions for it, 2.5 GB/s, a fifth of that. CRCs of long components are computed on all cores; a
/// SHA-256 must be computed from the first byte to the last, so each component uses one core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Check {
    /// No digests.
    Off,
    /// Digests that cost next to nothing: all except SHA-256.
    Fast,
    /// All digests that this version can compute.
    #[default]
    Read,
    /// All digests, also those of bytes that are only borrowed from a memory map.
    All,
}

impl Check {
    /// Returns the algorithm of the digest that is checked when the whole component is read, or `None`.
    pub fn algorithm(self, c: &Component) -> Option<Algorithm> {
        c.stored_digest_algorithm().filter(|algorithm| match self {
            Check::Off => false,
            Check::Fast => !algorithm.is_slow(),
            Check::Read | Check::All => true,
        })
    }
}

/// Components up to this many bytes are digested on the calling thread.
const SHORT: u64 = 4 << 20;

/// Reads the components of a tensor, and checks their digests as a [`Check`] says.
#[derive(Debug, Clone)]
pub struct Checked {
    tensor: Tensor,
    check: Check,
}

impl Tensor {
    /// Returns a reader of this tensor's components, with the [`Check`] of the file.
    pub fn checked(&self) -> Checked {
        self.checked_with(self.file().check())
    }

    /// Returns a reader of this tensor's components, with this [`Check`].
    pub fn checked_with(&self, check: Check) -> Checked {
        Checked { tensor: self.clone(), check }
    }
}

impl Checked {
    /// Returns the tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Returns the decoded bytes of a component, as [`Tensor::bytes`] does, after checking their digest.
    ///
    /// # Errors
    /// Returns the same errors as [`Tensor::bytes`].
    pub fn bytes(&self, role: &Role) -> Result<Bytes> {
        let c = self.tensor.require(role)?;
        let (file, position) = (self.tensor.file(), self.tensor.position());
        let bytes = match crate::load::borrowed(file, &c) {
            Some(bytes) => self.compare_stored(&c).and(bytes),
            None => self
                .compare_covering(&c)
                .and_then(|()| crate::load::component(file, position, &c, self.check)),
        };
        bytes.map_err(|e| self.tensor.in_context(e, &c))
    }

    /// Returns the decoded bytes of a component piece by piece, in bounded memory. If the digest differs, the last item
    /// is the error.
    ///
    /// # Errors
    /// Returns a `NotFound` error; an `Io` error if the table of its frames cannot be read; a `Limit` error if it decodes to more bytes than allowed.
    pub fn pieces(&self, role: &Role) -> Result<Pieces> {
        self.component_pieces(self.tensor.require(role)?)
    }

    /// Returns the decoded bytes of a component of this tensor piece by piece, as [`Checked::pieces`] does.
    ///
    /// # Errors
    /// Returns the same errors as [`Checked::pieces`].
    pub fn component_pieces(&self, component: Component) -> Result<Pieces> {
        let digest = self.check.algorithm(&component);
        self.compare_covering(&component).map_err(|e| self.tensor.in_context(e, &component))?;
        self.tensor.component_pieces(component, digest)
    }

    /// Reads all bytes of a component and checks its digest, if it has one. For callers that then read the bytes in
    /// another order.
    ///
    /// # Errors
    /// Returns a `NotFound` error; an `Io` error; an `Integrity` error if the digest differs; a `Malformed` error if it is a digest of decoded bytes and they cannot be
    /// decoded.
    pub fn compare(&self, role: &Role) -> Result<()> {
        let c = self.tensor.require(role)?;
        self.compare_stored(&c).map_err(|e| self.tensor.in_context(e, &c))
    }

    /// Checks the digests of all components, as [`Checked::compare`] does for one.
    ///
    /// # Errors
    /// Returns the tensor's fault; the errors of [`Checked::compare`].
    pub fn compare_all(&self) -> Result<()> {
        self.tensor.sound()?;
        let mut all = self.tensor.components();
        all.try_for_each(|c| self.compare_stored(&c).map_err(|e| self.tensor.in_context(e, &c)))
    }

    /// Returns the decoded bytes of ranges of a component, which must ascend without overlap. The digest is checked if
    /// the ranges are the whole component.
    pub(crate) fn ranges(&self, c: &Component, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let file = self.tensor.file();
        if is_whole(c, ranges) {
            // The digest is checked along with reading, so that the bytes are read once.
            let all = self.bytes(&c.role)?;
            let one = |range: &Range<u64>| all.slice(range.start as usize..range.end as usize);
            return Ok(ranges.iter().map(one).collect());
        }
        crate::executor::ranges(file.sources(), file.limits(), c, ranges)
    }

    fn compare_stored(&self, c: &Component) -> Result<()> {
        match self.check.algorithm(c) {
            Some(algorithm) => compare(self.tensor.file(), c, algorithm),
            None => self.compare_covering(c),
        }
    }

    fn compare_covering(&self, c: &Component) -> Result<()> {
        match self.check {
            Check::All => self.tensor.file().compare_covering(c),
            _ => Ok(()),
        }
    }
}

/// Returns `true` if ranges, which ascend without overlap, are all decoded bytes of a component.
fn is_whole(c: &Component, ranges: &[Range<u64>]) -> bool {
    let mut end = 0;
    let is_gapless = ranges.iter().all(|range| {
        let follows = range.start == end;
        end = range.end;
        follows
    });
    is_gapless && end > 0 && c.decoded_len == Some(end)
}

/// Computes the digest of a component's bytes and compares it with the expected one.
fn compare(file: &File, c: &Component, algorithm: Algorithm) -> Result<()> {
    let is_of_stored = c.encoding == Encoding::Raw || !algorithm.covers_decoded_bytes();
    let sources = file.sources();
    if is_of_stored && c.stored_len() <= SHORT {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(&sources.read(c.stored)?);
        return check_digest(c, &hasher.finish());
    }
    let mut stored_component = c.clone();
    if is_of_stored {
        (stored_component.encoding, stored_component.byte_order) =
            (Encoding::Raw, ByteOrder::Little);
        stored_component.decoded_len = Some(c.stored_len());
    }
    let want = Want::new(0, stored_component).with_digests(Some(algorithm));
    let plan = Plan::new(vec![want], sources.read_hints());
    let silent = Work::default();
    let sums = Executor::new(sources, file.limits(), &silent)
        .run(&plan, Vec::new(), |visit| visit.decoded.map(drop))?;
    sums.finish().into_iter().try_for_each(|(_, digest)| check_digest(c, &digest))
}

/// Compares all bytes of a source with the digest that its container has of it, if `check` includes that digest.
///
/// # Errors
/// Returns an `Io` error; an `Integrity` error if the digest differs.
pub(crate) fn check_source(source: &dyn ByteSource, check: Check) -> Result<()> {
    let Some(digest) = source.digest() else { return Ok(()) };
    let whole = Component::for_bytes((0..source.len()).into(), Encoding::Raw, source.len());
    let whole = Component { digest: Some(digest), ..whole };
    let Some(algorithm) = check.algorithm(&whole) else { return Ok(()) };
    let mut hasher = Hasher::new(algorithm);
    let mut at = 0;
    while at < source.len() {
        let end = at.saturating_add(SHORT).min(source.len());
        hasher.update(&source.read_range(at..end)?);
        at = end;
    }
    check_digest(&whole, &hasher.finish())
}

/// The checksums of a file that cover more than one component, with the results of those that were checked. Each is
/// checked once.
#[derive(Default)]
pub(crate) struct Covering(OnceLock<(Vec<Covered>, Coverage)>);

struct Covered {
    checksum: Checksum,
    compared: OnceLock<Option<Error>>,
}

impl File {
    /// Returns the checksums that do not belong to one component alone: those of the file, and that of the whole file
    /// if it was opened in an archive.
    pub fn checksums(&self) -> impl Iterator<Item = &Checksum> {
        self.covered().0.iter().map(|covered| &covered.checksum)
    }

    /// Returns the indices, in [`File::checksums`], of the checksums that cover bytes of a component.
    pub fn checksums_of(&self, c: &Component) -> Vec<usize> {
        self.covered().1.numbers(c, self.index().chunked())
    }

    fn covered(&self) -> &(Vec<Covered>, Coverage) {
        self.covering().0.get_or_init(|| {
            let sources = (0u32..).zip(self.all_sources());
            let of_sources = sources.filter_map(|(number, source)| {
                let stored = Extent::new(number, 0..source.len());
                Some(Checksum::new(self.name(), stored, source.digest()?))
            });
            let all = self.index().checksums().iter().cloned().chain(of_sources);
            let all: Vec<Covered> =
                all.map(|checksum| Covered { checksum, compared: OnceLock::new() }).collect();
            let coverage = Coverage::new(all.iter().map(|covered| &covered.checksum));
            (all, coverage)
        })
    }

    /// Checks the checksums that cover a component without its own digest.
    pub(crate) fn compare_covering(&self, c: &Component) -> Result<()> {
        if c.digest.is_some() || c.stored.is_empty() {
            return Ok(());
        }
        let (all, _) = self.covered();
        self.checksums_of(c).into_iter().filter_map(|number| all.get(number)).try_for_each(|one| {
            let compared = one.compared.get_or_init(|| self.compare_checksum(&one.checksum).err());
            compared.clone().map_or(Ok(()), Err)
        })
    }

    fn compare_checksum(&self, checksum: &Checksum) -> Result<()> {
        let c = &checksum.bytes;
        match Check::All.algorithm(c) {
            Some(algorithm) => compare(self, c, algorithm)
                .map_err(|e| checksum_error(checksum, e).in_source(self.name())),
            None => Ok(()),
        }
    }
}

/// Adds to a digest error which checksum it concerns.
#[cold]
pub fn checksum_error(checksum: &Checksum, e: Error) -> Error {
    match e.code() == DIGEST.code {
        true => e.within(format!("in `{}`", checksum.name.escaped())).at(checksum.stored().range()),
        false => e,
    }
}
