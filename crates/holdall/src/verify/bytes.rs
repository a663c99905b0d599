//! Checks stored and decoded bytes: digests, compressed data, bool bytes.
//!
//! Components with the same stored bytes form one *unit*, which is read once. The checks of all units form
//! one plan, which runs on all cores.

use super::{Reason, State, VerifyOptions, VerifyReport};
use holdall_core::codec::{Frame, check_decoded_len};
use holdall_core::error::Escape as _;
use holdall_core::layout::BOOL_BYTE;
use holdall_core::model::Checksum;
use holdall_core::read::{Digests, Plan, Want, check_digest};
use holdall_core::{
    Algorithm, ByteOrder, Component, DType, Digest, Encoding, Error, Extent, Layout, LogicalType,
    Result, TensorInfo,
};
use holdall_io::checked::checksum_error;
use holdall_io::executor::{DecodedBytes, Executor, tables_of};
use holdall_io::{File, Tensor};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum length of a frame that is decoded at once.
const MAX_FRAME: u64 = 16 << 20;

/// A component and the index of its tensor.
struct Member {
    tensor: usize,
    component: Component,
    /// Whether all of its bytes are bools. A packed sparse tensor also contains indices.
    bools: bool,
}

/// Components with the same stored bytes, and the checks of those bytes.
struct Unit {
    stored: Extent,
    /// Range in the list of members.
    members: Range<usize>,
    digests: Digests,
    /// Whether the stored bytes are those of a bool component.
    stored_bool: bool,
    /// The compressed member with the most information: the first that states its decoded length, otherwise
    /// the first.
    compressed: Option<usize>,
    /// Whether the decoded bytes are those of a bool component.
    decoded_bool: bool,
}

/// The results of the checks of a unit.
#[derive(Default)]
struct UnitResults {
    digests: Vec<Digest>,
    /// The first bytes that are not bool: offset in the stored or decoded bytes, and value.
    stored_bool: Option<(u64, u8)>,
    decoded_bool: Option<(u64, u8)>,
    /// The first error in the compressed data, and its offset in the decoded bytes.
    decode: Option<(u64, Error)>,
}

/// The purpose of a want.
struct Purpose {
    unit: usize,
    /// Whether the want decodes compressed data, or reads the stored bytes.
    is_compressed: bool,
    /// Whether the bytes are bools.
    bools: bool,
}

struct Context<'a> {
    file: &'a File,
    state: &'a State,
    members: Vec<Member>,
    units: Vec<Unit>,
    /// The members without a digest of their own whose bytes a checksum covers, by the checksum's index.
    covered: HashMap<usize, Vec<usize>>,
    /// Results of units that have any, by the unit's index.
    found: Mutex<HashMap<usize, UnitResults>>,
}

/// A set of ranges that are read together.
struct Pass<'a> {
    plan: Plan,
    /// The purposes of its wants for components.
    purposes: &'a [Purpose],
    /// The checksums whose bytes the remaining wants cover.
    checksums: &'a [IndexedChecksum<'a>],
}

/// A checksum and its index in the file.
pub(super) type IndexedChecksum<'a> = (usize, &'a Checksum);

