//! Compares the values of one pair of tensors, by their layouts.

use super::jobs::{Context, JobBuffers, Pair};
use super::{ComponentDiff, TensorDiff};
use crate::elements::{Elements, step};
use crate::records::TensorRecords as _;
use holdall_core::diff::{Comparator, EqualBlocks, Side, Tally, family, is_comparable, unravel};
use holdall_core::layout::ELEMENT_SIZE;
use holdall_core::layout::number::ElementType;
use holdall_core::{Component, Error, ErrorKind, Layout, Result, Role};
use holdall_io::{Tensor, held};
use holdall_schema::Content;

impl Context<'_> {
    pub(super) fn comparison<'p>(
        &self,
        pair: &'p Pair,
        a: &'p Elements,
        b: &'p Elements,
    ) -> Comparator<'p> {
        // Only if more was found to differ are equal blocks summed, and then read a second time.
        let equal = match a.is_local_file() && b.is_local_file() {
            true => EqualBlocks::Skip,
            false => EqualBlocks::Sum,
        };
        let tolerance = self.options.tolerance;
        Comparator { a: side(&pair.a, a), b: side(&pair.b, b), tolerance, equal }
    }

    /// Compares the values of a pair, and returns the comparison of its elements if there was one.
    pub(super) fn values(
        &self,
        kept: &mut JobBuffers,
        pair: &Pair,
        found: &mut TensorDiff,
    ) -> Result<Option<Tally>> {
        let Pair { a, b, .. } = pair;
        let shape = a.shape();
        let by_place = |at| unravel(shape, at);
        match (family(a.layout()), family(b.layout())) {
            (Layout::SparseCsr, Layout::SparseCsr) => {
                let (x, y) = (held::csr(&a.checked())?, held::csr(&b.checked())?);
                if x.stored() == y.stored() {
                    let coordinates = |at: u64| {
                        let row = x.indptr().partition_point(|&start| start <= at) - 1;
                        vec![row as u64, x.indices()[at as usize]]
                    };
                    let (p, q) = (x.values().clone(), y.values().clone());
                    let (p, q) = (Elements::held(p), Elements::held(q));
                    let tally = self.through(kept, pair, &p, &q)?;
                    found.values = tally.clone().finish(coordinates);
                    return Ok(Some(tally));
                }
            }
            (Layout::SparseCoo, Layout::SparseCoo) => {
                let (x, y) = (held::coo(&a.checked())?, held::coo(&b.checked())?);
                if x.indices() == y.indices() {
                    let coordinates =
                        |at: u64| (0..shape.len()).map(|d| x.coords(d)[at as usize]).collect();
                    let (p, q) = (x.values().clone(), y.values().clone());
                    let (p, q) = (Elements::held(p), Elements::held(q));
                    let tally = self.through(kept, pair, &p, &q)?;
                    found.values = tally.clone().finish(coordinates);
                    return Ok(Some(tally));
                }
            }
            (x, y) if x.is_computed() && x == y => {
                found.components = self.components(kept, pair)?;
                if found.components.is_empty() && found.attributes.is_empty() {
                    return Ok(None);
                }
                // Different components may represent the same elements.
                let (x, y) = (elements(a)?, elements(b)?);
                let tally = self.through(kept, pair, &x, &y)?;
                found.values = Some(tally.clone().report(by_place));
                return Ok(Some(tally));
            }
            (Layout::Records, Layout::Records) | (Layout::Blob, Layout::Blob) => {
                found.components = self.components(kept, pair)?;
                // The order of bytes in the heap is not a difference.
                if !found.components.is_empty() && has_same_content(a, b)? {
                    found.components.clear();
                }
                return Ok(None);
            }
            (Layout::Other(x), Layout::Other(y)) if x == y => {
                found.components = self.components(kept, pair)?;
                if a.description().is_some() && b.description().is_some() {
                    if found.components.is_empty() && found.attributes.is_empty() {
                        return Ok(None);
                    }
                    let (x, y) = (elements(a)?, elements(b)?);
                    let tally = self.through(kept, pair, &x, &y)?;
                    found.values = Some(tally.clone().report(by_place));
                    return Ok(Some(tally));
                }
                return Ok(None);
            }
            _ => {}
        }
        let (x, y) = (elements(a)?, elements(b)?);
        if !is_comparable(&x.element_type, &y.element_type) {
            let (x, y) = (&x.element_type, &y.element_type);
            let message = format!("cannot compare {x} and {y} element by element");
            return Err(ELEMENT_SIZE.broken(message));
        }
        if x.count != y.count
            && let (Some(_), Some(_)) = (x.count, y.count)
        {
            // Elements of unknown types can differ in number: that is a difference.
            let types = (Some(x.element_type.clone()), Some(y.element_type.clone()));
            let lens = (x.len(), y.len());
            found.components.push(ComponentDiff::new(Role::Data, types, lens));
        }
        let tally = self.through(kept, pair, &x, &y)?;
        found.values = tally.clone().finish(by_place);
        Ok(Some(tally))
    }

    /// Compares the components of two tensors, role by role. Returns those that differ.
    fn components(&self, kept: &mut JobBuffers, pair: &Pair) -> Result<Vec<ComponentDiff>> {
        let mut out = Vec::new();
        let type_of = |c: &Component| ElementType::new(c.dtype, c.logical_type.clone());
        for c in pair.a.components() {
            let other = pair.b.component(&c.role);
            let types = (Some(type_of(&c)), other.as_ref().map(type_of));
            let lens = (c.decoded_len, other.as_ref().and_then(|c| c.decoded_len));
            let mut diff = ComponentDiff::new(c.role.clone(), types, lens);
            if let Some(other) = other {
                // A length that is known only after decoding does not count as different.
                let lens = (decoded_len(&pair.a, &c)?, decoded_len(&pair.b, &other)?);
                diff.lens = (Some(lens.0), Some(lens.1));
                let (x, y) = (stored(&pair.a, &c.role)?, stored(&pair.b, &c.role)?);
                let counts =
                    (lens.0 * 8 / x.element_type.bits(), lens.1 * 8 / y.element_type.bits());
                if counts.0 == counts.1 && is_comparable(&x.element_type, &y.element_type) {
                    let tally = self.through(kept, pair, &x, &y)?;
                    diff.values = tally.finish(|at| vec![at]);
                }
            }
            if diff.is_change() {
                out.push(diff);
            }
        }
        for c in pair.b.components() {
            if pair.a.component(&c.role).is_none() {
                let (types, lens) = ((None, Some(type_of(&c))), (None, c.decoded_len));
                out.push(ComponentDiff::new(c.role, types, lens));
            }
        }
        Ok(out)
    }

    /// Compares all elements of both from first to last, and both with their digests.
    fn through(
        &self,
        kept: &mut JobBuffers,
        pair: &Pair,
        a: &Elements,
        b: &Elements,
    ) -> Result<Tally> {
        a.compare()?;
        b.compare()?;
        let compare = self.comparison(pair, a, b);
        let step = step(&[a, b]);
        let mut tally = Tally::default();
        let (mut of_a, mut of_b) = (a.cursor()?, b.cursor()?);
        loop {
            let start = tally.count;
            let (x, y) = of_a.next(step, |x| {
                of_b.next(step, |y| {
                    let (n, m) = (count(x, &a.element_type), count(y, &b.element_type));
                    let both = n.min(m);
                    compare.elements(start, both, x, y, &mut tally, &mut kept.scratch)?;
                    Ok((n, m))
                })
            })?;
            if x != y {
                // Only elements of unknown types can differ in number.
                let message =
                    format!("{} elements on one side, {} on the other", start + x, start + y);
                return Err(ELEMENT_SIZE.broken(message));
            }
            if x == 0 {
                return Ok(tally);
            }
        }
    }
}

