//! The data model: the contents of any tensor file, whatever its format.

pub mod attributes;
pub mod block;
pub mod builder;
mod checksum;
mod digest;
mod dtype;
pub mod group;
mod index;
mod interner;
mod nearest;
pub mod plane;
#[cfg(feature = "digests")]
pub mod sha256;
mod shape;
mod tensor;

pub use crate::codec::Encoding;
pub use attributes::{Attributes, Value};
pub use block::BlockType;
pub use builder::IndexBuilder;
pub use checksum::{Checksum, Coverage};
pub use digest::{Algorithm, Digest, Hasher, crc32_combine, crc32c, crc32c_combine};
pub use dtype::{ByteOrder, DType, LogicalType};
pub use index::{Index, Row, RowKind, TensorInfo, Tensors, Warning};
pub use nearest::nearest;
pub use shape::{element_count, stored_size};
pub use tensor::{Component, Layout, Role};
