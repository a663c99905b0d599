//! Executing plans in any order, on several threads.

use crate::executor::Sources;
use crate::work::Work;
use crate::workers;
use holdall_core::codec::Checksums;
use holdall_core::read::{
    Access, ComponentDecoder, Decoded, DigestCollector, Digests, Extent, Fetch, FetchPart,
    PartDecoder, Plan, Purpose, Want,
};
use holdall_core::{Digest, Error, ErrorKind, Limits, Result};
use std::sync::{Mutex, PoisonError};

/// The number of bytes read at a time if they are digested: few enough to still be in the processor's cache then.
const STEP: usize = 128 << 10;
/// The alignment in bytes that direct reads (`O_DIRECT`) require of offsets and lengths.
const PAGE: u64 = 4096;
/// The number of direct reads in flight for each thread, to keep the disk busy.
const DIRECT_DEPTH: usize = 4;

/// The destination of the bytes of one fetch.
#[derive(Default)]
pub enum FetchTarget<'m> {
    /// The fetch's stored bytes are read into this memory; for plain bytes only. With direct reads the memory may be
    /// longer than the fetch.
    Stored(&'m mut [u8]),
    /// Each part is decoded into its own memory. A component that is decoded in order goes into the memory of its first
    /// fetch.
    Parts(Vec<&'m mut [u8]>),
    /// The bytes are only shown to the visitor.
    #[default]
    Nowhere,
}

/// Decoded bytes that are passed to a visitor.
pub struct DecodedBytes<'v> {
    /// The index in [`Plan::wants`] of the want that the bytes belong to.
    pub want_index: u32,
    /// The offset of the bytes in the component's decoded bytes.
    pub offset: u64,
    /// The bytes, or the error of decoding them.
    pub decoded: Result<&'v [u8]>,
}

/// Executes plans over the sources of a model.
pub struct Executor<'a> {
    sources: &'a Sources,
    limits: &'a Limits,
    work: &'a Work,
    threads: usize,
    /// Whether reads bypass the system's page cache.
    direct: bool,
    /// Whether the codec's own checksums are compared for frames without a digest.
    checksums: Checksums,
    with_digests: bool,
}

/// A unit of work for one thread: a fetch, several fetches that are read together, or all fetches of a component that
/// is decoded in order.
struct Job<'p, 'o, 'm> {
    fetches: &'p [Fetch],
    /// The destination of each fetch. Empty if nothing is stored.
    outs: &'o mut [FetchTarget<'m>],
    in_order: bool,
}

/// State that a thread reuses between jobs.
struct ThreadState {
    decoder: PartDecoder,
    stored: Vec<u8>,
    decoded: Vec<u8>,
    sums: DigestCollector,
}

impl<'a> Executor<'a> {
    /// Creates an executor for these sources and limits, on as many threads as `work` allows.
    pub fn new(sources: &'a Sources, limits: &'a Limits, work: &'a Work) -> Executor<'a> {
        Executor {
            sources,
            limits,
            work,
            threads: work.threads(),
            direct: false,
            checksums: Checksums::Compare,
            with_digests: true,
        }
    }

    /// Sets whether digests are computed. With `false`, digests that the wants request are ignored.
    pub(crate) fn with_digests(mut self, with_digests: bool) -> Executor<'a> {
        self.with_digests = with_digests;
        self
    }

