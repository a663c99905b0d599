//! The two sides of a comparison: an index, or the record of an encoder's input.

use crate::encode::{ComponentRef, ComponentSpec, Stored, TensorSpec};
use crate::model::{Attributes, DType, Digest, Index, Layout, LogicalType, Role, TensorInfo};
use holdall_collections::HashMap;
use std::sync::Arc;

/// An encoder's input: attributes, tensors, and the digests of the components that were stored.
#[derive(Debug, Clone, Default)]
pub struct Record {
    attributes: Option<Attributes>,
    tensors: Vec<Recorded>,
    /// The number of files whose records were merged into this one.
    merged: u32,
}

/// One tensor of a [`Record`].
#[derive(Debug, Clone)]
pub(super) struct Recorded {
    spec: Arc<TensorSpec>,
    /// How each component was stored, if it was.
    stored: Vec<Option<Stored>>,
    /// The number of the tensor's file, for a model in several files.
    file: u32,
}

impl Record {
    /// Creates a record without tensors. `attributes` are the file's, or `None` if the encoder ignores the attributes
    /// that it receives.
    pub fn new(attributes: Option<Attributes>) -> Record {
        Record { attributes, ..Record::default() }
    }

    /// Sets the file's attributes.
    pub fn set_attributes(&mut self, attributes: Option<Attributes>) {
        self.attributes = attributes;
    }

    /// Adds a tensor.
    pub fn add(&mut self, spec: Arc<TensorSpec>) {
        let stored = vec![None; spec.components.len()];
        self.tensors.push(Recorded { spec, stored, file: 0 });
    }

    /// Records how the component at index `component` of a recently added tensor was stored.
    pub fn store(&mut self, tensor: &TensorSpec, component: usize, stored: &Stored) {
        let is_it = |recorded: &&mut Recorded| std::ptr::eq(&*recorded.spec, tensor);
        let found = self.tensors.iter_mut().rev().find(is_it);
        if let Some(stored_key) = found.and_then(|found| found.stored.get_mut(component)) {
            *stored_key = Some(stored.clone());
        }
    }

    /// Adds the record of another file of the same model.
    pub fn merge(&mut self, other: Record) {
        self.merged += 1;
        let file = self.merged;
        self.tensors.extend(other.tensors.into_iter().map(|tensor| Recorded { file, ..tensor }));
        for (key, value) in other.attributes.iter().flat_map(Attributes::iter) {
            let own = self.attributes.get_or_insert_default();
            if own.get(key).is_none() {
                own.push(key, value.clone());
            }
        }
    }

    /// Returns the tensors, and how each of their components was stored, if it was.
    pub fn tensors(&self) -> impl Iterator<Item = (&TensorSpec, &[Option<Stored>])> {
        self.tensors.iter().map(|tensor| (&*tensor.spec, &tensor.stored[..]))
    }

    /// Returns the number of tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Returns `true` if there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }
}

