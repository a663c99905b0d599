//! Fast paths for many tensors of one component: reserving memory, and adding plain tensors.

use super::super::index::{ComponentRow, DigestKind, TensorRow};
use super::super::shape::{element_count, product};
use super::{IndexBuilder, arena_offset};
use crate::error::Result;
use crate::model::{ByteOrder, Component, DType, Encoding, Layout, LogicalType, Role};
use crate::read::Extent;

/// The number of tensors after which the memory of the others can be estimated well.
pub const SAMPLE: usize = 64;

impl IndexBuilder {
    /// Reserves memory for `count` more tensors of one component, assuming that their names and shapes are as long as
    /// the ones so far. A decoder that reads the count from the file limits it by the number of bytes left.
    pub fn reserve(&mut self, count: usize) {
        let inner = &mut self.inner;
        let count = count.min(usize::try_from(self.limits.tensors).unwrap_or(usize::MAX));
        inner.tensors.reserve(count);
        inner.components.reserve(count);
        // Plus one eighth, because the numbers in names grow.
        let alike = |all: usize| {
            let most = all.saturating_mul(count) / inner.tensors.len().max(1);
            most.saturating_add(most / 8)
        };
        inner.names.reserve(alike(inner.names.len()));
        inner.dims.reserve(alike(inner.dims.len()));
    }

    /// Adds a dense tensor whose elements are raw bytes, like [`IndexBuilder::tensor`] followed by
    /// [`IndexBuilder::component`]. Plain tensors, which are the most common, are added by a faster path.
    ///
    /// # Errors
    /// Returns the errors of [`IndexBuilder::tensor`] and [`IndexBuilder::component`].
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

    /// Returns `true` if the tensor's bytes have the length that its shape requires, lie where data may lie, and no
    /// limit is reached.
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