    /// Sets whether reads bypass the system's page cache if possible.
    pub(crate) fn direct(mut self, direct: bool) -> Executor<'a> {
        self.direct = direct;
        self
    }

    /// Sets whether codecs' own checksums are compared.
    pub(crate) fn checksums(mut self, checksums: Checksums) -> Executor<'a> {
        self.checksums = checksums;
        self
    }

    /// Executes all fetches of a plan, each once. Stores their bytes in `outs` (one for each fetch, or empty to store
    /// nothing, as with [`FetchTarget::Nowhere`]) and passes them to `visit`. Returns the requested digests, without
    /// comparing them.
    ///
    /// # Errors
    /// Returns an `Io` error; errors of decoding, unless `visit` handles them; errors of `visit`.
    pub fn run<'m>(
        &self,
        plan: &Plan,
        mut outs: Vec<FetchTarget<'m>>,
        visit: impl Fn(DecodedBytes<'_>) -> Result<()> + Sync,
    ) -> Result<DigestCollector> {
        let sums = Mutex::new(self.without_bytes(plan, &visit)?);
        self.run_jobs(plan, longest_first(self.jobs(plan, &mut outs, false)), &visit, |_, own| {
            sums.lock().unwrap_or_else(PoisonError::into_inner).join(own);
            Ok(())
        })?;
        Ok(sums.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Executes all fetches of a plan, each once and in order, and passes their bytes to `visit`, as [`Executor::run`]
    /// does. As soon as all bytes of a want have been visited, calls `done` with its index and, if requested, the
    /// digest of its stored bytes, which is not compared.
    ///
    /// # Errors
    /// Returns the same errors as [`Executor::run`]; errors of `done`.
    pub fn run_each(
        &self,
        plan: &Plan,
        visit: impl Fn(DecodedBytes<'_>) -> Result<()> + Sync,
        done: impl Fn(u32, Option<Digest>) -> Result<()> + Sync,
    ) -> Result<()> {
        let mut sums = self.without_bytes(plan, &visit)?;
        let mut left = vec![0u64; plan.wants().len()];
        plan.parts().iter().for_each(|p| left[p.want as usize] += p.stored.end - p.stored.start);
        for (want_index, _) in (0..).zip(&left).filter(|(_, left)| **left == 0) {
            done(want_index, sums.take_digest(want_index))?;
        }
        let state = Mutex::new((sums, left));
        self.run_jobs(plan, self.jobs(plan, &mut [], true), &visit, |fetches, own| {
            let mut whole = Vec::new();
            {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                let (sums, left) = &mut *state;
                sums.join(own);
                for part in fetches.iter().flat_map(|fetch| plan.parts_of(fetch)) {
                    let left = &mut left[part.want as usize];
                    *left = left.saturating_sub(part.stored.end - part.stored.start);
                    if *left == 0 {
                        whole.push((part.want, sums.take_digest(part.want)));
                    }
                }
            }
            whole.into_iter().try_for_each(|(want_index, digest)| done(want_index, digest))
        })
    }

    /// Runs all jobs on threads, and passes the digests that each job computed to `after`.
    fn run_jobs(
        &self,
        plan: &Plan,
        jobs: Vec<Job<'_, '_, '_>>,
        visit: &(impl Fn(DecodedBytes<'_>) -> Result<()> + Sync),
        after: impl Fn(&[Fetch], DigestCollector) -> Result<()> + Sync,
    ) -> Result<()> {
        let remote = self.sources.read_hints().at_once;
        let threads = match self.direct {
            true => self.threads * DIRECT_DEPTH,
            false => self.threads.max(remote),
        };
        let kept = || ThreadState {
            decoder: PartDecoder::new(self.limits),
            stored: Vec::new(),
            decoded: Vec::new(),
            sums: DigestCollector::default(),
        };
        workers::for_each(threads, jobs, kept, |kept, Job { fetches, outs, in_order }| {
            let mut outs = outs.iter_mut().map(std::mem::take);
            match fetches {
                _ if in_order => self.stream(kept, plan, fetches, outs.next(), visit)?,
                [fetch] => self.fetch(kept, plan, fetch, outs.next(), visit)?,
                _ => {
                    let extents: Vec<Extent> = fetches.iter().map(|f| f.extent).collect();
                    for (fetch, bytes) in fetches.iter().zip(self.sources.read_all(&extents)?) {
                        self.take(kept, plan, fetch, &bytes, outs.next(), visit)?;
                        self.work.advance(fetch.extent.len())?;
                    }
                }
            }
            after(fetches, std::mem::take(&mut kept.sums))
        })
    }

    /// Divides a plan into jobs, in its order. With `by_group`, no job has fetches of more than one group.
    fn jobs<'p, 'o, 'm>(
        &self,
        plan: &'p Plan,
        mut outs: &'o mut [FetchTarget<'m>],
        by_group: bool,
    ) -> Vec<Job<'p, 'o, 'm>> {
        let hints = self.sources.read_hints();
        let all = plan.fetches();
        let mut jobs = Vec::with_capacity(all.len());
        let mut at = 0;
        while let Some(first) = all.get(at) {
            let ordered = plan.in_order(first);
            let count = match ordered {
                Some(_) => all[at..].iter().take_while(|f| plan.in_order(f) == ordered).count(),
                None => {
                    let some = &all[at..at + plan.batch_len(at, &hints)];
                    let is_same = |f: &&Fetch| !by_group || plan.group(f) == plan.group(first);
                    some.iter().take_while(is_same).count()
                }
            };
            let (own, left) =
                std::mem::take(&mut outs).split_at_mut_checked(count).unwrap_or_default();
            outs = left;
            jobs.push(Job {
                fetches: &all[at..at + count],
                outs: own,
                in_order: ordered.is_some(),
            });
            at += count;
        }
        jobs
    }

    /// Processes the wants without stored bytes: they may have a digest all the same, or claim to decode to something.
    fn without_bytes(
        &self,
        plan: &Plan,
        visit: &impl Fn(DecodedBytes<'_>) -> Result<()>,
    ) -> Result<DigestCollector> {
        let mut sums = DigestCollector::default();
        for (want_index, want) in (0u32..).zip(plan.wants()) {
            if want.component.stored.is_empty() {
                sums.take(want_index, want, 0, &[]);
                let decoder = ComponentDecoder::new(&want.component, Digests::NONE, self.limits);
                if let Err(e) = decoder.and_then(|mut decoder| decoder.next()) {
                    visit(DecodedBytes { want_index, offset: 0, decoded: Err(e) })
                        .map_err(|e| want.in_context(e))?;
                }
            }
        }
        Ok(sums)
    }

    /// Reads one fetch, into its destination or into reused memory.
    fn fetch(
        &self,
        kept: &mut ThreadState,
        plan: &Plan,
        fetch: &Fetch,
        out: Option<FetchTarget<'_>>,
        visit: &impl Fn(DecodedBytes<'_>) -> Result<()>,
    ) -> Result<()> {
        if let Some(FetchTarget::Stored(out)) = out {
            self.fill(&mut kept.sums, plan, fetch, out)?;
            return self.work.advance(fetch.extent.len());
        }
        let mut memory = std::mem::take(&mut kept.stored);
        let read = self.with_bytes(fetch.extent, &mut memory, |bytes| {
            self.take(kept, plan, fetch, bytes, out, visit)
        });
        kept.stored = memory;
        match read {
            // An error of decoding chunks goes to the visitor, as other decoding errors do; only reading errors end the
            // run.
            Err(e) if e.kind() != ErrorKind::Io && fetch.extent.chunked().is_some() => {
                for part in plan.parts_of(fetch) {
                    let decoded = Err(e.clone());
                    visit(DecodedBytes {
                        want_index: part.want,
                        offset: part.decoded.start,
                        decoded,
                    })
                    .map_err(|e| plan.want(part).in_context(e))?;
                }
            }
            read => read??,
        }
        self.work.advance(fetch.extent.len())
    }

    /// Digests, decodes and visits the bytes of a fetch.
    fn take(
        &self,
        kept: &mut ThreadState,
        plan: &Plan,
        fetch: &Fetch,
        bytes: &[u8],
        out: Option<FetchTarget<'_>>,
        visit: &impl Fn(DecodedBytes<'_>) -> Result<()>,
    ) -> Result<()> {
        let parts = plan.parts_of(fetch);
        let outs = match out {
            Some(FetchTarget::Stored(out)) => {
                out[..bytes.len()].copy_from_slice(bytes);
                self.sum(&mut kept.sums, plan, parts, fetch.extent.start, bytes);
                return Ok(());
            }
            Some(FetchTarget::Parts(outs)) => outs,
            _ => Vec::new(),
        };
        let mut outs = outs.into_iter();
        for part in parts {
            let out = outs.next();
            let want = plan.want(part);
            let from = part.stored.start - fetch.extent.start;
            let upto = part.stored.end - fetch.extent.start;
            let bytes = &bytes[from as usize..upto as usize];
            let start = part.stored.start - want.component.stored.start;
            kept.sums.take(part.want, want, start, bytes);
            if part.purpose == Purpose::Digest {
                continue;
            }
            self.set_checksums(&mut kept.decoder, want);
            let decoded = self.decode(&mut kept.decoder, part, want, bytes, out, &mut kept.decoded);
            visit(DecodedBytes { want_index: part.want, offset: part.decoded.start, decoded })
                .map_err(|e| want.in_context(e))?;
        }
        Ok(())
    }

    /// Decodes a part into its memory, or into `scratch`. Plain bytes without a destination are returned as they are.
    fn decode<'b>(
        &self,
        decoder: &mut PartDecoder,
        part: &FetchPart,
        want: &Want,
        stored: &'b [u8],
        out: Option<&'b mut [u8]>,
        scratch: &'b mut Vec<u8>,
    ) -> Result<&'b [u8]> {
        let out = match out {
            Some(out) => out,
            None if want.is_plain() => return Ok(stored),
            None => {
                let len = part.decoded.end - part.decoded.start;
                let c = &want.component;
                holdall_core::codec::check_decoded_len(len, c.stored_len(), self.limits)?;
                scratch.resize(len as usize, 0);
                &mut scratch[..]
            }
        };
        decoder.decode(want, stored, out)?;
        Ok(out)
    }

    /// Disables the codec's checksums for wants whose digest is checked anyway.
    fn set_checksums(&self, decoder: &mut PartDecoder, want: &Want) {
        decoder.set_checksums(if want.has_stored_digest() {
            Checksums::Ignore
        } else {
            self.checksums
        });
    }

    /// Reads plain bytes into memory, and digests them while they are in the processor's cache.
    fn fill(
        &self,
        sums: &mut DigestCollector,
        plan: &Plan,
        fetch: &Fetch,
        out: &mut [u8],
    ) -> Result<()> {
        let Extent { source, start, .. } = fetch.extent;
        let source = self.sources.at(source);
        let parts = plan.parts_of(fetch);
        let is_aligned = start.is_multiple_of(PAGE) && (out.len() as u64).is_multiple_of(PAGE);
        let local = source.local().filter(|_| self.direct && is_aligned);
        if let Some(done) = local.and_then(|local| local.read_direct(start, out)) {
            done?;
            self.sum(sums, plan, parts, start, out);
            return Ok(());
        }
        // A direct fetch may reach past the end of the source.
        let len = source.len().saturating_sub(start).min(fetch.extent.len()) as usize;
        let out = &mut out[..len];
        if !self.with_digests {
            return source.read_into(start, out);
        }
        let has_digests = parts.iter().any(|p| plan.want(p).digests.in_shares());
        let whole = parts.iter().any(|p| plan.want(p).digests.is_sequential());
        if !has_digests || whole || self.sources.read_hints().is_remote() {
            source.read_into(start, out)?;
            self.sum(sums, plan, parts, start, out);
            return Ok(());
        }
        let (mut at, mut rest) = (start, parts);
        for out in out.chunks_mut(STEP) {
            source.read_into(at, out)?;
            let end = at + out.len() as u64;
            rest = &rest[rest.partition_point(|p| p.stored.end <= at)..];
            let now = &rest[..rest.partition_point(|p| p.stored.start < end)];
            self.sum(sums, plan, now, at, out);
            at = end;
        }
        Ok(())
    }

    /// Adds `bytes`, which start at `offset` of the source, to the digests of the parts that they belong to.
    fn sum(
        &self,
        sums: &mut DigestCollector,
        plan: &Plan,
        parts: &[FetchPart],
        offset: u64,
        bytes: &[u8],
    ) {
        if !self.with_digests {
            return;
        }
        let end = offset + bytes.len() as u64;
        for part in parts {
            let want = plan.want(part);
            if want.digests.any() {
                let from = part.stored.start.max(offset);
                let upto = part.stored.end.min(end).max(from);
                let bytes = &bytes[(from - offset) as usize..(upto - offset) as usize];
                sums.take(part.want, want, from - want.component.stored.start, bytes);
            }
        }
    }

    /// Decodes a component in order, a few fetches at a time.
    fn stream(
        &self,
        kept: &mut ThreadState,
        plan: &Plan,
        fetches: &[Fetch],
        out: Option<FetchTarget<'_>>,
        visit: &impl Fn(DecodedBytes<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(part) = fetches.first().and_then(|f| plan.parts_of(f).first()) else {
            return Ok(());
        };
        let (want_index, want) = (part.want, plan.want(part));
        let mut decoder = want.decoder(self.limits).map_err(|e| want.in_context(e))?;
        let hints = self.sources.read_hints();
        let mut visits = Stream { want, want_index, at: 0, failed: false, visit };
        match out {
            // Plain bytes are read directly to their destination.
            Some(FetchTarget::Stored(mut out)) => {
                for fetch in fetches {
                    let (own, rest) = out.split_at_mut(fetch.extent.len() as usize);
                    self.sources.at(fetch.extent.source).read_into(fetch.extent.start, own)?;
                    decoder.skip(own);
                    out = rest;
                    self.work.advance(fetch.extent.len())?;
                }
            }
            out => {
                let mut out = match out {
                    Some(FetchTarget::Parts(outs)) => outs.into_iter().next(),
                    _ => None,
                };
                for batch in fetches.chunks(hints.in_order()) {
                    if let [one] = batch
                        && hints.access == Access::Borrowed
                        && let Some(local) = self.sources.at(one.extent.source).local()
                    {
                        local.populate(one.extent.range());
                    }
                    if visits.failed && !want.digests.any() {
                        // After a decoding error, only digests would need the rest.
                        self.work.advance(batch.iter().map(|f| f.extent.len()).sum())?;
                        continue;
                    }
                    let extents: Vec<Extent> = batch.iter().map(|f| f.extent).collect();
                    for bytes in self.sources.read_all(&extents)? {
                        let len = bytes.len() as u64;
                        if visits.failed {
                            decoder.skip(&bytes);
                        } else {
                            decoder.push(bytes);
                            visits.drain(&mut decoder, &mut out)?;
                        }
                        self.work.advance(len)?;
                    }
                }
            }
        }
        decoder.digests().for_each(|digest| kept.sums.add_whole(want_index, digest));
        Ok(())
    }

    /// Passes the bytes of an extent to `work`, borrowed from the source or read into `memory`.
    pub(crate) fn with_bytes<T>(
        &self,
        extent: Extent,
        memory: &mut Vec<u8>,
        work: impl FnOnce(&[u8]) -> T,
    ) -> Result<T> {
        let source = self.sources.at(extent.source);
        if source.read_hints().access == Access::Borrowed {
            if let Some(local) = source.local() {
                local.populate(extent.range());
            }
            return source.read_range(extent.range()).map(|bytes| work(&bytes));
        }
        memory.resize(extent.len() as usize, 0);
        source.read_into(extent.start, memory)?;
        Ok(work(memory))
    }
}

/// A component that is being decoded in order.
struct Stream<'v, V> {
    want: &'v Want,
    want_index: u32,
    /// The number of bytes decoded so far.
    at: u64,
    /// Whether decoding has failed, so that the rest is only read for digests.
    failed: bool,
    visit: &'v V,
}

impl<V: Fn(DecodedBytes<'_>) -> Result<()>> Stream<'_, V> {
    /// Decodes and visits everything that can be decoded from the bytes so far.
    fn drain(&mut self, decoder: &mut ComponentDecoder, out: &mut Option<&mut [u8]>) -> Result<()> {
        loop {
            let found = match decoder.next() {
                Ok(Decoded::Piece(bytes)) => Ok(bytes),
                Ok(Decoded::Need | Decoded::End) => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Io => return Err(self.want.in_context(e)),
                Err(e) => Err(e),
            };
            let at = self.at;
            if let (Ok(bytes), Some(out)) = (&found, &mut *out) {
                let end = at as usize + bytes.len();
                out[at as usize..end].copy_from_slice(bytes);
            }
            self.failed = found.is_err();
            self.at += found.as_ref().map_or(0, |bytes| bytes.len() as u64);
            let decoded = found.as_ref().map(|bytes| &bytes[..]).map_err(Error::clone);
            (self.visit)(DecodedBytes { want_index: self.want_index, offset: at, decoded })
                .map_err(|e| self.want.in_context(e))?;
            if self.failed {
                return Ok(());
            }
        }
    }
}

/// Sorts jobs so that components that are decoded in order come first, the longest first, because other threads cannot
/// help with them. The others keep their order.
fn longest_first<'p, 'o, 'm>(mut jobs: Vec<Job<'p, 'o, 'm>>) -> Vec<Job<'p, 'o, 'm>> {
    let len = |own: &[Fetch]| own.iter().map(|f| f.extent.len()).sum::<u64>();
    jobs.sort_by_key(|job| match job.in_order {
        true => (0, std::cmp::Reverse(len(job.fetches))),
        false => (1, std::cmp::Reverse(0)),
    });
    jobs
}
