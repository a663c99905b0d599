//! A plan carried out with bytes that come in any order.

use crate::codec::{Checksums, check_decoded_len};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::model::Encoding;
use crate::read::{
    ComponentDecoder, Decoded, Extent, MISSING, PartDecoder, Plan, Purpose, Sums, Want,
    check_digest,
};
use bytes::Bytes;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// Decoded bytes of one want.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedPart {
    /// The number of the want in its plan.
    pub want: u32,
    /// Where they are among the decoded bytes of the component.
    pub offset: u64,
    /// The bytes, little-endian, elements in row-major order.
    pub bytes: Bytes,
}

/// Carries out a [`Plan`] for somebody who gets bytes as they come: pieces of the fetches, of any length and in
/// any order. A part is decoded and handed on as soon as all of it came; in memory are only the bytes that wait for
/// others of their part, or for those before them, so asking for few fetches at a time bounds it.
///
/// What is handed out is to be trusted when [`Assembly::finish`] returns without an error: until then a digest
/// may still turn out to be another.
pub struct Assembly {
    plan: Plan,
    decoder: PartDecoder,
    /// What came of each fetch and waits: bytes by where they start.
    waiting: Vec<BTreeMap<u64, Bytes>>,
    /// Parts that are done.
    done: Vec<bool>,
    /// Of each want that is decoded in order.
    streams: BTreeMap<u32, Stream>,
    sums: Sums,
    checksums: Checksums,
    place: Box<AddContext>,
}

/// Says in an error which want it is about.
type AddContext = dyn Fn(&Want, Error) -> Error + Send + Sync;

/// A component that is decoded in order.
struct Stream {
    /// The numbers of its parts to come.
    parts: VecDeque<usize>,
    decoder: ComponentDecoder,
    /// Bytes decoded so far.
    decoded: u64,
}

impl Assembly {
    /// Nothing came yet.
    ///
    /// # Errors
    /// Limit, when a component decodes to more than `limits` allow.
    pub fn new(plan: Plan, limits: &Limits) -> Result<Assembly> {
        Assembly::placing(plan, limits, Want::in_context)
    }

    /// The same, where `place` says in an error which want it is about: for who knows how tensors are named.
    ///
    /// # Errors
    /// As [`Assembly::new`].
    pub fn placing(
        plan: Plan,
        limits: &Limits,
        place: impl Fn(&Want, Error) -> Error + Send + Sync + 'static,
    ) -> Result<Assembly> {
        plan.check_empty(limits, &place)?;
        // Frames are short of a limit that all of them together may be over.
        for want in plan.wants().iter().filter(|w| w.component.encoding != Encoding::Raw) {
            let c = &want.component;
            let wanted = want.range.as_ref().map(|r| r.end.saturating_sub(r.start));
            if let Some(len) = wanted.or(c.decoded_len) {
                check_decoded_len(len, c.stored_len(), limits).map_err(|e| place(want, e))?;
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
                        let decoder = want.decoder(limits).map_err(|e| place(want, e))?;
                        free.insert(Stream { parts: VecDeque::new(), decoder, decoded: 0 })
                    }
                };
                stream.parts.push_back(at);
            } else if !want.is_plain() {
                let len = part.decoded.end.saturating_sub(part.decoded.start);
                check_decoded_len(len, c.stored_len(), limits).map_err(|e| place(want, e))?;
            }
        }
        let waiting = plan.fetches().iter().map(|_| BTreeMap::new()).collect();
        let done = vec![false; plan.parts().len()];
        let decoder = PartDecoder::new(limits);
        let (sums, checksums, place) = (Sums::default(), Checksums::Compare, Box::new(place));
        Ok(Assembly { plan, decoder, waiting, done, streams, sums, checksums, place })
    }

    /// What is done with codecs' own checksums where no digest vouches for frames.
    pub fn with_checksums(mut self, checksums: Checksums) -> Assembly {
        self.checksums = checksums;
        self
    }

    /// Whether bytes of that fetch came which wait for others.
    pub fn is_waiting(&self, fetch: usize) -> bool {
        self.waiting.get(fetch).is_some_and(|held| !held.is_empty())
    }

    /// The plan that is carried out.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Takes bytes of fetch number `fetch` that start `offset` bytes behind its start, and hands what can be
    /// decoded now to `out`. What came before, and what lies beyond the end of the fetch, is left out.
    ///
    /// # Errors
    /// As [`ComponentDecoder::next`], with the component named; what `out` fails with.
    pub fn push(
        &mut self,
        fetch: usize,
        offset: u64,
        bytes: Bytes,
        mut out: impl FnMut(DecodedPart) -> Result<()>,
    ) -> Result<()> {
        let Some(of) = self.plan.fetches().get(fetch) else {
            let message = format!("the plan has no fetch number {fetch}");
            return Err(MISSING.broken(message));
        };
        let (extent, parts) = (of.extent, of.parts.clone());
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

    /// Compares all digests.
    ///
    /// # Errors
    /// [`DIGEST`](super::DIGEST); [`MISSING`] when bytes did not come.
    pub fn finish(self) -> Result<()> {
        if let Some(at) = self.done.iter().position(|done| !done) {
            let part = &self.plan.parts()[at];
            let want = self.plan.want(part);
            let message = format!("bytes {}..{} did not come", part.stored.start, part.stored.end);
            return Err((self.place)(want, MISSING.broken(message)));
        }
        for (number, found) in self.sums.finish() {
            let want = &self.plan.wants()[number as usize];
            check_digest(&want.component, &found).map_err(|e| (self.place)(want, e))?;
        }
        Ok(())
    }

    /// Keeps what of the bytes did not come before.
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

    /// Decodes a part that needs nothing else.
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
            let vouched = want.is_vouched();
            self.decoder.set_checksums(if vouched { Checksums::Ignore } else { self.checksums });
            let done = self.decoder.decode(want, &stored, &mut decoded);
            done.map_err(|e| (self.place)(want, e))?;
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

    /// Decodes what is next of the components that are decoded in order, as far as it came.
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
                let of = self.plan.fetches().partition_point(|f| f.parts.end <= at);
                let start = self.plan.fetches()[of].extent.start;
                let (from, upto) = (part.stored.start - start, part.stored.end - start);
                let Some(stored) = collect(&self.waiting[of], from, upto) else { break };
                self.done[at] = true;
                parts.pop_front();
                if self.plan.fetches()[of].parts.clone().all(|at| self.done[at]) {
                    self.waiting[of].clear();
                }
                decoder.push(stored);
                while let Decoded::Piece(bytes) =
                    decoder.next().map_err(|e| (self.place)(want, e))?
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

/// The bytes `from..upto`, if all of them are there.
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
