//! Writes zTensor 0.1, 1.0 and 1.2: components in the order in which they are given, the manifest last.

use super::fields::ALIGNMENT;
use super::fit::{self, Version};
use super::footer::{MAGIC_0, MAGIC_1, WORD};
use super::manifest::{Manifest, ManifestComponent};
use super::rules::*;
use super::v1::is_index_role;
use super::{FORMAT, rules};
use crate::declared::DeclaredComponents;
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use holdall_core::encode::{Encode, EncodeOptions, Stored, TensorSpec, UNKNOWN_VERSION};
use holdall_core::error::{Escape as _, Result};
use holdall_core::limits::Limits;
use holdall_core::model::{Algorithm, Attributes, Encoding};

/// The maximum alignment, which is the length of a huge page. A larger one would fill files with padding.
const MAX_ALIGN: u64 = 2 << 20;
/// The number of bytes of data from which the manifest starts on a page boundary.
const PAGED_FROM: u64 = 1 << 20;
/// The length of a page in bytes. A page boundary between data and manifest lets a later edit replace the manifest in
/// place without touching a page that contains data.
const PAGE: u64 = 4096;

/// Creates an encoder of one file.
///
/// # Errors
/// Returns [`UNKNOWN_VERSION`] or [`ALIGN`] if the options ask for another version or alignment.
pub(super) fn encoder(options: &EncodeOptions) -> Result<Box<dyn Encode>> {
    let newest = Version::V1_2.as_str();
    let name = options.version.as_deref().unwrap_or(newest);
    let version = match &options.stated {
        Some(text) => Version::stated(text),
        None => Version::from_name(name),
    };
    let name = options.stated.as_deref().unwrap_or(name);
    let Some(version) = version else {
        // zTensor 2 has nothing in common with the others except the name.
        let other = match name.split('.').next() {
            Some("2") => "; for zTensor 2, choose the format `ztensor2`",
            _ => "",
        };
        let versions = FORMAT.versions.join(", ");
        return Err(UNKNOWN_VERSION
            .broken(format!("zTensor version `{}` cannot be written", name.escaped()))
            .with_hint(format!("versions that can be written: {versions}{other}")));
    };
    let align = options.align_within(ALIGNMENT..=MAX_ALIGN, &ALIGN)?.unwrap_or(ALIGNMENT);
    Ok(Box::new(Encoder {
        version,
        align,
        manifest: Manifest::new(version, options.stated.clone()),
        turns: DeclaredComponents::new(&DECLARED, WORD),
        stated: 0,
    }))
}

struct Encoder {
    version: Version,
    align: u64,
    manifest: Manifest,
    turns: DeclaredComponents<ManifestComponent>,
    /// The number of indices in the manifest so far.
    stated: u64,
}

impl Encode for Encoder {
    fn header_first(&self) -> bool {
        false
    }

    fn can_encode(&self, encoding: Encoding) -> bool {
        encoding.is_writable()
    }

    fn can_digest(&self, algorithm: Algorithm) -> bool {
        matches!(algorithm, Algorithm::Crc32c | Algorithm::Sha256)
    }

    fn check_attributes(&self, attributes: &Attributes) -> Result<()> {
        fit::check_attributes(self.version, attributes)
    }

    fn check_tensor(&self, tensor: &TensorSpec) -> Result<()> {
        fit::check_tensor(self.version, tensor)
    }

    fn begin(&mut self, attributes: &Attributes, declared: &[TensorSpec]) -> Result<Bytes> {
        fit::check_attributes(self.version, attributes)?;
        self.manifest = self.manifest.emptied();
        self.manifest.attributes(attributes.clone());
        self.stated = 0;
        if self.version == Version::V0_1 {
            fit::check_stated(declared.iter().map(fit::stated).fold(0u64, u64::saturating_add))?;
        }
        declared.iter().try_for_each(|tensor| fit::check_tensor(self.version, tensor))?;
        for tensor in self.turns.begin(declared)? {
            self.manifest.add(tensor, &[])?;
        }
        Ok(match self.version {
            Version::V0_1 => Bytes::from_static(MAGIC_0),
            Version::V1_0 | Version::V1_1 | Version::V1_2 => Bytes::from_static(MAGIC_1),
        })
    }

    fn next_offset(&mut self, end: u64, tensor: &TensorSpec, component: usize) -> Result<u64> {
        self.check_turn(tensor, component)?;
        end.max(WORD).checked_next_multiple_of(self.align).ok_or_else(|| {
            DECLARED
                .broken(format!("nothing can be added to a file of {end} bytes"))
                .in_tensor(&tensor.name)
        })
    }

    fn component_written(
        &mut self,
        tensor: &TensorSpec,
        component: usize,
        stored: Stored,
    ) -> Result<()> {
        self.check_turn(tensor, component)?;
        match self.turns.component_written(tensor, component, stored)? {
            Some(parts) => self.manifest.add(tensor, &parts),
            None => Ok(()),
        }
    }

    fn stores_in_header(&self, tensor: &TensorSpec, component: usize) -> bool {
        self.version == Version::V0_1
            && tensor
                .components
                .get(component)
                .is_some_and(|c| is_index_role(&tensor.layout, c.role.as_str()))
    }

    fn add_header_values(
        &mut self,
        tensor: &TensorSpec,
        component: usize,
        bytes: &[u8],
    ) -> Result<()> {
        self.check_turn(tensor, component)?;
        let expected = tensor.components.get(component).map_or(0, |c| c.decoded_len);
        if u64::try_from(bytes.len()) != Ok(expected) {
            let message = format!("{} bytes were given, but {expected} are declared", bytes.len());
            return Err(DECLARED.broken(message).in_tensor(&tensor.name));
        }
        let all = bytes.chunks_exact(8);
        self.stated = u64::try_from(all.len()).map_or(u64::MAX, |n| self.stated.saturating_add(n));
        fit::check_stated(self.stated).map_err(|e| e.in_tensor(&tensor.name))?;
        let numbers = all.filter_map(|n| Some(u64::from_le_bytes(n.try_into().ok()?)));
        match self.turns.add(tensor, ManifestComponent::Stated(numbers.collect())) {
            Some(parts) => self.manifest.add(tensor, &parts),
            None => Ok(()),
        }
    }

    fn finish(&mut self, end: u64) -> Result<Bytes> {
        self.turns.finish()?;
        let empty = self.manifest.emptied();
        let manifest = std::mem::replace(&mut self.manifest, empty).finish()?;
        let len = manifest.len() as u64;
        let most = Limits::default().manifest_len;
        if len > most {
            return Err(rules::MANIFEST_LEN.broken(format!(
                "the manifest has {len} bytes, but readers accept at most {most}"
            )));
        }
        let start = match end > PAGED_FROM {
            true => end.checked_next_multiple_of(PAGE).unwrap_or(end),
            false => end,
        };
        // Less than a page.
        let padding = usize::try_from(start.saturating_sub(end)).debug_unwrap();
        let mut out = vec![0; padding];
        out.extend_from_slice(&manifest);
        out.extend_from_slice(&len.to_le_bytes());
        if matches!(self.version, Version::V1_1 | Version::V1_2) {
            out.extend_from_slice(MAGIC_1);
        }
        Ok(out.into())
    }
}

impl Encoder {
    /// Checks that this component can be written next.
    fn check_turn(&self, tensor: &TensorSpec, component: usize) -> Result<()> {
        match self.turns.check(tensor, component)? {
            true => fit::check_tensor(self.version, tensor),
            false => Ok(()),
        }
    }
}
