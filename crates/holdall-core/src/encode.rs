//! The write side, append-only and without I/O: an encoder decides where bytes go, and the caller writes them.
//!
//! A writer calls [`Encode::begin`] and appends the bytes that it returns. Then, for each component, it calls
//! [`Encode::preceding_bytes`] and appends the bytes, calls [`Encode::next_offset`] and appends zeros up to that offset, appends
//! the stored bytes, and calls [`Encode::component_written`]. At the end it calls [`Encode::finish`] and appends the
//! bytes. The bytes of components do not pass through the encoder, except for components that the encoder
//! [states](Encode::stores_in_header) in its header: these are passed to [`Encode::add_header_values`].

use crate::error::{Result, Rule};
use crate::model::{
    Attributes, DType, Digest, Encoding, Layout, LogicalType, Role, TensorInfo, Warning,
};
use bytes::Bytes;
use holdall_collections::HashSet;
use std::ops::{Range, RangeInclusive};

crate::error::rules! {
    /// Rules about requests to encoders.
    pub static RULES;

    /// The requested version cannot be written.
    pub UNKNOWN_VERSION: Misuse "format/unknown-version"
        "The format can be written in the requested version.";
}

/// A tensor to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorSpec {
    /// The tensor's name.
    pub name: String,
    /// The tensor's dimensions, in elements.
    pub shape: Vec<u64>,
    /// How the components form the tensor.
    pub layout: Layout,
    /// The tensor's attributes.
    pub attributes: Attributes,
    /// The tensor's components, in the order in which they will be written.
    pub components: Vec<ComponentSpec>,
}

impl TensorSpec {
    /// Removes logical types that add nothing to their dtype.
    pub fn with_plain_types(mut self) -> TensorSpec {
        self.components.iter_mut().for_each(ComponentSpec::make_plain);
        self
    }

    /// Checks that the tensor has each component that its layout requires, and no role twice.
    ///
    /// # Errors
    /// Returns an error of `rule` otherwise.
    pub fn check_roles(&self, rule: &'static Rule) -> Result<()> {
        let TensorSpec { layout, components, .. } = self;
        for role in layout.required_roles() {
            if !components.iter().any(|c| c.role == *role) {
                return Err(rule.broken(format!("layout `{layout}` requires a component `{role}`")));
            }
        }
        let mut roles = HashSet::default();
        match components.iter().find(|c| !roles.insert(&c.role)) {
            Some(c) => Err(rule.broken("two components have this role").in_component(&c.role)),
            None => Ok(()),
        }
    }

    /// Creates a dense tensor. The decoded length of its only component follows from shape and dtype.
    pub fn dense(name: impl Into<String>, dtype: DType, shape: impl Into<Vec<u64>>) -> TensorSpec {
        let shape = shape.into();
        let count = crate::model::element_count(&shape).unwrap_or(u64::MAX);
        let len = count.saturating_mul(dtype.width());
        TensorSpec {
            name: name.into(),
            shape,
            layout: Layout::Dense,
            attributes: Attributes::new(),
            components: vec![ComponentSpec::new(Role::Data, dtype, len)],
        }
    }

    /// Returns the description for writing `info` unchanged: with the same shape, layout, attributes and components.
    /// Returns `None` if a component's decoded length is unknown without decoding it.
    pub fn from_info(info: &TensorInfo) -> Option<TensorSpec> {
        let components = info
            .components()
            .map(|c| {
                let mut spec = ComponentSpec::new(c.role, c.dtype, c.decoded_len?);
                spec.logical_type = c.logical_type;
                Some(spec)
            })
            .collect::<Option<Vec<_>>>()?;
        Some(TensorSpec {
            name: info.name().to_owned(),
            shape: info.shape().to_vec(),
            layout: info.layout().clone(),
            attributes: info.attributes().clone(),
            components,
        })
    }
}

/// A component to be written. Its decoded bytes are little-endian and have exactly this length.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentSpec {
    /// The component's role in its tensor.
    pub role: Role,
    /// The storage element type.
    pub dtype: DType,
    /// The meaning of the elements beyond their storage type.
    pub logical_type: Option<LogicalType>,
    /// The length in bytes before encoding.
    pub decoded_len: u64,
    /// An earlier component whose stored bytes this one shares (tied weights). Nothing is written for this component.
    pub shares: Option<ComponentRef>,
}

impl ComponentSpec {
    /// Creates a component without a logical type that shares no bytes.
    pub fn new(role: Role, dtype: DType, decoded_len: u64) -> ComponentSpec {
        ComponentSpec { role, dtype, logical_type: None, decoded_len, shares: None }
    }

