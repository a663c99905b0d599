//! The write side, append-only and without I/O: an encoder says where bytes go, the caller puts
//! them there.
//!
//! A writer calls [`Encode::begin`] and appends what it returns; then, for each component, appends what
//! [`Encode::before`] returns, [`Encode::place`], zeros up to the offset it answers, the stored bytes, and [`Encode::placed`];
//! last [`Encode::finish`] and appends what it returns. Bulk bytes never pass through the encoder, but for components that it
//! [states](Encode::states) in its own words: those are given to [`Encode::state`].

use crate::error::{Result, Rule};
use crate::model::{
    Attributes, DType, Digest, Encoding, Layout, LogicalType, Role, TensorInfo, Warning,
};
use bytes::Bytes;
use holdall_collections::HashSet;
use std::ops::{Range, RangeInclusive};

crate::error::rules! {
    /// Rules of what callers ask of encoders.
    pub static RULES;

    /// A version that cannot be written.
    pub UNKNOWN_VERSION: Misuse "format/unknown-version"
        "The format can be written in the version that is asked for.";
}

/// A tensor about to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorSpec {
    /// Its name.
    pub name: String,
    /// Its dimensions, in elements.
    pub shape: Vec<u64>,
    /// How its components form it.
    pub layout: Layout,
    /// Its attributes.
    pub attributes: Attributes,
    /// Its components, in the order in which they will be written.
    pub components: Vec<ComponentSpec>,
}

impl TensorSpec {
    /// Takes away logical types that say no more than the dtype under them.
    pub fn with_plain_types(mut self) -> TensorSpec {
        self.components.iter_mut().for_each(ComponentSpec::make_plain);
        self
    }

    /// Checks that the components which the layout needs are there, each once.
    ///
    /// # Errors
    /// `rule`.
    pub fn check_roles(&self, rule: &'static Rule) -> Result<()> {
        let TensorSpec { layout, components, .. } = self;
        for role in layout.required_roles() {
            if !components.iter().any(|c| c.role == *role) {
                return Err(rule.broken(format!("layout `{layout}` needs a component `{role}`")));
            }
        }
        let mut roles = HashSet::default();
        match components.iter().find(|c| !roles.insert(&c.role)) {
            Some(c) => Err(rule.broken("two components of this role").in_component(&c.role)),
            None => Ok(()),
        }
    }

    /// A dense tensor. `decoded_len` of its one component follows from shape and dtype.
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

    /// What it takes to write `info` as it is: the same shape, layout, attributes and components.
    /// `None` if a component's decoded length is not known without decoding it.
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

/// A component about to be written. Its bytes are little-endian and, decoded, exactly this long.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentSpec {
    /// What it is to its tensor.
    pub role: Role,
    /// Storage element type.
    pub dtype: DType,
    /// Meaning beyond storage.
    pub logical_type: Option<LogicalType>,
    /// Bytes before encoding.
    pub decoded_len: u64,
    /// An earlier component whose stored bytes are also this one's (tied weights): nothing is
    /// written for it.
    pub shares: Option<ComponentRef>,
}

impl ComponentSpec {
    /// A component with plain elements and bytes of its own.
    pub fn new(role: Role, dtype: DType, decoded_len: u64) -> ComponentSpec {
        ComponentSpec { role, dtype, logical_type: None, decoded_len, shares: None }
    }

    fn make_plain(&mut self) {
        self.logical_type.take_if(|logical| logical.is_plain(self.dtype));
    }
}

/// Names a component of a file being written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ComponentRef {
    /// The tensor's name.
    pub tensor: String,
    /// The component's role.
    pub role: Role,
}

/// How a component came to lie in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Absolute bytes of the file, half-open.
    pub range: Range<u64>,
    /// How the bytes are encoded.
    pub encoding: Encoding,
    /// Digest of the stored bytes.
    pub digest: Option<Digest>,
}

/// What a caller chooses about a file to be written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EncodeOptions {
    /// Version of the format, as the format spells it; `None` for the newest.
    pub version: Option<String>,
    /// Version as a file states it that is written again, `1.1.0`: it is written in that version and states
    /// the same. Comes before `version`.
    pub stated: Option<String>,
    /// Every component starts at a multiple of this many bytes: a power of two, at least the
    /// format's own alignment.
    pub align: Option<u64>,
    /// Who checks the plain values of a header against the standard keywords of their schema.
    pub values: ValueCheck,
}

/// Who checks the plain values of a header against the standard keywords of their schema.
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
    /// The newest version at the format's own alignment.
    pub const fn new() -> EncodeOptions {
        EncodeOptions { version: None, stated: None, align: None, values: ValueCheck::Encoder }
    }

    /// Has the caller check plain values.
    pub fn with_values(mut self, values: ValueCheck) -> EncodeOptions {
        self.values = values;
        self
    }

    /// Writes this version.
    pub fn with_version(mut self, version: impl Into<String>) -> EncodeOptions {
        self.version = Some(version.into());
        self
    }

    /// Writes the version that a file states, and states it the same way.
    pub fn with_stated(mut self, version: impl Into<String>) -> EncodeOptions {
        self.stated = Some(version.into());
        self
    }

    /// Starts every component at a multiple of `align` bytes.
    pub fn with_align(mut self, align: u64) -> EncodeOptions {
        self.align = Some(align);
        self
    }

    /// The alignment that was asked for: a power of two within these bounds, or an error of that rule.
    ///
    /// # Errors
    /// `rule`.
    pub fn align_within(
        &self,
        bounds: RangeInclusive<u64>,
        rule: &'static Rule,
    ) -> Result<Option<u64>> {
        match self.align {
            Some(align) if !align.is_power_of_two() || !bounds.contains(&align) => {
                let (least, most) = bounds.into_inner();
                Err(rule.broken(format!(
                    "an alignment of {align} bytes is not a power of two from {least} to {most}"
                )))
            }
            align => Ok(align),
        }
    }

    /// Refuses a version, for a format that has none; `what` says so of it.
    ///
    /// # Errors
    /// `format/unknown-version`.
    pub fn check_unversioned(&self, what: &str) -> Result<()> {
        let Some(version) = &self.version else { return Ok(()) };
        Err(UNKNOWN_VERSION
            .broken(format!("{what}, `{version}` was asked for"))
            .with_hint("the format has no versions: name none"))
    }
}

