//! Decodes the manifest of zTensor 0.1: an array of maps, one per tensor.

use super::fields::{self, Keys, required};
use super::rules::*;
use super::stated;
use holdall_core::error::{Error, Result};
use holdall_core::layout::sparse::{packed_count, packed_len};
use holdall_core::limits::Limits;
use holdall_core::model::builder::{BOUNDS, RANK};
use holdall_core::model::{
    Attributes, ByteOrder, Component, DType, Digest, Encoding, Index, IndexBuilder, Layout, Role,
    Value,
};
use holdall_core::wire::cbor::{DUPLICATE_KEY, Reader, has_duplicates};
use std::ops::Range;

/// The custom field of the first tensor in which the encoder stores the file's attributes, because 0.1 has no field for
/// them.
pub(super) const FILE_ATTRIBUTES: &str = "holdall.file_attributes";

/// Decodes the manifest that begins at the position of `reader`.
pub(super) fn decode(
    mut reader: Reader<'_>,
    mut builder: IndexBuilder,
    limits: &Limits,
) -> Result<Index> {
    let mut entry = Entry::default();
    let mut is_first = true;
    let mut entries = reader.array("the root")?;
    fields::reserve(&mut builder, &entries, &reader);
    while reader.more(&mut entries)? {
        let start = reader.offset();
        entry.clear();
        let done = entry.read(&mut reader, limits).and_then(|()| {
            if std::mem::take(&mut is_first) {
                entry.take_file_attributes(&mut builder);
            }
            entry.build(&mut builder, reader.since(start))
        });
        done.map_err(|e| match entry.name {
            Some(name) => e.in_tensor(name).at(reader.since(start)),
            None => e.at(reader.since(start)),
        })?;
    }
    reader.end()?;
    builder.finish()
}

/// A tensor in the manifest. Reused for each tensor.
#[derive(Default)]
struct Entry<'a> {
    keys: Keys<'a>,
    name: Option<&'a str>,
    offset: Option<u64>,
    size: Option<u64>,
    dtype: Option<DType>,
    has_shape: bool,
    shape: Vec<u64>,
    encoding: Option<Encoding>,
    layout: Option<&'a str>,
    byte_order: ByteOrder,
    checksum: Option<&'a str>,
    custom: Attributes,
    /// The first error that concerns only this tensor.
    fault: Option<Error>,
}

impl<'a> Entry<'a> {
    fn clear(&mut self) {
        let (mut keys, mut shape) =
            (std::mem::take(&mut self.keys), std::mem::take(&mut self.shape));
        keys.clear();
        shape.clear();
        *self = Entry { keys, shape, ..Entry::default() };
    }

    fn read(&mut self, reader: &mut Reader<'a>, limits: &Limits) -> Result<()> {
        let mut fields = reader.map("a tensor")?;
        while reader.more(&mut fields)? {
            let start = reader.offset();
            match reader.key("a tensor")? {
                key @ b"name" => {
                    self.keys.known(0, key)?;
                    self.name = Some(reader.text("`name`")?);
                }
                key @ b"offset" => {
                    self.keys.known(1, key)?;
                    self.offset = Some(reader.u64("`offset`")?);
                }
                key @ b"size" => {
                    self.keys.known(2, key)?;
                    self.size = Some(reader.u64("`size`")?);
                }
                key @ b"dtype" => {
                    self.keys.known(3, key)?;
                    self.dtype = fields::record_fault(&mut self.fault, fields::long_dtype(reader))?;
                }
                key @ b"shape" => {
                    self.keys.known(4, key)?;
                    self.read_shape(reader, limits)?;
                }
                key @ b"encoding" => {
                    self.keys.known(5, key)?;
                    self.encoding =
                        fields::record_fault(&mut self.fault, fields::encoding(reader))?;
                }
                key @ b"layout" => {
                    self.keys.known(6, key)?;
                    if !reader.null() {
                        self.layout = Some(reader.text("`layout`")?);
                    }
                }
                key @ b"data_endianness" => {
                    self.keys.known(7, key)?;
                    if !reader.null() {
                        let read = byte_order(reader);
                        self.byte_order =
                            fields::record_fault(&mut self.fault, read)?.unwrap_or_default();
                    }
                }
                key @ b"checksum" => {
                    self.keys.known(8, key)?;
                    if !reader.null() {
                        self.checksum = Some(reader.text("`checksum`")?);
                    }
                }
                key => {
                    let key = reader.utf8(key, start)?;
                    self.custom.push(key, reader.value()?);
                }
            }
        }
        let mut custom: Vec<&str> = self.custom.iter().map(|(key, _)| key).collect();
        if has_duplicates(&mut custom) {
            return Err(DUPLICATE_KEY.broken("duplicate custom field"));
        }
        Ok(())
    }

    fn read_shape(&mut self, reader: &mut Reader<'a>, limits: &Limits) -> Result<()> {
        self.has_shape = true;
        let mut dims = reader.array("`shape`")?;
        while reader.more(&mut dims)? {
            if self.shape.len() >= limits.rank {
                return Err(RANK.broken(format!("more than {} dimensions", limits.rank)));
            }
            self.shape.push(reader.u64("a dimension")?);
        }
        Ok(())
    }