    fn make_plain(&mut self) {
        self.logical_type.take_if(|logical| logical.is_plain(self.dtype));
    }
}

/// A reference to a component of the file being written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ComponentRef {
    /// The tensor's name.
    pub tensor: String,
    /// The component's role.
    pub role: Role,
}

/// How a component was stored in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// The byte range in the file, half-open.
    pub range: Range<u64>,
    /// The encoding of the bytes.
    pub encoding: Encoding,
    /// The digest of the stored bytes.
    pub digest: Option<Digest>,
}

/// Options for a file to be written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EncodeOptions {
    /// The format's version, as the format spells it; `None` for the newest.
    pub version: Option<String>,
    /// The exact version string of a file that is written again, such as `1.1.0`: the file is written in that version,
    /// with the same string. Takes precedence over `version`.
    pub stated: Option<String>,
    /// The alignment of components in bytes: a power of two that is at least the format's own alignment.
    pub align: Option<u64>,
    /// Selects the check of a header's plain values against the standard keywords of their schema.
    pub values: ValueCheck,
}

/// Selects the check of a header's plain values against the standard keywords of their schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueCheck {
    /// The encoder. A build that has no validator writes no plain values then.
    #[default]
    Encoder,
    /// The caller, who has checked them already.
    Caller,
}

impl EncodeOptions {
    /// Returns the default options: the newest version with the format's own alignment.
    pub const fn new() -> EncodeOptions {
        EncodeOptions { version: None, stated: None, align: None, values: ValueCheck::Encoder }
    }

    /// Sets which side checks the plain values of a header: the encoder or the caller.
    pub fn with_values(mut self, values: ValueCheck) -> EncodeOptions {
        self.values = values;
        self
    }

    /// Sets the version to write.
    pub fn with_version(mut self, version: impl Into<String>) -> EncodeOptions {
        self.version = Some(version.into());
        self
    }

    /// Sets the exact version string of a file that is written again.
    pub fn with_stated(mut self, version: impl Into<String>) -> EncodeOptions {
        self.stated = Some(version.into());
        self
    }

    /// Sets the alignment of components to `align` bytes.
    pub fn with_align(mut self, align: u64) -> EncodeOptions {
        self.align = Some(align);
        self
    }

    /// Returns the requested alignment, which must be a power of two within `bounds`.
    ///
    /// # Errors
    /// Returns an error of `rule` otherwise.
    pub fn align_within(
        &self,
        bounds: RangeInclusive<u64>,
        rule: &'static Rule,
    ) -> Result<Option<u64>> {
        match self.align {
            Some(align) if !align.is_power_of_two() || !bounds.contains(&align) => {
                let (least, most) = bounds.into_inner();
                Err(rule.broken(format!(
                    "invalid alignment of {align} bytes: expected a power of two from {least} to {most}"
                )))
            }
            align => Ok(align),
        }
    }

    /// Refuses a version, for a format without versions. `message` starts the message, and states that the format has
    /// none.
    ///
    /// # Errors
    /// Returns `format/unknown-version` if a version was requested.
    pub fn check_unversioned(&self, message: &str) -> Result<()> {
        let Some(version) = &self.version else { return Ok(()) };
        Err(UNKNOWN_VERSION
            .broken(format!("{message}, but version `{version}` was requested"))
            .with_hint("omit the version: the format has no versions"))
    }
}

impl Default for EncodeOptions {
    fn default() -> EncodeOptions {
        EncodeOptions::new()
    }
}

/// An encoder for one file. The module's documentation describes the order of calls.
pub trait Encode: Send {
    /// Returns `true` if every tensor must be declared before the first byte is written.
    fn header_first(&self) -> bool;

    /// Returns `true` if components may be stored in this encoding.
    fn can_encode(&self, encoding: Encoding) -> bool {
        encoding == Encoding::Raw
    }

    /// Returns `true` if components may be compressed with any codec.
    fn can_compress(&self) -> bool {
        Encoding::writable().any(|encoding| encoding != Encoding::Raw && self.can_encode(encoding))
    }

    /// Returns `true` if the file states the alignment of its components in an attribute.
    fn states_align(&self) -> bool {
        false
    }

    /// Returns `true` if compressed components must end with a seek table even if they are a single frame.
    fn needs_seek_table(&self) -> bool {
        false
    }

    /// Returns `true` if digests are over decoded bytes, whatever the algorithm.
    fn digests_decoded(&self) -> bool {
        false
    }

