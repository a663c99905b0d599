//! Many tensors of one component: room for them, and those with nothing odd about them added in a few steps.

use super::super::index::{ComponentRow, DigestKind, TensorRow};
use super::super::shape::{element_count, product};
use super::{IndexBuilder, arena_offset};
use crate::error::Result;
use crate::model::{ByteOrder, Component, DType, Encoding, Layout, LogicalType, Role};
use crate::read::Extent;

/// After so many tensors the room that the others take is known well enough.
pub const SAMPLE: usize = 64;

impl IndexBuilder {
    /// Makes room for `count` more tensors of one component, with names and shapes as long as those so far have. A decoder that
    /// was told a count caps it by the bytes that are there.
    pub fn reserve(&mut self, count: usize) {
        let inner = &mut self.inner;
        let count = count.min(usize::try_from(self.limits.tensors).unwrap_or(usize::MAX));
        inner.tensors.reserve(count);
        inner.components.reserve(count);
        // And an eighth: the numbers in names grow.
        let alike = |all: usize| {
            let most = all.saturating_mul(count) / inner.tensors.len().max(1);
            most.saturating_add(most / 8)
        };
        inner.names.reserve(alike(inner.names.len()));
        inner.dims.reserve(alike(inner.dims.len()));
    }

    /// Adds a dense tensor whose elements are raw bytes: what [`IndexBuilder::tensor`] and
    /// [`IndexBuilder::component`] do. Where nothing is odd about it, as of most tensors of most files, that takes a few steps.
    ///
    /// # Errors
    /// As of those.
    pub fn dense(
        &mut self,
        name: &str,
        shape: &[u64],
        dtype: DType,
        logical_type: Option<&LogicalType>,
        byte_order: ByteOrder,
        stored: Extent,
    ) -> Result<()> {
        if logical_type.is_none() && self.is_plain(shape, dtype, stored) {
            return self.plain(name, shape, dtype, byte_order, stored);
        }
        self.tensor(name, shape, Layout::Dense)?;
        self.component(Component {
            role: Role::Data,
            dtype,
            logical_type: logical_type.cloned(),
            encoding: Encoding::Raw,
            byte_order,
            decoded_len: Some(stored.len()),
            stored,
            digest: None,
        })
    }

    /// Whether a dense tensor has as many bytes as its shape takes, where data may lie, and there is room for it.
    fn is_plain(&self, shape: &[u64], dtype: DType, stored: Extent) -> bool {
        let inner = &self.inner;
        let Some((len, data)) = inner.sources.get(stored.source as usize) else { return false };
        let room = if stored.is_empty() { 0..*len } else { data.start..data.end.min(*len) };
        let found = stored.end.checked_sub(stored.start);
        found.is_some()
            && found == element_count(shape).and_then(|count| product(count, dtype.width()))
            && stored.start >= room.start
            && stored.end <= room.end
            && shape.len() <= self.limits.rank
            && (inner.tensors.len() as u64) < self.limits.tensors
    }

    fn plain(
        &mut self,
        name: &str,
        shape: &[u64],
        dtype: DType,
        byte_order: ByteOrder,
        stored: Extent,
    ) -> Result<()> {
        self.close_tensor();
        let inner = &mut self.inner;
        if let Some(last) = inner.tensors.len().checked_sub(1) {
            self.sorted = self.sorted && inner.name_bytes(last) < name.as_bytes();
        }
        inner.names.push_str(name);
        inner.dims.extend_from_slice(shape);
        inner.add_source(stored.source);
        inner.components.push(ComponentRow {
            offset: stored.start,
            stored_len: stored.len(),
            decoded_len: 0,
            digest: 0,
            role: self.role_ids.intern(&mut inner.roles, &Role::Data)?,
            logical_type: 0,
            digest_kind: DigestKind::None,
            dtype,
            encoding: Encoding::Raw,
            byte_order,
        });
        inner.tensors.push(TensorRow {
            name_end: arena_offset(inner.names.len())?,
            dims_end: arena_offset(inner.dims.len())?,
            components_end: arena_offset(inner.components.len())?,
            attributes: 0,
            layout: self.layout_ids.intern(&mut inner.layouts, &Layout::Dense)?,
        });
        self.closed = inner.tensors.len();
        Ok(())
    }
}
