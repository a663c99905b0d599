//! Checks for components that overlap partially.

use super::super::index::Fault;
use super::{FULL_FAULTS, IndexBuilder, OVERLAP, Overlaps};
use crate::error::{Error, Result};
use crate::read::Extent;

impl IndexBuilder {
    /// Finds components that overlap partially, and either refuses the file or turns the overlaps into faults of the
    /// tensors.
    pub(super) fn check_overlaps(&mut self) -> Result<()> {
        if self.overlaps == Overlaps::Views || self.are_extents_in_order() {
            return Ok(());
        }
        let mut extents: Vec<Extent> = self.extents().collect();
        extents.sort_unstable();
        extents.dedup();
        // Each extent that overlaps partially with another, and one of those others.
        let mut concerned: Vec<(Extent, Extent)> = Vec::new();
        // The extent that reaches furthest so far.
        let mut reach = Extent::default();
        for extent in extents {
            if extent.source == reach.source && extent.start < reach.end {
                if self.overlaps == Overlaps::Refused {
                    return Err(self.blame_overlap(reach, extent));
                }
                concerned.push((reach, extent));
                concerned.push((extent, reach));
            }
            if (extent.source, extent.end) > (reach.source, reach.end) {
                reach = extent;
            }
        }
        if !concerned.is_empty() {
            concerned.sort_unstable();
            concerned.dedup_by_key(|(extent, _)| *extent);
            self.overlap_faults(&concerned);
        }
        Ok(())
    }

    /// Returns the extents of all components that are not empty, and those claimed by faulty tensors.
    fn extents(&self) -> impl Iterator<Item = Extent> {
        let inner = &self.inner;
        let filled = (0..inner.components.len()).map(|at| self.extent(at));
        filled.chain(inner.claimed.iter().copied()).filter(|extent| !extent.is_empty())
    }

    fn extent(&self, component: usize) -> Extent {
        let row = &self.inner.components[component];
        let source = self.inner.sources_of.get(component).copied().unwrap_or(0);
        Extent::new(source, row.offset..row.offset.saturating_add(row.stored_len))
    }

    fn are_extents_in_order(&self) -> bool {
        let mut last = Extent::default();
        self.extents().all(|extent| {
            let fits = (extent.source, extent.start) >= (last.source, last.end);
            last = extent;
            fits
        })
    }

    /// Adds a fault to each tensor that has one of these extents, and removes its components.
    fn overlap_faults(&mut self, concerned: &[(Extent, Extent)]) {
        let find = |extent: Extent| {
            let at = concerned.binary_search_by_key(&extent, |(extent, _)| *extent).ok()?;
            Some(concerned[at].1)
        };
        let mut faults = Vec::new();
        let mut kept = Vec::with_capacity(self.inner.components.len());
        // The end of each tensor's components in `kept`.
        let mut ends = Vec::with_capacity(self.inner.tensors.len());
        let mut claimed = Vec::new();
        for tensor in 0..self.inner.tensors.len() {
            let own = self.inner.components_of(tensor);
            let first = own.clone().find_map(|at| {
                let extent = self.extent(at);
                Some((at, extent, find(extent).filter(|_| !extent.is_empty())?))
            });
            match first {
                None => kept.extend(own),
                Some((at, extent, other)) => {
                    let role = &self.inner.roles[self.inner.components[at].role as usize];
                    let e = overlap(other, extent).in_tensor(self.inner.name(tensor));
                    let e = e.in_component(role).at(extent.range());
                    claimed.extend(own.map(|at| self.extent(at)));
                    faults.push((tensor as u32, e));
                }
            }
            ends.push(kept.len() as u32);
        }
        let inner = &mut self.inner;
        for (tensor, end) in inner.tensors.iter_mut().zip(ends) {
            tensor.components_end = end;
        }
        if !inner.sources_of.is_empty() {
            inner.sources_of.resize(inner.components.len(), 0);
            inner.sources_of = kept.iter().map(|&at| inner.sources_of[at]).collect();
        }
        let mut rows = std::mem::take(&mut inner.components).into_iter().enumerate();
        let mut wanted = kept.iter().copied().peekable();
        inner.components =
            rows.by_ref().filter_map(|(at, row)| wanted.next_if_eq(&at).map(|_| row)).collect();
        inner.claimed.extend(claimed);
        for (tensor, e) in faults {
            let fault = match inner.faults.len() < FULL_FAULTS {
                true => Fault::Known(e),
                false => Fault::OneOfMany(e.rule()),
            };
            inner.faults.push((tensor, fault));
        }
        inner.faults.sort_by_key(|(tensor, _)| *tensor);
    }

    #[cold]
    fn blame_overlap(&self, a: Extent, b: Extent) -> Error {
        let mut e = overlap(a, b);
        let inner = &self.inner;
        for t in 0..inner.tensors.len() {
            if let Some(at) = inner.components_of(t).find(|&at| self.extent(at) == b) {
                let role = &inner.roles[inner.components[at].role as usize];
                e = e.in_tensor(inner.name(t)).in_component(role);
                break;
            }
        }
        e.at(b.range())
    }
}

fn overlap(a: Extent, b: Extent) -> Error {
    let (a, b) = if a <= b { (a, b) } else { (b, a) };
    OVERLAP.broken(format!(
        "bytes {}..{} and {}..{} overlap partially: they must be disjoint or equal",
        a.start, a.end, b.start, b.end
    ))
}