    /// Returns `true` if components may have a digest of this algorithm.
    fn can_digest(&self, _algorithm: crate::model::Algorithm) -> bool {
        false
    }

    /// Returns the algorithm of a digest that every component must have, whatever else was requested.
    fn needs_digest(&self) -> Option<crate::model::Algorithm> {
        None
    }

    /// Returns `true` if components may share bytes. Otherwise each is written.
    fn can_share(&self) -> bool {
        true
    }

    /// Returns `true` if the file's attributes are those passed to [`Encode::begin`], and `false` if the format
    /// determines them.
    fn writes_attributes(&self) -> bool {
        true
    }

    /// Returns the file attributes whose values the encoder replaces, because they describe how the file is written,
    /// such as a requested alignment.
    fn own_attributes(&self) -> &'static [&'static str] {
        &[]
    }

    /// Checks that the format can represent these file attributes.
    ///
    /// # Errors
    /// Returns an error of kind `Unsupported` that names what cannot be represented, and an option that helps.
    fn check_attributes(&self, attributes: &Attributes) -> Result<()>;

    /// Checks that the format can represent this tensor.
    ///
    /// # Errors
    /// Returns an error of kind `Unsupported`, like [`Encode::check_attributes`].
    fn check_tensor(&self, tensor: &TensorSpec) -> Result<()>;

    /// Returns a warning if the format can represent the tensor, but common readers of the format do not accept it.
    fn warning(&self, _tensor: &TensorSpec) -> Option<Warning> {
        None
    }

    /// Returns the preferred order of writing, as indices in `tensors`. By default the caller's order is kept.
    fn order(&self, tensors: &[TensorSpec]) -> Vec<usize> {
        (0..tensors.len()).collect()
    }

    /// Returns `true` if the components of a tensor are best written in the order of the names of their roles.
    fn orders_components(&self) -> bool {
        false
    }

    /// Returns the bytes at the start of the file. A [`Encode::header_first`] format needs all tensors, in the order in
    /// which they will be written; for other formats the list may be empty.
    ///
    /// # Errors
    /// Returns an error of kind `Unsupported` or `Misuse` if the format cannot represent a tensor, or if two tensors
    /// have the same name.
    fn begin(&mut self, attributes: &Attributes, declared: &[TensorSpec]) -> Result<Bytes>;

    /// Returns bytes other than zeros that precede this component. `end` is the current end of the file. Called once,
    /// right before [`Encode::next_offset`].
    ///
    /// # Errors
    /// Returns the errors of [`Encode::next_offset`].
    fn preceding_bytes(
        &mut self,
        _end: u64,
        _tensor: &TensorSpec,
        _component: usize,
    ) -> Result<Bytes> {
        Ok(Bytes::new())
    }

    /// Returns the offset at which the next component starts, at or after `end`, the current end of the file. The bytes
    /// between are zeros.
    ///
    /// # Errors
    /// Returns an error of kind `Misuse` if this is not the next declared component.
    fn next_offset(&mut self, end: u64, tensor: &TensorSpec, component: usize) -> Result<u64>;

    /// Records where and how a component was stored. For a component that [shares](ComponentSpec::shares) its bytes,
    /// this is called without [`Encode::next_offset`].
    ///
    /// # Errors
    /// Returns an error of kind `Misuse` if the component differs from its declaration.
    fn component_written(
        &mut self,
        tensor: &TensorSpec,
        component: usize,
        stored: Stored,
    ) -> Result<()>;

    /// Returns `true` if the file states this component's values in its header, and stores no bytes of it. Such a
    /// component is passed to [`Encode::add_header_values`] in its turn, and shares its bytes with no other.
    fn stores_in_header(&self, _tensor: &TensorSpec, _component: usize) -> bool {
        false
    }

    /// Adds all decoded bytes of a component that is [stored in the header](Encode::stores_in_header).
    ///
    /// # Errors
    /// Returns the errors of [`Encode::component_written`], and an error of kind `Unsupported` if there are more bytes
    /// than a file can state.
    fn add_header_values(
        &mut self,
        _tensor: &TensorSpec,
        _component: usize,
        _bytes: &[u8],
    ) -> Result<()> {
        Ok(())
    }

    /// Returns the bytes at the end of the file. `end` is the current end of the file.
    ///
    /// # Errors
    /// Returns an error of kind `Misuse` if a declared component was not written, or if two tensors have the same name.
    fn finish(&mut self, end: u64) -> Result<Bytes>;
}
