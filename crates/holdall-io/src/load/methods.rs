//! Loads as methods of files and tensors.

use super::{LoadOptions, Loaded, LoadedMemory};
use crate::buffer::Buffer;
use crate::checked::Check;
use crate::file::{File, Tensor};
use bytes::Bytes;
use holdall_core::{Plan, Result, Role};
use std::ops::Range;

impl File {
    /// Loads every tensor into memory of its own: see [`File::load`]. A tensor with a
    /// [fault](holdall_core::TensorInfo::fault) is an error; loading by name leaves it out.
    ///
    /// # Errors
    /// As [`File::load`].
    pub fn load_all(&self) -> Result<Loaded> {
        super::load(self, self.index().tensors().collect(), &LoadOptions::new())
    }

    /// Loads these tensors into memory of their own, decoded and checked, on several threads.
    ///
    /// # Errors
    /// NotFound, Io, Integrity (digests, under the file's [`Check`](crate::Check)), Malformed (compressed bytes),
    /// Limit.
    pub fn load<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        options: &LoadOptions,
    ) -> Result<Loaded> {
        super::load(self, self.named(names)?, options)
    }

    /// What [`File::load`] of these tensors would fetch: which bytes of which sources, in what order, and what each
    /// of them is for. Nothing is read but the seek tables of compressed components.
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

    /// Loads these tensors (by their numbers in the file's order) as [`File::load`] does, into memory
    /// that is the caller's to write to.
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

    /// Decodes many components into the caller's memory, each buffer exactly as long as its component,
    /// in the order of the file and on several threads.
    ///
    /// # Errors
    /// As [`File::load`]; Misuse for a buffer of another length.
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
    /// The decoded bytes of a component: little-endian, elements in row-major order. A view into the
    /// map for raw components of a mapped file, fresh memory for all others.
    ///
    /// A view is not touched, so its digest is only compared under [`Check::All`]: [`Checked::bytes`](crate::Checked::bytes) returns
    /// the same after comparing it.
    ///
    /// # Errors
    /// NotFound, Io, Integrity, Malformed, Limit.
    pub fn bytes(&self, role: &Role) -> Result<Bytes> {
        let c = self.require(role)?;
        match super::borrowed(self.file(), &c) {
            Some(bytes) if self.file().check() != Check::All => {
                bytes.map_err(|e| self.in_context(e, &c))
            }
            _ => self.checked().bytes(role),
        }
    }

    /// The decoded bytes of a component as [`Tensor::bytes`] gives them, in memory that is the caller's to
    /// write to, and where in it they lie.
    ///
    /// # Errors
    /// As [`Tensor::bytes`].
    pub fn memory(&self, role: &Role) -> Result<(Buffer, Range<usize>)> {
        let c = self.require(role)?;
        super::component_memory(self.file(), self.position(), &c)
            .map_err(|e| self.in_context(e, &c))
    }

    /// Decodes a component into `out`, which has exactly its decoded length.
    ///
    /// # Errors
    /// As [`Tensor::bytes`]; Misuse for a buffer of another length.
    pub fn read_into(&self, role: &Role, out: &mut [u8]) -> Result<()> {
        let c = self.require(role)?;
        super::component_into(self.file(), self.position(), &c, out)
            .map_err(|e| self.in_context(e, &c))
    }
}
