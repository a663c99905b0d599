//! A tensor's parts: its layout and its components.

use super::block::BlockType;
use super::{ByteOrder, DType, Digest, Encoding, LogicalType};
use crate::read::Extent;
use std::fmt;
use std::sync::Arc;

macro_rules! open_names {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }
        $($(#[$wdoc:meta])* or $wide:ident($of:ty) by $find:path)?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
            $($(#[$wdoc])* $wide($of),)?
            /// A name this version gives no meaning to; kept as it is.
            Other(Arc<str>),
        }

        impl $name {
            /// The name in files and in output.
            pub fn as_str(&self) -> &str {
                match self {
                    $($name::$variant => $text,)*
                    $($name::$wide(of) => of.layout,)?
                    $name::Other(text) => text,
                }
            }

            /// The variant of that name; an unknown name is kept.
            pub fn from_name(name: &str) -> $name {
                match name {
                    $($text => $name::$variant,)*
                    other => {
                        $(if let Some(of) = $find(other) {
                            return $name::$wide(of);
                        })?
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
    /// How components form a tensor. zTensor 1.x spells the field `format`, 0.1 spells it `layout`.
    Layout {
        /// One component, `data`: elements in row-major order.
        Dense = "dense",
        /// `values`, `indices` (columns) and `indptr` (rows + 1 entries).
        SparseCsr = "sparse_csr",
        /// `values` and `coords` (ndim × nnz, one dimension after the other).
        SparseCoo = "sparse_coo",
        /// Blocks of matrices, perhaps in batches, by compressed rows or columns: `values`, `indices` and `indptr`; what else there is to
        /// know in the attributes.
        SparseBlocks = "sparse_blocks",
        /// `values` and `coords` of some dimensions: entries are arrays of the others.
        SparseHybrid = "sparse_hybrid",
        /// `packed_weight`, `scales` and `zeros`; parameters in the attributes.
        QuantizedGroup = "quantized_group",
        /// zTensor 0.1's CSR: indptr, indices and values in one component, `data`.
        PackedCsr = "sparsecsr",
        /// zTensor 0.1's COO: records of ndim × u64 and a value in one component, `data`.
        PackedCoo = "sparsecoo",
        /// Metatensor's records one after the other, `data`, and the heap that they point into,
        /// `blob_data`. The attribute `metatensor.kind` says what a record is.
        Records = "records",
        /// `entries`, each an offset and a length, and the bytes that they point at, `blob_data`.
        Blob = "blob",
        /// A view of bytes that are not row by row: one component, `data`, and the attribute `strides`, in elements.
        Strided = "strided",
    }
    /// ggml's blocks of that type, one component, `data`: `gguf.q4_k`.
    or Blocks(&'static BlockType) by BlockType::by_layout
}

open_names! {
    /// What a component is to its tensor.
    Role {
        /// The elements of a dense tensor.
        Data = "data",
        /// The non-zero elements of a sparse tensor.
        Values = "values",
        /// Column of each value (CSR); of blocks by columns the row of each.
        Indices = "indices",
        /// Where each row's values start (CSR), or each column's.
        Indptr = "indptr",
        /// Coordinates of each value (COO).
        Coords = "coords",
        /// Quantized elements packed into words.
        PackedWeight = "packed_weight",
        /// One scale per group.
        Scales = "scales",
        /// One zero point per group.
        Zeros = "zeros",
        /// Where each run of a blob lies in `blob_data`: pairs of offset and length.
        Entries = "entries",
        /// Bytes that entries point at: a heap.
        BlobData = "blob_data",
    }
}

impl Layout {
    /// The components without which a layout means nothing.
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
            // `zeros` may be left out by symmetric quantization, and real files do.
            Layout::QuantizedGroup => &[Role::PackedWeight, Role::Scales],
            // The heap is there where a record has entries, which the layout alone does not tell.
            Layout::Records => &[Role::Data],
            Layout::Blob => &[Role::Entries, Role::BlobData],
            Layout::Other(_) => &[],
        }
    }

    /// Whether its elements are worked out of what is stored, as `f32`: groups and blocks.
    pub fn is_computed(&self) -> bool {
        matches!(self, Layout::QuantizedGroup | Layout::Blocks(_))
    }
}

/// One stored run of bytes of a tensor, and how to read it.
#[derive(Debug, Clone, PartialEq)]
pub struct Component {
    /// What it is to its tensor.
    pub role: Role,
    /// Storage element type.
    pub dtype: DType,
    /// Meaning beyond storage; `None` when the elements are just `dtype`.
    pub logical_type: Option<LogicalType>,
    /// How stored bytes become decoded bytes.
    pub encoding: Encoding,
    /// Order of bytes within an element of the decoded bytes as stored. Reading always gives little.
    pub byte_order: ByteOrder,
    /// Where the stored bytes are.
    pub stored: Extent,
    /// Bytes after decoding. `None` where neither the file nor the shape tells (compressed sparse
    /// components of zTensor 0.1 to 1.1): only decoding does.
    pub decoded_len: Option<u64>,
    /// Digest of the stored bytes.
    pub digest: Option<Digest>,
}

impl Component {
    /// A run of bytes that is part of no tensor: a file of a package, say.
    pub fn of_bytes(stored: Extent, encoding: Encoding, decoded_len: u64) -> Component {
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

    /// Bytes on disk.
    pub fn stored_len(&self) -> u64 {
        self.stored.len()
    }
}
