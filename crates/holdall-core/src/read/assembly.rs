//! Executing a plan whose bytes arrive in any order.

use crate::codec::{Checksums, check_decoded_len};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::model::Encoding;
use crate::read::{
    ComponentDecoder, Decoded, DigestCollector, Extent, MISSING, PartDecoder, Plan, Purpose, Want,
    check_digest,
};
use bytes::Bytes;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// Decoded bytes of one want.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedPart {
    /// The index of the want in its plan.
    pub want: u32,
    /// The offset of the bytes among the decoded bytes of the component.
    pub offset: u64,
    /// The bytes: little-endian, elements in row-major order.
    pub bytes: Bytes,
}

/// Executes a [`Plan`] for a caller that receives bytes incrementally: pieces of the fetches, of any length and in any
/// order. A part is decoded and returned as soon as it is complete. Only bytes of incomplete parts, and bytes that must
/// be decoded after missing ones, stay in memory, so requesting few fetches at a time limits the memory.
///
/// The decoded bytes can be trusted once [`Assembly::finish`] returns without an error: until then a digest may still
/// differ.
pub struct Assembly {
    plan: Plan,
    decoder: PartDecoder,
    /// For each fetch, the bytes that wait for others, by their offset.
    waiting: Vec<BTreeMap<u64, Bytes>>,
    /// For each part, whether it is done.
    done: Vec<bool>,
    /// The wants that are decoded in order.
    streams: BTreeMap<u32, Stream>,
    sums: DigestCollector,
    checksums: Checksums,
    add_context: Box<AddContext>,
}

/// Adds the want's location to an error.
type AddContext = dyn Fn(&Want, Error) -> Error + Send + Sync;

/// A component that is decoded in order.
struct Stream {
    /// The indices of the parts that are not decoded yet.
    parts: VecDeque<usize>,
    decoder: ComponentDecoder,
    /// The number of bytes decoded so far.
    decoded: u64,
}

impl Assembly {
    /// Creates an assembly for a plan.
    ///
    /// # Errors
    /// Returns an error of kind `Limit` if a component decodes to more bytes than `limits` allow.
    pub fn new(plan: Plan, limits: &Limits) -> Result<Assembly> {
        Assembly::with_context(plan, limits, Want::in_context)
    }

    /// Creates an assembly like [`Assembly::new`]. `add_context` adds a want's location to an error; callers that know
    /// the tensors' names use it.
    ///
    /// # Errors
    /// Returns the errors of [`Assembly::new`].
    pub fn with_context(
        plan: Plan,
        limits: &Limits,
        add_context: impl Fn(&Want, Error) -> Error + Send + Sync + 'static,
    ) -> Result<Assembly> {
        plan.check_empty(limits, &add_context)?;
        // Each frame may be below a limit that all frames together exceed.
        for want in plan.wants().iter().filter(|w| w.component.encoding != Encoding::Raw) {
            let c = &want.component;
            let wanted = want.range.as_ref().map(|r| r.end.saturating_sub(r.start));
            if let Some(len) = wanted.or(c.decoded_len) {
                check_decoded_len(len, c.stored_len(), limits).map_err(|e| add_context(want, e))?;
            }
        }
        let mut streams: BTreeMap<u32, Stream> = BTreeMap::new();
        for (at, part) in plan.parts().iter().enumerate() {
            let want = plan.want(part);
            let c = &want.component;
            if part.purpose == Purpose::Next {
                let stream = match streams.entry(part.want) {
                    Entry::Occupied(stream) => stream.into_mut(),
                    Entry::Vacant(free) => {
                        let decoder = want.decoder(limits).map_err(|e| add_context(want, e))?;
                        free.insert(Stream { parts: VecDeque::new(), decoder, decoded: 0 })
                    }
                };
                stream.parts.push_back(at);
            } else if !want.is_plain() {
                let len = part.decoded.end.saturating_sub(part.decoded.start);
                check_decoded_len(len, c.stored_len(), limits).map_err(|e| add_context(want, e))?;
            }
        }
        let waiting = plan.fetches().iter().map(|_| BTreeMap::new()).collect();
        let done = vec![false; plan.parts().len()];
        let decoder = PartDecoder::new(limits);
        let (sums, checksums, add_context) =
            (DigestCollector::default(), Checksums::Compare, Box::new(add_context));
        Ok(Assembly { plan, decoder, waiting, done, streams, sums, checksums, add_context })
    }

