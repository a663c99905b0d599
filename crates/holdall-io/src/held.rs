//! Large components in memory that the system can reclaim: memory maps, and temporary files.

use crate::checked::Checked;
use crate::error::io;
use crate::source::{FileSource, mapped_or_read};
use bytes::Bytes;
use holdall_core::layout::Decoded;
use holdall_core::layout::quantized::Quantized;
use holdall_core::layout::sparse::{Coo, Csr, Tiles};
use holdall_core::read::Access;
use holdall_core::{Encoding, Layout, Result, Role};
use std::io::Write as _;
use tempfile::TempPath;

/// The length in bytes from which a component that is not mapped is written to a temporary file.
const HELD: u64 = 8 << 20;

/// Returns the view of [`Tensor::csr`](crate::Tensor::csr), with checked digests, and with little of it in memory.
///
/// # Errors
/// Returns the errors of [`Tensor::csr`](crate::Tensor::csr); an `Io` error.
pub fn csr(checked: &Checked) -> Result<Csr> {
    let tensor = checked.tensor();
    tensor.view(|info| Csr::from_tensor(info, |role| held(checked, role), tensor.file().limits()))
}

/// Returns the view of [`Tensor::coo`](crate::Tensor::coo), with checked digests, and with little of it in memory.
///
/// # Errors
/// Returns the errors of [`Tensor::coo`](crate::Tensor::coo); an `Io` error.
pub fn coo(checked: &Checked) -> Result<Coo> {
    let tensor = checked.tensor();
    let get = |role: &Role| held(checked, role);
    tensor.view(|info| match tensor.layout() {
        Layout::PackedCoo => {
            let c = tensor.require(&Role::Data)?;
            let data =
                Decoded { dtype: c.dtype, logical_type: c.logical_type, bytes: get(&c.role)? };
            let (shape, len) = (tensor.shape(), data.bytes.len() as u64);
            match len <= HELD {
                true => Coo::from_packed(shape, data),
                false => Coo::from_packed_in(shape, data, |pieces| spooled(pieces.map(Ok))),
            }
        }
        _ => Coo::from_tensor(info, get, tensor.file().limits()),
    })
}

/// Returns the view of [`Tensor::tiles`](crate::Tensor::tiles), with checked digests, and with little of it in memory.
///
/// # Errors
/// Returns the errors of [`Tensor::tiles`](crate::Tensor::tiles); an `Io` error.
pub fn tiles(checked: &Checked) -> Result<Tiles> {
    let tensor = checked.tensor();
    tensor.view(|info| Tiles::from_tensor(info, |role| held(checked, role), tensor.file().limits()))
}

/// Returns the view of [`Tensor::quantized`](crate::Tensor::quantized), with checked digests, and with little of it in
/// memory.
///
/// # Errors
/// Returns the errors of [`Tensor::quantized`](crate::Tensor::quantized); an `Io` error.
pub fn quantized(checked: &Checked) -> Result<Quantized> {
    checked.tensor().view(|info| Quantized::from_tensor(info, |role| held(checked, role)))
}

/// Returns the decoded bytes of a component, mapped, in memory if short, or else in a temporary file.
pub(crate) fn held(checked: &Checked, role: &Role) -> Result<Bytes> {
    let tensor = checked.tensor();
    let c = tensor.require(role)?;
    let sources = tensor.file().sources();
    let is_borrowed = c.encoding == Encoding::Raw
        && c.swap_unit_len() <= 1
        && sources.at(c.stored.source).read_hints().access == Access::Borrowed;
    if is_borrowed || c.decoded_len.is_some_and(|len| len <= HELD) {
        return checked.bytes(role);
    }
    spooled(checked.pieces(role)?)
}

/// Writes pieces to a temporary file and maps it.
fn spooled<P: AsRef<[u8]>>(pieces: impl Iterator<Item = Result<P>>) -> Result<Bytes> {
    let failed = |e| io(e, "keeping a component in a temporary file");
    let mut file = tempfile::NamedTempFile::new().map_err(failed)?;
    let mut len = 0;
    for piece in pieces {
        let piece = piece?;
        len += piece.as_ref().len() as u64;
        file.write_all(piece.as_ref()).map_err(failed)?;
    }
    let path = file.into_temp_path();
    let bytes = mapped_or_read(FileSource::open(&path)?)?.read_range(0..len)?;
    Ok(Bytes::from_owner(Spooled { bytes, _path: path }))
}

/// The bytes of a temporary file, which is removed when they are dropped.
struct Spooled {
    bytes: Bytes,
    _path: TempPath,
}

impl AsRef<[u8]> for Spooled {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