/// Returns `true` if two tensors have the same records, or the same blob entries, in the same order.
fn has_same_content(a: &Tensor, b: &Tensor) -> Result<bool> {
    if *a.layout() == Layout::Blob {
        let (x, y) = (a.blob()?, b.blob()?);
        if x.len() != y.len() || x.content() != y.content() {
            return Ok(false);
        }
        for at in 0..x.len() {
            if x.get(at)? != y.get(at)?
                && (x.content() != Content::Json || x.json(at)? != y.json(at)?)
            {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    let (x, y) = (a.records()?, b.records()?);
    if x.len() != y.len() {
        return Ok(false);
    }
    let (mut of_x, mut of_y) = (x.iter(0..x.len())?, y.iter(0..y.len())?);
    while let (Some(x), Some(y)) = (of_x.next(), of_y.next()) {
        let (x, y) = (x?, y?);
        // The text of a `TypeDef:Record` may be formatted differently.
        if x.to_json()? != y.to_json()? && x.to_value()? != y.to_value()? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns `true` if the error is not a fault of the files, but says that a limit or this version prevents
/// the comparison.
pub(super) fn is_beyond_us(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::Limit)
}

fn count(bytes: &[u8], element_type: &ElementType) -> u64 {
    bytes.len() as u64 * 8 / element_type.bits()
}

/// Returns one side of the comparison of a tensor.
fn side<'a>(tensor: &'a Tensor, elements: &'a Elements) -> Side<'a> {
    Side {
        source: tensor.file().name(),
        tensor: tensor.name(),
        element_type: &elements.element_type,
    }
}

/// Returns the decoded length of a component, by decoding it if the length is not stored.
fn decoded_len(tensor: &Tensor, c: &Component) -> Result<u64> {
    if let Some(len) = c.decoded_len {
        return Ok(len);
    }
    tensor
        .component_pieces(c.clone(), None)?
        .try_fold(0, |len, piece| Ok(len + piece?.len() as u64))
}

pub(super) fn stored(tensor: &Tensor, role: &Role) -> Result<Elements> {
    Elements::stored(tensor, tensor.require(role)?)
}

/// Returns the elements that a tensor of a known layout represents.
pub(super) fn elements(tensor: &Tensor) -> Result<Elements> {
    Ok(match tensor.layout() {
        Layout::Dense => stored(tensor, &Role::Data)?,
        layout if layout.is_computed() => Elements::computed(tensor.computed()?),
        _ if tensor.description().is_some() => Elements::described(tensor)?,
        // `to_dense` returns the error for an unknown layout.
        _ => Elements::held(tensor.to_dense()?),
    })
}