impl Default for EncodeOptions {
    fn default() -> EncodeOptions {
        EncodeOptions::new()
    }
}

/// An encoder for one file. See the module's documentation for the order of calls.
pub trait Encode: Send {
    /// Whether every tensor must be declared before the first byte is written.
    fn header_first(&self) -> bool;

    /// Returns `true` if components may be stored in this encoding.
    fn can_encode(&self, encoding: Encoding) -> bool {
        encoding == Encoding::Raw
    }

    /// Returns `true` if components may be stored compressed, in any way.
    fn can_compress(&self) -> bool {
        Encoding::writable().any(|encoding| encoding != Encoding::Raw && self.can_encode(encoding))
    }

    /// Whether the file says how its components are aligned, among its attributes.
    fn states_align(&self) -> bool {
        false
    }

    /// Whether compressed components end in a seek table even where they are one frame.
    fn needs_seek_table(&self) -> bool {
        false
    }

    /// Whether digests are over decoded bytes, whatever the algorithm.
    fn digests_decoded(&self) -> bool {
        false
    }

    /// Whether components may carry a digest of that algorithm.
    fn can_digest(&self, _algorithm: crate::model::Algorithm) -> bool {
        false
    }

    /// The algorithm of a digest that every component needs, whatever else was asked for.
    fn needs_digest(&self) -> Option<crate::model::Algorithm> {
        None
    }

    /// Whether components may share the bytes of others. Where not, each is written.
    fn can_share(&self) -> bool {
        true
    }

    /// Whether the file's attributes are those that [`Encode::begin`] is given. Where not, the file has its own.
    fn writes_attributes(&self) -> bool {
        true
    }

    /// The file attributes of which the encoder writes other values than it is given, because they say how it writes: an alignment
    /// that was asked for.
    fn own_attributes(&self) -> &'static [&'static str] {
        &[]
    }

    /// Checks that the format can hold these attributes and this tensor.
    ///
    /// # Errors
    /// Unsupported, naming what cannot be held and the option that helps.
    fn check_attributes(&self, attributes: &Attributes) -> Result<()>;

    /// The same for one tensor.
    ///
    /// # Errors
    /// As [`Encode::check_attributes`].
    fn check_tensor(&self, tensor: &TensorSpec) -> Result<()>;

    /// Returns what common readers of the format do not take of a tensor that can be held all the same, if there is something.
    fn warning(&self, _tensor: &TensorSpec) -> Option<Warning> {
        None
    }

    /// The order in which these tensors are best written, as places in `tensors`. The default keeps
    /// the caller's.
    fn order(&self, tensors: &[TensorSpec]) -> Vec<usize> {
        (0..tensors.len()).collect()
    }

    /// Whether the components of a tensor are best written in the order of the names of their roles.
    fn orders_components(&self) -> bool {
        false
    }

    /// The bytes at the start of the file. A [`Encode::header_first`] format needs all tensors, in
    /// the order in which they will be written; another may be given an empty list.
    ///
    /// # Errors
    /// Unsupported or Misuse: what the format cannot hold, two tensors of one name.
    fn begin(&mut self, attributes: &Attributes, declared: &[TensorSpec]) -> Result<Bytes>;

    /// Bytes that come before that component and are not zeros; `end` is the file's end so far. Asked for once, right before
    /// [`Encode::place`].
    ///
    /// # Errors
    /// As [`Encode::place`].
    fn before(&mut self, _end: u64, _tensor: &TensorSpec, _component: usize) -> Result<Bytes> {
        Ok(Bytes::new())
    }

    /// The offset at which the next component starts, at or after `end`, the file's end so far. The
    /// bytes between are zero.
    ///
    /// # Errors
    /// Misuse: not the component declared next.
    fn next_offset(&mut self, end: u64, tensor: &TensorSpec, component: usize) -> Result<u64>;

    /// Takes note of where and how that component was stored. For one that
    /// [shares](ComponentSpec::shares) its bytes this is called without [`Encode::place`].
    ///
    /// # Errors
    /// Misuse: it is not what was declared.
    fn placed(&mut self, tensor: &TensorSpec, component: usize, stored: Stored) -> Result<()>;

    /// Whether the file says what is in that component among its own words, and stores no bytes of it. Such a component is
    /// given to [`Encode::state`] when its turn comes, and shares its bytes with none.
    fn states(&self, _tensor: &TensorSpec, _component: usize) -> bool {
        false
    }

    /// Takes all bytes of a component that it [states](Encode::states), decoded.
    ///
    /// # Errors
    /// As [`Encode::placed`]; Unsupported: there are more than a file can state.
    fn state(&mut self, _tensor: &TensorSpec, _component: usize, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }

    /// The bytes at the end of the file, whose end so far is `end`.
    ///
    /// # Errors
    /// Misuse: something declared was not written, or two tensors have one name.
    fn finish(&mut self, end: u64) -> Result<Bytes>;
}