/// Checks the bytes of all components of `tensors`, and the bytes of `checksums`, which must include all that
/// cover one of the components.
pub(super) fn check(
    file: &File,
    tensors: &[Tensor],
    mut checksums: Vec<IndexedChecksum<'_>>,
    options: &VerifyOptions,
    state: &State,
    report: &mut VerifyReport,
) -> Result<()> {
    let mut members: Vec<Member> = Vec::new();
    for tensor in tensors {
        let at = tensor.position();
        let packed = matches!(tensor.layout(), Layout::PackedCsr | Layout::PackedCoo);
        members.extend(tensor.components().map(|component| {
            let bools = !packed && is_bool(&component);
            Member { tensor: at, component, bools }
        }));
    }
    report.components = members.len() as u64;
    for m in &members {
        note_unverified(file, m, state);
    }
    // In file order, so that a disk is read sequentially.
    members.sort_by_key(|m| (m.component.stored, m.tensor));
    let units = units(&members);
    report.stored_len = units.iter().map(|u| u.stored.len()).sum();
    let mut covered: HashMap<usize, Vec<usize>> = HashMap::default();
    for (at, m) in members.iter().enumerate().filter(|(_, m)| m.component.digest.is_none()) {
        let numbers = file.checksums_of(&m.component).into_iter();
        numbers.for_each(|number| covered.entry(number).or_default().push(at));
    }
    let context = Context { file, state, members, units, covered, found: Mutex::default() };
    let (wants, purposes) = context.wants()?;
    checksums.sort_by_key(|(_, checksum)| checksum.stored());
    let passes = passes(file, wants, &purposes, &checksums);
    options.work.begin(passes.iter().map(|pass| pass.plan.len()).sum());
    // The algorithms of the checksums that cover members, by the members' indices.
    let mut matched: HashMap<usize, Option<Algorithm>> = HashMap::default();
    for Pass { plan, purposes, checksums } in passes {
        // Decoding errors in bytes that are read for a checksum.
        let broken = Mutex::new(Vec::new());
        let sums = Executor::new(file.sources(), file.limits(), &options.work)
            .run(&plan, Vec::new(), |visit| {
                let number = visit.want_index as usize;
                match (purposes.get(number), visit.decoded) {
                    (Some(purpose), decoded) => {
                        context.check_bytes(purpose, DecodedBytes { decoded, ..visit })
                    }
                    (None, Err(e)) => {
                        let mut broken = broken.lock().unwrap_or_else(PoisonError::into_inner);
                        broken.push((number - purposes.len(), e));
                    }
                    (None, Ok(_)) => {}
                }
                Ok(())
            })
            .map_err(|e| e.in_source(file.name()))?;
        for (number, e) in broken.into_inner().unwrap_or_else(PoisonError::into_inner) {
            context.record_checksum_error(checksums[number], e)?;
        }
        for (want, digest) in sums.finish() {
            let number = want as usize;
            match purposes.get(number) {
                Some(purpose) => {
                    context.update_results(purpose.unit, |found| found.digests.push(digest));
                }
                None => {
                    let (number, checksum) = checksums[number - purposes.len()];
                    match check_digest(&checksum.bytes, &digest) {
                        Ok(()) => {
                            let members = context.covered.get(&number).into_iter().flatten();
                            let algorithm = digest.algorithm();
                            matched.extend(members.map(|at| (*at, algorithm)));
                        }
                        Err(e) => context.record_checksum_error((number, checksum), e)?,
                    }
                }
            }
        }
    }
    let mut found = context.found.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found = std::mem::take(&mut *found);
    for (at, unit) in context.units.iter().enumerate() {
        let mut is_covered = false;
        for at in unit.members.clone() {
            if let Some(Some(algorithm)) = matched.get(&at) {
                report.count_digest(*algorithm, 1);
                is_covered = true;
            }
        }
        if unit.has_checks() || is_covered {
            report.read_len += unit.stored.len();
        }
        if unit.has_checks() {
            context.compare(unit, found.remove(&at).unwrap_or_default(), report)?;
        }
    }
    Ok(())
}

