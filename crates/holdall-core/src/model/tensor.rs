//! The parts of a tensor: its layout and its components.

use super::block::BlockType;
use super::plane::PlaneType;
use super::{ByteOrder, DType, Digest, Encoding, LogicalType};
use crate::read::Extent;
use std::fmt;
use std::sync::Arc;

macro_rules! open_names {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }
        $($(#[$wdoc:meta])* or $wide:ident($inner:ty) by $find:path;)*
        $(not in files { $(#[$odoc:meta])* $own:ident = $own_text:literal })?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
            $($(#[$wdoc])* $wide($inner),)*
            $($(#[$odoc])* $own,)?
            /// A name that this version does not know; it is kept unchanged.
            Other(Arc<str>),
        }

        impl $name {
            /// Returns the name in files and in output.
            pub fn as_str(&self) -> &str {
                match self {
                    $($name::$variant => $text,)*
                    $($name::$wide(inner) => inner.layout,)*
                    $($name::$own => $own_text,)?
                    $name::Other(text) => text,
                }
            }

            /// Returns the variant with this name; an unknown name becomes `Other`.
            pub fn from_name(name: &str) -> $name {
                match name {
                    $($text => $name::$variant,)*
                    other => {
                        $(if let Some(inner) = $find(other) {
                            return $name::$wide(inner);
                        })*
                        $name::Other(other.into())
                    }
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

open_names! {
    /// How components form a tensor. zTensor 1.x calls the field `format`, zTensor 0.1 calls it `layout`.
    Layout {
        /// One component, `data`: elements in row-major order.
        Dense = "dense",
        /// `values`, `indices` (columns) and `indptr` (rows + 1 entries).
        SparseCsr = "sparse_csr",
        /// `values` and `coords` (ndim × nnz, one dimension after the other).
        SparseCoo = "sparse_coo",
        /// Matrices of blocks, possibly in batches, with compressed rows or columns: `values`, `indices` and `indptr`.
        /// Further properties are in the attributes.
        SparseBlocks = "sparse_blocks",
        /// `values`, and `coords` for some of the dimensions: each entry is an array over the remaining dimensions.
        SparseHybrid = "sparse_hybrid",
        /// `packed_weight`, `scales` and `zeros`; the parameters are in the attributes.
        QuantizedGroup = "quantized_group",
        /// zTensor 0.1's CSR: indptr, indices and values in one component, `data`.
        PackedCsr = "sparsecsr",
        /// zTensor 0.1's COO: records of ndim × u64 and a value in one component, `data`.
        PackedCoo = "sparsecoo",
        /// Metatensor's records: `data` has the records one after the other, and `blob_data` the heap that they refer
        /// to. The attribute `metatensor.kind` describes a record.
        Records = "records",
        /// `entries`, each an offset and a length, and `blob_data` with the bytes that they refer to.
        Blob = "blob",
        /// A strided view: one component, `data`, and the attribute `strides`, in elements.
        Strided = "strided",
    }
    /// ggml's blocks of this type: one component, `data`: `gguf.q4_k`.
    or Blocks(&'static BlockType) by BlockType::by_layout;
    /// Byte planes of floats of this type: `p0`, `p1`, …, one for each byte of an element: `planes.bf16`.
    or Planes(&'static PlaneType) by PlaneType::by_layout;
    not in files {
        /// A weight that its file stores as several tensors: each of them is a component.
        QuantizedWeight = "quantized_weight"
    }
}

open_names! {
    /// The purpose of a component in its tensor.
    Role {
        /// The elements of a dense tensor.
        Data = "data",
        /// The non-zero elements of a sparse tensor.
        Values = "values",
        /// The column of each value (CSR); for blocks in compressed columns, the row of each value.
        Indices = "indices",
        /// The start of each row's values (CSR), or of each column's values.
        Indptr = "indptr",
        /// The coordinates of each value (COO).
        Coords = "coords",
        /// Quantized elements packed into words.
        PackedWeight = "packed_weight",
        /// One scale per group.
        Scales = "scales",
        /// One zero point per group.
        Zeros = "zeros",
        /// The location of each run of a blob in `blob_data`: pairs of offset and length.
        Entries = "entries",
        /// The bytes that entries refer to: a heap.
        BlobData = "blob_data",
    }
}

impl Layout {
    /// Returns the roles of the components that a tensor of this layout must have.
    pub fn required_roles(&self) -> &'static [Role] {
        match self {
            Layout::Dense
            | Layout::PackedCsr
            | Layout::PackedCoo
            | Layout::Blocks(_)
            | Layout::Strided => &[Role::Data],
            Layout::SparseCsr | Layout::SparseBlocks => {
                &[Role::Values, Role::Indices, Role::Indptr]
            }
            Layout::SparseCoo | Layout::SparseHybrid => &[Role::Values, Role::Coords],
            // Symmetric quantization may omit `zeros`, and real files do.
            Layout::QuantizedGroup => &[Role::PackedWeight, Role::Scales],
            // The heap is only needed if records have entries, which the layout alone does not determine.
            Layout::Records => &[Role::Data],
            Layout::Blob => &[Role::Entries, Role::BlobData],
            // A tensor that lacks planes is kept, and an error of its view.
            Layout::Planes(_) | Layout::QuantizedWeight | Layout::Other(_) => &[],
        }
    }

    /// Returns `true` if the elements are computed from the stored values, as `f32`: groups, blocks and quantized
    /// weights.
    pub fn is_computed(&self) -> bool {
        matches!(self, Layout::QuantizedGroup | Layout::QuantizedWeight | Layout::Blocks(_))
    }
}

/// One stored run of bytes of a tensor, and how to decode it.
#[derive(Debug, Clone, PartialEq)]
pub struct Component {
    /// The component's purpose in its tensor.
    pub role: Role,
    /// The storage element type.
    pub dtype: DType,
    /// The meaning beyond the storage type; `None` if the elements are plain `dtype`.
    pub logical_type: Option<LogicalType>,
    /// How stored bytes are decoded.
    pub encoding: Encoding,
    /// The byte order within an element, as stored. Reads always return little-endian bytes.
    pub byte_order: ByteOrder,
    /// The location of the stored bytes.
    pub stored: Extent,
    /// The number of bytes after decoding. `None` if neither the file nor the shape determines it (compressed sparse
    /// components of zTensor 0.1 to 1.1), so that only decoding does.
    pub decoded_len: Option<u64>,
    /// The digest of the stored bytes.
    pub digest: Option<Digest>,
}

impl Component {
    /// Creates a component for bytes that belong to no tensor, such as a file of a package.
    pub fn for_bytes(stored: Extent, encoding: Encoding, decoded_len: u64) -> Component {
        Component {
            role: Role::Data,
            dtype: DType::U8,
            logical_type: None,
            encoding,
            byte_order: ByteOrder::Little,
            stored,
            decoded_len: Some(decoded_len),
            digest: None,
        }
    }

    /// Returns the number of stored bytes.
    pub fn stored_len(&self) -> u64 {
        self.stored.len()
    }
}