    /// Sets what to do with a codec's own checksums for frames that no digest covers.
    pub fn with_checksums(mut self, checksums: Checksums) -> Assembly {
        self.checksums = checksums;
        self
    }

    /// Returns `true` if bytes of this fetch arrived that wait for others.
    pub fn is_waiting(&self, fetch: usize) -> bool {
        self.waiting.get(fetch).is_some_and(|held| !held.is_empty())
    }

    /// Returns the plan that is executed.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Adds bytes of the fetch at index `fetch`, starting at `offset` in the fetch, and calls `out` with what can be
    /// decoded now. Bytes that arrived before and bytes beyond the end of the fetch are ignored.
    ///
    /// # Errors
    /// Returns the errors of [`ComponentDecoder::next`], with the component's name, and the errors of `out`.
    pub fn push(
        &mut self,
        fetch: usize,
        offset: u64,
        bytes: Bytes,
        mut out: impl FnMut(DecodedPart) -> Result<()>,
    ) -> Result<()> {
        let Some(planned) = self.plan.fetches().get(fetch) else {
            let message = format!("the plan has no fetch {fetch}");
            return Err(MISSING.broken(message));
        };
        let (extent, parts) = (planned.extent, planned.parts.clone());
        self.keep(fetch, extent, offset, bytes);
        for at in parts {
            if self.done[at] {
                continue;
            }
            let part = &self.plan.parts()[at];
            let from = part.stored.start.saturating_sub(extent.start);
            let upto = part.stored.end.saturating_sub(extent.start);
            let Some(stored) = collect(&self.waiting[fetch], from, upto) else { continue };
            match part.purpose {
                Purpose::Next => {}
                _ => {
                    self.done[at] = true;
                    self.alone(at, stored, &mut out)?;
                }
            }
        }
        self.advance(fetch, &mut out)?;
        if self.plan.fetches()[fetch].parts.clone().all(|at| self.done[at]) {
            self.waiting[fetch].clear();
        }
        Ok(())
    }

    /// Checks that all bytes arrived, and compares all digests.
    ///
    /// # Errors
    /// Returns [`MISSING`] if bytes did not arrive, and [`DIGEST`](super::DIGEST) if a digest differs.
    pub fn finish(self) -> Result<()> {
        if let Some(at) = self.done.iter().position(|done| !done) {
            let part = &self.plan.parts()[at];
            let want = self.plan.want(part);
            let message = format!("bytes {}..{} are missing", part.stored.start, part.stored.end);
            return Err((self.add_context)(want, MISSING.broken(message)));
        }
        for (number, found) in self.sums.finish() {
            let want = &self.plan.wants()[number as usize];
            check_digest(&want.component, &found).map_err(|e| (self.add_context)(want, e))?;
        }
        Ok(())
    }

    /// Keeps those of the bytes that did not arrive before.
    fn keep(&mut self, fetch: usize, extent: Extent, offset: u64, mut bytes: Bytes) {
        let room = extent.len().saturating_sub(offset);
        bytes.truncate(usize::try_from(room).unwrap_or(usize::MAX));
        let held = &mut self.waiting[fetch];
        let mut at = offset;
        while !bytes.is_empty() {
            let before = held.range(..=at).next_back();
            let covered = before.map_or(0, |(start, b)| start.saturating_add(b.len() as u64));
            if covered > at {
                let skip = (covered - at).min(bytes.len() as u64);
                let _ = bytes.split_to(skip as usize);
                at = at.saturating_add(skip);
                continue;
            }
            let next = held.range(at..).next().map(|(start, _)| *start);
            let len = next.map_or(bytes.len() as u64, |n| (n - at).min(bytes.len() as u64));
            let fresh = bytes.split_to(len as usize);
            held.insert(at, fresh);
            at = at.saturating_add(len);
        }
    }