/// Divides the reads into passes, in the order of the sources. The bytes of a checksum are read together with
/// the components of its source, and before the next source, so that bytes read by one thread are in the
/// system's cache for another.
fn passes<'a>(
    file: &File,
    wants: Vec<Want>,
    mut purposes: &'a [Purpose],
    checksums: &'a [IndexedChecksum<'a>],
) -> Vec<Pass<'a>> {
    let mut wants = wants.into_iter().peekable();
    let mut passes = Vec::new();
    let sources = checksums.chunk_by(|(_, a), (_, b)| a.stored().source == b.stored().source);
    for checksums in sources.chain([[].as_slice()]) {
        let last_source =
            checksums.first().map_or(u32::MAX, |(_, checksum)| checksum.stored().source);
        let is_in_pass = |want: &Want| want.component.stored.source <= last_source;
        let mut own: Vec<Want> = std::iter::from_fn(|| wants.next_if(is_in_pass)).collect();
        let (these, others) = purposes.split_at(own.len());
        purposes = others;
        own.extend(checksums.iter().map(|(_, checksum)| {
            let bytes = checksum.bytes.clone();
            let algorithm = bytes.stored_digest_algorithm();
            // In a separate group, since ordered ranges are not fetched together with others.
            Want::new(0, bytes).with_digests(algorithm).in_group(1)
        }));
        if !own.is_empty() {
            let plan = Plan::new(own, file.sources().read_hints());
            passes.push(Pass { plan, purposes: these, checksums });
        }
    }
    passes
}

fn note_unverified(file: &File, m: &Member, state: &State) {
    let c = &m.component;
    let unknown_type = match &c.logical_type {
        Some(LogicalType::Other(name)) => Some(name),
        _ => None,
    };
    let unknown_digest = match &c.digest {
        Some(Digest::Other(text)) => Some(text),
        _ => None,
    };
    if c.digest.is_some() && unknown_type.is_none() && unknown_digest.is_none() {
        return;
    }
    let tensor = file.index().at(m.tensor);
    let name = tensor.as_ref().map_or("", TensorInfo::name);
    let skip = |reason, message: &dyn Fn() -> String| {
        state.skip(m.tensor, reason, name, Some(c.role.as_str()), message);
    };
    if c.digest.is_none() && file.checksums_of(c).is_empty() && chunk_checksum(file, c).is_none() {
        skip(Reason::NoDigest, &|| "the file has no digest of it".to_owned());
    }
    if let Some(text) = unknown_digest {
        let algorithm = Digest::algorithm_of(text).escaped();
        skip(Reason::UnknownDigest, &|| {
            format!("this version cannot compute digests of the kind `{algorithm}`")
        });
    }
    if let Some(name) = unknown_type {
        let name = name.escaped();
        skip(Reason::UnknownLogicalType, &|| {
            format!(
                "logical type `{name}` is unknown, so its length cannot be checked against the shape"
            )
        });
    }
}

/// Returns the name of the checksum that each chunk of a component has, if it is stored in such chunks.
fn chunk_checksum(file: &File, c: &Component) -> Option<&'static str> {
    let number = c.stored.chunked()?;
    file.index().chunked().get(number)?.checksum()
}

/// Groups members with equal stored bytes, by which they are sorted.
fn units(members: &[Member]) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut start = 0;
    for same in members.chunk_by(|a, b| a.component.stored == b.component.stored) {
        let end = start + same.len();
        let any = |test: &dyn Fn(&Component) -> bool| same.iter().any(|m| test(&m.component));
        let has = |a: Algorithm| any(&|c| c.stored_digest_algorithm() == Some(a));
        let first =
            |test: &dyn Fn(&Component) -> bool| same.iter().position(|m| test(&m.component));
        let with_decoded_len = first(&|c| is_compressed(c) && c.decoded_len.is_some());
        units.push(Unit {
            stored: same[0].component.stored,
            members: start..end,
            digests: Digests {
                crc32c: has(Algorithm::Crc32c),
                crc32: has(Algorithm::Crc32),
                sha256: has(Algorithm::Sha256),
                xxh3: has(Algorithm::Xxh3),
                sha256_decoded: has(Algorithm::Sha256Decoded),
            },
            stored_bool: same.iter().any(|m| m.bools && m.component.encoding == Encoding::Raw),
            compressed: with_decoded_len.or_else(|| first(&is_compressed)).map(|at| start + at),
            decoded_bool: same.iter().any(|m| m.bools && is_compressed(&m.component)),
        });
        start = end;
    }
    units
}