    /// Moves the file's attributes out of the custom fields, if the encoder stored them there.
    fn take_file_attributes(&mut self, builder: &mut IndexBuilder) {
        let Some(Value::Map(pairs)) = self.custom.get(FILE_ATTRIBUTES) else { return };
        if !pairs.iter().all(|(key, _)| key.as_text().is_some()) {
            return;
        }
        let mut attributes = Attributes::new();
        if let Some(Value::Map(pairs)) = self.custom.remove(FILE_ATTRIBUTES) {
            for (key, value) in pairs {
                if let Value::Text(key) = key {
                    attributes.push(key, value);
                }
            }
        }
        builder.attributes(attributes);
    }

    /// Adds the tensor to `builder`. `at` is the byte range of the entry in the file.
    fn build(&mut self, builder: &mut IndexBuilder, at: Range<u64>) -> Result<()> {
        let name = required(self.name, "name")?;
        let stored = match self.offset.zip(self.size) {
            Some((offset, size)) => Some(
                offset..offset.checked_add(size).ok_or_else(|| {
                    BOUNDS.broken(format!("offset {offset} + size {size} is more than 2^64"))
                })?,
            ),
            None => None,
        };
        let fault = self.fault.take();
        let components = match fault.map_or_else(|| self.components(name, builder), Err) {
            Ok((layout, components)) => {
                builder.tensor(name, &self.shape, layout)?;
                Some(components)
            }
            Err(e) if fields::is_fault(&e) => {
                let layout = self.take_layout(name, builder);
                builder.tensor(name, &self.shape, layout)?;
                builder.fault(e.at(at));
                None
            }
            Err(e) => return Err(e),
        };
        builder.tensor_attributes(std::mem::take(&mut self.custom));
        match (components, stored) {
            (Some(all), _) => all.into_iter().try_for_each(|c| builder.component(c)),
            (None, Some(stored)) => builder.claim(stored.into()),
            (None, None) => Ok(()),
        }
    }

    /// Returns the layout and the components: one, unless the manifest has indices.
    fn components(
        &mut self,
        name: &str,
        builder: &mut IndexBuilder,
    ) -> Result<(Layout, Vec<Component>)> {
        let offset = required(self.offset, "offset")?;
        let size = required(self.size, "size")?;
        let dtype = required(self.dtype, "dtype")?;
        let encoding = required(self.encoding, "encoding")?;
        required(self.has_shape.then_some(()), "shape")?;
        let stored: Range<u64> = offset..offset.saturating_add(size);
        fields::check_alignment(offset, size, name, "data", builder);
        let stated = match self.layout {
            Some("sparse") => self.stated(encoding, size, dtype),
            _ => None,
        };
        if let Some(stated) = stated {
            let digest = self.digest(name, "values", builder)?;
            let byte_order = self.byte_order(encoding, name, "values", builder);
            let values = Component {
                role: Role::Values,
                dtype,
                logical_type: None,
                encoding,
                byte_order,
                stored: stored.into(),
                decoded_len: stated.count.checked_mul(dtype.width()),
                digest,
            };
            return Ok(self.with_stated(name, values, &stated, builder));
        }
        let layout = self.take_layout(name, builder);
        let decoded_len = match encoding {
            Encoding::Raw => Some(size),
            _ => None,
        };
        let decoded_len = self.check_packed(&layout, dtype, decoded_len, name, builder);
        let byte_order = self.byte_order(encoding, name, "data", builder);
        let digest = self.digest(name, "data", builder)?;
        let component = Component {
            role: Role::Data,
            dtype,
            logical_type: None,
            encoding,
            byte_order,
            stored: stored.into(),
            decoded_len,
            digest,
        };
        Ok((layout, vec![component]))
    }

    fn byte_order(
        &self,
        encoding: Encoding,
        name: &str,
        component: &str,
        builder: &mut IndexBuilder,
    ) -> ByteOrder {
        if encoding != Encoding::Raw && self.byte_order == ByteOrder::Big {
            // The only known writer omits it, and its reader swaps nothing.
            builder.warn(warnings::BYTE_ORDER, Some(name), Some(component), || {
                "`data_endianness` on compressed data has no meaning; read as little-endian".into()
            });
            return ByteOrder::Little;
        }
        self.byte_order
    }

    fn digest(
        &self,
        name: &str,
        component: &str,
        builder: &mut IndexBuilder,
    ) -> Result<Option<Digest>> {
        self.checksum.map(|text| fields::digest(text, name, component, builder)).transpose()
    }

    /// Returns the indices in the form of the document, if the stored bytes are the values that belong to them.
    fn stated(&self, encoding: Encoding, size: u64, dtype: DType) -> Option<stated::Indices> {
        let format = self.custom.get("sparse_format").and_then(Value::as_text)?;
        let values = match encoding {
            Encoding::Raw if !size.is_multiple_of(dtype.width()) => return None,
            Encoding::Raw => Some(size.checked_div(dtype.width())?),
            _ => None,
        };
        stated::find(format, &self.custom, &self.shape, values)
    }

