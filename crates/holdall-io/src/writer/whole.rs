//! Tensors that are collected whole, to be written in byte planes.

use super::Writer;
use crate::planes::smallest::{planes_of_samples, samples_of};
use crate::planes::split::{
    PlaneEncodings, compression, entropies, frequencies_of, is_smaller, spec,
};
use crate::sink::Sink;
use holdall_core::layout::without_parameters;
use holdall_core::model::plane::PlaneType;
use holdall_core::{ComponentRef, Layout, Result, TensorSpec};

/// Bytes of a plane that are made at a time.
const PIECE: usize = 4 << 20;

/// A dense tensor of which not all bytes have arrived.
pub(super) struct WholeTensor {
    pub(super) spec: TensorSpec,
    plane_type: &'static PlaneType,
    pub(super) bytes: Vec<u8>,
}

impl WholeTensor {
    /// Returns `true` if all bytes have arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.left() == 0
    }

    /// Returns the number of bytes that are missing.
    pub(super) fn left(&self) -> u64 {
        let len = self.spec.components.first().map_or(0, |c| c.decoded_len);
        len.saturating_sub(self.bytes.len() as u64)
    }
}

/// Returns the type of a dense tensor that can be written in planes.
fn plane_type(spec: &TensorSpec) -> Option<&'static PlaneType> {
    match &spec.components[..] {
        [c] if spec.layout == Layout::Dense && c.logical_type.is_none() && c.decoded_len > 0 => {
            PlaneType::by_dtype(c.dtype)
        }
        _ => None,
    }
}

impl<S: Sink> Writer<S> {
    /// Begins to collect a tensor that may be written in planes. Returns the tensor if it is written as it is.
    pub(super) fn collect(&mut self, tensor: TensorSpec) -> Result<Option<TensorSpec>> {
        let Some(plane_type) = plane_type(&tensor).filter(|_| self.options.planes) else {
            return Ok(Some(tensor));
        };
        let shared = tensor.components.first().and_then(|c| c.shares.as_ref());
        if let Some(shared) = shared {
            if !self.in_planes.contains(&shared.tensor) {
                return Ok(Some(tensor));
            }
            let attributes = without_parameters(&tensor.layout, &tensor.attributes);
            let mut spec = spec(plane_type, &tensor.name, &tensor.shape, attributes);
            for c in &mut spec.components {
                let (tensor, role) = (shared.tensor.clone(), c.role.clone());
                c.shares = Some(ComponentRef { tensor, role });
            }
            return Ok(Some(spec));
        }
        self.encoder.check_tensor(&tensor)?;
        self.whole = Some(WholeTensor { spec: tensor, plane_type, bytes: Vec::new() });
        Ok(None)
    }

    /// Writes a tensor that was collected, in planes if that is smaller.
    pub(super) fn write_whole(&mut self, whole: WholeTensor) -> Result<()> {
        let WholeTensor { spec: dense, plane_type, bytes } = whole;
        let Some(encodings) = self.plane_encodings(plane_type, &bytes)? else {
            self.begin_tensor(dense)?;
            if self.options.smallest {
                self.choose_encoding(&samples_of(&bytes, plane_type.count as u64))?;
            }
            return self.write_all(&bytes);
        };
        let attributes = without_parameters(&dense.layout, &dense.attributes);
        self.in_planes.insert(dense.name.clone());
        self.begin_tensor(spec(plane_type, &dense.name, &dense.shape, attributes))?;
        for (at, compression) in encodings.into_iter().enumerate() {
            if let Some(compression) = compression {
                self.compressed(compression);
            } else {
                self.uncompressed()?;
            }
            let mut plane = Vec::new();
            for piece in bytes.chunks(PIECE * plane_type.count) {
                plane.clear();
                plane_type.split(at, piece, &mut plane);
                self.write_all(&plane)?;
            }
        }
        Ok(())
    }

    /// Returns how each plane of a tensor is compressed, or `None` if the tensor is smaller dense.
    fn plane_encodings(
        &self,
        plane_type: &'static PlaneType,
        bytes: &[u8],
    ) -> Result<Option<PlaneEncodings>> {
        let count = (bytes.len() / plane_type.count) as u64;
        if self.options.smallest {
            let samples = samples_of(bytes, plane_type.count as u64);
            return planes_of_samples(plane_type, count, &samples, false);
        }
        let entropies = entropies(&frequencies_of(plane_type, bytes));
        let is_smaller = is_smaller(plane_type, count, &entropies);
        Ok(is_smaller.then(|| entropies.iter().map(compression).collect()))
    }
}