    /// Decodes a part that does not depend on other parts.
    fn alone(
        &mut self,
        at: usize,
        stored: Bytes,
        out: &mut impl FnMut(DecodedPart) -> Result<()>,
    ) -> Result<()> {
        let part = &self.plan.parts()[at];
        let want = self.plan.want(part);
        let start = part.stored.start.saturating_sub(want.component.stored.start);
        self.sums.take(part.want, want, start, &stored);
        if part.purpose == Purpose::Digest {
            return Ok(());
        }
        let bytes = if want.is_plain() {
            stored
        } else {
            let len = part.decoded.end.saturating_sub(part.decoded.start);
            let mut decoded = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
            let vouched = want.has_stored_digest();
            self.decoder.set_checksums(if vouched { Checksums::Ignore } else { self.checksums });
            let done = self.decoder.decode(want, &stored, &mut decoded);
            done.map_err(|e| (self.add_context)(want, e))?;
            decoded.into()
        };
        let wanted = want.wanted();
        let from = part.decoded.start.max(wanted.start);
        let upto = part.decoded.end.min(wanted.end).max(from);
        let cut = |n: u64| usize::try_from(n - part.decoded.start).unwrap_or(usize::MAX);
        let bytes = bytes.slice(cut(from)..cut(upto));
        match bytes.is_empty() {
            true => Ok(()),
            false => out(DecodedPart { want: part.want, offset: from, bytes }),
        }
    }

    /// Decodes the components that are decoded in order, as far as their bytes have arrived.
    fn advance(
        &mut self,
        fetch: usize,
        out: &mut impl FnMut(DecodedPart) -> Result<()>,
    ) -> Result<()> {
        let parts = self.plan.fetches()[fetch].parts.clone();
        let mut wants: Vec<u32> = self.plan.parts()[parts].iter().map(|p| p.want).collect();
        wants.dedup();
        for number in wants {
            let Some(Stream { parts, decoder, decoded }) = self.streams.get_mut(&number) else {
                continue;
            };
            let want = &self.plan.wants()[number as usize];
            while let Some(&at) = parts.front() {
                let part = &self.plan.parts()[at];
                let owner = self.plan.fetches().partition_point(|f| f.parts.end <= at);
                let start = self.plan.fetches()[owner].extent.start;
                let (from, upto) = (part.stored.start - start, part.stored.end - start);
                let Some(stored) = collect(&self.waiting[owner], from, upto) else { break };
                self.done[at] = true;
                parts.pop_front();
                if self.plan.fetches()[owner].parts.clone().all(|at| self.done[at]) {
                    self.waiting[owner].clear();
                }
                decoder.push(stored);
                while let Decoded::Piece(bytes) =
                    decoder.next().map_err(|e| (self.add_context)(want, e))?
                {
                    let (start, end) = (*decoded, *decoded + bytes.len() as u64);
                    *decoded = end;
                    let wanted = want.wanted();
                    let from = wanted.start.clamp(start, end);
                    let upto = wanted.end.clamp(from, end);
                    let bytes = bytes.slice((from - start) as usize..(upto - start) as usize);
                    if !bytes.is_empty() {
                        out(DecodedPart { want: number, offset: from, bytes })?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns the bytes `from..upto`, if all of them have arrived.
fn collect(held: &BTreeMap<u64, Bytes>, from: u64, upto: u64) -> Option<Bytes> {
    let (&start, first) = held.range(..=from).next_back()?;
    let end = start.saturating_add(first.len() as u64);
    if upto <= end {
        return Some(first.slice((from - start) as usize..(upto - start) as usize));
    }
    let mut at = end;
    for (&start, bytes) in
        held.range((std::ops::Bound::Excluded(start), std::ops::Bound::Unbounded))
    {
        if start != at || at >= upto {
            break;
        }
        at = at.saturating_add(bytes.len() as u64);
    }
    if at < upto || end <= from {
        return None;
    }
    let mut out = Vec::with_capacity((upto - from) as usize);
    out.extend_from_slice(&first[(from - start) as usize..]);
    for (_, bytes) in held.range((std::ops::Bound::Excluded(start), std::ops::Bound::Unbounded)) {
        let room = (upto - from) as usize - out.len();
        out.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if out.len() as u64 == upto - from {
            break;
        }
    }
    Some(out.into())
}