fn is_bool(c: &Component) -> bool {
    c.dtype == DType::Bool && c.logical_type.is_none()
}

fn is_compressed(c: &Component) -> bool {
    c.encoding != Encoding::Raw
}

impl Unit {
    /// Returns `true` if the unit has any check.
    fn has_checks(&self) -> bool {
        self.digests.any() || self.stored_bool || self.compressed.is_some() || self.is_chunked()
    }

    /// Returns `true` if the bytes are stored in chunks, which may be damaged.
    fn is_chunked(&self) -> bool {
        self.stored.chunked().is_some()
    }
}

impl Context<'_> {
    /// Returns the ranges to read, and their purposes.
    fn wants(&self) -> Result<(Vec<Want>, Vec<Purpose>)> {
        let (mut wants, mut purposes) = (Vec::new(), Vec::new());
        for (at, unit) in self.units.iter().enumerate().filter(|(_, unit)| unit.has_checks()) {
            let mut digests = unit.digests;
            let mut add = |component: Component, is_compressed: bool, bools: bool| {
                let digests = std::mem::replace(&mut digests, Digests::NONE);
                wants.push(Want::new(0, component).with_digests(digests));
                purposes.push(Purpose { unit: at, is_compressed, bools });
            };
            // The members state the expected digest.
            let mut any_member = self.members[unit.members.start].component.clone();
            any_member.digest = None;
            let mut refused = None;
            if let Some(first) = unit.compressed {
                let c = &self.members[first].component;
                let checked = c.decoded_len.map_or(Ok(()), |decoded| {
                    check_decoded_len(decoded, c.stored_len(), self.file.limits())
                });
                match checked {
                    Ok(()) => {
                        // A CRC-32 covers the decoded bytes, and is compared while decoding.
                        let digest =
                            c.digest.clone().filter(|_| c.stored_digest_algorithm().is_none());
                        add(Component { digest, ..c.clone() }, true, unit.decoded_bool);
                    }
                    Err(e) => refused = Some((0, e)),
                }
            }
            if unit.compressed.is_none() || refused.is_some() || unit.stored_bool {
                any_member.encoding = Encoding::Raw;
                any_member.byte_order = ByteOrder::Little;
                any_member.decoded_len = Some(any_member.stored_len());
                add(any_member, false, unit.stored_bool);
            }
            if refused.is_some() {
                self.update_results(at, |found| found.decode = refused);
            }
        }
        if !self.file.sources().read_hints().is_remote() {
            let components: Vec<&Component> = wants.iter().map(|w| &w.component).collect();
            let tables = tables_of(self.file.sources(), &components)?;
            let short = |f: &Frame| f.decoded.end - f.decoded.start <= MAX_FRAME;
            for (want, table) in wants.iter_mut().zip(tables) {
                want.table = table.filter(|t| t.frames().iter().all(short)).map(Arc::new);
            }
        }
        Ok((wants, purposes))
    }

    /// Checks decoded bytes, and records the errors in them.
    fn check_bytes(&self, purpose: &Purpose, visit: DecodedBytes<'_>) {
        let DecodedBytes { offset: at, decoded, .. } = visit;
        let invalid = match &decoded {
            Ok(bytes) if purpose.bools => find_invalid_bool(bytes, at),
            _ => None,
        };
        let broken = decoded.err().map(|e| (at, e));
        if invalid.is_some() || broken.is_some() {
            self.update_results(purpose.unit, |found| {
                let bools = match purpose.is_compressed {
                    true => &mut found.decoded_bool,
                    false => &mut found.stored_bool,
                };
                keep_earlier(bools, invalid);
                keep_earlier(&mut found.decode, broken);
            });
        }
    }

    /// Records an error in the bytes of a checksum: for each tensor with bytes in it, or for the file.
    fn record_checksum_error(
        &self,
        (number, checksum): IndexedChecksum<'_>,
        e: Error,
    ) -> Result<()> {
        let e = checksum_error(checksum, e);
        let members = self.covered.get(&number).into_iter().flatten();
        let mut own: Vec<usize> = members.map(|at| self.members[*at].tensor).collect();
        own.dedup();
        if own.is_empty() {
            return self.state.find(usize::MAX, 0, e);
        }
        own.into_iter().try_for_each(|tensor| {
            let named = match self.file.index().at(tensor) {
                Some(info) => e.clone().in_tensor(info.name()),
                None => e.clone(),
            };
            self.state.find(tensor, checksum.stored().start, named)
        })
    }

    fn update_results(&self, unit: usize, add: impl FnOnce(&mut UnitResults)) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        add(found.entry(unit).or_default());
    }

    /// Compares the results of a unit with what each member states.
    fn compare(&self, unit: &Unit, found: UnitResults, counts: &mut VerifyReport) -> Result<()> {
        let decoded_len =
            unit.compressed.and_then(|first| self.members[first].component.decoded_len);
        for (order, m) in self.members[unit.members.clone()].iter().enumerate() {
            let c = &m.component;
            let order = c.stored.start.saturating_add(order as u64);
            let fault = |e: Error| {
                let e = match self.file.index().at(m.tensor) {
                    Some(tensor) => e.in_tensor(tensor.name()),
                    None => e,
                };
                let e = e.in_component(&c.role).at(c.stored.range());
                self.state.find(m.tensor, order, e)
            };
            let algorithm = c.stored_digest_algorithm();
            let digest = found.digests.iter().find(|d| d.algorithm() == algorithm);
            if let (Some(algorithm), Some(digest)) = (algorithm, digest) {
                match check_digest(c, digest) {
                    Ok(()) => counts.count_digest(algorithm, 1),
                    Err(e) => {
                        // Other errors in these bytes follow from this one.
                        fault(e)?;
                        continue;
                    }
                }
            }
            let mut invalid = found.stored_bool;
            if unit.is_chunked() && !is_compressed(c) {
                if let Some((_, e)) = &found.decode {
                    fault(e.clone().without_location())?;
                    continue;
                }
                counts.decoded += 1;
                if let Some(name) = chunk_checksum(self.file, c) {
                    counts.count_chunk_checksum(name);
                }
            }
            if is_compressed(c) {
                invalid = found.decoded_bool;
                if let Some((_, e)) = &found.decode {
                    // The error may name another tensor with the same bytes.
                    fault(e.clone().without_location())?;
                    continue;
                }
                if let (Some(own), Some(other)) = (c.decoded_len, decoded_len)
                    && own != other
                {
                    fault(c.encoding.length_rule().broken(format!(
                        "declares {own} decoded bytes, but another component of the same bytes declares {other}"
                    )))?;
                    continue;
                }
                counts.decoded += 1;
                if let Some(Digest::Crc32(_)) = c.digest {
                    counts.count_digest(Algorithm::Crc32, 1);
                }
            }
            if m.bools {
                match invalid {
                    Some((at, value)) => fault(
                        BOOL_BYTE.broken(format!("element {at} is {value}; a bool is 0 or 1")),
                    )?,
                    None => counts.bools += 1,
                }
            }
        }
        Ok(())
    }
}

/// Keeps the result with the smaller offset.
fn keep_earlier<T>(kept: &mut Option<(u64, T)>, new: Option<(u64, T)>) {
    if let Some(new) = new
        && kept.as_ref().is_none_or(|old| new.0 < old.0)
    {
        *kept = Some(new);
    }
}

/// Returns the first byte that is neither 0 nor 1, with its offset. The bytes start at offset `start`.
fn find_invalid_bool(bytes: &[u8], start: u64) -> Option<(u64, u8)> {
    for (i, chunk) in bytes.chunks(4096).enumerate() {
        if chunk.iter().fold(0, |all, b| all | b) > 1 {
            let at = chunk.iter().position(|&b| b > 1)?;
            return Some((start + (i * 4096 + at) as u64, chunk[at]));
        }
    }
    None
}