    /// Adds the components that the layout has in 1.x.
    fn with_stated(
        &mut self,
        name: &str,
        values: Component,
        stated: &stated::Indices,
        builder: &mut IndexBuilder,
    ) -> (Layout, Vec<Component>) {
        if stated.either_way {
            builder.warn(warnings::SPARSE_FORMAT, Some(name), Some("coords"), || {
                "as many coordinates as dimensions; each list is read as those of one dimension"
                    .into()
            });
        }
        self.custom.remove("sparse_format");
        for field in stated.fields {
            self.custom.remove(field);
        }
        match self.custom.get("nnz").and_then(Value::as_integer) {
            Some(nnz) if nnz == i128::from(stated.count) => drop(self.custom.remove("nnz")),
            Some(nnz) => builder.warn(warnings::PACKED_SPARSE, Some(name), Some("values"), || {
                format!("`nnz` is {nnz}, but there are indices of {} values", stated.count).into()
            }),
            None => {}
        }
        let lists: &[(Role, &[u8])] = match stated.layout {
            Layout::SparseCsr => {
                &[(Role::Indices, &stated.indices), (Role::Indptr, &stated.indptr)]
            }
            _ => &[(Role::Coords, &stated.indices)],
        };
        let indices = lists.iter().map(|(role, bytes)| {
            let stored = builder.stated(bytes);
            Component {
                role: role.clone(),
                dtype: DType::U64,
                logical_type: None,
                encoding: Encoding::Raw,
                byte_order: ByteOrder::Little,
                decoded_len: Some(stored.len()),
                stored,
                digest: None,
            }
        });
        let components = std::iter::once(values).chain(indices).collect();
        (stated.layout.clone(), components)
    }

    /// Returns the layout. Removes the document's `sparse_format` from the custom fields.
    fn take_layout(&mut self, name: &str, builder: &mut IndexBuilder) -> Layout {
        let stated = self.layout.unwrap_or("dense");
        match named_layout(stated, &self.custom) {
            Some(layout) => {
                if layout != Layout::Dense {
                    self.custom.remove("sparse_format");
                }
                layout
            }
            None => {
                if stated == "sparse" {
                    builder.warn(warnings::SPARSE_FORMAT, Some(name), None, || {
                        "a sparse tensor without a known `sparse_format`; only its raw bytes can be read"
                            .into()
                    });
                }
                Layout::Other(stated.into())
            }
        }
    }

    /// Checks the length of a packed sparse component against its shape, and computes the decoded length of a
    /// compressed one from `nnz`. Removes `nnz` from the custom fields if it is in the document's form and consistent.
    fn check_packed(
        &mut self,
        layout: &Layout,
        dtype: DType,
        decoded_len: Option<u64>,
        name: &str,
        builder: &mut IndexBuilder,
    ) -> Option<u64> {
        if !matches!(layout, Layout::PackedCsr | Layout::PackedCoo) {
            return decoded_len;
        }
        let nnz = self.custom.get("nnz").and_then(Value::as_integer);
        let nnz = nnz.and_then(|n| u64::try_from(n).ok()).filter(|_| self.layout == Some("sparse"));
        let declared = nnz.and_then(|nnz| packed_len(layout, &self.shape, dtype, nnz));
        let Some(len) = decoded_len else {
            if declared.is_some() {
                self.custom.remove("nnz");
            }
            return declared;
        };
        let found = packed_count(layout, &self.shape, dtype, len);
        if found.is_none() || (nnz.is_some() && nnz != found) {
            let shape = &self.shape;
            builder.warn(warnings::PACKED_SPARSE, Some(name), Some("data"), || {
                format!(
                    "{len} bytes are not a sparse tensor of shape {shape:?} and dtype {dtype}; only the \
                     raw bytes can be read"
                )
                .into()
            });
        } else if nnz.is_some() {
            self.custom.remove("nnz");
        }
        decoded_len
    }
}

/// Returns the layout with this name, for a tensor with these custom fields; `None` if it has no known meaning.
pub(super) fn named_layout(name: &str, custom: &Attributes) -> Option<Layout> {
    match name {
        "dense" => Some(Layout::Dense),
        "sparsecsr" | "sparse_csr" => Some(Layout::PackedCsr),
        "sparsecoo" | "sparse_coo" => Some(Layout::PackedCoo),
        "sparse" => match custom.get("sparse_format").and_then(Value::as_text)? {
            "csr" => Some(Layout::PackedCsr),
            "coo" => Some(Layout::PackedCoo),
            _ => None,
        },
        _ => None,
    }
}

/// Reads `data_endianness` of 0.1.
fn byte_order(reader: &mut Reader<'_>) -> Result<ByteOrder> {
    match reader.name("`data_endianness`")? {
        b"little" => Ok(ByteOrder::Little),
        b"big" => Ok(ByteOrder::Big),
        name => Err(fields::unknown(&UNKNOWN_BYTE_ORDER, "byte order", name)),
    }
}
