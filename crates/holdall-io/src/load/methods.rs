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
    /// Returns the same errors as [`File::load`].
    pub fn load_all(&self) -> Result<Loaded> {
        super::load(self, self.index().tensors().collect(), &LoadOptions::new())
    }

    /// Loads the tensors called `names` into new memory, decoded and checked, on several threads.
    ///
    /// # Errors
    /// Returns a `NotFound` error if there is no tensor of one of the names; an `Io` error; an `Integrity` error if a digest differs (under the file's
    /// [`Check`](crate::Check)); a `Malformed` error if compressed bytes cannot be decoded; a `Limit` error.
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
    /// Returns a `NotFound` error, an `Io` error.
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
    /// Returns the same errors as [`File::load`].
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
    /// Returns the same errors as [`File::load`]; a `Misuse` error if a buffer has another length.
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
    /// Returns the location of a component's bytes in the file, if they are stored decoded and reading them checks no
    /// digest. [`LocalFile::map_private`](crate::source::LocalFile::map_private) of their source then maps the same
    /// bytes that [`Tensor::memory`] would read.
    ///
    /// # Errors
    /// Returns a `NotFound` error if the tensor has no such component; its fault, if it has one.
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
    /// Returns a `NotFound` error, an `Io` error, an `Integrity` error, a `Malformed` error, a `Limit` error.
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
    /// Returns the same errors as [`Tensor::bytes`].
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
    /// Returns the same errors as [`Tensor::bytes`]; a `Misuse` error if the buffer has another length.
    pub fn read_into(&self, role: &Role, out: &mut [u8]) -> Result<()> {
        if planes::is_joined(self, role) {
            return planes::join_into(self, out);
        }
        let c = self.require(role)?;
        super::component_into(self.file(), self.position(), &c, out)
            .map_err(|e| self.in_context(e, &c))
    }
}
