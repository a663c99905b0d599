//! Methods of files and tensors that load components.

use super::{LoadOptions, Loaded, LoadedMemory};
use crate::buffer::Buffer;
use crate::checked::Check;
use crate::file::{File, Tensor};
use crate::planes;
use bytes::Bytes;
use holdall_core::layout::dense::Dense;
use holdall_core::read::Want;
use holdall_core::{Extent, Plan, Result, Role};
use std::ops::Range;

impl File {
    /// Loads every tensor into new memory, as [`File::load`] does. Fails if a tensor has a
    /// [fault](holdall_core::TensorInfo::fault); to skip such a tensor, load the others by name.
    ///
    /// # Errors
    /// As [`File::load`].
    pub fn load_all(&self) -> Result<Loaded> {
        super::load(self, self.index().tensors().collect(), &LoadOptions::new())
    }

    /// Loads the tensors called `names` into new memory, decoded and checked, on several threads.
    ///
    /// # Errors
    /// NotFound if there is no tensor of one of the names; Io; Integrity if a digest differs (under the file's
    /// [`Check`](crate::Check)); Malformed if compressed bytes cannot be decoded; Limit.
    pub fn load<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        options: &LoadOptions,
    ) -> Result<Loaded> {
        super::load(self, self.named(names)?, options)
    }

    /// Returns the fetches that [`File::load`] of these tensors would do: their byte ranges, sources and order, and
    /// what each range is for. Only the seek tables of compressed components are read.
    ///
    /// # Errors
    /// NotFound, Io.
    pub fn plan<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        options: &LoadOptions,
    ) -> Result<Plan> {
        super::plan(self, &self.named(names)?, options).map_err(|e| e.in_source(self.name()))
    }

    /// Loads the tensors at these positions (in the file's order) as [`File::load`] does, into memory that the caller
    /// may write to.
    ///
    /// # Errors
    /// As [`File::load`].
    pub fn load_memory(
        &self,
        positions: impl IntoIterator<Item = usize>,
        options: &LoadOptions,
    ) -> Result<LoadedMemory> {
        let at = |position| self.index().at(position).ok_or_else(|| self.no_position(position));
        let wanted = positions.into_iter().map(at).collect::<Result<Vec<_>>>()?;
        super::load_memory(self, wanted, options)
    }

    /// Decodes many components into the caller's memory, in file order and on several threads. Each buffer must have
    /// exactly the decoded length of its component.
    ///
    /// # Errors
    /// As [`File::load`]; Misuse if a buffer has another length.
    pub fn load_into<'a>(
        &self,
        buffers: impl IntoIterator<Item = (&'a str, Role, &'a mut [u8])>,
        options: &LoadOptions,
    ) -> Result<()> {
        let mut wanted = Vec::new();
        for (name, role, out) in buffers {
            let tensor = self.tensor(name)?;
            wanted.push((tensor.position(), tensor.require(&role)?, out));
        }
        super::load_into(self, wanted, options).map_err(|e| e.in_source(self.name()))
    }
}

impl Tensor {
    /// Returns the stored bytes of a component, if they are its decoded bytes and reading them would check no digest:
    /// then [`LocalFile::map_private`](crate::source::LocalFile::map_private) of their source holds what
    /// [`Tensor::memory`] would read.
    ///
    /// # Errors
    /// NotFound if the tensor has no such component; its fault, if it has one.
    pub fn stored_as_is(&self, role: &Role) -> Result<Option<Extent>> {
        let c = self.require(role)?;
        let check = self.file().check();
        let is_checked = check.algorithm(&c).is_some()
            || (check == Check::All && !self.file().checksums_of(&c).is_empty());
        let is_plain = Want::new(0, c.clone()).is_plain();
        Ok((is_plain && !is_checked).then_some(c.stored))
    }

    /// Returns the decoded bytes of a component: little-endian, elements in row-major order. For a raw component of a
    /// mapped file this is a view into the map, for all others new memory.
    ///
    /// Creating a view does not read its bytes, so the digest is only checked under [`Check::All`].
    /// [`Checked::bytes`](crate::Checked::bytes) returns the same bytes after checking the digest.
    ///
    /// The [`Role::Data`] of a tensor in planes are its elements, joined in new memory; so it is for the other methods that read
    /// decoded bytes.
    ///
    /// # Errors
    /// NotFound, Io, Integrity, Malformed, Limit.
    pub fn bytes(&self, role: &Role) -> Result<Bytes> {
        if planes::is_joined(self, role) {
            return planes::to_dense(self).map(Dense::into_bytes);
        }
        let c = self.require(role)?;
        match super::borrowed(self.file(), &c) {
            Some(bytes) if self.file().check() != Check::All => {
                bytes.map_err(|e| self.in_context(e, &c))
            }
            _ => self.checked().bytes(role),
        }
    }

    /// Returns the decoded bytes of a component, as [`Tensor::bytes`] does, in a buffer that the caller may write to,
    /// with their range in that buffer.
    ///
    /// # Errors
    /// As [`Tensor::bytes`].
    pub fn memory(&self, role: &Role) -> Result<(Buffer, Range<usize>)> {
        if planes::is_joined(self, role) {
            let mut memory = planes::joined(self)?;
            let len = memory.as_mut().len();
            return Ok((memory, 0..len));
        }
        let c = self.require(role)?;
        super::component_memory(self.file(), self.position(), &c)
            .map_err(|e| self.in_context(e, &c))
    }

    /// Decodes a component into `out`, which must have exactly its decoded length.
    ///
    /// # Errors
    /// As [`Tensor::bytes`]; Misuse if the buffer has another length.
    pub fn read_into(&self, role: &Role, out: &mut [u8]) -> Result<()> {
        if planes::is_joined(self, role) {
            return planes::join_into(self, out);
        }
        let c = self.require(role)?;
        super::component_into(self.file(), self.position(), &c, out)
            .map_err(|e| self.in_context(e, &c))
    }
}
