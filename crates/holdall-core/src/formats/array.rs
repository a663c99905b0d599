//! An array of NumPy's as a tensor of an index.

use crate::error::Result;
use crate::layout::strided::column_major;
use crate::model::builder::SIZE;
use crate::model::{
    Attributes, Component, Digest, Encoding, IndexBuilder, Layout, Role, Value, element_count,
    stored_size,
};
use crate::read::Extent;
use crate::wire::npy::Header;

/// The attribute that names a type of NumPy's that has no like here.
pub(super) const DESCR: &str = "numpy.descr";

/// Where the elements of an array are.
#[derive(Debug)]
pub struct Elements {
    /// Their stored bytes.
    pub stored: Extent,
    /// How those become elements.
    pub encoding: Encoding,
    /// Bytes after decoding.
    pub len: u64,
    /// A digest of them.
    pub digest: Option<Digest>,
}

/// Adds a tensor that is the array which `header` describes. One that varies fastest in its first dimension has the layout
/// [`Layout::Strided`]. That there are other than the bytes it takes is the tensor's fault.
///
/// # Errors
/// As [`IndexBuilder::tensor`] and [`IndexBuilder::component`].
pub fn add_array(
    builder: &mut IndexBuilder,
    name: &str,
    header: &Header,
    elements: Elements,
    mut attributes: Attributes,
) -> Result<()> {
    let outer = header.shape.len().saturating_sub(header.inner.iter().len());
    let strides = column_major(header.shape.get(..outer).unwrap_or_default(), header.inner)
        .filter(|_| header.fortran_order);
    let layout = if strides.is_some() { Layout::Strided } else { Layout::Dense };
    builder.tensor(name, &header.shape, layout)?;
    if let Some(descr) = &header.descr {
        attributes.push(DESCR, Value::Text(descr.clone()));
    }
    let is_strided = strides.is_some();
    for (key, value) in strides.iter().flat_map(Attributes::iter) {
        attributes.push(key, value.clone());
    }
    builder.tensor_attributes(attributes);
    let count = element_count(&header.shape).unwrap_or(u64::MAX);
    let expected = stored_size(count, header.dtype, header.logical_type.as_ref()).ok().flatten();
    let (stored, len) = (elements.stored, elements.len);
    builder.component(Component {
        role: Role::Data,
        dtype: header.dtype,
        logical_type: header.logical_type.clone(),
        encoding: elements.encoding,
        byte_order: header.byte_order,
        stored,
        decoded_len: Some(len),
        digest: elements.digest,
    })?;
    // Of dense ones the builder finds that itself.
    if is_strided && expected != Some(len) {
        let (shape, expected) = (&header.shape, expected.unwrap_or(u64::MAX));
        let message = format!("shape {shape:?} takes {expected} bytes, there are {len}");
        builder.fault(SIZE.broken(message).in_component(Role::Data).at(stored.range()));
    }
    Ok(())
}