/// One side of a comparison.
#[derive(Debug, Clone, Copy)]
pub enum Side<'a> {
    /// The contents of a file.
    Index(&'a Index),
    /// The input of an encoder.
    Record(&'a Record),
}

/// One tensor of a [`Side`].
pub(super) enum Entry<'a> {
    Info(TensorInfo),
    Recorded(&'a Recorded),
}

/// One component of an [`Entry`].
pub(super) struct ComponentEntry {
    pub(super) role: Role,
    pub(super) dtype: DType,
    pub(super) logical_type: Option<LogicalType>,
    /// The decoded length in bytes, if known.
    pub(super) decoded_len: Option<u64>,
    /// The digest or its absence, if known.
    pub(super) digest: Option<Option<Digest>>,
}

impl ComponentEntry {
    /// Returns the name of the elements' type, for people.
    pub(super) fn type_name(&self) -> String {
        match &self.logical_type {
            Some(logical) => logical.to_string(),
            None => self.dtype.to_string(),
        }
    }
}

impl<'a> Side<'a> {
    /// Returns the tensors of a record, or an empty slice for an index.
    pub(super) fn recorded(self) -> &'a [Recorded] {
        match self {
            Side::Index(_) => &[],
            Side::Record(record) => &record.tensors,
        }
    }

    pub(super) fn len(self) -> usize {
        match self {
            Side::Index(index) => index.len(),
            Side::Record(record) => record.len(),
        }
    }

    /// Returns descriptions of what the file contains and the index does not represent.
    pub(super) fn unrepresented(self) -> impl Iterator<Item = &'a String> {
        let (unrepresented, dispensable) = match self {
            Side::Index(index) => (index.unrepresented(), index.dispensable()),
            Side::Record(_) => (&[][..], &[][..]),
        };
        unrepresented.iter().chain(dispensable)
    }

    /// Returns the file's attributes, if known.
    pub(super) fn attributes(self) -> Option<&'a Attributes> {
        match self {
            Side::Index(index) => Some(index.attributes()),
            Side::Record(record) => record.attributes.as_ref(),
        }
    }

    /// Returns the indices of the tensors by name.
    pub(super) fn indices_by_name(self) -> HashMap<&'a str, usize> {
        match self {
            Side::Index(index) => index.names().enumerate().map(|(at, name)| (name, at)).collect(),
            Side::Record(record) => {
                let name = |(at, tensor): (usize, &'a Recorded)| (tensor.spec.name.as_str(), at);
                record.tensors.iter().enumerate().map(name).collect()
            }
        }
    }

    /// Returns the tensor at index `at`.
    ///
    /// # Panics
    /// Panics if `at` is out of range.
    pub(super) fn entry(self, at: usize) -> Entry<'a> {
        match self {
            #[allow(clippy::expect_used)] // The caller counts to `len`.
            Side::Index(index) => Entry::Info(index.at(at).expect("a tensor of the index")),
            Side::Record(record) => Entry::Recorded(&record.tensors[at]),
        }
    }
}

impl Entry<'_> {
    pub(super) fn name(&self) -> &str {
        match self {
            Entry::Info(info) => info.name(),
            Entry::Recorded(recorded) => &recorded.spec.name,
        }
    }

    pub(super) fn shape(&self) -> &[u64] {
        match self {
            Entry::Info(info) => info.shape(),
            Entry::Recorded(recorded) => &recorded.spec.shape,
        }
    }

    pub(super) fn layout(&self) -> &Layout {
        match self {
            Entry::Info(info) => info.layout(),
            Entry::Recorded(recorded) => &recorded.spec.layout,
        }
    }

    pub(super) fn attributes(&self) -> &Attributes {
        match self {
            Entry::Info(info) => info.attributes(),
            Entry::Recorded(recorded) => &recorded.spec.attributes,
        }
    }

    /// Returns `true` if the tensor cannot be read, so that at most its name is known.
    pub(super) fn is_faulty(&self) -> bool {
        match self {
            Entry::Info(info) => info.fault().is_some(),
            Entry::Recorded(_) => false,
        }
    }

    pub(super) fn parts(&self) -> Vec<ComponentEntry> {
        match self {
            Entry::Info(info) => {
                let part = |c: crate::model::Component| ComponentEntry {
                    role: c.role,
                    dtype: c.dtype,
                    logical_type: c.logical_type,
                    decoded_len: c.decoded_len,
                    digest: Some(c.digest),
                };
                info.components().map(part).collect()
            }
            Entry::Recorded(Recorded { spec, stored, .. }) => {
                let part = |(c, stored): (&ComponentSpec, &Option<Stored>)| ComponentEntry {
                    role: c.role.clone(),
                    dtype: c.dtype,
                    logical_type: c.logical_type.clone(),
                    decoded_len: Some(c.decoded_len),
                    digest: stored.as_ref().map(|stored| stored.digest.clone()),
                };
                spec.components.iter().zip(stored).map(part).collect()
            }
        }
    }
}

impl Recorded {
    /// Returns the components, each with its location and the component whose bytes it shares, as far as known.
    pub(super) fn components(
        &self,
    ) -> impl Iterator<Item = (&ComponentSpec, Option<StoredPlace>, Option<&ComponentRef>)> {
        let stored_key = |stored: &Stored| (self.file, stored.range.start, stored.range.end);
        let pairs = self.spec.components.iter().zip(&self.stored);
        pairs.map(move |(c, stored)| (c, stored.as_ref().map(stored_key), c.shares.as_ref()))
    }
}

/// The number of a file, and a range in it.
pub(super) type StoredPlace = (u32, u64, u64);
