//! Writes zTensor 2: parts in the order in which they are given, each on separate pages, the manifest last.

use super::manifest::Manifest;
use super::{ALIGN, DECLARED, FOOTER, FORMAT, MAGIC, MANIFEST_LEN, MAX_MANIFEST, PAGE, fit, xxh3};
use crate::declared::DeclaredComponents;
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use holdall_collections::sort_by;
use holdall_core::encode::{Encode, EncodeOptions, Stored, TensorSpec, UNKNOWN_VERSION};
use holdall_core::error::{Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::{Algorithm, Attributes, Encoding};

/// The maximum alignment, which is the length of a huge page. A larger one would fill files with padding.
const MAX_ALIGN: u64 = 2 << 20;

/// Creates an encoder of one file.
pub(super) fn encoder(options: &EncodeOptions) -> Result<Box<dyn Encode>> {
    let name = options.stated.as_deref().or(options.version.as_deref());
    if let Some(name) = name.filter(|name| !FORMAT.versions.contains(name)) {
        return Err(UNKNOWN_VERSION
            .broken(format!("cannot write version `{}` of zTensor 2", name.escaped()))
            .with_hint(format!("versions that can be written: {}", FORMAT.versions.join(", "))));
    }
    let align = options.align_within(PAGE..=MAX_ALIGN, &ALIGN)?.unwrap_or(PAGE);
    let turns = DeclaredComponents::new(&DECLARED, PAGE);
    Ok(Box::new(Encoder { align, manifest: Manifest::default(), turns }))
}

struct Encoder {
    align: u64,
    manifest: Manifest,
    turns: DeclaredComponents<Stored>,
}

impl Encode for Encoder {
    fn header_first(&self) -> bool {
        false
    }

    fn can_encode(&self, encoding: Encoding) -> bool {
        matches!(encoding, Encoding::Raw | Encoding::ZSTD)
    }

    fn needs_seek_table(&self) -> bool {
        true
    }

    fn can_digest(&self, algorithm: Algorithm) -> bool {
        matches!(algorithm, Algorithm::Xxh3 | Algorithm::Sha256)
    }

    fn digests_decoded(&self) -> bool {
        true
    }

    fn check_attributes(&self, attributes: &Attributes) -> Result<()> {
        fit::check_attributes(attributes)
    }

    fn check_tensor(&self, tensor: &TensorSpec) -> Result<()> {
        fit::check_tensor(tensor)
    }

    /// The order of the canonical form: bytewise by name.
    fn order(&self, tensors: &[TensorSpec]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..tensors.len()).collect();
        let name = |at: &usize| tensors.get(*at).map(|tensor| tensor.name.as_str());
        sort_by(&mut order, |a, b| name(a).cmp(&name(b)));
        order
    }

    /// Components are also ordered by name.
    fn orders_components(&self) -> bool {
        true
    }

    fn begin(&mut self, attributes: &Attributes, declared: &[TensorSpec]) -> Result<Bytes> {
        fit::check_attributes(attributes)?;
        declared.iter().try_for_each(fit::check_tensor)?;
        // Each tensor has at least one component.
        self.turns.begin(declared)?;
        self.manifest = Manifest::new(attributes.clone());
        Ok(Bytes::from_static(MAGIC))
    }

    fn next_offset(&mut self, end: u64, tensor: &TensorSpec, component: usize) -> Result<u64> {
        self.check_turn(tensor, component)?;
        self.aligned(end).map_err(|e| e.in_tensor(&tensor.name))
    }

    fn component_written(
        &mut self,
        tensor: &TensorSpec,
        component: usize,
        stored: Stored,
    ) -> Result<()> {
        self.check_turn(tensor, component)?;
        match self.turns.component_written(tensor, component, stored)? {
            Some(stored) => self.manifest.add(tensor, &stored),
            None => Ok(()),
        }
    }

    fn finish(&mut self, end: u64) -> Result<Bytes> {
        self.turns.finish()?;
        let manifest = std::mem::take(&mut self.manifest).finish()?;
        let start = self.aligned(end)?;
        // Less than the maximum alignment.
        let padding = usize::try_from(start.saturating_sub(end)).debug_unwrap();
        let mut out = vec![0; padding];
        out.extend(ending(&manifest, start)?);
        Ok(out.into())
    }
}

/// Returns the manifest, which starts at offset `start`, and the footer.
///
/// # Errors
/// Returns [`MANIFEST_LEN`] if the manifest is too long for readers.
pub(super) fn ending(manifest: &[u8], start: u64) -> Result<Vec<u8>> {
    let len = manifest.len() as u64;
    let most = Limits::default().manifest_len.min(MAX_MANIFEST);
    if len > most {
        return Err(MANIFEST_LEN
            .broken(format!("the manifest has {len} bytes, but readers accept at most {most}")));
    }
    let mut out = manifest.to_vec();
    for number in [start, len, xxh3(manifest)] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&2u32.to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(MAGIC);
    Ok(out)
}

impl Encoder {
    /// Returns the aligned offset of bytes that come after `end`. The manifest and footer must fit after it.
    fn aligned(&self, end: u64) -> Result<u64> {
        let room = |start: &u64| start.checked_add(MAX_MANIFEST + FOOTER).is_some();
        end.max(PAGE).checked_next_multiple_of(self.align).filter(room).ok_or_else(|| {
            DECLARED.broken(format!("nothing can be added to a file of {end} bytes"))
        })
    }

    /// Checks that this component can be written next.
    fn check_turn(&self, tensor: &TensorSpec, component: usize) -> Result<()> {
        match self.turns.check(tensor, component)? {
            true => fit::check_tensor(tensor),
            false => Ok(()),
        }
    }
}
